"""How often loops of the source go round: such as few workgroups tell of, and unrolled ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

SCRIPT = """\
import torch, triton, triton.language as tl

@triton.jit
def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr):
    rows, cols = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, N)
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BLOCK):
        ks = k + tl.arange(0, BLOCK)
        x = tl.load(a + rows[:, None] * K + ks[None, :])
        acc += tl.dot(x, tl.load(b + ks[:, None] * N + cols[None, :]))
    tl.store(c + rows[:, None] * N + cols[None, :], acc)

@triton.jit
def two_products(a, b, c, K: tl.constexpr, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr):
    rows, cols = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, N)
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BLOCK):
        ks = k + tl.arange(0, BLOCK)
        x = tl.load(a + rows[:, None] * K + ks[None, :])
        acc += tl.dot(x, tl.load(b + ks[:, None] * N + cols[None, :]))
    squares = tl.load(b + tl.arange(0, N)[:, None] * N + cols[None, :])
    tl.store(c + rows[:, None] * N + cols[None, :], tl.dot(acc.to(tl.float16), squares))

x = torch.empty((1, 1), dtype=torch.float16)
out = torch.empty((1, 1), dtype=torch.float32)
for length, waves in ((32, 1), (256, 2)):
    for stages in (1, 2):
        product[(200_000,)](
            x, x, out, length, M=16, N=32, BLOCK=32, num_stages=stages, num_warps=waves
        )
two_products[(38,)](x, x, out, K=128, M=16, N=32, BLOCK=32, num_stages=2)
"""


@pytest.fixture(scope="module")
def all_kernels(
    tmp_path_factory: pytest.TempPathFactory, shared_guests: None
) -> list[KernelReport]:
    pytest.importorskip("triton")
    script = Path(tmp_path_factory.mktemp("stored")) / "stored.py"
    script.write_text(SCRIPT)
    report = collect(Request((str(script),), ("gfx942",), passes=False))
    assert not report.errors
    return list(report.kernels)


@pytest.fixture(scope="module")
def kernels(all_kernels: list[KernelReport]) -> list[KernelReport]:
    """Those with one product."""
    return [kernel for kernel in all_kernels if kernel.name == "product"]


def test_a_loop_that_the_compiler_unrolled_has_no_trips_of_tiles(
    all_kernels: list[KernelReport],
) -> None:
    (kernel,) = (kernel for kernel in all_kernels if kernel.name == "two_products")
    assert not kernel.loops
    assert kernel.metrics["tile_trips"].value is None


def test_very_many_workgroups_tell_how_often_their_loop_goes_round(
    kernels: list[KernelReport],
) -> None:
    found = sorted(str(kernel.metrics["launch.iterations"].value) for kernel in kernels)
    assert found == ["0", "1", "7", "8"]
