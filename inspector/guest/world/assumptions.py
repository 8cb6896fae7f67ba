"""Log of the values that were made up for the script, where its behaviour may depend on them.

Without a GPU some values are unknown: a value of a module that is not installed, the contents of a
tensor that a kernel would have written, a measured time. The script gets a plausible one. Each such
assumption is logged with the line that asked for it, and is attached to every kernel launched after
it. Values that the script only prints are left out.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any

from ..syntax import parse

MOST = 32
"""Most assumptions that are logged in one run."""
MOST_TIMES = 8
"""How often a reversed question gets its other answer: `while not close(…)` has to end."""
Question = tuple[str, str, int]
"""(question in words, file, line)."""
REPORTING = frozenset(
    ("debug", "error", "exception", "info", "log", "pprint", "print", "warn", "warning", "write")
)
"""Functions and methods that only report something to people."""


class Assumptions:
    """The assumptions of one run, in the order in which they were made."""

    def __init__(self) -> None:
        self._assumptions: dict[tuple[str, str, str, int, str | None], None] = {}
        self._emulated: dict[tuple[str, str, str, int], None] = {}
        self._owns: Callable[[CodeType], bool] = _is_outside
        self._reporting_lines_by_file: dict[str, dict[int, bool]] = {}
        self._muted = 0
        self._two_sided: dict[Question, None] = {}
        self._reversed: dict[Question, int] = {}

    def watch(self, owns: Callable[[CodeType], bool]) -> None:
        """Sets which code is the user's: assumptions are logged at lines of that code.

        Args:
            owns: whether a code object is the user's.
        """
        self._owns = owns

    def reverse(self, questions: Iterable[Question]) -> None:
        """Has these questions answered the other way in this run."""
        self._reversed = dict.fromkeys(questions, MOST_TIMES)

    def answer(self, question_text: str, assumed: Any, reason: str | None = None) -> Any:
        """Logs an assumption, unless the script only prints the value.

        Args:
            question_text: what the script asked for, in words.
            assumed: the assumed value.
            reason: why a kernel's output is unknown; see `refused.REASONS`.

        Returns:
            The value to give the script: `assumed`, or the other one if the question is reversed.
        """
        site = self._asking_site()
        if site is None:
            return assumed
        question = (question_text, *site)
        if isinstance(assumed, bool):
            self._two_sided[question] = None
            reversals_left = self._reversed.get(question, 0)
            if reversals_left:
                self._reversed[question] = reversals_left - 1
                assumed = not assumed
        record = (question_text, _short(assumed), *site, reason)
        if len(self._assumptions) < MOST:
            self._assumptions[record] = None
        return assumed

    def emulated(self, question_text: str, value: Any) -> None:
        """Logs a value read from memory that an executed kernel wrote, unless it is only printed.

        Args:
            question_text: what the script asked for, in words.
            value: the value that it got.
        """
        site = self._asking_site()
        if site is not None and len(self._emulated) < MOST:
            file, line = site
            self._emulated[question_text, _short(value), file, line] = None

    def emulated_so_far(self) -> list[dict[str, Any]]:
        """The emulated values until now, as dicts of `what`, `value`, `file` and `line`."""
        return [
            {"what": question_text, "value": value, "file": file, "line": line}
            for question_text, value, file, line in self._emulated
        ]

    def two_sided(self) -> list[Question]:
        """The questions until now with exactly two possible answers."""
        return list(self._two_sided)

    def matters(self) -> bool:
        """Whether the value that the script is asking for now is more than printed."""
        return self._asking_site() is not None

    def so_far(self) -> list[dict[str, Any]]:
        """The answers until now: `what`, `assumed`, `file`, `line`, `explored` and `reason`."""
        return [
            {
                "what": question_text,
                "assumed": assumed,
                "file": file,
                "line": line,
                "explored": (question_text, file, line) in self._reversed,
                "reason": reason,
            }
            for question_text, assumed, file, line, reason in self._assumptions
        ]

    def __enter__(self) -> None:
        """Logs nothing inside the context: there this package asks, not the script."""
        self._muted += 1

    def __exit__(self, *exception: object) -> None:
        self._muted -= 1

    def _asking_site(self) -> tuple[str, int] | None:
        """The user's line that asks; None if it only prints, or if no code of the user's asks."""
        frame = None if self._muted else self._asking_frame()
        if frame is None:
            return None
        file, line = os.path.abspath(frame.f_code.co_filename), frame.f_lineno
        return None if self._is_only_reported(file, line) else (file, line)

    def _asking_frame(self) -> FrameType | None:
        frame: FrameType | None = sys._getframe(3)
        while frame is not None and not self._owns(frame.f_code):
            if frame.f_code.co_filename.startswith(_triton()):
                return None  # e.g. an autotuner reads a time: that decides nothing of the script's
            frame = frame.f_back
        return frame

    def _is_only_reported(self, file: str, line: int) -> bool:
        lines = self._reporting_lines_by_file.get(file)
        if lines is None:
            lines = self._reporting_lines_by_file[file] = _reporting_lines(file)
        return lines.get(line, False)


def _is_outside(code: CodeType) -> bool:
    return True


@functools.lru_cache(maxsize=1)
def _triton() -> str:
    spec = importlib.util.find_spec("triton")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    return os.path.join(folders[0], "") if folders else os.devnull


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


# ----------------------------------------------------------------------- lines that only report


def _reporting_lines(file: str) -> dict[int, bool]:
    """Line -> whether the innermost statement there only reports the values that it reads."""
    try:
        with open(file, "rb") as stream:
            tree = parse(stream.read(), file)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    lines: dict[int, bool] = {}
    checking_ifs: set[ast.AST] = set()
    for node in ast.walk(tree):  # outer ones first: inner ones overwrite what they span
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _only_checks(node):
            checking_ifs.update(inner for inner in ast.walk(node) if isinstance(inner, ast.If))
        if isinstance(node, ast.stmt):
            is_reporting = _reports(node) or (
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
        if not isinstance(node, ast.Assign) or calls_more(node.value):
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
        _reports(inner) or isinstance(inner, ast.Raise) for inner in (*node.body, *node.orelse)
    )


def _only_checks(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function returns nothing and its conditions only decide what it reports or raises.

    Test helpers return early if results agree: `if error < limit: return`, then an assert.
    """
    has_conditions = False
    for index, node in enumerate(function.body):
        if isinstance(node, ast.If):
            has_conditions = True
            if not all(_reports_or_leaves(inner) for inner in (*node.body, *node.orelse)):
                return False
        elif has_conditions or not isinstance(node, (ast.Assign, ast.AnnAssign, ast.Expr)):
            if not _reports_or_leaves(node):
                return False
        elif isinstance(node, ast.Expr) and index and not _reports(node):
            return False  # a call may launch something
    return has_conditions


