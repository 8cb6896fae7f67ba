"""The format of a kernel's source as data: functions with the values of the names that they use.

A source is a list of functions; the first one is the kernel. Each is

    {"module", "qualname", "file",
     "line": int, "column": int,                position of its `def`
     "text",                                    the file's text from that line on
     "noinline": bool,
     "defaults": {parameter: value},
     "names": {name: value}}                    the globals and closure cells that it uses

and a value is one of

    {"value": ...}           as `values.py` writes it
    {"jitted": number}       the function of this source with that index
    {"module": name}         a module of a library, see `is_library`
    {"library": {"module", "qualname"}}       a member of such a module
    {"members": {name: value}, "name"}        another module, with the members that are used
    {"host": text}           a value known only by running code; `text` says which

A kernel's identity: its import path and a hash over all the source that it uses.

Describes a kernel with all that its compile reads of the program.

A trace is then compiled from its own data, without running the recorded program again.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import os
import textwrap
from collections.abc import Iterator, Mapping
from types import CodeType, ModuleType
from typing import Any

from .values import encode

LANGUAGE = "triton.language"
TORCH_HELPERS = "torch._inductor.runtime.triton_helpers"
MODULES = frozenset({"triton", LANGUAGE, "math", "torch", TORCH_HELPERS})
"""Modules of libraries that a kernel may name, besides those below `triton.language`.
`parsed/library.py` decides which members it may use: torch's dtypes, Triton's language and its
functions for constants."""

Function = Mapping[str, Any]
Value = Mapping[str, Any]

FIELDS: Mapping[str, type] = {
    "module": str,
    "qualname": str,
    "file": str,
    "line": int,
    "column": int,
    "text": str,
    "noinline": bool,
    "defaults": dict,
    "names": dict,
}


def is_library(module: str) -> bool:
    """Whether a kernel may name a module: each interpreter has a library's modules itself."""
    return module in MODULES or module.startswith(f"{LANGUAGE}.")


