"""What changes would save, against kernels that lack the cost from the start."""

from __future__ import annotations

from typing import get_args

import pytest
from kinspect.inspector.explain import time_view
from kinspect.inspector.machines.loader import load
from kinspect.inspector.model.time import CostGone
from kinspect.inspector.timing.device import device_of
from kinspect.inspector.timing.savings import savings
from kinspect.inspector.timing.timed import Timing, timed, traced

from .test_timing_launches import STRIDED, launched

CUS = 304
"""Compute units of an MI300X."""
_COPY = """  s_load_dwordx2 s[4:5], s[0:1], 0x0
  s_lshl_b32 s7, s2, SHIFT
  v_lshlrev_b32 v1, WIDTH, v0
  v_add_u32 v1, s7, v1
  s_waitcnt lgkmcnt(0)
  global_loadX v[4:REG], v1, s[4:5]
  s_waitcnt vmcnt(0)
  global_storeX v1, v[4:REG], s[4:5]
"""
_HEAD = STRIDED[: STRIDED.index("  s_load_dwordx2")]
_TAIL = STRIDED[STRIDED.index("  s_endpgm") :].replace("next_free_vgpr 8", "next_free_vgpr 64")
_PIPED = """  global_load_dword v2, v1, s[4:5]
.Lloop:
  v_add_u32 v1, 0x400, v1
  global_load_dword v5, v1, s[4:5]
  s_waitcnt vmcnt(1)
  v_add_f32 v3, v3, v2
  v_add_u32 v1, 0x400, v1
  global_load_dword v2, v1, s[4:5]
  s_waitcnt vmcnt(1)
  v_add_f32 v3, v3, v5
"""
_SPILL = """  scratch_store_dword off, v3, off offset:4
  scratch_load_dword v4, off, off offset:4
  s_waitcnt vmcnt(0)
"""
_PRODUCTS = """  v_lshlrev_b32 v1, 3, v0
  v_and_b32 v1, MASK, v1
  s_movk_i32 s6, 0x64
.Lloop:
  ds_read_b64 v[2:3], v1
  s_waitcnt lgkmcnt(0)
  v_mfma_f32_32x32x8_f16 v[16:31], v[2:3], v[2:3], 0
  s_sub_u32 s6, s6, 1
  s_cmp_lg_u32 s6, 0
  s_cbranch_scc1 .Lloop
"""


def made(
    text: str, arguments: str, grid: int, threads: int = 64, resident: int = 1, lds: int = 0
) -> Timing:
    machine = load("gfx942")
    device = device_of(machine)
    assert device is not None
    emulator, launch, buffers = launched(text, arguments, (grid, 1, 1), threads, lds)
    return traced(emulator, machine, device, launch, buffers, resident)


def saved(timing: Timing, change: CostGone) -> float:
    """Cycles that are left, as `savings` has it."""
    now = timed(timing)
    (us,) = [saving.us for saving in savings(timing, now) if saving.change == change] or [now.us]
    return (us - timing.rates.launch_us) * now.mhz


def strided(trips: int, grid: int, resident: int = 1) -> Timing:
    return made(STRIDED, f"f32[{1 << 24}]=zeros, i32 {trips}", grid, resident=resident)


def test_every_change_has_words() -> None:
    assert sorted(get_args(CostGone)) == sorted(time_view._CHANGES)


def test_loads_that_are_begun_earlier_wait_half_as_long() -> None:
    """One wave that waits for a load in each iteration has two under way instead of one."""
    timing = strided(300, CUS)
    assert saved(timing, "earlier loads") == pytest.approx(timed(timing).cycles / 2, rel=0.07)


def piped() -> str:
    """A loop of two loads, of which each is waited for behind the other."""
    loop = STRIDED[STRIDED.index(".Lloop:") : STRIDED.index("  s_sub_u32")]
    rest = STRIDED[STRIDED.index("  s_waitcnt vmcnt(0)") : STRIDED.index("  s_cbranch_scc1")]
    return STRIDED.replace(rest, "").replace(loop, _PIPED)


def test_without_scratch_a_kernel_takes_what_it_takes_without_spills() -> None:
    """The wait for the spilled value waits for the load before it as well."""
    spilling = piped().replace("  s_waitcnt vmcnt(1)\n", _SPILL)
    spilling = spilling.replace(
        "  .amdhsa_kernarg", "  .amdhsa_private_segment_fixed_size 16\n  .amdhsa_kernarg"
    )
    arguments = f"f32[{1 << 24}]=zeros, i32 100"
    without, spilled = made(piped(), arguments, CUS), made(spilling, arguments, CUS)
    assert timed(spilled).cycles > 1.3 * timed(without).cycles
    assert saved(spilled, "scratch") == pytest.approx(timed(without).cycles, rel=0.02)


