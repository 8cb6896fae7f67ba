"""The history of a thing through the passes, and LLVM's passes, as documents and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from ..compare.pass_costs import PassCost
from ..compare.passhistory import History, PassFigures, StateFigures
from ..compile.llvm_passes import MachinePass, PassTime
from ..present.document import (
    Code,
    Column,
    Columns,
    Document,
    Section,
    Span,
    paragraphs,
    table,
    words,
)

WIDEST = 150
"""Columns of an operation before it is cut."""
LONGEST = 10
"""Passes whose times are shown in text."""
MOST_COSTS = 15
"""Passes whose times and inputs are shown in text."""
_FIGURES = (
    ("convert_layout", "convert_layouts"),
    ("LDS B", "local_alloc_bytes"),
    ("load elements", "load_elements"),
    ("loops", "loops"),
    ("carried", "carried"),
)


def history_document(history: History) -> Document:
    """What each pass did to the thing, then the passes that changed the figures."""
    lines = []
    for event in history.events:
        deed = f"{event.name}: {event.deed}, {event.before} -> {event.after}"
        lines.append(f"{event.index:>3}  {event.stage}  {deed}")
        for sign, forms in (("-", event.gone), ("+", event.new)):
            lines += [f"       {sign} {form}"[:WIDEST] for form in forms]
    title = (Span(history.thing, "strong"), Span(f": {history.at_start} operations at first"))
    unread = f"{history.unread} states could not be parsed" if history.unread else ""
    columns: Columns = (
        (Column("#", right=True), lambda item: str(item.index)),
        ("stage", lambda item: item.stage),
        ("pass", lambda item: item.name),
        *((Column(title, right=True), _Change(name)) for title, name in _FIGURES),
    )
    figures = (Section((table(columns, history.figures),)),) if history.figures else ()
    return (Section((Code(tuple(lines)), *paragraphs((unread,))), title, is_subject=True), *figures)


class _Change:
    """The text of a figure before and after a pass; empty where the pass leaves it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, item: PassFigures) -> str:
        before, after = self._value(item.before), self._value(item.after)
        return "" if before == after else f"{before} -> {after}"

    def _value(self, figures: StateFigures) -> str:
        value = getattr(figures, self._name)
        return "?" if value is None else str(value)


def llvm_document(passes: Sequence[MachinePass], times: Sequence[PassTime]) -> Document:
    """The passes of LLVM's code generator that changed something, and the longest passes."""
    changed = [item for item in passes if item.changed is not False]
    return (Section((table(_LLVM, changed),)), Section((table(_TIMES, times[:LONGEST]),)))


def costs_document(stages: Mapping[str, float], costs: Sequence[PassCost]) -> Document:
    """CPU seconds of each stage, and the passes that take longest, with their inputs."""
    parts = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in stages.items())
    title = f"CPU time {sum(stages.values()):.2f} s: {parts}"
    return (
        Section((), words(title), is_subject=True),
        Section((table((*_TIMES, *_INPUTS), costs[:MOST_COSTS]),)),
    )


def costs_fields(stages: Mapping[str, float], costs: Sequence[PassCost]) -> dict[str, Any]:
    """The same as JSON values, of all passes."""
    passes = [{**to_builtins(cost), "microseconds_each": cost.microseconds_each} for cost in costs]
    return {"stages": stages, "passes": passes}


_TIMES: Columns = (
    ("longest passes", lambda item: item.name),
    ("in", lambda item: "LLVM" if item.level == "llvm" else "MLIR"),
    (Column("seconds", right=True), lambda item: f"{item.seconds:.3f}"),
    (Column("share", right=True), lambda item: f"{item.share:.0%}"),
)
_INPUTS: Columns = (
    (Column("runs", right=True, rank=1), lambda item: _count(item.runs)),
    (Column("operations", right=True), lambda item: _count(item.operations)),
    (
        Column("µs each", right=True),
        lambda item: "" if item.microseconds_each is None else f"{item.microseconds_each:.1f}",
    ),
    (
        Column("most of its input", shrinks=True),
        lambda item: ", ".join(f"{number:,} × {name}" for name, number in item.kinds.items()),
    ),
)
_LLVM: Columns = (
    (Column("#", right=True), lambda item: str(item.index)),
    ("pass", lambda item: item.cli),
    (Column("instructions", right=True, rank=1), lambda item: str(item.instructions)),
    (Column("live VGPRs", right=True), lambda item: _count(item.pressure)),
    (Column("VGPRs", right=True), lambda item: str(item.vgprs)),
    (Column("AGPRs", right=True), lambda item: str(item.agprs)),
    (Column("spill stores", right=True), lambda item: str(item.spill_stores)),
    (Column("reloads", right=True), lambda item: str(item.spill_reloads)),
)


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
