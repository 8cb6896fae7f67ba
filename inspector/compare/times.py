"""Two times of one kernel by the timing model: which is the faster, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from ..model import TimeChange

EQUAL: Final = 0.1
"""Share of the faster time up to which two predicted times are called equal."""
SPREAD: Final = 1.28
"""Three quarters of the measured ratios of two configurations of one kernel lie within this factor
of the predicted one: 1,485 pairs of the gated delta rule, benchmarks/TIMING.md."""

OTHER_WORK: Final = 1.4
"""Ratio of bytes moved from which on two launches of a HIP source do other work."""


def is_other_work(moved: Iterable[float | None], ratio: float = OTHER_WORK) -> bool:
    """Whether launches differ in their work, by the bytes of memory that they move.

    An amount that is not known says nothing; an amount of 0 differs from any other.
    """
    known = [amount for amount in moved if amount is not None]
    return any(known) and max(known) >= ratio * min(known)


def is_faster(us: float, other_us: float) -> bool:
    """Whether the first of two predicted times is the better one, by more than `EQUAL`."""
    return us * (1 + EQUAL) < other_us


def time_change(before_us: float | None, us: float | None) -> TimeChange | None:
    """What a change does to a launch's predicted time, both in microseconds.

    None where one of them is not known. Above 0 they are but in another's report.
    """
    if before_us is None or us is None or before_us <= 0 or us <= 0:
        return None
    ratio = us / before_us
    percent, low, high = (round(100 * (r - 1), 1) for r in (ratio, ratio / SPREAD, ratio * SPREAD))
    verdict: Literal["faster", "equal", "slower"] = "equal"
    if is_faster(us, before_us):
        verdict = "faster"
    elif is_faster(before_us, us):
        verdict = "slower"
    return TimeChange(before_us, us, percent, low, high, verdict)
