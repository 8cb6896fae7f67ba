"""The pages: every command on them is run, and every line of output that is shown is printed.

Commands on files that nobody has (`gemm.py`), of which the README has most, and those within
sentences are parsed: each option that they name is there, and takes what they give it. The pictures
are drawn, and their figures compared with those of the analyses.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import click
import kinspect
import pytest
from click.testing import CliRunner
from kinspect.docs.drawing import INK
from kinspect.docs.pictures import PICTURES
from kinspect.inspector.base import limits
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.cli.group import cli
from kinspect.inspector.cli.main import main
from msgspec import Struct
from plain_english import IDIOM, too_long

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


FIRST_READ = ("README.md", "docs/tutorial.md")
"""Pages whose commands every run of the tests tries."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[] if subject(page) in FIRST_READ else pytest.mark.slow)
        for page in pages()
    ],
    ids=subject,
)
def test_commands_do_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In one folder for each page, in its order: a later command may read what an earlier wrote."""
    pytest.importorskip("triton")
    for name in ("kernels", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    for command in shown(page):
        program, *arguments = shlex.split(command.line, comments=True)
        assert program == "kinspect"
        if command.needs:  # what no test has: that the options exist is all that can be said
            parse(arguments)
            continue
        with monkeypatch.context() as patch:
            if any("→ tried" in line for line in command.output):
                patch.setattr(limits, "FEW_TRY_SECONDS", 30.0)
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


def test_the_shell_completes_commands() -> None:
    environment = {"_KINSPECT_COMPLETE": "bash_complete", "COMP_WORDS": "kinspect occ"}
    result = CliRunner().invoke(
        cli, [], prog_name="kinspect", env={**environment, "COMP_CWORD": "1"}
    )
    assert result.output == "plain,occupancy\n"


def test_an_option_that_is_not_there_would_be_seen() -> None:
    with pytest.raises(KinspectError, match="no option --no-such-option"):
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


def commands(
    command: click.Command, context: click.Context, name: str
) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            assert below is not None
            inner = click.Context(below, parent=context, info_name=word)
            yield from commands(below, inner, f"{name} {word}")


def test_help_is_short_and_plain() -> None:
    for name, command in commands(cli, click.Context(cli), "kinspect"):
        helps = [getattr(option, "help", None) or "" for option in command.params]
        for text in (command.help or "", *helps):
            assert not too_long(text), name
            assert not IDIOM.search(text), f"{name}: {text}"


@pytest.mark.parametrize(
    "page",
    pages(),
    ids=subject,
)
def test_sentences_of_a_page_are_short(page: Path) -> None:
    assert not too_long(page.read_text())


CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")


def test_links_between_files_lead_somewhere() -> None:
    """Those of the site are checked where it is built."""
    others = ["inspector/profile/README.md", "rules/fixtures/README.md"]
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "rules").glob("*.md")]
    files += [*(ROOT / "benchmarks").glob("*.md"), *(ROOT / name for name in others)]
    broken = [
        f"{file.relative_to(ROOT)}: {link}"
        for file in files
        for link in LINK.findall(CODE.sub("", FENCE.sub("", file.read_text())))
        if not (file.parent / link).exists()
    ]
    assert not broken


@pytest.mark.parametrize(
    "page", [p for p in pages()[1:] if PYTHON.search(p.read_text())], ids=subject
)
def test_python_on_the_pages_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    monkeypatch.chdir(ROOT)
    for code in PYTHON.findall(page.read_text()):
        exec(compile(code, str(page), "exec"), {})


IMAGE = re.compile(r"!\[[^\]]+\]\(([\w-]+\.svg)\)")


def test_every_page_of_ideas_has_pictures_and_every_picture_a_page() -> None:
    pytest.importorskip("mkdocs")
    from kinspect.docs.generated_pages import LAYOUTS

    shown_on = {
        f"explanation/{image}": page.name
        for page in sorted((ROOT / "docs" / "explanation").glob("*.md"))
        for image in IMAGE.findall(page.read_text())
    }
    assert shown_on.keys() == {*PICTURES, *LAYOUTS}
    assert len(set(shown_on.values())) == len(list((ROOT / "docs" / "explanation").glob("*.md")))


@pytest.mark.parametrize("address", PICTURES)
def test_labels_of_a_picture_fit_and_do_not_collide(address: str) -> None:
    drawing = PICTURES[address]()
    for label in drawing.labels:
        assert label.left >= 0
        assert label.top >= 0
        assert label.right <= drawing.width, label
        assert label.bottom <= drawing.height, label
    assert [(a, b) for a, b in combinations(drawing.labels, 2) if a.meets(b)] == []
    alone = ElementTree.fromstring(drawing.svg(alone=True))
    assert alone.get("aria-label") == drawing.title
    # On a dark page what is no label on a light box has the page's own colour.
    colours = {text.get("fill") for text in alone.iter("{http://www.w3.org/2000/svg}text")}
    assert colours <= {"currentColor", INK}


def texts(address: str) -> list[str]:
    return [label.text for label in PICTURES[address]().labels]


def test_figures_in_pictures_are_those_of_the_analyses(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Beside figures by hand: 32 lanes meet in one bank in each of 2 phases, and so on."""
    monkeypatch.chdir(ROOT)
    assert main(["docs/examples/waits.s", "--waves=4", "--format=json", "--details"]) == 0
    exposed = {
        kernel["name"]: kernel["loops"][0]["metrics"]["latency.exposed"]["value"]["cycles"]
        for kernel in json.loads(capfd.readouterr().out)["kernels"]
    }
    assert exposed == {"load_then_use": 492, "load_ahead": 0}
    waits = texts("explanation/waits-timeline.svg")
    assert "load_then_use: 2 tiles in 2,048 cycles, waiting for 984 of them" in waits
    assert "load_ahead: 2 tiles in 1,052 cycles, without waiting" in waits
    banks = texts("explanation/lds-banks.svg")
    assert "A column of a tile with rows of 32 words: 64 cycles, 2 without conflicts" in banks
    assert "A column of a tile with rows of 33 words: 2 cycles" in banks
    lines = texts("explanation/lines.svg")
    assert "8 KiB from lane to lane: 64 cache lines, 1.6 % of their bytes used" in lines
    assert "2 bytes from lane to lane: 1 cache line, all of its bytes used" in lines
    rows = texts("explanation/waves-of-rows.svg")
    assert "8 waves: each block is computed 4 times" in rows
    assert {f"{32 * 64 * 32:,}", f"{4 * 32 * 64 * 32:,}"} <= set(rows)
    # The page shows the line of a compile, which its own test holds against the compiler at hand.
    line = re.search(
        r"bound (\d+) cycles by (.+) \((.+) (\d+), (.+) (\d+), \d waves/SIMD\)",
        (ROOT / "docs/explanation/bounds.md").read_text(),
    )
    assert line is not None
    first, *others = line.groups()
    drawn = texts("explanation/units.svg")
    for unit, cycles in ((others[0], first), (others[1], others[2]), (others[3], others[4])):
        assert f"{int(cycles):,}" == drawn[drawn.index(unit) + 1]
    unit = texts("explanation/occupancy-cu.svg")
    assert {"130 VGPRs: 2 waves on a SIMD", "128 VGPRs: 4 waves on a SIMD"} <= set(unit)


