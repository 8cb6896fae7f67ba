"""Runs a test file with pytest, over a few of each test's parameter sets."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

from ..missing_modules import install_hint
from ..records import Emit, error, note, one_line
from ..sampling import ends_and_middle
from .endings import OutOfTimeError
from .layers import LaunchLimitError

MAX_MESSAGE_LENGTH = 200
USAGE_ERROR = 4
MISSING = re.compile(r"No module named '([\w.]+)'")
NOT_RAISED = re.compile(r"DID NOT RAISE .*AssertionError")
"""Scripts run without asserts: a test that expects one to fail is no failure here."""
UNKNOWN_FIXTURE = re.compile(r"fixture '(\w+)' not found")
INTERRUPTS = (LaunchLimitError, OutOfTimeError)


def is_test_file(path: str, source: bytes) -> bool:
    """Whether a file is named like a test and has no main part of its own."""
    stem = os.path.splitext(os.path.basename(path))[0]
    has_test_name = stem.startswith("test_") or stem.endswith("_test")
    return has_test_name and b"__main__" not in source


def run_tests(path: str, emit: Emit, max_sets: int | None) -> None:
    """Runs a file's tests.

    `max_sets`: how many parameter sets of each test to run; None for all.

    Raises:
        ModuleNotFoundError: a conftest.py imports a module that is not installed.
        BaseException: one of `INTERRUPTS`, or an error that prevents collecting the tests.
    """
    try:
        pytest: Any = importlib.import_module("pytest")
    except ImportError as failure:
        message = f"{path} is a test file, and pytest cannot be imported: {failure}"
        emit(error("capture", message, install_hint(failure, "pytest")))
        return
    plugin = Plugin(max_sets)
    status, stderr = _run_pytest(pytest, path, plugin)
    for text in plugin.notes():
        emit(note(f"{path}: {text}"))
    for stop in plugin.stopped:
        raise stop
    missing = MISSING.search(stderr) if status == USAGE_ERROR else None
    if missing is not None:  # in a conftest.py, of which pytest only prints
        raise ModuleNotFoundError(missing[0], name=missing[1])
    record = _outcome(path, plugin, status, stderr)
    if record is not None:
        emit(record)


def _outcome(path: str, plugin: Plugin, status: int, stderr: str) -> dict[str, Any] | None:
    if plugin.failures:
        tests = _count(plugin.started_count, "test")
        message = (
            f"{len(plugin.failures)} of {tests} ended with an exception, "
            f"the first: {plugin.failures[0]}"
        )
        hint = "results are not real here: what depends on them may go astray"
        return error("capture", message, hint, place=path)
    if plugin.started_count:
        return None
    if plugin.skipped:
        many = len(plugin.skipped) > 1
        subject = f"all {len(plugin.skipped)} tests were" if many else "its only test was"
        message = f"{path}: {subject} skipped"
        hint = "give it the target that it is for with --arch, or what it asks for"
        return error("capture", f"{message}, the first: {plugin.skipped[0]}", hint, place=path)
    message = f"{path}: pytest found no test to run (status {status})"
    last_line = stderr.strip().splitlines()[-1:]
    if last_line:
        message += f": {last_line[0]}"
    return error("capture", message, "see its output below")


def _run_pytest(pytest: Any, path: str, plugin: Plugin) -> tuple[int, str]:
    options = ["-q", "-s", "-p", "no:cacheprovider", "--assert=plain", "-W", "ignore"]
    options += ["-p", "no:unraisableexception"]  # which collects garbage five times at the end
    stderr = io.StringIO()
    with contextlib.redirect_stderr(stderr):
        status = int(pytest.main([path, *options], plugins=[plugin]))
    sys.stderr.write(stderr.getvalue())
    return status, stderr.getvalue()


class Plugin:
    """A pytest plugin that limits the parameter sets and collects the outcomes of the tests.

    Args:
        max_sets: how many parameter sets of each test to run; None for all.

    Attributes:
        selected_count: tests that are left after `max_sets` was applied.
        failures: "name: message" of tests that ended with an exception.
        skipped: "name: reason".
        not_tests: helpers that pytest took for tests because of their name, with the reason.
        stopped: exceptions that ended the run and are not a test's failure.
    """

    def __init__(self, max_sets: int | None) -> None:
        self._max_sets = max_sets
        self.collected_count = self.selected_count = self.started_count = 0
        self.failures: list[str] = []
        self.skipped: list[str] = []
        self.not_tests: list[str] = []
        self.stopped: list[BaseException] = []

    def notes(self) -> Iterator[str]:
        """Remarks on tests that were left out or skipped."""
        if self.selected_count < self.collected_count:
            counts = f"{self.selected_count} of {self.collected_count} tests are run"
            limit_text = (
                "1 parameter set" if self._max_sets == 1 else f"{self._max_sets} parameter sets"
            )
            yield f"{counts}, {limit_text} of each at most (--tests all: every one)"
        if self.skipped and self.started_count:
            yield f"{_count(len(self.skipped), 'test')} skipped, the first: {self.skipped[0]}"
        if self.not_tests:
            yield f"{self.not_tests[0]}: not taken for a test"

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keeps a few of each function's items, the first and the last among them."""
        items_by_test: dict[tuple[str, str], list[Any]] = {}
        for item in items:
            scope = item.nodeid.partition("[")[0]
            items_by_test.setdefault((scope, getattr(item, "originalname", item.name)), []).append(
                item
            )
        self.collected_count = len(items)
        items[:] = [
            item
            for group in items_by_test.values()
            for item in ends_and_middle(group, self._max_sets)
        ]
        self.selected_count = len(items)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Counts the tests; keeps the messages of those that failed or were skipped."""
        name = report.nodeid.rpartition("::")[2]
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            self.skipped.append(f"{name}: {one_line(str(reason))[:MAX_MESSAGE_LENGTH]}")
            return
        fixture = UNKNOWN_FIXTURE.search(str(report.longrepr)) if report.failed else None
        if fixture is not None:  # mostly a helper whose name begins with test_
            self.not_tests.append(f"{name} wants a fixture {fixture[1]!r} that there is not")
            return
        self.started_count += report.when == "call" or (report.when == "setup" and report.failed)
        if report.failed and not NOT_RAISED.search(str(report.longrepr)):
            crash = getattr(report.longrepr, "reprcrash", None)
            text = getattr(crash, "message", None) or str(report.longrepr)
            self.failures.append(f"{name}: {one_line(text)[:MAX_MESSAGE_LENGTH]}")

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        """Stops at our own interrupts in a test, and hides them from pytest.

        pytest would count the interrupt as a failure of the test (perhaps the one it expects), and
        would read the sources of the whole stack, for which no time is left.
        """
        failure = call.excinfo.value if call.excinfo is not None else None
        if isinstance(failure, INTERRUPTS):
            self.stopped.append(failure)
            item.session.shouldstop = type(failure).__name__
            call.excinfo = None

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        """Stops at our own interrupts outside of tests, and at files that cannot be imported.

        pytest would count the interrupt as a test's failure, and only print the import error.
        """
        failure = call.excinfo.value
        if isinstance(failure, INTERRUPTS) or call.when == "collect":
            self.stopped.append(failure.__cause__ or failure)
            node.session.shouldstop = type(failure).__name__


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
