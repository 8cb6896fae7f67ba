"""The vector ALU of the emulator against exact arithmetic, the ISA documents and numpy."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from kinspect.inspector.emulator.registry import NotCoveredError
from kinspect.inspector.emulator.waves import Waves

from .emulated import mask_of, run_lines

Array = np.ndarray[Any, Any]
U32, F32, F64 = np.uint32, np.float32, np.float64
INF, QUIET, SIGNALLING = 0x7F800000, 0x7FC00000, 0x7FA00000


def bits(values: Any) -> Array:
    """Float32 as uint32."""
    return np.asarray(values, F32).view(U32)


def half(value: float) -> int:
    """Bits of a float16."""
    return int(np.float16(value).view(np.uint16))


def brain(value: float) -> int:
    """Bits of a bf16 that is exact."""
    return int(F32(value).view(U32)) >> 16


def lane0(state: Waves, row: int) -> int:
    return int(state.u32[row, 0, 0])


def nearest(exact: Fraction, mantissa: int, lowest: int) -> Fraction:
    """An exact number rounded to nearest even.

    Args:
        exact: the number.
        mantissa: bits behind the point.
        lowest: exponent of the smallest normal number.
    """
    if not exact:
        return exact
    exponent = math.floor(math.log2(abs(exact)))
    while abs(exact) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(exact) < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, lowest) - mantissa)
    return round(exact / step) * step  # Fraction rounds ties to even


def pairs(values: Array) -> tuple[Array, Array]:
    """64-bit values as their low and high words."""
    words = values.view(np.uint64)
    return words.astype(U32), (words >> np.uint64(32)).astype(U32)


# ---------------------------------------------------------------------- fused multiply-add


def _awkward(generator: np.random.Generator, count: int) -> list[tuple[float, float, float]]:
    """Products that a third number pushes off a tie, besides random ones."""
    cases = []
    for _ in range(count):
        a, b = (1 + generator.integers(0, 1 << 12, 2) * 2.0**-12).tolist()
        tiny = float(2.0 ** -generator.integers(30, 90)) * (1 if generator.random() < 0.5 else -1)
        cases.append((a, b, tiny))
    cases += [(1 + 2.0**-12, 1 + 2.0**-12, 2.0**-70), (1 + 2.0**-12, 1 + 2.0**-12, -(2.0**-70))]
    cases += [tuple(row) for row in generator.standard_normal((count, 3)).astype(F32).tolist()]
    return cases


def test_fma_f32_rounds_once() -> None:
    cases = _awkward(np.random.default_rng(1), 31)
    a, b, c = (np.array(column, F32) for column in zip(*cases, strict=True))
    assert len(a) == 64
    state = run_lines("gfx942", "v_fma_f32 v3, v0, v1, v2", {0: a, 1: b, 2: c})
    wanted = [
        float(nearest(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), 23, -126))
        for x, y, z in zip(a, b, c, strict=True)
    ]
    assert state.f32[3, 0].tolist() == wanted


def test_fma_f64_rounds_once() -> None:
    generator = np.random.default_rng(2)
    a, b, c = generator.standard_normal((3, 64)) * 2.0 ** generator.integers(-20, 20, (3, 64))
    c[:32] = -a[:32] * b[:32]  # what is left is the product's rounding error
    a[32:36], b[32:36] = 1 + 2.0**-27, 1 + 2.0**-26
    c[32:36] = [2.0**-200, -(2.0**-200), 2.0**200, 2.0**-54]
    a[36:40], b[36:40], c[36:40] = 2.0**-540, 2.0**-530, [2.0**-1074, 2.0**-1070, 0, -(2.0**-1074)]
    rows = {}
    for at, column in enumerate((a, b, c)):
        rows[2 * at], rows[2 * at + 1] = pairs(column)
    state = run_lines("gfx942", "v_fma_f64 v[6:7], v[0:1], v[2:3], v[4:5]", rows)
    exact = [
        nearest(Fraction(x) * Fraction(y) + Fraction(z), 52, -1022)
        for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    assert state.pair_of(6).view(F64)[0].tolist() == [float(value) for value in exact]


def test_fma_bf16_rounds_once() -> None:
    # The product lies halfway between two bf16; what is added lies below float64's last bit.
    a, b = 1 + 2.0**-4, 1 + 2.0**-4
    row = {0: brain(a), 1: brain(b), 2: brain(2.0**-80), 3: brain(-(2.0**-80))}
    lines = ["v_pk_fma_bf16 v4, v0, v1, v2", "v_pk_fma_bf16 v5, v0, v1, v3"]
    state = run_lines("gfx1250", lines, row)
    up, down = (
        nearest(Fraction(a) * Fraction(b) + Fraction(z), 7, -126) for z in (2.0**-80, -(2.0**-80))
    )
    assert up != down
    assert [lane0(state, 4) & 0xFFFF, lane0(state, 5) & 0xFFFF] == [
        brain(float(up)),
        brain(float(down)),
    ]


def test_legacy_multiplication_has_zero_win() -> None:
    rows = {0: bits(0.0), 1: bits(np.inf), 2: bits(7.0)}
    state = run_lines("gfx942", "v_mul_legacy_f32 v3, v0, v1", rows)
    assert lane0(state, 3) == 0
    state = run_lines("gfx1201", "v_fma_dx9_zero_f32 v3, v0, v1, v2", rows)
    assert lane0(state, 3) == bits(7.0)


# ---------------------------------------------------------------------- division in steps


def _division(kind: str) -> list[str]:
    """LLVM's expansion of a / b for a kind; rows: a, b, then what it needs, the quotient last."""
    n, d, scaled, above, inverse, error, quotient = (
        (f"v{at}" if kind == "f32" else f"v[{2 * at}:{2 * at + 1}]") for at in range(7)
    )
    refine = [
        f"v_fma_{kind} {error}, -{scaled}, {inverse}, 1.0",
        f"v_fma_{kind} {inverse}, {error}, {inverse}, {inverse}",
    ]
    residual = f"v_fma_{kind} {error}, -{scaled}, {quotient}, {above}"
    again = [f"v_fma_{kind} {quotient}, {error}, {inverse}, {quotient}", residual]
    return [
        f"v_div_scale_{kind} {scaled}, s[0:1], {d}, {d}, {n}",
        f"v_div_scale_{kind} {above}, vcc, {n}, {d}, {n}",
        f"v_rcp_{kind} {inverse}, {scaled}",
        *refine * (1 if kind == "f32" else 2),
        f"v_mul_{kind} {quotient}, {above}, {inverse}",
        residual,
        *(again if kind == "f32" else []),
        f"v_div_fmas_{kind} {quotient}, {error}, {inverse}, {quotient}",
        f"v_div_fixup_{kind} {quotient}, {quotient}, {d}, {n}",
    ]


