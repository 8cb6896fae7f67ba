"""What a spilling kernel is told to change: only what can apply to it, and each followed once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from kept_compiles import collect_kept
from kinspect.inspector.explain.trials_view import findings_summary
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context
from kinspect.inspector.pipeline.jobs import Request

pytestmark = pytest.mark.xdist_group("spill_remedies")

FILE = Path(__file__).parent / "data" / "spilling_kernels.py"


@pytest.fixture(scope="module")
def kernels() -> dict[str, KernelReport]:
    pytest.importorskip("triton")
    found = collect_kept(Request((str(FILE),), ("gfx942", "gfx1100"), passes=False, jobs=2))
    assert not found.errors
    return {k.variant.case: k for k in found.kernels if k.variant is not None and k.variant.case}


def remedies(kernel: KernelReport) -> tuple[object, str]:
    value = kernel.metrics["spills.remedies"].value
    assert isinstance(value, Mapping)
    said = str(value["said"])
    assert len(said.split()) <= 26, "the fix of KI001 has 14 more"
    return value["changes"], said


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
    assert said.startswith("num_warps=8 for the same tile, or num_stages=")
    assert changes == 3
    assert scratch(few) > 32
    assert scratch(more) == 0  # the first, followed


def test_on_rdna_waves_that_repeat_rows_come_last(kernels: dict[str, KernelReport]) -> None:
    few, more = kernels["rows_for_four"], kernels["rows_for_four_more_waves"]
    _, said = remedies(few)
    assert "num_warps" not in said  # of three or more, the two best are named
    assert said.endswith("(first one that the loop walks over)")
    assert 8 * scratch(more) > 4 * scratch(few) > 0  # what more waves would do
    assert scratch(kernels["rows_for_four_half"]) == 0  # and the tile


def test_on_cdna_smaller_instructions_come_first(kernels: dict[str, KernelReport]) -> None:
    changes, said = remedies(kernels["held_down"])
    assert said.startswith("matrix_instr_nonkdim=16, or num_warps=8 for the same tile")
    assert changes == 4


def test_a_stage_less_is_offered_where_a_stage_is_ahead(kernels: dict[str, KernelReport]) -> None:
    assert remedies(kernels["thin"]) == (0, "None")
    changes, said = remedies(kernels["thin_pipelined"])
    assert changes == 1
    assert said.startswith("num_stages=1 (")


def test_nothing_is_advised_where_nothing_spills(kernels: dict[str, KernelReport]) -> None:
    metric = kernels["tile_of_256_more_waves"].metrics["spills.remedies"]
    assert (metric.value, metric.note) == (None, "no hot loop spills")


def test_spills_without_a_remedy_are_no_finding_but_not_silence(
    kernels: dict[str, KernelReport],
) -> None:
    thin = kernels["thin"]
    assert not thin.findings
    assert findings_summary(thin).startswith(f"no finding: {scratch(thin)} scratch accesses")


COMPILED = """
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.text
	.globl	k
	.type	k,@function
k:
.LBB0_1:
	scratch_load_dwordx2 v[2:3], off, off offset:8 ; 8-byte Folded Reload
	s_waitcnt vmcnt(0)
	v_add_f32_e32 v4, v2, v3
	scratch_store_dwordx2 off, v[4:5], off offset:8 ; 8-byte Folded Spill
	s_cmp_lg_u32 s2, 0
	s_cbranch_scc1 .LBB0_1
	s_endpgm
	.section	.rodata,"a",@progbits
	.amdhsa_kernel k
		.amdhsa_private_segment_fixed_size 16
		.amdhsa_next_free_vgpr {vgprs}
		.amdhsa_next_free_sgpr 16
		.amdhsa_accum_offset {vgprs}
	.end_amdhsa_kernel
	.amdgpu_metadata
---
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .max_flat_workgroup_size: {size}
    .wavefront_size: 64
    .vgpr_count: {vgprs}
    .vgpr_spill_count: 2
amdhsa.target: amdgcn-amd-amdhsa--gfx942
amdhsa.version: [1, 2]
...
	.end_amdgpu_metadata
"""


@pytest.mark.parametrize(
    ("size", "vgprs", "bounds"),
    [
        (1024, 128, True),  # what LLVM assumes where nobody said the block's size
        (512, 256, False),  # two waves a SIMD, and each has its half of the 512
        (512, 128, True),
        (256, 256, True),
    ],
)
def test_launch_bounds_are_offered_where_they_leave_more(
    size: int, vgprs: int, bounds: bool
) -> None:
    """Where they cannot, the loop has to hold less: spills are told of all the same."""
    (kernel,) = analyze_text(COMPILED.format(size=size, vgprs=vgprs), Context("k.s"))
    changes, said = remedies(kernel)
    assert changes == 1
    assert ("__launch_bounds__" in said) is bounds
    assert ("a smaller tile per work-item" in said) is not bounds


@pytest.mark.parametrize(("copies", "unrolled"), [(15, False), (16, True)])
def test_less_unrolling_is_offered_where_a_statement_stands_often(
    copies: int, unrolled: bool
) -> None:
    load = "\t.loc\t1 7 5 0\n\tglobal_load_dword v6, v7, s[4:5]\n"
    text = COMPILED.format(size=512, vgprs=256).replace(
        "\ts_cmp_lg_u32", load * copies + "\ts_cmp_lg_u32"
    )
    text = text.replace("\t.globl\tk", '\t.file\t1 "/src" "k.hip"\n\t.globl\tk')
    (kernel,) = analyze_text(text, Context("k.s"))
    changes, said = remedies(kernel)
    assert changes == (2 if unrolled else 1)
    assert ("#pragma unroll 8 (k.hip:7 has 16 copies" in said) is unrolled


def test_a_kernel_without_loops_has_remedies_of_its_own() -> None:
    pytest.importorskip("triton")
    file = FILE.parent.parent.parent / "rules" / "fixtures" / "straight.py"
    found = collect_kept(Request((str(file),), ("gfx942",), kernel="whole_row", passes=False))
    (kernel,) = found.kernels
    changes, said = remedies(kernel)
    assert changes == 2
    assert said.startswith(
        "num_warps=2 for the same tile, or half of BLOCK, with twice the programs"
    )


def test_a_thin_tile_of_cdna_is_walked_in_smaller_steps(kernels: dict[str, KernelReport]) -> None:
    whole, half = kernels["latent"], kernels["latent_half"]
    changes, said = remedies(whole)
    assert changes == 1
    assert said == "half of BLOCK_K"
    assert scratch(whole) > 4 * scratch(half)
