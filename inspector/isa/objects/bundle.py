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

from ...base import limits
from ...base.errors import KinspectError
from .eflags import ABI_VERSIONS, arch_of_flags, features_of_flags
from .elf import EM_AMDGPU, OSABI_HSA, Elf, read_elf

_MAGIC, _COMPRESSED = b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"
_ELF, _BITCODE, _ARCHIVE, _TEXT_BUNDLE = b"\x7fELF", b"BC\xc0\xde", b"!<arch>\n", b"# " + _MAGIC
_FATBIN_SECTIONS = frozenset({".hip_fatbin", ".hipFatBinSegment"})
_COUNT = struct.Struct("<Q")
_ENTRY = struct.Struct("<QQQ")
_TRIPLE_LIMIT = 4096
# The largest HIP libraries hold a few thousand code objects.
_ENTRIES_LIMIT = 1 << 16
_PADDING = re.compile(rb"\0*")
_ALIGNMENT = 4096
_UNBUNDLE = "unbundle it with clang-offload-bundler --unbundle"
_PIECE = 1 << 20
_PREFIX = struct.Struct("<4sHH")
# Version -> the fields after the prefix: file size (from version 2 on), inflated size, hash.
_SIZES: Mapping[int, struct.Struct] = MappingProxyType(
    {1: struct.Struct("<I8x"), 2: struct.Struct("<II8x"), 3: struct.Struct("<QQ8x")}
)


def extract_code_objects(data: bytes, name: str) -> list[tuple[str, bytes]]:
    """Find the AMDGPU code objects in a file.

    `data`: a code object, an offload bundle (compressed or not), or a host ELF file with a
    `.hip_fatbin` section.

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
    """The error for a file of none of the formats, naming what it looks like."""
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
    """Yields the entries of the bundles in `data`, which follow one another with
    padding between.
    """
    position, count = 0, 0
    budget = limits.budget(name, len(data))
    while data.startswith((_MAGIC, _COMPRESSED), position):
        if data.startswith(_COMPRESSED, position):
            bundle = _compressed(data, position, name)
            budget.take(bundle.plain_size)
            entries, _ = _entries(_inflate(data, bundle, name), 0, name)
            end = bundle.end
        else:
            entries, end = _entries(data, position, name)
        count += len(entries)
        if count > _ENTRIES_LIMIT:
            raise _damaged(name, f"holds more than {_ENTRIES_LIMIT} entries")
        yield from entries
        padding = _PADDING.match(data, end)
        position = padding.end() if padding else end


def _entries(data: bytes, base: int, name: str) -> tuple[list[tuple[str, bytes]], int]:
    """The device entries of the bundle at `base`, and the end of its last entry."""
    if not data.startswith(_MAGIC, base):
        raise _damaged(name, "does not start with its magic")
    position = base + len(_MAGIC)
    if position + _COUNT.size > len(data):
        raise _damaged(name, "is cut off in its header")
    (count,) = _COUNT.unpack_from(data, position)
    position += _COUNT.size
    if count * _ENTRY.size > len(data) - position:
        raise _damaged(name, f"announces {count} entries")
    spans: list[tuple[str, int, int]] = []
    end_of_entries = position
    for _ in range(count):
        if position + _ENTRY.size > len(data):
            raise _damaged(name, "is cut off in its header")
        offset, size, length = _ENTRY.unpack_from(data, position)
        position += _ENTRY.size
        if length > _TRIPLE_LIMIT or position + length > len(data):
            raise _damaged(name, "has an entry whose target name lies outside it")
        triple = data[position : position + length].decode("utf-8", "replace")
        position += length
        if base + offset + size > len(data):
            raise _damaged(name, f"has an entry {triple!r} that lies outside it")
        end_of_entries = max(end_of_entries, position, base + offset + size)
        if not size or triple.startswith("host"):
            continue
        spans.append((triple, base + offset, base + offset + size))
    # Targets may share one code object, which is copied once; no other overlap makes sense.
    distinct_spans = sorted({(start, stop) for _, start, stop in spans})
    if any(stop > start for (_, stop), (start, _) in pairwise(distinct_spans)):
        raise _damaged(name, "has entries that overlap")
    images = {span: data[span[0] : span[1]] for span in distinct_spans}
    return [(triple, images[start, stop]) for triple, start, stop in spans], end_of_entries


class _CompressedBundle(Struct, frozen=True):
    """The header of a compressed bundle.

    Args:
        method: of compression, a number of llvm::compression::Format.
        body: offset of the compressed bytes.
        end: offset after them.
        plain_size: bytes that they inflate to.
    """

    method: int
    body: int
    end: int
    plain_size: int


def _compressed(data: bytes, start: int, name: str) -> _CompressedBundle:
    """The header of the compressed bundle at `start`."""
    if start + _PREFIX.size > len(data):
        raise _damaged(name, "is cut off in its header")
    _, version, method = _PREFIX.unpack_from(data, start)
    layout = _SIZES.get(version)
    if layout is None:
        raise KinspectError(
            f"{name}: compressed offload bundle of unknown version {version}", _UNBUNDLE
        )
    body = start + _PREFIX.size + layout.size
    if body > len(data):
        raise _damaged(name, "is cut off in its header")
    *file_size, plain_size = layout.unpack_from(data, start + _PREFIX.size)
    end = start + file_size[0] if file_size else _next_aligned(data, start)
    if not body <= end <= len(data):
        raise _damaged(name, f"says it ends at byte {end} of {len(data)}")
    return _CompressedBundle(method, body, end, plain_size)


def _next_aligned(data: bytes, start: int) -> int:
    """The end of a bundle that does not state its size: the next aligned bundle, or the file's."""
    position = data.find(_COMPRESSED, start + 1)
    while position >= 0 and (position - start) % _ALIGNMENT:
        position = data.find(_COMPRESSED, position + 1)
    return position if position >= 0 else len(data)


def _inflate(data: bytes, bundle: _CompressedBundle, name: str) -> bytes:
    """The plain bytes of a compressed bundle."""
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
        # In pieces: read(limit) would allocate the size that a hostile header announces.
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
