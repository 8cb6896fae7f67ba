"""Which of many to look at: a few that lie far apart, not the first ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

Point = Mapping[str, Any]


def ends_and_middle(values: Sequence[T], most: int | None = 3) -> list[T]:
    """At most so many of a row, the first and the last among them, at even distances.

    Args:
        values: in an order that means something: sizes, a test's parameters.
        most: at least 1; None for all.
    """
    if most is None or len(values) <= most:
        return list(values)
    if most == 1:
        return [values[0]]
    last = len(values) - 1
    return [values[round(k * last / (most - 1))] for k in range(most)]


def spread(points: Sequence[Point], most: int | None) -> list[int]:
    """Places of at most so many points of a space, spread over it.

    Each name's least, middle and greatest value come first, every number of waves, and every value
    that is no number; after them what is most unlike all that was chosen.

    Args:
        points: name -> value; the names may differ from point to point.
        most: at least 1; None for all.

    Returns:
        Places in ascending order; the first point is always among them.
    """
    if most is None or len(points) <= most:
        return list(range(len(points)))
    texts = [{name: repr(value) for name, value in point.items()} for point in points]
    landmarks = _landmarks(points)
    chosen = [0]
    missing = landmarks - set(texts[0].items())
    unlike = [len(texts[0].items() ^ text.items()) for text in texts]
    left = set(range(1, len(points)))
    while len(chosen) < most:
        best = min(
            left, key=lambda k: (-len(missing & texts[k].items()), -unlike[k], k)
        )  # ties: the earlier one
        chosen.append(best)
        left.remove(best)
        missing -= set(texts[best].items())
        for k in left:
            unlike[k] = min(unlike[k], len(texts[best].items() ^ texts[k].items()))
    return sorted(chosen)


def said_of_sample(name: str, sampled: int, total: int, noun: str) -> str:
    """What is said where not all configurations are looked at."""
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
