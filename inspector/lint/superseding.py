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
# Scratch is left out: how much of it a loop uses follows from its registers, so that a requirement
# on `scratch_load` or `scratch_store` is about the loop as a whole, whatever else it accesses.
_CLASSES_IN_REQUIREMENTS = frozenset(
    ("global_load", "global_store", "lds_read", "lds_write", "lds_direct", "atomic")
)
SEVERITY_RANK: Mapping[Severity, int] = MappingProxyType({"error": 0, "warning": 1, "info": 2})


class Reading(Struct, frozen=True):
    """The values that a rule read of accesses or waits that are equal to it.

    Args:
        values: what its conditions and message read.
        places: the accesses or waits; none where the rule is about a loop or the kernel.
    """

    values: Values
    places: Sequence[Place]


class Match(Struct, frozen=True):
    """A place at which a rule is broken.

    Args:
        rule: the rule.
        ordinal: number of the loop among the kernel's loops; -1 for the kernel as a whole, and
            outside all loops.
        readings: what the rule read there, the worst first; a rule of scope kernel or loop has
            one, of no access.
    """

    rule: Rule
    ordinal: int
    readings: tuple[Reading, ...]


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
                if remainder is not None:
                    remainder = _not_covered_by(matches[superior], remainder)
                if remainder is not earlier:
                    silenced_by.setdefault(index, []).append(superior)
        remaining.append(remainder)
    for index, superiors in silenced_by.items():
        for superior in _all_superiors(superiors, silenced_by):
            severity[superior] = min(
                severity[superior], severity[index], key=SEVERITY_RANK.__getitem__
            )
    for match_left, graded in zip(remaining, severity, strict=True):
        if match_left is not None:
            yield match_left, graded


def _all_superiors(superiors: Sequence[int], silenced_by: Mapping[int, Sequence[int]]) -> set[int]:
    """The superiors, and what supersedes them in turn."""
    reached: set[int] = set()
    ahead = list(superiors)
    while ahead:
        index = ahead.pop()
        if index not in reached:
            reached.add(index)
            ahead += silenced_by.get(index, ())
    return reached


def _not_covered_by(superior: Match, match: Match) -> Match | None:
    """The part of a match that its superior does not cover; all of it where their places differ."""
    if "kernel" in (match.rule.text.scope, superior.rule.text.scope):
        return None
    if match.ordinal != superior.ordinal:
        return match
    if not match.readings[0].places:  # it is about the loop as a whole
        return None
    if superior.rule.text.scope == "loop":
        return _of_other_kinds(match, superior)
    named = {(place.line, place.text) for reading in superior.readings for place in reading.places}
    readings = []
    for reading in match.readings:
        unnamed = [place for place in reading.places if (place.line, place.text) not in named]
        if len(unnamed) == len(reading.places):
            readings.append(reading)
        elif unnamed:
            readings.append(replace(reading, places=unnamed))
    if sum(len(r.places) for r in readings) == sum(len(r.places) for r in match.readings):
        return match
    return replace(match, readings=tuple(readings)) if readings else None


def _of_other_kinds(match: Match, superior: Match) -> Match | None:
    """The accesses of a match that a rule about the same loop says nothing of.

    A requirement such as `vector_bits.lds_read.mean >= 48` names the class that it is about; one
    that names none speaks of the loop as a whole.
    """
    parts = {part for name in superior.rule.require.names for part in name.name.split(".")}
    kinds = {reading.values.subject.get("op.kind") for reading in match.readings}
    if kinds.isdisjoint(parts):
        named_any = any(part in _CLASSES_IN_REQUIREMENTS for part in parts)
        return match if named_any and kinds != {None} else None
    readings = tuple(
        reading for reading in match.readings if reading.values.subject.get("op.kind") not in parts
    )
    return replace(match, readings=readings) if readings else None
