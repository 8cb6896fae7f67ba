"""From dispatches to specialisations of kernels: which rows belong together.

A profiler reruns the program for each pass of counters, so that one specialisation appears in
several parts, under other process and kernel ids. Shapes that agree in everything that holds beyond
a process are one specialisation; their grids may differ. Where a process loaded several kernels of
equal shape under one name (its kernel ids tell), they stay apart and are matched across processes
by the order in which they first appear.

An autotuner runs one configuration many times, then the next, and from then on only the best one:
its trials are told by their order alone. The signs asked for are narrow on purpose: a trial that is
missed is only called `main`.
"""

from __future__ import annotations

import heapq
import itertools
import operator
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from ...recording import NONE, Dispatches, KernelShape, Recording


class Lane(Struct):
    """Dispatches of one specialisation by one process in one part, in the order of the recording.

    `warmups` are those of its rows that are left out of figures.
    """

    part: int
    process: int | None
    rows: array[int] = field(default_factory=lambda: array("i"))
    warmups: frozenset[int] = frozenset()


class Group(Struct):
    """A specialisation: its shapes in the recording and its dispatches.

    `tried`: a tuner ran it and did not keep it.
    """

    shapes: tuple[int, ...]
    lanes: list[Lane] = field(default_factory=list)
    tried: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def dispatches(self) -> int:
        return sum(len(lane.rows) for lane in self.lanes)

    @property
    def warmups(self) -> int:
        return sum(len(lane.warmups) for lane in self.lanes)

    @property
    def parts(self) -> tuple[int, ...]:
        return tuple(sorted({lane.part for lane in self.lanes}))


# What holds beyond a process: name, agent, workgroup, its size, LDS, scratch, registers, wave size.
_Key = tuple[object, ...]


def group(recording: Recording, skip_warmup: int = 1) -> tuple[Group, ...]:
    """Sorts every dispatch of a recording into specialisations.

    Args:
        recording: as it was read.
        skip_warmup: how many first dispatches of a specialisation in each process are warm-up; at
            least one is always counted.
    """
    shapes = recording.shapes
    of_shape, notes = specialisations(shapes, _homes(recording))
    groups: dict[int, Group] = {}
    for number, places in sorted(_inverse(of_shape).items()):
        groups[number] = Group(tuple(places), notes=notes.get(number, []))
    _fill(groups, of_shape, shapes, recording.dispatches)
    for specialisation in groups.values():
        _find_warmups(specialisation, recording.dispatches, skip_warmup)
    _find_tuning(groups.values(), recording)
    return tuple(specialisation for specialisation in groups.values() if specialisation.lanes)


def specialisations(
    shapes: Sequence[KernelShape], homes: Sequence[Hashable]
) -> tuple[list[int], dict[int, list[str]]]:
    """The specialisation of each shape by number, and what is to be said of some.

    Args:
        shapes: as recorded.
        homes: for each shape the process, or what stands for it: kernel ids hold within it alone.
    """
    groups: dict[tuple[_Key, int], int] = {}
    of_shape: list[int] = []
    notes: dict[int, list[str]] = {}
    keys = _unified(shapes)
    orders = _orders(shapes, keys, homes)
    for place in range(len(shapes)):
        several, order = orders[place]
        number = groups.setdefault((keys[place], order), len(groups))
        of_shape.append(number)
        if several > 1 and number not in notes:
            notes[number] = [
                f"one of {several} kernels of this name and shape in one process, told apart by "
                f"their kernel ids; number {order + 1} in order of first appearance, by which "
                "they are matched across processes and passes"
            ]
    return of_shape, notes


def _key(shape: KernelShape) -> _Key:
    size = shape.workgroup_size
    if shape.workgroup is not None:
        x, y, z = shape.workgroup
        size = x * y * z
    return (
        shape.name,
        shape.agent,
        shape.workgroup,
        size,
        shape.lds_bytes,
        shape.scratch_bytes,
        shape.vgpr,
        shape.accum_vgpr,
        shape.sgpr,
        shape.wave_size,
    )


