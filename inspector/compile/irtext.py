"""Normalises the texts of a compile's stages, so that they can be compared.

`plain_*` drops what does not affect the computation, such as debug information, and keeps names for
people to read. `normal_*` also numbers the names: texts that differ in names alone become equal.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_FLAT = rf'[^()"]|{_QUOTED}'
_NEST1 = rf"\((?:{_FLAT})*\)"
_NEST2 = rf"\((?:{_FLAT}|{_NEST1})*\)"
_NEST3 = rf"\((?:{_FLAT}|{_NEST2})*\)"
LOCATION = re.compile(rf" loc{_NEST3}")
DEBUG_ALIAS = re.compile(r"^#(?:loc|di_)\w* = .*\n?", re.M)
VALUE = re.compile(r"%[\w$.-]+")
NUMBERED = re.compile(
    r"^ *(?P<function>(?:tt|llvm)\.func\b)"
    r"|(?:^ *)(?P<result>%[\w$.-]+)(?=(?::\d+)? =)"
    r"|(?P<value>%[\w$.-]+)",
    re.M,
)
RESULT = re.compile(r"^ *(%[\w$.-]+)(?::\d+)? =")
ALIAS_LINE = re.compile(r"^(#[A-Za-z]\w*) = (.*)$")
ALIAS = re.compile(r"#[A-Za-z]\w*\b(?!\.)")
CONTEXT = 3
LARGE = 2000
"""Number of lines above which difflib ignores frequent lines, since its search is quadratic."""


def strip_locations(text: str) -> str:
    """The text without debug locations and debug-info attributes."""
    return LOCATION.sub("", DEBUG_ALIAS.sub("", text)).strip("\n")


def canonical(text: str) -> str:
    """The text without locations, its SSA values numbered in the order they appear.

    Two texts that differ in value names alone become equal. Each definition at the start of a line
    gets a new number, since sibling regions may reuse a name.
    """
    numbers: dict[str, str] = {}
    count = 0

    def renumber(match: re.Match[str]) -> str:
        nonlocal count
        if match["function"] is not None:
            numbers.clear()
            return match[0]
        name = match["result"] or match["value"]
        if match["result"] is not None or name not in numbers:
            numbers[name] = f"%{count}"
            count += 1
        return match[0][: -len(name)] + numbers[name]

    return NUMBERED.sub(renumber, strip_locations(text))


def spelled_out(text: str) -> str:
    """The text with layout aliases replaced by their definitions.

    Versions of Triton number the aliases differently.
    """
    aliases: dict[str, str] = {}

    def spell(match: re.Match[str]) -> str:
        return aliases.get(match[0], match[0])

    lines = []
    for line in text.splitlines():
        definition = ALIAS_LINE.match(line)
        if definition is not None:
            aliases[definition[1]] = ALIAS.sub(spell, definition[2])
        else:
            lines.append(ALIAS.sub(spell, line) if "#" in line else line)
    return "\n".join(lines)


def unified_diff(before: str, after: str, label_before: str, label_after: str) -> str:
    """A unified diff that ignores locations, renumbered values and renamed layout aliases.

    Lines are aligned by their text without value names. An aligned pair counts as changed if a name
    stands for different values on the two sides. The diff shows the original lines.

    Returns:
        The diff, "" where nothing changed.
    """
    old = strip_locations(before).splitlines()
    new = strip_locations(after).splitlines()
    edits = list(_edits(old, new))
    if all(tag == " " for tag, _ in edits):
        return ""
    return "\n".join([f"--- {label_before}", f"+++ {label_after}", *_hunks(edits)]) + "\n"


def _edits(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Lines of both texts in order, each with ` `, `-` or `+`."""
    old_keys, new_keys = _keys(old), _keys(new)
    head = 0
    shortest = min(len(old), len(new))
    while head < shortest and old_keys[head] == new_keys[head]:
        head += 1
    tail = 0
    while tail < shortest - head and old_keys[-1 - tail] == new_keys[-1 - tail]:
        tail += 1
    old_middle = old_keys[head : len(old) - tail]
    new_middle = new_keys[head : len(new) - tail]
    matcher = difflib.SequenceMatcher(
        None, old_middle, new_middle, autojunk=max(len(old_middle), len(new_middle)) > LARGE
    )
    names: dict[str, str] = {}
    defined: set[str] = set()
    yield from _aligned(old[:head], new[:head], names, defined)
    for tag, old_start, old_stop, new_start, new_stop in matcher.get_opcodes():
        old_part, new_part = (
            old[head + old_start : head + old_stop],
            new[head + new_start : head + new_stop],
        )
        if tag == "equal":
            yield from _aligned(old_part, new_part, names, defined)
        else:
            yield from (("-", line) for line in old_part)
            yield from (("+", line) for line in new_part)
    if tail:
        yield from _aligned(old[-tail:], new[-tail:], names, defined)


