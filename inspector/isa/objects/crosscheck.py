"""Joins and compares two statements of one kernel's resources.

`join` takes a code object's metadata note and kernel descriptor, `compare` the figures of an
assembly text and of the code object made from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from ...model import Resources
from .amdnote import KernelNote
from .descriptor import KernelDescriptor
from .eflags import Encoding

T = TypeVar("T")

# Fields that the text and the code object state in the same sense.
_COMPARED = (
    "vgpr_count",
    "agpr_count",
    "accum_offset",
    "sgpr_count",
    "vgpr_spill_count",
    "sgpr_spill_count",
    "scratch_bytes",
    "lds_bytes",
    "kernarg_bytes",
    "wave_size",
    "max_workgroup_size",
    "reqd_workgroup_size",
    "wgp_mode",
    "uses_dynamic_stack",
    "private_segment_buffer",
)
# Granules that descriptors count VGPRs in (eflags.py); compare() knows no target.
_GRANULES = (4, 8, 16)


def compare(text_resources: Resources, binary_resources: Resources) -> tuple[str, ...]:
    """The contradictions between an assembly text and a code object about one kernel.

    Figures that either leaves out are not compared. `next_free_vgpr` of the text must round up to
    the descriptor's granulated count.

    Returns:
        One line per contradiction, `FIELD: the assembly text says X, the code object Y`.
    """
    contradictions = []
    for name in _COMPARED:
        text, binary = getattr(text_resources, name), getattr(binary_resources, name)
        if text is not None and binary is not None and text != binary:
            contradictions.append(
                f"{name}: the assembly text says {text}, the code object {binary}"
            )
    next_free, allocated = text_resources.next_free_vgpr, binary_resources.vgprs_allocated
    if next_free is not None and allocated is not None and not _rounds_to(next_free, allocated):
        contradictions.append(
            f"next_free_vgpr: the assembly text says {next_free}, "
            f"the code object's descriptor allocates {allocated}"
        )
    return tuple(contradictions)


def _rounds_to(next_free: int, allocated: int) -> bool:
    return any(_round_up(max(next_free, 1), granule) == allocated for granule in _GRANULES)


def join(
    note: KernelNote | None,
    descriptor: KernelDescriptor | None,
    encoding: Encoding | None,
    code_bytes: int | None,
    problems: tuple[str, ...] = (),
) -> Resources:
    """A kernel's resources from its metadata note and its descriptor.

    Where both state a figure the descriptor's is taken, which the hardware is programmed from. The
    size of the argument block is the exception: compilers before LLVM 11 left it 0 there.

    Args:
        note: the metadata's entry; None without one.
        descriptor: the decoded descriptor; None without one.
        encoding: the packing of the target's descriptors; None where it is not known.
        code_bytes: size of the kernel's symbol.
        problems: disagreements noticed before, which the result includes.
    """
    stated, d = note or KernelNote(), descriptor
    return Resources(
        vgpr_count=stated.vgpr_count,
        agpr_count=stated.agpr_count,
        accum_offset=d.accum_offset if d else None,
        vgprs_allocated=d.vgprs_allocated if d else None,
        sgpr_count=stated.sgpr_count,
        vgpr_spill_count=stated.vgpr_spill_count,
        sgpr_spill_count=stated.sgpr_spill_count,
        scratch_bytes=d.scratch_bytes if d else stated.scratch_bytes,
        lds_bytes=d.lds_bytes if d else stated.lds_bytes,
        dynamic_lds=stated.dynamic_lds,
        pointers=stated.pointers,
        group_size_offset=stated.group_size_offset,
        kernarg_bytes=_first_stated(stated.kernarg_bytes, d.kernarg_bytes if d else None),
        wave_size=_first_stated(d.wave_size if d else None, stated.wave_size),
        max_workgroup_size=stated.max_workgroup_size,
        reqd_workgroup_size=stated.reqd_workgroup_size,
        code_bytes=code_bytes,
        wgp_mode=_first_stated(d.wgp_mode if d else None, stated.wgp_mode),
        private_segment_buffer=d.private_segment_buffer if d else None,
        uses_dynamic_stack=_first_stated(
            d.uses_dynamic_stack if d else None, stated.uses_dynamic_stack
        ),
        wave_start=d.wave_start if d else None,
        disagreements=(*stated.problems, *problems, *_disagreements(note, descriptor, encoding)),
    )


def _disagreements(
    note: KernelNote | None, descriptor: KernelDescriptor | None, encoding: Encoding | None
) -> Iterator[str]:
    """Yields what the metadata and the descriptor of a kernel disagree in; see `join`."""
    if note is None:
        yield "the kernel has a descriptor but is missing from the metadata"
    if descriptor is None:
        yield "the kernel is in the metadata but has no descriptor"
    if note is not None and descriptor is not None:
        yield from _contradictions(note, descriptor)
        yield from _register_contradictions(note, descriptor, encoding)


def _first_stated(*values: T | None) -> T | None:
    return next((v for v in values if v is not None), None)


def _round_up(value: int, granule: int) -> int:
    return -(-value // granule) * granule


def _contradictions(note: KernelNote, descriptor: KernelDescriptor) -> Iterator[str]:
    pairs: tuple[tuple[str, object, object], ...] = (
        ("lds_bytes", note.lds_bytes, descriptor.lds_bytes),
        ("scratch_bytes", note.scratch_bytes, descriptor.scratch_bytes),
        ("kernarg_bytes", note.kernarg_bytes, descriptor.kernarg_bytes or None),
        ("wave_size", note.wave_size, descriptor.wave_size),
        ("wgp_mode", note.wgp_mode, descriptor.wgp_mode),
        ("uses_dynamic_stack", note.uses_dynamic_stack, descriptor.uses_dynamic_stack),
    )
    for name, in_note, in_descriptor in pairs:
        if in_note is not None and in_descriptor is not None and in_note != in_descriptor:
            yield f"{name}: the metadata says {in_note}, the descriptor {in_descriptor}"


def _register_contradictions(
    note: KernelNote, descriptor: KernelDescriptor, encoding: Encoding | None
) -> Iterator[str]:
    """Contradictions about registers.

    The descriptor may allocate more than the metadata counts (`amdgpu-waves-per-eu` inflates the
    request), never less. In a unified file AGPRs start at accum_offset, a multiple of 4, so
    `.vgpr_count` is accum_offset plus the AGPRs where there are any.
    """
    vgprs, agprs, sgprs = note.vgpr_count, note.agpr_count, note.sgpr_count
    allocated, first_agpr = descriptor.vgprs_allocated, descriptor.accum_offset
    sgprs_allocated = descriptor.sgprs_allocated
    if vgprs is not None and allocated is not None and vgprs > allocated:
        yield f"vgpr_count: the metadata says {vgprs}, the descriptor allocates only {allocated}"
    if sgprs is not None and sgprs_allocated is not None and sgprs > sgprs_allocated:
        yield (
            f"sgpr_count: the metadata says {sgprs}, "
            f"the descriptor allocates only {sgprs_allocated}"
        )
    if vgprs is None or encoding is None or not encoding.agprs:
        return
    if agprs is None:
        registers = f" (AGPRs start at {first_agpr}, {allocated} are allocated)"
        yield f"agpr_count: the metadata does not say{registers if first_agpr else ''}"
    if first_agpr is None:
        return
    if agprs and vgprs != first_agpr + agprs:
        yield (
            f"vgpr_count: the metadata says {vgprs} with {agprs} AGPRs, which start at {first_agpr}"
        )
    elif agprs == 0 and vgprs > first_agpr:
        yield (
            f"agpr_count: the metadata says 0 of {vgprs} registers, but AGPRs start at {first_agpr}"
        )
    elif (
        agprs is None
        and allocated is not None
        and vgprs <= first_agpr
        and _round_up(first_agpr, 8) < allocated
    ):
        yield (
            f"vgpr_count: the metadata says {vgprs}, but {allocated} registers are allocated, "
            f"from {first_agpr} on for AGPRs, which the count may leave out"
        )
