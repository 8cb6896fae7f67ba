"""The origins of the values of one function of a TTGIR file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from ...base.recent_results import kept_for_recent
from ...model import TtgirModule, TtgirOp
from ..result_types import FUNCTIONS
from .transfer import RULES

_FOR, _WHILE, _IF = "scf.for", "scf.while", "scf.if"
_LOOP_BOUNDS = 3  # lower bound, upper bound and step come before a loop's initial values
SPREADS = frozenset(("splat", "broadcast", "expand_dims", "convert_layout", "extsi", "extui"))
"""Operations through which a tensor of equal elements is followed to its scalar."""
_DIMENSION_KEEPING = frozenset(
    ("convert_layout", "extsi", "extui", "trunci", "broadcast", "index_cast")
)


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


class ValueGraph(Struct):
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


def functions(module: TtgirModule) -> list[ValueGraph]:
    """The functions of a module, in file order, with names that are unique in each.

    Callers may add facts to what they get: the tables alone are shared.
    """
    return [replace(graph) for graph in _functions(module)]


@kept_for_recent
def _functions(module: TtgirModule) -> list[ValueGraph]:
    graphs: list[ValueGraph] = []
    for op in module.ops:
        if op.name in FUNCTIONS and op.parent is None:
            graphs.append(ValueGraph([]))
        if graphs:
            graphs[-1].ops.append(op)
    for graph in graphs:
        graph.ops = renamed(graph.ops)
        _connect(graph)
    return graphs


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
    # Loop -> (its position, the names of its second region, which begins later).
    second_regions: dict[int, tuple[int, tuple[str, ...]]] = {}
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


def _connect(graph: ValueGraph) -> None:
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
    graph: ValueGraph, op: TtgirOp, names: Sequence[str], sources: Sequence[tuple[str, ...]]
) -> None:
    for k, name in enumerate(names):
        graph.carried[name] = Carried(op, k, sources[k] if k < len(sources) else ())


def _for(
    graph: ValueGraph, op: TtgirOp, regions: Sequence[Sequence[str]], terminators: Sequence[TtgirOp]
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
    graph: ValueGraph, op: TtgirOp, regions: Sequence[Sequence[str]], terminators: Sequence[TtgirOp]
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
    graph: ValueGraph, op: TtgirOp, regions: Sequence[Sequence[str]], terminators: Sequence[TtgirOp]
) -> None:
    branch_values = zip(*(end.operands for end in terminators), strict=False)
    graph.merged.update(zip(op.results, branch_values, strict=False))


_Connect = Callable[[ValueGraph, TtgirOp, Sequence[Sequence[str]], Sequence[TtgirOp]], None]
_CONNECT: Mapping[str, _Connect] = {_FOR: _for, _WHILE: _while, _IF: _if}


def makers(
    graph: ValueGraph, values: Sequence[str], follow: Callable[[TtgirOp], bool], most_values: int
) -> Iterator[TtgirOp]:
    """Yields the operations that compute values, the nearest first on each way back.

    `values`: the values' names; `follow`: whether to go back through the operands of an operation;
    the sources of values that loops and branches merge are followed in any case; `most_values`:
    number of values after which the walk ends.
    """
    work, visited = list(values), set(values)
    while work and len(visited) <= most_values:
        name = work.pop()
        op = graph.producers.get(name)
        if op is not None and name not in graph.merged:
            yield op
            sources = op.operands if follow(op) else ()
        else:
            sources = tuple(graph.sources(name))
        unvisited = [source for source in sources if source not in visited]
        visited.update(unvisited)
        work += unvisited


def dimension_before(op: TtgirOp, dim: int) -> int | None:
    """The operand's dimension that becomes `dim` of the result; -1 where `dim` is new.

    None for operations that compute, and where the operand lacks that dimension (edited text).
    """
    through = _operand_dimension(op, dim)
    rank = len(op.operand_types[0].shape) if op.operand_types else 0
    return None if through is not None and through >= max(rank, 1) else through


def _operand_dimension(op: TtgirOp, dim: int) -> int | None:
    """The dimension of the operand, which may lack it; as `dimension_before` otherwise."""
    short = op.name.rpartition(".")[2]
    if short in _DIMENSION_KEEPING:
        return dim
    if short == "splat":
        return -1
    if short == "expand_dims":
        axis = op.attributes.get("axis")
        if not isinstance(axis, int) or axis == dim:
            return -1
        return dim - (dim > axis)
    if short == "trans":
        order = op.attributes.get("order")
        return order[dim] if isinstance(order, tuple) and dim < len(order) else None
    return None
