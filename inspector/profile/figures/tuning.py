"""Tells an autotuner's trials from the kernels that a program really uses, by their order alone.

A tuner runs one configuration many times, then the next, and from then on only the best one. The
signs asked for are narrow on purpose: a trial that is missed is only called `main`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

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
