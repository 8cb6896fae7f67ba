"""The history of analyses: what is kept, older files, trends and their plots."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.bench.history.analyses import FIGURES, AnalysedKernel, Analysis, analysed
from kinspect.inspector.bench.history.recorder import HistoryRecorder, WithHistoryFigures, commit
from kinspect.inspector.bench.history.schema import SCHEMA_VERSION
from kinspect.inspector.bench.history.store import FILE, History
from kinspect.inspector.bench.history.trends import ChartRequest, chart
from kinspect.inspector.explain import plot
from kinspect.inspector.lint.lint_results import CheckedKernel, LintReport
from kinspect.inspector.model import Finding, Report
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.pipeline.reading import Transformed
from msgspec.structs import replace

HERE = Path(__file__).parent


@pytest.fixture
def tool(tool_in_process: Callable[..., Any]) -> Callable[..., Any]:
    return tool_in_process


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


benches = load(HERE / "test_history.py")


def kernel(vgprs: float | None = 96, **changes: Any) -> AnalysedKernel:
    figures = {} if vgprs is None else {"vgpr_count": vgprs, "hot_loops.count.mfma": 16}
    base = AnalysedKernel("gemm", "gemm.py::gemm@gfx942#1", "gfx942", "small", {"M": 64}, figures)
    return replace(base, **changes)


def analysis(*kernels: AnalysedKernel, **changes: Any) -> Analysis:
    base = Analysis(
        "2026-01-02T03:04:05+00:00",
        "abc",
        "lint",
        "gemm.py",
        {"kinspect": "1", "triton": "3.9.0"},
        {"vgpr_count": "registers", "hot_loops.count.mfma": "instructions"},
        kernels or (kernel(),),
    )
    return replace(base, **changes)


@pytest.fixture(scope="module")
def report(small_asm: Path) -> Report:
    return collect(Request((str(small_asm),)))


# --------------------------------------------------------------------------- what is kept


def test_an_analysis_comes_back_as_it_was(tmp_path: Path) -> None:
    history = History(tmp_path)
    kept = kernel(findings={"error": 1, "warning": 0, "info": 2})
    number = history.add_analysis(analysis(kept, kernel(None, arch=None, case=None)))
    (run,) = history.analyses()
    assert (run.id, run.label, run.command, run.target) == (number, "abc", "lint", "gemm.py")
    assert run.versions == {"kinspect": "1", "triton": "3.9.0"}
    assert (run.archs, run.kernels) == (("gfx942",), 2)
    assert number is not None
    first, second = history.analysed(number)
    assert first.kernel == kept
    assert first.units["vgpr_count"] == "registers"
    assert second.kernel.arch is second.kernel.findings is None
    assert history.analyses("other") == history.sightings("other") == []


def test_numbers_name_one_run_of_either_kind(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.add(benches.BENCH)
    assert history.add_analysis(analysis()) == 2
    history.add(benches.BENCH)
    assert history.add_analysis(analysis()) == 4
    assert [run.id for run in history.runs()] == [3, 1]
    assert [run.id for run in history.analyses()] == [4, 2]
    assert history.results(2) == []
    assert history.analysed(3) == []


def test_without_kernels_there_is_no_trace(tmp_path: Path) -> None:
    history = History(tmp_path / "new")
    assert history.add_analysis(analysis(kernels=())) is None
    assert history.analyses() == []
    assert not (tmp_path / "new").exists()


def test_figures_are_those_of_the_report(report: Report) -> None:
    """Counted in small_gfx942.s with one's own eyes: one loop of 13 instructions, one MFMA."""
    kept, units = analysed(report.kernels[0], {"error": 1})
    assert kept.figures["vgpr_count"] == 40
    assert kept.figures["lds_bytes"] == 4096
    assert kept.figures["hot_loops.count.instructions"] == 13
    assert kept.figures["hot_loops.count.mfma"] == 1
    assert kept.figures["hot_loops.count.scratch_load"] == 1
    assert kept.figures["hot_loops.count.wmma"] == 0
    assert units["vgpr_count"] == "registers"
    assert set(units) == set(kept.figures)


