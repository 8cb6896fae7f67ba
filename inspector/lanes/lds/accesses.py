"""Accesses of LDS as they are met on a way through a kernel: bytes, waves, and how long they last.

An access lasts from its issue to the wait that covers it. Barriers are counted for each wave: it is
in the span of all barriers from the number that the wave had waited for at the issue to the number
that it had signalled at the end. Two accesses of different waves are in order where one's span
begins behind the other's end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct, field

from ...emulator.waves import Array
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
