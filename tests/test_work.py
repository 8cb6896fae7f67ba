"""Needed work: what the source asks for, by hand, against what the compiler made of the loops."""

from __future__ import annotations

from math import isclose
from pathlib import Path

import pytest
from kinspect.inspector.compare.diff import diff_view
from kinspect.inspector.compare.diff.reports import (
    DiffOptions,
    NamedReport,
    diff_kernels,
    diff_reports,
)
from kinspect.inspector.compare.diff.tolerances import Tolerances, tolerances_of
from kinspect.inspector.formats import diff_json
from kinspect.inspector.metrics.bounds import UNITS
from kinspect.inspector.model import KernelReport, Report
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from msgspec.structs import replace

pytest.importorskip("triton")
pytestmark = [pytest.mark.xdist_group("work"), pytest.mark.usefixtures("shared_guests")]

KERNELS = Path(__file__).parent / "data" / "work_kernels.py"


@pytest.fixture(scope="module")
def reports() -> dict[str, KernelReport]:
    report = collect(Request((str(KERNELS),), ("gfx950",), jobs=2, passes=False))
    assert not report.errors
    return {k.variant.case or "": k for k in report.kernels if k.variant is not None}


def of_main_loop(report: KernelReport) -> tuple[object, ...]:
    loop = next(loop for loop in report.loops if loop.id == report.main_loop)
    return (loop.unroll, loop.metrics["work.macs"].value, loop.metrics["work.loaded"].value)


def bound_per_million(report: KernelReport) -> float:
    """Cycles of the CU that the slowest unit takes for a million multiply-accumulates."""
    inside = next(loop for loop in report.loops if loop.id == report.main_loop).metrics
    resident, macs = report.metrics["occupancy.workgroups_per_cu"].value, inside["work.macs"].value
    assert isinstance(resident, int)
    assert isinstance(macs, int)
    cycles = (inside[f"bound.{unit}"].value for unit in UNITS if f"bound.{unit}" in inside)
    slowest = max(value for value in cycles if isinstance(value, int | float))
    return slowest / (resident * macs / 1e6)


def of_kernel(report: KernelReport) -> tuple[object, ...]:
    return (report.metrics["work.macs"].value, report.metrics["work.loaded"].value)


def test_an_unrolled_loop_needs_the_work_of_all_its_source_iterations(
    reports: dict[str, KernelReport],
) -> None:
    """LLVM does several iterations of 64 × 64 × 32 in one."""
    unroll, macs, loaded = of_main_loop(reports["twice"])
    assert isinstance(unroll, int)
    assert unroll > 1
    assert (macs, loaded) == (unroll * 64 * 64 * 32, unroll * (64 * 32 + 32 * 64))


def test_pipelining_changes_no_need(reports: dict[str, KernelReport]) -> None:
    """The dot has copies behind the loop, and the loads have some before it."""
    unroll, macs, loaded = of_main_loop(reports["staged"])
    assert isinstance(unroll, int)
    assert (macs, loaded) == (unroll * 64 * 64 * 64, unroll * 2 * 64 * 64)


def test_waves_that_repeat_work_do_not_add_to_the_need(reports: dict[str, KernelReport]) -> None:
    loop = next(x for x in reports["wide"].loops if x.id == reports["wide"].main_loop)
    unroll, macs, _ = of_main_loop(reports["wide"])
    assert isinstance(unroll, int)
    assert macs == unroll * 64 * 64 * 32
    # The MFMAs of all eight waves do at least that: 16·16·16 or 32·32·8 each, with redundancy.
    issued = 0
    kinds = loop.metrics["matrix.instructions"].value
    assert isinstance(kinds, dict)
    for name, count in kinds.items():
        m, n, k = map(int, name.split("_")[3].split("x"))
        issued += 8 * count * m * n * k
    assert issued >= macs


def test_a_dot_that_is_lowered_to_three_is_needed_once(reports: dict[str, KernelReport]) -> None:
    """fp32 by three dots in bf16: the matrix unit does three times what the source asks for."""
    report = reports["split"]
    loop = next(x for x in report.loops if x.id == report.main_loop)
    kinds = loop.metrics["matrix.instructions"].value
    assert isinstance(kinds, dict)
    assert all("bf16" in name for name in kinds)
    assert of_main_loop(report)[:2] == (1, 64 * 64 * 32)


def test_a_loop_without_dots_is_measured_by_its_loads(reports: dict[str, KernelReport]) -> None:
    report = reports["each"]
    loop = next(x for x in report.loops if x.id == report.main_loop)
    _, macs, loaded = of_main_loop(report)
    assert macs == 0
    assert isinstance(loaded, int)
    bytes_of_a_lane = loop.metrics["bytes.global_load"].value
    assert bytes_of_a_lane * 4 * 64 == loaded * 4  # 4 waves of 64 lanes, 4 bytes an element
    assert loaded % (2 * 1024) == 0


def test_kernels_without_loops_are_measured_as_a_whole(reports: dict[str, KernelReport]) -> None:
    assert of_kernel(reports["no_loop"]) == (0, 2 * 512)
    assert of_kernel(reports["larger"]) == (0, 2 * 1024)
    assert not reports["whole"].loops  # the compiler unrolled it to the end
    assert of_kernel(reports["whole"]) == (0, 1024)


def test_a_kernel_with_loops_has_no_figure_as_a_whole(reports: dict[str, KernelReport]) -> None:
    assert of_kernel(reports["each"]) == (None, None)
    assert reports["each"].metrics["work.loaded"].note


# --------------------------------------------------------------------------- compared


