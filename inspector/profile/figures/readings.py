"""Collects counter values and durations by specialisation and pass.

The recording's columns may have millions of rows, so they are walked through only once.

Exact mean, median and extremes of long columns of figures.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from ...model.recording import NONE, Recording, Spread
from . import quirks
from .counters import block_of
from .grouping import DispatchGroup, Lane, Rows

Values = NDArray[np.float64]
_INSTANCE = re.compile(r"\[\d+\]$")
"""The number of a counter's instance at the end of its name."""
_SAMPLED_ROWS = 5000
"""Dispatches whose times are looked at to judge the resolution of a part's times."""
_SUM = "_sum"
"""Suffix of a counter that is summed over its instances."""
_MOST_SQ = 16
"""Most counters of the block SQ in one pass: it has 8 counter registers, 16 on gfx12."""


class PassReadings(Struct):
    """The measurements of one specialisation in one part of the recording, without warm-ups."""

    part: int  # index of the part
    name: str  # of the part
    dispatches: int
    mean_ns: float | None  # duration of a dispatch; None where it was not recorded
    means: dict[str, float] = field(default_factory=dict)  # counter -> value per dispatch

    @property
    def is_merged(self) -> bool:
        """Whether it has more counters than fit in a pass: its table was merged from several."""
        blocks = Counter(block for block in map(block_of, self.means) if block is not None)
        return blocks["SQ"] > _MOST_SQ

    def has(self, *names: str) -> bool:
        return all(self.mean(name) is not None for name in names)

    def mean(self, name: str) -> float | None:
        """Returns a counter's value per dispatch; NAME and `NAME_sum` are the same counter."""
        value = self.means.get(name)
        if value is None:
            value = self.means.get(f"{name}{_SUM}")
        if value is None:
            value = self.means.get(name.removesuffix(_SUM))
        return value


class Readings(Struct):
    """The passes of a specialisation, and the spread of each counter over all of them."""

    passes: list[PassReadings]
    counters: dict[str, Spread]
    durations: Rows  # ns of each dispatch in the timed passes, warm-ups left out
    total_ns: float  # time in one run of the program, warm-ups included
    traced: bool  # whether the timed passes read no counters
    timed: tuple[int, ...] = ()  # the parts of the recording that durations are taken from
    replays: tuple[frozenset[int], ...] = ()  # these parts, grouped by run of the program
    notes: list[str] = field(default_factory=list)

    def together(
        self, *names: str, unless: Callable[[PassReadings], bool] | None = None
    ) -> PassReadings | None:
        """Returns the pass that recorded all of the counters; None if there is none.

        Returns:
            Among several, a pass that is not merged from others is preferred, then the one with
            the most dispatches.
        """
        passes = [
            candidate
            for candidate in self.passes
            if candidate.has(*names) and (unless is None or not unless(candidate))
        ]
        return max(
            passes,
            key=lambda candidate: (not candidate.is_merged, candidate.dispatches),
            default=None,
        )


class _Parts(Struct, frozen=True):
    """Properties of the parts of a recording, over all specialisations.

    Attributes:
        resolutions: part -> resolution of its times, and whether they are usable.
    """

    recording: Recording  # the whole recording
    resolutions: Mapping[int, quirks.TimeResolution]
    tracing: set[int]  # the parts that read no counters
    counters_of: Mapping[int, set[int]]  # part -> the counters that it read

    def durations(self, group: DispatchGroup, part: int, *, warm: bool) -> Rows:
        """Durations (ns) of a specialisation's dispatches in a part."""
        lanes = [lane for lane in group.lanes if lane.part == part]
        if not self.resolutions[part].usable:
            lanes = []
        rows = [np.fromiter(lane.warmups, int) if warm else _counted(lane) for lane in lanes]
        return quirks.durations(self.recording.dispatches, _joined(rows))

    def replays(self, parts: Sequence[int]) -> tuple[frozenset[int], ...]:
        """The parts grouped by run of the program: processes of one run read the same counters."""
        runs: dict[frozenset[int], set[int]] = {}
        for part in parts:
            runs.setdefault(frozenset(self.counters_of.get(part, ())), set()).add(part)
        return tuple(map(frozenset, runs.values()))


