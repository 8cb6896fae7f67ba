"""Launches with other memory, more or fewer workgroups at a time, or fewer iterations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Sequence
from typing import Final

from msgspec.structs import replace

from ..isa.graph.cfg import innermost_loops
from .changed_accesses import APART
from .reduced import without
from .timed import Timing
from .wave_traces import WaveTrace

_UNLIMITED: Final = 1e18
"""Bytes per second or clock of memory that never limits."""


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


def without_bandwidth(timing: Timing) -> Timing:
    """The launch on memory and caches that never limit."""
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
    in_loops = innermost_loops(timing.function)
    once = {
        site
        for block in timing.function.blocks
        if block.index not in in_loops
        for site in range(block.start, block.stop)
    }
    return replace(
        timing,
        workgroups=[*halves, *others],
        workgroups_in_grid=2 * timing.workgroups_in_grid,
        placement=replace(twice, busiest=2 * placement.busiest),
        queued={site: count * (2 if site in once else 1) for site, count in timing.queued.items()},
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
        traced, in_all = wave.trips[loop]
        excess = traced - max(1, round(in_all * part))
        if excess > 0:
            ranges += [(begin, end) for name, begin, end in outermost if name == loop][-excess:]
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
