"""The page of passes, on the dump of a real compile (tests/data/passes, made by regenerate.py)."""

from __future__ import annotations

import itertools
import lzma
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.compare.passhistory import history_of
from kinspect.inspector.compile.passes import PassDump, diff, read_passes
from kinspect.inspector.model import Artifact, KernelReport, Report, Variant
from kinspect.inspector.pipeline.events import Reported
from kinspect.tui import child_process
from kinspect.tui.screens.dialogue import ExplainScreen
from kinspect.tui.screens.kernel.kernel_page import KernelPage
from kinspect.tui.screens.list_chooser import ListChooser
from kinspect.tui.screens.passes import dump_reading
from kinspect.tui.screens.passes.diff_view import DiffView, diff_text, whole_line
from kinspect.tui.screens.passes.dump_reading import PassText, line_change
from kinspect.tui.screens.passes.pass_list import PassLine, PassList
from kinspect.tui.screens.passes.pass_timeline import Timeline, levels
from kinspect.tui.screens.passes.passes_page import PassesPage
from kinspect.tui.widgets.code import RowList
from kinspect.tui.widgets.filter_line import FilterLine
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widgets import Static
from tui_screens import rows_of, snapshots, text_of, until

PACKED = Path(__file__).parent.parent / "data" / "passes" / "gemm.mlir.xz"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("dump") / "passes.mlir"
    found.write_bytes(lzma.decompress(PACKED.read_bytes()))
    return found


@pytest.fixture(scope="module")
def dump(path: Path) -> PassDump:
    return read_passes(path)


def with_dump(kernel: KernelReport, path: Path) -> KernelReport:
    size = path.stat().st_size if path.exists() else 0
    artifact = Artifact("passes", str(path), size, path)
    return replace(kernel, artifacts={**kernel.artifacts, "passes": artifact})


def dumped(report: Report, path: Path, name: str = "small") -> Report:
    """The reports, one of them with a pass dump."""
    kernels = (with_dump(k, path) if k.name == name else k for k in report.kernels)
    return replace(report, kernels=tuple(kernels))


async def read(pilot: Pilot[Any], dump: PassDump) -> None:
    """Waits until every pass's change has been counted."""
    changed = {p.index for p in dump.passes if p.changed}
    await until(pilot, lambda: timeline(pilot) is not None)
    await until(pilot, lambda: set(timeline(pilot).changes) == changed)


def page(pilot: Pilot[Any]) -> PassesPage:
    found = next(s for s in pilot.app.screen_stack if isinstance(s, PassesPage))
    assert isinstance(found, PassesPage)
    return found


def timeline(pilot: Pilot[Any]) -> Any:
    return page(pilot)._timeline


def listed(pilot: Pilot[Any]) -> list[str]:
    return rows_of(page(pilot).query_one(PassList))


def at(pilot: Pilot[Any]) -> int:
    """The pass under the cursor, as the list's line says."""
    view = page(pilot).query_one(PassList)
    return int(rows_of(view)[view.cursor].split()[0])


def shown(pilot: Pilot[Any]) -> list[str]:
    return list(page(pilot).query_one(DiffView).shown.lines)


def title(pilot: Pilot[Any]) -> str:
    return str(page(pilot).query_one("#title").render())  # type: ignore[attr-defined]


def of_pass(dump: PassDump, first: int, after: int) -> list[str]:
    return diff(dump, first, after).splitlines()[2:]


async def test_next_and_previous_change(
    opened: Any, report: Report, path: Path, dump: PassDump
) -> None:
    changed = [p.index for p in dump.passes if p.changed]
    async with opened(size=(80, 24), page="passes", of=dumped(report, path)) as pilot:
        await read(pilot, dump)
        seen = [at(pilot)]
        for key in ("right_square_bracket", "n", "n"):
            await pilot.press(key)
            seen.append(at(pilot))
        assert seen == changed[:4]
        await until(pilot, lambda: shown(pilot) == of_pass(dump, seen[-1], seen[-1] + 1))
        await snapshots(pilot, "passes")
        for key in ("left_square_bracket", "N", "N", "N"):
            await pilot.press(key)
        assert at(pilot) == changed[0]  # there is none before it


