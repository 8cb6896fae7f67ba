"""Watches one process's Triton: every specialisation that it asks for, and its launches.

The seams are those that Triton's own hooks hang on. The hooks themselves are left to the user's
program: `knobs.runtime` has one place for each, and a hook that is set makes Triton write the
constexprs as JSON, which raises for a dtype in a tuple or a dtype of torch. So, in place of:

    jit_cache_hook, jit_post_compile_hook   `JITFunction._call_hook`, which calls them: before each
                                            specialisation is looked up in Triton's on-disk cache,
                                            and once it is there
    launch_enter_hook                       `CompiledKernel.launch_metadata`, which every launch
                                            asks for first, with grid and arguments

`triton.compile` is what others than a launch compile through (Inductor); `Autotuner._bench` tells
launches that are timed from those that the program wants.
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
from types import CodeType, FrameType
from typing import Any

from .contents import content_hash
from .functions import described
from .journal import Journal, Tally
from .sources import identity
from .values import encode

SCHEMA_VERSION = 2
SMALL_STORAGE = 2**31 - 1
"""Bytes of storage up to which AMD's backend knows `tt.pointer_range = 32` of a pointer
(`HIPBackend.is_within_2gb` in triton/backends/amd/compiler.py)."""
SET_BY_RUN = ("debug", "instrumentation_mode", "fpsan_homomorphic_casts")
"""Options that `JITFunction.run` adds to what the launch asked for."""
MOST_FRAMES = 200
TALLY = "_kinspect_tally"


def install(triton: Any, folder: str) -> Recorder:
    """Lets a recorder watch an imported Triton; it writes to `folder`."""
    jit = importlib.import_module("triton.runtime.jit")
    autotuner = importlib.import_module("triton.runtime.autotuner")
    compiler = importlib.import_module("triton.compiler.compiler")
    recorder = Recorder(triton, jit, autotuner, folder)
    recorder.watch_specializations(jit.JITFunction)
    recorder.watch_compiles(triton, compiler.ASTSource)
    recorder.watch_launches(compiler.CompiledKernel)
    recorder.watch_tuning(autotuner.Autotuner)
    atexit.register(recorder.finish)
    os.register_at_fork(after_in_child=recorder.forked)
    return recorder


class Recorder:
    """What is known of this process's specialisations. No method lets an exception out."""

    def __init__(self, triton: Any, jit: Any, autotuner: Any, folder: str) -> None:
        self._journal = Journal(folder, self._describe)
        self._own_folder = os.path.dirname(os.path.abspath(folder)) + os.sep
        self._triton_version = str(getattr(triton, "__version__", "?"))
        self._lock = threading.RLock()
        self._tuning: set[int] = set()  # threads in which an autotuner is timing
        self._pending: dict[tuple[int, Any], dict[str, Any]] = {}
        self._recorded_ids: set[str] = set()
        self._sources: dict[tuple[int, ...], str] = {}
        self._kernels: list[Any] = []  # keeps the numbers in `_sources` from being given again
        self._tallies: list[Tally] = []
        self._failed = False
        self._run_code: CodeType = jit.JITFunction.run.__code__
        self._tuner_codes = (autotuner.Autotuner.run.__code__, autotuner.Autotuner._bench.__code__)
        self._not_user = tuple(
            os.path.dirname(os.path.abspath(m.__file__ or "")) + os.sep
            for m in (triton, sys.modules[__name__])
        )

    # ------------------------------------------------------------------ what is watched

    def watch_specializations(self, jit_function: Any) -> None:
        """Sees each specialisation before and after it is compiled."""
        original = jit_function._call_hook
        names = list(inspect.signature(original).parameters)

        @functools.wraps(original)
        def call_hook(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            named = {**dict(zip(names[1:], args)), **kwargs}
            self._guarded(self._specialization, kernel, named)
            return original(kernel, *args, **kwargs)

        jit_function._call_hook = call_hook

    def watch_compiles(self, triton: Any, ast_source: Any) -> None:
        """Sees what is compiled by others than launches: they all call `triton.compile`."""
        original = triton.compile

        @functools.wraps(original)
        def compile_source(src: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(src, ast_source):
                bound = inspect.signature(original).bind(src, *args, **kwargs).arguments
                self._guarded(self._direct_compile, src, bound)
            return original(src, *args, **kwargs)

        triton.compile = compile_source

    def watch_launches(self, compiled_kernel: Any) -> None:
        """Counts the launches of the kernels that `watch_specializations` saw compiled."""
        original, tuning = compiled_kernel.launch_metadata, self._tuning

        @functools.wraps(original)
        def launch_metadata(kernel: Any, grid: Any, stream: Any, *args: Any) -> Any:
            tally = kernel.__dict__.get(TALLY)
            if tally is not None:
                try:
                    tally.note(grid, args, bool(tuning) and threading.get_ident() in tuning)
                except Exception as error:
                    self._failure("counting launches", error)
            return original(kernel, grid, stream, *args)

        compiled_kernel.launch_metadata = launch_metadata

    def watch_tuning(self, autotuner: Any) -> None:
        """Knows, while a launch is counted, whether an autotuner is timing it."""
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
        """At the end of the process: the last counts, and that they are the last."""
        self._guarded(self._finish)

    def forked(self) -> None:
        """In a forked child: its launches are its own, its lock is nobody's."""
        self._lock = threading.RLock()
        self._journal.forked()
        self._recorded_ids.clear()
        for tally in self._tallies:
            tally.reset()

    # ------------------------------------------------------------------ what is done

    def _guarded(self, action: Any, *args: Any) -> None:
        """The user's program must not fail for being watched; the first failure is written."""
        try:
            with self._lock:
                action(*args)
        except Exception as error:
            self._failure(action.__name__, error)

    def _failure(self, doing: str, error: Exception) -> None:
        if self._failed:
            return
        self._failed = True
        text = f"{type(error).__name__}: {error}"
        try:
            self._journal.write({"problem": {"doing": doing, "message": text}})
        except Exception as second:
            sys.stderr.write(f"kinspect: recording failed: {text}; {second!r}\n")

    def _specialization(self, kernel: Any, named: Mapping[str, Any]) -> None:
        handle = (id(kernel), named["key"])
        compiled = kernel.device_caches[named["device"]][0].get(named["key"])
        if compiled is None:
            self._pending[handle] = self._asked_for(kernel, named)
            return
        record = self._pending.pop(handle, None) or self._asked_for(kernel, named)
        self._journal.write({"compiled": {"id": record["id"]}})
        pointers = functools.partial(_small_storages, list(named["signature"].values()))
        tally = Tally(record["id"], pointers, self._journal.write)
        self._tallies.append(tally)
        setattr(compiled, TALLY, tally)

    def _asked_for(self, kernel: Any, named: Mapping[str, Any]) -> dict[str, Any]:
        frames = self._frames()
        run = frames["run"]
        resolved = vars(named["options"])
        stated = storages = None
        if run is not None:
            # A parameter of the kernel may share its name with an option: then it is both.
            stated = {
                name: encode(value)
                for name, value in run["kwargs"].items()
                if name in resolved and (value or name not in SET_BY_RUN)
            }
            arguments = tuple(run["bound_args"].values())
            kinds = list(named["signature"].values())
            storages = [[path, size] for path, size in _storages(kinds, arguments)]
        target = named.get("target") or kernel.device_caches[named["device"]][-3]
        return self._write_specialization(
            kernel,
            named["signature"],
            named["constants"],
            (named["configs"] or [{}])[0],
            options={name: encode(value) for name, value in resolved.items()},
            stated=stated,
            target=target,
            via="warmup" if named.get("is_warmup") else "launch",
            storages=storages,
            frames=frames,
        )

    def _direct_compile(self, source: Any, bound: Mapping[str, Any]) -> None:
        options = {name: encode(value) for name, value in (bound.get("options") or {}).items()}
        target = bound.get("target")
        if target is None:
            driver = importlib.import_module("triton.runtime.driver").driver
            target = driver.active.get_current_target()
        record = self._write_specialization(
            source.fn,
            source.signature,
            source.constants,
            source.attrs,
            options=options,
            stated=options,
            target=target,
            via="compile",
            storages=None,
            frames=self._frames(),
        )
        self._journal.write({"compiled": {"id": record["id"]}})

    def _write_specialization(
        self,
        kernel: Any,
        signature: Mapping[str, Any],
        constants: Mapping[Any, Any],
        attrs: Mapping[Any, Any],
        *,
        options: dict[str, Any],
        stated: dict[str, Any] | None,
        target: Any,
        via: str,
        storages: list[list[Any]] | None,
        frames: dict[str, Any],
    ) -> dict[str, Any]:
        record: dict[str, Any] = {
            "kernel": identity(kernel),
            "signature": {name: encode(kind) for name, kind in signature.items()},
            "constexprs": [[_path(k), encode(v)] for k, v in constants.items()],
            "attrs": [[_path(k), list(map(list, v))] for k, v in (attrs or {}).items() if v],
            "options": options,
            "asked": stated,
            "target": {
                "backend": target.backend,
                "arch": str(target.arch),
                "warp_size": int(target.warp_size),
            },
            "triton": self._triton_version,
        }
        record["kernel"]["source"] = self._source(kernel, constants)
        text = json.dumps(record, sort_keys=True)
        record["id"] = hashlib.sha256(text.encode()).hexdigest()[:16]
        record.update(
            via=via, storages=storages, call_site=frames["call_site"], tuning=frames["tuning"]
        )
        if record["id"] not in self._recorded_ids:
            self._recorded_ids.add(record["id"])
            self._journal.write({"specialization": record})
        return record

    def _source(self, kernel: Any, constants: Mapping[Any, Any]) -> str | None:
        """Writes what a kernel is made of, once; its id. None where that cannot be described."""
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

    def _frames(self) -> dict[str, Any]:
        """What the stack knows of a specialisation: who asked for it, and with what."""
        caller: dict[str, Any] = {"run": None, "call_site": None, "tuning": None}
        for frame in _stack():
            code = frame.f_code
            if code is self._run_code and caller["run"] is None:
                names = frame.f_locals
                if "kwargs" in names and "bound_args" in names:
                    caller["run"] = {n: names[n] for n in ("kwargs", "bound_args")}
            elif code in self._tuner_codes:
                caller["call_site"] = None  # so far these were frames of a benchmark
                caller["tuning"] = caller["tuning"] or _tuning(frame.f_locals)
            elif caller["call_site"] is None and self._is_users(code.co_filename):
                file = os.path.abspath(code.co_filename)
                caller["call_site"] = {"file": file, "line": frame.f_lineno}
        return caller

    def _is_users(self, file: str) -> bool:
        return not (file.startswith(("<", *self._not_user)) or _in_torch(file))

    def _finish(self) -> None:
        for tally in self._tallies:
            tally.flush()
        if self._journal.begun:
            self._journal.write({"end": {}})

    def _describe(self) -> dict[str, Any]:
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
            "device": _device() if _in_use() else None,
            "sys_path": [path for path in _search_path() if not path.startswith(self._own_folder)],
        }


def _search_path() -> list[str]:
    return [os.path.abspath(entry) for entry in sys.path if isinstance(entry, str)]


def _in_use() -> bool:
    """Whether torch, if it is there, uses a GPU: where it only compiles, none is begun."""
    torch = sys.modules.get("torch")
    begun = [getattr(getattr(torch, n, None), "is_initialized", None) for n in ("cuda", "xpu")]
    return torch is None or any(ask is not None and ask() for ask in begun)


def _device() -> dict[str, Any] | None:
    """What Triton's driver says of the device in use (`get_device_properties` of its driver.c)."""
    try:
        driver = importlib.import_module("triton.runtime.driver").driver.active
        facts = driver.utils.get_device_properties(driver.get_current_device())
        return {str(n): v for n, v in facts.items() if isinstance(v, (int, str))}
    except Exception:
        return None


def _stack() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    for _ in range(MOST_FRAMES):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def _in_torch(file: str) -> bool:
    torch = sys.modules.get("torch")
    folder = os.path.dirname(getattr(torch, "__file__", None) or "")
    return folder != "" and file.startswith(folder + os.sep)


def _tuning(names: Mapping[str, Any]) -> dict[str, Any] | None:
    """The configuration that an autotuner is at, from the local variables of its methods."""
    config, tuner = names.get("config"), names.get("self")
    if config is None:
        return None
    values = config.all_kwargs()
    return {
        "config": {str(name): encode(value) for name, value in values.items()},
        "configs": len(getattr(tuner, "configs", ())),
        "key": [str(name) for name in getattr(tuner, "keys", None) or ()],
    }


def _path(key: Any) -> list[Any]:
    """`(2, 1)`, the way to an argument's element, as a list."""
    return list(key) if isinstance(key, (tuple, list)) else [key]


def _storages(kinds: list[Any], values: tuple[Any, ...]) -> Iterator[tuple[list[int], int | None]]:
    """Path and storage size in bytes of each pointer argument; None where it is not known."""
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
    """Paths of the pointer arguments whose storages are small, as AMD's backend sees it."""
    sizes = _storages(kinds, values)
    return [path for path, size in sizes if size is not None and size <= SMALL_STORAGE]
