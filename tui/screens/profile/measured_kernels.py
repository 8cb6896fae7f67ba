"""The table of the profile page: its measured kernels, their filter, their columns as text, and the
order by a column.

No figure is computed here: each is the recording's or the report's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ....inspector.explain import profile_view, quantities, view
from ....inspector.model import KernelReport, Metric, MetricValue
from ....inspector.model.recording import KernelProfile, KernelShape, Profile
from ...session import SessionKernel
from ...widgets.bars import Piece, bar
from ...widgets.code import word_filter
from ...widgets.roofline import DeviceRoof, RooflinePoint
from ...widgets.table import ColumnHead, TableRow

ROOFLINE_METRICS = tuple(
    f"roofline.{name}"
    for name in ("flops_per_byte", "flops_per_s", "peak_flops_per_s", "peak_bytes_per_s")
)
"""Metrics of a kernel's point in the roofline plot: its place, then its roof."""


class KernelRow(Struct, frozen=True):
    """A measured kernel: one of a recording, or a saved report with measured figures.

    Attributes:
        key: identifies the row when the table changes under the cursor.
        suffix: distinguishes it from other kernels of that name; "" if there are none.
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
        return as_number(metric.value if metric is not None else None)


def as_number(value: MetricValue) -> float | None:
    """A value as a float; None if it is unknown, a text or a flag."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def measured_metrics(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    return {name: metric for name, metric in metrics.items() if metric.origin == "measured"}


def has_measured(report: KernelReport) -> bool:
    regions = (report.metrics, *(loop.metrics for loop in report.loops))
    return any(measured_metrics(metrics) for metrics in regions)


def of_profile(profile: Profile) -> list[KernelRow]:
    """The kernels of a recording, in its order: the most time first."""
    names = Counter(kernel.name for kernel in profile.kernels)
    devices = profile_view.device_names(profile)

    def distinction(kernel: KernelProfile) -> str:
        number = kernel.id.removeprefix(kernel.name) if names[kernel.name] > 1 else ""
        return " ".join(filter(None, (number, devices.get(kernel.shape.agent or "", ""))))

    return [
        KernelRow(kernel.id, kernel.name, distinction(kernel), kernel.metrics, kernel=kernel)
        for kernel in profile.kernels
    ]


def of_reports(entries: Iterable[SessionKernel]) -> list[KernelRow]:
    """The reports that hold anything measured."""
    return [
        KernelRow(
            entry.key,
            entry.report.name,
            " ".join(
                part for part in (entry.report.arch or quantities.UNKNOWN, entry.case) if part
            ),
            measured_metrics(entry.report.metrics),
            entry=entry,
        )
        for entry in entries
        if has_measured(entry.report)
    ]


def point(row: KernelRow) -> RooflinePoint | None:
    """The kernel's point of the roofline; None where operations or bytes were not measured."""
    intensity, rate, peak_rate, bandwidth = (row.number(name) for name in ROOFLINE_METRICS)
    if not intensity or not rate or intensity <= 0 or rate <= 0:
        return None
    roof = None
    if peak_rate and bandwidth and min(peak_rate, bandwidth) > 0:
        roof = DeviceRoof(peak_rate, bandwidth)
    return RooflinePoint(row.name, intensity, rate, roof)


def filtered(rows: Sequence[KernelRow], text: str, *, tried: bool) -> list[KernelRow]:
    has_words = word_filter(text)
    tried = tried or all(row.tried for row in rows)
    return [
        row
        for row in rows
        if (tried or not row.tried) and has_words(f"{row.name}{row.suffix} {row.verdict}")
    ]


