"""Drops the matches of rules that another rule, named in `superseded_by`, explains better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from .nodes import Values
from .ranking import SEVERITY_RANK, Severity
from .rule import Rule
from .subjects import Place

# Scratch is left out: how much of it a loop uses follows from its registers, so that a requirement
# on `scratch_load` or `scratch_store` is about the loop as a whole, whatever else it accesses.
_CLASSES_IN_REQUIREMENTS = frozenset(
    ("global_load", "global_store", "lds_read", "lds_write", "lds_direct", "atomic")
)


class Reading(Struct, frozen=True):
    """The values that a rule read, and the accesses or waits that have these values.

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
        doubtful: which condition of the rule's `worth` does not hold, the first one's number;
            None where all do.
    """

    rule: Rule
    ordinal: int
    readings: tuple[Reading, ...]
    doubtful: int | None = None


def without_superseded(matches: Sequence[Match]) -> Iterator[tuple[Match, Severity]]:
    """Yields the matches that become findings, each with its severity.

    A match is superseded by a match of another rule

    - anywhere, if either rule has scope `kernel`;
    - in the same loop, if that other rule has scope `loop`;
    - at the same lines of the assembly, between rules of accesses or waits: the other lines remain.

    The superior match takes over the severity of what it supersedes, if that is graver: naming the
    cause must not make a failing build pass.
    """
    indices_by_rule: dict[str, list[int]] = {}
    for index, match in enumerate(matches):
        indices_by_rule.setdefault(match.rule.text.id, []).append(index)
    remainders: list[Match | None] = []
    severities = [match.rule.text.severity for match in matches]
    superiors_of: dict[int, list[int]] = {}
    for index, match in enumerate(matches):
        remainder: Match | None = match
        for superior_rule in match.rule.text.superseded_by:
            for superior in indices_by_rule.get(superior_rule, ()):
                earlier = remainder
                if remainder is not None:
                    remainder = _not_covered_by(matches[superior], remainder)
                if remainder is not earlier:
                    superiors_of.setdefault(index, []).append(superior)
        remainders.append(remainder)
    for index, superiors in superiors_of.items():
        for superior in _all_superiors(superiors, superiors_of):
            severities[superior] = min(
                severities[superior], severities[index], key=SEVERITY_RANK.__getitem__
            )
    for remainder, severity in zip(remainders, severities, strict=True):
        if remainder is not None:
            yield remainder, severity


def _all_superiors(superiors: Sequence[int], superiors_of: Mapping[int, Sequence[int]]) -> set[int]:
    """Returns the superiors, those that supersede them, and so on."""
    reached: set[int] = set()
    pending = list(superiors)
    while pending:
        index = pending.pop()
        if index not in reached:
            reached.add(index)
            pending += superiors_of.get(index, ())
    return reached


def _not_covered_by(superior: Match, match: Match) -> Match | None:
    """Returns the part of a match that its superior does not cover; None if it covers all."""
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
    """Returns the accesses of a match that the requirement of a rule for the loop does not name.

    A requirement such as `vector_bits.lds_read.mean >= 48` names the class that it is about; one
    that names no class is about the loop as a whole.
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
