"""The columns of the kernels' table: their figures, and how these are formatted and coloured."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Mapping, Sequence

from msgspec import Struct

from ....inspector.base.errors import KinspectError
from ....inspector.explain.view import file_name, place
from ....inspector.model import MetricValue
from ...session import SEVERITIES, SessionKernel
from ...widgets.bars import Piece
from ...widgets.table import ColumnHead

UNKNOWN = "-"
Value = int | float | str | None
_WIDEST_ACCESS = 128  # bits per lane


class KernelColumn(Struct, frozen=True):
    """A column of the table.

    Attributes:
        name: its name in filters, sorting and saved settings.
        about: one line for the menu of columns, with the unit.
        width: of the figure, in cells.
        better: 1 where more is better, -1 where less is, 0 where neither is.
        range_form: formats the two figures of a range; None: as `form` does.
        bar_maximum: returns the figure at which the bar beside it is full; None: there is no bar.
        shows_maximum: whether that figure stands after the kernel's.
        draw: returns the cell in place of the formatted figure; None: the figure is drawn.
    """

    name: str
    title: str
    about: str
    width: int
    read: Callable[[SessionKernel], Value]
    better: int = 0
    form: Callable[[float], str] = lambda number: f"{number:g}"
    range_form: Callable[[float], str] | None = None
    style: Callable[[Value], str] = lambda value: ""
    bar_maximum: Callable[[SessionKernel], float | None] | None = None
    shows_maximum: bool = False
    draw: Callable[[SessionKernel], tuple[Piece, ...]] | None = None
    right: bool = True

    @property
    def has_numbers(self) -> bool:
        return self.right and self.draw is None

    def head(self, bars: int, deltas: int = 1, *, known: bool = True) -> ColumnHead:
        """The column for the table.

        Args:
            bars: cells of a bar.
            deltas: cells of what differs from the baseline or the run before.
            known: whether any row has the figure; a column of dashes is as wide as its title.
        """
        if not known:
            return ColumnHead(self.name, self.title, len(self.title), self.right)
        width = self.width + (bars if self.bar_maximum is not None else 0)
        extra = deltas if self.has_numbers else 1
        title = self.title + " " * (self.right and len(self.title) <= width and extra)
        return ColumnHead(self.name, title, width + extra, self.right)


def number(value: MetricValue) -> int | float | None:
    """A metric's value if it is a number, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value


def _metric(name: str) -> Callable[[SessionKernel], Value]:
    return lambda entry: number(entry.metric(name))


def _of_kernel(name: str) -> Callable[[SessionKernel], Value]:
    def read(entry: SessionKernel) -> Value:
        metric = entry.report.metrics.get(name)
        return number(metric.value) if metric is not None else None

    return read


def _text(name: str) -> Callable[[SessionKernel], Value]:
    def read(entry: SessionKernel) -> Value:
        metric = entry.report.metrics.get(name)
        return metric.value if metric is not None and isinstance(metric.value, str) else None

    return read


def _load_bits(entry: SessionKernel) -> Value:
    """Mean bits per lane of global loads, else of direct loads to LDS.

    Only loads of the main loop count or, where it has none, of the whole kernel.
    """
    report = entry.report
    regions = [loop.metrics for loop in report.loops if loop.id == report.main_loop]
    for metrics in (*regions, report.metrics):
        for kind in ("global_load", "lds_direct"):
            metric = metrics.get(f"vector_bits.{kind}.mean")
            if metric is not None and number(metric.value) is not None:
                return number(metric.value)
    return None


def _matrix(entry: SessionKernel) -> Value:
    """MFMA and WMMA instructions together; None where neither count is known."""
    counted = [number(entry.metric(name)) for name in ("count.mfma", "count.wmma")]
    return sum(n for n in counted if n is not None) if any(n is not None for n in counted) else None


def _findings(entry: SessionKernel) -> Value:
    """Findings as one sortable number: an error outweighs all warnings, a warning all notes."""
    total = 0
    for severity in SEVERITIES:
        total = total * 1000 + min(999, entry.count(severity))
    return total


