"""Scripts that are emulated in forks of a process that has PyTorch: the import takes longer than
most of them do.

Each runs as it would in an interpreter of its own: its streams, folder, variables and signals are
those that it is started with. Tests of its start and end need that interpreter.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kinspect.inspector.cli.main import main
from kinspect.inspector.pipeline import emulation
from shared_guests import lasting

_SERVER = """
import json, os, runpy, signal, socket, sys
import torch, triton

def script(message, descriptors):
    os.environ.clear()
    os.environ.update(message["environment"])
    os.chdir(message["cwd"])
    *streams, hangup, status = descriptors
    os.close(status)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.set_inheritable(hangup, True)
    sys.argv = [*message["arguments"], str(hangup)]
    sys.path[0] = os.path.dirname(sys.argv[0])
    runpy.run_path(sys.argv[0], run_name="__main__")

def keep(message, descriptors):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if not child:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        script(message, descriptors)
    status = descriptors[-1]
    for descriptor in descriptors[:-1]:
        os.close(descriptor)
    os.write(status, f"{child}\\n".encode())
    os.write(status, str(os.waitpid(child, 0)[1]).encode())

signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those that keep a script are not waited for
signal.signal(signal.SIGINT, signal.SIG_IGN)
requests = socket.socket(fileno=int(sys.argv[1]))
while True:
    text, descriptors, _, _ = socket.recv_fds(requests, 1 << 20, 5)
    if not text:
        break
    if not os.fork():
        requests.close()
        try:
            keep(json.loads(text), descriptors)
        finally:
            os._exit(0)
    for descriptor in descriptors:
        os.close(descriptor)
os._exit(0)
"""


class ForkedScript:
    """The part of `subprocess.Popen` that a run of a script uses."""

    def __init__(self, status: int) -> None:
        self._status = os.fdopen(status)
        self.pid = int(self._status.readline())
        self.returncode: int | None = None

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(int(self._status.read()))
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class EmulatingForks:
    """A process that forks for each script, started for the first one."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._environment: object = None

    def started(
        self, command: Sequence[str], *, env: Mapping[str, str], pass_fds: tuple[int]
    ) -> Any:
        """What runs the command: a fork, or its own process where variables ask for that."""
        if self._process is None and self._pid == os.getpid():
            self._start(env)
        program, *arguments = command
        is_like = (program, lasting(env)) == (sys.executable, self._environment)
        if self._requests is None or self._pid != os.getpid() or not is_like:
            return subprocess.Popen(command, env=env, pass_fds=pass_fds)
        status, written = os.pipe()
        message = {"environment": dict(env), "cwd": os.getcwd(), "arguments": arguments[:-1]}
        text = json.dumps(message).encode()
        socket.send_fds(self._requests, [text], [0, 1, 2, *pass_fds, written])
        os.close(written)
        return ForkedScript(status)

    def _start(self, environment: Mapping[str, str]) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._environment = lasting(environment)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVER, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment,
            )

    def end(self) -> None:
        if self._process is not None and self._requests is not None:
            self._requests.close()
            self._process.wait()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Scripts that this process emulates meanwhile are run in forks."""
        stand_in = SimpleNamespace(Popen=self.started)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(emulation, "subprocess", stand_in)
            yield


def kinspect(
    *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """As `in_process.kinspect`, with what the processes that it starts print."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8") as err,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.chdir(cwd)
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        with _streams_to(out.fileno(), err.fileno()):
            status = main([str(argument) for argument in arguments])
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read())
    return subprocess.CompletedProcess(list(arguments), status, *texts)


@contextmanager
def _streams_to(out: int, err: int) -> Iterator[None]:
    """What this process and those that it starts print goes to two files."""
    sys.stdout.flush()
    sys.stderr.flush()
    before = [os.dup(number) for number in (1, 2)]
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        with (
            open(1, "w", encoding="utf-8", closefd=False) as stdout,
            open(2, "w", encoding="utf-8", closefd=False) as stderr,
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
        ):
            yield
    finally:
        for number, descriptor in enumerate(before, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)
