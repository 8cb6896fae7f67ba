"""The simulated compute unit against schedules that are worked out by hand."""

from __future__ import annotations

import pytest
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.machines.loader import load
from kinspect.inspector.machines.rates import rates_of
from kinspect.inspector.model.machine import Rates
from kinspect.inspector.timing.costs import REASONS, Costs, CuTime, Shares, Sharing, costs_of
from kinspect.inspector.timing.cu import ComputeUnit
from kinspect.inspector.timing.device import device_of, shares_of
from kinspect.inspector.timing.wave_traces import Access, WaveTrace
from msgspec.structs import replace

ISSUE = 4
"""Clocks from one instruction of a wave to its next (CDNA)."""


def rates() -> Rates:
    known = rates_of("gfx942")
    assert known is not None
    return replace(known, icache_miss=0.0, workgroup_start=0.0)


def costs(code: str) -> Costs:
    head = '.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n.text\n.globl k\nk:\n'
    function = parse_text(f"{head}{code}\n.Lend:\n.size k, .Lend-k\n", "k.s").functions[0]
    return costs_of(function, load("gfx942"), rates())


def shares() -> Shares:
    machine = load("gfx942")
    device = device_of(machine)
    assert device is not None
    return shares_of(machine, rates(), device, device.cus, tuple(machine.counters.values()))


def simulated(
    code: str,
    waves: int = 1,
    workgroups: int = 1,
    resident: int = 1,
    accesses: dict[int, Access] | None = None,
    fresh: float = 0.0,
) -> CuTime:
    """Waves that all execute every instruction once."""
    known = costs(code)
    sites = range(len(known.sites))
    wave = WaveTrace(list(sites), accesses or {}, {}, [])
    sharing = Sharing(*[dict.fromkeys(sites, fresh)] * 2, {})
    unit = ComputeUnit(known, rates(), shares(), sharing)
    return unit.run([[wave] * waves] * workgroups, resident)


def waited(time: CuTime, site: int) -> dict[str, float]:
    row = time.stalls.get(site, [0.0] * len(REASONS))
    return {reason: cycles for reason, cycles in zip(REASONS, row, strict=True) if cycles}


def test_a_wave_issues_every_fourth_clock() -> None:
    dependent = "v_add_f32 v0, v0, v1\n" * 10
    assert simulated(f"{dependent}s_endpgm").cycles == 11 * ISSUE


@pytest.mark.parametrize(("waves", "rounds"), [(4, 1), (5, 2), (8, 2), (9, 3)])
def test_waves_share_the_vector_units_of_four_simds(waves: int, rounds: int) -> None:
    code = "v_add_f32 v0, v0, v1\n" * 100 + "s_endpgm"
    time = simulated(code, waves=waves)
    assert time.cycles == pytest.approx(100 * ISSUE * rounds, abs=4 * ISSUE)
    assert time.busy[0] == waves * 100 * ISSUE


def test_matrix_products_follow_at_their_passes_and_forward_their_sum() -> None:
    product = "v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]\n"
    time = simulated(product * 4 + "s_endpgm")
    assert waited(time, 1) == {"matrix": 32 - ISSUE}
    assert time.cycles == 3 * 32 + 2 * ISSUE


def test_another_unit_waits_for_the_passes_and_the_result() -> None:
    code = """
    v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]
    v_add_f32 v20, v0, v1
    s_endpgm"""
    assert waited(simulated(code), 1) == {"matrix": 32 + 8 - ISSUE}


def test_quarter_rate_operations_take_sixteen_clocks() -> None:
    time = simulated("v_exp_f32 v0, v1\nv_exp_f32 v2, v3\nv_mul_lo_u32 v4, v5, v6\ns_endpgm")
    assert waited(time, 1) == {"vector": 12}
    assert waited(time, 2) == {"vector": 12}


def test_a_load_is_waited_for_where_the_wait_stands_and_blamed_on_the_load() -> None:
    code = "global_load_dword v0, v1, s[0:1]\ns_waitcnt vmcnt(0)\nv_add_f32 v2, v0, v0\ns_endpgm"
    near = simulated(code, accesses={0: Access((7, 8), 256)})
    known = rates()
    lookup = 256 / known.l1_data_bytes_per_clk
    arrival = lookup + known.l1_latency
    from_l2 = 2 * shares().line / shares().l2 + known.l2_latency
    assert sum(waited(near, 1).values()) == pytest.approx(max(arrival, from_l2) - ISSUE)
    assert near.blamed[0] == near.stalls[1]
    far = simulated(code, accesses={0: Access((7, 8), 256)}, fresh=1.0)
    from_memory = 2 * shares().line / shares().memory + known.memory_latency
    assert waited(far, 1) == {"memory": pytest.approx(from_memory - ISSUE)}


def test_a_line_that_is_in_the_cache_comes_from_there() -> None:
    load_and_wait = "global_load_dword v0, v1, s[0:1]\ns_waitcnt vmcnt(0)\n"
    access = Access((7, 8), 256)
    time = simulated(f"{load_and_wait * 2}s_endpgm", accesses={0: access, 2: access})
    assert sum(waited(time, 3).values()) == 256 / rates().l1_data_bytes_per_clk + 116 - ISSUE


def test_waits_for_the_older_ones_let_the_younger_go_on() -> None:
    loads = "global_load_dword v0, v1, s[0:1]\nglobal_load_dword v2, v1, s[0:1] offset:4\n"
    accesses = {0: Access((1,), 256), 1: Access((900,), 256)}
    one = simulated(f"{loads}s_waitcnt vmcnt(1)\ns_endpgm", accesses=accesses)
    both = simulated(f"{loads}s_waitcnt vmcnt(0)\ns_endpgm", accesses=accesses)
    assert sum(waited(one, 2).values()) < sum(waited(both, 2).values())


