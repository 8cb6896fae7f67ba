"""Masks of scores in loops of dots: what they take where most tiles need none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ..model import Instruction, Scalar, TtgirModule
from .entries import of_loops
from .loop_shape import position_of
from .mix import VALU_CLASSES
from .subject import LineName, Place, Subject

if TYPE_CHECKING:
    from ..ttgir.position_masks import MaskedTile


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
    from ..ttgir.position_masks import masked_tiles  # only kernels with a TTGIR need it

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
    from ..ttgir.masked_iterations import wholly_masked

    return wholly_masked(module, tiles, subject.facts.values or {}, grid)


def _is_step(inst: Instruction) -> bool:
    """Whether an instruction compares or selects, as a half of a VOPD instruction, too."""
    return any(step in inst.mnemonic for step in _STEPS)
