"""The history of benchmarks: kept whole, whoever writes at once, is killed or finds it damaged."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.bench.history.store import (
    FILE,
    SCHEMA_VERSION,
    History,
    data_folder,
    identity,
)
from kinspect.inspector.bench.suite.bench_results import Bench, MeasuredGpu, OtherOperator, Timed
from msgspec.structs import replace

CASE = {"name": "small", "M": 64, "N": 64, "K": 128, "atol": 0.1}
TIMED = Timed(
    0,
    "small",
    "ok",
    case=CASE,
    times=(10.0, 12.0, 11.0),
    flop=2e6,
    config={"BLOCK_M": 64},
    others=(OtherOperator("torch", (5.0, 6.0)),),
    clocks={"core_mhz": 1980},
)
BENCH = Bench(
    "gemm",
    "gemm.py",
    MeasuredGpu("NVIDIA H200", "sm_90", "cuda", 132, 1 << 37),
    {"torch": "2.11", "triton": "3.6.0", "driver": None},
    "time",
    "2026-01-02T03:04:05+00:00",
    (TIMED, Timed(1, "broken", "wrong", "12 values differ")),
)


@pytest.fixture
def tool(tool_in_process: Callable[..., Any]) -> Callable[..., Any]:
    return tool_in_process


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.add(BENCH)
    (run,) = history.runs()
    assert (run.kernel, run.device, run.mode, run.cases) == ("gemm", "NVIDIA H200", "time", 1)
    assert run.date == BENCH.date
    assert run.versions == BENCH.versions
    (kept,) = history.results(run.id)
    assert (kept.name, kept.runs) == ("small", 3)
    assert (kept.best_us, kept.mean_us, kept.slowest_us) == (10.0, 11.0, 12.0)
    assert kept.error_us == pytest.approx(1 / 3**0.5)
    assert kept.tflops == pytest.approx(2e6 / 11 / 1e6)
    assert kept.gib_per_s is None
    assert kept.config == {"BLOCK_M": 64}
    assert kept.clocks == {"core_mhz": 1980}


def test_a_time_is_held_against_the_peak_of_the_memory(tmp_path: Path) -> None:
    """53 MB at 5.3 TB/s take 10 µs; the best run took 20. No peak is known of the H200."""
    history = History(tmp_path)
    timed = replace(TIMED, times=(20.0, 24.0), bytes=53e6)
    for device in ("AMD Instinct MI300X", "NVIDIA H200"):
        gpu = MeasuredGpu(device, "gfx942", "hip", 304, 1 << 37)
        history.add(replace(BENCH, gpu=gpu, cases=(timed, replace(timed, bytes=None))))
    shares = {run.device: history.results(run.id) for run in history.runs()}
    assert [case.memory_share for case in shares["AMD Instinct MI300X"]] == [50.0, None]
    assert [case.memory_share for case in shares["NVIDIA H200"]] == [None, None]


def test_nothing_is_made_before_there_is_something_to_keep(tmp_path: Path) -> None:
    history = History(tmp_path / "new")
    history.check_readable()
    assert history.before("gemm", "NVIDIA H200", CASE) is None
    assert history.results(1) == []
    history.add(replace(BENCH, cases=BENCH.cases[1:]))
    history.add(replace(BENCH, gpu=None))
    assert not (tmp_path / "new").exists()


def test_before_is_the_last_full_run_on_the_same_device(tmp_path: Path) -> None:
    history = History(tmp_path)
    slower = replace(TIMED, times=(20.0,))
    other = replace(
        BENCH, gpu=MeasuredGpu("AMD Instinct MI300X"), cases=(replace(TIMED, times=(1.0,)),)
    )
    for bench in (BENCH, replace(BENCH, cases=(slower,), date="2026-02"), other):
        history.add(bench)
    history.add(replace(BENCH, mode="once", cases=(replace(TIMED, times=(3.0,)),)))
    before = history.before("gemm", "NVIDIA H200", {**CASE, "name": "renamed", "atol": 0.2})
    assert before is not None
    assert (before.mean_us, before.date) == (20.0, "2026-02")
    assert history.before("gemm", "NVIDIA H100", CASE) is None
    assert history.before("softmax", "NVIDIA H200", CASE) is None
    assert history.before("gemm", "NVIDIA H200", {**CASE, "K": 256}) is None
    assert [run.date for run in history.runs("gemm", limit=2)] == [BENCH.date, BENCH.date]


def test_identity_ignores_the_order_of_keys() -> None:
    assert identity({"M": 1, "N": 2}) == identity({"N": 2, "name": "x", "M": 1})


WRITER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    sys.path.insert(0, {tests!r})
    from test_history import BENCH
    from kinspect.inspector.bench.history.store import History
    history = History(Path(sys.argv[1]))
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(sys.argv[2])):
        history.add(BENCH)
        print("added", flush=True)
    """
)


