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
    n = note or KernelNote()
    d = descriptor
    disagreements = [*n.problems, *problems]
    if note is None:
        disagreements.append("the kernel has a descriptor but is missing from the metadata")
    if d is None:
        disagreements.append("the kernel is in the metadata but has no descriptor")
    else:
        disagreements.extend(_contradictions(n, d))
        disagreements.extend(_register_contradictions(n, d, encoding))
    return Resources(
        vgpr_count=n.vgpr_count,
        agpr_count=n.agpr_count,
        accum_offset=d.accum_offset if d else None,
        vgprs_allocated=d.vgprs_allocated if d else None,
        sgpr_count=n.sgpr_count,
        vgpr_spill_count=n.vgpr_spill_count,
        sgpr_spill_count=n.sgpr_spill_count,
        scratch_bytes=d.scratch_bytes if d else n.scratch_bytes,
        lds_bytes=d.lds_bytes if d else n.lds_bytes,
        dynamic_lds=n.dynamic_lds,
        pointers=n.pointers,
        group_size_offset=n.group_size_offset,
        kernarg_bytes=_first_stated(n.kernarg_bytes, d.kernarg_bytes if d else None),
        wave_size=_first_stated(d.wave_size if d else None, n.wave_size),
        max_workgroup_size=n.max_workgroup_size,
        reqd_workgroup_size=n.reqd_workgroup_size,
        code_bytes=code_bytes,
        wgp_mode=_first_stated(d.wgp_mode if d else None, n.wgp_mode),
        private_segment_buffer=d.private_segment_buffer if d else None,
        uses_dynamic_stack=_first_stated(d.uses_dynamic_stack if d else None, n.uses_dynamic_stack),
        wave_start=d.wave_start if d else None,
        disagreements=tuple(disagreements),
    )


def _first_stated(*values: T | None) -> T | None:
    return next((v for v in values if v is not None), None)


def _round_up(value: int, granule: int) -> int:
    return -(-value // granule) * granule


def _contradictions(n: KernelNote, d: KernelDescriptor) -> Iterator[str]:
    pairs: tuple[tuple[str, object, object], ...] = (
        ("lds_bytes", n.lds_bytes, d.lds_bytes),
        ("scratch_bytes", n.scratch_bytes, d.scratch_bytes),
        ("kernarg_bytes", n.kernarg_bytes, d.kernarg_bytes or None),
        ("wave_size", n.wave_size, d.wave_size),
        ("wgp_mode", n.wgp_mode, d.wgp_mode),
        ("uses_dynamic_stack", n.uses_dynamic_stack, d.uses_dynamic_stack),
    )
    for name, in_note, in_descriptor in pairs:
        if in_note is not None and in_descriptor is not None and in_note != in_descriptor:
            yield f"{name}: the metadata says {in_note}, the descriptor {in_descriptor}"


def _register_contradictions(
    n: KernelNote, d: KernelDescriptor, encoding: Encoding | None
) -> Iterator[str]:
    """Contradictions about registers.

    The descriptor may allocate more than the metadata counts (`amdgpu-waves-per-eu` inflates the
    request), never less. In a unified file AGPRs start at accum_offset, a multiple of 4, so
    `.vgpr_count` is accum_offset plus the AGPRs where there are any.
    """
    v, a, s = n.vgpr_count, n.agpr_count, n.sgpr_count
    allocated, sgprs, accum = d.vgprs_allocated, d.sgprs_allocated, d.accum_offset
    if v is not None and allocated is not None and v > allocated:
        yield f"vgpr_count: the metadata says {v}, the descriptor allocates only {allocated}"
    if s is not None and sgprs is not None and s > sgprs:
        yield f"sgpr_count: the metadata says {s}, the descriptor allocates only {sgprs}"
    if v is None or encoding is None or not encoding.agprs:
        return
    if a is None:
        registers = f" (AGPRs start at {accum}, {allocated} are allocated)" if accum else ""
        yield f"agpr_count: the metadata does not say{registers}"
    if accum is None:
        return
    if a and v != accum + a:
        yield f"vgpr_count: the metadata says {v} with {a} AGPRs, which start at {accum}"
    elif a == 0 and v > accum:
        yield f"agpr_count: the metadata says 0 of {v} registers, but AGPRs start at {accum}"
    elif a is None and allocated is not None and v <= accum and _round_up(accum, 8) < allocated:
        yield (
            f"vgpr_count: the metadata says {v}, but {allocated} registers are allocated, "
            f"from {accum} on for AGPRs, which the count may leave out"
        )
