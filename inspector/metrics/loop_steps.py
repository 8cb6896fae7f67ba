"""Steps of a loop: by how many bytes the addresses of its accesses move from one iteration to the
next, and whether it goes on by the size of the grid or of the workgroup.

A loop by the grid (`for (i = global id; i < n; i += gridDim.x * blockDim.x)`) is right for any
number of workgroups, and usually launched with a work-item for each element: then it goes round
once. What a loop saves from one iteration to the next it saves only where fewer workgroups are
launched. So it is with a row that a workgroup takes (`for (i = threadIdx.x; i < n; i +=
blockDim.x)`): right for any row, and often launched with a work-item for each of its elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final, NamedTuple

from msgspec import Struct

from ..isa.dataflow.operands import VCC, Operand
from ..isa.dataflow.value_graph import Operation, graph_of, operations, registers, rows_of
from ..isa.twos_complement import signed
from ..lanes.slices import address_operands
from ..model import Function, Loop, Scalar
from .argument_words import DISPATCH, KERNARG, loaded_word
from .entries import NOT_IN_TRITON, Unknown, of_loops
from .load_paths import LOADS, code_of
from .subject import Subject

_MOST_SHIFT: Final = 32
_TYPES: Final = frozenset(("u32", "i32", "b32", "u64", "b64"))
_Term = tuple[int, int | None, int]
"""A source, the one by which it is shifted to the left, and its factor."""
_FIRST: Final[_Term] = (0, None, 1)
_SECOND: Final[_Term] = (1, None, 1)
_THIRD: Final[_Term] = (2, None, 1)
_SUMS: Final[Mapping[str, Sequence[_Term]]] = {
    "mov": (_FIRST,),
    "add": (_FIRST, _SECOND),
    "addk": (_FIRST, _SECOND),
    "add3": (_FIRST, _SECOND, _THIRD),
    "sub": (_FIRST, (1, None, -1)),
    "subrev": ((0, None, -1), _SECOND),
    "lshl": ((0, 1, 1),),
    "lshlrev": ((1, 0, 1),),
    "lshl_add": ((0, 1, 1), _THIRD),
    "add_lshl": ((0, 2, 1), (1, 2, 1)),
}
"""What operations add up, by their names without unit and type."""


class _Form(Struct, frozen=True):
    """A value as a sum of what registers held when the iteration began.

    Args:
        factors: register -> its factor, of those that the loop changes.
        constant: what is added; None where that is not known but the same in each iteration.
    """

    factors: Mapping[int, int] = {}
    constant: int | None = None

    def plus(self, other: _Form, factor: int) -> _Form:
        """The sum with a multiple of another one."""
        factors = dict(self.factors)
        for row, own in other.factors.items():
            factors[row] = signed(factors.get(row, 0) + factor * own)
        constant = None
        if self.constant is not None and other.constant is not None:
            constant = signed(self.constant + factor * other.constant)
        return _Form({row: own for row, own in factors.items() if own}, constant)


def access_steps(
    function: Function, path: Sequence[int], own: Sequence[int], classes: Set[str] = LOADS
) -> dict[int, int]:
    """Index of an access -> bytes that its address moves in an iteration, where that is a constant.

    `path`: blocks that an iteration executes, in order; `own`: all blocks of the loop; `classes`:
    of the accesses that are asked about.
    """
    values = _Values(function, path, own)
    return {
        operation.inst.index: step
        for operation in values.forms
        if operation.inst.cls in classes and (step := values.step_of(operation)) is not None
    }


class _Values:
    """What registers hold in an iteration of a loop.

    Attributes:
        forms: the operations of the path and their results' low words; None of no such sum.
    """

    def __init__(self, function: Function, path: Sequence[int], own: Sequence[int]) -> None:
        done = operations(function, code_of(function, *path))
        beside = [inst.index for inst in code_of(function, *set(own) - set(path))]
        others = graph_of(function).operations(beside)
        self._elsewhere = rows_of(result for one in others for result in one.results)
        """Registers that code of the loop beside the path writes."""
        self._last = {row: one for one in done for row in rows_of(one.results)}
        """Register -> the last operation of the path that writes it."""
        self.forms: dict[Operation, _Form | None] = {}
        for operation in done:
            self.forms[operation] = self._result(operation)

    def step_of(self, access: Operation) -> int | None:
        """The bytes that an access's address moves."""
        makers = dict(zip(access.sources, access.makers, strict=True))
        total = 0
        for operand in address_operands(access.inst, access.parts):
            if not registers(operand):
                continue
            form = self._low(operand, makers.get(operand))
            if form is None:
                return None
            for row, factor in form.factors.items():
                last = self._last[row]
                left = self.forms[last] if row in registers(last.results[0])[:1] else None
                if left is None or left.constant is None or left.factors != {row: 1}:
                    return None
                total += factor * left.constant
        return signed(total)

    def _low(self, source: Operand, maker: Operation | None) -> _Form | None:
        """The low word of what an operation reads."""
        rows = registers(source)[:1]
        if source.integer is not None:
            return _Form({}, source.integer)
        is_half = source.negate or source.half is not None
        if not rows or is_half or not self._elsewhere.isdisjoint(rows):
            return None
        if maker is not None:
            return self.forms[maker] if rows == registers(maker.results[0])[:1] else None
        return _Form({rows[0]: 1}, 0) if rows[0] in self._last else _Form()

    def _result(self, operation: Operation) -> _Form | None:
        """The low word of what an operation writes first."""
        name, _, kind = operation.name[len("v_") :].rpartition("_")
        sources = [*zip(operation.sources, operation.makers, strict=True)]
        if name not in _SUMS or kind not in _TYPES:
            read = rows_of(operation.sources)
            is_same = read.isdisjoint(self._last) and read.isdisjoint(self._elsewhere)
            return _Form() if is_same and operation.inst.cls in ("valu", "salu") else None
        total = _Form({}, 0)
        for place, by, factor in _SUMS[name]:
            shift = sources[by][0].integer if by is not None and by < len(sources) else 0
            if place >= len(sources) or shift is None or not 0 <= shift < _MOST_SHIFT:
                return None
            form = self._low(*sources[place])
            if form is None:
                return None
            if name == "addk" and place == 0:  # printed without a sign
                form = _Form({}, signed(form.constant or 0, 16))
            total = total.plus(form, factor << shift)
        return total


