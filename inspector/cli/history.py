"""`kinspect history list|show`: what was measured before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from kinspect.inspector.cli.options import format_option, output_option, result_stream
from kinspect.inspector.errors import KinspectError
from kinspect.inspector.history.store import History, Kept, Run
from kinspect.inspector.render.bench import micro
from kinspect.inspector.render.table import Column, rows_of

MOST = 50


@click.group()
def history() -> None:
    """Results of `bench`, kept under the user's data folder (KINSPECT_DATA_DIR names another)."""


@history.command("list")
@click.argument("kernel", required=False)
@click.option("-n", "most", type=click.IntRange(1), default=MOST, show_default=True)
@format_option("text", "json")
@output_option
def list_runs(kernel: str | None, most: int, form: str, output: Path | None) -> None:
    """The last runs, newest first; of one KERNEL only, if named."""
    runs = History().runs(kernel, most)
    with result_stream(output) as stream:
        if form == "json":
            json.dump({"schema_version": 1, "runs": [_run(r) for r in runs]}, stream, indent=2)
            stream.write("\n")
        elif not runs:
            stream.write("nothing was kept yet\n")
        else:
            columns = [
                Column("run", lambda r: str(r.id), right=True),
                Column("date", lambda r: r.date),
                Column("kernel", lambda r: r.kernel),
                Column("cases", lambda r: str(r.cases), right=True),
                Column("device", lambda r: r.device),
                Column("Triton", lambda r: r.versions.get("triton") or ""),
                Column("", lambda r: "" if r.mode == "time" else "run once"),
            ]
            stream.write("".join(f"{line}\n" for line in rows_of(columns, runs)))


@history.command("show")
@click.argument("run", type=int)
@format_option("text", "json")
@output_option
def show_run(run: int, form: str, output: Path | None) -> None:
    """The cases of one RUN, by its number in the list."""
    kept = History().results(run)
    if not kept:
        raise KinspectError(f"there is no run {run}", "see kinspect history list")
    with result_stream(output) as stream:
        if form == "json":
            cases = [_case(case) for case in kept]
            json.dump({"schema_version": 1, "run": run, "cases": cases}, stream, indent=2)
            stream.write("\n")
        else:
            columns = [
                Column("case", lambda c: c.name),
                Column("best µs", lambda c: micro(c.best_us), right=True),
                Column("mean µs", lambda c: micro(c.mean_us), right=True),
                Column("slowest µs", lambda c: micro(c.slowest_us), right=True),
                Column("runs", lambda c: str(c.runs), right=True),
                Column("TFLOPS", lambda c: _rate(c.tflops), right=True),
                Column("GiB/s", lambda c: _rate(c.gib_per_s), right=True),
                Column("", lambda c: " ".join(f"{k}={v}" for k, v in c.config.items())),
            ]
            stream.write("".join(f"{line}\n" for line in rows_of(columns, kept)))


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _run(run: Run) -> dict[str, Any]:
    return {
        "run": run.id,
        "date": run.date,
        "kernel": run.kernel,
        "device": run.device,
        "versions": dict(run.versions),
        "mode": run.mode,
        "cases": run.cases,
    }


def _case(case: Kept) -> dict[str, Any]:
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
