"""The ELF container, read so that no file raises anything but KinspectError.

Headers, symbols and notes are read from their bytes; counts and sizes are checked against the
file's length before they are followed. pyelftools supplies the names of numbers and inflates
compressed sections; its exceptions are converted in one function.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO

from elftools.elf.constants import SH_FLAGS
from elftools.elf.enums import ENUM_E_TYPE, ENUM_SH_TYPE_BASE

from ...base import limits
from ...base.errors import KinspectError

EM_AMDGPU = 224
OSABI_HSA = 64
ET_REL = "ET_REL"

# After the magic number: class, byte order, OSABI, ABI version; type, machine; e_shoff; e_flags;
# e_shentsize, e_shnum, e_shstrndx.
_HEADER = struct.Struct("<4xBBxBB7xHH20xQI6xHHH")
_SECTION = struct.Struct("<IIQQQQI12xQ")  # sh_info and sh_addralign are left out
_CLASS_32, _CLASS_64, _LITTLE, _BIG = 1, 2, 1, 2
_STRINGS_ELSEWHERE = 0xFFFF  # SHN_XINDEX: the first section header has the index
_NOTE = struct.Struct("<III")
_SYMBOL = struct.Struct("<IBBHQQ")

# -ffunction-sections makes some tens of thousands.
_SECTIONS_LIMIT = 1 << 17
# Total length of names, which may overlap.
_NAMES_LIMIT = 1 << 28
# Inflated size of one section; half a dozen are in memory at a time.
_INFLATE_LIMIT = 1 << 26
# Compilers write one. Overlapping sections would make the reading quadratic.
_NOTE_SECTIONS_LIMIT = 16

_NOT_ELF_HINT = (
    "pass a code object (.hsaco, .co), a HIP executable or library, or an offload bundle"
)
_TYPES: Mapping[int, str] = {number: name for name, number in ENUM_E_TYPE.items()}
_SECTION_TYPES: Mapping[int, str] = {number: name for name, number in ENUM_SH_TYPE_BASE.items()}
_TRUNCATED = "its header is senseless or its section table lies outside it (a truncated copy?)"
_INFLATE_HINT = "decompress it first: llvm-objcopy --decompress-debug-sections"


@dataclass(frozen=True, slots=True)
class Section:
    """A section header; `index` is its row in the table, `type` SHT_* or an unknown number."""

    index: int
    name: str
    type: str | int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    entsize: int

    @property
    def executable(self) -> bool:
        """Whether the section holds code."""
        return bool(self.flags & SH_FLAGS.SHF_EXECINSTR) and self.type != "SHT_NOBITS"


@dataclass(frozen=True, slots=True)
class ElfSymbol:
    """A symbol; `type` is STT_* (1 object, 2 function), `section` an index or a reserved one."""

    name: str
    value: int
    size: int
    type: int
    binding: int
    section: int


@dataclass(frozen=True, slots=True)
class Note:
    """An ELF note: its owner, type and data."""

    owner: str
    type: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Elf:
    """A 64-bit little-endian ELF file whose tables lie within the file. `type` is ET_*."""

    name: str
    data: bytes = field(repr=False)
    type: str | int
    machine: int
    osabi: int
    abi_version: int
    flags: int
    sections: tuple[Section, ...] = ()
    symbols: tuple[ElfSymbol, ...] = field(default=(), repr=False)

    def section(self, name: str) -> Section | None:
        """The first section called `name`."""
        return next((s for s in self.sections if s.name == name), None)

    def bytes_of(self, section: Section) -> bytes:
        """The contents of `section`, inflated where it is compressed.

        Raises:
            KinspectError: it lies outside the file, or does not inflate.
        """
        if section.type == "SHT_NOBITS":
            return b""
        if section.offset + section.size > len(self.data):
            raise self.damaged(f"section {section.name!r} reaches past its end")
        # Code is never compressed (gABI), whatever its flags say: many sections could share a
        # bomb.
        if not section.flags & SH_FLAGS.SHF_COMPRESSED or section.executable:
            return self.data[section.offset : section.offset + section.size]
        failure = _error(self.name, f"section {section.name!r} cannot be inflated", _INFLATE_HINT)
        from elftools.elf.elffile import ELFFile  # few sections are compressed

        with _pyelftools(failure):
            packed = ELFFile(BytesIO(self.data)).get_section(section.index)
            # No tool compresses an empty section, and zlib takes a limit of 0 bytes for no limit.
            if not 0 < packed.data_size <= _INFLATE_LIMIT:
                raise failure
            limits.budget(self.name, len(self.data)).take(packed.data_size)
            return packed.data()

    def position_of(self, symbol: ElfSymbol) -> tuple[Section, int] | None:
        """The section that defines a symbol and the symbol's offset in it; None for
        other symbols.
        """
        if not 0 < symbol.section < len(self.sections):
            return None
        section = self.sections[symbol.section]
        offset = symbol.value if self.type == ET_REL else symbol.value - section.address
        if section.type == "SHT_NOBITS" or not 0 <= offset <= section.size:
            return None
        return section, offset

    def read_symbol(self, symbol: ElfSymbol, size: int) -> bytes | None:
        """The first `size` bytes of a symbol's data; None where they are not in the file."""
        position = self.position_of(symbol)
        if position is None:
            return None
        section, offset = position
        start = section.offset + offset
        if offset + size > section.size or start + size > len(self.data):
            return None
        return self.data[start : start + size]

    def notes(self) -> Iterator[Note]:
        """The notes of the note sections, in file order.

        Raises:
            KinspectError: a note reaches past its section.
        """
        # pyelftools' iter_notes decodes GNU notes, 2 seconds per MB of a hostile one, and silently
        # truncates notes that reach past their section.
        sections = [s for s in self.sections if s.type == "SHT_NOTE"]
        for section in sections[:_NOTE_SECTIONS_LIMIT]:
            raw, offset = self.bytes_of(section), 0
            while offset + _NOTE.size <= len(raw):
                owner_size, data_size, note_type = _NOTE.unpack_from(raw, offset)
                offset += _NOTE.size
                data_offset = offset + owner_size + -owner_size % 4
                if data_offset + data_size > len(raw):
                    raise self.damaged(f"a note reaches past section {section.name!r}")
                owner = raw[offset : offset + owner_size].rstrip(b"\0").decode("utf-8", "replace")
                yield Note(owner, note_type, raw[data_offset : data_offset + data_size])
                offset = data_offset + data_size + -data_size % 4

    def damaged(self, problem: str) -> KinspectError:
        """The error for a file that contradicts itself."""
        return _error(self.name, f"damaged ELF file: {problem}")


