"""The tuning space of a file with stated cases: `TUNING`, a dict of names and lists of values.

Each case is compiled over the product of the axes that its kernel has as constexprs, or that are
options which only the backend reads (for those one run of the front end serves all values). An axis
that the user types replaces that of the file.

Constexprs that TUNING does not name stay as the case states them. EVEN_K=True, say, holds for every
BLOCK_K: what is compiled is the code that a launch makes for sizes which the blocks divide. Nothing
is run, so that no result can be wrong. Where other constexprs follow from a point, or `launch`
refuses it, a file says so with a function

    tuned_constexprs(case, point) -> dict of the constexprs that follow, or None: no such launch
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .case import CaseError

TUNING = "TUNING"
DERIVE = "tuned_constexprs"
GOLDEN = (math.sqrt(5) - 1) / 2
MOST_TRIES = 200_000
"""Points that are looked at for those a file does not refuse."""

Derive = Callable[[Mapping[str, Any], Mapping[str, Any]], "Mapping[str, Any] | None"]


@dataclass
class PointSelection:
    """The points of one case.

    Args:
        groups: constexprs -> the options to go with them; one front-end run each.
        total: points of the whole product.
        host_factor: how many points the host makes of each of these: it varies the options that the
            user names and the kernel does not have as constexprs.
        left_out: names of TUNING that are nothing to this kernel.
    """

    groups: list[tuple[dict[str, Any], list[dict[str, Any]]]] = field(default_factory=list)
    total: int = 1
    host_factor: int = 1
    left_out: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Points that were selected, without those that the host makes of them."""
        return sum(len(options) for _, options in self.groups)


def select_points(
    tuning: Mapping[str, Sequence[Any]],
    user_axes: Mapping[str, Sequence[Any]],
    constexprs: Collection[str],
    options: Collection[str],
    most: int | None,
    case: Mapping[str, Any],
    derive: Derive | None,
) -> PointSelection:
    """The points of a case, sampled evenly where there are more than `most`.

    Args:
        tuning: the file's space.
        user_axes: those that the user names.
        constexprs: names of the kernel's.
        options: names that only the backend reads.
        most: points at most, those that the host makes of them included; None for all.
        case: as the file states it, for `derive`.
        derive: the file's `tuned_constexprs`.

    Raises:
        CaseError: `derive` fails.
    """
    axes = {
        name: values
        for name, values in {**tuning, **user_axes}.items()
        if name in constexprs or (name in options and name not in user_axes)
    }
    by_host = [values for name, values in user_axes.items() if name not in constexprs]
    host_factor = math.prod(map(len, by_host))
    left_out = tuple(n for n in tuning if n not in axes and n not in user_axes)
    selection = PointSelection([], math.prod(map(len, axes.values())), host_factor, left_out)
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    constants: dict[tuple[Any, ...], dict[str, Any]] = {}
    for point in _points(axes, None if most is None else max(1, most // host_factor), case, derive):
        outer = {name: value for name, value in point.items() if name not in options}
        inner = {name: value for name, value in point.items() if name in options}
        key = tuple(map(repr, outer.items()))
        constants[key] = outer
        groups.setdefault(key, []).append(inner)
    selection.groups = [(constants[key], inner) for key, inner in groups.items()]
    return selection


def evenly_spread(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every point of a product once, in an order whose beginnings are spread evenly.

    Steps of about the golden section of all points, coprime to their number: the first n points
    lie evenly over the slow axes, and cycle through the fast ones.
    """
    total = math.prod(sizes)
    step = max(1, round(total * GOLDEN))
    while math.gcd(step, total) > 1:
        step += 1
    for number in range(total):
        yield _coordinates(number * step % total, sizes)


def read_tuning(raw: Any) -> Mapping[str, Sequence[Any]]:
    """The file's TUNING, checked.

    Raises:
        CaseError: it is no dict of lists of values.
    """
    if raw is None:
        return {}
    fits = isinstance(raw, dict) and all(
        isinstance(name, str) and isinstance(values, (list, tuple)) and values
        for name, values in raw.items()
    )
    if not fits:
        raise CaseError(f"{TUNING} is no dict of names and lists of values", f"mend {TUNING}")
    return {name: list(values) for name, values in raw.items()}


def _points(
    axes: Mapping[str, Sequence[Any]],
    most: int | None,
    case: Mapping[str, Any],
    derive: Derive | None,
) -> list[dict[str, Any]]:
    """The points in the product's own order, each with the constexprs that follow from it."""
    sizes = [len(values) for values in axes.values()]
    points: dict[tuple[int, ...], dict[str, Any]] = {}
    everything = most is None or math.prod(sizes) <= most
    places = itertools.product(*map(range, sizes)) if everything else evenly_spread(sizes)
    for place in itertools.islice(places, None if everything else MOST_TRIES):
        point = {name: values[i] for i, (name, values) in zip(place, axes.items())}
        follows = _following(derive, case, point)
        if follows is None:
            continue
        points[place] = {**point, **follows}
        if len(points) == most:
            break
    return [points[place] for place in sorted(points)]


def _following(
    derive: Derive | None, case: Mapping[str, Any], point: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    if derive is None:
        return {}
    try:
        follows = derive(dict(case), dict(point))
    except Exception as failure:
        text = f"{type(failure).__name__}: {failure}"
        raise CaseError(f"{DERIVE} fails at {point}: {text}", "mend it") from failure
    if follows is not None and not isinstance(follows, Mapping):
        raise CaseError(f"{DERIVE} gives {follows!r}", "return a dict, or None for no such launch")
    return follows


def _coordinates(number: int, sizes: Sequence[int]) -> tuple[int, ...]:
    place: list[int] = []
    for size in reversed(sizes):
        number, index = divmod(number, size)
        place.append(index)
    return tuple(reversed(place))
