"""The rows of the profile page's table: measured kernels, filtered and sorted.

Kernels that an autotuner tried are folded under the one it kept. No figure is computed here: each
is the recording's or the report's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct

from ....inspector.explain import profile_view as words
from ....inspector.explain import quantities, recording_view, view
from ....inspector.model import KernelReport, Metric, MetricValue
from ....inspector.recording import KernelProfile, Profile
from ...session import SessionKernel
from ...widgets.bars import Piece, bar
from ...widgets.roofline import Point, Roof
from ...widgets.table_rows import Head, Row

UNKNOWN = quantities.UNKNOWN
BAR = 6  # cells of a bar
Value = float | str | None
SIGNS: Mapping[str, Piece] = {
    "exact": ("≡ ", "good"),
    "likely": ("≈ ", "info"),
    "ambiguous": ("? ", "warning"),
    "none": ("· ", "dim"),
}
"""Verdict of a match -> the sign before the kernel's name; the last column has it in words."""
STATIC_COLUMNS: Sequence[tuple[str, str]] = (
    ("waves/EU", "occupancy.waves_per_eu"),
    ("VGPRs", "vgpr_count"),
    ("spills", "vgpr_spill_count"),
    ("MFMA cycles", "cycles.mfma"),
    ("full waits", "count.full_wait"),
)
"""(title, static metric) shown beside measured figures of a saved report.

The metric is the main loop's or, where that lacks it, the kernel's.
"""
_COUNTER = "measured.counter."
_ROOFLINE = tuple(
    f"roofline.{name}"
    for name in ("flops_per_byte", "flops_per_s", "peak_flops_per_s", "peak_bytes_per_s")
)


class Line(Struct, frozen=True):
    """A measured kernel: one of a recording, or a saved report with measured figures.

    Attributes:
        key: identifies the line when the rows change under the cursor.
        name: the kernel's name.
        suffix: distinguishes it from other kernels of that name; "" if there are none.
        metrics: the measured metrics.
        kernel: the kernel in the recording; None for a saved report.
        entry: the saved report; None for a recording.
    """

    key: str
    name: str
    suffix: str
    metrics: Mapping[str, Metric]
    kernel: KernelProfile | None = None
    entry: SessionKernel | None = None

    @property
    def tried(self) -> bool:
        """Whether an autotuner ran it and did not keep it."""
        return self.kernel is not None and self.kernel.role == "autotune"

    @property
    def verdict(self) -> str:
        """The verdict on the match with an analysed kernel; "" for a saved report."""
        return self.kernel.match.verdict if self.kernel is not None else ""

    def number(self, name: str) -> float | None:
        """A measured metric; None if it is missing or no number."""
        metric = self.metrics.get(name)
        return _as_number(metric.value if metric is not None else None)


class Column(Struct, frozen=True):
    """A column after the kernel's name; it is left out if no row has a value for it.

    Attributes:
        name: its name for sorting.
        title: at its head.
        width: of the figure, in cells.
        read: returns a line's figure, to sort by; None where unknown.
        form: returns a line's figure as text.
        share: whether the figure is a percentage that a bar shows.
    """

    name: str
    title: str
    width: int
    read: Callable[[Line], Value]
    form: Callable[[Line], str]
    share: bool = False

    def head(self) -> Head:
        """The column for the table, with one cell kept free for the sort arrow."""
        width = max(self.width, len(self.title)) + 1 + (BAR + 1 if self.share else 0)
        return Head(self.name, f"{self.title} ", width, right=True)

    def cell(self, line: Line) -> tuple[Piece, ...]:
        """A row's figure."""
        text = f"{self.form(line)} "
        style = "dim" if text == f"{UNKNOWN} " else ""
        if not self.share:
            return ((text, style),)
        value = self.read(line)
        part = value / 100 if isinstance(value, float) else None
        return (*bar(part, BAR), (f"{text:>{max(self.width, len(self.title)) + 2}}", style))


# ------------------------------------------------------------------------- lines


