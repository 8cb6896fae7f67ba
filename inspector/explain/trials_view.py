"""What was tried for a finding, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..model import Change, Finding, Scalar, Trial
from .view import plural

MOST_FAILED = 6
"""Changes that are no cure and are named."""
MOST_HELPED = 4
_WANTED_LESS = {
    "LDS conflict cycles": "lds_conflicts_per_work",
    "full waits": "full_waits_per_work",
    "cycles at least": "bound_per_work",
    "vector cycles": "vector_per_work",
}
"""Title -> metric: of a change that is no cure, the first that became less is told."""
MOST_REASON = 60
"""Characters of why a change failed."""
_PER = {"mac": "MMAC", "element": "kelem"}
"""Kind of needed work -> what a figure is told per: a million multiply-accumulates, or a thousand
loaded elements."""


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


def tried_lines(finding: Finding) -> list[str]:
    """A sentence for each of the changes that are rid of a finding, and one on the others.

    Returns:
        Such as `tried: waves_per_eu=0: gone, 0 spills (was 364), 1 wave/EU as before`.
    """
    told = {trial.change for trial in finding.trials}
    trials = [t for t in finding.trials if not t.same_as or t.same_as not in told]
    helped = [trial for trial in trials if trial.helped]
    lines = [
        f"tried: {_with_equals(trial, finding.trials)}: gone, {outcome_text(trial)}"
        for trial in helped[:MOST_HELPED]
    ]
    if len(helped) > MOST_HELPED:
        lines.append(f"and {len(helped) - MOST_HELPED} more changes that are rid of it")
    failed = [_failed_text(trial) for trial in trials if not trial.helped]
    if failed:
        more = f" and {len(failed) - MOST_FAILED} more" if len(failed) > MOST_FAILED else ""
        lines.append(f"tried, no cure: {', '.join(failed[:MOST_FAILED])}{more}")
    return lines


def told_in_full(finding: Finding) -> tuple[tuple[Change, ...], ...]:
    """The changes of which `tried_lines` has all figures."""
    told = {trial.change for trial in finding.trials}
    helped = [t for t in finding.trials if t.helped and (not t.same_as or t.same_as not in told)]
    return tuple(trial.change for trial in helped[:MOST_HELPED])


def bound_text(trial: Trial) -> str:
    """What the slowest unit takes for the work; "" where that is unknown."""
    cycles = trial.metrics.get("bound_per_work")
    if cycles is None:
        return ""
    return f"{_number(cycles)} cycles at least/{_work_unit(trial.metrics)}"


def _with_equals(trial: Trial, trials: Sequence[Trial]) -> str:
    """A change and, in brackets, those that gave the same code."""
    equal = [changes_text(t.change) for t in trials if t.same_as == trial.change]
    return changes_text(trial.change) + (f" (same code: {', '.join(equal)})" if equal else "")


def remark(trial: Trial) -> str:
    """Why a change failed or cannot be launched, or what is new with it; "" for nothing."""
    if trial.failure:
        text = f"failed: {' '.join(trial.failure.split())}"
        return text if len(text) <= MOST_REASON else f"{text[: MOST_REASON - 1]}…"
    if trial.launches is False:
        return "cannot launch"
    if trial.same_as is not None:
        return f"same code as {changes_text(trial.same_as)}"
    return f"new: {' '.join(trial.new)}" if trial.new else ""


def outcome_text(trial: Trial) -> str:
    """The figures of a change that are worth a word: those that it was made for, and its price."""
    metrics, diff = trial.metrics, trial.diff
    parts = [_spills(metrics, diff), _waves(metrics, diff)]
    parts += [
        _changed("VGPRs", "vgpr_count", diff),
        _lds(diff),
        _per_work("LDS conflict cycles", "lds_conflicts_per_work", metrics, diff),
        _per_work("matrix cycles", "matrix_cycles_per_work", metrics, diff),
        _per_work("vector cycles", "vector_per_work", metrics, diff),
        _per_work("full waits", "full_waits_per_work", metrics, diff),
        _per_work("cycles at least", "bound_per_work", metrics, diff),
    ]
    if trial.new:
        parts.append(f"new: {', '.join(trial.new)}")
    return ", ".join(part for part in parts if part)


def _failed_text(trial: Trial) -> str:
    """A change that did not help, with why in brackets where it is more than that."""
    text = changes_text(trial.change)
    if trial.failure:
        return f"{text} (failed)"
    if trial.launches is False:
        return f"{text} (cannot launch)"
    if trial.same_code:
        return f"{text} (same code)"
    if trial.gone is None:
        return f"{text} (not decided)"
    spills = trial.diff.get("vgpr_spill_count")
    spilled = f"{_number(spills[1])} spills, was {_number(spills[0])}" if spills else ""
    if trial.gone:
        return f"{text} (gone, but {_price(trial)})"
    figure = spilled or _least_text(trial)
    return f"{text} ({figure})" if figure else text


def _least_text(trial: Trial) -> str:
    """The first of a change's figures that is better than before, if any is."""
    for title, name in _WANTED_LESS.items():
        before, after = trial.diff.get(name, (None, None))
        if isinstance(before, int | float) and isinstance(after, int | float) and after < before:
            return f"{_number(after)} {title}/{_work_unit(trial.metrics)}, was {_number(before)}"
    return ""


