"""Exponentials that Triton computes with care for denormal results.

`tl.exp(x)` is lowered to `llvm.exp2(x * log2(e))`, which the AMDGPU backend expands in float32: the
product, a comparison with -126, two selections, a sum and a scaling stand around the `v_exp` that
does the work, which flushes denormals (AMDGPULegalizerInfo, `legalizeFExp2`). `tl.exp2` is lowered
to the instruction alone (`llvm.amdgcn.exp2`; third_party/amd, ElementwiseOpToLLVM).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from ..isa.dataflow.value_graph import Operation, graph_of
from ..model import Scalar, TtgirOp
from .entries import NO_TTGIR, Unknown, of_both
from .loop_shape import position_of
from .subject import Place, Subject, Tally, op_line

SPECS = of_both(
    {
        "exponentials": "v_exp instructions at the positions of the source's tl.exp (`count`), "
        "vector `instructions` there beside them, and `at` which line most of them are",
    }
)

_OPERATION: Final = "math.exp"
_INSTRUCTIONS: Final = ("v_exp_f32", "v_s_exp_f32", "v_exp_f16", "v_s_exp_f16")


def exponentials(subject: Subject, region: Tally) -> dict[str, Scalar] | Unknown:
    """The value of the metric of `SPECS`."""
    if subject.ttgir is None:
        return NO_TTGIR
    of_source: dict[Place, TtgirOp] = {}
    for op in subject.ttgir.ops:
        if op.name == _OPERATION and op.loc is not None:
            of_source.setdefault(position_of(op.loc), op)
    count = 0
    beside: dict[int, Place] = {}
    seen: set[Operation] = set()
    graph = graph_of(subject.function)
    for operation in graph.operations(region.indices, _INSTRUCTIONS) if of_source else ():
        loc = operation.inst.loc
        if operation.name in _INSTRUCTIONS and loc and (place := position_of(loc)) in of_source:
            count += 1
            beside |= dict.fromkeys(_beside(operation, seen), place)
    places = Counter(beside[index] for index in sorted(beside))
    most = max(places, key=lambda place: places[place], default=None)
    return {
        "count": count,
        "instructions": places.total(),
        "at": op_line(of_source[most]) if most is not None else None,
    }


def _beside(exponential: Operation, seen: set[Operation]) -> set[int]:
    """What an exponential at its own position is made of, and the scaling of its result."""
    loc = exponential.inst.loc
    parts: set[int] = set()
    pending: list[Operation | None] = [exponential, *filter(_is_scaling, exponential.users)]
    while pending:
        part = pending.pop()
        if part is not None and part not in seen and part.is_vector and part.inst.loc == loc:
            seen.add(part)
            pending += part.makers
            if part.name not in _INSTRUCTIONS:
                parts.add(part.inst.index)
    return parts


def _is_scaling(operation: Operation) -> bool:
    """Whether an operation on an exponential scales it by a selected power of two."""
    return operation.name.startswith("v_ldexp") or (
        operation.name == "v_mul_f32" and operation.maker(("v_cndmask_b32",)) is not None
    )
