"""Charts of a kernel's figures over the runs in the history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType

from msgspec import Struct

from ...base.errors import KinspectError
from ...explain.plot import Chart, Series, Tick
from ...lint.catalogue import nearest
from ...lint.ranking import SEVERITIES
from ...machines.products import find_product, product_named
from .analyses import FINDINGS, AnalysedKernel, Sighting, value_of
from .store import History, Run, StoredCase

MEASURED: Mapping[str, str] = MappingProxyType(
    {
        "mean_us": "µs",
        "best_us": "µs",
        "slowest_us": "µs",
        "tflops": "TFLOPS",
        "gib_per_s": "GiB/s",
        "memory_share": "%",
    }
)
"""Figure of a case that `bench` keeps -> its unit."""
COMPILED_FIRST, MEASURED_FIRST = "vgpr_count", "mean_us"
"""The default metric: of analyses, or of benchmarks where there are no analyses."""
MOST_NAMED = 8
"""How many names an error lists."""


class ChartRequest(Struct, frozen=True):
    """A request for a chart.

    Args:
        metric: the metric; None for VGPRs, or for the mean time where there are only benchmarks.
        arch: gfx name, or name of the device for benchmarks; shell wildcards are allowed. None for
            all.
    """

    kernel: str  # name of the kernel
    metric: str | None = None
    arch: str | None = None
    case: str | None = None  # name of the case; shell wildcards are allowed. None for all
    limit: int = 50  # how many runs are shown, the last ones


class _Point(Struct, frozen=True):
    """One value of one specialisation in one run."""

    key: str
    name: str
    tick: Tick
    value: float | None


def chart(history: History, query: ChartRequest) -> Chart:
    """Returns a metric of a kernel over the runs, the oldest first.

    Raises:
        KinspectError: there is nothing of that kernel, or not that metric of it; or the history is
            damaged.
    """
    sightings = history.sightings(query.kernel)
    measured = history.measured(query.kernel)
    if not sightings and not measured:
        suggestion = nearest(query.kernel, history.names())
        raise KinspectError(
            f"nothing was kept of a kernel {query.kernel}{suggestion}",
            "keep something with kinspect analyze --history; see kinspect history list",
        )
    metric = query.metric or (COMPILED_FIRST if sightings else MEASURED_FIRST)
    if metric in MEASURED:
        points, unit = _measured(measured, metric, query), MEASURED[metric]
    else:
        points, unit = _compiled(sightings, metric, query), _unit(sightings, metric)
    if not any(point.value is not None for point in points):
        raise _nothing(query, metric, sightings, measured)
    numbers = sorted({point.tick.run for point in points})[-query.limit :]
    ticks = {point.tick.run: point.tick for point in points}
    return Chart(
        kernel=query.kernel,
        metric=metric,
        unit=unit,
        runs=tuple(ticks[number] for number in numbers),
        series=tuple(_series(points, numbers)),
    )


def _series(points: Sequence[_Point], numbers: Sequence[int]) -> Iterable[Series]:
    values_by_key: dict[str, dict[int, float | None]] = {}
    names: dict[str, str] = {}
    for point in points:
        values_by_key.setdefault(point.key, {})[point.tick.run] = point.value
        names[point.key] = point.name
    for key, values in values_by_key.items():
        series = Series(names[key], tuple(values.get(number) for number in numbers))
        if series.known:
            yield series


def _compiled(sightings: Sequence[Sighting], metric: str, query: ChartRequest) -> list[_Point]:
    """Returns the points of a metric of analysed kernels."""
    matching = [
        sighting
        for sighting in sightings
        if _is_on(sighting.kernel.arch, query.arch) and _matches(sighting.kernel.case, query.case)
    ]
    names = _names([sighting.kernel for sighting in matching])
    return [
        _Point(
            _identity(sighting.kernel),
            names[_identity(sighting.kernel)],
            Tick(sighting.run, sighting.date, sighting.label or _minute(sighting.date)),
            value_of(sighting.kernel, metric),
        )
        for sighting in matching
    ]


def _identity(kernel: AnalysedKernel) -> str:
    """Returns a specialisation's key that is the same in all runs, whatever its folder."""
    path, _, kernel_part = kernel.identity.partition("::")
    return f"{path.rpartition('/')[2]}::{kernel_part}"


def _names(kernels: Sequence[AnalysedKernel]) -> dict[str, str]:
    """Returns identity -> name in the chart: arch and case, with options where those are equal."""
    short: dict[str, str] = {}
    for kernel in kernels:
        text = " ".join(word for word in (kernel.arch, kernel.case) if word) or kernel.kernel
        short.setdefault(_identity(kernel), text)
    texts = list(short.values())
    long = {
        _identity(kernel): " ".join(f"{key}={value}" for key, value in kernel.config.items())
        for kernel in kernels
    }
    return {
        key: f"{text}  {long[key] or key}".rstrip() if texts.count(text) > 1 else text
        for key, text in short.items()
    }


def _unit(sightings: Sequence[Sighting], metric: str) -> str:
    if metric.startswith(FINDINGS):
        return "findings"
    return next(
        (sighting.units[metric] for sighting in reversed(sightings) if metric in sighting.units), ""
    )


def _measured(
    measured: Sequence[tuple[Run, StoredCase]], metric: str, query: ChartRequest
) -> list[_Point]:
    """Returns a point for each measured case that the query asks for."""
    return [
        _Point(
            f"{run.device}::{case.name}",
            f"{run.device} {case.name}",
            Tick(run.id, run.date, _minute(run.date)),
            getattr(case, metric),
        )
        for run, case in measured
        if _is_on(run.device, query.arch) and _matches(case.name, query.case)
    ]


def _minute(date: str) -> str:
    """Returns the tick of a run without a label: its date to the minute, `2026-01-02 03:04`."""
    return date[:16].replace("T", " ")


def _matches(text: str | None, pattern: str | None) -> bool:
    return pattern is None or (text is not None and fnmatchcase(text, pattern))


def _is_on(name: str | None, pattern: str | None) -> bool:
    """Whether a target or device is that which a pattern or a product's name asks for."""
    product = product_named(pattern) if pattern is not None else None
    if product is None:
        return _matches(name, pattern)
    return name == product.arch or (name is not None and find_product(name) == product)


def _nothing(
    query: ChartRequest,
    metric: str,
    sightings: Sequence[Sighting],
    measured: Sequence[tuple[Run, StoredCase]],
) -> KinspectError:
    """Returns the error that no run has a value: unknown metric, or filters that match nothing."""
    metrics = {name for sighting in sightings for name in sighting.kernel.figures}
    if any(sighting.kernel.findings is not None for sighting in sightings):
        metrics |= {f"{FINDINGS}{severity}" for severity in SEVERITIES}
    metrics |= {
        figure
        for figure in MEASURED
        if any(getattr(case, figure) is not None for _, case in measured)
    }
    if metric not in metrics:
        choices = sorted(metrics)
        listed = ", ".join(choices[:MOST_NAMED]) + (", …" if len(choices) > MOST_NAMED else "")
        return KinspectError(
            f"no run has {metric} of {query.kernel}{nearest(metric, choices)}",
            f"there are {listed}",
        )
    choices = sorted(
        {
            " ".join(word for word in (sighting.kernel.arch, sighting.kernel.case) if word)
            for sighting in sightings
        }
        | {f"{run.device} {case.name}" for run, case in measured}
    )
    return KinspectError(
        f"{metric} of {query.kernel}: nothing fits --arch and --case",
        f"there are {', '.join(choices[:MOST_NAMED])}",
    )
