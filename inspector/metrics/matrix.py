"""The matrix unit: cycles that it is occupied, whether it computes the source's dots, types for
which it is slow, and wait states that hand-written code lacks.

Cycles per instruction come from the machine file (the vendor's matrix calculator and LLVM's
scheduling model). They are a bound for one wave: waves of one SIMD share the unit.

Rates follow from the machine file's cycles and the shapes in the instructions' names: float32 has a
4th (CDNA 2) to a 16th (CDNA 4) of the rate of 16-bit floats.

CDNA2 to CDNA4 do not wait there by themselves (`emulator.checks.hazards`); compilers put them in.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ..isa.dataflow.code_registers import registers_of
from ..isa.dataflow.execution_target import target_of
from ..isa.operations import operations, product_of
from ..machines import matrix_cycles
from ..model import Instruction, Machine, Metric, Scalar, TtgirModule
from .entries import Unknown, of_both, of_kernels
from .loop_shape import position_of
from .subject import MATRIX_CLASSES, LineName, Place, Subject, Tally

if TYPE_CHECKING:
    from ..ttgir.lowered import DotFate


UNIT_SPECS = (
    *of_both(
        {
            "matrix.instructions": "The matrix instructions by name and number: their element "
            "type is what really computes",
            "cycles.mfma": "cycles | Cycles that the matrix instructions (MFMA, WMMA) occupy the "
            "SIMD's matrix unit, one wave",
            "matrix.share": "ratio | Share of matrix instructions (MFMA, WMMA) among all "
            "instructions",
        }
    ),
    *of_kernels(
        {
            "matrix.nonkdim": "elements | M and N of most of the kernel's matrix instructions: 16 "
            "or 32 (4 for the smallest)",
        }
    ),
)

_SHAPE = re.compile(r"_(\d{1,9})x(\d{1,9})x\d+")


def unit_cycles(subject: Subject, region: Tally) -> Iterator[Metric]:
    """The matrix instructions of a region and their cycles."""
    kinds = Counter(inst.op.name for inst in region.matrix)
    yield Metric("matrix.instructions", dict(sorted(kinds.items())), "mapping", "derived")
    share = round(len(region.matrix) / region.instructions, 4) if region.instructions else None
    yield Metric("matrix.share", share, "ratio", "derived")
    total = 0
    for inst in region.matrix:
        machine = subject.machine
        cycles = matrix_cycles(machine, inst.op.name, inst.operands) if machine else None
        if cycles is None:
            target = machine.arch if machine else "an unknown target"
            note = f"no cycle figure for {inst.op.name} on {target}"
            yield Metric("cycles.mfma", None, "cycles", "derived", note)
            return
        total += cycles
    yield Metric("cycles.mfma", total, "cycles", "derived")


def kernel_cycles(subject: Subject) -> Iterator[Metric]:
    """The shape of the kernel's matrix instructions, the widest of several equally frequent."""
    sizes = Counter(
        max(int(shape[1]), int(shape[2]))
        for inst in subject.function.instructions
        if inst.cls in MATRIX_CLASSES and (shape := _SHAPE.search(inst.op.name)) is not None
    )
    most_frequent = max(sizes, key=lambda size: (sizes[size], size), default=None)
    note = "" if most_frequent is not None else "no matrix instruction"
    yield Metric("matrix.nonkdim", most_frequent, "elements", "derived", note)


# --------------------------------------------------------------------------- the source's dots

DOT_SPECS = of_kernels(
    {
        "matrix.upcast": "Dots whose operands are multiplied in a wider type than the source has: "
        "`dots` of `of`, `asked` type and `used` type, by which `instruction`, `at` which line; "
        "`scaled`: those of them that are scaled dots (microscaling formats)",
        "matrix.off_unit": "Dots that the vector unit computes and not the matrix unit: `dots` of "
        "`of`, of which `element` type, `supported`: whether this GPU has matrix instructions for "
        "it, `at` which line. Where it has them for some, only those; dots with M or N of 1 are "
        "left out. `repeating`: those on RDNA3 whose operands are exponentials that WMMA's "
        "layout, which holds each element twice, would compute twice, for more than the dot "
        "itself costs. `bare_loops`: innermost loops without a dot",
    }
)

