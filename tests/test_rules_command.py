"""`kinspect rules`: the list, one rule, the check of own packs, the schema."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.cli.group import run
from kinspect.inspector.lint.packs import bundled_packs, load_packs
from kinspect.inspector.lint.packschema import pack_schema
from kinspect.inspector.metrics.catalogue import specs

OWN = """\
pack: own
extends: recommended
override:
  KI001: {severity: warning}
rules:
  - id: OWN01
    name: narrow-loads
    severity: error
    confidence: likely
    scope: instruction
    tags: [memory]
    cause: narrow accesses
    removes: {what: wide accesses, part: "op.bits / 128"}
    when: op.kind == "global_load" and access.limited_by == "contiguity"
    require: op.bits >= 64
    message: "{matches} × {op.mnemonic} | {access.reason}"
    explain: A narrow load moves little. It still costs an instruction.
    fix: "{access.fix}"
    references:
      - {title: A guide, url: "https://example.org/g"}
  - id: OWN02
    name: full-waits
    severity: info
    scope: wait
    require: not wait.full
    message: full
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.yaml"
    path.write_text(OWN)
    return str(path)


def out(capsys: Any, *args: str, status: int = 0) -> str:
    assert run(["rules", *args]) == status
    return str(capsys.readouterr().out)


def test_every_bundled_rule_is_listed(capsys: Any) -> None:
    packs = load_packs(bundled_packs(), specs_with_words())
    wanted = {rule.text.id for pack in packs for rule in pack.rules}
    lines = out(capsys, "list").splitlines()
    assert lines[0].split()[:7] == [
        *("id", "name", "severity", "scope", "status", "confidence", "pack"),
    ]
    assert {line.split()[0] for line in lines[1:]} == wanted
    assert len(lines) == len(wanted) + 1
    assert len({line.index(f" {line.split()[1]} ") for line in lines}) == 1, "columns are aligned"
    listed = json.loads(out(capsys, "list", "--format", "json"))["rules"]
    assert {rule["id"] for rule in listed} == wanted
    table = out(capsys, "list", "--format", "md").splitlines()
    assert len(table) == len(wanted) + 2
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1


def specs_with_words() -> Any:
    from kinspect.inspector.isa.mnemonics import CLASSES
    from kinspect.inspector.isa.waitflow.counters import COUNTERS
    from kinspect.inspector.lint.catalogue import Catalogue

    return Catalogue.of(specs(), [*CLASSES, *COUNTERS])


def test_a_pack_of_ones_own_is_listed(capsys: Any, own: str) -> None:
    lines = out(capsys, "list", "--rules", own).splitlines()
    assert lines[-2].split()[:7] == [
        *("OWN01", "narrow-loads", "error", "instruction", "stable", "likely", "own"),
    ]
    assert lines[-2].endswith("A narrow load moves little")
    assert [line.split()[2] for line in lines if line.startswith("  KI001")] == ["warning"]
    for packs in (["recommended", own], [own, "recommended"]):
        options = [option for pack in packs for option in ("--rules", pack)]
        both = json.loads(out(capsys, "list", *options, "--format", "json"))["rules"]
        (first,) = [rule for rule in both if rule["id"] == "KI001"]
        assert (first["severity"], first["pack"]) == ("error", "recommended")
        assert first["packs"] == {"recommended": "error", "own": "warning"}


def test_one_rule_in_full(capsys: Any, own: str) -> None:
    text = out(capsys, "show", "OWN01", "--rules", own)
    assert (
        text
        == f"""\
OWN01 narrow-loads  error, likely, stable
  pack own ({own}:6)
  cause       narrow accesses
  looks at    each memory access
  only where  op.kind == "global_load" and access.limited_by == "contiguity"
  requires    op.bits >= 64
  else says   {{matches}} × {{op.mnemonic}} | {{access.reason}}
  cure takes  wide accesses, of which op.bits / 128
  tags        memory

  reads              unit       meaning
  op.bits            bits/lane  How much it moves
  op.kind            name       Its mnemonic class: global_load, lds_read, ...
  access.limited_by  name       What made it narrow
  matches            matches    How many match in the loop; in texts and `removes` alone
  op.mnemonic        name       The instruction
  access.reason      name       The same in a sentence, with the argument at fault
  access.fix         name       What to change

  why
  A narrow load moves little. It still costs an instruction.

  what to change
  {{access.fix}}

  references
  A guide: https://example.org/g
"""
    )
    found = json.loads(out(capsys, "show", "narrow-loads", "--rules", own, "--format", "json"))
    assert found["id"] == "OWN01"
    assert (found["tags"], found["cause"]) == (["memory"], "narrow accesses")
    assert found["removes"] == {"what": "wide accesses", "part": "op.bits / 128"}
    assert found["references"] == [{"title": "A guide", "url": "https://example.org/g"}]
    assert [entry["name"] for entry in found["reads"]][:2] == ["op.bits", "op.kind"]
    page = out(capsys, "show", "own01", "--rules", own, "--format", "md")
    assert page.startswith("## `OWN01 narrow-loads` error, likely, stable\n")
    assert "\n[A guide](<https://example.org/g>)" in page


