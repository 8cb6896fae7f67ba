"""Reads a kernel's source (`record/kernel_source.py`) from a file's syntax tree.

It serves files that no recorder has described. A name whose value only running code would give (a
call, a condition) is described by that code.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..readable_files import read_named
from ..record.kernel_source import TORCH_HELPERS, is_library
from ..record.values import encode
from ..syntax import UnreadableError, parse, read
from .library import RefusedError

TRITON_MODULES = {"libdevice": "triton.language.extra.libdevice", "math": "triton.language.math"}
"""Name that kernels import by way of torch -> the module of Triton's that it is."""
CONSTEXPR = frozenset({"constexpr"})
MAX_FILE_BYTES = 16 << 20
MAX_TEXT_LENGTH = 120
JIT_ARGUMENTS = "noinline"
Block = (ast.If, ast.Try, ast.With)


class Modules:
    """Source files, parsed once each."""

    def __init__(self, folders: Sequence[str] = ()) -> None:
        self.folders = list(folders)
        self._files: dict[str, Module | None] = {}

    def of_file(self, path: str, name: str) -> Module | None:
        """The module in a file; None where it is not Python or cannot be read."""
        path = os.path.realpath(path)
        if path not in self._files:
            try:
                text = read_named(path, MAX_FILE_BYTES).decode("utf-8").replace("\r\n", "\n")
                self._files[path] = Module(self, name, path, text)
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                self._files[path] = None
        return self._files[path]

    def named(self, name: str) -> Module | None:
        """The module of a dotted name, from its source file; None without one."""
        parts = name.split(".")
        if not all(part.isidentifier() for part in parts):
            return None
        for folder in self.folders:
            stem = os.path.join(folder, *parts)
            for path in (f"{stem}.py", os.path.join(stem, "__init__.py")):
                if os.path.isfile(path):
                    return self.of_file(path, name)
        return None


