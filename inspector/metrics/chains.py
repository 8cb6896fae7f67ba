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
_ITERATIONS: Final = 8  # after which the slowest chain sets the pace, as a rule
MOST_INSTRUCTIONS: Final = 5_000
"""Of a loop, all of which takes some 50 ms."""

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
    steps = []
    for _ in range(_ITERATIONS):
        origin = list(range(_ROWS))
        _iterate(nodes, ready, origin)
        steps.append((list(ready), origin))
    written = {first for node in nodes for first, _ in node.writes}
    return max((_around(steps, row) for row in written), default=0.0)


def _around(steps: Sequence[tuple[list[int], list[int]]], row: int) -> float:
    """Clocks an iteration of the circle in the chain that the last iteration's value ends.

    Args:
        steps: for each iteration when each register is ready at its end, and where the chain that
            decides it was at its beginning.
        row: the register.

    Returns:
        0 where no circle is seen: the chain is new in some iteration, or all its registers differ.
    """
    seen: dict[int, tuple[int, int]] = {}
    for iteration in range(len(steps) - 1, -1, -1):
        ready, origin = steps[iteration]
        if ready[row] < 0:
            return 0.0
        if row in seen:
            later, at = seen[row]
            return (at - ready[row]) / (later - iteration)
        seen[row] = iteration, ready[row]
        row = origin[row]
    return 0.0


def _iterate(nodes: Sequence[_Node], ready: list[int], origin: list[int]) -> None:
    """One more iteration: changes when registers are ready, and where their chains come from."""
    for node in nodes:
        at, source = _NEVER, -1
        for first, stop in node.reads:
            row = first
            if stop - first > 1:
                times = ready[first:stop]
                row += times.index(max(times))
            if ready[row] > at:
                at, source = ready[row], origin[row]
        done = at + node.cycles if at >= 0 else _NEVER
        for first, stop in node.writes:
            if stop - first == 1:
                ready[first], origin[first] = done, source
            else:
                ready[first:stop] = [done] * (stop - first)
                origin[first:stop] = [source] * (stop - first)


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
