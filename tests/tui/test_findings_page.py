"""The page of findings: groups, filter, explanation, and where its keys lead."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from kernel_times import kernel_time
from kinspect.inspector.model import Finding, Location, Report, Saving
from kinspect.inspector.pipeline.events import Reported
from kinspect.tui.screens.findings import findings_page as module
from kinspect.tui.screens.findings.findings_page import FindingsPage
from kinspect.tui.widgets.code import RowList
from kinspect.tui.widgets.filter_line import FilterLine
from msgspec.structs import replace
from tui_kernels import tuned
from tui_screens import SIZES, snapshot, text_of


async def settled(pilot: Any) -> str:
    """The screen once threads have handed over what they found."""
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    return text_of(pilot.app)


async def pressed(pilot: Any, *keys: str) -> str:
    await pilot.press(*keys)
    return await settled(pilot)


def rows(pilot: Any) -> list[str]:
    return list(pilot.app.screen.query_one(RowList).shown.lines)


def here(pilot: Any) -> str:
    view = pilot.app.screen.query_one(RowList)
    return str(view.shown.lines[view.cursor])


async def test_the_page_at_three_sizes(opened: Any) -> None:
    async with opened(SIZES[0], "findings") as pilot:
        await pressed(pilot, "n")
        for width, height in SIZES:
            await pilot.resize_terminal(width, height)
            await settled(pilot)
            snapshot(pilot.app, f"findings_{width}x{height}")


async def test_rows_that_look_the_same_name_their_loops(opened: Any, report: Report) -> None:
    small = next(kernel for kernel in report.kernels if kernel.name == "small")
    loop = small.loops[0]
    (first, last), *_ = loop.lines
    size = last - first + 1
    other = replace(loop, id="L9", lines=((first + size, last + size),))
    finding = small.findings[0]
    twins = tuple(
        replace(
            finding,
            fingerprint=each.id,
            locations=(
                Location("source", "small.py", 7),
                Location("amdgcn", None, each.lines[0][0]),
            ),
        )
        for each in (loop, other)
    )
    apart = replace(twins[0], message="another", fingerprint="another")
    kernel = replace(small, loops=(loop, other), findings=(*twins, apart))
    async with opened((200, 60), "findings", of=Report("", {}, (kernel,), ())) as pilot:
        await settled(pilot)
        places = [row.split("small.py:7", 1)[1] for row in rows(pilot) if "small.py:7" in row]
        assert sorted(place.split()[0] for place in places if "another" not in place) == [
            loop.id,
            "L9",
        ]
        assert [place.split()[0] for place in places if "another" in place] == ["another"]


async def test_findings_come_by_rule_the_worst_first_and_are_explained(opened: Any) -> None:
    async with opened((200, 60), "findings") as pilot:
        shown = await settled(pilot)
        assert "2 errors, 3 notes  ·  4 of 5 kernels have some" in shown
        heads = [line for line in rows(pilot) if not line.startswith(" ")]
        assert [line.split()[1:3] for line in heads] == [
            ["✖", "KI001"],
            ["✖", "KI022"],
            ["●", "KI015"],
            ["●", "KI013"],
        ]
        assert "2 notes in 2 kernels" in heads[2]
        # n and N go over the headings; the pane explains.
        shown = await pressed(pilot, "n")
        assert here(pilot).startswith("    ✖ small gfx942")
        assert re.search(r"spills\.stores +1 instruction\n", shown)
        assert "ISA 22          scratch_store_dword" in shown
        assert "What to change" in shown
        assert "Why it matters" in shown
        assert "References" in shown
        assert "Register pressure in AMD CDNA2 GPUs" in shown
        await pressed(pilot, "n")
        assert "tensile" in here(pilot)
        await pressed(pilot, "n", "n", "n", "n")
        assert "1 × vmcnt(0)" in here(pilot)  # the last one: there it stays
        await pressed(pilot, "N")
        assert "vector work besides floating-point arithmetic" in here(pilot)


async def test_v_groups_by_kernel_and_by_file(opened: Any) -> None:
    async with opened((200, 60), "findings") as pilot:
        await pressed(pilot, "n")
        assert "by kernel" in await pressed(pilot, "v")
        assert "KI001" in here(pilot)  # the cursor stays with its finding
        heads = [line for line in rows(pilot) if not line.startswith(" ")]
        assert any("attend  gfx90a  triton_kernels.py:22" in line for line in heads)
        assert "by file" in await pressed(pilot, "v")
        heads = [line for line in rows(pilot) if not line.startswith(" ")]
        assert any("/src/kernels/triton_kernels.py" in line for line in heads)
        assert "3 notes in 2 kernels" in "".join(heads)
        assert "by rule" in await pressed(pilot, "v")


async def test_the_filter_narrows_and_escape_drops_it(opened: Any) -> None:
    async with opened((120, 40), "findings") as pilot:
        await settled(pilot)
        line = pilot.app.screen.query_one(FilterLine)
        assert not line.display
        shown = await pressed(pilot, "slash", *"gfx950")
        assert line.has_focus
        assert "1 of 5 findings" in shown
        assert [row for row in rows(pilot) if "attend gfx90a" in row] == []
        await pressed(pilot, "enter")
        assert pilot.app.screen.query_one(RowList).has_focus
        assert len(rows(pilot)) == 2
        await pressed(pilot, "slash", "space", *"error")
        assert rows(pilot) == []  # both words have to be there
        shown = await pressed(pilot, "escape")
        assert len(rows(pilot)) == 9
        assert not line.display
        assert isinstance(pilot.app.screen, FindingsPage)
        # Words of a rule's name and tags count, in any case.
        line.value = "SPILLS"
        await settled(pilot)
        assert [row.split()[2] for row in rows(pilot) if row[0] != " "] == ["KI001"]
        line.value = "note matrix"
        await settled(pilot)
        assert {row.split()[2] for row in rows(pilot) if row[0] != " "} <= {"KI013", "KI015"}
        assert rows(pilot)


async def test_what_is_less_severe_is_left_out_and_groups_fold(opened: Any) -> None:
    async with opened((120, 40), "findings") as pilot:
        assert "warnings and errors" in await pressed(pilot, "f")
        assert "errors alone" in await pressed(pilot, "f")
        assert len(rows(pilot)) == 4
        await pressed(pilot, "f", "f")  # with leads, of which there are none, then without
        assert len(rows(pilot)) == 9
        # Groups fold and open.
        await pressed(pilot, "space")
        assert rows(pilot)[0].startswith("▸ ✖ KI001")
        assert rows(pilot)[1].startswith("▾ ✖ KI022")
        await pressed(pilot, "enter")
        assert rows(pilot)[0].startswith("▾ ✖ KI001")
        await pressed(pilot, "n", "z")  # on a finding: its group
        assert here(pilot).startswith("▸ ✖ KI001")
        shown = await pressed(pilot, "Z")
        assert [row[0] for row in rows(pilot)] == ["▸"] * 4
        assert "What to change" in shown  # a heading's rule is explained
        await pressed(pilot, "Z")
        assert len(rows(pilot)) == 9


async def test_vim_and_arrow_keys_move_and_brackets_scroll_the_explanation(
    opened: Any,
) -> None:
    async with opened((80, 24), "findings") as pilot:
        await pressed(pilot, "j", "down")
        assert pilot.app.screen.query_one(RowList).cursor == 2
        await pressed(pilot, "k", "up")
        assert pilot.app.screen.query_one(RowList).cursor == 0
        await pressed(pilot, "G")
        assert pilot.app.screen.query_one(RowList).cursor == 8
        await pressed(pilot, "g")
        assert pilot.app.screen.query_one(RowList).cursor == 0
        before = await pressed(pilot, "n")
        assert "small gfx942" in before.splitlines()[-8]
        about = pilot.app.screen.query_one("#about")
        await pressed(pilot, "greater_than_sign")
        assert about.scroll_offset.y == 3
        await pressed(pilot, "less_than_sign")
        assert about.scroll_offset.y == 0


class Opened:
    """Stands in for what opens a kernel or an editor, and keeps what it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self.calls.append((args, kwargs))


