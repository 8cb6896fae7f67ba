"""The ELF container, read so that no file can make it fail otherwise than by KinspectError.

Read with `struct` rather than an ELF library: every size, count and offset in the file is checked
or bounded before it is used, and tables are read in bulk (libraries of tuned GEMMs hold hundreds of
thousands of symbols). General readers follow what the file says: pyelftools 0.33 spends 10 seconds
and gigabytes on a line table header of 44 bytes that announces two million directories.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kinspect.inspector.errors import KinspectError

EM_AMDGPU = 224
ET_REL = 1
OSABI_HSA = 64

SHT_NOBITS = 8
_SHT_SYMTAB, _SHT_DYNSYM, _SHT_NOTE = 2, 11, 7
_SHN_XINDEX = 0xFFFF
_SHF_EXECINSTR, _SHF_COMPRESSED = 0x4, 0x800
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NOTE = struct.Struct("<III")
_SYMBOL = struct.Struct("<IBBHQQ")
_COMPRESSION_HEADER = struct.Struct("<IIQQ")
_ELFCOMPRESS_ZLIB = 1

# Mangled names of templated kernels reach tens of KiB. The second figure bounds what overlapping
# names can add up to.
_NAME_LIMIT = 1 << 16
_NAMES_LIMIT = 1 << 28
_INFLATE_LIMIT = 1 << 28
# Compilers write one. Overlapping sections would make the reading quadratic.
_NOTE_SECTIONS_LIMIT = 16

_NOT_ELF_HINT = (
    "pass a code object (.hsaco, .co), a HIP executable or library, or an offload bundle"
)


@dataclass(frozen=True, slots=True)
class Section:
    """One section header. `index` is its place in the table."""

    index: int
    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    entsize: int

    @property
    def executable(self) -> bool:
        return bool(self.flags & _SHF_EXECINSTR) and self.type != SHT_NOBITS


@dataclass(frozen=True, slots=True)
class Symbol:
    """One symbol. `type` is STT_* (1 object, 2 function), `section` an index or a reserved one."""

    name: str
    value: int
    size: int
    type: int
    binding: int
    section: int


@dataclass(frozen=True, slots=True)
class Note:
    """One ELF note."""

    owner: str
    type: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Elf:
    """A 64-bit little-endian ELF file whose tables lie within the file."""

    name: str
    data: bytes = field(repr=False)
    type: int
    machine: int
    osabi: int
    abi_version: int
    flags: int
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...] = field(repr=False)

    def section(self, name: str) -> Section | None:
        """The first section called `name`."""
        return next((s for s in self.sections if s.name == name), None)

    def bytes_of(self, section: Section) -> bytes:
        """The contents of `section`, inflated where it is compressed.

        Raises:
            KinspectError: it lies outside the file, or does not inflate.
        """
        if section.type == SHT_NOBITS:
            return b""
        if section.offset + section.size > len(self.data):
            raise self.damaged(f"section {section.name!r} reaches past its end")
        raw = self.data[section.offset : section.offset + section.size]
        return self._inflate(section, raw) if section.flags & _SHF_COMPRESSED else raw

    def _inflate(self, section: Section, raw: bytes) -> bytes:
        if len(raw) < _COMPRESSION_HEADER.size:
            raise self.damaged(f"compressed section {section.name!r} has no header")
        kind, _, size, _ = _COMPRESSION_HEADER.unpack_from(raw)
        if kind != _ELFCOMPRESS_ZLIB or size > _INFLATE_LIMIT:
            raise KinspectError(
                f"{self.name}: section {section.name!r} is compressed in a way not supported here",
                "decompress it first: llvm-objcopy --decompress-debug-sections",
            )
        try:
            inflater = zlib.decompressobj()
            return inflater.decompress(raw[_COMPRESSION_HEADER.size :], max_length=size or 1)
        except zlib.error as error:
            raise self.damaged(f"section {section.name!r} does not inflate ({error})") from error

    def place_of(self, symbol: Symbol) -> tuple[Section, int] | None:
        """The section that defines `symbol` and the symbol's offset in it; None for others."""
        if not 0 < symbol.section < len(self.sections):
            return None
        section = self.sections[symbol.section]
        offset = symbol.value if self.type == ET_REL else symbol.value - section.address
        if section.type == SHT_NOBITS or not 0 <= offset <= section.size:
            return None
        return section, offset

    def read_symbol(self, symbol: Symbol, size: int) -> bytes | None:
        """The first `size` bytes of what `symbol` names; None where they are not in the file."""
        place = self.place_of(symbol)
        if place is None:
            return None
        section, offset = place
        start = section.offset + offset
        if offset + size > section.size or start + size > len(self.data):
            return None
        return self.data[start : start + size]

    def notes(self) -> Iterator[Note]:
        """The notes of the note sections, in file order.

        Raises:
            KinspectError: a note reaches past its section.
        """
        sections = [s for s in self.sections if s.type == _SHT_NOTE]
        for section in sections[:_NOTE_SECTIONS_LIMIT]:
            yield from self._notes_in(section)

    def _notes_in(self, section: Section) -> Iterator[Note]:
        raw = self.bytes_of(section)
        at = 0
        while at + _NOTE.size <= len(raw):
            owner_size, data_size, kind = _NOTE.unpack_from(raw, at)
            owner_at = at + _NOTE.size
            data_at = owner_at + _align4(owner_size)
            if data_at + data_size > len(raw):
                raise self.damaged(f"a note reaches past section {section.name!r}")
            owner = raw[owner_at : owner_at + owner_size].rstrip(b"\0").decode("utf-8", "replace")
            yield Note(owner, kind, raw[data_at : data_at + data_size])
            at = data_at + _align4(data_size)

    def damaged(self, what: str) -> KinspectError:
        """The error for a file that contradicts itself."""
        return KinspectError(
            f"{self.name}: damaged ELF file: {what}", "build or copy the file again"
        )


