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


# --------------------------------------------------------------------------- addresses

PADDING = frozenset({"s_nop", "s_code_end"})
"""What assemblers and linkers fill gaps with: in the code, not in the text."""
_LEAST_BYTES = 4
"""Of one instruction. There is no most: assemblers put padding between any two."""
_SURE_RUN = 4
"""Instructions in a row that two texts have in common by more than chance."""
_MOST_WORK = 40_000_000
"""Pairs of instructions to compare for a common subsequence; more take minutes."""


class AddressMap(Struct, frozen=True):
    """Which instruction of the assembly stands at an address.

    Args:
        at: address in the code object's file -> instruction of the text.
        code: address -> the same instruction as disassembled; empty where none was at hand.
        exact: every instruction has its address.
        notes: what was left out, and why.
    """

    at: Mapping[int, Instruction]
    code: Mapping[int, Instruction]
    exact: bool
    notes: tuple[str, ...] = ()


class Sequenced(Struct, frozen=True):
    """Recorded instructions found in a text by their order alone.

    Args:
        at: address -> the one instruction that it can be.
        open: address -> the instructions among which nothing decides.
        unknown: addresses whose instruction is not in the text.
        problem: why nothing was placed; None where it was.
    """

    at: Mapping[int, Instruction]
    open: Mapping[int, tuple[Instruction, ...]]
    unknown: tuple[int, ...] = ()
    problem: str | None = None


def disassembled(path: Path, arch: str | None = None) -> Program:
    """A code object, disassembled.

    Raises:
        KinspectError: it cannot be read, is none, or no disassembler here can decode it.
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
    """Lays the functions of an assembly beside those of its code object, by their names.

    Args:
        functions: the kernel, and the device functions that it calls.
        program: the code object. One that was itself read from a disassembly will do.

    Returns:
        None if nothing could be aligned; a map with notes if only a part could.
    """
    by_name = {f.symbol or f.name: f for f in program.functions if f.instructions}
    at: dict[int, Instruction] = {}
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
        at.update(aligned.at)
        code.update(aligned.code)
    return AddressMap(at, code, exact, tuple(notes)) if at or notes else None


def align(text: Sequence[Instruction], code: Sequence[Instruction]) -> AddressMap:
    """Gives the instructions of a text the addresses of the disassembled ones.

    Equal in number and operation, they are paired one to one. Where they are not, by their longest
    common subsequence, of which runs that could be chance are left out; by nothing where they have
    less than half in common.
    """
    text, code = _unpadded(text), _unpadded(code)
    ours, theirs = [operation(i.mnemonic) for i in text], [operation(i.mnemonic) for i in code]
    if ours == theirs:
        pairs = list(zip(text, code, strict=True))
        return _mapped(pairs, code, exact=True)
    difference = _difference(text, code, ours, theirs)
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
        {theirs.address: mine for mine, theirs in pairs if theirs.address is not None},
        {theirs.address: theirs for theirs in code if theirs.address is not None},
        exact,
        (note,) if note else (),
    )


def _unpadded(instructions: Sequence[Instruction]) -> Sequence[Instruction]:
    """Without what fills the room after the end of a function."""
    stop = len(instructions)
    while stop and instructions[stop - 1].mnemonic in PADDING:
        stop -= 1
    return instructions[:stop]


def _difference(
    text: Sequence[Instruction],
    code: Sequence[Instruction],
    ours: Sequence[str],
    theirs: Sequence[str],
) -> str:
    at = next(
        (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
        min(len(ours), len(theirs)),
    )
    counts = f"the assembly has {len(text)} instructions, the code object {len(code)}"
    if at < len(text) and at < len(code):
        place = code[at].address
        where = f" at 0x{place:x}" if place is not None else ""
        counts += (
            f"; they part at line {text[at].line} ({text[at].mnemonic}), where the code object "
            f"has {code[at].mnemonic}{where}"
        )
    return counts


def _common(
    text: Sequence[Instruction], code: Sequence[Instruction]
) -> list[tuple[Instruction, Instruction]]:
    ours, theirs = [key_of(i) for i in text], [key_of(i) for i in code]
    once = {k for k, n in Counter(ours).items() if n == 1}
    once &= {k for k, n in Counter(theirs).items() if n == 1}
    pairs: list[tuple[Instruction, Instruction]] = []
    for a, b, size in SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks():
        # A lone `s_nop` between two differences could be any other one.
        if size >= _SURE_RUN or not once.isdisjoint(ours[a : a + size]):
            pairs.extend(zip(text[a : a + size], code[b : b + size], strict=True))
    return pairs


def in_sequence(functions: Sequence[Function], rows: Mapping[int, str]) -> Sequenced:
    """Finds recorded instructions in a text by their texts and order, without a disassembler.

    The distance of two addresses bounds how many instructions lie between them. All ways to lay
    the rows onto the text within those bounds are considered: an address that falls on the same
    instruction in each of them is placed, any other is left open.

    Args:
        functions: all whose instructions may be among them.
        rows: address -> the instruction as the profiler wrote it.
    """
    ordered = sorted(functions, key=lambda f: f.line_first)
    instructions = [i for f in ordered for i in f.instructions]
    by_key: dict[str, list[int]] = {}
    by_operation: dict[str, list[int]] = {}
    for index, instruction in enumerate(instructions):
        by_key.setdefault(key_of(instruction), []).append(index)
        by_operation.setdefault(operation(instruction.mnemonic), []).append(index)
    doubtful: set[int] = set()
    recognised, places, loose, unknown = _candidates(rows, doubtful, by_key, by_operation)
    failed = _narrow(recognised, places)
    if failed is not None and (doubtful := _behind_data(rows)):
        recognised, places, loose, unknown = _candidates(rows, doubtful, by_key, by_operation)
        failed = _narrow(recognised, places)
    if failed is not None:
        why = (
            "the order of the recorded instructions is another: "
            f"`{rows[failed]}` at 0x{failed:x} has no place in it"
        )
        return Sequenced({}, {}, tuple(sorted(rows)), why)
    among = dict(zip(recognised, places, strict=True))
    among.update({address: [] for address in loose})
    sure = _filled(among, rows, unknown, instructions)
    left = {a: p for a, p in among.items() if a not in sure}
    return Sequenced(
        {address: instructions[index] for address, index in sure.items()},
        {a: tuple(instructions[index] for index in p) for a, p in left.items() if p},
        (*unknown, *(a for a, p in left.items() if not p)),
    )


def _behind_data(rows: Mapping[int, str]) -> set[int]:
    """What follows a word that could not be decoded may be that instruction's other half."""
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
    """Addresses and where each can be; what may be anywhere; what is nowhere in the text."""
    recognised: list[int] = []
    places: list[list[int]] = []
    loose: list[int] = []
    unknown: list[int] = []
    for address in sorted(rows):
        mnemonic, _ = split(rows[address])
        if address in doubtful:
            unknown.append(address)
            continue
        if mnemonic in PADDING or is_data(rows[address]):
            loose.append(address)
            continue
        # Operands that the linker filled in are spelt differently in the text.
        indices = by_key.get(text_key(rows[address])) or by_operation.get(operation(mnemonic))
        if indices is None:
            unknown.append(address)
        else:
            recognised.append(address)
            places.append(indices)
    return recognised, places, loose, unknown


