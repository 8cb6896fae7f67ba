"""A sweep as a document: a table per kernel and target of the columns that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TextIO

from ..base.errors import KinspectError
from ..compare.sweep.figures import COLUMNS, Work
from ..compare.sweep.swept_points import Objective, Sweep, SweepTable, TableLine
from ..compare.sweep.table import distinction, grid_stays
from ..compare.times import EQUAL
from ..explain import time_view, view
from . import text
from .document import Block, Column, Document, Paragraph, Section, Span, table, words

FIGURES: Final = (
    *("time_us", "vgpr_spills", "waves_per_eu", "vgprs", "lds_bytes", "limiter"),
    *("scratch_in_loops", "full_waits_per_iteration", "matrix_per_iteration", "matrix_efficiency"),
    *("agprs", "sgprs", "scratch_per_work", "matrix_cycles_per_work", "full_waits_per_work"),
    "code_bytes",
)
"""The figures that a table shows where they differ; the last go first where it is too wide."""
MARK: Final = "*"
DOUBT: Final = "?"
"""Marks points of which an objective is unknown: nothing can be said to beat them."""
_WORK: Final[Mapping[Work | None, tuple[str, str]]] = {
    "mac": (
        "MMAC",
        "per million multiply-accumulates that the source's dots need in the main loop (M·N·K),"
        " of all waves of the workgroup together: what waves repeat or tiles pad is no work",
    ),
    "element": (
        "kelem",
        "per thousand elements that the source loads as tiles in the main loop, or in the kernel"
        " where it has none, all waves of the workgroup together",
    ),
}
"""Kind of needed work -> what a column's heading calls it, and what that means."""
_NONE: Final = "–"
_MOST_NOTE: Final = 72
_NO_FRACTION_FROM: Final = 1000
"""Figures per work from here on are shown without a fraction."""
_PER_WORK: Final = frozenset({"scratch_per_work", "matrix_cycles_per_work", "full_waits_per_work"})
_SIZES: Final = frozenset({"lds_bytes", "code_bytes", "scratch_bytes"})
_FACTS: Final = "They are facts of the compiled code, not a ranking."
_TIMES: Final = (
    f"time: estimated; two that differ by less than {100 * EQUAL:.0f} % are equal. Measure the"
    " first few."
)
_SAME_GRID: Final = (
    "time: all points of {kernel} have the same grid although constants differ; where the grid has"
    " to follow a tile, they do different work: state it as a function of the constants (HIP:"
    " KINSPECT_LAUNCH grid=N/TILE)"
)


def write(
    sweep: Sweep, stream: TextIO, *, columns: Sequence[str] = (), color: bool | None = None
) -> None:
    """Prints a sweep; see `document`."""
    text.show(document(sweep, columns), stream, color)


def document(sweep: Sweep, columns: Sequence[str] = ()) -> Document:
    """The tables of a sweep, then what its columns and marks mean, and how many points there are.

    Without `columns` the figures that differ are shown.
    """
    tables = (_table(one, sweep.tables, columns) for one in sweep.tables)
    notes = (*_notes(sweep, columns), summary(sweep))
    return (*tables, Section(tuple(Paragraph(words(note, "weak")) for note in notes)))


def chosen(names: str | None) -> tuple[str, ...]:
    """The columns that `--columns` names.

    Raises:
        KinspectError: one is unknown.
    """
    known = tuple(column.name for column in COLUMNS)
    if names is None:
        return ()
    if names == "all":
        return known
    wanted = tuple(name.strip() for name in names.split(",") if name.strip())
    for name in wanted:
        if name not in known:
            raise KinspectError(f"there is no column {name}", f"all, or some of {', '.join(known)}")
    return wanted


def summary(sweep: Sweep) -> str:
    """Returns in words how many points were compiled, stored, failed or are missing."""
    counts = sweep.counts
    parts = [f"{view.plural(counts.done, 'point')} in {sweep.seconds:.1f} s"]
    parts.append(f"{counts.from_store} from the store")
    if counts.failed:
        parts.append(f"{counts.failed} failed")
    if counts.missing is None:
        parts.append("interrupted before all points were known")
    elif counts.missing:
        parts.append(f"{counts.missing} missing")
    return ", ".join(parts)


def _table(one: SweepTable, tables: Sequence[SweepTable], columns: Sequence[str]) -> Section:
    """A table; its title names the attributes that distinguish it from the other tables."""
    name = f"{one.kernel}[{one.case}]" if one.case else one.kernel
    about = (one.arch, view.file_name(one.file), " ".join(one.types), *distinction(one, tables))
    title = (Span(name, "strong"), Span("".join(f"  {part}" for part in about if part)))
    unit, is_timed = _unit(one), any(map(_is_timed, one.lines))
    shown = columns or _differing(one, unit)
    ranks = {figure: 0 if columns else place for place, figure in enumerate(FIGURES)}
    points = table(
        (
            (Column("", right=True), lambda line: "" if is_timed else _mark(line)),
            (Column("#", right=True, rank=len(FIGURES)), lambda line: str(line.number)),
            *((Column(name, right=True), _value(name)) for name in one.names),
            *((_column(name, unit, ranks.get(name, 0)), _figure_of(name)) for name in shown),
            (Column("remark", shrinks=True), lambda line: _remark(line, is_timed)),
        ),
        one.lines,
        lambda line: "strong" if line.pareto and not is_timed else "",
    )
    blocks: list[Block] = [points]
    if not columns and (same := _equal_figures(one, shown, unit)):
        blocks.append(Paragraph(words(f"the same at all points: {same}", "weak")))
    return Section(tuple(blocks), title, is_subject=True)


