"""Tells where a launch cannot depend on a value that was assumed before it.

This follows names through the statements of the function, or of the script's outermost level, in
which the value was asked for. Whatever it cannot follow counts as dependent.
"""

from __future__ import annotations

import ast
import functools
import os
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import TYPE_CHECKING

from .reporting_statements import is_report, may_launch, parsed_file

if TYPE_CHECKING:
    _Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES: tuple[type[ast.AST], ...] = (ast.ExceptHandler,)
if hasattr(ast, "match_case"):  # Python 3.9 has none
    _BRANCHES += (ast.match_case,)
_NESTED_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
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
    tree = _followable(file)
    if tree is None:
        return False
    scope = _scope_of(tree, line)
    if scope is None:
        return False
    lines = [at for code, at in stack if _is_of(code, scope, file)]
    return bool(lines) and not any(_reaches(scope, line, at) for at in lines)


@functools.lru_cache(maxsize=64)
def _followable(file: str) -> ast.Module | None:
    """A file's statements; None where they cannot be followed."""
    tree = parsed_file(file)
    if tree is None:
        return None
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return tree if names.isdisjoint(_BY_NAME) else None


def _scope_of(tree: ast.Module, line: int) -> _Scope | None:
    """The innermost function around a line; the module where there is none; None in a class."""
    scope: ast.AST = tree
    for node in ast.walk(tree):  # outer ones first
        if isinstance(node, _NESTED_SCOPES) and node.lineno <= line <= (
            node.end_lineno or node.lineno
        ):
            scope = node
    return scope if isinstance(scope, (ast.Module, *_FUNCTIONS)) else None


def _is_of(code: CodeType, scope: _Scope, file: str) -> bool:
    """Whether code was compiled from a scope of a file."""
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
            if not isinstance(node, _NESTED_SCOPES):
                yield from _statements(node, path)
        elif isinstance(node, _BRANCHES):
            yield from _statements(node, above)


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement without those of the statements in it."""
    for node in ast.iter_child_nodes(statement):
        if not isinstance(node, (ast.stmt, ast.ExceptHandler)):
            yield from ast.walk(node)


def _statement_at(paths: Sequence[tuple[ast.stmt, ...]], line: int) -> tuple[ast.stmt, ...] | None:
    """The statement at a line; None where there are several, or none."""
    at_line = []
    for path in paths:
        ends = [getattr(node, "end_lineno", 0) or 0 for node in _own_nodes(path[-1])]
        if path[-1].lineno <= line <= max(ends, default=path[-1].lineno):
            at_line.append(path)
    return at_line[0] if len(at_line) == 1 else None


def _reaches(scope: _Scope, line: int, launch_line: int) -> bool:
    """Whether the value asked for at a line may reach a launch in the same scope."""
    paths = list(_statements(scope))
    asked, launch = _statement_at(paths, line), _statement_at(paths, launch_line)
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
        for node in _own_nodes(statement)
    )


def _written(statement: ast.stmt) -> set[str] | None:
    """The variables that a statement decides; None where it may decide more than variables."""
    if any(isinstance(node, _UNFOLLOWED) for node in _own_nodes(statement)):
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
    if not isinstance(node, _NESTED_SCOPES):
        return False
    inner = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in names]
    own = {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
    return any(n.id not in own for n in inner)
