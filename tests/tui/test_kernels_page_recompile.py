"""Recompiling in place: the form, what can be changed, and the real thing."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.base import named_files
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.compile.hip.options import HipOptions
from kinspect.inspector.model import KernelReport, Report, SourceLoc
from kinspect.inspector.pipeline import collecting as pipeline
from kinspect.inspector.pipeline.jobs import Request, request_for, timing
from kinspect.tui.app import KinspectApp
from kinspect.tui.application import Opening
from kinspect.tui.child_process import MessagingChild
from kinspect.tui.recompiling import (
    KernelSetting,
    changes,
    compiler_for,
    recompiled,
    settings_of_kernel,
)
from kinspect.tui.screens.compare.compare_page import ComparePage
from kinspect.tui.screens.kernel.kernel_page import KernelPage
from kinspect.tui.screens.kernels.kernels_page import KernelsPage
from kinspect.tui.screens.occupancy.occupancy_page import OccupancyPage
from kinspect.tui.screens.recompile import RECOMPILE, RecompileScreen
from kinspect.tui.widgets.table import Table
from msgspec.structs import replace
from test_hip_sources import needs_clang
from textual.pilot import Pilot
from textual.widgets import Input
from tui_kernels import descendants, tuned, waves
from tui_screens import text_of, until

Make = Callable[..., AbstractAsyncContextManager[Pilot[Any]]]
RUN = Request(())


@pytest.fixture
def compiled(report: Report) -> KernelReport:
    """A kernel with its TTIR (not one that would compile)."""
    small = next(kernel for kernel in report.kernels if kernel.name == "small")
    kernel = tuned(small, {"BM": 64, "num_warps": 4}, waves(8, 64))
    assert kernel.variant is not None
    constexprs = {"BM": 64, "EVEN": True, "ACT": "relu", "BIAS": None}
    return replace(kernel, variant=replace(kernel.variant, ttir="module {}", constexprs=constexprs))


def test_settings_are_options_and_constexprs(compiled: KernelReport) -> None:
    assert settings_of_kernel(compiled, RUN) == [
        KernelSetting("num_warps", 4, "option"),
        KernelSetting("num_stages", None, "option"),
        KernelSetting("waves_per_eu", 0, "option"),
        KernelSetting("matrix_instr_nonkdim", 0, "option"),
        KernelSetting("BM", 64, "constexpr"),
        KernelSetting("EVEN", True, "constexpr"),
        KernelSetting("ACT", "relu", "constexpr"),
    ]


def test_an_option_that_is_a_parameter_is_a_constexpr(compiled: KernelReport) -> None:
    assert compiled.variant is not None
    signature = {**compiled.variant.signature, "num_warps": "constexpr"}
    constexprs = {"num_warps": 4}
    variant = replace(compiled.variant, signature=signature, constexprs=constexprs)
    settings = settings_of_kernel(replace(compiled, variant=variant), RUN)
    assert [one for one in settings if one.name == "num_warps"] == [
        KernelSetting("num_warps", 4, "constexpr")
    ]


def test_what_was_only_read_has_nothing_to_change(report: Report) -> None:
    with pytest.raises(KinspectError, match="it was read and not compiled here"):
        settings_of_kernel(report.kernels[0], RUN)


def test_changes_are_what_differs(compiled: KernelReport) -> None:
    settings = settings_of_kernel(compiled, RUN)
    typed = {one.name: "" if one.value is None else str(one.value) for one in settings}
    assert changes(settings, typed) == {}
    typed |= {"num_warps": " 8 ", "BM": "0x80", "EVEN": "false", "ACT": "7", "num_stages": "1"}
    assert changes(settings, typed) == {
        "num_warps": 8,
        "num_stages": 1,
        "BM": 128,
        "EVEN": False,
        "ACT": "7",  # what is a text stays one
    }
    assert changes(settings, {"BM": ""}) == {}  # nothing typed changes nothing
    with pytest.raises(KinspectError, match="BM: one value, not 2"):
        changes(settings, {"BM": "1,2"})


async def form(opened: Make, pilot: Pilot[Any]) -> RecompileScreen:
    await pilot.press("r")
    await pilot.pause()
    screen = pilot.app.screen
    assert isinstance(screen, RecompileScreen)
    return screen


async def test_the_form(opened: Make, report: Report, compiled: KernelReport) -> None:
    async with opened(size=(80, 24), of=replace(report, kernels=(compiled,))) as pilot:
        screen = await form(opened, pilot)
        text = text_of(pilot.app)
        assert "Recompile matmul for gfx942" in text
        assert "constexprs: the file is captured again" in text
        assert "BIAS" not in text
        fields = list(screen.query(Input))
        assert pilot.app.focused is fields[0]
        await pilot.press("8")  # what is there is selected, so it is typed over
        assert fields[0].value == "8"
        assert "was 4" in text_of(pilot.app)
        await pilot.press("down")
        assert pilot.app.focused is fields[1]
        await pilot.press("up")
        assert pilot.app.focused is fields[0]
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, KernelsPage)
        assert len(pilot.app.session.entries) == 1


async def test_the_form_says_what_is_wrong(
    opened: Make, report: Report, compiled: KernelReport
) -> None:
    async with opened(of=replace(report, kernels=(compiled,))) as pilot:
        pilot.app.session.request = Request(("gemm.py",), python="/no/such/python")
        screen = await form(opened, pilot)
        await pilot.press("enter")
        assert "nothing is changed" in text_of(pilot.app)
        await pilot.press("8", "comma", "9", "enter")
        assert "num_warps: one value, not 2" in text_of(pilot.app)
        await pilot.press("backspace", "backspace", "enter")
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
        assert "the interpreter /no/such/python cannot be started" in text_of(pilot.app)
        assert pilot.app.screen is screen  # another value can be tried


async def test_nothing_is_compiled_or_analysed_in_the_uis_process(
    opened: Make, report: Report, compiled: KernelReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(*args: object) -> None:
        raise AssertionError("in the process of the UI")

    monkeypatch.setattr("kinspect.tui.recompiling.recompiled", here)
    monkeypatch.setattr("kinspect.tui.recompiling.compiler_for", here)
    async with opened(of=replace(report, kernels=(compiled,))) as pilot:
        pilot.app.session.request = Request(("gemm.py",), python="/no/such/python")
        await form(opened, pilot)
        await pilot.press("8", "enter")
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
        assert "the interpreter /no/such/python cannot be started" in text_of(pilot.app)


@pytest.mark.parametrize(
    ("name", "typed", "wanted"),
    [
        ("num_warps", "abc", "num_warps: a whole number from 0 on, not abc"),
        ("waves_per_eu", "-1", "waves_per_eu: a whole number from 0 on, not -1"),
        ("num_stages", "1.5", "num_stages: a whole number from 0 on, not 1.5"),
        ("BM", "wide", "BM: a number, not wide"),
        ("EVEN", "maybe", "EVEN: true or false, not maybe"),
    ],
)
def test_what_cannot_be_a_value_is_refused_in_a_line(
    compiled: KernelReport, name: str, typed: str, wanted: str
) -> None:
    with pytest.raises(KinspectError) as caught:
        changes(settings_of_kernel(compiled, RUN), {name: typed})
    assert caught.value.message == wanted


def test_arguments_that_are_constant_because_they_are_1_are_not_offered(
    compiled: KernelReport, tmp_path: Path
) -> None:
    source = tmp_path / "kernel.py"
    kernel = replace(
        compiled,
        source=SourceLoc(str(source), 1, 0),
        variant=replace(compiled.variant, constexprs={"stride": 1, "SPLIT": 1, "BM": 64}),
    )

    def offered() -> list[str]:
        return [one.name for one in settings_of_kernel(kernel, RUN) if one.kind == "constexpr"]

    named_files.allow(tmp_path)
    assert offered() == ["stride", "SPLIT", "BM"]  # there is no source to read
    assert kernel.variant is not None
    source.write_text(
        f"def {kernel.variant.kernel}(x, stride, SPLIT: tl.constexpr, BM: tl.constexpr): pass"
    )
    assert offered() == ["SPLIT", "BM"]


async def test_no_field_takes_keys_while_it_compiles(
    opened: Make, report: Report, compiled: KernelReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def run(self: MessagingChild, on_stage: Callable[[str], object]) -> KernelReport:
        go_on.wait(20)
        raise KinspectError("it does not compile")

    monkeypatch.setattr(MessagingChild, "run", run)
    async with opened(of=replace(report, kernels=(compiled,))) as pilot:
        screen = await form(opened, pilot)
        field = screen.query(Input).first()
        await pilot.press("8", "enter", "5", "down", "5")
        assert field.value == "8"
        assert all(each.disabled for each in screen.query(Input))
        go_on.set()
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
        assert "it does not compile" in text_of(pilot.app)
        assert pilot.app.focused is field
        await pilot.press("end", "5")
        assert field.value == "85"


def test_a_recompile_that_is_stopped_or_killed_says_so(
    compiled: KernelReport, tmp_path: Path
) -> None:
    endless = tmp_path / "python"
    endless.write_text("#!/bin/sh\nexec sleep 600\n")
    endless.chmod(0o755)
    request = Request(("gemm.py",), python=str(endless))
    early = MessagingChild(RECOMPILE, (compiled, {"num_warps": 8}, request))
    early.stop()
    with pytest.raises(KinspectError, match="cancelled"):
        early.run(lambda what: None)

    def ended(end: Callable[[MessagingChild, int], object]) -> str:
        work = MessagingChild(RECOMPILE, (compiled, {"num_warps": 8}, request))
        failed: list[KinspectError] = []

        def run() -> None:
            try:
                work.run(lambda what: None)
            except KinspectError as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        limit = time.monotonic() + 20
        while not (children := descendants(os.getpid()) - {os.getpid()} - before):
            assert time.monotonic() < limit
            time.sleep(0.02)
        end(work, min(children))
        thread.join(20)
        assert not thread.is_alive()
        assert descendants(os.getpid()) - {os.getpid()} <= before
        (error,) = failed
        return error.message

    before = descendants(os.getpid())
    assert ended(lambda work, pid: work.stop()) == "cancelled"
    assert "killed by signal 9" in ended(lambda work, pid: os.kill(pid, signal.SIGKILL))


# --------------------------------------------------------------------------- the real thing

SCRIPT = """
import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((256, 4), (512, 8))], ["n"])
@triton.jit
def scale(x, y, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) * FACTOR, at < n)


