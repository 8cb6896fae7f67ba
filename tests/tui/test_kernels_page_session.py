"""The session: runs that begin again, what stays, and what there was before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.model import ErrorRecord, KernelReport, Metric, Report
from kinspect.inspector.pipeline.events import Captured, Compiled, Failed, Reported
from kinspect.inspector.pipeline.jobs import Request
from kinspect.tui.screens.dialogue import LeaveScreen
from kinspect.tui.screens.export import ExportScreen, write
from kinspect.tui.session import Session
from msgspec.structs import replace
from textual.widgets import Input
from tui_screens import text_of

REQUEST = Request(("gemm.py",))


def other(kernel: KernelReport, vgprs: int) -> KernelReport:
    metric = Metric("vgpr_count", vgprs, "registers", "compiler")
    return replace(kernel, metrics={**kernel.metrics, "vgpr_count": metric})


def run(session: Session, *kernels: KernelReport, errors: tuple[ErrorRecord, ...] = ()) -> None:
    session.begin(REQUEST)
    for number, kernel in enumerate(kernels):
        session.take(Reported((0, number), kernel))
    for number, error in enumerate(errors):
        session.take(Failed((0, number), error))
    session.end()


def test_progress_counts(report: Report) -> None:
    session = Session()
    session.begin(REQUEST)
    assert session.progress.running
    before = session.revision
    session.take(Captured("gemm.py", (None,) * 3, ("a note", "a note")))  # type: ignore[arg-type]
    session.take(Compiled(None, 1.0, False))  # type: ignore[arg-type]
    session.take(Reported((0, 0), report.kernels[0]))
    session.take(Failed((0, 1), ErrorRecord(None, None, "compile", "no", "")))
    assert session.revision == before + 4
    progress = session.progress
    assert (progress.expected, progress.compiled, progress.done) == (3, 1, 2)
    assert list(session.notes) == ["a note"]
    session.end()
    assert not progress.running


def test_kernels_of_one_id_are_two(report: Report) -> None:
    session = Session()
    kernel = report.kernels[0]
    run(session, kernel, kernel)
    assert list(session.entries) == [kernel.id, f"{kernel.id}~2"]
    assert all(session.entries[key].key == key for key in session.entries)


def test_what_a_second_run_does_not_bring_is_gone(report: Report) -> None:
    session = Session()
    one, two = report.kernels[:2]
    run(session, one, two)
    session.begin(REQUEST)
    assert session.stale == {one.id, two.id}  # still there, of the run before
    session.take(Reported((0, 0), one))
    assert session.stale == {two.id}
    session.end()
    assert list(session.entries) == [one.id]
    assert session.stale == set()


@pytest.mark.parametrize("form", ["{}", "{}::kernel", "absolute"])
def test_what_a_failed_run_does_not_bring_stays(report: Report, form: str) -> None:
    session = Session()
    one = report.kernels[0]
    path = one.id.partition("::")[0]
    named = str(Path(path).absolute()) if form == "absolute" else form.format(path)
    run(session, one)
    run(session, errors=(ErrorRecord("other.py", None, "capture", "no", ""),))
    assert not session.entries  # another file's failure is no reason to keep it
    run(session, one)
    run(session, errors=(ErrorRecord(named, None, "capture", "SyntaxError", "mend it"),))
    assert session.stale == {one.id}
    # The next good run is compared with the last good one.
    run(session, other(one, 200))
    assert session.stale == set()
    before = session.before(session.entries[one.id])
    assert before is not None
    assert before.report is one


def test_what_has_no_file_any_more_stays_with_its_last_figures(report: Report) -> None:
    session = Session()
    one, two = report.kernels[:2]
    run(session, one, two)
    session.removed = frozenset({Path(one.id.partition("::")[0]).absolute()})
    assert session.stale_text(one.id).endswith(" was removed: last figures")
    assert session.stale_text(two.id) == ""
    run(session, two)  # of the folder that it was in
    assert set(session.entries) == {one.id, two.id}
    assert session.entries[one.id].report is one
    session.removed = frozenset()
    assert session.stale_text(one.id) == "old, of a run before"
    run(session, one, two)
    assert session.stale_text(one.id) == ""


def test_before_is_the_run_before_and_not_the_first(report: Report) -> None:
    session = Session()
    one = report.kernels[0]
    run(session, one)
    assert session.before(session.entries[one.id]) is None
    for vgprs, wanted in ((100, one.metrics["vgpr_count"].value), (90, 100), (90, 90)):
        run(session, other(one, vgprs))
        before = session.before(session.entries[one.id])
        assert before is not None
        assert before.metric("vgpr_count") == wanted


def test_a_kernel_with_other_options_is_known_by_its_name(report: Report) -> None:
    session = Session()
    one = report.kernels[0]
    run(session, one)
    renamed = replace(one, id=one.id + "#other")
    run(session, renamed)
    before = session.before(session.entries[renamed.id])
    assert before is not None
    assert before.report is one


def test_another_request_begins_with_nothing(report: Report) -> None:
    session = Session()
    run(session, report.kernels[0])
    session.begin(Request(("other.py",)))
    assert not session.entries
    assert not session.stale
    assert session.runs == 2


def test_what_was_tried_stands_beside_what_it_was_made_from(report: Report) -> None:
    session = Session()
    one, two = report.kernels[:2]
    run(session, one, two)
    like = session.entries[one.id]
    first = session.add_tried(other(one, 10), like, "num_warps=8")
    assert first.key == f"{one.id}~2"  # its id is taken
    assert first.case == "num_warps=8"
    assert session.add_tried(other(one, 10), like, "num_warps=8").key == first.key
    second = session.add_tried(other(one, 9), first, "BLOCK=32")
    assert second.case == "num_warps=8, BLOCK=32"
    assert [e.key for e in session.ordered()] == [one.id, first.key, second.key, two.id]
    assert session.before(first) is None
    run(session, one, two)
    assert list(session.entries) == [one.id, two.id]  # a new run begins without


def test_what_a_new_run_drops_is_told_apart(report: Report) -> None:
    session = Session()
    one = report.kernels[0]
    run(session, one)
    session.add_tried(other(one, 10), session.entries[one.id], "num_warps=8")
    assert [entry.tried for entry in session.tried()] == ["num_warps=8"]
    run(session, one)
    assert session.dropped == ("num_warps=8",)
    assert not session.tried()
    run(session, one)
    assert session.dropped == ()


async def test_rows_that_a_failed_run_leaves_are_marked_as_old(opened: Callable[..., Any]) -> None:
    async with opened() as pilot:
        session = pilot.app.session
        path = next(iter(session.entries)).partition("::")[0]
        kernels = [entry.report for entry in session.entries.values()]
        session.request = REQUEST
        session.begin(REQUEST)
        session.stale = set(session.entries)
        await pilot.pause(0.2)
        assert "old" not in text_of(pilot.app)  # of a run that is under way
        for number, kernel in enumerate(kernels):
            if kernel.id.partition("::")[0] != path:
                session.take(Reported((0, number), kernel))
        session.take(Failed((0, 0), ErrorRecord(path, None, "capture", "boom", "")))
        session.end()
        await pilot.pause(0.2)
        left = len(session.stale)
        assert left
        text = text_of(pilot.app)
        assert f"{left} old, of a run before" in text
        assert "old " in text.partition("of a run before")[2]


async def test_a_save_tells_which_recompiled_rows_it_drops(
    opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kinspect.tui.feed.Feed.start", lambda self: None)
    async with opened() as pilot:
        app = pilot.app
        entry = next(iter(app.session.entries.values()))
        app.session.request = REQUEST
        app.session.add_tried(other(entry.report, 10), entry, "waves_per_eu=2")
        app.run_request(REQUEST)
        app.feed = None
        await pilot.pause()
        (toast,) = app._notifications
        assert "waves_per_eu=2" in toast.message


def recompile(app: Any) -> None:
    entry = next(iter(app.session.entries.values()))
    app.session.add_tried(other(entry.report, 10), entry, "waves_per_eu=2")


async def test_leaving_asks_before_recompiled_kernels_are_lost(opened: Callable[..., Any]) -> None:
    async with opened() as pilot:
        app = pilot.app
        recompile(app)
        for key, stays in (("q", "escape"), ("ctrl+q", "q"), ("ctrl+c", "q")):
            await pilot.press(key)
            await pilot.pause()
            assert isinstance(app.screen, LeaveScreen)
            assert "1 recompiled kernel is in no file yet" in text_of(app)
            await pilot.press(stays)
            await pilot.pause()
            assert not app._exit
            assert not isinstance(app.screen, LeaveScreen)
        await pilot.press("q")
        await pilot.pause()
        await pilot.press("d")
        await pilot.pause()
        assert app._exit


async def test_ctrl_c_twice_leaves(opened: Callable[..., Any]) -> None:
    async with opened() as pilot:
        recompile(pilot.app)
        await pilot.press("ctrl+c")
        await pilot.pause()
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert pilot.app._exit


async def test_saving_leaves_once_the_file_is_written(
    opened: Callable[..., Any], tmp_path: Path
) -> None:
    async with opened() as pilot:
        app = pilot.app
        recompile(app)
        for keys in (("escape",), ()):  # who closes the dialogue of the file stays
            await pilot.press("q")
            await pilot.pause()
            await pilot.press("s")
            await pilot.pause()
            assert isinstance(app.screen, ExportScreen)
            field = app.screen.query_one(Input)
            assert field.value.endswith(".kinspect"), "a picture keeps no kernel"
            field.value = str(tmp_path / "report.json")
            await pilot.press(*keys)
            await pilot.pause()
        await pilot.press("enter")
        for _ in range(1000):
            if app._exit:
                break
            await pilot.pause(0.01)
        assert app._exit
    assert (tmp_path / "report.json").is_file()


async def test_an_exported_recompiled_kernel_is_not_lost(
    opened: Callable[..., Any], tmp_path: Path
) -> None:
    async with opened() as pilot:
        app = pilot.app
        entry = next(iter(app.session.entries.values()))
        new = app.session.add_tried(other(entry.report, 10), entry, "waves_per_eu=2")
        for name, unsaved in (("screen.svg", [new]), ("report.json", [])):
            await pilot.press("ctrl+e")
            app.screen.query_one(Input).value = str(tmp_path / name)
            await pilot.press("enter")
            while isinstance(app.screen, ExportScreen):
                await pilot.pause(0.01)
            assert app.session.unsaved() == unsaved
        app.session.add_tried(other(entry.report, 11), entry, "waves_per_eu=2")
        assert len(app.session.unsaved()) == 1  # it took the place of the exported one


async def test_leaving_waits_for_the_export_that_it_warned_of(
    opened: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def slow(*arguments: Any) -> int:
        assert go_on.wait(60)
        return write(*arguments)

    monkeypatch.setattr("kinspect.tui.screens.export.write", slow)
    async with opened() as pilot:
        app = pilot.app
        await pilot.press("ctrl+e")
        app.screen.query_one(Input).value = str(tmp_path / "report.kinspect")
        await pilot.press("enter")
        await pilot.pause()
        await pilot.press("escape")  # the export goes on without its dialogue
        await pilot.press("ctrl+q")
        await pilot.pause()
        assert "an export is being written" in text_of(app)
        await pilot.press("s")
        await pilot.pause()
        assert not app._exit
        go_on.set()
        for _ in range(1000):
            await pilot.pause(0.01)
            if not app.exporting:
                break
        assert app._exit
    assert [path.name for path in tmp_path.glob("*report.kinspect*")] == ["report.kinspect"]


async def test_a_second_time_aborts_the_export(
    opened: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def slow(*_: Any) -> int:
        assert go_on.wait(60)
        raise KinspectError("not now")

    monkeypatch.setattr("kinspect.tui.screens.export.write", slow)
    async with opened() as pilot:
        await pilot.press("ctrl+e")
        pilot.app.screen.query_one(Input).value = str(tmp_path / "report.json")
        await pilot.press("enter", "ctrl+q")
        await pilot.pause()
        await pilot.press("ctrl+q")
        await pilot.pause()
        assert pilot.app._exit
        assert pilot.app.exporting == {tmp_path / "report.json"}, "which is said at the end"
        go_on.set()


async def test_q_leaves_at_once_where_nothing_is_lost(opened: Callable[..., Any]) -> None:
    async with opened() as pilot:
        await pilot.press("q")
        await pilot.pause()
        assert pilot.app._exit
