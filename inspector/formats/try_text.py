"""What was tried on kernels, for a terminal: by findings, then all changes, the best first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

from ..compare.times import EQUAL
from ..compare.trials.results import KernelTrials, TrialRow, TrialRun
from ..explain import time_view, trials_view, view
from ..explain.table import Column, rows_of
from ..model import Finding, Scalar
from ..present.paper import Line, Paper, paper_for, print_wrapped

MARK = "*"
_STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_COLUMNS: Mapping[str, str] = {
    # metric -> heading
    "vgpr_spill_count": "spilled",
    "vgpr_count": "VGPRs",
    "lds_bytes": "LDS",
    "occupancy.waves_per_eu": "waves/EU",
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
        Column("tried", lambda row: trials_view.steps_text(row.change)),
        Column("cures", lambda row: " ".join(row.cures)),
        *(_figure_column(name) for name in shown),
        Column("", lambda row: trials_view.remark(row.trial)),
    ]
    if trials.is_timed:
        columns.insert(2, Column("time", _time))
    paper.print(Line())
    for index, text in enumerate(rows_of(columns, rows)):
        marked = index > 0 and rows[index - 1].trial.front
        paper.print(Line(f"  {text}", "bold" if index == 0 or marked else ""))
    reasons = dict.fromkeys(row.trial.no_time for row in rows if row.trial.no_time)
    for reason in reasons:
        _note(paper, f"time unknown: {reason}")


def _time(row: TrialRow) -> str:
    if row.trial.time is not None:
        return time_view.difference(row.trial.time)
    if row.figures is None:
        return ""
    us = row.figures.time_us
    return time_view.amount(us) if us is not None else view.UNKNOWN


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
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _explain(paper: Paper, run: TrialRun) -> None:
    """Explains the marks and times of the tables."""
    if any(trials.is_timed for trials in run.kernels):
        _note(
            paper,
            f"{MARK} nothing is faster; times less than {100 * EQUAL:.0f} % apart are equal. In"
            " brackets the difference, and the range that holds three quarters of measured ones"
            " (benchmarks/TIMING.md). Measure the first few.",
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
