"""Prints what `--emulate-budget` changes for scripts: `python -m benchmarks.readback FILE.py...`.

Each script is captured without and with a budget, and run by `kinspect emulate`: seconds of the two
captures, their specialisations, how many values were read back and how many assumed, and whether
each kernel that is not autotuned is launched as often as under `emulate`, where everything is
executed (all parameter sets of a test too, of which a capture runs some: there it counts more). A
line that begins with `*` names a script whose captures see different launches: one that runs a loop
until its own clock says enough does so in any case.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kinspect.inspector import machines
from kinspect.inspector.capture.options import (
    EMULATE_SECONDS,
    MOST_SETS,
    CaptureOptions,
    CapturePlan,
)
from kinspect.inspector.capture.records import CaptureEnd
from kinspect.inspector.capture.script import capture_file, mode_of
from kinspect.inspector.compile.worker import Worker
from kinspect.inspector.model import Variant
from kinspect.inspector.pipeline.emulator_command import device_facts, emulator_command

WHOLE_SECONDS = 60.0
"""What `kinspect emulate` may take for one script."""


def main() -> None:
    """Captures and runs each script; prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--budget", type=float, default=EMULATE_SECONDS)
    parser.add_argument("--runs", type=int, default=1, help="of each capture; the least counts")
    options = parser.parse_args()
    for file in options.files:
        without, off = captured(file, options.arch, 0.0, options.runs)
        seconds, on = captured(file, options.arch, options.budget, options.runs)
        assumed = {(its.what, its.source) for variant in on for its in variant.assumptions}
        reasons = collections.Counter(
            reason
            for variant in on
            for reason in {its.reason for its in variant.assumptions}
            if reason is not None
        )
        read = {(its.what, its.source) for variant in on for its in variant.emulated}
        before = {(its.what, its.source) for variant in off for its in variant.assumptions}
        differs = "*" if launches(off) != launches(on) or grids(off) != grids(on) else " "
        print(
            f"{differs} {file.name}: {without:.2f} s, with emulation {seconds - without:+.2f} s; "
            f"specialisations {len(off)} -> {len(on)}; assumptions {len(before)} -> {len(assumed)} "
            f"{dict(reasons)}; read back {len(read)}; emulate: {compared(file, options.arch, on)}",
            flush=True,
        )


def captured(file: Path, arch: str, budget: float, runs: int) -> tuple[float, list[Variant]]:
    """The least seconds of some captures, and what the last one found."""
    options = CaptureOptions(emulate_budget=budget)
    times: list[float] = []
    variants: list[Variant] = []
    for _ in range(runs):
        with Worker() as worker, tempfile.TemporaryDirectory() as folder:
            plan = CapturePlan(
                path=file,
                mode=mode_of(file, options),
                archs=(arch,),
                devices={arch: device_facts(machines.load(arch))},
                folder=Path(folder),
                options=options,
                emulator=tuple(emulator_command()),
            )
            started = time.perf_counter()
            for item in capture_file(worker, plan):
                if isinstance(item, CaptureEnd):
                    variants = list(item.variants)
                    for error in item.errors:
                        print(f"    {file.name}: {error.message[:160]}", flush=True)
            times.append(time.perf_counter() - started)
    return min(times), variants


def launches(variants: list[Variant]) -> dict[str, int]:
    """Launches by kernel."""
    counts: dict[str, int] = collections.Counter()
    for variant in variants:
        counts[variant.kernel] += variant.launches or 0
    return {name: count for name, count in counts.items() if count}


def grids(variants: list[Variant]) -> list[tuple[str, object, object]]:
    """Kernel, constants and first grid of each specialisation."""
    return sorted(
        ((its.kernel, sorted(its.constexprs.items(), key=str), its.grid) for its in variants),
        key=str,
    )


def compared(file: Path, arch: str, variants: list[Variant]) -> str:
    """Whether `kinspect emulate` launches as much."""
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "profile.json"
        command = [sys.executable, "-m", "kinspect.inspector.cli", "emulate", str(file)]
        command += ["--arch", arch, "--sets", str(MOST_SETS)]  # of a benchmark, as in a capture
        command += ["--format", "json", "-o", str(profile)]
        with (Path(folder) / "output.txt").open("w+") as output:
            done = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                status = done.wait(WHOLE_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(done.pid, signal.SIGKILL)
                done.wait()
                return f"not done in {WHOLE_SECONDS:g} s"
            output.seek(0)
            lines = output.read().splitlines()
        if not profile.exists():
            return f"status {status}: {(lines or [''])[-1][:120]}"
        real: dict[str, int] = collections.Counter()
        for kernel in json.loads(profile.read_text())["kernels"]:
            real[kernel["name"]] += kernel["launches"]
    if not real:
        return f"launches nothing (status {status})"
    tuned = {variant.kernel for variant in variants if variant.tuning}
    ours = launches(variants)
    unlike = {
        name: (ours.get(name, 0), real.get(name, 0))
        for name in {**ours, **real}
        if name not in tuned and ours.get(name, 0) != real.get(name, 0)
    }
    ended = "" if status in (0, 1) else f" (status {status})"
    return (f"differs, ours and its: {unlike}" if unlike else "the same launches") + ended


if __name__ == "__main__":
    main()
