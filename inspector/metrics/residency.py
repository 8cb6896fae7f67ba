"""The waves that are on a CU at a time, and the cycles that each unit takes for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Final

from msgspec import Struct

from ..model import Demand, Machine, Metric, int_of

BY_WAVE: Final = frozenset(("issue", "latency"))
"""Bounds that do not depend on other waves."""


class Residency(Struct, frozen=True):
    """The waves of the unit that holds workgroups.

    Args:
        waves: the number of waves.
        eus: SIMDs that they are spread over.
        cus: 2 in WGP mode, else 1; each has an LDS and a vector cache of its own.
    """

    waves: int
    eus: int
    cus: int

    @property
    def on_simd(self) -> int:
        """Waves on the fullest SIMD."""
        return ceil(self.waves / self.eus)

    @property
    def on_cu(self) -> int:
        """Waves on the fuller CU."""
        return ceil(self.waves / self.cus)

    @property
    def on_pair(self) -> int:
        """Waves on two SIMDs that share a port of the LDS."""
        return ceil(2 * self.waves / self.eus)


def residency(machine: Machine, demand: Demand, metrics: Mapping[str, Metric]) -> Residency | None:
    """The waves resident at the kernel's occupancy; None where it is unknown or nothing fits."""
    workgroups = int_of(metrics, "occupancy.workgroups_per_cu")
    waves = demand.waves_per_workgroup
    if not workgroups or not waves:
        return None
    if demand.cu_mode:
        eus = machine.eus if machine.eus_cu_mode is None else machine.eus_cu_mode
        return Residency(workgroups * waves, eus, 1)
    return Residency(workgroups * waves, machine.eus, 2)


def shared_cycles(
    unit: str, cycles: float | None, resident: Residency, machine: Machine
) -> float | None:
    """The clocks of a unit for all resident waves; `cycles` are those for one."""
    if cycles is None or unit in BY_WAVE:
        return cycles
    if unit == "vector":
        # Several waves may issue at once, a single wave one instruction at a time.
        waves_per_issue = machine.valu_per_issue
        if waves_per_issue is None:
            return None
        return max(cycles, cycles * resident.on_simd / waves_per_issue)
    if unit == "lds_port":
        return cycles * resident.on_pair
    if unit in ("lds", "l1"):
        return cycles * resident.on_cu
    return cycles * resident.on_simd
