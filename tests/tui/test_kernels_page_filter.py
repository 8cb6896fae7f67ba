"""What is typed after `/`: words, conditions, and what means nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from kinspect.inspector.model import Report
from kinspect.inspector.pipeline.events import Reported
from kinspect.tui.screens.kernels.kernel_columns import COLUMNS
from kinspect.tui.screens.kernels.kernel_rows import FilterError, KernelSets, parse
from kinspect.tui.screens.kernels.kernel_tree import Leaf, Leaves, is_descending, ordered, tree
from kinspect.tui.screens.kernels.kernels_page import KernelsPage
from kinspect.tui.session import Session
from msgspec.structs import replace
from textual.pilot import Pilot
from tui_kernels import many, tuned, waves

Make = Callable[..., AbstractAsyncContextManager[Pilot[Any]]]


@pytest.fixture(scope="module")
def leaves(report: Report) -> list[Leaf]:
    filled = many(report)
    session = Session()
    for number, kernel in enumerate(filled.kernels):
        session.take(Reported((0, number), kernel))
    session.errors.extend(filled.errors)
    return Leaves().of(session)


def name(leaf: Leaf) -> str:
    if leaf.entry is None:
        return leaf.error.kernel or leaf.error.file or "" if leaf.error else ""
    return f"{leaf.entry.report.name} {leaf.arch} {leaf.case}".strip()


SMALL_64, SMALL_128, SMALL_8 = (
    "matmul gfx942 BM=64 4w",
    "matmul gfx942 BM=128 4w",
    "matmul gfx942 BM=128 8w",
)
LARGE_64, LARGE_128 = "matmul gfx950 BM=64 4w", "matmul gfx950 BM=128 4w"
ATTEND, CALLS = "attend gfx90a", "calls gfx942"
BROKEN, TORN = "matmul[BM=256, num_warps=8] on gfx942", "/src/torn.s"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("attend", {ATTEND}),
        ("MATMUL gfx950", {LARGE_64, LARGE_128}),
        ("gemm.py bm=128", {SMALL_128, SMALL_8, LARGE_128}),
        ("torn", {TORN}),
        ("KI013", {ATTEND}),
        ("rule:ki013", {ATTEND}),
        ("arch:gfx95", {LARGE_64, LARGE_128}),
        ("name:all", {CALLS}),
        ("file:torn", {TORN}),
        ("case:8", {SMALL_128, SMALL_8, LARGE_128, BROKEN}),
        ("sev:error", {SMALL_64, SMALL_128, SMALL_8}),
        ("sev:info", {ATTEND}),
        ("sev:i", {ATTEND}),
        ("is:failed", {BROKEN, TORN}),
        ("failed", {BROKEN, TORN}),
        ("is:front", {SMALL_64}),
        ("is:marked", {CALLS}),
        ("is:changed", set()),
        ("vgpr>200", {SMALL_128, LARGE_128}),
        ("vgprs>=250 spills>0", {SMALL_128, LARGE_128}),
        ("occ<=2", {SMALL_128, LARGE_128}),
        ("occ<4 arch:gfx942", {SMALL_128}),
        ("occ!=8 vgpr<130", {SMALL_8, LARGE_64}),
        ("lds>2K arch:gfx942 vgpr=64", {SMALL_64}),
        ("lds=4096 occ=8", {SMALL_64}),
        ("BM=64", {SMALL_64, LARGE_64}),
        ("BM>64", {SMALL_128, SMALL_8, LARGE_128}),
        ("num_warps=8", {SMALL_8, BROKEN}),
        ("num_warps!=4 -failed", {SMALL_8}),
        ("limiter=waves bm=64", {SMALL_64, LARGE_64}),
        ("findings>1", {ATTEND}),
        ("count.mfma>4", {ATTEND}),
        ("-matmul -failed", {ATTEND, CALLS}),
        ("!matmul !is:failed", {ATTEND, CALLS}),
        ('"BM=128, num_warps=8"', {SMALL_8}),
        ("sev:error -BM=128", {SMALL_64}),
        ("nothing>3", set()),
        ("nothing=3", set()),
        ("nothing here", set()),
    ],
)
def test_what_is_found(leaves: list[Leaf], text: str, found: set[str]) -> None:
    by_name = {name(leaf): leaf.key for leaf in leaves}
    sets = KernelSets(frozenset({by_name[CALLS]}), frozenset({by_name[SMALL_64]}))
    test = parse(text, sets)
    assert {name(leaf) for leaf in leaves if test(leaf)} == found


@pytest.mark.parametrize("text", ["", " ", "vgpr>", "is:ma", "BM=", "sev:", "-", "!", '"', "x:y:z"])
def test_what_is_still_being_typed_is_no_fault(leaves: list[Leaf], text: str) -> None:
    test = parse(text, KernelSets())
    assert [test(leaf) for leaf in leaves]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sev:bad", "sev:bad: there is error, warning, info"),
        ("is:nice", "is:nice: there is failed, marked, front, changed"),
        ("vgpr>many", "vgpr>many: many is not a number"),
    ],
)
def test_what_means_nothing_is_said(text: str, why: str) -> None:
    with pytest.raises(FilterError) as raised:
        parse(text, KernelSets())
    assert str(raised.value) == why


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("reverse", [False, True])
def test_unknown_figures_stand_last_however_sorted(
    leaves: list[Leaf], column: str, reverse: bool
) -> None:
    def check(rows: list[Any]) -> None:
        values = []
        for row in rows:
            check(row.children) if row.children else None
            leaf = next(iter(row.leaves()))
            failed = leaf.error is not None
            values.append(
                (float("inf") if column == "findings" else None) if failed else leaf.values[column]
            )
        known = [value for value in values if value is not None]
        assert values == known + [None] * (len(values) - len(known))
        numbers = [value for value in known if not isinstance(value, str)]
        texts = [value for value in known if isinstance(value, str)]
        assert not numbers or not texts
        assert known == sorted(known, reverse=is_descending(column, reverse))

    check(ordered(tree(leaves), column, reverse))


def test_a_kernel_without_a_case_is_named_by_what_tells_it_apart(report: Report) -> None:
    one = report.kernels[0]
    session = Session()

    def labels() -> list[tuple[str, str]]:
        (group,) = tree(Leaves().of(session))
        return [(row.label, row.note) for row in group.children]

    session.take(Reported((0, 0), one))
    entry = session.entries[one.id]
    session.add_tried(replace(one, id=f"{one.id}#8"), entry, "num_warps=8")
    assert labels() == [("as launched", ""), ("8w", "")]
    session.entries = {one.id: entry}
    session.take(Reported((0, 1), replace(one, id="/src/other.s::x")))
    name = one.id.partition("::")[0].rpartition("/")[2]
    assert labels() == [(name, ""), ("other.s", "")]
    session.entries = {one.id: entry}
    session.take(Reported((0, 1), one))
    assert labels() == [("unnamed case", "")] * 2


# --------------------------------------------------------------------------- two thousand kernels


@pytest.fixture(scope="module")
def large(report: Report) -> Report:
    small = next(kernel for kernel in report.kernels if kernel.name == "small")
    kernels = []
    for n in range(2000):
        case = {"BM": 16 * (n % 8 + 1), "num_warps": n % 2 * 4 + 4}
        one = tuned(small, case, waves(n % 8 + 1, n % 512))
        named = f"matmul_{n // 8}"
        assert one.variant is not None
        source = replace(one.variant, kernel=named)
        kernels.append(
            replace(one, id=f"/src/m{n % 40}.py::{named}@{n}", name=named, variant=source)
        )
    return replace(report, kernels=tuple(kernels), errors=())


async def test_two_thousand_kernels_filter_in_100_ms(opened: Make, large: Report) -> None:
    async with opened(size=(120, 40), of=large) as pilot:
        await pilot.app.workers.wait_for_complete()
        page = pilot.app.screen
        assert isinstance(page, KernelsPage)
        await pilot.press("Z")
        assert len(page.listing.rows) == 2000 + 250
        for text, shown in (
            ("matmul_1", 888),
            ("vgpr>500", 33),
            ("occ<=2 -BM=16", 250),
            ("", 2000),
        ):
            page.listing.filter_text = text
            started = time.process_time()  # others may be at work on this machine
            page.rebuild()
            took = time.process_time() - started
            assert page.listing.shown == shown, text
            assert took < 0.1, f"{text}: {took * 1000:.0f} ms"
