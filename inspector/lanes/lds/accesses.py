"""Waves and their accesses of LDS, as they are met on a way through a kernel: bytes, and how long
they last.

An access lasts from its issue to the wait that covers it. Barriers are counted for each wave: it is
in the span of all barriers from the number that the wave had waited for at the issue to the number
that it had signalled at the end. Two accesses of different waves are in order where one's span
begins behind the other's end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct, field

from ...emulator.waves import Array, Waves
from ...isa.dataflow.effects import RegisterEffect
from ...isa.dataflow.operands import DPP_CONTROLS, SCALAR_BIT, Decoded
from ...model import Instruction

Kind = Literal["read", "write", "atomic", "copy"]
KINDS: Final[Mapping[str, Kind]] = {
    "lds_read": "read",
    "lds_write": "write",
    "lds_atomic": "atomic",
    "lds_direct": "copy",
    "lds_direct_store": "read",
}
"""Class of the instruction -> kind of its access."""


class AccessBytes(Struct, frozen=True):
    """Bytes that an access touches: some have two places (`ds_read2`).

    `where`: LDS bytes, int64 [wave, lane]. `active`: lanes that take part, bool of the same shape;
    None for all.
    """

    where: Array
    active: Array | None
    size: int


class LdsAccess(Struct, eq=False):
    """One execution of an instruction by some waves.

    Args:
        kind: `copy` for one from memory into LDS.
        parts: empty where its bytes are not known.
        first: by wave, the barriers that it had waited for at the issue.
        last: by wave, those that it had signalled at the end; missing where no wait has come.
    """

    site: int
    number: int
    kind: Kind
    waves: tuple[int, ...]
    parts: tuple[AccessBytes, ...]
    first: dict[int, int]
    last: dict[int, int] = field(default_factory=dict)


class LdsTrace(Struct):
    """The accesses and barriers on one way through the code.

    Args:
        waits: how many barriers each wave has waited for.
        barriers: how many each wave has signalled.
        barrier_at: by wave, the instruction of each of these.
        overtaken: accesses of a wave, each with the copies into LDS that the same wave has issued
            and not waited for.
    """

    waits: list[int]
    barriers: list[int]
    barrier_at: list[list[int]]
    accesses: list[LdsAccess] = field(default_factory=list)
    overtaken: list[tuple[LdsAccess, tuple[LdsAccess, ...]]] = field(default_factory=list)

    @staticmethod
    def of(waves: int) -> LdsTrace:
        """The trace of some waves that have met nothing yet."""
        return LdsTrace([0] * waves, [0] * waves, [[] for _ in range(waves)])

    def fork(self, unfinished: Mapping[int, LdsAccess]) -> TraceFork:
        """The trace as it is now, to be continued on another way.

        `unfinished`: copies of the accesses that have not ended, by number.
        """
        return TraceFork(
            self,
            list(self.waits),
            list(self.barriers),
            [len(barriers) for barriers in self.barrier_at],
            len(self.accesses),
            len(self.overtaken),
            unfinished,
        )

    def pass_barrier(self, waves: Sequence[int], inst: Instruction) -> None:
        """Counts a barrier, or one half of it, for each of some waves."""
        for wave in waves:
            if inst.op.name != "s_barrier_wait":
                self.barriers[wave] += 1
                self.barrier_at[wave].append(inst.index)
            if inst.cls == "barrier":
                self.waits[wave] += 1

    def add(
        self,
        inst: Instruction,
        waves: tuple[int, ...],
        parts: tuple[AccessBytes, ...],
        copies: tuple[LdsAccess, ...],
    ) -> LdsAccess:
        """Adds an access, and returns it.

        `parts`: its bytes; none where they are not known. `copies`: those into LDS that these waves
        have not waited for.
        """
        first = {wave: self.waits[wave] for wave in waves}
        access = LdsAccess(inst.index, len(self.accesses), KINDS[inst.cls], waves, parts, first)
        if access.kind != "copy" and parts and copies:
            self.overtaken.append((access, copies))
        self.accesses.append(access)
        return access

    def end(self, waves: Sequence[int], accesses: Iterable[LdsAccess]) -> None:
        """Notes at which barrier accesses of some waves have ended."""
        for access in accesses:
            for wave in waves:
                if wave in access.first:
                    access.last[wave] = self.barriers[wave]


class TraceFork(Struct, frozen=True):
    """A trace at some time: what was added to it later does not count.

    Args:
        trace: goes on; it only grows, and finished accesses do not change.
        passed: by wave, how many entries `barrier_at` had.
        unfinished: copies of the accesses that had not ended, by number.
    """

    trace: LdsTrace
    waits: list[int]
    barriers: list[int]
    passed: list[int]
    accesses: int
    overtaken: int
    unfinished: Mapping[int, LdsAccess]

    def continued(self) -> LdsTrace:
        """A trace of its own, to be continued."""
        trace, unfinished = self.trace, self.unfinished
        return LdsTrace(
            list(self.waits),
            list(self.barriers),
            [
                barriers[:count]
                for barriers, count in zip(trace.barrier_at, self.passed, strict=True)
            ],
            [unfinished.get(access.number, access) for access in trace.accesses[: self.accesses]],
            trace.overtaken[: self.overtaken],
        )


class LdsTraces(Struct):
    """The ways that were followed through a kernel.

    Args:
        executed: indices of LDS accesses that were reached.
        undecided: indices of those whose bytes were not known each time.
        why: why there is no way; empty where there is.
    """

    ways: list[LdsTrace] = field(default_factory=list)
    executed: set[int] = field(default_factory=set)
    undecided: set[int] = field(default_factory=set)
    why: str = ""


VECTOR: Final = (1 << SCALAR_BIT) - 1
"""The set of all vector rows."""


class Pending(Struct, eq=False):
    """An operation that a counter counts, with the accesses of LDS that it comes to."""

    site: int
    in_order: bool
    accesses: tuple[LdsAccess, ...] = ()


class WaveGroup(Struct, eq=False):
    """Waves that stand at the same block.

    Args:
        unknown: set of registers whose values are.
        masks: vector row -> lanes, bool [wave, lane], in which it is known; in others it is not.
        queues: by counter, oldest first.
        rounds: by number of the loop, how often it has gone round.
    """

    block: int
    waves: Waves
    unknown: int
    masks: dict[int, Array] = field(default_factory=dict)
    queues: dict[str, list[Pending]] = field(default_factory=dict)
    rounds: dict[int, int] = field(default_factory=dict)

    def is_known(self, reads: int, parts: Decoded) -> bool:
        """Whether all registers of a set are, in the lanes that an instruction looks at."""
        if reads & self.unknown:
            return False
        across = _is_across(parts) if self.masks else False
        return not any(
            reads >> row & 1 and (~lanes if across else self.waves.active & ~lanes).any()
            for row, lanes in self.masks.items()
        )

    def learn(self, effect: RegisterEffect) -> None:
        """Notes as known what an instruction writes from known registers, in the active lanes."""
        overwritten = effect.low & effect.high
        if self.waves.full:
            self.unknown &= ~overwritten
            if self.masks:
                self._drop(overwritten)
            return
        self.unknown &= ~(overwritten & ~VECTOR)
        rows = overwritten & (self.unknown | self.partly) & VECTOR
        while rows:
            row = (rows & -rows).bit_length() - 1
            rows &= rows - 1
            active, earlier = self.waves.active, self.masks.get(row)
            self.masks[row] = active.copy() if earlier is None else earlier | active
            self.unknown &= ~(1 << row)

    def forget(self, writes: int) -> None:
        """Notes as unknown what an instruction writes."""
        self.unknown |= writes
        if self.masks:
            self._drop(writes)

    def set_known(self, bits: int, *, known: bool) -> None:
        """Notes scalar registers as known or unknown."""
        self.unknown = self.unknown & ~bits if known else self.unknown | bits

    @property
    def partly(self) -> int:
        """The set of registers that are known in some lanes."""
        rows = 0
        for row in self.masks:
            rows |= 1 << row
        return rows

    def _drop(self, rows: int) -> None:
        """Forgets which lanes of registers are known."""
        for row in [row for row in self.masks if rows >> row & 1]:
            del self.masks[row]

    def let_through(self, counter: str, newest: int) -> list[Pending]:
        """Takes all but the `newest` operations out of a counter's queue; returns those."""
        queue = self.queues.get(counter)
        if not queue or len(queue) <= newest:
            return []
        leaving, staying = queue[: len(queue) - newest], queue[len(queue) - newest :]
        if newest:
            staying = [entry for entry in leaving if not entry.in_order] + staying
            leaving = [entry for entry in leaving if entry.in_order]
        self.queues[counter] = staying
        return leaving

    def outstanding(self) -> Iterator[LdsAccess]:
        """Yields the accesses that no wait has covered."""
        for queue in self.queues.values():
            for entry in queue:
                yield from entry.accesses

    def selected(self, which: Array) -> WaveGroup:
        """Some of the waves (bool or indices), as copies; what is known of some lanes is lost."""
        return WaveGroup(
            self.block,
            self.waves.select(which),
            self.unknown | self.partly,
            {},
            {counter: list(queue) for counter, queue in self.queues.items()},
            dict(self.rounds),
        )

    @staticmethod
    def join(groups: Sequence[WaveGroup]) -> WaveGroup:
        """Waves that meet; all have the same operations outstanding."""
        joined = groups[0]
        for counter, queue in joined.queues.items():
            for position, entry in enumerate(queue):
                accesses = {
                    access.number: access
                    for group in groups
                    for access in group.queues[counter][position].accesses
                }
                queue[position] = Pending(entry.site, entry.in_order, tuple(accesses.values()))
        for group in groups:
            joined.unknown |= group.unknown | group.partly
        joined.masks = {}
        joined.waves = Waves.join([group.waves for group in groups])
        return joined


_ACROSS: Final = re.compile(
    r"v_readlane\w*|v_readfirstlane\w*|v_permlane\w*|ds_\w*(permute|swizzle)\w*"
)


def _is_across(parts: Decoded) -> bool:
    """Whether lanes get the values of others."""
    return _ACROSS.fullmatch(parts.name) is not None or not DPP_CONTROLS.isdisjoint(parts.modifiers)
