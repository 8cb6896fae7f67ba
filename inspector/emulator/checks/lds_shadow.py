"""Who touched which byte of LDS since the last barrier: races between the waves of a workgroup.

Two waves race where one writes what the other reads or writes, and no barrier both passed stands
between. LDS is looked at in granules as small as the kernel's narrowest access. Waves that write
the same value to the same place (a layout that holds elements twice) do no harm: they are left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from ..memory import LocalMemory

Array = np.ndarray[Any, Any]

SEVERAL = 62
"""Stands for the wave where more than one has read since the barrier."""
_EPOCH = 64
"""One barrier: stamps are epoch * 64 + wave + 1, and 0 where nobody came yet."""
MOST_POSTPONED = 64
"""Reads that are kept."""


class _Read(Struct, frozen=True):
    """A read whose stamps are not yet noted.

    Args:
        granules: int64 [granule, lane].
        slots: the lanes' workgroups, int64 [lane].
        epochs: barriers that these had passed, int64 [lane].
        stamps: int64 [lane].
    """

    granules: Array
    slots: Array
    epochs: Array
    stamps: Array


class Races(Struct, frozen=True):
    """Lanes of one access that race; `late`: with one that was not waited for at the barrier."""

    lanes: int
    late: bool = False


class LdsShadow:
    """The last writer and the readers of each granule.

    `granule`: bytes: 1, 2, 4, 8 or 16. `barriers`: how many barriers each workgroup has passed,
    int64 [slot]; others count.
    """

    def __init__(self, local: LocalMemory, slots: int, granule: int, barriers: Array) -> None:
        self._granule = granule
        self._writers = np.zeros(local.stride * slots // granule + 16, np.int64)
        self._readers = np.zeros(local.stride * slots // granule + 16, np.int64)
        self._epochs = barriers
        # Granules whose last access was still outstanding when its wave arrived at a barrier.
        self._late = np.zeros(len(self._writers), bool)
        # A read matters to writes before the next barrier, and most are done behind it: a read is
        # noted when one comes, unless all its workgroups have passed a barrier since.
        self._reads: list[_Read] = []

    def read(self, where: Array, slots: Array, waves: Array, size: int) -> tuple[Races, int]:
        """Notes a read.

        `where`: byte offsets in all LDS [lane]. Returns lanes that read what another wave wrote
        since the barrier, and how many read what nobody has written.
        """
        granules, epochs = self._granules(where, size), self._epochs.take(slots)
        first = epochs * _EPOCH
        stamps = first + waves + 1
        written = self._writers.take(granules)
        racing = (written > first) & (written != stamps)
        self._reads.append(_Read(granules, slots, epochs, stamps))
        if len(self._reads) > MOST_POSTPONED:
            self._note_reads()
        return self._races(granules, racing), int(np.count_nonzero(written == 0))

    def _note_reads(self) -> None:
        """Stamps the granules of all reads that were postponed."""
        for read in self._reads:
            if not (self._epochs.take(read.slots) == read.epochs).any():
                continue
            self._stamp_reads(read.granules, read.epochs * _EPOCH, read.stamps)
        self._reads = []

    def _stamp_reads(self, granules: Array, first: Array, stamps: Array) -> None:
        readers = self._readers.take(granules)
        several = (readers > first) & (readers != stamps)
        self._readers[granules] = np.where(several, first + SEVERAL + 1, stamps)
        # Two waves in this very instruction: the later one's stamp stands, the other's is missing.
        lost = (self._readers.take(granules) != stamps) & ~several
        if lost.any():
            self._readers[granules[lost]] = np.broadcast_to(first, lost.shape)[lost] + SEVERAL + 1

    def write(self, where: Array, slots: Array, waves: Array, size: int, same: Array) -> Races:
        """Notes a write, before it is done; see `read`.

        `same`: bool [lane]: memory holds this lane's value already. Returns lanes that write what
        another wave has read or written since the barrier.
        """
        self._note_reads()
        granules = self._granules(where, size)
        first = self._epochs.take(slots) * _EPOCH
        stamps = first + waves + 1
        written, readers = self._writers.take(granules), self._readers.take(granules)
        racing = (written > first) & (written != stamps)
        racing |= (readers > first) & (readers != stamps)
        racing &= ~same
        races = self._races(granules, racing)
        self._writers[granules] = stamps
        self._late[granules] = False
        return races

    def _races(self, granules: Array, racing: Array) -> Races:
        return Races(int(np.count_nonzero(racing)), bool(self._late[granules[racing]].any()))

    def collided(self, where: Array, slots: Array, waves: Array, size: int, same: Array) -> Races:
        """Ends a write; returns the lanes whose values another wave overwrote in the same step.

        `same`: bool [lane]: memory holds this lane's value now.
        """
        lost = np.flatnonzero(~same)
        if not len(lost):
            return Races(0)
        granules = self._granules(where[lost], size)
        stamps = self._epochs[slots[lost]] * _EPOCH + waves[lost] + 1
        return Races(int(np.count_nonzero(self._writers[granules] != stamps)))

    def delayed(self, where: Array, slots: Array, waves: Array, size: int) -> None:
        """Notes writes that no wait has covered when their wave arrives at a barrier.

        They may happen on its other side, so that they count there.
        """
        self._note_reads()
        granules = self._granules(where, size)
        self._writers[granules] = (self._epochs[slots] + 1) * _EPOCH + waves + 1
        self._late[granules] = True

    def delayed_read(self, where: Array, slots: Array, waves: Array, size: int) -> None:
        """Notes reads that no wait has covered when their wave arrives at a barrier, likewise."""
        self._note_reads()
        granules = self._granules(where, size)
        following = (self._epochs[slots] + 1) * _EPOCH
        stamps = following + waves + 1
        readers = self._readers[granules]
        others = (readers > following) & (readers != stamps)
        self._readers[granules] = np.where(others, following + SEVERAL + 1, stamps)
        self._late[granules] = True

    def _granules(self, where: Array, size: int) -> Array:
        """The granules of every lane's access, int64 [granule, lane].

        In this order where several lanes write one: `MemoryWords.scatter` writes dword by dword.
        """
        first = where // self._granule
        return first + np.arange(max(size // self._granule, 1))[:, None]
