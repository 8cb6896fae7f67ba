"""Figures as formulas show them."""

from __future__ import annotations


def figure(value: float) -> str:
    """Six digits, with an exponent where it is shorter: `486977`, `1.55e8`, `0.0125`."""
    if value == int(value) and abs(value) < 1e7:
        return str(int(value))
    text = f"{value:.6g}"
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if mark else text
