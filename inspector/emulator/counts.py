"""What the accesses of each instruction did, over all waves that executed it.

A wave's pattern of addresses is worked out once: most instructions repeat theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from .banks import conflict_cycles, phases_of
from .waves import Waves

Array = np.ndarray[Any, Any]
MOST_PATTERNS = 4096
"""Patterns that are remembered; scattered accesses hardly ever repeat one."""


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
        """What active lanes read or write."""
        return self.lanes * self.size


class Counts:
    """The accesses of a launch.

    Args:
        arch: gfx name.
        line: bytes of a cache line of the vector cache.
    """

    def __init__(self, arch: str, line: int) -> None:
        self._arch = arch
        self._line = line
        self.accesses: dict[tuple[int, str], AccessCount] = {}
        self._patterns: dict[tuple[int, str, bytes], tuple[int, int]] = {}

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
        count = self.accesses.setdefault((site, space), AccessCount(space, size))
        count.waves += waves.count
        active = None if usable is None or usable.all() else usable
        count.lanes += where.size if active is None else int(np.count_nonzero(active))
        # Conflicts do not change when all addresses move; lines do, by less than a line.
        first = where[:, :1]
        moved = where - first
        if space == "global":
            moved += first % self._line
        if active is not None:
            moved = np.where(active, moved, -1)
        rows = _repeating(moved, waves)
        repeated = len(moved) // len(rows)
        for row in rows:
            extra, least = self._pattern(site, space, row, size, writes=writes)
            if space == "global":
                count.lines += extra * repeated
                count.least_lines += least * repeated
            else:
                count.conflicts += extra * repeated

    def _pattern(
        self, site: int, space: str, row: Array, size: int, *, writes: bool
    ) -> tuple[int, int]:
        key = (size * 2 + writes, space, row.tobytes())
        known = self._patterns.get(key)
        if known is None:
            if space == "global":
                known = lines_touched(row[row != -1], size, self._line)
            else:
                phases = phases_of(self._arch, size, len(row), writes=writes)
                # A lane's offset from the first may be negative: whole rows of banks are added.
                addresses = row - min(int(row.min()), 0) // 256 * 256
                known = (conflict_cycles(phases, addresses, row != -1, size), 0)
            if len(self._patterns) < MOST_PATTERNS:
                self._patterns[key] = known
        return known


def _repeating(moved: Array, waves: Waves) -> Array:
    """The rows that stand for all: one, those of one workgroup where all do alike, or all."""
    each = int(np.count_nonzero(waves.workgroup == waves.workgroup[0]))
    if len(moved) % each == 0:
        first = moved[:each]
        if (moved.reshape(-1, each, moved.shape[1]) == first).all():
            return first[:1] if (first == first[:1]).all() else first
    return moved


def lines_touched(addresses: Array, size: int, line: int) -> tuple[int, int]:
    """Cache lines that lanes touch, and the least that their distinct bytes need.

    Args:
        addresses: of the active lanes, in bytes.
        size: bytes of each.
        line: bytes of a line.
    """
    if not len(addresses):
        return 0, 0
    distinct = np.unique(addresses)
    lines = np.unique(np.concatenate([distinct // line, (distinct + size - 1) // line]))
    gaps = np.minimum(np.diff(distinct), size)
    covered = int(gaps.sum()) + size
    return len(lines), -(-covered // line)
