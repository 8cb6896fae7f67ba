"""A function's code, made ready to run: one list of steps per basic block and what ends it.

Blocks end at branches, at barriers and at the end of the kernel; what is decided there per wave is
a `BlockEnd`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final

from msgspec import Struct

from ..isa.dataflow.code_registers import decoded_instructions
from ..isa.dataflow.effects import (
    RegisterEffect,
    effects_of,
    result_halves,
    touched_halves,
    vector_rows,
)
from ..isa.dataflow.execution_target import ExecutionTarget
from ..isa.dataflow.operands import EXEC, VCC, Decoded
from ..isa.launch import entry_block
from ..isa.waitflow.counters import GenerationCounters, decode_wait, events_of
from ..model import Function, Instruction
from .checks.hazards import Hazard, hazards_of
from .linking import called_blocks, resolved
from .matrix_products import link
from .modes import targets_of
from .registry import BuildContext, Step
from .steps import refusal, step_of
from .waves import CONDITIONS, Array, Waves


class EndKind(Enum):
    """The kinds of ends that blocks have."""

    FALL = "fall"
    JUMP = "jump"
    BRANCH = "branch"
    BARRIER = "barrier"
    SIGNAL = "signal"
    END = "end"
    INDIRECT = "indirect"


class BlockEnd(Struct):
    """How a block is left.

    Args:
        target: block that a jump or branch that is taken leads to.
        taken: for a branch: bool [wave].
        mask: the register of the lane mask that a branch goes by; None for SCC.
        site: index of the instruction that ends the block.
        goes: for a call or a return: block [wave]; None where it cannot be followed.
    """

    kind: EndKind
    target: int = -1
    following: int = -1
    taken: Callable[[Waves], Array] | None = None
    site: int = -1
    mask: int | None = None
    goes: Callable[[Waves], Array] | None = None


class CodeBlock(Struct):
    """A block's steps, each with the registers that it reads or writes, and its end.

    Args:
        steps: (registers, step, index of the instruction).
        runs: how many waves went through it, in all.
        taken: how many of them took the branch at its end.
        divided: how many of them had lanes both for and against taking it.
    """

    first: int
    stop: int
    steps: list[tuple[int, Step, int]]
    leave: BlockEnd
    runs: int = 0
    taken: int = 0
    divided: int = 0


Tally = tuple[int, int, int]
"""A block's counts: waves that went through, that took its branch, that were divided there."""


class PreparedCode(Struct):
    """A function ready to run.

    Args:
        blocks: of steps; they are smaller than the function's where barriers part these.
        entry: number of the block in which waves begin.
        vector_registers: how many rows of the vector file the code names.
        lds_granule: bytes of the narrowest access of LDS.
        global_granule: bytes of the narrowest store to global memory.
        results: load whose result comes back in order -> its counter, the registers that it writes.
    """

    function: Function
    target: ExecutionTarget
    blocks: list[CodeBlock]
    entry: int
    vector_registers: int
    lds_granule: int
    global_granule: int
    decoded: list[Decoded]
    results: dict[int, tuple[str, int]]
    effects: list[RegisterEffect]
    hazards: list[Hazard]

    @property
    def tallies(self) -> list[Tally]:
        """Returns the counts of each block."""
        return [(block.runs, block.taken, block.divided) for block in self.blocks]

    def line(self, site: int) -> str:
        """An instruction with its line in the assembly."""
        return f"{self.decoded[site].text} (line {self.function.instructions[site].line})"

    def recount(self, tallies: Iterable[Tally]) -> None:
        """Goes on from counts of another time."""
        for block, (runs, taken, divided) in zip(self.blocks, tallies, strict=True):
            block.runs, block.taken, block.divided = runs, taken, divided

    def add(self, tallies: Iterable[Tally]) -> None:
        """Adds the counts of another process."""
        for block, (runs, taken, divided) in zip(self.blocks, tallies, strict=True):
            block.runs += runs
            block.taken += taken
            block.divided += divided


_ENDS: Final = frozenset({"s_endpgm", "s_endpgm_saved", "s_endpgm_ordered_ps_done"})
_BARRIERS: Final = frozenset({"s_barrier", "s_barrier_wait"})
_OTHER_MODE: Final = "in a floating-point mode that is not followed"
_INDIRECT: Final = frozenset({"s_setpc_b64", "s_swappc_b64", "s_call_b64", "s_trap"})


