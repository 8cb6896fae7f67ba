"""`kinspect-run.json` says what was run, from the start and after every pass; the recording of a
run is read by it.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from ...base import limits, named_files
from ...base.documents import json_value
from ...base.errors import KinspectError
from ...base.writing import replacing
from ...model import ErrorRecord
from ...model.recording import MANIFEST, Part, Recording
from .. import reading
from ..builder import RecordingBuilder
from .commands import PASSES

NAME = MANIFEST
VERSION = 1
_DAMAGED = "import the folder below it: kinspect profile import RUN/passes"
_MOST_BYTES = 64 << 20
_STATUSES = ("waiting", "running", "complete", "failed", "killed", "timeout", "skipped")


class PassRecord(Struct, frozen=True):
    """One pass. `status` is "running" in a run that was itself killed."""

    name: str
    folder: str  # in the run's folder
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    counters: tuple[str, ...] = ()
    status: str = "waiting"
    exit_code: int | None = None
    seconds: float | None = None
    files: tuple[str, ...] = ()  # in the run's folder
    missing: tuple[str, ...] = ()  # counters that were asked for and did not come
    errors: tuple[tuple[str, str], ...] = ()  # message and hint
    notes: tuple[str, ...] = ()


class Manifest(Struct, frozen=True):
    """A run. Times are ISO 8601 with the offset of the machine."""

    command: tuple[str, ...]
    cwd: str
    kinspect: str
    tool: str
    tool_version: str | None
    tool_path: str
    arch: str | None
    started: str
    passes: tuple[PassRecord, ...]
    ended: str | None = None
    exit_code: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    version: int = VERSION

    def with_pass(self, record: PassRecord) -> Manifest:
        """Returns the manifest with a pass's record replaced by a newer one of its name."""
        return replace(
            self, passes=tuple(record if p.name == record.name else p for p in self.passes)
        )


def write(manifest: Manifest, run: Path) -> None:
    """Writes the manifest to a run's folder, completely or not at all."""
    text = json.dumps(to_builtins(manifest), indent=1, ensure_ascii=False) + "\n"
    with replacing(run / NAME) as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))


def read(run: Path) -> Manifest:
    """Reads the manifest of a run's folder.

    Raises:
        KinspectError: there is none, or it is damaged.
    """
    path = run / NAME
    try:
        text = named_files.file_bytes(path, _MOST_BYTES).decode("utf-8", "surrogateescape")
        with limits.reading(str(path), len(text)):
            raw = json_value(text, f"{path}: damaged", _DAMAGED)
        manifest = msgspec.convert(raw, Manifest)
        for item in manifest.passes:
            if item.status not in _STATUSES:
                raise ValueError(f"status {item.status!r}")
        return manifest
    except OSError as error:
        reason = error.strerror or str(error)
        raise KinspectError(
            f"{path}: {reason}", "name the folder of a `kinspect profile` run"
        ) from None
    except (ValueError, msgspec.ValidationError) as error:
        raise KinspectError(
            f"{path}: damaged ({type(error).__name__}: {error})", _DAMAGED
        ) from None


def now() -> str:
    """Returns the current time, as manifests have it."""
    return datetime.now().astimezone().isoformat(timespec="seconds")


def new_folder(out: Path | None, command: Sequence[str], base: Path | None = None) -> Path:
    """Makes the folder of a run: `out`, or `kinspect-runs/<date-time>-<program>`.

    Raises:
        KinspectError: it is there already with something in it, or cannot be made.
    """
    if out is not None:
        try:
            out.mkdir(parents=True, exist_ok=True)
            if any(out.iterdir()):
                raise KinspectError(
                    f"{out}: is not empty", "runs are never overwritten; give another --out"
                )
        except OSError as error:
            raise _unmade(out, error) from None
        return out
    parent = (base or Path.cwd()) / "kinspect-runs"
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    stem = f"{stamp}-{_program(command)}"
    for number in range(1, 1000):
        folder = parent / (stem if number == 1 else f"{stem}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue  # another run began in the same second
        except OSError as error:
            raise _unmade(folder, error) from None
        return folder
    raise KinspectError(f"{parent}: too many runs of one second", "give --out")


def _unmade(folder: Path, error: OSError) -> KinspectError:
    reason = error.strerror or str(error)
    return KinspectError(f"{folder}: cannot be made ({reason})", "give another folder by --out")


def _program(command: Sequence[str]) -> str:
    """Returns a word for the program: the script's name, not its interpreter's."""
    words = [word for word in command if not word.startswith("-")]
    scripts = [word for word in words if word.endswith((".py", ".sh"))]
    word = Path(scripts[0] if scripts else command[0]).stem
    return re.sub(r"[^\w.-]+", "_", word)[:40] or "program"


def run_recording(run: Path) -> Recording:
    """Reads a run's passes; the parts are in the order of the passes, with names and statuses.

    Raises:
        KinspectError: the manifest is missing or damaged.
    """
    record = read(run)
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
