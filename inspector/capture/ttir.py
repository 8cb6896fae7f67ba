"""A saved TTIR or TTGIR file as a variant: the whole input of a compile but for the options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..errors import KinspectError
from ..model import Machine, Variant

_KERNEL = re.compile(r"^\s*tt\.func\s+public\s+@(?:\"([^\"]+)\"|([\w.$-]+))", re.M)
_TTGIR_ATTRIBUTE = re.compile(r"\"?\bttg\.([\w-]+)\"?\s*=\s*(?:\"([\w:-]+)\"|(-?\d+))")
_OLD_TTGIR = re.compile(r"\btriton_gpu\.")

ALWAYS = (
    "num_warps",
    "num_stages",
    "num_ctas",
    "waves_per_eu",
    "matrix_instr_nonkdim",
    "kpack",
    "enable_fp_fusion",
)
"""Options that every AMD backend from Triton 3.4 to 3.9 has, and that its metadata repeat."""
UNLESS_DEFAULT: Mapping[str, tuple[Any, ...]] = {
    "schedule_hint": ("none", ""),
    "allow_flush_denorm": (False,),
    "launch_cooperative_grid": (False,),
    "instrumentation_mode": ("",),
    "debug": (False,),
    "llvm_fn_attrs": ("", (), []),
    "wgp_cu_mode": ("wgp",),
    "fpsan_homomorphic_casts": (False,),
}
"""Options that some have, and the values that say nothing: those are not passed on, so that the
metadata of one version can be compiled with another. (`HIPOptions` of backends/amd/compiler.py.)
"""
OF_NVIDIA = ("num_warps", "num_stages", "num_ctas", "enable_fp_fusion", "debug")
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
    """The variant that a TTIR or TTGIR text is.

    Args:
        text: the module.
        path: its file, for errors.
        machine: the target to compile for.
        metadata: Triton's metadata from beside the file, whose options are used again.

    Raises:
        KinspectError: it holds no public function, so no kernel; what only NVIDIA's backend can
            compile; or TTGIR, whose layouts are one target's, for another.
    """
    names = [quoted or plain for quoted, plain in _KERNEL.findall(text)]
    if not names:
        raise KinspectError(f"{path}: no `tt.func public` in it", "pass a TTIR file made by Triton")
    facts = _ttgir_facts(text, path)
    is_ttgir = facts is not None
    made_for = _target(metadata) or (facts or {}).get("target")
    backend, _, arch = (made_for or "").partition(":")
    notes: tuple[str, ...] = ()
    if is_ttgir and made_for != f"hip:{machine.arch}":
        raise KinspectError(
            f"{path}: TTGIR for {made_for or 'a target it does not name'}, not {machine.arch}: its "
            "layouts are that target's",
            "pass the .ttir of the same kernel, or its source",
        )
    option_names: tuple[str, ...] = ALWAYS
    if backend and backend != "hip":
        _refuse_nvidia(text, path)
        option_names = OF_NVIDIA
        notes = (_from_nvidia(made_for or backend, metadata, machine),)
    elif arch and arch != machine.arch:
        notes = (
            f"TTIR that was made for {arch}, compiled for {machine.arch}: what the source chooses "
            f"by target is as for {arch}",
        )
    options = {k: metadata[k] for k in option_names if k in metadata} if metadata else {}
    if metadata and option_names is ALWAYS:
        options.update(
            {
                k: metadata[k]
                for k, silent in UNLESS_DEFAULT.items()
                if metadata.get(k, silent[0]) not in silent
            }
        )
    if facts is not None and "num-warps" in facts:
        options["num_warps"] = int(facts["num-warps"])
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


def compilable_ttgir(text: str) -> bool:
    """Whether TTGIR can be compiled on to code: for an AMD target, in today's dialect."""
    facts = dict(_attributes(text))
    return str(facts.get("target", "")).startswith("hip:") and _KERNEL.search(text) is not None


def _ttgir_facts(text: str, path: str) -> dict[str, str] | None:
    """The module's attributes if it is TTGIR; None of TTIR.

    Raises:
        KinspectError: it is TTGIR of a dialect that no supported Triton parses.
    """
    facts = dict(_attributes(text))
    if facts:
        return facts
    if _OLD_TTGIR.search(text):
        raise KinspectError(
            f"{path}: TTGIR in the dialect of Triton 3.1 and older (triton_gpu), which cannot be "
            "compiled by Triton 3.4 or newer",
            "pass the .ttir of the same kernel, or its source",
        )
    return None


def _attributes(text: str) -> list[tuple[str, str]]:
    start = text.find("module attributes")
    end = text.find("tt.func", start) if start >= 0 else -1
    if start < 0 or end < 0:
        return []
    attributes = _TTGIR_ATTRIBUTE.findall(text[start:end])
    return [(name, word or number) for name, word, number in attributes]


def _target(metadata: Mapping[str, Any] | None) -> str | None:
    stated = (metadata or {}).get("target")
    if not isinstance(stated, Mapping):
        return None
    if "backend" in stated:
        return f"{stated['backend']}:{stated.get('arch')}"
    return f"cuda:{stated['capability']}" if "capability" in stated else None


def _refuse_nvidia(text: str, path: str) -> None:
    for pattern, description in _NVIDIA_ONLY:
        match = pattern.search(text)
        if match:
            line = text.count("\n", 0, match.start()) + 1
            used = description.format(" ".join(match[1].split()))
            raise KinspectError(f"{path}:{line}: TTIR made for NVIDIA that {used}", FROM_SOURCE)


def _from_nvidia(made_for: str, metadata: Mapping[str, Any] | None, machine: Machine) -> str:
    warps = (metadata or {}).get("num_warps")
    wave = machine.wave_sizes[0]
    threads = ""
    if isinstance(warps, int) and wave != 32:
        threads = f", and its {warps} warps of 32 are {warps} waves of {wave} here"
    return (
        f"TTIR that was made for {made_for}: no pointer is marked as within 2 GB, which on AMD "
        f"would allow buffer instructions{threads}"
    )
