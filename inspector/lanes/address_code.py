"""The part of a kernel that its lanes' addresses depend on, made ready to be swept over.

It rests on the code alone: sweeps with other arguments or assumptions share it.

In which order the blocks of a flow graph are carried out when all of its edges are followed.

A block comes after those that lead to it, so that one round is enough; the blocks of a loop that
stands in no other go round several times before what comes behind it.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

import numpy as np

from ..emulator.instructions.lds import plain_places
from ..emulator.instructions.spaces import in_lds, usable_lanes
from ..emulator.machine import LaneAccess
from ..emulator.registry import Step
from ..emulator.steps import step_anywhere
from ..emulator.waves import U32, Waves
from ..isa.dataflow.code_registers import registers_of
from ..isa.dataflow.effects import RegisterEffect
from ..isa.dataflow.execution_target import ExecutionTarget
from ..isa.dataflow.operands import VECTOR_REGISTERS, Decoded, rows_of
from ..isa.mnemonics import access_bits
from ..model import Block, Function, Instruction
from .assumed_masks import has_else_arms
from .lane_dependence import single_lane_sites
from .slices import ACCESSES, EXEC_BITS, address_bits, address_slice
from .spilled_registers import SpillDwords, follow_spills

ROUNDS: Final = 3
"""How often blocks of loops are carried out: a loop's changes have come round by the second time,
those of nested loops by the third."""
_BRINGING: Final = frozenset(("global_load", "lds_read", "scratch_load", "atomic", "lds_atomic"))
_PASSIVE: Final = frozenset(("global_load", "global_store", "lds_read", "lds_write"))
"""Classes of accesses of which it is known what they draw where they are not carried out."""
_COMPARES_ORDER: Final = re.compile(r"v_cmpx?_n?(lt|gt|le|ge)_")
_UNIFORM: Final = ("v_readfirstlane", "v_readlane")
"""Instructions whose result is the same for all lanes, whatever they read."""


class Half(NamedTuple):
    """One operation of an instruction, of which dual ones have two: its registers as sets of bits.

    `ended`: what it writes whole, in all lanes that come there.
    """

    reads: int
    writes: int
    ended: int


class PlannedStep(NamedTuple):
    """An instruction that is carried out.

    Args:
        address: of an access the registers that its addresses lie in; None for others.
        is_read_on: whether something that is carried out rests on its result; True for all but
            plain accesses.
        brings_values: whether its result in each lane is a value that is not followed.
        is_places: whether `step` does no more than say where the lanes lie.
        drawn: 32-bit words that a load would draw for each lane.
        is_plain: whether it neither accesses memory nor changes EXEC.
    """

    site: int
    instruction: Instruction
    step: Step
    effect: RegisterEffect
    halves: tuple[Half, ...]
    address: int | None
    is_read_on: bool
    is_buffer: bool
    compares_order: bool
    brings_values: bool
    is_uniform: bool
    is_places: bool
    drawn: int
    is_plain: bool

    def scattered_behind(self, scattered: int, *, everything: bool) -> int:
        """The registers scattered behind the instruction: results of what rests on such ones.

        The halves of a dual instruction are apart: a move beside a sum of values from memory stays
        known.

        `everything`: whether it was not carried out.
        """
        if not scattered and not everything and not self.brings_values:
            return 0
        behind = scattered
        for reads, writes, ended in self.halves:
            rests = everything or reads & scattered
            if self.brings_values or (rests and not self.is_uniform):
                behind |= writes
            else:
                behind &= ~ended
        return behind


class AddressCode:
    """A kernel's instructions, with those chosen that addresses depend on.

    Spill slots are followed as registers behind those of the kernel.

    Attributes:
        slots: the registers that stand for spill slots.
        single_lanes: indices of those behind which EXEC has at most one lane.
        chosen: indices of the instructions that are carried out; none where it takes too long to
            find them.
        live: by block, the registers that these read before they write them.
        rows: the vector registers that matter, ascending.
        rows_at_start, rows_behind: by block, those of them that are live there.
    """

    def __init__(self, function: Function, target: ExecutionTarget, spills: SpillDwords) -> None:
        """Chooses the instructions to carry out."""
        self.function = function
        self.target = target
        registers = registers_of(function, target)
        self.decoded, self.halves = registers.decoded, registers.halves
        followed = follow_spills(function, self.decoded, registers.effects, spills)
        self.effects, self._moves = followed.effects, followed.moves
        self.slots = followed.slots
        self._masked = registers.masked
        self.single_lanes = single_lane_sites(function, registers, target.lanes)
        self.order = sweep_order(function, ROUNDS)
        self.chosen, self.live, self._read_on = address_slice(
            function, self.decoded, self.effects, masked=self._masked
        )
        vector = 0
        for site in self.chosen:
            vector |= self.effects[site].reads | self.effects[site].writes
        vector &= VECTOR_REGISTERS
        self.rows = rows_of(vector)
        self.rows_at_start = [np.array(rows_of(live & vector), np.intp) for live in self.live]
        self.rows_behind = [
            np.array(
                rows_of(
                    functools.reduce(operator.or_, (self.live[to] for to in block.successors), 0)
                    & vector
                ),
                np.intp,
            )
            for block in function.blocks
        ]

    @functools.cached_property
    def has_else_arms(self) -> bool:
        """Whether lanes for which a condition does not hold have code of their own."""
        return has_else_arms(self.function.instructions)

    @functools.cached_property
    def plan(self) -> Sequence[Sequence[PlannedStep]]:
        """By block, what is carried out of it."""
        labels = {label: block.start for block in self.function.blocks for label in block.labels}
        chosen = frozenset(self.chosen)

        def of_block(block: Block) -> list[PlannedStep]:
            sites = (site for site in range(block.start, block.stop) if site in chosen)
            return [self._planned(site, labels) for site in sites]

        return [of_block(block) for block in self.function.blocks]

    def _planned(self, site: int, labels: dict[str, int]) -> PlannedStep:
        instruction, parts = self.function.instructions[site], self.decoded[site]
        effect = self.effects[site]
        is_access = instruction.cls in ACCESSES
        is_passive = instruction.cls in _PASSIVE and not parts.name.startswith("flat_")
        is_read_on = not (is_access and is_passive) or site in self._read_on
        kept = VECTOR_REGISTERS if site in self._masked else 0
        kind = _kind_of(instruction.op.name)
        address = address_bits(instruction, parts) if is_access else None
        brings = instruction.cls in _BRINGING and site not in self._moves
        # What nobody reads need not be fetched, nor what is stored be put together.
        places = None if is_read_on else _places_step(parts, site)
        return PlannedStep(
            site,
            instruction,
            places or self._step(site, instruction, parts, labels),
            effect,
            tuple(
                [
                    Half(half.reads, half.writes, half.low & half.high & ~kept)
                    for half in self.halves.get(site) or _words_of(parts, effect)
                ]
            ),
            address,
            is_read_on,
            parts.name.startswith("buffer_"),
            kind.compares_order,
            brings,
            kind.is_uniform,
            places is not None,
            _drawn_words(instruction),
            address is None and not brings and not effect.writes & EXEC_BITS,
        )

    def _step(
        self, site: int, instruction: Instruction, parts: Decoded, labels: dict[str, int]
    ) -> Step:
        move = self._moves.get(site)
        return move or step_anywhere(instruction, parts, self.target, labels)


def _places_step(parts: Decoded, site: int) -> Step | None:
    """A step that tells a `Probe` where a plain read or write of LDS lies, and does no more."""
    plain = plain_places(parts)
    if plain is None:
        return None
    row, offsets, size = plain
    steps = [U32(offset) for offset in offsets]
    stored = np.zeros(0, U32) if parts.name.startswith(("ds_write", "ds_store")) else None

    def step(waves: Waves) -> None:
        base, usable = waves.u32[row], usable_lanes(waves, None)
        for offset in steps:
            access = in_lds(LaneAccess(site, waves, base + offset, usable, size))
            waves.machine.before_lds(access, stored)

    return step


def _words_of(parts: Decoded, effect: RegisterEffect) -> Sequence[RegisterEffect]:
    """The effects on the words of a 64-bit sum: its low word does not rest on high ones."""
    if not parts.name.startswith(_WIDE_SUMS):
        return (effect,)
    pairs = [o for o in parts.operands if o.kind == "vgpr" and o.count == _PAIR]
    if not pairs or pairs[0] is not parts.operands[0]:
        return (effect,)
    low_word = 1 << pairs[0].first
    read_whole = 0  # as a low word or a factor
    only_high = 0
    for operand in parts.operands[1:]:
        if operand.kind == "vgpr":
            read_whole |= 1 << operand.first
            only_high |= 2 << operand.first if operand.count == _PAIR else 0
    only_high &= ~read_whole
    return (
        RegisterEffect(
            effect.reads & ~only_high, low_word, effect.low & low_word, effect.high & low_word
        ),
        RegisterEffect(
            effect.reads, effect.writes & ~low_word, effect.low & ~low_word, effect.high & ~low_word
        ),
    )


_WIDE_SUMS: Final = (
    "v_mad_u64_u32",
    "v_mad_i64_i32",
    "v_mad_co_u64_u32",
    "v_mad_co_i64_i32",
    "v_lshl_add_u64",
)
_PAIR: Final = 2


class _Kind(NamedTuple):
    """What `PlannedStep` has of an instruction by its mnemonic."""

    compares_order: bool
    is_uniform: bool


@functools.lru_cache(maxsize=1 << 10)
def _kind_of(name: str) -> _Kind:
    return _Kind(_COMPARES_ORDER.match(name) is not None, name.startswith(_UNIFORM))


def _drawn_words(instruction: Instruction) -> int:
    """The 32-bit words that a load draws for each lane; narrower values take one each."""
    if instruction.cls not in ("lds_read", "global_load"):
        return 0
    bits = access_bits(instruction.op, instruction.operands) or 32
    parts = 2 if "pair" in instruction.op.traits else 1
    return parts * max(1, bits // 32 // parts)


def sweep_order(function: Function, rounds: int) -> list[Block]:
    """The blocks in the order in which they are carried out; those that nothing leads to included.

    `rounds`: how often the blocks of loops are carried out; the result has them that often.
    """
    groups: dict[int, list[int]] = {}
    """Number of its first block -> blocks of an outermost loop, or one alone, as they stand."""
    group_of: dict[int, int] = {}
    for loop in function.loops:
        if loop.parent is None:
            members = sorted(loop.blocks)
            groups[members[0]] = members
            group_of.update(dict.fromkeys(members, members[0]))
    loops = frozenset(groups)
    for block in function.blocks:
        if group_of.setdefault(block.index, block.index) == block.index:
            groups.setdefault(block.index, [block.index])
    blocks = function.blocks
    return [
        blocks[index]
        for group in _topological(function, groups, group_of)
        for _ in range(rounds if group in loops else 1)
        for index in groups[group]
    ]


def _topological(
    function: Function, groups: dict[int, list[int]], group_of: dict[int, int]
) -> Iterator[int]:
    """The groups, each after those that lead to it; of those that are free the one that stands
    first.
    """
    behind: dict[int, set[int]] = {group: set() for group in groups}
    for block in function.blocks:
        behind[group_of[block.index]].update(group_of[to] for to in block.successors)
    waits_for = dict.fromkeys(groups, 0)
    for group, following in behind.items():
        following.discard(group)
        for to in following:
            waits_for[to] += 1
    free: list[int] = []
    for group, count in waits_for.items():
        if count == 0:
            heappush(free, group)
    left = dict.fromkeys(sorted(groups))
    while left:
        # A cycle that was not recognised as a loop is entered where it stands first.
        group = heappop(free) if free else next(iter(left))
        if group not in left:
            continue
        del left[group]
        yield group
        for to in behind[group]:
            waits_for[to] -= 1
            if waits_for[to] == 0:
                heappush(free, to)
