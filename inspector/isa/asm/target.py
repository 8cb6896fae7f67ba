"""The target that an assembly text names: gfx name and feature suffixes.

Figures of a machine live in `machines/`; here stand only the three facts that LLVM's assembler
itself uses when it evaluates `totalnumvgprs` and `extrasgprs`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

# "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-", "amdgpu9.42-amd-amdhsa-unknown-gfx942",
# "amdgcn-amd-amdhsa--gfx9-4-generic": the architecture is what starts with gfx.
_TARGET = re.compile(
    r"(?:^|[-\s\"'])(?P<arch>gfx\d+(?:-\d+)*-generic|gfx\d+[a-f]?(?![-\w]))"
    r"(?P<features>(?::\w+[+-])*)"
)
# The last two digits are minor version and stepping; generic targets leave them out.
_VERSION = re.compile(r"gfx(?:(\d{1,2})(?:-\d+)*-generic|(\d{1,2})\d[0-9a-f])$")

_NUMBERS = re.compile(r"gfx(\d{1,2})([0-9a-f])([0-9a-f])")

# FeatureGFX90AInsts: VGPRs and AGPRs share one file (LLVM's AMDGPU.td, FeatureISAVersion9_0_A on).
_UNIFIED = frozenset({"gfx90a", "gfx940", "gfx941", "gfx942", "gfx950", "gfx9-4-generic"})
# FeatureArchitectedFlatScratch among the gfx9 targets (the same file).
_ARCHITECTED_FLAT_SCRATCH = _UNIFIED - {"gfx90a"}
# Code object v2 had numbers of their own for "with XNACK" (AMDGPUUsage, "Code Object V2 Note
# Records"); LLVM 14 still writes them.
_V2_XNACK: Mapping[str, str] = MappingProxyType(
    {"gfx901": "gfx900", "gfx903": "gfx902", "gfx905": "gfx904", "gfx907": "gfx906"}
)


class AsmTarget(Struct, frozen=True):
    """A target by its string; fields are None or empty where nothing is known."""

    arch: str | None
    features: tuple[str, ...]
    major: int | None
    unified_registers: bool | None
    architected_flat_scratch: bool

    @property
    def symbols(self) -> Mapping[str, int]:
        """Symbols that the assembler predefines for the target (AMDGPUUsage,
        "Predefined Symbols").
        """
        digits = _NUMBERS.fullmatch(self.arch or "")
        if digits is None:
            return {}
        major, minor, stepping = digits.groups()
        return {
            ".amdgcn.gfx_generation_number": int(major),
            ".amdgcn.gfx_generation_minor": int(minor, 16),
            ".amdgcn.gfx_generation_stepping": int(stepping, 16),
        }

    @classmethod
    def unknown(cls) -> AsmTarget:
        """The target of a text that names none."""
        return cls(None, (), None, None, False)

    @classmethod
    def parse(cls, text: str) -> AsmTarget:
        """Reads a target id or triple such as `amdgcn-amd-amdhsa--gfx90a:xnack-`."""
        match = _TARGET.search(text)
        if match is None:
            return cls.unknown()
        arch = match["arch"]
        features = tuple(f for f in match["features"].split(":") if f)
        if arch in _V2_XNACK:
            arch, features = _V2_XNACK[arch], (*features, "xnack+")
        version = _VERSION.match(arch)
        major = int(version[1] or version[2]) if version is not None else None
        return cls(arch, features, major, arch in _UNIFIED, arch in _ARCHITECTED_FLAT_SCRATCH)

    @classmethod
    def from_isa_version(cls, major: int, minor: int, stepping: int) -> AsmTarget:
        """Reads the three numbers of `.hsa_code_object_isa` (code object v2)."""
        return cls.parse(f"gfx{major}{minor:x}{stepping:x}")
