"""Buffers, private memory, LDS, copies into LDS, d16: where accesses point and what they move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from emulated import Array, code_of, run_lines
from kinspect.inspector.emulator.machine import MachineState
from kinspect.inspector.emulator.memory import (
    PRIVATE_APERTURE,
    SHARED_APERTURE,
    Buffer,
    GlobalMemory,
    buffer_of,
)
from kinspect.inspector.emulator.registry import NotCoveredError
from kinspect.inspector.emulator.waves import WaveIds, Waves
from kinspect.inspector.isa.dataflow.operands import EXEC

BASE = 0x5000_0000_0000
DATA = np.arange(1, 257, dtype=np.uint32) * 0x01010101
LANES = np.arange(64)
WAIT = "s_waitcnt vmcnt(0) lgkmcnt(0)"
WAIT12 = "s_wait_idle"


def held(buffer: Buffer) -> Array:
    return buffer.data[: buffer.size].view(np.uint32)


def descriptor(
    records: int, *, stride: int = 0, word3: int = 0x27000, swizzle: int = 0
) -> Mapping[int, int]:
    """s[0:3] for a buffer at BASE."""
    high = BASE >> 32 | stride << 16 | swizzle << 30
    return {0: BASE & 0xFFFFFFFF, 1: high, 2: records, 3: word3}


def load(
    arch: str,
    line: str,
    vgprs: Mapping[int, Any],
    sgprs: Mapping[int, Any],
    count: int = 1,
    **options: Any,
) -> Array:
    """Runs one load into v[8:...]; the registers, [register, lane] of the first wave."""
    buffers = [buffer_of(DATA, BASE, "data")]
    wait = WAIT12 if arch.startswith("gfx12") else WAIT
    state = run_lines(arch, [line, wait], vgprs, sgprs, buffers=buffers, **options)
    assert not state.machine.troubles
    return np.asarray(state.u32[8 : 8 + count, 0])


# ---------------------------------------------------------------------- buffers


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
def test_what_lies_past_the_records_reads_0(arch: str) -> None:
    lanes = 64 if arch.startswith("gfx9") else 32
    name = "buffer_load_dword" if lanes == 64 else "buffer_load_b32"
    none = "null" if arch == "gfx1201" else "0"
    offsets = np.where(LANES[:lanes] % 3 == 0, 0x80000000, LANES[:lanes] * 4)
    word3 = 0x27000 if lanes == 64 else 0x31027000
    rows = load(
        arch, f"{name} v8, v1, s[0:3], {none} offen offset:8", {1: offsets},
        descriptor(80, word3=word3),
    )  # fmt: skip
    inside = (LANES[:lanes] % 3 != 0) & (LANES[:lanes] * 4 + 8 < 80)
    assert np.array_equal(rows[0], np.where(inside, DATA[(LANES[:lanes] + 2) % 256], 0))


def test_each_dword_is_checked() -> None:
    rows = load("gfx942", "buffer_load_dwordx4 v[8:11], v1, s[0:3], 0 offen", {1: LANES * 4},
                descriptor(40), 4)  # fmt: skip
    for dword in range(4):
        inside = LANES * 4 + 4 * dword < 40
        assert np.array_equal(rows[dword], np.where(inside, DATA[LANES + dword], 0))


def test_the_last_byte_counts_from_gfx11_on_the_first_before() -> None:
    lines = {"gfx942": "buffer_load_dword v8, off, s[0:3], 0 offset:8",
             "gfx1100": "buffer_load_b32 v8, off, s[0:3], 0 offset:8"}  # fmt: skip
    assert load("gfx942", lines["gfx942"], {}, descriptor(9))[0, 0] == DATA[2]
    assert load("gfx1100", lines["gfx1100"], {}, descriptor(9, word3=0x31027000))[0, 0] == 0
    assert load("gfx1100", lines["gfx1100"], {}, descriptor(12, word3=0x31027000))[0, 0] == DATA[2]


def test_the_scalar_offset_is_not_checked() -> None:
    line = "buffer_load_dword v8, off, s[0:3], s4 offset:4"
    assert load("gfx90a", line, {}, {**descriptor(8), 4: 400})[0, 0] == DATA[101]


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_records_of_a_stride(arch: str) -> None:
    name = "buffer_load_dword" if arch == "gfx942" else "buffer_load_b32"
    # OOB_SELECT 1: the index alone is checked.
    records = descriptor(10, stride=16, word3=0x27000 if arch == "gfx942" else 0x11027000)
    lanes = LANES if arch == "gfx942" else LANES[:32]
    rows = load(arch, f"{name} v8, v[1:2], s[0:3], 0 idxen offen offset:4",
                {1: lanes, 2: 4}, records)  # fmt: skip
    assert np.array_equal(rows[0], np.where(lanes < 10, DATA[(lanes * 4 + 2) % 256], 0))


def test_structured_with_offset_checks_the_stride_too() -> None:
    records = descriptor(10, stride=16, word3=0x01027000)
    offsets = np.arange(32) % 5 * 4
    rows = load("gfx1100", "buffer_load_b32 v8, v[1:2], s[0:3], 0 idxen offen",
                {1: 3, 2: offsets}, records)  # fmt: skip
    assert np.array_equal(rows[0], np.where(offsets + 4 <= 16, DATA[12 + offsets // 4], 0))


def test_swizzled_elements_lie_by_index_groups() -> None:
    # gfx9: elements of 4 bytes, groups of 8 indices (index stride 0), stride 8.
    records = descriptor(64, stride=8, swizzle=2)
    with pytest.raises(NotCoveredError):
        load("gfx942", "buffer_load_dwordx2 v[8:9], v1, s[0:3], 0 idxen", {1: LANES}, records, 2)
    rows = load("gfx942", "buffer_load_dword v8, v[1:2], s[0:3], 0 idxen offen",
                {1: LANES % 24, 2: 4}, records)  # fmt: skip
    index = LANES % 24
    place = (index // 8 * 8 + 4) * 8 + index % 8 * 4
    assert np.array_equal(rows[0], DATA[place // 4])


def test_wide_descriptor_of_gfx1250() -> None:
    records = 100
    sgprs = {
        0: BASE & 0xFFFFFFFF, 1: BASE >> 32 | (records & 127) << 25, 2: records >> 7, 3: 0,
    }  # fmt: skip
    rows = load("gfx1250", "buffer_load_b32 v8, v1, s[0:3], null offen",
                {1: np.arange(32) * 4}, sgprs)  # fmt: skip
    assert np.array_equal(rows[0], np.where(np.arange(32) * 4 + 4 <= 100, DATA[:32], 0))


def test_stores_out_of_range_are_dropped() -> None:
    buffer = buffer_of(np.zeros(64, np.uint32), BASE)
    run_lines(
        "gfx942", ["buffer_store_dwordx2 v[2:3], v1, s[0:3], 0 offen", WAIT],
        {1: np.where(LANES < 8, LANES * 8, 0x80000000), 2: LANES + 100, 3: LANES + 200},
        descriptor(60), buffers=[buffer],
    )  # fmt: skip
    expected = np.zeros(64, np.uint32)
    expected[0:16:2], expected[1:15:2] = np.arange(100, 108), np.arange(200, 207)
    assert np.array_equal(held(buffer), expected)


# ---------------------------------------------------------------------- halves of registers


@pytest.mark.parametrize(("arch", "clears"), [("gfx942", True), ("gfx1100", False)])
def test_16_bit_loads_clear_the_other_half_where_registers_have_ecc(
    arch: str, clears: bool
) -> None:
    old = 0xAAAABBBB
    names = (
        ("global_load_short_d16 v8, v1, s[0:1]", "global_load_short_d16_hi v8, v1, s[0:1]")
        if arch == "gfx942"
        else ("global_load_d16_b16 v8, v1, s[0:1]", "global_load_d16_hi_b16 v8, v1, s[0:1]")
    )
    start = {0: BASE & 0xFFFFFFFF, 1: BASE >> 32}
    low = load(arch, names[0], {1: 4, 8: old}, start)[0, 0]
    high = load(arch, names[1], {1: 4, 8: old}, start)[0, 0]
    assert low == (0x0202 if clears else 0xAAAA0202)
    assert high == (0x02020000 if clears else 0x0202BBBB)


def test_halves_are_stored() -> None:
    buffer = buffer_of(np.zeros(4, np.uint32), BASE)
    run_lines(
        "gfx90a",
        ["global_store_short_d16_hi v0, v2, s[0:1]",
         "global_store_byte_d16_hi v0, v2, s[0:1] offset:4",
         "global_store_byte v0, v2, s[0:1] offset:8", WAIT],
        {0: 0, 2: 0x12345678}, {0: BASE & 0xFFFFFFFF, 1: BASE >> 32},
        active=1, buffers=[buffer],
    )  # fmt: skip
    assert held(buffer).tolist() == [0x1234, 0x34, 0x78, 0]


# ---------------------------------------------------------------------- addresses


def test_offsets_of_gfx1250_are_signed_and_may_be_scaled() -> None:
    start = {0: (BASE + 64) & 0xFFFFFFFF, 1: BASE >> 32}
    rows = load("gfx1250", "global_load_b32 v8, v1, s[0:1] offset:4 scale_offset",
                {1: np.arange(32) - 8}, start)  # fmt: skip
    assert np.array_equal(rows[0], DATA[16 + 1 + np.arange(32) - 8])


def test_flat_addresses_lead_to_lds_private_memory_and_buffers() -> None:
    kinds = LANES % 3
    place = LANES // 3 * 4
    address = np.choose(kinds, [BASE + place, SHARED_APERTURE + place, PRIVATE_APERTURE + 8])
    lds = DATA[100:200].tobytes()
    state = run_lines(
        "gfx942",
        ["s_mov_b64 s[4:5], src_shared_base", "s_mov_b64 s[6:7], src_private_base",
         "scratch_store_dword off, v2, off offset:8", WAIT,
         "flat_load_dword v8, v[0:1]", WAIT, "flat_store_dword v[0:1], v3", WAIT,
         "scratch_load_dword v9, off, off offset:8", WAIT],
        {0: address & 0xFFFFFFFF, 1: address >> 32, 2: LANES + 1000, 3: LANES + 5},
        lds=lds, buffers=[buffer := buffer_of(DATA, BASE)], scratch=16,
    )  # fmt: skip
    expected = np.choose(kinds, [DATA[place // 4], DATA[100 + place // 4], LANES + 1000])
    assert np.array_equal(state.u32[8, 0], expected)
    assert np.array_equal(state.u32[9, 0], np.where(kinds == 2, LANES + 5, LANES + 1000))
    assert held(buffer)[:2].tolist() == [5, 8]
    assert state.machine.local.words.by_width[4][1] == 9
    assert state.scalar[4:8, 0].tolist() == [0, SHARED_APERTURE >> 32, 0, PRIVATE_APERTURE >> 32]


def test_private_memory_is_each_lanes_own() -> None:
    state = run_lines(
        "gfx1100",
        ["scratch_store_b64 v1, v[2:3], off offset:-8", "scratch_store_b8 off, v2, s4 offset:3",
         "s_waitcnt_vscnt null, 0x0", "scratch_load_b64 v[8:9], v1, off offset:-8",
         "scratch_load_u8 v10, off, s4 offset:3", "s_waitcnt vmcnt(0)"],
        {1: 8 + np.arange(32) % 2 * 8, 2: np.arange(32), 3: np.arange(32) * 7}, {4: 16},
        scratch=32, waves=2,
    )  # fmt: skip
    assert not state.machine.troubles
    for wave in range(2):
        assert np.array_equal(state.u32[8, wave], np.arange(32))
        assert np.array_equal(state.u32[9, wave], np.arange(32) * 7)
        assert np.array_equal(state.u32[10, wave], np.arange(32))


# ---------------------------------------------------------------------- LDS


def test_pairs_in_units_of_64_and_idle_lanes() -> None:
    lds = np.arange(512, dtype=np.uint32)
    state = run_lines(
        "gfx942", ["ds_read2st64_b32 v[8:9], v1 offset0:1 offset1:3", WAIT],
        {1: LANES * 4, 8: 7, 9: 7}, active=0xFFFF0000FFFF0000, lds=lds.tobytes(),
    )  # fmt: skip
    active = LANES // 16 % 2 == 1
    assert np.array_equal(state.u32[8, 0], np.where(active, LANES + 64, 7))
    assert np.array_equal(state.u32[9, 0], np.where(active, LANES + 192, 7))


def test_what_lies_past_the_lds_reads_0_and_is_told() -> None:
    state = run_lines("gfx942", ["ds_read_b64 v[8:9], v1", WAIT], {1: LANES * 8},
                      lds=np.arange(1, 65, dtype=np.uint32).tobytes())  # fmt: skip
    assert np.array_equal(state.u32[8, 0], np.where(LANES < 32, LANES * 2 + 1, 0))
    assert [kind for kind, _ in state.machine.troubles] == ["outside_lds"]


def test_addresses_by_the_number_of_the_lane() -> None:
    state = run_lines(
        "gfx90a",
        ["ds_write_addtid_b32 v2 offset:8", WAIT, "ds_read_addtid_b32 v8 offset:12", WAIT],
        {2: LANES + 1}, m0=0xABCD0010, lds=bytes(512),
    )  # fmt: skip
    words = state.machine.local.words.by_width[4]
    assert words[6:70].tolist() == list(range(1, 65))
    assert state.u32[8, 0].tolist() == [*range(2, 65), 0]


# ---------------------------------------------------------------------- copies into LDS


def copied(arch: str, line: str, vgprs: Mapping[int, Any], *, active: int | None = None) -> Array:
    state = run_lines(
        arch, [line, WAIT], vgprs, {**descriptor(1024), 4: BASE & 0xFFFFFFFF, 5: BASE >> 32},
        active=active, m0=32, lds=bytes(2048), buffers=[buffer_of(DATA, BASE)],
    )  # fmt: skip
    assert not state.machine.troubles
    return np.asarray(state.machine.local.words.by_width[4][:512])


def test_a_lane_writes_behind_m0_by_its_number() -> None:
    words = copied("gfx942", "buffer_load_dword v1, s[0:3], 0 offen offset:16 lds",
                   {1: (63 - LANES) * 4}, active=0xFFFFFFFFFFFFFF0F)  # fmt: skip
    expected = np.zeros(512, np.uint32)
    expected[12 + LANES] = np.where((LANES < 4) | (LANES > 7), DATA[63 - LANES + 4], 0)
    assert np.array_equal(words, expected)


def test_wide_copies_are_16_bytes_apart() -> None:
    whole = copied("gfx950", "buffer_load_dwordx4 v1, s[0:3], 0 offen lds", {1: LANES * 16})
    assert np.array_equal(whole[8 : 8 + 256], DATA)
    three = copied("gfx950", "global_load_lds_dwordx3 v1, s[4:5]", {1: LANES * 12})
    assert np.array_equal(three[8 : 8 + 256].reshape(64, 4)[:, :3].reshape(-1), DATA[:192])
    assert not three[8 : 8 + 256].reshape(64, 4)[:, 3].any()


def test_lanes_out_of_range_copy_0() -> None:
    state = run_lines(
        "gfx950", ["buffer_load_dword v1, s[0:3], 0 offen lds", WAIT],
        {1: np.where(LANES % 2, 0x80000000, LANES * 4)}, descriptor(1024),
        lds=b"\xff" * 256, buffers=[buffer_of(DATA, BASE)],
    )  # fmt: skip
    words = state.machine.local.words.by_width[4][:64]
    assert np.array_equal(words, np.where(LANES % 2, 0, DATA[:64]))


def test_a_copy_is_there_when_the_wait_says_so() -> None:
    state = run_lines(
        "gfx942",
        ["buffer_load_dword v1, s[0:3], 0 offen lds", "ds_read_b32 v8, v2", "s_waitcnt lgkmcnt(0)",
         "s_waitcnt vmcnt(0)", "ds_read_b32 v9, v2", "s_waitcnt lgkmcnt(0)"],
        {1: LANES * 4, 2: LANES * 4}, descriptor(1024), lds=bytes(256),
        buffers=[buffer_of(DATA, BASE)],
    )  # fmt: skip
    assert not state.u32[8].any()
    assert np.array_equal(state.u32[9, 0], DATA[:64])


def test_asynchronous_copies_name_their_place() -> None:
    lanes = np.arange(32)
    state = run_lines(
        "gfx1250",
        ["global_load_async_to_lds_b64 v1, v2, s[4:5] offset:8", "s_wait_asynccnt 0x0",
         "ds_load_b32 v8, v3", "s_wait_dscnt 0x0"],
        {1: np.where(lanes == 5, 0x7FFFFFFF, (31 - lanes) * 8),
         2: np.where(lanes == 5, 1 << 30, lanes * 8), 3: lanes * 8 + 8},
        {4: BASE & 0xFFFFFFFF, 5: BASE >> 32}, lds=bytes(512), buffers=[buffer_of(DATA, BASE)],
    )  # fmt: skip
    expected = DATA[(31 - lanes) * 2 + 2]
    assert np.array_equal(state.u32[8, 0], np.where(lanes == 26, 0, expected))
    assert not state.machine.troubles


# ---------------------------------------------------------------------- loads that transpose


@pytest.mark.parametrize(
    ("name", "bits", "registers"),
    [("ds_read_b64_tr_b16", 16, 2), ("ds_read_b64_tr_b8", 8, 2), ("ds_read_b64_tr_b4", 4, 2),
     ("ds_read_b96_tr_b6", 6, 3)],
)  # fmt: skip
def test_gfx950_gives_lane_i_column_i(name: str, bits: int, registers: int) -> None:
    each = 4 * registers
    rng = np.random.default_rng(0)
    lds = rng.integers(0, 256, 64 * 16, dtype=np.uint8).astype(np.uint8)
    state = run_lines("gfx950", [f"{name} v[8:{7 + registers}], v1", WAIT], {1: LANES * 16},
                      lds=lds.tobytes())  # fmt: skip
    count = 8 * each // bits
    for group in range(4):
        bytes_of = [lds[(group * 16 + lane) * 16 :][:each].tobytes() for lane in range(16)]
        stream = [
            int.from_bytes(part, "little") >> (bits * k) & ((1 << bits) - 1)
            for part in bytes_of
            for k in range(count)
        ]
        for lane in range(16):
            column = [stream[16 * row + lane] for row in range(count)]
            expected = sum(value << (bits * k) for k, value in enumerate(column))
            words = state.u32[8 : 8 + registers, 0, group * 16 + lane]
            assert int.from_bytes(words.tobytes(), "little") == expected


def test_gfx1250_transposes_eight_by_eight() -> None:
    words = np.arange(32 * 8, dtype=np.uint16)
    state = run_lines("gfx1250", ["ds_load_tr16_b128 v[8:11], v1", WAIT12],
                      {1: np.arange(32) * 16}, lds=words.tobytes())  # fmt: skip
    rows = np.ascontiguousarray(state.u32[8:12, 0].T).view(np.uint16)
    matrix = words.reshape(4, 8, 8)
    assert np.array_equal(rows, matrix.transpose(0, 2, 1).reshape(32, 8))
    small = np.arange(256, dtype=np.uint8)
    state = run_lines("gfx1250", ["ds_load_tr8_b64 v[8:9], v1", WAIT12],
                      {1: np.arange(32) * 8}, lds=small.tobytes())  # fmt: skip
    rows = np.ascontiguousarray(state.u32[8:10, 0].T).view(np.uint8)
    # Lanes 0 to 7 draw from lanes 0 to 3 and 8 to 11 (Triton's description of the instruction).
    assert rows[2].tolist() == [lane * 8 + 2 for lane in (0, 1, 2, 3, 8, 9, 10, 11)]
    assert rows[8].tolist() == [lane * 8 for lane in (4, 5, 6, 7, 12, 13, 14, 15)]


def test_transposing_needs_every_lane() -> None:
    with pytest.raises(NotCoveredError):
        run_lines("gfx950", ["ds_read_b64_tr_b16 v[8:9], v1", WAIT], {1: 0}, active=1,
                  lds=bytes(64))  # fmt: skip


# ---------------------------------------------------------------------- scalar memory


def scalars(
    arch: str, lines: Sequence[str], sgprs: Mapping[int, Any], kinds: tuple[str, ...] = ()
) -> list[int]:
    wait = WAIT12 if arch.startswith("gfx12") else "s_waitcnt lgkmcnt(0)"
    state = run_lines(arch, [*lines, wait], {}, sgprs, buffers=[buffer_of(DATA, BASE)])
    assert tuple(kind for kind, _ in state.machine.troubles) == kinds
    return [int(word) for word in state.scalar[20:24, 0]]


def test_scalar_loads() -> None:
    start = {2: (BASE + 64) & 0xFFFFFFFF, 3: BASE >> 32, 8: 9}
    got = scalars("gfx942", ["s_load_dwordx2 s[20:21], s[2:3], -0x10",
                             "s_load_dwordx2 s[22:23], s[2:3], s8 offset:0x10"], start,
                  ("misaligned",))  # fmt: skip
    # An offset of 9 bytes counts as 8.
    assert got == [*DATA[12:14], *DATA[22:24]]
    got = scalars("gfx1201", ["s_load_u8 s20, s[2:3], 0x1", "s_load_i16 s21, s[2:3], 0x2fe"], start)
    assert got[:2] == [17, 0xFFFFD0D0]  # the bytes of DATA[16], the upper half of DATA[207]


def test_scalar_loads_through_a_buffer_stop_at_its_end() -> None:
    sgprs = {4: BASE & 0xFFFFFFFF, 5: BASE >> 32, 6: 12, 7: 0x27000, 8: 4}
    got = scalars("gfx942", ["s_buffer_load_dwordx4 s[20:23], s[4:7], s8"], sgprs)
    assert got == [DATA[1], DATA[2], 0, 0]


def test_scalar_stores_and_atomics() -> None:
    buffer = buffer_of(np.arange(8, dtype=np.uint32), BASE)
    state = run_lines(
        "gfx90a",
        ["s_store_dwordx2 s[8:9], s[2:3], 0x10", "s_atomic_add s10, s[2:3], 0x4 glc",
         "s_waitcnt lgkmcnt(0)"],
        {}, {2: BASE & 0xFFFFFFFF, 3: BASE >> 32, 8: 77, 9: 78, 10: 5}, buffers=[buffer], waves=3,
    )  # fmt: skip
    assert held(buffer).tolist() == [0, 16, 2, 3, 77, 78, 6, 7]
    assert state.scalar[10].tolist() == [1, 6, 11]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_loads_issued_with_and_without_idle_lanes_meet(order: tuple[int, int]) -> None:
    """Waves that issued a load apart, one with idle lanes, meet before the wait."""
    code = code_of("gfx942", ["global_load_dword v1, v2, s[2:3]", WAIT])
    load_step, wait_step = (step for _, step, _ in code.blocks[0].steps)
    machine = MachineState(GlobalMemory([buffer_of(DATA, BASE)]))
    zero = np.zeros(1, np.int64)
    groups = []
    for number, lanes in enumerate((LANES >= 0, LANES == 0)):
        waves = Waves.new(8, 64, WaveIds(zero + number, zero, zero), machine)
        waves.set_pair(2, np.array([BASE], np.uint64))
        waves.u32[1], waves.u32[2] = 7, LANES * 4
        waves.set_mask(EXEC, lanes[None])
        load_step(waves)
        groups.append(waves)
    state = Waves.join([groups[number] for number in order])
    wait_step(state)
    assert state.u32[1, 0].tolist() == DATA[:64].tolist()
    assert state.u32[1, 1].tolist() == [DATA[0], *[7] * 63]
