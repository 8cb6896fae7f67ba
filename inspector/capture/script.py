"""Captures the kernels of a .py file: what would be launched, and with what.

The user's code runs in the user's interpreter, in a forked child of a guest process: as a script in
a world that stands in for the GPU, or, where the file states its specialisations in
`KINSPECT_CASES`, only loaded. This module is the host's side of that: it asks, and turns the
answers into `Variant`s and `ErrorRecord`s while they come.
"""

from __future__ import annotations

import ast
import base64
import json
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from ..documents import python_tree
from ..errors import KinspectError
from ..model import (
    Assumption,
    EmulatedValue,
    ErrorRecord,
    Parameter,
    Passed,
    PassedMemory,
    SourceLoc,
    Variant,
)
from . import stated
from .axes import BACKEND_ONLY
from .labels import labelled
from .options import CaptureOptions, physical_memory
from .refusals import Refusal, lost_child, merge_cases, refusal_of

GRACE_SECONDS = 20.0
MOST_STARTS = 3
"""Times its limit that a script takes at most where modules are missing (`guest/capturing.py`)."""
GENERATED_SECONDS = 30.0
"""What a guest takes at most, beyond its time, for the code that torch.compile generated."""
CASES = "KINSPECT_CASES"
FINDINGS = "findings.jsonl"
"""File of a capture's folder that its job writes to (`guest/capturing.py`)."""
GENERATED = "generated"
MARKS = frozenset(("begin", "end", "retry", "generated", "asked"))
"""Records of that file which are for the guest's own server."""


class Guest(Protocol):
    """What is needed of a worker: `compile.worker.Worker` is one."""

    def stream(self, message: Mapping[str, Any], time_limit: float) -> Iterator[dict[str, Any]]:
        """Sends one request; yields the guest's replies until the one that ends it."""
        ...

    def close(self) -> None:
        """Ends the guest process; the next request starts another one."""
        ...


class Plan(Struct, frozen=True):
    """One file to capture, and for what.

    Args:
        path: the file.
        mode: `script`, `cases`, `inductor` or `trace`; see `mode_of`.
        archs: gfx names of the targets.
        devices: gfx name -> what a script may ask of the device it runs on.
        patterns: fnmatch patterns that the name or qualified name of a kernel must match, all of
            them. A file's own cases go by their name and by `kernel[case]` too.
        folder: scratch, on this machine; the caller removes it.
        options: what the user says about it.
        triton_version: noted in the variants.
        generated: where the code is kept that torch.compile generates in a script, at whose lines
            reports point; None for the scratch folder.
        emulator: command of the process that executes launches.
        not_emulated: gfx name -> why launches for it cannot be executed.
    """

    path: Path
    mode: str
    archs: tuple[str, ...]
    devices: Mapping[str, Mapping[str, Any]]
    folder: Path
    patterns: tuple[str, ...] = ()
    options: CaptureOptions = field(default_factory=CaptureOptions)
    triton_version: str | None = None
    generated: Path | None = None
    emulator: tuple[str, ...] = ()
    not_emulated: Mapping[str, str] = field(default_factory=dict)


class Found(Struct, frozen=True):
    """One specialisation, as soon as it is known. Its label and launches come with `Ended`."""

    variant: Variant


class Ended(Struct, frozen=True):
    """All there was: the variants in the order of their `Found`, and what else is to be said."""

    variants: tuple[Variant, ...]
    errors: tuple[ErrorRecord, ...]
    notes: tuple[str, ...]


def mode_of(path: Path, options: CaptureOptions) -> str:
    """How to capture a .py file: `cases` where it (or the user) states them, else `script`.

    Raises:
        KinspectError: it cannot be read.
    """
    if options.calls:
        return "script"
    if options.signature is not None or options.defines:
        return "cases"
    try:
        source = path.read_bytes()
    except OSError as error:
        raise KinspectError(f"{path} cannot be read: {error.strerror}", "check --help") from None
    return "cases" if CASES.encode() in source and _assigns(source, CASES) else "script"


