"""Values of a TTGIR file in the terms of the source, as far as the file has them.

Recent versions of Triton name every value of a statement after the variable that the statement
assigns: in `acc += tl.dot(tl.load(p, mask=k + rk < K), b)` the sum `k + rk` is called `acc`, too.
`variables.py` determines the values that are the variable itself; the others are written as
expressions. Older versions number values. Arguments keep their names, or their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...model import SourceLoc, TtgirOp
from .analysis import Axes, is_argument
from .variables import delayed_source, is_loop_index, variable

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
