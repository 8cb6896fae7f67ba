"""The rows of the profile page's table: measured kernels, and their filter.

No figure is computed here: each is the recording's or the report's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ....inspector.explain import quantities, recording_view
from ....inspector.model import KernelReport, Metric, MetricValue
from ....inspector.model.recording import KernelProfile, Profile
from ...session import SessionKernel
from ...widgets.filtered_list import word_filter
from ...widgets.roofline import DeviceRoof, RooflinePoint

ROOFLINE_METRICS = tuple(
    f"roofline.{name}"
    for name in ("flops_per_byte", "flops_per_s", "peak_flops_per_s", "peak_bytes_per_s")
)
"""Metrics of a kernel's point in the roofline plot: its place, then its roof."""


class KernelRow(Struct, frozen=True):
    """A measured kernel: one of a recording, or a saved report with measured figures.

    Attributes:
        key: identifies the row when the table changes under the cursor.
        suffix: distinguishes it from other kernels of that name; "" if there are none.
        kernel: the kernel in the recording; None for a saved report.
        entry: the saved report; None for a recording.
    """

    key: str
    name: str
    suffix: str
    metrics: Mapping[str, Metric]
    kernel: KernelProfile | None = None
    entry: SessionKernel | None = None

    @property
    def tried(self) -> bool:
        """Whether an autotuner ran it and did not keep it."""
        return self.kernel is not None and self.kernel.role == "autotune"

    @property
    def verdict(self) -> str:
        """The verdict on the match with an analysed kernel; "" for a saved report."""
        return self.kernel.match.verdict if self.kernel is not None else ""

    def number(self, name: str) -> float | None:
        """A measured metric; None if it is missing or no number."""
        metric = self.metrics.get(name)
        return as_number(metric.value if metric is not None else None)


def as_number(value: MetricValue) -> float | None:
    """A value as a float; None if it is unknown, a text or a flag."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def measured_metrics(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    return {name: metric for name, metric in metrics.items() if metric.origin == "measured"}


def has_measured(report: KernelReport) -> bool:
    regions = (report.metrics, *(loop.metrics for loop in report.loops))
    return any(measured_metrics(metrics) for metrics in regions)


def of_profile(profile: Profile) -> list[KernelRow]:
    """The kernels of a recording, in its order: the most time first."""
    names = Counter(kernel.name for kernel in profile.kernels)
    devices = recording_view.device_names(profile)

    def distinction(kernel: KernelProfile) -> str:
        number = kernel.id.removeprefix(kernel.name) if names[kernel.name] > 1 else ""
        return " ".join(filter(None, (number, devices.get(kernel.shape.agent or "", ""))))

    return [
        KernelRow(kernel.id, kernel.name, distinction(kernel), kernel.metrics, kernel=kernel)
        for kernel in profile.kernels
    ]


def of_reports(entries: Iterable[SessionKernel]) -> list[KernelRow]:
    """The reports that hold anything measured."""
    return [
        KernelRow(
            entry.key,
            entry.report.name,
            " ".join(
                part for part in (entry.report.arch or quantities.UNKNOWN, entry.case) if part
            ),
            measured_metrics(entry.report.metrics),
            entry=entry,
        )
        for entry in entries
        if has_measured(entry.report)
    ]


def point(row: KernelRow) -> RooflinePoint | None:
    """The kernel's point of the roofline; None where operations or bytes were not measured."""
    intensity, rate, peak_rate, bandwidth = (row.number(name) for name in ROOFLINE_METRICS)
    if not intensity or not rate or intensity <= 0 or rate <= 0:
        return None
    roof = None
    if peak_rate and bandwidth and min(peak_rate, bandwidth) > 0:
        roof = DeviceRoof(peak_rate, bandwidth)
    return RooflinePoint(row.name, intensity, rate, roof)


def filtered(rows: Sequence[KernelRow], text: str, *, tried: bool) -> list[KernelRow]:
    has_words = word_filter(text)
    tried = tried or all(row.tried for row in rows)
    return [
        row
        for row in rows
        if (tried or not row.tried) and has_words(f"{row.name}{row.suffix} {row.verdict}")
    ]