def test_unknown_is_not_kept(report: Report) -> None:
    (full,) = report.kernels
    metrics = {
        n: replace(m, value=None) if n == "lds_bytes" else m for n, m in full.metrics.items()
    }
    kept, units = analysed(replace(full, metrics=metrics, loops=()), None)
    assert "lds_bytes" not in {*kept.figures, *units}
    assert kept.figures["hot_loops.count.mfma"] == 0
    without_code = {n: m for n, m in metrics.items() if not n.startswith("count.")}
    kept, _ = analysed(replace(full, metrics=without_code, loops=()), None)
    assert not any(name.startswith("hot_loops") for name in kept.figures)


def test_every_kept_figure_is_a_metric() -> None:
    from kinspect.inspector.bench.history.analyses import HOT_COUNTS
    from kinspect.inspector.isa.mnemonics import CLASSES
    from kinspect.inspector.metrics.catalogue import specs

    names = {spec.name for spec in specs()}
    assert set(FIGURES) <= names
    assert {f"count.{word}" for word in HOT_COUNTS} <= names | {f"count.{c}" for c in CLASSES}


# --------------------------------------------------------------------------- older files


def version_one(folder: Path) -> Path:
    """A file as kinspect made it before it knew analyses: its tables, one run, two cases."""
    statements = (HERE / "data" / "history_v1.sql").read_text()
    folder.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(folder / FILE) as connection:
        connection.executescript(statements)
    connection.close()
    return folder / FILE


