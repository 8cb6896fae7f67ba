"""The profile page: a recording's kernels, saved reports with measured figures, or neither."""

from __future__ import annotations

import re
import time
from array import array
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import profiles
import pytest
from kernel_times import kernel_time
from kinspect.inspector.model import (
    ErrorRecord,
    InstructionTime,
    KernelReport,
    MeasuredLine,
    Metric,
    Report,
)
from kinspect.inspector.model.recording import (
    NO_CODE,
    Dispatches,
    KernelMatch,
    KernelProfile,
    Profile,
    TopKernel,
)
from kinspect.inspector.pipeline.events import Profiled, Reported
from kinspect.inspector.profile.placing.line_measures import with_lines
from kinspect.tui.app import KinspectApp
from kinspect.tui.application import Opening
from kinspect.tui.pages import page_class
from kinspect.tui.preferences import State
from kinspect.tui.screens.profile.measured_kernels import (
    columns,
    filtered,
    of_profile,
    ordered,
    point,
)
from kinspect.tui.screens.profile.profile_details import of_kernel
from kinspect.tui.screens.profile.profile_page import ProfilePage
from kinspect.tui.screens.profile.profile_views import MAX_LISTED, Lower, dispatch_list
from kinspect.tui.session import RunProgress
from kinspect.tui.widgets.document_text import content
from kinspect.tui.widgets.filter_line import FilterLine
from kinspect.tui.widgets.roofline import Roofline
from kinspect.tui.widgets.table import Table
from msgspec.structs import replace
from profiles import measured
from textual.pilot import Pilot
from tui_screens import snapshots, text_of

BUSY = "100 · SQ_VALU_MFMA_BUSY_CYCLES 1.2e9 / (GRBM_GUI_ACTIVE 3.1e6 · 1216 SIMDs)"
FIGURES = (
    measured("measured.occupancy.waves_per_eu", 1.875, "waves/SIMD"),
    measured("measured.mfma_busy", 31.8, "%", BUSY),
    measured("roofline.flops_per_byte", 120.0, "flop/byte"),
    measured("roofline.flops_per_s", 3.1e14, "flop/s"),
    measured("roofline.peak_flops_per_s", 1.307e15, "flop/s"),
    measured("roofline.peak_bytes_per_s", 5.3e12, "bytes/s"),
)
STALLED = 40  # cycles of an ordinary instruction, each


def with_stalls(report: KernelReport) -> KernelReport:
    """A report of which the waits were measured: the later, the more."""
    lines = [
        MeasuredLine(
            wait.line, None, "s_waitcnt", wait.loop, wait.source, hits=8,
            latency_cycles=STALLED * n + 4, stall_cycles=STALLED * n, samples=n,
            reasons={"waitcnt": 3 * n, "arb_not_win": n},
        )
        for n, wait in enumerate(report.waits, start=1)
    ]  # fmt: skip
    return with_lines(report, lines)


@pytest.fixture(scope="module")
def analysed(report: Report) -> KernelReport:
    """The analysed kernel of the recording, with stalls on its waits."""
    return with_stalls(next(kernel for kernel in report.kernels if kernel.arch == "gfx950"))


def recorded(analysed: KernelReport, *more: KernelProfile) -> Profile:
    """A recording of four kernels, one of them tried by a tuner."""
    likely = KernelMatch("likely", (analysed.id,), ("name attend", "LDS 32 KiB agrees"))
    other = replace(profiles.ATTEND, name="softmax_kernel")
    kernels = (
        replace(profiles.kernel(metrics=FIGURES, match=likely), shapes=(0,)),
        profiles.kernel(profiles.TRIED, (90_000.0,), role="autotune", share=9.0, number=2),
        replace(
            profiles.kernel(
                profiles.COPY, (39_000.0,), share=10.0,
                match=KernelMatch("none", (), ("no analysed kernel has this name",)),
            ),
            shapes=(1,),
        ),
        profiles.kernel(
            other, (700.0, 900.0), share=1.0,
            match=KernelMatch("ambiguous", (analysed.id, "x::y"), ("both agree in VGPR 128",)),
        ),
        *more,
    )  # fmt: skip
    return replace(profiles.profile(*kernels, reports=(analysed,)), total_ns=191_000.0)


