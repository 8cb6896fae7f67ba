"""Where a result cannot be kept, that is one line and status 2, and the report is printed."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import in_process
import pytest

SMALL = Path(__file__).parent / "data" / "small_gfx942.s"


def kinspect(folder: Path, *arguments: str, **places: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command with folders for its cache and data."""
    folders = {"CACHE": folder / "cache", "DATA": folder / "data", **places}
    return in_process.kinspect(
        *arguments,
        cwd=folder,
        env={f"KINSPECT_{name}_DIR": str(at) for name, at in folders.items()},
    )


def later_schema(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


UNUSABLE: dict[str, Callable[[Path], object]] = {
    "no database": lambda path: path.write_bytes(b"no database\n" * 100),
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "of a later version": later_schema,
    "a device": lambda path: path.symlink_to("/dev/null/results"),
}


@pytest.mark.parametrize("kind", UNUSABLE)
@pytest.mark.parametrize("command", ["analyze", "lint"])
def test_an_unusable_history(kind: str, command: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    UNUSABLE[kind](tmp_path / "data" / "results.sqlite")
    done = kinspect(tmp_path, command, str(SMALL), "--history")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "results.sqlite" in done.stderr
    assert "small" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["analyze", "K", "-o", "P"],
        ["analyze", "K", "--format", "json", "-o", "P"],
        ["lint", "K", "-o", "P"],
        ["diff", "K", "K", "-o", "P"],
        ["report", "K", "-o", "P"],
        ["show", "K", "-o", "P"],
        ["registers", "K", "-o", "P"],
        ["occupancy", "--arch", "gfx942", "--vgpr", "64", "-o", "P"],
        ["arch", "list", "-o", "P"],
    ],
    ids=lambda arguments: f"{arguments[0]} {arguments[-2]}",
)
@pytest.mark.parametrize("place", ["absent/place", "/dev/full", "."])
def test_an_unusable_output(arguments: list[str], place: str, tmp_path: Path) -> None:
    words = [word.replace("P", place) if word.startswith("P") else word for word in arguments]
    printed = kinspect(tmp_path, *(str(SMALL) if word == "K" else word for word in words))
    assert (printed.returncode, printed.stderr.count("kinspect: error: ")) == (2, 1)
    assert "cannot be written" in printed.stderr
    assert len(printed.stdout) > 80


@pytest.mark.parametrize(
    "arguments",
    [
        ["analyze", "--save", "absent/x.kinspect"],
        ["lint", "--update-baseline", "--baseline", "absent/x.json"],
    ],
    ids=lambda arguments: arguments[-2],
)
def test_a_second_output_that_is_unusable(arguments: list[str], tmp_path: Path) -> None:
    printed = kinspect(tmp_path, *arguments, str(SMALL))
    assert (printed.returncode, printed.stderr.count("\n")) == (2, 1)
    assert "absent" in printed.stderr
    assert "small" in printed.stdout or "finding" in printed.stdout


@pytest.mark.parametrize("is_script", [False, True])
def test_an_unusable_cache(is_script: bool, tmp_path: Path) -> None:
    """What is compiled goes into a folder that is removed."""
    target = SMALL
    if is_script:
        pytest.importorskip("triton")
        target = SMALL.parents[2] / "docs" / "examples" / "doubled.py"
    cache = tmp_path / "cache"
    cache.write_text("a file")
    done = kinspect(tmp_path, "analyze", str(target), "--format", "json")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"the cache folder {cache}: cannot be written" in done.stderr
    assert '"vgpr_count"' in done.stdout
    assert cache.read_text() == "a file"


@pytest.mark.parametrize("command", ["analyze", "lint", "report", "registers"])
def test_no_result_replaces_what_was_read(command: str, tmp_path: Path) -> None:
    text = SMALL.read_text("utf-8")
    for name in ("k.s", "l.s", "r.json"):
        (tmp_path / name).write_text(text)
    (tmp_path / "link").symlink_to("k.s")
    for output in ("k.s", "link", "l.s"):
        done = kinspect(tmp_path, command, "k.s", "-o", output)
        assert done.returncode == 2
        assert "name another --output" in done.stderr
        assert "small" in done.stdout
    assert {(tmp_path / name).read_text() for name in ("k.s", "l.s")} == {text}
    assert kinspect(tmp_path, command, "k.s", "-o", "r.json").returncode in (0, 1)


def test_no_empty_result_replaces_a_file(tmp_path: Path) -> None:
    (tmp_path / "k.s").write_text("nothing")
    (tmp_path / "old").write_text("a report")
    done = kinspect(tmp_path, "analyze", "k.s", "-o", "old")
    assert done.returncode == 2
    assert (tmp_path / "old").read_text() == "a report"
    assert "old stays as it was: there is no result" in done.stderr
