"""Applies the rules of a pack to a kernel's report. Nothing is read or printed here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ..model import Finding, KernelReport, Location, LoopReport, MemoryOp, MetricValue
from ..model.time import LEAST, Removal
from .catalogue import HOT_LOOPS, MATCHES, MOST_IN_LOOP, WIDER
from .causes import Match, Reading, one_of_each_cause
from .finding_places import (
    MAX_MATCHES,
    OF_LANES,
    SourceText,
    access_locations,
    accesses_of,
    all_of,
    further_lines,
    named_figure,
    named_positions,
    places_of,
    position_locations,
    whole_locations,
    worked_lines,
)
from .nodes import ANYTHING, Interval, Values, at_least
from .ranking import Price, Savings, in_order, saves_little, valued
from .rule import Pack, Rule
from .subjects import LoopSubjects, Subjects

_T = TypeVar("_T")
# Prefixes of figures that only grow with more instructions.
_COUNTED = (
    *("count.", "bytes.", "cycles.", "convert.", "pack.", "remainder."),
    *("waits.", "full_waits.", "spills.", "private_arrays.", "narrow.", "instruction_count"),
)
# Prefixes of figures that may change in either direction with more instructions.
_AVERAGED = ("vector_bits.", "vectorized.", "matrix.share", "loop.code_bytes")
REMAINDER = "loop.remainder"
CORRECTNESS = "correctness"
"""The tag of rules that find wrong results; they matter even where nothing can be launched."""
_BEYOND_ALL = 1000.0
"""More percent than a cure can save: what gives wrong results comes before."""
_CAUSES = ("access.reason", "op.kind", "wait.counter")
"""Values by which the findings of one rule in one loop are separated."""
LINE_AFTER_FILE = re.compile(r"(\.\w+):\d+(?::\d+)?")


_HOTNESS = frozenset(("hot", "op.hot", "wait.hot"))
"""Names of rules that say themselves in which loops they look."""


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
    judging = _Judge(kernel, source_text)
    savings = Savings.of(price, saved)
    matches = judging.without_remainders(judging.all_matches(pack, small=savings.are_known))
    if savings.are_known:
        matches = judging.by_saving(judging.worth_telling(matches, savings), savings)
    findings: list[Finding] = []
    leads: list[Finding] = []
    for finding, removal, is_stated in judging.facts(one_of_each_cause(matches)):
        percent = savings.of_finding(finding, removal)
        told = valued(finding, percent, is_stated=is_stated)
        (leads if saves_little(percent, is_stated=is_stated) else findings).append(told)
    return Judgement(tuple(in_order(findings)), tuple(in_order(leads)))


def _cured_together(matches: Iterable[Match]) -> Iterator[tuple[Match, ...]]:
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
                    -(_part(match.rule, _counted(match)) or 0.0),
                    _width(match.readings[0]),
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
            joined.append(replace(own[0], readings=tuple(sorted(readings, key=_width))))
    return joined


def _width(reading: Reading) -> float:
    bits = reading.values.subject.get("op.bits")
    return float(bits) if isinstance(bits, int | float) else float("inf")


def _counted(match: Match, readings: Sequence[Reading] | None = None) -> Values:
    """What a match's worst access or wait reads, with the number of places of its readings."""
    values = match.readings[0].values
    if not match.readings[0].places:
        return values
    readings = match.readings if readings is None else readings
    narrowest = min(map(_width, readings))
    counts: dict[str, MetricValue] = {
        MATCHES: sum(len(reading.places) for reading in readings),
        WIDER: sum(len(r.places) for r in readings if _width(r) > narrowest) or None,
    }
    return Values(values.kernel, values.loop, {**values.subject, **counts})


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