def _unified(shapes: Sequence[KernelShape]) -> list[_Key]:
    """Keys by which shapes are equal. One that records less than another joins it if only one fits.

    A kernel trace may lack what the counter file of another pass has (older versions have no
    registers in it, counter files no three-dimensional workgroup).
    """
    keys = [_key(shape) for shape in shapes]
    by_name: dict[object, dict[_Key, None]] = defaultdict(dict)
    for key in keys:
        by_name[key[0]][key] = None
    stands_for: dict[_Key, _Key] = {}
    for several in by_name.values():
        fullest = sorted(several, key=lambda key: key.count(None))
        whole: list[_Key] = []
        for key in fullest:
            fits = [w for w in whole if _agree(key, w)] if None in key else []
            if len(fits) == 1:
                stands_for[key] = fits[0]
            else:
                whole.append(key)
    return [stands_for.get(key, key) for key in keys]


def _agree(partial: _Key, whole: _Key) -> bool:
    return all(p is None or p == w for p, w in zip(partial, whole, strict=True))


def _homes(recording: Recording) -> list[Hashable]:
    """The process of each shape; where none was recorded, the first part that it stands in."""
    homes: list[Hashable] = [shape.process for shape in recording.shapes]
    if None in homes and len(recording.parts) > 1:
        table = recording.dispatches
        for part, shape in sorted(set(zip(table.part, table.shape, strict=True)), reverse=True):
            if recording.shapes[shape].process is None:
                homes[shape] = ("part", part)
    return homes


def _orders(
    shapes: Sequence[KernelShape], keys: Sequence[_Key], homes: Sequence[Hashable]
) -> list[tuple[int, int]]:
    """For each shape, how many kernels of its key its process has, and which of them it is.

    Shapes are numbered in the order in which they first appear.
    """
    ids = [(shape.code_object, shape.kernel_id) for shape in shapes]
    loaded: dict[tuple[_Key, Hashable], dict[tuple[int | None, int | None], int]] = {}
    for pair, key, home in zip(ids, keys, homes, strict=True):
        ranks = loaded.setdefault((key, home), {})
        if pair != (None, None):
            ranks.setdefault(pair, len(ranks))
    orders = []
    for pair, key, home in zip(ids, keys, homes, strict=True):
        ranks = loaded[key, home]
        orders.append((len(ranks), ranks.get(pair, 0)) if len(ranks) > 1 else (1, 0))
    return orders


def _inverse(of_shape: Sequence[int]) -> dict[int, list[int]]:
    members: dict[int, list[int]] = {}
    for shape, number in enumerate(of_shape):
        members.setdefault(number, []).append(shape)
    return members


def _fill(
    groups: Mapping[int, Group],
    of_shape: Sequence[int],
    shapes: Sequence[KernelShape],
    table: Dispatches,
) -> None:
    """One pass over the dispatches: each row goes to its specialisation's lane."""
    lanes: dict[tuple[int, int, int | None], Lane] = {}
    for part, start, stop in _runs(table):
        appends = []
        for place, shape in enumerate(shapes):
            key = (of_shape[place], part, shape.process)
            lane = lanes.get(key)
            if lane is None:
                lane = lanes[key] = Lane(part, shape.process)
            appends.append(lane.rows.append)
        for row, shape_number in enumerate(table.shape[start:stop], start):
            appends[shape_number](row)
    for (number, _, _), lane in lanes.items():
        if lane.rows:
            groups[number].lanes.append(lane)


def _runs(table: Dispatches) -> Iterator[tuple[int, int, int]]:
    """Neighbouring rows of one part: part, first row, row after the last."""
    parts = table.part
    if any(map(operator.gt, parts, itertools.islice(parts, 1, None))):
        start = 0
        for part, run in itertools.groupby(parts):
            stop = start + sum(1 for _ in run)
            yield part, start, stop
            start = stop
        return
    start = 0
    while start < len(parts):
        stop = bisect_right(parts, parts[start])
        yield parts[start], start, stop
        start = stop


def _find_warmups(group: Group, table: Dispatches, skip: int) -> None:
    for lane in group.lanes:
        count = min(skip, len(lane.rows) - 1)
        if count > 0:
            column = _order(table, lane.rows)
            key = column.__getitem__ if column is not None else None
            lane.warmups = frozenset(heapq.nsmallest(count, lane.rows, key=key))


