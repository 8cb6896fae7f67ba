"""Makes JITFunctions of sources (`record/contents.py`): no `def`, default or decorator is run.

A Python function is made of the code object alone: its globals are the values that the source
holds, its annotations are text.
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

from ..record.contents import Function, Value
from ..syntax import parse
from . import library
from .guard import Guard, check_names
from .refusals import RefusedError, Unavailable

Decode = Callable[[Any], Any]
MOST_LINE = 1_000_000
MOST_COLUMN = 400
MISSING = object()
MADE_OF_DATA = "<kernel of data "
"""How the file names begin that functions have while JITFunctions are made of them."""
PLACE = "_kinspect_place"
"""Attribute of a JITFunction: the file and line that its `def` was recorded at."""
_NUMBERS = itertools.count()


class Builder:
    """Makes the kernels of one capture.

    Args:
        guard: is told of each.
        decode: makes the value of what `record/values.py` wrote; its exceptions are passed on.
    """

    def __init__(self, guard: Guard, decode: Decode) -> None:
        self._guard = guard
        self._decode = decode

    def build(self, functions: Sequence[Function]) -> list[Any]:
        """The JITFunctions of a source, in its order.

        Raises:
            RefusedError: it is no kernel but something that would have to run.
            SyntaxError: a function's text is not Python.
        """
        scopes: list[dict[str, Any]] = [{} for _ in functions]
        kernels = [self._kernel(f, scope) for f, scope in zip(functions, scopes)]
        for function, scope in zip(functions, scopes):
            for name, value in function["names"].items():
                scope[name] = self._value(value, kernels)
        # Only now are those there that a default may name.
        for function, kernel in zip(functions, kernels):
            self._set_defaults(kernel, function["defaults"], kernels)
        return kernels

    def _kernel(self, source: Function, scope: dict[str, Any]) -> Any:
        node = parsed_function(source["text"], source["qualname"])
        check_names(node)
        line, column = source["line"], source["column"]
        if not (1 <= line <= MOST_LINE and 0 <= column <= MOST_COLUMN):
            raise RefusedError(f"line {line}, column {column}, which no function has")
        # Not under the file's own name: whoever asks for a line of that gets what stands there.
        name = f"{MADE_OF_DATA}{next(_NUMBERS)}>"
        _remember(name, source["text"], column, line)
        code = _code(node, name, line)
        function = types.FunctionType(code, scope, node.name)
        function.__qualname__ = source["qualname"]
        function.__module__ = source["module"]
        function.__annotations__ = _annotations(node)
        _mark_defaults(function, node)
        jit: Any = importlib.import_module("triton.runtime.jit")
        kernel = jit.JITFunction(function, noinline=source["noinline"] or None)
        function.__code__ = code.replace(co_filename=source["file"])
        if hasattr(kernel, "file_name"):  # Triton 3.4 asks the code
            kernel.file_name = source["file"]
        setattr(kernel, PLACE, (source["file"], line))
        self._guard.add(kernel)
        return kernel

    def _set_defaults(self, kernel: Any, stated: Mapping[str, Value], kernels: Any) -> None:
        """The values of a kernel's defaults; where the source holds none, that one is missing."""
        parameters = kernel.signature.parameters
        values = {
            name: self._value(stated[name], kernels)
            if name in stated
            else Unavailable(f"the default value of {name}")
            for name, parameter in parameters.items()
            if parameter.default is not parameter.empty
        }
        changed = [
            p.replace(default=values[n]) if n in values else p for n, p in parameters.items()
        ]
        kernel.signature = kernel.signature.replace(parameters=changed)
        for parameter in kernel.params:
            parameter._param = kernel.signature.parameters[parameter.name]
        by_keyword = kernel.fn.__kwdefaults__ or {}
        kernel.fn.__defaults__ = tuple(v for n, v in values.items() if n not in by_keyword) or None
        kernel.fn.__kwdefaults__ = {n: values[n] for n in by_keyword} or None

    def _value(self, value: Value, kernels: Sequence[Any]) -> Any:
        (kind, content), *further = value.items()
        if kind == "value" and not further:
            return self._decode(content)
        if kind == "jitted" and type(content) is int and 0 <= content < len(kernels):
            return kernels[content]
        if kind == "module" and isinstance(content, str):
            return library.module_named(content)
        if kind == "library" and isinstance(content, dict):
            return library.member(str(content.get("module")), str(content.get("qualname")))
        if kind == "members" and isinstance(content, dict):
            return self._module(str(value.get("name")), content, kernels)
        if kind == "host":
            return Unavailable(str(content))
        return Unavailable(f"a value of no known form: {kind}")

    def _module(self, name: str, members: Mapping[str, Value], kernels: Sequence[Any]) -> Any:
        module = types.ModuleType(name)
        for member, value in members.items():
            vars(module)[member] = self._value(value, kernels)
        self._guard.language.add_module(module)
        return module


