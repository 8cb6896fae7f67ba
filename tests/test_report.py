"""Reports: golden files, the JSON schema, the way there and back."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.model import Artifact, KernelReport, Metric, Report
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.report import json_write as json_v1
from kinspect.inspector.report import saved, schema
from kinspect.inspector.report.json_read import SavedReport
from msgspec import Struct
from msgspec.structs import replace

HERE = Path(__file__).parent
SCHEMA = schema.report_schema()


@pytest.fixture
def tool(tool_in_process: Callable[..., Any]) -> Callable[..., Any]:
    return tool_in_process


def golden() -> ModuleType:
    spec = importlib.util.spec_from_file_location("regenerate", HERE / "golden" / "regenerate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def report(small_asm: Path) -> Report:
    return collect(Request((str(small_asm),)))


@pytest.mark.parametrize("name", ["small.json", "small.md", "small.txt"])
def test_golden(name: str) -> None:
    """Made by `python tests/golden/regenerate.py`; every figure follows from small_gfx942.s."""
    assert golden().reports()[name] == (HERE / "golden" / name).read_text()


@pytest.mark.parametrize("name", schema.texts())
def test_schemas_are_those_of_the_model(name: str) -> None:
    """Made by `python -m kinspect.inspector.report.schema`."""
    assert schema.texts()[name] == (schema.FOLDER / name).read_text()


class Described(Struct):
    """A struct.

    Args:
        width, height: of a tile, which
            may be cut.
        depht: no field.
    """

    width: int
    height: int
    depth: int


def test_a_meaning_without_its_field_is_an_error() -> None:
    with pytest.raises(ValueError, match="Described has no fields depht"):
        schema.field_meanings(Described)
    meanings = schema.field_meanings(KernelReport)
    assert meanings.keys() <= set(KernelReport.__struct_fields__)
    assert meanings


def test_the_report_keeps_its_schema(report: Report) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(json_v1.to_dict(report), SCHEMA)


def test_a_read_report_is_the_written_one(report: Report) -> None:
    text = json.dumps(json_v1.to_dict(report))
    assert json_v1.to_dict(SavedReport.open(text, "again").report()) == json.loads(text)


@pytest.mark.parametrize("place", ["fingerprint", "loop"])
def test_what_commands_name_is_no_command(report: Report, place: str) -> None:
    """A stranger's report: `kinspect show ID` is printed for agents, which run it."""
    data = json.loads(json.dumps(json_v1.to_dict(report)))
    if place == "fingerprint":
        finding = next(f for kernel in data["kernels"] for f in kernel["findings"])
        finding["fingerprint"] = "0;touch x;#"
    else:
        loop = next(loop for kernel in data["kernels"] for loop in kernel["loops"])
        loop["id"] = "L0;touch x;#"
    with pytest.raises(KinspectError, match=r"damaged report .*touch"):
        SavedReport.open(json.dumps(data), "evil.json").report()


def test_equal_figures_of_kernels_are_one_object_and_types_are_kept(report: Report) -> None:
    kernel = report.kernels[0]
    figures = {
        name: Metric(name, value, "", "derived")
        for name, value in {"a": 1, "b": True, "c": 1.0, "d": {"x": 1}, "e": None}.items()
    }
    kernels = tuple(replace(kernel, id=f"k{n}::k", metrics=figures) for n in range(2))
    text = json.dumps(json_v1.to_dict(replace(report, kernels=kernels)))
    first, second = (
        dict(kernel.metrics) for kernel in SavedReport.open(text, "again").report().kernels
    )
    assert first == figures
    for name in "abce":
        assert first[name] is second[name]
        assert type(first[name].value) is type(figures[name].value)


def test_figures_by_hand(report: Report) -> None:
    """Counted in small_gfx942.s with one's own eyes."""
    (kernel,) = report.kernels
    value = {name: metric.value for name, metric in kernel.metrics.items()}
    assert value["vgpr_count"] == 40
    assert value["agpr_count"] == 16
    assert value["vgpr_spill_count"] == 1
    assert value["scratch_bytes"] == 8
    assert value["lds_bytes"] == 4096
    assert value["waves_per_workgroup"] == 4
    assert value["instruction_count"] == 23
    (loop,) = kernel.loops
    per_iteration = {name: metric.value for name, metric in loop.metrics.items()}
    assert (loop.hot, loop.depth, kernel.main_loop) == (True, 1, loop.id)
    assert per_iteration["count.instructions"] == 13
    assert per_iteration["count.mfma"] == 1
    assert per_iteration["cycles.mfma"] == 32  # 32x32x8 f16 on gfx942, matrix calculator
    assert per_iteration["count.scratch_load"] == 1
    assert per_iteration["count.scratch_store"] == 1
    assert per_iteration["count.wait"] == 3
    assert per_iteration["count.full_wait"] == 3
    assert per_iteration["waits.vmcnt"] == 1
    assert per_iteration["waits.lgkmcnt"] == 2
    assert per_iteration["count.barrier"] == 1
    assert per_iteration["bytes.global_load"] == 16
    assert per_iteration["vector_bits.lds_read.min"] == 64
    assert per_iteration["vectorized.lds_write"] == 1.0
    assert per_iteration["vectorized.lds_read"] == 0.0
    # 40 VGPRs allow 512 // 40 = 12, capped at 8; LDS 16 workgroups; 8 waves = 8 workgroups of 4.
    assert value["occupancy.waves_per_eu"] == 8


