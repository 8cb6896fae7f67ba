"""Pairs the instructions of an assembly with addresses in the code object made from it.

Assembly has no addresses, a code object no lines: its disassembly is aligned with the text,
instruction by instruction. Where the two differ, only what they provably have in common gets an
address, and notes say what is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from msgspec import Struct

from ...base.errors import KinspectError
from ...base.named_files import file_bytes
from ...model import Function, Instruction, Program
from .spelling import PADDING, key_of, operation

_SURE_RUN = 4
"""A run of at least this many common instructions is taken for no coincidence."""
_MOST_WORK = 40_000_000
"""Most pairs of instructions that are compared for a common subsequence; more take minutes."""


class AddressMap(Struct, frozen=True):
    """The instructions of an assembly text by their addresses.

    Args:
        instructions: address in the code object's file -> instruction of the text.
        code: address -> disassembled instruction; empty if there is no code object.
        exact: whether every instruction has its address.
        notes: what was left out, and why.
    """

    instructions: Mapping[int, Instruction]
    code: Mapping[int, Instruction]
    exact: bool
    notes: tuple[str, ...] = ()


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

    Args:
        functions: the kernel, and the device functions that it calls.
        program: the disassembled code object.

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

    Texts with the same sequence of operations are paired one to one. Others are paired by their
    longest common subsequence, without short runs that could be coincidence, and not at all where
    they have less than half in common.
    """
    text, code = _unpadded(text), _unpadded(code)
    text_operations, code_operations = (
        [operation(i.mnemonic) for i in text],
        [operation(i.mnemonic) for i in code],
    )
    if text_operations == code_operations:
        pairs = list(zip(text, code, strict=True))
        return _mapped(pairs, code, exact=True)
    difference = _difference(text, code, text_operations, code_operations)
    if len(text) * len(code) > _MOST_WORK:
        return _mapped([], code, f"{difference}; too many to look for what they have in common")
    pairs = _common(text, code)
    if 2 * len(pairs) < max(len(text), len(code)):
        return _mapped(
            [], code, f"{difference}; too little in common: it is another build of the kernel"
        )
    return _mapped(
        pairs,
        code,
        f"{difference}; {len(pairs)} of {len(text)} instructions stand in both in the same order "
        "and have addresses",
    )


def _mapped(
    pairs: Sequence[tuple[Instruction, Instruction]],
    code: Sequence[Instruction],
    note: str | None = None,
    exact: bool = False,
) -> AddressMap:
    """Returns the map of pairs of an instruction in the text and one in the code."""
    return AddressMap(
        {in_code.address: in_text for in_text, in_code in pairs if in_code.address is not None},
        {in_code.address: in_code for in_code in code if in_code.address is not None},
        exact,
        (note,) if note else (),
    )


def _unpadded(instructions: Sequence[Instruction]) -> Sequence[Instruction]:
    """Returns the instructions without the padding after the end of a function."""
    stop = len(instructions)
    while stop and instructions[stop - 1].mnemonic in PADDING:
        stop -= 1
    return instructions[:stop]


def _difference(
    text: Sequence[Instruction],
    code: Sequence[Instruction],
    text_operations: Sequence[str],
    code_operations: Sequence[str],
) -> str:
    """Says in words where a text and the disassembled code begin to differ."""
    pairs = zip(text_operations, code_operations, strict=False)
    first_difference = next(
        (index for index, (in_text, in_code) in enumerate(pairs) if in_text != in_code),
        min(len(text_operations), len(code_operations)),
    )
    counts = f"the assembly has {len(text)} instructions, the code object {len(code)}"
    if first_difference < len(text) and first_difference < len(code):
        address = code[first_difference].address
        where = f" at 0x{address:x}" if address is not None else ""
        in_text, in_code = text[first_difference], code[first_difference]
        counts += (
            f"; they part at line {in_text.line} ({in_text.mnemonic}), where the code object has"
            f" {in_code.mnemonic}{where}"
        )
    return counts


def _common(
    text: Sequence[Instruction], code: Sequence[Instruction]
) -> list[tuple[Instruction, Instruction]]:
    """Pairs the instructions of the longest common subsequence, without short runs.

    A short run counts if it has an instruction that occurs once in text and code.
    """
    text_keys, code_keys = [key_of(i) for i in text], [key_of(i) for i in code]
    unique_keys = {key for key, count in Counter(text_keys).items() if count == 1}
    unique_keys &= {key for key, count in Counter(code_keys).items() if count == 1}
    pairs: list[tuple[Instruction, Instruction]] = []
    for text_start, code_start, size in SequenceMatcher(
        None, text_keys, code_keys, autojunk=False
    ).get_matching_blocks():
        # A lone `s_nop` between two differences could be any other one.
        if size >= _SURE_RUN or not unique_keys.isdisjoint(
            text_keys[text_start : text_start + size]
        ):
            pairs.extend(
                zip(
                    text[text_start : text_start + size],
                    code[code_start : code_start + size],
                    strict=True,
                )
            )
    return pairs
