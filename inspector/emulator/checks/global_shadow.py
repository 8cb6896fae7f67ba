"""Who touched which byte of global memory last: races between workgroups, and between their waves.

Workgroups of one launch run in any order. Two race where one writes what the other reads or
writes and nothing orders them. Atomics order them: if both have carried one out since the earlier
access (or a load or store that goes past the caches to the device, as volatile ones do), the later
one may have learnt that the earlier one is done. Whether it did, by the right address and with the
right fences, is not checked: locks, counters and stream-K's flags are never reported, and some
races are missed.

Waves of one workgroup race where one reads or overwrites what another wrote, and neither a barrier
of the workgroup has opened since nor has one of its waves carried out an atomic, of LDS or of
global memory. A write over what another wave has read is no race here: compilers let all waves load
the same, and one of them store. Whether the stores before a barrier were waited for is not checked,
nor is what stands between the halves of a split barrier: it opens when the last wave signals.

Lanes of one wave that store different values to one place in one instruction are told as well:
which of them stays is not defined.

Those that write the same value to the same place do no harm. Atomics do not race with each
other. Not watched: scalar loads, reads before the first write to a buffer but for those of a few
workgroups, and buffers of more than `MOST_GRANULES`. Of an access that runs past a buffer, the
lanes inside are watched.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
from msgspec import Struct

from ..memory import Buffer

Array = np.ndarray[Any, Any]
I64 = np.int64
Overwritten = Literal["lane", "wave", "workgroup"]
"""Whose write came after a lane's, in the same step."""

_SHIFT: Final = I64(32)
_OWNER: Final = I64((1 << 32) - 1)
_SEVERAL: Final = _OWNER
"""Stands for the workgroup where more than one has read; the time is that of the first."""


MOST_GRANULES: Final = 1 << 26
"""Granules of one buffer, at most; each takes 8 bytes for its writer and 8 for its readers."""
MOST_POSTPONED: Final = 1 << 20
"""Lanes of reads of one buffer that are kept; each takes 16 bytes."""


class Granules(Struct, frozen=True):
    """Which granules of a buffer workgroups touched.

    Args:
        size: bytes of each.
        written: bool [granule].
        read: bool [granule]; None: none.
    """

    size: int
    written: Array
    read: Array | None


class _Read(Struct, frozen=True):
    """A read of a buffer that nobody had written yet: offsets and workgroups [lane], its time."""

    offsets: Array
    groups: Array
    size: int
    time: np.int64


