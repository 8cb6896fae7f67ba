"""The purposes of a kernel's waits, and its missing waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ..isa.graph.cfg import innermost_loops
from ..isa.waitflow.slack import slacks
from ..isa.waitflow.steps import steps_of
from ..isa.waitflow.unwaited_stores import UnwaitedStore
from ..isa.waitflow.verdicts import Verdicts, judge
from ..machines import matrix_cycles
from ..model import Function, Instruction, Machine, WaitOp
from .subject import MATRIX_CLASSES, LaunchedCode, Synchronisation, wait_counts
from .unordered_stores import PlacesAt, unordered_stores

# After it, operands stand for other VGPRs than they name (gfx1250).
_MOVES_REGISTERS = "s_set_vgpr_msb"


def synchronisation(code: LaunchedCode, places: Callable[[], PlacesAt]) -> Synchronisation:
    """The kernel's waits with their verdicts.

    Verdicts are None where the target is unknown, or registers or code are.

    `places`: where the lanes of its accesses lie; asked for by few kernels.
    """
    function, machine = code.function, code.machine
    loops = _loops(function)
    unknown = machine is None or not function.all_read  # a wait may stand in what was not read
    if unknown or any(i.op.name == _MOVES_REGISTERS for i in function.instructions):
        undecided = {
            inst.index: _undecided(inst, machine, loops)
            for inst in function.instructions
            if inst.cls == "wait"
        }
        return Synchronisation(undecided, is_judged=False)
    assert machine is not None
    steps = steps_of(function, machine.counters, partial(wait_counts, machine=machine))
    verdicts = judge(steps, function, machine.counters)
    cycles = {
        inst.index: matrix_cycles(machine, inst.op.name, inst.operands)
        for inst in function.instructions
        if inst.cls in MATRIX_CLASSES
    }
    measured = slacks(steps, function.blocks, cycles, verdicts.waits)
    lines = [inst.line for inst in function.instructions]
    waits_at: dict[int, list[WaitOp]] = {}
    for wait, slack in zip(verdicts.waits, measured, strict=True):
        inst = function.instructions[wait.index]
        waits_for = tuple(lines[index] for index in wait.waits_for)
        waits_at.setdefault(wait.index, []).append(
            WaitOp(
                line=inst.line,
                counter=wait.counter,
                n=wait.n,
                loop=loops.get(wait.index),
                verdict=wait.verdict,
                could_be=wait.could_be,
                waits_for=waits_for,
                slack=slack.instructions if slack is not None else None,
                slack_cycles=slack.cycles if slack is not None else None,
                source=inst.loc,
            )
        )
    _add_missing(waits_at, function, verdicts, loops)
    _add_unordered(waits_at, function, unordered_stores(code, steps, places), loops)
    return Synchronisation(waits_at, is_judged=True)


def _loops(function: Function) -> dict[int, str]:
    """Instruction's index -> id of the innermost loop around it, for instructions in loops."""
    loop_ids: dict[int, str] = {}
    for number, loop in innermost_loops(function).items():
        block = function.blocks[number]
        loop_ids.update(dict.fromkeys(range(block.start, block.stop), loop.id))
    return loop_ids


def _add_missing(
    waits_at: dict[int, list[WaitOp]],
    function: Function,
    verdicts: Verdicts,
    loops: Mapping[int, str],
) -> None:
    """Adds an entry for each missing wait."""
    instructions = function.instructions
    for gap in verdicts.missing:
        inst = instructions[gap.index]
        entry = WaitOp(
            line=inst.line,
            counter=gap.counter,
            n=gap.n,
            loop=loops.get(gap.index),
            source=inst.loc,
            verdict="missing",
            could_be=None,
            waits_for=(instructions[gap.producer].line,),
        )
        waits_at.setdefault(gap.index, []).append(entry)


def _add_unordered(
    waits_at: dict[int, list[WaitOp]],
    function: Function,
    stores: Sequence[UnwaitedStore],
    loops: Mapping[int, str],
) -> None:
    """Adds an entry at the barrier for each store that has to be waited for before it."""
    instructions = function.instructions
    for each in stores:
        inst = instructions[each.barrier]
        entry = WaitOp(
            line=inst.line,
            counter=each.counter,
            n=each.n,
            loop=loops.get(each.barrier),
            source=inst.loc,
            verdict="missing",
            waits_for=(instructions[each.store].line,),
            read_at=instructions[each.load].line,
        )
        waits_at.setdefault(each.barrier, []).append(entry)


def _undecided(
    inst: Instruction, machine: Machine | None, loops: Mapping[int, str]
) -> list[WaitOp]:
    return [
        WaitOp(line=inst.line, counter=counter, n=n, loop=loops.get(inst.index), source=inst.loc)
        for counter, n in wait_counts(inst, machine).items()
    ]