def test_division_f32_is_exact_for_all_exponents() -> None:
    words = np.random.default_rng(3).integers(0, 1 << 32, (2, 40, 64), dtype=U32)
    words[:, 0, :16] = [[0, 1 << 31, INF, QUIET] * 4, sorted([0, 1 << 31, INF, QUIET] * 4)]
    state = run_lines("gfx942", _division("f32"), {0: words[0], 1: words[1]}, waves=40)
    with np.errstate(all="ignore"):
        wanted = words[0].view(F32) / words[1].view(F32)
    np.testing.assert_array_equal(state.f32[6], wanted)


def test_division_f64_at_the_ends_of_the_range() -> None:
    a = np.array([1e300, 1e-300, 2.5e-320, 1.0, 7e307, 3.0, 1e-10, -1e200], F64)
    b = np.array([1e-5, 1e10, 3.0, 1.5e308, 1.1e308, 7.0, 1.4e308, 3e-300], F64)
    rows: dict[int, Any] = {}
    for at, column in enumerate((a, b)):
        rows[2 * at], rows[2 * at + 1] = pairs(np.resize(column, 64))
    state = run_lines("gfx90a", _division("f64"), rows)
    with np.errstate(all="ignore"):
        wanted = np.resize(a / b, 64)
    np.testing.assert_array_equal(state.pair_of(12).view(F64)[0], wanted)


# ---------------------------------------------------------------------- smaller and larger


@pytest.mark.parametrize(
    ("arch", "line", "ieee", "a", "b", "wanted"),
    [
        ("gfx942", "v_min_f32 v2, v0, v1", True, 0, 1 << 31, 1 << 31),
        ("gfx942", "v_max_f32 v2, v0, v1", True, 1 << 31, 0, 0),
        ("gfx942", "v_max_f32 v2, v0, v1", True, QUIET, 0x3F800000, 0x3F800000),
        # A signalling NaN becomes the result in IEEE mode, a number otherwise and on gfx12.
        ("gfx942", "v_max_f32 v2, v0, v1", True, 0x3F800000, SIGNALLING, SIGNALLING | 1 << 22),
        ("gfx942", "v_max_f32 v2, v0, v1", False, 0x3F800000, SIGNALLING, 0x3F800000),
        ("gfx1100", "v_min_f32 v2, v0, v1", True, SIGNALLING, 0x3F800000, SIGNALLING | 1 << 22),
        ("gfx1201", "v_min_num_f32 v2, v0, v1", False, SIGNALLING, 0x3F800000, 0x3F800000),
        ("gfx1201", "v_minimum_f32 v2, v0, v1", False, QUIET, 0x3F800000, QUIET),
        ("gfx1201", "v_maximum_f32 v2, v0, v1", False, 1 << 31, 0, 0),
        ("gfx950", "v_minimum3_f32 v2, v0, v1, v1", True, 0x40000000, QUIET, QUIET),
        ("gfx1201", "v_minmax_num_f32 v2, v0, v1, 0", False, 0xC0000000, 0x3F800000, 0),
        ("gfx1201", "v_maximumminimum_f32 v2, v0, v1, 2.0", False, 0x40400000, 0, 0x40000000),
        ("gfx942", "v_med3_f32 v2, v0, v1, 2.0", True, 0x40400000, 0x3F800000, 0x40000000),
        ("gfx942", "v_med3_f32 v2, v0, v1, 2.0", True, QUIET, 0x3F800000, 0x3F800000),
    ],
)
def test_choices(arch: str, line: str, ieee: bool, a: int, b: int, wanted: int) -> None:
    assert lane0(run_lines(arch, line, {0: a, 1: b}, ieee=ieee), 2) == wanted


