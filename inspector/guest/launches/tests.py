"""Test files: pytest runs them, over the first, middle and last of each test's parameters."""

from __future__ import annotations

import importlib
import os
from typing import Any

from ..records import Emit, error, one_line
from .endings import IdleError, OutOfTimeError
from .layers import EnoughError

MOST_TEXT = 200
INTERRUPTS = (EnoughError, IdleError, OutOfTimeError)


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
    except ImportError:
        message = f"{path} is a test file, and pytest cannot be imported"
        emit(error("capture", message, "install pytest, or name an interpreter that has it"))
        return
    plugin = Plugin()
    options = ["-q", "-s", "-p", "no:cacheprovider", "--assert=plain", "-W", "ignore"]
    status = pytest.main([path, *options], plugins=[plugin])
    for stop in plugin.stopped:
        raise stop
    if plugin.failures:
        first = plugin.failures[0]
        message = (
            f"{len(plugin.failures)} of {plugin.ran} tests ended with an exception, "
            f"the first: {first}"
        )
        hint = "results are not real here: what depends on them may go astray"
        emit(error("capture", message, hint, place=path))
    elif not plugin.ran:
        message = f"{path}: pytest found no test to run (status {int(status)})"
        emit(error("capture", message, "see its output below"))


class Plugin:
    """Thins out parametrised tests and keeps what went wrong."""

    def __init__(self) -> None:
        self.ran = 0
        self.failures: list[str] = []
        self.stopped: list[BaseException] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keeps the first, the middle and the last of each function's items."""
        groups: dict[tuple[str, str], list[Any]] = {}
        for item in items:
            scope = item.nodeid.partition("[")[0]
            groups.setdefault((scope, getattr(item, "originalname", item.name)), []).append(item)
        items[:] = [item for group in groups.values() for item in ends_and_middle(group)]

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Counts the tests and keeps the exceptions."""
        self.ran += report.when == "call"
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            text = getattr(crash, "message", None) or str(report.longrepr)
            self.failures.append(
                f"{report.nodeid.rpartition('::')[2]}: {one_line(text)[:MOST_TEXT]}"
            )

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        """Stops at our own interrupts, which pytest takes for a test's failure."""
        failure = call.excinfo.value
        if isinstance(failure, INTERRUPTS):
            self.stopped.append(failure)
            node.session.shouldstop = type(failure).__name__


def ends_and_middle(group: list[Any]) -> list[Any]:
    """At most three of them."""
    if len(group) <= 3:
        return group
    return [group[0], group[len(group) // 2], group[-1]]
