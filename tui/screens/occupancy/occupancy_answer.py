"""The answer of the occupancy page: labelled sentences, the reachable levels, and curves of
waves/SIMD over VGPRs and over LDS.

Every figure comes from `inspector.metrics.occupancy` and the words from `inspector.explain`, so
that the page agrees with `kinspect occupancy` and `kinspect analyze`.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from ....inspector.explain.occupancy_view import occupancy_words
from ....inspector.explain.view import plural
from ....inspector.metrics.capacity import capacity, registers_needed, round_up
from ....inspector.metrics.occupancy import Level, Occupancy, metrics, occupancy
from ....inspector.model import Demand, KernelReport, Metric, number_of
from ....inspector.present.document import Column, Columns, Table, table
from ...session import SessionKernel
from ...widgets.bars import BETTER, WORSE
from ...widgets.step_plot import Point, StepFunction
from .occupancy_fields import Query

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


DIM = "$foreground 60%"
_RESIDENT = (
    "Resident is what the hardware runs: workgroups start whole or not at all, and one {unit} "
    "shares its registers, LDS, wave slots and barriers among them."
)
_COMPILER = (
    "The compiler's is LLVM's “; Occupancy:”: it counts waves, not whole workgroups, and only the "
    "LDS that it knows of{lds}."
)
_UNKNOWN = "-"


class AnswerLine(Struct, frozen=True):
    """A sentence of the answer under a label, with the sentence's style."""

    label: str
    text: str
    style: str = ""


def answer_lines(
    query: Query, answer: Occupancy, baseline: SessionKernel | None = None
) -> list[AnswerLine]:
    """Both occupancies, their reasons, what differs from a baseline, and what would raise them."""
    sentences = occupancy_words(_as_report(query))
    unfit = answer.cannot_launch is not None
    limits = (
        ("VGPRs", answer.by_vgpr),
        ("SGPRs", answer.by_sgpr),
        ("LDS", answer.by_lds),
        ("workgroups", answer.by_workgroups),
    )
    alone = "  ".join(f"{name} {_figure_text(limit)}" for name, limit in limits)
    lines = [
        AnswerLine("resident", sentences.resident, "$error bold" if unfit else "bold"),
        AnswerLine("compiler", _compiler_sentence(answer, sentences.why_compiler)),
        AnswerLine("alone", f"{alone}  waves/SIMD"),
    ]
    step = sentences.step or _why_no_step(query, answer)
    if step:
        lines.append(AnswerLine("next", step, "$primary"))
    if baseline is not None:
        lines.append(_against(baseline, query, answer))
    if answer.note and answer.waves_per_eu is not None:
        lines.append(AnswerLine("note", answer.note, DIM))
    return lines


def _against(baseline: SessionKernel, query: Query, answer: Occupancy) -> AnswerLine:
    """What differs from the baseline, each figure with a mark for better or worse."""
    demand = query.demand
    vgprs = registers_needed(query.machine, demand.vgprs or 0, demand.agprs)
    figures = (
        # name, metric, figure here, whether more is better
        ("waves/EU", "occupancy.waves_per_eu", answer.waves_per_eu, True),
        ("VGPRs", "vgpr_count", vgprs, False),
        ("SGPRs", "sgpr_count", demand.sgprs, False),
        ("LDS", "lds_bytes", demand.lds_bytes, False),
    )
    parts = []
    for name, metric, here, more_is_better in figures:
        there = number_of(baseline.report.metrics, metric)
        if here is not None and there is not None and here != there:
            mark = BETTER if (here > there) == more_is_better else WORSE
            parts.append(f"{name} {there:,g} → {here:,g} {mark}")
    return AnswerLine("± base", f"{'  '.join(parts) or 'the same'}   ({baseline.label})")


def _compiler_sentence(answer: Occupancy, why_different: str) -> str:
    if answer.compiler is None:
        return _UNKNOWN
    sentence = f"{plural(answer.compiler, 'wave')}/SIMD"
    if why_different:
        return f"{sentence}: {why_different}"
    return f"{sentence}, the same" if answer.compiler == answer.waves_per_eu else sentence


