"""Numbers of some bits that an assembler prints without their sign."""

from __future__ import annotations


def signed(value: int, bits: int = 32) -> int:
    """The number that the lowest bits of a value stand for in two's complement."""
    half = 1 << bits - 1
    return (value + half) % (2 * half) - half
