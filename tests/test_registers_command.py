"""`kinspect registers`: what the registers hold, in text and JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parent / "data"
SCRIPT = """
    import triton
    import triton.language as tl

    @triton.jit
    def scaled(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < n
        weight = tl.load(y_ptr + offsets, mask=inside)
        total = tl.zeros((BLOCK,), tl.float32)
        for step in range(4):
            row = tl.load(x_ptr + step * n + offsets, mask=inside)
            total += row * weight
        tl.store(out_ptr + offsets, total, mask=inside)

    import torch
    x, y, out = (torch.empty(4096, device="cuda") for _ in range(3))
    scaled[(1,)](x, y, out, 4000, BLOCK=4096, num_warps=1)
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("registers") / "scaled.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return path


def test_values_have_the_names_of_the_source(tool: Callable[..., Any], script: Path) -> None:
    pytest.importorskip("triton")
    done = tool("registers", str(script), "--arch", "gfx942", "--format", "json")
    assert done.returncode == 0, done.stderr
    (kernel,) = json.loads(done.stdout)["kernels"]
    peak = kernel["peak"]
    held = {value["name"]: value for value in peak["values"] if value["kind"] != "address"}
    # 4096 elements of 32 bits for 64 lanes.
    assert held["weight"]["vgprs"] == held["total"]["vgprs"] == 64
    assert held["weight"]["type"] == held["total"]["type"] == "4096xf32"
    assert held["weight"]["source"]["line"] == 9
    assert held["total"]["source"]["line"] == 13
    assert sum(value["vgprs"] for value in peak["values"]) == peak["vgprs"] <= kernel["vgpr_count"]
    assert max(vgprs for _, vgprs, _ in kernel["counts"]) == peak["vgprs"]
    assert {"waves_per_eu": 2, "vgprs": 256} in kernel["levels"]


@pytest.mark.slow
def test_nothing_depends_on_the_order_of_sets(tool: Callable[..., Any], script: Path) -> None:
    pytest.importorskip("triton")
    first, second = (
        tool("registers", str(script), "--format", "json", env={"PYTHONHASHSEED": seed}).stdout
        for seed in "12"
    )
    assert json.loads(first)["kernels"]
    assert first == second


def test_assembly_has_lines_and_steps(tool: Callable[..., Any]) -> None:
    done = tool("registers", str(DATA / "small_gfx942.s"), "--no-color")
    assert done.returncode == 0, done.stderr
    assert "6 of 40 VGPRs and 16 AGPRs live, at ISA 16 (global_load_dwordx4" in done.stdout
    assert "in loop L0" in done.stdout
    assert "result of a dot" in done.stdout  # of a matrix instruction
    assert "^" in done.stdout


def test_what_was_not_read_is_said(tool: Callable[..., Any], tmp_path: Path) -> None:
    text = (DATA / "small_gfx942.s").read_text()
    strange = tmp_path / "strange.s"
    strange.write_text(text.replace("\ts_nop 15\n", "\ts_setpc_b64 s[2:3]\n"))
    done = tool("registers", strange)
    assert "not known: not all of the code was read" in done.stdout
    empty = tmp_path / "empty.s"
    empty.write_text("; nothing\n")
    done = tool("registers", empty)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) <= 2
