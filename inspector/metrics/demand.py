"""The kernel's demand on a CU: a launch's waves, workgroup and LDS, and the occupancy.

Triton's LDS is invisible to LLVM: it is dynamic, so the code object states 0, and the real figure
stands in Triton's metadata (`shared`) or the TTGIR (`ttg.shared`). Where the file states 0 but the
code accesses LDS and nothing else states the figure, it is unknown. The same holds where the
metadata says that the launch adds LDS; the static part is a lower bound then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from ..base.errors import KinspectError
from ..model import Demand, Instruction, LaunchOrigin, LdsOrigin, Metric, int_of
from .entries import of_kernels
from .occupancy import SPECS as OCCUPANCY
from .occupancy import metrics
from .registers import agprs_beyond, first_known
from .subject import NOT_ALL_READ, KernelCode, Subject

LAUNCH_SPECS = (
    *of_kernels(
        {
            "wave_size": "lanes | Work-items per wave: 32 or 64",
            "workgroup_size": "work-items | Work-items per workgroup at launch",
        },
        "compiler",
    ),
    *of_kernels(
        {
            "waves_per_workgroup": "waves | Waves per workgroup",
        }
    ),
    *of_kernels(
        {
            "lds_bytes": "bytes | LDS per workgroup, dynamic included",
        },
        "compiler",
    ),
    *of_kernels(
        {
            "lds_limit": "bytes | Most LDS that one workgroup may have here",
        }
    ),
)

_LDS_ACCESS = {"lds_read", "lds_write", "lds_direct", "lds_direct_store", "lds_atomic"}
_MAY_ACCESS_LDS = _LDS_ACCESS | {"bvh", "unknown"}
_MAY_LEAD_TO_LDS = {"flat", "call", "indirect"}


def launch_metrics(subject: Subject) -> Iterator[Metric]:
    """The metrics of `LAUNCH_SPECS`."""
    wave = wave_size(subject)
    group = workgroup_size(subject)
    yield wave
    yield group
    if isinstance(wave.value, int) and isinstance(group.value, int):
        yield Metric(
            "waves_per_workgroup",
            -(-group.value // wave.value),
            "waves",
            "derived" if group.origin == "compiler" else group.origin,
            group.note,
        )
    else:
        yield Metric("waves_per_workgroup", None, "waves", "derived", group.note or wave.note)
    yield lds_bytes(subject)
    machine = subject.machine
    yield Metric("lds_limit", machine.lds_max if machine else None, "bytes", "derived")


def wave_size(subject: KernelCode) -> Metric:
    """Lanes of a wave, as stated or as the only size of the target."""
    size, machine = subject.function.resources.wave_size, subject.machine
    if size is not None:
        return Metric("wave_size", size, "lanes", "compiler")
    if machine is not None and len(machine.wave_sizes) == 1:
        return Metric("wave_size", machine.wave_sizes[0], "lanes", "derived")
    return Metric("wave_size", None, "lanes", "compiler", "the file does not say")


def workgroup_size(subject: KernelCode) -> Metric:
    """Work-items of a workgroup; an estimate where only the largest size is known."""
    resources, facts = subject.function.resources, subject.facts
    unit, name = "work-items", "workgroup_size"
    if facts.workgroup_size is not None:
        return Metric(name, facts.workgroup_size, unit, "compiler")
    if resources.reqd_workgroup_size is not None:
        x, y, z = resources.reqd_workgroup_size
        return Metric(name, x * y * z, unit, "compiler")
    if resources.max_workgroup_size is not None:
        note = "the largest workgroup that the kernel allows; the launch may use fewer (--waves)"
        return Metric(name, resources.max_workgroup_size, unit, "estimated", note)
    return Metric(name, None, unit, "compiler", "the file does not say; pass --waves")


def lds_bytes(subject: KernelCode) -> Metric:
    """LDS of a workgroup, or why it is unknown."""
    facts, stated = subject.facts, subject.function.resources.lds_bytes
    if facts.lds_bytes is not None:
        return Metric("lds_bytes", facts.lds_bytes, "bytes", "compiler", facts.lds_note)
    if subject.function.resources.dynamic_lds:
        note = "the launch adds dynamic LDS; pass --lds BYTES"
        note = f"at least {stated} bytes, and {note}" if stated else note
        return Metric("lds_bytes", None, "bytes", "compiler", note)
    code = subject.function.instructions
    if not subject.function.all_read and not stated:
        note = f"{NOT_ALL_READ}, which may access LDS; pass --lds"
        return Metric("lds_bytes", None, "bytes", "compiler", note)
    if stated is None:
        if code and not subject.function.calls and not any(map(_may_access_lds, code)):
            return Metric("lds_bytes", 0, "bytes", "derived", "the code never accesses LDS")
        return Metric("lds_bytes", None, "bytes", "compiler", "the file does not say; pass --lds")
    if stated == 0:
        if not code:
            note = "the file says 0, which hides dynamic LDS; pass --lds"
            return Metric("lds_bytes", None, "bytes", "compiler", note)
        if any(i.cls in _LDS_ACCESS for i in code):
            note = "the file says 0 but the code accesses LDS: it is dynamic; pass --lds BYTES"
            return Metric("lds_bytes", None, "bytes", "compiler", note)
    return Metric("lds_bytes", stated, "bytes", "compiler")


def lds_origin(subject: KernelCode, metric: Metric) -> LdsOrigin | None:
    """The origin of a workgroup's LDS in `lds_bytes`; None where it is unknown."""
    if metric.value is None:
        return None
    if subject.facts.lds_bytes is not None:
        return subject.facts.lds_from
    return "code" if metric.origin == "derived" else "file"


