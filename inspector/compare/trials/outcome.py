"""The outcome of one changed kernel: time, figures, findings with their places."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from ...base.version import VERSION
from ...lint.rule import Pack, Rule
from ...metrics import given_metrics
from ...model import (
    ErrorRecord,
    Finding,
    KernelReport,
    Metric,
    Scalar,
    Variant,
)
from ...pipeline import analysis
from ...pipeline.jobs import Job
from ..points import run
from ..sweep.figures import Figures, figures_of
from .candidates import loop_of

if TYPE_CHECKING:
    from ...compile.pool import Compiler

FORMAT = 4
"""Raised when the outcome of an unchanged compile would change."""
_OVERLAP = 0.25
"""Share of their source lines that two loops have in common at least to count as one."""


class PlacedFinding(Struct, frozen=True):
    """A finding and the loop that it is about.

    Args:
        lines: source lines of the innermost loop around it, as (file, line), sorted; none for the
            kernel as a whole or where they are not known.
    """

    rule: str
    severity: str
    lines: tuple[tuple[str, int], ...] = ()

    def is_at(self, other: PlacedFinding) -> bool:
        """Whether both are about the same loop, as far as is known."""
        mine, others = set(self.lines), set(other.lines)
        if not mine or not others:
            return True
        return len(mine & others) >= _OVERLAP * len(mine | others)


class Unknown(Struct, frozen=True):
    """Metrics that are not known of a kernel (no `lines`), or of one of its loops."""

    lines: tuple[tuple[str, int], ...]
    metrics: tuple[str, ...]


def as_metrics(figures: Figures) -> dict[str, Scalar]:
    """The figures that are told, by name."""
    return {
        given_metrics.US: figures.time_us,
        "vgpr_spill_count": figures.vgpr_spills,
        "scratch_in_loops": figures.scratch_in_loops,
        "vgpr_count": figures.vgprs,
        "agpr_count": figures.agprs,
        "lds_bytes": figures.lds_bytes,
        "waves_per_workgroup": figures.waves_per_workgroup,
        "occupancy.waves_per_eu": figures.waves_per_eu,
        "occupancy.limiter": figures.limiter,
        "code_bytes": figures.code_bytes,
    }


class _Found(Struct, frozen=True):
    """What the store keeps of an outcome.

    Args:
        unknown: what is not known of it, so that no rule can speak of it.
        no_time: why the time of its launch is not known; "" where it is.
    """

    figures: Figures
    findings: tuple[PlacedFinding, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    no_time: str = ""


class TrialOutcome(Struct, frozen=True):
    """What became of one changed kernel: plain values, so that any Executor can pass it on.

    Args:
        figures: None where it failed; for the others see `_Found`.
        host: the machine that has the artifacts; None for this one.
    """

    figures: Figures | None
    findings: tuple[PlacedFinding, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    no_time: str = ""
    error: ErrorRecord | None = None
    from_store: bool = False
    seconds: float = 0.0
    host: str | None = None


def run_trial(job: Job, compiler: Compiler | None = None) -> TrialOutcome:
    """Compiles and analyses a changed kernel; see `points.run`."""
    ran = run(job, compiler, _note_name(job), _found, _Found)
    if ran.kept is None:
        return TrialOutcome(None, error=ran.error, seconds=ran.seconds)
    return TrialOutcome(**asdict(ran.kept), from_store=ran.from_store, seconds=ran.seconds)


def _found(report: KernelReport) -> _Found:
    found = placed(report.findings, report)
    return _Found(figures_of(report), found, unknown_of(report), report.no_time or "")


def placed(findings: Iterable[Finding], report: KernelReport) -> tuple[PlacedFinding, ...]:
    """The findings of a report with the source lines of their loops."""
    placed_findings = []
    for finding in findings:
        loop = loop_of(finding, report)
        lines = sorted({(at.file, at.line) for at in loop.source}) if loop is not None else ()
        placed_findings.append(PlacedFinding(finding.rule, finding.severity, tuple(lines)))
    return tuple(placed_findings)


def unknown_of(report: KernelReport) -> tuple[Unknown, ...]:
    """The metrics that are not known of a kernel and of its loops."""
    unknown = [Unknown((), _unknown_names(report.metrics.values()))]
    for loop in report.loops:
        lines = tuple(sorted({(at.file, at.line) for at in loop.source}))
        unknown.append(Unknown(lines, _unknown_names(loop.metrics.values())))
    return tuple(part for part in unknown if part.metrics)


def _unknown_names(metrics: Iterable[Metric]) -> tuple[str, ...]:
    return tuple(m.name for m in metrics if m.value is None)


def is_gone(
    finding: PlacedFinding,
    rule: Rule,
    before: Iterable[PlacedFinding],
    after: TrialOutcome,
    kin: Mapping[str, frozenset[str]],
) -> bool | None:
    """Whether a finding is gone, and none that says the same of its loop has come in its place.

    Args:
        kin: rule -> the other rules of its cause.

    Returns:
        None where what the rule demands is not known of the changed kernel.
    """
    related = kin.get(finding.rule, frozenset())
    present = {other.rule for other in before if other.is_at(finding)}
    if any(
        other.rule == finding.rule or (other.rule in related and other.rule not in present)
        for other in after.findings
        if other.is_at(finding)
    ):
        return False
    demanded = {name.name for name in rule.require.names}
    for part in after.unknown:
        in_kernel = not finding.lines or rule.text.scope == "kernel"
        concerns = not part.lines if in_kernel else PlacedFinding("", "", part.lines).is_at(finding)
        if concerns and demanded.intersection(part.metrics):
            return None
    return True


def new_rules(before: Iterable[PlacedFinding], after: Iterable[PlacedFinding]) -> tuple[str, ...]:
    """The rules that find something where they found nothing before."""
    earlier = list(before)
    return tuple(
        dict.fromkeys(
            found.rule
            for found in after
            if not any(found.rule == old.rule and found.is_at(old) for old in earlier)
        )
    )


def kin_of(pack: Pack) -> dict[str, frozenset[str]]:
    """Rule -> the other rules of its cause."""
    of_cause: dict[str, set[str]] = {}
    for rule in pack.rules:
        if rule.text.cause:
            of_cause.setdefault(rule.text.cause, set()).add(rule.text.id)
    return {rule: frozenset(alike - {rule}) for alike in of_cause.values() for rule in alike}


def _note_name(job: Job) -> str:
    """Name of the store's note beside a compile: it holds all else that the outcome depends on."""
    pack = job.analysis.rules or analysis.default_pack()
    variant: Variant = replace(job.variant, ttir="")
    facts = [
        [rule.text for rule in pack.rules],
        variant,
        [job.analysis.lanes, job.analysis.races, job.analysis.values, job.analysis.time],
    ]
    digest = hashlib.sha256(msgspec.json.encode(facts, enc_hook=str)).hexdigest()[:16]
    return f"trial-v{FORMAT}-{analysis.ANALYSIS_VERSION}-{VERSION}-{digest}.json"
