"""The state of waves that stand at the same instruction.

Every instruction is carried out for all of them at once: a register is an array over waves and
lanes. Waves part where a branch divides them (`select`) and are put together again (`join`).

A load reads memory when it is issued, but its registers get the value when a wait lets it: code
that does not wait sees what stood there before, as it may on the hardware. Each counter is a queue;
a wait for N lets all but the newest N through.

Which waves take a conditional branch, by its mnemonic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from ..isa.dataflow.operands import EXEC, SCALAR_ROWS, VCC

Array = np.ndarray[Any, Any]

Complete = Callable[["Waves", tuple[Array, ...]], None]
"""Completes an operation: gets the waves and the entry's arrays."""


class OutstandingOperation(Struct):
    """One operation that a counter counts.

    Args:
        registers: which it will write, as `half_bits` and `scalar_bits` have them.
        arrays: the result's arrays, each with waves on the first axis.
        in_order: False for operations that come back in any order (scalar loads): only a wait for 0
            is sure of them.
        lds_bytes: of a write of LDS, the bytes of each lane; `arrays` are its places and lanes.
    """

    registers: int
    complete: Complete | None
    arrays: tuple[Array, ...] = ()
    in_order: bool = True
    site: int = -1
    lds_bytes: int = 0

    def lds_writes(self) -> Iterator[tuple[Array, Array]]:
        """Yields the places and usable lanes of a write of LDS; nothing for others."""
        if self.lds_bytes:
            yield from zip(self.arrays[::2], self.arrays[1::2], strict=True)

    def with_arrays(self, arrays: tuple[Array, ...]) -> OutstandingOperation:
        """The same operation of other waves."""
        return OutstandingOperation(
            self.registers, self.complete, arrays, self.in_order, self.site, self.lds_bytes
        )


class OutstandingQueues:
    """The queues of waves that went the same way. `registers`: all that entries will write."""

    __slots__ = ("queues", "registers")

    def __init__(self) -> None:
        self.queues: dict[str, list[OutstandingOperation]] = {}
        self.registers = 0

    def add(self, counter: str, entry: OutstandingOperation) -> None:
        """Queues a new operation in a counter."""
        self.queues.setdefault(counter, []).append(entry)
        self.registers |= entry.registers

    def wait(self, waves: Waves, counter: str, newest: int) -> None:
        """Completes all but the `newest` operations of a counter."""
        queue = self.queues.get(counter)
        if not queue or len(queue) <= newest:
            return
        leaving = queue[: len(queue) - newest]
        staying = queue[len(queue) - newest :]
        if newest:
            staying = [entry for entry in leaving if not entry.in_order] + staying
            leaving = [entry for entry in leaving if entry.in_order]
        self.queues[counter] = staying
        for entry in leaving:
            if entry.complete is not None:
                entry.complete(waves, entry.arrays)
        self._count()

    def would_clash(self, registers: int, counter: str | None, result: int) -> int:
        """The registers that an instruction may not use yet.

        `registers`: all that it reads or writes. `counter`: the counter whose results come back in
        the order of issue, if it has one. `result`: what it will itself write when that counter
        lets it: an older result for these arrives first, and does no harm.
        """
        clashing = 0
        for name, queue in self.queues.items():
            for entry in queue:
                overlap = entry.registers & registers
                if overlap and name == counter and entry.in_order:
                    overlap &= ~result
                clashing |= overlap
        return clashing

    def finish_all(self, waves: Waves) -> None:
        """Completes all operations."""
        for queue in self.queues.values():
            for entry in queue:
                if entry.complete is not None:
                    entry.complete(waves, entry.arrays)
        self.queues = {}
        self.registers = 0

    def _count(self) -> None:
        """Recounts the registers that outstanding operations will write."""
        registers = 0
        for queue in self.queues.values():
            for entry in queue:
                registers |= entry.registers
        self.registers = registers

    def select(self, which: Array) -> OutstandingQueues:
        """Returns the operations of some of the waves."""
        chosen = OutstandingQueues()
        chosen.registers = self.registers
        chosen.queues = {
            counter: [
                entry.with_arrays(tuple(array[which] for array in entry.arrays)) for entry in queue
            ]
            for counter, queue in self.queues.items()
            if queue
        }
        return chosen

    @staticmethod
    def join(parts: Sequence[OutstandingQueues], waves: Sequence[Waves]) -> OutstandingQueues:
        """The queues of waves that meet again, the waves in the order of `parts`.

        Where all have the same operations outstanding, they stay so. Where they differ, or some
        were issued with idle lanes and others without, all are let through first: no wait can be
        missed by that which a wave that came the other way would not have missed too.
        """
        shapes = [
            {c: [(e.site, len(e.arrays)) for e in q] for c, q in part.queues.items() if q}
            for part in parts
        ]
        if any(shape != shapes[0] for shape in shapes):
            for part, group in zip(parts, waves, strict=True):
                part.finish_all(group)
            return OutstandingQueues()
        joined = OutstandingQueues()
        joined.registers = parts[0].registers
        for counter in shapes[0]:
            queues = [part.queues[counter] for part in parts]
            joined.queues[counter] = [
                same[0].with_arrays(
                    tuple(
                        np.concatenate(arrays)
                        for arrays in zip(*(entry.arrays for entry in same), strict=True)
                    )
                )
                for same in zip(*queues, strict=True)
            ]
        return joined


