"""`--emulate`: a few workgroups of each captured launch are executed while it is analysed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kinspect.inspector.capture.options import CaptureOptions
from kinspect.inspector.model import KernelReport, PassedMemory
from kinspect.inspector.model.recording import (
    Agent,
    KernelMatch,
    KernelProfile,
    KernelShape,
    Spread,
)
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions
from kinspect.inspector.pipeline.captured_launch import TILE, buffers_of
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.executing import Sample
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.profile.figures.executed import compared
from kinspect.inspector.report.json_read import SavedReport
from kinspect.inspector.report.json_write import kernel_dict

Tool = Callable[..., Any]

SCRIPT = """
import torch
import triton
import triton.language as tl


@triton.jit
def gemm_kernel(a_ptr, b_ptr, c_ptr, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    rows, cols, ks = tl.arange(0, BLOCK), tl.arange(0, BLOCK), tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + rows[:, None] * K + k + ks[None, :])
        b = tl.load(b_ptr + (k + ks)[:, None] * BLOCK + cols[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * BLOCK + cols[None, :], acc)


@triton.jit
def ragged_kernel(x_ptr, lengths_ptr, out_ptr, scale, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    total = 0.0
    for at in range(0, tl.load(lengths_ptr + pid)):
        total += tl.sum(tl.load(x_ptr + at * BLOCK + tl.arange(0, BLOCK)), 0)
    tl.store(out_ptr + pid, total * scale)


@triton.jit
def lengths_kernel(lengths_ptr):
    tl.store(lengths_ptr + tl.program_id(0), 3)


a = torch.randn(64, 256, device="cuda", dtype=torch.float16)
b = torch.randn(256, 64, device="cuda", dtype=torch.float16)
c = torch.empty(64, 64, device="cuda")
gemm_kernel[(1,)](a, b, c, 256, BLOCK=64, BLOCK_K=32, num_warps=4, num_stages=1)

x, out = torch.randn(16, 256, device="cuda"), torch.empty(4, device="cuda")
lengths = torch.tensor([3, 5, 7, 9], device="cuda", dtype=torch.int32)
ragged_kernel[(4,)](x, lengths, out, 2.5, BLOCK=256)
lengths_kernel[(4,)](lengths)
ragged_kernel[(4,)](x, lengths, out, 2.5, BLOCK=128)
"""


@pytest.fixture(scope="module")
def reports(
    tmp_path_factory: pytest.TempPathFactory, shared_guests: None
) -> tuple[KernelReport, ...]:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    script = tmp_path_factory.mktemp("emulated") / "script.py"
    script.write_text(SCRIPT)
    report = collect(
        Request(
            (str(script),),
            passes=False,
            capture=CaptureOptions(arguments=True),
            analysis=AnalysisOptions(sample=Sample()),
        )
    )
    assert not report.errors
    assert all(kernel.variant is None or kernel.variant.passed is None for kernel in report.kernels)
    return report.kernels


@pytest.fixture(scope="module")
def kernels(reports: tuple[KernelReport, ...]) -> list[Mapping[str, Any]]:
    return [json.loads(json.dumps(kernel_dict(kernel))) for kernel in reports]


def value(kernel: Mapping[str, Any], name: str) -> Any:
    metric = kernel["metrics"][f"emulated.{name}"]
    assert metric["origin"] == "emulated"
    return metric["value"]


def trips(kernel: Mapping[str, Any]) -> list[float]:
    metrics = [loop["metrics"].get("emulated.trips") for loop in kernel["loops"]]
    return [metric["value"] for metric in metrics if metric is not None]


def test_a_gemm_does_what_its_shape_says(kernels: list[Mapping[str, Any]]) -> None:
    kernel = next(kernel for kernel in kernels if kernel["name"] == "gemm_kernel")
    assert trips(kernel) == [256 / 32]
    assert value(kernel, "unique_read") == 2 * 2 * 64 * 256
    assert value(kernel, "unique_written") == 4 * 64 * 64
    assert value(kernel, "counter.SQ_INSTS_VALU_MFMA_MOPS_F16") * 512 == 2 * 64 * 64 * 256
    assert value(kernel, "flops") >= 2 * 64 * 64 * 256
    emulated = kernel["emulated"]
    assert (emulated["workgroups"], emulated["grid_workgroups"], emulated["waves"]) == (1, 1, 4)
    assert emulated["made_up"] == ["float16", "float16", "float32"]
    assert emulated["faults"] == []
    total = sum(line["executed"] for line in emulated["lines"])
    assert total == 4 * value(kernel, "instructions")


def test_what_integers_hold_decides_where_it_is_known(kernels: list[Mapping[str, Any]]) -> None:
    known, unknown = (kernel for kernel in kernels if kernel["name"] == "ragged_kernel")
    assert known["variant"]["constexprs"]["BLOCK"] == 256
    # LLVM unrolls by 4: of 5, 7 and 9 iterations 1, 1 and 2 run in that loop; 3, 1, 3, 1 are left.
    assert trips(known) == [1.333, 2.0]
    assert value(known, "unique_read") == 9 * 256 * 4
    assert value(known, "imbalance") > 1.2
    assert "int32" not in known["emulated"]["made_up"]
    # A kernel wrote them since: nobody knows them, and that is said.
    assert "int32" in unknown["emulated"]["made_up"]
    assert trips(unknown) == []


def test_the_report_is_read_back_as_it_was_written(kernels: list[Mapping[str, Any]]) -> None:
    document = {"schema_version": 1, "tool": {}, "target": "", "errors": [], "notes": []}
    text = json.dumps({**document, "kernels": kernels})
    for kernel, written in zip(
        SavedReport.open(text, "report.json").report().kernels, kernels, strict=True
    ):
        assert kernel.emulated is not None
        again = json.loads(json.dumps(kernel_dict(kernel)))
        assert again["emulated"] == written["emulated"]
        assert again["metrics"] == written["metrics"]


def test_code_alone_says_what_to_do_next(tool: Tool, small_asm: Path) -> None:
    done = tool("analyze", str(small_asm), "--emulate")
    assert "not emulated: code does not say how it is launched; kinspect emulate" in " ".join(
        done.stdout.split()
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "float8_e4m3fn"])
def test_made_up_numbers_fill_large_memory_and_stay_when_it_is_written(dtype: str) -> None:
    size = 5 * TILE + 100
    (buffer, other), made_up = buffers_of(
        [PassedMemory(0, size, dtype), PassedMemory(1 << 40, size, dtype)]
    )
    assert made_up == (dtype, dtype)
    before = buffer.data[:TILE].copy()
    assert len(np.unique(before)) > 20
    assert np.array_equal(buffer.data[4 * TILE : 5 * TILE], before)
    if dtype in ("float32", "float16", "float64"):
        numbers = before.view(dtype)
        assert np.isfinite(numbers).all()
        assert np.abs(numbers).max() <= 1
    buffer.data[:] = 0
    assert np.array_equal(other.data[:TILE], before)


def test_known_contents_are_taken_and_unknown_integers_are_0() -> None:
    memories = [
        PassedMemory(0, 8, "int32", np.array([4, 5], np.int32).tobytes()),
        PassedMemory(64, 1 << 34, "int64"),
    ]
    (known, unknown), made_up = buffers_of(memories)
    assert known.data[:8].view(np.int32).tolist() == [4, 5]
    assert made_up == ("int64",)
    assert unknown.data[[0, 1 << 33, (1 << 34) - 1]].tolist() == [0, 0, 0]


def test_a_recording_is_laid_beside_the_emulated_counters(
    reports: tuple[KernelReport, ...],
) -> None:
    """A recording of three times the grid, in which one counter counts in one of 8 XCCs alone."""
    report = next(report for report in reports if report.name == "gemm_kernel")

    def of_launch(name: str) -> float:
        return float(report.metrics[f"emulated.counter.{name}"].value)  # type: ignore[arg-type]

    recorded = {
        "SQ_INSTS_VALU": 3 * of_launch("SQ_INSTS_VALU"),
        "SQ_INSTS_LDS": 3 * of_launch("SQ_INSTS_LDS") / 8,
        "SQ_LDS_BANK_CONFLICT": 3 * of_launch("SQ_LDS_BANK_CONFLICT") + 5000,
        "SQ_INSTS_SALU": 0.0,
        "GRBM_GUI_ACTIVE": 1234.0,
    }
    shape = KernelShape("gemm_kernel", workgroup=(256, 1, 1), grid=(3 * 256, 1, 1))
    agent = Agent("1", arch="gfx942", xccs=8)
    counters = {n: Spread(1, v, v, v, v, v) for n, v in recorded.items()}
    kernel = KernelProfile(
        "gemm_kernel", "gemm_kernel", shape, agent, 1, 1, 0, "main", 1, None, counters, {}, (),
        KernelMatch("likely", (report.id,), ()),
    )  # fmt: skip
    both = {pair.counter: pair for pair in compared(kernel, report)}
    assert set(both) == set(recorded) - {"GRBM_GUI_ACTIVE"}
    assert (both["SQ_INSTS_VALU"].ratio, both["SQ_INSTS_VALU"].why) == (1.0, "")
    assert both["SQ_INSTS_LDS"].ratio == 1 / 8
    assert both["SQ_INSTS_LDS"].why == "as much as one XCC of 8 counts"
    assert "other waves" in both["SQ_LDS_BANK_CONFLICT"].why
    assert both["SQ_INSTS_SALU"].ratio == 0.0
    assert list(compared(kernel, None)) == []
