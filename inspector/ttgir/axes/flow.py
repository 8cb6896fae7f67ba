"""Facts of all values that some addresses and masks depend on, through loops and branches.

Optimistic, like Triton's analysis: a carried value starts with the facts of its initial value and
loses those that the loop's body does not preserve, until nothing changes.
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
_TILE_LOADS = frozenset(("load", "buffer_load"))
_MOST_STEPS = 200
_LOOP_BOUNDS = 3  # lower bound, upper bound and step come before a loop's initial values


class Carried(Struct, frozen=True):
    """An argument of a region: a function's, a loop's index, or a value that a loop carries.

    Attributes:
        owner: the operation whose region it belongs to.
        index: its position among the region's arguments.
        sources: the values that it may take, by name; empty for a function's.
    """

    owner: TtgirOp
    index: int
    sources: tuple[str, ...] = ()


class Graph(Struct):
    """The origins of the values of one function.

    Attributes:
        ops: the function's operations in file order.
        producers: value -> the operation it is a result of.
        carried: value -> the region argument that it is.
        merged: result of a loop or branch -> the values that it may take.
        ttir: text of the TTIR that it was lowered from, nearer to the source, for names.
        variables: value -> the variable of the source that it is; None until names are needed.
        unspecialised, values: of the kernel's own arguments, see `Variant`; None where they are not
            known, and for the arguments of functions that the kernel calls.
        dynamic_sizes: whether a compiler wrote the kernel for sizes without known divisors.
    """

    ops: list[TtgirOp]
    producers: dict[str, TtgirOp] = field(default_factory=dict)
    carried: dict[str, Carried] = field(default_factory=dict)
    merged: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ttir: str | None = None
    variables: Mapping[str, str] | None = None
    unspecialised: Mapping[str, str] | None = None
    values: Mapping[str, int] | None = None
    dynamic_sizes: bool = False

    def sources(self, name: str) -> Sequence[str]:
        """The values that the facts of a value depend on."""
        argument = self.carried.get(name)
        if argument is not None:
            return argument.sources
        merged_values = self.merged.get(name)
        if merged_values is not None:
            return merged_values
        op = self.producers.get(name)
        return op.operands if op is not None and op.name in RULES else ()


class Axes(Struct, frozen=True):
    """Facts of values of one function, with the origins of the values."""

    graph: Graph
    facts: Mapping[str, Facts]

    def of(self, name: str, rank: int = 1) -> Facts:
        """The facts of a value of some rank; nothing is known of values not analysed."""
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
    """The facts of some values of a function and of all values that they depend on."""
    needed_names = _needed_names(graph, names)
    return Axes(graph, _solve(graph, needed_names))


def loaded_tile(axes: Axes, value: str) -> TtgirOp | None:
    """The load of a tile that a value is computed from; None without one."""
    graph, visited, work = axes.graph, {value}, [value]
    while work and len(visited) <= _MOST_STEPS:
        name = work.pop()
        op = graph.producers.get(name)
        if op is not None and name not in graph.merged:
            if op.name.rpartition(".")[2] in _TILE_LOADS and op.result_types[0].shape:
                return op
            sources = op.operands
        else:
            sources = tuple(graph.sources(name))
        new = [s for s in sources if s not in visited]
        visited.update(new)
        work += new
    return None


# --------------------------------------------------------------------------- origins


def renamed(ops: list[TtgirOp]) -> list[TtgirOp]:
    """The operations with unique names of values.

    Sibling regions may repeat a name: it goes out of scope where the first one ends, so a use
    refers to the latest value of its name. Where all names are unique, the operations are returned
    as they are.
    """
    names = [name for op in ops for name in _introduced(op)]
    if len(set(names)) == len(names):
        return ops
    name_counts: Counter[str] = Counter()
    current: dict[str, str] = {}

    def define(name: str) -> str:
        name_counts[name] += 1
        current[name] = name if name_counts[name] == 1 else f"{name}'{name_counts[name]}"
        return current[name]

    out: list[TtgirOp] = []
    second_regions: dict[
        int, tuple[int, tuple[str, ...]]
    ] = {}  # loop -> (position, names): they begin later
    for op in ops:
        operands = tuple([current.get(name, name) for name in op.operands])
        results = tuple([define(name) for name in op.results])
        attributes = op.attributes
        regions = attributes.get("block_args")
        if regions:
            first_arguments = tuple(map(define, regions[0]))
            attributes = {**attributes, "block_args": (first_arguments, *regions[1:])}
            if op.name == _WHILE and len(regions) > 1:
                second_regions[op.index] = (len(out), regions[1])
        out.append(replace(op, operands=operands, results=results, attributes=attributes))
        if op.name == "scf.condition" and op.parent in second_regions:
            position, second_names = second_regions.pop(op.parent)
            loop = out[position]
            entries = (loop.attributes["block_args"][0], tuple(map(define, second_names)))
            out[position] = replace(loop, attributes={**loop.attributes, "block_args": entries})
    return out


def _introduced(op: TtgirOp) -> Iterator[str]:
    """Yields the names that an operation introduces."""
    yield from op.results
    for region in op.attributes.get("block_args", ()):
        yield from region


def _connect(graph: Graph) -> None:
    """Fills the graph's tables in."""
    terminators: dict[int, list[TtgirOp]] = {}  # operation -> the terminators of its regions
    for op in graph.ops:
        for name in op.results:
            graph.producers[name] = op
        if op.name in ("scf.yield", "scf.condition") and op.parent is not None:
            terminators.setdefault(op.parent, []).append(op)
    for op in graph.ops:
        regions = op.attributes.get("block_args")
        connect = _CONNECT.get(op.name)
        if connect is not None:
            connect(graph, op, regions or (), terminators.get(op.index, []))
        elif regions:
            _enter(graph, op, regions[0], ())


