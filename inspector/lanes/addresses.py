"""Where the lanes of each memory access lie relative to one another, without running the kernel.

The instructions that addresses depend on are carried out, by the emulator's own steps, block after
block along every edge of the flow graph. What is not known until launch (kernel arguments, values
in memory, workgroup numbers) is drawn, several times side by side: what is the same in every draw
does not depend on it. Where edges meet, registers that differ by a uniform amount go on as one of
them and an unknown uniform amount, which is what a loop's counters and buffers in turn come to;
others are *scattered*, as are the results of vector loads: nothing is said of accesses that rest on
these. Of the edges to a block, those count that some draw takes, or all where none does.

Assumptions: tensors begin on a line, sizes and strides that are not known are multiples of 16, and
masks that compare with them let all lanes through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from ..emulator.registry import NotCoveredError
from ..emulator.start import (
    KERNARG_ADDRESS,
    GridShape,
    initial_waves,
    preload_arguments,
    waves_of,
)
from ..emulator.waves import ALL, U32, Array, Waves
from ..isa.dataflow.execution_target import target_of
from ..isa.dataflow.operands import EXEC
from ..model import Function, Machine
from .address_code import AddressCode, PlannedStep
from .assumed_masks import ElseArms, HeldMasks, TakenEdges, lanes_in_buffer, offsets_of
from .slices import EXEC_BITS
from .spilled_registers import SpillDwords
from .unknowns import ARGUMENTS_APART, DRAWS, Arguments, DrawnMemory, Probe

MOST_WORK: Final = 16_000_000
"""Instructions times lanes of a workgroup; larger kernels are not looked at."""


class Located(Struct, frozen=True):
    """The accesses of a kernel and where their lanes lie.

    `uncovered`: accesses that the emulator does not carry out, by index: why. `code`: what was
    carried out, for further calls with the same code and spills.
    """

    places: Sequence[Places]
    uncovered: Mapping[int, str]
    code: AddressCode


def places_of(
    function: Function,
    gpu: Machine,
    threads: tuple[int, int, int],
    arguments: Arguments | None = None,
    spills: SpillDwords | None = None,
    *,
    whole_waves: bool = False,
    code: AddressCode | None = None,
) -> Located | None:
    """Where the accesses of a kernel lie.

    `spills`: its spills and reloads, which are followed; None: what is reloaded is unknown.
    `whole_waves`: whether a comparison by order with something unknown holds for all lanes, as
    checks of bounds do but in the last workgroup. Returns None where the kernel does not say how
    waves begin, or is too large.
    """
    if function.resources.wave_start is None or not function.instructions:
        return None
    target = target_of(function, gpu.arch)
    if len(function.instructions) * waves_of(threads, target) * target.lanes > MOST_WORK:
        return None
    known = arguments or Arguments()
    code = code or AddressCode(function, target, spills or {})
    sweep = AddressSweep(code, threads, known, whole_waves=whole_waves)
    return Located(sweep.run(), sweep.uncovered, code) if sweep.is_affordable else None


MOST_HELD: Final = 100_000_000
"""32-bit words that are kept at the ends of blocks at most."""
WORKGROUPS: Final = (0, 0, 1)
"""The workgroup of each draw: the first one's masks let all lanes through, if any do."""


class Places(Struct, frozen=True):
    """One access of one instruction: some have two (`ds_read2`).

    Args:
        part: which of its accesses.
        space: `global` or `lds`.
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

    `rows`: the vector registers in `vector`, ascending; those that matter behind the block. `held`:
    the masks of comparisons that were taken to hold for all lanes.
    """

    rows: Array
    vector: Array
    scalar: Array
    scc: Array
    scattered: int
    held: int


