"""The user's editor: how each kind is told the line, and what is said when it cannot be opened."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.tui.editor import editor_command, open_editor
from tui_terminal import Terminal, kinspect

DATA = Path(__file__).parent.parent / "data"

STYLES = [
    ("vi", ["+7", "FILE"]),
    ("vim -u NONE", ["-u", "NONE", "+7", "FILE"]),
    ("nvim", ["+7", "FILE"]),
    ("nano", ["+7", "FILE"]),
    ("emacs -nw", ["-nw", "+7", "FILE"]),
    ("emacsclient -t -a ''", ["-t", "-a", "", "+7", "FILE"]),
    ("hx", ["FILE:7"]),
    ("code --wait", ["--wait", "--goto", "FILE:7"]),
    ("codium", ["--goto", "FILE:7"]),
    ("subl", ["FILE:7"]),
    ("kate", ["--line", "7", "FILE"]),
]


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """A folder in which an editor can be made by `make_editor`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def make_editor(folder: Path, name: str, script: str = "exit 0") -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a kernel.py"
    path.write_text("one\ntwo\n")
    return path


@pytest.mark.parametrize(("editor", "expected"), STYLES)
def test_each_editor_is_told_the_line_in_its_own_way(
    bin_folder: Path, source: Path, editor: str, expected: list[str]
) -> None:
    program = editor.split()[0]
    make_editor(bin_folder, program)
    found = editor_command({"EDITOR": editor, "PATH": str(bin_folder)}, source, 7)
    assert found.words == (
        str(bin_folder / program),
        *(word.replace("FILE", str(source)) for word in expected),
    )
    assert found.at_line
    assert found.window == (program in ("code", "codium", "subl", "kate"))


def test_an_editor_by_path_or_version_is_known(bin_folder: Path, source: Path) -> None:
    make_editor(bin_folder, "vim.basic")
    found = editor_command({"EDITOR": str(bin_folder / "vim.basic"), "PATH": ""}, source, 3)
    assert found.words[1:] == ("+3", str(source))


def test_visual_comes_before_editor_and_an_unknown_one_gets_the_file(
    bin_folder: Path, source: Path
) -> None:
    make_editor(bin_folder, "mine")
    make_editor(bin_folder, "vi")
    environment = {"VISUAL": "mine -x", "EDITOR": "vi", "PATH": str(bin_folder)}
    found = editor_command(environment, source, 3)
    assert found.words == (str(bin_folder / "mine"), "-x", str(source))
    assert not found.at_line
    assert editor_command(environment, source, None).at_line


def test_no_editor_of_the_working_folder_is_found(
    bin_folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_editor(bin_folder, "vi")
    monkeypatch.chdir(bin_folder)
    with pytest.raises(KinspectError, match="not there"):
        editor_command({"EDITOR": "vi", "PATH": ".:"}, source, 1)


def test_a_relative_file_is_never_taken_for_an_option(
    bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_editor(bin_folder, "vi")
    monkeypatch.chdir(tmp_path)
    Path("-c.py").write_text("")
    found = editor_command({"EDITOR": "vi", "PATH": str(bin_folder)}, Path("-c.py"), None)
    assert found.words == (str(bin_folder / "vi"), str(tmp_path / "-c.py"))


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "no editor is named; set EDITOR"),
        ({"EDITOR": "  "}, "no editor is named"),
        ({"EDITOR": "vi 'x"}, "EDITOR: No closing quotation"),
        ({"VISUAL": "not-there"}, "VISUAL names not-there, which is not there"),
    ],
)
def test_what_is_wrong_is_said(source: Path, environment: dict[str, str], said: str) -> None:
    with pytest.raises(KinspectError) as caught:
        editor_command({**environment, "PATH": ""}, source, 1)
    assert said in str(caught.value)


def test_a_file_that_has_gone_is_said(tmp_path: Path) -> None:
    with pytest.raises(KinspectError, match=r"gone\.py: no such file"):
        editor_command({"EDITOR": "vi"}, tmp_path / "gone.py", 1)


