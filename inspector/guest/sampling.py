"""Selects samples that are spread over a space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

Point = Mapping[str, Any]


def ends_and_middle(values: Sequence[T], max_count: int | None = 3) -> list[T]:
    """At most `max_count` evenly spaced values, including the first and the last.

    `values`: values in a meaningful order, such as increasing sizes.
    `max_count`: at least 1; None for all.
    """
    if max_count is None or len(values) <= max_count:
        return list(values)
    if max_count == 1:
        return [values[0]]
    last_index = len(values) - 1
    return [values[round(k * last_index / (max_count - 1))] for k in range(max_count)]


def spread(points: Sequence[Point], max_count: int | None) -> list[int]:
    """Indices of at most `max_count` points, spread over their space.

    Points are selected greedily. Those with landmark values come first: each name's smallest,
    middle and largest value, every number of waves, every non-numeric value. Then the point that
    differs most from all points selected so far.

    `points`: name -> value; the names may differ from point to point.

    Returns:
        Indices in ascending order, always including the first point's.
    """
    if max_count is None or len(points) <= max_count:
        return list(range(len(points)))
    texts = [{name: repr(value) for name, value in point.items()} for point in points]
    landmarks = _landmarks(points)
    selected = [0]
    missing = landmarks - set(texts[0].items())
    distances = [len(texts[0].items() ^ text.items()) for text in texts]
    unselected = set(range(1, len(points)))
    while len(selected) < max_count:
        next_index = min(
            unselected,
            key=lambda candidate: (
                -len(missing & texts[candidate].items()),
                -distances[candidate],
                candidate,
            ),
        )  # ties: the earlier one
        selected.append(next_index)
        unselected.remove(next_index)
        missing -= set(texts[next_index].items())
        for candidate in unselected:
            distances[candidate] = min(
                distances[candidate], len(texts[next_index].items() ^ texts[candidate].items())
            )
    return sorted(selected)


def sample_note(name: str, sampled: int, total: int, noun: str) -> str:
    """The note on a sample: how many of all configurations are compiled."""
    return (
        f"{name}: {sampled} of {total} {noun} are looked at, spread over their values"
        " (--max-configs all: every one)"
    )


def _landmarks(points: Sequence[Point]) -> set[tuple[str, str]]:
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
