"""Earlier measurements and analyses: the list of runs, and one run, as tables and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TextIO

from ..bench.history.analyses import AnalysisRun, Sighting, value_of
from ..bench.history.store import Run, StoredCase
from ..explain.table import Column, rows_of
from .bench import micro

SCHEMA_VERSION = 1
MOST_TARGET = 48
"""Characters of a run's targets that the list shows."""
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


def write_runs(runs: Sequence[Run | AnalysisRun], stream: TextIO) -> None:
    """Writes a line per run."""
    _table(_RUN_COLUMNS, runs, stream)


def write_runs_json(runs: Sequence[Run | AnalysisRun], stream: TextIO) -> None:
    """Writes the runs as JSON."""
    _dump({"runs": [_run(run) for run in runs]}, stream)


def write_cases(cases: Sequence[StoredCase], stream: TextIO) -> None:
    """Writes the measured cases of one run, a line each."""
    _table(_CASE_COLUMNS, cases, stream)


def write_kernels(kernels: Sequence[Sighting], stream: TextIO) -> None:
    """Writes the analysed kernels of one run, a line each."""
    _table(_KERNEL_COLUMNS, kernels, stream)


def write_run_json(
    run: int, cases: Sequence[StoredCase], kernels: Sequence[Sighting], stream: TextIO
) -> None:
    """Writes one run as JSON: its number, and its cases or, of an analysis, its kernels."""
    listed = (
        {"cases": [_case(case) for case in cases]}
        if cases
        else {"kernels": [_kernel(kernel) for kernel in kernels]}
    )
    _dump({"run": run, **listed}, stream)


def _table(columns: Sequence[Column], items: Sequence[Any], stream: TextIO) -> None:
    stream.writelines(f"{line}\n" for line in rows_of(columns, items))


def _dump(data: dict[str, Any], stream: TextIO) -> None:
    json.dump({"schema_version": SCHEMA_VERSION, **data}, stream, indent=2)
    stream.write("\n")


def _kernel_or_target(run: Run | AnalysisRun) -> str:
    text = run.kernel if isinstance(run, Run) else run.target
    return text if len(text) <= MOST_TARGET else f"{text[: MOST_TARGET - 1]}…"


def _count(run: Run | AnalysisRun) -> str:
    return str(run.cases if isinstance(run, Run) else run.kernels)


def _remark(run: Run | AnalysisRun) -> str:
    if isinstance(run, Run):
        return "" if run.mode == "time" else "run once"
    return run.label or ""


def _figure_column(title: str, metric: str) -> Column:
    return Column(title, lambda seen: _figure(value_of(seen.kernel, metric)), right=True)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}" if value == int(value) else f"{value:g}"


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _run(run: Run | AnalysisRun) -> dict[str, Any]:
    """Returns a run of the list as JSON values."""
    if isinstance(run, AnalysisRun):
        return {
            "run": run.id,
            "kind": "analysis",
            "date": run.date,
            "label": run.label,
            "command": run.command,
            "target": run.target,
            "versions": dict(run.versions),
            "archs": list(run.archs),
            "kernels": run.kernels,
        }
    return {
        "run": run.id,
        "kind": "bench",
        "date": run.date,
        "kernel": run.kernel,
        "device": run.device,
        "versions": dict(run.versions),
        "mode": run.mode,
        "cases": run.cases,
    }


def _case(case: StoredCase) -> dict[str, Any]:
    """Returns a measured case as JSON values; times in µs."""
    return {
        "name": case.name,
        "config": dict(case.config),
        "clocks": dict(case.clocks),
        "runs": case.runs,
        "best_us": case.best_us,
        "mean_us": case.mean_us,
        "slowest_us": case.slowest_us,
        "error_us": case.error_us,
        "tflops": case.tflops,
        "gib_per_s": case.gib_per_s,
        "memory_share": case.memory_share,
    }


def _kernel(sighting: Sighting) -> dict[str, Any]:
    """Returns an analysed kernel as JSON values."""
    kernel = sighting.kernel
    return {
        "kernel": kernel.kernel,
        "id": kernel.identity,
        "arch": kernel.arch,
        "case": kernel.case,
        "config": dict(kernel.config),
        "figures": {
            name: {"value": value, "unit": sighting.units.get(name, "")}
            for name, value in kernel.figures.items()
        },
        "findings": None if kernel.findings is None else dict(kernel.findings),
    }


_RUN_COLUMNS = [
    Column("run", lambda run: str(run.id), right=True),
    Column("date", lambda run: run.date),
    Column("kernel", _kernel_or_target),
    Column("cases", _count, right=True),
    Column("on", lambda run: run.device if isinstance(run, Run) else " ".join(run.archs)),
    Column("Triton", lambda run: run.versions.get("triton") or ""),
    Column("what", lambda run: "bench" if isinstance(run, Run) else run.command),
    Column("", _remark),
]
_CASE_COLUMNS = [
    Column("case", lambda case: case.name),
    Column("best µs", lambda case: micro(case.best_us), right=True),
    Column("mean µs", lambda case: micro(case.mean_us), right=True),
    Column("slowest µs", lambda case: micro(case.slowest_us), right=True),
    Column("runs", lambda case: str(case.runs), right=True),
    Column("TFLOPS", lambda case: _rate(case.tflops), right=True),
    Column("GiB/s", lambda case: _rate(case.gib_per_s), right=True),
    Column("% of memory's peak", lambda case: _rate(case.memory_share), right=True),
    Column("", lambda case: " ".join(f"{name}={value}" for name, value in case.config.items())),
]
_KERNEL_COLUMNS = [
    Column("kernel", lambda seen: seen.kernel.kernel),
    Column("case", lambda seen: seen.kernel.case or ""),
    Column("arch", lambda seen: seen.kernel.arch or ""),
    *(_figure_column(title, metric) for title, metric in FIGURES),
]
