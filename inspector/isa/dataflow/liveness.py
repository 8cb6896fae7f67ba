"""Which registers hold a value that some instruction may still read, at every instruction.

A register is live where its value may be read before it is written whole, on any path, and where
something may have written it at all: LLVM reads registers that nobody has written (half of a pack),
and these need no space. Halves are followed apart, since 16-bit operations write one of them.

Values are those of active lanes; what a write ends where some are switched off: `masked_writes.py`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ...model import Block, Function, Instruction, Machine
from .code_registers import registers_of
from .effects import RegisterEffect
from .execution_target import ExecutionTarget, initial_registers, target_of
from .operands import EXEC, HIGH_HALVES, SCALAR_BIT, VCC, scalar_bits, vector_bits

_LOW: Final = (1 << HIGH_HALVES) - 1
_VECTORS: Final = vector_bits(0, SCALAR_BIT)
_NO_VECTORS: Final = ~(_VECTORS | _VECTORS << HIGH_HALVES)
_SGPRS: Final = scalar_bits(0, VCC + 2)
"""SGPRs and VCC; trap temporaries, M0 and EXEC are allocated to no wave."""
_EXEC: Final = scalar_bits(EXEC, 2)
_PASSED: Final = vector_bits(0, 32) | scalar_bits(0, 30)
"""Where LLVM's AMDGPU calling convention passes arguments and results."""
_DROPPABLE: Final = frozenset(("valu", "acc_move", "cross_lane", "mfma", "wmma"))
"""Classes of instructions that do nothing but write their results."""


class Liveness(Struct, frozen=True):
    """Live registers of a function, as sets of bits (`register_sets`).

    Args:
        effects: what each instruction reads and writes.
        before: the registers that are live before each instruction.
        after: the registers that are live behind each instruction.
        ended: the halves whose old values each instruction ends in all lanes that come there.
        needed: VGPRs, AGPRs and SGPRs that each instruction needs at once.
    """

    target: ExecutionTarget
    effects: Sequence[RegisterEffect]
    before: Sequence[int]
    after: Sequence[int]
    ended: Sequence[int]
    needed: Sequence[tuple[int, int, int]]

    def vgprs(self, index: int) -> int:
        """VGPRs that an instruction needs at once: before it, or behind it with its results."""
        return self.needed[index][0]

    def agprs(self, index: int) -> int:
        """AGPRs that it needs."""
        return self.needed[index][1]

    def sgprs(self, index: int) -> int:
        """SGPRs that it needs, VCC among them."""
        return self.needed[index][2]

    def untouched(self, blocks: Sequence[Block]) -> int:
        """Registers that are live all through some blocks, which neither read nor write them."""
        live, used = _LOW, 0
        for block in blocks:
            for index in range(block.start, block.stop):
                live &= self.before[index]
                used |= self.effects[index].reads | self.effects[index].writes
        return live & ~used

    def vector_count(self, rows: int) -> int:
        """VGPRs and AGPRs in a set."""
        return (rows & _VECTORS).bit_count()

    def highest_vector(self) -> int:
        """Vector rows up to the last that is read or written."""
        used = 0
        for effect in self.effects:
            used |= effect.reads | effect.writes
        return (used & _VECTORS).bit_length()

    def dead_writes(self, code: Iterable[Instruction]) -> list[Instruction]:
        """The vector instructions that do nothing but write results which nothing reads."""
        effects, after = self.effects, self.after
        return [
            inst
            for inst in code
            if inst.cls in _DROPPABLE
            and effects[inst.index].writes
            and not effects[inst.index].writes & (after[inst.index] | _EXEC)
        ]


def liveness(function: Function, machine: Machine) -> Liveness:
    """Follows every register of a function.

    `function`: a kernel, or a function that kernels call.
    """
    target = target_of(function, machine.arch)
    instructions = function.instructions
    registers = registers_of(function, target)
    effects = [
        _with_call(inst, effect)
        for inst, effect in zip(instructions, registers.effects, strict=True)
    ]
    ended = _ended(effects, registers.masked)
    read = [effect.reads_low | effect.reads_high << HIGH_HALVES for effect in effects]
    defined = [
        _defined_by(inst, effect) for inst, effect in zip(instructions, effects, strict=True)
    ]
    leaving = _leaving(function, read, ended)
    arriving = _arriving(function, defined, target)
    before, after = [0] * len(effects), [0] * len(effects)
    for block, live, written in zip(function.blocks, leaving, arriving, strict=True):
        # The registers that may hold something: first before each instruction, then behind it.
        for index in range(block.start, block.stop):
            before[index] = written
            written |= defined[index]
            after[index] = written
        whole = _either(live)
        for index in range(block.stop - 1, block.start - 1, -1):
            after[index] &= whole
            live = (live & ~ended[index]) | read[index]
            whole = _either(live)
            before[index] &= whole
    return Liveness(target, effects, before, after, ended, _needed(target, effects, before, after))