def test_choices_f16_keep_signalling_nans_apart() -> None:
    state = run_lines("gfx942", "v_max_f16 v2, v0, v1", {0: 0x7D00, 1: half(1.0)})
    assert lane0(state, 2) == 0x7F00


@pytest.mark.parametrize(
    ("value", "place"),
    [(0x7D00, 0), (0x7E00, 1), (0xFC00, 2), (0xBC00, 3), (0x8001, 4), (0x8000, 5), (0, 6),
     (0x03FF, 7), (0x0400, 8), (0x7C00, 9)],
)  # fmt: skip
def test_class_f16(value: int, place: int) -> None:
    lines = [f"v_cmp_class_f16_e64 s[{2 * at}:{2 * at + 1}], v0, v{1 + at}" for at in range(10)]
    state = run_lines("gfx942", lines, {0: value, **{1 + at: 1 << at for at in range(10)}})
    assert [mask_of(state, 2 * at) & 1 for at in range(10)] == [at == place for at in range(10)]


# ---------------------------------------------------------------------- modes and modifiers


def test_denormals_by_mode() -> None:
    rows = {0: 1, 1: 0x3F800000, 2: 0x00800000, 3: bits(0.25)}
    lines = ["v_add_f32 v4, v0, v0", "v_mul_f32 v5, v2, v3", "v_mov_b32 v6, v0",
             "v_cmp_eq_f32 vcc, 0, v0"]  # fmt: skip
    kept = run_lines("gfx942", lines, rows)
    assert [lane0(kept, row) for row in (4, 5, 6)] == [2, 0x00200000, 1]
    assert mask_of(kept) == 0
    flushed = run_lines("gfx942", lines, rows, flush32=True)
    assert [lane0(flushed, row) for row in (4, 5, 6)] == [0, 0, 1]
    assert mask_of(flushed) == (1 << 64) - 1
    small = run_lines("gfx942", "v_mul_f16 v1, v0, 0.5", {0: 0x0400}, flush16=True)
    assert lane0(small, 1) == 0


@pytest.mark.parametrize(
    ("line", "source", "wanted"),
    [
        ("v_rcp_f32 v1, v0", 1, INF),
        ("v_rcp_f32 v1, v0", 0x7F000000, 0),
        ("v_rcp_f32 v1, v0", 0xFF000000, 1 << 31),
        ("v_exp_f32 v1, v0", 0xC3000000, 0),  # 2**-128
        ("v_exp_f32 v1, v0", 0xC2FC0000, 0x00800000),  # 2**-126
        ("v_log_f32 v1, v0", 1, 0xFF800000),
        ("v_sqrt_f32 v1, v0", 0x80000001, 1 << 31),
        ("v_rsq_f32 v1, v0", 1, INF),
        ("v_sin_f32 v1, v0", 0x3E800000, 0x3F800000),  # a quarter of a turn
        ("v_cos_f32 v1, v0", 0x41480000, 0xBF800000),  # 12.5 turns
    ],
)
def test_transcendental_operations_flush_denormals(line: str, source: int, wanted: int) -> None:
    assert lane0(run_lines("gfx1201", line, {0: source}), 1) == wanted


def test_output_modifiers() -> None:
    line = "v_add_f32_e64 v1, v0, v0 mul:4"
    assert lane0(run_lines("gfx942", line, {0: bits(1.5)}, flush32=True, ieee=False), 1) == bits(12)
    assert lane0(run_lines("gfx942", line, {0: bits(1.5)}), 1) == bits(3.0), "IEEE mode ignores it"
    line = "v_mul_f32_e64 v1, v0, 1.0 clamp"
    for value, wanted in ((-0.0, 0), (np.nan, 0), (0.5, bits(0.5)), (7.0, bits(1.0))):
        assert lane0(run_lines("gfx942", line, {0: bits(value)}), 1) == wanted


def test_signs_of_selected_bits() -> None:
    state = run_lines("gfx942", "v_cndmask_b32_e64 v2, -v0, |v1|, vcc",
                      {0: bits(2.0), 1: bits(-3.0)}, vcc=1)  # fmt: skip
    assert state.f32[2, 0, :2].tolist() == [3.0, -2.0]