def _keys(lines: Sequence[str]) -> list[str]:
    """Each line without value names, and with layout aliases spelled out."""
    aliases: dict[str, str] = {}

    def spell_out(match: re.Match[str]) -> str:
        return aliases.get(match[0], match[0])

    keys = []
    for line in lines:
        definition = ALIAS_LINE.match(line)
        if definition is not None:
            aliases[definition[1]] = ALIAS.sub(spell_out, definition[2])
            keys.append("# = " + aliases[definition[1]])
        else:
            keys.append(ALIAS.sub(spell_out, VALUE.sub("%", line)))
    return keys


def _aligned(
    old: Sequence[str], new: Sequence[str], names: dict[str, str], defined: set[str]
) -> Iterator[tuple[str, str]]:
    """Pairs of lines with equal keys: unchanged if their names stand for the same values.

    `names` maps names of the old text to the new one's; `defined` are those among them whose
    definitions were aligned. Both are updated.
    """
    for index, line in enumerate(old):
        new_line = new[index]
        result = RESULT.match(line)
        is_same = True
        old_names, new_names = VALUE.findall(line), VALUE.findall(new_line)
        for position, name in enumerate(old_names):
            if position == 0 and result is not None:
                names[name] = new_names[0]
                defined.add(name)
            elif names.setdefault(name, new_names[position]) != new_names[position]:
                is_same = False
                if name not in defined:  # the mapping was a guess from the name's first use
                    names[name] = new_names[position]
        if is_same:
            yield " ", new_line
        else:
            yield "-", line
            yield "+", new_line


def _hunks(edits: Sequence[tuple[str, str]]) -> Iterator[str]:
    """The changed places with their context, each under its `@@` line."""
    changed = [index for index, (tag, _) in enumerate(edits) if tag != " "]
    spans: list[list[int]] = []
    for index in changed:
        if spans and index - CONTEXT <= spans[-1][1]:
            spans[-1][1] = index + CONTEXT + 1
        else:
            spans.append([max(0, index - CONTEXT), index + CONTEXT + 1])
    old_line = new_line = 1
    next_edit = 0
    for start, stop in spans:
        skipped = edits[next_edit:start]
        old_line += sum(tag != "+" for tag, _ in skipped)
        new_line += sum(tag != "-" for tag, _ in skipped)
        hunk = edits[start:stop]
        old_count = sum(tag != "+" for tag, _ in hunk)
        new_count = sum(tag != "-" for tag, _ in hunk)
        yield f"@@ -{old_line},{old_count} +{new_line},{new_count} @@"
        yield from (tag + line for tag, line in hunk)
        old_line += old_count
        new_line += new_count
        next_edit = min(stop, len(edits))


# --------------------------------------------------------------------------- MLIR


def plain_mlir(text: str) -> str:
    """TTIR or TTGIR without debug locations."""
    return strip_locations(text)


def normal_mlir(text: str) -> str:
    """TTIR or TTGIR without locations and layout aliases, values numbered as they appear."""
    return spelled_out(canonical(text))


# Triton 3.5 prints the layout of matrix results differently and adds the instruction's K.
_OLDER_VERSION = re.compile(r"versionMajor = (\d+), versionMinor = \d+")
_SHAPE = re.compile(r"instrShape = \[(\d+), (\d+), \d+\]")


def spells_older(text: str) -> bool:
    """Tells whether the text spells layouts as Triton did before 3.5."""
    return "versionMajor = " in text


def older_spelling(text: str) -> str:
    """The text with layouts as Triton spelled them before 3.5, to compare with such a one."""
    return _SHAPE.sub(r"instrShape = [\1, \2]", _OLDER_VERSION.sub(r"version = \1", text))


# --------------------------------------------------------------------------- LLVM IR

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


# --------------------------------------------------------------------------- AMDGCN

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
    """Yields the lines of `plain_amdgcn`."""
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


# --------------------------------------------------------------------------- names


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