def test_the_picture_of_lock_step_has_every_executed_instruction() -> None:
    code = str(ROOT / "docs" / "examples" / "lockstep.s")
    result = kinspect.emulate_code(code, "i32[256]=zeros", block=(256, 1, 1))
    svg = PICTURES["explanation/lockstep.svg"]().svg()
    assert svg.count("<title>wave ") == result.profile.executed["instructions"] == 70
    assert not result.profile.findings
    assert result.buffers[0].changed == 0xE0


def test_drawings_stand_in_their_pages_as_elements() -> None:
    pytest.importorskip("mkdocs")
    from kinspect.docs.generated_pages import on_page_content

    for name in ("lines", "blocked"):
        html = on_page_content(f'<p><img alt="{name}" src="../{name}.svg" /></p>')
        assert html.startswith("<p><svg")
        assert 'fill="currentColor"' in html
        assert 'fill="#fff"' not in html
        assert 'fill="#59636e"' not in html
    other = '<p><img alt="a screen" src="../terminal/1-spill.svg" /></p>'
    assert on_page_content(other) == other


@pytest.mark.parametrize("page", ["docs/guides/ci.md", "rules/README.md"])
def test_packs_on_pages_have_no_faults(page: str, tmp_path: Path) -> None:
    packs = [
        text
        for text in re.findall(r"^```yaml\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)
        if text.startswith("pack:")
    ]
    assert packs
    for number, text in enumerate(packs):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text)
        assert main(["rules", "check", str(file)]) == 0