def read_elf(data: bytes, name: str) -> Elf:
    """Read header, sections and symbols of an ELF file for any machine.

    `data`: the whole file.

    Raises:
        KinspectError: not ELF, 32-bit, big-endian, truncated, or its tables contradict the file.
    """
    if not data:
        raise KinspectError(f"{name}: the file is empty", _NOT_ELF_HINT)
    if not data.startswith(b"\x7fELF"):
        raise KinspectError(f"{name}: not an ELF file", _NOT_ELF_HINT)
    truncated = _error(name, f"damaged ELF file: {_TRUNCATED}")
    if len(data) < _HEADER.size:
        raise truncated
    file_class, order, osabi, abi, type_number, machine, table, flags, *sizes = _HEADER.unpack_from(
        data
    )
    if file_class not in (_CLASS_32, _CLASS_64) or order not in (_LITTLE, _BIG):
        raise truncated
    if (file_class, order) != (_CLASS_64, _LITTLE):
        unsupported = "32-bit" if file_class == _CLASS_32 else "big-endian"
        raise KinspectError(
            f"{name}: {unsupported} ELF file; AMDGPU code objects are 64-bit and little-endian",
            _NOT_ELF_HINT,
        )
    elf = Elf(name, data, _TYPES.get(type_number, type_number), machine, osabi, abi, flags)
    elf = replace(elf, sections=_sections(elf, table, *sizes))
    return replace(elf, symbols=_symbols(elf))


@contextmanager
def _pyelftools(failure: KinspectError) -> Iterator[None]:
    """Converts all exceptions of pyelftools, zlib's and Python's included, to `failure`."""
    try:
        yield
    except KinspectError:
        raise
    except Exception as error:
        raise failure from error


def _error(name: str, problem: str, hint: str = "build or copy the file again") -> KinspectError:
    return KinspectError(f"{name}: {problem:.300}", hint)  # names in files can be of any length


def _sections(elf: Elf, table: int, size: int, count: int, strings: int) -> tuple[Section, ...]:
    """The sections by the table at offset `table`, with `count` entries of `size` bytes; `strings`
    is the index of the section with their names.
    """
    if not table:
        return ()
    max_count = (len(elf.data) - table) // _SECTION.size
    if size != _SECTION.size or max_count < max(count, 1):
        raise elf.damaged(_TRUNCATED)
    first_header = _SECTION.unpack_from(elf.data, table)
    if not count:  # more than fit the header's field
        count = first_header[5]
        if count > max_count:
            raise elf.damaged(_TRUNCATED)
    if strings == _STRINGS_ELSEWHERE:
        strings = first_header[6]
    if count > _SECTIONS_LIMIT:
        raise elf.damaged(f"it holds {count} sections")
    headers = list(_SECTION.iter_unpack(elf.data[table : table + size * count]))
    names = b""
    if strings < count:
        _, _, _, _, offset, length, *_ = headers[strings]
        names = elf.data[offset : offset + length]
    named_headers = zip(_names(elf, names, (header[0] for header in headers)), headers, strict=True)
    return tuple(
        Section(i, name, _SECTION_TYPES.get(type_number, type_number), *fields)
        for i, (name, (_, type_number, *fields)) in enumerate(named_headers)
    )


def _names(elf: Elf, table: bytes, offsets: Iterable[int]) -> Iterator[str]:
    """Yields the strings at `offsets`, which may overlap, up to a limit on their total length."""
    remaining = _NAMES_LIMIT
    for offset in offsets:
        end = table.find(b"\0", offset)
        name = table[offset : end if end >= 0 else None]
        remaining -= len(name)
        if remaining < 0:
            raise elf.damaged("its symbol names add up to an absurd size")
        yield name.decode("utf-8", "replace")


def _symbols(elf: Elf) -> tuple[ElfSymbol, ...]:
    """The symbols of `.symtab`, or of `.dynsym` where the file is stripped.

    Unpacked in bulk: libraries of tuned GEMMs have hundreds of thousands of symbols, and
    pyelftools takes 13 seconds for 200,000; this takes one.
    """
    table_types = ("SHT_SYMTAB", "SHT_DYNSYM")
    table = next(
        (s for table_type in table_types for s in elf.sections if s.type == table_type), None
    )
    if table is None:
        return ()
    if table.entsize != _SYMBOL.size or table.link >= len(elf.sections):
        raise elf.damaged(f"symbol table {table.name!r} has entries of {table.entsize} bytes")
    raw = elf.bytes_of(table)
    entries = list(_SYMBOL.iter_unpack(raw[: len(raw) // _SYMBOL.size * _SYMBOL.size]))
    names = _names(elf, elf.bytes_of(elf.sections[table.link]), (e[0] for e in entries))
    return tuple(
        ElfSymbol(name, value, size, info & 0xF, info >> 4, section)
        for name, (_, info, _, section, value, size) in zip(names, entries, strict=True)
    )
