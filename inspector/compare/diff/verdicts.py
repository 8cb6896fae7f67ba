"""Judges the figures of a kernel that differ: worse, better, or of no consequence.

Registers, LDS and code size cost something only at steps: a rise that leaves as many waves resident
and spills nothing into a hot loop is neutral. Spills count in loops, where they are executed
repeatedly; their total does not count. Two targets differ in limits and instructions, so that
between targets most figures are shown without a judgement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from ...explain.occupancy_view import limiter_of_vgprs
from ...explain.time_view import before_and_after, difference
from ...metrics.given_metrics import US as TIME_US
from ...model import KernelReport, Metric, MetricValue, TimeChange, value_of
from ..times import time_change
from .diff_results import FigureChange, Judgement, Verdict
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
        "workgroups": "the workgroup limit",
        "waves": "the wave limit",
    }
)
_SPILLS = ("vgpr_spill_count", "sgpr_spill_count", "scratch_bytes")
_EMULATED = tuple(name for name in JUDGED if name.startswith("emulated."))
_ELSEWHERE = "another target: limits and instructions differ"
_ONE_UNKNOWN = "one is unknown"
_WITHIN_TOLERANCE = ", within the tolerance"
_FINDINGS = "findings."


class JudgementContext(Struct, frozen=True):
    """What a judgement rests on besides the two reports.

    Args:
        tolerances: how much each figure may get worse: noise, or a budget that the user stated.
        icache_bytes: size of that target's instruction cache; None where it is not known.
    """

    tolerances: Tolerances
    same_arch: bool = True
    icache_bytes: int | None = None

    def is_stated(self, name: str) -> bool:
        """Tells whether the user stated a budget for a figure."""
        return self.tolerances.is_stated(name)

    def over_budget(self, name: str, before: float, after: float) -> str:
        """Says that a rise exceeds the budget that the user stated; "" if it does not."""
        tolerance = self.tolerances.for_figure(name)
        if after <= before or not self.is_stated(name) or tolerance.allows(before, after):
            return ""
        return f"over the tolerance of {tolerance}"


class DifferingFigure(Struct, frozen=True):
    """One figure of a kernel, or of its loop `loop` (an id), that differs between the sides."""

    name: str
    unit: str
    left: MetricValue
    right: MetricValue
    loop: str | None = None

    @property
    def numbers(self) -> tuple[float, float] | None:
        """Both values; None where one is unknown or no number."""
        left, right = number(self.left), number(self.right)
        return None if left is None or right is None else (left, right)

    @property
    def grows(self) -> bool:
        return self.numbers is not None and self.numbers[1] > self.numbers[0]

    @property
    def text(self) -> str:
        """`100 → 90`; `?` for what is unknown."""
        sides = self.left, self.right
        return " → ".join(f"{s:g}" if isinstance(s, int | float) else "?" for s in sides)

    def change(
        self,
        judgement: Judgement,
        figures: str,
        reason: str = "",
        *,
        matters: bool = False,
        basis: str = "",
        brief: str = "",
        values: str = "",
    ) -> FigureChange:
        """The figure with its judgement; see `FigureChange` for the arguments."""
        return FigureChange(
            name=self.name,
            unit=self.unit,
            loop=self.loop,
            left=self.left,
            right=self.right,
            judgement=judgement,
            matters=matters,
            figures=figures,
            reason=reason,
            basis=basis,
            brief=brief,
            values=values,
        )


def verdict_of(changes: Iterable[FigureChange], same_code: bool) -> Verdict:
    """The verdict of a kernel from the judgements of its figures.

    Where one side cannot be launched, or compiles to nothing, no other figure counts.

    Args:
        same_code: whether the instructions are the same, as far as the code was read.
    """
    listed = list(changes)
    deciding = {change.judgement for change in listed if change.matters}
    of_use = {change.judgement for change in listed if _tells_of_use(change)}
    if len(of_use) == 1 and of_use <= {"regression", "improvement"}:
        deciding = of_use
    if "regression" in deciding:
        return "mixed" if "improvement" in deciding else "regression"
    if "unknown" in deciding:
        return "unknown"
    if "improvement" in deciding:
        return "improvement"
    return "same" if same_code and not listed else "neutral"


def decided_by_time(
    changes: Iterable[FigureChange], time: TimeChange, context: JudgementContext
) -> tuple[FigureChange, ...]:
    """The changes of a launch of which both times are known: the time decides, and no count.

    What also decides: budgets that the user stated, findings of errors, and whether the kernel can
    be launched at all.
    """

    def matters(change: FigureChange) -> bool:
        if change.name == TIME_US:
            return time.verdict != "equal"
        decides = context.is_stated(change.name) or change.name.startswith(_FINDINGS)
        return change.matters and (decides or _tells_of_use(change))

    return tuple(replace(change, matters=matters(change)) for change in changes)


def _tells_of_use(change: FigureChange) -> bool:
    """Whether only one side can be launched, or does anything."""
    if change.name == "empty":
        return True
    return change.loop is None and change.name == RESIDENT and 0 in (change.left, change.right)


def kernel_changes(
    left: KernelReport, right: KernelReport, context: JudgementContext, hot: tuple[bool, bool]
) -> Iterator[FigureChange]:
    """The figures of the kernel as a whole that differ.

    Args:
        hot: whether the left and the right side access scratch in a hot loop.
    """
    counts = value(left, "instruction_count"), value(right, "instruction_count")
    if None in counts:
        code = DifferingFigure("code", "", *counts)
        yield code.change("unknown", "no code was read of a side", matters=True)
    yield from _emptied(left, right)
    yield from _of_launch(
        TIME_US, "estimated, of the launch that was captured", left, right, context
    )
    yield from _occupancy(left, right, context)
    for name in _LIMITERS:
        yield from _resource(name, left, right, context)
    for name in _SPILLS:
        yield from _spills(name, left, right, context, hot)
    yield from _code(left, right, context)
    for name in _EMULATED:
        yield from _of_launch(
            name, "emulated, of the launch that was captured", left, right, context
        )
    yield from _findings(left, right, context)


def value(kernel: KernelReport, name: str) -> MetricValue:
    """A kernel's figure; None where the report does not have it."""
    return value_of(kernel.metrics, name)


