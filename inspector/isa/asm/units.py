"""Files and units that an assembly text is made of, and texts that are something else altogether.

Finds the device part of a bundle, blanks C comments, reads what `.include` names, and says what a
text without a single AMDGCN instruction looks like.

A text may come from a stranger: of included files nothing outside of the folder that it lies in is
read, however the path is spelled.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from ...errors import KinspectError
from .target import Target

_MARKER = re.compile(
    r"^[#;/]+[ \t]*__CLANG_OFFLOAD_BUNDLE____(START|END)__[ \t]+(\S+).*$", re.MULTILINE
)
_TARGET_LINE = re.compile(r"^[ \t]*\.amdgcn_target\b.*$", re.MULTILINE)
_BLOCK_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|;[^\n]*|//[^\n]*|(/\*.*?(?:\*/|\Z))', re.DOTALL)
_FULL_NUMBER = re.compile(r"\bv(?:\d+|\[\d+:\d+\]) /\*(v(?:\d+|\[\d+:\d+\]))\*/")
_LINE_BREAKS = re.compile(r"[^\n]+")
_SAMPLE = 65_536
_TEXT_PER_NUL = 100  # bytes of text to each NUL, at the least
_LISTED = re.compile(
    r"^(?:[0-9a-fA-F]{8,16} )?<[^>\n]+>:[ \t]*\r?$|^\s+[a-z]\w+\b[^\n]*// [0-9A-Fa-f]{8,16}:",
    re.MULTILINE,
)
_FORMAT = re.compile(r"file format elf")

# What no other machine's assembly holds, in code that is left out as well as in code that is read.
_AMDGPU = re.compile(
    r"^[ \t]*\.(?:amdgcn_target|amdhsa_|amdgpu_|amd_kernel_code_t|amd_amdgpu_|hsa_code_object_)"
    r"|\.amdgcn\.|\.option\.machine_version_",
    re.MULTILINE,
)

# Tried in this order on the beginning of a text that holds no AMDGCN.
_LOOKS = (
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


class Unit(Struct, frozen=True):
    """A part of a text that was assembled on its own. `lines_before` precede it in the file."""

    text: str
    lines_before: int
    target: Target


def is_listing(text: str) -> bool:
    """Whether a text is a disassembly rather than assembler input."""
    head = text[:_SAMPLE]
    if ".amdgcn_target" in head or ".amdhsa_" in head:
        return False
    return _FORMAT.search(head) is not None or _LISTED.search(head) is not None


def is_binary(data: bytes) -> bool:
    """Whether bytes are no text, by their beginning.

    Single NULs are no proof: compilers write some into the comments of debug sections.
    """
    head = data[:_SAMPLE]
    return head.count(b"\0") * _TEXT_PER_NUL > len(head)


def names_amdgpu(text: str) -> bool:
    """Whether a text names directives or symbols that only AMDGPU's assembler has."""
    return _AMDGPU.search(text) is not None


def blank_block_comments(text: str) -> str:
    """Replaces `/* ... */` by blanks, keeping line breaks.

    Where LLVM prints the low bits of a VGPR's number and the whole of it in a comment (gfx1250,
    `v0 /*v256*/`), the whole number takes its place.
    """
    if "/*" not in text:
        return text
    text = _FULL_NUMBER.sub(lambda match: match[1].ljust(len(match[0])), text)

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[1] is None else _LINE_BREAKS.sub(" ", match[0])

    return _BLOCK_COMMENT.sub(blank, text)


def split_units(text: str) -> tuple[list[Unit], list[str]]:
    """Cuts a text into the parts for one device each; host parts of a bundle are left out.

    Returns:
        The units, and the bundle targets that were skipped. A file of several kernels, each with
        its own `.amdgcn_target`, gives one unit per directive.
    """
    skipped: list[str] = []
    spans: list[tuple[int, int, str]] = []
    if "__CLANG_OFFLOAD_BUNDLE____" in text:
        opened: tuple[int, str] | None = None
        for match in _MARKER.finditer(text):
            if match[1] == "START":
                if opened is not None:  # its end is missing
                    spans.append((opened[0], match.start(), opened[1]))
                opened = (match.end(), match[2])
            elif opened is not None:
                spans.append((opened[0], match.start(), opened[1]))
                opened = None
        if opened is not None:
            spans.append((opened[0], len(text), opened[1]))
    if not spans:
        spans = [(0, len(text), "")]
    units: list[Unit] = []
    line, counted = 0, 0
    for start, stop, bundle in spans:
        if bundle and "amdgcn" not in bundle:
            skipped.append(bundle)
            continue
        for first, last in _by_target(text, start, stop):
            line += text.count("\n", counted, first)
            counted = first
            units.append(Unit(text[first:last], line, Target.parse(bundle)))
    return units, skipped


def _by_target(text: str, start: int, stop: int) -> list[tuple[int, int]]:
    # A cheap search first: nearly every file has at most one directive.
    if text.count(".amdgcn_target", start, stop) < 2:
        return [(start, stop)]
    directive_starts = [m.start() for m in _TARGET_LINE.finditer(text, start, stop)]
    cuts = [start, *directive_starts[1:], stop]
    return list(pairwise(cuts))


def not_amdgcn(text: str, name: str) -> KinspectError:
    """The error for a text that holds no AMDGCN, naming what it looks like."""
    hint = "pass AMDGCN assembly (.amdgcn, .s), llvm-objdump -d output, or a .hsaco"
    sample = text[:_SAMPLE]
    if not sample.strip():
        return KinspectError(f"{name}: the file is empty", hint)
    for description, pattern in _LOOKS:
        if re.search(pattern, sample, re.MULTILINE):
            return KinspectError(f"{name}: no AMDGCN in it, it looks like {description}", hint)
    controls = sum(c < " " and c not in "\t\n\r\f\v" for c in sample) + sample.count("�")
    kind = "binary data" if controls * 10 > len(sample) else "some other text"
    return KinspectError(f"{name}: no AMDGCN in it, it looks like {kind}", hint)


# --------------------------------------------------------------------------- files taken in

Includes = Callable[[str], "str | None"]
"""Gives the text of an included file by the name in the directive, None where it is not read."""

MAX_BYTES = 16 << 20


def nothing(name: str) -> str | None:
    """Includes of a text that lies in no folder: none is read."""
    return None


def beside(path: Path) -> Includes:
    """Reads files in the folder of an assembly file and in folders below that.

    Args:
        path: the assembly file. Where it is no file, nothing is read.
    """
    if not path.is_file():
        return nothing
    folder = path.resolve().parent
    texts: dict[str, str | None] = {}

    def read(name: str) -> str | None:
        if name not in texts:
            texts[name] = _text(folder, name)
        return texts[name]

    return read


def _text(folder: Path, name: str) -> str | None:
    try:
        file = (folder / name).resolve()
        if not file.is_relative_to(folder) or not file.is_file():
            return None
        if file.stat().st_size > MAX_BYTES:
            return None
        return file.read_bytes().decode("utf-8", "replace")
    except (
        OSError,
        ValueError,
        RuntimeError,
    ):  # no such file, a NUL in its name, a circle of links
        return None