def test_what_was_predicted_stands_beside_what_was_measured(analysed: KernelReport) -> None:
    first = analysed.waits[0].line
    rows = (InstructionTime(first, 0.9, 0.9, "memory"),)
    launch = kernel_time(us=40.8, stalled=0.9, instructions=rows)
    profile = recorded(replace(analysed, time=launch))
    text = content(of_kernel(profile.kernels[0], profile, profile.reports[0]), 110).plain
    assert "of MI300X" in text
    assert re.search(r"time +41 µs +51 µs +1\.25 ×", text)
    assert re.search(rf"{first} +100\.0 +\d\.\d +s_waitcnt +memory", text)


@asynccontextmanager
async def page_on(
    profile: Profile | None, size: tuple[int, int] = (120, 40), *reports: KernelReport
) -> AsyncIterator[tuple[Pilot[Any], ProfilePage]]:
    app = KinspectApp(Opening(None, "profile", remember=False))
    if profile is not None:
        app.session.take(Profiled(profile))
    for number, kernel in enumerate(reports):
        app.session.take(Reported((0, number), kernel))
    app.session.progress = RunProgress()
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        page = app.screen
        assert isinstance(page, ProfilePage)
        yield pilot, page


async def pressed(pilot: Pilot[Any], *keys: str) -> str:
    await pilot.press(*keys)
    await pilot.pause()
    assert isinstance(pilot.app, KinspectApp)
    return text_of(pilot.app)


def names(page: ProfilePage) -> list[str]:
    """The kernels in sight, from the top."""
    return [line.key for line in page._rows]


# --------------------------------------------------------------------------- a recording


async def test_a_recording_and_every_way_to_look_at_it(analysed: KernelReport) -> None:
    async with page_on(recorded(analysed), (120, 40), analysed) as (pilot, page):
        text = text_of(page.kinspect)
        assert "3 kernels in 191 us" in text
        assert "rocprofv3 1.0.0  gfx942 AMD Instinct MI300X, 304 CUs" in text
        assert "failed, exit code 1" in text
        assert "≈ attend" in text
        assert "80.0" in text
        assert "4 dispatches, 1 warm-up left out: 51 us at the median" in text
        await snapshots(pilot, "profile")
        text = await pressed(pilot, "v")
        assert "1  warm-up" in text
        assert "+199 us" in text
        await snapshots(pilot, "profile_dispatches")
        text = await pressed(pilot, "v")
        assert "310 Top/s at 120 op/B" in text
        assert "1.31 Pop/s" in text
        await snapshots(pilot, "profile_roofline")
        text = await pressed(pilot, "v")
        assert "SGPR_Count is 128 for every kernel: not known" in text
        await snapshots(pilot, "profile_recording")
        assert page.query_one(Lower).view == "recording"
        await pressed(pilot, "escape")
        assert page.query_one(Lower).view == "detail"


async def test_the_detail_has_everything_of_a_kernel(analysed: KernelReport) -> None:
    async with page_on(recorded(analysed), (200, 60), analysed) as (pilot, page):
        text = text_of(page.kinspect)
        page.query_one("#detail").scroll_end(animate=False)
        await pilot.pause()
        text += text_of(page.kinspect)
        for wanted in (
            "analysed kernel: attend (agrees in all that is known)",
            "LDS 32 KiB agrees",
            "mfma_busy",
            "31.8  %",
            "SQ_VALU_MFMA_BUSY_CYCLES 1.2e9",
            "SQ_WAVES",
            "16,384",
            "Static analysis",
            "waves/SIMD",
            f"line {analysed.waits[-1].line} ",
            f" {STALLED * len(analysed.waits):,} ",
            "waitcnt 75 %",
            "waits for ds_read",
        ):
            assert wanted in text, wanted


async def test_enter_opens_the_kernel_where_it_stalls_most(analysed: KernelReport) -> None:
    async with page_on(recorded(analysed), (120, 40), analysed) as (pilot, _):
        await pressed(pilot, "enter")
        page = pilot.app.screen
        assert isinstance(page, page_class("kernel"))
        assert page.texts._first_position == ("amdgcn", analysed.waits[-1].line)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("down", "why"),
    [(1, "no analysed kernel has this name"), (2, "ambiguous, none is chosen")],
    ids=["none", "ambiguous"],
)
async def test_what_cannot_be_opened_is_said(analysed: KernelReport, down: int, why: str) -> None:
    async with page_on(recorded(analysed), (120, 40), analysed) as (pilot, page):
        text = await pressed(pilot, *["j"] * down, "enter")
        assert pilot.app.screen is page
        assert any(why in one.message for one in pilot.app._notifications)
        assert why in text  # in the detail, too


async def test_without_reports_it_says_how_to_join_some(analysed: KernelReport) -> None:
    profile = replace(recorded(analysed), reports=())
    async with page_on(profile) as (pilot, _):
        assert "kinspect tui RUN TARGET" in await pressed(pilot, "enter")


