"""Loops that go on by the size of the grid or of the workgroup.

A loop by the grid (`for (i = global id; i < n; i += gridDim.x * blockDim.x)`) is right for any
number of workgroups, and usually launched with a thread for each element: then it goes round once.
What a loop saves from one iteration to the next it saves only where fewer workgroups are launched.
So it is with a row that a workgroup takes (`for (i = threadIdx.x; i < n; i += blockDim.x)`): right
for any row, and often launched with a work-item for each of its elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final, NamedTuple

from ..isa.vector_halves import halves, results, written_registers
from ..isa.waitflow.registers import VCC, named, split_destination
from ..model import Function, Instruction, Loop, Metric, MetricSpec, Scalar
from .argument_words import DISPATCH, KERNARG, LoadedWords, Word
from .subject import Subject

GRID_STRIDE: Final = "loop.grid_stride"

SPECS: Final = (
    MetricSpec(
        GRID_STRIDE,
        "mapping",
        "derived",
        "loop",
        "Whether it goes on, and ends, by steps of the grid's size (`by_grid`), and of such a "
        "loop the `cus` of the GPU: launched with a thread for each element it goes round once; "
        "`group`: `workgroup` where it goes on by the size of that: it goes round once where the "
        "workgroup has a work-item for each element. None for Triton's code",
    ),
)

_PASSED_ON: Final = re.compile(
    r"[sv]_(?:dual_)?(?:mov|mul|lshl|lshr|ashr|add|sub|and_b32|mad|bfe|readfirstlane|cvt)"
)
_SUM: Final = re.compile(r"[sv]_(?:dual_)?(?:add|sub)")
_FUSED: Final = re.compile(r"[sv]_(?:mad|lshl[1-4]?_(?:add|or))")
"""What adds its last operand to a product or to a shifted value."""
_ADDS: Final = re.compile(
    r"[sv]_(?:dual_)?(?:add_(?:co_|nc_)?(?:ci_)?[ui](?:32|64)|add_co_ci|addc|lshl_add_u|add3|add_lshl)"
)
_MOVES: Final = re.compile(r"[sv]_(?:dual_)?mov_b(?:32|64)")
_COMPARES: Final = re.compile(r"(?:v_cmpx?|s_cmpk?)_")
_READS_MEMORY: Final = frozenset(
    ("global_load", "smem_load", "scratch_load", "lds_read", "atomic", "lds_atomic")
)
_COUNTS_BEFORE_SIZES: Final = (-12, -8, -4)
"""Where the numbers of workgroups in x, y and z stand, from the workgroup's size on: LLVM's
AMDGPUUsage, "Code Object V5 Kernel Argument Metadata"."""
_GRID_SIZES: Final = (12, 16, 20)
"""Where the grid's size stands in the dispatch packet: HSA Platform System Architecture, 2.9.6."""
_GROUP_SIZES: Final = (0, 4)
"""The words with the workgroup's size in x and y, and in z, from where the former stands on."""
_GROUP_SIZES_DISPATCHED: Final = (4, 8)
"""The same in the dispatch packet."""


class _Step(NamedTuple):
    """An addition of a size.

    Args:
        instruction: its index.
        sizes: registers that it reads with the size or a multiple of it.
        others: those that it reads besides.
        results: those that it writes.
    """

    instruction: int
    sizes: Set[int]
    others: Set[int]
    results: Set[int]


def loop_metrics(subject: Subject) -> dict[str, dict[str, Metric]]:
    """Loop id -> its metric by name."""
    function = subject.function
    if subject.ttgir is not None:
        note = "not looked for in Triton's code"
        unknown = Metric(GRID_STRIDE, None, "mapping", "derived", note)
        return {loop.id: {GRID_STRIDE: unknown} for loop in function.loops}
    by_grid = _by_grid(function)
    by_group = _by_group(function) - by_grid
    cus = subject.machine.cus if subject.machine is not None else None
    metrics = {}
    for loop in function.loops:
        is_by_grid = loop.id in by_grid
        value: Mapping[str, Scalar] = {
            "by_grid": is_by_grid,
            "cus": cus if is_by_grid else None,
            "group": "workgroup" if loop.id in by_group else None,
        }
        metrics[loop.id] = {GRID_STRIDE: Metric(GRID_STRIDE, value, "mapping", "derived")}
    return metrics


