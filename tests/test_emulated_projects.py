"""`kinspect emulate` in a checkout: what it imports, and each configuration by itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

Tool = Callable[..., Any]


@pytest.fixture
def tool(emulating_tool: Tool) -> Tool:
    return emulating_tool


KERNEL = """
import triton
import triton.language as tl


@triton.autotune(configs=[CONFIGS], key=["n"])
@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr, SHORT: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n - SHORT
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, inside), inside)
"""
GOOD = "triton.Config({'BLOCK': 64, 'SHORT': 0})"
LEAVES_ROWS = "triton.Config({'BLOCK': 32, 'SHORT': 16}, num_warps=2, num_stages=2)"
OPERATION = """
import torch
import triton

from .kernels.copying import copy


def run(x):
    out = torch.empty_like(x)
    copy[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out


if __name__ == "__main__":
    x = torch.arange(100, device="cuda")
    assert torch.equal(run(x), x)
    print("copied by", __package__)
"""
TESTS = """
import torch

from some_package.operation import run


def test_copy():
    x = torch.randn(256, device="cuda")
    torch.testing.assert_close(run(x), x)
"""


def project(folder: Path, *configs: str) -> None:
    """A checkout with its package below src/, which is not installed."""
    package = folder / "src" / "some_package"
    (package / "kernels").mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "pyproject.toml").write_text("[project]\nname = 'some-package'\nversion = '1'\n")
    (package / "__init__.py").touch()
    (package / "kernels" / "__init__.py").touch()
    (package / "kernels" / "copying.py").write_text(KERNEL.replace("CONFIGS", ", ".join(configs)))
    (package / "operation.py").write_text(OPERATION)
    (folder / "tests" / "test_copy.py").write_text(TESTS)


def test_the_checkout_is_imported(tool: Tool, tmp_path: Path) -> None:
    project(tmp_path, GOOD)
    done = tool("emulate", "tests/test_copy.py", "--", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    done = tool("emulate", "src/some_package/operation.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "copied by some_package\n" in done.stdout


def test_pytest_is_missing(tool: Tool, tmp_path: Path) -> None:
    project(tmp_path, GOOD)
    hiding = tmp_path / "hiding"
    hiding.mkdir()
    (hiding / "pytest.py").write_text("raise ModuleNotFoundError('it is not here', name='pytest')")
    done = tool("emulate", "tests/test_copy.py", env={"PYTHONPATH": str(hiding)})
    assert done.returncode == 125
    assert done.stdout == ""
    error, command = done.stderr.splitlines()
    assert error.startswith("kinspect: error: ")
    assert command.strip() == f"{sys.executable} -m pip install pytest"


def test_a_configuration_that_leaves_rows_fails(tool: Tool, tmp_path: Path) -> None:
    """No other configuration writes them for it, neither before nor after it."""
    project(tmp_path, GOOD, LEAVES_ROWS)
    first_alone = tool("emulate", "tests/test_copy.py", "--", "-q")
    assert first_alone.returncode == 0, first_alone.stdout + first_alone.stderr
    assert "of an autotuner's 2 configurations 1 ran" in first_alone.stdout
    assert "not measured" not in first_alone.stderr  # only the autotuner asked for a time
    done = tool("emulate", "tests/test_copy.py", "--configs", "all", "--format", "json", "-o", "e")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "once more, with configuration 2 of 2" in done.stderr
    result = json.loads((tmp_path / "e").read_text())
    (failure,) = result["failures"]
    assert failure["config"] == "copy: BLOCK=32 SHORT=16 num_warps=2 num_stages=2"
    # Each ran twice, for its time and for its result: of 256 elements all, and all but 16.
    workgroups = [(kernel["launches"], kernel["workgroups"]) for kernel in result["kernels"]]
    assert workgroups == [(2, 2 * 256 // 64), (2, 2 * 256 // 32)]


@pytest.mark.slow
def test_the_good_configuration_alone_passes(tool: Tool, tmp_path: Path) -> None:
    project(tmp_path, GOOD, GOOD.replace("64", "128"))
    done = tool("emulate", "tests/test_copy.py", "--configs", "all", "--", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("1 passed") == 2
