"""The timing model's savings against measured pairs.

`python -m benchmarks.timing_savings PAIRS CASES...`: CASES are files of cases as
`benchmarks.timing` reads them; `warm` marks those that were measured with their data in the
Infinity Cache. PAIRS has one JSON object a line: `cause`, one of `CAUSES`, and `slow` and `cured`,
the names of two cases of which the second lacks that cause. Beside the measured gain,
1 - cured / slow, stand what the model says when it times both, and what it says of the slow one
alone with the cause gone: the saving by the changes of `CAUSES`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.model import KernelTime
from kinspect.inspector.model.time import BOUNDS, CostGone

from .timing import LAUNCH_US, time_of

CAUSES: Final[Mapping[str, tuple[CostGone, ...]]] = {
    "spills": ("scratch",),
    "unpipelined loads": ("earlier loads",),
    "narrow loads": ("wide accesses",),
    "wasted lines": ("lines",),
    "bank conflicts": ("conflicts",),
    "low occupancy": ("occupancy",),
    "few workgroups": ("workgroups",),
    "redundant matrix work": ("repeated products",),
    "loads of what others have": ("memory",),
    "LDS and barriers": ("lds", "barriers"),
    "vector work": ("vector work",),
}
"""What makes the slow one slow -> the changes that take it away."""
NEAR: Final = 0.15
"""Difference of two gains below which one predicts the other."""
FIRST: Final = 3
"""Savings that a reader looks at."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Gains of a pair, as shares of the slow one's time.

    Args:
        name: of both cases.
        cause: one of `CAUSES`.
        measured, predicted: by the times of both.
        saving: by the slow one's counterfactual; 0 where it saves nothing.
        rank: of that, from 1, among changes of the code, or among what bounds them, whichever it
            is; None where it saves nothing.
    """

    name: str
    cause: str
    measured: float
    predicted: float
    saving: float
    rank: int | None


def main() -> int:
    """Prints a line for each pair, and the shares of pairs that are predicted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("pairs", type=Path)
    parser.add_argument("cases", nargs="+", type=Path)
    options = parser.parse_args()
    lines = [line for path in options.cases for line in path.read_text().splitlines()]
    cases = {case["name"]: case for case in map(json.loads, lines)}
    times: dict[tuple[str, bool], KernelTime] = {}
    pairs: list[Pair] = []
    failed = 0
    for line in options.pairs.read_text().splitlines():
        stated = json.loads(line)
        try:
            pairs.append(_pair(stated, cases, times))
        except (KinspectError, OSError) as error:
            failed += 1
            print(f"failed: {stated['slow']}, {stated['cured']}: {error}", file=sys.stderr)
            continue
        print(_row(pairs[-1]), flush=True)
    print(summary(pairs))
    return 1 if failed else 0


def _pair(
    stated: Mapping[str, str],
    cases: Mapping[str, dict[str, Any]],
    times: dict[tuple[str, bool], KernelTime],
) -> Pair:
    slow, cured = cases[stated["slow"]], cases[stated["cured"]]
    for case, savings in ((slow, True), (cured, False)):
        if (case["name"], True) not in times and (case["name"], savings) not in times:
            times[case["name"], savings] = time_of(case, savings=savings)
    now = times[slow["name"], True]
    then = times.get((cured["name"], True)) or times[cured["name"], False]
    changes = CAUSES[stated["cause"]]
    alike = [s for s in now.savings if (s.change in BOUNDS) == (changes[0] in BOUNDS)]
    ranked = [saving for saving in alike if saving.change != "launch"]
    places = [place for place, saving in enumerate(ranked, 1) if saving.change in changes]
    return Pair(
        f"{slow['name']} -> {cured['name']}",
        stated["cause"],
        1 - cured["measured_us"] / slow["measured_us"],
        1 - _us(cured, then) / _us(slow, now),
        max((ranked[place - 1].percent / 100 for place in places), default=0.0),
        min(places, default=None),
    )


def _us(case: Mapping[str, Any], time: KernelTime) -> float:
    us = time.warm_us if case.get("warm") and time.warm_us is not None else time.us
    return us + (LAUNCH_US if case.get("launch_included") else 0.0)


def _row(pair: Pair) -> str:
    return (
        f"{pair.cause:<26} {pair.name:<40} {pair.measured:6.1%} {pair.predicted:6.1%}"
        f" {pair.saving:6.1%}  {pair.rank or '-'}"
    )


def summary(pairs: Sequence[Pair]) -> str:
    """How many gains are within `NEAR`, have the right sign, and a cause among the first."""
    if not pairs:
        return "no pairs"
    count = len(pairs)

    def share(which: Sequence[bool]) -> str:
        return f"{sum(which)} of {count} ({sum(which) / count:.0%})"

    lines = [
        f"{name}: within {100 * NEAR:.0f} points"
        f" {share([abs(gain - pair.measured) <= NEAR for gain, pair in found])}, sign right"
        f" {share([(gain > 0) == (pair.measured > 0) for gain, pair in found])}"
        for name, found in (
            ("both timed", [(pair.predicted, pair) for pair in pairs]),
            ("counterfactual", [(pair.saving, pair) for pair in pairs]),
        )
    ]
    among = [pair.rank is not None and pair.rank <= FIRST for pair in pairs]
    return "\n".join([*lines, f"cause among the first {FIRST}: {share(among)}"])


if __name__ == "__main__":
    raise SystemExit(main())
