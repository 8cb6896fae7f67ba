"""AccessCounter of each instruction's accesses, over all waves that executed it.

A wave's pattern of addresses is worked out once: most instructions repeat theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from .banks import conflict_cycles, phases_of
from .footprint import Spans, Touched, spans_of, spans_of_rows
from .waves import Waves

Array = np.ndarray[Any, Any]
MOST_PATTERNS = 4096
"""Patterns that are remembered; scattered accesses hardly ever repeat one."""
FEW_ROWS = 8
"""Waves that differ, up to which each one's pattern is looked up; more are worked out at once."""
_IDLE = -(1 << 62)
"""Stands for the address of a lane that takes no part."""


class AccessCount(Struct):
    """One instruction's accesses.

    Args:
        space: `global` or `lds`.
        size: bytes of each lane.
        waves: how often a wave executed it.
        lanes: active lanes, in all.
        lines: cache lines that these touched, summed over executions (global memory).
        least_lines: cache lines that as many distinct bytes need at least.
        conflicts: cycles that LDS bank conflicts add, summed over executions.
    """

    space: str
    size: int
    waves: int = 0
    lanes: int = 0
    lines: int = 0
    least_lines: int = 0
    conflicts: int = 0

    @property
    def bytes(self) -> int:
        """Bytes that active lanes read or write."""
        return self.lanes * self.size


class _Pattern(Struct, frozen=True):
    """The figures of one wave's pattern of addresses.

    Args:
        number: the pattern's.
        extra: cache lines touched, or cycles of bank conflicts.
        least: cache lines that would do.
        spans: bytes from the start of the first lane's line; None for LDS.
    """

    number: int
    extra: int
    least: int
    spans: Spans | None


class _Last(Struct, frozen=True):
    """An instruction's access by all lanes of some waves, and its patterns.

    Args:
        workgroups: the waves' workgroups, the very array of `Waves`.
        where: addresses, int64 [wave, lane].
        size: bytes of each lane.
        patterns: patterns of the rows that stand for all.
        repeated: how often each of these occurs.
        places: where they lay, int64 [repetition, row].
    """

    workgroups: Array
    where: Array
    size: int
    patterns: list[_Pattern]
    repeated: int
    places: Array


