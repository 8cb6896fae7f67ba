"""Accesses of global memory as they happen, held against a shadow of it: races of workgroups."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from ..memory import Buffer, GlobalMemory, first_active
from ..registry import BuildContext
from ..waves import Array, Waves
from .global_shadow import GlobalShadow, Granules
from .lds_watch import Note, WatchedWorkgroups


class GlobalAccess(Struct):
    """An access of global memory by the lanes of some waves.

    Args:
        waves: who accesses.
        where: addresses, int64 [wave, lane].
        usable: which lanes do, bool [wave, lane]; None for all.
        size: bytes of each lane.
    """

    waves: Waves
    where: Array
    usable: Array | None
    size: int


class GlobalWatch:
    """The accesses of global memory in a launch.

    Reads of buffers that nobody has written yet are noted for a few workgroups alone, of those that
    are resident first.

    Args:
        shadow: what is known of every granule of memory.
        note: takes troubles.
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

    def before(
        self,
        context: BuildContext,
        memory: GlobalMemory,
        access: GlobalAccess,
        values: Array | None,
        *,
        atomic: bool,
    ) -> None:
        """An access is about to happen.

        Args:
            context: the instruction's.
            memory: the buffers.
            access: the lanes.
            values: what a write writes, as `MemoryWords.scatter` takes it; None for a read.
            atomic: whether it is an atomic operation.
        """
        orders = atomic or context.coherent
        lanes = self._lanes_of_buffer(memory, access, everyone=orders or values is not None)
        if lanes is None:
            return
        if orders:
            racing = self._shadow.atomic(*lanes, access.size)
        elif values is None:
            racing = self._shadow.read(*lanes, access.size)
        else:
            racing = self._shadow.write(*lanes, access.size, values)
        if racing:
            self._note_race(context.index, lanes[0], writes=values is not None)

    def after(
        self, context: BuildContext, memory: GlobalMemory, where: Array, usable: Array | None
    ) -> None:
        """A write that `before` announced, with these addresses and lanes, has happened."""
        if self._shadow.written():
            buffer = memory.buffer_at(first_active(where, usable) or 0)
            assert buffer is not None
            self._note_race(context.index, buffer, writes=True)

    def _lanes_of_buffer(
        self, memory: GlobalMemory, access: GlobalAccess, *, everyone: bool
    ) -> tuple[Buffer, Array, Array] | None:
        """Buffer, offsets in it and workgroups of the lanes that are watched, [lane].

        Returns:
            None for lanes that lie in several buffers, or of which nothing can be reported.
        """
        waves, where, usable = access.waves, access.where, access.usable
        if usable is not None and usable.all():
            usable = None
        first = 0 if usable is None else int(usable.argmax())
        if usable is not None and not usable.reshape(-1)[first]:
            return None
        buffer = memory.buffer_at(int(where.reshape(-1)[first]))
        if buffer is None or buffer.words is None:
            return None
        groups = waves.group_id
        if not (everyone or buffer.words.written):
            if self._slices > 1:
                return None
            index = self._watched.waves(waves)[0]
            if not len(index):
                return None
            where, groups = where[index], groups[index]
            usable = None if usable is None else usable[index]
        offsets = (where - buffer.address).reshape(-1)
        owners = np.repeat(groups, waves.lanes)
        if usable is not None:
            lanes = np.flatnonzero(usable)
            if not len(lanes):
                return None
            offsets, owners = offsets.take(lanes), owners.take(lanes)
        if int(offsets.view(np.uint64).max()) + access.size > buffer.size:
            return None
        return buffer, offsets, owners

    def _note_race(self, site: int, buffer: Buffer, *, writes: bool) -> None:
        act = "reads what another workgroup writes"
        if writes:
            act = "writes what another workgroup reads or writes"
        name = buffer.name or "a buffer"
        self._note("global_race", site, f"{act} in {name}, and no atomic of both stands between")
