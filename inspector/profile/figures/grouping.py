"""Groups dispatches by specialisation of their kernel.

A profiler reruns the program for each pass of counters, so that one specialisation appears in
several parts under different process and kernel ids. Shapes that agree in everything but these ids
and the grid are one specialisation. Where a process loaded several kernels of the same name and
shape, their kernel ids keep them apart, and they are matched across processes by the order in which
they first appear.

Recognises the trials of an autotuner by the order of a kernel's dispatches alone.

An autotuner runs one configuration many times, then the next, and afterwards only the best one. The
criteria are narrow on purpose, because a trial that is missed only keeps the role `main`.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from ...model.recording import NONE, Dispatches, KernelShape, Recording

Rows = NDArray[np.int64]


class Lane(Struct):
    """Dispatches of one specialisation by one process in one part, in the order of the recording.

    `warmups` are the rows that are left out of figures.
    """

    part: int
    process: int | None
    rows: Rows
    warmups: frozenset[int] = frozenset()


class DispatchGroup(Struct):
    """A specialisation: its shapes in the recording and its dispatches.

    `tried`: whether an autotuner ran it and did not keep it.
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


_Key = tuple[object, ...]
"""The fields of a shape that are the same in every process; see `_key`."""


def group(recording: Recording, skip_warmup: int = 1) -> tuple[DispatchGroup, ...]:
    """Sorts every dispatch of a recording into specialisations.

    `skip_warmup`: how many first dispatches of a specialisation in each process are warm-up; the
    last dispatch never is.
    """
    shapes = recording.shapes
    group_of_shape, notes = specialisations(shapes, _id_scopes(recording))
    groups: dict[int, DispatchGroup] = {}
    members: dict[int, list[int]] = {}
    for shape, number in enumerate(group_of_shape):
        members.setdefault(number, []).append(shape)
    for number, own in sorted(members.items()):
        groups[number] = DispatchGroup(tuple(own), notes=notes.get(number, []))
    _fill(groups, group_of_shape, recording)
    for specialisation in groups.values():
        _find_warmups(specialisation, recording.dispatches, skip_warmup)
    _find_tuning(groups.values(), recording)
    return tuple(specialisation for specialisation in groups.values() if specialisation.lanes)


def specialisations(
    shapes: Sequence[KernelShape], scopes: Sequence[Hashable]
) -> tuple[list[int], dict[int, list[str]]]:
    """The number of each shape's specialisation, and notes on some specialisations.

    `scopes`: for each shape, within what its kernel id is unique: a process, or a part of the
    recording where the process is unknown.
    """
    groups: dict[tuple[_Key, int], int] = {}
    group_of_shape: list[int] = []
    notes: dict[int, list[str]] = {}
    keys = _unified(shapes)
    orders = _orders(shapes, keys, scopes)
    for index in range(len(shapes)):
        kernels_of_key, order = orders[index]
        number = groups.setdefault((keys[index], order), len(groups))
        group_of_shape.append(number)
        if kernels_of_key > 1 and number not in notes:
            notes[number] = [
                f"one of {kernels_of_key} kernels of this name and shape in one process, told apart"
                f" by their kernel ids; number {order + 1} in order of first appearance, by which "
                "they are matched across processes and passes"
            ]
    return group_of_shape, notes


def _key(shape: KernelShape) -> _Key:
    """Returns the fields of a shape that tell specialisations apart."""
    size = shape.workgroup_size if shape.workgroup is None else math.prod(shape.workgroup)
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
        shape.symbol,
    )