def parsed_function(text: str, qualname: str) -> ast.FunctionDef:
    """The syntax tree of a function's text.

    Raises:
        RefusedError: there is more than one function in it, or something else.
        SyntaxError: it is not Python.
    """
    try:
        body = parse(textwrap.dedent(text)).body
    except (RecursionError, MemoryError, ValueError) as error:
        raise RefusedError(f"a source that cannot be parsed: {type(error).__name__}") from None
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
        raise RefusedError(f"{qualname}, whose text is not one function")
    return body[0]


def _code(node: ast.FunctionDef, file: str, line: int) -> types.CodeType:
    """The code of a function, compiled and not run, without what surrounds its body."""
    bare = ast.FunctionDef(**{**vars(node), "decorator_list": [], "returns": None})
    ast.increment_lineno(node, line - node.lineno)
    bare.lineno, bare.end_lineno = node.lineno, node.end_lineno
    arguments = node.args
    names = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    variadic = [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    plain = {id(a): ast.copy_location(ast.arg(a.arg, None), a) for a in (*names, *variadic)}
    bare.args = ast.arguments(
        posonlyargs=[plain[id(a)] for a in arguments.posonlyargs],
        args=[plain[id(a)] for a in arguments.args],
        vararg=plain[id(arguments.vararg)] if arguments.vararg is not None else None,
        kwonlyargs=[plain[id(a)] for a in arguments.kwonlyargs],
        kw_defaults=[None for _ in arguments.kwonlyargs],
        kwarg=plain[id(arguments.kwarg)] if arguments.kwarg is not None else None,
        defaults=[],
    )
    code = compile(ast.Module([bare], []), file, "exec", dont_inherit=True)
    return next(
        constant
        for constant in code.co_consts
        if isinstance(constant, types.CodeType) and constant.co_name == node.name
    )


def _annotations(node: ast.FunctionDef) -> dict[str, Any]:
    """Annotations as text: JITFunction looks for the word `constexpr` in them."""
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    named += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    texts = {}
    for argument in named:
        annotation = argument.annotation
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            texts[argument.arg] = annotation.value
        elif annotation is not None:
            texts[argument.arg] = ast.unparse(annotation)
    return texts


def _mark_defaults(function: Any, node: ast.FunctionDef) -> None:
    """Marks which parameters have a default; their values come later."""
    arguments = node.args
    function.__defaults__ = tuple(MISSING for _ in arguments.defaults) or None
    function.__kwdefaults__ = {
        a.arg: MISSING
        for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults)
        if default is not None
    } or None


def _remember(name: str, text: str, column: int, line: int) -> None:
    """Lets `inspect` find a function's lines, as JITFunction does, though no file is read."""
    indent = " " * column if not text.startswith((" ", "\t")) else ""
    lines = [f"{indent}{source_line}\n" for source_line in text.rstrip("\n").split("\n")]
    lines = ["\n"] * (line - 1) + lines
    # Without a modification time an entry is not checked against the disk.
    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
