"""The texts of the occupancy page for the figures typed in: words, step table and curves.

Every figure comes from `inspector.metrics.occupancy` and the words from `inspector.explain.view`,
so that the page agrees with `kinspect occupancy` and `kinspect analyze`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from ....inspector.explain.occupancy_view import occupancy_words
from ....inspector.explain.table import Column, rows_of
from ....inspector.explain.view import plural
from ....inspector.metrics.capacity import capacity, registers_needed, round_up
from ....inspector.metrics.occupancy import Level, Occupancy, metrics, occupancy
from ....inspector.model import Demand, KernelReport, Metric
from ...widgets.plot import Point, Steps
from .fields import Query

RESIDENT = (
    "Resident is what the hardware runs: workgroups start whole or not at all, and one {unit} "
    "shares its registers, LDS, wave slots and barriers among them."
)
COMPILER = (
    "The compiler's is LLVM's “; Occupancy:”: it counts waves, not whole workgroups, and only the "
    "LDS that it knows of{lds}."
)
_DASH = "-"
_NAMES = {
    "vgpr": "VGPRs",
    "sgpr": "SGPRs",
    "lds": "LDS",
    "waves_per_eu": "VGPRs asked for",
    "vgpr_request": "VGPRs asked for",
}


def work_out(query: Query) -> Occupancy:
    """The occupancy of the figures typed in."""
    return occupancy(query.machine, query.demand)


def words(query: Query, answer: Occupancy) -> list[tuple[str, str]]:
    """Both occupancies, their reasons, and what would raise them, as (label, sentence)."""
    explanation = occupancy_words(_as_report(query))
    lines = [("resident", explanation.resident)]
    if answer.compiler is None:
        lines.append(("compiler", _DASH))
    else:
        compiler = f"{plural(answer.compiler, 'wave')}/EU"
        if explanation.why_compiler:
            compiler = f"{compiler}: {explanation.why_compiler}"
        elif answer.compiler == answer.waves_per_eu:
            compiler = f"{compiler}, the same"
        lines.append(("compiler", compiler))
    limits = (
        ("VGPRs", answer.by_vgpr),
        ("SGPRs", answer.by_sgpr),
        ("LDS", answer.by_lds),
        ("workgroups", answer.by_workgroups),
    )
    alone = "  ".join(f"{name} {_figure_text(limit)}" for name, limit in limits)
    lines.append(("alone", f"{alone}  waves/EU"))
    if explanation.step:
        lines.append(("next", explanation.step))
    elif answer.waves_per_eu == query.machine.max_waves:
        lines.append(("next", "nothing: that is the most there is"))
    elif answer.waves_per_eu and answer.next_step is None:
        lines.append(("next", "only another size of the workgroup"))
    if answer.note and answer.waves_per_eu is not None:
        lines.append(("note", answer.note))
    return lines


def why_two(answer: Occupancy, query: Query) -> list[str]:
    """Explains why the resident and the compiler's occupancy may differ: what each counts."""
    hidden = query.demand.compiler_lds == 0
    lds = ", which leaves out what Triton asks for at the launch" if hidden else ""
    return [RESIDENT.format(unit=answer.unit), COMPILER.format(lds=lds)]


def _figure_text(number: float | None) -> str:
    return _DASH if number is None else f"{number:g}"


def _as_report(query: Query) -> KernelReport:
    """The figures typed in as a kernel's report, which is what the renderers' words need."""
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
    all_metrics = {**{figure.name: figure for figure in figures}, **metrics(machine, demand)}
    return KernelReport(
        id="",
        name="",
        arch=machine.arch,
        variant=None,
        source=None,
        artifacts={},
        metrics=all_metrics,
        loops=(),
        main_loop=None,
        memory_ops=(),
        waits=(),
        findings=(),
        demand=demand,
    )


# ------------------------------------------------------------------ the step table


