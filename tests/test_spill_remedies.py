"""What a spilling kernel is told to change: only what can apply to it, and each followed once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline import collect
from kinspect.inspector.runs.jobs import Request

FILE = Path(__file__).parent / "data" / "spilling_kernels.py"


@pytest.fixture(scope="module")
def kernels() -> dict[str, KernelReport]:
    pytest.importorskip("triton")
    found = collect(Request((str(FILE),), ("gfx942", "gfx1100"), passes=False, jobs=2))
    assert not found.errors
    return {k.variant.case: k for k in found.kernels if k.variant is not None and k.variant.case}


def remedies(kernel: KernelReport) -> tuple[object, str]:
    value = kernel.metrics["spills.remedies"].value
    assert isinstance(value, Mapping)
    return value["changes"], str(value["said"])


def scratch(kernel: KernelReport) -> int:
    """Scratch accesses per iteration of the hot loops."""
    return sum(
        int(str(loop.metrics[name].value))
        for loop in kernel.loops
        if loop.hot
        for name in ("spills.reloads", "spills.stores")
    )


def test_more_waves_on_rdna_while_each_has_an_instruction(kernels: dict[str, KernelReport]) -> None:
    few, more = kernels["tile_of_256"], kernels["tile_of_256_more_waves"]
    changes, said = remedies(few)
    assert said.startswith("num_warps=8 for the same tile (none left in 7 of 9); num_stages=1 (")
    assert "a smaller tile" in said
    assert changes == 3
    assert scratch(few) > 32
    assert scratch(more) == 0  # the first, followed


def test_on_cdna_smaller_instructions_come_first(kernels: dict[str, KernelReport]) -> None:
    changes, said = remedies(kernels["held_down"])
    assert said.startswith("matrix_instr_nonkdim=16; num_warps=8 for the same tile, or as many")
    assert changes == 4


def test_a_stage_less_is_offered_where_a_stage_is_ahead(kernels: dict[str, KernelReport]) -> None:
    assert remedies(kernels["thin"]) == (0, "None")
    changes, said = remedies(kernels["thin_pipelined"])
    assert changes == 1
    assert said.startswith("num_stages=1 (")


def test_nothing_is_advised_where_nothing_spills(kernels: dict[str, KernelReport]) -> None:
    metric = kernels["tile_of_256_more_waves"].metrics["spills.remedies"]
    assert (metric.value, metric.note) == (None, "no hot loop spills")
