"""Addresses in a code object ↔ instructions of the assembly it was made from.

Assembly has no addresses, a code object no lines: its disassembly is laid beside the text,
instruction by instruction. Nothing is guessed: where the two differ, only what they provably have
in common is placed, and what is left out is said.

Profilers, disassemblers and compilers spell instructions in their own ways: the compiler prints
labels where a disassembler prints distances, symbols where the linker has put numbers, and either
may leave out what an encoding's suffix says.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from ...errors import KinspectError
from ...isa.mnemonics import lookup
from ...model import Function, Instruction, Program

# --------------------------------------------------------------------------- spellings

_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+)$")
_GAPS = re.compile(r"[\s,]+")
_LOW_BITS = 0xFFFF  # of `-1` and `0xffff`, which are one 16-bit constant


def operation(mnemonic: str) -> str:
    """The operation of an instruction: its mnemonic without encoding suffix and underscores.

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
    """A text that is the same for all spellings of one instruction.

    It leaves out the destinations of branches and all but the low 16 bits of numbers.
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
    """One spelling for an operand: symbols and literals become `#`, numbers their low 16 bits."""
    if word == "null":
        return "0"
    if "@" in word or word.startswith("lit("):
        return "#"
    if _NUMBER.match(word):
        return str(int(word, 0) & _LOW_BITS) if "x" in word else str(int(word) & _LOW_BITS)
    return word


# --------------------------------------------------------------------------- addresses

PADDING = frozenset({"s_nop", "s_code_end"})
"""Instructions with which assemblers and linkers fill gaps: in the code, but not in the text."""
_LEAST_BYTES = 4
"""Size of the shortest instruction. There is no upper limit on the distance of two instructions:
assemblers may put padding between them."""
_SURE_RUN = 4
"""A run of at least this many common instructions is no coincidence."""
_MOST_WORK = 40_000_000
"""Most pairs of instructions that are compared for a common subsequence; more take minutes."""


class AddressMap(Struct, frozen=True):
    """The instructions of an assembly text by their addresses.

    Args:
        at: address in the code object's file -> instruction of the text.
        code: address -> disassembled instruction; empty where the code object was not available.
        exact: whether every instruction has its address.
        notes: what was left out, and why.
    """

    at: Mapping[int, Instruction]
    code: Mapping[int, Instruction]
    exact: bool
    notes: tuple[str, ...] = ()


class Sequenced(Struct, frozen=True):
    """Recorded instructions located in a text by their order alone.

    Args:
        at: address -> the only instruction that it can be.
        open: address -> the instructions that it can be, where there are several.
        unknown: addresses whose instruction is not in the text.
        problem: why nothing was located; None where something was.
    """

    at: Mapping[int, Instruction]
    open: Mapping[int, tuple[Instruction, ...]]
    unknown: tuple[int, ...] = ()
    problem: str | None = None


def disassembled(path: Path, arch: str | None = None) -> Program:
    """The disassembly of a code object's file.

    Raises:
        KinspectError: it cannot be read, is no code object, or no installed disassembler can decode
            it.
    """
    # The ELF reader and a disassembler are loaded only where they are needed.
    from ...isa.objects.load import load_code_object

    try:
        data = path.read_bytes()
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
        by_address.update(aligned.at)
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
    return AddressMap(
        {in_code.address: in_text for in_text, in_code in pairs if in_code.address is not None},
        {in_code.address: in_code for in_code in code if in_code.address is not None},
        exact,
        (note,) if note else (),
    )


def _unpadded(instructions: Sequence[Instruction]) -> Sequence[Instruction]:
    """The instructions without the padding after the end of a function."""
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
    """Where a text and the disassembled code begin to differ, in words."""
    pairs = zip(text_operations, code_operations, strict=False)
    split = next(
        (index for index, (in_text, in_code) in enumerate(pairs) if in_text != in_code),
        min(len(text_operations), len(code_operations)),
    )
    counts = f"the assembly has {len(text)} instructions, the code object {len(code)}"
    if split < len(text) and split < len(code):
        address = code[split].address
        where = f" at 0x{address:x}" if address is not None else ""
        counts += (
            f"; they part at line {text[split].line} ({text[split].mnemonic}), where the code"
            f" object has {code[split].mnemonic}{where}"
        )
    return counts


def _common(
    text: Sequence[Instruction], code: Sequence[Instruction]
) -> list[tuple[Instruction, Instruction]]:
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


def in_sequence(functions: Sequence[Function], rows: Mapping[int, str]) -> Sequenced:
    """Locates recorded instructions in a text by their texts and order, without a disassembler.

    The distance of two addresses bounds how many instructions lie between them. All assignments of
    the rows to instructions within those bounds are considered: an address that has the same
    instruction in each of them is placed, any other is left open.

    Args:
        functions: all functions whose instructions may be among the rows.
        rows: address -> the instruction as the profiler wrote it.
    """
    ordered = sorted(functions, key=lambda function: function.line_first)
    instructions = [step for function in ordered for step in function.instructions]
    by_key: dict[str, list[int]] = {}
    by_operation: dict[str, list[int]] = {}
    for index, instruction in enumerate(instructions):
        by_key.setdefault(key_of(instruction), []).append(index)
        by_operation.setdefault(operation(instruction.mnemonic), []).append(index)
    doubtful: set[int] = set()
    recognised, places, fillers, unknown = _candidates(rows, doubtful, by_key, by_operation)
    failed_address = _narrow(recognised, places)
    if failed_address is not None and (doubtful := _behind_data(rows)):
        recognised, places, fillers, unknown = _candidates(rows, doubtful, by_key, by_operation)
        failed_address = _narrow(recognised, places)
    if failed_address is not None:
        problem = (
            "the order of the recorded instructions is another: "
            f"`{rows[failed_address]}` at 0x{failed_address:x} has no place in it"
        )
        return Sequenced({}, {}, tuple(sorted(rows)), problem)
    candidates = dict(zip(recognised, places, strict=True))
    candidates.update({address: [] for address in fillers})
    sure = _filled(candidates, rows, unknown, instructions)
    undecided = {a: indices for a, indices in candidates.items() if a not in sure}
    return Sequenced(
        {address: instructions[index] for address, index in sure.items()},
        {
            a: tuple(instructions[index] for index in indices)
            for a, indices in undecided.items()
            if indices
        },
        (*unknown, *(a for a, indices in undecided.items() if not indices)),
    )


def _behind_data(rows: Mapping[int, str]) -> set[int]:
    """Addresses right after a word that could not be decoded, which may be its second half."""
    ordered = sorted(rows)
    return {
        address
        for previous, address in pairwise(ordered)
        if is_data(rows[previous]) and address - previous == _LEAST_BYTES
    }


def _candidates(
    rows: Mapping[int, str],
    doubtful: set[int],
    by_key: Mapping[str, list[int]],
    by_operation: Mapping[str, list[int]],
) -> tuple[list[int], list[list[int]], list[int], list[int]]:
    """Sorts the rows by what the text says of them.

    Returns:
        Addresses whose instruction the text has; for each of these, the indices of the instructions
        that it can be; addresses of padding and data, which can be anywhere; addresses whose
        instruction is not in the text.
    """
    recognised: list[int] = []
    places: list[list[int]] = []
    fillers: list[int] = []
    unknown: list[int] = []
    for address in sorted(rows):
        mnemonic, _ = split(rows[address])
        if address in doubtful:
            unknown.append(address)
            continue
        if mnemonic in PADDING or is_data(rows[address]):
            fillers.append(address)
            continue
        # Operands that the linker filled in are spelled differently in the text.
        indices = by_key.get(text_key(rows[address])) or by_operation.get(operation(mnemonic))
        if indices is None:
            unknown.append(address)
        else:
            recognised.append(address)
            places.append(indices)
    return recognised, places, fillers, unknown


def _filled(
    candidates: Mapping[int, Sequence[int]],
    rows: Mapping[int, str],
    unknown: Sequence[int],
    instructions: Sequence[Instruction],
) -> dict[int, int]:
    """Places addresses with one candidate left, and runs that exactly fill the gap between two.

    Padding is usually not in the text, so that in a gap it must be the same instruction there; what
    the profiler could not decode may be any instruction.

    Returns:
        Address -> index of its instruction.
    """
    decided = {address: places[0] for address, places in candidates.items() if len(places) == 1}
    fixed_addresses = sorted({*decided, *unknown})
    runs: dict[int, list[int]] = {}
    for address in sorted(candidates.keys() - decided.keys()):
        runs.setdefault(bisect_left(fixed_addresses, address), []).append(address)
    placed = dict(decided)
    for position, run in runs.items():
        if not 0 < position < len(fixed_addresses):
            continue
        index_before = decided.get(fixed_addresses[position - 1])
        index_behind = decided.get(fixed_addresses[position])
        if index_before is None or index_behind is None:
            continue
        if index_behind - index_before - 1 != len(run):
            continue
        pairs = list(zip(run, range(index_before + 1, index_behind), strict=True))
        if all(
            _may_be(code_address, index, candidates, rows, instructions)
            for code_address, index in pairs
        ):
            placed.update(pairs)
    return placed


def _may_be(
    address: int,
    index: int,
    candidates: Mapping[int, Sequence[int]],
    rows: Mapping[int, str],
    instructions: Sequence[Instruction],
) -> bool:
    if candidates[address]:
        return index in candidates[address]
    return is_data(rows[address]) or text_key(rows[address]) == key_of(instructions[index])


def _narrow(addresses: Sequence[int], places: list[list[int]]) -> int | None:
    """Removes the candidates that do not fit those of the neighbouring addresses.

    Args:
        addresses: ascending.
        places: for each address, the indices of the instructions that it can be; changed in place.

    Returns:
        The first address without a candidate; None if each has one.
    """
    for index in range(1, len(places)):
        most_between = (addresses[index] - addresses[index - 1]) // _LEAST_BYTES
        neighbours = places[index - 1]
        places[index] = [
            place
            for place in places[index]
            if _any_between(neighbours, place - most_between, place - 1)
        ]
        if not places[index]:
            return addresses[index]
    for index in range(len(places) - 2, -1, -1):
        most_between = (addresses[index + 1] - addresses[index]) // _LEAST_BYTES
        neighbours = places[index + 1]
        places[index] = [
            place
            for place in places[index]
            if _any_between(neighbours, place + 1, place + most_between)
        ]
    return None


def _any_between(ascending: Sequence[int], low: int, high: int) -> bool:
    return bisect_left(ascending, low) < bisect_right(ascending, high)
