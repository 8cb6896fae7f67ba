"""Earlier measurements and analyses: the list of runs, and one run, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import to_builtins

from ..bench.history.analyses import AnalysisRun, Sighting, value_of
from ..bench.history.store import Run, StoredCase
from ..present.document import Column, Columns, Document, Section, table
from .bench import micro

SCHEMA_VERSION = 1
FIGURES = (
    ("VGPRs", "vgpr_count"),
    ("spills", "vgpr_spill_count"),
    ("scratch B", "scratch_bytes"),
    ("LDS B", "lds_bytes"),
    ("waves/SIMD", "occupancy.waves_per_eu"),
    ("code B", "code_bytes"),
    ("hot loops", "hot_loops.count.instructions"),
    ("errors", "findings.error"),
    ("warnings", "findings.warning"),
    ("notes", "findings.info"),
)
"""The figures of an analysed kernel that its table has, by heading."""


def runs_document(runs: Sequence[Run | AnalysisRun]) -> Document:
    """A line for each run."""
    columns: Columns = (
        (Column("run", right=True), lambda run: str(run.id)),
        ("date", lambda run: run.date),
        (
            Column("kernel", shrinks=True),
            lambda run: run.kernel if isinstance(run, Run) else run.target,
        ),
        (
            Column("cases", right=True, rank=2),
            lambda run: str(run.cases if isinstance(run, Run) else run.kernels),
        ),
        ("on", lambda run: run.device if isinstance(run, Run) else " ".join(run.archs)),
        (Column("Triton", rank=1), lambda run: run.versions.get("triton") or ""),
        ("what", lambda run: "bench" if isinstance(run, Run) else run.command),
        (Column("", rank=3), _remark),
    )
    return (Section((table(columns, runs),)),)


def run_document(cases: Sequence[StoredCase], kernels: Sequence[Sighting]) -> Document:
    """The measured cases of one run or, of an analysis, its kernels, a line each."""
    return (Section((table(_CASE_COLUMNS, cases) if cases else table(_KERNEL_COLUMNS, kernels),)),)


def runs_fields(runs: Sequence[Run | AnalysisRun]) -> dict[str, Any]:
    """The runs as JSON values."""
    return {"schema_version": SCHEMA_VERSION, "runs": [_run(run) for run in runs]}


def run_fields(
    run: int, cases: Sequence[StoredCase], kernels: Sequence[Sighting]
) -> dict[str, Any]:
    """One run as JSON values: its number, and its cases or, of an analysis, its kernels."""
    results = {"cases": cases} if cases else {"kernels": [_kernel(kernel) for kernel in kernels]}
    return {"schema_version": SCHEMA_VERSION, "run": run, **results}


def _remark(run: Run | AnalysisRun) -> str:
    if isinstance(run, Run):
        return "" if run.mode == "time" else "run once"
    return run.label or ""


def _figure_of(metric: str) -> Callable[[Sighting], str]:
    def text(seen: Sighting) -> str:
        value = value_of(seen.kernel, metric)
        return "" if value is None else f"{value:.0f}" if value == int(value) else f"{value:g}"

    return text


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _run(run: Run | AnalysisRun) -> dict[str, Any]:
    fields = to_builtins(run)
    kind = "bench" if isinstance(run, Run) else "analysis"
    return {"run": fields.pop("id"), "kind": kind, **fields}


def _kernel(sighting: Sighting) -> dict[str, Any]:
    fields = to_builtins(sighting.kernel)
    figures = {
        name: {"value": value, "unit": sighting.units.get(name, "")}
        for name, value in sighting.kernel.figures.items()
    }
    return {"id": fields.pop("identity"), **fields, "figures": figures}


_CASE_COLUMNS: Columns = (
    (Column("case", shrinks=True), lambda case: case.name),
    (Column("best µs", right=True), lambda case: micro(case.best_us)),
    (Column("mean µs", right=True), lambda case: micro(case.mean_us)),
    (Column("slowest µs", right=True, rank=2), lambda case: micro(case.slowest_us)),
    (Column("runs", right=True, rank=3), lambda case: str(case.runs)),
    (Column("TFLOPS", right=True), lambda case: _rate(case.tflops)),
    (Column("GiB/s", right=True), lambda case: _rate(case.gib_per_s)),
    (Column("% of memory's peak", right=True, rank=1), lambda case: _rate(case.memory_share)),
    (
        Column("", rank=4),
        lambda case: " ".join(f"{name}={value}" for name, value in case.config.items()),
    ),
)
_KERNEL_COLUMNS: Columns = (
    (Column("kernel", shrinks=True), lambda seen: seen.kernel.kernel),
    (Column("case", shrinks=True), lambda seen: seen.kernel.case or ""),
    ("arch", lambda seen: seen.kernel.arch or ""),
    *(
        (Column(title, right=True, rank=rank), _figure_of(metric))
        for rank, (title, metric) in enumerate(FIGURES)
    ),
)
