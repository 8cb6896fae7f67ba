"""The text beside the list that explains a finding or a group of findings."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping

from textual.content import Content

from ....inspector.explain import time_view, view
from ....inspector.explain.code import explanations
from ....inspector.lint.packs import bundled_packs, load_packs
from ....inspector.lint.rule import Rule
from ....inspector.model import Finding
from ....inspector.pipeline.analysis import catalogue
from ...widgets.bars import Piece
from .finding_groups import LEAD, MARKS, FindingGroup, Item, Rules

_FAINT = "$foreground 60%"
_COLOURS: Mapping[str, str] = {
    "error": "$error",
    "warning": "$warning",
    "info": "$primary",
    LEAD: _FAINT,
}
_LABELS: Mapping[str, str] = {"error": "error", "warning": "warning", "info": "note", LEAD: LEAD}
_MAX_LOCATIONS = 20
_MAX_FIXES = 3
_MAX_SAVINGS = 5


@functools.cache
def rules() -> Rules:
    """All rules that ship with kinspect by id; also those in preview, which reports may name."""
    packs = load_packs(bundled_packs(), catalogue())
    return {rule.text.id: rule for pack in reversed(packs) for rule in pack.rules}


def of_item(item: Item, rule: Rule | None) -> Content:
    """A finding's message, evidence, locations, remedy and rule."""
    finding = item.finding
    return _assembled(
        _title(finding.rule, rule, item.level, finding.confidence),
        [(f"{item.kernel} {item.entry.report.arch or '-'}  ", _FAINT)],
        [(view.place(item.entry.report.source), _FAINT), ("\n\n", "")],
        [(f"{' '.join(finding.message.split())}\n", "")],
        _prose("Why it may not pay", finding.doubt),
        _evidence(finding),
        _locations(item),
        _prose("What to change", finding.advice or _plain(rule.text.fix if rule else "")),
        _savings(item),
        _rule(rule),
    )


def of_group(group: FindingGroup, rule: Rule | None) -> Content:
    """A group's rule with the findings' remedies; without a rule, a tally by rule."""
    if rule is not None:
        text = rule.text
        return _assembled(
            _title(text.id, rule, group.worst, text.confidence),
            [(f"{group.tally}\n", _FAINT)],
            _fixes(group, text.fix),
            _rule(rule),
        )
    counts: dict[tuple[str, str], int] = {}
    for item in group.items:
        key = (item.level, item.finding.rule)
        counts[key] = counts.get(key, 0) + 1
    listed = [
        (f"  {MARKS[severity]} {name}  ×{count}\n", _COLOURS[severity])
        for (severity, name), count in counts.items()
    ]
    return _assembled([(f"{group.title}\n", "bold"), (f"{group.tally}\n\n", _FAINT)], listed)


def _assembled(*parts: Iterable[Piece]) -> Content:
    pieces = [piece for part in parts for piece in part]
    return Content.assemble(*(piece for piece in pieces if piece[0]))


def _title(name: str, rule: Rule | None, level: str, confidence: str) -> Iterator[Piece]:
    yield f"{MARKS[level]} ", _COLOURS[level]
    yield f"{name} {rule.text.name if rule else ''}".rstrip(), "bold"
    yield f"  {_LABELS[level]}, {confidence}\n", _COLOURS[level]


def _heading(text: str) -> Piece:
    return f"\n{text}\n", "bold $accent"


def _prose(title: str, text: str) -> Iterator[Piece]:
    if text:
        yield _heading(title)
        yield f"{' '.join(text.split())}\n", ""


def _fixes(group: FindingGroup, rule_fix: str) -> Iterator[Piece]:
    """The findings' remedies, else the rule's; some rules leave the remedy to each finding."""
    fixes = dict.fromkeys(" ".join(item.finding.advice.split()) for item in group.items)
    proposals = [fix for fix in fixes if fix] or [fix for fix in (_plain(rule_fix),) if fix]
    for number, fix in enumerate(proposals[:_MAX_FIXES]):
        yield _heading("What to change") if not number else ("\n", "")
        yield f"{' '.join(fix.split())}\n", ""
    if len(proposals) > _MAX_FIXES:
        yield f"\nand {len(proposals) - _MAX_FIXES} other proposals: see the findings\n", _FAINT


def _plain(fix: str) -> str:
    """A rule's fix; "" if it has placeholders for a finding's figures."""
    return "" if "{" in fix else fix


def _evidence(finding: Finding) -> Iterator[Piece]:
    evidence = explanations.evidence(finding, unit_of)
    if not evidence:
        return
    yield _heading("Evidence")
    width = max(len(name) for name, _ in evidence)
    for name, value in evidence:
        yield f"{name:<{width}}  ", _FAINT
        yield f"{value}\n", ""


def unit_of(name: str) -> str:
    """The unit of a metric; "" if the metric is unknown or has none."""
    spec = catalogue().spec(name)
    return spec.unit if spec is not None else ""


def _savings(item: Item) -> Iterator[Piece]:
    """What the kernel's launch takes, and what it would take with one cost gone."""
    time = item.entry.report.time
    if time is None:
        return
    yield _heading("Time of the kernel's launch")
    yield f"{time_view.estimate(time)}, limited by {time.limiter}\n", ""
    for saving in time.savings[:_MAX_SAVINGS]:
        yield f"{time_view.saved(saving):<14}  ", "$primary"
        yield f"{time_view.change_of(saving)}\n", ""


def _locations(item: Item) -> Iterator[Piece]:
    locations = [location for location in item.finding.locations if location.line]
    if not locations:
        return
    yield _heading("Where")
    for location in locations[:_MAX_LOCATIONS]:
        text = "ISA" if location.kind == "amdgcn" else location.kind
        file = f"{view.file_name(location.file)}:" if location.file else f"{text} "
        yield f"{f'{file}{location.line}':<14}  ", "$primary"
        yield f"{' '.join(location.text.split())}\n", ""
    if len(locations) > _MAX_LOCATIONS:
        yield f"and {len(locations) - _MAX_LOCATIONS} more\n", _FAINT


def _rule(rule: Rule | None) -> Iterator[Piece]:
    if rule is None:
        yield "\nNo pack that ships with kinspect has this rule.\n", _FAINT
        return
    yield from _prose("Why it matters", rule.text.explain)
    if rule.text.references:
        yield _heading("References")
        for reference in rule.text.references:
            yield f"{' '.join(reference.title.split())}\n", ""
            yield f"  {reference.url}\n", "$primary"