@pytest.mark.parametrize(
    ("arch", "line", "a", "b", "wanted"),
    [
        ("gfx942", "v_add_u32_e64 v2, v0, v1 clamp", 0xFFFFFFF0, 0x20, 0xFFFFFFFF),
        ("gfx942", "v_sub_u32_e64 v2, v0, v1 clamp", 1, 2, 0),
        ("gfx942", "v_add_i32 v2, v0, v1 clamp", 0x7FFFFFFF, 1, 0x7FFFFFFF),
        ("gfx942", "v_sub_u16_e64 v2, v0, v1 clamp", 3, 5, 0),
        ("gfx1100", "v_add_nc_i16 v2.l, v0.l, v1.l clamp", 0x8000, 0xFFFF, 0x8000),
        ("gfx942", "v_mad_u16 v2, v0, v1, v1 clamp", 0xFFFF, 0xFFFF, 0xFFFF),
        ("gfx942", "v_mad_i32_i24 v2, v0, v1, v0 clamp", 0x7FFFFF, 0x7FFFFF, 0x7FFFFFFF),
        ("gfx942", "v_pk_sub_u16 v2, v0, v1 clamp", 0x00050003, 0x00010009, 0x00040000),
        ("gfx942", "v_sad_u8 v2, v0, v1, -1 clamp", 0x00000004, 0, 0xFFFFFFFF),
        ("gfx942", "v_dot4_u32_u8 v2, v0, v1, -1 clamp", 1, 1, 0xFFFFFFFF),
    ],
)
def test_integers_saturate(arch: str, line: str, a: int, b: int, wanted: int) -> None:
    assert lane0(run_lines(arch, line, {0: a, 1: b}), 2) == wanted


def test_clamp_of_what_cannot_saturate_is_refused() -> None:
    with pytest.raises(NotCoveredError):
        run_lines("gfx942", "v_mul_lo_u16_e64 v2, v0, v1 clamp", {})


# ---------------------------------------------------------------------- halves of registers


@pytest.mark.parametrize(
    ("arch", "line", "wanted"),
    [
        ("gfx942", "v_add_f16 v2, v0, v1", half(3.0)),
        ("gfx942", "v_fma_f16 v2, v0, v1, 0", 0xABCD0000 | half(2.0)),
        ("gfx942", "v_fma_f16 v2, v0, v1, 0 op_sel:[1,0,0,1]", half(8.0) << 16 | 0x1234),
        ("gfx942", "v_mad_legacy_f16 v2, v0, v1, 0", half(2.0)),
        ("gfx1100", "v_add_f16 v2.h, v0.h, v1.l", half(6.0) << 16 | 0x1234),
        ("gfx1100", "v_add_f16 v2.l, v0.l, v1.l", 0xABCD0000 | half(3.0)),
        ("gfx1100", "v_max3_f16 v2.h, v0.l, v0.h, v1.l", half(4.0) << 16 | 0x1234),
        ("gfx1201", "v_mov_b16 v2.h, v0.l", half(1.0) << 16 | 0x1234),
        ("gfx942", "v_cvt_f16_u16 v2, v3", half(7.0)),
        ("gfx942", "v_pack_b32_f16 v2, -v0, |v1|", half(2.0) << 16 | half(-1.0)),
        ("gfx942", "v_ldexp_f16 v2, v0, v3", half(128.0)),
        ("gfx942", "v_frexp_exp_i16_f16 v2, v0", 1),
        ("gfx942", "v_med3_i16 v2, v3, 9, 3", 0xABCD0007),
    ],
)
def test_halves(arch: str, line: str, wanted: int) -> None:
    rows = {0: half(4.0) << 16 | half(1.0), 1: half(2.0), 2: 0xABCD1234, 3: 7}
    assert lane0(run_lines(arch, line, rows), 2) == wanted


def test_mixed_precision() -> None:
    rows = {0: half(1.5) << 16 | half(3.0), 1: bits(2.0), 2: bits(0.25), 3: 0xABCD1234}
    lines = ["v_fma_mix_f32 v4, v0, v1, v2 op_sel:[1,0,0] op_sel_hi:[1,0,0]",
             "v_fma_mixlo_f16 v3, v0, -v1, neg(0) op_sel_hi:[1,0,0]",
             "v_fma_mixhi_f16 v3, v0, v1, v2 op_sel_hi:[1,0,0]"]  # fmt: skip
    state = run_lines("gfx1100", lines, rows)
    assert state.f32[4, 0, 0] == 3.25
    assert lane0(state, 3) == half(6.25) << 16 | half(-6.0)


def test_packed_halves() -> None:
    rows = {0: half(2.0) << 16 | half(1.0), 1: half(20.0) << 16 | half(10.0), 2: 0x00040003}
    lines = [
        "v_pk_add_f16 v3, v0, v1 op_sel:[0,1] op_sel_hi:[1,0] neg_hi:[0,1]",
        "v_pk_mul_f16 v4, v0, 2.0 op_sel_hi:[1,0]",
        "v_pk_mul_f16 v5, v0, 2.0",  # an inline float stands in the low half alone
        "v_pk_lshlrev_b16 v6, 4, v2 op_sel_hi:[0,1]",
        "v_pk_add_u16 v7, v2, -1",  # an inline integer is sign-extended
        "v_pk_fma_f16 v8, v0, v1, v0",
    ]
    state = run_lines("gfx942", lines, rows)
    assert [lane0(state, row) for row in range(3, 9)] == [
        half(-8.0) << 16 | half(21.0),
        half(4.0) << 16 | half(2.0),
        half(2.0),
        0x00400030,
        0x00030002,
        half(42.0) << 16 | half(11.0),
    ]


