"""Derives hardware counters from executed instructions.

`executed.yaml` says which instructions each counter counts, and why a recording may differ.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from ...isa.operations import Operations, operations
from ...machines.target_names import base_arch
from ...model import Instruction
from .counters import table

WAVES: Final = "SQ_WAVES"
CONFLICTS: Final = "SQ_LDS_BANK_CONFLICT"
_MATRIX_UNIT: Final = 512
"""Operations per unit of the counters `SQ_INSTS_VALU_MFMA_MOPS_*`."""


class CounterDefinition(Struct, frozen=True):
    """A counter and what it counts; the fields are the keys of `executed.yaml`.

    Of `classes`, `names`, `kind` (with `element`), `matrix` and `operations` it has one at most.
    """

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

    def counts(self, instruction: Instruction, work: Iterable[Operations]) -> int:
        """Returns what an execution by one wave adds to the counter."""
        if instruction.cls in self.classes:
            return 1
        if self.names is not None:
            return int(self.names.fullmatch(instruction.op.name) is not None)
        for operation in work:
            if operation.pipe == "matrix" and operation.element in (self.matrix, self.operations):
                return 1 if self.matrix is not None else operation.count
            if operation.pipe == "vector" and (operation.kind, operation.element) == (
                self.kind,
                self.element,
            ):
                return 1
        return 0


def counted(
    executed: Iterable[tuple[Instruction, int]],
    arch: str,
    lanes: int,
    waves: int,
    conflict_cycles: int | None,
) -> dict[str, int]:
    """Computes the counters of a launch that follow from the executed instructions.

    `conflict_cycles`: cycles that LDS bank conflicts add; None where they were not counted.

    Returns:
        Counter -> value, in the unit in which profilers write it, without counters whose
        documentation leaves the value open.
    """
    of_target = definitions_of(arch)
    summed = [counter for counter in of_target if counter.name not in (WAVES, CONFLICTS)]
    values, classes = _summed(executed, summed, lanes)
    for counter in summed:
        if not classes.isdisjoint(counter.unknown):
            del values[counter.name]
        elif counter.operations is not None:
            values[counter.name] //= _MATRIX_UNIT
    counters = {WAVES: waves, **values}
    if conflict_cycles is not None and any(counter.name == CONFLICTS for counter in of_target):
        counters[CONFLICTS] = conflict_cycles
    return counters


def _summed(
    executed: Iterable[tuple[Instruction, int]],
    definitions: Sequence[CounterDefinition],
    lanes: int,
) -> tuple[dict[str, int], set[str]]:
    """Adds up what the instructions count; also returns their classes."""
    values = {counter.name: 0 for counter in definitions}
    classes: set[str] = set()
    # Instructions of one name, class and work count alike: apply the definitions once to each kind.
    counts_of_kind: dict[tuple[str, str, tuple[Operations, ...]], list[tuple[str, int]]] = {}
    for instruction, runs in executed:
        if not runs:
            continue
        classes.add(instruction.cls)
        work = operations(instruction, lanes)
        kind = instruction.op.name, instruction.cls, work
        if kind not in counts_of_kind:
            counts = ((one.name, one.counts(instruction, work)) for one in definitions)
            counts_of_kind[kind] = [(name, count) for name, count in counts if count]
        for name, count in counts_of_kind[kind]:
            values[name] += runs * count
    return values, classes


def definitions_of(arch: str) -> tuple[CounterDefinition, ...]:
    """Returns the counters that are known for a target."""
    base = base_arch(arch)
    return tuple(
        definition
        for definition in definitions().values()
        if not definition.architectures or base in definition.architectures
    )


@functools.cache
def definitions() -> Mapping[str, CounterDefinition]:
    """Returns all counters by name."""
    return {
        name: CounterDefinition(
            name=name,
            about=entry["about"],
            differs=entry.get("differs", ""),
            architectures=tuple(entry.get("architectures", ())),
            classes=frozenset(entry.get("classes", ())),
            names=re.compile(entry["names"]) if "names" in entry else None,
            unknown=frozenset(entry.get("unknown", ())),
            kind=entry.get("kind"),
            element=entry.get("element"),
            matrix=entry.get("matrix"),
            operations=entry.get("operations"),
        )
        for name, entry in table("executed.yaml")["counters"].items()
    }
