"""Describes a kernel with all that its compile reads of the program, as `contents.py` says.

So that a trace is compiled from what it holds, and nothing of the recorded program is run again.
"""

from __future__ import annotations

import importlib
import inspect
import os
import textwrap
from collections.abc import Iterator, Mapping
from types import CodeType, ModuleType
from typing import Any

from .contents import is_library
from .values import encode

MOST_MEMBERS = 400
"""Names of one function's, or of one module's, that are described."""


def described(kernel: Any, constants: Mapping[Any, Any]) -> list[dict[str, Any]]:
    """A kernel, the jitted functions that it reaches, and those that it is specialised on.

    Args:
        kernel: the JITFunction.
        constants: the specialisation's constants.
    """
    reached = _Reached()
    reached.number(kernel)
    for value in constants.values():
        if reached.is_own(value):
            reached.number(value)
    return reached.functions


class _Reached:
    """The jitted functions of a source, numbered as they come."""

    def __init__(self) -> None:
        jit: Any = importlib.import_module("triton.runtime.jit")
        self._jit_function = jit.JITFunction
        self._host_functions = getattr(jit, "ConstexprFunction", ())
        self._constexpr = importlib.import_module("triton.language.core").constexpr
        self._numbers: dict[int, int] = {}
        self._within: set[int] = set()
        self.functions: list[dict[str, Any]] = []

    def is_own(self, value: Any) -> bool:
        """Whether a value is a jitted function of the program's, not of a library."""
        return isinstance(value, self._jit_function) and not is_library(str(value.fn.__module__))

    def number(self, kernel: Any) -> int:
        """The number of a jitted function; on the first call for it, it is described."""
        number = self._numbers.get(id(kernel))
        if number is not None:
            return number
        number = self._numbers[id(kernel)] = len(self.functions)
        function = kernel.fn
        text, line, column = _text(kernel)
        names: dict[str, Any] = {}
        self.functions.append(
            {
                "module": str(function.__module__),
                "qualname": str(function.__qualname__),
                "file": str(os.path.abspath(function.__code__.co_filename)),
                "line": line,
                "column": column,
                "text": text,
                "noinline": bool(getattr(kernel, "noinline", False)),
                "defaults": {},
                "names": names,
            }
        )
        used = frozenset(_names(function.__code__))
        for name, value in _names_and_values(function, used):
            names[name] = self._value(value, used)
        parameters = inspect.signature(function).parameters.values()
        self.functions[number]["defaults"] = {
            p.name: self._value(p.default, frozenset())
            for p in parameters
            if p.default is not p.empty
        }
        return number

    def _value(self, value: Any, used: frozenset[str]) -> dict[str, Any]:
        if isinstance(value, ModuleType):
            return self._module(value, used)
        if self.is_own(value):
            return {"jitted": self.number(value)}
        if isinstance(value, self._constexpr) and self.is_own(value.value):
            return {"jitted": self.number(value.value)}
        if isinstance(value, self._host_functions) and not is_library(str(value.__module__)):
            return {"host": f"{_place(value.fn)}: the function {value.__qualname__}"}
        path = _in_library(value)
        if path is not None:
            return {"library": path}
        data = encode(value)
        if _holds(data, ("unknown", "object")):
            return {"host": f"{_place(value)}: {_kind(value)}"}
        return {"value": data}

    def _module(self, module: ModuleType, used: frozenset[str]) -> dict[str, Any]:
        if is_library(module.__name__):
            return {"module": module.__name__}
        if id(module) in self._within:
            return {"host": f"the module {module.__name__}, within itself"}
        self._within.add(id(module))
        # vars(): the __getattr__ of a lazy module would import half a library.
        present = sorted(used & set(vars(module)))[:MOST_MEMBERS]
        members = {name: self._value(vars(module)[name], used) for name in present}
        self._within.discard(id(module))
        return {"members": members, "name": module.__name__}


def _names_and_values(function: Any, used: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """The globals and closure cells that a function's code names."""
    space = function.__globals__
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    for name in sorted(used | set(cells))[:MOST_MEMBERS]:
        if name in cells:
            try:
                yield name, cells[name].cell_contents
            except ValueError:  # not assigned yet
                continue
        elif name in space:
            yield name, space[name]


def _names(code: CodeType) -> Iterator[str]:
    """Global names and attributes that code uses, that of its comprehensions included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _text(kernel: Any) -> tuple[str, int, int]:
    """A function's text from its `def` on, with the line and the column of that."""
    lines, start = inspect.getsourcelines(kernel.fn)
    stripped = [line.lstrip() for line in lines]
    def_index = next((n for n, line in enumerate(stripped) if line.startswith("def ")), 0)
    text = "".join(lines[def_index:])
    column = len(lines[def_index]) - len(stripped[def_index])
    if textwrap.dedent(text).rstrip() != kernel.src.rstrip():  # a program may set another source
        text, column = str(kernel.src), 0
    return text, start + def_index, column


def _in_library(value: Any) -> dict[str, str] | None:
    """Where a library's module has a value; None where none has it under its own name."""
    owner = getattr(value, "fn", value)
    module = getattr(owner, "__module__", None)
    qualname = getattr(owner, "__qualname__", None) or getattr(owner, "__name__", None)
    if isinstance(module, str) and isinstance(qualname, str) and is_library(module):
        return {"module": module, "qualname": qualname}
    return None


def _holds(data: Any, kinds: tuple[str, ...]) -> bool:
    """Whether an encoded value has a part of one of these kinds."""
    if isinstance(data, dict):
        return any(k in data for k in kinds) or any(_holds(v, kinds) for v in data.values())
    return isinstance(data, list) and any(_holds(part, kinds) for part in data)


def _place(value: Any) -> str:
    code = getattr(getattr(value, "fn", value), "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    return str(getattr(value, "__module__", None) or type(value).__module__)


def _kind(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    if isinstance(name, str):
        return name
    return f"a value of class {type(value).__qualname__}"
