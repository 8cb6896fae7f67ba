"""The pages: every command on them is run, and every line of output that is shown is printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from kinspect.inspector.cli.group import cli
from kinspect.inspector.cli.main import main
from msgspec import Struct

pytestmark = pytest.mark.usefixtures("shared_guests")

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(
    r"(?:^<!-- (?P<key>exit|needs): (?P<value>[^>]+) -->\n)?^```console\n(?P<text>.*?)^```$",
    re.M | re.S,
)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


class Shown(Struct, frozen=True):
    """A command of a page, the output that stands below it, its status, and what it needs."""

    line: str
    output: tuple[str, ...]
    status: int = 0
    needs: str = ""


def pages() -> list[Path]:
    """The README and the site's; of the README only blocks whose status is stated are run."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def shown(page: Path) -> Iterator[Shown]:
    for block in BLOCK.finditer(page.read_text()):
        if page.name == "README.md" and block["key"] is None:
            continue
        status = int(block["value"]) if block["key"] == "exit" else 0
        needs = block["value"] if block["key"] == "needs" else ""
        for part in re.split(r"^\$ ", block["text"], flags=re.M)[1:]:
            line, *output = part.splitlines()
            yield Shown(line, tuple(filter(_is_output, output)), status, needs)


def _is_output(line: str) -> bool:
    return line.strip() not in ("", "…")


def test_every_page_is_in_the_contents() -> None:
    contents = (ROOT / "mkdocs.yml").read_text()
    for page in pages()[1:]:
        assert str(page.relative_to(ROOT / "docs")) in contents


def subject(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", pages(), ids=subject)
def test_commands_do_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In one folder for each page, in its order: a later command may read what an earlier wrote."""
    pytest.importorskip("triton")
    for name in ("kernels", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    for command in shown(page):
        program, *arguments = shlex.split(command.line)
        assert program == "kinspect"
        if command.needs:  # what no test has: that the options exist is all that can be said
            parse(arguments)
            continue
        status = main(arguments)
        printed = capfd.readouterr()
        assert status == command.status, f"{command.line}\n{printed.out}{printed.err}"
        for line in command.output:
            assert line.strip() in printed.out, f"{command.line}: {line}"


def parse(arguments: list[str]) -> None:
    """Parses a command line without running it."""
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and arguments[0] in command.list_commands(context):
        found = command.get_command(context, arguments.pop(0))
        assert found is not None
        command = found
        context = click.Context(command, parent=context)
    command.make_context("command", list(arguments))


@pytest.mark.parametrize(
    "page", [p for p in pages()[1:] if PYTHON.search(p.read_text())], ids=subject
)
def test_python_on_the_pages_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    monkeypatch.chdir(ROOT)
    for code in PYTHON.findall(page.read_text()):
        exec(compile(code, str(page), "exec"), {})
