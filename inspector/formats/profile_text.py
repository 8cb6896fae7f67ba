"""Writes a profile for a terminal: a table of kernels, then those that take most time in full."""

from __future__ import annotations

from typing import TextIO

from ..explain import profile_view, quantities, recording_view, stall_view, time_view, view
from ..explain.table import Column, rows_of
from ..model import KernelReport
from ..model.recording import KernelProfile, Profile
from ..present.kernel import stall_table
from ..present.paper import Line, Paper, paper_for, print_table, print_wrapped
from ..present.recorded import unplaced_table
from ..present.text import print_block
from ..profile.figures import counter_comparison
from ..profile.placing.stalls import stalls
from ..profile.predicted import Parting, predicted

DETAILS_UP_TO = 3
"""How many kernels are shown in full without --details."""
MOST_ROWS = 40
"""How many kernels the table has without --details."""
MOST_STALLS = 12
"""How many lines the table of stalls has."""
MOST_COUNTERS = 24
"""How many counters of a kernel are shown without --details: some profilers read hundreds."""
_NARROWEST = 20
"""Fewest characters of a kernel's name, however narrow the terminal is."""
_NARROW = 100
"""In a terminal of fewer columns, the table leaves out figures that each kernel's details have."""


def write(
    profile: Profile, stream: TextIO, *, details: bool = False, color: bool | None = None
) -> None:
    """Prints the profile. `details` shows every kernel in full, autotuned ones included."""
    paper = paper_for(stream, color)
    _header(paper, profile)
    listed = list(profile.kernels) if details else profile_view.main_kernels(profile)
    if listed:
        paper.print(Line())
        _table(paper, profile, listed if details else listed[:MOST_ROWS])
    if len(listed) > MOST_ROWS and not details:
        left = view.plural(len(listed) - MOST_ROWS, "more kernel")
        paper.print(Line(f"  {left}: --details lists all, --top N names how many", "dim"))
    autotuned = profile_view.autotune_text(profile)
    if autotuned and not details:
        paper.print(Line(f"  {autotuned}: --details lists them", "dim"))
    for kernel in listed if details else listed[:DETAILS_UP_TO]:
        paper.print(Line())
        _kernel(paper, kernel, profile, details)
    _samples(paper, profile)
    if stalled := recording_view.unplaced_stalls(profile, MOST_STALLS):
        paper.print(Line())
        print_block(unplaced_table(stalled), paper)
    _summary(paper, profile)
    notes = (*profile.recording.notes, *profile.notes)
    if notes:
        paper.print(Line())
    for note in notes:
        print_wrapped(paper, Line(f"note: {note}", "dim"), "  ")


def _header(paper: Paper, profile: Profile) -> None:
    """Prints the run: its path, profiler, devices, command, passes and traces."""
    line = Line(profile.recording.path, "bold")
    tool = recording_view.profiler_text(profile)
    line.append(f"   {tool}" if tool else "")
    paper.print(line)
    for device in recording_view.gpu_texts(profile):
        paper.print(Line(f"  {device}"))
    if profile.recording.command:
        paper.print(Line(f"  $ {' '.join(profile.recording.command)}", "dim"))
    for part in profile.recording.parts:
        style = "dim" if part.status in ("complete", "imported") else "yellow"
        paper.print(Line(f"  {recording_view.part_text(part)}", style))
    for trace in profile.recording.traces:
        paper.print(Line(f"  {recording_view.trace_text(trace)}"))


