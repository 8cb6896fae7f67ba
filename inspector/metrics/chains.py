"""The loop-carried chain: the time of an iteration that needs results of the previous one.

Results are available after the machine's `result_cycles` at the earliest, those of the matrix unit
after its `mfma_cycles`. No document states the latency of loads: they count as if they took no
longer than an issue. So the figure is a lower bound, also where the chain passes code that not
every iteration executes, whose results break it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ..base.errors import unforeseen
from ..isa.dataflow.effects import results_and_sources
from ..isa.dataflow.execution_target import ExecutionTarget, target_of
from ..isa.dataflow.operands import SUFFIXES, Decoded, Operand, decode, halves_of
from ..machines import matrix_cycles
from ..model import Function, Instruction, Loop, Machine
from .load_paths import code_of
from .subject import MATRIX_CLASSES
from .unit_bounds import Bound


def latency(code: Code, loop: Loop, executed: Sequence[Instruction]) -> Bound:
    """The bound of the chain that one iteration passes to the next."""
    function = code.function
    executed_indices = [inst.index for inst in executed]
    executed_set = set(executed_indices)
    inside = (inst.index for inst in code_of(function, *loop.blocks))
    others = [index for index in inside if index not in executed_set]
    if len(executed_indices) + len(others) > MOST_INSTRUCTIONS:
        return Bound(None, note=f"not looked for in more than {MOST_INSTRUCTIONS:,} instructions")
    try:
        cycles = carried_cycles(code, executed_indices, others)
    except Exception as error:
        # Operands that the emulator cannot decode must not cost the report.
        return Bound(None, note=unforeseen(error).message)
    note = "" if cycles is not None else f"the latencies of {code.machine.arch} are not published"
    return Bound(cycles, note=note)


_NEVER: Final = -1 << 40  # no path leads here
_SCALARS: Final = 1024  # rows of the vector file come before
_ROWS: Final = _SCALARS + 160
_ITERATIONS: Final = 8  # the slowest chain dominates by then, as a rule
MOST_INSTRUCTIONS: Final = 5_000
"""Instructions of a loop, which take some 50 ms; larger ones are not analysed."""

_Rows = tuple[int, int]
"""(first row, row after the last) of a register operand."""


class _Node(Struct, frozen=True):
    """An instruction: cycles until its result can be used, and the rows that it reads
    and writes.
    """

    cycles: int
    reads: tuple[_Rows, ...]
    writes: tuple[_Rows, ...]


class Code(Struct, frozen=True):
    """A function whose operands are decoded on demand."""

    function: Function
    machine: Machine
    target: ExecutionTarget

    @classmethod
    def of(cls, function: Function, machine: Machine) -> Code:
        """Prepares a function for a machine."""
        return cls(function, machine, target_of(function, machine.arch))

    def registers(self, index: int) -> tuple[tuple[_Rows, ...], tuple[_Rows, ...]]:
        """The rows that an instruction reads, and those that it writes."""
        instruction = self.function.instructions[index]
        offset = self.target.accum_offset
        key = (instruction.mnemonic, instruction.operands, instruction.cls, offset)
        known = _KNOWN.get(key)
        if known is None:
            if len(_KNOWN) >= _MOST_KNOWN:
                _KNOWN.clear()
            known = _KNOWN[key] = _registers_of(instruction, offset)
        return known


_Registers = tuple[tuple[_Rows, ...], tuple[_Rows, ...]]
_KNOWN: Final[dict[tuple[str, str, str, int], _Registers]] = {}
"""Instructions that several loops, kernels and analyses have in common."""
_MOST_KNOWN: Final = 1 << 14


def _registers_of(instruction: Instruction, accum_offset: int) -> _Registers:
    parts = decode(instruction.mnemonic, instruction.operands, SUFFIXES, accum_offset)
    halves: tuple[Decoded, ...] = (parts,)
    if " :: " in parts.text:  # both operations issue at once
        halves = halves_of(parts, accum_offset)
    reads: list[_Rows] = []
    writes: list[_Rows] = []
    for half in halves:
        results, sources = results_and_sources(instruction, half)
        reads += [rows for operand in sources if (rows := _rows(operand)) is not None]
        writes += [rows for operand in results if (rows := _rows(operand)) is not None]
    return tuple(reads), tuple(writes)


def carried_cycles(code: Code, executed: Sequence[int], others: Sequence[int]) -> float | None:
    """Clocks of the longest chain of dependencies from one iteration into the next.

    `executed`: indices of the loop's instructions that every iteration executes, in that order;
    `others`: indices of its other instructions, nested loops included.

    Returns:
        Clocks per iteration; 0 where no iteration needs another one's results. None where the
        target's latencies are not known.
    """
    if not code.machine.result_cycles:
        return None
    uncertain_rows = 0  # rows written by code that is not always executed, as bits
    for index in others:
        for first_row, stop in code.registers(index)[1]:
            uncertain_rows |= _bits(first_row, stop)
    nodes = []
    for index in executed:
        reads, writes = code.registers(index)
        if uncertain_rows:
            reads, writes = (
                tuple(rows for rows in operand_rows if not uncertain_rows & _bits(*rows))
                for operand_rows in (reads, writes)
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
    result_rows = {first_row for node in nodes for first_row, _ in node.writes}
    return max((_cycle_clocks(steps, row) for row in result_rows), default=0.0)


def _cycle_clocks(steps: Sequence[tuple[list[int], list[int]]], row: int) -> float:
    """Clocks per iteration of the cycle in the chain that ends in the last iteration's value."""
    visits: dict[int, tuple[int, int]] = {}
    for iteration in range(len(steps) - 1, -1, -1):
        ready, origin = steps[iteration]
        if ready[row] < 0:
            return 0.0
        if row in visits:
            later_iteration, later_ready = visits[row]
            return (later_ready - ready[row]) / (later_iteration - iteration)
        visits[row] = iteration, ready[row]
        row = origin[row]
    return 0.0


def _iterate(nodes: Sequence[_Node], ready: list[int], origin: list[int]) -> None:
    """Advances by one iteration: updates when registers are ready, and their chains' origins."""
    for node in nodes:
        latest, source = _NEVER, -1
        for first, stop in node.reads:
            row = first
            if stop - first > 1:
                times = ready[first:stop]
                row += times.index(max(times))
            if ready[row] > latest:
                latest, source = ready[row], origin[row]
        finished = latest + node.cycles if latest >= 0 else _NEVER
        for first, stop in node.writes:
            if stop - first == 1:
                ready[first], origin[first] = finished, source
            else:
                ready[first:stop] = [finished] * (stop - first)
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
    """Clocks until the result can be used, at least."""
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
