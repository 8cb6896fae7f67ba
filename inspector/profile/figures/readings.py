"""Counter values and durations by specialisation and pass, in one walk over the long columns."""

from __future__ import annotations

import itertools
import math
import operator
import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from ...recording import NONE, Recording, Spread
from . import quirks
from .counters import block_of
from .grouping import Group
from .spreads import spread

_INSTANCE = re.compile(r"\[\d+\]$")
_SAMPLED_ROWS = 5000
_SUM = "_sum"
_MOST_SQ = 16
"""Counters of the block SQ in one pass: it has eight registers, sixteen on gfx12."""


class Pass(Struct):
    """What one part of the recording tells of one specialisation, warm-ups left out.

    `means` are per dispatch, as recorded.
    """

    part: int
    name: str
    dispatches: int
    mean_ns: float | None
    means: dict[str, float] = field(default_factory=dict)

    @property
    def is_merged(self) -> bool:
        """Whether it has more counters than a pass can hold: a table made of several passes."""
        blocks = Counter(block for block in map(block_of, self.means) if block is not None)
        return blocks["SQ"] > _MOST_SQ

    def has(self, *names: str) -> bool:
        return all(self.mean(name) is not None for name in names)

    def mean(self, name: str) -> float | None:
        """Per dispatch; `NAME_sum`, the sum over instances, stands for NAME and the reverse."""
        value = self.means.get(name)
        if value is None:
            value = self.means.get(f"{name}{_SUM}")
        if value is None:
            value = self.means.get(name.removesuffix(_SUM))
        return value


class Readings(Struct):
    """All passes of one specialisation, and the spread of each counter over all of them."""

    passes: list[Pass]
    counters: dict[str, Spread]
    durations: array[int]  # of the passes that time is read from, warm-ups left out
    total_ns: float  # of one run of the program, warm-ups included
    traced: bool  # whether those passes read no counters
    timed: tuple[int, ...] = ()  # those passes: parts of the recording
    replays: tuple[frozenset[int], ...] = ()  # the same, those of one run of the program together
    notes: list[str] = field(default_factory=list)

    def together(self, *names: str, unless: Callable[[Pass], bool] | None = None) -> Pass | None:
        """The pass that recorded all of these counters.

        Args:
            names: of counters.
            unless: a pass for which this holds does not count.

        Returns:
            Of several, one that is not merged from many, and then that with most dispatches.
        """
        fits = [
            candidate
            for candidate in self.passes
            if candidate.has(*names) and (unless is None or not unless(candidate))
        ]
        return max(
            fits,
            key=lambda candidate: (not candidate.is_merged, candidate.dispatches),
            default=None,
        )


class _Column:
    """Values of one counter for one specialisation and pass, with the dispatch of each."""

    __slots__ = ("last", "rows", "values")

    def __init__(self) -> None:
        self.last = -1
        self.rows = array("i")
        self.values = array("d")

    def finish(self) -> array[float]:
        """One value per dispatch: rows of one dispatch that are not neighbours are summed."""
        if not any(map(operator.ge, self.rows, itertools.islice(self.rows, 1, None))):
            return self.values
        sums: dict[int, float] = {}
        for row, value in zip(self.rows, self.values, strict=True):
            sums[row] = sums.get(row, 0.0) + value
        return array("d", sums.values())


class _Run(Struct, frozen=True):
    """What the recording as a whole tells of its parts.

    Attributes:
        recording: all of it.
        clocks: part -> how fine its times are.
        has_starts: whether each dispatch has the time at which it began.
        tracing: the parts that read no counters.
        counters_of: part -> the counters that it read.
    """

    recording: Recording
    clocks: Mapping[int, quirks.Clock]
    has_starts: bool
    tracing: set[int]
    counters_of: Mapping[int, set[int]]

    def durations(self, group: Group, part: int, *, warm: bool) -> array[int]:
        """Ns of a specialisation's dispatches in a part, the warm-ups or all others."""
        times = array("q")
        if not self.clocks[part].usable:
            return times
        for lane in group.lanes:
            if lane.part == part:
                rows = tuple(lane.warmups) if warm else _without(lane.rows, lane.warmups)
                times += quirks.durations(self.recording.dispatches, rows, begun=self.has_starts)
        return times

    def replays(self, parts: Sequence[int]) -> tuple[frozenset[int], ...]:
        """The parts by run of the program: processes of one run read the same counters."""
        runs: dict[frozenset[int], set[int]] = {}
        for part in parts:
            runs.setdefault(frozenset(self.counters_of.get(part, ())), set()).add(part)
        return tuple(map(frozenset, runs.values()))


def read(recording: Recording, groups: Sequence[Group]) -> list[Readings]:
    """Readings of each specialisation, in the order of `groups`."""
    names, canonical = _folded(recording.counters)
    columns = _columns(recording, groups, canonical, len(names))
    counters_of: dict[int, set[int]] = {}
    for _, part, counter in columns:
        counters_of.setdefault(part, set()).add(counter)
    parts = {part for group in groups for part in group.parts}
    run = _Run(
        recording,
        clocks={part: _clock(recording, groups, part) for part in sorted(parts)},
        has_starts=NONE not in recording.dispatches.start,
        tracing=parts - set(counters_of),
        counters_of=counters_of,
    )
    columns_by_group: list[dict[tuple[int, int], _Column]] = [{} for _ in groups]
    for (number, part, counter), column in columns.items():
        columns_by_group[number][part, counter] = column
    return [
        _readings_of(group, own_columns, names, run)
        for group, own_columns in zip(groups, columns_by_group, strict=True)
    ]


