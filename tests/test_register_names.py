"""The names of the values in registers, on kernels as Triton compiles them."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kept_compiles import ROOT, collect_kept
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions, Context
from kinspect.inspector.pipeline.jobs import Request

pytestmark = pytest.mark.usefixtures("shared_guests")

NAMED = AnalysisOptions(races=False)

SCRIPT = """
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def rotated(base, rows, stride, cos_ptr, sin_ptr, HALF: tl.constexpr):
        offs = tl.arange(0, HALF)
        ptrs = base + rows[:, None] * stride + offs[None, :]
        first = tl.load(ptrs).to(tl.float32)
        second = tl.load(ptrs + HALF).to(tl.float32)
        angles = rows[:, None] * HALF + offs[None, :]
        cos = tl.load(cos_ptr + angles).to(tl.float32)
        sin = tl.load(sin_ptr + angles).to(tl.float32)
        low, high = first * cos - second * sin, second * cos + first * sin
        return low.to(tl.bfloat16), high.to(tl.bfloat16)

    @triton.jit
    def scores_kernel(q_ptr, k_ptr, cos_ptr, sin_ptr, out_ptr, end, HALF: tl.constexpr):
        heads, halves = tl.arange(0, 16), tl.arange(0, HALF)
        q_ptrs = q_ptr + heads[:, None] * 2 * HALF + halves[None, :]
        q_first = tl.load(q_ptrs)
        q_second = tl.load(q_ptrs + HALF)
        best = tl.full((16,), float("-inf"), tl.float32)
        for start in range(0, end, 32):
            tokens = start + tl.arange(0, 32)
            k_first, k_second = rotated(k_ptr, tokens, 2 * HALF, cos_ptr, sin_ptr, HALF)
            scores = tl.dot(q_first, tl.trans(k_first))
            scores = tl.dot(q_second, tl.trans(k_second), scores)
            best = tl.maximum(best, tl.max(scores, 1))
        tl.store(out_ptr + heads, best)

    @triton.jit
    def unpacked_kernel(a_ptr, b_ptr, scale_ptr, zero_ptr, c_ptr, K, N):
        rows, inner = tl.arange(0, 64), tl.arange(0, 64)
        cols = tl.program_id(0) * 128 + tl.arange(0, 128)
        shifter = (inner % 8) * 4
        zero_shifter = (cols % 8) * 4
        acc = tl.zeros((64, 128), tl.float32)
        for start in range(0, K, 64):
            a = tl.load(a_ptr + rows[:, None] * K + start + inner[None, :])
            packed = tl.load(b_ptr + ((start + inner[:, None]) // 8) * N + cols[None, :])
            scale = tl.load(scale_ptr + start // 64 * N + cols)
            zeros = tl.load(zero_ptr + start // 64 * (N // 8) + cols // 8)
            zeros = (zeros >> zero_shifter) & 15
            weight = ((packed >> shifter[:, None]) & 15) - zeros[None, :]
            acc += tl.dot(a, (weight * scale[None, :]).to(tl.float16))
        tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc)

    @triton.jit
    def gathered_kernel(q_ptr, k_ptr, index_ptr, out_ptr, n, D: tl.constexpr):
        heads, inner = tl.arange(0, 64), tl.arange(0, D)
        q = tl.load(q_ptr + heads[:, None] * D + inner[None, :])
        acc = tl.zeros((64, D), tl.float32)
        for start in range(0, n, 16):
            index = tl.load(index_ptr + start + tl.arange(0, 16))
            k = tl.load(k_ptr + index[:, None] * D + inner[None, :])
            s = tl.dot(q, tl.trans(k))
            acc += tl.dot(tl.exp(s).to(tl.bfloat16), k)
        tl.store(out_ptr + heads[:, None] * D + inner[None, :], acc)

    @triton.jit
    def weighted_kernel(x_ptr, gain_ptr, b_ptr, out_ptr, K, N):
        rows, inner = tl.arange(0, 64), tl.arange(0, 64)
        cols = tl.program_id(0) * 128 + tl.arange(0, 128)
        acc = tl.zeros((64, 128), tl.float32)
        square = tl.zeros((64, 64), tl.float32)
        for start in range(0, K, 64):
            x = tl.load(x_ptr + rows[:, None] * K + start + inner[None, :])
            square += x.to(tl.float32) * x
            gain = tl.load(gain_ptr + start + inner[None, :])
            x = x * gain
            b = tl.load(b_ptr + (start + inner[:, None]) * N + cols[None, :])
            acc += tl.dot(x, b)
        acc = acc * tl.sum(square, 1)[:, None]
        tl.store(out_ptr + rows[:, None] * N + cols[None, :], acc)

    def T(*shape, dtype=torch.bfloat16):
        return torch.empty(shape, device="cuda", dtype=dtype)

    scores_kernel[(1,)](
        T(16, 64), T(4096, 64), T(4096, 32), T(4096, 32), T(16, dtype=torch.float32), 4096, HALF=32
    )
    unpacked_kernel[(32,)](
        T(64, 4096, dtype=torch.float16), T(512, 4096, dtype=torch.int32),
        T(64, 4096, dtype=torch.float16), T(64, 512, dtype=torch.int32),
        T(64, 4096, dtype=torch.float32), 4096, 4096,
    )
    gathered_kernel[(1,)](
        T(64, 512), T(8192, 512), T(512, dtype=torch.int32), T(64, 512, dtype=torch.float32),
        512, D=512, num_warps=4, num_stages=2,
    )
    weighted_kernel[(32,)](
        T(64, 4096, dtype=torch.float16), T(4096, dtype=torch.float16),
        T(4096, 4096, dtype=torch.float16), T(64, 4096, dtype=torch.float32), 4096, 4096,
        num_warps=4, num_stages=2,
    )
"""


def vgprs(values: list[dict[str, Any]], name: str, *kinds: str) -> int:
    return sum(
        value["vgprs"] for value in values if value["name"] == name and value["kind"] in kinds
    )


@pytest.fixture
def tool(tool_in_process: Callable[..., Any]) -> Callable[..., Any]:
    return tool_in_process


def test_values_without_a_position_are_named_by_what_takes_them(
    tool: Callable[..., Any], tmp_path: Path
) -> None:
    pytest.importorskip("triton")
    path = tmp_path / "names.py"
    path.write_text(textwrap.dedent(SCRIPT))
    done = tool("registers", str(path), "--arch", "gfx950", "--format", "json")
    assert done.returncode == 0, done.stderr
    kernels = json.loads(done.stdout)["kernels"]
    held = {kernel["name"]: kernel["peak"]["values"] for kernel in kernels}
    # 16 × 32 bf16 for 64 lanes; the reads from LDS of one of them have no position.
    for name in ("q_first", "q_second"):
        assert vgprs(held["scores_kernel"], name, "operand") == 4, name
    # 4 columns for each lane: LLVM moved the multiplication by 4 to a place without position.
    # What is shifted by it has the name of the result.
    assert vgprs(held["unpacked_kernel"], "zero_shifter", "value") == 4
    assert vgprs(held["unpacked_kernel"], "shifter", "value") == 1
    # The loop carries k from the iteration before; its argument has no name, what it yields has.
    assert vgprs(held["gathered_kernel"], "k", "loaded", "operand") == 20
    assert vgprs(held["gathered_kernel"], "k", "address") == 24
    assert vgprs(held["gathered_kernel"], "s", "operand", "address") == 0
    # Both x and gain go through LDS at the position of their product.
    assert vgprs(held["weighted_kernel"], "x", "operand") == 32
    assert vgprs(held["weighted_kernel"], "x", "address") >= 12
    assert vgprs(held["weighted_kernel"], "gain", "operand") == 0


def compiled(name: str, case: str, arch: str) -> KernelReport:
    pytest.importorskip("triton")
    target = str(ROOT / "kernels" / f"{name}.py")
    (kernel,) = collect_kept(
        Request((target,), archs=(arch,), kernel=case, passes=False, analysis=NAMED)
    ).kernels
    return kernel


def counted(kernel: KernelReport) -> Counter[tuple[str | None, str]]:
    """(name, kind) -> VGPRs and AGPRs at the peak."""
    peak = kernel.live_peak
    assert peak is not None
    counts: Counter[tuple[str | None, str]] = Counter()
    for value in peak.values:
        counts[value.name, value.kind] += value.vgprs + value.agprs
    return counts


def test_of_several_values_at_one_position_each_has_its_own_name() -> None:
    """Four tiles go through LDS at the position of the transposition that one dot takes."""
    counts = counted(compiled("mla_decode", "bf16_16x32", "gfx950"))
    for name in ("first", "second", "cos", "sin"):
        registers = sum(count for (other, _), count in counts.items() if other == name)
        # 32 × 32 bf16, of some all and of some a half as f32 already.
        assert 8 <= registers <= 16, (name, counts)


def test_operands_and_addresses_have_names_without_positions() -> None:
    """As where LLVM merged reads from LDS or loads, and gave the result line 0."""
    kernel = compiled("fp8_blockscale_gemm", "ocp_row_128x128x128", "gfx950")
    text = kernel.artifacts["amdgcn"].path.read_text()
    nowhere, moved = re.subn(
        r"(\t\.loc\t\d+ )8[3-7] \d+ +; \S+", r"\g<1>0 0 ; fp8_blockscale_gemm.py:0", text
    )
    assert moved > 20
    (unplaced,) = analyze_text(
        nowhere,
        Context(
            "k.s",
            ttgir=kernel.artifacts["ttgir"].path.read_text(),
            metadata=json.loads(kernel.artifacts["metadata"].path.read_text()),
        ),
    )
    before, after = counted(kernel), counted(unplaced)
    for name in ("a", "b"):
        assert before[name, "operand"] == after[name, "operand"] == 32
    assert after["a_scale", "address"] == 4