TRITON_NAMES: Mapping[str, str] = {
    "f8E4M3FN": "float8e4nv (OCP e4m3)",
    "f8E5M2": "float8e5 (OCP e5m2)",
    "f8E4M3FNUZ": "float8e4b8 (fnuz e4m3)",
    "f8E5M2FNUZ": "float8e5b16 (fnuz e5m2)",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "i8": "int8",
}
"""MLIR's element types -> Triton's names."""

# v_mfma_f32_32x32x8bf16_1k, v_mfma_f32_4x4x4_16b_f16, v_wmma_f32_16x16x16_fp8_bf8: the operands'
# types follow the shape.
_MULTIPLIED = re.compile(
    r"v_(?:mfma|smfmac|wmma|swmmac)_(?:scale\d*_)?\w+?_\d+x\d+x\d+_?(?:\d+b_)?(?P<types>\w+?)(?:_1k)?"
)
_SPELLED: Mapping[str, tuple[str, ...]] = {
    "f32": ("f32", "xf32"),
    "i8": ("i8", "iu8"),
    "i4": ("iu4",),
}


def dot_types(subject: Subject) -> Iterator[Metric]:
    """The metrics of `DOT_SPECS`; None with a note where TTIR or TTGIR is missing."""
    if subject.ttir is None or subject.ttgir is None:
        note = "needs the kernel's TTIR and TTGIR"
        yield Metric("matrix.upcast", None, "mapping", "derived", note)
        yield Metric("matrix.off_unit", None, "mapping", "derived", note)
        return
    # Only kernels with a TTGIR need what reads one.
    from ..ttgir.lowered import fates
    from ..ttgir.queries import loops_without_dots

    dot_fates = fates(subject.ttir, subject.ttgir)
    yield Metric("matrix.upcast", _upcast(subject, dot_fates), "mapping", "derived")
    off_unit = _off_unit(subject.machine, dot_fates, subject.ttgir)
    off_unit["bare_loops"] = loops_without_dots(subject.ttgir)
    yield Metric("matrix.off_unit", off_unit, "mapping", "derived")


def _upcast(subject: Subject, dot_fates: Sequence[DotFate]) -> dict[str, Scalar]:
    """The dots that are multiplied in a wider type."""
    # The vector unit always multiplies fp16 in fp32: that belongs to the other metric.
    wide = [f for f in dot_fates if f.widened and (f.on_matrix_unit or f.source_is_small)]
    example = wide[0] if wide else None
    return {
        "dots": len(wide),
        "of": len(dot_fates),
        "scaled": sum(f.scaled for f in wide),
        "asked": named(example.source_element) if example else None,
        "used": named(example.computed_element) if example else None,
        "instruction": _instruction(subject, example) if example else None,
        "at": LineName.of([example] if example else []),
    }


def _off_unit(
    machine: Machine | None, dot_fates: Sequence[DotFate], ttgir: TtgirModule
) -> dict[str, Scalar]:
    """The dots that the vector unit computes."""
    off = [f for f in dot_fates if not f.on_matrix_unit and not f.sums]
    # Only dots for which the hardware has an instruction can be fixed.
    supported = [f for f in off if _supported(machine, f)]
    example = next(iter(supported or off), None)
    repeating = 0
    if off and machine is not None and machine.family in _HELD_TWICE:
        from .triton_arithmetic import exponentials_outweigh

        repeating = sum(exponentials_outweigh(ttgir, fate.loc) for fate in supported or off)
    return {
        "dots": len(supported or off),
        "of": len(dot_fates),
        "repeating": repeating,
        "element": named(example.source_element) if example else None,
        "supported": _supported(machine, example) if example else None,
        "at": LineName.of([example] if example else []),
    }


