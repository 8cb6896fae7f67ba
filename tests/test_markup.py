"""No text of a file becomes markup, a command or a line of its own, in any format."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TextIO, get_type_hints

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kinspect.inspector.compare.diff.isa import assembly_of
from kinspect.inspector.compare.diff.reports import DiffOptions, NamedReport, diff_reports
from kinspect.inspector.compare.diff.tolerances import tolerances_of
from kinspect.inspector.compile import reproducer
from kinspect.inspector.formats import (
    agent,
    diff_agent,
    github,
    lint_agent,
)
from kinspect.inspector.formats.html import page
from kinspect.inspector.formats.html.kernel import PageKernel
from kinspect.inspector.lint.lint_results import CheckedKernel, LintReport
from kinspect.inspector.model import ErrorRecord, Location, Metric, Report, SourceLoc, Variant
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.present import diff as present_diff
from kinspect.inspector.present import lint
from kinspect.inspector.present.markdown import code, inline, table
from kinspect.inspector.present.report import write_markdown
from markdown_it import MarkdownIt
from msgspec.structs import replace

DATA = Path(__file__).parent / "data"
TAG = "<img src=x onerror=alert(1)>"
LINKS = "https://evil.test/x www.evil.test me@evil.test evil/repo#1 GH-1 #1"
EVIL = (
    f"{TAG} {LINKS} ![i](http://i)[l](http://l)@you `` `a\\|{TAG}` \\` ```{TAG}\n::error::x\n"
    "# EVIL\\"
)
OUR_HTML = ("<details>", "</details>", "<summary>", "</summary>", "<code>", "</code>")
GITHUBS_LINK = re.compile(r"(?:https?|ftp)://|www\.|@\w|#\d|GH-\d")
KEYS = ("arch", "id", "origin", "kind", "class_name", "stage", "rule", "space")
"""Fields that name something that is looked up, or of which there is a fixed set."""


def evil(value: Any, wanted: Any = str, name: str = "") -> Any:
    """The value, with markup behind every text that is anyone's to choose."""
    if isinstance(value, msgspec.Struct):
        types = get_type_hints(type(value))
        fields = type(value).__struct_fields__
        return replace(
            value, **{field: evil(getattr(value, field), types[field], field) for field in fields}
        )
    if isinstance(value, tuple):
        return tuple(evil(part, wanted, name) for part in value)
    if isinstance(value, Mapping):
        return {key: evil(part, wanted, name) for key, part in value.items()}
    is_free = isinstance(value, str) and "Literal" not in str(wanted) and name not in KEYS
    return f"{value}{EVIL}" if is_free else value


@pytest.fixture(scope="module")
def report() -> Report:
    """What a run reports of two kernels, with markup in every text."""
    files = ("small_gfx942.s", "isa/attend.triton39.gfx950.amdgcn")
    found = collect(Request(tuple(str(DATA / name) for name in files)))
    kernels = []
    for kernel in found.kernels:
        finding = replace(
            kernel.findings[0] if kernel.findings else kernel.leads[0],
            locations=(Location("source", "k.py", 3, "text"),),
            fix="a fix",
            doubt="a doubt",
        )
        kernels.append(
            replace(
                kernel,
                findings=(finding,),
                leads=(finding,),
                source=SourceLoc("k.py", 3),
                notes=("a note",),
            )
        )
    assert any(loop.hot for kernel in kernels for loop in kernel.loops)
    errors = (ErrorRecord("f.py", "kernel", "compile", "message", "hint", "output"),)
    written: Report = evil(
        replace(found, kernels=tuple(kernels), errors=errors, notes=("a note",)), Report
    )
    return written


def lint_report(report: Report) -> LintReport:
    """The same findings, of no rule that is known."""
    return LintReport(
        target=report.target,
        tool=report.tool,
        packs=(),
        rules={},
        fail_on="info",
        kernels=tuple(
            CheckedKernel(
                id=kernel.id,
                name=kernel.name,
                case=None,
                arch=kernel.arch,
                file=f"f{EVIL}",
                target="f",
                source=kernel.source,
                artifact=None,
                findings=kernel.findings,
            )
            for kernel in report.kernels
        ),
        errors=report.errors,
        notes=report.notes,
    )


