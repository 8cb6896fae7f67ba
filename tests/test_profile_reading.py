"""What a reader must not be misled by: counts, totals, verdicts, recordings of nothing."""

from __future__ import annotations

import io
import json
from pathlib import Path

import lxml.html
import pytest
from csv_files import COUNTED, NAME, TRACE, counted, traced, write
from kinspect.inspector.base.long_names import MOST_NAME
from kinspect.inspector.cli.group import run as kinspect
from kinspect.inspector.compare.profiles import compare
from kinspect.inspector.explain import profile_view
from kinspect.inspector.formats import profile_json, timeline
from kinspect.inspector.formats.html import page
from kinspect.inspector.model import Metric
from kinspect.inspector.model.recording import (
    NONE,
    KernelShape,
    Part,
    Profile,
    Recording,
    TopKernel,
)
from kinspect.inspector.present import profile_diff
from kinspect.inspector.present import text as paper
from kinspect.inspector.present.profile import document
from kinspect.inspector.present.text import show
from kinspect.inspector.profile.builder import RecordingBuilder
from kinspect.inspector.profile.kernel_profiles import analyse, is_impossible
from kinspect.tui.screens.profile.measured_kernels import columns, of_profile
from msgspec.structs import replace
from profiles import ATTEND, kernel, profile, spread

LONG = "void scale<" + "float, " * 40 + "int>(float*)"


def run_of(*passes: tuple[str | None, list[tuple[KernelShape, int, int]]]) -> Recording:
    """Passes as (the counter that each reads, rows of (shape, start, duration))."""
    builder = RecordingBuilder(Path("run"))
    for number, (counter, rows) in enumerate(passes):
        builder.begin(Part(f"pass-{number}", "", "made up"))
        for place, (shape, start, duration) in enumerate(rows):
            one = replace(shape, process=number)
            row = builder.dispatch(builder.shape(one), place, start, start + duration)
            if counter is not None:
                builder.add_counter_value(row, counter, 900.0)
    return builder.finish()


def read(recording: Recording) -> Profile:
    found = analyse(recording)
    return Profile(recording, found.kernels, total_ns=found.total_ns)


def text(shown: Profile, **options: bool) -> str:
    out = io.StringIO()
    show(document(shown, **options), out)
    return out.getvalue()


GEMM = KernelShape("gemm", agent="4")
COPY = KernelShape("copy", agent="4")


def two_passes() -> Profile:
    rows = [(GEMM, 100, 1_000), (GEMM, 2_000, 10), (GEMM, 3_000, 30), (COPY, 4_000, 960)]
    return read(run_of((None, rows), ("SQ_WAVES", rows)))


def test_a_pass_of_counters_is_no_further_launch_of_the_program() -> None:
    shown = two_passes()
    gemm = shown.kernels[0]
    assert gemm.metrics["measured.dispatches"].value == 3
    assert profile_view.launch_count(gemm) == 3
    said = "3 dispatches (6 in all 2 passes), 1 warm-up left out: 20 ns at the median"
    assert said in text(shown)
    row = next(line.split() for line in text(shown).splitlines() if line.startswith("    52.0 "))
    assert row[:6] == ["52.0", "1.04", "us", "3", "20", "ns"]


def test_one_total_everywhere() -> None:
    """The table, the JSON, the metric and the terminal's page differed by the warm-up."""
    shown = two_passes()
    gemm = shown.kernels[0]
    document = profile_json.to_dict(shown)["kernels"][0]
    assert document["duration"]["total"] == 1_040
    assert document["metrics"]["measured.duration.total"]["value"] == 1_040
    assert gemm.total_ns == 1_040
    line = next(line for line in of_profile(shown) if line.key == gemm.id)
    column = next(column for column in columns([line]) if column.name == "total")
    assert column.read(line) == 1_040
    assert shown.total_ns == 2_000


def test_runs_are_compared_and_not_the_replays_of_their_passes() -> None:
    rows = [(GEMM, 100, 1_000), (GEMM, 2_000, 10), (GEMM, 3_000, 30)]
    once = read(run_of(("SQ_WAVES", rows)))
    thrice = read(run_of(("SQ_WAVES", rows), ("SQ_INSTS_VALU", rows), ("TCC_HIT_sum", rows)))
    (change,) = compare(once, thrice).kernels
    assert change.counts == (3, 3)
    assert change.total == 0
    assert thrice.kernels[0].dispatches == 9


def test_processes_of_one_run_add_up() -> None:
    rows = [(GEMM, 100, 1_000), (GEMM, 2_000, 10)]
    shown = read(run_of(("SQ_WAVES", rows), ("SQ_WAVES", rows)))
    assert profile_view.launch_count(shown.kernels[0]) == 4
    assert shown.kernels[0].total_ns == 2_020


