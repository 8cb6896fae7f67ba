"""What was tried on kernels, for a terminal: by findings, then all changes in a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

from ..compare.trials.results import KernelTrials, TrialRun
from ..explain import trials_view, view
from ..explain.table import Column, rows_of
from ..model import Finding, Scalar
from .paper import Line, Paper, paper_for, print_wrapped

MARK = "*"
_STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_COLUMNS: Mapping[str, str] = {
    # metric -> heading
    "vgpr_spill_count": "spilled",
    "vgpr_count": "VGPRs",
    "agpr_count": "AGPRs",
    "lds_bytes": "LDS",
    "occupancy.waves_per_eu": "waves/EU",
    "scratch_per_work": "scratch/W",
    "lds_conflicts_per_work": "conflicts/W",
    "matrix_cycles_per_work": "matrix/W",
    "vector_per_work": "vector/W",
    "full_waits_per_work": "waits/W",
    "bound_per_work": "bound/W",
}
_WORK = {
    "mac": "a million multiply-accumulates that the source's dots need in the main loop",
    "element": "a thousand elements that the source loads as tiles in the main loop",
}


def write(run: TrialRun, stream: TextIO, *, color: bool | None = None) -> None:
    """Prints what was tried for each finding, and a table for each kernel."""
    paper = paper_for(stream, color)
    for trials in run.kernels:
        _kernel(paper, trials)
        paper.print(Line())
    if any(len(trials.rows) > 1 for trials in run.kernels):
        _explain(paper, run)
    _note(paper, summary(run))


def summary(run: TrialRun) -> str:
    """How many changes were tried, and whether the budget ended them."""
    text = f"{view.plural(run.tried, 'change')} tried in {run.seconds:.1f} s"
    if not run.kernels and run.errors:
        return f"{text}: nothing could be analysed"
    if not run.kernels and not run.untried:
        return f"{text}: there is no finding to try anything for"
    if run.missing:
        reason = f"the budget of {run.budget:g} s ended" if run.out_of_budget else "interrupted"
        text += f", {view.plural(run.missing, 'change')} not tried: {reason}"
    return text


def _kernel(paper: Paper, trials: KernelTrials) -> None:
    kernel = trials.kernel
    title = Line(kernel.name, "bold")
    title.append(f"  {kernel.arch}  {view.file_name(view.path_of(kernel))}")
    if kernel.variant is not None and kernel.variant.case:
        title.append(f"  [{kernel.variant.case}]")
    print_wrapped(paper, title, "  ")
    print_wrapped(paper, Line(f"  {view.configuration(kernel)}"), "    ")
    for finding in kernel.findings:
        if finding.trials:
            _finding(paper, finding)
    if trials.without_candidates:
        _note(paper, f"no option or tile is known to help: {', '.join(trials.without_candidates)}")
    if len(trials.rows) > 1:
        _table(paper, trials)


def _finding(paper: Paper, finding: Finding) -> None:
    """Prints a finding, its fix unless that has failed, and what was tried for it."""
    paper.print(Line())
    where = view.finding_place(finding)
    head = Line(f"  {finding.severity:<8}", _STYLES[finding.severity])
    head.append(f"{finding.rule}  {finding.message}" + (f"  ({where})" if where else ""))
    print_wrapped(paper, head, "            ")
    if finding.advice:
        print_wrapped(paper, Line(f"          → {finding.advice}", "dim"), "            ")
    for text in trials_view.tried_lines(finding):
        print_wrapped(paper, Line(f"          → {text}"), "            ")


def _table(paper: Paper, trials: KernelTrials) -> None:
    rows = trials.rows
    shown = [
        name
        for name in _COLUMNS
        if any(row.trial.metrics.get(name) not in (None, 0) for row in rows)
    ]
    columns = [
        Column("", lambda row: MARK if row.trial.front else "", right=True),
        Column("tried", lambda row: trials_view.changes_text(row.change)),
        Column("cures", lambda row: " ".join(row.cures)),
        *(_figure_column(name) for name in shown),
        Column("", lambda row: trials_view.remark(row.trial)),
    ]
    paper.print(Line())
    for index, text in enumerate(rows_of(columns, rows)):
        marked = index > 0 and rows[index - 1].trial.front
        paper.print(Line(f"  {text}", "bold" if index == 0 or marked else ""))
    place = view.main_loop_place(trials.kernel)
    if place is not None and len(trials.kernel.loops) > 1 and trials.metrics.get("work_unit"):
        _note(paper, f"/W counts the main loop, {place}")


def _figure_column(name: str) -> Column:
    return Column(
        _COLUMNS[name],
        lambda row: _figure(name, row.trial.metrics.get(name)) if row.figures is not None else "",
        right=True,
    )


def _figure(name: str, value: Scalar) -> str:
    if value is None:
        return view.UNKNOWN
    if name == "lds_bytes" and isinstance(value, int):
        return view.kib(value)
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def _explain(paper: Paper, run: TrialRun) -> None:
    """Explains the marks and units of the tables."""
    units = {trials.metrics.get("work_unit") for trials in run.kernels}
    works = [meaning for unit, meaning in _WORK.items() if unit in units]
    if works:
        _note(paper, f"/W: per {'; or '.join(works)}, all waves of the workgroup together")
    objectives = dict.fromkeys(o.text for trials in run.kernels for o in trials.objectives)
    aims = ", ".join(objectives)
    _note(
        paper,
        f"{MARK} on the Pareto front: no other line is at least as good in all of these and better"
        f" in one: {aims}. They are facts of the compiled code, no times: measure the marked ones.",
    )
    kinds = {change.kind for trials in run.kernels for row in trials.rows for change in row.change}
    if "constexpr" in kinds:
        _note(paper, "With another tile the launch's grid has to follow; results were not checked.")
    if "argument" in kinds:
        _note(paper, "An argument as a tl.constexpr is compiled anew for each of its values.")
    if "source" in kinds:
        _note(paper, "Changes of the source were made on the TTIR: at all such places alike.")


def _note(paper: Paper, text: str) -> None:
    print_wrapped(paper, Line(f"  {text}", "dim"), "    ")