def _unified(shapes: Sequence[KernelShape]) -> list[_Key]:
    """A key for each shape; shapes of one specialisation have the same.

    A shape with unknown fields gets the key of the fuller shape that agrees with it, if there is
    exactly one: kernel traces of older versions lack registers, which the counter files of other
    passes have, and counter files lack the workgroup's three dimensions.
    """
    keys = [_key(shape) for shape in shapes]
    by_name: dict[object, dict[_Key, None]] = defaultdict(dict)
    for key in keys:
        by_name[key[0]][key] = None
    fuller_key_of: dict[_Key, _Key] = {}
    for keys_of_name in by_name.values():
        fullest_first = sorted(keys_of_name, key=lambda key: key.count(None))
        distinct: list[_Key] = []
        for key in fullest_first:
            fuller = (
                [candidate for candidate in distinct if _agree(key, candidate)]
                if None in key
                else []
            )
            if len(fuller) == 1:
                fuller_key_of[key] = fuller[0]
            else:
                distinct.append(key)
    return [fuller_key_of.get(key, key) for key in keys]


def _agree(partial: _Key, full: _Key) -> bool:
    return all(
        partial_field is None or partial_field == full_field
        for partial_field, full_field in zip(partial, full, strict=True)
    )


def _id_scopes(recording: Recording) -> list[Hashable]:
    """Within what each shape's kernel id is unique: its process, else the first part with it."""
    scopes: list[Hashable] = [shape.process for shape in recording.shapes]
    if None in scopes and len(recording.parts) > 1:
        table = recording.dispatches
        for part, shape in sorted(set(zip(table.part, table.shape, strict=True)), reverse=True):
            if recording.shapes[shape].process is None:
                scopes[shape] = ("part", part)
    return scopes


def _orders(
    shapes: Sequence[KernelShape], keys: Sequence[_Key], scopes: Sequence[Hashable]
) -> list[tuple[int, int]]:
    """For each shape, how many kernels of its key its process has, and its number among them.

    Kernels are numbered from 0 in the order in which they first appear.
    """
    ids = [(shape.code_object, shape.kernel_id) for shape in shapes]
    ranks_of: dict[tuple[_Key, Hashable], dict[tuple[int | None, int | None], int]] = {}
    for kernel, key, scope in zip(ids, keys, scopes, strict=True):
        ranks = ranks_of.setdefault((key, scope), {})
        if kernel != (None, None):
            ranks.setdefault(kernel, len(ranks))
    orders = []
    for kernel, key, scope in zip(ids, keys, scopes, strict=True):
        ranks = ranks_of[key, scope]
        orders.append((len(ranks), ranks.get(kernel, 0)) if len(ranks) > 1 else (1, 0))
    return orders


def _fill(
    groups: Mapping[int, DispatchGroup], group_of_shape: Sequence[int], recording: Recording
) -> None:
    """Adds each dispatch to the lane of its specialisation, part and process."""
    table = recording.dispatches
    if not len(table):
        return
    processes: dict[int | None, int] = {}
    process_of_shape = [
        processes.setdefault(shape.process, len(processes)) for shape in recording.shapes
    ]
    shapes, parts = np.asarray(table.shape), np.asarray(table.part)
    lanes = np.asarray(group_of_shape)[shapes] * (int(parts.max()) + 1) + parts
    lanes = lanes * len(processes) + np.asarray(process_of_shape)[shapes]
    order = np.argsort(lanes, kind="stable")
    starts = np.flatnonzero(np.diff(lanes[order], prepend=-1))
    for rows in np.split(order, starts[1:]):
        shape = table.shape[rows[0]]
        lane = Lane(table.part[rows[0]], recording.shapes[shape].process, rows)
        groups[group_of_shape[shape]].lanes.append(lane)


def _find_warmups(group: DispatchGroup, table: Dispatches, skip: int) -> None:
    """Marks the first `skip` dispatches of each lane as warm-up, but never all of them."""
    for lane in group.lanes:
        count = min(skip, len(lane.rows) - 1)
        if count > 0:
            first = np.argsort(_times(table, lane.rows), kind="stable")[:count]
            lane.warmups = frozenset(lane.rows[first].tolist())


def _times(table: Dispatches, rows: Rows) -> Rows:
    """What orders a lane's rows: start times, else dispatch numbers, else the order of reading."""
    for column in (table.start, table.number):
        if column[rows[0]] != NONE:
            return np.asarray(column)[rows]
    return rows


