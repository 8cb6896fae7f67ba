"""One way through a kernel, to know when each wave touches which bytes of LDS.

The instructions that LDS addresses depend on are carried out for the waves of a workgroup, by the
emulator's own steps. What is not known before the launch (arguments, values in memory, workgroup
numbers) is drawn, and whatever comes of it is *unknown*: an access whose address or mask is, is
left undecided. Loops go round a few times: one iteration meets the next.

Waves part where they branch by what is known (their number, say), so that code which takes turns at
staggered barriers is followed as it is. A branch on what is unknown is taken by all waves alike.

`accesses` says how long an access lasts, and which ones are in order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ...emulator.machine import LaneAccess
from ...emulator.registry import NotCoveredError
from ...emulator.start import GridShape, initial_waves
from ...emulator.waves import CONDITIONS, U32
from ...isa.dataflow.execution_target import target_of
from ...isa.dataflow.operands import SCALAR_BIT, TTMP, VCC, scalar_bits
from ...isa.mnemonics import FLOW_CLASSES, Flow, flow_of
from ...isa.waitflow.unwaited_stores import has_special_barriers
from ...model import Function, Instruction, Machine
from ..slices import EXEC_BITS, LDS_CLASSES, SCC_BIT
from ..unknowns import Arguments, DrawnMemory, Probe, UnreadWords
from .accesses import (
    VECTOR,
    AccessBytes,
    LdsAccess,
    LdsTrace,
    LdsTraces,
    Pending,
    TraceFork,
    WaveGroup,
)
from .code import LdsCode, Loops, plan_of, reached_accesses

MOST_STEPS: Final = 30_000
"""Instructions that are carried out, at most."""
MOST_WAYS: Final = 8
"""Ways through the code that are followed, at most."""
_MOST_LATER: Final = 64
"""States before one block that are kept, the latest: a loop that never ends comes by often."""
MOST_LANES: Final = 2048
"""Lanes of a workgroup, at most."""
_WAVE_NUMBER: Final = scalar_bits(TTMP + 8, 1)
"""gfx12 passes the wave's number in its workgroup there."""


def traces_of(
    function: Function,
    gpu: Machine,
    workgroup: tuple[int, int, int],
    arguments: Arguments | None = None,
) -> LdsTraces:
    """Follows a kernel's waves, on each way that leads to accesses of LDS.

    `arguments`: what is known of its arguments: they decide how often loops go round.
    """
    why = _why_not(function, workgroup)
    if why:
        return LdsTraces(why=why)
    walk = _Walk(function, gpu, workgroup, arguments or Arguments())
    with np.errstate(all="ignore"):
        return walk.run()


def _why_not(function: Function, workgroup: tuple[int, int, int]) -> str:
    """Returns why a kernel cannot be followed; empty where it can."""
    if function.resources.wave_start is None:
        return "the code does not say how waves begin"
    if not function.all_read:
        return "not all of the code was read"
    if math.prod(workgroup) > MOST_LANES:
        return "the workgroup is too large"
    if has_special_barriers(function):
        return "barriers have names"
    for inst in function.instructions:
        if inst.cls in FLOW_CLASSES and flow_of(inst.op, inst.operands) in _ELSEWHERE:
            return "the kernel calls functions"
    return ""


_ELSEWHERE: Final = (Flow.CALL, Flow.INDIRECT)


class _LdsProbe(Probe):
    """A probe that keeps atomics of LDS as well; what comes from LDS is unknown, whatever it is."""

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(DrawnMemory(arguments))
        self.local.words = UnreadWords()

    def before_lds_atomic(self, access: LaneAccess) -> None:
        self.before_lds(access, access.where)


class _State(Struct, eq=False):
    """Where all waves stand at some time, and what they met on the way there."""

    group: WaveGroup
    fork: TraceFork


