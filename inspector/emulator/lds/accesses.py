"""Accesses of LDS as they are met on a way through a kernel: bytes, waves, and how long they last.

An access lasts from its issue to the wait that covers it. Barriers are counted for each wave: it is
in the span of all barriers from the number that the wave had waited for at the issue to the number
that it had signalled at the end. Two accesses of different waves are in order where one's span
begins behind the other's end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct, field

from ..waves import Array

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

    Args:
        where: LDS bytes, int64 [wave, lane].
        active: lanes that take part, bool of the same shape; None for all.
        size: bytes of each lane.
    """

    where: Array
    active: Array | None
    size: int


class LdsAccess(Struct, eq=False):
    """One execution of an instruction by some waves.

    Args:
        site: index of the instruction.
        number: the access's, in the order of issue.
        kind: `copy` for one from memory into LDS.
        waves: their numbers.
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
        accesses: in the order of issue.
        overtaken: accesses of a wave, each with the copies into LDS that the same wave has issued
            and not waited for.
        barriers: how many each wave has passed.
        barrier_at: by wave, the instruction of each barrier.
    """

    accesses: list[LdsAccess] = field(default_factory=list)
    overtaken: list[tuple[LdsAccess, tuple[LdsAccess, ...]]] = field(default_factory=list)
    barriers: list[int] = field(default_factory=list)
    barrier_at: list[list[int]] = field(default_factory=list)


class LdsTraces(Struct):
    """The ways that were followed through a kernel.

    Args:
        ways: each of them.
        executed: indices of LDS accesses that were reached.
        undecided: indices of those whose bytes were not known each time.
        why: why there is no way; empty where there is.
    """

    ways: list[LdsTrace] = field(default_factory=list)
    executed: set[int] = field(default_factory=set)
    undecided: set[int] = field(default_factory=set)
    why: str = ""
