"""Test files: pytest runs them, over a few of each test's parameter sets."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import sys
from typing import Any

from ..missing import install_hint
from ..records import Emit, error, note, one_line
from ..sampling import ends_and_middle
from .endings import OutOfTimeError
from .layers import LaunchLimitError

MOST_TEXT = 200
USAGE_ERROR = 4
MISSING = re.compile(r"No module named '([\w.]+)'")
NOT_RAISED = re.compile(r"DID NOT RAISE .*AssertionError")
"""Asserts are compiled away, so that a test which wants one to fail is not a failure."""
UNKNOWN_FIXTURE = re.compile(r"fixture '(\w+)' not found")
INTERRUPTS = (LaunchLimitError, OutOfTimeError)


def is_test_file(path: str, source: bytes) -> bool:
    """Whether pytest would collect the file and nothing else would run it."""
    stem = os.path.splitext(os.path.basename(path))[0]
    named = stem.startswith("test_") or stem.endswith("_test")
    return named and b"__main__" not in source


def run_tests(path: str, emit: Emit, most: int | None) -> None:
    """Runs a file's tests.

    Args:
        path: the file.
        most: parameter sets of each; None for all.
        emit: takes one error for all the tests that ended with an exception.
    """
    try:
        pytest: Any = importlib.import_module("pytest")
    except ImportError as failure:
        message = f"{path} is a test file, and pytest cannot be imported: {failure}"
        emit(error("capture", message, install_hint(failure, "pytest")))
        return
    plugin = Plugin(most)
    options = ["-q", "-s", "-p", "no:cacheprovider", "--assert=plain", "-W", "ignore"]
    options += ["-p", "no:unraisableexception"]  # which collects garbage five times at the end
    stderr = io.StringIO()
    with contextlib.redirect_stderr(stderr):
        status = int(pytest.main([path, *options], plugins=[plugin]))
    sys.stderr.write(stderr.getvalue())
    if plugin.kept_count < plugin.found_count:
        counts = f"{plugin.kept_count} of {plugin.found_count} tests are run"
        few = "1 parameter set" if most == 1 else f"{most} parameter sets"
        emit(note(f"{path}: {counts}, {few} of each at most (--tests all: every one)"))
    if plugin.skipped and plugin.ran:
        skipped = f"{_count(len(plugin.skipped), 'test')} skipped, the first: {plugin.skipped[0]}"
        emit(note(f"{path}: {skipped}"))
    if plugin.no_tests:
        emit(note(f"{path}: {plugin.no_tests[0]}: not taken for a test"))
    for stop in plugin.stopped:
        raise stop
    missing = MISSING.search(stderr.getvalue()) if status == USAGE_ERROR else None
    if missing is not None:  # in a conftest.py, of which pytest only prints
        raise ModuleNotFoundError(missing[0], name=missing[1])
    if plugin.failures:
        first = plugin.failures[0]
        message = (
            f"{len(plugin.failures)} of {_count(plugin.ran, 'test')} ended with an exception, "
            f"the first: {first}"
        )
        hint = "results are not real here: what depends on them may go astray"
        emit(error("capture", message, hint, place=path))
    elif plugin.skipped and not plugin.ran:
        many = len(plugin.skipped) > 1
        subject = f"all {len(plugin.skipped)} tests were" if many else "its only test was"
        message = f"{path}: {subject} skipped"
        hint = "give it the target that it is for with --arch, or what it asks for"
        emit(error("capture", f"{message}, the first: {plugin.skipped[0]}", hint, place=path))
    elif not plugin.ran:
        message = f"{path}: pytest found no test to run (status {status})"
        last = stderr.getvalue().strip().splitlines()[-1:]
        if last:
            message += f": {last[0]}"
        emit(error("capture", message, "see its output below"))


class Plugin:
    """Thins out parametrised tests and keeps what went wrong.

    Args:
        most: parameter sets of each test; None for all.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self.ran = self.found_count = self.kept_count = 0
        self.failures: list[str] = []
        self.skipped: list[str] = []
        self.no_tests: list[str] = []
        self.stopped: list[BaseException] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keeps a few of each function's items, the first and the last among them."""
        groups: dict[tuple[str, str], list[Any]] = {}
        for item in items:
            scope = item.nodeid.partition("[")[0]
            groups.setdefault((scope, getattr(item, "originalname", item.name)), []).append(item)
        self.found_count = len(items)
        items[:] = [
            item for group in groups.values() for item in ends_and_middle(group, self._most)
        ]
        self.kept_count = len(items)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Counts the tests and keeps the exceptions."""
        name = report.nodeid.rpartition("::")[2]
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            self.skipped.append(f"{name}: {one_line(str(reason))[:MOST_TEXT]}")
            return
        fixture = UNKNOWN_FIXTURE.search(str(report.longrepr)) if report.failed else None
        if fixture is not None:  # a helper, most often, that happens to be called test_...
            self.no_tests.append(f"{name} wants a fixture {fixture[1]!r} that there is not")
            return
        self.ran += report.when == "call" or (report.when == "setup" and report.failed)
        if report.failed and not NOT_RAISED.search(str(report.longrepr)):
            crash = getattr(report.longrepr, "reprcrash", None)
            text = getattr(crash, "message", None) or str(report.longrepr)
            self.failures.append(f"{name}: {one_line(text)[:MOST_TEXT]}")

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        """Stops at our own interrupts in a test, and hides them from pytest.

        It would take one for a failure, which may be the expected one, and read the source of all
        that was running then, which takes longer than there is time left.
        """
        failure = call.excinfo.value if call.excinfo is not None else None
        if isinstance(failure, INTERRUPTS):
            self.stopped.append(failure)
            item.session.shouldstop = type(failure).__name__
            call.excinfo = None

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        """Stops at our own interrupts elsewhere, and at files that cannot be imported.

        pytest takes the ones for a test's failure and the others for text.
        """
        failure = call.excinfo.value
        if isinstance(failure, INTERRUPTS) or call.when == "collect":
            self.stopped.append(failure.__cause__ or failure)
            node.session.shouldstop = type(failure).__name__


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
