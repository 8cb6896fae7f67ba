"""The advice that comes first is that which may save most; what cannot run is not tuned."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from kept_compiles import collect_kept
from kinspect.inspector.model import KernelReport, Report
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.present.report import write_text

ROOT = Path(__file__).parent.parent


def compiled(file: str, case: str) -> KernelReport:
    pytest.importorskip("triton")
    (kernel,) = collect_kept(
        Request((str(ROOT / file),), ("gfx942",), kernel=f"*{case}*", passes=False)
    ).kernels
    return kernel


def shown(kernel: KernelReport) -> str:
    stream = io.StringIO()
    write_text(Report("t", {}, (kernel,), ()), stream, color=False)
    return " ".join(stream.getvalue().split())


def test_an_option_that_buys_nothing_goes_before_the_tile() -> None:
    """LDS lets one wave in, two are asked for: with waves_per_eu=0 the loops spill nothing."""
    kernel = compiled("kernels/flash_attn.py", "d256_causal_128x64")
    assert kernel.metrics["occupancy.by_lds"].value == 1
    assert kernel.metrics["option.waves_per_eu"].value == 2
    first, *others = kernel.findings
    assert (first.rule, first.severity) == ("KI038", "warning")
    assert first.fix.startswith("Set waves_per_eu=0 (or at most 1)")
    told = {finding.rule for finding in others}
    assert not told & {"KI001", "KI037"}, "the same spills, told again"
    assert first.tried is not None
    assert first.tried.count >= 3
    assert f"(tried: helped {first.tried.helped} of {first.tried.count})" in shown(kernel)


def test_of_a_kernel_that_cannot_launch_nothing_is_tuned() -> None:
    kernel = compiled("rules/fixtures/product.py", "too_much_lds")
    assert [finding.rule for finding in kernel.findings] == ["KI005"]
    page = shown(kernel)
    assert "cannot launch" in page
    assert "narrow:" not in page
    assert "would give" not in page
    assert page.count("KI0") == 1
