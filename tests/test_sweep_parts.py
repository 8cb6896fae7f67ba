"""Axes as typed, the Pareto front against its definition, sorting: no compiler needed."""

from __future__ import annotations

import itertools
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.capture.sweep_axes import Axis, axes_of, count
from kinspect.inspector.compare.points import stored_value
from kinspect.inspector.compare.sweep.figures import Figures
from kinspect.inspector.compare.sweep.swept_points import (
    PointResult,
    SweepPoint,
    front,
    objectives_of,
)
from kinspect.inspector.compare.sweep.table import distinction, sort_column, sorted_lines, tables_of
from kinspect.inspector.model import Variant
from msgspec.structs import replace


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


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_axis_has_finite_values(value: float) -> None:
    """JSON of Python clients has NaN."""
    with pytest.raises(KinspectError, match="num_warps"):
        Axis("num_warps", (4, value))


def test_an_endless_range_is_refused() -> None:
    with pytest.raises(KinspectError, match="more than 10000 values"):
        axes_of(["a=1..1000000000"])


def test_a_name_given_twice_is_one_axis() -> None:
    assert axes_of(["a=1", "b=2", "a=1,3"]) == (Axis("a", (1, 3)), Axis("b", (2,)))
    assert count(axes_of(["a=1..3", "b=1..4"])) == 12


def point(number: int, **values: Any) -> SweepPoint:
    return SweepPoint(
        (0, 0, number),
        "k.py",
        Variant(kernel="k", arch="gfx942", wave_size=64, ttir="module {}", options={}),
        values,
    )


def rows_of(figures: list[Figures | None]) -> list[PointResult]:
    return [PointResult(point(n, n=n), one, None, False, 0.0) for n, one in enumerate(figures)]


small = st.one_of(st.none(), st.integers(0, 3))
per_work = st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0]))
figures = st.builds(
    Figures,
    waves_per_eu=small,
    vgpr_spills=small,
    matrix_per_iteration=st.sampled_from([None, 0, 1, 1]),
    work_unit=st.sampled_from(["mac", "mac", "element", None]),
    matrix_cycles_per_work=per_work,
    full_waits_per_work=per_work,
    scratch_per_work=per_work,
    cannot_launch=st.sampled_from([None, None, None, "LDS"]),
)


def as_defined(found: list[Figures | None]) -> list[bool]:
    """The front by its definition, over all pairs, without a line of the program."""
    able = [f for f in found if f is not None and f.cannot_launch is None]
    macs = any(f.matrix_per_iteration or f.work_unit == "mac" for f in able)
    unit = "mac" if macs else "element"

    def losses(one: Figures) -> dict[str, float | None]:
        out: dict[str, float | None] = {
            "waves": None if one.waves_per_eu is None else -one.waves_per_eu,
            "spills": one.vgpr_spills,
        }
        asked = ["scratch_per_work", "full_waits_per_work"]
        asked += ["matrix_cycles_per_work"] if macs else []
        for name in asked:
            value = getattr(one, name)
            if macs and one.matrix_per_iteration == 0:
                value = value if name == "scratch_per_work" else math.inf
            elif value and one.work_unit != unit:
                value = None
            out[name] = value
        return out

    known = [losses(f) for f in able]
    names = [n for n in (known[0] if known else ()) if any(one[n] is not None for one in known)]

    def beats(one: dict[str, float | None], other: dict[str, float | None]) -> bool:
        better = False
        for name in names:
            a, b = one[name], other[name]
            if a is None or b is None or a > b:
                return False
            better = better or a < b
        return better

    marks = []
    for f in found:
        mine = losses(f) if f is not None and f.cannot_launch is None else {}
        some = any(mine.get(name) is not None for name in names)
        marks.append(some and not any(beats(other, mine) for other in known))
    return marks


@settings(max_examples=400)
@given(st.lists(st.one_of(st.none(), figures), max_size=8))
def test_the_front_is_what_no_point_beats(found: list[Figures | None]) -> None:
    assert front(found) == as_defined(found)


def test_wasted_matrix_work_does_not_win() -> None:
    """The figures of attention at 64×32 tiles with MFMAs of 16×16 and of 32×32, head size 256.

    Both need 64·32·256 multiply-accumulates twice in an iteration; the larger tile of 32×32 makes
    waves repeat each other's work, so that the same waits look few beside its matrix cycles.
    """
    shared: dict[str, Any] = {"waves_per_eu": 2, "vgpr_spills": 0, "waves_per_workgroup": 4}
    macs = 2 * 64 * 32 * 256
    found = [
        Figures(
            **shared,
            vgprs=vgprs,
            scratch_per_work=0.0,
            matrix_per_iteration=instructions,
            matrix_cycles_per_iteration=cycles,
            full_waits_per_iteration=waits,
            full_waits_per_1000_matrix_cycles=round(1000 * waits / cycles, 3),
            work_unit="mac",
            work_per_iteration=macs,
            matrix_cycles_per_work=cycles * 4e6 / macs,
            full_waits_per_work=waits * 4e6 / macs,
        )
        for vgprs, instructions, cycles, waits in ((226, 64, 1024, 10), (256, 48, 1536, 13))
    ]
    assert front(found) == [True, False]


