"""Prints how fast kinspect is: `python -m benchmarks.run [--quick]`.

Machines are noisy: everything compared is measured in one run, in turn, and quoted as medians.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kinspect.inspector.capture.script import capture_script
from kinspect.inspector.compile.pool import Compiler, CompileSettings
from kinspect.inspector.pipeline import analysis
from kinspect.inspector.pipeline.analysis_options import Context

from .lint import installed, print_lint, print_process, tool
from .sweep import print_sweep

ROOT = Path(__file__).parent.parent
ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """One kernel compiled and analysed; times in seconds, size in bytes of assembly."""

    name: str
    compile_s: float
    analysis_s: float
    size: int
    text: str


def main() -> None:
    """Runs all benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="gfx942 only, fewer repetitions")
    options = parser.parse_args()
    archs = ("gfx942",) if options.quick else ARCHS
    runs = 5 if options.quick else 15
    samples = suite(archs)
    print_suite(samples)
    with tempfile.TemporaryDirectory() as folder:
        big = Path(folder) / "big.s"
        big.write_text(merged(samples, 1_000_000))
        print_throughput(big)
        small = Path(folder) / "small.s"
        small.write_text(min(samples, key=lambda s: abs(s.size - 60_000)).text)
        print_processes(small, big, runs)
        print_process(small, runs)
    print_lint((100,) if options.quick else (1000, 5000))
    if not options.quick:
        print_sweep(rounds=1, jobs=2)


def suite(archs: Sequence[str]) -> list[KernelTimes]:
    """Compiles every bundled kernel afresh and times its analysis (median of 3)."""
    samples = []
    with tempfile.TemporaryDirectory() as cache:
        settings = CompileSettings(cache_dir=Path(cache), read_store=False)
        with Compiler(settings) as compiler:
            compiler.toolchain()
            for path in sorted((ROOT / "kernels").glob("*.py")):
                if path.name == "__init__.py":
                    continue
                with compiler.worker() as worker:
                    variants, errors = capture_script(worker, path, archs)
                for error in errors:
                    print(f"  not captured: {error.message}")
                for variant in variants:
                    started = time.perf_counter()
                    result = compiler.compile(variant)
                    compiled = time.perf_counter() - started
                    if result.error is not None:
                        print(f"  not compiled: {variant.kernel}: {result.error.message}")
                        continue
                    text = result.artifacts["amdgcn"].path.read_text()
                    context = Context(
                        path=str(path),
                        metadata=result.metadata,
                        ttgir=result.artifacts["ttgir"].path.read_text(),
                        variant=variant,
                        artifacts=result.artifacts,
                        code_object=result.artifacts["hsaco"].path,
                    )
                    seconds = median(3, functools.partial(analysis.analyze_text, text, context))
                    name = f"{variant.kernel}[{variant.case}] {variant.arch}"
                    samples.append(KernelTimes(name, compiled, seconds, len(text), text))
    return samples


def print_suite(samples: Sequence[KernelTimes]) -> None:
    """Analysis against compile time, per kernel and in total."""
    print("\nanalysis against compile, per kernel")
    print(f"  {'kernel':<64} {'compile':>9} {'analysis':>9} {'share':>7}")
    for s in sorted(samples, key=lambda s: s.analysis_s / s.compile_s, reverse=True):
        share = s.analysis_s / s.compile_s
        print(f"  {s.name:<64} {s.compile_s:8.3f}s {s.analysis_s * 1e3:7.1f}ms {share:6.1%}")
    compiled, analysed = sum(s.compile_s for s in samples), sum(s.analysis_s for s in samples)
    size = sum(s.size for s in samples)
    print(
        f"  total: compile {compiled:.1f} s, analysis {analysed:.2f} s = {analysed / compiled:.1%}"
        f" (aim: at most 5 %); {size / analysed / 1e6:.2f} MB/s over {len(samples)} kernels"
    )


def print_throughput(path: Path) -> None:
    """Full analysis of a large assembly file (several kernels), and the memory it takes."""
    text = path.read_text()
    seconds = median(5, lambda: analysis.analyze_text(text, Context(str(path))))
    size = len(text) / 1e6
    print(
        f"\n{size:.2f} MB of assembly, fully analysed: {seconds:.2f} s = {size / seconds:.2f} MB/s"
    )
    print("  (aim: 1 MB in at most 1 s)")


def print_processes(small: Path, big: Path, runs: int) -> None:
    """Whole-process times against a bare interpreter's start, and peak memory."""
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "kinspect --version": [*tool(), "--version"],
        f"kinspect analyze saved.s ({small.stat().st_size / 1e3:.0f} kB)": [
            *tool(),
            "analyze",
            str(small),
        ],
        f"kinspect analyze big.s ({big.stat().st_size / 1e6:.1f} MB)": [
            *tool(),
            "analyze",
            str(big),
        ],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        env = installed({"PYTHONPYCACHEPREFIX": folder})
        for _ in range(runs + 1):  # the first writes the byte code
            for name, command in commands.items():
                started = time.perf_counter()
                subprocess.run(
                    command,
                    env=env,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    check=False,
                )
                times[name].append(time.perf_counter() - started)
    times = {name: seen[1:] for name, seen in times.items()}
    base = statistics.median(times["python -c pass"])
    print(f"\nwhole processes, medians of {runs}, run in turn")
    for name, seen in times.items():
        middle = statistics.median(seen)
        print(f"  {name:<44} {middle * 1e3:7.0f} ms   {(middle - base) * 1e3:+7.0f} ms over bare")
    print("  (aims: --version at most 75 ms over bare; analyze saved.s at most 250 ms)")
    for name, command in commands.items():
        print(f"  peak memory  {name:<44} {peak_memory(command) / 2**20:7.1f} MiB")


def peak_memory(command: Sequence[str]) -> int:
    """Largest resident set of a command, in bytes, by the operating system's accounting."""
    code = (
        "import os, resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, check=True
    )
    scale = 1 if sys.platform == "darwin" else 1024
    return int(done.stdout) * scale


def merged(samples: Sequence[KernelTimes], size: int) -> str:
    """One assembly file of many kernels of the same target, at least `size` bytes long."""
    pool = [s for s in samples if s.name.endswith("gfx942")]
    parts: list[str] = []
    total = 0
    while total < size and pool:
        for sample in pool:
            n = len(parts)
            text = re.sub(r"\.L([A-Za-z_]+)(\d)", rf".L{n}x\1\2", sample.text)
            text = re.sub(r"\.amdgcn_target.*\n", "", text) if parts else text
            parts.append(text)
            total += len(text)
            if total >= size:
                break
    return "\n".join(parts)


def median(runs: int, work: Callable[[], object]) -> float:
    """Median seconds of `work`."""
    seen = []
    for _ in range(runs):
        started = time.perf_counter()
        work()
        seen.append(time.perf_counter() - started)
    return statistics.median(seen)


if __name__ == "__main__":
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    main()
