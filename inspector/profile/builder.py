"""Builds a `Recording` row by row: readers of all formats add what they read to the builder.

A recording may have tens of millions of rows, so its columns are arrays of machine integers, while
numbers in files may be of any size.

Row of a recording by the number that a file calls it by: a dispatch's id, an event's.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..base.printable import printable, printable_line
from ..model import ErrorRecord
from ..model.recording import (
    NONE,
    Agent,
    CounterValues,
    Dispatches,
    KernelShape,
    Part,
    RecordedCodeObject,
    Recording,
    Samples,
    ThreadTrace,
    TopKernel,
    Transfer,
)

LARGEST = 2**63 - 1
"""The largest integer that a column of the recording holds (64 bits, signed)."""


def int64(value: object) -> int | None:
    """Returns a value as a signed 64-bit integer; None if it is none, or out of range."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and -LARGEST <= value <= LARGEST else None


def _stored(number: int | None) -> int:
    """A number as columns hold it: `NONE` where it is unknown, or has more than 64 bits."""
    found = int64(number)
    return NONE if found is None else found


def is_int64(value: object) -> bool:
    """Tells whether a value is an integer of 64 bits, signed."""
    return isinstance(value, int) and -LARGEST <= value <= LARGEST


def brief(error: Exception) -> str:
    """Returns what an error says on one short line, for messages on damaged files."""
    return " ".join(str(error).split())[:80] or type(error).__name__


def triple(axes: Sequence[int | None]) -> tuple[int, int, int] | None:
    """Returns the size of a workgroup or grid in x, y and z; None unless all three are known."""
    x, y, z = axes
    return None if x is None or y is None or z is None else (x, y, z)


def volume(size: tuple[int, int, int] | None) -> int | None:
    """Returns the work-items of a workgroup or grid; None where its size is unknown."""
    return None if size is None else size[0] * size[1] * size[2]


_COPY_PREFIX = "MEMORY_COPY_"
_MOST_COUNTERS = 2**15 - 1
"""Most counters of a recording: their numbers are kept in a column of 16 bits, signed."""


