"""Compiles variants: from the store if it can, else in a guest process.

`Compiler.compile` may be called from as many threads as one likes, so any
`concurrent.futures.Executor` can drive it: each call borrows a worker for itself. For executors
of other processes (`ProcessPoolExecutor`, dask), `compile_variant` is the picklable form.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ..base.limits import COMPILE_MEMORY
from ..base.named_files import own_cache
from ..base.status import doing
from ..model import Artifact, ErrorRecord, Variant
from .diagnostics import names_files, scan
from .environment import compile_relevant, guest_environment
from .failures import failure_record
from .store import Store, StoreEntry, artifact_key
from .toolchain import Toolchain, toolchain
from .worker import GRACE_SECONDS, Worker, WorkerLostError

INPUT = "kernel.{stage}"
METADATA = "metadata.json"
PASSES = "passes.mlir"
STDERR = "stderr.txt"
STDERR_TAIL = 4000
DAMAGED = "the stored compile had been changed since it was made, so it was compiled again"
"""The note of a result whose entry in the store was damaged."""
MOST_EARLY = 2
"""Workers that are started before it is known how much there is to compile: one that captures, one
that compiles what comes first. A run that the store answers needs none, whatever `--jobs` says."""


class CompileSettings(Struct, frozen=True):
    """The settings of compiles.

    Args:
        passes: also keep the IR before every MLIR pass (artifact `passes`).
        time_limit: seconds one compile may take.
        memory_limit: bytes of address space one compile may use; None for no limit. Threads and
            libraries count with what they map, so allow several GiB.
        cache_dir: root of the store; None for `KINSPECT_CACHE_DIR` or the user's cache folder.
        read_store: False compiles even what the store holds, and replaces it.
        environment: variables that the guest gets besides, such as those that make LLVM dump.
    """

    python: str = sys.executable
    passes: bool = False
    time_limit: float = 120.0
    memory_limit: int | None = None
    cache_dir: Path | None = None
    read_store: bool = True
    environment: tuple[tuple[str, str], ...] = ()


class StageRecord(Struct, frozen=True):
    """One stage of a compile.

    Args:
        stage: `ttgir`, `llir`, `amdgcn` or `hsaco`.
        seconds: wall time; None if this Triton offers no way to measure it.
        dump_bytes: length of the pass dump when the stage ended, less than a page short; None
            without a dump.
        cpu_seconds: CPU time, user and system; None if it was not measured.
    """

    stage: str
    seconds: float | None
    dump_bytes: int | None
    cpu_seconds: float | None = None


class LlvmInputs(Struct, frozen=True):
    """What Triton hands to LLVM's code generator besides the LLVM IR.

    Args:
        flags: command line flags, without dashes.
        features: target features, separated by commas.
        attributes: function attributes that the backend sets on the kernel: name -> value.
    """

    flags: tuple[str, ...]
    features: str
    attributes: Mapping[str, str]


class LateStart(Struct, frozen=True):
    """What a compile that begins with TTGIR or LLVM IR is told beside the text, which says nothing.

    Args:
        skipped: how many of this Triton's passes on TTGIR are not run over the TTGIR; None for all.
        passes: how many there are, by the dump of a whole compile.
        metadata: that of the compile that made the LLVM IR, which does not say how much LDS and how
            many waves a kernel has.
        flags: those that the code generator gets in place of Triton's; None for Triton's.
        features: likewise.
    """

    skipped: int | None = None
    passes: int = 0
    metadata: Mapping[str, Any] | None = None
    flags: tuple[str, ...] | None = None
    features: str | None = None

    def request(self) -> dict[str, Any]:
        """Returns the fields of a guest's request (`guest.lowering.compile_ttir`)."""
        fields: dict[str, Any] = {}
        if self.skipped is not None:
            fields["remaining_passes"] = {"skipped": self.skipped, "passes": self.passes}
        if self.metadata is not None:
            fields["metadata"] = json.loads(json.dumps(dict(self.metadata), default=str))
        if self.flags is not None and self.features is not None:
            fields["llvm"] = {"flags": list(self.flags), "features": self.features}
        return fields


