"""Runs one script, or one file of tests, on an emulated GPU: `bootstrap.py emulate REQUEST`.

The script sees the requested GPU, all its tensors have contents, and every launch is executed. Its
output and its exit status are passed on unchanged.

Runs an emulated script in a child process, and ends all that it started, whoever ends first. Says
on the terminal what is being done while the script waits for it.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

from ..forked import HostGoneError, wait
from ..launches import processes
from ..launches.project import Project
from ..launches.tests import is_test_file
from ..loading import as_main, make_imports_work
from ..missing_modules import install_hint
from ..process_tree import END_STEP_SECONDS, adopt_orphans, descendants, die_with, end_orphans
from ..records import one_line, writer
from ..world import machine as worlds
from ..world.assumptions import LOG
from ..world.device import StandInDevice
from .executor import ConfigChoice, Executor
from .failures import Failures, text_of, trace_from
from .process import EmulatorProcess

EMULATION_FAILED = 125
"""Exit status if the emulation itself could not start, as opposed to the script failing."""
SELECTING = ("-k", "-m", "--maxfail", "--tb", "--durations")
"""Arguments of pytest that choose among a file's tests, and take a value."""
SHOWING = ("-x", "-q", "-v", "-vv", "-s", "-l")
NOT_EMULATED = "is another process, without the emulated GPU"


def main(request_path: str, hangup_fd: int) -> int:
    """Runs the script in a process that does not outlive the host.

    Returns:
        The script's exit status; 128 and the number of the signal that ended it.
    """
    return supervised(lambda: _main(request_path), hangup_fd)


def _main(request_path: str) -> int:
    with open(request_path, encoding="utf-8") as stream:
        request = json.load(stream)
    emit = writer(request["records"])
    device = StandInDevice.of(request["device"])
    line = WaitLine()
    try:
        with line.showing("importing PyTorch and Triton"):
            world = worlds.install(
                device,
                request["folder"],
                max_values=request["sets"],
                all_contents=True,
                values_are_real=request["sample"] is None,
            )
    except ImportError as failure:
        emit({"failure": one_line(failure), "hint": install_hint(failure, "triton")})
        return EMULATION_FAILED
    path = os.path.abspath(request["path"])
    has_tests = not request["is_pytest_session"] and _has_tests(path, request["test"])
    if has_tests:
        try:
            importlib.import_module("pytest")
        except ImportError as failure:
            reason = f"{path}: pytest, which runs tests, cannot be imported: {one_line(failure)}"
            emit({"failure": reason, "hint": install_hint(failure, "pytest")})
            return EMULATION_FAILED
    choice = ConfigChoice(request["config"], request["configs"], world.note)
    choice.install()
    if request["config"]:
        number, count = request["config"] + 1, request["config_count"]
        sys.stderr.write(f"kinspect: once more, with configuration {number} of {count}\n")
        sys.stderr.flush()
    _disable_torch_compile()
    project = Project(path)
    LOG.watch(project.owns_code)
    processes.watch(project, world.note, NOT_EMULATED)
    process = EmulatorProcess(
        request["emulator"], on_message=_message_shower(line, request["advice"])
    )
    os.register_at_fork(before=process.share)  # children have a part in its profile
    executor = Executor(
        request["arch"],
        process,
        report=lambda launch: None,
        limit=float(request["seconds"]),
        sample=request["sample"],
        suspended=world.suspended,
        executed=world.executed if request["sample"] is None else world.sampled,
        lds_limit=device.lds_bytes,
        waiting=line.showing,
    )
    executor.install()
    failures = Failures(path, project.owns_code)
    if request["is_pytest_session"]:
        sys.argv = ["pytest", *request["argv"]]
        os.environ["KINSPECT_PYTEST_EMULATED"] = str(os.getppid())  # the supervisor, see the plugin
        status = _ended(lambda: _run_pytest(request["argv"], failures), path, world, failures)
    else:
        run = _tests_run if has_tests else _script_run
        status = _ended(lambda: run(path, request, failures), path, world, failures)
    for text in dict.fromkeys(world.notes):
        emit({"note": text})
    emit(
        {
            "end": True,
            "launches": executor.launches,
            "failures": failures.records,
            "configs": choice.most,
            "chosen": choice.chosen,
            "gave_times": LOG.gave_times,
            "unjudged": [
                {"what": what, "file": file, "line": line, "count": count}
                for (what, file, line), count in LOG.unjudged.items()
            ],
        }
    )
    process.close()
    return status


