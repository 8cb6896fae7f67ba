"""Where the lanes of each memory access lie relative to one another, without running the kernel.

The instructions that addresses depend on are carried out, by the emulator's own steps, block after
block along every edge of the flow graph. What is not known until launch (kernel arguments, values
in memory, workgroup numbers) is drawn, several times side by side: what is the same in every draw
does not depend on it. Where edges meet, registers that differ by a uniform amount go on as one of
them and an unknown uniform amount, which is what a loop's counters and buffers in turn come to;
others are *scattered*, as is what vector loads bring: nothing is said of accesses that rest on
these. Of the ways to a block those count that some draw takes, and all where none does.

Assumptions: tensors begin on a line, sizes and strides that are not known are multiples of 16, and
masks that compare with them let all lanes through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from ..model import Block, Function, Instruction, Machine
from .access import NotCoveredError
from .effects import Effect, effect_of
from .launch import initial_waves, target_of
from .machine import MachineState
from .memory import GlobalMemory, LocalMemory, Outside, PrivateMemory, Words
from .operands import EXEC, Decoded
from .outstanding import SCALAR_BIT, scalar_bits, vector_bits
from .program import decoded_instructions, step_of
from .registry import Context, Step, Target
from .waves import ALL, U32, Array, Waves

DRAWS: Final = 3
"""How often what is unknown is drawn."""
SWEEPS: Final = 3
"""Over the flow graph: what a loop changes has come round by the second, and of nested ones by the
third."""
MOST_WORK: Final = 16_000_000
"""Instructions times lanes of a workgroup; larger kernels are left."""
MOST_HELD: Final = 100_000_000
"""32-bit words that are kept at the ends of blocks at most."""
MOST_ROUNDS: Final = 40
"""Over the flow graph, until it is known what is needed; loops in loops take one each."""
ACCESSES: Final = frozenset(
    ("global_load", "global_store", "lds_read", "lds_write", "lds_direct", "lds_direct_store",
     "atomic", "lds_atomic")
)  # fmt: skip
"""Classes of the instructions whose addresses are looked for."""
_KERNARG: Final = 0x7E00_0000_0000
_KERNARG_STEP: Final = 1 << 16
_WORDS: Final = 2048
_WORKGROUPS: Final = (0, 0, 1)
"""Of each draw: the first one's masks let all lanes through, if any do."""
_EXEC_BITS: Final = scalar_bits(EXEC, 2)


class Arguments(Struct, frozen=True):
    """What is known of the kernel argument segment, by byte offset.

    Args:
        words: 32-bit words whose values are known.
        pointers: where 64-bit addresses lie; None: that is not known.
        loose: words that need be no multiple of 16.
    """

    words: Mapping[int, int] = {}
    pointers: frozenset[int] | None = None
    loose: frozenset[int] = frozenset()


class Places(Struct, frozen=True):
    """One access of one instruction: some have two (`ds_read2`).

    Args:
        site: index of the instruction.
        part: which of its accesses.
        space: `global` or `lds`.
        size: bytes of each lane.
        writes: whether it is a store.
        where: byte addresses, int64 [draw, wave, lane].
        active: which lanes take part, bool of the same shape; None for all.
        scattered: whether they rest on values in memory, or on which way was taken.
    """

    site: int
    part: int
    space: str
    size: int
    writes: bool
    where: Array
    active: Array | None
    scattered: bool


def places_of(
    function: Function,
    gpu: Machine,
    waves: int,
    arguments: Arguments | None = None,
) -> list[Places] | None:
    """The accesses of a kernel, in the order of the code.

    Args:
        function: the kernel.
        gpu: what executes it.
        waves: of its workgroup.
        arguments: what is known of its arguments.

    Returns:
        None where the kernel does not say how waves begin, or is too large.
    """
    if function.resources.wave_start is None or not function.instructions:
        return None
    target = target_of(function, gpu.arch)
    if len(function.instructions) * waves * target.lanes > MOST_WORK:
        return None
    sweep = _Sweep(function, target, waves, arguments or Arguments())
    return sweep.run() if sweep.is_affordable else None


