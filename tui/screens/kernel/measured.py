"""A profiler's measurements of the lines of a kernel's texts, as the kernel page shows them.

Imported where something was measured: the first page of a file does not wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....inspector.explain import quantities, stall_view, view
from ....inspector.explain.code.links import Links
from ....inspector.explain.view import HOT
from ....inspector.model import KernelReport, LoopReport, MeasuredLine
from ....inspector.profile.placing.loop_costs import measure_of
from ....inspector.profile.placing.stalls import SourceCost, Stall, source_costs, stalls
from ...widgets.scorecard import CardFact
from .costs import Costs, by_line, severity

_HOT_LOOP_SHARE = 50.0
"""Share of the kernel's cost, %, from which on a loop is drawn as an error: it has most of it."""


class MeasuredCosts(Costs):
    """What a profiler measured of each line."""

    def __init__(self, report: KernelReport, links: Links) -> None:
        stalls_of_kernel = stalls(report)
        source, ttgir_shares = _source_lines(report, links)
        super().__init__(
            measure_of(report.measured_lines) or "samples",
            {
                "amdgcn": {
                    line: stall.share
                    for line, stall in by_line(stalls_of_kernel).items()
                    if stall.share is not None
                },
                "source": {
                    line: cost.share for line, cost in source.items() if cost.share is not None
                },
                "ttgir": ttgir_shares,
            },
        )
        # Both by the line of the assembly.
        self._stalls = by_line(stalls_of_kernel)
        self._measured = by_line(report.measured_lines)
        self._source = source

    def facts(self, kind: str, line: int) -> Iterator[CardFact]:
        """The facts about a line's measured cost; none if nothing was measured there."""
        share = self.share(kind, line)
        if share is None:
            return
        if kind == "amdgcn":
            text = f"{share:.1f} %, {_amounts(self._stalls[line])}"
        else:
            place = "" if kind == "source" else ", its source line"
            text = f"{share:.1f} % of the {self.measure}{place}"
        yield CardFact("measured", text, severity(share))

    def explanation(self, kind: str, line: int) -> str:
        """A line's measurements with static analysis of the same place; "" without any."""
        share = self.share(kind, line)
        measured = self._measured.get(line) if kind == "amdgcn" else None
        if share is None and measured is None:
            return ""
        lines = ["Measured here"]
        if share is not None:
            lines.append(f"  {share:.1f} % of the kernel's {self.measure}")
        if measured is not None:
            lines += _instruction_figures(measured)
            lines += self._static_remarks(line)
        elif kind == "source" and line in self._source:
            cost = self._source[line]
            count = view.plural(cost.instructions, "instruction")
            lines.append(f"  {_amounts(cost)} of {count} that stem from this line")
            if cost.rules:
                lines.append(f"  findings there: {', '.join(cost.rules)}")
        else:
            lines.append("  all instructions together that stem from the same source line")
        return "\n".join(lines)

    def _static_remarks(self, line: int) -> list[str]:
        """Lines on what static analysis says of an instruction; none where it says nothing."""
        stall = self._stalls.get(line)
        if stall is None:
            return []
        remarks = list(stall_view.static_remarks(stall.static))
        if not remarks:
            return []
        return ["", "Static analysis of the same line", *(f"  {remark}" for remark in remarks)]


def _source_lines(
    report: KernelReport, links: Links
) -> tuple[dict[int, SourceCost], dict[int, float]]:
    """Returns line of the source -> its cost, and line of the TTGIR -> share of its source line, %.

    Both without lines that cost nothing.
    """
    costs_by_place = {(cost.file, cost.line): cost for cost in source_costs(report)}
    source: dict[int, SourceCost] = {}
    ttgir_shares: dict[int, float] = {}
    for line, measured in by_line(report.measured_lines).items():
        if measured.source is None:
            continue
        place = measured.source.in_user_code
        cost = costs_by_place[place.file, place.line]
        if not cost.share:
            continue
        source_line = place.line - 1
        # Only where that very line is shown: a call from it costs there, not here.
        if source_line in links.related("amdgcn", line, "source")[:1]:
            source[source_line] = cost
        for ttgir_line in links.related("amdgcn", line, "ttgir"):
            ttgir_shares[ttgir_line] = cost.share
    return source, ttgir_shares


def region_facts(report: KernelReport, loop: LoopReport | None) -> Iterator[CardFact]:
    """The facts about the measured cost of a loop or, without one, of the kernel."""
    metrics = loop.metrics if loop is not None else report.metrics
    share = metrics.get("measured.stall_share")
    if share is not None and isinstance(share.value, int | float):
        measure = measure_of(report.measured_lines) or "stalls"
        if share.value >= _HOT_LOOP_SHARE:
            style = "error"
        else:
            style = "warning" if share.value >= HOT else ""
        yield CardFact("measured", f"{share.value:.1f} % of the kernel's {measure}", style)
    elif loop is None:
        for name, label in (("stall_cycles", "stall cycles"), ("samples", "samples")):
            metric = metrics.get(f"measured.{name}")
            if metric is not None and metric.value is not None:
                yield CardFact("measured", f"{quantities.scaled(metric.value)} {label}")


def _amounts(cost: Stall | SourceCost) -> str:
    parts = []
    if cost.stall_cycles is not None:
        parts.append(f"{quantities.scaled(cost.stall_cycles)} stall cycles")
    if cost.samples is not None:
        parts.append(f"{quantities.scaled(cost.samples)} samples")
    return ", ".join(parts)


def _instruction_figures(measured: MeasuredLine) -> Iterator[str]:
    figures = (
        (measured.hits, "times executed by traced waves"),
        (measured.stall_cycles, "cycles in which it could not be issued"),
        (measured.latency_cycles, "cycles stalled and issuing (gfx10 and newer: executing)"),
        (measured.idle_cycles, "cycles since the wave's instruction before it"),
        (measured.samples, "samples found a wave here"),
        (measured.issued, "of them as it was issued"),
    )
    for number, meaning in figures:
        if number is not None:
            yield f"  {quantities.scaled(number):>9} {meaning}"
    total = sum(measured.reasons.values())
    for reason, count in sorted(measured.reasons.items(), key=lambda item: -item[1]):
        percent = f"{100 * count / total:.0f} %"
        name = reason.replace("_", " ")
        yield f"  {quantities.scaled(count):>9} samples not issued: {name} ({percent})"
