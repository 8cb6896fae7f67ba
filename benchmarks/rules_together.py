"""Which rules find fault at the same place: one fact should be one finding.

    kinspect lint kernels/*.py --rules strict --rules guide --select KI,KS,KG,preview \\
        --fail-on never --format json -o found.json
    python -m benchmarks.rules_together found.json

A place is a loop, or the kernel as a whole where a finding stands for that; findings that list
lines of the assembly share a place if they share a line. Pairs are printed of which one rule has
the other beside it in more than 80 % of its places, and in at least four.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

MOST_SHARED = 0.8
FEWEST = 4


@dataclass(frozen=True)
class RulePair:
    """Two rules: places where the first finds something, and those where the second does too."""

    rule: str
    beside: str
    places: int
    shared: int


def places(reports: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[str, frozenset[str]]]]:
    """Rule's id -> its findings: the kernel, and the lines of the assembly that it lists."""
    found: dict[str, list[tuple[str, frozenset[str]]]] = {}
    for report in reports:
        for kernel in report["kernels"]:
            name = f"{kernel['id']} {kernel['case']}"
            for finding in kernel["findings"]:
                lines = (at for at in finding["locations"] if at["kind"] == "amdgcn")
                held = frozenset(f"{at['line']}" for at in lines)
                found.setdefault(finding["rule"], []).append((name, held))
    return found


def pairs(found: Mapping[str, list[tuple[str, frozenset[str]]]]) -> Iterator[RulePair]:
    """Rules that hardly ever speak without another one."""
    for rule, beside in permutations(sorted(found), 2):
        own = found[rule]
        shared = sum(any(_same(place, other) for other in found[beside]) for place in own)
        if len(own) >= FEWEST and shared > MOST_SHARED * len(own):
            yield RulePair(rule, beside, len(own), shared)


def _same(one: tuple[str, frozenset[str]], other: tuple[str, frozenset[str]]) -> bool:
    if one[0] != other[0]:
        return False
    return not one[1].isdisjoint(other[1]) if one[1] and other[1] else not one[1] and not other[1]


def main() -> None:
    """Prints the table."""
    reports = [json.loads(Path(name).read_text("utf-8")) for name in sys.argv[1:]]
    print("| rule | places | beside it | shared |\n|---|--:|---|--:|")
    for pair in pairs(places(reports)):
        print(f"| {pair.rule} | {pair.places} | {pair.beside} | {pair.shared} |")


if __name__ == "__main__":
    main()
