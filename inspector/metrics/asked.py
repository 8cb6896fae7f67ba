"""What a finished report says that a kernel asks of a CU: occupancy again, without its code."""

from __future__ import annotations

from collections.abc import Mapping

from kinspect.inspector.metrics.capacity import capacity, registers_needed, round_up
from kinspect.inspector.metrics.occupancy import Demand
from kinspect.inspector.model import KernelReport, Machine, Metric


def demand_of(report: KernelReport, machine: Machine) -> Demand:
    """The demand that the report's occupancy rests on; what it does not tell is None.

    Args:
        report: of a kernel for that machine.
        machine: the target.
    """
    m = report.metrics
    arch_vgprs, wave = _integer(m, "arch_vgpr_count"), _integer(m, "wave_size")
    vgprs = arch_vgprs if arch_vgprs is not None else _integer(m, "vgpr_count")
    agprs = (_integer(m, "agpr_count") or 0) if arch_vgprs is not None else 0
    cu_mode = False
    if machine.eus_cu_mode is not None:
        per = m["occupancy.workgroups_per_cu"].unit if "occupancy.workgroups_per_cu" in m else ""
        cu_mode = per.endswith("/CU")
    allocated, asked = _integer(m, "vgpr_allocated"), None
    if vgprs is not None and allocated is not None:
        unit = capacity(machine, wave, cu_mode, "22")
        used = round_up(registers_needed(machine, vgprs, agprs), unit.granule)
        asked = allocated if allocated > used else None
    return Demand(
        vgprs=vgprs,
        agprs=agprs,
        sgprs=_integer(m, "sgpr_count"),
        lds_bytes=_integer(m, "lds_bytes"),
        waves_per_workgroup=_integer(m, "waves_per_workgroup"),
        wave_size=wave,
        cu_mode=cu_mode,
        llvm="triton" if report.variant is not None else "22",
        vgprs_requested=asked,
    )


def _integer(metrics: Mapping[str, Metric], name: str) -> int | None:
    metric = metrics.get(name)
    value = metric.value if metric is not None else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
