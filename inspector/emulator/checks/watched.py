"""The workgroups that are watched: only a few, since the others run the same code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from ..machine import LaneAccess
from ..waves import Array, Waves

WATCHED_WORKGROUPS: Final = 4
"""Workgroups that are watched for races, of those that run together."""

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
