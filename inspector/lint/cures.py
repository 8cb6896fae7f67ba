"""Which matches one change cures together, and the work that it takes away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from ..model import KernelReport, MetricValue
from ..model.time import Removal
from .catalogue import MATCHES, WIDER
from .causes import Match, Reading
from .finding_places import accesses_of, named_figure, worked_lines
from .nodes import Values
from .rule import Rule


def cured_together(matches: Iterable[Match]) -> Iterator[tuple[Match, ...]]:
    """Yields the matches of each finding, that of the worst loop first."""
    groups: dict[tuple[str, str | int], list[Match]] = {}
    for number, match in enumerate(matches):
        rule = match.rule
        remedy = rule.fix.render(match.readings[0].values) if rule.text.cured_together else number
        groups.setdefault((rule.text.id, remedy), []).append(match)
    for group in groups.values():
        yield tuple(
            sorted(
                _of_one_loop(group),
                key=lambda match: (
                    -(_part(match.rule, counted(match)) or 0.0),
                    width(match.readings[0]),
                ),
            )
        )


def _of_one_loop(matches: Sequence[Match]) -> list[Match]:
    """The matches of one rule and remedy, those of accesses in one loop joined, narrowest first."""
    by_loop: dict[int, list[Match]] = {}
    for match in matches:
        by_loop.setdefault(match.ordinal, []).append(match)
    joined = []
    for own in by_loop.values():
        if len(own) == 1 or not own[0].readings[0].places:
            joined += own
        else:
            readings = [reading for match in own for reading in match.readings]
            joined.append(replace(own[0], readings=tuple(sorted(readings, key=width))))
    return joined


def width(reading: Reading) -> float:
    """Bits a lane of the access that a reading is of; without limit where it is of none."""
    bits = reading.values.subject.get("op.bits")
    return float(bits) if isinstance(bits, int | float) else float("inf")


def counted(match: Match, readings: Sequence[Reading] | None = None) -> Values:
    """What a match's worst access or wait reads, with the number of places of its readings."""
    values = match.readings[0].values
    if not match.readings[0].places:
        return values
    readings = match.readings if readings is None else readings
    narrowest = min(map(width, readings))
    counts: dict[str, MetricValue] = {
        MATCHES: sum(len(reading.places) for reading in readings),
        WIDER: sum(len(r.places) for r in readings if width(r) > narrowest) or None,
    }
    return Values(values.kernel, values.loop, {**values.subject, **counts})


def removal(
    group: Sequence[Match], kernel: KernelReport, shares: Mapping[int, float]
) -> Removal | None:
    """The work that the cure of a group takes away; None: nobody says.

    `shares`: line of an instruction -> its part of the launch's time, 0 to 1.
    """
    removes = group[0].rule.removes
    if removes is None:
        return None
    part = _part(group[0].rule, counted(group[0]))
    if part is None:
        return None
    scope = group[0].rule.text.scope
    everywhere = any(match.ordinal < 0 for match in group)
    loops = () if everywhere else tuple(kernel.loops[m.ordinal].id for m in group)
    lines = _lines_of(group) if scope in ("instruction", "wait") else _accesses_of(group, kernel)
    named = _named_lines(group, kernel, shares) if removes.of == "named" else ()
    return Removal(removes.what, part, loops, lines, named)


def _named_lines(
    group: Sequence[Match], kernel: KernelReport, shares: Mapping[int, float]
) -> tuple[int, ...]:
    """Lines of the instructions that a rule for a loop or kernel is about."""
    loops = (kernel.loops[m.ordinal] if m.ordinal >= 0 else None for m in group)
    lines = (worked_lines(group[0].rule, kernel, loop, shares) for loop in loops)
    return tuple(dict.fromkeys(chain.from_iterable(lines)))


def _accesses_of(group: Sequence[Match], kernel: KernelReport) -> tuple[int, ...]:
    """Lines of the accesses that a rule for a loop or kernel names; empty where it is about
    all code there.
    """
    if named_figure(group[0].rule) is None:
        return ()
    placed = (
        (match.rule, kernel.loops[match.ordinal] if match.ordinal >= 0 else None) for match in group
    )
    return tuple(access.line for rule, loop in placed for access in accesses_of(rule, kernel, loop))


def _lines_of(group: Iterable[Match]) -> tuple[int, ...]:
    """Lines of the accesses or waits that a finding is about."""
    readings = (reading for match in group for reading in match.readings)
    return tuple(dict.fromkeys(place.line for reading in readings for place in reading.places))


def _part(rule: Rule, values: Values) -> float | None:
    """The part of the work at a finding's place that its cure takes away; None: unknown."""
    removes = rule.removes
    if removes is None:
        return None
    if removes.part is None:
        return 1.0
    part = removes.part.evaluate(values)
    if not isinstance(part, int | float) or isinstance(part, bool):
        return None
    return max(0.0, part if removes.what == "occupancy" else min(part, 1.0))