GRID_STRIDE: Final = "loop.grid_stride"

SPECS: Final = of_loops(
    {
        GRID_STRIDE: "Whether it goes on, and ends, by steps of the grid's size (`by_grid`), and "
        "of such a loop the `cus` of the GPU: launched with a work-item for each element it goes "
        "round once; `group`: `workgroup` where it goes on by the size of that: it goes round "
        "once where the workgroup has a work-item for each element. None for Triton's code",
    }
)

_SUM: Final = ("add", "sub")
_FUSED: Final = ("mad", *(f"lshl{by}_{what}" for by in ("", 1, 2, 3, 4) for what in ("add", "or")))
"""What adds its last operand to a product or to a shifted value."""
_PASSED_ON: Final = (
    *("mov", "mul", "mad", "lshl", "lshr", "ashr", "and_b32", "bfe", "cvt", "readfirstlane"),
    *_SUM,
)
_ADDS: Final = ("add_u", "add_i", "add_ci_", "addc", "lshl_add_u", "add3", "add_lshl")
_MOVES: Final = ("s_mov_b", "v_mov_b")
_COMPARES: Final = ("v_cmp_", "s_cmp_", "s_cmpk_")
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
    """An addition, and which of its sources are a size."""

    operation: Operation
    of_size: Sequence[bool]


