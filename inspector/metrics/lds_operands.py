"""How often a loop's products use what they read from LDS.

A product of two matrices whose work-items compute one element each reads two values from LDS for
each multiply-add: the LDS of a CU delivers 128 bytes a cycle, that is 32 values, for which its
vector units do 64 to 128 multiply-adds. Only values that serve several products, as where each
work-item computes a block of elements in registers, let the vector units keep up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from ..isa.vector_halves import halves
from ..isa.waitflow.registers import named, split_destination
from ..model import Instruction, Machine, Metric, MetricSpec, Scalar
from .subject import MATRIX_CLASSES, Subject
from .unit_bounds import lds_least, rounded

OPERANDS: Final = "lds_operands"

SPECS: Final = (
    MetricSpec(
        OPERANDS,
        "mapping",
        "estimated",
        "loop",
        "What the products of a hot loop without matrix instructions take from LDS: `dwords` "
        "of a lane in an iteration, `uses` of them as operands, and `cycles` that the LDS takes at "
        "least for the accesses of all resident waves, if all lanes take part in those whose "
        "addresses are not known",
    ),
)

_FEWEST_READS: Final = 4
"""Reads of LDS in an iteration from which on the operands of products are looked for."""
_PRODUCT: Final = re.compile(r"v_(?:dual_|pk_)?(?:fma|fmac|mac|mad_f|mad_mix|mul_f|dot\d)")


class OperandUse(Struct, frozen=True):
    """One iteration of a loop, for one lane.

    Args:
        dwords: registers that reads of LDS fill and products read.
        uses: operands of products (multiplications too) that are such registers.
    """

    dwords: int
    uses: int


def compute(
    subject: Subject, machine: Machine, executed: Sequence[Instruction], waves_on_cu: int
) -> Iterator[Metric]:
    """The metric of `SPECS`, where a loop has it.

    Args:
        subject: the kernel.
        machine: the target.
        executed: what an iteration of the loop executes on its longest way.
        waves_on_cu: resident waves of a CU.
    """
    reads = sum(inst.cls == "lds_read" for inst in executed)
    if reads < _FEWEST_READS or any(inst.cls in MATRIX_CLASSES for inst in executed):
        return
    lanes = subject.demand.wave_size if subject.demand is not None else None
    least = lds_least(subject.uses, machine, executed, lanes)
    use = operand_use(executed)
    value: dict[str, Scalar] = {
        "dwords": use.dwords,
        "uses": use.uses,
        "cycles": None if least is None else rounded(least * waves_on_cu),
    }
    yield Metric(OPERANDS, value, "mapping", "estimated")


def operand_use(executed: Sequence[Instruction]) -> OperandUse:
    """Counts the operands of products that come from LDS.

    Args:
        executed: the instructions of one iteration, in order. They are walked through twice, for
            what is read at an iteration's end for the next.
    """
    holder: dict[int, int] = {}  # register -> the read that filled it
    used: set[tuple[int, int]] = set()
    uses = 0
    for is_counted in (False, True):
        for inst in executed:
            for name, operands in halves(inst):
                written, read = split_destination(operands)
                if is_counted and _PRODUCT.match(name):
                    held = [(holder[at], at) for at in named(read) if at in holder]
                    uses += len(held)
                    used.update(held)
                for register in named(written):
                    if inst.cls == "lds_read":
                        holder[register] = inst.index
                    else:
                        holder.pop(register, None)
    return OperandUse(len(used), uses)
