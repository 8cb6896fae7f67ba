"""The result of holding two versions of Triton responsible for a figure, layer by layer.

From the figures of a chain of compiles to the layer that is responsible. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ...metrics.given_metrics import US as TIME_US
from ...model import TimeChange
from ..passdiff import PassDifference
from ..stages import Comparison
from ..times import EQUAL, time_change

Layer = Literal["front_end", "option_default", "ttgir", "llvm_ir", "llvm_flag", "llvm"]
"""A layer of the compiler. `front_end`: from Python to TTIR. `option_default`: defaults of the AMD
backend's options, and of the switches that environment variables set. `ttgir`: the passes from TTIR
to TTGIR. `llvm_ir`: from TTGIR to LLVM IR, with LLVM's optimiser. `llvm_flag`: flags, target
features and function attributes that Triton gives LLVM's code generator. `llvm`: that itself."""
LAYERS: tuple[Layer, ...] = (
    "front_end",
    "option_default",
    "ttgir",
    "llvm_ir",
    "llvm_flag",
    "llvm",
)
COMPILE_SECONDS = "compile_seconds"
"""The metric of the time that a compile takes: CPU seconds from TTIR to the code object."""

Change = Literal["content", "order", "none", "unknown"]


class Step(Struct, frozen=True):
    """One compile of the chain that leads from the left Triton to the right one.

    Consecutive steps differ in one layer, `layer`, or in several where a compile between failed.

    Args:
        layers: those in which it differs from the last step before it that compiled.
        metrics: its figures by name; a figure that is unknown is missing.
        seconds: stage -> wall seconds that it took, of the stages behind the input.
        problem: why it does not compile; None if it does.
        respelled: whether the input was put into the compiling build's spelling, which may lose
            attributes that the older Triton does not write.
        cpu_seconds: stage -> CPU seconds, as `seconds`.
    """

    input: str
    input_from: str
    compiled_by: str
    options_from: str
    layers: tuple[Layer, ...]
    metrics: Mapping[str, float]
    seconds: Mapping[str, float]
    problem: str | None = None
    respelled: bool = False
    cpu_seconds: Mapping[str, float] = {}


class Share(Struct, frozen=True):
    """What a layer, or several that no compile tells apart, changes in the metric.

    Args:
        delta: figure with the right Triton's layers, minus that with the left's; None if unknown.
    """

    layers: tuple[Layer, ...]
    delta: float | None


class SlowPass(Struct, frozen=True):
    """The pass whose time changes most between the compiles before and after a layer's exchange.

    Args:
        before, after: wall seconds that it takes in one compile, the least of all compiles; 0 where
            it does not run.
    """

    level: str
    name: str
    before: float
    after: float


class Verdict(Struct, frozen=True):
    """The layer that is held responsible.

    Args:
        layers: the first layer of the pipeline that changes the metric the way the whole does, and
            by half of it or more; the one that changes it most where none makes half. Several where
            no compile tells them apart. Empty where the metric does not differ.
        pass_name: the first MLIR pass whose result differs in content; None outside of `ttgir` and
            `llvm_ir`, or where no dump tells. For a default: what it changes first.
        bisected: whether it was found by running the left build's passes up to it and the right
            one's from there, so that the metric itself tells; then the first that matters.
        options: option or environment variable -> defaults on both sides, where `option_default`
            is responsible: the one that makes half of the change or more by itself, if one does.
            Where `llvm_flag` is: `flags`, `features` or an attribute's name -> what Triton gives
            LLVM on both sides; None for an attribute that it does not set.
        slow_pass: the pass whose time changes most, where the metric is the compile's time.
        change: whether what the layer makes differs in content or in order alone.
        share: the part of the metric's whole change, 1 for all; None where that is 0 or unknown.
    """

    layers: tuple[Layer, ...]
    pass_name: str | None = None
    only_left: tuple[str, ...] = ()
    only_right: tuple[str, ...] = ()
    pass_options: tuple[str, str] | None = None
    options: Mapping[str, tuple[object, object]] = {}
    change: Change = "unknown"
    share: float | None = None
    slow_pass: SlowPass | None = None
    bisected: bool = False


class Blame(Struct, frozen=True):
    """Two builds, the chain of compiles between them, and the verdict.

    Args:
        steps: the chain, from the left build's own compile to the right's.
        shares: what each layer changes, in the order of the pipeline.
        comparison: the same TTIR compiled by both, stage by stage; None where one does not.
        no_time: why the time of the launch is not known; "" where it is.
    """

    kernel: str
    arch: str
    left: str
    right: str
    versions: tuple[str, str]
    metric: str
    steps: tuple[Step, ...]
    shares: tuple[Share, ...]
    verdict: Verdict
    comparison: Comparison | None
    no_time: str = ""

    @property
    def time(self) -> TimeChange | None:
        """From the left build's code to the right's; None where it is not known of both."""
        before, after = (self.steps[end].metrics.get(TIME_US) for end in (0, -1))
        return time_change(before, after)


