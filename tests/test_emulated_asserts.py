"""Checks of results under `kinspect emulate`: each fails where the result is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
pytest.importorskip("numpy")

Tool = Callable[..., Any]


@pytest.fixture
def tool(emulating_tool: Tool) -> Tool:
    return emulating_tool


KERNEL = """
import unittest

import numpy as np
import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, out_ptr, n_stored, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i) * FACTOR, mask=i < n_stored)


def scaled(factor, n_stored=64, dtype=torch.float32):
    x = torch.ones(64, device="cuda", dtype=dtype)
    out = torch.empty_like(x)
    scale[(1,)](x, out, n_stored, FACTOR=factor, BLOCK=64)
    return x, out
"""

CHECKS = (
    KERNEL
    + """
close, case = torch.testing.assert_close, unittest.TestCase()
CHECKS = {
    "assert_close": lambda a, b: torch.testing.assert_close(a, b),
    "assert_close imported": lambda a, b: close(a, b),
    "assert_close on the host": lambda a, b: torch.testing.assert_close(a.cpu(), b.cpu()),
    "assert_close of lists": lambda a, b: torch.testing.assert_close([a], [b]),
    "assert_close of numbers": lambda a, b: torch.testing.assert_close(float(a[0]), float(b[0])),
    "assert_allclose": lambda a, b: torch.testing.assert_allclose(a, b),
    "triton assert_close": lambda a, b: triton.testing.assert_close(a, b),
    "torch._assert": lambda a, b: torch._assert(torch.equal(a, b), ""),
    "torch.allclose": lambda a, b: case.assertTrue(torch.allclose(a, b)),
    "Tensor.allclose": lambda a, b: case.assertTrue(a.allclose(b)),
    "torch.equal": lambda a, b: case.assertTrue(torch.equal(a, b)),
    "torch.isclose": lambda a, b: case.assertTrue(torch.isclose(a, b).all()),
    "==": lambda a, b: case.assertTrue((a == b).all()),
    "greatest difference": lambda a, b: case.assertLess((a - b).abs().max().item(), 1e-3),
    "float of it": lambda a, b: case.assertLess(float((a - b).abs().max()), 1e-3),
    "unittest lists": lambda a, b: case.assertEqual(a[:2].tolist(), b[:2].tolist()),
    "unittest numbers": lambda a, b: case.assertAlmostEqual(a[0].item(), b[0].item()),
    "approx": lambda a, b: case.assertTrue(a[0].item() == pytest.approx(b[0].item())),
    "approx of lists": lambda a, b: case.assertTrue(a.tolist() == pytest.approx(b.tolist())),
    "np.allclose": lambda a, b: case.assertTrue(np.allclose(a.cpu(), b.cpu())),
    "np.array_equal": lambda a, b: case.assertTrue(np.array_equal(a.cpu(), b.cpu())),
}
for name in ("allclose", "array_equal", "equal", "array_almost_equal", "almost_equal"):
    check = getattr(np.testing, f"assert_{name}")
    CHECKS[f"np.testing {name}"] = lambda a, b, check=check: check(a.cpu().numpy(), b.cpu().numpy())


def passes(check, a, b):
    try:
        check(a, b)
    except AssertionError:
        return False
    return True


for what, factor, n_stored in (("right", 2, 64), ("wrong", 3, 64), ("unwritten", 2, 0)):
    x, out = scaled(factor, n_stored)
    # What nobody wrote is compared with ones, which stand-in contents might be.
    expected = x * 2 if n_stored else x
    print(what, sorted(name for name, check in CHECKS.items() if passes(check, out, expected)))
_, counts = scaled(1, 0, torch.int32)
print("unwritten integers", torch.equal(counts, torch.zeros_like(counts)))
print("all", sorted(CHECKS))
print("nan", torch.full((2,), float("nan"), device="cuda").max().item())


@triton.testing.perf_report(triton.testing.Benchmark(
    x_names=["n"], x_vals=[8], line_arg="p", line_vals=["a"], line_names=["a"], plot_name="p",
    args={}, ylabel=""))
def bench(n, p):
    torch.testing.assert_close(x, x + 1)


bench.run()
"""
)

UNKNOWN = (
    KERNEL
    + """
x, out = scaled(2)
half = torch.ones(4, device="cuda", dtype=torch.float16)
values = torch.special.bessel_j0(half)  # the CPU has none of this type
torch.testing.assert_close(values, values + 1)
np.testing.assert_allclose(values.cpu().numpy(), 1 + values.cpu().numpy())
for _ in range(3):
    assert triton.testing.do_bench(lambda: None) < 1000
torch.testing.assert_close(out, x * 2)
"""
)

SAMPLE = (
    KERNEL
    + """
x, out = scaled(3)
torch.testing.assert_close(out, x * 2)
assert torch.allclose(out, x * 2)
"""
)


def test_each_check_of_a_result_compares(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(CHECKS)
    done = tool("emulate", "script.py", "--arch", "gfx942")
    lines = dict(re.findall(r"^(\w[\w ]*) (\[.*\])$", done.stdout, re.MULTILINE))
    assert lines["right"] == lines["all"], done.stderr
    assert lines["wrong"] == lines["unwritten"] == "[]"
    assert "unwritten integers False" in done.stdout
    assert "nan nan" in done.stdout
    # What a benchmark's function raises ends the script.
    assert done.returncode == 1
    assert "in bench" in done.stderr
    assert "could not mean anything" not in done.stdout


def test_checks_of_what_is_not_known_are_counted(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(UNKNOWN)
    done = tool("emulate", "script.py", "--arch", "gfx942")
    assert done.returncode == 0, done.stderr
    assert "could not mean anything: values are not known here" in done.stdout
    first = KERNEL.count("\n") + 5
    assert f"script.py:{first}: assert_close() of results that are not known" in done.stdout
    assert f"script.py:{first + 1}: assert_allclose() of results" in done.stdout
    assert f"script.py:{first + 3}: a time, which is not measured < 1000 (3 times)" in done.stdout
    assert f"script.py:{first + 4}:" not in done.stdout


@pytest.mark.slow
def test_checks_of_a_sample_are_counted_and_pass(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SAMPLE)
    done = tool("emulate", "script.py", "--sample", "1", "--format", "json", "-o", "out.json")
    assert done.returncode == 0, done.stderr
    checks = json.loads((tmp_path / "out.json").read_text())["unjudged"]
    first = KERNEL.count("\n") + 3
    assert [(check["line"], check["count"]) for check in checks] == [(first, 1), (first + 1, 1)]
