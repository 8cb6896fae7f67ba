"""Documents and their renderers: as wide as the paper, and what is named to go goes first."""

from __future__ import annotations

import io
from pathlib import Path

import kinspect
import pytest
from kinspect.inspector.explain import view
from kinspect.inspector.model import KernelReport, Report, SourceLoc, Variant
from kinspect.inspector.model.time import KernelTime, Saving
from kinspect.inspector.present import markdown, text
from kinspect.inspector.present.document import (
    Code,
    Column,
    Figure,
    Figures,
    Item,
    Items,
    Listing,
    Paragraph,
    Section,
    Span,
    Table,
    words,
)
from kinspect.inspector.present.report import document, kernels_table
from kinspect.inspector.present.text import Line, PlainPaper
from msgspec.structs import replace

SMALL = Path(__file__).parent / "data" / "small_gfx942.s"
WIDTHS = (80, 120, 200)


@pytest.fixture(scope="module")
def small() -> KernelReport:
    (kernel,) = kinspect.analyze(SMALL).report.kernels
    return kernel


class Terminal(PlainPaper):
    """A terminal of some width."""

    def __init__(self, width: int) -> None:
        self.lines: list[str] = []
        super().__init__(io.StringIO())
        self.width, self.shortens = width, True

    def print(self, line: Line) -> None:
        self.lines.append(line.plain)


def plain(*blocks: object, width: int = 80, fits: bool = True) -> list[str]:
    return [
        line.plain
        for block in blocks
        for line in text.lines_of(block, width, fits=fits)  # type: ignore[arg-type]
    ]


WIDE = Table(
    (
        Column("name", shrinks=True),
        Column("time", right=True),
        Column("a", rank=1),
        Column("b", rank=2),
    ),
    (("n" * 60, "41 µs", "a" * 20, "b" * 20), ("short", "1 µs", "", "")),
)


def test_a_table_leaves_out_the_highest_rank_and_then_cuts_in_the_middle() -> None:
    heads = {width: plain(WIDE, width=width)[0].split() for width in (120, 80, 60, 30)}
    assert heads == {
        120: ["name", "time", "a", "b"],
        80: ["name", "time", "a", "b"],
        60: ["name", "time", "a"],
        30: ["name", "time"],
    }
    narrow = plain(WIDE, width=60)
    assert max(map(len, narrow)) <= 60
    assert "n…n" in narrow[1]
    assert "41 µs" in narrow[1]


def test_a_file_has_no_width() -> None:
    assert "b" * 20 in plain(WIDE, width=60, fits=False)[1]


@pytest.mark.parametrize("width", WIDTHS)
def test_reports_of_many_kernels_fit_the_terminal(small: KernelReport, width: int) -> None:
    long = "attention_forward_with_a_name_that_tells_all_of_its_shapes_and_types"
    kernels = tuple(replace(small, id=f"dir/{long}{n}.py::k", name=f"{long}_{n}") for n in range(9))
    terminal = Terminal(width)
    text.write(document(Report("t", {}, kernels, ())), terminal)
    assert max(map(len, terminal.lines)) <= width
    assert sum("error KI001" in line for line in terminal.lines) == 9


def test_a_table_of_kernels_has_the_first_change_of_each(small: KernelReport) -> None:
    clean = replace(small, name="clean", findings=())
    table = kernels_table((small, clean))
    at = [column.title for column in table.columns].index("first change")
    assert [row[at] for row in table.rows] == ["error KI001", "none"]


def test_kernels_stand_by_the_time_of_all_their_launches(small: KernelReport) -> None:
    clean = replace(small, findings=())
    often = replace(launched(clean, 5.0, 100), name="often")
    once = replace(launched(clean, 50.0, 1), name="once")
    untimed = replace(clean, name="untimed")
    ranked = view.worst_first([untimed, once, often])
    assert [kernel.name for kernel in ranked] == ["often", "once", "untimed"]


