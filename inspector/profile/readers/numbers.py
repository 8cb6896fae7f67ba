"""Numbers as strangers' files have them: of any size, where ours are machine numbers."""

from __future__ import annotations

LARGEST = 2**63 - 1
"""What a column of machine numbers holds."""


def whole(value: object) -> int | None:
    """A value as a machine number; None where it is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and -LARGEST <= value <= LARGEST else None


def is_whole(value: object) -> bool:
    """Whether it is an integer that a machine number holds."""
    return isinstance(value, int) and -LARGEST <= value <= LARGEST
