"""The exit status is that of the run, whatever became of its streams; Ctrl-C is 130."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SMALL = Path(__file__).parent / "data" / "small_gfx942.s"
KINSPECT = [sys.executable, "-m", "kinspect.inspector.cli"]
SLOW = """\
import pathlib, time
import torch, triton
import triton.language as tl

@triton.jit
def copy(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)

x = torch.randn(64, device="cuda")
copy[(1,)](x, x, 64, B=64)
pathlib.Path(STARTED).touch()
time.sleep(100)
"""


def interruptible() -> None:
    """A shell's background job ignores SIGINT, and so would its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize(
    "arguments",
    [
        ["analyze", "slow.py"],
        pytest.param(["lint", "slow.py"], marks=pytest.mark.slow),  # as analyze
        pytest.param(["report", "slow.py", "-o", "page.html"], marks=pytest.mark.slow),
        ["diff", "slow.py", "other.py"],
        ["passes", "slow.py"],
        pytest.param(["layout", "slow.py"], marks=pytest.mark.slow),  # as passes
        pytest.param(["registers", "slow.py"], marks=pytest.mark.slow),
        pytest.param(["show", "slow.py"], marks=pytest.mark.slow),
        ["sweep", "slow.py", "--set", "num_warps=1,2"],
        pytest.param(["export", "slow.py", "-o", "repro"], marks=pytest.mark.slow),  # as passes
        pytest.param(["try", "slow.py"], marks=pytest.mark.slow),  # as registers
    ],
    ids=lambda arguments: arguments[0],
)
def test_an_interrupt_ends_as_130(arguments: list[str], tmp_path: Path) -> None:
    pytest.importorskip("triton")
    started = tmp_path / "started"
    (tmp_path / "slow.py").write_text(SLOW.replace("STARTED", repr(str(started))))
    (tmp_path / "other.py").write_text("import time\ntime.sleep(100)\n")
    run = subprocess.Popen(
        [*KINSPECT, *arguments],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=interruptible, env={**os.environ, "KINSPECT_CACHE_DIR": str(tmp_path / "cache")},
    )  # fmt: skip
    for _ in range(900):
        if started.exists() or run.poll() is not None:
            break
        time.sleep(0.1)
    assert started.exists(), run.communicate()[1]
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    assert "interrupted" in err
    assert "Traceback" not in err


def outcome(folder: Path, *arguments: str, **streams: Any) -> int:
    """The exit status of a run of kinspect with these streams."""
    return subprocess.run([*KINSPECT, *arguments], cwd=folder, check=False, **streams).returncode


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small.s").write_text(SMALL.read_text())
    return tmp_path


CLEAN = ["analyze", "small.s"]
FAILING = ["lint", "small.s"]
WRONG = ["analyze", "none.s"]


@pytest.mark.parametrize(
    ("arguments", "status"), [(CLEAN, 0), (FAILING, 1), (WRONG, 2)], ids=["clean", "found", "wrong"]
)
@pytest.mark.parametrize("closed", [(2,), (0,), (1,), (0, 1, 2)], ids=str)
def test_what_a_closed_stdout_loses_is_an_error(
    folder: Path, arguments: list[str], status: int, closed: tuple[int, ...]
) -> None:
    """Nobody needs the other two, nor stdout where a file gets the result."""

    def close() -> None:
        for number in closed:
            os.close(number)

    assert outcome(folder, *arguments, preexec_fn=close) == (2 if 1 in closed else status)
    assert outcome(folder, *arguments, "-o", "result", preexec_fn=close) == status


def test_a_reader_that_goes_away_changes_nothing(folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        for arguments, status in ((CLEAN, 0), (FAILING, 1)):
            done = subprocess.run(
                [*KINSPECT, *arguments], cwd=folder, stdout=writing, stderr=subprocess.PIPE,
                text=True, check=False,
            )  # fmt: skip
            assert (done.returncode, "Broken pipe" in done.stderr) == (status, False)
            assert outcome(folder, *arguments, stdout=writing, stderr=writing) == status
    finally:
        os.close(writing)


def test_a_full_disk_is_said(folder: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*KINSPECT, *CLEAN], cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert done.stderr.count("kinspect: ") == 1
        assert "standard output: cannot be written (the disk is full" in done.stderr
        assert outcome(folder, *FAILING, stderr=full) == 1