def prepare(
    function: Function,
    target: ExecutionTarget,
    maxima: Mapping[str, int],
    fields: Mapping[str, tuple[tuple[int, int], ...]] | None = None,
    *,
    mfma_cycles: Mapping[str, int] | None = None,
    symbols: Mapping[str, int] | None = None,
    calls: bool = False,
) -> PreparedCode:
    """Builds every step of a function.

    Instructions that are not covered get a step that raises when it is reached, so that what a
    launch never runs is no hindrance.

    `maxima`: the wait counters -> largest value. `fields`: bit fields of a bare `s_waitcnt` number.
    `mfma_cycles`: cycles of matrix instructions; None: their hazards are not looked for. `symbols`:
    constants that the code may read, and functions that it calls -> address. `calls`: whether it
    calls functions, whose code is part of it (`calls.joined`).
    """
    decoded = resolved(decoded_instructions(function, target), symbols or {})
    builder = _BlockBuilder(function, target, decoded, maxima, fields, calls=calls)
    blocks = builder.build()
    rows = [row.stop for parts in decoded for row in vector_rows(parts)]
    effects = effects_of(function.instructions, decoded, target)
    return PreparedCode(
        function,
        target,
        blocks,
        builder.entry,
        max([4, *rows]),
        _granule(function, _LDS_ACCESSES),
        _granule(function, _GLOBAL_STORES),
        decoded,
        builder.results,
        effects,
        hazards_of(function, decoded, effects, target.arch, mfma_cycles or {}),
    )


class _BlockBuilder:
    """Builds the blocks of a function with their steps; arguments as those of `prepare`."""

    def __init__(
        self,
        function: Function,
        target: ExecutionTarget,
        decoded: list[Decoded],
        maxima: Mapping[str, int],
        fields: Mapping[str, tuple[tuple[int, int], ...]] | None,
        *,
        calls: bool,
    ) -> None:
        self.results: dict[int, tuple[str, int]] = {}
        self._function = function
        self._target = target
        self._decoded = decoded
        self._maxima = maxima
        self._fields = fields
        self._calls = calls
        self._counters = GenerationCounters.of(maxima)
        self._labels = {label: block.start for block in function.blocks for label in block.labels}
        self._starts = _starts(function, decoded)
        entry = entry_block(function)
        self._block_of = {start: number for number, start in enumerate(self._starts)}
        self.entry = self._block_of[function.blocks[entry].start] if entry else 0
        self._aims = _aims(function, self._block_of)
        self._modes = targets_of(function, decoded, target)
        """By instruction, the target in its floating-point mode; None: a mode not followed."""

    def build(self) -> list[CodeBlock]:
        """Returns all blocks in the order of the code."""
        stops = [*self._starts[1:], len(self._decoded)]
        return [
            self._block(number, start, stop)
            for number, (start, stop) in enumerate(zip(self._starts, stops, strict=True))
        ]

    def _block(self, number: int, start: int, stop: int) -> CodeBlock:
        """Returns one block: a step for each instruction up to the one that ends it."""
        steps: list[tuple[int, Step, int]] = []
        leave = BlockEnd(EndKind.FALL, following=number + 1)
        for site in range(start, stop):
            parts = self._decoded[site]
            ending = _block_end(parts, site, self._aims, number)
            if ending is not None:
                leave = ending
                if leave.kind is EndKind.INDIRECT and self._modes[site] is None:
                    steps.append((0, refusal(f"{parts.text}: {_OTHER_MODE}"), site))
                if self._calls and leave.kind is EndKind.INDIRECT:
                    leave.goes = called_blocks(parts, site, self._block_of)
                break
            steps.append((touched_halves(parts), self._step(site), site))
        return CodeBlock(start, stop, link(steps), leave)

    def _step(self, site: int) -> Step:
        """Returns an instruction's step, and notes the registers that an ordered load writes."""
        inst, parts, mode = (
            self._function.instructions[site],
            self._decoded[site],
            self._modes[site],
        )
        events = events_of(inst, self._counters)
        raised = tuple(dict.fromkeys(event.counter for event in events))
        context = BuildContext(
            mode or self._target,
            site,
            raised,
            all(event.order for event in events),
            tuple(self._maxima.get(counter, 1 << 30) for counter in raised),
            inst.cls in ("scratch_load", "scratch_store"),
            is_coherent(parts),
            _wait_of(inst, self._fields, self._maxima),
            self._labels,
        )
        if raised and context.in_order and events[0].writes:
            self.results[site] = (raised[0], result_halves(parts))
        if mode is None:
            return refusal(f"{parts.text}: {_OTHER_MODE}")
        return step_of(parts, context)


