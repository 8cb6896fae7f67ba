"""Scripts that would outlive their run, or lose what they launched: by patches, by signals."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kinspect.inspector.capture.script import capture_script
from kinspect.inspector.compile.worker import Worker
from kinspect.inspector.model import ErrorRecord, Variant
from torch_beforehand import worker_with_torch

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl and /proc")

HEAD = """
import os, signal, sys, time
import triton, triton.language as tl

@triton.jit
def fill(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)

class Tensor:
    dtype = "fp32"
    def data_ptr(self): return 4096
    def ptr_range(self): return 4096

def launch(block):
    fill[(4,)](Tensor(), BLOCK=block)

def daemon(path):
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    open(path, "w").write(str(os.getpid()))
    time.sleep(600)
    os._exit(0)

def when_there(path):
    while not (os.path.exists(path) and open(path).read()):
        time.sleep(0.01)

launch(64)
"""


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker() as one:
        yield one


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker for scripts that leave it alone."""
    with worker_with_torch(tmp_path_factory.mktemp("site")) as one:
        yield one


def capture(
    worker: Worker, folder: Path, body: str, time_limit: float = 60.0
) -> tuple[list[Variant], list[ErrorRecord]]:
    path = folder / "script.py"
    path.write_text(HEAD + textwrap.dedent(body))
    return capture_script(worker, path, ["gfx942"], time_limit=time_limit)


def blocks(variants: list[Variant]) -> list[object]:
    return [v.constexprs["BLOCK"] for v in variants]


def ends(pid: int) -> bool:
    """Whether a process is gone, or only a zombie; it is given a moment."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    "ending",
    ["", "os._exit(3)", "os.kill(os.getpid(), 9)", "while True: time.sleep(0.01)"],
    ids=["at its end", "by _exit", "killed", "out of time"],
)
def test_no_daemon_outlives_the_run(lasting: Worker, tmp_path: Path, ending: str) -> None:
    pid_file = tmp_path / "pid"
    body = f"daemon({str(pid_file)!r})\nwhen_there({str(pid_file)!r})\n{ending}\n"
    variants, _ = capture(lasting, tmp_path, body, time_limit=6.0 if "while" in ending else 60.0)
    assert blocks(variants) == [64]
    assert ends(int(pid_file.read_text()))
    assert lasting.pid is not None or "while" in ending


def test_daemons_that_go_on_forking_are_ended_too(worker: Worker, tmp_path: Path) -> None:
    mark = tmp_path / "beats"
    body = f"""
    if os.fork() == 0:
        os.setsid()
        while True:  # each child carries on in place of its parent
            if os.fork():
                os._exit(0)
            with open({str(mark)!r}, "a") as stream:
                stream.write(".")
            time.sleep(0.001)
    when_there({str(mark)!r})
    """
    variants, _ = capture(worker, tmp_path, body)
    assert blocks(variants) == [64]
    before = mark.stat().st_size
    time.sleep(0.3)
    assert mark.stat().st_size == before


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_what_was_launched_is_kept_whatever_becomes_of_the_guest(
    worker: Worker, tmp_path: Path, number: signal.Signals
) -> None:
    pid_file = tmp_path / "pid"
    body = f"""
    daemon({str(pid_file)!r})
    when_there({str(pid_file)!r})
    launch(128)
    os.kill(os.getppid(), {int(number)})
    time.sleep(0.2)
    launch(256)
    """
    variants, errors = capture(worker, tmp_path, body)
    assert blocks(variants)[:2] == [64, 128]
    if number == signal.SIGKILL:
        (error,) = errors
        assert "killed by signal 9" in error.message
        assert error.hint
    else:
        assert blocks(variants) == [64, 128, 256]
        assert not errors
    assert ends(int(pid_file.read_text()))


@pytest.mark.parametrize(
    "patch",
    [
        "import json; json.dumps = json.dump = json.loads = None",
        "import json; json.encoder.JSONEncoder.encode = json.JSONEncoder.iterencode = None",
        "import json.encoder; json.encoder.c_make_encoder = json.encoder.encode_basestring = None",
        "os.write = os.open = os.close = None",
        "import builtins; builtins.open = None",
        "os.write = lambda fd, data: len(data)",
        "sys.modules['json'] = sys.modules['json.encoder'] = None",
    ],
)
def test_patches_of_the_scripts_lose_no_launch(lasting: Worker, tmp_path: Path, patch: str) -> None:
    variants, errors = capture(lasting, tmp_path, f"{patch}\nlaunch(128)\n")
    assert not errors
    assert blocks(variants) == [64, 128]
    assert [v.launches for v in variants] == [1, 1]


def test_other_processes_of_this_one_stay(worker: Worker, tmp_path: Path) -> None:
    """Only what a guest's job has started is ended with it."""
    own = os.fork()
    if own == 0:
        time.sleep(120)
        os._exit(0)
    try:
        capture(worker, tmp_path, "os.kill(os.getppid(), 9)")
        assert os.waitpid(own, os.WNOHANG) == (0, 0)
    finally:
        os.kill(own, signal.SIGKILL)
        os.waitpid(own, 0)
