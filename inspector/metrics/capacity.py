"""Capacity of one CU (a WGP in WGP mode): registers, wave slots, barriers and LDS.

Formulas: LLVM 22.1.8 AMDGPUBaseInfo.cpp (IsaInfo) and GCNSubtarget.cpp (getOccupancyWithNumSGPRs).
"""

from __future__ import annotations

from msgspec import Struct

from ..base.errors import KinspectError
from ..model import Machine


class Capacity(Struct, frozen=True):
    """The unit that holds workgroups, for one wave size, mode and LLVM occupancy model.

    `waves` are per SIMD throughout. `is_wgp`: the unit is a WGP and not a CU.
    """

    machine: Machine
    wave_size: int
    llvm: str
    eus: int
    pool: int
    barriers: int
    total: int
    granule: int
    is_wgp: bool

    @property
    def hardware_granule(self) -> int:
        """Bytes in which the hardware allocates LDS, whatever the compiler's model assumes."""
        return self.machine.lds_granule["hardware"]

    def waves_by_vgpr(self, registers: int) -> int:
        """Waves that this many registers per lane allow."""
        if registers < self.granule:
            return self.machine.max_waves
        fit = self.total // round_up(registers, self.granule)
        return min(max(fit, 1), self.machine.max_waves)

    def most_vgprs(self, waves: int) -> int:
        """The largest register count that still allows `waves`."""
        fit = self.total // waves // self.granule * self.granule
        return min(fit, self.machine.vgpr_addressable)

    def waves_by_sgpr(self, sgprs: int | None) -> int | None:
        """Waves that this many SGPRs allow; None where they are not known and would matter."""
        steps = self.machine.sgpr_steps.get(self.llvm)
        if not steps:
            return self.machine.max_waves
        if sgprs is None:
            return None
        waves = next((w for limit, w in steps if sgprs <= limit), steps[-1][1])
        return min(waves, self.machine.max_waves)

    def most_sgprs(self, waves: int) -> int | None:
        """The largest SGPR count that still allows `waves`; None where any count does."""
        steps = self.machine.sgpr_steps.get(self.llvm)
        # The last step ends only at the number of registers that can be named.
        if not steps or min(steps[-1][1], self.machine.max_waves) >= waves:
            return None
        return max(limit for limit, w in steps if w >= waves)

    def slots(self, waves_per_workgroup: int) -> int:
        """Workgroups that the wave slots admit."""
        return self.machine.max_waves * self.eus // waves_per_workgroup

    def max_workgroups(self, waves_per_workgroup: int) -> int:
        """Workgroups that wave slots and barriers admit."""
        slots = self.slots(waves_per_workgroup)
        # A workgroup of one wave needs no barrier.
        return slots if waves_per_workgroup == 1 else min(slots, self.barriers)

    def fits(self, waves_per_workgroup: int) -> bool:
        """Whether a workgroup of this many waves is allowed at all."""
        return waves_per_workgroup * self.wave_size <= self.machine.max_workgroup_size

    def workgroups_by_lds(self, lds: int, granule: int) -> int:
        """Workgroups that this many bytes of LDS each allow."""
        return self.pool // max(round_up(lds, granule), 1)

    def most_lds(self, workgroups: int) -> int:
        """Bytes of LDS that each of this many workgroups may have."""
        share = self.pool // workgroups // self.hardware_granule * self.hardware_granule
        return min(share, self.machine.lds_max)

    def waves_per_eu(self, workgroups: int, waves_per_workgroup: int) -> int | float:
        """The mean number of waves on a SIMD."""
        waves = workgroups * waves_per_workgroup / self.eus
        return int(waves) if waves.is_integer() else waves

    def waves_needed(self, workgroups: int, waves_per_workgroup: int) -> int:
        """Waves that each resource must allow for so many workgroups to be resident."""
        return -(-workgroups * waves_per_workgroup // self.eus)


def capacity(machine: Machine, wave_size: int | None, cu_mode: bool, llvm: str) -> Capacity:
    """The unit of a machine that holds workgroups.

    `wave_size`: 32 or 64; None for the target's default; `cu_mode`: whether workgroups stay within
    one CU (RDNA); ignored on other targets; `llvm`: LLVM's occupancy model, a key of the machine's
    `lds_granule`.

    Raises:
        KinspectError: the target lacks the wave size, or the model is unknown.
    """
    wave = machine.wave_sizes[0] if wave_size is None else wave_size
    if wave not in machine.wave_sizes:
        wave_sizes = " or ".join(str(w) for w in machine.wave_sizes)
        raise KinspectError(f"{machine.arch} has no wave{wave}", f"use a wave size of {wave_sizes}")
    models = machine.lds_granule.keys() - {"hardware"}
    if llvm not in models:
        hint = f"known models: {', '.join(sorted(models))}"
        raise KinspectError(f"no LLVM occupancy model '{llvm}'", hint)

    def pick(in_cu_mode: int | None, otherwise: int) -> int:
        return in_cu_mode if cu_mode and in_cu_mode is not None else otherwise

    return Capacity(
        machine,
        wave,
        llvm,
        eus=pick(machine.eus_cu_mode, machine.eus),
        pool=pick(machine.lds_pool_cu_mode, machine.lds_pool),
        barriers=pick(machine.barriers_cu_mode, machine.barriers),
        total=machine.vgpr_total[wave],
        granule=machine.vgpr_granule[wave],
        is_wgp=machine.eus_cu_mode is not None and not cu_mode,
    )


def registers_needed(machine: Machine, vgprs: int, agprs: int) -> int:
    """Registers of one file that a wave needs per lane (LLVM's getTotalNumVGPRs).

    On a unified file AGPRs start at a multiple of 4; a separate file has room for both.
    """
    if machine.agpr == "unified" and agprs > 0:
        return round_up(vgprs, 4) + agprs
    return max(vgprs, agprs)


def registers_to_drop(machine: Machine, vgprs: int, agprs: int, limit: int) -> int:
    """The fewest registers, of either kind, whose removal brings the need down to `limit`."""
    if machine.agpr != "unified" or agprs == 0:
        return max(vgprs - limit, 0) + max(agprs - limit, 0)
    # Candidates: no AGPRs, all VGPRs, or groups of 4 VGPRs before the AGPRs. The best keeps most.
    remaining = min(vgprs, limit)
    for keep in (vgprs, min(vgprs, limit - 1) // 4 * 4):
        room = limit - round_up(keep, 4)
        if room > 0:
            remaining = max(remaining, keep + min(agprs, room))
    return vgprs + agprs - remaining


def round_up(value: int, granule: int) -> int:
    """The least multiple of `granule` that is at least `value`."""
    return -(-value // granule) * granule
