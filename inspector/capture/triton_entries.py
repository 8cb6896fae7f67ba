"""Kernels that Triton compiled: entries of its cache or of a dump, with one file per stage.

The code of an entry for an AMD target is read. For another target its TTIR is compiled again: that
is the compile's whole input, except for the parts that the front end specialised for the first
target, which the variant notes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..base.named_files import file_bytes, file_text, opened
from .targets import CODE_OBJECT, STAGES, Kind, Target, triton_metadata

GROUP_PREFIX = "__grp__"
"""Prefix of Triton's lists of an entry's files."""
CODE: tuple[tuple[str, Kind], ...] = (("amdgcn", "asm"), ("hsaco", "code_object"))
"""Stages with code, the more informative first."""
INPUTS: tuple[tuple[str, Kind], ...] = (("ttir", "ttir"), ("ttgir", "ttgir"))
"""Stages that can be compiled, the earlier first."""
ASM_END = b".end_amdgpu_metadata"
"""A line of every kernel's assembly after its last instruction, before the debug sections."""
_TTGIR_TARGET = re.compile(r"\bttg\.target\s*=\s*\"(\w+):(\w+)\"")
_ASM_TARGET = re.compile(r"\.amdgcn_target\s+\"[^\"]*--(gfx[0-9a-f]+)")
_TTGIR_WARPS = re.compile(r"\"(?:ttg|triton_gpu)\.num-warps\" = (\d+)")
_HEAD_BYTES = 1 << 20


class CompileTarget(Struct, frozen=True):
    """The target that an entry was compiled for: `hip` and `gfx942`, or `cuda` and `90`."""

    backend: str
    arch: str

    @property
    def amd(self) -> bool:
        """Whether it is an AMD target."""
        return self.backend == "hip"

    def __str__(self) -> str:
        return self.arch if self.amd else f"{self.backend}:{self.arch}"


def for_archs(target: Target, archs: Sequence[str]) -> list[Target]:
    """A compiled kernel as one target for each way of reading it for these archs.

    `target`: any target; it is changed only if Triton's files tell what it was compiled for.
    """
    if target.kind not in ("asm", "code_object", "ttir", "ttgir") or target.fault is not None:
        return [target]
    files = {**target.siblings, _stage_of(target): target.path}
    own = compile_target(files)
    if own is None:
        return [target]
    readable = target.kind in ("asm", "code_object") and own.amd
    if not archs:
        if readable or not own.amd:
            return [target]
        return [replace(target, archs=(own.arch,))]
    targets = []
    if readable and own.arch in archs:
        targets.append(replace(target, archs=(own.arch,)))
    other_archs = tuple(arch for arch in archs if not (readable and arch == own.arch))
    if other_archs:
        targets.append(_to_compile(target, other_archs))
    return targets


def compile_target(files: Mapping[str, Path]) -> CompileTarget | None:
    """The target of an entry, from its metadata, code or TTGIR; None where none of them tells.

    `files`: stage (`targets.STAGES`) -> file.
    """
    stated = stated_target(triton_metadata(files.get("metadata")))
    if stated is not None:
        return stated
    if "amdgcn" in files:
        match = _ASM_TARGET.search(_head(files["amdgcn"]))
        if match:
            return CompileTarget("hip", match[1])
    if "ttgir" in files:
        match = _TTGIR_TARGET.search(_head(files["ttgir"]))
        if match:
            return CompileTarget(*match.groups())
    if "ptx" in files or "cubin" in files:
        return CompileTarget("cuda", "unknown")
    return None


def stated_target(metadata: Mapping[str, Any] | None) -> CompileTarget | None:
    """The target in Triton's metadata; None without one."""
    stated = (metadata or {}).get("target")
    if isinstance(stated, Mapping) and "backend" in stated and "arch" in stated:
        return CompileTarget(str(stated["backend"]), str(stated["arch"]))
    if isinstance(stated, Mapping) and "capability" in stated:  # Triton 2.1 and 2.2
        return CompileTarget("cuda", str(stated["capability"]))
    return None


