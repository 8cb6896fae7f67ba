"""Registers that code may read before anything has written them, and whether that matters.

LLVM reads undefined registers on purpose: half of a pack, a lane that is switched off, an operand
whose result nobody uses. So the read is no finding; it is one if an address or a stored value
depends on what such a register holds. Liveness at the kernel's first instruction
names the registers in question, which are few and mostly none; only then are some workgroups run
again on copies of the buffers, with other values in these registers, and their accesses compared.

What this cannot see: a register that held something else before (its value is stale, not
undefined); lanes that EXEC kept from being written; a difference that these data hide; kernels
whose workgroups wait for others than those that run again; launches on more than `_MOST_BYTES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ...isa.dataflow.definitions import first_read
from ...isa.dataflow.operands import name_of, rows_of
from ..grid import Fill, GridRunner
from ..lockstep import EmulationLimitError, LaunchLimits
from ..machine import MachineState
from ..memory import Array, Buffer
from ..registry import NotCoveredError
from .access_recorder import Access, AccessRecorder

if TYPE_CHECKING:
    from ..grid import Launch

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
