"""Matrix products that the source writes as a multiplication and a sum, for the vector unit.

Operands of dots that vector instructions make of small integers: weights of 4 or 8 bits. Matrix
work on padding: zeros that a tile's power of two adds to a dimension that is none. Masks of scores
in loops of dots: what they take where most tiles need none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Final

from ..model import Instruction, Scalar, TtgirModule
from .entries import of_kernels, of_loops
from .loop_shape import position_of
from .matrix import named, supports
from .mix import VALU_CLASSES, vector_instructions
from .subject import LineName, Place, Subject, op_line

if TYPE_CHECKING:
    from .triton_masks import MaskedTile
    from .triton_padding import PaddedDot, Side


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
    from .triton_arithmetic import summed_products  # only kernels with a TTGIR need it

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
    from .triton_arithmetic import unpacked_operands  # only kernels with a TTGIR need it

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
    from .triton_padding import padded_dots  # only kernels with a TTGIR need it

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


MASK_SPECS: Final = of_loops(
    {
        "masks.positions": "Selections of floating-point tiles by comparisons of positions in a "
        "loop of dots, such as the mask of a causal attention or of a sequence's end: how many "
        "`tiles`, the comparisons and selections among the vector `instructions` that they take, "
        "`at` the line of the first, `split`: whether another loop multiplies tiles of these "
        "shapes without a mask; of some programs of the launch `iterations`, and in how many of "
        "them (`idle`) the mask takes no score, None where that is not known",
    }
)

_STEPS: Final = ("v_cmp", "cndmask")


def masked(
    subject: Subject, module: TtgirModule, own_code: Mapping[str, Sequence[Instruction]]
) -> dict[str, dict[str, Scalar]]:
    """Loop id -> the value of the metric of `MASK_SPECS`."""
    from .triton_masks import masked_tiles  # only kernels with a TTGIR need it

    tile_at: dict[Place, MaskedTile] = {}
    for tile in masked_tiles(module):
        for op in (tile.op, *tile.comparisons):
            if op.loc is not None:
                tile_at.setdefault(position_of(op.loc), tile)
    return {loop: _value(subject, tile_at, code) for loop, code in own_code.items()}


def _value(
    subject: Subject, tile_at: Mapping[Place, MaskedTile], code: Sequence[Instruction]
) -> dict[str, Scalar]:
    """The metric of one loop's own code."""
    instructions = 0
    tiles: list[MaskedTile] = []
    for inst in code if tile_at else ():
        if inst.cls in VALU_CLASSES and inst.loc is not None and _is_step(inst):
            tile = tile_at.get(position_of(inst.loc))
            if tile is not None:
                instructions += 1
                if tile not in tiles:
                    tiles.append(tile)
    idle = _idle(subject, tiles)
    masked = sorted((tile.op for tile in tiles), key=lambda op: op.index)
    return {
        "tiles": len(tiles),
        "instructions": instructions,
        "at": LineName.of(masked),
        "split": any(tile.is_split for tile in tiles),
        "idle": idle[0] if idle is not None else None,
        "iterations": idle[1] if idle is not None else None,
    }


def _idle(subject: Subject, tiles: Sequence[MaskedTile]) -> tuple[int, int] | None:
    """Iterations of the launch in which masks take no score, and all of them."""
    grid, module = subject.facts.grid, subject.ttgir
    if not tiles or not grid or module is None or len({tile.loop for tile in tiles}) != 1:
        return None
    from .triton_masks import wholly_masked

    return wholly_masked(module, tiles, subject.facts.values or {}, grid)


def _is_step(inst: Instruction) -> bool:
    """Whether an instruction compares or selects, as a half of a VOPD instruction, too."""
    return any(step in inst.mnemonic for step in _STEPS)
