"""Recognises what a text is: AMDGCN, a disassembly of it, binary data, or another language."""

from __future__ import annotations

import re

from ...base.errors import KinspectError

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
