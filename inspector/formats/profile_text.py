"""A profile for people at a terminal: a table of kernels, then the ones that take the time."""

from __future__ import annotations

from typing import TextIO

from ..explain import profile_view as words
from ..explain import view
from ..explain.table import Column, rows_of
from ..model import KernelReport
from ..profile.figures import executed
from ..profile.placing.stalls import Stall, stalls
from ..recording import KernelProfile, Profile
from .paper import Line, Paper, paper_for, wrapped

DETAILS_UP_TO = 3
"""So many kernels are shown in full unless all are asked for."""
MOST_ROWS = 40
MOST_STALLS = 12
MOST_COUNTERS = 24
"""So many counters of a kernel are shown unless all are asked for: some profilers read hundreds."""
_NARROWEST = 20
"""Of a kernel's name, however narrow the terminal is."""
_NARROW = 100
"""Below that width a table leaves out what stands under it for each kernel."""


def write(
    profile: Profile, stream: TextIO, *, details: bool = False, color: bool | None = None
) -> None:
    """Prints the profile. `details` shows every kernel in full, autotuned ones included."""
    paper = paper_for(stream, color)
    _header(paper, profile)
    listed = list(profile.kernels) if details else words.main_kernels(profile)
    if listed:
        paper.print(Line())
        _table(paper, profile, listed if details else listed[:MOST_ROWS])
    if len(listed) > MOST_ROWS and not details:
        left = view.plural(len(listed) - MOST_ROWS, "more kernel")
        paper.print(Line(f"  {left}: --details lists all, --top N names how many", "dim"))
    autotuned = words.autotuned(profile)
    if autotuned and not details:
        paper.print(Line(f"  {autotuned}: --details lists them", "dim"))
    for kernel in listed if details else listed[:DETAILS_UP_TO]:
        paper.print(Line())
        _kernel(paper, kernel, profile, details)
    _samples(paper, profile)
    _summary(paper, profile)
    notes = (*profile.recording.notes, *profile.notes)
    if notes:
        paper.print(Line())
    for note in notes:
        _wrapped(paper, Line(f"note: {note}", "dim"), "  ")


def _header(paper: Paper, profile: Profile) -> None:
    line = Line(profile.recording.path, "bold")
    tool = words.tool(profile)
    line.append(f"   {tool}" if tool else "")
    paper.print(line)
    for device in words.agents(profile):
        paper.print(Line(f"  {device}"))
    if profile.recording.command:
        paper.print(Line(f"  $ {' '.join(profile.recording.command)}", "dim"))
    for part in profile.recording.parts:
        style = "dim" if part.status in ("complete", "imported") else "yellow"
        paper.print(Line(f"  {words.part(part)}", style))
    for trace in profile.recording.traces:
        paper.print(Line(f"  {words.trace(trace)}"))


def _table(paper: Paper, profile: Profile, kernels: list[KernelProfile]) -> None:
    def percent(kernel: KernelProfile) -> str:
        share = words.share(kernel, profile)
        return f"{share:.1f}" if share is not None else words.UNKNOWN

    columns = [
        Column("% time", percent, right=True),
        Column("total", lambda k: words.duration(words.total(k)), right=True),
        Column("dispatches", lambda k: f"{words.launches(k):,}", right=True),
        Column("median", lambda k: words.duration(words.timed(k, "median")), right=True),
        # Only a profiler's own summary has a mean and no median.
        Column("mean", lambda k: "" if k.duration else _mean(k), right=True),
        Column("least … most", lambda k: "" if narrow else words.spread(k.duration)),
        Column("kernel", lambda k: words.short_name(k.name, most)),
        Column("device", lambda k: devices.get(k.shape.agent or "", "")),
        Column("", lambda k: "tried" if k.role == "autotune" else ""),
        Column("VGPR", lambda k: view.show(k.shape.vgpr), right=True),
        Column("LDS", lambda k: view.kib(k.shape.lds_bytes), right=True),
        Column("analysed", lambda k: k.match.verdict if profile.reports else ""),
    ]
    narrow, devices = paper.width < _NARROW, words.devices(profile)
    # As long as the other columns allow: measured with names of no length to speak of.
    most: int | None = 1
    fixed_width = max(map(len, rows_of(columns, kernels))) - len("kernel")
    most = max(_NARROWEST, paper.width - fixed_width) if paper.shortens else None
    for index, line in enumerate(rows_of(columns, kernels)):
        paper.print(Line(line, "bold" if index == 0 else ""))


def _short(paper: Paper, name: str, most: int) -> str:
    """A name cut to fit a terminal; whole in files and pipes, where programs look for it."""
    return words.short_name(name, most if paper.shortens else None)


def _mean(kernel: KernelProfile) -> str:
    mean = words.timed(kernel, "mean")
    return words.duration(mean) if mean is not None else ""


