"""Redundant work: products and vector operations that waves and lanes repeat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd, prod
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..isa.operations import operations
from ..model import Instruction, Metric, Scalar, TtgirModule, TtgirOp
from .capacity import capacity
from .entries import of_both, unknown
from .loop_shape import position_of
from .occupancy import occupancy
from .subject import (
    MATRIX_CLASSES,
    Place,
    SourceWork,
    Subject,
    op_line,
)

if TYPE_CHECKING:
    from ..ttgir.redundant_work import Copies, DotWork

MATRIX, REPEATED = "matrix.redundancy", "matrix.repeated"
VECTOR, COPIES = "work.redundancy", "work.repeated"

SPECS = of_both(
    {
        MATRIX: "ratio | Multiply-accumulates that the workgroup's matrix instructions do over "
        "those that its dots need; 1: none is done twice",
        REPEATED: "The dot whose work is repeated most: `times`, `at` which line, `tile` M×N×K, "
        "`along` which dimension, where `waves` side by side span `each` elements each over a "
        "tile of `needed`; `instruction`: what one matrix instruction spans there, `narrower`: "
        "what one of half of it does, where the target has that; `fit_waves`: the most waves that "
        "would have work of their own; `try_waves`: the same, or as many more as it takes for the "
        "tiles that loops load to fit into a lane's registers; none where the kernel spills "
        "already, or SIMDs would stand empty",
        VECTOR: "ratio | Elements that lanes hold of the tensors that are loaded, stored and "
        "computed with outside of dots, over the elements that there are; 1: none is held twice. "
        "In a kernel without tensors its scalars count, each held by all lanes",
        COPIES: "The tensor of which most copies are held: `elements`, `waves` that hold the same "
        "one, of how many `of_waves`, `at` which line, by which `op`",
    }
)

_ATOMICS = frozenset(("tt.atomic_rmw", "tt.atomic_cas"))
_REPEATED_FIELDS = (
    "times", "at", "tile", "along", "needed", "waves", "each", "instruction", "narrower",
    "fit_waves", "try_waves",
)  # fmt: skip
_NARROW = 16
"""Rows and columns of the matrix instructions with matrix_instr_nonkdim=16, MFMA's other choice."""
_REGISTER_BITS = 32
_NO_TTGIR = "needs the kernel's TTGIR"
_NO_JOIN = "the matrix instructions cannot be joined with TTGIR's dots for certain"
_ARITHMETIC = ("arith.", "math.")
_OTHER_WORK = frozenset(
    (
        "tt.reduce", "tt.scan", "tt.fp_to_fp", "tt.clampf", "tt.gather", "tt.extern_elementwise",
        "tt.elementwise_inline_asm", "tt.histogram", "tt.precise_sqrt", "tt.precise_divf",
        "tt.mulhiui",
    )
)  # fmt: skip
"""Operations, besides accesses through pointers, on every element that a lane holds."""


def loop_metrics(
    subject: Subject, own_code: Mapping[str, Sequence[Instruction]]
) -> dict[str, dict[str, Metric]]:
    """Loop id -> its metrics by name."""
    places = _Places()
    return {
        loop: {metric.name: metric for metric in _of_region(region, subject, places, looped=True)}
        for loop, region in own_code.items()
    }


def compute(subject: Subject) -> Iterator[Metric]:
    """The metrics of the kernel: each dot and each operation counts once, in any loop."""
    yield from _of_region(subject.function.instructions, subject, _Places(), looped=False)


