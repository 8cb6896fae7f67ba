"""Makes a `@triton.jit` function of a kernel's source without running any of it.

Where that does not suffice and the user trusts the file, its inner module's imports, constants and
jitted functions are run. Its imports from `torch._inductor` are answered here even then: the
modules they name have moved between versions of torch, and the decorators they bring would look for
a GPU.
"""

from __future__ import annotations

import ast
import importlib
import linecache
import sys
from collections.abc import Mapping
from types import CodeType, ModuleType
from typing import Any

from ..missing_modules import install_hint
from ..parsed.building import KernelBuilder
from ..parsed.guard import Guard
from ..parsed.library import RefusedError, message_of
from ..parsed.modules import TRITON_MODULES, Module, Modules, jit_of
from ..record.kernel_source import TORCH_HELPERS
from ..record.values import decode
from ..syntax import dotted
from .generated_source import KernelSource, SourceError, heuristic_of, parsed

NO_HELPERS = (
    "the kernel calls device functions of torch (torch._inductor.runtime.triton_helpers), and "
    "{executable} cannot import them: {error}"
)


class GeneratedFile:
    """The file that kernels are made of.

    A kernel that stands verbatim in a wrapper is compiled as those lines of it, so that errors and
    debug locations name lines of the user's file.

    Args:
        trust: whether its inner modules may be run where a kernel's source alone does not suffice.
    """

    def __init__(self, path: str, trust: bool) -> None:
        self.path = path
        self.trust = trust
        self._lines: list[str] = []
        _restore_old_names()
        self._guard = Guard()
        self._guard.install()

    def function(self, source: KernelSource) -> Any:
        """The JITFunction of a kernel, made from its text alone: nothing of the file is run.

        Where the user trusts the file, a kernel whose text does not suffice is imported.

        Raises:
            SourceError: the text holds no such kernel, or needs what this interpreter lacks.
        """
        name, line = self._code_location(source)
        module = Module(Modules(), f"_kinspect_inductor_{source.function}", name, source.text, line)
        node = module.function(source.function)
        if node is None or jit_of(node) is None:
            raise SourceError(
                f"{self.path}:{source.line}: {source.function} is not a @triton.jit function",
                "restore what Inductor wrote",
            )
        try:
            functions = module.source(source.function)
            return KernelBuilder(self._guard, _decoded).build(functions)[0]
        except RefusedError as failure:
            if self.trust:
                return self.imported(source)
            raise self.refusal(source, failure) from None

    def imported(self, source: KernelSource) -> Any:
        """The JITFunction of a kernel whose inner module is run, which the user has to trust.

        Raises:
            SourceError: the module does not load.
        """
        name, line = self._code_location(source)
        tree = parsed(source.text, self.path, line)
        self._cache_lines(name, source.text, line)
        namespace, body = _split_module(tree, source, self.path)
        code = compile(ast.Module(body, []), name, "exec")
        return getattr(_load(code, source, namespace, self.path), source.function)

    def refusal(self, source: KernelSource, failure: RefusedError) -> SourceError:
        """The error of a kernel that cannot be made from its source alone."""
        hint = "if you trust the file, --trust-trace runs the module that the kernel stands in"
        if failure.missing:
            hint = "install it there, or name an interpreter that has it with --python"
        message = f"{self.path}:{source.line}: {message_of(failure, source.name)}"
        return SourceError(message, hint, source.line)

    def verify(self) -> None:
        """Checks that kernels are still lowered under guard.

        Raises:
            RefusedError: Triton was changed.
        """
        self._guard.verify()

    def check(self, value: Any) -> None:
        """Checks a constant of the file's metadata.

        Raises:
            RefusedError: neither plain data nor a value of Triton's language.
        """
        self._guard.language.check(value)

    def _code_location(self, source: KernelSource) -> tuple[str, int]:
        """The file name and first line that a kernel's text is compiled as."""
        if source.verbatim:
            return self.path, source.line
        return f"<{source.name} of {self.path}>", 1

    def _cache_lines(self, name: str, text: str, line: int) -> None:
        """Puts a kernel's text into `linecache`, where `inspect` looks for it.

        In a wrapper the text stands inside a string.
        """
        lines = [source_line + "\n" for source_line in text.split("\n")]
        if name == self.path:
            missing = line - 1 + len(lines) - len(self._lines)
            self._lines += ["\n"] * max(0, missing)
            self._lines[line - 1 : line - 1 + len(lines)] = lines
            lines = self._lines
        # Without a modification time an entry is not checked against the disk.
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def _decoded(data: Any) -> Any:
    """The value of a literal that `parsed/modules.py` read."""

    def resolve(path: Mapping[str, Any]) -> Any:
        raise RefusedError(f"{path.get('module')}.{path.get('qualname')}")

    return decode(data, resolve)