def test_a_larger_tile_is_no_regression_for_doing_more(reports: dict[str, KernelReport]) -> None:
    """Twice the elements in twice as many instructions or fewer."""
    pair = diff_kernels(reports["no_loop"], reports["larger"], Tolerances({}))
    assert not pair.of("regression", matters=True)
    back = diff_kernels(reports["larger"], reports["no_loop"], Tolerances({}))
    assert not back.of("improvement", matters=True)


def test_loops_of_two_tiles_are_compared_per_needed_work(reports: dict[str, KernelReport]) -> None:
    """Whatever the compiler unrolled: figures are for the same multiply-accumulates."""
    narrow, deep = reports["twice"], reports["staged"]
    pair = diff_kernels(narrow, deep, Tolerances({}))
    (loops,) = pair.loops
    needed = [of_main_loop(side)[1] for side in (narrow, deep)]
    assert isinstance(needed[0], int)
    assert isinstance(needed[1], int)
    divisors = loops.basis.divisors
    assert divisors is not None
    assert divisors[1] / divisors[0] == needed[1] / needed[0]
    # The same MFMAs for the same work: neither better nor worse, and not unknown.
    assert not [c for c in pair.changes if c.name == "cycles.mfma"]
    assert not pair.of("unknown")


@pytest.mark.parametrize(("before", "after"), [("twice", "staged"), ("twice", "square")])
def test_figures_of_a_loop_are_per_needed_work(
    reports: dict[str, KernelReport], before: str, after: str
) -> None:
    """In the same words whatever was changed, the bound too."""
    sides = reports[before], reports[after]
    for left, right in (sides, sides[::-1], (sides[0], eight_waves(sides[0]))):
        pair = diff_kernels(left, right, Tolerances({}))
        (loops,) = pair.loops
        assert (loops.basis.words, loops.basis.work) == (
            "per MMAC, all waves of the workgroup together",
            "mac",
        )
        bases = {change.basis for change in pair.changes if change.basis}
        assert bases <= {loops.basis.words}
        assert loops.bound_per_work is not None
        for side, cycles in zip((left, right), loops.bound_per_work, strict=True):
            assert cycles == pytest.approx(bound_per_million(side))
        named = NamedReport("A", of(left)), NamedReport("B", of(right))
        compared = diff_reports(*named, DiffOptions(Tolerances({})), lambda _: None)
        (document,) = diff_json.to_dict(compared)["pairs"]
        (told,) = document["loops"]
        assert told["work_unit"] == "mac"
        assert told["bound_per_work"] == list(loops.bound_per_work)
        changed = {change.name: change for change in pair.changes}
        if not isclose(*loops.bound_per_work):
            assert changed["bound.cycles"].basis == loops.basis.words
        rows = {row.label for row in diff_view.scorecards(loops)}
        assert "bound per MMAC" in rows
        assert "bound" not in rows


def eight_waves(kernel: KernelReport) -> KernelReport:
    """The kernel with twice the waves, each of which does all that one did before."""
    metrics = dict(kernel.metrics)
    waves = metrics["waves_per_workgroup"]
    assert isinstance(waves.value, int)
    metrics["waves_per_workgroup"] = replace(waves, value=2 * waves.value)
    return replace(kernel, metrics=metrics)


def of(kernel: KernelReport) -> Report:
    return Report("", {}, (kernel,), ())


def test_repeated_work_is_a_regression_per_work(reports: dict[str, KernelReport]) -> None:
    before = reports["twice"]
    pair = diff_kernels(before, eight_waves(before), Tolerances({}))
    (instructions,) = (c for c in pair.changes if c.name == "count.instructions")
    assert instructions.judgement == "regression"
    assert "(+100 %)" in instructions.figures


def test_an_allowed_amount_is_of_what_a_wave_executes(reports: dict[str, KernelReport]) -> None:
    """Three instructions more in an iteration are 3, however much work that is."""
    before = reports["staged"]
    (loop,) = (loop for loop in before.loops if loop.hot)
    count = loop.metrics["count.instructions"]
    assert isinstance(count.value, int)
    metrics = {**loop.metrics, "count.instructions": replace(count, value=count.value + 3)}
    loops = tuple(
        replace(one, metrics=metrics) if one.id == loop.id else one for one in before.loops
    )
    after = replace(before, loops=loops)
    for most, verdict in ((3, "neutral"), (2, "regression")):
        pair = diff_kernels(before, after, tolerances_of([f"count.instructions={most}"]))
        (change,) = (c for c in pair.changes if c.name == "count.instructions")
        assert change.judgement == verdict


def test_a_tile_that_reuses_more_can_be_judged(reports: dict[str, KernelReport]) -> None:
    """Four times the multiply-accumulates on twice the loaded bytes: traffic is no measure."""
    pair = diff_kernels(reports["twice"], reports["square"], Tolerances({}))
    assert not pair.of("unknown")
    assert pair.loops[0].basis.divisors is not None
    (instructions,) = (c for c in pair.changes if c.name == "count.instructions")
    assert instructions.judgement == "improvement"


def test_an_edit_that_loads_more_is_not_excused_by_its_loads(
    reports: dict[str, KernelReport],
) -> None:
    """With the same constexprs one iteration is the same work, whatever it loads."""
    before = reports["each"]
    loop = before.loops[0]
    grown = {**loop.metrics}
    for name in ("work.loaded", "bytes.global_load", "count.instructions"):
        grown[name] = replace(grown[name], value=2 * grown[name].value)  # type: ignore[operator]
    after = replace(before, loops=(replace(loop, metrics=grown), *before.loops[1:]))
    pair = diff_kernels(before, after, Tolerances({}))
    assert "count.instructions" in [c.name for c in pair.of("regression", matters=True)]
