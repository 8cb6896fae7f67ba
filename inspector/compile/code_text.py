"""LLVM IR and AMDGCN of a compile, normalised so that two of them can be compared.

`plain_*` drops what does not affect the computation, such as debug information, and keeps names for
people to read. `normal_*` also numbers the names: texts that differ in names alone become equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_COMMENT = re.compile(r'^((?:[^";]|"[^"]*")*);.*$')
_METADATA = re.compile(r"^!(\d+) = (?:distinct )?(.*)$")
_GROUP = re.compile(r"^attributes (#\d+) = \{ (.*) \}$")
_ATTRIBUTE = re.compile(r'"[^"]*"(?:="[^"]*")?|[\w.-]+\([^()]*(?:\([^()]*\)[^()]*)*\)|[^\s"]+')
_DEBUG = re.compile(r",? !(?:dbg|DIExpression)\b(?: !\d+)?")
_DROPPED = re.compile(
    r"^(?:source_filename|target |declare .*@llvm\.|!|attributes #|\s*#dbg_|\s*(?:tail )?call void "
    r"@llvm\.dbg\.)"
)
_REFERENCE = re.compile(r"!(\d+)\b")
_GROUP_USE = re.compile(r" (#\d+)(?=[\s,]|$)")
_LABEL = re.compile(r'^([-\w$.]+|"[^"]*"):')
_LOCAL = re.compile(r'%(?:[-\w$.]+|"[^"]*")')
_NESTING = 6
"""Levels of nested metadata that are expanded: enough for loop hints and aliasing."""

# LLVM 21 renamed this attribute.
_SPELLED_ANEW = (("nocapture", "captures(none)"),)


def plain_llvm(text: str) -> str:
    """LLVM IR without comments, debug information, declarations of intrinsics and target strings.

    Attribute groups and metadata are spelled out where they are used: they change the code.
    """
    lines = [_COMMENT.sub(r"\1", line).rstrip() for line in text.splitlines()]
    metadata = {m[1]: m[2] for line in lines if (m := _METADATA.match(line)) is not None}
    groups = {m[1]: _attributes(m[2]) for line in lines if (m := _GROUP.match(line)) is not None}
    plain_lines = []
    for line in lines:
        if not line.strip() or _DROPPED.match(line):
            continue
        line = _DEBUG.sub("", line)
        line = _GROUP_USE.sub(lambda m: groups.get(m[1], ""), line)
        line = _spelled(line, metadata, ())
        for old, new in _SPELLED_ANEW:
            line = line.replace(old, new)
        plain_lines.append(_LABEL.sub(r"%\1:", line))
    return "\n".join(plain_lines)


def normal_llvm(text: str) -> str:
    """`plain_llvm` with values and labels numbered as they appear, in each function anew."""
    return _numbered(plain_llvm(text), _LOCAL, "%", "define ")


def _attributes(text: str) -> str:
    attributes = sorted(_ATTRIBUTE.findall(text))
    return " {" + " ".join(attributes) + "}" if attributes else ""


def _spelled(text: str, metadata: dict[str, str], above: tuple[str, ...]) -> str:
    """The text with metadata expanded in place of its numbers; stops at debug nodes and cycles."""

    def spell(match: re.Match[str]) -> str:
        number = match[1]
        node = metadata.get(number, "")
        if number in above:
            return "!self"
        if node.startswith("!DI") or len(above) >= _NESTING:
            return "!di"
        return _spelled(node, metadata, (*above, number))

    return _REFERENCE.sub(spell, text)


_ASM_COMMENT = re.compile(r";.*$|//.*$")
_STATED = re.compile(
    r"\s*(?:- )?\.(?:[avs]gpr_count|[vs]gpr_spill_count|(?:private|group)_segment_fixed_size"
    r"|max_flat_workgroup_size|wavefront_size|uses_dynamic_stack):\s*\S+\s*$"
)
_ASM_LABEL = re.compile(r"\.L[\w$.]+|\bBB\d+_\d+")
_NO_CODE = re.compile(r"\.L(?:tmp|func|debug|cu|info|line|rng)\w*:")
_CODE = re.compile(r"\s+[a-z]|[\w$.]+:")


def plain_amdgcn(text: str) -> str:
    """Returns the instructions and labels of an AMDGCN text, and the figures of its metadata.

    Comments, data, debug sections and directives are dropped: they name files, or repeat what the
    metadata states.
    """
    return "\n".join(_code_lines(text))


def normal_amdgcn(text: str) -> str:
    """Returns `plain_amdgcn` with labels numbered in order of appearance."""
    return _numbered(plain_amdgcn(text), _ASM_LABEL, ".L", None)


def _code_lines(text: str) -> Iterator[str]:
    in_code = True
    for raw in text.splitlines():
        line = _ASM_COMMENT.sub("", raw).rstrip()
        body = line.strip()
        if not body:
            continue
        if body.startswith((".text", ".section")):
            in_code = body.startswith(".text") or ".text" in body
        elif _STATED.fullmatch(line):
            yield body
        elif not in_code or not _CODE.match(line) or _NO_CODE.match(body):
            continue
        elif body.endswith(":"):
            yield body
        elif not body.startswith("."):
            yield "  " + " ".join(body.split())


def _numbered(text: str, name: re.Pattern[str], prefix: str, restart: str | None) -> str:
    """Numbers names in order of appearance, from 0 again on lines that begin with `restart`."""
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return numbers.setdefault(match[0], f"{prefix}{len(numbers)}")

    lines = []
    for line in text.splitlines():
        if restart is not None and line.startswith(restart):
            numbers.clear()
        lines.append(name.sub(number, line))
    return "\n".join(lines)
