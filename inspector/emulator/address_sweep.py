"""The pass over a kernel's flow graph in which the lanes' addresses are computed (`addresses`)."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from ..model import Function, Instruction
from .buffer_lanes import lanes_in_buffer, offsets_of
from .effects import effects_of, effects_of_halves
from .held_masks import HeldMasks
from .masked_writes import masked_sites
from .operands import EXEC
from .program import decoded_instructions
from .register_sets import VECTOR_REGISTERS, rows_of
from .registry import ExecutionTarget, NotCoveredError, Step
from .slices import ACCESSES, EXEC_BITS, address_bits, address_slice
from .spilled_registers import SpillDwords, follow_spills
from .start import KERNARG_ADDRESS, GridShape, initial_waves, waves_of
from .steps import step_anywhere
from .sweep_order import sweep_order
from .taken_edges import TakenEdges
from .unknowns import ARGUMENTS_APART, DRAWS, Arguments, DrawnMemory, Probe
from .waves import ALL, U32, Array, Waves

ROUNDS: Final = 3
"""How often blocks of loops are carried out: a loop's changes have come round by the second time,
those of nested loops by the third."""
MOST_HELD: Final = 100_000_000
"""32-bit words that are kept at the ends of blocks at most."""
WORKGROUPS: Final = (0, 0, 1)
"""The workgroup of each draw: the first one's masks let all lanes through, if any do."""
EXCHANGE: Final = "cross_lane"
"""Class of the instructions whose lanes read others'."""
_BRINGING: Final = frozenset(("global_load", "lds_read", "scratch_load", "atomic", "lds_atomic"))
_COMPARES_ORDER: Final = re.compile(r"v_cmpx?_n?(lt|gt|le|ge)_")
_UNIFORM: Final = ("v_readfirstlane", "v_readlane")
"""Instructions whose result is the same for all lanes, whatever they read."""


