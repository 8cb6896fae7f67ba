"""Tiles that workgroups share through an XCD's L2: a grouped GEMM, counted by hand in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from kept_compiles import collect_kept
from kinspect.inspector.explain.occupancy_view import launch_lines
from kinspect.inspector.machines.loader import load, names
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.jobs import Request

pytestmark = pytest.mark.xdist_group("tile sharing")

SCRIPT = """
import torch, triton, triton.language as tl

@triton.jit
def grouped(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, G: tl.constexpr
):
    rows, cols = tl.cdiv(M, BM), tl.cdiv(N, BN)
    pid = tl.program_id(0)
    first = pid // (G * cols) * G
    height = min(rows - first, G)
    row = first + pid % (G * cols) % height
    col = pid % (G * cols) // height
    rm = (row * BM + tl.arange(0, BM)) % M
    rn = (col * BN + tl.arange(0, BN)) % N
    ks = tl.arange(0, BK)
    left, right = a + rm[:, None] * K + ks[None, :], b + ks[:, None] * N + rn[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        acc = tl.dot(tl.load(left), tl.load(right), acc)
        left += BK
        right += BK * N
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(tl.float16))

@triton.jit
def persistent(a, b, M, K, TILES, BM: tl.constexpr, BK: tl.constexpr):
    for tile in range(tl.program_id(0), TILES, tl.num_programs(0)):
        rows = tile // 4 * BM + tl.arange(0, BM)
        x = tl.load(a + rows[:, None] * K + tl.arange(0, BK)[None, :])
        tl.store(b + rows[:, None] * K + tl.arange(0, BK)[None, :], x)

@triton.jit
def gathered(a, index, b, BM: tl.constexpr):
    rows = tl.load(index + tl.program_id(0)) * BM + tl.arange(0, BM)
    tl.store(b + rows, tl.load(a + rows))

half = dict(dtype=torch.float16, device="cuda")
a, b, c = (torch.zeros((2048, 2048), **half) for _ in range(3))
for group in (1, 3, 8):
    grouped[(16 * 32,)](a, b, c, 2048, 2048, 2048, BM=128, BN=64, BK=64, G=group, num_warps=4)
persistent[(608,)](a, b, 2048, 2048, 2048, BM=64, BK=64, num_warps=4)
gathered[(64,)](a, torch.zeros(64, dtype=torch.int32, device="cuda"), b, BM=256)
"""
ROWS, COLS = 16, 32
SIZES = (128 * 64 * 2, 64 * 64 * 2)
"""Bytes of a tile of each operand."""
XCDS = 8


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, str], KernelReport]:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    path = tmp_path_factory.mktemp("tiles") / "tiles.py"
    path.write_text(SCRIPT)
    report = collect_kept(Request((str(path),), ("gfx942", "gfx1100"), passes=False, jobs=1))
    assert not report.errors
    named = {}
    for kernel in report.kernels:
        assert kernel.variant is not None
        assert kernel.arch is not None
        group = kernel.variant.constexprs.get("G", "")
        named[f"{kernel.name}{group}", kernel.arch] = kernel
    return named


def tiles_of(pid: int, group: int) -> tuple[int, int]:
    """The row and the column of a workgroup's tile."""
    first = pid // (group * COLS) * group
    height = min(ROWS - first, group)
    return first + pid % (group * COLS) % height, pid % (group * COLS) // height


@pytest.mark.parametrize("group", [1, 3, 8])
def test_reads_of_a_grouped_product(
    kernels: Mapping[tuple[str, str], KernelReport], group: int
) -> None:
    metrics = kernels[f"grouped{group}", "gfx942"].metrics
    places = metrics["occupancy.workgroups_per_cu"].value
    assert isinstance(places, int)
    first_round = min(ROWS * COLS, places * 304)
    assert first_round == ROWS * COLS  # else `contiguous` below is another sum
    dealt = [[tiles_of(pid, group) for pid in range(x, first_round, XCDS)] for x in range(XCDS)]
    part = first_round // XCDS
    near = [[tiles_of(x * part + n, group) for n in range(part)] for x in range(XCDS)]
    value = metrics["xcd.tiles"].value
    assert isinstance(value, Mapping)
    assert value["distinct"] == ROWS + COLS
    assert value["reads"] == sum(len({t[n] for t in on}) for on in dealt for n in (0, 1))
    assert value["contiguous"] == sum(len({t[n] for t in on}) for on in near for n in (0, 1))
    assert (value["loads"], value["unknown"], value["xcds"]) == (2, 0, XCDS)
    footprint = max(sum(SIZES[n] * len({t[n] for t in on}) for n in (0, 1)) for on in dealt)
    assert metrics["l2.footprint"].value == footprint
    assert metrics["l2.footprint_share"].value == round(100 * footprint / (4 << 20), 1)
    assert metrics["l2.footprint"].origin == metrics["xcd.tiles"].origin == "estimated"
    lines = launch_lines(kernels[f"grouped{group}", "gfx942"])
    ratio = value["ratio"]
    assert isinstance(ratio, float)
    better = ratio > 1
    assert any("contiguous program ids" in line for line in lines) == better


def test_groups_of_rows_are_what_a_remap_is_for(
    kernels: Mapping[tuple[str, str], KernelReport],
) -> None:
    ratios = {}
    for group in (1, 8):
        value = kernels[f"grouped{group}", "gfx942"].metrics["xcd.tiles"].value
        assert isinstance(value, Mapping)
        ratios[group] = value["ratio"]
    assert ratios[1] < 1 < ratios[8]


