"""How much of anything one file may take: bytes inflated, nesting, seconds, memory.

A file may come from a stranger. Every reader takes its bounds from here, and every run reads each
of its targets `within` them: what is beyond is a `LimitError`, one line like any other. Bounds grow
with the file, so that a library of tuned kernels passes and a bomb of a megabyte does not: a file
of up to `BASE_BYTES` ends within 20 seconds and 2 GB. What is compiled is bounded by the workers'
own limits (--time-limit), not by these.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import KinspectError

if TYPE_CHECKING:
    import sqlite3
    import zipfile

T = TypeVar("T")

BASE_BYTES = 16 << 20
"""Files up to here share one bound on seconds and memory; beyond, both grow with the size."""
BASE_SECONDS = 18.0
"""Of processor time: a loaded machine, or one that sleeps, fails no honest file."""
SECONDS_PER_MIB = 1.5
"""Beyond `BASE_BYTES`: twice what the slowest reader takes of honest text."""
BASE_MEMORY = 1600 << 20
"""Bytes on top of what the process held when it began to read."""
MEMORY_PER_BYTE = 128
BASE_INFLATED = 192 << 20
INFLATED_PER_BYTE = 32
"""Triton's artifacts and code objects shrink to a tenth, rarely a twentieth; a bomb to 1/1000."""
DUMPED_PER_BYTE = 128
"""Dumps of compiler passes repeat the module after each: they shrink to a fiftieth and less."""
MOST_CONSTANTS = 1 << 26
"""Bytes of the constants that an assembly may define; a directive can ask for any number."""
MOST_NESTED = 200
"""Levels of a document. What kinspect, Triton and ROCm write has under ten."""
MOST_YAML_NODES = 1_000_000
"""What a document with aliases may stand for, each alias counted as what it repeats."""
MOST_DIGITS = 100
"""Of a number in YAML. Python itself stops at 4,300, and then cannot print what it read."""
MOST_KEY_PARTS = 100
"""Parts of a dotted key in TOML: reading one takes time quadratic in them."""
COMPILE_SECONDS = 300.0
"""What one compile may take, unless told (--time-limit)."""
SECONDS_VARIABLE = "KINSPECT_READ_SECONDS"

_PIECE = 1 << 20


class LimitError(KinspectError):
    """A file takes more of something than one file is given."""


# --------------------------------------------------------------------------- one file's reading


@dataclass(slots=True)
class Budget:
    """How many more bytes may be inflated, over everything that is nested in one file.

    Args:
        name: what errors call the file.
        remaining: bytes.
    """

    name: str
    remaining: int

    def take(self, count: int) -> None:
        """Notes that `count` bytes are about to be inflated, or were.

        Raises:
            LimitError: that is more than remains.
        """
        self.remaining -= count
        if self.remaining < 0:
            raise LimitError(
                f"{self.name}: inflates to far more than a file of its size should",
                "make or copy it again; unpack it by its own tool if it is as it should be",
            )


def budget_of(name: str, size: int) -> Budget:
    """The bytes that a file of `size` bytes may inflate to."""
    return Budget(name, BASE_INFLATED + INFLATED_PER_BYTE * size)


def artifact_budget(name: str, size: int) -> Budget:
    """The bytes that the artifacts of an archive of `size` bytes may come to on the disk."""
    return Budget(name, BASE_INFLATED + DUMPED_PER_BYTE * size)


def budget(name: str, size: int) -> Budget:
    """The budget of the target that is being read, or one of its own outside of any.

    Args:
        name: what errors call the file, where no target is being read.
        size: bytes of the file, compressed.
    """
    reading = _current()
    return reading.inflated if reading is not None else budget_of(name, size)


@dataclass(slots=True)
class Reading:
    """The bounds on one target's reading, and the time used so far.

    Args:
        name: what errors call it.
        size: bytes, of all files that belong to it.
    """

    name: str
    size: int
    seconds: float = field(init=False)
    memory: int = field(init=False)
    inflated: Budget = field(init=False)
    used: float = 0.0  # seconds of processor time
    most_data: int | None = None  # bytes, for RLIMIT_DATA

    def __post_init__(self) -> None:
        beyond = max(0, self.size - BASE_BYTES)
        self.seconds = _base_seconds() + SECONDS_PER_MIB * beyond / 2**20
        self.memory = BASE_MEMORY + MEMORY_PER_BYTE * beyond
        self.inflated = budget_of(self.name, self.size)

    def out_of_time(self) -> LimitError:
        return LimitError(
            f"{self.name}: reading it takes more than {self.seconds:.0f} s",
            f"split it into smaller files, or set {SECONDS_VARIABLE} to more seconds",
        )

    def out_of_memory(self) -> LimitError:
        return LimitError(
            f"{self.name}: reading it takes more than {self.memory >> 20} MiB of memory",
            "split it into smaller files, or free memory",
        )