class _Judge:
    """Applies rules to one kernel; the values that they read are computed once, when needed."""

    def __init__(self, kernel: KernelReport, source_text: SourceText | None) -> None:
        self._kernel = kernel
        self._source_text = source_text
        self._of_kernel = _kernel_values(kernel)
        self._of_loops: dict[int, dict[str, MetricValue]] = {-1: {}}
        self._subjects = Subjects(kernel)
        self._of_groups: dict[int, Sequence[Reading]] = {}
        self._identities: Counter[tuple[str, str, int, str]] = Counter()
        time = kernel.time
        self._shares = {i.line: i.share for i in time.instructions} if time is not None else {}

    def all_matches(self, pack: Pack, *, small: bool) -> list[Match]:
        """The matches of all rules; without a possible launch those that still matter."""
        matches = [
            match
            for rule in pack.rules
            for match in self._matches(rule)
            if small or not match.is_small
        ]
        if any(match.rule.text.prevents_launch for match in matches):
            matches = [
                match
                for match in matches
                if match.rule.text.prevents_launch or CORRECTNESS in match.rule.text.tags
            ]
        return matches

    def _matches(self, rule: Rule) -> Iterator[Match]:
        scope = rule.text.scope
        hot_only = scope != "kernel" and self._is_hot_only(rule)
        if scope == "kernel":
            values = Values(self._of_kernel, {})
            if self._breaks_whatever_unread(rule, values):
                yield Match(rule, -1, (Reading(values, ()),), self._is_small(rule, values))
        elif scope == "loop":
            for ordinal, loop in enumerate(self._kernel.loops):
                if hot_only and not loop.hot:
                    continue
                values = Values(self._of_kernel, self._loop(ordinal))
                if self._breaks_whatever_unread(rule, values):
                    small = self._is_small(rule, values)
                    yield Match(rule, ordinal, (Reading(values, ()),), small)
        else:
            for group in self._subjects.groups(scope, hot_only):
                broken = [
                    reading
                    for reading in self._readings(group)
                    if self._breaks_whatever_unread(rule, reading.values)
                ]
                by_size: tuple[list[Reading], list[Reading]] = ([], [])
                for reading in broken:
                    by_size[self._is_small(rule, reading.values)].append(reading)
                for small in (False, True):
                    for readings in _by_cause(by_size[small]):
                        yield Match(rule, group.ordinal, tuple(readings), small)

    def _is_hot_only(self, rule: Rule) -> bool:
        """Whether a rule looks at hot loops alone: the time says what others are worth."""
        if self._kernel.time is not None and rule.text.removes is not None:
            return False
        return CORRECTNESS not in rule.text.tags and not rule.reads(_HOTNESS)

    def facts(self, matches: Iterable[Match]) -> list[tuple[Finding, Removal | None, bool]]:
        """The finding of each group of matches, the work that its cure takes away, and whether its
        severity is stated; by loop and rule.
        """
        placed = sorted(
            _cured_together(matches), key=lambda group: (group[0].ordinal, group[0].rule.text.id)
        )
        return [
            (self._finding(group), self._removal(group), group[0].rule.is_severity_stated)
            for group in placed
        ]

    def worth_telling(self, matches: Sequence[Match], savings: Savings) -> list[Match]:
        """The matches without the small ones whose cures save little.

        Where several are of one kind of work, what goes with all of it bounds them. A rule that
        finds more as well tells that.
        """
        large = {match.rule.text.id for match in matches if not match.is_small}
        told = [match for match in matches if not match.is_small]
        if len(told) == len(matches):
            return told
        self._price(one_of_each_cause(told), savings)
        small = [
            match
            for match in matches
            if match.is_small
            and not (match.rule.text.cured_together and match.rule.text.id in large)
        ]
        worth: set[tuple[str, int]] = set()
        groups = [(group, self._removal(group)) for group in _cured_together(small)]
        kinds = Counter(removal.what for _, removal in groups if removal is not None)
        for group, removal in groups:
            if removal is None:
                continue
            rule = group[0].rule.text.id
            bounds = [Removal(removal.what)] if kinds[removal.what] > 1 else []
            if all(_is_worth(savings.of_rule(rule, work)) for work in (*bounds, removal)):
                worth.update((rule, match.ordinal) for match in group)
        return [
            match
            for match in matches
            if not match.is_small or (match.rule.text.id, match.ordinal) in worth
        ]

    def _price(self, matches: Sequence[Match], savings: Savings) -> None:
        """The number of prices is limited: those of what is told in any case come first."""
        for group in _cured_together(matches):
            savings.of_rule(group[0].rule.text.id, self._removal(group))

    def by_saving(self, matches: Sequence[Match], savings: Savings) -> list[Match]:
        """The matches, of each cause those of the rule first whose cure saves most.

        Rules stay in the pack's order that save about the most, too little for a finding, or nobody
        knows what; behind these are matches that are told only for what they save.
        """
        rules: dict[str, set[str]] = {}
        for match in matches:
            rules.setdefault(match.rule.text.cause, set()).add(match.rule.text.id)
        rivals = [match for match in matches if len(rules[match.rule.text.cause]) > 1]
        self._price(one_of_each_cause(matches) if rivals else (), savings)
        worth: dict[tuple[str, int], float] = {}
        most: dict[str, float] = {}
        for group in _cured_together(rivals):
            rule = group[0].rule.text
            percent = savings.of_rule(rule.id, self._removal(group))
            if CORRECTNESS in rule.tags:
                percent = _BEYOND_ALL
            if percent is not None and percent >= LEAST:
                most[rule.cause] = max(most.get(rule.cause, 0.0), percent)
                for match in group:
                    at = rule.id, match.ordinal
                    worth[at] = max(worth.get(at, 0.0), percent)

        def behind(match: Match) -> float:
            rule = match.rule.text
            lacks = most.get(rule.cause, 0.0) - worth.get((rule.id, match.ordinal), 0.0)
            return lacks if lacks >= LEAST else 0.0

        return sorted(matches, key=lambda match: (behind(match), match.is_small))

    def _removal(self, group: Sequence[Match]) -> Removal | None:
        removes = group[0].rule.removes
        if removes is None:
            return None
        part = _part(group[0].rule, _counted(group[0]))
        if part is None:
            return None
        scope = group[0].rule.text.scope
        everywhere = any(match.ordinal < 0 for match in group)
        loops = () if everywhere else tuple(self._kernel.loops[m.ordinal].id for m in group)
        lines = _lines_of(group) if scope in ("instruction", "wait") else self._accesses_of(group)
        named = self._named_lines(group) if removes.of == "named" else ()
        return Removal(removes.what, part, loops, lines, named)

    def _named_lines(self, group: Sequence[Match]) -> tuple[int, ...]:
        """Lines of the instructions that a rule for a loop or kernel is about."""
        loops = [self._kernel.loops[m.ordinal] if m.ordinal >= 0 else None for m in group]
        return _joined(
            worked_lines(group[0].rule, self._kernel, loop, self._shares) for loop in loops
        )

    def _accesses_of(self, group: Sequence[Match]) -> tuple[int, ...]:
        """Lines of the accesses that a rule for a loop or kernel names; empty where it is about
        all code there.
        """
        if named_figure(group[0].rule) is None:
            return ()
        return tuple(
            access.line
            for match in group
            for access in accesses_of(
                match.rule,
                self._kernel,
                self._kernel.loops[match.ordinal] if match.ordinal >= 0 else None,
            )
        )

    def without_remainders(self, matches: Sequence[Match]) -> list[Match]:
        """The matches without those in loops that do what another one leaves over.

        Where the other loop has the same finding, and one change cures all loops, it mends the rest
        as well.
        """
        in_main = {
            match.rule.text.id
            for match in matches
            if match.ordinal >= 0 and not self._is_remainder(match.ordinal)
        }
        return [
            match
            for match in matches
            if not match.rule.text.cured_together
            or match.rule.text.id not in in_main
            or match.ordinal < 0
            or not self._is_remainder(match.ordinal)
        ]

    def _is_remainder(self, ordinal: int) -> bool:
        metric = self._kernel.loops[ordinal].metrics.get(REMAINDER)
        return metric is not None and metric.value is True

    def _breaks_whatever_unread(self, rule: Rule, values: Values) -> bool:
        """Tells whether the rule is broken, whatever the unread part of the code holds."""
        if not _breaks(rule, values):
            return False
        return not self._kernel.unread or _breaks(rule, self._whatever_unread(values))

    def _is_small(self, rule: Rule, values: Values) -> bool:
        """Whether what a rule finds is told only where it saves enough of the launch's time."""
        if rule.untimed is None:
            return False
        if rule.untimed.evaluate(values) is not True:
            return True
        if not self._kernel.unread:
            return False
        return rule.untimed.evaluate(self._whatever_unread(values)) is not True

    def _whatever_unread(self, values: Values) -> Values:
        every_count = not self._kernel.all_read
        return Values(
            _bounded(values.kernel, every_count), _bounded(values.loop, every_count), values.subject
        )

    def _readings(self, group: LoopSubjects) -> Sequence[Reading]:
        """The values and places of each kind of subject in a group, computed once."""
        if id(group) not in self._of_groups:
            loop = self._loop(group.ordinal)
            self._of_groups[id(group)] = [
                Reading(Values(self._of_kernel, loop, alike.values), alike.places)
                for alike in group.alike
            ]
        return self._of_groups[id(group)]

    def _loop(self, ordinal: int) -> Mapping[str, MetricValue]:
        if ordinal < 0 and not self._kernel.loops:
            return self._of_kernel  # without loops, all code runs once: the kernel is one iteration
        if ordinal not in self._of_loops:
            self._of_loops[ordinal] = _loop_values(self._kernel.loops[ordinal])
        return self._of_loops[ordinal]

    def _finding(self, matches: Sequence[Match]) -> Finding:
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
            narrowest = min(matches, key=lambda alike: _width(alike.readings[0]))
            values = _counted(narrowest, readings)
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


