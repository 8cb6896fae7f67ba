"""Many saved targets: several processes read them, and a saved report is read kernel by kernel."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.capture.resolving import resolve_all
from kinspect.inspector.capture.targets import Target
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline import collecting as pipeline
from kinspect.inspector.pipeline import forked
from kinspect.inspector.pipeline.events import Captured, Event, Failed, until_interrupted
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.pipeline.reading import Transformed, Work
from kinspect.inspector.report import json_write as json_v1
from kinspect.inspector.report import saved
from kinspect.inspector.report.json_read import SavedReport

DATA = Path(__file__).parent / "data" / "isa"
NAMES = (
    "attend.triton39.gfx1201.amdgcn",
    "attend.triton39.gfx90a.amdgcn",
    "attend.triton39.gfx950.amdgcn",
    "calls.triton39.gfx1100.amdgcn",
    "calls.triton39.gfx942.amdgcn",
    "far.llvm22.gfx90a.s",
    "handwritten.gfx90a.s",
    "located.llvm22.gfx90a.s",
)
TARGETS = tuple(str(DATA / name) for name in NAMES)

FEWER_AND_MORE = ((2, 2), (4, 2), (2, 5))
"""Targets and jobs of every run: as many of both, more of the one, more of the other."""

forks = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    assert multiprocessing.active_children() == []


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forks for any number of bytes, whatever threads the test runner has."""
    monkeypatch.setattr(forked, "MIN_BYTES", 1)
    monkeypatch.setattr(forked.threading, "active_count", lambda: 1)


def run(then: Callable[[KernelReport], Any], jobs: int) -> tuple[list[Transformed], list[Failed]]:
    events = list(pipeline.transformed_reports(Request(TARGETS, jobs=jobs), then))
    made = [e for e in events if isinstance(e, Transformed)]
    return made, [e for e in events if isinstance(e, Failed)]


@forks
@pytest.mark.usefixtures("always")
def test_several_processes_report_what_one_does() -> None:
    alone = pipeline.collect(Request(TARGETS, jobs=1))
    several = pipeline.collect(Request(TARGETS, jobs=3))
    assert len(alone.kernels) >= len(TARGETS)
    assert json_v1.to_dict(several) == json_v1.to_dict(alone)


@forks
@pytest.mark.usefixtures("always")
def test_what_files_state_passes_between_processes_whatever_it_is(tmp_path: Path) -> None:
    """And is read back from the report."""
    text = (DATA.parent / "small_gfx942.s").read_text()
    for number, vgprs in enumerate(("9" * 18, "9" * 30, "-7")):
        changed = text.replace(".amdhsa_next_free_vgpr 40", f".amdhsa_next_free_vgpr {vgprs}")
        (tmp_path / f"{number}.s").write_text(changed)
    targets = tuple(str(tmp_path / f"{number}.s") for number in range(3))
    alone, several = (pipeline.collect(Request(targets, jobs=jobs)) for jobs in (1, 2))
    document = json_v1.to_dict(alone)
    assert len(document["kernels"]) == 3
    assert json_v1.to_dict(several) == document
    assert json_v1.to_dict(SavedReport.open(json.dumps(document), "r.json").report()) == document


@forks
@pytest.mark.usefixtures("always")
def test_then_runs_in_the_workers() -> None:
    made, failed = run(lambda report: (os.getpid(), report.id), 2)
    assert not failed
    pids = {pid for _, (pid, _) in ((m.order, m.value) for m in made)}
    assert len(pids - {os.getpid()}) == 2
    expected, _ = run(lambda report: report.id, 1)
    assert sorted((m.order, m.value[1]) for m in made) == [(m.order, m.value) for m in expected]


@forks
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    "victim",
    [
        NAMES[1],
        *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES[2:-1]),
        NAMES[-1],
    ],
)
def test_a_worker_that_dies_takes_one_target_with_it(victim: str) -> None:
    parent = os.getpid()

    def then(report: KernelReport) -> str:
        if victim in report.id and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return report.id

    made, failed = run(then, 2)
    assert [Path(f.error.file or "").name for f in failed] == [victim]
    assert "SIGKILL" in failed[0].error.message
    files = {Path(m.value.partition("::")[0]).name for m in made}
    assert files == set(NAMES) - {victim}


@forks
@pytest.mark.usefixtures("always")
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("count", "jobs"),
    [
        pytest.param(count, jobs, marks=() if (count, jobs) in FEWER_AND_MORE else pytest.mark.slow)
        for count in (2, 3, 4)
        for jobs in (2, 3, 5)
    ],
)
def test_workers_for_whom_nothing_is_left_end(count: int, jobs: int) -> None:
    kernels = pipeline.collect(Request(TARGETS[:count], jobs=jobs)).kernels
    assert {Path(kernel.id.partition("::")[0]).name for kernel in kernels} == set(NAMES[:count])


@forks
@pytest.mark.usefixtures("always")
def test_a_bug_takes_one_target_with_it() -> None:
    def then(report: KernelReport) -> str:
        if NAMES[3] in report.id:
            raise ZeroDivisionError("a bug")
        return report.id

    made, failed = run(then, 2)
    assert [Path(f.error.file or "").name for f in failed] == [NAMES[3]]
    assert "internal error of kinspect: ZeroDivisionError: a bug (tests" in failed[0].error.message
    assert len({Path(m.value.partition("::")[0]).name for m in made}) == len(NAMES) - 1


