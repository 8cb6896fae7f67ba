"""Tells where a launch cannot depend on a value that was assumed before it.

This follows names through the statements of the function, or of the script's outermost level, in
which the value was asked for. Whatever it cannot follow counts as dependent.

Finds the lines of a script that only report values to people: prints, logs and assertions.

A value that is only reported decides nothing, so assuming it needs no note.
"""

from __future__ import annotations

import ast
import functools
import os
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import TYPE_CHECKING

from ..syntax import parse

if TYPE_CHECKING:
    _Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES = (ast.ExceptHandler, getattr(ast, "match_case", ast.ExceptHandler))  # Python 3.9
_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_UNFOLLOWED = (
    *(ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    *(ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom),
)
_BY_NAME = frozenset(("globals", "locals", "vars", "exec", "eval"))
"""Functions that reach variables without naming them."""


def is_independent(file: str, line: int, stack: Sequence[tuple[CodeType, int]]) -> bool:
    """Whether a launch surely does not depend on a value that the user's code asked for.

    `stack` has code and line of each frame that the launch is made in.
    """
    tree = _parsed(file)
    if tree is None:
        return False
    scope = _scope_of(tree, line)
    lines = [at for code, at in stack if scope is not None and _runs(code, scope, file)]
    return scope is not None and bool(lines) and not any(_reaches(scope, line, at) for at in lines)


@functools.lru_cache(maxsize=64)
def _parsed(file: str) -> ast.Module | None:
    """A file's statements; None where they cannot be followed."""
    try:
        with open(file, "rb") as stream:
            tree = parse(stream.read(), file)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return tree if isinstance(tree, ast.Module) and names.isdisjoint(_BY_NAME) else None


def _scope_of(tree: ast.Module, line: int) -> _Scope | None:
    """The innermost function around a line; the module where there is none; None in a class."""
    scope: ast.AST = tree
    for node in ast.walk(tree):  # outer ones first
        if isinstance(node, _INNER) and node.lineno <= line <= (node.end_lineno or node.lineno):
            scope = node
    return scope if isinstance(scope, (ast.Module, *_FUNCTIONS)) else None


def _runs(code: CodeType, scope: _Scope, file: str) -> bool:
    if os.path.abspath(code.co_filename) != file:
        return False
    if isinstance(scope, ast.Module):
        return code.co_name == "<module>"
    first = min([scope.lineno, *(node.lineno for node in scope.decorator_list)])
    return (code.co_name, code.co_firstlineno) == (scope.name, first)


def _statements(scope: ast.AST, above: tuple[ast.stmt, ...] = ()) -> Iterator[tuple[ast.stmt, ...]]:
    """Each statement of a scope after those that it is in; inner functions are left out."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.stmt):
            path = (*above, node)
            yield path
            if not isinstance(node, _INNER):
                yield from _statements(node, path)
        elif isinstance(node, _BRANCHES):
            yield from _statements(node, above)


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement without those of the statements in it."""
    for node in ast.iter_child_nodes(statement):
        if not isinstance(node, (ast.stmt, ast.ExceptHandler)):
            yield from ast.walk(node)


def _at(paths: Sequence[tuple[ast.stmt, ...]], line: int) -> tuple[ast.stmt, ...] | None:
    """The statement at a line; None where there are several, or none."""
    found = []
    for path in paths:
        ends = [getattr(node, "end_lineno", 0) or 0 for node in _own(path[-1])]
        if path[-1].lineno <= line <= max(ends, default=path[-1].lineno):
            found.append(path)
    return found[0] if len(found) == 1 else None


def _reaches(scope: _Scope, line: int, launch_line: int) -> bool:
    """Whether the value asked for at a line may reach a launch in the same scope."""
    paths = list(_statements(scope))
    asked, launch = _at(paths, line), _at(paths, launch_line)
    if asked is None or launch is None:
        return True
    if isinstance(scope, ast.Module):
        loops = [
            node for node in launch if node in asked and isinstance(node, (ast.For, ast.While))
        ]
        between = range(asked[-1].lineno, launch[-1].lineno + 1)
        paths = [p for p in paths if p[-1].lineno in between or not set(loops).isdisjoint(p)]
    # A function may be called again, so that what follows the launch matters as well.
    names: set[str] = set()
    todo = [asked[-1]]
    handled: set[ast.stmt] = set()
    while todo:
        for statement in todo:
            written = None if statement in launch else _written(statement)
            if written is None:
                return True
            names |= written
        handled.update(todo)
        todo = [p[-1] for p in paths if p[-1] not in handled and _reads(p[-1], names)]
    return any(_reads_outer(node, names) for node in ast.walk(scope) if node is not scope)


def _reads(statement: ast.stmt, names: set[str]) -> bool:
    """Whether a statement reads such variables, or takes them from around its function."""
    if isinstance(statement, (ast.Global, ast.Nonlocal)):
        return True
    is_update = isinstance(statement, ast.AugAssign)
    return any(
        isinstance(node, ast.Name)
        and node.id in names
        and (is_update or not isinstance(node.ctx, ast.Store))
        for node in _own(statement)
    )


def _written(statement: ast.stmt) -> set[str] | None:
    """The variables that a statement decides; None where it may decide more than variables."""
    if any(isinstance(node, _UNFOLLOWED) for node in _own(statement)):
        return None
    if is_report(statement):
        return set()
    if isinstance(statement, ast.If) and not may_launch(statement.test):
        inner = [_written(node) for node in (*statement.body, *statement.orelse)]
        known = [names for names in inner if names is not None]
        return set().union(*known) if len(known) == len(inner) else None
    if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return None
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    is_plain = len(names) == len(targets) and statement.value is not None
    return names if is_plain and not may_launch(statement) else None


def _reads_outer(node: ast.AST, names: set[str]) -> bool:
    """Whether an inner function or class reads such variables of what is around it."""
    if not isinstance(node, _INNER):
        return False
    inner = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in names]
    own = {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
    return any(n.id not in own for n in inner)


REPORTING = frozenset(
    ("debug", "error", "exception", "info", "log", "pprint", "print", "warn", "warning", "write")
)
"""Functions and methods that only report something to people."""
PURE = frozenset(
    (
        *("abs", "all", "allclose", "amax", "any", "array_equal", "bool", "cpu", "detach"),
        *("equal", "float", "format", "int", "isclose", "item", "join", "len", "max", "mean"),
        *("min", "norm", "numel", "numpy", "repr", "round", "size", "str", "sum", "tolist", "type"),
    )
)
"""Functions and methods that read or convert a value and launch nothing."""


def reporting_lines(file: str) -> dict[int, bool]:
    """Line -> whether the innermost statement there only reports the values that it reads."""
    try:
        with open(file, "rb") as stream:
            tree = parse(stream.read(), file)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    lines: dict[int, bool] = {}
    checking_ifs: set[ast.AST] = set()
    for node in ast.walk(tree):  # outer ones first: inner ones overwrite what they span
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _is_check(node):
            checking_ifs.update(inner for inner in ast.walk(node) if isinstance(inner, ast.If))
        if isinstance(node, ast.stmt):
            is_reporting = is_report(node) or (
                isinstance(node, ast.If) and _only_selects_reports(node)
            )
            is_reporting |= node in checking_ifs
            last_line = node.test.end_lineno if isinstance(node, ast.If) else node.end_lineno
            for line in range(node.lineno, (last_line or node.lineno) + 1):
                lines[line] = is_reporting
    _mark_reported_names(tree, lines)
    return lines


def _mark_reported_names(tree: ast.AST, lines: dict[int, bool]) -> None:
    """Marks assignments to names that are only reported: `error = (a - b).max().item()`, printed.

    Uses of the same name elsewhere in the file count too, whatever they mean there.
    """
    only_reported: dict[str, bool] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            only_reported[node.id] = only_reported.get(node.id, True) and lines.get(
                node.lineno, False
            )
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            only_reported.update(dict.fromkeys(node.names, False))
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            only_reported[node.target.id] = False
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or may_launch(node.value):
            continue
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if len(names) == len(node.targets) and all(
            only_reported.get(name, False) for name in names
        ):
            last_line = node.end_lineno or node.lineno
            lines.update(dict.fromkeys(range(node.lineno, last_line + 1), True))


def _only_selects_reports(node: ast.If) -> bool:
    """Whether an `if` only decides what is reported, or whether the script goes on."""
    return all(
        is_report(inner) or isinstance(inner, ast.Raise) for inner in (*node.body, *node.orelse)
    )


def _is_check(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function returns nothing and its conditions only decide what it reports or raises.

    Test helpers return early if results agree: `if error < limit: return`, then an assert.
    """
    has_conditions = False
    for index, node in enumerate(function.body):
        if isinstance(node, ast.If):
            has_conditions = True
            if not all(_is_report_or_exit(inner) for inner in (*node.body, *node.orelse)):
                return False
        elif has_conditions or not isinstance(node, (ast.Assign, ast.AnnAssign, ast.Expr)):
            if not _is_report_or_exit(node):
                return False
        elif isinstance(node, ast.Expr) and index and not is_report(node):
            return False  # a call may launch something
    return has_conditions


def _is_report_or_exit(node: ast.stmt) -> bool:
    """Whether a statement reports, raises, or returns without a value."""
    if isinstance(node, ast.If):
        return all(_is_report_or_exit(inner) for inner in (*node.body, *node.orelse))
    if isinstance(node, ast.Return):
        value = node.value
        return value is None or (isinstance(value, ast.Constant) and value.value is None)
    return isinstance(node, ast.Raise) or is_report(node)


def is_report(node: ast.stmt) -> bool:
    """Whether a statement does nothing but report."""
    if isinstance(node, (ast.Pass, ast.Assert)):
        return True
    if isinstance(node, ast.If):
        return _only_selects_reports(node)
    if not isinstance(node, ast.Expr):
        return False
    value = node.value
    if isinstance(value, ast.Constant):
        return True
    if not isinstance(value, ast.Call):
        return False
    called = value.func
    name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
    # Functions such as `assert_close` compare nothing here (`comparisons`).
    reports = name in REPORTING or name.startswith("assert_")
    return reports and not any(may_launch(inner) for inner in (*value.args, *value.keywords))


def may_launch(node: ast.AST) -> bool:
    """Whether an expression calls a function that might launch a kernel."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            called = inner.func
            name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            if name not in PURE:
                return True
    return False
