"""Loops that go on by the size of the grid.

Such a loop (`for (i = global id; i < n; i += gridDim.x * blockDim.x)`) is right for any number of
workgroups, and usually launched with a thread for each element: then it goes round once. What a
loop saves from one iteration to the next it saves only where fewer workgroups are launched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ..isa.vector_halves import written_registers
from ..isa.waitflow.registers import named, split_destination
from ..model import Function, Instruction, Loop, Metric, MetricSpec, Scalar
from .subject import Subject

GRID_STRIDE: Final = "loop.grid_stride"

SPECS: Final = (
    MetricSpec(
        GRID_STRIDE,
        "mapping",
        "derived",
        "loop",
        "Whether it goes on by the size of the grid (`by_grid`), and of such a loop the `cus` of "
        "the GPU: launched with a thread for each element it goes round once. None for Triton's "
        "code",
    ),
)

_PASSED_ON: Final = re.compile(
    r"[sv]_(?:mov|mul|lshl|lshr|ashr|add|sub|and_b32|mad|bfe|readfirstlane|cvt)"
)
_ADDS: Final = re.compile(
    r"[sv]_(?:add_(?:co_|nc_)?(?:ci_)?[ui](?:32|64)|add_co_ci|addc|lshl_add_u|add3|add_lshl)"
)
_MOVES: Final = re.compile(r"[sv]_mov_b(?:32|64)")
_OFFSET: Final = re.compile(r",\s*(-?0x[0-9a-f]{1,8}|-?\d{1,9})\s*$")
_FIRST_SCALAR: Final = 8192
"""The number of s0, by `waitflow.registers`."""
_COUNTS_BEFORE_SIZES: Final = (-12, -8, -4)
"""Where the numbers of workgroups in x, y and z stand, from the workgroup's size on: LLVM's
AMDGPUUsage, "Code Object V5 Kernel Argument Metadata"."""
_GRID_SIZES: Final = (12, 16, 20)
"""Where the grid's size stands in the dispatch packet: HSA Platform System Architecture, 2.9.6."""

_KERNARG, _DISPATCH = "kernarg", "dispatch"
_Pointers = dict[int, tuple[str, int]]
"""Register of a pointer's low word -> what it points to, and bytes from there."""


def loop_metrics(subject: Subject) -> dict[str, dict[str, Metric]]:
    """Loop id -> its metric by name."""
    function = subject.function
    if subject.ttgir is not None:
        note = "not looked for in Triton's code"
        unknown = Metric(GRID_STRIDE, None, "mapping", "derived", note)
        return {loop.id: {GRID_STRIDE: unknown} for loop in function.loops}
    by_grid = _by_grid(function)
    cus = subject.machine.cus if subject.machine is not None else None
    metrics = {}
    for loop in function.loops:
        is_by_grid = loop.id in by_grid
        value: Mapping[str, Scalar] = {"by_grid": is_by_grid, "cus": cus if is_by_grid else None}
        metrics[loop.id] = {GRID_STRIDE: Metric(GRID_STRIDE, value, "mapping", "derived")}
    return metrics


def _by_grid(function: Function) -> set[str]:
    """Ids of the loops that add the grid's size, or a multiple of it, to what they carry."""
    resources = function.resources
    start = resources.wave_start
    if start is None or not function.loops:
        return set()
    wanted: set[tuple[str, int]] = {(_DISPATCH, offset) for offset in _GRID_SIZES}
    if resources.group_size_offset is not None:
        wanted |= {(_KERNARG, resources.group_size_offset + by) for by in _COUNTS_BEFORE_SIZES}
    pointers: _Pointers = {}
    for register, place in ((start.kernarg_ptr, _KERNARG), (start.dispatch_ptr, _DISPATCH)):
        if register is not None:
            pointers[_FIRST_SCALAR + register] = place, 0
    sizes: set[int] = set()
    """Registers that hold the grid's size or a multiple of it."""
    steps: dict[int, set[int]] = {}
    """Index of an addition -> its operands that do."""
    for inst in function.instructions:
        written = written_registers(inst)
        reads = named(split_destination(inst.operands)[1])
        own = sizes.intersection(reads)
        if inst.cls == "smem_load":
            loaded = _loaded(inst, pointers, wanted)
            sizes -= written
            sizes |= loaded
            pointers = {reg: to for reg, to in pointers.items() if reg not in written}
            continue
        if own and _ADDS.match(inst.op.name):
            steps[inst.index] = own
        moved = _moved(inst, pointers)
        if not written.isdisjoint(pointers):
            pointers = {reg: to for reg, to in pointers.items() if reg not in written}
        pointers |= moved
        if own and _PASSED_ON.match(inst.op.name):
            sizes |= written
        else:
            sizes -= written
    return {loop.id for loop in function.loops if steps and _steps_so(function, loop, steps)}


def _loaded(inst: Instruction, pointers: _Pointers, wanted: set[tuple[str, int]]) -> set[int]:
    """The registers that a scalar load fills with the grid's size."""
    destination, source = split_destination(inst.operands)
    base = next((reg for reg in named(source) if reg in pointers), None)
    if base is None:
        return set()
    place, begin = pointers[base]
    offset = _OFFSET.search(inst.operands)
    begin += int(offset[1], 0) if offset else 0
    return {
        register
        for number, register in enumerate(named(destination))
        if (place, begin + 4 * number) in wanted
    }


def _moved(inst: Instruction, pointers: _Pointers) -> _Pointers:
    """The pointer that an instruction makes of another one, by its low word."""
    destination, source = split_destination(inst.operands)
    made, sources = named(destination), named(source)
    if not made or not sources or sources[0] not in pointers:
        return {}
    place, begin = pointers[sources[0]]
    if inst.op.name in ("s_mov_b64", "s_mov_b32"):
        return {made[0]: (place, begin)}
    offset = _OFFSET.search(inst.operands)
    if inst.op.name in ("s_add_u32", "s_add_nc_u64", "s_add_co_u32") and offset:
        return {made[0]: (place, begin + int(offset[1], 0))}
    return {}


def _steps_so(function: Function, loop: Loop, steps: Mapping[int, set[int]]) -> bool:
    """Whether an addition of a loop's code adds a size to what the loop carries."""
    code = [
        inst
        for number in loop.blocks
        for inst in function.instructions[
            function.blocks[number].start : function.blocks[number].stop
        ]
    ]
    written = {register for inst in code for register in written_registers(inst)}
    copied = {
        (source, result)
        for inst in code
        if _MOVES.match(inst.op.name)
        for result, source in zip(
            named(split_destination(inst.operands)[0]),
            named(split_destination(inst.operands)[1]),
            strict=False,
        )
    }
    for inst in code:
        sizes = steps.get(inst.index, set()) - written
        if not sizes:
            continue
        carried = set(named(split_destination(inst.operands)[1])) - sizes
        for result in written_registers(inst):
            if result in carried or any((result, other) in copied for other in carried):
                return True
    return False