def _message_shower(line: WaitLine, advice: str) -> Callable[[dict[str, str]], None]:
    """A function that shows the emulator's messages of a launch that goes on; one warning alone."""
    warned: list[str] = []

    def show(message: dict[str, str]) -> None:
        if "step" in message:
            line.show(message["step"])
        elif "warning" in message and not warned:
            warned.append(message["warning"])
            line.say(f"kinspect: {message['warning']}{advice and f'; {advice}'}")

    return show


def _has_tests(path: str, test: str | None) -> bool:
    """Whether pytest runs the file: one of tests, or any of which a test is named."""
    try:
        with open(path, "rb") as stream:
            return test is not None or is_test_file(path, stream.read())
    except OSError:
        return False  # running it says why


def _tests_run(path: str, request: Mapping[str, Any], failures: Failures) -> int:
    """Runs the file's tests, which import the checkout; returns pytest's status."""
    if request["only_selects"]:
        check_selects(request["argv"])
    tests = path if request["test"] is None else f"{path}::{request['test']}"
    sys.argv = [tests, *request["argv"]]
    make_imports_work(path)
    return _run_pytest([tests, "-p", "no:cacheprovider", *request["argv"]], failures)


def _script_run(path: str, request: Mapping[str, Any], failures: Failures) -> int:
    with open(path, "rb") as stream:
        source = stream.read()
    sys.argv = [path, *request["argv"]]
    module = as_main(path)
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
    return 0


def check_selects(argv: list[str]) -> None:
    """Ends the script where an argument of pytest does more than select and show its tests."""
    words = iter(argv)
    for word in words:
        name, equals, _ = word.partition("=")
        if word in SHOWING or (equals and name.startswith("--") and name in SELECTING):
            continue
        value = next(words, "") if word in SELECTING else ""
        if not value or value.startswith(("-", "@")):
            sys.exit(f"not taken for pytest here: {word}; known: {' '.join(SELECTING + SHOWING)}")


def _ended(run: Callable[[], int], path: str, world: Any, failures: Failures) -> int:
    """Calls a function in the stand-in world; returns the exit status that a process has then."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:  # since the bootstrap
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with world.running():
            return run()
    except SystemExit as stop:
        status = _status(stop.code)
        if status:
            failures.add_exit(stop)
        return status
    except BaseException as failure:
        _print_failure(failure, path)
        failures.add(failure)
        return 130 if isinstance(failure, KeyboardInterrupt) else 1
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()


def _run_pytest(argv: list[str], failures: Failures) -> int:
    pytest: Any = importlib.import_module("pytest")
    status = pytest.main(argv, plugins=[failures])
    if status and isinstance(status, pytest.ExitCode):
        failures.add_pytest_end(status.name)
    return int(status)


def _status(code: Any) -> int:
    """The exit status that Python derives from the argument of `sys.exit`."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    sys.stderr.write(f"{text_of(code)}\n")
    return 1


def _print_failure(failure: BaseException, path: str) -> None:
    """Prints the traceback from the script's first frame on, as Python would have done."""
    traceback.print_exception(type(failure), failure, trace_from(path, failure))


def _disable_torch_compile() -> None:
    """Makes torch.compile return functions unchanged."""
    os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")


PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
ENDING_SECONDS = 5
"""What the script has to end once it was asked to; one that is stopped or ignores it is killed."""
LOOK_SECONDS = 3600.0
EMULATOR_SECONDS = 5.0
"""What the emulator has to write its profile once the script's process was killed."""
_EMULATOR = b"pipeline.emulating"
"""Stands in its command line."""


def supervised(run: Callable[[], int], hangup_fd: int) -> int:
    """Runs a function in a child; returns its status, of a signal 128 and its number.

    `hangup_fd` is a pipe whose other end the host holds: when the host is gone, however it ended,
    the child and all that it started are ended.
    """
    os.set_inheritable(hangup_fd, False)
    adopt_orphans()
    supervisor = os.getpid()
    child = os.fork()
    if not child:
        os.close(hangup_fd)
        die_with(supervisor)
        return run()
    # The terminal's Ctrl-C is for the child as well, which decides what comes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked: list[int] = []  # signals that were passed on

    def pass_on(number: int, frame: FrameType | None) -> None:
        """Ends the child at once if it was asked before, or does not end in time."""
        os.kill(child, signal.SIGKILL if asked else number)
        asked.append(number)
        signal.alarm(ENDING_SECONDS)

    for number in (*PASSED_ON, signal.SIGALRM):
        signal.signal(number, pass_on)
    try:
        while not wait(child, time.monotonic() + LOOK_SECONDS, hangup_fd):
            pass
    except HostGoneError:
        for pid in {child, *descendants(supervisor)}:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    for number in (*PASSED_ON, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    _, state = os.waitpid(child, 0)
    if os.WIFSIGNALED(state):
        _await_emulator(supervisor)
    end_orphans(frozenset())
    if os.WIFSIGNALED(state):
        return 128 + (asked[0] if asked else os.WTERMSIG(state))
    return os.WEXITSTATUS(state)


def _await_emulator(supervisor: int) -> None:
    """Waits for the emulator to end, which sees its input end."""
    until = time.monotonic() + EMULATOR_SECONDS
    while time.monotonic() < until and any(map(_is_emulator, descendants(supervisor))):
        time.sleep(END_STEP_SECONDS)


def _is_emulator(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            return _EMULATOR in stream.read()
    except OSError:
        return False


_ROOM_BELOW = "\x1bD\x1bM"
"""Moves the cursor down and up: the terminal scrolls where there is no line below."""
_TO_LINE_BELOW, _BACK = "\x1b7\x1b[B\r\x1b[K", "\x1b8"


class WaitLine:
    """A line below the cursor, so that a line that the script has begun stays as it is.

    It is shown only while the script can write nothing: while it waits for a compile or a launch.
    Its descriptor is a copy, since tests have their standard error caught.
    """

    def __init__(self, descriptor: int = 2) -> None:
        self._descriptor = os.dup(descriptor)
        self._is_live = os.isatty(descriptor) and os.environ.get("TERM") != "dumb"
        self._is_shown = False

    @contextlib.contextmanager
    def showing(self, text: str = "") -> Iterator[None]:
        """Shows a text in the block; without one only what is shown in it."""
        if text:
            self.show(text)
        try:
            yield
        finally:
            self._take_away()

    def show(self, text: str) -> None:
        if self._is_live:
            clean = "".join(letter for letter in text if letter.isprintable())
            line = f"  {clean}"[: self._columns() - 1]
            self._write(f"{_ROOM_BELOW}{_TO_LINE_BELOW}{line}{_BACK}")
            self._is_shown = True

    def say(self, text: str) -> None:
        """Writes a line that stays, to any kind of standard error."""
        self._take_away()
        self._write(f"{text}\n")

    def _take_away(self) -> None:
        if self._is_shown:
            self._write(f"{_TO_LINE_BELOW}{_BACK}")
            self._is_shown = False

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._descriptor).columns or 80
        except OSError:
            return 80

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal has gone
            os.write(self._descriptor, text.encode("utf-8", "backslashreplace"))
