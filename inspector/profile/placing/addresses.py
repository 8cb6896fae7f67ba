"""Pairs the instructions of an assembly with addresses in the code object made from it.

Assembly has no addresses, a code object no lines: its disassembly is walked beside the text,
instruction by instruction.

The spellings of instructions by compilers, disassemblers and profilers, and what they share.

The compiler prints labels where a disassembler prints distances, and symbols where the linker has
put numbers; either may leave out what an encoding's suffix says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ...base.errors import KinspectError
from ...base.named_files import file_bytes
from ...isa.mnemonics import lookup
from ...model import Function, Instruction, Program


class AddressMap(Struct, frozen=True):
    """The instructions of an assembly text by their addresses.

    Args:
        instructions: address in the code object's file -> instruction of the text.
        code: address -> disassembled instruction; empty if there is no code object.
    """

    instructions: Mapping[int, Instruction]
    code: Mapping[int, Instruction]
    exact: bool  # whether every instruction has its address
    notes: tuple[str, ...] = ()  # what was left out, and why


def disassembled(path: Path, arch: str | None = None) -> Program:
    """Disassembles a code object's file.

    Raises:
        KinspectError: it cannot be read, is no code object, or no installed disassembler can decode
            it.
    """
    # The ELF reader and a disassembler are loaded only where they are needed.
    from ...isa.objects.load import load_code_object

    try:
        data = file_bytes(path)
    except OSError as error:
        raise KinspectError(
            f"{path}: {error.strerror or error}", "analyse the kernel again"
        ) from None
    return load_code_object(data, str(path), arch)


def addresses_of(functions: Sequence[Function], program: Program) -> AddressMap | None:
    """Aligns the functions of an assembly with those of its code object, by their names.

    Returns:
        None if nothing could be aligned; a map with notes if only a part could.
    """
    by_name = {f.symbol or f.name: f for f in program.functions if f.instructions}
    by_address: dict[int, Instruction] = {}
    code: dict[int, Instruction] = {}
    notes: list[str] = []
    exact = True
    for function in functions:
        name = function.symbol or function.name
        counterpart = by_name.get(name)
        if counterpart is None:
            notes.append(f"{name} is not in {program.name}")
            exact = False
            continue
        aligned = align(function.instructions, counterpart.instructions)
        notes += [f"{name}: {note}" for note in aligned.notes]
        exact &= aligned.exact
        by_address.update(aligned.instructions)
        code.update(aligned.code)
    return AddressMap(by_address, code, exact, tuple(notes)) if by_address or notes else None


def align(text: Sequence[Instruction], code: Sequence[Instruction]) -> AddressMap:
    """Gives the instructions of a text the addresses of the disassembled ones.

    They are paired one to one; the code alone may have padding, and words that could not be
    decoded. Where anything else differs it is another build's, and nothing is paired.
    """
    paired: dict[int, Instruction] = {}
    index = 0
    for instruction in code:
        expected = text[index] if index < len(text) else None
        if expected is not None and _may_be(expected, instruction):
            index += 1
            if instruction.address is not None:
                paired[instruction.address] = expected
        elif instruction.mnemonic not in PADDING:
            return _unpaired(text, code, expected, instruction)
    rest = [instruction for instruction in text[index:] if instruction.mnemonic not in PADDING]
    if rest:
        return _unpaired(text, code, rest[0], None)
    return AddressMap(paired, _by_address(code), exact=True)


def _may_be(in_text: Instruction, in_code: Instruction) -> bool:
    return is_data(in_code.mnemonic) or operation(in_text.mnemonic) == operation(in_code.mnemonic)


def _by_address(code: Sequence[Instruction]) -> dict[int, Instruction]:
    return {i.address: i for i in code if i.address is not None}


def _unpaired(
    text: Sequence[Instruction],
    code: Sequence[Instruction],
    in_text: Instruction | None,
    in_code: Instruction | None,
) -> AddressMap:
    """Returns a map without pairs that notes where text and code begin to differ."""
    note = f"the assembly has {len(text)} instructions, the code object {len(code)}"
    if in_text is not None and in_code is not None:
        where = f" at 0x{in_code.address:x}" if in_code.address is not None else ""
        note += (
            f"; they part at line {in_text.line} ({in_text.mnemonic}), where the code object has"
            f" {in_code.mnemonic}{where}"
        )
    return AddressMap({}, _by_address(code), False, (f"{note}: it is another build of the kernel",))


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
