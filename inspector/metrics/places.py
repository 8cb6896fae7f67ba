"""Places and names of the source as values of metrics: `gemm.py:31`, `keys`."""

from __future__ import annotations

from ..model import SourceLoc, TtgirOp


def named(loc: SourceLoc | None) -> str | None:
    """The user's own line of a position, file name without folder; None where it is unknown."""
    if loc is None:
        return None
    user = loc.in_user_code
    return f"{user.file.rpartition('/')[2]}:{user.line}"


def of_op(op: TtgirOp | None) -> str | None:
    """The user's own line of an operation."""
    return named(op.loc) if op is not None else None


def variable(result: str) -> str:
    """The variable that a value's SSA name was made of: `%keys_19` is `keys`."""
    plain = result.lstrip("%").partition(":")[0]
    stem, _, number = plain.rpartition("_")
    return stem if stem and number.isdigit() else plain
