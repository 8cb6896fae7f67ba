"""The ELF container, read with pyelftools so that no file makes it fail but by KinspectError.

pyelftools follows what a file says, so counts, sizes and offsets are held against the file's length
before it does; whatever it raises is caught in one place (`_pyelftools`). Symbols and notes are
read here from their bytes, each with the measurement that says why.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO

from elftools.common.utils import struct_parse
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_E_MACHINE

from kinspect.inspector.errors import KinspectError

EM_AMDGPU = 224
OSABI_HSA = 64
ET_REL = "ET_REL"

_NOTE = struct.Struct("<III")
_SYMBOL = struct.Struct("<IBBHQQ")

# pyelftools takes 30 microseconds per section; -ffunction-sections makes some tens of thousands.
_SECTIONS_LIMIT = 1 << 17
# What names, which may overlap, can add up to, and what compressed sections may claim to hold.
_NAMES_LIMIT = 1 << 28
_INFLATE_LIMIT = 1 << 28
# Compilers write one. Overlapping sections would make the reading quadratic.
_NOTE_SECTIONS_LIMIT = 16

_NOT_ELF_HINT = (
    "pass a code object (.hsaco, .co), a HIP executable or library, or an offload bundle"
)
_DAMAGED_HINT = "build or copy the file again"
_INFLATE_HINT = "decompress it first: llvm-objcopy --decompress-debug-sections"


@dataclass(frozen=True, slots=True)
class Section:
    """One section header. `index` is its place in the table, `type` SHT_* or an unknown number."""

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
        return bool(self.flags & SH_FLAGS.SHF_EXECINSTR) and self.type != "SHT_NOBITS"


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
    """A 64-bit little-endian ELF file whose tables lie within the file. `type` is ET_*."""

    name: str
    data: bytes = field(repr=False)
    type: str | int
    machine: int
    osabi: int
    abi_version: int
    flags: int
    sections: tuple[Section, ...] = ()
    symbols: tuple[Symbol, ...] = field(default=(), repr=False)

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
        if section.flags & SH_FLAGS.SHF_COMPRESSED:
            return self._inflate(section)
        return self.data[section.offset : section.offset + section.size]

    def _inflate(self, section: Section) -> bytes:
        with _pyelftools(self.name, f"section {section.name!r} does not inflate", _INFLATE_HINT):
            packed = ELFFile(BytesIO(self.data)).get_section(section.index)
            if packed.data_size > _INFLATE_LIMIT:
                raise self.damaged(f"section {section.name!r} claims {packed.data_size} bytes")
            # To zlib, a limit of 0 bytes is none.
            return packed.data() if packed.data_size else b""

    def place_of(self, symbol: Symbol) -> tuple[Section, int] | None:
        """The section that defines `symbol` and the symbol's offset in it; None for others."""
        if not 0 < symbol.section < len(self.sections):
            return None
        section = self.sections[symbol.section]
        offset = symbol.value if self.type == ET_REL else symbol.value - section.address
        if section.type == "SHT_NOBITS" or not 0 <= offset <= section.size:
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
        sections = [s for s in self.sections if s.type == "SHT_NOTE"]
        for section in sections[:_NOTE_SECTIONS_LIMIT]:
            yield from self._notes_in(section)

    def _notes_in(self, section: Section) -> Iterator[Note]:
        # pyelftools' iter_notes decodes GNU notes on the way, 2 seconds per MB of a hostile one,
        # and cuts notes that reach past their section short without a word.
        raw = self.bytes_of(section)
        at = 0
        while at + _NOTE.size <= len(raw):
            owner_size, data_size, kind = _NOTE.unpack_from(raw, at)
            at += _NOTE.size
            data_at = at + _align4(owner_size)
            if data_at + data_size > len(raw):
                raise self.damaged(f"a note reaches past section {section.name!r}")
            owner = raw[at : at + owner_size].rstrip(b"\0").decode("utf-8", "replace")
            yield Note(owner, kind, raw[data_at : data_at + data_size])
            at = data_at + _align4(data_size)

    def damaged(self, what: str) -> KinspectError:
        """The error for a file that contradicts itself."""
        return _damaged(self.name, what)


