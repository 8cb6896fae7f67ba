"""Reads the history for the page: kernels, runs and figures. It never writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ....inspector.base.errors import KinspectError
from ....inspector.bench.history.analyses import FIGURES, FINDINGS, AnalysisRun, Sighting, value_of
from ....inspector.bench.history.store import History, Run, StoredCase
from ....inspector.bench.history.trends import MEASURED, ChartRequest, chart
from ....inspector.explain.plot import Chart
from ....inspector.pipeline.analysis import catalogue
from ...session import SEVERITIES

_MOST_RUNS = 400
"""Runs that are looked at, the last ones."""
_COLUMNS = (
    ("VGPRs", "vgpr_count"),
    ("spills", "vgpr_spill_count"),
    ("scratch B", "scratch_bytes"),
    ("LDS B", "lds_bytes"),
    ("waves/SIMD", "occupancy.waves_per_eu"),
    ("code B", "code_bytes"),
    ("errors", "findings.error"),
    ("warnings", "findings.warning"),
    ("notes", "findings.info"),
)
"""(heading, metric) of the figures of a run's kernels."""


class Overview(Struct, frozen=True):
    """A summary of the history.

    Attributes:
        first: the date of the oldest run.
        last: the date of the newest run.
    """

    path: Path
    kernels: tuple[str, ...]
    runs: int
    first: str
    last: str


class HistoryMetric(Struct, frozen=True):
    """A metric that some run has of a kernel."""

    name: str
    unit: str
    about: str


class RunRow(Struct, frozen=True):
    """A run in the table."""

    run: int
    date: str
    label: str
    what: str
    on: str
    triton: str
    kernels: int


class KernelHistory(Struct, frozen=True):
    """A kernel over the runs.

    Attributes:
        chart: one metric over the runs; None where there is none to draw.
        targets: gfx names and devices it was seen on.
        why_no_chart: the reason where there is none; "" elsewhere.
    """

    kernel: str
    chart: Chart | None
    metrics: tuple[HistoryMetric, ...]
    targets: tuple[str, ...]
    runs: tuple[RunRow, ...]
    why_no_chart: str = ""


class RunTable(Struct, frozen=True):
    """A run's kernels or cases with all figures, as a table."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def history_at(path: Path | None) -> History:
    """The history in a file or folder; the user's own for None."""
    if path is None:
        return History()
    if path.is_dir():
        return History(path)
    history = History(path.parent)
    history.path = path
    return history


def overview(history: History) -> Overview:
    """Summarises the history.

    Raises:
        KinspectError: the file is damaged, or of a later kinspect.
    """
    runs: list[Run | AnalysisRun] = [*history.runs(limit=-1), *history.analyses(limit=-1)]
    dates = sorted(run.date for run in runs)
    return Overview(
        history.path,
        tuple(history.names()),
        len(runs),
        dates[0] if dates else "",
        dates[-1] if dates else "",
    )


def kernel_history(
    history: History, kernel: str, metric: str | None, target: str | None
) -> KernelHistory:
    """A kernel's runs, and one of its metrics over them.

    Raises:
        KinspectError: the file is damaged.
    """
    sightings, measured = history.sightings(kernel), history.measured(kernel)
    metrics = _metrics(sightings, measured)
    names = {known.name for known in metrics}
    runs: list[Run | AnalysisRun] = [
        *history.runs(kernel, _MOST_RUNS),
        *history.analyses(kernel, _MOST_RUNS),
    ]
    rows = sorted(map(_row, runs), key=lambda row: row.run, reverse=True)
    targets = {s.kernel.arch for s in sightings if s.kernel.arch} | {
        run.device for run, _ in measured
    }
    drawn, why = None, ""
    try:
        drawn_metric = metric if metric in names else None
        drawn = chart(history, ChartRequest(kernel, drawn_metric, target, None, _MOST_RUNS))
    except KinspectError as error:
        why = str(error)
    return KernelHistory(
        kernel, drawn, metrics, tuple(sorted(targets)), tuple(rows[:_MOST_RUNS]), why
    )


def _metrics(
    sightings: Sequence[Sighting], measured: Sequence[tuple[Run, StoredCase]]
) -> tuple[HistoryMetric, ...]:
    """The metrics that any run has: of compiles, of findings, of measurements."""
    units: dict[str, str] = {}
    for sighting in sightings:
        units.update({name: sighting.units.get(name, "") for name in sighting.kernel.figures})
    metrics = [name for name in FIGURES if name in units]
    metrics += sorted(set(units) - set(metrics))
    if any(sighting.kernel.findings is not None for sighting in sightings):
        metrics += [f"{FINDINGS}{severity}" for severity in SEVERITIES]
    timed = [name for name in MEASURED if any(getattr(k, name) is not None for _, k in measured)]
    names = catalogue()
    figures = []
    for name in (*metrics, *timed):
        spec = names.spec(name)
        unit = MEASURED.get(name) or ("findings" if name.startswith(FINDINGS) else units[name])
        figures.append(
            HistoryMetric(name, unit, spec.description if spec is not None else _about(name))
        )
    return tuple(figures)


def _about(name: str) -> str:
    if name.startswith(FINDINGS):
        return f"findings of severity {name.removeprefix(FINDINGS)}"
    return "measured by kinspect bench" if name in MEASURED else ""


def _row(run: Run | AnalysisRun) -> RunRow:
    if isinstance(run, Run):
        once = "" if run.mode == "time" else "run once"
        on, command, label, count = run.device, "bench", once, run.cases
    else:
        on, command, label, count = " ".join(run.archs), run.command, run.label or "", run.kernels
    return RunRow(run.id, run.date, label, command, on, run.versions.get("triton") or "", count)


def shown_run(history: History, run: int) -> RunTable:
    """One run in full: its kernels, or the cases that were timed.

    Raises:
        KinspectError: the file is damaged.
    """
    kernels = history.analysed(run)
    if kernels:
        return _kernels(kernels)
    titles = ("case", "best µs", "mean µs", "slowest µs", "TFLOPS", "GiB/s", "configuration")
    rows = [
        (
            case.name,
            *map(number, (case.best_us, case.mean_us, case.slowest_us)),
            number(case.tflops),
            number(case.gib_per_s),
            _configuration(case.config),
        )
        for case in history.results(run)
    ]
    return RunTable(titles, tuple(rows))


def _kernels(kernels: Iterable[Sighting]) -> RunTable:
    titles = ("kernel", "case", "target", *(title for title, _ in _COLUMNS), "configuration")
    rows = [
        (
            sighting.kernel.kernel,
            sighting.kernel.case or "",
            sighting.kernel.arch or "-",
            *(number(value_of(sighting.kernel, metric)) for _, metric in _COLUMNS),
            _configuration(sighting.kernel.config),
        )
        for sighting in kernels
    ]
    return RunTable(titles, tuple(rows))


def _configuration(config: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in config.items())


def number(value: float | None) -> str:
    """A figure; a dash where it is not known."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"


def when(date: str) -> str:
    """A date and time to the minute: `2026-01-02 03:04`."""
    return date[:16].replace("T", " ")