def test_rows_say_which_device_they_are_of() -> None:
    rows = [(GEMM, 100, 1_000), (replace(GEMM, agent="5"), 2_000, 10)]
    shown = read(run_of((None, rows)))
    lines = text(shown).splitlines()
    assert any("device 4" in line for line in lines)
    assert any("device 5" in line for line in lines)
    assert [line.suffix for line in of_profile(shown)] == ["#1 device 4", "#2 device 5"]
    assert "device 4" not in text(read(run_of((None, rows[:1]))))


def test_the_total_is_of_the_dispatches_that_the_share_is_of() -> None:
    shown = two_passes()
    totals = [kernel.total_ns for kernel in shown.kernels]
    shares = [profile_view.share_of_time(kernel) for kernel in shown.kernels]
    assert totals == pytest.approx([1_040, 960])  # the warm-up of 1 us is in both
    assert shares == pytest.approx([52, 48])


def test_a_workload_of_rocprof_compute_repeats_the_program() -> None:
    builder = RecordingBuilder(Path("run"))
    for number in range(4):
        builder.begin(Part(f"pmc-{number}", "", "made up", repeats_run=True))
        for place in range(3):
            row = builder.dispatch(builder.shape(replace(GEMM, process=number)), place)
            builder.add_counter_value(row, f"COUNTER_{number}", 1.0)
    shown = read(builder.finish())
    assert profile_view.launch_count(shown.kernels[0]) == 3
    assert profile_view.dispatch_text(shown.kernels[0]) == "3 dispatches (12 in all 4 passes)"


def test_numbers_of_over_64_bits_are_unknown() -> None:
    builder = RecordingBuilder(Path("run"))
    row = builder.dispatch(builder.shape(GEMM), 2**63, 2**64 - 1, -(2**64), 2**64 - 1)
    table = builder.finish().dispatches
    assert {column[row] for column in (table.number, table.start, table.end, table.queue)} == {NONE}


def test_a_profilers_summary_shows_its_totals_and_means() -> None:
    builder = RecordingBuilder(Path("run"))
    builder.summary += [TopKernel("large", 2, 5_000, 2_500.0), TopKernel("small", 3, 900)]
    rows = [line.split() for line in text(read(builder.finish())).splitlines()]
    assert ["84.7", "5", "us", "2", "-", "2.5", "us", "-", "large", "?", "?"] in rows
    assert ["15.3", "900", "ns", "3", "-", "-", "small", "?", "?"] in rows
    assert "2 dispatches: 2.5 us at the mean" in text(read(builder.finish()))


def test_times_that_do_not_scatter_are_said_once() -> None:
    assert profile_view.time_range(spread(5_000.0, 5_000.0)) == "5 us each"


def test_more_than_all_of_it_is_doubted() -> None:
    rows = [(GEMM, 100, 10)]
    found = analyse(run_of((None, rows), ("OccupancyPercent", rows))).kernels[0]
    metric = found.metrics["measured.occupancy.percent"]
    assert metric.value == 900
    assert metric.note.startswith("over 100 %, cannot be: ")
    assert any("over 100 %, which cannot be: occupancy.percent" in note for note in found.notes)


# --------------------------------------------------------------------------- tables


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        return True


def test_names_of_a_line_are_whole_where_no_terminal_is() -> None:
    name = LONG.replace("float, " * 28, "")
    assert 100 < len(name) < MOST_NAME
    one = profile(kernel(replace(ATTEND, name=name)))
    assert text(one).count(name) == 2  # in the table, and above the kernel's own figures
    out = io.StringIO()
    other = profile(kernel(replace(ATTEND, name=name + "x")))
    show(profile_diff.document(compare(one, other)), out)
    assert name in out.getvalue()
    assert "…" not in out.getvalue()


@pytest.mark.parametrize("width", [80, 110])
def test_names_are_as_long_as_the_terminal_allows(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper, "WIDTH", width)
    monkeypatch.setenv("COLUMNS", str(width))
    one = kernel(replace(ATTEND, name=LONG))
    out: io.StringIO = Terminal()
    show(document(profile(one)), out, color=False)
    table = out.getvalue().split("\n\n")[1].splitlines()
    assert max(map(len, table)) <= width
    assert ("least … most" in table[0]) == (width > 100)
    assert "void scale<" in table[1]
    assert "…" in table[1]
    assert "int>(float*)" in table[1]  # arguments at the end tell instances apart
    out = Terminal()
    left, right = profile(one, kernel(number=2)), profile(kernel(replace(ATTEND, name=LONG + "x")))
    show(profile_diff.document(compare(left, right)), out, color=False)
    assert max(map(len, out.getvalue().splitlines()[2:])) <= width


