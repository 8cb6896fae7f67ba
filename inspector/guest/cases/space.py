"""The tuning space of a file with stated cases: `TUNING`, a dict of names and lists of values.

Each name is an axis. A case is compiled for every point of the product of those axes that are
constexprs of its kernel or options that only the backend reads; points that differ in such options
alone share one run of the front end. An axis that the user states (`-D`) replaces that of the file;
where it is no constexpr of the kernel, the host multiplies the points by its values.

Constexprs that TUNING does not name stay as the case states them. EVEN_K=True, say, holds for every
BLOCK_K: the code is that of a launch for sizes which the blocks divide (nothing is run). Where
other constexprs follow from a point, or `launch` refuses it, a file says so with a function

    tuned_constexprs(case, point) -> dict of the constexprs that follow, or None: no such launch
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .case import CaseError

TUNING = "TUNING"
DERIVE = "tuned_constexprs"
GOLDEN_SECTION = (math.sqrt(5) - 1) / 2
MOST_TRIES = 200_000
"""Points that a sample tries at most, where a file refuses many of them."""

Derive = Callable[[Mapping[str, Any], Mapping[str, Any]], "Mapping[str, Any] | None"]
"""A file's `tuned_constexprs`: (case, point) -> constexprs that follow, or None: no such launch."""


class FrontEndRun(NamedTuple):
    """Points that differ in backend options alone, so that one run of the front end serves them.

    Attributes:
        constexprs: name -> value.
        option_sets: the options of each point, name -> value.
    """

    constexprs: dict[str, Any]
    option_sets: list[dict[str, Any]]


@dataclass
class PointSelection:
    """The points of one case that are compiled.

    Args:
        runs: the selected points, in the product's order.
        total: points of the whole product, not multiplied by `host_factor`.
        host_factor: compiles that the host makes of each point: the values of the user's axes that
            are no constexprs of this kernel, multiplied.
        unused_names: names of TUNING that are neither constexprs of this kernel nor options.
    """

    runs: list[FrontEndRun] = field(default_factory=list)
    total: int = 1
    host_factor: int = 1
    unused_names: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Points that were selected, not multiplied by `host_factor`."""
        return sum(len(run.option_sets) for run in self.runs)


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
        tuning: the file's space: name -> values.
        user_axes: the axes of the command line (`-D`); they replace the file's of the same name.
        constexprs: names of the kernel's constexprs.
        options: names of options that only the backend reads.
        most: points at most, multiplied by `host_factor`; None for all.
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
    host_axes = [values for name, values in user_axes.items() if name not in constexprs]
    host_factor = math.prod(map(len, host_axes))
    option_sets: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    constexprs_of: dict[tuple[Any, ...], dict[str, Any]] = {}
    most_here = None if most is None else max(1, most // host_factor)
    for point in _points(axes, most_here, case, derive):
        constants = {name: value for name, value in point.items() if name not in options}
        key = tuple(map(repr, constants.items()))  # values need not be hashable
        constexprs_of[key] = constants
        point_options = {name: value for name, value in point.items() if name in options}
        option_sets.setdefault(key, []).append(point_options)
    return PointSelection(
        [FrontEndRun(constexprs_of[key], sets) for key, sets in option_sets.items()],
        math.prod(map(len, axes.values())),
        host_factor,
        tuple(name for name in tuning if name not in axes and name not in user_axes),
    )


def evenly_spread(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every point of a product once, in an order whose beginnings are spread evenly.

    Steps of about the golden section of all points, coprime to their number: the first n points
    lie evenly over the slow axes, and cycle through the fast ones.

    Args:
        sizes: the number of values of each axis, the slowest first.

    Returns:
        The place on each axis, counted from 0.
    """
    total = math.prod(sizes)
    step = max(1, round(total * GOLDEN_SECTION))
    while math.gcd(step, total) > 1:
        step += 1
    for number in range(total):
        yield _places(number * step % total, sizes)


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
    takes_all = most is None or math.prod(sizes) <= most
    order = itertools.product(*map(range, sizes)) if takes_all else evenly_spread(sizes)
    points: dict[tuple[int, ...], dict[str, Any]] = {}
    for places in itertools.islice(order, None if takes_all else MOST_TRIES):
        point = {name: values[i] for i, (name, values) in zip(places, axes.items())}
        derived = _derived(derive, case, point)
        if derived is None:
            continue
        points[places] = {**point, **derived}
        if len(points) == most:
            break
    return [points[places] for places in sorted(points)]


def _derived(
    derive: Derive | None, case: Mapping[str, Any], point: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """The constexprs that follow from a point; None where the file refuses it."""
    if derive is None:
        return {}
    try:
        derived = derive(dict(case), dict(point))
    except Exception as failure:
        text = f"{type(failure).__name__}: {failure}"
        raise CaseError(f"{DERIVE} fails at {point}: {text}", "mend it") from failure
    if derived is not None and not isinstance(derived, Mapping):
        raise CaseError(f"{DERIVE} gives {derived!r}", "return a dict, or None for no such launch")
    return derived


def _places(number: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """The index on each axis of the point with this number, the last axis varying fastest."""
    places: list[int] = []
    for size in reversed(sizes):
        number, place = divmod(number, size)
        places.append(place)
    return tuple(reversed(places))
