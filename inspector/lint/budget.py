"""Budgets: limits that a project sets on metrics of its kernels, evaluated as rules."""

from __future__ import annotations

import json
import re

from msgspec.structs import replace

from ..base.errors import KinspectError
from ..model import Finding, KernelReport
from ..model.metric import metric_of
from .catalogue import Catalogue
from .engine import evaluate, fingerprint
from .finding_places import SourceText
from .packs import parse_pack
from .rule import Pack

BUDGET = "budget"
"""The id that findings about budgets have."""
NAME = "over-budget"

_COMPARISON = re.compile(r"(?:[<>]=?|[=!]=)\s*\S")
_PLACE = re.compile(r"^.*?:\d+:\d+: ")
_HOT_LOOPS = "hot_loops."
_EXPLAIN = (
    "The project has set a limit for this figure, because the kernel's speed rests on it: registers"
    " decide how many waves are resident, spills and scratch memory cost traffic on every access."
)
_FIX = (
    "Compare with the last version that kept the budget (kinspect diff OLD NEW); if the new figure"
    " is wanted, change the budget."
)


def budget_rule(metric: str, limit: float | str, label: str, catalogue: Catalogue) -> Pack:
    """A pack whose only rule is the budget: the most that is allowed, or a comparison, `>= 2`.

    The metric may have its short name (`model/metric.py`); `label` names the setting in messages.

    Raises:
        KinspectError: there is no such metric, or its values cannot be compared so.
    """
    told, metric = metric, metric_of(metric)
    if catalogue.find(metric) is None:
        raise KinspectError(
            f"no metric {metric}{catalogue.suggest(metric)}", "see kinspect metrics"
        )
    if isinstance(limit, str):
        if not _COMPARISON.match(limit.strip()):
            raise KinspectError(f"{limit!r} is not a comparison", 'write a number, or ">= 2"')
        require = f"{metric} {limit.strip()}"
    else:
        require = f"{metric} <= {limit}"
    safe_label = label.replace("{", "(").replace("}", ")")
    rule = {
        "id": BUDGET,
        "name": NAME,
        "severity": "error",
        "scope": "kernel",
        "require": require,
        "message": f"{told} is {{{metric}}}, the budget of {safe_label} is {_limit_text(limit)}",
        "explain": _EXPLAIN,
        "fix": _FIX,
    }
    try:
        return parse_pack(json.dumps({"pack": BUDGET, "rules": [rule]}), BUDGET, catalogue)
    except KinspectError as error:
        # The place in the text made here means nothing to anyone; the same fault shows up in
        # condition and message.
        first = error.message.split("\n")[0]
        raise KinspectError(_PLACE.sub("", first), error.hint) from None


def _limit_text(limit: float | str) -> str:
    return limit.strip().replace("{", "(") if isinstance(limit, str) else f"{limit:,}"


def over_budget(
    metric: str, pack: Pack, kernel: KernelReport, source_text: SourceText | None
) -> tuple[Finding, ...]:
    """Returns a kernel's findings for a budget: none if it is kept, or the figure is unknown."""
    findings = evaluate(pack, kernel, source_text)
    return tuple(replace(f, fingerprint=_fingerprint(metric, kernel, f)) for f in findings)


def _fingerprint(metric: str, kernel: KernelReport, finding: Finding) -> str:
    """Another one for each metric: a kernel may be over several budgets."""
    anchor = finding.anchor
    text = anchor.text if anchor is not None and anchor.kind == "source" else ""
    return fingerprint(f"{BUDGET} {metric}", kernel.id, -1, text)


def unknown_metrics(pack: Pack, kernel: KernelReport) -> tuple[str, ...]:
    """The metrics without which a budget cannot be judged, those that are not known."""
    names = dict.fromkeys(n.metric for rule in pack.rules for n in rule.require.names)
    return tuple(n for n in names if _unknown(n.removeprefix(_HOT_LOOPS), kernel))


def _unknown(metric: str, kernel: KernelReport) -> bool:
    return metric not in kernel.metrics or kernel.metrics[metric].value is None
