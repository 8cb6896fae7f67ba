"""Notes on the figures of a profile, and the reasons of an empty one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..base.errors import KinspectError
from ..explain.quantities import and_more, duration, shortened
from ..model import ErrorRecord
from ..model.recording import Recording
from ..profile.kernel_profiles import RecordedKernels
from ..profile.running import manifest

_MOST_NAMED = 8
"""How many kernels an error names where --kernel matches none; how many kinds of copies a note."""
_MOST_PARTS = 4
"""How many parts a note names."""
_MOST_NAME = 60
"""Characters of a kernel's name."""
_LIKELY_EMPTY = (
    "the program launched nothing on the GPU; its kernels ran in a process that was killed before "
    "it could write; the profiler was told of kernels that it has not; or it lacks the right to "
    "count"
)
"""The usual reasons for a recording without dispatches."""


def notes_on(recording: Recording, kernels: RecordedKernels) -> Iterator[str]:
    """Yields what limits the figures of a profile."""
    # Damaged files are reported as errors, and are reason enough.
    if _is_empty(recording, kernels) and recording.parts and not recording.errors:
        yield f"0 dispatches were recorded: {_LIKELY_EMPTY}"
    yield from _mixed_recordings(recording)
    if recording.transfers:
        transfers = [
            f"{transfer.name} {transfer.count:,}× {duration(transfer.total_ns)}"
            for transfer in recording.transfers
        ]
        yield f"copies and fills, in no kernel's time: {and_more(transfers, _MOST_NAMED, 'kinds')}"
    if kernels.left_out:
        noun = "kernel" if kernels.left_out == 1 else "kernels"
        yield f"{kernels.left_out} {noun} left out by --kernel or --top"


def no_dispatches(recording: Recording, kernels: RecordedKernels) -> tuple[ErrorRecord, ...]:
    """An error where all files are of kinds without dispatches: API calls, copies, agents."""
    if not _is_empty(recording, kernels) or recording.parts or recording.errors:
        return ()
    hint = "name the folder of the run, or its kernel trace or counter files"
    message = "no dispatches in it, and no samples: files of this kind hold none"
    return (
        ErrorRecord(file=recording.path, kernel=None, stage="read", message=message, hint=hint),
    )


def no_such_kernel(pattern: str, names: Sequence[str]) -> KinspectError:
    """Returns the error of a --kernel that matches none of the recorded names."""
    listed = and_more([shortened(name, _MOST_NAME) for name in names], _MOST_NAMED)
    return KinspectError(
        f"--kernel {pattern}: matches none of the recorded kernels", f"there is {listed}"
    )


def _is_empty(recording: Recording, kernels: RecordedKernels) -> bool:
    return not kernels.names and not recording.samples and not recording.traces


def _mixed_recordings(recording: Recording) -> Iterator[str]:
    """Yields a note where figures add up several recordings that are not one run of kinspect."""
    if (Path(recording.path) / manifest.NAME).is_file():
        return
    table = recording.dispatches
    used = set(table.part)
    profilers = {recording.parts[part].profiler for part in used}
    if len(profilers) > 1:
        yield (
            f"recordings of {len(profilers)} profilers lie here and are added up: import the "
            "folder of one run alone"
        )
        return
    timed = used
    if len(timed) > 1:
        timed = used - {table.part[row] for row in recording.values.dispatch}
    if len(timed) > 1:
        names = [recording.parts[part].name for part in sorted(timed)]
        yield (
            f"times of {len(names)} recordings are added up: {and_more(names, _MOST_PARTS)}; "
            "import one alone to tell"
        )