def _filled(
    among: Mapping[int, Sequence[int]],
    rows: Mapping[int, str],
    unknown: Sequence[int],
    instructions: Sequence[Instruction],
) -> dict[int, int]:
    """Places what has one place left, and runs between two such that fill the gap exactly.

    Padding is in the code and not in the text as a rule, so it must be that very instruction; what
    the profiler could not decode may be any.
    """
    sure = {address: places[0] for address, places in among.items() if len(places) == 1}
    fixed = sorted({*sure, *unknown})
    runs: dict[int, list[int]] = {}
    for address in sorted(among.keys() - sure.keys()):
        runs.setdefault(bisect_left(fixed, address), []).append(address)
    placed = dict(sure)
    for position, run in runs.items():
        if not 0 < position < len(fixed):
            continue
        first, last = sure.get(fixed[position - 1]), sure.get(fixed[position])
        if first is None or last is None or last - first - 1 != len(run):
            continue
        pairs = list(zip(run, range(first + 1, last), strict=True))
        if all(_may_be(a, i, among, rows, instructions) for a, i in pairs):
            placed.update(pairs)
    return placed


def _may_be(
    address: int,
    index: int,
    among: Mapping[int, Sequence[int]],
    rows: Mapping[int, str],
    instructions: Sequence[Instruction],
) -> bool:
    if among[address]:
        return index in among[address]
    return is_data(rows[address]) or text_key(rows[address]) == key_of(instructions[index])


def _narrow(addresses: Sequence[int], places: list[list[int]]) -> int | None:
    """Leaves of each place only what fits its neighbours.

    Args:
        addresses: ascending.
        places: of each, the indices of the instructions that it can be; they are cut down.

    Returns:
        The address for which nothing is left; None if there is none.
    """
    for i in range(1, len(places)):
        far = (addresses[i] - addresses[i - 1]) // _LEAST_BYTES
        neighbours = places[i - 1]
        places[i] = [p for p in places[i] if _any_between(neighbours, p - far, p - 1)]
        if not places[i]:
            return addresses[i]
    for i in range(len(places) - 2, -1, -1):
        far = (addresses[i + 1] - addresses[i]) // _LEAST_BYTES
        neighbours = places[i + 1]
        places[i] = [p for p in places[i] if _any_between(neighbours, p + 1, p + far)]
    return None


def _any_between(ascending: Sequence[int], low: int, high: int) -> bool:
    return bisect_left(ascending, low) < bisect_right(ascending, high)
