"""Which kernels of two reports belong together: whatever their order, and the same both ways."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.compare.diff.loops import pair_loops, paired_by_lines
from kinspect.inspector.compare.diff.pairing import ARCH, Pairing, pair_up
from kinspect.inspector.model import (
    KernelReport,
    LoopHeader,
    LoopReport,
    Metric,
    SourceLoc,
    Variant,
)


def kernel(
    name: str = "k",
    *,
    file: str = "a/k.py",
    arch: str = "gfx942",
    case: str | None = None,
    options: dict[str, Any] | None = None,
    constexprs: dict[str, Any] | None = None,
    signature: dict[str, str] | None = None,
    figure: int = 0,
    bare: bool = False,
) -> KernelReport:
    variant = Variant(
        kernel=name,
        arch=arch,
        wave_size=64,
        ttir="",
        options=options or {},
        constexprs=constexprs or {},
        signature=signature or {"x": "*fp16"},
        case=case,
    )
    metrics = {"vgpr_count": Metric("vgpr_count", figure, "registers", "compiler")}
    return KernelReport(
        id=f"{file}::{name}@{arch}",
        name=name,
        arch=arch,
        source=None,
        variant=None if bare else variant,
        artifacts={},
        metrics=metrics,
        loops=(),
        main_loop=None,
        memory_ops=(),
        waits=(),
        findings=(),
    )


def only_pair(found: Pairing) -> str:
    (pair,) = found.pairs
    assert not found.only_left
    assert not found.only_right
    return pair.matched_by


def test_by_everything() -> None:
    same = kernel(options={"num_warps": 4}, case="c")
    assert only_pair(pair_up([same], [kernel(options={"num_warps": 4}, case="c")])) == ""


def test_less_and_less_where_it_is_unambiguous() -> None:
    base = kernel(options={"num_warps": 4}, constexprs={"B": 64}, case="c")

    def other(**changed: Any) -> KernelReport:
        stated: dict[str, Any] = {"options": {"num_warps": 4}, "constexprs": {"B": 64}, "case": "c"}
        return kernel(**{**stated, **changed})

    assert only_pair(pair_up([base], [other(file="b/k.py")])) == "all but the folder"
    assert only_pair(pair_up([base], [other(file="b/new.py")])) == "all but the file"
    assert only_pair(pair_up([base], [other(case="d")])) == "all but the name of the case"
    assert only_pair(pair_up([base], [other(options={})])) == "all but the options"
    found = pair_up([base], [other(options={}, case="d")])
    assert only_pair(found) == "signature and constexprs"
    found = pair_up([base], [other(constexprs={"B": 128})])
    assert only_pair(found) == "name, signature and case"
    found = pair_up([base], [other(signature={"x": "*bf16"})])
    assert only_pair(found) == "name and case"


def test_what_cannot_be_told_apart_is_left_alone() -> None:
    left = [kernel(options={"num_warps": 4}), kernel(options={"num_warps": 8})]
    right = [kernel(options={"num_warps": 2}), kernel(options={"num_warps": 16})]
    found = pair_up(left, right)
    assert not found.pairs
    assert (len(found.only_left), len(found.only_right)) == (2, 2)


def test_what_is_certain_makes_the_rest_unambiguous() -> None:
    left = [kernel(options={"num_warps": 4}), kernel(options={"num_warps": 8})]
    right = [kernel(options={"num_warps": 8}), kernel(options={"num_warps": 2})]
    found = pair_up(left, right)
    assert sorted(p.matched_by for p in found.pairs) == ["", "all but the options"]


def test_what_differs_on_purpose_is_no_part_of_it() -> None:
    left, right = kernel(options={"kpack": 1, "num_warps": 4}), kernel(options={"num_warps": 4})
    assert only_pair(pair_up([left], [right], ["kpack"])) == ""
    assert only_pair(pair_up([kernel()], [kernel(arch="gfx950")], [ARCH])) == ""
    # Two reports without a target in common are meant to be compared across targets.
    assert only_pair(pair_up([kernel()], [kernel(arch="gfx950")])) == ""


def test_a_kernel_of_another_target_is_another_kernel() -> None:
    left = [kernel(), kernel(arch="gfx950")]
    found = pair_up(left, [kernel()])
    assert [p.left.arch for p in found.pairs] == ["gfx942"]
    assert [k.arch for k in found.only_left] == ["gfx950"]


def test_bare_code_by_its_name() -> None:
    left = kernel("f", bare=True, file="a.s")
    assert only_pair(pair_up([left], [kernel("f", bare=True, file="b.s")])) == "all but the file"
    assert only_pair(pair_up([left], [kernel("f")])) == "the name alone"
    assert "names differ" in only_pair(pair_up([left], [kernel("g", bare=True)]))
    assert not pair_up([left], [kernel("g", bare=True), kernel("h", bare=True)]).pairs


def test_duplicates_go_with_their_equals() -> None:
    left = [kernel(figure=1), kernel(figure=2), kernel(figure=3)]
    right = [kernel(figure=3), kernel(figure=1)]
    found = pair_up(left, right)
    figures = [tuple(k.metrics["vgpr_count"].value for k in (p.left, p.right)) for p in found.pairs]
    assert sorted(figures) == [(1, 1), (3, 3)]
    assert [k.metrics["vgpr_count"].value for k in found.only_left] == [2]


def test_which_duplicate_is_left_over_does_not_depend_on_the_order() -> None:
    one, two, three = (kernel(figure=n) for n in (1, 2, 3))
    kept = [pair_up(side, [three]).pairs[0].left for side in ([one, two], [two, one])]
    assert kept[0] is kept[1]


kernels = st.lists(
    st.builds(
        kernel,
        name=st.sampled_from(["f", "g"]),
        file=st.sampled_from(["a/k.py", "b/k.py", "a/l.py"]),
        arch=st.sampled_from(["gfx942", "gfx950"]),
        case=st.sampled_from([None, "c"]),
        options=st.sampled_from([{}, {"num_warps": 4}]),
        constexprs=st.sampled_from([{}, {"B": 64}]),
        figure=st.integers(0, 2),
    ),
    max_size=6,
)


def contents(kernel: KernelReport) -> str:
    return repr(kernel)


def shape(found: Pairing) -> tuple[Any, ...]:
    return (
        Counter((contents(p.left), contents(p.right), p.matched_by) for p in found.pairs),
        Counter(map(contents, found.only_left)),
        Counter(map(contents, found.only_right)),
    )


@given(kernels, kernels, st.randoms(use_true_random=False))
def test_the_order_of_the_kernels_does_not_matter(
    left: list[KernelReport], right: list[KernelReport], random: Any
) -> None:
    first = pair_up(left, right)
    shuffled = list(left), list(right)
    for side in shuffled:
        random.shuffle(side)
    again = pair_up(*shuffled)
    assert shape(again) == shape(first)
    assert [contents(p.left) for p in again.pairs] == [contents(p.left) for p in first.pairs]


@given(kernels, kernels)
def test_each_kernel_is_in_one_place_and_both_ways_agree(
    left: list[KernelReport], right: list[KernelReport]
) -> None:
    found = pair_up(left, right)
    here = [id(p.left) for p in found.pairs] + [id(k) for k in found.only_left]
    there = [id(p.right) for p in found.pairs] + [id(k) for k in found.only_right]
    assert sorted(here) == sorted(map(id, left))
    assert sorted(there) == sorted(map(id, right))
    pairs, only_left, only_right = shape(found)
    back = shape(pair_up(right, left))
    mirrored = Counter({(b, a, by): n for (a, b, by), n in pairs.items()})
    assert back == (mirrored, only_right, only_left)


@given(kernels)
def test_a_report_is_paired_with_itself(some: list[KernelReport]) -> None:
    found = pair_up(some, list(some))
    assert len(found.pairs) == len(some)
    assert all(contents(p.left) == contents(p.right) and not p.matched_by for p in found.pairs)


# --------------------------------------------------------------------------- loops


def loops_of(*places: tuple[int, bool]) -> KernelReport:
    found = tuple(
        LoopReport(
            id=f"L{n}",
            depth=1,
            parent=None,
            header=LoopHeader(100 * n, None),
            lines=(),
            source=(SourceLoc("k.py", line),) if line else (),
            hot=hot,
            unroll=None,
            metrics={},
        )
        for n, (line, hot) in enumerate(places)
    )
    base = kernel()
    return KernelReport(
        **{
            **{f: getattr(base, f) for f in base.__slots__},
            "loops": found,
        }
    )


places = st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=5)


@given(places, places)
def test_loops_are_in_one_pair_each_and_hot_ones_in_one(
    left: list[tuple[int, bool]], right: list[tuple[int, bool]]
) -> None:
    pairs = pair_loops(loops_of(*left), loops_of(*right))
    for side, stated in (("left", left), ("right", right)):
        ids = [loop.id for p in pairs if (loop := getattr(p, side)) is not None]
        assert len(ids) == len(set(ids))
        assert {f"L{n}" for n, (_, hot) in enumerate(stated) if hot} <= set(ids)
    back = pair_loops(loops_of(*right), loops_of(*left))
    ends = {(p.left and p.left.id, p.right and p.right.id) for p in pairs}
    assert {(p.right and p.right.id, p.left and p.left.id) for p in back} == ends


def test_very_many_loops_are_paired_by_equal_lines() -> None:
    """Without a list of all pairs, which took 7 GB for two reports of 4 MB."""
    lines = [{("k.py", n % 3)} for n in range(1200)]
    pairs = paired_by_lines(lines, [{("k.py", 9)}, *lines[1:], {("k.py", 0)}])
    assert pairs == [(0, 3), *((n, n) for n in range(1, 3)), *pairs[3:]]
    assert len(pairs) == 1200
    assert all(n == other or n % 3 == 0 for n, other in pairs)
