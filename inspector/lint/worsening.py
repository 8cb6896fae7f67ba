"""Whether a finding got worse: the figures of its rule's condition, and what its cure saves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from ..model import Finding
from .nodes import Apply, Constant, Join, MetricName, Node, sign_of
from .rule import Rule, show

SAVING = "saving.us"
"""The name of what a cure saves among the figures of a finding: microseconds of the launch."""
TOLERANCE = 0.05
"""A change up to this share of a figure is none."""


class WeighedFigure(Struct, frozen=True):
    """A figure of a finding; `rises` says whether a larger value is worse."""

    name: str
    value: float
    unit: str
    rises: bool

    def is_worse_than(self, before: float) -> bool:
        """Whether it is worse by more than the tolerance."""
        step = self.value - before if self.rises else before - self.value
        return step > TOLERANCE * abs(before)


def figures_of(finding: Finding, rule: Rule, time_us: float | None) -> tuple[WeighedFigure, ...]:
    """The figures that say how bad a finding is; `time_us`: of the launch, None where not known."""
    figures = []
    for name, rises in _directions(rule.require.root).items():
        value = finding.evidence.get(name)
        spec = rule.catalogue.spec(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            unit = spec.unit if spec is not None else ""
            figures.append(WeighedFigure(name, value, unit, rises))
    if finding.saves_percent is not None and time_us is not None:
        saved = round(finding.saves_percent * time_us / 100, 3)
        figures.append(WeighedFigure(SAVING, saved, "us", rises=True))
    return tuple(figures)


def worsened(figures: Sequence[WeighedFigure], before: Mapping[str, float]) -> str:
    """What got worse since a baseline: `was 36.7 us, now 351 us`; empty where nothing did.

    Where both know what the cure saves, that decides alone: it says what the figures cost.
    """
    common = [figure for figure in figures if figure.name in before]
    compared = [figure for figure in common if figure.name == SAVING] or common
    worse = [figure for figure in compared if figure.is_worse_than(before[figure.name])]
    return "; ".join(_change(f, before[f.name], is_named=len(common) > 1) for f in worse)


def _change(figure: WeighedFigure, before: float, *, is_named: bool) -> str:
    was, now = (f"{show(value)} {figure.unit}".rstrip() for value in (before, figure.value))
    if figure.name == SAVING:
        return f"its cure saved {was}, now {now}"
    return f"{figure.name} was {was}, now {now}" if is_named else f"was {was}, now {now}"


def _directions(require: Node) -> dict[str, bool]:
    """Name of each metric of a condition -> whether it is the more broken the larger that is.

    A metric of which the condition does not say so is left out, as is what another is compared
    with: fewer instructions make a share of them larger and nothing worse.
    """
    found: dict[str, set[bool]] = {}
    for name, rises in _weighed(require, False):
        found.setdefault(name, set()).add(rises)
    return {name: rises.pop() for name, rises in found.items() if len(rises) == 1}


def _weighed(node: Node, rises: bool) -> Iterator[tuple[str, bool]]:
    """Yields the metrics of a node; `rises`: whether a larger or truer node is worse."""
    if isinstance(node, MetricName):
        yield node.name, rises
    elif isinstance(node, Join):
        for operand in node.operands:
            yield from _weighed(operand, rises)
    elif isinstance(node, Apply):
        sign, operands = sign_of(node), node.operands
        if sign in ("not", "negative"):
            yield from _weighed(operands[0], not rises)
        elif sign in ("+", "*", "min", "max"):
            for operand in operands:
                yield from _weighed(operand, rises)
        elif sign in ("-", "/"):
            yield from _weighed(operands[0], rises)
            yield from _weighed(operands[1], not rises)
        else:
            yield from _compared(sign, operands[0], operands[-1], rises)


def _compared(sign: str, left: Node, right: Node, rises: bool) -> Iterator[tuple[str, bool]]:
    """Yields the metrics of a comparison: those of its left side, unless only the right has any."""
    if sign in ("==", "!=") and not (isinstance(right, Constant) and right.value == 0):
        return  # which way is further away is not known
    if sign not in ("<", "<=", ">", ">=", "==", "!="):
        return
    falls = sign in ("<", "<=", "==")  # figures are not negative
    found = list(_weighed(left, rises is not falls))
    yield from found or _weighed(right, rises is falls)
