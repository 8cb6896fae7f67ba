"""A profile as a document: a table of kernels, then those that take most time in full.

What was recorded of code that is not at hand, as blocks of a document.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ..explain import profile_view, quantities, time_view, view
from ..explain.profile_view import UnplacedStall
from ..explain.quantities import scaled
from ..model import KernelReport, Metric
from ..model.recording import KernelProfile, Profile
from ..profile.figures import executed
from ..profile.placing.stalls import Stall, stalls
from ..profile.predicted import Parting, predicted
from ..profile.trace_metrics import STALL_CLASSES
from .document import (
    Block,
    Column,
    Columns,
    Document,
    Figure,
    Figures,
    Section,
    Span,
    Table,
    Tone,
    paragraphs,
    table,
    words,
)
from .kernel import stall_table

DETAILS_UP_TO: Final = 3
"""How many kernels are shown in full without --details."""
MOST_ROWS: Final = 40
"""How many kernels the table has without --details."""
MOST_STALLS: Final = 12
"""How many lines the table of stalls has."""
MOST_COUNTERS: Final = 24
"""How many counters of a kernel are shown without --details: some profilers read hundreds."""


def document(profile: Profile, *, details: bool = False) -> Document:
    """What was recorded; `details` has every kernel in full, autotuned ones included."""
    return tuple(
        section for section in _sections(profile, details) if section.blocks or section.title
    )


def _sections(profile: Profile, details: bool) -> Iterator[Section]:
    yield head(profile)
    kernels = list(profile.kernels) if details else profile_view.main_kernels(profile)
    listed = kernels if details else kernels[:MOST_ROWS]
    hints = []
    if len(kernels) > len(listed):
        left = view.plural(len(kernels) - len(listed), "more kernel")
        hints.append(f"{left}: --details lists all, --top N names how many")
    autotuned = profile_view.autotune_text(profile)
    if autotuned and not details:
        hints.append(f"{autotuned}: --details lists them")
    yield Section((*_rows(_kernel_columns(profile), listed), *paragraphs(hints, "weak")))
    for kernel in kernels if details else kernels[:DETAILS_UP_TO]:
        yield from of_kernel(kernel, profile, details=details)
    yield from remainder(profile)


def remainder(profile: Profile) -> Iterator[Section]:
    """What belongs to no kernel of a recording: samples, stalls, totals and notes."""
    samples = profile_view.unplaced_samples(profile, MOST_STALLS)
    yield Section(tuple(_rows(_SAMPLES, samples)), is_subject=True)
    if stalled := profile_view.unplaced_stalls(profile, MOST_STALLS):
        yield Section((unplaced_table(stalled),))
    if not profile.kernels:  # a profiler's own totals, where it recorded no dispatches
        ranked = sorted(profile.recording.summary, key=lambda kernel: -kernel.total_ns)
        yield Section(tuple(_rows(_TOTALS, ranked)))
    notes = (f"note: {note}" for note in (*profile.recording.notes, *profile.notes))
    yield Section(paragraphs(notes, "weak"), is_subject=True)


def _rows(columns: Columns, rows: Sequence[object]) -> Iterator[Table]:
    if rows:
        yield table(columns, rows)


def head(profile: Profile) -> Section:
    """The run: its path, profiler, devices, command, passes and traces."""
    run = profile.recording
    title = (Span(run.path, "strong"), Span(f"   {profile_view.profiler_text(profile)}"))
    command = f"$ {' '.join(run.command)}" if run.command else ""
    blocks = [*paragraphs(profile_view.gpu_texts(profile)), *paragraphs((command,), "weak")]
    for part in run.parts:
        tone: Tone = "weak" if part.status in ("complete", "imported") else "warning"
        blocks += paragraphs((profile_view.part_text(part),), tone)
    blocks += paragraphs(map(profile_view.trace_text, run.traces))
    return Section(tuple(blocks), title, is_subject=True)


def _kernel_columns(profile: Profile) -> Columns:
    devices = profile_view.device_names(profile)
    return (
        (Column("% time", right=True), lambda row: _percent(profile_view.share_of_time(row))),
        (Column("total", right=True), lambda row: quantities.duration(row.total_ns)),
        (Column("dispatches", right=True), lambda row: f"{profile_view.launch_count(row):,}"),
        (
            Column("median", right=True),
            lambda row: quantities.duration(profile_view.statistic(row, "median")),
        ),
        (Column("mean", right=True), _mean),
        (Column("least … most", rank=3), lambda row: profile_view.time_range(row.duration)),
        (Column("kernel", shrinks=True), lambda row: row.name),
        ("device", lambda row: devices.get(row.shape.agent or "", "")),
        ("", lambda row: "tried" if row.role == "autotune" else ""),
        (Column("VGPR", right=True, rank=2), lambda row: view.show(row.shape.vgpr)),
        (Column("LDS", right=True, rank=2), lambda row: view.kib(row.shape.lds_bytes)),
        ("analysed", lambda row: row.match.verdict if profile.reports else ""),
    )


def _percent(share: float | None) -> str:
    return f"{share:.1f}" if share is not None else quantities.UNKNOWN


def _mean(kernel: KernelProfile) -> str:
    """Only where a profiler's own summary has it, which has no median."""
    mean = profile_view.statistic(kernel, "mean") if kernel.duration is None else None
    return quantities.duration(mean) if mean is not None else ""


