"""Bounds on what one file may take: bytes inflated, nesting, seconds, memory.

A file may come from a stranger. Every reader takes its bounds from here, and every run reads each
of its targets `within` them: what is beyond is a `LimitError`, one line like any other. Bounds grow
with the file, so that a library of tuned kernels passes and a bomb of a megabyte does not: a file
of up to `BASE_BYTES` ends within 20 seconds and 2 GB. What is compiled is bounded by the workers'
own limits (--time-limit), not by these.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .errors import KinspectError
from .interrupting import TimeUp, data_bytes, memory_limit, processor_clock, time_limit

T = TypeVar("T")

BASE_BYTES = 16 << 20
"""Files up to here share one bound on seconds and memory; beyond, both grow with the size."""
BASE_SECONDS = 18.0
"""Of processor time: a loaded machine, or one that sleeps, fails no honest file."""
WALL_FACTOR = 4
"""Wall time for each second of processor time: what blocks or sleeps ends, too."""
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
"""Of a number as text. Python itself stops at 4,300, and then cannot print what it read."""
MOST_KEY_PARTS = 100
"""Parts of a dotted key in TOML: reading one takes time quadratic in them."""
TRY_SECONDS = 120.0
"""Default of the seconds that the trials of a run may take, all together."""
FEW_TRY_SECONDS = 2.0
"""Of the trials that `analyze` makes by itself."""
COMPILE_SECONDS = 300.0
"""What one compile may take, unless told (--time-limit)."""
COMPILE_MEMORY = 4 << 30
"""Bytes of data that one compile may take: a kernel of 100,000 instructions takes a third."""
MOST_SECONDS = 1e6
"""The longest time that can be asked for, eleven days: poll(2) takes 2**31 milliseconds."""
SECONDS_VARIABLE = "KINSPECT_READ_SECONDS"


class LimitError(KinspectError):
    """A file takes more of something than one file is given."""


@dataclass(slots=True)
class InflationBudget:
    """How many more bytes may be inflated, over everything that is nested in one file.

    Args:
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


def budget_of(name: str, size: int) -> InflationBudget:
    """The bytes that a file of `size` bytes may inflate to."""
    return InflationBudget(name, BASE_INFLATED + INFLATED_PER_BYTE * size)


def artifact_budget(name: str, size: int) -> InflationBudget:
    """The bytes that the artifacts of an archive of `size` bytes may come to on the disk."""
    return InflationBudget(name, BASE_INFLATED + DUMPED_PER_BYTE * size)


def budget(name: str, size: int) -> InflationBudget:
    """The budget of the target that is being read, or one of its own outside of any.

    Args:
        name: what errors call the file, where no target is being read.
        size: bytes of the file, compressed.
    """
    reading = _current()
    return reading.inflated if reading is not None else budget_of(name, size)


@dataclass(slots=True)
class BoundedReading:
    """The bounds on one target's reading, and the time used so far.

    Args:
        size: bytes, of all files that belong to it.
        executing: seconds on top, for executing the code in it.
    """

    name: str
    size: int
    executing: float = 0.0
    seconds: float = field(init=False)
    memory: int = field(init=False)
    inflated: InflationBudget = field(init=False)
    used: float = 0.0  # seconds of processor time
    wall_used: float = 0.0
    began: tuple[float, float] = (0.0, 0.0)  # the clocks, when it was set to work
    kernels: int = 0
    kernels_reached: int = 0
    _most_data: int | None = None

    def __post_init__(self) -> None:
        beyond = max(0, self.size - BASE_BYTES)
        self.seconds = base_seconds() + SECONDS_PER_MIB * beyond / 2**20 + self.executing
        self.memory = most_memory(self.size)
        self.inflated = budget_of(self.name, self.size)

    def most_data(self) -> int:
        """Returns the bytes of data that the process may hold, counted from its first call on."""
        if self._most_data is None:
            present = data_bytes()
            self._most_data = sys.maxsize if present is None else present + self.memory
        return self._most_data

    def not_reached(self) -> LimitError:
        return LimitError(
            f"{self.name}: {self.kernels - self.kernels_reached:,} of {self.kernels:,} kernels"
            f" were not reached in {self.seconds:.0f} s",
            f"name some with --kernel, or set {SECONDS_VARIABLE} to more seconds",
        )

    def out_of_time(self) -> LimitError:
        return LimitError(
            f"{self.name}: reading it takes more than {self.seconds:.0f} s"
            f" ({self.seconds * WALL_FACTOR:.0f} s where it waits)",
            f"split it into smaller files, or set {SECONDS_VARIABLE} to more seconds",
        )

    def out_of_memory(self) -> LimitError:
        return LimitError(
            f"{self.name}: reading it takes more than {self.memory >> 20} MiB of memory",
            "split it into smaller files, or free memory",
        )