class AccessCounter:
    """The accesses of a launch.

    Args:
        arch: gfx name.
        line: bytes of a cache line of the vector cache.
    """

    def __init__(self, arch: str, line: int) -> None:
        self._arch = arch
        self._line = line
        self.accesses: dict[tuple[int, str], AccessCount] = {}
        self.touched = Touched()
        self._patterns: dict[tuple[int, str, bytes], _Pattern] = {}
        self._numbers = 0
        self._last: dict[tuple[int, str], _Last] = {}

    def access(
        self,
        site: int,
        space: str,
        waves: Waves,
        where: Array,
        usable: Array | None,
        size: int,
        *,
        writes: bool,
    ) -> None:
        """An instruction's access by all lanes of waves.

        Args:
            site: index of the instruction.
            space: `global` or `lds`.
            waves: those that execute it.
            where: addresses, int64 [wave, lane].
            usable: which lanes take part; None for all.
            size: bytes of each lane.
            writes: whether it writes LDS, whose phases are others then.
        """
        key = site, space
        count = self.accesses.setdefault(key, AccessCount(space, size))
        count.waves += waves.count
        active = None if usable is None or usable.all() else usable
        count.lanes += where.size if active is None else int(np.count_nonzero(active))
        last = self._last.get(key)
        if active is None and last is not None:
            distance = self._distance(last, waves, where, size)
            if distance is not None:
                self._add(count, site, last, distance)
                return
        # Conflicts do not change when all addresses move; lines do, by less than a line.
        first = where[:, :1]
        start = first - first % self._line
        moved = where - (start if space == "global" else first)
        if active is not None:
            moved = np.where(active, moved, _IDLE)
        rows = _repeating(moved, waves)
        repeated = len(moved) // len(rows)
        places = start.reshape(repeated, len(rows))
        if space == "global" and repeated == 1 and len(rows) > FEW_ROWS:
            spans, row_of = spans_of_rows(rows, rows != _IDLE, size)
            lines, least = lines_of_rows(spans, row_of, len(rows), self._line)
            count.lines += lines
            count.least_lines += least
            self.touched.add_spans(
                site, (spans[0] + places[0, row_of], spans[1] + places[0, row_of])
            )
            return
        patterns = [self._pattern(space, row, size, writes=writes) for row in rows]
        last = _Last(waves.workgroup, where, size, patterns, repeated, places)
        self._add(count, site, last, 0)
        if active is None:
            self._last[key] = last

    def _distance(self, last: _Last, waves: Waves, where: Array, size: int) -> int | None:
        """Whole lines by which all addresses of the last access have moved; None: they differ."""
        if last.workgroups is not waves.workgroup or last.size != size:
            return None
        distance = int(where[0, 0] - last.where[0, 0])
        same = where if not distance else where - distance
        if distance % self._line or not np.array_equal(same, last.where):
            return None
        return distance

    def _add(self, count: AccessCount, site: int, access: _Last, distance: int) -> None:
        """AccessCounter an access as the last one, moved by `distance` bytes."""
        for number, pattern in enumerate(access.patterns):
            if pattern.spans is None:
                count.conflicts += pattern.extra * access.repeated
                continue
            count.lines += pattern.extra * access.repeated
            count.least_lines += pattern.least * access.repeated
            places = access.places[:, number] + distance
            self.touched.add(site, pattern.number, pattern.spans, places)

    def begin(self, accesses: dict[tuple[int, str], AccessCount] | None = None) -> None:
        """Goes on from accesses counted before, or none; patterns stay known."""
        self.accesses = accesses or {}
        self.touched = Touched()

    def add(
        self, accesses: Mapping[tuple[int, str], AccessCount], spans: Mapping[int, list[Spans]]
    ) -> None:
        """Adds the counts of another process.

        Args:
            accesses: its `accesses`.
            spans: its `touched.folded()`.
        """
        for (site, space), more in accesses.items():
            count = self.accesses.setdefault((site, space), AccessCount(space, more.size))
            count.waves += more.waves
            count.lanes += more.lanes
            count.lines += more.lines
            count.least_lines += more.least_lines
            count.conflicts += more.conflicts
        for site, parts in spans.items():
            for part in parts:
                self.touched.add_spans(site, part)

    def _pattern(self, space: str, row: Array, size: int, *, writes: bool) -> _Pattern:
        """Returns the figures of one wave's addresses, worked out once for each pattern.

        Args:
            space: `global` or `lds`.
            row: addresses from the wave's first, int64 [lane]; `_IDLE` for idle lanes.
            size: bytes of each lane.
            writes: whether it is a write.
        """
        key = (size * 2 + writes, space, row.tobytes())
        known = self._patterns.get(key)
        if known is None:
            self._numbers += 1
            active = row != _IDLE
            if space == "global":
                spans = spans_of(row[active], size)
                extra, least = lines_touched(spans, self._line)
                known = _Pattern(self._numbers, extra, least, spans)
            else:
                phases = phases_of(self._arch, size, len(row), writes=writes)
                # A lane's offset from the first may be negative: whole rows of banks are added.
                lowest = int(row[active].min()) if active.any() else 0
                addresses = row - min(lowest, 0) // 256 * 256
                conflicts = conflict_cycles(phases, addresses, active, size)
                known = _Pattern(self._numbers, conflicts, 0, None)
            if len(self._patterns) < MOST_PATTERNS:
                self._patterns[key] = known
        return known


def _repeating(moved: Array, waves: Waves) -> Array:
    """Returns the rows that stand for all.

    One where all are equal, those of one workgroup where workgroups repeat one another, else all.
    """
    each = int(np.count_nonzero(waves.workgroup == waves.workgroup[0]))
    if len(moved) % each == 0:
        first = moved[:each]
        if (moved.reshape(-1, each, moved.shape[1]) == first).all():
            return first[:1] if (first == first[:1]).all() else first
    return moved


def lines_of_rows(spans: Spans, row_of: Array, rows: int, line: int) -> tuple[int, int]:
    """`lines_touched`, summed over waves.

    Args:
        spans: spans of all waves, those of each in ascending order.
        row_of: the wave of each span.
        rows: how many waves.
        line: bytes of a line.
    """
    starts, ends = spans
    first, last = starts // line, (ends - 1) // line
    same = row_of[1:] == row_of[:-1]
    shared = int(np.count_nonzero(same & (first[1:] == last[:-1])))
    covered = np.bincount(row_of, ends - starts, rows).astype(np.int64)
    return int((last - first).sum()) + len(starts) - shared, int((-(-covered // line)).sum())


def lines_touched(spans: Spans, line: int) -> tuple[int, int]:
    """Cache lines that lanes touch, and the least that as many bytes need.

    Args:
        spans: bytes that active lanes touch, disjoint and ascending.
        line: bytes of a line.
    """
    starts, ends = spans
    if not len(starts):
        return 0, 0
    first, last = starts // line, (ends - 1) // line
    lines = int((last - first).sum()) + len(starts)
    shared = int(np.count_nonzero(first[1:] == last[:-1]))
    return lines - shared, -(-int((ends - starts).sum()) // line)