def capture_file(worker: Guest, plan: Plan) -> Iterator[Found | Ended]:
    """The specialisations that a file would launch, or states, for each target.

    Args:
        worker: a guest process's channel.
        plan: what to capture.

    Yields:
        A `Found` for each as it comes, and one `Ended`.

    Raises:
        KinspectError: the file cannot be read, or the guest process cannot be started or died.
    """
    if not plan.path.is_file():
        raise KinspectError(f"{plan.path} is not a file", "name a .py file that defines kernels")
    if not plan.archs:
        raise KinspectError(
            f"no target to compile {plan.path} for", "name one with --arch, e.g. gfx942"
        )
    options = plan.options
    each = options.time_limit * (MOST_STARTS + options.explore) + GENERATED_SECONDS
    limit = (
        each * len(plan.archs) if plan.mode == "script" else options.time_limit
    ) + GRACE_SECONDS
    variants: list[Variant] = []
    keys: list[str | None] = []
    failures: dict[Refusal, list[str]] = {}
    notes: dict[str, None] = {}
    launches: dict[tuple[str, str], Mapping[str, Any]] = {}
    output = ""
    for message in _messages(worker, plan, limit):
        record = message.get("record")
        if record is None:
            output = message["output"]
            if message["heavy"]:  # it holds PyTorch: forks of it would be slow
                worker.close()
        elif "variant" in record:
            variant = _variant(record["variant"], plan)
            variants.append(variant)
            keys.append(record["variant"].get("key"))
            yield Found(variant)
        elif "note" in record:
            notes[record["note"]] = None
        elif "launches" in record:
            for key, facts in record["launches"].items():
                launches[record.get("arch") or "", key] = facts
        else:
            if "error" in record:
                failure, arch = refusal_of(record["error"]), record["error"]["arch"]
            else:
                failure = lost_child(plan.path, record, plan.mode, options.time_limit)
                arch = record.get("arch")
            failures.setdefault(failure, []).extend([arch] if arch is not None else [])
    counted = [
        _launched(variant, launches.get((variant.arch, key or "")))
        for variant, key in zip(variants, keys, strict=True)
    ]
    errors = [
        failure.as_record(plan.path, alike, output if failure.stage == "capture" else "")
        for failure, alike in merge_cases(failures).items()
    ]
    error, note = _on_assumptions(plan, counted)
    errors += [error] if error is not None else []
    notes.update({note: None} if note is not None else {})
    yield Ended(tuple(labelled(counted)), tuple(errors), tuple(notes))


def _messages(worker: Guest, plan: Plan, limit: float) -> Iterator[dict[str, Any]]:
    """What the guest says, and, where it is lost on the way, what its job had written by then.

    Raises:
        KinspectError: it is lost, and nothing had been captured.
    """
    passed: set[str] = set()
    captured = False
    try:
        for message in worker.stream(_request(plan), limit):
            record = message.get("record")
            if record is not None:
                passed.add(json.dumps(record, sort_keys=True))
                captured = captured or "variant" in record
            yield message
    except KinspectError as lost_guest:
        left = [r for r in _recorded(plan.folder) if json.dumps(r, sort_keys=True) not in passed]
        if not captured and not any("variant" in record for record in left):
            raise
        yield from ({"record": record} for record in left)
        yield {"record": {"error": _as_fields(lost_guest)}}


def _recorded(folder: Path) -> Iterator[dict[str, Any]]:
    """The records that the last job of a capture wrote down, its own marks left out."""
    try:
        lines = (folder / FINDINGS).read_bytes().splitlines(keepends=True)
    except OSError:
        return
    for line in lines:
        try:
            record = json.loads(line) if line.endswith(b"\n") else None
        except (ValueError, RecursionError):
            return
        if isinstance(record, dict) and not MARKS & set(record):
            yield record