def test_of_an_autotuner_s_configurations_the_fastest_comes_first(small: KernelReport) -> None:
    def tuned(us: float, name: str) -> KernelReport:
        kernel = launched(small, us, 1)
        assert kernel.variant is not None
        variant = replace(kernel.variant, tuning={"BLOCK": us}, call_site=SourceLoc("a.py", 7))
        return replace(kernel, id=f"a.py::{name}", variant=variant)

    other = replace(launched(replace(small, findings=()), 20.0, 1), id="other")
    slow, fast = (replace(tuned(us, f"{us:g}"), findings=()) for us in (900.0, 10.0))
    refused = replace(tuned(5.0, "refused"), time=None)
    assert [f.severity for f in refused.findings] == ["error"]
    kernels = [slow, refused, other, fast]
    assert [k.id for k in view.worst_first(kernels)] == [
        "other",
        *(f"a.py::{name}" for name in ("10", "900", "refused")),
    ]
    terminal = Terminal(80)
    text.write(document(Report("t", {}, tuple(view.worst_first(kernels)), ())), terminal)
    told = terminal.lines
    assert any("of an autotuner's configurations the fastest" in line for line in told)
    assert not any("900 µs (" in line for line in told)  # has no screen


def launched(kernel: KernelReport, us: float, launches: int) -> KernelReport:
    """A report with a launch of so many microseconds that happened so often."""
    time = KernelTime(
        us=us, low=us, high=us, warm_us=None, cycles=us * 2100, mhz=2100, gpu="MI300X",
        workgroups=1, rounds=1, resident=1, limiter="memory latency", units={}, stalls=(),
        lines=(), savings=(),
    )  # fmt: skip
    variant = Variant(
        options={}, wave_size=64, kernel="k", arch="gfx942", ttir="", launches=launches
    )
    return replace(kernel, time=time, variant=variant)


def test_of_many_kernels_that_one_has_a_screen_which_has_most_to_gain(small: KernelReport) -> None:
    (finding,) = small.findings
    kernels = [
        replace(
            launched(small, us, 1),
            name=f"k{us}",
            findings=(replace(finding, severity="info", saves_percent=percent),) if percent else (),
        )
        for us, percent in ((90, 0), (80, 5), (50, 30), (20, 60))
    ]
    told = document(Report("t", {}, tuple(kernels), ()))
    assert [section.title[0].text for section in told if section.is_subject] == ["k50"]


def test_what_no_rule_cures_is_told(small: KernelReport) -> None:
    timed = launched(replace(small, findings=()), 40.0, 1)
    assert timed.time is not None
    savings = (
        Saving("wide accesses", 34.0, 15.0),
        Saving("lines", 39.5, 1.2),
        Saving("memory", 4.0, 90.0),
    )
    kernel = replace(timed, time=replace(timed.time, savings=savings))
    shown = [line.plain for s in document(Report("t", {}, (kernel,), ())) for line in _lines(s)]
    assert "worth looking for: -15 % 16 bytes a lane with each access" in map(str.strip, shown)


def test_the_answer_stands_before_what_it_rests_on(small: KernelReport) -> None:
    report = Report("t", {}, (small,), ())
    terminal, whole = Terminal(80), Terminal(80)
    text.write(document(report), terminal)
    text.write(document(report, details=True), whole)
    (finding,) = (n for n, line in enumerate(terminal.lines) if "KI001" in line)
    assert finding <= 10
    assert terminal.lines[-1].strip().endswith("--details")
    assert not any("Hot loop" in line for line in terminal.lines)
    (loop,) = (n for n, line in enumerate(whole.lines) if "Hot loop" in line)
    assert any("KI001" in line for line in whole.lines[:loop])


def test_more_findings_than_a_screen_holds_are_counted(small: KernelReport) -> None:
    findings = tuple(
        replace(small.findings[0], rule=f"R{n}", message=f"fact {n}") for n in range(9)
    )
    report = Report("t", {}, (replace(small, findings=findings),), ())
    shown = "\n".join(line.plain for s in document(report) for line in _lines(s))
    whole = "\n".join(line.plain for s in document(report, details=True) for line in _lines(s))
    assert "fact 4" in shown
    assert "fact 5" not in shown
    assert "4 more findings: --details" in shown
    assert "fact 8" in whole