def content_hash(functions: list[Any]) -> str:
    """SHA-256 over a source, for its recorder to write and its reader to check."""
    text = json.dumps(functions, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def is_source(functions: Any) -> bool:
    """Whether data from a file have the form described above; values are not looked at."""
    return (
        isinstance(functions, list)
        and bool(functions)
        and all(
            isinstance(function, dict)
            and set(function) == set(FIELDS)
            and all(type(function[name]) is kind for name, kind in FIELDS.items())
            for function in functions
        )
    )


MAX_MEMBERS = 400
"""How many names of one function, or members of one module, are described."""


def described(kernel: Any, constants: Mapping[Any, Any]) -> list[dict[str, Any]]:
    """The source of a kernel: its function and the jitted ones that it needs.

    `constants`: the specialisation's constants, which may be jitted functions.
    """
    builder = _SourceRecorder()
    builder.number(kernel)
    for value in constants.values():
        if builder.is_own(value):
            builder.number(value)
    return builder.functions


class _SourceRecorder:
    """Collects the jitted functions of a source, numbered in the order of their first use."""

    def __init__(self) -> None:
        jit: Any = importlib.import_module("triton.runtime.jit")
        self._jit_function = jit.JITFunction
        self._host_functions = getattr(jit, "ConstexprFunction", ())
        self._constexpr = importlib.import_module("triton.language.core").constexpr
        self._numbers: dict[int, int] = {}
        self._open_modules: set[int] = set()
        self.functions: list[dict[str, Any]] = []

    def is_own(self, value: Any) -> bool:
        """Whether a value is a jitted function of the program, not of a library."""
        return isinstance(value, self._jit_function) and not is_library(str(value.fn.__module__))

    def number(self, kernel: Any) -> int:
        """The number of a jitted function, which is described on the first call."""
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
            return {"host": f"{_definition_site(value.fn)}: the function {value.__qualname__}"}
        path = _in_library(value)
        if path is not None:
            return {"library": path}
        data = encode(value)
        if _holds(data, ("unknown", "object")):
            return {"host": f"{_definition_site(value)}: {_description(value)}"}
        return {"value": data}

    def _module(self, module: ModuleType, used: frozenset[str]) -> dict[str, Any]:
        if is_library(module.__name__):
            return {"module": module.__name__}
        if id(module) in self._open_modules:
            return {"host": f"the module {module.__name__}, within itself"}
        self._open_modules.add(id(module))
        # vars(): the __getattr__ of a lazy module would import half a library.
        present = sorted(used & set(vars(module)))[:MAX_MEMBERS]
        members = {name: self._value(vars(module)[name], used) for name in present}
        self._open_modules.discard(id(module))
        return {"members": members, "name": module.__name__}


def _names_and_values(function: Any, used: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """The globals and closure cells that a function's code names, with their values."""
    space = function.__globals__
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    for name in sorted(used | set(cells))[:MAX_MEMBERS]:
        if name in cells:
            try:
                yield name, cells[name].cell_contents
            except ValueError:  # not assigned yet
                continue
        elif name in space:
            yield name, space[name]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _text(kernel: Any) -> tuple[str, int, int]:
    lines, start = inspect.getsourcelines(kernel.fn)
    stripped = [line.lstrip() for line in lines]
    def_index = next((n for n, line in enumerate(stripped) if line.startswith("def ")), 0)
    text = "".join(lines[def_index:])
    column = len(lines[def_index]) - len(stripped[def_index])
    if textwrap.dedent(text).rstrip() != kernel.src.rstrip():  # the program has changed `src`
        text, column = str(kernel.src), 0
    return text, start + def_index, column


def _in_library(value: Any) -> dict[str, str] | None:
    """Module and qualified name of a library's function or class; None of any other value."""
    owner = getattr(value, "fn", value)
    module = getattr(owner, "__module__", None)
    qualname = getattr(owner, "__qualname__", None) or getattr(owner, "__name__", None)
    if isinstance(module, str) and isinstance(qualname, str) and is_library(module):
        return {"module": module, "qualname": qualname}
    return None


def _holds(data: Any, kinds: tuple[str, ...]) -> bool:
    if isinstance(data, dict):
        return any(k in data for k in kinds) or any(_holds(v, kinds) for v in data.values())
    return isinstance(data, list) and any(_holds(part, kinds) for part in data)


def _definition_site(value: Any) -> str:
    code = getattr(getattr(value, "fn", value), "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    return str(getattr(value, "__module__", None) or type(value).__module__)


def _description(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    if isinstance(name, str):
        return name
    return f"a value of class {type(value).__qualname__}"


LIBRARIES = ("triton", "torch")
"""Packages whose jitted functions belong to the installed version, not to the user's source."""


def identity(kernel: Any) -> dict[str, Any]:
    """Import path, line and hash of a JITFunction, by which another process finds it."""
    function = kernel.fn
    is_gluon = getattr(kernel, "is_gluon", None)
    return {
        "module": function.__module__,
        "qualname": function.__qualname__,
        "file": os.path.abspath(function.__code__.co_filename),
        "line": int(kernel.starting_line_number),
        "sha256": source_hash(kernel),
        "gluon": bool(is_gluon()) if is_gluon is not None else False,
    }


def source_hash(kernel: Any) -> str:
    """SHA-256 over the source of a kernel and of the jitted functions that it reaches by name.

    Line numbers and module names do not count: a kernel moved in its file is the same kernel.
    """
    base = importlib.import_module("triton.runtime.jit").JITFunction
    reached: dict[int, Any] = {}
    waiting = [kernel]
    while waiting:
        function = waiting.pop()
        if id(function) in reached:
            continue
        reached[id(function)] = function
        waiting += [
            value
            for value in _values_used(function.fn)
            if isinstance(value, base) and not _of_library(value)
        ]
    texts = sorted(f"{f.fn.__qualname__}\n{f.src}" for f in reached.values())
    return hashlib.sha256("\0".join(texts).encode("utf-8", "replace")).hexdigest()


def _values_used(function: Any) -> Iterator[Any]:
    """The globals, closure cells and members of modules that a function's code names."""
    code = function.__code__
    cells = zip(code.co_freevars, function.__closure__ or ())
    names = dict.fromkeys(code.co_names)
    values = [function.__globals__[name] for name in names if name in function.__globals__]
    for _, cell in cells:
        try:
            values.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    for value in values:
        yield value
        if inspect.ismodule(value):
            yield from _members(value, names)


def _members(module: ModuleType, names: dict[str, None]) -> Iterator[Any]:
    # vars(): the __getattr__ of a lazy module would import half a library.
    members = vars(module)
    for name in names:
        if name in members:
            yield members[name]


def _of_library(function: Any) -> bool:
    return str(function.fn.__module__).partition(".")[0] in LIBRARIES
