"""Recompiles a kernel in a child process, whose `main` is below.

Analysing the compiled kernel is hundreds of milliseconds of Python: in a thread of the UI it would
delay every key press. The process and its compilers end on SIGTERM and once its standard input is
closed, which happens however the UI ends.

Its standard input carries (kernel, changed settings, request), its standard output pairs, all
pickled: ("progress", text) and finally ("report", KernelReport) or ("error", (message, hint)).
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from typing import IO, Any

from ..inspector.capture.sweep_axes import Value
from ..inspector.errors import KinspectError
from ..inspector.model import KernelReport
from ..inspector.pipeline.jobs import Request
from . import child_process


class Recompile:
    """Compiles a kernel with changed settings in a child process.

    Args:
        report: the kernel.
        changed: name of a setting -> its new value.
        request: the run of the kernel, whose options are used to capture and compile.
    """

    def __init__(
        self, report: KernelReport, changed: Mapping[str, Value], request: Request
    ) -> None:
        self._input = (report, dict(changed), request)
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._lock = threading.Lock()

    def run(self, on_progress: Callable[[str], None]) -> KernelReport:
        """Compiles and analyses the kernel; to be called in a thread.

        Args:
            on_progress: called with the step that starts, such as "compiling".

        Raises:
            KinspectError: a setting cannot have its value, the compile failed or was stopped.
        """
        # The process's error output, for when it dies without sending an error.
        with tempfile.TemporaryFile() as errors:
            try:
                process = self._start_process(errors)
                assert process.stdin is not None
                with contextlib.suppress(BrokenPipeError):  # `_receive` says why it ended
                    pickle.dump(self._input, process.stdin, pickle.HIGHEST_PROTOCOL)
                    process.stdin.flush()
                return self._receive(process, on_progress, errors)
            except OSError as error:
                message = f"the process that compiles cannot be started: {error.strerror}"
                raise KinspectError(message, "free memory, then try again") from None
            finally:
                self.stop()
                self._reap()

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
            process.wait(child_process.SECONDS_TO_END + 1)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _start_process(self, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        """Starts the process; raises KinspectError if the compile was stopped already."""
        with self._lock:
            if self._stopped:
                raise KinspectError("cancelled", "")
            self._process = subprocess.Popen(
                child_process.command(__name__),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # Ctrl-C in the terminal is for the UI, which then stops this.
                start_new_session=True,
            )
            return self._process

    def _receive(
        self,
        process: subprocess.Popen[bytes],
        on_progress: Callable[[str], None],
        errors: IO[bytes],
    ) -> KernelReport:
        """Reads the process's messages up to the report; raises KinspectError without one."""
        assert process.stdout is not None
        with process.stdout as stream:
            while True:
                try:
                    kind, payload = pickle.load(stream)
                except (EOFError, pickle.UnpicklingError):
                    break
                if kind == "progress":
                    on_progress(payload)
                elif kind == "error":
                    raise KinspectError(*payload)
                else:
                    assert isinstance(payload, KernelReport)
                    return payload
        status = process.wait()
        if self._stopped:
            raise KinspectError("cancelled", "")
        message = f"the process that compiles {child_process.ending(status, errors)}"
        raise KinspectError(message, "free memory, then try again; else please report it")


def main() -> None:
    """Recompiles the kernel on standard input; the body of the child process."""
    channel = child_process.result_channel()

    def send(kind: str, payload: Any) -> None:
        pickle.dump((kind, payload), channel, pickle.HIGHEST_PROTOCOL)
        channel.flush()

    child_process.interrupt_on_signals()
    try:
        report, changed, request = pickle.load(sys.stdin.buffer)
        child_process.interrupt_on_closed_input()
        _recompile(report, changed, request, send)
    except (KeyboardInterrupt, EOFError, BrokenPipeError):
        pass
    os._exit(0)  # nothing is left to clean up


def _recompile(
    report: KernelReport,
    changed: Mapping[str, Value],
    request: Request,
    send: Callable[[str, Any], None],
) -> None:
    """Recompiles a kernel and sends its report, or the error that prevented one."""
    from .recompiling import compiler_for, recompiled

    try:
        with compiler_for(request) as compiler:
            try:
                new_report = recompiled(
                    report, changed, request, compiler, lambda text: send("progress", text)
                )
            except BaseException:
                compiler.abort()
                raise
        send("report", new_report)
    except KinspectError as error:
        send("error", (error.message, error.hint))
    except BrokenPipeError:
        raise
    except Exception as error:
        # A bug must be shown as an error, not end the form.
        message = f"internal error: {type(error).__name__}: {error}"
        send("error", (message, "please report it"))