@forks
@pytest.mark.usefixtures("always")
def test_an_interrupt_keeps_what_is_done_and_says_so() -> None:
    events = pipeline.transformed_reports(Request(TARGETS, jobs=2), lambda report: report.id)
    seen: list[Any] = [next(events), next(events)]
    assert isinstance(events, Iterator)
    seen.append(events.throw(KeyboardInterrupt))  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        seen.extend(events)
    last = seen[-1]
    assert isinstance(last, Failed)
    assert last.error.message.startswith("interrupted: ")
    assert all(isinstance(event, Transformed) for event in seen[:-1])


def test_an_interrupt_of_one_process_says_so_whatever_failed_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "unreadable.json").write_text("{")
    targets = (str(tmp_path / "unreadable.json"), *TARGETS[:2])
    read_target = pipeline.read_target

    def pressed(index: int, target: Target, work: Work) -> Iterator[Transformed | Failed]:
        if index == 2:
            raise KeyboardInterrupt
        return read_target(index, target, work)

    monkeypatch.setattr(pipeline, "read_target", pressed)
    report = pipeline.collect(Request(targets, jobs=1))
    assert {Path(kernel.id.partition("::")[0]).name for kernel in report.kernels} == {NAMES[0]}
    assert report.errors[0].file == targets[0]
    assert report.errors[-1].message == "interrupted: 2 of 3 files read"
    finished = pipeline.collect(Request(TARGETS[:3], jobs=1))
    assert len(finished.kernels) > 1
    assert [error.message for error in finished.errors] == ["interrupted: 2 of 3 files read"]
    with pytest.raises(KeyboardInterrupt):
        pipeline.collect(Request(targets, jobs=1), partial=False)


@pytest.mark.parametrize("last", [None, Captured("k.py", ())], ids=["nothing", "no_report"])
def test_an_interrupt_with_nothing_to_report_is_one(last: Captured | None) -> None:
    def events() -> Iterator[Event]:
        if last is not None:
            yield last
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(until_interrupted(events()))


@forks
@pytest.mark.usefixtures("always")
def test_a_run_that_is_given_up_leaves_no_process() -> None:
    events = pipeline.transformed_reports(Request(TARGETS, jobs=2), lambda report: report.id)
    next(events)
    next(events)
    del events


def test_few_bytes_are_not_worth_a_fork(small_asm: Path) -> None:
    found = list(enumerate(resolve_all([str(small_asm)]))) * 2
    assert not forked.is_worthwhile(found, 2)
    assert not forked.is_worthwhile(found, 1)


# --------------------------------------------------------------------------- saved reports


@pytest.fixture(scope="module")
def text() -> str:
    """A JSON report of several kernels."""
    return json.dumps(json_v1.to_dict(pipeline.collect(Request(TARGETS[:3]))))


def test_kernels_are_read_when_they_are_asked_for(text: str) -> None:
    data = json.loads(text)
    del data["kernels"][1]["metrics"]
    opened = SavedReport.open(json.dumps(data), "r.json")
    kernels = opened.kernels()
    assert next(kernels).id == data["kernels"][0]["id"]
    with pytest.raises(KinspectError, match=r"r\.json: damaged report .*required field `metrics`"):
        next(kernels)


@pytest.mark.parametrize("form", [str, str.encode, lambda t: t.encode("utf-16")])
def test_a_report_is_read_in_any_encoding(text: str, form: Callable[[str], str | bytes]) -> None:
    again = SavedReport.open(form(text), "r.json").report()
    assert json_v1.to_dict(again) == json.loads(text)


def test_what_python_writes_is_read(text: str) -> None:
    """Infinite floats, which JSON lacks, become text: what is written of them is JSON."""
    data = json.loads(text)
    data["kernels"][0]["metrics"]["vgpr_count"]["value"] = float("-inf")
    again = SavedReport.open(json.dumps(data), "r.json").report()
    assert again.kernels[0].metrics["vgpr_count"].value == "-inf"


def test_only_the_artifacts_that_are_needed_are_unpacked(tmp_path: Path, text: str) -> None:
    data = json.loads(text)
    contents = {"amdgcn": b"code", "ttgir": b"ir"}
    digests = {}
    path = tmp_path / "a.kinspect"
    with zipfile.ZipFile(path, "w") as out:
        for kind, content in contents.items():
            digests[kind] = hashlib.sha256(content).hexdigest()
            out.writestr(f"artifacts/{digests[kind]}", content)
        data["kernels"][0]["artifacts"] = {
            kind: {"sha256": digests[kind], "bytes": len(content)}
            for kind, content in contents.items()
        }
        out.writestr("report.json", json.dumps(data))
    opened = saved.opened(path, tmp_path / "cache", frozenset({"amdgcn"}))
    kernel = next(opened.kernels())
    assert {k: a.path.read_bytes() for k, a in kernel.artifacts.items()} == {"amdgcn": b"code"}
    assert [p.name for p in (tmp_path / "cache").iterdir()] == [digests["amdgcn"]]
    every = saved.opened(path, tmp_path / "cache").report().kernels[0].artifacts
    assert {k: a.path.read_bytes() for k, a in every.items()} == contents
