"""The pages: every command on them is run, and every line of output that is shown is printed.

Commands on files that nobody has (`gemm.py`), of which the README has most, and those within
sentences are parsed: each option that they name is there, and takes what they give it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from kinspect.inspector.cli.group import cli
from kinspect.inspector.cli.main import main
from kinspect.inspector.errors import KinspectError
from msgspec import Struct

pytestmark = pytest.mark.usefixtures("shared_guests")

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(
    r"(?:^<!-- (?P<key>exit|needs): (?P<value>[^>]+) -->\n)?^```console\n(?P<text>.*?)^```$",
    re.M | re.S,
)
FENCE = re.compile(r"^ *```.*?\n(?P<text>.*?)^ *```$", re.M | re.S)
COMMAND = re.compile(r"(\$ )?kinspect [\w./-]")
SCHEMATIC = re.compile(r"[…|\[]|\.\.\.|COMMAND$")
"""Of what says how commands are formed: `list|show`, `[TARGET…]`."""
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


def mentioned(page: Path) -> Iterator[str]:
    """The commands of a page that are not run: those in blocks of other kinds and in sentences."""
    text = page.read_text()
    ran = {
        block.start() for block in BLOCK.finditer(text) if page.name != "README.md" or block["key"]
    }
    for block in FENCE.finditer(text):
        if not any(start <= block.start() <= start + 60 for start in ran):
            lines = block["text"].splitlines()
            yield from (line.removeprefix("$ ") for line in lines if COMMAND.match(line))
    for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", FENCE.sub("", text)):
        line = " ".join(span.split())
        if COMMAND.match(line) and not SCHEMATIC.search(line):
            yield line


MENTIONING = [*pages(), ROOT / "CONTRIBUTING.md", *sorted((ROOT / "rules").glob("*.md"))]


@pytest.mark.parametrize("page", [p for p in MENTIONING if any(mentioned(p))], ids=subject)
def test_commands_that_are_not_run_exist(page: Path) -> None:
    wrong = []
    for line in mentioned(page):
        try:
            parse(shlex.split(line, comments=True)[1:])
        except (click.MissingParameter, click.exceptions.Exit):
            pass  # `kinspect emulate` in a sentence, --help
        except (click.ClickException, KinspectError) as error:
            wrong.append(f"{line}: {error}")
    assert not wrong


def test_an_option_that_is_not_there_would_be_seen() -> None:
    with pytest.raises(click.NoSuchOption):
        parse(["analyze", "gemm.py", "--no-such-option"])
    with pytest.raises(click.UsageError):
        parse(["passes", "gemm.py", "--diff", "A", "B"])


def parse(arguments: list[str]) -> None:
    """Parses a command line without running it."""
    command: click.Command = cli
    context = click.Context(cli)
    if arguments and arguments[0] not in cli.list_commands(context):  # a target
        arguments = ["analyze", *arguments]
    while isinstance(command, click.Group):
        if not arguments:
            return  # it is there, and lists its own
        if arguments[0] not in command.list_commands(context):
            # `kinspect profile -- COMMAND`
            assert "--" in arguments, f"no command {arguments[0]} in {command.name}"
            break
        subcommand = command.get_command(context, arguments.pop(0))
        assert subcommand is not None
        command = subcommand
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