async def test_every_pass_is_listed_with_its_change(
    opened: Any, report: Report, path: Path, dump: PassDump
) -> None:
    async with opened(size=(200, 60), page="passes", of=dumped(report, path)) as pilot:
        await read(pilot, dump)
        lines = listed(pilot)
        assert len(lines) == len(dump.passes)
        for one, line in zip(dump.passes, lines, strict=True):
            assert line.split()[0] == str(one.index)
            assert one.cli in line
            assert ("●" in line) == bool(one.changed)
            if one.changed:
                change = line_change(diff(dump, one.index, one.index + 1))
                assert f"+{change.added} −{change.removed}" in line
        changed = sum(bool(p.changed) for p in dump.passes)
        text = text_of(pilot.app)
        assert f"{len(dump.passes)} passes · {changed} changed something" in text
        assert " ttgir ━" in text
        assert " llir ━" in text
        await pilot.press("f")
        kept = [p.index for p in dump.passes if p.changed is not False]
        assert [int(line.split()[0]) for line in listed(pilot)] == kept
        assert f"{len(kept)} shown (only changed)" in text_of(pilot.app)
        await pilot.press("f")
        assert len(listed(pilot)) == len(dump.passes)


async def test_moving_shows_the_diff_of_the_pass(
    opened: Any, report: Report, path: Path, dump: PassDump
) -> None:
    async with opened(page="passes", of=dumped(report, path)) as pilot:
        await read(pilot, dump)
        for keys, index in (("j", 1), ("down", 2), ("k", 1), ("up", 0), ("G", 54), ("g", 0)):
            await pilot.press(keys)
            assert at(pilot) == index
        await pilot.press("ctrl+d")
        assert at(pilot) > 5
        await pilot.press("ctrl+u")
        assert at(pilot) == 0
        await pilot.press("j", "j")
        await until(pilot, lambda: "nothing changed" in shown(pilot)[0])
        assert not dump.passes[2].changed
        await pilot.press("G")
        await until(pilot, lambda: "the dump does not hold what it made" in shown(pilot)[0])
        await pilot.press("g", "n", "v")
        await until(pilot, lambda: shown(pilot) == dump.state(1).splitlines())
        assert title(pilot).startswith("the module before 1 tritongpu-coalesce")
        await pilot.press("v")
        await until(pilot, lambda: shown(pilot) == of_pass(dump, 1, 2))


async def test_filter(opened: Any, report: Report, path: Path, dump: PassDump) -> None:
    async with opened(page="passes", of=dumped(report, path)) as pilot:
        await read(pilot, dump)
        await pilot.press("slash", *"canon")
        named = [p.index for p in dump.passes if "canon" in f"{p.cli}{p.options}".lower()]
        assert [int(line.split()[0]) for line in listed(pilot)] == named
        await pilot.press("enter")
        assert pilot.app.focused is page(pilot).query_one(PassList)
        await pilot.press("n")  # of those listed
        assert at(pilot) in named
        assert dump.passes[at(pilot)].changed
        await pilot.press("slash", *"zzz")
        assert listed(pilot) == []
        assert "no pass has these words" in text_of(pilot.app)
        assert "0 shown" in text_of(pilot.app)
        await pilot.press("escape")
        assert len(listed(pilot)) == len(dump.passes)
        assert not page(pilot).query_one(FilterLine).display
        assert isinstance(pilot.app.screen, PassesPage)  # escape dropped the filter, not the page


async def test_a_mark_makes_the_diff_span_several_passes(
    opened: Any, report: Report, path: Path, dump: PassDump
) -> None:
    async with opened(page="passes", of=dumped(report, path)) as pilot:
        await read(pilot, dump)
        await pilot.press("j", "m", "j", "j")
        assert "◆" in listed(pilot)[1]
        await until(pilot, lambda: shown(pilot) == of_pass(dump, 1, 4))
        assert title(pilot).startswith("1 tritongpu-coalesce to 3 ")
        await pilot.press("g")  # the other way round: both ends belong to it
        await until(pilot, lambda: shown(pilot) == of_pass(dump, 0, 2))
        await pilot.press("G")  # what the last pass made is not there
        await until(pilot, lambda: shown(pilot) == of_pass(dump, 1, 54))
        assert "without, 54" in title(pilot)
        await pilot.press("g", "j", "m")
        await until(pilot, lambda: shown(pilot) == of_pass(dump, 1, 2))
        assert "◆" not in "".join(listed(pilot))


