"""Instructions as profilers, disassemblers and compilers spell them, made comparable.

The compiler prints labels where a disassembler prints distances, symbols where the linker has put
numbers, and either may leave out what an encoding's suffix says.
"""

from __future__ import annotations

import re

from ...isa.mnemonics import lookup
from ...model import Instruction

_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+)$")
_GAPS = re.compile(r"[\s,]+")
_LOW_BITS = 0xFFFF  # of `-1` and `0xffff`, which are one 16-bit constant


def operation(mnemonic: str) -> str:
    """What an instruction does: its mnemonic without encoding suffix and underscores.

    LLVM has printed both `v_mfma_f32_32x32x8f16` and `v_mfma_f32_32x32x8_f16`.
    """
    return lookup(mnemonic).name.replace("_", "")


def split(text: str) -> tuple[str, str]:
    """Mnemonic and operands of an instruction as a profiler wrote it; comments are cut off."""
    parts = text.partition("//")[0].split(None, 1)
    if not parts:
        return "", ""
    return parts[0], parts[1].rstrip() if len(parts) > 1 else ""


def is_data(text: str) -> bool:
    """Whether the profiler's disassembler could not decode an instruction (`.long 0x7f001501`)."""
    return text.lstrip().startswith(".")


def key(mnemonic: str, operands: str) -> str:
    """Equal for two spellings of one instruction.

    Destinations of branches do not count; numbers count by their low 16 bits.
    """
    op = lookup(mnemonic)
    name = op.name.replace("_", "")
    if op.cls == "branch":
        return name
    return " ".join((name, *(_operand(word) for word in _GAPS.split(operands) if word)))


def key_of(instruction: Instruction) -> str:
    """The key of an instruction that was parsed."""
    return key(instruction.mnemonic, instruction.operands)


def text_key(text: str) -> str:
    """The key of an instruction as a profiler wrote it."""
    return key(*split(text))


def _operand(word: str) -> str:
    if word == "null":
        return "0"
    if "@" in word or word.startswith("lit("):
        return "#"
    if _NUMBER.match(word):
        return str(int(word, 0) & _LOW_BITS) if "x" in word else str(int(word) & _LOW_BITS)
    return word
