"""What each wait of a kernel is there for, and where one is missing, as entries of the report."""

from __future__ import annotations

from functools import partial

from kinspect.inspector.isa.waitflow.steps import steps_of
from kinspect.inspector.isa.waitflow.verdicts import judge
from kinspect.inspector.metrics.subject import Subject, wait_counts
from kinspect.inspector.model import Instruction, Machine, WaitOp

# After it, operands name other VGPRs than they say (gfx1250).
_MOVES_REGISTERS = "s_set_vgpr_msb"


def wait_ops(subject: Subject) -> dict[int, list[WaitOp]]:
    """Instruction's index -> one entry for each counter that it waits for, or misses a wait of.

    Loops are left open. Verdicts are None where the target is unknown, or registers cannot be told.
    """
    function, machine = subject.function, subject.machine
    found: dict[int, list[WaitOp]] = {}
    lines = [inst.line for inst in function.instructions]
    if machine is None or any(i.op.name == _MOVES_REGISTERS for i in function.instructions):
        for inst in function.instructions:
            if inst.cls == "wait":
                found[inst.index] = _undecided(inst, machine)
        return found
    steps = steps_of(function, machine.counters, partial(wait_counts, machine=machine))
    judged, missing = judge(steps, function.blocks, machine.counters)
    for one in judged:
        inst = function.instructions[one.index]
        waits_for = tuple(lines[index] for index in one.waits_for)
        found.setdefault(one.index, []).append(
            WaitOp(
                *(inst.line, one.counter, one.n, None, inst.loc),
                *(one.verdict, one.could_be, waits_for),
            )
        )
    for gap in missing:
        inst = function.instructions[gap.index]
        entry = WaitOp(
            *(inst.line, gap.counter, gap.n, None, inst.loc),
            *("missing", None, (lines[gap.producer],)),
        )
        found.setdefault(gap.index, []).append(entry)
    return found


def _undecided(inst: Instruction, machine: Machine | None) -> list[WaitOp]:
    return [
        WaitOp(inst.line, counter, n, None, inst.loc)
        for counter, n in wait_counts(inst, machine).items()
    ]
