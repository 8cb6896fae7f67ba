"""Samples of configurations and parameters: few, and far apart."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.guest.sampling import ends_and_middle, spread

GRID = [
    {"BLOCK_M": m, "BLOCK_N": n, "num_warps": w}
    for m, n, w in itertools.product((16, 32, 64, 128, 256), (32, 64, 128), (2, 4, 8))
]


@given(st.lists(st.integers(), unique=True), st.integers(1, 12))
def test_a_row_keeps_its_ends(values: list[int], most: int) -> None:
    few = ends_and_middle(values, most)
    assert few == [value for value in values if value in few]
    assert len(few) == min(most, len(values))
    assert few[:1] == values[:1]
    if most > 1:
        assert few[-1:] == values[-1:]
    assert ends_and_middle(values, None) == values


def test_three_of_a_row_are_the_first_the_middle_and_the_last() -> None:
    assert ends_and_middle(range(11)) == [0, 5, 10]


@given(
    st.lists(st.fixed_dictionaries({"a": st.integers(0, 4), "b": st.booleans()}), max_size=20),
    st.integers(1, 20),
)
def test_a_sample_is_that_many_points_in_their_order(
    points: Sequence[dict[str, Any]], most: int
) -> None:
    places = spread(points, most)
    assert places == sorted(set(places))
    assert len(places) == min(most, len(points))
    assert places[:1] == ([0] if points else [])
    assert spread(points, None) == list(range(len(points)))


def test_each_name_s_extremes_and_middle_and_each_number_of_waves_are_in_a_sample() -> None:
    chosen = [GRID[place] for place in spread(GRID, 5)]
    assert {16, 64, 256} <= {point["BLOCK_M"] for point in chosen}
    assert {32, 64, 128} == {point["BLOCK_N"] for point in chosen}
    assert {2, 4, 8} == {point["num_warps"] for point in chosen}
    # The first five would all have been alike.
    assert {point["BLOCK_M"] for point in GRID[:5]} == {16}


def test_every_number_of_waves_and_every_word_counts_as_an_end() -> None:
    points = [{"BLOCK": 64, "num_warps": w, "mode": m} for w in (1, 2, 4, 8, 16) for m in "abcde"]
    chosen = [points[place] for place in spread(points, 5)]
    assert {point["num_warps"] for point in chosen} == {1, 2, 4, 8, 16}
    assert {point["mode"] for point in chosen} == set("abcde")


@pytest.mark.parametrize("most", [1, 4, 8])
def test_a_sample_of_many_is_the_same_each_time(most: int) -> None:
    many = [
        {"BLOCK": b, "num_warps": w, "K": k} for b in range(20) for w in range(10) for k in "xy"
    ]
    assert spread(many, most) == spread(list(map(dict, many)), most)
