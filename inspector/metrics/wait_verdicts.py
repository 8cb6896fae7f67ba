"""The purposes of a kernel's waits, and its missing waits.

Global stores that a barrier does not put in order with another wave's loads, on RDNA.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ..isa.graph.cfg import innermost_loops
from ..isa.waitflow.slack import slacks
from ..isa.waitflow.steps import CounterSteps, steps_of
from ..isa.waitflow.unwaited_stores import UnwaitedStore, has_special_barriers, unwaited_stores
from ..isa.waitflow.verdicts import Verdicts, judge
from ..machines import matrix_cycles
from ..model import Function, Instruction, Machine, WaitOp
from .subject import MATRIX_CLASSES, LaunchedCode, Synchronisation, wait_counts

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


if TYPE_CHECKING:
    import numpy as np

    from ..lanes.addresses import Places

    _Bytes = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

PlacesAt = Mapping[int, "Sequence[Places]"]
"""Index of an access -> where its lanes lie."""


def unordered_stores(
    code: LaunchedCode, steps: CounterSteps, places: Callable[[], PlacesAt]
) -> list[UnwaitedStore]:
    """The stores whose bytes another wave certainly loads, one load for each store.

    Nothing is told in CU mode, where the waves of a workgroup share a cache, nor of a launch that
    may have one wave.

    `steps`: reduced for the dataflow; `places`: where lanes lie; worked out only where a store and
    a load are in question.
    """
    machine, demand = code.machine, code.demand
    if machine is None or (machine.eus_cu_mode is not None and demand.cu_mode):
        return []
    if (demand.waves_per_workgroup or 1) == 1 or demand.waves_from == "largest":
        return []
    pairs = unwaited_stores(steps, code.function, machine.counters)
    if not pairs or has_special_barriers(code.function):
        return []
    at = places()
    found: dict[int, UnwaitedStore] = {}
    for pair in pairs:
        if pair.store not in found and _meet(at.get(pair.store, ()), at.get(pair.load, ())):
            found[pair.store] = pair
    return list(found.values())


def _meet(stores: Sequence[Places], loads: Sequence[Places]) -> bool:
    """Whether in all draws a wave loads what another one stores, and not it itself."""
    known = [each for each in (*stores, *loads) if not each.scattered and each.space == "global"]
    if not stores or not loads or len(known) < len(stores) + len(loads):
        return False
    draws = range(known[0].where.shape[0])
    return all(_meet_in(stores, loads, draw) for draw in draws)


def _meet_in(stores: Sequence[Places], loads: Sequence[Places], draw: int) -> bool:
    import numpy as np  # few kernels have such pairs

    stored, storing = _bytes_of(stores, draw)
    loaded, loading = _bytes_of(loads, draw)
    shared = np.isin(loaded, stored)
    if not shared.any():
        return False
    loaded, loading = loaded[shared], loading[shared]
    base = int(min(stored.min(), loaded.min()))
    own = np.isin((loaded - base) * _WAVES + loading, (stored - base) * _WAVES + storing)
    return not own.all()


_WAVES = 64
"""More than a workgroup has."""


def _bytes_of(accesses: Sequence[Places], draw: int) -> tuple[_Bytes, _Bytes]:
    """The addresses of all bytes that are accessed in a draw, and the wave of each."""
    import numpy as np

    addresses, waves = [], []
    for each in accesses:
        where = each.where[draw]
        active = np.ones(where.shape, bool) if each.active is None else each.active[draw]
        wave = np.nonzero(active)[0]
        addresses.append((where[active][:, None] + np.arange(each.size)).reshape(-1))
        waves.append(np.repeat(wave, each.size))
    return np.concatenate(addresses), np.concatenate(waves)
