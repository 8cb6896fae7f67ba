"""Registers that operands name, as numbers: what a wait protects.

VGPRs, AGPRs and SGPRs lie in ranges of their own; VCC can be loaded by scalar loads and has two
numbers. M0, EXEC and the like are never written by memory operations and have none.
"""

from __future__ import annotations

import functools
import re

# First number of each kind; no target has 4096 registers of one.
_BASE = {"v": 0, "a": 4096, "acc": 4096, "s": 8192, "ttmp": 12288}
VCC = (16384, 16385)
_LOW, _HIGH = 32768, 65536  # added to a VGPR's number for one half of it
_HALF = re.compile(r"(?<![\w.])v\d+\.([lh])\b")
_WIDEST = 64
"""Registers that one operand names at most (32 are known); damaged text may say any number."""
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
    for vcc, kind, single, first, last in _REGISTER.findall(text):
        if vcc:
            numbers.extend(_VCC_HALVES[vcc])
        elif single:
            numbers.append(_BASE[kind] + int(single))
        else:
            low = int(first)
            high = min(int(last or low), low + _WIDEST - 1)
            numbers.extend(range(_BASE[kind] + low, _BASE[kind] + high + 1))
    return tuple(numbers)


def low(register: int) -> int:
    """The number of a VGPR's bits 0 to 15: `v1.l`."""
    return register + _LOW


def high(register: int) -> int:
    """The number of a VGPR's bits 16 to 31: `v1.h`."""
    return register + _HIGH


def overlapping(register: int) -> tuple[int, ...]:
    """The numbers of what shares bits with a register or half of one, itself among them."""
    if register >= _HIGH:
        return register, register - _HIGH
    if register >= _LOW:
        return register, register - _LOW
    return register, register + _LOW, register + _HIGH


def named_halves(text: str) -> tuple[int, ...]:
    """As `named`, with halves of VGPRs told apart: `v1.l`, `v1.h` (true 16-bit code, gfx11 on)."""
    numbers: list[int] = []
    for word in text.replace(",", " ").split():
        half = _HALF.search(word)
        registers = named(word)
        if half is not None and len(registers) == 1:
            registers = ((low if half[1] == "l" else high)(registers[0]),)
        numbers.extend(registers)
    return tuple(numbers)


def unnamed_of(name: str, wave: int | None = None) -> tuple[int, ...]:
    """Registers that an instruction of this name reads without naming them.

    A mask of 32 lanes is VCC_LO alone; VCC_HI is a scalar like any other then (RDNA ISA, "VCC").
    """
    if _READS_VCC.match(name) is None:
        return ()
    return VCC[:1] if wave == 32 else VCC


def split(operands: str) -> tuple[str, str]:
    """The first operand and the rest: what a load writes, and what it reads."""
    first, _, other_operands = operands.partition(",")
    return first, other_operands
