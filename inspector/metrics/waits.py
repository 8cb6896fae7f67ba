"""Wait statistics: how many waits, which counters, and how many drain a counter completely."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..model import Metric, MetricSpec
from .subject import Subject, Tally

SPECS = (
    MetricSpec(
        "count.full_wait",
        "instructions",
        "derived",
        "both",
        "Waits that let a counter fall to 0: everything outstanding in it must arrive",
    ),
    MetricSpec(
        "waits.*", "instructions", "derived", "both", "Waits that constrain the given counter"
    ),
    MetricSpec(
        "full_waits.*", "instructions", "derived", "both", "Waits that drain the given counter to 0"
    ),
)


def compute(subject: Subject, region: Tally) -> Iterator[Metric]:
    per_counter: Counter[str] = Counter()
    full: Counter[str] = Counter()
    full_waits = 0
    for _, counts in region.waits:
        per_counter.update(counts.keys())
        drained = [counter for counter, n in counts.items() if n == 0]
        full.update(drained)
        full_waits += bool(drained)
    yield Metric("count.full_wait", full_waits, "instructions", "derived")
    for counter, n in sorted(per_counter.items()):
        yield Metric(f"waits.{counter}", n, "instructions", "derived")
        yield Metric(f"full_waits.{counter}", full[counter], "instructions", "derived")
