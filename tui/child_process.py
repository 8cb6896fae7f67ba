"""What the UI's child processes have in common, for the UI and for the processes themselves.

A child takes its work from its standard input and writes pickled results to its standard output.
One that has compilers of its own ends them and itself on a signal, and once its input is closed,
which happens however the UI ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from types import FrameType
from typing import IO, Any

from msgspec import Struct, field
from msgspec.structs import astuple

from ..inspector.base import named_files
from ..inspector.base.errors import KinspectError
from ..inspector.base.programs import python_child
from ..inspector.model import Metric

SECONDS_TO_END = 5
"""Time that a child has to end its compilers before SIGALRM ends it."""
END = "end"
"""The kind of the message after which a child sends no more."""
_LENGTH = struct.Struct("<Q")
"""The length of the message that follows it."""
_POLL_SECONDS = 0.1
_TAIL_BYTES = 2000
"""Bytes at the end of a child's error output in which its last line is looked for."""


def ending(status: int, errors: IO[bytes]) -> str:
    """How a child ended, as the end of a sentence, with the last line of its error output."""
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - _TAIL_BYTES))
    last_line = errors.read().decode("utf-8", "replace").strip().splitlines()[-1:]
    how = f"was killed by signal {-status}" if status < 0 else f"ended with {status}"
    return f"{how}: {last_line[0]}" if last_line else how


