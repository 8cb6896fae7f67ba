"""What is said of a number of times: best, mean, slowest, error; and of several cases together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct


class Summary(Struct, frozen=True):
    """The times of one case, in µs.

    Args:
        best: the shortest.
        mean: arithmetic.
        slowest: the longest.
        error: standard error of the mean; None for a single run.
        runs: how many there were.
    """

    best: float
    mean: float
    slowest: float
    error: float | None
    runs: int


def summarize(times: Sequence[float]) -> Summary | None:
    """The summary of some times, or None where there are none."""
    if not times:
        return None
    runs = len(times)
    mean = math.fsum(times) / runs
    error = None
    if runs > 1:
        variance = math.fsum((t - mean) ** 2 for t in times) / (runs - 1)
        error = math.sqrt(variance / runs)
    return Summary(min(times), mean, max(times), error, runs)


def geometric_mean(values: Iterable[float]) -> float | None:
    """Of positive values; None for none, or where one is not positive."""
    logs = []
    for value in values:
        if value <= 0:
            return None
        logs.append(math.log(value))
    return math.exp(math.fsum(logs) / len(logs)) if logs else None
