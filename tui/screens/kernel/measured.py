"""A profiler's measurements of the lines of a kernel's texts, as the kernel page shows them.

Imported where something was measured: the first page of a file does not wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from ....inspector.explain import profile_view as words
from ....inspector.explain import view
from ....inspector.explain.code.links import Links
from ....inspector.explain.view import HOT, WARM
from ....inspector.model import EmulatedLine, KernelReport, LoopReport, MeasuredLine
from ....inspector.profile.placing.loop_costs import SourceCost, measure_of, source_costs
from ....inspector.profile.placing.stalls import Stall, stalls
from ...widgets.code import Cell
from ...widgets.scorecard import Fact


class Costs(Struct, frozen=True):
    """Measured costs by line; lines count from 0.

    Attributes:
        what: of what shares are: stall cycles, samples not issued, samples.
        shares: kind of text -> line -> its share of the kernel's, %. Lines of the source and of the
            TTGIR have what all instructions of that source line cost together.
        dearest: kind of text -> those lines, the dearest first.
        stalls: line of the assembly -> what it cost.
        measured: line of the assembly -> all that was measured there.
        sources: line of the source -> what it cost.
        cells: kind of text -> line -> what stands in the gutter, where that is no share.
        executed: line of the assembly -> what the emulator counted there, where no profiler
            measured: see `executed`.
        waves: that the emulator executed.
    """

    what: str
    shares: Mapping[str, Mapping[int, float]]
    dearest: Mapping[str, Sequence[int]]
    stalls: Mapping[int, Stall] = field(default_factory=dict)
    measured: Mapping[int, MeasuredLine] = field(default_factory=dict)
    sources: Mapping[int, SourceCost] = field(default_factory=dict)
    cells: Mapping[str, Mapping[int, Cell]] = field(default_factory=dict)
    executed: Mapping[int, EmulatedLine] = field(default_factory=dict)
    waves: int = 0

    def share(self, kind: str, line: int) -> float | None:
        """A line's part of the kernel's, %; None where nothing was measured."""
        return self.shares.get(kind, {}).get(line)


def costs_of(report: KernelReport, links: Links) -> Costs | None:
    """A kernel's measured or emulated costs by line of each text; None without any."""
    if not report.measured_lines and report.emulated is not None:
        from .executed import costs_of as executed_costs

        return executed_costs(report.emulated, links)
    if not report.measured_lines:
        return None
    stall_costs = stalls(report)
    code = {stall.line - 1: stall.share for stall in stall_costs if stall.share is not None}
    sources, source, ttgir = _by_source(report, links)
    shares = {"amdgcn": code, "source": source, "ttgir": ttgir}
    return Costs(
        what=measure_of(report.measured_lines) or "samples",
        shares=shares,
        dearest={kind: dearest_first(line_shares) for kind, line_shares in shares.items()},
        stalls={stall.line - 1: stall for stall in stall_costs},
        measured={measured_line.line - 1: measured_line for measured_line in report.measured_lines},
        sources=sources,
    )


def dearest_first(shares: Mapping[int, float]) -> Sequence[int]:
    """Lines, those with the largest shares first."""
    return tuple(sorted(shares, key=lambda line: (-shares[line], line)))


def _by_source(
    report: KernelReport, links: Links
) -> tuple[dict[int, SourceCost], dict[int, float], dict[int, float]]:
    """Costs of the source's lines, and their shares there and in the TTGIR."""
    costs_by_place = {
        (source_cost.file, source_cost.line): source_cost for source_cost in source_costs(report)
    }
    sources: dict[int, SourceCost] = {}
    source: dict[int, float] = {}
    ttgir: dict[int, float] = {}
    for line in report.measured_lines:
        if line.source is None:
            continue
        at = line.source.in_user_code
        cost = costs_by_place[at.file, at.line]
        if not cost.share:
            continue
        # Only where that very line is shown: a call from it costs there, not here.
        if at.line - 1 in links.related("amdgcn", line.line - 1, "source")[:1]:
            sources[at.line - 1], source[at.line - 1] = cost, cost.share
        for ttgir_line in links.related("amdgcn", line.line - 1, "ttgir"):
            ttgir[ttgir_line] = cost.share
    return sources, source, ttgir


# ------------------------------------------------------------------------- texts