async def test_moving_sorting_and_the_detail_follow(analysed: KernelReport) -> None:
    async with page_on(recorded(analysed), (200, 60), analysed) as (pilot, page):
        table = page.query_one("#table", Table)
        for keys, at in ((("j",), 1), (("k",), 0), (("G",), 2), (("g",), 0), (("down",), 1)):
            await pressed(pilot, *keys)
            assert table.cursor == at, keys
        assert "__amd_rocclr_copyBuffer" in text_of(page.kinspect).split("roofline  recording")[1]
        await pressed(pilot, "s")  # by total time, which is in the same order
        assert names(page) == ["attend#1", "__amd_rocclr_copyBuffer#1", "softmax_kernel#1"]
        assert table.cursor == 1
        await pressed(pilot, "S")
        assert names(page)[0] == "softmax_kernel#1"
        assert table.cursor == 1  # it stays with its kernel
        await pilot.click(Table, offset=(3, 0))  # the title of the first column
        await pilot.pause()
        assert names(page) == ["__amd_rocclr_copyBuffer#1", "attend#1", "softmax_kernel#1"]
        await pilot.click(Table, offset=(3, 0))
        await pilot.pause()
        assert names(page)[0] == "softmax_kernel#1"


async def test_a_trace_without_code_says_so_at_first(analysed: KernelReport) -> None:
    profile = recorded(analysed)
    said = replace(profile, recording=replace(profile.recording, notes=(NO_CODE,)))
    async with page_on(said, (120, 40)) as (_, page):
        assert "without code.json" in text_of(page.kinspect)


async def test_the_order_is_kept_however_the_session_ends(analysed: KernelReport) -> None:
    app = KinspectApp(Opening(None, "profile"))
    app.session.take(Profiled(recorded(analysed)))
    async with app.run_test(size=(200, 60)) as pilot:
        await pilot.pause()
        await pressed(pilot, "s", "S")
        page = app.screen
        assert isinstance(page, ProfilePage)
        kept = State.load()  # before any leave
        assert (kept.measured_sort, kept.measured_falling) == page._sort
    again = KinspectApp(Opening(None, "profile"))
    again.session.take(Profiled(recorded(analysed)))
    async with again.run_test(size=(200, 60)) as pilot:
        await pilot.pause()
        assert isinstance(again.screen, ProfilePage)
        assert names(again.screen)[0] == "softmax_kernel#1"


async def test_the_filter_takes_names_and_verdicts(analysed: KernelReport) -> None:
    async with page_on(recorded(analysed), (120, 40), analysed) as (pilot, page):
        await pressed(pilot, "slash", *"ambig")
        assert names(page) == ["softmax_kernel#1"]
        await pressed(pilot, "enter")
        assert page.query_one("#table", Table).has_focus
        await pressed(pilot, "escape")
        assert len(names(page)) == 3
        text = await pressed(pilot, "slash", *"nosuch")
        assert names(page) == []
        assert "no kernel has the words 'nosuch'" in text
        await pressed(pilot, "escape")
        assert not page.query_one(FilterLine).has_focus
        assert len(names(page)) == 3


async def test_what_a_tuner_tried_is_folded_under_its_kernel(analysed: KernelReport) -> None:
    async with page_on(recorded(analysed), (120, 40), analysed) as (pilot, page):
        assert "1 specialisation of 1 kernel tried and not kept" in text_of(page.kinspect)
        text = await pressed(pilot, "f")
        assert names(page)[:2] == ["attend#1", "attend#2"]
        assert "└ · attend #2" in text
        text = await pressed(pilot, "j")
        assert "tried by an autotuner" in text
        await pressed(pilot, "f")
        assert "attend#2" not in names(page)


async def test_keys_scroll_the_lower_half(analysed: KernelReport) -> None:
    async with page_on(recorded(analysed), (80, 24), analysed) as (pilot, page):
        detail = page.query_one("#detail")
        await pressed(pilot, "greater_than_sign", "greater_than_sign")
        assert detail.scroll_offset.y == 6
        await pressed(pilot, "less_than_sign")
        assert detail.scroll_offset.y == 3
        await pressed(pilot, "tab")
        assert detail.has_focus
        await pressed(pilot, "tab")
        assert page.query_one("#table", Table).has_focus
        await pressed(pilot, "v", "greater_than_sign")
        listed = page.query_one("#dispatches", Table)
        assert listed.cursor == 2
        await pressed(pilot, "y")
        assert page.kinspect.clipboard == "attend"


