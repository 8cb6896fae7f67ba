"""State that all waves of a launch share: memories, and troubles noticed while they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from msgspec import Struct

from .counts import AccessCounter
from .global_races import GlobalShadow, Granules
from .memory import Buffer, GlobalMemory, LocalMemory, PrivateMemory
from .races import LocalShadow
from .register_sets import HIGH_HALVES, SCALAR_BIT
from .registry import BuildContext
from .waves import Waves

Array = np.ndarray[Any, Any]


WATCHED_WORKGROUPS = 4
"""Workgroups that are watched for races, of those that run together."""


KINDS: Final[Mapping[str, str]] = {
    "outside": "an access of global memory outside of every buffer",
    "outside_lds": "an access past the workgroup's LDS",
    "outside_scratch": "an access past the lanes' private memory",
    "misaligned": "an atomic or a scalar access whose address the hardware does not take as it is",
    "unwaited": "a result that is used before the wait that covers it",
    "uninitialised": "a register that nothing has written, and on which an access depends",
    "lds_uninitialised": "a read of LDS that nobody has written",
    "lds_race": "waves of a workgroup that meet in LDS with no barrier between",
    "global_race": "workgroups that meet in global memory with no atomic between",
    "mfma_hazard": "a matrix or dot product without the wait states that the ISA asks for",
    "divergent_barrier": "a barrier to which some lanes of a wave come and others do not",
    "hang": "waves that wait or spin when the launch is given up",
}
"""Everything that is noticed."""


class Trouble(Struct, frozen=True):
    """Something that the code did and must not do, at one instruction.

    Args:
        kind: one of `KINDS`.
        site: index of the instruction.
        detail: what exactly, for people.
    """

    kind: str
    site: int
    detail: str


class MachineState:
    """Memories and records of a launch.

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
        self.memory = memory
        self.local = LocalMemory(0, 1)
        self.private = PrivateMemory(0, 1, 1, 64)
        self.ticks = 0
        self.work_items: int | None = None
        """Work-items of a workgroup; None: every lane of its waves has one."""
        self._counts = counts
        self._global_shadow = shadow
        self._slices = 0
        self.last_access: dict[int, tuple[Array, Array | None, Array]] = {}
        """Access of global memory, by index -> last addresses, active lanes, workgroups."""
        self.troubles: dict[tuple[str, int], Trouble] = {}
        self._granule = granule
        self._shadow: LocalShadow | None = None
        self._watched = np.zeros(1, bool)
        nobody = np.zeros(0, np.int64)
        self._last_watched: tuple[Array | None, tuple[Array, Array, Array]] = (None, (nobody,) * 3)
        self._reads: dict[int, tuple[Array, Array, Array, int]] = {}

    def move_in(
        self, local: LocalMemory, private: PrivateMemory, slots: int, barriers: Array
    ) -> None:
        """Makes the next workgroups resident, with memories of their own.

        Args:
            local: their LDS.
            private: their scratch memory.
            slots: how many workgroups.
            barriers: how many barriers each has passed, int64 [slot]; the scheduler counts.
        """
        self.local = local
        self.private = private
        self._slices += 1
        self._reads = {}
        watched = self._granule is not None and local.size > 0
        self._shadow = LocalShadow(local, slots, self._granule or 4, barriers) if watched else None
        self._watched = np.zeros(slots, bool)
        self._watched[np.linspace(0, slots - 1, min(slots, WATCHED_WORKGROUPS)).astype(int)] = True
        self._last_watched = (None, self._last_watched[1])

    def granules(self) -> dict[int, Granules]:
        """Returns the touched granules of each buffer of global memory, by its address."""
        return {} if self._global_shadow is None else self._global_shadow.granules()

    def note(self, kind: str, site: int, detail: str) -> None:
        """Keeps the first trouble of each kind at each instruction."""
        self.troubles.setdefault((kind, site), Trouble(kind, site, detail))

    # ------------------------------------------------------------------ accesses that miss

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

        Args:
            site: index of the instruction.
            address: in bytes.
            size: bytes of the access.
            what: what the hardware does with it, in words.
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

    # ------------------------------------------------------------------ barriers

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

    # ------------------------------------------------------------------ accesses of LDS

    def before_lds_atomic(
        self, site: int, waves: Waves, where: Array, usable: Array | None, size: int
    ) -> None:
        """An atomic of LDS is about to happen; the arguments are those of `before_lds`."""

    def before_lds(
        self, site: int, waves: Waves, where: Array, usable: Array | None, size: int,
        values: Array | None,
    ) -> None:  # fmt: skip
        """An access of LDS is about to happen.

        Args:
            site: the instruction.
            waves: who accesses.
            where: byte offsets in all LDS [wave, lane].
            usable: which lanes do, bool [wave, lane]; None for all.
            size: bytes of each lane.
            values: what a write writes, as `MemoryWords.scatter` takes it; None for a read.
        """
        if self._counts is not None:
            self._counts.access(site, "lds", waves, where, usable, size, writes=values is not None)
        if self._shadow is None:
            return
        lanes = self._watched_lanes(waves, where, usable, values)
        if lanes is None:
            return
        offsets, slots, numbers, values = lanes
        if values is None:
            self._reads[site] = (offsets, slots, numbers, size)
            racing, unwritten = self._shadow.read(offsets, slots, numbers, size)
            if unwritten:
                self.note("lds_uninitialised", site, f"{size} bytes that nobody has written")
        else:
            same = _holds(self.local, offsets, values, size)
            racing = self._shadow.write(offsets, slots, numbers, size, same)
        if racing:
            self._note_race(site, writes=values is not None)

    def after_lds(
        self, site: int, waves: Waves, where: Array, usable: Array | None, size: int, values: Array
    ) -> None:
        """A write of LDS has happened; see `before_lds`."""
        if self._shadow is None:
            return
        lanes = self._watched_lanes(waves, where, usable, values)
        if lanes is None:
            return
        offsets, slots, numbers, written = lanes
        assert written is not None
        same = _holds(self.local, offsets, written, size)
        if self._shadow.collided(offsets, slots, numbers, size, same):
            self._note_race(site, writes=True)

    def delayed_lds(self, waves: Waves, where: Array, usable: Array | None, size: int) -> None:
        """A write that is not covered by a wait crosses a barrier."""
        if self._shadow is not None:
            lanes = self._watched_lanes(waves, where, usable, None)
            if lanes is not None:
                self._shadow.delayed(*lanes[:3], size)

    def delayed_reads(self, site: int, waves: Waves) -> None:
        """The last reads of an instruction, which no wait has covered yet, cross a barrier."""
        if self._shadow is None or site not in self._reads:
            return
        offsets, slots, numbers, size = self._reads[site]
        arriving = np.zeros((len(self._watched), 64), bool)
        arriving[waves.workgroup, waves.wave] = True
        concerned = arriving[slots, numbers]
        self._shadow.delayed_read(offsets[concerned], slots[concerned], numbers[concerned], size)

    def _watched_lanes(
        self, waves: Waves, where: Array, usable: Array | None, values: Array | None
    ) -> tuple[Array, Array, Array, Array | None] | None:
        """Offsets, workgroups, wave numbers and values of the lanes that are watched, [lane].

        Of many workgroups a few are watched: what one does the others do as well.
        """
        index, slots, numbers = self._watched_waves(waves)
        if not len(index):
            return None
        everyone = len(index) == waves.count
        if values is not None and not everyone:
            if usable is None:
                rows = values.reshape(*values.shape[:-1], *where.shape)
                values = rows[..., index, :].reshape(*values.shape[:-1], -1)
            else:
                lanes = np.broadcast_to(self._watched[waves.workgroup][:, None], where.shape)
                values = values[..., lanes[usable]]
        chosen = where if everyone else where[index]
        if usable is not None:
            active = usable if everyone else usable[index]
            if not active.all():
                flat = active.reshape(-1)
                return chosen[active], slots[flat], numbers[flat], values
        return chosen.reshape(-1), slots, numbers, values

    def _watched_waves(self, waves: Waves) -> tuple[Array, Array, Array]:
        """Which waves are watched, and the workgroups and wave numbers of their lanes, [lane].

        The same waves usually come again and again, with the same array of workgroups.
        """
        last, result = self._last_watched
        if last is not waves.workgroup:
            index = np.flatnonzero(self._watched[waves.workgroup])
            slots = np.repeat(waves.workgroup[index], waves.lanes)
            numbers = np.repeat(waves.wave[index].astype(np.int32), waves.lanes)
            result = (index, slots, numbers)
            self._last_watched = (waves.workgroup, result)
        return result

    def _note_race(self, site: int, *, writes: bool) -> None:
        act = (
            "writes LDS that another wave reads or writes"
            if writes
            else ("reads LDS that another wave writes")
        )
        assert self._shadow is not None
        why = "with no barrier between"
        if self._shadow.met_late:
            why = "and had not waited for when it came to the barrier between"
        self.note("lds_race", site, f"{act} {why}")

    # ------------------------------------------------------------------ accesses of global memory

    def before_global(
        self, context: BuildContext, waves: Waves, where: Array, usable: Array | None, size: int,
        values: Array | None = None, *, atomic: bool = False,
    ) -> None:  # fmt: skip
        """A vector access of global memory is about to happen.

        Args:
            context: the instruction's.
            waves: who accesses.
            where: addresses [wave, lane].
            usable: which lanes do, bool [wave, lane]; None for all.
            size: bytes of each lane.
            values: what a write writes, as `MemoryWords.scatter` takes it; None for a read.
            atomic: whether it is an atomic operation.
        """
        site, shadow = context.index, self._global_shadow
        if self._counts is not None:
            self._counts.access(site, "global", waves, where, usable, size, writes=False)
        self.last_access[site] = (where, usable, waves.group_id)
        if shadow is None:
            return
        orders = atomic or context.coherent
        lanes = self._lanes_of_buffer(
            waves, where, usable, size, everyone=orders or values is not None
        )
        if lanes is None:
            return
        if orders:
            racing = shadow.atomic(*lanes, size)
        elif values is None:
            racing = shadow.read(*lanes, size)
        else:
            racing = shadow.write(*lanes, size, values)
        if racing:
            self._note_global_race(site, lanes[0], writes=values is not None)

    def after_global(self, context: BuildContext) -> None:
        """A write of global memory that `before_global` announced has happened."""
        if self._global_shadow is not None and self._global_shadow.written():
            address = first_active(*self.last_access[context.index][:2])
            buffer = self.memory.buffer_at(address or 0)
            assert buffer is not None
            self._note_global_race(context.index, buffer, writes=True)

    def _lanes_of_buffer(
        self, waves: Waves, where: Array, usable: Array | None, size: int, *, everyone: bool
    ) -> tuple[Buffer, Array, Array] | None:
        """Buffer, offsets in it and workgroups of the lanes that are watched, [lane].

        Reads of buffers that nobody has written yet are those of a few of the first workgroups;
        None for lanes that lie in several buffers, or of which nothing can be reported.
        """
        if usable is not None and usable.all():
            usable = None
        first = 0 if usable is None else int(usable.argmax())
        if usable is not None and not usable.reshape(-1)[first]:
            return None
        buffer = self.memory.buffer_at(int(where.reshape(-1)[first]))
        if buffer is None or buffer.words is None:
            return None
        groups = waves.group_id
        if not (everyone or buffer.words.written):
            if self._slices > 1:
                return None
            index = self._watched_waves(waves)[0]
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
        if int(offsets.view(np.uint64).max()) + size > buffer.size:
            return None
        return buffer, offsets, owners

    def _note_global_race(self, site: int, buffer: Buffer, *, writes: bool) -> None:
        verb = (
            "writes what another workgroup reads or writes"
            if writes
            else "reads what another workgroup writes"
        )
        self.note(
            "global_race",
            site,
            f"{verb} in {buffer.name or 'a buffer'}, and no atomic of both stands between",
        )


def first_active(where: Array, usable: Array | None) -> int | None:
    """The first lane's address; None where no lane is active."""
    active = where.reshape(-1) if usable is None else where[usable]
    return int(active[0]) if active.size else None


def _holds(local: LocalMemory, offsets: Array, values: Array, size: int) -> Array:
    """Whether memory holds each lane's value, bool [lane]."""
    if not len(offsets):
        return np.zeros(0, bool)
    present = local.words.gather(offsets, size)
    equal = present == values
    return equal if equal.ndim == 1 else equal.all(0)
