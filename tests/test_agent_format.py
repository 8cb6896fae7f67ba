"""The report for coding agents: short, with ids that stay and commands that can be run."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import click
import kinspect
import pytest
from click.testing import CliRunner
from kinspect.inspector.cli.analyze import analyze
from kinspect.inspector.cli.group import cli
from kinspect.inspector.cli.target_options import next_steps
from kinspect.inspector.explain import items
from kinspect.inspector.formats import agent
from kinspect.inspector.model import (
    Assumption,
    Change,
    ErrorRecord,
    Metric,
    Report,
    SourceLoc,
    Trial,
    Unread,
)
from msgspec.structs import replace

pytestmark = pytest.mark.xdist_group("agent_format")  # what it compiles is made once

MOST_BYTES = agent.MOST_TOKENS * agent.BYTES_PER_TOKEN
EXAMPLES = Path(__file__).parent.parent / "docs" / "examples"


@pytest.fixture(scope="module")
def report() -> Report:
    pytest.importorskip("triton")
    return kinspect.analyze(EXAMPLES / "column_sums.py", arch="gfx942").report


def written(report: Report, *, whole: bool = True) -> str:
    stream = io.StringIO()
    agent.write(report, stream, whole=whole)
    return stream.getvalue()


def test_a_kernel_in_short_has_its_time_and_first_findings(report: Report) -> None:
    (kernel,) = report.kernels
    findings = tuple(
        replace(f, fingerprint=f"{n:x}" * 16) for n, f in enumerate(kernel.findings * 3)
    )
    text = written(replace(report, kernels=(replace(kernel, findings=findings),)), whole=False)
    assert [line.split()[0] for line in text.splitlines() if not line.startswith(" ")] == [
        *("kernel", "time", "figures", "finding", "finding", "finding", "try", "3"),
    ]
    assert "3 more findings, loops, accesses, code; a finding by its id: kinspect show " in text
    assert len(written(report, whole=False).encode()) < len(written(report).encode()) / 1.5


def test_a_finding_with_its_figures_place_and_commands(report: Report) -> None:
    text = written(report)
    kernel = items.kernel_key(report.kernels[0].id)[:6]
    first = text.splitlines()[0]
    assert first == f"kernel {kernel} column_sums gfx942 column_sums.py:7"
    assert re.search(r"^figures vgprs=\d+ sgprs=\d+ waves_per_simd=8 limited_by=waves$", text, re.M)
    assert re.search(rf"^loop {kernel}\.L0 main column_sums.py:11–12: .*bound_by=l1$", text, re.M)
    finding = next(f for f in report.kernels[0].findings if f.rule == "KI044")
    opening = f"finding {finding.fingerprint[:6]} KI044 warning column_sums.py:12 saves=50.8%: "
    assert opening in text
    assert "  fix Load along the dimension that is contiguous in memory" in text
    assert re.search(
        rf"^access {kernel}\.M\d+ buffer_load_ushort column_sums.py:12: lines=64 lines_ideal=1$",
        text,
        re.M,
    )


def test_a_cure_is_said_once(report: Report) -> None:
    (kernel,) = report.kernels
    first = next(f for f in kernel.findings if f.rule == "KI044")
    again = replace(first, fingerprint="0123456789abcdef")
    text = written(replace(report, kernels=(replace(kernel, findings=(first, again)),)))
    assert text.count("Load along the dimension") == 1
    assert f"\n  fix as {first.fingerprint[:6]}\n" in text


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (Change("option", "num_warps", 4, 8), "option num_warps=4 was=8 at column_sums.py:{}"),
        (Change("constexpr", "BLOCK", 32), "constexpr BLOCK=32 at column_sums.py:{}"),
        (Change("argument", "stride", 64), "argument stride=64 at column_sums.py:7"),
        (Change("environment", "KNOB", "1"), "environment KNOB=1"),
        (
            Change("source", "do_not_specialize", None, "m, n"),
            'source do_not_specialize was="m, n" at column_sums.py:7',
        ),
    ],
)
def test_a_cure_that_helped_is_data(report: Report, change: Change, line: str) -> None:
    """Kind, name, values and place of the first change that is rid of it."""
    (kernel,) = report.kernels
    assert kernel.variant is not None
    assert kernel.variant.call_site is not None
    other = Change("option", "num_stages", 1, 2)
    trials = (Trial((other,), False), Trial((change,), True), Trial((other,), True))
    first, *rest = kernel.findings
    tried = replace(kernel, findings=(replace(first, trials=trials), *rest))
    text = written(replace(report, kernels=(tried,)))
    expected = f"  apply {line.format(kernel.variant.call_site.line)}"
    assert [made for made in text.splitlines() if made.startswith("  apply")] == [expected]


def test_the_commands_are_of_this_program(report: Report) -> None:
    lines = [line for line in written(report).splitlines() if " kinspect " in f" {line}"]
    commands = [line[line.index("kinspect ") :] for line in lines]
    names = {shlex.split(command)[1] for command in commands}
    assert names == {"show", "registers", "try"}
    for command in commands:
        _, name, *arguments = shlex.split(command)
        chosen = cli.get_command(click.Context(cli), name)
        assert chosen is not None
        chosen.make_context(name, arguments)


def test_ids_are_as_short_as_they_differ() -> None:
    assert items.shortened(["abcdef0123456789", "abcdef0193456789", "bcdef00123456789"]) == {
        "abcdef0123456789": "abcdef012",
        "abcdef0193456789": "abcdef019",
        "bcdef00123456789": "bcdef0012",
    }


@pytest.mark.parametrize(
    ("text", "item"),
    [
        ("1bf6c8", items.ItemId("1bf6c8")),
        ("1bf6c8.L12", items.ItemId("1bf6c8", loop="L12")),
        ("1bf6c8.M41", items.ItemId("1bf6c8", line=41)),
        ("1bf6c", None),  # shorter than any that is printed
        ("kernel", None),
        ("1bf6c8.S4", None),
        ("1bf6c8.s", None),
        ("abcdef0123456789a", None),
    ],
)
def test_the_form_of_ids(text: str, item: items.ItemId | None) -> None:
    assert items.parsed(text) == item


def test_a_kernel_takes_so_many_tokens_at_most(report: Report) -> None:
    (kernel,) = report.kernels
    finding = kernel.findings[0]
    findings = tuple(replace(finding, fingerprint=f"{number:016x}") for number in range(300))
    text = written(replace(report, kernels=(replace(kernel, findings=findings),)))
    assert len(text.encode()) <= MOST_BYTES
    told = text.count("\nfinding ")
    assert 5 < told < 300
    assert f"\n{300 - told} more findings: kinspect analyze " in text


def test_hundreds_of_hot_loops_and_constexprs_leave_room_for_findings(report: Report) -> None:
    (kernel,) = report.kernels
    assert kernel.variant is not None
    loops = tuple(replace(kernel.loops[0], id=f"L{number}") for number in range(500))
    variant = replace(kernel.variant, constexprs={f"BLOCK_{n}": n for n in range(500)})
    changed = replace(kernel, loops=loops, main_loop="L400", variant=variant)
    text = written(replace(report, kernels=(changed,)))
    assert len(text.encode()) <= MOST_BYTES
    first, *others = re.findall(r"^loop \w+\.(L\d+)", text, re.M)
    assert (first, others[0]) == ("L400", "L0")
    assert f"\n{499 - len(others)} more hot loops: kinspect show " in text
    assert text.count("\nfinding ") == 2


def test_several_kernels_begin_with_a_summary(report: Report) -> None:
    (kernel,) = report.kernels
    findings = (*kernel.findings, replace(kernel.findings[0], severity="info"))
    kernels = tuple(
        replace(kernel, id=f"{kernel.id}{n}", name=f"k{n}", findings=findings[: n % 4])
        for n in range(25)
    )
    lines = written(replace(report, kernels=kernels)).splitlines()
    assert lines[0] == "summary 25 kernels: 30 warnings, 6 notes"
    worst = items.kernel_key(f"{kernel.id}3")[:6]
    assert lines[1] == f"  {worst} k3 gfx942: 2 warnings, 1 note"
    assert lines[21:23] == ["  and 5 more", ""]
    assert lines[23].startswith(f"kernel {worst} k3")


def test_unknown_is_no_zero_and_nothing_is_hidden(report: Report) -> None:
    (kernel,) = report.kernels
    metrics = {
        **kernel.metrics,
        "lds_bytes": Metric("lds_bytes", None, "B", "compiler", "not stated"),
        "vgpr_spill_count": Metric("vgpr_spill_count", 3, "registers", "compiler"),
    }
    failed = ErrorRecord("x.py", "broken", "compile", "no such option", "drop it")
    changed = replace(kernel, metrics=metrics, findings=(), leads=(), time=None)
    text = written(replace(report, kernels=(changed,), errors=(failed,), notes=("stand-ins",)))
    assert "lds_bytes=?" in text
    assert "vgpr_spills=3" in text
    assert "\nfindings none: no finding, and no time is known\n" in text
    assert "\nfailed broken: compile: no such option; drop it\n" in text
    assert text.endswith("note stand-ins\n")


def test_what_was_assumed_or_not_read_is_said(report: Report) -> None:
    (kernel,) = report.kernels
    assert kernel.variant is not None
    assumption = Assumption("how long a kernel took", "1 ms", SourceLoc("x.py", 3))
    changed = replace(
        kernel,
        variant=replace(kernel.variant, assumptions=(assumption,)),
        unread=(Unread("words", 2),),
        findings=(),
    )
    text = written(replace(report, kernels=(changed,)))
    assert "\nassumed: how long a kernel took is 1 ms (x.py:3)\n" in text
    assert "\nunread not all of the code was read (2 words of code that are not decoded)" in text
    assert "\nfindings none: no finding in what was read\n" in text


def test_a_finding_names_try_where_something_is_tried(report: Report) -> None:
    """Of each finding: the line stands if `try --for RULE`, with no time left, plans a change."""
    offered: dict[str, bool] = {}
    text = written(report)
    for finding in report.kernels[0].findings:
        block = (
            text.partition(f"finding {finding.fingerprint[:6]} ")[2]
            .partition("\nfinding ")[0]
            .rstrip()
        )
        is_offered = block.endswith(f"--for {finding.rule}")
        (kernel,) = kinspect.try_(kinspect.Analysis(report), rules=[finding.rule], budget=0).kernels
        assert is_offered == (finding.rule not in kernel.without_candidates)
        offered[finding.rule] = is_offered
    assert offered == {"KI036": True, "KI044": False}


def test_of_a_report_read_back_nothing_is_tried(report: Report, tmp_path: Path) -> None:
    """The file that it names may be a stranger's, and what is saved is compiled already."""
    saved = tmp_path / "saved.kinspect"
    kinspect.Analysis(report).save(saved)
    text = written(kinspect.load(saved).report)
    assert "\n  try " in written(report)
    assert "\n  try " not in text
    assert f"registers kinspect registers {saved} " in text


