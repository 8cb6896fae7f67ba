"""What waits are there for: how many have something to wait for, how many wait for too much.

Counted per counter, as the report lists them: one instruction may wait for several.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..model import Metric, MetricSpec, WaitOp
from .subject import NOT_ALL_READ, Subject, Tally

TIGHT = 8
"""Instructions: a wait that comes sooner after what it waits for hides nothing of its latency."""

_VERDICTS = {
    "needed": "Waits without which a register would be touched too early",
    "over_strict": "Waits that hold up more than they must: a larger count would do, or none",
    "ordering": "Waits that serve a fence or barrier, not a register",
    "idle": "Waits that can never find anything outstanding",
    "missing": "Registers touched while a load into them may be outstanding: an error",
}
_TIGHT, _LEAST = "wait_use.tight", "wait_use.slack.min"

SPECS = (
    *(
        MetricSpec(f"wait_use.{name}", "waits", "derived", "both", about)
        for name, about in _VERDICTS.items()
    ),
    MetricSpec(
        _TIGHT,
        "waits",
        "derived",
        "both",
        f"Needed waits less than {TIGHT} instructions after the youngest access they wait for",
    ),
    MetricSpec(
        _LEAST,
        "instructions",
        "derived",
        "both",
        "Fewest instructions between a needed wait and the youngest access it waits for",
    ),
)


def compute(subject: Subject, region: Tally) -> Iterator[Metric]:
    if subject.sync is None or not subject.sync.judged:
        note = "the target is unknown, or its registers cannot be told"
        note = note if subject.function.all_read else NOT_ALL_READ
        for spec in SPECS:
            yield Metric(spec.name, None, spec.unit, spec.origin, note)
        return
    waits = subject.sync.waits
    entries = [wait for index in region.indices for wait in waits.get(index, ())]
    verdicts = Counter(wait.verdict for wait in entries)
    for name in _VERDICTS:
        count = verdicts[name.replace("_", "-")]
        yield Metric(f"wait_use.{name}", count, "waits", "derived")
    slacks = [slack for wait in entries if (slack := _slack(wait)) is not None]
    yield Metric(_TIGHT, sum(slack < TIGHT for slack in slacks), "waits", "derived")
    note = "" if slacks else "no wait is needed here"
    yield Metric(_LEAST, min(slacks, default=None), "instructions", "derived", note)


def _slack(wait: WaitOp) -> int | None:
    return wait.slack if wait.verdict == "needed" else None
