"""The history of a thing through the passes, and LLVM's passes, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from msgspec import to_builtins

from ..compare.pass_costs import PassCost
from ..compare.passhistory import History, PassFigures, StateFigures
from ..compile.llvm_passes import MachinePass, PassTime
from ..explain.table import Column, rows_of

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


def write_history(history: History, form: str, stream: TextIO) -> None:
    """Writes what each pass did to the thing, then the passes that changed the figures."""
    if form == "json":
        json.dump(to_builtins(history), stream, indent=1)
        stream.write("\n")
        return
    for line in _history(history):
        stream.write(line + "\n")


def _history(history: History) -> Iterator[str]:
    yield f"{history.thing}: {history.at_start} operations before the first pass"
    for event in history.events:
        yield (
            f"  {event.index:>3}  {event.stage}  {event.name}: {event.deed},"
            f" {event.before} -> {event.after}"
        )
        for sign, forms in (("-", event.gone), ("+", event.new)):
            for form in forms:
                yield f"         {sign} {_cut(form)}"
    if history.unread:
        yield f"  {history.unread} states could not be parsed"
    if history.figures:
        yield ""
        yield from rows_of(
            [
                Column("#", lambda item: str(item.index), right=True),
                Column("stage", lambda item: item.stage),
                Column("pass", lambda item: item.name),
                *(Column(title, _Change(name), right=True) for title, name in _FIGURES),
            ],
            history.figures,
        )


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


def _cut(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."


def write_llvm(
    passes: Sequence[MachinePass], times: Sequence[PassTime], form: str, stream: TextIO
) -> None:
    """Writes the passes of LLVM's code generator that changed something, and the longest passes."""
    if form == "json":
        document = {"passes": to_builtins(list(passes)), "times": to_builtins(list(times))}
        json.dump(document, stream, indent=1)
        stream.write("\n")
        return
    for line in rows_of(_LLVM, [item for item in passes if item.changed is not False]):
        stream.write(line + "\n")
    stream.write("\n")
    for line in rows_of(_TIMES, times[:LONGEST]):
        stream.write(line + "\n")


def write_costs(
    stages: Mapping[str, float], costs: Sequence[PassCost], form: str, stream: TextIO
) -> None:
    """Writes the CPU time of each stage, and the passes that take longest with their inputs.

    Args:
        stages: stage -> CPU seconds.
        costs: of all passes, the longest first.
        form: `text` or `json`.
        stream: where to.
    """
    if form == "json":
        passes = [
            {**to_builtins(cost), "microseconds_each": cost.microseconds_each} for cost in costs
        ]
        json.dump({"stages": dict(stages), "passes": passes}, stream, indent=1)
        stream.write("\n")
        return
    total = sum(stages.values())
    parts = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in stages.items())
    stream.write(f"CPU time {total:.2f} s: {parts}\n\n")
    for line in rows_of(_COSTS, costs[:MOST_COSTS]):
        stream.write(line + "\n")


_COSTS = [
    Column("longest passes", lambda item: item.name),
    Column("in", lambda item: "LLVM" if item.level == "llvm" else "MLIR"),
    Column("seconds", lambda item: f"{item.seconds:.3f}", right=True),
    Column("share", lambda item: f"{item.share:.0%}", right=True),
    Column("runs", lambda item: "" if item.runs is None else str(item.runs), right=True),
    Column(
        "operations",
        lambda item: "" if item.operations is None else f"{item.operations:,}",
        right=True,
    ),
    Column(
        "µs each",
        lambda item: "" if item.microseconds_each is None else f"{item.microseconds_each:.1f}",
        right=True,
    ),
    Column(
        "most of its input",
        lambda item: ", ".join(f"{number:,} × {name}" for name, number in item.kinds.items()),
    ),
]
_LLVM = [
    Column("#", lambda item: str(item.index), right=True),
    Column("pass", lambda item: item.cli),
    Column("instructions", lambda item: str(item.instructions), right=True),
    Column(
        "live VGPRs", lambda item: "" if item.pressure is None else str(item.pressure), right=True
    ),
    Column("VGPRs", lambda item: str(item.vgprs), right=True),
    Column("AGPRs", lambda item: str(item.agprs), right=True),
    Column("spill stores", lambda item: str(item.spill_stores), right=True),
    Column("reloads", lambda item: str(item.spill_reloads), right=True),
]
_TIMES = [
    Column("longest passes", lambda item: item.name),
    Column("in", lambda item: "LLVM" if item.level == "llvm" else "MLIR"),
    Column("seconds", lambda item: f"{item.seconds:.3f}", right=True),
    Column("share", lambda item: f"{item.share:.0%}", right=True),
]
