"""What the script was told that nobody knows, where it may have decided by it.

A value of a module that is not installed, the contents of a tensor that a kernel would have
written, a time: each is answered with something plausible. What comes next may rest on it. Every
answer is written down with the line that asked, and every kernel launched after it carries it.
Answers that are only printed are left out.
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
"""Answers of one run that are told apart."""
MOST_TIMES = 8
"""How often a question gets the other answer in one run: `while not close(…)` has to end."""
Question = tuple[str, str, int]
"""What was asked, in words, with file and line."""
SAYING = frozenset(
    ("debug", "error", "exception", "info", "log", "pprint", "print", "warn", "warning", "write")
)
"""Functions and methods that only tell somebody something."""


class Assumptions:
    """Those of one run, in the order in which they were made."""

    def __init__(self) -> None:
        self._assumptions: dict[tuple[str, str, str, int, str | None], None] = {}
        self._emulated: dict[tuple[str, str, str, int], None] = {}
        self._owns: Callable[[CodeType], bool] = _is_outside
        self._telling: dict[str, dict[int, bool]] = {}
        self._muted = 0
        self._two_sided: dict[Question, None] = {}
        self._reversed: dict[Question, int] = {}

    def watch(self, owns: Callable[[CodeType], bool]) -> None:
        """Says which code is the user's: an answer is noted at his line.

        Args:
            owns: whether code is his.
        """
        self._owns = owns

    def reverse(self, questions: Iterable[Question]) -> None:
        """Has questions answered the other way."""
        self._reversed = dict.fromkeys(questions, MOST_TIMES)

    def answer(self, question_text: str, assumed: Any, reason: str | None = None) -> Any:
        """Writes an answer down, unless it is only told.

        Args:
            question_text: what was asked, in words.
            assumed: the answer.
            reason: why what a kernel wrote is not known; see `refused.REASONS`.

        Returns:
            the answer; the other one where that is to be tried.
        """
        place = self._place()
        if place is None:
            return assumed
        question = (question_text, *place)
        if isinstance(assumed, bool):
            self._two_sided[question] = None
            left = self._reversed.get(question, 0)
            if left:
                self._reversed[question] = left - 1
                assumed = not assumed
        record = (question_text, _short(assumed), *place, reason)
        if len(self._assumptions) < MOST:
            self._assumptions[record] = None
        return assumed

    def emulated(self, question_text: str, value: Any) -> None:
        """Writes down what was read of memory that an executed kernel wrote to, unless only told.

        Args:
            question_text: what was asked, in words.
            value: the answer.
        """
        place = self._place()
        if place is not None and len(self._emulated) < MOST:
            file, line = place
            self._emulated[question_text, _short(value), file, line] = None

    def emulated_so_far(self) -> list[dict[str, Any]]:
        """Those until now: `what`, `value`, `file`, `line`."""
        return [
            {"what": question_text, "value": value, "file": file, "line": line}
            for question_text, value, file, line in self._emulated
        ]

    def two_sided(self) -> list[Question]:
        """The questions until now that have one other answer."""
        return list(self._two_sided)

    def matters(self) -> bool:
        """Whether what the script asks for at this moment is more than told."""
        return self._place() is not None

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
        """Nothing is written down inside: it is this package that asks."""
        self._muted += 1

    def __exit__(self, *exception: object) -> None:
        self._muted -= 1

    def _place(self) -> tuple[str, int] | None:
        """The user's line that asks; None where its answer is only told, or nobody of his asks."""
        frame = None if self._muted else self._asking()
        if frame is None:
            return None
        file, line = os.path.abspath(frame.f_code.co_filename), frame.f_lineno
        return None if self._is_told(file, line) else (file, line)

    def _asking(self) -> FrameType | None:
        frame: FrameType | None = sys._getframe(3)
        while frame is not None and not self._owns(frame.f_code):
            if frame.f_code.co_filename.startswith(_triton()):
                return None  # its autotuner's times, say: what it tries is another's business
            frame = frame.f_back
        return frame

    def _is_told(self, file: str, line: int) -> bool:
        lines = self._telling.get(file)
        if lines is None:
            lines = self._telling[file] = _telling_lines(file)
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


# --------------------------------------------------------------------------- what is only told


def _telling_lines(file: str) -> dict[int, bool]:
    """Line -> whether what is asked for there is only told, by the innermost statement around."""
    try:
        with open(file, "rb") as stream:
            tree = parse(stream.read(), file)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    lines: dict[int, bool] = {}
    checks: set[ast.AST] = set()
    for node in ast.walk(tree):  # outer ones first: inner ones overwrite what they span
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _only_checks(node):
            checks.update(inner for inner in ast.walk(node) if isinstance(inner, ast.If))
        if isinstance(node, ast.stmt):
            tells = _tells(node) or (isinstance(node, ast.If) and _chooses_words(node))
            tells |= node in checks
            last = node.test.end_lineno if isinstance(node, ast.If) else node.end_lineno
            for line in range(node.lineno, (last or node.lineno) + 1):
                lines[line] = tells
    _tell_by_name(tree, lines)
    return lines


