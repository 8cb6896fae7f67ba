"""Registers that operands name, as numbers: what a wait protects.

    number          register
    0 …             VGPRs
    4096 …          AGPRs (`a`, or `acc` as older assemblers write them)
    8192 …          SGPRs
    12288 …         trap temporaries (`ttmp`)
    16384, 16385    VCC, which scalar loads can write
    32768 + VGPR    its bits 0 to 15 (`v1.l`)
    65536 + VGPR    its bits 16 to 31 (`v1.h`)

No target has 4096 registers of a kind. M0, EXEC and the like are never written by memory operations
and have no number.
"""

from __future__ import annotations

import functools
import re

FIRST_AGPR, FIRST_SGPR, FIRST_TTMP = 4096, 8192, 12288
_FIRST_NUMBER = {
    "v": 0,
    "a": FIRST_AGPR,
    "acc": FIRST_AGPR,
    "s": FIRST_SGPR,
    "ttmp": FIRST_TTMP,
}
VCC = (16384, 16385)
_LOW_HALVES, _HIGH_HALVES = 32768, 65536
_HALF = re.compile(r"(?<![\w.])v\d+\.([lh])\b")
_MAX_WIDTH = 64
"""Most registers that one operand names (32 are known); damaged text may state any number."""
_VCC_HALVES = {"vcc": VCC, "vcc_lo": VCC[:1], "vcc_hi": VCC[1:]}
_REGISTER = re.compile(
    r"(?<![\w.])(?:(vcc(?:_lo|_hi)?)\b"
    r"|(acc|ttmp|[vas])(?:(\d{1,9})\b|\[(\d{1,9})(?::(\d{1,9}))?\]))"
)
# Branches and VALU operations that read VCC without naming it.
_READS_VCC = re.compile(r"s_cbranch_vcc|s_cbranch_cdbg|v_div_fmas")


@functools.lru_cache(maxsize=65536)
def named(text: str) -> tuple[int, ...]:
    """Numbers of all registers that an operand text names, in its order.

    >>> named("v[2:3], v1, s[0:1] offset:16")
    (2, 3, 1, 8192, 8193)
    """
    numbers: list[int] = []
    for vcc, prefix, single, first_index, last_index in _REGISTER.findall(text):
        if vcc:
            numbers.extend(_VCC_HALVES[vcc])
        elif single:
            numbers.append(_FIRST_NUMBER[prefix] + int(single))
        else:
            start = int(first_index)
            stop = min(int(last_index or first_index), start + _MAX_WIDTH - 1) + 1
            numbers.extend(_FIRST_NUMBER[prefix] + index for index in range(start, stop))
    return tuple(numbers)


def low_half(register: int) -> int:
    """The number of a VGPR's bits 0 to 15: `v1.l`."""
    return register + _LOW_HALVES


def high_half(register: int) -> int:
    """The number of a VGPR's bits 16 to 31: `v1.h`."""
    return register + _HIGH_HALVES


def overlapping(register: int) -> tuple[int, ...]:
    """A register or half of one, and the registers and halves that share bits with it."""
    if register >= _HIGH_HALVES:
        return register, register - _HIGH_HALVES
    if register >= _LOW_HALVES:
        return register, register - _LOW_HALVES
    return register, low_half(register), high_half(register)


def named_halves(text: str) -> tuple[int, ...]:
    """Numbers of all registers that an operand text names; halves of VGPRs (`v1.l`, `v1.h` in true
    16-bit code, from gfx11 on) have their own.
    """
    numbers: list[int] = []
    for word in text.replace(",", " ").split():
        half = _HALF.search(word)
        registers = named(word)
        if half is not None and len(registers) == 1:
            half_of = low_half if half[1] == "l" else high_half
            registers = (half_of(registers[0]),)
        numbers.extend(registers)
    return tuple(numbers)


def unnamed_of(name: str, wave: int | None = None) -> tuple[int, ...]:
    """Registers that an instruction of this name reads without naming them.

    A mask of 32 lanes is VCC_LO alone; VCC_HI is then an ordinary scalar (RDNA ISA, "VCC").
    """
    if _READS_VCC.match(name) is None:
        return ()
    return VCC[:1] if wave == 32 else VCC


def split_destination(operands: str) -> tuple[str, str]:
    """The first operand, which a load writes, and the others, which it reads."""
    destination, _, sources = operands.partition(",")
    return destination, sources
