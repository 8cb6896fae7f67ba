"""The matrix unit: cycles that it is occupied, and whether it computes the source's dots.

Cycles per instruction come from the machine file (the vendor's matrix calculator and LLVM's
scheduling model). They are a bound for one wave: waves of one SIMD share the unit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ..machines import matrix_cycles
from ..model import Machine, Metric, Scalar, TtgirModule
from .entries import of_both, of_kernels
from .subject import MATRIX_CLASSES, LineName, Subject, Tally

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
        from ..ttgir.made_of_exponentials import exponentials_outweigh

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