def number(figure: MetricValue) -> float | None:
    """The figure if it is a number that can be compared, else None."""
    return figure if isinstance(figure, int | float) and not isinstance(figure, bool) else None


def _differing(
    name: str, left: KernelReport, right: KernelReport, unit: str | None = None
) -> DifferingFigure | None:
    """A figure of the kernels, in its metric's unit if no other is given; None if it is equal."""
    left_value, right_value = value(left, name), value(right, name)
    if left_value == right_value:
        return None
    if unit is None:
        metric: Metric | None = left.metrics.get(name) or right.metrics.get(name)
        unit = metric.unit if metric is not None else ""
    return DifferingFigure(name, unit, left_value, right_value)


def _without_rule(
    figure: DifferingFigure, words: str, context: JudgementContext, *, across_archs: bool = False
) -> FigureChange | None:
    """A change that needs no rule of its own: on another target, unknown, or over a budget.

    Args:
        across_archs: whether the figure means the same on all targets.
    """
    if not context.same_arch and not across_archs:
        return figure.change("shown", words, _ELSEWHERE)
    if figure.numbers is None:
        # A change to none is no regression.
        matters = context.is_stated(figure.name) and number(figure.right) != 0
        return figure.change("unknown", words, _ONE_UNKNOWN, matters=matters)
    if reason := context.over_budget(figure.name, *figure.numbers):
        return figure.change("regression", words, reason, matters=True)
    return None


def _emptied(left: KernelReport, right: KernelReport) -> Iterator[FigureChange]:
    """Yields the change of a kernel that compiles to nothing on one side."""
    empty = _differing("empty", left, right, "")
    if empty is None or empty.left is None or empty.right is None:
        return
    if empty.right:
        yield empty.change("regression", "it compiles to nothing now", matters=True)
    else:
        yield empty.change("improvement", "it compiled to nothing before", matters=True)


