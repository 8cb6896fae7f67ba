"""Disassembles machine words that stand in an assembly text.

The words are put into an object file of their own, for the disassemblers of `disasm`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Sequence
from types import MappingProxyType

from ...base.errors import KinspectError
from ...model import Resources
from ..asm.machine_words import Decode, DecodedWords
from .codeobject import CodeObject
from .disasm import disassemble_object
from .eflags import target_of
from .elf import EM_AMDGPU, OSABI_HSA, read_elf

_WORD = 4
_NOP = 0xBF800000
_GAP = 8
"""Words between two runs, more than any instruction has: none reaches into the next run."""
_ROW = re.compile(r"\t(.*?)\s*// ([0-9A-F]{12,16}): ((?:[0-9A-F]{8} ?)+)")

_HEADER = struct.Struct("<4sBBBBB7xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NAMES = b"\0.text\0.shstrtab\0"


def decoder(arch: str | None, wave_sizes: Collection[int | None], notes: list[str]) -> Decode:
    """A decoder of machine words for a target.

    `wave_sizes`: wave sizes of the kernels that the words belong to; `notes`: list to which the
    reason is added where nothing can be decoded.
    """

    def decode(runs: Sequence[Sequence[int]]) -> Sequence[DecodedWords] | None:
        count = sum(map(len, runs))
        words = f"{count} words of code stand as data in the text and are not decoded"
        target = target_of(arch)
        if arch is None or target is None:
            notes.append(f"{words}: the target is not known")
            return None
        try:
            return _decode(runs, _code_object(runs, arch, target.mach, wave_sizes))
        except KinspectError as error:
            notes.append(f"{words}: {error.message}")
            return None

    return decode


def _decode(runs: Sequence[Sequence[int]], code: CodeObject) -> Sequence[DecodedWords]:
    """(number of words, text) of the instructions in each run; `code` holds the runs."""
    text = disassemble_object(code).text
    instruction_at: dict[int, tuple[int, str]] = {}
    for match in _ROW.finditer(text):
        row_text = "" if match[1].startswith(".") else match[1]
        instruction_at[int(match[2], 16)] = (len(match[3].split()), row_text)
    decoded = []
    address = 0
    for run in runs:
        rows: list[tuple[int, str]] = []
        words_read = 0
        while words_read < len(run):
            # A listing leaves out runs of zeros.
            size, instruction = instruction_at.get(address + _WORD * words_read, (1, ""))
            rows.append((size, instruction) if words_read + size <= len(run) else (1, ""))
            words_read += rows[-1][0]
        decoded.append(rows)
        address += _WORD * (len(run) + _GAP)
    return decoded


def _code_object(
    runs: Sequence[Sequence[int]], arch: str, mach: int, wave_sizes: Collection[int | None]
) -> CodeObject:
    """A code object that holds the runs, each followed by a gap."""
    gap = [_NOP] * _GAP
    words = [word for run in runs for word in (*run, *gap)]
    return CodeObject(
        name="the words in the text",
        arch=arch,
        features=(),
        version=None,
        generic_version=None,
        kernels=MappingProxyType(
            {str(i): Resources(wave_size=size) for i, size in enumerate(wave_sizes)}
        ),
        descriptors=MappingProxyType({}),
        functions=(),
        notes=(),
        elf=read_elf(_elf(struct.pack(f"<{len(words)}I", *words), mach), "the words in the text"),
    )


def _elf(code: bytes, mach: int) -> bytes:
    """The smallest ELF file that holds code for one target: `.text` and the section names."""
    code_offset = _HEADER.size
    names_offset = code_offset + len(code)
    table_offset = names_offset + len(_NAMES)
    header = _HEADER.pack(
        *(b"\x7fELF", 2, 1, 1, OSABI_HSA, 2),  # 64 bits, little-endian; code object v4
        *(3, EM_AMDGPU, 1, 0, 0, table_offset, mach),  # ET_DYN
        *(_HEADER.size, 0, 0, _SECTION.size, 3, 2),
    )
    sections = (
        _SECTION.pack(*[0] * 10),
        # SHT_PROGBITS; SHF_ALLOC and SHF_EXECINSTR
        _SECTION.pack(_NAMES.index(b".text"), 1, 6, 0, code_offset, len(code), 0, 0, 256, 0),
        _SECTION.pack(_NAMES.index(b".shstrtab"), 3, 0, 0, names_offset, len(_NAMES), 0, 0, 1, 0),
    )
    return b"".join((header, code, _NAMES, *sections))
