"""Registers that code may read before anything has written them, and whether that matters.

LLVM reads undefined registers on purpose: half of a pack, a lane that is switched off, an operand
whose result nobody uses. So the read is no finding; it is one if an address or a stored value
depends on what such a register holds. Liveness at the kernel's first instruction
names the registers in question, which are few and mostly none; only then are some workgroups run
again on copies of the buffers, with other values in these registers, and their accesses compared.

What this cannot see: a register that held something else before (its value is stale, not
undefined); lanes that EXEC kept from being written; a difference that these data hide; kernels
whose workgroups wait for others than those that run again; launches on more than `_MOST_BYTES`.

A machine that records what its accesses of global memory were, to compare two runs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...isa.dataflow.definitions import first_read
from ...isa.dataflow.operands import name_of, rows_of
from ..grid import Fill, GridRunner
from ..lockstep import EmulationLimitError, LaunchLimits
from ..machine import MachineState
from ..memory import Buffer, GlobalMemory, Outside
from ..registry import NotCoveredError

if TYPE_CHECKING:
    from ..grid import Launch


Array = np.ndarray[Any, Any]

_MOST_BYTES: Final = 1 << 28
"""Bytes of buffers that are copied; a launch on more is not looked at."""
_MOST_CULPRITS: Final = 4
"""Registers that are reported; each takes some more runs to find."""
_WORKGROUPS: Final = 2
"""Workgroups that run again, the first and the last: they differ most where tiles are cut off."""
_SECONDS: Final = 5.0
"""Time that one of the runs may take; one that takes longer has not come to an end."""
_BLOCKS: Final = 100_000
"""Blocks of instructions that one of the runs may execute."""
_FILL: Final = 0x5E7A7A5E
"""Large as a float of 32 bits and of 16, no NaN, which a maximum would drop."""

_Run = Callable[[Fill], "list[Access] | None"]
"""Executes some workgroups with registers filled; None where they do not come to an end."""


def note_undefined_uses(
    registers: int,
    grid: GridRunner,
    launch: Launch,
    buffers: Sequence[Buffer],
    numbers: Array,
    machine: MachineState,
) -> None:
    """Notes the registers that were never written and on which accesses depend.

    `registers`: bit set of those that may be read before they are written. `grid`: runs the
    kernel's workgroups; its counts of blocks are as before afterwards. `buffers`: the launch's
    memory, before it runs; not changed.
    """
    if not registers or sum(buffer.size for buffer in buffers) > _MOST_BYTES:
        return
    chosen = numbers[np.unique(np.linspace(0, len(numbers) - 1, _WORKGROUPS).astype(int))]
    code = grid.code
    tallies = code.tallies

    def run(fill: Fill) -> list[Access] | None:
        recorder = AccessRecorder(_copies(buffers))
        try:
            grid.run(launch, chosen, recorder, LaunchLimits(_SECONDS, _BLOCKS), fill)
        except (EmulationLimitError, NotCoveredError):
            return None
        return recorder.accesses

    uses = _undefined_uses(registers, run)
    code.recount(tallies)
    for row, site in uses:
        name = name_of(row, code.target.accum_offset)
        machine.note(
            "uninitialised",
            first_read(code.function, code.effects, row),
            f"{name} is read and nothing has written it; the access of line "
            f"{code.function.instructions[site].line} ({code.decoded[site].text}) depends on it",
        )


def _copies(buffers: Iterable[Buffer]) -> list[Buffer]:
    """The buffers with bytes of their own."""
    return [
        Buffer(buffer.address, buffer.size, buffer.data.copy(), buffer.name) for buffer in buffers
    ]


def _undefined_uses(registers: int, run: _Run) -> list[tuple[int, int]]:
    """The registers among some on which an access depends."""
    baseline = run({})
    if baseline is None:
        return []
    uses: list[tuple[int, int]] = []
    rows = list(rows_of(registers))
    while rows and len(uses) < _MOST_CULPRITS:
        if _first_difference(baseline, rows, run) is None:
            break
        culprit = _culprit(baseline, rows, run)
        site = _first_difference(baseline, [culprit], run)
        if site is None:  # only several together make a difference
            break
        uses.append((culprit, site))
        rows = [row for row in rows if row != culprit]
    return uses


def _culprit(baseline: Sequence[Access], rows: Sequence[int], run: _Run) -> int:
    """Returns one register of those that together make a difference, by halving."""
    suspects = rows
    while len(suspects) > 1:
        middle = len(suspects) // 2
        differs = _first_difference(baseline, suspects[:middle], run) is not None
        suspects = suspects[:middle] if differs else suspects[middle:]
    return suspects[0]


def _first_difference(baseline: Sequence[Access], rows: Sequence[int], run: _Run) -> int | None:
    """Returns where filled registers first make a difference."""
    filled = run(dict.fromkeys(rows, _FILL))
    if filled is None:  # it does not end, or cannot go on, with these values
        return baseline[-1][0] if baseline else None
    for before, after in zip(baseline, filled, strict=False):
        if before != after:
            return before[0]
    if len(baseline) == len(filled):
        return None
    longer = max(baseline, filled, key=len)
    return longer[min(len(baseline), len(filled))][0]


Access = tuple[int, int]
"""Index of the instruction; a checksum of addresses and, of a write, of values."""


class AccessRecorder(MachineState):
    """A machine that keeps a checksum of every access of global memory."""

    def __init__(self, buffers: Iterable[Buffer]) -> None:
        self.accesses: list[Access] = []
        self._site = -1
        super().__init__(_RecordedMemory(list(buffers), self))

    def outside(self, site: int) -> Callable[[Array, int, bool], None]:
        """As in `MachineState`; also notes whose access comes next.

        Memory is not told which instruction accesses it. But each one asks for this function right
        before its accesses, to pass it along with them.
        """
        self._site = site
        return super().outside(site)

    def record(self, addresses: Array, wanted: Array | None, values: Array | None) -> None:
        """Adds an access of the instruction that last called `outside`.

        `wanted`: the lanes that take part, bool; None for all. `values`: what is written; None for
        a read.
        """
        active = addresses if wanted is None else addresses[wanted]
        checksum = zlib.crc32(active.tobytes())
        if values is not None:
            checksum = zlib.crc32(values.tobytes(), checksum)
        self.accesses.append((self._site, checksum))


class _RecordedMemory(GlobalMemory):
    """Global memory that reports each access to a recorder before it is made."""

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
