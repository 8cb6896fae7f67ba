"""The spellings of instructions by compilers, disassemblers and profilers, and what they share.

The compiler prints labels where a disassembler prints distances, and symbols where the linker has
put numbers; either may leave out what an encoding's suffix says.
"""

from __future__ import annotations

import re

from ...isa.mnemonics import lookup
from ...model import Instruction

_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+)$")
_GAPS = re.compile(r"[\s,]+")
_LOW_BITS = 0xFFFF  # of `-1` and `0xffff`, which are one 16-bit constant

PADDING = frozenset({"s_nop", "s_code_end"})
"""Instructions with which assemblers and linkers fill gaps: in the code, but not in the text."""


def operation(mnemonic: str) -> str:
    """Returns the operation of a mnemonic: without its encoding suffix and underscores.

    LLVM has printed both `v_mfma_f32_32x32x8f16` and `v_mfma_f32_32x32x8_f16`.
    """
    return lookup(mnemonic).name.replace("_", "")


def split(text: str) -> tuple[str, str]:
    """Splits an instruction as a profiler wrote it into mnemonic and operands, without comment."""
    parts = text.partition("//")[0].split(None, 1)
    if not parts:
        return "", ""
    return parts[0], parts[1].rstrip() if len(parts) > 1 else ""


def is_data(text: str) -> bool:
    """Tells whether the profiler's disassembler has decoded no instruction (`.long 0x7f001501`)."""
    return text.lstrip().startswith(".")


def key(mnemonic: str, operands: str) -> str:
    """Returns a text that is the same for all spellings of an instruction.

    It leaves out the destinations of branches and all but the low 16 bits of numbers.
    """
    op = lookup(mnemonic)
    name = op.name.replace("_", "")
    if op.cls == "branch":
        return name
    return " ".join((name, *(_operand(word) for word in _GAPS.split(operands) if word)))


def key_of(instruction: Instruction) -> str:
    """Returns the key of a parsed instruction."""
    return key(instruction.mnemonic, instruction.operands)


def text_key(text: str) -> str:
    """Returns the key of an instruction as a profiler wrote it."""
    return key(*split(text))


def _operand(word: str) -> str:
    """Returns an operand's common spelling: `#` for symbols and literals, 16 bits of numbers."""
    if word == "null":
        return "0"
    if "@" in word or word.startswith("lit("):
        return "#"
    if _NUMBER.match(word):
        return str(int(word, 0) & _LOW_BITS) if "x" in word else str(int(word) & _LOW_BITS)
    return word
