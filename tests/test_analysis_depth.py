"""A figure is the same by itself as among all others, and only what it needs is worked out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest
from kept_compiles import collect_kept
from kinspect.inspector.lint import settings
from kinspect.inspector.lint.rule import NO_RULES
from kinspect.inspector.metrics import lanes, lds_races, live_registers
from kinspect.inspector.metrics.catalogue import METRICS
from kinspect.inspector.metrics.kernel import Asked
from kinspect.inspector.metrics.stages import Families, Family, Figures
from kinspect.inspector.model import KernelReport, Metric, MetricSpec
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions, Context
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.pipeline.lint_plan import LintOptions, make_plan
from kinspect.inspector.pipeline.linting import analysis_for
from msgspec.structs import replace

FIXTURES = Path(__file__).parent.parent / "rules" / "fixtures"
ASSEMBLY = (
    "hip_lanes_gfx942.s", "hip_lines_gfx942.s", "hip_arrays_gfx942.s", "races_gfx942.s",
    "waits_gfx942.s", "registers_gfx942.s", "hip_elements_gfx942.s", "hip_operands_gfx942.s",
    "hip_unchanged_gfx942.s",
)  # fmt: skip
KERNEL = re.compile(r"^\s*\.amdhsa_kernel\s+(\w+)", re.M)
READ = ("amdgcn", "metadata", "ttgir")
TRITON = ("latency.py", "atomics.py", "product.py", "structure.py")


def contexts(each: int) -> list[tuple[str, Context]]:
    """Assembly with what is known of it: the first kernel of fixtures of rules, hand-written and
    compiled.

    Args:
        each: every which kernel of a file counts.
    """
    pytest.importorskip("triton")
    inputs = [
        (text, Context(name, patterns=(next(KERNEL.finditer(text))[1],)))
        for name in ASSEMBLY
        for text in [(FIXTURES / name).read_text()]
    ]
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
def test_a_figure_is_the_same_by_itself_as_among_all(each: int) -> None:
    """A rule that is asked alone would find something else otherwise."""
    families = [f for f in METRICS.listed if f.kernel or f.region or f.loops]
    for number, (text, context) in enumerate(contexts(each)):
        (whole, *_) = analyze_text(text, replace(context, analysis=AnalysisOptions(rules=NO_RULES)))
        all_figures = figures(whole)
        step = 5 if each == 4 else 12  # how many kernels share the families out
        for family in families[number % step :: step]:
            names = sorted(spec.name for spec in family.specs if "*" not in spec.name)
            options = AnalysisOptions(rules=NO_RULES, asked=Asked(tuple(names), values=False))
            (alone, *_) = analyze_text(text, replace(context, analysis=options))
            expected = {key: value for key, value in all_figures.items() if key[1] in names}
            assert figures(alone) == expected, names


def test_what_rules_do_not_read_is_not_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rules of counts: neither lanes nor races nor live registers are followed."""

    def must_not_run(*_: object) -> NoReturn:
        raise AssertionError

    monkeypatch.setattr(lanes, "kernel_lanes", must_not_run)
    monkeypatch.setattr(lds_races, "followed", must_not_run)
    monkeypatch.setattr(live_registers, "followed", must_not_run)
    plan = make_plan(LintOptions(select=("KI003", "KI056", "KI064")), settings.Settings())
    text = (FIXTURES / "hip_lanes_gfx942.s").read_text()
    asked = analysis_for(plan)
    (report, *_) = analyze_text(text, replace(Context("k.s"), analysis=asked))
    assert asked.asked is not None
    assert set(report.metrics) <= set(asked.asked.metrics)
    assert {"count.scratch_load", "count.valu", "atomics"} <= set(report.metrics)
    with pytest.raises(AssertionError):
        analyze_text(text, Context("k.s"))


def test_metrics_that_need_each_other_are_an_error() -> None:
    spec = MetricSpec("one", "", "derived", "kernel", "")
    families = Families((Family((spec,), kernel=lambda _: ()),))
    figures_of: Figures = Figures(families, lambda _: iter([figures_of["one"]]))
    with pytest.raises(RuntimeError, match="one: made of themselves"):
        figures_of["one"]
