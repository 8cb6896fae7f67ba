"""The loop-carried chain: how long one iteration must take because it needs the one before.

Results reach the instructions that need them after the machine's `result_cycles` at the earliest,
those of the matrix unit after its `mfma_cycles`. Nobody documents when loads are back: they count
as if they took no longer than an issue. So the figure is a lower bound, and so it is where the
chain goes through code that not every iteration executes, whose results count as new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ..emulator.effects import results_and_sources
from ..emulator.operands import SUFFIXES, Decoded, Operand, decode, halves_of
from ..emulator.registry import Target
from ..emulator.start import target_of
from ..machines import matrix_cycles
from ..model import Function, Instruction, Machine
from .subject import MATRIX_CLASSES

_NEVER: Final = -1 << 40  # no path leads here
_SCALARS: Final = 1024  # rows of the vector file come before
_ROWS: Final = _SCALARS + 160
_SETTLING: Final = 3  # iterations after which the slowest chain sets the pace
_CANDIDATES: Final = 3
MOST_INSTRUCTIONS: Final = 5_000
"""Of a loop, all of which takes some 50 ms."""
_LONGEST: Final = 4  # iterations that a chain may take to come back to its register

_Rows = tuple[int, int]
"""First row and the one behind the last."""


class _Node(Struct, frozen=True):
    """An instruction: cycles until its result can be used, rows that it reads and writes."""

    cycles: int
    reads: tuple[_Rows, ...]
    writes: tuple[_Rows, ...]


class Code(Struct, frozen=True):
    """A function whose operands are taken apart as they are asked for."""

    function: Function
    machine: Machine
    target: Target

    @classmethod
    def of(cls, function: Function, machine: Machine) -> Code:
        return cls(function, machine, target_of(function, machine.arch))

    def registers(self, index: int) -> tuple[tuple[_Rows, ...], tuple[_Rows, ...]]:
        """What an instruction reads and writes."""
        instruction = self.function.instructions[index]
        offset = self.target.accum_offset
        parts = decode(instruction.mnemonic, instruction.operands, SUFFIXES, offset)
        halves: tuple[Decoded, ...] = (parts,)
        if " :: " in parts.text:  # both operations issue at once
            halves = halves_of(parts, offset)
        reads: list[_Rows] = []
        writes: list[_Rows] = []
        for half in halves:
            written, sources = results_and_sources(instruction, half)
            reads += [rows for operand in sources if (rows := _rows(operand)) is not None]
            writes += [rows for operand in written if (rows := _rows(operand)) is not None]
        return tuple(reads), tuple(writes)


def carried_cycles(code: Code, always: Sequence[int], other: Sequence[int]) -> float | None:
    """Clocks of the longest chain of dependencies that leads from an iteration into the next.

    Args:
        code: the function.
        always: indices of the loop's instructions that every iteration executes, in that order.
        other: those of all its other instructions, nested loops included.

    Returns:
        Clocks an iteration; 0 where no iteration needs another one's results. None where the
        target's latencies are not known.
    """
    if not code.machine.result_cycles:
        return None
    unsure = 0  # rows that code which is not always executed writes
    for index in other:
        for first, stop in code.registers(index)[1]:
            unsure |= _bits(first, stop)
    nodes = []
    for index in always:
        reads, writes = (
            tuple(rows for rows in each if not unsure & _bits(*rows))
            for each in code.registers(index)
        )
        if writes:
            cycles = _cycles(code.function.instructions[index], code.machine)
            nodes.append(_Node(cycles, reads, writes))
    ready = [0] * _ROWS
    before = ready
    for _ in range(_SETTLING):
        before = list(ready)
        _iterate(nodes, ready)
    # Chains that grow fastest; what lies on the same chain grows alike.
    growth: dict[int, int] = {}
    for row in sorted({row for node in nodes for first, _ in node.writes for row in (first,)}):
        if ready[row] >= 0 and before[row] >= 0:
            growth.setdefault(ready[row] - before[row], row)
    longest = 0.0
    for grown, row in sorted(growth.items(), reverse=True)[:_CANDIDATES]:
        if grown <= longest:
            break
        longest = max(longest, _around(nodes, row, grown))
    return longest


def _around(nodes: Sequence[_Node], row: int, enough: int) -> float:
    """Clocks an iteration of the chains that lead from one register back to itself.

    Args:
        nodes: the iteration.
        row: the register.
        enough: clocks with which to stop looking for longer ones.
    """
    ready = [_NEVER] * _ROWS
    ready[row] = 0
    longest = 0.0
    for iterations in range(1, _LONGEST + 1):
        _iterate(nodes, ready)
        if ready[row] > 0:
            longest = max(longest, ready[row] / iterations)
        if longest >= enough:
            break
    return longest


def _iterate(nodes: Sequence[_Node], ready: list[int]) -> None:
    """When each register is ready after one more iteration; changes `ready`."""
    for node in nodes:
        at = _NEVER
        for first, stop in node.reads:
            latest = ready[first] if stop - first == 1 else max(ready[first:stop])
            if latest > at:
                at = latest
        done = at + node.cycles if at >= 0 else _NEVER
        for first, stop in node.writes:
            ready[first:stop] = [done] * (stop - first)


def _bits(first: int, stop: int) -> int:
    return (1 << stop) - (1 << first)


def _rows(operand: Operand) -> _Rows | None:
    if operand.is_null or operand.kind not in ("vgpr", "sgpr"):
        return None
    first = operand.first + (_SCALARS if operand.kind == "sgpr" else 0)
    stop = first + operand.count
    return (first, stop) if stop <= _ROWS else None


def _cycles(instruction: Instruction, machine: Machine) -> int:
    """Until the result can be used, at least."""
    latencies = machine.result_cycles
    if instruction.cls in MATRIX_CLASSES:
        cycles = matrix_cycles(machine, instruction.op.name, instruction.operands)
        return latencies["valu"] if cycles is None else cycles
    if instruction.cls in ("valu", "acc_move"):
        slow = "transcendental" in instruction.op.traits
        return latencies["transcendental" if slow else "valu"]
    if instruction.cls == "salu":
        return latencies["salu"]
    return machine.issue_cycles or 0
