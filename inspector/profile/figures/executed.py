"""Derives hardware counters from executed instructions, and compares them with recorded ones.

`executed.yaml` says which instructions each counter counts, and why a recording may differ.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from ...documents import own_yaml
from ...explain.quantities import scaled
from ...isa.operations import Operations, operations
from ...machines.loader import base_arch
from ...model import Instruction, KernelReport, number_of
from ...recording import KernelProfile

_FILE = Path(__file__).with_name("executed.yaml")
WAVES: Final = "SQ_WAVES"
CONFLICTS: Final = "SQ_LDS_BANK_CONFLICT"
_MATRIX_UNIT: Final = 512
"""Operations per unit of the counters `SQ_INSTS_VALU_MFMA_MOPS_*`."""


class Rule(Struct, frozen=True):
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
        """Returns what an execution by one wave adds to the counter.

        Args:
            instruction: the executed instruction.
            work: the arithmetic operations that it does.
        """
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

    Args:
        executed: instructions, each with how often waves executed it.
        arch: gfx name.
        lanes: lanes of a wave.
        waves: how many waves were started.
        conflict_cycles: cycles that LDS bank conflicts add; None where they were not counted.

    Returns:
        Counter -> value, in the unit in which profilers write it, without counters whose
        documentation leaves the value open.
    """
    rules = [rule for rule in rules_of(arch) if rule.name not in (WAVES, CONFLICTS)]
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
    """Returns the counters that are known for a target."""
    base = base_arch(arch)
    return tuple(
        rule for rule in rules().values() if not rule.architectures or base in rule.architectures
    )


@functools.cache
def rules() -> Mapping[str, Rule]:
    """Returns all counters by name."""
    return {
        name: Rule(
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
        for name, entry in own_yaml(_FILE)["counters"].items()
    }


__all__ = ["CONFLICTS", "WAVES", "Rule", "counted", "rules", "rules_of"]


# --------------------------------------------------------------------------- beside recordings

EMULATED = "emulated.counter."
CLOSE = 0.02
"""Relative difference up to which two counts are considered equal."""


class Compared(Struct, frozen=True):
    """A counter of a dispatch, recorded and emulated.

    Args:
        counter: its name.
        recorded: mean per dispatch, as the profiler wrote it.
        emulated: value for a launch of the recorded grid; of the captured grid where none was
            recorded.
        ratio: recorded over emulated; None where the latter is 0.
        why: possible reasons for the difference, in words; empty where the values agree or no
            reason is known.
    """

    counter: str
    recorded: float
    emulated: float
    ratio: float | None
    why: str


def compared(kernel: KernelProfile, report: KernelReport | None) -> Iterator[Compared]:
    """The counters that were recorded and emulated, in the order of the recording.

    Args:
        kernel: the measured kernel.
        report: the report of the analysed kernel that it matches; None if unknown.
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
        yield Compared(counter=name, recorded=spread.mean, emulated=emulated, ratio=ratio, why=why)


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
    if name in rules() and rules()[name].differs:
        reasons.append(rules()[name].differs)
    emulated = report.emulated
    if emulated is not None and emulated.workgroups < emulated.grid_workgroups:
        reasons.append(f"{emulated.workgroups} of {emulated.grid_workgroups} workgroups executed")
    if emulated is not None and any("float" not in dtype for dtype in emulated.made_up):
        reasons.append("contents of integer tensors made up")
    return "; ".join(reasons)
