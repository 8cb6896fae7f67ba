"""Listings in the form of `llvm-objdump -d`: written from decoded machine code, or trimmed."""

from __future__ import annotations

import bisect
import itertools
import re
import struct
from collections.abc import Iterator, Sequence

from msgspec import Struct

from ..twos_complement import signed
from .codeobject import CodeObject
from .elf import ElfSymbol, Section

_STT_NOTYPE, _STT_OBJECT, _STT_FUNC = 0, 1, 2
_LABELS = (_STT_NOTYPE, _STT_OBJECT, _STT_FUNC)
_TEXT_WIDTH = 59  # llvm-objdump pads the instruction, after its tab, to this width
_WORD = 4
# Direct branches and calls: a signed 16-bit distance in words from the next instruction.
_BRANCH = re.compile(r"s_(?:c?branch|call|subvector_loop)\w*(?: .*,)? (\d+)$")
_ADDRESS = re.compile(r"// ([0-9A-F]{12,16}):")
_LABEL = re.compile(r"([0-9a-f]{16}) <(.+)>:$")
_COMMENT_WITHOUT_BLANK = re.compile(r"(\S)// (?=[0-9A-F]{12,16}:)")
_SECTION = re.compile(r"Disassembly of section (.*):$")
_DATA = re.compile(r"\t\.(?:long|byte)\b")


class DecodedInstruction(Struct, frozen=True):
    """One decoded instruction; the text is empty for bytes that are no instruction."""

    size: int
    text: str


class _Labels(Struct, frozen=True):
    """The symbols of one section, one per address, in the order of addresses."""

    addresses: tuple[int, ...]
    symbols: tuple[ElfSymbol, ...]

    def last_up_to(self, address: int) -> ElfSymbol | None:
        """The symbol at an address, or the nearest before it."""
        index = bisect.bisect_right(self.addresses, address) - 1
        return self.symbols[index] if index >= 0 else None


def format_listing(
    code: CodeObject,
    sections: Sequence[Section],
    contents: Sequence[bytes],
    decoded: Sequence[Sequence[DecodedInstruction]],
) -> str:
    """A code object's decoded sections in the form of `llvm-objdump -d`.

    Args:
        code: the code object, whose symbols become labels.
        sections: its executable sections.
        contents: the sections' bytes.
        decoded: the sections' instructions; their sizes add up to the section's.
    """
    lines = ["", f"{code.name.rsplit('/', 1)[-1]}:\tfile format elf64-amdgpu"]
    for section, raw, instructions in zip(sections, contents, decoded, strict=True):
        lines += ["", f"Disassembly of section {section.name}:"]
        lines.extend(_section(section, raw, instructions, _labels(code, section)))
    return "\n".join(lines) + "\n"


def _labels(code: CodeObject, section: Section) -> _Labels:
    """The symbols of a section; of several at one address the one that llvm-objdump names."""
    by_address: dict[int, ElfSymbol] = {}
    for symbol in code.elf.symbols:
        if symbol.section != section.index or not symbol.name or symbol.type not in _LABELS:
            continue
        previous = by_address.get(symbol.value)
        if previous is None or _rank(symbol) > _rank(previous):
            by_address[symbol.value] = symbol
    addresses = tuple(sorted(by_address))
    return _Labels(addresses, tuple(by_address[address] for address in addresses))


def _rank(symbol: ElfSymbol) -> tuple[int, int]:
    """Functions before data and other labels, global symbols before local ones."""
    return _LABELS.index(symbol.type), symbol.binding


def _section(
    section: Section, raw: bytes, instructions: Sequence[DecodedInstruction], labels: _Labels
) -> Iterator[str]:
    """Yields the lines of a section: labels, each after a blank line, and instructions."""
    offset = 0
    next_label = 0
    for instruction in instructions:
        address = section.address + offset
        while next_label < len(labels.addresses) and labels.addresses[next_label] <= address:
            yield ""
            yield f"{labels.addresses[next_label]:016x} <{labels.symbols[next_label].name}>:"
            next_label += 1
        code = raw[offset : offset + instruction.size]
        offset += instruction.size
        if not instruction.text and not any(code) and len(code) > _WORD:
            yield "\t\t..."
        else:
            yield _line(instruction, code, address, labels)


