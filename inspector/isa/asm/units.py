"""The units of an assembly text: parts that were assembled on their own.

A clang offload bundle holds one for each device and one for the host, and a file of several kernels
may have an `.amdgcn_target` for each.

The current section of a unit of assembly. Recognises what a text is: AMDGCN, a disassembly of it,
binary data, or another language.

The files that an assembly text names in `.include`.

The text may be hostile: only files in its own folder and in folders below that are read, however
the path in the directive is spelled.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from ...base.errors import KinspectError
from ...base.named_files import named_text
from .target import AsmTarget

_BUNDLE_MARKER = re.compile(
    r"^[#;/]+[ \t]*__CLANG_OFFLOAD_BUNDLE____(START|END)__[ \t]+(\S+).*$", re.MULTILINE
)
_TARGET_LINE = re.compile(r"^[ \t]*\.amdgcn_target\b.*$", re.MULTILINE)
_BLOCK_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|;[^\n]*|//[^\n]*|(/\*.*?(?:\*/|\Z))', re.DOTALL)
_NUMBER_IN_COMMENT = re.compile(r"\bv(?:\d+|\[\d+:\d+\]) /\*(v(?:\d+|\[\d+:\d+\]))\*/")
_LINE_BREAKS = re.compile(r"[^\n]+")
_CHUNK = 1 << 20  # characters that are split into lines at a time


class AssemblyUnit(Struct, frozen=True):
    """A part of a text that was assembled on its own.

    Args:
        lines_before: lines of the file that precede it.
        target: the target that the bundle states; unknown without a bundle.
    """

    text: str
    lines_before: int
    target: AsmTarget


def blank_block_comments(text: str) -> str:
    """Replaces `/* ... */` by blanks, keeping line breaks.

    Where LLVM prints the low bits of a VGPR's number and the full number in a comment (gfx1250,
    `v0 /*v256*/`), the full number replaces the operand.
    """
    if "/*" not in text:
        return text
    text = _NUMBER_IN_COMMENT.sub(lambda match: match[1].ljust(len(match[0])), text)

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[1] is None else _LINE_BREAKS.sub(" ", match[0])

    return _BLOCK_COMMENT.sub(blank, text)


def split_units(text: str) -> tuple[list[AssemblyUnit], list[str]]:
    """Cuts a text into its units for AMD GPUs; a text without any marker is one unit.

    Returns:
        The units, and the targets of a bundle that are no AMD GPUs.
    """
    spans = list(_bundle_parts(text)) or [(0, len(text), "")]
    units: list[AssemblyUnit] = []
    skipped: list[str] = []
    line, counted = 0, 0  # lines before the character `counted`
    for start, stop, bundle_target in spans:
        if bundle_target and "amdgcn" not in bundle_target:
            skipped.append(bundle_target)
            continue
        for unit_start, unit_end in _by_target_directive(text, start, stop):
            line += text.count("\n", counted, unit_start)
            counted = unit_start
            units.append(
                AssemblyUnit(text[unit_start:unit_end], line, AsmTarget.parse(bundle_target))
            )
    return units, skipped


def _bundle_parts(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and target of each part of a bundle; a part without its end goes to the next."""
    if "__CLANG_OFFLOAD_BUNDLE____" not in text:
        return
    open_part: tuple[int, str] | None = None
    for match in _BUNDLE_MARKER.finditer(text):
        if open_part is not None:
            yield open_part[0], match.start(), open_part[1]
        open_part = (match.end(), match[2]) if match[1] == "START" else None
    if open_part is not None:
        yield open_part[0], len(text), open_part[1]


def _by_target_directive(text: str, start: int, stop: int) -> list[tuple[int, int]]:
    """Cuts a part before every `.amdgcn_target` but its first."""
    # A cheap search first: nearly every file has at most one directive.
    if text.count(".amdgcn_target", start, stop) < 2:
        return [(start, stop)]
    directives = [match.start() for match in _TARGET_LINE.finditer(text, start, stop)]
    return list(pairwise([start, *directives[1:], stop]))


def lines_of(text: str, lines_before: int) -> Iterator[tuple[int, str]]:
    """Yields (line number, line), splitting a chunk at a time to spare memory."""
    number = lines_before
    position, size = 0, len(text)
    while position < size:
        stop = size
        if size - position > _CHUNK:
            newline = text.find("\n", position + _CHUNK)
            stop = size if newline < 0 else newline
        chunk = text[position:stop].split("\n")
        position = stop + 1
        yield from enumerate(chunk, number + 1)
        number += len(chunk)


SECTION_DIRECTIVES = (
    ".text",
    ".data",
    ".bss",
    ".rodata",
    ".section",
    ".pushsection",
    ".popsection",
    ".previous",
)
"""Directives after which what follows belongs to another section."""


class SectionStack:
    """The current section; a text begins in `.text`.

    Data directives are code in `.text`, and nothing of interest elsewhere.
    """

    def __init__(self) -> None:
        self._name = self._previous = ".text"
        self._pushed: list[tuple[str, str]] = []

    @property
    def is_code(self) -> bool:
        """Whether the current section holds code."""
        return self._name.startswith(".text")

    def switch(self, directive: str, operands: str) -> None:
        """Acts on one of `SECTION_DIRECTIVES`.

        Args:
            directive: the directive, with its dot.
            operands: its operands, without comments.
        """
        if directive == ".popsection":
            if self._pushed:
                self._name, self._previous = self._pushed.pop()
            return
        if directive == ".previous":
            self._name, self._previous = self._previous, self._name
            return
        if directive == ".pushsection":
            self._pushed.append((self._name, self._previous))
        is_named = directive in (".section", ".pushsection")
        name = operands.partition(",")[0].strip().strip('"') if is_named else directive
        self._previous, self._name = self._name, name


