"""Registers that code may read before anything has written them, and whether that matters.

LLVM reads undefined registers on purpose: half of a pack, a lane that is switched off, an operand
whose result nobody uses. So the read is no finding; it is one if an address or a stored value
depends on what such a register holds. Liveness at the kernel's first instruction
names the registers in question, which are few and mostly none; only then are some workgroups run
again on copies of the buffers, with other values in these registers, and their accesses compared.

What this cannot see: a register that held something else before (its value is stale, not
undefined); lanes that EXEC kept from being written; a difference that these data hide; kernels
whose workgroups wait for others than those that run again; launches on more than `MOST_BYTES`.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from ...model import Function
from ..effects import RegisterEffect
from ..machine import MachineState
from ..memory import Buffer, GlobalMemory, Outside
from ..register_sets import rows_of

Array = np.ndarray[Any, Any]

MOST_BYTES: Final = 1 << 28
"""Bytes of buffers that are copied; a launch on more is not looked at."""
MOST_CULPRITS: Final = 4
WORKGROUPS: Final = 2
SECONDS: Final = 5.0
BLOCKS: Final = 100_000
FILL: Final = 0x5E7A7A5E
"""Large as a float of 32 bits and of 16, no NaN, which a maximum would drop."""

Access = tuple[int, int]
"""Index of the instruction; a checksum of addresses and, of a write, of values."""
Fill = dict[int, int]
"""Row of a register (scalar ones from `SCALAR_BIT` on) -> what it holds when waves begin."""


def live_at_entry(function: Function, effects: Sequence[RegisterEffect]) -> int:
    """Bit set of the registers whose value before the first instruction may be read."""
    blocks = function.blocks
    exposed, replaced = [], []
    for block in blocks:
        reads = low = high = 0  # `low`, `high`: registers with that half written so far
        for effect in effects[block.start : block.stop]:
            reads |= effect.reads & ~(low & high)
            low |= effect.low
            high |= effect.high
        exposed.append(reads)
        replaced.append(low & high)
    live = list(exposed)
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(blocks))):
            leaving = 0
            for successor in blocks[number].successors:
                leaving |= live[successor]
            entering = exposed[number] | (leaving & ~replaced[number])
            if entering != live[number]:
                live[number], changed = entering, True
    return live[0] if live else 0


def first_read(function: Function, effects: Sequence[RegisterEffect], register: int) -> int:
    """Index of an instruction that reads a register which nothing has written on the way there."""
    bit = 1 << register
    waiting, seen = deque([0]), {0}
    while waiting:
        block = function.blocks[waiting.popleft()]
        low = high = 0
        for site in range(block.start, block.stop):
            if effects[site].reads & bit:
                return site
            low |= effects[site].low
            high |= effects[site].high
            if low & high & bit:
                break
        else:
            for successor in block.successors:
                if successor not in seen:
                    seen.add(successor)
                    waiting.append(successor)
    return 0


class AccessRecorder(MachineState):
    """A machine that keeps a checksum of every access of global memory, in order."""

    def __init__(self, buffers: Iterable[Buffer]) -> None:
        self.accesses: list[Access] = []
        self._site = -1
        super().__init__(_Recorded(list(buffers), self))

    def outside(self, site: int) -> Callable[[Array, int, bool], None]:
        self._site = site
        return super().outside(site)

    def record(self, addresses: Array, wanted: Array | None, values: Array | None) -> None:
        """Adds an access of the instruction that asked last to the checksum."""
        active = addresses if wanted is None else addresses[wanted]
        checksum = zlib.crc32(active.tobytes())
        if values is not None:
            checksum = zlib.crc32(values.tobytes(), checksum)
        self.accesses.append((self._site, checksum))


class _Recorded(GlobalMemory):
    def __init__(self, buffers: list[Buffer], recorder: AccessRecorder) -> None:
        super().__init__(buffers)
        self._recorder = recorder

    def read(
        self, addresses: Array, size: int, outside: Outside, wanted: Array | None = None
    ) -> Array:
        self._recorder.record(addresses, wanted, None)
        return super().read(addresses, size, outside, wanted)

    def write(self, addresses: Array, values: Array, size: int, outside: Outside) -> None:
        self._recorder.record(addresses, None, values)
        super().write(addresses, values, size, outside)


def copies_of(buffers: Iterable[Buffer]) -> list[Buffer]:
    """The buffers with bytes of their own."""
    return [
        Buffer(buffer.address, buffer.size, buffer.data.copy(), buffer.name) for buffer in buffers
    ]


Run = Callable[[Fill], list[Access] | None]
"""Executes some workgroups with registers filled; None where they do not come to an end."""


def undefined_uses(registers: int, run: Run) -> list[tuple[int, int]]:
    """The registers among some on which an access depends.

    Args:
        registers: bit set of those that may be read before they are written.
        run: executes the workgroups.

    Returns:
        Row of the register, index of the first access that differs; at most `MOST_CULPRITS`.
    """
    plain = run({})
    if plain is None:
        return []
    uses: list[tuple[int, int]] = []
    rows = rows_of(registers)
    while rows and len(uses) < MOST_CULPRITS:
        if _first_difference(plain, rows, run) is None:
            break
        culprit = _culprit(plain, rows, run)
        shown = _first_difference(plain, [culprit], run)
        if shown is None:  # only several together show
            break
        uses.append((culprit, shown))
        rows = [row for row in rows if row != culprit]
    return uses


def _culprit(plain: Sequence[Access], rows: Sequence[int], run: Run) -> int:
    """Returns one register of those that together make a difference, by halving."""
    suspects = rows
    while len(suspects) > 1:
        middle = len(suspects) // 2
        shows = _first_difference(plain, suspects[:middle], run) is not None
        suspects = suspects[:middle] if shows else suspects[middle:]
    return suspects[0]


def _first_difference(plain: Sequence[Access], rows: Sequence[int], run: Run) -> int | None:
    """Returns the index of the first access that differs where registers are filled; None: none."""
    filled = run(dict.fromkeys(rows, FILL))
    if filled is None:  # it does not end, or cannot go on, with these values
        return plain[-1][0] if plain else None
    for before, after in zip(plain, filled, strict=False):
        if before != after:
            return before[0]
    if len(plain) == len(filled):
        return None
    longer = max(plain, filled, key=len)
    return longer[min(len(plain), len(filled))][0]