def version_in(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    return int(version)


def test_a_file_of_version_one_loses_nothing(tmp_path: Path) -> None:
    path = version_one(tmp_path)
    history = History(tmp_path)
    (run,) = history.runs()
    before = history.results(run.id)
    assert (run.id, run.kernel, run.device, run.cases) == (1, "gemm", "NVIDIA H200", 2)
    assert [case.mean_us for case in before] == [11.0, 22.5]
    assert history.add_analysis(analysis()) == 2
    assert version_in(path) == SCHEMA_VERSION
    assert history.results(1) == before
    assert history.runs() == [run]
    assert history.before("gemm", "NVIDIA H200", benches.CASE) is not None


def test_reading_leaves_a_file_of_version_one_as_it_is(tmp_path: Path) -> None:
    path = version_one(tmp_path)
    content = path.read_bytes()
    history = History(tmp_path)
    assert history.analyses() == history.sightings("gemm") == history.analysed(1) == []
    assert history.names() == ["gemm"]
    assert len(history.measured("gemm")) == 2
    assert path.read_bytes() == content
    assert version_in(path) == 1


def test_a_file_of_version_one_gets_later_benchmarks(tmp_path: Path) -> None:
    version_one(tmp_path)
    history = History(tmp_path)
    history.add(benches.BENCH)
    assert [run.id for run in history.runs()] == [2, 1]


def test_a_change_of_version_that_fails_leaves_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kinspect.inspector.bench.history import schema

    path = version_one(tmp_path)
    broken = dict(schema._STEPS) | {2: schema._STEPS[2] + "; CREATE TABLE run (id)"}
    monkeypatch.setattr(schema, "_STEPS", broken)
    with pytest.raises(KinspectError):
        History(tmp_path).add_analysis(analysis())
    assert version_in(path) == 1
    with sqlite3.connect(path) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    assert "analysis" not in tables


UPGRADE = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from test_history_analyses import analysis
from kinspect.inspector.bench.history.store import History
sys.stdin.readline()
for _ in range(5):
    History(Path(sys.argv[1])).add_analysis(analysis())
"""


def test_processes_that_change_a_file_at_once_lose_nothing(tmp_path: Path) -> None:
    version_one(tmp_path)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", UPGRADE.format(tests=str(HERE)), tmp_path],
            stdin=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        process.communicate("\n", timeout=120)
        assert process.returncode == 0
    assert [run.id for run in History(tmp_path).analyses()] == list(range(16, 1, -1))
    assert len(History(tmp_path).runs()) == 1


# --------------------------------------------------------------------------- recording


def test_a_report_is_recorded(report: Report, tmp_path: Path) -> None:
    history = History(tmp_path)
    number = HistoryRecorder("analyze", "mine", history).write_report(report)
    assert number == 1
    (run,) = history.analyses()
    assert (run.label, run.command, run.target) == ("mine", "analyze", report.target)
    (seen,) = history.analysed(1)
    worst = [f.severity for f in report.kernels[0].findings]
    assert seen.kernel.findings == {s: worst.count(s) for s in ("error", "warning", "info")}


def test_a_lint_run_is_recorded_with_lints_findings(report: Report, tmp_path: Path) -> None:
    (full,) = report.kernels
    recorder = HistoryRecorder("lint", "mine", History(tmp_path))
    events = [Transformed((0, 0), WithHistoryFigures(lambda report: report.name)(full))]
    assert list(recorder.record_events(events)) == [Transformed((0, 0), full.name)]
    found = Finding(
        rule="X",
        severity="warning",
        confidence="certain",
        message="",
        evidence={},
        locations=(),
        fix="",
        fingerprint="",
    )
    checked = CheckedKernel(
        full.id, full.name, None, full.arch, "f", "f", None, None, (found,), (found, found)
    )
    recorder.write_lint(LintReport("t", {}, (), {}, "error", (checked,)))
    (seen,) = History(tmp_path).sightings(full.name)
    assert seen.kernel.findings == {"error": 0, "warning": 3, "info": 0}


def test_a_damaged_history_is_found_before_the_work(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"not a database at all" * 50)
    with pytest.raises(KinspectError, match="damaged"):
        HistoryRecorder("lint", None, History(tmp_path))


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_label_is_the_commit(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        name = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        done = subprocess.run(
            ["git", *name, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    assert commit(tmp_path) is None
    git("init", "-q")
    assert commit(tmp_path) is None  # there is no commit yet
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-qm", "first")
    assert commit(tmp_path) == git("rev-parse", "--short=10", "HEAD")
    (tmp_path / "file").write_text("2")
    assert commit(tmp_path) == git("rev-parse", "--short=10", "HEAD") + "+"


def test_without_git_there_is_no_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() is None


# --------------------------------------------------------------------------- trends


def history_of(folder: Path, *runs: tuple[AnalysedKernel, ...]) -> History:
    history = History(folder)
    for number, kernels in enumerate(runs):
        history.add_analysis(analysis(*kernels, label=f"c{number}"))
    return history


def test_a_trend_is_one_series_for_each_specialisation(tmp_path: Path) -> None:
    other = kernel(200, arch="gfx950", identity="gemm.py::gemm@gfx950#1")
    moved = kernel(128, identity="elsewhere/gemm.py::gemm@gfx942#1")
    history = history_of(tmp_path, (kernel(96),), (other,), (moved, other))
    found = chart(history, ChartRequest("gemm"))
    assert (found.metric, found.unit) == ("vgpr_count", "registers")
    assert [tick.label for tick in found.runs] == ["c0", "c1", "c2"]
    assert {s.name: s.values for s in found.series} == {
        "gfx942 small": (96, None, 128),
        "gfx950 small": (None, 200, 200),
    }
    assert [s.name for s in chart(history, ChartRequest("gemm", arch="gfx95*")).series] == [
        "gfx950 small"
    ]
    assert [s.name for s in chart(history, ChartRequest("gemm", arch="mi355x")).series] == [
        "gfx950 small"
    ]
    assert [t.label for t in chart(history, ChartRequest("gemm", limit=1)).runs] == ["c2"]


def test_specialisations_of_one_name_are_told_apart(tmp_path: Path) -> None:
    a = kernel(96, case=None, config={"BLOCK": 64})
    b = kernel(97, case=None, config={"BLOCK": 128}, identity="gemm.py::gemm@gfx942#2")
    found = chart(history_of(tmp_path, (a, b)), ChartRequest("gemm"))
    assert [s.name for s in found.series] == ["gfx942  BLOCK=64", "gfx942  BLOCK=128"]


def test_measured_times_are_a_trend_too(tmp_path: Path) -> None:
    history = History(tmp_path)
    for time in (10.0, 20.0):
        history.add(replace(benches.BENCH, cases=(replace(benches.TIMED, times=(time,)),)))
    found = chart(history, ChartRequest("gemm"))
    assert (found.metric, found.unit) == ("mean_us", "µs")
    (series,) = found.series
    assert (series.name, series.values) == ("NVIDIA H200 small", (10.0, 20.0))


def test_findings_are_a_trend_too(tmp_path: Path) -> None:
    history = history_of(
        tmp_path, (kernel(findings={"error": 2}),), (kernel(findings={"error": 0}),)
    )
    found = chart(history, ChartRequest("gemm", "findings.error"))
    assert (found.series[0].values, found.unit) == ((2, 0), "findings")


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (ChartRequest("gem"), "did you mean gemm?"),
        (ChartRequest("gemm", "vgpr_cuont"), "did you mean vgpr_count?"),
        (ChartRequest("gemm", "nonsense"), "no run has nonsense"),
        (ChartRequest("gemm", arch="gfx1100"), "nothing fits --arch"),
    ],
)
def test_what_is_not_there_is_said(tmp_path: Path, wanted: ChartRequest, says: str) -> None:
    with pytest.raises(KinspectError, match=re.escape(says)) as caught:
        chart(history_of(tmp_path, (kernel(),)), wanted)
    assert caught.value.hint


# --------------------------------------------------------------------------- plots


def text_of(found: plot.Chart) -> str:
    stream = io.StringIO()
    plot.write(found, stream)
    return stream.getvalue()


def chart_of(*series: tuple[float | None, ...], unit: str = "registers") -> plot.Chart:
    runs = max(map(len, series))
    ticks = tuple(plot.Tick(n, "2026-01-02", f"c{n}") for n in range(runs))
    listed = tuple(plot.Series(f"s{n}", values) for n, values in enumerate(series))
    return plot.Chart("gemm", "vgpr_count", unit, ticks, listed)


def marks(text: str, mark: str) -> list[tuple[int, int]]:
    """(column, line) of a mark within the axes."""
    inside = [line for line in text.splitlines() if "│" in line or "┤" in line]
    return sorted((x, y) for y, line in enumerate(inside) for x, c in enumerate(line) if c == mark)


def test_a_plot_shows_every_value(tmp_path: Path) -> None:
    text = text_of(chart_of((96, 128, 100), (50, None, 50)))
    first, second = marks(text, "●"), marks(text, "○")
    assert len(first) == 3
    assert len(second) == 2
    heights = [y for _, y in first]
    assert heights[1] < heights[2] < heights[0]  # lines count from the top
    assert text.startswith("gemm: vgpr_count (registers) over 3 runs\n")
    assert "● s0  96 → 100 registers (+4.2%)" in text
    assert "○ s1  50 registers" in text
    labels = next(line for line in text.splitlines() if "c0" in line)
    assert labels.split() == ["c0", "c1", "c2"]


def test_a_gap_has_no_line() -> None:
    assert "·" not in text_of(chart_of((1, None, 3)))
    assert "·" in text_of(chart_of((1, 3)))


def test_many_series_show_those_that_changed_most() -> None:
    text = text_of(chart_of(*((96, 96 + n) for n in range(9))))
    assert "and 3 more that changed less" in text
    assert "s8" in text
    assert "s0" not in text


@pytest.mark.parametrize("values", [(0, 0), (5,), (-3, 3), (1e12, 1e12 + 1), (1e-9, 2e-9)])
def test_any_range_has_axes(values: tuple[float, ...]) -> None:
    text = text_of(chart_of(values))
    assert len(marks(text, "●")) == len(values)
    assert text.count("┤") >= 2


FLOATS = st.floats(-1e15, 1e15, allow_nan=False) | st.integers(0, 512).map(float) | st.none()


@given(st.lists(st.lists(FLOATS, min_size=3, max_size=3).map(tuple), min_size=1, max_size=4))
def test_marks_stand_where_values_are(series: list[tuple[float | None, ...]]) -> None:
    found = chart_of(*series)
    if not any(s.known for s in found.series):
        return
    text = text_of(found)
    inside = [line for line in text.splitlines() if "│" in line or "┤" in line]
    assert len(inside) == plot.HEIGHT
    for mark, one in zip(plot.MARKS, [s for s in found.series if s.known], strict=False):
        places = marks(text, mark)
        assert len(places) <= len(one.known)
        if len(places) == len(one.known):  # none is hidden behind another's
            known = [v for v in one.values if v is not None]
            order = sorted(range(len(known)), key=lambda n: known[n])
            lines = [places[n][1] for n in order]
            assert lines == sorted(lines, reverse=True)


def test_json_and_svg_hold_the_same_values() -> None:
    found = chart_of((96, 128, None), (50, 60, 70))
    stream = io.StringIO()
    plot.write_json(found, stream)
    data = json.loads(stream.getvalue())
    assert [s["values"] for s in data["series"]] == [[96, 128, None], [50, 60, 70]]
    stream = io.StringIO()
    plot.write_svg(found, stream)
    root = ElementTree.fromstring(stream.getvalue())
    space = "{http://www.w3.org/2000/svg}"
    tips = [t.text for c in root.iter(f"{space}circle") for t in c.iter(f"{space}title")]
    assert tips == [
        "c0: 96 registers",
        "c1: 128 registers",
        "c0: 50 registers",
        "c1: 60 registers",
        "c2: 70 registers",
    ]
    heights = [float(c.get("cy", 0)) for c in root.iter(f"{space}circle") if len(c)]
    assert heights[1] < heights[0] < heights[2]
    assert all(0 <= height <= 360 for height in heights)


# --------------------------------------------------------------------------- command line


def test_command_line(tool: Callable[..., Any], tmp_path: Path) -> None:
    env = {"KINSPECT_DATA_DIR": str(tmp_path / "data")}
    history = History(tmp_path / "data")
    history.add(benches.BENCH)
    for vgprs in (96, 128):
        history.add_analysis(
            analysis(kernel(vgprs, findings={"error": 0, "warning": 1, "info": 0}))
        )
    listed = tool("history", "list", env=env).stdout.splitlines()
    assert [line.split()[0] for line in listed[1:]] == ["3", "2", "1"]
    assert listed[1].split()[-2:] == ["lint", "abc"]
    data = json.loads(tool("history", "list", "--format", "json", env=env).stdout)
    assert [run["kind"] for run in data["runs"]] == ["analysis", "analysis", "bench"]
    shown = tool("history", "show", "2", env=env).stdout.splitlines()
    assert shown[0].split()[:4] == ["kernel", "case", "arch", "VGPRs"]
    assert shown[1].split()[:4] == ["gemm", "small", "gfx942", "96"]
    one = json.loads(tool("history", "show", "3", "--format", "json", env=env).stdout)
    assert one["kernels"][0]["figures"]["vgpr_count"] == {"value": 128, "unit": "registers"}
    drawn = tool("history", "plot", "gemm", env=env)
    assert drawn.returncode == 0
    assert "96 → 128 registers (+33.3%)" in drawn.stdout
    assert "\x1b" not in drawn.stdout
    mean = tool("history", "plot", "gemm", "--metric", "mean_us", "--format", "json", env=env)
    assert json.loads(mean.stdout)["series"][0]["values"] == [11.0]
    wrong = tool("history", "plot", "gemm", "--metric", "vgprs", env=env)
    assert wrong.returncode == 2
    assert wrong.stderr.count("kinspect: ") == 1