class _Stamps:
    """Last writers and readers of a buffer's granules.

    Writers are kept as time << 32 | wave + 1, the wave as `GlobalShadow.numbers` has it; readers as
    time << 32 | workgroup + 1. Reads matter to later writes alone. Those that come before the first
    write are therefore kept as they are, and noted when one comes: most buffers are read only.
    """

    def __init__(self, size: int, granule: int) -> None:
        self.granule = granule
        self.writers = np.zeros(size // granule + 2, I64)
        self.written = False
        self._readers: Array | None = None
        self._reads: list[_Read] = []
        self._lanes = 0

    @property
    def readers(self) -> Array | None:
        """Stamps of the last readers, int64 [granule]; None where nobody has read."""
        self._note_postponed()
        return self._readers

    def postpone(self, read: _Read) -> None:
        """Keeps a read until somebody asks for the readers."""
        self._reads.append(read)
        self._lanes += len(read.offsets)
        if self._lanes > MOST_POSTPONED:
            self._note_postponed()

    def _note_postponed(self) -> None:
        """Stamps the granules of the reads that were kept, in their order."""
        for read in self._reads:
            self.note_read(read)
        self._reads, self._lanes = [], 0

    def note_read(self, read: _Read) -> None:
        """Stamps the granules of a read."""
        if self._readers is None:
            self._readers = np.zeros(len(self.writers), I64)
        granules = self.granules_of(read.offsets, read.size)
        owners = read.groups + 1
        before, stamps = self._readers.take(granules), (read.time << _SHIFT) | owners
        others = (before != 0) & ((before & _OWNER) != owners)
        self._readers[granules] = np.where(others, (before & ~_OWNER) | _SEVERAL, stamps)
        # Another workgroup reads it at the same time.
        lost = (self._readers.take(granules) != stamps) & ~others
        if lost.any():
            self._readers[granules[lost]] = (read.time << _SHIFT) | _SEVERAL

    def granules_of(self, offsets: Array, size: int) -> Array:
        """The granules of every lane's access, int64 [granule, lane].

        In this order where several lanes write one: `MemoryWords.scatter` writes dword by dword.
        """
        first = offsets >> (self.granule.bit_length() - 1)
        return first + np.arange(max(size // self.granule, 1))[:, None]

    def make_finer(self, granule: int) -> None:
        """Splits the granules into smaller ones, for an access that begins inside of one."""
        times = self.granule // granule
        self.writers = np.repeat(self.writers, times)
        readers = self.readers
        if readers is not None:
            self._readers = np.repeat(readers, times)
        self.granule = granule


class _Pending(Struct, frozen=True):
    """A write between its announcement and its end."""

    buffer: Buffer
    stamps: _Stamps
    offsets: Array
    granules: Array
    own: Array
    size: int
    values: Array

    def is_aligned(self) -> bool:
        """Whether all offsets are multiples of the access's size, a power of two."""
        below = self.size - 1
        return not self.size & below and not (self.offsets & below).any()

    def holds(self) -> Array:
        """Whether memory holds each lane's value, bool [lane]."""
        assert self.buffer.words is not None
        equal = self.buffer.words.gather(self.offsets, self.size) == self.values
        return equal if equal.ndim == 1 else np.asarray(equal.all(0))


def _is_overwritten_by_lanes(pending: _Pending) -> bool:
    """Whether lanes of one wave wrote different values to one place in one instruction."""
    lost = ~pending.holds()
    if not lost.any():
        return False
    # Others that overwrote it have stamps of their own; an access that lies across is theirs.
    now = pending.stamps.writers.take(pending.granules[0])
    lost &= now == pending.own
    return bool(lost.any())


class GlobalShadow:
    """The accesses of a launch.

    `granule`: bytes of the narrowest store: 1, 2, 4, 8 or 16. `waves`: of each workgroup. They are
    not told apart where the grid has too many for a stamp.
    """

    def __init__(self, workgroups: int, granule: int, waves: int) -> None:
        bits = waves.bit_length() if waves > 1 else 0
        self._wave_bits = bits if workgroups << bits < int(_SEVERAL) else 0
        self._shared = (1 << self._wave_bits) - 1
        """Stands for a workgroup's wave where several have written the same; no wave has it."""
        self._granule = granule
        self._stamps: dict[int, _Stamps] = {}
        self._ordered = np.zeros(workgroups, I64)
        self._met = np.zeros(workgroups if self._wave_bits else 0, I64)
        """When a workgroup's waves last met: at a barrier, or by an atomic of LDS."""
        self.within = False
        """Whether the last race that was reported is one of waves of one workgroup."""
        self._time = I64(0)
        self._pending: list[_Pending] = []

    def numbers(self, groups: Array, waves: Array) -> Array:
        """Numbers waves throughout the grid, as accesses take them."""
        return groups << self._wave_bits | waves if self._wave_bits else groups

    def meet(self, groups: Array) -> None:
        """Notes that waves met within these workgroups: at a barrier, or by an atomic of LDS."""
        if self._wave_bits and self._stamps:
            self._time += I64(1)
            self._met[groups] = self._time

    def orders(self, groups: Array) -> None:
        """Notes that workgroups carried out an operation that may order them with others."""
        self._time += I64(1)
        self._ordered[groups] = self._time

    def read(self, buffer: Buffer, offsets: Array, waves: Array, size: int) -> int:
        """Notes a read, for later writes over it.

        `offsets`: in it [lane], in bytes. `waves`: the lanes' waves, int64 [lane]; see `numbers`.
        Returns lanes that read what another workgroup or wave writes.
        """
        stamps = self._stamps_of(buffer, offsets)
        if stamps is None:
            return 0
        self._time += I64(1)
        read = _Read(offsets, waves >> self._wave_bits, size, self._time)
        if not stamps.written:
            stamps.postpone(read)
            return 0
        written = stamps.writers.take(stamps.granules_of(offsets, size))
        stamps.note_read(read)
        racing, inside = self._after_writes(written, waves)
        if not racing.any():
            return 0
        if self._wave_bits:
            harmless = inside & (((written & _OWNER) - 1) & self._shared == self._shared)
            racing, inside = racing & ~harmless, inside & ~harmless
        return self._count(racing, inside)

    def write(self, buffer: Buffer, offsets: Array, waves: Array, size: int, values: Array) -> int:
        """Notes a write, before it is done; `written` is to follow those of an instruction.

        `values`: as `MemoryWords.scatter` takes them. Returns lanes that write what another
        workgroup reads or writes, or another wave writes.
        """
        stamps = self._stamps_of(buffer, offsets)
        if stamps is None:
            return 0
        granules = stamps.granules_of(offsets, size)
        self._time += I64(1)
        own = (self._time << _SHIFT) | (waves + 1)
        pending = _Pending(buffer, stamps, offsets, granules, own, size, values)
        self._pending.append(pending)
        racing = inside = np.zeros(granules.shape, bool)
        if stamps.written:
            racing, inside = self._after_writes(stamps.writers.take(granules), waves)
        readers = stamps.readers
        if readers is not None:
            crossing = self._unordered(readers.take(granules), waves >> self._wave_bits)
            racing, inside = racing | crossing, inside & ~crossing
        stamps.writers[granules] = own
        stamps.written = True
        if not racing.any():
            return 0
        same = pending.holds()
        self._forget(pending, racing & same, inside)
        return self._count(racing & ~same, inside)

    def _forget(self, pending: _Pending, same: Array, inside: Array) -> None:
        """Takes the wave from stamps: nobody can tell who was last where all write the same."""
        writers = pending.stamps.writers
        if self._wave_bits and (kept := same & inside).any():
            own = np.broadcast_to(pending.own, same.shape)[kept]
            writers[pending.granules[kept]] = (own - 1 | self._shared) + 1
            same = same ^ kept
        writers[pending.granules[same]] = 0

    def _count(self, racing: Array, inside: Array) -> int:
        """Counts lanes that race, and notes whether they do so within their workgroups alone."""
        count = int(np.count_nonzero(racing))
        self.within = count > 0 and not (racing & ~inside).any()
        return count

    def written(self) -> list[tuple[Buffer, Overwritten]]:
        """Ends writes; returns the buffers in which lanes' values were overwritten, and by whom."""
        ended, self._pending = self._pending, []
        found: list[tuple[Buffer, Overwritten]] = []
        for each in ended:
            if self._is_overwritten(each):
                found.append((each.buffer, "wave" if self.within else "workgroup"))
            elif _is_overwritten_by_lanes(each):
                found.append((each.buffer, "lane"))
        return found

    def _is_overwritten(self, pending: _Pending) -> bool:
        """Tells whether somebody else overwrote other values in the step that has ended."""
        granules = pending.granules
        if pending.is_aligned():
            granules = granules[:1]  # lanes lie on one another or apart: one granule tells of all
        now = pending.stamps.writers.take(granules)
        lost = (now != pending.own) & (now != 0)
        if not lost.any():
            return False
        inside = np.zeros_like(lost)
        if self._wave_bits:
            # Both have the same time, so that stamps of one workgroup differ in the wave alone.
            inside = lost & (now - 1 >> self._wave_bits == pending.own - 1 >> self._wave_bits)
        same, shape = pending.holds(), pending.granules.shape
        self._forget(pending, np.broadcast_to(lost & same, shape), np.broadcast_to(inside, shape))
        return self._count(lost & ~same, inside) > 0

    def atomic(self, buffer: Buffer, offsets: Array, waves: Array, size: int) -> int:
        """Notes an atomic access; returns how many lanes meet another workgroup's plain write."""
        self.orders(waves >> self._wave_bits)
        if buffer.address not in self._stamps:
            return 0
        stamps = self._stamps_of(buffer, offsets)
        if stamps is None:
            return 0
        if not stamps.written:
            return 0
        written = stamps.writers.take(stamps.granules_of(offsets, size))
        return self._count(*self._after_writes(written, waves))

    def granules(self) -> dict[int, Granules]:
        """Returns the granules touched of each buffer that is watched, by the buffer's address."""
        return {
            address: Granules(
                stamps.granule,
                stamps.writers != 0,
                None if (readers := stamps.readers) is None else readers != 0,
            )
            for address, stamps in self._stamps.items()
        }

    def _after_writes(self, stamps: Array, waves: Array) -> tuple[Array, Array]:
        """Which writes are another's that nothing may have ordered with this access."""
        if not self._wave_bits:
            racing = self._unordered(stamps, waves)
            return racing, np.zeros_like(racing)
        racing = stamps != 0
        if not racing.any():
            return racing, racing
        other = stamps & _OWNER
        racing &= other != waves + 1
        if not racing.any():
            return racing, racing
        groups = waves >> self._wave_bits
        inside = (other - 1) >> self._wave_bits == groups
        inside &= racing
        # Most often a barrier stands between.
        racing ^= inside & (self._met.take(groups) > stamps >> _SHIFT)
        if not racing.any():
            return racing, racing
        chosen = np.nonzero(racing)
        times, others = stamps[chosen] >> _SHIFT, (other[chosen] - 1) >> self._wave_bits
        own_later = self._ordered.take(groups[chosen[1]]) > times
        racing[chosen] = ~(own_later & (self._ordered.take(others) > times))
        inside &= racing
        return racing, inside

    def _unordered(self, stamps: Array, groups: Array) -> Array:
        """Which stamps are another workgroup's that nothing may have ordered with this access."""
        racing = stamps != 0
        if not racing.any():
            return racing
        other = stamps & _OWNER
        racing &= other != groups + 1
        if not racing.any():
            return racing
        chosen = np.nonzero(racing)
        times, several = stamps[chosen] >> _SHIFT, other[chosen] == _SEVERAL
        own_later = self._ordered[np.broadcast_to(groups, racing.shape)[chosen]] > times
        other_later = self._ordered[np.where(several, 1, other[chosen]) - 1] > times
        racing[chosen] = ~(own_later & (other_later | several))
        return racing

    def _stamps_of(self, buffer: Buffer, offsets: Array) -> _Stamps | None:
        """Returns a buffer's stamps, made finer where an access begins inside of a granule."""
        low_bits = int(np.bitwise_or.reduce(offsets))
        stamps = self._stamps.get(buffer.address)
        granule = self._granule if stamps is None else stamps.granule
        finer = min(granule, low_bits & -low_bits) if low_bits else granule
        if buffer.size // finer > MOST_GRANULES:
            self._stamps.pop(buffer.address, None)
            return None
        if stamps is None:
            stamps = self._stamps[buffer.address] = _Stamps(buffer.size, finer)
        elif finer < granule:
            stamps.make_finer(finer)
        return stamps
