"""`kinspect history list|show|plot`: earlier measurements and analyses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import click

from ..bench.history.analyses import AnalysisRun, Sighting, value_of
from ..bench.history.store import History, Run, StoredCase
from ..errors import KinspectError
from ..explain.table import Column, rows_of
from ..formats.bench import micro
from .options import format_option, output_option, result_stream

MOST = 50
MOST_TARGET = 48
"""Characters of a run's targets that the list shows."""
FIGURES = (
    # heading, metric
    ("VGPRs", "vgpr_count"),
    ("spills", "vgpr_spill_count"),
    ("scratch B", "scratch_bytes"),
    ("LDS B", "lds_bytes"),
    ("waves/EU", "occupancy.waves_per_eu"),
    ("code B", "code_bytes"),
    ("hot loops", "hot_loops.count.instructions"),
    ("errors", "findings.error"),
    ("warnings", "findings.warning"),
    ("notes", "findings.info"),
)


@click.group()
def history() -> None:
    """What `bench`, `analyze --history` and `lint --history` kept.

    It is under the user's data folder (KINSPECT_DATA_DIR names another).
    """


@history.command("list")
@click.argument("kernel", required=False)
@click.option("-n", "limit", type=click.IntRange(1), default=MOST, show_default=True)
@format_option("text", "json")
@output_option
def list_runs(kernel: str | None, limit: int, form: str, output: Path | None) -> None:
    """The last runs, newest first; of one KERNEL only, if named."""
    store = History()
    all_runs: list[Run | AnalysisRun] = [*store.runs(kernel, limit), *store.analyses(kernel, limit)]
    runs = sorted(all_runs, key=lambda run: run.id, reverse=True)[:limit]
    with result_stream(output) as stream:
        if form == "json":
            _json({"schema_version": 1, "runs": [_run(entry) for entry in runs]}, stream)
        elif not runs:
            message = "nothing was kept yet" if kernel is None else f"no run of {kernel} was kept"
            stream.write(f"{message}\n")
        else:
            columns = [
                Column("run", lambda entry: str(entry.id), right=True),
                Column("date", lambda entry: entry.date),
                Column("kernel", _kernel_or_target),
                Column(
                    "cases",
                    lambda entry: str(entry.cases if isinstance(entry, Run) else entry.kernels),
                    True,
                ),
                Column(
                    "on",
                    lambda entry: entry.device if isinstance(entry, Run) else " ".join(entry.archs),
                ),
                Column("Triton", lambda entry: entry.versions.get("triton") or ""),
                Column("what", lambda entry: "bench" if isinstance(entry, Run) else entry.command),
                Column("", _remark),
            ]
            _table(columns, runs, stream)


@history.command("show")
@click.argument("run", type=int)
@format_option("text", "json")
@output_option
def show_run(run: int, form: str, output: Path | None) -> None:
    """The cases of one RUN, or its kernels, by its number in the list."""
    store = History()
    cases, kernels = store.results(run), store.analysed(run)
    if not cases and not kernels:
        raise KinspectError(f"there is no run {run}", "see kinspect history list")
    with result_stream(output) as stream:
        if form == "json":
            listed = (
                {"cases": [_case(case) for case in cases]}
                if cases
                else {"kernels": [_kernel(kernel) for kernel in kernels]}
            )
            _json({"schema_version": 1, "run": run, **listed}, stream)
        elif cases:
            _table(_case_columns(), cases, stream)
        else:
            _table(_kernel_columns(), kernels, stream)


@history.command("plot")
@click.argument("kernel")
@click.option(
    "--metric", metavar="NAME", help="A figure of a report, findings.error, mean_us, …  [VGPRs]"
)
@click.option("--arch", metavar="NAME", help="Only this target or device; may hold wildcards.")
@click.option("--case", metavar="NAME", help="Only this case; may hold wildcards.")
@click.option("-n", "limit", type=click.IntRange(1), default=MOST, show_default=True)
@format_option("text", "json", "svg")
@output_option
def plot(
    kernel: str,
    metric: str | None,
    arch: str | None,
    case: str | None,
    limit: int,
    form: str,
    output: Path | None,
) -> None:
    """One figure of a KERNEL over the runs, one line for each specialisation."""
    from ..bench.history.trends import ChartRequest, chart
    from ..explain import plot as draw

    drawing = chart(
        History(), ChartRequest(kernel=kernel, metric=metric, arch=arch, case=case, limit=limit)
    )
    writers = {"text": draw.write, "json": draw.write_json, "svg": draw.write_svg}
    with result_stream(output) as stream:
        writers[form](drawing, stream)


# --------------------------------------------------------------------------- tables and JSON


def _table(columns: Sequence[Column], items: Sequence[Any], stream: TextIO) -> None:
    stream.writelines(f"{line}\n" for line in rows_of(columns, items))


def _json(data: dict[str, Any], stream: TextIO) -> None:
    json.dump(data, stream, indent=2)
    stream.write("\n")


def _kernel_or_target(run: Run | AnalysisRun) -> str:
    text = run.kernel if isinstance(run, Run) else run.target
    return text if len(text) <= MOST_TARGET else f"{text[: MOST_TARGET - 1]}…"


def _remark(run: Run | AnalysisRun) -> str:
    if isinstance(run, Run):
        return "" if run.mode == "time" else "run once"
    return run.label or ""


def _case_columns() -> list[Column]:
    return [
        Column("case", lambda case: case.name),
        Column("best µs", lambda case: micro(case.best_us), right=True),
        Column("mean µs", lambda case: micro(case.mean_us), right=True),
        Column("slowest µs", lambda case: micro(case.slowest_us), right=True),
        Column("runs", lambda case: str(case.runs), right=True),
        Column("TFLOPS", lambda case: _rate(case.tflops), right=True),
        Column("GiB/s", lambda case: _rate(case.gib_per_s), right=True),
        Column("", lambda case: " ".join(f"{name}={value}" for name, value in case.config.items())),
    ]


def _kernel_columns() -> list[Column]:
    """Returns the columns of `show` for the kernels of an analysis."""

    def figure(metric: str) -> Column:
        title = next(heading for heading, name in FIGURES if name == metric)
        return Column(
            title, lambda sighting: _figure(value_of(sighting.kernel, metric)), right=True
        )

    return [
        Column("kernel", lambda sighting: sighting.kernel.kernel),
        Column("case", lambda sighting: sighting.kernel.case or ""),
        Column("arch", lambda sighting: sighting.kernel.arch or ""),
        *(figure(metric) for _, metric in FIGURES),
    ]


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
