"""The kernel page: linked panes, and every key that leads from line to line."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kernel_times import kernel_time
from kinspect.inspector.explain import loop_view
from kinspect.inspector.explain.registers_view import spills_sentence
from kinspect.inspector.model import (
    Artifact,
    Assumption,
    Change,
    InstructionTime,
    KernelReport,
    Report,
    SourceLoc,
    Trial,
    Variant,
)
from kinspect.inspector.model.time import Stall
from kinspect.inspector.pipeline import collecting as pipeline
from kinspect.inspector.pipeline.events import Reported
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.present import kernel as present
from kinspect.inspector.present.document import plain
from kinspect.tui.screens.dialogue import ExplainScreen
from kinspect.tui.screens.kernel.kernel_head import head_of
from kinspect.tui.screens.kernel.kernel_page import KernelPage
from kinspect.tui.screens.kernel.linked_texts import first_line
from kinspect.tui.screens.kernel.panes import Pane
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widgets import Static
from tui_screens import each_size, text_of, until

TESTS = Path(__file__).parent.parent
ISA = TESTS / "data" / "isa"
NAME = "attend.triton39.gfx950"
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> KernelReport:
    """A kernel with its source, TTGIR, LLVM IR and assembly, as a compile leaves them."""
    folder = tmp_path_factory.mktemp("linked")
    shutil.copy(ISA / "triton_kernels.py", folder)
    artifacts = {}
    for kind in ("ttgir", "llir", "amdgcn"):
        found = (ISA if kind == "amdgcn" else TESTS / "tui" / "data") / f"{NAME}.{kind}"
        path = folder / f"attend.{kind}"
        path.write_text(found.read_text("utf-8").replace("/src/kernels", str(folder)), "utf-8")
        artifacts[kind] = Artifact(kind, "", path.stat().st_size, path)
    kernel = pipeline.collect(Request((str(folder / "attend.amdgcn"),))).kernels[0]
    return replace(kernel, artifacts=artifacts)


@pytest.fixture
def page_of(opened: Open, linked: KernelReport) -> Open:
    """Opens the page of a kernel: `async with page_of(size) as (pilot, page)`."""

    @asynccontextmanager
    async def make(
        size: tuple[int, int] = (120, 40), of: KernelReport | None = None, **goal: Any
    ) -> AsyncIterator[tuple[Pilot[Any], KernelPage]]:
        kernel = of or linked
        report = Report("", {}, (kernel,), ())
        async with opened(size=size, of=report) as pilot:
            pilot.app.open_kernel(kernel.id, **goal)
            page = await kernel_page(pilot)
            await until(pilot, lambda: page.settled)
            yield pilot, page

    return make


async def kernel_page(pilot: Pilot[Any]) -> KernelPage:
    await until(pilot, lambda: isinstance(pilot.app.screen, KernelPage))
    page = pilot.app.screen
    assert isinstance(page, KernelPage)
    return page


def pane(page: KernelPage, kind: str) -> Pane:
    found = page.panes.pane_of(kind)
    assert found is not None
    return found


def status(page: KernelPage) -> str:
    return str(page.query_one("#kernel-status").render())


def stated(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Lines of an assembly with the line of the user's file that its directives state."""
    here = 0
    for number, line in enumerate(lines):
        found = re.match(r"\s*\.loc\s+1 (\d+)", line)
        if found:
            here = int(found[1])
        elif re.match(r"\s*\.loc\s+[02-9]|\s*\.Lfunc_end", line):
            here = 0
        elif here and re.match(r"\s+[vs]_|\s+(ds|global|buffer)_", line):
            yield number, here


# --------------------------------------------------------------------------- what is shown


async def test_screen(page_of: Open) -> None:
    async with page_of((80, 24)) as (pilot, page):
        async for width, _ in each_size(pilot, "kernel"):
            shown = [one for one in page.query(Pane) if one.is_on_screen]
            assert len(shown) == {80: 1, 120: 2, 200: 3}[width]
            text = text_of(pilot.app)
            assert "attend  gfx950" in text  # the crumb
            assert "Main loop L1" in text
            assert width == 80 or "VALU" in text