async def test_enter_or_a_double_click_opens_the_kernel_at_the_finding(
    opened: Any, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened((120, 40), "findings") as pilot:
        asked = Opened()
        monkeypatch.setattr(pilot.app, "open_kernel", asked)
        await pressed(pilot, "n", "enter")
        small = next(k for k in report.kernels if k.name == "small")
        assert asked.calls == [((small.id,), {"line": 22, "text": "amdgcn"})]
        await pilot.click(RowList, offset=(10, 3), times=2)
        await settled(pilot)
        assert "tensile" in here(pilot)
        assert [kwargs["line"] for _, kwargs in asked.calls] == [22, 44]


async def test_e_opens_the_source_line_and_y_copies(
    opened: Any, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened((120, 40), "findings") as pilot:
        await pressed(pilot, "G", "e")
        (told,) = pilot.app._notifications
        assert "no such file" in told.message  # /src/kernels is on another machine
        await pressed(pilot, "y")
        assert pilot.app.clipboard.startswith(
            "/src/kernels/triton_kernels.py:38: info KI013 1 × vmcnt(0)"
        )
        asked = Opened()
        monkeypatch.setattr(module, "open_editor", asked)
        await pressed(pilot, "g")
        await pressed(pilot, "n", "e", "G", "e")
        small = next(k for k in report.kernels if k.name == "small")
        places = [args[1:] for args, _ in asked.calls]
        # An assembly file that was opened itself is what can be edited.
        assert places == [
            (small.id.partition("::")[0], 22),
            ("/src/kernels/triton_kernels.py", 38),
        ]


async def test_what_saves_little_is_shown_where_asked_for(opened: Any, report: Report) -> None:
    """It stands below the findings, and counts as what it is."""
    finding = report.kernels[0].findings[0]
    lead = replace(finding, rule="KI024", message="narrow", doubt="its cure saves 1 %")
    both = replace(report.kernels[0], findings=(finding,), leads=(lead,))
    async with opened((120, 40), "findings", of=replace(report, kernels=(both,))) as pilot:
        assert "narrow" not in await settled(pilot)
        assert len(rows(pilot)) == 2
        shown = await pressed(pilot, "f", "f", "f")
        assert "1 note, 1 fact" in shown
        assert "with what saves little" in shown
        assert [row.split()[1] for row in rows(pilot)][::2] == ["●", "○"]
        shown = await pressed(pilot, "n", "n")
        assert "Why it may not pay" in shown
        assert "its cure saves 1 %" in shown
    doubtful = replace(both, findings=())
    async with opened((120, 40), "findings", of=replace(report, kernels=(doubtful,))) as pilot:
        told = "no finding, 1 fact that would save little: Severity shows them"
        assert told in await settled(pilot)
        assert "narrow" in await pressed(pilot, "f", "f", "f")


async def test_savings_stand_beside_the_findings(opened: Any, report: Report) -> None:
    launch = kernel_time(savings=(Saving("scratch", 25.0, 39.0),))
    timed = tuple(replace(kernel, time=launch) for kernel in report.kernels)
    async with opened(size=(200, 60), page="findings", of=replace(report, kernels=timed)) as pilot:
        text = await pressed(pilot, "j")
        assert "41 µs (30–57, estimated), limited by memory latency" in text
        assert re.search(r"-39 % 25 µs +no spills to scratch", text)


async def test_nothing_to_say_is_said(opened: Any, report: Report) -> None:
    clean = replace(report.kernels[0], findings=())
    timed = replace(report, kernels=(replace(clean, time=kernel_time()),))
    async with opened((80, 24), "findings", of=timed) as pilot:
        assert "no change is known" in await settled(pilot)
    async with opened((80, 24), "findings", of=replace(report, kernels=(clean,))) as pilot:
        assert "no finding; of some kernels no time is known" in await settled(pilot)
        await pressed(pilot, "n", "enter", "e", "y", "space", "Z", "b", "f", "greater_than_sign")
        assert isinstance(pilot.app.screen, FindingsPage)
    async with opened((80, 24), "findings", of=replace(report, kernels=())) as pilot:
        assert "no kernel is open" in await settled(pilot)


async def test_a_rule_of_somebody_elses_pack_is_shown_with_what_the_finding_says(
    opened: Any, report: Report
) -> None:
    own = Finding(
        rule="OURS-1",
        severity="warning",
        confidence="certain",
        message="too [bold]much[/bold] of {this}",
        evidence={"count.valu": None, "hot": True, "parts": {"a": 1, "b": None}},
        locations=(Location("ttgir", None, 12, "tt.load"),),
        fix="do less",
        fingerprint="0",
    )
    kernels = (replace(report.kernels[0], findings=(own,)),)
    async with opened((120, 40), "findings", of=replace(report, kernels=kernels)) as pilot:
        shown = await pressed(pilot, "n")
        assert "too [bold]much[/bold] of {this}" in shown
        assert "count.valu  -" in shown
        assert "hot         yes" in shown
        assert "parts       a 1, b -" in shown
        assert "ttgir 12" in shown
        assert "do less" in shown
        assert "No pack that ships with kinspect has this" in shown


async def test_kernels_that_come_later_are_added_and_the_cursor_stays(
    opened: Any, report: Report
) -> None:
    async with opened((120, 40), "findings", of=replace(report, kernels=())) as pilot:
        await settled(pilot)
        small = next(k for k in report.kernels if k.name == "small")
        pilot.app.session.take(Reported((report.kernels.index(small), 0), small))
        pilot.app.screen.refresh_from_session()
        await pressed(pilot, "n")
        assert "small" in here(pilot)
        for index, kernel in enumerate(report.kernels):
            pilot.app.session.take(Reported((index, 0), kernel))
        pilot.app.screen.refresh_from_session()
        await settled(pilot)
        assert "small" in here(pilot)
        assert len(rows(pilot)) == 9


async def test_two_thousand_findings_filter_in_time(opened: Any, report: Report) -> None:
    kernels = tuple(
        replace(kernel, id=f"{kernel.id}#{n}") for n in range(400) for kernel in report.kernels
    )
    async with opened((120, 40), "findings", of=replace(report, kernels=kernels)) as pilot:
        await settled(pilot)
        line = pilot.app.screen.query_one(FilterLine)
        took = []
        for words in ("g", "gf", "gfx950", "gfx950 attend", ""):
            before = time.process_time()
            line.value = words
            await pilot.pause()
            took.append(time.process_time() - before)
        assert len(rows(pilot)) == 2004
        assert sorted(took)[len(took) // 2] < 0.3, took  # 0.03 s on an idle machine


async def test_what_all_kernels_share_is_said_once(opened: Any, report: Report) -> None:
    """Rows of one kernel's configurations hold these and the message, not its name again."""
    small = next(kernel for kernel in report.kernels if kernel.name == "small")
    few = [tuned(small, {"BM": bm, "num_warps": 4}, {}) for bm in (64, 128)]
    async with opened((120, 40), "findings", of=replace(report, kernels=tuple(few))) as pilot:
        shown = await settled(pilot)
        assert "2 errors" in shown
        assert "2 of 2 kernels have some  ·  matmul  ·  gfx942" in shown
        (row,) = (line for line in rows(pilot) if "BM=64" in line)
        assert row.split("  ")[2] == "✖ BM=64, num_warps=4"
        # One that was compiled by hand is told from the one that it was made from.
        app = pilot.app
        entry = app.session.ordered()[0]
        app.session.add_tried(replace(few[0], id=f"{few[0].id} "), entry, "num_warps=8")
        app.screen.refresh_from_session()
        await settled(pilot)
        names = [line.split("  ")[2] for line in rows(pilot) if "BM=64" in line]
        assert names == ["✖ BM=64, num_warps=4", "✖ BM=64, num_warps=4, num_warps=8"]
        # Once there is another target, each row says its own.
        other = tuned(small, {"BM": 32, "num_warps": 4}, {}, "gfx950")
        app.session.take(Reported((9, 0), other))
        app.screen.refresh_from_session()
        await settled(pilot)
        assert "matmul  ·  gfx942" not in text_of(app)
        assert any("✖ BM=32, num_warps=4 gfx950" in line for line in rows(pilot))
        # A name that is too long does not push its target out.
        long = tuned(small, {"A_LONG_NAME_OF_A_CONSTEXPR": 1234, "num_warps": 4}, {}, "gfx950")
        app.session.take(Reported((10, 0), long))
        app.screen.refresh_from_session()
        await settled(pilot)
        (told,) = (line for line in rows(pilot) if "✖ A_LONG_NAME" in line)
        assert "…" in told.partition(" gfx950  ")[0]
        assert "num_warps=4 gfx950  " in told


async def test_a_group_tells_what_its_findings_propose(opened: Any, report: Report) -> None:
    """The fix of some rules is left to each finding: its place-holder is nothing to read."""
    small = next(kernel for kernel in report.kernels if kernel.name == "small")
    fixes = ("add tl.multiple_of(x, 16)", "use a larger block", "", "use a larger block")
    found = tuple(
        Finding(
            rule="KI025",
            severity="warning",
            confidence="likely",
            message=f"access {n}",
            evidence={},
            locations=(),
            fix=fix,
            fingerprint=f"{n}",
        )
        for n, fix in enumerate(fixes)
    )
    only = replace(report, kernels=(replace(small, findings=found),))
    async with opened((120, 40), "findings", of=only) as pilot:
        shown = await settled(pilot)
        assert here(pilot).startswith("▾ ▲ KI025")
        assert "add tl.multiple_of(x, 16)" in shown
        assert shown.count("use a larger block") == 1
        assert "{" not in shown