x = torch.empty(4096, device="cuda")
scale[(8,)](x, x, 4096, FACTOR=2)
"""


def test_a_file_that_only_a_saved_report_names_is_not_run(
    compiled: KernelReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.py").write_text("open('canary', 'w')\n" + SCRIPT)
    saved = replace(compiled, id="k.py::small@gfx942")
    request = Request(("saved.kinspect",), python=sys.executable, passes=False)
    with (
        compiler_for(request) as compiler,
        pytest.raises(KinspectError, match=r"k\.py: not run again, since it is no target here"),
    ):
        recompiled(saved, {"BM": 128}, request, compiler, lambda step: None)
    assert not (tmp_path / "canary").exists()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Request:
    script = tmp_path / "scale.py"
    script.write_text(SCRIPT)
    monkeypatch.setenv("KINSPECT_CACHE_DIR", str(tmp_path / "cache"))
    return Request((str(script),), python=sys.executable, passes=False)


@pytest.mark.slow
def test_options_and_constexprs_of_a_tuned_kernel(run: Request) -> None:
    kernels = pipeline.collect(run).kernels
    told: list[str] = []
    kernel = next(
        k for k in kernels if k.variant is not None and k.variant.constexprs["BLOCK"] == 512
    )
    assert kernel.variant is not None
    with compiler_for(run) as compiler:
        new = recompiled(kernel, {"num_warps": 2}, run, compiler, told.append)
        assert new.variant is not None
        assert new.metrics["waves_per_workgroup"].value == 2
        assert new.variant.ttir == kernel.variant.ttir
        assert told == ["compiling"]
        new = recompiled(kernel, {"BLOCK": 2048}, run, compiler, told.append)
        assert new.variant is not None
        assert dict(new.variant.constexprs) == {"FACTOR": 2, "BLOCK": 2048}
        assert new.metrics["waves_per_workgroup"].value == 8  # what it was tuned with stays
        assert told[1:] == ["capturing", "compiling"]
        # The other constexpr: the configuration that it was tuned with stays.
        new = recompiled(kernel, {"FACTOR": 3}, run, compiler, told.append)
        assert new.variant is not None
        assert dict(new.variant.constexprs) == {"FACTOR": 3, "BLOCK": 512}
        with pytest.raises(KinspectError, match="power of 2"):
            recompiled(kernel, {"BLOCK": 100}, run, compiler, told.append)
        with pytest.raises(KinspectError, match="did you mean waves_per_eu"):
            recompiled(kernel, {"waves_per_ue": 2}, run, compiler, told.append)


@pytest.mark.slow
async def test_a_run_and_a_recompile_in_the_ui(run: Request) -> None:
    app = KinspectApp(Opening(run, "kernels", remember=False))
    async with app.run_test(size=(120, 40)) as pilot:
        seen: set[str] = set()

        async def until(true: Callable[[], object]) -> None:
            for _ in range(3000):
                if true():
                    return
                seen.update(line.strip().partition("  ")[0] for line in text_of(app).splitlines())
                await pilot.pause(0.02)
            raise AssertionError(text_of(app))

        await until(lambda: not app.session.progress.running)
        await pilot.pause(0.3)
        assert any(line.startswith("capturing …") for line in seen)
        page = app.screen
        assert isinstance(page, KernelsPage)
        labels = {node.label for node in page.listing.rows}
        assert labels == {"scale", "BLOCK=256 4w", "BLOCK=512 8w"}
        table = page.query_one(Table)
        table.move_to(1)
        await pilot.press("r", "2", "enter")
        await until(lambda: isinstance(app.screen, ComparePage))
        (new,) = [entry for entry in app.session.entries.values() if entry.tried]
        assert new.tried == "num_warps=2"
        old = next(e for e in app.session.ordered() if e.case in new.case and not e.tried)
        assert old.report.variant is not None
        assert new.report.variant is not None
        assert new.report.variant.options == {**old.report.variant.options, "num_warps": 2}
        await until(lambda: "num_warps" in text_of(app))
        await pilot.press("q")
        await until(lambda: app.screen is page and page.listing.rows[0].count == 3)


ENDLESS = """
import time
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x, n, FACTOR: tl.constexpr):
    at = tl.arange(0, 256)
    tl.store(x + at, tl.load(x + at) * FACTOR, at < n)


