"""Published regressions between releases of Triton: which layer is to blame.

Each needs both releases: `KINSPECT_TRITONS=3.5=/path/to/python:3.6=... pytest` this file. The
kernels are the smallest that show what was published; none is the published one.
"""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

import pytest
from blame_kernels import GEMM
from kinspect.inspector.compare.blame.blamed_layers import COMPILE_SECONDS, Blame
from kinspect.inspector.compare.blame.swaps import blame
from kinspect.inspector.compile.tritons import known_tritons
from kinspect.inspector.pipeline.jobs import Request

pytestmark = pytest.mark.slow

PRODUCT = GEMM.replace("num_warps=4", "num_warps=4, num_stages=3")
HINTED = """
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def doubled(x, out, stride, WIDTH: tl.constexpr):
        offsets = tl.program_id(0) * stride + tl.arange(0, WIDTH)
        # The stride's divisibility by 8 is not passed on to Triton: the hint states it.
        offsets = tl.max_contiguous(tl.multiple_of(offsets, 8), 8)
        tl.store(out + offsets, tl.load(x + offsets) * 2)

    x = torch.empty((4096, 4104), dtype=torch.float16, device="cuda")
    doubled[(4096,)](x, x, 4104, 2048)
"""
SCALED = """
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def scaled(a, scale_a, b, scale_b, c, K, M: tl.constexpr, BK: tl.constexpr):
        side = tl.arange(0, M)
        inner = tl.arange(0, BK)
        block = tl.arange(0, BK // 32)
        total = tl.zeros((M, M), tl.float32)
        for k in range(0, K, BK):
            left = tl.load(a + side[:, None] * K + k + inner[None, :])
            right = tl.load(b + (k + inner[:, None]) * M + side[None, :])
            at = side[:, None] * (K // 32) + k // 32 + block[None, :]
            left_scale, right_scale = tl.load(scale_a + at), tl.load(scale_b + at)
            total = tl.dot_scaled(left, left_scale, "e4m3", right, right_scale, "e4m3", total)
        tl.store(c + side[:, None] * M + side[None, :], total)

    a = torch.empty((64, 4096), dtype=torch.float8_e4m3fn, device="cuda")
    s = torch.empty((64, 128), dtype=torch.uint8, device="cuda")
    c = torch.empty((64, 64), dtype=torch.float32, device="cuda")
    scaled[(1,)](a, s, a, s, c, 4096, 64, 64, num_warps=4)
"""
SELECTED = """
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def selected(x, out, WIDTH: tl.constexpr):
        at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
        v = tl.load(x + at)
        tl.store(out + at, tl.where(v > 0, v * v + 1, v) * tl.load(x + at + WIDTH))

    x = torch.empty((4096 * 4096,), dtype=torch.float16, device="cuda")
    selected[(4096,)](x, x, 2048)
"""


def _blame(folder: Path, kernel: str, arch: str, versions: tuple[str, str], metric: str) -> Blame:
    labels = {label[:3]: label for label in known_tritons()}
    if not set(versions) <= labels.keys():
        pytest.skip(f"needs Triton {' and '.join(versions)}, see KINSPECT_TRITONS")
    path = folder / "kernel.py"
    path.write_text(textwrap.dedent(kernel))
    request = Request((str(path),), (arch,))
    return blame(request, (labels[versions[0]], labels[versions[1]]), metric)


def _ends(result: Blame, metric: str) -> tuple[float, float]:
    return result.steps[0].metrics[metric], result.steps[-1].metrics[metric]


def test_spills_of_3_7_are_the_code_generator_s() -> None:
    # triton-lang/triton 11249, ROCm/aiter 4137: attention spills on gfx950 since 3.7.
    labels = {label[:3]: label for label in known_tritons()}
    if not {"3.6", "3.7"} <= labels.keys():
        pytest.skip("needs Triton 3.6 and 3.7, see KINSPECT_TRITONS")
    path = Path(__file__).parents[1] / "kernels" / "flash_attn.py"
    request = Request((str(path),), ("gfx950",), "*d256_causal_128x64*")
    result = blame(request, (labels["3.6"], labels["3.7"]), "vgpr_spill_count")
    assert result.verdict.layers == ("llvm",)
    assert result.verdict.share is not None
    assert result.verdict.share > 0.9
    first, last = _ends(result, "vgpr_spill_count")
    assert last > 4 * first


