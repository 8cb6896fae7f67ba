"""The bounds on what a file may take, and documents within them."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from kinspect.inspector.base import interrupting, limits
from kinspect.inspector.base.documents import json_value, toml_value, yaml_loader, yaml_value
from kinspect.inspector.base.errors import KinspectError, unforeseen
from kinspect.inspector.base.limits import LimitError
from kinspect.inspector.lint import engine
from kinspect.inspector.lint.engine import judge
from kinspect.inspector.pipeline import analysis
from kinspect.inspector.pipeline.analysis_options import Context
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

ROOT = Path(__file__).parents[1]


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(limits.SECONDS_VARIABLE, "0.3")


def _endless() -> Iterator[int]:
    yield 1
    while True:
        with contextlib.suppress(Exception):  # nothing on the way may keep the end of time
            sum(range(1000))


def _in_an_expression() -> Iterator[int]:
    yield 1
    re.match(r"(a+)+b", "a" * 60)


@pytest.mark.usefixtures("hurry")
@pytest.mark.parametrize("steps", [_endless, _in_an_expression])
def test_time_ends_what_works_on(steps: Any) -> None:
    found = limits.within("f.s", 10, steps())
    assert next(found) == 1
    with pytest.raises(LimitError, match=r"f\.s: reading it takes more than 0 s"):
        next(found)
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


@pytest.mark.usefixtures("hurry")
def test_time_ends_what_works_in_a_thread() -> None:
    caught: list[BaseException] = []

    def run() -> None:
        try:
            list(limits.within("f.s", 10, _endless()))
        except LimitError as error:
            caught.append(error)

    before = set(threading.enumerate())
    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert "takes more than" in str(caught[0])
    assert set(threading.enumerate()) <= before


@pytest.mark.usefixtures("hurry")
def test_the_callers_own_time_and_sleep_do_not_count() -> None:
    for _ in limits.within("f.s", 10, range(3)):
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
    with limits.reading("f.s", 10):
        time.sleep(0.6)


def _waiting() -> Iterator[int]:
    yield 1
    read_end, _ = os.pipe()
    os.read(read_end, 1)


def _sleeping() -> Iterator[int]:
    yield 1
    while True:
        time.sleep(0.01)


@pytest.mark.usefixtures("hurry")
@pytest.mark.parametrize("steps", [_waiting, _sleeping])
def test_what_waits_ends_though_it_takes_no_processor_time(steps: Any) -> None:
    reading = limits.within("f.s", 10, steps())
    next(reading)
    timer = signal.getitimer(signal.ITIMER_REAL)  # pytest-timeout's
    with pytest.raises(LimitError, match=r"more than 0 s \(1 s where it waits\)"):
        next(reading)
    assert signal.getitimer(signal.ITIMER_REAL)[1] == timer[1]


@pytest.mark.usefixtures("hurry")
def test_a_timer_of_the_caller_goes_on_after_a_reading() -> None:
    previous = signal.signal(signal.SIGALRM, lambda number, frame: None)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1000, 7)
        with limits.reading("f.s", 10):
            pass
        assert signal.getitimer(signal.ITIMER_REAL)[1] == 7
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def test_memory_is_given_back_and_its_end_is_one_line() -> None:
    # In a process of its own: what else the worker ran may have left threads, beside which no
    # memory is bounded, or free what makes room.
    script = """
import resource
from kinspect.inspector.base import interrupting, limits

before = resource.getrlimit(resource.RLIMIT_DATA)
try:
    with limits.reading("f.s", 10):
        bytearray(limits.BASE_MEMORY + (1 << 28))
except limits.LimitError as error:
    print(error)
assert resource.getrlimit(resource.RLIMIT_DATA) == before
with limits.reading("f.s", 1 << 30):  # a large file may take more
    bytearray(limits.BASE_MEMORY + (1 << 28))
