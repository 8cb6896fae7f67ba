"""How long launches take, as a document: where the time goes, and what would save some of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ..explain import time_view, view
from ..model import KernelReport
from ..model.time import BOUNDS, KernelTime, LoopTime, StallReason
from ..report.json_write import plain
from . import kernel as of_kernel
from .document import (
    Block,
    Column,
    Document,
    Figure,
    Figures,
    Paragraph,
    Section,
    Span,
    Table,
    table,
    words,
)

SCHEMA_VERSION: Final = 1
_SAVINGS: Final = (
    ("what it would take with one cost gone", False),
    ("at the most, with all of a kind gone", True),
)
_MOST_SAVINGS: Final = 5
_MOST_LINES: Final = 8


def document(kernels: Sequence[KernelReport], measured_us: float | None) -> Document:
    """The time of each kernel: how long, what limits it, where it goes, what would save some.

    `measured_us`: microseconds of a launch as measured; None where it was not.
    """
    return tuple(section for kernel in kernels for section in _sections(kernel, measured_us))


def fields(kernels: Sequence[KernelReport], measured_us: float | None) -> dict[str, Any]:
    """JSON values: `kernels`.

    Each has its id, name, arch, `time` (as in reports; null where it is not known), `loop_times`,
    `measured_us` and `no_time`: the reason why there is no time.
    """
    listed = [
        {
            "id": kernel.id,
            "name": kernel.name,
            "arch": kernel.arch,
            "time": None if kernel.time is None else plain(kernel.time),
            "loop_times": plain(kernel.loop_times),
            "measured_us": measured_us,
            "no_time": kernel.no_time or None,
        }
        for kernel in kernels
    ]
    return {"schema_version": SCHEMA_VERSION, "kernels": listed}


def _sections(kernel: KernelReport, measured_us: float | None) -> Iterator[Section]:
    time = kernel.time
    if time is None:
        reason = Paragraph(words(f"no time: {kernel.no_time}", "warning"))
        yield Section((reason,), of_kernel.title(kernel), is_subject=True)
    else:
        yield Section(tuple(_estimate(time, measured_us)), of_kernel.title(kernel), is_subject=True)
        yield Section((Figures(tuple(_stalls(time))),))
        if time.lines:
            yield Section((_lines(time),))
    if told := [loop for loop in kernel.loop_times if loop.cycles is not None]:
        yield Section(tuple(_loops(told)), words("what an iteration takes", "strong"))
    if time is not None:
        yield from _savings(time)


def _estimate(time: KernelTime, measured_us: float | None) -> Iterator[Block]:
    warm = ""
    if time.warm_us is not None:
        warm = f"; {time_view.amount(time.warm_us)} with the data in the Infinity Cache"
    limited = Span(f"  limited by {time.limiter}{warm}")
    yield Paragraph((Span(time_view.estimate(time), "strong"), limited))
    launch = (
        f"{time.gpu}: {time.cycles:,.0f} cycles at {time.mhz:,.0f} MHz,"
        f" {view.plural(time.workgroups, 'workgroup')}, up to {time.rounds:,} on a compute unit,"
        f" {time.resident} at a time"
    )
    yield Paragraph(words(launch))
    yield Paragraph(words(f"units busy: {time_view.busy_units(time)}"))
    if measured_us is not None:
        yield Paragraph(words(time_view.against(time, measured_us), "strong"))


def _stalls(time: KernelTime) -> Iterator[Figure]:
    for stall in time.stalls:
        share = words(_percent(stall.share))
        yield Figure(time_view.STALLS[stall.reason], share, min(stall.share, 1.0))


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _lines(time: KernelTime) -> Table:
    return table(
        (
            (Column("", right=True), lambda row: _percent(row.share)),
            (Column("where the time goes"), lambda row: _reason(row.reason)),
            (
                Column("", shrinks=True),
                lambda row: view.place(row.source) if row.source else f"code line {row.line}",
            ),
        ),
        time.lines[:_MOST_LINES],
    )


def _reason(reason: StallReason) -> str:
    return time_view.STALLS[reason]


def _loops(loops: Sequence[LoopTime]) -> Iterator[Paragraph]:
    return (Paragraph(words(time_view.iteration(loop))) for loop in loops)


def _savings(time: KernelTime) -> Iterator[Section]:
    for title, are_bounds in _SAVINGS:
        savings = [saving for saving in time.savings if (saving.change in BOUNDS) == are_bounds]
        if savings:
            rows = table(
                (
                    (Column("", right=True), lambda saving: f"{-saving.percent:.0f} %"),
                    (Column("", right=True), lambda saving: time_view.amount(saving.us)),
                    (Column(title), time_view.change_of),
                ),
                savings[:_MOST_SAVINGS],
            )
            yield Section((rows,))
    if time.assumed:
        yield Section((Paragraph(words(f"assumed: {'; '.join(time.assumed)}", "weak")),))