def step_table(query: Query, answer: Occupancy) -> tuple[list[str], int | None]:
    """The reachable levels of occupancy as lines, and the index of the current level.

    Each limit is followed by the amount by which the figure exceeds it.
    """
    demand = query.demand
    registers = max(
        registers_needed(query.machine, demand.vgprs or 0, demand.agprs),
        demand.vgprs_requested or 0,
    )

    def over(limit: int | None, current: int | None) -> str:
        return (
            "" if limit is None or current is None or current <= limit else f"−{current - limit:,}"
        )

    def is_present(level: Level) -> bool:
        return level.waves_per_eu == answer.waves_per_eu and answer.cannot_launch is None

    columns = [
        Column("waves/EU", lambda level: _figure_text(level.waves_per_eu), right=True),
        Column(
            f"workgroups/{answer.unit}", lambda level: _figure_text(level.workgroups), right=True
        ),
        Column("VGPRs ≤", lambda level: str(level.vgprs), right=True),
        Column("", lambda level: over(level.vgprs, registers)),
        Column("SGPRs ≤", lambda level: _figure_text(level.sgprs), right=True),
        Column("", lambda level: over(level.sgprs, demand.sgprs)),
        Column(
            "LDS B ≤",
            lambda level: _DASH if level.lds_bytes is None else f"{level.lds_bytes:,}",
            right=True,
        ),
        Column("", lambda level: over(level.lds_bytes, demand.lds_bytes)),
        Column("", lambda level: "◀ now" if is_present(level) else ""),
    ]
    present = next((n for n, level in enumerate(answer.levels) if is_present(level)), None)
    return rows_of(columns, answer.levels), present


# ------------------------------------------------------------------ curves


def curves(query: Query, answer: Occupancy) -> tuple[Steps, Steps]:
    """Waves/EU over VGPRs and over LDS, with all other figures as typed in.

    Where the occupancy is unknown, the first curve shows the limit by VGPRs alone.
    """
    machine, demand = query.machine, query.demand
    max_waves = machine.max_waves
    by_vgprs_only = answer.waves_per_eu is None

    def by_vgprs(vgprs: int) -> float | None:
        result = occupancy(machine, replace(demand, vgprs=vgprs))
        return result.by_vgpr if by_vgprs_only else result.waves_per_eu

    def by_lds(lds: int) -> float | None:
        return occupancy(machine, replace(demand, lds_bytes=lds)).waves_per_eu

    title = "waves/EU over VGPRs" + (" alone" if by_vgprs_only else "")
    present = answer.by_vgpr if by_vgprs_only else answer.waves_per_eu
    # Where AGPRs follow VGPRs, VGPRs are rounded up to 4; all allocation granules are multiples.
    vgprs = _steps(
        title,
        by_vgprs,
        last=machine.vgpr_addressable,
        grain=4,
        position=demand.vgprs,
        present=present,
        max_waves=max_waves,
        unit="",
    )
    grain = machine.lds_granule["hardware"]
    title = "waves/EU over LDS"
    if demand.waves_per_workgroup is None:
        lds = Steps(title, message="needs the waves of a workgroup")
    else:
        lds = _steps(
            title,
            by_lds,
            last=machine.lds_max,
            grain=grain,
            position=demand.lds_bytes,
            present=answer.waves_per_eu,
            max_waves=max_waves,
            unit="B",
        )
    return (
        _with_joint_step(vgprs, answer, "vgpr", demand),
        _with_joint_step(lds, answer, "lds", demand),
    )


def _with_joint_step(steps: Steps, answer: Occupancy, resource: str, demand: Demand) -> Steps:
    """Adds the next step to a curve where it needs cuts of two resources at once.

    No point of the curve shows such a step, since a cut of either resource alone gains nothing.
    """
    step = answer.next_step
    if step is None or not step.also or steps.step is not None or steps.current is None:
        return steps
    cuts = {step.resource: step.reduce_by, **dict(step.also)}
    if resource not in cuts or (resource == "vgpr" and demand.agprs):
        return steps  # the step does not tell how to share the cut between VGPRs and AGPRs
    other_names = " and ".join(_NAMES[name] for name in cuts if name != resource)
    return replace(
        steps, step=(steps.current[0] - cuts[resource], step.gives), needs=f"less {other_names}"
    )


