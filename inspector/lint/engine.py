"""Applies the rules of a pack to a kernel's report. Nothing is read or printed here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from msgspec import Struct

from ..model import Finding, KernelReport, Location, MemoryOp, MetricValue
from ..model.time import Removal
from .catalogue import HOT_LOOPS, MATCHES, MOST_IN_LOOP
from .causes import Match, one_of_each_cause
from .cures import counted, cured_together, removal, width
from .finding_places import (
    MAX_MATCHES,
    OF_LANES,
    SourceText,
    access_locations,
    accesses_of,
    all_of,
    further_lines,
    named_positions,
    places_of,
    position_locations,
    whole_locations,
)
from .matching import REMAINDER, Matching
from .nodes import Interval, Values
from .ranking import Price, Savings, in_order, saves_little, valued
from .rule import Pack, Rule
from .worth import by_saving, worth_telling

_T = TypeVar("_T")
LINE_AFTER_FILE = re.compile(r"(\.\w+):\d+(?::\d+)?")


class Judgement(Struct, frozen=True):
    """What the rules of a pack say of a kernel; `judge` tells how both are made.

    Args:
        findings: what is worth a change, or of which that is not known.
        leads: what is true as well, but gains too little at the launch seen: each says how much.
    """

    findings: tuple[Finding, ...]
    leads: tuple[Finding, ...]


def evaluate(
    pack: Pack, kernel: KernelReport, source_text: SourceText | None = None
) -> tuple[Finding, ...]:
    """The findings of a pack for a kernel, with the savings that the report has of its own."""
    return judge(pack, kernel, source_text, saved=kernel.facts).findings


def judge(
    pack: Pack,
    kernel: KernelReport,
    source_text: SourceText | None = None,
    price: Price | None = None,
    saved: Iterable[Finding] = (),
) -> Judgement:
    """What a pack says of a kernel, whose own findings are ignored.

    A rule whose conditions cannot be decided, because a metric is unknown, has no finding. Where
    part of the code was not read, a rule has one only if it would have it whatever that part holds.
    The matches of an instruction or wait rule in one loop for one reason are one finding: its
    message is about the worst, its locations list all; so are the matches of a loop or instruction
    rule that one change cures together, those in remainders of a loop left out. A kernel without
    loops counts as one loop. Rules of one cause have one finding at one place: that whose cure
    saves most, else the first.

    For a kernel that cannot be launched, only findings on that and on wrong results are returned.
    Where the launch's time is known, by `price` or the findings of a `saved` report, what a cure
    saves of it decides on severity and order, and what saves too little is a lead; else only hot
    loops are looked at, and `untimed` decides.

    Returns:
        Findings, errors first, warnings and notes by what their cures save, then in the order of
        the loops, those of the kernel as a whole before them; behind these what repeats the rule
        and remedy of an earlier one; and leads, likewise.

    Raises:
        KinspectError: a condition compares a mapping's field with a value of another kind.
    """
    savings = Savings.of(price, saved)
    matching = Matching(kernel)
    matches = matching.without_remainders(matching.all(pack, small=savings.are_known))
    times = kernel.time.instructions if kernel.time is not None else ()
    shares = {instruction.line: instruction.share for instruction in times}

    def removed(group: Sequence[Match]) -> Removal | None:
        return removal(group, kernel, shares)

    if savings.are_known:
        matches = by_saving(worth_telling(matches, savings, removed), savings, removed)
    maker = _FindingMaker(kernel, source_text, shares)
    findings: list[Finding] = []
    leads: list[Finding] = []
    for group in _placed_groups(one_of_each_cause(matches)):
        finding, is_stated = maker.finding(group), group[0].rule.is_severity_stated
        percent = savings.of_finding(finding, removed(group))
        told = valued(finding, percent, is_stated=is_stated)
        (leads if saves_little(percent, is_stated=is_stated) else findings).append(told)
    return Judgement(tuple(in_order(findings)), tuple(in_order(leads)))


class _Placed(Struct, frozen=True):
    """Where a rule finds fault in a loop or kernel.

    Args:
        known_by: what a fingerprint is made of: does not change where places become more exact.
        lines: all lines of the assembly that it is about, as far as the code says which.
        accesses: the accesses that it is about, the worst first.
    """

    locations: tuple[Location, ...]
    known_by: tuple[Location, ...]
    lines: tuple[int, ...] = ()
    accesses: Sequence[MemoryOp] = ()


def _placed_groups(matches: Iterable[Match]) -> list[tuple[Match, ...]]:
    """The matches of each finding, by loop and rule."""
    groups = cured_together(matches)
    return sorted(groups, key=lambda group: (group[0].ordinal, group[0].rule.text.id))


class _FindingMaker:
    """Makes the findings of one kernel.

    Args:
        shares: line of an instruction -> its part of the launch's time, 0 to 1.
    """

    def __init__(
        self, kernel: KernelReport, source_text: SourceText | None, shares: Mapping[int, float]
    ) -> None:
        self._kernel = kernel
        self._source_text = source_text
        self._shares = shares
        self._identities: Counter[tuple[str, str, int, str]] = Counter()

    def finding(self, matches: Sequence[Match]) -> Finding:
        """The finding of matches that one change cures together, the worst first."""
        match = matches[0]
        rule, values = match.rule, match.readings[0].values
        count: dict[str, MetricValue] = {}
        if rule.text.scope in ("kernel", "loop"):
            of_matches = [self._placed(rule, alike.ordinal) for alike in matches]
            locations = _joined(placed.locations for placed in of_matches)
            known_by = _joined(placed.known_by for placed in of_matches)
            lines = further_lines(list(chain.from_iterable(p.accesses for p in of_matches)))
            lines = lines or _joined(placed.lines for placed in of_matches)
        else:
            readings = [reading for alike in matches for reading in alike.readings]
            matched = [place for reading in readings for place in reading.places]
            count = {MATCHES: len(matched)}
            narrowest = min(matches, key=lambda alike: width(alike.readings[0]))
            values = counted(narrowest, readings)
            locations = tuple(places_of(matched[:MAX_MATCHES], self._source_text))
            lines = all_of([place.line for place in matched], MAX_MATCHES)
            known_by = locations
        in_source = next((at for at in known_by if at.kind == "source" and at.text), None)
        text = in_source.text if in_source is not None else ""
        # The number of accesses is that of all loops.
        others = 0 if count else len(matches) - 1
        loops = "loop" if others == 1 else "loops"
        ending = f"; the same in {others} other {loops}" if others else ""
        message = rule.message.render(values)
        plural = rule.message.render(values, plural=True) if rule.message.has_wordings else message
        return Finding(
            rule=rule.text.id,
            severity=rule.text.severity,
            confidence=rule.text.confidence,
            message=message + ending,
            evidence={**count, **_evidence(rule, values)},
            locations=locations,
            fix=rule.fix.render(values),
            fingerprint=self._fingerprint(rule, min(m.ordinal for m in matches), text),
            anchor=in_source or next(iter(known_by), None),
            tried=rule.text.tried,
            lines=lines,
            plural_message=plural + ending if plural != message else "",
        )

    def _placed(self, rule: Rule, ordinal: int) -> _Placed:
        """Where a rule of scope loop or kernel finds fault: at accesses, at what its message names,
        or with the loop or kernel as a whole.
        """
        kernel, read = self._kernel, self._source_text
        loop = kernel.loops[ordinal] if ordinal >= 0 else None
        accesses = accesses_of(rule, kernel, loop)
        if accesses:
            locations = tuple(access_locations(accesses, read))
            return _Placed(locations, locations, accesses=accesses)
        whole = tuple(whole_locations(kernel, loop, read))
        positions = named_positions(rule, kernel, loop, self._shares)
        if not positions:
            return _Placed(whole, whole)
        lines = tuple(dict.fromkeys(line for each in positions for line in each.lines))
        locations = tuple(position_locations(positions, read))
        if loop is not None and not lines:
            locations += whole[:1]
        return _Placed(locations, whole, lines)

    def _fingerprint(self, rule: Rule, ordinal: int, text: str) -> str:
        """The finding's fingerprint, distinct from those of the earlier findings."""
        identity = rule.text.id, self._kernel.id, ordinal, text.strip()
        repetition = self._identities[identity]
        self._identities[identity] += 1
        return fingerprint(*identity, repetition)


