"""Watches one process's Triton: every specialisation that it asks for, and its launches.

Triton's own hooks are left to the user's program: `knobs.runtime` holds one function for each, and
a hook that is set makes Triton write the constexprs as JSON, which raises an error for a dtype in a
tuple or a dtype of torch. The functions that call the hooks are wrapped instead:

    jit_cache_hook, jit_post_compile_hook   `JITFunction._call_hook`: called before a specialisation
                                            is looked up in Triton's on-disk cache, and after
    launch_enter_hook                       `CompiledKernel.launch_metadata`: called first by every
                                            launch, with grid and arguments

`triton.compile` is wrapped too, since Inductor compiles through it, and `Autotuner._bench`, which
tells the launches that are timed from those that the program wants.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib
import inspect
import json
import os
import platform
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .callers import Caller, CallerReader
from .journal import Journal, LaunchCounter
from .kernel_source import content_hash, described, identity
from .values import encode

SCHEMA_VERSION = 2
SMALL_STORAGE = 2**31 - 1
"""Bytes of storage up to which AMD's backend knows `tt.pointer_range = 32` of a pointer
(`HIPBackend.is_within_2gb` in triton/backends/amd/compiler.py)."""
SET_BY_RUN = ("debug", "instrumentation_mode", "fpsan_homomorphic_casts")
"""Options that `JITFunction.run` adds to those of the launch."""
COUNTER_ATTRIBUTE = "_kinspect_counter"


def install(triton: Any, folder: str) -> ProcessRecorder:
    """Wraps the functions of an imported Triton; journals go to `folder`."""
    jit = importlib.import_module("triton.runtime.jit")
    autotuner = importlib.import_module("triton.runtime.autotuner")
    compiler = importlib.import_module("triton.compiler.compiler")
    recorder = ProcessRecorder(triton, jit, autotuner, folder)
    recorder.watch_specializations(jit.JITFunction)
    recorder.watch_compiles(triton, compiler.ASTSource)
    recorder.watch_launches(compiler.CompiledKernel)
    recorder.watch_tuning(autotuner.Autotuner)
    atexit.register(recorder.finish)
    os.register_at_fork(after_in_child=recorder.forked)
    return recorder


@dataclass(frozen=True)
class CompileRequest:
    """A specialisation that the program asks Triton for.

    Args:
        constants: path of an argument -> value.
        attrs: path of an argument -> attributes.
        options: the options as the backend resolved them.
        stated: the launch's own options; None where they are not known.
        via: "launch", "warmup" or "compile".
        storages: path and storage size (bytes) of each pointer argument; None without a launch.
    """

    kernel: Any
    signature: Mapping[str, Any]
    constants: Mapping[Any, Any]
    attrs: Mapping[Any, Any]
    options: dict[str, Any]
    stated: dict[str, Any] | None
    target: Any
    via: str
    storages: list[list[Any]] | None
    caller: Caller

    def record(self) -> dict[str, Any]:
        """What the compile depends on, as the journal has it; the kernel's source is left out."""
        attrs = self.attrs or {}
        return {
            "kernel": identity(self.kernel),
            "signature": {name: encode(kind) for name, kind in self.signature.items()},
            "constexprs": [[_path_list(k), encode(v)] for k, v in self.constants.items()],
            "attrs": [[_path_list(k), list(map(list, v))] for k, v in attrs.items() if v],
            "options": self.options,
            "asked": self.stated,
            "target": {
                "backend": self.target.backend,
                "arch": str(self.target.arch),
                "warp_size": int(self.target.warp_size),
            },
        }