def _reports_or_leaves(node: ast.stmt) -> bool:
    """Whether a statement reports, raises, or returns without a value."""
    if isinstance(node, ast.If):
        return all(_reports_or_leaves(inner) for inner in (*node.body, *node.orelse))
    if isinstance(node, ast.Return):
        value = node.value
        return value is None or (isinstance(value, ast.Constant) and value.value is None)
    return isinstance(node, ast.Raise) or _reports(node)


def _reports(node: ast.stmt) -> bool:
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
    is_report = name in REPORTING or name.startswith(
        "assert_"
    )  # `assert_close` and the like are no-ops here
    return is_report and not any(calls_more(inner) for inner in (*value.args, *value.keywords))


# Functions and methods that read or convert a value and launch nothing.
_PURE_READERS = frozenset(
    (
        *("abs", "all", "allclose", "amax", "any", "array_equal", "bool", "cpu", "detach"),
        *("equal", "float", "format", "int", "isclose", "item", "join", "len", "max", "mean"),
        *("min", "norm", "numel", "numpy", "repr", "round", "size", "str", "sum", "tolist", "type"),
    )
)


def calls_more(node: ast.AST) -> bool:
    """Whether an expression calls a function that might launch a kernel."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            called = inner.func
            name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            if name not in _PURE_READERS:
                return True
    return False


# --------------------------------------------------------------------------- numbers


_OPERATOR_TEXTS = {
    "__eq__": "==",
    "__ne__": "!=",
    "__lt__": "<",
    "__le__": "<=",
    "__gt__": ">",
    "__ge__": ">=",
}


def _logging_method(name: str) -> Callable[..., Any]:
    float_method = getattr(float, name)

    def method(self: Any, *operands: Any) -> Any:
        answer = float_method(self, *operands)
        sign = _OPERATOR_TEXTS.get(name)
        question_text = (
            self.origin if sign is None or not operands else f"{self.origin} {sign} {operands[0]}"
        )
        return LOG.answer(question_text, answer, self.reason)

    return method


def _propagating_method(name: str) -> Callable[..., Any]:
    float_method = getattr(float, name)

    def method(self: Any, *operands: Any) -> Any:
        answer = float_method(self, *operands)
        return UnknownFloat(answer, self.origin, self.reason) if type(answer) is float else answer

    return method


class UnknownFloat(float):
    """An unknown float. Comparing it, or converting it to an integer, logs an assumption.

    Args:
        value: the assumed value.
        origin: where it comes from, in words.
        reason: why it is unknown, if a kernel wrote it; see `refused.REASONS`.
    """

    origin: str
    reason: str | None

    def __new__(cls, value: float, origin: str = "", reason: str | None = None) -> UnknownFloat:
        number = super().__new__(cls, value)
        number.origin, number.reason = origin, reason
        return number

    def __reduce__(self) -> Any:
        return float, (float(self),)

    __hash__ = float.__hash__


for _name in ("__bool__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    setattr(UnknownFloat, _name, _logging_method(_name))
for _name in ("__int__", "__trunc__", "__floor__", "__ceil__", "__round__"):
    setattr(UnknownFloat, _name, _logging_method(_name))
for _name in (
    *("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__"),
    *("__rtruediv__", "__neg__", "__abs__", "__pow__", "__rpow__", "__floordiv__", "__mod__"),
):
    setattr(UnknownFloat, _name, _propagating_method(_name))

LOG = Assumptions()
"""The log of this process, which runs one script."""


@functools.lru_cache(maxsize=1)
def unknown_array() -> Any:
    """The class of numpy arrays with unknown contents; results computed from them have it too."""
    numpy: Any = importlib.import_module("numpy")
    return type("UnknownArray", (numpy.ndarray,), {"unknown": True})