def strides(subject: Subject) -> dict[str, dict[str, Scalar]] | Unknown:
    """Loop id -> the value of the metric of `SPECS`."""
    if subject.ttgir is not None:
        return NOT_IN_TRITON
    function = subject.function
    by_grid = _by_size(function, _GRID_SIZES, _COUNTS_BEFORE_SIZES)
    by_group = _by_size(function, _GROUP_SIZES_DISPATCHED, _GROUP_SIZES) - by_grid
    cus = subject.machine.cus if subject.machine is not None else None
    return {
        loop.id: {
            "by_grid": loop.id in by_grid,
            "cus": cus if loop.id in by_grid else None,
            "group": "workgroup" if loop.id in by_group else None,
        }
        for loop in function.loops
    }


def _by_size(function: Function, dispatched: Sequence[int], hidden: Sequence[int]) -> set[str]:
    """Ids of the loops that add a size, or a multiple of it, to what they carry."""
    wanted = {(DISPATCH, offset) for offset in dispatched}
    size_offset = function.resources.group_size_offset
    if size_offset is not None:
        wanted |= {(KERNARG, size_offset + by) for by in hidden}
    multiples: set[Operation] = set()
    steps: list[_Step] = []
    for operation in graph_of(function).in_order if function.loops else ():
        of_size = [
            maker in multiples or loaded_word(function, source, maker) in wanted
            for source, maker in zip(operation.sources, operation.makers, strict=True)
        ]
        if any(of_size):
            name = operation.name[len("v_") :]
            if name.startswith(_ADDS):
                steps.append(_Step(operation, of_size))
            if name.startswith(_PASSED_ON) and _is_multiple(name, operation.sources, of_size):
                multiples.add(operation)
    return {loop.id for loop in function.loops if steps and _goes_on(function, loop, steps)}


def _is_multiple(name: str, sources: Sequence[Operand], of_size: Sequence[bool]) -> bool:
    """Whether all that an operation adds to a multiple of a size is one itself."""
    added = list(zip(sources, of_size, strict=True)) if name.startswith((*_SUM, *_FUSED)) else []
    return all(
        is_size or not registers(source) or (source.kind, source.first) == ("sgpr", VCC)
        for source, is_size in (added[-1:] if name.startswith(_FUSED) else added)
    )


def _goes_on(function: Function, loop: Loop, steps: Sequence[_Step]) -> bool:
    """Whether an addition of a loop's code adds a size to what the loop carries and ends by."""
    blocks = [function.blocks[number] for number in loop.blocks]
    code = {index for block in blocks for index in range(block.start, block.stop)}
    own = [one for one in graph_of(function).in_order if one.inst.index in code]
    for step, of_size in steps:
        operands = zip(step.sources, step.makers, of_size, strict=True)
        if step.inst.index not in code or not any(
            is_size and (maker is None or maker.inst.index not in code)
            for _, maker, is_size in operands
        ):
            continue
        sources = zip(step.sources, of_size, strict=True)
        others = rows_of(source for source, is_size in sources if not is_size)
        copies = [one for one in own if one.name.startswith(_MOVES) and step in one.makers]
        # It adds to its own result of the iteration before, or to a copy of that.
        follows = any(not others.isdisjoint(rows_of(one.results)) for one in (step, *copies))
        if follows and _is_compared(own, code, step):
            return True
    return False


def _is_compared(own: Sequence[Operation], code: Set[int], step: Operation) -> bool:
    """Whether a loop compares what it goes on by, or what follows from that, with something."""
    carried = rows_of(step.results)
    following = {step}
    for operation in own:
        if operation.inst.cls in _READS_MEMORY:
            continue
        if not following.isdisjoint(operation.makers) or any(
            (maker is None or maker.inst.index not in code)
            and not carried.isdisjoint(registers(source))
            for source, maker in zip(operation.sources, operation.makers, strict=True)
        ):
            if operation.name.startswith(_COMPARES):
                return True
            following.add(operation)
    return False