def _notes(sweep: Sweep, columns: Sequence[str]) -> Iterator[str]:
    lines = [line for one in sweep.tables for line in one.lines]
    for one in sweep.tables:
        unit = _unit(one)
        if unit is not None and any(name in _PER_WORK for name in columns or _differing(one, unit)):
            yield f"/{_WORK[unit][0]}: {_WORK[unit][1]}"
            break
    if any(map(_is_timed, lines)):
        yield _TIMES
    elif len(reasons := {_no_time(line) for line in lines}) == 1 and (reason := reasons.pop()):
        yield f"no time: {reason}"
    for one in filter(grid_stays, sweep.tables):
        yield _SAME_GRID.format(kernel=one.kernel)
    untimed = [one for one in sweep.tables if not any(map(_is_timed, one.lines))]
    for objectives in dict.fromkeys(one.objectives for one in untimed if one.objectives):
        yield f"{MARK} {_front(objectives)}"
    if any(line.pareto and line.unknown for one in untimed for line in one.lines):
        yield (
            f"{DOUBT} one of these is unknown of the point: no other point can be said to beat it,"
            " nor it another"
        )
    yield from (f"not captured: {error.message}" for error in sweep.errors)
    yield from (f"note: {note}" for note in sweep.notes)


def _unit(one: SweepTable) -> Work | None:
    return next((o.work for o in one.objectives if o.work is not None), None)


def _known(one: SweepTable, unit: Work | None) -> list[str]:
    """The figures that say something of a table: those per work only where they are objectives."""
    objectives = {objective.column for objective in one.objectives} if unit is not None else set()
    return [name for name in FIGURES if name not in _PER_WORK or name in objectives]


def _texts(one: SweepTable, name: str) -> set[str]:
    return {_figure(line, name) for line in one.lines if line.row.figures is not None}


def _differing(one: SweepTable, unit: Work | None) -> list[str]:
    """The time, where one is known, and the figures that are not the same at all points."""
    return [
        name
        for name in _known(one, unit)
        if (name == "time_us" and any(map(_is_timed, one.lines)))
        or (name != "time_us" and len(_texts(one, name)) > 1)
    ]


def _equal_figures(one: SweepTable, shown: Sequence[str], unit: Work | None) -> str:
    """`VGPRs 32, LDS 0 B`: what is equal at all points, and known."""
    told = []
    for name in _known(one, unit):
        texts = _texts(one, name)
        if name not in shown and len(texts) == 1 and not texts <= {view.UNKNOWN, _NONE, ""}:
            told.append(f"{_column(name, unit, 0).title} {next(iter(texts))}")
    return ", ".join(told)


def _column(name: str, unit: Work | None, rank: int) -> Column:
    title = next(column.title for column in COLUMNS if column.name == name)
    if name in _PER_WORK and unit is not None:
        title = f"{title.partition('/')[0]}/{_WORK[unit][0]}"
    return Column(title, right=name != "limiter", rank=rank)


def _value(name: str) -> Callable[[TableLine], str]:
    return lambda line: view.show(line.values[name])


def _figure_of(name: str) -> Callable[[TableLine], str]:
    return lambda line: _figure(line, name)


def _is_timed(line: TableLine) -> bool:
    return line.row.figures is not None and line.row.figures.time_us is not None


def _no_time(line: TableLine) -> str | None:
    return line.row.figures.no_time if line.row.figures is not None else None


def _mark(line: TableLine) -> str:
    if not line.pareto:
        return ""
    return DOUBT if line.unknown else MARK


def _figure(line: TableLine, name: str) -> str:
    figures = line.row.figures
    if figures is None:
        return ""
    value: Any = getattr(figures, name)
    if name in _SIZES:
        return view.kib(value)
    if name == "time_us" and value is not None:
        return time_view.amount(value)
    if value is None:
        # Per iteration of a loop that is not there.
        return _NONE if name.endswith("_per_iteration") else view.UNKNOWN
    if name in _PER_WORK:
        return f"{value:.0f}" if value >= _NO_FRACTION_FROM else f"{value:.4g}"
    return view.show(value)


def _remark(line: TableLine, is_timed: bool) -> str:
    """Why a point failed, cannot launch or has no time where others do; or what it is equal to."""
    row = line.row
    if row.error is not None:
        told = f"failed in {row.error.stage}: {row.error.message}"
    elif row.figures is not None and row.figures.cannot_launch is not None:
        told = f"cannot launch: {row.figures.cannot_launch}"
    elif is_timed and row.figures is not None and row.figures.no_time:
        told = f"no time: {row.figures.no_time}"
    elif line.same_as is not None:
        told = f"same code as #{line.same_as}"
    else:
        return ""
    told = " ".join(told.split())
    return told if len(told) <= _MOST_NOTE else f"{told[: _MOST_NOTE - 1]}…"


def _front(objectives: tuple[Objective, ...]) -> str:
    *others, last = (objective.text for objective in objectives)
    aims = f"{', '.join(others)} and {last}" if others else last
    return (
        "on the Pareto front: no other point is at least as good in all of these and better in"
        f" one: {aims}. {_FACTS}"
    )
