"""One way through a kernel, to know when each wave touches which bytes of LDS.

The instructions that LDS addresses depend on are carried out for the waves of a workgroup, by the
emulator's own steps. What is not known before the launch (arguments, values in memory, workgroup
numbers) is drawn, and whatever comes of it is *unknown*: an access whose address or mask is, is
left undecided. Loops go round a few times: one iteration meets the next.

Waves part where they branch by what is known (their number, say), so that code which takes turns at
staggered barriers is followed as it is. A branch on what is unknown is taken by all waves alike.

An access lasts from its issue to the wait that covers it. Barriers are counted for each wave: it is
in the span of all barriers from the number that the wave had waited for at the issue to the number
that it had signalled at the end. Two accesses of different waves are in order where one's span
begins behind the other's end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from ..isa.barriers import has_special_barriers
from ..isa.mnemonics import FLOW_CLASSES, Flow, flow_of
from ..isa.waitflow.counters import RAISING, Counters, decode_wait, events_of
from ..model import Block, Function, Instruction, Loop, Machine
from .access import NotCoveredError
from .crosslane import DPP_CONTROLS
from .effects import Effect, bits_of, effect_of, half_effect
from .lds_slices import (
    EXEC_BITS,
    LDS_CLASSES,
    SCC_BIT,
    lds_address_bits,
    lds_slice,
    with_scc,
)
from .operands import EXEC, TTMP, VCC, Decoded, halves_of
from .outstanding import SCALAR_BIT, scalar_bits
from .program import CONDITIONS, decoded_instructions, step_of
from .registry import Context, Step, Target
from .stack_slots import spills_of, with_rows
from .start import initial_waves, target_of
from .unknowns import Arguments, DrawnMemory, Probe
from .waves import ALL, Array, Waves

ROUNDS: Final = 3
"""Iterations of a loop whose end depends on what is unknown; of one with loops in it one less."""
KNOWN_ROUNDS: Final = 20
"""Iterations of a loop that ends by what is known."""
MOST_STEPS: Final = 30_000
"""Instructions that are carried out, at most."""
MOST_WAYS: Final = 8
"""Ways through the code that are followed, at most."""
MOST_LANES: Final = 2048
_VECTOR: Final = (1 << SCALAR_BIT) - 1
_WAVE_NUMBER: Final = scalar_bits(TTMP + 8, 1)
"""gfx12 passes the wave's number in its workgroup there."""

Kind = Literal["read", "write", "atomic", "copy"]
_KINDS: Final[Mapping[str, Kind]] = {
    "lds_read": "read",
    "lds_write": "write",
    "lds_atomic": "atomic",
    "lds_direct": "copy",
    "lds_direct_store": "read",
}
_ONE_LANE: Final = ("v_writelane_b32", "v_readlane_b32")
_BRINGING: Final = frozenset(
    ("global_load", "lds_read", "scratch_load", "atomic", "lds_atomic", "smem_load", "message")
)


class Part(Struct, frozen=True):
    """Bytes that an access touches: some have two places (`ds_read2`).

    Args:
        where: LDS bytes, int64 [wave, lane].
        active: lanes that take part, bool of the same shape; None for all.
        size: bytes of each lane.
    """

    where: Array
    active: Array | None
    size: int


class Access(Struct, eq=False):
    """One execution of an instruction by some waves.

    Args:
        site: index of the instruction.
        number: it counts the accesses in the order of issue.
        kind: `copy` for one from memory into LDS.
        waves: their numbers.
        parts: empty where its bytes are not known.
        first: by wave, the barriers that it had waited for at the issue.
        last: by wave, those that it had signalled at the end; missing where no wait has come.
    """

    site: int
    number: int
    kind: Kind
    waves: tuple[int, ...]
    parts: tuple[Part, ...]
    first: dict[int, int]
    last: dict[int, int] = field(default_factory=dict)


