"""What the engine itself knows of loops, instructions and waits, beside the metrics: the names
that rules may use for it, with unit and meaning, and the texts that some of them can stand for.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from ..model import MetricSpec, Origin

MATCHES = "matches"
"""How many instructions or waits of one loop a rule found; for its message and fix alone."""

_Row = tuple[str, str, Origin, str]


def _specs(scope: Literal["instruction", "wait"], *rows: _Row) -> tuple[MetricSpec, ...]:
    return tuple(
        MetricSpec(name, unit, origin, scope, description)
        for name, unit, origin, description in rows
    )


_LOOP = (
    MetricSpec("hot", "bool", "derived", "loop", "True if the loop does the kernel's work"),
    MetricSpec("depth", "levels", "derived", "loop", "Nesting depth, 1 for an outermost loop"),
    MetricSpec(
        "unroll", "iterations", "derived", "loop", "Source iterations per iteration of the ISA loop"
    ),
)
_OP = _specs(
    "instruction",
    ("op.mnemonic", "name", "compiler", "The instruction"),
    ("op.kind", "name", "compiler", "Its mnemonic class: global_load, lds_read, ..."),
    ("op.bits", "bits/lane", "compiler", "How much it moves"),
    ("op.depth", "levels", "derived", "How many loops it stands in"),
    ("op.hot", "bool", "derived", "Whether it stands in a hot loop"),
    ("op.spill", "bool", "derived", "Whether it stores or reloads a spilled value"),
)
_ACCESS = _specs(
    "instruction",
    ("access.op", "name", "compiler", "The operation of the TTGIR that it comes from"),
    ("access.dtype", "name", "compiler", "That operation's element type"),
    ("access.layout", "name", "compiler", "Its layout: kind, sizePerThread, order"),
    ("access.limited_by", "name", "derived", "What made it narrow"),
    ("access.reason", "name", "derived", "The same in a sentence, with the argument at fault"),
    ("access.fix", "name", "derived", "What to change"),
    ("access.bits", "bits/lane", "compiler", "The narrowest instruction it became"),
    ("access.widest", "bits/lane", "derived", "What element type and tile allow at most"),
    ("access.per_thread", "elements", "derived", "Neighbouring elements that a thread holds"),
    ("access.contiguity", "elements", "derived", "Elements known to be neighbours in memory"),
    ("access.mask", "elements", "derived", "Neighbouring elements that share a mask bit"),
    ("access.divisibility", "bytes", "derived", "Of the address, 0 for a constant 0"),
    (
        "access.narrow_stores",
        "stores",
        "derived",
        "Stores of such tiles in the same loop that nothing makes wider: with a wider access the"
        " elements would change lanes before them, through LDS",
    ),
)
_WAIT = _specs(
    "wait",
    ("wait.counter", "name", "compiler", "The counter it waits for"),
    ("wait.verdict", "name", "derived", "What it is there for"),
    ("wait.n", "operations", "compiler", "How many operations it leaves outstanding"),
    ("wait.could_be", "operations", "derived", "The largest n that would do, if over-strict"),
    ("wait.slack", "instructions", "derived", "Instructions since the youngest it waits for"),
    ("wait.slack_cycles", "cycles", "derived", "Matrix cycles among them"),
    ("wait.full", "bool", "derived", "Whether it waits for everything: n is 0"),
    ("wait.hot", "bool", "derived", "Whether it stands in a hot loop"),
    ("wait.depth", "levels", "derived", "How many loops it stands in"),
)
_MATCHES = MetricSpec(
    MATCHES, "matches", "derived", "instruction", "How many match in the loop; in texts alone"
)

ENGINE_VALUES: tuple[MetricSpec, ...] = (*_LOOP, *_OP, *_ACCESS, *_WAIT, _MATCHES)
"""Everything above, for the catalogue."""

CHOICES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "access.limited_by": frozenset(
            {"layout", "order", "contiguity", "broadcast", "divisibility", "mask", "dtype", "tile"}
        ),
        "wait.verdict": frozenset({"needed", "over-strict", "ordering", "idle", "missing"}),
    }
)
"""Name -> the texts it can stand for. A comparison with another text would never hold."""

WORD_NAMES = frozenset({"op.kind", "wait.counter"})
"""Names that stand for a mnemonic class or a counter: the words of the catalogue."""
