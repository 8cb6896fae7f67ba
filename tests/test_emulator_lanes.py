"""Exchange between lanes, DPP with idle lanes, hardware registers, scalar operations."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from emulated import Array, code_of, run_lines
from kinspect.inspector.emulator.instructions.lds import swizzle_pattern
from kinspect.inspector.emulator.modes import targets_of
from kinspect.inspector.emulator.registry import NotCoveredError

LANES = np.arange(64)
VALUES = LANES * 3 + 1000
SOME = 0xF0F0_1234_FFFF_00FE
ACTIVE = np.array([SOME >> lane & 1 for lane in range(64)], bool)
WAIT = "s_waitcnt lgkmcnt(0)"


def moved(line: str, arch: str = "gfx942", active: int | None = SOME, **vgprs: Any) -> Array:
    """v8 behind a line that reads v2 (VALUES); v8 is 7 before."""
    rows = {2: VALUES, 8: 7, **{int(name[1:]): value for name, value in vgprs.items()}}
    if arch != "gfx942":
        rows = {row: np.resize(value, 64)[:32] for row, value in rows.items()}
        active = None if active is None else active & 0xFFFFFFFF
    wait = "s_wait_dscnt 0x0" if arch == "gfx1201" else WAIT
    return np.asarray(
        run_lines(arch, [line, wait], rows, {4: 5, 5: 0x12345678}, active=active).u32[8, 0]
    )


# ---------------------------------------------------------------------- DPP


@pytest.mark.parametrize(
    ("control", "origin", "valid"),
    [
        ("quad_perm:[3,1,0,2]", (LANES & ~3) + np.array([3, 1, 0, 2])[LANES & 3], LANES >= 0),
        ("row_shr:5", LANES - 5, LANES % 16 >= 5),
        ("row_shl:3", LANES + 3, LANES % 16 < 13),
        ("row_ror:7", (LANES & ~15) + (LANES - 7) % 16, LANES >= 0),
        ("row_bcast:15", (LANES & ~15) - 1, LANES > 15),
        ("row_newbcast:5", (LANES & ~15) + 5, LANES >= 0),
        ("wave_shr:1", LANES - 1, LANES > 0),
    ],
)
def test_dpp_and_idle_lanes(control: str, origin: Array, valid: Array) -> None:
    """Without bound_ctrl a lane with an invalid or idle source is not written, with it reads 0."""
    source = VALUES[np.clip(origin, 0, 63)]
    usable = valid & ACTIVE[np.clip(origin, 0, 63)]
    line = f"v_mov_b32_dpp v8, v2 {control} row_mask:0xf bank_mask:0xf"
    assert np.array_equal(moved(line), np.where(ACTIVE & usable, source, 7))
    zeroed = np.where(usable, source, 0)
    assert np.array_equal(moved(line + " bound_ctrl:1"), np.where(ACTIVE, zeroed, 7))
    rows, banks = 0xB >> (LANES // 16) & 1, 0x6 >> (LANES % 16 // 4) & 1
    line = line.replace("row_mask:0xf bank_mask:0xf", "row_mask:0xb bank_mask:0x6")
    written = ACTIVE & usable & (rows & banks).astype(bool)
    assert np.array_equal(moved(line), np.where(written, source, 7))


def test_dpp_of_16_bits_keeps_what_it_does_not_write() -> None:
    one = np.full(64, 0x3C00)
    got = moved("v_add_f16_dpp v8, v2, v3 row_shr:1 row_mask:0xf bank_mask:0xf", v2=one, v3=one,
                v8=0x12345678)  # fmt: skip
    usable = (LANES % 16 > 0) & ACTIVE & np.roll(ACTIVE, 1)
    assert np.array_equal(got, np.where(usable, 0x4000, 0x12345678))


def test_fetching_idle_lanes_and_dpp8() -> None:
    lanes, active = LANES[:32], ACTIVE[:32]
    line = "v_mov_b32_dpp v8, v2 row_xmask:5 row_mask:0xf bank_mask:0xf fi:1"
    assert np.array_equal(moved(line, "gfx1100"), np.where(active, VALUES[lanes ^ 5], 7))
    got = moved("v_mov_b32_dpp v8, v2 dpp8:[7,6,5,4,3,2,1,0]", "gfx1100")
    source = lanes ^ 7
    expected = np.where(active[source], VALUES[source], 0)
    assert np.array_equal(got, np.where(active, expected, 7))


# ---------------------------------------------------------------------- permutations


def test_permlane16_and_its_idle_sources() -> None:
    nibbles = [5, 0, 0, 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1]
    lanes, active = LANES[:32], ACTIVE[:32]
    for name, other in (("16", 0), ("x16", 16)):
        source = ((lanes & 16) ^ other) + np.array(nibbles)[lanes & 15]
        value, usable = VALUES[source], active[source]
        line = f"v_permlane{name}_b32 v8, v2, s4, s5"
        cases = (("", np.where(active & usable, value, 7)),
                 (" op_sel:[1,0]", np.where(active, value, 7)),
                 (" op_sel:[0,1]", np.where(active, np.where(usable, value, 0), 7)))  # fmt: skip
        for modifier, expected in cases:
            assert np.array_equal(moved(line + modifier, "gfx1100"), expected)


def test_lanes_that_choose_in_a_register() -> None:
    choice = (LANES * 7 + 3) & 31
    got = moved("v_permlanex16_var_b32 v8, v2, v3", "gfx1201", None, v3=choice)
    lanes = LANES[:32]
    assert np.array_equal(got, VALUES[((lanes & 16) ^ 16) + (choice[:32] & 15)])


@pytest.mark.parametrize("width", [16, 32])
def test_swapping_rows(width: int) -> None:
    state = run_lines("gfx950", [f"v_permlane{width}_swap_b32 v1, v2"], {1: LANES, 2: LANES + 100})
    first, second = LANES.copy(), LANES + 100
    for lane in range(64):
        if lane // width % 2:  # an odd row of the first, an even one of the second
            first[lane], second[lane - width] = second[lane - width], first[lane]
    assert np.array_equal(state.u32[1, 0], first)
    assert np.array_equal(state.u32[2, 0], second)
    with pytest.raises(NotCoveredError):
        run_lines("gfx950", [f"v_permlane{width}_swap_b32 v1, v2"], {1: 0, 2: 1}, active=1)


def test_pull_and_push() -> None:
    address = (LANES * 28 + 12) & 0x7FF
    lane = (address + 4) // 4 % 64
    got = moved("ds_bpermute_b32 v8, v1, v2 offset:4", v1=address)
    assert np.array_equal(got, np.where(ACTIVE, np.where(ACTIVE[lane], VALUES[lane], 0), 7))
    lane = LANES // 2 * 5 % 64
    pushed = np.zeros(64, np.int64)
    for source in range(64):
        if ACTIVE[source]:
            pushed[lane[source]] = VALUES[source]
    got = moved("ds_permute_b32 v8, v1, v2", v1=lane * 4)
    assert np.array_equal(got, np.where(ACTIVE, pushed, 7))
    got = moved("ds_bpermute_fi_b32 v8, v1, v2", "gfx1201", v1=LANES * 4 ^ 64)
    assert np.array_equal(got, np.where(ACTIVE[:32], VALUES[LANES[:32] ^ 16], 7))


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("swizzle(QUAD_PERM,3,1,0,2)", [3, 1, 0, 2, 7, 5, 4, 6]),
        ('swizzle(BITMASK_PERM,"00p1i")', [3, 2, 3, 2, 7, 6, 7, 6]),
        ("swizzle(SWAP,4)", [4, 5, 6, 7, 0, 1, 2, 3]),
        ("swizzle(REVERSE,8)", [7, 6, 5, 4, 3, 2, 1, 0]),
        ("swizzle(BROADCAST,4,2)", [2, 2, 2, 2, 6, 6, 6, 6]),
        ("swizzle(FFT,0)", [0, 16, 8, 24, 4, 20, 12, 28]),  # CDNA3 ISA, its table less 1
        ("0xe010", [0, 8, 4, 12, 2, 10, 6, 14]),
        ("swizzle(ROTATE,0,3)", [3, 4, 5, 6, 7, 8, 9, 10]),
        ("swizzle(ROTATE,1,3)", [29, 30, 31, 0, 1, 2, 3, 4]),
        ("0x401f", [16, 17, 18, 19, 20, 21, 22, 23]),
        ("0x801b", [3, 2, 1, 0, 7, 6, 5, 4]),
    ],
)
def test_swizzle_patterns(text: str, first: list[int]) -> None:
    pattern = swizzle_pattern(text, 64)
    assert pattern[:8].tolist() == first
    assert np.array_equal(pattern[32:], pattern[:32] + 32)


def test_scalars_of_lanes() -> None:
    state = run_lines(
        "gfx942",
        ["v_readfirstlane_b32 s8, v2", "v_readlane_b32 s9, v2, s4", "v_writelane_b32 v8, s5, 3"],
        {2: VALUES, 8: 7}, {4: 64 + 9, 5: 77}, active=0x100,
    )  # fmt: skip
    assert state.scalar[8:10, 0].tolist() == [VALUES[8], VALUES[9]]
    assert state.u32[8, 0].tolist() == [77 if lane == 3 else 7 for lane in range(64)]


# ---------------------------------------------------------------------- the mode


def test_a_mode_that_stands_already_may_be_written() -> None:
    state = run_lines(
        "gfx942",
        ["s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15",
         "s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s4",
         "s_getreg_b32 s8, hwreg(HW_REG_MODE, 0, 10)", "s_getreg_b32 s9, hwreg(HW_REG_XCC_ID)"],
        {}, {4: 0},
    )  # fmt: skip
    assert state.scalar[8:10, 0].tolist() == [0x3F0, 0]
    run_lines("gfx1201", ["s_round_mode 0x0", "s_denorm_mode 15"])


@pytest.mark.parametrize(
    ("arch", "keep", "flush"),
    [
        ("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3",
         "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0"),
        ("gfx1100", "s_denorm_mode 15", "s_denorm_mode 12"),
        ("gfx1201", "s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 4, 4), 15", "s_denorm_mode 0"),
    ],
)  # fmt: skip
def test_denormals_are_kept_where_the_mode_keeps_them(arch: str, keep: str, flush: str) -> None:
    halves = [f"v_mul_f32 v{row}, 0.5, v2" for row in (4, 5, 6)]
    lines = [halves[0], keep, "s_cbranch_scc1 .L1", "s_nop 0", ".L1:", halves[1], flush, halves[2]]
    smallest = 2.0**-126
    rows = run_lines(arch, lines, {2: np.float32(smallest)}, flush32=True).u32[4:7, 0, 0]
    assert rows.view(np.float32).tolist() == [0.0, smallest / 2, 0.0]


def test_overflow_saturates_from_where_the_mode_says_so() -> None:
    lines = ["v_cvt_f16_f32 v4, v2", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1",
             "v_cvt_f16_f32 v5, v2", "s_getreg_b32 s8, hwreg(HW_REG_MODE, 23, 1)"]  # fmt: skip
    state = run_lines("gfx942", lines, {2: np.float32(1e6)})
    assert state.u32[4:6, 0, 0].tolist() == [0x7C00, 0x7BFF]
    assert state.scalar[8, 0] == 1


@pytest.mark.parametrize("scc", [False, True])
def test_a_mode_that_depends_on_the_path_is_refused(scc: bool) -> None:
    lines = ["s_cbranch_scc1 .L1", "s_denorm_mode 15", ".L1:", "v_mul_f32 v4, 0.5, v2"]
    with pytest.raises(NotCoveredError, match="mode"):
        run_lines("gfx1100", lines, scc=scc, flush32=True)
    run_lines("gfx1100", [*lines[:3], "s_denorm_mode 12", lines[3]], scc=scc, flush32=True)


@pytest.mark.parametrize("restored", [True, False])
def test_a_function_runs_in_the_mode_of_its_callers(restored: bool) -> None:
    saturate = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1"
    flush = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0"
    keep = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3"
    lines = [saturate, "s_swappc_b64 s[30:31], s[0:1]", "v_cvt_f16_f32 v4, v2", "s_endpgm",
             "v_cvt_f16_f32 v5, v2", flush, "v_exp_f32 v6, v6", keep if restored else "s_nop 0",
             "s_setpc_b64 s[30:31]"]  # fmt: skip
    code = code_of("gfx942", lines)
    modes = targets_of(code.function, code.decoded, code.target)
    assert [mode and (mode.saturates16, mode.flush32) for mode in modes[2:9]] == [
        (True, False), (True, False), (True, False), (False, False), (True, True),
        (False, False) if restored else (True, True), (True, False) if restored else None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    ["s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 3", "s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s4",
     "s_getreg_b32 s8, hwreg(HW_REG_HW_ID)"],
)  # fmt: skip
def test_another_mode_is_refused(line: str) -> None:
    with pytest.raises(NotCoveredError):
        run_lines("gfx942", [line], {}, {4: 0})


# ---------------------------------------------------------------------- scalar operations


def scalar(arch: str, line: str, *sources: int, scc: bool = False) -> tuple[int, bool]:
    """s[12:13] behind a line whose sources begin at s4, and SCC."""
    sgprs = {4 + at: word for at, word in enumerate(sources)}
    state = run_lines(arch, [line], {}, {12: 5, 13: 6, **sgprs}, scc=scc)
    return int(state.scalar[12, 0]) | int(state.scalar[13, 0]) << 32, bool(state.scc[0])


HIGH = 6 << 32


@pytest.mark.parametrize(
    ("line", "sources", "expected"),
    [
        ("s_max_i32 s12, s4, s5", (7, 7), (HIGH | 7, True)),
        ("s_max_u32 s12, s4, s5", (7, 0xFFFFFFFF), (HIGH | 0xFFFFFFFF, False)),
        ("s_absdiff_i32 s12, s4, s5", (3, 10), (HIGH | 7, True)),
        ("s_absdiff_i32 s12, s4, s5", (0x80000000, 0), (HIGH | 0x80000000, True)),
        ("s_bfe_u64 s[12:13], s[4:5], s6", (0x89ABCDEF, 0x01234567, 4 | 36 << 16),
         (0x0123456789ABCDEF >> 4 & (1 << 36) - 1, True)),
        ("s_bfe_i64 s[12:13], s[4:5], s6", (0x00000F00, 0, 8 | 4 << 16),
         (0xFFFFFFFFFFFFFFFF, True)),
        ("s_bfm_b64 s[12:13], s4, s5", (40, 4), (((1 << 40) - 1) << 4, False)),
        ("s_bitreplicate_b64_b32 s[12:13], s4", (0x80000005,), (0xC000000000000033, False)),
        ("s_quadmask_b32 s12, s4", (0x80000102,), (HIGH | 0b10000101, True)),
        ("s_quadmask_b64 s[12:13], s[4:5]", (0x00000010, 0x80000000), (0x8002, True)),
        ("s_wqm_b64 s[12:13], s[4:5]", (0x00000010, 0x80000000), (0xF0000000000000F0, True)),
        ("s_wqm_b32 s12, s4", (0,), (HIGH, False)),
        ("s_ff0_i32_b32 s12, s4", (0xFF,), (HIGH | 8, False)),
        ("s_ff0_i32_b64 s12, s[4:5]", (0xFFFFFFFF, 0xFFFFFFFF), (HIGH | 0xFFFFFFFF, False)),
        ("s_flbit_i32 s12, s4", (0xFFFFF000,), (HIGH | 20, False)),
        ("s_flbit_i32 s12, s4", (0xFFFFFFFF,), (HIGH | 0xFFFFFFFF, False)),
        ("s_flbit_i32_i64 s12, s[4:5]", (0, 1), (HIGH | 31, False)),
        ("s_bcnt0_i32_b64 s12, s[4:5]", (0xF, 0), (HIGH | 60, True)),
        ("s_bitset1_b64 s[12:13], s4", (36,), (HIGH | 5 | 1 << 36, False)),
        ("s_bitset0_b32 s12, s4", (32,), (HIGH | 4, False)),
        ("s_cmov_b64 s[12:13], s[4:5]", (1, 2), (HIGH | 5, False)),
        ("s_andn1_wrexec_b64 s[12:13], s[4:5]", (0xFFFFFFF0, 0xFFFFFFFF), (15, True)),
        ("s_andn2_wrexec_b64 s[12:13], s[4:5]", (15, 0), (0, False)),
    ],
)  # fmt: skip
def test_scalar_integers(line: str, sources: tuple[int, ...], expected: tuple[int, bool]) -> None:
    assert scalar("gfx942", line, *sources) == expected


def test_moves_that_m0_directs() -> None:
    state = run_lines(
        "gfx942", ["s_movrels_b64 s[12:13], s[4:5]", "s_movreld_b32 s20, s4"],
        {}, {4: 1, 5: 2, 6: 3, 7: 4}, m0=2,
    )  # fmt: skip
    assert state.scalar[12:14, 0].tolist() == [3, 4]
    assert state.scalar[20:23, 0].tolist() == [0, 0, 1]
    with pytest.raises(NotCoveredError):
        run_lines("gfx942", ["s_movrels_b32 s12, s4"], m0=200)


def word(value: float, form: str = "f") -> int:
    return int.from_bytes(struct.pack("<" + form, value), "little")


@pytest.mark.parametrize(
    ("line", "sources", "expected"),
    [
        ("s_fmac_f32 s12, s4, s5", (word(3.0), word(4.0)), None),
        ("s_fmamk_f32 s12, s4, 0x41200000, s5", (word(3.0), word(4.0)), word(34.0)),
        ("s_fmaak_f32 s12, s4, s5, 0x41200000", (word(3.0), word(4.0)), word(22.0)),
        ("s_rndne_f32 s12, s4", (word(2.5),), word(2.0)),
        ("s_min_num_f32 s12, s4, s5", (word(0.0), word(-0.0)), word(-0.0)),
        ("s_max_num_f32 s12, s4, s5", (word(float("nan")), word(-3.0)), word(-3.0)),
        ("s_minimum_f32 s12, s4, s5", (word(1.0), 0x7FC00000), 0x7FC00000),
        ("s_cvt_u32_f32 s12, s4", (word(-1.0),), 0),
        ("s_cvt_i32_f32 s12, s4", (word(1e20),), 0x7FFFFFFF),
        ("s_add_f16 s12, s4, 1.0", (word(2.0, "e") | 0xABCD0000,), word(3.0, "e")),
        ("s_cvt_hi_f32_f16 s12, s4", (word(2.0, "e") << 16,), word(2.0)),
        ("s_cvt_pk_rtz_f16_f32 s12, s4, s5", (word(1.9999), word(-1e9)),
         0x3FFF | 0xFBFF << 16),
    ],
)  # fmt: skip
def test_scalar_floats(line: str, sources: tuple[int, ...], expected: int | None) -> None:
    got, _ = scalar("gfx1201", line, *sources)
    if expected is None:  # s12 is 5 before: a tiny number, 12 + tiny is 12
        expected = word(12.0)
    assert got & 0xFFFFFFFF == expected


def test_comparisons_of_scalar_floats() -> None:
    nan, one = 0x7FC00000, word(1.0)
    outcome = {"lt": 0, "eq": 0, "le": 0, "gt": 0, "lg": 0, "ge": 0, "o": 0, "u": 1, "nge": 1,
               "nlg": 1, "ngt": 1, "nle": 1, "neq": 1, "nlt": 1}  # fmt: skip
    for name, expected in outcome.items():
        assert scalar("gfx1201", f"s_cmp_{name}_f32 s4, s5", nan, one)[1] == bool(expected)
    assert scalar("gfx1201", "s_cmp_le_f16 s4, 1.0", word(1.0, "e"))[1]


def test_other_barriers_than_the_workgroups_are_refused() -> None:
    for line in ("s_barrier_signal 1", "s_barrier_signal_isfirst -1", "s_barrier_wait 1"):
        with pytest.raises(NotCoveredError):
            run_lines("gfx1201", [line])
    run_lines("gfx1201", ["s_barrier_signal -1", "s_barrier_wait -1"], waves=2)