def within(name: str, size: int, steps: Iterable[T]) -> Iterator[T]:
    """Yields the items of one target's reading, within the bounds of a target of its size.

    Time and memory count while the reading works, not while the caller works between two items.

    Args:
        name: what errors call the target.
        size: bytes, of all files that belong to it.
        steps: the reading.

    Raises:
        LimitError: it takes more than a target of this size may.
    """
    source = iter(steps)
    if _current() is not None:  # part of a target: its bounds hold
        yield from source
        return
    reading, end = Reading(name, size), object()
    while True:
        with _at_work(reading):
            step: Any = next(source, end)
        if step is end:
            return
        yield step


@contextmanager
def reading(name: str, size: int) -> Iterator[None]:
    """Bounds a block of code as `within` bounds a reading; within another's bounds those hold.

    Raises:
        LimitError: it takes more than a file of this size may.
    """
    if _current() is not None:
        yield
        return
    with _at_work(Reading(name, size)):
        yield


def _base_seconds() -> float:
    """Returns the seconds that small files have; SECONDS_VARIABLE sets them."""
    try:
        return max(0.1, float(os.environ.get(SECONDS_VARIABLE, BASE_SECONDS)))
    except ValueError:
        return BASE_SECONDS


class _State(threading.local):
    reading: Reading | None = None


_STATE = _State()


def _current() -> Reading | None:
    return _STATE.reading


@contextmanager
def _at_work(reading: Reading) -> Iterator[None]:
    """Counts time and memory against `reading`, and says in one line when they are used up."""
    _STATE.reading = reading
    try:
        with _clock(reading), _memory(reading):
            yield
    except _TimeUp:
        raise reading.out_of_time() from None
    except MemoryError as error:
        error.__traceback__ = None  # its frames hold what took the memory
        raise reading.out_of_memory() from None
    finally:
        _STATE.reading = None


# --------------------------------------------------------------------------- time


class _TimeUp(BaseException):
    """Raised wherever the reading is. No Exception: nothing on the way out is to keep it."""


@contextmanager
def _clock(reading: Reading) -> Iterator[None]:
    """Counts the thread's processor time; raises _TimeUp in the reading when it is used up."""
    if threading.current_thread() is threading.main_thread():
        started = time.process_time()
        clock = _by_signal(reading.seconds - reading.used)
        processor_time = time.process_time
    else:
        started = time.thread_time()
        clock = _by_watch(reading.seconds - reading.used)
        processor_time = time.thread_time
    try:
        with clock:
            yield
    finally:
        reading.used += processor_time() - started


@contextmanager
def _by_signal(seconds: float) -> Iterator[None]:
    """In the main thread: a timer of processor time, which also ends a regular expression."""
    armed = True

    def stop(number: int, frame: FrameType | None) -> None:
        if armed:
            raise _TimeUp

    previous_handler = signal.signal(signal.SIGPROF, stop)
    try:
        # Again after a second: an exception is lost in a destructor or a callback of C code.
        signal.setitimer(signal.ITIMER_PROF, max(seconds, 0.001), 1.0)
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous_handler)


