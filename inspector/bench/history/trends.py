"""A kernel's figures over the runs that the history holds, as a chart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType

from msgspec import Struct

from ...errors import KinspectError
from ...explain.plot import Chart, Series, Tick
from ...lint.catalogue import nearest
from ...lint.results import SEVERITIES
from .analyses import FINDINGS, AnalysedKernel, Sighting, value_of
from .store import History, Kept, Run

MEASURED: Mapping[str, str] = MappingProxyType(
    {
        "mean_us": "µs",
        "best_us": "µs",
        "slowest_us": "µs",
        "tflops": "TFLOPS",
        "gib_per_s": "GiB/s",
    }
)
"""What `bench` keeps of a case -> unit."""
COMPILED_FIRST, MEASURED_FIRST = "vgpr_count", "mean_us"
"""What is shown if no metric is named: of analyses, else of benchmarks."""
MOST_NAMED = 8


class Wanted(Struct, frozen=True):
    """What to show.

    Args:
        kernel: its name.
        metric: None for the VGPRs, or the mean time where there are benchmarks alone.
        arch: gfx name, of benchmarks the device's; with shell wildcards. None for all.
        case: name of the case, with shell wildcards; None for all.
        most: runs, the last ones.
    """

    kernel: str
    metric: str | None = None
    arch: str | None = None
    case: str | None = None
    most: int = 50


class _Point(Struct, frozen=True):
    """One value: whose it is, and of which run."""

    key: str
    name: str
    tick: Tick
    value: float | None


def chart(history: History, query: Wanted) -> Chart:
    """A metric of a kernel over the runs, the oldest first.

    Raises:
        KinspectError: there is nothing of that kernel, or not that metric of it; or the history is
            damaged.
    """
    sightings = history.seen(query.kernel)
    measured = history.measured(query.kernel)
    if not sightings and not measured:
        near = nearest(query.kernel, history.names())
        raise KinspectError(
            f"nothing was kept of a kernel {query.kernel}{near}",
            "keep something with kinspect analyze --history; see kinspect history list",
        )
    metric = query.metric or (COMPILED_FIRST if sightings else MEASURED_FIRST)
    if metric in MEASURED:
        points, unit = _measured(measured, metric, query), MEASURED[metric]
    else:
        points, unit = _compiled(sightings, metric, query), _unit(sightings, metric)
    if not any(point.value is not None for point in points):
        raise _nothing(query, metric, sightings, measured)
    numbers = sorted({point.tick.run for point in points})[-query.most :]
    ticks = {point.tick.run: point.tick for point in points}
    return Chart(
        query.kernel,
        metric,
        unit,
        tuple(ticks[n] for n in numbers),
        tuple(_series(points, numbers)),
    )


def _series(points: Sequence[_Point], numbers: Sequence[int]) -> Iterable[Series]:
    values_by_key: dict[str, dict[int, float | None]] = {}
    names: dict[str, str] = {}
    for point in points:
        values_by_key.setdefault(point.key, {})[point.tick.run] = point.value
        names[point.key] = point.name
    for key, values in values_by_key.items():
        series = Series(names[key], tuple(values.get(n) for n in numbers))
        if series.known:
            yield series


def _compiled(sightings: Sequence[Sighting], metric: str, query: Wanted) -> list[_Point]:
    fitting = [
        s
        for s in sightings
        if _fits(s.kernel.arch, query.arch) and _fits(s.kernel.case, query.case)
    ]
    names = _names([sighting.kernel for sighting in fitting])
    return [
        _Point(
            _identity(s.kernel),
            names[_identity(s.kernel)],
            Tick(s.run, s.date, s.label or _when(s.date)),
            value_of(s.kernel, metric),
        )
        for s in fitting
    ]


def _identity(kernel: AnalysedKernel) -> str:
    """A specialisation in any run: its folder may have been named in another way."""
    path, _, kernel_part = kernel.identity.partition("::")
    return f"{path.rpartition('/')[2]}::{kernel_part}"


def _names(kernels: Sequence[AnalysedKernel]) -> dict[str, str]:
    """Identity -> arch and case; where two would be called the same, with their options."""
    short: dict[str, str] = {}
    for k in kernels:
        text = " ".join(part for part in (k.arch, k.case) if part) or k.kernel
        short.setdefault(_identity(k), text)
    texts = list(short.values())
    long = {
        _identity(k): " ".join(f"{key}={value}" for key, value in k.config.items()) for k in kernels
    }
    return {
        key: f"{text}  {long[key] or key}".rstrip() if texts.count(text) > 1 else text
        for key, text in short.items()
    }


def _unit(sightings: Sequence[Sighting], metric: str) -> str:
    if metric.startswith(FINDINGS):
        return "findings"
    return next((s.units[metric] for s in reversed(sightings) if metric in s.units), "")


def _measured(measured: Sequence[tuple[Run, Kept]], metric: str, query: Wanted) -> list[_Point]:
    return [
        _Point(
            f"{run.device}::{case.name}",
            f"{run.device} {case.name}",
            Tick(run.id, run.date, _when(run.date)),
            getattr(case, metric),
        )
        for run, case in measured
        if _fits(run.device, query.arch) and _fits(case.name, query.case)
    ]


def _when(date: str) -> str:
    """A run without a label, to the minute: `2026-01-02 03:04`."""
    return date[:16].replace("T", " ")


def _fits(text: str | None, pattern: str | None) -> bool:
    return pattern is None or (text is not None and fnmatchcase(text, pattern))


def _nothing(
    query: Wanted, metric: str, sightings: Sequence[Sighting], measured: Sequence[tuple[Run, Kept]]
) -> KinspectError:
    """What to say where no run has the value: the metric, or what narrows, is at fault."""
    metrics = {name for s in sightings for name in s.kernel.figures}
    if any(s.kernel.findings is not None for s in sightings):
        metrics |= {f"{FINDINGS}{severity}" for severity in SEVERITIES}
    metrics |= {m for m in MEASURED if any(getattr(k, m) is not None for _, k in measured)}
    if metric not in metrics:
        choices = sorted(metrics)
        listed = ", ".join(choices[:MOST_NAMED]) + (", …" if len(choices) > MOST_NAMED else "")
        return KinspectError(
            f"no run has {metric} of {query.kernel}{nearest(metric, choices)}",
            f"there are {listed}",
        )
    choices = sorted(
        {" ".join(p for p in (s.kernel.arch, s.kernel.case) if p) for s in sightings}
        | {f"{run.device} {case.name}" for run, case in measured}
    )
    return KinspectError(
        f"{metric} of {query.kernel}: nothing fits --arch and --case",
        f"there are {', '.join(choices[:MOST_NAMED])}",
    )
