"""Failures of emulated scripts whose text is odd: each format can still hold and show them."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from kinspect.inspector.formats import emulation, emulation_agent
from kinspect.inspector.guest.emulation.failures import MOST_TRACEBACKS, Failures
from kinspect.inspector.pipeline.emulation import EmulationResult, ScriptFailure

STEERING = "\x1b[2J \udc80 \x07"


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no words")


def failures_of(*raised: BaseException) -> Failures:
    failures = Failures(__file__, lambda code: code.co_filename == __file__)
    for failure in raised:
        try:
            raise failure
        except SystemExit as stop:
            failures.add_exit(stop)
        except BaseException as error:
            failures.add(error)
    return failures


def result_of(failures: Failures, status: int = 1) -> EmulationResult:
    """The result of a script with these failures, which are read from a file of JSON."""
    records = json.loads(json.dumps(failures.records))
    converted = msgspec.convert(records, tuple[ScriptFailure, ...])
    return EmulationResult(status, (), 0, True, (), failures=converted)


def agent_lines(result: EmulationResult) -> list[str]:
    stream = io.StringIO()
    emulation_agent.write(result, stream)
    assert len(stream.getvalue().encode()) < 6_000
    return stream.getvalue().splitlines()


def test_what_utf8_cannot_hold_is_spelled_out() -> None:
    result = result_of(failures_of(ValueError(STEERING + "y" * 9_000)))
    (failure,) = emulation.fields(result)["failures"]
    assert "\\udc80" in failure["error"]
    first, *rest = agent_lines(result)
    assert first.startswith(
        "the script FAILED, status 1: ValueError: \\u001b[2J \\udc80 \\u0007yyy"
    )
    assert "\x1b" not in "".join(rest)


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (SystemExit(Unspeakable()), "sys.exit(<Unspeakable object>)"),
        (SystemExit("no \nresult"), "sys.exit: no result"),
        (KeyError("AssertionError"), "KeyError: 'AssertionError'"),
        (ValueError("not a ValueError"), "ValueError: not a ValueError"),
        (ValueError(), "ValueError: raise failure"),
    ],
)
def test_errors_in_one_line(raised: BaseException, error: str) -> None:
    (record,) = failures_of(raised).records
    assert record["error"] == error
    assert (record["file"], type(record["line"])) == (__file__, int)


def test_an_error_of_syntax_stands_at_its_own_line() -> None:
    failures = Failures("s.py", lambda code: False)
    try:
        compile("x = 1\ndef f(:\n", "s.py", "exec")
    except SyntaxError as error:
        failures.add(error)
    (record,) = failures.records
    assert record["error"] == "SyntaxError: invalid syntax"
    assert (record["file"], record["line"]) == ("s.py", 2)
    assert __file__ not in record["traceback"], "no frame of ours"
    assert agent_lines(result_of(failures))[0].endswith(": SyntaxError: invalid syntax at s.py:2")


def report(test: str, message: str = "assert 0", longrepr: Any = None) -> Any:
    crash = SimpleNamespace(message=message, path="t.py", lineno=3)
    longrepr = longrepr or SimpleNamespace(reprcrash=crash)
    return SimpleNamespace(failed=True, nodeid=test, longrepr=longrepr, outcome="failed")


def test_a_test_whose_fixture_fails_too_is_one() -> None:
    failures = failures_of()
    for test in ("t.py::a", "t.py::a", "t.py::b"):
        failures.pytest_runtest_logreport(report(test))
    verdict = "2 tests FAILED, status 1: t.py::a: assert 0 at t.py:3; and 2 more"
    assert agent_lines(result_of(failures))[0] == verdict


def test_long_ids_of_tests_leave_room_for_the_verdict() -> None:
    failures = failures_of()
    failures.pytest_runtest_logreport(report(f"t.py::a[{'x' * 9_000}]"))
    assert len(failures.records[0]["test"]) > 9_000
    first = agent_lines(result_of(failures))[0]
    assert first.startswith("1 test FAILED, status 1: t.py::a[xxx")
    assert first.endswith("x…: assert 0 at t.py:3")


def test_a_file_that_cannot_be_collected() -> None:
    failures = failures_of()
    text = "t.py:1: in <module>\n    import nothing\nE   ModuleNotFoundError: No module 'nothing'"
    failures.pytest_collectreport(report("t.py", longrepr=text))
    assert failures.records[0]["error"] == "ModuleNotFoundError: No module 'nothing'"


def test_only_the_first_tracebacks_are_recorded() -> None:
    failures = failures_of()
    for number in range(MOST_TRACEBACKS + 2):
        failures.pytest_runtest_logreport(report(f"t.py::a[{number}]"))
    has_traceback = [bool(record["traceback"]) for record in failures.records]
    assert has_traceback == [True] * MOST_TRACEBACKS + [False] * 2


def test_pytest_that_runs_no_test_says_so() -> None:
    failures = failures_of()
    failures.add_pytest_end("NO_TESTS_COLLECTED")
    verdict = "the script FAILED, status 5: pytest ended with NO_TESTS_COLLECTED"
    assert agent_lines(result_of(failures, 5))[0] == verdict
    failed = failures_of(ValueError("x"))
    failed.add_pytest_end("TESTS_FAILED")
    assert len(failed.records) == 1
