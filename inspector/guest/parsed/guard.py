"""Keeps Triton's code generator from evaluating more of a kernel than its language.

The code generator walks the syntax tree of a kernel and evaluates what it can at compile time: any
name, attribute and call. In a kernel of this process's user that is wanted; in one that came in a
file, `tl.core.os.system("...")` in its body would run. So every value that an expression of such a
kernel comes to must be one of the language's (`library.py`); what is not called by then cannot be.

Functions of Triton's own library are walked as ever.
"""

from __future__ import annotations

import ast
import importlib
from typing import Any

from .library import METHODS_THAT_REACH, Language
from .refusals import RefusedError, Unavailable

RESERVED = frozenset({"_semantic", "_generator", "_builder"})
"""Arguments that only the code generator itself passes."""


class Guard:
    """The kernels of this process that came in a file."""

    def __init__(self) -> None:
        self.language = Language()
        self._kernels: list[Any] = []
        guarded_getattr, guarded_hasattr = _accessors()
        self._builtins = {"getattr": guarded_getattr, "hasattr": guarded_hasattr}
        for function in self._builtins.values():
            self.language.add_builtin(function)

    def add(self, kernel: Any) -> None:
        """A JITFunction whose body is not trusted."""
        self._kernels.append(kernel)

    def covers(self, kernel: Any) -> bool:
        """Whether the body of a JITFunction is not trusted."""
        return any(kernel is covered for covered in self._kernels)

    def install(self) -> None:
        """From now on every kernel of `add` is compiled under guard, in this process."""
        module: Any = importlib.import_module("triton.compiler.code_generator")
        guard = self
        original: Any = module.CodeGenerator

        class CodeGenerator(original):  # type: ignore[misc]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                self._guarded = guard.covers(self.jit_fn)
                if self._guarded:
                    self.builtin_namespace = {**original.builtin_namespace, **guard._builtins}

            def visit(self, node: Any) -> Any:
                value = super().visit(node)
                if self._guarded and isinstance(node, ast.expr):
                    guard.language.check(value)
                return value

            def visit_Name(self, node: Any) -> Any:  # noqa: N802
                if self._guarded and isinstance(node.ctx, ast.Load) and node.id not in self.lscope:
                    value = self.gscope.get(node.id)
                    if isinstance(value, Unavailable):
                        raise value.refusal()
                return super().visit_Name(node)

            def visit_Attribute(self, node: Any) -> Any:  # noqa: N802
                if self._guarded and not self._of_data(node):
                    _check_attribute(node.attr)
                return super().visit_Attribute(node)

            def visit_Call(self, node: Any) -> Any:  # noqa: N802
                if self._guarded:
                    _check_keywords(node)
                return super().visit_Call(node)

            def visit_FunctionDef(self, node: Any) -> Any:  # noqa: N802
                if self._guarded:
                    node = alone(node, self.jit_fn)
                return super().visit_FunctionDef(node)

            def _of_data(self, node: Any) -> bool:
                if not isinstance(node.value, ast.Name) or node.value.id in self.lscope:
                    return False
                return guard.language.made_of_data(self.gscope.get(node.value.id))

        module.CodeGenerator = CodeGenerator


def alone(node: ast.FunctionDef, kernel: Any) -> ast.FunctionDef:
    """A function without what the code generator would evaluate of it besides its body.

    The values of its defaults are those of the JITFunction; they count where it is called.
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
    """Refuses a source that names what no kernel needs, before anything looks it up.

    Raises:
        RefusedError: it names a special attribute, or a keyword of the code generator's.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_special(node.attr):
            raise RefusedError(f"the attribute {node.attr}")
        if isinstance(node, ast.Name) and _is_special(node.id):
            raise RefusedError(f"the name {node.id}")
        if isinstance(node, ast.Call):
            _check_keywords(node)


def _check_attribute(name: str) -> None:
    if name.startswith("_") or name in METHODS_THAT_REACH:
        raise RefusedError(f"the attribute {name}")


def _check_keywords(node: ast.Call) -> None:
    for keyword in node.keywords:
        # print(file=...) calls a method of what it is given.
        if keyword.arg in RESERVED or keyword.arg == "file" or _is_special(keyword.arg or ""):
            raise RefusedError(f"the argument {keyword.arg}")


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _constant(value: Any, place: ast.arg) -> ast.expr:
    plain = value if isinstance(value, (bool, int, float, str)) else None
    return ast.copy_location(ast.Constant(plain), place)


def _accessors() -> tuple[Any, Any]:
    def guarded_getattr(owner: Any, name: str, *default: Any) -> Any:
        _check_attribute(str(name))
        return getattr(owner, str(name), *default)

    def guarded_hasattr(owner: Any, name: str) -> bool:
        _check_attribute(str(name))
        return hasattr(owner, str(name))

    return guarded_getattr, guarded_hasattr
