"""The catalogue of metrics that the emulator counts; their values come from an execution."""

from __future__ import annotations

from .entries import of_kernels, of_loops

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
