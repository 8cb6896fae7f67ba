"""What a launch would take with one of its costs gone: the same model, without it.

Each change is one of the traces, costs, rates or placement; the changed launch is simulated again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from ..model.time import BOUNDS, CostGone, Saving
from .changed_accesses import APART, with_fewest_lines, with_wide_accesses, without_conflicts
from .changed_code import with_earlier_loads, without_sites
from .costs import BARRIER, LDS, LOAD, MATRIX, STORE, VECTOR, Cost
from .reduced import without
from .repeated_products import without_repeated_products
from .timed import LaunchTime, Timing, timed
from .wave_traces import WaveTrace

_LEAST: Final = 0.5
"""Percent below which a saving is none."""
_UNLIMITED: Final = 1e18
_Apply = Callable[[Timing], Timing | None]


def savings(timing: Timing, now: LaunchTime, *, bounds: bool = True) -> tuple[Saving, ...]:
    """What each change would save, the most first; bounds come behind the others.

    `bounds`: whether those that no change of the code makes are told too.
    """
    found: list[tuple[CostGone, float]] = []
    for change, apply in _CHANGES.items():
        if change in BOUNDS and not bounds:
            continue
        changed = apply(timing)
        if changed is not None:
            found.append((change, timed(changed).us))
    if bounds:
        found.append(("launch", now.us - timing.rates.launch_us))
    told = [
        Saving(change, round(us, 3), round(100 * (1 - us / now.us), 1))
        for change, us in found
        if 100 * (1 - us / now.us) >= _LEAST
    ]
    return tuple(sorted(told, key=lambda saving: (saving.change in BOUNDS, saving.us)))


def _without_kinds(*kinds: int) -> _Apply:
    return lambda timing: _without_those(timing, lambda cost: cost.kind in kinds)


def _without_scratch(timing: Timing) -> Timing | None:
    return _without_those(timing, lambda cost: cost.is_scratch)


def _without_those(timing: Timing, are_they: Callable[[Cost], bool]) -> Timing | None:
    sites = enumerate(timing.costs.sites)
    return without_sites(timing, frozenset(site for site, cost in sites if are_they(cost)))


def with_latency(timing: Timing, times: float) -> Timing:
    """The launch on memory that answers in some times the cycles."""
    rates = timing.rates
    shorter = replace(
        rates,
        l1_latency=rates.l1_latency * times,
        l2_latency=rates.l2_latency * times,
        l3_latency=rates.l3_latency * times,
        memory_latency=rates.memory_latency * times,
        store_latency=rates.store_latency * times,
        scalar_hit=rates.scalar_hit * times,
        scalar_miss=rates.scalar_miss * times,
    )
    return replace(timing, rates=shorter)


def _without_bandwidth(timing: Timing) -> Timing:
    rates = replace(
        timing.rates, l2_bytes_per_s=_UNLIMITED, memory_share=_UNLIMITED,
        l3_bytes_per_s=None if timing.rates.l3_bytes_per_s is None else _UNLIMITED,
        cu_l2_bytes_per_clk=_UNLIMITED, cu_memory_bytes_per_clk=_UNLIMITED,
        l1_bytes_in_flight=None,
    )  # fmt: skip
    return replace(timing, rates=rates)


def with_more_waves(timing: Timing, times: float = 2.0) -> Timing | None:
    """More workgroups at a time; where the grid has none, each of twice as many does half."""
    placement = timing.placement
    if placement.busiest > placement.resident:
        resident = max(placement.resident + 1, round(times * placement.resident))
        return replace(timing, placement=replace(placement, resident=resident))
    twice = replace(placement, resident=2 * placement.resident)
    halves = _with_part(timing.workgroups, 0.5)
    if halves is None:
        return None
    others = [
        [
            replace(
                wave,
                accesses={
                    at: replace(access, lines=tuple(number + APART for number in access.lines))
                    for at, access in wave.accesses.items()
                },
            )
            for wave in waves
        ]
        for waves in halves
    ]
    return replace(
        timing,
        workgroups=[*halves, *others],
        workgroups_in_grid=2 * timing.workgroups_in_grid,
        placement=replace(twice, busiest=2 * placement.busiest),
    )


def with_even_workgroups(timing: Timing) -> Timing | None:
    """All compute units have as much to do: loops are split among more workgroups."""
    placement = timing.placement
    share = timing.workgroups_in_grid / timing.device.cus / placement.busiest
    if share >= 1:
        return None
    even = replace(timing, placement=replace(placement, active=timing.device.cus))
    parts = _with_part(timing.workgroups, share)
    if parts is None:  # workgroups without loops: their time is taken to shrink evenly
        return replace(even, part=timing.part / share) if placement.busiest > 1 else None
    return replace(even, workgroups=parts)


def with_fewer_iterations(timing: Timing, part: float, loops: Container[str] = ()) -> Timing | None:
    """Without a part of the iterations of some outermost loops; None where they are in others.

    `loops`: ids of the loops; empty: all.
    """
    workgroups = _with_part(timing.workgroups, 1 - part, loops)
    if workgroups is None or workgroups == timing.workgroups:
        return None
    return replace(timing, workgroups=workgroups)


def _with_part(
    workgroups: Sequence[Sequence[WaveTrace]], part: float, loops: Container[str] = ()
) -> list[list[WaveTrace]] | None:
    """Workgroups that do a part of the iterations of their outermost loops; None without loops."""
    if not any(wave.trips for waves in workgroups for wave in waves):
        return None
    return [[_part_of(wave, part, loops) for wave in waves] for waves in workgroups]


def _part_of(wave: WaveTrace, part: float, loops: Container[str]) -> WaveTrace:
    outermost = [
        span
        for span in wave.spans
        if (not loops or span[0] in loops)
        and not any(
            loop != span[0] and begin <= span[1] and span[2] <= end
            for loop, begin, end in wave.spans
        )
    ]
    ranges: list[tuple[int, int]] = []
    fewer = {
        name
        for name, begin, end in wave.spans
        if any(first <= begin and end <= last for _, first, last in outermost)
    }
    for loop in dict.fromkeys(loop for loop, _, _ in outermost):
        kept, in_all = wave.trips[loop]
        more = kept - max(1, round(in_all * part))
        if more > 0:
            ranges += [(begin, end) for name, begin, end in outermost if name == loop][-more:]
    short = without(wave, sorted(ranges)) if ranges else wave
    counts: defaultdict[str, int] = defaultdict(int)
    for loop, _, _ in short.spans:
        counts[loop] += 1
    trips = {
        loop: (counts[loop], max(counts[loop], round(in_all * (part if loop in fewer else 1))))
        for loop, (_, in_all) in wave.trips.items()
        if counts[loop]
    }
    return replace(short, trips=trips)


_CHANGES: Final[Mapping[CostGone, _Apply]] = {
    "scratch": _without_scratch,
    "lines": with_fewest_lines,
    "conflicts": without_conflicts,
    "wide accesses": with_wide_accesses,
    "earlier loads": with_earlier_loads,
    "repeated products": without_repeated_products,
    "occupancy": with_more_waves,
    "workgroups": with_even_workgroups,
    "memory latency": lambda timing: with_latency(timing, 0.0),
    "memory bandwidth": _without_bandwidth,
    "memory": _without_kinds(LOAD, STORE),
    "lds": _without_kinds(LDS),
    "barriers": _without_kinds(BARRIER),
    "vector work": _without_kinds(VECTOR),
    "matrix work": _without_kinds(MATRIX),
}
