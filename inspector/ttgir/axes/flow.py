"""Facts of every value that some addresses and masks rest on, through loops and branches.

Optimistic, as Triton's analysis is: a carried value starts with the facts of its initial value and
loses what the loop's body does not keep, until nothing changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from ...model import TtgirModule, TtgirOp
from ..opforms import FUNCTIONS
from .facts import Facts, meet, nothing
from .transfer import HINTS, RULES, facts_after

_FOR, _WHILE, _IF = "scf.for", "scf.while", "scf.if"
_LOOP_BOUNDS = 3  # lower bound, upper bound and step come before a loop's initial values


class Carried(Struct, frozen=True):
    """An argument of a region: a function's, a loop's index, or a value that a loop carries.

    Attributes:
        owner: the operation whose region it belongs to.
        index: its place among the region's arguments.
        sources: the values that it may take, by name; empty for a function's.
    """

    owner: TtgirOp
    index: int
    sources: tuple[str, ...] = ()


class Graph(Struct):
    """Where the values of one function come from.

    Attributes:
        ops: the function's operations in file order.
        made: value -> the operation it is a result of.
        carried: value -> the region argument that it is.
        merged: result of a loop or branch -> the values that it may take.
        before: text of the TTIR that it was lowered from, nearer to the source; read where names
            are needed.
        variables: value -> the variable of the source that it is; None until names are needed.
        unspecialised, values: of the kernel's own arguments, see `Variant`; None where they are not
            known, and for the arguments of functions that the kernel calls.
        dynamic_sizes: whether a compiler wrote the kernel for sizes of which it noted no divisor.
    """

    ops: list[TtgirOp]
    made: dict[str, TtgirOp] = field(default_factory=dict)
    carried: dict[str, Carried] = field(default_factory=dict)
    merged: dict[str, tuple[str, ...]] = field(default_factory=dict)
    before: str | None = None
    variables: Mapping[str, str] | None = None
    unspecialised: Mapping[str, str] | None = None
    values: Mapping[str, int] | None = None
    dynamic_sizes: bool = False

    def sources(self, name: str) -> Sequence[str]:
        """The values that the facts of a value rest on."""
        argument = self.carried.get(name)
        if argument is not None:
            return argument.sources
        merged_values = self.merged.get(name)
        if merged_values is not None:
            return merged_values
        op = self.made.get(name)
        return op.operands if op is not None and op.name in RULES else ()


class Axes(Struct, frozen=True):
    """Facts of values of one function, with where each comes from."""

    graph: Graph
    facts: Mapping[str, Facts]

    def of(self, name: str, rank: int = 1) -> Facts:
        """The facts of a value of some rank; of one that was not asked for nothing is known."""
        facts = self.facts.get(name)
        return facts if facts is not None and len(facts.contiguity) >= rank else nothing(rank)


def functions(module: TtgirModule) -> list[Graph]:
    """The functions of a module, in file order, with names that are unique in each."""
    graphs: list[Graph] = []
    for op in module.ops:
        if op.name in FUNCTIONS and op.parent is None:
            graphs.append(Graph([]))
        if graphs:
            graphs[-1].ops.append(op)
    for graph in graphs:
        graph.ops = renamed(graph.ops)
        _connect(graph)
    return graphs


def analyze(graph: Graph, names: Iterable[str]) -> Axes:
    """The facts of some values of a function and of all that they rest on."""
    needed_names = _needed_names(graph, names)
    return Axes(graph, _solve(graph, needed_names))


# --------------------------------------------------------------------------- where values come from


def renamed(ops: list[TtgirOp]) -> list[TtgirOp]:
    """The operations with a name of its own for each value.

    Regions beside each other may use a name twice: it goes out of scope where the first one ends,
    so that the latest value of a name is the one that is meant. Where no name occurs twice, the
    operations are returned as they are.
    """
    names = [name for op in ops for name in _introduced(op)]
    if len(set(names)) == len(names):
        return ops
    times: Counter[str] = Counter()
    current: dict[str, str] = {}

    def define(name: str) -> str:
        times[name] += 1
        current[name] = name if times[name] == 1 else f"{name}'{times[name]}"
        return current[name]

    out: list[TtgirOp] = []
    later: dict[int, tuple[int, tuple[str, ...]]] = {}  # a loop's second region begins further down
    for op in ops:
        operands = tuple([current.get(name, name) for name in op.operands])
        results = tuple([define(name) for name in op.results])
        attributes = op.attributes
        regions = attributes.get("block_args")
        if regions:
            first = tuple(map(define, regions[0]))
            attributes = {**attributes, "block_args": (first, *regions[1:])}
            if op.name == _WHILE and len(regions) > 1:
                later[op.index] = (len(out), regions[1])
        out.append(replace(op, operands=operands, results=results, attributes=attributes))
        if op.name == "scf.condition" and op.parent in later:
            at, second = later.pop(op.parent)
            loop = out[at]
            entries = (loop.attributes["block_args"][0], tuple(map(define, second)))
            out[at] = replace(loop, attributes={**loop.attributes, "block_args": entries})
    return out


def _introduced(op: TtgirOp) -> Iterator[str]:
    yield from op.results
    for region in op.attributes.get("block_args", ()):
        yield from region


def _connect(graph: Graph) -> None:
    ends: dict[int, list[TtgirOp]] = {}  # operation -> the ends of its regions
    for op in graph.ops:
        for name in op.results:
            graph.made[name] = op
        if op.name in ("scf.yield", "scf.condition") and op.parent is not None:
            ends.setdefault(op.parent, []).append(op)
    for op in graph.ops:
        regions = op.attributes.get("block_args")
        connect = _CONNECT.get(op.name)
        if connect is not None:
            connect(graph, op, regions or (), ends.get(op.index, []))
        elif regions:
            _enter(graph, op, regions[0], ())


def _enter(
    graph: Graph, op: TtgirOp, names: Sequence[str], sources: Sequence[tuple[str, ...]]
) -> None:
    for k, name in enumerate(names):
        graph.carried[name] = Carried(op, k, sources[k] if k < len(sources) else ())


def _for(
    graph: Graph, op: TtgirOp, regions: Sequence[Sequence[str]], ends: Sequence[TtgirOp]
) -> None:
    bounds, inits = op.operands[:_LOOP_BOUNDS], op.operands[_LOOP_BOUNDS:]
    yields = ends[0].operands if ends else ()
    pairs = list(zip(inits, yields, strict=False))
    graph.merged.update(zip(op.results, pairs, strict=False))
    if regions and len(bounds) == _LOOP_BOUNDS:
        index = (bounds[0], bounds[2])  # it starts at the lower bound and moves by the step
        _enter(graph, op, regions[0], [index, *pairs])


def _while(
    graph: Graph, op: TtgirOp, regions: Sequence[Sequence[str]], ends: Sequence[TtgirOp]
) -> None:
    passed = next((end.operands[1:] for end in ends if end.name == "scf.condition"), ())
    yields = next((end.operands for end in ends if end.name == "scf.yield"), ())
    after_sources = [(name,) for name in passed]
    graph.merged.update(zip(op.results, after_sources, strict=False))
    before_sources = list(zip(op.operands, yields, strict=False))
    entries: tuple[Sequence[tuple[str, ...]], ...] = (before_sources, after_sources)
    for names, sources in zip(regions, entries, strict=False):
        _enter(graph, op, names, sources)


def _if(
    graph: Graph, op: TtgirOp, regions: Sequence[Sequence[str]], ends: Sequence[TtgirOp]
) -> None:
    branch_values = zip(*(end.operands for end in ends), strict=False)
    graph.merged.update(zip(op.results, branch_values, strict=False))


_Connect = Callable[[Graph, TtgirOp, Sequence[Sequence[str]], Sequence[TtgirOp]], None]
_CONNECT: Mapping[str, _Connect] = {_FOR: _for, _WHILE: _while, _IF: _if}


def _needed_names(graph: Graph, names: Iterable[str]) -> set[str]:
    needed_names: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in needed_names:
            needed_names.add(name)
            waiting.extend(graph.sources(name))
    return needed_names


# --------------------------------------------------------------------------- solving


class _Merge(Struct, frozen=True):
    """A value that is one of several: a carried one, or a result of a loop or branch."""

    name: str
    sources: tuple[str, ...]
    is_index: bool = False


_Step = TtgirOp | _Merge


def _solve(graph: Graph, needed_names: set[str]) -> dict[str, Facts]:
    facts: dict[str, Facts] = {}
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
        # What the bodies make of the carried values is known now: is it what was assumed?
        changed = False
        for merge in loops:
            changed = _merge(facts, merge) or changed
    return facts


def _schedule(graph: Graph, needed_names: set[str]) -> tuple[list[_Step], list[_Merge]]:
    """Everything to compute in an order in which it can be, and what loops feed back."""
    entering: dict[int, list[_Merge]] = {}
    loops: list[_Merge] = []
    for name, argument in graph.carried.items():
        if name in needed_names and argument.sources:
            is_index = argument.owner.name == _FOR and argument.index == 0
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


def _entry(argument: Carried) -> Facts:
    """What a function's signature says of an argument."""
    stated = argument.owner.attributes.get("arg_attrs", ())
    attributes = stated[argument.index] if argument.index < len(stated) else {}
    hints = [attributes.get(name) for name in HINTS]
    contiguity, divisibility, constancy = (
        (hint,) if isinstance(hint, int) and hint > 0 else (1,) for hint in hints
    )
    return Facts(contiguity, divisibility, constancy)


def _merge(facts: dict[str, Facts], merge: _Merge) -> bool:
    """Brings a merged value up to date; whether it changed."""
    old = facts.get(merge.name)
    new = old
    for name in merge.sources:
        source_facts = facts.get(name)
        if source_facts is not None:
            new = source_facts if new is None else meet(new, source_facts)
    if new is not None and merge.is_index:
        new = Facts((1,), new.divisibility[:1], (1,))
    if new is None or new == old:
        return False
    facts[merge.name] = new
    return True


def _apply(facts: dict[str, Facts], op: TtgirOp) -> None:
    operands: list[Facts] = []
    if op.name in RULES:
        for name in op.operands:
            operand_facts = facts.get(name)
            if operand_facts is None:
                return  # computed in a loop that was not gone through yet
            operands.append(operand_facts)
    facts[op.results[0]] = facts_after(op, operands)
    for name, result_type in zip(op.results[1:], op.result_types[1:], strict=False):
        facts[name] = nothing(len(result_type.shape))
