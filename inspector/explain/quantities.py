"""Numbers with units as people read them: times, scaled figures, grid sizes."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import MetricValue
from .view import show

UNKNOWN = "-"
_TIMES = (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0))
"""Unit -> nanoseconds, the largest first."""
_PREFIXES = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
"""Decimal prefix -> factor, the largest first."""


def duration(ns: float | None) -> str:
    """Returns a time with a fitting unit: `12.3 us`."""
    if ns is None:
        return UNKNOWN
    for unit, size in _TIMES:
        if abs(ns) >= size:
            return f"{_digits(ns / size)} {unit}"
    return f"{ns:g} ns"


def scaled(number: MetricValue) -> str:
    """Returns a figure as people read it: exact below a million, then with M, G or T."""
    if number is None:
        return UNKNOWN
    if not isinstance(number, int | float) or isinstance(number, bool):
        return show(number)
    if abs(number) < 1e6:
        return f"{int(number):,}" if float(number).is_integer() else _digits(number)
    prefix, size = next((prefix, size) for prefix, size in _PREFIXES if abs(number) >= size)
    return f"{_digits(number / size)} {prefix}"


def amount(number: float, unit: str) -> str:
    """Returns a number with its unit, from 1000 on with k, M or G: `1.5 MB`, `12 flop`."""
    for prefix, size in _PREFIXES[1:]:
        if number >= size:
            return f"{number / size:.1f} {prefix}{unit}"
    return f"{number:.0f} {unit}"


def dimensions(size: tuple[int, int, int] | None, product: int | None) -> str:
    """A grid or workgroup size without trailing ones, `1024×1024`; else its product, if known."""
    if size is None:
        return f"{product:,}" if product is not None else UNKNOWN
    sizes = list(size)
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return "×".join(f"{n:,}" for n in sizes)


def and_more(names: Sequence[str], most: int, noun: str = "") -> str:
    """Lists the first `most` names, and says how many more there are."""
    omitted = len(names) - most
    rest = f" and {omitted} more{f' {noun}' if noun else ''}" if omitted > 0 else ""
    return f"{', '.join(names[:most])}{rest}"


def _digits(number: float) -> str:
    """Three significant digits; whole numbers from 100 on."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