def read(recording: Recording, groups: Sequence[DispatchGroup]) -> list[Readings]:
    """Readings of each specialisation, in the order of `groups`."""
    names, canonical = _folded(recording.counters)
    columns = _columns(recording, groups, canonical)
    counters_of: dict[int, set[int]] = {}
    for _, part, counter in columns:
        counters_of.setdefault(part, set()).add(counter)
    parts = {part for group in groups for part in group.parts}
    all_parts = _Parts(
        recording,
        resolutions={part: _resolution(recording, groups, part) for part in sorted(parts)},
        tracing=parts - set(counters_of),
        counters_of=counters_of,
    )
    columns_by_group: list[dict[tuple[int, int], Values]] = [{} for _ in groups]
    for (number, part, counter), column in columns.items():
        columns_by_group[number][part, counter] = column
    return [
        _readings_of(group, own_columns, names, all_parts)
        for group, own_columns in zip(groups, columns_by_group, strict=True)
    ]


def _folded(counters: Sequence[str]) -> tuple[list[str], list[int]]:
    """Counter names without the number of their instance, as in `NAME[3]`."""
    numbers: dict[str, int] = {}
    recorded = set(counters)
    canonical = []
    for name in counters:
        bare = _INSTANCE.sub("", name)
        # Where the sum was recorded too, the instances keep their names, lest they count twice.
        name = name if bare != name and bare in recorded else bare
        canonical.append(numbers.setdefault(name, len(numbers)))
    return list(numbers), canonical


def _columns(
    recording: Recording, groups: Sequence[DispatchGroup], canonical: Sequence[int]
) -> Mapping[tuple[int, int, int], Values]:
    """Specialisation, part and counter -> a value per dispatch, warm-ups left out.

    Several values of a counter for a dispatch, of its instances, are summed.
    """
    table, values = recording.dispatches, recording.values
    if not len(values):
        return {}
    group_of_dispatch = np.full(len(table), NONE)
    for number, specialisation in enumerate(groups):
        for lane in specialisation.lanes:
            group_of_dispatch[_counted(lane)] = number
    rows, numbers = np.asarray(values.dispatch), np.asarray(values.value)
    kept = np.flatnonzero((group_of_dispatch[rows] != NONE) & np.isfinite(numbers))
    if not len(kept):
        return {}
    rows, numbers = rows[kept], numbers[kept]
    counters = np.asarray(canonical)[np.asarray(values.counter)[kept]]
    keys = np.column_stack((group_of_dispatch[rows], np.asarray(table.part)[rows], counters, rows))
    order = np.lexsort(keys.T[::-1])
    keys = keys[order]
    is_other = np.diff(keys, axis=0, prepend=-1) != 0
    starts = np.flatnonzero(is_other.any(axis=1))  # of the values of a counter and dispatch
    sums, keys = np.add.reduceat(numbers[order], starts), keys[starts]
    bounds = np.flatnonzero((np.diff(keys[:, :3], axis=0, prepend=-1) != 0).any(axis=1))
    columns = zip(keys[bounds, :3].tolist(), np.split(sums, bounds[1:]), strict=True)
    return {(number, part, counter): column for (number, part, counter), column in columns}


def _counted(lane: Lane) -> Rows:
    """The rows of a lane without its warm-ups."""
    return lane.rows[~np.isin(lane.rows, list(lane.warmups))] if lane.warmups else lane.rows


def _resolution(
    recording: Recording, groups: Sequence[DispatchGroup], part: int
) -> quirks.TimeResolution:
    """Determines the resolution of a part's times from some of its dispatches."""
    lanes = [lane for group in groups for lane in group.lanes if lane.part == part]
    rows = np.concatenate([lane.rows for lane in lanes])[:_SAMPLED_ROWS]
    return quirks.time_resolution(recording.dispatches, rows)


