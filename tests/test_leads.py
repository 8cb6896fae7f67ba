"""Leads: what is true, while something speaks against a change, stands below the findings."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import kinspect
import lxml.html
import pytest
from kinspect.inspector.cli.main import main
from kinspect.inspector.explain import view
from kinspect.inspector.formats import agent, md, text
from kinspect.inspector.formats.html.page import write_report
from kinspect.inspector.formats.html.page_kernels import page_kernels
from kinspect.inspector.lint.engine import judge
from kinspect.inspector.lint.schema import PackError
from kinspect.inspector.model import KernelReport, Report
from kinspect.inspector.report import json_brief, json_read, json_write
from msgspec.structs import replace

from .test_lint_engine import kernel, loop, pack, rule

FIXTURES = Path(__file__).parent.parent / "rules" / "fixtures"
WIDE = FIXTURES / "hip_trips_gfx942.s"
"""Of its kernels `adds_wide` waits for one load after another, of 192 bytes a lane."""
WORTH = """
    - that: count.mfma == 0
      doubt: products take longer
    - that: vgpr_count < 100
      doubt: it has {vgpr_count} VGPRs"""


def told(values: dict[str, int | None], *loops: dict[str, int]) -> tuple[list[str], list[str]]:
    """The messages of findings, and the doubts of leads."""
    report = kernel(values, [loop(f"L{n}", **counts) for n, counts in enumerate(loops)])
    judgement = judge(pack(rule(worth=WORTH)), report)
    assert all(not finding.doubt for finding in judgement.findings)
    return [f.message for f in judgement.findings], [lead.doubt for lead in judgement.leads]


def test_a_claim_is_a_finding_where_all_of_worth_holds() -> None:
    spilling = {"count__scratch_load": 3, "count__mfma": 0}
    assert told({"vgpr_count": 90}, spilling) == (["3 reloads"], [])
    assert told({"vgpr_count": 120}, spilling) == ([], ["it has 120 VGPRs"])
    assert told({"vgpr_count": None}, spilling) == ([], ["it has unknown VGPRs"])
    assert told({"vgpr_count": 120}, spilling | {"count__mfma": 8}) == (
        [],
        ["products take longer"],
    )


def test_what_is_not_true_is_no_lead() -> None:
    assert told({"vgpr_count": 120}, {"count__scratch_load": 0, "count__mfma": 0}) == ([], [])
    assert told({"vgpr_count": 120}, {"count__mfma": 0}) == ([], [])  # unknown


def test_a_rule_with_a_finding_has_no_lead() -> None:
    worth = {"count__scratch_load": 3, "count__mfma": 0}
    doubtful = {"count__scratch_load": 30, "count__mfma": 8}
    assert told({"vgpr_count": 90}, doubtful, worth) == (["3 reloads"], [])
    assert told({"vgpr_count": 90}, doubtful, doubtful)[1] == ["products take longer"] * 2


def test_loops_with_doubts_of_their_own_are_leads_of_their_own() -> None:
    """One change cures all loops, but what speaks against it in one does not in the other."""
    loops = [
        loop("L0", count__scratch_load=3, count__mfma=8),
        loop("L1", count__scratch_load=30, count__mfma=0),
        loop("L2", count__scratch_load=5, count__mfma=4),
    ]
    report = kernel({"vgpr_count": 120}, loops)
    judgement = judge(pack(rule(worth=WORTH, cured_together="true")), report)
    assert not judgement.findings
    told_of = {lead.doubt: lead.message for lead in judgement.leads}
    assert told_of == {
        "products take longer": "3 reloads; the same in 1 other loop",
        "it has 120 VGPRs": "30 reloads",
    }


def test_a_rule_that_is_superseded_has_no_lead() -> None:
    report = kernel({"vgpr_count": 120}, [loop(count__scratch_load=3, count__mfma=0)])
    superior = rule(id="T002", name="superior", require="count.scratch_load < 2")
    doubtful = rule(worth=WORTH, superseded_by="[T002]")
    judgement = judge(pack(doubtful, superior), report)
    assert [f.rule for f in judgement.findings] == ["T002"]
    assert judgement.leads == ()
    both = judge(pack(doubtful, rule(id="T002", name="superior", worth=WORTH)), report)
    assert [lead.rule for lead in both.leads] == ["T002"]


def test_a_lead_supersedes_no_finding() -> None:
    report = kernel({"vgpr_count": 120}, [loop(count__scratch_load=3, count__mfma=0)])
    lead = rule(id="T002", name="superior", worth=WORTH)
    judgement = judge(pack(rule(superseded_by="[T002]"), lead), report)
    assert [f.rule for f in judgement.findings] == ["T001"]
    assert [f.rule for f in judgement.leads] == ["T002"]


@pytest.mark.parametrize(
    ("worth", "fault"),
    [
        ("[{that: count.mfna == 0, doubt: x}]", "unknown metric count.mfna"),
        ("[{that: count.mfma == 0, doubt: '{count.mfna}'}]", "unknown metric count.mfna"),
        ("[{that: count.mfma == 0}]", "missing required field `doubt`"),
        ("[{that: count.mfma, doubt: x}]", "this is a number, not a condition"),
    ],
)
def test_faults(worth: str, fault: str) -> None:
    with pytest.raises(PackError, match=fault):
        pack(rule(worth=worth))


@pytest.fixture(scope="module")
def report() -> Report:
    whole = kinspect.analyze(WIDE).report
    return replace(whole, kernels=tuple(k for k in whole.kernels if k.name == "adds_wide"))


def as_text(report: Report) -> str:
    stream = io.StringIO()
    text.write(report, stream)
    return stream.getvalue()


def as_agent(report: Report) -> str:
    stream = io.StringIO()
    agent.write(report, stream)
    return stream.getvalue()


def as_md(report: Report) -> str:
    stream = io.StringIO()
    md.write(report, stream)
    return stream.getvalue()


def as_html(report: Report) -> str:
    stream = io.StringIO()
    write_report(report, page_kernels(report.kernels), stream)
    return " ".join(lxml.html.fromstring(stream.getvalue()).itertext())


@pytest.mark.parametrize("write", [as_text, as_agent, as_md, as_html])
def test_formats(report: Report, write: Callable[[Report], str]) -> None:
    (lead,) = report.kernels[0].leads
    assert lead.rule == "KI088"
    assert "192 bytes a lane" in lead.doubt
    written = " ".join(write(report).split())
    for part in (lead.rule, lead.message, lead.doubt, "1 lead"):
        if (write, part) != (as_agent, "1 lead"):
            assert part in written


def test_json(report: Report) -> None:
    (lead,) = report.kernels[0].leads
    brief = json_brief.to_dict(report)["kernels"][0]
    assert [(f["rule"], f["doubt"]) for f in brief["leads"]] == [("KI088", lead.doubt)]
    stream = io.StringIO()
    json_write.write(report, stream)
    again = json_read.read(stream.getvalue(), "leads.json")
    assert again.kernels[0].leads == (replace(lead, lines=(), plural_message=""),)


def test_findings_leave_room_for_fewer_leads(report: Report) -> None:
    (lead,) = report.kernels[0].leads
    finding = replace(lead, doubt="")

    def number(findings: int, leads: int) -> int:
        return len(view.leads_told(with_all(report.kernels[0], findings, leads)))

    def with_all(kernel: KernelReport, findings: int, leads: int) -> KernelReport:
        return replace(kernel, findings=(finding,) * findings, leads=(lead,) * leads)

    assert [number(0, 5), number(1, 5), number(2, 1), number(3, 5), number(9, 5)] == [3, 2, 1, 0, 0]
    assert view.leads_heading(with_all(report.kernels[0], 1, 5)).startswith("2 of 5 leads")


def test_lint_does_not_tell_leads(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(WIDE), "--kernel", "adds_wide", "--format", "json"]) == 0
    (checked,) = json.loads(capsys.readouterr().out)["kernels"]
    assert checked["findings"] == []