def is_coherent(parts: Decoded) -> bool:
    """Whether an access is coherent in the whole device (LLVM's AMDGPUUsage, "Memory Model").

    That is sc1 from gfx940 on, glc before, dlc with gfx10 and gfx11, a scope with gfx12.
    """
    flags = parts.modifiers
    wide = flags.get("scope", "") in ("SCOPE_DEV", "SCOPE_SYS")
    return wide or "sc1" in flags or "glc" in flags or "dlc" in flags


_LDS_ACCESSES: Final = ("lds_read", "lds_write", "lds_direct", "lds_atomic")
_GLOBAL_STORES: Final = ("global_store", "lds_direct_store")


def _granule(function: Function, classes: tuple[str, ...]) -> int:
    """Bytes of the narrowest access of some classes, at most 16; 4 where there is none."""
    widths = [
        inst.op.bits // 8 // (2 if "pair" in inst.op.traits else 1)
        for inst in function.instructions
        if inst.cls in classes and inst.op.bits
    ]
    narrowest = min(widths, default=4)
    return next(size for size in (16, 8, 4, 2, 1) if narrowest % size == 0)


def _starts(function: Function, decoded: list[Decoded]) -> list[int]:
    """Returns the indices where blocks begin: at labels, and behind what hands control on."""
    starts = {0} | {block.start for block in function.blocks}
    for site, parts in enumerate(decoded):
        if (
            parts.name in _BARRIERS
            or parts.name in _ENDS
            or parts.name in _INDIRECT
            or (parts.name.startswith(("s_branch", "s_cbranch", "s_barrier_signal")))
        ):
            starts.add(site + 1)
    return sorted(start for start in starts if start < len(decoded))


def _aims(function: Function, block_of: Mapping[int, int]) -> dict[int, int]:
    """Returns the block that each jump and branch leads to by the flow graph, by its index."""
    aims = {}
    for block in function.blocks:
        starts = [function.blocks[successor].start for successor in block.successors]
        elsewhere = [start for start in starts if start != block.stop]
        if elsewhere or starts:
            aims[block.stop - 1] = block_of[(elsewhere or starts)[0]]
    return aims


def _block_end(parts: Decoded, site: int, aims: Mapping[int, int], number: int) -> BlockEnd | None:
    """How an instruction ends its block; None where control goes on."""
    if parts.name in _ENDS:
        return BlockEnd(EndKind.END, site=site)
    if _is_named_barrier(parts):
        return None  # no builder: it is refused when it is reached
    if parts.name in _BARRIERS:
        return BlockEnd(EndKind.BARRIER, following=number + 1, site=site)
    if parts.name == "s_barrier_signal":
        return BlockEnd(EndKind.SIGNAL, following=number + 1, site=site)
    if parts.name in ("s_branch", "s_setpc_b64") and site in aims:
        return BlockEnd(EndKind.JUMP, aims[site], site=site)
    if parts.name in CONDITIONS and site in aims:
        mask = VCC if "vcc" in parts.name else EXEC if "exec" in parts.name else None
        return BlockEnd(EndKind.BRANCH, aims[site], number + 1, CONDITIONS[parts.name], site, mask)
    if parts.name in _INDIRECT or parts.name == "s_branch" or parts.name in CONDITIONS:
        return BlockEnd(EndKind.INDIRECT, site=site)
    return None


def _is_named_barrier(parts: Decoded) -> bool:
    """Whether it is a barrier other than the workgroup's own, which is number -1."""
    if parts.name not in ("s_barrier_signal", "s_barrier_wait"):
        return False
    number = parts.operands[0].integer if parts.operands else None
    return number is None or number & 0xFFFF != 0xFFFF


def _wait_of(
    inst: Instruction,
    fields: Mapping[str, tuple[tuple[int, int], ...]] | None,
    maxima: Mapping[str, int],
) -> Mapping[str, int]:
    """For a wait: counter -> how many operations may stay outstanding; empty for others."""
    if inst.cls != "wait":
        return {}
    if inst.op.name == "s_wait_idle":
        return dict.fromkeys(maxima, 0)
    return decode_wait(inst.op.name, inst.operands, fields, maxima)