def test_packed_singles_pick_registers() -> None:
    rows = {0: bits(1.0), 1: bits(2.0), 2: bits(10.0), 3: bits(20.0)}
    lines = ["v_pk_add_f32 v[4:5], v[0:1], v[2:3] op_sel:[1,0] op_sel_hi:[0,0] neg_lo:[0,1]"]
    state = run_lines("gfx942", lines, rows)
    assert state.f32[4:6, 0, 0].tolist() == [-8.0, 11.0]


# ---------------------------------------------------------------------- integers and bits


@pytest.mark.parametrize(
    ("line", "a", "b", "c", "wanted"),
    [
        ("v_bfe_i32 v3, v0, v1, v2", 0x80000000, 28, 8, 0xFFFFFFF8),
        ("v_bfe_u32 v3, v0, v1, v2", 0xDEADBEEF, 36, 40, 0xEE),
        ("v_alignbyte_b32 v3, v0, v1, v2", 0x11223344, 0x55667788, 3, 0x22334455),
        ("v_alignbit_b32 v3, v0, v1, v2", 1, 0, 33, 0x80000000),
        ("v_perm_b32 v3, v0, v1, v2", 0x80112233, 0x44556677, 0x0C0D0B04, 0x00FFFF33),
        ("v_sad_u8 v3, v0, v1, v2", 0x10203040, 0x01FF2041, 5, 0x0F + 0xDF + 0x10 + 1 + 5),
        ("v_sad_hi_u8 v3, v0, v1, v2", 0x02000000, 0, 7, 0x00020007),
        ("v_sad_u16 v3, v0, v1, v2", 0x00050001, 0x00010003, 1, 7),
        ("v_msad_u8 v3, v0, v1, v2", 0x10203040, 0x01002041, 0, 0x0F + 0x10 + 1),
        ("v_lerp_u8 v3, v0, v1, v2", 0xFF00FF03, 0xFF01FF04, 0x01000001, 0xFF00FF04),
        ("v_mul_hi_i32_i24 v3, v0, v1", 0xFF800000, 0x7FFFFF, 0, 0xFFFFC000),
        ("v_cvt_pk_u8_f32 v3, v0, v1, v2", 0x43960000, 2, 0x11223344, 0x11FF3344),
        ("v_cvt_f32_ubyte3 v3, v0", 0xC8000000, 0, 0, 0x43480000),
        ("v_cvt_off_f32_i4 v3, v0", 0x9, 0, 0, 0xBEE00000),  # -7 / 16
        ("v_cvt_pk_i16_i32 v3, v0, v1", 70000, 0xFFFF0000, 0, 0x80007FFF),
        ("v_cvt_pknorm_i16_f32 v3, v0, v1", 0x3F000000, 0xC0000000, 0, 0x80014000),
        ("v_cvt_rpi_i32_f32 v3, v0", 0xBF000000, 0, 0, 0),
        ("v_cvt_flr_i32_f32 v3, v0", 0xBF000000, 0, 0, 0xFFFFFFFF),
        ("v_cvt_i32_f32 v3, v0", QUIET, 0, 0, 0),
        ("v_cvt_i32_f32 v3, v0", 0x7F7FFFFF, 0, 0, 0x7FFFFFFF),
        ("v_cvt_u32_f32 v3, v0", 0xBF800000, 0, 0, 0),
        ("v_cvt_pkrtz_f16_f32 v3, v0, v1", 0x7F7FFFFF, 0x387FFFFF, 0, 0x03FF7BFF),
        ("v_ffbh_i32 v3, v0", 0xFFFFFFFE, 0, 0, 31),
        ("v_ffbh_u32 v3, v0", 0, 0, 0, 0xFFFFFFFF),
        ("v_cubeid_f32 v3, v0, v1, v2", 0x3F800000, 0xC0000000, 0x3F800000, 0x40400000),
    ],
)
def test_single_results(line: str, a: int, b: int, c: int, wanted: int) -> None:
    assert lane0(run_lines("gfx942", line, {0: a, 1: b, 2: c}), 3) == wanted


def test_multiply_add_of_64_bits_carries() -> None:
    rows = {0: 0xFFFFFFFF, 1: 0xFFFFFFFF, 2: 0xFFFFFFFF, 3: 0xFFFFFFFF, 4: 5, 5: 1 << 31}
    lines = ["v_mad_u64_u32 v[6:7], vcc, v0, v1, v[2:3]",
             "v_mad_i64_i32 v[8:9], s[0:1], v0, v4, v[4:5]"]  # fmt: skip
    state = run_lines("gfx942", lines, rows)
    exact = 0xFFFFFFFF**2 + (1 << 64) - 1
    assert int(state.pair_of(6)[0, 0]) == exact & (1 << 64) - 1
    assert mask_of(state) == (1 << 64) - 1
    signed = -5 + 5 - (1 << 63)
    assert int(state.pair_of(8)[0, 0]) == signed & (1 << 64) - 1
    assert mask_of(state, 0) == (1 << 64) - 1, "bit 64 of a negative sum"


