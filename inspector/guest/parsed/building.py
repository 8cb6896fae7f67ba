"""Makes JITFunctions of recorded sources without running any of their code.

No module, `def`, default or decorator is executed. The text of a function is compiled, and a Python
function is created from the code object: its globals are the values in the source, its annotations
are strings. The format of a source: `record/kernel_source.py`.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import linecache
import textwrap
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..record.kernel_source import Function, Value, is_library
from ..syntax import parse
from . import library
from .guard import GUARDED_BUILTINS, Guard, check_names
from .library import RefusedError, Unavailable

Decode = Callable[[Any], Any]
DEFINITION_ATTRIBUTE = "_kinspect_place"
"""Attribute of a JITFunction with the recorded file and line of its `def`."""
RECORDED_PREFIX = "<kernel of data "
"""Prefix of a function's file name while its JITFunction is being made.

The recorded file's own name would not do: `inspect` would read what stands in that file now.
"""
_MAX_LINE = 1_000_000
_MAX_COLUMN = 400
_PLACEHOLDER = object()
"""Default of a parameter until `_set_defaults` puts the recorded one in its place."""
_NUMBERS = itertools.count()


class KernelBuilder:
    """Makes the kernels of one capture.

    `decode`: rebuilds a value in the format of `record/values.py`; its exceptions are passed on.
    """

    def __init__(self, guard: Guard, decode: Decode) -> None:
        self._guard = guard
        self._decode = decode

    def build(self, functions: Sequence[Function]) -> list[Any]:
        """The JITFunctions of a source, in its order.

        Raises:
            RefusedError: a part of it is no kernel and would have to be executed.
            SyntaxError: a function's text is not Python.
        """
        scopes: list[dict[str, Any]] = [{} for _ in functions]
        kernels = [self._kernel(f, scope) for f, scope in zip(functions, scopes)]
        for function, scope in zip(functions, scopes):
            for name, value in function["names"].items():
                if name.startswith("__") or name in GUARDED_BUILTINS:
                    raise RefusedError(f"the name {name}")
                scope[name] = self._value(value, kernels)
            scope["__builtins__"] = {}  # were it ever called, it could do nothing
        # A default may name any of the kernels: it can be decoded once they all exist.
        for function, kernel in zip(functions, kernels):
            self._set_defaults(kernel, function["defaults"], kernels)
        return kernels

    def _kernel(self, source: Function, scope: dict[str, Any]) -> Any:
        node = parsed_function(source["text"], source["qualname"])
        check_names(node)
        if is_library(str(source["module"])):  # such a function is taken from the library
            raise RefusedError(f"{source['module']}.{source['qualname']}, which is in the trace")
        line, column = source["line"], source["column"]
        if not (1 <= line <= _MAX_LINE and 0 <= column <= _MAX_COLUMN):
            raise RefusedError(f"line {line}, column {column}, which no function has")
        file_name = f"{RECORDED_PREFIX}{next(_NUMBERS)}>"
        _add_to_linecache(file_name, source["text"], column, line)
        code = _compiled(node, file_name, line)
        function = types.FunctionType(code, scope, node.name)
        function.__qualname__ = source["qualname"]
        function.__module__ = source["module"]
        function.__annotations__ = _annotations(node)
        _set_placeholders(function, node)
        jit: Any = importlib.import_module("triton.runtime.jit")
        kernel = jit.JITFunction(function, noinline=source["noinline"] or None)
        _check_same(kernel, node, source["qualname"])
        function.__code__ = code.replace(co_filename=source["file"])
        if hasattr(kernel, "file_name"):  # Triton 3.4 reads the code object's instead
            kernel.file_name = source["file"]
        setattr(kernel, DEFINITION_ATTRIBUTE, (source["file"], line))
        # Else Triton would look for all that its code names, what is never lowered included, and
        # take attributes of it, to hash their values.
        kernel.hash = f"kernel of data {next(_NUMBERS)}"
        self._guard.add(kernel)
        return kernel

    def _set_defaults(self, kernel: Any, recorded: Mapping[str, Value], kernels: Any) -> None:
        """Replaces the placeholders by the recorded defaults, in Triton's copies of them too."""
        defaults: dict[str, Any] = {}
        parameters = []
        for name, parameter in kernel.signature.parameters.items():
            if parameter.default is not parameter.empty:
                if name in recorded:
                    defaults[name] = self._value(recorded[name], kernels)
                else:
                    defaults[name] = Unavailable(f"the default value of {name}")
                parameter = parameter.replace(default=defaults[name])
            parameters.append(parameter)
        kernel.signature = kernel.signature.replace(parameters=parameters)
        for parameter in kernel.params:
            parameter._param = kernel.signature.parameters[parameter.name]
        keyword_only = kernel.fn.__kwdefaults__ or {}
        positional = [value for name, value in defaults.items() if name not in keyword_only]
        kernel.fn.__defaults__ = tuple(positional) or None
        kernel.fn.__kwdefaults__ = {name: defaults[name] for name in keyword_only} or None

    def _value(self, value: Value, kernels: Sequence[Any]) -> Any:
        """The object that a value of a source stands for (`record/kernel_source.py`)."""
        (kind, content), *other_keys = value.items()
        if kind == "value" and not other_keys:
            return self._decode(content)
        if kind == "jitted" and type(content) is int and 0 <= content < len(kernels):
            return kernels[content]
        if kind == "module" and isinstance(content, str):
            return library.library_module(content)
        if kind == "library" and isinstance(content, dict):
            return self._guard.language.known(
                library.member(str(content.get("module")), str(content.get("qualname")))
            )
        if kind == "members" and isinstance(content, dict):
            return self._module(str(value.get("name")), content, kernels)
        if kind == "host":
            return Unavailable(str(content))
        return Unavailable(f"a value of no known form: {kind}")

    def _module(self, name: str, members: Mapping[str, Value], kernels: Sequence[Any]) -> Any:
        module = types.ModuleType(name)
        for member, value in members.items():
            if member.startswith("__"):  # Python itself would call it
                raise RefusedError(f"the member {member} of {name}")
            vars(module)[member] = self._value(value, kernels)
        self._guard.language.add_module(module)
        return module


