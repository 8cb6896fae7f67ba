"""HTML pages: self-contained, well formed, and the figures of the report in them."""

from __future__ import annotations

import io
import itertools
import re
from pathlib import Path

import lxml.html
import pytest
from kernel_times import kernel_time
from kinspect.inspector.base import named_files
from kinspect.inspector.formats.html import svg
from kinspect.inspector.formats.html.kernel import MOST_IN_FULL, page_kernels
from kinspect.inspector.formats.html.page import write_profile, write_report
from kinspect.inspector.model import ErrorRecord, KernelReport, MeasuredLine, Report, SourceLoc
from kinspect.inspector.model.time import InstructionTime, TimeLine
from kinspect.inspector.pipeline import analysis
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions, Context, Overrides
from kinspect.inspector.profile.placing.stalls import stalls
from msgspec.structs import replace
from profiles import kernel, measured, profile

ISA = Path(__file__).parent / "data" / "isa" / "attend.triton39.gfx950.amdgcn"


@pytest.fixture(scope="module")
def attend() -> KernelReport:
    overrides = Overrides(lds_bytes=32768, waves_per_workgroup=4)
    # The rules in preview too, so that there are findings.
    context = Context(
        str(ISA), overrides=overrides, analysis=AnalysisOptions(rules=analysis.recommended_pack())
    )
    (report,) = analysis.analyze_text(ISA.read_text(), context)
    return report


def page_of(*kernels: KernelReport, errors: tuple[ErrorRecord, ...] = ()) -> str:
    out = io.StringIO()
    write_report(Report("x.py", {}, kernels, errors), page_kernels(kernels), out)
    return out.getvalue()


def texts(page: str) -> str:
    return re.sub(r"\s+", " ", " ".join(lxml.html.fromstring(page).itertext()))


def test_the_page_needs_nothing_else(attend: KernelReport) -> None:
    page = page_of(attend)
    assert not re.search(r"https?://|//[a-z]|\bsrc=|@import|<script|<link", page)
    tree = lxml.html.fromstring(page)
    for anchor in tree.xpath("//a/@href"):
        assert tree.xpath(f"//*[@id='{anchor[1:]}']"), anchor


def test_what_comes_from_files_is_text_not_markup(attend: KernelReport) -> None:
    evil = "<script>alert(1)</script>"
    page = page_of(replace(attend, name=evil, notes=(evil,)))
    assert "<script" not in page
    assert evil in texts(page)


def test_figures_of_the_report_stand_in_it(attend: KernelReport) -> None:
    said = texts(page_of(attend))
    m = attend.metrics
    assert f"{m['vgpr_count'].value} of {m['vgpr_limit'].value} VGPRs" in said
    assert attend.findings
    for finding in attend.findings:
        assert finding.rule in said
        assert finding.message in said
    for wait in attend.waits:
        if wait.loop == attend.main_loop:
            assert f"{wait.counter}({wait.n})" in said


def test_levels_are_those_of_the_occupancy(attend: KernelReport) -> None:
    found = page_kernels([attend])[0].levels
    waves = attend.metrics["occupancy.waves_per_eu"].value
    assert waves in [level.waves_per_eu for level in found]
    here = next(level for level in found if level.waves_per_eu == waves)
    allocated = attend.metrics["vgpr_allocated"].value
    assert here.vgprs is not None
    assert isinstance(allocated, int)
    assert allocated <= here.vgprs
    higher = [level for level in found if level.waves_per_eu > waves]  # type: ignore[operator]
    # Whatever is above is out of reach by registers or by LDS.
    for level in higher:
        assert allocated > (level.vgprs or 0) or (level.lds_bytes or 0) < 32768


def test_steps_end_where_the_levels_do() -> None:
    drawn = svg.occupancy_steps(
        "t",
        "VGPRs",
        [svg.Level(8, 64), svg.Level(4, 128), svg.Level(1, 512)],
        svg.Level(4.0, 100.0),
    )
    assert re.findall(r"<title>([^<]*)</title>", drawn)[1:] == [
        "up to 64 VGPRs: 8 waves/SIMD",
        "up to 128 VGPRs: 4 waves/SIMD",
        "up to 512 VGPRs: 1 waves/SIMD",
        "this kernel: 100 VGPRs, 4 waves/SIMD",
    ]
    widths = [
        float(w) for w in re.findall(r'width="([\d.]+)" height="[\d.]+" class="under"', drawn)
    ]
    assert widths[1] / widths[0] == pytest.approx((128 - 64) / 64, rel=0.02)
    assert widths[2] / widths[0] == pytest.approx((512 - 128) / 64, rel=0.02)


