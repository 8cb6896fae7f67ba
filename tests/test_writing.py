"""Files are written whole or not at all, through no link, and say why they could not be."""

from __future__ import annotations

import errno
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kinspect.inspector.base import writing
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.base.writing import abandon, replacing, replacing_text, unwritable
from kinspect.inspector.capture.trace import LaunchTrace, write_trace
from kinspect.inspector.cli.options import write_result
from kinspect.inspector.lint import baseline
from kinspect.inspector.model import Report
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.report import saved

SMALL = Path(__file__).parent / "data" / "small_gfx942.s"
KINSPECT = [sys.executable, "-m", "kinspect.inspector.cli"]
KERNEL = """\
import torch, triton
import triton.language as tl

@triton.jit
def copy(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)

copy[(1,)](torch.randn(64, device="cuda"), torch.randn(64, device="cuda"), 64, B=64)
"""


@pytest.fixture(scope="module")
def report() -> Report:
    return collect(Request((str(SMALL),)))


def _output(path: Path) -> None:
    write_result(path, "new")


WRITERS: dict[str, Callable[[Path, Report], None]] = {
    "-o": lambda path, report: _output(path),
    "--save": lambda path, report: saved.save(report, path),
    "baseline": lambda path, report: baseline.write(baseline.Baseline({}), path),
    "trace": lambda path, report: write_trace(LaunchTrace({}, (), (), ()), path),
}


@pytest.fixture(params=WRITERS.values(), ids=WRITERS)
def write(request: pytest.FixtureRequest, report: Report) -> Callable[[Path], None]:
    return lambda path: request.param(path, report)


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def test_no_link_is_followed(write: Callable[[Path], None], tmp_path: Path) -> None:
    victim, place = tmp_path / "victim", tmp_path / "result"
    victim.write_text("theirs")
    (tmp_path / ".result.partial").symlink_to(victim)
    place.symlink_to(victim)
    write(place)
    assert victim.read_text() == "theirs"
    assert not place.is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == [".result.partial", "result", "victim"]


def test_the_mode_is_what_the_umask_leaves(
    write: Callable[[Path], None], tmp_path: Path, umask: None
) -> None:
    place = tmp_path / "result"
    write(place)
    assert place.stat().st_mode & 0o777 == 0o640
    place.chmod(0o604)
    write(place)
    assert place.stat().st_mode & 0o777 == 0o604


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EROFS, "the file system is read-only"),
        (errno.EACCES, "the folder is read-only for this user"),
    ],
)
def test_why_it_cannot_be_written(
    write: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    words: str,
) -> None:
    place = tmp_path / "result"
    place.write_text("before")

    def refuse(*args: object) -> None:
        raise OSError(code, os.strerror(code))

    # Where what was written reaches the disk, and where a file is made.
    name = "fsync" if code == errno.ENOSPC else "open"
    monkeypatch.setattr(writing.os, name, refuse)
    with pytest.raises(KinspectError, match=f"{re.escape(str(place))}.*{words}"):
        write(place)
    monkeypatch.undo()
    assert place.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["result"]


def test_what_fails_in_between_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with replacing_text(tmp_path / "result", private=True) as stream:
            stream.write("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not list(tmp_path.iterdir())
    with replacing(tmp_path / "result", private=True) as raw:
        raw.write(b"whole")
    assert (tmp_path / "result").stat().st_mode & 0o777 == 0o600
    assert "free space" in unwritable("x", OSError(errno.ENOSPC, "full"), "move").hint


def test_a_device_is_written_to(tmp_path: Path) -> None:
    with pytest.raises(KinspectError, match=r"/dev/full: cannot be written.*the disk is full"):
        _output(Path("/dev/full"))
    assert Path("/dev/full").is_char_device()


def _kinspect(folder: Path, *arguments: str, most_bytes: int) -> subprocess.CompletedProcess[str]:
    """A run whose files can grow no further than that."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    return subprocess.run(
        [*KINSPECT, *arguments],
        cwd=folder, capture_output=True, text=True, preexec_fn=limit, check=False, timeout=100,
        env={**os.environ, "KINSPECT_CACHE_DIR": str(folder / "cache")},
    )  # fmt: skip


def test_a_compile_without_room_blames_no_compiler(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    (tmp_path / "kernel.py").write_text(KERNEL)
    done = _kinspect(tmp_path, "analyze", "kernel.py", most_bytes=5000)
    assert done.returncode == 2
    lines = done.stderr.splitlines()  # there is no room in another folder either
    assert f"the cache folder {tmp_path / 'cache'}: cannot be written" in lines[0]
    assert all("the cache folder" in line and "ulimit -f" in line for line in lines)


def test_a_result_without_room(tmp_path: Path) -> None:
    done = _kinspect(tmp_path, "analyze", str(SMALL), "-o", "out.txt", most_bytes=100)
    assert done.returncode == 2
    assert "out.txt: cannot be written (the file is larger than a limit" in done.stderr
    assert not (tmp_path / "out.txt").exists()


def test_an_abandoned_file_leaves_nothing_and_what_was_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "result"
    path.write_bytes(b"before")

    def abandoned() -> None:
        with replacing(path) as raw:
            raw.write(b"half")
            assert len(list(tmp_path.iterdir())) == 2
            assert abandon()
            assert list(tmp_path.iterdir()) == [path]

    with pytest.raises(FileNotFoundError):
        abandoned()
    assert path.read_bytes() == b"before"
    assert not abandon(), "nothing is in progress any more"
