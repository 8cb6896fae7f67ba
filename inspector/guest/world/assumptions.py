"""Log of the values that were assumed for the script, where its behaviour may depend on them.

Without a GPU some values are unknown: those of a module that is not installed, of a tensor that a
kernel would have written, of a measured time. The script gets a plausible one. Each such assumption
is logged with the line that asked for it, and is attached to every kernel launched after it that
may depend on it. Values that the script only prints are left out.

Why a kernel's output is unknown although the kernel might have been executed.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from types import CodeType, FrameType, MappingProxyType
from typing import Any

from .reporting_statements import reporting_lines
from .value_uses import is_independent

MAX_ASSUMPTIONS = 32
"""How many assumptions are logged in one run."""
MAX_REVERSALS = 8
"""How often a reversed question gets its other answer: a loop `while not close(…)` has to end."""
Question = tuple[str, str, int]
"""(question in words, file, line)."""


class Assumptions:
    """The assumptions of one run, in the order in which they were made.

    Attributes:
        unjudged: how often each check met values that are not known, printed ones among them.
        gave_times: whether the user's code was given times that no GPU has measured.
    """

    def __init__(self) -> None:
        self._assumptions: dict[tuple[str, str, str, int, str | None], None] = {}
        self._emulated: dict[tuple[str, str, str, int], None] = {}
        self._owns: Callable[[CodeType], bool] = _is_any
        self._reporting_lines_by_file: dict[str, dict[int, bool]] = {}
        self._muted = 0
        self._two_sided: dict[Question, None] = {}
        self._reversed: dict[Question, int] = {}
        self.unjudged: dict[Question, int] = {}
        self.gave_times = False

    def watch(self, owns: Callable[[CodeType], bool]) -> None:
        """Sets which code is the user's: assumptions are logged at lines of that code."""
        self._owns = owns

    def reverse(self, questions: Iterable[Question]) -> None:
        self._reversed = dict.fromkeys(questions, MAX_REVERSALS)

    def answer(self, question_text: str, assumed: Any, reason: str | None = None) -> Any:
        """Logs an assumption, unless the script only prints the value.

        Where a kernel's output is unknown, `reason` is one of `refusal.REASONS`.

        Returns:
            The value to give the script: `assumed`, or the other one if the question is reversed.
        """
        site = self._asking_site()
        if site is not None or isinstance(assumed, bool):
            self.count_unjudged(question_text)
        if site is None:
            return assumed
        question = (question_text, *site)
        if isinstance(assumed, bool):
            self._two_sided[question] = None
            reversals_left = self._reversed.get(question, 0)
            if reversals_left:
                self._reversed[question] = reversals_left - 1
                assumed = not assumed
        record = (question_text, _shortened(assumed), *site, reason)
        if len(self._assumptions) < MAX_ASSUMPTIONS:
            self._assumptions[record] = None
        return assumed

    def count_unjudged(self, question_text: str) -> None:
        """Counts a check that cannot mean anything, by the user's line that makes it.

        Called by the function that the user's code calls, or that the answer is given for.
        """
        frame = None if self._muted else self._asking_frame()
        if frame is not None:
            question = (question_text, os.path.abspath(frame.f_code.co_filename), frame.f_lineno)
            self.unjudged[question] = self.unjudged.get(question, 0) + 1

    def note_emulated(self, question_text: str, value: Any) -> None:
        """Logs a value read from memory that a kernel wrote, unless it is only printed."""
        site = self._asking_site()
        if site is not None and len(self._emulated) < MAX_ASSUMPTIONS:
            file, line = site
            self._emulated[question_text, _shortened(value), file, line] = None

    def emulated_records(self) -> list[dict[str, Any]]:
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

    def records(self) -> list[dict[str, Any]]:
        """The answers that a launch made here may depend on.

        Each has `what`, `assumed`, `file`, `line`, `explored` and `reason`.
        """
        stack, frame = [], sys._getframe(1) if self._assumptions else None
        while frame is not None:
            stack.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
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
            if not is_independent(file, line, stack)
        ]

    def time(self, value: float) -> UnknownFloat:
        """A time in place of one that a GPU would have measured; remembers that code asked."""
        self.gave_times = self.gave_times or self._asking_frame() is not None
        return UnknownFloat(value, "a time, which is not measured")

    def __enter__(self) -> None:
        """Stops logging inside the context, in which this package reads values for itself."""
        self._muted += 1

    def __exit__(self, *exception: object) -> None:
        self._muted -= 1

    def _asking_site(self) -> tuple[str, int] | None:
        """File and line of the user's code that asks for a value; None if that only prints it.

        None also where no code of the user's asks.
        """
        frame = None if self._muted else self._asking_frame()
        if frame is None:
            return None
        file, line = os.path.abspath(frame.f_code.co_filename), frame.f_lineno
        return None if self._is_only_reported(file, line) else (file, line)

    def _asking_frame(self) -> FrameType | None:
        """The innermost frame of the user's code; None if there is none, or Triton asks."""
        frame: FrameType | None = sys._getframe(3)
        while frame is not None and not self._owns(frame.f_code):
            if frame.f_code.co_filename.startswith(_triton_folder()):
                return None  # for example an autotuner, which reads a time
            frame = frame.f_back
        return frame

    def _is_only_reported(self, file: str, line: int) -> bool:
        lines = self._reporting_lines_by_file.get(file)
        if lines is None:
            lines = self._reporting_lines_by_file[file] = reporting_lines(file)
        return lines.get(line, False)


