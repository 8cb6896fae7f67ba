"""Reads and writes traces, which `kinspect record` makes on a machine with a GPU.

A trace (`.kitrace`) is JSON lines, one object with one key per line:

    {"trace": {"schema_version": 2, "kinspect", "command", "cwd", "status"}}     the first line
    {"process": {"pid", "parent", "argv", "cwd", "executable", "python", "triton", "torch",
                 "device",        what Triton's driver reports of the device, or null
                 "sys_path", "complete"}}
    {"source": {"id", "functions"}}                see `guest/record/kernel_source.py`
    {"specialization": {
        "id",                     hash over all that follows up to `triton`
        "kernel": {"module", "qualname", "file", "line", "sha256", "gluon",
                   "source",      id of a source above; null: it could not be described
                   "text"},       version 1: the whole file where Inductor generated it, else null
        "signature": {name: type},
        "constexprs": [[path, value], ...],        path: [index] or [index, element, ...]
        "attrs": [[path, [[name, value], ...]], ...],
        "options": {...},         as the recording machine's backend resolved them
        "asked": {...} | null,    those that the launch stated; null: not known
        "target": {"backend", "arch", "warp_size"},
        "triton",
        "via": "launch" | "warmup" | "compile",    compile: by a caller of `triton.compile`
        "storages": [[path, bytes | null], ...] | null,        of the first launch's pointers
        "call_site": {"file", "line"} | null,      outside of Triton, torch and kinspect
        "tuning": {"config", "configs", "key"} | null,
        "compiled": bool,
        "launches": int | null,   null: not launched by Triton, so not counted
        "tuning_launches": int,   how many of them an autotuner made to time them
        "at_least": bool,         a process was killed: up to an eighth of its launches is missing
        "grids": [[[x, y, z], launches], ...], "other_grids": int,
        "small": [[path, ...], ...]}}              sets of pointers with storages < 2 GiB
    {"problem": {"pid", "doing", "message"}}       an error while recording
    {"end": {"specializations": int}}              the last line

`guest/record/values.py` has the form of values that JSON lacks. Version 1 had no sources: its
kernels are looked up in their files. `journals.py` makes a trace of the processes' journals.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..base.documents import json_value
from ..base.errors import KinspectError
from ..base.named_files import opened
from ..base.writing import replacing_text, unwritable

SCHEMA_VERSION = 2
READABLE = (1, 2)
SUFFIX = ".kitrace"

ArgumentPath = list[int | str]
_MOST_BYTES = 256 << 20
"""Of a trace: one of thousands of kernels has some megabytes."""


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the records: a mistyped, missing or unknown field is an error."""


class TraceHead(Strict, frozen=True):
    """The first line."""

    schema_version: int
    kinspect: str
    command: list[str]
    cwd: str
    status: int | None


class Process(Strict, frozen=True):
    """A process that asked for at least one specialisation."""

    schema_version: int
    pid: int
    parent: int
    argv: list[str]
    cwd: str
    executable: str
    python: str
    triton: str
    torch: str | None
    sys_path: list[str]
    device: dict[str, int | str] | None = None
    complete: bool = False


class TracedKernel(Strict, frozen=True):
    """A kernel's origin; `sha256` is over its source and that of the functions it calls."""

    module: str
    qualname: str
    file: str
    line: int
    sha256: str
    gluon: bool
    source: str | None = None
    text: str | None = None


class SourceFunction(Strict, frozen=True):
    """A function of a kernel's source; `names` and `defaults` hold values as data."""

    module: str
    qualname: str
    file: str
    line: int
    column: int
    text: str
    noinline: bool
    defaults: dict[str, dict[str, Any]]
    names: dict[str, dict[str, Any]]


class TracedSource(Strict, frozen=True):
    """A kernel's source (`guest/record/kernel_source.py`).

    `id` is a hash over `functions`, the first of which is the kernel.
    """

    id: str
    functions: list[SourceFunction]


class GpuTarget(Strict, frozen=True):
    """The target of the recording machine's compiler."""

    backend: str
    arch: str
    warp_size: int


class CallSite(Strict, frozen=True):
    """A line of the user's code that launched a kernel."""

    file: str
    line: int


class TracedTuning(Strict, frozen=True):
    """The autotuner's configuration that a specialisation belongs to."""

    config: dict[str, Any]
    configs: int
    key: list[str]


class TracedSpecialization(Strict, frozen=True):
    """One specialisation that a program asked for, with its launches in all processes."""

    id: str
    kernel: TracedKernel
    signature: dict[str, Any]
    constexprs: list[tuple[ArgumentPath, Any]]
    attrs: list[tuple[ArgumentPath, list[tuple[str, Any]]]]
    options: dict[str, Any]
    asked: dict[str, Any] | None
    target: GpuTarget
    triton: str
    via: str
    storages: list[tuple[ArgumentPath, int | None]] | None
    call_site: CallSite | None
    tuning: TracedTuning | None
    compiled: bool = False
    launches: int | None = None
    tuning_launches: int = 0
    at_least: bool = False
    grids: list[tuple[list[int], int]] = []
    other_grids: int = 0
    small: list[list[ArgumentPath]] = []


class Problem(Strict, frozen=True):
    """An error while recording in process `pid`; `doing` names the recorder's activity."""

    doing: str
    message: str
    pid: int | None = None


