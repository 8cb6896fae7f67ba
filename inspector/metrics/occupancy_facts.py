"""Occupancy of a kernel that was read: what it asks of a CU, put together from its figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from ..errors import KinspectError
from ..model import Demand, Metric, MetricSpec, int_of
from . import launch
from .occupancy import SPECS as OCCUPANCY
from .occupancy import metrics
from .registers import agprs_beyond
from .subject import Subject

SPECS = (
    *OCCUPANCY,
    MetricSpec(
        "vgpr_pool", "registers", "derived", "kernel", "VGPRs that the waves of a SIMD share"
    ),
    MetricSpec("lds_pool", "bytes", "derived", "kernel", "LDS that resident workgroups share"),
)

# What depends on the size of the workgroup.
_BY_WORKGROUP = (
    "occupancy.waves_per_eu",
    "occupancy.workgroups_per_cu",
    "occupancy.limiter",
    "occupancy.by_lds",
    "occupancy.by_workgroups",
    "occupancy.next_step",
)


def compute(subject: Subject) -> Iterator[Metric]:
    """The `occupancy.*` metrics; None with a note where the target or a figure is unknown."""
    machine, stated = subject.machine, subject.function.resources.occupancy
    if machine is None:
        yield from _unknown("the target is unknown", stated)
        return
    kernel_demand = subject.demand if subject.demand is not None else demand(subject)
    pool = machine.lds_pool
    if kernel_demand.cu_mode and machine.lds_pool_cu_mode is not None:
        pool = machine.lds_pool_cu_mode
    wave = kernel_demand.wave_size or machine.wave_sizes[0]
    yield Metric("vgpr_pool", machine.vgpr_total.get(wave), "registers", "derived")
    yield Metric("lds_pool", pool, "bytes", "derived")
    try:
        figures = metrics(machine, kernel_demand, stated)
    except KinspectError as error:
        yield from _unknown(error.message, stated)
        return
    if kernel_demand.waves_from == "largest":
        figures = _for_the_largest(figures, kernel_demand)
    yield from figures.values()


def _for_the_largest(figures: dict[str, Metric], kernel_demand: Demand) -> dict[str, Metric]:
    """Marks figures that rest on the largest workgroup allowed: the launch is not known.

    Whether that workgroup fits at all, and what would let another in, says nothing about the real
    launch and is unknown.
    """
    waves = kernel_demand.waves_per_workgroup
    note = f"if launched with {waves} waves, the most that the kernel allows"
    groups = figures["occupancy.workgroups_per_cu"].value
    if groups is None:
        return figures
    fits = bool(groups)
    marked = dict(figures)
    for name in _BY_WORKGROUP:
        keep = fits and name != "occupancy.next_step"
        why = note if fits else "the largest workgroup allowed does not fit; pass --waves"
        value = figures[name].value if keep else None
        marked[name] = replace(figures[name], value=value, origin="estimated", note=why)
    return marked


def demand(subject: Subject) -> Demand:
    """What one workgroup of the kernel asks for.

    The register count is what the hardware is asked for (`NumVGPRsForWavesPerEU`,
    `.amdhsa_next_free_vgpr`, or the kernel descriptor), which `waves_per_eu` can inflate over what
    the code uses.
    """
    resources, facts = subject.function.resources, subject.facts
    stated = {
        metric.name: metric
        for metric in (
            launch.workgroup_size(subject),
            launch.wave_size(subject),
            launch.lds_bytes(subject),
        )
    }
    group, wave = int_of(stated, "workgroup_size"), int_of(stated, "wave_size")
    waves = -(-group // wave) if group is not None and wave is not None else None
    requested = next(
        (
            v
            for v in (
                resources.vgprs_for_waves,
                resources.next_free_vgpr,
                resources.vgprs_allocated,
                resources.vgpr_count,
            )
            if v is not None
        ),
        None,
    )
    in_cu = facts.cu_mode if facts.cu_mode is not None else resources.wgp_mode is False
    if subject.machine is not None and subject.machine.eus_cu_mode is None:
        in_cu = True
    vgprs = (
        resources.arch_vgpr_count if resources.arch_vgpr_count is not None else resources.vgpr_count
    )
    agprs = resources.agpr_count or 0 if resources.arch_vgpr_count is not None else 0
    beyond = agprs_beyond(resources, subject.machine)
    if beyond is not None:
        vgprs, agprs = resources.accum_offset, beyond
    return Demand(
        vgprs=vgprs,
        agprs=agprs,
        sgprs=next(
            (
                v
                for v in (resources.sgprs_for_waves, resources.sgpr_count, resources.next_free_sgpr)
                if v is not None
            ),
            None,
        ),
        lds_bytes=int_of(stated, "lds_bytes"),
        waves_per_workgroup=waves,
        wave_size=wave,
        cu_mode=in_cu,
        llvm=facts.llvm,
        vgprs_requested=requested,
        compiler_lds=resources.lds_bytes,
        option_given=bool(facts.options.get("waves_per_eu")),
        lds_from=launch.lds_origin(subject, stated["lds_bytes"]),
        waves_from=(
            launch.waves_origin(subject, stated["workgroup_size"]) if waves is not None else None
        ),
    )


def _unknown(why: str, stated: int | None) -> Iterable[Metric]:
    for spec in SPECS:
        if spec.name == "occupancy.compiler" and stated is not None:
            yield Metric(spec.name, stated, spec.unit, "compiler")
        else:
            yield Metric(spec.name, None, spec.unit, spec.origin, why)