def _table(paper: Paper, profile: Profile, kernels: list[KernelProfile]) -> None:
    """Prints a line per kernel; names are shortened to the width that other columns leave."""

    def percent(kernel: KernelProfile) -> str:
        share = profile_view.share_of_time(kernel)
        return f"{share:.1f}" if share is not None else quantities.UNKNOWN

    columns = [
        Column("% time", percent, right=True),
        Column("total", lambda row: quantities.duration(row.total_ns), right=True),
        Column("dispatches", lambda row: f"{profile_view.launch_count(row):,}", right=True),
        Column(
            "median",
            lambda row: quantities.duration(profile_view.statistic(row, "median")),
            right=True,
        ),
        # Only a profiler's own summary has a mean and no median.
        Column("mean", lambda row: "" if row.duration else _mean(row), right=True),
        Column("least … most", lambda row: "" if narrow else profile_view.time_range(row.duration)),
        Column("kernel", lambda row: quantities.shortened(row.name, name_width)),
        Column("device", lambda row: devices.get(row.shape.agent or "", "")),
        Column("", lambda row: "tried" if row.role == "autotune" else ""),
        Column("VGPR", lambda row: view.show(row.shape.vgpr), right=True),
        Column("LDS", lambda row: view.kib(row.shape.lds_bytes), right=True),
        Column("analysed", lambda row: row.match.verdict if profile.reports else ""),
    ]
    narrow, devices = paper.width < _NARROW, recording_view.device_names(profile)
    # Names get the width that other columns leave, which is measured with names of one character.
    name_width: int | None = 1
    fixed_width = max(map(len, rows_of(columns, kernels))) - len("kernel")
    name_width = max(_NARROWEST, paper.width - fixed_width) if paper.shortens else None
    print_table(paper, rows_of(columns, kernels), margin="")


def _short(paper: Paper, name: str, width: int) -> str:
    """A name shortened to fit a terminal; complete in files and pipes, where programs read it."""
    return quantities.shortened(name, width if paper.shortens else None)


def _mean(kernel: KernelProfile) -> str:
    mean = profile_view.statistic(kernel, "mean")
    return quantities.duration(mean) if mean is not None else ""


def _kernel(paper: Paper, kernel: KernelProfile, profile: Profile, details: bool) -> None:
    """Prints a kernel: launch, metrics, counters, emulated counters, stalls and notes."""
    line = Line(f"── {_short(paper, kernel.name, paper.width - 3)}", "bold")
    if kernel.role == "autotune":
        line.append("  tried by an autotuner", "yellow")
    paper.print(line)
    print_wrapped(paper, Line(f"  {profile_view.launch_text(kernel)}", "dim"), "    ")
    print_wrapped(paper, Line(f"  {profile_view.dispatch_text(kernel)}", "dim"), "    ")
    matched = profile_view.match_text(kernel, profile)
    if matched:
        print_wrapped(paper, Line(f"  analysed kernel: {matched}"), "    ")
    report = profile_view.report_of(kernel, profile)
    _metrics(paper, kernel, report)
    _counters(paper, kernel, None if details else MOST_COUNTERS)
    _emulated(paper, kernel, report)
    _predicted(paper, kernel, report)
    if report is not None and (measured := stalls(report)):
        paper.print(Line())
        print_block(stall_table(measured, MOST_STALLS), paper)
    for note in kernel.notes:
        print_wrapped(paper, Line(f"  note: {note}", "dim"), "    ")


def _metrics(paper: Paper, kernel: KernelProfile, report: KernelReport | None) -> None:
    """Prints the measured metrics, each with the static one that it compares with."""
    rows = list(
        profile_view.measured_rows(kernel.metrics, report.metrics if report is not None else None)
    )
    if not rows:
        return
    paper.print(Line())
    columns = [
        Column("measured", lambda row: row.name),
        Column("", lambda row: row.value, right=True),
        Column("", lambda row: row.unit),
        Column("", lambda row: row.static),
        Column("", lambda row: profile_view.short_note(row.note)),
    ]
    print_table(paper, rows_of(columns, rows), indent=" " * 6)


def _counters(paper: Paper, kernel: KernelProfile, limit: int | None) -> None:
    """Prints the counters, at most `limit`, and how many are left out."""
    counters = list(profile_view.counter_rows(kernel))
    if not counters:
        return
    paper.print(Line())
    columns = [
        Column("counter, per dispatch", lambda counter: counter[0]),
        Column("mean", lambda counter: counter[1], right=True),
        Column("least … most", lambda counter: counter[2]),
    ]
    print_table(paper, rows_of(columns, counters[:limit]))
    if limit is not None and len(counters) > limit:
        hidden = view.plural(len(counters) - limit, "more counter")
        paper.print(Line(f"  {hidden}: --details lists all", "dim"))


