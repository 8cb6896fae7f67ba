"""The results of benchmarks, and the figures that others published for the same jobs, each with its
source.

Published figures are shown beside a run on the same device only: a time on another GPU says
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ...base.documents import own_yaml
from ...base.errors import KinspectError

FOLDER = Path(__file__).parent / "figures"
_BESIDE = frozenset({"name", "atol", "rtol", "seed", "config"})
"""Keys that do not make a case another one."""


class Published(Struct, frozen=True):
    """One figure and the case it is for.

    Args:
        case: key -> value, or list of values that mean the same; null: the key may be missing.
    """

    kernel: str  # the bundled kernel that does the same job
    device: str  # a text that the device's name must contain
    case: Mapping[str, Any]
    figure: PublishedFigure

    def is_for(self, case: Mapping[str, Any]) -> bool:
        """Tells whether a case is this one; a key that only one of them has is false or null."""
        return all(
            case.get(key) in _values(self.case.get(key))
            for key in (self.case.keys() | case.keys()) - _BESIDE
        )


def read_published(folder: Path = FOLDER) -> list[Published]:
    """Reads the figures of a folder's YAML files.

    Raises:
        KinspectError: a file is not what it should be.
    """
    import yaml

    figures: list[Published] = []
    for path in sorted(folder.glob("*.yaml")):
        try:
            figures += _of_file(own_yaml(path))
        except (yaml.YAMLError, KeyError, TypeError, AttributeError, OSError) as error:
            raise KinspectError(
                f"{path}: not a file of published figures: {type(error).__name__}: {error}",
                "install kinspect again",
            ) from None
    return figures


def figures_for(
    published: Sequence[Published], kernel: str, device: str, case: Mapping[str, Any]
) -> tuple[PublishedFigure, ...]:
    """The figures for a case of a kernel on a device of this name."""
    return tuple(
        entry.figure
        for entry in published
        if entry.kernel == kernel and entry.device.lower() in device.lower() and entry.is_for(case)
    )


def _of_file(data: Any) -> Iterator[Published]:
    for table in data["tables"]:
        for row in table["rows"]:
            us, tflops = row.get("us"), row.get("tflops")
            figure = PublishedFigure(
                None if us is None else float(us),
                None if tflops is None else float(tflops),
                str(row.get("label") or table["label"]),
                str(table["source"]),
            )
            case = {**table.get("common", {}), **dict(zip(table["keys"], row["case"], strict=True))}
            yield Published(data["kernel"], data["device"], case, figure)


def _values(stated: Any) -> tuple[Any, ...]:
    """The values of a case that match a stated one; null, false and a missing key are the same."""
    values = tuple(stated) if isinstance(stated, list) else (stated,)
    return (*values, None, False) if any(v is None or v is False for v in values) else values


class Summary(Struct, frozen=True):
    """The times of one case, in µs."""

    best: float  # the shortest
    mean: float  # arithmetic
    slowest: float  # the longest
    error: float | None  # standard error of the mean; None for a single run
    runs: int  # how many there were


def summarize(times: Sequence[float]) -> Summary | None:
    """The summary of some times, or None where there are none."""
    if not times:
        return None
    runs = len(times)
    mean = math.fsum(times) / runs
    error = None
    if runs > 1:
        variance = math.fsum((t - mean) ** 2 for t in times) / (runs - 1)
        error = math.sqrt(variance / runs)
    return Summary(best=min(times), mean=mean, slowest=max(times), error=error, runs=runs)


def geometric_mean(values: Iterable[float]) -> float | None:
    """Returns the geometric mean; None if there are no values, or one is not positive."""
    logs = []
    for value in values:
        if value <= 0:
            return None
        logs.append(math.log(value))
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


OK, WRONG, ERROR, CRASHED, SKIPPED = "ok", "wrong", "error", "crashed", "skipped"
"""`wrong`: the check failed, so there is no time; `crashed`: the process ended or took too long."""
GIB = 1 << 30


class MeasuredGpu(Struct, frozen=True):
    """The GPU that was measured."""

    name: str  # the device's own name for itself
    arch: str | None = None  # gfx name or sm_NN
    backend: str | None = None  # `hip` or `cuda`
    compute_units: int | None = None  # CUs or SMs
    memory_bytes: int | None = None  # bytes of the device's memory


class OtherOperator(Struct, frozen=True):
    """Another operator on the same inputs."""

    name: str  # `torch` or `ck`
    times: tuple[float, ...] = ()  # times of its runs in µs; empty where it cannot be compared with
    note: str | None = None  # why not, or what is to be known about its result

    @property
    def summary(self) -> Summary | None:
        return summarize(self.times)


class PublishedFigure(Struct, frozen=True):
    """A figure that others published for this case on this device."""

    us: float | None  # time in µs, or None
    tflops: float | None  # rate as they give it, or None
    label: str  # its name in reports ("RadeonFlow, best")
    source: str  # where it was published


class EarlierResult(Struct, frozen=True):
    """The last result of the same case on the same device."""

    mean_us: float  # its mean time in µs
    date: str  # when it was measured, ISO 8601 in UTC


class Timed(Struct, frozen=True):
    """One case.

    Args:
        config: block sizes and launch options that were used, as far as they are known.
        tune: `tried`, `refused`, `wrong`, `default_us`, `fastest_us`; None without --tune.
        clocks: `core_mhz`, `core_max_mhz`, `memory_mhz` right after the runs, or None each.
    """

    number: int  # number of the case in the kernel's file, counted from 0
    name: str  # name of the case
    status: str  # one of the five above
    message: str = ""  # what is wrong, or why it was skipped
    case: Mapping[str, Any] = field(default_factory=dict)  # the case itself, as plain data
    times: tuple[float, ...] = ()  # times of the runs in µs, in order
    flop: float | None = None  # useful operations, or None
    bytes: float | None = None  # the least that must move, or None
    config: Mapping[str, Any] = field(default_factory=dict)
    oracle: str | None = None  # what the result was checked against; None where it was not checked
    others: tuple[OtherOperator, ...] = ()  # other operators on the same inputs
    tune: Mapping[str, Any] | None = None
    clocks: Mapping[str, int | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # further notes
    before: EarlierResult | None = None  # the last result on the same device
    published: tuple[PublishedFigure, ...] = ()  # figures of others

    @property
    def summary(self) -> Summary | None:
        return summarize(self.times)

    def tflops(self, us: float) -> float | None:
        """Returns the useful operations per second, in 10¹²; None if the work is unknown."""
        return None if self.flop is None else self.flop / us / 1e6

    def gib_per_s(self, us: float) -> float | None:
        """Returns the least bytes per second, in GiB; None if they are unknown."""
        return None if self.bytes is None else self.bytes / us * 1e6 / GIB


class Bench(Struct, frozen=True):
    """One run over the cases of a kernel.

    Args:
        versions: `python`, `torch`, `triton`, `driver`, `cuda`, `hip`, `kinspect`, or None each.
    """

    kernel: str  # the kernel's name
    path: str  # path of its file
    gpu: MeasuredGpu | None  # the GPU that it ran on; None where it did not get so far
    versions: Mapping[str, str | None]
    mode: str  # `time`, `once` or `profile`
    date: str  # when it began, ISO 8601 in UTC
    cases: tuple[Timed, ...]  # in order, those that were reached

    @property
    def timed(self) -> tuple[Timed, ...]:
        """The cases that have times."""
        return tuple(case for case in self.cases if case.times)

    def mean_us(self) -> float | None:
        """Returns the geometric mean of the cases' mean times, µs."""
        return geometric_mean(s.mean for c in self.timed if (s := c.summary) is not None)

    def best_us(self) -> float | None:
        """Returns the geometric mean of the cases' best times, µs."""
        return geometric_mean(s.best for c in self.timed if (s := c.summary) is not None)

    def ratio_to(self, operator: str) -> float | None:
        """Returns how many times as fast as an operator, the geometric mean over shared cases."""
        return geometric_mean(r for case in self.timed if (r := ratio(case, operator)) is not None)


def ratio(case: Timed, operator: str) -> float | None:
    """Returns how many times as fast as another operator a case ran: above 1 is faster."""
    ours = case.summary
    theirs = next((o.summary for o in case.others if o.name == operator), None)
    return theirs.mean / ours.mean if ours is not None and theirs is not None else None
