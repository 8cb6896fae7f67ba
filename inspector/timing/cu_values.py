"""What a simulation of a compute unit takes of the device, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ..model.time import StallReason

REASONS: Final[tuple[StallReason, ...]] = (
    "issue", "dependency", "vector", "matrix", "lds", "memory", "barrier", "scalar", "icache",
)  # fmt: skip
"""What an instruction may wait for."""
UNITS: Final = ("vector", "matrix", "lds", "l1", "l2", "l3", "memory")
"""Units of which it is known how long they are busy; the first two are one for each SIMD."""


class Shares(Struct, frozen=True):
    """What the device gives one compute unit, in bytes a cycle; latencies are in `Rates`.

    Args:
        halves: LDS and address units with a cache each, which as many SIMDs share; 2 in WGP mode.
        issue: cycles between two instructions of a wave.
        l2, l3, memory: bytes a cycle; None for an L3 that there is not.
        lds_port: bytes a cycle between a pair of SIMDs and the LDS; None: it never limits.
        icache_lines: of the instruction cache.
        l1_lines_per_clk: lines that the L1 looks up in a cycle.
        l2_cycles: in which memory takes what the compute unit's share of the L2 holds.
    """

    simds: int
    halves: int
    issue: float
    l2: float
    l3: float | None
    memory: float
    lds_port: float | None
    line: int
    icache_lines: int
    counter_limits: tuple[int, ...]
    l1_lines_per_clk: float
    l2_cycles: float


class Sharing(Struct, frozen=True):
    """Where the lines of accesses come from.

    Args:
        fresh: by instruction, the share of lines that miss the L2 as well, of those that miss the
            L1 and were not there before for the same workgroup.
        beyond_l3: by instruction, the share of its misses in L2 that miss the L3.
        stored: by instruction, the share of stored bytes that go on to memory; 1 where unnamed.
    """

    fresh: Mapping[int, float]
    beyond_l3: Mapping[int, float]
    stored: Mapping[int, float]


class CuTime(Struct, frozen=True):
    """What the simulation of some workgroups found.

    Args:
        ends: cycle at which each workgroup ended, in their order.
        stalls: by instruction, the cycles that waves waited, by `REASONS`.
        blamed: by instruction, the cycles that waves waited for it: a wait's are those of the
            access that it waits for, all others their own.
        issues: by instruction, how often it was issued.
        busy: cycles of each of `UNITS`, summed over the SIMDs.
    """

    ends: list[float]
    stalls: dict[int, list[float]]
    blamed: dict[int, list[float]]
    issues: dict[int, int]
    busy: list[float]

    def times(self, factor: float) -> CuTime:
        """The time of as many times as much of the same."""
        if factor == 1:
            return self
        return CuTime(
            [end * factor for end in self.ends],
            {site: [cycles * factor for cycles in row] for site, row in self.stalls.items()},
            {site: [cycles * factor for cycles in row] for site, row in self.blamed.items()},
            {site: round(count * factor) for site, count in self.issues.items()},
            [cycles * factor for cycles in self.busy],
        )

    @property
    def cycles(self) -> float:
        """When the last workgroup ended."""
        return max(self.ends, default=0.0)
