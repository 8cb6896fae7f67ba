"""Operations that only move, repeat or convert elements."""

from __future__ import annotations

from ...model import TtgirOp

SPREADS = frozenset(("splat", "broadcast", "expand_dims", "convert_layout", "extsi", "extui"))
"""Operations through which a tensor of equal elements is followed to its scalar."""
_DIMENSION_KEEPING = frozenset(
    ("convert_layout", "extsi", "extui", "trunci", "broadcast", "index_cast")
)


def dimension_before(op: TtgirOp, dim: int) -> int | None:
    """The operand's dimension that becomes `dim` of the result; -1 where `dim` is new.

    None for operations that compute, and where the operand lacks that dimension (edited text).
    """
    through = _operand_dimension(op, dim)
    rank = len(op.operand_types[0].shape) if op.operand_types else 0
    return None if through is not None and through >= max(rank, 1) else through


def _operand_dimension(op: TtgirOp, dim: int) -> int | None:
    """The dimension of the operand, which may lack it; as `dimension_before` otherwise."""
    short = op.name.rpartition(".")[2]
    if short in _DIMENSION_KEEPING:
        return dim
    if short == "splat":
        return -1
    if short == "expand_dims":
        axis = op.attributes.get("axis")
        if not isinstance(axis, int) or axis == dim:
            return -1
        return dim - (dim > axis)
    if short == "trans":
        order = op.attributes.get("order")
        return order[dim] if isinstance(order, tuple) and dim < len(order) else None
    return None
