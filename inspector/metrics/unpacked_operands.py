"""Operands of dots that vector instructions make of small integers, and roundings to bfloat16.

No target before gfx950 rounds float32 to bfloat16 by an instruction. LLVM writes it out: the lowest
bit that stays is added to half of what goes (`v_bfe_u32 x, 16, 1` or an AND of the upper word, and
`v_add3_u32 ..., 0x7fff`), and NaNs are kept apart, five instructions for an element. An integer of
eight bits needs no rounding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ..model import Metric, MetricSpec, Scalar
from .matrix import named
from .subject import Subject, Tally, op_line

_UNPACKED: Final = "operands.unpacked"
_ROUNDINGS: Final = "roundings.bf16"

SPECS = (
    MetricSpec(
        _UNPACKED,
        "mapping",
        "derived",
        "kernel",
        "Dots in loops of which an operand is converted from loaded integers: how many `dots`; of "
        "the first the `element` type that the integers become, the type that the `operand` has in "
        "the dot, the `bits` of an integer in memory, whether the numbers are multiplied before "
        "the dot (`scaled`), and `at` which line they are converted",
    ),
)
ROUNDING_SPECS = (
    MetricSpec(
        _ROUNDINGS,
        "conversions",
        "derived",
        "both",
        "Conversions of float32 to bfloat16 that are written out in integer instructions, five for "
        "each: bit 16 (v_bfe_u32, v_and_b32_sdwa), v_add3_u32, and what NaNs take",
    ),
)

_ADDS: Final = "v_add3_u32"
_TAKES_BIT: Final = ("v_bfe_u32", "v_and_b32_sdwa")
_LOWEST_BIT: Final = re.compile(
    r"v_bfe_u32(?:_e64)? .*, *16, *1|v_and_b32_sdwa .* src0_sel:WORD_1 .*"
)


def compute(subject: Subject) -> Iterator[Metric]:
    """The metric of `SPECS`."""
    if subject.ttgir is None:
        yield Metric(_UNPACKED, None, "mapping", "derived", "needs the kernel's TTGIR")
        return
    from ..ttgir.unpacked_operands import unpacked_operands  # only kernels with a TTGIR need it

    operands = list(unpacked_operands(subject.ttgir))
    value: dict[str, Scalar] = {"dots": len(operands)}
    if operands:
        first = operands[0]
        value |= {
            "element": named(first.element),
            "operand": named(first.operand),
            "bits": first.bits,
            "scaled": first.is_scaled,
            "at": op_line(first.conversion),
        }
    yield Metric(_UNPACKED, value, "mapping", "derived")


def roundings(subject: Subject, region: Tally) -> Iterator[Metric]:
    """The metric of `ROUNDING_SPECS`."""
    code = [subject.function.instructions[index] for index in region.indices]
    count = 0
    lowest_bit_of: dict[str, str] = {}  # register -> the register whose bit 16 it holds
    if not any(inst.mnemonic.startswith(_ADDS) for inst in code):
        code = []
    for inst in code:
        takes_bit = inst.mnemonic.startswith(_TAKES_BIT)
        if not (takes_bit or lowest_bit_of):
            continue
        destination, *sources = [part.strip() for part in inst.operands.split(",")]
        if inst.mnemonic.startswith(_ADDS):
            count += any(lowest_bit_of.get(at) in sources for at in sources if at in lowest_bit_of)
        lowest_bit_of.pop(destination, None)
        if takes_bit and _LOWEST_BIT.fullmatch(f"{inst.mnemonic} {inst.operands}") is not None:
            lowest_bit_of[destination] = sources[0]
    yield Metric(_ROUNDINGS, count, "conversions", "derived")