_BAR_CELLS = 6
Value = float | str | None
Read = Callable[[KernelRow], Value]
SIGNS: Mapping[str, Piece] = {
    "exact": ("≡ ", "good"),
    "likely": ("≈ ", "info"),
    "ambiguous": ("? ", "warning"),
    "none": ("· ", "dim"),
}
"""Verdict of a match -> the sign before the kernel's name; the last column has it in words."""
_STATIC_COLUMNS: Sequence[tuple[str, str]] = (
    ("waves/SIMD", "occupancy.waves_per_eu"),
    ("VGPRs", "vgpr_count"),
    ("spills", "vgpr_spill_count"),
    ("MFMA cycles", "cycles.mfma"),
    ("full waits", "count.full_wait"),
)
"""(title, static metric) shown beside measured figures of a saved report.

The metric is the main loop's or, where that lacks it, the kernel's.
"""
_COUNTER = "measured.counter."


class ProfileColumn(Struct, frozen=True):
    """A column after the kernel's name; it is left out if no row has a value for it.

    Attributes:
        name: its name for sorting.
        width: of the figure, in cells.
        read: returns a row's figure, to sort by; None where unknown. Texts are sorted from A to Z.
        form: formats the figure.
        is_share: whether the figure is a percentage that a bar shows.
        text: returns a row's figure as text, in place of `form`; None where unknown.
    """

    name: str
    title: str
    width: int
    read: Read
    form: Callable[[Any], str] = str
    is_share: bool = False
    text: Callable[[KernelRow], str | None] | None = None

    def head(self) -> ColumnHead:
        """The column for the table, with one cell kept free for the sort arrow."""
        width = max(self.width, len(self.title)) + 1 + (_BAR_CELLS + 1 if self.is_share else 0)
        return ColumnHead(self.name, f"{self.title} ", width, right=True)

    def cell(self, row: KernelRow) -> tuple[Piece, ...]:
        value = self.read(row)
        known = self.form(value) if value is not None else None
        if self.text is not None:
            known = self.text(row)
        text, style = (f"{known} ", "") if known is not None else (f"{quantities.UNKNOWN} ", "dim")
        if not self.is_share:
            return ((text, style),)
        part = value / 100 if isinstance(value, float) else None
        width = max(self.width, len(self.title)) + 2
        return (*bar(part, _BAR_CELLS), (f"{text:>{width}}", style))


def _time(row: KernelRow, name: str) -> float | None:
    """A kernel's time in ns: the total, or a statistic of its dispatches."""
    if row.kernel is None:
        return row.number(f"measured.duration.{name}")
    if name == "total":
        return row.kernel.total_ns
    return profile_view.statistic(row.kernel, name)


def _spread(row: KernelRow) -> str | None:
    """The least and the most time of a dispatch."""
    if row.kernel is not None:
        times = row.kernel.duration
        return profile_view.time_range(times) if times is not None else None
    shortest, longest = _time(row, "min"), _time(row, "max")
    if shortest is None or longest is None:
        return None
    return f"{quantities.duration(shortest)} … {quantities.duration(longest)}"


def _dispatches(row: KernelRow) -> float | None:
    if row.kernel is not None:
        return profile_view.launch_count(row.kernel)
    return row.number("measured.dispatches")


def _of_shape(read: Callable[[KernelShape], int | None]) -> Read:
    return lambda row: read(row.kernel.shape) if row.kernel is not None else None


def _metric(name: str) -> Read:
    return lambda row: row.number(name)


def _static(name: str) -> Read:
    """Reads a static metric of a saved report; None if it is unknown or no number."""
    return lambda row: as_number(row.entry.metric(name) if row.entry is not None else None)


def _scaled(name: str, title: str, read: Read, width: int = 4) -> ProfileColumn:
    return ProfileColumn(name, title, width, read, quantities.scaled)


def _duration(name: str) -> ProfileColumn:
    return ProfileColumn(name, name, 8, lambda row: _time(row, name), quantities.duration)


def _share(name: str, title: str, *, is_share: bool = False) -> ProfileColumn:
    return ProfileColumn(name, title, 5, _metric(name), "{:.1f}".format, is_share)


