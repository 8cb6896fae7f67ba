"""Metrics from counters: every figure here was worked out by hand, or by another program."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from kinspect.inspector.explain.profile_view import counter_rows
from kinspect.inspector.metrics import given_metrics
from kinspect.inspector.model.recording import Agent, KernelProfile, KernelShape, Part
from kinspect.inspector.profile import reading
from kinspect.inspector.profile.builder import RecordingBuilder
from kinspect.inspector.profile.kernel_profiles import profile

MI300X = Agent("4", arch="gfx942", product="AMD Instinct MI300X", cus=304, simds_per_cu=4, xccs=8)
TIME = 100_000  # ns
# 200,000 clocks of each XCC in that time: 2 GHz.
CLOCKS = {"GRBM_GUI_ACTIVE": 8 * 200_000}


def measure(
    *passes: Mapping[str, float],
    agent: Agent | None = MI300X,
    time: int = TIME,
    arch: str | None = None,
) -> KernelProfile:
    """One dispatch with these counters in each pass."""
    builder = RecordingBuilder(Path("run"))
    if agent is not None:
        builder.agents[agent.key] = agent
    for number, values in enumerate(passes):
        builder.begin(Part(f"pass_{number + 1}", "", "made up"))
        one = KernelShape("k", agent="4" if agent else None, process=number)
        row = builder.dispatch(builder.shape(one), 1, 1000, 1000 + time)
        for name, value in values.items():
            builder.add_counter_value(row, name, value)
    (kernel,) = profile(builder.finish(), arch=arch)
    return kernel


def figures(kernel: KernelProfile) -> dict[str, float]:
    return {
        name: metric.value
        for name, metric in kernel.metrics.items()
        if isinstance(metric.value, int | float) and not name.startswith("measured.counter.")
    }


@pytest.mark.parametrize(
    ("counters", "metric", "expected"),
    [
        # A quarter of 1216 SIMDs · 200,000 clocks.
        ({"SQ_VALU_MFMA_BUSY_CYCLES": 60_800_000}, "measured.mfma_busy", 25),
        # 6,080,000 quad cycles · 4 of the same.
        ({"SQ_ACTIVE_INST_VALU": 6_080_000}, "measured.valu_busy", 10),
        # 121,600,000 quad cycles · 4: two waves on each SIMD all the time; eight would fit.
        ({"SQ_WAVE_CYCLES": 121_600_000}, "measured.occupancy.waves_per_eu", 2),
        ({"SQ_WAVE_CYCLES": 121_600_000}, "measured.occupancy.percent", 25),
        ({"MeanOccupancyPerCU": 10}, "measured.occupancy.waves_per_eu", 2.5),
        ({"OccupancyPercent": 31.5}, "measured.occupancy.percent", 31.5),
        (
            {"SQ_ACCUM_PREV_HIRES": 729_600_000, "SQ_LEVEL_WAVES": 1},
            "measured.occupancy.waves_per_eu",
            3,
        ),
        (
            {"SQ_LEVEL_WAVES_ACCUM": 729_600_000, "SQ_LEVEL_WAVES": 1, "SQ_IFETCH_LEVEL": 2},
            "measured.occupancy.waves_per_eu",
            3,
        ),
        # 304 CUs · 200,000 clocks are 60,800,000.
        ({"SQ_LDS_BANK_CONFLICT": 3_040_000}, "measured.lds.conflict_percent", 5),
        (
            {"SQ_LDS_BANK_CONFLICT": 3_040_000, "SQ_LDS_IDX_ACTIVE": 27_360_000},
            "measured.share.lds",
            40,
        ),
        (
            {"SQ_LDS_BANK_CONFLICT": 3_040_000, "SQ_LDS_IDX_ACTIVE": 27_360_000},
            "measured.lds.conflicts_per_access",
            0.125,
        ),
        ({"TCC_HIT_sum": 300, "TCC_MISS_sum": 100}, "measured.l2_hit", 75),
        ({"TCC_HIT[0]": 100, "TCC_HIT[1]": 200, "TCC_MISS[0]": 100}, "measured.l2_hit", 75),
        ({"L2CacheHit": 12.5}, "measured.l2_hit", 12.5),
        ({"FETCH_SIZE": 1000}, "measured.read_bytes", 1_024_000),
        ({"WRITE_SIZE": 0.5}, "measured.write_bytes", 512),
        # 50 of 128 bytes, 30 of 64, 20 of 32.
        (
            {"TCC_EA0_RDREQ_sum": 100, "TCC_BUBBLE_sum": 50, "TCC_EA0_RDREQ_32B_sum": 20},
            "measured.read_bytes",
            50 * 128 + 30 * 64 + 20 * 32,
        ),
        # 60 of 64 bytes, 40 of 32.
        (
            {"TCC_EA0_WRREQ_sum": 100, "TCC_EA0_WRREQ_64B_sum": 60},
            "measured.write_bytes",
            60 * 64 + 40 * 32,
        ),
        ({}, "measured.clock_mhz", 2000),
        # 512 · 63,840,000 operations in 100 µs: a quarter of 1307.4432 TFLOP/s.
        ({"SQ_INSTS_VALU_MFMA_MOPS_F16": 63_840_000}, "measured.share.mfma", 25),
        ({"MfmaFlopsF16": 32_686_080_000}, "measured.share.mfma", 25),
        ({"SQ_INSTS_VALU_MFMA_MOPS_F16": 63_840_000}, "measured.flops", 32_686_080_000),
        ({"SQ_INSTS_VALU_MFMA_MOPS_F16": 63_840_000}, "roofline.flops_per_s", 326.8608e12),
        ({"SQ_INSTS_VALU_MFMA_MOPS_F16": 63_840_000}, "roofline.peak_flops_per_s", 1307.4432e12),
        # 64 lanes: 10 additions and 20 fused ones of two operations.
        (
            {"SQ_INSTS_VALU_ADD_F32": 10, "SQ_INSTS_VALU_FMA_F32": 20},
            "measured.flops",
            64 * (10 + 2 * 20),
        ),
        # FP8 runs at twice the rate of FP16, so that half of each run at 4/3 of FP16's.
        (
            {"SQ_INSTS_VALU_MFMA_MOPS_F16": 1000, "SQ_INSTS_VALU_MFMA_MOPS_F8": 1000},
            "roofline.peak_flops_per_s",
            1307.4432e12 * 4 / 3,
        ),
    ],
)
def test_known_answers(counters: dict[str, float], metric: str, expected: float) -> None:
    kernel = measure({**CLOCKS, **counters})
    assert figures(kernel)[metric] == pytest.approx(expected)
    assert kernel.metrics[metric].origin == "measured"


def test_a_metric_shows_its_formula_and_operands() -> None:
    kernel = measure({**CLOCKS, "SQ_VALU_MFMA_BUSY_CYCLES": 60_800_000})
    assert kernel.metrics["measured.mfma_busy"].note == (
        "100 · SQ_VALU_MFMA_BUSY_CYCLES 6.08e7 / (GRBM_GUI_ACTIVE 1600000/8 · 1216 SIMDs)"
    )
    assert any("summed over XCCs: ÷ 8" in note for note in kernel.notes)


def test_bytes_of_two_passes_are_each_over_their_own_time() -> None:
    kernel = measure({"FETCH_SIZE": 200_000}, {"WRITE_SIZE": 100_000})
    found = figures(kernel)
    assert found["measured.share.memory"] == pytest.approx(100 * 3.072e12 / 5.3e12)
    assert "from passes pass_1, pass_2" in kernel.metrics["measured.share.memory"].note
    assert found["roofline.peak_bytes_per_s"] == 5.3e12


def test_the_point_in_the_roofline() -> None:
    kernel = measure(
        {**CLOCKS, "SQ_INSTS_VALU_MFMA_MOPS_F16": 63_840_000},
        {"FETCH_SIZE": 200_000},
        {"WRITE_SIZE": 100_000},
    )
    assert figures(kernel)["roofline.flops_per_byte"] == pytest.approx(106.4)
    note = kernel.metrics["roofline.flops_per_byte"].note
    assert "from passes pass_1, pass_2, pass_3" in note
    assert "SQ_INSTS_VALU_ADD_F32" in note  # not recorded, and said so


def test_times_of_a_pass_that_cannot_be_its_own_give_way_to_the_traced_ones() -> None:
    """1 GB in 1 ms; the counted pass says 10 us, which would be 100 TB/s."""
    builder = RecordingBuilder(Path("run"))
    builder.agents[MI300X.key] = MI300X
    for number, (nanoseconds, counters) in enumerate(
        [(1_000_000, {}), (10_000, {"FETCH_SIZE": 1e6})]
    ):
        builder.begin(Part(f"pass_{number}", "", "made up"))
        one = KernelShape("k", agent="4", process=number)
        row = builder.dispatch(builder.shape(one), 1, 1000, 1000 + nanoseconds)
        for name, value in counters.items():
            builder.add_counter_value(row, name, value)
            builder.add_counter_value(row, "WRITE_SIZE", 0)
    (kernel,) = profile(builder.finish())
    assert figures(kernel)["measured.share.memory"] == pytest.approx(100 * 1.024e12 / 5.3e12, 0.02)
    assert any("times of pass_1 are wrong: 10.0 us" in note for note in kernel.notes)


def test_a_share_that_no_cache_explains_is_impossible() -> None:
    kernel = measure({"FETCH_SIZE": 1e7, "WRITE_SIZE": 0})
    assert figures(kernel)["measured.share.memory"] > 500
    assert kernel.metrics["measured.share.memory"].note.startswith("over 100 %, cannot be")
    assert any("cannot be: share.memory" in note for note in kernel.notes)


def test_half_of_the_traffic_is_no_share() -> None:
    found = figures(measure({"FETCH_SIZE": 200_000}))
    assert found["measured.read_bytes"] == 204_800_000
    assert "measured.share.memory" not in found


def test_operands_of_a_ratio_come_from_one_pass() -> None:
    apart = measure(CLOCKS, {"SQ_VALU_MFMA_BUSY_CYCLES": 60_800_000}, {"TCC_HIT": 1})
    assert "measured.mfma_busy" not in apart.metrics
    assert "measured.l2_hit" not in apart.metrics
    # Each pass has its own clocks: the share is of the pass that has both.
    both = measure(
        {"GRBM_GUI_ACTIVE": 8 * 210_000},
        {"GRBM_GUI_ACTIVE": 8 * 100_000, "SQ_VALU_MFMA_BUSY_CYCLES": 60_800_000},
    )
    assert figures(both)["measured.mfma_busy"] == pytest.approx(50)


def test_nothing_is_divided_by_zero() -> None:
    zeros = dict.fromkeys(
        (
            "GRBM_GUI_ACTIVE",
            "SQ_VALU_MFMA_BUSY_CYCLES",
            "SQ_LDS_IDX_ACTIVE",
            "SQ_LDS_BANK_CONFLICT",
            "TCC_HIT",
            "TCC_MISS",
            "SQ_INSTS_VALU_MFMA_MOPS_F16",
            "FETCH_SIZE",
            "WRITE_SIZE",
        ),
        0,
    )
    found = figures(measure(zeros))
    assert found["measured.share.mfma"] == 0
    assert found["measured.share.memory"] == 0
    absent = ("measured.mfma_busy", "measured.l2_hit", "measured.lds.conflicts_per_access")
    assert not {*absent, "roofline.flops_per_byte", "measured.clock_mhz"} & found.keys()


def test_unknown_device_figures_are_said_not_guessed() -> None:
    kernel = measure({**CLOCKS, "SQ_VALU_MFMA_BUSY_CYCLES": 1}, agent=None)
    assert "measured.mfma_busy" not in kernel.metrics
    assert any("how many XCCs GRBM" in note for note in kernel.notes)
    bare = measure({**CLOCKS, "SQ_VALU_MFMA_BUSY_CYCLES": 1}, agent=Agent("4", xccs=8))
    assert any("no measured.mfma_busy: unknown of the device: simds" in n for n in bare.notes)
    traffic = measure({"FETCH_SIZE": 1, "WRITE_SIZE": 1}, agent=Agent("4", arch="gfx942"))
    assert any("memory bandwidth is unknown" in note for note in traffic.notes)


def test_a_note_that_another_way_made_void_is_dropped() -> None:
    agent = Agent("4", xccs=8, max_waves_per_simd=8)
    kernel = measure({**CLOCKS, "SQ_WAVE_CYCLES": 1, "OccupancyPercent": 20}, agent=agent)
    assert kernel.metrics["measured.occupancy.percent"].value == 20
    assert not any(note.startswith("no measured.occupancy.percent") for note in kernel.notes)
    assert any(note.startswith("no measured.occupancy.waves_per_eu") for note in kernel.notes)


def test_an_accumulator_beside_two_levels_belongs_to_nobody_knows_which() -> None:
    counters = {**CLOCKS, "SQ_ACCUM_PREV_HIRES": 729_600_000, "SQ_LEVEL_WAVES": 1}
    kernel = measure({**counters, "SQ_INST_LEVEL_LDS": 1})
    assert "measured.occupancy.waves_per_eu" not in kernel.metrics


def test_clocks_of_a_short_kernel_are_no_clock() -> None:
    kernel = measure({"GRBM_GUI_ACTIVE": 8 * 29_471}, time=3_967)
    assert "measured.clock_mhz" not in kernel.metrics
    assert any("also runs before and after a short kernel" in note for note in kernel.notes)


def test_a_table_of_many_passes_says_so_and_gives_way_to_a_single_one() -> None:
    merged = {f"SQ_INSTS_{n}": 1.0 for n in range(20)}
    lump = {**CLOCKS, **merged, "SQ_VALU_MFMA_BUSY_CYCLES": 1}
    kernel = measure(lump)
    assert any("pass_1 is merged from several passes" in note for note in kernel.notes)
    assert "may be of another run" in kernel.metrics["measured.mfma_busy"].note
    both = measure(lump, {**CLOCKS, "SQ_VALU_MFMA_BUSY_CYCLES": 60_800_000})
    assert figures(both)["measured.mfma_busy"] == pytest.approx(25)


def test_rdna_counts_waves_in_clocks_and_has_two_simds_per_cu() -> None:
    agent = Agent("4", arch="gfx1151", cus=40, simds_per_cu=2, max_waves_per_simd=16)
    counters = {"GRBM_GUI_ACTIVE": 200_000, "SQ_WAVE_CYCLES": 64_000_000}
    kernel = measure(counters, agent=agent)
    assert figures(kernel)["measured.occupancy.waves_per_eu"] == pytest.approx(4)
    assert figures(kernel)["measured.occupancy.percent"] == pytest.approx(25)
    # Its LDSBankConflict is of the LDS's own cycles, not of time: it stays a counter.
    conflict = measure({"LDSBankConflict": 7.5}, agent=agent)
    assert "measured.lds.conflict_percent" not in conflict.metrics
    assert conflict.metrics["measured.counter.LDSBankConflict"].value == 7.5


def test_counters_are_shown_in_their_unit() -> None:
    kernel = measure({**CLOCKS, "SQ_WAVE_CYCLES": 100, "FETCH_SIZE": 2.5, "SQ_WAVES": 8})
    shown = {
        name.rpartition(".")[2]: (metric.value, metric.unit)
        for name, metric in kernel.metrics.items()
        if name.startswith("measured.counter.")
    }
    assert shown == {
        "GRBM_GUI_ACTIVE": (200_000, "cycles"),
        "SQ_WAVE_CYCLES": (400, "cycles"),
        "FETCH_SIZE": (2560, "bytes"),
        "SQ_WAVES": (8, "waves"),
    }
    assert kernel.counters["SQ_WAVE_CYCLES"].mean == 100  # as recorded


def test_every_metric_is_in_the_catalogue_with_its_unit() -> None:
    everything = measure(
        {
            **CLOCKS,
            "SQ_VALU_MFMA_BUSY_CYCLES": 1,
            "SQ_ACTIVE_INST_VALU": 1,
            "SQ_WAVE_CYCLES": 1,
            "SQ_LDS_BANK_CONFLICT": 1,
            "SQ_LDS_IDX_ACTIVE": 3,
            "SQ_INSTS_VALU_MFMA_MOPS_F16": 1,
        },
        {"TCC_HIT": 1, "TCC_MISS": 1, "FETCH_SIZE": 1, "WRITE_SIZE": 1},
    )
    units = {spec.name: spec.unit for spec in given_metrics.SPECS}
    by_lines = {name for name in units if name.rpartition(".")[2] in _LINES}
    for name, metric in everything.metrics.items():
        assert metric.origin == "measured"
        if not name.startswith("measured.counter."):
            assert metric.unit == units.pop(name)
    of_launches = {"measured.bound_share"}  # what a dispatch is held against is its compile's
    of_traces = {"measured.span_cycles", "measured.stalls.*"}
    assert units.keys() == by_lines | of_launches | of_traces | {"measured.counter.*"}


_LINES = {"hits", "latency_cycles", "stall_cycles", "samples", "stall_share"}


# --------------------------------------------------------------------------- recordings by others


def samples(*parts: str) -> Path:
    named = os.environ.get("KINSPECT_SAMPLES")
    found = sorted(Path(named).rglob("/".join(parts))) if named else []
    if not found:
        pytest.skip("KINSPECT_SAMPLES names no folder of recordings")
    return found[0]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_vcopy_on_mi300x() -> None:
    folder = samples("vcopy", "MI300X_A1")
    (kernel,) = profile(reading.read(folder), skip_warmup=0)
    for name, value in (("SQ_WAVES", 16384), ("SQ_INSTS_VALU", 98304), ("SQ_INSTS_LDS", 0)):
        assert kernel.metrics[f"measured.counter.{name}"].value == value
    found = figures(kernel)
    # It copies 1,048,576 doubles: 8 MiB read, and some; 8 MiB written.
    assert found["measured.write_bytes"] == 8 * 1024 * 1024
    assert found["measured.read_bytes"] == pytest.approx(8 * 1024 * 1024, rel=5e-3)
    table = rows(folder / "SQ_LEVEL_WAVES.csv")

    def total(name: str) -> float:
        return sum(float(row[name]) for row in table)

    clocks = total("GRBM_GUI_ACTIVE") / 8
    waves = total("SQ_ACCUM_PREV_HIRES") / clocks / 1216
    # Two ways to the same figure: the accumulated level and the quad cycles of all waves.
    assert 4 * total("SQ_WAVE_CYCLES") / clocks / 1216 == pytest.approx(waves, rel=0.01)
    assert found["measured.occupancy.waves_per_eu"] == pytest.approx(waves, rel=0.01)
    assert found["measured.occupancy.percent"] == pytest.approx(100 * waves / 8, rel=0.01)
    assert kernel.duration is None  # its times are 8.1097E+14
    assert "measured.clock_mhz" not in found


def test_gfx1151_counters() -> None:
    path = samples("gfx1151-llamacpp", "prefill_stall_counter_collection.csv")
    table = rows(path)
    kernels = profile(reading.read(path), skip_warmup=0, arch="gfx1151")
    assert sum(k.dispatches for k in kernels) == len({row["Dispatch_Id"] for row in table})
    by_name: dict[str, list[float]] = {}
    for row in table:
        if row["Counter_Name"] == "L2CacheHit":
            by_name.setdefault(row["Kernel_Name"], []).append(float(row["Counter_Value"]))
    checked = 0
    for kernel in kernels:
        hits = by_name[kernel.name]
        if len(hits) == kernel.dispatches:  # in one specialisation
            mean = sum(hits) / len(hits)
            assert kernel.metrics["measured.l2_hit"].value == pytest.approx(mean)
            checked += 1
    assert checked > 10
    # The longest kernel runs near the 2900 MHz that the product page gives.
    clock = kernels[0].metrics["measured.clock_mhz"].value
    assert isinstance(clock, float)
    assert 2700 < clock < 2950


def test_gfx1151_traffic_is_below_the_memory_s_peak() -> None:
    path = samples("gfx1151-llamacpp", "decode_fetch_counter_collection.csv")
    for kernel in profile(reading.read(path), skip_warmup=0, arch="gfx1151"):
        read = kernel.metrics["measured.read_bytes"].value
        assert isinstance(read, float)
        assert kernel.duration is not None
        if kernel.duration.mean > 20_000:  # ns; what short ones read stands in a cache
            assert read / kernel.duration.mean < 256  # GB/s
        recorded = kernel.counters["FETCH_SIZE"].mean
        assert read == recorded * 1024


def test_counters_are_shown_in_the_unit_of_their_metric() -> None:
    """SQ_WAVE_CYCLES counts quad cycles on gfx942."""
    rows = {row[0]: row[1] for row in counter_rows(measure({**CLOCKS, "SQ_WAVE_CYCLES": 250}))}
    assert rows["SQ_WAVE_CYCLES"] == "1,000"