def _find_tuning(groups: Iterable[DispatchGroup], recording: Recording) -> None:
    """Marks specialisations that an autotuner tried and dropped in every process that ran them."""
    by_name: dict[tuple[str, str | None], list[DispatchGroup]] = defaultdict(list)
    for candidate in groups:
        shape = recording.shapes[candidate.shapes[0]]
        by_name[shape.name, shape.agent].append(candidate)
    for groups_of_name in by_name.values():
        if len(groups_of_name) < 2:
            continue
        tried_everywhere: dict[int, bool] = {}
        processes = {
            (lane.part, lane.process) for candidate in groups_of_name for lane in candidate.lanes
        }
        for process in processes:
            runs: dict[int, Sequence[int]] = {}
            for number, candidate in enumerate(groups_of_name):
                for lane in candidate.lanes:
                    if (lane.part, lane.process) == process:
                        times = np.sort(_times(recording.dispatches, lane.rows))
                        runs[number] = times.tolist()
            survivors = kept_by_tuning(runs)
            for number in runs:
                rejected = survivors is not None and number not in survivors
                tried_everywhere[number] = tried_everywhere.get(number, True) and rejected
        for number, rejected in tried_everywhere.items():
            if rejected:
                groups_of_name[number].tried = True
                groups_of_name[number].notes.append(
                    "an autotuner's trial, as it seems: dispatched in one burst among others of "
                    "this name and never again, while another one goes on"
                )


_FEWEST_DISPATCHES = 5
"""Fewest dispatches of a trial: Triton's autotuner runs five only to estimate the time."""
_LENGTH_FACTOR = 4
"""How much trials may differ in length. A kept kernel that was tried last must run at least this
many times as often as the longest trial; if it was tried earlier, its trial may be at most this
many times as long as the longest other trial."""


def kept_by_tuning(runs: Mapping[int, Sequence[int]]) -> frozenset[int] | None:
    """Returns the specialisations that an autotuner did not drop; the others were trials.

    Args:
        runs: specialisation -> when one process dispatched it, ascending.

    Returns:
        None if the order of dispatches does not look like tuning.
    """
    trials = {
        number: run
        for number, run in runs.items()
        if len(run) >= _FEWEST_DISPATCHES and _is_burst(number, runs)
    }
    latest = max(runs, key=lambda number: runs[number][-1])
    latest_run = runs[latest]
    if trials.pop(latest, None) is not None:
        # It was tried last and then used, so that its trial cannot be separated from its use.
        is_tuning = len(trials) >= 3 and len(latest_run) >= _LENGTH_FACTOR * max(
            map(len, trials.values())
        )
    else:
        is_tuning = len(trials) >= 2 and _came_back(latest_run, list(trials.values()))
    return frozenset(runs.keys() - trials.keys()) if is_tuning else None


def _is_burst(number: int, runs: Mapping[int, Sequence[int]]) -> bool:
    """Tells whether no other specialisation was dispatched between its first and last dispatch."""
    first_time, last_time = runs[number][0], runs[number][-1]
    return all(
        bisect_left(run, first_time) == bisect_right(run, last_time)
        for key, run in runs.items()
        if key != number
    )


def _came_back(latest_run: Sequence[int], trials: Sequence[Sequence[int]]) -> bool:
    """Tells whether a kernel was tried, paused during the later trials, and ran again."""
    later = [trial for trial in trials if trial[0] > latest_run[0]]
    if not later:
        return False
    trial_length = bisect_left(latest_run, min(trial[0] for trial in later))
    longest = max(map(len, trials))
    return (
        _FEWEST_DISPATCHES <= trial_length <= _LENGTH_FACTOR * longest
        and bisect_left(latest_run, max(trial[-1] for trial in later)) == trial_length
        and trial_length < len(latest_run)
    )