def _tell_by_name(tree: ast.AST, lines: dict[int, bool]) -> None:
    """Adds assignments to names that are only told of: `error = (a - b).max().item()`, printed.

    Uses of the same name elsewhere in the file count too, whatever they mean there.
    """
    uses: dict[str, bool] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            uses[node.id] = uses.get(node.id, True) and lines.get(node.lineno, False)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            uses.update(dict.fromkeys(node.names, False))
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            uses[node.target.id] = False
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or calls_more(node.value):
            continue
        names = [its.id for its in node.targets if isinstance(its, ast.Name)]
        if len(names) == len(node.targets) and all(uses.get(name, False) for name in names):
            last = node.end_lineno or node.lineno
            lines.update(dict.fromkeys(range(node.lineno, last + 1), True))


def _chooses_words(node: ast.If) -> bool:
    """Whether an `if` only chooses what is told, or whether the script goes on."""
    return all(
        _tells(inner) or isinstance(inner, ast.Raise) for inner in (*node.body, *node.orelse)
    )


def _only_checks(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function gives nothing back and its conditions choose only what is told or raised.

    Test helpers leave early where results agree: `if error < limit: return`, then an assert.
    """
    has_conditions = False
    for place, node in enumerate(function.body):
        if isinstance(node, ast.If):
            has_conditions = True
            if not all(_says_or_leaves(inner) for inner in (*node.body, *node.orelse)):
                return False
        elif has_conditions or not isinstance(node, (ast.Assign, ast.AnnAssign, ast.Expr)):
            if not _says_or_leaves(node):
                return False
        elif isinstance(node, ast.Expr) and place and not _tells(node):
            return False  # a call may launch something
    return has_conditions


def _says_or_leaves(node: ast.stmt) -> bool:
    """Whether a statement tells, raises, or leaves a function without a value."""
    if isinstance(node, ast.If):
        return all(_says_or_leaves(inner) for inner in (*node.body, *node.orelse))
    if isinstance(node, ast.Return):
        value = node.value
        return value is None or (isinstance(value, ast.Constant) and value.value is None)
    return isinstance(node, ast.Raise) or _tells(node)


def _tells(node: ast.stmt) -> bool:
    if isinstance(node, (ast.Pass, ast.Assert)):
        return True
    if isinstance(node, ast.If):
        return _chooses_words(node)
    if not isinstance(node, ast.Expr):
        return False
    value = node.value
    if isinstance(value, ast.Constant):
        return True
    if not isinstance(value, ast.Call):
        return False
    called = value.func
    name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
    says = name in SAYING or name.startswith("assert_")  # which compare nothing here
    return says and not any(calls_more(inner) for inner in (*value.args, *value.keywords))


_READERS = frozenset(
    (
        *("abs", "all", "allclose", "amax", "any", "array_equal", "bool", "cpu", "detach"),
        *("equal", "float", "format", "int", "isclose", "item", "join", "len", "max", "mean"),
        *("min", "norm", "numel", "numpy", "repr", "round", "size", "str", "sum", "tolist", "type"),
    )
)


def calls_more(node: ast.AST) -> bool:
    """Whether an expression calls what may launch something."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            called = inner.func
            name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            if name not in _READERS:
                return True
    return False


# --------------------------------------------------------------------------- numbers


_SIGNS = {
    "__eq__": "==",
    "__ne__": "!=",
    "__lt__": "<",
    "__le__": "<=",
    "__gt__": ">",
    "__ge__": ">=",
}


def _noting(name: str) -> Callable[..., Any]:
    plain = getattr(float, name)

    def method(self: Any, *operands: Any) -> Any:
        answer = plain(self, *operands)
        sign = _SIGNS.get(name)
        question_text = (
            self.origin if sign is None or not operands else f"{self.origin} {sign} {operands[0]}"
        )
        return LOG.answer(question_text, answer, self.reason)

    return method


def _carrying(name: str) -> Callable[..., Any]:
    plain = getattr(float, name)

    def method(self: Any, *operands: Any) -> Any:
        answer = plain(self, *operands)
        return UnknownFloat(answer, self.origin, self.reason) if type(answer) is float else answer

    return method


class UnknownFloat(float):
    """A float that nobody knows: to compare it, or to make an integer of it, is noted.

    Args:
        value: what is taken for it.
        origin: what it is, in words.
        reason: why it is not known, if a kernel wrote it; see `refused.REASONS`.
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
    setattr(UnknownFloat, _name, _noting(_name))
for _name in ("__int__", "__trunc__", "__floor__", "__ceil__", "__round__"):
    setattr(UnknownFloat, _name, _noting(_name))
for _name in (
    *("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__"),
    *("__rtruediv__", "__neg__", "__abs__", "__pow__", "__rpow__", "__floordiv__", "__mod__"),
):
    setattr(UnknownFloat, _name, _carrying(_name))

LOG = Assumptions()
"""Those of this process: it runs one script."""


@functools.lru_cache(maxsize=1)
def unknown_array() -> Any:
    """The class of arrays that nobody knows the contents of; what is computed from them is too."""
    numpy: Any = importlib.import_module("numpy")
    return type("UnknownArray", (numpy.ndarray,), {"unknown": True})
