"""Exact mean, median and extremes of long columns of figures."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...model.recording import Spread

Column = NDArray[np.int64] | NDArray[np.float64]


def spread(values: Column | Sequence[float]) -> Spread | None:
    """Returns the spread of figures; None if there are none.

    Totals of integers are exact; those of floats are rounded once.
    """
    column = np.asarray(values)
    count = len(column)
    if not count:
        return None
    is_whole = column.dtype.kind == "i"
    total = sum(column.tolist()) if is_whole else math.fsum(column)
    # The median of an even number of values is the mean of the two in the middle.
    first, last = (count - 1) // 2, count // 2
    middle = np.partition(column, (first, last))
    low, high = middle[first].item(), middle[last].item()
    return Spread(
        count=count,
        total=total,
        mean=total / count,
        median=low if first == last else (low + high) / 2,
        least=column.min().item(),
        most=column.max().item(),
    )
