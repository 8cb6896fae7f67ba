"""Which registers' values before a function's first instruction may be read, and where.

Without regard to lanes, unlike `liveness`: a write counts for all of them. Halves are followed
apart, as 16-bit operations write one of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ...model import Block, Function
from .effects import RegisterEffect


def live_at_entry(function: Function, effects: Sequence[RegisterEffect]) -> int:
    """Bit set of the registers whose value before the first instruction may be read."""
    blocks = function.blocks
    exposed, replaced = [], []
    for block in blocks:
        reads, written = _exposed_reads(block, effects)
        registers = 0
        for _, read in reads:
            registers |= read
        exposed.append(registers)
        replaced.append(written)
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
    """Index of an instruction that reads a register which nothing has written on the way there.

    `effects`: what each instruction reads and writes; `register`: its row; one that is live at
    entry, else the result is 0.
    """
    bit = 1 << register
    waiting, visited = deque([0]), {0}
    while waiting:
        block = function.blocks[waiting.popleft()]
        reads, written = _exposed_reads(block, effects)
        for site, read in reads:
            if read & bit:
                return site
        if written & bit:
            continue
        for successor in block.successors:
            if successor not in visited:
                visited.add(successor)
                waiting.append(successor)
    return 0


def _exposed_reads(
    block: Block, effects: Sequence[RegisterEffect]
) -> tuple[list[tuple[int, int]], int]:
    """What a block reads of the values that registers have when it begins."""
    reads = []
    low = high = 0  # registers with that half written so far
    for site in range(block.start, block.stop):
        effect = effects[site]
        reads.append((site, effect.reads & ~(low & high)))
        low |= effect.low
        high |= effect.high
    return reads, low & high