def _order(table: Dispatches, rows: Sequence[int]) -> array[int] | None:
    """By what the rows of a lane are ordered: start, else the profiler's number, else as read."""
    if table.start[rows[0]] != NONE:
        return table.start
    return table.number if table.number[rows[0]] != NONE else None


def _times(table: Dispatches, rows: array[int]) -> array[int]:
    """When each row of a lane was dispatched, ascending; mere order where times are unknown."""
    column = _order(table, rows)
    if column is None:
        return rows
    times = array("q", [column[row] for row in rows])
    if any(map(operator.gt, times, itertools.islice(times, 1, None))):
        times = array("q", sorted(times))
    return times


def _find_tuning(groups: Iterable[Group], recording: Recording) -> None:
    """Marks specialisations that a tuner tried and did not keep."""
    by_name: dict[tuple[str, str | None], list[Group]] = defaultdict(list)
    for candidate in groups:
        shape = recording.shapes[candidate.shapes[0]]
        by_name[shape.name, shape.agent].append(candidate)
    for several in by_name.values():
        if len(several) < 2:
            continue
        tried_everywhere: dict[int, bool] = {}
        homes = {(lane.part, lane.process) for candidate in several for lane in candidate.lanes}
        for home in homes:
            runs: dict[int, Sequence[int]] = {}
            for number, candidate in enumerate(several):
                for lane in candidate.lanes:
                    if (lane.part, lane.process) == home:
                        runs[number] = _times(recording.dispatches, lane.rows)
            outlived = kept_by_tuning(runs)
            for number in runs:
                rejected = outlived is not None and number not in outlived
                tried_everywhere[number] = tried_everywhere.get(number, True) and rejected
        for number, rejected in tried_everywhere.items():
            if rejected:
                several[number].tried = True
                several[number].notes.append(
                    "an autotuner's trial, as it seems: dispatched in one burst among others of "
                    "this name and never again, while another one goes on"
                )


# --------------------------------------------------------------------------- autotuning

_SHORTEST = 5
"""Dispatches of a trial at least: Triton's tuner takes five to estimate the time alone."""
_TIMES = 4
"""A kept kernel that was tried last must go on for so many times the longest trial; one that was
tried earlier must have been tried for no longer than so many times that."""


def kept_by_tuning(runs: Mapping[int, Sequence[int]]) -> frozenset[int] | None:
    """Which specialisations of a name outlived a tuner.

    Args:
        runs: when each specialisation was dispatched by one process, ascending.

    Returns:
        None where the order does not look like tuning. The others were trials.
    """
    trials = {
        number: run
        for number, run in runs.items()
        if len(run) >= _SHORTEST and _is_burst(number, runs)
    }
    last = max(runs, key=lambda number: runs[number][-1])
    last_run = runs[last]
    if trials.pop(last, None) is not None:
        # Tried last, and then used: its trial cannot be told from its use.
        fits = len(trials) >= 3 and len(last_run) >= _TIMES * max(map(len, trials.values()))
    else:
        fits = len(trials) >= 2 and _came_back(last_run, list(trials.values()))
    return frozenset(runs.keys() - trials.keys()) if fits else None


def _is_burst(number: int, runs: Mapping[int, Sequence[int]]) -> bool:
    """Whether nothing else of the name was dispatched between its first and its last."""
    first, last = runs[number][0], runs[number][-1]
    return all(
        bisect_left(run, first) == bisect_right(run, last)
        for key, run in runs.items()
        if key != number
    )


def _came_back(last_run: Sequence[int], trials: Sequence[Sequence[int]]) -> bool:
    """Whether it was tried like the others, then gave way to the rest of them, and went on."""
    later = [trial for trial in trials if trial[0] > last_run[0]]
    if not later:
        return False
    trial_length = bisect_left(last_run, min(trial[0] for trial in later))
    longest = max(map(len, trials))
    return (
        _SHORTEST <= trial_length <= _TIMES * longest
        and bisect_left(last_run, max(trial[-1] for trial in later)) == trial_length
        and trial_length < len(last_run)
    )
