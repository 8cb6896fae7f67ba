"""Refuses assembly that would make LLVM's assembler or linker read files, before it is assembled.

Triton prints a kernel as text and assembles that. Inline assembly stands in it as written, and so
do names of kernels and of source files, with any line that they hold.
"""

from __future__ import annotations

import re

_FILES = re.compile(
    r"\.(?:incbin|include|deplibs|linker-options)\b|llvm_(?:dependent_libraries|linker_options)",
    re.I,
)
_SECTION_TYPE = re.compile(r"\.(?:push)?section\b[^\n\r;]*,\s*[@%\"](?P<type>[\w.-]*)", re.I)
_PLAIN_TYPES = frozenset(("progbits", "nobits", "note", "init_array", "fini_array"))
_MACROS = re.compile(r"\.(?:macro|irpc?|rept?)\b", re.I)
_MAKES_DIRECTIVES = re.compile(r"\.altmacro\b|/\*|(?:^|[\n\r\0;\":])[ \t]*(?:\.[\w$.]*)?\\", re.I)
"""In a macro: a directive of whose name an argument is a part, or what could hide one."""


def check_assembly(text: str) -> None:
    """Checks a kernel's assembly.

    Raises:
        ValueError: it would read a file.
    """
    types = (match["type"].lower() for match in _SECTION_TYPE.finditer(text) if match["type"])
    made = _MACROS.search(text) is not None and _MAKES_DIRECTIVES.search(text) is not None
    if made or _FILES.search(text) is not None or not _PLAIN_TYPES.issuperset(types):
        raise ValueError(
            "its assembly names files or libraries (.incbin, .include, sections for the linker), "
            "which would go into the code: put what it needs into the kernel itself"
        )
