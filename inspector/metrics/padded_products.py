"""Matrix work on padding: zeros that a tile's power of two adds to a dimension that is none."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ..model import Scalar, TtgirModule
from .entries import of_kernels
from .subject import Subject, op_line

if TYPE_CHECKING:
    from ..ttgir.padded_dots import PaddedDot, Side


PADDING_SPECS = of_kernels(
    {
        "matrix.padding": "Dots in loops (all, where no loop has one) of which a part multiplies "
        "zeros in every workgroup, because a mask by a constant or an argument of the launch "
        "leaves out the end of a dimension: of the one with most of it `at` its line, `along` "
        "which dimension, its `extent` and `used` elements of it, and the two `pieces` that would "
        "hold these, `held` in all; `zeros`: percent of the multiply-accumulates of all of them "
        "that are on padding, `percent`: that such pieces would save",
    }
)


def padding(subject: Subject, module: TtgirModule) -> dict[str, Scalar]:
    """The value of the metric of `PADDING_SPECS`."""
    from ..ttgir.padded_dots import padded_dots  # only kernels with a TTGIR need it

    every = padded_dots(module, subject.facts.values)
    dots = [dot for dot in every if dot.in_loop] or every
    padded = [dot for dot in dots if dot.is_padded]
    if not padded:
        return {"percent": 0, "zeros": 0}
    work = sum(prod(side.extent for side in dot.sides) for dot in dots)
    used = sum(prod(side.used for side in dot.sides) for dot in dots)
    held = sum(prod(sum(pieces(side)) for side in dot.sides) for dot in dots)
    worst = max(padded, key=lambda dot: (_saved(dot), _padding(dot)))
    along = max(
        worst.sides,
        key=lambda side: (side.extent / sum(pieces(side)), side.extent / max(1, side.used)),
    )
    parts = pieces(along)
    return {
        "at": op_line(worst.op),
        "along": along.name,
        "extent": along.extent,
        "used": along.used,
        "pieces": " + ".join(map(str, parts)),
        "held": sum(parts),
        "zeros": round(100 * (1 - used / work), 1),
        "percent": round(100 * (1 - held / work), 1),
    }


def _padding(dot: PaddedDot) -> int:
    """Multiply-accumulates on padding."""
    return prod(side.extent for side in dot.sides) - prod(side.used for side in dot.sides)


def _saved(dot: PaddedDot) -> int:
    """Multiply-accumulates that two pieces of each dimension would save."""
    work = prod(side.extent for side in dot.sides)
    return work - prod(sum(pieces(side)) for side in dot.sides)


def pieces(side: Side) -> tuple[int, ...]:
    """The least that one or two powers of two hold of a side's elements."""
    sizes = [side.granule]
    while sizes[-1] < side.extent:
        sizes.append(2 * sizes[-1])
    candidates = (
        [(side.extent,)]
        + [
            (size, rest)
            for size in sizes
            for rest in sizes
            if rest < size < side.extent and size + rest >= side.used
        ]
        + [(size,) for size in sizes if size >= side.used]
    )
    return min(candidates, key=lambda parts: (sum(parts), len(parts)))
