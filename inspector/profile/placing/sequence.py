"""Locates recorded instructions in an assembly by their texts and order, without a code object."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import Struct, field

from ...model import Function, Instruction
from .addresses import PADDING, is_data, key_of, operation, split, text_key

_LEAST_BYTES = 4
"""Size of the shortest instruction. There is no upper limit on the distance of two instructions:
assemblers may put padding between them."""


class Sequenced(Struct, frozen=True):
    """Recorded instructions located in a text by their order alone.

    Args:
        candidates: address -> the instructions that it can be, where there are several.
    """

    instructions: Mapping[int, Instruction]  # address -> the only instruction that it can be
    candidates: Mapping[int, tuple[Instruction, ...]]
    unknown: tuple[int, ...] = ()  # addresses whose instruction is not in the text
    problem: str | None = None  # why nothing was located; None if something was


def in_sequence(functions: Sequence[Function], rows: Mapping[int, str]) -> Sequenced:
    """Locates recorded instructions in a text by their texts and order, without a disassembler.

    The distance of two addresses bounds how many instructions lie between them. All assignments of
    the rows to instructions within those bounds are considered: an address that has the same
    instruction in each of them is placed, any other is left open.

    Args:
        functions: all functions whose instructions may be among the rows.
        rows: address -> the instruction as the profiler wrote it.
    """
    text = _Text(functions)
    sorted_rows = text.sort(rows, skipped=frozenset())
    failed_address = _narrow(sorted_rows.recognised, sorted_rows.candidates)
    if failed_address is not None and (doubtful := _behind_data(rows)):
        sorted_rows = text.sort(rows, skipped=doubtful)
        failed_address = _narrow(sorted_rows.recognised, sorted_rows.candidates)
    if failed_address is not None:
        problem = (
            "the order of the recorded instructions is another: "
            f"`{rows[failed_address]}` at 0x{failed_address:x} has no place in it"
        )
        return Sequenced({}, {}, tuple(sorted(rows)), problem)
    return _located(rows, sorted_rows, text.instructions)


def _located(
    rows: Mapping[int, str], sorted_rows: _SortedRows, instructions: Sequence[Instruction]
) -> Sequenced:
    """Returns the result for rows whose candidates fit one another."""
    candidates = dict(zip(sorted_rows.recognised, sorted_rows.candidates, strict=True))
    candidates.update({address: [] for address in sorted_rows.fillers})
    decided = _filled(candidates, rows, sorted_rows.unknown, instructions)
    undecided = {a: indices for a, indices in candidates.items() if a not in decided}
    return Sequenced(
        {address: instructions[index] for address, index in decided.items()},
        {
            address: tuple(instructions[index] for index in indices)
            for address, indices in undecided.items()
            if indices
        },
        (*sorted_rows.unknown, *(a for a, indices in undecided.items() if not indices)),
    )


class _SortedRows(Struct):
    """Recorded rows by what is known of them in the text.

    Args:
        recognised: addresses whose instruction the text has, ascending.
        candidates: for each of these, the indices of the instructions that it can be.
        fillers: addresses of padding and data, which can be anywhere.
        unknown: addresses whose instruction is not in the text.
    """

    recognised: list[int] = field(default_factory=list)
    candidates: list[list[int]] = field(default_factory=list)
    fillers: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)


class _Text:
    """The instructions of an assembly, in the order of the file, by their spelling."""

    def __init__(self, functions: Sequence[Function]) -> None:
        ordered = sorted(functions, key=lambda function: function.line_first)
        self.instructions = [i for function in ordered for i in function.instructions]
        self._by_key: dict[str, list[int]] = {}
        self._by_operation: dict[str, list[int]] = {}
        for index, instruction in enumerate(self.instructions):
            self._by_key.setdefault(key_of(instruction), []).append(index)
            self._by_operation.setdefault(operation(instruction.mnemonic), []).append(index)

    def sort(self, rows: Mapping[int, str], skipped: frozenset[int]) -> _SortedRows:
        """Sorts rows by what is known of them; those at `skipped` addresses count as unknown."""
        result = _SortedRows()
        for address in sorted(rows):
            mnemonic, _ = split(rows[address])
            if address in skipped:
                result.unknown.append(address)
                continue
            if mnemonic in PADDING or is_data(rows[address]):
                result.fillers.append(address)
                continue
            # Operands that the linker filled in are spelled differently in the text.
            indices = self._by_key.get(text_key(rows[address])) or self._by_operation.get(
                operation(mnemonic)
            )
            if indices is None:
                result.unknown.append(address)
            else:
                result.recognised.append(address)
                result.candidates.append(indices)
        return result


def _behind_data(rows: Mapping[int, str]) -> frozenset[int]:
    """Addresses right after a word that could not be decoded, which may be its second half."""
    return frozenset(
        address
        for previous, address in pairwise(sorted(rows))
        if is_data(rows[previous]) and address - previous == _LEAST_BYTES
    )


def _filled(
    candidates: Mapping[int, Sequence[int]],
    rows: Mapping[int, str],
    unknown: Sequence[int],
    instructions: Sequence[Instruction],
) -> dict[int, int]:
    """Decides addresses with one candidate left, and runs that exactly fill the gap between two.

    Padding is usually not in the text, so that in a gap it must be the same instruction there; what
    the profiler could not decode may be any instruction.
    """
    decided = {address: indices[0] for address, indices in candidates.items() if len(indices) == 1}
    fixed_addresses = sorted({*decided, *unknown})
    runs: dict[int, list[int]] = {}
    for address in sorted(candidates.keys() - decided.keys()):
        runs.setdefault(bisect_left(fixed_addresses, address), []).append(address)
    located = dict(decided)
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
            located.update(pairs)
    return located


def _may_be(
    address: int,
    index: int,
    candidates: Mapping[int, Sequence[int]],
    rows: Mapping[int, str],
    instructions: Sequence[Instruction],
) -> bool:
    """Tells whether an address may be the instruction at `index`: padding and data may be any."""
    if candidates[address]:
        return index in candidates[address]
    return is_data(rows[address]) or text_key(rows[address]) == key_of(instructions[index])


def _narrow(addresses: Sequence[int], candidates: list[list[int]]) -> int | None:
    """Removes the candidates that do not fit those of the neighbouring addresses."""
    for index in range(1, len(candidates)):
        most_between = (addresses[index] - addresses[index - 1]) // _LEAST_BYTES
        neighbours = candidates[index - 1]
        candidates[index] = [
            candidate
            for candidate in candidates[index]
            if _any_between(neighbours, candidate - most_between, candidate - 1)
        ]
        if not candidates[index]:
            return addresses[index]
    for index in range(len(candidates) - 2, -1, -1):
        most_between = (addresses[index + 1] - addresses[index]) // _LEAST_BYTES
        neighbours = candidates[index + 1]
        candidates[index] = [
            candidate
            for candidate in candidates[index]
            if _any_between(neighbours, candidate + 1, candidate + most_between)
        ]
    return None


def _any_between(ascending: Sequence[int], low: int, high: int) -> bool:
    return bisect_left(ascending, low) < bisect_right(ascending, high)