def _line(instruction: DecodedInstruction, code: bytes, address: int, labels: _Labels) -> str:
    """The line of an instruction as llvm-objdump writes it, with its branch's
    destination by name.
    """
    text, target = instruction.text or _data(code), ""
    match = _BRANCH.match(text)
    if match:
        destination = address + _WORD + _WORD * signed(int(match[1]), 16)
        symbol = labels.last_up_to(destination)
        if symbol and symbol.value == destination and symbol.type == _STT_NOTYPE:
            text = text[: match.start(1)] + symbol.name
        elif symbol:
            offset = destination - symbol.value
            target = f" <{symbol.name}+0x{offset:x}>" if offset else f" <{symbol.name}>"
    return f"\t{text:<{_TEXT_WIDTH}}// {address:012X}: {_words(code)}{target}"


def _data(code: bytes) -> str:
    """Bytes that are no instruction, as directives."""
    if len(code) == _WORD:
        return f".long 0x{int.from_bytes(code, 'little'):08x}"
    return ".byte " + ", ".join(f"0x{b:02x}" for b in code)


def _words(code: bytes) -> str:
    """The encoding of an instruction for its comment: words in hexadecimal, then single bytes."""
    words_end = len(code) // _WORD * _WORD
    words = [f"{w:08X}" for (w,) in struct.iter_unpack("<I", code[:words_end])]
    return " ".join((*words, *(f"{b:02X}" for b in code[words_end:])))


def count_data(text: str) -> int:
    """The number of lines in a disassembly that the disassembler took for data."""
    return sum(1 for line in text.splitlines() if _DATA.match(line))


def trim_listing(text: str, code: CodeObject) -> str:
    """Removes the padding between and after functions from a listing.

    Symbols state where functions end; a section that has a function of unknown size is left as it
    is. Two quirks of llvm-objdump are corrected: after long instructions it omits the blank before
    the comment (`v83 /*v339*/// 000000001760:`), and where another label stands at the beginning of
    a kernel it may name the code after that label.
    """
    linked = len({s.address for s in code.elf.sections if s.executable}) == 1
    kernel_names = {f.address: f.name for f in code.functions if f.name in code.kernels and linked}
    trimmed: list[str] = []
    extents: _Extents | None = None
    in_function = True
    for line in text.splitlines():
        section = _SECTION.match(line)
        if section:
            extents = _extents(code, section[1])
            in_function = True
        label = _LABEL.match(line) if kernel_names else None
        if label:
            line = f"{label[1]} <{kernel_names.get(int(label[1], 16), label[2])}>:"
        match = _ADDRESS.search(line) if line.startswith("\t") else None
        if match and extents is not None:
            in_function = extents.contain(int(match[1], 16))
        # A run of zeros has no address: it belongs with the instruction before it.
        if in_function or not line.startswith("\t"):
            trimmed.append(_COMMENT_WITHOUT_BLANK.sub(r"\1 // ", line) if match else line)
    return "\n".join(trimmed) + "\n"


class _Extents(Struct, frozen=True):
    """The address ranges of a section's functions, which may overlap.

    Args:
        starts: their addresses, in order.
        furthest_ends: for each, the furthest end of it and of all before it.
    """

    starts: tuple[int, ...]
    furthest_ends: tuple[int, ...]

    def contain(self, address: int) -> bool:
        """Whether an address is in any of the functions."""
        index = bisect.bisect_right(self.starts, address) - 1
        return index >= 0 and address < self.furthest_ends[index]


def _extents(code: CodeObject, name: str) -> _Extents | None:
    """The extents of the functions in a section; None where their sizes are not all known."""
    sections = {s.index for s in code.elf.sections if s.name == name}
    if len(sections) != 1:
        return None  # objects that are not linked yet have several, all at address 0
    functions = [f for f in code.functions if f.section in sections]
    if not functions or any(not f.size for f in functions):
        return None
    furthest_ends = itertools.accumulate((f.address + f.size for f in functions), max)
    return _Extents(tuple(f.address for f in functions), tuple(furthest_ends))