def test_an_unknown_objective_neither_beats_nor_is_beaten() -> None:
    good = Figures(
        waves_per_eu=4,
        vgpr_spills=0,
        matrix_per_iteration=8,
        work_unit="mac",
        matrix_cycles_per_work=1.0,
        full_waits_per_work=1.0,
    )
    worse = replace(good, waves_per_eu=1, full_waits_per_work=2.0)
    doubtful = replace(worse, work_unit=None, matrix_cycles_per_work=None, full_waits_per_work=None)
    assert front([good, worse, doubtful]) == [True, False, True]
    assert front([worse, doubtful]) == [True, True]
    (table,) = tables_of(rows_of([good, worse, doubtful, Figures()]), ())
    columns = ("matrix_cycles_per_work", "full_waits_per_work")
    assert [line.unknown for line in table.lines[:3]] == [(), (), columns]
    assert not table.lines[3].pareto  # of which nothing is known at all


def test_objectives_without_matrix_instructions() -> None:
    plain = Figures(
        waves_per_eu=4, matrix_per_iteration=0, work_unit="element", full_waits_per_work=2.0
    )
    assert [(o.column, o.work) for o in objectives_of([plain])] == [
        ("waves_per_eu", None),
        ("full_waits_per_work", "element"),
    ]
    matrix = replace(
        plain, matrix_per_iteration=8, work_unit="mac", full_waits_per_work=3.0, waves_per_eu=4
    )
    both = objectives_of([plain, matrix])
    assert [(o.column, o.work) for o in both] == [
        ("waves_per_eu", None),
        ("matrix_cycles_per_work", "mac"),
        ("full_waits_per_work", "mac"),
    ]
    # No matrix instruction where others have some.
    assert front([plain, replace(matrix, matrix_cycles_per_work=5.0)]) == [False, True]


def test_same_code_needs_the_same_launch() -> None:
    one = Figures(isa_sha256="a", lds_bytes=0, waves_per_workgroup=4)
    found = [one, one, replace(one, lds_bytes=64), None, replace(one, isa_sha256=None), one]
    (table,) = tables_of(rows_of(found), ())
    assert [line.same_as for line in table.lines] == [None, 1, None, None, None, 1]


def test_specialisations_are_not_compared_with_one_another() -> None:
    """Where Triton knows that n is divisible by 16, the code may load more at a time."""
    rows = rows_of([Figures(), Figures()])
    aligned = replace(rows[1].point.variant, attrs={"n": {"tt.divisibility": 16}})
    rows[1] = replace(rows[1], point=replace(rows[1].point, variant=aligned))
    tables = tables_of(rows, ())
    assert [len(table.lines) for table in tables] == [1, 1]
    assert {distinction(table, tables) for table in tables} == {
        ("n.divisibility unknown",),
        ("n.divisibility=16",),
    }
    assert distinction(tables[0], tables[:1]) == ()


def test_sorting_keeps_numbers_and_puts_the_unknown_last() -> None:
    rows = rows_of([Figures(vgprs=v) for v in (9, None, 3, 5)])
    (table,) = tables_of(rows, (Axis("n", (0, 1, 2, 3)),))
    numbers = [
        [li.number for li in sorted_lines(table, n).lines] for n in ("vgprs", "-vgprs", "-n")
    ]
    assert numbers == [[3, 4, 1, 2], [1, 4, 3, 2], [4, 3, 2, 1]]
    assert sort_column("-vgprs", ["n"]) == "vgprs"
    with pytest.raises(KinspectError, match="did you mean lds_bytes"):
        sort_column("lds_byte", ["n"])


def test_rows_come_in_the_order_of_the_product_whoever_expanded_them() -> None:
    axes = (Axis("num_warps", (4, 8)), Axis("BLOCK", (64, 128)))
    # The front end's axis varies slowest as points are found.
    orders = itertools.product((64, 128), (4, 8))
    rows = [
        PointResult(
            replace(point(n, num_warps=w, BLOCK=b), order=(0, n // 2, n % 2)), None, None, False, 0
        )
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
    assert stored_value(msgspec.json.encode(one), Figures) == one


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"vgprs": "many"}', b"\xff"])
def test_damaged_figures_are_none(data: bytes) -> None:
    assert stored_value(data, Figures) is None