def stated_beside(files: Mapping[str, Path]) -> dict[str, Any] | None:
    """The facts about a TTIR's compile in the files beside it, under the keys of Triton's metadata.

    A dump has no metadata, but its TTGIR has the target and the number of warps.
    """
    metadata = triton_metadata(files.get("metadata"))
    if metadata is not None or "ttgir" not in files:
        return metadata
    head = _head(files["ttgir"])
    warps = _TTGIR_WARPS.search(head)
    own = compile_target(files)
    stated: dict[str, Any] = {"num_warps": int(warps[1])} if warps else {}
    if own is not None:
        stated["target"] = {"backend": own.backend, "arch": own.arch}
    return stated or None


def entries_of(files: Sequence[Path], archs: Sequence[str]) -> Iterator[Target]:
    """The kernels in the files of one folder, each a target with all its stages."""
    stage_of = {suffix: stage for stage, suffix in STAGES.items()}
    groups: dict[str, dict[str, Path]] = {}
    for path in files:
        stage = stage_of.get(path.suffix)
        if stage is not None and not path.name.startswith(GROUP_PREFIX):
            groups.setdefault(path.stem, {})[stage] = path
    for group in groups.values():
        stages = set(group) - {"metadata"}
        if stages or ("metadata" in group and _is_triton_metadata(group["metadata"])):
            yield from for_archs(_entry_target(group), archs)


def _entry_target(group: dict[str, Path]) -> Target:
    for stage, kind in (*CODE, *INPUTS):
        if stage in group and _is_complete(group[stage], stage, alone=len(group) == 1):
            siblings = {s: p for s, p in group.items() if s != stage and _has_content(p)}
            return Target(group[stage], kind, None, siblings)
    path = next(iter(group.values()))
    suffixes = " ".join(sorted(p.suffix for p in group.values()))
    return Target(
        path,
        "asm",
        fault=KinspectError(
            f"{path.with_suffix('')}: a damaged or half-written entry of Triton's: only {suffixes}"
            ", and none of .amdgcn .hsaco .ttir .ttgir that can be read",
            "delete its folder and run the kernel again",
        ),
    )


def _to_compile(target: Target, archs: tuple[str, ...]) -> Target:
    """The target that compiles an entry's TTIR for other archs."""
    if target.kind == "ttir":
        return replace(target, archs=archs)
    ttir = target.siblings.get("ttir")
    if ttir is None:
        # Its reader reports that the code is for another target.
        return replace(target, archs=archs)
    files = {s: p for s, p in target.siblings.items() if s != "ttir"}
    return Target(ttir, "ttir", target.kernel, {**files, _stage_of(target): target.path}, archs)


def _stage_of(target: Target) -> str:
    kinds = {kind: stage for stage, kind in (*CODE, *INPUTS)}
    return kinds[target.kind]


def _is_triton_metadata(path: Path) -> bool:
    """Whether a JSON file without siblings is Triton's metadata, perhaps damaged."""
    metadata = triton_metadata(path)
    if metadata is not None:
        return "num_warps" in metadata
    try:
        text = file_text(path)
    except OSError:
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return '"num_warps"' in text or '"target"' in text
    return False


def _is_complete(path: Path, stage: str, alone: bool) -> bool:
    """Whether a stage's file seems complete, by a quick check."""
    if stage == "hsaco":
        return _has_content(path, CODE_OBJECT)
    if stage == "amdgcn" and not alone:
        try:
            return ASM_END in file_bytes(path)
        except OSError:
            return False
    return _has_content(path)


def _has_content(path: Path, prefixes: bytes | tuple[bytes, ...] = b"") -> bool:
    try:
        with opened(path) as stream:
            start = stream.read(24)
    except OSError:
        return False
    return bool(start) and start.startswith(prefixes)


def _head(path: Path) -> str:
    try:
        with opened(path) as stream:
            return stream.read(_HEAD_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
