"""Lanes along rows of their own, few lanes, sums in LDS, bins, wide divisions, launches that the
user states.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kinspect
import pytest
from click.testing import CliRunner
from kinspect.inspector.cli.group import cli
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context, Overrides
from kinspect.inspector.report import json_write
from kinspect.inspector.report.json_read import SavedReport

from .test_argument_words import TEXT

FILE = Path(__file__).parent.parent / "rules" / "fixtures" / "hip_own_rows_gfx942.s"

COUNTS = Path(__file__).parent / "data" / "hip_counts_gfx1100.s"


@pytest.fixture(scope="module")
def counted() -> Mapping[str, KernelReport]:
    """Kernels for an RDNA target."""
    found = analyze_text(COUNTS.read_text("utf-8"), Context(str(COUNTS)))
    return {kernel.name: kernel for kernel in found}


@pytest.fixture(scope="module")
def kernels() -> Mapping[str, KernelReport]:
    context = Context(str(FILE), overrides=Overrides(grid=(38, 2, 1)))
    return {kernel.name: kernel for kernel in analyze_text(FILE.read_text("utf-8"), context)}


def _of_loop(kernel: KernelReport, name: str) -> Mapping[str, Any]:
    """A metric of the first hot loop that has it."""
    values = [loop.metrics[name].value for loop in kernel.loops if loop.hot]
    return next(value for value in values if isinstance(value, Mapping))


def test_a_workgroup_of_half_a_wave_has_half_the_lanes() -> None:
    context = Context(str(FILE), overrides=Overrides(workgroup=(32, 1, 1)))
    found = {k.name: k for k in analyze_text(FILE.read_text("utf-8"), context)}
    walks = _of_loop(found["sums_rows_of_lanes"], "lane_walks")
    assert (walks["accesses"], walks["lines"]) == (2, 64)


@pytest.mark.parametrize(
    ("name", "accesses", "lines"),
    [
        ("sums_rows_of_lanes", 2, 128),
        ("adds_rows_of_lanes", 2, 128),
        ("works_along_rows", 1, 64),
        ("sums_rows_of_groups", 0, 0),
        ("scales_in_all_lanes", 0, 0),
    ],
)
def test_lanes_that_go_along_rows(
    kernels: Mapping[str, KernelReport], name: str, accesses: int, lines: int
) -> None:
    walks = _of_loop(kernels[name], "lane_walks")
    assert (walks["accesses"], walks["lines"]) == (accesses, lines)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("scans_by_one_lane", 1),
        ("sums_lds_by_one_lane", 256),
        ("scales_short_rows", 32),
        ("scales_halves_of_rows", 128),
        ("gathers_short_rows", None),
    ],
)
def test_lanes_that_take_part(
    kernels: Mapping[str, KernelReport], name: str, most: int | None
) -> None:
    idle = kernels[name].metrics["idle_lanes"].value
    assert isinstance(idle, Mapping)
    assert (idle["most"], idle["of"]) == (most, 256)
    assert most is not None or idle["at"] is None


def test_a_count_that_issues_with_another_operation(counted: Mapping[str, KernelReport]) -> None:
    sums = counted["counts_bytes"].metrics["atomics.sums"].value
    assert isinstance(sums, Mapping)
    assert sums["binned"] == 1


def test_a_buffers_atomic_names_what_it_adds_first() -> None:
    code = """
    buffer_load_ubyte v2, v0, s[0:3], 0 offen
    v_mov_b32_e32 v1, 1
    s_waitcnt vmcnt(0)
    v_lshlrev_b32_e32 v2, 2, v2
    buffer_atomic_add {operands}, s[4:7], 0 offen
    """
    found = []
    for operands in ("v1, v2", "v2, v1", "v1"):
        text = TEXT.format(arch="gfx942", code=code.format(operands=operands))
        (kernel,) = analyze_text(text, Context("k.s"))
        sums = kernel.metrics["atomics.sums"].value
        found.append(sums["binned"] if isinstance(sums, Mapping) else None)
    assert found[:2] == [1, 0]


@pytest.mark.parametrize(
    ("name", "group"),
    [("tiles_of_workgroups_size", None), ("rows_by_workgroups_size", "workgroup")],
)
def test_a_pointer_by_the_workgroups_size_beside_a_counter_ends_no_loop(
    counted: Mapping[str, KernelReport], name: str, group: str | None
) -> None:
    assert _of_loop(counted[name], "loop.grid_stride")["group"] == group


@pytest.mark.parametrize(
    ("name", "binned"),
    [("counts_bytes", 1), ("counts_scaled", 1), ("counts_at_indices", 0), ("sums_in_bins", 0)],
)
def test_bins(kernels: Mapping[str, KernelReport], name: str, binned: int) -> None:
    sums = kernels[name].metrics["atomics.sums"].value
    assert isinstance(sums, Mapping)
    assert (sums["loaded_at"], sums["binned"]) == (None, binned)


def test_wide_divisions_by_a_divisor_that_lanes_share(
    kernels: Mapping[str, KernelReport],
) -> None:
    divisions = kernels["splits_wide_places"].metrics["integer_division"].value
    assert isinstance(divisions, Mapping)
    assert divisions["count"] == 2
    assert divisions["instructions"] > 100


def test_a_launch_that_the_user_states(kernels: Mapping[str, KernelReport]) -> None:
    metrics = kernels["sums_rows_of_lanes"].metrics
    assert metrics["grid.workgroups"].value == 76
    assert metrics["grid.per_cu"].value == 0.25
    assert metrics["grid.waves_per_eu"].value == 0.25


@pytest.mark.parametrize("grid", ["0", "1,2,3,4", "4294967296"])
def test_launches_that_there_cannot_be(grid: str) -> None:
    result = CliRunner().invoke(cli, ["analyze", str(FILE), "--grid", grid])
    assert result.exit_code != 0


def test_a_saved_report_keeps_how_far_lanes_lie_apart() -> None:
    report = kinspect.analyze(COUNTS).report
    stream = io.StringIO()
    json_write.write(report, stream)
    again = SavedReport.open(stream.getvalue(), "counts.json").report()
    uses = [[op.use for op in kernel.memory_ops] for kernel in report.kernels]
    assert any(use is not None and use.steps for own in uses for use in own)
    assert [[op.use for op in kernel.memory_ops] for kernel in again.kernels] == uses
