"""The findings that were judged by hand: stable rules are those that proved true.

`rules/judged/*.yaml` holds one entry for each finding that somebody looked at; `rules/JUDGED.md` is
its summary.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from kinspect.inspector.base.documents import yaml_loader
from kinspect.inspector.lint.packs import load_packs
from kinspect.inspector.lint.rule import Rule
from kinspect.inspector.model import Trials
from kinspect.inspector.pipeline.analysis import catalogue

from benchmarks import judged_rules, judging

ROOT = Path(__file__).parent.parent


def _rules() -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    for pack in load_packs(("recommended", "strict", "guide"), catalogue()):
        for rule in pack.rules:
            found.setdefault(rule.text.id, rule)
    return found


RULES = _rules()
JUDGED: dict[str, list[dict[str, Any]]] = judged_rules.judged(ROOT / "rules" / "judged")


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_stable_rules_are_proved_by_claim_cause_and_fix(rule: Rule) -> None:
    found = judged_rules.record(JUDGED.get(rule.text.id, []))
    if rule.text.status != "stable":
        return
    assert found.claim_holds or judged_rules.is_certain(rule.text.id), found
    assert found.cause_holds, found
    assert found.fix_holds, found


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_a_rule_says_of_its_fix_what_the_trials_showed(rule: Rule) -> None:
    found = judged_rules.record(JUDGED.get(rule.text.id, []))
    assert rule.text.tried == found.tried


def test_what_counts_as_proof() -> None:
    def entry(fix: str, *, claim: bool = True, **more: object) -> dict[str, object]:
        return {"claim": claim, "cause": None, "fix": fix, **more}

    helped, worse = entry("helped"), entry("worse")
    assert judged_rules.record([helped, helped, worse]).fix_holds
    assert not judged_rules.record([helped, helped]).fix_holds, "two trials are too few"
    assert not judged_rules.record([helped, helped, worse, worse]).fix_holds, "half is not more"
    # Advice that is no longer given does not count against the rule, nor for it.
    withdrawn = entry("worse", withdrawn=True)
    assert judged_rules.record([helped, withdrawn]).tried == Trials(helped=1)
    untried = judged_rules.record([entry("untried")] * 12)
    assert (untried.claim_holds, untried.cause_holds, untried.fix_holds) == (True, False, False)
    assert judged_rules.rests_on("KX001", untried) == "claim"
    right, wrong = ({"claim": True, "cause": cause, "fix": "untried"} for cause in (True, False))
    assert judged_rules.record([right] * 3).cause_holds
    assert not judged_rules.record([right] * 2).cause_holds
    assert not judged_rules.record([right] * 8 + [wrong]).cause_holds
    assert judged_rules.record([right] * 9 + [wrong]).cause_holds
    assert not judged_rules.record([entry("untried", claim=False)] * 12).claim_holds


def test_findings_that_a_rule_was_changed_for_stay_in_the_record() -> None:
    entry = {"claim": False, "cause": False, "fix": "worse"}
    silenced = judged_rules.record([{**entry, "silenced": True}])
    assert silenced == judged_rules.Record(0, 0, 0, 0, Trials(), 0, 0, silenced=1)
    # A new text can mend the cause that was named; that claim and fix failed stays true.
    renamed = judged_rules.record([{**entry, "renamed": True}])
    assert renamed == judged_rules.Record(1, 1, 0, 0, Trials(worse=1), 0, renamed=1, silenced=0)


def test_entries_are_complete() -> None:
    for rule, entries in JUDGED.items():
        assert rule in RULES
        for entry in entries:
            assert entry["claim"] in (True, False, None), entry
            assert entry["cause"] in (True, False, None), entry
            assert entry["fix"] in judged_rules.OUTCOMES, entry
            assert len(str(entry["reason"]).split()) >= 3, entry
            assert entry["kernel"], entry
            marks = [entry.get(mark, True) for mark in ("withdrawn", "renamed", "silenced")]
            assert all(mark is True for mark in marks), entry


def test_the_summary_is_up_to_date() -> None:
    written = (ROOT / "rules" / "JUDGED.md").read_text("utf-8")
    assert written == judged_rules.summary(ROOT / "rules" / "judged", RULES.values())


def test_no_place_of_a_machine_is_named() -> None:
    texts: Sequence[Path] = list((ROOT / "rules" / "judged").glob("*.yaml"))
    assert texts
    for path in texts:
        assert yaml.load(path.read_text("utf-8"), yaml_loader())
        assert "/tmp" not in path.read_text("utf-8")


def test_rows_to_judge_show_the_code_that_a_finding_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = ROOT / "tests" / "data" / "small_gfx942.s"
    packs = "recommended,strict,guide"
    monkeypatch.setattr(sys, "argv", ["judging", str(target), "--pack", packs])
    assert judging.main() == 0
    rows = yaml.safe_load(capsys.readouterr().out)
    assert rows
    code = target.read_text().splitlines()
    for row in rows:
        assert [row[name] for name in judging.TO_JUDGE] == [None] * len(judging.TO_JUDGE)
        assert row["rule"]
        assert row["said"]
        assert row["advice"]
        for line in row["isa"].splitlines():
            if line[0] in "> ":
                number, _, text = line[2:].partition(": ")
                assert text.split() == code[int(number) - 1].split()
    assert any("\n> " in f"\n{row['isa']}" for row in rows)