def _as_fields(failure: KinspectError) -> dict[str, Any]:
    """An error as the guest would have written it."""
    unknown = dict.fromkeys(("kernel", "case", "place", "arch"))
    return {"stage": "capture", "message": failure.message, "hint": failure.hint, **unknown}


def capture_script(
    worker: Guest,
    path: Path,
    archs: Sequence[str],
    patterns: Sequence[str] = (),
    *,
    triton_version: str | None = None,
    options: CaptureOptions | None = None,
    time_limit: float | None = None,
) -> tuple[list[Variant], list[ErrorRecord]]:
    """All variants and errors of a .py file at once, with a scratch folder of its own.

    Args:
        worker: a guest process's channel.
        path: the .py file.
        archs: gfx names; scripts find a device of the arch's family.
        patterns: see `Plan`.
        triton_version: noted in the variants.
        options: what else there is to say.
        time_limit: seconds for each run, in place of that of `options`.

    Raises:
        KinspectError: see `capture_file`.
    """
    options = options or CaptureOptions()
    if time_limit is not None:
        options = replace(options, time_limit=time_limit)
    mode = mode_of(path, options) if path.is_file() else "script"
    with tempfile.TemporaryDirectory(prefix="kinspect-") as folder:
        plan = Plan(
            path,
            mode,
            tuple(archs),
            {arch: {"arch": arch} for arch in archs},
            Path(folder),
            tuple(patterns),
            options,
            triton_version,
        )
        for item in capture_file(worker, plan):
            if isinstance(item, Ended):
                return list(item.variants), list(item.errors)
    return [], []


def _names_one(patterns: Sequence[str]) -> bool:
    """Whether a specialisation is asked for by name: a sample might not hold it."""
    return any("[" in pattern for pattern in patterns)


def _request(plan: Plan) -> dict[str, Any]:
    options = plan.options
    memory = options.memory_limit if options.memory_limit is not None else physical_memory()
    request: dict[str, Any] = {
        "op": "capture",
        "mode": plan.mode,
        "path": str(plan.path.absolute()),
        "archs": list(plan.archs),
        "devices": {arch: dict(facts) for arch, facts in plan.devices.items()},
        "wanted": list(plan.patterns),
        "folder": str(plan.folder),
        "generated": str(plan.generated or plan.folder / GENERATED),
        "argv": list(options.argv),
        "calls": list(options.calls),
        "max_configs": None if _names_one(plan.patterns) else options.max_configs,
        "most_sets": options.most_sets,
        "all_configs": options.all_configs,
        "most_tuned": options.most_tuned,
        "backend_options": sorted(BACKEND_ONLY),
        "first": options.first,
        "explore": options.explore,
        "arguments": options.arguments,
        "cwd": str(options.cwd.absolute()) if options.cwd is not None else None,
        "time_limit": options.time_limit,
        "trust": options.trust_trace,
        "memory_limit": memory,
        "stubs": list(options.stubs),
        "axes": {name: list(values) for name, values in options.axes.items()},
        "emulators": {arch: _emulation(plan, arch) for arch in plan.archs},
    }
    if options.signature is not None or options.defines:
        request["stated"] = stated.read(options.signature, options.defines)
    return request


def _emulation(plan: Plan, arch: str) -> dict[str, Any]:
    """How values that kernels wrote are had; see `guest/launches/request.py`."""
    seconds = plan.options.emulate_budget
    detail = plan.not_emulated.get(arch, "" if plan.emulator else "there is no emulator")
    is_emulated = seconds > 0 and not detail
    return {
        "command": list(plan.emulator) if is_emulated else None,
        "reason": "off" if seconds <= 0 else "unavailable",
        "detail": detail,
        "seconds": seconds,
    }


