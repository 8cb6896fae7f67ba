"""The lines about one measured kernel: its match, stalls, measured and static figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ....inspector.explain import (
    loop_view,
    occupancy_view,
    profile_view,
    quantities,
    stall_view,
    time_view,
    view,
)
from ....inspector.model import KernelReport, LoopReport, Metric
from ....inspector.model.recording import KernelProfile, Profile
from ....inspector.profile.figures import counter_comparison
from ....inspector.profile.placing.stalls import Stall, stalls
from ....inspector.profile.predicted import MOST_PARTED, predicted
from ...widgets.bars import Piece, bar
from .columns import SIGNS
from .rows import KernelRow, measured_metrics
from .styled_lines import BLANK, StyledLine, gridded, wrapped

_MAX_STALLS = 12
_SUMMED_UP = 2  # reasons against a match that stand in its sentence, not in a list below it
_HEAT = (20.0, 5.0)
"""A line with at least this share (%) of the kernel's stall cycles is drawn hot or warm."""


def of_kernel(
    row: KernelRow, profile: Profile, report: KernelReport | None, width: int
) -> Iterator[StyledLine]:
    """All lines about a kernel of a recording."""
    kernel = row.kernel
    assert kernel is not None
    title: list[Piece] = [(kernel.name, "title"), (f" {row.suffix}" if row.suffix else "", "dim")]
    if row.tried:
        title.append(("   tried by an autotuner, not kept", "warning"))
    yield title
    yield from wrapped(profile_view.launch_text(kernel), width, "dim", "  ", "    ")
    yield from wrapped(profile_view.dispatch_text(kernel), width, "", "  ", "    ")
    yield from _matched(kernel, profile, width)
    stall_costs = stalls(report) if report is not None else []
    if stall_costs:
        yield BLANK
        yield from stall_lines(stall_costs, width)
    yield from _predicted(kernel, report, width)
    yield from _metrics(kernel.metrics, report, width)
    yield from _counters(kernel, width)
    for note in kernel.notes:
        yield BLANK
        yield from wrapped(f"note: {note}", width, "dim", "  ", "    ")
    if report is not None:
        yield from _emulated(kernel, report, width)
        yield from _static(report, width)


def _predicted(
    kernel: KernelProfile, report: KernelReport | None, width: int
) -> Iterator[StyledLine]:
    """The timing model's figures beside the measured ones, and the lines where the two part."""
    found = predicted(kernel, report)
    if report is not None and report.no_time:
        yield BLANK
        text = f"no predicted time: {report.no_time}"
        yield from wrapped(text, width, "warning", "  ", "    ")
    if found is None:
        return
    yield BLANK
    yield ((f"Predicted for {found.gpu}, and measured", "title"),)
    rows = [
        (
            (row.name, ""),
            (time_view.figure(row.predicted, row.unit), "info"),
            (time_view.figure(row.measured, row.unit), "name"),
            (time_view.ratio(row.ratio), ""),
            (row.about, "dim"),
        )
        for row in found.figures
    ]
    if rows:
        yield from gridded(("", "predicted", "measured", "", ""), rows, width, right=(1, 2, 3))
    for note in found.notes:
        yield from wrapped(note, width, "warning", "  ", "    ")
    parting = found.parting
    if parting is None:
        return
    pearson = f", Pearson {parting.pearson:.2f}" if parting.pearson is not None else ""
    yield from wrapped(
        f"{parting.same_percent:.0f} % of the {parting.measure} at the same instruction of"
        f" {parting.instructions:,}{pearson}",
        width, "", "  ", "    ",
    )  # fmt: skip
    lines = [
        (
            (f"{row.line}", "name"),
            (f"{row.predicted:.1f}", "info"),
            (f"{row.measured:.1f}", "name"),
            (row.mnemonic, ""),
            (time_view.STALLS[row.reason] if row.reason is not None else "", ""),
            (stall_view.top_reasons(row.reasons) or "", ""),
        )
        for row in parting.lines[:MOST_PARTED]
    ]
    heads = ("ISA", "predicted %", "measured %", "instruction", "predicted for", "measured for")
    yield from gridded(heads, lines, width, right=(0, 1, 2))


def _matched(kernel: KernelProfile, profile: Profile, width: int) -> Iterator[StyledLine]:
    """The analysed kernel that matches, with the reasons, or why none does."""
    match = kernel.match
    reasons = match.reasons
    if not profile.reports:
        sentence = (
            "nothing was analysed beside this recording: kinspect tui RUN TARGET names kernels"
        )
    elif match.verdict == "none":
        sentence, reasons = "; ".join(reasons[:_SUMMED_UP]), reasons[_SUMMED_UP:]
    else:
        sentence = profile_view.match_text(kernel, profile)
    sign, style = SIGNS[match.verdict]
    yield BLANK
    yield from wrapped(f"{sign}analysed: {sentence or match.verdict}", width, style, "  ", "    ")
    for reason in reasons:
        yield from wrapped(f"• {reason}", width, "dim", "    ", "      ")


