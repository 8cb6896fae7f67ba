"""Counts of each instruction's accesses, over all waves that executed it.

What lanes touch is worked out once for each pattern of addresses that a wave has, since most
instructions repeat theirs: cache lines do not change when all addresses move by whole lines, bank
conflicts whatever they move by.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from .access_figures import (
    Spans,
    TouchedBytes,
    conflict_cycles,
    lines_of_rows,
    lines_touched,
    phases_of,
    spans_of,
    spans_of_rows,
)
from .machine import LaneAccess
from .waves import Array, Waves

MOST_PATTERNS: Final = 4096
"""Patterns that are remembered; scattered accesses hardly ever repeat one."""
FEW_ROWS: Final = 8
"""Waves that differ, up to which each one's pattern is looked up; more are worked out at once."""
_IDLE: Final = -(1 << 62)
"""Stands for the address of a lane that takes no part."""


class AccessCount(Struct):
    """One instruction's accesses.

    Args:
        space: `global` or `lds`.
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

    def add(self, other: AccessCount) -> None:
        """Adds the same instruction's accesses in another process."""
        self.waves += other.waves
        self.lanes += other.lanes
        self.lines += other.lines
        self.least_lines += other.least_lines
        self.conflicts += other.conflicts


class _Pattern(Struct, frozen=True):
    """The figures of one wave's pattern of addresses.

    `spans`: bytes from the start of the first lane's line; None for LDS.
    """

    number: int
    lines: int = 0
    least_lines: int = 0
    conflicts: int = 0
    spans: Spans | None = None


class _Patterns:
    """Patterns of addresses, each worked out once."""

    def __init__(self, arch: str, line: int) -> None:
        self._arch = arch
        self._line = line
        self._known: dict[tuple[int, str, bytes], _Pattern] = {}
        self._count = 0

    def of(self, space: str, row: Array, size: int, *, writes: bool) -> _Pattern:
        """Returns the pattern of one wave's addresses."""
        key = (size * 2 + writes, space, row.tobytes())
        pattern = self._known.get(key)
        if pattern is None:
            self._count += 1
            active = row != _IDLE
            if space == "global":
                spans = spans_of(row[active], size)
                pattern = _Pattern(self._count, *lines_touched(spans, self._line), 0, spans)
            else:
                conflicts = self._conflicts(row, active, size, writes=writes)
                pattern = _Pattern(self._count, conflicts=conflicts)
            if len(self._known) < MOST_PATTERNS:
                self._known[key] = pattern
        return pattern

    def _conflicts(self, row: Array, active: Array, size: int, *, writes: bool) -> int:
        """Returns the cycles that bank conflicts add to one wave's access; see `of`."""
        phases = phases_of(self._arch, size, len(row), writes=writes)
        # A lane's offset from the first may be negative: whole rows of banks are added.
        lowest = int(row[active].min()) if active.any() else 0
        return conflict_cycles(phases, row - min(lowest, 0) // 256 * 256, active, size)


class _FullAccess(Struct, frozen=True):
    """An instruction's access by all lanes of some waves, and its patterns.

    Args:
        workgroups: the waves' workgroups, the very array of `Waves`.
        where: addresses, int64 [wave, lane].
        patterns: patterns of the rows that stand for all.
        starts: where each repetition of each of these began, int64 [repetition, row].
    """

    workgroups: Array
    where: Array
    size: int
    patterns: list[_Pattern]
    starts: Array

    def distance_to(self, waves: Waves, where: Array, size: int, line: int) -> int | None:
        """Whole lines by which all addresses have moved, in bytes; None where others have."""
        if self.workgroups is not waves.workgroup or self.size != size:
            return None
        distance = int(where[0, 0] - self.where[0, 0])
        same = where if not distance else where - distance
        if distance % line or not np.array_equal(same, self.where):
            return None
        return distance


class AccessCounter:
    """The accesses of a launch."""

    def __init__(self, arch: str, line: int) -> None:
        self._line = line
        self.accesses: dict[tuple[int, str], AccessCount] = {}
        self.touched = TouchedBytes()
        self._patterns = _Patterns(arch, line)
        self._last: dict[tuple[int, str], _FullAccess] = {}

    def access(self, access: LaneAccess, space: str, *, writes: bool) -> None:
        """An instruction's access of `global` memory or `lds`.

        `writes`: whether it writes LDS, whose phases are others then.
        """
        site, waves, where, usable, size, _ = access
        key = site, space
        count = self.accesses.setdefault(key, AccessCount(space, size))
        count.waves += waves.count
        active = None if usable is None or usable.all() else usable
        count.lanes += where.size if active is None else int(np.count_nonzero(active))
        last = self._last.get(key)
        if active is None and last is not None:
            distance = last.distance_to(waves, where, size, self._line)
            if distance is not None:
                self._add(count, site, last, distance)
                return
        first = where[:, :1]
        start = first - first % self._line
        moved = where - (start if space == "global" else first)
        if active is not None:
            moved = np.where(active, moved, _IDLE)
        rows = _distinct_rows(moved, waves)
        starts = start.reshape(-1, len(rows))
        if space == "global" and len(starts) == 1 and len(rows) > FEW_ROWS:
            self._add_rows(count, site, rows, starts[0], size)
            return
        patterns = [self._patterns.of(space, row, size, writes=writes) for row in rows]
        full = _FullAccess(waves.workgroup, where, size, patterns, starts)
        self._add(count, site, full, 0)
        if active is None:
            self._last[key] = full

    def _add(self, count: AccessCount, site: int, access: _FullAccess, distance: int) -> None:
        """Counts an access, moved by `distance` bytes."""
        repeated = len(access.starts)
        for row, pattern in enumerate(access.patterns):
            count.conflicts += pattern.conflicts * repeated
            if pattern.spans is not None:
                count.lines += pattern.lines * repeated
                count.least_lines += pattern.least_lines * repeated
                places = access.starts[:, row] + distance
                self.touched.add(site, pattern.number, pattern.spans, places)

    def _add_rows(
        self, count: AccessCount, site: int, rows: Array, starts: Array, size: int
    ) -> None:
        """Counts an access of global memory by waves whose patterns differ."""
        spans, row_of = spans_of_rows(rows, rows != _IDLE, size)
        lines, least = lines_of_rows(spans, row_of, len(rows), self._line)
        count.lines += lines
        count.least_lines += least
        self.touched.add_spans(site, (spans[0] + starts[row_of], spans[1] + starts[row_of]))

    def begin(self, accesses: dict[tuple[int, str], AccessCount] | None = None) -> None:
        """Goes on from accesses counted before, or none; patterns stay known."""
        self.accesses = accesses or {}
        self.touched = TouchedBytes()

    def add(
        self, accesses: Mapping[tuple[int, str], AccessCount], spans: Mapping[int, list[Spans]]
    ) -> None:
        """Adds the counts of another process.

        `spans`: its `touched.folded()`.
        """
        for (site, space), more in accesses.items():
            self.accesses.setdefault((site, space), AccessCount(space, more.size)).add(more)
        for site, parts in spans.items():
            for part in parts:
                self.touched.add_spans(site, part)


def _distinct_rows(moved: Array, waves: Waves) -> Array:
    """Returns the rows of addresses that stand for all."""
    each = int(np.count_nonzero(waves.workgroup == waves.workgroup[0]))
    if len(moved) % each == 0:
        first = moved[:each]
        if (moved.reshape(-1, each, moved.shape[1]) == first).all():
            return first[:1] if (first == first[:1]).all() else first
    return moved
