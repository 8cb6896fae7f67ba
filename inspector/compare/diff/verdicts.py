"""What to think of the figures of a kernel that differ: worse, better, or of no consequence.

Registers, LDS and code size cost something only at steps: a rise that leaves as many waves resident
and spills nothing into a hot loop is neutral. Spills count where they are executed again and
again, not in total. Two targets differ in limits and instructions: there most figures are shown
without a judgement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from ...model import KernelReport, Metric, MetricValue, value_of
from .results import Change, Judgement, Verdict
from .tolerances import JUDGED, Tolerances

RESIDENT = "occupancy.waves_per_eu"
BY_VGPR = "occupancy.by_vgpr"
SCRATCH = ("count.scratch_load", "count.scratch_store")
_LIMITERS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "vgpr_count": frozenset({"vgpr", "waves_per_eu", "vgpr_request"}),
        "agpr_count": frozenset({"vgpr", "waves_per_eu", "vgpr_request"}),
        "sgpr_count": frozenset({"sgpr"}),
        "lds_bytes": frozenset({"lds"}),
    }
)
_LIMITED_BY: Mapping[str, str] = MappingProxyType(
    {
        "vgpr": "VGPRs",
        "waves_per_eu": "the VGPRs that waves_per_eu asks for",
        "vgpr_request": "the VGPRs that the kernel asks for",
        "sgpr": "SGPRs",
        "lds": "LDS",
        "workgroups": "the workgroup limit of a CU",
        "waves": "the wave limit",
    }
)
_SPILLS = ("vgpr_spill_count", "sgpr_spill_count", "scratch_bytes")
_EMULATED = tuple(name for name in JUDGED if name.startswith("emulated."))
_ELSEWHERE = "another target: limits and instructions differ"
_ONE_UNKNOWN = "one is unknown"


class Setting(Struct, frozen=True):
    """What a judgement rests on besides the two reports.

    Args:
        tolerances: what is noise, or a stated budget.
        same_arch: both are for one target.
        icache_bytes: of that target; None where it is not known.
    """

    tolerances: Tolerances
    same_arch: bool = True
    icache_bytes: int | None = None


def verdict_of(changes: Iterable[Change], same_code: bool) -> Verdict:
    """The verdict of a kernel from what is thought of its figures.

    Args:
        changes: all that differs.
        same_code: the code is the same, as far as it is at hand.
    """
    listed = list(changes)
    deciding = {c.judgement for c in listed if c.matters}
    if "regression" in deciding:
        return "mixed" if "improvement" in deciding else "regression"
    if "unknown" in deciding:
        return "unknown"
    if "improvement" in deciding:
        return "improvement"
    return "same" if same_code and not listed else "neutral"


def kernel_changes(
    left: KernelReport, right: KernelReport, setting: Setting, hot: tuple[bool, bool]
) -> Iterator[Change]:
    """The figures of the kernel as a whole that differ.

    Args:
        left: what there was.
        right: what there is.
        setting: see there.
        hot: whether each side has scratch accesses where it is executed again and again.
    """
    if value(left, "instruction_count") is None or value(right, "instruction_count") is None:
        instruction_counts = value(left, "instruction_count"), value(right, "instruction_count")
        yield Change(
            "code", "", None, *instruction_counts, "unknown", True, "no code was read of a side"
        )
    yield from _emptied(left, right)
    yield from _occupancy(left, right, setting)
    for name in _LIMITERS:
        yield from _resource(name, left, right, setting)
    for name in _SPILLS:
        yield from _spills(name, left, right, setting, hot)
    yield from _code(left, right, setting)
    for name in _EMULATED:
        yield from _emulated(name, left, right, setting)
    yield from _findings(left, right, setting)


def value(kernel: KernelReport, name: str) -> MetricValue:
    """A kernel's figure, None where the report does not say."""
    return value_of(kernel.metrics, name)


def number(figure: MetricValue) -> float | None:
    """A figure that can be compared; None for what is no number."""
    return figure if isinstance(figure, int | float) and not isinstance(figure, bool) else None


def _text(figure: MetricValue) -> str:
    return f"{figure:g}" if isinstance(figure, int | float) else "?"


# --------------------------------------------------------------------------- occupancy


def _emptied(left: KernelReport, right: KernelReport) -> Iterator[Change]:
    left_empty, right_empty = value(left, "empty"), value(right, "empty")
    if left_empty == right_empty or left_empty is None or right_empty is None:
        return
    words = "it compiles to nothing now" if right_empty else "it compiled to nothing before"
    judgement: Judgement = "regression" if right_empty else "improvement"
    yield Change("empty", "", None, left_empty, right_empty, judgement, True, words)


