"""The filter of the kernels' table: terms, typed after `/`, that a row must all match.

attn gfx942          words of the name, file, target, configuration or a rule
sev:error            it has a finding of that severity
vgpr>128 occ<=2      a figure of a column, a constexpr, an option or a metric
lds>32K              K and M are suffixes for 1024 and 1024²
arch:gfx95 name:fwd  a word of that part alone (arch, name, file, case, rule)
is:failed            failed, marked, front, changed
-softmax             rows that do not match the term
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from ...session import SEVERITIES
from .columns import ALIASES, COLUMNS
from .leaves import Leaf

LeafTest = Callable[[Leaf], bool]
_WORDS = re.compile(r'(?:[^\s"]|"[^"]*")+')
_CONDITION = re.compile(r"([A-Za-z_][\w.]*)(>=|<=|!=|==|>|<|=)(.*)")
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
}
_SIZES = {"k": 1024, "m": 1024 * 1024}
_FAILED = ("failed", "error", "errors")
PARTS = ("arch", "name", "file", "case", "rule", "sev", "is")


class FilterError(ValueError):
    """A filter cannot be understood; the message says why."""


class KernelSets(Struct, frozen=True):
    """Kernels that `is:marked` and `is:front` select, by key."""

    marked: frozenset[str] = frozenset()
    front: frozenset[str] = frozenset()


def parse(text: str, sets: KernelSets) -> LeafTest:
    """Parses a filter into a test of rows.

    Raises:
        FilterError: a term cannot be understood.
    """
    tests = [_term(term, sets) for term in _WORDS.findall(text)]
    return lambda leaf: all(test(leaf) for test in tests)


def _term(term: str, sets: KernelSets) -> LeafTest:
    """The test of one term: negated, quoted, `part:text`, a condition, or a word."""
    if term[:1] in "-!" and len(term) > 1:
        negated = _term(term[1:], sets)
        return lambda leaf: not negated(leaf)
    if term[:1] == '"':  # quoted terms are searched as they are
        quoted = term.replace('"', "").lower()
        return lambda leaf: quoted in leaf.text
    part, colon, text = term.replace('"', "").partition(":")
    if colon and part in PARTS and not part.startswith("is"):
        return _part(part, text.lower())
    if colon and part == "is":
        return _state(text.lower(), sets)
    match = _CONDITION.fullmatch(term)
    if match is not None:
        return _condition(*match.groups(), term=term)
    lowered = term.lower()
    return lambda leaf: lowered in leaf.text


def _part(part: str, text: str) -> LeafTest:
    if part == "sev":
        names = [name for name in SEVERITIES if name.startswith(text)]
        if text and not names:
            raise FilterError(f"sev:{text}: there is {', '.join(SEVERITIES)}")
        return lambda leaf: leaf.entry is not None and any(map(leaf.entry.count, names))
    return lambda leaf: text in _of_part(leaf, part).lower()


def _of_part(leaf: Leaf, part: str) -> str:
    """The text of a row that `part:` searches."""
    entry, error = leaf.entry, leaf.error
    if entry is None:
        assert error is not None
        return (error.file or "") if part == "file" else (error.kernel or "")
    if part == "arch":
        return entry.report.arch or ""
    if part == "name":
        return entry.report.name
    if part == "file":
        return entry.path
    if part == "case":
        return entry.case
    return " ".join(finding.rule for finding in entry.report.findings)


def _state(state: str, sets: KernelSets) -> LeafTest:
    """The test of `is:STATE`; a state that is still being typed matches every row."""
    if state in _FAILED:
        return lambda leaf: leaf.error is not None
    if state == "marked":
        return lambda leaf: leaf.key in sets.marked
    if state == "front":
        return lambda leaf: leaf.key in sets.front
    if state == "changed":
        return lambda leaf: leaf.changed
    states = ("failed", "marked", "front", "changed")
    if any(name.startswith(state) for name in states):
        return lambda leaf: True
    raise FilterError(f"is:{state}: there is {', '.join(states)}")


def _condition(name: str, sign: str, typed: str, *, term: str) -> LeafTest:
    """The test of a condition on a figure, constexpr, option or metric."""
    column = ALIASES.get(name.lower(), name.lower())
    compare = _COMPARE[sign]
    if typed == "":
        return lambda leaf: True
    limit = _number(typed)
    if column == "findings":
        return lambda leaf: (
            leaf.entry is not None
            and limit is not None
            and compare(len(leaf.entry.report.findings), limit)
        )
    if column in COLUMNS:
        if limit is None and sign not in ("=", "==", "!="):
            raise FilterError(f"{term}: {typed} is not a number")
        return lambda leaf: _holds(compare, leaf.values.get(column), limit, typed)
    lowered = term.lower()

    def test(leaf: Leaf) -> bool:
        exists, value = _setting(leaf, name)
        if not exists:  # no such name: `a=b` may still be part of a text
            return sign == "=" and lowered in leaf.text
        return _holds(compare, value, limit, typed)

    return test


def _setting(leaf: Leaf, name: str) -> tuple[bool, object]:
    """Whether a kernel has a constexpr, option or metric of a name, and its value."""
    if leaf.entry is None:
        return False, None
    variant = leaf.entry.report.variant
    if variant is not None:
        for settings in (variant.constexprs, variant.options):
            if name in settings:
                return True, settings[name]
    value = leaf.entry.metric(name)
    return value is not None, value


def _holds(
    compare: Callable[[Any, Any], bool], value: object, limit: float | None, typed: str
) -> bool:
    """Whether a comparison holds: of numbers, else of texts for equality; False for unknowns."""
    if value is None:
        return False
    if limit is not None and isinstance(value, int | float) and not isinstance(value, bool):
        return compare(value, limit)
    if compare in (operator.eq, operator.ne):
        return compare(str(value).lower(), typed.lower())
    return False


def _number(text: str) -> float | None:
    factor = _SIZES.get(text[-1:].lower(), 1)
    try:
        return float(text[:-1] if factor > 1 else text) * factor
    except ValueError:
        return None
