"""Accesses of LDS as they happen, held against a shadow of it: races between waves.

Of many workgroups a few are watched: what one does the others do as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from ..machine import LaneAccess
from ..memory import LocalMemory
from ..waves import Array, Waves
from .lds_shadow import LdsShadow

WATCHED_WORKGROUPS: Final = 4
"""Workgroups that are watched for races, of those that run together."""
MOST_READS: Final = 1024
"""Reads of LDS that are kept: a counter holds 15 or 63, in groups of waves that went apart."""

Note = Callable[[str, int, str], None]
"""Takes a trouble: its kind, the index of the instruction, what happened (`machine.Trouble`)."""


class WatchedWorkgroups:
    """The resident workgroups that are watched."""

    def __init__(self, slots: int) -> None:
        self._is_watched = np.zeros(slots, bool)
        self._is_watched[np.linspace(0, slots - 1, min(slots, WATCHED_WORKGROUPS)).astype(int)] = (
            True
        )
        self._last_workgroups: Array | None = None
        nobody = np.zeros(0, np.int64)
        self._last_waves: tuple[Array, Array, Array] = (nobody, nobody, nobody)

    @property
    def slots(self) -> int:
        """How many workgroups are resident, watched or not."""
        return len(self._is_watched)

    def waves(self, waves: Waves) -> tuple[Array, Array, Array]:
        """Which waves are watched, and the workgroups and wave numbers of their lanes, [lane].

        The same waves usually come again and again, with the same array of workgroups.
        """
        if self._last_workgroups is not waves.workgroup:
            index = np.flatnonzero(self._is_watched[waves.workgroup])
            slots = np.repeat(waves.workgroup[index], waves.lanes)
            numbers = np.repeat(waves.wave[index].astype(np.int32), waves.lanes)
            self._last_workgroups, self._last_waves = waves.workgroup, (index, slots, numbers)
        return self._last_waves

    def lanes(
        self, access: LaneAccess, values: Array | None
    ) -> tuple[Array, Array, Array, Array | None] | None:
        """Offsets, workgroups, wave numbers and values of the lanes that are watched, [lane].

        `values`: what a write writes, as `MemoryWords.scatter` takes it; None for a read. Returns
        None where nobody is watched.
        """
        _, waves, where, usable, _, _ = access
        index, slots, numbers = self.waves(waves)
        if not len(index):
            return None
        everyone = len(index) == waves.count
        if values is not None and not everyone:
            if usable is None:
                rows = values.reshape(*values.shape[:-1], *where.shape)
                values = rows[..., index, :].reshape(*values.shape[:-1], -1)
            else:
                lanes = np.broadcast_to(self._is_watched[waves.workgroup][:, None], where.shape)
                values = values[..., lanes[usable]]
        chosen = where if everyone else where[index]
        if usable is not None:
            active = usable if everyone else usable[index]
            if not active.all():
                flat = active.reshape(-1)
                return chosen[active], slots[flat], numbers[flat], values
        return chosen.reshape(-1), slots, numbers, values


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
            self._reads.pop(site, None)
            self._reads[site] = (offsets, slots, numbers, size)
            if len(self._reads) > MOST_READS:
                del self._reads[next(iter(self._reads))]
            racing, unwritten = self._shadow.read(offsets, slots, numbers, size)
            if unwritten:
                self._note("lds_uninitialised", site, f"{size} bytes that nobody has written")
        else:
            same = self._holds(offsets, values, size)
            racing = self._shadow.write(offsets, slots, numbers, size, same)
        if racing:
            self._note_race(site, writes=values is not None)

    def after(self, access: LaneAccess, values: Array) -> None:
        """A write has happened."""
        lanes = self._watched.lanes(access, values)
        if lanes is None:
            return
        offsets, slots, numbers, written = lanes
        assert written is not None
        same = self._holds(offsets, written, access.size)
        if self._shadow.collided(offsets, slots, numbers, access.size, same):
            self._note_race(access.site, writes=True)

    def come_to_barrier(self, waves: Waves) -> None:
        """Notes accesses that no wait has covered when waves arrive at a barrier."""
        for queue in waves.outstanding.queues.values():
            for entry in queue:
                if entry.registers and entry.site in self._reads:
                    self._delayed_reads(entry.site, waves)
                for index in range(0, len(entry.arrays) if entry.lds_bytes else 0, 2):
                    where, usable = entry.arrays[index : index + 2]
                    access = LaneAccess(entry.site, waves, where, usable, entry.lds_bytes)
                    lanes = self._watched.lanes(access, None)
                    if lanes is not None:
                        self._shadow.delayed(*lanes[:3], entry.lds_bytes)

    def _delayed_reads(self, site: int, waves: Waves) -> None:
        """The last reads of an instruction, which no wait has covered yet, cross a barrier."""
        offsets, slots, numbers, size = self._reads[site]
        arriving = np.zeros((self._watched.slots, 64), bool)
        arriving[waves.workgroup, waves.wave] = True
        concerned = arriving[slots, numbers]
        self._shadow.delayed_read(offsets[concerned], slots[concerned], numbers[concerned], size)

    def _holds(self, offsets: Array, values: Array, size: int) -> Array:
        """Whether memory holds each lane's value, bool [lane]."""
        if not len(offsets):
            return np.zeros(0, bool)
        equal = self._local.words.gather(offsets, size) == values
        return equal if equal.ndim == 1 else np.asarray(equal.all(0))

    def _note_race(self, site: int, *, writes: bool) -> None:
        act = "reads LDS that another wave writes"
        if writes:
            act = "writes LDS that another wave reads or writes"
        why = "with no barrier between"
        if self._shadow.met_late:
            why = "and had not waited for when it came to the barrier between"
        self._note("lds_race", site, f"{act} {why}")
