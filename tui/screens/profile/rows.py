"""What of a report was measured, as rows: picked out of its metrics, nothing is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kinspect.inspector.model import KernelReport, Metric, MetricValue
from kinspect.inspector.render import view
from kinspect.tui.session import Entry

UNKNOWN = "-"
STATIC: Sequence[tuple[str, str]] = (
    ("waves/EU", "occupancy.waves_per_eu"),
    ("VGPRs", "vgpr_count"),
    ("spills", "vgpr_spill_count"),
    ("MFMA cycles", "cycles.mfma"),
    ("full waits", "count.full_wait"),
)
"""What stands beside the measured figures: of the main loop where it has it, else of the kernel."""
POINT = ("roofline.flops_per_byte", "roofline.flops_per_s")
"""The measured metrics that place a kernel in a roofline plot."""
ROOF = ("roofline.peak_flops_per_s", "roofline.peak_bytes_per_s")
"""Those that draw the roof."""


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel in a roofline plot: operations per byte, operations per second."""

    name: str
    intensity: float
    rate: float


@dataclass(frozen=True, slots=True)
class Roof:
    """What the device can do at most: operations and bytes per second."""

    rate: float
    bandwidth: float


def measured(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """Those that were measured, in their order."""
    return {name: m for name, m in metrics.items() if m.origin == "measured"}


def has_measured(report: KernelReport) -> bool:
    """Whether anything of the kernel or its loops was measured."""
    return bool(measured(report.metrics)) or any(measured(loop.metrics) for loop in report.loops)


def columns(entries: Iterable[Entry]) -> dict[str, str]:
    """The measured metrics of all kernels and their units, in the order in which they come."""
    found: dict[str, str] = {}
    for entry in entries:
        for name, metric in measured(entry.report.metrics).items():
            found.setdefault(name, metric.unit)
    return found


def show(value: MetricValue) -> str:
    """A figure as text; `-` where it is not known."""
    if value is None:
        return UNKNOWN
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {one}" for key, one in value.items())
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def row(entry: Entry, names: Iterable[str]) -> list[str]:
    """A kernel's row: its name, target, the measured metrics named, the static ones."""
    metrics = entry.report.metrics
    seen = [metrics[n].value if n in metrics else None for n in names]
    return [
        entry.report.name,
        entry.report.arch or UNKNOWN,
        *(show(value) for value in seen),
        *(show(entry.metric(name)) for _, name in STATIC),
        view.findings_summary(entry.report.findings),
    ]


def detail(entry: Entry) -> list[tuple[str, str]]:
    """Everything measured of a kernel and its loops, each with what the compiler's output says.

    Returns:
        Lines as (style, text): `title` for headings, `measured` and `static` for what they are,
        empty for the rest.
    """
    report = entry.report
    lines = [("title", f"{report.name}  {report.arch or UNKNOWN}")]
    lines += _measured_lines(report.metrics)
    lines += [("static", f"  {line}") for line in view.occupancy_lines(report)]
    for loop in report.loops:
        found = measured(loop.metrics)
        if found:
            lines += [("", ""), ("title", f"Loop {loop.id}   {view.loop_title(loop)}")]
            lines += _measured_lines(loop.metrics)
            card = view.scorecard(loop.metrics)
            lines += [("static", f"  {label:<14} {figure}") for label, figure in card]
    return lines


def _measured_lines(metrics: Mapping[str, Metric]) -> list[tuple[str, str]]:
    found = measured(metrics)
    width = max(map(len, found), default=0)
    return [
        (
            "measured",
            f"  {name:<{width}}  {show(m.value):>12} {m.unit}".rstrip()
            + (f"   {m.note}" if m.note else ""),
        )
        for name, m in found.items()
    ]


def points(entries: Iterable[Entry]) -> list[Point]:
    """The kernels that a roofline plot can place."""
    found = []
    for entry in entries:
        values = [_number(entry.report.metrics, name) for name in POINT]
        if values[0] is not None and values[1] is not None:
            found.append(Point(entry.report.name, values[0], values[1]))
    return found


def roof(entries: Iterable[Entry]) -> Roof | None:
    """The roof of the device, if the kernels agree on one."""
    found = set()
    for entry in entries:
        values = [_number(entry.report.metrics, name) for name in ROOF]
        if values[0] is not None and values[1] is not None:
            found.add(Roof(values[0], values[1]))
    return found.pop() if len(found) == 1 else None


def _number(metrics: Mapping[str, Metric], name: str) -> float | None:
    metric = metrics.get(name)
    if metric is None or metric.origin != "measured":
        return None
    value = metric.value
    good = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return float(value) if good and isinstance(value, int | float) else None
