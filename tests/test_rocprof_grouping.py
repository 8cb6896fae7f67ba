"""Dispatches to specialisations: passes merged, warm-up and trials told apart, nothing lost."""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.model.recording import (
    CodePlace,
    KernelShape,
    Part,
    Recording,
    Samples,
    ThreadTrace,
    TopKernel,
)
from kinspect.inspector.profile.builder import RecordingBuilder
from kinspect.inspector.profile.figures import readings
from kinspect.inspector.profile.figures.grouping import group, kept_by_tuning
from kinspect.inspector.profile.kernel_profiles import analyse, profile

GEMM = KernelShape("gemm", agent="4", vgpr=128, lds_bytes=8192, workgroup=(256, 1, 1))


def shape(**changes: object) -> KernelShape:
    facts = {name: getattr(GEMM, name) for name in GEMM.__slots__}
    return KernelShape(**{**facts, **changes})


def recorded(*passes: Sequence[tuple[KernelShape, int, int]]) -> Recording:
    """Each pass a sequence of (shape, start, duration)."""
    builder = RecordingBuilder(Path("run"))
    for number, rows in enumerate(passes):
        builder.begin(Part(f"pass_{number + 1}", "", "made up"))
        for place, (one, start, duration) in enumerate(rows):
            builder.dispatch(builder.shape(one), place, start, start + duration)
    return builder.finish()


def test_passes_of_one_program_are_one_specialisation() -> None:
    run = recorded(
        [(shape(process=1, kernel_id=7, grid=(64, 1, 1)), t, 10) for t in (100, 200, 300)],
        [(shape(process=2, kernel_id=9, grid=(64, 1, 1)), t, 30) for t in (100, 200)]
        + [(shape(process=2, kernel_id=9, grid=(128, 1, 1)), 400, 50)],
    )
    (one,) = profile(run)
    assert (one.dispatches, one.warmups, one.counted, one.grids) == (6, 2, 4, 2)
    assert one.duration is not None
    assert (one.duration.total, one.duration.median) == (10 + 10 + 30 + 50, 20)
    assert one.metrics["measured.dispatches"].note == "in 2 passes"
    assert one.metrics["measured.share_of_time"].value == 100


@pytest.mark.parametrize(
    "difference",
    [
        {"vgpr": 96},
        {"lds_bytes": 0},
        {"workgroup": (128, 1, 1)},
        {"agent": "5"},
        {"scratch_bytes": 16},
        {"name": "other"},
    ],
)
def test_whatever_holds_beyond_a_process_tells_specialisations_apart(
    difference: dict[str, object],
) -> None:
    first, second = shape(scratch_bytes=0), shape(**{"scratch_bytes": 0, **difference})
    assert len(group(recorded([(first, 1, 1), (second, 5, 1), (first, 9, 1)]))) == 2


def test_kernels_of_equal_shape_stay_apart_and_are_matched_by_first_appearance() -> None:
    run = recorded(
        [
            (shape(process=1, kernel_id=7), 100, 10),
            (shape(process=1, kernel_id=3), 200, 1000),
            (shape(process=1, kernel_id=7), 300, 10),
        ],
        [(shape(process=2, kernel_id=50), 100, 20), (shape(process=2, kernel_id=51), 200, 2000)],
    )
    slow, fast = profile(run, skip_warmup=0)
    assert slow.duration is not None
    assert fast.duration is not None
    assert (slow.duration.total, fast.duration.total) == (3000, 40)
    assert (slow.id, fast.id) == ("gemm#1", "gemm#2")
    assert "told apart by their kernel ids; number 2 in order" in slow.notes[0]
    assert "number 1 in order" in fast.notes[0]


def test_kernel_ids_of_parts_without_processes_are_not_compared() -> None:
    run = recorded([(shape(kernel_id=3), 1, 1)] * 2, [(shape(kernel_id=4), 1, 1)] * 2)
    assert [one.dispatches for one in profile(run)] == [4]
    apart = recorded([(shape(kernel_id=3), 1, 1), (shape(kernel_id=4), 1, 1)])
    assert [one.dispatches for one in profile(apart)] == [1, 1]


def test_a_file_that_records_less_joins_the_only_specialisation_that_fits() -> None:
    sparse = KernelShape("gemm", agent="4", workgroup_size=256, process=2)
    rows = [(shape(process=1), 1, 5), (sparse, 1, 7)]
    assert [one.dispatches for one in profile(recorded(rows))] == [2]
    ambiguous = [*rows, (shape(process=1, vgpr=96), 1, 9)]
    assert [one.dispatches for one in profile(recorded(ambiguous))] == [1, 1, 1]
    other = [(shape(process=1), 1, 5), (KernelShape("gemm", agent="4", workgroup_size=64), 1, 7)]
    assert [one.dispatches for one in profile(recorded(other))] == [1, 1]


