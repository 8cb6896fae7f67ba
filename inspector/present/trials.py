"""What was tried on kernels as a document: one table a kernel, the fastest change first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TextIO

from ..compare.times import EQUAL
from ..compare.trials.trial_results import KernelTrials, TrialRow, TrialRun
from ..explain import time_view, trials_view, view
from ..model import Scalar
from . import kernel as of_kernel
from . import text
from .document import Block, Column, Document, Items, Paragraph, Section, table, words

MARK: Final = "*"
_COLUMNS: Final[Mapping[str, str]] = {
    # metric -> heading
    "vgpr_spill_count": "spills",
    "vgpr_count": "VGPRs",
    "lds_bytes": "LDS",
    "occupancy.waves_per_eu": "waves/SIMD",
}


def write(run: TrialRun, stream: TextIO, *, color: bool | None = None) -> None:
    """Prints what was tried."""
    text.show(document(run), stream, color)


def document(run: TrialRun) -> Document:
    """What was tried on each kernel, and how much in all."""
    notes = [*_explained(run), summary(run)] if run.kernels else [summary(run)]
    return (
        *(section for trials in run.kernels for section in _kernel(trials)),
        Section(tuple(Paragraph(words(note, "weak")) for note in notes)),
    )


def summary(run: TrialRun) -> str:
    """How many changes were tried, and whether the budget ended them."""
    told = f"{view.plural(run.tried, 'change')} tried in {run.seconds:.1f} s"
    if not run.kernels and run.errors:
        return f"{told}: nothing could be analysed"
    if not run.kernels and not run.untried:
        return f"{told}: there is no finding to try anything for"
    if run.missing:
        reason = f"the budget of {run.budget:g} s ended" if run.out_of_budget else "interrupted"
        told += f", {view.plural(run.missing, 'change')} not tried: {reason}"
    return told


def _kernel(trials: KernelTrials) -> Iterator[Section]:
    kernel = trials.kernel
    blocks: list[Block] = [Paragraph(words(view.configuration(kernel), "weak"))]
    tried = tuple(finding for finding in kernel.findings if finding.trials)
    if tried:
        blocks.append(Items(tuple(of_kernel.item(finding, kernel, tried) for finding in tried)))
    if trials.without_candidates:
        names = ", ".join(trials.without_candidates)
        blocks.append(Paragraph(words(f"no option or tile is known to help: {names}", "weak")))
    yield Section(tuple(blocks), of_kernel.title(kernel), is_subject=True)
    if len(trials.rows) > 1:
        yield _table(trials)


def _table(trials: KernelTrials) -> Section:
    shown = [
        name
        for name in _COLUMNS
        if any(row.trial.metrics.get(name) not in (None, 0) for row in trials.rows)
    ]
    rows = table(
        (
            (Column("", right=True), lambda row: MARK if row.trial.front else ""),
            (Column("tried", shrinks=True), lambda row: trials_view.steps_text(row.change)),
            (Column("time"), _time if trials.is_timed else lambda _: ""),
            (Column("for", rank=9), lambda row: " ".join(row.cures)),
            *(
                (Column(_COLUMNS[name], right=True, rank=1 + n), _figures_of(name))
                for n, name in enumerate(shown)
            ),
            (Column("remark", rank=8, shrinks=True), lambda row: trials_view.remark(row.trial)),
        ),
        trials.rows,
        lambda row: "strong" if row.trial.front else "",
    )
    reasons = dict.fromkeys(row.trial.no_time for row in trials.rows if row.trial.no_time)
    return Section(
        (rows, *(Paragraph(words(f"time unknown: {reason}", "weak")) for reason in reasons))
    )


def _time(row: TrialRow) -> str:
    if row.trial.time is not None:
        return time_view.difference(row.trial.time)
    if row.figures is None:
        return ""
    us = row.figures.time_us
    return time_view.amount(us) if us is not None else view.UNKNOWN


def _figures_of(name: str) -> Callable[[TrialRow], str]:
    return lambda row: _figure(name, row.trial.metrics.get(name)) if row.figures is not None else ""


def _figure(name: str, value: Scalar) -> str:
    if value is None:
        return view.UNKNOWN
    if name == "lds_bytes" and isinstance(value, int):
        return view.kib(value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _explained(run: TrialRun) -> Iterator[str]:
    """What marks, times and changes mean."""
    if not any(len(trials.rows) > 1 for trials in run.kernels):
        return
    if any(trials.is_timed for trials in run.kernels):
        yield (
            f"{MARK} the fastest; times less than {100 * EQUAL:.0f} % apart are equal. In"
            " brackets the difference, and the range that holds three quarters of measured ones"
            " (benchmarks/TIMING.md). Measure the first few."
        )
    kinds = {change.kind for trials in run.kernels for row in trials.rows for change in row.change}
    if "constexpr" in kinds:
        yield "With another tile the launch's grid has to follow; results were not checked."
    if "macro" in kinds:
        yield "Macros are set by -D, template arguments by an instance; results were not checked."
    if "argument" in kinds:
        yield "An argument as a tl.constexpr is compiled anew for each of its values."
    if "source" in kinds:
        yield "Changes of the source were made on the TTIR: at all such places alike."
