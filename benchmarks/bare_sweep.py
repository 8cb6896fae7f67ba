"""What a sweep costs without kinspect: a plain script around `triton.compile`.

`python benchmarks/bare_sweep.py KERNELS.py CASE ARCH PROCESSES CACHE 'AXES AS JSON'` prints the
seconds that the compiles took, imports and warming up excluded.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import sys
import time
from collections.abc import Mapping
from types import ModuleType
from typing import Any


def main() -> None:
    """Forks the processes; each takes the next configuration until there are none."""
    path, name, arch, processes, cache, axes_text = sys.argv[1:]
    os.environ["TRITON_CACHE_DIR"] = cache
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.runtime.cache import triton_key

    module = loaded(path)
    case = next(c for c in module.KINSPECT_CASES if c["name"] == name)
    kernel = getattr(module, case["kernel"])
    axes = json.loads(axes_text)
    points = [dict(zip(axes, v, strict=True)) for v in itertools.product(*axes.values())]
    target = GPUTarget("hip", arch, 64)
    triton_key()
    started = time.perf_counter()
    take, give = os.pipe()
    os.write(give, bytes(range(len(points))))
    os.close(give)
    children = []
    for _ in range(int(processes)):
        pid = os.fork()
        if pid:
            children.append(pid)
            continue
        while number := os.read(take, 1):
            point = points[number[0]]
            signature, attrs, constants = specialization(kernel, case, point)
            options = {**case["options"], **{k: v for k, v in point.items() if k not in signature}}
            source = ASTSource(kernel, signature, constants, attrs)
            triton.compile(source, target=target, options=options)
        os._exit(0)
    for pid in children:
        assert os.waitpid(pid, 0)[1] == 0
    print(time.perf_counter() - started)


def loaded(path: str) -> ModuleType:
    """The module of a file of kernels."""
    spec = importlib.util.spec_from_file_location("kernels_to_sweep", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def specialization(
    kernel: Any, case: Mapping[str, Any], point: Mapping[str, Any]
) -> tuple[dict[str, str], dict[tuple[int], list[list[Any]]], dict[str, Any]]:
    """Signature, attributes and constants as a launch would give them to Triton."""
    constants = dict(case["constexprs"])
    constants.update({k: v for k, v in point.items() if k in kernel.arg_names})
    signature: dict[str, str] = {}
    attrs: dict[tuple[int], list[list[Any]]] = {}
    for index, argument in enumerate(kernel.arg_names):
        kind, _, of = case["signature"].get(argument, "constexpr").partition(":")
        if of == "1":
            kind, constants[argument] = "constexpr", 1
        signature[argument] = kind
        if of == "16":
            attrs[(index,)] = [["tt.divisibility", 16]]
            if kind.startswith("*"):
                attrs[(index,)].append(["tt.pointer_range", 32])
    return signature, attrs, constants


if __name__ == "__main__":
    main()