def _occupancy(left: KernelReport, right: KernelReport, setting: Setting) -> Iterator[Change]:
    name = RESIDENT
    if value(left, name) is None and value(right, name) is None:
        name = BY_VGPR  # a bare .s or .hsaco of Triton's: its LDS is not known
    left_waves, right_waves = value(left, name), value(right, name)
    if left_waves == right_waves:
        return
    a, b = number(left_waves), number(right_waves)
    matters = setting.tolerances.matters(RESIDENT)
    if not setting.same_arch:
        moved = f"{_text(left_waves)} → {_text(right_waves)} waves/EU"
        yield Change(
            name, "waves/EU", None, left_waves, right_waves, "shown", False, moved, _ELSEWHERE
        )
        return
    if a is None or b is None:
        yield Change(
            *(name, "waves/EU", None, left_waves, right_waves, "unknown", matters),
            *("resident waves unknown on one side", _why_unknown(name, left, right)),
        )
        return
    judgement: Judgement = "improvement" if b > a else "regression"
    limiter = value(right if b < a else left, "occupancy.limiter")
    by = _LIMITED_BY.get(str(limiter), "") if name == RESIDENT else "VGPRs"
    moved, reason = f"{a:g} → {b:g} waves/EU", ""
    if b == 0:
        reason = "it cannot be launched"
    elif by:
        reason = f"{'limited by' if b < a else 'was limited by'} {by}"
    if setting.tolerances.of(RESIDENT).allows(max(a, b), min(a, b)) and b != 0:
        judgement, matters = "neutral", False
        if reason:
            reason += ", within the tolerance"
        else:
            moved += ", within the tolerance"
    yield Change(name, "waves/EU", None, left_waves, right_waves, judgement, matters, moved, reason)


def _why_unknown(name: str, left: KernelReport, right: KernelReport) -> str:
    side = left if value(left, name) is None else right
    metric = side.metrics.get(name)
    return metric.note if metric is not None and metric.note else "the report does not say"


def _resource(
    name: str, left: KernelReport, right: KernelReport, setting: Setting
) -> Iterator[Change]:
    """A register count or LDS: it matters by what it lets be resident."""
    left_use, right_use = value(left, name), value(right, name)
    if left_use == right_use:
        return
    words, unit = JUDGED[name].words, _unit(name, left, right)
    stated = name in setting.tolerances.stated
    a, b = number(left_use), number(right_use)
    moved = f"{_text(left_use)} → {_text(right_use)}{' bytes' if unit == 'bytes' else ''} {words}"
    if not setting.same_arch:
        yield Change(name, unit, None, left_use, right_use, "shown", False, moved, _ELSEWHERE)
        return
    if a is None or b is None:
        yield Change(name, unit, None, left_use, right_use, "unknown", stated, moved, _ONE_UNKNOWN)
        return
    if b > a and stated and not setting.tolerances.of(name).allows(a, b):
        reason = f"over the tolerance of {setting.tolerances.of(name)}"
        yield Change(name, unit, None, left_use, right_use, "regression", True, moved, reason)
        return
    judgement, consequence = _consequence(name, (a, b), left, right)
    yield Change(name, unit, None, left_use, right_use, judgement, False, moved, consequence)


def _consequence(
    name: str, figures: tuple[float, float], left: KernelReport, right: KernelReport
) -> tuple[Judgement, str]:
    """What a resource's change does to the resident waves."""
    a, b = number(value(left, RESIDENT)), number(value(right, RESIDENT))
    if a is None or b is None:
        a, b = number(value(left, BY_VGPR)), number(value(right, BY_VGPR))
        if a is None or b is None:
            return "neutral", "how many waves are resident is unknown"
        if a == b:
            return "neutral", f"still {b:g} waves/EU as far as VGPRs go"
        if name not in ("vgpr_count", "agpr_count"):
            return "neutral", "how many waves are resident is unknown"
    if a == b:
        return "neutral", f"still {b:g} waves/EU"
    limiter = value(right if b < a else left, "occupancy.limiter")
    residency_known = number(value(left, RESIDENT)) is not None
    caused = (figures[1] > figures[0]) == (b < a)
    if caused and (not residency_known or limiter in _LIMITERS[name]):
        return ("regression" if b < a else "improvement"), f"{a:g} → {b:g} waves/EU"
    return "neutral", f"the {a:g} → {b:g} waves/EU are not from this"


# --------------------------------------------------------------------------- spills, code


