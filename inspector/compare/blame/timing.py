"""The time that the compiles of a chain take, and the pass that makes two of them differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...base.named_files import file_text
from ...compile.llvm_passes import PassTime, pass_times
from ...compile.pool import Compiler, CompileResult, LateStart
from ...model import Variant
from .results import SlowPass

REPEATED_BELOW = 3.0
"""CPU seconds below which a compile is timed again: the least of `MOST_RUNS` runs counts."""
MOST_RUNS = 3
STAGES = ("ttgir", "llir", "amdgcn", "hsaco")


def fastest(
    compiler: Compiler, variant: Variant, late_start: LateStart | None = None
) -> tuple[CompileResult, tuple[PassTime, ...]]:
    """Compiles a variant, several times if that is short, and returns the run of least CPU time.

    Returns:
        That run, and the least time of each pass; without passes if it does not compile.
    """
    best: CompileResult | None = None
    least: dict[tuple[str, str], PassTime] = {}
    for _ in range(MOST_RUNS):
        result = compiler.compile(variant, anew=True, late_start=late_start)
        if result.error is not None:
            return result, ()
        text = file_text(result.artifacts["stderr"].path)
        # Passes are timed by the clock on the wall, which counts what other processes take.
        for item in pass_times(text):
            key = item.level, item.name
            least[key] = min(item, least.get(key, item), key=lambda time: time.seconds)
        if best is None or sum(cpu_seconds(result).values()) < sum(cpu_seconds(best).values()):
            best = result
        if sum(cpu_seconds(result).values()) > REPEATED_BELOW:
            break
    assert best is not None
    return best, tuple(least.values())


def cpu_seconds(result: CompileResult) -> Mapping[str, float]:
    """Returns stage -> CPU seconds, for the stages whose time is known."""
    return {s.stage: s.cpu_seconds for s in result.stages if s.cpu_seconds is not None}


def seconds_from_ttir(
    own: Mapping[str, float], stage: str, first: Mapping[str, float]
) -> float | None:
    """Returns the CPU seconds from TTIR to the code object; None if those of a stage are unknown.

    Args:
        own: stage -> seconds, behind the input.
    """
    made = STAGES.index(stage) + 1 if stage in STAGES else 0
    times = [first.get(name) for name in STAGES[:made]]
    times += [own.get(name) for name in STAGES[made:]]
    return None if None in times else sum(time for time in times if time is not None)


def slow_pass(before: Sequence[PassTime], after: Sequence[PassTime]) -> SlowPass | None:
    """Returns the pass whose time grows most, or shrinks most where none grows.

    Only levels that both compiles have count: a compile of LLVM IR runs no MLIR passes.
    """
    levels = {item.level for item in before} & {item.level for item in after}
    times = [
        {(item.level, item.name): item.seconds for item in side if item.level in levels}
        for side in (before, after)
    ]
    pairs = [
        SlowPass(level, name, times[0].get((level, name), 0.0), times[1].get((level, name), 0.0))
        for level, name in dict.fromkeys((*times[1], *times[0]))
    ]
    growing = [pair for pair in pairs if pair.after > pair.before]
    return max(growing or pairs, key=lambda pair: abs(pair.after - pair.before), default=None)
