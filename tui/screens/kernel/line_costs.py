"""What the lines of a kernel's texts cost, measured by a profiler or counted by the emulator, as
the kernel page shows it.

Imported where something was measured or emulated: the first page of a file does not wait for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

from ....inspector.explain import quantities, time_view, view
from ....inspector.explain.code.links import Links
from ....inspector.explain.view import HOT, WARM
from ....inspector.model import Emulated, EmulatedLine, KernelReport, LoopReport, MeasuredLine
from ....inspector.profile.placing.line_measures import measure_of
from ....inspector.profile.placing.stalls import SourceCost, Stall, source_costs, stalls
from ...widgets.scorecard import CardFact


class Costs(ABC):
    """Costs by line; lines count from 0.

    Args:
        shares: kind of text -> line -> its share of the kernel's total, %. Lines of the source and
            of the TTGIR have what all instructions of that source line cost together.
        executed: line of the assembly -> executions of a wave, as a text, where they are counted.
    """

    def __init__(
        self,
        measure: str,
        shares: Mapping[str, Mapping[int, float]],
        executed: Mapping[int, str] | None = None,
    ) -> None:
        self.measure = measure
        self.shares = shares
        self.executed = executed or {}

    def share(self, kind: str, line: int) -> float | None:
        """A line's share of the kernel's total, %; None where nothing is known of it."""
        return self.shares.get(kind, {}).get(line)

    @abstractmethod
    def facts(self, kind: str, line: int) -> Iterator[CardFact]:
        """The facts about a line's cost, for the card; none where nothing is known of it."""

    @abstractmethod
    def explanation(self, kind: str, line: int) -> str:
        """All that is known of a line's cost, as text; "" without any."""


class _OfLine(Protocol):
    @property
    def line(self) -> int: ...


OfLine = TypeVar("OfLine", bound=_OfLine)


def by_line(items: Iterable[OfLine]) -> dict[int, OfLine]:
    """Line, counted from 0 as in panes -> the item of it, whose own `line` counts from 1."""
    return {item.line - 1: item for item in items}


def severity(share: float) -> str:
    """The style of a fact about a line with this share, %."""
    return "error" if share >= HOT else "warning" if share >= WARM else ""


class EmulatedCosts(Costs):
    """How often each line was executed: by each wave in the assembly, elsewhere in shares."""

    def __init__(self, emulated: Emulated, links: Links) -> None:
        self._lines = by_line(emulated.lines)  # line of the assembly -> its counts
        self._waves = emulated.waves  # the number of waves that were executed
        assembly = {line: emulated_line.executed for line, emulated_line in self._lines.items()}
        source: Counter[int] = Counter()
        ttgir: Counter[int] = Counter()
        for line, count in assembly.items():
            for source_line in links.related("amdgcn", line, "source")[:1]:
                source[source_line] += count
            for ttgir_line in links.related("amdgcn", line, "ttgir"):
                ttgir[ttgir_line] += count
        total = sum(line.executed for line in emulated.lines)
        super().__init__(
            "executed instructions",
            {
                kind: {line: 100 * count / total for line, count in counts.items()}
                for kind, counts in (("amdgcn", assembly), ("source", source), ("ttgir", ttgir))
            },
            {n: _amount(line.executed / self._waves) for n, line in self._lines.items()},
        )

    def facts(self, kind: str, line: int) -> Iterator[CardFact]:
        """The facts about a line's executions; none if it was not executed."""
        share = self.share(kind, line)
        if share is None:
            return
        text = f"{share:.1f} % of the {self.measure}"
        if kind == "amdgcn":
            emulated_line = self._lines[line]
            per_wave = _amount(emulated_line.executed / self._waves)
            yield CardFact("emulated", f"{per_wave} × for each wave, {text}", severity(share))
            yield from (CardFact("", access) for access in _access_costs(emulated_line))
        else:
            place = "" if kind == "source" else ", its source line"
            yield CardFact("emulated", f"{text}{place}", severity(share))

    def explanation(self, kind: str, line: int) -> str:
        """The facts about a line's executions as paragraphs; "" if it was not executed."""
        lines = [f"  {fact.text}" for fact in self.facts(kind, line)]
        return "\n".join(["Emulated, a few workgroups", *lines]) if lines else ""


def _amount(count: float) -> str:
    """A count per wave in at most six columns."""
    if count >= 10_000:
        return f"{count / 1000:.0f}k"
    return f"{count:.0f}" if count >= 100 or count == int(count) else f"{count:.2g}"


def _access_costs(line: EmulatedLine) -> Iterator[str]:
    """The mean memory costs of an execution: lanes, cache lines, bank conflicts."""
    if line.active_lanes is not None:
        yield f"{100 * line.active_lanes:.0f} % of its lanes active"
    if line.cache_lines is not None and line.least_cache_lines is not None:
        yield f"{line.cache_lines:.1f} cache lines, {line.least_cache_lines:.1f} would do"
    if line.conflict_cycles is not None:
        yield f"{line.conflict_cycles:.1f} cycles of LDS bank conflicts"


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
        remarks = list(time_view.static_remarks(stall.static))
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
