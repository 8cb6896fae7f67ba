"""Export: the screen and the report to files, whole or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.base.version import VERSION
from kinspect.inspector.model import Artifact, Report
from kinspect.inspector.report import saved
from kinspect.inspector.report.json_read import SavedReport
from kinspect.tui.pages import Page
from kinspect.tui.preferences import State
from kinspect.tui.screens.export import FORMATS, ExportScreen, Picture, write
from msgspec.structs import replace
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from textual.widgets import Input, Static
from tui_screens import snapshots, text_of

NOTHING = Report("", {}, (), ())


async def asked(pilot: Any, name: str | Path) -> str:
    """Types a file's name into the question, presses Enter, and waits for what is said then."""
    app = pilot.app
    if not isinstance(app.screen, ExportScreen):
        await pilot.press("ctrl+e")
        await pilot.pause()
    app.screen.query_one(Input).value = str(name)
    await pilot.pause()
    return await entered(pilot)


async def entered(pilot: Any) -> str:
    await pilot.press("enter")
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    if not isinstance(pilot.app.screen, ExportScreen):
        return ""
    said = str(pilot.app.screen.query_one("#message", Static).content)
    frame = pilot.app.screen.query_one("ExportScreen > Vertical").region
    rows = [row[frame.x : frame.right] for row in text_of(pilot.app).splitlines()]
    shown = re.sub(r"[│\s]", "", "".join(rows))
    assert re.sub(r"\s", "", said) in shown, "what is said is on the screen"
    return said


# --------------------------------------------------------------------------- what is written


async def test_every_format_is_what_it_says(opened: Any, report: Report, tmp_path: Path) -> None:
    async with opened(size=(120, 40), page="kernels") as pilot:
        for suffix in FORMATS:
            await asked(pilot, tmp_path / f"out{suffix}")
            assert isinstance(pilot.app.screen, Page), suffix
    assert {path.suffix for path in tmp_path.glob("out*")} == set(FORMATS)

    svg = (tmp_path / "out.svg").read_text("utf-8")
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    html = (tmp_path / "out.html").read_text("utf-8")
    for text in (svg, html):
        assert "Kernels" in text
        assert "Export" not in text.replace("export", ""), "the question is not in the picture"

    text = (tmp_path / "out.json").read_text("utf-8")
    document = json.loads(text)
    assert [kernel["id"] for kernel in document["kernels"]] == [k.id for k in report.kernels]
    assert document["tool"]["version"] == VERSION
    again = SavedReport.open(text, "out.json").report()
    assert [kernel.metrics for kernel in again.kernels] == [k.metrics for k in report.kernels]

    words = (tmp_path / "out.md").read_text("utf-8")
    assert all(f"## `{kernel.name}`" in words for kernel in report.kernels)

    archive = saved.opened(tmp_path / "out.kinspect", tmp_path / "cache").report()
    assert [kernel.id for kernel in archive.kernels] == [k.id for k in report.kernels]


def test_an_archive_has_what_was_compiled(picture: Picture, report: Report, tmp_path: Path) -> None:
    compiled = _with_artifact(report, tmp_path / "made.amdgcn", b"s_endpgm\n")
    write(tmp_path / "out.kinspect", compiled, picture)
    again = saved.opened(tmp_path / "out.kinspect", tmp_path / "cache").report()
    assert again.kernels[0].artifacts["amdgcn"].path.read_bytes() == b"s_endpgm\n"


def _with_artifact(report: Report, path: Path, data: bytes) -> Report:
    path.write_bytes(data)
    artifact = Artifact("amdgcn", hashlib.sha256(data).hexdigest(), len(data), path)
    first = replace(report.kernels[0], artifacts={"amdgcn": artifact})
    return replace(report, kernels=(first,))


async def test_without_kernels_there_is_an_empty_report(opened: Any, tmp_path: Path) -> None:
    async with opened(page="profile", of=NOTHING) as pilot:
        for suffix in (".json", ".md", ".kinspect"):
            await asked(pilot, tmp_path / f"none{suffix}")
    assert json.loads((tmp_path / "none.json").read_text())["kernels"] == []


# --------------------------------------------------------------------------- the question


async def test_tab_goes_round_the_formats(opened: Any) -> None:
    async with opened(page="profile") as pilot:
        await pilot.press("ctrl+e")
        await pilot.pause()
        field = pilot.app.screen.query_one(Input)
        assert field.value == "profile.svg"
        seen = []
        for _ in FORMATS:
            await pilot.press("tab")
            seen.append(Path(field.value).suffix)
        assert seen == [*list(FORMATS)[1:], ".svg"]
        await pilot.press("shift+tab")
        assert field.value == "profile.kinspect"
        field.value = "name"
        await pilot.press("tab")
        assert field.value == "name.svg"
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(pilot.app.screen, Page)


