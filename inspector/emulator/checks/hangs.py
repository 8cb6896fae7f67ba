"""Where waves stand and what they do when a launch is given up: they wait, spin, or go round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ...model import Block, Instruction, Loop
from ..memory import first_active
from ..program import PreparedCode
from ..waves import Array, Waves

if TYPE_CHECKING:
    from ..machine import MachineState

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