def of_kernel(
    kernel: KernelProfile, profile: Profile, *, details: bool = True
) -> Iterator[Section]:
    """A kernel: launch, metrics, counters, emulated counters, predicted time, stalls and notes."""
    tried = "  tried by an autotuner" if kernel.role == "autotune" else ""
    matched = profile_view.match_text(kernel, profile)
    launch = (profile_view.launch_text(kernel), profile_view.dispatch_text(kernel))
    about = (
        *paragraphs(launch, "weak"),
        *paragraphs((f"analysed kernel: {matched}" if matched else "",)),
        *paragraphs((f"note: {note}" for note in kernel.notes), "weak"),
    )
    yield Section(about, (Span(kernel.name, "strong"), Span(tried, "warning")), is_subject=True)
    report = profile_view.report_of(kernel, profile)
    static = report.metrics if report is not None else None
    measured = [
        row
        for row in profile_view.measured_rows(kernel.metrics, static)
        if not row.name.startswith("stalls.")  # which are bars
    ]
    yield Section(tuple(_rows(_MEASURED, measured)))
    counters = list(profile_view.counter_rows(kernel))
    most = len(counters) if details else MOST_COUNTERS
    more = view.plural(len(counters) - most, "more counter")
    left_out = f"{more}: --details lists all" if len(counters) > most else ""
    yield Section((*_rows(_COUNTERS, counters[:most]), *paragraphs((left_out,), "weak")))
    yield Section(tuple(_rows(_EMULATED, list(executed.rows(kernel, report)))))
    yield from _predicted(kernel, report)
    yield stalled_at(kernel.metrics, stalls(report) if report is not None else [])


def stalled_at(metrics: Mapping[str, Metric], lines: Sequence[Stall]) -> Section:
    """Why a kernel's waves stall, a bar for each reason, and the lines that cost most.

    Args:
        metrics: of the kernel: a thread trace tells what kind of instruction its waves stall at.
        lines: whose samples tell for what they were not issued.
    """
    cycles = {
        name: metric.value
        for cls, name in STALL_CLASSES.items()
        if (metric := metrics.get(f"measured.stalls.{cls}")) is not None
        and isinstance(metric.value, int | float)
    }
    samples = Counter[str]()
    for line in lines:
        samples.update({name.replace("_", " "): count for name, count in line.reasons.items()})
    costs = Counter(cycles) if cycles else samples
    rows = tuple(
        Figure(name, words(f"{100 * cost / costs.total():.0f} %"), cost / costs.total())
        for name, cost in costs.most_common()
        if cost > 0
    )
    reasons = (Figures(rows),) if rows else ()
    places = (stall_table(lines, MOST_STALLS),) if lines else ()
    return Section((*reasons, *places), words("why it stalls", "strong") if rows else ())


def _predicted(kernel: KernelProfile, report: KernelReport | None) -> Iterator[Section]:
    """The timing model's figures beside the measured ones, and where the two part."""
    if report is not None and report.no_time:
        yield Section(paragraphs((f"no predicted time: {report.no_time}",), "warning"))
    beside = predicted(kernel, report)
    if beside is None or report is None or report.time is None:
        return
    blocks: list[Block] = [
        *_rows(((f"of {beside.gpu}", lambda row: row.name), *_BESIDE), beside.figures)
    ]
    if not beside.figures:
        blocks += paragraphs((f"predicted: {time_view.estimate(report.time)} on {beside.gpu}",))
    yield Section((*blocks, *paragraphs(beside.notes, "warning")))
    if beside.parting is not None:
        yield _parting(beside.parting)


