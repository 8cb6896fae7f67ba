"""Occupancy: the waves resident on a SIMD, their limit, and the change that would raise them.

There are two figures. The *compiler's* is LLVM's `; Occupancy:` comment: it includes only the LDS
that LLVM knows of and never rounds to full workgroups. The *resident* one is the hardware's:
workgroups start as a unit or not at all, and one unit (a CU; a WGP in WGP mode) shares its
registers, LDS, wave slots and barriers among them.

Formulas: LLVM 22.1.8 AMDGPUBaseInfo.cpp (IsaInfo), GCNSubtarget.cpp (getOccupancyWithNumSGPRs) and
AMDGPUSubtarget.cpp (getOccupancyWithWorkGroupSizes), checked point by point against LLVM's output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..machines import load, names
from ..model import Demand, KernelReport, Machine, Metric
from .capacity import Capacity, capacity, registers_needed, registers_to_drop, round_up
from .entries import of_kernels

Resource = Literal["vgpr", "sgpr", "lds", "waves_per_eu", "vgpr_request"]
Limiter = Literal["vgpr", "sgpr", "lds", "workgroups", "waves", "waves_per_eu", "vgpr_request"]
"""`waves_per_eu`: the VGPRs requested because of this option, not those used; `vgpr_request`: the
same where no such option is known."""

SPECS = of_kernels(
    {
        "occupancy.compiler": "waves/SIMD | Occupancy as LLVM counts it: the LDS it knows of, no "
        "whole workgroups",
        "occupancy.waves_per_eu": "waves/SIMD | Waves resident on one SIMD",
        "occupancy.workgroups_per_cu": "workgroups/CU | Workgroups resident on one CU (one WGP in "
        "WGP mode)",
        "occupancy.limiter": "| What keeps more from being resident: vgpr, sgpr, lds, workgroups, "
        "waves, waves_per_eu (the option's inflated request for VGPRs), or vgpr_request (the "
        "kernel asks for more than it uses, and no option is known to have done that)",
        "occupancy.by_vgpr": "waves/SIMD | Waves that VGPRs alone allow",
        "occupancy.by_vgpr_used": "waves/SIMD | Waves that they would, were no more asked for "
        "than the code uses",
        "occupancy.by_sgpr": "waves/SIMD | Waves that SGPRs alone allow",
        "occupancy.by_lds": "waves/SIMD | Waves that LDS alone allows",
        "occupancy.by_workgroups": "waves/SIMD | Waves that wave slots and barriers allow at this "
        "workgroup size",
        "occupancy.next_step": "| Smallest cut that raises the resident waves: {resource, "
        "reduce_by, gives}",
    }
)


class NextStep(Struct, frozen=True):
    """The smallest reduction that raises the resident occupancy.

    `reduce_by` is in registers or bytes, `gives` in waves/SIMD. `resource` is `waves_per_eu` or
    `vgpr_request` where only the request has to fall, by `reduce_by` VGPRs, and no register of the
    kernel has to go. Where two resources limit alike, reducing one is not enough and `also` holds
    the others with their reductions.
    """

    resource: Resource
    reduce_by: int
    gives: int | float
    also: tuple[tuple[Resource, int], ...] = ()


class Level(Struct, frozen=True):
    """A reachable occupancy at this workgroup size, and the largest use that reaches it.

    `vgprs` counts registers of the file per lane (AGPRs included where the file is unified),
    `sgprs` per wave, `lds_bytes` per workgroup. None: the resource does not limit here, or the
    workgroup size is unknown.
    """

    waves_per_eu: int | float
    workgroups: int | None
    vgprs: int
    sgprs: int | None
    lds_bytes: int | None


class Occupancy(Struct, frozen=True, kw_only=True):
    """The occupancy of a kernel. Waves are per SIMD; None means unknown, `note` says why.

    `unit` holds the workgroups: CU, or WGP in WGP mode. `cannot_launch` is the reason that no
    workgroup fits, None where one does. `levels` starts at the highest occupancy.
    """

    compiler: int | None
    waves_per_eu: int | float | None = None
    workgroups_per_cu: int | None = None
    limiter: Limiter | None = None
    by_vgpr: int | None
    by_vgpr_used: int | None
    by_sgpr: int | None
    by_lds: int | float | None
    by_workgroups: int | float | None
    next_step: NextStep | None = None
    cannot_launch: str | None = None
    unit: Literal["CU", "WGP"]
    levels: tuple[Level, ...]
    note: str = ""


def occupancy(machine: Machine, demand: Demand) -> Occupancy:
    """Computes the resident workgroups and their limit.

    `demand`: the kernel's use of registers, LDS and waves.

    Raises:
        KinspectError: a figure is impossible (negative, a wave size the target lacks).
    """
    _validate(demand)
    unit = capacity(machine, demand.wave_size, demand.cu_mode, demand.llvm)
    used, needed = _vgprs(machine, demand)
    waves, lds = demand.waves_per_workgroup, demand.lds_bytes
    by_lds = by_workgroups = None
    if waves is not None:
        by_workgroups = unit.waves_per_eu(unit.max_workgroups(waves), waves)
        if lds is not None:
            by_lds = unit.waves_per_eu(min(_groups_by_lds(unit, lds), unit.slots(waves)), waves)
    known = Occupancy(
        compiler=_compiler(unit, demand, needed),
        by_vgpr=None if needed is None else unit.waves_by_vgpr(needed),
        by_vgpr_used=None if used is None else unit.waves_by_vgpr(used),
        by_sgpr=unit.waves_by_sgpr(demand.sgprs),
        by_lds=by_lds,
        by_workgroups=by_workgroups,
        unit="WGP" if unit.is_wgp else "CU",
        levels=_levels(unit, waves),
    )
    if needed is None or lds is None or waves is None:
        missing = (("VGPRs", needed), ("LDS", lds), ("waves per workgroup", waves))
        names = ", ".join(name for name, value in missing if value is None)
        return replace(known, note=f"{names} unknown")
    groups = _groups(unit, needed, demand.sgprs, lds, waves)
    resident = min(groups.values())
    limiter = min(groups, key=lambda resource: groups[resource])
    if limiter == "vgpr" and used is not None:
        by_use = _groups(unit, used, demand.sgprs, lds, waves)
        if min(by_use.values()) > resident:
            limiter = _request(demand)
        elif by_use["vgpr"] > resident:
            # LLVM asks for the registers that other limits leave free anyhow.
            limiter = min(by_use, key=lambda resource: by_use[resource])
    return replace(
        known,
        waves_per_eu=unit.waves_per_eu(resident, waves),
        workgroups_per_cu=resident,
        limiter=limiter,
        next_step=_next_step(unit, demand, needed, lds, waves, resident),
        cannot_launch=None if resident else _cannot_launch(unit, needed, lds, waves),
        note=_note(unit, demand, used),
    )


def _validate(demand: Demand) -> None:
    for name in ("vgprs", "agprs", "sgprs", "lds_bytes", "vgprs_requested", "compiler_lds"):
        value = getattr(demand, name)
        if value is not None and value < 0:
            raise KinspectError(f"{name} is {value}", "give a figure of 0 or more")
    waves = demand.waves_per_workgroup
    if waves is not None and waves < 1:
        raise KinspectError(f"waves_per_workgroup is {waves}", "give 1 or more")


def _vgprs(machine: Machine, demand: Demand) -> tuple[int | None, int | None]:
    """Registers of the file that the kernel's code uses, and those that it requests.

    The request is not rounded to the granule yet.
    """
    used = None
    if demand.vgprs is not None:
        used = registers_needed(machine, demand.vgprs, demand.agprs)
    counts = [count for count in (used, demand.vgprs_requested) if count is not None]
    return used, max(counts, default=None)


def _request(demand: Demand) -> Literal["waves_per_eu", "vgpr_request"]:
    """The limiter's name for a request for more VGPRs than are used."""
    return "waves_per_eu" if demand.option_given else "vgpr_request"


