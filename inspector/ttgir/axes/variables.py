"""Which values of a TTGIR file are variables of the source.

The name of a value is that of the variable whose statement made it, and says nothing of which part
of the statement it is. Positions tell: an expression begins no later than any of its parts. So a
value is the variable only if nothing of that name begins before it on its line, and if nothing that
uses it begins before it. What the compiler adds to a loop bears the loop's position, and the name
of the loop's first result; such a value is no variable either.

Lowering takes sums apart and puts them together again, so that the whole of a statement may be
gone and a part of it left. The TTIR, which still has the whole, says what operation it was; without
TTIR no value is taken for a variable.

A range (`tl.arange`) gets no name: Triton merges equal ranges, and the name that is left may be
that of another variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from ...errors import KinspectError
from ...model import SourceLoc, TtgirOp
from ..parser import parse_ttgir
from ..queries import LOOPS
from .flow import Graph, functions

_UNNAMED = re.compile(
    r"%(?:arg|c)?-?\d+(?:_i\d+)?(?:_\d+)?(?:#\d+)?\Z|%(?:cst|true|false)(?:_\d+)?\Z"
)
_NUMBERED = re.compile(r"(.+)_\d+\Z")
_REGIONS = LOOPS | {"scf.if"}
_ENDS = frozenset(("scf.yield", "scf.condition"))
_MERGED_BY_TRITON = frozenset(("tt.make_range",))
_MOST_STEPS = 200


class NamedLine(Struct, frozen=True):
    """A variable's name with a line of one function's source.

    Args:
        name: as the source spells it.
        file: path.
        line: from 1.
        inlined_at: where the function is inlined; None where it is not.
    """

    name: str
    file: str
    line: int
    inlined_at: SourceLoc | None


class Assignment(Struct, frozen=True):
    """What a variable is assigned.

    Args:
        line: its name and where it is assigned.
        column: of the operation's position.
        operation: `arith.addi`.
        shape: of the result; empty for a scalar.
    """

    line: NamedLine
    column: int | None
    operation: str
    shape: tuple[int, ...]


def variable(graph: Graph, value: str) -> str | None:
    """The variable that a value is; None where it is none or that cannot be told.

    Args:
        graph: the function.
        value: its name in the file, `%offs_k_12`.
    """
    if graph.variables is None:
        graph.variables = _variables(graph)
    variable_name = graph.variables.get(value)
    if variable_name is not None:
        return variable_name
    carried = graph.carried.get(value)
    if carried is not None and carried.owner.name == "scf.while":
        return _stem(value, _stems(graph))  # Triton names these itself
    if is_loop_index(graph, value):
        return None
    sources = carried.sources if carried is not None else graph.merged.get(value, ())
    return graph.variables.get(sources[-1]) if sources else None


def is_loop_index(graph: Graph, value: str) -> bool:
    """Whether a value counts a loop's iterations."""
    carried = graph.carried.get(value)
    return carried is not None and carried.owner.name == "scf.for" and carried.index == 0


def delayed_source(graph: Graph, value: str) -> str | None:
    """The value that a loop computes one iteration ahead and carries as `value`.

    Pipelining does so with addresses and masks. None where it depends on `value` itself.
    """
    carried = graph.carried.get(value)
    if carried is not None and carried.owner.name == "scf.for":
        sources = carried.sources
        itself = value
    elif value in graph.merged:
        sources = graph.merged[value]
        itself = _argument_of(graph, value)
    else:
        return None
    if not sources or sources[-1] == itself or not itself:
        return None
    return None if _depends_on(graph, sources[-1], itself) else sources[-1]


def _argument_of(graph: Graph, result: str) -> str:
    """The argument that a loop carries a result in; empty where it is no loop's."""
    op = graph.made.get(result)
    regions = op.attributes.get("block_args", ()) if op is not None else ()
    if op is None or op.name != "scf.for" or not regions:
        return ""
    place = op.results.index(result) + 1  # the index comes first
    return str(regions[0][place]) if place < len(regions[0]) else ""


