"""Kernels without a finding are called right only where no figure is far from the least."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from kept_compiles import collect_kept
from kinspect.inspector.explain.view import findings_summary
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from msgspec.structs import replace

pytestmark = pytest.mark.xdist_group("rule fixtures")

FIXTURES = Path(__file__).parent.parent / "rules" / "fixtures"


@pytest.fixture(scope="module")
def kernels() -> Mapping[str, KernelReport]:
    names = ("hip_strides", "hip_limits", "hip_lanes")
    files = tuple(str(FIXTURES / f"{name}_gfx942.s") for name in names)
    return {kernel.name: kernel for kernel in collect(Request(files)).kernels}


@pytest.mark.parametrize(
    ("name", "summary"),
    [
        (
            "row_of_each",
            "no finding, though L0 is limited by 64 cache lines an iteration where 2 would do",
        ),
        ("computes_beside_lds", "no finding, though LDS leaves 2 of 8 waves on a SIMD"),
        (
            "every_second_in_a_loop",
            "no finding, though L0 is limited by the LDS: 4 of 8 cycles are bank conflicts",
        ),
        ("turned_padded", "nothing looks wrong"),
    ],
)
def test_what_no_rule_speaks_of_is_shown(
    kernels: Mapping[str, KernelReport], name: str, summary: str
) -> None:
    assert findings_summary(kernels[name]) == summary


def test_long_forms_that_limit_a_loop_are_shown() -> None:
    """Loops that stream, of which KI046 does not speak; the products of one are not divided."""
    file = str(FIXTURES / "divisions.py")
    report = collect_kept(Request((file,), archs=("gfx942", "gfx1100"), passes=False))
    summary = {
        kernel.variant.case: findings_summary(replace(kernel, findings=()))
        for kernel in report.kernels
        if kernel.variant is not None and kernel.arch == "gfx942"
    }
    assert summary["gate"] == (
        "no finding, though L0 is limited by its instructions: "
        "44 of 77 are those of exact divisions"
    )
    assert summary["dequantise_by_product"] == "nothing looks wrong"
