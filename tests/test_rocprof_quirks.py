"""What counters are, and what devices and profilers report in a way that misleads."""

from __future__ import annotations

from pathlib import Path

import pytest
from kinspect.inspector.machines import names
from kinspect.inspector.machines.products import all_products, find_product, shared_bandwidth
from kinspect.inspector.model.recording import Agent, KernelShape, Part
from kinspect.inspector.profile.builder import RecordingBuilder
from kinspect.inspector.profile.figures import counters, quirks
from kinspect.inspector.profile.figures.peaks import device
from kinspect.inspector.profile.kernel_profiles import profile

# --------------------------------------------------------------------------- counters


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("SQ_WAVES", "SQ"),
        ("SQC_ICACHE_REQ", "SQ"),
        ("TCC_HIT", "TCC"),
        ("TCC_HIT[12]", "TCC"),
        ("GRBM_GUI_ACTIVE", "GRBM"),
        ("GL2C_HIT", "GL2C"),
        ("SQ_A_COUNTER_OF_TOMORROW", "SQ"),
        ("TCC_HIT_sum", None),
        ("FETCH_SIZE", None),
        ("NOTHING", None),
    ],
)
def test_the_block_that_counts(name: str, block: str | None) -> None:
    assert counters.block_of(name) == block


def test_limits_per_pass_are_those_of_the_hardware() -> None:
    expected = {"SQ": 8, "TA": 2, "TD": 2, "TCP": 4, "TCC": 4, "CPC": 2, "CPF": 2, "SPI": 6}
    for arch in ("gfx90a", "gfx942:sramecc+:xnack-", "gfx950"):
        assert {block: counters.limit(block, arch) for block in expected} == expected
        assert counters.limit("GRBM", arch) == 2
    assert counters.limit("GL2C", "gfx1151") == 4
    assert counters.limit("TCC", "gfx1151") is None
    assert counters.limit("SQ", "gfx9999") is None


def test_counters_of_a_target() -> None:
    assert {"SQ_VALU_MFMA_BUSY_CYCLES", "MfmaUtil", "TCC_HIT_sum"} <= counters.known("gfx942")
    assert "SQ_INSTS_VALU_MFMA_MOPS_F6F4" in counters.known("gfx950") - counters.known("gfx942")
    assert "GL2C_HIT" in counters.known("gfx1201")
    assert "TCC_HIT" not in counters.known("gfx1201")
    assert counters.known("gfx941") == counters.known("gfx942")
    assert counters.known("gfx9999") == frozenset()
    assert counters.is_guessed("gfx9999")
    assert counters.is_guessed("gfx1151")
    assert not counters.is_guessed("gfx942")


def test_every_derived_counter_rests_on_basic_ones() -> None:
    for arch in names():
        for name in counters.known(arch):
            for operand in counters.operands(name, arch):
                assert counters.block_of(operand) is not None, (arch, name, operand)


def test_operands_depend_on_the_target() -> None:
    assert counters.operands("SQ_WAVES") == ("SQ_WAVES",)
    assert counters.operands("TCC_HIT_sum", "gfx942") == ("TCC_HIT",)
    assert counters.operands("FETCH_SIZE", "gfx90a") == ("TCC_EA_RDREQ_32B", "TCC_EA_RDREQ")
    assert set(counters.operands("FETCH_SIZE", "gfx1100")) == {
        f"GL2C_EA_RDREQ_{size}B" for size in (32, 64, 96, 128)
    }
    # An accumulated level takes a second register of its block.
    assert counters.operands("MeanOccupancyPerCU", "gfx942") == (
        "SQ_LEVEL_WAVES",
        "SQ_ACCUM_PREV_HIRES",
        "GRBM_GUI_ACTIVE",
    )
    assert set(counters.operands("FETCH_SIZE")) > set(counters.operands("FETCH_SIZE", "gfx90a"))


def test_nearest_names() -> None:
    assert counters.nearest("sq_wave", "gfx942")[0] == "SQ_WAVES"
    assert "MfmaUtil" in counters.nearest("MFMAUtil", "gfx942")
    assert counters.nearest("xyzzy", "gfx942") == ()