class Trace(Struct):
    """What was met on one way through the code.

    Args:
        accesses: in the order of issue.
        overtaken: accesses of a wave, each with the copies into LDS that the same wave has on the
            way meanwhile.
        barriers: how many each wave has passed.
        barrier_at: by wave, the instruction of each barrier.
    """

    accesses: list[Access] = field(default_factory=list)
    overtaken: list[tuple[Access, tuple[Access, ...]]] = field(default_factory=list)
    barriers: list[int] = field(default_factory=list)
    barrier_at: list[list[int]] = field(default_factory=list)


class Traces(Struct):
    """Several ways through a kernel.

    Args:
        ways: each of them.
        executed: indices of LDS accesses that were reached.
        undecided: those of them whose bytes were not known each time.
        why: why there is no way; empty where there is.
    """

    ways: list[Trace] = field(default_factory=list)
    executed: set[int] = field(default_factory=set)
    undecided: set[int] = field(default_factory=set)
    why: str = ""


def traces_of(
    function: Function,
    gpu: Machine,
    waves: int,
    arguments: Arguments | None = None,
    *,
    in_a_row: bool = False,
) -> Traces:
    """Follows a kernel.

    Args:
        function: the kernel.
        gpu: what executes it.
        waves: of its workgroup.
        arguments: what is known of its arguments: they decide how often loops go round.
        in_a_row: whether the work-items of a workgroup are numbered in x alone, as Triton's are.
    """
    why = _why_not(function, gpu, waves, in_a_row=in_a_row)
    if why:
        return Traces(why=why)
    walk = _Walk(function, gpu, waves, arguments or Arguments())
    with np.errstate(all="ignore"):
        return walk.run()


def _why_not(function: Function, gpu: Machine, waves: int, *, in_a_row: bool) -> str:
    start = function.resources.wave_start
    if start is None:
        return "the code does not say how waves begin"
    if not function.all_read:
        return "not all of the code was read"
    if start.work_item_dims and not in_a_row:
        return "work-items have two or three numbers, and the workgroup's shape is not known"
    if waves * target_of(function, gpu.arch).lanes > MOST_LANES:
        return "the workgroup is too large"
    if has_special_barriers(function):
        return "barriers have names"
    for inst in function.instructions:
        if inst.cls in FLOW_CLASSES and flow_of(inst.op, inst.operands) in _ELSEWHERE:
            return "the kernel calls functions"
    return ""


_ELSEWHERE: Final = (Flow.CALL, Flow.INDIRECT)


class _Pending(Struct, eq=False):
    """An operation that a counter counts, with the accesses of LDS that it comes to."""

    site: int
    in_order: bool
    accesses: tuple[Access, ...] = ()


class _Group(Struct, eq=False):
    """Waves that stand at the same block.

    Args:
        block: its index.
        waves: their registers.
        unknown: set of registers whose values are.
        masks: vector row -> lanes, bool [wave, lane], in which it is known; in others it is not.
        queues: by counter, oldest first.
        rounds: by number of the loop, how often it has gone round.
    """

    block: int
    waves: Waves
    unknown: int
    masks: dict[int, Array] = field(default_factory=dict)
    queues: dict[str, list[_Pending]] = field(default_factory=dict)
    rounds: dict[int, int] = field(default_factory=dict)


class _State(Struct, eq=False):
    """Where all waves stand at some time, and what they met on the way there."""

    groups: list[_Group]
    waits: list[int]
    signals: list[int]
    trace: Trace