async def test_keys_go_to_the_diff_and_back(
    opened: Any, report: Report, path: Path, dump: PassDump
) -> None:
    async with opened(page="passes", of=dumped(report, path)) as pilot:
        await read(pilot, dump)
        for there, back in (("enter", "left"), ("l", "h")):
            await pilot.press(there)
            view = page(pilot).query_one(DiffView)
            assert pilot.app.focused is view
            await pilot.press("j")
            assert view.cursor == 1
            assert at(pilot) == 0
            await pilot.press("right", "right")
            assert view.scroll_offset.x > 0
            await pilot.press("left", "left", back)
            assert pilot.app.focused is page(pilot).query_one(PassList)
            view.move_to(0)
        await pilot.press("enter", "right_square_bracket")
        assert at(pilot) == 1  # the page's keys work from there too


async def test_a_click_on_the_timeline(
    opened: Any, report: Report, path: Path, dump: PassDump
) -> None:
    async with opened(page="passes", of=dumped(report, path)) as pilot:
        await read(pilot, dump)
        await pilot.press("f")
        await pilot.click(PassLine, offset=(1 + 2 * 29, 1))  # two columns a pass at this width
        assert at(pilot) == 29
        assert not dump.passes[29].changed
        assert len(listed(pilot)) == len(dump.passes)  # it was hidden


async def test_a_search_goes_through_the_diff(
    opened: Any, report: Report, path: Path, dump: PassDump
) -> None:
    async with opened(size=(120, 40), page="passes", of=dumped(report, path)) as pilot:
        await read(pilot, dump)
        view = page(pilot).query_one(DiffView)
        await until(pilot, lambda: any("arith" in line for line in view.shown.lines))
        wanted = [n for n, line in enumerate(view.shown.lines) if "arith" in line]
        await pilot.press("enter", "slash", *"arith")
        assert view.cursor == wanted[0]
        await pilot.press("enter")
        assert view.has_focus
        for line in wanted[1:4]:
            await pilot.press("n")
            assert view.cursor == line
        await pilot.press("N")
        assert view.cursor == wanted[min(3, len(wanted) - 1) - 1]
        first = at(pilot)
        await pilot.press("escape", "n")  # without a search, the next change
        assert isinstance(pilot.app.screen, PassesPage)
        assert at(pilot) != first


async def test_another_kernel(opened: Any, report: Report, path: Path, dump: PassDump) -> None:
    async with opened(page="passes", of=dumped(report, path)) as pilot:
        await read(pilot, dump)
        assert page(pilot).crumb().startswith("small")
        await pilot.press("a")
        assert isinstance(pilot.app.screen, ListChooser)
        assert "● small" in text_of(pilot.app)
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, PassesPage)
        await pilot.press("a", *"cal")
        rows = pilot.app.screen.query_one(RowList).shown
        assert [line.split()[0] for line in rows.lines] == ["calls"]
        await pilot.press("enter")
        await until(pilot, lambda: "compiled code" in text_of(pilot.app))
        text = text_of(pilot.app)
        assert "kinspect tui FILE.py" in text
        assert "a chooses another kernel" in text
        assert pilot.app.last_kernel == next(k.id for k in report.kernels if k.name == "calls")
        await pilot.press("a", *"zz", "enter")  # none has these letters
        assert page(pilot).crumb().startswith("calls")
        await pilot.press("a", "up", "down", *"sm", "enter")
        await read(pilot, dump)
        await pilot.press("o")
        await until(pilot, lambda: isinstance(pilot.app.screen, KernelPage))