"""
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert re.fullmatch(r"f\.s: reading it takes more than \d+ MiB of memory; .+\n", run.stdout)


def test_bounds_grow_with_the_file() -> None:
    small, large = limits.BoundedReading("a", 1 << 20), limits.BoundedReading("a", 100 << 20)
    assert large.seconds > small.seconds + 80
    assert large.memory > 5 * small.memory
    assert large.inflated.remaining > 10 * small.inflated.remaining


def test_one_budget_for_all_that_a_target_holds() -> None:
    with limits.reading("f.co", 100):
        limits.budget("f.co", 100).take(100 << 20)
        with pytest.raises(LimitError, match="inflates to far more"):
            limits.budget("f.co", 100).take(100 << 20)
    limits.budget("f.co", 100).take(100 << 20)  # another target


# --------------------------------------------------------------------------- documents


LAUGHS = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 10)}]\n" for n in range(9)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "f:1: YAML nested over 200 deep"),
        ("- " * 100_000 + "a", "f:1: YAML nested over 200 deep"),
        ("-\t" * 100_000 + "a", "f:1: "),
        ("? " * 100_000 + "a", "f:1: YAML nested over 200 deep"),
        ("\n".join(" " * n + "a:" for n in range(3000)), "f:201: YAML nested"),
        ("{a: " * 300 + "1" + "}" * 300, "nested over 200 deep"),
        (LAUGHS, "f:6: YAML whose aliases repeat without end"),
        ("&a [*a]", "aliases repeat without end"),
        ("a: " + "1" * 5000, "f:1: .*over 100 digits"),
        ("a: 0x" + "f" * 5000, "f:1: .*over 100 digits"),
        ("a: 2001-99-99", "month must be"),
        ("!!int ''", "not readable YAML"),
        ("!!bool x", "not readable YAML"),
        ("!!timestamp x", "not readable YAML"),
        ("!!python/object:os.system x", "f:1: not valid YAML"),
        ("[1, 2", "f:2: not valid YAML"),
        ("? [a]\n: b", "f:1: not valid YAML"),
    ],
    ids=str,
)
def test_hostile_yaml(text: str, message: str) -> None:
    began = time.process_time()
    with pytest.raises(KinspectError, match=message) as caught:
        yaml_value(text, "f", "mend it")
    assert caught.value.hint == "mend it"
    assert time.process_time() - began < 5


def test_sexagesimal_yaml_is_text() -> None:
    text = "1" + ":1" * 100_000
    assert yaml_value(f"a: {text}\nb: 1:30\nc: 190:20:30.15", "f") == {
        "a": text,
        "b": "1:30",
        "c": "190:20:30.15",
    }


@pytest.mark.parametrize("path", sorted(ROOT.glob("inspector/**/*.yaml")), ids=lambda p: p.name)
def test_other_yaml_is_as_pyyaml_has_it(path: Path) -> None:
    text = path.read_text("utf-8")
    assert yaml_value(text, path.name) == yaml.safe_load(text)


def test_scalars_are_as_pyyaml_has_them() -> None:
    texts = "0x1F 017 1_000 1.5e3 1.5e+3 1e3 -.inf 0b11 2001-01-01 0 -0 +1 08 0. 1. .5 ~ yes"
    for text in texts.split():
        assert repr(yaml.load(text, Loader=yaml_loader())) == repr(yaml.safe_load(text)), text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a." * 100_000 + "a=1", "f:1: .*a key of over 100 parts"),
        ("\n[" + "a." * 100_000 + "a]", "f:2: .*a key of over 100 parts"),
        ("x = {" + '"a" . ' * 1000 + "a=1}", "f:1: .*a key of over 100 parts"),
        ("a=" + "[" * 100_000, "nested too deeply"),
        ("a=" + "1" * 5000, "a number of thousands of digits"),
        ("a = [{b = 0x" + "F" * 5000 + "}]", "a number of over 64 bits"),
        ("a=", "not valid TOML"),
    ],
    ids=lambda text: text[:20],
)
def test_hostile_toml(text: str, message: str) -> None:
    with pytest.raises(KinspectError, match=message):
        toml_value(text, "f")


def test_prose_in_toml_is_no_key() -> None:
    prose = "Why not. It is so. " * 500
    assert toml_value(f'a = "{prose}"\nb = """\n{prose}"""\n', "f") == {"a": prose, "b": prose}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("1" * 5000, "a number of thousands of digits"),
        (b"\xff", "not valid JSON"),
        ("{", "not valid JSON"),
    ],
    ids=lambda text: str(text)[:20],
)
def test_hostile_json(text: str | bytes, message: str) -> None:
    with pytest.raises(KinspectError, match=message):
        json_value(text, "f")


def test_an_unforeseen_error_says_where() -> None:
    try:
        yaml_loader().nothing()
    except AttributeError as error:
        said = unforeseen(error)
    assert said.message.startswith("internal error of kinspect: AttributeError: ")
    assert "(tests/test_limits.py:" in said.message
    assert "\n" not in said.message


# --------------------------------------------------------------------------- fuzzing


def _fuzzed(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.fuzz", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_fuzz_driver_sees_what_it_is_to_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that crashes, hangs in C, raises and is well, by what the file says."""
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.fuzz import child, driver
    from benchmarks.fuzz.readers import FuzzedReader

    for module in (child, driver):
        monkeypatch.setattr(module, "MOST_SECONDS", 0.5)
    monkeypatch.setattr(child, "mutated", lambda files, rng, *rest: {"f": rng.choice(WAYS)})
    ways = (b"crash", b"hang", b"raise", b"refuse", b"read")
    monkeypatch.setitem(globals(), "WAYS", ways)

    def run(case: Path) -> str:
        way = (case / "f").read_bytes()
        if way == b"crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if way == b"hang":
            sum(range(10**10))  # in C: no signal is seen
        if way == b"raise":
            raise LookupError("on purpose")
        if way == b"refuse":
            raise KinspectError("no")
        return ""

    reader = FuzzedReader("made_up", run, lambda: [{"f": b"read"}], {"": "bytes"})
    # A way per child: what a case did to its child decides how the next begins.
    expected = {f"the process ended by signal {signal.SIGSEGV.value}", "over 0 s", "LookupError"}
    kinds: set[str] = set()
    refused = cases = 0
    for seed in range(1, 30):  # on a loaded machine a few children take all of a turn's time
        tally = driver.fuzz(reader, 2, seed, tmp_path / str(seed))
        kinds |= {what.split(" at ")[0] for what in tally.faults}
        refused, cases = refused + tally.refused, cases + tally.cases
        assert all(place.is_dir() for place in tally.kept.values())
        if kinds >= expected and cases > refused > 0:
            break
    assert kinds == expected
    assert cases > refused > 0