def write_diff(write: Callable[..., None]) -> Callable[[Report, TextIO], None]:
    """Writes what changed between the report and itself with a loop's figures changed."""

    def written(report: Report, out: TextIO) -> None:
        raised = {"vgpr_count": Metric("vgpr_count", 999, "registers", "compiler")}
        slower = tuple(replace(k, metrics={**k.metrics, **raised}) for k in report.kernels)
        sides = (replace(report, kernels=report.kernels[:1]), replace(report, kernels=slower))
        left, right = (NamedReport(f"side{EVIL}", side) for side in sides)
        write(diff_reports(left, right, DiffOptions(tolerances_of(())), assembly_of), out)

    return written


def write_html(report: Report, out: TextIO) -> None:
    page.write_report(report, [PageKernel(k, code={1: EVIL}) for k in report.kernels], out)


def of_lint(write: Callable[..., None]) -> Callable[[Report, TextIO], None]:
    return lambda report, out: write(lint_report(report), out)


MARKDOWN = {
    "md": write_markdown,
    "lint_md": of_lint(lint.write_markdown),
    "diff_md": write_diff(present_diff.write_markdown),
}
LINES = {
    "agent": agent.write,
    "lint_agent": of_lint(lint_agent.write),
    "diff_agent": write_diff(diff_agent.write),
}


def markup(text: str) -> list[str]:
    """What a Markdown page holds beside words and code: HTML of others, images, links, mentions."""
    found = []
    page = MarkdownIt("gfm-like", {"html": True})
    page.linkify.set({"fuzzy_link": False})  # GitHub makes no link of `k.py`
    for block in page.parse(text):
        for token in block.children or [block]:
            if token.type in ("image", "link_open", "fence", "code_block"):
                found.append(token.type)
            elif token.type in ("html_inline", "html_block"):
                rest = token.content
                for ours in OUR_HTML:
                    rest = rest.replace(ours, "")
                found += ["<"] if "<" in rest else []
            elif token.type == "text":
                assert "&lt;img" not in token.content, "escaped twice"
                found += GITHUBS_LINK.findall(token.content)
            elif token.type == "heading_open":
                found += ["heading"] if "EVIL" in block.content else []
    return found


@pytest.mark.parametrize("form", MARKDOWN)
def test_markdown_shows_markup_as_text(form: str, report: Report) -> None:
    out = io.StringIO()
    MARKDOWN[form](report, out)
    assert out.getvalue().count("onerror") > 10
    assert markup(out.getvalue()) == []


def test_html_shows_markup_as_text(report: Report) -> None:
    out, tags = io.StringIO(), set[str]()
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.add(tag)  # type: ignore[method-assign]
    write_html(report, out)
    parser.feed(out.getvalue())
    assert out.getvalue().count("onerror") > 10
    assert tags.isdisjoint({"img"})


@pytest.mark.parametrize("form", LINES)
def test_no_text_begins_a_line_of_its_own(form: str, report: Report) -> None:
    out = io.StringIO()
    LINES[form](report, out)
    assert "# EVIL" in out.getvalue()
    assert not [
        line for line in out.getvalue().splitlines() if line.startswith(("# EVIL", "::", "\\::"))
    ]


def test_github_commands_are_ours(report: Report) -> None:
    out = io.StringIO()
    github.write(lint_report(report), out)
    commands = [line for line in out.getvalue().splitlines() if line.strip().startswith("::")]
    assert len(commands) == 1 + len(report.errors) + len(report.kernels)
    assert not [line for line in commands if line.startswith("::error::x")]


def test_an_exported_readme_shows_markup_as_text(tmp_path: Path) -> None:
    variant = Variant(kernel="k", arch="gfx942", wave_size=64, ttir="module {}", options={})
    kernel = reproducer.Reproducer(variant, EVIL, None, None, failure=EVIL)
    reproducer.write(kernel, tmp_path / "repro")
    assert markup((tmp_path / "repro" / "README.md").read_text()) == []


@given(st.lists(st.sampled_from([*"`\\|<b>![]()x ~_*", *LINKS.split()]), max_size=14).map("".join))
@example("` a `` b <b> c ``` d")  # runs of several backticks pair with their like
@example("x\\")  # would escape the backtick behind it
@example("`a\\|<b>`")  # a bar ends a cell, in code too
def test_any_sentence_name_or_cell(text: str) -> None:
    sentence, name = inline(f"a {text}`<b>`"), f"a {code(text)}"
    lines = [sentence, "", name, "", *table(("a", "b"), [[text, text]])]
    assert markup("\n".join(lines)) == []
