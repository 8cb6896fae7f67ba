"""From the figures of a chain of compiles to the layer that is responsible. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec.structs import replace

from ...metrics.times import US as TIME_US
from ..passdiff import PassDifference
from ..stages import Comparison
from ..times import EQUAL
from .results import COMPILE_SECONDS, LAYERS, Change, Layer, Share, Step, Verdict

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
