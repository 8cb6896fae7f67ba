"""Repeated products, races and addresses of suites: `python -m benchmarks.lane_facts [TARGET...]`.

Of every loop with dots: the multiply-accumulates that the TTGIR's layouts make the machine issue
(those needed, times `matrix.redundancy`) against those of its matrix instructions in the assembly,
times the waves. Of every kernel: the races that are found in code that nobody changed. Each
difference and each race is printed. Without targets: the bundled kernels.

With `--emulated`, launches of the bundled kernels are executed, and conflict cycles and cache lines
of each access as the analysis derives them are held against what the emulator counts.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kinspect.inspector.bench.suite import catalogue
from kinspect.inspector.model import EmulatedLine, KernelReport, LaneUse, LoopReport
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

from .emulated_analysis import SCRIPT, analysed

ARCHS = ("gfx942", "gfx950", "gfx90a", "gfx1100", "gfx1201")
DIFFERS = "differ"
SHAPE = re.compile(r"_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?")


def main() -> int:
    """Prints what differs and a table; 1 if anything does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help="files; the bundled kernels without any")
    parser.add_argument("--arch", nargs="*", default=ARCHS)
    parser.add_argument("--emulated", action="store_true")
    options = parser.parse_args()
    if options.emulated:
        return sum(differing_accesses(arch) for arch in options.arch)
    targets = options.targets or [str(kernel.path) for kernel in catalogue.bundled()]
    counts: Counter[str] = Counter()
    for arch in options.arch:
        report = collect(Request(tuple(targets), (arch,)))
        for kernel in report.kernels:
            counts["kernels"] += 1
            for loop, issued, executed in products(kernel):
                counts["loops"] += 1
                if not math.isclose(issued, executed, rel_tol=1e-3):
                    counts["loops that differ"] += 1
                    print(f"{arch} {kernel.name} {loop.id}: layouts {issued}, code {executed}")
            races = kernel.metrics["lds.races"].value
            if kernel.metrics["lds_bytes"].value == 0:
                counts["kernels without LDS"] += 1
            elif not isinstance(races, dict):
                counts["kernels whose races are unknown"] += 1
            elif races["pairs"]:
                counts["kernels with races"] += 1
                print(f"{arch} {kernel.id}: {races['pairs']} races")
        print(f"{arch}: {dict(counts)}", flush=True)
    return int(bool(counts["loops that differ"] or counts["kernels with races"]))


def products(kernel: KernelReport) -> Iterator[tuple[LoopReport, float, float]]:
    """Loops with known products: multiply-accumulates of an iteration by layouts and by code."""
    waves = kernel.metrics["waves_per_workgroup"].value
    for loop in kernel.loops:
        needed = loop.metrics["work.macs"].value if "work.macs" in loop.metrics else None
        repeated = loop.metrics["matrix.redundancy"].value if needed else None
        executed = loop.metrics["matrix.instructions"].value
        if not (needed and repeated and executed and waves):
            continue
        assert isinstance(executed, dict)
        done = sum(number * macs_of(name) for name, number in executed.items())
        yield loop, float(str(needed)) * float(str(repeated)), float(done * int(str(waves)))


def macs_of(instruction: str) -> int:
    """Multiply-accumulates of a matrix instruction, by its name: `v_mfma_f32_4x4x4_16b_f16`."""
    shape = SHAPE.search(instruction)
    assert shape is not None, instruction
    m, n, k, blocks = (int(number or 1) for number in shape.groups())
    return m * n * k * blocks


def differing_accesses(arch: str) -> int:
    """Executes the bundled kernels for a target; prints and counts the accesses that differ."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "script.py")
        path.write_text(SCRIPT)
        report = analysed(path, arch, emulate=True)
        for kernel in report.kernels:
            if kernel.emulated is None:
                continue
            counts["kernels"] += 1
            executed = {line.line: line for line in kernel.emulated.lines}
            for op in kernel.memory_ops:
                line = executed.get(op.line)
                if line is None or line.active_lanes is None:
                    continue
                outcome = compared(op.use, line, lanes_of(kernel))
                counts[outcome] += 1
                if outcome == DIFFERS:
                    print(f"{arch} {kernel.id}:{op.line} {op.mnemonic}: {op.use}, ran {line}")
    print(f"{arch}: {dict(counts)}", flush=True)
    return counts[DIFFERS]


def compared(use: LaneUse | None, line: EmulatedLine, lanes: int) -> str:
    """How what is derived of an access's lanes stands to what executions of it met.

    Lines are derived for a first lane at a line's begin where its address is not known.
    """
    if use is None or use.unknown:
        return "not decided"
    taking_part = (line.active_lanes or 0) * lanes
    if use.origin != "derived" or use.whole_waves or not math.isclose(use.lanes or 0, taking_part):
        return "estimated, or executed by other lanes"
    derived, counted = use.lines, line.cache_lines
    if use.conflicts is not None:
        derived, counted = use.conflicts, line.conflict_cycles
    if derived is None or counted is None:
        return "not decided"
    if math.isclose(derived, counted, abs_tol=1e-3):
        return "agree"
    if use.lines is not None and 0 < counted - derived < 1:
        return "agree but for where in a line the first lane lies"
    return DIFFERS


def lanes_of(kernel: KernelReport) -> int:
    """Lanes of a wave."""
    assert kernel.demand is not None
    return kernel.demand.wave_size or 64


if __name__ == "__main__":
    sys.exit(main())
