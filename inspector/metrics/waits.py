"""Waits: their numbers and purposes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..model import Metric
from .entries import of_both, unknown
from .subject import NOT_ALL_READ, Subject, Tally

COUNT_SPECS = of_both(
    {
        "count.full_wait": "instructions | Waits that let a counter fall to 0: everything "
        "outstanding in it must arrive",
        "waits.*": "instructions | Waits that constrain the given counter",
        "full_waits.*": "instructions | Waits that drain the given counter to 0",
    }
)


def wait_counts(subject: Subject, region: Tally) -> Iterator[Metric]:
    """The metrics of `COUNT_SPECS`."""
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


TIGHT = 8
"""Instructions: a wait sooner after its access hides nothing of the access's latency."""

_VERDICTS = {
    "needed": "Waits without which a register would be touched too early",
    "over_strict": "Waits that hold up more than they must: a larger count would do, or none",
    "ordering": "Waits that serve a fence or barrier, not a register",
    "idle": "Waits that can never find anything outstanding",
    "missing": "Missing waits: a register is touched while a load into it may be outstanding, or "
    "another wave loads what may not have been stored at the barrier between: an error",
}
_TIGHT, _LEAST = "wait_use.tight", "wait_use.slack.min"

USE_SPECS = of_both(
    {f"wait_use.{name}": f"waits | {about}" for name, about in _VERDICTS.items()}
    | {
        _TIGHT: f"waits | Needed waits less than {TIGHT} instructions after the youngest access "
        "they wait for",
        _LEAST: "instructions | Fewest instructions between a needed wait and the youngest access "
        "it waits for",
    }
)


def wait_uses(subject: Subject, region: Tally) -> Iterator[Metric]:
    """The metrics of `USE_SPECS`."""
    if not subject.sync.is_judged:
        note = "the target is unknown, or its registers cannot be told"
        note = note if subject.function.all_read else NOT_ALL_READ
        yield from unknown(USE_SPECS, note)
        return
    waits = subject.sync.waits
    entries = [wait for index in region.indices for wait in waits.get(index, ())]
    verdicts = Counter(str(wait.verdict) for wait in entries)
    for name in _VERDICTS:
        count = verdicts[name.replace("_", "-")]
        yield Metric(f"wait_use.{name}", count, "waits", "derived")
    needed = (wait.slack for wait in entries if wait.verdict == "needed")
    slacks = [slack for slack in needed if slack is not None]
    yield Metric(_TIGHT, sum(slack < TIGHT for slack in slacks), "waits", "derived")
    note = "" if slacks else "no wait is needed here"
    yield Metric(_LEAST, min(slacks, default=None), "instructions", "derived", note)