def _readings_of(
    group: DispatchGroup,
    columns: Mapping[tuple[int, int], Values],
    names: Sequence[str],
    all_parts: _Parts,
) -> Readings:
    """Computes the readings of a specialisation."""
    durations_of_part = {part: all_parts.durations(group, part, warm=False) for part in group.parts}
    warmups_of_part = {part: all_parts.durations(group, part, warm=True) for part in group.parts}
    timed, notes = _timed_parts(group.parts, durations_of_part, all_parts)
    passes = [_pass(group, part, durations_of_part[part], all_parts) for part in group.parts]
    by_part = {item.part: item for item in passes}
    values_by_name: dict[str, list[Values]] = {}
    for (part, counter), values in sorted(columns.items(), key=lambda item: item[0]):
        by_part[part].means[names[counter]] = math.fsum(values) / len(values)
        values_by_name.setdefault(names[counter], []).append(values)
    spreads = {name: spread(np.concatenate(parts)) for name, parts in values_by_name.items()}
    durations = _joined([durations_of_part[part] for part in timed])
    if all_parts.tracing.issuperset(timed):
        notes += _without_impossible_times(passes, durations)
    replays = all_parts.replays(timed)
    total = sum(
        sum(of[part].tolist()) for of in (durations_of_part, warmups_of_part) for part in timed
    )
    resolution_notes = dict.fromkeys(all_parts.resolutions[part].note for part in group.parts)
    return Readings(
        passes=passes,
        counters={name: values for name, values in spreads.items() if values is not None},
        durations=durations,
        total_ns=total / len(replays) if len(replays) > 1 else total,
        traced=all_parts.tracing.issuperset(timed),
        timed=tuple(timed),
        replays=replays,
        notes=[*filter(None, resolution_notes), *notes],
    )


def _without_impossible_times(passes: Sequence[PassReadings], durations: Rows) -> Iterator[str]:
    """Gives passes that seem twice as fast as any traced dispatch the traced times; says which.

    Counting makes no kernel faster: such times are not those of the dispatches that were counted.
    """
    for item in passes:
        if item.mean_ns is not None and len(durations) and 2 * item.mean_ns < durations.min():
            yield (
                f"times of {item.name} are wrong: {item.mean_ns / 1e3:,.1f} us in the mean, and"
                f" {durations.min() / 1e3:,.1f} us at least without counters; rates are over the"
                " latter's mean"
            )
            item.mean_ns = sum(durations.tolist()) / len(durations)


def _pass(group: DispatchGroup, part: int, durations: Rows, all_parts: _Parts) -> PassReadings:
    lanes = [lane for lane in group.lanes if lane.part == part]
    dispatches = sum(len(lane.rows) - len(lane.warmups) for lane in lanes)
    parts = all_parts.recording.parts
    name = parts[part].name if part < len(parts) else str(part)
    mean = sum(durations.tolist()) / len(durations) if len(durations) else None
    return PassReadings(part, name, dispatches, mean)


def _timed_parts(
    parts: Sequence[int], durations_of_part: Mapping[int, Rows], all_parts: _Parts
) -> tuple[list[int], list[str]]:
    """Chooses the parts that durations are taken from; also returns notes on the choice.

    Parts without counters are preferred.
    """
    timed = [part for part in parts if part in all_parts.tracing and len(durations_of_part[part])]
    if timed and len(timed) < len(parts):
        return timed, [
            "times are those of the passes without counters: counting slows kernels down"
        ]
    if not timed and sum(len(durations_of_part[part]) > 0 for part in parts) > 1:
        return list(parts), [f"times are those of {len(parts)} passes, each a run of the program"]
    return timed or list(parts), []


def _joined(columns: Sequence[Rows]) -> Rows:
    return np.concatenate([np.zeros(0, np.int64), *columns])


Column = NDArray[np.int64] | NDArray[np.float64]


def spread(values: Column | Sequence[float]) -> Spread | None:
    """Returns the spread of figures; None if there are none.

    Totals of integers are exact; those of floats are rounded once.
    """
    column = np.asarray(values)
    count = len(column)
    if not count:
        return None
    is_whole = column.dtype.kind == "i"
    total = sum(column.tolist()) if is_whole else math.fsum(column)
    # The median of an even number of values is the mean of the two in the middle.
    first, last = (count - 1) // 2, count // 2
    middle = np.partition(column, (first, last))
    low, high = middle[first].item(), middle[last].item()
    return Spread(
        count=count,
        total=total,
        mean=total / count,
        median=low if first == last else (low + high) / 2,
        least=column.min().item(),
        most=column.max().item(),
    )
