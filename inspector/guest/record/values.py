"""Values of the user's program as JSON, for another process to rebuild.

Numbers, strings, bools and None stand for themselves; everything else is an object whose key names
its kind:

    {"float": "nan" | "inf" | "-inf"}          {"tuple": [...]}     {"list": [...]}
    {"dict": [[key, value], ...]}              {"constexpr": value}
    {"namedtuple": path, "items": [...]}       {"dtype": "fp16"}    (of triton.language)
    {"pointer": dtype, "const": bool}          {"torch": "float16"} (a dtype of torch)
    {"enum": path, "name": "MEMBER"}           {"object": path}     (functions, classes, kernels)
    {"unknown": "text", "type": "class"}       cannot be rebuilt

A path is `{"module", "qualname", "file"}`; that of a named tuple has its "fields" as well, that of
an enumeration its "members" ([name, value] each) and "mixin" ("int", "str" or null): these are
rebuilt where their module must not be imported.
"""

from __future__ import annotations

import enum
import importlib
import math
import os
from collections.abc import Callable
from typing import Any

MAX_TEXT = 200

Resolve = Callable[[dict[str, Any]], Any]


class UnknownValueError(Exception):
    """A recorded value that cannot be rebuilt; the message is its text."""


def encode(value: Any) -> Any:
    """A value as JSON data; `unknown` (see above) where it has no other form. Never raises."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": str(value)}
    try:
        return _encode(value)
    except Exception as error:
        return {"unknown": type(error).__name__, "type": type(value).__name__}


def decode(data: Any, resolve: Resolve) -> Any:
    """The value that `encode` was given.

    `data`: the result of `encode`, written as JSON and read again.
    `resolve`: returns the object at a path.

    Raises:
        UnknownValueError: it cannot be rebuilt.
        Exception: any error of `resolve`.
    """
    if not isinstance(data, dict):
        return data
    kind = next((name for name in _DECODERS if name in data), None)
    if kind is None:
        raise UnknownValueError(f"{data.get('type', '?')}: {data.get('unknown', data)}")
    return _DECODERS[kind](data, resolve)


def _encode(value: Any) -> Any:
    """See `encode`; may raise any error of a value's own methods."""
    language: Any = importlib.import_module("triton.language.core")
    if isinstance(value, language.constexpr):
        return {"constexpr": encode(value.value)}
    if isinstance(value, language.pointer_type):
        return {"pointer": encode(value.element_ty), "const": bool(getattr(value, "const", False))}
    if type(value) is language.dtype:
        return {"dtype": value.name}
    if isinstance(value, enum.Enum):
        kinds = (kind.__name__ for kind in (int, str) if isinstance(value, kind))
        members = [[member.name, encode(member.value)] for member in type(value)]
        path = {**_path(type(value)), "members": members, "mixin": next(kinds, None)}
        return {"enum": path, "name": value.name}
    if isinstance(value, tuple):
        items = [encode(v) for v in value]
        if hasattr(value, "_fields"):
            fields = [str(name) for name in value._fields]
            return {"namedtuple": {**_path(type(value)), "fields": fields}, "items": items}
        return {"tuple": items}
    if isinstance(value, list):
        return {"list": [encode(v) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(k), encode(v)] for k, v in value.items()]}
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return {"torch": str(value).partition(".")[2]}
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        return encode(value.item())
    if isinstance(value, (bool, int, float, str)):  # subclasses
        return encode(next(k for k in (bool, int, float, str) if isinstance(value, k))(value))
    function = getattr(value, "fn", value)  # a jitted function, or a plain one
    if isinstance(getattr(function, "__qualname__", None), str):
        return {"object": _path(function)}
    return {"unknown": repr(value)[:MAX_TEXT], "type": type(value).__name__}


def _path(definition: Any) -> dict[str, Any]:
    code = getattr(definition, "__code__", None)
    file = code.co_filename if code is not None else None
    return {
        "module": definition.__module__,
        "qualname": definition.__qualname__,
        "file": os.path.abspath(file) if file is not None else None,
    }


def _decode_dtype(data: dict[str, Any], resolve: Resolve) -> Any:
    language: Any = importlib.import_module("triton.language.core")
    return language.dtype(data["dtype"])


def _decode_pointer(data: dict[str, Any], resolve: Resolve) -> Any:
    language: Any = importlib.import_module("triton.language.core")
    element = decode(data["pointer"], resolve)
    if data.get("const"):
        return language.pointer_type(element, const=True)
    return language.pointer_type(element)


def _decode_constexpr(data: dict[str, Any], resolve: Resolve) -> Any:
    language: Any = importlib.import_module("triton.language.core")
    return language.constexpr(decode(data["constexpr"], resolve))


def _class_of(path: dict[str, Any], resolve: Resolve, base: type[Any]) -> Any:
    kind = resolve(path)
    is_class = isinstance(kind, type) and issubclass(kind, base)
    if not is_class or (base is tuple and not hasattr(kind, "_fields")):
        raise UnknownValueError(f"{path.get('qualname')}, which is no such class")
    return kind


def _decode_torch(data: dict[str, Any], resolve: Resolve) -> Any:
    torch: Any = importlib.import_module("torch")
    dtype = getattr(torch, str(data["torch"]), None)
    if not isinstance(dtype, torch.dtype):
        raise UnknownValueError(f"torch.{data['torch']}, which is not a dtype")
    return dtype


_DECODERS: dict[str, Callable[[dict[str, Any], Resolve], Any]] = {
    "float": lambda data, resolve: float(data["float"]),
    "tuple": lambda data, resolve: tuple(decode(v, resolve) for v in data["tuple"]),
    "list": lambda data, resolve: [decode(v, resolve) for v in data["list"]],
    "dict": lambda data, resolve: {decode(k, resolve): decode(v, resolve) for k, v in data["dict"]},
    "constexpr": _decode_constexpr,
    "namedtuple": lambda data, resolve: _class_of(data["namedtuple"], resolve, tuple)(
        *(decode(v, resolve) for v in data["items"])
    ),
    "dtype": _decode_dtype,
    "pointer": _decode_pointer,
    "torch": _decode_torch,
    "enum": lambda data, resolve: _class_of(data["enum"], resolve, enum.Enum)[data["name"]],
    "object": lambda data, resolve: resolve(data["object"]),
}