def _note(unit: Capacity, demand: Demand, used: int | None) -> str:
    """Remarks on the request and on missing figures."""
    notes, requested = [], demand.vgprs_requested
    # A request read off a kernel descriptor is rounded up already; that alone means nothing.
    if used is not None and requested is not None and requested > round_up(used, unit.granule):
        reason = ": a maximum in amdgpu-waves-per-eu (Triton's waves_per_eu) raises the request"
        notes.append(
            f"{requested} VGPRs are asked for, {used} used{reason if demand.option_given else ''}"
        )
    if unit.waves_by_sgpr(demand.sgprs) is None:
        notes.append("SGPRs not given, taken as not limiting")
    return "; ".join(notes)


def _compiler(unit: Capacity, demand: Demand, vgprs_needed: int | None) -> int | None:
    """The occupancy as LLVM computes it; None where a figure is missing."""
    waves = demand.waves_per_workgroup
    lds = demand.lds_bytes if demand.compiler_lds is None else demand.compiler_lds
    if vgprs_needed is None or lds is None or (lds > 0 and waves is None):
        return None
    limits = [unit.waves_by_vgpr(vgprs_needed), unit.waves_by_sgpr(demand.sgprs)]
    if waves is not None:
        by_lds = unit.workgroups_by_lds(lds, unit.machine.lds_granule[unit.llvm])
        groups = min(unit.max_workgroups(waves), by_lds)
        limits.append(max(min(unit.waves_needed(groups, waves), unit.machine.max_waves), 1))
    return min(limit for limit in limits if limit is not None)


