"""Recompiles a kernel in a process of its own, whose `main` is below.

The analysis of what was compiled is hundreds of milliseconds of Python: in a thread of the UI it
would hold up every key press. The process ends, and its compilers with it, when it is told to or
when its standard input is closed, in whatever way the UI ends.

Standard input carries the kernel, what is changed and the request; standard output pairs, pickled:
("say", text), and at last ("made", KernelReport) or ("error", (message, hint)).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import IO, Any

from ..inspector.capture.axes import Value
from ..inspector.errors import KinspectError
from ..inspector.model import KernelReport
from ..inspector.pipeline.jobs import Request

_SECONDS = 5
"""What a compile that is given up has to end its compilers; then it is ended as it is."""
_TAIL_BYTES = 2000


class Recompile:
    """One compile of a kernel with something changed.

    Args:
        report: the kernel as it is.
        changed: names and values.
        request: the run that it comes from: how to capture and compile.
    """

    def __init__(
        self, report: KernelReport, changed: Mapping[str, Value], request: Request
    ) -> None:
        self._given = (report, dict(changed), request)
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._lock = threading.Lock()

    def run(self, say: Callable[[str], None]) -> KernelReport:
        """Compiles and analyses; to be called in a thread.

        Args:
            say: told what is being done.

        Raises:
            KinspectError: a name or value that cannot be set, the compile failed, or `stop`.
        """
        # Unnamed: what the process says when it can say nothing over its channel.
        with tempfile.TemporaryFile() as errors:
            try:
                process = self._begin(errors)
                assert process.stdin is not None
                with contextlib.suppress(BrokenPipeError):  # the end says why
                    pickle.dump(self._given, process.stdin, pickle.HIGHEST_PROTOCOL)
                    process.stdin.flush()
                return self._listen(process, say, errors)
            except OSError as error:
                message = f"the process that compiles cannot be started: {error.strerror}"
                raise KinspectError(message, "free memory, then try again") from None
            finally:
                self.stop()
                self._reap()

    def stop(self) -> None:
        """Ends it and its compilers; may be called in any thread, and more than once."""
        with self._lock:
            self._stopped = True
            if self._process is not None and self._process.poll() is None:
                self._process.terminate()

    def _reap(self) -> None:
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):  # what it was not told it need not know any more
            process.stdin.close()
        try:
            process.wait(_SECONDS + 1)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _begin(self, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise KinspectError("cancelled", "")
            # Not by -m: what is then called __main__ could not be unpickled here.
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # Ctrl-C in the terminal is for the UI, which then stops this.
                start_new_session=True,
            )
            return self._process

    def _listen(
        self, process: subprocess.Popen[bytes], say: Callable[[str], None], errors: IO[bytes]
    ) -> KernelReport:
        assert process.stdout is not None
        with process.stdout as stream:
            while True:
                try:
                    kind, payload = pickle.load(stream)
                except (EOFError, pickle.UnpicklingError):
                    break
                if kind == "say":
                    say(payload)
                elif kind == "error":
                    raise KinspectError(*payload)
                else:
                    assert isinstance(payload, KernelReport)
                    return payload
        status = process.wait()
        if self._stopped:
            raise KinspectError("cancelled", "")
        errors.seek(max(0, errors.seek(0, 2) - _TAIL_BYTES))
        last = errors.read().decode("utf-8", "replace").strip().splitlines()[-1:]
        how = f"was killed by signal {-status}" if status < 0 else f"ended with {status}"
        message = f"the process that compiles {how}{': ' + last[0] if last else ''}"
        raise KinspectError(message, "free memory, then try again; else please report it")


def main() -> None:
    """Does what its standard input asks for."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints must not stand between two messages

    def interrupt(number: int, frame: FrameType | None) -> None:
        # Once is enough, and the rest must not take longer than this.
        for caught in (signal.SIGTERM, signal.SIGIO):
            signal.signal(caught, signal.SIG_IGN)
        signal.alarm(_SECONDS)
        raise KeyboardInterrupt

    def send(kind: str, payload: Any) -> None:
        pickle.dump((kind, payload), channel, pickle.HIGHEST_PROTOCOL)
        channel.flush()

    try:
        signal.signal(signal.SIGTERM, interrupt)
        report, changed, request = pickle.load(sys.stdin.buffer)
        # The kernel says when the other end is closed, even if the UI was killed.
        signal.signal(signal.SIGIO, interrupt)
        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
        _work(report, changed, request, send)
    except (KeyboardInterrupt, EOFError, BrokenPipeError):
        pass
    os._exit(0)  # nothing is left to clean up


def _work(
    report: KernelReport,
    changed: Mapping[str, Value],
    request: Request,
    send: Callable[[str, Any], None],
) -> None:
    from .recompiling import compiler_for, recompiled

    try:
        with compiler_for(request) as compiler:
            try:
                new_report = recompiled(
                    report, changed, request, compiler, lambda s: send("say", s)
                )
            except BaseException:
                compiler.abort()
                raise
        send("made", new_report)
    except KinspectError as error:
        send("error", (error.message, error.hint))
    except BrokenPipeError:
        raise
    except Exception as error:
        # A bug must be seen, not end the form.
        message = f"internal error: {type(error).__name__}: {error}"
        send("error", (message, "please report it"))
