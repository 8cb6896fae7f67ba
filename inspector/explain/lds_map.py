"""The map of a workgroup's LDS for people: which buffer has which bytes, when."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..model import KernelReport, LdsBuffer, int_of
from .view import kib, place, plural

_SHOWN = 12
_KINDS = {
    "pipelined": "tiles in flight",
    "operand": "a tile",
    "exchange": "a change of layout",
    "scratch": "partial results",
}


class LdsRow(Struct, frozen=True):
    """A buffer in the map.

    Args:
        end: the byte behind its last one; None where its size is not known.
        alive: lines of the source, or of the TTGIR, between which it is alive.
        shares: buffers that have some of the same bytes at another time.
    """

    first: int
    end: int | None
    title: str
    kind: str
    alive: str
    shares: str
    buffer: LdsBuffer

    @property
    def place(self) -> str:
        """Its first byte and the one behind its last one."""
        return f"{self.first}..{'?' if self.end is None else self.end}"

    @property
    def about(self) -> str:
        """What it is, when it is alive and with what it shares bytes."""
        shares = f"; shares bytes with {self.shares}" if self.shares else ""
        return f"{self.title}, {self.kind}, {self.alive}{shares}"


def map_rows(kernel: KernelReport) -> list[LdsRow]:
    """The buffers whose place is known, in the order of their bytes."""
    placed = [buffer for buffer in kernel.lds_buffers if buffer.offset is not None]
    placed.sort(key=lambda buffer: (buffer.offset or 0, buffer.line))
    return [_row(buffer, placed) for buffer in placed]


def map_title(kernel: KernelReport) -> str:
    """The title of the map: how many buffers in how many bytes."""
    total = int_of(kernel.metrics, "lds_bytes")
    return f"LDS by address: {plural(len(map_rows(kernel)), 'buffer')} in {kib(total)}"


def map_lines(kernel: KernelReport) -> list[str]:
    """A title and a line for each buffer; nothing where no place is known."""
    rows = map_rows(kernel)
    if not rows:
        return []
    lines = [map_title(kernel), *(f"  {line}" for line in row_lines(rows[:_SHOWN]))]
    if len(rows) > _SHOWN:
        lines.append(f"  and {len(rows) - _SHOWN} more (--format json)")
    return lines


def row_lines(rows: Sequence[LdsRow]) -> list[str]:
    """A line for each row, with the bytes of all aligned."""
    return [f"{row.first:>6}..{'?' if row.end is None else row.end:<6} {row.about}" for row in rows]


def _row(buffer: LdsBuffer, placed: list[LdsBuffer]) -> LdsRow:
    first, end = _bytes(buffer)
    shared = [other for other in placed if other is not buffer and _overlap(buffer, other)]
    names = list(dict.fromkeys(_name(other) for other in shared))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return LdsRow(
        first=first,
        end=end,
        title=_title(buffer),
        kind=_KINDS[buffer.kind],
        alive=_alive(buffer),
        shares=", ".join(names[:3]) + more,
        buffer=buffer,
    )


def _bytes(buffer: LdsBuffer) -> tuple[int, int | None]:
    first = buffer.offset or 0
    return first, None if buffer.allocated is None else first + buffer.allocated


def _overlap(buffer: LdsBuffer, other: LdsBuffer) -> bool:
    """Whether two buffers have bytes in common; False where a size is not known."""
    (first, end), (other_first, other_end) = _bytes(buffer), _bytes(other)
    return end is not None and other_end is not None and first < other_end and other_first < end


def _title(buffer: LdsBuffer) -> str:
    copies = f"{buffer.copies} x " if buffer.copies > 1 else ""
    shape = "x".join(str(extent) for extent in buffer.shape)
    return f"{_name(buffer)} {copies}{shape} {buffer.dtype}".rstrip()


def _name(buffer: LdsBuffer) -> str:
    return f"%{buffer.name}" if buffer.name.isdecimal() else buffer.name


def _alive(buffer: LdsBuffer) -> str:
    """The lines between which it is alive, of the source where both are known."""
    of_ttgir = f"line {buffer.line} of the TTGIR"
    if buffer.last_line is not None and buffer.last_line != buffer.line:
        of_ttgir = f"lines {buffer.line}..{buffer.last_line} of the TTGIR"
    if buffer.source is not None and buffer.last_source is not None:
        first, last = place(buffer.source), place(buffer.last_source)
        if buffer.source.file == buffer.last_source.file:
            last = str(buffer.last_source.line)
            same_line = buffer.source.line == buffer.last_source.line
            return f"{first} ({of_ttgir})" if same_line else f"{first}..{last}"
        return f"{first}..{last}"
    return of_ttgir
