"""Traces: what `kinspect record` wrote on a machine with a GPU.

A trace (`.kitrace`) is JSON lines, one object with one key per line:

    {"trace": {"schema_version": 2, "kinspect", "command", "cwd", "status"}}     the first line
    {"process": {"pid", "parent", "argv", "cwd", "executable", "python", "triton", "torch",
                 "device",        what Triton's driver reports of the device, or null
                 "sys_path", "complete"}}
    {"source": {"id", "functions"}}                see `guest/record/contents.py`
    {"specialization": {
        "id",                     hash over all that follows up to `triton`
        "kernel": {"module", "qualname", "file", "line", "sha256", "gluon",
                   "source",      id of a source above; null: it could not be described
                   "text"},       version 1: the whole file where Inductor generated it, else null
        "signature": {name: type},
        "constexprs": [[path, value], ...],        path: [index] or [index, element, ...]
        "attrs": [[path, [[name, value], ...]], ...],
        "options": {...},         as the recording machine's backend filled them in
        "asked": {...} | null,    those that the launch named; null: not known
        "target": {"backend", "arch", "warp_size"},
        "triton",
        "via": "launch" | "warmup" | "compile",    compile: by a caller of `triton.compile`
        "storages": [[path, bytes | null], ...] | null,        of the first launch's pointers
        "call_site": {"file", "line"} | null,      outside of Triton, torch and kinspect
        "tuning": {"config", "configs", "key"} | null,
        "compiled": bool,
        "launches": int | null,   null: others than Triton launch it
        "tuning_launches": int,   those of them that an autotuner made to time them
        "at_least": bool,         a process was killed: up to an eighth of its launches is missing
        "grids": [[[x, y, z], launches], ...], "other_grids": int,
        "small": [[path, ...], ...]}}              sets of pointers with storages < 2 GiB
    {"problem": {"pid", "doing", "message"}}       what could not be recorded
    {"end": {"specializations": int}}              the last line

Values that JSON has no form for are written as `guest/record/values.py` says. Version 1 had no
sources: its kernels are looked up in the files that they came from. Processes write
journals of their own (`guest/record/journal.py`); `merge` makes one trace of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..documents import json_value
from ..errors import KinspectError
from ..version import VERSION
from ..writing import replacing_text, unwritable

SCHEMA_VERSION = 2
READABLE = (1, 2)
SUFFIX = ".kitrace"

ArgumentPath = list[int | str]


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mistyped, missing or unknown field is an error."""


class Head(_Strict, frozen=True):
    """The first line."""

    schema_version: int
    kinspect: str
    command: list[str]
    cwd: str
    status: int | None


class Process(_Strict, frozen=True):
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


class Kernel(_Strict, frozen=True):
    """Where a kernel comes from; `sha256` is over its source and that of what it calls."""

    module: str
    qualname: str
    file: str
    line: int
    sha256: str
    gluon: bool
    source: str | None = None
    text: str | None = None


class SourceFunction(_Strict, frozen=True):
    """A function that a kernel is made of; `names` and `defaults` hold values as data."""

    module: str
    qualname: str
    file: str
    line: int
    column: int
    text: str
    noinline: bool
    defaults: dict[str, dict[str, Any]]
    names: dict[str, dict[str, Any]]


class Source(_Strict, frozen=True):
    """What a kernel is made of. `id` is a hash over `functions`, of which the kernel is the first.

    See `guest/record/contents.py`.
    """

    id: str
    functions: list[SourceFunction]


class GpuTarget(_Strict, frozen=True):
    """What the recording machine compiled for."""

    backend: str
    arch: str
    warp_size: int


class CallSite(_Strict, frozen=True):
    """A line of the user's that launched a kernel."""

    file: str
    line: int


class Tuning(_Strict, frozen=True):
    """The autotuner's configuration that a specialisation belongs to."""

    config: dict[str, Any]
    configs: int
    key: list[str]


class Specialization(_Strict, frozen=True):
    """One specialisation that was really asked for, with its launches in all processes."""

    id: str
    kernel: Kernel
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
    tuning: Tuning | None
    compiled: bool = False
    launches: int | None = None
    tuning_launches: int = 0
    at_least: bool = False
    grids: list[tuple[list[int], int]] = []
    other_grids: int = 0
    small: list[list[ArgumentPath]] = []