def within(name: str, size: int, steps: Iterable[T], executing: float = 0.0) -> Iterator[T]:
    """Yields the items of one target's reading, within the bounds of a target of its size.

    Time and memory count while the reading works, not while the caller works between two items.

    Args:
        size: bytes, of all files that belong to it.
        executing: seconds on top, for executing the code in it.

    Raises:
        LimitError: it takes more than a target of this size may.
    """
    source = iter(steps)
    if _current() is not None:  # part of a target: its bounds hold
        yield from source
        return
    reading, end = BoundedReading(name, size, executing), object()
    while True:
        with _at_work(reading):
            step: Any = next(source, end)
        if step is end:
            break
        yield step
    if reading.kernels:
        raise reading.not_reached()


def is_spent(share: float, reached: int, kernels: int) -> bool:
    """Tells whether the target being read has used a share of its time; False outside of any.

    Its reading then stops there: what was reached is reported, and `within` counts the others.

    Args:
        share: of the seconds that it has, to 1.
    """
    reading = _current()
    if reading is None or not reached:
        return False
    used = reading.used + processor_clock()() - reading.began[0]
    wall_used = reading.wall_used + time.monotonic() - reading.began[1]
    if max(used, wall_used / WALL_FACTOR) < share * reading.seconds:
        return False
    reading.kernels = max(reading.kernels, kernels)
    reading.kernels_reached = reached
    return True


def is_cut_short() -> bool:
    """Tells whether the target being read has kernels that were not reached."""
    reading = _current()
    return reading is not None and reading.kernels > 0


@contextmanager
def reading(name: str, size: int) -> Iterator[None]:
    """Bounds a block of code as `within` bounds a reading; within another's bounds those hold.

    Raises:
        LimitError: it takes more than a file of this size may.
    """
    if _current() is not None:
        yield
        return
    with _at_work(BoundedReading(name, size)):
        yield


def natural(text: str) -> int | None:
    """A number from 0 on; None where the text is none, or longer than `MOST_DIGITS`."""
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None


def most_memory(size: int) -> int:
    """Returns the bytes of memory that reading a file of `size` bytes may take."""
    return BASE_MEMORY + MEMORY_PER_BYTE * max(0, size - BASE_BYTES)


def base_seconds() -> float:
    """Returns the seconds of processor time that small files have; SECONDS_VARIABLE sets them."""
    try:
        return max(0.1, float(os.environ.get(SECONDS_VARIABLE, BASE_SECONDS)))
    except ValueError:
        return BASE_SECONDS


class _ThreadState(threading.local):
    reading: BoundedReading | None = None


_STATE = _ThreadState()


def _current() -> BoundedReading | None:
    return _STATE.reading


@contextmanager
def _at_work(reading: BoundedReading) -> Iterator[None]:
    """Counts time and memory against `reading`, and says in one line when they are used up."""
    _STATE.reading = reading
    clock = processor_clock()
    started, wall_started = reading.began = clock(), time.monotonic()
    wall_left = reading.seconds * WALL_FACTOR - reading.wall_used
    try:
        with (
            time_limit(reading.seconds - reading.used, wall_left),
            memory_limit(reading.most_data),
        ):
            yield
    except TimeUp:
        raise reading.out_of_time() from None
    except MemoryError as error:
        error.__traceback__ = None  # its frames hold what took the memory
        raise reading.out_of_memory() from None
    finally:
        reading.used += clock() - started
        reading.wall_used += time.monotonic() - wall_started
        _STATE.reading = None