def _restore_old_names() -> None:
    """Lets Triton's language answer to the names that torch 2.0 - 2.2 generated code with.

    `tl.libdevice` moved to `tl.math` with Triton 2.1 and to `tl.extra.libdevice` with 3.0, where
    its functions still have the same names. Changing the modules harms nobody: this process does
    nothing but this capture.
    """
    language = importlib.import_module("triton.language")
    libdevice = importlib.import_module(TRITON_MODULES["libdevice"])
    math = importlib.import_module(TRITON_MODULES["math"])
    if not hasattr(language, "libdevice"):
        vars(language)["libdevice"] = libdevice
    for name, function in vars(libdevice).items():
        if not name.startswith("_") and callable(function):
            vars(math).setdefault(name, function)


def _load(
    code: CodeType, source: KernelSource, namespace: Mapping[str, Any], path: str
) -> ModuleType:
    """Runs the module that a kernel stands in, with names set beforehand."""
    module = ModuleType(f"_kinspect_inductor_{source.line}_{source.function}")
    sys.modules[module.__name__] = module
    vars(module).update(namespace)
    try:
        exec(code, vars(module))
    except Exception as error:
        text = " ".join(str(error).split())
        raise SourceError(
            f"{path}:{source.line}: kernel {source.name} does not load: "
            f"{type(error).__name__}: {text}",
            "it may be written for another Triton or torch: try another interpreter with --python",
        ) from error
    return module


def _split_module(
    tree: ast.Module, source: KernelSource, path: str
) -> tuple[dict[str, Any], list[ast.stmt]]:
    """Splits a module into the names that its imports bind and the statements to run.

    Imports from torch._inductor are answered here; Inductor's decorators are taken off.
    """
    namespace: dict[str, Any] = {}
    body: list[ast.stmt] = []
    used = {name for node in tree.body for name in _names_used(node)}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            namespace.update(_imported(node, used, path, source))
        elif isinstance(node, ast.Import):
            body += [
                ast.copy_location(ast.Import([a]), node) for a in node.names if _is_used(a, used)
            ]
        elif isinstance(node, ast.FunctionDef) and _is_jitted(node):
            heuristic = heuristic_of(node)
            node.decorator_list = [d for d in node.decorator_list if d is not heuristic]
            body.append(node)
        elif _is_constant(node):
            body.append(node)
    return namespace, body


def _is_used(alias: ast.alias, used: set[str]) -> bool:
    """Whether an import is needed: Triton's always, since decorators name it by attribute."""
    name = alias.asname or alias.name.partition(".")[0]
    return alias.name.partition(".")[0] == "triton" or name in used


def _is_jitted(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    return any("jit" in (dotted(_callee(d)) or "").split(".") for d in node.decorator_list)


def _names_used(node: ast.stmt) -> set[str]:
    """Names that a statement uses; of a function, those of its body and not of its decorators."""
    parts: list[ast.AST] = [node]
    if isinstance(node, ast.FunctionDef) and _is_jitted(node):
        parts = [node.args, *node.body]
    elif not _is_constant(node):
        parts = []
    return {n.id for part in parts for n in ast.walk(part) if isinstance(n, ast.Name)}


def _callee(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _is_constant(node: ast.stmt) -> bool:
    """Whether a statement assigns a value that calls nothing but `tl.constexpr`."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
        return False
    calls = [n for n in ast.walk(node.value) if isinstance(n, ast.Call)]
    return all((dotted(c.func) or "").rpartition(".")[2] == "constexpr" for c in calls)


def _imported(
    node: ast.ImportFrom, used: set[str], path: str, source: KernelSource
) -> dict[str, Any]:
    """The values that a `from ... import` binds, of the names that are used."""
    values = {}
    for alias in node.names:
        name = alias.asname or alias.name
        if name not in used:
            continue  # decorators and their arguments, which were read as data
        module = node.module or ""
        try:
            if not module.startswith("torch._inductor"):
                values[name] = _attribute(module, alias.name)
            elif alias.name in TRITON_MODULES:
                values[name] = importlib.import_module(TRITON_MODULES[alias.name])
            else:
                helpers = _helpers()
                values[name] = (
                    helpers if alias.name == "triton_helpers" else getattr(helpers, alias.name)
                )
        except (ImportError, AttributeError) as error:
            prefix = f"{path}:{source.line}: kernel {source.name}: "
            raise SourceError(
                prefix + NO_HELPERS.format(executable=sys.executable, error=error),
                install_hint(error, "torch"),
            ) from None
    return values


def _helpers() -> Any:
    try:
        return importlib.import_module(TORCH_HELPERS)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError("torch is not installed", name="torch") from None


def _attribute(module: str, name: str) -> Any:
    try:
        return importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), name)