def _occupancy(
    left: KernelReport, right: KernelReport, context: JudgementContext
) -> Iterator[FigureChange]:
    """Yields the change of the resident waves, or of those that VGPRs allow if LDS is unknown."""
    name = RESIDENT
    if value(left, name) is None and value(right, name) is None:
        name = BY_VGPR  # a bare .s or .hsaco of Triton's: its LDS is not known
    waves = _differing(name, left, right, "waves/SIMD")
    if waves is None:
        return
    matters = context.tolerances.matters(RESIDENT)
    figures = f"{waves.text} waves/SIMD"
    if not context.same_arch:
        yield waves.change("shown", figures, _ELSEWHERE)
        return
    if waves.numbers is None:
        why = _why_unknown(name, left, right)
        yield waves.change("unknown", "resident waves unknown on one side", why, matters=matters)
        return
    before, after = waves.numbers
    judgement: Judgement = "improvement" if waves.grows else "regression"
    limited, verb = (left, "was limited by") if waves.grows else (right, "limited by")
    limiter = value(limited, "occupancy.limiter") if name == RESIDENT else limiter_of_vgprs(limited)
    reason = ""
    if after == 0:
        reason = "it cannot be launched"
    elif str(limiter) in _LIMITED_BY:
        reason = f"{verb} {_LIMITED_BY[str(limiter)]}"
    tolerance = context.tolerances.for_figure(RESIDENT)
    if after != 0 and tolerance.allows(max(before, after), min(before, after)):
        judgement, matters = "neutral", False
        if reason:
            reason += _WITHIN_TOLERANCE
        else:
            figures += _WITHIN_TOLERANCE
    yield waves.change(judgement, figures, reason, matters=matters)


def _why_unknown(name: str, left: KernelReport, right: KernelReport) -> str:
    side = left if value(left, name) is None else right
    metric = side.metrics.get(name)
    return metric.note if metric is not None and metric.note else "the report does not say"


def _resource(
    name: str, left: KernelReport, right: KernelReport, context: JudgementContext
) -> Iterator[FigureChange]:
    """A register count or LDS size, judged by the waves that it leaves resident."""
    usage = _differing(name, left, right)
    if usage is None:
        return
    bytes_suffix = " bytes" if name == "lds_bytes" else ""
    words = f"{usage.text}{bytes_suffix} {JUDGED[name].words}"
    change = _without_rule(usage, words, context)
    if change is None:
        judgement, consequence = _consequence(name, usage.grows, left, right)
        change = usage.change(judgement, words, consequence)
    yield change


def _consequence(
    name: str, grows: bool, left: KernelReport, right: KernelReport
) -> tuple[Judgement, str]:
    """Judges a resource's change by the resident waves; returns the judgement and why, in words."""
    before, after = number(value(left, RESIDENT)), number(value(right, RESIDENT))
    if before is None or after is None:
        before, after = number(value(left, BY_VGPR)), number(value(right, BY_VGPR))
        if before is None or after is None:
            return "neutral", "how many waves are resident is unknown"
        if before == after:
            return "neutral", f"still {after:g} waves/SIMD as far as VGPRs go"
        if name not in ("vgpr_count", "agpr_count"):
            return "neutral", "how many waves are resident is unknown"
    if before == after:
        return "neutral", f"still {after:g} waves/SIMD"
    fewer = after < before
    limiter = value(right if fewer else left, "occupancy.limiter")
    residency_known = number(value(left, RESIDENT)) is not None
    # More of a resource explains fewer waves, and less of it explains more.
    if grows == fewer and (not residency_known or limiter in _LIMITERS[name]):
        return ("regression" if fewer else "improvement"), f"{before:g} → {after:g} waves/SIMD"
    return "neutral", f"the {before:g} → {after:g} waves/SIMD are not from this"


