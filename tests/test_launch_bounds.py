"""The least time of a launch and its rounds, by hand, and published times held against it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from kinspect.inspector.machines.loader import load
from kinspect.inspector.metrics.launch import gpu_of, least_us
from kinspect.inspector.metrics.residency import Residency

JSON = ("--format", "json", "--details")
GEMM = """
import torch, triton, triton.language as tl

@triton.jit
def multiply(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    columns = tl.cdiv(N, BN)
    rows = tl.program_id(0) // columns * BM + tl.arange(0, BM)
    cols = tl.program_id(0) % columns * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    left = a + rows[:, None] * K + inner[None, :]
    right = b + inner[:, None] * N + cols[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    {loop}
        acc = tl.dot(tl.load(left), tl.load(right), acc)
        left += BK
        right += BK * N
    tl.store(c + rows[:, None] * N + cols[None, :], acc.to(tl.float16))

half = dict(dtype=torch.float16, device="cuda")
a, b, c = (torch.zeros((1024, 1024), **half) for _ in range(3))
multiply[(256,)](a, b, c, 1024, 1024, 1024, BM=64, BN=64, BK=32, num_warps=4)
"""


Metrics = Callable[..., dict[str, object]]


@pytest.fixture
def metrics(tool_in_process: Callable[..., subprocess.CompletedProcess[str]]) -> Metrics:
    def run(script: Path, *options: str) -> dict[str, object]:
        done = tool_in_process(
            "analyze", script, "--arch", "gfx942", "--no-passes", *JSON, *options
        )
        assert done.returncode == 0, done.stderr
        (kernel,) = json.loads(done.stdout)["kernels"]
        return {name: metric["value"] for name, metric in kernel["metrics"].items()}

    return run


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("triton")
    path = tmp_path_factory.mktemp("launch") / "mm.py"
    path.write_text(GEMM.format(loop="for _ in range(0, tl.cdiv(K, BK)):"))
    return path


def test_a_launch_of_known_sizes(script: Path, metrics: Metrics) -> None:
    """256 workgroups, fewer than CUs: each does 64·64·1024 products at 1024 a clock and CU."""
    figures = metrics(script, "--time-us", "2.5")
    assert figures["launch.matrix_us"] == round(64 * 64 * 1024 / 1024 / 2100, 3)
    assert figures["time.bound_share"] == pytest.approx(78, abs=0.1)
    assert figures["time.us"] != figures["time.measured_us"]
    assert figures["time.impossible"] is False
    places = figures["occupancy.workgroups_per_cu"]
    assert figures["tail.rounds"] == 1
    assert figures["tail.efficiency"] == round(100 * 256 / (304 * places), 1)


def test_a_small_share_is_not_none(script: Path, metrics: Metrics) -> None:
    """2 µs of 12.5 ms are 0.016 %."""
    assert metrics(script, "--time-us", "12500")["time.bound_share"] == pytest.approx(0.016, 0.05)


def test_a_time_below_the_bound_is_impossible(script: Path, metrics: Metrics) -> None:
    assert metrics(script, "--time-us", "1.94")["time.impossible"] is True


UNKNOWN = {
    "bound from memory": "for _ in range(0, tl.load(c).to(tl.int32)):",
    "early return": (
        "if tl.program_id(0) > tl.load(c).to(tl.int32):\n        return\n    for _ in range(0, 32):"
    ),
}


@pytest.mark.parametrize("why", UNKNOWN)
def test_dots_that_nobody_knows_the_number_of(why: str, tmp_path: Path, metrics: Metrics) -> None:
    pytest.importorskip("triton")
    path = tmp_path / "mm.py"
    path.write_text(GEMM.format(loop=UNKNOWN[why]))
    figures = metrics(path, "--time-us", "0.1")
    assert figures["launch.matrix_us"] is None
    assert figures["time.impossible"] is None


def test_workgroups_that_return_early(tmp_path: Path, metrics: Metrics) -> None:
    """8 of 256 workgroups do the products, and each of them takes as long as if all did."""
    pytest.importorskip("triton")
    path = tmp_path / "mm.py"
    returning = "if tl.program_id(0) > 7:\n        return\n    for _ in range(0, 32):"
    path.write_text(GEMM.format(loop=returning))
    figures = metrics(path)
    assert figures["launch.matrix_us"] == round(64 * 64 * 1024 / 1024 / 2100, 3)
    assert figures["launch.iterations"] == 31  # pipelining peels one off


def test_workgroups_that_do_more(tmp_path: Path, metrics: Metrics) -> None:
    """Triangular: workgroup 255 does 256 iterations, and half of all work is a smaller share."""
    pytest.importorskip("triton")
    path = tmp_path / "mm.py"
    path.write_text(GEMM.format(loop="for _ in range(0, tl.program_id(0) + 1):"))
    assert metrics(path)["launch.matrix_us"] == round(256 * 64 * 64 * 32 / 1024 / 2100, 3)


def test_a_time_is_of_one_kernel(
    script: Path, tool_in_process: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = tool_in_process("analyze", script, "--arch", "gfx942,gfx1100", "--time-us", "20")
    assert done.returncode == 2
    assert "--time-us 20 is of one launch" in done.stderr


def test_the_busiest_decides() -> None:
    """gfx942: 304 CUs of 4 SIMDs at 2100 MHz."""
    gpu = gpu_of(load("gfx942"), Residency(8, 4, 1))
    assert gpu is not None
    assert least_us([2100.0] * 304, 4, gpu) == 1
    assert least_us([2100.0] * 305, 4, gpu) == 2  # one CU has two
    assert least_us([2100.0] * 303 + [21000.0], 4, gpu) == 10
    assert least_us([2100.0], 1, gpu) == 1  # three SIMDs are idle
    assert least_us([2100.0] * 608, 2, gpu) == 1  # two workgroups of two waves


# --------------------------------------------------------------------------- published times

# Best configurations of stream-K products in half precision on an MI300X, as tuned and published
# with ROCm/triton: M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, waves, microseconds, and whether that is
# less than the hardware can do.
PUBLISHED = (
    (128, 128, 128, 32, 64, 256, 1, 0.71, True),
    (1024, 4096, 256, 128, 128, 32, 1, 5.33, True),
    (8192, 1024, 128, 256, 256, 64, 4, 1.92, True),
    (128, 128, 256, 32, 64, 256, 1, 1.09, False),
    (128, 128, 512, 16, 16, 256, 4, 3.47, False),
    (128, 128, 1024, 32, 32, 128, 4, 4.49, False),
)


@pytest.mark.parametrize("row", PUBLISHED)
def test_published_times(row: tuple[int, int, int, int, int, int, int, float, bool]) -> None:
    *sizes, microseconds, impossible = row
    assert (microseconds < stream_k_us(*sizes)) is impossible


def stream_k_us(
    m: int, n: int, k: int, block_m: int, block_n: int, block_k: int, waves: int
) -> float:
    """304 workgroups share all iterations of all tiles evenly."""
    machine = load("gfx942")
    instructions = block_m * block_n * block_k / 16**3 / waves
    cycles = instructions * machine.mfma_cycles["v_mfma_f32_16x16x16_f16"]
    iterations = -(-m // block_m) * -(-n // block_n) * -(-k // block_k)
    gpu = gpu_of(machine, Residency(waves, 4, 1))
    assert gpu is not None
    return least_us([cycles * ((iterations + place) // 304) for place in range(304)], waves, gpu)


@pytest.mark.slow
def test_all_published_times() -> None:
    """KINSPECT_STREAMK names the whole table."""
    named = os.environ.get("KINSPECT_STREAMK")
    if not named:
        pytest.skip("KINSPECT_STREAMK is not set")
    sizes = ("M", "N", "K", "BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "num_warps")
    with Path(named).open() as table:
        rows = [row for row in csv.DictReader(table) if row["physically_impossible"]]
    assert len(rows) >= 300
    for row in rows:
        least = stream_k_us(*(int(row[name]) for name in sizes))
        assert (float(row["us"]) < least) is (row["physically_impossible"] == "1"), row
