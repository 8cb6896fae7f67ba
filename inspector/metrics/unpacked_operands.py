"""Operands of dots that vector instructions make of small integers: weights of 4 or 8 bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..model import Metric, Scalar
from .entries import of_kernels
from .matrix import named
from .subject import Subject, op_line

_UNPACKED: Final = "operands.unpacked"

SPECS = of_kernels(
    {
        _UNPACKED: "Dots in loops of which an operand is converted from loaded integers: how many "
        "`dots`; of the first the `element` type that the integers become, the type that the "
        "`operand` has in the dot, the `bits` of an integer in memory, whether the numbers are "
        "multiplied before the dot (`scaled`), and `at` which line they are converted",
    }
)


def compute(subject: Subject) -> Iterator[Metric]:
    """The metric of `SPECS`."""
    if subject.ttgir is None:
        yield Metric(_UNPACKED, None, "mapping", "derived", "needs the kernel's TTGIR")
        return
    from ..ttgir.unpacked_operands import unpacked_operands  # only kernels with a TTGIR need it

    operands = list(unpacked_operands(subject.ttgir))
    value: dict[str, Scalar] = {"dots": len(operands)}
    if operands:
        first = operands[0]
        value |= {
            "element": named(first.element),
            "operand": named(first.operand),
            "bits": first.bits,
            "scaled": first.is_scaled,
            "at": op_line(first.conversion),
        }
    yield Metric(_UNPACKED, value, "mapping", "derived")