def waves_origin(subject: KernelCode, metric: Metric) -> LaunchOrigin | None:
    """The origin of a workgroup's size in `workgroup_size`; None where it is unknown."""
    if metric.value is None:
        return None
    if subject.facts.workgroup_size is not None:
        return subject.facts.waves_from
    return "largest" if metric.origin == "estimated" else "file"


def _may_access_lds(instruction: Instruction) -> bool:
    """Whether an instruction may access LDS, by a generic address or in code it calls."""
    return instruction.cls in _MAY_ACCESS_LDS or not _MAY_LEAD_TO_LDS.isdisjoint(
        instruction.op.traits
    )


# --------------------------------------------------------------------------- occupancy

OCCUPANCY_SPECS = (
    *OCCUPANCY,
    *of_kernels(
        {
            "vgpr_pool": "registers | VGPRs that the waves of a SIMD share",
            "lds_pool": "bytes | LDS that resident workgroups share",
        }
    ),
)

# Figures that depend on the size of the workgroup.
_BY_WORKGROUP = (
    "occupancy.waves_per_eu",
    "occupancy.workgroups_per_cu",
    "occupancy.limiter",
    "occupancy.by_lds",
    "occupancy.by_workgroups",
    "occupancy.next_step",
)


def occupancy_metrics(subject: Subject) -> Iterator[Metric]:
    """The `occupancy.*` metrics; None with a note where the target or a figure is unknown."""
    machine, stated = subject.machine, subject.function.resources.occupancy
    if machine is None:
        yield from _unknown("the target is unknown", stated)
        return
    kernel_demand = subject.demand
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
    """Marks figures that depend on the largest workgroup allowed: the launch is not known."""
    waves = kernel_demand.waves_per_workgroup
    note = f"if launched with {waves} waves, the most that the kernel allows"
    groups = figures["occupancy.workgroups_per_cu"].value
    if groups is None:
        return figures
    has_room = bool(groups)
    marked = dict(figures)
    for name in _BY_WORKGROUP:
        is_valid = has_room and name != "occupancy.next_step"
        reason = note if has_room else "the largest workgroup allowed does not fit; pass --waves"
        value = figures[name].value if is_valid else None
        marked[name] = replace(figures[name], value=value, origin="estimated", note=reason)
    return marked


def demand(subject: KernelCode) -> Demand:
    """The demand of one workgroup of the kernel.

    The register count is the one requested of the hardware (`NumVGPRsForWavesPerEU`,
    `.amdhsa_next_free_vgpr`, or the kernel descriptor), which `waves_per_eu` can inflate over the
    registers that the code uses.
    """
    resources, facts = subject.function.resources, subject.facts
    sizes = (workgroup_size(subject), wave_size(subject), lds_bytes(subject))
    stated = {metric.name: metric for metric in sizes}
    group, wave = int_of(stated, "workgroup_size"), int_of(stated, "wave_size")
    waves = -(-group // wave) if group is not None and wave is not None else None
    in_cu = facts.cu_mode if facts.cu_mode is not None else resources.wgp_mode is False
    if subject.machine is not None and subject.machine.eus_cu_mode is None:
        in_cu = True
    vgprs, agprs = _registers(subject)
    return Demand(
        vgprs=vgprs,
        agprs=agprs,
        sgprs=first_known(
            resources.sgprs_for_waves, resources.sgpr_count, resources.next_free_sgpr
        ),
        lds_bytes=int_of(stated, "lds_bytes"),
        waves_per_workgroup=waves,
        wave_size=wave,
        cu_mode=in_cu,
        llvm=facts.llvm,
        vgprs_requested=first_known(
            resources.vgprs_for_waves,
            resources.next_free_vgpr,
            resources.vgprs_allocated,
            resources.vgpr_count,
        ),
        compiler_lds=resources.lds_bytes,
        option_given=bool(facts.options.get("waves_per_eu")),
        lds_from=lds_origin(subject, stated["lds_bytes"]),
        waves_from=(waves_origin(subject, stated["workgroup_size"]) if waves is not None else None),
    )


def _registers(subject: KernelCode) -> tuple[int | None, int]:
    """VGPRs (all registers of the file where only their sum is stated), and AGPRs."""
    resources = subject.function.resources
    beyond = agprs_beyond(resources, subject.machine)
    if beyond is not None:
        return resources.accum_offset, beyond
    if resources.arch_vgpr_count is not None:
        return resources.arch_vgpr_count, resources.agpr_count or 0
    return resources.vgpr_count, 0


def _unknown(why: str, stated: int | None) -> Iterable[Metric]:
    for spec in OCCUPANCY_SPECS:
        if spec.name == "occupancy.compiler" and stated is not None:
            yield Metric(spec.name, stated, spec.unit, "compiler")
        else:
            yield Metric(spec.name, None, spec.unit, spec.origin, why)
