"""What was tried for a finding, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..model import Change, Finding, KernelReport, Scalar, Trial
from . import time_view, view
from .view import plural

MOST_FAILED = 6
"""Changes that are no cure and are named."""
MOST_HELPED = 4
_SPILLS, _WAVES = "vgpr_spill_count", "occupancy.waves_per_eu"
_FIGURES = {
    _SPILLS: "{} spill{}",
    _WAVES: "{} wave{}/SIMD",
    "vgpr_count": "{} VGPRs",
    "lds_bytes": "LDS {} B",
}
"""Metric -> its value and a plural's ending, in words."""
MOST_REASON = 60
"""Characters of why a change failed."""


def changes_text(changes: Sequence[Change]) -> str:
    """`waves_per_eu=0 and BLOCK_N=32`; of the kernel without a change, "baseline"."""
    return " and ".join(map(_change_text, changes)) or "baseline"


def _change_text(change: Change) -> str:
    """`num_warps=8`, `tl.exp2(…) for tl.exp(x)`, `no do_not_specialize` or `n: tl.constexpr`."""
    if change.kind == "argument":
        return f"{change.name}: tl.constexpr"
    if change.kind == "source" and change.value is None:
        of = f" of {change.before}" if change.name == "annotation" else ""
        return f"no {change.name}{of}"
    if change.kind == "source" and change.name == change.before:
        return f"{change.value} for {change.name}"
    return f"{change.name}={change.value}"


def steps_text(changes: Sequence[Change]) -> str:
    """`num_warps 4 → 1 and BLOCK_N=32`: what is known of both sides; "baseline" for no change."""
    return " and ".join(map(_step_text, changes)) or "baseline"


def _step_text(change: Change) -> str:
    if change.kind in ("argument", "source") or change.before in (None, ""):
        return _change_text(change)
    return f"{change.name} {change.before} → {change.value}"


def fastest_text(trial: Trial) -> str:
    """`num_warps 4 → 2: 41 → 29 µs (-29 %; -42 to -13 %)`: a change that no finding asks for."""
    time = f": {time_view.difference(trial.time)}" if trial.time is not None else ""
    return steps_text(trial.change) + time


def findings_summary(kernel: KernelReport) -> str:
    """The numbers of findings by severity, or that there are none.

    Spills in hot loops without a known remedy produce no finding, and code that was not read none.
    """
    findings = kernel.findings
    if not findings and kernel.fastest is not None:
        return f"no finding; tried, faster: {fastest_text(kernel.fastest)}"
    if not findings and kernel.unread:
        return "no finding in what was read"
    if not findings:
        spills = view.spills_in_hot_loops(kernel)
        if spills:
            return view.NO_REMEDY.format(spills=spills)
        if kernel.time is None:
            return "no finding, and no time is known"
        return f"no finding, {view.leads_summary(kernel)}" if kernel.leads else view.NOTHING_FOUND
    return f"{plural(len(findings), 'finding')} ({view.severities(f.severity for f in findings)})"


def tried_lines(finding: Finding) -> list[str]:
    """A sentence for each of the changes that helped a finding's kernel, and one on the others.

    Returns:
        Such as `tried: waves_per_eu 2 → 0: 41 → 29 µs (-29 %; -42 to -13 %), gone, 0 spills (was
        364), same 1 wave/SIMD`, the fastest first.
    """
    trials = _told(finding)
    helped = [trial for trial in trials if trial.helped]
    lines = [
        f"tried: {_with_equals(trial, finding.trials)}: {outcome_text(trial)}"
        for trial in helped[:MOST_HELPED]
    ]
    is_timed = any(trial.time is not None for trial in trials)
    if len(helped) > MOST_HELPED:
        more = plural(len(helped) - MOST_HELPED, "more change")
        lines.append(f"and {more} {'faster' if is_timed else 'rid of it'}")
    failed = [_failed_text(trial, is_timed) for trial in trials if not trial.helped]
    if failed:
        more = f" and {len(failed) - MOST_FAILED} more" if len(failed) > MOST_FAILED else ""
        why = "not faster" if is_timed else "no cure"
        lines.append(f"tried, {why}: {', '.join(failed[:MOST_FAILED])}{more}")
    if not is_timed:
        reasons = dict.fromkeys(trial.no_time for trial in trials if trial.no_time)
        lines += [f"time unknown: {reason}" for reason in reasons]
    return lines