async def test_the_question_as_it_is_shown(opened: Any) -> None:
    async with opened(page="profile", of=NOTHING) as pilot:
        await pilot.press("ctrl+e", "tab")
        for small in ((20, 5), (1, 1)):
            await pilot.resize_terminal(*small)
            await pilot.pause()
        await snapshots(pilot, "export")


async def test_an_existing_file_is_asked_about_once(opened: Any, tmp_path: Path) -> None:
    path = tmp_path / "there.json"
    path.write_text("before")
    path.chmod(0o640)
    async with opened(size=(80, 24), page="profile") as pilot:
        screen = await asked(pilot, path)
        assert "there.json exists: Enter again overwrites it" in screen
        assert path.read_text() == "before"
        # Another name is another question.
        screen = await asked(pilot, tmp_path / "none" / "x.json")
        assert "no such folder" in screen
        screen = await asked(pilot, path)
        assert "exists" in screen
        assert path.read_text() == "before"
        await entered(pilot)
        assert isinstance(pilot.app.screen, Page)
    assert json.loads(path.read_text())["schema_version"] == 2
    assert path.stat().st_mode & 0o777 == 0o640


async def test_what_cannot_be_written_is_one_line(opened: Any, tmp_path: Path) -> None:
    (tmp_path / "folder.svg").mkdir()
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe.svg")
    faults = {
        "": "a name is needed",
        str(tmp_path / "folder.svg"): "is a folder",
        str(tmp_path / "pipe.svg"): "is not a regular file",
        str(tmp_path / "none" / "a.svg"): "no such folder",
        str(tmp_path / "file" / "a.svg"): "no such folder",
        str(tmp_path / "a.pdf"): ".pdf is no format",
        str(tmp_path / "plain"): "the name has no suffix",
        "x" * 300 + ".svg": "name too long",
        "nul\0.svg": "null",
        "~nobody-here/a.svg": "home",
    }
    async with opened(size=(200, 24), page="profile") as pilot:
        for name, what in faults.items():
            screen = await asked(pilot, name)
            assert what.lower() in screen.lower(), (name, screen)
            assert isinstance(pilot.app.screen, ExportScreen)
    assert {path.name for path in tmp_path.iterdir()} <= {
        "folder.svg",
        "file",
        "pipe.svg",
        "state",
        "data",
    }


async def test_the_last_place_is_kept(opened: Any, tmp_path: Path) -> None:
    async with opened(page="profile") as pilot:
        await asked(pilot, tmp_path / "mine.md")
        await pilot.press("ctrl+e")
        await pilot.pause()
        assert pilot.app.screen.query_one(Input).value == str(tmp_path / "profile.md")
        await pilot.press("escape", "ctrl+q")
    assert State.load().export == str(tmp_path / "mine.md")


# --------------------------------------------------------------------------- whole or not at all


@pytest.fixture
def picture() -> Picture:
    console = Console(file=io.StringIO(), record=True, width=40)
    console.print("a screen")
    return Picture(console, "kinspect", DEFAULT_TERMINAL_THEME)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_write_that_fails_leaves_what_was_there(
    picture: Picture,
    report: Report,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
) -> None:
    path = tmp_path / f"out{suffix}"
    path.write_text("before")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(KinspectError, match="No space left") as raised:
        write(path, report, picture)
    assert "--save" not in str(raised.value)
    assert path.read_text() == "before"
    assert [one.name for one in tmp_path.glob("*out*")] == [path.name]
    assert not list(tmp_path.glob(".out*"))


def test_nothing_is_written_through_a_link(picture: Picture, tmp_path: Path) -> None:
    """A stranger's working folder may have one under the name that is suggested."""
    (tmp_path / "real.html").write_text("before")
    (tmp_path / "link.html").symlink_to("real.html")
    size = write(tmp_path / "link.html", NOTHING, picture)
    assert (tmp_path / "real.html").read_text() == "before"
    assert not (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "link.html").stat().st_size == size > 100


def test_a_new_file_has_the_rights_of_any_new_file(picture: Picture, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path / "new.svg", NOTHING, picture)
    finally:
        os.umask(before)
    assert (tmp_path / "new.svg").stat().st_mode & 0o777 == 0o640


def test_an_artifact_that_has_gone_is_a_message(
    picture: Picture, report: Report, tmp_path: Path
) -> None:
    broken = _with_artifact(report, tmp_path / "made.amdgcn", b"s_endpgm\n")
    (tmp_path / "made.amdgcn").unlink()
    with pytest.raises(KinspectError, match="cannot be written"):
        write(tmp_path / "out.kinspect", broken, picture)
    assert not list(tmp_path.glob("*out*"))