def read_elf(data: bytes, name: str) -> Elf:
    """Read header, sections and symbols of an ELF file for any machine.

    Args:
        data: the whole file.
        name: what errors call it.

    Raises:
        KinspectError: not ELF, 32-bit, big-endian, truncated, or its tables contradict the file.
    """
    _check_identity(data, name)
    ident, kind, machine, _, _, _, table, flags, _, _, _, size, count, strings = _HEADER.unpack(
        data[: _HEADER.size]
    )
    elf = Elf(name, data, kind, machine, ident[7], ident[8], flags, (), ())
    elf = replace(elf, sections=_sections(elf, table, size, count, strings))
    return replace(elf, symbols=_symbols(elf))


def _align4(size: int) -> int:
    return (size + 3) & ~3


def _check_identity(data: bytes, name: str) -> None:
    if not data:
        raise KinspectError(f"{name}: the file is empty", _NOT_ELF_HINT)
    if data[:4] != b"\x7fELF":
        raise KinspectError(f"{name}: not an ELF file", _NOT_ELF_HINT)
    if len(data) < _HEADER.size:
        raise KinspectError(
            f"{name}: truncated ELF file, {len(data)} bytes", "build or copy the file again"
        )
    if data[4] != 2:
        raise KinspectError(
            f"{name}: 32-bit ELF file; AMDGPU code objects are 64-bit", _NOT_ELF_HINT
        )
    if data[5] != 1:
        raise KinspectError(
            f"{name}: big-endian ELF file; AMDGPU code objects are little-endian", _NOT_ELF_HINT
        )


def _sections(elf: Elf, table: int, size: int, count: int, strings: int) -> tuple[Section, ...]:
    if table == 0:
        return ()
    if size != _SECTION.size or table + size > len(elf.data):
        raise elf.damaged("the section table lies outside it (a truncated copy?)")
    # With 0xff00 sections or more the header says 0 and the first entry holds the figures.
    first = _SECTION.unpack_from(elf.data, table)
    count = count or first[5]
    if table + size * count > len(elf.data):
        raise elf.damaged("the section table lies outside it (a truncated copy?)")
    entries = list(_SECTION.iter_unpack(elf.data[table : table + size * count]))
    strings = first[6] if strings == _SHN_XINDEX else strings
    names = b""
    if strings < len(entries):
        start, length = entries[strings][4:6]
        names = elf.data[start : start + length]
    reader = _Names(names, elf)
    return tuple(
        Section(i, reader.at(name), kind, flags, address, offset, length, link, entsize)
        for i, (name, kind, flags, address, offset, length, link, _, _, entsize) in enumerate(
            entries
        )
    )


class _Names:
    """A string table with a bound on what is read from it in total."""

    def __init__(self, table: bytes, elf: Elf) -> None:
        self._table = table
        self._elf = elf
        self._left = _NAMES_LIMIT

    def at(self, offset: int) -> str:
        if offset >= len(self._table):
            return ""
        end = self._table.find(b"\0", offset, offset + _NAME_LIMIT)
        if end < 0:
            end = min(offset + _NAME_LIMIT, len(self._table))
        self._left -= end - offset
        if self._left < 0:
            raise self._elf.damaged("its symbol names add up to an absurd size")
        return self._table[offset:end].decode("utf-8", "replace")


def _symbols(elf: Elf) -> tuple[Symbol, ...]:
    """The symbols of `.symtab`, or of `.dynsym` where the file is stripped."""
    for kind in (_SHT_SYMTAB, _SHT_DYNSYM):
        table = next((s for s in elf.sections if s.type == kind), None)
        if table is not None:
            return _table_symbols(elf, table)
    return ()


def _table_symbols(elf: Elf, table: Section) -> tuple[Symbol, ...]:
    if table.entsize != _SYMBOL.size or table.link >= len(elf.sections):
        raise elf.damaged(f"symbol table {table.name!r} has entries of {table.entsize} bytes")
    names = _Names(elf.bytes_of(elf.sections[table.link]), elf)
    raw = elf.bytes_of(table)
    whole = raw[: len(raw) // _SYMBOL.size * _SYMBOL.size]
    return tuple(
        Symbol(names.at(name), value, size, info & 0xF, info >> 4, section)
        for name, info, _, section, value, size in _SYMBOL.iter_unpack(whole)
    )