class _Draws(GlobalMemory):
    """Memory whose contents are unknown: words by address and draw."""

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(())
        random = np.random.default_rng(1)
        # Numbers of lines and pages, of half lines, and no more than multiples of 16 bytes.
        words = np.stack(
            [
                random.integers(5, 14, _WORDS) * 4096,
                random.integers(200, 800, _WORDS) * 2 * 32 + 32,
                random.integers(400, 1600, _WORDS) * 2 * 16 + 16,
            ]
        )
        for offset in arguments.loose:
            words[1:, offset // 4] += random.integers(0, 8, 2) * 2 + 1
        for offset in arguments.pointers if arguments.pointers is not None else range(0, 256, 8):
            words[:, offset // 4] = random.integers(5, 250, DRAWS) * 4096
            words[:, offset // 4 + 1] = random.integers(1, 7, DRAWS) * 4096
        for offset, word in arguments.words.items():
            words[:, offset // 4] = word & ALL
        self._words = words.astype(U32)
        self._random = random

    def read(
        self, addresses: Array, size: int, outside: Outside, wanted: Array | None = None
    ) -> Array:
        shape = addresses.shape if size < 4 else (size // 4, *addresses.shape)
        kind = {1: np.uint8, 2: np.uint16}.get(size, U32)
        if addresses.ndim > 1 or size < 4:
            return self._random.integers(0, 64, shape).astype(kind) * kind(16 if size >= 4 else 1)
        inside = addresses - _KERNARG
        draw = np.clip(inside // _KERNARG_STEP, 0, DRAWS - 1)
        known = (inside >= 0) & (inside < DRAWS * _KERNARG_STEP)
        rows = np.empty(shape, U32)
        for dword in range(size // 4):
            at = addresses // 4 + dword
            word = np.where(known, inside % _KERNARG_STEP // 4 + dword, at * 7919 + (at >> 11))
            rows[dword] = self._words[draw, word % self._words.shape[1]]
        return rows

    def write(self, addresses: Array, values: Array, size: int, outside: Outside) -> None:
        """Nothing is kept."""


class _NoWords(Words):
    """LDS whose contents are unknown."""

    def __init__(self, random: np.random.Generator) -> None:
        super().__init__(np.zeros(64, np.uint8), 64)
        self._random = random

    def gather(self, offsets: Array, size: int) -> Array:
        shape = offsets.shape if size < 4 else (size // 4, *offsets.shape)
        kind = {1: np.uint8, 2: np.uint16}.get(size, U32)
        return self._random.integers(0, 64, shape).astype(kind) * kind(16 if size >= 4 else 1)

    def scatter(self, offsets: Array, values: Array, size: int) -> None:
        """Nothing is kept."""


class _Probe(MachineState):
    """Takes down the accesses that are about to happen."""

    def __init__(self, memory: GlobalMemory) -> None:
        super().__init__(memory)
        self.seen: list[tuple[str, Array, Array | None, int, bool]] = []
        self.local = LocalMemory(1 << 30, 0)
        self.local.stride = 0
        self.local.words = _NoWords(np.random.default_rng(2))
        self.private = PrivateMemory(1 << 20, 0, 1, 64)
        self.private.words = self.local.words

    def before_lds(
        self, site: int, waves: Waves, where: Array, usable: Array | None, size: int,
        values: Array | None,
    ) -> None:  # fmt: skip
        self.seen.append(("lds", where, usable, size, values is not None))

    def after_lds(
        self, site: int, waves: Waves, where: Array, usable: Array | None, size: int, values: Array
    ) -> None:
        """Nothing is kept."""

    def before_global(
        self, context: Context, waves: Waves, where: Array, usable: Array | None, size: int,
        values: Array | None = None, *, atomic: bool = False,
    ) -> None:  # fmt: skip
        self.seen.append(("global", where, usable, size, values is not None))

    def after_global(self, context: Context) -> None:
        """Nothing is kept."""

    def note(self, kind: str, site: int, detail: str) -> None:
        """What drawn values lead to says nothing."""


class _State(Struct):
    """Registers at the end of a block, and which of them are scattered."""

    vector: Array
    scalar: Array
    scc: Array
    scattered: int


class _Sweep:
    """The flow graph, gone through several times."""

    def __init__(
        self,
        function: Function,
        target: Target,
        waves: int,
        arguments: Arguments,
    ) -> None:
        self._function = function
        self._target = target
        decoded = decoded_instructions(function, target)
        self._decoded = decoded
        self._effects = [
            effect_of(inst, parts, target)
            for inst, parts in zip(function.instructions, decoded, strict=True)
        ]
        needed, self._live = _needed(function, decoded, self._effects)
        self._loops = [frozenset(loop.blocks) for loop in function.loops]
        self._taken: set[tuple[int, int]] = set()
        """Edges between blocks that some draw takes."""
        self._closed: set[tuple[int, int]] = set()
        """Edges that no lane takes which does anything."""
        self._steps: dict[int, Step] = {}
        labels = {label: block.start for block in function.blocks for label in block.labels}
        for at in needed:
            context = Context(
                target,
                at,
                private=function.instructions[at].cls in ("scratch_load", "scratch_store"),
                labels=labels,
            )
            self._steps[at] = step_of(decoded[at], context)
        rows = 0
        for at in needed:
            rows |= self._effects[at].reads | self._effects[at].writes
        vector = rows & ((1 << SCALAR_BIT) - 1)
        self._rows = [row for row in range(vector.bit_length()) if vector >> row & 1]
        self._memory = _Draws(arguments)
        self._machine = _Probe(self._memory)
        self._random = np.random.default_rng(3)
        words = len(function.blocks) * len(self._rows) * waves * target.lanes * DRAWS
        self.is_affordable = bool(needed) and words <= MOST_HELD
        if not self.is_affordable:
            return
        count = max([4, *(row + 1 for row in self._rows)])
        self._waves = self._begin(function, waves, count)
        self._count = waves
        self._places: dict[tuple[int, int], Places] = {}

    def _begin(self, function: Function, waves: int, registers: int) -> Waves:
        """All waves of one workgroup, for each draw."""
        start = function.resources.wave_start
        assert start is not None
        state = initial_waves(
            start, self._target, registers, (waves * self._target.lanes, 1, 1), (9, 9, 9),
            np.array(_WORKGROUPS), self._machine,
        )  # fmt: skip
        if start.kernarg_ptr is not None:
            state.set_pair(
                start.kernarg_ptr,
                (_KERNARG + state.workgroup * _KERNARG_STEP).astype(np.uint64),
            )
        return state

    def run(self) -> list[Places]:
        """Every access as the last sweep has it."""
        blocks = self._function.blocks
        waves = self._waves
        entry = _State(waves.vector[self._rows].copy(), waves.scalar.copy(), waves.scc.copy(), 0)
        ends: dict[int, _State] = {}
        current = -1  # the block at whose end the registers stand
        scattered = 0
        with np.errstate(all="ignore"):
            for sweep in range(SWEEPS if self._function.loops else 1):
                for block in blocks:
                    before = self._before(block.index)
                    states = [ends[number] for number in before if number in ends]
                    if block.index == 0:
                        states.insert(0, entry)
                    if before == [current] and self._follows(current, block.index):
                        scattered = scattered & self._live[block.index]
                    elif states:
                        scattered = self._enter(states, self._live[block.index])
                    else:
                        continue  # nothing leads there
                    scattered = self._block(block.start, block.stop, scattered)
                    current = block.index
                    self._leave(block)
                    if not all(self._follows(current, to) for to in block.successors):
                        ends[current] = _State(
                            waves.vector[self._rows],  # a copy: the index is a list
                            waves.scalar.copy(),
                            waves.scc.copy(),
                            scattered,
                        )
                if sweep == 0 and len(self._places) == 0:
                    break
        return [self._places[key] for key in sorted(self._places)]

    def _follows(self, number: int, following: int) -> bool:
        """Whether a block is entered from the one above it alone."""
        return following == number + 1 and self._function.blocks[following].predecessors == (
            number,
        )

    def _before(self, index: int) -> list[int]:
        """The blocks that lead to one: those that do so in some draw, if any does."""
        before = [
            number
            for number in self._function.blocks[index].predecessors
            if (number, index) not in self._closed
        ]
        likely = [number for number in before if (number, index) in self._taken]
        return likely or before

    def _leave(self, block: Block) -> None:
        """Notes which ways out of a block are taken.

        Where EXEC is empty a branch goes round code that would do nothing: as if it went through.
        A loop ends, whatever its counter is in the first round.
        """
        last = self._decoded[block.stop - 1].name if block.stop > block.start else ""
        reached = block.index == 0 or any(
            (number, block.index) in self._taken for number in block.predecessors
        )
        for to in block.successors:
            jumps = to != block.index + 1
            if last == "s_cbranch_execz" and jumps:
                self._closed.add((block.index, to))
            elif reached and (self._leaves_loop(block.index, to) or self._goes(last, jumps=jumps)):
                self._taken.add((block.index, to))

    def _goes(self, last: str, *, jumps: bool) -> bool:
        """Whether any wave takes a branch, or goes on behind it."""
        waves = self._waves
        if not last.startswith("s_cbranch_") or "exec" in last:
            return True
        if "scc" in last:
            condition = waves.scc if last.endswith("1") else ~waves.scc
        elif "vcc" in last:
            condition = waves.vccz if last.endswith("vccz") else ~waves.vccz
        else:
            return True
        return bool((condition if jumps else ~condition).any())

    def _leaves_loop(self, number: int, to: int) -> bool:
        return any(number in loop and to not in loop for loop in self._loops)

    def _enter(self, states: Sequence[_State], live: int) -> int:
        """Puts together what holds at the ends of the blocks before; what is scattered.

        Args:
            states: at their ends.
            live: the registers that matter from here on.
        """
        waves = self._waves
        first = states[0]
        vector, scalar, scc = first.vector, first.scalar, first.scc
        scattered = first.scattered
        for other in states[1:]:
            scattered |= other.scattered
            differ = [
                int(at)
                for at in np.flatnonzero((vector != other.vector).any((1, 2)))
                if live >> self._rows[at] & 1
            ]
            if differ:
                vector = vector.copy()
                for at in differ:
                    gap = other.vector[at] - vector[at]
                    if (gap == gap[:, :1]).all():
                        vector[at] += self._drawn(gap[:, 0])[:, None]
                    else:
                        scattered |= 1 << self._rows[at]
            if (scalar != other.scalar).any():
                gap = other.scalar - scalar
                scalar = scalar.copy()
                for row in np.flatnonzero(gap.any(1)):
                    if row in (EXEC, EXEC + 1):
                        scalar[row] |= other.scalar[row]
                    else:
                        scalar[row] += self._drawn(gap[row])
            scc = scc | other.scc
        waves.vector[self._rows] = vector
        np.copyto(waves.scalar, scalar)
        waves.scc = scc.copy()
        waves.exec_changed()
        return scattered & live

    def _drawn(self, gap: Array) -> Array:
        """An unknown multiple of what all differences have in common, for each wave."""
        bits = int(np.bitwise_or.reduce(gap))
        unit = bits & -bits
        # As with workgroups: what a later iteration finds may be masked.
        times = [0] * (DRAWS - 1) + [int(self._random.integers(1, 8))]
        draws = np.repeat(times, len(gap) // DRAWS)
        return (draws * unit).astype(U32)

    def _block(self, start: int, stop: int, scattered: int) -> int:
        """Carries out what is needed of a block; what is scattered behind it."""
        waves, machine = self._waves, self._machine
        for at in range(start, stop):
            step = self._steps.get(at)
            if step is None:
                # What is not carried out is not needed either: its result may be anything.
                continue
            effect = self._effects[at]
            instruction = self._function.instructions[at]
            machine.seen = []
            rests = bool(effect.reads & scattered)
            try:
                step(waves)
            except NotCoveredError:
                rests = True
            if instruction.cls in ACCESSES:
                address = _address_bits(self._decoded[at], effect)
                self._take_down(at, bool(address & scattered))
            if _brings_values(instruction) or (
                rests and not instruction.op.name.startswith(_UNIFORM)
            ):
                scattered |= effect.writes
            else:
                scattered &= ~(effect.low & effect.high)
            if effect.writes & _EXEC_BITS:
                if rests or not waves.active.any():
                    waves.scalar[EXEC : EXEC + self._target.lanes // 32] = ALL
                    waves.exec_changed()
                scattered &= ~_EXEC_BITS
        return scattered

    def _take_down(self, at: int, scattered: bool) -> None:
        shape = (DRAWS, self._count, self._target.lanes)
        for part, (space, where, usable, size, writes) in enumerate(self._machine.seen):
            if where.size != np.prod(shape):
                continue  # an access of some lanes at a time
            self._places[at, part] = Places(
                at,
                part,
                space,
                size,
                writes,
                where.reshape(shape).copy(),
                None if usable is None or usable.all() else usable.reshape(shape).copy(),
                scattered,
            )


def _brings_values(instruction: Instruction) -> bool:
    """Whether it brings each lane a value of its own from memory."""
    return instruction.cls in _BRINGING or "returns" in instruction.op.traits


_BRINGING: Final = frozenset(("global_load", "lds_read", "scratch_load", "atomic"))
_UNIFORM: Final = ("v_readfirstlane", "v_readlane")
"""Instructions whose result is the same for all lanes, whatever they read."""
_DATA_FIRST: Final = ("buffer_", "tbuffer_")


def _address_bits(parts: Decoded, effect: Effect) -> int:
    """The registers that an access takes its addresses from."""
    bits = 0
    operands = parts.operands
    name = parts.name
    stores = "store" in name or "write" in name or "atomic" in name or name.startswith("ds_")
    if name.startswith(_DATA_FIRST) and "lds" not in parts.modifiers:
        chosen = operands[1:]
    elif name.startswith("ds_") and ("write" in name or "store" in name or "rtn" not in name):
        chosen = operands[:1] if "read" not in name and "load" not in name else operands[1:2]
    elif name.startswith("ds_"):
        chosen = operands[1:2]
    elif stores and "_rtn" not in name and not _returns_value(parts):
        chosen = (*operands[:1], *operands[2:])
    elif stores:
        chosen = (*operands[1:2], *operands[3:])
    else:
        chosen = operands[1:]
    for operand in chosen:
        if operand.kind == "vgpr":
            bits |= vector_bits(operand.first, operand.count)
        elif operand.kind == "sgpr":
            bits |= scalar_bits(operand.first, operand.count)
    return bits & effect.reads


def _returns_value(parts: Decoded) -> bool:
    flags = parts.modifiers
    return "glc" in flags or "sc0" in flags or "ATOMIC_RETURN" in flags.get("th", "")


def _needed(
    function: Function, decoded: Sequence[Decoded], effects: Sequence[Effect]
) -> tuple[list[int], list[int]]:
    """Accesses, all scalar instructions and what both depend on.

    Returns:
        Indices of these instructions, none where it takes too long to find them; of each block the
        registers that they read before they are written.
    """
    blocks = function.blocks
    at_start = [0] * len(blocks)
    chosen: set[int] = set()
    always = {
        index
        for index, inst in enumerate(function.instructions)
        if inst.cls in _SCALAR or inst.op.name.startswith("v_cmpx")
    }
    changed, rounds = True, 0
    while changed:
        changed, rounds = False, rounds + 1
        if rounds > MOST_ROUNDS:
            return [], at_start
        for block in reversed(blocks):
            wanted = 0
            for successor in block.successors:
                wanted |= at_start[successor]
            for at in range(block.stop - 1, block.start - 1, -1):
                cls, effect = function.instructions[at].cls, effects[at]
                if cls in ACCESSES:
                    chosen.add(at)
                    wanted = wanted & ~effect.low & ~effect.high | _address_bits(
                        decoded[at], effect
                    )
                elif at in always or effect.writes & wanted:
                    chosen.add(at)
                    wanted = wanted & ~(effect.low & effect.high) | effect.reads
            if wanted != at_start[block.index]:
                at_start[block.index] = wanted
                changed = True
    return sorted(chosen), at_start


_SCALAR: Final = frozenset(("salu", "smem_load"))