def test_a_gpu_of_one_die_has_one_l2(kernels: Mapping[tuple[str, str], KernelReport]) -> None:
    metrics = kernels["grouped8", "gfx1100"].metrics
    assert metrics["xcd.tiles"].value is None
    assert "one L2" in metrics["xcd.tiles"].note
    footprint = metrics["l2.footprint"].value
    assert isinstance(footprint, int)
    assert metrics["l2.footprint_share"].value == round(100 * footprint / (6 << 20), 1)


def test_a_persistent_kernel_counts_its_first_tile(
    kernels: Mapping[tuple[str, str], KernelReport],
) -> None:
    value = kernels["persistent", "gfx942"].metrics["xcd.tiles"].value
    assert isinstance(value, Mapping)
    assert value["distinct"] == 608 // 4


def test_addresses_from_memory_are_not_known(
    kernels: Mapping[tuple[str, str], KernelReport],
) -> None:
    metrics = kernels["gathered", "gfx942"].metrics
    assert metrics["l2.footprint"].value is None
    assert "no load's tile follows from the program ids" in metrics["l2.footprint"].note


def test_every_target_states_its_l2_with_a_source_or_nothing() -> None:
    for arch in names():
        machine = load(arch)
        for field in ("xcds", "l2_bytes"):
            unknown = machine.sources[field] == "not published"
            assert unknown == (getattr(machine, field) is None), (arch, field)
    assert {arch for arch in names() if load(arch).xcds == XCDS} == {"gfx942", "gfx950"}


TWO_LOOPS = """
import torch, triton, triton.language as tl

@triton.jit
def same(x, o, n, B: tl.constexpr):
    r = tl.program_id(0)
    s = tl.zeros([B], tl.float32)
    row = x + r * n
    for i in range(0, n, B):
        s += tl.load(row + i + tl.arange(0, B))
    for i in range(0, n, B):
        p = i + (tl.arange(0, B) + r * n)
        tl.store(o + p, tl.load(x + p, p < 1 << 24, other=0.5) - s)

@triton.jit
def behind(x, o, n, B: tl.constexpr):
    r = tl.program_id(0) * n + tl.arange(0, B)
    s = tl.zeros([B], tl.float32)
    for i in range(0, n // 2, B):
        s += tl.load(x + r + i)
    for i in range(n // 2, n, B):
        s += tl.load(x + r + i)
    tl.store(o + r, s)

@triton.jit
def shifted(x, o, n, B: tl.constexpr):
    r = tl.program_id(0)
    s = tl.zeros([B], tl.float32)
    for i in range(0, n, B):
        s += tl.load(x + r * B + i + tl.arange(0, B))
    for i in range(0, n, B):
        s += tl.load(x + (r + 1) * B + i + tl.arange(0, B))
    tl.store(o + r * B + tl.arange(0, B), s)

@triton.jit
def turned(x, o, n, B: tl.constexpr):
    a, b = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    r = tl.program_id(0) * B * n
    s = tl.zeros([B, B], tl.float32)
    for i in range(0, n, B):
        s += tl.load(x + r + i + a * 8 + b)
    for i in range(0, n, B):
        s += tl.load(x + r + i + a + b * 8)
    tl.store(o + r + a * n + b, s)

@triton.jit
def other(x, o, n, B: tl.constexpr):
    r = tl.program_id(0) * n + tl.arange(0, B)
    s = tl.zeros([B], tl.float32)
    for i in range(0, n, B):
        s += tl.load(x + r + i)
    for i in range(0, n, B):
        tl.store(o + r + i, tl.load(o + r + i) - s)

x, o = torch.empty(4, 1 << 20, device="cuda"), torch.empty(4, 1 << 20, device="cuda")
for kernel in same, behind, shifted, other:
    kernel[(96,)](x, o, 2048, B=512, num_warps=4)
turned[(96,)](x, o, 2048, B=64, num_warps=4)
"""
LOOPS = {
    # tensor and elements of each load's tile in the first iteration
    "same": lambda r: (("x", range(r * 2048, r * 2048 + 512)),) * 2,
    "behind": lambda r: tuple(("x", range(r * 2048 + i, r * 2048 + i + 512)) for i in (0, 1024)),
    "shifted": lambda r: tuple(("x", range(t * 512, t * 512 + 512)) for t in (r, r + 1)),
    "turned": lambda r: tuple(("x", (r, a)) for a in "ab"),
    "other": lambda r: tuple((name, range(r * 2048, r * 2048 + 512)) for name in "xo"),
}


def test_what_two_loops_load_counts_once(tmp_path: Path) -> None:
    """Against the tiles of all workgroups, listed."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    (tmp_path / "loops.py").write_text(TWO_LOOPS)
    report = collect_kept(Request((str(tmp_path / "loops.py"),), ("gfx942",), passes=False, jobs=1))
    assert not report.errors
    for kernel in report.kernels:
        tiles: Callable[[int], tuple[object, ...]] = LOOPS[kernel.name]
        dealt = [{tile for r in range(xcd, 96, XCDS) for tile in tiles(r)} for xcd in range(XCDS)]
        value = kernel.metrics["xcd.tiles"].value
        assert isinstance(value, Mapping)
        assert (value["loads"], value["unknown"]) == (2, 0), kernel.name
        distinct = len({tile for r in range(96) for tile in tiles(r)})
        assert value["distinct"] == distinct, kernel.name
        assert value["reads"] == sum(map(len, dealt)), kernel.name
        size = 4 * (64 * 64 if kernel.name == "turned" else 512)
        assert kernel.metrics["l2.footprint"].value == size * max(map(len, dealt)), kernel.name
