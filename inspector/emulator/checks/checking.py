"""A machine that counts accesses, and looks for races and for what nobody has written."""

from __future__ import annotations

from ..counts import AccessCounter
from ..machine import LaneAccess, ObservingMachine
from ..memory import GlobalMemory, LocalMemory, PrivateMemory
from ..waves import Array, Waves
from .global_shadow import GlobalShadow, Granules
from .global_watch import GlobalWatch
from .lds_watch import LdsWatch
from .watched import WatchedWorkgroups


class CheckingMachine(ObservingMachine):
    """Hands every access on to those who count it and who look for races.

    Args:
        memory: the buffers.
        granule: bytes of the kernel's narrowest access of LDS; None: accesses are not watched.
        counts: takes every access; None: they are not counted.
        shadow: takes every access of global memory; None: they are not watched for races.
    """

    def __init__(
        self,
        memory: GlobalMemory,
        granule: int | None = None,
        counts: AccessCounter | None = None,
        shadow: GlobalShadow | None = None,
    ) -> None:
        super().__init__(memory)
        self._counts = counts
        self._granule = granule
        self._global_watch = None if shadow is None else GlobalWatch(shadow, self.note)
        self._lds_watch: LdsWatch | None = None

    def move_in(
        self, local: LocalMemory, private: PrivateMemory, slots: int, barriers: Array
    ) -> None:
        super().move_in(local, private, slots, barriers)
        watched = WatchedWorkgroups(slots)
        if self._global_watch is not None:
            self._global_watch.move_in(watched)
        self._lds_watch = None
        if self._granule is not None and local.size > 0:
            self._lds_watch = LdsWatch(local, self._granule, barriers, watched, self.note)

    def granules(self) -> dict[int, Granules]:
        """Returns the touched granules of each buffer of global memory, by its address."""
        return {} if self._global_watch is None else self._global_watch.granules()

    def before_global(
        self, access: LaneAccess, values: Array | None = None, *, atomic: bool = False
    ) -> None:
        if self._counts is not None:
            self._counts.access(access, "global", writes=False)
        if self._global_watch is not None:
            self._global_watch.before(self.memory, access, values, atomic=atomic)

    def after_global(self, access: LaneAccess) -> None:
        if self._global_watch is not None:
            self._global_watch.after(access.site)

    def before_lds(self, access: LaneAccess, values: Array | None = None) -> None:
        if self._counts is not None:
            self._counts.access(access, "lds", writes=values is not None)
        if self._lds_watch is not None:
            self._lds_watch.before(access, values)

    def after_lds(self, access: LaneAccess, values: Array) -> None:
        if self._lds_watch is not None:
            self._lds_watch.after(access, values)

    def before_lds_atomic(self, access: LaneAccess) -> None:
        self.barriers_opened(access.waves.group_id)

    def barriers_opened(self, groups: Array) -> None:
        if self._global_watch is not None:
            self._global_watch.meet(groups)

    def come_to_barrier(self, waves: Waves) -> None:
        if self._lds_watch is not None:
            self._lds_watch.come_to_barrier(waves)
