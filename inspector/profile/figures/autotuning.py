"""Recognises the trials of an autotuner by the order of a kernel's dispatches alone.

An autotuner runs one configuration many times, then the next, and afterwards only the best one. The
criteria are narrow on purpose, because a trial that is missed only keeps the role `main`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

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
