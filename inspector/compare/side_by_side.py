"""The figures of two reports of a kernel side by side: of the kernel, and of its main loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from ..model import KernelReport, Metric, MetricValue

KERNEL_FIGURES = (
    "vgpr_count",
    "arch_vgpr_count",
    "agpr_count",
    "vgpr_allocated",
    "sgpr_count",
    "vgpr_spill_count",
    "sgpr_spill_count",
    "lds_bytes",
    "scratch_bytes",
    "occupancy.waves_per_eu",
    "occupancy.workgroups_per_cu",
    "code_bytes",
    "instruction_count",
)
WORK_FIGURES = ("work.macs", "work.loaded")
"""Work of the source in one ISA iteration; loops that are unrolled differently differ in it."""
LOOP_FIGURES = (
    *WORK_FIGURES,
    "count.instructions",
    "count.mfma",
    "count.wmma",
    "count.full_wait",
    "count.scratch_load",
    "count.scratch_store",
    "cycles.mfma",
)


class FigurePair(Struct, frozen=True):
    """One figure on both sides. `scope` is the kernel or its main loop, per ISA iteration."""

    name: str
    unit: str
    scope: Literal["kernel", "main loop"]
    left: MetricValue
    right: MetricValue

    @property
    def same(self) -> bool:
        return self.left == self.right


def side_by_side(left: KernelReport | None, right: KernelReport | None) -> tuple[FigurePair, ...]:
    """The figures of two reports; nothing where one is missing.

    Counts by class are those that are not 0 on both sides. The main loops are those that each
    report names; a figure of a loop that a side does not have is None.
    """
    if left is None or right is None:
        return ()
    classes = sorted({n for n in (*left.metrics, *right.metrics) if n.startswith("count.")})
    figures = list(_figures(KERNEL_FIGURES, left.metrics, right.metrics, "kernel"))
    figures += [
        f for f in _figures(classes, left.metrics, right.metrics, "kernel") if _is_counted(f)
    ]
    left_loop, right_loop = _main_loop(left), _main_loop(right)
    if left_loop or right_loop:
        figures += [
            f for f in _figures(LOOP_FIGURES, left_loop, right_loop, "main loop") if _is_counted(f)
        ]
    return tuple(figures)


def _is_counted(figure: FigurePair) -> bool:
    """Tells whether a figure is there, and not 0, on either side."""
    return bool(figure.left or figure.right)


def _figures(
    names: Iterable[str],
    left: Mapping[str, Metric],
    right: Mapping[str, Metric],
    scope: Literal["kernel", "main loop"],
) -> Iterator[FigurePair]:
    for name in names:
        metrics = [m for m in (left.get(name), right.get(name)) if m is not None]
        if metrics:
            a, b = (m[name].value if name in m else None for m in (left, right))
            yield FigurePair(name=name, unit=metrics[0].unit, scope=scope, left=a, right=b)


def _main_loop(report: KernelReport) -> Mapping[str, Metric]:
    return next((loop.metrics for loop in report.loops if loop.id == report.main_loop), {})
