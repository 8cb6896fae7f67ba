"""Runs all waves of many workgroups together, block by block.

Groups of waves that stand at different blocks take turns: the one that is furthest behind goes
first, so that waves which parted meet again; a group that keeps jumping backwards yields, so that
a wave which spins on a lock does not stop the wave that holds it.

Where waves stand and what they do when a launch is given up: they wait, spin, or go round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from ..base.errors import KinspectError
from ..isa.dataflow.effects import returns_value
from ..model import Block, Instruction, Loop
from .memory import first_active
from .program import BlockEnd, CodeBlock, EndKind, PreparedCode
from .registry import NotCoveredError
from .waves import Array, Waves

if TYPE_CHECKING:
    from .machine import MachineState, Trouble
    from .registry import Step


_TURNS = 64
"""Backward jumps that one group may take while others wait."""
_LOCK_TURNS = _TURNS
"""Turns that a jump round a lock counts as: other waves have to run to release the lock."""


_LONG_BLOCK: Final = 256
"""Steps after which the time is looked at within a block."""
T = TypeVar("T")
WATCH_SECONDS: Final = 0.5
Watch = Callable[[int, int], None]
"""Takes the number of workgroups that have ended, and of all."""


class LaunchLimits:
    """The time and the blocks that a launch may take before it is given up.

    `clock`: counts seconds: `time.thread_time` gives the same answer on a busy machine. `watch`:
    called twice a second with the workgroups that have ended, and the workgroups in all.
    """

    def __init__(
        self,
        seconds: float,
        blocks: int,
        clock: Callable[[], float] = time.monotonic,
        watch: Watch | None = None,
    ) -> None:
        self._clock = clock
        self.watch = watch
        self._next_look = clock() + WATCH_SECONDS
        self.ended = self.workgroups = 0
        self.deadline = clock() + seconds
        self.seconds = seconds
        self.blocks = blocks

    def check(self, done: int) -> None:
        """Raises EmulationLimitError when the time or the blocks are used up."""
        if done > self.blocks:
            raise EmulationLimitError(f"it ran {done} blocks of instructions")
        now = self._clock()
        if now > self.deadline:
            raise EmulationLimitError(f"it took longer than {self.seconds:g} s")
        if self.watch is not None and now >= self._next_look:
            self._next_look = now + WATCH_SECONDS
            self.watch(self.ended, self.workgroups)

    def timed(self, done: int, steps: Sequence[T]) -> Iterator[T]:
        """Yields the steps of a long block, and checks the time on the way."""
        for number, step in enumerate(steps):
            if not number % _LONG_BLOCK:
                self.check(done)
            yield step


class EmulationLimitError(KinspectError):
    """A launch took too long, or nothing moved any more.

    `troubles`: those noticed until then, with where the waves stand.
    """

    troubles: tuple[Trouble, ...] = ()


class HangError(EmulationLimitError):
    """Nothing moves any more: waves wait at a barrier that others never reach."""


class TrapError(KinspectError):
    """The kernel ended itself by `s_trap`, as a failed `device_assert` does."""


class Barriers:
    """Who has arrived, for each resident workgroup: one barrier, waits counted by generation.

    `opened`: told of the slots whose barriers open.
    """

    def __init__(self, slots: int, opened: Callable[[Array], None]) -> None:
        self._opened = opened
        self.alive = np.zeros(slots, np.int64)
        self.arrived = np.zeros(slots, np.int64)
        self.generation = np.zeros(slots, np.int64)

    def arrive(self, slots: Array) -> None:
        """Counts one more wave of each of these workgroups as arrived."""
        np.add.at(self.arrived, slots, 1)
        self._release()

    def leave(self, slots: Array) -> None:
        """Takes waves that have ended out of the count, so that nobody waits for them."""
        np.subtract.at(self.alive, slots, 1)
        self._release()

    def _release(self) -> None:
        """Opens the barriers at which all living waves have arrived."""
        full = (self.arrived >= self.alive) & (self.alive > 0) & (self.arrived > 0)
        if full.any():
            self.generation[full] += 1
            self.arrived[full] = 0
            self._opened(np.flatnonzero(full))


class _Waiting:
    """Waves at a barrier: they go on when their workgroup's generation has moved past `since`."""

    def __init__(self, block: int, waves: Waves, since: Array, site: int) -> None:
        self.block = block
        self.waves = waves
        self.since = since
        self.site = site