def _enter(
    graph: Graph, op: TtgirOp, names: Sequence[str], sources: Sequence[tuple[str, ...]]
) -> None:
    for k, name in enumerate(names):
        graph.carried[name] = Carried(op, k, sources[k] if k < len(sources) else ())


def _for(
    graph: Graph, op: TtgirOp, regions: Sequence[Sequence[str]], terminators: Sequence[TtgirOp]
) -> None:
    """Connects the results and region arguments of a loop."""
    bounds, inits = op.operands[:_LOOP_BOUNDS], op.operands[_LOOP_BOUNDS:]
    yields = terminators[0].operands if terminators else ()
    pairs = list(zip(inits, yields, strict=False))
    graph.merged.update(zip(op.results, pairs, strict=False))
    if regions and len(bounds) == _LOOP_BOUNDS:
        index = (bounds[0], bounds[2])  # it starts at the lower bound and moves by the step
        _enter(graph, op, regions[0], [index, *pairs])


def _while(
    graph: Graph, op: TtgirOp, regions: Sequence[Sequence[str]], terminators: Sequence[TtgirOp]
) -> None:
    """Connects the results and region arguments of a loop with a condition."""
    passed = next((end.operands[1:] for end in terminators if end.name == "scf.condition"), ())
    yields = next((end.operands for end in terminators if end.name == "scf.yield"), ())
    after_sources = [(name,) for name in passed]
    graph.merged.update(zip(op.results, after_sources, strict=False))
    before_sources = list(zip(op.operands, yields, strict=False))
    entries: tuple[Sequence[tuple[str, ...]], ...] = (before_sources, after_sources)
    for names, sources in zip(regions, entries, strict=False):
        _enter(graph, op, names, sources)


def _if(
    graph: Graph, op: TtgirOp, regions: Sequence[Sequence[str]], terminators: Sequence[TtgirOp]
) -> None:
    branch_values = zip(*(end.operands for end in terminators), strict=False)
    graph.merged.update(zip(op.results, branch_values, strict=False))


_Connect = Callable[[Graph, TtgirOp, Sequence[Sequence[str]], Sequence[TtgirOp]], None]
_CONNECT: Mapping[str, _Connect] = {_FOR: _for, _WHILE: _while, _IF: _if}


def _needed_names(graph: Graph, names: Iterable[str]) -> set[str]:
    """The values that some values depend on, themselves included."""
    needed_names: set[str] = set()
    work = list(names)
    while work:
        name = work.pop()
        if name not in needed_names:
            needed_names.add(name)
            work.extend(graph.sources(name))
    return needed_names


# --------------------------------------------------------------------------- solving


class _Merge(Struct, frozen=True):
    """A value that is one of several: a carried one, or a result of a loop or branch."""

    name: str
    sources: tuple[str, ...]
    is_index: bool = False


_Step = TtgirOp | _Merge


def _solve(graph: Graph, needed_names: set[str]) -> dict[str, Facts]:
    """The facts of the needed values: the fixed point over all loops."""
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
        # Do the bodies preserve the facts that were assumed of the carried values?
        changed = False
        for merge in loops:
            changed = _merge(facts, merge) or changed
    return facts


def _schedule(graph: Graph, needed_names: set[str]) -> tuple[list[_Step], list[_Merge]]:
    """The steps to compute in order, and the merges that loops feed back."""
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
    """The facts of a function's argument, by its attributes."""
    argument_attributes = argument.owner.attributes.get("arg_attrs", ())
    attributes = (
        argument_attributes[argument.index] if argument.index < len(argument_attributes) else {}
    )
    hints = [attributes.get(name) for name in HINTS]
    contiguity, divisibility, constancy = (
        (hint,) if isinstance(hint, int) and hint > 0 else (1,) for hint in hints
    )
    return Facts(contiguity, divisibility, constancy)


def _merge(facts: dict[str, Facts], merge: _Merge) -> bool:
    """Updates a merged value; returns whether it changed."""
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
    """Updates the results of an operation."""
    operands: list[Facts] = []
    if op.name in RULES:
        for name in op.operands:
            operand_facts = facts.get(name)
            if operand_facts is None:
                return  # computed in a loop that was not visited yet
            operands.append(operand_facts)
    facts[op.results[0]] = facts_after(op, operands)
    for name, result_type in zip(op.results[1:], op.result_types[1:], strict=False):
        facts[name] = nothing(len(result_type.shape))
