"""Iterations that a mask switches off as a whole, against the mask worked out here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from kept_compiles import collect_kept
from kinspect.inspector.metrics.triton_masks import MOST_PROGRAMS
from kinspect.inspector.model import KernelReport, Scalar
from kinspect.inspector.pipeline.jobs import Request

SCRIPT = Path(__file__).parent / "data" / "windows.py"
SIZE, TILE, WINDOW = 1024, 64, 128


@pytest.fixture(scope="module")
def kernels() -> list[KernelReport]:
    pytest.importorskip("triton")
    found = collect_kept(Request((str(SCRIPT),), ("gfx942",), passes=False, jobs=2))
    assert not found.errors
    return list(found.kernels)


def masks(
    kernels: list[KernelReport], grid: tuple[int, ...], **constexprs: object
) -> list[Mapping[str, Scalar]]:
    """The metric of each kernel's loop that was launched so."""
    values = []
    for kernel in kernels:
        variant = kernel.variant
        assert variant is not None
        if variant.grid == grid and constexprs.items() <= variant.constexprs.items():
            (value,) = [loop.metrics["masks.positions"].value for loop in kernel.loops]
            assert isinstance(value, Mapping)
            values.append(value)
    return values


def idle(first: int) -> int:
    """Tiles of keys in which no row of a block sees any."""
    rows = first + np.arange(TILE)[:, None]
    tiles = (rows - np.arange(start, start + TILE)[None, :] for start in range(0, SIZE, TILE))
    return sum(not ((behind >= 0) & (behind < WINDOW)).any() for behind in tiles)


def test_tiles_outside_of_a_window_are_counted(kernels: list[KernelReport]) -> None:
    blocks = SIZE // TILE
    programs = [round(n * (blocks - 1) / (MOST_PROGRAMS - 1)) for n in range(MOST_PROGRAMS)]
    found = masks(kernels, (blocks, 1, 1), SKIP=False)
    (value,) = [each for each in found if each["idle"] is not None]
    assert value["iterations"] == MOST_PROGRAMS * blocks
    assert value["idle"] == sum(idle(block * TILE) for block in programs)


def test_the_grids_second_dimension_counts_as_well(kernels: list[KernelReport]) -> None:
    blocks = SIZE // TILE
    programs = [
        round(n * (2 * blocks - 1) / (MOST_PROGRAMS - 1)) // 2 for n in range(MOST_PROGRAMS)
    ]
    (value,) = masks(kernels, (2, blocks, 1), SKIP=False)
    assert value["idle"] == sum(idle(block * TILE) for block in programs)


def test_a_loop_over_the_window_alone_has_none(kernels: list[KernelReport]) -> None:
    (value,) = masks(kernels, (SIZE // TILE, 1, 1), SKIP=True)
    assert value["idle"] == 0


def test_a_mask_from_memory_is_not_known(kernels: list[KernelReport]) -> None:
    found = masks(kernels, (SIZE // TILE, 1, 1), SKIP=False)
    assert sorted(value["idle"] is None for value in found) == [False, True]


def test_the_finding_says_so(kernels: list[KernelReport]) -> None:
    told = [
        finding.message
        for kernel in kernels
        for finding in (*kernel.findings, *kernel.leads)
        if finding.rule == "KI131"
    ]
    assert len(told) == 2