class AddressSweep:
    """A pass over the flow graph, each block after the blocks that lead to it, loops in rounds.

    `whole_waves`: whether comparisons by order with what is unknown hold for all lanes.
    `is_affordable`: whether there is something to carry out, and not too much to keep. `uncovered`:
    accesses that the emulator does not carry out, by index: why.
    """

    def __init__(
        self,
        code: AddressCode,
        threads: tuple[int, int, int],
        arguments: Arguments,
        *,
        whole_waves: bool,
    ) -> None:
        """Sets up the waves, unless they are too many."""
        self._code = code
        self._target = code.target
        self._whole_waves = whole_waves
        self._edges = TakenEdges(code.function, code.decoded)
        self._count = waves_of(threads, self._target)
        words = self._registers_held() * self._count * self._target.lanes * DRAWS
        self.is_affordable = bool(code.chosen) and words <= MOST_HELD
        if not self.is_affordable:
            return
        self._memory = DrawnMemory(arguments)
        self._machine = Probe(self._memory)
        self._waves = self._begin(threads, max([4, *(row + 1 for row in code.rows)]))
        self._places: dict[tuple[int, int], Places] = {}
        self._masks = HeldMasks(self._waves, code.decoded, code.effects, code.halves, self._target)
        self._arms = ElseArms() if code.has_else_arms else None
        self.uncovered: dict[int, str] = {}

    def _registers_held(self) -> int:
        """How many vector registers are kept at the ends of blocks."""
        order = self._code.order
        kept = {block.index for position, block in enumerate(order) if self._is_kept(position)}
        return sum(len(self._code.rows_behind[number]) for number in kept)

    def _is_kept(self, position: int) -> bool:
        """Whether the registers at the end of a block are needed later than by the next one."""
        block = self._code.order[position]
        if not self._edges.falls_through(block):
            return True
        following = self._code.order[position + 1 : position + 2]
        return bool(block.successors) and [b.index for b in following] != [block.index + 1]

    def _begin(self, threads: tuple[int, int, int], registers: int) -> Waves:
        """All waves of one workgroup, for each draw."""
        start = self._code.function.resources.wave_start
        assert start is not None
        state = initial_waves(
            start,
            self._target,
            GridShape(threads, (9, 9, 9)),
            np.array(WORKGROUPS),
            self._machine,
            registers=registers,
        )
        segments = KERNARG_ADDRESS + state.workgroup * ARGUMENTS_APART
        if start.kernarg_ptr is not None:
            state.set_pair(start.kernarg_ptr, segments.astype(np.uint64))
        preload_arguments(state, start, segments)
        return state

    def run(self) -> list[Places]:
        """Returns every access as it was carried out last."""
        code = self._code
        entry = self._state(np.array(code.rows, np.intp), code.slots)
        ends: dict[int, _State] = {}
        current = -1  # the block at whose end the registers stand
        scattered = 0
        last = {block.index: position for position, block in enumerate(code.order)}
        with np.errstate(all="ignore"):
            for position, block in enumerate(code.order):
                before = self._edges.before(block.index)
                states = [ends[number] for number in before if number in ends]
                if block.index == 0:
                    states.insert(0, entry)
                if before == [current] and self._edges.follows(current, block.index):
                    scattered = scattered & code.live[block.index]
                elif states:
                    scattered = self._enter(states, block.index)
                else:
                    continue  # nothing leads there
                scattered = self._block(
                    block.index, scattered, is_last=position == last[block.index]
                )
                current = block.index
                self._edges.leave(block, self._waves)
                if self._is_kept(position):
                    ends[current] = self._state(code.rows_behind[current], scattered)
        return [self._places[key] for key in sorted(self._places)]

    def _state(self, rows: Array, scattered: int) -> _State:
        """Returns a copy of the registers, of vector registers some rows."""
        waves = self._waves
        return _State(
            rows,
            waves.vector.take(rows, 0),
            waves.scalar.copy(),
            waves.scc.copy(),
            scattered,
            self._masks.held,
        )

    def _enter(self, states: Sequence[_State], number: int) -> int:
        """Merges the registers at the ends of the blocks before; returns the scattered ones."""
        waves = self._waves
        first = states[0]
        rows = self._code.rows_at_start[number]
        vector = first.vector.take(first.rows.searchsorted(rows), 0)
        scalar, scc = first.scalar, first.scc
        scattered = first.scattered
        self._masks.held = first.held
        for other in states[1:]:
            scattered |= other.scattered
            self._masks.held |= other.held
            arriving = other.vector.take(other.rows.searchsorted(rows), 0)
            differs = (arriving != vector).reshape(len(rows), waves.count * waves.lanes).any(1)
            differing = np.flatnonzero(differs)
            if len(differing):
                gaps = arriving[differing] - vector[differing]
                is_uniform = (gaps == gaps[:, :, :1]).all((1, 2))
                vector[differing[is_uniform]] += self._drawn(gaps[is_uniform, :, 0])[:, :, None]
                for row in rows[differing[~is_uniform]].tolist():
                    scattered |= 1 << row
            gaps = other.scalar - scalar
            differing = np.flatnonzero(gaps.any(1))
            if len(differing):
                scalar = scalar.copy()
                is_mask = (differing == EXEC) | (differing == EXEC + 1)
                masks, differing = differing[is_mask], differing[~is_mask]
                scalar[masks] |= other.scalar[masks]
                scalar[differing] += self._drawn(gaps[differing])
            scc = scc | other.scc
        waves.vector[rows] = vector
        np.copyto(waves.scalar, scalar)
        waves.scc = scc.copy()
        waves.exec_changed()
        return scattered & self._code.live[number]

    def _drawn(self, gaps: Array) -> Array:
        """The differences' common powers of two in the last draw."""
        bits = np.bitwise_or.reduce(gaps, 1).astype(np.int64)
        steps = np.zeros(gaps.shape, U32)
        steps[:, self._count * (DRAWS - 1) :] = (bits & -bits).astype(U32)[:, None]
        return steps

    def _block(self, number: int, scattered: int, *, is_last: bool) -> int:
        """Carries out what is needed of a block."""
        waves, machine, masks = self._waves, self._machine, self._masks
        whole_waves, arms = self._whole_waves, self._arms
        machine.accesses = []
        for planned in self._code.plan[number]:
            first_arm = arms.follow(planned.instruction, planned.effect) if arms is not None else 0
            if planned.is_plain and not (
                whole_waves and (planned.compares_order or masks.are_touched(planned.effect))
            ):
                is_uncovered = False
                try:
                    planned.step(waves)
                except NotCoveredError as error:
                    is_uncovered = True
                    self.uncovered[planned.site] = str(error)
                if scattered or is_uncovered:
                    scattered = planned.scattered_behind(scattered, everything=is_uncovered)
                continue
            if not (planned.is_read_on or is_last):
                self._pass_over(planned)
                scattered = planned.scattered_behind(scattered, everything=False)
                continue
            if planned.is_places:
                self._pass_over(planned)
            effect = planned.effect
            reads, writes = effect.reads, effect.writes
            rests = bool(reads & scattered)
            is_uncovered = is_held = False
            offsets = None
            selected = masks.selected(planned.site) if reads & masks.held else 0
            if is_last and planned.address is not None:
                machine.accesses = []
                self.uncovered.pop(planned.site, None)
                if planned.is_buffer:
                    parts = self._code.decoded[planned.site]
                    offsets = offsets_of(parts, waves, limited=whole_waves)
            self._memory.is_read = planned.is_read_on
            try:
                planned.step(waves)
            except NotCoveredError as error:
                rests = is_uncovered = True
                self.uncovered[planned.site] = str(error)
            if (
                whole_waves
                and planned.compares_order
                and masks.hold(writes, everything=rests or masks.has_unknown_bound(planned.site))
            ):
                scattered &= ~writes
                rests = False
                is_held = True
            if is_last and planned.address is not None:
                self._take_down(planned.site, bool(planned.address & scattered), offsets)
            scattered = planned.scattered_behind(scattered, everything=is_uncovered)
            if whole_waves:
                scattered |= selected
                masks.follow(planned.instruction, effect, is_held=is_held)
            if writes & EXEC_BITS:
                if rests or (whole_waves and not waves.active.any()):
                    scattered |= first_arm
                    is_single = planned.site in self._code.single_lanes
                    waves.scalar[EXEC : EXEC + self._target.lanes // 32] = 0 if is_single else ALL
                    if is_single:
                        waves.scalar[EXEC] = 1
                    waves.exec_changed()
                scattered &= ~EXEC_BITS
        return scattered

    def _pass_over(self, planned: PlannedStep) -> None:
        """Leaves out what a load would draw that is not carried out."""
        if planned.drawn:
            in_lds = planned.instruction.cls == "lds_read"
            memory = self._machine.drawn_lds if in_lds else self._memory
            memory.pass_over(planned.drawn * DRAWS * self._count * self._target.lanes)

    def _take_down(self, site: int, scattered: bool, offsets: Array | None) -> None:
        """Keeps the accesses that the probe has seen in the step of instruction `site`."""
        shape = (DRAWS, self._count, self._target.lanes)
        for part, (space, access, writes) in enumerate(self._machine.accesses):
            where, usable = access.where, access.usable
            if where.size != DRAWS * self._count * self._target.lanes:
                continue  # an access of some lanes at a time
            if usable is not None and offsets is not None:
                usable = lanes_in_buffer(usable, offsets, self._waves.active)
            self._places[site, part] = Places(
                site,
                part,
                space,
                access.size,
                writes,
                where.reshape(shape).copy(),
                None if usable is None or usable.all() else usable.reshape(shape).copy(),
                scattered,
            )