def test_warm_up_is_the_earliest_not_the_first_row() -> None:
    one = shape(process=1)
    run = recorded([(one, 500, 10), (one, 100, 9000), (one, 300, 30)])
    (kernel,) = profile(run)
    assert kernel.duration is not None
    assert (kernel.duration.most, kernel.duration.total) == (30, 40)
    assert any("the first dispatch in each process, 1 left out" in n for n in kernel.notes)
    (more,) = profile(run, skip_warmup=2)
    assert more.duration is not None
    assert (more.warmups, more.duration.total) == (2, 10)


def test_at_least_one_dispatch_counts() -> None:
    run = recorded([(shape(process=1), 100, 10)] * 3)
    (kernel,) = profile(run, skip_warmup=50)
    assert (kernel.warmups, kernel.counted) == (2, 1)
    (single,) = profile(recorded([(shape(process=1), 100, 10)]))
    assert (single.warmups, single.counted) == (0, 1)
    (none,) = profile(run, skip_warmup=0)
    assert (none.warmups, none.counted) == (0, 3)


def test_dispatches_without_times_are_counted_but_not_timed() -> None:
    builder = RecordingBuilder(Path("run"))
    builder.begin(Part("p", "", "made up"))
    for number in (2, 1, 3):
        builder.dispatch(builder.shape(shape()), number)
    (kernel,) = profile(builder.finish())
    assert (kernel.dispatches, kernel.counted, kernel.duration) == (3, 2, None)
    assert "measured.share_of_time" not in kernel.metrics
    assert analyse(builder.finish()).total_ns is None


def test_times_come_from_the_pass_without_counters_where_there_is_one() -> None:
    builder = RecordingBuilder(Path("run"))
    builder.begin(Part("trace", "", "made up"))
    for start in (0, 100, 200):
        builder.dispatch(builder.shape(shape(process=1)), start, start + 1, start + 11)
    builder.begin(Part("pass_1", "", "made up"))
    for start in (0, 100, 200):
        row = builder.dispatch(builder.shape(shape(process=2)), start, start + 1, start + 91)
        builder.add_counter_value(row, "SQ_WAVES", 8)
    (kernel,) = profile(builder.finish())
    assert kernel.duration is not None
    assert (kernel.duration.count, kernel.duration.mean) == (2, 10)
    assert any("passes without counters" in note for note in kernel.notes)
    assert analyse(builder.finish()).total_ns == 30
    assert kernel.counters["SQ_WAVES"].count == 2


def runs(order: str) -> dict[int, list[int]]:
    """`AABC`: A dispatched at 0 and 1, B at 2, C at 3."""
    found: dict[int, list[int]] = {}
    for time, letter in enumerate(order):
        found.setdefault(ord(letter) - ord("A"), []).append(time)
    return found


A, B, C, D = 0, 1, 2, 3


@pytest.mark.parametrize(
    ("order", "kept"),
    [
        ("A" * 9 + "B" * 9 + "C" * 9 + "B" * 40, {B}),  # tried second, and kept
        ("A" * 9 + "B" * 9 + "C" * 9 + "A" * 40, {A}),
        ("A" * 9 + "B" * 8 + "C" * 7 + "D" * 60, {D}),  # tried last
        ("A" * 9 + "B" * 8 + "C" * 7 + "D" * 20, None),  # goes on for no longer than a trial
        ("A" * 9 + "B" * 40, None),  # two layers of a model
        ("A" * 100 + "B" * 9 + "C" * 9 + "A" * 100, None),  # an evaluation between training steps
        ("A" * 3 + "B" * 3 + "C" * 3 + "B" * 40, None),  # too few for a tuner
        ("ABC" * 30, None),  # a loop over three
        ("A" * 9 + "B" * 9 + "C" * 9, None),
        ("A" * 9 + "B" * 9 + "C" * 9 + "BC" * 20, None),
    ],
)
def test_trials_are_told_by_their_order(order: str, kept: set[int] | None) -> None:
    found = kept_by_tuning(runs(order))
    assert found == (None if kept is None else frozenset(kept))


def test_trials_are_labelled_and_not_dropped() -> None:
    rows, time = [], 0
    for vgpr, count in ((64, 9), (128, 9), (256, 9), (128, 50)):
        for _ in range(count):
            rows.append((shape(process=1, vgpr=vgpr), time, 10))
            time += 100
    kernels = profile(recorded(rows))
    assert [(k.shape.vgpr, k.role, k.dispatches) for k in kernels] == [
        (128, "main", 59),
        (64, "autotune", 9),
        (256, "autotune", 9),
    ]
    assert any("autotuner's trial" in note for note in kernels[1].notes)


