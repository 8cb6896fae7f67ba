"""A terminal that `benchmarks.tui` measures in: a pty whose output is stamped as it comes."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_ESCAPES = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_]|\([AB0])"
)


class Terminal:
    """A program in a pty.

    Args:
        command: the program.
        size: columns and rows.
        environment: what is set for it besides.
    """

    def __init__(
        self, command: Sequence[str], size: tuple[int, int], environment: Mapping[str, str]
    ) -> None:
        self.began = time.perf_counter()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            # Users have compiled modules: without them a start would be measured that nobody has.
            os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
            for name, value in {"TERM": "xterm-256color", **environment}.items():
                os.environ[name] = value
            os.execv(command[0], list(command))
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self._output = b""
        self.status: int | None = None
        self._peaks: dict[int, int] = {}
        self._sampling = threading.Thread(target=self._sample, daemon=True)
        self._sampling.start()

    def press(self, keys: bytes) -> float:
        """Types; when that was. What came before is forgotten."""
        while self._read(0):
            pass
        self._output = b""
        at = time.perf_counter()
        os.write(self._fd, keys)
        return at

    def until(self, pattern: bytes, seconds: float = 120.0) -> float:
        """When the output since the last key has matched; escape sequences are left out.

        Raises:
            TimeoutError: it did not.
        """
        wanted = re.compile(pattern)
        deadline = time.perf_counter() + seconds
        while not wanted.search(_ESCAPES.sub(b"", self._output)):
            if not self._read(0.5) and time.perf_counter() > deadline:
                raise TimeoutError(f"{pattern!r} did not come: {self.text()[-2000:]}")
        return time.perf_counter()

    def answered(self, seconds: float = 5.0) -> float:
        """When the first output since the last key came."""
        deadline = time.perf_counter() + seconds
        while not self._output:
            if not self._read(0.5) and time.perf_counter() > deadline:
                raise TimeoutError("no answer")
        return time.perf_counter()

    def settle(self, quiet: float = 0.03, most: float = 2.0) -> None:
        """Waits until nothing comes for a while."""
        deadline = time.perf_counter() + most
        while self._read(quiet) and time.perf_counter() < deadline:
            pass

    def busy(self, seconds: float) -> bool:
        """Whether the program, left alone so long, still works at something by itself."""
        before = self.cpu()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            self._read(max(0.0, end - time.perf_counter()))
        used = self.cpu() - before
        return len(_family(self.pid)) > 1 or used > 0.3 * seconds

    def cpu(self) -> float:
        """Seconds of CPU that the UI's own process has taken."""
        stat = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def text(self) -> str:
        """The output since the last key, without escape sequences."""
        return _ESCAPES.sub(b"", self._output).decode(errors="replace")

    def _read(self, seconds: float) -> bool:
        if not select.select([self._fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:
            data = b""
        self._output += data
        return bool(data)

    def close(self, seconds: float = 20.0) -> int:
        """Quits, and waits for the end; the exit status."""
        self.press(b"\x11")
        deadline = time.perf_counter() + seconds
        while self.status is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                self.status = os.waitstatus_to_exitcode(status)
            elif time.perf_counter() > deadline:
                os.kill(self.pid, signal.SIGKILL)
            self._read(0.05)
        os.close(self._fd)
        return self.status

    @property
    def peak(self) -> int:
        """The most bytes that the UI's own process had in memory."""
        return self._peaks.get(self.pid, 0)

    @property
    def peak_of_all(self) -> int:
        """The peaks of it and of the processes that it started, added up: an upper bound."""
        return sum(self._peaks.values())

    def _sample(self) -> None:
        while self.status is None:
            for pid in _family(self.pid):
                self._peaks[pid] = max(self._peaks.get(pid, 0), _high_water(pid))
            time.sleep(0.1)


def _family(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += _family(child)
    return found


def _high_water(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    match = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(match.group(1)) * 1024 if match else 0