def source_work(module: TtgirModule | None) -> SourceWork | None:
    """The work of a kernel by its TTGIR; None without one."""
    if module is None:
        return None
    # Only Triton kernels need the algebra of layouts.
    from ..ttgir.queries import DOTS, POINTER_LOADS, POINTER_STORES
    from ..ttgir.redundant_work import Copies, copies, dot_work

    dots: dict[Place | None, list[tuple[TtgirOp, DotWork | None]]] = {}
    tensors: dict[Place | None, list[tuple[TtgirOp, Copies]]] = {}
    waves = module.attributes.get("num-warps")
    working = _OTHER_WORK | POINTER_LOADS | POINTER_STORES
    places = _Places()
    cache: dict[tuple[int, tuple[int, ...]], Copies | None] = {}  # layouts are shared by types
    if _is_of_scalars(module):
        lanes = module.attributes.get("threads-per-warp")
        if isinstance(waves, int) and isinstance(lanes, int):
            for op in module.ops:
                if op.name in POINTER_LOADS | POINTER_STORES | _ATOMICS:
                    tensors.setdefault(places.of(op), []).append((op, Copies(1, lanes, waves, 1)))
        return SourceWork(waves if isinstance(waves, int) else 0, dots, tensors)
    for op in module.ops:
        if op.name in DOTS:
            dots.setdefault(places.of(op), []).append((op, dot_work(op)))
            continue
        if op.name == "arith.constant":
            continue
        if not op.name.startswith(_ARITHMETIC) and op.name not in working:
            continue
        types = op.result_types if op.result_types else op.operand_types
        tensor = next(
            (operand_type for operand_type in types if operand_type.kind == "tensor"), None
        )
        if tensor is None:
            continue
        key = id(tensor.layout), tensor.shape
        if key not in cache:
            cache[key] = copies(tensor)
        tensor_copies = cache[key]
        if tensor_copies is not None:
            tensors.setdefault(places.of(op), []).append((op, tensor_copies))
    return SourceWork(waves if isinstance(waves, int) else 0, dots, tensors)


def _is_of_scalars(module: TtgirModule) -> bool:
    """Whether a kernel has no tensors: all lanes of all waves compute the same."""
    return not any(
        value.kind == "tensor"
        for op in module.ops
        for value in (*op.result_types, *op.operand_types)
    )


class _Places:
    """Positions of instructions and operations; equal ones are usually one object."""

    def __init__(self) -> None:
        self._cache: dict[int, Place] = {}

    def of(self, item: Instruction | TtgirOp) -> Place | None:
        if item.loc is None:
            return None
        position = self._cache.get(id(item.loc))
        if position is None:
            position = self._cache[id(item.loc)] = position_of(item.loc)
        return position


def _of_region(
    region: Sequence[Instruction],
    subject: Subject,
    places: _Places,
    *,
    looped: bool,
) -> Iterator[Metric]:
    """The metrics of a region; in a loop only tensors at its positions count."""
    source = subject.work
    if source is None:
        yield from unknown(SPECS, _NO_TTGIR)
        return
    yield from _matrix(source, region, subject, places)
    positions = {places.of(inst) for inst in region} if looped else None
    tensors = [
        item
        for position, items in source.tensors.items()
        if positions is None or (position is not None and position in positions)
        for item in items
    ]
    yield from _vector(source, tensors)


def _matrix(
    source: SourceWork, region: Sequence[Instruction], subject: Subject, places: _Places
) -> Iterator[Metric]:
    """The metrics of the region's dots."""
    counts: dict[Place | None, tuple[int, int]] = {}
    lanes = subject.function.resources.wave_size or 64
    for inst in region:
        if inst.cls in MATRIX_CLASSES:
            performed = operations(inst, lanes)
            count, macs = counts.get(places.of(inst), (0, 0))
            instruction_macs = performed[0].count // 2 if performed else 0
            counts[places.of(inst)] = (count + 1, macs + instruction_macs)
    if not counts:
        note = "no matrix instruction"
        yield Metric(MATRIX, None, "ratio", "derived", note)
        yield Metric(REPEATED, None, "mapping", "derived", note)
        return
    issued, needed, complete = 0, 0.0, True
    works: list[tuple[TtgirOp, DotWork]] = []
    for position, (count, macs) in counts.items():
        dots = source.dots.get(position, ())
        known_works = [(op, work) for op, work in dots if work is not None]
        works += known_works
        times = (
            _common([work for _, work in known_works], count, macs)
            if len(known_works) == len(dots)
            else None
        )
        if times is None:
            complete = False
            continue
        issued += macs
        needed += macs / times
    ratio = round(issued / needed, 4) if complete and needed else None
    yield Metric(MATRIX, ratio, "ratio", "derived", "" if ratio is not None else _NO_JOIN)
    repeated = _most_repeated(works, subject, subject.ttgir) if subject.ttgir is not None else None
    yield Metric(REPEATED, repeated, "mapping", "derived")