def test_the_curve_of_live_registers_with_its_budgets(attend: KernelReport) -> None:
    page = page_of(attend)
    peak = attend.live_peak
    assert peak is not None
    assert f"{peak.vgprs} of" in texts(page)
    (plot,) = lxml.html.fromstring(page).xpath("//svg[title='live registers']")
    assert plot.xpath("./circle/title")[0].text == f"most: {peak.vgprs}"
    below = {f"{limit:,}" for limit in levels_below(attend)}
    numbers = [text for text in plot.xpath("./text") if text.text in below]
    assert numbers
    heights = sorted(float(text.get("y")) for text in numbers)
    assert all(b - a > 11 for a, b in itertools.pairwise(heights)), "labels overlap"
    assert len(plot.xpath("./path[@class='budget']")) >= len(below)
    hot = [loop for loop in attend.loops if loop.hot]
    assert len(plot.xpath("./rect[@class='hot']")) == sum(len(loop.lines) for loop in hot)
    # In the main loop each instruction has its own number.
    main = next(loop for loop in attend.loops if loop.id == attend.main_loop)
    line, vgprs, _ = next(c for c in peak.counts if c[0] > main.lines[0][0])
    rows = lxml.html.fromstring(page).xpath("//table[@class='isa']/tr")
    row = next(row for row in rows if row[0].text == str(line))
    assert row[2].text == str(vgprs)


def levels_below(kernel: KernelReport) -> list[int]:
    """The most VGPRs of occupancies that the kernel's own registers are too many for."""
    count = kernel.metrics["vgpr_count"].value
    assert isinstance(count, int)
    return [
        level.vgprs
        for level in page_kernels([kernel])[0].levels
        if level.vgprs is not None and level.vgprs < count
    ]


def test_a_curve_runs_from_edge_to_edge_and_marks_its_peak() -> None:
    drawn = svg.curve(
        "x", [1, 2, 4, 1], budgets=[("half", 2)], stretches=[svg.Stretch("L0", 1, 3)], most=4
    )
    tree = lxml.html.fromstring(drawn)
    (line,) = tree.xpath("./path[@class='line']/@d")
    points = [tuple(map(float, point.split())) for point in re.split("[ML]", line)[1:]]
    assert len(points) == 2 * 4
    (budget,) = tree.xpath("./path[@class='budget']/@d")
    budget_y = float(budget.split()[1].split("H")[0])
    assert points[2][1] == budget_y  # the second instruction needs just that
    assert points[4][1] < budget_y < points[0][1]
    (hot,) = tree.xpath("./rect[@class='hot']")
    assert float(hot.get("x")) == points[2][0]
    assert abs(float(hot.get("x")) + float(hot.get("width")) - points[5][0]) < 0.11
    assert svg.curve("x", [], budgets=[], stretches=[], most=0) == ""


def test_nothing_known_draws_nothing() -> None:
    assert svg.occupancy_steps("t", "VGPRs", [], None) == ""
    assert svg.bars("t", [svg.Bar("x", ())]) == ""
    assert svg.roofline([], None) == ""


def test_pieces_of_a_bar_are_as_wide_as_their_part() -> None:
    drawn = svg.bars("t", [svg.Bar("x", (svg.Piece("a", 30, 0), svg.Piece("b", 10, 1)))])
    a, b = (float(w) for w in re.findall(r'width="([\d.]+)" height="20"', drawn))
    assert a / b == pytest.approx(3, rel=0.01)
    assert "<title>a: 30 (75 %)</title>" in drawn


def test_a_point_on_the_roof_is_drawn_on_it() -> None:
    roof = svg.RooflineRoof(1e15, 5e12)
    drawn = svg.roofline(
        [svg.RooflinePoint("low", 10.0, 10 * 5e12), svg.RooflinePoint("high", 1000.0, 1e15)], roof
    )
    (path,) = re.findall(r'class="line" d="([^"]*)"', drawn)
    (x0, y0), (x1, y1), (x2, y2) = [
        tuple(map(float, pair.split())) for pair in re.findall(r"[ML]([\d.]+ [\d.]+)", path)
    ]
    (px, py), (qx, qy) = [
        tuple(map(float, pair)) for pair in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', drawn)
    ]
    assert py == pytest.approx(y0 + (y1 - y0) * (px - x0) / (x1 - x0), abs=0.3)
    assert x1 < qx < x2
    assert qy == pytest.approx(y1, abs=0.3)
    assert y1 == y2


