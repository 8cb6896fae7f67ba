"""Values of a TTGIR file in the words of the source, as far as the file tells them.

Recent versions of Triton name every value of a statement after the variable that the statement
assigns: in `acc += tl.dot(tl.load(p, mask=k + rk < K), b)` the sum `k + rk` is called `acc`, too.
`variables.py` tells which values are the variable itself; the others are written as expressions.
Older versions number values. Arguments keep their names, or their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...model import SourceLoc, TtgirOp
from .blame import is_argument
from .flow import Axes
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


def words(axes: Axes, value: str, at: SourceLoc | None) -> str:
    """A value as the source would write it.

    Args:
        axes: the function's values.
        value: its name in the file.
        at: the place of the access in question: a name that its own statement gives means nothing.

    Returns:
        A variable, an argument or a short expression; `…` stands for what has no name.
    """
    return _words(axes, value, at, 0)


def argument_name(value: str) -> str:
    """The name of a function's argument, or its number where the file has no names."""
    match = _ARGUMENT.match(value)
    return f"argument {match.group(1)} ({value})" if match else value[1:]


def _words(axes: Axes, value: str, at: SourceLoc | None, depth: int) -> str:
    graph = axes.graph
    if is_argument(axes, value):
        return argument_name(value)
    constant = axes.of(value).constant
    if constant is not None:
        return str(constant)
    name = variable(graph, value)
    op = graph.made.get(value)
    if op is None or value in graph.merged:
        if name is not None:
            return name
        if is_loop_index(graph, value):
            return LOOP_INDEX
        source = delayed_source(graph, value)
        return _words(axes, source, at, depth) if source is not None else ELLIPSIS
    if op.name.rpartition(".")[2] in _SHAPES and op.operands:
        return _words(axes, op.operands[0], at, depth)
    if name is not None and _elsewhere(op, at):
        return name
    if depth >= _DEEPEST:
        return ELLIPSIS
    return _expression(axes, op, at, depth)


def _expression(axes: Axes, op: TtgirOp, at: SourceLoc | None, depth: int) -> str:
    sign = _SIGNS.get(op.name) or _PREDICATES.get(str(op.attributes.get("predicate")))
    if sign is not None and len(op.operands) == 2:
        left, right = (_words(axes, operand, at, depth + 1) for operand in op.operands)
        text = f"{left} {sign} {right}"
        return f"({text})" if depth else text
    if op.name == "tt.get_program_id":
        return f"program_id({op.attributes.get('axis', ELLIPSIS)})"
    if op.name == "tt.make_range":
        return f"arange({op.attributes.get('start')}, {op.attributes.get('end')})"
    return ELLIPSIS


def _elsewhere(op: TtgirOp, at: SourceLoc | None) -> bool:
    """Whether another line of the source than that at `at` makes a value."""
    if op.loc is None or at is None:
        return True
    own_place, other_place = op.loc.in_user_code, at.in_user_code
    return (own_place.file, own_place.line) != (other_place.file, other_place.line)
