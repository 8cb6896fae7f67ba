"""Axes as typed, the Pareto front against its definition, sorting: no compiler needed."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.errors import KinspectError
from kinspect.inspector.model import Variant
from kinspect.inspector.sweep.axes import Axis, axes_of, count
from kinspect.inspector.sweep.figures import Figures, decode, encode
from kinspect.inspector.sweep.pareto import front, objectives_of
from kinspect.inspector.sweep.table import Point, Row, sort_key, sorted_lines, tables_of


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("num_warps=4,8", (4, 8)),
        ("a = 1 , -2, 0x10", (1, -2, 16)),
        ("a=0.5,1e3", (0.5, 1000.0)),
        ("a=true,False", (True, False)),
        ("a=1,true,1.0", (1, True, 1.0)),
        ("a=none,local-prefetch,nan", ("none", "local-prefetch", "nan")),
        ("a=1..4", (1, 2, 3, 4)),
        ("a=16..64+16", (16, 32, 48, 64)),
        ("a=32..300*2", (32, 64, 128, 256)),
        ("a=-1..1,1,7", (-1, 0, 1, 7)),
    ],
)
def test_values(text: str, values: tuple[Any, ...]) -> None:
    (axis,) = axes_of([text])
    assert axis.values == values
    assert [type(v) for v in axis.values] == [type(v) for v in values]


@pytest.mark.parametrize(
    "text",
    ["", "num_warps", "=4", "4=4", "a=", "a=1,,2", "a=4..1", "a=1..9*1", "a=0..9*2", "a=1..9+0"],
)
def test_what_is_no_axis(text: str) -> None:
    with pytest.raises(KinspectError, match="--set"):
        axes_of([text])


def test_an_endless_range_is_refused() -> None:
    with pytest.raises(KinspectError, match="more than 10000 values"):
        axes_of(["a=1..1000000000"])


def test_a_name_given_twice_is_one_axis() -> None:
    assert axes_of(["a=1", "b=2", "a=1,3"]) == (Axis("a", (1, 3)), Axis("b", (2,)))
    assert count(axes_of(["a=1..3", "b=1..4"])) == 12


def point(number: int, **values: Any) -> Point:
    return Point((0, 0, number), "k.py", Variant("k", "gfx942", 64, "module {}", {}), values)


def rows_of(figures: list[Figures | None]) -> list[Row]:
    return [Row(point(n, n=n), one, None, False, 0.0) for n, one in enumerate(figures)]


small = st.one_of(st.none(), st.integers(0, 3))
figures = st.builds(
    Figures,
    waves_per_eu=small,
    scratch_in_loops=small,
    vgpr_spills=small,
    matrix_per_iteration=st.integers(0, 1),
    full_waits_per_1000_matrix_cycles=small,
    full_waits_per_iteration=small,
    cannot_launch=st.sampled_from([None, None, "LDS"]),
)


@given(st.lists(st.one_of(st.none(), figures), max_size=8))
def test_the_front_is_what_no_point_beats(found: list[Figures | None]) -> None:
    """Against the definition, by brute force over all pairs."""
    able = [f for f in found if f is not None and f.cannot_launch is None]
    objectives = objectives_of(able)

    def losses(one: Figures) -> list[float] | None:
        out = []
        for objective in objectives:
            value = getattr(one, objective.column)
            if value is None and "matrix" in objective.column and not one.matrix_per_iteration:
                value = math.inf
            if value is None:
                return None
            out.append(-value if objective.more else value)
        return out

    complete = [loss for loss in map(losses, able) if loss is not None]
    for one, marked in zip(found, front(found), strict=True):
        mine = losses(one) if one is not None and one.cannot_launch is None else None
        beaten = mine is not None and any(
            all(a <= b for a, b in zip(other, mine, strict=True)) and other != mine
            for other in complete
        )
        assert marked == (bool(objectives) and mine is not None and not beaten)


def test_objectives_without_matrix_instructions() -> None:
    plain = Figures(waves_per_eu=4, matrix_per_iteration=0, full_waits_per_iteration=2)
    assert [o.column for o in objectives_of([plain])] == [
        "waves_per_eu",
        "full_waits_per_iteration",
    ]
    matrix = replace(plain, matrix_per_iteration=8, full_waits_per_1000_matrix_cycles=3.0)
    both = objectives_of([plain, matrix])
    assert [o.column for o in both] == ["waves_per_eu", "full_waits_per_1000_matrix_cycles"]
    assert front([plain, matrix]) == [False, True]  # no matrix instruction where others have some


def test_same_code_needs_the_same_launch() -> None:
    one = Figures(isa_sha256="a", lds_bytes=0, waves_per_workgroup=4)
    found = [one, one, replace(one, lds_bytes=64), None, replace(one, isa_sha256=None), one]
    (table,) = tables_of(rows_of(found), ())
    assert [line.same_as for line in table.lines] == [None, 1, None, None, None, 1]


def test_sorting_keeps_numbers_and_puts_the_unknown_last() -> None:
    rows = rows_of([Figures(vgprs=v) for v in (9, None, 3, 5)])
    (table,) = tables_of(rows, (Axis("n", (0, 1, 2, 3)),))
    numbers = [
        [li.number for li in sorted_lines(table, n).lines] for n in ("vgprs", "-vgprs", "-n")
    ]
    assert numbers == [[3, 4, 1, 2], [1, 4, 3, 2], [4, 3, 2, 1]]
    assert sort_key("-vgprs", ["n"]) == "vgprs"
    with pytest.raises(KinspectError, match="did you mean lds_bytes"):
        sort_key("lds_byte", ["n"])


def test_rows_come_in_the_order_of_the_product_whoever_expanded_them() -> None:
    axes = (Axis("num_warps", (4, 8)), Axis("BLOCK", (64, 128)))
    # The front end's axis varies slowest as points are found.
    orders = itertools.product((64, 128), (4, 8))
    rows = [
        Row(replace(point(n, num_warps=w, BLOCK=b), order=(0, n // 2, n % 2)), None, None, False, 0)
        for n, (b, w) in enumerate(orders)
    ]
    (table,) = tables_of(rows, axes)
    assert [tuple(line.values.values()) for line in table.lines] == [
        (4, 64),
        (4, 128),
        (8, 64),
        (8, 128),
    ]


@given(figures)
def test_figures_survive_the_store(one: Figures) -> None:
    assert decode(encode(one)) == one


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"vgprs": "many"}', b"\xff"])
def test_damaged_figures_are_none(data: bytes) -> None:
    assert decode(data) is None
