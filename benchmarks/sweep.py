"""What a sweep costs: `python -m benchmarks.sweep [--rounds N] [--jobs N]`.

64 configurations of the bundled GEMM, compiled by kinspect and by a plain script around
`triton.compile`, in turn, in one run, on the same number of processes, each with a fresh cache;
then kinspect's sweep again, answered from the store.
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
from pathlib import Path

from kinspect.inspector.compiling import Request
from kinspect.inspector.sweep.axes import Axis, count
from kinspect.inspector.sweep.table import Sweep
from kinspect.inspector.sweeping import SweepRequest, collect

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


def print_sweep(rounds: int, jobs: int) -> None:
    """Throughput against bare compiles, and the repeated sweep."""
    points = count(AXES)
    print(f"\nsweep of {points} configurations of the bundled GEMM ({ARCH}), {jobs} processes")
    ratios, repeats = [], []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            before = processor_seconds()
            bare = bare_seconds(Path(folder) / "triton", jobs)
            between = processor_seconds()
            os.environ["KINSPECT_CACHE_DIR"] = str(Path(folder) / "store")
            first = ours(jobs)
            after = processor_seconds()
            second = ours(jobs)
        assert all(row.figures is not None for row in first.rows)
        assert all(row.from_store for row in second.rows)
        # The capture ends before the first compile begins here: a case was named by its label.
        took, again = (s.seconds - s.capture_seconds for s in (first, second))
        ratios.append(bare / took)
        repeats.append(took / again)
        print(
            f"  round {number + 1}: bare {bare:6.2f} s = {points / bare:.2f}/s;"
            f" kinspect {took:6.2f} s = {points / took:.2f}/s with analysis"
            f" (capture {first.capture_seconds:.2f} s); again {again:.3f} s"
            f" (capture {second.capture_seconds:.2f} s); of the processors, everything included:"
            f" bare {between - before:.1f} s, kinspect {after - between:.1f} s"
        )
    print(
        f"  throughput, median: {statistics.median(ratios):.2f} x that of bare compiles"
        f" (aim: at least {AIM_THROUGHPUT:g})"
    )
    print(
        f"  compile and analysis of the repeated sweep, median: {statistics.median(repeats):.0f} x"
        f" faster than the first (aim: at least {AIM_REPEAT:g})"
    )


def ours(jobs: int) -> Sweep:
    """One sweep by kinspect."""
    kernel = f"gemm_kernel[{CASE}]"
    run = Request((str(KERNELS),), (ARCH,), kernel=kernel, python=sys.executable, jobs=jobs)
    return collect(SweepRequest(run, AXES))


def bare_seconds(cache: Path, jobs: int) -> float:
    """The same by a script without kinspect."""
    script = Path(__file__).with_name("bare_sweep.py")
    axes = json.dumps({axis.name: axis.values for axis in AXES})
    command = [sys.executable, str(script), str(KERNELS), CASE, ARCH, str(jobs), str(cache), axes]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the bare script failed: {done.stderr}")
    return float(done.stdout)


def processor_seconds() -> float:
    """What this process and all those that it has waited for took of the processors.

    On a machine that others use too it tells more than the clock on the wall.
    """
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


if __name__ == "__main__":
    main()