class CompileResult(Struct, frozen=True):
    """The result of compiling a variant.

    Args:
        artifacts: by kind: `ttir`, `ttgir`, `llir`, `amdgcn`, `hsaco`, `metadata`, `stderr`,
            `passes`. Empty when the compile failed.
        metadata: Triton's metadata: `shared`, `num_warps`, `name`, ...
        stages: in the order they ran; empty when it failed.
        switches: environment variable of the AMD backend -> whether what it switches was on, set
            or by default; None if unknown.
        llvm: what the code generator was given; None if unknown.
        from_store: nothing was compiled.
        stderr: the end of the compiler's stderr when it failed.
    """

    variant: Variant
    artifacts: Mapping[str, Artifact] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    stages: tuple[StageRecord, ...] = ()
    switches: Mapping[str, bool] | None = None
    llvm: LlvmInputs | None = None
    from_store: bool = False
    error: ErrorRecord | None = None
    notes: tuple[str, ...] = ()
    stderr: str = ""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Stage -> seconds, for the stages whose time is known."""
        return {s.stage: s.seconds for s in self.stages if s.seconds is not None}


class Compiler:
    """Compiles variants in guest processes that it starts when needed and keeps for the next."""

    def __init__(self, settings: CompileSettings | None = None) -> None:
        self.settings = CompileSettings() if settings is None else settings
        self.store = Store(self.settings.cache_dir or own_cache())
        self._environment = {
            **guest_environment(os.environ),
            **dict(self.settings.environment),
        }
        self._relevant = compile_relevant(self._environment)
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()
        self._closed = False
        self._toolchain: Toolchain | None = None
        self._pid = os.getpid()

    def __enter__(self) -> Compiler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the idle workers. Those at work end with their jobs."""
        with self._lock:
            idle, self._idle, self._closed = self._idle, [], True
        for worker in idle:
            worker.close()

    def abort(self) -> None:
        """Ends all workers, those at work too: their compiles fail at once (after Ctrl-C)."""
        with self._lock:
            busy = list(self._busy)
        for worker in busy:
            worker.terminate()
        self.close()

    def prestart(self, count: int) -> None:
        """Starts idle workers, which import Triton while something else is being captured.

        `count`: workers that may be needed; at most `MOST_EARLY` of them are started now.

        Raises:
            KinspectError: the interpreter cannot be started.
        """
        for _ in range(min(count, MOST_EARLY)):
            worker = Worker(self.settings.python, self._environment)
            worker.start(warm=True)
            with self._lock:
                self._idle.append(worker)

    @contextmanager
    def worker(self) -> Iterator[Worker]:
        """Lends a worker to the calling thread."""
        with self._lock:
            if self._pid != os.getpid():
                # A forked copy of this object: these guests answer the process we came from.
                self._idle, self._busy, self._pid = [], set(), os.getpid()
            idle = self._idle.pop() if self._idle else None
            worker = idle or Worker(self.settings.python, self._environment)
            self._busy.add(worker)
        try:
            yield worker
        finally:
            # A request that failed has closed the worker; the next one starts it again.
            with self._lock:
                self._busy.discard(worker)
                is_open = not self._closed
                if is_open:
                    self._idle.append(worker)
            if not is_open:
                worker.close()

    def toolchain(self) -> Toolchain:
        """The interpreter and its Triton.

        Raises:
            KinspectError: there is no usable Triton.
        """
        if self._toolchain is None:
            doing("starting Python with Triton")
            with self.worker() as worker:
                self._toolchain = toolchain(worker, self.store.root)
        return self._toolchain

    def key(
        self, variant: Variant, passes: bool | None = None, late_start: LateStart | None = None
    ) -> str:
        """The store's key for a variant under these settings."""
        return artifact_key(
            ttir=variant.ttir,
            options=variant.options,
            arch=variant.arch,
            wave_size=variant.wave_size,
            triton_key=self.toolchain().triton_key,
            environment={**self._relevant, **variant.environment},
            passes=self.settings.passes if passes is None else passes,
            stage=variant.stage,
            late_start=None if late_start is None else late_start.request(),
        )

    def compile(
        self, variant: Variant, *, anew: bool = False, late_start: LateStart | None = None
    ) -> CompileResult:
        """Compiles one variant, or finds it in the store. A failure is a result, not an exception.

        `anew`: compile even what the store holds, and replace it.
        `late_start`: for a variant of TTGIR that has not seen all passes, or of LLVM IR.

        Raises:
            KinspectError: no variant can be compiled: no usable Triton, or an unwritable store.
        """
        if names_files(variant.ttir):
            names = "inline assembly names files (.incbin, .include), which would go into the code"
            return _failed(variant, names, "put what it needs into the assembly itself")
        keys = [self.key(variant, late_start=late_start)]
        if not self.settings.passes:
            keys.append(self.key(variant, True, late_start))  # has a pass dump besides
        notes: tuple[str, ...] = ()
        read_store = self.settings.read_store and not anew
        if read_store:
            for key in keys:
                entry = self.store.get(key)
                if entry is not None:
                    return _result(variant, entry, from_store=True)
                if self.store.holds(key):
                    self.store.remove(key)
                    notes = (DAMAGED,)
        with self.store.stage() as folder:
            request = self._request(folder, variant, late_start)
            result = self._compile_in(folder, variant, request, keys[0], replaces=not read_store)
            return replace(result, notes=(*notes, *result.notes))

    def _compile_in(
        self,
        folder: Path,
        variant: Variant,
        request: Mapping[str, Any],
        key: str,
        *,
        replaces: bool,
    ) -> CompileResult:
        source = INPUT.format(stage=variant.stage)
        try:
            (folder / source).write_bytes(variant.ttir.encode())
            (folder / STDERR).touch()
        except OSError as error:
            raise self.store.unwritable(error) from error
        limit = self.settings.time_limit + GRACE_SECONDS
        doing(f"compiling {variant.kernel} for {variant.arch}")
        try:
            with self.worker() as worker:
                reply = worker.request(request, limit)
        except WorkerLostError as error:
            self._check_space(folder)
            return _failed(variant, error.message, error.hint)
        stderr = (folder / STDERR).read_text(encoding="utf-8", errors="replace")
        messages = scan(stderr)
        failure = failure_record(variant, reply, messages, self.settings.time_limit)
        if failure is not None:
            self._check_space(folder)
            return CompileResult(
                variant, error=failure, notes=messages.warnings, stderr=stderr[-STDERR_TAIL:]
            )
        files = {
            variant.stage: source,
            **reply["result"]["files"],
            "metadata": METADATA,
            "stderr": STDERR,
        }
        if self.settings.passes and (folder / PASSES).exists():
            files["passes"] = PASSES
        facts = {
            **{name: reply["result"][name] for name in ("stages", "switches", "llvm")},
            "notes": list(messages.warnings),
        }
        if replaces:
            self.store.remove(key)
        entry = self.store.put(key, folder, files, facts)
        return _result(variant, entry, from_store=False)

    def _request(
        self, folder: Path, variant: Variant, late_start: LateStart | None
    ) -> dict[str, Any]:
        return {
            "op": "compile",
            "folder": str(folder),
            "stage": variant.stage,
            "arch": variant.arch,
            "wave_size": variant.wave_size,
            "options": dict(variant.options),
            "environment": dict(variant.environment),
            "passes": self.settings.passes,
            "triton_key": self.toolchain().triton_key,
            "time_limit": self.settings.time_limit,
            "memory_limit": self.settings.memory_limit,
            "most_data": COMPILE_MEMORY,
            "late_start": {} if late_start is None else late_start.request(),
        }

    def _check_space(self, folder: Path) -> None:
        refusal = self.store.refusal(folder)
        if refusal is not None:
            raise self.store.unwritable(refusal)


