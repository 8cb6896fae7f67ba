"""Where findings point: at instructions and expressions, on files that need no compiler."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kinspect.inspector.cli.group import cli
from kinspect.inspector.explain.code.reading import reading_of
from kinspect.inspector.explain.code.texts import texts_of
from kinspect.inspector.model import Finding, KernelReport
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.present.lint import Expressions
from kinspect.inspector.report import json_write
from kinspect.inspector.report.json_read import SavedReport

FIXTURES = Path(__file__).parent.parent / "rules" / "fixtures"


@cache
def kernels(file: str) -> dict[str, KernelReport]:
    return {kernel.name: kernel for kernel in collect(Request((str(FIXTURES / file),))).kernels}


def finding_of(file: str, kernel: str, rule: str) -> Finding:
    return next(fact for fact in kernels(file)[kernel].facts if fact.rule == rule)


@pytest.mark.parametrize(
    ("file", "kernel", "rule", "instruction"),
    [
        ("hip_addresses_gfx90a.s", "adds_planes", "KI092", "global_load_dword"),
        ("hip_beside_memory_gfx942.s", "polynomial_once_by_double", "KI084", "v_cvt_f64_f32"),
        ("hip_bfloats_gfx942.s", "rounded_sums", "KI086", "v_add3_u32"),
        ("hip_exchanges_gfx942.s", "maximum", "KI120", "global_atomic_cmpswap"),
        ("hip_limits_gfx942.s", "waits_beside_lds", "KI054", "global_load_dword"),
        ("hip_operands_gfx942.s", "an_element_each", "KI097", "ds_read2_b32"),
        ("hip_own_rows_gfx942.s", "counts_bytes", "KI124", "global_atomic_add"),
        ("hip_passes_gfx942.s", "normalised", "KI114", "global_load_dword"),
        ("hip_roots_gfx942.s", "distances", "KI109", "v_sqrt_f32"),
        ("loops_gfx942.s", "float32_operands", "KI083", "v_mfma_f32_32x32x2_f32"),
        ("loops_gfx942.s", "two_scales", "KI129", "v_mfma_f32_32x32x8_f16"),
        ("races_gfx942.s", "unordered", "KI050", "ds_read_b32"),
    ],
)
def test_code_without_debug_information(
    file: str, kernel: str, rule: str, instruction: str
) -> None:
    """The first of a finding's lines is an instruction that it is about, not a loop's label."""
    found = finding_of(file, kernel, rule)
    text = (FIXTURES / file).read_text().splitlines()
    assert text[found.isa_lines[0] - 1].strip().startswith(instruction)
    assert found.locations[0].line == found.isa_lines[0]


def test_columns_of_clangs_debug_information() -> None:
    found = finding_of("hip_passes_gfx942.s", "normalised", "KI114")
    places = [(at.file, at.line, at.column) for at in found.locations if at.kind == "source"]
    assert places == [("./passes.hip", 20, 35), ("./passes.hip", 17, 12)]


def test_figures_are_plain_texts() -> None:
    for name in ("hip_passes_gfx942.s", "hip_own_rows_gfx942.s"):
        for kernel in kernels(name).values():
            for metrics in (kernel.metrics, *(loop.metrics for loop in kernel.loops)):
                for metric in metrics.values():
                    value = metric.value
                    for item in value.values() if isinstance(value, dict) else (value,):
                        assert type(item) in (str, int, float, bool, type(None)), metric


def test_a_saved_report_has_positions_and_columns() -> None:
    report = collect(Request((str(FIXTURES / "hip_passes_gfx942.s"),)))
    kernel = report.kernels[0]
    document = json_write.to_dict(report)
    again, *_ = SavedReport.open(json.dumps(document), "r.json").report().kernels
    assert again.metrics["loads.passes"].positions == kernel.metrics["loads.passes"].positions
    assert again.findings[0].locations == kernel.findings[0].locations


def test_a_report_of_before_has_none() -> None:
    def without(value: Any) -> Any:
        if isinstance(value, dict):
            dropped = ("positions", *(("column",) if "kind" in value else ()))
            return {key: without(item) for key, item in value.items() if key not in dropped}
        return [without(item) for item in value] if isinstance(value, list) else value

    report = collect(Request((str(FIXTURES / "hip_passes_gfx942.s"),)))
    former = without(json_write.to_dict(report))
    kernel, *_ = SavedReport.open(json.dumps(former), "r.json").report().kernels
    assert {at.column for fact in kernel.facts for at in fact.locations} == {None}
    assert not any(metric.positions for metric in kernel.metrics.values())


def test_show_opens_what_a_finding_is_about() -> None:
    """Every finding that names instructions: the code that `kinspect show ID` prints has them."""
    from kinspect.inspector.cli.show import _lines_of_item
    from kinspect.inspector.explain.items import NamedItem

    opened = 0
    for name in ("hip_passes_gfx942.s", "hip_own_rows_gfx942.s", "hip_limits_gfx942.s"):
        for kernel in kernels(name).values():
            reading = reading_of(kernel, texts_of(kernel))
            for fact in kernel.facts:
                item = NamedItem("1", kernel, "2", findings=(fact,))
                numbers = {line.number for line in _lines_of_item(item, reading, None)}
                assert set(fact.isa_lines) <= numbers
                opened += bool(fact.isa_lines)
    assert opened > 30


def test_a_comment_at_the_loop_still_suppresses(tmp_path: Path) -> None:
    """Findings pointed there before they pointed at instructions."""
    file = tmp_path / "k.s"
    shutil.copy(FIXTURES / "hip_limits_gfx942.s", file)
    kernel = kernels("hip_limits_gfx942.s")["waits_beside_lds"]
    header = kernel.loops[0].header.line

    def lint() -> str:
        command = ("lint", str(file), "--kernel", kernel.name, "--select", "KI054")
        result = CliRunner().invoke(cli, [*command, "--fail-on", "never"])
        assert result.exit_code == 0, result.output
        return result.output

    assert "KI054" in lint()
    lines = file.read_text().splitlines()
    lines[header - 1] += " ; kinspect: ignore[KI054] it is short"
    file.write_text("\n".join(lines) + "\n")
    assert "1 suppressed" in lint()


@pytest.mark.parametrize(
    ("line", "column", "width"),
    [
        (1, 5, len("f(a) + b")),
        (1, 7, 1),
        (1, 12, 1),
        (1, 1, len("x = f(a) + b")),
        (2, 5, len("g(")),  # up to the end of the line
        (2, 1, len("y = g(")),
        (9, 1, 1),
    ],
)
def test_the_width_of_an_expression(
    line: int, column: int, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # files that data names are read below it alone
    file = tmp_path / "k.py"
    file.write_text("x = f(a) + b\ny = g(\n    1)\n")
    texts = {1: "x = f(a) + b", 2: "y = g("}
    assert Expressions().width(str(file), line, column, texts.get(line, "z")) == width


@pytest.mark.parametrize("text", ["x = = 1", "\0", "(" * 500, "", None])
def test_files_that_are_no_python(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "k.py"
    if text is not None:
        file.write_text(text)
    assert Expressions().width(str(file), 1, 1, "x = = 1") == 1
    assert Expressions().width(str(file.with_suffix(".hip")), 1, 1, "int x;") == 1