@pytest.mark.parametrize(
    ("name", "arch", "unit", "scale"),
    [
        ("SQ_WAVE_CYCLES", "gfx942", "cycles", 4),
        ("SQ_WAVE_CYCLES", "gfx1151", "cycles", 1),
        ("SQ_WAVE_CYCLES", None, "count", 1),
        ("SQ_BUSY_CU_CYCLES", "gfx90a", "cycles", 4),
        ("SQ_WAIT_INST_ANY", "gfx950", "cycles", 4),
        ("SQ_ACTIVE_INST_VALU", "gfx942", "cycles", 4),
        ("SQ_BUSY_CYCLES", "gfx942", "cycles", 1),
        ("SQ_VALU_MFMA_BUSY_CYCLES", "gfx942", "cycles", 1),
        ("FETCH_SIZE", "gfx1151", "bytes", 1024),
        ("SQ_WAVES", None, "waves", 1),
        ("TCC_EA0_RDREQ_32B_sum", "gfx942", "requests", 1),
        ("L2CacheHit", "gfx1151", "%", 1),
        ("SQ_INSTS_VALU_MFMA_MOPS_F16", "gfx942", "512 operations", 1),
        ("NOBODY_KNOWS", "gfx942", "count", 1),
    ],
)
def test_units(name: str, arch: str | None, unit: str, scale: int) -> None:
    known = counters.about(name, arch)
    assert (known.unit, known.scale) == (unit, scale)
    assert known.source or arch is None


# --------------------------------------------------------------------------- registers


def test_vgpr_count_of_a_unified_file_is_where_agprs_start() -> None:
    found = quirks.registers(KernelShape("k", vgpr=128, accum_vgpr=64), "gfx942")
    assert (found.vgpr, found.accum, found.is_offset, found.exact) == (128, 64, True, True)
    assert "where AGPRs start" in found.notes[0]


def test_vgpr_count_may_be_half_on_gfx950() -> None:
    found = quirks.registers(KernelShape("k", vgpr=64, accum_vgpr=0), "gfx950")
    assert (found.accum, found.exact) == (None, False)
    assert "half" in found.notes[0]
    fixed = quirks.registers(KernelShape("k", vgpr=128, accum_vgpr=64), "gfx950")
    assert (fixed.accum, fixed.exact) == (64, True)


def test_elsewhere_registers_are_what_they_seem() -> None:
    for arch in ("gfx1100", "gfx908", None):
        found = quirks.registers(KernelShape("k", vgpr=96, accum_vgpr=0), arch)
        assert (found.vgpr, found.is_offset, found.notes) == (96, False, ())


def test_128_sgprs_mean_nothing_from_gfx10_on() -> None:
    assert quirks.sgprs(KernelShape("k", sgpr=128), "gfx1151")[0] is None
    assert "always 128" in quirks.sgprs(KernelShape("k", sgpr=128), "gfx1151")[1]
    assert quirks.sgprs(KernelShape("k", sgpr=128), "gfx942") == (128, "")
    assert quirks.sgprs(KernelShape("k", sgpr=96), "gfx1100") == (96, "")


# --------------------------------------------------------------------------- clocks


def test_clocks_are_summed_over_xccs() -> None:
    value, note = quirks.per_xcc(486_977, 8, None, 2100)
    assert (value, note) == (486_977 / 8, "GRBM_GUI_ACTIVE is summed over XCCs: ÷ 8")
    # 29 µs at 2.1 GHz are 60,900 clocks: eight times as many are a sum, as many a maximum.
    assert quirks.per_xcc(486_977, 8, 29_000, 2100)[0] == 486_977 / 8
    value, note = quirks.per_xcc(60_000, 8, 29_000, 2100)
    assert value == 60_000
    assert "maximum over XCCs" in note
    assert quirks.per_xcc(60_000, 1, 29_000, 2100) == (60_000, "")
    assert quirks.per_xcc(60_000, None, 29_000, 2100) == (60_000, "")


def timed(*times: tuple[int, int]) -> RecordingBuilder:
    builder = RecordingBuilder(Path("run"))
    builder.begin(Part("p", "", "made up"))
    for start, end in times:
        builder.dispatch(builder.shape(KernelShape("k", sgpr=128)), None, start, end)
    return builder


def test_a_coarse_clock_is_told() -> None:
    rows = [(n * 1000, n * 1000 + 40 * (n % 7 + 1)) for n in range(1, 30)]
    (kernel,) = profile(timed(*rows).finish())
    assert any("multiples of 40 ns" in note for note in kernel.notes)
    fine = [(n * 1000, n * 1000 + 41 * (n % 7 + 1)) for n in range(1, 30)]
    (kernel,) = profile(timed(*fine).finish())
    assert not any("multiples" in note for note in kernel.notes)
    (kernel,) = profile(timed(*rows[:3]).finish())
    assert not any("multiples" in note for note in kernel.notes)


