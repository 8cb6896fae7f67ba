"""`--set NAME=VALUE`: opens one point of a sweep."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.capture.sweep_axes import Axis, point_of

pytestmark = pytest.mark.usefixtures("shared_guests")

SMALL = Path(__file__).parent / "data" / "small_gfx942.s"
KERNELS = """
import torch
import triton
import triton.language as tl

@triton.autotune([triton.Config({"BLOCK": 256}, num_warps=2),
                  triton.Config({"BLOCK": 512}, num_warps=4)], key=["n"])
@triton.jit
def scale(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)

@triton.jit
def clear(x_ptr, WIDTH: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, WIDTH), 0.0)

x = torch.ones(384, device="cuda")
scale[(1,)](x, 384)
clear[(1,)](x, WIDTH=128)
"""


@pytest.fixture
def tool(tool_in_process: Callable[..., Any]) -> Callable[..., Any]:
    return tool_in_process


@pytest.fixture
def script(tmp_path: Path) -> Path:
    pytest.importorskip("triton")
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    return path


def analysed(tool: Callable[..., Any], *arguments: str | Path) -> dict[str, Any]:
    done = tool("analyze", *arguments, "--format", "json", "--details", "--no-passes")
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_a_point_has_one_value_of_each_name() -> None:
    assert point_of(["BLOCK=0x40", "EVEN=true", "x=word"]) == (
        Axis("BLOCK", (64,)), Axis("EVEN", (True,)), Axis("x", ("word",)),
    )  # fmt: skip
    with pytest.raises(KinspectError, match=r"BLOCK: 2 values \(64, 128\)"):
        point_of(["BLOCK=64", "BLOCK=128"])
    with pytest.raises(KinspectError, match="3 values"):
        point_of(["num_warps=1..3"])


def test_the_point_of_a_sweep_is_opened(tool: Callable[..., Any], script: Path) -> None:
    values = ["--set", "BLOCK=1024", "--set", "num_warps=1", "--set", "waves_per_eu=2"]
    report = analysed(tool, script, *values)
    (scale,) = (kernel for kernel in report["kernels"] if kernel["name"] == "scale")
    assert scale["variant"]["constexprs"]["BLOCK"] == 1024
    assert scale["variant"]["options"]["num_warps"] == 1
    assert scale["variant"]["options"]["waves_per_eu"] == 2
    swept = tool("sweep", f"{script}::scale", *values, "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(swept.stdout))
    assert scale["metrics"]["vgpr_count"]["value"] == int(row["vgprs [registers]"])
    # An option of the backend is set for every kernel, a parameter for those that have it.
    (clear,) = (kernel for kernel in report["kernels"] if kernel["name"] == "clear")
    assert clear["variant"]["options"]["waves_per_eu"] == 2
    assert clear["variant"]["constexprs"] == {"WIDTH": 128}


def test_all_configurations_where_they_are_asked_for(
    tool: Callable[..., Any], script: Path
) -> None:
    arguments = f"{script}::scale", "--set", "waves_per_eu=2"
    assert len(analysed(tool, *arguments)["kernels"]) == 1
    assert len(analysed(tool, *arguments, "--max-configs", "all")["kernels"]) == 2


@pytest.mark.parametrize("command", ["analyze", "lint", "registers", "layout", "passes"])
def test_an_unknown_name_is_one_line_with_those_that_exist(
    command: str, tool: Callable[..., Any], script: Path
) -> None:
    # A name that only the second kernel has is known.
    target = f"{script}::scale" if command in ("layout", "passes") else str(script)
    done = tool(command, target, "--set", "BLOK=64", "--set", "num_warps=2")
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert "--set BLOK: neither a parameter of a kernel nor an option" in line
    assert "did you mean BLOCK?" in line
    assert "x_ptr, n, BLOCK" in line
    assert "waves_per_eu" in line
    assert done.stdout == ""


def test_a_name_of_the_last_target_is_known(
    tool: Callable[..., Any], script: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.py"
    other.write_text(KERNELS.replace("WIDTH", "LENGTH"))
    done = tool("analyze", script, other, "--set", "LENGTH=256", "--format", "json", "--details")
    assert done.returncode == 0, done.stderr
    values = [
        next(iter(kernel["variant"]["constexprs"].values()))
        for kernel in json.loads(done.stdout)["kernels"]
        if kernel["name"] == "clear"
    ]
    assert values == [128, 256]


def test_what_is_compiled_already_has_no_point(tool: Callable[..., Any]) -> None:
    for command in ("analyze", "passes"):
        done = tool(command, SMALL, "--set", "num_warps=2")
        assert done.returncode == 2
        assert "it is compiled already, so that --set cannot change it" in done.stderr


def test_a_parameter_that_cannot_be_set_is_an_error(
    tool: Callable[..., Any], tmp_path: Path
) -> None:
    pytest.importorskip("triton")
    path = tmp_path / "stated.py"
    path.write_text(KERNELS.split("x = torch")[0])
    done = tool(
        "analyze", f"{path}::clear", "--signature", "*fp32:16", "-D", "WIDTH=64", "--set", "x_ptr=1"
    )
    assert done.returncode == 2
    assert "--set x_ptr: clear has this parameter, but it cannot be varied here" in done.stderr
