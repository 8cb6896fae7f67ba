"""A machine that keeps the accesses and blocks of waves, in the order of their execution."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from ..base.errors import KinspectError
from ..emulator.banks import data_cycles, phases_of
from ..emulator.machine import LaneAccess, ObservingMachine
from ..emulator.memory import GlobalMemory
from ..emulator.waves import Array, Waves
from .wave_traces import AccessEvent, Noted

_MOST_KEPT: Final = 1 << 25
"""Executed instructions and cache lines of all waves that are kept, 8 bytes each or twice that."""
_NO_LINE: Final = -1


class Recorder(ObservingMachine):
    """Keeps accesses and blocks, in the order in which the emulator carries them out."""

    def __init__(
        self, memory: GlobalMemory, arch: str, line_bytes: int, waves_each: int, skipped: Array
    ) -> None:
        super().__init__(memory)
        self._arch = arch
        self._shift = line_bytes.bit_length() - 1
        self.is_kept = True
        self.waves_each = waves_each
        self.noted = Noted([], [], skipped)
        self.periods: dict[str, int] = {}
        self._kept = 0
        self._places: dict[int, tuple[int, int, int]] = {}  # of the first wave's first lane
        self._strides: dict[int, int] = {}

    def keep(self, count: int) -> None:
        """Counts instructions or lines that are kept."""
        self._kept += count
        if self._kept > _MOST_KEPT:
            raise KinspectError(
                "its first workgroups execute and touch more than the timing model keeps",
                "launch smaller workgroups",
            )

    def numbers(self, waves: Waves) -> Array:
        """Numbers of waves among all that are executed, [wave]."""
        return waves.workgroup * self.waves_each + waves.wave

    def before_global(
        self, access: LaneAccess, values: Array | None = None, *, atomic: bool = False
    ) -> None:
        if not self.is_kept:
            return
        site, waves, where, usable, size, _ = access
        self._follow(site, waves, where, usable)
        first = where >> self._shift
        last = (where + (size - 1)) >> self._shift
        if usable is not None:
            first, last = np.where(usable, first, _NO_LINE), np.where(usable, last, _NO_LINE)
        lines = np.sort(first if (first == last).all() else np.concatenate([first, last], 1), 1)
        distinct = lines >= 0
        distinct[:, 1:] &= lines[:, 1:] != lines[:, :-1]
        counts = distinct.sum(1)
        self.keep(int(counts.sum()))
        active = np.full(waves.count, where.shape[1]) if usable is None else usable.sum(1)
        self.noted.events.append(
            AccessEvent(
                site,
                len(self.noted.runs) - 1,
                self.numbers(waves),
                lines[distinct],
                counts,
                active * size,
            )
        )

    def _follow(self, site: int, waves: Waves, where: Array, usable: Array | None) -> None:
        """Notes how far an access moves from one iteration to the next."""
        lane = 0 if usable is None else int(usable[0].argmax())
        wave, address = int(self.numbers(waves)[0]), int(where[0, lane])
        former = self._places.get(site)
        self._places[site] = wave, lane, address
        if former is not None and former[:2] == (wave, lane):
            self._strides[site] = abs(address - former[2])

    def period_of(self, sites: Iterable[int]) -> int:
        """Iterations until each access of a loop has come to another line; 1: it always does."""
        line = 1 << self._shift
        strides = (self._strides.get(site, 0) for site in sites)
        return max((-(-line // stride) for stride in strides if stride), default=1)

    def before_lds(self, access: LaneAccess, values: Array | None = None) -> None:
        if not self.is_kept:
            return
        site, waves, where, usable, size, _ = access
        phases = phases_of(self._arch, size, where.shape[1], writes=values is not None)
        cycles, least = data_cycles(phases, where, size, usable)
        none = np.zeros(waves.count, np.int64)
        weights = np.arange(1, 2 * where.shape[1], 2, dtype=np.int64) ** 5
        used = where if usable is None else np.where(usable, where, -1)
        self.noted.events.append(
            AccessEvent(
                site,
                len(self.noted.runs) - 1,
                self.numbers(waves),
                none[:0],
                none,
                none,
                cycles,
                least,
                used.astype(np.int64) @ weights,
            )
        )

    def unwaited(self, site: int, registers: int, waves: Waves) -> None:
        pass
