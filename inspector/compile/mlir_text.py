"""MLIR text (TTIR, TTGIR, the LLVM dialect), normalised and compared line by line.

Debug locations, the names of values and the aliases of layouts do not affect the computation, and
differ between versions of Triton and between the passes of one compile.
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
_LOCATION = re.compile(rf" loc{_NEST3}")
_DEBUG_ALIAS = re.compile(r"^#(?:loc|di_)\w* = .*\n?", re.M)
VALUE = re.compile(r"%[\w$.-]+")
"""The name of an SSA value."""
_NUMBERED = re.compile(
    r"^ *(?P<function>(?:tt|llvm)\.func\b)"
    r"|(?:^ *)(?P<result>%[\w$.-]+)(?=(?::\d+)? =)"
    r"|(?P<value>%[\w$.-]+)",
    re.M,
)
_RESULT = re.compile(r"^ *(%[\w$.-]+)(?::\d+)? =")
_ALIAS_LINE = re.compile(r"^(#[A-Za-z]\w*) = (.*)$")
_ALIAS = re.compile(r"#[A-Za-z]\w*\b(?!\.)")
_CONTEXT = 3
"""Unchanged lines around a change in a diff."""
_LARGE = 2000
"""Number of lines above which difflib ignores frequent lines, since its search is quadratic."""


def strip_locations(text: str) -> str:
    """The text without debug locations and debug-info attributes."""
    return _LOCATION.sub("", _DEBUG_ALIAS.sub("", text)).strip("\n")


def line_numbers_without_locations(text: str) -> list[int]:
    """The number that each line has in `strip_locations(text)`, from 1.

    A line that is left out there has that of the next one.
    """
    numbers: list[int] = []
    number = 0
    for line in text.splitlines():
        numbers.append(number + 1)
        # Blank lines at the beginning are left out, too.
        number += bool(number or line) and _DEBUG_ALIAS.match(line) is None
    return numbers


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

    return _NUMBERED.sub(renumber, strip_locations(text))


class LayoutAliases:
    """The layout aliases (`#blocked`) that a text has defined so far; others stay as they are.

    Versions of Triton number the aliases differently, so texts are compared with the definitions in
    their places.
    """

    def __init__(self) -> None:
        self._definitions: dict[str, str] = {}

    def define(self, line: str) -> str | None:
        """The definition on a line, with aliases in it spelled out; None for other lines."""
        match = _ALIAS_LINE.match(line)
        if match is None:
            return None
        definition = self._definitions[match[1]] = self.spell_out(match[2])
        return definition

    def spell_out(self, text: str) -> str:
        """A text with the definitions of its aliases in their places."""
        if "#" not in text:
            return text
        return _ALIAS.sub(lambda match: self._definitions.get(match[0], match[0]), text)


def spelled_out(text: str) -> str:
    """The text with layout aliases replaced by their definitions."""
    aliases = LayoutAliases()
    return "\n".join(
        aliases.spell_out(line) for line in text.splitlines() if aliases.define(line) is None
    )


def unified_diff(before: str, after: str, label_before: str, label_after: str) -> str:
    """A unified diff that ignores locations, renumbered values and renamed layout aliases.

    Lines are aligned by their text without value names. An aligned pair counts as changed if a name
    stands for different values on the two sides. The diff shows the original lines.
    """
    old = strip_locations(before).splitlines()
    new = strip_locations(after).splitlines()
    edits = list(_edits(old, new))
    if all(tag == " " for tag, _ in edits):
        return ""
    return "\n".join([f"--- {label_before}", f"+++ {label_after}", *_hunks(edits)]) + "\n"


def _edits(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, str]]:
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
        None, old_middle, new_middle, autojunk=max(len(old_middle), len(new_middle)) > _LARGE
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
    aliases = LayoutAliases()
    keys = []
    for line in lines:
        definition = aliases.define(line)
        if definition is not None:
            keys.append("# = " + definition)
        else:
            keys.append(aliases.spell_out(VALUE.sub("%", line)))
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
        result = _RESULT.match(line)
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
        if spans and index - _CONTEXT <= spans[-1][1]:
            spans[-1][1] = index + _CONTEXT + 1
        else:
            spans.append([max(0, index - _CONTEXT), index + _CONTEXT + 1])
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