def _variant(fields: Mapping[str, Any], plan: Plan) -> Variant:
    grid, site = fields.get("grid"), fields.get("call_site")
    return Variant(
        kernel=fields["kernel"],
        arch=fields["arch"],
        wave_size=fields["wave_size"],
        ttir=fields["ttir"],
        stage=fields.get("stage", "ttir"),
        options=fields["options"],
        signature=fields["signature"],
        constexprs=fields["constexprs"],
        attrs=fields["attrs"],
        source=SourceLoc(fields["file"], fields["line"]) if fields.get("file") else None,
        qualname=fields["qualname"],
        case=fields["case"],
        grid=tuple(grid) if grid is not None else None,
        call_site=SourceLoc(site["file"], site["line"]) if site else None,
        triton_version=plan.triton_version,
        tuning=fields.get("tuning"),
        launches=fields.get("launches"),
        notes=tuple(fields.get("notes") or ()),
        assumptions=tuple(map(_assumption, fields.get("assumptions") or ())),
        emulated=tuple(map(_emulated, fields.get("emulated") or ())),
        unspecialised=fields.get("unspecialised"),
        values=fields.get("values"),
        generator=fields.get("generator"),
        passed=_passed(fields.get("passed")),
    )


def _passed(fields: Mapping[str, Any] | None) -> Passed | None:
    if fields is None:
        return None
    return Passed(
        tuple(Parameter(kind, value) for kind, value in fields["parameters"]),
        tuple(
            PassedMemory(m["address"], m["size"], m["dtype"], _inflated(m["contents"], m["size"]))
            for m in fields["memories"]
        ),
    )


def _inflated(contents: str | None, size: int) -> bytes | None:
    """What a guest deflated, never more than it says."""
    if contents is None:
        return None
    raw = zlib.decompressobj().decompress(base64.b64decode(contents), size)
    return raw if len(raw) == size else None


def _assumption(fields: Mapping[str, Any]) -> Assumption:
    file, line = fields.get("file"), fields.get("line")
    source = SourceLoc(file, line) if file and line else None
    explored = bool(fields.get("explored"))
    what, assumed = str(fields["what"]), str(fields["assumed"])
    return Assumption(what, assumed, source, explored, fields.get("reason"))


def _emulated(fields: Mapping[str, Any]) -> EmulatedValue:
    source = SourceLoc(fields["file"], fields["line"])
    return EmulatedValue(str(fields["what"]), str(fields["value"]), source)


def _on_assumptions(
    plan: Plan, variants: Sequence[Variant]
) -> tuple[ErrorRecord | None, str | None]:
    """What is said of those that rest on assumptions: an error where none may, else a note."""
    resting = [variant for variant in variants if variant.assumptions]
    if not resting:
        return None, None
    first = resting[0].assumptions[0]
    at = f" ({Path(first.source.file).name}:{first.source.line})" if first.source else ""
    message = (
        f"{len(resting)} of {len(variants)} specialisations rest on what is not known without a"
        f" GPU, the first on {first.what}: taken for {first.assumed}{at}"
    )
    if not plan.options.strict:
        return None, f"{plan.path}: {message}"
    hint = "have the script not ask for it, or leave --strict out"
    return ErrorRecord(str(plan.path), None, "capture", message, hint), None


def _launched(variant: Variant, facts: Mapping[str, Any] | None) -> Variant:
    if facts is None:
        return variant
    notes = variant.notes
    if len(facts["grids"]) > 1:
        grids = ", ".join("x".join(map(str, grid)) for grid, _ in facts["grids"])
        notes = (*notes, f"launched with {len(facts['grids'])} grids: {grids}")
    return replace(variant, launches=facts["count"], notes=notes)


def _assigns(source: bytes, name: str) -> bool:
    """Whether a module assigns or imports the name at its top level."""
    try:
        body = python_tree(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # MemoryError: nested too deeply
        return False
    return any(name in _names(statement) for statement in body)


def _names(statement: ast.stmt) -> Iterator[str]:
    targets: Sequence[ast.expr] = ()
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        targets = [statement.target]
    elif isinstance(statement, ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in statement.names)
    for target in targets:
        if isinstance(target, ast.Name):
            yield target.id