class ProcessRecorder:
    """Records this process's specialisations and launches. No method raises an exception."""

    def __init__(self, triton: Any, jit: Any, autotuner: Any, folder: str) -> None:
        self._journal = Journal(folder, self._describe)
        self._own_folder = os.path.dirname(os.path.abspath(folder)) + os.sep
        self._triton_version = str(getattr(triton, "__version__", "?"))
        self._lock = threading.RLock()
        self._tuning: set[int] = set()  # threads in which an autotuner is timing
        self._pending: dict[tuple[int, Any], dict[str, Any]] = {}
        self._recorded_ids: set[str] = set()
        self._sources: dict[tuple[int, ...], str] = {}
        # Kept alive, so that their id()s, the keys of `_sources`, are not reused.
        self._kernels: list[Any] = []
        self._counters: list[LaunchCounter] = []
        self._failed = False
        self._callers = CallerReader(triton, jit, autotuner)

    def watch_specializations(self, jit_function: Any) -> None:
        """Records each specialisation before and after it is compiled."""
        original = jit_function._call_hook
        names = list(inspect.signature(original).parameters)

        @functools.wraps(original)
        def call_hook(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            named = {**dict(zip(names[1:], args)), **kwargs}
            self._guarded(self._specialization, kernel, named)
            return original(kernel, *args, **kwargs)

        jit_function._call_hook = call_hook

    def watch_compiles(self, triton: Any, ast_source: Any) -> None:
        """Records compiles that no launch asked for: all of them call `triton.compile`."""
        original = triton.compile

        @functools.wraps(original)
        def compile_source(src: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(src, ast_source):
                bound = inspect.signature(original).bind(src, *args, **kwargs).arguments
                self._guarded(self._direct_compile, src, bound)
            return original(src, *args, **kwargs)

        triton.compile = compile_source

    def watch_launches(self, compiled_kernel: Any) -> None:
        """Counts the launches of the kernels that `watch_specializations` recorded."""
        original, tuning = compiled_kernel.launch_metadata, self._tuning

        @functools.wraps(original)
        def launch_metadata(kernel: Any, grid: Any, stream: Any, *args: Any) -> Any:
            counter = kernel.__dict__.get(COUNTER_ATTRIBUTE)
            if counter is not None:
                try:
                    counter.note(grid, args, bool(tuning) and threading.get_ident() in tuning)
                except Exception as error:
                    self._failure("counting launches", error)
            return original(kernel, grid, stream, *args)

        compiled_kernel.launch_metadata = launch_metadata

    def watch_tuning(self, autotuner: Any) -> None:
        """Marks the threads in which an autotuner is timing launches."""
        original = autotuner._bench

        @functools.wraps(original)
        def bench(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            thread = threading.get_ident()
            inner = thread in self._tuning
            self._tuning.add(thread)
            try:
                return original(tuner, *args, **kwargs)
            finally:
                if not inner:
                    self._tuning.discard(thread)

        autotuner._bench = bench

    def finish(self) -> None:
        """Writes the last counts and the journal's end; called when the process ends."""
        self._guarded(self._finish)

    def forked(self) -> None:
        """Starts afresh in a forked child: with its own counts, journal and lock.

        A thread of the parent may have held the old lock; no thread of the child would release it.
        """
        self._lock = threading.RLock()
        self._journal.forked()
        self._recorded_ids.clear()
        for counter in self._counters:
            counter.reset()

    def _guarded(self, action: Any, *args: Any) -> None:
        """Calls a function of ours, whose failure must not become the user's program's."""
        try:
            with self._lock:
                action(*args)
        except Exception as error:
            self._failure(action.__name__, error)

    def _failure(self, activity: str, error: Exception) -> None:
        if self._failed:
            return
        self._failed = True
        text = f"{type(error).__name__}: {error}"
        try:
            self._journal.write({"problem": {"doing": activity, "message": text}})
        except Exception as write_error:
            sys.stderr.write(f"kinspect: recording failed: {text}; {write_error!r}\n")

    def _specialization(self, kernel: Any, named: Mapping[str, Any]) -> None:
        handle = (id(kernel), named["key"])
        compiled = kernel.device_caches[named["device"]][0].get(named["key"])
        if compiled is None:
            self._pending[handle] = self._requested(kernel, named)
            return
        record = self._pending.pop(handle, None) or self._requested(kernel, named)
        self._journal.write({"compiled": {"id": record["id"]}})
        pointers = functools.partial(_small_storages, list(named["signature"].values()))
        counter = LaunchCounter(record["id"], pointers, self._journal.write)
        self._counters.append(counter)
        setattr(compiled, COUNTER_ATTRIBUTE, counter)

    def _requested(self, kernel: Any, named: Mapping[str, Any]) -> dict[str, Any]:
        caller = self._callers.caller()
        run = caller.run
        resolved = vars(named["options"])
        stated = storages = None
        if run is not None:
            # A name can be both a parameter of the kernel and an option.
            stated = {
                name: encode(value)
                for name, value in run["kwargs"].items()
                if name in resolved and (value or name not in SET_BY_RUN)
            }
            arguments = tuple(run["bound_args"].values())
            kinds = list(named["signature"].values())
            storages = [[path, size] for path, size in _storages(kinds, arguments)]
        target = named.get("target") or kernel.device_caches[named["device"]][-3]
        request = CompileRequest(
            kernel,
            signature=named["signature"],
            constants=named["constants"],
            attrs=(named["configs"] or [{}])[0],
            options={name: encode(value) for name, value in resolved.items()},
            stated=stated,
            target=target,
            via="warmup" if named.get("is_warmup") else "launch",
            storages=storages,
            caller=caller,
        )
        return self._write_specialization(request)

    def _direct_compile(self, source: Any, bound: Mapping[str, Any]) -> None:
        options = {name: encode(value) for name, value in (bound.get("options") or {}).items()}
        target = bound.get("target")
        if target is None:
            driver = importlib.import_module("triton.runtime.driver").driver
            target = driver.active.get_current_target()
        request = CompileRequest(
            source.fn,
            signature=source.signature,
            constants=source.constants,
            attrs=source.attrs,
            options=options,
            stated=options,
            target=target,
            via="compile",
            storages=None,
            caller=self._callers.caller(),
        )
        record = self._write_specialization(request)
        self._journal.write({"compiled": {"id": record["id"]}})

    def _write_specialization(self, request: CompileRequest) -> dict[str, Any]:
        """Writes a specialisation to the journal, once; returns its record (`capture/trace.py`)."""
        record = {**request.record(), "triton": self._triton_version}
        record["kernel"]["source"] = self._source(request.kernel, request.constants)
        text = json.dumps(record, sort_keys=True)
        record["id"] = hashlib.sha256(text.encode()).hexdigest()[:16]
        record.update(
            via=request.via,
            storages=request.storages,
            call_site=request.caller.call_site,
            tuning=request.caller.tuning,
        )
        if record["id"] not in self._recorded_ids:
            self._recorded_ids.add(record["id"])
            self._journal.write({"specialization": record})
        return record

    def _source(self, kernel: Any, constants: Mapping[Any, Any]) -> str | None:
        """Writes a kernel's source to the journal, once; returns its id."""
        handle = (id(kernel), *(id(v) for v in constants.values() if hasattr(v, "fn")))
        name = self._sources.get(handle)
        if name is not None:
            return name
        try:
            functions = described(kernel, constants)
            name = content_hash(functions)
        except Exception as error:
            self._failure("describing a kernel's source", error)
            return None
        if name not in self._sources.values():
            self._journal.write({"source": {"id": name, "functions": functions}})
        self._kernels.append((kernel, list(constants.values())))
        self._sources[handle] = name
        return name

    def _finish(self) -> None:
        for counter in self._counters:
            counter.flush()
        if self._journal.begun:
            self._journal.write({"end": {}})

    def _describe(self) -> dict[str, Any]:
        """The first record of a journal: this process, its versions and its device."""
        torch_version = getattr(sys.modules.get("torch"), "__version__", None)
        return {
            "schema_version": SCHEMA_VERSION,
            "pid": os.getpid(),
            "parent": os.getppid(),
            "argv": [str(word) for word in getattr(sys, "orig_argv", None) or sys.argv],
            "cwd": os.getcwd(),
            "executable": sys.executable,
            "python": platform.python_version(),
            "triton": self._triton_version,
            "torch": str(torch_version) if torch_version is not None else None,
            "device": _device() if _is_device_in_use() else None,
            "sys_path": [path for path in _search_path() if not path.startswith(self._own_folder)],
        }


def _search_path() -> list[str]:
    return [os.path.abspath(entry) for entry in sys.path if isinstance(entry, str)]


def _is_device_in_use() -> bool:
    """Whether asking the driver would initialise no device: torch is absent or has done so."""
    torch = sys.modules.get("torch")
    checks = [getattr(getattr(torch, n, None), "is_initialized", None) for n in ("cuda", "xpu")]
    return torch is None or any(check is not None and check() for check in checks)


def _device() -> dict[str, Any] | None:
    try:
        driver = importlib.import_module("triton.runtime.driver").driver.active
        facts = driver.utils.get_device_properties(driver.get_current_device())
        return {str(n): v for n, v in facts.items() if isinstance(v, (int, str))}
    except Exception:
        return None


def _path_list(key: Any) -> list[Any]:
    """The path of an argument's element, `(2, 1)`, as a list; a plain index as a list of one."""
    return list(key) if isinstance(key, (tuple, list)) else [key]


def _storages(kinds: list[Any], values: tuple[Any, ...]) -> Iterator[tuple[list[int], int | None]]:
    """Path and storage size (bytes, None if unknown) of each pointer argument."""
    for index, (kind, value) in enumerate(zip(kinds, values)):
        if isinstance(kind, (tuple, list)):
            for path, size in _storages(list(kind), tuple(value)):
                yield [index, *path], size
        elif isinstance(kind, str) and kind.startswith("*"):
            yield [index], _storage_bytes(value)


def _storage_bytes(value: Any) -> int | None:
    if hasattr(value, "ptr_range"):
        return int(value.ptr_range())
    if hasattr(value, "untyped_storage"):
        return int(value.untyped_storage().nbytes())
    return None


def _small_storages(kinds: list[Any], values: tuple[Any, ...]) -> list[list[Any]]:
    """Paths of the pointer arguments whose storages are at most `SMALL_STORAGE` bytes."""
    sizes = _storages(kinds, values)
    return [path for path, size in sizes if size is not None and size <= SMALL_STORAGE]
