"""Occupancy of a kernel that was read: what it asks of a CU, put together from its figures."""

from __future__ import annotations

from collections.abc import Iterable

from kinspect.inspector.errors import KinspectError
from kinspect.inspector.metrics import launch
from kinspect.inspector.metrics.occupancy import SPECS, Demand, metrics
from kinspect.inspector.metrics.subject import Subject
from kinspect.inspector.model import Metric, MetricValue

__all__ = ["SPECS", "compute"]


def compute(subject: Subject) -> Iterable[Metric]:
    """The `occupancy.*` metrics; None with a note where the target or a figure is unknown."""
    machine, stated = subject.machine, subject.function.resources.occupancy
    if machine is None:
        return _unknown("the target is unknown", stated)
    try:
        return metrics(machine, demand(subject), stated).values()
    except KinspectError as error:
        return _unknown(error.message, stated)


def demand(subject: Subject) -> Demand:
    """What one workgroup of the kernel asks for.

    The register count is what the hardware is asked for (`NumVGPRsForWavesPerEU`,
    `.amdhsa_next_free_vgpr`, or the kernel descriptor), which `waves_per_eu` can inflate over what
    the code uses.
    """
    res, facts = subject.function.resources, subject.facts
    group = _int(launch.workgroup_size(subject).value)
    wave = _int(launch.wave_size(subject).value)
    waves = -(-group // wave) if group is not None and wave is not None else None
    asked = next(
        (
            v
            for v in (res.vgprs_for_waves, res.next_free_vgpr, res.vgprs_allocated, res.vgpr_count)
            if v is not None
        ),
        None,
    )
    in_cu = facts.cu_mode if facts.cu_mode is not None else res.wgp_mode is False
    return Demand(
        vgprs=res.arch_vgpr_count if res.arch_vgpr_count is not None else res.vgpr_count,
        agprs=res.agpr_count or 0 if res.arch_vgpr_count is not None else 0,
        sgprs=next(
            (v for v in (res.sgprs_for_waves, res.sgpr_count, res.next_free_sgpr) if v is not None),
            None,
        ),
        lds_bytes=_int(launch.lds_bytes(subject).value),
        waves_per_workgroup=waves,
        wave_size=wave,
        cu_mode=in_cu,
        llvm=facts.llvm,
        vgprs_requested=asked,
        compiler_lds=res.lds_bytes,
    )


def _int(value: MetricValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _unknown(why: str, stated: int | None) -> Iterable[Metric]:
    for spec in SPECS:
        if spec.name == "occupancy.compiler" and stated is not None:
            yield Metric(spec.name, stated, spec.unit, "compiler")
        else:
            yield Metric(spec.name, None, spec.unit, spec.origin, why)
