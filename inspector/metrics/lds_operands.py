"""How often a loop's products use what they read from LDS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from ..isa.vector_halves import halves
from ..isa.waitflow.registers import named, split_destination
from ..model import Instruction, Metric, Scalar
from .entries import of_loops
from .subject import MATRIX_CLASSES, LineName

OPERANDS: Final = "lds_operands"

SPECS: Final = of_loops(
    {
        OPERANDS: "What the products of a hot loop without matrix instructions take from LDS: "
        "`dwords` of a lane in an iteration, `uses` of them as operands, and `at` which line the "
        "first read is",
    },
    "estimated",
)

_FEWEST_READS: Final = 4
"""Reads of LDS in an iteration from which on the operands of products are looked for."""
_PRODUCT: Final = re.compile(r"v_(?:dual_|pk_)?(?:fma|fmac|mac|mad_f|mad_mix|mul_f|dot\d)")
_COPY: Final = re.compile(r"v_(?:dual_|pk_)?mov_b(?:32|64)$")
_LOW: Final = re.compile(r"\bop_sel:\[([01,]+)\]")
_HIGH: Final = re.compile(r"\bop_sel_hi:\[([01,]+)\]")
"""Which half of each operand's pair the low and the high product of a packed one takes."""
_MODIFIERS: Final = re.compile(r"\s\w+:\[.*$")


class OperandUse(Struct, frozen=True):
    """One iteration of a loop, for one lane.

    Args:
        dwords: registers that reads of LDS fill and products read, as they are or copied.
        uses: operands of products (multiplications too) that are such registers.
    """

    dwords: int
    uses: int


def compute(executed: Sequence[Instruction]) -> Iterator[Metric]:
    """The metric of `SPECS`, where a loop has it.

    `executed`: what an iteration of the loop executes on its longest way.
    """
    reads = sum(inst.cls == "lds_read" for inst in executed)
    if reads < _FEWEST_READS or any(inst.cls in MATRIX_CLASSES for inst in executed):
        return
    use = operand_use(executed)
    value: dict[str, Scalar] = {
        "dwords": use.dwords,
        "uses": use.uses,
        "at": LineName.of([inst for inst in executed if inst.cls == "lds_read"]),
    }
    yield Metric(OPERANDS, value, "mapping", "estimated")


def operand_use(executed: Sequence[Instruction]) -> OperandUse:
    """Counts the operands of products that come from LDS.

    `executed`: the instructions of one iteration, in order. They are walked through twice, for what
    is read at an iteration's end for the next.
    """
    holder: dict[int, tuple[int, int]] = {}
    """Register -> the read that the value comes from, and the register that this one filled."""
    used: set[tuple[int, int]] = set()
    uses = 0
    for is_counted in (False, True):
        for inst in executed:
            for name, operands in halves(inst):
                written, read = split_destination(operands)
                if is_counted and _PRODUCT.match(name):
                    held = [holder[at] for at in _operands(name, read) if at in holder]
                    uses += len(held)
                    used.update(held)
                copied = dict(_copies(name, operands))
                copies = {to: holder[at] for to, at in copied.items() if at in holder}
                for register in named(written):
                    if inst.cls == "lds_read":
                        holder[register] = inst.index, register
                    else:
                        holder.pop(register, None)
                holder |= copies
    return OperandUse(len(used), uses)


def _copies(name: str, operands: str) -> Iterator[tuple[int, int]]:
    """Register that an operation writes -> the one whose value it takes unchanged."""
    if not _COPY.match(name):
        return
    written, read = split_destination(operands)
    if not name.startswith("v_pk_mov"):
        yield from zip(named(written), named(read), strict=False)
        return
    sources = [named(text) for text in read.split(",", 2)[:2]]
    for to, source, half in zip(
        named(written), sources, _chosen(_LOW, operands) or (0, 0), strict=False
    ):
        if half < len(source):
            yield to, source[half]


def _operands(name: str, sources: str) -> Iterator[int]:
    """Registers of a product's operands, each as often as it is taken."""
    if not name.startswith("v_pk_") or "f32" not in name:
        yield from named(sources)
        return
    low, high = (_chosen(pattern, sources) for pattern in (_LOW, _HIGH))
    texts = _MODIFIERS.sub("", sources).split(",")
    for position, text in enumerate(texts):
        registers = named(text)
        for halves_taken, otherwise in ((low, 0), (high, 1)):
            half = halves_taken[position] if position < len(halves_taken) else otherwise
            if half < len(registers):
                yield registers[half]


def _chosen(pattern: re.Pattern[str], operands: str) -> list[int]:
    """The bits of a modifier; empty where it is not there."""
    bits = pattern.search(operands)
    return [int(bit) for bit in bits[1].split(",")] if bits is not None else []
