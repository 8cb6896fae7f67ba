"""Talks to the emulator's process, which executes launches, and shares memory with it."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..launches import processes

PAGE_BYTES = 4096
SLACK_BYTES = 64
"""Bytes after a buffer that accesses of 16 bytes may touch."""


class EmulationError(RuntimeError):
    """A launch that could not be executed, or did something that no kernel may do.

    Args:
        kind: `limit` (it takes too long), `hang` (it never ends), `uncovered` (an instruction
            that the emulator lacks) or `failed`.
    """

    def __init__(self, text: str, kind: str = "failed") -> None:
        super().__init__(text)
        self.kind = kind


class LaunchBuffer:
    """Memory of this process that a launch may use.

    Args:
        address: address of its first byte, as the script sees it.
        backing: address of its bytes in this process; None for `address`.

    Attributes:
        offset: its position in the memory shared with the emulator.
    """

    def __init__(self, address: int, size: int, name: str, backing: int | None = None) -> None:
        self.address = address
        self.size = size
        self.name = name
        self.backing = address if backing is None else backing
        self.offset = 0


class EmulatorProcess:
    """The emulator's process, which is started at the first launch.

    Threads use it in turn, and so do children that are forked after `share`.

    Args:
        command: starts it; it speaks JSON lines on its standard streams.
        on_message: takes `{"step": text}` and `{"warning": text}` of a launch that goes on.

    Attributes:
        deadline: when to kill it if it has not answered, by `time.monotonic`; None for never.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        on_message: Callable[[dict[str, str]], None] | None = None,
    ) -> None:
        self._on_message = on_message
        self.deadline: float | None = None
        self._command = list(command)
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._file = self._lock_file = -1
        self._map: mmap.mmap | None = None
        self._size = 0
        self._loaded_keys: set[str] = set()
        self._request_count = 0
        self._is_unanswered = self._is_shared = False
        self._lock = threading.RLock()
        self._lock_owner = self._starter = os.getpid()

    def load(self, key: str, text: str, arch: str) -> None:
        """Sends a kernel's assembly, unless it was sent before."""
        with self._turn():
            if key not in self._loaded_keys:
                self._request({"load": key, "text": text, "arch": arch})
                self._loaded_keys.add(key)

    def launch(
        self, request: dict[str, Any], buffers: Sequence[LaunchBuffer], *, write_back: bool = True
    ) -> dict[str, Any]:
        """Executes a launch on the buffers' contents; returns the emulator's reply.

        `write_back` says whether the memory that it wrote is copied back to the buffers.

        Raises:
            EmulationError: it could not be executed.
        """
        with self._turn():
            if self._is_unanswered or self._is_shared:
                self._request({"idle": True})  # a launch that was cut off may still use the memory
            shared = self._lay_out(buffers)
            base = ctypes.addressof(ctypes.c_char.from_buffer(shared))
            buffer_fields = [
                {"address": b.address, "size": b.size, "name": b.name, "offset": b.offset}
                for b in buffers
            ]
            message = {"launch": request, "buffers": buffer_fields, "memory": self._size}
            message["watched"] = self._on_message is not None
            for one_process in (False, True):
                for buffer in buffers:
                    ctypes.memmove(base + buffer.offset, buffer.backing, buffer.size)
                reply = self._request({**message, "launch": {**request, "alone": one_process}})
                if "again" not in reply:  # else several processes cannot execute this launch
                    break
            for index in reply["written"] if write_back else ():
                buffer = buffers[index]
                ctypes.memmove(buffer.backing, base + buffer.offset, buffer.size)
            return reply

    def share(self) -> None:
        """Starts the process for children that are forked from now on as well."""
        self.start()
        self._is_shared = True

    def close(self) -> None:
        """Ends the process; in a forked child, which only shares it, does nothing."""
        process = self._process
        if process is None or process.stdin is None or self._starter != os.getpid():
            return
        # Its input may not end: a child that goes on has the pipe too.
        with self._turn(), contextlib.suppress(BrokenPipeError):
            process.stdin.write(b'{"end": true}\n')
            process.stdin.close()
        process.wait()
        self._process = None

    def start(self) -> None:
        """Starts the process if it does not run yet; does not wait for it."""
        if self._process is not None:
            return
        self._starter = os.getpid()
        self._file = _unnamed_file()
        if self._lock_file < 0:
            # Not the memory: a mapping of it that is closed would drop the lock.
            self._lock_file = _unnamed_file()
        # It begins with Ctrl-C held, until it ignores it.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with processes.ours():
                self._process = subprocess.Popen(
                    [*self._command, str(self._file)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    pass_fds=(self._file,),
                    env=self._environment,
                )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Keeps other threads and forked processes from the pipes and the memory meanwhile."""
        if self._lock_owner != os.getpid():  # a thread that is not in this child may hold it
            self._lock_owner, self._lock = os.getpid(), threading.RLock()
        with self._lock:
            self.start()
            fcntl.lockf(self._lock_file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._lock_file, fcntl.LOCK_UN)

    def _lay_out(self, buffers: Sequence[LaunchBuffer]) -> mmap.mmap:
        """Assigns offsets in the shared memory to buffers, each with pages of its own."""
        end = PAGE_BYTES
        for buffer in buffers:
            # The offset within a page stays, so that alignments do.
            buffer.offset = end + buffer.address % PAGE_BYTES
            end = -(-(buffer.offset + buffer.size + SLACK_BYTES) // PAGE_BYTES) * PAGE_BYTES
        if end > self._size:
            # A forked child may have made it larger already: it must not shrink.
            self._size = max(end, 2 * self._size, os.fstat(self._file).st_size)
            os.ftruncate(self._file, self._size)
            self._map = None  # not closed: views of it may still exist
        if self._map is None:
            self._map = mmap.mmap(self._file, self._size)
        return self._map

    def _request(self, message: dict[str, Any]) -> dict[str, Any]:
        """Sends a request and returns the reply; prints what the kernel printed."""
        self.start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        self._request_count += 1
        number = f"{os.getpid()}-{self._request_count}"
        reply: dict[str, Any] | None = {}
        self._is_unanswered = True
        try:
            process.stdin.write(json.dumps({**message, "request": number}).encode() + b"\n")
            process.stdin.flush()
            # Nobody has taken the reply to a request that a test's timeout, or the end of a forked
            # child, cut off.
            while reply is not None and reply.get("request") != number:
                self._wait_for_reply(process)
                line = process.stdout.readline()
                reply = json.loads(line) if line else None
                if reply is not None and "request" not in reply and self._on_message is not None:
                    self._on_message(reply)
        except BrokenPipeError:
            reply = None
        if reply is None:
            status = process.wait()
            self._reset()
            raise EmulationError(f"the emulator's process ended with status {status}")
        self._is_unanswered = False
        for is_error, text in reply.get("printed", ()):
            _write_after(sys.stderr if is_error else sys.stdout, 2 if is_error else 1, text)
        if "error" in reply:
            raise EmulationError(reply["error"], reply["kind"])
        return reply

    def _wait_for_reply(self, process: subprocess.Popen[bytes]) -> None:
        if self.deadline is None:
            return
        seconds_left = max(self.deadline - time.monotonic(), 0.0)
        assert process.stdout is not None
        answered, _, _ = select.select([process.stdout], [], [], seconds_left)
        if not answered:
            process.kill()
            process.wait()
            self._reset()
            raise EmulationError("it took longer than it may", "limit")

    def _reset(self) -> None:
        """Forgets a process that has ended; the next one has no kernels loaded."""
        self._process = None
        self._loaded_keys.clear()
        os.close(self._file)
        self._file, self._map, self._size = -1, None, 0
        self._is_unanswered = False


def _unnamed_file() -> int:
    """The descriptor of a new file without a name, in memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("kinspect-emulation")
    descriptor, path = tempfile.mkstemp(prefix="kinspect-")
    os.unlink(path)
    return descriptor


def _write_after(stream: Any, descriptor: int, text: str) -> None:
    """Writes to a descriptor, as HIP's runtime does, after what Python's stream holds."""
    stream.flush()
    remaining = text.encode()
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]