def with_stalls(report: KernelReport) -> KernelReport:
    wait = next(w for w in report.waits if w.loop == report.main_loop and w.waits_for)
    source = SourceLoc("/x/triton_kernels.py", 35)
    return replace(
        report,
        measured_lines=(
            MeasuredLine(
                wait.line, 0x100, "s_waitcnt", wait.loop, source, hits=64, stall_cycles=75_000
            ),
            MeasuredLine(wait.line + 1, 0x104, "v_add", wait.loop, source, stall_cycles=25_000),
        ),
    )


def test_measured_stalls_stand_beside_what_is_known(attend: KernelReport) -> None:
    report = with_stalls(attend)
    first, second = stalls(report)
    assert (first.share, second.share) == (75.0, 25.0)
    wait = next(w for w in report.waits if w.line == first.line)
    assert first.static is not None
    assert first.static.waits_for, wait
    said = texts(page_of(report))
    assert "Where it stalls (measured)" in said
    assert "75,000" in said
    assert "Where it stalls" not in texts(page_of(attend))


def test_lines_and_code_have_the_heat_of_their_predicted_time(
    attend: KernelReport, tmp_path: Path
) -> None:
    script = tmp_path / "k.py"
    named_files.allow(tmp_path)
    script.write_text("".join(f"line {number} here\n" for number in range(1, 40)))
    first = attend.loops[0].lines[0][0]
    lines = tuple(
        TimeLine(SourceLoc(str(script), number), 1, share, "memory")
        for number, share in ((20, 0.75), (24, 0.25))
    )
    code = tuple(InstructionTime(first + n, share) for n, share in ((0, 0.25), (1, 0.5)))
    time = kernel_time(lines=lines, instructions=code)
    tree = lxml.html.fromstring(page_of(replace(attend, time=time, main_loop=attend.loops[0].id)))
    shown = [" ".join(row.itertext()).split() for row in tree.xpath("//table[@class='isa']//tr")]
    assert shown[1:4] == [
        ["18", "line", "18", "here"],
        ["19", "line", "19", "here"],
        ["20", "75", "%", "line", "20", "here", "memory"],
    ]
    assert shown[9] == ["26", "line", "26", "here"]
    heat = [row.get("style") for row in tree.xpath("//tr[@data-hot]")]
    assert heat[:2] == ["--heat:100", "--heat:33"]
    assert "--heat:50" in heat[2:]


def test_a_profiles_page_links_measured_kernels_to_analysed_ones(attend: KernelReport) -> None:
    from kinspect.inspector.model.recording import KernelMatch

    busy = measured("measured.mfma_busy", 41.25, "%", "100 · a / b")
    roof = [
        measured("roofline.flops_per_byte", 40.0, "operations/byte"),
        measured("roofline.flops_per_s", 1e14, "operations/s"),
        measured("roofline.peak_flops_per_s", 1.3e15, "operations/s"),
        measured("roofline.peak_bytes_per_s", 5.3e12, "bytes/s"),
    ]
    one = kernel(metrics=(busy, *roof), match=KernelMatch("likely", (attend.id,), ("name",)))
    out = io.StringIO()
    run = profile(one, reports=(attend,))
    write_profile(run, page_kernels(run.reports), out)
    page = out.getvalue()
    tree = lxml.html.fromstring(page)
    assert tree.xpath("//a[@href='#k0']")
    assert re.search(r"mfma_busy 41.2 % (static: \d+ cycles )?100 · a / b", texts(page))
    assert tree.xpath("//*[local-name()='svg']//*[local-name()='circle']")
    assert not re.search(r"https?://", page)


def test_errors_are_said(attend: KernelReport) -> None:
    error = ErrorRecord("y.py", None, "compile", "it is broken", "mend it")
    assert "y.py : it is broken mend it" in texts(page_of(attend, errors=(error,)))


def test_the_code_of_a_file_of_many_kernels_is_held_once() -> None:
    """A library's file with a thousand kernels once took gigabytes: each kept all of its lines."""
    path = Path(__file__).parent / "data" / "small_gfx942.s"
    (report,) = analysis.analyze_text(path.read_text(), Context(str(path)))
    pictures = page_kernels([report] * (MOST_IN_FULL + 20))
    assert pictures[0].code
    assert all(picture.code is pictures[0].code for picture in pictures[:MOST_IN_FULL])
    assert not any(picture.code for picture in pictures[MOST_IN_FULL:])