def _groups_by_lds(unit: Capacity, lds: int) -> int:
    if lds > unit.machine.lds_max:
        return 0
    return unit.workgroups_by_lds(lds, unit.hardware_granule)


def _groups(
    unit: Capacity, vgprs_needed: int, sgprs: int | None, lds: int, waves: int
) -> dict[Limiter, int]:
    """Workgroups that each resource alone admits; on a tie the first one is the limiter."""
    max_groups = unit.max_workgroups(waves)
    by_size: Limiter = "waves" if max_groups == unit.slots(waves) else "workgroups"
    groups: dict[Limiter, int] = {
        by_size: max_groups if unit.fits(waves) else 0,
        "vgpr": unit.waves_by_vgpr(vgprs_needed) * unit.eus // waves,
        "lds": _groups_by_lds(unit, lds),
    }
    if vgprs_needed > unit.machine.vgpr_addressable:
        groups["vgpr"] = 0
    by_sgpr = unit.waves_by_sgpr(sgprs)
    if by_sgpr is not None:
        groups["sgpr"] = by_sgpr * unit.eus // waves
    return groups


def _cannot_launch(unit: Capacity, vgprs_needed: int, lds: int, waves: int) -> str:
    """The reason that no workgroup fits."""
    machine = unit.machine
    if not unit.fits(waves):
        return (
            f"{waves} waves of {unit.wave_size} are more than the "
            f"{machine.max_workgroup_size} work-items that a workgroup may have"
        )
    if vgprs_needed > machine.vgpr_addressable:
        limit = machine.vgpr_addressable
        return f"{vgprs_needed} VGPRs are more than the {limit} that a wave may have"
    if lds > machine.lds_max:
        return f"{lds} B of LDS are more than the {machine.lds_max} B that a workgroup may have"
    room = unit.waves_by_vgpr(vgprs_needed) * unit.eus
    if room < waves:
        return f"{vgprs_needed} VGPRs leave room for {room} waves; a workgroup has {waves}"
    return f"SGPRs leave no room for a workgroup of {waves} waves"


