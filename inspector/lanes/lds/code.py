"""Ways through the part of a kernel that its LDS addresses depend on, and what is known while it is
carried out.

Arguments, values in memory and workgroup numbers are not known; whatever is computed from them is
not either. A mask of lanes that comes of them hides which lanes do what, until the lanes meet
again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from ...emulator.instructions.lds import plain_places
from ...emulator.registry import NotCoveredError, Step
from ...emulator.steps import step_anywhere
from ...emulator.waves import ALL, Array
from ...isa.dataflow.code_registers import registers_of
from ...isa.dataflow.effects import RegisterEffect, bits_of
from ...isa.dataflow.execution_target import ExecutionTarget
from ...isa.dataflow.operands import EXEC, VECTOR_REGISTERS, Decoded, scalar_bits
from ...isa.mnemonics import FLOW_CLASSES
from ...isa.waitflow.counters import RAISING, GenerationCounters, decode_wait, events_of
from ...model import Block, Function, Loop, Machine
from ..slices import EXEC_BITS, LDS_CLASSES, SCC_BIT, lds_address_bits, lds_slice, with_scc
from ..spilled_registers import follow_spills, slot_dwords
from .accesses import WaveGroup

_ONE_LANE: Final = ("v_writelane_b32", "v_readlane_b32")
_BRINGING: Final = frozenset(
    ("global_load", "lds_read", "scratch_load", "atomic", "lds_atomic", "smem_load", "message")
)


class _PlainStep(NamedTuple):
    """An instruction that is carried out.

    Args:
        reads: all that its result rests on, EXEC included.
        brings: whether its result is a value that is not followed.
        is_special: whether it writes EXEC or a single lane, or consists of two operations.
    """

    step: Step
    parts: Decoded
    effect: RegisterEffect
    reads: int
    brings: bool
    is_special: bool


class LdsCode:
    """A kernel's instructions, with the part that its LDS addresses depend on.

    Attributes:
        chosen: indices of the instructions that are carried out; none where it takes too long to
            find them.
        address_bits: by index of an access, the registers that its LDS address lies in.
        plain: by index of a common read or write, its address and offsets (`plain_places`).
    """

    def __init__(self, function: Function, target: ExecutionTarget) -> None:
        """Chooses the instructions to carry out and builds their steps."""
        self.function = function
        self.target = target
        self._barriers_under: dict[int, bool] = {}
        self._plain_steps: dict[int, _PlainStep] = {}
        registers = registers_of(function, target)
        self.decoded, self._halves = registers.decoded, registers.halves
        self.effects = [
            with_scc(effect, parts)
            for effect, parts in zip(registers.effects, self.decoded, strict=True)
        ]
        dwords = slot_dwords(function, self.decoded)
        # The place of a slot is no matter: its registers alone decide what comes of them.
        alone = [
            replace(effect, reads=effect.reads & VECTOR_REGISTERS) if site in dwords else effect
            for site, effect in enumerate(self.effects)
        ]
        spills = follow_spills(function, self.decoded, alone, dwords)
        self._moves = spills.moves
        for site in self._moves:
            self.effects[site] = spills.effects[site]
        self.chosen = lds_slice(function, self.decoded, self.effects, registers.masked)
        labels = {label: block.start for block in function.blocks for label in block.labels}
        accesses = [site for site in self.chosen if function.instructions[site].cls in LDS_CLASSES]
        self.address_bits = {
            site: lds_address_bits(function.instructions[site], self.decoded[site])
            for site in accesses
        }
        forms = {site: plain_places(self.decoded[site]) for site in accesses}
        self.plain = {site: form for site, form in forms.items() if form is not None}
        self.steps: dict[int, Step] = {
            site: self._moves.get(site)
            or step_anywhere(function.instructions[site], self.decoded[site], target, labels)
            for site in self.chosen
            if site not in self.plain and function.instructions[site].cls not in FLOW_CLASSES
        }

    @property
    def touched(self) -> int:
        """The set of registers that the chosen instructions read or write."""
        registers = 0
        for site in self.chosen:
            registers |= self.effects[site].reads | self.effects[site].writes
        return registers

    def carry_out(self, group: WaveGroup, site: int) -> None:
        """Carries out one instruction for some waves, and notes what is known behind it."""
        plain = self._plain_steps.get(site) or self._plain_step(site)
        known = (
            not plain.brings
            and not plain.reads & group.unknown
            and (not group.masks or group.is_known(plain.reads, plain.parts))
        )
        if plain.is_special:
            self._carry_out_special(group, site, known=known)
            return
        try:
            plain.step(group.waves)
        except NotCoveredError:
            known = False
        if known:
            group.learn(plain.effect)
        else:
            group.forget(plain.effect.writes)

    def _plain_step(self, site: int) -> _PlainStep:
        """An instruction made ready to be carried out several times."""
        effect, parts = self.effects[site], self.decoded[site]
        plain = self._plain_steps[site] = _PlainStep(
            self.steps[site],
            parts,
            effect,
            effect.reads | (0 if parts.name.startswith("s_") else EXEC_BITS),
            site not in self._moves and self.function.instructions[site].cls in _BRINGING,
            parts.name in _ONE_LANE or site in self._halves or bool(effect.writes & EXEC_BITS),
        )
        return plain

    def _carry_out_special(self, group: WaveGroup, site: int, *, known: bool) -> None:
        """Carries out an instruction that does more than write what it computes."""
        effect, parts, waves = self.effects[site], self.decoded[site], group.waves
        if parts.name in _ONE_LANE and self._one_lane(group, site):
            return
        halves = self._halves.get(site)
        if halves is not None:  # both read before either writes
            each = [group.is_known(half.reads | EXEC_BITS, parts) for half in halves]
            try:
                self.steps[site](waves)
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
            self.steps[site](waves)
        except NotCoveredError:
            known = False
        if before is not None:
            self._mask_changed(group, site, before, known=known)
        elif known:
            group.learn(effect)
        else:
            group.forget(effect.writes)

    def _one_lane(self, group: WaveGroup, site: int) -> bool:
        """Carries out `v_writelane` or `v_readlane`, by which scalars are spilled."""
        effect, parts, waves = self.effects[site], self.decoded[site], group.waves
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
        self.steps[site](waves)
        if not writes:
            group.set_known(effect.writes, known=bool(lanes[:, lane].all()))
            return True
        lanes = lanes.copy()
        lanes[:, lane] = not bits_of(source) & group.unknown
        group.masks[row] = lanes
        group.unknown &= ~(1 << row)
        return True

    def _mask_changed(self, group: WaveGroup, site: int, before: Array, *, known: bool) -> None:
        """Updates the knowledge of EXEC after a write to it, and of the register that saved it."""
        waves, effect, parts = group.waves, self.effects[site], self.decoded[site]
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
        if was_known and self._holds_barrier(site):
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

    def _holds_barrier(self, site: int) -> bool:
        """Whether a barrier stands under the mask that an instruction makes: none may miss it."""
        known = self._barriers_under.get(site)
        if known is not None:
            return known
        blocks, code = self.function.blocks, self.function.instructions
        start = next(block for block in blocks if block.start <= site < block.stop)
        waiting, seen = [(start, site + 1)], {start.index}
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
        self._barriers_under[site] = holds
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


ROUNDS: Final = 3
"""Iterations of a loop whose end depends on what is unknown; of one with loops in it one less."""
KNOWN_ROUNDS: Final = 20
"""Iterations of a loop that ends by what is known."""


class Raised(NamedTuple):
    """A counter that an instruction raises."""

    counter: str
    in_order: bool
    limit: int
    """The counter's largest value."""