def parsed_function(text: str, qualname: str) -> ast.FunctionDef:
    """The syntax tree of a function's text.

    Raises:
        RefusedError: it is anything but one function.
        SyntaxError: it is not Python.
    """
    try:
        body = parse(textwrap.dedent(text)).body
    except (RecursionError, MemoryError, ValueError) as error:
        raise RefusedError(f"a source that cannot be parsed: {type(error).__name__}") from None
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
        raise RefusedError(f"{qualname}, whose text is not one function")
    return body[0]


def _check_same(kernel: Any, node: ast.FunctionDef, qualname: str) -> None:
    """Checks that Triton generates code of the tree that was checked: it cuts the text anew."""

    def parts(function: Any) -> list[str]:
        return [ast.dump(part) for part in (function.args, *function.body)]

    try:
        body = kernel.parse().body
    except (SyntaxError, AssertionError):
        body = []
    same = len(body) == 1 and isinstance(body[0], ast.FunctionDef)
    if not same or parts(body[0]) != parts(node):
        raise RefusedError(f"{qualname}, whose text Triton reads otherwise")


def _compiled(node: ast.FunctionDef, file: str, line: int) -> types.CodeType:
    stripped = ast.FunctionDef(**{**vars(node), "decorator_list": [], "returns": None})
    ast.increment_lineno(node, line - node.lineno)
    stripped.lineno, stripped.end_lineno = node.lineno, node.end_lineno
    arguments = node.args
    names = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    variadic = [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    stripped_args = {id(a): ast.copy_location(ast.arg(a.arg, None), a) for a in (*names, *variadic)}
    stripped.args = ast.arguments(
        posonlyargs=[stripped_args[id(a)] for a in arguments.posonlyargs],
        args=[stripped_args[id(a)] for a in arguments.args],
        vararg=stripped_args[id(arguments.vararg)] if arguments.vararg is not None else None,
        kwonlyargs=[stripped_args[id(a)] for a in arguments.kwonlyargs],
        kw_defaults=[None for _ in arguments.kwonlyargs],
        kwarg=stripped_args[id(arguments.kwarg)] if arguments.kwarg is not None else None,
        defaults=[],
    )
    code = compile(ast.Module([stripped], []), file, "exec", dont_inherit=True)
    return next(
        constant
        for constant in code.co_consts
        if isinstance(constant, types.CodeType) and constant.co_name == node.name
    )


def _annotations(node: ast.FunctionDef) -> dict[str, Any]:
    """The parameters' annotations as strings, in which JITFunction looks for `constexpr`."""
    arguments = node.args
    variadic = [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    texts = {}
    for argument in (
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        *variadic,
    ):
        annotation = argument.annotation
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            texts[argument.arg] = annotation.value
        elif annotation is not None:
            texts[argument.arg] = ast.unparse(annotation)
    return texts


def _set_placeholders(function: Any, node: ast.FunctionDef) -> None:
    arguments = node.args
    function.__defaults__ = tuple(_PLACEHOLDER for _ in arguments.defaults) or None
    function.__kwdefaults__ = {
        argument.arg: _PLACEHOLDER
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults)
        if default is not None
    } or None


def _add_to_linecache(name: str, text: str, column: int, line: int) -> None:
    """Puts a text into `linecache`, where `inspect`, which JITFunction uses, looks for lines."""
    indent = " " * column if not text.startswith((" ", "\t")) else ""
    lines = [f"{indent}{source_line}\n" for source_line in text.rstrip("\n").split("\n")]
    lines = ["\n"] * (line - 1) + lines
    # Without a modification time an entry is not checked against the disk.
    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