class Fake:
    """An application that can lend its terminal, and keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.order: list[str] = []

    @contextmanager
    def suspend(self) -> Iterator[None]:
        self.order.append("away")
        yield
        self.order.append("back")

    def refresh(self) -> None:
        self.order.append("refresh")

    def notify(self, text: str, **_: Any) -> None:
        self.told.append(text)


Start = Callable[..., Terminal]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Start]:
    """Starts `kinspect tui` in a real terminal."""
    started: list[Terminal] = []

    def start(*arguments: str, **environment: str) -> Terminal:
        own = {"KINSPECT_STATE_DIR": str(tmp_path), "KINSPECT_DATA_DIR": str(tmp_path)}
        own |= {"VISUAL": "", **environment}
        started.append(Terminal(tmp_path, kinspect("tui", *arguments), (100, 30), own))
        return started[-1]

    yield start
    for one in started:
        one.close()


def use_editor(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", str(folder / name))


def test_the_terminal_is_lent_and_comes_back(
    bin_folder: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_editor(bin_folder, "vi", f'echo "$1|$2" > {tmp_path}/told')
    use_editor(monkeypatch, bin_folder, "vi")
    before = signal.getsignal(signal.SIGINT)
    app = Fake()
    assert open_editor(app, str(source), 2)  # type: ignore[arg-type]
    assert (tmp_path / "told").read_text() == f"+2|{source}\n"
    assert app.order == ["away", "back", "refresh"]
    assert app.told == []
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_in_the_editor_does_not_end_the_ui(
    bin_folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_editor(bin_folder, "vi", "kill -INT $PPID; exit 0")
    use_editor(monkeypatch, bin_folder, "vi")
    app = Fake()
    assert open_editor(app, source, 1)  # type: ignore[arg-type]
    assert app.order == ["away", "back", "refresh"]


def test_an_editor_that_fails_is_told_and_the_terminal_comes_back(
    bin_folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_editor(bin_folder, "vi", "exit 3")
    use_editor(monkeypatch, bin_folder, "vi")
    app = Fake()
    assert not open_editor(app, source, 1)  # type: ignore[arg-type]
    assert app.told == ["vi ended with 3"]
    (bin_folder / "vi").write_text("")  # neither a program nor a script
    (bin_folder / "vi").chmod(0o755)
    assert not open_editor(app, source, 1)  # type: ignore[arg-type]
    assert app.told[1].startswith("vi cannot be started: ")
    assert app.order.count("back") == 2


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_a_real_terminal_is_lent_and_comes_back(
    bin_folder: Path, tmp_path: Path, terminal: Start
) -> None:
    make_editor(bin_folder, "vi", f'echo "EDITING $1"; read x; echo "$2 $x" > {tmp_path}/told')
    source = shutil.copy(DATA / "small_gfx942.s", tmp_path / "k.s")
    # The editor is told by its path: nothing of the user's own comes in between.
    shown = terminal("--page", "findings", str(source), EDITOR=str(bin_folder / "vi"))
    shown.wait("KI001 spills")
    shown.press("n")
    shown.wait("Evidence")
    shown.press("e")
    shown.wait("EDITING +22")
    shown.press("C-c")  # ends this editor, and not the UI behind it
    shown.wait("vi was ended by signal 2")
    shown.press("e")
    shown.wait(lambda screen: "EDITING +22" in screen and "Evidence" not in screen)
    shown.press("hello", "Enter")
    shown.wait("Evidence")
    assert (tmp_path / "told").read_text() == f"{source} hello\n"
    shown.press("C-q")
    shown.wait("STATUS=0")


def test_an_unknown_editor_is_opened_and_the_line_told(
    bin_folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_editor(bin_folder, "mine")
    use_editor(monkeypatch, bin_folder, "mine")
    app = Fake()
    assert open_editor(app, source, 12)  # type: ignore[arg-type]
    assert app.told == ["mine cannot be told the line: it is 12"]


async def test_a_terminal_that_cannot_be_lent_is_said(
    opened: Any, bin_folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_editor(bin_folder, "vi")
    use_editor(monkeypatch, bin_folder, "vi")
    async with opened(page="findings") as pilot:
        assert not open_editor(pilot.app, source, 1)
        await pilot.pause()
        (told,) = pilot.app._notifications
        assert told.message == ("vi cannot be opened from here; this terminal cannot be lent to it")
