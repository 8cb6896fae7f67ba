"""Compiles a trace's specialisations for AMD targets, from the source of their kernels.

No module that the trace names is imported, unless the user trusts it: see `rebuilding.py`.

The front end runs again, since TTIR differs by target. A recording from another vendor's machine is
translated: options that AMD's backend lacks are dropped, and `tt.pointer_range`, which only AMD's
backend sets, is derived from the recorded sizes of storages.

Reads a trace for its replay; the host's `capture/trace.py` checks it more strictly.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..front_end_errors import front_end_error
from ..frontend import definition, lower, plain
from ..kernel_patterns import KernelFilter, choosing
from ..lowering import target
from ..parsed.guard import check_type
from ..parsed.library import RefusedError, message_of
from ..records import Emit, error, note
from ..system_calls import deny_effects
from ..world import machine as worlds
from ..world.device import StandInDevice
from .importing import ImportedKernels, MissingKernelError, extend_path
from .rebuilding import RebuiltKernels
from .values import Resolve, UnknownValueError, decode

HIP = "hip"
TARGET_OPTIONS = frozenset({"arch", "backend_name", "extern_libs", "warp_size"})
"""Options whose values hold for the recording machine's target only."""
FILE_OPTIONS = frozenset({"extern_libs", "ir_override"})
"""Options that name files to link."""
RESOLVED_OPTIONS = ("num_warps", "num_stages")
"""Options taken as the recording backend resolved them, where the launch's own are not known."""
CHANGED = "{file} has changed since it was recorded: what was recorded is compiled"
POINTER_RANGE = "S"
"""AMD's letter for a pointer into a storage of less than 2 GiB (`HIPBackend.parse_attr`)."""


def capture(request: dict[str, Any], emit: Emit) -> None:
    """Emits a variant for each recorded specialisation and target.

    `request`: `path` of the trace, `archs`, `devices`, `folder` (scratch), `home`, `patterns`,
    `trust` (whether the modules that the trace names may be imported), and `finished` (keys that
    earlier children began).
    `emit`: takes `{"begin": key, ...}` before each specialisation, then its `{"variant": ...}` or
    `{"error": ...}`; last, `{"launches": ...}` for each target.
    """
    path = os.path.abspath(request["path"])
    archs: list[str] = request["archs"]
    trace = read(path)
    if trace is None:
        hint = "record it again, or read it with the kinspect that wrote it"
        emit(error("capture", f"{path}: not a trace of version {READABLE[-1]}", hint))
        return
    if not trace.is_complete:
        emit(note(f"{path}: the trace does not come to its end: what stands before is replayed"))
    selected = _selected(trace, path, request, emit)
    if not selected:
        return
    device = (request.get("devices") or {}).get(archs[0]) or {"arch": archs[0]}
    world = worlds.install(StandInDevice.of(device), request["folder"])
    if request.get("is_foreign"):
        deny_effects(request["readable"])
    folders = [os.path.dirname(path), request.get("home") or os.getcwd()]
    kernels = RebuiltKernels(trace.sources, trace.processes, folders)
    imported_kernels = None
    if request.get("trust"):
        extend_path(trace.processes)
        imported_kernels = ImportedKernels(world.running, folders, request["folder"])
        imported_kernels.install(world.driver)
    finished = frozenset(request.get("finished") or ())
    for arch in archs:
        world.driver.target = target(arch)
        replay = Replay(
            arch, kernels, imported_kernels=imported_kernels, emit=emit, finished=finished
        )
        replay.run(selected)
    for text in dict.fromkeys(world.notes):
        emit(note(text))


def _selected(
    trace: TraceRecords, path: str, request: Mapping[str, Any], emit: Emit
) -> list[dict[str, Any]]:
    """The specialisations of a trace that the patterns select; an error if there are none."""
    patterns = request.get("patterns") or ()
    kernel_filter = KernelFilter(patterns)
    selected = [
        spec
        for spec in trace.specializations
        if kernel_filter.selects(kernel_name(spec), spec["kernel"]["qualname"])
    ]
    if not selected:
        names = sorted({kernel_name(spec) for spec in trace.specializations})
        hint = f"its kernels are {', '.join(names) or 'none'}"
        if names:
            hint += f": {choosing(path, request.get('home'), patterns, names)}"
        emit(error("capture", f"{path}: no kernel of this trace was asked for", hint))
    return selected


