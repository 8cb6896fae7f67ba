"""One finding for one cause at one place."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from .nodes import Values
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
        places: the accesses or waits; none where the rule is about a loop or the kernel.
    """

    values: Values
    places: Sequence[Place]


class Match(Struct, frozen=True):
    """A place at which a rule is broken.

    Args:
        ordinal: number of the loop among the kernel's loops; -1 for the kernel as a whole, and
            outside all loops.
        readings: what the rule read there, the worst first; a rule of scope kernel or loop has
            one, of no access.
        is_small: whether it is told only where it saves enough of the launch's time; see
            `RuleText.untimed`.
    """

    rule: Rule
    ordinal: int
    readings: tuple[Reading, ...]
    is_small: bool = False


def one_of_each_cause(matches: Sequence[Match]) -> list[Match]:
    """The matches without those that an earlier rule of the same cause has at the same place.

    A match covers another one

    - anywhere, if the rule of either has scope `kernel`;
    - in the same loop, if its own rule has scope `loop`;
    - at the same lines of the assembly, between rules of accesses or waits: the other lines remain.
    """
    kept: dict[str, list[Match]] = {}
    told = []
    for match in matches:
        of_cause = kept.setdefault(match.rule.text.cause, [])
        remainder: Match | None = match
        for earlier in of_cause if match.rule.text.cause else ():
            if remainder is None:
                break
            if earlier.rule is not match.rule:
                remainder = _not_covered_by(earlier, remainder)
        if remainder is not None:
            of_cause.append(remainder)
            told.append(remainder)
    return told


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
    """Returns the accesses of a match that the requirement of a rule for the loop does not name."""
    parts = {part for name in superior.rule.require.names for part in name.name.split(".")}
    kinds = {reading.values.subject.get("op.kind") for reading in match.readings}
    if kinds.isdisjoint(parts):
        named_any = any(part in _CLASSES_IN_REQUIREMENTS for part in parts)
        return match if named_any and kinds != {None} else None
    readings = tuple(
        reading for reading in match.readings if reading.values.subject.get("op.kind") not in parts
    )
    return replace(match, readings=readings) if readings else None
