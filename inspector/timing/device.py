"""The device around a compute unit: the workgroups that it gets, its share of caches and memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ..machines.products import Product, all_products, find_product
from ..model import Machine
from ..model.machine import Rates
from .costs import Shares

MOST_WAVES: Final = 384
"""Waves that are executed at a time to see what workgroups share in an L2."""
MOST_SIMULATED: Final = 256
"""Waves that follow one another on the simulated compute unit."""
ROUNDS: Final = 3
"""Times that a compute unit's workgroups are replaced in the simulation, if there are as many."""


class Device(Struct, frozen=True):
    """One agent of a product.

    Args:
        cus, xcds: compute units, and dies with an L2 each. In WGP mode two compute units hold a
            workgroup together, and `cus` counts such pairs.
        peak_mhz: the product's, at which its rates were measured.
        l3_bytes: 0 where there is no L3.
        halves: 2 where each of the `cus` is a pair, as in WGP mode.
        holds_clock: whether it runs at `mhz` whatever it does; else the power limit slows it.
    """

    cus: int
    xcds: int
    mhz: float
    peak_mhz: float
    memory_bytes_per_s: float
    l3_bytes: int
    name: str
    halves: int = 1
    holds_clock: bool = False

    def in_wgps(self) -> Device:
        """The device with pairs of compute units in place of compute units."""
        return replace(self, cus=self.cus // 2, halves=2)


def device_of(machine: Machine, product: str | None = None) -> Device | None:
    """The device of a target; None where its size, clock or memory is not known.

    `product`: a driver's name for it; None for the one that the machine file describes.
    """
    known: Product | None = find_product(product) if product is not None else None
    if known is None or known.arch != machine.arch:
        alike = (p for p in all_products() if (p.arch, p.cus) == (machine.arch, machine.cus))
        known = next(alike, None)
    if known is None:
        return None
    return Device(
        known.cus, machine.xcds or known.xccs, float(known.clock_mhz), float(known.clock_mhz),
        known.memory_bytes_per_s,
        machine.l3_bytes or 0 if known.l3_bytes is None else known.l3_bytes, known.name,
    )  # fmt: skip


class Placement(Struct, frozen=True):
    """Where the workgroups of a launch go.

    Args:
        executed: numbers of the workgroups to execute: those of one XCD that run together.
        simulated: those of them that one compute unit gets, in this order.
        resident: how many it holds at a time.
        busiest: how many the busiest compute unit gets in all.
        active: compute units that get any.
    """

    executed: tuple[int, ...]
    simulated: tuple[int, ...]
    resident: int
    busiest: int
    active: int


def place(
    device: Device, workgroups: int, resident: int, waves: int, most_waves: int = MOST_WAVES
) -> Placement:
    """Deals the workgroups of a grid out.

    Workgroups go round robin to the XCDs, and there to the compute units in turn.

    `resident`: that a compute unit holds at a time. `most_waves`: that may be executed to see what
    workgroups share.
    """
    per_xcd = max(1, device.cus // device.xcds)
    busiest = math.ceil(workgroups / device.cus)
    in_xcd = math.ceil(workgroups / device.xcds)
    rounds = min(busiest, max(1, min(ROUNDS * resident + 1, MOST_SIMULATED // waves)))
    together = min(per_xcd * resident, in_xcd, max(1, most_waves // waves))
    entries = sorted({*range(together), *(number * per_xcd for number in range(rounds))})
    reach = entries[-1] * device.xcds
    base = 0
    if busiest > resident:  # the start of a grid is often unlike the rest
        base = min(workgroups // 2, max(0, workgroups - 1 - reach)) // device.xcds * device.xcds
    numbers = [base + entry * device.xcds for entry in entries]
    executed = tuple(number for number in numbers if number < workgroups)
    simulated = tuple(
        number
        for entry in range(rounds)
        if (number := base + entry * per_xcd * device.xcds) < workgroups
    )
    return Placement(
        executed, simulated, min(resident, busiest), busiest, min(device.cus, workgroups)
    )


def shares_of(
    machine: Machine, rates: Rates, device: Device, active: int, counters: Sequence[int]
) -> Shares:
    """What one of the `active` compute units gets of the device, in bytes a cycle."""
    clocks = device.mhz * 1e6
    most = rates.cu_memory_bytes_per_clk * device.halves
    l3 = None
    if rates.l3_bytes_per_s is not None:
        # The L3 has a slice at each memory channel; products of a target differ by these.
        slices = device.l3_bytes / machine.l3_bytes if machine.l3_bytes else 1.0
        l3 = min(most, slices * rates.l3_bytes_per_s / clocks / active)
    memory = min(most, device.memory_bytes_per_s * rates.memory_share / clocks / active)
    l2_bytes = (machine.l2_bytes or 0) * device.xcds / active
    in_cu = machine.eus if machine.eus_cu_mode is None else machine.eus_cu_mode
    return Shares(
        simds=in_cu * device.halves,
        halves=device.halves,
        issue=float(machine.issue_cycles or 1),
        # The L2 has the clock of the compute units, whatever that is; memory and L3 have their own.
        l2=min(
            rates.cu_l2_bytes_per_clk * device.halves,
            rates.l2_bytes_per_s / (device.peak_mhz * 1e6) / active,
        ),
        l3=l3,
        memory=memory,
        lds_port=machine.lds_port_bytes_per_clk.get("read"),
        line=machine.cache_line_bytes or 64,
        icache_lines=(machine.icache_bytes or 32768) // rates.icache_line_bytes,
        counter_limits=tuple(counters),
        l1_lines_per_clk=(machine.l1_bytes_per_clk or 64) / (machine.cache_line_bytes or 64),
        l2_cycles=l2_bytes / memory,
    )
