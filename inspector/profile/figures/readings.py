"""Counter values and durations by specialisation and pass: one walk over the long columns.

Mean, median and extremes are exact, without a list of ten million objects.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, field

from ...recording import NONE, Recording, Spread
from . import quirks
from .counters import block_of
from .grouping import Group

# --------------------------------------------------------------------------- spreads

_SORTED = 1_000_000
"""Up to so many values are simply sorted: some tens of megabytes."""
_SAMPLE = 20_000


def spread(values: Sequence[float]) -> Spread | None:
    """How figures are distributed; None where there are none.

    Totals of integers are exact; those of floats are rounded once.
    """
    if not values:
        return None
    total = sum(values) if isinstance(values, array) and values.typecode == "q" else _sum(values)
    return Spread(
        count=len(values),
        total=total,
        mean=total / len(values),
        median=median(values),
        least=min(values),
        most=max(values),
    )


def median(values: Sequence[float]) -> float:
    """The exact median: of an even number of values, the mean of the two in the middle."""
    last = len(values) // 2
    first = last if len(values) % 2 else last - 1
    low, high = _ranked(values, first, last)
    return low if first == last else (low + high) / 2


def _ranked(values: Sequence[float], first: int, last: int) -> tuple[float, float]:
    """The values at two neighbouring places of the sorted sequence.

    Long sequences are not sorted: a sample tells between which values the places lie, and only
    those are. Where the sample misleads, all are.
    """
    if len(values) > _SORTED:
        sample = sorted(values[:: len(values) // _SAMPLE])
        place, around = len(sample) // 2, len(sample) // 50
        low, high = sample[place - around], sample[place + around]
        below = sum(1 for value in values if value < low)
        if low == high:
            equal = sum(1 for value in values if value == low)
            if below <= first and last < below + equal:
                return low, low
        middle = [value for value in values if low <= value <= high]
        if below <= first and last < below + len(middle):
            middle.sort()
            return middle[first - below], middle[last - below]
    ordered = sorted(values)
    return ordered[first], ordered[last]


def _sum(values: Iterable[float]) -> float:
    return math.fsum(values)


# --------------------------------------------------------------------------- readings

_INSTANCE = re.compile(r"\[\d+\]$")
_SAMPLED_ROWS = 5000
_SUM = "_sum"
_MOST_SQ = 16
"""The block with the most registers has eight of them, or sixteen on gfx12."""


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
        """One value per dispatch: those of a dispatch that came apart add up."""
        if not any(map(operator.ge, self.rows, itertools.islice(self.rows, 1, None))):
            return self.values
        sums: dict[int, float] = {}
        for row, value in zip(self.rows, self.values, strict=True):
            sums[row] = sums.get(row, 0.0) + value
        return array("d", sums.values())


def read(recording: Recording, groups: Sequence[Group]) -> list[Readings]:
    """Readings of each specialisation, in the order of `groups`."""
    names, canonical = _folded(recording.counters)
    columns = _columns(recording, groups, canonical, len(names))
    read_by: dict[int, set[int]] = {}
    for _, part, counter in columns:
        read_by.setdefault(part, set()).add(counter)
    counting = set(read_by)
    timed = {part for specialisation in groups for part in specialisation.parts}
    tracing = timed - counting
    clocks = {part: _clock(recording, groups, part) for part in sorted(timed)}
    begun = NONE not in recording.dispatches.start
    mine: list[dict[tuple[int, int], _Column]] = [{} for _ in groups]
    for (place, part, counter), column in columns.items():
        mine[place][part, counter] = column
    return [
        _of_group(recording, specialisation, own, names, tracing, clocks, begun, read_by)
        for specialisation, own in zip(groups, mine, strict=True)
    ]


def _folded(counters: Sequence[str]) -> tuple[list[str], list[int]]:
    """Counter names without instances, and for each recorded name its number among them."""
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
        if value - value != 0:  # not a number, or without end
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


def _of_group(
    recording: Recording,
    group: Group,
    columns: Mapping[tuple[int, int], _Column],
    names: Sequence[str],
    tracing: set[int],
    clocks: Mapping[int, quirks.Clock],
    begun: bool,
    read_by: Mapping[int, set[int]],
) -> Readings:
    parts, table = group.parts, recording.dispatches
    notes: list[str] = []
    counted: dict[int, array[int]] = {}
    warm: dict[int, array[int]] = {}
    passes = []
    for part in parts:
        lanes = [lane for lane in group.lanes if lane.part == part]
        counted[part], warm[part] = array("q"), array("q")
        for lane in lanes if clocks[part].usable else ():
            counted[part] += quirks.durations(table, _without(lane.rows, lane.warmups), begun=begun)
            warm[part] += quirks.durations(table, tuple(lane.warmups), begun=begun)
        if clocks[part].note and clocks[part].note not in notes:
            notes.append(clocks[part].note)
        rows = sum(len(lane.rows) - len(lane.warmups) for lane in lanes)
        name = recording.parts[part].name if part < len(recording.parts) else str(part)
        mean = sum(counted[part]) / len(counted[part]) if counted[part] else None
        passes.append(Pass(part, name, rows, mean))
    timed = [part for part in parts if part in tracing and counted[part]]
    if timed and len(timed) < len(parts):
        notes.append("times are those of the passes without counters: counting slows kernels down")
    elif not timed:
        timed = list(parts)
        if sum(1 for part in parts if counted[part]) > 1:
            notes.append(f"times are those of {len(parts)} passes, each a run of the program")
    everything: dict[str, array[float]] = {}
    by_part = {item.part: item for item in passes}
    for (part, number), column in sorted(columns.items()):
        values = column.finish()
        by_part[part].means[names[number]] = math.fsum(values) / len(values)
        everything.setdefault(names[number], array("d")).extend(values)
    spreads = {name: spread(values) for name, values in everything.items()}
    chosen = array("q")
    for part in timed:
        chosen += counted[part]
    # A run of the program reads one set of counters; its processes are parts that read the same.
    runs: dict[frozenset[int], set[int]] = {}
    for part in timed:
        runs.setdefault(frozenset(read_by.get(part, ())), set()).add(part)
    replays = tuple(frozenset(same_set) for same_set in runs.values())
    whole = sum(sum(counted[part]) + sum(warm[part]) for part in timed)
    return Readings(
        passes=passes,
        counters={
            name: values_spread
            for name, values_spread in spreads.items()
            if values_spread is not None
        },
        durations=chosen,
        total_ns=whole / len(replays) if len(replays) > 1 else whole,
        traced=tracing.issuperset(timed),
        timed=tuple(timed),
        replays=replays,
        notes=notes,
    )


def _without(rows: array[int], left_out: frozenset[int]) -> array[int]:
    """Ascending rows less a few of them."""
    remaining = rows[:]
    for row in left_out:
        del remaining[bisect_left(remaining, row)]
    return remaining