async def test_no_kernel_yet(opened: Any, report: Report, path: Path, dump: PassDump) -> None:
    async with opened(page="passes", of=replace(report, kernels=())) as pilot:
        assert "No kernel is open." in text_of(pilot.app)
        for key in ("f", "m", "v", "slash", "n", "right_square_bracket", "o"):
            await pilot.press(key)
        assert isinstance(pilot.app.screen, PassesPage)
        (kernel,) = (k for k in dumped(report, path).kernels if k.name == "small")
        variant = Variant(kernel="small", arch="gfx942", wave_size=64, ttir="", options={})
        pilot.app.session.take(Reported((0, 0), replace(kernel, variant=variant, artifacts={})))
        await until(pilot, lambda: "--no-passes" in text_of(pilot.app))
        pilot.app.session.take(Reported((0, 0), kernel))
        await read(pilot, dump)
        assert "55 passes" in text_of(pilot.app)


async def test_broken_dumps(
    opened: Any, report: Report, path: Path, dump: PassDump, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.mlir"
    (kernel,) = (k for k in report.kernels if k.name == "small")
    async with opened(page="passes", of=dumped(report, broken), size=(200, 60)) as pilot:
        await until(pilot, lambda: "cannot be read" in text_of(pilot.app))
        for name, content in (("empty", b""), ("garbage", b"\0\xff garbage\n" * 50)):
            other = tmp_path / name
            other.write_bytes(content)
            pilot.app.session.take(Reported((4, 0), with_dump(kernel, other)))
            said = f"{name} holds no MLIR pass dump"
            await until(pilot, lambda said=said: said in text_of(pilot.app))  # type: ignore[misc]
        pilot.app.session.take(Reported((4, 0), with_dump(kernel, path)))
        await read(pilot, dump)
        assert "55 passes" in text_of(pilot.app)


async def test_a_dump_that_vanishes(
    opened: Any, report: Report, path: Path, dump: PassDump, tmp_path: Path
) -> None:
    copy = tmp_path / "passes.mlir"
    copy.write_bytes(path.read_bytes())
    async with opened(page="passes", of=dumped(report, copy)) as pilot:
        await read(pilot, dump)
        copy.unlink()
        await pilot.press("m", "j", "j")
        await until(pilot, lambda: "cannot be read" in shown(pilot)[0])
        assert title(pilot)  # which pass it is of


async def test_a_big_dump_is_read_by_another_process(
    opened: Any, report: Report, path: Path, dump: PassDump, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump_reading, "CHILD_BYTES", 0)
    async with opened(page="passes", of=dumped(report, path)) as pilot:
        await read(pilot, dump)
        await pilot.press("m", "n", "n")
        await until(pilot, lambda: shown(pilot) == of_pass(dump, 0, 4))


def test_a_process_that_is_given_up_is_ended(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_reading, "CHILD_BYTES", 0)
    started: list[Any] = []
    popen = child_process.subprocess.Popen

    def noted(*args: Any, **kwargs: Any) -> Any:
        started.append(popen(*args, **kwargs))
        return started[-1]

    monkeypatch.setattr(child_process.subprocess, "Popen", noted)
    assert list(dump_reading.results_from_child(path, None, lambda: True)) == []
    assert started[0].poll() is not None


def test_both_ways_of_reading_agree(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = list(dump_reading.results_from_child(path, None, lambda: False))
    monkeypatch.setattr(dump_reading, "CHILD_BYTES", 0)
    assert list(dump_reading.results_from_child(path, None, lambda: False)) == here
    (one,) = dump_reading.results_from_child(path, (3, 3), lambda: False)
    state = read_passes(path, changes=False).state(3)
    assert one == dump_reading.SpanResult((3, 3), PassText(state))


def test_a_text_that_nobody_reads_is_cut(
    path: Path, dump: PassDump, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = diff(dump, 43, 44).splitlines()
    monkeypatch.setattr(dump_reading, "MAX_CHARS", 5000)
    made = dump_reading.pass_text(dump, (43, 44))
    assert made.change == line_change(diff(dump, 43, 44))
    *lines, last = made.text.splitlines()
    assert len(made.text) < 5100
    assert lines == whole[: len(lines)]
    assert last == f"… {len(whole) - len(lines):,} more lines are left out"


# ------------------------------------------------------------------ the history of a line


@pytest.mark.parametrize("child_bytes", [0, dump_reading.CHILD_BYTES])
async def test_the_passes_that_changed_an_operation(
    opened: Any,
    report: Report,
    path: Path,
    dump: PassDump,
    child_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dump_reading, "CHILD_BYTES", child_bytes)
    history = history_of(dump, "tt.dot@34")
    events = [event.index for event in history.events]
    key = next(k.id for k in report.kernels if k.name == "small")
    async with opened(size=(120, 40), page="kernels", of=dumped(report, path)) as pilot:
        pilot.app.open_passes(key, "tt.dot@34")
        await until(pilot, lambda: isinstance(pilot.app.screen, PassesPage))
        await read(pilot, dump)
        assert [int(line.split()[0]) for line in listed(pilot)] == events
        assert "3 shown (only of tt.dot of line 34)" in text_of(pilot.app)
        for event in history.events:
            assert at(pilot) == event.index
            whole = of_pass(dump, event.index, event.index + 1)
            await until(pilot, lambda whole=whole: shown(pilot) == whole)  # type: ignore[misc]
            view = page(pilot).query_one(DiffView)
            marked = [n for n, line in enumerate(whole) if line[0] in "+-" and " tt.dot " in line]
            assert view.cursor == marked[0]
            gutter = view.shown.gutter
            assert gutter is not None
            pointed = [n for n in range(len(whole)) if gutter(n)[0][0] == "▸ "]
            assert pointed == marked
            # Other hunks are folded.
            hunks = view.shown.folds or {}
            of_marks = {a for a, b in hunks.items() if any(a <= n <= b for n in marked)}
            assert view.folded == set(hunks) - of_marks
            text = "made" if event.deed == "made" else f"{event.before} → {event.after} operations"
            assert title(pilot).startswith(f"tt.dot of line 34: {text}")
            await pilot.press("n")
        await pilot.press("f")
        assert [int(line.split()[0]) for line in listed(pilot)] == [
            p.index for p in dump.passes if p.changed is not False
        ]
        await pilot.press("f")
        assert len(listed(pilot)) == len(dump.passes)
        assert sum("▸" in line for line in listed(pilot)) == len(events)
        await pilot.press("f", "q")
        assert not isinstance(pilot.app.screen, PassesPage)


async def test_a_line_that_no_pass_knows(
    opened: Any, report: Report, path: Path, dump: PassDump
) -> None:
    key = next(k.id for k in report.kernels if k.name == "small")
    async with opened(size=(120, 40), page="kernels", of=dumped(report, path)) as pilot:
        pilot.app.open_passes(key, "4711")
        await until(pilot, lambda: isinstance(pilot.app.screen, PassesPage))
        await read(pilot, dump)
        assert len(listed(pilot)) == len(dump.passes)
        messages = [notification.message for notification in pilot.app._notifications]
        assert messages == ["no pass over TTIR or TTGIR changed line 4711: all are listed"]


# ------------------------------------------------------------------ the parts


def test_stages_and_compiles_of_a_users_dump(tmp_path: Path) -> None:
    """Two compiles in one file: the state after the last pass of the first is not the next one."""
    header = "// -----// IR Dump Before {0}: {1} ('builtin.module' operation) //----- //\n{2}\n\n"
    body = "module {{\n  tt.func public @{0}() {{\n    %0 = arith.constant {1} : i32\n  }}\n}}\n"
    file = tmp_path / "two.mlir"
    file.write_text(
        "".join(
            header.format(name, name, body.format(kernel, n))
            for kernel in ("one", "two")
            for n, name in enumerate(("inline", "convert-triton-to-tritongpu", "convert-scf-to-cf"))
        )
    )
    found = Timeline(read_passes(file))
    assert [p.stage for p in found.passes] == ["ttir", "ttgir", "llir"] * 2
    assert [found.is_last(n) for n in range(6)] == [False, False, True] * 2
    assert found.span(2, None) is None
    assert found.span(1, None) == (1, 2)
    assert found.span(2, 0) == (0, 2)
    assert found.span(0, 1) == (0, 2)
    assert found.next_changed(0, 1) == 1
    assert found.next_changed(1, 1) == 3
    assert found.next_changed(0, -1) is None


def test_lines_of_a_diff_have_the_numbers_of_both_states(dump: PassDump) -> None:
    index = next(p.index for p in dump.passes if p.changed and p.index > 4)
    text = diff_text(diff(dump, index, index + 1), True)
    before, after = (dump.state(n).splitlines() for n in (index, index + 1))
    assert text.gutter is not None
    checked = 0
    for n, line in enumerate(text.lines):
        gutter = "".join(cell for cell, _ in text.gutter(n))
        assert len(gutter) == text.gutter_width
        width = text.gutter_width // 2
        old, new = gutter[:width].strip(), gutter[width:].strip()
        assert bool(old) == (line[0] in " -")
        assert bool(new) == (line[0] in " +")
        if line.startswith("-"):
            assert before[int(old) - 1] == line[1:]
        elif new:
            assert after[int(new) - 1] == line[1:]
            checked += 1
    assert checked > 5


def test_only_what_differs_of_a_long_line_is_coloured() -> None:
    same = "layout<{a = [1, 1], b = [64, 1], c = [4, 1]}>"
    text = diff_text(f"--- a\n+++ b\n@@ -1,1 +1,1 @@\n-x {same} 16 y\n+x {same} 32 y\n", False)
    (sign, middle) = text.spans(2)
    assert sign == (0, 1, "added")
    assert text.lines[2][middle[0] : middle[1]] == "32"
    other = diff_text("--- a\n+++ b\n@@ -1,1 +1,1 @@\n-abc\n+xyz\n", False)
    assert list(other.spans(1)) == [(0, 4, "removed")]


def test_layout_conversions_are_those_of_the_modules(dump: PassDump) -> None:
    found = Timeline(dump)
    assert found.conversions(len(dump.passes) - 1) is None  # what the last made is not known
    changed = 0
    for index in range(len(dump.passes) - 1):
        before, after = (dump.state(n).count("ttg.convert_layout ") for n in (index, index + 1))
        assert found.conversions(index) == (None if before == after else (before, after))
        changed += before != after
    assert changed
    unread = Timeline(read_passes(dump.path, changes=False))
    assert {unread.conversions(index) for index in range(len(dump.passes))} == {None}
    table = PassList()
    table.show_passes(found, [p.index for p in dump.passes], None, 0)
    for index, line in enumerate(rows_of(table)):
        counts = found.conversions(index)
        assert (f"{counts[0]}→{counts[1]}" in line) if counts else "→" not in line


def test_levels_keep_the_order_of_sizes() -> None:
    sizes = [100, 200, 100, 5000, 300, 1]
    found = levels(sizes, 24)
    assert max(found) == 24
    assert min(found) >= 1
    order = sorted(range(len(sizes)), key=lambda n: sizes[n])
    assert all(found[a] <= found[b] for a, b in itertools.pairwise(order))
    assert levels([7, 7], 8)[0] >= 1
    assert levels([0], 8) == [1]


async def test_enter_shows_a_line_of_the_diff_in_full(
    opened: Any, report: Report, path: Path, dump: PassDump
) -> None:
    async with opened(size=(80, 24), page="passes", of=dumped(report, path)) as pilot:
        await read(pilot, dump)
        pairs = (
            (p.index, n)
            for p in dump.passes
            if p.changed
            for lines in [of_pass(dump, p.index, p.index + 1)]
            for n in range(len(lines))
            if whole_line(lines, n).startswith("before") and len(lines[n]) > 80
        )
        index, pair = next(pairs)
        lines = of_pass(dump, index, index + 1)
        page(pilot).query_one(PassList).move_to(index)
        await until(pilot, lambda: shown(pilot) == lines)
        view = page(pilot).query_one(DiffView)
        await pilot.press("enter")
        view.move_to(pair)
        await pilot.press("enter")
        assert isinstance(pilot.app.screen, ExplainScreen)
        window = pilot.app.screen.query_one(Static)
        assert " ".join(lines[pair][1:].split()) in str(window.render())
        assert window.size.height > 5  # wrapped: nothing is beyond an edge
        assert "after" in text_of(pilot.app)
        await pilot.press("escape")
        assert pilot.app.screen is page(pilot)