def test_times_that_a_spreadsheet_rounded_are_unknown() -> None:
    same = 810_970_000_000_000
    (kernel,) = profile(timed((same, same), (same, same + 10_000_000)).finish())
    assert kernel.duration is None
    assert any("durations are unknown" in note for note in kernel.notes)


def test_what_was_corrected_is_said() -> None:
    (kernel,) = profile(timed((1, 5), (7, 19)).finish(), arch="gfx1100")
    assert any("SGPR_Count is always 128 on gfx1100" in note for note in kernel.notes)


# --------------------------------------------------------------------------- peaks


# Published peak rates in TFLOP/s: AMD's product pages and data sheets.
@pytest.mark.parametrize(
    ("product", "arch", "element", "published"),
    [
        ("AMD Instinct MI210", "gfx90a", "f16", 181.0),
        ("AMD Instinct MI210", "gfx90a", "f64", 45.3),
        ("AMD Instinct MI250X/MI250", "gfx90a", "f16", 383.0 / 2),
        ("AMD Instinct MI300A", "gfx942", "f16", 980.6),
        ("AMD Instinct MI300X", "gfx942", "f16", 1307.4),
        ("AMD Instinct MI300X", "gfx942", "f8", 2614.9),
        ("AMD Instinct MI300X", "gfx942", "xf32", 653.7),
        ("AMD Instinct MI300X", "gfx942", "f64", 163.4),
        ("AMD Instinct MI350X", "gfx950", "f16", 2306.9),
        ("AMD Instinct MI355X", "gfx950", "f16", 2516.6),
        ("AMD Instinct MI355X", "gfx950", "f8", 5033.2),
        ("AMD Instinct MI355X", "gfx950", "f6f4", 10066.3),
        ("AMD Instinct MI355X", "gfx950", "f64", 78.6),
        ("AMD Radeon RX 7900 XTX", "gfx1100", "f16", 122.9),
        ("AMD Radeon RX 9070 XT", "gfx1201", "f16", 194.6),
    ],
)
def test_matrix_peaks_follow_from_cycles(
    product: str, arch: str, element: str, published: float
) -> None:
    found = device(Agent("1", product=product, arch=arch))
    peak = found.flops_per_s(found.matrix[element])
    assert peak is not None
    assert peak / 1e12 == pytest.approx(published, rel=2e-3)


def test_the_recording_knows_better_than_the_tables() -> None:
    agent = Agent(
        "1",
        product="AMD Instinct MI300X",
        arch="gfx942:sramecc+:xnack-",
        cus=38,
        xccs=1,
        clock_mhz=1900,
        memory_bytes_per_s=1e12,
    )
    found = device(agent)
    assert (found.cus, found.xccs, found.clock_mhz, found.simds) == (38, 1, 1900, 152)
    assert found.memory_bytes_per_s == 1e12
    assert found.sources["cus"] == "the recording"
    plain = device(Agent("1", product="AMD Instinct MI300X"))
    assert (plain.arch, plain.cus, plain.xccs) == ("gfx942", 304, 8)
    assert "MI300X" in plain.sources["memory_bytes_per_s"]


def test_what_is_not_known_of_a_device_is_not_made_up() -> None:
    unknown = device(None)
    assert (unknown.cus, unknown.xccs, unknown.memory_bytes_per_s) == (None, None, None)
    # gfx942 alone may be an MI300A or an MI300X: neither XCCs nor bandwidth follow from it.
    some = device(None, "gfx942")
    assert (some.xccs, some.memory_bytes_per_s) == (None, None)
    assert device(None, "gfx1151").memory_bytes_per_s == 256e9
    assert device(None, "gfx1151").xccs == 1


def test_products_agree_with_the_machine_files() -> None:
    assert {product.arch for product in all_products()} <= set(names())
    assert find_product("MI300X_A1") == find_product("AMD Instinct MI300X OAM")
    assert find_product("AMD Radeon RX 7900 XTX") != find_product("AMD Radeon RX 7900 XT")
    assert find_product("AMD Radeon Graphics") is None
    assert find_product(None, "gfx90a", 110) == find_product("MI250X")
    assert find_product(None, "gfx942") is None
    assert shared_bandwidth("gfx942") is None
    for product in all_products():
        assert product.source
        assert 100e9 < product.memory_bytes_per_s <= 8e12
