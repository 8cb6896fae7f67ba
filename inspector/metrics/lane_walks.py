"""Loops in which each lane goes along a stretch of memory of its own, from where it was told to.

A lane that takes a row of a sparse matrix, or the row of a table that an index names, begins where
a value in memory says, and moves by an element in each iteration. Where two lanes begin is not
known, but they lie no nearer than their stretches are long: an access touches a line for each lane,
and the iterations after it touch the same lines again. (Of lanes whose places follow from their
numbers `lane_metrics` counts the lines.)
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from math import ceil
from typing import Final

from msgspec import Struct

from ..isa.graph.cfg import innermost_loops
from ..isa.mnemonics import access_bits
from ..model import Instruction, Loop, Machine, Metric, Scalar
from .entries import Unknown, of_loops
from .load_paths import code_of, load_paths
from .loop_steps import access_steps
from .residency import residency, shared_cycles
from .subject import LineName, Subject

WALK_SPECS: Final = of_loops(
    {
        "lane_walks": "Accesses of global memory in a hot loop whose address rests on a value "
        "that each lane has loaded for itself, and moves by at most half a cache line in an "
        "iteration: each lane goes along a stretch of its own. How many `accesses` of the `of` on "
        "the path with most loads, the first `at` which line; `lines` that one wave's touch if no "
        "two lanes share one, `ideal` for as many bytes side by side; `cycles` that the vector "
        "cache takes for these and for the accesses whose lines are known, of all resident waves, "
        "`least` with the ideal ones in place of these",
    },
    "estimated",
)

_CLASSES: Final = frozenset(("global_load", "global_store", "atomic"))


def walks(
    subject: Subject, hot: Set[str], metrics: Mapping[str, Metric]
) -> dict[str, dict[str, Scalar] | Unknown]:
    """Hot loop -> the value of the metric of `WALK_SPECS`."""
    function, machine = subject.function, subject.machine
    note = _unknown_reason(subject)
    loops = [loop for loop in function.loops if loop.id in hot]
    placed: frozenset[int] = frozenset()
    if not note and hot and machine is not None:
        from ..lanes.lane_dependence import placed_by_lanes

        accesses = frozenset(i.index for i in function.instructions if i.cls in _CLASSES)
        alike = {
            index
            for index, use in subject.uses.items()
            if use.addresses is not None and use.lanes and 2 * use.addresses <= use.lanes
        }
        try:
            placed = placed_by_lanes(function, machine, accesses, alike)
        except Exception:  # a bug in the emulator must not cost the report
            note = "what its addresses rest on was not worked out"
    if note or machine is None:
        return dict.fromkeys((loop.id for loop in loops), Unknown(note))
    return {
        loop.id: Unknown("it has several entries")
        if loop.irreducible
        else _of_loop(subject, machine, loop, placed, metrics)
        for loop in loops
    }


def _unknown_reason(subject: Subject) -> str:
    """Why no loop can be looked at; empty where some can."""
    function, machine = subject.function, subject.machine
    if subject.ttgir is not None:
        return "not looked for in Triton's code"
    if machine is None or machine.cache_line_bytes is None or machine.l1_bytes_per_clk is None:
        return "the cache lines of the target, or their rate, are not known"
    if function.calls or function.unread:
        return "not all of the code is known"
    if not subject.facts.analyse_lanes:
        return "not looked for"
    return ""


class _Walk(Struct, frozen=True):
    """An access along which each lane goes, and the bytes of each lane."""

    inst: Instruction
    size: int


def _of_loop(
    subject: Subject,
    machine: Machine,
    loop: Loop,
    placed: frozenset[int],
    metrics: Mapping[str, Metric],
) -> dict[str, Scalar]:
    """The metric's value for an iteration of a loop."""
    function = subject.function
    owner = innermost_loops(function)
    path = [number for number in load_paths(function, loop)[0] if owner[number].id == loop.id]
    code = [inst for inst in code_of(function, *path) if inst.cls in _CLASSES]
    steps: Mapping[int, int] = {}
    if any(inst.index in placed for inst in code):
        steps = access_steps(function, path, loop.blocks, _CLASSES)
    line = machine.cache_line_bytes or 0
    found = []
    for inst in code:
        bits, step = access_bits(inst.op, inst.operands), abs(steps.get(inst.index, 0))
        if inst.index in placed and bits is not None and 0 < step <= line // 2:
            found.append(_Walk(inst, bits // 8))
    lanes = function.resources.wave_size or machine.wave_sizes[0]
    lanes = min(lanes, subject.facts.workgroup_size or lanes)
    ideal = sum(ceil(lanes * walk.size / line) for walk in found)
    others = [inst for inst in code if all(inst is not walk.inst for walk in found)]
    lines = [use.lines for i in others if (use := subject.uses.get(i.index)) and use.lines]
    return {
        "accesses": len(found),
        "of": len(code),
        "at": LineName.of([walk.inst for walk in found]),
        "lines": lanes * len(found),
        "ideal": ideal,
        "cycles": _cycles(subject, machine, sum(lines) + lanes * len(found), metrics),
        "least": _cycles(subject, machine, sum(lines) + ideal, metrics),
    }


def _cycles(
    subject: Subject, machine: Machine, lines: float, metrics: Mapping[str, Metric]
) -> float | None:
    """Clocks that the vector cache takes for some lines of each resident wave; None: unknown."""
    resident = residency(machine, subject.demand, metrics) if subject.demand else None
    size, rate = machine.cache_line_bytes, machine.l1_bytes_per_clk
    if resident is None or size is None or rate is None:
        return None
    return shared_cycles("l1", lines * size / rate, resident, machine)