def _locks(code: PreparedCode) -> Array:
    """Before each block, and at the end: atomics whose result is used, exchanges between waves.

    A loop that holds both waits for a lock: one lane asks, and all waves of the workgroup hear of
    it. One that holds atomics alone tries again until it succeeds.
    """
    counts = np.zeros((len(code.blocks) + 1, 2), np.int64)
    for number, block in enumerate(code.blocks):
        parts = code.decoded[block.first : block.stop]
        counts[number + 1] = [
            sum("atomic" in p.name and returns_value(p) for p in parts),
            sum(p.name.startswith(("ds_", "s_barrier", "v_readfirstlane")) for p in parts),
        ]
    return counts.cumsum(0)


class Scheduler:
    """The groups of waves that are ready or wait at barriers."""

    def __init__(
        self, code: PreparedCode, machine: MachineState, limits: LaunchLimits, slots: int
    ) -> None:
        self._code = code
        self._machine = machine
        self._limits = limits
        self.slots = slots
        self._ready: dict[int, list[Waves]] = {}
        self._waiting: list[_Waiting] = []
        self._groups = np.zeros(slots, np.int64)
        """Number in the grid of each workgroup."""
        self._barriers = Barriers(
            slots, lambda opened: machine.barriers_opened(self._groups[opened])
        )
        self._blocks = 0
        self._running: tuple[int, Waves] | None = None
        self.executed = np.zeros(slots, np.int64)
        """Instructions that the waves of each workgroup executed."""
        # Split barriers (gfx12): the generation that a wave's signal belongs to.
        self._signalled: dict[tuple[int, int], int] = {}
        self._locks = _locks(code)

    @property
    def generations(self) -> Array:
        """How many barriers each workgroup has passed."""
        return self._barriers.generation

    def run(self, waves: Waves) -> None:
        """Runs waves from the kernel's entry on."""
        np.add.at(self._barriers.alive, waves.workgroup, 1)
        self._groups[waves.workgroup] = waves.group_id
        self._ready = {self._code.entry: [waves]}
        while self._ready or self._waiting:
            if self._waiting:
                self._let_through()
            if not self._ready:
                self._running = None
                raise HangError(
                    f"not all waves of a workgroup reach the barrier: {self._standing()}"
                )
            block = min(self._ready, key=self._turn)
            group = Waves.join(self._ready.pop(block))
            begun = self._machine.ticks
            try:
                self._advance(block, group)
            except EmulationLimitError as error:
                raise EmulationLimitError(f"{error.message}: {self._standing()}") from None
            executed = self._machine.ticks - begun
            self.executed += executed * np.bincount(group.workgroup, minlength=self.slots)

    def _turn(self, block: int) -> tuple[int, int]:
        """Returns the order in which blocks run: fewest turns first, then the order of the code."""
        return min(group.turns for group in self._ready[block]) // _TURNS, block

    def _advance(self, number: int, waves: Waves) -> None:
        """Runs one group until it parts, waits, ends or must yield."""
        blocks = self._code.blocks
        while True:
            if number >= len(blocks):
                raise NotCoveredError("control runs past the last instruction")
            block = blocks[number]
            self._running = number, waves
            block.runs += waves.count
            self._blocks += 1
            self._machine.ticks += block.stop - block.first
            self._limits.check(self._blocks)
            steps: Iterable[tuple[int, Step, int]] = self.steps_of(number, waves)
            if len(block.steps) > _LONG_BLOCK:
                steps = self._limits.timed(self._blocks, tuple(steps))
            for registers, step, site in steps:
                if registers & waves.outstanding.registers:
                    self._hazard(waves, registers, site)
                step(waves)
            following = self._leave(number, block, waves)
            if following is None:
                return
            if block.leave.kind is EndKind.BARRIER:  # nobody goes first who has not arrived
                number = following
                continue
            waves.turns += self._jump(number, following)
            number = following
            if self._ready and self._must_yield(number, waves):
                self._ready.setdefault(number, []).append(waves)
                return

    def steps_of(self, number: int, waves: Waves) -> Sequence[tuple[int, Step, int]]:
        """The steps of a block that these waves have come to."""
        return self._code.blocks[number].steps

    def _leave(self, number: int, block: CodeBlock, waves: Waves) -> int | None:
        """Returns the block that all waves go on to; None where they end, wait or part."""
        leave = block.leave
        kind = leave.kind
        if kind is EndKind.END:
            self._barriers.leave(waves.workgroup)
            return None
        if kind is EndKind.BARRIER:
            passes = self._barrier(leave.site, leave.following, waves)
            return leave.following if passes else None
        if kind is EndKind.BRANCH:
            return self._branch(number, block, waves)
        if kind is EndKind.INDIRECT:
            return self._indirect(number, leave, waves)
        if kind is EndKind.SIGNAL:
            self._machine.at_barrier(leave.site, waves)
            self._signal(waves)
        return leave.target if kind is EndKind.JUMP else leave.following

    def _branch(self, number: int, block: CodeBlock, waves: Waves) -> int | None:
        """Counts which waves take a branch; returns where all go, None where they part."""
        leave = block.leave
        assert leave.taken is not None
        taken = leave.taken(waves)
        if leave.mask is not None:
            block.divided += waves.divided(leave.mask)
        if taken.all():
            block.taken += waves.count
            return leave.target
        if not taken.any():
            return leave.following
        block.taken += int(np.count_nonzero(taken))
        self._part(number, leave.target, waves.select(taken))
        self._part(number, leave.following, waves.select(~taken))
        return None

    def _indirect(self, number: int, leave: BlockEnd, waves: Waves) -> int | None:
        """Returns where all waves go by a call or a return; None where they part."""
        places = self._places(leave, waves)
        following = int(places[0])
        if (places == following).all():
            return following
        for where in np.unique(places).tolist():
            self._part(number, where, waves.select(places == where))
        return None

    def _part(self, number: int, where: int, waves: Waves) -> None:
        """Makes waves that leave their group ready at another block."""
        waves.turns += self._jump(number, where)
        self._ready.setdefault(where, []).append(waves)

    def _places(self, leave: BlockEnd, waves: Waves) -> Array:
        """The blocks that a call or a return leads to, [wave]."""
        if leave.goes is not None:
            return leave.goes(waves)
        text = self._code.decoded[leave.site].text
        if text.startswith("s_trap"):
            raise TrapError(
                f"the kernel stopped itself: {self._code.line(leave.site)}",
                "look at what leads there: a device_assert that failed, or code not meant to run",
            )
        raise NotCoveredError(text)

    def _jump(self, number: int, following: int) -> int:
        """Returns the turns that a group is charged for going from one block to another."""
        if following > number:
            return 0
        atomics, exchanges = self._locks[number + 1] - self._locks[following]
        return _LOCK_TURNS if atomics and exchanges else 1

    def _must_yield(self, number: int, waves: Waves) -> bool:
        """Returns whether other waves run first: those at the same block, or with fewer turns."""
        if number in self._ready:
            return True
        own_turn = (waves.turns // _TURNS, number)
        return any(self._turn(block) < own_turn for block in self._ready)

    def _hazard(self, waves: Waves, registers: int, site: int) -> None:
        """Notes a register that is used before the wait that covers it; its old value is used."""
        counter, result = self._code.results.get(site, (None, 0))
        clashing = waves.outstanding.would_clash(registers, counter, result)
        if clashing:
            self._machine.unwaited(site, clashing, waves)

    def _signal(self, waves: Waves) -> None:
        """Counts waves as arrived, and remembers which generation their signal belongs to."""
        self._machine.come_to_barrier(waves)
        for slot, wave in zip(waves.workgroup.tolist(), waves.wave.tolist(), strict=True):
            self._signalled[slot, wave] = int(self._barriers.generation[slot])
        self._barriers.arrive(waves.workgroup)

    def _barrier(self, site: int, following: int, waves: Waves) -> bool:
        """Counts waves as arrived; returns whether all of them may go on at once."""
        slots = waves.workgroup
        self._machine.come_to_barrier(waves)
        if self._code.decoded[site].name == "s_barrier_wait":
            since = np.array(
                [
                    self._signalled.pop((slot, wave), int(self._barriers.generation[slot]))
                    for slot, wave in zip(slots.tolist(), waves.wave.tolist(), strict=True)
                ]
            )
        else:
            self._machine.at_barrier(site, waves)
            since = self._barriers.generation[slots]
            self._barriers.arrive(slots)
        if (self._barriers.generation[slots] > since).all():
            return True
        self._waiting.append(_Waiting(following, waves, since, site))
        return False

    def _let_through(self) -> None:
        """Makes the waves ready whose barriers have opened; parts groups where only some have."""
        still_waiting = []
        for waiting in self._waiting:
            free = self._barriers.generation[waiting.waves.workgroup] > waiting.since
            if not free.any():
                still_waiting.append(waiting)
                continue
            group = waiting.waves if free.all() else waiting.waves.select(free)
            self._ready.setdefault(waiting.block, []).append(group)
            if not free.all():
                blocked = waiting.waves.select(~free)
                still_waiting.append(
                    _Waiting(waiting.block, blocked, waiting.since[~free], waiting.site)
                )
        self._waiting = still_waiting

    def _standing(self) -> str:
        """Returns where every group of waves stands, and notes each as a trouble."""
        waiting = [(group.site, group.waves) for group in self._waiting]
        running = [] if self._running is None else [self._running]
        running += [(block, waves) for block, groups in self._ready.items() for waves in groups]
        return describe_standing(self._code, self._machine, waiting, running)


MOST_PLACES: Final = 4
"""Groups of waves that a message names."""


def describe_standing(
    code: PreparedCode,
    machine: MachineState,
    waiting: Sequence[tuple[int, Waves]],
    running: Sequence[tuple[int, Waves]],
) -> str:
    """Says where every group of waves stands, and notes those that wait or loop as a `hang`.

    `waiting`: index of a barrier, and the waves that wait there. `running`: number of a block of
    `code`, and the waves that run it.
    """
    groups = [(f"wait at {code.line(site)}", site, True, waves) for site, waves in waiting]
    groups += [(*_activity(code, machine, block), waves) for block, waves in running]
    places = []
    for activity, site, may_hang, waves in groups:
        of = "workgroups" if (waves.group_id != waves.group_id[0]).any() else "workgroup"
        place = f"waves {_numbers(waves.wave)} of {of} {_numbers(waves.group_id)} {activity}"
        if may_hang:
            machine.note("hang", site, place)
        places.append(place)
    more = f", and {len(places) - MOST_PLACES} more groups" if len(places) > MOST_PLACES else ""
    return "; ".join(places[:MOST_PLACES]) + more


def _activity(code: PreparedCode, machine: MachineState, number: int) -> tuple[str, int, bool]:
    """Returns what waves at a block do, in words, the instruction to name, and if they loop."""
    start = code.blocks[number].first
    loop = _innermost_loop(code, start)
    if loop is None:
        return f"run {code.line(start)}", start, False
    blocks = [code.function.blocks[index] for index in loop.blocks]
    sites = [site for block in blocks for site in range(block.start, block.stop)]
    for site in sites:
        access = machine.last_access.get(site)
        if access is None or not _may_spin(code.function.instructions[site]):
            continue
        address = first_active(*access[:2])
        if address is not None:
            return f"spin on {machine.place_of(address)}, at {code.line(site)}", site, True
    return f"run the loop at {code.line(min(sites))}", min(sites), True


def _innermost_loop(code: PreparedCode, site: int) -> Loop | None:
    """Returns the smallest loop that an instruction is in."""
    blocks = code.function.blocks
    around = (
        loop
        for loop in code.function.loops
        if any(_holds(blocks[index], site) for index in loop.blocks)
    )
    return min(around, key=lambda loop: len(loop.blocks), default=None)


def _holds(block: Block, site: int) -> bool:
    return block.start <= site < block.stop


def _may_spin(instruction: Instruction) -> bool:
    """Returns whether a loop may wait for the value that an instruction loads."""
    return instruction.cls in ("atomic", "global_load")


def _numbers(waves: Array) -> str:
    numbers: Sequence[int] = sorted(set(waves.tolist()))
    return ", ".join(map(str, numbers[:8])) + (" …" if len(numbers) > 8 else "")
