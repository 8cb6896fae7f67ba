"""`analyze --format json` without --details: at most 20 KB a kernel, whatever it is."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import kinspect
import pytest
from kinspect.inspector.cli.main import main
from kinspect.inspector.model import KernelReport, Metric, Report
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.report import json_brief, json_write, saved, schema
from msgspec.structs import replace

# what it compiles is made once
pytestmark = [pytest.mark.xdist_group("report_brief"), pytest.mark.usefixtures("shared_guests")]

HERE = Path(__file__).parent
SMALL = HERE / "data" / "small_gfx942.s"
SCHEMA = schema.brief_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@pytest.fixture(scope="module")
def small() -> Report:
    return collect(Request((str(SMALL),)))


@pytest.fixture(scope="module")
def compiled() -> Report:
    """A kernel with spills, hundreds of accesses and two hot loops among them."""
    pytest.importorskip("triton")
    kernel = HERE.parent / "kernels" / "fused_attn_transv.py"
    cases = ("d256_128x32", "d128_256x128", "d64_causal_128x64")
    targets = tuple(f"{kernel}::*[{case}]" for case in cases)
    return collect(Request(targets, ("gfx942",), passes=False))


def written(report: Report) -> tuple[dict[str, Any], list[str]]:
    """The document, and the text of each kernel."""
    stream = io.StringIO()
    json_brief.write(report, stream)
    text = stream.getvalue()
    document = json.loads(text)
    VALIDATOR.validate(document)
    kernels = text.partition('"kernels":[\n')[2].removesuffix("\n]}\n").split(",\n")
    return document, kernels if document["kernels"] else []


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_real_kernels_fit(small: Report, compiled: Report) -> None:
    for report in (small, compiled):
        document, texts = written(report)
        assert len(texts) == len(report.kernels) > 0
        assert max(len(text.encode()) for text in texts) <= json_brief.MOST_BYTES
        assert document == json_brief.to_dict(report)
    assert any(len(json.dumps(json_write.kernel_dict(k))) > 100_000 for k in compiled.kernels)


def test_figures_are_those_of_the_whole_report(compiled: Report) -> None:
    document, _ = written(compiled)
    for brief, kernel in zip(document["kernels"], compiled.kernels, strict=True):
        whole = json.loads(json.dumps(json_write.kernel_dict(kernel)))
        assert brief["variant"].items() <= whole["variant"].items()
        check_metrics(brief["metrics"], whole["metrics"])
        loops = {loop["id"]: loop for loop in whole["loops"]}
        assert brief["loops"][0]["id"] == whole["main_loop"]
        assert "metrics" in brief["loops"][0]
        for loop in brief["loops"]:
            assert loop["lines"] == loops[loop["id"]]["lines"]
            if "metrics" in loop:
                check_metrics(loop["metrics"], loops[loop["id"]]["metrics"])
        for finding, wide in zip(brief["findings"], whole["findings"], strict=False):
            assert finding["fingerprint"] == wide["fingerprint"]
            assert finding["evidence"] == wide["evidence"]
            assert finding["locations"][0] == wide["locations"][0]
        for name in ("memory_ops", "waits", "artifacts", "accesses"):
            assert name not in brief


def check_metrics(brief: dict[str, Any], whole: dict[str, Any]) -> None:
    """What is there is the same; what is not is a count of 0, or a mapping."""
    for name, metric in whole.items():
        value = metric["value"]
        if name not in brief:
            assert isinstance(value, dict) or (value == 0 and "." in name), name
            continue
        assert brief[name]["value"] == value
        assert brief[name].get("origin", metric["origin"]) == metric["origin"]
    for name in ("vgpr_count", "vgpr_spill_count", "lds_bytes"):
        assert (name in brief) == (name in whole)
    assert brief.keys() <= whole.keys()


def test_unknown_stays_null(small: Report) -> None:
    (kernel,) = small.kernels
    metric = Metric("occupancy.waves_per_eu", None, "waves", "derived", "the launch is unknown")
    changed = replace(kernel, metrics={**kernel.metrics, metric.name: metric})
    document, _ = written(replace(small, kernels=(changed,)))
    assert document["kernels"][0]["metrics"][metric.name] == {"value": None, "unit": "waves"}


def fat(kernel: KernelReport, **changes: int) -> KernelReport:
    """A kernel with this many of something."""
    finding, loop = kernel.findings[0], kernel.loops[0]
    several = {
        "findings": lambda n: {"findings": (finding,) * n},
        "loops": lambda n: {"loops": tuple(replace(loop, id=f"L{i}") for i in range(n))},
        "notes": lambda n: {"notes": ("a note on something “else”",) * n},
        "constexprs": lambda n: {
            "variant": kernel.variant
            and replace(kernel.variant, constexprs={f"BLOCK_{i}": i for i in range(n)})
        },
        "name": lambda n: {"name": "k" * n, "id": f"x.s::{'k' * n}"},
    }
    for name, number in changes.items():
        kernel = replace(kernel, **several[name](number))
    return kernel


@pytest.mark.parametrize(
    ("changes", "left_out"),
    [
        ({"findings": 200}, {"findings"}),
        ({"loops": 300}, {"loops", "metrics_of_loops"}),
        ({"notes": 200}, {"notes"}),
        ({"constexprs": 900}, {"variant"}),
        (
            {"findings": 200, "loops": 300, "notes": 200, "constexprs": 900, "name": 2500},
            {"findings", "loops", "metrics_of_loops", "notes", "variant"},
        ),
    ],
)
def test_what_does_not_fit_is_counted(
    changes: dict[str, int], left_out: set[str], compiled: Report
) -> None:
    kernel = fat(compiled.kernels[0], **changes)
    document, (text,) = written(replace(compiled, kernels=(kernel,)))
    assert len(text.encode()) <= json_brief.MOST_BYTES
    (brief,) = document["kernels"]
    assert left_out <= brief["left_out"].keys()
    for name in left_out & {"findings", "loops", "notes"}:
        assert brief["left_out"][name] + len(brief[name]) == changes[name]
        assert brief[name]
    if "constexprs" in changes:
        assert brief["left_out"]["variant"] == ["constexprs"]
        assert "constexprs" not in brief["variant"]


# --------------------------------------------------------------------------- reading


def test_a_report_without_details_is_no_target(
    small: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / "brief.json").open("w") as stream:
        json_brief.write(small, stream)
    brief = str(tmp_path / "brief.json")
    for command in (
        ["analyze", brief],
        ["lint", brief],
        ["diff", brief, str(SMALL)],
        ["show", brief],
    ):
        assert main(command) == 2
        line = capsys.readouterr().err
        assert "a report without details; make it again with `kinspect analyze" in line
    with pytest.raises(kinspect.KinspectError, match="without details"):
        kinspect.load(brief)


def test_reports_of_version_1_are_read(small: Report, tmp_path: Path) -> None:
    """Version 2 is version 1 with one more key."""
    document = json_write.to_dict(small)
    assert (document["schema_version"], document["details"]) == (2, True)
    del document["details"]
    old = {**document, "schema_version": 1}
    (tmp_path / "old.json").write_text(json.dumps(old))
    again = json_write.to_dict(kinspect.load(tmp_path / "old.json").report)
    assert again["kernels"] == document["kernels"]


def test_archives_and_the_api_keep_everything(small: Report, tmp_path: Path) -> None:
    saved.save(small, tmp_path / "x.kinspect")
    assert kinspect.load(tmp_path / "x.kinspect").report.kernels[0].memory_ops
    analysis = kinspect.Analysis(small)
    assert analysis.to_dict()["kernels"][0]["memory_ops"]
    assert analysis.to_dict(details=False) == json_brief.to_dict(small)


def test_the_command(tool_in_process: Callable[..., Any], tmp_path: Path) -> None:
    tool = tool_in_process
    assert tool("analyze", SMALL, "--format", "json", "-o", "brief.json").returncode == 0
    brief = json.loads((tmp_path / "brief.json").read_text())
    assert (brief["schema_version"], brief["details"]) == (2, False)
    whole = tool("analyze", SMALL, "--format", "json", "--details", "-o", "whole.json")
    assert whole.returncode == 0
    assert tool("diff", "whole.json", SMALL).returncode == 0
    assert tool("lint", "whole.json", "--fail-on", "never").returncode == 0


def test_a_run_without_kernels_is_a_document() -> None:
    document, _ = written(Report("t", {"name": "kinspect", "version": "1"}, (), ()))
    assert document["kernels"] == []
