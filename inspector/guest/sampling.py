"""Chooses samples that lie far apart, instead of the first few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

Point = Mapping[str, Any]


def ends_and_middle(values: Sequence[T], most: int | None = 3) -> list[T]:
    """At most `most` evenly spaced values, including the first and the last.

    Args:
        values: in a meaningful order, such as increasing sizes.
        most: at least 1; None for all.
    """
    if most is None or len(values) <= most:
        return list(values)
    if most == 1:
        return [values[0]]
    last_index = len(values) - 1
    return [values[round(k * last_index / (most - 1))] for k in range(most)]


def spread(points: Sequence[Point], most: int | None) -> list[int]:
    """Indices of at most `most` points, spread over their space.

    Points are chosen greedily. Those with landmark values come first: each name's least, middle and
    greatest value, every number of waves, every non-numeric value. Then the point that differs most
    from all points chosen so far.

    Args:
        points: name -> value; the names may differ from point to point.
        most: at least 1; None for all.

    Returns:
        Indices in ascending order, always including the first point's.
    """
    if most is None or len(points) <= most:
        return list(range(len(points)))
    texts = [{name: repr(value) for name, value in point.items()} for point in points]
    landmarks = _landmarks(points)
    chosen = [0]
    missing = landmarks - set(texts[0].items())
    unlike = [len(texts[0].items() ^ text.items()) for text in texts]
    unchosen = set(range(1, len(points)))
    while len(chosen) < most:
        best = min(
            unchosen,
            key=lambda candidate: (
                -len(missing & texts[candidate].items()),
                -unlike[candidate],
                candidate,
            ),
        )  # ties: the earlier one
        chosen.append(best)
        unchosen.remove(best)
        missing -= set(texts[best].items())
        for candidate in unchosen:
            unlike[candidate] = min(
                unlike[candidate], len(texts[best].items() ^ texts[candidate].items())
            )
    return sorted(chosen)


def said_of_sample(name: str, sampled: int, total: int, noun: str) -> str:
    """The note on a sample: how many of how many configurations are looked at."""
    return (
        f"{name}: {sampled} of {total} {noun} are looked at, spread over their values"
        " (--max-configs all: every one)"
    )


def _landmarks(points: Sequence[Point]) -> set[tuple[str, str]]:
    """The values that a sample should hold, as name and text."""
    values: dict[str, dict[str, Any]] = {}
    for point in points:
        for name, value in point.items():
            values.setdefault(name, {})[repr(value)] = value
    landmarks: set[tuple[str, str]] = set()
    for name, value_of in values.items():
        kinds = {type(value) for value in value_of.values()}
        texts = list(value_of)
        if name != "num_warps" and kinds <= {int, float}:
            texts = ends_and_middle(sorted(value_of, key=lambda text: value_of[text]))
        landmarks.update((name, text) for text in texts)
    return landmarks