def stall_lines(
    stall_costs: list[Stall], width: int, limit: int = _MAX_STALLS
) -> Iterator[StyledLine]:
    """A table of the lines that stall most, with static analysis of the same places."""
    rows = [
        (
            (f"{stall.line}", "name"),
            _bar(stall.share),
            (f"{stall.share:.1f}" if stall.share is not None else "", heat(stall.share)),
            _amount(stall.stall_cycles),
            _amount(stall.samples),
            (stall.mnemonic, ""),
            (stall.loop or "", "dim"),
            (view.place(stall.source) if stall.source is not None else "", "dim"),
            (stall_view.remarks_beside(stall), ""),
        )
        for stall in stall_costs[:limit]
    ]
    heads = ("ISA", "", "%", "cycles", "samples", "instruction", "loop", "source", "beside it")
    yield (("Where it stalls", "title"),)
    yield from gridded(heads, rows, width, right=(0, 2, 3, 4))
    if len(stall_costs) > limit:
        remaining = view.plural(len(stall_costs) - limit, "more line")
        yield ((f"  {remaining}: enter opens the kernel, t steps through them", "dim"),)


def heat(share: float | None) -> str:
    """The style of a share of stalls."""
    if share is None:
        return ""
    return "error" if share >= _HEAT[0] else "warning" if share >= _HEAT[1] else ""


def _bar(share: float | None) -> Piece:
    text = "".join(part for part, _ in bar(share / 100 if share is not None else None, 6))
    return text, "heat"


def _amount(number: int | None) -> Piece:
    return (quantities.scaled(number) if number is not None else "", "")


def _metrics(
    metrics: Mapping[str, Metric], report: KernelReport | None, width: int
) -> Iterator[StyledLine]:
    """Measured figures with formulas, static ones beside them."""
    static = report.metrics if report is not None else None
    rows = [
        (
            (row.name, ""),
            (row.value, "name"),
            (row.unit, "dim"),
            (row.static, "info"),
            (profile_view.short_note(row.note), "dim"),
        )
        for row in profile_view.measured_rows(metrics, static)
    ]
    if rows:
        yield BLANK
        yield (("Measured", "title"),)
        yield from gridded(("", "", "", "", ""), rows, width, right=(1,))


def _counters(kernel: KernelProfile, width: int) -> Iterator[StyledLine]:
    rows = [
        ((name, ""), (mean, "name"), (spread, "dim"))
        for name, mean, spread in profile_view.counter_rows(kernel)
    ]
    if rows:
        yield BLANK
        yield (("Counters, per dispatch", "title"),)
        yield from gridded(("", "mean", "least … most"), rows, width, right=(1,))


def _emulated(kernel: KernelProfile, report: KernelReport, width: int) -> Iterator[StyledLine]:
    """The recorded counters beside the values that emulation predicts for them."""
    rows = [
        ((name, ""), (recorded, "name"), (emulated, "info"), (ratio, ""), (why, "dim"))
        for name, recorded, emulated, ratio, why in counter_comparison.rows(kernel, report)
    ]
    if rows:
        yield BLANK
        yield (("Counters, recorded and emulated", "title"),)
        heads = ("", "recorded", "emulated", "ratio", "")
        yield from gridded(heads, rows, width, right=(1, 2, 3))


def _static(report: KernelReport, width: int) -> Iterator[StyledLine]:
    """The static figures of the analysed kernel: main loop, occupancy, findings."""
    yield BLANK
    yield (("Static analysis", "title"),)
    main = loop_view.main_loop(report)
    if main is not None:
        yield from _loop(main, width)
    for text in occupancy_view.occupancy_lines(report):
        yield from wrapped(text, width, "", "  ", "    ")
    yield ((f"  {view.findings_summary(report)}", "dim"),)


def _loop(loop: LoopReport, width: int) -> Iterator[StyledLine]:
    yield from wrapped(
        f"main loop {loop.id}  {loop_view.loop_title(loop)}", width, "name", "  ", "    "
    )
    scorecard = "  ".join(
        f"{label} {figure}" for label, figure in loop_view.scorecard(loop.metrics)
    )
    yield from wrapped(scorecard, width, "dim", "    ", "    ")
    metric = loop.metrics.get("measured.stall_share")
    if metric is not None:
        text = f"measured: {quantities.scaled(metric.value)} {metric.unit} of the kernel's stalls"
        yield from wrapped(text, width, "warning", "    ", "    ")


def of_report(report: KernelReport, width: int) -> Iterator[StyledLine]:
    """Everything measured of a saved report's kernel and its loops, beside the static figures."""
    yield ((f"{report.name}  {report.arch or quantities.UNKNOWN}", "title"),)
    yield from _figures(report.metrics, width)
    for text in occupancy_view.occupancy_lines(report):
        yield from wrapped(text, width, "dim", "  ", "    ")
    stall_costs = stalls(report)
    if stall_costs:
        yield BLANK
        yield from stall_lines(stall_costs, width)
    for loop in report.loops:
        if not measured_metrics(loop.metrics):
            continue
        yield BLANK
        yield ((f"Loop {loop.id}   {loop_view.loop_title(loop)}", "title"),)
        yield from _figures(loop.metrics, width)
        rows = [
            ((label, "dim"), (figure, "dim")) for label, figure in loop_view.scorecard(loop.metrics)
        ]
        yield from gridded(("", ""), rows, width)


def _figures(metrics: Mapping[str, Metric], width: int) -> Iterator[StyledLine]:
    rows = [
        (
            (name, ""),
            (quantities.scaled(m.value), "name"),
            (m.unit, "dim"),
            (profile_view.short_note(m.note), "dim"),
        )
        for name, m in measured_metrics(metrics).items()
    ]
    yield from gridded(("", "", "", ""), rows, width, right=(1,))