def test_unknown_is_null_not_zero(tmp_path: Path, small_asm: Path) -> None:
    text = small_asm.read_text().replace(
        "group_segment_fixed_size 4096", "group_segment_fixed_size 0"
    )
    text = text.replace("group_segment_fixed_size: 4096", "group_segment_fixed_size: 0")
    path = tmp_path / "dynamic.s"
    path.write_text(text)
    (kernel,) = collect(Request((str(path),))).kernels
    assert kernel.metrics["lds_bytes"].value is None
    assert "--lds" in kernel.metrics["lds_bytes"].note
    assert kernel.metrics["occupancy.waves_per_eu"].value is None
    assert kernel.metrics["occupancy.by_vgpr"].value == 8


def test_save_and_load(tmp_path: Path, report: Report) -> None:
    path = tmp_path / "x.kinspect"
    saved.save(report, path)
    again = saved.opened(path, tmp_path / "cache").report()
    assert json_v1.to_dict(again) == json_v1.to_dict(report)


def test_saved_reports_are_targets(
    tool: Callable[..., Any], small_asm: Path, tmp_path: Path
) -> None:
    details = ("--format", "json", "--details")
    first = tool("analyze", small_asm, *details, "--save", "x.kinspect", "-o", "r.json")
    assert first.returncode == 0, first.stderr
    expected = json.loads((tmp_path / "r.json").read_text())["kernels"]
    for target in ("r.json", "x.kinspect"):
        done = tool(target, *details)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["kernels"] == expected


def test_kernels_of_an_older_analysis_are_analysed_again(
    report: Report, small_asm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures that the older analysis lacked are there; without the artifacts they cannot be."""
    monkeypatch.setenv("KINSPECT_CACHE_DIR", str(tmp_path / "cache"))
    text = small_asm.read_bytes()
    artifact = Artifact("amdgcn", hashlib.sha256(text).hexdigest(), len(text), small_asm)
    (kernel,) = report.kernels
    figures = {name: m for name, m in kernel.metrics.items() if name != "vgpr_count"}
    older = {**report.tool, "analysis": "1"}
    for artifacts, expected in (({"amdgcn": artifact}, kernel.metrics), ({}, figures)):
        path = tmp_path / f"{len(artifacts)}.kinspect"
        stale = replace(kernel, metrics=figures, artifacts=artifacts)
        saved.save(replace(report, tool=older, kernels=(stale,)), path)
        (renewed,) = collect(Request((str(path),))).kernels
        assert renewed.metrics == expected
        assert renewed.id == kernel.id


def test_a_saved_kernel_includes_nothing(
    report: Report, small_asm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id is data: what lies beside the file that it names is not read as its code."""
    monkeypatch.setenv("KINSPECT_CACHE_DIR", str(tmp_path / "cache"))
    private = tmp_path / "private.s"
    private.write_text("\tglobal_load_dwordx3 v[0:2], v[0:1], off\n")
    code = tmp_path / "k.s"
    code.write_text(small_asm.read_text().replace("\ts_endpgm", '.include "private.s"\n\ts_endpgm'))
    data = code.read_bytes()
    artifact = Artifact("amdgcn", hashlib.sha256(data).hexdigest(), len(data), code)
    (kernel,) = report.kernels
    stale = replace(kernel, id=f"{private}::small", artifacts={"amdgcn": artifact})
    older = {**report.tool, "analysis": "1"}
    path = tmp_path / "evil.kinspect"
    saved.save(replace(report, tool=older, kernels=(stale,)), path)
    (renewed,) = collect(Request((str(path),))).kernels
    assert [one.kind for one in renewed.unread] == ["include"]
    assert "global_load_dwordx3" not in {op.mnemonic for op in renewed.memory_ops}
