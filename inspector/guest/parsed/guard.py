"""Restricts the code that Triton's code generator evaluates in a kernel to Triton's language.

The code generator walks a kernel's syntax tree and evaluates any name, attribute and call that it
can at compile time. In a kernel from an untrusted file, `tl.core.os.system("...")` would run. So
every value of an expression in such a kernel must belong to the language (`library.py`): a function
that is refused as a value cannot be called.

Functions of Triton's own library are not restricted.
"""

from __future__ import annotations

import ast
import importlib
import sys
from typing import Any

from ..cases.types import is_type
from .library import FORMATTING_METHODS, Language, RefusedError, Unavailable

RESERVED = frozenset({"_semantic", "_generator", "_builder"})
"""Arguments that only the code generator itself may pass."""
GUARDED_BUILTINS = frozenset({"getattr", "hasattr"})
"""Functions of Python that stand replaced; they may be given a module."""
OTHER_TYPES = frozenset({"B", "constexpr", "nvTmaDesc", "void"})
"""Types of arguments that no case states."""


class Guard:
    """The kernels of this process that come from untrusted files."""

    def __init__(self) -> None:
        self.language = Language()
        self._kernels: list[Any] = []
        self._generator: tuple[Any, Any] = (None, None)
        guarded_getattr, guarded_hasattr = _accessors(self.language)
        self._builtins = {"getattr": guarded_getattr, "hasattr": guarded_hasattr}
        for function in self._builtins.values():
            self.language.add_builtin(function)

    def add(self, kernel: Any) -> None:
        """Adds a JITFunction whose body is not trusted."""
        self._kernels.append(kernel)

    def covers(self, kernel: Any) -> bool:
        """Whether the body of a JITFunction is not trusted."""
        return any(kernel is covered for covered in self._kernels)

    def install(self) -> None:
        """Replaces this process's code generator by one that checks the kernels of `add`."""
        module: Any = importlib.import_module("triton.compiler.code_generator")
        guard = self
        original: Any = module.CodeGenerator

        class CodeGenerator(original):  # type: ignore[misc]
            """Triton's code generator, with checks where a kernel is guarded."""

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                guard.language.check_kernel(self.jit_fn)
                self._guarded = guard.covers(self.jit_fn)
                self._checked: dict[int, Any] = {}  # id of an expression -> its value
                self._arguments: set[int] = set()  # ids of the expressions that calls are given
                if self._guarded:
                    self.builtin_namespace = {**original.builtin_namespace, **guard._builtins}

            def call_JitFunction(self, fn: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N802
                # Triton calls methods of whatever a kernel hands to tl.reduce and its like.
                guard.language.check_kernel(fn)
                return super().call_JitFunction(fn, *args, **kwargs)

            def visit(self, node: Any) -> Any:
                if node is not None and not isinstance(node, ast.AST):
                    raise RefusedError(f"a {type(node).__name__} as a syntax tree")
                value = super().visit(node)
                if self._guarded and isinstance(node, ast.expr):
                    guard.language.check(value)
                    self._checked[id(node)] = value
                    if id(node) in self._arguments:
                        guard.language.check_argument(value)
                return value

            def visit_Name(self, node: Any) -> Any:  # noqa: N802
                if self._guarded and isinstance(node.ctx, ast.Load) and node.id not in self.lscope:
                    value = self.gscope.get(node.id)
                    if isinstance(value, Unavailable):
                        raise value.refusal()
                return super().visit_Name(node)

            def visit_Attribute(self, node: Any) -> Any:  # noqa: N802
                if self._guarded and not self._is_of_data_module(node):
                    _check_attribute(node.attr)
                value = super().visit_Attribute(node)
                if self._guarded:
                    owner = self._checked.get(id(node.value))
                    guard.language.check_member(owner, node.attr, value)
                return value

            def visit_Call(self, node: Any) -> Any:  # noqa: N802
                if self._guarded:
                    _check_keywords(node)
                    self._note_arguments(node)
                return super().visit_Call(node)

            def visit_With(self, node: Any) -> Any:  # noqa: N802
                if self._guarded:
                    for item in node.items:
                        if isinstance(item.context_expr, ast.Call):
                            _check_keywords(item.context_expr)
                            self._note_arguments(item.context_expr)
                visit: Any = getattr(super(), "visit_With", self.generic_visit)  # not in Triton 3.4
                return visit(node)

            def _note_arguments(self, node: ast.Call) -> None:
                if getattr(node.func, "id", None) not in GUARDED_BUILTINS:
                    given = (*node.args, *(keyword.value for keyword in node.keywords))
                    self._arguments |= set(map(id, given))

            def visit_FunctionDef(self, node: Any) -> Any:  # noqa: N802
                if self._guarded:
                    node = strip_evaluated(node, self.jit_fn)
                return super().visit_FunctionDef(node)

            def _is_of_data_module(self, node: Any) -> bool:
                if not isinstance(node.value, ast.Name) or node.value.id in self.lscope:
                    return False
                return guard.language.is_data_module(self.gscope.get(node.value.id))

        module.CodeGenerator = CodeGenerator
        self._generator = module, CodeGenerator

    def verify(self) -> None:
        """Checks that kernels are still lowered by the code generator of `install`.

        Raises:
            RefusedError: another one was put in its place.
        """
        module, generator = self._generator
        present: Any = sys.modules.get(module.__name__)
        if present is not module or module.CodeGenerator is not generator:
            raise RefusedError("what was changed in Triton's compiler")


def strip_evaluated(node: ast.FunctionDef, kernel: Any) -> ast.FunctionDef:
    """Removes annotations, decorators and computed defaults, which the code generator evaluates.

    Defaults become constants, from the JITFunction's own; those that are no numbers or strings
    become None, which is never used: calls take the JITFunction's defaults.
    """
    defaults = {p.name: p.default for p in kernel.signature.parameters.values()}
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    with_default = positional[len(positional) - len(arguments.defaults) :]
    arguments.defaults = [_constant(defaults.get(a.arg), a) for a in with_default]
    arguments.kw_defaults = [
        _constant(defaults.get(a.arg), a) if d is not None else None
        for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults)
    ]
    variadic = [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    for argument in (*positional, *arguments.kwonlyargs, *variadic):
        argument.annotation = None
    node.decorator_list = []
    node.returns = None
    return node


def check_names(tree: ast.AST) -> None:
    """Checks the names in a source before any of them is looked up.

    Raises:
        RefusedError: it names a special attribute, or a keyword of the code generator.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_special(node.attr):
            raise RefusedError(f"the attribute {node.attr}")
        if isinstance(node, ast.Name) and _is_special(node.id):
            raise RefusedError(f"the name {node.id}")
        if isinstance(node, ast.Call):
            _check_keywords(node)


def check_type(kind: Any) -> None:
    """Checks the type of an argument, or a tuple of types.

    Raises:
        RefusedError: a text is not just a type.
    """
    if isinstance(kind, (tuple, list)):
        for inner_kind in kind:
            check_type(inner_kind)
    elif type(kind) is not str or not (kind in OTHER_TYPES or is_type(kind)):
        raise RefusedError(f"the argument type {kind!r}")


def _check_attribute(name: str) -> None:
    if name.startswith("_") or name in FORMATTING_METHODS:
        raise RefusedError(f"the attribute {name}")


def _check_keywords(node: ast.Call) -> None:
    for keyword in node.keywords:
        # print(file=...) calls a method of its argument.
        if keyword.arg in RESERVED or keyword.arg == "file" or _is_special(keyword.arg or ""):
            raise RefusedError(f"the argument {keyword.arg}")


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _constant(value: Any, parameter: ast.arg) -> ast.expr:
    plain = value if isinstance(value, (bool, int, float, str)) else None
    return ast.copy_location(ast.Constant(plain), parameter)


def _accessors(language: Language) -> tuple[Any, Any]:

    def guarded_getattr(owner: Any, name: str, *default: Any) -> Any:
        _check_attribute(str(name))
        value = getattr(owner, str(name), *default)
        language.check_member(owner, str(name), value)
        return value

    def guarded_hasattr(owner: Any, name: str) -> bool:
        _check_attribute(str(name))
        return hasattr(owner, str(name))

    return guarded_getattr, guarded_hasattr
