"""The waves and workgroups that a simulated compute unit holds."""

from __future__ import annotations

from typing import Final

from .cu_values import REASONS
from .wave_traces import WaveTrace

_ISSUE: Final = REASONS.index("issue")
_DEPENDENCY: Final = REASONS.index("dependency")


class Wave:
    """A resident wave; `base` is the time at which it could have issued at the earliest."""

    __slots__ = (
        "accesses",
        "age",
        "base",
        "blame",
        "group",
        "last_vector",
        "lasts",
        "line",
        "position",
        "queues",
        "ready",
        "reason",
        "simd",
        "stream",
    )  # fmt: skip

    def __init__(self, trace: WaveTrace, group: int, age: int, groups: int, counters: int) -> None:
        self.stream = trace.stream
        self.accesses = trace.accesses
        self.group = group
        self.age = age
        self.position = 0
        self.base = 0.0
        self.reason = _ISSUE
        self.blame = -1
        self.simd = 0
        self.line = -1
        self.last_vector = -1e9
        self.ready: list[tuple[float, int]] = [(0.0, _DEPENDENCY)] * groups
        self.queues: list[list[tuple[float, int, int]]] = [[] for _ in range(counters)]
        self.lasts = [0.0] * counters


class Group:
    """A workgroup: its waves, who is at the barrier, when it ended."""

    __slots__ = ("arrived", "end", "left", "opens", "waves")

    def __init__(self, waves: list[Wave]) -> None:
        self.waves = waves
        self.left = len(waves)
        self.arrived: list[tuple[Wave, float, int]] = []
        self.opens = 0.0
        self.end = 0.0