class _Walk:
    """The waves of a workgroup on their way, and the other ways that they might have gone."""

    def __init__(
        self,
        function: Function,
        gpu: Machine,
        workgroup: tuple[int, int, int],
        arguments: Arguments,
    ) -> None:
        """Puts all waves at the kernel's entry."""
        self._function = function
        self._code = LdsCode(function, target_of(function, gpu.arch))
        self._chosen = frozenset(self._code.chosen)
        self._machine = _LdsProbe(arguments)
        self._plan = plan_of(function, gpu, self._code.chosen, self._code.effects)
        self._loops = Loops(function.blocks, function.loops)
        self._reach = reached_accesses(function)
        self._traces = LdsTraces()
        self._later: list[tuple[_State, int]] = []
        """States in which the other way was not taken, and the block where it leads."""
        self._count = 0
        self._bytes_at: dict[tuple[bytes, bytes | None, int, int], AccessBytes] = {}
        """By addresses, active lanes, size and offset: bytes that were touched before."""
        self._groups = [self._begin(workgroup)]
        self._trace = LdsTrace.of(self._groups[0].waves.count)

    def _begin(self, workgroup: tuple[int, int, int]) -> WaveGroup:
        """The waves of a workgroup at the kernel's entry."""
        target, start = self._code.target, self._function.resources.wave_start
        assert start is not None
        state = initial_waves(
            start,
            target,
            GridShape(workgroup, (9, 9, 9)),
            np.array((0,)),
            self._machine,
            registers=max(4, (self._code.touched & VECTOR).bit_length()),
        )
        known = EXEC_BITS | _WAVE_NUMBER | (1 if target.packs_work_items else 7)
        return WaveGroup(0, state, ((1 << (SCALAR_BIT + 256)) - 1) & ~known)

    def run(self) -> LdsTraces:
        """Follows all waves to their ends, on each way that leads to accesses."""
        traces = self._traces
        if not self._code.chosen:
            traces.why = "it takes too long to find what addresses depend on"
        while not traces.why:
            while self._groups and self._count <= MOST_STEPS:
                group = self._next()
                self._block(group)
                self._leave(group)
            if self._groups:
                traces.why = "" if traces.ways else "the kernel is too large"
                break
            traces.ways.append(self._trace)
            while self._later and not self._reach[self._later[-1][1]] - traces.executed:
                self._later.pop()
            if not self._later or len(traces.ways) >= MOST_WAYS:
                break
            state, to = self._later.pop()
            self._groups, self._trace = [], state.fork.continued()
            self._go(state.group, to)
        return traces

    def _remember(self, group: WaveGroup, to: int) -> None:
        """Keeps the state of waves that are all at one place, to go the other way later."""
        if self._groups or not self._reach[to] - self._traces.executed:
            return
        there = group.selected(np.arange(group.waves.count))
        there.unknown, there.masks = group.unknown, dict(group.masks)
        copies = {  # those which may still come to an end, on either way
            access.number: replace(access, last=dict(access.last)) for access in group.outstanding()
        }
        for queue in there.queues.values():
            queue[:] = [
                Pending(entry.site, entry.in_order, tuple(copies[a.number] for a in entry.accesses))
                for entry in queue
            ]
        alike = [number for number, (_, other) in enumerate(self._later) if other == to]
        if len(alike) >= _MOST_LATER:
            del self._later[alike[0]]
        self._later.append((_State(there, self._trace.fork(copies)), to))

    def _next(self) -> WaveGroup:
        """Returns the waves that are furthest behind, joined where several are at one block."""
        groups = self._groups
        first = min(groups, key=lambda group: group.block)
        meeting = [g for g in groups if g.block == first.block and g.rounds == first.rounds]
        self._groups = [group for group in groups if group not in meeting]
        if len(meeting) == 1:
            return first
        shapes = [
            {counter: [entry.site for entry in queue] for counter, queue in g.queues.items()}
            for g in meeting
        ]
        if any(shape != shapes[0] for shape in shapes):
            # Operations that the waves do not share are ended, so that no race is invented.
            for group in meeting:
                for queue in group.queues.values():
                    self._end(group, queue)
                group.queues = {}
        return WaveGroup.join(meeting)

    def _block(self, group: WaveGroup) -> None:
        """Carries out a block for a group, with its accesses, waits and barriers."""
        for site, skipped, raised, waits in self._plan[group.block]:
            if skipped:
                group.unknown |= skipped
                for row in [row for row in group.masks if skipped >> row & 1]:
                    del group.masks[row]
            if site < 0:
                continue
            inst = self._function.instructions[site]
            accesses: tuple[LdsAccess, ...] = ()
            if site in self._chosen:
                self._count += 1
                if inst.cls in LDS_CLASSES:
                    accesses = self._access(group, site, inst)
                elif inst.cls not in FLOW_CLASSES:
                    self._code.carry_out(group, site)
            for counter, in_order, limit in raised:
                self._wait(group, counter, limit - 1)
                queue = group.queues.setdefault(counter, [])
                queue.append(Pending(site, in_order, accesses))
            if accesses and not raised:
                self._end(group, [Pending(site, True, accesses)])
            for counter, newest in waits:
                self._wait(group, counter, newest)
            if inst.cls in ("barrier", "barrier_signal"):
                self._trace.pass_barrier(group.waves.wave.tolist(), inst)

    def _wait(self, group: WaveGroup, counter: str, newest: int) -> None:
        """Ends all but the `newest` operations of a counter."""
        self._end(group, group.let_through(counter, newest))

    def _end(self, group: WaveGroup, entries: Sequence[Pending]) -> None:
        """Notes at which barrier the accesses of operations have ended."""
        if entries:
            accesses = (access for entry in entries for access in entry.accesses)
            self._trace.end(group.waves.wave.tolist(), accesses)

    def _places(self, group: WaveGroup, site: int) -> tuple[AccessBytes, ...]:
        """The bytes that an access touches; none where the emulator does not cover it."""
        waves, plain = group.waves, self._code.plain.get(site)
        if plain is not None:
            row, offsets, size = plain
            active = None if waves.full else waves.active
            addresses = waves.u32[row]
            key = (addresses.tobytes(), None if active is None else active.tobytes(), size)
            return tuple(
                self._bytes_at.get((*key, offset))
                or self._bytes_at.setdefault(
                    (*key, offset),
                    AccessBytes((addresses + U32(offset)).astype(np.int64), active, size),
                )
                for offset in offsets
            )
        self._machine.accesses = []
        try:
            self._code.steps[site](waves)
        except NotCoveredError:
            return ()
        accesses = [access for space, access, _ in self._machine.accesses if space == "lds"]
        return tuple(
            AccessBytes(a.where.copy(), None if a.usable is None else a.usable.copy(), a.size)
            for a in accesses
        )

    def _access(self, group: WaveGroup, site: int, inst: Instruction) -> tuple[LdsAccess, ...]:
        """Keeps an access of LDS in the trace, and returns it."""
        self._traces.executed.add(site)
        known = group.is_known(self._code.address_bits[site] | EXEC_BITS, self._code.decoded[site])
        places = self._places(group, site) if known else ()
        group.forget(self._code.effects[site].writes)
        if not places:
            self._traces.undecided.add(site)
        copies: tuple[LdsAccess, ...] = ()
        if places:
            copies = tuple(
                access for access in group.outstanding() if access.kind == "copy" and access.parts
            )
        waves = tuple(group.waves.wave.tolist())
        return (self._trace.add(inst, waves, places, copies),)

    def _leave(self, group: WaveGroup) -> None:
        """Sends a group on to the blocks behind its block; waves may part there."""
        block = self._function.blocks[group.block]
        last = self._code.decoded[block.stop - 1].name if block.stop > block.start else ""
        if not block.successors:
            return
        following = block.index + 1
        targets = [to for to in block.successors if to != following]
        if last not in CONDITIONS or not targets or following not in block.successors:
            self._go(group, block.successors[0])
            return
        target = targets[0]
        vcc = scalar_bits(VCC, self._code.target.lanes // 32)
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
            self._go(group.selected(which), to)

    def _go(self, group: WaveGroup, to: int) -> None:
        """Moves a group to a block, or gives it up where a loop has no end."""
        if self._loops.enter(group.rounds, group.block, to):
            group.block = to
            self._groups.append(group)
