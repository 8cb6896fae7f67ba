"""Compiles one TTIR file to every later stage. Runs in a forked child only.

The parent must never compile: MLIR_DUMP_PATH is latched at the first use in a process.

Where Triton puts each buffer of a compiled kernel in LDS.

The TTGIR that a compile leaves has no addresses: Triton gives them in its next stage, on a module
that it goes on lowering. The same pass on the same TTGIR gives the same ones, in milliseconds. It
runs in a child of its own: Triton aborts on some modules that it printed itself.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import json
import os
import re
import resource
import tempfile
import time
from collections.abc import Callable
from typing import Any

from .about import replace_triton_key, switches
from .llvm_inputs import LlvmInputs
from .process_tree import ChildError, answer_of_child
from .records import Emit, writer
from .remaining_passes import LLIR, TTGIR, RemainingPasses
from .without_files import check_assembly, guard_assembler, guard_diagnostics, guard_linker

INPUT = "kernel.{stage}"
"""Name of the input in the job's folder. Relative: it ends up in the debug locations."""
SCRATCH = ".scratch"
PASSES = "passes.mlir"
STDERR = "stderr.txt"
STDOUT = "stdout.txt"

HSACO = "hsaco"

DUMP_VARIABLES = ("MLIR_ENABLE_DUMP", "MLIR_DUMP_PATH")


class UnknownOptionError(Exception):
    """Options that this Triton's backend does not have."""

    def __init__(self, names: list[str], option_names: list[str]) -> None:
        super().__init__(", ".join(names))
        self.names = names
        self.option_names = option_names


def compile_ttir(request: dict[str, Any], records: str) -> None:
    """Compiles `kernel.ttir`, `.ttgir` or `.llir` of the folder `request["folder"]`, in there.

    The variables of `request["environment"]` are set for this compile alone. What a later stage
    needs besides its text stands in `request["late_start"]`: `remaining_passes` (the arguments of
    `RemainingPasses`) for TTGIR that has not seen all passes; for LLVM IR `metadata`, that of the
    compile that made it, and `llvm`, the `flags` and `features` to use in place of the backend's.

    Writes a file `kernel.<stage>` for each later stage, `metadata.json`, and `passes.mlir` if
    `request["passes"]`. Of its `records`, `{"stage": name}` names each stage as it starts, for
    compiles that crash or hang; the last one is `{"result": ...}`.
    """
    folder = str(request["folder"])
    emit = writer(records)
    # Triton's knobs and LLVM read variables when they need them: this child has its own.
    os.environ.update(request.get("environment") or {})
    os.chdir(folder)
    scratch = os.path.join(folder, SCRATCH)
    os.mkdir(scratch)
    os.environ["TRITON_CACHE_DIR"] = os.path.join(scratch, "cache")
    os.environ["TMPDIR"] = tempfile.tempdir = scratch
    # A hit in Triton's cache would hide the diagnostics that LLVM prints on descriptor 2.
    os.environ["TRITON_ALWAYS_COMPILE"] = "1"
    dump = None
    if request["passes"]:
        dump = os.path.join(folder, PASSES)
        os.environ["MLIR_ENABLE_DUMP"] = "1"
        os.environ["MLIR_DUMP_PATH"] = dump
    try:
        result = _compile(request, dump, emit)
    except UnknownOptionError as error:
        result = {"unknown_options": error.names, "known_options": error.option_names}
    except Exception as error:
        result = {"exception": type(error).__name__, "message": str(error)}
    emit({"result": result})
    if dump is not None:
        # The dump's stream is a static object of libtriton: its last page is flushed by C's exit(),
        # but not by os._exit(), which ends every other job.
        ctypes.CDLL(None).exit(0)


def warm_front_end() -> None:
    """Imports modules in the parent, once, that every capturing child would import otherwise."""
    importlib.import_module("triton.language")
    importlib.import_module("triton.compiler.compiler")
    importlib.import_module("triton.compiler.code_generator")


def warm(arch: str) -> None:
    """Computes values in the parent, once, that every compiling child would compute otherwise."""
    warm_front_end()
    compiler = importlib.import_module("triton.compiler.compiler")
    backend = compiler.make_backend(target(arch))
    backend.get_module_map()
    backend.parse_options({}).hash()
    backend.hash()