class Places(Struct, frozen=True):
    """One access of one instruction: some have two (`ds_read2`).

    Args:
        site: index of the instruction.
        part: which of its accesses.
        space: `global` or `lds`; `lanes` for an exchange, whose addresses are numbers of lanes.
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


class _State(Struct):
    """Registers at the end of a block, and which of them are scattered.

    Args:
        row_of: vector register -> its row of `vector`; those that matter behind the block.
        held: the masks of comparisons that were taken to hold for all lanes.
    """

    row_of: dict[int, int]
    vector: Array
    scalar: Array
    scc: Array
    scattered: int
    held: int


class AddressSweep:
    """A pass over the flow graph, each block after the blocks that lead to it, loops in rounds.

    Spill slots are followed as registers behind those of the kernel.
    """

    def __init__(
        self,
        function: Function,
        target: ExecutionTarget,
        threads: tuple[int, int, int],
        arguments: Arguments,
        spills: SpillDwords,
        *,
        whole_waves: bool,
        classes: frozenset[str] = ACCESSES,
    ) -> None:
        """Chooses the instructions to carry out and sets up the waves, unless they are too many."""
        self._function = function
        self._target = target
        self._whole_waves = whole_waves
        self._classes = classes
        self._decoded = decoded_instructions(function, target)
        effects = effects_of(function.instructions, self._decoded, target)
        followed = follow_spills(function, self._decoded, effects, spills)
        self._effects, self._moves = followed.effects, followed.moves
        self._slots = followed.slots
        self._masked = masked_sites(function, self._effects)
        self._halves = effects_of_halves(function.instructions, self._decoded, target)
        self._edges = TakenEdges(function, self._decoded)
        self._order = sweep_order(function, ROUNDS)
        chosen, self._live = address_slice(function, self._decoded, self._effects, classes)
        vector = self._vector_registers(chosen)
        self._rows = rows_of(vector)
        self._live_behind = [
            functools.reduce(operator.or_, (self._live[to] for to in block.successors), 0) & vector
            for block in function.blocks
        ]
        self._count = waves_of(threads, target)
        words = self._registers_held() * self._count * target.lanes * DRAWS
        self.is_affordable = bool(chosen) and words <= MOST_HELD
        if not self.is_affordable:
            return
        labels = {label: block.start for block in function.blocks for label in block.labels}
        self._steps: dict[int, Step] = {
            site: self._moves.get(site)
            or step_anywhere(function.instructions[site], self._decoded[site], target, labels)
            for site in chosen
        }
        self._random = np.random.default_rng(3)
        self._machine = Probe(DrawnMemory(arguments))
        self._waves = self._begin(function, threads, max([4, *(row + 1 for row in self._rows)]))
        self._places: dict[tuple[int, int], Places] = {}
        self._masks = HeldMasks(self._waves, self._decoded, self._effects, self._halves, target)
        self.uncovered: dict[int, str] = {}

    def _vector_registers(self, chosen: Sequence[int]) -> int:
        """The set of vector registers that instructions read or write."""
        registers = 0
        for site in chosen:
            registers |= self._effects[site].reads | self._effects[site].writes
        return registers & VECTOR_REGISTERS

    def _registers_held(self) -> int:
        """How many vector registers are kept at the ends of blocks."""
        kept = {b.index for position, b in enumerate(self._order) if self._is_kept(position)}
        return sum(self._live_behind[number].bit_count() for number in kept)

    def _is_kept(self, position: int) -> bool:
        """Whether the registers at the end of a block are needed later than by the next one."""
        block = self._order[position]
        if not self._edges.falls_through(block):
            return True
        following = self._order[position + 1 : position + 2]
        return bool(block.successors) and [b.index for b in following] != [block.index + 1]

    def _begin(self, function: Function, threads: tuple[int, int, int], registers: int) -> Waves:
        """All waves of one workgroup, for each draw."""
        start = function.resources.wave_start
        assert start is not None
        state = initial_waves(
            start,
            self._target,
            GridShape(threads, (9, 9, 9)),
            np.array(WORKGROUPS),
            self._machine,
            registers=registers,
        )
        if start.kernarg_ptr is not None:
            state.set_pair(
                start.kernarg_ptr,
                (KERNARG_ADDRESS + state.workgroup * ARGUMENTS_APART).astype(np.uint64),
            )
        return state

    def run(self) -> list[Places]:
        """Returns every access as it was carried out last."""
        entry = self._state(VECTOR_REGISTERS, self._slots)
        ends: dict[int, _State] = {}
        current = -1  # the block at whose end the registers stand
        scattered = 0
        with np.errstate(all="ignore"):
            for position, block in enumerate(self._order):
                before = self._edges.before(block.index)
                states = [ends[number] for number in before if number in ends]
                if block.index == 0:
                    states.insert(0, entry)
                if before == [current] and self._edges.follows(current, block.index):
                    scattered = scattered & self._live[block.index]
                elif states:
                    scattered = self._enter(states, self._live[block.index])
                else:
                    continue  # nothing leads there
                scattered = self._block(block.start, block.stop, scattered)
                current = block.index
                self._edges.leave(block, self._waves)
                if self._is_kept(position):
                    ends[current] = self._state(self._live_behind[current], scattered)
        return [self._places[key] for key in sorted(self._places)]

    def _state(self, live: int, scattered: int) -> _State:
        """Returns a copy of the registers, of vector registers those that are live."""
        waves = self._waves
        rows = [row for row in self._rows if live >> row & 1]
        return _State(
            {row: index for index, row in enumerate(rows)},
            waves.vector[rows],  # a copy: the index is a list
            waves.scalar.copy(),
            waves.scc.copy(),
            scattered,
            self._masks.held,
        )

    def _enter(self, states: Sequence[_State], live: int) -> int:
        """Merges the registers at the ends of the blocks before; returns the scattered ones.

        Args:
            states: at their ends.
            live: the registers that matter from here on.
        """
        waves = self._waves
        first = states[0]
        rows = [row for row in self._rows if live >> row & 1]
        vector = first.vector[[first.row_of[row] for row in rows]]
        scalar, scc = first.scalar, first.scc
        scattered = first.scattered
        self._masks.held = first.held
        for other in states[1:]:
            scattered |= other.scattered
            self._masks.held |= other.held
            for index, row in enumerate(rows):
                gap = other.vector[other.row_of[row]] - vector[index]
                if not gap.any():
                    continue
                if (gap == gap[:, :1]).all():
                    vector[index] += self._drawn(gap[:, 0])[:, None]
                else:
                    scattered |= 1 << row
            if (scalar != other.scalar).any():
                gap = other.scalar - scalar
                scalar = scalar.copy()
                for row in map(int, np.flatnonzero(gap.any(1))):
                    if row in (EXEC, EXEC + 1):
                        scalar[row] |= other.scalar[row]
                    else:
                        scalar[row] += self._drawn(gap[row])
            scc = scc | other.scc
        waves.vector[rows] = vector
        np.copyto(waves.scalar, scalar)
        waves.scc = scc.copy()
        waves.exec_changed()
        return scattered & live

    def _drawn(self, gap: Array) -> Array:
        """Returns an unknown multiple of the differences' common power of two, uint32 [wave]."""
        bits = int(np.bitwise_or.reduce(gap))
        unit = bits & -bits
        # As with workgroups: what a later iteration finds may be masked.
        times = [0] * (DRAWS - 1) + [int(self._random.integers(1, 8))]
        draws = np.repeat(times, len(gap) // DRAWS)
        return (draws * unit).astype(U32)

    def _block(self, start: int, stop: int, scattered: int) -> int:
        """Carries out what is needed of a block; returns the registers scattered behind it."""
        waves, machine = self._waves, self._machine
        for site in range(start, stop):
            step = self._steps.get(site)
            if step is None:
                # What is not carried out is not needed either: its result may be anything.
                continue
            effect = self._effects[site]
            instruction = self._function.instructions[site]
            machine.seen = []
            rests = bool(effect.reads & scattered)
            is_uncovered = False
            self.uncovered.pop(site, None)
            offsets = offsets_of(self._decoded[site], waves, limited=self._whole_waves)
            selected = self._masks.selected(site) if effect.reads & self._masks.held else 0
            is_held = False
            if instruction.cls == EXCHANGE and EXCHANGE in self._classes:
                self._take_sources(site, scattered)
            try:
                step(waves)
            except NotCoveredError as error:
                rests = is_uncovered = True
                self.uncovered[site] = str(error)
            if (
                self._whole_waves
                and _COMPARES_ORDER.match(instruction.op.name)
                and self._masks.hold(
                    effect.writes, everything=rests or self._masks.has_unknown_bound(site)
                )
            ):
                scattered &= ~effect.writes
                rests = False
                is_held = True
            if instruction.cls in self._classes and instruction.cls != EXCHANGE:
                address = address_bits(instruction, self._decoded[site])
                self._take_down(site, bool(address & scattered), offsets)
            scattered = self._scattered_behind(site, scattered, everything=is_uncovered)
            if self._whole_waves:
                scattered |= selected
                self._masks.follow(instruction, effect, is_held=is_held)
            if effect.writes & EXEC_BITS:
                if rests or not waves.active.any():
                    waves.scalar[EXEC : EXEC + self._target.lanes // 32] = ALL
                    waves.exec_changed()
                scattered &= ~EXEC_BITS
        return scattered

    def _scattered_behind(self, site: int, scattered: int, *, everything: bool) -> int:
        """The registers scattered behind an instruction: results of what rests on such ones.

        The halves of a dual instruction are apart: a move beside a sum of values from memory stays
        known.
        """
        instruction = self._function.instructions[site]
        behind = scattered
        for effect in self._halves.get(site) or (self._effects[site],):
            rests = everything or bool(effect.reads & scattered)
            if (self._brings_values(instruction) and site not in self._moves) or (
                rests and not instruction.op.name.startswith(_UNIFORM)
            ):
                behind |= effect.writes
            else:
                kept = VECTOR_REGISTERS if site in self._masked else 0
                behind &= ~(effect.low & effect.high & ~kept)
        return behind

    def _brings_values(self, instruction: Instruction) -> bool:
        """Returns whether an instruction's result in each lane is a value that is not followed."""
        is_exchange = instruction.cls == EXCHANGE and EXCHANGE in self._classes
        return is_exchange or instruction.cls in _BRINGING

    def _take_sources(self, site: int, scattered: int) -> None:
        """Keeps the lanes that an exchange is about to read from."""
        parts = self._decoded[site]
        address = address_bits(self._function.instructions[site], parts)
        if not parts.name.startswith("ds_bpermute") or address & ~VECTOR_REGISTERS:
            return
        waves, lanes = self._waves, self._target.lanes
        origin = (waves.u32[parts.operands[1].first] + U32(parts.number("offset"))) >> U32(2)
        self._places[site, 0] = Places(
            site,
            0,
            "lanes",
            1,
            False,
            (origin & U32(lanes - 1)).reshape(DRAWS, self._count, lanes).astype(np.int64),
            waves.active.reshape(DRAWS, self._count, lanes).copy(),
            bool(address & scattered),
        )

    def _take_down(self, site: int, scattered: bool, offsets: Array | None) -> None:
        """Keeps the accesses that the probe has seen in the step of instruction `site`.

        Args:
            site: index of the instruction.
            scattered: whether their addresses are.
            offsets: of its lanes in a buffer, as `offsets_of` has them.
        """
        shape = (DRAWS, self._count, self._target.lanes)
        for part, (space, where, usable, size, writes) in enumerate(self._machine.seen):
            if where.size != np.prod(shape):
                continue  # an access of some lanes at a time
            if usable is not None and offsets is not None:
                usable = lanes_in_buffer(usable, offsets, self._waves.active)
            self._places[site, part] = Places(
                site,
                part,
                space,
                size,
                writes,
                where.reshape(shape).copy(),
                None if usable is None or usable.all() else usable.reshape(shape).copy(),
                scattered,
            )