class PlannedInstruction(NamedTuple):
    """An instruction that matters for LDS, with what is passed over in front of it."""

    site: int
    """Its index; -1 at the end of a block."""
    skipped: int
    """Registers that the instructions passed over write."""
    raised: tuple[Raised, ...]
    waits: tuple[tuple[str, int], ...]
    """Counters that it waits for, and how many operations may stay outstanding."""


def plan_of(
    function: Function, gpu: Machine, chosen: Sequence[int], effects: Sequence[RegisterEffect]
) -> list[list[PlannedInstruction]]:
    """Returns each block's instructions that matter for LDS."""
    counters = GenerationCounters.of(gpu.counters)
    steps = frozenset(chosen)
    plan: list[list[PlannedInstruction]] = []
    for block in function.blocks:
        items: list[PlannedInstruction] = []
        skipped = 0
        for inst in function.instructions[block.start : block.stop]:
            raised: tuple[Raised, ...] = ()
            waits: tuple[tuple[str, int], ...] = ()
            if inst.cls in RAISING:
                raised = tuple(
                    Raised(
                        event.counter, bool(event.order), gpu.counters.get(event.counter, 1 << 30)
                    )
                    for event in events_of(inst, counters)
                )
            elif inst.cls == "wait":
                counts = decode_wait(inst.op.name, inst.operands, gpu.waitcnt_fields, gpu.counters)
                waits = tuple(counts.items())
            if inst.index not in steps:
                skipped |= effects[inst.index].writes
                if not (raised or waits or inst.cls in ("barrier", "barrier_signal")):
                    continue
            items.append(PlannedInstruction(inst.index, skipped, raised, waits))
            skipped = 0
        items.append(PlannedInstruction(-1, skipped, (), ()))
        plan.append(items)
    return plan