def _price(trial: Trial) -> str:
    """Why a change that is rid of a finding is no cure."""
    if trial.new_errors:
        return f"new: {', '.join(trial.new_errors)}"
    if trial.spills_more:
        return _per_work("scratch accesses", "scratch_per_work", trial.metrics, trial.diff)
    if trial.multiplies_more:
        return _per_work("matrix cycles", "matrix_cycles_per_work", trial.metrics, trial.diff)
    return _per_work("cycles at least", "bound_per_work", trial.metrics, trial.diff)


def _spills(metrics: Mapping[str, Scalar], diff: Mapping[str, tuple[Scalar, Scalar]]) -> str:
    spills = metrics.get("vgpr_spill_count")
    if "vgpr_spill_count" in diff:
        noun = "spill" if spills == 1 else "spills"
        return f"{_number(spills)} {noun} (was {_number(diff['vgpr_spill_count'][0])})"
    if not isinstance(spills, int) or not spills:
        return ""
    return f"{plural(spills, 'spill')} as before"


def _waves(metrics: Mapping[str, Scalar], diff: Mapping[str, tuple[Scalar, Scalar]]) -> str:
    waves = metrics.get("occupancy.waves_per_eu")
    unit = "wave/EU" if waves == 1 else "waves/EU"
    if "occupancy.waves_per_eu" in diff:
        before = diff["occupancy.waves_per_eu"][0]
        return f"{_number(waves)} {unit} (was {_number(before)})"
    return f"same {_number(waves)} {unit}" if waves is not None else ""


def _changed(title: str, name: str, diff: Mapping[str, tuple[Scalar, Scalar]]) -> str:
    if name not in diff:
        return ""
    before, after = diff[name]
    return f"{_number(after)} {title} (was {_number(before)})"


def _lds(diff: Mapping[str, tuple[Scalar, Scalar]]) -> str:
    if "lds_bytes" not in diff:
        return ""
    before, after = diff["lds_bytes"]
    return f"LDS {_number(after)} B (was {_number(before)})"


def _per_work(
    title: str,
    name: str,
    metrics: Mapping[str, Scalar],
    diff: Mapping[str, tuple[Scalar, Scalar]],
) -> str:
    """A figure per needed work; "" where it is unchanged, or unknown on both sides."""
    if name not in diff:
        return ""
    before, after = diff[name]
    if before is None or after is None:
        return ""
    return f"{_number(after)} {title}/{_work_unit(metrics)} (was {_number(before)})"


def _work_unit(metrics: Mapping[str, Scalar]) -> str:
    return _PER.get(str(metrics.get("work_unit")), "work")


def _number(value: Scalar) -> str:
    """A figure in three or four digits; `?` where it is unknown."""
    if value is None:
        return "?"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