def test_without_the_lds_waits_for_memory_stay() -> None:
    read = "  ds_read_b32 v6, v0\n  s_waitcnt lgkmcnt(0)\n" * 40
    reading = piped().replace(".Lloop:\n", f".Lloop:\n{read}")
    arguments = f"f32[{1 << 24}]=zeros, i32 100"
    without, with_reads = made(piped(), arguments, CUS), made(reading, arguments, CUS, lds=1024)
    assert timed(with_reads).cycles > 1.3 * timed(without).cycles
    left = saved(with_reads, "lds")
    assert left == pytest.approx(timed(without).cycles, rel=0.25)  # the waits still issue


def copy(bytes_of_lane: int, grid: int) -> Timing:
    shift = bytes_of_lane.bit_length() - 1
    suffix = {4: "_dword", 16: "_dwordx4"}[bytes_of_lane]
    code = _COPY.replace("SHIFT", str(shift + 6)).replace("WIDTH", str(shift))
    code = code.replace("X v", f"{suffix} v").replace("[4:REG]", f"[4:{3 + bytes_of_lane // 4}]")
    code = code.replace("v[4:4]", "v4")
    return made(f"{_HEAD}{code}{_TAIL}", f"f32[{1 << 22}]=zeros, i32 1", grid, resident=4)


def test_wide_accesses_are_those_of_the_kernel_that_has_them() -> None:
    narrow, wide = copy(4, 64 * CUS), copy(16, 16 * CUS)
    assert timed(narrow).cycles > 1.05 * timed(wide).cycles
    assert saved(narrow, "wide accesses") == pytest.approx(timed(wide).cycles, rel=0.03)
    assert saved(wide, "wide accesses") == pytest.approx(timed(wide).cycles)


@pytest.mark.parametrize("trips", [8, 200])
def test_even_workgroups_are_a_grid_of_all_units_with_shorter_loops(trips: int) -> None:
    half, whole = strided(trips, CUS // 2), strided(trips // 2, CUS)
    assert saved(half, "workgroups") == pytest.approx(timed(whole).cycles, rel=0.02)
    assert saved(whole, "workgroups") == pytest.approx(timed(whole).cycles)


@pytest.mark.parametrize(("address", "is_gather"), [("v2", True), ("v1", False)])
def test_lines_of_loaded_addresses_stay(address: str, is_gather: bool) -> None:
    """Lanes that are 512 bytes apart, by what they loaded or by their own number."""
    gather = f"  v_lshlrev_b32 v4, 7, {address}\n  global_load_dword v5, v4, s[4:5]\n"
    text = STRIDED.replace("  v_add_f32 v3, v3, v2\n", f"{gather}  s_waitcnt vmcnt(0)\n")
    timing = made(text, f"i32[{1 << 24}]=arange, i32 20", CUS)
    left = saved(timing, "lines")
    assert left == pytest.approx(timed(timing).cycles) if is_gather else left < timed(timing).cycles


def test_twice_the_waves_share_the_work_where_the_grid_has_no_more() -> None:
    one, two = strided(200, CUS), strided(100, 2 * CUS, resident=2)
    assert saved(one, "occupancy") == pytest.approx(timed(two).cycles, rel=0.05)


def test_twice_the_waves_where_the_grid_has_more() -> None:
    """Which lines others touched before is taken from the launch as it is."""
    few, many = strided(20, 8 * CUS, resident=1), strided(20, 8 * CUS, resident=2)
    assert saved(few, "occupancy") == pytest.approx(timed(many).cycles, rel=0.15)


@pytest.mark.parametrize(("mask", "waves"), [("0x1f8", 1), ("0x3f8", 2), ("0xff8", 8)])
def test_products_of_other_waves_are_gone(mask: str, waves: int) -> None:
    """Eight waves of which so many are unlike: two share a matrix unit."""
    text = f"{_HEAD}{_PRODUCTS.replace('MASK', mask)}{_TAIL}"
    timing = made(text, "f32[64]=zeros, i32 1", CUS, threads=512, lds=8192)
    now = timed(timing)
    left = saved(timing, "repeated products")
    if waves == 8:
        assert left == pytest.approx(now.cycles)
    else:
        assert left < 0.9 * now.cycles