async def test_a_point_that_is_clicked_is_gone_to(analysed: KernelReport) -> None:
    second = replace(
        profiles.kernel(replace(profiles.COPY, name="slow"), (1.0,), share=0.1),
        metrics={m.name: m for m in (*FIGURES, measured("roofline.flops_per_s", 1e12, "flop/s"))},
    )
    async with page_on(recorded(analysed, second), (120, 40), analysed) as (pilot, page):
        await pressed(pilot, "v", "v")
        page.query_one(Roofline).post_message(Roofline.Picked(page.query_one(Roofline), 1))
        await pilot.pause()
        assert page._rows[page.query_one("#table", Table).cursor].name == "slow"
        assert "● slow" in text_of(page.kinspect)


async def test_errors_and_summaries_of_an_empty_recording(analysed: KernelReport) -> None:
    broken = ErrorRecord("a.csv", None, "read", "line 3 has two columns", "run it again")
    top = TopKernel("gemm", 12, 3_000_000, 250_000.0)
    profile = profiles.profile(summary=(top,))
    profile = replace(profile, recording=replace(profile.recording, errors=(broken,)))
    async with page_on(profile) as (pilot, page):
        text = text_of(page.kinspect)
        assert "no dispatches were kept" in text
        assert "1 error" in text
        assert "a.csv: line 3 has two columns" in text
        assert "run it again" in text
        assert "3 ms     12  250 us  gemm" in text
        for key in ("enter", "v", "f", "s", "slash"):
            await pressed(pilot, key)
        assert pilot.app.screen is page


async def test_it_opens_by_itself_when_a_recording_arrives(opened: Any, report: Report) -> None:
    async with opened(page="kernels") as pilot:
        app = pilot.app
        app.opening = replace(app.opening, page=None)

        class Brought:
            def new_events(self) -> list[Any]:
                return [Profiled(profiles.profile(profiles.kernel()))]

            def stop(self, _: float) -> None:
                pass

        app.feed = Brought()
        app._update_page()
        await pilot.pause()
        assert isinstance(app.screen, ProfilePage)
        app.feed = None


# --------------------------------------------------------------------------- rows


def test_columns_without_any_value_are_left_out(analysed: KernelReport) -> None:
    shown = {column.title for column in columns(of_profile(recorded(analysed)))}
    assert {"% time", "median", "waves/SIMD", "MFMA %", "analysed"} <= shown
    assert not {"L2 hit %", "LDS confl. %", "memory %", "AccVGPR"} & shown


def test_unknown_values_come_last_either_way(analysed: KernelReport) -> None:
    lines = filtered(of_profile(recorded(analysed)), "", tried=False)
    column = next(c for c in columns(lines) if c.title == "MFMA %")
    for down in (True, False):
        found = ordered(lines, column, down=down)
        assert found[0].name == "attend"
        assert [(text.strip(), style) for text, style in column.cell(found[-1])] == [("-", "dim")]


def test_where_all_were_tried_they_are_shown() -> None:
    lines = of_profile(profiles.profile(profiles.kernel(profiles.TRIED, role="autotune")))
    assert len(filtered(lines, "", tried=False)) == 1


def test_a_roofline_needs_both_figures(analysed: KernelReport) -> None:
    attend, *_, last = of_profile(recorded(analysed))
    found = point(attend)
    assert found is not None
    assert (found.intensity, found.rate) == (120.0, 3.1e14)
    assert found.roof is not None
    assert (found.roof.rate, found.roof.bandwidth) == (1.307e15, 5.3e12)
    assert point(last) is None
    zero = replace(attend, metrics={**attend.metrics, "roofline.flops_per_s": measured("x", 0, "")})
    assert point(zero) is None


def dispatched(*rows: tuple[int, int, int]) -> Profile:
    """Dispatches as (shape, start, part)."""
    profile = profiles.profile(profiles.kernel())
    table = Dispatches(
        shape=array("i", [shape for shape, *_ in rows]),
        number=array("q", range(len(rows))),
        start=array("q", [start for _, start, _ in rows]),
        end=array("q", [start + 10 for _, start, _ in rows]),
        queue=array("q", [1] * len(rows)),
        part=array("h", [part for *_, part in rows]),
    )
    return replace(profile, recording=replace(profile.recording, dispatches=table))


