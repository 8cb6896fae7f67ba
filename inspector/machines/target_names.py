"""Names of targets as files and drivers write them."""

from __future__ import annotations


def base_arch(arch: str) -> str:
    """The bare gfx name of a target: `amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-` -> `gfx942`."""
    return arch.strip().partition(":")[0].rpartition("-")[2].lower()
