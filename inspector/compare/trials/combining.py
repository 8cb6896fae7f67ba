"""The pairs of changes that are tried together: of each finding the two that did most for it.

A change of the source and another one that are rid of a finding each by itself change the same
instructions, so that both do no more than one: they are not paired. Settings that free a resource
each may free more of it together. The best cures of different findings are tried together, too.
What did most is what is fastest; where no time is known, what is rid of the finding, runs, brings
nothing new, and spills least.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ...model import Change, Scalar
from ..sweep.figures import Figures
from .outcome import as_metrics
from .source_changes import key_of

MOST_ACROSS = 3
"""Pairs of cures of different findings that are tried for a kernel."""


class Tried(Struct, frozen=True):
    """A change that was compiled, as far as it concerns one finding.

    Args:
        gone: whether the finding is gone; None where that is unknown.
        figures: None where it failed.
    """

    change: tuple[Change, ...]
    gone: bool | None
    figures: Figures | None
    new: tuple[str, ...] = ()
    same_code: bool = False


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
    return tried.figures is None or tried.figures.cannot_launch is not None


def merit(tried: Tried) -> tuple[float, ...]:
    """A sort key: what did most for the finding first; what failed, last."""
    own = tried.figures
    if own is None:
        return (math.inf,)
    return (
        own.cannot_launch is not None,
        _number(own.time_us),
        {True: 0, None: 1, False: 2}[tried.gone],
        len(tried.new),
        # Two that free some of what is too much may free enough together.
        _number(own.lds_bytes) if own.cannot_launch is not None else 0,
        _number(own.vgpr_spills),
        _number(own.scratch_per_work),
        -_number(own.waves_per_eu, 0),
    )


def _is_usable(tried: Tried) -> bool:
    return tried.figures is not None and not tried.same_code


def _number(value: float | None, unknown: float = math.inf) -> float:
    return unknown if value is None else value


def differences(before: Figures, after: Figures) -> dict[str, tuple[Scalar, Scalar]]:
    """The metrics that differ, each before and after."""
    left, right = as_metrics(before), as_metrics(after)
    return {name: (left[name], right[name]) for name in left if left[name] != right[name]}
