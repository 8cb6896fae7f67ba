"""Figures of HIP code: trees in LDS, single elements, 64-bit addresses, unbounded workgroups.

The kernels' source, of which the assembly of the fixtures was made, is told by their names; what
is expected here was counted in that assembly by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from kinspect.inspector.model import KernelReport, Metric
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context, Overrides
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

FIXTURES = Path(__file__).parent.parent / "rules" / "fixtures"


@pytest.fixture(scope="module")
def kernels() -> Mapping[str, KernelReport]:
    names = (
        *("hip_trees_gfx942", "hip_tree_behind_loop_gfx942", "hip_elements_gfx942"),
        *("hip_addresses_gfx90a", "hip_limits_gfx942"),
    )
    paths = tuple(str(FIXTURES / f"{name}.s") for name in names)
    return {kernel.name: kernel for kernel in collect(Request(paths, passes=False)).kernels}


def _value(metrics: Mapping[str, Metric], name: str) -> Mapping[str, object]:
    value = metrics[name].value
    assert isinstance(value, Mapping), name
    return value


@pytest.mark.parametrize(
    ("name", "trees", "loops", "barriers"),
    [
        ("sums_in_steps", 1, 0, 8),  # distances of 128 to 1
        ("sums_in_a_loop", 1, 1, 1),
        ("largest_with_its_place", 1, 0, 4),  # distances of 8 to 1, two arrays
        ("sums_of_neighbours", 0, 0, 0),  # the distance stays
        ("sorted_pairs", 0, 0, 0),  # both elements are written
        ("two_steps", 0, 0, 0),
        ("sums_in_waves", 0, 0, 0),
        ("adds_scaled", 0, 0, 0),  # no barrier
    ],
)
def test_trees(
    kernels: Mapping[str, KernelReport], name: str, trees: int, loops: int, barriers: int
) -> None:
    value = _value(kernels[name].metrics, "lds_trees")
    assert (value["trees"], value["loops"], value["barriers"]) == (trees, loops, barriers)


@pytest.mark.parametrize(
    ("name", "loads", "stores", "loaded"),
    [("adds_scaled", 2, 1, 8), ("scales_rows", 1, 1, 4), ("adds_five", 5, 1, 20)],
)
def test_single_elements(
    kernels: Mapping[str, KernelReport], name: str, loads: int, stores: int, loaded: int
) -> None:
    value = _value(kernels[name].metrics, "single_elements")
    assert (value["loads"], value["stores"], value["bytes"]) == (loads, stores, loaded)


@pytest.mark.parametrize(
    "name",
    [
        "adds_scaled_fours",  # 128 bits
        "adds_scaled_in_a_loop",
        "adds_scaled_columns",  # a line for each lane
        "adds_where_positive",  # loads in two blocks
        "through_lds",
    ],
)
def test_other_accesses(kernels: Mapping[str, KernelReport], name: str) -> None:
    assert kernels[name].metrics["single_elements"].value is None


def test_wide_addresses(kernels: Mapping[str, KernelReport]) -> None:
    """Eight arrays, two by pointers that the loop moves on: 4 instructions an address."""
    (loop,) = kernels["adds_planes"].loops
    value = _value(loop.metrics, "wide_addresses")
    assert (value["accesses"], value["of"]) == (6, 8)
    assert (value["instructions"], value["saved"], value["least"]) == (24, 18, 18)


_LOOP = """\
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"
\t.text
k:
.LBB0_1:
\tv_lshlrev_b64 v[4:5], 2, v[2:3]
\tv_mov_b32_e32 v6, s3
\tv_add_co_u32_e32 v8, vcc, s2, v4
\tv_addc_co_u32_e32 v9, vcc, v6, v5, vcc
\tglobal_load_dword v10, v[8:9], off
\ts_cbranch_scc0 .LBB0_3
\tv_add_co_u32_e32 v8, vcc, s4, v4
\tv_addc_co_u32_e32 v9, vcc, v6, v5, vcc
\tglobal_load_dword v11, v[8:9], off
.LBB0_3:
\tv_add_u32_e32 v2, 64, v2
\ts_cbranch_scc1 .LBB0_1
\ts_endpgm
"""


def test_offsets_of_other_blocks_keep_their_addition() -> None:
    """The shift's result crosses a branch: two instructions stay there, one in its own block."""
    (kernel,) = analyze_text(_LOOP, Context("k.s"))
    (loop,) = kernel.loops
    value = _value(loop.metrics, "wide_addresses")
    assert (value["accesses"], value["instructions"]) == (2, 5)
    assert (value["saved"], value["least"]) == (3, 2)


def test_narrow_addresses(kernels: Mapping[str, KernelReport]) -> None:
    (loop,) = kernels["adds_planes_by_bytes"].loops
    value = _value(loop.metrics, "wide_addresses")
    assert (value["accesses"], value["of"], value["saved"]) == (0, 8, 0)


@pytest.mark.parametrize(("name", "vgprs"), [("holds_30", 128), ("holds_30_in_few_registers", 128)])
def test_unbounded(kernels: Mapping[str, KernelReport], name: str, vgprs: int) -> None:
    assert _value(kernels[name].metrics, "launch_bounds") == {"work_items": 1024, "vgprs": vgprs}


def test_bounded(kernels: Mapping[str, KernelReport]) -> None:
    assert kernels["holds_30_in_small_workgroups"].metrics["launch_bounds"].value is None


def test_stated_workgroup() -> None:
    text = (FIXTURES / "hip_limits_gfx942.s").read_text()
    context = Context("k.s", overrides=Overrides(waves_per_workgroup=4))
    by_name = {kernel.name: kernel for kernel in analyze_text(text, context)}
    assert by_name["holds_30"].metrics["launch_bounds"].value is None


def test_elements_of_one_workgroup() -> None:
    """Where no address rests on the workgroup's number, no grid of several is launched."""
    text = (FIXTURES / "hip_elements_gfx942.s").read_text()
    number = "v_lshl_or_b32 v0, s2, 8, v0"  # adds_scaled's work-item in the grid
    assert text.count(number) > 1
    alone = text.replace(number, "v_and_b32_e32 v0, 0x3ff, v0", 1)
    by_name = {kernel.name: kernel for kernel in analyze_text(alone, Context("k.s"))}
    assert by_name["adds_scaled"].metrics["single_elements"].value is None
    assert by_name["scales_rows"].metrics["single_elements"].value is not None