_HELD_TWICE: Final = frozenset(("RDNA3", "RDNA3.5"))
"""Families of which lanes 16 to 31 hold the elements of a WMMA's operands that lanes 0 to 15 hold
(RDNA3 ISA, section 7.9)."""


def named(element: str) -> str:
    """Triton's name of an MLIR element type."""
    return TRITON_NAMES.get(element, element)


def multiplied(mnemonic: str) -> str | None:
    """The operand type in the name of a matrix instruction: `bf16`, `fp8_fp8`, `f8f6f4`."""
    match = _MULTIPLIED.fullmatch(mnemonic)
    return match["types"] if match is not None else None


def _instruction(subject: Subject, fate: DotFate) -> str:
    """The instruction that multiplies in the computed type, the most frequent of several."""
    if not fate.on_matrix_unit:
        return "vector instructions"
    names = Counter(
        i.op.name for i in subject.function.instructions if i.cls in MATRIX_CLASSES
    ).most_common()
    spelled = _SPELLED.get(fate.computed_element, (fate.computed_element,))
    fitting = [name for name, _ in names if multiplied(name) in spelled]
    return next(iter(fitting), "no instruction that was found")


def _supported(machine: Machine | None, fate: DotFate) -> bool | None:
    """Whether the machine has a matrix instruction for the source's type."""
    if machine is not None and fate.widened and fate.source_is_small:
        return False
    return supports(machine, fate.source_element)


def supports(machine: Machine | None, element: str) -> bool | None:
    """Whether the machine has a matrix instruction for a type of MLIR; None without a machine."""
    if machine is None:
        return None
    spelled = _SPELLED.get(element, (element,))
    return any(multiplied(name.partition(":")[0]) in spelled for name in machine.mfma_cycles or ())


_HALVES: Final = ("f16", "bf16")
_SINGLE: Final = "f32"
_XF32: Final = "xf32"
_PRODUCTS_OF_BF16X3: Final = 3
"""Products of bfloat16 that Triton's input_precision="bf16x3" makes of one of float32."""
_WORTH_IT: Final = 1.5
"""Splitting takes vector instructions: of less than this rate nothing is left."""
SPECS = of_both(
    {
        "matrix.rate": "The operands' type that takes most of the matrix unit's cycles "
        "(`element`), its `percent` of these cycles, its `rate` in multiply-accumulates a cycle "
        "of one SIMD, `at` the line of the dot that takes most; of float32 also how often that "
        "rate others have: `times` 16-bit floats (also of xf32 of values stored in 16 bits), "
        "`xf32` float32 rounded to 19 bits, where the target multiplies these, `split` three "
        "products of bfloat16 in place of one, where that is faster; `stored` the 16-bit type of "
        "all operands before the source widened them",
    }
)


def rate(subject: Subject, region: Tally) -> dict[str, Scalar] | Unknown:
    """The value of the metric of `SPECS`."""
    machine = subject.machine
    if not region.matrix:
        return Unknown("no matrix instruction")
    found = _of_dominant_type(subject, machine, region.matrix) if machine is not None else None
    if found is None:
        return Unknown(f"rates of {machine.arch} are not known" if machine is not None else "")
    return found


class _Use(Struct):
    """What the products of one type take and do.

    Args:
        cycles: of the matrix unit.
        macs: multiply-accumulates.
        places: position of a dot -> its cycles.
    """

    cycles: int = 0
    macs: int = 0
    places: dict[Place | None, int] = {}


