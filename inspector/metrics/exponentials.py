"""Exponentials that Triton computes with care for denormal results.

`tl.exp(x)` is lowered to `llvm.exp2(x * log2(e))`, which the AMDGPU backend expands in float32: the
product, a comparison with -126, two selections, a sum and a scaling stand around the `v_exp` that
does the work, which flushes denormals (AMDGPULegalizerInfo, `legalizeFExp2`). `tl.exp2` is lowered
to the instruction alone (`llvm.amdgcn.exp2`; third_party/amd, ElementwiseOpToLLVM).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ..model import Function, Metric, MetricSpec, Scalar, TtgirOp
from .block_values import Operation, block_operations, block_ranges
from .loop_shape import position_of
from .mix import VALU_CLASSES
from .subject import Place, Subject, Tally, op_line

_EXPONENTIALS = "exponentials"

SPECS = (
    MetricSpec(
        _EXPONENTIALS,
        "mapping",
        "derived",
        "both",
        "v_exp instructions at the positions of the source's tl.exp (`count`), vector "
        "`instructions` there beside them, and `at` which line most of them are",
    ),
)

_OPERATION: Final = "math.exp"
_INSTRUCTIONS: Final = ("v_exp_f32", "v_s_exp_f32", "v_exp_f16", "v_s_exp_f16")


def exponentials(subject: Subject, region: Tally) -> Iterator[Metric]:
    """The metric of `SPECS`."""
    if subject.ttgir is None:
        yield Metric(_EXPONENTIALS, None, "mapping", "derived", "needs the kernel's TTGIR")
        return
    of_source: dict[Place, TtgirOp] = {}
    for op in subject.ttgir.ops:
        if op.name == _OPERATION and op.loc is not None:
            of_source.setdefault(position_of(op.loc), op)
    count = 0
    beside: Counter[Place] = Counter()
    code = subject.function.instructions
    there = {
        index: place
        for index in (region.indices if of_source else ())
        if (loc := code[index].loc) is not None
        and code[index].cls in VALU_CLASSES
        and (place := position_of(loc)) in of_source
    }
    around = _around_exponentials(subject.function, region.indices, there)
    for index, place in there.items():
        inst = code[index]
        if index not in around:
            continue
        if inst.op.name.startswith(_INSTRUCTIONS):
            count += 1
        else:
            beside[place] += 1
    largest = max(beside, key=lambda place: beside[place], default=None)
    value: dict[str, Scalar] = {
        "count": count,
        "instructions": beside.total(),
        "at": op_line(of_source[largest]) if largest is not None else None,
    }
    yield Metric(_EXPONENTIALS, value, "mapping", "derived")


def _around_exponentials(
    function: Function, indices: Sequence[int], there: Mapping[int, Place]
) -> set[int]:
    """What an exponential at its own position is made of, and the scaling of its result.

    exp(x) / y has the position of exp(x), so that what stands there may be a division's.
    """
    around: set[int] = set()
    for code in block_ranges(function, indices):
        seen: set[int] = set()
        for operation in (
            block_operations(function, code) if any(inst.index in there for inst in code) else ()
        ):
            place = there.get(operation.index)
            if place is None or not operation.name.startswith(_INSTRUCTIONS):
                continue
            pending = [operation, *filter(_is_scaling, operation.users)]
            while pending:
                part = pending.pop()
                if there.get(part.index) == place and id(part) not in seen:
                    seen.add(id(part))  # two operations of gfx11 can be one instruction
                    around.add(part.index)
                    pending += [maker for maker in part.makers if maker is not None]
    return around


def _is_scaling(operation: Operation) -> bool:
    """Whether an operation on an exponential scales it by a selected power of two."""
    return operation.name.startswith("v_ldexp") or (
        operation.name.startswith("v_mul_f32")
        and any(m is not None and m.name.startswith("v_cndmask") for m in operation.makers)
    )
