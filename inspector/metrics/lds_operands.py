"""How often a loop's products use what they read from LDS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from ..isa.dataflow.operands import Decoded, Operand
from ..isa.dataflow.value_graph import operations
from ..model import Function, Instruction, Metric, Scalar
from .entries import metric_of, of_loops
from .subject import MATRIX_CLASSES, LineName

OPERANDS: Final = "lds_operands"

OPERAND_SPECS: Final = of_loops(
    {
        OPERANDS: "What the products of a hot loop without matrix instructions take from LDS: "
        "`dwords` of a lane in an iteration, `uses` of them as operands, and `at` which line the "
        "first read is",
    },
    "estimated",
)

_FEWEST_READS: Final = 4
"""Reads of LDS in an iteration from which on the operands of products are looked for."""
_PRODUCT: Final = re.compile(r"v_(?:fma|mac|mad_f|mad_mix|mul_f|dot\d)")
_COPY: Final = re.compile(r"v_(?:pk_)?mov_b(?:32|64)$")


class OperandUse(Struct, frozen=True):
    """One iteration of a loop, for one lane.

    Args:
        dwords: registers that reads of LDS fill and products read, as they are or copied.
        uses: operands of products (multiplications too) that are such registers.
    """

    dwords: int
    uses: int


def compute(function: Function, executed: Sequence[Instruction]) -> Iterator[Metric]:
    """The metric of `OPERAND_SPECS`, where a loop has it, by what an iteration executes."""
    reads = [inst for inst in executed if inst.cls == "lds_read"]
    if len(reads) < _FEWEST_READS or any(inst.cls in MATRIX_CLASSES for inst in executed):
        return
    use = operand_use(function, executed)
    value: dict[str, Scalar] = {"dwords": use.dwords, "uses": use.uses, "at": LineName.of(reads)}
    yield metric_of(OPERAND_SPECS[0], value)


def operand_use(function: Function, executed: Sequence[Instruction]) -> OperandUse:
    """Counts the operands of an iteration's products that come from LDS.

    Its instructions are walked through twice, for what is read at an iteration's end for the next.
    """
    holder: dict[int, tuple[int, int]] = {}
    """Register -> the read that the value comes from, and the register that this one filled."""
    used: set[tuple[int, int]] = set()
    uses = 0
    done = operations(function, executed)
    for is_counted in (False, True):
        for operation in done:
            if is_counted and _PRODUCT.match(operation.name):
                held = [holder[at] for at in _operands(operation.parts) if at in holder]
                uses += len(held)
                used.update(held)
            copies = {to: holder[at] for to, at in _copies(operation.parts) if at in holder}
            for result in operation.results:
                for row in _rows(result):
                    holder.pop(row, None)
                    if operation.inst.cls == "lds_read":
                        holder[row] = operation.inst.index, row
            holder |= copies
    return OperandUse(len(used), uses)


def _copies(parts: Decoded) -> Iterator[tuple[int, int]]:
    """Register that an operation writes -> the one whose value it takes unchanged."""
    result, *sources = parts.operands or (None,)
    if result is None or not _COPY.match(parts.name):
        return
    if not parts.name.startswith("v_pk_mov"):
        yield from zip(_rows(result), [row for s in sources for row in _rows(s)], strict=False)
        return
    for position, (to, source) in enumerate(zip(_rows(result), sources, strict=False)):
        half = _chosen(parts, "op_sel", position, 0)
        if half < len(_rows(source)):
            yield to, _rows(source)[half]


def _operands(parts: Decoded) -> Iterator[int]:
    """Registers of a product's operands, each as often as it is taken.

    Both products of a packed one of 32 bits take one half of a pair where its modifiers say so.
    """
    for position, source in enumerate(parts.operands[1:]):
        rows = _rows(source)
        if not parts.name.startswith("v_pk_") or "f32" not in parts.name:
            yield from rows
            continue
        for modifier, otherwise in (("op_sel", 0), ("op_sel_hi", 1)):
            half = _chosen(parts, modifier, position, otherwise)
            if half < len(rows):
                yield rows[half]


def _rows(operand: Operand) -> range:
    return operand.rows if operand.kind == "vgpr" else range(0)


def _chosen(parts: Decoded, modifier: str, position: int, otherwise: int) -> int:
    """Which half of an operand's pair a modifier chooses."""
    bits = parts.modifiers.get(modifier, "").strip("[]").split(",")
    return int(bits[position] == "1") if position < len(bits) and bits[position] else otherwise
