"""The metadata note of a code object: the compiler's description of each kernel, in msgpack.

Format: "User Guide for AMDGPU Backend", "Code Object V3 Metadata" and its V4/V5 successors: note
type 32 (NT_AMDGPU_METADATA), owner "AMDGPU". Code object v2 has YAML in note type 10, owner "AMD".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgpack
from msgspec import Struct

from ...base.errors import KinspectError
from ..launch import adds_lds, group_size_offset, pointer_offsets
from .elf import Elf

_OWNER, _TYPE = "AMDGPU", 32
_V2_OWNERS, _V2_TYPE = ("AMD", "HSA"), 10
# The largest libraries of tuned GEMMs have some ten thousand kernels in one object, with some 50
# arguments each. The decoder allocates the announced length of an array, at up to 1024 levels.
_ENTRIES_LIMIT = 1 << 18
_COUNT_LIMIT = 1 << 32
_KERNEL_SUFFIX = ".kd"


class KernelNote(Struct, frozen=True):
    """The figures of one kernel in the note; None where the note does not state them.

    `name` is the kernel's symbol. `problems` names entries that hold no sensible value.
    """

    name: str = ""
    vgpr_count: int | None = None
    agpr_count: int | None = None
    sgpr_count: int | None = None
    vgpr_spill_count: int | None = None
    sgpr_spill_count: int | None = None
    lds_bytes: int | None = None
    dynamic_lds: bool | None = None
    pointers: tuple[int, ...] | None = None
    group_size_offset: int | None = None
    scratch_bytes: int | None = None
    kernarg_bytes: int | None = None
    wave_size: int | None = None
    max_workgroup_size: int | None = None
    reqd_workgroup_size: tuple[int, int, int] | None = None
    uses_dynamic_stack: bool | None = None
    wgp_mode: bool | None = None
    problems: tuple[str, ...] = ()


class ObjectNote(Struct, frozen=True):
    """The note of one code object: its target string and kernels."""

    target: str | None
    version: tuple[int, int] | None
    kernels: tuple[KernelNote, ...]
    problems: tuple[str, ...] = ()


def read_note(elf: Elf) -> ObjectNote | None:
    """Decode the metadata note of a code object.

    Returns:
        None where the file has no such note.

    Raises:
        KinspectError: the note is damaged, or is that of a code object older than v3.
    """
    for note in elf.notes():
        if note.owner == _OWNER and note.type == _TYPE:
            return _decode(note.data, elf.name)
        if note.owner in _V2_OWNERS and note.type == _V2_TYPE:
            raise KinspectError(
                f"{elf.name}: code object v2 (YAML metadata), which ROCm dropped with LLVM 16",
                "compile again with -mcode-object-version=5, or pass the assembly text",
            )
    return None


def _decode(data: bytes, name: str) -> ObjectNote:
    """Decodes the note's msgpack; `name` is the file's, for errors."""
    try:
        root = msgpack.unpackb(
            data,
            strict_map_key=False,
            unicode_errors="replace",
            max_array_len=_ENTRIES_LIMIT,
            max_map_len=_ENTRIES_LIMIT,
            max_ext_len=0,
        )
    except (ValueError, TypeError, OverflowError, MemoryError, RecursionError) as error:
        # msgpack's own exceptions derive from ValueError; an unhashable map key is a TypeError.
        raise _damaged(name, "does not decode as msgpack") from error
    if not isinstance(root, dict):
        raise _damaged(name, "is not a map")
    kernels = root.get("amdhsa.kernels", [])
    if not isinstance(kernels, list):
        raise _damaged(name, "has no list amdhsa.kernels")
    target, version = root.get("amdhsa.target"), root.get("amdhsa.version")
    problems = []
    if any(isinstance(k, str) and k.startswith("amdpal.") for k in root):
        problems.append("a graphics (PAL) code object: its note states no kernels")
    return ObjectNote(
        target=target if isinstance(target, str) else None,
        version=_version(version),
        kernels=tuple(_kernels(kernels, name)),
        problems=tuple(problems),
    )


def _damaged(name: str, problem: str) -> KinspectError:
    return KinspectError(
        f"{name}: damaged code object: its metadata note {problem}", "build or copy the file again"
    )


def _version(value: Any) -> tuple[int, int] | None:
    if isinstance(value, list) and len(value) == 2 and all(_is_count(v) for v in value):
        return value[0], value[1]
    return None


def _kernels(entries: list[Any], name: str) -> Iterator[KernelNote]:
    for entry in entries:
        if not isinstance(entry, dict):
            raise _damaged(name, "has a kernel that is not a map")
        yield _kernel(entry, name)


def _kernel(entry: Mapping[Any, Any], name: str) -> KernelNote:
    """The figures of one entry of `amdhsa.kernels`; `name` is the file's, for errors."""
    problems: list[str] = []

    def count(key: str) -> int | None:
        value = entry.get(key)
        if value is None or _is_count(value):
            return value
        problems.append(f"metadata: {key} is not a count")
        return None

    def lanes(key: str) -> int | None:
        value = count(key)
        if value in (None, 32, 64):
            return value
        problems.append(f"metadata: {key} is neither 32 nor 64")
        return None

    def flag(key: str) -> bool | None:
        # The assembler writes booleans as msgpack booleans; older tools wrote 0 and 1.
        value = entry.get(key)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int) and value in (0, 1):
            return bool(value)
        problems.append(f"metadata: {key} is neither true nor false")
        return None

    return KernelNote(
        name=_kernel_name(entry, name),
        vgpr_count=count(".vgpr_count"),
        agpr_count=count(".agpr_count"),
        sgpr_count=count(".sgpr_count"),
        vgpr_spill_count=count(".vgpr_spill_count"),
        sgpr_spill_count=count(".sgpr_spill_count"),
        lds_bytes=count(".group_segment_fixed_size"),
        dynamic_lds=adds_lds(entry.get(".args")),
        pointers=pointer_offsets(entry.get(".args")),
        group_size_offset=group_size_offset(entry.get(".args")),
        scratch_bytes=count(".private_segment_fixed_size"),
        kernarg_bytes=count(".kernarg_segment_size"),
        wave_size=lanes(".wavefront_size"),
        max_workgroup_size=count(".max_flat_workgroup_size"),
        reqd_workgroup_size=_workgroup_size(entry, problems),
        uses_dynamic_stack=flag(".uses_dynamic_stack"),
        wgp_mode=flag(".workgroup_processor_mode"),
        problems=tuple(problems),
    )


def _kernel_name(entry: Mapping[Any, Any], name: str) -> str:
    """The symbol of an entry's kernel; `name` is the file's, for errors."""
    symbol, display_name = entry.get(".symbol"), entry.get(".name")
    if isinstance(symbol, str) and symbol:
        return symbol.removesuffix(_KERNEL_SUFFIX)
    if isinstance(display_name, str) and display_name:
        return display_name
    raise _damaged(name, "has a kernel without a name")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _COUNT_LIMIT


def _workgroup_size(entry: Mapping[Any, Any], problems: list[str]) -> tuple[int, int, int] | None:
    value = entry.get(".reqd_workgroup_size")
    if value is None:
        return None
    if isinstance(value, list) and len(value) == 3 and all(_is_count(v) for v in value):
        return value[0], value[1], value[2]
    problems.append("metadata: .reqd_workgroup_size is not three counts")
    return None
