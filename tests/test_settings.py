"""`[tool.kinspect]`: where it is found, and that nothing in it is guessed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kinspect.inspector.base.errors import FaultsError, KinspectError
from kinspect.inspector.lint import settings
from kinspect.inspector.lint.settings import KernelSettings, Settings

WHOLE = """
[project]
name = "x"

[tool.kinspect]
rules = ["strict", "rules/ours.yaml"]
select = ["KI0"]
ignore = []
fail-on = "warning"
arch = ["gfx942", "gfx950"]
baseline = "ci/known.json"

[[tool.kinspect.kernel]]
match = "flash_*"
file = "kernels/*.py"
arch = "gfx9*"
ignore = ["KI009"]
severity = { KI006 = "info" }
budget = { vgpr_count = 128, "occupancy.waves_per_eu" = ">= 2", occupancy.workgroups_per_cu = 1.5 }

[[tool.kinspect.kernel]]
match = "*"
budget.scratch_bytes = 0
"""


def write(folder: Path, text: str, name: str = "pyproject.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def test_everything_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path, WHOLE)
    assert settings.load() == Settings(
        file=path,
        rules=("strict", "rules/ours.yaml"),
        select=("KI0",),
        ignore=(),
        fail_on="warning",
        arch=("gfx942", "gfx950"),
        baseline="ci/known.json",
        kernels=(
            KernelSettings(
                label="pyproject.toml: [[tool.kinspect.kernel]] 1",
                place="[[tool.kinspect.kernel]] 1",
                match="flash_*",
                file="kernels/*.py",
                arch="gfx9*",
                ignore=("KI009",),
                severity={"KI006": "info"},
                budget={
                    "vgpr_count": 128,
                    "occupancy.waves_per_eu": ">= 2",
                    "occupancy.workgroups_per_cu": 1.5,
                },
            ),
            KernelSettings(
                label="pyproject.toml: [[tool.kinspect.kernel]] 2",
                place="[[tool.kinspect.kernel]] 2",
                match="*",
                budget={"scratch_bytes": 0},
            ),
        ),
    )
    assert settings.load().folder == tmp_path


def test_the_nearest_file_that_speaks_of_kinspect_holds(tmp_path: Path) -> None:
    above = write(tmp_path, '[tool.kinspect]\nfail-on = "info"\n')
    inner = tmp_path / "a" / "b"
    write(tmp_path / "a", "[project]\nname = 'kinspect-user'\n")
    inner.mkdir()
    assert settings.load(start=inner).file == above
    nearer = write(inner, '[tool.kinspect]\nfail-on = "never"\n')
    found = settings.load(start=inner)
    assert (found.file, found.fail_on) == (nearer, "never")


def test_without_a_file_nothing_is_settled(tmp_path: Path) -> None:
    write(tmp_path, "this is no TOML, and none of our business")
    assert settings.load(start=tmp_path) == Settings()
    assert Settings().folder == Path()


def test_a_file_may_be_named(tmp_path: Path) -> None:
    path = write(tmp_path, "[tool.kinspect]\n", "ci.toml")
    assert settings.load(path, start=Path("/")) == Settings(file=path)
    with pytest.raises(KinspectError, match=r"it has no \[tool\.kinspect\]"):
        settings.load(write(tmp_path, "[tool.other]\n", "other.toml"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.kinspect\n", "not valid TOML"),
        ("[tool]\nkinspect = 3\n", "tool.kinspect: a table goes here, not 3"),
        ("[tool.kinspect]\nfail-on = 'eror'\n", "fail-on: one of error, warning, info, never"),
        ("[tool.kinspect]\nfail_on = 'error'\n", "unknown key fail_on (did you mean fail-on?)"),
        ("[tool.kinspect]\nxyz = 1\n", "unknown key xyz (known: rules, select"),
        ("[tool.kinspect]\nrules = 'strict'\n", "rules: a list of texts, not 'strict'"),
        ("[tool.kinspect]\nrules = []\n", "rules: at least one text"),
        ("[tool.kinspect]\nselect = ['']\n", "select: a list of texts"),
        ("[tool.kinspect]\narch = [942]\n", "arch: a list of texts, not [942]"),
        ("[tool.kinspect]\nbaseline = 1\n", "baseline: a text, not 1"),
        ("[tool.kinspect.kernel]\nmatch = 'a'\n", "kernel: tables: [[tool.kinspect.kernel]]"),
        ("[[tool.kinspect.kernel]]\nignore = ['A']\n", "1: match is missing"),
        ("[[tool.kinspect.kernel]]\nmatch = 'a'\n", "1: it asks for nothing"),
        (
            "[[tool.kinspect.kernel]]\nmatch='a'\nignore=['A']\n"
            "[[tool.kinspect.kernel]]\nmatch='a'\nbudgets={a=1}\n",
            "[[tool.kinspect.kernel]] 2: unknown key budgets (did you mean budget?)",
        ),
        (
            "[[tool.kinspect.kernel]]\nmatch='a'\nseverity={KI001='bad'}\n",
            "1.severity: KI001: one of error, warning, info, not 'bad'",
        ),
        (
            "[[tool.kinspect.kernel]]\nmatch='a'\nbudget={vgpr_count=true}\n",
            '1.budget: vgpr_count: a number or a comparison (">= 2"), not True',
        ),
        ("[[tool.kinspect.kernel]]\nmatch='a'\nbudget=3\n", "1.budget: a table"),
    ],
)
def test_faults_name_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(KinspectError) as raised:
        settings.load(start=tmp_path)
    assert raised.value.exit_code == 2
    assert raised.value.message.startswith(f"{path}: ")
    assert said in raised.value.message


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        "[tool.kinspect]\nfoo = 1\nrules = 2\n[[tool.kinspect.kernel]]\nmatch = 3\nbudget = 4\n",
    )
    with pytest.raises(FaultsError) as raised:
        settings.load(start=tmp_path)
    keys = ("tool.kinspect: unknown key foo", "tool.kinspect.rules", "1.match", "1.budget")
    assert len(raised.value.faults) == len(keys)
    for fault, key in zip(raised.value.faults, keys, strict=True):
        assert key in fault


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b"\xff\xfe[tool.kinspect]")
    with pytest.raises(KinspectError, match="not in UTF-8"):
        settings.load(start=tmp_path)


def test_what_another_user_put_above_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pyproject.toml in /tmp silenced every lint below it."""
    (tmp_path / "mine").mkdir()
    (tmp_path / settings.FILE).write_text('[tool.kinspect]\nignore = ["KI"]\n')
    assert settings.load(start=tmp_path / "mine").ignore == ("KI",)
    tmp_path.chmod(0o1777)
    asking = os.getuid() + 12345
    monkeypatch.setattr(os, "getuid", lambda: asking)
    assert settings.load(start=tmp_path / "mine") == Settings()
