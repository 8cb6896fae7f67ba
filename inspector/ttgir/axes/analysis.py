"""Facts of all values that some addresses and masks depend on, through loops and branches.

Optimistic, like Triton's analysis: a carried value starts with the facts of its initial value and
loses those that the loop's body does not preserve, until nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from ...model import TtgirOp
from ..result_types import FUNCTIONS
from .facts import AxisFacts, meet, no_facts
from .graph import Carried, ValueGraph, makers
from .transfer import HINTS, RULES, facts_after

_TILE_LOADS = frozenset(("load", "buffer_load"))
_MOST_STEPS = 200


class Axes(Struct, frozen=True):
    """Facts of values of one function, with the origins of the values."""

    graph: ValueGraph
    facts: Mapping[str, AxisFacts]

    def of(self, name: str, rank: int = 1) -> AxisFacts:
        """The facts of a value of some rank; nothing is known of values not analysed."""
        facts = self.facts.get(name)
        return facts if facts is not None and len(facts.contiguity) >= rank else no_facts(rank)


def analyze(graph: ValueGraph, names: Iterable[str]) -> Axes:
    """The facts of some values of a function and of all values that they depend on."""
    needed_names = _needed_names(graph, names)
    return Axes(graph, _solve(graph, needed_names))


def loaded_tile(axes: Axes, value: str) -> TtgirOp | None:
    """The load of a tile that a value is computed from; None without one."""
    for op in makers(axes.graph, [value], lambda op: True, _MOST_STEPS):
        if op.name.rpartition(".")[2] in _TILE_LOADS and op.result_types[0].shape:
            return op
    return None


def is_argument(axes: Axes, value: str) -> bool:
    """Whether a value is an argument of the function."""
    argument = axes.graph.carried.get(value)
    return argument is not None and argument.owner.name in FUNCTIONS


def _needed_names(graph: ValueGraph, names: Iterable[str]) -> set[str]:
    """The values that some values depend on, themselves included."""
    needed_names: set[str] = set()
    work = list(names)
    while work:
        name = work.pop()
        if name not in needed_names:
            needed_names.add(name)
            work.extend(graph.sources(name))
    return needed_names


class _Merge(Struct, frozen=True):
    """A value that is one of several: a carried one, or a result of a loop or branch."""

    name: str
    sources: tuple[str, ...]
    is_index: bool = False


_Step = TtgirOp | _Merge


def _solve(graph: ValueGraph, needed_names: set[str]) -> dict[str, AxisFacts]:
    """The facts of the needed values: the fixed point over all loops."""
    facts: dict[str, AxisFacts] = {}
    for name, argument in graph.carried.items():
        if name in needed_names and not argument.sources:
            facts[name] = _entry(argument)
    steps, loops = _schedule(graph, needed_names)
    changed = True
    while changed:
        for step in steps:
            if isinstance(step, _Merge):
                _merge(facts, step)
            else:
                _apply(facts, step)
        # Do the bodies preserve the facts that were assumed of the carried values?
        changed = False
        for merge in loops:
            changed = _merge(facts, merge) or changed
    return facts


def _schedule(graph: ValueGraph, needed_names: set[str]) -> tuple[list[_Step], list[_Merge]]:
    """The steps to compute in order, and the merges that loops feed back."""
    entering: dict[int, list[_Merge]] = {}
    loops: list[_Merge] = []
    for name, argument in graph.carried.items():
        if name in needed_names and argument.sources:
            is_index = argument.owner.name == "scf.for" and argument.index == 0
            merge = _Merge(name, argument.sources, is_index)
            entering.setdefault(argument.owner.index, []).append(merge)
            loops.append(merge)
    steps: list[_Step] = []
    open_regions: list[tuple[int, list[_Merge]]] = []  # depth, results known at their end
    for op in graph.ops:
        while open_regions and op.depth <= open_regions[-1][0]:
            steps.extend(open_regions.pop()[1])
        if not needed_names.isdisjoint(op.results):
            leaving = [
                _Merge(name, graph.merged[name])
                for name in op.results
                if name in needed_names and name in graph.merged
            ]
            if leaving:
                open_regions.append((op.depth, leaving))
            else:
                steps.append(op)
        steps.extend(entering.get(op.index, ()))
    return steps, loops


def _entry(argument: Carried) -> AxisFacts:
    """The facts of a function's argument, by its attributes."""
    argument_attributes = argument.owner.attributes.get("arg_attrs", ())
    attributes = (
        argument_attributes[argument.index] if argument.index < len(argument_attributes) else {}
    )
    hints = [attributes.get(name) for name in HINTS]
    contiguity, divisibility, constancy = (
        (hint,) if isinstance(hint, int) and hint > 0 else (1,) for hint in hints
    )
    return AxisFacts(contiguity, divisibility, constancy)


def _merge(facts: dict[str, AxisFacts], merge: _Merge) -> bool:
    """Updates a merged value; returns whether it changed."""
    old = facts.get(merge.name)
    new = old
    for name in merge.sources:
        source_facts = facts.get(name)
        if source_facts is not None:
            new = source_facts if new is None else meet(new, source_facts)
    if new is not None and merge.is_index:
        new = AxisFacts((1,), new.divisibility[:1], (1,))
    if new is None or new == old:
        return False
    facts[merge.name] = new
    return True


def _apply(facts: dict[str, AxisFacts], op: TtgirOp) -> None:
    """Updates the results of an operation."""
    operands: list[AxisFacts] = []
    if op.name in RULES:
        for name in op.operands:
            operand_facts = facts.get(name)
            if operand_facts is None:
                return  # computed in a loop that was not visited yet
            operands.append(operand_facts)
    facts[op.results[0]] = facts_after(op, operands)
    for name, result_type in zip(op.results[1:], op.result_types[1:], strict=False):
        facts[name] = no_facts(len(result_type.shape))
