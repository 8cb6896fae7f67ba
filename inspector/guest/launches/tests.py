"""Test files: pytest runs them, over the first, middle and last of each test's parameters."""

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
from .endings import OutOfTimeError
from .layers import EnoughError

MOST_TEXT = 200
USAGE_ERROR = 4
MISSING = re.compile(r"No module named '([\w.]+)'")
NOT_RAISED = re.compile(r"DID NOT RAISE .*AssertionError")
"""Asserts are compiled away, so that a test which wants one to fail is not a failure."""
INTERRUPTS = (EnoughError, OutOfTimeError)


def is_test_file(path: str, source: bytes) -> bool:
    """Whether pytest would collect the file and nothing else would run it."""
    stem = os.path.splitext(os.path.basename(path))[0]
    named = stem.startswith("test_") or stem.endswith("_test")
    return named and b"__main__" not in source


def run_tests(path: str, emit: Emit) -> None:
    """Runs a file's tests.

    Args:
        path: the file.
        emit: takes one error for all the tests that ended with an exception.
    """
    try:
        pytest: Any = importlib.import_module("pytest")
    except ImportError as failure:
        message = f"{path} is a test file, and pytest cannot be imported: {failure}"
        emit(error("capture", message, install_hint(failure, "pytest")))
        return
    plugin = Plugin()
    options = ["-q", "-s", "-p", "no:cacheprovider", "--assert=plain", "-W", "ignore"]
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        status = int(pytest.main([path, *options], plugins=[plugin]))
    sys.stderr.write(said.getvalue())
    if plugin.kept < plugin.found:
        said_of = f"{plugin.kept} of {plugin.found} tests are run"
        emit(note(f"{path}: {said_of}: the first, middle and last parameters of each"))
    for stop in plugin.stopped:
        raise stop
    missing = MISSING.search(said.getvalue()) if status == USAGE_ERROR else None
    if missing is not None:  # in a conftest.py, of which pytest only prints
        raise ModuleNotFoundError(missing[0], name=missing[1])
    if plugin.failures:
        first = plugin.failures[0]
        message = (
            f"{len(plugin.failures)} of {plugin.ran} tests ended with an exception, "
            f"the first: {first}"
        )
        hint = "results are not real here: what depends on them may go astray"
        emit(error("capture", message, hint, place=path))
    elif not plugin.ran:
        message = f"{path}: pytest found no test to run (status {status})"
        last = said.getvalue().strip().splitlines()[-1:]
        if last:
            message += f": {last[0]}"
        emit(error("capture", message, "see its output below"))


class Plugin:
    """Thins out parametrised tests and keeps what went wrong."""

    def __init__(self) -> None:
        self.ran = self.found = self.kept = 0
        self.failures: list[str] = []
        self.stopped: list[BaseException] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keeps the first, the middle and the last of each function's items."""
        groups: dict[tuple[str, str], list[Any]] = {}
        for item in items:
            scope = item.nodeid.partition("[")[0]
            groups.setdefault((scope, getattr(item, "originalname", item.name)), []).append(item)
        self.found = len(items)
        items[:] = [item for group in groups.values() for item in ends_and_middle(group)]
        self.kept = len(items)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Counts the tests and keeps the exceptions."""
        self.ran += report.when == "call"
        if report.failed and not NOT_RAISED.search(str(report.longrepr)):
            crash = getattr(report.longrepr, "reprcrash", None)
            text = getattr(crash, "message", None) or str(report.longrepr)
            self.failures.append(
                f"{report.nodeid.rpartition('::')[2]}: {one_line(text)[:MOST_TEXT]}"
            )

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        """Stops at our own interrupts, and at files that cannot be imported.

        pytest takes the ones for a test's failure and the others for text.
        """
        failure = call.excinfo.value
        if isinstance(failure, INTERRUPTS) or call.when == "collect":
            self.stopped.append(failure.__cause__ or failure)
            node.session.shouldstop = type(failure).__name__


def ends_and_middle(group: list[Any]) -> list[Any]:
    """At most three of them."""
    if len(group) <= 3:
        return group
    return [group[0], group[len(group) // 2], group[-1]]
