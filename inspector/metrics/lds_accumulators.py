"""Values that a loop keeps in LDS, though no other lane reads them there.

A lane that adds to a place of its own in LDS in each iteration reads it, waits, adds and writes it
back. The compiler keeps such a value in a register only where it can prove that no other access of
LDS may be of the same place; here the addresses of the lanes tell that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ..isa.vector_halves import written_registers
from ..isa.waitflow.registers import named, split_destination
from ..model import Instruction, Loop, Metric, MetricSpec, Scalar
from .load_paths import code_of
from .subject import LANE_EXCHANGES, Subject, source_line

if TYPE_CHECKING:
    from ..lanes.address_sweep import Places

HELD: Final = "lds_accumulators"

SPECS: Final = (
    MetricSpec(
        HELD,
        "mapping",
        "derived",
        "loop",
        "Values of 32 bits that each lane reads from LDS and writes back in the loop's own code, "
        "at places that the loop does not change and that no other lane touches in it or in "
        "nested loops, none of their accesses of LDS moving: how many `dwords` of a lane, the "
        "`accesses` of the loop that read or write them, the first `at` which line; None in "
        "Triton's code, and where the lanes' places are not known",
    ),
)

_WORD: Final = 4
_BITS_OF_A_PLACE: Final = 32
_CLASSES: Final = frozenset(("lds_read", "lds_write"))
_PLAIN: Final = re.compile(r"ds_(read|load|write|store)2?(st64)?_b\d+$")


class _Access(Struct, frozen=True):
    """An access of LDS with the words of each lane.

    Args:
        inst: the instruction.
        words: the word of LDS and the lane, as one number each, of all workgroups drawn.
    """

    inst: Instruction
    words: frozenset[tuple[int, int]]


def loop_metrics(
    subject: Subject, own_code: Mapping[str, Sequence[Instruction]]
) -> dict[str, dict[str, Metric]]:
    """Loop id -> its metric by name.

    Args:
        subject: the kernel.
        own_code: loop id -> its instructions, nested loops excluded.
    """
    known = bool(subject.places) and subject.ttgir is None
    known = known
    return {
        loop.id: {
            HELD: Metric(HELD, _of_loop(subject, own_code[loop.id], loop), "mapping", "derived")
            if known
            else Metric(HELD, None, "mapping", "derived", "the places of its lanes are not known")
        }
        for loop in subject.function.loops
    }


def _of_loop(subject: Subject, own: Sequence[Instruction], loop: Loop) -> dict[str, Scalar] | None:
    """The metric's value; None where a place is not known.

    Args:
        subject: the kernel.
        own: the loop's instructions, nested loops excluded.
        loop: the loop.
    """
    function = subject.function
    whole = [inst for number in loop.blocks for inst in code_of(function, number)]
    inner = [
        inst
        for inst in whole
        if inst.cls in ("lds_read", "lds_write", "lds_atomic", "lds_direct")
        and not inst.op.name.startswith(LANE_EXCHANGES)
    ]
    none: dict[str, Scalar] = {"dwords": 0, "accesses": 0, "at": None}
    inside = {inst.index for inst in own}
    if not {inst.cls for inst in inner if inst.index in inside} >= _CLASSES:
        return none
    if any(inst.cls not in _CLASSES for inst in inner):
        return none
    if not all(_PLAIN.match(inst.op.name) for inst in inner):
        return none
    addresses = {register for inst in inner for register in _address(inst)}
    if any(not addresses.isdisjoint(written_registers(inst)) for inst in whole):
        return none  # where it goes in later iterations is not known
    reads: list[_Access] = []
    writes: list[_Access] = []
    for inst in inner:
        words = _words(subject.places.get(inst.index))
        if words is None:
            return None
        (reads if inst.cls == "lds_read" else writes).append(_Access(inst, words))
    held = _first_read(
        [access for access in reads if access.inst.index in inside],
        [access for access in writes if access.inst.index in inside],
    )
    owners: dict[int, set[int]] = {}
    for access in (*reads, *writes):
        for word, lane in access.words:
            owners.setdefault(word, set()).add(lane)
    held = {(word, lane) for word, lane in held if len(owners[word]) == 1}
    lanes = {lane for _, lane in held}
    if not lanes:
        return none
    accesses = [access for access in (*reads, *writes) if not held.isdisjoint(access.words)]
    first = min(accesses, key=lambda access: access.inst.index)
    return {
        "dwords": round(len(held) / len(lanes)),
        "accesses": len(accesses),
        "at": source_line(first.inst.loc),
    }


def _address(inst: Instruction) -> Sequence[int]:
    """The registers of an access's address."""
    text = inst.operands
    return named(split_destination(text)[1] if inst.cls == "lds_read" else text.split(",")[0])


def _first_read(reads: Sequence[_Access], writes: Sequence[_Access]) -> set[tuple[int, int]]:
    """The words that a lane reads before it writes them."""
    read_at: dict[tuple[int, int], int] = {}
    written_at: dict[tuple[int, int], int] = {}
    for at, accesses in ((read_at, reads), (written_at, writes)):
        for access in reversed(accesses):
            at.update(dict.fromkeys(access.words, access.inst.index))
    return {pair for pair, index in read_at.items() if index < written_at.get(pair, -1)}


def _words(places: Sequence[Places] | None) -> frozenset[tuple[int, int]] | None:
    """The words of LDS that each lane of a workgroup touches; None where that is not known.

    Each draw of what is not known is a workgroup of its own, with lanes and LDS of its own.
    """
    import numpy as np

    if not places or any(part.scattered or part.space != "lds" for part in places):
        return None
    pairs: set[tuple[int, int]] = set()
    for part in places:
        draws, waves, lanes = part.where.shape
        numbers = np.arange(draws * waves * lanes)
        drawn = numbers // (waves * lanes)
        where = part.where.reshape(-1) // _WORD + (drawn << _BITS_OF_A_PLACE)
        if part.active is not None:
            active = part.active.reshape(-1)
            where, numbers = where[active], numbers[active]
        for word in range(max(1, part.size // _WORD)):
            pairs.update(zip((where + word).tolist(), numbers.tolist(), strict=True))
    return frozenset(pairs)