class MessagingChild:
    """A child process that sends pairs of a kind and a payload.

    Its standard input carries the work, its standard output the messages, each after its length,
    all pickled. The last one may be ("error", (message, hint)).

    Args:
        function: what does the work, as `module:name`; it is called with the work and a function
            that sends a message. Only the child imports the module.
        work: what it is given.
        purpose: what it does, for messages: "compiles".
    """

    def __init__(self, function: str, work: object, purpose: str = "compiles") -> None:
        self._function = function
        self._work = work
        self._purpose = purpose
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """The id of the process; None before it is started."""
        return None if self._process is None else self._process.pid

    def messages(self, is_cancelled: Callable[[], bool] | None = None) -> Iterator[tuple[str, Any]]:
        """Starts the process and yields its messages up to its end; to be called in a thread.

        Args:
            is_cancelled: polled while the process runs, which is ended once it returns True.

        Raises:
            KinspectError: it sent an error, could not be started, died, or was stopped.
        """
        # The process's error output, for when it dies without sending an error.
        with tempfile.TemporaryFile() as errors:
            try:
                process = self._start(errors)
                assert process.stdin is not None
                work = (
                    named_files.state(),
                    self._function,
                    self._work,
                )  # it reads what this process may read
                with contextlib.suppress(OSError, ValueError):  # `_received` says why it ended
                    pickle.dump(work, process.stdin, pickle.HIGHEST_PROTOCOL)
                    process.stdin.flush()
                yield from self._received(process, errors, is_cancelled)
            except OSError as error:
                message = f"the process that {self._purpose} cannot be started: {error.strerror}"
                raise KinspectError(message, "free memory, then try again") from None
            finally:
                self.stop()
                self._reap()

    def run(
        self,
        on_progress: Callable[[str], None] = lambda step: None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> Any:
        """Runs the process to its end and returns its `result`; raises as `messages` does.

        Args:
            on_progress: called with the step that starts, such as "compiling".
            is_cancelled: as of `messages`.
        """
        result = None
        for kind, payload in self.messages(is_cancelled):
            if kind == "progress":
                on_progress(payload)
            elif kind == "result":
                result = payload
        return result

    def stop(self) -> None:
        """Ends the process and its compilers; may be called in any thread, and more than once."""
        with self._lock:
            self._stopped = True
            if self._process is not None and self._process.poll() is None:
                self._process.terminate()

    def _reap(self) -> None:
        """Waits for the process to end; kills it if its compilers take too long."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):  # unsent input is no longer needed
            process.stdin.close()
        try:
            process.wait(SECONDS_TO_END + 1)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _start(self, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        """Starts the process; raises KinspectError if it was stopped already."""
        with self._lock:
            if self._stopped:
                raise KinspectError("cancelled", "")
            self._process = subprocess.Popen(
                python_child(__name__),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # Ctrl-C in the terminal is for the UI, which then stops this.
                start_new_session=True,
            )
            return self._process

    def _received(
        self,
        process: subprocess.Popen[bytes],
        errors: IO[bytes],
        is_cancelled: Callable[[], bool] | None,
    ) -> Iterator[tuple[str, Any]]:
        assert process.stdout is not None
        received = Received()
        with process.stdout as stream:
            for packed in _packed_messages(stream.fileno(), is_cancelled):
                kind, payload = MessageUnpickler(io.BytesIO(packed), received).load()
                if kind == END:
                    return
                if kind == "error":
                    raise KinspectError(*payload)
                yield kind, payload
        if is_cancelled is not None and is_cancelled():
            self.stop()
        status = process.wait()
        if self._stopped:
            raise KinspectError("cancelled", "")
        message = f"the process that {self._purpose} {ending(status, errors)}"
        raise KinspectError(message, "free memory, then try again; else please report it")


def main() -> None:
    """The body of a child: reads what to do, does it, and sends its error if it has one."""
    channel = result_channel()
    sent = Sent()

    def send(kind: str, payload: Any) -> None:
        message = io.BytesIO()
        MessagePickler(message, sent).dump((kind, payload))
        channel.write(_LENGTH.pack(message.tell()) + message.getvalue())
        channel.flush()

    interrupt_on_signals()
    try:
        allowed, function, work = pickle.load(sys.stdin.buffer)
        named_files.restore(allowed)
        interrupt_on_closed_input()
        _serve(function, work, send)
    except (KeyboardInterrupt, EOFError, BrokenPipeError):
        pass
    os._exit(0)  # nothing is left to clean up


def _serve(function: str, work: Any, send: Callable[[str, Any], None]) -> None:
    module, _, name = function.partition(":")
    try:
        getattr(import_module(module), name)(work, send)
        send(END, None)
    except KinspectError as error:
        send("error", (error.message, error.hint))
    except BrokenPipeError:
        raise
    except Exception as error:
        # A bug must be shown as an error, not end what waits for it.
        message = f"internal error: {type(error).__name__}: {error}"
        send("error", (message, "please report it"))


class Sent(Struct):
    """What a child has sent, with the numbers by which it refers to it from then on."""

    strings: dict[str, int] = field(default_factory=dict)
    metrics: dict[tuple[object, ...], int] = field(default_factory=dict)


class Received(Struct):
    """The other side of `Sent`: what was received, by number."""

    strings: list[str] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)


class MessagePickler(pickle.Pickler):
    """Pickles a message; strings, and figures that are 0 or unknown, only the first time.

    Thousands of kernels have the same names, units and notes: shared by all of them, they take
    half of the memory.
    """

    def __init__(self, stream: IO[bytes], sent: Sent) -> None:
        super().__init__(stream, pickle.HIGHEST_PROTOCOL)
        self._sent = sent

    def persistent_id(self, value: object) -> object:
        if type(value) is str:
            strings = self._sent.strings
            if value in strings:
                return strings[value]
            strings[value] = len(strings)
            return value
        if type(value) is Metric and not value.value:
            metrics = self._sent.metrics
            # The type of a value that is false says which it is.
            key = (value.name, type(value.value), value.unit, value.origin, value.note)
            if key in metrics:
                return (metrics[key],)
            metrics[key] = len(metrics)
            return astuple(value)
        return None


class MessageUnpickler(pickle.Unpickler):
    """Reads what `MessagePickler` wrote."""

    def __init__(self, stream: IO[bytes], received: Received) -> None:
        super().__init__(stream)
        self._received = received

    def persistent_load(self, pid: Any) -> object:
        if type(pid) is int:
            return self._received.strings[pid]
        if type(pid) is str:
            self._received.strings.append(pid)
            return pid
        if len(pid) == 1:
            return self._received.metrics[pid[0]]
        metric = Metric(*pid)
        self._received.metrics.append(metric)
        return metric


def _packed_messages(stream: int, is_cancelled: Callable[[], bool] | None) -> Iterator[bytes]:
    """Yields the messages that a child writes, up to its end or until the work is cancelled."""
    buffer = bytearray()
    pause = None if is_cancelled is None else _POLL_SECONDS
    while is_cancelled is None or not is_cancelled():
        if not select.select([stream], [], [], pause)[0]:
            continue
        chunk = os.read(stream, 1 << 20)
        if not chunk:
            return
        buffer += chunk
        while len(buffer) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(buffer)[0]
            if len(buffer) < end:
                break
            yield bytes(buffer[_LENGTH.size : end])
            del buffer[:end]


def result_channel() -> IO[bytes]:
    """In a child: the stream for results, which the output of other code cannot get into."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return channel


def interrupt_on_signals() -> None:
    """In a child: raises KeyboardInterrupt on SIGTERM and SIGINT."""
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)


def interrupt_on_closed_input() -> None:
    """In a child that has read its input: raises KeyboardInterrupt once that is closed.

    The kernel sends SIGIO then, even if the UI was killed.
    """
    signal.signal(signal.SIGIO, _interrupt)
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    closed = select.poll()
    closed.register(0, 0)  # no events: a closed input is always reported
    if closed.poll(0):  # closed before the kernel was to send SIGIO
        raise KeyboardInterrupt


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Further signals are ignored; the alarm limits how long the compilers may take to end.
    for caught in (signal.SIGTERM, signal.SIGINT, signal.SIGIO):
        signal.signal(caught, signal.SIG_IGN)
    signal.alarm(SECONDS_TO_END)
    raise KeyboardInterrupt