def _next_step(
    unit: Capacity, demand: Demand, vgprs_needed: int, lds: int, waves: int, resident: int
) -> NextStep | None:
    """The smallest reduction that admits another workgroup; None where none does."""
    target = resident + 1
    if not unit.fits(waves) or target > unit.max_workgroups(waves):
        return None  # only another workgroup size could help
    per_eu = unit.waves_needed(target, waves)
    vgprs, bytes_ = unit.most_vgprs(per_eu), unit.most_lds(target)
    sgprs = unit.most_sgprs(per_eu)
    cuts: list[tuple[Resource, int]] = []
    if vgprs_needed > vgprs:
        vgprs_used, _ = _vgprs(unit.machine, demand)
        if vgprs_used is not None and vgprs_used <= vgprs:
            cuts.append((_request(demand), vgprs_needed - vgprs))
        else:
            drop = registers_to_drop(unit.machine, demand.vgprs or 0, demand.agprs, vgprs)
            cuts.append(("vgpr", vgprs_needed - vgprs if vgprs_used is None else drop))
    if lds > bytes_:
        cuts.append(("lds", lds - bytes_))
    reduced_sgprs = demand.sgprs
    if demand.sgprs is not None and sgprs is not None and demand.sgprs > sgprs:
        cuts.append(("sgpr", demand.sgprs - sgprs))
        reduced_sgprs = sgprs
    groups_after = min(
        _groups(unit, min(vgprs_needed, vgprs), reduced_sgprs, min(lds, bytes_), waves).values()
    )
    (resource, reduce_by), *also = cuts
    return NextStep(resource, reduce_by, unit.waves_per_eu(groups_after, waves), tuple(also))


def _levels(unit: Capacity, waves: int | None) -> tuple[Level, ...]:
    """The reachable occupancies, the highest first."""
    if waves is None:
        candidates = [
            Level(k, None, unit.most_vgprs(k), unit.most_sgprs(k), None)
            for k in range(unit.machine.max_waves, 0, -1)
        ]
    else:
        max_groups = unit.max_workgroups(waves) if unit.fits(waves) else 0
        candidates = [
            Level(
                unit.waves_per_eu(groups, waves),
                groups,
                unit.most_vgprs(unit.waves_needed(groups, waves)),
                unit.most_sgprs(unit.waves_needed(groups, waves)),
                unit.most_lds(groups),
            )
            for groups in range(max_groups, 0, -1)
        ]
    # A level with the limits of the one above it is never reached.
    levels: dict[tuple[int | None, ...], Level] = {}
    for level in candidates:
        levels.setdefault((level.vgprs, level.sgprs, level.lds_bytes), level)
    return tuple(levels.values())


def vgpr_levels(kernel: KernelReport) -> tuple[tuple[int | float, int], ...]:
    """The waves/SIMD that a kernel can reach, the highest first, each with the most VGPRs for it.

    None where its target, or what it asks of a CU, is not known.
    """
    if kernel.demand is None or kernel.arch not in names():
        return ()
    levels = occupancy(load(kernel.arch), kernel.demand).levels
    return tuple((level.waves_per_eu, level.vgprs) for level in levels)


def metrics(machine: Machine, demand: Demand, stated: int | None = None) -> dict[str, Metric]:
    """The `occupancy.*` metrics of a kernel.

    `demand`: the kernel's use of registers, LDS and waves; `stated`: the occupancy that the
    compiler wrote into the file, for `occupancy.compiler`; None to compute it.
    """
    residency = occupancy(machine, demand)
    note = residency.cannot_launch or residency.note
    step: Mapping[str, int | float | str] | None = None
    if residency.next_step is not None:
        next_step = residency.next_step
        step = {
            "resource": next_step.resource,
            "reduce_by": next_step.reduce_by,
            "gives": next_step.gives,
        }
        for resource, reduce_by in next_step.also:
            step = {**step, f"also_{resource}": reduce_by}
    units = {spec.name: spec.unit for spec in SPECS}
    units["occupancy.workgroups_per_cu"] = f"workgroups/{residency.unit}"
    result = {
        "occupancy.compiler": Metric(
            "occupancy.compiler",
            residency.compiler if stated is None else stated,
            "waves/SIMD",
            "derived" if stated is None else "compiler",
        )
    }
    for name in units:
        if name in result:
            continue
        field = name.removeprefix("occupancy.")
        value = step if field == "next_step" else getattr(residency, field)
        result[name] = Metric(name, value, units[name], "derived", note)
    return result