def target(arch: str, wave_size: int | None = None) -> Any:
    """Triton's `GPUTarget`; without a wave size, the backend's own for the arch."""
    gpu_target = importlib.import_module("triton.backends.compiler").GPUTarget
    if wave_size is None:
        compiler = importlib.import_module("triton.compiler.compiler")
        wave_size = compiler.make_backend(gpu_target("hip", arch, 64)).parse_options({}).warp_size
    return gpu_target("hip", arch, wave_size)


def _triton_file() -> str:
    return str(importlib.import_module("triton").__file__)


def parse_options(backend: Any, options: dict[str, Any]) -> Any:
    """The backend's options object.

    Raises:
        UnknownOptionError: the backend has no such option, and would ignore it silently.
        ValueError: an option names a library of elsewhere.
    """
    own = os.path.join(os.path.dirname(os.path.realpath(_triton_file())), "")
    libraries = dict(options.get("extern_libs") or ())
    if not all(os.path.realpath(str(path)).startswith(own) for path in libraries.values()):
        raise ValueError("extern_libs names files that are not Triton's: they are not linked")
    option_names = set(backend.parse_options({}).__dict__)
    unknown = sorted(set(options) - option_names)
    if unknown:
        raise UnknownOptionError(unknown, sorted(option_names))
    return backend.parse_options(dict(options))


def _compile(request: dict[str, Any], dump: str | None, emit: Emit) -> dict[str, Any]:
    triton = importlib.import_module("triton")
    compiler = importlib.import_module("triton.compiler.compiler")
    gpu = target(request["arch"], request["wave_size"])
    backend = compiler.make_backend(gpu)
    # JSON has no tuples, and Triton hashes its options.
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in request["options"].items()}
    parse_options(backend, options)
    stages: list[dict[str, Any]] = []
    start_stage = request["stage"]
    late_start = request["late_start"]
    if start_stage == TTGIR and "remaining_passes" in late_start:
        rest = RemainingPasses(**late_start["remaining_passes"])
        rest.install(type(backend), INPUT.format(stage=TTGIR))
    _observe_stages(type(backend), stages, dump, emit)
    guard_linker()
    guard_assembler()
    guard_diagnostics()
    replace_triton_key(request["triton_key"])
    facts: dict[str, Any] = {"switches": _switches(gpu.arch)}
    if start_stage == LLIR:
        return {**facts, **_compile_llir(backend, backend.parse_options(options), late_start)}
    llvm_inputs = LlvmInputs()
    llvm_inputs.install()
    compiled = triton.compile(INPUT.format(stage=start_stage), target=gpu, options=options)
    # The input file is there already.
    later = {stage: content for stage, content in compiled.asm.items() if stage != start_stage}
    files = {stage: _written(stage, content) for stage, content in later.items()}
    metadata = {k: v for k, v in compiled.metadata._asdict().items() if k not in DUMP_VARIABLES}
    module = INPUT.format(stage="ttgir")
    if os.path.exists(module):
        shared = metadata.get("shared")
        metadata["lds_allocations"] = lds_allocations(module, gpu.arch, backend, shared)
    with open("metadata.json", "w", encoding="utf-8") as text:
        json.dump(metadata, text, default=vars, indent=1, sort_keys=True)
    return {**facts, "files": files, "stages": stages, "llvm": llvm_inputs.describe()}


def _written(stage: str, content: bytes | str) -> str:
    name = f"kernel.{stage}"
    with open(name, "wb") as stream:
        stream.write(content if isinstance(content, bytes) else content.encode())
    return name


def _switches(arch: str) -> dict[str, bool] | None:
    """See `knobs.switches`; None if this Triton declares them in another way."""
    try:
        return switches(arch)
    except Exception:
        return None


