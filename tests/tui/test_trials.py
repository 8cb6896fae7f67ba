"""Cures of findings tried from the interface: rows as they come, Escape, and the comparison."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.compare.times import time_change
from kinspect.inspector.compare.trials.trial_results import TrialRow
from kinspect.inspector.explain import trials_view
from kinspect.inspector.model import Change, KernelReport, Report, Trial
from kinspect.inspector.pipeline import collecting as pipeline
from kinspect.inspector.pipeline.jobs import Request, request_for
from kinspect.tui.app import KinspectApp
from kinspect.tui.application import Opening
from kinspect.tui.screens.compare.compare_page import ComparePage
from kinspect.tui.screens.findings.findings_page import FindingsPage
from kinspect.tui.screens.kernel.kernel_page import KernelPage
from kinspect.tui.screens.recompile import RECOMPILE
from kinspect.tui.screens.trials import TrialsScreen, _style
from kinspect.tui.widgets.table import Table
from msgspec.structs import replace
from test_hip_sources import needs_clang
from textual.pilot import Pilot
from tui_kernels import tuned, waves
from tui_screens import snapshots, text_of, until

Make = Callable[..., AbstractAsyncContextManager[Pilot[Any]]]
DATA = Path(__file__).parent.parent / "data"


@pytest.fixture
def compiled(report: Report) -> KernelReport:
    """A kernel with its TTIR (not one that would compile), and a finding."""
    small = next(kernel for kernel in report.kernels if kernel.name == "small")
    kernel = tuned(small, {"BM": 64, "num_warps": 4}, waves(8, 64))
    assert kernel.variant is not None
    assert kernel.findings
    # How often fixes helped elsewhere changes with every kernel that they are tried on.
    findings = tuple(replace(finding, tried=None) for finding in kernel.findings)
    variant = replace(kernel.variant, ttir="module {}")
    return replace(kernel, variant=variant, findings=findings)


def change(name: str, value: int) -> tuple[Change, ...]:
    return (Change("option", name, value, 2),)


def row(
    changes: tuple[Change, ...], spills: int | None, *cures: str, failure: str = ""
) -> TrialRow:
    us = 41.0 if spills else 29.0
    metrics = {"time.us": us, "vgpr_spill_count": spills, "vgpr_count": 256, "lds_bytes": 65536}
    diff = {"vgpr_spill_count": (364, spills)} if changes and spills != 364 else {}
    time = time_change(41, us) if cures else None
    trial = Trial(changes, None, {} if failure else metrics, diff, failure=failure, time=time)
    return TrialRow(changes, trial, cures, None)


class Child:
    """Sends what a child would, each message once the test lets it."""

    def __init__(self, *messages: tuple[str, Any], error: KinspectError | None = None) -> None:
        self._messages = messages
        self._error = error
        self.steps = threading.Semaphore(0)
        self.stopped = threading.Event()

    def messages(self) -> Iterator[tuple[str, Any]]:
        for message in self._messages:
            self.steps.acquire()
            if self.stopped.is_set():
                raise KinspectError("cancelled", "")
            yield message
        self.steps.acquire()
        if self.stopped.is_set():
            raise KinspectError("cancelled", "")
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        self.stopped.set()
        self.steps.release()


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch, compiled: KernelReport) -> Child:
    unchanged, less, failed = (), change("waves_per_eu", 0), change("num_stages", 9)
    rows = (
        row(unchanged, 364),
        row(less, 0, "KI001"),
        row(failed, None, failure="no room\nfor it"),
    )
    fake = Child(
        ("planned", 3),
        ("variant", (less, compiled.variant)),
        ("rows", rows[:2]),
        ("rows", rows),
    )
    monkeypatch.setattr("kinspect.tui.screens.trials.MessagingChild", lambda *work: fake)
    return fake


async def trials_on(pilot: Pilot[Any], *keys: str) -> TrialsScreen:
    await pilot.press(*keys)
    await pilot.pause()
    screen = pilot.app.screen
    assert isinstance(screen, TrialsScreen), text_of(pilot.app)
    return screen


async def test_rows_arrive_as_they_are_compiled(
    opened: Make, report: Report, compiled: KernelReport, child: Child
) -> None:
    async with opened((120, 40), "findings", of=replace(report, kernels=(compiled,))) as pilot:
        screen = await trials_on(pilot, "n", "T")
        assert "compiling the first change" in text_of(pilot.app)
        child.steps.release(3)
        await until(pilot, lambda: "tried 1 of 3" in text_of(pilot.app))
        assert "waves_per_eu=0" in text_of(pilot.app)
        assert "num_stages=9" not in text_of(pilot.app)
        child.steps.release()
        await until(pilot, lambda: "tried 2 of 3" in text_of(pilot.app))
        await pilot.press("j")
        assert "41 → 29 µs (-29 %; " in text_of(pilot.app)
        assert "0 spills (was 364)" in text_of(pilot.app)
        await pilot.press("j")
        assert "failed: no room for it" in text_of(pilot.app)
        await pilot.press("k")
        await snapshots(pilot, "trials")
        child.steps.release()
        await until(pilot, lambda: "2 changes tried, 1 not" in text_of(pilot.app))
        await pilot.press("escape")
        assert pilot.app.screen is not screen
        assert isinstance(pilot.app.screen, FindingsPage)


async def test_escape_stops_it_and_keeps_what_is_done(
    opened: Make, report: Report, compiled: KernelReport, child: Child
) -> None:
    async with opened((120, 40), "findings", of=replace(report, kernels=(compiled,))) as pilot:
        screen = await trials_on(pilot, "T")
        child.steps.release(3)
        await until(pilot, lambda: "tried 1 of 3" in text_of(pilot.app))
        await pilot.press("escape")
        assert child.stopped.is_set()
        await until(pilot, lambda: "1 change tried, 2 not" in text_of(pilot.app))
        assert pilot.app.screen is screen
        assert screen.query_one(Table).count == 2
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, FindingsPage)


async def test_enter_compares_with_the_kernel_as_it_is(
    opened: Make,
    report: Report,
    compiled: KernelReport,
    child: Child,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert compiled.variant is not None
    options = {**compiled.variant.options, "waves_per_eu": 0}
    new = replace(compiled, variant=replace(compiled.variant, options=options))
    asked = []

    class Compile:
        def __init__(self, work: tuple[KernelReport, object, Request]) -> None:
            asked.append(work[1])

        def run(self) -> KernelReport:
            if len(asked) == 1:
                raise KinspectError("compile: no such luck", "")
            return new

        def stop(self) -> None:
            pass

    def started(function: str, work: Any) -> Any:
        return Compile(work) if function == RECOMPILE else child

    monkeypatch.setattr("kinspect.tui.screens.trials.MessagingChild", started)
    async with opened((120, 40), "findings", of=replace(report, kernels=(compiled,))) as pilot:
        screen = await trials_on(pilot, "T")
        child.steps.release(4)
        await until(pilot, lambda: screen.query_one(Table).count == 3)
        await pilot.press("enter")
        assert "this is the baseline itself" in text_of(pilot.app)
        await pilot.press("j", "enter")
        await until(pilot, lambda: "no such luck" in text_of(pilot.app))
        assert pilot.app.screen is screen
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, ComparePage))
        assert asked == [compiled.variant] * 2
        assert child.stopped.is_set()
        (tried,) = [entry for entry in pilot.app.session.entries.values() if entry.tried]
        assert tried.tried == "waves_per_eu=0"
        assert tried.report is new


async def test_what_cannot_be_tried_says_why(
    opened: Make, report: Report, compiled: KernelReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = KinspectError("no change is known that could cure it", "r compiles it with your own")
    fake = Child(error=error)
    monkeypatch.setattr("kinspect.tui.screens.trials.MessagingChild", lambda *work: fake)
    async with opened((120, 40), "findings", of=replace(report, kernels=(compiled,))) as pilot:
        await trials_on(pilot, "T")
        fake.steps.release()
        await until(pilot, lambda: "no change is known that could cure it" in text_of(pilot.app))
        assert "r compiles it with your own" in text_of(pilot.app)
    small = next(kernel for kernel in report.kernels if kernel.name == "small")
    async with opened((120, 40), "findings", of=replace(report, kernels=(small,))) as pilot:
        await pilot.press("T")
        await pilot.pause()
        assert isinstance(pilot.app.screen, FindingsPage)
        assert any("compiled already" in note.message for note in pilot.app._notifications)
    saved = replace(small, id="saved.hip::small@gfx942")  # its source is read by no other's word
    async with opened((120, 40), "findings", of=replace(report, kernels=(saved,))) as pilot:
        await pilot.press("T")
        await pilot.pause()
        assert isinstance(pilot.app.screen, FindingsPage)
        assert any("no target here" in note.message for note in pilot.app._notifications)


async def test_the_kernel_page_tries_the_cures_of_the_line(
    opened: Make, report: Report, compiled: KernelReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[frozenset[str]] = []

    def started(function: str, work: tuple[KernelReport, frozenset[str], Request]) -> Child:
        asked.append(work[1])
        return Child()

    monkeypatch.setattr("kinspect.tui.screens.trials.MessagingChild", started)
    small = next(kernel for kernel in report.kernels if kernel.name == "small")
    other = replace(small.findings[0], rule="KI022", locations=(), lines=())
    kernel = replace(small, variant=compiled.variant, findings=(*small.findings, other))
    async with opened((120, 40), of=replace(report, kernels=(kernel,))) as pilot:
        pilot.app.open_kernel(kernel.id, line=1)
        await until(
            pilot, lambda: isinstance(pilot.app.screen, KernelPage) and pilot.app.screen.settled
        )
        await trials_on(pilot, "T")
        await pilot.press("escape", "escape")
        page = pilot.app.screen
        assert isinstance(page, KernelPage)
        await trials_on(pilot, "n", "T")
    first = frozenset(finding.rule for finding in small.findings)
    assert asked == [first | {"KI022"}, first]


# --------------------------------------------------------------------------- the real thing


@pytest.mark.slow
async def test_spills_are_cured_from_the_findings_to_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINSPECT_CACHE_DIR", str(tmp_path / "cache"))
    script = tmp_path / "spilling.py"
    script.write_text((DATA / "spilling_kernels.py").read_text("utf-8"), "utf-8")
    run = Request(
        (str(script),), ("gfx1100",), kernel="tile_of_256", python=sys.executable, passes=False
    )
    (kernel,) = pipeline.collect(run).kernels
    assert any("spill" in finding.message for finding in kernel.findings)
    app = KinspectApp(Opening(run, "findings", remember=False))
    async with app.run_test(size=(120, 40)) as pilot:

        async def wait(true: Callable[[], object]) -> None:
            for _ in range(6000):
                if true():
                    await pilot.pause()
                    return
                await pilot.pause(0.02)
            raise AssertionError(text_of(app))

        await wait(lambda: not app.session.progress.running)
        await pilot.pause(0.3)
        await pilot.press("n", "T")
        await wait(lambda: "changes tried" in text_of(app))
        screen = app.screen
        assert isinstance(screen, TrialsScreen)
        rows = screen._rows
        cured = next(number for number, row in enumerate(rows) if row.cures)
        screen.query_one(Table).move_to(cured)
        await pilot.press("enter")
        await wait(lambda: isinstance(app.screen, ComparePage))
        (new,) = [entry for entry in app.session.entries.values() if entry.tried]
        spills = new.report.metrics["vgpr_spill_count"].value
        assert spills == rows[cured].trial.metrics["vgpr_spill_count"]


@needs_clang
async def test_trials_of_a_hip_source_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINSPECT_CACHE_DIR", str(tmp_path / "cache"))
    source = DATA.parent.parent / "docs" / "examples" / "row_sums.hip"
    app = KinspectApp(Opening(request_for([source]), "findings", remember=False))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.session.entries and not app.session.progress.running)
        screen = await trials_on(pilot, "n", "T")
        await until(pilot, lambda: "3 changes tried" in text_of(app))
        names = [trials_view.changes_text(row.change) for row in screen._rows]
        screen.query_one(Table).move_to(names.index("THREADS=512"))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ComparePage))
        (new,) = [entry for entry in app.session.entries.values() if entry.tried]
        assert new.tried == "THREADS=512"
        assert new.report.metrics["workgroup_size"].value == 512


async def test_a_finding_promises_nothing_once_no_change_helped(
    opened: Make, report: Report, compiled: KernelReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = compiled.findings
    saving = replace(first, saves_percent=83.5)
    kernel = replace(compiled, findings=(saving, *others))
    slower = time_change(41, 58)
    useless = Trial(change("num_warps", 8), False, {}, {}, launches=True, time=slower)
    told = replace(saving, trials=(useless,), fix_is_trials=True)
    fake = Child(("findings", (told, *others)))
    monkeypatch.setattr("kinspect.tui.screens.trials.MessagingChild", lambda *work: fake)
    async with opened(of=replace(report, kernels=(kernel,))) as pilot:
        pilot.app.open_kernel(kernel.id)  # type: ignore[attr-defined]
        page = pilot.app.screen
        assert isinstance(page, KernelPage)
        await until(pilot, lambda: page.settled)
        assert "-84 %" in text_of(pilot.app)
        await trials_on(pilot, "T")
        fake.steps.release(2)
        await until(pilot, lambda: "nothing was tried" in text_of(pilot.app))
        await pilot.press("escape")
        await until(pilot, lambda: page.settled)
        assert "-84 %" not in text_of(pilot.app)
        assert "tried, not faster: num_warps 2 → 8 (58 µs)" in text_of(pilot.app)


def test_worse_figures_are_not_in_the_colour_of_better_ones() -> None:
    diff = {"vgpr_spill_count": (0, 9), "occupancy.waves_per_eu": (1, 2), "vgpr_count": (8, 9)}
    slower = Trial(change("num_warps", 8), None, {}, diff, time=time_change(41, 58))
    styles = [_style(name, slower) for name in ("time.us", *diff, "lds_bytes")]
    assert styles == ["worse", "worse", "better", "other", ""]