def _folded(counters: Sequence[str]) -> tuple[list[str], list[int]]:
    """Counter names without their instance (`NAME[3]`), and each recorded name's index in them."""
    numbers: dict[str, int] = {}
    whole = set(counters)
    canonical = []
    for name in counters:
        bare = _INSTANCE.sub("", name)
        # Where the sum stands beside its instances, they are not added to it.
        name = name if bare != name and bare in whole else bare
        canonical.append(numbers.setdefault(name, len(numbers)))
    return list(numbers), canonical


def _columns(
    recording: Recording, groups: Sequence[Group], canonical: Sequence[int], counters: int
) -> Mapping[tuple[int, int, int], _Column]:
    """(specialisation, part, counter) -> its values; warm-ups left out."""
    parts = max(len(recording.parts), 1)
    of_shape = [0] * len(recording.shapes)
    for place, specialisation in enumerate(groups):
        for shape in specialisation.shapes:
            of_shape[shape] = place * parts * counters
    table, values = recording.dispatches, recording.values
    # A value's key is that of its dispatch plus the number of its counter; negative for a warm-up.
    keys = array("q", [of_shape[shape] for shape in table.shape])
    if parts > 1:
        keys = array("q", [k + p * counters for k, p in zip(keys, table.part, strict=True)])
    for specialisation in groups:
        for lane in specialisation.lanes:
            for row in lane.warmups:
                keys[row] = -counters
    columns: dict[int, _Column] = {}
    for row, counter, value in zip(values.dispatch, values.counter, values.value, strict=True):
        key = keys[row] + canonical[counter]
        column = columns.get(key)
        if column is None:
            if key < 0:
                continue
            column = columns[key] = _Column()
        if value - value != 0:  # NaN or infinite
            continue
        if column.last == row:
            column.values[-1] += value
        else:
            column.last = row
            column.rows.append(row)
            column.values.append(value)
    return {
        (key // counters // parts, key // counters % parts, key % counters): column
        for key, column in columns.items()
        if column.rows
    }


def _clock(recording: Recording, groups: Sequence[Group], part: int) -> quirks.Clock:
    rows: list[int] = []
    for specialisation in groups:
        for lane in specialisation.lanes:
            if lane.part == part:
                rows += lane.rows[: _SAMPLED_ROWS - len(rows)]
    return quirks.clock(recording.dispatches, rows)


def _readings_of(
    group: Group,
    columns: Mapping[tuple[int, int], _Column],
    names: Sequence[str],
    run: _Run,
) -> Readings:
    """The readings of one specialisation.

    Args:
        group: its dispatches.
        columns: (part, counter) -> its values.
        names: of the counters.
        run: what the recording as a whole tells of its parts.
    """
    counted = {part: run.durations(group, part, warm=False) for part in group.parts}
    warm = {part: run.durations(group, part, warm=True) for part in group.parts}
    timed, notes = _timed_parts(group.parts, counted, run)
    passes = [_pass(group, part, counted[part], run) for part in group.parts]
    by_part = {item.part: item for item in passes}
    values_by_name: dict[str, array[float]] = {}
    for (part, counter), column in sorted(columns.items()):
        values, name = column.finish(), names[counter]
        by_part[part].means[name] = math.fsum(values) / len(values)
        values_by_name.setdefault(name, array("d")).extend(values)
    spreads = {name: spread(values) for name, values in values_by_name.items()}
    durations = array("q")
    for part in timed:
        durations += counted[part]
    replays = run.replays(timed)
    total = sum(sum(counted[part]) + sum(warm[part]) for part in timed)
    clock_notes = dict.fromkeys(run.clocks[part].note for part in group.parts)
    return Readings(
        passes=passes,
        counters={name: values for name, values in spreads.items() if values is not None},
        durations=durations,
        total_ns=total / len(replays) if len(replays) > 1 else total,
        traced=run.tracing.issuperset(timed),
        timed=tuple(timed),
        replays=replays,
        notes=[*filter(None, clock_notes), *notes],
    )


def _pass(group: Group, part: int, durations: array[int], run: _Run) -> Pass:
    lanes = [lane for lane in group.lanes if lane.part == part]
    dispatches = sum(len(lane.rows) - len(lane.warmups) for lane in lanes)
    parts = run.recording.parts
    name = parts[part].name if part < len(parts) else str(part)
    mean = sum(durations) / len(durations) if durations else None
    return Pass(part, name, dispatches, mean)


def _timed_parts(
    parts: Sequence[int], counted: Mapping[int, array[int]], run: _Run
) -> tuple[list[int], list[str]]:
    """The parts that time is read from, without counters if possible, and notes on that choice."""
    timed = [part for part in parts if part in run.tracing and counted[part]]
    if timed and len(timed) < len(parts):
        return timed, [
            "times are those of the passes without counters: counting slows kernels down"
        ]
    if not timed and sum(1 for part in parts if counted[part]) > 1:
        return list(parts), [f"times are those of {len(parts)} passes, each a run of the program"]
    return timed or list(parts), []


def _without(rows: array[int], left_out: frozenset[int]) -> array[int]:
    """Ascending rows less a few of them."""
    remaining = rows[:]
    for row in left_out:
        del remaining[bisect_left(remaining, row)]
    return remaining
