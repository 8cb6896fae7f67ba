"""Writes what the judged findings say of each rule: rules/JUDGED.md, and `tried` in the packs.

    python -m benchmarks.judged_rules

The judgements stand in rules/judged/*.yaml, one entry for each finding that was looked at:

    claim   whether the message is so in the code
    cause   whether what the rule names as the reason is the reason
    fix     helped, nothing or worse where the advice was followed and compiled; else untried

null says that nobody judged it; `tried` says what was changed. Three marks say that a rule was
changed for a finding. Such rows stay in the file and are counted in a column of their own:

    withdrawn   the rule no longer gives the advice that was tried: the trial does not count
    renamed     the rule's text now names the cause that was found: the cause does not count
    silenced    the rule no longer makes this finding: nothing of it counts, for or against
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from kinspect.inspector.base.documents import yaml_loader
from kinspect.inspector.lint.packs import load_packs
from kinspect.inspector.lint.rule import Rule
from kinspect.inspector.model import Trials
from kinspect.inspector.pipeline.analysis import catalogue

RULES = Path(__file__).parent.parent / "rules"
PACKS = ("recommended", "strict", "guide")
FEWEST_CLAIMS = 10
FEWEST_TRIALS = 3
MOST_FALSE = 0.1
OUTCOMES = ("helped", "nothing", "worse", "untried")

# True by construction: the finding is the figure itself. Few kernels have it, so few were judged.
CERTAIN = {
    "KI004": "the kernel has no instruction that loads, stores or computes",
    "KI005": "the LDS that Triton states against the limit of the target",
    "KI016": "the occupancy is 0: registers, waves or work-items beyond what a CU has",
    "KI022": "compilers write none; removed waits are found (tests/test_waitflow_mutation.py)",
    "KI050": "what is told was carried out; left-out barriers are found (tests/test_lds_races.py)",
    "KI039": "LLVM marks its spills and counts them; these are none",
    "KI056": "Triton states the order of each atomic, and nothing in the code uses its result",
    "KI059": "no instruction that converts 8-bit floats stands where Triton converts one",
    "KI095": "the largest workgroup that the code allows against the wave",
    "KI127": "the waits of the code are carried out, and what each load's address rests on",
    "KI128": "the VGPRs that are asked for against those that are used",
    "KI130": "as KI050, with two waves",
    "KI129": "the wait states are counted on all paths; LLVM puts in as many as are said to lack",
    "KI098": "the launch's workgroups against those that fit at a time",
    "KI131": "the mask is worked out in workgroups all over the grid",
    "KG008": "the option is 0",
}

_HEAD = """\
# Judged by hand

Findings of the bundled rules on public kernels and on the bundled ones, each held against the
assembly, the TTGIR and the source; [the corpus](../benchmarks/capture_corpus.yaml) names the
projects. Reasons stand with each in [judged/](judged).

- *Claim*: is the message so in the code? Judged, and of these false.
- *Cause*: is what the rule names as the reason the reason? Right and wrong, where somebody found
  out: by taking it away.
- *Fix*: the kernel was changed as the rule advises and compiled: what was found is gone or less
  (helped), as before (nothing), or more was lost elsewhere (worse). Figures are the compiler's,
  nothing was timed. A rule without a trial prints its fix as *not tried*.
- *Since changed*: judged findings that failed or were of no use, for which the rule was changed.
  *Withdrawn* is advice that it no longer gives, *renamed* a wrong cause whose text now names the
  right one, *silenced* a finding that it no longer makes: trial, cause and all of it do not count.
  A rule that was changed for a finding has not been judged anew on others.

A rule is stable only by all three: its claims proved true (ten judged, at most one in ten false, or
certain by construction), its cause right (three found out, at most one in ten wrong), and its fix
helped in more than half of three trials or more. *Rests on* says for which of the three there is
proof. Made by `python -m benchmarks.judged_rules`.