def compile_variant(variant: Variant, settings: CompileSettings) -> CompileResult:
    """Compiles as `Compiler.compile`, for executors whose tasks run in other processes.

    Arguments and result are picklable. Each process keeps one `Compiler` per settings until it
    ends. The artifacts lie in that process's store: on another machine, that machine's.
    """
    return compiler_of_process(settings).compile(variant)


@functools.lru_cache(maxsize=8)
def compiler_of_process(settings: CompileSettings) -> Compiler:
    """Returns this process's compiler for these settings, which lives until the process ends."""
    compiler = Compiler(settings)
    atexit.register(compiler.abort)
    return compiler


def _failed(variant: Variant, message: str, hint: str) -> CompileResult:
    file = variant.source.file if variant.source else None
    error = ErrorRecord(file, variant.kernel, "compile", message, hint)
    return CompileResult(variant, error=error)


def _result(variant: Variant, entry: StoreEntry, from_store: bool) -> CompileResult:
    metadata = json.loads(entry.artifacts["metadata"].path.read_bytes())
    # Entries of older versions lack what was recorded later.
    stages = tuple(
        StageRecord(s["stage"], s["seconds"], s["dump_bytes"], s.get("cpu_seconds"))
        for s in entry.facts["stages"]
    )
    llvm = entry.facts.get("llvm")
    return CompileResult(
        variant,
        artifacts=entry.artifacts,
        metadata=metadata,
        stages=stages,
        switches=entry.facts.get("switches"),
        llvm=LlvmInputs(tuple(llvm["flags"]), llvm["features"], llvm["attributes"])
        if llvm is not None
        else None,
        from_store=from_store,
        notes=tuple(entry.facts["notes"]),
    )