def _parting(parting: Parting) -> Section:
    """How predicted and measured costs of instructions compare, and where they part most."""
    pearson = f", Pearson {parting.pearson:.2f}" if parting.pearson is not None else ""
    text = (
        f"predicted beside measured {parting.measure}: {parting.same_percent:.0f} % at the same"
        f" instruction of {parting.instructions:,}{pearson}"
    )
    return Section((*paragraphs((text,)), *_rows(_PARTING, parting.lines)))


_MEASURED: Columns = (
    ("measured", lambda row: row.name),
    (Column("", right=True), lambda row: row.value),
    ("", lambda row: row.unit),
    (Column("", shrinks=True), lambda row: row.static),
    (Column("", shrinks=True), lambda row: profile_view.short_note(row.note)),
)
_COUNTERS: Columns = (
    ("counter, per dispatch", lambda counter: counter[0]),
    (Column("mean", right=True), lambda counter: counter[1]),
    ("least … most", lambda counter: counter[2]),
)
_EMULATED: Columns = (
    ("counter, per dispatch", lambda row: row[0]),
    (Column("recorded", right=True), lambda row: row[1]),
    (Column("emulated", right=True), lambda row: row[2]),
    (Column("ratio", right=True), lambda row: row[3]),
    (Column("", shrinks=True), lambda row: row[4]),
)
_BESIDE: Columns = (
    (Column("predicted", right=True), lambda row: time_view.figure(row.predicted, row.unit)),
    (Column("measured", right=True), lambda row: time_view.figure(row.measured, row.unit)),
    (Column("", right=True), lambda row: time_view.ratio(row.ratio)),
    (Column("", shrinks=True), lambda row: row.about),
)
_PARTING: Columns = (
    ("where they part", lambda row: f"line {row.line}"),
    (Column("predicted %", right=True), lambda row: f"{row.predicted:.1f}"),
    (Column("measured %", right=True), lambda row: f"{row.measured:.1f}"),
    (Column("instruction", shrinks=True), lambda row: row.mnemonic),
    ("predicted for", lambda row: time_view.STALLS[row.reason] if row.reason else ""),
    (Column("measured for", shrinks=True), lambda row: time_view.top_reasons(row.reasons) or ""),
    (Column("source", shrinks=True), lambda row: view.place(row.source)),
)
_SAMPLES: Columns = (
    (Column("samples", right=True), lambda sample: f"{sample.count:,}"),
    (Column("%", right=True), lambda sample: f"{sample.share:.1f}"),
    (Column("instruction", shrinks=True), lambda sample: sample.instruction),
    (Column("kernel", shrinks=True), lambda sample: sample.kernel),
    (Column("source", shrinks=True), lambda sample: view.file_name(sample.comment)),
    (
        Column("not issued for", shrinks=True),
        lambda sample: ", ".join(f"{name} {count:,}" for name, count in sample.reasons),
    ),
)
_TOTALS: Columns = (
    (Column("total", right=True), lambda kernel: quantities.duration(kernel.total_ns)),
    (Column("calls", right=True), lambda kernel: f"{kernel.calls:,}"),
    (Column("mean", right=True), lambda kernel: quantities.duration(kernel.mean_ns)),
    (Column("kernel", shrinks=True), lambda kernel: kernel.name),
)


def unplaced_table(stalls: Sequence[UnplacedStall]) -> Table:
    """The traced instructions that stalled most, of kernels whose code is not known."""
    return table(
        (
            (Column("% of stalls", right=True), lambda stall: f"{stall.share:.1f}"),
            (Column("cycles", right=True), lambda stall: scaled(stall.cycles)),
            (Column("hits", right=True, rank=1), lambda stall: scaled(stall.hits)),
            (Column("at", rank=1), lambda stall: stall.address),
            (Column("instruction", shrinks=True), lambda stall: stall.instruction),
            (Column("source", shrinks=True), lambda stall: view.file_name(stall.comment)),
            (Column("kernel", rank=2, shrinks=True), lambda stall: stall.kernel),
        ),
        stalls,
    )
