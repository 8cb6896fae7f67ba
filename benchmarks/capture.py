"""Prints what capture costs over bare Triton: `python -m benchmarks.capture [--runs N]`.

`kinspect analyze script.py` against a plain program that imports the same, takes the same
specialisations through the front end and compiles them on the same number of processes, in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kinspect.inspector.capture.options import CaptureOptions
from kinspect.inspector.capture.script import capture_script
from kinspect.inspector.compile.worker import Worker
from kinspect.inspector.model import Variant

ROOT = Path(__file__).parent.parent
SCRIPT = """
import importlib.util, pathlib, sys
import torch

for path in sys.argv[1:]:
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    for case in module.CASES:
        if "float8" not in str(case):
            module.launch(**module.make_inputs(case, "cuda"))
"""
SETS = {
    "small": ("vector_add", "softmax"),
    "gemm": ("gemm_all_types",),
    "all": ("vector_add", "softmax", "gemm_all_types", "flash_attn"),
}


def main() -> None:
    """Runs each set of kernels and prints ratios of medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--sets", default=",".join(SETS))
    options = parser.parse_args()
    processes = os.cpu_count() or 1
    print(f"{processes} processes, {options.runs} runs each, medians; seconds")
    print(
        "set     variants  imports  front end  compile  bare  kinspect  ratio  with passes  ratio"
    )
    for name in options.sets.split(","):
        with tempfile.TemporaryDirectory() as folder:
            row(name, Path(folder), options.runs, processes)


def row(name: str, folder: Path, runs: int, processes: int) -> None:
    """One set: a line of the table."""
    script = folder / "script.py"
    script.write_text(SCRIPT)
    paths = [str(ROOT / "kernels" / f"{kernel}.py") for kernel in SETS[name]]
    with Worker() as worker:
        variants, errors = capture_script(
            worker, script, ["gfx942"], options=CaptureOptions(argv=tuple(paths))
        )
    assert not errors, errors
    work = folder / "work.json"
    work.write_text(json.dumps(list(map(specialisation, variants))))
    bare: list[tuple[float, dict[str, float]]] = []
    plain: list[float] = []
    passes: list[float] = []
    for _ in range(runs):
        bare.append(run_bare(work, folder, processes))
        plain.append(run_kinspect(script, paths, folder, "--no-passes"))
        passes.append(run_kinspect(script, paths, folder))
    total = statistics.median(t for t, _ in bare)
    parts = [statistics.median(p[k] for _, p in bare) for k in ("imports", "frontend", "compile")]
    ours, dumped = statistics.median(plain), statistics.median(passes)
    print(
        f"{name:8}{len(variants):8}{parts[0]:9.2f}{parts[1]:11.2f}{parts[2]:9.2f}{total:6.2f}"
        f"{ours:10.2f}{ours / total:7.2f}{dumped:8.2f}{dumped / total:7.2f}",
        flush=True,
    )


def specialisation(variant: Variant) -> dict[str, Any]:
    """A captured specialisation as `bare.py` takes it."""
    return {
        "file": variant.source.file if variant.source else None,
        "kernel": variant.kernel,
        "arch": variant.arch,
        "wave_size": variant.wave_size,
        "signature": dict(variant.signature),
        "constexprs": dict(variant.constexprs),
        "attrs": {name: dict(attributes) for name, attributes in variant.attrs.items()},
        "options": dict(variant.options),
    }


def run_bare(work: Path, folder: Path, processes: int) -> tuple[float, dict[str, float]]:
    """Wall seconds of the plain program, and of its parts."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "bare.py"), str(work), str(processes)],
        capture_output=True,
        text=True,
        env={**os.environ, "BARE_DIR": str(folder), "TRITON_DEFAULT_FP_FUSION": "1"},
    )
    seconds = time.perf_counter() - started
    assert done.returncode == 0, done.stderr
    parts = json.loads(done.stdout.splitlines()[-1])
    assert not parts["failed"], done.stderr
    return seconds, parts


def run_kinspect(script: Path, paths: list[str], folder: Path, *options: str) -> float:
    """Wall seconds of `kinspect analyze` with an empty store."""
    store = folder / "store"
    # What Triton is does not change between runs: its key (a second) is kept as between two days.
    for entry in store.glob("artifacts-*"):
        shutil.rmtree(entry)
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "kinspect.inspector.cli", "analyze", str(script), *options,
         "--format", "json", "-o", str(folder / "report.json"), "--", *paths],
        capture_output=True,
        text=True,
        env={**os.environ, "KINSPECT_CACHE_DIR": str(store)},
    )  # fmt: skip
    seconds = time.perf_counter() - started
    assert done.returncode == 0, done.stderr
    return seconds


if __name__ == "__main__":
    main()