class Module:
    """One file.

    `file`: its path, as its functions report it.
    `first_line`: line of the file at which the text begins.
    """

    def __init__(
        self, modules: Modules, name: str, file: str, text: str, first_line: int = 1
    ) -> None:
        self.name = name
        self.file = file
        self.first_line = first_line
        self._modules = modules
        self._lines = text.splitlines(keepends=True)
        self._tree = parse(text)
        self._statements_by_name: dict[str, list[ast.stmt]] = {}
        for statement in _statements(self._tree.body):
            for name_bound in _bound_names(statement):
                self._statements_by_name.setdefault(name_bound, []).append(statement)

    def function(self, qualname: str) -> ast.FunctionDef | None:
        """The last definition of a function by its qualified name; None without one."""
        body: Iterable[ast.stmt] = self._tree.body
        node: ast.stmt | None = None
        for part in qualname.split("."):
            if part == "<locals>":
                continue
            named = [
                s
                for s in _statements(body)
                if isinstance(s, (ast.FunctionDef, ast.ClassDef)) and s.name == part
            ]
            if not named:
                return None
            node = named[-1]
            body = node.body
        return node if isinstance(node, ast.FunctionDef) else None

    def source(self, qualname: str) -> list[dict[str, Any]]:
        """The source of a kernel: its function and the jitted ones that it uses.

        Raises:
            RefusedError: the module has no such function at its top.
        """
        node = self.function(qualname)
        if node is None:
            raise RefusedError(f"{qualname}, which {self.file} does not define at its top")
        builder = _SourceParser()
        builder.number(self, node, qualname)
        return builder.functions

    def describe(
        self, name: str, builder: _SourceParser, used: frozenset[str]
    ) -> dict[str, Any] | None:
        """The value of a global name; None where the module binds no such name.

        `used`: names that the function uses, which select a module's members.
        """
        statements = self._statements_by_name.get(name)
        if not statements:
            return None
        imports = [s for s in statements if isinstance(s, (ast.Import, ast.ImportFrom))]
        if len(statements) > 1 and len(imports) < len(statements):
            return {"host": f"{self.file}: what decides which value {name} has"}
        # Several imports of a name are alternatives (`try: ... except ImportError: ...`).
        description: dict[str, Any] = {}
        for statement in statements:
            description = self._described_statement(statement, name, builder, used)
            if "host" not in description:
                break
        return description

    def _described_statement(
        self, statement: ast.stmt, name: str, builder: _SourceParser, used: frozenset[str]
    ) -> dict[str, Any]:
        if isinstance(statement, ast.Import):
            return self._described_import(statement, name, builder, used)
        if isinstance(statement, ast.ImportFrom):
            return self._described_import_from(statement, name, builder, used)
        if isinstance(statement, ast.FunctionDef) and jit_of(statement) is not None:
            return {"jitted": builder.number(self, statement, name)}
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and _assigns(statement, name):
            assigned = statement.value
            return self.value(assigned, builder, used) if assigned else self._host(statement)
        return self._host(statement)

    def value(
        self, node: ast.expr, builder: _SourceParser, used: frozenset[str] = frozenset()
    ) -> dict[str, Any]:
        """The value of an expression: a literal, a name or attribute, or a constexpr of one."""
        if isinstance(node, ast.Name):
            return self.describe(node.id, builder, used) or self._host(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, builder)
        if isinstance(node, ast.Call):
            callee = self.value(node.func, builder)
            path = callee.get("library") or {}
            if path.get("qualname") in CONSTEXPR and len(node.args) == 1 and not node.keywords:
                inner = self.value(node.args[0], builder)
                if "value" in inner:
                    return {"value": {"constexpr": inner["value"]}}
            return self._host(node)
        try:
            value = read(node)
        except (UnreadableError, TypeError):  # a list is no key
            return self._host(node)
        return {"value": encode(value)} if _is_plain(value) else self._host(node)

    def _attribute(self, node: ast.Attribute, builder: _SourceParser) -> dict[str, Any]:
        owner = self.value(node.value, builder, frozenset({node.attr}))
        if "module" in owner:
            dotted = f"{owner['module']}.{node.attr}"
            if dotted == "triton.language":
                return {"module": dotted}
            return {"library": {"module": owner["module"], "qualname": node.attr}}
        if "members" in owner:
            return dict(owner["members"].get(node.attr) or self._host(node))
        return self._host(node)

    def _described_import(
        self, statement: ast.Import, name: str, builder: _SourceParser, used: frozenset[str]
    ) -> dict[str, Any]:
        for alias in statement.names:
            if alias.asname == name:
                return self._module(alias.name, builder, used, statement)
            if alias.asname is None and alias.name.partition(".")[0] == name:
                return self._module(name, builder, used, statement)
        return self._host(statement)

    def _described_import_from(
        self, statement: ast.ImportFrom, name: str, builder: _SourceParser, used: frozenset[str]
    ) -> dict[str, Any]:
        alias = next(a for a in statement.names if (a.asname or a.name) == name)
        module = self._absolute(statement)
        if module == "torch._inductor" or module.startswith("torch._inductor."):
            return _from_inductor(alias.name)
        if is_library(module) or module.partition(".")[0] == "triton":
            if is_library(f"{module}.{alias.name}") and _is_module(f"{module}.{alias.name}"):
                return {"module": f"{module}.{alias.name}"}
            return {"library": {"module": module, "qualname": alias.name}}
        source_module = self._modules.named(module)
        if source_module is not None:
            description = source_module.describe(alias.name, builder, used)
            if description is not None:
                return description
        return self._module(f"{module}.{alias.name}", builder, used, statement)

    def _absolute(self, statement: ast.ImportFrom) -> str:
        if not statement.level:
            return statement.module or ""
        package = self.name.split(".")
        if os.path.basename(self.file) != "__init__.py":
            package.pop()
        package = package[: len(package) - (statement.level - 1)]
        return ".".join([*package, *filter(None, [statement.module])])

    def _module(
        self, name: str, builder: _SourceParser, used: frozenset[str], statement: ast.stmt
    ) -> dict[str, Any]:
        if is_library(name):
            return {"module": name}
        module = self._modules.named(name)
        if module is None or module in builder.open_modules:
            return self._host(statement)
        builder.open_modules.append(module)
        pairs = ((n, module.describe(n, builder, used)) for n in sorted(used))
        members = {n: value for n, value in pairs if value is not None}
        builder.open_modules.pop()
        return {"members": members, "name": name}

    def function_source(self, node: ast.FunctionDef, qualname: str) -> dict[str, Any]:
        """A function's text, line and column; its defaults and names are still empty."""
        text = "".join(inspect.getblock(self._lines[node.lineno - 1 :]))
        jit = jit_of(node)
        keywords = jit.keywords if isinstance(jit, ast.Call) else []
        return {
            "module": self.name,
            "qualname": qualname,
            "file": self.file,
            "line": node.lineno + self.first_line - 1,
            "column": node.col_offset,
            "text": text,
            "noinline": any(
                k.arg == JIT_ARGUMENTS and isinstance(k.value, ast.Constant) and bool(k.value.value)
                for k in keywords
            ),
            "defaults": {},
            "names": {},
        }

    def _host(self, node: ast.AST) -> dict[str, Any]:
        """The description of a value that only running a statement or expression would give."""
        line = getattr(node, "lineno", 1) + self.first_line - 1
        return {"host": f"{self.file}:{line}: {_statement_text(node)}"}