@contextmanager
def _by_watch(seconds: float) -> Iterator[None]:
    """In any other thread: a thread that looks at its clock and raises in it."""
    import ctypes

    ident = threading.get_ident()
    clock = time.pthread_getcpuclockid(ident)
    end = time.clock_gettime(clock) + max(seconds, 0.001)
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    thread, done, lock = ctypes.c_ulong(ident), threading.Event(), threading.Lock()

    def watch() -> None:
        while (seconds_left := end - time.clock_gettime(clock)) > 0:
            if done.wait(seconds_left):  # the thread cannot have worked for longer than that
                return
        while True:
            with lock:
                if done.is_set():
                    return
                raise_in(thread, ctypes.py_object(_TimeUp))
            done.wait(1.0)

    watcher = threading.Thread(target=watch, name="kinspect clock", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        with lock:
            done.set()
            raise_in(thread, None)  # one that is raised but has not arrived
        watcher.join()


# --------------------------------------------------------------------------- memory


@contextmanager
def _memory(reading: Reading) -> Iterator[None]:
    """A soft limit on the process's data while nothing but the reading is at work in it."""
    if sys.platform != "linux" or threading.active_count() > 1:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if reading.most_data is None:
        present = _data_bytes()
        reading.most_data = present + reading.memory if present is not None else sys.maxsize
    stricter = min((n for n in (soft, hard) if n != resource.RLIM_INFINITY), default=sys.maxsize)
    if reading.most_data >= stricter:
        yield
        return
    resource.setrlimit(resource.RLIMIT_DATA, (reading.most_data, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int | None:
    """Returns the bytes of this process that RLIMIT_DATA counts; None where they are not known."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as stream:
            for line in stream:
                if line.startswith("VmData:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass
    return None


# --------------------------------------------------------------------------- databases


def bound_queries(connection: sqlite3.Connection) -> None:
    """Makes a SQLite file of a stranger's safe to read: tables alone, for so many seconds.

    Views and triggers are the file's own SQL and would be run by ours. A query that takes longer
    ends as "interrupted": no signal reaches SQLite at work.

    Raises:
        sqlite3.DatabaseError: it is no database, or brings views or triggers.
    """
    import sqlite3

    connection.execute("PRAGMA trusted_schema = OFF")
    end = time.monotonic() + _base_seconds()
    connection.set_progress_handler(lambda: time.monotonic() > end, 10_000)
    extra = connection.execute(
        "SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index')"
    ).fetchone()
    if extra is not None:
        raise sqlite3.DatabaseError(f"it holds a {extra[0]}, {_short(str(extra[1]))}")


# --------------------------------------------------------------------------- inflating


def inflate(data: bytes, limit: int, name: str) -> bytes:
    """Inflates a zlib stream against the budget of the target that is being read.

    Args:
        data: the stream; bytes after its end are left out.
        limit: bytes that it may give.
        name: what errors call the file.

    Raises:
        KinspectError: it is damaged, is cut off, or gives more.
    """
    import zlib

    counted, worker = budget(name, len(data)), zlib.decompressobj()
    pieces, length, remaining = [], 0, data
    try:
        while not worker.eof and (piece := worker.decompress(remaining, _PIECE)):
            remaining = worker.unconsumed_tail
            length += len(piece)
            if length > limit:
                raise LimitError(f"{name}: inflates to more than the {limit} bytes stated", _AGAIN)
            counted.take(len(piece))
            pieces.append(piece)
    except zlib.error as error:
        raise KinspectError(f"{name}: does not inflate ({error})", _AGAIN) from None
    if not worker.eof:
        raise KinspectError(f"{name}: its compressed data are cut off", _AGAIN)
    return b"".join(pieces)


def zip_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> bytes:
    """Reads one file of a zip against the budget of the target that is being read.

    Args:
        archive: the zip.
        member: which file; stored or deflated, as kinspect writes it.
        name: what errors call the archive.

    Raises:
        KinspectError: it is damaged, encrypted, compressed otherwise, or larger than it may be.
    """
    return b"".join(zip_pieces(archive, member, name, budget(name, member.compress_size)))


def zip_pieces(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, counted: Budget
) -> Iterator[bytes]:
    """Reads one file of a zip in pieces, which need not be held together.

    Args:
        archive: the zip.
        member: which file.
        name: what errors call the archive.
        counted: what it may inflate to.

    Raises:
        KinspectError: as `zip_member`.
    """
    import zipfile
    import zlib

    if member.flag_bits & 1:
        raise KinspectError(f"{name}: {_short(member.filename)} is encrypted", _AGAIN)
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # The others' modules inflate what they are given at one go, however much it is.
        method = f"method {member.compress_type}"
        raise KinspectError(
            f"{name}: {_short(member.filename)} is compressed by {method}, not deflated", _AGAIN
        )
    try:
        with archive.open(member) as stream:
            while piece := stream.read(_PIECE):
                counted.take(len(piece))
                yield piece
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise KinspectError(
            f"{name}: {_short(member.filename)} is damaged ({error or type(error).__name__})",
            _AGAIN,
        ) from None


def counted_pieces(read: Any, name: str, size: int) -> Iterator[bytes]:
    """The pieces of a stream that inflates as it is read (`gzip.open`), against the budget.

    Args:
        read: the stream's `read`, which takes a number of bytes.
        name: what errors call the file.
        size: bytes of the file, compressed.

    Raises:
        LimitError: it gives more than a file of this size may.
    """
    counted = budget(name, size)
    while piece := read(_PIECE):
        counted.take(len(piece))
        yield piece


_AGAIN = "make or copy the file again"


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