@pytest.mark.parametrize("versions", [("3.7", "3.8"), ("3.6", "3.9")])
def test_lds_of_3_8_grows_by_the_default_of_asynchronous_copies(
    versions: tuple[str, str], tmp_path: Path
) -> None:
    # triton-lang/triton 9087: on by default on gfx950; meta-pytorch/tritonbench 765 reports it.
    result = _blame(tmp_path, PRODUCT, "gfx950", versions, "lds_bytes")
    assert _ends(result, "lds_bytes") == (65536, 102064)
    verdict = result.verdict
    assert verdict.layers == ("option_default",)
    assert verdict.share == 1
    assert verdict.options == {"TRITON_HIP_USE_ASYNC_COPY": (False, True)}
    assert verdict.pass_name == "tritonamdgpu-pipeline"


def test_waits_of_3_5_behind_copies_into_lds_are_the_code_generator_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # triton-lang/triton 8146: vmcnt(0) at barriers after the bump of LLVM, with copies into LDS.
    linker = shutil.which("ld.lld") or shutil.which("ld.lld-22")
    if linker is None:
        pytest.skip("Triton 3.4 needs an external ld.lld")
    monkeypatch.setenv("TRITON_HIP_LLD_PATH", linker)
    monkeypatch.setenv("TRITON_HIP_USE_ASYNC_COPY", "1")
    result = _blame(tmp_path, PRODUCT, "gfx950", ("3.4", "3.5"), "full_waits.vmcnt")
    assert _ends(result, "full_waits.vmcnt") == (1, 4)
    assert result.verdict.layers == ("llvm",)
    assert result.verdict.share == pytest.approx(2 / 3)


def test_loads_of_3_6_narrow_by_the_default_of_buffer_operations(tmp_path: Path) -> None:
    # triton-lang/triton 9089: hints are lost as accesses become buffer operations.
    metric = "vector_bits.global_load.max"
    result = _blame(tmp_path, HINTED, "gfx942", ("3.5", "3.6"), metric)
    assert _ends(result, metric) == (128, 16)
    verdict = result.verdict
    assert verdict.layers == ("option_default",)
    assert verdict.options == {"AMDGCN_USE_BUFFER_OPS": (False, True)}
    assert "tritonamdgpu-convert-buffer-ops" in verdict.only_right


def test_the_compile_time_of_3_9_is_that_of_one_pass(tmp_path: Path) -> None:
    # triton-lang/triton 11431 and 11468: barriers by the bytes that each access may touch.
    result = _blame(tmp_path, PRODUCT, "gfx950", ("3.8", "3.9"), COMPILE_SECONDS)
    first, last = _ends(result, COMPILE_SECONDS)
    assert last > 1.5 * first
    assert result.verdict.layers == ("llvm_ir",)
    slow = result.verdict.slow_pass
    assert slow is not None
    assert (slow.level, slow.name) == ("mlir", "TritonAMDGPUMembar")
    assert slow.after > 0.1 > slow.before


def test_waits_of_3_9_with_scales_on_gfx11_are_fewer_by_one_pass(tmp_path: Path) -> None:
    # triton-lang/triton 11629: other code for `dot_scaled` where there is no instruction for it.
    result = _blame(tmp_path, SCALED, "gfx1100", ("3.8", "3.9"), "count.full_wait")
    first, last = _ends(result, "count.full_wait")
    assert last < first
    verdict = result.verdict
    assert (verdict.layers, verdict.bisected) == (("ttgir",), True)
    assert verdict.pass_name == "tritonamdgpu-accelerate-matmul"


def test_instructions_of_3_9_on_gfx11_change_by_a_target_feature(tmp_path: Path) -> None:
    # triton-lang/triton 11188: halves of registers are operands on gfx11 again.
    result = _blame(tmp_path, SELECTED, "gfx1100", ("3.8", "3.9"), "instruction_count")
    assert result.verdict.layers == ("llvm_flag",)
    assert result.verdict.options == {"features": ("-real-true16", "")}
