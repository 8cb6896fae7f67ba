"""Finds the instruction that caused a stop: at the pc, before it, or still outstanding.

A wave does not wait for a memory operation before it goes on, and without precise memory mode the
fault is reported whenever the hardware learns of it. So the pc of a memory violation stands after
the culprit, and what may be outstanding at the pc are the suspects. (ROCdbgapi,
AMD_DBGAPI_MEMORY_PRECISION; in precise mode the pc is that of the instruction after the culprit:
rocr-debug-agent's help text of --precise-memory.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from ...isa.waitflow.counters import RAISING
from ...isa.waitflow.pending import outstanding
from ...isa.waitflow.steps import CounterStep, CounterSteps, steps_of
from ...isa.waitflow.waits import decode_wait
from ...model import Function, Instruction, Machine

IMPRECISE = frozenset({"MEMORY_VIOLATION", "ADDRESS_ERROR"})
"""Stop reasons of memory operations, which the pc has left behind."""
ARITHMETIC = frozenset(
    {
        *("FP_INPUT_DENORMAL", "FP_DIVIDE_BY_0", "FP_OVERFLOW", "FP_UNDERFLOW", "FP_INEXACT"),
        *("FP_INVALID_OPERATION", "INT_DIVIDE_BY_0"),
    }
)
"""Stop reasons of vector arithmetic; the pc may be some instructions further on."""
TRAPS = frozenset({"ASSERT_TRAP", "DEBUG_TRAP", "TRAP"})
_PROBE = -1
_MOST_WAITED = 8

_MEMORY = frozenset(
    {
        *("global_load", "global_store", "scratch_load", "scratch_store", "atomic"),
        *("smem_load", "smem_store", "lds_direct", "lds_direct_store", "image", "bvh"),
    }
)
"""Classes that reach memory outside of the CU: only these know pages."""


def reaches_memory(inst: Instruction) -> bool:
    """Tells whether an instruction can access a missing page."""
    return inst.cls in _MEMORY


def previous(function: Function, index: int) -> Instruction | None:
    """Returns the preceding instruction, by address; None at the function's begin."""
    return function.instructions[index - 1] if index > 0 else None


def trap_at(function: Function, index: int) -> Instruction | None:
    """Returns the `s_trap` of a trapped wave: at the pc, or before it on targets that step past."""
    current = function.instructions[index]
    preceding = previous(function, index)
    for inst in (current, preceding):
        if inst is not None and inst.op.name == "s_trap":
            return inst
    return None


def outstanding_at(function: Function, index: int, machine: Machine) -> tuple[Instruction, ...]:
    """Returns the memory operations that may be outstanding at an instruction, newest first.

    A wait for everything is inserted there; the operations that it ends are outstanding.
    """
    block = next((b.index for b in function.blocks if b.start <= index < b.stop), None)
    if block is None:
        return ()
    waits_of = partial(_waits_of, machine=machine)
    steps = _with_probe(
        steps_of(function, machine.counters, waits_of), block, index, machine.counters
    )
    ended = outstanding(steps, function.blocks, machine.counters).at_wait.get(_PROBE, {})
    places = {steps.producers[n] for numbers in ended.values() for n in numbers}
    operations = [function.instructions[i] for i in places]
    return tuple(
        sorted((i for i in operations if reaches_memory(i)), key=partial(_distance, index))
    )


def waited_before(function: Function, index: int) -> tuple[Instruction, ...]:
    """Returns the last memory operations before an instruction, nearest first."""
    operations = [
        i for i in function.instructions[:index] if i.cls in RAISING and reaches_memory(i)
    ]
    return tuple(reversed(operations[-_MOST_WAITED:]))


def _distance(index: int, inst: Instruction) -> tuple[bool, int]:
    # Operations behind the pc were issued in an earlier iteration of a loop: they are older.
    return (inst.index >= index, -inst.index)


def _with_probe(
    steps: CounterSteps, block: int, index: int, maxima: Mapping[str, int]
) -> CounterSteps:
    """Inserts a wait for everything before the instruction at `index` into the steps."""
    probe = CounterStep(_PROBE, waits=dict.fromkeys(maxima, 0))
    earlier: list[CounterStep] = []
    later: list[CounterStep] = []
    for step in steps.blocks[block]:
        if step.run:
            parts = _split(step.run, index)
            earlier += parts[0]
            later += parts[1]
        else:
            (earlier if step.index < index else later).append(step)
    blocks = list(steps.blocks)
    blocks[block] = (*earlier, probe, *later)
    return replace(steps, blocks=tuple(blocks))


def _split(
    run: Sequence[tuple[int, int]], index: int
) -> tuple[list[CounterStep], list[CounterStep]]:
    halves = [r for r in run if r[0] < index], [r for r in run if r[0] >= index]
    parts: list[list[CounterStep]] = []
    for half in halves:
        touches = 0
        for _, ids in half:
            touches |= ids
        parts.append([CounterStep(half[0][0], (), touches, run=tuple(half))] if half else [])
    return parts[0], parts[1]


def _waits_of(inst: Instruction, machine: Machine) -> Mapping[str, int]:
    if inst.cls != "wait":
        return {}
    return decode_wait(inst.op.name, inst.operands, machine.waitcnt_fields, machine.counters)
