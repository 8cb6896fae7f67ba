"""Atomic operations against a loop over the lanes; their turns, NaNs, zeros and denormals."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest
from emulated import Array, run_lines
from kinspect.inspector.emulator.memory import buffer_of

BASE = 0x5000_0000_0000
U32 = np.uint32
ALL = 0xFFFFFFFF
WAIT = "s_waitcnt vmcnt(0) lgkmcnt(0)"
EDGES = [0, 1, 2, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, ALL, 31, 64]
Rule = Callable[[int, int], int]


def signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


RULES: dict[str, Rule] = {
    "add_u32": lambda m, x: (m + x) & ALL,
    "sub_u32": lambda m, x: (m - x) & ALL,
    "rsub_u32": lambda m, x: (x - m) & ALL,
    "inc_u32": lambda m, x: 0 if m >= x else m + 1,
    "dec_u32": lambda m, x: x if m == 0 or m > x else m - 1,
    "min_i32": lambda m, x: min(m, x, key=signed),
    "max_i32": lambda m, x: max(m, x, key=signed),
    "min_u32": min,
    "max_u32": max,
    "and_b32": lambda m, x: m & x,
    "or_b32": lambda m, x: m | x,
    "xor_b32": lambda m, x: m ^ x,
    "cond_sub_u32": lambda m, x: m - x if m >= x else m,
    "sub_clamp_u32": lambda m, x: max(m - x, 0),
}


def by_lanes(
    memory: list[int], places: Array, operands: Array, rule: Rule, active: int
) -> tuple[list[int], list[int]]:
    """What a loop over the lanes leaves in memory, and what each lane meets."""
    memory = list(memory)
    met = []
    for lane, (place, operand) in enumerate(zip(places, operands, strict=True)):
        met.append(memory[place] if active >> lane & 1 else 0)
        if active >> lane & 1:
            memory[place] = rule(memory[place], int(operand))
    return memory, met


@pytest.mark.parametrize("operation", RULES)
def test_lds(operation: str) -> None:
    arch = "gfx1201" if operation.startswith(("cond", "sub_clamp")) else "gfx942"
    lanes = 32 if arch == "gfx1201" else 64
    rng = np.random.default_rng(1)
    memory = rng.choice(EDGES, 16).tolist()
    places, operands = rng.integers(0, 16, lanes), rng.choice(EDGES, lanes)
    active = int(rng.integers(1 << 40)) & ((1 << lanes) - 1)
    name, kind = operation.rsplit("_", 1)
    wait = "s_wait_dscnt 0x0" if lanes == 32 else WAIT
    state = run_lines(
        arch, [f"ds_{name}_rtn_{kind} v8, v1, v2 offset:4", wait],
        {1: places * 4, 2: operands}, active=active, lds=struct.pack("<17I", 0, *memory),
    )  # fmt: skip
    expected, met = by_lanes(memory, places, operands, RULES[operation], active)
    assert state.machine.local.words.by_width[4][1:17].tolist() == expected
    assert state.u32[8, 0].tolist() == met


_GLOBAL = {
    "add": "add_u32", "sub": "sub_u32", "smin": "min_i32", "smax": "max_i32", "umin": "min_u32",
    "umax": "max_u32", "and": "and_b32", "or": "or_b32", "xor": "xor_b32", "inc": "inc_u32",
    "dec": "dec_u32",
}  # fmt: skip


@pytest.mark.parametrize("operation", _GLOBAL)
@pytest.mark.parametrize("places", ["spread", "one"])
def test_memory(operation: str, places: str) -> None:
    rng = np.random.default_rng(2)
    memory = rng.choice(EDGES, 16).tolist()
    where = rng.integers(0, 16, 64) if places == "spread" else np.full(64, 3)
    operands = rng.choice(EDGES, 64)
    buffer = buffer_of(np.array(memory, U32), BASE)
    state = run_lines(
        "gfx942", [f"global_atomic_{operation} v8, v1, v2, s[0:1] sc0", WAIT],
        {1: where * 4, 2: operands}, {0: BASE & ALL, 1: BASE >> 32}, buffers=[buffer],
    )  # fmt: skip
    rule = RULES[_GLOBAL[operation]]
    expected, met = by_lanes(memory, where, operands, rule, (1 << 64) - 1)
    assert buffer.data[:64].view(U32).tolist() == expected
    assert state.u32[8, 0].tolist() == met


def test_through_a_buffer_out_of_range_nothing_happens() -> None:
    buffer = buffer_of(np.zeros(16, U32), BASE)
    state = run_lines(
        "gfx1100", ["buffer_atomic_add_u32 v2, v1, s[0:3], 0 offen glc", "s_waitcnt vmcnt(0)"],
        {1: np.where(np.arange(32) % 2, 0x80000000, np.arange(32) // 4 * 4), 2: 5},
        {0: BASE & ALL, 1: BASE >> 32, 2: 64, 3: 0x31027000}, buffers=[buffer],
    )  # fmt: skip
    assert buffer.data[:64].view(U32).tolist() == [10] * 8 + [0] * 8
    met = np.where(np.arange(32) % 2, 0, np.arange(32) % 4 // 2 * 5)
    assert np.array_equal(state.u32[2, 0], met)


def test_without_a_returned_value_registers_stay() -> None:
    buffer = buffer_of(np.zeros(4, U32), BASE)
    state = run_lines(
        "gfx1201", ["global_atomic_add_u32 v1, v2, s[0:1] scope:SCOPE_DEV", "s_wait_idle"],
        {1: 0, 2: 5}, {0: BASE & ALL, 1: BASE >> 32}, buffers=[buffer],
    )  # fmt: skip
    assert (state.u32[2] == 5).all()
    assert buffer.data[:4].view(U32)[0] == 160


def test_compare_and_swap_takes_turns() -> None:
    # Each lane waits for its own number and leaves the next: only in lane order do all succeed.
    buffer = buffer_of(np.zeros(1, U32), BASE)
    lanes = np.arange(64)
    state = run_lines(
        "gfx90a", ["global_atomic_cmpswap v8, v1, v[2:3], s[0:1] glc", WAIT],
        {1: 0, 2: lanes + 1, 3: lanes}, {0: BASE & ALL, 1: BASE >> 32}, buffers=[buffer],
    )  # fmt: skip
    assert buffer.data[:4].view(U32)[0] == 64
    assert state.u32[8, 0].tolist() == lanes.tolist()


@pytest.mark.parametrize(
    ("arch", "line", "wait"),
    [("gfx942", "ds_cmpst_rtn_b64 v[8:9], v1, v[2:3], v[4:5]", WAIT),
     ("gfx1100", "ds_cmpstore_rtn_b64 v[8:9], v1, v[4:5], v[2:3]", "s_waitcnt lgkmcnt(0)")],
)  # fmt: skip
def test_the_compared_value_changed_places_in_gfx11(arch: str, line: str, wait: str) -> None:
    state = run_lines(arch, [line, wait], {1: 8, 2: 1, 3: 2, 4: 30, 5: 40}, active=1,
                      lds=struct.pack("<QQ", 0, 2 << 32 | 1))  # fmt: skip
    assert state.machine.local.words.by_width[8][1] == 40 << 32 | 30
    assert state.u32[8:10, 0, 0].tolist() == [1, 2]


def test_wide_and_paired_exchanges() -> None:
    state = run_lines(
        "gfx942", ["ds_wrxchg2st64_rtn_b32 v[8:9], v1, v2, v3 offset1:1", WAIT],
        {1: np.arange(64) * 4, 2: np.arange(64) + 1000, 3: np.arange(64) + 2000},
        lds=np.arange(128, dtype=U32).tobytes(),
    )  # fmt: skip
    assert np.array_equal(state.u32[8, 0], np.arange(64))
    assert np.array_equal(state.u32[9, 0], np.arange(64, 128))
    words = state.machine.local.words.by_width[4][:128]
    assert np.array_equal(words, np.concatenate((np.arange(1000, 1064), np.arange(2000, 2064))))


def test_masked_or_and_wrapping() -> None:
    state = run_lines("gfx942", ["ds_mskor_b32 v1, v2, v3", "ds_wrap_rtn_b32 v8, v4, v5, v6", WAIT],
                      {1: 0, 2: 0xFF00, 3: 0x1200, 4: 4, 5: 7, 6: 100}, active=3,
                      lds=struct.pack("<2I", 0xABCD, 10))  # fmt: skip
    assert state.machine.local.words.by_width[4][:2].tolist() == [0x12CD, 103]
    assert state.u32[8, 0, :2].tolist() == [10, 3]


def test_counters_of_lanes() -> None:
    lines = ["ds_append v8 offset:4", "s_waitcnt lgkmcnt(0)", "ds_consume v9 offset:4"]
    lds = struct.pack("<3I", 0, 0, 100)
    active = [0xFF, 0x3]
    lines.append("s_waitcnt lgkmcnt(0)")
    state = run_lines("gfx1100", lines, active=active, m0=4, lds=lds, waves=2)
    assert state.u32[8, :, 0].tolist() == [100, 108]
    assert state.u32[9, :, 0].tolist() == [110, 102]
    assert state.machine.local.words.by_width[4][2] == 100


# ---------------------------------------------------------------------- floats


def bits(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


INF, NAN, SNAN = 0x7F800000, 0x7FC00000, 0x7F800001


def one_float(arch: str, line: str, old: int, operand: int, *, flush32: bool = False) -> int:
    wait = "s_wait_dscnt 0x0" if arch == "gfx1201" else "s_waitcnt lgkmcnt(0)"
    state = run_lines(arch, [line, wait], {1: 0, 2: operand}, active=1,
                      lds=struct.pack("<I", old), flush32=flush32)  # fmt: skip
    return int(state.machine.local.words.by_width[4][0])


@pytest.mark.parametrize(
    ("old", "operand", "smallest", "largest"),
    [
        (bits(1.0), bits(-2.0), bits(-2.0), bits(1.0)),
        (0x80000000, 0, 0x80000000, 0),
        (0, 0x80000000, 0x80000000, 0),
        (NAN, bits(3.0), bits(3.0), bits(3.0)),
        (bits(3.0), NAN, bits(3.0), bits(3.0)),
        (INF, bits(5.0), bits(5.0), INF),
        (1, 2, 1, 2),
        (SNAN, bits(1.0), SNAN | 0x400000, SNAN | 0x400000),
    ],
)
def test_smallest_and_largest_of_floats(
    old: int, operand: int, smallest: int, largest: int
) -> None:
    """CDNA4 ISA, 9.2.3: a number before a quiet NaN, a signalling one before all."""
    assert one_float("gfx942", "ds_min_f32 v1, v2", old, operand) == smallest
    assert one_float("gfx942", "ds_max_f32 v1, v2", old, operand) == largest


def test_gfx12_passes_over_signalling_nans() -> None:
    assert one_float("gfx1201", "ds_min_num_f32 v1, v2", SNAN, bits(1.0)) == bits(1.0)
    assert one_float("gfx1201", "ds_max_num_f32 v1, v2", SNAN, SNAN) == SNAN | 0x400000


def test_sums_of_floats_go_by_the_mode_in_lds_and_by_the_gpu_in_memory() -> None:
    assert one_float("gfx942", "ds_add_f32 v1, v2", 3, 4) == 7
    assert one_float("gfx942", "ds_add_f32 v1, v2", 3, 4, flush32=True) == 0
    for arch, expected in (("gfx90a", 0), ("gfx942", 7)):
        buffer = buffer_of(np.array([3], U32), BASE)
        run_lines(arch, ["global_atomic_add_f32 v1, v2, s[0:1]", WAIT], {1: 0, 2: 4},
                  {0: BASE & ALL, 1: BASE >> 32}, active=1, buffers=[buffer])  # fmt: skip
        assert buffer.data[:4].view(U32)[0] == expected


def test_many_sums_at_one_place_round_one_by_one() -> None:
    values = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    buffer = buffer_of(np.array([1e6], np.float32), BASE)
    lines = ["global_atomic_add_f32 v8, v1, v2, s[0:1] sc0", WAIT]
    start = {0: BASE & ALL, 1: BASE >> 32}
    state = run_lines("gfx942", lines, {1: 0, 2: values}, start, buffers=[buffer])
    total, met = np.float32(1e6), []
    for value in values:
        met.append(total)
        total = total + value
    assert buffer.data[:4].view(np.float32)[0] == total
    assert np.array_equal(state.f32[8, 0], np.array(met))


@pytest.mark.parametrize(
    ("kind", "one", "two"), [("f16", 0x3C00, 0x4000), ("bf16", 0x3F80, 0x4000)]
)
def test_packed_sums(kind: str, one: int, two: int) -> None:
    got = one_float("gfx942", f"ds_pk_add_{kind} v1, v2", one << 16 | two, one << 16)
    assert got == two << 16 | two


def test_sums_of_64_bits() -> None:
    buffer = buffer_of(np.array([0.1, 7.0]), BASE)
    state = run_lines(
        "gfx90a",
        ["global_atomic_add_f64 v[8:9], v1, v[2:3], s[0:1] glc",
         "global_atomic_min_f64 v1, v[2:3], s[0:1] offset:8", WAIT],
        {1: 0, 2: 0x9999999A, 3: 0x3FC99999}, {0: BASE & ALL, 1: BASE >> 32}, active=3,
        buffers=[buffer],
    )  # fmt: skip
    assert buffer.data[:16].view(np.float64).tolist() == [0.1 + 0.2 + 0.2, 0.2]
    pairs = state.u32[8, 0, :2].astype(np.uint64) | (
        state.u32[9, 0, :2].astype(np.uint64) << np.uint64(32)
    )
    assert pairs.view(np.float64).tolist() == [0.1, 0.1 + 0.2]