FIGURES = (
    TIME_US,
    "vgpr_spill_count",
    "vgpr_count",
    "lds_bytes",
    "scratch_bytes",
    "count.instructions",
    "code_bytes",
)
"""Figures in which a metric is looked for when the user names none: the first that differs, the
time by more than the timing model tells apart."""
_STAGE_OF: Mapping[Layer, str] = {
    "front_end": "ttir",
    "ttgir": "ttgir",
    "llvm_ir": "llir",
    "llvm_flag": "amdgcn",
    "llvm": "amdgcn",
}
_PASSES_OF: Mapping[Layer, tuple[str, ...]] = {
    "ttgir": ("ttgir",),
    "llvm_ir": ("llir",),
    "option_default": ("ttgir", "llir"),
}
"""Layer -> the stages whose passes can show what it does."""
NOISE: Mapping[str, float] = {COMPILE_SECONDS: 0.15, TIME_US: EQUAL}
"""Share of a time that it may differ by: a compile's from run to run, a launch's by the model."""


def shares_of(steps: Sequence[Step], metric: str) -> tuple[Share, ...]:
    """Returns what each layer changes in a metric, in the order of the pipeline.

    Args:
        steps: the chain; steps that do not compile are skipped.
    """
    compiled = [step for step in steps if step.problem is None]
    shares = []
    for before, after in pairwise(compiled):
        figures = before.metrics.get(metric), after.metrics.get(metric)
        delta = None if None in figures else after.metrics[metric] - before.metrics[metric]
        shares.append(Share(after.layers, delta))
    return tuple(sorted(shares, key=lambda share: LAYERS.index(share.layers[0])))


def differing_metric(steps: Sequence[Step]) -> str:
    """Returns the first figure of `FIGURES` that differs between the ends of the chain."""
    first, last = steps[0].metrics, steps[-1].metrics
    known = [name for name in FIGURES if name in first and name in last]
    differing = (n for n in known if abs(last[n] - first[n]) > noise_of(n, first[n], last[n]))
    return next(differing, known[0] if known else FIGURES[1])


def noise_of(metric: str, first: float, last: float) -> float:
    """What a figure may differ by without meaning anything."""
    return NOISE.get(metric, 0.0) * min(first, last)


def guilty_of(shares: Sequence[Share], noise: float = 0.0) -> Share | None:
    """Returns the layers that are held responsible; None where the metric does not differ.

    Args:
        noise: what the metric may differ by; see `noise_of`.
    """
    deltas = [share.delta for share in shares if share.delta is not None]
    whole = sum(deltas)
    if not any(deltas) or abs(whole) < noise:
        return None
    for share in shares:
        if share.delta and whole and share.delta / whole >= 0.5:
            return share
    return max(shares, key=lambda share: abs(share.delta or 0))


def verdict_of(
    guilty: Share | None,
    shares: Sequence[Share],
    comparison: Comparison | None,
    same_ttir: bool | None,
    changed: Mapping[str, tuple[object, object]],
) -> Verdict:
    """Describes the layer that is responsible for the change of a metric.

    Args:
        comparison: two compiles between which that layer is exchanged, by their stages and passes.
        same_ttir: whether both front ends make the same TTIR; None if one makes none.
        changed: the defaults, flags or attributes that differ, where such a layer is responsible.
    """
    if guilty is None:
        return Verdict(())
    whole = sum(share.delta for share in shares if share.delta is not None)
    delta = guilty.delta or 0
    verdict = Verdict(guilty.layers, share=delta / whole if whole else None, options=changed)
    if "option_default" in guilty.layers:
        verdict = replace(verdict, change="content")
    if "front_end" in guilty.layers and same_ttir is not None:
        verdict = replace(verdict, change="none" if same_ttir else "content")
    if comparison is None:
        return verdict
    for layer in guilty.layers:
        if layer in ("ttgir", "llvm_ir", "llvm_flag", "llvm"):
            verdict = replace(verdict, change=_change(comparison, _STAGE_OF[layer]))
    place = _place(comparison, guilty.layers)
    if place is not None:
        verdict = replace(
            verdict,
            pass_name=place.name,
            only_left=place.left_only,
            only_right=place.right_only,
            pass_options=place.options,
        )
    return verdict


def _change(comparison: Comparison, stage: str) -> Change:
    """Returns how a stage of the comparison differs."""
    for difference in comparison.stages:
        if difference.stage == stage and difference.same is not None:
            if difference.same:
                return "none"
            return "order" if difference.kind == "order" else "content"
    return "unknown"


def _place(comparison: Comparison, layers: Sequence[Layer]) -> PassDifference | None:
    """Returns the first pass of the guilty layers after which the modules differ in content."""
    stages = {stage for layer in layers for stage in _PASSES_OF.get(layer, ())}
    lasting = [p for p in comparison.passes if p.lasts and p.stage in stages]
    contents = [p for p in lasting if not p.order_only and p.before is not None]
    return next(iter(contents or lasting), None)
