"""The process that executes launches, and the memory that is shared with it."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

PAGE = 4096
SLACK = 64
"""Bytes behind a buffer that its words of 16 bytes may reach into."""


class EmulationError(RuntimeError):
    """A launch could not be executed, or did what no kernel may do.

    Args:
        text: why.
        kind: `limit` (it takes too long), `hang` (it never ends), `uncovered` (an instruction
            that the emulator lacks) or `failed`.
    """

    def __init__(self, text: str, kind: str = "failed") -> None:
        super().__init__(text)
        self.kind = kind


class SharedBuffer:
    """Memory of this process that a launch may use: where it is and how long.

    Args:
        address: of its first byte.
        size: in bytes.
        name: of the argument, for messages.
    """

    def __init__(self, address: int, size: int, name: str, backing: int | None = None) -> None:
        self.address = address
        self.size = size
        self.name = name
        self.backing = address if backing is None else backing
        """Where its bytes really are, when the address is one that scripts are told."""
        self.offset = 0


class EmulatorProcess:
    """One process of the host's; started at the first launch.

    Args:
        command: starts it; it speaks JSON lines on its standard streams.
        environment: of the process; None for this one's.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self.deadline: float | None = None
        """When to end it if it has not answered by then, by `time.monotonic`; None for never."""
        self._command = list(command)
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._file = -1
        self._map: mmap.mmap | None = None
        self._size = 0
        self._loaded: set[str] = set()

    def load(self, key: str, text: str, arch: str) -> None:
        """Hands over a kernel's assembly, once."""
        if key not in self._loaded:
            self._ask({"load": key, "text": text, "arch": arch})
            self._loaded.add(key)

    def launch(
        self, request: dict[str, Any], buffers: Sequence[SharedBuffer], *, keep: bool = True
    ) -> dict[str, Any]:
        """Executes a launch on the buffers' contents; what it wrote is written back.

        Args:
            request: the launch.
            buffers: the memory that it may use.
            keep: whether what it wrote is written back.

        Raises:
            EmulationError: it could not be executed.
        """
        self.start()
        shared = self._place(buffers)
        base = ctypes.addressof(ctypes.c_char.from_buffer(shared))
        described = [
            {"address": b.address, "size": b.size, "name": b.name, "offset": b.offset}
            for b in buffers
        ]
        message = {"launch": request, "buffers": described, "memory": self._size}
        for alone in (False, True):
            for buffer in buffers:
                ctypes.memmove(base + buffer.offset, buffer.backing, buffer.size)
            reply = self._ask({**message, "launch": {**request, "alone": alone}})
            if "again" not in reply:  # several processes did it, or one
                break
        for index in reply["written"] if keep else ():
            buffer = buffers[index]
            ctypes.memmove(buffer.backing, base + buffer.offset, buffer.size)
        return reply

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process = None

    def start(self) -> None:
        """Starts it, if that was not done yet; does not wait for it."""
        if self._process is not None:
            return
        if hasattr(os, "memfd_create"):
            self._file = os.memfd_create("kinspect-emulation")
        else:
            self._file, path = tempfile.mkstemp(prefix="kinspect-")
            os.unlink(path)
        self._process = subprocess.Popen(
            [*self._command, str(self._file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(self._file,),
            env=self._environment,
        )

    def _place(self, buffers: Sequence[SharedBuffer]) -> mmap.mmap:
        """Gives every buffer its place in the shared memory; pages of their own."""
        end = PAGE
        for buffer in buffers:
            # Bits below the page size are kept: words lie in the file as they lie in memory.
            buffer.offset = end + buffer.address % PAGE
            end = -(-(buffer.offset + buffer.size + SLACK) // PAGE) * PAGE
        if end > self._size:
            self._size = max(end, 2 * self._size)
            os.ftruncate(self._file, self._size)
            self._map = None  # views of the old one may still be held: leave it to the collector
        if self._map is None:
            self._map = mmap.mmap(self._file, self._size)
        return self._map

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self.start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            self._await(process)
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            status = process.wait()
            self._forget()
            raise EmulationError(f"the emulator's process ended with status {status}")
        reply: dict[str, Any] = json.loads(line)
        for is_error, text in reply.get("printed", ()):
            _write_behind(sys.stderr if is_error else sys.stdout, 2 if is_error else 1, text)
        if "error" in reply:
            raise EmulationError(reply["error"], reply["kind"])
        return reply

    def _await(self, process: subprocess.Popen[bytes]) -> None:
        """Waits for an answer.

        Raises:
            EmulationError: there is none by the deadline; the process is ended.
        """
        if self.deadline is None:
            return
        seconds_left = max(self.deadline - time.monotonic(), 0.0)
        assert process.stdout is not None
        answered, _, _ = select.select([process.stdout], [], [], seconds_left)
        if not answered:
            process.kill()
            process.wait()
            self._forget()
            raise EmulationError("it took longer than it may", "limit")

    def _forget(self) -> None:
        """The process is gone, and the next one knows no kernels."""
        self._process = None
        self._loaded.clear()
        os.close(self._file)
        self._file, self._map, self._size = -1, None, 0


def _write_behind(stream: Any, descriptor: int, text: str) -> None:
    """Writes where the C library's stream goes, as HIP's runtime does, behind what is written."""
    stream.flush()
    remaining = text.encode()
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]
