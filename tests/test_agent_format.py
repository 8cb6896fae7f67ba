"""The report for coding agents: short, with ids that stay and commands that can be run."""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path

import click
import kinspect
import pytest
from kinspect.inspector.cli.group import cli
from kinspect.inspector.formats import agent
from kinspect.inspector.model import ErrorRecord, Metric, Report
from msgspec.structs import replace

EXAMPLES = Path(__file__).parent.parent / "docs" / "examples"


@pytest.fixture(scope="module")
def report() -> Report:
    pytest.importorskip("triton")
    return kinspect.analyze(EXAMPLES / "column_sums.py", arch="gfx942").report


def written(report: Report) -> str:
    stream = io.StringIO()
    agent.write(report, stream)
    return stream.getvalue()


def test_a_finding_with_its_figures_place_and_commands(report: Report) -> None:
    text = written(report)
    first = text.splitlines()[0]
    assert first == "kernel column_sums gfx942 column_sums.py:7"
    assert re.search(r"^figures vgprs=\d+ sgprs=\d+ waves_per_eu=8 limited_by=waves$", text, re.M)
    assert re.search(r"^loop L0 main column_sums.py:11–12: .*bound_by=l1$", text, re.M)
    finding = report.kernels[0].findings[0]
    opening = f"finding {finding.fingerprint[:6]} KI044 warning column_sums.py:12 saves<=98.4%: "
    assert opening in text
    assert "  cure Let neighbouring lanes read neighbouring addresses" in text


def test_the_commands_are_of_this_program(report: Report) -> None:
    lines = [line for line in written(report).splitlines() if " kinspect " in f" {line}"]
    commands = [line[line.index("kinspect ") :] for line in lines]
    assert {shlex.split(command)[1] for command in commands} == {"show", "registers", "try"}
    for command in commands:
        _, name, *arguments = shlex.split(command)
        chosen = cli.get_command(click.Context(cli), name)
        assert chosen is not None
        chosen.make_context(name, arguments)


def test_ids_are_fingerprints_as_short_as_they_differ(report: Report) -> None:
    (kernel,) = report.kernels
    finding = kernel.findings[0]
    fingerprints = ("abcdef0123456789", "abcdef0193456789", "bcdef00123456789")
    findings = tuple(replace(finding, fingerprint=text) for text in fingerprints)
    ids = agent.finding_ids([replace(kernel, findings=findings)])
    assert ids == {
        "abcdef0123456789": "abcdef012",
        "abcdef0193456789": "abcdef019",
        "bcdef00123456789": "bcdef0012",
    }


def test_a_kernel_takes_so_many_tokens_at_most(report: Report) -> None:
    (kernel,) = report.kernels
    finding = kernel.findings[0]
    findings = tuple(replace(finding, fingerprint=f"{number:016x}") for number in range(300))
    text = written(replace(report, kernels=(replace(kernel, findings=findings),)))
    assert len(text) <= agent.MOST_TOKENS * agent.CHARACTERS_PER_TOKEN
    told = text.count("\nfinding ")
    assert 5 < told < 300
    assert f"\n{300 - told} more findings: kinspect analyze " in text


def test_unknown_is_no_zero_and_nothing_is_hidden(report: Report) -> None:
    (kernel,) = report.kernels
    metrics = {
        **kernel.metrics,
        "lds_bytes": Metric("lds_bytes", None, "B", "compiler", "not stated"),
        "vgpr_spill_count": Metric("vgpr_spill_count", 3, "registers", "compiler"),
    }
    failed = ErrorRecord("x.py", "broken", "compile", "no such option", "drop it")
    changed = replace(kernel, metrics=metrics, findings=())
    text = written(replace(report, kernels=(changed,), errors=(failed,), notes=("stand-ins",)))
    assert "lds_bytes=?" in text
    assert "spilled_vgprs=3" in text
    assert "\nfindings none\n" in text
    assert "\nfailed broken: compile: no such option; drop it\n" in text
    assert text.endswith("note stand-ins\n")


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
