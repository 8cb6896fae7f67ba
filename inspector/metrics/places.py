"""Places in the source as values of metrics: `gemm.py:31`."""

from __future__ import annotations

from kinspect.inspector.model import SourceLoc, TtgirOp


def named(loc: SourceLoc | None) -> str | None:
    """The user's own line of a position, file name without folder; None where it is unknown."""
    if loc is None:
        return None
    user = loc.in_user_code
    return f"{user.file.rpartition('/')[2]}:{user.line}"


def of_op(op: TtgirOp | None) -> str | None:
    """The user's own line of an operation."""
    return named(op.loc) if op is not None else None
