"""Exact mean, median and extremes of long columns of figures.

Columns are arrays: ten million values are never a list of objects.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

from ...model.recording import Spread

_SORTED = 1_000_000
"""Up to this many values are simply sorted, which takes some tens of megabytes."""
_SAMPLE = 20_000
"""Values of a longer sequence from which the position of its median is guessed."""


def spread(values: Sequence[float]) -> Spread | None:
    """Returns the spread of figures; None if there are none.

    Totals of integers are exact; those of floats are rounded once.
    """
    if not values:
        return None
    total = (
        sum(values) if isinstance(values, array) and values.typecode == "q" else math.fsum(values)
    )
    return Spread(
        count=len(values),
        total=total,
        mean=total / len(values),
        median=median(values),
        least=min(values),
        most=max(values),
    )


def median(values: Sequence[float]) -> float:
    """Returns the exact median: of an even number of values, the mean of the two in the middle."""
    last = len(values) // 2
    first = last if len(values) % 2 else last - 1
    low, high = _ranked(values, first, last)
    return low if first == last else (low + high) / 2


def _ranked(values: Sequence[float], first: int, last: int) -> tuple[float, float]:
    """Returns the values at two neighbouring positions of the sorted sequence.

    Of a long sequence only the middle is sorted, between two values of a sample; all of it if the
    positions are outside of that.
    """
    if len(values) > _SORTED:
        sample = sorted(values[:: len(values) // _SAMPLE])
        middle_index, margin = len(sample) // 2, len(sample) // 50
        low, high = sample[middle_index - margin], sample[middle_index + margin]
        below = sum(1 for value in values if value < low)
        if low == high:
            equal = sum(1 for value in values if value == low)
            if below <= first and last < below + equal:
                return low, low
        middle = [value for value in values if low <= value <= high]
        if below <= first and last < below + len(middle):
            middle.sort()
            return middle[first - below], middle[last - below]
    ordered = sorted(values)
    return ordered[first], ordered[last]