def _is_any(code: CodeType) -> bool:
    return True


@functools.lru_cache(maxsize=1)
def _triton_folder() -> str:
    spec = importlib.util.find_spec("triton")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    return os.path.join(folders[0], "") if folders else os.devnull


def _shortened(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


_OPERATOR_TEXTS = {
    "__eq__": "==",
    "__ne__": "!=",
    "__lt__": "<",
    "__le__": "<=",
    "__gt__": ">",
    "__ge__": ">=",
}


def _logging_method(name: str) -> Callable[..., Any]:
    """A method of float that logs its result as an assumption."""
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
    """A method of float whose result is unknown as well."""
    float_method = getattr(float, name)

    def method(self: Any, *operands: Any) -> Any:
        answer = float_method(self, *operands)
        return UnknownFloat(answer, self.origin, self.reason) if type(answer) is float else answer

    return method


class UnknownFloat(float):
    """An unknown float. Comparing it, or converting it to an integer, logs an assumption.

    Args:
        reason: why it is unknown, if a kernel wrote it; see `refusal.REASONS`.
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
    """The class of numpy arrays with unknown contents; arrays computed from them are of it too."""
    numpy: Any = importlib.import_module("numpy")
    return type("UnknownArray", (numpy.ndarray,), {"unknown": True})


REASONS: Mapping[str, str] = MappingProxyType(
    {
        "off": "that a kernel writes, which is not run",
        "unavailable": "that a kernel writes, which is not run: {}",
        "budget": "that a kernel writes, which the seconds for emulation did not suffice for",
        "uncovered": "that a kernel writes which the emulator cannot run: {}",
        "faulty": "that a kernel writes which does what it must not: {}",
        "inputs": "that a kernel writes, whose own arguments are not known",
        "failed": "that a kernel writes, which could not be emulated: {}",
    }
)
"""Reason -> its words, which complete "the value of a tensor …".

    off          the user asked that kernels not be executed
    unavailable  this target or this installation cannot execute them
    budget       the seconds or the memory for executing kernels are used up
    uncovered    the emulator lacks an instruction
    faulty       the kernel has a race, or accesses memory that it must not access
    inputs       the kernel's inputs are unknown, or have been overwritten
    failed       the compiler or the emulator failed
"""


class LaunchRefusedError(Exception):
    """A launch that is not executed."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(REASONS[reason].format(detail))
        self.reason = reason
