"""Ids of rules that were: known wherever a rule is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from kinspect.inspector.cli.group import cli
from kinspect.inspector.compare.trials.planning import bundled_rules, judging_pack
from kinspect.inspector.lint.former_rules import FORMER
from kinspect.inspector.lint.packs import load_pack
from kinspect.inspector.pipeline.analysis import catalogue


def test_former_ids_are_not_used_again_and_their_successors_are_rules() -> None:
    assert not FORMER.keys() & bundled_rules().keys()
    assert {id_ for id_ in FORMER.values() if id_} <= bundled_rules().keys()


@pytest.mark.parametrize(
    ("rule", "said"),
    [("KI002", "KI002 is told by KI001 since 2026-12\n"), ("KI014", "KI014 is no longer told\n")],
)
def test_show_says_what_became_of_a_rule(rule: str, said: str) -> None:
    done = CliRunner().invoke(cli, ["rules", "show", rule])
    assert (done.exit_code, done.output) == (0, said)


def test_comments_options_and_packs_may_name_them(tmp_path: Path, small_asm: Path) -> None:
    kernel = tmp_path / "k.s"
    kernel.write_text("; kinspect: ignore-file[KI014] as it was\n" + small_asm.read_text())
    for option in ("--ignore", "--select"):
        done = CliRunner().invoke(cli, ["lint", str(kernel), option, "KI014", option, "KI002"])
        assert done.exit_code in (0, 1), done.output
        assert "no rule" not in done.output
    pack = tmp_path / "ours.yaml"
    pack.write_text(
        "pack: ours\ndescription: Ours.\nextends: recommended\n"
        "override:\n  KI014: {severity: error}\nrules: []\n"
    )
    assert load_pack(pack, catalogue()).rules


def test_try_takes_the_successor() -> None:
    assert judging_pack(["KI002"])[1] == {"KI001"}