_SAMPLE = 65_536
"""Characters, or bytes, at the beginning that are examined."""
_LEAST_TEXT_PER_NUL = 100
"""A text has at least this many bytes for each NUL in it."""
_LISTING_LINE = re.compile(
    r"^(?:[0-9a-fA-F]{8,16} )?<[^>\n]+>:[ \t]*\r?$|^\s+[a-z]\w+\b[^\n]*// [0-9A-Fa-f]{8,16}:",
    re.MULTILINE,
)
_LISTING_HEADER = re.compile(r"file format elf")

# Directives and symbols that no other machine's assembly has.
_AMDGPU_NAMES = re.compile(
    r"^[ \t]*\.(?:amdgcn_target|amdhsa_|amdgpu_|amd_kernel_code_t|amd_amdgpu_|hsa_code_object_)"
    r"|\.amdgcn\.|\.option\.machine_version_",
    re.MULTILINE,
)

# (name, pattern) of other kinds of files, tried in this order on the beginning of a text.
_OTHER_KINDS = (
    ("an ELF object", r"\A\x7fELF"),
    ("LLVM bitcode", r"\ABC\xc0\xde"),
    ("a zip archive", r"\APK\x03\x04"),
    ("a clang offload bundle (binary)", r"\A__CLANG_OFFLOAD_BUNDLE__|\ACCOB"),
    ("PTX", r"^\s*\.(?:visible\s+\.entry|target\s+sm_\d+|address_size\s+\d+)"),
    ("NVIDIA SASS", r"/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\d\s+)?[A-Z][A-Z0-9.]+\b.*;"),
    ("LLVM IR", r"^(?:target (?:triple|datalayout)|source_filename) =|^(?:define|declare) .*@"),
    ("MLIR (TTIR or TTGIR)", r"^\s*(?:module(?: attributes)? \{|#\w+ = #\w+)|\btt\.func\b"),
    ("SPIR-V assembly", r"^\s*OpCapability\s"),
    ("x86 assembly", r"%(?:[re][a-ds][xpi]|[xyz]mm\d+|r\d+d?)\b|^\s*(?:push|mov|ret)q\b"),
    ("AArch64 assembly", r"^\s*(?:stp|ldp|adrp|bl)\s+(?:x\d+|\w+)|^\s*ldr\s+[xwq]\d+"),
    ("Python source", r"^(?:import \w|from \w[\w.]* import |def \w+\(|class \w+[:(]|@triton)"),
    ("C++ or HIP source", r"^\s*(?:#include\s*[<\"]|template\s*<|__global__|namespace \w+)"),
    ("JSON", r"\A\s*[{\[]\s*[\"{\[\]}]"),
    ("an assembly text of another machine", r"^\s*\.(?:text|globl|section|p2align)\b"),
)


def is_listing(text: str) -> bool:
    """Whether a text is a disassembly rather than assembler input."""
    head = text[:_SAMPLE]
    if ".amdgcn_target" in head or ".amdhsa_" in head:
        return False
    return _LISTING_HEADER.search(head) is not None or _LISTING_LINE.search(head) is not None


def is_binary(data: bytes) -> bool:
    """Whether bytes are no text, by their beginning.

    Single NULs prove nothing: compilers write some into the comments of debug sections.
    """
    head = data[:_SAMPLE]
    return head.count(b"\0") * _LEAST_TEXT_PER_NUL > len(head)


def names_amdgpu(text: str) -> bool:
    """Whether a text names directives or symbols that only AMDGPU's assembler has."""
    return _AMDGPU_NAMES.search(text) is not None


def not_amdgcn(text: str, name: str) -> KinspectError:
    """The error for a text that holds no AMDGCN, naming what it looks like."""
    hint = "pass AMDGCN assembly (.amdgcn, .s), llvm-objdump -d output, or a .hsaco"
    sample = text[:_SAMPLE]
    if not sample.strip():
        return KinspectError(f"{name}: the file is empty", hint)
    for kind, pattern in _OTHER_KINDS:
        if re.search(pattern, sample, re.MULTILINE):
            return KinspectError(f"{name}: no AMDGCN in it, it looks like {kind}", hint)
    controls = sum(c < " " and c not in "\t\n\r\f\v" for c in sample) + sample.count("�")
    description = "binary data" if controls * 10 > len(sample) else "some other text"
    return KinspectError(f"{name}: no AMDGCN in it, it looks like {description}", hint)


Includes = Callable[[str], "str | None"]
"""Name in the directive -> text of the file; None where it is not read."""

MAX_BYTES = 16 << 20


def no_includes(name: str) -> str | None:
    """Reads no file: the includes of a text that lies in no folder."""
    return None


def includes_beside(path: Path) -> Includes:
    """The includes of an assembly file: files in its folder and in folders below, each read once.

    `path`: the assembly file; where there is none, nothing is read.
    """
    if not path.is_file():
        return no_includes
    folder = path.resolve().parent
    texts: dict[str, str | None] = {}

    def read_include(name: str) -> str | None:
        if name not in texts:
            texts[name] = _text_below(folder, name)
        return texts[name]

    return read_include


def _text_below(folder: Path, name: str) -> str | None:
    """The text of a file below a folder; None where it lies elsewhere or may not be read."""
    try:
        place = Path(os.path.realpath(folder / name))  # pathlib's own raises for a circle of links
    except (OSError, ValueError):
        return None
    return named_text(place, MAX_BYTES) if place.is_relative_to(folder) else None
