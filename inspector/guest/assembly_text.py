"""Refuses assembly that names files for LLVM's assembler or linker, before it is assembled.

Triton prints a kernel as text and assembles that. Inline assembly stands in it as written, and so
do names of kernels and of source files, with any line that they hold. Directives that macros make
are not seen here: `without_files` keeps the assembler from files, and `check_object` the linker.
"""

from __future__ import annotations

import importlib
import re
import struct
from typing import Any

_FILES = re.compile(
    r"\.(?:incbin|include|deplibs|linker-options)\b|llvm_(?:dependent_libraries|linker_options)",
    re.I,
)
_SECTION_TYPE = re.compile(r"\.(?:push)?section\b[^\n\r;]*,\s*[@%\"](?P<type>[\w.-]*)", re.I)
_PLAIN_TYPES = frozenset(("progbits", "nobits", "note", "init_array", "fini_array"))
_PLAIN_NUMBERS = frozenset((0, 1, 2, 3, 4, 7, 8, 9, 14, 15, 16, 17, 18, 0x6FFF4C03))
"""Types of sections that name no file: those of the ELF specification, and LLVM's addrsig."""


def guard_linker() -> None:
    """Looks at each object of this process before Triton links it."""
    amd: Any = importlib.import_module("triton._C.libtriton").amd
    link = amd.link_hsaco

    def checked(source: str, *arguments: Any) -> Any:
        with open(source, "rb") as stream:
            check_object(stream.read())
        return link(source, *arguments)

    amd.link_hsaco = checked


def check_object(content: bytes) -> None:
    """Checks the sections of an object: lld opens the files that some name.

    Raises:
        ValueError: one is of such a type.
    """
    (start,) = struct.unpack_from("<Q", content, 0x28)
    size, count = struct.unpack_from("<HH", content, 0x3A)
    if not count and start:  # more than 65,279: the first section says how many
        (count,) = struct.unpack_from("<Q", content, start + 0x20)
    for number in range(count):
        (kind,) = struct.unpack_from("<I", content, start + number * size + 4)
        if kind not in _PLAIN_NUMBERS:
            raise ValueError(f"its assembly has a section of type {kind:#x}, for the linker")


def check_assembly(text: str) -> None:
    """Checks a kernel's assembly.

    Raises:
        ValueError: it would read a file.
    """
    types = (match["type"].lower() for match in _SECTION_TYPE.finditer(text) if match["type"])
    if _FILES.search(text) is not None or not _PLAIN_TYPES.issuperset(types):
        raise ValueError(
            "its assembly names files or libraries (.incbin, .include, sections for the linker), "
            "which would go into the code: put what it needs into the kernel itself"
        )
