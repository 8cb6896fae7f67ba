"""What a launch would take with one of its costs gone: the same model, without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from ..model.time import Saving
from .costs import BARRIER, IDLE, LDS, LOAD, MATRIX, STORE, VECTOR, Cost, Costs
from .timed import LaunchTime, Timing, timed
from .wave_traces import Access

_LEAST: Final = 0.5
"""Percent below which a saving is none."""
_UNLIMITED: Final = 1e18


def savings(timing: Timing, now: LaunchTime) -> tuple[Saving, ...]:
    """What each change would save, the most first.

    Args:
        timing: of the launch.
        now: its time as it is.
    """
    found = []
    for change, apply in _CHANGES.items():
        changed = apply(timing)
        if changed is not None:
            found.append((change, timed(changed).us))
    rounds = now.cycles / timing.placement.busiest
    even = timing.workgroups_in_grid / timing.device.cus
    if even < timing.placement.busiest:
        found.append(("workgroups", now.us - rounds * (timing.placement.busiest - even) / now.mhz))
    found.append(("launch", now.us - timing.rates.launch_us))
    told = [
        Saving(change, round(us, 3), round(100 * (1 - us / now.us), 1))
        for change, us in found
        if 100 * (1 - us / now.us) >= _LEAST
    ]
    return tuple(sorted(told, key=lambda saving: saving.us))


def _with_costs(timing: Timing, change: Callable[[Cost], Cost]) -> Timing:
    costs = timing.costs
    sites = tuple(change(cost) for cost in costs.sites)
    if sites == costs.sites:
        return timing
    return replace(timing, costs=Costs(sites, costs.groups, costs.scalar_from, costs.counters))


def _gone(cost: Cost) -> Cost:
    """An instruction that takes no time."""
    return cost._replace(kind=IDLE, cycles=0.0, reads=(), writes=(), raises=(), waits=())


def _without(*kinds: int) -> Callable[[Timing], Timing | None]:
    def apply(timing: Timing) -> Timing | None:
        changed = _with_costs(timing, lambda cost: _gone(cost) if cost.kind in kinds else cost)
        return None if changed is timing else changed

    return apply


def _without_scratch(timing: Timing) -> Timing | None:
    changed = _with_costs(timing, lambda cost: _gone(cost) if cost.is_scratch else cost)
    return None if changed is timing else changed


def _with_accesses(timing: Timing, change: Callable[[Access], Access]) -> Timing | None:
    known: dict[int, Access] = {}

    def changed(access: Access) -> Access:
        made = known.get(id(access))
        if made is None:
            made = known[id(access)] = change(access)
        return made

    workgroups = [
        [
            replace(wave, accesses={at: changed(access) for at, access in wave.accesses.items()})
            for wave in waves
        ]
        for waves in timing.workgroups
    ]
    return replace(timing, workgroups=workgroups) if workgroups != timing.workgroups else None


def _without_conflicts(timing: Timing) -> Timing | None:
    return _with_accesses(timing, lambda access: replace(access, cycles=access.least))


def _with_fewest_lines(timing: Timing) -> Timing | None:
    line = timing.machine.cache_line_bytes or 64
    return _with_accesses(
        timing,
        lambda access: replace(access, lines=access.lines[: math.ceil(access.bytes / line)]),
    )


def _without_latency(timing: Timing) -> Timing:
    rates = replace(
        timing.rates, l1_latency=0.0, l2_latency=0.0, l3_latency=0.0, memory_latency=0.0,
        store_latency=0.0, scalar_hit=0.0, scalar_miss=0.0,
    )  # fmt: skip
    return replace(timing, rates=rates)


def _without_bandwidth(timing: Timing) -> Timing:
    rates = replace(
        timing.rates, l2_bytes_per_s=_UNLIMITED, memory_share=_UNLIMITED,
        l3_bytes_per_s=None if timing.rates.l3_bytes_per_s is None else _UNLIMITED,
        cu_l2_bytes_per_clk=_UNLIMITED, cu_memory_bytes_per_clk=_UNLIMITED,
        l1_bytes_in_flight=None,
    )  # fmt: skip
    return replace(timing, rates=rates)


def _with_more_waves(timing: Timing) -> Timing | None:
    placement = timing.placement
    if placement.busiest <= placement.resident:
        return None
    return replace(timing, placement=replace(placement, resident=2 * placement.resident))


_CHANGES: Final[Mapping[str, Callable[[Timing], Timing | None]]] = {
    "scratch": _without_scratch,
    "lines": _with_fewest_lines,
    "conflicts": _without_conflicts,
    "memory latency": _without_latency,
    "memory bandwidth": _without_bandwidth,
    "memory": _without(LOAD, STORE),
    "lds": _without(LDS),
    "barriers": _without(BARRIER),
    "vector work": _without(VECTOR),
    "matrix work": _without(MATRIX),
    "occupancy": _with_more_waves,
}