async def test_opens_at_the_line_asked_for(page_of: Open) -> None:
    async with page_of((80, 24), line=38, text="source") as (pilot, page):
        assert pane(page, "source").code.cursor == 37
        assert "tl.dot(q, tl.trans(k))" in text_of(pilot.app)
        assert "38/47" in text_of(pilot.app)
    async with page_of((80, 24), line=100, text="llir") as (pilot, page):
        assert pane(page, "llir").code.cursor == 99
        assert "LLVM IR" in text_of(pilot.app)


async def test_debug_directives_and_prologue_are_folded(page_of: Open) -> None:
    async with page_of(line=1) as (pilot, page):
        code = pane(page, "amdgcn").code
        text = text_of(pilot.app)
        assert ".loc" not in text
        assert ".Ltmp" not in text
        raw = code.shown.lines
        start = next(n for n in code.folded if raw[n].startswith("attend:"))
        assert re.search(r"attend:.* ⋯ \d{2,} line", text)
        code.move_to(start)
        await pilot.press("space")
        assert start not in code.folded
        assert "s_load_dword" in text_of(pilot.app)
        await pilot.press("space")
        assert start in code.folded


async def test_missing_texts_say_why(opened: Open, report: Report) -> None:
    async with opened(size=(80, 24)) as pilot:
        small = next(kernel for kernel in report.kernels if kernel.name == "small")
        pilot.app.open_kernel(small.id)
        page = await kernel_page(pilot)
        await until(pilot, lambda: page.settled)
        await pilot.press("tab")
        assert "does not say which source" in text_of(pilot.app)
        await pilot.press("tab")
        assert "no TTGIR" in text_of(pilot.app)
        await pilot.press("tab")
        assert "s_waitcnt" in text_of(pilot.app)
        await pilot.press("v")
        assert "no LLVM IR" in text_of(pilot.app)
        await pilot.press("v")
        assert "s_waitcnt" in text_of(pilot.app)


# --------------------------------------------------------------------------- linking


