"""How many registers hold values that are still needed: the pressure behind the allocated
counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..base.errors import unforeseen
from ..isa.graph.cfg import loop_of
from ..model import (
    Instruction,
    Metric,
)
from .entries import of_both, of_loops, unknown
from .subject import (
    NOT_ALL_READ,
    KernelCode,
    NamedValues,
    Subject,
    Tally,
    source_line,
)

if TYPE_CHECKING:
    from ..isa.dataflow.liveness import Liveness

VGPRS, AGPRS, SGPRS = "live.vgprs", "live.agprs", "live.sgprs"
_FULLEST, _UNTOUCHED, _DEAD = "live.at", "live.untouched", "live.dead_writes"
_NOT_FOLLOWED = "its registers were not followed"

SPECS = (
    *of_both(
        {
            VGPRS: "registers | VGPRs that hold values which are still read, at the instruction "
            "where they are most; no allocation can take fewer",
            AGPRS: "registers | AGPRs likewise, where they are most",
            SGPRS: "registers | SGPRs likewise, where they are most, VCC included",
            _FULLEST: "The instruction at which most VGPRs and AGPRs are live: `vgprs`, `agprs`, "
            "`at` which line (`isa`: of the assembly), `instruction`",
        },
        keys={_FULLEST: frozenset({"vgprs", "agprs", "at", "isa"})},
    ),
    *of_loops(
        {
            _UNTOUCHED: "registers | VGPRs and AGPRs that live through the whole loop, nested "
            "loops included, and are neither read nor written in it",
        }
    ),
    *of_both(
        {
            _DEAD: "instructions | Vector instructions whose results nothing reads",
        }
    ),
)


def beyond_allocation(subject: Subject, allocated: int | None) -> str | None:
    """What to say of code that uses vector registers which its wave does not have.

    Neither LLVM's assembler nor its linker looks. A kernel that asks for more at run time
    (`s_alloc_vgpr`) is left out.
    """
    live = subject.live[0]
    machine = subject.machine
    if live is None or machine is None or allocated is None or machine.agpr == "separate":
        return None
    count = live.highest_vector()
    function = subject.function
    if count <= allocated or function.calls:  # a call's registers are guessed
        return None
    if any(inst.mnemonic == "s_alloc_vgpr" for inst in function.instructions):
        return None
    return (
        f"the code uses {count} VGPRs, but {allocated} are allocated: what "
        "lies beyond is not the wave's; raise .amdhsa_next_free_vgpr and .vgpr_count"
    )


def followed(subject: KernelCode) -> tuple[Liveness | None, str]:
    """The kernel's live registers, or why they are not known."""
    if subject.function.unread:
        return None, NOT_ALL_READ
    if subject.machine is None or not subject.facts.analyse_lanes:
        return None, _NOT_FOLLOWED
    # What lists metrics or rules needs none of it.
    from ..isa.dataflow.liveness import liveness

    try:
        return liveness(subject.function, subject.machine), ""
    except Exception as error:
        # A bug in the tables of operands must not take the report with it.
        return None, unforeseen(error).message


def compute(subject: Subject, counted: Tally) -> Iterator[Metric]:
    """Figures of a region: the fullest of its instructions."""
    live, why = subject.live
    if live is None or not counted.indices:
        yield from unknown([spec for spec in SPECS if spec.scope == "both"], why)
        return
    needed = [live.needed[index] for index in counted.indices]
    for name, column in zip((VGPRS, AGPRS, SGPRS), zip(*needed, strict=True), strict=True):
        yield Metric(name, max(column), "registers", "derived")
    vector = [vgprs + agprs for vgprs, agprs, _ in needed]
    fullest = vector.index(max(vector))
    instructions = subject.function.instructions
    inst = instructions[counted.indices[fullest]]
    yield Metric(_FULLEST, _place(inst, *needed[fullest][:2]), "mapping", "derived")
    dead = len(live.dead_writes(instructions[index] for index in counted.indices))
    yield Metric(_DEAD, dead, "instructions", "derived")
    if len(counted.indices) < len(instructions):
        yield from _untouched(subject, live, counted.indices)


def named(subject: Subject, hot: Set[str]) -> tuple[NamedValues, str]:
    """The values at the kernel's fullest instruction, and the spilled ones.

    Nothing where they are not known or not asked for: what cannot be named costs these tables, not
    the report.

    Returns:
        The values; a note where an unforeseen error is why there are none.
    """
    live, _ = subject.live
    instructions = subject.function.instructions
    if live is None or not subject.facts.name_values or not instructions:
        return NamedValues(), ""
    from .live_values import named_values

    counts = tuple(
        [
            (inst.line, vgprs, agprs)
            for inst, (vgprs, agprs, _) in zip(instructions, live.needed, strict=True)
        ]
    )
    vector = [vgprs + agprs for vgprs, agprs, _ in live.needed]
    fullest = vector.index(max(vector))
    try:
        values = named_values(subject, live, fullest, hot)
    except Exception as error:
        # Operands that the emulator's tables do not know, in code that nobody foresaw.
        return (
            NamedValues(),
            f"the values in its registers are not named: {unforeseen(error).message}",
        )
    if values.peak is not None:
        values = replace(values, peak=replace(values.peak, counts=counts))
    dead = tuple(inst.line for inst in live.dead_writes(instructions))
    return replace(values, dead_writes=dead), ""


def _place(inst: Instruction, vgprs: int, agprs: int) -> dict[str, int | str | None]:
    return {
        "vgprs": vgprs,
        "agprs": agprs,
        "at": source_line(inst.loc),
        "isa": inst.line,
        "instruction": inst.mnemonic,
    }


def _untouched(subject: Subject, live: Liveness, indices: Sequence[int]) -> Iterator[Metric]:
    """Of the loop to which a region's instructions belong."""
    function = subject.function
    loop = loop_of(function).get(indices[0])
    if loop is not None:
        rows = live.untouched([function.blocks[number] for number in loop.blocks])
        yield Metric(_UNTOUCHED, live.vector_count(rows), "registers", "derived")
