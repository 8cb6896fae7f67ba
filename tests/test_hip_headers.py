"""kinspect's own headers for HIP, where ROCm's are missing: what kernels compute with them."""

from __future__ import annotations

import shutil
import string
import subprocess
from math import erf
from pathlib import Path
from typing import Any

import kinspect
import numpy as np
import pytest
from kinspect.inspector.compile.hip.source import HEADERS
from numpy.typing import NDArray

CLANG = next((p for n in range(29, 16, -1) if (p := shutil.which(f"clang-{n}"))), None)
SOURCE = Path(__file__).parent / "data" / "hip_headers.hip"
pytestmark = [
    pytest.mark.skipif(CLANG is None, reason="no clang from 17 on"),
    pytest.mark.xdist_group("hip_headers"),
]
F32 = NDArray[np.float32]


def launched(kernel: str, *arguments: Any, grid: int = 1, arch: str = "gfx942") -> None:
    result = kinspect.emulate_code(
        SOURCE, arguments, kernel=kernel, grid=(grid, 1, 1), block=(256, 1, 1), arch=arch
    )
    assert result.passed, result.findings


def test_mathematics_is_that_of_numpy() -> None:
    x = np.linspace(-8, 8, 512, dtype=np.float32)
    out = np.zeros((10, 512), np.float32)
    launched("mathematics", x, out, np.int32(512), grid=2)
    wide = x.astype(np.float64)
    size = np.abs(wide)
    expected = [
        np.exp(wide), np.log(size), np.tanh(wide), np.vectorize(erf)(wide), np.sqrt(size),
        size**1.5, np.sin(wide), 1 / np.sqrt(size), np.maximum(wide, 0.25), np.floor(wide),
    ]  # fmt: skip
    for got, wanted in zip(out, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(("arch", "lanes"), [("gfx942", 64), ("gfx1100", 32)])
def test_waves_hand_values_on(arch: str, lanes: int) -> None:
    x = np.random.default_rng(1).standard_normal(256).astype(np.float32)
    sums, neighbours = np.zeros(256 // lanes, np.float32), np.zeros(256, np.float32)
    votes = np.zeros(256, np.uint32)
    launched("waves", x, sums, votes, neighbours, arch=arch)
    np.testing.assert_allclose(sums, x.reshape(-1, lanes).sum(1), rtol=1e-5)
    np.testing.assert_array_equal(neighbours, x.reshape(-1, 2)[:, ::-1].ravel())
    positive = (x.reshape(-1, lanes) > 0).sum(1)
    np.testing.assert_array_equal(votes, np.repeat(positive, lanes))


def test_a_workgroup_shares_and_adds() -> None:
    x = np.random.default_rng(2).random(1024).astype(np.float32)
    total = np.zeros(1, np.float32)
    launched("shared_sum", x, total, grid=4)
    np.testing.assert_allclose(total, x.sum(), rtol=1e-5)


def test_small_floats_are_rounded_to_nearest() -> None:
    x = (np.random.default_rng(3).standard_normal(256) * 20).astype(np.float32)
    half, back = np.zeros(256, np.float16), np.zeros(256, np.float32)
    bf16, fp8 = np.zeros(256, np.uint16), np.zeros(256, np.uint8)
    launched("small_floats", x, half, bf16, fp8, back)
    np.testing.assert_array_equal(half, x.astype(np.float16))
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    np.testing.assert_array_equal(bf16, rounded)
    values = _fnuz(np.arange(256))
    nearest = np.abs(values[None, :] - x[:, None])
    least = np.nanmin(nearest, axis=1)
    got = values[fp8]
    np.testing.assert_allclose(np.abs(got - x), least, atol=1e-6)
    whole = (rounded.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(back, got + half.astype(np.float32) + whole, rtol=1e-6)


def _fnuz(codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """The values of 8-bit floats of format e4m3fnuz; NaN for its only one, and for minus 0."""
    sign = np.where(codes & 0x80, -1.0, 1.0)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    small = mantissa / 8 * 2.0**-7
    values = sign * np.where(exponent, (1 + mantissa / 8) * 2.0 ** (exponent - 8.0), small)
    return np.where(codes == 0x80, np.nan, values)


def test_vectors_have_their_width_and_operators() -> None:
    x = np.random.default_rng(4).random((256, 4)).astype(np.float32)
    y = np.zeros_like(x)
    result = kinspect.emulate_code(
        SOURCE, [x, y], kernel="vectors<64>", grid=(4, 1, 1), block=(64, 1, 1), arch="gfx942"
    )
    assert result.passed
    np.testing.assert_allclose(y, x[:, ::-1] + 2 * x, rtol=1e-6)
    kernel = kinspect.analyze(SOURCE, kernel="vectors<64>", arch="gfx942").kernel
    assert "global_load_dwordx4" in kernel.code()


def test_a_report_says_which_functions_are_other_code_than_rocms() -> None:
    """`expf` and `rsqrtf` are the same instructions."""
    (note,) = kinspect.analyze(SOURCE, kernel="mathematics", arch="gfx942").kernel.notes
    assert ": its erf, pow, sin, tanh have other instructions" in note


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("standard", ["c++14", "c++17", "c++20", "c++23"])
def test_no_warning_and_no_call_is_left(arch: str, standard: str, tmp_path: Path) -> None:
    code = tmp_path / "k.s"
    words = [str(CLANG), "-x", "hip", f"--offload-arch={arch}", "--offload-device-only"]
    words += ["-nogpuinc", "-nogpulib", "-I", str(HEADERS), "-include", "hip/hip_runtime.h", "-O3"]
    words += ["-S", f"-std={standard}", "-Wall", "-Wextra", str(SOURCE), "-o", str(code)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ours = [line for line in done.stderr.splitlines() if str(HEADERS) in line]
    assert ours == []
    assert "@rel32" not in code.read_text().replace("__assert_fail@rel32", "")


def test_headers_bear_macros_of_one_letter(tmp_path: Path) -> None:
    """`-DN=64` and the like come before the first header."""
    letters = "".join(f"#define {letter} (1 + 2)\n" for letter in string.ascii_uppercase)
    own = tmp_path / "letters.hip"
    headers = sorted(path.relative_to(HEADERS) for path in HEADERS.rglob("*.h"))
    public = [path for path in headers if "kinspect" not in path.parts]
    included = "".join(f"#include <{path}>\n" for path in public)
    own.write_text(f"{letters}{included}__global__ void k(float* x) {{ x[threadIdx.x] += N; }}\n")
    words = [str(CLANG), "-x", "hip", "--offload-arch=gfx942", "--offload-device-only"]
    words += ["-std=c++17", "-nogpuinc", "-nogpulib", "-isystem", str(HEADERS), "-fsyntax-only"]
    words.append(str(own))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
