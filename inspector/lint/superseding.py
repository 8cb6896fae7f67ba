"""One fact, one finding: which matches of rules are silent because another rule says it better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from .nodes import Values
from .rule import Rule
from .subjects import Place

Severity = Literal["error", "warning", "info"]
MEMORY_CLASSES = frozenset(
    ("global_load", "global_store", "lds_read", "lds_write", "lds_direct", "atomic")
)
SEVERITY_RANK: Mapping[Severity, int] = MappingProxyType({"error": 0, "warning": 1, "info": 2})


class Match(Struct, frozen=True):
    """A place at which a rule is broken.

    Args:
        rule: the rule.
        ordinal: of the loop among the kernel's loops; -1 for the kernel as a whole, and for what
            stands in no loop.
        alike: what the rule read there, the worst first, each with the accesses or waits it was
            read of; a rule of scope kernel or loop has one, of no access.
    """

    rule: Rule
    ordinal: int
    alike: tuple[tuple[Values, Sequence[Place]], ...]


def without_superseded(matches: Sequence[Match]) -> Iterator[tuple[Match, Severity]]:
    """The matches that become findings, each with its severity.

    A rule of the kernel as a whole is superseded wherever the other one is broken, and one of the
    kernel as a whole supersedes everywhere. Else the loop must be the same, and between rules of
    accesses or waits the very lines: what the other rule does not name stays. What supersedes a
    graver match takes over its severity, so that no build passes for being told the cause.
    """
    of_rule: dict[str, list[int]] = {}
    for index, match in enumerate(matches):
        of_rule.setdefault(match.rule.text.id, []).append(index)
    remaining: list[Match | None] = []
    severity = [match.rule.text.severity for match in matches]
    silenced_by: dict[int, list[int]] = {}
    for index, match in enumerate(matches):
        remainder: Match | None = match
        for superior_rule in match.rule.text.superseded_by:
            for superior in of_rule.get(superior_rule, ()):
                earlier = remainder
                remainder = _unsaid(remainder, matches[superior]) if remainder is not None else None
                if remainder is not earlier:
                    silenced_by.setdefault(index, []).append(superior)
        remaining.append(remainder)
    for index, superiors in silenced_by.items():
        for heir in _heirs(superiors, silenced_by):
            severity[heir] = min(severity[heir], severity[index], key=SEVERITY_RANK.__getitem__)
    for match_left, graded in zip(remaining, severity, strict=True):
        if match_left is not None:
            yield match_left, graded


def _heirs(superiors: Sequence[int], silenced_by: Mapping[int, Sequence[int]]) -> set[int]:
    """The superiors, and what supersedes them in turn."""
    heirs: set[int] = set()
    ahead = list(superiors)
    while ahead:
        index = ahead.pop()
        if index not in heirs:
            heirs.add(index)
            ahead += silenced_by.get(index, ())
    return heirs


def _unsaid(match: Match, superior: Match) -> Match | None:
    """What a match says that its superior does not; the match itself where their places differ."""
    if "kernel" in (match.rule.text.scope, superior.rule.text.scope):
        return None
    if match.ordinal != superior.ordinal:
        return match
    if not match.alike[0][1]:  # it is about the loop as a whole
        return None
    if superior.rule.text.scope == "loop":
        return _of_other_kinds(match, superior)
    named = {(place.line, place.text) for _, places in superior.alike for place in places}
    alike = []
    for values, places in match.alike:
        unnamed = [place for place in places if (place.line, place.text) not in named]
        if unnamed:
            alike.append((values, places if len(unnamed) == len(places) else unnamed))
    if sum(len(p) for _, p in alike) == sum(len(p) for _, p in match.alike):
        return match
    return replace(match, alike=tuple(alike)) if alike else None


def _of_other_kinds(match: Match, superior: Match) -> Match | None:
    """The accesses of a match that a rule about the same loop says nothing of.

    A requirement such as `vector_bits.lds_read.mean >= 48` names the class that it is about; one
    that names none speaks of the loop as a whole.
    """
    parts = {part for name in superior.rule.require.names for part in name.name.split(".")}
    kinds = {values.subject.get("op.kind") for values, _ in match.alike}
    if kinds.isdisjoint(parts):
        named_any = any(part in MEMORY_CLASSES for part in parts)
        return match if named_any and kinds != {None} else None
    alike = tuple(
        alternative
        for alternative in match.alike
        if alternative[0].subject.get("op.kind") not in parts
    )
    return replace(match, alike=alike) if alike else None
