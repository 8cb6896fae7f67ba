"""The kernel descriptor: the 64 bytes that the hardware is programmed from when a kernel starts.

Layout: `AMDHSAKernelDescriptor.h` of LLVM and "User Guide for AMDGPU Backend", "Kernel Descriptor".
"""

from __future__ import annotations

import struct

from msgspec import Struct

from ...model import WaveStart
from ..launch import from_descriptor
from .eflags import Encoding

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