def test_only_and_top_choose_but_shares_are_of_the_whole() -> None:
    run = recorded([(shape(name=n), 1, d) for n, d in (("aa", 60), ("ab", 30), ("c", 10))])
    found = analyse(run, only="a.", top=1)
    assert [k.name for k in found.kernels] == ["aa"]
    assert (found.left_out, found.total_ns) == (2, 100)
    assert found.kernels[0].metrics["measured.share_of_time"].value == 60
    with pytest.raises(KinspectError, match="not a regular expression"):
        analyse(run, only="(")


def test_a_summary_stands_in_where_no_dispatches_are() -> None:
    builder = RecordingBuilder(Path("run"))
    builder.summary += [TopKernel("slow", 10, 900, 90.0, 80, 100), TopKernel("fast", 1, 100)]
    found = analyse(builder.finish())
    slow, fast = found.kernels
    assert slow.metrics["measured.share_of_time"].value == 90
    assert slow.metrics["measured.duration.max"].value == 100
    assert "measured.duration.max" not in fast.metrics
    assert (slow.duration, slow.dispatches, found.total_ns) == (None, 10, 1000)


def test_kernels_that_only_samples_or_traces_know_are_there() -> None:
    builder = RecordingBuilder(Path("run"))
    place = CodePlace(builder.shape(KernelShape("sampled")), None, None, 0, None)
    builder.samples.append(Samples(place, "host_trap", 5, None))
    builder.traces.append(ThreadTrace("ui", "4", 1, "traced", ()))
    builder.begin(Part("p", "", "made up"))
    builder.dispatch(builder.shape(shape()), 1, 5, 10)
    assert [(k.name, k.dispatches) for k in profile(builder.finish())] == [
        ("gemm", 1),
        ("sampled", 0),
        ("traced", 0),
    ]


PASS = st.lists(
    st.tuples(
        st.sampled_from(["f", "g"]),
        st.sampled_from([32, 64, None]),
        st.integers(1, 3),  # kernel id
        st.integers(0, 1000),
        st.integers(1, 500),
    ),
    max_size=25,
)


@given(st.lists(PASS, min_size=1, max_size=4), st.integers(0, 3))
def test_merging_passes_loses_no_dispatch_and_no_time(
    passes: list[list[tuple[str, int | None, int, int, int]]], skip: int
) -> None:
    builder = RecordingBuilder(Path("run"))
    total = values = 0.0
    for process, rows in enumerate(passes):
        builder.begin(Part(str(process), "", "made up"))
        for name, vgpr, kernel, start, duration in rows:
            one = KernelShape(name, agent="1", process=process, kernel_id=kernel, vgpr=vgpr)
            row = builder.dispatch(builder.shape(one), None, start, start + duration)
            builder.add_counter_value(row, "SQ_WAVES", duration)
            total += duration
            values += duration
    run = builder.finish()
    groups = group(run, skip)
    rows_of = sorted(row for one in groups for lane in one.lanes for row in lane.rows)
    assert rows_of == list(range(len(run.dispatches)))
    assert sum(one.total_ns for one in readings.read(run, groups)) == total
    assert all(lane.warmups < set(lane.rows) for one in groups for lane in one.lanes)
    found = analyse(run, skip_warmup=skip)
    assert sum(k.dispatches for k in found.kernels) == len(run.dispatches)
    assert all(k.counted + k.warmups == k.dispatches for k in found.kernels)
    assert (found.total_ns or 0) == total
    without = analyse(run, skip_warmup=0)
    assert sum(k.counters["SQ_WAVES"].total for k in without.kernels) == pytest.approx(values)
    assert sum(k.duration.total for k in without.kernels if k.duration) == total


def test_counter_instances_of_a_dispatch_add_up_in_any_order() -> None:
    builder = RecordingBuilder(Path("run"))
    builder.begin(Part("p", "", "made up"))
    one = builder.dispatch(builder.shape(shape()), 1, 0, 5)
    two = builder.dispatch(builder.shape(shape()), 2, 10, 5)
    for row, name, value in (
        (one, "TCC_HIT[0]", 1),
        (two, "TCC_HIT[0]", 10),
        (one, "TCC_HIT[1]", 2),
        (two, "TCC_HIT[1]", 20),
        (one, "TCC_MISS", 5),
        (one, "TCC_MISS[0]", 7),
        (two, "SQ_WAVES", float("nan")),
    ):
        builder.add_counter_value(row, name, value)
    (kernel,) = profile(builder.finish(), skip_warmup=0)
    assert {name: (s.count, s.total) for name, s in kernel.counters.items()} == {
        "TCC_HIT": (2, 33),
        "TCC_MISS": (1, 5),
        "TCC_MISS[0]": (1, 7),
    }


@given(st.lists(st.integers(0, 10**6) | st.sampled_from([0, 5]), min_size=1, max_size=300))
def test_the_spread_of_a_column_is_exact(values: list[int]) -> None:
    found = readings.spread(array("q", values))
    assert found is not None
    assert found.median == statistics.median(values)
    assert (found.least, found.most, found.total) == (min(values), max(values), sum(values))
    assert readings.spread(array("q")) is None
