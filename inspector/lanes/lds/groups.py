"""Waves that stand at the same place, and what is known of their registers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct, field

from ...emulator.waves import Array, Waves
from ...isa.dataflow.effects import RegisterEffect
from ...isa.dataflow.operands import DPP_CONTROLS, Decoded
from ...isa.dataflow.register_sets import SCALAR_BIT
from .accesses import LdsAccess

VECTOR: Final = (1 << SCALAR_BIT) - 1
"""The set of all vector rows."""


class Pending(Struct, eq=False):
    """An operation that a counter counts, with the accesses of LDS that it comes to."""

    site: int
    in_order: bool
    accesses: tuple[LdsAccess, ...] = ()


class WaveGroup(Struct, eq=False):
    """Waves that stand at the same block.

    Args:
        unknown: set of registers whose values are.
        masks: vector row -> lanes, bool [wave, lane], in which it is known; in others it is not.
        queues: by counter, oldest first.
        rounds: by number of the loop, how often it has gone round.
    """

    block: int
    waves: Waves
    unknown: int
    masks: dict[int, Array] = field(default_factory=dict)
    queues: dict[str, list[Pending]] = field(default_factory=dict)
    rounds: dict[int, int] = field(default_factory=dict)

    def is_known(self, reads: int, parts: Decoded) -> bool:
        """Whether all registers of a set are, in the lanes that an instruction looks at."""
        if reads & self.unknown:
            return False
        across = _is_across(parts) if self.masks else False
        return not any(
            reads >> row & 1 and (~lanes if across else self.waves.active & ~lanes).any()
            for row, lanes in self.masks.items()
        )

    def learn(self, effect: RegisterEffect) -> None:
        """Notes as known what an instruction writes from known registers, in the active lanes."""
        overwritten = effect.low & effect.high
        if self.waves.full:
            self.unknown &= ~overwritten
            if self.masks:
                self._drop(overwritten)
            return
        self.unknown &= ~(overwritten & ~VECTOR)
        rows = overwritten & (self.unknown | self.partly) & VECTOR
        while rows:
            row = (rows & -rows).bit_length() - 1
            rows &= rows - 1
            active, earlier = self.waves.active, self.masks.get(row)
            self.masks[row] = active.copy() if earlier is None else earlier | active
            self.unknown &= ~(1 << row)

    def forget(self, writes: int) -> None:
        """Notes as unknown what an instruction writes."""
        self.unknown |= writes
        if self.masks:
            self._drop(writes)

    def set_known(self, bits: int, *, known: bool) -> None:
        """Notes scalar registers as known or unknown."""
        self.unknown = self.unknown & ~bits if known else self.unknown | bits

    @property
    def partly(self) -> int:
        """The set of registers that are known in some lanes."""
        rows = 0
        for row in self.masks:
            rows |= 1 << row
        return rows

    def _drop(self, rows: int) -> None:
        """Forgets which lanes of registers are known."""
        for row in [row for row in self.masks if rows >> row & 1]:
            del self.masks[row]

    def let_through(self, counter: str, newest: int) -> list[Pending]:
        """Takes all but the `newest` operations out of a counter's queue; returns those."""
        queue = self.queues.get(counter)
        if not queue or len(queue) <= newest:
            return []
        leaving, staying = queue[: len(queue) - newest], queue[len(queue) - newest :]
        if newest:
            staying = [entry for entry in leaving if not entry.in_order] + staying
            leaving = [entry for entry in leaving if entry.in_order]
        self.queues[counter] = staying
        return leaving

    def outstanding(self) -> Iterator[LdsAccess]:
        """Yields the accesses that no wait has covered."""
        for queue in self.queues.values():
            for entry in queue:
                yield from entry.accesses

    def selected(self, which: Array) -> WaveGroup:
        """Some of the waves (bool or indices), as copies; what is known of some lanes is lost."""
        return WaveGroup(
            self.block,
            self.waves.select(which),
            self.unknown | self.partly,
            {},
            {counter: list(queue) for counter, queue in self.queues.items()},
            dict(self.rounds),
        )

    @staticmethod
    def join(groups: Sequence[WaveGroup]) -> WaveGroup:
        """Waves that meet; all have the same operations outstanding."""
        joined = groups[0]
        for counter, queue in joined.queues.items():
            for position, entry in enumerate(queue):
                accesses = {
                    access.number: access
                    for group in groups
                    for access in group.queues[counter][position].accesses
                }
                queue[position] = Pending(entry.site, entry.in_order, tuple(accesses.values()))
        for group in groups:
            joined.unknown |= group.unknown | group.partly
        joined.masks = {}
        joined.waves = Waves.join([group.waves for group in groups])
        return joined


_ACROSS: Final = re.compile(
    r"v_readlane\w*|v_readfirstlane\w*|v_permlane\w*|ds_\w*(permute|swizzle)\w*"
)


def _is_across(parts: Decoded) -> bool:
    """Whether lanes get the values of others."""
    return _ACROSS.fullmatch(parts.name) is not None or not DPP_CONTROLS.isdisjoint(parts.modifiers)
