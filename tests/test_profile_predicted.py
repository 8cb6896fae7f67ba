"""What the timing model predicts beside what was measured: figures, and where lines part."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from kernel_times import kernel_time
from kinspect.inspector.formats import profile_json
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.model import (
    Instruction,
    InstructionTime,
    KernelReport,
    KernelTime,
    MeasuredLine,
    Stall,
)
from kinspect.inspector.model.recording import KernelMatch
from kinspect.inspector.present.profile import document
from kinspect.inspector.present.text import show
from kinspect.inspector.profile.predicted import parting, predicted
from msgspec.structs import replace
from profiles import ATTEND, kernel, measured, profile

Tool = Callable[..., Any]
ROOT = Path(__file__).parents[1]
GEMM = ROOT / "docs" / "examples" / "gemm.amdgcn"
ARGUMENTS = ", ".join([f"f16[{1 << 20}]=zeros"] * 3) + ", i32 1024"
SCHEMA = ROOT / "inspector" / "formats" / "profile.schema.json"
TIME = kernel_time(
    us=40.0, cycles=80_000.0,
    stalls=(Stall("memory", 0.7), Stall("issue", 0.2), Stall("launch", 0.06), Stall("tail", 0.04)),
    stalled=0.7,
    instructions=(
        InstructionTime(10, 0.42, 0.35, "memory"),
        InstructionTime(11, 0.3, 0.28, "barrier"),
        InstructionTime(12, 0.11),
        InstructionTime(14, 0.07, 0.07, "lds"),
    ),
)  # fmt: skip


def analysed(time: KernelTime | None = TIME, *lines: MeasuredLine) -> KernelReport:
    return KernelReport(
        id="a", name="attend", arch="gfx942", source=None, variant=None, artifacts={}, metrics={},
        loops=(), main_loop=None, memory_ops=(), waits=(), findings=(), notes=(), time=time,
        measured_lines=lines,
    )  # fmt: skip


def traced(line: int, stall: int, mnemonic: str = "s_waitcnt", hits: int = 4) -> MeasuredLine:
    return MeasuredLine(line, None, mnemonic, None, None, hits, stall + 16, stall, idle_cycles=4)


LINES = (
    traced(10, 600), traced(11, 100), traced(12, 0, "v_mov_b32"), traced(13, 300, "s_barrier"),
    traced(15, 0, "s_endpgm"), MeasuredLine(16, None, "s_nop", None, None, hits=0, stall_cycles=0),
)  # fmt: skip


def test_instructions_part_where_their_shares_differ_most() -> None:
    found = parting(analysed(TIME, *LINES))
    assert found is not None
    model, real = [50, 40, 0, 0, 10, 0], [60, 10, 0, 30, 0, 0]  # lines 10 to 15, %
    assert found.measure == "stall cycles"
    assert found.instructions == 6
    assert found.pearson == pytest.approx(np.corrcoef(model, real)[0, 1])
    assert found.same_percent == pytest.approx(50 + 10)
    assert [(row.line, row.reason) for row in found.lines[:2]] == [(11, "barrier"), (13, None)]
    assert [(round(row.predicted), round(row.measured)) for row in found.lines[:2]] == [
        (40, 10), (0, 30),
    ]  # fmt: skip


def test_samples_of_a_timer_find_what_issues_as_well() -> None:
    sampled = [MeasuredLine(n, None, "", None, None, samples=n) for n in (10, 11, 12)]
    found = parting(analysed(TIME, *sampled))
    assert found is not None
    assert found.measure == "samples"
    by_line = {row.line: row.predicted for row in found.lines}
    assert by_line[12] == pytest.approx(100 * 0.11 / 0.9)  # of the time within workgroups


def test_times_cycles_and_clocks_stand_side_by_side() -> None:
    metrics = (
        measured("measured.counter.GRBM_GUI_ACTIVE", 90_000.0, "cycles"),
        measured("measured.clock_mhz", 1500.0, "MHz"),
    )
    found = predicted(kernel(metrics=metrics), analysed(TIME, *LINES))
    assert found is not None
    assert {f.name: (f.predicted, f.measured, f.unit) for f in found.figures} == {
        "time": (40.0, 51.0, "us"),
        "cycles": (80_000.0, 90_000.0, "cycles"),
        "clock": (2000.0, 1500.0, "MHz"),
        # Two of eight workgroups at a time; 1,000 stalled, 16 + 4 more each, by four waves.
        "cycles of a wave": (20_000.0, (1000 + 5 * 20) / 4, "cycles"),
    }
    assert found.figures[0].ratio == pytest.approx(51 / 40)
    assert not found.notes


def test_another_launch_is_not_compared() -> None:
    other = kernel(replace(ATTEND, grid=(512, 1, 1)))
    found = predicted(other, analysed(TIME, *LINES))
    assert found is not None
    assert not found.figures
    assert "the recorded launch has 2 workgroups, the predicted one 2,048" in found.notes[0]
    assert predicted(other, analysed(None, *LINES)) is None


def test_why_there_is_no_predicted_time_is_said() -> None:
    match = KernelMatch("likely", ("a",), ())
    report = replace(analysed(None, *LINES), no_time="the rates of gfx1100 are not known")
    out = io.StringIO()
    show(document(profile(kernel(match=match), reports=(report,))), out)
    assert "no predicted time: the rates of gfx1100 are not known" in out.getvalue()


def test_json_holds_to_its_schema() -> None:
    match = KernelMatch("likely", ("a",), ())
    shown = profile(kernel(match=match), reports=(analysed(TIME, *LINES),))
    document = json.loads(json.dumps(profile_json.to_dict(shown)))
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    beside = document["kernels"][0]["predicted"]
    assert beside["figures"][0]["ratio"] == pytest.approx(51 / 40)
    assert beside["parting"]["lines"][0]["line"] == 11


@pytest.fixture
def recording(tmp_path: Path) -> tuple[Path, list[Instruction]]:
    """A trace of the GEMM: each wait costs ten cycles, the last one a thousand."""
    program = parse_text(GEMM.read_text(), "gemm.amdgcn")
    (function,) = program.kernels
    waits = [inst for inst in function.instructions if inst.cls == "wait"]
    with (tmp_path / "stats_ui_output_agent_1_dispatch_2.csv").open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(
            ["CodeObj", "Vaddr", "Instruction", "Hitcount", "Latency", "Stall", "Idle", "Source"]
        )
        table.writerow([1, 0, f"; {function.name}", 0, 0, 0, 0, ""])
        for number, inst in enumerate(function.instructions):
            stall = 1000 if inst is waits[-1] else 10 if inst in waits else 0
            text = f"{inst.mnemonic} {inst.operands}".rstrip()
            table.writerow([1, 4 * number, text, 8, stall + 32, stall, 0, ""])
    return tmp_path, waits


def test_a_trace_of_code_with_a_stated_launch(tool: Tool, recording: Any) -> None:
    folder, waits = recording
    run = tool(
        "profile", "import", folder, "--with", GEMM, "--arch", "gfx942", "--grid", "16,16",
        "--workgroup", "256", "--lds", "8192", "--args", ARGUMENTS,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "predicted beside measured stall cycles: " in run.stdout
    assert f"line {waits[-1].line} " in run.stdout.split("where they part", 1)[1]


def test_the_recorded_launch_counts_where_none_is_stated(tool: Tool, recording: Any) -> None:
    folder, waits = recording
    dispatch = {
        "Kind": "KERNEL_DISPATCH", "Agent_Id": "Agent 4", "Queue_Id": 1, "Stream_Id": 1,
        "Thread_Id": 9, "Dispatch_Id": 2, "Kernel_Id": 17, "Kernel_Name": "gemm",
        "Correlation_Id": 2, "Start_Timestamp": 1_000, "End_Timestamp": 31_000,
        "LDS_Block_Size": 8192, "Scratch_Size": 0,
        "Workgroup_Size_X": 256, "Workgroup_Size_Y": 1, "Workgroup_Size_Z": 1,
        "Grid_Size_X": 4096, "Grid_Size_Y": 16, "Grid_Size_Z": 1,
    }  # fmt: skip
    with (folder / "7_kernel_trace.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([dispatch.keys(), dispatch.values()])
    run = tool(
        "profile", "import", folder, "--with", GEMM, "--arch", "gfx942", "--clock", "1500",
        "--format", "json", "--args", ARGUMENTS,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    document = json.loads(run.stdout)
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    found, (report,) = document["kernels"][0]["predicted"], document["reports"]
    assert report["time"]["mhz"] == 1500
    assert report["time"]["workgroups"] == 16 * 16
    assert (found["figures"][0]["name"], found["figures"][0]["measured"]) == ("time", 30.0)
    stalls = {line["line"]: line["stall_cycles"] for line in report["measured_lines"]}
    model = {row["line"]: row.get("stalled", 0) for row in report["time"]["instructions"]}
    both = [
        (model.get(line, 0), stalls.get(line, 0))
        for line in stalls.keys() | {line for line, part in model.items() if part}
    ]
    assert len(stalls) > 250
    expected = np.corrcoef(*zip(*both, strict=True))[0, 1]
    assert found["parting"]["pearson"] == pytest.approx(expected)
    assert found["parting"]["lines"][0]["line"] == waits[-1].line
