"""What wider accesses save at most, against the same kernel with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

SCRIPT = """\
import torch, triton, triton.language as tl

@triton.jit
def scaled(x, y, rows, pitch, stride, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for row in range(rows):
        values = tl.load(x + row * pitch + cols * stride)
        tl.store(y + row * pitch + cols * stride, values * 0.5)

@triton.jit
def scaled_neighbours(x, y, rows, pitch, stride: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for row in range(rows):
        values = tl.load(x + row * pitch + cols * stride)
        tl.store(y + row * pitch + cols * stride, values * 0.5)

x = torch.zeros((64, 8192), dtype=torch.float16)
scaled[(4,)](x, x, 64, 8192, 2, 2048)
scaled_neighbours[(4,)](x, x, 64, 8192, 1, 2048)
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, str], KernelReport]:
    pytest.importorskip("triton")
    script = Path(tmp_path_factory.mktemp("wide")) / "wide.py"
    script.write_text(SCRIPT)
    report = collect(Request((str(script),), ("gfx942", "gfx1100"), passes=False))
    assert not report.errors
    return {(kernel.name, kernel.arch or ""): kernel for kernel in report.kernels}


def cycles_of_an_element(kernel: KernelReport) -> float:
    """Cycles that one pass of the main loop takes at least, for each byte that a lane moves."""
    (loop,) = (loop for loop in kernel.loops if loop.id == kernel.main_loop)
    bound, moved = (loop.metrics[name].value for name in ("bound.longest", "bytes.global_load"))
    assert isinstance(bound, Mapping)
    assert isinstance(bound["cycles"], int | float)
    assert isinstance(moved, int)
    return bound["cycles"] / moved


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_wider_accesses_save_no_more_than_is_said(
    kernels: Mapping[tuple[str, str], KernelReport], arch: str
) -> None:
    narrow, wide = (kernels[name, arch] for name in ("scaled", "scaled_neighbours"))
    findings = [finding for finding in narrow.findings if finding.rule == "KI024"]
    assert len(findings) == 2  # loads and stores
    saved = 100 - 100 * cycles_of_an_element(wide) / cycles_of_an_element(narrow)
    for finding in findings:
        assert finding.saves_percent is not None
        assert saved - 0.1 <= finding.saves_percent <= saved + 10
    assert not [finding for finding in wide.findings if finding.rule == "KI024"]
