"""Wait states that hand-written code lacks around matrix instructions.

CDNA2 to CDNA4 do not wait there by themselves (`emulator.checks.hazards`); compilers put them in.
"""

from __future__ import annotations

from ..isa.dataflow.code_registers import registers_of
from ..isa.dataflow.execution_target import target_of
from ..model import Scalar
from .entries import Unknown, of_kernels
from .subject import LineName, Subject

HAZARD_SPECS = of_kernels(
    {
        "matrix.hazards": "Pairs of instructions that stand closer than a matrix instruction's "
        "registers allow, on some path: how many `pairs`; of the one that lacks most the `first` "
        "and the `second` instruction with their lines in the assembly (`first_line`, "
        "`second_line`), the wait states that are `needed` and those that lie `between`, and the "
        "`s_nop` that fills the gap, `at` which line of the source the second is. Unknown where "
        "the target has no such hazards",
    }
)


def hazards(subject: Subject) -> dict[str, Scalar] | Unknown:
    """The value of the metric of `HAZARD_SPECS`."""
    from ..emulator.checks.hazards import ARCHS, hazards_of

    machine, function = subject.machine, subject.function
    if machine is None or machine.arch not in ARCHS:
        return Unknown("it is looked for on CDNA2 to CDNA4 alone")
    registers = registers_of(function, target_of(function, machine.arch))
    found = hazards_of(
        function, registers.decoded, registers.effects, machine.arch, machine.mfma_cycles
    )
    if not found:
        return {"pairs": 0}
    worst = max(found, key=lambda hazard: hazard.needed - hazard.between)
    first, second = (function.instructions[at] for at in (worst.first, worst.second))
    return {
        "pairs": len(found),
        "first": first.mnemonic,
        "at": LineName.of([second, first]),
        "first_line": first.line,
        "second": second.mnemonic,
        "second_line": second.line,
        "needed": worst.needed,
        "between": worst.between,
        "s_nop": worst.needed - worst.between - 1,
    }
