"""The tuning space of a file with stated cases: `TUNING`, a dict of names and lists of values.

Each name is an axis. A case is compiled for every point of the product of those axes that are
constexprs of its kernel or options that only the backend reads; points that differ only in such
options share one run of the front end. An axis that the user states (`-D`) replaces the file's;
where it is no constexpr of the kernel, the host multiplies the points by its values.

Constexprs that TUNING does not name stay as the case states them: EVEN_K=True, for example, for
every BLOCK_K, so the code is for sizes that the blocks divide. Where other constexprs depend on a
point, or `launch` refuses a point, the file defines a function

    tuned_constexprs(case, point) -> dict of the dependent constexprs, or None: no such launch
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .case import CaseError

TUNING = "TUNING"
DERIVE = "tuned_constexprs"
GOLDEN_SECTION = (math.sqrt(5) - 1) / 2
MAX_TRIES = 200_000
"""How many points are tried for a sample, where a file refuses many of them."""

Derive = Callable[[Mapping[str, Any], Mapping[str, Any]], "Mapping[str, Any] | None"]
"""A file's `tuned_constexprs`: (case, point) -> dependent constexprs, or None: no such launch."""


class FrontEndRun(NamedTuple):
    """Points that differ only in backend options, so that one run of the front end serves them.

    `option_sets`: the options of each point, name -> value.
    """

    constexprs: dict[str, Any]
    option_sets: list[dict[str, Any]]


@dataclass
class PointSelection:
    """The points of one case that are compiled.

    Args:
        runs: the selected points, in the product's order.
        total: points of the whole product, not multiplied by `host_factor`.
        host_factor: how many compiles the host makes of each point: the product of the sizes of
            the user's axes that are no constexprs of this kernel.
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
    *,
    user_axes: Mapping[str, Sequence[Any]],
    constexprs: Collection[str],
    options: Collection[str],
    max_points: int | None,
    case: Mapping[str, Any],
    derive: Derive | None,
) -> PointSelection:
    """The points of a case to compile, sampled evenly where there are more than `max_points`.

    `user_axes`: the axes of the command line (`-D`); they replace the file's of the same name.
    `options`: names of options that only the backend reads.
    `max_points`: limit of the points multiplied by `host_factor`; None for all.

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
    max_case_points = None if max_points is None else max(1, max_points // host_factor)
    return PointSelection(
        _front_end_runs(_points(axes, max_case_points, case, derive), options),
        math.prod(map(len, axes.values())),
        host_factor,
        tuple(name for name in tuning if name not in axes and name not in user_axes),
    )


def stated_points(
    points: Sequence[Mapping[str, Any]],
    *,
    constexprs: Collection[str],
    tuning: Mapping[str, Sequence[Any]],
    case: Mapping[str, Any],
    derive: Derive | None,
) -> PointSelection:
    """Points that the user states, without those that the kernel or the file does not have.

    `tuning`: the file's space; `derive` is called with all of its names that the case states.

    Raises:
        CaseError: `derive` fails.
    """
    stated = {**(case.get("constexprs") or {}), **(case.get("options") or {})}
    present = {name: stated[name] for name in tuning if name in stated}
    runs = []
    for point in points:
        if not set(point) <= set(constexprs):
            continue
        derived = _derived(derive, case, {**present, **point})
        if derived is not None:
            runs.append(FrontEndRun({**point, **derived}, [{}]))
    return PointSelection(runs, len(points))


def _front_end_runs(
    points: Iterable[Mapping[str, Any]], options: Collection[str]
) -> list[FrontEndRun]:
    option_sets: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    constexprs_of: dict[tuple[Any, ...], dict[str, Any]] = {}
    for point in points:
        constants = {name: value for name, value in point.items() if name not in options}
        key = tuple(map(repr, constants.items()))  # values need not be hashable
        constexprs_of[key] = constants
        point_options = {name: value for name, value in point.items() if name in options}
        option_sets.setdefault(key, []).append(point_options)
    return [FrontEndRun(constexprs_of[key], sets) for key, sets in option_sets.items()]


def evenly_spread(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every point of a product once, in an order in which the first n points are spread evenly.

    The order goes in steps of about the golden section of all points, coprime to their number: its
    beginning is even over the slow axes, and cycles through the fast ones.

    `sizes`: the number of values of each axis, the slowest first.
    """
    total = math.prod(sizes)
    step = max(1, round(total * GOLDEN_SECTION))
    while math.gcd(step, total) > 1:
        step += 1
    for number in range(total):
        yield indices_of(number * step % total, sizes)


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
        raise CaseError(f"{TUNING} is not a dict of names and lists of values", f"mend {TUNING}")
    return {name: list(values) for name, values in raw.items()}


def _points(
    axes: Mapping[str, Sequence[Any]],
    max_points: int | None,
    case: Mapping[str, Any],
    derive: Derive | None,
) -> list[dict[str, Any]]:
    sizes = [len(values) for values in axes.values()]
    takes_all = max_points is None or math.prod(sizes) <= max_points
    order = itertools.product(*map(range, sizes)) if takes_all else evenly_spread(sizes)
    points: dict[tuple[int, ...], dict[str, Any]] = {}
    for indices in itertools.islice(order, None if takes_all else MAX_TRIES):
        point = {name: values[i] for i, (name, values) in zip(indices, axes.items())}
        derived = _derived(derive, case, point)
        if derived is None:
            continue
        points[indices] = {**point, **derived}
        if len(points) == max_points:
            break
    return [points[indices] for indices in sorted(points)]


def _derived(
    derive: Derive | None, case: Mapping[str, Any], point: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """The constexprs that depend on a point; None where the file refuses the point."""
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


def indices_of(number: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """The index on each axis of the point with this number, the last axis varying fastest."""
    indices: list[int] = []
    for size in reversed(sizes):
        number, index = divmod(number, size)
        indices.append(index)
    return tuple(reversed(indices))
