"""What hardware counters have to show for instructions that were executed.

Facts stand in `executed.yaml`: which instructions each counts, and why a recording may differ.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from ...documents import own_yaml
from ...isa.operations import Operations, operations
from ...machines.loader import base_arch
from ...model import Instruction

_FILE = Path(__file__).with_name("executed.yaml")
WAVES: Final = "SQ_WAVES"
CONFLICTS: Final = "SQ_LDS_BANK_CONFLICT"
_MATRIX_UNIT: Final = 512


class Rule(Struct, frozen=True):
    """A counter, and what it counts; see `executed.yaml`."""

    name: str
    about: str
    differs: str = ""
    architectures: tuple[str, ...] = ()
    classes: frozenset[str] = frozenset()
    names: re.Pattern[str] | None = None
    unknown: frozenset[str] = frozenset()
    kind: str | None = None
    element: str | None = None
    matrix: str | None = None
    operations: str | None = None

    def counts(self, instruction: Instruction, done: Iterable[Operations]) -> int:
        """What one execution by one wave adds."""
        if instruction.cls in self.classes:
            return 1
        if self.names is not None:
            return int(self.names.fullmatch(instruction.op.name) is not None)
        for part in done:
            if part.pipe == "matrix" and part.element in (self.matrix, self.operations):
                return 1 if self.matrix is not None else part.count
            if part.pipe == "vector" and (part.kind, part.element) == (self.kind, self.element):
                return 1
        return 0


def counted(
    executed: Iterable[tuple[Instruction, int]],
    arch: str,
    lanes: int,
    waves: int,
    conflict_cycles: int | None,
) -> dict[str, int]:
    """The counters of a launch that follow from what was executed.

    Args:
        executed: instructions, each with how many waves executed it.
        arch: gfx name.
        lanes: of a wave.
        waves: that were started.
        conflict_cycles: that LDS bank conflicts add; None where they were not counted.

    Returns:
        Counter -> value, in the unit in which profilers write it. What the documentation leaves
        open is missing.
    """
    rules = [rule for rule in rules_of(arch) if rule.name not in (WAVES, CONFLICTS)]
    values = {rule.name: 0 for rule in rules}
    classes: set[str] = set()
    # What an instruction adds follows from few words of it: each kind is looked at once.
    known: dict[tuple[str, str, tuple[Operations, ...]], list[tuple[str, int]]] = {}
    for instruction, runs in executed:
        if not runs:
            continue
        classes.add(instruction.cls)
        done = operations(instruction, lanes)
        kind = instruction.op.name, instruction.cls, done
        if kind not in known:
            counts = ((rule.name, rule.counts(instruction, done)) for rule in rules)
            known[kind] = [(name, count) for name, count in counts if count]
        for name, count in known[kind]:
            values[name] += runs * count
    for rule in rules:
        if not classes.isdisjoint(rule.unknown):
            del values[rule.name]
        elif rule.operations is not None:
            values[rule.name] //= _MATRIX_UNIT
    counters = {WAVES: waves, **values}
    if conflict_cycles is not None and any(rule.name == CONFLICTS for rule in rules_of(arch)):
        counters[CONFLICTS] = conflict_cycles
    return counters


def rules_of(arch: str) -> tuple[Rule, ...]:
    """The counters that are known for a target."""
    base = base_arch(arch)
    return tuple(
        rule for rule in rules().values() if not rule.architectures or base in rule.architectures
    )


@functools.cache
def rules() -> Mapping[str, Rule]:
    """All of them, by name."""
    return {
        name: Rule(
            name,
            entry["about"],
            entry.get("differs", ""),
            tuple(entry.get("architectures", ())),
            frozenset(entry.get("classes", ())),
            re.compile(entry["names"]) if "names" in entry else None,
            frozenset(entry.get("unknown", ())),
            entry.get("kind"),
            entry.get("element"),
            entry.get("matrix"),
            entry.get("operations"),
        )
        for name, entry in own_yaml(_FILE)["counters"].items()
    }


__all__ = ["CONFLICTS", "WAVES", "Rule", "counted", "rules", "rules_of"]
