"""The process that runs the pipeline for the UI: what it brings, and that it ends when told."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kinspect.inspector.capture.options import CaptureOptions
from kinspect.inspector.model import Metric
from kinspect.inspector.pipeline import collecting as pipeline
from kinspect.inspector.pipeline.events import Captured, Compiled, Event, Failed, Reported
from kinspect.inspector.pipeline.jobs import Request
from kinspect.tui import child_process
from kinspect.tui.feed import Feed, RunEnded
from tui_kernels import descendants

DATA = Path(__file__).parent.parent / "data"
PATIENCE = 60.0


def until(
    true: Callable[[], object], message: str | Callable[[], str], seconds: float = PATIENCE
) -> None:
    """Waits until something holds; a message that is called says what holds at the end."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, message if isinstance(message, str) else message()
        time.sleep(0.02)


def all_of(feed: Feed) -> list[Event]:
    """Everything that a feed brings, to its end."""
    events: list[Event] = []
    ended: list[RunEnded] = []

    def over() -> bool:
        for event in feed.new_events():
            if isinstance(event, RunEnded):
                ended.append(event)
            else:
                events.append(event)
        return bool(ended)

    until(over, "the run does not end")
    return events


def alive(pids: set[int]) -> set[int]:
    """Those of the processes that still run; zombies do not."""
    return {pid for pid in pids if descendants(pid)}


def test_it_brings_what_the_pipeline_says() -> None:
    request = Request((str(DATA / "small_gfx942.s"), str(DATA / "isa" / "handwritten.gfx90a.s")))
    feed = Feed(request)
    feed.start()
    events = all_of(feed)
    wanted = pipeline.collect(request)
    assert [e.report for e in events if isinstance(e, Reported)] == list(wanted.kernels)
    assert [type(e) for e in events] == [Reported, Reported]


def test_kernels_share_their_strings_and_empty_figures() -> None:
    """Of 2,000 kernels, names, units and notes took half of the memory."""
    feed = Feed(Request((str(DATA / "small_gfx942.s"), str(DATA / "isa" / "handwritten.gfx90a.s"))))
    feed.start()
    first, second = (e.report.metrics for e in all_of(feed) if isinstance(e, Reported))
    names = {name: name for name in first}
    assert all(names.get(name, name) is name for name in second)
    empty = [n for n, m in first.items() if not m.value and second.get(n) == m]
    assert len(empty) > 9
    assert all(second[name] is first[name] for name in empty)


def test_empty_figures_keep_their_types() -> None:
    values = (0, False, 0.0, None, "", {}, {"a": 0}, 1, 0, False, 0.0, None, "", {}, {"a": 0}, 1)
    metrics = [Metric("count", value, "", "derived") for value in values]
    stream, sent, received = io.BytesIO(), child_process.Sent(), child_process.Received()
    for metric in metrics:
        child_process.MessagePickler(stream, sent).dump(metric)
    stream.seek(0)
    read = [child_process.MessageUnpickler(stream, received).load() for _ in metrics]
    assert read == metrics
    assert [type(metric.value) for metric in read] == [type(value) for value in values]


def test_a_wrong_request_is_a_failure_and_an_end() -> None:
    feed = Feed(Request(("no/such/file.py",)))
    feed.start()
    (event,) = all_of(feed)
    assert isinstance(event, Failed)
    assert event.error.message == "no/such/file.py: no such file"
    assert event.error.hint.startswith("check the path")


def test_a_process_that_dies_is_said() -> None:
    feed = Feed(Request((str(DATA / "isa"),), jobs=1))
    feed.start()
    until(lambda: feed.pid is not None, "it is not started")
    assert feed.pid is not None
    os.kill(feed.pid, signal.SIGKILL)
    last = all_of(feed)[-1]
    assert isinstance(last, Failed)
    assert last.error.message.startswith("the process that analyses was killed by signal 9")


