"""Matrix products that the source writes as a multiplication and a sum, for the vector unit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..model import Metric, Scalar
from .entries import of_kernels
from .loop_shape import position_of
from .matrix import named, supports
from .mix import VALU_CLASSES
from .subject import Subject, op_line

_SUMMED: Final = "matrix.summed"

SPECS = of_kernels(
    {
        _SUMMED: "Matrix products written as a multiplication of broadcast tensors and a sum: "
        "`products`; of the largest its extents `m`, `n` and `k`, the factors' `element` type, "
        "`supported`: whether this GPU has matrix instructions for it, the vector `instructions` "
        "that the multiplication and the sum take, and `at` its line",
    }
)


def compute(subject: Subject) -> Iterator[Metric]:
    """The metric of `SPECS`."""
    if subject.ttgir is None:
        yield Metric(_SUMMED, None, "mapping", "derived", "needs the kernel's TTGIR")
        return
    from ..ttgir.summed_products import summed_products  # only kernels with a TTGIR need it

    products = summed_products(subject.ttgir)
    value: dict[str, Scalar] = {"products": len(products)}
    if products:
        largest = max(products, key=lambda product: product.m * product.n * product.k)
        places = {
            position_of(op.loc) for op in (largest.multiply, largest.reduce) if op.loc is not None
        }
        value |= {
            "m": largest.m,
            "n": largest.n,
            "k": largest.k,
            "element": named(largest.element),
            "supported": supports(subject.machine, largest.element),
            "instructions": sum(
                inst.cls in VALU_CLASSES
                and inst.loc is not None
                and position_of(inst.loc) in places
                for inst in subject.function.instructions
            ),
            "at": op_line(largest.multiply),
        }
    yield Metric(_SUMMED, value, "mapping", "derived")
