"""One measured kernel, or all of a recording, as a document: what reports print, and more of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ....inspector.explain import (
    loop_view,
    occupancy_view,
    profile_view,
    quantities,
    trials_view,
    view,
)
from ....inspector.model import ErrorRecord, KernelReport, Metric
from ....inspector.model.recording import NO_CODE, KernelProfile, Part, Profile
from ....inspector.present import profile as present
from ....inspector.present.document import (
    Column,
    Columns,
    Document,
    Figure,
    Figures,
    Section,
    Table,
    paragraphs,
    table,
    words,
)
from ....inspector.profile.placing.stalls import stalls
from ...widgets.bars import Piece
from ...widgets.document_text import DIM
from .measured_kernels import measured_metrics

UNJOINED = "nothing was analysed beside this recording: kinspect tui RUN TARGET names kernels"
_FIGURES: Columns = (
    ("measured", lambda figure: figure[0]),
    (Column("", right=True), lambda figure: quantities.scaled(figure[1].value)),
    ("", lambda figure: figure[1].unit),
    (Column("", shrinks=True), lambda figure: profile_view.short_note(figure[1].note)),
)
_COMMANDS = {
    "kinspect profile -- python script.py": (
        "runs a program under rocprofv3; --counters and --att say what to measure"
    ),
    "kinspect profile import PATH": (
        "reads what was recorded elsewhere: rocprofv3 CSV, JSON and databases, thread traces, "
        "PC samples, rocprof-compute, the PyTorch profiler"
    ),
    "kinspect tui RUN": "opens a recording on this page, with the kernels it kept",
    "kinspect tui RUN TARGET": (
        "joins it to the kernels of a script, a folder or a file: measured beside static"
    ),
    "kinspect tui REPORT.json": "shows a saved report with measured figures",
    "kinspect bench NAME": (
        "times a bundled kernel on the GPU that torch sees; results are on the page History (7)"
    ),
}
HOW_TO_RECORD: Document = (
    Section(
        paragraphs(
            (
                "Every figure on the other pages is read off the compiler's output or computed from"
                " it. This page sets beside them what a device says: durations and counters of each"
                " kernel, on which lines it stalls, and where it stands under the roofline.",
            )
        ),
        words("Nothing was measured of what is open."),
    ),
    Section(
        (Figures(tuple(Figure(name, words(purpose)) for name, purpose in _COMMANDS.items())),),
        words("How to get a recording"),
    ),
)


def of_kernel(
    kernel: KernelProfile, profile: Profile, report: KernelReport | None
) -> Iterator[Section]:
    """A kernel of a recording, and its analysis where the match is certain or likely."""
    head, *others, stalled = present.of_kernel(kernel, profile)
    yield head
    reasons = kernel.match.reasons if profile.reports else (UNJOINED,)
    yield Section(paragraphs((f"• {reason}" for reason in reasons), "weak"))
    yield stalled
    yield from others
    if report is not None:
        yield Section(paragraphs(_static(report)), words("Static analysis"))


def _static(report: KernelReport) -> Iterator[str]:
    """The main loop, the occupancy and the findings of the analysed kernel."""
    main = loop_view.main_loop(report)
    if main is not None:
        yield f"main loop {main.id}  {loop_view.loop_title(main)}"
        yield "  ".join(f"{row.label} {row.text}" for row in loop_view.scorecard(main.metrics))
        if share := main.metrics.get("measured.stall_share"):
            yield f"measured: {quantities.scaled(share.value)} {share.unit} of the kernel's stalls"
    yield from occupancy_view.occupancy_lines(report)
    yield trials_view.findings_summary(report)


def of_report(report: KernelReport) -> Iterator[Section]:
    """All that was measured of a saved report's kernel and its loops, beside static figures."""
    occupancy = paragraphs(occupancy_view.occupancy_lines(report), "weak")
    title = f"{report.name}  {report.arch or quantities.UNKNOWN}"
    yield Section((*_figures(report.metrics), *occupancy), words(title))
    yield present.stalled_at(report.metrics, stalls(report))
    for loop in report.loops:
        if figures := _figures(loop.metrics):
            card = loop_view.scorecard(loop.metrics)
            rows = (Figure(row.label, words(row.text)) for row in card)
            title = f"Loop {loop.id}   {loop_view.loop_title(loop)}"
            yield Section((*figures, Figures(tuple(rows))), words(title))


def _figures(metrics: Mapping[str, Metric]) -> tuple[Table, ...]:
    rows = measured_metrics(metrics).items()
    return (table(_FIGURES, rows),) if rows else ()


def _errors(profile: Profile) -> tuple[ErrorRecord, ...]:
    return (*profile.recording.errors, *profile.errors)


def of_recording(profile: Profile) -> Iterator[Section]:
    """What belongs to no single kernel."""
    yield present.head(profile)
    yield Section(paragraphs((profile_view.autotune_text(profile),), "weak"))
    for error in _errors(profile):
        where = f"{error.file}: " if error.file is not None else ""
        told = paragraphs((f"{where}{error.message}",), "error")
        yield Section((*told, *paragraphs((error.hint,), "weak")))
    yield from present.remainder(profile)


def header(profile: Profile) -> tuple[list[Piece], list[Piece]]:
    """Two lines: profiler, devices, command, path; then failed parts, errors, notes, others."""
    run = profile.recording
    recorded: list[Piece] = [
        (f" {profile_view.profiler_text(profile) or 'a recording'}", "bold"),
        *((f"  {device}", "") for device in profile_view.gpu_texts(profile)),
        (f"  $ {' '.join(run.command)}" if run.command else "", DIM),
        (f"  {run.path}", DIM),
    ]
    failed = [part for part in run.parts if _is_incomplete(part)]
    state: list[Piece] = [(" ", "")]
    state += [(f"{profile_view.part_text(part)}  ", "$warning") for part in failed]
    notes = dict.fromkeys((*run.notes, *profile.notes))
    if errors := _errors(profile):
        state.append((f"{view.plural(len(errors), 'error')}  ", "bold $error"))
    if NO_CODE in notes:
        state.append((f"{NO_CODE}  ", "$warning"))
    if notes:
        state.append((f"{view.plural(len(notes), 'note')}  ", DIM))
    complete = [profile_view.part_text(part) for part in run.parts if part not in failed]
    state += [(f"{text}  ", DIM) for text in (*complete, *map(profile_view.trace_text, run.traces))]
    return recorded, state


def _is_incomplete(part: Part) -> bool:
    return part.status not in ("complete", "imported")