def _by_grid(function: Function) -> set[str]:
    """Ids of the loops that add the grid's size, or a multiple of it, to what they carry."""
    wanted = {(DISPATCH, offset) for offset in _GRID_SIZES}
    size_offset = function.resources.group_size_offset
    if size_offset is not None:
        wanted |= {(KERNARG, size_offset + by) for by in _COUNTS_BEFORE_SIZES}
    return _by_size(function, wanted)


def _by_group(function: Function) -> set[str]:
    """Ids of the loops that add the workgroup's size, or a multiple of it, to what they carry."""
    wanted = {(DISPATCH, offset) for offset in _GROUP_SIZES_DISPATCHED}
    size_offset = function.resources.group_size_offset
    if size_offset is not None:
        wanted |= {(KERNARG, size_offset + by) for by in _GROUP_SIZES}
    return _by_size(function, wanted)


def _by_size(function: Function, wanted: Set[Word]) -> set[str]:
    """Ids of the loops that add one of some words, or a multiple of it, to what they carry."""
    if not function.loops:
        return set()
    words = LoadedWords(function, wanted)
    sizes: set[int] = set()
    """Registers that hold the size or a multiple of it."""
    steps: list[_Step] = []
    for inst in function.instructions:
        written = written_registers(inst)
        passed_on = words.after(inst, written)
        for name, operands in halves(inst) if sizes else ():
            reads = set(named(split_destination(operands)[1]))
            own = sizes & reads
            if own and _ADDS.match(name):
                steps.append(_Step(inst.index, own, reads - own, results(name, operands)))
            if own and _PASSED_ON.match(name) and _is_multiple(name, operands, sizes):
                passed_on |= results(name, operands)
        sizes = sizes - written | passed_on
    return {loop.id for loop in function.loops if steps and _steps_so(function, loop, steps)}


def _is_multiple(name: str, operands: str, sizes: Set[int]) -> bool:
    """Whether all that an operation adds to a multiple of a size is one itself.

    A position, such as what a loop carries, is none.
    """
    sources = split_destination(operands)[1]
    if _FUSED.match(name):
        sources = sources.rpartition(",")[2]
    elif not _SUM.match(name):
        return True
    return set(named(sources)).difference(VCC) <= sizes


def _steps_so(function: Function, loop: Loop, steps: Sequence[_Step]) -> bool:
    """Whether an addition of a loop's code adds a size to what the loop carries and ends by."""
    code = {
        inst.index: inst
        for number in loop.blocks
        for inst in function.instructions[
            function.blocks[number].start : function.blocks[number].stop
        ]
    }
    written = {register for inst in code.values() for register in written_registers(inst)}
    copied = {
        (source, result)
        for inst in code.values()
        for name, operands in halves(inst)
        if _MOVES.match(name)
        for result, source in zip(
            named(split_destination(operands)[0]),
            named(split_destination(operands)[1]),
            strict=False,
        )
    }
    for step in steps:
        if step.instruction not in code or step.sizes <= written:
            continue
        carried = step.others | (step.sizes & written)
        for result in step.results:
            follows = result in carried or any((result, other) in copied for other in carried)
            if follows and _is_compared(code.values(), step.results):
                return True
    return False


def _is_compared(code: Iterable[Instruction], positions: Set[int]) -> bool:
    """Whether a loop compares what it goes on by, or what follows from that, with something.

    A pointer that moves by the size beside a counter is not: the counter ends the loop.
    """
    in_order = sorted(code, key=lambda inst: inst.index)
    following = set(positions)
    for inst in (*in_order, *in_order):
        for name, operands in halves(inst):
            is_test = _COMPARES.match(name) is not None
            has_result = not is_test or name.startswith("v_cmp_")
            sources = split_destination(operands)[1] if has_result else operands
            reads = set(named(sources)).difference(VCC)
            if inst.cls in _READS_MEMORY or following.isdisjoint(reads):
                following -= results(name, operands) - positions if has_result else set()
            elif is_test:
                return True
            else:
                following |= results(name, operands)
    return False
