"""The curves of the occupancy page: waves/SIMD over VGPRs and over LDS, and steps along them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from ....inspector.metrics.occupancy import Occupancy, occupancy
from ....inspector.model import Demand
from ...widgets.step_plot import Point, StepFunction
from .fields import Query

_RESOURCES = {
    "vgpr": "VGPRs",
    "sgpr": "SGPRs",
    "lds": "LDS",
    "waves_per_eu": "VGPRs asked for",
    "vgpr_request": "VGPRs asked for",
}
"""Resource of a next step -> its name for people."""


class _Axis(Struct, frozen=True):
    """The amounts of a resource that a curve is drawn over.

    Attributes:
        grain: the amount's granule, see `falling`.
        position: the typed amount; None if unknown.
    """

    name: str
    last: int
    grain: int
    position: int | None
    unit: str = ""

    @property
    def titles(self) -> tuple[str, str]:
        """The curve's title and its short one."""
        return f"waves/SIMD over {self.name}", f"over {self.name}"


def curves(query: Query, answer: Occupancy) -> tuple[StepFunction, StepFunction]:
    """Waves/SIMD over VGPRs and over LDS, with all other figures as typed in.

    Where the occupancy is unknown, the first curve shows the limit by VGPRs alone.
    """
    return (
        _with_joint_step(_over_vgprs(query, answer), answer, "vgpr", query.demand),
        _with_joint_step(_over_lds(query, answer), answer, "lds", query.demand),
    )


def _over_vgprs(query: Query, answer: Occupancy) -> StepFunction:
    machine, demand = query.machine, query.demand
    by_vgprs_only = answer.waves_per_eu is None

    def waves_at(vgprs: int) -> float | None:
        result = occupancy(machine, replace(demand, vgprs=vgprs))
        return result.by_vgpr if by_vgprs_only else result.waves_per_eu

    name = "VGPRs alone" if by_vgprs_only else "VGPRs"
    # Where AGPRs follow VGPRs, VGPRs are rounded up to 4; all allocation granules are multiples.
    axis = _Axis(name, machine.vgpr_addressable, 4, demand.vgprs)
    present = answer.by_vgpr if by_vgprs_only else answer.waves_per_eu
    return _steps(axis, waves_at, present, machine.max_waves)


def _over_lds(query: Query, answer: Occupancy) -> StepFunction:
    machine, demand = query.machine, query.demand
    granule = machine.lds_granule["hardware"]
    axis = _Axis("LDS", machine.lds_max, granule, demand.lds_bytes, "B")
    if demand.waves_per_workgroup is None:
        return StepFunction(*axis.titles, message="needs the waves of a workgroup")

    def waves_at(lds: int) -> float | None:
        return occupancy(machine, replace(demand, lds_bytes=lds)).waves_per_eu

    return _steps(axis, waves_at, answer.waves_per_eu, machine.max_waves)


def _with_joint_step(
    steps: StepFunction, answer: Occupancy, resource: str, demand: Demand
) -> StepFunction:
    """Adds the next step to a curve where it needs cuts of two resources at once.

    No point of the curve shows such a step, since a cut of either resource alone gains nothing.
    """
    step = answer.next_step
    if step is None or not step.also or steps.step is not None or steps.current is None:
        return steps
    cuts = {step.resource: step.reduce_by, **dict(step.also)}
    if resource not in cuts or (resource == "vgpr" and demand.agprs):
        return steps  # the step does not tell how to share the cut between VGPRs and AGPRs
    other_names = " and ".join(_RESOURCES[name] for name in cuts if name != resource)
    return replace(
        steps, step=(steps.current[0] - cuts[resource], step.gives), needs=f"less {other_names}"
    )


def _steps(
    axis: _Axis, waves_at: Callable[[int], float | None], present: float | None, max_waves: int
) -> StepFunction:
    """The curve of a resource, with the present position and the next better step."""
    points = falling(waves_at, axis.last, axis.grain)
    position = axis.position
    if not points:
        return StepFunction(*axis.titles, message="unknown")
    if position is None or present is None or position > axis.last:
        return StepFunction(*axis.titles, points, max_waves, unit=axis.unit)
    better = [point for point in points if point[0] < position and point[1] > present]
    step = better[-1] if better else None
    return StepFunction(*axis.titles, points, max_waves, (position, present), step, unit=axis.unit)


def falling(value_at: Callable[[int], float | None], last: int, grain: int) -> list[Point]:
    """The steps of a falling step function, found by bisection with few calls of it.

    Returns:
        Points (x, y): the value is y up to and including x. Empty where the function is unknown.
    """
    cache: dict[int, float | None] = {}

    def value(n: int) -> float | None:
        if n not in cache:
            cache[n] = value_at(min(n * grain, last))
        return cache[n]

    def changes(low: int, high: int) -> list[int]:
        """Every n from `low` to `high - 1` after which the value changes."""
        if value(low) == value(high):
            return []  # the function never rises, so that all values between are equal
        if high - low == 1:
            return [low]
        middle = (low + high) // 2
        return changes(low, middle) + changes(middle, high)

    end = -(-last // grain)
    points: list[Point] = []
    for n in [*changes(0, end), end]:
        y = value(n)
        if y is None:
            return []
        points.append((min(n * grain, last), y))
    return points


def neighbour(steps: StepFunction, position: int, direction: int) -> int | None:
    """The largest x of the next better step (-1), or the least of the next worse one (1)."""
    if not steps.points:
        return None
    level = steps.value_at(position)
    if direction < 0:
        better = [x for x, y in steps.points if x < position and y > level]
        return int(better[-1]) if better else None
    ends = [x for x, y in steps.points if x >= position and y <= level]
    return int(ends[0]) + 1 if len(ends) > 1 else None
