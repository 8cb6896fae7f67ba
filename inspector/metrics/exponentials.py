"""Exponentials that Triton computes with care for denormal results.

`tl.exp(x)` is lowered to `llvm.exp2(x * log2(e))`, which the AMDGPU backend expands in float32: the
product, a comparison with -126, two selections, a sum and a scaling stand around the `v_exp` that
does the work, which flushes denormals (AMDGPULegalizerInfo, `legalizeFExp2`). `tl.exp2` is lowered
to the instruction alone (`llvm.amdgcn.exp2`; third_party/amd, ElementwiseOpToLLVM).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from ..model import Metric, MetricSpec, Scalar, TtgirOp
from .loop_shape import position_of
from .mix import VALU_CLASSES, rates
from .subject import Place, Subject, Tally, op_line

_EXPONENTIALS = "exponentials"

SPECS = (
    MetricSpec(
        _EXPONENTIALS,
        "mapping",
        "derived",
        "both",
        "v_exp instructions at the positions of the source's tl.exp (`count`), vector "
        "`instructions` there beside them, the `cycles` that one wave takes for these at least, "
        "and `at` which line most of them are",
    ),
)

_OPERATION: Final = "math.exp"
_INSTRUCTIONS: Final = ("v_exp_f32", "v_s_exp_f32", "v_exp_f16", "v_s_exp_f16")


def exponentials(subject: Subject, region: Tally) -> Iterator[Metric]:
    """The metric of `SPECS`."""
    if subject.ttgir is None:
        yield Metric(_EXPONENTIALS, None, "mapping", "derived", "needs the kernel's TTGIR")
        return
    slot, _ = rates(subject)
    operations: dict[Place, TtgirOp] = {}
    for op in subject.ttgir.ops:
        if op.name == _OPERATION and op.loc is not None:
            operations.setdefault(position_of(op.loc), op)
    count = 0
    beside: Counter[Place] = Counter()
    code = subject.function.instructions
    for index in region.indices if operations else ():
        inst = code[index]
        if inst.loc is None or inst.cls not in VALU_CLASSES:
            continue
        place = position_of(inst.loc)
        if place not in operations:
            continue
        if inst.op.name.startswith(_INSTRUCTIONS):
            count += 1
        else:
            beside[place] += 1
    largest = max(beside, key=lambda place: beside[place], default=None)
    total = beside.total()
    value: dict[str, Scalar] = {
        "count": count,
        "instructions": total,
        "cycles": total * slot if slot is not None else None,
        "at": op_line(operations[largest]) if largest is not None else None,
    }
    yield Metric(_EXPONENTIALS, value, "mapping", "derived")