def test_hundreds_of_counters_are_not_shown_unasked() -> None:
    counters = {f"COUNTER_{n}": spread(1.0) for n in range(100)}
    many = profile(replace(kernel(), counters=counters))
    assert "76 more counters: --details lists all" in text(many)
    assert "COUNTER_24" not in text(many)
    assert "COUNTER_99" in text(many, details=True)


def test_html_cuts_long_names_and_keeps_them() -> None:
    out = io.StringIO()
    page.write_profile(profile(kernel(replace(ATTEND, name=LONG))), [], out)
    root = lxml.html.fromstring(out.getvalue())
    assert LONG in root.xpath("//td/@title")
    assert LONG not in root.text_content()


# --------------------------------------------------------------------------- comparison


def test_kernels_of_one_name_pair_though_their_files_record_the_grid_otherwise() -> None:
    def sides(name: str, number: int) -> tuple[object, object]:
        shape = replace(ATTEND, name=name)
        flat = replace(shape, grid=None, grid_size=524_288, workgroup=None)
        return kernel(shape, number=number), kernel(flat, number=number)

    first, second = sides("norm<256>(float*)", 1), sides("norm<512>(float*)", 2)
    found = compare(profile(first[0], second[0]), profile(first[1], second[1]))  # type: ignore[arg-type]
    assert {(c.left.name, c.right.name) for c in found.kernels} == {
        ("norm<256>(float*)", "norm<256>(float*)"),
        ("norm<512>(float*)", "norm<512>(float*)"),
    }
    assert found.only_left == found.only_right == ()


def test_instances_of_a_template_pair_by_their_whole_name_at_other_grids() -> None:
    small = [kernel(replace(ATTEND, name=f"norm<{n}>(float*)")) for n in (256, 512)]
    large = [kernel(replace(one.shape, grid=(1024, 8, 1))) for one in small]
    found = compare(profile(*small), profile(*large))
    assert [(c.left.name == c.right.name) for c in found.kernels] == [True, True]


def test_another_grid_is_said_beside_the_verdict() -> None:
    times = (90_000.0, 91_000.0, 92_000.0)
    larger = kernel(replace(ATTEND, grid=(262_144, 16, 1)), times)
    found = compare(profile(kernel()), profile(larger))
    (change,) = found.kernels
    assert (change.state, change.grids) == ("slower", (524_288, 4_194_304))
    out = io.StringIO()
    show(profile_diff.document(found), out)
    assert "other grid, 1 kernel, marked *: not (only) the code" in out.getvalue()
    rows = [line.split() for line in out.getvalue().splitlines()]
    assert ["grid", "524,288", "4.19", "M", "+700.0", "%", "work-items"] in rows
    same = compare(profile(kernel()), profile(kernel(times=times))).kernels
    assert [one.grids for one in same] == [None]


def test_one_dispatch_proves_no_sameness_and_unlike_numbers_are_said() -> None:
    found = compare(profile(kernel()), profile(kernel(times=(51_000.0,))))
    (change,) = found.kernels
    assert (change.state, change.counts) == ("unsure", (4, 2))
    out = io.StringIO()
    show(profile_diff.document(found), out)
    row = next(line for line in out.getvalue().splitlines() if line.startswith("  unsure  "))
    assert "4 → 2" in row
    assert "unsure, 1 kernel: fewer than 3 dispatches on a side" in out.getvalue()
    assert profile_diff.fields(found)["kernels"][0]["dispatches"] == (4, 2)


# --------------------------------------------------------------------------- timeline


def test_passes_that_ran_one_after_the_other_begin_at_0_each() -> None:
    day = 86_400 * 10**9
    shown = read(
        run_of(
            (None, [(GEMM, 1_000, 500), (GEMM, 9_000, 500)]),
            ("SQ_WAVES", [(GEMM, day, 500)]),
            (None, [(COPY, 5_000, 100)]),  # another process, at the time of the first
        )
    )
    out = io.StringIO()
    assert timeline.write(shown, out) == 4
    events = [e for e in json.loads(out.getvalue())["traceEvents"] if e["ph"] == "X"]
    assert [(e["name"], e["ts"]) for e in events] == [
        ("gemm", 0.0),
        ("gemm", 8.0),
        ("gemm", 0.0),
        ("copy", 4.0),
    ]