def test_stopping_ends_all_that_read(tmp_path: Path) -> None:
    """Many large files are read by forks; none of them is left, and nobody waits for them."""
    source = DATA / "isa" / "attend.triton39.gfx950.amdgcn"
    for n in range(60):
        shutil.copyfile(source, tmp_path / f"kernel_{n}.s")
    feed = Feed(Request((str(tmp_path),), jobs=2))
    feed.start()
    first: list[object] = []
    until(lambda: first.extend(feed.new_events(1)) or first, "nothing comes")
    assert feed.pid is not None
    until(lambda: len(descendants(feed.pid or 0)) == 3, "two processes do not read")
    started = descendants(feed.pid)
    begun = time.monotonic()
    feed.stop()
    took = time.monotonic() - begun
    assert took < 3, f"stopping took {took:.1f} s"
    until(lambda: not alive(started), lambda: f"still there: {alive(started)}")


def test_stopping_before_it_has_begun() -> None:
    feed = Feed(Request((str(DATA / "small_gfx942.s"),)))
    feed.stop(0)
    feed.start()
    assert all_of(feed) == []
    assert feed.pid is None


SLEEPER = """
import os, time
open(os.environ["SLEEPER_PID"], "w").write(str(os.getpid()))
import triton
time.sleep(600)
"""


@pytest.fixture
def sleeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Request:
    """A script that is captured for minutes."""
    script = tmp_path / "sleeper.py"
    script.write_text(SLEEPER)
    monkeypatch.setenv("SLEEPER_PID", str(tmp_path / "pid"))
    monkeypatch.setenv("KINSPECT_CACHE_DIR", str(tmp_path / "cache"))
    return Request((str(script),), python=sys.executable, capture=CaptureOptions())


@pytest.mark.slow
def test_stopping_ends_a_script_that_is_captured(sleeper: Request, tmp_path: Path) -> None:
    feed = Feed(sleeper)
    feed.start()
    until((tmp_path / "pid").is_file, "the script is not run")
    assert feed.pid is not None
    started = descendants(feed.pid)
    assert len(started) > 2  # ours, guests, the script
    begun = time.monotonic()
    feed.stop()
    took = time.monotonic() - begun
    assert took < 6, f"stopping took {took:.1f} s"
    until(lambda: not alive(started), lambda: f"still there: {alive(started)}")


@pytest.mark.slow
def test_nothing_is_left_of_a_ui_that_is_killed(sleeper: Request, tmp_path: Path) -> None:
    code = (
        "import time\n"
        "from kinspect.tui.feed import Feed\n"
        "from kinspect.inspector.pipeline.jobs import Request\n"
        f"Feed(Request({sleeper.targets!r})).start()\n"
        "time.sleep(600)\n"
    )
    ui = subprocess.Popen([sys.executable, "-c", code])
    until((tmp_path / "pid").is_file, "the script is not run")
    started = descendants(ui.pid)
    assert len(started) > 3
    ui.kill()
    ui.wait()
    until(lambda: not alive(started), lambda: f"still there: {alive(started)}", 15)


LONG = """
import triton
import triton.language as tl

@triton.jit
def long(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at[:, None] * BLOCK + at[None, :])
    b = tl.load(y + at[:, None] * BLOCK + at[None, :])
    for step in tl.static_range(60):
        a = tl.dot(a, b).to(tl.float16)
        b = tl.dot(b, a).to(tl.float16)
    tl.store(y + at[:, None] * BLOCK + at[None, :], a)

KINSPECT_CASES = [
    {
        "name": "long",
        "kernel": "long",
        "signature": {"x": "*fp16:16", "y": "*fp16:16", "n": "i32"},
        "constexprs": {"BLOCK": 128},
    }
]
"""


@pytest.mark.slow
def test_stopping_ends_a_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "long.py"
    script.write_text(LONG)
    monkeypatch.setenv("KINSPECT_CACHE_DIR", str(tmp_path / "cache"))
    feed = Feed(Request((str(script),), python=sys.executable))
    feed.start()
    events: list[object] = []

    def captured() -> bool:
        events.extend(feed.new_events())
        return any(isinstance(event, Captured) for event in events)

    until(captured, "it is not captured")
    assert not any(isinstance(event, Compiled) for event in events)
    assert feed.pid is not None
    started = descendants(feed.pid)
    begun = time.monotonic()
    feed.stop()
    took = time.monotonic() - begun
    assert took < 6, f"stopping took {took:.1f} s"
    until(lambda: not alive(started), lambda: f"still there: {alive(started)}")
