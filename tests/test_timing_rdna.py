"""RDNA 3 in the simulated compute unit: schedules that are worked out by hand."""

from __future__ import annotations

import pytest
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.machines.loader import load
from kinspect.inspector.machines.rates import rates_of
from kinspect.inspector.model.machine import Rates
from kinspect.inspector.timing.costs import CuTime, Sharing, costs_of
from kinspect.inspector.timing.cu import ComputeUnit
from kinspect.inspector.timing.device import Device, device_of, shares_of
from kinspect.inspector.timing.wave_traces import Access, WaveTrace
from msgspec.structs import replace

MACHINE = load("gfx1100")
VALU, TRANSCENDENTAL, SALU = 5, 10, 2
"""Clocks until a result can be read (LLVM's SISchedule)."""


def rates() -> Rates:
    known = rates_of("gfx1100")
    assert known is not None
    return replace(known, icache_miss=0.0, workgroup_start=0.0)


def device(name: str = "RX 7900 XTX") -> Device:
    known = device_of(MACHINE, name)
    assert known is not None
    return known


def simulated(
    code: str, waves: int = 1, accesses: dict[int, Access] | None = None, *, wgp: bool = False
) -> CuTime:
    """Waves of one workgroup that all execute every instruction once."""
    head = '.amdgcn_target "amdgcn-amd-amdhsa--gfx1100"\n.text\n.globl k\nk:\n'
    tail = ".rodata\n.amdhsa_kernel k\n.amdhsa_wavefront_size32 1\n.amdhsa_next_free_vgpr 16\n"
    tail += ".amdhsa_next_free_sgpr 16\n.end_amdhsa_kernel\n"
    text = f"{head}{code}\n.Lend:\n.size k, .Lend-k\n.section {tail}"
    costs = costs_of(parse_text(text, "k.s").functions[0], MACHINE, rates())
    sites = range(len(costs.sites))
    wave = WaveTrace(list(sites), accesses or {}, {}, [])
    unit = device().in_wgps() if wgp else device()
    shares = shares_of(MACHINE, rates(), unit, unit.cus, tuple(MACHINE.counters.values()))
    sharing = Sharing(*[dict.fromkeys(sites, 0.0)] * 2, {})
    return ComputeUnit(costs, rates(), shares, sharing).run([[wave] * waves], 1)


def test_a_result_is_there_after_five_clocks() -> None:
    dependent = simulated("v_add_f32 v0, v0, v1\n" * 10 + "s_endpgm")
    apart = simulated("".join(f"v_add_f32 v{n}, v10, v11\n" for n in range(10)) + "s_endpgm")
    assert dependent.cycles == 9 * VALU + 1 + 1
    assert apart.cycles == 10 + 1


@pytest.mark.parametrize(
    "code",
    [
        "v_add_f64 v[{d}:{e}], v[12:13], v[14:15]",
        "v_fma_f64 v[{d}:{e}], v[12:13], v[14:15], v[12:13]",
        "v_cvt_f64_f32_e32 v[{d}:{e}], v12",
        "v_cvt_f32_f64_e32 v{d}, v[12:13]",
        "v_cmp_gt_f64_e32 vcc_lo, v[12:13], v[14:15]",
    ],
)
def test_a_simd_does_two_lanes_of_float64_a_clock(code: str) -> None:
    """32 lanes in 16 clocks: 1.92 TFLOP/s of 192 SIMDs at 2.5 GHz."""
    lines = [code.format(d=2 * (n % 5), e=2 * (n % 5) + 1) + "\n" for n in range(100)]
    time = simulated("".join(lines) + "s_endpgm", waves=20)
    assert time.cycles == pytest.approx(10 * 100 * 16, rel=0.01)


def test_five_waves_hide_the_latency_of_a_simd() -> None:
    """Two SIMDs: ten waves are five on each, which fill its five clocks."""
    time = simulated("v_add_f32 v0, v0, v1\n" * 100 + "s_endpgm", waves=10)
    assert time.cycles == pytest.approx(500, abs=10)


def test_two_operations_issue_in_one_clock() -> None:
    dual = "v_dual_fmac_f32 v0, v2, v3 :: v_dual_fmac_f32 v1, v4, v5\n"
    single = "v_fmac_f32 v0, v2, v3\nv_fmac_f32 v1, v4, v5\n"
    waves = 20
    assert simulated(dual * 50 + "s_endpgm", waves).busy[0] == 50 * waves
    assert simulated(single * 50 + "s_endpgm", waves).busy[0] == 100 * waves


def test_transcendentals_have_a_quarter_of_the_rate_and_a_latency_of_ten() -> None:
    code = "v_exp_f32 v0, v1\nv_exp_f32 v2, v3\nv_add_f32 v4, v2, v2\ns_endpgm"
    assert simulated(code).cycles == 4 + TRANSCENDENTAL + 2


def test_a_scalar_result_is_there_after_two_clocks() -> None:
    time = simulated("s_add_u32 s0, s0, s1\n" * 4 + "s_endpgm")
    assert time.cycles == 3 * SALU + 2


def test_a_pair_of_compute_units_has_two_arrays_of_lds() -> None:
    code = "ds_load_b32 v0, v1\n" * 20 + "s_waitcnt lgkmcnt(0)\ns_endpgm"
    accesses = {n: Access(cycles=8, least=1) for n in range(20)}
    in_cu = simulated(code, waves=8, accesses=accesses)
    in_wgp = simulated(code, waves=8, accesses=accesses, wgp=True)
    assert in_cu.busy[2] == 8 * 20 * 8
    assert in_wgp.busy[2] == in_cu.busy[2] / 2
    assert in_wgp.cycles == pytest.approx(in_cu.cycles / 2, rel=0.1)


def test_stores_and_loads_have_counters_of_their_own() -> None:
    """A wait for loads does not wait for the store before them."""
    accesses = {0: Access((1,), 128), 1: Access((9,), 128)}
    code = "global_store_b32 v1, v0, s[0:1]\nglobal_load_b32 v2, v1, s[2:3]\n{}\ns_endpgm"
    loads = simulated(code.format("s_waitcnt vmcnt(0)"), accesses=accesses)
    stores = simulated(code.format("s_waitcnt_vscnt null, 0x0"), accesses=accesses)
    line = 128 / (rates().l2_bytes_per_s / 2.5e9 / 96)
    assert loads.stalls[2][5] == pytest.approx(2 * line + rates().l2_latency - 1, abs=2)
    assert stores.stalls[2][5] == pytest.approx(line + rates().store_latency - 2, abs=2)


def test_bytes_wider_than_a_dword_go_eight_lanes_a_clock() -> None:
    narrow, wide = (
        simulated(f"global_load_{kind}, v9, s[0:1]\n" * 8 + "s_endpgm", accesses={})
        for kind in ("b32 v0", "b64 v[0:1]")
    )
    assert narrow.busy[3] == 8
    assert wide.busy[3] == 8 * 32 / 8


def test_the_cache_of_a_product_has_its_slices() -> None:
    """PRO W7800 has four of the six dies with memory channels and cache of RX 7900 XTX."""
    counters = tuple(MACHINE.counters.values())
    whole, part = (
        shares_of(MACHINE, rates(), replace(device(name), mhz=2500.0), 70, counters)
        for name in ("RX 7900 XTX", "W7800")
    )
    assert whole.l3 is not None
    assert part.l3 is not None
    assert part.l3 / whole.l3 == pytest.approx(64 / 96, rel=0.1)