class _SourceParser:
    """Collects the jitted functions of a source, numbered in the order of their first use."""

    def __init__(self) -> None:
        self.functions: list[dict[str, Any]] = []
        self.open_modules: list[Module] = []
        self._nodes: list[ast.FunctionDef] = []

    def number(self, module: Module, node: ast.FunctionDef, qualname: str) -> int:
        """The number of a function, which is described on the first call."""
        for number, described_node in enumerate(self._nodes):
            if described_node is node:
                return number
        function = module.function_source(node, qualname)
        self.functions.append(function)
        self._nodes.append(node)
        number = len(self._nodes) - 1
        used = used_names(node)
        for name in sorted(used):
            value = module.describe(name, self, used)
            if value is not None:
                function["names"][name] = value
        for parameter, default in defaults_of(node):
            function["defaults"][parameter] = module.value(default, self)
        return number


def used_names(node: ast.FunctionDef) -> frozenset[str]:
    """Names and attributes in a function's body."""
    parts = [part for statement in node.body for part in ast.walk(statement)]
    names = {p.id for p in parts if isinstance(p, ast.Name)}
    return frozenset(names | {p.attr for p in parts if isinstance(p, ast.Attribute)})


def defaults_of(node: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """Parameters with the expressions of their defaults."""
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    count = len(positional) - len(arguments.defaults)
    for argument, default in zip(positional[count:], arguments.defaults):
        yield argument.arg, default
    for argument, by_keyword in zip(arguments.kwonlyargs, arguments.kw_defaults):
        if by_keyword is not None:
            yield argument.arg, by_keyword


def jit_of(node: ast.FunctionDef) -> ast.expr | None:
    """The decorator `jit` of a function, called or not; None without one."""
    for decorator in node.decorator_list:
        callee = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(callee, ast.Attribute) and callee.attr == "jit":
            return decorator
        if isinstance(callee, ast.Name) and callee.id == "jit":
            return decorator
    return None


def _from_inductor(name: str) -> dict[str, Any]:
    if name in TRITON_MODULES:
        return {"module": TRITON_MODULES[name]}
    if name == "triton_helpers":
        return {"module": TORCH_HELPERS}
    return {"library": {"module": TORCH_HELPERS, "qualname": name}}


def _is_plain(value: Any) -> bool:
    if type(value) in (tuple, list):
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, Block):
            yield from _statements(statement.body)
            yield from _statements(getattr(statement, "orelse", ()))
            yield from _statements(getattr(statement, "finalbody", ()))
            for handler in getattr(statement, "handlers", ()):
                yield from _statements(handler.body)


def _bound_names(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        for alias in statement.names:
            is_from = isinstance(statement, ast.ImportFrom)
            yield alias.asname or (alias.name if is_from else alias.name.partition(".")[0])
    elif isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        yield statement.name
    elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))
    elif isinstance(statement, ast.For):
        yield from (n.id for n in ast.walk(statement.target) if isinstance(n, ast.Name))


def _assigns(statement: ast.Assign | ast.AnnAssign, name: str) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _statement_text(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= MAX_TEXT_LENGTH else text[: MAX_TEXT_LENGTH - 1] + "…"
