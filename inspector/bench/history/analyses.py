"""The part of a kernel's report that the history keeps: figures to compare later ones with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from ...model import KernelReport

FIGURES = (
    "vgpr_count", "vgpr_allocated", "agpr_count", "sgpr_count", "vgpr_spill_count",
    "sgpr_spill_count", "scratch_bytes", "lds_bytes", "code_bytes", "instruction_count",
    "waves_per_workgroup", "occupancy.waves_per_eu", "occupancy.workgroups_per_cu",
    "launch.matrix_us", "time.us", "time.measured_us", "time.bound_share",
)  # fmt: skip
"""Metrics of the kernel as a whole that are kept."""
HOT_COUNTS = (
    "instructions", "valu", "salu", "mfma", "wmma", "global_load", "global_store", "lds_read",
    "lds_write", "lds_direct", "scratch_load", "scratch_store", "acc_move", "nop", "wait",
    "full_wait", "barrier",
)  # fmt: skip
"""Classes of instructions that are counted in the hot loops, without the prefix `count.`."""
HOT = "hot_loops.count."
"""Prefix of their sums over the hot loops, per iteration; 0 without a hot loop, as for rules."""
FINDINGS = "findings."
"""Prefix of the numbers of findings by severity."""


class AnalysedKernel(Struct, frozen=True):
    """A kernel's specialisation with its figures."""

    kernel: str  # the kernel's name
    identity: str  # what is the same for it in another run: file, name, arch, options
    arch: str | None  # gfx name
    case: str | None  # name of the case; None where there is none
    config: Mapping[str, Any]  # options and constexprs
    figures: Mapping[str, float]  # metric -> value; what is unknown is not in it
    findings: Mapping[str, int] | None = None  # severity -> how many; None if no rules were asked


class Analysis(Struct, frozen=True):
    """One run of `analyze` or `lint`, to be kept."""

    date: str  # ISO 8601 in UTC
    label: str | None  # a commit, or what the user calls it
    command: str  # the command that made the run
    target: str  # as the user named it
    versions: Mapping[str, str | None]  # name -> version, of kinspect, triton, …
    units: Mapping[str, str]  # metric -> unit
    kernels: Sequence[AnalysedKernel]  # at least one


class AnalysisRun(Struct, frozen=True):
    """A run as it was kept, without its kernels: `kernels` is how many."""

    id: int
    date: str
    label: str | None
    command: str
    target: str
    versions: Mapping[str, str | None]
    archs: tuple[str, ...]
    kernels: int


class Sighting(Struct, frozen=True):
    """A kernel in one of the runs that were kept; `units` are those of its figures."""

    run: int
    date: str
    label: str | None
    units: Mapping[str, str]
    kernel: AnalysedKernel


def analysed(
    report: KernelReport, findings: Mapping[str, int] | None = None
) -> tuple[AnalysedKernel, dict[str, str]]:
    """The kept part of a report, and the units of its figures."""
    figures: dict[str, float] = {}
    units: dict[str, str] = {}
    for name in FIGURES:
        metric = report.metrics.get(name)
        value = _number(metric.value) if metric is not None else None
        if metric is not None and value is not None:
            figures[name], units[name] = value, metric.unit
    hot = [loop for loop in report.loops if loop.hot]
    for word in HOT_COUNTS:
        metrics = [loop.metrics.get(f"count.{word}") for loop in hot]
        values = [_number(m.value) for m in metrics if m is not None]
        known_values = [v for v in values if v is not None]
        if f"count.{word}" in report.metrics and len(known_values) == len(hot):
            figures[HOT + word], units[HOT + word] = sum(known_values), "instructions"
    variant = report.variant
    config: dict[str, Any] = {}
    if variant is not None:
        config |= {k: v for k, v in variant.constexprs.items() if v is not None}
        config |= dict(variant.options)
    kernel = AnalysedKernel(
        kernel=report.name,
        identity=report.id,
        arch=report.arch,
        case=variant.case if variant is not None else None,
        config=config,
        figures=figures,
        findings=findings,
    )
    return kernel, units


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def value_of(kernel: AnalysedKernel, metric: str) -> float | None:
    """A figure by its name; `findings.error` and the like count as such."""
    if metric.startswith(FINDINGS):
        finding_counts = kernel.findings
        return None if finding_counts is None else finding_counts.get(metric.removeprefix(FINDINGS))
    return kernel.figures.get(metric)
