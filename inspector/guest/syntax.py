"""Python's own parser, without the inputs for which it needs gigabytes.

Reads the literals in a syntax tree, and arithmetic on them, without evaluating it.

In Inductor's code a few constructors (`DeviceProperties(...)`, `AttrsDescriptor.from_dict(...)`)
and enumeration members (`ReductionHint.INNER`) stand among them, whose classes come and go between
the versions of torch and Triton. Those are represented by their names.
"""

from __future__ import annotations

import ast
import contextlib
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_NAME_PARTS = 1000
"""Parts of a dotted name. The memory of CPython's parser for `import a.b.c` grows with their square
(3.11: 149 MB for 5,000 parts, 4 GB for 20,000, if the statement is invalid)."""

_PARTS = rf"(?:\.[\s\\]*\w+[\s\\]*){{{MAX_NAME_PARTS}}}"
_IN_TEXT, _IN_BYTES = re.compile(_PARTS), re.compile(_PARTS.encode())


def parse(source: str | bytes, filename: str = "<unknown>") -> ast.Module:
    """The syntax tree of a module.

    Raises:
        SyntaxError: it is not Python, or has a dotted name of MAX_NAME_PARTS parts and more.
        ValueError, RecursionError, MemoryError: as `ast.parse`, for NULs and deep nesting.
    """
    match = _IN_BYTES.search(source) if isinstance(source, bytes) else _IN_TEXT.search(source)
    if match is not None:
        line = len(source[: match.start()].splitlines())
        message = f"a dotted name of {MAX_NAME_PARTS} parts or more"
        raise SyntaxError(message, (filename, line, None, None))
    return ast.parse(source, filename)


MAX_BITS = 4096
"""Bits of the largest integer that a file's arithmetic may have as operand."""
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
}
_COLLECTIONS: Mapping[str, Callable[..., Any]] = {
    "set": set,
    "OrderedSet": set,
    "tuple": tuple,
    "list": list,
    "dict": dict,
    "float": float,
}


class UnreadableError(Exception):
    """An expression that is not plain data."""


@dataclass(frozen=True)
class LibraryName:
    """A name, dotted or not, that stands for a value of a library: `ReductionHint.INNER`."""

    name: str

    @property
    def last(self) -> str:
        """The name's last part."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class Construction:
    """A call as it stands in the text, not evaluated: `DeviceProperties(type='cuda', ...)`."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def read(node: ast.expr, names: Mapping[str, Any] | None = None) -> Any:
    """The value of an expression.

    `node`: the expression.
    `names`: values of plain names; any other name becomes a `LibraryName`.

    Raises:
        UnreadableError: it is neither a literal, arithmetic on numbers, nor a call or a name.
    """
    values = names or {}
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.Name, ast.Attribute)):
        name = dotted(node)
        if name is None:
            raise UnreadableError(ast.unparse(node))
        return values.get(name, LibraryName(name))
    if isinstance(node, ast.Dict):
        if any(key is None for key in node.keys):
            raise UnreadableError(ast.unparse(node))
        return {
            read(key, values): read(value, values)
            for key, value in zip(node.keys, node.values)
            if key is not None
        }
    if isinstance(node, ast.List):
        return [read(item, values) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(read(item, values) for item in node.elts)
    if isinstance(node, ast.Set):
        return {read(item, values) for item in node.elts}
    if isinstance(node, ast.Call):
        return _call(node, values)
    return _arithmetic(node, values)


def dotted(node: ast.expr) -> str | None:
    """`a.b.c` of a chain of attributes on a name; None of any other expression."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def _call(node: ast.Call, names: Mapping[str, Any]) -> Any:
    """The collection that a call makes; a `Construction` of any other call."""
    name = dotted(node.func)
    if name is None or any(keyword.arg is None for keyword in node.keywords):
        raise UnreadableError(ast.unparse(node))
    args = tuple(read(arg, names) for arg in node.args)
    kwargs = {k.arg: read(k.value, names) for k in node.keywords if k.arg is not None}
    make = _COLLECTIONS.get(name.rpartition(".")[2])
    if make is not None:
        try:
            return make(*args, **kwargs)
        except (TypeError, ValueError):
            raise UnreadableError(ast.unparse(node)) from None
    return Construction(name, args, kwargs)


def _arithmetic(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """The value of a negated number, or of arithmetic on numbers."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = read(node.operand, names)
        if isinstance(value, (int, float)):
            return -value
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        x, y = read(node.left, names), read(node.right, names)
        is_bounded = not isinstance(node.op, ast.LShift) or (type(y) is int and y < MAX_BITS)
        if _is_number(x) and _is_number(y) and is_bounded:
            with contextlib.suppress(ArithmeticError, ValueError, TypeError):
                return _ARITHMETIC[type(node.op)](x, y)
    raise UnreadableError(ast.unparse(node))


def _is_number(value: Any) -> bool:
    """Whether arithmetic may go on: repeated strings and products could grow without bound."""
    return isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= MAX_BITS)
