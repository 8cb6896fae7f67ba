"""What a report on a HIP source costs beside the bare compile: `python -m benchmarks.hip_cost`.

Medians of whole processes, alternating in one run: clang alone with the same flags, `kinspect FILE`
with an empty store, and once more with what the store then holds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from kinspect.inspector.compile.hip.compilers import find_compiler
from kinspect.inspector.compile.hip.source import HEADERS

EXAMPLE = Path(__file__).parent.parent / "docs" / "examples" / "row_sums.hip"


def main() -> int:
    """Prints the medians and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("source", nargs="?", type=Path, default=EXAMPLE)
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    compiler = find_compiler(None, os.environ)
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        environment = {**os.environ, "KINSPECT_CACHE_DIR": str(cache)}
        bare = [
            *(str(compiler.path), "-x", "hip", "--offload-arch=gfx942", "--offload-device-only"),
            *("-nogpuinc", "-nogpulib", "-isystem", str(HEADERS), "-include", "hip/hip_runtime.h"),
            *("-O3", "-g1", "-S", "-o", str(Path(folder) / "k.s"), str(options.source)),
        ]
        report = [sys.executable, "-m", "kinspect.inspector.cli", str(options.source)]
        taken: dict[str, list[float]] = {"bare": [], "cold": [], "stored": []}
        for _ in range(options.runs):
            taken["bare"].append(_seconds(bare, environment))
            shutil.rmtree(cache, ignore_errors=True)
            taken["cold"].append(_seconds(report, environment))
            taken["stored"].append(_seconds(report, environment))
    bare_median = statistics.median(taken["bare"])
    for name, seconds in taken.items():
        median = statistics.median(seconds)
        print(f"{name:7s} {median:6.2f} s, {median / bare_median:.2f} x the bare compile")
    return 0


def _seconds(words: list[str], environment: Mapping[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(words, env=environment, check=True, capture_output=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    raise SystemExit(main())
