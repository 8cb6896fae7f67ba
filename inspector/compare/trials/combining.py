"""Which two changes are tried together: of each finding the two that did most for it.

A change of the source and another one that are rid of a finding each by itself change the same
instructions, so that both do no more than one: they are not paired. Settings that free a resource
each may free more of it together. And the two that did most of those that give up no resident wave:
a wave less frees registers at once, which hides what frees them without. The best cures of
different findings are tried together, too. The order is of facts, not of merit: whether the finding
is gone, the kernel still runs, nothing new is found, and the figures of the code. It only decides
what is compiled next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...model import Change, Scalar
from ..sweep.figures import Figures
from .change_key import key_of
from .outcome import TrialFigures

MOST_ACROSS = 3
"""Pairs of cures of different findings that are tried for a kernel."""


class Tried(Struct, frozen=True):
    """A change that was compiled, as far as it concerns one finding.

    Args:
        change: what was changed.
        gone: whether the finding is gone; None where that is unknown.
        figures: None where it failed.
        new: rules that find something new.
        same_code: whether nothing changed.
    """

    change: tuple[Change, ...]
    gone: bool | None
    figures: TrialFigures | None
    new: tuple[str, ...] = ()
    same_code: bool = False


def pairs_of(tried: Sequence[Tried], before: Figures) -> list[tuple[Change, ...]]:
    """The pairs of changes to make together: the best two, and the best two that cost nothing else.

    Args:
        tried: the changes that were tried for a finding, each by itself.
        before: figures of the unchanged kernel.
    """
    # Another rule may find what a change that costs nothing leaves of the trouble: it is not new.
    free = [replace(one, new=()) for one in tried if _costs_nothing(one, before)]
    pairs = [best_two(tried), best_two(free)]
    return list({key_of(pair): pair for pair in pairs if pair is not None}.values())


def best_two(tried: Iterable[Tried]) -> tuple[Change, ...] | None:
    """The two changes of different settings that did most for a finding, to be made together.

    None where fewer than two changed the code at all.
    """
    ranked = sorted(filter(_is_usable, tried), key=merit)
    if not ranked:
        return None
    first = ranked[0]
    for second in ranked[1:]:
        if first.gone and second.gone and _rewrite((*first.change, *second.change)):
            continue
        if _are_independent(first.change, second.change):
            return (*first.change, *second.change)
    return None


def pairs_across(cures: Sequence[Sequence[Tried]]) -> list[tuple[int, int, tuple[Change, ...]]]:
    """The best cures of two different findings, to be made together.

    A cure that is rid of both findings by itself needs no other.

    Args:
        cures: of each finding the changes that were tried, in one order of findings.

    Returns:
        Indices of the two findings, and the changes; at most `MOST_ACROSS`.
    """
    best = [
        min(
            (t for t in tried if t.gone and _is_usable(t) and not _is_bad(t)),
            key=merit,
            default=None,
        )
        for tried in cures
    ]
    curing = [{key_of(t.change) for t in tried if t.gone} for tried in cures]
    pairs: dict[object, tuple[int, int, tuple[Change, ...]]] = {}
    for left, first in enumerate(best):
        for right, second in enumerate(best[left + 1 :], left + 1):
            if first is None or second is None:
                continue
            if key_of(first.change) in curing[right] or key_of(second.change) in curing[left]:
                continue
            if _are_independent(first.change, second.change):
                together = (*first.change, *second.change)
                pairs.setdefault(key_of(together), (left, right, together))
    return list(pairs.values())[:MOST_ACROSS]


def _rewrite(changes: Iterable[Change]) -> bool:
    """Whether a change of the source is among them: of what it is for, nothing is left to cure."""
    return any(change.kind in ("source", "argument") for change in changes)


def _are_independent(one: Sequence[Change], other: Sequence[Change]) -> bool:
    """Whether two sets of changes set different things."""
    return not {change.name for change in one} & {change.name for change in other}


def _is_bad(tried: Tried) -> bool:
    """Whether a change keeps the kernel from running."""
    return tried.figures is None or tried.figures.figures.cannot_launch is not None


def merit(tried: Tried) -> tuple[float, ...]:
    """A sort key: what did most for the finding first; what failed, last."""
    figures = tried.figures
    if figures is None:
        return (math.inf,)
    own = figures.figures
    return (
        own.cannot_launch is not None,
        {True: 0, None: 1, False: 2}[tried.gone],
        len(tried.new),
        # Two that free some of what is too much may free enough together.
        _number(own.lds_bytes) if own.cannot_launch is not None else 0,
        _number(own.vgpr_spills),
        _number(own.scratch_per_work),
        -_number(own.waves_per_eu, 0),
        _number(figures.bound_per_work),
        _number(own.full_waits_per_work),
    )


def _costs_nothing(tried: Tried, before: Figures) -> bool:
    """Whether as many waves are resident, and the matrix unit has no more to do, as before."""
    if tried.figures is None:
        return False
    after = tried.figures.figures
    return _number(after.waves_per_eu, 0) >= _number(before.waves_per_eu) and (
        after.matrix_cycles_per_work is None
        or after.matrix_cycles_per_work <= _number(before.matrix_cycles_per_work)
    )


def _is_usable(tried: Tried) -> bool:
    return tried.figures is not None and not tried.same_code


def _number(value: float | None, unknown: float = math.inf) -> float:
    return unknown if value is None else value


def differences(before: TrialFigures, after: TrialFigures) -> dict[str, tuple[Scalar, Scalar]]:
    """The metrics that differ, each before and after."""
    left, right = before.as_metrics(), after.as_metrics()
    return {name: (left[name], right[name]) for name in left if left[name] != right[name]}
