"""Which two changes are tried together: of each finding the two that did most for it.

And the two that did most of those that give up no resident wave: a wave less frees registers at
once, which hides what frees them without. The order is of facts, not of merit: whether the finding
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
from .outcome import TrialFigures


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
    names = {change.name for change in first.change}
    for second in ranked[1:]:
        if not names & {change.name for change in second.change}:
            return (*first.change, *second.change)
    return None


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


def key_of(changes: Iterable[Change]) -> tuple[tuple[str, str, str], ...]:
    """What tells one set of changes from another."""
    return tuple(sorted((c.kind, c.name, repr(c.value)) for c in changes))
