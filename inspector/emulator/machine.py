"""State that all waves of a launch share: memories, and troubles noticed while they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from msgspec import Struct

from ..isa.dataflow.register_sets import HIGH_HALVES, SCALAR_BIT
from .checks.global_shadow import GlobalShadow, Granules
from .checks.global_watch import GlobalAccess, GlobalWatch
from .checks.lds_watch import LdsWatch, WatchedWorkgroups
from .counts import AccessCounter
from .memory import GlobalMemory, LocalMemory, PrivateMemory
from .registry import BuildContext
from .waves import Waves

Array = np.ndarray[Any, Any]


KINDS: Final[Mapping[str, str]] = {
    "outside": "an access of global memory outside of every buffer",
    "outside_lds": "an access past the workgroup's LDS",
    "outside_scratch": "an access past the lanes' private memory",
    "misaligned": "an atomic or a scalar access whose address the hardware does not take as it is",
    "unwaited": "a result that is used before the wait that covers it",
    "uninitialised": "a register that nothing has written, and on which an access depends",
    "lds_uninitialised": "a read of LDS that nobody has written",
    "lds_race": "waves of a workgroup that meet in LDS with no barrier between",
    "global_race": "workgroups that meet in global memory with no atomic between, or waves of one"
    " with no barrier, or lanes that store different values to one place",
    "mfma_hazard": "a matrix or dot product without the wait states that the ISA asks for",
    "divergent_barrier": "a barrier to which some lanes of a wave come and others do not",
    "hang": "waves that wait or spin when the launch is given up",
}
"""Everything that is noticed."""


class Trouble(Struct, frozen=True):
    """Something that the code did and must not do, at one instruction.

    `kind`: one of `KINDS`.
    """

    kind: str
    site: int
    detail: str


class MachineState:
    """Memories and records of a launch.

    Args:
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
        self.memory = memory
        self.local = LocalMemory(0, 1)
        self.private = PrivateMemory(0, 1, 1, 64)
        self.ticks = 0
        self.work_items: int | None = None
        """Work-items of a workgroup; None: every lane of its waves has one."""
        self._counts = counts
        self._global_watch = None if shadow is None else GlobalWatch(shadow, self.note)
        self.last_access: dict[int, tuple[Array, Array | None, Array]] = {}
        """Access of global memory, by index -> last addresses, active lanes, workgroups."""
        self.troubles: dict[tuple[str, int], Trouble] = {}
        self._granule = granule
        self._lds_watch: LdsWatch | None = None

    def move_in(
        self, local: LocalMemory, private: PrivateMemory, slots: int, barriers: Array
    ) -> None:
        """Makes the next workgroups resident, with memories of their own.

        `barriers`: how many barriers each has passed, int64 [slot]; the scheduler counts.
        """
        self.local = local
        self.private = private
        watched = WatchedWorkgroups(slots)
        if self._global_watch is not None:
            self._global_watch.move_in(watched)
        self._lds_watch = None
        if self._granule is not None and local.size > 0:
            self._lds_watch = LdsWatch(local, self._granule, barriers, watched, self.note)

    def granules(self) -> dict[int, Granules]:
        """Returns the touched granules of each buffer of global memory, by its address."""
        return {} if self._global_watch is None else self._global_watch.granules()

    def note(self, kind: str, site: int, detail: str) -> None:
        """Keeps the first trouble of each kind at each instruction."""
        self.troubles.setdefault((kind, site), Trouble(kind, site, detail))

    def outside(self, site: int) -> Callable[[Array, int, bool], None]:
        """Returns the function to call for an access outside of every buffer."""

        def tell(addresses: Array, size: int, writes: bool) -> None:
            verb = "writes" if writes else "reads"
            first = int(addresses.reshape(-1)[0])
            self.note(
                "outside",
                site,
                f"{verb} {size} bytes at {first:#x}{self._nearest(first)}, {addresses.size} lanes",
            )

        return tell

    def misaligned(self, site: int, address: int, size: int, what: str) -> None:
        """Notes an address that the hardware does not take as it is.

        `what`: what the hardware does with it, in words.
        """
        self.note("misaligned", site, f"{size} bytes at {address:#x}: {what}")

    def place_of(self, address: int) -> str:
        """An address in words: `locks + 16 bytes`."""
        buffer = self.memory.buffer_at(address)
        if buffer is None:
            return f"{address:#x}{self._nearest(address)}"
        return f"{buffer.name or 'a buffer'} + {address - buffer.address} bytes"

    def _nearest(self, address: int) -> str:
        below = [buffer for buffer in self.memory.buffers if buffer.end <= address]
        if not below:
            return ""
        buffer = below[-1]
        return f", {address - buffer.end} bytes past the end of {buffer.name or 'a buffer'}"

    def outside_lds(self, site: int, waves: Waves, inner: Array, bad: Array, size: int) -> None:
        """Notes an access past the workgroup's LDS."""
        first = int(inner[bad][0])
        self.note(
            "outside_lds",
            site,
            f"{size} bytes at LDS byte {first} of {self.local.size}, {int(bad.sum())} lanes",
        )

    def outside_scratch(self, site: int, inner: Array) -> None:
        """Notes an access past the lanes' private memory."""
        first = int(inner.reshape(-1)[0])
        self.note(
            "outside_scratch",
            site,
            f"byte {first} of {self.private.size} bytes of scratch, {inner.size} lanes",
        )

    def unwaited(self, site: int, registers: int, waves: Waves) -> None:
        """Notes a register that is used before the wait that covers its load."""
        number = (registers & -registers).bit_length() - 1
        if number >= HIGH_HALVES:
            name = f"v{number - HIGH_HALVES}.h"
        else:
            name = f"v{number}" if number < SCALAR_BIT else f"s{number - SCALAR_BIT}"
        self.note("unwaited", site, f"{name} is used before the wait that covers its load")

    def at_barrier(self, site: int, waves: Waves) -> None:
        """Waves come to a barrier, which counts waves: it does not know of single lanes.

        A wave some lanes of which go round it arrives all the same, and a second time if these
        lanes come to a barrier of their own.
        """
        if waves.full:
            return
        present = waves.active.sum(1)
        lanes = np.full(waves.count, waves.lanes)
        if self.work_items is not None:
            lanes = np.clip(self.work_items - waves.wave * waves.lanes, 0, waves.lanes)
        parted = (present > 0) & (present < lanes)
        if parted.any():
            first = int(parted.argmax())
            self.note(
                "divergent_barrier",
                site,
                f"{int(present[first])} of {int(lanes[first])} lanes of wave "
                f"{int(waves.wave[first])} of workgroup {int(waves.group_id[first])} come to it",
            )

    def barriers_opened(self, groups: Array) -> None:
        """All waves of these workgroups (numbers in the grid) have arrived at a barrier."""
        if self._global_watch is not None:
            self._global_watch.meet(groups)

    def before_lds_atomic(
        self, site: int, waves: Waves, where: Array, usable: Array | None, size: int
    ) -> None:
        """An atomic of LDS is about to happen; the arguments are those of `before_lds`."""
        if self._global_watch is not None:
            self._global_watch.meet(waves.group_id)

    def before_lds(
        self, site: int, waves: Waves, where: Array, usable: Array | None, size: int,
        values: Array | None,
    ) -> None:  # fmt: skip
        """An access of LDS is about to happen.

        `where`: byte offsets in all LDS [wave, lane]. `usable`: which lanes do, bool [wave, lane];
        None for all. `values`: what a write writes, as `MemoryWords.scatter` takes it; None for a
        read.
        """
        if self._counts is not None:
            self._counts.access(site, "lds", waves, where, usable, size, writes=values is not None)
        if self._lds_watch is not None:
            self._lds_watch.before(site, waves, where, usable, size, values)

    def after_lds(
        self, site: int, waves: Waves, where: Array, usable: Array | None, size: int, values: Array
    ) -> None:
        """A write of LDS has happened; see `before_lds`."""
        if self._lds_watch is not None:
            self._lds_watch.after(site, waves, where, usable, size, values)

    def delayed_lds(self, waves: Waves, where: Array, usable: Array | None, size: int) -> None:
        """A write that is not covered by a wait crosses a barrier."""
        if self._lds_watch is not None:
            self._lds_watch.delayed_write(waves, where, usable, size)

    def delayed_reads(self, site: int, waves: Waves) -> None:
        """The last reads of an instruction, which no wait has covered yet, cross a barrier."""
        if self._lds_watch is not None:
            self._lds_watch.delayed_reads(site, waves)

    def before_global(
        self, context: BuildContext, waves: Waves, where: Array, usable: Array | None, size: int,
        values: Array | None = None, *, atomic: bool = False,
    ) -> None:  # fmt: skip
        """A vector access of global memory is about to happen.

        `where`: addresses [wave, lane]. `usable`: which lanes do, bool [wave, lane]; None for all.
        `values`: what a write writes, as `MemoryWords.scatter` takes it; None for a read.
        """
        site = context.index
        if self._counts is not None:
            self._counts.access(site, "global", waves, where, usable, size, writes=False)
        self.last_access[site] = (where, usable, waves.group_id)
        if self._global_watch is not None:
            access = GlobalAccess(waves, where, usable, size)
            self._global_watch.before(context, self.memory, access, values, atomic=atomic)

    def after_global(self, context: BuildContext) -> None:
        """A write of global memory that `before_global` announced has happened."""
        if self._global_watch is not None:
            self._global_watch.after(context)
