"""What went wrong in a script that is emulated: the exception that ended it, or failed tests.

The script's own output has it as well, but that need not reach whoever reads the result.
"""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable, Sequence
from types import CodeType, TracebackType
from typing import Any

from ..records import one_line

MOST_TRACEBACKS = 8
"""Failures whose traceback is recorded; of others the error alone."""
_MOST_MESSAGE = 400
"""Characters of a message on one line."""
_MOST_TRACEBACK = 2_000
"""Characters of a traceback's end."""


class Failures:
    """Collects failures; to pytest a plugin.

    Args:
        owns_code: whether code is the project's own; a traceback's last such line is the place.
    """

    def __init__(self, path: str, owns_code: Callable[[CodeType], bool]) -> None:
        self._path = path
        self._owns_code = owns_code
        self.records: list[dict[str, Any]] = []

    def add(self, failure: BaseException) -> None:
        """Adds the exception that ended the script."""
        trace = trace_from(self._path, failure)
        file, line = self._place(trace)
        if file is None and isinstance(failure, SyntaxError):  # of the script: no frame of it runs
            lines = traceback.format_exception_only(type(failure), failure)
            self._add(None, _syntax_error_line(failure), failure.filename, failure.lineno, lines)
            return
        lines = traceback.format_exception(type(failure), failure, trace)
        self._add(None, _error_line(failure, file, line), file, line, lines)

    def add_exit(self, stop: SystemExit) -> None:
        """Adds a call of `sys.exit` with a status or message that means failure."""
        file, line = self._place(stop.__traceback__)
        code = text_of(stop.code)
        call = f"sys.exit: {code}" if isinstance(stop.code, str) else f"sys.exit({code})"
        self._add(None, call, file, line)

    def add_pytest_end(self, status: str) -> None:
        """Adds how pytest ended, such as `NO_TESTS_COLLECTED`, unless a test's failure says why."""
        if not self.records:
            self._add(None, f"pytest ended with {status}", None, None)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Adds a test that failed, or whose fixtures did: called by pytest."""
        if report.failed:
            self._add_report(report)

    def pytest_collectreport(self, report: Any) -> None:
        """Adds a file whose tests could not be collected: called by pytest."""
        if report.failed:
            self._add_report(report)

    def _add_report(self, report: Any) -> None:
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is None:
            text = text_of(report.longrepr)
            last = (text.strip().splitlines() or [text_of(report.outcome)])[-1]
            error = last[2:] if last.startswith("E ") else last  # pytest marks it so
            self._add(report.nodeid, error, None, None, [text])
        else:
            text = text_of(report.longrepr) if self._has_room else ""
            self._add(report.nodeid, crash.message, crash.path, crash.lineno, [text])

    @property
    def _has_room(self) -> bool:
        """Whether the next failure's traceback is recorded."""
        return len(self.records) < MOST_TRACEBACKS

    def _place(self, trace: TracebackType | None) -> tuple[str | None, int | None]:
        """The project's last line in a traceback; nothing where there is none."""
        place: tuple[str | None, int | None] = None, None
        for frame, line in traceback.walk_tb(trace):
            if self._owns_code(frame.f_code):
                place = frame.f_code.co_filename, line
        return place

    def _add(
        self,
        test: str | None,
        error: str,
        file: str | None,
        line: int | None,
        trace: Sequence[str] = (),
    ) -> None:
        text = "".join(trace) if self._has_room else ""
        self.records.append(
            {
                "test": None if test is None else _encodable(test),
                "error": _encodable(_cut(one_line(error), _MOST_MESSAGE)),
                "file": None if file is None else _encodable(file),
                "line": line,
                "traceback": _encodable(text[-_MOST_TRACEBACK:]),
            }
        )


def text_of(value: object) -> str:
    """A value in words, even if its `__str__` raises an exception."""
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__} object>"


def trace_from(path: str, failure: BaseException) -> TracebackType | None:
    """A traceback from a file's first frame on; whole where the file has none."""
    trace = failure.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != path:
        trace = trace.tb_next
    return trace or failure.__traceback__


def _error_line(failure: BaseException, file: str | None, line: int | None) -> str:
    """`AssertionError: 49.5 % differ`; without a message the line of the source that raised it."""
    error = "".join(traceback.format_exception_only(type(failure), failure)).strip()
    has_message = ": " in error
    if has_message or file is None or line is None:
        return error
    return f"{error}: {linecache.getline(file, line).strip()}"


def _syntax_error_line(failure: SyntaxError) -> str:
    return f"{type(failure).__name__}: {failure.msg}"


def _encodable(text: str) -> str:
    """A text that UTF-8 can hold: lone surrogates are spelled out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
