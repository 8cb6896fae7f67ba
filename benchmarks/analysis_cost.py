"""What parts of the analysis cost, against the compile: `python -m benchmarks.analysis_cost`.

Every kernel is compiled without the store; Triton's worker reports the CPU time of its stages. Its
assembly is then analysed in this process, with the TTGIR and code object as in a run, in turns with
and without what follows lanes (addresses, races, live registers, names), and the calls for live
registers and for names are timed apart. Seconds are CPU time, of each part the least of some runs.
Aims: live registers 5 % of the compile, all that follows lanes 15 %.

With `--launches N`, scripts launch N cases of each bundled kernel, and what the time of each launch
adds is a part too. Aims: 30 % of the compile in the median, 1 s at most.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

from kinspect.inspector.bench.suite import catalogue
from kinspect.inspector.compare.blame.compiles import cpu_seconds
from kinspect.inspector.compile.pool import Compiler, CompileResult, CompileSettings
from kinspect.inspector.metrics import live_registers
from kinspect.inspector.model import Variant
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions, Context
from kinspect.inspector.pipeline.collecting import analyze
from kinspect.inspector.pipeline.events import Captured
from kinspect.inspector.pipeline.jobs import BESIDE, request_for, timing
from msgspec.structs import replace

from .timed_suite import script_of

ALL = AnalysisOptions()
NO_LANES = replace(ALL, lanes=False, races=False, values=False)
WHOLE, WITHOUT, LIVE, NAMES = "analysis", "without lanes", "live registers", "their names"
TIMED = "launch's time"


@dataclass(slots=True)
class Cost:
    """CPU seconds of one kernel."""

    name: str
    compile: float
    parts: dict[str, float] = field(default_factory=dict)

    def share(self, part: str) -> float:
        """A part in percent of the compile."""
        return 100 * self.parts[part] / self.compile


def main() -> None:
    """Times all kernels and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help="files; the bundled kernels without any")
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--launches", type=int, default=0, metavar="N")
    options = parser.parse_args()
    gc.set_threshold(500_000, 50, 50)  # as the command line has it
    with tempfile.TemporaryDirectory() as folder:
        targets = options.targets or [
            script_of(kernel.name, options.launches, Path(folder))
            if options.launches
            else kernel.path
            for kernel in catalogue.bundled()
        ]
        analysis = timing(NO_LANES) if options.launches else ALL
        request = request_for(targets, archs=[options.arch], jobs=1, analysis=analysis)
        captured = [event for event in analyze(request) if isinstance(event, Captured)]
    variants = [variant for event in captured for variant in event.variants]
    spent = timed_parts()
    compiler = Compiler(CompileSettings(read_store=False))
    costs = []
    with compiler:
        for variant in variants:
            result = compiler.compile(variant)
            stages = cpu_seconds(result)
            if result.error is not None or not stages:
                continue
            cost = Cost(variant.kernel, sum(stages.values()))
            cost.parts = parts_of(variant, result, spent, options.runs)
            costs.append(cost)
    seconds = sum(c.compile for c in costs)
    print(f"{len(costs)} kernels for {options.arch}, {seconds:.1f} s of compiles")
    for part in (WHOLE, WITHOUT, LIVE, NAMES, TIMED):
        known = [c for c in costs if part in c.parts]
        if not known:
            continue
        whole = 100 * sum(c.parts[part] for c in known) / seconds
        most = max(known, key=lambda c: c.share(part))
        median = statistics.median(c.share(part) for c in known)
        longest = max(known, key=lambda c: c.parts[part])
        print(
            f"{part:15} {whole:5.1f} % of all, median {median:5.1f} %, "
            f"most {most.share(part):5.1f} % ({most.name}, {most.compile:.2f} s), "
            f"longest {longest.parts[part]:.2f} s ({longest.name})"
        )


def timed_parts() -> dict[str, float]:
    """Makes the analysis add up the CPU time of the parts that are timed apart."""
    spent: dict[str, float] = defaultdict(float)

    def timed(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def run(*arguments: Any, **more: Any) -> Any:
            started = time.process_time()
            try:
                return call(*arguments, **more)
            finally:
                spent[name] += time.process_time() - started

        return run

    live_registers.followed = timed(LIVE, live_registers.followed)
    live_registers.named = timed(NAMES, live_registers.named)
    return spent


def parts_of(
    variant: Variant, result: CompileResult, spent: dict[str, float], runs: int
) -> dict[str, float]:
    """The least CPU seconds of each part."""
    assembly, ttgir = (
        result.artifacts[name].path.read_text("utf-8", "replace") for name in ("amdgcn", "ttgir")
    )
    least: dict[str, float] = defaultdict(lambda: float("inf"))
    analyses = {WHOLE: ALL, WITHOUT: NO_LANES}
    if variant.passed is not None:
        analyses[TIMED] = timing(NO_LANES, **BESIDE)
    for _ in range(runs):
        for name, analysis in analyses.items():
            context = Context(
                variant.kernel,
                arch=variant.arch,
                metadata=result.metadata,
                ttgir=ttgir,
                variant=variant,
                artifacts=result.artifacts,
                code_object=result.artifacts["hsaco"].path,
                analysis=analysis,
            )
            spent.clear()
            started = time.process_time()
            analyze_text(assembly, context)
            least[name] = min(least[name], time.process_time() - started)
            if analysis is ALL:
                for part in (LIVE, NAMES):
                    least[part] = min(least[part], spent[part])
    if TIMED in least:
        least[TIMED] = max(0.0, least[TIMED] - least[WITHOUT])
    return dict(least)


if __name__ == "__main__":
    main()