class LaunchTrace(Strict, frozen=True):
    """The contents of a trace; `notes` tells if parts are missing."""

    head: TraceHead
    processes: tuple[Process, ...]
    specializations: tuple[TracedSpecialization, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
    sources: tuple[TracedSource, ...] = ()

    @property
    def launches(self) -> int:
        """Number of counted launches, including those of autotuners."""
        return sum(s.launches or 0 for s in self.specializations)


S = TypeVar("S", bound=Strict)

_RECORDS: Mapping[str, type[Strict]] = {
    "process": Process,
    "source": TracedSource,
    "specialization": TracedSpecialization,
    "problem": Problem,
}
"""Key of a line between the first and the last -> its contents."""


def write_trace(trace: LaunchTrace, path: Path) -> None:
    """Writes a trace; the file appears only when it is complete.

    Raises:
        KinspectError: it cannot be written.
    """
    lines: list[dict[str, object]] = [{"trace": trace.head}]
    lines += [{"process": entry} for entry in trace.processes]
    sources = {entry.id: entry for entry in trace.sources}
    for entry in trace.specializations:
        source = sources.pop(entry.kernel.source or "", None)
        if source is not None:  # before its first use: a truncated trace has every source it needs
            lines.append({"source": source})
        lines.append({"specialization": entry})
    lines += [{"source": entry} for entry in sources.values()]
    lines += [{"problem": entry} for entry in trace.problems]
    lines += [{"end": {"specializations": len(trace.specializations)}}]
    # Not msgspec's encoder: constants may be integers of any size, paths may hold any bytes.
    texts = [json.dumps(msgspec.to_builtins(line), separators=(",", ":")) for line in lines]
    try:
        with replacing_text(path) as stream:
            stream.writelines(f"{text}\n" for text in texts)
    except OSError as error:
        raise unwritable(path, error, "name another file with -o") from None


def read_trace(path: Path) -> LaunchTrace:
    """Reads a trace.

    Returns:
        The trace. A truncated last line or a missing end becomes a note.

    Raises:
        KinspectError: it is not a trace, has another version, or is damaged before its last line.
    """
    try:
        records, truncated = numbered_records(path)
    except OSError as error:
        raise KinspectError(
            f"{path}: cannot be read ({error.strerror})", "check the path"
        ) from None
    head = _head(records, path)
    parts: dict[str, list[Any]] = {name: [] for name in _RECORDS}
    complete = False
    for line, record in records[1:]:
        (name, content), *extra = record.items()
        if name == "end" and not extra:
            complete = content == {"specializations": len(parts["specialization"])}
        elif name in _RECORDS and not extra:
            parts[name].append(converted(content, _RECORDS[name], path, line))
        else:
            raise damaged(path, line, f"unknown record {name!r}")
    notes = ["the last line was cut off"] if truncated else []
    if not complete and not truncated:
        notes.append("the trace does not come to its end: something is missing")
    return LaunchTrace(
        head=head,
        processes=tuple(parts["process"]),
        specializations=tuple(parts["specialization"]),
        problems=tuple(parts["problem"]),
        notes=tuple(f"{path}: {note}" for note in notes),
        sources=tuple(parts["source"]),
    )


def _head(records: Sequence[tuple[int, Mapping[str, Any]]], path: Path) -> TraceHead:
    header = records[0][1] if records else {}
    if "trace" not in header or not isinstance(header["trace"], dict):
        raise KinspectError(f"{path}: not a trace", "make one with `kinspect record -- COMMAND`")
    version = header["trace"].get("schema_version")
    if version not in READABLE:
        versions = " and ".join(map(str, READABLE))
        raise KinspectError(
            f"{path}: a trace of version {version!r}; this kinspect reads {versions}",
            "record it again, or read it with the kinspect that wrote it",
        )
    return converted(header["trace"], TraceHead, path, 1)


def numbered_records(path: Path) -> tuple[list[tuple[int, Mapping[str, Any]]], bool]:
    """The records with their line numbers, and whether a last line was cut off.

    Raises:
        KinspectError: another line is not a record.
        OSError: the file cannot be read.
    """
    numbered = list(_records(path))
    truncated = bool(numbered) and numbered[-1][1] is None
    if truncated:
        numbered.pop()
    records = []
    for line, record in numbered:
        if record is None:
            raise damaged(path, line, "not a JSON object")
        records.append((line, record))
    return records, truncated


def _records(path: Path) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
    """Line number and object of each line; None for a line that is not a JSON object."""
    with opened(path, _MOST_BYTES) as stream:
        for line, text in enumerate(stream, 1):
            try:
                record = json_value(text, str(path)) if text.endswith(b"\n") else None
            except KinspectError:
                record = None
            yield line, record if isinstance(record, dict) and record else None


def converted(content: Any, kind: type[S], path: Path, line: int) -> S:
    """The contents of a record as a value of `kind`.

    Raises:
        KinspectError: they have another form.
    """
    try:
        return msgspec.convert(content, kind)
    except (msgspec.ValidationError, UnicodeError) as error:  # a text with half a surrogate
        raise damaged(path, line, str(error)) from None


def damaged(path: Path, line: int, message: str) -> KinspectError:
    """The error of a damaged line."""
    return KinspectError(f"{path}:{line}: damaged trace: {message}", "record it again")
