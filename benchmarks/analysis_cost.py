"""What parts of the analysis cost, against the compile: `python -m benchmarks.analysis_cost`.

Every kernel is compiled without the store; Triton's worker reports the CPU time of its stages. Its
assembly is then analysed in this process, with the TTGIR and code object as in a run, in turns with
and without what follows lanes (addresses, races, live registers, names), and the calls for live
registers and for names are timed apart. Seconds are CPU time, of each part the least of some runs.
Aims: live registers 5 % of the compile, all that follows lanes 15 %.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from kinspect.inspector.bench.suite import catalogue
from kinspect.inspector.compare.blame.timing import cpu_seconds
from kinspect.inspector.compile.pool import Compiler, CompileResult, CompileSettings
from kinspect.inspector.metrics import live_registers
from kinspect.inspector.model import Variant
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.context import Context
from kinspect.inspector.pipeline.jobs import Request
from msgspec.structs import replace

ALL = AnalysisOptions()
NO_LANES = replace(ALL, lanes=False, races=False, values=False)
WHOLE, WITHOUT, LIVE, NAMES = "analysis", "without lanes", "live registers", "their names"


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
    options = parser.parse_args()
    gc.set_threshold(500_000, 50, 50)  # as the command line has it
    targets = options.targets or [str(kernel.path) for kernel in catalogue.bundled()]
    report = collect(Request(tuple(targets), (options.arch,)))
    variants = [kernel.variant for kernel in report.kernels if kernel.variant is not None]
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
    for part in (WHOLE, WITHOUT, LIVE, NAMES):
        whole = 100 * sum(c.parts[part] for c in costs) / seconds
        most = max(costs, key=lambda c: c.share(part))
        median = statistics.median(c.share(part) for c in costs)
        print(
            f"{part:15} {whole:5.1f} % of all, median {median:5.1f} %, "
            f"most {most.share(part):5.1f} % ({most.name}, {most.compile:.2f} s)"
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
    for _ in range(runs):
        for name, analysis in ((WHOLE, ALL), (WITHOUT, NO_LANES)):
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
    return dict(least)


if __name__ == "__main__":
    main()