def _kernel(paper: Paper, kernel: KernelProfile, profile: Profile, details: bool) -> None:
    line = Line(f"── {_short(paper, kernel.name, paper.width - 3)}", "bold")
    if kernel.role == "autotune":
        line.append("  tried by an autotuner", "yellow")
    paper.print(line)
    _wrapped(paper, Line(f"  {words.launch(kernel)}", "dim"), "    ")
    _wrapped(paper, Line(f"  {words.dispatches(kernel)}", "dim"), "    ")
    matched = words.matched(kernel, profile)
    if matched:
        _wrapped(paper, Line(f"  analysed kernel: {matched}"), "    ")
    report = words.report_of(kernel, profile)
    metric_rows = list(words.rows(kernel.metrics, report.metrics if report is not None else None))
    if metric_rows:
        paper.print(Line())
        columns = [
            Column("measured", lambda r: r.name),
            Column("", lambda r: r.value, right=True),
            Column("", lambda r: r.unit),
            Column("", lambda r: r.static),
            Column("", lambda r: words.short(r.note)),
        ]
        for index, text in enumerate(rows_of(columns, metric_rows)):
            _wrapped(paper, Line(f"  {text}", "bold" if index == 0 else ""), " " * 6)
    counters = list(words.counters(kernel))
    left = 0 if details else max(0, len(counters) - MOST_COUNTERS)
    if left:
        del counters[MOST_COUNTERS:]
    if counters:
        paper.print(Line())
        columns = [
            Column("counter, per dispatch", lambda c: c[0]),
            Column("mean", lambda c: c[1], right=True),
            Column("least … most", lambda c: c[2]),
        ]
        for index, text in enumerate(rows_of(columns, counters)):
            paper.print(Line(f"  {text}", "bold" if index == 0 else ""))
    if left:
        hidden = view.plural(left, "more counter")
        paper.print(Line(f"  {hidden}: --details lists all", "dim"))
    _emulated(paper, kernel, report)
    if report is not None:
        stall_table(paper, stalls(report))
    for note in kernel.notes:
        _wrapped(paper, Line(f"  note: {note}", "dim"), "    ")


def _emulated(paper: Paper, kernel: KernelProfile, report: KernelReport | None) -> None:
    rows = list(executed.rows(kernel, report))
    if not rows:
        return
    paper.print(Line())
    columns = [
        Column("counter, per dispatch", lambda c: c[0]),
        Column("recorded", lambda c: c[1], right=True),
        Column("emulated", lambda c: c[2], right=True),
        Column("ratio", lambda c: c[3], right=True),
        Column("", lambda c: c[4]),
    ]
    for index, text in enumerate(rows_of(columns, rows)):
        _wrapped(paper, Line(f"  {text}", "bold" if index == 0 else ""), " " * 6)


def stall_table(paper: Paper, stall_lines: list[Stall], most: int = MOST_STALLS) -> None:
    """The lines that cost most, each with what static analysis says of it."""
    if not stall_lines:
        return
    paper.print(Line())
    columns = [
        Column("where it stalls", lambda s: f"line {s.line}"),
        Column("%", lambda s: f"{s.share:.1f}" if s.share is not None else "", right=True),
        Column(
            "cycles",
            lambda s: words.scaled(s.stall_cycles) if s.stall_cycles is not None else "",
            right=True,
        ),
        Column(
            "samples",
            lambda s: words.scaled(s.samples) if s.samples is not None else "",
            right=True,
        ),
        Column("instruction", lambda s: s.mnemonic),
        Column("loop", lambda s: s.loop or ""),
        Column("source", lambda s: view.place(s.source)),
        Column("beside it", lambda s: "; ".join(s.beside)),
    ]
    for index, text in enumerate(rows_of(columns, stall_lines[:most])):
        _wrapped(paper, Line(f"  {text}", "bold" if index == 0 else ""), " " * 6)


def _samples(paper: Paper, profile: Profile) -> None:
    """Samples of kernels that were not analysed: by the profiler's own words."""
    samples = words.sampled(profile, MOST_STALLS)
    if not samples:
        return
    paper.print(Line())
    columns = [
        Column("samples", lambda s: f"{s.count:,}", right=True),
        Column("%", lambda s: f"{s.share:.1f}", right=True),
        Column("instruction", lambda s: s.instruction),
        Column("kernel", lambda s: _short(paper, s.kernel, 40)),
        Column("source", lambda s: view.file_name(s.comment)),
        Column("not issued for", lambda s: ", ".join(f"{name} {n:,}" for name, n in s.reasons)),
    ]
    for index, text in enumerate(rows_of(columns, samples)):
        _wrapped(paper, Line(f"  {text}", "bold" if index == 0 else ""), " " * 6)


def _summary(paper: Paper, profile: Profile) -> None:
    """A profiler's own totals, where it kept no dispatches."""
    top = profile.recording.summary
    if not top or profile.kernels:
        return
    paper.print(Line())
    columns = [
        Column("total", lambda t: words.duration(t.total_ns), right=True),
        Column("calls", lambda t: f"{t.calls:,}", right=True),
        Column("mean", lambda t: words.duration(t.mean_ns), right=True),
        Column("kernel", lambda t: _short(paper, t.name, 60)),
    ]
    for index, line in enumerate(rows_of(columns, sorted(top, key=lambda t: -t.total_ns))):
        paper.print(Line(line, "bold" if index == 0 else ""))


def _wrapped(paper: Paper, line: Line, indent: str) -> None:
    for piece in wrapped(line, paper.width, indent):
        paper.print(piece)