@pytest.mark.parametrize("most", [4, pytest.param(None, marks=pytest.mark.slow)])
def test_rules_of_every_scope_can_be_shown(capsys: Any, own: str, most: int | None) -> None:
    assert "each wait\n" in out(capsys, "show", "OWN02", "--rules", own)
    by_scope: dict[str, list[dict[str, Any]]] = {}
    for rule in json.loads(out(capsys, "list", "--format", "json"))["rules"]:
        by_scope.setdefault(rule["scope"], []).append(rule)
    assert len(by_scope) == 4
    for rule in (rule for rules in by_scope.values() for rule in rules[:most]):
        text = out(capsys, "show", rule["id"])
        assert rule["name"] in text
        assert all(reference["url"] in text for reference in rule["references"])
        assert " ".join(rule["explain"].split()) in " ".join(text.split())


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("spills-in-hot-lop", "no rule spills-in-hot-lop (did you mean spills-in-hot-loop?)"),
        ("ki01", "no rule ki01 (did you mean KI"),
        ("zzz", "no rule zzz; see `kinspect rules list`"),
    ],
)
def test_unknown_rules(capsys: Any, word: str, message: str) -> None:
    assert run(["rules", "show", word]) == 2
    assert message in capsys.readouterr().err


def test_unknown_packs(capsys: Any) -> None:
    assert run(["rules", "list", "--rules", "recomended"]) == 2
    assert "no rule pack recomended (did you mean recommended?)" in capsys.readouterr().err


def test_checking_sound_packs(capsys: Any, own: str) -> None:
    found = out(capsys, "check", own, "recommended").splitlines()
    count = len(load_packs(["recommended"], specs_with_words())[0].rules)
    assert found == [
        f"{own}: 2 rules and {count} taken over, no faults",
        f"recommended: {count} rules, no faults",
    ]


def test_checking_tells_every_fault_of_every_file(capsys: Any, own: str, tmp_path: Path) -> None:
    bad, worse = tmp_path / "bad.yaml", tmp_path / "worse.yaml"
    bad.write_text(
        OWN.replace("op.bits >= 64", "op.bit >= 64").replace("severity: info", "severity: low")
    )
    worse.write_text("rules: [\n")
    files = [str(bad), own, str(worse), str(tmp_path / "none.yaml"), str(tmp_path)]
    lines = out(capsys, "check", *files, status=2).splitlines()
    assert lines[0] == f"{bad}:15:14: unknown metric op.bit (did you mean op.bits?)"
    assert lines[1] == f"{bad}:23:15: Invalid enum value 'low'"
    assert lines[2].startswith(f"{own}: 2 rules")
    assert lines[3].startswith(f"{worse}:2:1: ")
    assert lines[4].startswith(f"no rule pack {tmp_path / 'none.yaml'}")
    assert lines[5].startswith(f"cannot read rule pack {tmp_path}")
    assert lines[6:] == ["5 faults in 4 of 5 files"]
    found = json.loads(out(capsys, "check", *files, "--format", "json", status=2))["files"]
    assert [entry["file"] for entry in found] == files
    assert found[0]["faults"][0] == {
        "file": str(bad),
        "line": 15,
        "column": 14,
        "message": "unknown metric op.bit (did you mean op.bits?)",
    }
    assert found[1]["faults"] == []
    assert found[3]["error"]


def test_the_schema(capsys: Any, tmp_path: Path) -> None:
    assert json.loads(out(capsys, "schema")) == pack_schema()
    path = tmp_path / "pack.schema.json"
    assert out(capsys, "schema", "-o", str(path)) == ""
    assert json.loads(path.read_text()) == pack_schema()


def test_listing_imports_little() -> None:
    code = (
        "import sys\n"
        "from kinspect.inspector.cli.main import main\n"
        "main(['rules', 'list'])\n"
        "heavy = {'torch', 'triton', 'rich', 'elftools', 'jsonschema', 'sqlite3', 'hashlib'}\n"
        "sys.stderr.write(str(sorted(heavy & set(sys.modules))))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr == "[]"
    assert done.stdout.startswith("  id ")


def test_metrics_are_listed_by_name_and_described_by_pattern(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def printed(*patterns: str) -> str:
        assert run(["metrics", "list", *patterns]) == 0
        return capsys.readouterr().out

    names = printed()
    assert len(names) < 8_000
    assert all(f" {spec.name}" in names for spec in specs())
    assert all(spec.description in printed("*") for spec in specs())
    heading, *rows = printed("matrix.redundancy", "count.mfma", "lds.conflicts.pad").splitlines()
    assert heading.split() == ["name", "unit", "origin", "scope", "description"]
    assert {row.split()[0] for row in rows} == {"matrix.redundancy", "count.*", "lds.conflicts"}
    data = json.loads(printed("bound.*", "--format", "json"))
    assert {entry["name"].partition(".")[0] for entry in data["metrics"]} == {"bound"}
    assert run(["metrics", "list", "bond.cycles"]) == 2
    assert "did you mean bound.cycles?" in capsys.readouterr().err
