"""Values of a TTGIR file in the terms of the source: those that are its variables by name, the
others as expressions.

Recent versions of Triton name every value of a statement after the variable that the statement
assigns: in `acc += tl.dot(tl.load(p, mask=k + rk < K), b)` the sum `k + rk` is called `acc`, too.
Older versions number values. Arguments keep their names, or their numbers.

The name alone does not tell which part of a statement a value is. Positions do: an expression
begins no later than any of its parts. So a value is the variable only if no value of that name
begins before it on its line, and no user of it begins before it. Values that the compiler adds to a
loop have the loop's position, and the name of the loop's first result; they are no variables
either.

Lowering splits and recombines sums, so that the value of a statement may be gone and a part of it
left. The TTIR, which still has the value, tells its operation; without TTIR no value is taken for a
variable.

A range (`tl.arange`) gets no name: Triton merges equal ranges, and the remaining name may be
another variable's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from ...base.errors import KinspectError
from ...model import SourceLoc, TtgirOp
from ..parser import parse_ttgir
from ..queries import LOOPS
from .analysis import Axes, is_argument
from .graph import ValueGraph, functions

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
        name: the name as the source spells it.
        file: path.
        line: from 1.
        inlined_at: the call site that the function is inlined at; None where it is not.
    """

    name: str
    file: str
    line: int
    inlined_at: SourceLoc | None


class VariableAssignment(Struct, frozen=True):
    """The value that a variable is assigned.

    Args:
        line: its name and the line of the assignment.
        column: column of the operation's position.
        operation: name of the operation, `arith.addi`.
        shape: shape of the result; empty for a scalar.
    """

    line: NamedLine
    column: int | None
    operation: str
    shape: tuple[int, ...]


def variable(graph: ValueGraph, value: str) -> str | None:
    """The variable that a value is; None where it is none or unknown.

    `value`: its name in the file, `%offs_k_12`.
    """
    if graph.variables is None:
        graph.variables = _variables(graph)
    variable_name = graph.variables.get(value)
    if variable_name is not None:
        return variable_name
    carried = graph.carried.get(value)
    if carried is not None and carried.owner.name == "scf.while":
        return _stem(value, _stems(graph))  # Triton names these after the variable
    if is_loop_index(graph, value):
        return None
    sources = carried.sources if carried is not None else graph.merged.get(value, ())
    return graph.variables.get(sources[-1]) if sources else None


def is_loop_index(graph: ValueGraph, value: str) -> bool:
    """Whether a value counts a loop's iterations."""
    carried = graph.carried.get(value)
    return carried is not None and carried.owner.name == "scf.for" and carried.index == 0


def delayed_source(graph: ValueGraph, value: str) -> str | None:
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


def _argument_of(graph: ValueGraph, result: str) -> str:
    """The argument in which a loop carries a result; empty where it is no loop's result."""
    op = graph.producers.get(result)
    regions = op.attributes.get("block_args", ()) if op is not None else ()
    if op is None or op.name != "scf.for" or not regions:
        return ""
    position = op.results.index(result) + 1  # the index comes first
    return str(regions[0][position]) if position < len(regions[0]) else ""


def _depends_on(graph: ValueGraph, value: str, root: str) -> bool:
    """Whether `value` is computed from `root`; True as well after `_MOST_STEPS` values."""
    visited, work = {value}, [value]
    while work and len(visited) <= _MOST_STEPS:
        name = work.pop()
        op = graph.producers.get(name)
        inputs = op.operands if op is not None and name not in graph.merged else graph.sources(name)
        if root in inputs:
            return True
        unvisited = [source for source in inputs if source not in visited]
        visited.update(unvisited)
        work += unvisited
    return len(visited) > _MOST_STEPS


def _variables(graph: ValueGraph) -> Mapping[str, str]:
    """The variables that values are, by the positions in TTGIR and TTIR."""
    if graph.ttir is None:
        return {}
    try:
        module = parse_ttgir(graph.ttir, "TTIR")
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


def _outermost(graph: ValueGraph) -> Mapping[str, VariableAssignment]:
    """The values that, by their positions, a statement assigns to a variable."""
    stems = _stems(graph)
    of_loops = {op.loc for op in graph.ops if op.name in _REGIONS and op.loc is not None}
    first_columns = _first_columns(graph, stems)
    subexpressions = _subexpressions(graph, of_loops)
    outermost: dict[str, VariableAssignment] = {}
    for value, op in graph.producers.items():
        name = _stem(value, stems)
        if name is None or op.loc is None or op.loc in of_loops or value in subexpressions:
            continue
        if value in graph.merged or op.name in _MERGED_BY_TRITON:
            continue
        loc = op.loc.in_user_code
        line = NamedLine(name, loc.file, loc.line, loc.inlined_at)
        if (loc.column or 0) <= first_columns[line]:
            outermost[value] = VariableAssignment(
                line, loc.column, op.name, op.result_types[0].shape
            )
    return outermost


def _first_columns(graph: ValueGraph, stems: frozenset[str]) -> dict[NamedLine, int]:
    """The column where the first value of a name begins on each line."""
    columns: dict[NamedLine, int] = {}
    for value, op in graph.producers.items():
        name = _stem(value, stems)
        if name is not None and op.loc is not None:
            loc = op.loc.in_user_code
            line = NamedLine(name, loc.file, loc.line, loc.inlined_at)
            columns[line] = min(columns.get(line, loc.column or 0), loc.column or 0)
    return columns


