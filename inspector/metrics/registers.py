"""Registers, spills, scratch and code size, as the compiler states them or derived from others.

Precedence: the code object's metadata, then the `.amdhsa_*` directives or kernel descriptor, then
resource comments. A figure that is computed from others is `derived`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Machine, Metric, Resources
from .entries import of_kernels
from .subject import NOT_ALL_READ, Subject

SPECS = (
    *of_kernels(
        {
            "vgpr_count": "registers | VGPRs used per lane, AGPRs included on unified register "
            "files",
        },
        "compiler",
    ),
    *of_kernels(
        {
            "vgpr_allocated": "registers | VGPRs that the hardware sets aside per lane: "
            "next_free_vgpr rounded up to the allocation granule; what occupancy rests on",
            "vgpr_limit": "registers | Most VGPRs that one lane can address here",
        }
    ),
    *of_kernels(
        {
            "arch_vgpr_count": "registers | Architectural VGPRs used per lane",
            "agpr_count": "registers | Accumulation VGPRs used per lane",
            "sgpr_count": "registers | SGPRs used per wave, VCC included",
            "vgpr_spill_count": "registers | VGPRs spilled, in total",
            "sgpr_spill_count": "registers | SGPRs spilled, in total",
            "scratch_bytes": "bytes | Private (scratch) memory per work-item",
            "code_bytes": "bytes | Size of the kernel's machine code",
        },
        "compiler",
    ),
    *of_kernels(
        {
            "instruction_count": "instructions | Instructions in the kernel's code, counted once "
            "each",
            "empty": "bool | True if the kernel neither loads, stores nor computes: it compiled "
            "to nothing",
        }
    ),
)

_NOT_STATED = "the file does not say"


def compute(subject: Subject) -> Iterator[Metric]:
    """The metrics of `SPECS`."""
    resources, machine = subject.function.resources, subject.machine
    yield _vgpr_count(resources, machine)
    yield _vgpr_allocated(resources, machine)
    yield Metric(
        "vgpr_limit", machine.vgpr_addressable if machine else None, "registers", "derived"
    )
    yield _stated("arch_vgpr_count", _arch_vgprs(resources, machine), "registers")
    yield _agpr_count(resources, machine)
    sgprs = first_known(resources.sgpr_count, resources.sgprs_for_waves, resources.next_free_sgpr)
    yield _stated("sgpr_count", sgprs, "registers")
    yield _stated("vgpr_spill_count", resources.vgpr_spill_count, "registers")
    yield _stated("sgpr_spill_count", resources.sgpr_spill_count, "registers")
    yield _scratch_bytes(resources)
    yield _stated("code_bytes", resources.code_bytes, "bytes")
    count = len(subject.function.instructions)
    if count:
        yield Metric("instruction_count", count, "instructions", "derived")
        empty = _is_empty(subject)
        if empty and not subject.function.all_read:
            yield Metric("empty", None, "bool", "derived", NOT_ALL_READ)
        else:
            yield Metric("empty", empty, "bool", "derived")
    else:
        yield Metric("instruction_count", None, "instructions", "derived", "no code was read")
        yield Metric("empty", None, "bool", "derived", "no code was read")


_WORK = {
    "global_load", "global_store", "atomic", "lds_read", "lds_write", "lds_direct", "mfma", "wmma",
    "scratch_store", "scratch_load", "image", "export", "smem_store",
}  # fmt: skip


def _is_empty(subject: Subject) -> bool:
    """Whether nothing is observable: no memory is touched and no other function is called."""
    function = subject.function
    return not function.calls and not any(i.cls in _WORK for i in function.instructions)


def _stated(name: str, value: int | None, unit: str) -> Metric:
    return Metric(name, value, unit, "compiler", "" if value is not None else _NOT_STATED)


def first_known(*values: int | None) -> int | None:
    """The first of several figures that is known."""
    return next((value for value in values if value is not None), None)


def _scratch_bytes(resources: Resources) -> Metric:
    stated = resources.scratch_bytes
    if not resources.uses_dynamic_stack:
        return _stated("scratch_bytes", stated, "bytes")
    note = "the kernel's stack is dynamic"
    if stated is not None:
        note = f"at least {stated} bytes; {note}"
    return Metric("scratch_bytes", None, "bytes", "compiler", note)


def agprs_beyond(resources: Resources, machine: Machine | None) -> int | None:
    """AGPRs of a unified file that `.vgpr_count` leaves out; None where it has them all.

    LLVM counts both kinds there. Tensile writes the architectural VGPRs alone and no `.agpr_count`:
    the request reaches past accum_offset, where AGPRs start, and the count does not. From a
    descriptor, whose figure is rounded up, the number is an upper limit.
    """
    if machine is None or machine.agpr != "unified" or resources.agpr_count == 0:
        return None
    requested = (
        resources.next_free_vgpr
        if resources.next_free_vgpr is not None
        else resources.vgprs_allocated
    )
    counted, start = resources.vgpr_count, resources.accum_offset
    if requested is None or counted is None or start is None or counted > start:
        return None
    granule = max(machine.vgpr_encoding_granule.values())
    return requested - start if requested > -(-start // granule) * granule else None


def _arch_vgprs(resources: Resources, machine: Machine | None) -> int | None:
    if resources.arch_vgpr_count is not None:
        return resources.arch_vgpr_count
    if agprs_beyond(resources, machine) is not None:
        return resources.vgpr_count
    if machine is not None and machine.agpr == "none":
        return resources.vgpr_count
    if resources.agpr_count == 0 and resources.vgpr_count is not None:
        return resources.vgpr_count
    return None


def _agpr_count(resources: Resources, machine: Machine | None) -> Metric:
    if resources.agpr_count is None and machine is not None and machine.agpr == "none":
        note = f"{machine.arch} has no AGPRs"
        return Metric("agpr_count", 0, "registers", "derived", note)
    return _stated("agpr_count", resources.agpr_count, "registers")


def _vgpr_count(resources: Resources, machine: Machine | None) -> Metric:
    """Registers of the file that a lane uses."""
    beyond = agprs_beyond(resources, machine)
    if beyond is not None:
        total = (resources.accum_offset or 0) + beyond
        note = (
            f"the metadata's {resources.vgpr_count} leaves out the AGPRs, which start at "
            f"{resources.accum_offset}: {total} are asked for"
        )
        return Metric("vgpr_count", total, "registers", "derived", note)
    if resources.vgpr_count is not None:
        return _stated("vgpr_count", resources.vgpr_count, "registers")
    arch, agpr = resources.arch_vgpr_count, resources.agpr_count
    if arch is not None and (machine is None or machine.agpr == "none"):
        return _stated("vgpr_count", arch, "registers")
    if arch is not None and agpr is not None and machine is not None:
        total = unified(arch, agpr) if machine.agpr == "unified" else max(arch, agpr)
        return Metric("vgpr_count", total, "registers", "derived", "from VGPRs and AGPRs")
    return _stated("vgpr_count", resources.next_free_vgpr, "registers")


def unified(arch_vgprs: int, agprs: int) -> int:
    """Registers of a unified file: AGPRs start at a multiple of 4 (LLVM's getTotalNumVGPRs)."""
    return (arch_vgprs + 3) // 4 * 4 + agprs if agprs else arch_vgprs


def _vgpr_allocated(resources: Resources, machine: Machine | None) -> Metric:
    """Registers that the hardware allocates for a lane."""
    unit, name = "registers", "vgpr_allocated"
    requested = first_known(
        resources.vgprs_for_waves,
        resources.next_free_vgpr,
        resources.vgprs_allocated,
        resources.vgpr_count,
    )
    if requested is None:
        return Metric(name, None, unit, "derived", _NOT_STATED)
    if machine is None:
        return Metric(name, None, unit, "derived", "the target's granule is unknown")
    wave = resources.wave_size or machine.wave_sizes[0]
    granule = machine.vgpr_granule.get(wave)
    if granule is None:
        return Metric(name, None, unit, "derived", f"{machine.arch} has no wave{wave}")
    return Metric(name, max(1, -(-requested // granule)) * granule, unit, "derived")
