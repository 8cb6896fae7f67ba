"""What a plain Triton program costs that compiles given specialisations: nothing of kinspect's.

`python benchmarks/bare.py WORK.json PROCESSES`: imports PyTorch and Triton, takes each
specialisation through the front end, then compiles the TTIR in forked processes. Times its parts.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple


class CompileJob(NamedTuple):
    """One specialisation after the front end."""

    path: Path  # of its TTIR
    target: Any  # triton's GPUTarget
    options: Mapping[str, Any]


def main() -> None:
    """Prints seconds for `imports`, `frontend` and `compile`, as JSON."""
    started = time.perf_counter()
    import torch  # noqa: F401
    import triton  # noqa: F401
    from triton.runtime.cache import triton_key

    imported = time.perf_counter()
    work = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(tempfile.mkdtemp(dir=os.environ.get("BARE_DIR")))
    os.environ["TRITON_CACHE_DIR"] = str(folder / "cache")
    modules: dict[str, ModuleType] = {}
    jobs = []
    for number, specialisation in enumerate(work):
        file = specialisation["file"]
        if file not in modules:
            modules[file] = load(file)
        jobs.append(lower(modules[file], specialisation, folder / f"{number}.ttir"))
    lowered = time.perf_counter()
    triton_key()
    failed = compile_forked(jobs, processes=int(sys.argv[2]))
    parts = {
        "imports": imported - started,
        "frontend": lowered - imported,
        "compile": time.perf_counter() - lowered,
        "failed": failed,
    }
    print(json.dumps(parts))


def load(file: str) -> ModuleType:
    """The module in a file of kernels."""
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def lower(module: ModuleType, specialisation: Mapping[str, Any], path: Path) -> CompileJob:
    """Takes a specialisation through the front end and writes its TTIR to `path`.

    Args:
        module: the file with the kernel.
        specialisation: `kernel`, `attrs`, `arch`, `wave_size`, `signature`, `constexprs` and
            `options`, as `benchmarks/capture.py` writes them.
        path: takes the TTIR.
    """
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.compiler import make_backend

    kernel = getattr(module, specialisation["kernel"])
    attrs = {
        (kernel.arg_names.index(name),): [[key, value] for key, value in facts.items()]
        for name, facts in specialisation["attrs"].items()
    }
    target = GPUTarget("hip", specialisation["arch"], specialisation["wave_size"])
    constexprs = constants(specialisation["constexprs"])
    source = ASTSource(kernel, specialisation["signature"], constexprs, attrs)
    backend = make_backend(target)
    options = backend.parse_options(dict(specialisation["options"]))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    functions, modules = backend.get_codegen_implementation(options), backend.get_module_map()
    ttir = source.make_ir(target, options, functions, modules, context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    ttir = stages["ttir"](ttir, {"target": target, **options.__dict__})
    path.write_text(str(ttir))
    return CompileJob(path, target, specialisation["options"])


def compile_forked(jobs: Sequence[CompileJob], processes: int) -> bool:
    """Compiles in that many processes, each its share; whether any of them failed."""
    import triton

    children = []
    for share in range(processes):
        pid = os.fork()
        if pid == 0:
            for path, target, options in jobs[share::processes]:
                triton.compile(str(path), target=target, options=options)
            os._exit(0)
        children.append(pid)
    statuses = [os.waitpid(pid, 0)[1] for pid in children]
    return any(statuses)


def constants(values: Mapping[str, Any]) -> dict[str, Any]:
    """Constexprs as the front end wants them: names of types become types."""
    import triton.language as tl

    return {
        name: getattr(tl, value) if isinstance(value, str) and hasattr(tl, value) else value
        for name, value in values.items()
    }


if __name__ == "__main__":
    main()