def _steps(
    title: str,
    waves_at: Callable[[int], float | None],
    *,
    last: int,
    grain: int,
    position: int | None,
    present: float | None,
    max_waves: int,
    unit: str,
) -> Steps:
    """The curve of a resource, with the present position and the next better step.

    Args:
        title: of the curve.
        waves_at: the waves/EU for an amount of the resource.
        last: the largest amount that is drawn.
        grain: the amount's granule, see `falling`.
        position: the present amount; None if unknown.
        present: the present waves/EU; None if unknown.
        max_waves: the most waves/EU there can be.
        unit: of the amount.
    """
    points = falling(waves_at, last, grain)
    if not points:
        return Steps(title, message="unknown")
    if position is None or present is None or position > last:
        return Steps(title, points, max_waves, unit=unit)
    better = [point for point in points if point[0] < position and point[1] > present]
    step = better[-1] if better else None
    return Steps(title, points, max_waves, (position, present), step, unit=unit)


def falling(value_at: Callable[[int], float | None], last: int, grain: int) -> list[Point]:
    """The steps of a falling step function, found by bisection with few calls of it.

    Args:
        value_at: the function; constant above one multiple of `grain` up to and including the next.
        last: the largest x.
        grain: the least distance of two steps.

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


# ------------------------------------------------------------------ keys


def neighbour(steps: Steps, position: int, direction: int) -> int | None:
    """The largest x of the next better step (-1), or the least of the next worse one (1)."""
    if not steps.points:
        return None
    level = steps.value_at(position)
    if direction < 0:
        better = [x for x, y in steps.points if x < position and y > level]
        return int(better[-1]) if better else None
    ends = [x for x, y in steps.points if x >= position and y <= level]
    return int(ends[0]) + 1 if len(ends) > 1 else None


def fields_after_step(query: Query, answer: Occupancy) -> Mapping[str, str]:
    """The input fields that the next step changes, with their new texts; empty without a step."""
    step, demand = answer.next_step, query.demand
    if step is None:
        return {}
    candidates: list[dict[str, int | None]] = [{}]
    for resource, cut in ((step.resource, step.reduce_by), *step.also):
        options: Sequence[dict[str, int | None]]
        if resource == "vgpr":
            # The cut may be shared between VGPRs and AGPRs: prefer to cut as few AGPRs as possible.
            options = [
                {
                    "vgprs": (demand.vgprs or 0) - cut + agprs,
                    "agprs": demand.agprs - agprs,
                    "vgprs_requested": None,
                }
                for agprs in range(min(cut, demand.agprs) + 1)
            ]
        elif resource == "lds":
            options = [{"lds_bytes": (demand.lds_bytes or 0) - cut}]
        elif resource == "sgpr":
            options = [{"sgprs": (demand.sgprs or 0) - cut}]
        else:
            options = [{"vgprs_requested": (demand.vgprs_requested or 0) - cut}]
        candidates = [{**candidate, **option} for candidate in candidates for option in options]
    for option in candidates:
        if any(figure is not None and figure < 0 for figure in option.values()):
            continue
        changed: Demand = replace(demand, **option)
        reached = occupancy(query.machine, changed).waves_per_eu
        if reached is not None and reached >= step.gives:
            return {_FIELD[k]: "" if v is None else str(v) for k, v in option.items()}
    return {}


# Field of `Demand` -> name of the page's input field.
_FIELD = {
    "vgprs": "vgprs",
    "agprs": "agprs",
    "sgprs": "sgprs",
    "lds_bytes": "lds",
    "vgprs_requested": "asked",
}
