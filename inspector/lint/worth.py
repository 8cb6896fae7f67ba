"""Which matches are told for what their cures save of the launch's time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ..model.time import LEAST, Removal
from .causes import Match, one_of_each_cause
from .cures import cured_together
from .matching import CORRECTNESS
from .ranking import Savings

RemovalOf = Callable[[Sequence[Match]], "Removal | None"]
"""The work that the cure of a group of matches takes away."""
_BEYOND_ALL = 1000.0
"""More percent than a cure can save: what gives wrong results comes before."""


def worth_telling(matches: Sequence[Match], savings: Savings, removal: RemovalOf) -> list[Match]:
    """The matches without the small ones whose cures save little.

    Where several small cures take one kind of work away, none is told if all of that work would
    save too little. Small matches of a rule that has others are left to those.
    """
    large = [match for match in matches if not match.is_small]
    if len(large) == len(matches):
        return large
    _ask_first(one_of_each_cause(large), savings, removal)
    rules = {match.rule.text.id for match in large}
    small = [
        match
        for match in matches
        if match.is_small and not (match.rule.text.cured_together and match.rule.text.id in rules)
    ]
    worth: set[tuple[str, int]] = set()  # by rule and loop: what is worth telling of one is of all
    groups = [(group, removal(group)) for group in cured_together(small)]
    kinds = Counter(work.what for _, work in groups if work is not None)
    for group, work in groups:
        if work is None:
            continue
        rule = group[0].rule.text.id
        bounds = [Removal(work.what)] if kinds[work.what] > 1 else []
        if all(_is_worth(savings.of_rule(rule, each)) for each in (*bounds, work)):
            worth.update((rule, match.ordinal) for match in group)
    return [
        match
        for match in matches
        if not match.is_small or (match.rule.text.id, match.ordinal) in worth
    ]


def by_saving(matches: Sequence[Match], savings: Savings, removal: RemovalOf) -> list[Match]:
    """The matches, of each cause those of the rule first whose cure saves most.

    Rules stay in the pack's order that save about the most, too little for a finding, or nobody
    knows what; behind these are matches that are told only for what they save.
    """
    rules: dict[str, set[str]] = {}
    for match in matches:
        rules.setdefault(match.rule.text.cause, set()).add(match.rule.text.id)
    rivals = [match for match in matches if len(rules[match.rule.text.cause]) > 1]
    _ask_first(one_of_each_cause(matches) if rivals else (), savings, removal)
    percents: dict[tuple[str, int], float] = {}
    most: dict[str, float] = {}
    for group in cured_together(rivals):
        rule = group[0].rule.text
        percent = savings.of_rule(rule.id, removal(group))
        if CORRECTNESS in rule.tags:
            percent = _BEYOND_ALL
        if percent is not None and percent >= LEAST:
            most[rule.cause] = max(most.get(rule.cause, 0.0), percent)
            for match in group:
                place = rule.id, match.ordinal
                percents[place] = max(percents.get(place, 0.0), percent)

    def behind(match: Match) -> float:
        rule = match.rule.text
        lacks = most.get(rule.cause, 0.0) - percents.get((rule.id, match.ordinal), 0.0)
        return lacks if lacks >= LEAST else 0.0

    return sorted(matches, key=lambda match: (behind(match), match.is_small))


def _ask_first(matches: Sequence[Match], savings: Savings, removal: RemovalOf) -> None:
    """Has the cures of some matches priced before others: the number of prices is limited."""
    for group in cured_together(matches):
        savings.of_rule(group[0].rule.text.id, removal(group))


def _is_worth(percent: float | None) -> bool:
    return percent is not None and percent >= LEAST
