"""The lines about a whole recording: header, parts, errors and notes; and how to record one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....inspector.explain import profile_view, quantities, recording_view, view
from ....inspector.model import ErrorRecord
from ....inspector.model.recording import NO_CODE, Part, Profile
from ...widgets.bars import Piece
from .styled_lines import BLANK, StyledLine, gridded, wrapped

_MAX_SAMPLES = 40
_INTRODUCTION = (
    "Every figure on the other pages is read off the compiler's output or computed from it. This "
    "page sets beside them what a device says: durations and counters of each kernel, on which "
    "lines it stalls, and where it stands under the roofline."
)
_COMMANDS = (
    (
        "kinspect profile -- python script.py",
        "runs a program under rocprofv3; --counters and --att say what to measure",
    ),
    (
        "kinspect profile import PATH",
        "reads what was recorded elsewhere: rocprofv3 CSV, JSON and databases, thread traces, "
        "PC samples, rocprof-compute, the PyTorch profiler",
    ),
    ("kinspect tui RUN", "opens a recording on this page, with the kernels it kept"),
    (
        "kinspect tui RUN TARGET",
        "joins it to the kernels of a script, a folder or a file: measured beside static",
    ),
    ("kinspect tui REPORT.json", "shows a saved report with measured figures"),
    (
        "kinspect bench NAME",
        "times a bundled kernel on the GPU that torch sees; results are on the page History (7)",
    ),
)


def how_to_record(width: int) -> Iterator[StyledLine]:
    """The page without measurements: what it would show, and commands that record something."""
    yield (("Nothing was measured of what is open.", "name"),)
    yield BLANK
    yield from wrapped(_INTRODUCTION, width)
    yield BLANK
    yield (("How to get a recording", "name"),)
    yield BLANK
    rows = [((command, "info"), (purpose, "")) for command, purpose in _COMMANDS]
    yield from gridded(("", ""), rows, width)


def errors_of(profile: Profile) -> Sequence[ErrorRecord]:
    """Errors of reading the recording and of analysing its kernels."""
    return (*profile.recording.errors, *profile.errors)


def notes_of(profile: Profile) -> Sequence[str]:
    """Notes of reading the recording and of analysing it, each once."""
    return tuple(dict.fromkeys((*profile.recording.notes, *profile.notes)))


def is_incomplete(part: Part) -> bool:
    """Whether a pass was not recorded completely."""
    return part.status not in ("complete", "imported")


def header(profile: Profile) -> tuple[StyledLine, StyledLine]:
    """Two lines: profiler, devices, command, path; then failed parts, errors, notes, others."""
    run = profile.recording
    recording_line: list[Piece] = [
        (f" {recording_view.profiler_text(profile) or 'a recording'}", "name")
    ]
    recording_line += [(f"  {device}", "") for device in recording_view.gpu_texts(profile)]
    if run.command:
        recording_line.append((f"  $ {' '.join(run.command)}", "dim"))
    recording_line.append((f"  {run.path}", "dim"))
    state_line: list[Piece] = [(" ", "")]
    incomplete = [part for part in run.parts if is_incomplete(part)]
    complete = [part for part in run.parts if not is_incomplete(part)]
    state_line += [(f"{recording_view.part_text(part)}  ", "warning") for part in incomplete]
    errors, notes = errors_of(profile), notes_of(profile)
    if errors:
        state_line.append((f"{view.plural(len(errors), 'error')}  ", "error"))
    if NO_CODE in notes:
        state_line.append((f"{NO_CODE}  ", "warning"))
    if notes:
        state_line.append((f"{view.plural(len(notes), 'note')}  ", "dim"))
    state_line += [(f"{recording_view.part_text(part)}  ", "dim") for part in complete]
    state_line += [(f"{recording_view.trace_text(trace)}  ", "dim") for trace in run.traces]
    return recording_line, state_line


def all_lines(profile: Profile, width: int) -> Iterator[StyledLine]:
    """All lines about a recording that belong to no single kernel."""
    run = profile.recording
    yield ((recording_view.profiler_text(profile) or "Recording", "title"),)
    yield from wrapped(run.path, width, "", "  ", "    ")
    for device in recording_view.gpu_texts(profile):
        yield from wrapped(device, width, "", "  ", "    ")
    if run.command:
        yield from wrapped(f"$ {' '.join(run.command)}", width, "dim", "  ", "    ")
    for part in run.parts:
        style = "warning" if is_incomplete(part) else "dim"
        yield from wrapped(recording_view.part_text(part), width, style, "  ", "    ")
    for trace in run.traces:
        yield from wrapped(recording_view.trace_text(trace), width, "dim", "  ", "    ")
    autotuned = profile_view.autotune_text(profile)
    if autotuned:
        yield from wrapped(autotuned, width, "dim", "  ", "    ")
    if errors_of(profile):
        yield BLANK
        yield (("Errors", "title"),)
    for error in errors_of(profile):
        where = f"{error.file}: " if error.file is not None else ""
        yield from wrapped(f"{where}{error.message}", width, "error", "  ", "    ")
        if error.hint:
            yield from wrapped(error.hint, width, "dim", "    ", "    ")
    if notes_of(profile):
        yield BLANK
        yield (("Notes", "title"),)
    for note in notes_of(profile):
        yield from wrapped(note, width, "", "  ", "    ")
    yield from _samples(profile, width)
    yield from _summary(profile, width)


def _samples(profile: Profile, width: int) -> Iterator[StyledLine]:
    """A table of samples in kernels that were not analysed, as the profiler describes them."""
    samples = recording_view.unplaced_samples(profile, _MAX_SAMPLES)
    if not samples:
        return
    rows = [
        (
            (f"{sample.count:,}", "name"),
            (f"{sample.share:.1f} %", ""),
            (sample.instruction, ""),
            (sample.kernel[:40], "dim"),
            (view.file_name(sample.comment), "dim"),
            (", ".join(f"{name} {n:,}" for name, n in sample.reasons), "dim"),
        )
        for sample in samples
    ]
    yield BLANK
    yield (("Samples on lines of no analysed kernel", "title"),)
    heads = ("samples", "", "instruction", "kernel", "source", "not issued for")
    yield from gridded(heads, rows, width, right=(0, 1))


def _summary(profile: Profile, width: int) -> Iterator[StyledLine]:
    """A table of the profiler's own totals, for recordings without dispatches."""
    totals = profile.recording.summary
    if not totals or profile.kernels:
        return
    rows = [
        (
            (quantities.duration(total.total_ns), "name"),
            (f"{total.calls:,}", ""),
            (quantities.duration(total.mean_ns), ""),
            (total.name, ""),
        )
        for total in sorted(totals, key=lambda total: -total.total_ns)
    ]
    yield BLANK
    yield (("The profiler's own summary: it kept no dispatches", "title"),)
    yield from gridded(("total", "calls", "mean", "kernel"), rows, width, right=(0, 1, 2))