def _is_worth(percent: float | None) -> bool:
    return percent is not None and percent >= LEAST


def _joined(parts: Iterable[Iterable[_T]]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(parts)))


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


def _evidence(rule: Rule, values: Values) -> dict[str, MetricValue]:
    """Returns the figures that the rule reads, without those of which only bounds are known."""
    figures = {metric.name: metric.evaluate(values) for metric in rule.names}
    return {name: value for name, value in figures.items() if not isinstance(value, Interval)}


def _by_cause(readings: Sequence[Reading]) -> Iterable[Sequence[Reading]]:
    """Groups the readings of one loop by cause, since each cause has its own remedy."""
    by_cause: dict[tuple[MetricValue | Interval, ...], list[Reading]] = {}
    for reading in readings:
        cause = tuple(reading.values.subject.get(name) for name in _CAUSES)
        by_cause.setdefault(cause, []).append(reading)
    return by_cause.values()


def _breaks(rule: Rule, values: Values) -> bool:
    """Tells whether `when` certainly holds and `require` certainly does not."""
    if rule.when is not None and rule.when.evaluate(values) is not True:
        return False
    return rule.require.evaluate(values) is False


def _bounded(
    values: Mapping[str, MetricValue | Interval], every_count: bool
) -> dict[str, MetricValue | Interval]:
    """The figures as intervals, for code of which a part was not read or followed."""
    bounded: dict[str, MetricValue | Interval] = {}
    for name, value in values.items():
        if name.startswith((HOT_LOOPS, MOST_IN_LOOP)) or (
            every_count and name.startswith(_COUNTED)
        ):
            bounded[name] = value if isinstance(value, Interval) else at_least(value)
        elif every_count and name.startswith(_AVERAGED) and isinstance(value, int | float):
            bounded[name] = ANYTHING
        else:
            bounded[name] = value
    return bounded


def _kernel_values(kernel: KernelReport) -> dict[str, MetricValue]:
    """Returns a kernel's metrics, and counts of its hot loops: their sum, and the largest."""
    values = {name: metric.value for name, metric in kernel.metrics.items()}
    hot_loops = [loop for loop in kernel.loops if loop.hot]
    for name in {
        **kernel.metrics,
        **{metric_name: None for loop in hot_loops for metric_name in loop.metrics},
    }:
        if name.startswith("count."):
            counts = [
                loop.metrics[name].value if name in loop.metrics else None for loop in hot_loops
            ]
            known_counts = [count for count in counts if isinstance(count, int)]
            all_known = len(known_counts) == len(counts)
            values[HOT_LOOPS + name] = sum(known_counts) if all_known else None
            values[MOST_IN_LOOP + name] = max(known_counts, default=0) if all_known else None
    return values


def _loop_values(loop: LoopReport) -> dict[str, MetricValue]:
    values = {name: metric.value for name, metric in loop.metrics.items()}
    return values | {"hot": loop.hot, "depth": loop.depth, "unroll": loop.unroll}


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
