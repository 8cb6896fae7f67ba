"""Work that waves repeat: figures by hand, and what an execution counts of the same kernels."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
SCRIPT = """
import torch, triton
import triton.language as tl

@triton.jit
def gemm(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows, cols, ks = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BLOCK_K)
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + rows[:, None] * K + k + ks[None, :])
        b = tl.load(b_ptr + (k + ks)[:, None] * N + cols[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc)

@triton.jit
def few(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y_ptr + i, tl.exp(tl.load(x_ptr + i)))

K = 128
tiles = ((16, 16, 4), (16, 16, 1), (16, 32, 4), (4, 64, 4), (64, 64, 8), (64, 64, 4))
for m, n, waves in tiles:
    a = torch.ones(m, K, device="cuda", dtype=torch.float16)
    b = torch.ones(K, n, device="cuda", dtype=torch.float16)
    gemm[(1,)](a, b, torch.empty(m, n, device="cuda"), K, m, n, 64, num_warps=waves)
x = torch.ones(64, device="cuda")
few[(1,)](x, torch.empty_like(x), 64, num_warps=4)
"""
LANES = {"gfx942": 64, "gfx1100": 32}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    import subprocess
    import sys

    folder = tmp_path_factory.mktemp("redundancy")
    (folder / "script.py").write_text(SCRIPT)
    command = [
        sys.executable, "-m", "kinspect.inspector.cli", "analyze", "script.py", "--emulate",
        "--arch", "gfx942,gfx1100", "--format", "json", "--details", "-o", "report.json",
    ]  # fmt: skip
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    listed: list[dict[str, Any]] = json.loads((folder / "report.json").read_text())["kernels"]
    return listed


def value(kernel: dict[str, Any], name: str) -> Any:
    return kernel["metrics"][name]["value"]


def test_an_execution_counts_the_same(kernels: list[dict[str, Any]]) -> None:
    """Multiply-accumulates that all waves execute, over M·N·K of the product that was launched."""
    seen = set()
    for kernel in kernels:
        if kernel["name"] != "gemm":
            continue
        constants = kernel["variant"]["constexprs"]
        m, n = constants["M"], constants["N"]
        (name,) = value(kernel, "matrix.instructions")
        rows, columns, depth = map(int, re.search(r"_(\d+)x(\d+)x(\d+)", name).groups())  # type: ignore[union-attr]
        waves = value(kernel, "waves_per_workgroup")
        per_wave = sum(
            value(kernel, metric)
            for metric in ("emulated.count.mfma", "emulated.count.wmma")
            if metric in kernel["metrics"]
        )
        blocks = re.search(r"_(\d+)b_", name)
        done = per_wave * waves * rows * columns * depth * (int(blocks[1]) if blocks else 1)
        assert value(kernel, "matrix.redundancy") == done / (m * n * 128)
        loop = next(loop for loop in kernel["loops"] if loop["id"] == kernel["main_loop"])
        assert loop["metrics"]["matrix.redundancy"]["value"] == done / (m * n * 128)
        seen.add((kernel["arch"], m, waves, done / (m * n * 128)))
    assert seen >= {
        ("gfx942", 4, 4, 4.0),  # v_mfma_f32_4x4x4_16b_f16
        ("gfx942", 16, 4, 4.0),
        ("gfx942", 16, 1, 1.0),
        ("gfx942", 64, 4, 1.0),
        ("gfx1100", 16, 4, 4.0),
        ("gfx1100", 16, 1, 1.0),
    }


def test_the_dot_and_its_dimension_are_named(kernels: list[dict[str, Any]]) -> None:
    thin = next(
        kernel
        for kernel in kernels
        if kernel["arch"] == "gfx942"
        and kernel["name"] == "gemm"
        and [kernel["variant"]["constexprs"][side] for side in "MN"] == [16, 16]
        and value(kernel, "waves_per_workgroup") == 4
    )
    repeated = value(thin, "matrix.repeated")
    assert repeated["times"] == 4
    assert repeated["tile"] == "16x16x64"
    assert repeated["waves"] * repeated["each"] == 4 * repeated["needed"]
    # What the rule advises is what was launched beside it, and repeats nothing.
    assert repeated["fit_waves"] == repeated["try_waves"] == 1
    assert repeated["at"] == "script.py:12"


def test_as_many_waves_as_there_are_blocks_for(kernels: list[dict[str, Any]]) -> None:
    """16x32 are two blocks of 16x16."""
    fitting = {
        kernel["arch"]: value(kernel, "matrix.repeated")["fit_waves"]
        for kernel in kernels
        if kernel["name"] == "gemm" and kernel["variant"]["constexprs"]["N"] == 32
    }
    assert fitting == {"gfx942": 2, "gfx1100": 2}


def test_lanes_that_hold_the_same_element(kernels: list[dict[str, Any]]) -> None:
    """64 elements over 256 lanes (128 on RDNA): each is loaded, computed and stored by several."""
    for kernel in kernels:
        if kernel["name"] == "few":
            lanes = 4 * LANES[kernel["arch"]]
            assert value(kernel, "work.redundancy") == lanes / 64
            held = value(kernel, "work.repeated")
            assert (held["elements"], held["waves"]) == (64, min(4, lanes // 64))
            assert value(kernel, "matrix.redundancy") is None
