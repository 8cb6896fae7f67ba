"""Operands of dots that vector instructions make of small integers: weights of 4 or 8 bits."""

from __future__ import annotations

from ..model import Scalar, TtgirModule
from .entries import of_kernels
from .matrix import named
from .subject import Subject, op_line

UNPACKED_SPECS = of_kernels(
    {
        "operands.unpacked": "Dots in loops of which an operand is converted from loaded "
        "integers: how many `dots`; of the first the `element` type that the integers become, the "
        "type that the `operand` has in the dot, the `bits` of an integer in memory, whether the "
        "numbers are multiplied before the dot (`scaled`), and `at` which line they are converted",
    }
)


def unpacked(_: Subject, module: TtgirModule) -> dict[str, Scalar]:
    """The value of the metric of `UNPACKED_SPECS`."""
    from ..ttgir.unpacked_operands import unpacked_operands  # only kernels with a TTGIR need it

    operands = list(unpacked_operands(module))
    if not operands:
        return {"dots": 0}
    first = operands[0]
    return {
        "dots": len(operands),
        "element": named(first.element),
        "operand": named(first.operand),
        "bits": first.bits,
        "scaled": first.is_scaled,
        "at": op_line(first.conversion),
    }