def _common(works: Sequence[DotWork], count: int, macs: int) -> float | None:
    """The common redundancy of the dots at one position; None where they differ, or the code
    disagrees.
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
    works: Sequence[tuple[TtgirOp, DotWork]], subject: Subject, module: TtgirModule
) -> dict[str, Scalar]:
    """The dot whose repetition costs most, and the dimension at fault."""
    from ..ttgir.redundant_work import fitting_waves

    if all(work.redundancy <= 1 for _, work in works):
        return dict.fromkeys(_REPEATED_FIELDS)
    op, worst = max(works, key=lambda item: item[1].issued - item[1].needed)
    cover = max(worst.covers, key=lambda candidate: (candidate.repeats, candidate.times))
    tile = worst.tile
    fit_waves = fitting_waves(op, worst, module)
    needed_registers = _registers(subject, module, worst.waves)
    try_waves = fit_waves
    while try_waves * 2 < worst.waves and not needed_registers.suffice(try_waves):
        try_waves *= 2
    worth_it = _leaves_room(subject, try_waves)
    values: tuple[Scalar, ...] = (
        worst.redundancy,
        op_line(op),
        f"{tile.m}x{tile.n}x{tile.k}",
        cover.name,
        cover.needed,
        cover.waves,
        cover.per_wave,
        cover.instruction,
        _NARROW if cover.instruction == 2 * _NARROW else None,
        fit_waves,
        try_waves if worth_it else None,
    )
    return dict(zip(_REPEATED_FIELDS, values, strict=True))


def _leaves_room(subject: Subject, waves: int) -> bool:
    """Whether fewer waves spill no more than now, and keep all SIMDs of a CU busy."""
    if subject.function.resources.vgpr_spill_count:
        return False
    if subject.machine is None:
        return True
    try:
        by_lds = occupancy(
            subject.machine, replace(subject.demand, waves_per_workgroup=waves)
        ).by_lds
    except KinspectError:
        return True
    return by_lds is None or by_lds >= 1


class _Registers(Struct, frozen=True):
    """The registers of a lane by the waves of the workgroup.

    Fewer waves with the same accumulators each (they repeated one another's) hold more of the tiles
    that the loops load, and that all waves share. What else they hold is taken not to change.

    Args:
        waves: waves of the workgroup now.
        now: registers of a lane; None where they are not known.
        loaded: of these, for the tiles.
        limits: waves -> the most registers that a lane may have.
    """

    waves: int
    now: int | None
    loaded: float
    limits: Mapping[int, int]

    def of(self, waves: int) -> int | None:
        more = self.loaded * (self.waves / waves - 1)
        return None if self.now is None else round(self.now + more)

    def suffice(self, waves: int) -> bool:
        need, limit = self.of(waves), self.limits.get(waves)
        return need is None or limit is None or need <= limit


def _registers(subject: Subject, module: TtgirModule, waves: int) -> _Registers:
    from ..ttgir import queries  # for Triton kernels alone
    from ..ttgir.lowered import element_bits

    resources, machine = subject.function.resources, subject.machine
    lanes = resources.wave_size or 64
    tiles = [
        op.result_types[0]
        for op in queries.loads(module)
        if op.result_types and queries.loop_above(op, module) is not None
    ]
    bits = sum(prod(t.shape) * (element_bits(t.element) or 0) for t in tiles if t.element)
    limits = {}
    if machine is not None:
        unit = capacity(machine, resources.wave_size, False, subject.facts.llvm)
        fewer = [w for w in (1, 2, 4, 8, 16) if w < waves]
        limits = {w: unit.most_vgprs(-(-w // unit.eus)) for w in fewer}
    now = resources.vgpr_count
    if now is not None:
        now += resources.vgpr_spill_count or 0
    return _Registers(waves, now, bits / _REGISTER_BITS / (lanes * waves), limits)


def _vector(source: SourceWork, tensors: Sequence[tuple[TtgirOp, Copies]]) -> Iterator[Metric]:
    """The metrics of the region's tensors."""
    elements = sum(copies.elements for _, copies in tensors)
    if not elements:
        note = "no operation on tensors whose layout is known"
        yield Metric(VECTOR, None, "ratio", "derived", note)
        yield Metric(COPIES, None, "mapping", "derived", note)
        return
    slots = sum(copies.elements * copies.times for _, copies in tensors)
    op, worst = max(tensors, key=lambda item: item[1].elements * (item[1].times - 1))
    value: dict[str, Scalar] = {
        "elements": worst.elements,
        "waves": worst.waves,
        "of_waves": source.waves or None,
        "at": op_line(op),
        "op": op.name,
    }
    yield Metric(VECTOR, round(slots / elements, 4), "ratio", "derived")
    yield Metric(COPIES, value, "mapping", "derived")