def _needed(
    target: ExecutionTarget,
    effects: Sequence[RegisterEffect],
    before: Sequence[int],
    after: Sequence[int],
) -> list[tuple[int, int, int]]:
    """VGPRs, AGPRs and SGPRs that each instruction needs: before it, or behind with its results."""
    first = target.accum_offset
    vgprs, agprs = vector_bits(0, first), vector_bits(first, SCALAR_BIT - first)

    def counts(registers: int) -> tuple[int, int, int]:
        return (
            (registers & vgprs).bit_count(),
            (registers & agprs).bit_count(),
            (registers & _SGPRS).bit_count(),
        )

    needed = []
    last, last_counts = 0, (0, 0, 0)  # most is live behind one instruction and before the next one
    for live, live_behind, effect in zip(before, after, effects, strict=True):
        counts_before = last_counts if live == last else counts(live)
        behind = live_behind | effect.writes
        counts_behind = counts_before if behind == live else counts(behind)
        last, last_counts = behind, counts_behind
        needed.append(
            counts_before
            if counts_before == counts_behind
            else (
                max(counts_before[0], counts_behind[0]),
                max(counts_before[1], counts_behind[1]),
                max(counts_before[2], counts_behind[2]),
            )
        )
    return needed


def _with_call(inst: Instruction, effect: RegisterEffect) -> RegisterEffect:
    """A call's and a return's effect: any register of the calling convention may be read."""
    if _is_call(inst) or inst.mnemonic.startswith("s_setpc"):
        return replace(
            effect,
            reads=effect.reads | _PASSED,
            reads_low=effect.reads_low | _PASSED,
            reads_high=effect.reads_high | _PASSED,
        )
    return effect


def _defined_by(inst: Instruction, effect: RegisterEffect) -> int:
    """Registers that hold something behind an instruction: a callee may leave results."""
    return effect.writes | _PASSED if _is_call(inst) else effect.writes


def _is_call(inst: Instruction) -> bool:
    return "call" in inst.op.traits


def _either(halves: int) -> int:
    """Registers of which a half is in a set of halves."""
    return (halves | halves >> HIGH_HALVES) & _LOW


def _ended(effects: Sequence[RegisterEffect], masked: Container[int]) -> list[int]:
    """The halves whose old values each instruction ends in all lanes that come there."""
    ended = []
    for index, effect in enumerate(effects):
        halves = effect.low | effect.high << HIGH_HALVES
        ended.append(halves & _NO_VECTORS if index in masked else halves)
    return ended


def _leaving(function: Function, read: Sequence[int], ended: Sequence[int]) -> list[int]:
    """The halves that are live at the end of each block."""
    blocks = function.blocks
    read_first, replaced = [], []
    for block in blocks:
        live, gone = 0, 0
        for index in range(block.stop - 1, block.start - 1, -1):
            live = (live & ~ended[index]) | read[index]
            gone |= ended[index]
        read_first.append(live)
        replaced.append(gone)
    leaving = [0] * len(blocks)
    waiting = list(range(len(blocks)))
    while waiting:
        number = waiting.pop()
        entering = read_first[number] | (leaving[number] & ~replaced[number])
        for predecessor in blocks[number].predecessors:
            if entering & ~leaving[predecessor]:
                leaving[predecessor] |= entering
                waiting.append(predecessor)
    return leaving


def _arriving(function: Function, defined: Sequence[int], target: ExecutionTarget) -> list[int]:
    """The registers that may have been written when each block begins."""
    blocks = function.blocks
    written = [0] * len(blocks)
    for block in blocks:
        for index in range(block.start, block.stop):
            written[block.index] |= defined[index]
    arriving = [0] * len(blocks)
    start = function.resources.wave_start
    if blocks:
        arriving[0] = _LOW if start is None else initial_registers(start, target)
    waiting = list(range(len(blocks)))[::-1]
    while waiting:
        number = waiting.pop()
        outgoing = arriving[number] | written[number]
        for successor in blocks[number].successors:
            if outgoing & ~arriving[successor]:
                arriving[successor] |= outgoing
                waiting.append(successor)
    return arriving