def _compile_llir(backend: Any, options: Any, late_start: dict[str, Any]) -> dict[str, Any]:
    if "metadata" not in late_start:
        raise ValueError("LLVM IR without the metadata of the compile that made it")
    with open(INPUT.format(stage=LLIR), encoding="utf-8") as stream:
        source = stream.read()
    metadata = late_start["metadata"]
    llvm_inputs = LlvmInputs(late_start.get("llvm"))
    llvm_inputs.install()
    runs: dict[str, Any] = {}
    language = getattr(importlib.import_module("triton.compiler.compiler"), "Language", None)
    # Before 3.4 there was one language.
    backend.add_stages(runs, options, *([language.TRITON] if language is not None else []))
    # Triton does so as it makes LLVM IR; before 3.9 the process crashes without it.
    importlib.import_module("triton._C.libtriton").llvm.init_targets()
    files = {}
    content: Any = source
    stages: list[dict[str, Any]] = []
    names = list(runs)
    for name in names[names.index(LLIR) + 1 :]:
        clock = _Clock()
        if name == HSACO:
            check_assembly(content)
        content = runs[name](content, metadata)
        stages.append({"stage": name, **clock.read(), "dump_bytes": None})
        files[name] = _written(name, content)
    with open("metadata.json", "w", encoding="utf-8") as text:
        json.dump(metadata, text, indent=1, sort_keys=True)
    return {"files": files, "stages": stages, "llvm": llvm_inputs.describe()}


class _Clock:
    """Measures wall time, and CPU time of this process and the processes that it started."""

    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._cpu = self._used()

    def read(self) -> dict[str, float]:
        """The seconds since it was made, as a stage's record has them."""
        return {
            "seconds": round(time.perf_counter() - self._wall, 6),
            "cpu_seconds": round(self._used() - self._cpu, 6),
        }

    @staticmethod
    def _used() -> float:
        own = resource.getrusage(resource.RUSAGE_SELF)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _observe_stages(
    backend_class: Any, finished: list[dict[str, Any]], dump: str | None, emit: Emit
) -> None:
    """Records the start and the time of each stage, and the size of the pass dump at its end.

    The dump's stream is buffered: the size is a lower bound, too small by less than a page.
    """
    add_stages = backend_class.add_stages

    def run_stage(name: str, run: Callable[[Any, Any], Any], source: Any, metadata: Any) -> Any:
        emit({"stage": name})
        clock = _Clock()
        if name == HSACO:
            check_assembly(source)
        result = run(source, metadata)
        times = clock.read()
        size = os.path.getsize(dump) if dump is not None and os.path.exists(dump) else None
        finished.append({"stage": name, **times, "dump_bytes": size})
        return result

    @functools.wraps(add_stages)
    def add_observed_stages(self: Any, stages: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        add_stages(self, stages, *args, **kwargs)
        for name, run in list(stages.items()):
            stages[name] = functools.partial(run_stage, name, run)

    backend_class.add_stages = add_observed_stages


_PLACE = re.compile(r"\ballocation\.offset = (\d+) : i32(?:, allocation\.size = (\d+) : i32)?")
_TOTAL = re.compile(r'^module attributes .*"?ttg\.shared"? = (\d+) : i32', re.MULTILINE)
_SECONDS = 20.0
"""How long the pass may take."""


def lds_allocations(
    path: str, arch: str, backend: Any, shared: Any
) -> list[list[int | None]] | None:
    """The buffers in LDS: line of the TTGIR (of a region, the last one), offset, bytes.

    Bytes are None where Triton leaves them to the buffer's type. None where the pass is missing,
    refuses or crashes, or where its LDS is not the compile's.

    `shared`: bytes of LDS by the compile's metadata.
    """
    if not shared:
        return None
    try:
        work = functools.partial(_allocated, path, arch, backend)
        total, allocations = answer_of_child(work, time.monotonic() + _SECONDS, "the pass")
    except ChildError:
        return None
    return allocations if total == shared else None


def _allocated(path: str, arch: str, backend: Any) -> tuple[int | None, list[list[int | None]]]:
    """The LDS of the module and its allocations."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    library = importlib.import_module("triton._C.libtriton")
    context = library.ir.context()
    library.ir.load_dialects(context)
    backend.load_dialects(context)
    module = library.ir.parse_mlir_module(path, context)
    passes = library.ir.pass_manager(context)
    library.amd.passes.ttgpuir.add_allocate_shared_memory(passes, arch)
    passes.run(module, "allocate")
    text = str(module)
    total = _TOTAL.search(text)
    allocations: list[list[int | None]] = []
    for number, line in enumerate(text.split("\n"), 1):
        place = _PLACE.search(line) if "allocation.offset" in line else None
        if place is not None:
            size = int(place[2]) if place[2] is not None else None
            allocations.append([number, int(place[1]), size])
    return int(total[1]) if total is not None else None, allocations