def _why_no_step(query: Query, answer: Occupancy) -> str:
    """Why no cut of one resource raises the occupancy; "" where that is unknown."""
    if answer.waves_per_eu == query.machine.max_waves:
        return "nothing: that is the most there is"
    if answer.waves_per_eu and answer.next_step is None:
        return "only another size of the workgroup"
    return ""


def why_two(answer: Occupancy, query: Query) -> list[str]:
    """Explains why the resident and the compiler's occupancy may differ: what each counts."""
    hidden = query.demand.compiler_lds == 0
    lds = ", which leaves out what Triton asks for at the launch" if hidden else ""
    return [_RESIDENT.format(unit=answer.unit), _COMPILER.format(lds=lds)]


def _figure_text(number: float | None) -> str:
    return _UNKNOWN if number is None else f"{number:g}"


def _as_report(query: Query) -> KernelReport:
    """The typed figures as a kernel's report, which is what `occupancy_words` takes."""
    machine, demand = query.machine, query.demand
    unit = capacity(machine, demand.wave_size, demand.cu_mode, demand.llvm)
    needed = registers_needed(machine, demand.vgprs or 0, demand.agprs)
    request = max(needed, demand.vgprs_requested or 0)
    figures = (
        Metric("vgpr_count", needed, "registers", "derived"),
        Metric("vgpr_allocated", round_up(request, unit.granule), "registers", "derived"),
        Metric("vgpr_pool", unit.total, "registers", "derived"),
        Metric("lds_bytes", demand.lds_bytes, "bytes", "derived"),
        Metric("lds_pool", unit.pool, "bytes", "derived"),
        Metric("waves_per_workgroup", demand.waves_per_workgroup, "waves", "derived"),
    )
    return KernelReport(
        id="",
        name="",
        arch=machine.arch,
        variant=None,
        source=None,
        artifacts={},
        metrics={**{figure.name: figure for figure in figures}, **metrics(machine, demand)},
        loops=(),
        main_loop=None,
        memory_ops=(),
        waits=(),
        findings=(),
        demand=demand,
    )


def level_table(query: Query, answer: Occupancy) -> Table:
    """The reachable levels of occupancy.

    A limit is followed by the amount by which the typed figure exceeds it.
    """
    demand = query.demand
    registers = max(
        registers_needed(query.machine, demand.vgprs or 0, demand.agprs),
        demand.vgprs_requested or 0,
    )

    def excess(limit: int | None, figure: int | None) -> str:
        if limit is None or figure is None or figure <= limit:
            return ""
        return f"−{figure - limit:,}"

    def is_present(level: Level) -> bool:
        return level.waves_per_eu == answer.waves_per_eu and answer.cannot_launch is None

    def limit(title: str, text: Callable[[Level], str]) -> tuple[Column, Callable[[Level], str]]:
        return Column(title, right=True), text

    columns: Columns = (
        limit("waves/SIMD", lambda level: _figure_text(level.waves_per_eu)),
        limit(f"workgroups/{answer.unit}", lambda level: _figure_text(level.workgroups)),
        limit("VGPRs ≤", lambda level: str(level.vgprs)),
        ("", lambda level: excess(level.vgprs, registers)),
        limit("SGPRs ≤", lambda level: _figure_text(level.sgprs)),
        ("", lambda level: excess(level.sgprs, demand.sgprs)),
        limit("LDS B ≤", lambda level: _amount_text(level.lds_bytes)),
        ("", lambda level: excess(level.lds_bytes, demand.lds_bytes)),
        ("", lambda level: "◀ now" if is_present(level) else ""),
    )
    return table(columns, answer.levels, lambda level: "warning" if is_present(level) else "")


def _amount_text(number: int | None) -> str:
    return _UNKNOWN if number is None else f"{number:,}"
