"""Loops that go on by the size of the grid.

Such a loop (`for (i = global id; i < n; i += gridDim.x * blockDim.x)`) is right for any number of
workgroups, and usually launched with a thread for each element: then it goes round once. What a
loop saves from one iteration to the next it saves only where fewer workgroups are launched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import Final

from ..isa.vector_halves import written_registers
from ..isa.waitflow.registers import VCC, named, split_destination
from ..model import Function, Instruction, Loop, Metric, MetricSpec, Scalar
from .argument_words import DISPATCH, KERNARG, LoadedWords
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
_SUM: Final = re.compile(r"[sv]_(?:add|sub)")
_FUSED: Final = re.compile(r"[sv]_(?:mad|lshl_(?:add|or))")
"""What adds its last operand to a product or to a shifted value."""
_ADDS: Final = re.compile(
    r"[sv]_(?:add_(?:co_|nc_)?(?:ci_)?[ui](?:32|64)|add_co_ci|addc|lshl_add_u|add3|add_lshl)"
)
_MOVES: Final = re.compile(r"[sv]_mov_b(?:32|64)")
_COUNTS_BEFORE_SIZES: Final = (-12, -8, -4)
"""Where the numbers of workgroups in x, y and z stand, from the workgroup's size on: LLVM's
AMDGPUUsage, "Code Object V5 Kernel Argument Metadata"."""
_GRID_SIZES: Final = (12, 16, 20)
"""Where the grid's size stands in the dispatch packet: HSA Platform System Architecture, 2.9.6."""


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
    if not function.loops:
        return set()
    wanted = {(DISPATCH, offset) for offset in _GRID_SIZES}
    size_offset = function.resources.group_size_offset
    if size_offset is not None:
        wanted |= {(KERNARG, size_offset + by) for by in _COUNTS_BEFORE_SIZES}
    words = LoadedWords(function, wanted)
    sizes: set[int] = set()
    """Registers that hold the grid's size or a multiple of it."""
    steps: dict[int, set[int]] = {}
    """Index of an addition -> its operands that do."""
    for inst in function.instructions:
        written = written_registers(inst)
        reads = named(split_destination(inst.operands)[1])
        own = sizes.intersection(reads)
        loaded = words.after(inst, written)
        if own and _ADDS.match(inst.op.name):
            steps[inst.index] = own
        if loaded:
            sizes = sizes - written | loaded
        elif own and _PASSED_ON.match(inst.op.name) and _is_multiple(inst, sizes):
            sizes |= written
        else:
            sizes -= written
    return {loop.id for loop in function.loops if steps and _steps_so(function, loop, steps)}


def _is_multiple(inst: Instruction, sizes: Set[int]) -> bool:
    """Whether all that an instruction adds to a multiple of a size is one itself.

    A position, such as what a loop carries, is none.
    """
    operands = split_destination(inst.operands)[1]
    if _FUSED.match(inst.op.name):
        operands = operands.rpartition(",")[2]
    elif not _SUM.match(inst.op.name):
        return True
    return sizes.issuperset(set(named(operands)).difference(VCC))


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
