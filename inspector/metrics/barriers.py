"""Barriers that order nothing."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Metric, MetricSpec
from .subject import NOT_ALL_READ, Subject, Tally

_NAME, _UNIT = "barriers.redundant", "barriers"

SPECS = (
    MetricSpec(
        _NAME,
        _UNIT,
        "derived",
        "both",
        "Barriers that could go: no access between them and the last barrier collides with one "
        "up to the next, whatever the addresses",
    ),
)


def compute(subject: Subject, region: Tally) -> Iterator[Metric]:
    if subject.sync is None or subject.sync.needless is None:
        note = "waves take turns here, barriers have names, or the target is unknown"
        note = note if subject.function.all_read else NOT_ALL_READ
        yield Metric(_NAME, None, _UNIT, "derived", note)
        return
    needless = [index for index in region.indices if index in subject.sync.needless]
    instructions = subject.function.instructions
    lines = ", ".join(str(instructions[index].line) for index in needless)
    note = f"in line {lines}" if needless else ""
    yield Metric(_NAME, len(needless), _UNIT, "derived", note)
