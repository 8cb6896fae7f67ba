"""From the figures of a chain of compiles to the layer that is responsible. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec.structs import replace

from ..passdiff import PassDifference
from ..stages import Comparison
from .results import LAYERS, Change, Layer, Share, Step, Verdict

FIGURES = (
    "vgpr_spill_count",
    "vgpr_count",
    "lds_bytes",
    "scratch_bytes",
    "count.instructions",
    "code_bytes",
)
"""Figures in which a metric is looked for when the user names none: the first that differs."""
_STAGE_OF: Mapping[Layer, str] = {
    "front_end": "ttir",
    "ttgir": "ttgir",
    "llvm_ir": "llir",
    "llvm": "amdgcn",
}


def shares_of(steps: Sequence[Step], metric: str) -> tuple[Share, ...]:
    """Returns what each layer changes in a metric, in the order of the pipeline.

    Args:
        steps: the chain; steps that do not compile are skipped.
        metric: the figure.
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
    return next((name for name in FIGURES if first.get(name) != last.get(name)), FIGURES[0])


def verdict_of(
    shares: Sequence[Share],
    comparison: Comparison | None,
    same_ttir: bool | None,
    defaults: Mapping[str, tuple[object, object]],
) -> Verdict:
    """Names the layer that is responsible for the change of a metric.

    Args:
        shares: see `shares_of`.
        comparison: the left build's TTIR compiled by both.
        same_ttir: whether both front ends make the same TTIR; None if one makes none.
        defaults: option -> its defaults on both sides, where they differ.
    """
    deltas = [share.delta for share in shares if share.delta is not None]
    whole = sum(deltas)
    if not any(deltas):
        return Verdict(())
    guilty = _guilty(shares, whole)
    delta = guilty.delta or 0
    verdict = Verdict(guilty.layers, share=delta / whole if whole else None)
    if "option_default" in guilty.layers:
        verdict = replace(verdict, options=defaults, change="content")
    if "front_end" in guilty.layers and same_ttir is not None:
        verdict = replace(verdict, change="none" if same_ttir else "content")
    if comparison is None:
        return verdict
    for layer in guilty.layers:
        if layer in ("ttgir", "llvm_ir", "llvm"):
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


def _guilty(shares: Sequence[Share], whole: float) -> Share:
    """Returns the first share of half the change or more, else the largest."""
    for share in shares:
        if share.delta and whole and share.delta / whole >= 0.5:
            return share
    return max(shares, key=lambda share: abs(share.delta or 0))


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
    stages = {_STAGE_OF[layer] for layer in layers if layer in ("ttgir", "llvm_ir")}
    lasting = [p for p in comparison.passes if p.lasts and p.stage in stages]
    contents = [p for p in lasting if not p.order_only and p.before is not None]
    return next(iter(contents or lasting), None)
