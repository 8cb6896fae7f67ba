"""What rounding to bfloat16 between operations takes of a kernel's vector instructions.

Of one region: the hot loop where it takes the largest share or, without hot loops, the whole
kernel. LLVM makes five instructions of a rounding (the bit above the last one, a sum with it and
0x7fff, NaN kept apart by a comparison, a bit for it and a selection). With `v_cvt_pk_bf16_f32`
(gfx950) a conversion takes two, that and the shift that widens the result, but sums and products
of bfloat16 are written out there as well. Tried in 45 kernels of gfx942, gfx90a and gfx1100:
float32 throughout saved 5 to 8 vector instructions for each element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING, Final

from ..model import Instruction, Metric, MetricSpec, Scalar
from .expansions import region_work
from .loop_shape import position_of
from .subject import Subject, op_line, own_instructions

if TYPE_CHECKING:
    from ..ttgir.roundings import Rounding

_ROUNDED: Final = "bfloat16.rounded"

SPECS: Final = (
    MetricSpec(
        _ROUNDED,
        "mapping",
        "estimated",
        "kernel",
        "Values rounded to bfloat16 that nothing but arithmetic uses, which widens them to float32 "
        "again, in the hot loop of which they take the largest share (in kernels without hot "
        "loops: in all): `operations` of the TTGIR, `elements` that a lane rounds, vector "
        "`instructions` that this takes of the `valu` there, `valu_cycles` of one wave there at "
        "least, `bytes` per lane that global accesses move there, `at` the line of the operation "
        "that rounds most, `in_loop` whether it is a loop",
    ),
)

_WRITTEN_OUT, _CONVERTED = 5, 2
"""Vector instructions of a rounding, without and with an instruction for it."""
_CONVERTING: Final = frozenset(("gfx950",))
_COMPUTING: Final = frozenset(("gfx1250",))
"""Targets whose vector unit adds and multiplies bfloat16 (LLVM: FeatureBF16PackedInsts)."""
_EXPANDED: Final = frozenset(("arith.addf", "arith.divf", "arith.mulf", "arith.subf"))
"""Written out even where there is an instruction for conversions (Triton 3.9)."""


def kernel_metrics(subject: Subject, hot: Set[str]) -> Iterator[Metric]:
    """The metric of `SPECS`.

    Args:
        subject: the kernel.
        hot: ids of its hot loops.
    """
    arch = subject.machine.arch if subject.machine is not None else None
    note = ""
    if subject.ttgir is None:
        note = "needs the kernel's TTGIR"
    elif arch is None:
        note = "the target is not known"
    elif arch in _COMPUTING:
        note = f"{arch} computes in bfloat16"
    if note or subject.ttgir is None:
        yield Metric(_ROUNDED, None, "mapping", "estimated", note)
        return
    from ..ttgir.roundings import roundings  # only kernels with a TTGIR need it

    rounded = roundings(subject.ttgir)
    regions: list[Sequence[Instruction]] = []
    if rounded and hot:
        code_of = own_instructions(subject.function)
        regions = [code_of[loop.id] for loop in subject.function.loops if loop.id in hot]
    in_loop = bool(regions)
    candidates = [
        _region(subject, region, _within(rounded, region) if in_loop else rounded)
        for region in regions or [subject.function.instructions]
    ]
    value = max(candidates, key=lambda item: item[0])[1]
    yield Metric(_ROUNDED, {**value, "in_loop": in_loop}, "mapping", "estimated")


def _within(rounded: Sequence[Rounding], region: Sequence[Instruction]) -> list[Rounding]:
    """The roundings at whose positions a region has instructions."""
    places = {position_of(inst.loc) for inst in region if inst.loc is not None}
    return [r for r in rounded if r.op.loc is not None and position_of(r.op.loc) in places]


def _region(
    subject: Subject, region: Sequence[Instruction], rounded: Sequence[Rounding]
) -> tuple[float, dict[str, Scalar]]:
    """The share of a region's vector instructions, and the metric's value."""
    converts = subject.machine is not None and subject.machine.arch in _CONVERTING
    instructions = sum(
        r.elements * (_CONVERTED if converts and r.op.name not in _EXPANDED else _WRITTEN_OUT)
        for r in rounded
    )
    work = region_work(subject, region)
    most = max(rounded, key=lambda r: r.elements, default=None)
    value: dict[str, Scalar] = {
        "operations": len(rounded),
        "elements": sum(r.elements for r in rounded),
        "instructions": instructions,
        **work,
        "at": op_line(most.op) if most is not None else None,
    }
    return instructions / max(1, int(work["valu"] or 0)), value
