"""Reads what a kernel is made of out of a file's syntax tree, in the form of `record/contents.py`.

For files that no recorder has looked into. A name whose value is not plain to see there (a call, a
condition) is noted as what would have to run for it.
"""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..record.contents import TORCH_HELPERS, is_library
from ..syntax import parse
from .literals import NotLiteralError, literal
from .refusals import RefusedError

INDUCTOR = "torch._inductor"
OF_TRITON = {"libdevice": "triton.language.extra.libdevice", "math": "triton.language.math"}
"""What kernels import by way of torch but is Triton's own, and where it is."""
CONSTEXPR = frozenset({"constexpr"})
MOST_BYTES = 16 << 20
MOST_TEXT = 120
JIT_ARGUMENTS = "noinline"
Block = (ast.If, ast.Try, ast.With)


class Modules:
    """Source files, parsed once each.

    Args:
        folders: where `import` looks for files, in this order; none: nowhere.
    """

    def __init__(self, folders: Sequence[str] = ()) -> None:
        self.folders = list(folders)
        self._files: dict[str, Module | None] = {}

    def of_file(self, path: str, name: str) -> Module | None:
        """The module that a file holds; None where it is none or cannot be read."""
        path = os.path.realpath(path)
        if path not in self._files:
            try:
                with open(path, encoding="utf-8") as stream:
                    text = stream.read(MOST_BYTES)
                self._files[path] = Module(self, name, path, text)
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                self._files[path] = None
        return self._files[path]

    def named(self, name: str) -> Module | None:
        """The module that `import` would find by a dotted name; None where it is no source."""
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

    Args:
        modules: finds those that it imports from.
        name: dotted name.
        file: as functions of it are to be placed.
        text: its source.
        first: line of the file that the text begins at.
    """

    def __init__(self, modules: Modules, name: str, file: str, text: str, first: int = 1) -> None:
        self.name = name
        self.file = file
        self.first = first
        self._modules = modules
        self._lines = text.splitlines(keepends=True)
        self._tree = parse(text)
        self._bound: dict[str, list[ast.stmt]] = {}
        for statement in _statements(self._tree.body):
            for bound in _names_of(statement):
                self._bound.setdefault(bound, []).append(statement)

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
        """A function with all jitted functions that it reaches: see `record/contents.py`.

        Raises:
            RefusedError: there is no such function, or it is one inside of another.
        """
        node = self.function(qualname)
        if node is None:
            raise RefusedError(f"{qualname}, which {self.file} does not define at its top")
        reached = _Reached()
        reached.number(self, node, qualname)
        return reached.functions()

    def describe(self, name: str, reached: _Reached, used: frozenset[str]) -> dict[str, Any] | None:
        """The value of a global name; None where the module binds no such name.

        Args:
            name: the name.
            reached: takes the jitted functions.
            used: names that the function uses, of which those of a module are looked up.
        """
        statements = self._bound.get(name)
        if not statements:
            return None
        imports = [s for s in statements if isinstance(s, (ast.Import, ast.ImportFrom))]
        if len(statements) > 1 and len(imports) < len(statements):
            return {"host": f"{self.file}: what decides which value {name} has"}
        description: dict[str, Any] = {}
        for statement in statements:
            description = self._bound_by(statement, name, reached, used)
            if "host" not in description:
                break
        return description

    def _bound_by(
        self, statement: ast.stmt, name: str, reached: _Reached, used: frozenset[str]
    ) -> dict[str, Any]:
        if isinstance(statement, ast.Import):
            return self._imported(statement, name, reached, used)
        if isinstance(statement, ast.ImportFrom):
            return self._imported_from(statement, name, reached, used)
        if isinstance(statement, ast.FunctionDef) and jit_of(statement) is not None:
            return {"jitted": reached.number(self, statement, name)}
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and _is_name(statement, name):
            assigned = statement.value
            return self.value(assigned, reached, used) if assigned else self._host(statement)
        return self._host(statement)

    def value(
        self, node: ast.expr, reached: _Reached, used: frozenset[str] = frozenset()
    ) -> dict[str, Any]:
        """What an expression comes to, where that is plain to see."""
        if isinstance(node, ast.Name):
            return self.describe(node.id, reached, used) or self._host(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, reached)
        if isinstance(node, ast.Call):
            callee = self.value(node.func, reached)
            path = callee.get("library") or {}
            if path.get("qualname") in CONSTEXPR and len(node.args) == 1 and not node.keywords:
                inner = self.value(node.args[0], reached)
                if "value" in inner:
                    return {"value": {"constexpr": inner["value"]}}
            return self._host(node)
        try:
            return {"value": literal(node)}
        except (NotLiteralError, ArithmeticError, ValueError, TypeError):
            return self._host(node)

    def _attribute(self, node: ast.Attribute, reached: _Reached) -> dict[str, Any]:
        owner = self.value(node.value, reached, frozenset({node.attr}))
        if "module" in owner:
            dotted = f"{owner['module']}.{node.attr}"
            if dotted == "triton.language":
                return {"module": dotted}
            return {"library": {"module": owner["module"], "qualname": node.attr}}
        if "members" in owner:
            return dict(owner["members"].get(node.attr) or self._host(node))
        return self._host(node)

    def _imported(
        self, statement: ast.Import, name: str, reached: _Reached, used: frozenset[str]
    ) -> dict[str, Any]:
        for alias in statement.names:
            if alias.asname == name:
                return self._module(alias.name, reached, used, statement)
            if alias.asname is None and alias.name.partition(".")[0] == name:
                return self._module(name, reached, used, statement)
        return self._host(statement)

    def _imported_from(
        self, statement: ast.ImportFrom, name: str, reached: _Reached, used: frozenset[str]
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
            description = source_module.describe(alias.name, reached, used)
            if description is not None:
                return description
        return self._module(f"{module}.{alias.name}", reached, used, statement)

    def _absolute(self, statement: ast.ImportFrom) -> str:
        if not statement.level:
            return statement.module or ""
        package = self.name.split(".")
        if os.path.basename(self.file) != "__init__.py":
            package.pop()
        package = package[: len(package) - (statement.level - 1)]
        return ".".join([*package, *filter(None, [statement.module])])

    def _module(
        self, name: str, reached: _Reached, used: frozenset[str], statement: ast.stmt
    ) -> dict[str, Any]:
        if is_library(name):
            return {"module": name}
        inner_module = self._modules.named(name)
        if inner_module is None or reached.is_within(inner_module):
            return self._host(statement)
        with reached.within(inner_module):
            pairs = ((n, inner_module.describe(n, reached, used)) for n in sorted(used))
            members = {n: value for n, value in pairs if value is not None}
        return {"members": members, "name": name}

    def function_source(self, node: ast.FunctionDef, qualname: str) -> dict[str, Any]:
        """A function's text and place, without its names."""
        text = "".join(inspect.getblock(self._lines[node.lineno - 1 :]))
        jit = jit_of(node)
        keywords = jit.keywords if isinstance(jit, ast.Call) else []
        return {
            "module": self.name,
            "qualname": qualname,
            "file": self.file,
            "line": node.lineno + self.first - 1,
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
        line = getattr(node, "lineno", 1) + self.first - 1
        return {"host": f"{self.file}:{line}: {_shortened(node)}"}


class _Reached:
    """The jitted functions that a kernel reaches, numbered as they come."""

    def __init__(self) -> None:
        self._described: list[tuple[Module, ast.FunctionDef, dict[str, Any]]] = []
        self._within: list[Module] = []

    def functions(self) -> list[dict[str, Any]]:
        return [function for _, _, function in self._described]

    def number(self, module: Module, node: ast.FunctionDef, qualname: str) -> int:
        """The number of a function; on the first call for it, it is described."""
        for number, (_, described_node, _) in enumerate(self._described):
            if described_node is node:
                return number
        function = module.function_source(node, qualname)
        self._described.append((module, node, function))
        number = len(self._described) - 1
        used = used_names(node)
        for name in sorted(used):
            value = module.describe(name, self, used)
            if value is not None:
                function["names"][name] = value
        for parameter, default in defaults_of(node):
            function["defaults"][parameter] = module.value(default, self)
        return number

    def within(self, module: Module) -> Any:
        return _Within(self._within, module)

    def is_within(self, module: Module) -> bool:
        return any(module is outer_module for outer_module in self._within)


class _Within:
    def __init__(self, stack: list[Module], module: Module) -> None:
        self._stack, self._module = stack, module

    def __enter__(self) -> None:
        self._stack.append(self._module)

    def __exit__(self, *exception: object) -> None:
        self._stack.pop()


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
    """The decorator that makes a jitted function of one; None without it."""
    for decorator in node.decorator_list:
        callee = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(callee, ast.Attribute) and callee.attr == "jit":
            return decorator
        if isinstance(callee, ast.Name) and callee.id == "jit":
            return decorator
    return None


def _from_inductor(name: str) -> dict[str, Any]:
    """What kernels import from torch._inductor, whose modules have moved between versions."""
    if name in OF_TRITON:
        return {"module": OF_TRITON[name]}
    if name == "triton_helpers":
        return {"module": TORCH_HELPERS}
    return {"library": {"module": TORCH_HELPERS, "qualname": name}}


def _is_module(name: str) -> bool:
    import importlib.util

    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, those in its conditions and `try` blocks included."""
    for statement in body:
        yield statement
        if isinstance(statement, Block):
            yield from _statements(statement.body)
            yield from _statements(getattr(statement, "orelse", ()))
            yield from _statements(getattr(statement, "finalbody", ()))
            for handler in getattr(statement, "handlers", ()):
                yield from _statements(handler.body)


def _names_of(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement binds."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        for alias in statement.names:
            whole = isinstance(statement, ast.ImportFrom)
            yield alias.asname or (alias.name if whole else alias.name.partition(".")[0])
    elif isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        yield statement.name
    elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))
    elif isinstance(statement, ast.For):
        yield from (n.id for n in ast.walk(statement.target) if isinstance(n, ast.Name))


def _is_name(statement: ast.Assign | ast.AnnAssign, name: str) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _shortened(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"
