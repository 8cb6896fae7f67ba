"""The gfx name and features in the `e_flags` and target string of an AMDGPU code object.

Sources: LLVM's `BinaryFormat/ELF.h` (EF_AMDGPU_*) and "User Guide for AMDGPU Backend", sections
"ELF Header" and "Kernel Descriptor"; granules are `IsaInfo::getVGPREncodingGranule` and
`getSGPREncodingGranule` of LLVM 22.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

_MACH_MASK = 0xFF
_GENERIC_VERSION_SHIFT = 24


class Encoding(Struct, frozen=True):
    """The packing of the kernel descriptors of a family of targets.

    Args:
        vgpr_granule: wave size -> VGPRs per step of the granulated count.
        sgpr_granule: SGPRs per step; None where the field is reserved and SGPRs are fixed.
        accum_offset: rsrc3 says where the AGPRs start in a unified register file.
        agprs: the target has AGPRs, in a unified or a separate file.
        wave32: the wave size is chosen by a property bit; without it a wave has 64 lanes.
        wgp_mode: rsrc1 has the WGP mode bit.
        kernarg_preload: the descriptor's preload specification is in use.
        vgpr_bits: width of the granulated VGPR count.
        true16: 16-bit instructions name halves of VGPRs. LLVM 22 decodes them on gfx12 only when
            told so (`+real-true16`), although Triton 3.9's LLVM emits them.
    """

    vgpr_granule: Mapping[int, int]
    sgpr_granule: int | None = None
    accum_offset: bool = False
    agprs: bool = False
    wave32: bool = True
    wgp_mode: bool = True
    kernarg_preload: bool = False
    vgpr_bits: int = 6
    true16: bool = False


class Processor(Struct, frozen=True):
    """A processor: its `e_flags` number, gfx name and descriptor encoding."""

    mach: int
    name: str
    encoding: Encoding


_GCN = Encoding(MappingProxyType({64: 4}), sgpr_granule=8, wave32=False, wgp_mode=False)
_GFX908 = Encoding(
    MappingProxyType({64: 4}), sgpr_granule=8, agprs=True, wave32=False, wgp_mode=False
)
_GFX90A = Encoding(
    MappingProxyType({64: 8}),
    sgpr_granule=8,
    accum_offset=True,
    agprs=True,
    wave32=False,
    wgp_mode=False,
    kernarg_preload=True,
)
_RDNA = Encoding(MappingProxyType({32: 8, 64: 4}))
_RDNA3 = Encoding(MappingProxyType({32: 8, 64: 4}), true16=True)
# gfx1250 addresses 1024 VGPRs, so a step is worth 16 of them; bit 29 of rsrc1 must be 0 there.
_GFX125 = Encoding(MappingProxyType({32: 16}), wgp_mode=False, kernarg_preload=True, true16=True)
# gfx13 widens the count to 7 bits. Its granule is not published; None rather than a guess.
_GFX13 = Encoding(MappingProxyType({}), vgpr_bits=7, true16=True)

_FAMILIES: tuple[tuple[Encoding, str], ...] = (
    (
        _GCN,
        "20:gfx600 21:gfx601 22:gfx700 23:gfx701 24:gfx702 25:gfx703 26:gfx704 28:gfx801 "
        "29:gfx802 2a:gfx803 2b:gfx810 2c:gfx900 2d:gfx902 2e:gfx904 2f:gfx906 31:gfx909 "
        "32:gfx90c 3a:gfx602 3b:gfx705 3c:gfx805 51:gfx9-generic",
    ),
    (_GFX908, "30:gfx908"),
    # 40 and 4b were gfx940 and gfx941 until LLVM 20 dropped these pre-production parts.
    (_GFX90A, "3f:gfx90a 40:gfx940 4b:gfx941 4c:gfx942 4f:gfx950 5f:gfx9-4-generic"),
    (
        _RDNA,
        "33:gfx1010 34:gfx1011 35:gfx1012 36:gfx1030 37:gfx1031 38:gfx1032 39:gfx1033 3d:gfx1035 "
        "3e:gfx1034 42:gfx1013 45:gfx1036 52:gfx10-1-generic 53:gfx10-3-generic",
    ),
    (
        _RDNA3,
        "41:gfx1100 43:gfx1150 44:gfx1103 46:gfx1101 47:gfx1102 48:gfx1200 4a:gfx1151 4e:gfx1201 "
        "54:gfx11-generic 55:gfx1152 58:gfx1153 59:gfx12-generic 5c:gfx1172 5d:gfx1170 5e:gfx1171",
    ),
    (_GFX125, "49:gfx1250 5a:gfx1251 5b:gfx12-5-generic"),
    (_GFX13, "50:gfx1310"),
)


def _targets() -> tuple[Processor, ...]:
    return tuple(
        Processor(int(mach, 16), name, encoding)
        for encoding, entries in _FAMILIES
        for mach, name in (entry.split(":") for entry in entries.split())
    )


TARGETS: tuple[Processor, ...] = _targets()
_BY_MACH: Mapping[int, Processor] = MappingProxyType({t.mach: t for t in TARGETS})
_BY_NAME: Mapping[str, Processor] = MappingProxyType({t.name: t for t in TARGETS})

# (name, shift) of the two-bit settings of code object v4 and later: 0 unsupported, 1 any, 2 off,
# 3 on. In v3 the lower bit alone says "on".
_SETTINGS = (("sramecc", 10), ("xnack", 8))
_V3_SETTINGS = (("sramecc", 0x200), ("xnack", 0x100))
_SIGN: Mapping[int, str] = MappingProxyType({2: "-", 3: "+"})

# EI_ABIVERSION of ELFOSABI_AMDGPU_HSA -> code object version.
ABI_VERSIONS: Mapping[int, int] = MappingProxyType({0: 2, 1: 3, 2: 4, 3: 5, 4: 6})

_ARCH = re.compile(r"gfx[0-9a-f]+|gfx\d+(?:-\d+)?-generic")


def target_of(arch: str | None) -> Processor | None:
    """The target named `arch` (`gfx942`, `gfx9-4-generic`), or None where it is not known."""
    return _BY_NAME.get(arch) if arch is not None else None


def arch_of_flags(e_flags: int) -> str | None:
    """The gfx name in an AMDGPU ELF's `e_flags`; None for a number that is not known."""
    target = _BY_MACH.get(e_flags & _MACH_MASK)
    return target.name if target else None


