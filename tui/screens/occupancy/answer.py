"""The answer of the occupancy page as text: labelled sentences, and the reachable levels.

Every figure comes from `inspector.metrics.occupancy` and the words from `inspector.explain`, so
that the page agrees with `kinspect occupancy` and `kinspect analyze`.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from ....inspector.explain.occupancy_view import occupancy_words
from ....inspector.explain.view import plural
from ....inspector.metrics.capacity import capacity, registers_needed, round_up
from ....inspector.metrics.occupancy import Level, Occupancy, metrics
from ....inspector.model import KernelReport, Metric, number_of
from ....inspector.present.document import Column, Columns, Table, table
from ...session import SessionKernel
from ...widgets.bars import BETTER, WORSE
from .fields import Query

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