def counts(entry: SessionKernel) -> tuple[Piece, ...]:
    """Counts of findings by severity, coloured; a dot for none."""
    tallies = [(entry.count(severity), severity) for severity in SEVERITIES]
    return tuple(((str(n) if n else "·").rjust(3), name if n else "dim") for n, name in tallies)


def _dim(value: Value) -> str:
    return "dim"


def _error_if_any(value: Value) -> str:
    return "error" if value else ""


def _width_style(value: Value) -> str:
    """The style of an access's width: half the widest or more is fine."""
    narrow = isinstance(value, int | float) and value < _WIDEST_ACCESS / 2
    return "warning" if narrow else ""


@functools.cache
def most_waves(arch: str | None) -> int | None:
    """The most waves that one SIMD of a target holds."""
    if arch is None:
        return None
    from ....inspector import machines  # late: reading its YAML would delay the first paint

    try:
        return machines.load(arch).max_waves
    except KinspectError:
        return None


def kib(size: float) -> str:
    """A size in bytes as a short text: `512 B`, `1.5K`."""
    return f"{size:g} B" if size < 1024 else f"{round(size / 1024, 1):g}K"


def _whole_kib(size: float) -> str:
    """A size in bytes as a shorter text, for a range of two: `512 B`, `2K`."""
    return f"{size:g} B" if size < 1024 else f"{size / 1024:.0f}K"


