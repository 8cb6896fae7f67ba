"""Evaluates literals, and arithmetic on literals, of a syntax tree."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any

MAX_BITS = 4096
"""Bits of the largest integer that a file's arithmetic may have as operand."""

_ARITHMETIC: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda x, y: x + y,
    ast.Sub: lambda x, y: x - y,
    ast.Mult: lambda x, y: x * y,
    ast.Div: lambda x, y: x / y,
    ast.FloorDiv: lambda x, y: x // y,
    ast.Mod: lambda x, y: x % y,
    ast.LShift: lambda x, y: x << y if y < MAX_BITS else None,
}


class NotLiteralError(Exception):
    """An expression that is no literal and no arithmetic on literals."""


def literal(node: ast.expr) -> Any:
    """The value of a literal, or of arithmetic on literals, in the format of `record/values.py`.

    Raises:
        NotLiteralError: the expression is neither.
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
        x, y = literal(node.left), literal(node.right)
        if _is_number(x) and _is_number(y):
            return _number(_ARITHMETIC[type(node.op)](x, y))
    raise NotLiteralError


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= MAX_BITS)


def _number(value: Any) -> Any:
    if value is None:
        raise NotLiteralError
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value
