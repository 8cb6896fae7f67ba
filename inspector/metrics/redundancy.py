"""Work that is done more than once: products and vector operations that waves and lanes repeat.

TTGIR's layouts say how often an element is computed (`ttgir.copies`). For products the code is the
witness: matrix instructions of a source position × their multiply-accumulates × waves, against
M·N·K of the dots there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from typing import TYPE_CHECKING

from ..isa.operations import operations
from ..model import Instruction, Metric, MetricSpec, Scalar, TtgirModule, TtgirOp
from .loop_shape import place
from .subject import MATRIX_CLASSES, Place, SourceWork, Subject, source_line

if TYPE_CHECKING:
    from ..ttgir.copies import Copies, DotWork

MATRIX, REPEATED = "matrix.redundancy", "matrix.repeated"
VECTOR, HELD = "work.redundancy", "work.repeated"

SPECS = (
    MetricSpec(
        MATRIX,
        "ratio",
        "derived",
        "both",
        "Multiply-accumulates that the workgroup's matrix instructions do over those that its dots "
        "need; 1: none is done twice",
    ),
    MetricSpec(
        REPEATED,
        "mapping",
        "derived",
        "both",
        "The dot whose work is repeated most: `times`, `at` which line, `tile` M×N×K, `along` "
        "which dimension, where `waves` side by side span `each` elements each over a tile of "
        "`needed`; `instruction`: what one matrix instruction spans there; `fit_waves`: the most "
        "waves that would have work of their own; `dots` that are repeated, of `of`",
    ),
    MetricSpec(
        VECTOR,
        "ratio",
        "derived",
        "both",
        "Elements that lanes hold of the tensors that are loaded, stored and computed with outside "
        "of dots, over the elements that there are; 1: none is held twice",
    ),
    MetricSpec(
        HELD,
        "mapping",
        "derived",
        "both",
        "The tensor of which most copies are held: `elements`, `lanes` of a wave and `waves` that "
        "hold the same one, of how many `of_waves`, `at` which line, by which `op`",
    ),
)

_REPEATED_FIELDS = (
    "times", "at", "tile", "along", "needed", "waves", "each", "instruction", "fit_waves",
)  # fmt: skip
_NO_TTGIR = "needs the kernel's TTGIR"
_NO_JOIN = "the matrix instructions cannot be joined with TTGIR's dots for certain"
_WORKING = ("arith.", "math.")
_ALSO_WORKING = frozenset(
    (
        "tt.load", "tt.store", "tt.reduce", "tt.scan", "tt.fp_to_fp", "tt.clampf", "tt.gather",
        "tt.extern_elementwise", "tt.elementwise_inline_asm", "tt.histogram", "tt.precise_sqrt",
        "tt.precise_divf", "tt.mulhiui", "amdg.buffer_load", "amdg.buffer_store",
        "amdgpu.buffer_load", "amdgpu.buffer_store",
    )
)  # fmt: skip
"""Operations that the vector and memory units carry out for every element that a lane holds."""


def loop_metrics(
    subject: Subject, own: Mapping[str, Sequence[Instruction]]
) -> dict[str, dict[str, Metric]]:
    """Per loop its figures.

    Args:
        subject: the kernel.
        own: per loop its instructions, nested loops excluded.
    """
    places = _Places()
    return {
        loop: {metric.name: metric for metric in _of_region(region, subject, places, looped=True)}
        for loop, region in own.items()
    }


def compute(subject: Subject) -> Iterator[Metric]:
    """Those of the kernel: each dot and each operation counts once, in whatever loop it stands."""
    yield from _of_region(subject.function.instructions, subject, _Places(), looped=False)


def source_work(module: TtgirModule | None) -> SourceWork | None:
    """What a kernel's TTGIR says of its work; None without one."""
    if module is None:
        return None
    # Only Triton kernels need the algebra of layouts.
    from ..ttgir.copies import copies, dot_work
    from ..ttgir.queries import DOTS

    dots: dict[Place | None, list[tuple[TtgirOp, DotWork | None]]] = {}
    tensors: dict[Place | None, list[tuple[TtgirOp, Copies]]] = {}
    waves = module.attributes.get("num-warps")
    places = _Places()
    known: dict[tuple[int, tuple[int, ...]], Copies | None] = {}  # layouts are shared by types
    for op in module.ops:
        if op.name in DOTS:
            dots.setdefault(places.of(op), []).append((op, dot_work(op, module)))
            continue
        if op.name == "arith.constant":
            continue
        if not op.name.startswith(_WORKING) and op.name not in _ALSO_WORKING:
            continue
        types = op.result_types if op.result_types else op.operand_types
        tensor = next((each for each in types if each.kind == "tensor"), None)
        if tensor is None:
            continue
        key = id(tensor.layout), tensor.shape
        if key not in known:
            known[key] = copies(tensor)
        held = known[key]
        if held is not None:
            tensors.setdefault(places.of(op), []).append((op, held))
    return SourceWork(waves if isinstance(waves, int) else 0, dots, tensors)