def test_bandwidth_limits_many_loads() -> None:
    """A thousand lines of memory take what the compute unit's share of it allows."""
    code = "global_load_dwordx4 v[0:3], v4, s[0:1]\n" * 25 + "s_waitcnt vmcnt(0)\ns_endpgm"
    accesses = {n: Access(tuple(range(8 * n, 8 * n + 8)), 1024) for n in range(25)}
    known = costs(code)
    sites = range(len(known.sites))
    sharing = Sharing(*[dict.fromkeys(sites, 1.0)] * 2, {})
    waves = [
        WaveTrace(
            list(sites),
            {
                n: Access(tuple(1000 * w + line for line in a.lines), 1024)
                for n, a in accesses.items()
            },
            {},
            [],
        )
        for w in range(5)
    ]
    time = ComputeUnit(known, rates(), shares(), sharing).run([waves], 1)
    least = 1000 * shares().line / shares().memory
    assert least < time.cycles < least + 2 * rates().memory_latency
    assert time.busy[6] == pytest.approx(least)


@pytest.mark.parametrize(("cycles", "least"), [(2, 2), (64, 2)])
def test_the_lds_serves_one_access_after_the_other(cycles: int, least: int) -> None:
    code = "ds_read_b32 v0, v1\n" * 20 + "s_waitcnt lgkmcnt(0)\ns_endpgm"
    accesses = {n: Access(cycles=cycles, least=least) for n in range(20)}
    time = simulated(code, waves=4, accesses=accesses)
    assert time.busy[2] == 80 * cycles
    assert time.cycles >= 80 * cycles
    assert time.cycles == pytest.approx(max(80 * cycles, 40 * ISSUE), abs=46 + 12 * cycles)


def test_two_simds_take_turns_at_their_port_to_the_lds() -> None:
    reads = "".join(f"ds_read_b64 v[{2 * n}:{2 * n + 1}], v100\n" for n in range(16))
    access = Access(cycles=4, least=4)
    time = simulated(f"{reads}s_endpgm", waves=2, accesses=dict.fromkeys(range(16), access))
    # 512 bytes pass in 8 clocks, so each of two waves issues one in 16 once the queue is full.
    assert [sum(waited(time, site).values()) for site in (10, 12, 14)] == [2 * (16 - ISSUE)] * 3


@pytest.mark.parametrize(("step", "is_full"), [(0, False), (64, True)])
def test_only_lines_that_miss_are_in_flight(step: int, is_full: bool) -> None:
    loads = "".join(f"global_load_dword v{n}, v[20:21], off\n" for n in range(8))
    lines = [tuple(range(n * step, n * step + 64)) for n in range(8)]
    accesses = {n: Access(of_it, 256) for n, of_it in enumerate(lines)}
    time = simulated(f"{loads}s_endpgm", accesses=accesses)
    assert any(waited(time, site) for site in range(8)) is is_full


def test_scalar_loads_from_the_arguments_share_lines() -> None:
    wait = "s_waitcnt lgkmcnt(0)\n"
    first = f"s_load_dwordx2 s[4:5], s[0:1], 0x0\n{wait}"
    same, next_line = "s_load_dword s6, s[0:1], 0x3c\n", "s_load_dwordx2 s[6:7], s[0:1], 0x3c\n"
    missed, hit = rates().scalar_miss - ISSUE, rates().scalar_hit - ISSUE
    for code, waits in [
        (same, hit),
        (next_line, missed),
        (f"s_mov_b32 s0, 0\n{same}", missed),
    ]:
        text = f"{first}{code}{wait}s_endpgm"
        site = text.count("\n") - 1
        assert waited(simulated(text), site) == {"scalar": waits}


def test_a_vector_result_is_waited_for_before_an_access() -> None:
    time = simulated("v_mov_b32 v1, 0\nds_read_b32 v0, v1\ns_endpgm", accesses={1: Access()})
    assert waited(time, 1) == {"dependency": 12 - ISSUE}


def test_the_last_wave_opens_the_barrier() -> None:
    """Five waves: one has to share a SIMD, the older one goes first, and all wait for the last."""
    code = "v_add_f32 v0, v0, v1\n" * 50 + "s_barrier\ns_endpgm"
    time = simulated(code, waves=5)
    assert waited(time, 50)["barrier"] == 4 * 50 * ISSUE


def test_workgroups_follow_one_another() -> None:
    code = "v_add_f32 v0, v0, v1\n" * 100 + "s_endpgm"
    apart = simulated(code, waves=1, workgroups=4, resident=1)
    assert apart.cycles == pytest.approx(4 * apart.ends[0], rel=0.01)
    together = simulated(code, waves=1, workgroups=4, resident=4)
    assert together.cycles == pytest.approx(apart.ends[0], rel=0.02)


def test_stores_are_waited_for_at_the_end() -> None:
    code = "global_store_dword v1, v0, s[0:1]\ns_endpgm"
    time = simulated(code, accesses={0: Access((1, 2), 256)})
    assert time.cycles > rates().store_latency


def test_registers_that_are_used_together_are_one_group() -> None:
    product = "v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]\n"
    known = costs(f"{product}v_mov_b32 v3, 0\ns_endpgm")
    assert len(known.sites[0].writes) == 2  # v3 and the fifteen others
    assert known.sites[1].writes[0] in known.sites[0].writes
