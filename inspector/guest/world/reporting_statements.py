"""Finds the lines of a script that only report values to people: prints, logs and assertions.

A value that is only reported decides nothing, so assuming it needs no note.
"""

from __future__ import annotations

import ast

from ..syntax import parse

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


def parsed_file(file: str) -> ast.Module | None:
    """A file's statements; None where it cannot be read or parsed."""
    try:
        with open(file, "rb") as stream:
            return parse(stream.read(), file)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def reporting_lines(file: str) -> dict[int, bool]:
    """Line -> whether the innermost statement there only reports the values that it reads."""
    tree = parsed_file(file)
    if tree is None:
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