| rule | name | pack | status | claim: judged | false | cause: right | wrong \
| fix: helped | nothing | worse | since changed: withdrawn | renamed | silenced | rests on |
|---|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|
"""


@dataclass(frozen=True)
class Record:
    """What is known of a rule: counts of judged findings."""

    claims: int
    false: int
    causes_right: int
    causes_wrong: int
    tried: Trials
    withdrawn: int
    renamed: int
    silenced: int

    @property
    def claim_holds(self) -> bool:
        """Whether enough claims were judged, and few enough were false."""
        return self.claims >= FEWEST_CLAIMS and self.false <= MOST_FALSE * self.claims

    @property
    def cause_holds(self) -> bool:
        """Whether the cause was found right often enough, and hardly ever wrong."""
        known = self.causes_right + self.causes_wrong
        enough = self.causes_right >= FEWEST_TRIALS
        return enough and self.causes_wrong <= MOST_FALSE * known

    @property
    def fix_holds(self) -> bool:
        """Whether the fix was tried often enough, and helped more often than not."""
        enough = self.tried.count >= FEWEST_TRIALS
        return enough and self.tried.helped * 2 > self.tried.count


def judged(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Rule's id -> its judged findings."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.yaml")):
        for entry in yaml.load(path.read_text(encoding="utf-8"), Loader=yaml_loader()) or ():
            found.setdefault(entry["rule"], []).append(entry)
    return found


def record(entries: Sequence[Mapping[str, Any]]) -> Record:
    """The counts of one rule's entries."""
    made = [entry for entry in entries if not entry.get("silenced")]
    claims = [entry["claim"] for entry in made if entry["claim"] is not None]
    named = [entry for entry in made if not entry.get("renamed")]
    causes = [entry["cause"] for entry in named if entry["cause"] is not None]
    fixes = [entry["fix"] for entry in made if not entry.get("withdrawn")]
    return Record(
        claims=len(claims),
        false=claims.count(False),
        causes_right=causes.count(True),
        causes_wrong=causes.count(False),
        tried=Trials(*(fixes.count(outcome) for outcome in ("helped", "nothing", "worse"))),
        withdrawn=len(made) - len(fixes),
        renamed=len(made) - len(named),
        silenced=len(entries) - len(made),
    )


def is_certain(rule: str) -> bool:
    """Whether a rule's findings are true by construction."""
    return rule in CERTAIN


def rests_on(rule: str, found: Record) -> str:
    """Which of claim, cause and fix there is proof for."""
    claim = "claim (certain)" if is_certain(rule) else "claim" if found.claim_holds else ""
    cause = "cause" if found.cause_holds else ""
    fix = "fix" if found.fix_holds else ""
    return ", ".join(part for part in (claim, cause, fix) if part)


def summary(folder: Path, rules: Iterable[Rule]) -> str:
    """The page."""
    entries = judged(folder)
    lines = []
    for rule in sorted(rules, key=lambda r: r.text.id):
        found = record(entries.get(rule.text.id, []))
        tried = found.tried
        figures = (
            *(found.claims, found.false, found.causes_right, found.causes_wrong),
            *(tried.helped, tried.nothing, tried.worse),
            *(found.withdrawn, found.renamed, found.silenced),
        )
        lines.append(
            f"| {rule.text.id} | {rule.text.name} | {rule.pack} | {rule.text.status}"
            f" | {' | '.join(map(str, figures))} | {rests_on(rule.text.id, found)} |\n"
        )
    return _HEAD + "".join(lines)


def with_trials(pack: str, entries: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """A bundled pack's text with each rule's `tried` as the entries have it."""
    head, *rules = re.split(r"(?m)^(?=  - id: )", pack)
    return head + "".join(_with_trials(rule, entries) for rule in rules)


def _with_trials(rule: str, entries: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    id_ = rule.split(maxsplit=3)[2]
    tried = record(entries.get(id_, [])).tried
    counts = f"helped: {tried.helped}, nothing: {tried.nothing}, worse: {tried.worse}"
    rule = re.sub(r"(?m)^    tried: .*\n", "", rule)
    return re.sub(
        r"(?m)^    references:", f"    tried: {{{counts}}}\n    references:", rule, count=1
    )


def main() -> None:
    """Writes the page and the packs."""
    entries = judged(RULES / "judged")
    for name in PACKS:
        path = RULES / f"{name}.yaml"
        path.write_text(with_trials(path.read_text("utf-8"), entries), encoding="utf-8")
    rules: dict[str, Rule] = {}
    for pack in load_packs(PACKS, catalogue()):
        for rule in pack.rules:
            rules.setdefault(rule.text.id, rule)
    (RULES / "JUDGED.md").write_text(summary(RULES / "judged", rules.values()), encoding="utf-8")


if __name__ == "__main__":
    main()