class _Places:
    """Positions of instructions and operations; equal ones are usually one object."""

    def __init__(self) -> None:
        self._known: dict[int, Place] = {}

    def of(self, item: Instruction | TtgirOp) -> Place | None:
        if item.loc is None:
            return None
        known = self._known.get(id(item.loc))
        if known is None:
            known = self._known[id(item.loc)] = place(item.loc)
        return known


def _of_region(
    region: Sequence[Instruction],
    subject: Subject,
    places: _Places,
    *,
    looped: bool,
) -> Iterator[Metric]:
    source = subject.work
    if source is None:
        for spec in SPECS:
            yield Metric(spec.name, None, spec.unit, "derived", _NO_TTGIR)
        return
    yield from _matrix(source, region, subject, places)
    here = {places.of(inst) for inst in region} if looped else None
    held = [
        item
        for where, items in source.tensors.items()
        if here is None or (where is not None and where in here)
        for item in items
    ]
    yield from _vector(source, held)


def _matrix(
    source: SourceWork, region: Sequence[Instruction], subject: Subject, places: _Places
) -> Iterator[Metric]:
    counts: dict[Place | None, tuple[int, int]] = {}
    lanes = subject.function.resources.wave_size or 64
    for inst in region:
        if inst.cls in MATRIX_CLASSES:
            done = operations(inst, lanes)
            count, macs = counts.get(places.of(inst), (0, 0))
            each = done[0].count // 2 if done else 0
            counts[places.of(inst)] = (count + 1, macs + each)
    if not counts:
        note = "no matrix instruction"
        yield Metric(MATRIX, None, "ratio", "derived", note)
        yield Metric(REPEATED, None, "mapping", "derived", note)
        return
    issued, needed, known = 0, 0.0, True
    works: list[tuple[TtgirOp, DotWork]] = []
    for where, (count, macs) in counts.items():
        dots = source.dots.get(where, ())
        here = [(op, work) for op, work in dots if work is not None]
        works += here
        times = _common([work for _, work in here], count, macs) if len(here) == len(dots) else None
        if times is None:
            known = False
            continue
        issued += macs
        needed += macs / times
    ratio = round(issued / needed, 4) if known and needed else None
    yield Metric(MATRIX, ratio, "ratio", "derived", "" if ratio is not None else _NO_JOIN)
    repeated = _most_repeated(works, subject.ttgir) if subject.ttgir is not None else None
    yield Metric(REPEATED, repeated, "mapping", "derived")


def _common(works: Sequence[DotWork], count: int, macs: int) -> float | None:
    """How often the dots of one position do their work, where all do alike and the code agrees.

    Args:
        works: the dots there.
        count: matrix instructions of one wave.
        macs: multiply-accumulates of these.
    """
    times = {work.redundancy for work in works}
    per_instruction = {work.issued / (work.instructions * work.waves) for work in works}
    if len(times) != 1 or per_instruction != {macs / count}:
        return None
    # Peeled copies and slices of a dot share its position, each with instructions of its own.
    if count % gcd(*(work.instructions for work in works)):
        return None
    return times.pop()


def _most_repeated(
    works: Sequence[tuple[TtgirOp, DotWork]], module: TtgirModule
) -> dict[str, Scalar]:
    """The dot whose repetition costs most, and the dimension that is to blame.

    Waves are, before a tile that is smaller than one instruction.
    """
    from ..ttgir.copies import fitting_waves

    repeated = [work for _, work in works if work.redundancy > 1]
    if not repeated:
        return {"dots": 0, "of": len(works), **dict.fromkeys(_REPEATED_FIELDS)}
    op, worst = max(works, key=lambda item: item[1].issued - item[1].needed)
    cover = max(worst.covers, key=lambda each: (each.repeats, each.times))
    tile = worst.tile
    values: tuple[Scalar, ...] = (
        worst.redundancy,
        source_line(op.loc),
        f"{tile.m}x{tile.n}x{tile.k}",
        cover.name,
        cover.needed,
        cover.waves,
        cover.per_wave,
        cover.instruction,
        fitting_waves(op, worst, module),
    )
    return {
        "dots": len(repeated),
        "of": len(works),
        **dict(zip(_REPEATED_FIELDS, values, strict=True)),
    }


def _vector(source: SourceWork, held: Sequence[tuple[TtgirOp, Copies]]) -> Iterator[Metric]:
    elements = sum(copies.elements for _, copies in held)
    if not elements:
        note = "no operation on tensors whose layout is known"
        yield Metric(VECTOR, None, "ratio", "derived", note)
        yield Metric(HELD, None, "mapping", "derived", note)
        return
    slots = sum(copies.elements * copies.times for _, copies in held)
    op, most = max(held, key=lambda item: item[1].elements * (item[1].times - 1))
    value: dict[str, Scalar] = {
        "elements": most.elements,
        "lanes": most.lanes,
        "waves": most.waves,
        "of_waves": source.waves or None,
        "at": source_line(op.loc),
        "op": op.name,
    }
    yield Metric(VECTOR, round(slots / elements, 4), "ratio", "derived")
    yield Metric(HELD, value, "mapping", "derived")
