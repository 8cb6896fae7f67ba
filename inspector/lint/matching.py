"""The places at which a kernel breaks the rules of a pack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..model import KernelReport, LoopReport, MetricValue
from .catalogue import HOT_LOOPS, MOST_IN_LOOP
from .causes import Match, Reading
from .nodes import ANYTHING, Interval, Values, at_least
from .rule import Pack, Rule
from .subjects import LoopSubjects, Subjects

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
_CAUSES = ("access.reason", "op.kind", "wait.counter")
"""Values by which the findings of one rule in one loop are separated."""
_HOTNESS = frozenset(("hot", "op.hot", "wait.hot"))
"""Names of rules that say themselves in which loops they look."""


class Matching:
    """Applies rules to one kernel; the values that they read are computed once, when needed."""

    def __init__(self, kernel: KernelReport) -> None:
        self._kernel = kernel
        self._of_kernel = _kernel_values(kernel)
        self._of_loops: dict[int, dict[str, MetricValue]] = {-1: {}}
        self._subjects = Subjects(kernel)
        self._of_groups: dict[int, Sequence[Reading]] = {}

    def all(self, pack: Pack, *, small: bool) -> list[Match]:
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
