"""Puts the figures of a kernel's emulation into words."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Emulated, KernelReport, number_of
from . import view
from .quantities import amount

_MAX_FAULTS = 4
_MAX_CLASSES = 8


def emulated_lines(kernel: KernelReport) -> list[str]:
    """Lines on a kernel's emulation: a title, figures and faults; empty without an emulation."""
    emulated = kernel.emulated
    if emulated is None:
        return []
    return [_title(emulated), *_figures(kernel), *_faults(emulated)]


def _title(emulated: Emulated) -> str:
    grid = emulated.grid_workgroups
    executed = view.plural(emulated.workgroups, "workgroup")
    title = f"Emulated: {executed}{f' of {grid:,}' if emulated.workgroups < grid else ''}"
    if not emulated.made_up:
        return f"{title}, contents of all tensors known"
    integers = [dtype for dtype in emulated.made_up if "float" not in dtype]
    words = f"{view.plural(len(emulated.made_up), 'tensor')} with made-up contents"
    if integers:
        words += f", {len(integers)} of them of integers: what these decide is not known"
    return f"{title}, {words}"


def _figures(kernel: KernelReport) -> Iterator[str]:

    def figure(name: str) -> float | None:
        return number_of(kernel.metrics, f"emulated.{name}")

    yield _instructions(kernel)
    trips = []
    for loop in kernel.loops:
        count, share = (number_of(loop.metrics, f"emulated.{name}") for name in ("trips", "share"))
        if count is not None:
            trips.append(f"{loop.id} {_number(count)} ({_number(share)} % of instructions)")
    if trips:
        yield f"  iterations of loops: {', '.join(trips)}"
    flops, intensity = figure("flops"), figure("flops_per_byte")
    moved = (
        f"  distinct bytes: {_amount(figure('unique_read'), 'B')} read, "
        f"{_amount(figure('unique_written'), 'B')} written"
    )
    if flops and intensity is not None:
        moved += f"; {_amount(flops, 'flop')}, {_number(intensity)} for each"
    yield moved
    parts = []
    if (lanes := figure("active_lanes")) is not None:
        parts.append(f"{_number(lanes)} % of lanes active in accesses")
    if (excess := figure("line_excess")) is not None:
        parts.append(f"{excess:.2f} × the least cache lines")
    if conflicts := figure("lds.conflict_cycles"):
        parts.append(f"{_number(conflicts)} cycles of LDS bank conflicts for each wave")
    if divided := figure("divided_branches"):
        parts.append(f"{_number(divided)} % of branches with lanes divided")
    if (imbalance := figure("imbalance")) is not None and imbalance > 1:
        parts.append(f"the busiest workgroup executes {imbalance:.2f} × the median one")
    if parts:
        yield f"  {'; '.join(parts)}"


def _instructions(kernel: KernelReport) -> str:
    counts = {
        name.removeprefix("emulated.count."): metric.value
        for name, metric in kernel.metrics.items()
        if name.startswith("emulated.count.") and isinstance(metric.value, int | float)
    }
    by_class = ", ".join(
        f"{name} {_number(count)}"
        for name, count in sorted(counts.items(), key=lambda item: -item[1])[:_MAX_CLASSES]
    )
    total = number_of(kernel.metrics, "emulated.instructions")
    return f"  a wave executes {_number(total)} instructions: {by_class}"


def _faults(emulated: Emulated) -> Iterator[str]:
    for fault in emulated.faults[:_MAX_FAULTS]:
        yield f"  {fault.kind.replace('_', ' ')} at line {fault.line}: {fault.detail}"
    if len(emulated.faults) > _MAX_FAULTS:
        yield f"  and {len(emulated.faults) - _MAX_FAULTS} more (--format json)"


def _number(value: float | None) -> str:
    if value is None:
        return view.show(None)
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _amount(value: float | None, unit: str) -> str:
    return view.show(None) if value is None else amount(value, unit)
