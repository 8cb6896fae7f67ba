"""Values of a TTGIR file in the words of the source, as far as the file tells them.

Recent versions of Triton name a value after the variable that its statement assigns; older ones
number values. Arguments keep their names, or their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kinspect.inspector.model import SourceLoc, TtgirOp
from kinspect.inspector.ttgir.axes.blame import is_argument
from kinspect.inspector.ttgir.axes.flow import Axes, Graph

MORE = "…"
_UNNAMED = re.compile(
    r"%(?:arg|c)?-?\d+(?:_i\d+)?(?:_\d+)?(?:#\d+)?\Z|%(?:cst|true|false)(?:_\d+)?\Z"
)
_ARGUMENT = re.compile(r"%arg(\d+)\Z")
_NUMBERED = re.compile(r"(.+)_\d+\Z")
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
    name = _variable(graph, value)
    op = graph.made.get(value)
    if op is None:  # carried by a loop
        return name or MORE
    if op.name.rpartition(".")[2] in _SHAPES and op.operands:
        return _words(axes, op.operands[0], at, depth)
    if name is not None and _elsewhere(op, at) and value not in _parts(graph):
        return name
    if depth >= _DEEPEST:
        return MORE
    return _expression(axes, op, at, depth)


def _expression(axes: Axes, op: TtgirOp, at: SourceLoc | None, depth: int) -> str:
    sign = _SIGNS.get(op.name) or _PREDICATES.get(str(op.attributes.get("predicate")))
    if sign is not None and len(op.operands) == 2:
        left, right = (_words(axes, operand, at, depth + 1) for operand in op.operands)
        text = f"{left} {sign} {right}"
        return f"({text})" if depth else text
    if op.name == "tt.get_program_id":
        return f"program_id({op.attributes.get('axis', MORE)})"
    if op.name == "tt.make_range":
        return f"arange({op.attributes.get('start')}, {op.attributes.get('end')})"
    return MORE


def _elsewhere(op: TtgirOp, at: SourceLoc | None) -> bool:
    """Whether another line of the source than that at `at` makes a value."""
    if op.loc is None or at is None:
        return True
    here, there = op.loc.in_user_code, at.in_user_code
    return (here.file, here.line) != (there.file, there.line)


def _parts(graph: Graph) -> frozenset[str]:
    """Values named after a variable that are only a part of what is assigned to it.

    `a = tl.load(p, mask=offs < K - k)` names `K - k` after `a` as well.
    """
    if graph.parts is None:
        found: set[str] = set()
        for op in graph.ops:
            own = _variable(graph, op.results[0]) if len(op.results) == 1 else None
            for operand in op.operands if own is not None else ():
                maker = graph.made.get(operand)
                if maker is None or _variable(graph, operand) != own:
                    continue
                if not _elsewhere(maker, op.loc):
                    found.add(operand)
        graph.parts = frozenset(found)
    return graph.parts


def _variable(graph: Graph, value: str) -> str | None:
    """The variable that a value is named after."""
    if _UNNAMED.match(value.partition("'")[0]):
        return None
    name = value.partition("#")[0].partition("'")[0]
    match = _NUMBERED.match(name)
    if match is not None and (match.group(1) in graph.made or match.group(1) in graph.carried):
        name = match.group(1)
    return name[1:]
