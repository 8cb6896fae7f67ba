"""One guest process: started when first needed, restarted if it dies, always ended.

The guest is the interpreter that imports Triton. It reads requests and writes replies over two
pipes, one JSON object a line.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ..base.errors import KinspectError
from ..base.lifetimes import kill_marked
from ..base.programs import find_interpreter
from .environment import guest_environment

BOOTSTRAP = Path(__file__).resolve().parent.parent / "guest" / "bootstrap.py"
GRACE_SECONDS = 10.0
"""How long past a job's own time limit the guest may take to say that it ended it."""
START_SECONDS = 120.0
"""For starting an interpreter and importing Triton, from a cold network disk at worst."""
CLOSE_SECONDS = 2.0
"""How long a guest whose channel was closed may take to end by itself."""
TAIL_BYTES = 4000
"""Of the guest's stderr, in which the last line is looked for."""
CHUNK = 1 << 16
LOOK_SECONDS = 1.0
"""How often to look whether a silent guest was stopped (SIGSTOP)."""
MARK = "KINSPECT_GUEST"
"""Environment variable by which a guest's processes are recognised after its death."""


class WorkerLostError(KinspectError):
    """The guest process died or did not answer. The next request starts another one."""


class Worker:
    """A guest process and the channel to it. One request at a time, from one thread at a time.

    `environment`: the guest's environment, as `guest_environment` makes it; None for this process's
    own.
    """

    def __init__(
        self, python: str = sys.executable, environment: Mapping[str, str] | None = None
    ) -> None:
        self.python = python
        self.environment = dict(
            guest_environment(os.environ) if environment is None else environment
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._got_request = False
        self._requests_fd = -1
        self._replies_fd = -1
        self._stderr: IO[bytes] | None = None
        self._pending = bytearray()
        self._mark = ""

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The guest's process id while it is believed to run."""
        return None if self._process is None else self._process.pid

    def request(self, message: Mapping[str, Any], time_limit: float) -> dict[str, Any]:
        """Sends one request and waits for its reply.

        `time_limit`: seconds after which the guest is given up and killed.

        Raises:
            WorkerLostError: the guest died, or did not answer in time.
            KinspectError: the interpreter cannot be started, or the guest failed at the request.
        """
        *_, reply = self.stream(message, time_limit)
        return reply

    def stream(self, message: Mapping[str, Any], time_limit: float) -> Iterator[dict[str, Any]]:
        """Sends one request and yields what comes: any number of `{"record": ...}`, one reply.

        The guest is ended if the caller stops iterating before the reply.

        Raises:
            WorkerLostError: the guest died, or did not answer in time.
            KinspectError: the interpreter cannot be started, or the guest failed at the request.
        """
        deadline = time.monotonic() + time_limit
        self.start()
        self._got_request = True
        ended = False
        try:
            self._send(json.dumps(message).encode() + b"\n")
            while not ended:
                reply = dict(json.loads(self._receive(deadline)))
                ended = "record" not in reply
                if "failure" in reply:
                    raise KinspectError(
                        f"the process that runs Triton ({self.python}) failed: {reply['failure']}",
                        f"try: {self.python} -c 'import triton'",
                    )
                yield reply
        finally:
            # A late reply must not be taken for that of the next request.
            if not ended:
                self.close()

    def start(self, warm: bool = False) -> None:
        """Starts the guest, unless it runs: requests do so themselves.

        Raises:
            KinspectError: the interpreter cannot be started.
        """
        if self._process is not None:
            if self._process.poll() is None:
                return
            self.close()
        self._start(["warm"] if warm else [])

    def terminate(self) -> None:
        """Ends the guest and its job from another thread; the request at work then fails."""
        process = self._process
        if process is not None:
            with contextlib.suppress(OSError):
                process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Ends the guest and everything it started. May be called at any time, repeatedly."""
        process, self._process = self._process, None
        if process is None:
            return
        for fd in (self._requests_fd, self._replies_fd):
            with contextlib.suppress(OSError):
                os.close(fd)
        # The closed channel tells the guest to end its job and itself.
        try:
            process.wait(CLOSE_SECONDS if self._got_request else 0)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode != 0:
            kill_marked(f"{MARK}={self._mark}")  # it had no time to end what its job had started
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None

    def _start(self, options: Sequence[str]) -> None:
        python = find_interpreter(self.python, self.environment)
        request_read, request_write = os.pipe()
        reply_read, reply_write = os.pipe()
        self._mark = secrets.token_hex(16)
        # Holds what the guest writes before it can report errors over the channel.
        stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close())
        try:
            self._process = subprocess.Popen(
                [python, str(BOOTSTRAP), str(request_read), str(reply_write), *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env={**self.environment, MARK: self._mark},
                pass_fds=(request_read, reply_write),
                # Ctrl-C in the terminal is for this process, which then closes its workers.
                start_new_session=True,
            )
        except OSError as error:
            for fd in (request_write, reply_read):
                os.close(fd)
            stderr.close()
            raise KinspectError(
                f"the interpreter {self.python} cannot be started: {error.strerror or error}",
                "name one that has Triton with --python",
            ) from error
        finally:
            os.close(request_read)
            os.close(reply_write)
        self._requests_fd, self._replies_fd = request_write, reply_read
        self._stderr = stderr
        self._pending.clear()
        self._got_request = False

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._requests_fd, view) :]
        except BrokenPipeError as error:
            raise self._lost_error() from error

    def _receive(self, deadline: float) -> bytes:
        """Reads a line of the guest until a time of `time.monotonic`."""
        poller = select.poll()
        poller.register(self._replies_fd, select.POLLIN)
        while True:
            line, newline, pending = self._pending.partition(b"\n")
            if newline:
                self._pending = pending
                return bytes(line)
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0:
                raise WorkerLostError(
                    f"the process that runs Triton ({self.python}) did not answer in time",
                    "try again, or raise --time-limit",
                )
            if not poller.poll(min(seconds_left, LOOK_SECONDS) * 1000 + 1):
                self._wake_if_stopped()
            else:
                chunk = os.read(self._replies_fd, CHUNK)
                if not chunk:
                    raise self._lost_error()
                self._pending += chunk

    def _wake_if_stopped(self) -> None:
        """Wakes a guest that its own job has stopped."""
        pid = self.pid
        with contextlib.suppress(OSError, IndexError):
            stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
            if pid is not None and stat.rpartition(")")[2].split()[0] == "T":
                os.kill(pid, signal.SIGCONT)

    def _lost_error(self) -> WorkerLostError:
        assert self._process is not None
        try:
            code = self._process.wait(CLOSE_SECONDS)
            end = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        except subprocess.TimeoutExpired:
            end = "closed its channel"
        last = self._stderr_tail().strip().splitlines()[-1:]
        last_line = f": {last[0].strip()}" if last else ""
        return WorkerLostError(
            f"the process that runs Triton ({self.python}) {end}{last_line}",
            f"try: {self.python} -c 'import triton'; or name another with --python",
        )

    def _stderr_tail(self) -> str:
        if self._stderr is None:
            return ""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - TAIL_BYTES))
        return self._stderr.read().decode(errors="replace")
