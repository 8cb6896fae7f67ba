"""What single instructions of the emulator do, against numbers worked out independently."""

from __future__ import annotations

import math
import random
import struct
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulated import mask_of, run_lines

Array = np.ndarray[Any, Any]

NAN, INF = 0x7FC00000, 0x7F800000
LANES = np.arange(64, dtype=np.uint32)


def result(arch: str, line: str, vgprs: Any = None, row: int = 10, **rest: Any) -> list[int]:
    """The first lanes of a register after one instruction."""
    return [int(word) for word in run_lines(arch, line, vgprs, **rest).u32[row, 0]]


def bits(value: float) -> int:
    """A float32's bits."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def half(value: float) -> int:
    return int(struct.unpack("<H", struct.pack("<e", value))[0])


def singles(*values: float) -> Array:
    """One value per lane, the last one repeated."""
    return np.array([*values, *values[-1:] * (64 - len(values))], np.float32)


def words(*values: int, lanes: int = 64) -> Array:
    return np.array([*values, *values[-1:] * (lanes - len(values))], np.uint32)


# ---------------------------------------------------------------------- integers


def test_carries_go_into_and_come_from_masks_and_idle_lanes_are_zero() -> None:
    state = run_lines(
        "gfx942", "v_add_co_u32_e32 v10, vcc, v2, v4", {2: words(0xFFFFFFFF, 5), 4: 1},
        active=0b1011, vcc=0b1111,
    )  # fmt: skip
    assert list(state.u32[10, 0, :4]) == [0, 6, 0, 6]
    assert mask_of(state) == 1
    state = run_lines(
        "gfx1100", "v_sub_co_ci_u32_e64 v10, s20, v2, v4, s22", {2: 5, 4: 5}, {22: 0b10}
    )
    assert list(state.u32[10, 0, :3]) == [0, 0xFFFFFFFF, 0]
    assert int(state.scalar[20, 0]) == 0b10


@pytest.mark.parametrize(
    ("line", "a", "b", "expected"),
    [
        ("v_add_i32 v10, v2, v4 clamp", 0x7FFFFFFF, 1, 0x7FFFFFFF),
        ("v_sub_i32 v10, v2, v4 clamp", 0x80000000, 1, 0x80000000),
        ("v_sub_u32_e64 v10, v2, v4 clamp", 1, 2, 0),
        ("v_subrev_u32_e64 v10, v2, v4 clamp", 2, 1, 0),
        ("v_add_u16_e64 v10, v2, v4 clamp", 0xFFFF, 2, 0xFFFF),
        ("v_add_i16 v10, v2, v4 clamp", 0x8000, 0xFFFF, 0x8000),
        ("v_pk_add_u16 v10, v2, v4 clamp", 0xFFFF0001, 0x00020001, 0xFFFF0002),
        ("v_pk_sub_i16 v10, v2, v4 clamp", 0x80000005, 0x00010006, 0x8000FFFF),
        ("v_lshlrev_b32_e32 v10, v2, v4", 33, 3, 6),
        ("v_ashrrev_i32_e32 v10, v2, v4", 63, 0x80000000, 0xFFFFFFFF),
        ("v_mul_u32_u24_e32 v10, v2, v4", 0xFF000003, 0xFF000005, 15),
        ("v_mul_i32_i24_e32 v10, v2, v4", 0x00FFFFFF, 0xFF000005, 0xFFFFFFFB),
        ("v_mul_hi_i32 v10, v2, v4", 0x80000000, 0x80000000, 0x40000000),
        ("v_ffbh_u32_e32 v10, v2", 0, 0, 0xFFFFFFFF),
        ("v_ffbh_i32_e32 v10, v2", 0xFFFFFFFF, 0, 0xFFFFFFFF),
        ("v_ffbh_i32_e32 v10, v2", 0xFFFF0000, 0, 16),
        ("v_bfrev_b32_e32 v10, v2", 0x80000001, 0, 0x80000001),
        ("v_sat_pk_u8_i16_e32 v10, v2", 0x0100FFFF, 0, 0xFF00),
        ("v_cvt_pk_i16_i32 v10, v2, v4", 70000, 0x80000000, 0x80007FFF),
        ("v_cvt_pk_u16_u32 v10, v2, v4", 70000, 3, 0x0003FFFF),
    ],
)
def test_integers_wrap_saturate_and_shift(line: str, a: int, b: int, expected: int) -> None:
    assert result("gfx942", line, {2: a, 4: b})[0] == expected


def test_carries_saturate() -> None:
    for name, a, b, expected in (("add", 0xFFFFFFFF, 2, 0xFFFFFFFF), ("sub", 1, 2, 0)):
        line = f"v_{name}_co_u32_e64 v10, s[20:21], v2, v4 clamp"
        state = run_lines("gfx942", line, {2: a, 4: b})
        assert int(state.u32[10, 0, 0]) == expected
        assert mask_of(state, 20) == (1 << 64) - 1


def test_wide_products_carry_into_a_mask() -> None:
    ones = 0xFFFFFFFF
    registers = {2: ones, 4: ones, 6: ones, 7: words(ones, 0, 0)}
    line = "v_mad_u64_u32 v[10:11], s[20:21], v2, v4, v[6:7]"
    state = run_lines("gfx942", line, registers)
    total = ones * ones + (ones << 32 | ones)
    made = int(state.u32[10, 0, 0]) | int(state.u32[11, 0, 0]) << 32
    assert made == total & (1 << 64) - 1
    assert mask_of(state, 20) == 1
    signed = run_lines("gfx1100", line.replace("u64_u32", "i64_i32").replace("s[20:21]", "s20"),
                       {2: ones, 4: 1, 6: 0, 7: words(0, 1, lanes=32)})  # fmt: skip
    assert mask_of(signed, 20) == 1  # -1 is below 0, 2**32 - 1 is not


def test_bit_fields() -> None:
    def field(name: str, value: int, place: int, length: int) -> int:
        registers = {2: value, 4: place, 6: length}
        return result("gfx942", f"{name} v10, v2, v4, v6", registers)[0]

    assert field("v_bfe_u32", 0xABCD1234, 8, 8) == 0x12
    assert field("v_bfe_u32", 0xABCD1234, 40, 36) == 2  # 5 bits of each
    assert field("v_bfe_i32", 0xABCD1234, 28, 4) == 0xFFFFFFFA
    assert field("v_bfe_i32", 0xABCD1234, 28, 20) == 0xFFFFFFFA  # beyond the top: the sign
    assert field("v_bfe_i32", 0x80, 0, 0) == 0
    assert field("v_bfi_b32", 0xFF00FF00, 0x12345678, 0x9ABCDEF0) == 0x12BC56F0
    assert field("v_alignbit_b32", 0x11223344, 0x55667788, 40) == 0x44556677
    assert field("v_alignbyte_b32", 0x11223344, 0x55667788, 7) == 0x22334455
    assert field("v_sad_u8", 0x01FF0005, 0x02000503, 100) == 100 + 1 + 255 + 5 + 2
    assert field("v_lerp_u8", 0x01030507, 0x02040608, 0x01000100) == 0x02030607


def test_bytes_are_permuted() -> None:
    high, low = 0x8877665F, 0x443322F1
    selectors = (0x07060504, 0x03020100, 0x0B0A0908, 0x0D0C0F04)
    registers = {2: high, 4: low, 6: words(*selectors)}
    made = result("gfx942", "v_perm_b32 v10, v2, v4, v6", registers)
    # 8 to 11: signs of bytes 1, 3, 5, 7; 12: 0; above: 0xff
    assert made[:4] == [high, low, 0xFF000000, 0xFF00FF5F]
    # A selector of all lanes, in a scalar register, is prepared for: it gives the same.
    generator = random.Random(5)
    selectors = (0x05040100, 0x07060302, 0x0C030201, 0x0D0C0706, 0x01000100, 0x02010005)
    for _ in range(40):
        choices = generator.choices((0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 255), k=4)
        selectors += (int.from_bytes(choices, "little"),)
    made = result("gfx942", "v_perm_b32 v10, v2, v4, v6", {**registers, 6: words(*selectors)})
    for selector, expected in zip(selectors, made, strict=False):
        line = "v_perm_b32 v10, v2, v4, s6"
        assert result("gfx942", line, {2: high, 4: low}, sgprs={6: selector})[0] == expected


def test_truth_tables_and_counts_of_lanes() -> None:
    a, b, c = 0xF0F0F0F0, 0xCCCCCCCC, 0xAAAAAAAA
    for table in (0x00, 0x96, 0xE8, 0x1B, 0xFF):
        line = f"v_bitop3_b32 v10, v2, v4, v6 bitop3:{table:#x}"
        assert result("gfx950", line, {2: a, 4: b, 6: c})[0] & 0xFF == table
    lines = "v_mbcnt_lo_u32_b32 v10, -1, 0\nv_mbcnt_hi_u32_b32 v10, -1, v10"
    assert result("gfx942", lines) == list(range(64))
    assert result("gfx1100", "v_mbcnt_lo_u32_b32 v10, s2, 7", sgprs={2: 0b101})[:4] == [7, 8, 8, 9]


def test_scalars_leave_and_enter_lanes() -> None:
    state = run_lines(
        "gfx942",
        "v_readfirstlane_b32 s2, v2\nv_readlane_b32 s3, v2, 70\nv_writelane_b32 v10, 77, 3",
        {2: LANES * 2}, active=0b110000,
    )  # fmt: skip
    assert [int(word) for word in state.scalar[2:4, 0]] == [8, 12]
    assert list(state.u32[10, 0, :5]) == [0, 0, 0, 77, 0]


def test_comparisons_clear_idle_lanes() -> None:
    state = run_lines(
        "gfx942", "v_cmp_gt_u32_e32 vcc, v2, v4", {2: LANES, 4: 3}, active=0xF0, vcc=(1 << 64) - 1
    )
    assert mask_of(state) == 0xF0
    state = run_lines("gfx1100", "v_cmpx_lt_i32_e32 v2, v4", {2: LANES[:32], 4: 5})
    assert mask_of(state, 126) == 0b11111


# ---------------------------------------------------------------------- lanes


@pytest.mark.parametrize(
    ("arch", "control", "source"),
    [
        ("gfx942", "quad_perm:[1,0,3,2]", lambda lane: lane ^ 1),
        ("gfx942", "row_shl:1", lambda lane: lane + 1 if lane % 16 < 15 else None),
        ("gfx942", "row_shr:3", lambda lane: lane - 3 if lane % 16 >= 3 else None),
        ("gfx942", "row_ror:5", lambda lane: lane // 16 * 16 + (lane - 5) % 16),
        ("gfx942", "row_mirror", lambda lane: lane // 16 * 16 + 15 - lane % 16),
        ("gfx942", "row_half_mirror", lambda lane: lane // 8 * 8 + 7 - lane % 8),
        ("gfx942", "row_bcast:15", lambda lane: lane // 16 * 16 - 1 if lane > 15 else None),
        ("gfx942", "row_bcast:31", lambda lane: 31 if lane > 31 else None),
        ("gfx942", "row_newbcast:7", lambda lane: lane // 16 * 16 + 7),
        ("gfx942", "wave_shr:1", lambda lane: lane - 1 if lane else None),
        ("gfx1100", "row_share:3", lambda lane: lane // 16 * 16 + 3),
        ("gfx1201", "row_xmask:5", lambda lane: lane ^ 5),
    ],
)
@pytest.mark.parametrize("fill", ["", " bound_ctrl:1"])
@pytest.mark.parametrize("active", [(1 << 64) - 1, 0x0F5AC3_1248_7EF9B3])
def test_dpp_reads_other_lanes(
    arch: str, control: str, source: Any, fill: str, active: int
) -> None:
    lanes = 64 if arch == "gfx942" else 32
    active &= (1 << lanes) - 1
    line = f"v_mov_b32_dpp v10, v2 {control} row_mask:0xf bank_mask:0xf{fill}"
    made = result(arch, line, {2: 100 + LANES[:lanes], 10: 7}, active=active)
    for lane in range(lanes):
        origin = source(lane)
        usable = origin is not None and active >> origin & 1
        expected = 100 + origin if usable else 0 if fill else 7
        assert made[lane] == (expected if active >> lane & 1 else 7), lane


def test_dpp_masks_leave_rows_and_banks() -> None:
    line = "v_add_f32_dpp v10, v2, v4 row_ror:1 row_mask:0x5 bank_mask:0x2"
    made = result("gfx942", line, {2: singles(1.0), 4: singles(2.0), 10: 7})
    written = [lane for lane in range(64) if made[lane] == bits(3.0)]
    assert written == [*range(4, 8), *range(36, 40)]


def test_sdwa_selects_extends_and_keeps() -> None:
    registers = {2: 0x80FF7F01, 4: 0x00000010, 10: 0xAABBCCDD}

    def made(tail: str, first: str = "v2") -> int:
        return result("gfx942", f"v_add_u32_sdwa v10, {first}, v4 {tail}", registers)[0]

    whole = "dst_sel:DWORD dst_unused:UNUSED_PAD src1_sel:DWORD"
    assert made(f"{whole} src0_sel:BYTE_2") == 0x10F
    assert made(f"{whole} src0_sel:BYTE_3", "sext(v2)") == 0xFFFFFF90
    assert made(f"{whole} src0_sel:WORD_1", "sext(v2)") == 0xFFFF810F
    byte = "src0_sel:BYTE_1 src1_sel:DWORD dst_sel:BYTE_1 dst_unused"
    assert made(f"{byte}:UNUSED_PRESERVE") == 0xAABB8FDD
    assert made(f"{byte}:UNUSED_PAD") == 0x8F00
    assert made(f"{byte}:UNUSED_SEXT") == 0xFFFF8F00


def test_halves_of_vopd_read_before_either_writes() -> None:
    state = run_lines("gfx1100", "v_dual_mov_b32 v10, v7 :: v_dual_mov_b32 v7, v10", {10: 1, 7: 2})
    assert [int(state.u32[row, 0, 0]) for row in (10, 7)] == [2, 1]


# ---------------------------------------------------------------------- floats


def test_minimum_and_maximum_know_zeros_and_nans() -> None:
    first = words(0x80000000, 0, NAN, bits(1.0), 0x7F800001, NAN)
    second = words(0, 0x80000000, bits(1.0), NAN, bits(1.0), NAN)
    registers = {2: first, 4: second}
    one, quiet = bits(1.0), 0x7FC00001
    least = result("gfx942", "v_min_f32_e32 v10, v2, v4", registers)[:6]
    assert least == [0x80000000, 0x80000000, one, one, quiet, NAN]
    most = result("gfx942", "v_max_f32_e32 v10, v2, v4", registers)[:6]
    assert most == [0, 0, one, one, quiet, NAN]
    registers = {2: first[:32], 4: second[:32]}
    number = result("gfx1201", "v_max_num_f32_e32 v10, v2, v4", registers)[:6]
    assert number == [0, 0, one, one, one, NAN]
    strict = result("gfx1201", "v_maximum_f32 v10, v2, v4", registers)[:6]
    assert strict == [0, 0, NAN, NAN, quiet, NAN]
    packed = {2: 0x7E008000, 4: 0x3C000000}
    assert result("gfx942", "v_pk_max_f16 v10, v2, v4", packed)[0] == 0x3C000000
    three = {2: bits(3.0), 4: NAN, 6: bits(2.0)}
    assert result("gfx942", "v_med3_f32 v10, v2, v4, v6", three)[0] == bits(2.0)


def test_fused_products_are_rounded_once() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(64).astype(np.float32) for _ in range(2))
    c = (-(a.astype(np.float64) * b)).astype(np.float32)
    made = run_lines("gfx942", "v_fma_f32 v10, v2, v4, v6", {2: a, 4: b, 6: c}).f32[10, 0]
    for lane in range(64):
        exact = Fraction(float(a[lane])) * Fraction(float(b[lane])) + Fraction(float(c[lane]))
        assert made[lane] == np.float32(float(exact))
    # 2**60 + a bit: the sum lies halfway between two float32 but for its last digit.
    halfway = {2: bits(1 + 2.0**-12), 4: bits(1 + 2.0**-12), 6: bits(2.0**-80)}
    assert result("gfx942", "v_fma_f32 v10, v2, v4, v6", halfway)[0] == bits(
        1 + 2.0**-11 + 2.0**-23
    )


def doubles(values: Array) -> tuple[Array, Array]:
    raw = values.astype(np.float64).view(np.uint64)
    return (raw & np.uint64(0xFFFFFFFF)).astype(np.uint32), (raw >> np.uint64(32)).astype(np.uint32)


def double_inputs(**operands: Array) -> dict[int, Array]:
    """Registers v2, v4, v6 ... from names like `v2`."""
    registers: dict[int, Array] = {}
    for name, values in operands.items():
        row = int(name[1:])
        registers[row], registers[row + 1] = doubles(values)
    return registers


def double_result(lines: str, row: int, **operands: Array) -> Array:
    state = run_lines("gfx942", lines, double_inputs(**operands))
    low, high = (state.u32[at, 0].astype(np.uint64) for at in (row, row + 1))
    return np.asarray(low | high << np.uint64(32)).view(np.float64)


def rounded(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def test_fused_products_of_f64_are_rounded_once() -> None:
    rng = np.random.default_rng(2)
    a = rng.standard_normal(64) * 2.0 ** rng.integers(-540, 540, 64)
    b = rng.standard_normal(64) * 2.0 ** rng.integers(-540, 400, 64)
    c = -(a * b) * (1 + rng.integers(-2, 3, 64) * 2.0**-52)
    c[:8] = rng.standard_normal(8) * 5e-324
    made = double_result("v_fma_f64 v[10:11], v[2:3], v[4:5], v[6:7]", 10, v2=a, v4=b, v6=c)
    for x, y, z, value in zip(a, b, c, made, strict=True):
        if not math.isfinite(z):
            continue
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        assert value == rounded(exact), (x, y, z)


SINGLE_DIVISION = """
    v_div_scale_f32 v4, s[0:1], v1, v1, v0
    v_div_scale_f32 v5, vcc, v0, v1, v0
    v_rcp_f32_e32 v6, v4
    v_fma_f32 v7, -v4, v6, 1.0
    v_fma_f32 v6, v7, v6, v6
    v_mul_f32_e32 v7, v5, v6
    v_fma_f32 v8, -v4, v7, v5
    v_fma_f32 v7, v8, v6, v7
    v_fma_f32 v4, -v4, v7, v5
    v_div_fmas_f32 v4, v4, v6, v7
    v_div_fixup_f32 v0, v4, v1, v0"""
"""What LLVM makes of an IEEE division of float32."""

DOUBLE_DIVISION = """
    v_div_scale_f64 v[4:5], s[0:1], v[2:3], v[2:3], v[0:1]
    v_rcp_f64_e32 v[6:7], v[4:5]
    v_fma_f64 v[8:9], -v[4:5], v[6:7], 1.0
    v_fma_f64 v[6:7], v[6:7], v[8:9], v[6:7]
    v_fma_f64 v[8:9], -v[4:5], v[6:7], 1.0
    v_fma_f64 v[6:7], v[6:7], v[8:9], v[6:7]
    v_div_scale_f64 v[8:9], vcc, v[0:1], v[2:3], v[0:1]
    v_mul_f64 v[10:11], v[8:9], v[6:7]
    v_fma_f64 v[4:5], -v[4:5], v[10:11], v[8:9]
    v_div_fmas_f64 v[4:5], v[4:5], v[6:7], v[10:11]
    v_div_fixup_f64 v[0:1], v[4:5], v[2:3], v[0:1]"""


def test_division_in_steps_is_correctly_rounded() -> None:
    rng = np.random.default_rng(3)
    edge = np.array(
        [0, -0.0, 1, -3, np.inf, -np.inf, np.nan, 1.4e-45, 1e-40, 1.17549435e-38, 3.4028235e38,
         1.7014118e38, 8.5e37, 2.0**-100, 2.0**100, 7.0], np.float32,
    )  # fmt: skip
    size = 2.0 ** rng.integers(-126, 127, (2, 6, 64))
    numbers = (rng.uniform(1, 2, (2, 6, 64)) * size).astype(np.float32)
    above = np.concatenate([numbers[0], np.repeat(edge, 16).reshape(4, 64)])
    below = np.concatenate([numbers[1], np.tile(edge, 16).reshape(4, 64)])
    state = run_lines("gfx942", SINGLE_DIVISION, {0: above, 1: below}, waves=10)
    with np.errstate(all="ignore"):
        expected = above / below
    made = state.f32[0]
    same = (made.view(np.uint32) == expected.view(np.uint32)) | (
        np.isnan(made) & np.isnan(expected)
    )
    assert same.all(), [(above[at], below[at], made[at], expected[at]) for at in
                        map(tuple, np.argwhere(~same)[:5])]  # fmt: skip


def test_division_of_f64_in_steps_is_correctly_rounded() -> None:
    rng = np.random.default_rng(4)
    edge = np.array([0, -0.0, 1, -3, np.inf, np.nan, 1e-310, 1.7e308])
    above = rng.uniform(1, 2, 64) * 2.0 ** rng.integers(-1020, 1020, 64)
    below = rng.uniform(1, 2, 64) * 2.0 ** rng.integers(-1020, 1020, 64)
    for left, right in ((above, below), (np.repeat(edge, 8), np.tile(edge, 8))):
        made = double_result(DOUBLE_DIVISION, 0, v0=left, v2=right)
        with np.errstate(all="ignore"):
            expected = left / right
        np.testing.assert_array_equal(made, expected)
        assert (np.signbit(made) == np.signbit(expected))[~np.isnan(expected)].all()


def test_classes_of_floats() -> None:
    values = (0x7F800001, NAN, 0xFF800000, bits(-1.0), 0x80000001, 0x80000000, 0, 1, bits(1.0), INF)
    for place, value in enumerate(values):
        for line, input_ in (("v_cmp_class_f32_e64 s[20:21], v2, v4", value),):
            state = run_lines("gfx942", line, {2: input_, 4: 1 << (LANES % 10)})
            assert mask_of(state, 20) & 0x3FF == 1 << place
    halves = (0x7C01, 0x7E00, 0xFC00, 0xBC00, 0x8001, 0x8000, 0, 1, 0x3C00, 0x7C00)
    for place, value in enumerate(halves):
        line = "v_cmp_class_f16_e64 s[20:21], v2, v4"
        state = run_lines("gfx942", line, {2: value, 4: 1 << (LANES % 10)})
        assert mask_of(state, 20) & 0x3FF == 1 << place


def test_results_are_clamped_and_scaled_as_the_mode_allows() -> None:
    values = singles(-1.0, 0.25, 7.0, math.nan)
    line = "v_add_f32_e64 v10, v2, 0 clamp"
    assert result("gfx942", line, {2: values})[:4] == [0, bits(0.25), bits(1.0), 0]
    kept = result("gfx942", line, {2: values}, dx10_clamp=False)
    assert math.isnan(struct.unpack("<f", struct.pack("<I", kept[3]))[0])
    scaled = "v_add_f32_e64 v10, v2, 0 mul:4"
    assert result("gfx942", scaled, {2: values})[1] == bits(0.25)
    assert result("gfx942", scaled, {2: values}, flush32=True)[1] == bits(0.25)  # IEEE
    assert result("gfx942", scaled, {2: values}, flush32=True, ieee=False)[1] == bits(1.0)


def test_denormals_are_flushed_where_the_mode_says_so() -> None:
    registers = {2: 0x80000001, 4: 0x00000002}
    line = "v_add_f32_e32 v10, v2, v4"
    assert result("gfx942", line, registers)[0] == 1
    assert result("gfx942", line, registers, flush32=True)[0] == 0
    line = "v_add_f16_e32 v10, v2, v4"
    assert result("gfx942", line, {2: 1, 4: 2})[0] == 3
    assert result("gfx942", line, {2: 1, 4: 2}, flush16=True)[0] == 0
    # These flush whatever the mode says.
    assert result("gfx942", "v_rcp_f32_e32 v10, v2", {2: 1})[0] == INF
    assert result("gfx942", "v_log_f32_e32 v10, v2", {2: 1})[0] == 0xFF800000
    assert result("gfx942", "v_exp_f32_e32 v10, v2", {2: bits(-127.0)})[0] == 0


# ---------------------------------------------------------------------- 16 bits, mixed, packed


def test_upper_half_beside_a_16_bit_result() -> None:
    registers = {2: 0x3C003C00, 4: 0x40004000, 10: 0xABCD1234}
    assert result("gfx942", "v_add_f16_e32 v10, v2, v4", registers)[0] == 0x4200
    assert result("gfx1100", "v_add_f16_e32 v10.l, v2.l, v4.h", registers)[0] == 0xABCD4200
    assert result("gfx1100", "v_add_f16_e32 v10.h, v2.l, v4.h", registers)[0] == 0x42001234
    high = "v_mad_u16 v10, v2, v4, v6 op_sel:[0,1,0,1]"
    made = result("gfx942", high, {2: 3, 4: 0x00050000, 6: 1, 10: 0xABCD1234})
    assert made[0] == 0x00101234


def test_mixed_products_take_halves_and_singles() -> None:
    registers = {2: half(2.0) << 16, 4: bits(3.0), 6: half(0.5), 10: 0x11112222}
    line = "v10, v2, -v4, v6 op_sel:[1,0,0] op_sel_hi:[1,0,1]"
    assert result("gfx942", f"v_fma_mix_f32 {line}", registers)[0] == bits(-5.5)
    low = result("gfx942", f"v_fma_mixlo_f16 {line}", registers)[0]
    assert low == 0x11110000 | half(-5.5)
    assert result("gfx942", f"v_fma_mixhi_f16 {line}", registers)[0] == half(-5.5) << 16 | 0x2222


def test_packed_halves_choose_and_negate() -> None:
    registers = {2: half(1.0) | half(2.0) << 16, 4: half(4.0) | half(8.0) << 16}
    name = "v_pk_add_f16 v10, v2, v4"
    assert result("gfx942", name, registers)[0] == half(5.0) | half(10.0) << 16
    crossed = f"{name} op_sel:[0,1] op_sel_hi:[1,0] neg_lo:[0,1] neg_hi:[1,0]"
    assert result("gfx942", crossed, registers)[0] == half(-7.0) | half(2.0) << 16
    # A float constant stands in the lower half alone.
    constant = result("gfx942", "v_pk_add_f16 v10, v2, 1.0", registers)[0]
    assert constant == half(2.0) | half(2.0) << 16
    both = result("gfx942", "v_pk_add_f16 v10, v2, 1.0 op_sel_hi:[1,0]", registers)[0]
    assert both == half(2.0) | half(3.0) << 16
    singles_ = {2: bits(1.0), 3: bits(2.0), 4: bits(4.0), 5: bits(8.0)}
    state = run_lines("gfx942", "v_pk_mul_f32 v[10:11], v[2:3], v[4:5] op_sel:[1,0]", singles_)
    assert [float(state.f32[row, 0, 0]) for row in (10, 11)] == [8.0, 16.0]


# ---------------------------------------------------------------------- conversions


def test_conversions_to_integers_truncate_and_saturate() -> None:
    values = singles(-1.9, 1.9, 3e9, -3e9, math.nan, math.inf)
    signed = result("gfx942", "v_cvt_i32_f32_e32 v10, v2", {2: values})[:6]
    assert signed == [0xFFFFFFFF, 1, 0x7FFFFFFF, 0x80000000, 0, 0x7FFFFFFF]
    unsigned = result("gfx942", "v_cvt_u32_f32_e32 v10, v2", {2: values})[:6]
    assert unsigned == [0, 1, 3_000_000_000, 0, 0, 0xFFFFFFFF]
    wide = double_inputs(v2=np.full(64, -2147483649.5))
    assert result("gfx942", "v_cvt_i32_f64_e32 v10, v[2:3]", wide)[0] == 0x80000000
    assert result("gfx942", "v_cvt_f32_ubyte2_e32 v10, v2", {2: 0x00AB0000})[0] == bits(171.0)
    assert result("gfx942", "v_cvt_off_f32_i4_e32 v10, v2", {2: 8})[0] == bits(-0.5)
    normal = result("gfx942", "v_cvt_pknorm_i16_f32 v10, v2, v4", {2: bits(-2.0), 4: bits(0.5)})
    assert normal[0] == 0x40008001
    flat = result("gfx942", "v_cvt_flr_i32_f32_e32 v10, v2", {2: bits(-0.5)})
    assert flat[0] == 0xFFFFFFFF


def test_halves_are_rounded_toward_zero_by_pkrtz() -> None:
    values = {2: bits(1 + 2.0**-10 - 2.0**-20), 4: bits(-1e6)}
    made = result("gfx942", "v_cvt_pkrtz_f16_f32 v10, v2, v4", values)
    assert made[0] == half(1.0) | 0xFBFF << 16
    infinite = result("gfx942", "v_cvt_pkrtz_f16_f32 v10, v2, v4", {2: INF, 4: NAN})[0]
    assert infinite & 0xFFFF == 0x7C00
    assert infinite >> 16 & 0x7FFF > 0x7C00


@pytest.mark.parametrize(
    ("arch", "name", "value", "expected"),
    [
        ("gfx950", "fp8", 448.0, 0x7E), ("gfx950", "fp8", 464.0, 0x7E),
        ("gfx950", "fp8", 470.0, 0x7F), ("gfx950", "fp8", -math.inf, 0xFF),
        ("gfx950", "fp8", 2.0**-9, 0x01), ("gfx950", "fp8", 1.0, 0x38),
        ("gfx950", "bf8", 1.0, 0x3C), ("gfx950", "bf8", 1e6, 0x7C), ("gfx950", "bf8", -1.5, 0xBE),
        ("gfx942", "fp8", 1.0, 0x40), ("gfx942", "fp8", 240.0, 0x7F), ("gfx942", "fp8", 1e3, 0x80),
        ("gfx942", "fp8", -0.0, 0x00), ("gfx942", "bf8", 1.0, 0x40),
        ("gfx942", "bf8", 57344.0, 0x7F),
        ("gfx1201", "fp8", 1.0, 0x38), ("gfx1201", "bf8", math.inf, 0x7C),
    ],
)  # fmt: skip
def test_small_floats_of_each_gpu(arch: str, name: str, value: float, expected: int) -> None:
    registers = {2: bits(value), 4: bits(0.0), 10: 0x12345678}
    target = "v10.l" if arch == "gfx1201" else "v10"
    made = result(arch, f"v_cvt_pk_{name}_f32 {target}, v2, v4", registers)[0]
    assert made == 0x12340000 | expected
    if arch != "gfx1201":
        high = result(arch, f"v_cvt_pk_{name}_f32 v10, v2, v4 op_sel:[0,0,1]", registers)[0]
        assert high == expected << 16 | 0x5678


def test_small_floats_become_singles() -> None:
    word = {2: 0x38B8407E}
    assert result("gfx950", "v_cvt_f32_fp8_e32 v10, v2", word)[0] == bits(448.0)
    line = "v_cvt_f32_fp8_sdwa v10, v2 src0_sel:BYTE_2"
    assert result("gfx950", line, word)[0] == bits(-1.0)
    assert result("gfx942", "v_cvt_f32_fp8_e32 v10, v2", {2: 0x40})[0] == bits(1.0)
    assert result("gfx1201", "v_cvt_f32_fp8_e64 v10, v2 byte_sel:1", word)[0] == bits(2.0)
    state = run_lines("gfx950", "v_cvt_pk_f32_fp8_sdwa v[10:11], v2 src0_sel:WORD_1", word)
    assert [float(state.f32[row, 0, 0]) for row in (10, 11)] == [-1.0, 1.0]


def test_scaled_small_floats() -> None:
    scale = {4: bits(4.0)}
    four = run_lines("gfx950", "v_cvt_scalef32_pk_f32_fp4 v[10:11], v2, v4 op_sel:[1,0,0]",
                     {2: 0x0000F200, **scale})  # fmt: skip
    assert [float(four.f32[row, 0, 0]) for row in (10, 11)] == [4.0, -24.0]
    halves = result("gfx950", "v_cvt_scalef32_pk_f16_fp8 v10, v2, v4", {2: 0xB838, **scale})[0]
    assert halves == half(4.0) | half(-4.0) << 16
    registers = {2: bits(4.0), 4: bits(-100.0), 6: bits(4.0), 10: 0xFFFFFFFF}
    line = "v_cvt_scalef32_pk_fp4_f32 v10, v2, v4, v6 op_sel:[0,0,1,0]"
    assert result("gfx950", line, registers)[0] == 0xFFFFF2FF
    many = {2 + at: 0x01041041 + at for at in range(6)}
    wide = run_lines("gfx950", "v_cvt_scalef32_pk32_f32_fp6 v[10:41], v[2:7], v50",
                     {**many, 50: bits(1.0)})  # fmt: skip
    stream = sum(word << 32 * at for at, word in enumerate(many.values()))
    for place in range(32):
        code = stream >> 6 * place & 63
        sign, power, fraction = code >> 5, code >> 3 & 3, code & 7
        size = (1 + fraction / 8) * 2.0 ** (power - 1) if power else fraction / 8
        assert float(wide.f32[10 + place, 0, 0]) == (-size if sign else size)


# ---------------------------------------------------------------------- dot products


def test_dot_products() -> None:
    bytes_ = {2: 0xFF027F80, 4: 0x03FF0201, 6: 100}
    signed = -128 * 1 + 127 * 2 + 2 * -1 + -1 * 3 + 100
    assert result("gfx942", "v_dot4_i32_i8 v10, v2, v4, v6", bytes_)[0] == signed
    unsigned = 128 * 1 + 127 * 2 + 2 * 255 + 255 * 3 + 100
    assert result("gfx942", "v_dot4_u32_u8 v10, v2, v4, v6", bytes_)[0] == unsigned
    mixed = -128 * 1 + 127 * 2 + 2 * 255 + -1 * 3 + 100
    line = "v_dot4_i32_iu8 v10, v2, v4, v6 neg_lo:[1,0,0]"
    assert result("gfx1100", line, bytes_)[0] == mixed
    most = {2: 0x7F7F7F7F, 4: 0x7F7F7F7F, 6: 0x7FFFFFFF}
    assert result("gfx942", "v_dot4_i32_i8 v10, v2, v4, v6 clamp", most)[0] == 0x7FFFFFFF
    nibbles = {2: 0x0000000F, 4: 0x00000002, 6: 5}
    assert result("gfx942", "v_dot8_i32_i4 v10, v2, v4, v6", nibbles)[0] == 3
    halves = {2: half(1.5) | half(2.0) << 16, 4: half(2.0) | half(-4.0) << 16, 6: bits(0.25)}
    assert result("gfx942", "v_dot2_f32_f16 v10, v2, v4, v6", halves)[0] == bits(-4.75)
    eighths = {2: 0x38B83838, 4: 0x3C3C3C40, 6: bits(1.0)}
    made = result("gfx1201", "v_dot4_f32_fp8_bf8 v10, v2, v4, v6", eighths)[0]
    assert made == bits(1.0 + 2.0 + 1.0 - 1.0 + 1.0)


# ---------------------------------------------------------------------- the rest of f64


def test_parts_of_floats() -> None:
    values = np.array([8.0, -0.375, 5e-324, 0.0, np.inf] + [1.0] * 59)
    registers = double_inputs(v2=values)
    powers = result("gfx942", "v_frexp_exp_i32_f64_e32 v10, v[2:3]", registers)[:5]
    assert powers == [4, 0xFFFFFFFF, (-1073) & 0xFFFFFFFF, 0, 0]
    parts = double_result("v_frexp_mant_f64_e32 v[10:11], v[2:3]", 10, v2=values)[:5]
    assert list(parts) == [0.5, -0.75, 0.5, 0.0, math.inf]
    tiny = double_result("v_fract_f64_e32 v[10:11], v[2:3]", 10, v2=np.full(64, -1e-30))
    assert tiny[0] == 1 - 2.0**-53
    assert result("gfx942", "v_sin_f32_e32 v10, v2", {2: bits(0.25)})[0] == bits(1.0)
    assert result("gfx942", "v_cos_f32_e32 v10, v2", {2: bits(3.5)})[0] == bits(-1.0)


def test_two_over_pi_in_segments() -> None:
    segments = np.arange(64, dtype=np.uint32) % 4
    registers = {**double_inputs(v2=np.full(64, 1e10)), 4: segments}
    state = run_lines("gfx942", "v_trig_preop_f64 v[10:11], v[2:3], v4", registers)
    low, high = (state.u32[at, 0, :4].astype(np.uint64) for at in (10, 11))
    parts = (low | high << np.uint64(32)).view(np.float64)
    total = sum(Fraction(float(part)) for part in parts)
    # pi to 60 digits (any table): their product is 2 up to the segments' end.
    pi = Fraction(314159265358979323846264338327950288419716939937510582097494, 10**59)
    assert abs(total * pi - 2) < Fraction(1, 10**57)


def test_instructions_that_are_imported_late_are_no_others() -> None:
    """What is imported first must not take a mnemonic that a later file names."""
    code = """
import re, sys
from kinspect.inspector.emulator import registry
from kinspect.inspector.emulator.instructions import builder_of
names = sorted({line.split()[1] for line in open(sys.argv[1]) if line[0] != "#"})
names = [re.sub("_(e32|e64|dpp|sdwa|e64_dpp)$", "", name) for name in names]
first = {name: registry.builder_of(name) for name in names}
assert sum(builder is None for builder in first.values()) > 100  # there are some to come
builder_of("v_exp_f32")
for name, builder in first.items():
    assert builder is None or builder is registry.builder_of(name), name
"""
    forms = Path(__file__).parent / "data" / "emulator" / "forms.txt"
    subprocess.run([sys.executable, "-c", code, str(forms)], check=True)
