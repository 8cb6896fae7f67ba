"""Statements of one kernel's resources, joined and compared: metadata note, kernel descriptor,
assembly.

`join` takes a code object's metadata note and kernel descriptor, `compare` the figures of an
assembly text and of the code object made from it.

The kernel descriptor is the 64 bytes that the hardware is programmed from when a kernel starts.
Layout: `AMDHSAKernelDescriptor.h` of LLVM and "User Guide for AMDGPU Backend", "Kernel Descriptor".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TypeVar

from msgspec import Struct

from ...model import Resources, WaveStart
from ..launch import from_descriptor
from .amdnote import KernelNote
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


DESCRIPTOR_SIZE = 64

# lds, private, kernarg, -, entry, -, rsrc3, rsrc1, rsrc2, properties, preload, -
_LAYOUT = struct.Struct("<III4xq20xIIIHH4x")


class KernelDescriptor(Struct, frozen=True):
    """A decoded kernel descriptor. A field that the target does not have is None.

    Args:
        lds_bytes: static LDS per workgroup.
        scratch_bytes: private segment, bytes per lane.
        kernarg_bytes: size of the argument block; 0 where an old compiler left it out.
        entry_offset: the first instruction's address minus the descriptor's.
        wave_size: 32 or 64 lanes.
        vgprs_allocated: VGPRs (AGPRs included where unified), rounded up to the encoding granule.
        sgprs_allocated: SGPRs, rounded up; None where a wave always gets all of them.
        accum_offset: the number of the first AGPR in the unified file.
        tg_split: a workgroup's waves may spread over several CUs.
        wgp_mode: a workgroup's waves may spread over both CUs of a WGP.
        uses_dynamic_stack: the stack's size is not known before the kernel runs; code objects
            before v5 do not say.
        private_segment_buffer: s[0:3] hold the buffer resource of the scratch memory at the start.
        kernarg_preload_dwords: arguments that arrive in SGPRs, in 32-bit words.
        kernarg_preload_offset: their offset in the argument block, in 32-bit words.
        wave_start: the registers in which a wave starts.
    """

    lds_bytes: int
    scratch_bytes: int
    kernarg_bytes: int
    entry_offset: int
    wave_size: int | None
    vgprs_allocated: int | None
    sgprs_allocated: int | None
    accum_offset: int | None
    tg_split: bool | None
    wgp_mode: bool | None
    uses_dynamic_stack: bool | None
    private_segment_buffer: bool
    kernarg_preload_dwords: int | None
    kernarg_preload_offset: int | None
    wave_start: WaveStart


def decode_descriptor(
    raw: bytes, encoding: Encoding | None, version: int | None
) -> KernelDescriptor:
    """Decode the 64 bytes of `<kernel>.kd`.

    Args:
        raw: exactly 64 bytes.
        encoding: the packing for the target, from `eflags.target_of`; None for an unknown target,
            where the fields that depend on it are None.
        version: code object version; None where it is not known.
    """
    lds, scratch, kernarg, entry, rsrc3, rsrc1, rsrc2, properties, preload = _LAYOUT.unpack(raw)
    wave = _wave_size(properties, encoding)
    has_accum = encoding is not None and encoding.accum_offset
    has_wgp = encoding is not None and encoding.wgp_mode
    has_preload = encoding is not None and encoding.kernarg_preload
    return KernelDescriptor(
        lds_bytes=lds,
        scratch_bytes=scratch,
        kernarg_bytes=kernarg,
        entry_offset=entry,
        wave_size=wave,
        vgprs_allocated=_vgprs(rsrc1, wave, encoding),
        sgprs_allocated=_sgprs(rsrc1, encoding),
        accum_offset=(_bits(rsrc3, 0, 6) + 1) * 4 if has_accum else None,
        tg_split=bool(_bits(rsrc3, 16, 1)) if has_accum else None,
        wgp_mode=bool(_bits(rsrc1, 29, 1)) if has_wgp else None,
        uses_dynamic_stack=bool(_bits(properties, 11, 1)) if version and version >= 5 else None,
        private_segment_buffer=bool(_bits(properties, 0, 1)),
        kernarg_preload_dwords=_bits(preload, 0, 7) if has_preload else None,
        kernarg_preload_offset=_bits(preload, 7, 9) if has_preload else None,
        wave_start=from_descriptor(rsrc1, rsrc2, properties, preload if has_preload else 0),
    )


def _bits(word: int, shift: int, width: int) -> int:
    return word >> shift & (1 << width) - 1


def _wave_size(properties: int, encoding: Encoding | None) -> int | None:
    if encoding is None:
        return None
    return 32 if encoding.wave32 and _bits(properties, 10, 1) else 64


def _vgprs(rsrc1: int, wave: int | None, encoding: Encoding | None) -> int | None:
    if encoding is None or wave is None:
        return None
    granule = encoding.vgpr_granule.get(wave)
    return (_bits(rsrc1, 0, encoding.vgpr_bits) + 1) * granule if granule is not None else None


def _sgprs(rsrc1: int, encoding: Encoding | None) -> int | None:
    if encoding is None or encoding.sgpr_granule is None:
        return None
    return (_bits(rsrc1, 6, 4) + 1) * encoding.sgpr_granule
