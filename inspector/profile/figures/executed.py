"""Derives hardware counters from executed instructions.

`executed.yaml` says which instructions each counter counts, and why a recording may differ.

Compares the counters of a dispatch that were recorded with those of the emulated launch.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from ...explain.quantities import scaled
from ...isa.operations import Operations, operations
from ...machines.target_names import base_arch
from ...model import Instruction, KernelReport, number_of
from ...model.recording import KernelProfile
from .counters import table

WAVES: Final = "SQ_WAVES"
CONFLICTS: Final = "SQ_LDS_BANK_CONFLICT"
_MATRIX_UNIT: Final = 512
"""Operations per unit of the counters `SQ_INSTS_VALU_MFMA_MOPS_*`."""


class CounterRule(Struct, frozen=True):
    """A counter and what it counts; the fields are the keys of `executed.yaml`."""

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
    rules = [rule for rule in rules_of(arch) if rule.name not in (WAVES, CONFLICTS)]
    values, classes = _summed(executed, rules, lanes)
    for rule in rules:
        if not classes.isdisjoint(rule.unknown):
            del values[rule.name]
        elif rule.operations is not None:
            values[rule.name] //= _MATRIX_UNIT
    counters = {WAVES: waves, **values}
    if conflict_cycles is not None and any(rule.name == CONFLICTS for rule in rules_of(arch)):
        counters[CONFLICTS] = conflict_cycles
    return counters


def _summed(
    executed: Iterable[tuple[Instruction, int]], rules: Sequence[CounterRule], lanes: int
) -> tuple[dict[str, int], set[str]]:
    """Adds up what the instructions count; also returns their classes."""
    values = {rule.name: 0 for rule in rules}
    classes: set[str] = set()
    # Instructions of one name, class and work count alike: apply the rules once to each kind.
    counts_of_kind: dict[tuple[str, str, tuple[Operations, ...]], list[tuple[str, int]]] = {}
    for instruction, runs in executed:
        if not runs:
            continue
        classes.add(instruction.cls)
        work = operations(instruction, lanes)
        kind = instruction.op.name, instruction.cls, work
        if kind not in counts_of_kind:
            counts = ((rule.name, rule.counts(instruction, work)) for rule in rules)
            counts_of_kind[kind] = [(name, count) for name, count in counts if count]
        for name, count in counts_of_kind[kind]:
            values[name] += runs * count
    return values, classes


def rules_of(arch: str) -> tuple[CounterRule, ...]:
    """Returns the counters that are known for a target."""
    base = base_arch(arch)
    return tuple(
        rule for rule in rules().values() if not rule.architectures or base in rule.architectures
    )


@functools.cache
def rules() -> Mapping[str, CounterRule]:
    """Returns all counters by name."""
    return {
        name: CounterRule(
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


EMULATED = "emulated.counter."
CLOSE = 0.02
"""Relative difference up to which two counts are considered equal."""


class ComparedCounter(Struct, frozen=True):
    """A counter of a dispatch, recorded and emulated.

    Args:
        emulated: value for a launch of the recorded grid; of the captured grid where none was
            recorded.
        why: possible reasons for the difference, in words; empty where the values agree or no
            reason is known.
    """

    counter: str  # its name
    recorded: float  # mean per dispatch, as the profiler wrote it
    emulated: float
    ratio: float | None  # recorded over emulated; None where the latter is 0
    why: str


def compared(kernel: KernelProfile, report: KernelReport | None) -> Iterator[ComparedCounter]:
    """The counters that were recorded and emulated, in the order of the recording.

    `report`: the report of the analysed kernel that it matches; None if unknown.
    """
    if report is None:
        return
    scale = _grid_ratio(kernel, report)
    for name, spread in kernel.counters.items():
        value = number_of(report.metrics, EMULATED + name)
        if value is None:
            continue
        emulated = value * scale
        ratio = spread.mean / emulated if emulated else None
        agrees = spread.mean == emulated or (ratio is not None and abs(ratio - 1) <= CLOSE)
        why = "" if agrees else _why(name, ratio, kernel, report)
        yield ComparedCounter(
            counter=name, recorded=spread.mean, emulated=emulated, ratio=ratio, why=why
        )


def rows(
    kernel: KernelProfile, report: KernelReport | None
) -> Iterator[tuple[str, str, str, str, str]]:
    """Yields `compared` as texts: name, recorded mean, emulated value, ratio, why they differ."""
    for row in compared(kernel, report):
        ratio = f"{row.ratio:.3f}" if row.ratio is not None else ""
        yield row.counter, scaled(row.recorded), scaled(row.emulated), ratio, row.why


def _grid_ratio(kernel: KernelProfile, report: KernelReport) -> float:
    """Returns the recorded grid's workgroups over those of the captured one; 1 if unknown."""
    captured = report.emulated.grid_workgroups if report.emulated is not None else None
    shape = kernel.shape
    items = math.prod(shape.grid) if shape.grid is not None else shape.grid_size
    group = math.prod(shape.workgroup) if shape.workgroup is not None else shape.workgroup_size
    if not (captured and items and group) or kernel.grids > 1:
        return 1.0
    return items / group / captured


def _why(name: str, ratio: float | None, kernel: KernelProfile, report: KernelReport) -> str:
    """Returns the possible reasons for which a recorded and an emulated counter differ."""
    agent = kernel.agent
    units = [("XCC", agent.xccs), ("shader engine", agent.shader_engines)] if agent else []
    for unit, count in units:
        if ratio is not None and count and count > 1 and abs(ratio * count - 1) <= CLOSE:
            return f"as much as one {unit} of {count} counts"
    reasons = []
    if kernel.grids > 1:
        reasons.append(f"the mean over {kernel.grids} grids, of which one was captured")
    definition = rules().get(name)
    if definition is not None and definition.differs:
        reasons.append(definition.differs)
    emulated = report.emulated
    if emulated is not None and emulated.workgroups < emulated.grid_workgroups:
        reasons.append(f"{emulated.workgroups} of {emulated.grid_workgroups} workgroups executed")
    if emulated is not None and any("float" not in dtype for dtype in emulated.made_up):
        reasons.append("contents of integer tensors made up")
    return "; ".join(reasons)
