"""Operations that give elements other places and leave what they are."""

from __future__ import annotations

from ...model import TtgirOp

SPREADS = frozenset(("splat", "broadcast", "expand_dims", "convert_layout", "extsi", "extui"))
_DIMENSION_KEEPING = frozenset(
    ("convert_layout", "extsi", "extui", "trunci", "broadcast", "index_cast")
)


def dimension_before(op: TtgirOp, dim: int) -> int | None:
    """The dimension of the operand that an operation only reshapes; -1 where it had none.

    None for other operations, and where the operand has fewer dimensions than that (edited text).
    """
    through = _operand_dimension(op, dim)
    rank = len(op.operand_types[0].shape) if op.operand_types else 0
    return None if through is not None and through >= max(rank, 1) else through


def _operand_dimension(op: TtgirOp, dim: int) -> int | None:
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
