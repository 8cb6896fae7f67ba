"""Results of memory operations that no wait has covered yet.

A load reads memory when it is issued, but its registers get the value when a wait lets it: code
that does not wait sees what stood there before, as it may on the hardware. Each counter is a queue;
a wait for N lets all but the newest N through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from .waves import Waves

Array = np.ndarray[Any, Any]

# Completes an operation: gets the waves and the entry's arrays.
Complete = Callable[["Waves", tuple[Array, ...]], None]


class OutstandingOperation(Struct):
    """One operation that a counter counts.

    Args:
        registers: which it will write, as `half_bits` and `scalar_bits` have them.
        complete: writes the result.
        arrays: the result's arrays, each with waves on the first axis.
        in_order: False for operations that come back in any order (scalar loads): only a wait for 0
            is sure of them.
        site: index of the instruction.
        lds_bytes: of a write of LDS, the bytes of each lane; `arrays` are its places and lanes.
    """

    registers: int
    complete: Complete | None
    arrays: tuple[Array, ...] = ()
    in_order: bool = True
    site: int = -1
    lds_bytes: int = 0

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

    def cross_barrier(self, waves: Waves) -> None:
        """Notes LDS accesses that no wait has covered when waves arrive at a barrier."""
        for queue in self.queues.values():
            for entry in queue:
                if entry.registers:
                    waves.machine.delayed_reads(entry.site, waves)
                for index in range(0, len(entry.arrays) if entry.lds_bytes else 0, 2):
                    where, usable = entry.arrays[index : index + 2]
                    waves.machine.delayed_lds(waves, where, usable, entry.lds_bytes)

    def would_clash(self, registers: int, counter: str | None, result: int) -> int:
        """The registers that an instruction may not use yet.

        Args:
            registers: all that it reads or writes.
            counter: the counter whose results come back in the order of issue, if it has one.
            result: what it will itself write when that counter lets it: an older result for these
                arrives first, and does no harm.
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
