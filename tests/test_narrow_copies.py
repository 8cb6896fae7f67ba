"""A second copy of a tile that two dots read in both orders: whether it fits, as compiled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

pytestmark = pytest.mark.usefixtures("shared_guests")

SCRIPT = """\
import torch, triton, triton.language as tl

@triton.jit
def folded(a, b, t, c, d, K, COPY: tl.constexpr, N: tl.constexpr):
    rows, cols, ks = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, N)
    x = tl.load(a + rows[:, None] * 64 + cols[None, :])
    wide = tl.zeros((64, N), tl.float32)
    small = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, N):
        tile = tl.load(b + (k + ks)[:, None] * 64 + cols[None, :])
        wide = tl.dot(x, tile.T, wide)
        if COPY:
            again = tl.load(t + cols[None, :] * K + (k + ks)[:, None])
        else:
            again = tile
        weights = tl.load(c + rows[:, None] * K + (k + ks)[None, :])
        small = tl.dot(weights, again, small)
    tl.store(d + rows[:, None] * N + ks[None, :], wide)
    tl.store(d + 64 * N + rows[:, None] * 64 + cols[None, :], small)

def half(*shape):
    return torch.zeros(shape, dtype=torch.float16)

def launch(copy, stages, n):
    tiles = half(64, 64), half(4096, 64), half(64, 4096), half(64, 4096)
    folded[(1,)](*tiles, torch.zeros(64 * n + 4096), 4096, copy, n, num_stages=stages)

for copy in (False, True):
    for stages in (2, 3):
        launch(copy, stages, 64)
for copy, stages, n in ((False, 3, 128), (True, 2, 128), (True, 3, 128), (False, 2, 256)):
    launch(copy, stages, n)
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> list[KernelReport]:
    pytest.importorskip("triton")
    script = Path(tmp_path_factory.mktemp("copies")) / "copies.py"
    script.write_text(SCRIPT)
    report = collect(Request((str(script),), ("gfx942",), passes=False, jobs=2))
    assert not report.errors
    return list(report.kernels)


def lds(kernel: KernelReport) -> object:
    return kernel.metrics["lds_bytes"].value


def copies(kernel: KernelReport) -> Mapping[str, object]:
    value = kernel.metrics["narrow_copies"].value
    assert isinstance(value, Mapping)
    return value


def test_the_copies_take_what_they_are_said_to(kernels: list[KernelReport]) -> None:
    without, having = kernels[:2], kernels[2:4]
    for stages, before, after in zip((2, 3), without, having, strict=True):
        told = copies(before)
        assert (told["tiles"], told["bytes"], told["stages"]) == (1, 64 * 64 * 2, stages)
        assert lds(after) == lds(before) + (stages - 1) * told["bytes"]  # type: ignore[operator]
        assert after.metrics["narrow_copies"].value is None  # no tile is read in both orders


def test_fewer_stages_are_named_where_the_copies_need_them(kernels: list[KernelReport]) -> None:
    now, with_two, with_three, _ = kernels[4:]
    assert copies(now)["stages"] == 2
    assert "per buffer), with num_stages=2" in str(copies(now)["said"])
    assert lds(with_two) <= 65536 < lds(with_three)  # type: ignore[operator]


def test_nothing_is_said_where_no_number_of_stages_leaves_room(kernels: list[KernelReport]) -> None:
    told = copies(kernels[-1])
    assert (told["stages"], told["said"]) == (None, None)
    assert "KI011" not in {finding.rule for finding in kernels[-1].findings}
    assert "KI011" in {finding.rule for finding in kernels[4].findings}
