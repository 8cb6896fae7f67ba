"""The catalogue of metrics that the emulator counts; their values come from an execution."""

from __future__ import annotations

from ..model import MetricSpec


def _kernel(name: str, unit: str, description: str) -> MetricSpec:
    return MetricSpec(name, unit, "emulated", "kernel", description)


SPECS = (
    _kernel("emulated.workgroups", "count", "Workgroups of the captured launch that were executed"),
    _kernel(
        "emulated.instructions", "instructions/wave", "Instructions that a wave executed, mean"
    ),
    _kernel(
        "emulated.count.*",
        "instructions/wave",
        "The same by class: valu, salu, mfma, wmma, lds, global, smem, branch, wait, …",
    ),
    MetricSpec(
        "emulated.trips",
        "count",
        "emulated",
        "loop",
        "Iterations for each time that a wave entered the loop, mean",
    ),
    MetricSpec(
        "emulated.share",
        "%",
        "emulated",
        "loop",
        "Share of the executed instructions that are in the loop, nested loops left out",
    ),
    _kernel(
        "emulated.active_lanes", "%", "Share of lanes that took part in accesses of memory, mean"
    ),
    _kernel(
        "emulated.divided_branches",
        "%",
        "Share of executed branches on lane masks that found a wave's lanes divided",
    ),
    _kernel(
        "emulated.unique_read", "bytes", "Distinct bytes of global memory that the workgroups read"
    ),
    _kernel("emulated.unique_written", "bytes", "Distinct bytes that they wrote"),
    _kernel(
        "emulated.flops",
        "flop",
        "Floating-point operations of these workgroups, matrix and vector; all lanes taken as "
        "active",
    ),
    _kernel(
        "emulated.flops_per_byte",
        "flop/byte",
        "These operations per distinct byte: at most this, where no other workgroup shares it",
    ),
    _kernel(
        "emulated.line_excess",
        "ratio",
        "Cache lines that accesses of global memory touched over the least that hold their bytes",
    ),
    _kernel(
        "emulated.lds.conflict_cycles",
        "cycles/wave",
        "Cycles that LDS bank conflicts add to what a wave executes, by the model of banks",
    ),
    _kernel(
        "emulated.lds.conflicts_per_access",
        "cycles",
        "The same for each executed access of LDS, mean",
    ),
    _kernel(
        "emulated.imbalance",
        "ratio",
        "Instructions of the workgroup that executed most over the median workgroup's",
    ),
    _kernel(
        "emulated.faults",
        "count",
        "Places that did what code must not do: races in LDS, uncovered loads, …",
    ),
    _kernel(
        "emulated.counter.*",
        "count",
        "What a hardware counter has to show for the launch, in the profiler's unit",
    ),
)