def test_what_several_findings_advise_stands_at_the_first(small: KernelReport) -> None:
    first = replace(small.findings[0], fix="Unroll it.", saves_percent=9.0)
    other = replace(first, rule="R2", fix="Sort it.", saves_percent=7.0)
    findings = (first, other, replace(first, message="the same elsewhere", saves_percent=5.0))
    told = document(Report("t", {}, (replace(small, findings=findings),), ()))
    shown = "\n".join(line.plain for section in told for line in _lines(section))
    assert shown.count("Unroll it.") == 1
    assert shown.index("-9 %") < shown.index("Unroll it.") < shown.index("-7 %")


def _lines(section: Section) -> list[Line]:
    return [line for block in section.blocks for line in text.lines_of(block, 100)]


def test_tones_stay_on_their_words_over_lines() -> None:
    sentence = Paragraph((Span("one two three ", "strong"), Span("four five six", "weak")))
    lines = list(text.lines_of(sentence, 16))
    assert [line.plain for line in lines] == ["  one two three", "    four five", "    six"]
    assert lines[0].spans[-1] == ("one two three", "bold")
    assert lines[2].spans[-1] == ("six", "dim")


def test_a_word_longer_than_the_line_stays_whole() -> None:
    assert plain(Paragraph(words("a " + "b" * 90)))[1].strip() == "b" * 90


def test_items_stand_under_one_another() -> None:
    items = Items(
        (
            Item(Span("-27 %", "warning"), ":41", "four warps", "KI001", (Span("num_warps=1"),)),
            Item(Span("note", "info"), "", "x " * 60),
        )
    )
    first, below, *others = plain(items)
    assert first == "  -27 %  :41  four warps  KI001"
    assert below == "              → num_warps=1"
    assert all(line.startswith(" " * 14) for line in others[1:])


def test_figures_with_bars() -> None:
    full = Figures((Figure("LDS", words("64 of 64"), 1.0), Figure("VGPRs", words("0 of 512"), 0.0)))
    lds, vgprs = plain(full)
    assert lds == f"  LDS    64 of 64  {'▇' * 20}"
    assert vgprs == f"  VGPRs  0 of 512  {'▁' * 20}"


def test_lines_keep_their_own_indentation_and_code_is_not_broken() -> None:
    assert plain(Listing(("a", "  b"))) == ["  a", "    b"]
    assert plain(Code(("x" * 200,))) == ["    " + "x" * 200]


def test_markdown_of_each_block() -> None:
    blocks = (
        Paragraph(words("it waits", "strong")),
        Figures((Figure("waves", words("8 of 8")),)),
        Figures((Figure("VALU", words("3")),), is_row=True),
        Table((Column("a"),), (("1|2",),)),
        Items((Item(Span("-5 %"), ":3", "narrow", "KI003", (Span("widen"),)),)),
        Code(("s_nop 0", "```"), "diff"),
    )
    title = (Span("k<b>", "strong"), Span("  gfx942"))
    lines = list(markdown.lines_of((Section(blocks, title, is_subject=True),)))
    assert [line for line in lines if line] == [
        "## `k<b>` gfx942",
        "**it waits**",
        "- **waves** 8 of 8",
        "| VALU |",
        "| --- |",
        "| 3 |",
        "| a |",
        "| --- |",
        "| 1\\|2 |",
        "- **-5 %** :3: narrow (KI003)",
        "  - widen",
        "```diff",
        "s_nop 0",
        "'''",
        "```",
    ]


def test_markdown_folds_up_to_the_next_subject() -> None:
    folded = Section((), words("a<b>"), is_subject=True, folds=True)
    more = Section((Paragraph(words("inside")),))
    after = Section((Paragraph(words("outside")),), words("c"), is_subject=True)
    lines = [line for line in markdown.lines_of((folded, more, after)) if line]
    assert lines == [
        "<details><summary><code>a&lt;b&gt;</code></summary>",
        "inside",
        "</details>",
        "## `c`",
        "outside",
    ]
    assert list(markdown.lines_of((folded,)))[-1] == "</details>"