def _depends_on(graph: Graph, value: str, root: str) -> bool:
    """Whether `value` is computed from `root`; True as well after `_MOST_STEPS` values."""
    visited, ahead = {value}, [value]
    while ahead and len(visited) <= _MOST_STEPS:
        name = ahead.pop()
        op = graph.made.get(name)
        inputs = op.operands if op is not None and name not in graph.merged else graph.sources(name)
        if root in inputs:
            return True
        new = [source for source in inputs if source not in visited]
        visited.update(new)
        ahead += new
    return len(visited) > _MOST_STEPS


# --------------------------------------------------------------------------- positions


def _variables(graph: Graph) -> Mapping[str, str]:
    if graph.before is None:
        return {}
    try:
        module = parse_ttgir(graph.before, "TTIR")
    except KinspectError:
        return {}  # an edited file
    of_ttir = {
        assignment
        for ttir_graph in functions(module)
        for assignment in _outermost(ttir_graph).values()
    }
    return {
        value: assignment.line.name
        for value, assignment in _outermost(graph).items()
        if assignment in of_ttir
    }


def _outermost(graph: Graph) -> Mapping[str, Assignment]:
    """The values that are, by their positions, what a statement assigns to a variable."""
    stems = _stems(graph)
    of_loops = {op.loc for op in graph.ops if op.name in _REGIONS and op.loc is not None}
    first = _first_columns(graph, stems)
    parts = _parts(graph, of_loops)
    outermost: dict[str, Assignment] = {}
    for value, op in graph.made.items():
        name = _stem(value, stems)
        if name is None or op.loc is None or op.loc in of_loops or value in parts:
            continue
        if value in graph.merged or op.name in _MERGED_BY_TRITON:
            continue
        own = op.loc.in_user_code
        line = NamedLine(name, own.file, own.line, own.inlined_at)
        if (own.column or 0) <= first[line]:
            outermost[value] = Assignment(line, own.column, op.name, op.result_types[0].shape)
    return outermost


def _first_columns(graph: Graph, stems: frozenset[str]) -> dict[NamedLine, int]:
    """Where the first value of a name begins on each line."""
    first: dict[NamedLine, int] = {}
    for value, op in graph.made.items():
        name = _stem(value, stems)
        if name is not None and op.loc is not None:
            own = op.loc.in_user_code
            line = NamedLine(name, own.file, own.line, own.inlined_at)
            first[line] = min(first.get(line, own.column or 0), own.column or 0)
    return first


def _parts(graph: Graph, of_loops: set[SourceLoc]) -> frozenset[str]:
    """Values that are used by an expression which begins where they do, or before."""
    parts: set[str] = set()
    for user in graph.ops:
        if user.loc is None or user.loc in of_loops or user.name in _ENDS:
            continue
        for value in user.operands:
            maker = graph.made.get(value)
            if maker is not None and value not in parts and _is_inside(maker, user):
                parts.add(value)
    return frozenset(parts)


def _is_inside(maker: TtgirOp, user: TtgirOp) -> bool:
    """Whether a value begins no earlier than its user, in the function that both stand in."""
    for maker_frame in _frames(maker.loc):
        for user_frame in _frames(user.loc):
            if (
                maker_frame.file == user_frame.file
                and maker_frame.inlined_at == user_frame.inlined_at
            ):
                return (maker_frame.line, maker_frame.column or 0) >= (
                    user_frame.line,
                    user_frame.column or 0,
                )
    return False


def _frames(loc: SourceLoc | None) -> Iterator[SourceLoc]:
    """The user's own positions, from the innermost function outwards."""
    while loc is not None:
        if not loc.in_library:
            yield loc
        loc = loc.inlined_at


# --------------------------------------------------------------------------- spelling


def _stems(graph: Graph) -> frozenset[str]:
    """Names in the file without the number of a result."""
    names = (*graph.made, *graph.carried)
    return frozenset(name.partition("#")[0].partition("'")[0] for name in names)


def _stem(value: str, stems: frozenset[str]) -> str | None:
    """The name in the source behind one in the file; None where the file only numbers it.

    MLIR tells values of one name apart by a number: `%offs`, `%offs_3`.
    """
    name = value.partition("#")[0].partition("'")[0]
    if _UNNAMED.match(name):
        return None
    match = _NUMBERED.match(name)
    if match is not None and match.group(1) in stems:
        name = match.group(1)
    return name[1:]