def _as_number(value: MetricValue) -> float | None:
    """A value as a float; None if it is unknown, a text or a flag."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def measured(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """The metrics that were measured, in their order."""
    return {name: metric for name, metric in metrics.items() if metric.origin == "measured"}


def has_measured(report: KernelReport) -> bool:
    """Whether anything of the kernel or its loops was measured."""
    return bool(measured(report.metrics)) or any(measured(loop.metrics) for loop in report.loops)


def of_profile(profile: Profile) -> list[Line]:
    """The kernels of a recording, in its order: the most time first."""
    names = Counter(kernel.name for kernel in profile.kernels)
    devices = recording_view.device_names(profile)

    def distinction(kernel: KernelProfile) -> str:
        number = kernel.id.removeprefix(kernel.name) if names[kernel.name] > 1 else ""
        return " ".join(filter(None, (number, devices.get(kernel.shape.agent or "", ""))))

    return [
        Line(
            kernel.id,
            kernel.name,
            distinction(kernel),
            kernel.metrics,
            kernel=kernel,
        )
        for kernel in profile.kernels
    ]


def of_reports(entries: Iterable[SessionKernel]) -> list[Line]:
    """The reports that hold anything measured."""
    return [
        Line(
            entry.key,
            entry.report.name,
            " ".join(part for part in (entry.report.arch or UNKNOWN, entry.case) if part),
            measured(entry.report.metrics),
            entry=entry,
        )
        for entry in entries
        if has_measured(entry.report)
    ]


def point(line: Line) -> Point | None:
    """The kernel's point of the roofline; None where operations or bytes were not measured."""
    intensity, rate, peak_rate, bandwidth = (line.number(name) for name in _ROOFLINE)
    if not intensity or not rate or intensity <= 0 or rate <= 0:
        return None
    roof = None
    if peak_rate and bandwidth and min(peak_rate, bandwidth) > 0:
        roof = Roof(peak_rate, bandwidth)
    return Point(line.name, intensity, rate, roof)


# ------------------------------------------------------------------------- columns


def _time(line: Line, name: str) -> float | None:
    if line.kernel is not None:
        return line.kernel.total_ns if name == "total" else words.statistic(line.kernel, name)
    return line.number(f"measured.duration.{name}")


def _spread(line: Line) -> str:
    if line.kernel is not None:
        return words.time_range(line.kernel.duration)
    shortest, longest = _time(line, "min"), _time(line, "max")
    if shortest is None or longest is None:
        return UNKNOWN
    return f"{quantities.duration(shortest)} … {quantities.duration(longest)}"


def _dispatches(line: Line) -> float | None:
    if line.kernel is not None:
        return words.launch_count(line.kernel)
    return line.number("measured.dispatches")


def _shape(line: Line, name: str) -> float | None:
    return getattr(line.kernel.shape, name) if line.kernel is not None else None


def show(value: MetricValue) -> str:
    """A figure as text; `-` where it is not known."""
    return quantities.scaled(value)


def _count(read: Callable[[Line], Value], line: Line) -> str:
    value = read(line)
    return value if isinstance(value, str) else quantities.scaled(value)


def _percent(name: str, line: Line) -> str:
    value = line.number(name)
    return f"{value:.1f}" if value is not None else UNKNOWN


def _kib(read: Callable[[Line], Value], line: Line) -> str:
    value = read(line)
    return view.kib(int(value)) if isinstance(value, int | float) else UNKNOWN


def _metric(name: str) -> Callable[[Line], Value]:
    return lambda line: line.number(name)


def _timed(name: str, width: int = 8) -> Column:
    return Column(
        name, name, width, lambda line: _time(line, name),
        lambda line: quantities.duration(_time(line, name)),
    )  # fmt: skip


def _plain(name: str, title: str, read: Callable[[Line], Value], width: int = 4) -> Column:
    return Column(name, title, width, read, partial(_count, read))


def _share(name: str, title: str, *, bars: bool = False) -> Column:
    return Column(name, title, 5, _metric(name), partial(_percent, name), share=bars)


def _sized(name: str, title: str, read: Callable[[Line], Value]) -> Column:
    return Column(name, title, 9, read, partial(_kib, read))