def _joined(parts: Iterable[Iterable[_T]]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(parts)))


def _evidence(rule: Rule, values: Values) -> dict[str, MetricValue]:
    """Returns the figures that the rule reads, without those of which only bounds are known."""
    figures = {metric.name: metric.evaluate(values) for metric in rule.names}
    return {name: value for name, value in figures.items() if not isinstance(value, Interval)}


def fingerprint(
    rule: str, kernel_id: str, ordinal: int, source_line: str, repetition: int = 0
) -> str:
    """16 hexadecimal digits that identify a finding after unrelated edits, without line numbers.

    Findings of one rule for one line differ in `repetition` alone. While their number stays, so do
    their fingerprints, whichever of them comes first. `ordinal` is the loop's place among the
    kernel's, -1 for the kernel as a whole.
    """
    identity = [rule, LINE_AFTER_FILE.sub(r"\1", kernel_id), str(ordinal), source_line.strip()]
    if repetition:
        identity.append(str(repetition))
    import hashlib  # loads OpenSSL: only where there is a finding

    return hashlib.sha256("\0".join(identity).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def read_by(rules: Iterable[Rule]) -> tuple[tuple[str, ...], bool]:
    """The metrics that judging by some rules reads, sorted, and whether it reads `MemoryOp.use`."""
    names = {name.metric for rule in rules for name in rule.read_names}
    plain = (name.removeprefix(HOT_LOOPS).removeprefix(MOST_IN_LOOP) for name in names)
    return tuple(sorted({REMAINDER, *plain})), not names.isdisjoint(OF_LANES)