def told_in_full(finding: Finding) -> tuple[tuple[Change, ...], ...]:
    """The changes of which `tried_lines` has all figures."""
    return tuple(trial.change for trial in _told(finding) if trial.helped)[:MOST_HELPED]


def _told(finding: Finding) -> list[Trial]:
    """The trials but those with the same code as another one that is told."""
    changes = {trial.change for trial in finding.trials}
    return [t for t in finding.trials if not t.same_as or t.same_as not in changes]


def _with_equals(trial: Trial, trials: Sequence[Trial]) -> str:
    """A change and, in brackets, those that gave the same code."""
    equal = [steps_text(t.change) for t in trials if t.same_as == trial.change]
    return steps_text(trial.change) + (f" (same code: {', '.join(equal)})" if equal else "")


def remark(trial: Trial) -> str:
    """Why a change failed or cannot be launched, or what is new with it; "" for nothing."""
    if trial.failure:
        text = f"failed: {' '.join(trial.failure.split())}"
        return text if len(text) <= MOST_REASON else f"{text[: MOST_REASON - 1]}…"
    if trial.launches is False:
        return "cannot launch"
    if trial.same_as is not None:
        return f"same code as {steps_text(trial.same_as)}"
    return f"new: {' '.join(trial.new)}" if trial.new else ""


def outcome_text(trial: Trial) -> str:
    """The time of a change, whether the finding is gone, and what it does to the code's figures."""
    metrics, diff = trial.metrics, trial.diff
    parts = [
        time_view.difference(trial.time) if trial.time is not None else "",
        "gone" if trial.gone else "the finding stays" if trial.gone is False else "",
        *(_figure(name, words, metrics, diff) for name, words in _FIGURES.items()),
    ]
    if trial.new:
        parts.append(f"new: {', '.join(trial.new)}")
    return ", ".join(part for part in parts if part)


def _failed_text(trial: Trial, is_timed: bool) -> str:
    """A change that did not help, with why in brackets where it is more than that."""
    text = steps_text(trial.change)
    if trial.failure:
        return f"{text} (failed)"
    if trial.launches is False:
        return f"{text} (cannot launch)"
    if trial.same_code:
        return f"{text} (same code)"
    if trial.new_errors:
        return f"{text} (new: {', '.join(trial.new_errors)})"
    if trial.time is not None:
        equal = ", equal" if trial.time.verdict == "equal" else ""
        return f"{text} ({time_view.amount(trial.time.us)}{equal})"
    if is_timed:
        return f"{text} (time unknown: {trial.no_time})"
    if trial.gone is None:
        return f"{text} (not decided)"
    spills = trial.diff.get("vgpr_spill_count")
    return f"{text} ({_number(spills[1])} spills, was {_number(spills[0])})" if spills else text


def _figure(
    name: str, words: str, metrics: Mapping[str, Scalar], diff: Mapping[str, tuple[Scalar, Scalar]]
) -> str:
    """A figure of the code and what it was before; if it is the same, of spills and waves alone."""
    if name in diff:
        before, after = diff[name]
        return f"{words.format(_number(after), '' if after == 1 else 's')} (was {_number(before)})"
    value = metrics.get(name)
    if name == _WAVES and value is not None:
        return f"same {words.format(_number(value), '' if value == 1 else 's')}"
    is_kept = name == _SPILLS and isinstance(value, int) and value
    return f"{plural(value, 'spill')} as before" if is_kept else ""  # type: ignore[arg-type]


def _number(value: Scalar) -> str:
    """A figure in three or four digits; `?` where it is unknown."""
    if value is None:
        return "?"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