class Replay:
    """Compiles the specialisations of a trace to TTIR for one target.

    `imported_kernels`: imports them, where the user trusts the trace; else None.
    """

    def __init__(
        self,
        arch: str,
        kernels: RebuiltKernels,
        *,
        imported_kernels: ImportedKernels | None,
        emit: Emit,
        finished: frozenset[str],
    ) -> None:
        self._arch = arch
        self._kernels = kernels
        self._imported_kernels = imported_kernels
        self._emit = emit
        self._finished = finished
        compiler = importlib.import_module("triton.compiler.compiler")
        self._ast_source = compiler.ASTSource
        self._backend = compiler.make_backend(target(arch))
        self._option_names = frozenset(vars(self._backend.parse_options({})))
        self._buffer_ops = bool(importlib.import_module("triton.knobs").amd.use_buffer_ops)
        self._refused: set[str] = set()
        self._specializations: list[dict[str, Any]] = []

    def run(self, specializations: list[dict[str, Any]]) -> None:
        """Emits the variants and errors of all the specialisations, then their launches."""
        self._specializations = specializations
        launches: dict[str, dict[str, Any]] = {}
        emitted = set(self._finished)
        for spec in specializations:
            try:
                self._specialization(spec, emitted, launches)
            except Exception as failure:  # a damaged specialisation: the others may be intact
                name, reason = kernel_name(spec), f"{type(failure).__name__}: {failure}"
                text = f"{name}: damaged in the trace: {reason}"
                self._refuse(error("capture", text, "record it again", name))
        self._emit({"launches": launches, "arch": self._arch})

    def _specialization(
        self, spec: dict[str, Any], emitted: set[str], launches: dict[str, dict[str, Any]]
    ) -> None:
        options, notes = self._options(spec)
        sets = list(self._attributes(spec))
        if len(sets) > 1:
            notes.append("some of its launches had storages of 2 GiB or more, some had not")
        for attrs in sets:
            key = self._key(spec, attrs, options)
            if spec["launches"] is not None and len(sets) == 1:
                add_launches(launches.setdefault(key, {"count": 0, "grids": []}), spec)
            if key not in emitted:
                emitted.add(key)
                self._emit_variant(key, spec, attrs=attrs, options=options, notes=notes)

    def _emit_variant(
        self,
        key: str,
        spec: dict[str, Any],
        *,
        attrs: Mapping[Any, Any],
        options: Mapping[str, Any],
        notes: list[str],
    ) -> None:
        """Emits a variant, or the error that prevents it; see `_key` for the arguments."""
        name, recorded = kernel_name(spec), spec["kernel"]
        if recorded["gluon"]:
            hint = "Gluon kernels state the layouts of one target: analyze them on that machine"
            self._refuse(error("capture", f"{name}: a Gluon kernel cannot be replayed", hint, name))
            return
        refusal: RefusedError | MissingKernelError | UnknownValueError | None = None
        makers = (
            [self._rebuilt] if self._imported_kernels is None else [self._rebuilt, self._imported]
        )
        for make in makers:
            functions: list[Any] = []
            try:
                kernel, resolve, more_notes = make(recorded)
                functions.append(kernel)
                source = self._source(kernel, spec, attrs, resolve)
                self._emit({"begin": key, "kernel": name, "arch": self._arch})
                decoded = {name: decode(value, resolve) for name, value in options.items()}
                variant = lower(source, self._arch, decoded)
                variant.update(self._recorded_facts(kernel, spec, resolve))
            except (RefusedError, MissingKernelError) as failure:
                refusal = failure
            except UnknownValueError as failure:
                refusal = failure
                break
            except Exception as failure:
                self._emit(self._front_end_error(failure, spec, functions))
                return
            else:
                self._emit({"variant": {**variant, "key": key, "notes": [*notes, *more_notes]}})
                return
        if refusal is not None:
            self._refuse(_replay_error(name, recorded, refusal))

    def _rebuilt(self, recorded: Mapping[str, Any]) -> tuple[Any, Resolve, list[str]]:
        """The kernel from the trace, what finds recorded objects, and remarks."""
        kernels = self._kernels.of(recorded)
        changed_files = self._kernels.changed_files(recorded)
        notes = [CHANGED.format(file=file) for file in changed_files]
        return kernels[0], self._kernels.resolver(kernels), notes

    def _imported(self, recorded: Mapping[str, Any]) -> tuple[Any, Resolve, list[str]]:
        """The same of the kernel as its module defines it, after an import of that."""
        assert self._imported_kernels is not None
        self._imported_kernels.load(
            s["kernel"] for s in self._specializations if s["kernel"]["file"] == recorded["file"]
        )
        return self._imported_kernels.find(recorded), self._imported_kernels.object, []

    def _front_end_error(
        self, failure: Exception, spec: Mapping[str, Any], functions: Iterable[Any]
    ) -> dict[str, Any]:
        recorded = spec["kernel"]
        return front_end_error(
            failure,
            kernel_name(spec),
            None,
            arch=self._arch,
            functions=functions,
            fallback=f"{recorded['file']}:{recorded['line']}",
        )

    def _recorded_facts(
        self, kernel: Any, spec: Mapping[str, Any], resolve: Resolve
    ) -> dict[str, Any]:
        """The fields of a variant that the trace states."""
        recorded, tuning = spec["kernel"], spec["tuning"]
        file, line = definition(kernel)
        return {
            "kernel": kernel_name(spec),
            "qualname": recorded["qualname"],
            "case": None,
            "file": recorded["file"] if recorded.get("text") else file,
            "line": line,
            "grid": max((grid for grid, _ in spec["grids"]), key=math.prod, default=None),
            "call_site": spec["call_site"],
            "tuning": self._plain(tuning["config"], resolve) if tuning else None,
        }

    def _source(
        self, kernel: Any, spec: Mapping[str, Any], attrs: Mapping[Any, Any], resolve: Resolve
    ) -> Any:
        """The front end's input.

        Types are checked first, since Triton evaluates parts of them.
        """
        signature = {n: decode(k, resolve) for n, k in spec["signature"].items()}
        for kind in signature.values():
            check_type(kind)
        constants = {tuple(p): decode(v, resolve) for p, v in spec["constexprs"]}
        return self._ast_source(kernel, signature, constants, dict(attrs))

    def _refuse(self, record: dict[str, Any]) -> None:
        message = record["error"]["message"]
        if message not in self._refused:
            self._refused.add(message)
            self._emit(record)

    def _options(self, spec: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        notes = []
        stated = spec["asked"]
        if stated is None:
            stated = {n: v for n, v in spec["options"].items() if n in RESOLVED_OPTIONS}
            notes.append(
                "the options that the launch asked for are not known: num_warps and "
                "num_stages are those of the recording machine"
            )
        is_hip = spec["target"]["backend"] == HIP
        if (
            not is_hip
            and not spec["small"]
            and any("*" in str(k) for k in spec["signature"].values())
        ):
            notes.append("sizes of storages are not known: compiled without tt.pointer_range")
        options: dict[str, Any] = {}
        unsupported = []
        for name, value in stated.items():
            if name in self._option_names and (is_hip or name not in TARGET_OPTIONS):
                if name in FILE_OPTIONS and self._imported_kernels is None:
                    notes.append(f"{name} of the launch is not used: it names files to link")
                else:
                    options[name] = value
            elif value is not None:
                unsupported.append(name)
        if unsupported:
            notes.append(
                f"options that AMD's backend does not have: {', '.join(sorted(unsupported))}"
            )
        if spec["at_least"] and spec["launches"]:
            notes.append(
                "a recorded process was killed: up to an eighth of its launches is missing"
            )
        return options, notes

    def _attributes(
        self, spec: Mapping[str, Any]
    ) -> Iterator[dict[tuple[int, ...], list[list[Any]]]]:
        """The attributes of arguments, once for each recorded set of small storages."""
        recorded = {tuple(path): [list(pair) for pair in pairs] for path, pairs in spec["attrs"]}
        if spec["target"]["backend"] == HIP or not self._buffer_ops:
            yield recorded
            return
        small_range = self._backend.parse_attr(POINTER_RANGE)
        for small in spec["small"] or [[]]:
            attrs = {path: list(pairs) for path, pairs in recorded.items()}
            for path in small:
                attrs.setdefault(tuple(path), []).extend(small_range)
            yield attrs

    def _plain(self, config: Mapping[str, Any], resolve: Resolve) -> dict[str, Any]:
        texts = {}
        for name, value in config.items():
            try:
                texts[name] = plain(decode(value, resolve))
            except (UnknownValueError, MissingKernelError, RefusedError) as failure:
                texts[name] = str(failure)
        return texts

    def _key(
        self, spec: Mapping[str, Any], attrs: Mapping[Any, Any], options: Mapping[str, Any]
    ) -> str:
        """Names a variant, by a hash over everything that its compile depends on.

        Specialisations that differ only in another vendor's options share a key.
        """
        parts = [
            spec["kernel"]["qualname"],
            spec["kernel"]["sha256"],
            spec["kernel"].get("source"),
            spec["signature"],
            spec["constexprs"],
            sorted((list(path), pairs) for path, pairs in attrs.items()),
            sorted((name, repr(value)) for name, value in options.items()),
            self._arch,
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _replay_error(
    name: str,
    recorded: Mapping[str, Any],
    failure: RefusedError | MissingKernelError | UnknownValueError,
) -> dict[str, Any]:
    if isinstance(failure, MissingKernelError):
        return error("capture", failure.message, failure.hint, name)
    if isinstance(failure, UnknownValueError):
        hint = "kinspect cannot write such a value to a trace: analyze the script itself"
        message = f"{name}: a constexpr of it was not recorded: {failure}"
        return error("capture", message, hint, name)
    message = f"{recorded['file']}:{recorded['line']}: {message_of(failure, name)}"
    hint = (
        f"if you trust the trace, --trust-trace imports {recorded['module']} "
        f"({recorded['file']}) and runs what it says"
    )
    if failure.missing:
        hint = "install it there, or name an interpreter that has it with --python"
    return error("capture", message, hint, name)


READABLE = (1, 2)
"""Versions of traces that can be read."""
NO_COUNTS: Mapping[str, Any] = {
    "compiled": False,
    "launches": None,
    "tuning_launches": 0,
    "at_least": False,
    "grids": [],
    "other_grids": 0,
    "small": [],
}
"""Fields about launches of a specialisation whose launches nobody counted."""


@dataclass
class TraceRecords:
    """The records of a trace.

    `sources`: id -> functions (`kernel_source.py`).
    `is_complete`: whether the file has its last line.
    """

    processes: list[dict[str, Any]] = field(default_factory=list)
    sources: dict[str, Any] = field(default_factory=dict)
    specializations: list[dict[str, Any]] = field(default_factory=list)
    is_complete: bool = False


def read(path: str) -> TraceRecords | None:
    """The trace in a file, up to a damaged line; None if its version is unknown."""
    trace = TraceRecords()
    with open(path, encoding="utf-8") as stream:
        for number, line in enumerate(stream):
            try:
                record = json.loads(line)
            except ValueError:  # the last line was cut off
                return trace
            if number == 0:
                if record.get("trace", {}).get("schema_version") not in READABLE:
                    return None
            elif "process" in record:
                trace.processes.append(record["process"])
            elif "source" in record:
                trace.sources[record["source"]["id"]] = record["source"]["functions"]
            elif "specialization" in record:
                trace.specializations.append({**NO_COUNTS, **record["specialization"]})
            elif "end" in record:
                trace.is_complete = True
                return trace
    return trace


def add_launches(facts: dict[str, Any], spec: Mapping[str, Any]) -> None:
    """Adds a specialisation's launches to the `count` and `grids` of its key."""
    counts = {tuple(grid): launches for grid, launches in facts["grids"]}
    for grid, launches in spec["grids"]:
        counts[tuple(grid)] = counts.get(tuple(grid), 0) + launches
    facts["count"] += spec["launches"]
    facts["grids"] = [[list(grid), launches] for grid, launches in counts.items()]


def kernel_name(spec: Mapping[str, Any]) -> str:
    """The name of a specialisation's kernel, without its module and classes."""
    return str(spec["kernel"]["qualname"]).rpartition(".")[2]
