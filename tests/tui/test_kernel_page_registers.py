"""The kernel page: live registers beside the assembly, and every spill marked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.explain import registers_view
from kinspect.inspector.explain.code.line_figures import DEFAULT
from kinspect.inspector.model import KernelReport, LoopTraffic, Report, SourceLoc, SpilledValue
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from kinspect.tui.screens.kernel.card import card_of, lds_rows_at
from kinspect.tui.screens.kernel.kernel_page import KernelPage
from msgspec.structs import replace
from textual.pilot import Pilot
from tui_kernels import BUFFERS
from tui_screens import text_of

SMALL = Path(__file__).parent.parent / "data" / "small_gfx942.s"
SPILLS = 12
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def spilling(tmp_path_factory: pytest.TempPathFactory) -> KernelReport:
    """A kernel whose loop stores and reloads more slots than a finding lists."""
    path = tmp_path_factory.mktemp("spilling") / "spilling.s"
    text = SMALL.read_text("utf-8")
    spill = "\tscratch_store_dword off, v20, off offset:4 ; 4-byte Folded Spill\n"
    reload = "\tscratch_load_dword v20, off, off offset:4 ; 4-byte Folded Reload\n"
    assert spill in text
    text = text.replace(
        spill, "".join(spill.replace("offset:4", f"offset:{4 * n}") for n in range(1, SPILLS + 1))
    )
    text = text.replace(
        reload,
        "".join(
            reload.replace("offset:4", f"offset:{4 * n}") + "\tv_add_u32_e32 v0, v0, v20\n"
            for n in range(1, SPILLS + 1)
        ),
    )
    path.write_text(text, "utf-8")
    (kernel,) = collect(Request((str(path),))).kernels
    return kernel


@pytest.fixture
def page_of(opened: Open) -> Open:
    @asynccontextmanager
    async def make(
        kernel: KernelReport, size: tuple[int, int] = (200, 70)
    ) -> AsyncIterator[tuple[Pilot[Any], KernelPage]]:
        async with opened(size=size, of=Report("", {}, (kernel,), ())) as pilot:
            pilot.app.open_kernel(kernel.id)
            for _ in range(1000):
                page = pilot.app.screen
                if isinstance(page, KernelPage) and page.settled:
                    break
                await pilot.pause(0.01)
            assert isinstance(page, KernelPage)
            await pilot.pause()
            yield pilot, page

    return make


def gutter(page: KernelPage, line: int) -> str:
    pane = page.panes.pane_of("amdgcn")
    assert pane is not None
    assert pane.code.shown.gutter is not None
    return "".join(text for text, _ in pane.code.shown.gutter(line))


async def test_every_spill_is_marked(page_of: Open, spilling: KernelReport) -> None:
    async with page_of(spilling) as (_, page):
        pane = page.panes.pane_of("amdgcn")
        assert pane is not None
        lines = [n for n, text in enumerate(pane.code.shown.lines) if "Folded" in text]
        assert len(lines) == 2 * SPILLS
        assert all("✗" in gutter(page, line) for line in lines)
        reading = page.texts.reading
        assert reading is not None
        assert set(lines) <= set(reading.marks.finding_lines())


async def test_the_card_tells_slot_value_and_accesses(
    page_of: Open, spilling: KernelReport
) -> None:
    async with page_of(spilling) as (pilot, page):
        pane = page.panes.pane_of("amdgcn")
        assert pane is not None
        stores = [n for n, text in enumerate(pane.code.shown.lines) if "Folded Spill" in text]
        pane.code.move_to(stores[2])
        await pilot.pause()
        card = page.panes.card
        rows = " ".join(card.render_line(y).text for y in range(card.size.height))
        assert f"({2 * SPILLS} places)" in " ".join(rows.split())
        text = text_of(pilot.app)
        assert "spills to" in text
        assert "scratch 12:15" in text
        assert "an unnamed value, address" in text  # it is added to what a load takes as one
        assert "in L0        1 store, 1 reload an" in text


Q = SpilledValue(
    "q", "operand", "128x256xf16", SourceLoc("/src/small.py", 5), 63, 16, 45, 0, 28, ("L0",)
)
CONSTANT = SpilledValue(None, "constant", "", None, 1, 2, 1, 0, 0, ())


async def test_the_card_sums_the_spills_of_each_value(
    page_of: Open, spilling: KernelReport
) -> None:
    spilled = (Q, *(replace(Q, name=f"v{n}") for n in range(5)), CONSTANT)
    async with page_of(replace(spilling, spilled_values=spilled)) as (pilot, page):
        pane = page.panes.pane_of("amdgcn")
        assert pane is not None
        lines = pane.code.shown.lines
        pane.code.move_to(next(n for n, text in enumerate(lines) if "Folded Reload" in text))
        await pilot.pause()
        text = text_of(pilot.app)
        assert "Spilled values" in text
        assert "q            28 reloads in L0" in text
        assert "and 2 more" in text  # the constant is not of the loop
        await pilot.press("enter")
        await pilot.pause()
        text = text_of(pilot.app)
        assert (
            "q, operand of a dot, small.py:5: 28 reloads in L0; in all 45 reloads, 16 stores"
            in text
        )
        assert "an unnamed value, constant: in all 1 reload, 2 stores, 1 dword" in text


def test_the_card_of_a_loop_has_the_traffic_of_that_loop_alone(spilling: KernelReport) -> None:
    by_loop = (LoopTraffic("L0", 0, 13), LoopTraffic("L1", 2, 15))
    both = replace(Q, loops=("L0", "L1"), hot_stores=2, by_loop=by_loop)
    more = replace(Q, name="more", hot_reloads=14, by_loop=(LoopTraffic("L0", 0, 14),))
    report = replace(spilling, spilled_values=(both, more))
    traffic = "13 reloads in L0 and 15 reloads, 2 stores in L1"
    for loop, facts in (
        (report.loops[0], [("more", "14 reloads in L0"), ("q", "13 reloads in L0")]),
        (None, [("q", traffic), ("more", "14 reloads in L0")]),
    ):
        (block,) = (b for b in card_of(report, loop).blocks if b.title == "Spilled values")
        assert [(fact.label, fact.text) for fact in block.facts] == facts
    assert registers_view.spilled_text(both).startswith(
        f"q, operand of a dot, small.py:5: {traffic}; in all 45 reloads"
    )


async def test_lds_buffers_are_told_by_address(page_of: Open, spilling: KernelReport) -> None:
    async with page_of(replace(spilling, spilled_values=(), lds_buffers=BUFFERS)) as (pilot, page):
        text = " ".join(text_of(pilot.app).split())
        assert "LDS by address: 2 buffers" in text
        assert "0..32768 q 128x128 f16, a tile" in text
        assert page.texts.report is not None
        (row,) = lds_rows_at(page.texts.report, "ttgir", 16)
        assert (row.title, row.shares) == ("q 128x128 f16", "k")
        assert lds_rows_at(page.texts.report, "ttgir", 17) == []
        assert lds_rows_at(page.texts.report, "amdgcn", 16) == []


async def test_spills_without_a_finding_have_a_sign_of_their_own(
    page_of: Open, spilling: KernelReport
) -> None:
    async with page_of(replace(spilling, findings=())) as (_, page):
        pane = page.panes.pane_of("amdgcn")
        assert pane is not None
        for line, text in enumerate(pane.code.shown.lines):
            if "Folded" in text:
                assert ("↓" if "Spill" in text else "↑") in gutter(page, line)


async def test_live_registers_stand_beside_each_instruction(
    page_of: Open, spilling: KernelReport
) -> None:
    assert spilling.live_peak is not None
    async with page_of(spilling) as (pilot, page):
        for line, vgprs, _ in spilling.live_peak.counts:
            assert f" {vgprs} " in gutter(page, line - 1)
        pane = page.panes.pane_of("amdgcn")
        assert pane is not None
        pane.code.move_to(15)
        await pilot.pause()
        assert "6 VGPRs and 16 AGPRs" in text_of(pilot.app)
        wide = len(gutter(page, 15))
        await pilot.press("C", *["down"] * list(DEFAULT).index("live"), "space", "escape")
        await pilot.pause()
        assert len(gutter(page, 15)) == wide - 10
        assert "vgpr" not in text_of(pilot.app).split("\n")[1]
        await pilot.press("C", "R", "escape")
        await pilot.pause()
        assert len(gutter(page, 15)) == wide


async def test_a_saved_report_has_no_curve_and_the_menu_says_so(
    page_of: Open, spilling: KernelReport
) -> None:
    assert spilling.live_peak is not None
    saved = replace(spilling, live_peak=replace(spilling.live_peak, counts=()))
    async with page_of(saved) as (pilot, _):
        assert "vgpr" not in text_of(pilot.app).split("\n")[1]
        await pilot.press("C")
        await pilot.pause()
        (line,) = [line for line in text_of(pilot.app).split("\n") if "live VGPRs" in line]
        assert "(none here)" in line
