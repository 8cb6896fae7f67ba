"""Wait states that hand-written code lacks around matrix instructions.

CDNA2 to CDNA4 do not wait there by themselves (`emulator.checks.hazards`); compilers put them in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ..isa.dataflow.code_registers import registers_of
from ..isa.dataflow.execution_target import target_of
from ..model import Instruction, Metric, Scalar
from .entries import of_kernels
from .subject import LineName, Subject

if TYPE_CHECKING:
    from ..emulator.checks.hazards import Hazard

_HAZARDS: Final = "matrix.hazards"

SPECS = of_kernels(
    {
        _HAZARDS: "Pairs of instructions that stand closer than a matrix instruction's registers "
        "allow, on some path: how many `pairs`; of the one that lacks most the `first` and the "
        "`second` instruction with their lines in the assembly (`first_line`, `second_line`), the "
        "wait states that are `needed` and those that lie `between`, and the `s_nop` that fills "
        "the gap, `at` which line of the source the second is. Unknown where the target has no "
        "such hazards",
    }
)


def compute(subject: Subject) -> Iterator[Metric]:
    """The pairs of a kernel that stand too close."""
    from ..emulator.checks.hazards import ARCHS, hazards_of

    machine, function = subject.machine, subject.function
    if machine is None or machine.arch not in ARCHS:
        reason = "it is looked for on CDNA2 to CDNA4 alone"
        yield Metric(_HAZARDS, None, "mapping", "derived", reason)
        return
    registers = registers_of(function, target_of(function, machine.arch))
    hazards = hazards_of(
        function, registers.decoded, registers.effects, machine.arch, machine.mfma_cycles
    )
    value: dict[str, Scalar] = {"pairs": len(hazards)}
    if hazards:
        worst = max(hazards, key=lambda hazard: hazard.needed - hazard.between)
        value.update(_described(worst, function.instructions))
    yield Metric(_HAZARDS, value, "mapping", "derived")


def _described(hazard: Hazard, code: tuple[Instruction, ...]) -> dict[str, Scalar]:
    first, second = code[hazard.first], code[hazard.second]
    return {
        "first": first.mnemonic,
        "at": LineName.of([second, first]),
        "first_line": first.line,
        "second": second.mnemonic,
        "second_line": second.line,
        "needed": hazard.needed,
        "between": hazard.between,
        "s_nop": hazard.needed - hazard.between - 1,
    }
