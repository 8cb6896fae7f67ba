"""Selection, saved reports and unknown launches, through the command line and the pipeline."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.model import SourceLoc
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

KERNELS = """
import triton
import triton.language as tl

@triton.jit
def gelu(x):
    return 0.5 * x * (1 + tl.erf(x * 0.7071))

@triton.jit
def elementwise(p, q, n, B: tl.constexpr):
    for i in range(0, n):
        x = tl.load(p + i * B + tl.arange(0, B))
        y = gelu(x)
        tl.store(q + i * B + tl.arange(0, B), y)

@triton.jit
def total(p, n, B: tl.constexpr):
    s = tl.zeros([B], tl.float32)
    i = 0
    while i < n:
        s += tl.load(p + i * B + tl.arange(0, B))
        i += 1
    return s

@triton.jit
def outer(p, q, n, B: tl.constexpr):
    a = total(p, n, B)
    tl.store(q + tl.arange(0, B), a)

COMMON = {"signature": {"p": "*fp32:16", "q": "*fp32:16", "n": "i32"}, "constexprs": {"B": 256}}
KINSPECT_CASES = [
    {"name": "a", "kernel": "elementwise", **COMMON},
    {"name": "b", "kernel": "outer", **COMMON},
]
"""

Tool = Callable[..., Any]


@pytest.fixture
def tool(tool_in_process: Tool) -> Tool:
    return tool_in_process


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    pytest.importorskip("triton")
    path = tmp_path / "k.py"
    path.write_text(KERNELS)
    return path


def lines(places: tuple[SourceLoc, ...]) -> tuple[int, int]:
    return places[0].line, places[-1].line


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(KERNELS.split("\n"), 1) if text in line)


def test_a_loop_is_where_its_statement_is_not_where_its_helpers_are(kernels: Path) -> None:
    """`gelu` is most of the loop's instructions; `total` holds the loop that `outer` runs."""
    report = collect(Request((str(kernels),), passes=False))
    by_name = {k.name: k for k in report.kernels}
    (loop,) = [x for x in by_name["elementwise"].loops if x.id == by_name["elementwise"].main_loop]
    assert lines(loop.source) == (line_of("for i in range"), line_of("tl.store(q + i"))
    for loop in by_name["outer"].loops:
        first, last = lines(loop.source)
        assert line_of("while i < n") == first
        assert last <= line_of("i += 1")


def test_target_and_option_must_both_match(tool: Tool, kernels: Path) -> None:
    done = tool("k.py::outer", "--kernel", "b", "--format", "json", "--details", "--no-passes")
    assert [k["name"] for k in json.loads(done.stdout)["kernels"]] == ["outer"]
    done = tool("k.py::outer", "--kernel", "a", "--no-passes")
    assert done.returncode == 2
    done = tool("k.py", "--kernel", "elem*[a]", "--format", "json", "--details", "--no-passes")
    assert [k["name"] for k in json.loads(done.stdout)["kernels"]] == ["elementwise"]


def test_saved_reports_keep_failures_and_can_be_selected_from(tool: Tool, kernels: Path) -> None:
    kernels.write_text(
        KERNELS.replace('"a", "kernel": "elementwise"', '"a", "kernel": "elementwis"')
    )
    first = tool(
        "k.py", "--save", "x.kinspect", "--arch", "gfx942,gfx1201", "--format", "json", "--details"
    )
    assert first.returncode == 2
    again = tool("x.kinspect", "--format", "json", "--details")
    assert again.returncode == 2
    assert json.loads(again.stdout)["errors"] == json.loads(first.stdout)["errors"]
    assert "elementwise" in again.stderr
    one = json.loads(
        tool("x.kinspect", "--arch", "gfx1201", "--format", "json", "--details").stdout
    )
    assert [k["arch"] for k in one["kernels"]] == ["gfx1201"]
    listed = tool("passes", "x.kinspect", "--arch", "gfx942", "--format", "json")
    assert len(json.loads(listed.stdout)["passes"]) > 20


def test_save_takes_only_names_that_can_be_read_back(tool: Tool, small_asm: Path) -> None:
    done = tool("analyze", small_asm, "--save", "out.json")
    assert done.returncode == 2
    assert "out.json.kinspect" in done.stderr


def test_an_unknown_launch_is_an_estimate(tool: Tool, small_asm: Path, tmp_path: Path) -> None:
    """`.max_flat_workgroup_size` is the most a kernel allows, not what it is launched with."""
    text = small_asm.read_text().replace("flat_workgroup_size: 256", "flat_workgroup_size: 1024")
    (tmp_path / "hip.s").write_text(text)
    (kernel,) = json.loads(tool("hip.s", "--format", "json", "--details").stdout)["kernels"]
    assert kernel["metrics"]["waves_per_workgroup"]["origin"] == "estimated"
    assert kernel["metrics"]["occupancy.waves_per_eu"]["origin"] == "estimated"
    assert kernel["metrics"]["occupancy.next_step"]["value"] is None
    assert "≤ 16 waves" in tool("hip.s").stdout
    (kernel,) = json.loads(tool("hip.s", "--waves", "4", "--format", "json", "--details").stdout)[
        "kernels"
    ]
    assert kernel["metrics"]["occupancy.waves_per_eu"]["origin"] == "derived"
    assert kernel["metrics"]["waves_per_workgroup"]["value"] == 4


def test_a_reader_that_goes_away_is_no_error(small_asm: Path) -> None:
    import subprocess
    import sys

    tool = f"{sys.executable} -m kinspect.inspector.cli metrics list"
    command = f"{tool} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_assembly_is_held_against_its_code_object(kernels: Path, tmp_path: Path) -> None:
    """A copy of the assembly with another figure, beside the code object of the real compile."""
    report = collect(Request((str(kernels),), kernel="a", passes=False))
    (kernel,) = report.kernels
    assert not [n for n in kernel.notes if "differ" in n]
    folder = tmp_path / "pair"
    folder.mkdir()
    vgprs = kernel.metrics["vgpr_count"].value
    text = kernel.artifacts["amdgcn"].path.read_text()
    changed = text.replace(f".vgpr_count:     {vgprs}", f".vgpr_count:     {int(str(vgprs)) + 8}")
    assert changed != text
    (folder / "k.amdgcn").write_text(changed)
    (folder / "k.hsaco").write_bytes(kernel.artifacts["hsaco"].path.read_bytes())
    (copy,) = collect(Request((str(folder / "k.amdgcn"),))).kernels
    assert any("differ" in note and "vgpr_count" in note for note in copy.notes)


def test_output_to_a_pipe_is_written_to_not_replaced(
    tool: Tool, small_asm: Path, tmp_path: Path
) -> None:
    """As /dev/null must stay what it is, root or not."""
    import os
    import stat
    import threading

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    done = tool("analyze", small_asm, "--format", "json", "--details", "-o", pipe)
    reader.join(60)
    assert done.returncode == 0, done.stderr
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert json.loads(read[0])["kernels"]
