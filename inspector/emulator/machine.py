"""State that all waves of a launch share: memories, and troubles noticed while they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct

from ..isa.dataflow.operands import HIGH_HALVES, SCALAR_BIT
from .memory import GlobalMemory, LocalMemory, PrivateMemory, cleared, masked
from .waves import Waves

Array = np.ndarray[Any, Any]
T = TypeVar("T")


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


class LaneAccess(NamedTuple):
    """An access of global memory or LDS by the lanes of some waves.

    Args:
        site: index of the instruction.
        waves: who accesses.
        where: addresses, or byte offsets in all workgroups' LDS, int64 [wave, lane].
        usable: which lanes do, bool [wave, lane]; None for all.
        size: bytes of each lane.
        coherent: whether it goes past the caches to the device (`BuildContext`).
    """

    site: int
    waves: Waves
    where: Array
    usable: Array | None
    size: int
    coherent: bool = False

    def placed(self, where: Array, usable: Array | None) -> LaneAccess:
        """The same access at other places, by these lanes."""
        return LaneAccess(self.site, self.waves, where, usable, self.size, self.coherent)

    @property
    def lanes(self) -> Array | None:
        """Numbers of the lanes in all waves; None for all. A tenth of a boolean index's cost."""
        return None if self.usable is None else np.flatnonzero(self.usable)


def picked(values: Array, lanes: Array | None) -> Array:
    """[wave, lane] -> [lane] of those lanes."""
    flat = values.reshape(-1)
    return flat if lanes is None else flat.take(lanes)


class MachineState:
    """Memories of a launch, and what it did and must not do."""

    def __init__(self, memory: GlobalMemory) -> None:
        self.memory = memory
        self.local = LocalMemory(0, 1)
        self.private = PrivateMemory(0, 1, 1, 64)
        self.ticks = 0
        self.work_items: int | None = None
        """Work-items of a workgroup; None: every lane of its waves has one."""
        self.last_access: dict[int, tuple[Array, Array | None, Array]] = {}
        """Access of global memory, by index -> last addresses, active lanes, workgroups."""
        self.troubles: dict[tuple[str, int], Trouble] = {}

    def move_in(
        self, local: LocalMemory, private: PrivateMemory, slots: int, barriers: Array
    ) -> None:
        """Makes the next workgroups resident, with memories of their own.

        `barriers`: how many barriers each has passed, int64 [slot]; the scheduler counts.
        """
        self.local = local
        self.private = private

    def read_global(self, access: LaneAccess) -> Array:
        """What the lanes read, as `MemoryWords.gather` has it; 0 in others."""
        self._remember(access)
        outside = self.outside(access.site)
        return self.memory.read(access.where, access.size, outside, access.usable)

    def write_global(self, access: LaneAccess, values: Array, lanes: Array | None) -> None:
        """Writes a value of each usable lane; `lanes` are these, as `LaneAccess` has them."""
        self._remember(access)
        where = picked(access.where, lanes)
        self.memory.write(where, values, access.size, self.outside(access.site))

    def read_lds(self, access: LaneAccess) -> Array:
        """See `read_global`."""
        words = self.local.words.gather(masked(access.where, access.usable), access.size)
        return cleared(words, access.usable)

    def write_lds(self, access: LaneAccess, values: Array, lanes: Array | None) -> None:
        """See `write_global`."""
        self.local.words.scatter(picked(access.where, lanes), values, access.size)

    def atomic_global(self, access: LaneAccess, work: Callable[[], T]) -> T:
        """Carries an atomic out, by `work`."""
        self._remember(access)
        return work()

    def atomic_lds(self, access: LaneAccess, work: Callable[[], T]) -> T:
        """Carries an atomic out, by `work`."""
        return work()

    def _remember(self, access: LaneAccess) -> None:
        self.last_access[access.site] = (access.where, access.usable, access.waves.group_id)

    def come_to_barrier(self, waves: Waves) -> None:
        """Waves arrive at a barrier, with the operations that they have outstanding."""

    def barriers_opened(self, groups: Array) -> None:
        """All waves of these workgroups (numbers in the grid) have arrived at a barrier."""

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


class ObservingMachine(MachineState):
    """A machine that is told of every access before it happens, and of writes behind them.

    `values`: what a write writes, as `MemoryWords.scatter` takes it; None for a read.
    """

    def before_global(
        self, access: LaneAccess, values: Array | None = None, *, atomic: bool = False
    ) -> None:
        """A vector access of global memory is about to happen."""

    def after_global(self, access: LaneAccess) -> None:
        """A write of global memory has happened."""

    def before_lds(self, access: LaneAccess, values: Array | None = None) -> None:
        """A read or write of LDS is about to happen."""

    def after_lds(self, access: LaneAccess, values: Array) -> None:
        """A write of LDS has happened."""

    def before_lds_atomic(self, access: LaneAccess) -> None:
        """An atomic of LDS is about to happen."""

    def read_global(self, access: LaneAccess) -> Array:
        self.before_global(access)
        return super().read_global(access)

    def write_global(self, access: LaneAccess, values: Array, lanes: Array | None) -> None:
        self.before_global(access, values)
        super().write_global(access, values, lanes)
        self.after_global(access)

    def read_lds(self, access: LaneAccess) -> Array:
        self.before_lds(access)
        return super().read_lds(access)

    def write_lds(self, access: LaneAccess, values: Array, lanes: Array | None) -> None:
        self.before_lds(access, values)
        super().write_lds(access, values, lanes)
        self.after_lds(access, values)

    def atomic_global(self, access: LaneAccess, work: Callable[[], T]) -> T:
        self.before_global(access, atomic=True)
        return super().atomic_global(access, work)

    def atomic_lds(self, access: LaneAccess, work: Callable[[], T]) -> T:
        self.before_lds_atomic(access)
        return super().atomic_lds(access, work)
