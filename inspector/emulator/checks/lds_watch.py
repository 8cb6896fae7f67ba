"""Accesses of LDS as they happen, held against a shadow of it: races between waves."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..machine import LaneAccess
from ..memory import LocalMemory
from ..waves import Array, Waves
from .lds_shadow import LdsShadow, Races
from .watched import Note, WatchedWorkgroups

MOST_READS: Final = 1024
"""Instructions whose last read is kept. No more can be outstanding: a counter holds 63, and divided
waves have one each.
"""
_WAVES: Final = 64
"""More than a workgroup has."""


class LdsWatch:
    """The accesses of LDS by the workgroups that are resident.

    `barriers`: how many barriers each workgroup has passed, int64 [slot]; others count.
    """

    def __init__(
        self,
        local: LocalMemory,
        granule: int,
        barriers: Array,
        watched: WatchedWorkgroups,
        note: Note,
    ) -> None:
        self._local = local
        self._shadow = LdsShadow(local, watched.slots, granule, barriers)
        self._watched = watched
        self._note = note
        self._reads: dict[int, tuple[Array, Array, Array, int]] = {}
        """Read of LDS, by index -> offsets, workgroups and waves of its last lanes, bytes; the last
        ones that were executed, since no others can be outstanding."""

    def before(self, access: LaneAccess, values: Array | None) -> None:
        """An access is about to happen."""
        lanes = self._watched.lanes(access, values)
        if lanes is None:
            return
        site, size = access.site, access.size
        offsets, slots, numbers, values = lanes
        if values is None:
            self._reads.pop(site, None)  # it becomes the youngest
            self._reads[site] = (offsets, slots, numbers, size)
            if len(self._reads) > MOST_READS:
                del self._reads[next(iter(self._reads))]
            races, unwritten = self._shadow.read(offsets, slots, numbers, size)
            if unwritten:
                self._note("lds_uninitialised", site, f"{size} bytes that nobody has written")
        else:
            same = self._holds(offsets, values, size)
            races = self._shadow.write(offsets, slots, numbers, size, same)
        self._note_races(site, races, writes=values is not None)

    def after(self, access: LaneAccess, values: Array) -> None:
        """A write has happened."""
        lanes = self._watched.lanes(access, values)
        if lanes is None:
            return
        offsets, slots, numbers, written = lanes
        assert written is not None
        same = self._holds(offsets, written, access.size)
        races = self._shadow.collided(offsets, slots, numbers, access.size, same)
        self._note_races(access.site, races, writes=True)

    def come_to_barrier(self, waves: Waves) -> None:
        """Notes accesses that no wait has covered when waves arrive at a barrier."""
        for queue in waves.outstanding.queues.values():
            for entry in queue:
                if entry.registers and entry.site in self._reads:
                    self._delayed_reads(entry.site, waves)
                for where, usable in entry.lds_writes():
                    access = LaneAccess(entry.site, waves, where, usable, entry.lds_bytes)
                    lanes = self._watched.lanes(access, None)
                    if lanes is not None:
                        self._shadow.delayed(*lanes[:3], entry.lds_bytes)

    def _delayed_reads(self, site: int, waves: Waves) -> None:
        """The last reads of an instruction, which no wait has covered yet, cross a barrier."""
        offsets, slots, numbers, size = self._reads[site]
        arriving = np.zeros((self._watched.slots, _WAVES), bool)
        arriving[waves.workgroup, waves.wave] = True
        concerned = arriving[slots, numbers]
        self._shadow.delayed_read(offsets[concerned], slots[concerned], numbers[concerned], size)

    def _holds(self, offsets: Array, values: Array, size: int) -> Array:
        """Whether memory holds each lane's value, bool [lane]."""
        if not len(offsets):
            return np.zeros(0, bool)
        equal = self._local.words.gather(offsets, size) == values
        return equal if equal.ndim == 1 else np.asarray(equal.all(0))

    def _note_races(self, site: int, races: Races, *, writes: bool) -> None:
        if not races.lanes:
            return
        act = "reads LDS that another wave writes"
        if writes:
            act = "writes LDS that another wave reads or writes"
        why = "with no barrier between"
        if races.late:
            why = "and had not waited for when it came to the barrier between"
        self._note("lds_race", site, f"{act} {why}")
