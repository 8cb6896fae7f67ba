"""Profiles as text, JSON, timeline and comparison, from values written out by hand."""

from __future__ import annotations

import io
import json
from pathlib import Path

import jsonschema
import pytest
from kinspect.inspector.compare.profiles import compare
from kinspect.inspector.explain import profile_view, quantities
from kinspect.inspector.formats import profile_json, timeline
from kinspect.inspector.model.recording import KernelMatch, TopKernel
from kinspect.inspector.present import profile_diff
from kinspect.inspector.present.profile import document
from kinspect.inspector.present.text import show
from msgspec.structs import replace
from profiles import ATTEND, COPY, MI300X, TRIED, kernel, measured, profile, spread

SCHEMA = Path(__file__).parent.parent / "inspector" / "formats" / "profile.schema.json"


def text(*args: object, **options: bool) -> str:
    out = io.StringIO()
    show(document(*args, **options), out)  # type: ignore[arg-type]
    return out.getvalue()


@pytest.mark.parametrize(
    ("ns", "said"),
    [
        (None, "-"),
        (0.0, "0 ns"),
        (999.0, "999 ns"),
        (1_000.0, "1 us"),
        (51_234.0, "51.2 us"),
        (1.5e6, "1.5 ms"),
        (2.25e9, "2.25 s"),
        (123.4e9, "123 s"),
    ],
)
def test_durations_have_a_fitting_unit(ns: float | None, said: str) -> None:
    assert quantities.duration(ns) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [(None, "-"), (16_384.0, "16,384"), (0.25, "0.25"), (2_500_000, "2.5 M"), (1.3e12, "1.3 T")],
)
def test_figures_are_exact_below_a_million(number: float | None, said: str) -> None:
    assert quantities.scaled(number) == said


def test_workgroups_round_up() -> None:
    assert profile_view.workgroup_count(ATTEND) == 1024 * 2
    assert profile_view.workgroup_count(replace(ATTEND, grid=(300, 1, 1))) == 2
    assert profile_view.workgroup_count(COPY) is None


def test_text_names_the_run_its_parts_and_the_times() -> None:
    # Of 255 us, 80 % are its three dispatches and a warm-up of 51 us.
    shown = text(replace(profile(kernel()), total_ns=255_000.0))
    assert "kinspect-runs/one   rocprofv3 1.0.0" in shown
    assert "gfx942 AMD Instinct MI300X, 304 CUs, 8 XCCs, 2100 MHz" in shown
    assert "$ python train.py" in shown
    assert "pass_2 (rocprofv3 CSV) 1 counter failed, exit code 1" in shown
    row = next(line for line in shown.splitlines() if line.rstrip().endswith("32.0 KiB"))
    assert row.split()[:7] == ["80.0", "204", "us", "4", "51", "us", "50"]
    assert "grid 262,144×2  workgroup 256  2,048 workgroups  VGPR 128" in shown
    assert "4 dispatches, 1 warm-up left out" in shown
    assert "note: SGPR_Count is 128" in shown


def test_what_an_autotuner_tried_is_counted_not_hidden() -> None:
    tried = kernel(TRIED, (90_000.0,), role="autotune", share=15.0, number=2)
    shown = text(profile(kernel(), tried))
    assert "1 specialisation of 1 kernel tried and not kept, as an autotuner does, 15.0 %" in shown
    assert "256" not in [word for line in shown.splitlines()[6:8] for word in line.split()]
    full = text(profile(kernel(), tried), details=True)
    assert "tried by an autotuner" in full


def test_a_measured_figure_stands_with_its_formula() -> None:
    metric = measured("measured.mfma_busy", 41.25, "%", "100 · busy 3 / active 7")
    shown = text(profile(kernel(metrics=(metric,))))
    line = next(line for line in shown.splitlines() if "mfma_busy" in line)
    assert line.split(maxsplit=3) == ["mfma_busy", "41.2", "%", "100 · busy 3 / active 7"]


def test_ambiguity_is_shown_with_its_candidates() -> None:
    match = KernelMatch("ambiguous", ("a.py::attend@gfx942#1", "a.py::attend@gfx942#2"), ())
    shown = text(profile(kernel(match=match)))
    assert "ambiguous, none is chosen: a.py::attend@gfx942#1, a.py::attend@gfx942#2" in shown


def test_without_dispatches_the_profilers_own_totals_are_shown() -> None:
    shown = text(profile(summary=(TopKernel("small", 3, 900), TopKernel("large", 2, 5_000, 2500))))
    rows = [
        line.split() for line in shown.splitlines() if line.split()[-1:] in (["small"], ["large"])
    ]
    assert rows == [["5", "us", "2", "2.5", "us", "large"], ["900", "ns", "3", "-", "small"]]


def test_json_holds_to_its_schema_and_to_the_values() -> None:
    out = io.StringIO()
    profile_json.write(profile(kernel(), kernel(COPY, (), share=None, number=2)), out)
    document = json.loads(out.getvalue())
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    first, second = document["kernels"]
    assert first["duration"] == {
        "count": 3,
        "total": 204_000.0,  # the warm-up of 51 us is in it, as in the table
        "mean": 51_000.0,
        "median": 51_000.0,
        "least": 50_000.0,
        "most": 52_000.0,
    }
    assert first["launch"]["grid"] == [262_144, 2, 1]
    assert second["duration"] is None
    assert document["run"]["dispatches"] == 4