scale[(1,)](torch.empty(256, device="cuda"), 256, FACTOR=2)
if open(__file__ + ".wait").read():
    time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("key", ["escape", "ctrl+q"])
async def test_what_is_given_up_is_ended(run: Request, key: str) -> None:
    """The form is closed, or the application, while the file is captured."""
    script = Path(run.targets[0])
    script.write_text(ENDLESS)
    wait = script.with_name(script.name + ".wait")
    wait.write_text("")
    others = descendants(os.getpid())  # of tests before
    app = KinspectApp(Opening(run, "kernels", remember=False))
    async with app.run_test(size=(120, 40)) as pilot:

        async def until(true: Callable[[], object]) -> None:
            for _ in range(3000):
                if true():
                    return
                await pilot.pause(0.02)
            raise AssertionError(text_of(app))

        await until(lambda: app.session.entries and not app.session.progress.running)
        await until(lambda: descendants(os.getpid()) <= others)
        wait.write_text("yes")
        await pilot.press("r", "down", "down", "down", "down", "3", "enter")
        await until(lambda: "capturing" in text_of(app))
        await until(lambda: len(descendants(os.getpid()) - others) > 1)
        started = time.monotonic()
        await pilot.press(key)
        if key == "escape":
            assert isinstance(app.screen, KernelsPage)
        else:
            await until(lambda: "a recompile is running" in text_of(app))
            await pilot.press(key)
    assert time.monotonic() - started < 10
    end = time.monotonic() + 10
    while left := descendants(os.getpid()) - others:
        assert time.monotonic() < end, left
        time.sleep(0.05)