class Problem(_Strict, frozen=True):
    """Something that could not be recorded, in process `pid`."""

    doing: str
    message: str
    pid: int | None = None


class Trace(_Strict, frozen=True):
    """A whole trace. `notes` says what is missing from it."""

    head: Head
    processes: tuple[Process, ...]
    specializations: tuple[Specialization, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()

    @property
    def launches(self) -> int:
        """Launches that were counted, those of autotuners included."""
        return sum(s.launches or 0 for s in self.specializations)


class _Compiled(_Strict, frozen=True):
    """A journal's record that a specialisation was compiled."""

    id: str


class _Launches(_Strict, frozen=True):
    """A journal's running count of launches; a later one replaces those before it."""

    id: str
    count: int
    tuning: int
    grids: list[tuple[list[int], int]]
    other_grids: int
    small: list[list[ArgumentPath]]


S = TypeVar("S", bound=_Strict)


def merge(folder: Path, command: Sequence[str], status: int | None) -> Trace:
    """One trace of the journals that a command's processes left.

    Args:
        folder: where the journals lie.
        command: what ran.
        status: how it ended; None where that is not known.

    Returns:
        The trace; its notes name journals that were cut off.

    Raises:
        KinspectError: a journal is not one.
    """
    journals = [_Journal(path) for path in sorted(folder.glob("*.jsonl"))]
    notes = [f"the last line of process {j.pid} was cut off" for j in journals if j.torn]
    merged: dict[str, Specialization] = {}
    # A forked child may launch what its parent compiled, which only the parent's journal describes.
    described = {s.id: s for journal in journals for s in journal.described.values()}
    for journal in journals:
        for specialization in journal.counted(described):
            earlier = merged.get(specialization.id)
            merged[specialization.id] = (
                _added(earlier, specialization) if earlier is not None else specialization
            )
    head = Head(
        schema_version=SCHEMA_VERSION,
        kinspect=VERSION,
        command=list(command),
        cwd=str(Path.cwd()),
        status=status,
    )
    return Trace(
        head=head,
        processes=tuple(p for journal in journals for p in journal.processes),
        specializations=tuple(merged.values()),
        problems=tuple(p for journal in journals for p in journal.problems),
        notes=tuple(notes),
        sources=tuple({s.id: s for journal in journals for s in journal.sources}.values()),
    )


def write_trace(trace: Trace, path: Path) -> None:
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


def read_trace(path: Path) -> Trace:
    """Reads a trace.

    Returns:
        The trace. A truncated last line or a missing end becomes a note.

    Raises:
        KinspectError: not a trace, of another version, or damaged before its last line.
    """
    try:
        records, torn = _lines(path)
    except OSError as error:
        raise KinspectError(
            f"{path}: cannot be read ({error.strerror})", "check the path"
        ) from None
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
    parts: dict[str, list[Any]] = {"process": [], "source": [], "specialization": [], "problem": []}
    kinds: dict[str, type[_Strict]] = {
        "process": Process,
        "source": Source,
        "specialization": Specialization,
        "problem": Problem,
    }
    complete = False
    for line, record in records[1:]:
        (name, content), *extra = record.items()
        if name == "end" and not extra:
            complete = content == {"specializations": len(parts["specialization"])}
        elif name in kinds and not extra:
            parts[name].append(_convert(content, kinds[name], path, line))
        else:
            raise _damaged(path, line, f"unknown record {name!r}")
    notes = ["the last line was cut off"] if torn else []
    if not complete and not torn:
        notes.append("the trace does not come to its end: something is missing")
    return Trace(
        head=_convert(header["trace"], Head, path, 1),
        processes=tuple(parts["process"]),
        specializations=tuple(parts["specialization"]),
        problems=tuple(parts["problem"]),
        notes=tuple(f"{path}: {note}" for note in notes),
        sources=tuple(parts["source"]),
    )


class _Journal:
    """One process's journal, or what is left of it."""

    def __init__(self, path: Path) -> None:
        self.pid = path.stem.partition("-")[0]
        records, self.torn = _lines(path)
        self.processes: list[Process] = []
        self.problems: list[Problem] = []
        self.sources: list[Source] = []
        self.described: dict[str, Specialization] = {}
        self._counts: dict[str, _Launches] = {}
        self._compiled: set[str] = set()
        self._complete = False
        for line, record in records:
            self._take(record, path, line)
        # A process that only compiled (Inductor kills its workers) has no launches to lose.
        self._complete |= not self._counts and all(
            specialization.via == "compile" for specialization in self.described.values()
        )
        self.processes = [
            msgspec.structs.replace(p, complete=self._complete) for p in self.processes
        ]

    def counted(self, described: Mapping[str, Specialization]) -> Iterator[Specialization]:
        """The specialisations of this process with its launches.

        Args:
            described: those that any process's journal describes, by id.
        """
        for name in dict.fromkeys((*self.described, *self._counts)):
            specialization = described.get(name)
            if specialization is not None:
                compiled = name in self._compiled or name not in self.described
                yield _counted(specialization, self._counts.get(name), compiled, self._complete)

    def _take(self, record: Mapping[str, Any], path: Path, line: int) -> None:
        (name, content), *_ = record.items()
        if name == "process":
            self.processes.append(_convert(content, Process, path, line))
        elif name == "source":
            self.sources.append(_convert(content, Source, path, line))
        elif name == "specialization":
            specialization = _convert(content, Specialization, path, line)
            self.described[specialization.id] = specialization
        elif name == "compiled":
            self._compiled.add(_convert(content, _Compiled, path, line).id)
        elif name == "launches":
            count = _convert(content, _Launches, path, line)
            self._counts[count.id] = count
        elif name == "problem":
            pid = int(self.pid) if self.pid.isdecimal() else None
            self.problems.append(_convert({**content, "pid": pid}, Problem, path, line))
        elif name == "end":
            self._complete = True
        else:
            raise _damaged(path, line, f"unknown record {name!r}")


def _counted(
    specialization: Specialization, count: _Launches | None, compiled: bool, complete: bool
) -> Specialization:
    """A specialisation with its launches in one process."""
    if count is None:
        launches = None if specialization.via == "compile" else 0
        return msgspec.structs.replace(
            specialization, compiled=compiled, launches=launches, at_least=not complete
        )
    return msgspec.structs.replace(
        specialization,
        compiled=compiled,
        launches=count.count,
        tuning_launches=count.tuning,
        at_least=not complete,
        grids=count.grids,
        other_grids=count.other_grids,
        small=count.small,
    )


def _added(first: Specialization, second: Specialization) -> Specialization:
    """The launches of the same specialisation in two processes, together."""
    grids = {tuple(grid): launches for grid, launches in first.grids}
    for grid, count in second.grids:
        grids[tuple(grid)] = grids.get(tuple(grid), 0) + count
    launches = [s.launches for s in (first, second) if s.launches is not None]
    return msgspec.structs.replace(
        first,
        compiled=first.compiled or second.compiled,
        launches=sum(launches) if launches else None,
        tuning_launches=first.tuning_launches + second.tuning_launches,
        at_least=first.at_least or second.at_least,
        grids=[(list(grid), count) for grid, count in grids.items()],
        other_grids=first.other_grids + second.other_grids,
        small=first.small + [s for s in second.small if s not in first.small],
    )


def _lines(path: Path) -> tuple[list[tuple[int, Mapping[str, Any]]], bool]:
    """The records with their line numbers, and whether a last line was cut off.

    Raises:
        KinspectError: another line is not a record.
        OSError: the file cannot be read.
    """
    numbered = list(_read(path))
    torn = bool(numbered) and numbered[-1][1] is None
    if torn:
        numbered.pop()
    records = []
    for line, record in numbered:
        if record is None:
            raise _damaged(path, line, "not a JSON object")
        records.append((line, record))
    return records, torn


def _read(path: Path) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
    with path.open("rb") as stream:
        for line, text in enumerate(stream, 1):
            try:
                record = json_value(text, str(path)) if text.endswith(b"\n") else None
            except KinspectError:
                record = None
            yield line, record if isinstance(record, dict) and record else None


def _convert(content: Any, kind: type[S], path: Path, line: int) -> S:
    try:
        return msgspec.convert(content, kind)
    except (msgspec.ValidationError, UnicodeError) as error:  # a text with half a surrogate
        raise _damaged(path, line, str(error)) from None


def _damaged(path: Path, line: int, message: str) -> KinspectError:
    return KinspectError(f"{path}:{line}: damaged trace: {message}", "record it again")