def test_warm_ups_are_the_first_of_each_pass() -> None:
    profile = dispatched((0, 50, 0), (0, 10, 0), (1, 5, 0), (0, 90, 1), (0, 70, 1), (0, 80, 1))
    kernel = replace(profile.kernels[0], shapes=(0,), warmups=2)
    found = dispatch_list(kernel, profile.recording)
    assert found.rows == [1, 0, 4, 5, 3]
    assert found.warmups == {1, 4}
    assert found.origin == 5
    # One warm-up over two passes of one process cannot be told.
    assert dispatch_list(replace(kernel, warmups=1), profile.recording).warmups == frozenset()


def test_the_first_thousand_dispatches_are_listed() -> None:
    profile = dispatched(*((0, start, 0) for start in range(MAX_LISTED + 500)))
    found = dispatch_list(replace(profile.kernels[0], shapes=(0,), warmups=1), profile.recording)
    assert (len(found.rows), found.total) == (MAX_LISTED, MAX_LISTED + 500)
    assert found.warmups == {0}


async def test_two_thousand_kernels_stay_quick(analysed: KernelReport) -> None:
    many = [
        profiles.kernel(replace(profiles.COPY, name=f"kernel_{n:04}"), (100.0 + n,), share=0.01,
                        metrics=FIGURES)
        for n in range(2_000)
    ]  # fmt: skip
    async with page_on(recorded(analysed, *many), (120, 40)) as (pilot, page):
        started = time.process_time()
        page._filter_text = "kernel_1"
        page._fill_table()
        took = time.process_time() - started
        assert len(page._rows) == 1_000
        assert took < 0.5  # 0.03 s on a quiet machine
        text = await pressed(pilot, "G", "v", "v")
        assert "● kernel_1999" in text


# --------------------------------------------------------------------------- saved reports


def saved(report: Report, *metrics: Metric) -> KernelReport:
    """The first kernel with measured metrics."""
    first = report.kernels[0]
    return replace(first, metrics={**first.metrics, **{m.name: m for m in metrics}})


async def test_saved_reports_with_measured_figures(report: Report, analysed: KernelReport) -> None:
    figures = (
        measured("measured.duration.median", 12_500.0, "ns", "of 20 dispatches"),
        measured("duration", 7.25, "us"),
        *FIGURES,
    )
    reports = (saved(report, *figures), analysed, report.kernels[2])
    async with page_on(None, (120, 40), *reports) as (pilot, page):
        text = text_of(page.kinspect)
        assert "2 of 3 kernels measured" in text
        assert "12.5 us" in text
        assert "of 20 dispatches" in text
        await snapshots(pilot, "profile_saved")
        shown = {column.title for column in page._columns}
        assert {"median", "duration us", "waves/SIMD (static)"} <= shown
        text = await pressed(pilot, "j")
        assert "where it stalls" in text
        await pressed(pilot, "v", "v")  # there is no recording: past the roofline
        assert page.query_one(Lower).view == "detail"
        await pressed(pilot, "enter")
        assert isinstance(pilot.app.screen, page_class("kernel"))


async def test_what_comes_in_keeps_the_cursor(report: Report) -> None:
    first = saved(report, measured("duration", 1.0, "us"))
    last = replace(report.kernels[-1], metrics=dict(first.metrics))
    async with page_on(None, (80, 24), first, last) as (pilot, page):
        await pressed(pilot, "j")
        middle = replace(report.kernels[2], metrics=dict(first.metrics))
        page.session.take(Reported((0, 0), middle))
        page.refresh_from_session()
        await pilot.pause()
        table = page.query_one("#table", Table)
        assert table.count == 3
        assert page._rows[table.cursor].name == last.name


# --------------------------------------------------------------------------- nothing


async def test_without_measured_data_it_says_how_to_get_some(opened: Callable[..., Any]) -> None:
    async with opened(size=(200, 60), page="profile") as pilot:
        text = text_of(pilot.app)
        assert "Nothing was measured" in text
        assert "kinspect profile -- python script.py" in text
        assert "planned" not in text
        assert not pilot.app.screen.query_one("#measured").display
        await snapshots(pilot, "profile_nothing")
        await pilot.resize_terminal(80, 24)
        for key in ("enter", "v", "f", "s", "slash", "greater_than_sign", "tab", "escape"):
            await pilot.press(key)
        assert isinstance(pilot.app.screen, page_class("profile"))
        words = pilot.app.screen.query_one("#nothing")
        await pilot.press("end")
        await pilot.pause()
        assert words.scroll_offset.y == words.max_scroll_y


def test_the_titles_of_the_views_name_no_keys() -> None:
    from kinspect.tui.screens.profile.profile_views import _TABS, VIEWS

    assert [*_TABS.values()] == ["kernel", *VIEWS]
