"""`kinspect history list|show|plot`: earlier measurements and analyses."""

from __future__ import annotations

from pathlib import Path

import click

from ..base.errors import KinspectError
from ..bench.history.analyses import AnalysisRun
from ..bench.history.store import History, Run
from ..formats import history as formats
from .declared import argument, command, option
from .options import OUTPUT, format_option, result_stream, write_form

MOST = 50


@click.group()
def history() -> None:
    """What `bench`, `analyze --history` and `lint --history` kept.

    It is under the user's data folder (KINSPECT_DATA_DIR names another).
    """


@command("list", group=history)
def list_runs(
    kernel: str | None = argument(required=False),
    limit: int = option(None, "-n", type=click.IntRange(1), default=MOST, show_default=True),
    form: str = format_option("text", "json"),
    output: Path | None = OUTPUT,
) -> None:
    """The last runs, newest first; of one KERNEL only, if named."""
    store = History()
    all_runs: list[Run | AnalysisRun] = [*store.runs(kernel, limit), *store.analyses(kernel, limit)]
    runs = sorted(all_runs, key=lambda run: run.id, reverse=True)[:limit]
    if runs or form == "json":
        write_form(form, formats.runs_document(runs), formats.runs_fields(runs), output)
        return
    message = "nothing was kept yet" if kernel is None else f"no run of {kernel} was kept"
    with result_stream(output) as stream:
        stream.write(f"{message}\n")


@command("show", group=history)
def show_run(
    run: int = argument(type=int),
    form: str = format_option("text", "json"),
    output: Path | None = OUTPUT,
) -> None:
    """The cases of one RUN, or its kernels, by its number in the list."""
    store = History()
    cases, kernels = store.results(run), store.analysed(run)
    if not cases and not kernels:
        raise KinspectError(f"there is no run {run}", "see kinspect history list")
    fields = formats.run_fields(run, cases, kernels)
    write_form(form, formats.run_document(cases, kernels), fields, output)


@command("plot", group=history)
def plot(
    kernel: str = argument(),
    metric: str | None = option(
        "A figure of a report, findings.error, mean_us, …  [VGPRs]", metavar="NAME"
    ),
    arch: str | None = option("Only this target or device; may hold wildcards.", metavar="NAME"),
    case: str | None = option("Only this case; may hold wildcards.", metavar="NAME"),
    limit: int = option(None, "-n", type=click.IntRange(1), default=MOST, show_default=True),
    form: str = format_option("text", "json", "svg"),
    output: Path | None = OUTPUT,
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
