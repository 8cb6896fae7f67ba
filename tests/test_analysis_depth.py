"""What lint leaves out of an analysis changes no figure that its rules read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from kept_compiles import collect_kept
from kinspect.inspector.lint.rule import NO_RULES
from kinspect.inspector.model import KernelReport, Metric
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions
from kinspect.inspector.pipeline.context import Context
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.pipeline.lint_plan import RESTS_ON_LANES, RESTS_ON_RACES
from msgspec.structs import replace

FIXTURES = Path(__file__).parent.parent / "rules" / "fixtures"
ASSEMBLY = (
    "hip_lanes_gfx942.s", "hip_lines_gfx942.s", "hip_arrays_gfx942.s", "races_gfx942.s",
    "waits_gfx942.s", "registers_gfx942.s", "hip_elements_gfx942.s", "hip_operands_gfx942.s",
    "hip_unchanged_gfx942.s",
)  # fmt: skip
READ = ("amdgcn", "metadata", "ttgir")
TRITON = ("latency.py", "atomics.py", "product.py", "structure.py")


def contexts(each: int) -> list[tuple[str, Context]]:
    """Assembly with what is known of it: fixtures of rules, hand-written and compiled.

    Args:
        each: every which kernel of a file counts.
    """
    pytest.importorskip("triton")
    inputs = [((FIXTURES / name).read_text(), Context(name)) for name in ASSEMBLY]
    least = AnalysisOptions(rules=NO_RULES, lanes=False, races=False, values=False)
    for name in TRITON:
        file = str(FIXTURES / name)
        compiled = collect_kept(Request((file,), ("gfx942",), passes=False, analysis=least))
        for kernel in compiled.kernels[::each]:
            code = {
                kind: its.path.read_text() for kind, its in kernel.artifacts.items() if kind in READ
            }
            context = Context(
                name,
                metadata=json.loads(code["metadata"]),
                ttgir=code["ttgir"],
                variant=kernel.variant,
            )
            inputs.append((code["amdgcn"], context))
    assert len(inputs) >= (20 if each <= 4 else 12)
    return inputs


def figures(report: KernelReport) -> dict[tuple[str, str], object]:
    regions: Mapping[str, Mapping[str, Metric]] = {
        "": report.metrics,
        **{loop.id: loop.metrics for loop in report.loops},
    }
    return {(of, m.name): m.value for of, metrics in regions.items() for m in metrics.values()}


@pytest.mark.xdist_group("rule fixtures")  # they compile the same kernels
@pytest.mark.parametrize("each", [12, pytest.param(4, marks=pytest.mark.slow)])
def test_figures_that_rest_on_what_is_left_out_are_known(each: int) -> None:
    """A rule that reads another figure would find something else by itself than among others."""
    without = {
        "lanes": AnalysisOptions(rules=NO_RULES, lanes=False),
        "races": AnalysisOptions(rules=NO_RULES, races=False),
        "values": AnalysisOptions(rules=NO_RULES, values=False),
    }
    changed: dict[str, set[str]] = {part: set() for part in without}
    for text, context in contexts(each):
        whole = analyze_text(text, replace(context, analysis=AnalysisOptions(rules=NO_RULES)))
        for part, options in without.items():
            for full, lean in zip(
                whole, analyze_text(text, replace(context, analysis=options)), strict=True
            ):
                left, right = figures(full), figures(lean)
                keys = left.keys() | right.keys()  # a figure may be missing
                changed[part] |= {key[1] for key in keys if left.get(key) != right.get(key)}
    assert changed["lanes"] <= RESTS_ON_LANES
    assert changed["races"] <= RESTS_ON_RACES
    assert not changed["values"]
    assert {"latency.exposed", "lds.conflict_cycles", "cache.lines"} <= changed["lanes"]
    assert "lds.races" in changed["races"]
