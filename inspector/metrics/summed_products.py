"""Matrix products that the source writes as a multiplication and a sum, for the vector unit."""

from __future__ import annotations

from ..model import Scalar, TtgirModule
from .entries import of_kernels
from .loop_shape import position_of
from .matrix import named, supports
from .mix import vector_instructions
from .subject import Subject, op_line

SUMMED_SPECS = of_kernels(
    {
        "matrix.summed": "Matrix products written as a multiplication of broadcast tensors and a "
        "sum: `products`; of the largest its extents `m`, `n` and `k`, the factors' `element` "
        "type, `supported`: whether this GPU has matrix instructions for it, the vector "
        "`instructions` that the multiplication and the sum take, and `at` its line",
    }
)


def summed(subject: Subject, module: TtgirModule) -> dict[str, Scalar]:
    """The value of the metric of `SUMMED_SPECS`."""
    from ..ttgir.summed_products import summed_products  # only kernels with a TTGIR need it

    products = summed_products(module)
    if not products:
        return {"products": 0}
    largest = max(products, key=lambda product: product.m * product.n * product.k)
    ops = (largest.multiply, largest.reduce)
    places = {position_of(op.loc) for op in ops if op.loc is not None}
    code = subject.function.instructions
    here = [inst for inst in code if inst.loc is not None and position_of(inst.loc) in places]
    return {
        "products": len(products),
        "m": largest.m,
        "n": largest.n,
        "k": largest.k,
        "element": named(largest.element),
        "supported": supports(subject.machine, largest.element),
        "instructions": vector_instructions(here),
        "at": op_line(largest.multiply),
    }
