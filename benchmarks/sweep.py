"""What a sweep costs: `python -m benchmarks.sweep [--rounds N] [--jobs N]`.

64 configurations of the bundled GEMM, compiled by kinspect and by a plain script around
`triton.compile`, in turn, in one run, on the same number of processes, each with a fresh cache;
then kinspect's sweep again, answered from the store. Last both at the same time, on one process
each: whatever else the machine does then slows both alike.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from kinspect.inspector.capture.sweep_axes import Axis, count
from kinspect.inspector.compare.sweep.sweeping import SweepRequest, collect
from kinspect.inspector.compare.sweep.swept_points import Sweep
from kinspect.inspector.pipeline.jobs import Request

ROOT = Path(__file__).parent.parent
KERNELS = ROOT / "kernels" / "gemm_all_types.py"
CASE = "fp16_128x128x64"
ARCH = "gfx942"
AXES = (
    Axis("BLOCK_M", (64, 128)),
    Axis("BLOCK_N", (64, 128)),
    Axis("num_warps", (4, 8)),
    Axis("num_stages", (1, 2)),
    Axis("waves_per_eu", (0, 2)),
    Axis("matrix_instr_nonkdim", (16, 32)),
)
AIM_THROUGHPUT = 0.95
AIM_REPEAT = 30.0


def main() -> None:
    """Runs and prints it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    print_sweep(options.rounds, options.jobs)
    print_side_by_side()


def print_sweep(rounds: int, jobs: int) -> None:
    """Throughput against bare compiles, and the repeated sweep."""
    points = count(AXES)
    print(f"\nsweep of {points} configurations of the bundled GEMM ({ARCH}), {jobs} processes")
    ratios, work, repeats = [], [], []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            began = cpu_seconds()
            bare = bare_seconds(Path(folder) / "triton", jobs)
            between = cpu_seconds()
            os.environ["KINSPECT_CACHE_DIR"] = str(Path(folder) / "store")
            first = ours(jobs)
            ended = cpu_seconds()
            second = ours(jobs)
        assert all(row.figures is not None for row in first.rows)
        assert all(row.from_store for row in second.rows)
        # The capture ends before the first compile begins here: a case was named by its label.
        took, again = (s.seconds - s.capture_seconds for s in (first, second))
        ratios.append(bare / took)
        work.append((between - began) / (ended - between))
        repeats.append(took / again)
        print(
            f"  round {number + 1}: bare {bare:6.2f} s = {points / bare:.2f}/s;"
            f" kinspect {took:6.2f} s = {points / took:.2f}/s with analysis"
            f" (capture {first.capture_seconds:.2f} s); CPU {between - began:.1f} s and"
            f" {ended - between:.1f} s, capture included; again {again:.3f} s"
            f" (capture {second.capture_seconds:.2f} s)"
        )
    print(
        f"  throughput, median: {statistics.median(ratios):.2f} x that of bare compiles"
        f" (aim: at least {AIM_THROUGHPUT:g}); by CPU seconds {statistics.median(work):.2f} x"
    )
    print(
        f"  compile and analysis of the repeated sweep, median: {statistics.median(repeats):.0f} x"
        f" faster than the first (aim: at least {AIM_REPEAT:g})"
    )


def cpu_seconds() -> float:
    """Of this process and all that it has waited for: what else the machine does is not in it."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def ours(jobs: int) -> Sweep:
    """One sweep by kinspect."""
    kernel = f"gemm_kernel[{CASE}]"
    run = Request((str(KERNELS),), (ARCH,), kernel=kernel, python=sys.executable, jobs=jobs)
    return collect(SweepRequest(run, AXES))


def arguments(jobs: int, swept: Sequence[Axis] = AXES) -> list[str]:
    """The same sweep, as arguments of kinspect."""
    settings = [f"{axis.name}={','.join(map(str, axis.values))}" for axis in swept]
    kernel = ["--kernel", f"gemm_kernel[{CASE}]", "--arch", ARCH, "-j", str(jobs)]
    return ["sweep", str(KERNELS), *kernel, *(p for text in settings for p in ("--set", text))]


def bare_seconds(cache: Path, jobs: int) -> float:
    """The same by a script without kinspect."""
    done = subprocess.run(bare_command(cache, jobs), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the bare script failed: {done.stderr}")
    return float(done.stdout)


def bare_command(cache: Path | str, jobs: int, swept: Sequence[Axis] = AXES) -> list[str]:
    """See `bare_sweep.py`."""
    script = Path(__file__).with_name("bare_sweep.py")
    axes = json.dumps({axis.name: axis.values for axis in swept})
    return [sys.executable, str(script), str(KERNELS), CASE, ARCH, str(jobs), str(cache), axes]


def print_side_by_side() -> None:
    """Points that each finishes while both are at work, start-up excluded."""
    with tempfile.TemporaryDirectory() as folder:
        store, cache = Path(folder) / "store", Path(folder) / "triton"
        command = [sys.executable, "-m", "kinspect.inspector.cli", *arguments(1)]
        environment = {**os.environ, "KINSPECT_CACHE_DIR": str(store)}
        both = [
            subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL),
            subprocess.Popen(bare_command(cache, 1), stdout=subprocess.DEVNULL),
        ]

        def done() -> tuple[int, int]:
            ours = len(list(store.glob("artifacts-*/*/*/figures-*")))
            return ours, len(list(cache.glob("*/*.hsaco")))

        while min(done()) == 0 and all(process.poll() is None for process in both):
            time.sleep(0.02)
        before, started = done(), time.perf_counter()
        while all(process.poll() is None for process in both):
            time.sleep(0.02)
        after, seconds = done(), time.perf_counter() - started
        for process in both:
            process.wait()
    ours, bare = (b - a for a, b in zip(before, after, strict=True))
    print(
        f"  side by side, one process each, {seconds:.1f} s: kinspect {ours} points with analysis,"
        f" bare {bare}: {ours / bare:.2f} x"
    )


if __name__ == "__main__":
    main()