def test_carries_of_idle_lanes_are_zero() -> None:
    state = run_lines("gfx942", "v_add_co_u32 v1, vcc, v0, v0", {0: 1 << 31}, active=0b101,
                      vcc=0b1111)  # fmt: skip
    assert mask_of(state) == 0b101


def test_four_sums_of_differences() -> None:
    rows = {0: 0x04030201, 1: 0x08070605, 2: 0x01010001, 4: 0x00100000, 5: 0x00300020}
    state = run_lines("gfx942", "v_mqsad_pk_u16_u8 v[6:7], v[0:1], v2, v[4:5]", rows)
    reference, window, base = [1, 0, 1, 1], [1, 2, 3, 4, 5, 6, 7], [0, 16, 32, 48]
    wanted = [
        base[at] + sum(abs(window[at + i] - r) for i, r in enumerate(reference) if r)
        for at in range(4)
    ]
    words = [lane0(state, 6), lane0(state, 7)]
    assert [word >> shift & 0xFFFF for word in words for shift in (0, 16)] == wanted


def test_dot_products() -> None:
    rows = {
        0: 0xFF020304, 1: 0x02FF0101, 2: 100,
        3: half(3.0) << 16 | half(2.0), 4: half(5.0) << 16 | half(7.0), 5: bits(1.0),
    }  # fmt: skip
    lines = ["v_dot4_i32_iu8 v6, v0, v1, v2 neg_lo:[1,0,0]", "v_dot4_u32_u8 v7, v0, v1, v2",
             "v_dot2_f32_f16 v8, v3, v4, v5", "v_dot2_f16_f16 v9.l, v3, v4, v5.h",
             "v_dot2_f32_f16 v10, v3, v4, v5 neg_hi:[1,0,0]"]  # fmt: skip
    state = run_lines("gfx1100", lines, rows)
    signed = 100 + -1 * 2 + 2 * 255 + 3 + 4
    assert [lane0(state, 6), lane0(state, 7)] == [signed, 100 + 255 * 2 + 2 * 255 + 3 + 4]
    assert state.f32[8, 0, 0] == 1 + 14 + 15
    assert lane0(state, 9) & 0xFFFF == half(F32(np.uint16(0x3F80).view(np.float16)) + 29)
    assert state.f32[10, 0, 0] == 1 + 14 - 15


def test_dot_product_of_small_floats() -> None:
    # 1.0, 2.0, -1.0, 0.5 as fp8; 1.0, 1.0, 2.0, 4.0 as bf8.
    rows = {0: 0x30B84038, 1: 0x44403C3C, 2: bits(10.0)}
    state = run_lines("gfx1201", "v_dot4_f32_fp8_bf8 v3, v0, v1, v2", rows)
    assert state.f32[3, 0, 0] == 10 + 1 + 2 - 2 + 2


def test_two_over_pi() -> None:
    low, high = pairs(np.full(64, 3.0))
    lines = ["v_trig_preop_f64 v[2:3], v[0:1], 0", "v_trig_preop_f64 v[4:5], v[0:1], 1"]
    state = run_lines("gfx942", lines, {0: low, 1: high})
    first, second = (float(state.pair_of(row).view(F64)[0, 0]) for row in (2, 4))
    # 2 / pi to 106 bits, from pi to 40 digits.
    pi = Fraction(31415926535897932384626433832795028841972, 10**40)
    assert abs(Fraction(first) + Fraction(second) - 2 / pi) < Fraction(1, 1 << 100)
    assert first < 2 / math.pi < first + 2.0**-52


# ---------------------------------------------------------------------- 8, 6 and 4 bits


def _decode(code: int, exponent: int, mantissa: int, bias: int) -> float:
    """A small float's value by its definition, without special codes."""
    power = code >> mantissa & (1 << exponent) - 1
    fraction = (code & (1 << mantissa) - 1) / (1 << mantissa)
    sign = -1.0 if code >> (exponent + mantissa) & 1 else 1.0
    size = 2.0 ** (1 - bias) * fraction if not power else 2.0 ** (power - bias) * (1 + fraction)
    return sign * size


SHAPES = {"fp8": (4, 3, 7), "bf8": (5, 2, 15), "fp6": (2, 3, 1), "bf6": (3, 2, 3), "fp4": (2, 1, 1)}