def test_saved_code_is_not_tried(report: Report, tmp_path: Path) -> None:
    code = kinspect.AnalyzedKernel(report.kernels[0]).code()
    assert code is not None
    (tmp_path / "saved.s").write_text(code)
    text = written(kinspect.analyze(tmp_path / "saved.s").report)
    assert "kinspect try" not in text
    assert "--arch" not in text  # the file states it
    assert "kinspect registers" in text


def test_control_characters_stay_harmless(report: Report) -> None:
    (kernel,) = report.kernels
    finding = replace(kernel.findings[0], message="red \x1b[31m and\n::error::x")
    text = written(replace(report, kernels=(replace(kernel, findings=(finding,)),)))
    assert "\x1b" not in text
    assert "\n::error" not in text


# --------------------------------------------------------------------------- lint


def linted(*arguments: str | Path) -> str:
    """What `kinspect lint --format agent` prints."""
    result = CliRunner().invoke(cli, ["lint", *map(str, arguments), "--format", "agent"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.stdout


def test_lint_says_the_same_with_the_same_ids(report: Report) -> None:
    text = linted(EXAMPLES / "column_sums.py", "--arch", "gfx942")
    analyzed = written(report).splitlines()
    summary, blank, kernel, *_ = text.splitlines()
    assert (summary, blank) == ("summary 2 warnings in 1 kernel", "")
    assert kernel == analyzed[0]
    findings = [line for line in text.splitlines() if line.startswith("finding ")]
    for line in findings:
        known_part = line.partition(" (and 1 more loop")[0]
        assert any(other.startswith(known_part) for other in analyzed)
    assert len(findings) == 2  # what is found in both loops is told once
    assert [line.split()[3] for line in findings] == ["warning", "warning"]  # by what they save
    cure = next(line for line in analyzed if line.startswith("  fix "))
    assert cure in text


def test_a_budget_is_no_rule_that_is_tried(report: Report, tmp_path: Path) -> None:
    settings = tmp_path / "pyproject.toml"
    settings.write_text('[[tool.kinspect.kernel]]\nmatch = "*"\nbudget = { vgpr_count = 1 }\n')
    text = linted(EXAMPLES / "column_sums.py", "--arch", "gfx942", "--config", settings)
    assert " budget error " in text
    assert "--for budget" not in text
    offered = re.findall(r"--for (\w+)$", text, re.M)
    assert set(offered) == set(re.findall(r"^  try .* --for (\w+)$", written(report), re.M))


def test_lint_of_several_kernels(tmp_path: Path) -> None:
    small = (Path(__file__).parent / "data" / "small_gfx942.s").read_text()
    for name in ("a", "b"):
        (tmp_path / f"{name}.s").write_text(small)
    (tmp_path / "c.s").write_text(small.replace("small", "other"))
    (tmp_path / "bad.s").write_text("\tnonsense\n")
    text = linted(tmp_path)
    lines = text.splitlines()
    assert re.fullmatch(
        r"summary .* in 3 kernels; 1 target could not .*; \d+ at or above error", lines[0]
    )
    assert re.fullmatch(r"  [0-9a-f]{6} small gfx942: 1 error", lines[1])
    assert text.count("\nkernel ") == 3
    assert "\nfailed " in text
    for block in text.split("\n\n"):
        assert len(block.encode()) <= MOST_BYTES


def test_a_clean_kernel_in_lint(tmp_path: Path) -> None:
    (tmp_path / "empty.s").write_text(
        (Path(__file__).parent / "data" / "small_gfx942.s").read_text()
    )
    text = linted(tmp_path / "empty.s", "--select", "KI044")
    assert text == "summary no findings in 1 kernel\n"


def test_commands_find_the_same_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_guests: None
) -> None:
    (tmp_path / "sums.py").write_text(
        "import triton, triton.language as tl\n"
        "@triton.jit\n"
        "def sums(x, y, n, B: tl.constexpr):\n"
        "    rows, total = tl.arange(0, B), tl.zeros((B,), tl.float32)\n"
        "    for i in range(0, 64):\n"
        "        total += tl.load(x + rows * 64 + i)\n"
        "    tl.store(y + rows, total)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def agent_output(words: list[str]) -> str:
        done = CliRunner().invoke(cli, words)
        assert done.exit_code in (0, 1), done.output
        return done.output

    typed = ["--signature", "*fp32:16, *fp32:16, i32", "-D", "B=256", "--set", "num_warps=16"]
    first = agent_output(
        ["analyze", "sums.py", *typed, "--format", "agent", "--details", "--", "a b"]
    )
    (code,) = re.findall(r"^code (.*)$", first, re.M)
    named = shlex.split(code)
    assert named[:7] == ["kinspect", "show", "sums.py", "--kernel", "sums", "--arch", "gfx942"]
    assert named[7:] == [
        *("--signature", "*fp32:16, *fp32:16, i32", "--define", "B=256"),
        *("--set", "num_warps=16", "--isa", "--", "a b"),
    ]
    assert ".amdhsa_kernel sums" in agent_output([*named[1:-2], "--plain", *named[-2:]])
    kernel = first.split()[1]
    assert agent_output(["show", kernel, "--format", "agent"]) == first, "with the same commands"
    judged = agent_output(["lint", "sums.py", *typed, "--format", "agent"])
    (report,) = re.findall(r"^more kinspect (analyze .* --format agent)$", judged, re.M)
    assert f"kernel {kernel} sums[stated] gfx942" in agent_output(shlex.split(report))
    tried = re.findall(r"^  try kinspect (try .*)$", judged, re.M)
    assert tried
    outcome = agent_output([*shlex.split(tried[0]), "--format", "agent"])
    assert outcome.startswith(f"kernel {kernel} ")
    assert re.search(r"num_warps 16 → (8|4): .*gone", outcome), outcome


def test_commands_repeat_what_decides_which_kernels_are_found() -> None:
    words = ["a.py", "--waves=4", "-DB=2", "--waves", "8", "--explore", "2", "--triton"]
    context = analyze.make_context("analyze", [*words, sys.executable, "--", "-D", "C=1"])
    code = next_steps(context).code(agent.AgentSubject("k", "k[0]", "gfx942", "a.py", ""))
    assert shlex.split(code)[5:] == [
        *("--arch", "gfx942", "--define", "B=2", "--explore", "2", "--python", sys.executable),
        *("--waves", "8", "--isa", "--", "-D", "C=1"),
    ]


def test_a_launch_that_was_stated_is_stated_to_try() -> None:
    words = ["a.hip", "--grid", "4", "--args", "i32[64], i32 64"]
    calls = next_steps(analyze.make_context("analyze", words))
    subject = agent.AgentSubject("k", "k", "gfx942", "a.hip", "")
    named = (calls.try_cures(subject, "KI091"), calls.analyze(subject))
    for command in named:
        assert "--grid 4 --args 'i32[64], i32 64'" in command


def test_commands_name_the_saved_report_and_no_file_that_only_it_names(tmp_path: Path) -> None:
    kinspect.analyze(EXAMPLES / "gemm.amdgcn").save(tmp_path / "r.kinspect")
    with zipfile.ZipFile(tmp_path / "r.kinspect") as archive:
        text = archive.read("report.json").decode().replace("gemm.amdgcn::", "evil.py::")
    assert '"saved_in"' not in text
    (tmp_path / "r.json").write_text(text)
    for words in (["analyze", "--details"], ["lint", "--fail-on", "never"]):
        run = subprocess.run(
            [sys.executable, "-m", "kinspect", *words, "--format", "agent", "r.json"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        commands = re.findall(r"kinspect (?:analyze|registers|show|try) (\S+ --kernel)", run.stdout)
        assert set(commands) == {"r.json --kernel"}, run.stdout + run.stderr