def _spills(
    name: str, left: KernelReport, right: KernelReport, setting: Setting, hot: tuple[bool, bool]
) -> Iterator[Change]:
    """Totals: what counts is judged in the loops, so that a total alone is neutral."""
    left_spills, right_spills = value(left, name), value(right, name)
    if left_spills == right_spills:
        return
    unit, words = _unit(name, left, right), JUDGED[name].words
    a, b = number(left_spills), number(right_spills)
    stated = name in setting.tolerances.stated
    moved = f"{_text(left_spills)} → {_text(right_spills)} {words}"
    if a is None or b is None:
        yield Change(
            name, unit, None, left_spills, right_spills, "unknown", stated, moved, _ONE_UNKNOWN
        )
        return
    if b > a and stated and not setting.tolerances.of(name).allows(a, b):
        reason = f"over the tolerance of {setting.tolerances.of(name)}"
        yield Change(name, unit, None, left_spills, right_spills, "regression", True, moved, reason)
        return
    where = "some in a hot loop, judged there" if any(hot) else "none in a hot loop"
    yield Change(name, unit, None, left_spills, right_spills, "neutral", False, moved, where)


def _code(left: KernelReport, right: KernelReport, setting: Setting) -> Iterator[Change]:
    name = "code_bytes"
    left_bytes, right_bytes = value(left, name), value(right, name)
    a, b = number(left_bytes), number(right_bytes)
    if left_bytes == right_bytes or a is None or b is None:
        return
    stated = name in setting.tolerances.stated
    judgement: Judgement = "neutral"
    moved, cache = f"{a:g} → {b:g} bytes of code", setting.icache_bytes
    reason = ""
    if not setting.same_arch:
        yield Change(
            name, "bytes", None, left_bytes, right_bytes, "shown", False, moved, _ELSEWHERE
        )
        return
    if b > a and stated and not setting.tolerances.of(name).allows(a, b):
        judgement, reason = "regression", f"over the tolerance of {tolerance(setting, name)}"
    elif cache is not None:
        size = f"the instruction cache of {cache // 1024} KiB"
        if (a <= cache) != (b <= cache):
            judgement = "regression" if b > a else "improvement"
            reason = f"no longer fits {size}" if b > a else f"fits {size} now"
        else:
            reason = f"{'fits' if b <= cache else 'on both sides more than'} {size}"
    matters = stated and judgement == "regression"
    yield Change(name, "bytes", None, left_bytes, right_bytes, judgement, matters, moved, reason)


def _emulated(
    name: str, left: KernelReport, right: KernelReport, setting: Setting
) -> Iterator[Change]:
    """What a few executed workgroups did; nothing where one side was not executed."""
    left_value, right_value = value(left, name), value(right, name)
    a, b = number(left_value), number(right_value)
    if a is None or b is None or a == b:
        return
    unit = next((k.metrics[name].unit for k in (left, right) if name in k.metrics), "")
    moved = f"{a:.4g} → {b:.4g} {JUDGED[name].words}"
    if not setting.same_arch:
        yield Change(name, unit, None, left_value, right_value, "shown", False, moved, _ELSEWHERE)
        return
    judgement: Judgement = "regression" if b > a else "improvement"
    reason = "emulated, of the launch that was captured"
    if setting.tolerances.of(name).allows(min(a, b), max(a, b)):
        judgement = "neutral"
    elif b > a and name in setting.tolerances.stated:
        reason = f"over the tolerance of {tolerance(setting, name)}"
    matters = setting.tolerances.matters(name) and judgement == "regression"
    yield Change(name, unit, None, left_value, right_value, judgement, matters, moved, reason)


def tolerance(setting: Setting, name: str) -> str:
    """The tolerance of a figure in words."""
    return str(setting.tolerances.of(name))


# --------------------------------------------------------------------------- findings


def _findings(left: KernelReport, right: KernelReport, setting: Setting) -> Iterator[Change]:
    """Rules that speak more often on one side: the same complaint at another place is no change."""
    left_counts, right_counts = (Counter(f.rule for f in side.findings) for side in (left, right))
    severities = {f.rule: f.severity for f in (*left.findings, *right.findings)}
    for rule in sorted(severities):
        gained = right_counts[rule] - left_counts[rule]
        if not gained:
            continue
        judgement: Judgement = "regression" if gained > 0 else "improvement"
        if severities[rule] == "info":
            judgement = "neutral"
        matters = severities[rule] == "error" and setting.same_arch
        yield Change(
            *(f"findings.{rule}", "findings", None, left_counts[rule], right_counts[rule]),
            *(judgement, matters, f"{severities[rule]} {rule}"),
            f"{abs(gained)} {'new' if gained > 0 else 'gone'}",
        )


def _unit(name: str, left: KernelReport, right: KernelReport) -> str:
    metric: Metric | None = left.metrics.get(name) or right.metrics.get(name)
    return metric.unit if metric is not None else ""
