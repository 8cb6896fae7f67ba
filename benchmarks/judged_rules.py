"""Writes rules/JUDGED.md: how often each rule's findings proved true when judged by hand.

    python -m benchmarks.judged_rules

The judgements stand in rules/judged/*.yaml, one entry for each finding that was looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from kinspect.inspector.analysis import catalogue
from kinspect.inspector.lint.rule import Rule
from kinspect.inspector.lint.schema import load_packs

RULES = Path(__file__).parent.parent / "rules"
PACKS = ("recommended", "strict", "guide")

# True by construction: the finding is the figure itself. Few kernels have it, so few were judged.
CERTAIN = {
    "KI004": "the kernel has no instruction that loads, stores or computes",
    "KI005": "the LDS that Triton states against the limit of the target",
    "KI016": "the occupancy is 0: registers, waves or work-items beyond what a CU has",
    "KI022": "compilers write none; removed waits are found (tests/test_waitflow_mutation.py)",
    "KG008": "the option is 0",
}

_HEAD = """\
# Judged by hand

Findings of the bundled rules on public kernels and on the bundled ones, each held against the
assembly, the TTGIR and the source; [the corpus](../benchmarks/capture_corpus.yaml) names the
projects. *True* says that the message is so in the code and that the advice is sensible for that
kernel. Reasons stand with each in [judged/](judged). A stable rule has at least ten judged findings
and at most one in ten false, or is certain by construction; the others are in preview. Made by
`python -m benchmarks.judged_rules`.

| rule | name | pack | status | judged | false | |
|---|---|---|---|--:|--:|---|
"""


def judged(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Rule's id -> its judged findings."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.yaml")):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8")) or ():
            found.setdefault(entry["rule"], []).append(entry)
    return found


def is_certain(rule: str) -> bool:
    """Whether a rule's findings are true by construction."""
    return rule in CERTAIN


def summary(folder: Path, rules: Iterable[Rule]) -> str:
    """The page."""
    entries = judged(folder)
    lines = []
    for rule in sorted(rules, key=lambda r: r.text.id):
        of_rule = entries.get(rule.text.id, [])
        false = sum(not entry["verdict"] for entry in of_rule)
        note = f"certain: {CERTAIN[rule.text.id]}" if rule.text.id in CERTAIN else ""
        lines.append(
            f"| {rule.text.id} | {rule.text.name} | {rule.pack} | {rule.text.status}"
            f" | {len(of_rule)} | {false} | {note} |\n"
        )
    return _HEAD + "".join(lines)


def main() -> None:
    """Writes the page."""
    rules: dict[str, Rule] = {}
    for pack in load_packs(PACKS, catalogue()):
        for rule in pack.rules:
            rules.setdefault(rule.text.id, rule)
    page = summary(RULES / "judged", rules.values())
    (RULES / "JUDGED.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