@pytest.mark.parametrize("kind", ["fp8", "bf8"])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201"])
def test_bytes_become_floats_and_back(arch: str, kind: str) -> None:
    exponent, mantissa, bias = SHAPES[kind]
    lanes = 32 if arch == "gfx1201" else 64
    codes = np.arange(256, dtype=U32).reshape(256 // lanes, lanes)
    select = "_e64 v1, v0 byte_sel:2" if arch == "gfx1201" else "_sdwa v1, v0 src0_sel:BYTE_2"
    lines = [f"v_cvt_f32_{kind}{select}", f"v_cvt_pk_{kind}_f32 v2, v1, 0 op_sel:[0,0,1]"]
    state = run_lines(arch, lines, {0: codes << 16, 2: 0xABCD}, waves=len(codes))
    values, back = state.f32[1].reshape(-1), state.u32[2].reshape(-1)
    for code in range(256):
        if math.isfinite(values[code]):
            wanted = _decode(code, exponent, mantissa, bias + (arch == "gfx942"))
            assert values[code] == wanted
            assert back[code] == code << 16 | 0xABCD
    special = int((~np.isfinite(values)).sum())
    assert special == {"fp8": 2, "bf8": 8}[kind] if arch != "gfx942" else special == 1


@pytest.mark.parametrize(
    ("arch", "kind", "wanted"),
    [
        ("gfx950", "fp8", 436),
        ("gfx950", "bf8", 120),
        ("gfx942", "fp8", 496),
        ("gfx942", "bf8", 120),
    ],
)
def test_sums_that_overflow_are_as_many_as_on_hardware(arch: str, kind: str, wanted: int) -> None:
    """Ordered pairs of finite bytes whose sum is none (rocm-systems, issue 9556: measured)."""
    codes = np.arange(256, dtype=U32)
    first, second = (part.reshape(1024, 64) for part in np.meshgrid(codes, codes))
    lines = [f"v_cvt_f32_{kind} v2, v0", f"v_cvt_f32_{kind} v3, v1", "v_add_f32 v4, v2, v3",
             f"v_cvt_pk_{kind}_f32 v5, v4, v4", f"v_cvt_f32_{kind} v6, v5"]  # fmt: skip
    state = run_lines(arch, lines, {0: first, 1: second, 5: 0}, waves=1024)
    finite = np.isfinite(state.f32[2]) & np.isfinite(state.f32[3])
    assert int((finite & ~np.isfinite(state.f32[6])).sum()) == wanted


def test_conversions_saturate_by_mode() -> None:
    lines = ["v_cvt_pk_fp8_f32 v1, v0, v0", "v_cvt_f16_f32 v2, v0"]
    plain = run_lines("gfx950", lines, {0: bits(1e9), 1: 0})
    assert [lane0(plain, 1) & 0xFF, lane0(plain, 2)] == [0x7F, 0x7C00]
    held = run_lines("gfx950", lines, {0: bits(1e9), 1: 0}, saturates16=True)
    assert [lane0(held, 1) & 0xFF, lane0(held, 2)] == [0x7E, 0x7BFF]


def test_stochastic_rounding_adds_the_highest_noise() -> None:
    # 1 + 5/32 lies a quarter between 1.125 and 1.25: one noise in four rounds up.
    noise = np.arange(64, dtype=np.uint64) << np.uint64(26)
    lines = ["v_cvt_sr_fp8_f32 v2, v0, v1 op_sel:[0,0,1,1]", "v_cvt_sr_bf16_f32 v3, v0, v1"]
    state = run_lines("gfx950", lines, {0: bits(1 + 5 / 32), 1: noise.astype(U32), 2: 0x00ABCDEF})
    codes = state.u32[2, 0]
    assert (codes & U32(0xFFFFFF) == U32(0xABCDEF)).all()
    assert (codes >> U32(24)).tolist() == [0x39] * 48 + [0x3A] * 16
    assert (state.u32[3, 0] & U32(0xFFFF) == U32(brain(1 + 5 / 32))).all(), "exact ones stay"


@pytest.mark.parametrize("kind", ["fp6", "bf6"])
def test_six_bits_in_six_registers(kind: str) -> None:
    exponent, mantissa, bias = SHAPES[kind]
    values = np.array([_decode(code, exponent, mantissa, bias) for code in range(64)])
    for chosen in (values[:32], values[32:]):
        rows = {10 + at: bits(value * 8) for at, value in enumerate(chosen)}
        lines = [f"v_cvt_scalef32_2xpk16_{kind}_f32 v[0:5], v[10:25], v[26:41], v8",
                 f"v_cvt_scalef32_pk32_f32_{kind} v[10:41], v[0:5], v9"]  # fmt: skip
        state = run_lines("gfx950", lines, {**rows, 8: bits(8.0), 9: bits(0.5)})
        got = state.f32[10:42, 0, 0]
        woven = np.stack([chosen[:16], chosen[16:]], 1).reshape(-1)
        assert got.tolist() == (woven / 2).astype(F32).tolist()


def test_four_bits_by_bytes() -> None:
    rows = {0: bits(5.9), 1: bits(-1e9), 2: bits(1.0), 3: 0x11223344}
    lines = ["v_cvt_scalef32_pk_fp4_f32 v3, v0, v1, v2 op_sel:[0,0,0,1]",
             "v_cvt_scalef32_pk_f16_fp4 v4, v3, v2 op_sel:[0,1,0]",
             "v_cvt_scalef32_pk_f32_fp4 v[6:7], v3, v8 op_sel:[0,1,0]"]  # fmt: skip
    state = run_lines("gfx950", lines, {**rows, 8: bits(2.0**127)})
    assert lane0(state, 3) == 0x11F73344
    assert lane0(state, 4) == half(-6.0) << 16 | half(6.0)
    assert state.f32[6:8, 0, 0].tolist() == [np.inf, -np.inf], "6 * 2**127 is too large"


def test_scaled_bytes() -> None:
    rows = {0: half(448.0) << 16 | half(-3.0), 1: bits(2.0), 2: 0xABCD1234, 3: bits(np.inf)}
    lines = ["v_cvt_scalef32_pk_fp8_f16 v2, v0, v1 op_sel:[0,0,1]",
             "v_cvt_scalef32_pk_f32_fp8 v[4:5], v2, v1 op_sel:[1,0,0]",
             "v_cvt_scalef32_f32_fp8 v6, v2, v3 op_sel:[0,1,0]"]  # fmt: skip
    state = run_lines("gfx950", lines, rows)
    assert lane0(state, 2) == 0x76BC1234  # 224 and -1.5
    assert state.f32[4:6, 0, 0].tolist() == [-3.0, 448.0]
    assert math.isnan(state.f32[6, 0, 0]), "a scale with exponent 255"


def test_nibbles_and_bytes_held() -> None:
    lines = ["v_sat_pk_u8_i16 v2, v0", "v_ashr_pk_i8_i32 v3, v0, v1, 4",
             "v_cvt_pk_bf16_f32 v4, v1, 1.0"]  # fmt: skip
    rows = {0: 0x0200FF00, 1: 0xC2C80000, 2: 0x77778888, 3: 0x55556666}
    state = run_lines("gfx950", lines, rows)
    assert [lane0(state, row) for row in (2, 3, 4)] == [0x7777FF00, 0x5555807F, 0x3F80C2C8]


# ---------------------------------------------------------------------- lanes


def test_dpp_of_halves_and_of_64_bits() -> None:
    lanes = np.arange(64)
    rows = {0: np.array([half(float(lane)) for lane in lanes]), 1: 0, 2: 0xABCD,
            4: lanes, 5: lanes + 100, 6: 7, 7: 8}  # fmt: skip
    lines = ["v_add_f16_dpp v2, v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf",
             "v_mov_b64_dpp v[6:7], v[4:5] row_newbcast:3 row_mask:0x5 bank_mask:0xf"]  # fmt: skip
    active = (1 << 64) - 1 ^ 1 << 5
    state = run_lines("gfx942", lines, rows, active=active)
    written = [lane for lane in range(64) if lane % 16 and lane not in (5, 6)]
    wanted = [half(float(lane - 1)) if lane in written else 0xABCD for lane in range(64)]
    assert state.u32[2, 0].tolist() == wanted
    here = (lanes // 16 % 2 == 0) & (lanes != 5)
    assert state.u32[6, 0].tolist() == np.where(here, lanes // 16 * 16 + 3, 7).tolist()
    assert state.u32[7, 0].tolist() == np.where(here, lanes // 16 * 16 + 103, 8).tolist()


def test_comparison_by_dpp_leaves_lanes_out() -> None:
    line = "v_cmp_ge_u32_e64_dpp s4, v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf"
    state = run_lines("gfx1201", line, {0: np.arange(32), 1: 0})
    assert int(state.scalar[4, 0]) == 0xFFFEFFFE


def test_sdwa_of_carries() -> None:
    line = "v_add_co_u32_sdwa v2, vcc, v0, v1 dst_sel:DWORD src0_sel:BYTE_1 src1_sel:DWORD"
    state = run_lines("gfx942", line, {0: 0x1234, 1: 0xFFFFFFFF})
    assert lane0(state, 2) == 0x11
    assert mask_of(state) == (1 << 64) - 1


def test_dual_halves_read_before_either_writes() -> None:
    lines = ["v_dual_mov_b32 v0, v1 :: v_dual_mov_b32 v1, v0",
             "v_dual_fmac_f32 v2, v0, v1 :: v_dual_dot2acc_f32_f16 v3, v4, v5"]  # fmt: skip
    rows = {0: bits(2.0), 1: bits(3.0), 2: bits(1.0), 3: bits(1.0),
            4: half(2.0) << 16 | half(1.0), 5: half(4.0) << 16 | half(3.0)}  # fmt: skip
    state = run_lines("gfx1100", lines, rows)
    assert state.f32[:4, 0, 0].tolist() == [3.0, 2.0, 7.0, 12.0]


def test_registers_that_m0_shifts() -> None:
    rows = {0: 10, 1: 11, 2: 12, 3: 13}
    state = run_lines("gfx1100", ["v_movrels_b32 v5, v0", "v_movreld_b32 v4, v0"], rows, m0=2)
    assert [lane0(state, row) for row in (4, 5, 6)] == [0, 12, 10]


@pytest.mark.parametrize(
    "line",
    [
        "v_dot2c_f32_f16_dpp v2, v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf",
        "v_pk_fmac_f16_dpp v2, v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf",
    ],
)
def test_modifiers_that_nobody_reads_are_refused(line: str) -> None:
    with pytest.raises(NotCoveredError):
        run_lines("gfx942", line, {})