def test_the_timeline_is_a_trace_of_complete_events() -> None:
    out = io.StringIO()
    assert timeline.write(profile(kernel()), out) == 3
    trace = json.loads(out.getvalue())
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    # From the first start on, in microseconds with nanoseconds behind the point.
    assert [(e["ts"], e["dur"], e["name"]) for e in events] == [
        (0.0, 50.0, "attend"),
        (59.25, 39.0, "__amd_rocclr_copyBuffer"),
        (199.001, 52.0, "attend"),
    ]
    assert [e["args"]["dispatch"] for e in events] == [1, 2, 3]
    assert events[0]["args"]["kernel"] == "attend#1"
    assert "kernel" not in events[1]["args"]
    names = {(e["name"], e["args"]["name"]) for e in trace["traceEvents"] if e["ph"] == "M"}
    assert ("thread_name", "queue 1") in names
    assert ("thread_name", "queue 2") in names
    assert any(name == "process_name" and "MI300X" in value for name, value in names)


def test_an_empty_timeline_is_still_a_trace() -> None:
    nothing = profile()
    for column in ("shape", "number", "start", "end", "queue", "part"):
        del getattr(nothing.recording.dispatches, column)[:]
    out = io.StringIO()
    assert timeline.write(nothing, out) == 0
    assert json.loads(out.getvalue())["traceEvents"] == []


# --------------------------------------------------------------------------- comparison


def test_slower_beyond_the_scatter_counts() -> None:
    left = profile(kernel(times=(50_000, 51_000, 52_000)))
    right = profile(kernel(times=(60_000, 61_000, 62_000)))
    (change,) = compare(left, right).kernels
    assert (change.state, change.total) == ("slower", 40_000)
    assert change.median.ratio == pytest.approx(61 / 51)
    (back,) = compare(right, left).kernels
    assert (back.state, back.total) == ("faster", -40_000)


@pytest.mark.parametrize(
    ("left", "right", "state"),
    [
        ((50.0, 51.0, 52.0), (50.0, 51.5, 53.0), "same"),  # within the threshold
        ((50.0, 51.0, 90.0), (49.0, 60.0, 61.0), "unsure"),  # one of them was as fast
        ((50.0, 51.0), (60.0, 61.0), "unsure"),  # too few to know the scatter
        ((), (60.0, 61.0, 62.0), "unknown"),
    ],
)
def test_scatter_proves_nothing(
    left: tuple[float, ...], right: tuple[float, ...], state: str
) -> None:
    (change,) = compare(profile(kernel(times=left)), profile(kernel(times=right))).kernels
    assert change.state == state


def test_kernels_pair_though_registers_and_arguments_changed() -> None:
    a = kernel(replace(ATTEND, name="scale<float>(float*)"))
    b = kernel(replace(ATTEND, name="scale<__half>(__half*)", vgpr=64, grid=(1024, 1, 1)))
    found = compare(profile(a), profile(b, kernel(COPY, number=2)))
    (change,) = found.kernels
    assert [(c.name, c.left, c.right) for c in change.launch] == [("VGPR", 128, 64)]
    assert [k.name for k in found.only_right] == [COPY.name]


def test_specialisations_that_cannot_be_told_apart_are_not_paired() -> None:
    two = [kernel(replace(ATTEND, vgpr=v), number=n) for n, v in ((1, 128), (2, 96))]
    found = compare(profile(*two), profile(kernel(replace(ATTEND, vgpr=64))))
    assert found.kernels == ()
    assert len(found.only_left) == 2
    assert len(found.only_right) == 1


def test_measured_metrics_that_changed_are_listed() -> None:
    def with_hits(value: float) -> tuple[object, ...]:
        return (measured("measured.l2_hit", value, "%"), measured("measured.valu_busy", 10.0, "%"))

    a, b = (kernel(metrics=with_hits(v)) for v in (80.0, 40.0))  # type: ignore[arg-type]
    (change,) = compare(profile(a), profile(b)).kernels
    assert [(m.name, m.left, m.right) for m in change.metrics] == [("l2_hit", 80.0, 40.0)]


def test_other_devices_and_profilers_are_said() -> None:
    other = profile(kernel(), agents=(replace(MI300X, product="AMD Instinct MI210"),), version="2")
    notes = compare(profile(kernel()), other).notes
    assert "different devices" in notes[0]
    assert "1.0.0 and 2" in notes[1]


def test_a_comparison_as_text_and_json() -> None:
    found = compare(
        profile(kernel(times=(50_000, 51_000, 52_000))),
        profile(kernel(replace(ATTEND, vgpr=64), times=(60_000, 61_000, 62_000))),
    )
    out = io.StringIO()
    show(profile_diff.document(found), out)
    shown = out.getvalue()
    row = next(line for line in shown.splitlines() if line.strip().startswith("slower"))
    assert row.split() == [
        "slower",
        "51",
        "us",
        "→",
        "61",
        "us",
        "+19.6",
        "%",
        "+40",
        "us",
        "attend",
    ]
    assert any(line.split()[:3] == ["VGPR", "128", "64"] for line in shown.splitlines())
    (one,) = profile_diff.fields(found)["kernels"]
    assert one["state"] == "slower"
    assert one["launch"] == [
        {"name": "VGPR", "unit": "registers", "left": 128, "right": 64, "ratio": 0.5}
    ]


def test_spread_of_the_maker_is_what_it_says() -> None:
    assert spread(3.0, 1.0).median == 2.0


def test_a_register_count_that_is_not_known_is_not_shown() -> None:
    known = kernel()
    assert "SGPR 48" in profile_view.launch_text(known)
    unknown = replace(known, shape=replace(known.shape, sgpr=None))
    assert "SGPR" not in profile_view.launch_text(unknown)
