"""How fast kernels are emulated: `python -m benchmarks.emulation [--runs 5] [--witness CHECKOUT]`.

Each case is one launch in a process of its own, by `kinspect emulate` with checks and counts;
seconds are those that the emulator took to execute it, medians over the runs. With a checkout of
tinygrad, whole kernels of the tests are run by its emulator and by ours, in turns: cold is the
first launch in a new process (what the witness keeps on disk it may use), warm the second one, as
users have it; bare is a warm launch without checks and counts, of which the witness has neither.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

GEMM = """
import torch
from kinspect.kernels import gemm_all_types
torch.manual_seed(0)
a = torch.randn({n}, {n}, device="cuda", dtype=torch.float16)
b = torch.randn({n}, {n}, device="cuda", dtype=torch.float16)
c = gemm_all_types.launch(a, b)
torch.testing.assert_close(c, a @ b, atol=0.1, rtol=0.01)
"""
SOFTMAX = """
import torch
from kinspect.kernels import softmax
x = torch.randn({rows}, 4096, device="cuda")
y = softmax.launch(x)
torch.testing.assert_close(y, torch.softmax(x, 1), atol=1e-6, rtol=1e-4)
"""
ADD = """
import torch
from kinspect.kernels import vector_add
x = torch.randn({n}, device="cuda")
assert torch.equal(vector_add.launch(x, x), x + x)
"""
CASES = (
    ("GEMM fp16 512", "gfx942", GEMM.format(n=512), None),
    ("GEMM fp16 1024", "gfx942", GEMM.format(n=1024), 0.5),
    ("GEMM fp16 2048", "gfx942", GEMM.format(n=2048), None),
    ("GEMM fp16 1024", "gfx1100", GEMM.format(n=1024), None),
    ("softmax 1024x4096", "gfx942", SOFTMAX.format(rows=1024), None),
    ("softmax 4096x4096", "gfx942", SOFTMAX.format(rows=4096), 1.0),
    ("vector add 1 M", "gfx942", ADD.format(n=1 << 20), None),
)
"""Name, target, script, aim in seconds."""
WITNESSED = (("gemm", "gfx942", 1), ("gemm", "gfx942", 64), ("gemm", "gfx1100", 64))
"""Kernel, target, workgroups; each does the same."""
TWICE = """
import sys, tempfile, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from kinspect.inspector.pipeline.emulating import keep_freed_memory
from test_emulator_whole_kernels import Compiled
keep_freed_memory()  # as the process that executes launches does
with tempfile.TemporaryDirectory() as folder:
    compiled = Compiled({name!r}, {arch!r}, Path(folder))
    compiled.grid = {grid}
    seconds = []
    for checks in (True, True, False):
        start = time.perf_counter()
        compiled.emulated(checks)
        seconds.append(time.perf_counter() - start)
    print(*seconds)
    print(*compiled.witnessed(2)[1])
"""
"""A script: a launch by each emulator. Cold, reading the code object counts for both."""


def main() -> int:
    """Runs and prints them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--witness", metavar="CHECKOUT", help="a checkout of tinygrad")
    options = parser.parse_args()
    if options.witness:
        return beside_witness(options.witness, options.runs)
    print(
        f"{'launch':20} {'target':8} {'seconds':>8} {'waves':>7} {'M instr/s':>10} {'ready ms':>9}"
    )
    for name, arch, script, aim in CASES:
        profiles = [profile(script, arch) for _ in range(options.runs)]
        seconds = statistics.median(p["execute_seconds"] for p in profiles)
        ready = statistics.median(p["prepare_seconds"] for p in profiles)
        rate = profiles[0]["executed"]["instructions"] / seconds / 1e6
        wanted = f"  (aim {aim:g})" if aim is not None else ""
        print(
            f"{name:20} {arch:8} {seconds:8.3f} {profiles[0]['waves']:7} {rate:10.2f}"
            f" {1000 * ready:9.1f}{wanted}"
        )
    return 0


def profile(script: str, arch: str) -> dict[str, Any]:
    """What `kinspect emulate` says of the only kernel of a script."""
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder, "script.py"), Path(folder, "profile.json")
        path.write_text(script)
        command = [
            sys.executable, "-m", "kinspect.inspector.cli", "emulate", str(path), "--arch", arch,
            "--format", "json", "-o", str(output),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        (kernel,) = json.loads(output.read_text())["kernels"]
        return dict(kernel)


def beside_witness(checkout: str, runs: int) -> int:
    """Both emulators over the same code objects, seconds of one launch; prints the ratios."""
    heads = (
        "ours cold", "ours warm", "ours bare", "witness cold", "witness warm",
        "cold ratio", "warm ratio", "bare ratio",
    )  # fmt: skip
    print(
        f"{'kernel':10} {'target':8} {'workgroups':10}" + "".join(f"{head:>14}" for head in heads)
    )
    tests = str(Path(__file__).resolve().parent.parent / "tests")
    for name, arch, grid in WITNESSED:
        figures = []
        for _ in range(runs):
            code = TWICE.format(tests=tests, name=name, arch=arch, grid=grid)
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=False,
                env={**os.environ, "KINSPECT_TINYGRAD": checkout},
            )  # fmt: skip
            lines = done.stdout.splitlines()
            if done.returncode or len(lines) != 2:
                raise SystemExit(done.stderr or done.stdout)
            try:
                figures.append([float(word) for line in lines for word in line.split()])
            except ValueError:
                raise SystemExit(f"{name} on {arch}: the witness says: {lines[1]}") from None
        medians = tuple(map(statistics.median, zip(*figures, strict=True)))
        cold, warm, bare, their_cold, their_warm = medians
        row = (*medians, their_cold / cold, their_warm / warm, their_warm / bare)
        print(f"{name:10} {arch:8} {grid:10}" + "".join(f"{figure:14.3f}" for figure in row))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
