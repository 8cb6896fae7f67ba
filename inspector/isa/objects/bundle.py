"""Fat binaries: the code objects inside HIP executables, libraries and clang offload bundles.

Formats: "Clang Offload Bundler" in Clang's documentation (`__CLANG_OFFLOAD_BUNDLE__`, and `CCOB`
for the compressed form, versions 1 to 3). HIP puts them into section `.hip_fatbin` of a host ELF
file, one bundle per translation unit, each aligned to 4096 bytes.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import pairwise
from types import MappingProxyType

from msgspec import Struct

from ... import limits
from ...errors import KinspectError
from .eflags import ABI_VERSIONS, arch_of_flags, features_of_flags
from .elf import EM_AMDGPU, OSABI_HSA, Elf, read_elf

_MAGIC, _COMPRESSED = b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"
_ELF, _BITCODE, _ARCHIVE, _TEXT_BUNDLE = b"\x7fELF", b"BC\xc0\xde", b"!<arch>\n", b"# " + _MAGIC
_FATBIN_SECTIONS = frozenset({".hip_fatbin", ".hipFatBinSegment"})
_COUNT = struct.Struct("<Q")
_ENTRY = struct.Struct("<QQQ")
_TRIPLE_LIMIT = 4096
# Largest HIP libraries hold a few thousand code objects.
_ENTRIES_LIMIT = 1 << 16
_PADDING = re.compile(rb"\0*")
_ALIGNMENT = 4096
_UNBUNDLE = "unbundle it with clang-offload-bundler --unbundle"
_PIECE = 1 << 20
_PREFIX = struct.Struct("<4sHH")
# Version -> what follows the prefix: file size (from version 2 on), inflated size, hash.
_SIZES: Mapping[int, struct.Struct] = MappingProxyType(
    {1: struct.Struct("<I8x"), 2: struct.Struct("<II8x"), 3: struct.Struct("<QQ8x")}
)


def extract_code_objects(data: bytes, name: str) -> list[tuple[str, bytes]]:
    """Find the AMDGPU code objects in a file.

    Args:
        data: a code object, an offload bundle (compressed or not), or a host ELF file with a
            `.hip_fatbin` section.
        name: what errors call the file.

    Returns:
        (triple, code object) in file order; a bare code object gets the triple of its target,
        such as `amdgcn-amd-amdhsa--gfx90a:xnack-`. Never empty.

    Raises:
        KinspectError: none of these, damaged, or without a code object for AMD GPUs.
    """
    if data.startswith(_ELF):
        elf = read_elf(data, name)
        if elf.machine == EM_AMDGPU:
            return [(_triple(elf), data)]
        images = _from_host(elf)
    elif data.startswith((_MAGIC, _COMPRESSED)):
        images = list(_from_bundles(data, name))
    else:
        raise _unknown(data, name)
    code_objects = [(triple, image) for triple, image in images if image.startswith(_ELF)]
    if code_objects:
        return code_objects
    if any(image.startswith(_BITCODE) for _, image in images):
        raise KinspectError(
            f"{name}: holds LLVM bitcode for the GPU (relocatable device code), no code objects",
            "pass the linked executable or library instead",
        )
    raise KinspectError(
        f"{name}: an offload bundle without code for AMD GPUs",
        "build with --offload-arch=gfx942 (or your GPU's name)",
    )


def _unknown(data: bytes, name: str) -> KinspectError:
    if not data:
        return KinspectError(f"{name}: the file is empty", "build or copy the file again")
    if data.startswith(_ARCHIVE):
        return KinspectError(
            f"{name}: a static library, whose members are separate files",
            "unpack it with llvm-ar x, and pass a member",
        )
    if data.startswith(_TEXT_BUNDLE):
        return KinspectError(
            f"{name}: an offload bundle of assembly texts", "rename it to .s and pass it again"
        )
    return KinspectError(
        f"{name}: neither an ELF file nor a clang offload bundle",
        "pass a code object (.hsaco, .co), a HIP executable or library, or an offload bundle",
    )


def _triple(elf: Elf) -> str:
    version = ABI_VERSIONS.get(elf.abi_version) if elf.osabi == OSABI_HSA else None
    arch = arch_of_flags(elf.flags) or "unknown"
    return ":".join((f"amdgcn-amd-amdhsa--{arch}", *features_of_flags(elf.flags, version)))


def _from_host(elf: Elf) -> list[tuple[str, bytes]]:
    sections = [s for s in elf.sections if s.name in _FATBIN_SECTIONS and s.size]
    images: list[tuple[str, bytes]] = []
    for section in sections[:1]:
        images.extend(_from_bundles(elf.bytes_of(section), elf.name))
    if not sections:
        raise KinspectError(
            f"{elf.name}: an ELF file for another machine (e_machine {elf.machine}) without a "
            ".hip_fatbin section",
            "pass a code object (.hsaco, .co), or the HIP executable or library that embeds one",
        )
    return images


def _from_bundles(data: bytes, name: str) -> Iterator[tuple[str, bytes]]:
    """The entries of all bundles in `data`, which stand one after another with padding between."""
    at, count = 0, 0
    budget = limits.budget(name, len(data))
    while data.startswith((_MAGIC, _COMPRESSED), at):
        if data.startswith(_COMPRESSED, at):
            bundle = _compressed(data, at, name)
            budget.take(bundle.plain_size)
            entries, _ = _entries(_inflate(data, bundle, name), 0, name)
            end = bundle.end
        else:
            entries, end = _entries(data, at, name)
        count += len(entries)
        if count > _ENTRIES_LIMIT:
            raise _damaged(name, f"holds more than {_ENTRIES_LIMIT} entries")
        yield from entries
        padding = _PADDING.match(data, end)
        at = padding.end() if padding else end


def _entries(data: bytes, base: int, name: str) -> tuple[list[tuple[str, bytes]], int]:
    """The device entries of the bundle at `base`, and where its last entry ends."""
    if not data.startswith(_MAGIC, base):
        raise _damaged(name, "does not start with its magic")
    at = base + len(_MAGIC)
    if at + _COUNT.size > len(data):
        raise _damaged(name, "is cut off in its header")
    (count,) = _COUNT.unpack_from(data, at)
    at += _COUNT.size
    if count * _ENTRY.size > len(data) - at:
        raise _damaged(name, f"announces {count} entries")
    placed: list[tuple[str, int, int]] = []
    used = at
    for _ in range(count):
        if at + _ENTRY.size > len(data):
            raise _damaged(name, "is cut off in its header")
        offset, size, length = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        if length > _TRIPLE_LIMIT or at + length > len(data):
            raise _damaged(name, "has an entry whose target name lies outside it")
        triple = data[at : at + length].decode("utf-8", "replace")
        at += length
        if base + offset + size > len(data):
            raise _damaged(name, f"has an entry {triple!r} that lies outside it")
        used = max(used, at, base + offset + size)
        if not size or triple.startswith("host"):
            continue
        placed.append((triple, base + offset, base + offset + size))
    # Targets may share one code object, which is cut out once; other overlaps are nobody's.
    places = sorted({(start, end) for _, start, end in placed})
    if any(end > start for (_, end), (start, _) in pairwise(places)):
        raise _damaged(name, "has entries that overlap")
    images = {place: data[place[0] : place[1]] for place in places}
    return [(triple, images[start, end]) for triple, start, end in placed], used


class _CompressedBundle(Struct, frozen=True):
    """Where the compressed bytes stand (`body:end`), how, and what they inflate to."""

    method: int
    body: int
    end: int
    plain_size: int


def _compressed(data: bytes, at: int, name: str) -> _CompressedBundle:
    if at + _PREFIX.size > len(data):
        raise _damaged(name, "is cut off in its header")
    _, version, method = _PREFIX.unpack_from(data, at)
    layout = _SIZES.get(version)
    if layout is None:
        raise KinspectError(
            f"{name}: compressed offload bundle of unknown version {version}", _UNBUNDLE
        )
    body = at + _PREFIX.size + layout.size
    if body > len(data):
        raise _damaged(name, "is cut off in its header")
    *file_size, plain_size = layout.unpack_from(data, at + _PREFIX.size)
    end = at + file_size[0] if file_size else _next_aligned(data, at)
    if not body <= end <= len(data):
        raise _damaged(name, f"says it ends at byte {end} of {len(data)}")
    return _CompressedBundle(method, body, end, plain_size)


def _next_aligned(data: bytes, at: int) -> int:
    """Where a bundle that does not state its size ends: at the next aligned one, or at the end."""
    place = data.find(_COMPRESSED, at + 1)
    while place >= 0 and (place - at) % _ALIGNMENT:
        place = data.find(_COMPRESSED, place + 1)
    return place if place >= 0 else len(data)


def _inflate(data: bytes, bundle: _CompressedBundle, name: str) -> bytes:
    inflate = _METHODS.get(bundle.method)
    if inflate is None:
        raise KinspectError(
            f"{name}: offload bundle compressed by unknown method {bundle.method}", _UNBUNDLE
        )
    try:
        plain = inflate(data[bundle.body : bundle.end], bundle.plain_size + 1)
    except _MissingZstdError as error:
        raise KinspectError(
            f"{name}: the offload bundle is compressed with zstd, which this Python lacks",
            "pip install zstandard, or build with --no-offload-compress",
        ) from error
    except Exception as error:  # each decompressor has its own error type; all mean the same
        raise _damaged(name, f"does not decompress ({error})") from error
    if len(plain) != bundle.plain_size:
        raise _damaged(
            name, f"decompresses to other than the {bundle.plain_size} bytes it announces"
        )
    return plain


class _MissingZstdError(Exception):
    """No module that reads zstd is installed."""


def _read_zlib(body: bytes, limit: int) -> bytes:
    return zlib.decompressobj().decompress(body, limit)


def _read_zstd(body: bytes, limit: int) -> bytes:
    """Decompress with the standard library (Python 3.14), its backport, or `zstandard`."""
    for module in ("compression.zstd", "backports.zstd"):
        try:
            reader = import_module(module).ZstdDecompressor()
        except ImportError:
            continue
        plain: bytes = reader.decompress(body, limit)
        return plain
    try:
        zstandard = import_module("zstandard")
    except ImportError as error:
        raise _MissingZstdError from error
    with zstandard.ZstdDecompressor().stream_reader(body) as stream:
        # In pieces: read(limit) would allocate what a hostile header announces.
        decompressed = bytearray()
        while len(decompressed) < limit and (
            piece := stream.read(min(_PIECE, limit - len(decompressed)))
        ):
            decompressed += piece
    return bytes(decompressed)


# Method numbers of llvm::compression::Format.
_METHODS: Mapping[int, Callable[[bytes, int], bytes]] = MappingProxyType(
    {0: _read_zlib, 1: _read_zstd}
)


def _damaged(name: str, problem: str) -> KinspectError:
    return KinspectError(
        f"{name}: damaged offload bundle: it {problem}", "build or copy the file again"
    )
