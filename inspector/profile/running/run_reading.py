"""Reads the recording of a run: its passes as the manifest names them, with their errors."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from ...base.errors import KinspectError
from ...model import ErrorRecord
from ...model.recording import Part, Recording
from .. import reading
from ..builder import RecordingBuilder
from . import manifest
from .commands import PASSES
from .manifest import Manifest, PassRecord


def run_recording(run: Path) -> Recording:
    """Reads a run's passes; the parts are in the order of the passes, with names and statuses.

    Raises:
        KinspectError: the manifest is missing or damaged.
    """
    record = manifest.read(run)
    folder = run / PASSES
    try:
        if folder.is_symlink():
            raise KinspectError(f"{folder}: a link out of this run", "name where it leads")
        recording = reading.read(folder)
    except KinspectError as error:
        # Nothing was recorded: the errors of the passes say why, if they have any.
        empty = RecordingBuilder(folder)
        if not any(item.errors for item in record.passes):
            empty.fail(folder, error.message, error.hint)
        recording = empty.finish()
    recording = _in_order(recording, record, run)
    version = {"version": record.tool_version} if record.tool_version else {}
    notes = [f"{item.name}: {note}" for item in record.passes for note in item.notes]
    if record.ended is None:
        notes.append("the run was ended before its end: what had been written is shown")
    return replace(
        recording,
        path=str(run),
        tool={**recording.tool, "name": record.tool, **version},
        command=record.command,
        notes=(*recording.notes, *notes),
        errors=(*_errors_of_passes(record, run), *recording.errors),
    )


def _errors_of_passes(record: Manifest, run: Path) -> Iterator[ErrorRecord]:
    for item in record.passes:
        for message, hint in item.errors:
            yield ErrorRecord(
                file=str(run / item.folder),
                kernel=None,
                stage="profile",
                message=f"{item.name}: {message}",
                hint=hint,
            )


def _in_order(recording: Recording, record: Manifest, run: Path) -> Recording:
    """Names and sorts the parts by their passes; a pass that wrote nothing has an empty part."""
    by_pass: dict[str, list[int]] = {item.name: [] for item in record.passes}
    unowned: list[int] = []
    for number, part in enumerate(recording.parts):
        owner = _owner(part, record, run)
        (by_pass[owner] if owner is not None else unowned).append(number)
    order: list[int] = []
    parts: list[Part] = []
    for item in record.passes:
        numbers = by_pass[item.name]
        for number in numbers:
            old = recording.parts[number]
            name = item.name if len(numbers) == 1 else f"{item.name}/{old.name.split('/')[-1]}"
            order.append(number)
            parts.append(_with_status(replace(old, name=name), item))
        if not numbers and item.status not in ("waiting", "skipped"):
            order.append(-1)
            parts.append(_with_status(Part(item.name, str(run / item.folder), "none"), item))
    order += unowned
    parts += [recording.parts[number] for number in unowned]
    new_index = {old: new for new, old in enumerate(order) if old >= 0}
    table = replace(
        recording.dispatches,
        part=array("h", (new_index.get(n, n) for n in recording.dispatches.part)),
    )
    return replace(recording, parts=tuple(parts), dispatches=table)


def _owner(part: Part, record: Manifest, run: Path) -> str | None:
    """Returns the name of the pass whose folder a part is in."""
    path = Path(part.path).absolute()
    for item in record.passes:
        folder = (run / item.folder).absolute()
        if path == folder or folder in path.parents:
            return item.name
    return None


def _with_status(part: Part, item: PassRecord) -> Part:
    """Gives a part the counters, exit code and status of its pass."""
    statuses = {"complete": "complete", "failed": "failed", "timeout": "timeout"}
    # A pass that is still running by its manifest was killed together with kinspect.
    status = statuses.get(item.status, "killed")
    return replace(part, counters=item.counters, exit_code=item.exit_code, status=status)
