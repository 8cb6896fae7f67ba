"""Loops for pointers that are not aligned, beside loops of wide accesses for those that are.

A kernel may test the low bits of its pointers, and do the same work by single elements where they
are not zero. Such a loop is there for what is rarely passed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ..isa.mnemonics import access_bits
from ..isa.vector_halves import written_registers
from ..isa.waitflow.registers import named, split_destination
from ..model import Function, Instruction, Metric, MetricSpec
from .argument_words import KERNARG, LoadedWords
from .subject import Subject

UNALIGNED: Final = "loop.unaligned"

SPECS: Final = (
    MetricSpec(
        UNALIGNED,
        "bool",
        "derived",
        "loop",
        "The kernel tests the low bits of a pointer that it is passed, and another loop of it has "
        "the same kinds of accesses of global memory, each at least twice as wide as the widest "
        "of this one: it does the work of that loop where pointers are not aligned",
    ),
)

_ACCESSES: Final = frozenset(("global_load", "global_store"))
_PASSED_ON: Final = re.compile(r"[sv]_(?:mov_b|or_b|add_|addc|lshl_add|readfirstlane|or3|add3)")
_LOW_BITS: Final = re.compile(r"[sv]_and_b(?:32|64)")
_MASK: Final = re.compile(r",\s*(?:3|7|15|0x3|0x7|0xf)\s*(?:,|$)")


def loop_metrics(
    subject: Subject, own_code: Mapping[str, Sequence[Instruction]]
) -> dict[str, dict[str, Metric]]:
    """Loop id -> its metric by name.

    Args:
        subject: the kernel.
        own_code: loop id -> its instructions, nested loops excluded.
    """
    function = subject.function
    widths = {loop.id: _widths(own_code[loop.id]) for loop in function.loops}
    candidates = {
        narrow
        for narrow, own in widths.items()
        for others in widths.values()
        if own
        and own.keys() == others.keys()
        and 2 * max(m for _, m in own.values()) <= min(least for least, _ in others.values())
    }
    unaligned = candidates if candidates and _tests_low_bits(function) else set()
    return {
        loop.id: {UNALIGNED: Metric(UNALIGNED, loop.id in unaligned, "bool", "derived")}
        for loop in function.loops
    }


def _widths(code: Sequence[Instruction]) -> dict[str, tuple[int, int]]:
    """Class of access -> the fewest and most bits that one moves; empty where one is not known."""
    widths: dict[str, tuple[int, int]] = {}
    for inst in code:
        if inst.cls in _ACCESSES:
            bits = access_bits(inst.op, inst.operands)
            if bits is None:
                return {}
            least, most = widths.get(inst.cls, (bits, bits))
            widths[inst.cls] = min(least, bits), max(most, bits)
    return widths


def _tests_low_bits(function: Function) -> bool:
    """Whether the code masks the low bits of a pointer among the arguments."""
    offsets = function.resources.pointers or ()
    words = LoadedWords(function, {(KERNARG, offset) for offset in offsets})
    pointers: set[int] = set()
    """Registers that hold low words of pointers, or sums with them."""
    for inst in function.instructions:
        written = written_registers(inst)
        loaded = words.after(inst, written)
        own = pointers.intersection(named(split_destination(inst.operands)[1]))
        if own and _LOW_BITS.match(inst.op.name) and _MASK.search(inst.operands):
            return True
        if loaded:
            pointers = pointers - written | loaded
        elif own and _PASSED_ON.match(inst.op.name):
            pointers |= written
        else:
            pointers -= written
    return False