U32, I32, F32 = np.uint32, np.int32, np.float32
ALL = 0xFFFFFFFF


class WaveIds(Struct, frozen=True):
    """Where waves belong.

    Args:
        wave: each wave's number in its workgroup, [wave].
        workgroup: each wave's workgroup as a slot of the resident ones (0 .. slots - 1).
        group_id: each wave's workgroup number in the grid (x + y * X + z * X * Y).
    """

    wave: Array
    workgroup: Array
    group_id: Array

    def take(self, index: Array) -> WaveIds:
        """Those of some of the waves."""
        return WaveIds(self.wave[index], self.workgroup[index], self.group_id[index])

    @staticmethod
    def join(parts: Sequence[WaveIds]) -> WaveIds:
        """Those of several groups of waves, one group behind the other."""
        return WaveIds(
            np.concatenate([part.wave for part in parts]),
            np.concatenate([part.workgroup for part in parts]),
            np.concatenate([part.group_id for part in parts]),
        )


class Waves:
    """The registers of some waves, and where the waves belong.

    Attributes:
        vector: VGPRs, then AGPRs from `accum_offset` on, uint32 [register, wave, lane].
        u32, i32, f32: the same memory as each type.
        scalar: SGPRs, VCC, trap temporaries, M0, EXEC by `operands`' rows, uint32 [row, wave].
        scc: the scalar condition code, bool [wave].
        full: whether every lane of every wave is active.
        ids: where the waves belong; also as `wave`, `workgroup`, `group_id`.
        machine: what they share: memories, counts, findings.
        outstanding: memory results that have not been waited for.
        turns: how often these waves jumped backwards, for fair turns.
        memo: what steps of one block leave for later ones of it (`matrix_products`).
    """

    __slots__ = (
        "_active", "_bits", "f32", "full", "group_id", "i32", "ids", "lanes", "machine", "memo",
        "outstanding", "scalar", "scc", "turns", "u32", "vector", "wave", "workgroup",
    )  # fmt: skip

    def __init__(
        self,
        vector: Array,
        scalar: Array,
        scc: Array,
        ids: WaveIds,
        machine: Any,
        *,
        outstanding: OutstandingQueues | None = None,
        turns: int = 0,
    ) -> None:
        self.vector = self.u32 = vector
        self.i32 = vector.view(I32)
        self.f32 = vector.view(F32)
        self.scalar = scalar
        self.scc = scc
        self.ids = ids
        self.wave = ids.wave
        self.workgroup = ids.workgroup
        self.group_id = ids.group_id
        self.machine = machine
        self.outstanding = outstanding or OutstandingQueues()
        self.turns = turns
        self.lanes = vector.shape[2]
        self.memo: dict[int, Array] = {}
        self.exec_changed()

    @classmethod
    def new(cls, registers: int, lanes: int, ids: WaveIds, machine: Any) -> Waves:
        """Waves with all registers 0 and all lanes active."""
        count = len(ids.wave)
        scalar = np.zeros((SCALAR_ROWS, count), U32)
        scalar[EXEC : EXEC + lanes // 32] = ALL
        vector = np.zeros((registers, count, lanes), U32)
        return cls(vector, scalar, np.zeros(count, bool), ids, machine)

    @property
    def count(self) -> int:
        return len(self.wave)

    def exec_changed(self) -> None:
        """Notes a write to EXEC; every writer calls it."""
        rows = self.scalar[EXEC : EXEC + self.lanes // 32]
        self.full = bool((rows == ALL).all())
        self._active: Array | None = None
        self._bits: Array | None = None

    @property
    def active(self) -> Array:
        """EXEC as bool [wave, lane]."""
        if self._active is None:
            self._active = self.mask(EXEC)
        return self._active

    @property
    def bits(self) -> Array:
        """EXEC as uint32 [wave, lane]: all ones or 0."""
        if self._bits is None:
            self._bits = np.negative(self.active.astype(U32))
        return self._bits

    def mask(self, row: int) -> Array:
        """A lane mask in scalar registers as bool [wave, lane]."""
        words = np.ascontiguousarray(self.scalar[row : row + self.lanes // 32].T)
        return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").view(bool)

    def set_mask(self, row: int, lanes: Array) -> None:
        """Writes bool [wave, lane] to scalar registers as it is: the caller clears idle lanes."""
        if lanes.shape != (self.count, self.lanes):
            lanes = np.broadcast_to(lanes, (self.count, self.lanes))
        packed = np.packbits(lanes, axis=1, bitorder="little").view(U32)
        for word in range(self.lanes // 32):
            self.scalar[row + word] = packed[:, word]
        if row == EXEC:
            self.exec_changed()

    def mask_nonzero(self, row: int) -> Array:
        """Whether any bit of a lane mask is set, bool [wave]."""
        nonzero = self.scalar[row] != 0
        if self.lanes == 64:
            nonzero |= self.scalar[row + 1] != 0
        return nonzero

    def divided(self, row: int) -> int:
        """How many waves have some of their active lanes in a mask, and not all.

        For the mask EXEC itself: how many have some of all their lanes active, and not all.
        """
        if row == EXEC and self.full:
            return 0
        words = range(self.lanes // 32)
        active = [self.scalar[EXEC + word] if row != EXEC else U32(ALL) for word in words]
        inside = [self.scalar[row + word] & active[word] for word in words]
        any_inside, all_inside = inside[0] != 0, inside[0] == active[0]
        for word in words[1:]:
            any_inside |= inside[word] != 0
            all_inside &= inside[word] == active[word]
        return int(np.count_nonzero(any_inside & ~all_inside))

    @property
    def vccz(self) -> Array:
        return ~self.mask_nonzero(VCC)

    @property
    def execz(self) -> Array:
        return ~self.mask_nonzero(EXEC)

    def pair(self, row: int) -> Array:
        """Two scalar registers as uint64 [wave]."""
        return self.scalar[row] | (self.scalar[row + 1].astype(np.uint64) << np.uint64(32))

    def set_pair(self, row: int, value: Array) -> None:
        """Writes uint64 [wave] to two scalar registers."""
        self.scalar[row] = value.astype(U32)
        self.scalar[row + 1] = (value >> np.uint64(32)).astype(U32)

    def write(self, row: int, value: Array) -> None:
        """Writes a 32-bit value of any type to the active lanes of a vector register."""
        if self.full:
            target = self.f32 if value.dtype == F32 else self.u32
            np.copyto(target[row], value, casting="unsafe")
        else:
            self.write_where(row, value, self.bits)

    def write_where(self, row: int, value: Array, bits: Array) -> None:
        """Writes a 32-bit value to the lanes whose `bits` (uint32 [wave, lane]) are all ones.

        A blend by bits costs the same for every mask; `where=` is some 15 times slower on random
        ones.
        """
        register = self.u32[row]
        changed = value.view(U32) if value.dtype.itemsize == 4 else value.astype(U32)
        register ^= (register ^ changed) & bits

    def pair_of(self, row: int) -> Array:
        """Two vector registers as uint64 [wave, lane]."""
        return paired(self.u32[row], self.u32[row + 1])

    def write_pair(self, row: int, value: Array) -> None:
        """Writes a 64-bit value of any type to the active lanes of two registers."""
        shape = (self.count, self.lanes)
        if value.shape != shape:
            value = np.broadcast_to(value, shape)
        halves = np.ascontiguousarray(value).view(U32)
        self.write(row, halves[:, ::2])
        self.write(row + 1, halves[:, 1::2])

    def select(self, which: Array) -> Waves:
        """Returns copies of the waves that `which` names (bool or indices)."""
        index = np.flatnonzero(which) if which.dtype == bool else which
        return Waves(
            self.vector.take(index, 1),  # `take` keeps the order in memory, indexing need not
            self.scalar.take(index, 1),
            self.scc[index],
            self.ids.take(index),
            self.machine,
            outstanding=self.outstanding.select(index),
            turns=self.turns,
        )

    @staticmethod
    def join(parts: Sequence[Waves]) -> Waves:
        """All waves of `parts`, in the order of workgroups and waves."""
        if len(parts) == 1:
            return parts[0]
        outstanding = OutstandingQueues.join([part.outstanding for part in parts], parts)
        ids = WaveIds.join([part.ids for part in parts])
        order = np.lexsort((ids.wave, ids.workgroup))
        return Waves(
            np.concatenate([part.vector for part in parts], 1).take(order, 1),
            np.concatenate([part.scalar for part in parts], 1).take(order, 1),
            np.concatenate([part.scc for part in parts])[order],
            ids.take(order),
            parts[0].machine,
            outstanding=outstanding.select(order),
            turns=max(part.turns for part in parts),
        )


def paired(low: Array, high: Array) -> Array:
    """The uint64 of two uint32 halves; two strided copies take less than a shift and an or."""
    shape = low.shape if low.shape == high.shape else np.broadcast_shapes(low.shape, high.shape)
    halves = np.empty((*shape, 2), U32)
    halves[..., 0] = low
    halves[..., 1] = high
    return halves.view(np.uint64)[..., 0]


CONDITIONS: Final[dict[str, Callable[[Waves], Array]]] = {
    "s_cbranch_scc0": lambda waves: ~waves.scc,
    "s_cbranch_scc1": lambda waves: waves.scc,
    "s_cbranch_vccz": lambda waves: waves.vccz,
    "s_cbranch_vccnz": lambda waves: ~waves.vccz,
    "s_cbranch_execz": lambda waves: waves.execz,
    "s_cbranch_execnz": lambda waves: ~waves.execz,
}
