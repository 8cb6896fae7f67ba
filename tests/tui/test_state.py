"""What is kept from one start to the next, and what may be wrong with it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from kinspect.tui.app import KinspectApp
from kinspect.tui.application import Opening
from kinspect.tui.preferences import State, state_file
from kinspect.tui.themes import THEMES


def test_what_is_kept_comes_back() -> None:
    kept = State("kinspect-light", ["kernel", "vgprs"], "findings", True, "/a/b.svg")
    kept.save()
    assert State.load() == kept
    assert [path.name for path in state_file().parent.iterdir()] == ["tui.json"]


def test_nothing_is_kept_yet() -> None:
    assert State.load() == State()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"[]",
        b"null",
        b'"theme"',
        b"[" * 100_000,
        b'{"theme": 7, "columns": "all", "sort": null, "reverse": 1, "panes": [1], "export": []}',
        b'{"columns": [{"a": 1}], "unknown": true}',
    ],
    ids=["empty", "cut", "bytes", "list", "null", "text", "deep", "kinds", "unknown"],
)
def test_a_damaged_file_is_as_none(text: bytes) -> None:
    state_file().parent.mkdir(parents=True)
    state_file().write_bytes(text)
    assert State.load() == State()


async def test_a_damaged_file_is_written_anew() -> None:
    state_file().parent.mkdir(parents=True)
    state_file().write_bytes(b"{")
    app = KinspectApp(Opening(None, "profile"))
    async with app.run_test(size=(80, 24)) as pilot:
        assert app.theme == THEMES[0].name
        await pilot.press("ctrl+q")
    assert State.load() == State(theme=THEMES[0].name)


def test_what_is_good_of_a_damaged_file_is_kept() -> None:
    state_file().parent.mkdir(parents=True)
    state_file().write_text(json.dumps({"theme": "kinspect-light", "columns": 3, "sort": "vgprs"}))
    assert State.load() == State(theme="kinspect-light", sort="vgprs")


async def test_a_theme_that_is_gone_is_the_default() -> None:
    State(theme="no-such-theme").save()
    app = KinspectApp(Opening(None, "profile"))
    async with app.run_test(size=(80, 24)):
        assert app.theme == THEMES[0].name


def test_a_write_that_fails_leaves_the_old_file(monkeypatch: pytest.MonkeyPatch) -> None:
    State(theme="kinspect-light").save()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        State(theme="kinspect-dark").save()
    assert State.load().theme == "kinspect-light"
    assert [path.name for path in state_file().parent.iterdir()] == ["tui.json"]


async def test_a_place_that_cannot_be_written_does_not_keep_one_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("KINSPECT_STATE_DIR", str(tmp_path / "file" / "state"))
    app = KinspectApp(Opening(None, "profile"))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("ctrl+q")
    assert app.return_code == 0


async def test_nothing_is_remembered_if_so_wished() -> None:
    app = KinspectApp(Opening(None, "profile", remember=False))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f2", "ctrl+q")
    assert not state_file().exists()
