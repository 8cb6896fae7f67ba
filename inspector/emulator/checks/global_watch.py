"""Accesses of global memory as they happen, held against a shadow of it.

Races are looked for between workgroups, and between the waves of each.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from ..machine import LaneAccess
from ..memory import Buffer, GlobalMemory
from ..waves import Array
from .global_shadow import GlobalShadow, Granules
from .watched import Note, WatchedWorkgroups


class _Part(Struct, frozen=True):
    """Lanes of an access that lie in one buffer.

    Args:
        offsets: in it [lane], in bytes.
        waves: the lanes' waves as `GlobalShadow.numbers` has them, int64 [lane].
        lanes: which of the access's usable lanes they are; None for all.
    """

    buffer: Buffer
    offsets: Array
    waves: Array
    lanes: Array | None


class GlobalWatch:
    """The accesses of global memory in a launch.

    Reads of buffers that nobody has written yet are noted for a few workgroups alone, of those that
    are resident first.
    """

    def __init__(self, shadow: GlobalShadow, note: Note) -> None:
        self._shadow = shadow
        self._note = note
        self._watched = WatchedWorkgroups(0)
        self._slices = 0

    def move_in(self, watched: WatchedWorkgroups) -> None:
        """Makes the next workgroups resident."""
        self._watched = watched
        self._slices += 1

    def granules(self) -> dict[int, Granules]:
        """Returns the touched granules of each buffer, by its address."""
        return self._shadow.granules()

    def meet(self, groups: Array) -> None:
        """Waves met within these workgroups (their numbers in the grid); see `GlobalShadow`."""
        self._shadow.meet(groups)

    def before(
        self, memory: GlobalMemory, access: LaneAccess, values: Array | None, *, atomic: bool
    ) -> None:
        """An access is about to happen.

        `values`: what a write writes, as `MemoryWords.scatter` takes it; None for a read.
        """
        orders = atomic or access.coherent
        for part in self._parts(memory, access, everyone=orders or values is not None):
            lanes = part.buffer, part.offsets, part.waves
            if orders:
                racing = self._shadow.atomic(*lanes, access.size)
            elif values is None:
                racing = self._shadow.read(*lanes, access.size)
            else:
                of_part = values if part.lanes is None else values[..., part.lanes]
                racing = self._shadow.write(*lanes, access.size, of_part)
            if racing:
                writes, within = values is not None, self._shadow.within
                self._note_race(access.site, part.buffer, writes=writes, within=within)

    def after(self, site: int) -> None:
        """A write that `before` announced has happened."""
        for buffer, whose in self._shadow.written():
            if whose == "lane":
                name = buffer.name or "a buffer"
                told = f"its lanes write different values to one place in {name}"
                self._note("global_race", site, told)
            else:
                self._note_race(site, buffer, writes=True, within=whose == "wave")

    def _parts(
        self, memory: GlobalMemory, access: LaneAccess, *, everyone: bool
    ) -> Iterator[_Part]:
        """Yields the watched lanes of each buffer; those outside of all are left out."""
        waves, where, usable = access.waves, access.where, access.usable
        if usable is not None and usable.all():
            usable = None
        first = 0 if usable is None else int(usable.argmax())
        if usable is not None and not usable.reshape(-1)[first]:
            return
        buffer = memory.buffer_at(int(where.reshape(-1)[first]))
        numbers = self._shadow.numbers(waves.group_id, waves.wave)
        if not (everyone or buffer is None or buffer.words is None or buffer.words.written):
            if self._slices > 1:
                return
            index = self._watched.waves(waves)[0]
            if not len(index):
                return
            where, numbers = where[index], numbers[index]
            usable = None if usable is None else usable[index]
        addresses, owners = where.reshape(-1), np.repeat(numbers, waves.lanes)
        if usable is not None:
            active = np.flatnonzero(usable)
            if not len(active):
                return
            addresses, owners = addresses.take(active), owners.take(active)
        if buffer is not None:
            offsets = addresses - buffer.address
            if int(offsets.view(np.uint64).max()) + access.size <= buffer.size:
                yield _Part(buffer, offsets, owners, None)
                return
        for number in np.unique(np.searchsorted(memory.starts, addresses, side="right")):
            if not number:
                continue
            buffer = memory.buffers[number - 1]
            offsets = addresses - buffer.address
            lanes = np.flatnonzero((offsets >= 0) & (offsets <= buffer.size - access.size))
            if len(lanes):
                yield _Part(buffer, offsets.take(lanes), owners.take(lanes), lanes)

    def _note_race(self, site: int, buffer: Buffer, *, writes: bool, within: bool) -> None:
        """Notes a race; `within`: of waves of one workgroup, not of workgroups."""
        other = "another wave of its workgroup" if within else "another workgroup"
        act = f"reads what {other} writes"
        if writes:
            act = f"writes what {other} {'writes' if within else 'reads or writes'}"
        name, lacking = buffer.name or "a buffer", "barrier" if within else "atomic of both"
        self._note("global_race", site, f"{act} in {name}, and no {lacking} stands between")
