"""Bank conflicts and cache lines: against brute force and published patterns."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from kinspect.inspector.emulator.access_figures import (
    TouchedBytes,
    conflict_cycles,
    lines_of_rows,
    lines_touched,
    phases_of,
    spans_of,
    spans_of_rows,
)

ALL = np.ones(64, bool)
LANES = np.arange(64)


def extra(arch: str, addresses: np.ndarray, size: int, *, writes: bool = False) -> int:
    lanes = len(addresses)
    phases = phases_of(arch, size, lanes, writes=writes)
    return conflict_cycles(phases, addresses, np.ones(lanes, bool), size)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_strides_of_dwords(arch: str) -> None:
    """32 banks, 32 lanes a phase: a stride of 2^n dwords meets in 2^n lanes (published tables)."""
    for power in range(6):
        expected = 2 * (2**power - 1)
        assert extra(arch, LANES * 4 * 2**power, 4) == expected
    assert extra(arch, LANES * 4 * 33, 4) == 0  # padded rows
    assert extra(arch, np.zeros(64, int), 4) == 0  # a broadcast


def test_rows_of_144_bytes() -> None:
    """A known trap: 16 rows by 4 columns of 16 bytes, which contiguous phases would call free."""
    assert extra("gfx942", LANES % 16 * 144 + LANES // 16 * 16, 16) == 8


def test_idle_lanes_do_not_meet() -> None:
    phases = phases_of("gfx942", 4, 64, writes=False)
    active = LANES % 32 == 0
    assert conflict_cycles(phases, LANES * 128, active, 4) == 0


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"])
@pytest.mark.parametrize(("size", "writes"), list(itertools.product([4, 8, 12, 16], [False, True])))
def test_every_lane_is_in_one_phase(arch: str, size: int, writes: bool) -> None:
    lanes = 32 if arch.startswith("gfx1") else 64
    groups = phases_of(arch, size, lanes, writes=writes).groups
    assert sorted(itertools.chain(*groups)) == list(range(lanes))
    # What lies in order never conflicts, but for 96 bits in phases that leave lanes out.
    if size == 12 and not writes:
        return
    assert extra(arch, np.arange(lanes) * size, size, writes=writes) == 0


def test_conflicts_do_not_change_when_all_addresses_move() -> None:
    rng = np.random.default_rng(1)
    for size in (4, 8, 16):
        addresses = rng.integers(0, 512, 64) * size
        moved = {extra("gfx942", addresses + 4 * by, size) for by in (0, 1, 5, 32)}
        assert len(moved) == 1


def test_cache_lines_by_brute_force() -> None:
    rng = np.random.default_rng(2)
    for size in (1, 2, 4, 8, 16):
        for spread in (64, 400, 5000):
            addresses = rng.integers(0, spread, 64) * size + rng.integers(0, 3) * 64
            touched = {(int(a) + byte) for a in addresses for byte in range(size)}
            lines, least = lines_touched(spans_of(addresses, size), 128)
            assert lines == len({byte // 128 for byte in touched})
            assert least == -(-len(touched) // 128)


def test_waves_at_once_are_as_one_by_one() -> None:
    rng = np.random.default_rng(4)
    for size in (1, 4, 16):
        addresses = rng.integers(0, 90, (20, 64)) * size
        active = rng.random((20, 64)) < 0.5
        active[3] = False
        each = [spans_of(row[lanes], size) for row, lanes in zip(addresses, active, strict=True)]
        spans, row_of = spans_of_rows(addresses, active, size)
        for row, expected in enumerate(each):
            for got, wanted in zip(spans, expected, strict=True):
                assert np.array_equal(got[row_of == row], wanted)
        lines = [lines_touched(spans_of_one, 64) for spans_of_one in each]
        summed = tuple(map(sum, zip(*lines, strict=True)))
        assert lines_of_rows(spans, row_of, 20, 64) == summed


def test_distinct_bytes_by_brute_force() -> None:
    """Waves that overlap, several sizes and instructions, patterns at many places."""
    rng = np.random.default_rng(3)
    touched, read, written = TouchedBytes(), set[int](), set[int]()
    for number in range(60):
        site, size = number % 3, int(rng.choice([1, 2, 4, 16]))
        lanes = rng.integers(0, 300, 8) * size
        places = rng.integers(0, 9, 5) * 700
        touched.add(site, number, spans_of(lanes, size), places)
        covered = {int(p + a) + b for p in places for a in lanes for b in range(size)}
        read |= covered if site != 1 else set()
        written |= covered if site != 0 else set()
        if number == 30:
            touched._fold()
    footprint = touched.take(lambda site: site != 1, lambda site: site != 0)
    assert (footprint.read, footprint.written) == (len(read), len(written))
    assert touched.take(bool, bool).read == 0
