"""Literals, and arithmetic on literals, of a syntax tree."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any

MOST_BITS = 4096
"""Of an integer that arithmetic in a file may come to."""

_ARITHMETIC: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda x, y: x + y,
    ast.Sub: lambda x, y: x - y,
    ast.Mult: lambda x, y: x * y,
    ast.Div: lambda x, y: x / y,
    ast.FloorDiv: lambda x, y: x // y,
    ast.Mod: lambda x, y: x % y,
    ast.LShift: lambda x, y: x << y if y < MOST_BITS else None,
}


class NotLiteralError(Exception):
    """An expression that is more than a literal."""


def literal(node: ast.expr) -> Any:
    """A literal, or arithmetic on literals, as `record/values.py` would write its value.

    Raises:
        NotLiteralError: it is neither.
    """
    if isinstance(node, ast.Constant):
        if node.value is None or isinstance(node.value, (bool, int, str)):
            return node.value
        if isinstance(node.value, float):
            return _number(node.value)
    if isinstance(node, ast.Tuple):
        return {"tuple": [literal(element) for element in node.elts]}
    if isinstance(node, ast.List):
        return {"list": [literal(element) for element in node.elts]}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        operand = literal(node.operand)
        if isinstance(operand, (int, float)):
            return _number(-operand)
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "float" and len(node.args) == 1:
        argument = node.args[0]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, (int, float, str)):
            return _number(float(argument.value))
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = literal(node.left), literal(node.right)
        if _is_number(left) and _is_number(right):
            return _number(_ARITHMETIC[type(node.op)](left, right))
    raise NotLiteralError


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= MOST_BITS)


def _number(value: Any) -> Any:
    if value is None:
        raise NotLiteralError
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value