def _emulated(paper: Paper, kernel: KernelProfile, report: KernelReport | None) -> None:
    """Prints recorded counters beside those of the emulator."""
    rows = list(counter_comparison.rows(kernel, report))
    if not rows:
        return
    paper.print(Line())
    columns = [
        Column("counter, per dispatch", lambda row: row[0]),
        Column("recorded", lambda row: row[1], right=True),
        Column("emulated", lambda row: row[2], right=True),
        Column("ratio", lambda row: row[3], right=True),
        Column("", lambda row: row[4]),
    ]
    print_table(paper, rows_of(columns, rows), indent=" " * 6)


def _predicted(paper: Paper, kernel: KernelProfile, report: KernelReport | None) -> None:
    """Prints the timing model's figures beside the measured ones, and where the two part."""
    found = predicted(kernel, report)
    if report is not None and report.no_time:
        print_wrapped(paper, Line(f"  no predicted time: {report.no_time}", "yellow"), "    ")
    if found is None or report is None or report.time is None:
        return
    paper.print(Line())
    columns = [
        Column(f"of {found.gpu}", lambda row: row.name),
        Column("predicted", lambda row: time_view.figure(row.predicted, row.unit), right=True),
        Column("measured", lambda row: time_view.figure(row.measured, row.unit), right=True),
        Column("", lambda row: time_view.ratio(row.ratio), right=True),
        Column("", lambda row: row.about),
    ]
    if found.figures:
        print_table(paper, rows_of(columns, found.figures), indent=" " * 6)
    else:
        paper.print(Line(f"  predicted: {time_view.estimate(report.time)} on {found.gpu}"))
    for note in found.notes:
        print_wrapped(paper, Line(f"  {note}", "yellow"), "    ")
    if found.parting is not None:
        _parting(paper, found.parting)


def _parting(paper: Paper, parting: Parting) -> None:
    """Prints how predicted and measured costs of instructions compare, and where they part most."""
    pearson = f", Pearson {parting.pearson:.2f}" if parting.pearson is not None else ""
    text = (
        f"  predicted beside measured {parting.measure}: {parting.same_percent:.0f} % at the same"
        f" instruction of {parting.instructions:,}{pearson}"
    )
    paper.print(Line())
    print_wrapped(paper, Line(text), "    ")
    columns = [
        Column("where they part", lambda row: f"line {row.line}"),
        Column("predicted %", lambda row: f"{row.predicted:.1f}", right=True),
        Column("measured %", lambda row: f"{row.measured:.1f}", right=True),
        Column("instruction", lambda row: row.mnemonic),
        Column("predicted for", lambda row: time_view.STALLS[row.reason] if row.reason else ""),
        Column("measured for", lambda row: stall_view.top_reasons(row.reasons) or ""),
        Column("source", lambda row: view.place(row.source)),
    ]
    print_table(paper, rows_of(columns, parting.lines), indent=" " * 6)


def _samples(paper: Paper, profile: Profile) -> None:
    """Prints the samples of kernels that were not analysed, with the profiler's own texts."""
    samples = recording_view.unplaced_samples(profile, MOST_STALLS)
    if not samples:
        return
    paper.print(Line())
    columns = [
        Column("samples", lambda sample: f"{sample.count:,}", right=True),
        Column("%", lambda sample: f"{sample.share:.1f}", right=True),
        Column("instruction", lambda sample: sample.instruction),
        Column("kernel", lambda sample: _short(paper, sample.kernel, 40)),
        Column("source", lambda sample: view.file_name(sample.comment)),
        Column(
            "not issued for",
            lambda sample: ", ".join(f"{name} {count:,}" for name, count in sample.reasons),
        ),
    ]
    print_table(paper, rows_of(columns, samples), indent=" " * 6)


def _summary(paper: Paper, profile: Profile) -> None:
    """Prints a profiler's own totals, if it recorded no dispatches."""
    top = profile.recording.summary
    if not top or profile.kernels:
        return
    paper.print(Line())
    columns = [
        Column("total", lambda kernel: quantities.duration(kernel.total_ns), right=True),
        Column("calls", lambda kernel: f"{kernel.calls:,}", right=True),
        Column("mean", lambda kernel: quantities.duration(kernel.mean_ns), right=True),
        Column("kernel", lambda kernel: _short(paper, kernel.name, 60)),
    ]
    ranked = sorted(top, key=lambda kernel: -kernel.total_ns)
    print_table(paper, rows_of(columns, ranked), margin="")
