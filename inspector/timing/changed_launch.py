"""Launches with other memory, more or fewer workgroups at a time, or fewer iterations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from typing import Final

from msgspec.structs import replace

from .changed_accesses import APART
from .gone_sites import loop_of_site
from .reduced import without
from .timed import Timing
from .wave_traces import WaveTrace

_UNLIMITED: Final = 1e18
"""Bytes per second or clock of memory that never limits."""


def with_latency(timing: Timing, times: float) -> Timing:
    """The launch on memory whose latencies are some times as long."""
    rates = timing.rates
    scaled = replace(
        rates,
        l1_latency=rates.l1_latency * times,
        l2_latency=rates.l2_latency * times,
        l3_latency=rates.l3_latency * times,
        memory_latency=rates.memory_latency * times,
        store_latency=rates.store_latency * times,
        scalar_hit=rates.scalar_hit * times,
        scalar_miss=rates.scalar_miss * times,
    )
    return replace(timing, rates=scaled)


def without_bandwidth(timing: Timing) -> Timing:
    """The launch on memory and caches that never limit."""
    rates = replace(
        timing.rates, l2_bytes_per_s=_UNLIMITED, memory_share=_UNLIMITED,
        l3_bytes_per_s=None if timing.rates.l3_bytes_per_s is None else _UNLIMITED,
        cu_l2_bytes_per_clk=_UNLIMITED, cu_memory_bytes_per_clk=_UNLIMITED,
        l1_bytes_in_flight=None,
    )  # fmt: skip
    return replace(timing, rates=rates)


def with_more_resident(timing: Timing, times: float) -> Timing | None:
    """Some times as many workgroups at a time; None where none of the grid waits for others."""
    placement = timing.placement
    if placement.busiest <= placement.resident:
        return None
    resident = max(placement.resident + 1, round(times * placement.resident))
    return replace(timing, placement=replace(placement, resident=resident))


def with_halved_workgroups(timing: Timing) -> Timing | None:
    """Twice the workgroups, each with half of the iterations; None where there are no loops."""
    placement, halves = timing.placement, _with_part(timing.workgroups, 0.5)
    if halves is None:
        return None
    others = [[_elsewhere(wave) for wave in waves] for waves in halves]
    # Each half runs the code outside of loops, but only half of the iterations.
    in_loops = loop_of_site(timing.function)
    return replace(
        timing,
        workgroups=[*halves, *others],
        workgroups_in_grid=2 * timing.workgroups_in_grid,
        placement=replace(
            placement, resident=2 * placement.resident, busiest=2 * placement.busiest
        ),
        queued={
            site: count if site in in_loops else 2 * count for site, count in timing.queued.items()
        },
    )


def _elsewhere(wave: WaveTrace) -> WaveTrace:
    """A wave whose accesses come to lines of their own."""
    accesses = {
        at: replace(access, lines=tuple(number + APART for number in access.lines))
        for at, access in wave.accesses.items()
    }
    return replace(wave, accesses=accesses)


def with_even_workgroups(timing: Timing) -> Timing | None:
    """All compute units have the same amount to do: loops are split among more workgroups."""
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
    workgroups: Sequence[Sequence[WaveTrace]], left: float, loops: Container[str] = ()
) -> list[list[WaveTrace]] | None:
    """Workgroups that do what is left of the iterations of outermost loops; None without loops."""
    if not any(wave.trips for waves in workgroups for wave in waves):
        return None
    return [[_shortened(wave, left, loops) for wave in waves] for waves in workgroups]


def _shortened(wave: WaveTrace, left: float, loops: Container[str]) -> WaveTrace:
    """A wave that does a part of the iterations of its outermost loops, the first of each."""
    outermost = _outermost(wave.spans, loops)
    nested = {
        loop
        for loop, begin, end in wave.spans
        if any(first <= begin and end <= last for _, first, last in outermost)
    }
    ranges: list[tuple[int, int]] = []
    for loop in dict.fromkeys(loop for loop, _, _ in outermost):
        traced, in_all = wave.trips[loop]
        excess = traced - max(1, round(in_all * left))
        if excess > 0:
            ranges += [(begin, end) for name, begin, end in outermost if name == loop][-excess:]
    short = without(wave, sorted(ranges)) if ranges else wave
    counts = Counter(loop for loop, _, _ in short.spans)
    trips = {
        loop: (counts[loop], max(counts[loop], round(in_all * (left if loop in nested else 1))))
        for loop, (_, in_all) in wave.trips.items()
        if counts[loop]
    }
    return replace(short, trips=trips)


def _outermost(
    spans: Sequence[tuple[str, int, int]], loops: Container[str]
) -> list[tuple[str, int, int]]:
    """Those of some loops' iterations that are in no other loop's."""
    return [
        (loop, begin, end)
        for loop, begin, end in spans
        if (not loops or loop in loops)
        and not any(
            other != loop and first <= begin and end <= last for other, first, last in spans
        )
    ]