class RecordingBuilder(Struct):
    """A recording while it is read; each shape and counter name is stored once.

    `begin` opens a part; dispatches, counters and shapes added after it belong to that part.
    """

    path: Path
    tool: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    agents: dict[str, Agent] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    code_objects: list[RecordedCodeObject] = field(default_factory=list)
    samples: list[Samples] = field(default_factory=list)
    traces: list[ThreadTrace] = field(default_factory=list)
    summary: list[TopKernel] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    errors: list[ErrorRecord] = field(default_factory=list)
    dispatches: Dispatches = field(default_factory=Dispatches)
    values: CounterValues = field(default_factory=CounterValues)
    _transfers: dict[str, list[int]] = field(default_factory=dict)  # count, ns
    _shapes: dict[KernelShape, int] = field(default_factory=dict)
    _processes: list[int] = field(default_factory=list)  # of each shape
    _counters: dict[str, int] = field(default_factory=dict)
    # (process, dispatch id) -> row
    _rows: dict[tuple[int, int], int] = field(default_factory=dict)

    def begin(self, part: Part) -> None:
        """Opens a part: what is added from now on belongs to it."""
        self.parts.append(part)
        self._rows = {}

    def shape(self, shape: KernelShape) -> int:
        """Returns the number of a shape, the same for equal ones."""
        number = self._shapes.get(shape)
        if number is None:
            number = self._shapes[shape] = len(self._shapes)
            self._processes.append(NONE if shape.process is None else shape.process)
        return number

    def dispatch(
        self,
        shape: int,
        number: int | None,
        start: int | None = None,
        end: int | None = None,
        queue: int | None = None,
        *,
        find_again: bool = True,
    ) -> int:
        """Adds a dispatch.

        `shape`: as `shape` numbered it.
        `start`: ns.
        `end`: ns.
        `find_again`: whether `row_of` must find it, which costs memory.

        Returns:
            Its row.
        """
        table = self.dispatches
        row = len(table.shape)
        table.shape.append(shape)
        table.number.append(_stored(number))
        table.start.append(_stored(start))
        table.end.append(_stored(end))
        table.queue.append(_stored(queue))
        table.part.append(max(len(self.parts) - 1, 0))
        if find_again and number is not None:
            self._rows[self._processes[shape], number] = row
        return row

    def row_of(self, process: int | None, number: int) -> int | None:
        """Returns the row of a dispatch of this part, by its process and the profiler's id."""
        return self._rows.get((NONE if process is None else process, number))

    def add_counter_value(self, row: int, counter: str, value: float) -> None:
        """Adds a counter's value for a dispatch; values of one counter and dispatch add up."""
        table = self.values
        number = self.counter(counter)
        table.dispatch.append(row)
        table.counter.append(number)
        table.value.append(value)

    def counter(self, name: str) -> int:
        """Returns the number of a counter, the same for the same name.

        Raises:
            KinspectError: there are more than any device has.
        """
        number = self._counters.get(name)
        if number is None:
            if len(self._counters) >= _MOST_COUNTERS:
                raise KinspectError(
                    f"{self.path}: over {_MOST_COUNTERS:,} different counters",
                    "name the file of one run of a profiler",
                )
            number = self._counters[name] = len(self._counters)
        return number

    def truncate_to_whole_rows(self) -> None:
        """Cuts the columns to one length, after reading was interrupted between two of them."""
        table, values = self.dispatches, self.values
        columns = (table.shape, table.number, table.start, table.end, table.queue, table.part)
        rows = min(len(column) for column in columns)
        for column in columns:
            del column[rows:]
        counted = (values.dispatch, values.counter, values.value)
        complete = min(len(column) for column in counted)
        if complete and max(values.dispatch[:complete]) >= rows:
            complete = next(i for i, row in enumerate(values.dispatch) if row >= rows)
        for value_column in counted:
            del value_column[complete:]

    def transfer(self, name: str, nanoseconds: int, count: int = 1) -> None:
        """Adds copies or fills of memory; those of one name add up."""
        name = (
            name.removeprefix(_COPY_PREFIX).replace("_", " ").lower()
            if _COPY_PREFIX in name
            else name
        )
        totals = self._transfers.setdefault(name, [0, 0])
        totals[0] += count
        totals[1] += max(nanoseconds, 0)

    def note(self, text: str) -> None:
        """Adds a note on the recording, once."""
        text = printable(text)
        if text not in self.notes:
            self.notes.append(text)

    def fail(self, path: Path | str, message: str, hint: str, kernel: str | None = None) -> None:
        """Adds an error on a part that could not be read; the other parts are read nevertheless."""
        self.errors.append(
            ErrorRecord(
                file=str(path),
                kernel=kernel,
                stage="profile",
                message=printable(message),
                hint=hint,
            )
        )

    def finish(self) -> Recording:
        """Returns the recording of everything that was added."""
        return Recording(
            path=str(self.path),
            tool=dict(self.tool),
            command=self.command,
            parts=tuple(self.parts),
            agents=tuple(self.agents.values()),
            shapes=tuple(map(_with_printable_name, self._shapes)),
            dispatches=self.dispatches,
            counters=tuple(map(printable_line, self._counters)),
            values=self.values,
            code_objects=tuple(self.code_objects),
            samples=tuple(self.samples),
            traces=tuple(self.traces),
            summary=tuple(map(_with_printable_name, self.summary)),
            notes=tuple(self.notes),
            errors=tuple(self.errors),
            transfers=tuple(
                Transfer(name, count, total)
                for name, (count, total) in sorted(
                    self._transfers.items(), key=lambda item: -item[1][1]
                )
            ),
        )


_Named = TypeVar("_Named", KernelShape, TopKernel)


def _with_printable_name(item: _Named) -> _Named:
    """Returns the item with its kernel's name printable."""
    name = printable_line(item.name)
    return item if name == item.name else replace(item, name=name)


_ALWAYS_IN_ARRAY = 1 << 16
"""Numbers below this are kept in the array, however few there are."""
_ELEMENTS_PER_NUMBER = 16
"""A larger number goes into the array where that has at most this many elements for each number
added so far, else into a dictionary, which takes some 100 bytes for each."""


class RowIndex(Struct):
    """Number -> row of the recording, four bytes each while numbers are nearly consecutive.

    A recording has millions of dispatches, whose ids mostly count up from 0 or 1.
    """

    _array: array[int] = field(default_factory=lambda: array("i"))  # number -> row, or `NONE`
    _large: dict[int, int] = field(default_factory=dict)
    _count: int = 0  # of calls of `add`

    def add(self, number: int, row: int) -> None:
        """Sets the row of a number."""
        self._count += 1
        size = len(self._array)
        if size <= number < _ALWAYS_IN_ARRAY + _ELEMENTS_PER_NUMBER * self._count:
            # Half as long again as needed: n numbers that count up cost O(n) elements copied in
            # all, not n for each.
            size = number + number // 2 + 64
            self._array.extend(array("i", [NONE]) * (size - len(self._array)))
        if 0 <= number < size:
            self._array[number] = row
        else:
            self._large[number] = row

    def get(self, number: int) -> int:
        """Returns the row of a number; `NONE` if it has none."""
        if 0 <= number < len(self._array):
            row = self._array[number]
            if row != NONE:
                return row
        return self._large.get(number, NONE)
