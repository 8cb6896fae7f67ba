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
from pathlib import Path


def main() -> None:
    """Prints seconds for `imports`, `frontend` and `compile`, as JSON."""
    started = time.perf_counter()
    import torch  # noqa: F401
    import triton
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.compiler import make_backend
    from triton.runtime.cache import triton_key

    imported = time.perf_counter()
    work = json.loads(Path(sys.argv[1]).read_text())
    processes = int(sys.argv[2])
    folder = Path(tempfile.mkdtemp(dir=os.environ.get("BARE_DIR")))
    os.environ["TRITON_CACHE_DIR"] = str(folder / "cache")
    modules = {}
    jobs = []
    for number, one in enumerate(work):
        file = one["file"]
        if file not in modules:
            spec = importlib.util.spec_from_file_location(Path(file).stem, file)
            modules[file] = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = modules[file]
            spec.loader.exec_module(modules[file])
        kernel = getattr(modules[file], one["kernel"])
        names = kernel.arg_names
        attrs = {
            (names.index(n),): [[k, v] for k, v in facts.items()]
            for n, facts in one["attrs"].items()
        }
        target = GPUTarget("hip", one["arch"], one["wave_size"])
        source = ASTSource(kernel, one["signature"], constants(one["constexprs"]), attrs)
        backend = make_backend(target)
        options = backend.parse_options(dict(one["options"]))
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        module = source.make_ir(
            target, options, backend.get_codegen_implementation(options),
            backend.get_module_map(), context,
        )  # fmt: skip
        stages = {}
        backend.add_stages(stages, options, source.language)
        module = stages["ttir"](module, {"target": target, **options.__dict__})
        path = folder / f"{number}.ttir"
        path.write_text(str(module))
        jobs.append((path, target, one["options"]))
    lowered = time.perf_counter()
    triton_key()
    children = []
    for share in range(processes):
        pid = os.fork()
        if pid == 0:
            for path, target, options in jobs[share::processes]:
                triton.compile(str(path), target=target, options=options)
            os._exit(0)
        children.append(pid)
    failed = any(os.waitpid(pid, 0)[1] for pid in children)
    ended = time.perf_counter()
    print(
        json.dumps(
            {
                "imports": imported - started,
                "frontend": lowered - imported,
                "compile": ended - lowered,
                "failed": failed,
            }
        )
    )


def constants(values: dict) -> dict:
    """Constexprs as the front end wants them: names of types become types."""
    import triton.language as tl

    return {
        name: getattr(tl, value) if isinstance(value, str) and hasattr(tl, value) else value
        for name, value in values.items()
    }


if __name__ == "__main__":
    main()
