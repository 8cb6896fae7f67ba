"""The user's own keys and themes."""

from __future__ import annotations

from pathlib import Path

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.tui import preferences
from kinspect.tui.app import KinspectApp
from kinspect.tui.application import Opening
from kinspect.tui.key_table import KEYS
from kinspect.tui.screens.help import groups_of


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KINSPECT_CONFIG_DIR", str(tmp_path))
    return tmp_path / "tui.toml"


async def test_keys_and_theme_are_the_user_s(file: Path) -> None:
    file.write_text("""
theme = "mine"
[keys]
help = "f3"
theme = ["f4", "ctrl+t"]
commands = "!"
[themes.mine]
primary = "#102030"
dark = true
""")
    app = KinspectApp(Opening(None, remember=False, preferences=preferences.load()))
    async with app.run_test() as pilot:
        assert app.theme == "mine"
        assert app.theme_variables["primary"].lower() == "#102030"
        page = app.screen
        everywhere = {row.description: row.keys for row in groups_of(page)[-1].rows}
        assert everywhere["Help"] == ("f3",)
        await pilot.press("question_mark")
        assert app.screen is page
        await pilot.press("f3")
        assert type(app.screen).__name__ == "HelpScreen"
        await pilot.press("escape")
        await pilot.press("ctrl+t")
        assert app.theme == "kinspect-dark"
        await pilot.press("exclamation_mark")
        assert type(app.screen).__name__ == "CommandList"


def test_without_a_file_there_are_none(file: Path) -> None:
    assert not file.exists()
    assert preferences.load() == preferences.Preferences()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[keys]\nhotest = 'x'", r"keys\.hotest: no such action; did you mean hottest\?"),
        ("[keys]\nhottest = 'n'", r"keys: n has 2 meanings \((next, hottest|hottest, next)\)"),
        ("[keys]\nhottest = '3'", r"keys: 3 has 2 meanings"),
        ("[keys]\nhottest = ''", r"keys\.hottest: it names no key"),
        ("[keys]\nhottest = 5", r"tui\.toml: Expected .* at `\$\.keys"),
        ("colour = 1", r"unknown field `colour`"),
        (
            "theme = 'kinspect-drak'",
            r"theme: 'kinspect-drak' is none; did you mean kinspect-dark\?",
        ),
        ("[themes.a]\nsecondary = 'red'", r"themes\.a: primary is missing"),
        ("[themes.a]\nprimary = 'rde'", r"themes\.a\.primary: 'rde' is no colour"),
        ("[themes.a]\nprimary = 'red'\ninfo = 'red'", r"themes\.a\.info: no such colour"),
        ("theme = ", r"not valid TOML"),
    ],
)
def test_faults_are_told(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    with pytest.raises(KinspectError, match=message):
        preferences.load()


def test_keys_may_be_exchanged(file: Path) -> None:
    file.write_text("[keys]\nnext = 'N'\nprevious = ['n', '?']\nhelp = 'f1'\n")
    assert preferences.load().keys["previous"] == "n,question_mark"


def test_the_guide_names_each_action() -> None:
    guide = Path(__file__).parents[2] / "docs" / "guides" / "terminal.md"
    named = guide.read_text().partition("\nThe actions;")[2].partition("```text\n")[2]
    assert named.partition("```")[0].split() == list(KEYS)
