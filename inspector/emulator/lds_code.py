"""The part of a kernel that its LDS addresses depend on, and what is known while it is carried out.

Arguments, values in memory and workgroup numbers are not; whatever is computed from them is not
either. A mask of lanes that comes of them hides which lanes do what, until the lanes meet again.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..model import Function
from .access import NotCoveredError
from .effects import bits_of, effect_of, half_effect
from .instructions.lds import plain_places
from .lds_groups import WaveGroup
from .lds_slices import (
    EXEC_BITS,
    LDS_CLASSES,
    SCC_BIT,
    lds_address_bits,
    lds_slice,
    with_scc,
)
from .operands import EXEC, Decoded, halves_of
from .outstanding import scalar_bits
from .program import decoded_instructions, step_anywhere
from .registry import ExecutionTarget, Step
from .stack_slots import spills_of, with_rows
from .waves import ALL, Array

_ONE_LANE: Final = ("v_writelane_b32", "v_readlane_b32")
_BRINGING: Final = frozenset(
    ("global_load", "lds_read", "scratch_load", "atomic", "lds_atomic", "smem_load", "message")
)


class Code:
    """A kernel for this purpose.

    Attributes:
        function: all of it.
        target: what executes it.
        decoded: by index, the instruction taken apart.
        effects: by index, the registers that it reads and writes.
        chosen: indices of the instructions that are carried out; none where it takes too long to
            find them.
        steps: by index what these do.
        address_bits: by index of an access, the registers that its LDS address lies in.
        plain: by index of a common read or write, what its places are made of (`plain_places`).
    """

    def __init__(self, function: Function, target: ExecutionTarget) -> None:
        self.function = function
        self.target = target
        self._barriers_under: dict[int, bool] = {}
        self.decoded = decoded_instructions(function, self.target)
        self.effects = [
            with_scc(effect_of(inst, parts, self.target), parts)
            for inst, parts in zip(function.instructions, self.decoded, strict=True)
        ]
        self._halves = {
            at: tuple(
                half_effect(function.instructions[at], half, self.target)
                for half in halves_of(parts, self.target.accum_offset)
            )
            for at, parts in enumerate(self.decoded)
            if " :: " in parts.text
        }
        registers_alone = list(self.effects)
        spills = spills_of(function, self.decoded)
        for at, spill in spills.items():
            self.effects[at] = spill.effect
        self.chosen = lds_slice(function, self.decoded, self.effects)
        self._spills = with_rows(spills, frozenset(self.chosen))
        for at in spills:
            placed = self._spills.get(at)
            self.effects[at] = registers_alone[at] if placed is None else placed.effect
        labels = {label: block.start for block in function.blocks for label in block.labels}
        accesses = [at for at in self.chosen if function.instructions[at].cls in LDS_CLASSES]
        self.address_bits = {
            at: lds_address_bits(function.instructions[at], self.decoded[at]) for at in accesses
        }
        places = {at: plain_places(self.decoded[at]) for at in accesses}
        self.plain = {at: place for at, place in places.items() if place is not None}
        self.steps: dict[int, Step] = {
            at: self._spills[at].step
            if at in self._spills
            else step_anywhere(function.instructions[at], self.decoded[at], target, labels)
            for at in self.chosen
            if at not in self.plain
        }

    @property
    def touched(self) -> int:
        """The set of registers that the chosen instructions read or write."""
        registers = 0
        for at in self.chosen:
            registers |= self.effects[at].reads | self.effects[at].writes
        return registers

    def carry_out(self, group: WaveGroup, at: int) -> None:
        """One instruction for some waves, and what is known behind it."""
        effect, parts, waves = self.effects[at], self.decoded[at], group.waves
        if parts.name in _ONE_LANE and self._one_lane(group, at):
            return
        vector = not parts.name.startswith("s_")
        reads = effect.reads | (EXEC_BITS if vector else 0)
        known = group.is_known(reads, parts)
        if at not in self._spills:
            known = known and self.function.instructions[at].cls not in _BRINGING
        halves = self._halves.get(at)
        if halves is not None:  # both read before either writes
            each = [group.is_known(half.reads | EXEC_BITS, parts) for half in halves]
            try:
                self.steps[at](waves)
            except NotCoveredError:
                each = [False, False]
            for half, half_known in zip(halves, each, strict=True):
                if half_known:
                    group.learn(half)
                else:
                    group.forget(half.writes)
            return
        before = waves.scalar[EXEC : EXEC + 2].copy() if effect.writes & EXEC_BITS else None
        try:
            self.steps[at](waves)
        except NotCoveredError:
            known = False
        if before is not None:
            self._mask_changed(group, at, before, known=known)
        elif known:
            group.learn(effect)
        else:
            group.forget(effect.writes)

    def _one_lane(self, group: WaveGroup, at: int) -> bool:
        """`v_writelane` and `v_readlane` of a lane that is known: scalars are spilled so."""
        effect, parts, waves = self.effects[at], self.decoded[at], group.waves
        result, source, number = parts.operands[:3]
        if number.integer is None:
            return False
        lane = number.integer % self.target.lanes
        writes = parts.name == "v_writelane_b32"
        row = result.first if writes else source.first
        lanes = group.masks.get(row)
        if lanes is None:
            known = not group.unknown >> row & 1
            lanes = np.full((waves.count, self.target.lanes), known)
        self.steps[at](waves)
        if not writes:
            group.set_known(effect.writes, known=bool(lanes[:, lane].all()))
            return True
        lanes = lanes.copy()
        lanes[:, lane] = not bits_of(source) & group.unknown
        group.masks[row] = lanes
        group.unknown &= ~(1 << row)
        return True

    def _mask_changed(self, group: WaveGroup, at: int, before: Array, *, known: bool) -> None:
        """EXEC was written: what is known of it, and of where it was saved."""
        waves, effect, parts = group.waves, self.effects[at], self.decoded[at]
        others = effect.writes & ~EXEC_BITS & ~SCC_BIT
        was_known = not group.unknown & EXEC_BITS
        if "saveexec" in parts.name:
            group.set_known(others, known=was_known)
        elif others:
            group.set_known(others, known=known)
        group.set_known(effect.writes & SCC_BIT, known=known)
        if known:
            group.unknown &= ~EXEC_BITS
            return
        words = slice(EXEC, EXEC + self.target.lanes // 32)
        saved = self._restored(group, parts)
        if was_known and self._holds_barrier(at):
            waves.scalar[words] = before[: self.target.lanes // 32]
        elif saved is not None:
            # Lanes that were sent away come back: the mask is the one from before.
            waves.scalar[words] = waves.scalar[saved : saved + self.target.lanes // 32]
            group.unknown &= ~EXEC_BITS
        else:
            waves.scalar[words] = before[: self.target.lanes // 32]
            if not waves.scalar[words].any():
                waves.scalar[words] = ALL
            group.unknown |= EXEC_BITS
        waves.exec_changed()

    def _holds_barrier(self, at: int) -> bool:
        """Whether a barrier stands under the mask that an instruction makes: none may miss it.

        It is looked for up to where EXEC is put together again.
        """
        known = self._barriers_under.get(at)
        if known is not None:
            return known
        blocks, code = self.function.blocks, self.function.instructions
        start = next(block for block in blocks if block.start <= at < block.stop)
        waiting, seen = [(start, at + 1)], {start.index}
        holds = False
        while waiting and not holds:
            block, first = waiting.pop()
            restored = False
            for index in range(first, block.stop):
                parts = self.decoded[index]
                if code[index].cls == "barrier":
                    holds = True
                elif parts.operands and parts.operands[0].first == EXEC:
                    restored = restored or parts.name.startswith(("s_or_b", "s_mov_b"))
                if holds or restored:
                    break
            following = () if restored else block.successors
            if self.decoded[block.stop - 1].name == "s_cbranch_execz":  # nobody is left to go
                following = tuple(to for to in following if to == block.index + 1)
            for to in following:
                if to not in seen:
                    seen.add(to)
                    waiting.append((blocks[to], blocks[to].start))
        self._barriers_under[at] = holds
        return holds

    def _restored(self, group: WaveGroup, parts: Decoded) -> int | None:
        """The register of a known mask that an unknown EXEC is put together with again."""
        if not parts.name.startswith("s_or_b") or len(parts.operands) != 3:
            return None
        if parts.operands[0].first != EXEC:
            return None
        sources = [o for o in parts.operands[1:] if o.kind == "sgpr" and o.first != EXEC]
        if len(sources) != 1:
            return None
        bits = scalar_bits(sources[0].first, self.target.lanes // 32)
        return None if bits & group.unknown else sources[0].first