def _spills(
    name: str,
    left: KernelReport,
    right: KernelReport,
    context: JudgementContext,
    hot: tuple[bool, bool],
) -> Iterator[FigureChange]:
    """A total of spills: decides nothing by itself, since spills in hot loops are judged there."""
    spills = _differing(name, left, right)
    if spills is None:
        return
    words = f"{spills.text} {JUDGED[name].words}"
    change = _without_rule(spills, words, context, across_archs=True)
    if change is None and not any(hot):
        change = spills.change("neutral", words, "none in a hot loop")
    elif change is None:
        judgement: Judgement = "regression" if spills.grows else "improvement"
        change = spills.change(judgement, words, "some in a hot loop, judged there")
    yield change


def _code(
    left: KernelReport, right: KernelReport, context: JudgementContext
) -> Iterator[FigureChange]:
    """The size of the code, judged by whether it fits the instruction cache."""
    size = _differing("code_bytes", left, right, "bytes")
    if size is None or size.numbers is None:
        return
    words = f"{size.text} bytes of code"
    change = _without_rule(size, words, context)
    if change is None:
        judgement, reason = _cache_consequence(*size.numbers, context.icache_bytes)
        matters = context.is_stated(size.name) and judgement == "regression"
        change = size.change(judgement, words, reason, matters=matters)
    yield change


def _cache_consequence(
    before: float, after: float, cache_bytes: int | None
) -> tuple[Judgement, str]:
    """Judges a change of the code's size by whether it fits the instruction cache; says why."""
    if cache_bytes is None:
        return "neutral", ""
    cache = f"the instruction cache of {cache_bytes // 1024} KiB"
    if (before <= cache_bytes) == (after <= cache_bytes):
        return "neutral", f"{'fits' if after <= cache_bytes else 'on both sides more than'} {cache}"
    if after > before:
        return "regression", f"no longer fits {cache}"
    return "improvement", f"fits {cache} now"


def _of_launch(
    name: str, reason: str, left: KernelReport, right: KernelReport, context: JudgementContext
) -> Iterator[FigureChange]:
    """A figure of the captured launches; nothing where one side has none."""
    figure = _differing(name, left, right)
    if figure is None or figure.numbers is None:
        return
    before, after = figure.numbers
    amounts, values = f"{before:.4g} → {after:.4g}", ""
    if name == TIME_US and (time := time_change(before, after)) is not None:
        amounts, values = difference(time), before_and_after(time)
    words = f"{amounts} {JUDGED[name].words}"
    change = _without_rule(figure, words, context)
    if change is None:
        judgement: Judgement = "regression" if figure.grows else "improvement"
        if context.tolerances.for_figure(name).allows(min(before, after), max(before, after)):
            judgement = "neutral"
        decides = judgement == "regression" or JUDGED[name].improvement_decides
        matters = context.tolerances.matters(name) and decides and judgement != "neutral"
        change = figure.change(judgement, words, reason, matters=matters)
    yield replace(change, values=values)


def _findings(
    left: KernelReport, right: KernelReport, context: JudgementContext
) -> Iterator[FigureChange]:
    """Rules with more findings on one side; one that only moved to another line is no change."""
    left_counts, right_counts = (Counter(f.rule for f in side.findings) for side in (left, right))
    severities = {f.rule: f.severity for f in (*left.findings, *right.findings)}
    for rule, severity in sorted(severities.items()):
        gained = right_counts[rule] - left_counts[rule]
        if not gained:
            continue
        judgement: Judgement = "regression" if gained > 0 else "improvement"
        if severity == "info":
            judgement = "neutral"
        counts = DifferingFigure(
            f"{_FINDINGS}{rule}", "findings", left_counts[rule], right_counts[rule]
        )
        yield counts.change(
            judgement,
            f"{severity} {rule}",
            f"{abs(gained)} {'new' if gained > 0 else 'gone'}",
            matters=severity == "error" and context.same_arch,
        )