HIP = """
#include <hip/hip_runtime.h>
#ifndef THREADS
#define THREADS 256
#endif
#if THREADS % 64
#error "whole waves alone"
#endif
#define FIXED 4
// KINSPECT_LAUNCH scale<1> grid=65536/THREADS workgroup=THREADS args="f32[65536], f32 2"
// KINSPECT_LAUNCH scale grid=65536/THREADS/TIMES workgroup=THREADS args="f32[65536], f32 2"
template <int TIMES>
__global__ void scale(float* x, float by) {
  for (int i = 0; i < TIMES; ++i) x[(blockIdx.x * TIMES + i) * THREADS + threadIdx.x] *= by;
}
"""


@needs_clang
async def test_kernels_of_hip_sources_are_recompiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINSPECT_CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "scale.hip"
    source.write_text(HIP)
    run = request_for([source], analysis=timing())
    app = KinspectApp(Opening(run, "kernels", remember=False))
    async with app.run_test(size=(120, 40)) as pilot:

        async def filled(**typed: str) -> None:
            """Opens the form, types values and submits it."""
            await pilot.press("r")
            await until(pilot, lambda: isinstance(app.screen, RecompileScreen))
            for field in app.screen.query(Input):
                field.value = typed.get(field.name or "", field.value)
            await pilot.press("enter")

        async def refused(message: str, **typed: str) -> None:
            await filled(**typed)
            await until(pilot, lambda: message in text_of(app))
            await pilot.press("escape")

        await until(pilot, lambda: app.session.entries and not app.session.progress.running)
        (first,) = app.session.entries.values()
        assert settings_of_kernel(first.report, run) == [
            KernelSetting("__launch_bounds__", None, "option"),
            KernelSetting("amdgpu_waves_per_eu", None, "option"),
            KernelSetting("THREADS", 256, "macro"),
            KernelSetting("TIMES", 1, "macro"),
        ]
        with pytest.raises(KinspectError, match=r"saved\.hip: .* it is no target here"):
            settings_of_kernel(replace(first.report, id="saved.hip::scale@gfx942"), run)
        await refused("THREADS: a number, not many", THREADS="many")
        await refused("whole waves alone", THREADS="100")
        app.session.request = replace(run, hip=HipOptions(compiler="/no/such/clang"))
        await refused("/no/such/clang", THREADS="64")
        app.session.request = run
        await filled(THREADS="64")
        await until(pilot, lambda: isinstance(app.screen, ComparePage))
        (_, second) = app.session.entries.values()
        assert second.tried == "THREADS=64"
        metrics = second.report.metrics
        assert metrics["workgroup_size"].value == 64
        assert metrics["grid.workgroups"].value == 1024
        assert metrics["time.us"].value is not None
        app.push_screen(occupancy := OccupancyPage(second.key))
        await until(pilot, lambda: app.screen is occupancy)
        await pilot.press("o")  # its code, though the first kernel has the same id
        await until(pilot, lambda: isinstance(app.screen, KernelPage))
        assert app.last_kernel == second.key != first.key
        await pilot.press("1", "down", "down")  # what was changed stays as it is further changed
        await filled(amdgpu_waves_per_eu="4", __launch_bounds__="64", TIMES="2")
        await until(pilot, lambda: len(app.session.entries) == 3)
        third = list(app.session.entries.values())[-1]
        assert third.request is not None
        assert [setting.value for setting in settings_of_kernel(third.report, third.request)] == [
            64, 4, 64, 2,
        ]  # fmt: skip
        assert third.report.name == "scale<2>"
        assert third.report.metrics["grid.workgroups"].value == 512
        assert third.report.artifacts["amdgcn"] != second.report.artifacts["amdgcn"]