COLUMNS: Sequence[Column] = (
    _share("measured.share_of_time", "% time", bars=True),
    _timed("total"),
    _plain("measured.dispatches", "dispatches", _dispatches),
    _timed("median"),
    Column("spread", "least … most", 18, lambda line: _time(line, "min"), _spread),
    _plain("vgpr", "VGPR", lambda line: _shape(line, "vgpr")),
    _plain("accum_vgpr", "AccVGPR", lambda line: _shape(line, "accum_vgpr") or None),
    _sized("lds_bytes", "LDS", lambda line: _shape(line, "lds_bytes")),
    _plain(
        "measured.occupancy.waves_per_eu", "waves/EU", _metric("measured.occupancy.waves_per_eu")
    ),
    _share("measured.mfma_busy", "MFMA %"),
    _share("measured.lds.conflict_percent", "LDS confl. %"),
    _share("measured.l2_hit", "L2 hit %"),
    _share("measured.share.memory", "memory %"),
    Column("match", "analysed", 9, lambda line: line.verdict or None, lambda line: line.verdict),
)
"""The columns of every recording; other metrics measured in a saved report follow them."""
_OTHER_COLUMNS = frozenset(
    {
        *(column.name for column in COLUMNS),
        *_ROOFLINE,
        *(f"measured.duration.{name}" for name in ("median", "mean", "min", "max", "total")),
    }
)
NAME = Column("kernel", "kernel", 0, lambda line: line.name, lambda line: line.name)


def columns(lines: Sequence[Line]) -> list[Column]:
    """The columns in which any row has a value."""
    present = [column for column in COLUMNS if any(column.read(line) is not None for line in lines)]
    if not any(line.entry is not None for line in lines):
        return present
    extra: dict[str, str] = {}
    for line in lines:
        for name, metric in line.metrics.items():
            if name not in _OTHER_COLUMNS and not name.startswith(_COUNTER):
                extra.setdefault(name, metric.unit)
    for name, unit in extra.items():
        title = f"{name.removeprefix('measured.')} {'' if unit == 'count' else unit}".rstrip()
        present.append(_plain(name, title, _metric(name), 8))
    for title, name in STATIC_COLUMNS:
        present.append(_plain(f"static.{name}", f"{title} (static)", partial(_static, name)))
    return present


def _static(name: str, line: Line) -> Value:
    """A static metric of a saved report; None if it is unknown or no number."""
    return _as_number(line.entry.metric(name) if line.entry is not None else None)


# ------------------------------------------------------------------------- rows


def filtered(lines: Sequence[Line], text: str, *, tried: bool) -> list[Line]:
    """The lines that contain all words of a filter.

    Args:
        lines: all lines.
        text: the filter's words, separated by blanks.
        tried: whether to include kernels that an autotuner only tried; if there are no others,
            they are included anyway.
    """
    needles = text.lower().split()
    tried = tried or all(line.tried for line in lines)
    return [
        line
        for line in lines
        if (tried or not line.tried)
        and all(needle in f"{line.name}{line.suffix} {line.verdict}".lower() for needle in needles)
    ]


def ordered(lines: Sequence[Line], column: Column | None, *, down: bool) -> list[Line]:
    """Lines sorted by a column, unknown figures last, and tried kernels under the one kept.

    Args:
        lines: the lines.
        column: None leaves their order.
        down: whether to sort in descending order.
    """

    def sort_key(line: Line) -> tuple[bool, float | str]:
        value = column.read(line) if column is not None else 0.0
        return (value is None) is not down, value if value is not None else 0.0

    if column is NAME or (column is not None and column.name == "match"):
        rows = sorted(lines, key=lambda line: str(column.read(line)), reverse=down)
    else:
        rows = sorted(lines, key=sort_key, reverse=down) if column is not None else list(lines)
    tried_by_name: dict[str, list[Line]] = {}
    mains = {line.name for line in rows if not line.tried}
    for line in rows:
        if line.tried and line.name in mains:
            tried_by_name.setdefault(line.name, []).append(line)
    placed: list[Line] = []
    for line in rows:
        if line.tried and line.name in mains:
            continue
        placed.append(line)
        if not line.tried:
            placed += tried_by_name.pop(line.name, ())
    return placed


def row(line: Line, shown_columns: Sequence[Column], *, folded: bool) -> Row:
    """A line as a row of the table.

    Args:
        line: the measured kernel.
        shown_columns: the columns to fill.
        folded: whether the row is indented under the kernel that the tuner kept.
    """
    sign = SIGNS.get(line.verdict, ("", ""))
    first: list[Piece] = [(" ", "")]
    if folded:
        first.append(("└ ", "dim"))
    first += [sign, (line.name, "name"), (f" {line.suffix}" if line.suffix else "", "dim")]
    cells = tuple(column.cell(line) for column in shown_columns)
    return Row(tuple(first), cells, faded=line.tried)