_ARCH = KernelColumn(
    "arch",
    "arch",
    "the target",
    8,
    lambda entry: entry.report.arch or None,
    style=_dim,
    right=False,
)
COLUMNS: Mapping[str, KernelColumn] = {
    column.name: column
    for column in (
        KernelColumn(
            "findings",
            "findings",
            "errors, warnings and notes; of a folded row those of the worst",
            9,
            _findings,
            -1,
            draw=counts,
        ),
        KernelColumn(
            "time",
            "time µs",
            "time of a launch by the timing model, µs",
            8,
            _of_kernel("time.us"),
            -1,
            form=lambda us: f"{us:.3g}" if us < 1000 else f"{us:,.0f}",
        ),
        KernelColumn(
            "occ",
            "waves/SIMD",
            "resident waves per SIMD, of the most that it can hold",
            6,
            _of_kernel("occupancy.waves_per_eu"),
            1,
            bar_maximum=lambda entry: most_waves(entry.report.arch),
            shows_maximum=True,
        ),
        KernelColumn(
            "vec",
            "load bits",
            "mean bits per lane of the main loop's global loads, of 128",
            5,
            _load_bits,
            1,
            form=lambda bits: f"{bits:.0f}",
            style=_width_style,
            bar_maximum=lambda entry: _WIDEST_ACCESS,
        ),
        KernelColumn(
            "waits",
            "full waits",
            "waits of the main loop that let a counter fall to 0, per iteration",
            9,
            _metric("count.full_wait"),
            -1,
        ),
        KernelColumn(
            "vgpr", "VGPRs", "VGPRs per lane, AGPRs included", 7, _of_kernel("vgpr_count"), -1
        ),
        KernelColumn(
            "lds",
            "LDS",
            "LDS per workgroup, bytes",
            8,
            _of_kernel("lds_bytes"),
            -1,
            form=kib,
            range_form=_whole_kib,
        ),
        KernelColumn(
            "spill",
            "spills",
            "VGPRs spilled to scratch",
            6,
            _of_kernel("vgpr_spill_count"),
            -1,
            style=_error_if_any,
        ),
        _ARCH,
        KernelColumn("matrix", "MFMA", "MFMA or WMMA instructions per iteration", 6, _matrix),
        KernelColumn(
            "cycles",
            "cycles",
            "cycles for which those occupy the SIMD's matrix unit, per iteration",
            8,
            _metric("cycles.mfma"),
        ),
        KernelColumn(
            "share",
            "MFMA %",
            "matrix instructions of all in the main loop, per cent",
            6,
            _metric("matrix.share"),
            1,
            form=lambda ratio: f"{ratio * 100:.0f}%",
        ),
        KernelColumn(
            "valu", "VALU", "vector instructions per iteration", 8, _metric("count.valu"), -1
        ),
        KernelColumn(
            "lvec",
            "LDS bits",
            "mean bits per lane of an LDS read in the main loop, of 128",
            5,
            _metric("vector_bits.lds_read.mean"),
            1,
            form=lambda bits: f"{bits:.0f}",
            style=_width_style,
            bar_maximum=lambda entry: _WIDEST_ACCESS,
        ),
        KernelColumn(
            "barriers", "barriers", "barriers per iteration", 8, _metric("count.barrier"), -1
        ),
        KernelColumn("agpr", "AGPRs", "accumulation VGPRs per lane", 6, _of_kernel("agpr_count")),
        KernelColumn("sgpr", "SGPRs", "SGPRs per wave", 6, _of_kernel("sgpr_count"), -1),
        KernelColumn(
            "scratch",
            "scratch",
            "scratch bytes per lane",
            7,
            _of_kernel("scratch_bytes"),
            -1,
            form=kib,
            range_form=_whole_kib,
            style=_error_if_any,
        ),
        KernelColumn(
            "limiter",
            "limited by",
            "what keeps more waves from being resident",
            11,
            _text("occupancy.limiter"),
            style=_dim,
            right=False,
        ),
        KernelColumn(
            "groups",
            "wg/CU",
            "resident workgroups per CU (WGP)",
            6,
            _of_kernel("occupancy.workgroups_per_cu"),
            1,
        ),
        KernelColumn(
            "waves", "waves/wg", "waves per workgroup", 8, _of_kernel("waves_per_workgroup")
        ),
        KernelColumn(
            "code",
            "code",
            "machine code, bytes",
            6,
            _of_kernel("code_bytes"),
            -1,
            form=kib,
            range_form=_whole_kib,
        ),
        KernelColumn(
            "insns", "instructions", "instructions", 12, _of_kernel("instruction_count"), -1
        ),
        KernelColumn(
            "grid", "workgroups", "workgroups of the launch", 10, _of_kernel("grid.workgroups")
        ),
        KernelColumn(
            "launches",
            "launches",
            "launches seen while the script ran",
            8,
            lambda entry: entry.report.variant.launches if entry.report.variant else None,
        ),
        KernelColumn(
            "file", "file", "where it was read from", 22, lambda e: file_name(e.path), right=False
        ),
        KernelColumn(
            "source",
            "source",
            "where the kernel begins",
            22,
            lambda entry: place(entry.report.source) or None,
            right=False,
        ),
    )
}
DEFAULT = ("findings", "time", "occ", "vec", "waits", "vgpr", "lds", "spill", "arch")
_EXTRA = ("matrix", "cycles", "lvec", "valu", "limiter", "barriers", "agpr", "code", "source")
"""Columns that are added, in this order, where there is room and the user chose none."""
_ROOMY = 48
"""Cells that stay free for the first column when columns of `_EXTRA` are added."""
# Other names that filters accept -> name of the column.
ALIASES: Mapping[str, str] = {
    "vgprs": "vgpr",
    "agprs": "agpr",
    "sgprs": "sgpr",
    "spills": "spill",
    "occupancy": "occ",
    "bits": "vec",
    "full": "waits",
    "full_waits": "waits",
    "mfma": "matrix",
    "wmma": "matrix",
    "instructions": "insns",
}


def chosen(
    names: Sequence[str], width: int, bars: int, known: Container[str]
) -> tuple[KernelColumn, ...]:
    """The columns that were chosen by name, ignoring unknown names, or else those that fit well."""
    columns = tuple(COLUMNS[name] for name in dict.fromkeys(names) if name in COLUMNS)
    return columns or tuple(COLUMNS[name] for name in fitting(width, bars, known))


def fitting(width: int, bars: int, known: Container[str]) -> tuple[str, ...]:
    """Names of the columns for a table `width` cells wide where the user chose none."""
    names = [name for name in DEFAULT if name in known]
    free_cells = width - _ROOMY - sum(COLUMNS[name].head(bars).width + 1 for name in names)
    for name in _EXTRA:
        if name not in known:
            continue
        free_cells -= COLUMNS[name].head(bars).width + 1
        if free_cells < 0:
            break
        names.append(name)
    return tuple(names)