def _subexpressions(graph: ValueGraph, of_loops: set[SourceLoc]) -> frozenset[str]:
    """Values that are used by an expression that begins where they do, or before."""
    subexpressions: set[str] = set()
    for user in graph.ops:
        if user.loc is None or user.loc in of_loops or user.name in _ENDS:
            continue
        for value in user.operands:
            maker = graph.producers.get(value)
            if maker is not None and value not in subexpressions and _is_inside(maker, user):
                subexpressions.add(value)
    return frozenset(subexpressions)


def _is_inside(maker: TtgirOp, user: TtgirOp) -> bool:
    """Whether a value begins no earlier than its user, in a function common to both."""
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


def _stems(graph: ValueGraph) -> frozenset[str]:
    """Names in the file without the number of a result."""
    names = (*graph.producers, *graph.carried)
    return frozenset(name.partition("#")[0].partition("'")[0] for name in names)


def _stem(value: str, stems: frozenset[str]) -> str | None:
    """The name in the source of a value; None where the file only numbers it.

    MLIR distinguishes values of one name by a number: `%offs`, `%offs_3`.
    """
    name = value.partition("#")[0].partition("'")[0]
    if _UNNAMED.match(name):
        return None
    match = _NUMBERED.match(name)
    if match is not None and match.group(1) in stems:
        name = match.group(1)
    return name[1:]


ELLIPSIS = "…"
LOOP_INDEX = "loop index"
_ARGUMENT = re.compile(r"%arg(\d+)\Z")
_DEEPEST = 3

_SIGNS: Mapping[str, str] = {
    "arith.addi": "+",
    "arith.andi": "&",
    "arith.divsi": "//",
    "arith.divui": "//",
    "arith.muli": "*",
    "arith.ori": "|",
    "arith.remsi": "%",
    "arith.remui": "%",
    "arith.shli": "<<",
    "arith.shrsi": ">>",
    "arith.subi": "-",
    "tt.addptr": "+",
}
_PREDICATES: Mapping[str, str] = {
    "eq": "==",
    "ne": "!=",
    "sge": ">=",
    "sgt": ">",
    "sle": "<=",
    "slt": "<",
    "uge": ">=",
    "ugt": ">",
    "ule": "<=",
    "ult": "<",
}
_SHAPES = frozenset(
    ("broadcast", "convert_layout", "expand_dims", "extsi", "extui", "splat", "trunci")
)


def spelled(axes: Axes, value: str, access_loc: SourceLoc | None) -> str:
    """Spells a value as the source would write it.

    `axes`: the function's values; `access_loc`: the position of the access in question; a name from
    the access's own statement means nothing.

    Returns:
        A variable, an argument or a short expression; `…` stands for values without a name.
    """
    return _spelled(axes, value, access_loc, 0)


def spelled_division(axes: Axes, value: str, access_loc: SourceLoc | None) -> str:
    """Spells the division or remainder that a value is the result of; empty for other values."""
    op = axes.graph.producers.get(value)
    while op is not None and op.name.rpartition(".")[2] in _SHAPES and op.operands:
        op = axes.graph.producers.get(op.operands[0])
    if op is None or _SIGNS.get(op.name) not in ("//", "%"):
        return ""
    return _expression(axes, op, access_loc, 0)


def argument_name(value: str) -> str:
    """The name of a function's argument, or its number where the file has no names."""
    match = _ARGUMENT.match(value)
    return f"argument {match.group(1)} ({value})" if match else value[1:]


def _spelled(axes: Axes, value: str, access_loc: SourceLoc | None, depth: int) -> str:
    """Spells a value inside an expression that is `depth` deep."""
    graph = axes.graph
    if is_argument(axes, value):
        return argument_name(value)
    constant = axes.of(value).constant
    if constant is not None:
        return str(constant)
    name = variable(graph, value)
    op = graph.producers.get(value)
    if op is None or value in graph.merged:
        if name is not None:
            return name
        if is_loop_index(graph, value):
            return LOOP_INDEX
        source = delayed_source(graph, value)
        return _spelled(axes, source, access_loc, depth) if source is not None else ELLIPSIS
    if op.name.rpartition(".")[2] in _SHAPES and op.operands:
        return _spelled(axes, op.operands[0], access_loc, depth)
    if name is not None and _elsewhere(op, access_loc):
        return name
    if depth >= _DEEPEST:
        return ELLIPSIS
    return _expression(axes, op, access_loc, depth)


def _expression(axes: Axes, op: TtgirOp, access_loc: SourceLoc | None, depth: int) -> str:
    """Spells the operation that computes a value."""
    sign = _SIGNS.get(op.name) or _PREDICATES.get(str(op.attributes.get("predicate")))
    if sign is not None and len(op.operands) == 2:
        left_text, right_text = (
            _spelled(axes, operand, access_loc, depth + 1) for operand in op.operands
        )
        text = f"{left_text} {sign} {right_text}"
        return f"({text})" if depth else text
    if op.name == "tt.get_program_id":
        return f"program_id({op.attributes.get('axis', ELLIPSIS)})"
    if op.name == "tt.make_range":
        return f"arange({op.attributes.get('start')}, {op.attributes.get('end')})"
    return ELLIPSIS


def _elsewhere(op: TtgirOp, access_loc: SourceLoc | None) -> bool:
    """Whether a value is computed on another line of the source than the access's."""
    if op.loc is None or access_loc is None:
        return True
    own_loc, other_loc = op.loc.in_user_code, access_loc.in_user_code
    return (own_loc.file, own_loc.line) != (other_loc.file, other_loc.line)
