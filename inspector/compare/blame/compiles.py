"""Captures one kernel by several Tritons and compiles it, with its figures and pass times.

The time that the compiles of a chain take, and the pass that makes two of them differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ...base.errors import KinspectError
from ...base.named_files import file_text
from ...capture.targets import Target
from ...compile.llvm_passes import TIMING, PassTime, pass_times
from ...compile.passes import PassDump, read_passes
from ...compile.pool import Compiler, CompileResult, LateStart
from ...model import KernelReport, Variant
from ...pipeline.analysis import analyze_text
from ...pipeline.analysis_options import Context
from ...pipeline.capturing import variants_of
from ...pipeline.jobs import Request, settings_of
from ...pipeline.naming import label_of
from ..stages import Side
from .blamed_layers import SlowPass


class Compiled(Struct, frozen=True):
    """A compile with its report; `problem` says why there is none."""

    result: CompileResult
    report: KernelReport | None
    problem: str | None
    respelled: bool = False
    times: tuple[PassTime, ...] = ()


class Build(Struct, frozen=True):
    """A Triton of the run, with the environment that its compiler sets."""

    label: str
    version: str
    compiler: Compiler


def build_of(name: str, compiler: Compiler) -> Build:
    """Returns the build that a user calls by a label or a path.

    Raises:
        KinspectError: there is no usable Triton.
    """
    version = compiler.toolchain().triton_version
    label = name if "/" not in name else f"Triton {version}"
    return Build(label, version, compiler)


class Kernel(Struct, frozen=True):
    """The kernel that is compiled."""

    request: Request
    target: Target
    timed: bool

    def compiler(self, python: str, environment: tuple[tuple[str, str], ...] = ()) -> Compiler:
        """Returns a compiler that also dumps the passes, or one that prints their times."""
        settings: Any = settings_of(replace(self.request, python=python, passes=not self.timed))
        timing = TIMING if self.timed else ()
        return Compiler(replace(settings, environment=(*environment, *timing)))

    def variant(self, build: Build, like: Variant | None = None) -> Variant:
        """Returns the kernel as a build's own front end makes it.

        Args:
            like: the kernel as another build's front end makes it; None for the only one.

        Raises:
            KinspectError: there is not one such kernel.
        """
        variants, errors = variants_of(self.target, self.request, build.compiler)
        if like is not None:
            name = label_of(like)
            variants = [v for v in variants if label_of(v) == name and v.arch == like.arch][:1]
        if not variants:
            reason = errors[0].message if errors else "no kernel in it"
            raise KinspectError(f"{build.label}: {reason}", "see `kinspect analyze`")
        if len(variants) > 1:
            names = ", ".join(label_of(v) for v in variants[:8])
            raise KinspectError(
                f"{self.request.targets[0]}: it has {len(variants)} kernels",
                f"choose one with --kernel: {names}",
            )
        return variants[0]

    def compiled(
        self, build: Build, variant: Variant, late_start: LateStart | None = None
    ) -> Compiled:
        """Compiles it from any stage on; the fastest of some runs if the time is the metric."""
        times: tuple[PassTime, ...] = ()
        if self.timed:
            result, times = fastest(build.compiler, variant, late_start)
        else:
            result = build.compiler.compile(variant, late_start=late_start)
            if result.from_store and (result.llvm is None or result.switches is None):
                # Stored by a version that did not record them.
                result = build.compiler.compile(variant, anew=True, late_start=late_start)
        if result.error is not None:
            return Compiled(result, None, result.error.message)
        assembly = file_text(result.artifacts["amdgcn"].path)
        context = Context(
            str(self.target.path),
            arch=variant.arch,
            metadata=result.metadata,
            variant=variant,
            artifacts=result.artifacts,
            analysis=self.request.analysis,
        )
        reports = list(analyze_text(assembly, context))
        if len(reports) != 1:
            return Compiled(result, None, f"{len(reports)} kernels in its assembly")
        return Compiled(result, reports[0], None, times=times)


def side_of(label: str, compiled: Compiled) -> Side:
    """Returns a compile as a side of a comparison."""
    result = compiled.result
    ends = tuple((s.stage, s.dump_bytes) for s in result.stages if s.dump_bytes is not None)
    return Side(label, result.artifacts, ends, compiled.report)


def pass_dump(compiled: Compiled) -> PassDump | None:
    """Returns the dump of its MLIR passes; None without one."""
    side = side_of("", compiled)
    artifact = side.artifacts.get("passes")
    return None if artifact is None else read_passes(artifact.path, side.stage_ends, changes=False)


def figures_of(compiled: Compiled) -> Mapping[str, float]:
    """Returns its metrics that are numbers, by name."""
    if compiled.report is None:
        return {}
    return {
        name: metric.value
        for name, metric in compiled.report.metrics.items()
        if isinstance(metric.value, int | float) and not isinstance(metric.value, bool)
    }


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