def read_elf(data: bytes, name: str) -> Elf:
    """Read header, sections and symbols of an ELF file for any machine.

    Args:
        data: the whole file.
        name: what errors call it.

    Raises:
        KinspectError: not ELF, 32-bit, big-endian, truncated, or its tables contradict the file.
    """
    if not data:
        raise KinspectError(f"{name}: the file is empty", _NOT_ELF_HINT)
    if not data.startswith(b"\x7fELF"):
        raise KinspectError(f"{name}: not an ELF file", _NOT_ELF_HINT)
    with _pyelftools(name, "its header does not parse (a truncated copy?)"):
        file = ELFFile(BytesIO(data))
        if (file.elfclass, file.little_endian) != (64, True):
            what = "32-bit" if file.elfclass == 32 else "big-endian"
            raise KinspectError(
                f"{name}: {what} ELF file; AMDGPU code objects are 64-bit and little-endian",
                _NOT_ELF_HINT,
            )
        elf = Elf(
            name=name,
            data=data,
            type=file["e_type"],
            machine=ENUM_E_MACHINE.get(file["e_machine"], file["e_machine"]),
            osabi=file.e_ident_raw[7],  # decoded, 64 has the name of ARM's ABI
            abi_version=file["e_ident"]["EI_ABIVERSION"],
            flags=file["e_flags"],
        )
        elf = replace(elf, sections=_sections(elf, file))
    return replace(elf, symbols=_symbols(elf))


@contextmanager
def _pyelftools(name: str, what: str, hint: str = _DAMAGED_HINT) -> Iterator[None]:
    """Turn what pyelftools raises into KinspectError.

    Besides its own errors it lets through those of construct, struct and zlib, and OverflowError,
    AssertionError, UnicodeDecodeError and others of Python, as the file has it.
    """
    try:
        yield
    except KinspectError:
        raise
    except Exception as error:
        raise _damaged(name, what, hint) from error


def _damaged(name: str, what: str, hint: str = _DAMAGED_HINT) -> KinspectError:
    # Names in a damaged file can be of any length.
    return KinspectError(f"{name}: damaged ELF file: {what:.300}", hint)


def _align4(size: int) -> int:
    return (size + 3) & ~3


def _sections(elf: Elf, file: ELFFile) -> tuple[Section, ...]:
    # Not iter_sections: it also opens what each section refers to, which may be chains of others.
    table, size, entry = file["e_shoff"], file["e_shentsize"], file.structs.Elf_Shdr
    if not table:
        return ()
    if size != entry.sizeof() or table + size > len(elf.data):
        raise elf.damaged("the section table lies outside it (a truncated copy?)")
    count = file.num_sections()  # of the first entry where there are 0xff00 or more
    if table + size * count > len(elf.data):
        raise elf.damaged("the section table lies outside it (a truncated copy?)")
    if count > _SECTIONS_LIMIT:
        raise elf.damaged(f"it holds {count} sections")
    headers = [struct_parse(entry, file.stream, table + size * i) for i in range(count)]
    strings = file.get_shstrndx()
    start, length = 0, 0
    if strings < count:
        start, length = headers[strings].sh_offset, headers[strings].sh_size
    names = _Names(elf.data[start : start + length], elf)
    return tuple(
        Section(
            index=index,
            name=names.at(header.sh_name),
            type=header.sh_type,
            flags=header.sh_flags,
            address=header.sh_addr,
            offset=header.sh_offset,
            size=header.sh_size,
            link=header.sh_link,
            entsize=header.sh_entsize,
        )
        for index, header in enumerate(headers)
    )


class _Names:
    """A string table with a bound on what is read from it in total."""

    def __init__(self, table: bytes, elf: Elf) -> None:
        self._table = table
        self._elf = elf
        self._left = _NAMES_LIMIT

    def at(self, offset: int) -> str:
        end = self._table.find(b"\0", offset)
        name = self._table[offset : end if end >= 0 else None]
        self._left -= len(name)
        if self._left < 0:
            raise self._elf.damaged("its symbol names add up to an absurd size")
        return name.decode("utf-8", "replace")


def _symbols(elf: Elf) -> tuple[Symbol, ...]:
    """The symbols of `.symtab`, or of `.dynsym` where the file is stripped.

    Read in bulk: libraries of tuned GEMMs hold hundreds of thousands, and for 200,000 pyelftools
    takes 13 seconds where this takes one.
    """
    for kind in ("SHT_SYMTAB", "SHT_DYNSYM"):
        table = next((s for s in elf.sections if s.type == kind), None)
        if table is not None:
            break
    else:
        return ()
    if table.entsize != _SYMBOL.size or table.link >= len(elf.sections):
        raise elf.damaged(f"symbol table {table.name!r} has entries of {table.entsize} bytes")
    names = _Names(elf.bytes_of(elf.sections[table.link]), elf)
    raw = elf.bytes_of(table)
    return tuple(
        Symbol(names.at(name), value, size, info & 0xF, info >> 4, section)
        for name, info, _, section, value, size in _SYMBOL.iter_unpack(
            raw[: len(raw) // _SYMBOL.size * _SYMBOL.size]
        )
    )
