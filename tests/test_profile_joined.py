"""A traced run of a bundled kernel, from the files to text, JSON, HTML: stalls on their lines."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import lxml.html
import pytest
from att_files import OBJDUMP, Cost, listed, write_trace
from click.testing import CliRunner
from kinspect.inspector.cli.group import cli
from kinspect.inspector.model import KernelReport, WaitOp
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

pytestmark = pytest.mark.xdist_group("profile_joined")
ROOT = Path(__file__).parent.parent
TARGET = str(ROOT / "kernels" / "layernorm.py")
STALL = 7_000


@dataclass(frozen=True)
class Traced:
    """A run folder, and what was put into it."""

    run: Path
    report: KernelReport
    strict: WaitOp  # an over-strict wait, on which the stalls were put
    address: int


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    pytest.importorskip("triton")
    if OBJDUMP is None:
        pytest.skip("no llvm-objdump-22")
    request = Request((TARGET,), ("gfx942",), kernel="layernorm_kernel", passes=False)
    report, strict = next(
        (kernel, wait)
        for kernel in collect(request).kernels
        for wait in kernel.waits
        if wait.verdict == "over-strict" and wait.source is not None
    )
    code = listed(report.artifacts["hsaco"].path, report.name)
    address = _address(report, strict.line, [one.text for one in code], code)
    run = tmp_path_factory.mktemp("run")
    costs = {c.address: Cost(0) for c in code if c.mnemonic in ("s_nop", "s_code_end")}
    costs[address] = Cost(1, STALL)
    write_trace(run, report.name, code, costs, waves=2, code_object=3)
    shutil.copy(report.artifacts["hsaco"].path, run / "gfx942_code_object_id_3.out")
    return Traced(run, report, strict, address)


def _address(report: KernelReport, line: int, texts: list[str], code: list) -> int:  # type: ignore[type-arg]
    """The address of an assembly line, by counting instructions: independent of kinspect's."""
    inside, seen = False, 0
    for number, text in enumerate(report.artifacts["amdgcn"].path.read_text().split("\n"), 1):
        if text.startswith(f"{report.name}:"):
            inside = True
        instruction = re.match(r"\s+([a-z]\w+)\b", text.split(";")[0])
        if inside and instruction and not text.strip().startswith("."):
            if number == line:
                assert texts[seen].split()[0] == instruction[1]
                return int(code[seen].address)
            seen += 1
    raise AssertionError(line)


def ran(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["profile", "import", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def document(traced: Traced) -> dict:  # type: ignore[type-arg]
    return json.loads(  # type: ignore[no-any-return]
        ran(
            str(traced.run),
            "--with",
            TARGET,
            "--with",
            f"{TARGET}::layernorm_kernel",
            "--format",
            "json",
        )
    )


def test_the_stall_is_on_its_line_of_the_kernel_that_ran(
    traced: Traced,
    document: dict,  # type: ignore[type-arg]
) -> None:
    (kernel,) = document["kernels"]
    assert kernel["match"]["kernels"] == [traced.report.id]
    assert kernel["match"]["verdict"] == "exact"
    line = next(one for one in kernel["lines"] if one["line"] == traced.strict.line)
    assert line["stall_cycles"] == 2 * STALL
    assert line["address"] == traced.address
    source = traced.strict.source
    assert source is not None
    assert (line["source"]["file"], line["source"]["line"]) == (source.file, source.line)
    assert line["loop"] == traced.strict.loop


def test_the_report_has_it_as_measured_metrics_of_kernel_and_loop(
    traced: Traced,
    document: dict,  # type: ignore[type-arg]
) -> None:
    report = next(r for r in document["reports"] if r["id"] == traced.report.id)
    assert report["metrics"]["measured.stall_cycles"] == {
        "value": 2 * STALL, "unit": "cycles", "origin": "measured",
    }  # fmt: skip
    others = [r for r in document["reports"] if r["id"] != traced.report.id]
    assert others
    assert not any("measured.stall_cycles" in r["metrics"] for r in others)


def test_text_shows_the_stall_beside_the_verdict(traced: Traced) -> None:
    shown = ran(str(traced.run), "--with", TARGET)
    table = shown[shown.index("where it stalls") :]
    (row,) = [
        one for one in table.splitlines() if one.strip().startswith(f"line {traced.strict.line} ")
    ]
    assert "14,000" in row
    assert "over-strict wait" in " ".join(table.split())
    assert f"layernorm.py:{traced.strict.source.line}" in row  # type: ignore[union-attr]


def test_without_a_target_the_saved_code_object_is_analysed(traced: Traced) -> None:
    document = json.loads(ran(str(traced.run), "--format", "json"))
    (kernel,) = document["kernels"]
    assert kernel["match"]["verdict"] == "exact"
    stalled = [one for one in kernel["lines"] if one["stall_cycles"]]
    assert [(one["address"], one["stall_cycles"]) for one in stalled] == [
        (traced.address, 2 * STALL)
    ]


def test_html_has_it_too(traced: Traced, tmp_path: Path) -> None:
    out = tmp_path / "x.html"
    arguments = ["report", str(traced.run), "--with", TARGET, "-o", str(out)]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    said = re.sub(r"\s+", " ", " ".join(lxml.html.parse(str(out)).getroot().itertext()))
    stalls = said[said.index("Where it stalls (measured)") :]
    assert re.match(rf".{{0,200}}\b{traced.strict.line} 100\.0 14,000 s_waitcnt", stalls)


def test_a_saved_import_shows_the_stall_on_another_machine(
    traced: Traced, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = tmp_path / "x.kinspect"
    ran(str(traced.run), "--with", TARGET, "--save", str(saved))
    monkeypatch.setenv("KINSPECT_CACHE_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.chdir(tmp_path)
    arguments = ["analyze", saved.name, "--format", "json", "--details"]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    kernels = json.loads(result.stdout)["kernels"]
    (one,) = [k for k in kernels if "measured.stall_cycles" in k["metrics"]]
    assert one["metrics"]["measured.stall_cycles"]["value"] == 2 * STALL
    assert one["metrics"]["measured.stall_cycles"]["origin"] == "measured"
    lines = [m for m in one["measured_lines"] if m["stall_cycles"]]
    assert [(m["line"], m["stall_cycles"]) for m in lines] == [(traced.strict.line, 2 * STALL)]
    out = tmp_path / "x.html"
    arguments = ["report", saved.name, "-o", str(out)]
    assert CliRunner().invoke(cli, arguments, catch_exceptions=False).exit_code == 0
    said = re.sub(r"\s+", " ", " ".join(lxml.html.parse(str(out)).getroot().itertext()))
    stalls = said[said.index("Where it stalls (measured)") :]
    assert re.match(rf".{{0,200}}\b{traced.strict.line} 100\.0 14,000 s_waitcnt", stalls)