def mach_of_flags(e_flags: int) -> int:
    """The EF_AMDGPU_MACH number in `e_flags`, known or not."""
    return e_flags & _MACH_MASK


def features_of_flags(e_flags: int, version: int | None) -> tuple[str, ...]:
    """The settings that `e_flags` fixes, as in a target id: `("sramecc+", "xnack-")`.

    A feature that the target lacks, or that is compiled for any setting, does not appear.
    """
    if version is None or version < 3:
        return ()
    if version == 3:
        return tuple(f"{name}+" for name, bit in _V3_SETTINGS if e_flags & bit)
    signs = ((name, _SIGN.get(e_flags >> shift & 3)) for name, shift in _SETTINGS)
    return tuple(f"{name}{sign}" for name, sign in signs if sign is not None)


def generic_version_of_flags(e_flags: int, version: int | None) -> int | None:
    """The version of a generic target (code object v6 and later); None where there is none."""
    if version is None or version < 6:
        return None
    return e_flags >> _GENERIC_VERSION_SHIFT & 0xFF or None


def split_target(text: str) -> tuple[str | None, tuple[str, ...]]:
    """Split a target string or offload triple into its gfx name and features.

    >>> split_target("amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-")
    ('gfx90a', ('sramecc+', 'xnack-'))
    >>> split_target("hipv4-amdgcn-amd-amdhsa--gfx9-4-generic")
    ('gfx9-4-generic', ())
    """
    processor, *features = text.split(":")
    start = processor.rfind("gfx")
    arch = processor[start:] if start >= 0 else ""
    if not _ARCH.fullmatch(arch):
        return None, ()
    return arch, tuple(f for f in features if f[-1:] in ("+", "-"))