def writer(folder: Path, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER.format(tests=str(Path(__file__).parent)), folder, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    """They also make the file at once."""
    processes = [writer(tmp_path, 25) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        go(process)
    for process in processes:
        process.communicate(timeout=120)
        assert process.returncode == 0
    runs = History(tmp_path).runs(limit=1000)
    assert len(runs) == 75
    assert all(run.cases == 1 for run in runs)


def test_a_killed_writer_leaves_whole_runs(tmp_path: Path) -> None:
    process = writer(tmp_path, 100_000)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    go(process)
    for _ in range(5):
        assert process.stdout.readline() == "added\n"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    history = History(tmp_path)
    before = history.runs(limit=100_000)
    assert len(before) >= 5
    assert all(run.cases == 1 for run in before)
    history.add(BENCH)
    assert len(history.runs(limit=100_000)) == len(before) + 1


def damage_header(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 50)


def damage_pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100:] = b"\xa5" * (len(data) - 100)
    path.write_bytes(bytes(data))


def damage_values(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE run SET versions = 'no JSON'")
    connection.close()


@pytest.mark.parametrize("damage", [damage_header, damage_pages, damage_values])
def test_a_damaged_file_is_one_line_with_what_to_do(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    history = History(tmp_path)
    history.add(BENCH)
    damage(history.path)
    with pytest.raises(KinspectError) as caught:
        history.check_readable()
    assert str(history.path) in str(caught.value)
    assert "damaged" in str(caught.value)
    assert "KINSPECT_DATA_DIR" in caught.value.hint


def test_a_later_schema_is_left_alone(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.add(BENCH)
    with sqlite3.connect(history.path) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    content = history.path.read_bytes()
    with pytest.raises(KinspectError, match=f"schema_version {SCHEMA_VERSION + 1}"):
        history.add(BENCH)
    assert history.path.read_bytes() == content


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KinspectError, match="cannot be"):
        History(tmp_path / "file").add(BENCH)
    (tmp_path / FILE).mkdir()
    with pytest.raises(KinspectError, match="cannot be used"):
        History(tmp_path).add(BENCH)


def test_folder() -> None:
    assert data_folder({"KINSPECT_DATA_DIR": "/somewhere"}) == Path("/somewhere")
    assert data_folder({}).name == "kinspect"


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "KINSPECT_DATA_DIR", str(tmp_path / "own"))
    history = History()
    history.add(BENCH)
    assert (tmp_path / "own" / FILE).is_file()


def test_command_line(tool: Callable[..., Any], tmp_path: Path) -> None:
    env = {"KINSPECT_DATA_DIR": str(tmp_path / "data")}
    assert tool("history", "list", env=env).stdout == "nothing was kept yet\n"
    History(tmp_path / "data").add(BENCH)
    listed = tool("history", "list", "gemm", env=env)
    assert listed.returncode == 0
    assert listed.stdout.splitlines()[1].split()[:5] == ["1", BENCH.date, "gemm", "1", "NVIDIA"]
    shown = tool("history", "show", "1", env=env)
    assert shown.stdout.splitlines()[1].split()[:5] == ["small", "10.00", "11.00", "12.00", "3"]
    data = json.loads(tool("history", "show", "1", "--format", "json", env=env).stdout)
    assert data["cases"][0]["config"] == {"BLOCK_M": 64}
    assert json.loads(tool("history", "list", "--format", "json", env=env).stdout)["runs"]
    missing = tool("history", "show", "7", env=env)
    assert missing.returncode == 2
    assert missing.stderr == ("kinspect: error: there is no run 7; see kinspect history list\n")
