"""Products in a type for which the matrix unit is slow, and what would be faster on the target.

Rates follow from the machine file's cycles and the shapes in the instructions' names: float32 has a
4th (CDNA 2) to a 16th (CDNA 4) of the rate of 16-bit floats.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ..isa.operations import operations, product_of
from ..machines import matrix_cycles
from ..model import Instruction, Machine, Scalar
from .entries import Unknown, of_both
from .loop_shape import position_of
from .matrix import named
from .subject import LineName, Place, Subject, Tally

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