WAYS: tuple[bytes, ...] = ()


@pytest.mark.slow
def test_a_minute_of_fuzzing_every_reader(tmp_path: Path) -> None:
    print(_fuzzed("--minutes", "1", "--keep", str(tmp_path)))  # noqa: T201 - figures to quote


def _three_kernels(folder: Path) -> Path:
    body = (Path(__file__).parent / "data" / "small_gfx942.s").read_text()
    first, kernel = body.split("\t.text", 1)
    path = folder / "k.s"
    path.write_text(
        first + "".join("\t.text" + re.sub(r"\bsmall\b", f"k{n}", kernel) for n in "abc")
    )
    return path


def test_kernels_come_as_soon_as_they_are_analysed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, judged = _three_kernels(tmp_path), []

    def judge_one(pack: Any, report: Any, *arguments: Any) -> Any:
        judged.append(report.name)
        return judge(pack, report, *arguments)

    monkeypatch.setattr(engine, "judge", judge_one)
    reports = analysis.analyses_of_text(path.read_text(), Context(path=str(path)))
    assert [(next(reports).name, len(judged)) for _ in "abc"] == [("ka", 1), ("kb", 2), ("kc", 3)]


@pytest.mark.parametrize("share", ["ANALYSIS_SHARE", "JUDGED_SHARE"])
def test_all_at_once_stops_in_time_as_well(
    share: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _three_kernels(tmp_path)
    for name in ("ANALYSIS_SHARE", "JUDGED_SHARE"):
        monkeypatch.setattr(analysis, name, 0.0 if name == share else 1.0)

    def reading() -> Iterator[list[str]]:
        reports = analysis.analyze_text(path.read_text(), Context(path=str(path)))
        yield [report.name for report in reports]

    steps = limits.within(str(path), 1, reading())
    assert next(steps) == ["ka"]
    with pytest.raises(limits.LimitError, match="2 of 3 kernels were not reached"):
        next(steps)


def test_kernels_that_are_not_reached_are_counted_and_the_others_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of 10,000 kernels gave one error and no kernel."""
    path = _three_kernels(tmp_path)
    monkeypatch.setattr(analysis, "WORK_SHARE", 0.0)
    report = collect(Request((str(path),)))
    assert [kernel.name for kernel in report.kernels] == ["ka"]
    (record,) = report.errors
    assert "2 of 3 kernels were not reached in 18 s" in record.message


def test_a_block_that_ends_is_not_interrupted_again() -> None:
    """Else its timers go on, and end the process."""
    functions = (contextlib.contextmanager, _endless)
    frames = [SimpleNamespace(f_code=f.__code__, f_back=None) for f in functions]
    with interrupting.time_limit(60, 60):
        ring: Any = signal.getsignal(signal.SIGPROF)
        ring(signal.SIGPROF, frames[0])
        with pytest.raises(interrupting.TimeUp):
            ring(signal.SIGPROF, frames[1])
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


class _Lingering:
    def __del__(self) -> None:
        _spin(0.3)


def _spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def _spin_in_destructor() -> None:
    _Lingering()


def _spin_in_generator() -> None:
    def generator() -> Iterator[None]:
        try:
            yield
        finally:
            _spin(0.3)

    next(generator())


def _spin_in_collection() -> None:
    callback: Any = lambda phase, info: _spin(0.3)  # noqa: E731
    gc.callbacks.append(callback)
    gc.collect()
    gc.callbacks.remove(callback)


def _spin_in_weakref() -> None:
    """A dictionary that is walked keeps for later what died: in a callback of `weakref`."""
    key = _Plain()
    keys: Any = weakref.WeakKeyDictionary({key: 1})
    keys._iterating = {1}
    keys._pending_removals = SimpleNamespace(append=lambda _: _spin(0.3))
    del key


class _Plain:
    pass


@pytest.mark.parametrize(
    "spin_where_lost",
    [_spin_in_destructor, _spin_in_generator, _spin_in_collection, _spin_in_weakref],
)
def test_a_time_limit_waits_where_what_it_raises_would_be_lost(
    spin_where_lost: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def block() -> None:
        spin_where_lost()
        _spin(5)

    lost: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    with pytest.raises(interrupting.TimeUp), interrupting.time_limit(0.1, 60):
        block()
    assert not lost
