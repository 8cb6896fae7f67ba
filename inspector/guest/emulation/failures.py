"""What went wrong in a script that is emulated: the exception that ended it, or failed tests.

The script's own output has it as well, but that need not reach whoever reads the result.
"""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable
from types import CodeType, TracebackType
from typing import Any

from ..records import one_line

MOST_FAILURES = 8
"""Failed tests that are recorded; of more the number."""
_MOST_MESSAGE = 400
"""Characters of a message on one line."""
_MOST_TRACEBACK = 2_000
"""Characters of a traceback's end."""


class Failures:
    """Collects failures; to pytest a plugin.

    Args:
        path: the script.
        owns_code: whether code is the project's own; a traceback's last such line is the place.
    """

    def __init__(self, path: str, owns_code: Callable[[CodeType], bool]) -> None:
        self._path = path
        self._owns_code = owns_code
        self.records: list[dict[str, Any]] = []

    def add(self, failure: BaseException) -> None:
        """Adds the exception that ended the script."""
        trace = trace_from(self._path, failure)
        lines = traceback.format_exception(type(failure), failure, trace)
        file, line = self._place(trace)
        self._add(None, _error_line(failure, file, line), file, line, "".join(lines))

    def add_exit(self, stop: SystemExit) -> None:
        """Adds a call of `sys.exit` with a status or message that means failure."""
        file, line = self._place(stop.__traceback__)
        text = f": {stop.code}" if isinstance(stop.code, str) else f"({stop.code})"
        self._add(None, f"sys.exit{text}", file, line, "")

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
        text = str(report.longrepr)
        if crash is None:
            last = text.strip().splitlines()[-1:] or [str(report.outcome)]
            self._add(report.nodeid, last[0], None, None, text)
        else:
            self._add(report.nodeid, crash.message, crash.path, crash.lineno, text)

    def _place(self, trace: TracebackType | None) -> tuple[str | None, int | None]:
        """The project's last line in a traceback; nothing where there is none."""
        place: tuple[str | None, int | None] = None, None
        for frame, line in traceback.walk_tb(trace):
            if self._owns_code(frame.f_code):
                place = frame.f_code.co_filename, line
        return place

    def _add(
        self, test: str | None, error: str, file: str | None, line: int | None, trace: str
    ) -> None:
        shown = len(self.records) < MOST_FAILURES
        self.records.append(
            {
                "test": test,
                "error": _cut(one_line(error), _MOST_MESSAGE),
                "file": file,
                "line": line,
                "traceback": trace[-_MOST_TRACEBACK:] if shown else "",
            }
        )


def trace_from(path: str, failure: BaseException) -> TracebackType | None:
    """A traceback from a file's first frame on; whole where the file has none."""
    trace = failure.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != path:
        trace = trace.tb_next
    return trace or failure.__traceback__


def _error_line(failure: BaseException, file: str | None, line: int | None) -> str:
    """`AssertionError: 49.5 % differ`; without a message the line of the source that raised it."""
    error = "".join(traceback.format_exception_only(type(failure), failure)).strip()
    has_message = not error.endswith(type(failure).__name__)
    if has_message or file is None or line is None:
        return error
    return f"{error}: {linecache.getline(file, line).strip()}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