def _of_dominant_type(
    subject: Subject, machine: Machine, products: Sequence[Instruction]
) -> dict[str, Scalar] | None:
    """The value of the metric, of the type that takes most cycles; None where a rate is unknown."""
    uses: defaultdict[str, _Use] = defaultdict(_Use)
    dots: dict[Place | None, list[Instruction]] = {}
    place_of: dict[int, Place | None] = {}  # by identity: unrolled products share their position
    for inst in products:
        performed = operations(inst, subject.function.resources.wave_size or 64)
        cycles = matrix_cycles(machine, inst.op.name, inst.operands)
        if not performed or cycles is None:
            return None
        use = uses[performed[0].element]
        if id(inst.loc) not in place_of:
            place_of[id(inst.loc)] = position_of(inst.loc) if inst.loc is not None else None
        place = place_of[id(inst.loc)]
        dots.setdefault(place, []).append(inst)
        use.cycles += cycles
        use.macs += performed[0].count // 2
        use.places[place] = use.places.get(place, 0) + cycles
    element, use = max(uses.items(), key=lambda item: item[1].cycles)
    rate = use.macs / use.cycles
    best = best_rates(machine)
    stored = _stored(subject, use.places)
    halves = max(best.get(half, 0.0) for half in _HALVES)
    is_single = element == _SINGLE
    # Whoever asks for xf32 may need it, but not of values that are stored in 16 bits.
    is_slow = is_single or (element == _XF32 and stored is not None)
    split = halves / _PRODUCTS_OF_BF16X3 / rate
    return {
        "element": named(element),
        "percent": round(100 * use.cycles / sum(other.cycles for other in uses.values()), 1),
        "rate": round(rate, 1),
        "times": round(halves / rate, 2) if is_slow else None,
        "xf32": round(best[_XF32] / rate, 2) if is_single and _XF32 in best else None,
        "split": round(split, 2) if is_single and split >= _WORTH_IT else None,
        "stored": named(stored) if stored is not None and is_slow else None,
        "at": LineName.of(dots[max(use.places, key=lambda place: use.places[place])]),
    }


def best_rates(machine: Machine) -> dict[str, float]:
    """Type of the operands -> multiply-accumulates a cycle of its fastest dense instruction."""
    best: dict[str, float] = {}
    for name, cycles in (machine.mfma_cycles or {}).items():
        product = product_of(name)
        if product is not None and product.kind in ("mfma", "wmma") and cycles:
            rate = product.count / 2 / cycles
            best[product.element] = max(rate, best.get(product.element, 0.0))
    return best


def _stored(subject: Subject, places: Mapping[Place | None, int]) -> str | None:
    """The type of all operands of the dots at some positions before the source widened them."""
    if subject.ttir is None:
        return None
    from ..ttgir.lowered import widened_from  # only kernels with a TTIR need it
    from ..ttgir.queries import dots

    at_places = [
        op for op in dots(subject.ttir) if op.loc is not None and position_of(op.loc) in places
    ]
    elements = {element for op in at_places for element in widened_from(op, subject.ttir)}
    return elements.pop() if len(elements) == 1 and elements <= set(_HALVES) else None


HAZARD_SPECS = of_kernels(
    {
        "matrix.hazards": "Pairs of instructions that stand closer than a matrix instruction's "
        "registers allow, on some path: how many `pairs`; of the one that lacks most the `first` "
        "and the `second` instruction with their lines in the assembly (`first_line`, "
        "`second_line`), the wait states that are `needed` and those that lie `between`, and the "
        "`s_nop` that fills the gap, `at` which line of the source the second is. Unknown where "
        "the target has no such hazards",
    }
)


def hazards(subject: Subject) -> dict[str, Scalar] | Unknown:
    """The value of the metric of `HAZARD_SPECS`."""
    from ..emulator.checks.hazards import ARCHS, hazards_of

    machine, function = subject.machine, subject.function
    if machine is None or machine.arch not in ARCHS:
        return Unknown("it is looked for on CDNA2 to CDNA4 alone")
    registers = registers_of(function, target_of(function, machine.arch))
    found = hazards_of(
        function, registers.decoded, registers.effects, machine.arch, machine.mfma_cycles
    )
    if not found:
        return {"pairs": 0}
    worst = max(found, key=lambda hazard: hazard.needed - hazard.between)
    first, second = (function.instructions[at] for at in (worst.first, worst.second))
    return {
        "pairs": len(found),
        "first": first.mnemonic,
        "at": LineName.of([second, first]),
        "first_line": first.line,
        "second": second.mnemonic,
        "second_line": second.line,
        "needed": worst.needed,
        "between": worst.between,
        "s_nop": worst.needed - worst.between - 1,
    }
