"""Makes a variant of a saved TTIR or TTGIR file: a compile's whole input, except the options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..base.errors import KinspectError
from ..model import Machine, Variant
from .triton_entries import stated_target

_KERNEL = re.compile(r"^\s*tt\.func\s+public\s+@(?:\"([^\"]+)\"|([\w.$-]+))", re.M)
_TTGIR_ATTRIBUTE = re.compile(r"\"?\bttg\.([\w-]+)\"?\s*=\s*(?:\"([\w:-]+)\"|(-?\d+))")
_OLD_TTGIR = re.compile(r"\btriton_gpu\.")

COMMON_OPTIONS = (
    "num_warps",
    "num_stages",
    "num_ctas",
    "waves_per_eu",
    "matrix_instr_nonkdim",
    "kpack",
    "enable_fp_fusion",
)
"""Options of every AMD backend from Triton 3.4 to 3.9, which its metadata repeat."""
NEW_OPTIONS: Mapping[str, tuple[Any, ...]] = {
    "schedule_hint": ("none", ""),
    "allow_flush_denorm": (False,),
    "launch_cooperative_grid": (False,),
    "instrumentation_mode": ("",),
    "debug": (False,),
    "llvm_fn_attrs": ("", (), []),
    "wgp_cu_mode": ("wgp",),
    "fpsan_homomorphic_casts": (False,),
}
"""Option of some AMD backends -> its default values, which are not passed on, so that the metadata
of one version can be compiled with another (`HIPOptions` of backends/amd/compiler.py).
"""
NVIDIA_OPTIONS = ("num_warps", "num_stages", "num_ctas", "enable_fp_fusion", "debug")
"""Options of an NVIDIA compile that mean the same to the AMD backend."""

_NVIDIA_ONLY = (
    (re.compile(r"symbol = \"(__nv_\w+)\""), "calls NVIDIA's device library: {}"),
    (re.compile(r"(tt\.elementwise_inline_asm\s+\"[^\"]{0,40})"), "holds inline PTX: {}"),
    (re.compile(r"\b((?:ttng|nvgpu|nvvm|nvws)\.[\w.]+)"), "uses an operation of NVIDIA's: {}"),
    (re.compile(r"(tt\.experimental_tensormap_\w+)"), "uses an operation of NVIDIA's: {}"),
)
FROM_SOURCE = "analyse its .py source instead: there the front end specialises for the AMD target"


def variant_of(
    text: str, path: str, machine: Machine, metadata: Mapping[str, Any] | None
) -> Variant:
    """The variant of a TTIR or TTGIR text.

    Raises:
        KinspectError: it has no public function, needs NVIDIA's backend, or is TTGIR (whose layouts
            are for one target) for another target.
    """
    names = [quoted or plain for quoted, plain in _KERNEL.findall(text)]
    if not names:
        raise KinspectError(f"{path}: no `tt.func public` in it", "pass a TTIR file made by Triton")
    module_attributes = _ttgir_attributes(text, path)
    is_ttgir = module_attributes is not None
    stated = stated_target(metadata)
    compiled_for = f"{stated.backend}:{stated.arch}" if stated is not None else ""
    compiled_for = compiled_for or (module_attributes or {}).get("target") or ""
    if is_ttgir and compiled_for != f"hip:{machine.arch}":
        raise KinspectError(
            f"{path}: TTGIR for {compiled_for or 'a target it does not name'}, not {machine.arch}: "
            "its layouts are that target's",
            "pass the .ttir of the same kernel, or its source",
        )
    backend, _, arch = compiled_for.partition(":")
    is_nvidia = backend not in ("", "hip")
    notes: tuple[str, ...] = ()
    if is_nvidia:
        _refuse_nvidia(text, path)
        notes = (_nvidia_note(compiled_for, metadata, machine),)
    elif arch not in ("", machine.arch):
        notes = (_other_arch_note(arch, machine),)
    options = _options(metadata or {}, is_nvidia)
    if module_attributes is not None and "num-warps" in module_attributes:
        options["num_warps"] = int(module_attributes["num-warps"])
    # Triton compiles for the first of a machine's wave sizes: 64 on gfx9, 32 from gfx10 on.
    return Variant(
        kernel=names[0],
        arch=machine.arch,
        wave_size=machine.wave_sizes[0],
        ttir=text,
        options=options,
        notes=notes,
        stage="ttgir" if is_ttgir else "ttir",
    )


def _options(metadata: Mapping[str, Any], is_nvidia: bool) -> dict[str, Any]:
    names = NVIDIA_OPTIONS if is_nvidia else COMMON_OPTIONS
    options = {name: metadata[name] for name in names if name in metadata}
    if not is_nvidia:
        for name, defaults in NEW_OPTIONS.items():
            if metadata.get(name, defaults[0]) not in defaults:
                options[name] = metadata[name]
    return options


def compilable_ttgir(text: str) -> bool:
    """Whether TTGIR can be compiled to code: it is for an AMD target, and in today's dialect."""
    module_attributes = dict(_attributes(text))
    return (
        str(module_attributes.get("target", "")).startswith("hip:")
        and _KERNEL.search(text) is not None
    )


def _ttgir_attributes(text: str, path: str) -> dict[str, str] | None:
    module_attributes = dict(_attributes(text))
    if module_attributes:
        return module_attributes
    if _OLD_TTGIR.search(text):
        raise KinspectError(
            f"{path}: TTGIR in the dialect of Triton 3.1 and older (triton_gpu), which cannot be "
            "compiled by Triton 3.4 or newer",
            "pass the .ttir of the same kernel, or its source",
        )
    return None


def _attributes(text: str) -> list[tuple[str, str]]:
    """The attributes `ttg.*` of a module."""
    start = text.find("module attributes")
    end = text.find("tt.func", start) if start >= 0 else -1
    if start < 0 or end < 0:
        return []
    attributes = _TTGIR_ATTRIBUTE.findall(text[start:end])
    return [(name, word or number) for name, word, number in attributes]


def _refuse_nvidia(text: str, path: str) -> None:
    for pattern, description in _NVIDIA_ONLY:
        match = pattern.search(text)
        if match:
            line = text.count("\n", 0, match.start()) + 1
            used = description.format(" ".join(match[1].split()))
            raise KinspectError(f"{path}:{line}: TTIR made for NVIDIA that {used}", FROM_SOURCE)


def _other_arch_note(arch: str, machine: Machine) -> str:
    return (
        f"TTIR that was made for {arch}, compiled for {machine.arch}: what the source chooses "
        f"by target is as for {arch}"
    )


def _nvidia_note(compiled_for: str, metadata: Mapping[str, Any] | None, machine: Machine) -> str:
    warps = (metadata or {}).get("num_warps")
    wave = machine.wave_sizes[0]
    threads = ""
    if isinstance(warps, int) and wave != 32:
        threads = f", and its {warps} warps of 32 are {warps} waves of {wave} here"
    return (
        f"TTIR that was made for {compiled_for}: no pointer is marked as within 2 GB, which on AMD "
        f"would allow buffer instructions{threads}"
    )