class _Walk:
    def __init__(self, function: Function, gpu: Machine, waves: int, arguments: Arguments) -> None:
        self._function = function
        self._target = target_of(function, gpu.arch)
        self._decoded = decoded_instructions(function, self._target)
        self._effects = [
            with_scc(effect_of(inst, parts, self._target), parts)
            for inst, parts in zip(function.instructions, self._decoded, strict=True)
        ]
        self._halves = {
            at: tuple(
                half_effect(function.instructions[at], half, self._target)
                for half in halves_of(parts, self._target.accum_offset)
            )
            for at, parts in enumerate(self._decoded)
            if " :: " in parts.text
        }
        registers_alone = list(self._effects)
        spills = spills_of(function, self._decoded)
        for at, spill in spills.items():
            self._effects[at] = spill.effect
        self._chosen = lds_slice(function, self._decoded, self._effects)
        self._spills = with_rows(spills, frozenset(self._chosen))
        for at in spills:
            placed = self._spills.get(at)
            self._effects[at] = registers_alone[at] if placed is None else placed.effect
        self._machine = Probe(DrawnMemory(arguments))
        self._plan = _plan(function, gpu, self._chosen, self._effects)
        self._loops = _Loops(function.blocks, function.loops)
        self._traces = Traces()
        self._later: list[tuple[_State, int]] = []
        """States in which the other way was not taken, and the block where it leads."""
        self._reach = _reached_accesses(function)
        self._count = 0
        self._barriers_under: dict[int, bool] = {}
        if self._chosen:
            self._set(
                _State(
                    [self._begin(function, waves)],
                    [0] * waves,
                    [0] * waves,
                    Trace(barrier_at=[[] for _ in range(waves)]),
                )
            )

    def _begin(self, function: Function, waves: int) -> _Group:
        labels = {label: block.start for block in function.blocks for label in block.labels}
        self._steps: dict[int, Step] = {
            at: self._spills[at].step
            if at in self._spills
            else step_of(
                self._decoded[at],
                Context(
                    self._target,
                    at,
                    private=function.instructions[at].cls.startswith("scratch"),
                    labels=labels,
                ),
            )
            for at in self._chosen
        }
        rows = 0
        for at in self._chosen:
            rows |= self._effects[at].reads | self._effects[at].writes
        start = function.resources.wave_start
        assert start is not None
        state = initial_waves(
            start, self._target, max(4, (rows & _VECTOR).bit_length()),
            (waves * self._target.lanes, 1, 1), (9, 9, 9), np.array((0,)), self._machine,
        )  # fmt: skip
        known = EXEC_BITS | _WAVE_NUMBER | (1 if self._target.packs_work_items else 7)
        return _Group(0, state, ((1 << (SCALAR_BIT + 256)) - 1) & ~known)

    def _set(self, state: _State) -> None:
        """Goes on from a state."""
        self._groups, self._waits, self._signals = state.groups, state.waits, state.signals
        self._trace = state.trace
        self._trace.barriers = self._signals

    def run(self) -> Traces:
        """Until all waves have come to an end, on each way that leads to accesses."""
        traces = self._traces
        if not self._chosen:
            traces.why = "it takes too long to find what addresses depend on"
            return traces
        while True:
            while self._groups and self._count <= MOST_STEPS:
                group = self._next()
                self._block(group)
                self._leave(group)
            if self._groups and not traces.ways:
                traces.why = "the kernel is too large"
                return traces
            if self._groups:
                return traces
            if len(set(self._signals)) > 1 or self._signals != self._waits:
                traces.why = "waves do not come by the same number of barriers"
                return traces
            traces.ways.append(self._trace)
            while self._later and not self._reach[self._later[-1][1]] - traces.executed:
                self._later.pop()
            if not self._later or len(traces.ways) >= MOST_WAYS:
                return traces
            state, to = self._later.pop()
            self._set(state)
            (group,) = self._groups
            self._groups = []
            self._go(group, to)

    def _remember(self, group: _Group, to: int) -> None:
        """Keeps the state of waves that are all at one place, to go the other way later."""
        if self._groups or not self._reach[to] - self._traces.executed:
            return
        copies: dict[int, Access] = {}
        queues = {}
        for counter, queue in group.queues.items():
            entries = []
            for entry in queue:
                for access in entry.accesses:
                    copies.setdefault(access.number, replace(access, last=dict(access.last)))
                accesses = tuple(copies[access.number] for access in entry.accesses)
                entries.append(_Pending(entry.site, entry.in_order, accesses))
            queues[counter] = entries
        there = _Group(
            group.block,
            group.waves.select(np.arange(group.waves.count)),
            group.unknown,
            dict(group.masks),
            queues,
            dict(group.rounds),
        )
        met = Trace(
            [copies.get(access.number, access) for access in self._trace.accesses],
            list(self._trace.overtaken),
            [],
            [list(barriers) for barriers in self._trace.barrier_at],
        )
        self._later.append((_State([there], list(self._waits), list(self._signals), met), to))

    def _next(self) -> _Group:
        """The waves that are furthest behind, those that meet there put together."""
        groups = self._groups
        first = min(groups, key=lambda group: group.block)
        meeting = [g for g in groups if g.block == first.block and g.rounds == first.rounds]
        self._groups = [group for group in groups if group not in meeting]
        return self._join(meeting) if len(meeting) > 1 else first

    def _join(self, groups: Sequence[_Group]) -> _Group:
        joined = groups[0]
        shapes = [
            {counter: [entry.site for entry in queue] for counter, queue in g.queues.items()}
            for g in groups
        ]
        if any(shape != shapes[0] for shape in shapes):
            # What the waves do not share is let through: nothing is told that does not happen.
            for group in groups:
                for queue in group.queues.values():
                    self._end(group, queue)
                group.queues = {}
        else:
            for counter, queue in joined.queues.items():
                for at, entry in enumerate(queue):
                    others = [g.queues[counter][at].accesses for g in groups[1:]]
                    accesses = sum(others, entry.accesses)
                    queue[at] = _Pending(entry.site, entry.in_order, accesses)
        for group in groups:
            joined.unknown |= group.unknown | _rows(group.masks)
        joined.masks = {}
        joined.waves = Waves.join([group.waves for group in groups])
        return joined

    # ------------------------------------------------------------------ one block

    def _block(self, group: _Group) -> None:
        for at, skipped, raised, waits in self._plan[group.block]:
            if skipped:
                group.unknown |= skipped
                for row in [row for row in group.masks if skipped >> row & 1]:
                    del group.masks[row]
            if at < 0:
                continue
            inst = self._function.instructions[at]
            accesses: tuple[Access, ...] = ()
            if at in self._steps:
                self._count += 1
                if inst.cls in LDS_CLASSES:
                    accesses = self._access(group, at, inst)
                elif inst.cls not in FLOW_CLASSES:
                    self._carry_out(group, at)
            for counter, in_order, most in raised:
                self._wait(group, counter, most - 1)
                queue = group.queues.setdefault(counter, [])
                queue.append(_Pending(at, in_order, accesses))
            if accesses and not raised:
                self._end(group, [_Pending(at, True, accesses)])
            for counter, newest in waits:
                self._wait(group, counter, newest)
            if inst.cls in ("barrier", "barrier_signal"):
                self._barrier(group, inst)

    def _barrier(self, group: _Group, inst: Instruction) -> None:
        for wave in group.waves.wave.tolist():
            if inst.op.name != "s_barrier_wait":
                self._signals[wave] += 1
                self._trace.barrier_at[wave].append(inst.index)
            if inst.cls == "barrier":
                self._waits[wave] += 1

    def _wait(self, group: _Group, counter: str, newest: int) -> None:
        queue = group.queues.get(counter)
        if not queue or len(queue) <= newest:
            return
        leaving, staying = queue[: len(queue) - newest], queue[len(queue) - newest :]
        if newest:
            staying = [entry for entry in leaving if not entry.in_order] + staying
            leaving = [entry for entry in leaving if entry.in_order]
        group.queues[counter] = staying
        self._end(group, leaving)

    def _end(self, group: _Group, entries: Sequence[_Pending]) -> None:
        waves = group.waves.wave.tolist()
        for entry in entries:
            for access in entry.accesses:
                for wave in waves:
                    if wave in access.first:
                        access.last[wave] = self._signals[wave]

    def _access(self, group: _Group, at: int, inst: Instruction) -> tuple[Access, ...]:
        self._traces.executed.add(at)
        parts = self._decoded[at]
        known = self._is_known(group, lds_address_bits(inst, parts) | EXEC_BITS, parts)
        self._machine.seen = []
        try:
            self._steps[at](group.waves)
        except NotCoveredError:
            known = False
        seen = [item for item in self._machine.seen if item[0] == "lds"]
        self._forget(group, self._effects[at].writes)
        if not known or not seen:
            self._traces.undecided.add(at)
        places = tuple(
            Part(where.copy(), None if usable is None else usable.copy(), size)
            for _, where, usable, size, _ in (seen if known else ())
        )
        numbers = tuple(group.waves.wave.tolist())
        access = Access(
            at,
            len(self._trace.accesses),
            _KINDS[inst.cls],
            numbers,
            places,
            {wave: self._waits[wave] for wave in numbers},
        )
        if access.kind != "copy" and places:
            on_the_way = tuple(
                copy
                for queue in group.queues.values()
                for entry in queue
                for copy in entry.accesses
                if copy.kind == "copy" and copy.parts
            )
            if on_the_way:
                self._trace.overtaken.append((access, on_the_way))
        self._trace.accesses.append(access)
        return (access,)

    # ------------------------------------------------------------------ what is known

    def _carry_out(self, group: _Group, at: int) -> None:
        effect, parts, waves = self._effects[at], self._decoded[at], group.waves
        if parts.name in _ONE_LANE and self._one_lane(group, at):
            return
        vector = not parts.name.startswith("s_")
        reads = effect.reads | (EXEC_BITS if vector else 0)
        known = self._is_known(group, reads, parts)
        if at not in self._spills:
            known = known and self._function.instructions[at].cls not in _BRINGING
        halves = self._halves.get(at)
        if halves is not None:  # both read before either writes
            each = [self._is_known(group, half.reads | EXEC_BITS, parts) for half in halves]
            try:
                self._steps[at](waves)
            except NotCoveredError:
                each = [False, False]
            for half, half_known in zip(halves, each, strict=True):
                if half_known:
                    self._learn(group, half)
                else:
                    self._forget(group, half.writes)
            return
        before = waves.scalar[EXEC : EXEC + 2].copy() if effect.writes & EXEC_BITS else None
        try:
            self._steps[at](waves)
        except NotCoveredError:
            known = False
        if before is not None:
            self._mask_changed(group, at, before, known=known)
        elif known:
            self._learn(group, effect)
        else:
            self._forget(group, effect.writes)

    def _one_lane(self, group: _Group, at: int) -> bool:
        """`v_writelane` and `v_readlane` of a lane that is known: scalars are spilled so."""
        effect, parts, waves = self._effects[at], self._decoded[at], group.waves
        result, source, number = parts.operands[:3]
        if number.integer is None:
            return False
        lane = number.integer % self._target.lanes
        writes = parts.name == "v_writelane_b32"
        row = result.first if writes else source.first
        lanes = group.masks.get(row)
        if lanes is None:
            known = not group.unknown >> row & 1
            lanes = np.full((waves.count, self._target.lanes), known)
        self._steps[at](waves)
        if not writes:
            if lanes[:, lane].all():
                group.unknown &= ~effect.writes
            else:
                group.unknown |= effect.writes
            return True
        lanes = lanes.copy()
        lanes[:, lane] = not bits_of(source) & group.unknown
        group.masks[row] = lanes
        group.unknown &= ~(1 << row)
        return True

    def _is_known(self, group: _Group, reads: int, parts: Decoded) -> bool:
        if reads & group.unknown:
            return False
        if not group.masks:
            return True
        for row, lanes in group.masks.items():
            if reads >> row & 1:
                if (~lanes if _is_across(parts) else group.waves.active & ~lanes).any():
                    return False
        return True

    def _learn(self, group: _Group, effect: Effect) -> None:
        """What an instruction writes from what is known, in the lanes that are active."""
        whole = effect.low & effect.high
        if group.waves.full:
            group.unknown &= ~whole
            for row in [row for row in group.masks if whole >> row & 1]:
                del group.masks[row]
            return
        group.unknown &= ~(whole & ~_VECTOR)
        rows = whole & (group.unknown | _rows(group.masks)) & _VECTOR
        while rows:
            row = (rows & -rows).bit_length() - 1
            rows &= rows - 1
            active, earlier = group.waves.active, group.masks.get(row)
            group.masks[row] = active.copy() if earlier is None else earlier | active
            group.unknown &= ~(1 << row)

    def _forget(self, group: _Group, writes: int) -> None:
        group.unknown |= writes
        for row in [row for row in group.masks if writes >> row & 1]:
            del group.masks[row]

    def _mask_changed(self, group: _Group, at: int, before: Array, *, known: bool) -> None:
        """EXEC was written: what is known of it, and of where it was saved."""
        waves, effect, parts = group.waves, self._effects[at], self._decoded[at]
        others = effect.writes & ~EXEC_BITS & ~SCC_BIT
        was_known = not group.unknown & EXEC_BITS
        if "saveexec" in parts.name:
            group.unknown = group.unknown & ~others | (0 if was_known else others)
        elif others:
            group.unknown = group.unknown & ~others | (0 if known else others)
        group.unknown = group.unknown & ~SCC_BIT | (0 if known else effect.writes & SCC_BIT)
        if known:
            group.unknown &= ~EXEC_BITS
            return
        words = slice(EXEC, EXEC + self._target.lanes // 32)
        saved = self._restored(group, parts)
        if was_known and self._holds_barrier(at):
            waves.scalar[words] = before[: self._target.lanes // 32]
        elif saved is not None:
            # Lanes that were sent away come back: the mask is the one from before.
            waves.scalar[words] = waves.scalar[saved : saved + self._target.lanes // 32]
            group.unknown &= ~EXEC_BITS
        else:
            waves.scalar[words] = before[: self._target.lanes // 32]
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
        blocks, code = self._function.blocks, self._function.instructions
        start = next(block for block in blocks if block.start <= at < block.stop)
        waiting, seen = [(start, at + 1)], {start.index}
        holds = False
        while waiting and not holds:
            block, first = waiting.pop()
            restored = False
            for index in range(first, block.stop):
                parts = self._decoded[index]
                if code[index].cls == "barrier":
                    holds = True
                elif parts.operands and parts.operands[0].first == EXEC:
                    restored = restored or parts.name.startswith(("s_or_b", "s_mov_b"))
                if holds or restored:
                    break
            following = () if restored else block.successors
            if self._decoded[block.stop - 1].name == "s_cbranch_execz":  # nobody is left to go
                following = tuple(to for to in following if to == block.index + 1)
            for to in following:
                if to not in seen:
                    seen.add(to)
                    waiting.append((blocks[to], blocks[to].start))
        self._barriers_under[at] = holds
        return holds

    def _restored(self, group: _Group, parts: Decoded) -> int | None:
        """The register of a known mask that an unknown EXEC is put together with again."""
        if not parts.name.startswith("s_or_b") or len(parts.operands) != 3:
            return None
        if parts.operands[0].first != EXEC:
            return None
        sources = [o for o in parts.operands[1:] if o.kind == "sgpr" and o.first != EXEC]
        if len(sources) != 1:
            return None
        bits = scalar_bits(sources[0].first, self._target.lanes // 32)
        return None if bits & group.unknown else sources[0].first

    # ------------------------------------------------------------------ from block to block

    def _leave(self, group: _Group) -> None:
        block = self._function.blocks[group.block]
        last = self._decoded[block.stop - 1].name if block.stop > block.start else ""
        if not block.successors:
            return
        following = block.index + 1
        targets = [to for to in block.successors if to != following]
        if last not in CONDITIONS or not targets or following not in block.successors:
            self._go(group, block.successors[0])
            return
        target = targets[0]
        vcc = scalar_bits(VCC, self._target.lanes // 32)
        bits = EXEC_BITS if "exec" in last else vcc if "vcc" in last else SCC_BIT
        known = not bits & group.unknown
        jumps = CONDITIONS[last](group.waves)
        if not known:
            jumps[:] = False if last == "s_cbranch_execz" else jumps[0]
        forced = self._loops.forced(group.rounds, block.index, (target, following), known=known)
        if forced is not None:
            if known:  # a longer loop: what comes behind it may rest on how often it went round
                return
            jumps[:] = forced == target
        if not known and forced is None:
            self._remember(group, following if jumps[0] else target)
        if jumps.all() or not jumps.any():
            self._go(group, target if jumps[0] else following)
            return
        for which, to in ((jumps, target), (~jumps, following)):
            part = _Group(
                group.block,
                group.waves.select(which),
                group.unknown | _rows(group.masks),
                {},
                {counter: list(queue) for counter, queue in group.queues.items()},
                dict(group.rounds),
            )
            self._go(part, to)

    def _go(self, group: _Group, to: int) -> None:
        if self._loops.enter(group.rounds, group.block, to):
            group.block = to
            self._groups.append(group)


def _rows(masks: Mapping[int, Array]) -> int:
    rows = 0
    for row in masks:
        rows |= 1 << row
    return rows


_ACROSS: Final = re.compile(r"v_readlane\w*|v_readfirstlane\w*|v_permlane\w*|ds_\w*(permute|swizzle)\w*")


def _is_across(parts: Decoded) -> bool:
    """Whether lanes get the values of others."""
    return _ACROSS.fullmatch(parts.name) is not None or not DPP_CONTROLS.isdisjoint(parts.modifiers)


_Planned = tuple[int, int, tuple[tuple[str, bool, int], ...], tuple[tuple[str, int], ...]]
"""Index of an instruction (-1: none), registers that those before it write which are passed over,
the counters that it raises (in order or not, with their largest value), those it waits for."""


def _plan(
    function: Function, gpu: Machine, chosen: Sequence[int], effects: Sequence[Effect]
) -> list[list[_Planned]]:
    """Of each block what matters."""
    counters = Counters.of(gpu.counters)
    steps = frozenset(chosen)
    plan: list[list[_Planned]] = []
    for block in function.blocks:
        items: list[_Planned] = []
        skipped = 0
        for inst in function.instructions[block.start : block.stop]:
            raised: tuple[tuple[str, bool, int], ...] = ()
            waits: tuple[tuple[str, int], ...] = ()
            if inst.cls in RAISING:
                raised = tuple(
                    (event.counter, bool(event.order), gpu.counters.get(event.counter, 1 << 30))
                    for event in events_of(inst, counters)
                )
            elif inst.cls == "wait":
                counts = decode_wait(inst.op.name, inst.operands, gpu.waitcnt_fields, gpu.counters)
                waits = tuple(counts.items())
            if inst.index not in steps:
                skipped |= effects[inst.index].writes
                if not (raised or waits or inst.cls in ("barrier", "barrier_signal")):
                    continue
            items.append((inst.index, skipped, raised, waits))
            skipped = 0
        items.append((-1, skipped, (), ()))
        plan.append(items)
    return plan


def _reached_accesses(function: Function) -> list[frozenset[int]]:
    """By block, the accesses of LDS that control may come to from its begin on."""
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


class _Loops:
    """How often loops go round."""

    def __init__(self, blocks: Sequence[Block], loops: Sequence[Loop]) -> None:
        inside = [frozenset(loop.blocks) for loop in loops]
        self._inside = inside
        self._headers = [loop.header for loop in loops]
        self._most = [
            ROUNDS - any(other < loop for other in inside) for loop in inside
        ]
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
            most = KNOWN_ROUNDS if known else self._most[number]
            if rounds.get(number, 0) + 1 >= most:
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