def heading(report: KernelReport) -> str:
    """The title of the gutter's column of costs."""
    if not report.measured_lines:
        from .executed import HEADING

        return HEADING
    measure = measure_of(report.measured_lines)
    return " sampl%" if measure == "samples" else " stall%"


def of_region(report: KernelReport, loop: LoopReport | None) -> Iterator[Fact]:
    """The facts about the measured cost of a loop or, without one, of the kernel."""
    metrics = loop.metrics if loop is not None else report.metrics
    share = metrics.get("measured.stall_share")
    if share is not None and isinstance(share.value, int | float):
        measure = measure_of(report.measured_lines)
        hot = "error" if share.value >= 50 else "warning" if share.value >= HOT else ""
        yield Fact("measured", f"{share.value:.1f} % of the kernel's {measure or 'stalls'}", hot)
    elif loop is None:
        for name, label in (("stall_cycles", "stall cycles"), ("samples", "samples")):
            metric = metrics.get(f"measured.{name}")
            if metric is not None and metric.value is not None:
                yield Fact("measured", f"{words.scaled(metric.value)} {label}")


def of_line(costs: Costs, kind: str, line: int) -> Iterator[Fact]:
    """The facts about a line's measured cost; none if nothing was measured there."""
    if costs.executed:
        from .executed import of_line as executed_facts

        yield from executed_facts(costs, kind, line)
        return
    share = costs.share(kind, line)
    if share is None:
        return
    style = "error" if share >= HOT else "warning" if share >= WARM else ""
    if kind == "amdgcn":
        yield Fact("measured", f"{share:.1f} %, {_amounts(costs.stalls[line])}", style)
    else:
        place = "" if kind == "source" else ", its source line"
        yield Fact("measured", f"{share:.1f} % of the {costs.what}{place}", style)


def _amounts(cost: Stall | SourceCost) -> str:
    parts = []
    if cost.stall_cycles is not None:
        parts.append(f"{words.scaled(cost.stall_cycles)} stall cycles")
    if cost.samples is not None:
        parts.append(f"{words.scaled(cost.samples)} samples")
    return ", ".join(parts)


def explained(costs: Costs, kind: str, line: int) -> str:
    """A line's measurements with static analysis of the same place, as text; "" without any."""
    if costs.executed:
        from .executed import explained as executed_words

        return executed_words(costs, kind, line)
    share = costs.share(kind, line)
    measured = costs.measured.get(line) if kind == "amdgcn" else None
    if share is None and measured is None:
        return ""
    lines = ["Measured here"]
    if share is not None:
        lines.append(f"  {share:.1f} % of the kernel's {costs.what}")
    if measured is not None:
        lines += _figures(measured)
        stall = costs.stalls.get(line)
        # The first remark repeats the reasons, if there are any, which are listed above.
        beside = stall.beside[1 if measured.reasons else 0 :] if stall is not None else ()
        if beside:
            lines += ["", "Static analysis of the same line", *(f"  {remark}" for remark in beside)]
        return "\n".join(lines)
    cost = costs.sources.get(line) if kind == "source" else None
    if cost is not None:
        count = view.plural(cost.instructions, "instruction")
        lines.append(f"  {_amounts(cost)} of {count} that stem from this line")
        if cost.rules:
            lines.append(f"  findings there: {', '.join(cost.rules)}")
    else:
        lines.append("  all instructions together that stem from the same source line")
    return "\n".join(lines)


def _figures(line: MeasuredLine) -> Iterator[str]:
    """The figures of one instruction, those that the recording has."""
    figures = (
        (line.hits, "times executed by traced waves"),
        (line.stall_cycles, "cycles in which it could not be issued"),
        (line.latency_cycles, "cycles stalled and issuing (gfx10 and newer: executing)"),
        (line.idle_cycles, "cycles since the wave's instruction before it"),
        (line.samples, "samples found a wave here"),
        (line.issued, "of them as it was issued"),
    )
    for number, meaning in figures:
        if number is not None:
            yield f"  {words.scaled(number):>9} {meaning}"
    total = sum(line.reasons.values())
    for name, count in sorted(line.reasons.items(), key=lambda item: -item[1]):
        part = f"{100 * count / total:.0f} %"
        yield f"  {words.scaled(count):>9} samples not issued: {name.replace('_', ' ')} ({part})"
