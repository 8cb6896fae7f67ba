"""A time or a reason for every launch of the bundled kernels: `python -m benchmarks.timed_suite`.

Scripts launch all cases of each bundled kernel, small and published sizes, for each target; each
launch is timed as `kinspect time` does. It ends with 1 if a launch has neither a time nor a reason,
if the reason is a bug of kinspect's, or if a figure cannot be one. What was compiled before comes
from the store.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from kinspect.inspector.bench.suite import catalogue
from kinspect.inspector.capture.options import CaptureOptions
from kinspect.inspector.model import KernelReport
from kinspect.inspector.model.time import KernelTime, LoopTime
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import request_for, timing

ARCHS = ("gfx942", "gfx950", "gfx90a", "gfx1100", "gfx1201")
SCRIPT = """
from kinspect.kernels import {name} as module
cases = [*module.CASES, *module.BENCH]
for case in cases[:: -(-len(cases) // {most})]:
    try:
        module.launch(**module.make_inputs(case, "cuda"))
    except Exception as error:  # what this target cannot do
        print(case.get("name"), error)
"""
_NUMBER = re.compile(r"\d[\d,.]*")
_MOST_SUM = 1.001
"""Of shares that add up to the whole: each is rounded."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Times them all, prints what came of them and what is wrong with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*", help="names of bundled files; all without any")
    parser.add_argument("--arch", action="append")
    parser.add_argument("--savings", action="store_true", help="work out the savings as well")
    parser.add_argument("--most", type=int, default=1000, help="cases of a kernel, of all of them")
    options = parser.parse_args(arguments)
    names = options.kernels or [kernel.name for kernel in catalogue.bundled()]
    faults = 0
    for arch in options.arch or ARCHS:
        outcomes: Counter[str] = Counter()
        started = time.monotonic()
        for name in names:
            for report in launches(name, arch, options.most, savings=options.savings):
                outcomes[outcome_of(report)] += 1
                for fault in faults_of(report):
                    faults += 1
                    print(f"  {report.id}: {fault}", flush=True)
            print(f"  {arch} {name}: {sum(outcomes.values())} launches so far", file=sys.stderr)
        seconds = time.monotonic() - started
        print(f"{arch}: {sum(outcomes.values())} launches in {seconds:.0f} s", flush=True)
        for outcome, count in outcomes.most_common():
            print(f"  {count:5} {outcome}", flush=True)
    print(f"{faults} faults")
    return 1 if faults else 0


def launches(name: str, arch: str, most: int, *, savings: bool) -> tuple[KernelReport, ...]:
    """The reports on the launches of a bundled kernel's cases."""
    with tempfile.TemporaryDirectory() as folder:
        path = script_of(name, most, Path(folder))
        asked = timing(AnalysisOptions(lanes=False, races=False, values=False), savings=savings)
        slow = CaptureOptions(time_limit=900.0)
        request = request_for([path], archs=[arch], jobs=1, analysis=asked, capture=slow)
        report = collect(request)
    for error in report.errors:
        print(f"  {name} {arch}: {error.kernel}: {error.message}", flush=True)
    return report.kernels


def script_of(name: str, most: int, folder: Path) -> Path:
    """A script that launches a bundled kernel's cases, `most` of all of them."""
    path = folder / f"{name}_cases.py"
    path.write_text(SCRIPT.format(name=name, most=most))
    return path


def outcome_of(report: KernelReport) -> str:
    """`a time`, or the reason without its figures."""
    if report.time is not None:
        return "a time"
    return _NUMBER.sub("N", report.no_time or "neither a time nor a reason")


def faults_of(report: KernelReport) -> Iterator[str]:
    """Yields what cannot be of a launch's time, or of the reason why there is none."""
    if report.time is None:
        if not report.no_time:
            yield "neither a time nor a reason"
        elif report.no_time.startswith("internal error"):
            yield report.no_time
        return
    yield from impossible(report.time, report.loop_times)


def impossible(found: KernelTime, loops: Sequence[LoopTime]) -> Iterator[str]:
    """Yields the figures of a time, or of its loops, that cannot be."""
    times = {"us": found.us, "low": found.low, "high": found.high, "cycles": found.cycles}
    times |= {} if found.warm_us is None else {"warm_us": found.warm_us}
    times |= {f"without {saving.change}": saving.us for saving in found.savings}
    for name, value in times.items():
        if not (math.isfinite(value) and value >= 0):
            yield f"{name} is {value}"
    if not found.us > 0:
        yield f"us is {found.us}"
    if not found.low <= found.us <= found.high:
        yield f"{found.us} us is not between {found.low} and {found.high}"
    shares = {f"unit {name}": share for name, share in found.units.items()}
    shares |= {f"stall {stall.reason}": stall.share for stall in found.stalls}
    shares |= {f"line {line.line}": line.share for line in found.lines}
    shares |= {f"loop {loop.loop}": loop.share or 0.0 for loop in loops}
    shares |= {f"saving {s.change}": s.percent / 100 for s in found.savings}
    for name, share in shares.items():
        if not 0 <= share <= 1:
            yield f"the share of {name} is {share}"
    # Units are busy side by side; the others share the time among them.
    parts = {
        "stalls": [stall.share for stall in found.stalls],
        "lines": [line.share for line in found.lines],
        "loops": [loop.share or 0.0 for loop in loops],
    }
    for name, each in parts.items():
        if sum(each) > _MOST_SUM:
            yield f"shares of {name} sum to {sum(each):.4f}"


if __name__ == "__main__":
    raise SystemExit(main())