async def test_moving_in_one_moves_and_marks_the_others(page_of: Open) -> None:
    async with page_of() as (pilot, page):
        source, code = pane(page, "source"), pane(page, "amdgcn")
        lines = Path(page.texts.loaded.texts.files["amdgcn"]).read_text("utf-8").split("\n")
        lead = dict(stated(lines))
        seen = set()
        for number in sorted(lead)[:: len(lead) // 12]:
            code.code.move_to(number)
            await pilot.pause()
            assert source.code.cursor + 1 == lead[number], number
            seen.add(source.code.cursor)
        assert len(seen) > 3
        await pilot.press("tab")
        assert source.code.has_focus
        source.code.move_to(0)
        source.code.move_to(34)  # k = tl.load(
        await pilot.pause()
        assert lead.get(code.code.cursor) == 35
        marked = code.code.linked & lead.keys()
        assert marked == {number for number, at in lead.items() if at == 35}
        assert "tt.load" in "".join(
            pane(page, "ttgir").code.shown.lines[n] for n in pane(page, "ttgir").code.linked
        )


async def test_llir_takes_the_place_of_a_text(page_of: Open) -> None:
    async with page_of() as (pilot, page):
        await pilot.press("tab", "tab")
        assert pane(page, "ttgir").code.has_focus
        await pilot.press("v")
        llir = pane(page, "llir")
        assert page.panes.pane_of("ttgir") is None
        assert "LLVM IR" in text_of(pilot.app)
        assert "!dbg" in llir.code.shown.lines[llir.code.cursor]  # where the others are
        await pilot.press("tab", "tab", "v")  # there is one of it: the other is itself again
        assert pane(page, "llir") is not llir
        assert pane(page, "ttgir") is llir
        await pilot.press("v")
        assert page.panes.pane_of("llir") is None


async def test_tab_shows_pane_after_pane(page_of: Open) -> None:
    async with page_of((80, 24)) as (pilot, page):
        for keys, name in (
            ((), "amdgcn"), (("tab",), "source"), (("tab",), "ttgir"), (("tab",), "amdgcn"),
            (("shift+tab",), "ttgir"),
        ):  # fmt: skip
            await pilot.press(*keys)
            assert [one.kind for one in page.query(Pane) if one.is_on_screen] == [name]
    async with page_of((200, 60)) as (pilot, page):
        await pilot.press("f")
        assert [one.kind for one in page.query(Pane) if one.is_on_screen] == ["amdgcn"]
        await pilot.press("f")
        assert len([one for one in page.query(Pane) if one.is_on_screen]) == 3


# --------------------------------------------------------------------------- jumps


async def test_findings(page_of: Open, linked: KernelReport) -> None:
    wanted = sorted({line - 1 for found in linked.findings for line in found.isa_lines})
    assert len(wanted) > 2
    async with page_of((80, 24)) as (pilot, page):
        code = pane(page, "amdgcn").code
        code.move_to(0)
        seen = []
        for _ in wanted:
            await pilot.press("n")
            seen.append(code.cursor)
        assert seen == wanted
        assert f"line with findings {len(wanted)} of {len(wanted)}" in text_of(pilot.app)
        await pilot.press("n")
        assert code.cursor == wanted[0]  # round the end
        await pilot.press("N")
        assert code.cursor == wanted[-1]
        assert re.search(r"^ *\d+ [✗▲•]", text_of(pilot.app), re.M) or "▲" in text_of(pilot.app)


async def test_loops(page_of: Open, linked: KernelReport) -> None:
    headers = sorted(loop.header.line - 1 for loop in linked.loops)
    async with page_of() as (pilot, page):
        code = pane(page, "amdgcn").code
        code.move_to(0)
        await pilot.press("right_square_bracket")
        assert code.cursor == headers[0]
        assert "Loop L0" in text_of(pilot.app)
        await pilot.press("right_square_bracket")
        assert code.cursor == headers[1]
        await pilot.press("left_square_bracket")
        assert code.cursor == headers[0]
        await pilot.press("tab", "g", *["right_square_bracket"] * 3)
        source = pane(page, "source").code
        assert source.shown.lines[source.cursor].strip().startswith("for start in range")
        await pilot.press("tab", "g", "right_square_bracket")
        ttgir = pane(page, "ttgir").code
        assert "scf.for" in ttgir.shown.lines[ttgir.cursor]


async def test_from_a_wait_to_its_producers_and_back(page_of: Open, linked: KernelReport) -> None:
    wait = next(
        w for w in linked.waits if w.verdict == "needed" and w.waits_for and len(w.waits_for) > 1
    )
    assert wait.waits_for is not None
    async with page_of((80, 24), line=wait.line) as (pilot, page):
        code = pane(page, "amdgcn").code
        seen = []
        for _ in wait.waits_for:
            await pilot.press("w")
            seen.append(code.cursor + 1)
        assert set(wait.waits_for) <= set(seen)
        assert set(seen) - {wait.line} <= code.linked
        await pilot.press("w")
        assert code.cursor + 1 == wait.line
        code.move_to(wait.waits_for[0] - 1)
        page.marks._trail.next(-1, ())  # another trail
        await pilot.press("w")
        assert code.cursor + 1 == wait.line  # from a load to the wait that covers it
        await pilot.press("ctrl+o")
        assert code.cursor + 1 == wait.waits_for[0]


async def test_uses_of_a_register(page_of: Open) -> None:
    async with page_of((80, 24)) as (pilot, page):
        code = pane(page, "amdgcn").code
        lines = code.shown.lines
        at = next(n for n, line in enumerate(lines) if "v_mfma" in line)
        code.move_to(at)
        await pilot.press("u")
        assert re.search(r"v\[\d+:\d+\]: \d+ lines write it, \d+ read it", text_of(pilot.app))
        first, last = map(int, re.findall(r"v\[(\d+):(\d+)\]", lines[at])[0])
        found = page.marks.occurrences
        assert found is not None
        for number in found.lines:
            named = {
                n
                for a, b, c in re.findall(r"\bv(?:\[(\d+):(\d+)\]|(\d+))", lines[number])
                for n in (range(int(a), int(b) + 1) if a else (int(c),))
            }
            assert named & set(range(first, last + 1)), lines[number]
            assert found.hits(number)
        await pilot.press("u")
        assert page.marks.occurrences is not None
        assert page.marks.occurrences.what != found.what  # the next register of the line
        await pilot.press("n")
        assert code.cursor in page.marks.occurrences.lines
        assert code.cursor != at
        await pilot.press("N")
        assert code.cursor == at
        await pilot.press("escape")
        assert page.marks.occurrences is None
        assert pilot.app.screen is page


# --------------------------------------------------------------------------- search


async def test_search(page_of: Open) -> None:
    async with page_of((80, 24)) as (pilot, page):
        code = pane(page, "amdgcn").code
        lines = code.shown.lines
        begun = code.cursor
        wanted = [n for n, line in enumerate(lines) if "v_mfma" in line]
        await pilot.press("slash", *"V_MF")
        assert code.cursor == begun  # capital letters count: there is no such word
        await pilot.press("escape", "slash", *"v_mf")
        assert code.cursor == next((n for n in wanted if n >= begun), wanted[0])
        await pilot.press("enter")
        assert code.has_focus
        assert f"of {len(wanted)}" in text_of(pilot.app)
        seen = [code.cursor]
        for _ in wanted[1:]:
            await pilot.press("n")
            seen.append(code.cursor)
        assert sorted(seen) == wanted
        await pilot.press("N")
        assert code.cursor == seen[-2]
        await pilot.press("ctrl+o", "ctrl+o")
        assert code.cursor in seen
        await pilot.press("slash", *"s_bar", "escape")
        assert pilot.app.screen is page
        assert code.cursor in seen
        await pilot.press("tab", "slash", *"tl.dot".replace(".", ""), "backspace", "enter")
        assert "is not in the Python" not in status(page)


# --------------------------------------------------------------------------- the line


async def test_explanation(page_of: Open, linked: KernelReport) -> None:
    (found,) = (found for found in linked.findings if found.rule == "KI015")
    async with page_of((80, 24)) as (pilot, page):
        pane(page, "amdgcn").code.move_to(found.isa_lines[0] - 1)
        await pilot.press("enter")
        assert isinstance(pilot.app.screen, ExplainScreen)
        text = text_of(pilot.app)
        assert "KI015" in text  # the finding comes first
        await pilot.press("escape")
        assert pilot.app.screen is page
        await pilot.press("colon", *"338", "enter", "enter")
        assert "KI042" in text_of(pilot.app)  # the products that waves repeat
        await pilot.press("escape")
        await pilot.press("colon", *"725", "enter", "enter")
        assert "v_add_u32_e32" in text_of(pilot.app)
        assert "class valu" in text_of(pilot.app)
        await pilot.press("q")
        await pilot.press("tab", "g", "enter")
        assert isinstance(pilot.app.screen, ExplainScreen), "no finding, no instruction: the card"
        assert "This line" in text_of(pilot.app)


async def test_enter_shows_all_of_the_card(page_of: Open) -> None:
    async with page_of((100, 30)) as (pilot, page):
        assert re.search(r"… \d+ more: Enter", text_of(pilot.app))
        low = page.panes.card.size.height
        await pilot.resize_terminal(120, 60)
        await pilot.pause()
        assert low < page.panes.card.size.height
        assert "more: Enter" not in text_of(pilot.app)
        assert "Memory in this loop" in page.texts.card_text()
        await pilot.press("enter")
        shown = str(pilot.app.screen.query_one(Static).content)
        report = page.texts.report
        assert report is not None
        loop = next(loop for loop in report.loops if loop.id == report.main_loop)
        rows = loop_view.memory_rows(report.memory_ops, loop.id)
        assert rows
        assert all(f"{row.count} × {row.mnemonic}" in shown for row in rows)
        assert all(row.label in shown for row in loop_view.scorecard(loop.metrics))
        assert "waves" in shown.partition("────")[2]  # the first screen
        listed = shown.partition(f"Waits in {loop.id}\n")[2].partition("\n\n────")[0].splitlines()
        waits = [wait for wait in report.waits if wait.loop == loop.id]
        assert waits
        by_class, listed = listed[: -len(waits)], listed[-len(waits) :]
        assert all(re.fullmatch(r"  for \w+ +\d+ waits?", row) for row in by_class)
        for_loads = sum("load" in row.partition("; for ")[2] for row in listed)
        assert ["for", "global_load", str(for_loads)] in [row.split()[:3] for row in by_class]
        assert not re.search(r"dwordx\d\d", shown), "a label runs into its figure"
        for row, wait in zip(listed, waits, strict=True):
            assert row.split()[:3] == ["ISA", str(wait.line), f"{wait.counter}({wait.n}):"]
            assert {str(line) for line in wait.waits_for or ()} <= set(row.split())
        assert any(re.search(r"; for \d+ (\d+ )*\w*load\w* ", row) for row in listed)


async def test_going_round_the_panes_keeps_every_place(page_of: Open) -> None:
    async with page_of() as (pilot, page):
        async for _ in each_size(pilot):
            for line in (300, 338, 345):
                await pilot.press("colon", *str(line), "enter")
                places = [slot.code.cursor for slot in page.panes.slots]
                for keys in (("tab",) * 3, ("shift+tab",) * 3):
                    await pilot.press(*keys)
                    assert page.panes.current.kind == "amdgcn"
                    assert [slot.code.cursor for slot in page.panes.slots] == places


async def test_copying_lines(page_of: Open) -> None:
    async with page_of((80, 24), line=38, text="source") as (pilot, page):
        lines = (ISA / "triton_kernels.py").read_text("utf-8").split("\n")
        await pilot.press("y")
        assert pilot.app.clipboard == lines[37]
        await pilot.press("shift+down", "shift+down")
        assert "38–40/47" in text_of(pilot.app)
        await pilot.press("y")
        assert pilot.app.clipboard == "\n".join(lines[37:40])
        assert "copied 3 lines" in text_of(pilot.app)
        await pilot.press("escape", "y")
        assert pilot.app.clipboard == lines[39]
        assert pilot.app.screen is page


async def test_editor(page_of: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    from kinspect.tui.screens.kernel import kernel_page as kernel

    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.delenv("VISUAL", raising=False)
    asked = []
    async with page_of((80, 24), line=338) as (pilot, page):
        await pilot.press("e")
        assert any("EDITOR" in note.message for note in pilot.app._notifications)
        monkeypatch.setattr(
            kernel, "open_editor", lambda app, file, line: asked.append((file, line))
        )
        lead = pane(page, "source").code.cursor + 1
        await pilot.press("e")
        assert asked == [(page.texts.loaded.texts.files["source"], lead)]
        assert lead == 38


async def test_what_a_kernel_rests_on_stands_in_the_card(
    page_of: Open, linked: KernelReport
) -> None:
    made = Assumption("the version of lib, which is not there", "0.0.0", SourceLoc("a.py", 7))
    variant = Variant(
        kernel="attend", arch="gfx950", wave_size=64, ttir="", options={}, assumptions=(made,)
    )
    async with page_of((200, 50), of=replace(linked, variant=variant)) as (pilot, _):
        text = " ".join(text_of(pilot.app).split())
        assert "assumed: the version of lib" in text
    async with page_of((200, 50)) as (pilot, _):
        assert "assumed" not in text_of(pilot.app)


# --------------------------------------------------------------------------- the head


def timed(kernel: KernelReport, **figures: Any) -> KernelReport:
    """A kernel with a time, most of which waves wait at the third barrier or wait."""
    waits = [wait.line for wait in kernel.waits][:3]
    rows = [InstructionTime(line, 0.1, 0.1 * n, "memory") for n, line in enumerate(waits, 1)]
    units = {"memory": 0.38, "matrix": 0.04, "lds": 0.02, "vector": 0.01}
    stalls = (Stall("memory", 0.62),)
    time = kernel_time(instructions=tuple(rows), units=units, stalls=stalls, **figures)
    return replace(kernel, time=time)


def head_rows(page: KernelPage) -> list[str]:
    head = page.panes.head
    return [head.render_line(y).text.rstrip() for y in range(head.size.height)] * head.display


async def test_the_head_is_the_first_screen_of_the_report(
    page_of: Open, linked: KernelReport
) -> None:
    kernel = timed(linked)
    async with page_of(of=kernel) as (_, page):
        rows = head_rows(page)
        assert len(rows) <= 8
        assert rows[0].startswith(plain(present.verdict(kernel)))
        said = "\n".join(rows)
        for figure in present.why(kernel):
            if figure.label in ("time", "waves", "uses"):
                assert plain(figure.text) in said
        assert "memory ▇▇▇▆" in rows[0]
        assert rows[0].endswith("38 % of peak")
        assert "busy" not in said  # the bars say it
        assert kernel.findings[0].message[:60] in said
    async with page_of((80, 24), of=kernel) as (_, page):
        assert [row.split()[0] for row in head_rows(page)] == ["41", "worst", "fix"]
        assert page.panes.current.code.size.height >= 10
    async with page_of((80, 16), of=kernel) as (_, page):
        assert len(head_rows(page)) == 1


def test_a_finding_without_a_cure_comes_last(linked: KernelReport) -> None:
    first, second, *_ = linked.findings
    useless = Trial((Change("option", "num_warps", 8, 4),), False, launches=True)
    given_up = replace(first, saves_percent=83.5, trials=(useless,), fix_is_trials=True)
    rows = head_of(replace(linked, findings=(given_up, second))).rows
    worst, after = (plain(row.text) for row in rows if row.label in ("worst", "next"))
    assert second.message in worst
    assert given_up.message in after
    assert "%" not in after.partition(":")[0]


def test_the_counts_of_spills_stand_in_one_sentence(report: Report) -> None:
    small = next(kernel for kernel in report.kernels if kernel.name == "small")
    (slot,) = small.spills
    text = spills_sentence(small)
    assert text.startswith(f"{small.metrics['vgpr_spill_count'].value} register: ")
    assert f"{len(slot.reloads)} reload, {len(slot.stores)} store in an iteration of L0" in text
    assert text in [plain(figure.text) for figure in present.why(small)]
    assert not spills_sentence(next(one for one in report.kernels if not one.spills))


# --------------------------------------------------------------------------- the first line


async def test_opens_where_most_time_goes(page_of: Open, linked: KernelReport) -> None:
    kernel = timed(linked)
    async with page_of((80, 24), of=kernel) as (_, page):
        assert pane(page, "amdgcn").code.cursor + 1 == kernel.waits[2].line


async def test_opens_at_a_finding_or_at_the_code(page_of: Open, linked: KernelReport) -> None:
    found = next(one for one in linked.findings if one.isa_lines)
    async with page_of((80, 24), of=replace(linked, findings=(found,))) as (_, page):
        assert pane(page, "amdgcn").code.cursor + 1 == found.isa_lines[0]
    bare = replace(linked, findings=(), loops=(), main_loop=None)
    async with page_of((120, 40), of=bare) as (_, page):
        code, source = pane(page, "amdgcn").code, pane(page, "source").code
        assert page.texts.reading.function.instructions[0].line == code.cursor + 1
        assert linked.source is not None
        assert source.cursor + 1 >= linked.source.line  # not at an import


async def test_a_file_that_was_not_analysed_yet_opens_there_too(
    opened: Open, linked: KernelReport
) -> None:
    path = Path(linked.id.partition("::")[0])
    async with opened(size=(80, 24), of=Report("", {}, (), ())) as pilot:
        page = KernelPage.of_file(path)
        await pilot.app.push_screen(page)
        await until(pilot, lambda: page.texts.loaded is not None)
        pilot.app.session.take(Reported((0, 0), linked))
        await until(pilot, lambda: page.settled)
        assert page.panes.current.code.cursor + 1 == first_line(linked, None)[1]


# --------------------------------------------------------------------------- columns and code


async def test_columns_go_before_the_instruction_is_cut(page_of: Open) -> None:
    async with page_of((80, 24), line=338) as (pilot, page):
        code, title = pane(page, "amdgcn").code, pane(page, "amdgcn").title
        heading = title.heading
        assert "bits" not in heading  # there is nothing in it on the screen
        assert code.size.width - code.shown.gutter_width >= 44
        await pilot.press("g")
        assert title.heading != heading  # other lines, other columns
