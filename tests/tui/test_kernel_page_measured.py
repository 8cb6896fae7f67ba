"""Measured stalls on the kernel page, and a recording opened from its folder to that page."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from att_files import OBJDUMP, Cost, listed, write_trace
from kernel_times import kernel_time
from kinspect.inspector.model import (
    Artifact,
    Emulated,
    EmulatedLine,
    InstructionTime,
    KernelReport,
    MeasuredLine,
    Report,
    Saving,
    Stall,
)
from kinspect.inspector.pipeline import collecting as pipeline
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.profile.placing.line_measures import with_lines
from kinspect.inspector.profile.placing.stalls import source_costs
from kinspect.tui.app import KinspectApp
from kinspect.tui.application import Opening
from kinspect.tui.screens.dialogue import ExplainScreen
from kinspect.tui.screens.kernel.kernel_page import KernelPage
from kinspect.tui.screens.kernel.line_columns import WIDTH, share_cell
from kinspect.tui.screens.profile.profile_page import ProfilePage
from msgspec.structs import replace
from textual.pilot import Pilot
from tui_screens import SIZES, each_size, snapshots, text_of, until

TESTS = Path(__file__).parent.parent
ISA = TESTS / "data" / "isa"
NAME = "attend.triton39.gfx950"
EACH = 100  # stall cycles of the second wait; the first has none, each later one more


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> KernelReport:
    """A kernel with its source, TTGIR and assembly."""
    folder = tmp_path_factory.mktemp("measured")
    shutil.copy(ISA / "triton_kernels.py", folder)
    artifacts = {}
    for kind in ("ttgir", "amdgcn"):
        found = (ISA if kind == "amdgcn" else TESTS / "tui" / "data") / f"{NAME}.{kind}"
        path = folder / f"attend.{kind}"
        path.write_text(found.read_text("utf-8").replace("/src/kernels", str(folder)), "utf-8")
        artifacts[kind] = Artifact(kind, "", path.stat().st_size, path)
    kernel = pipeline.collect(Request((str(folder / "attend.amdgcn"),))).kernels[0]
    return replace(kernel, artifacts=artifacts)


@pytest.fixture(scope="module")
def stalled(plain: KernelReport) -> KernelReport:
    """The same with measured lines: its waits, the later the dearer."""
    return with_lines(plain, lines_of(plain))


def lines_of(report: KernelReport, *, sampled: bool = False) -> list[MeasuredLine]:
    return [
        MeasuredLine(
            wait.line, None, "s_waitcnt", wait.loop, wait.source,
            hits=None if sampled else 16,
            latency_cycles=None if sampled else EACH * n + 64,
            stall_cycles=None if sampled else EACH * n,
            samples=10 * n if sampled else None,
            reasons={"waitcnt": 9 * n, "arb_not_win": n} if sampled else {},
        )
        for n, wait in enumerate(report.waits)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def timed(stalled: KernelReport) -> KernelReport:
    """The measured kernel with a predicted time: each wait takes the same, but for one barrier."""
    waits = [wait.line for wait in stalled.waits]
    share = round(0.6 / len(waits), 5)
    rows = [InstructionTime(line, share, share, "memory") for line in dict.fromkeys(waits)]
    barrier = next(
        number
        for number, text in enumerate(stalled.artifacts["amdgcn"].path.read_text().splitlines(), 1)
        if "s_barrier" in text
    )
    rows.append(InstructionTime(barrier, 0.2, 0.2, "barrier"))
    time = kernel_time(
        stalls=(Stall("memory", 0.6), Stall("barrier", 0.2), Stall("issue", 0.15)),
        savings=(Saving("memory latency", 25.0, 39.0), Saving("barriers", 36.9, 10.0)),
        stalled=sum(row.stalled for row in rows),
        instructions=tuple(sorted(rows, key=lambda row: row.line)),
    )  # fmt: skip
    return replace(stalled, time=time)


async def test_predicted_stalls_stand_beside_measured_ones(
    opened: Any, timed: KernelReport
) -> None:
    assert timed.time is not None
    barrier = next(row for row in timed.time.instructions if row.reason == "barrier")
    async with page_of(opened, timed, (80, 24)) as (pilot, page):
        pane = page.panes.pane_of("amdgcn")
        assert pane is not None
        page.marks.jump(pane, barrier.line - 1)
        percent = 100 * barrier.stalled / timed.time.stalled
        async for width, height in each_size(pilot, "kernel_predicted"):
            text = text_of(pilot.app)
            if width != 120:  # where two panes leave the code no room for both
                assert "stall% pred%" in text
                assert f" {percent:.1f} bar" in gutter(page, "amdgcn", barrier.line)
            assert text.splitlines()[1] == " 41 µs (30–57, estimated)  limited by memory latency"
            if height > 24:
                assert f"{percent:.1f} % of stalls, barrier" in text


async def test_the_source_has_predicted_shares_where_nothing_was_measured(
    opened: Any, timed: KernelReport
) -> None:
    assert timed.time is not None
    kernel = replace(timed, measured_lines=())
    own = {row.line: row for row in timed.time.instructions}
    async with page_of(opened, kernel, (200, 60)) as (pilot, page):
        reading, pane = page.texts.reading, page.panes.pane_of("source")
        assert reading is not None
        assert pane is not None
        sums: dict[int, float] = {}
        for line, row in own.items():
            for source in reading.links.related("amdgcn", line - 1, "source")[:1]:
                sums[source] = sums.get(source, 0) + row.stalled
        assert sums
        for source, part in sums.items():
            said = gutter(page, "source", source + 1)
            assert f"{100 * part / timed.time.stalled:.1f} " in said
        page.panes.focus_on(pane)
        await pilot.press("g", "t")
        assert pane.code.cursor == max(sums, key=lambda line: sums[line])
        text = text_of(pilot.app)
        assert "What would save time" in text
        assert "-39 % 25 µs" in text


def total(report: KernelReport) -> int:
    return sum(line.stall_cycles or 0 for line in report.measured_lines)


@asynccontextmanager
async def page_of(
    opened: Any, kernel: KernelReport, size: tuple[int, int] = (120, 40), **goal: Any
) -> AsyncIterator[tuple[Pilot[Any], KernelPage]]:
    async with opened(size=size, of=Report("", {}, (kernel,), ())) as pilot:
        pilot.app.open_kernel(kernel.id, **goal)
        await until(pilot, lambda: isinstance(pilot.app.screen, KernelPage))
        page = pilot.app.screen
        await until(pilot, lambda: page.settled)
        yield pilot, page


def gutter(page: KernelPage, kind: str, line: int) -> str:
    """What stands left of a line, counted from 1."""
    pane = page.panes.pane_of(kind)
    assert pane is not None
    made = pane.code.shown.gutter
    assert made is not None
    cells = made(line - 1)
    text = "".join(text for text, _ in cells)
    assert len(text) == pane.code.shown.gutter_width
    return text


async def test_the_gutter_has_a_measured_column(opened: Any, stalled: KernelReport) -> None:
    async with page_of(opened, stalled, (200, 60)) as (pilot, page):
        await pilot.press("t")
        await pilot.pause()
        text = text_of(pilot.app)
        worst = stalled.measured_lines[-1]
        assert "stall%" in text
        share = 100 * (worst.stall_cycles or 0) / total(stalled)
        assert f"{share:.1f} " in gutter(page, "amdgcn", worst.line)
        assert re.search(rf" {share:.1f} .*▎", text)
        # The first wait cost nothing, its neighbour was not measured at all.
        assert stalled.measured_lines[0].stall_cycles == 0
        for line in (stalled.measured_lines[0].line, worst.line + 1):
            assert "." not in gutter(page, "amdgcn", line)
        await snapshots(pilot, "kernel_measured", SIZES[::-1])


async def test_source_and_ttgir_have_the_sums_of_source_lines(
    opened: Any, stalled: KernelReport
) -> None:
    costs = {one.line: one.share for one in source_costs(stalled) if one.share}
    async with page_of(opened, stalled, (200, 60)) as (_, page):
        source = page.panes.pane_of("source")
        assert source is not None
        for number in range(1, len(source.code.shown.lines) + 1):
            said = gutter(page, "source", number)
            if number in costs:
                assert f"{costs[number]:.1f} " in said, number
            else:
                assert "." not in said, number
        ttgir = page.panes.pane_of("ttgir")
        assert ttgir is not None
        known = page.texts.costs
        assert known is not None
        assert set(known.shares["ttgir"].values()) <= set(costs.values())
        # A line of the TTGIR has what the source line cost that it stems from.
        assert page.texts.reading is not None
        for line, share in known.shares["ttgir"].items():
            at = page.texts.reading.links.related("ttgir", line, "source")[0]
            assert costs[at + 1] == share


async def test_t_steps_through_stalls_the_dearest_first(opened: Any, stalled: KernelReport) -> None:
    order = [line.line for line in reversed(stalled.measured_lines) if line.stall_cycles]
    async with page_of(opened, stalled) as (pilot, page):
        code = page.panes.pane_of("amdgcn").code  # type: ignore[union-attr]
        await pilot.press("g")
        for line in order[:3]:
            await pilot.press("t")
            assert code.cursor == line - 1
        assert f"3 of {len(order)}" in text_of(pilot.app)
        await pilot.press("ctrl+o")
        assert code.cursor == order[1] - 1
        assert "Hottest" in text_of(pilot.app).splitlines()[-1]


async def test_t_steps_in_the_source_as_well(opened: Any, stalled: KernelReport) -> None:
    (dearest, *_) = source_costs(stalled)
    async with page_of(opened, stalled, text="source", line=1) as (pilot, page):
        await pilot.press("t")
        assert page.panes.pane_of("source").code.cursor == dearest.line - 1  # type: ignore[union-attr]
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(pilot.app.screen, ExplainScreen)
        text = text_of(pilot.app)
        assert f"{dearest.share:.1f} % of the kernel's stall cycles" in text
        assert "that stem from this line" in text


async def test_the_card_says_what_loop_and_line_cost(opened: Any, stalled: KernelReport) -> None:
    worst = stalled.measured_lines[-1]
    async with page_of(opened, stalled, (200, 60)) as (pilot, page):
        await pilot.press("t")
        await pilot.pause()
        card = page.panes.card
        rows = " ".join(card.render_line(y).text for y in range(card.size.height))
        assert f"{worst.stall_cycles:,} stall cycles" in " ".join(rows.split())
        loop = next(one for one in stalled.loops if one.metrics["measured.stall_share"].value)
        page.marks.jump(page.panes.pane_of("amdgcn"), loop.header.line - 1)  # type: ignore[arg-type]
        await pilot.pause()
        share = loop.metrics["measured.stall_share"].value
        assert f"{share:.1f} % of the kernel's" in text_of(pilot.app)


async def test_enter_explains_what_was_measured(opened: Any, plain: KernelReport) -> None:
    kernel = with_lines(plain, lines_of(plain, sampled=True))
    async with page_of(opened, kernel) as (pilot, _):
        await pilot.press("t", "enter")
        await pilot.pause()
        text = text_of(pilot.app)
        assert "Measured here" in text
        assert "of the kernel's samples" in text
        assert "waitcnt (90 %)" in text
        assert "Static analysis of the same line" in text
        assert "waits for" in text
        await pilot.press("escape")
        await pilot.pause()
        assert "sampl%" in text_of(pilot.app)


async def test_without_measured_lines_there_is_no_column(opened: Any, plain: KernelReport) -> None:
    async with page_of(opened, plain) as (pilot, page):
        text = text_of(pilot.app)
        assert "stall%" not in text
        heat = page.texts.heat.of("amdgcn")
        assert heat is not None  # what is known without a measurement
        assert heat.column.name != "stall"


async def test_executions_are_drawn_beside_the_texts(opened: Any, plain: KernelReport) -> None:
    """A loop that runs 12 times for each of 4 waves, everything else once."""
    (loop,) = [loop for loop in plain.loops if loop.id == plain.main_loop]
    inside = [op.line for op in plain.memory_ops if op.loop == loop.id]
    outside = [op.line for op in plain.memory_ops if op.loop != loop.id]
    lines = tuple(
        EmulatedLine(line, 48 if line in inside else 4, 1.0, 16.0, 8.0)
        for line in sorted([*inside, *outside])
    )
    kernel = replace(plain, emulated=Emulated(4, 4096, 4, ("float16",), lines))
    async with page_of(opened, kernel) as (pilot, page):
        assert "exec" in text_of(pilot.app)
        pane = page.panes.pane_of("amdgcn")
        gutter = pane.code.shown.gutter
        assert ("    12", "heat") in gutter(inside[0] - 1)
        assert ("     1", "dim") in gutter(outside[0] - 1)
        await pilot.press("t", "enter")
        await pilot.pause()
        text = text_of(pilot.app)
        assert "12 × for each wave" in text
        assert "16.0 cache lines, 8.0 would do" in text


def test_shares_are_drawn_by_their_heat() -> None:
    found = [share_cell(share) for share in (None, 0.01, 0.5, 3.0, 40.0, 100.0)]
    assert {len(text) for text, _ in found} == {WIDTH}
    assert [style for _, style in found] == ["number", "dim", "dim", "warning", "heat", "heat"]
    assert found[1][0].split() == ["·"]


# --------------------------------------------------------------------------- end to end


TRACE = """\
"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",\
"Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count",\
"Accum_VGPR_Count","SGPR_Count","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z",\
"Grid_Size_X","Grid_Size_Y","Grid_Size_Z"
"""


@pytest.mark.skipif(OBJDUMP is None, reason="no llvm-objdump-22")
async def test_a_recording_from_its_folder_to_the_line_that_stalls(tmp_path: Path) -> None:
    """A traced run: its table, its stalls, and enter on the line of the assembly."""
    kernel = pipeline.collect(Request((str(ISA / f"{NAME}.amdgcn"),))).kernels[0]
    code = listed(ISA / f"{NAME}.hsaco", "attend")
    waits = [one for one in code if one.mnemonic == "s_waitcnt"]
    number = len(waits) // 2
    costs = {c.address: Cost(0) for c in code if c.mnemonic in ("s_nop", "s_code_end")}
    costs[waits[number].address] = Cost(1, 7_000)
    run = tmp_path / "run"
    run.mkdir()
    write_trace(run, "attend", code, costs, waves=2, code_object=3, dispatch=2)
    shutil.copy(ISA / f"{NAME}.hsaco", run / "gfx950_code_object_id_3.out")
    figures = "16384,0,128,0,96,256,1,1,4096,1,1"
    row = f'"KERNEL_DISPATCH","Agent 4",1,0,77,{{0}},11,"attend",{{0}},{{1}},{{2}},{figures}\n'
    (run / "1_kernel_trace.csv").write_text(
        TRACE + row.format(1, 1_000, 91_000) + row.format(2, 200_000, 251_000)
    )
    text = (ISA / f"{NAME}.amdgcn").read_text().split("\n")
    body = text[next(n for n, line in enumerate(text) if line.startswith("attend:")) :]
    first = len(text) - len(body)
    lines = [first + n + 1 for n, line in enumerate(body) if line.strip().startswith("s_waitcnt")]
    wanted = lines[number]
    request = Request((str(run), str(ISA / f"{NAME}.amdgcn")))
    app = KinspectApp(Opening(request, remember=False))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, ProfilePage))
        await until(pilot, lambda: not app.session.progress.running)
        said = text_of(app)
        assert "attend" in said
        assert "2 dispatches, 1 warm-up left out: 51 us" in said
        assert "where it stalls" in said
        assert f"{wanted}  " in said
        assert "14,000" in said
        assert kernel.id in app.session.entries
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, KernelPage) and app.screen.settled)
        page = app.screen
        assert isinstance(page, KernelPage)
        assert page.panes.pane_of("amdgcn").code.cursor == wanted - 1  # type: ignore[union-attr]
        assert re.search(r"100\.0 .*▎", text_of(app))
