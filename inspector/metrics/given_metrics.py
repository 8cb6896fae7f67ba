"""The catalogue of metrics that a profiler measures; their values come from a recording.

The catalogue of metrics that the emulator counts; their values come from an execution. The
catalogue of metrics that the timing model gives; their values come with a launch's time.
"""

from __future__ import annotations

from .entries import of_both, of_kernels, of_loops

SPECS = (
    *of_kernels(
        {
            "measured.dispatches": "count | Dispatches of the passes that have times, warm-up "
            "included",
            "measured.duration.median": "ns | Median time of a dispatch, warm-up left out",
            "measured.duration.mean": "ns | Mean time of a dispatch, warm-up left out",
            "measured.duration.min": "ns | Time of the shortest dispatch, warm-up left out",
            "measured.duration.max": "ns | Time of the longest dispatch, warm-up left out",
            "measured.duration.total": "ns | Time of all dispatches, warm-up left out",
            "measured.bound_share": "% | Least time of the launch's matrix work "
            "(`launch.matrix_us`) as a share of the shortest dispatch's, where that has as many "
            "workgroups; over 100 is impossible",
            "measured.share_of_time": "% | Share of the time of all kernels, warm-up included",
            "measured.counter.*": "count | A counter's mean per dispatch, in the unit that it has",
            "measured.occupancy.waves_per_eu": "waves/SIMD | Mean number of waves that a SIMD held",
            "measured.occupancy.percent": "% | The same as a share of the most that it can hold",
            "measured.mfma_busy": "% | Share of time in which the matrix units worked",
            "measured.valu_busy": "% | Share of time in which the vector units worked",
            "measured.lds.conflict_percent": "% | Share of time that the LDS lost to bank "
            "conflicts",
            "measured.lds.conflicts_per_access": "ratio | LDS cycles lost to bank conflicts per "
            "cycle of the same accesses without them",
            "measured.l2_hit": "% | Share of L2 cache requests that hit",
            "measured.read_bytes": "bytes | Bytes that a dispatch read from beyond L2",
            "measured.write_bytes": "bytes | Bytes that a dispatch wrote beyond L2",
            "measured.flops": "flop | Floating-point operations per dispatch, matrix and vector; "
            "all lanes taken as active",
            "measured.share.mfma": "% | Achieved share of the matrix units' peak rate",
            "measured.share.lds": "% | Achieved share of the LDS's peak rate, conflicts left out",
            "measured.share.memory": "% | Achieved share of the memory's peak bandwidth",
            "measured.span_cycles": "cycles | From a trace's first wave to the end of its last",
            "measured.stalls.*": "% | Share of a thread trace's stall cycles at one kind of "
            "instruction",
            "measured.clock_mhz": "MHz | Mean clock during the kernel",
            "roofline.flops_per_byte": "flop/byte | Operations per byte of memory traffic",
            "roofline.flops_per_s": "flop/s | Achieved floating-point operations per second",
            "roofline.peak_flops_per_s": "flop/s | The most that the device can do of the same mix",
            "roofline.peak_bytes_per_s": "bytes/s | Peak bandwidth of the device's memory",
        },
        "measured",
    ),
    *of_both(
        {
            "measured.hits": "count | How often traced waves issued the instructions",
            "measured.latency_cycles": "cycles | Cycles of traced waves stalled and issuing "
            "(gfx10+: executing)",
            "measured.stall_cycles": "cycles | Cycles in which traced waves could not go on",
            "measured.samples": "count | PC samples that fell on the instructions",
            "measured.stall_share": "% | Share of the kernel's stall cycles, or of its stalled "
            "samples",
        },
        "measured",
    ),
)


EMULATED_SPECS = (
    *of_kernels(
        {
            "emulated.workgroups": "count | Workgroups of the captured launch that were executed",
            "emulated.instructions": "instructions/wave | Instructions that a wave executed, mean",
            "emulated.count.*": "instructions/wave | The same by class: valu, salu, mfma, wmma, "
            "lds, global, smem, branch, wait, …",
        },
        "emulated",
    ),
    *of_loops(
        {
            "emulated.trips": "count | Iterations for each time that a wave entered the loop, mean",
            "emulated.share": "% | Share of the executed instructions that are in the loop, "
            "nested loops left out",
        },
        "emulated",
    ),
    *of_kernels(
        {
            "emulated.active_lanes": "% | Share of lanes that took part in accesses of memory, "
            "mean",
            "emulated.divided_branches": "% | Share of executed branches on lane masks that found "
            "a wave's lanes divided",
            "emulated.unique_read": "bytes | Distinct bytes of global memory that the workgroups "
            "read",
            "emulated.unique_written": "bytes | Distinct bytes that they wrote",
            "emulated.flops": "flop | Floating-point operations of these workgroups, matrix and "
            "vector; all lanes taken as active",
            "emulated.flops_per_byte": "flop/byte | These operations per distinct byte: at most "
            "this, where no other workgroup shares it",
            "emulated.line_excess": "ratio | Cache lines that accesses of global memory touched "
            "over the least that hold their bytes",
            "emulated.lds.conflict_cycles": "cycles/wave | Cycles that LDS bank conflicts add to "
            "what a wave executes, by the model of banks",
            "emulated.lds.conflicts_per_access": "cycles | The same for each executed access of "
            "LDS, mean",
            "emulated.imbalance": "ratio | Instructions of the workgroup that executed most over "
            "the median workgroup's",
            "emulated.faults": "count | Places that did what code must not do: races in LDS, "
            "uncovered loads, …",
            "emulated.counter.*": "count | What a hardware counter has to show for the launch, in "
            "the profiler's unit",
        },
        "emulated",
    ),
)


US = "time.us"
SHARE = "time.share"
MEMORY = "time.memory"
TIME_SPECS = (
    *of_kernels(
        {
            US: "us | Time of the launch by the timing model",
        },
        "estimated",
    ),
    *of_loops(
        {
            SHARE: "% | Share of the launch's time that goes to the loop's instructions, nested "
            "loops left out",
            MEMORY: "% | Share of the loop's own time in which its waves wait for loads and stores",
        },
        "estimated",
    ),
)
