"""LDS phases against what others measured on the hardware, and cycles against a simulation."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict

import numpy as np
import pytest
from kinspect.inspector.emulator.access_figures import data_cycles, phases_of

# HipKittens, analysis/paper_experiments/phases/*/{phase,bank}_results.txt, measured on MI355X
# (gfx950) with SQ_LDS_BANK_CONFLICT: matrices of all pairs of lanes, which fall into these groups
# without exception, and the first dword that meets dword 0.
_HIPKITTENS = {
    ("ds_read_b128", 16, False): (64, "0-3 12-15 20-27, 4-11 16-19 28-31"),
    ("ds_read_b96", 12, False): (32, "0-3 20-23, 4-7 16-19, 8-11 28-31, 12-15 24-27"),
    ("ds_read_b64", 8, False): (64, "0-31"),
    ("ds_write_b64", 8, True): (32, "0-15, 16-31"),
}
# pyhip, archive/bank-conflict/README.md, measured on MI300 (gfx942) by time, lane by lane.
_PYHIP = {
    ("ds_read_b64", 8, False): (32, "0-15, 16-31"),
    ("ds_read_b128", 16, False): (32, "0-3 20-23, 4-7 16-19, 8-11 28-31, 12-15 24-27"),
}
MEASURED = [
    *(("gfx950", *key, *value) for key, value in _HIPKITTENS.items()),
    *(("gfx942", *key, *value) for key, value in _PYHIP.items()),
]


def lanes_of(groups: str) -> list[set[int]]:
    """`0-3 20-23, 4-7 16-19` of lanes 0 to 31, and the same of 32 to 63."""
    half = []
    for group in groups.split(","):
        ranges = [tuple(map(int, part.split("-"))) for part in group.split()]
        half.append({lane for first, last in ranges for lane in range(first, last + 1)})
    return [*half, *({lane + 32 for lane in group} for group in half)]


@pytest.mark.parametrize(("arch", "name", "size", "writes", "banks", "groups"), MEASURED)
def test_pairs_of_lanes_that_meet(
    arch: str, name: str, size: int, writes: bool, banks: int, groups: str
) -> None:
    """Of two lanes, one at the other's banks in the next row: a cycle more if of one phase."""
    phases = phases_of(arch, size, 64, writes=writes)
    pairs = list(itertools.combinations(range(64), 2))
    where = np.zeros((len(pairs), 64), np.int64)
    active = np.zeros(where.shape, bool)
    for row, (one, other) in enumerate(pairs):
        where[row, other] = banks * 4
        active[row, [one, other]] = True
    cycles, ideal = data_cycles(phases, where, size, active)
    together = [any({one, other} <= group for group in lanes_of(groups)) for one, other in pairs]
    assert (cycles - ideal).tolist() == list(map(int, together))
    assert phases.origin == "derived"


@pytest.mark.parametrize(("arch", "name", "size", "writes", "banks", "groups"), MEASURED)
def test_the_number_of_banks(
    arch: str, name: str, size: int, writes: bool, banks: int, groups: str
) -> None:
    """Lanes 0 and 1 meet where the second's dwords have come round, and nowhere before."""
    phases = phases_of(arch, size, 64, writes=writes)
    steps = np.arange(size // 4, 129 - size // 4)
    where = np.zeros((len(steps), 64), np.int64)
    where[:, 1] = steps * 4
    active = np.zeros(where.shape, bool)
    active[:, :2] = True
    cycles, ideal = data_cycles(phases, where, size, active)
    meets = [
        abs(int(step) - row) < size // 4 for step in steps for row in [round(step / banks) * banks]
    ]
    assert ((cycles - ideal) > 0).tolist() == meets


def test_times_of_strides() -> None:
    """pyhip's times (MI300) of 10,000 dependent ds_read_b32 by 16 waves, over the stride in dwords.

    With conflicts the LDS is the bound: its cycles are as the times. The loop itself takes some 358
    microseconds, more than the reads of stride 1 and hardly less than those of stride 2.
    """
    microseconds = {4: 907.2, 8: 1805.6, 16: 3600.6, 32: 7196.0, 64: 7196.2, 128: 7199.9}
    phases = phases_of("gfx942", 4, 64, writes=False)
    strides = np.array(list(microseconds))
    cycles, _ = data_cycles(phases, np.arange(64) * strides[:, None] * 4, 4)
    a_cycle = np.array(list(microseconds.values())) / cycles
    assert a_cycle == pytest.approx([a_cycle.mean()] * len(a_cycle), rel=0.01)
    free = [0, 1, 3, 5, 9, 17, 33, 65, 129]  # 356.8 to 362.3 microseconds
    cycles, ideal = data_cycles(phases, np.arange(64) * np.array(free)[:, None] * 4, 4)
    assert (cycles == ideal).all()


@pytest.mark.parametrize(
    ("arch", "size", "writes", "lanes"),
    [
        ("gfx950", 4, False, 32), ("gfx950", 8, False, 32), ("gfx950", 12, False, 8),
        ("gfx950", 16, False, 16), ("gfx950", 4, True, 32), ("gfx950", 8, True, 16),
        ("gfx950", 16, True, 8), ("gfx942", 4, False, 32), ("gfx942", 8, False, 16),
        ("gfx942", 16, False, 8),
    ],
)  # fmt: skip
def test_lanes_of_a_clock(arch: str, size: int, writes: bool, lanes: int) -> None:
    """rocRoller's unit test of its LDS bank model ("LDS threads per clock")."""
    groups = phases_of(arch, size, 64, writes=writes).groups
    assert {len(group) for group in groups} == {lanes}
    assert sorted(lane for group in groups for lane in group) == list(range(64))


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("size", [1, 2, 4, 8, 12, 16])
def test_cycles_are_those_of_banks_that_give_a_dword_each(arch: str, size: int) -> None:
    """Random addresses, masks and waves: a clock by clock simulation with a queue for each bank."""
    lanes = 32 if arch.startswith("gfx1") else 64
    draw = random.Random(f"{arch} {size}")
    for writes in (False, True):
        phases = phases_of(arch, size, lanes, writes=writes)
        align = min(size & -size, 4) if size < 4 else 4
        where = [
            [draw.randrange(0, 1 << draw.randrange(4, 14), align) for _ in range(lanes)]
            for _ in range(8)
        ]
        active = [[draw.random() < 0.8 for _ in range(lanes)] for _ in range(8)]
        cycles, ideal = data_cycles(phases, np.array(where), size, np.array(active))
        for row in range(8):
            clocks = least = 0
            for group in phases.groups:
                queues: dict[int, set[int]] = defaultdict(set)
                for lane in group:
                    if active[row][lane]:
                        for byte in range(where[row][lane], where[row][lane] + size):
                            queues[byte // 4 % phases.banks].add(byte // 4)
                wanted = sum(map(len, queues.values()))
                least += -(-wanted // phases.banks)
                while any(queues.values()):
                    for queue in queues.values():
                        if queue:
                            queue.pop()
                    clocks += 1
            assert (cycles[row], ideal[row]) == (clocks, least)