_WAVES = "measured.occupancy.waves_per_eu"
COLUMNS: Sequence[ProfileColumn] = (
    _share("measured.share_of_time", "% time", is_share=True),
    _duration("total"),
    _scaled("measured.dispatches", "dispatches", _dispatches),
    _duration("median"),
    ProfileColumn("spread", "least … most", 18, lambda row: _time(row, "min"), text=_spread),
    _scaled("vgpr", "VGPR", _of_shape(lambda shape: shape.vgpr)),
    _scaled("accum_vgpr", "AccVGPR", _of_shape(lambda shape: shape.accum_vgpr or None)),
    ProfileColumn("lds_bytes", "LDS", 9, _of_shape(lambda shape: shape.lds_bytes), view.kib),
    _scaled(_WAVES, "waves/SIMD", _metric(_WAVES)),
    _share("measured.mfma_busy", "MFMA %"),
    _share("measured.lds.conflict_percent", "LDS confl. %"),
    _share("measured.l2_hit", "L2 hit %"),
    _share("measured.share.memory", "memory %"),
    ProfileColumn("match", "analysed", 9, lambda row: row.verdict or None),
)
"""The columns of every recording; other metrics measured in a saved report follow them."""
_SHOWN_ELSEWHERE = frozenset(
    {
        *(column.name for column in COLUMNS),
        *ROOFLINE_METRICS,
        *(f"measured.duration.{name}" for name in ("median", "mean", "min", "max", "total")),
    }
)
NAME = ProfileColumn("kernel", "kernel", 0, lambda row: row.name)


def columns(rows: Sequence[KernelRow]) -> list[ProfileColumn]:
    present = [column for column in COLUMNS if any(column.read(row) is not None for row in rows)]
    if not any(row.entry is not None for row in rows):
        return present
    extra: dict[str, str] = {}
    for row in rows:
        for name, metric in row.metrics.items():
            if name not in _SHOWN_ELSEWHERE and not name.startswith(_COUNTER):
                extra.setdefault(name, metric.unit)
    for name, unit in extra.items():
        title = f"{name.removeprefix('measured.')} {'' if unit == 'count' else unit}".rstrip()
        present.append(_scaled(name, title, _metric(name), 8))
    for title, name in _STATIC_COLUMNS:
        present.append(_scaled(f"static.{name}", f"{title} (static)", _static(name)))
    return present


def is_text(column: ProfileColumn, rows: Sequence[KernelRow]) -> bool:
    """Whether a column has texts, which are sorted from A to Z at first."""
    return any(isinstance(column.read(row), str) for row in rows)


def ordered(
    rows: Sequence[KernelRow], column: ProfileColumn | None, *, down: bool
) -> list[KernelRow]:
    """Rows sorted by a column, unknown figures last, and tried kernels under the one kept."""

    def sort_key(row: KernelRow) -> tuple[bool, float | str]:
        value = column.read(row) if column is not None else 0.0
        return (value is None) is not down, value if value is not None else 0.0

    if column is None:
        return _folded(rows)
    if is_text(column, rows):
        return _folded(sorted(rows, key=lambda row: str(column.read(row)), reverse=down))
    return _folded(sorted(rows, key=sort_key, reverse=down))


def _folded(rows: Sequence[KernelRow]) -> list[KernelRow]:
    """Rows with those that an autotuner tried below the first row of the kernel that it kept."""
    tried_by_name: dict[str, list[KernelRow]] = {}
    kept_names = {row.name for row in rows if not row.tried}
    for row in rows:
        if row.tried and row.name in kept_names:
            tried_by_name.setdefault(row.name, []).append(row)
    placed: list[KernelRow] = []
    for row in rows:
        if row.tried and row.name in kept_names:
            continue
        placed.append(row)
        if not row.tried:
            placed += tried_by_name.pop(row.name, ())
    return placed


def table_row(row: KernelRow, shown_columns: Sequence[ProfileColumn], *, folded: bool) -> TableRow:
    first: list[Piece] = [(" ", "")]
    if folded:
        first.append(("└ ", "dim"))
    sign = SIGNS.get(row.verdict, ("", ""))
    first += [sign, (row.name, "name"), (f" {row.suffix}" if row.suffix else "", "dim")]
    return TableRow(
        tuple(first), tuple(column.cell(row) for column in shown_columns), faded=row.tried
    )