def reached_accesses(function: Function) -> list[frozenset[int]]:
    """Returns, by block, the accesses of LDS that control may come to from its start on."""
    own = [
        {i.index for i in function.instructions[b.start : b.stop] if i.cls in LDS_CLASSES}
        for b in function.blocks
    ]
    changed = True
    while changed:
        changed = False
        for block in reversed(function.blocks):
            accesses = own[block.index]
            size = len(accesses)
            for successor in block.successors:
                accesses |= own[successor]
            changed |= len(accesses) != size
    return [frozenset(accesses) for accesses in own]


class Loops:
    """Decides how often loops go round.

    `loops`: of the function; a loop's number is its place here.
    """

    def __init__(self, blocks: Sequence[Block], loops: Sequence[Loop]) -> None:
        inside = [frozenset(loop.blocks) for loop in loops]
        self._inside = inside
        self._headers = [loop.header for loop in loops]
        self._limits = [ROUNDS - any(other < loop for other in inside) for loop in inside]
        by_size = sorted(range(len(loops)), key=lambda number: len(inside[number]))
        self._around = [
            [number for number in by_size if block.index in inside[number]] for block in blocks
        ]

    def forced(
        self, rounds: Mapping[int, int], block: int, ways: tuple[int, int], *, known: bool
    ) -> int | None:
        """Which way a branch has to go where a loop has gone round too often, or not yet twice."""
        for number in self._around[block]:
            outside = [to for to in ways if to not in self._inside[number]]
            if len(outside) != 1:
                continue
            limit = KNOWN_ROUNDS if known else self._limits[number]
            if rounds.get(number, 0) + 1 >= limit:
                return outside[0]
            if not known and not rounds.get(number, 0):
                return ways[0] if outside[0] == ways[1] else ways[1]
        return None

    def enter(self, rounds: dict[int, int], block: int, to: int) -> bool:
        """Counts an edge; False where a loop without a way out has gone round too often."""
        for number in self._around[to]:
            if self._headers[number] != to:
                continue
            if block in self._inside[number]:
                rounds[number] = rounds.get(number, 0) + 1
                if rounds[number] > 2 * KNOWN_ROUNDS:
                    return False
            else:
                rounds[number] = 0
        return True