# --------------------------------------------------------------------------- commands


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A kernel trace of three dispatches."""
    path = tmp_path / "run" / "1_kernel_trace.csv"
    path.parent.mkdir()
    write(path, TRACE, [traced(n, 1_000 * n) for n in (1, 2, 3)])
    return path


def asked(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = kinspect(list(arguments))
    out, err = capfd.readouterr()
    return status, " ".join(out.split()), " ".join(err.split())


def test_a_filter_that_finds_nothing_says_what_there_is(
    trace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status, out, err = asked(capfd, "profile", "import", str(trace), "--kernel", "nosuch")
    assert (status, out) == (2, "")
    assert "--kernel nosuch: matches none of the recorded kernels; there is " in err
    assert NAME in err
    html = tmp_path / "x.html"
    assert asked(capfd, "report", str(trace), "--kernel", "nosuch", "-o", str(html))[0] == 2
    assert not html.exists()


def test_an_unknown_arch_is_refused(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status, _, err = asked(capfd, "profile", "import", str(trace), "--arch", "gfx943")
    assert status == 2
    assert "did you mean gfx942" in err


def test_files_that_hold_no_dispatches_say_so_and_not_that_nothing_ran(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    calls = tmp_path / "1_hip_api_trace.csv"
    header = "Domain Function Process_Id Thread_Id Correlation_Id Start_Timestamp End_Timestamp"
    write(calls, header.split(), [["HIP_RUNTIME_API", "hipMalloc", 1, 1, 1, 10, 20]])
    status, out, err = asked(capfd, "profile", "import", str(calls))
    assert status == 2
    assert "launched nothing" not in out
    assert "no dispatches in it, and no samples" in err
    assert "its kernel trace or counter files" in err


def test_a_damaged_file_is_not_said_to_be_empty(
    trace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    header = trace.read_text().splitlines()[0]
    trace.write_text(f'{header}\n"KERNEL_DISPATCH')
    status, out, err = asked(capfd, "profile", "import", str(trace))
    assert status == 2
    assert "launched nothing" not in out
    assert "could not be read" in err


def test_an_empty_trace_still_names_its_likely_causes(
    trace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trace.write_text(trace.read_text().splitlines()[0] + "\n")
    _, out, _ = asked(capfd, "profile", "import", str(trace))
    assert "0 dispatches were recorded: the program launched nothing on the GPU" in out


def test_recordings_that_are_added_up_are_named(
    trace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert "added up" not in asked(capfd, "profile", "import", str(trace.parent))[1]
    write(trace.with_name("other_kernel_trace.csv"), TRACE, [traced(1, 5_000)])
    _, out, _ = asked(capfd, "profile", "import", str(trace.parent))
    assert "times of 2 recordings are added up: " in out


def test_a_trace_and_its_counters_are_one_recording(
    trace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = [counted(n, "SQ_WAVES", 8) for n in (1, 2, 3)]
    write(trace.with_name("1_counter_collection.csv"), COUNTED, rows)
    assert "added up" not in asked(capfd, "profile", "import", str(trace.parent))[1]


def test_without_times_there_is_no_timeline(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "1_kernel_trace.csv", tmp_path / "x.json"
    write(path, TRACE, [])
    status, _, err = asked(capfd, "profile", "export", str(path), "-o", str(out))
    assert status == 2
    assert "no dispatch in it with begin and end" in err
    assert not out.exists()


def test_a_page_is_of_one_run(
    trace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "x.html"
    status, _, err = asked(capfd, "report", str(trace), str(trace.parent), "-o", str(out))
    assert status == 2
    assert "a page shows one run alone" in err


def test_what_no_analysed_kernel_is_is_saved_as_measured(
    trace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "x.kinspect"
    status, out, err = asked(capfd, "profile", "import", str(trace), "--save", str(saved))
    assert (status, err) == (0, "")
    assert "dispatch" in out
    status, out, _ = asked(capfd, "analyze", str(saved), "--format", "json", "--details")
    assert status == 0
    (one,) = json.loads(out)["kernels"]
    assert one["name"] == NAME
    assert one["metrics"]["measured.dispatches"]["value"] >= 1
    status, out, err = asked(capfd, "profile", "import", str(trace), "--save", "x.zip")
    assert (status, out) == (2, "")
    assert "not a .kinspect file" in err


def test_the_memorys_peak_may_be_passed() -> None:
    def share(name: str, value: float) -> Metric:
        return Metric(name, value, "%", "measured", "")

    assert not is_impossible(share("measured.share.memory", 130.0))  # caches serve some of it
    assert is_impossible(share("measured.mfma_busy", 130.0))
    assert not is_impossible(share("measured.mfma_busy", 100.4))
