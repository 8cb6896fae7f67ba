"""What a launch may ask for at most, refused before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from ..base.errors import KinspectError

MOST_WORKGROUPS: Final = 1 << 25
"""Executed in one launch: with the arrays of their numbers and order they take 1 GiB."""
MOST_IN_GRID: Final = 1 << 30
"""Workgroups of a grid of which some are executed."""
MOST_THREADS: Final = 1024
"""Of a workgroup, on all targets (amd_hip: maxThreadsPerBlock)."""
MOST_ITEMS: Final = (1 << 32) - 1
"""Work-items of a grid in each dimension (hsa_kernel_dispatch_packet)."""
MOST_SCRATCH: Final = 1 << 30
"""Bytes of private memory of the waves that run together."""


def check_extents(grid: Sequence[int], block: Sequence[int], is_sampled: bool) -> None:
    """Refuses what no GPU can launch, or no memory here holds, before anything is allocated.

    Raises:
        KinspectError: it says what was asked for.
    """
    threads, groups = math.prod(block), math.prod(grid)
    shape = " x ".join(f"{extent:,}" for extent in grid if extent != 1) or "1"
    if min(*grid, *block) < 0:
        raise KinspectError(f"{min(*grid, *block)} workgroups or work-items", "state none below 0")
    if not 0 < threads <= MOST_THREADS:
        raise KinspectError(
            f"a workgroup of {threads:,} work-items; it has 1 to {MOST_THREADS:,}",
            "launch a smaller workgroup",
        )
    if any(t * g > MOST_ITEMS for t, g in zip(block, grid, strict=True)):
        raise KinspectError(
            f"a grid of {shape} workgroups of {threads:,} work-items; a dimension has at most"
            f" {MOST_ITEMS:,} work-items",
            "launch a smaller grid",
        )
    if is_sampled and groups > MOST_IN_GRID:
        raise KinspectError(
            f"a grid of {groups:,} workgroups; some of up to {MOST_IN_GRID:,} can be executed",
            "launch a smaller grid",
        )
    if not is_sampled and groups > MOST_WORKGROUPS:
        raise KinspectError(
            f"a grid of {groups:,} workgroups; the emulator executes {MOST_WORKGROUPS:,} at most",
            f"--sample N executes N of up to {MOST_IN_GRID:,}, or launch a smaller grid",
        )
