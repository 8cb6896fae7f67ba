"""Runs one pass: the program's input, output and signals pass through, its time is limited.

The program's error output passes through a pipe of ours (a terminal of ours, where it goes to one)
because the profiler's own errors are in it. The program gets a process group of its own, unless it
reads from a terminal, so that each signal reaches it once; it stands below a supervisor, by which
all processes below it are found when they must end.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Literal

from msgspec import Struct

from ...base.lifetimes import signal_descendants, supervised

GRACE = 10.0
"""Seconds that a program has to write its results after it was told to end."""

_BETWEEN_KILLS = 0.02  # seconds
_KEPT_HEAD = 64 * 1024
_KEPT_TAIL = 192 * 1024
_CHUNK = 64 * 1024
_PASSED_ON = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})

Status = Literal["complete", "failed", "killed", "timeout"]


class Ending(Struct, frozen=True):
    """The end of a pass.

    Attributes:
        exit_code: the program's; 128 + the signal that ended it; None where it never started.
        status: complete (exit code 0), failed, killed (by a signal, or we were told to end),
            timeout.
    """

    exit_code: int | None
    status: Status
    seconds: float  # how long it took
    interrupted: bool  # we were told to end while it ran
    log: str  # head and tail of its error output


def run(
    argv: Sequence[str],
    environment: Mapping[str, str],
    timeout: float | None = None,
    grace: float = GRACE,
    input_position: int | None = None,
) -> Ending:
    """Runs a command line to its end.

    `input_position`: where its input begins, from the function of that name: each pass reads all
    of it.
    `timeout`: seconds after which everything below it is ended; what it wrote stays.
    `grace`: seconds between asking and killing.

    Raises:
        OSError: it cannot be started.
    """
    began = time.monotonic()
    sys.stdout.flush()
    sys.stderr.flush()
    if input_position is not None:
        with suppress(OSError):
            os.lseek(0, input_position, os.SEEK_SET)
    own_group = not _reads_terminal()
    signals = _Signals(own_group)
    with signals.caught(), ExitStack() as stack:
        errors = _ErrorOutput()
        process = _started(argv, environment, errors, own_group, stack)
        signals.send_to(process)
        errors.start()
        timed_out = False
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            _end(process, grace)
    log = errors.finish()
    code, interrupted = process.returncode, bool(signals.received & _ENDING)
    return Ending(
        exit_code=128 - code if code < 0 else code,
        status=_status(code, interrupted, timed_out),
        seconds=time.monotonic() - began,
        interrupted=interrupted,
        log=log,
    )


def input_position() -> int | None:
    """Returns the position in standard input, if it is a file; None for a pipe, which has none."""
    try:
        return os.lseek(0, 0, os.SEEK_CUR)
    except OSError:
        return None


def _started(
    argv: Sequence[str],
    environment: Mapping[str, str],
    errors: _ErrorOutput,
    own_group: bool,
    stack: ExitStack,
) -> subprocess.Popen[bytes]:
    """Starts a command line whose error output goes to `errors`, as long as `stack` is open."""
    try:
        return stack.enter_context(
            supervised(argv, environment, stderr=errors.inlet, own_group=own_group)
        )
    except BaseException:
        errors.close()
        raise


def _status(code: int, interrupted: bool, timed_out: bool) -> Status:
    if interrupted:
        return "killed"
    if timed_out:
        return "timeout"
    return "complete" if code == 0 else "killed" if code < 0 else "failed"


def _end(process: subprocess.Popen[bytes], grace: float) -> None:
    """Asks all processes of a pass to end, so that they write what they have; then kills them."""
    signal_descendants(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(grace)
    # The supervisor ends with the command, and ends what that left.
    while process.poll() is None:
        signal_descendants(process.pid, signal.SIGKILL)
        time.sleep(_BETWEEN_KILLS)


def _reads_terminal() -> bool:
    try:
        return os.isatty(0)
    except OSError:  # closed
        return False


class _Signals:
    """Passes signals on to a process, and records them."""

    def __init__(self, forward: bool) -> None:
        self.received: set[int] = set()
        self._forward = forward
        self._process: subprocess.Popen[bytes] | None = None

    def send_to(self, process: subprocess.Popen[bytes]) -> None:
        """Sends signals to this process and its group from now on."""
        self._process = process
        for number in self.received:  # came while it was started
            self._send(number)

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Catches signals in the `with` block; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers = {number: signal.signal(number, self._receive) for number in _PASSED_ON}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received.add(number)
        self._send(number)

    def _send(self, number: int) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            if self._forward or number != signal.SIGINT:  # the terminal tells that by itself
                os.kill(process.pid, number)


class _ErrorOutput:
    """Passes error output on as it comes, and stores its head and tail."""

    def __init__(self) -> None:
        self._terminal = os.isatty(2)
        self._outlet, self.inlet = pty.openpty() if self._terminal else os.pipe()
        if self._terminal:
            tty.setraw(self.inlet)  # the real terminal does what terminals do
            size = struct.pack("HHHH", 0, 0, 0, 0)
            with suppress(OSError):
                size = fcntl.ioctl(2, termios.TIOCGWINSZ, size)
                fcntl.ioctl(self.inlet, termios.TIOCSWINSZ, size)
        self._stop, self._stopper = os.pipe()
        self._head = bytearray()
        self._tail = bytearray()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        """Starts the thread; to be called after the program has inherited its end."""
        os.close(self.inlet)
        self._thread.start()

    def close(self) -> None:
        """Closes all ends, if the program could not be started."""
        for descriptor in (self.inlet, self._outlet, self._stop, self._stopper):
            os.close(descriptor)

    def finish(self) -> str:
        """Returns head and tail; does not wait for processes that the program has left running."""
        os.write(self._stopper, b"x")
        self._thread.join()
        for descriptor in (self._outlet, self._stop, self._stopper):
            os.close(descriptor)
        return (self._head + self._tail).decode("utf-8", "replace")

    def _work(self) -> None:
        """Reads until all writers have closed their ends, or `finish` asks for the end."""
        while True:
            ready, _, _ = select.select([self._outlet, self._stop], [], [])
            if self._outlet in ready:
                try:
                    data = os.read(self._outlet, _CHUNK)
                except OSError:  # so a terminal says that nobody has its other end
                    return
                if not data:
                    return
                self._keep(data)
            elif self._stop in ready:  # and nothing more is there
                return

    def _keep(self, data: bytes) -> None:
        with suppress(OSError):  # who read it may have gone away; the program goes on
            unwritten = memoryview(data)
            while unwritten:
                unwritten = unwritten[os.write(2, unwritten) :]
        head_bytes = max(_KEPT_HEAD - len(self._head), 0)
        self._head += data[:head_bytes]
        self._tail += data[head_bytes:]
        if len(self._tail) > _KEPT_TAIL:
            del self._tail[: len(self._tail) - _KEPT_TAIL]
