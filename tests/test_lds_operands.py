"""How often products use what they read from LDS, and roundings to bfloat16, by assembly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context

HEAD = """
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
\t.text
\t.globl\tk
\t.type\tk,@function
k:
.LBB0_1:
"""
TAIL = """
\ts_cmp_lg_u32 s2, 0
\ts_cbranch_scc1 .LBB0_1
\ts_endpgm
\t.section\t.rodata,"a",@progbits
\t.amdhsa_kernel k
\t\t.amdhsa_group_segment_fixed_size 1024
\t\t.amdhsa_next_free_vgpr 64
\t\t.amdhsa_next_free_sgpr 16
\t\t.amdhsa_accum_offset 64
\t.end_amdhsa_kernel
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .group_segment_fixed_size: 1024
    .kernarg_segment_size: 0
    .private_segment_fixed_size: 0
    .max_flat_workgroup_size: 256
    .sgpr_count: 16
    .vgpr_count: 64
    .wavefront_size: 64
amdhsa.version:
  - 1
  - 2
...
\t.end_amdgpu_metadata
"""
READS = (
    "ds_read_b128 v[8:11], v1",
    "ds_read_b128 v[12:15], v1 offset:16",
    "ds_read2_b32 v[16:17], v2 offset1:16",
    "ds_read_b32 v18, v2 offset:256",
)
"""11 registers, for 8 + 8 + 4 + 2 clocks of a wave's LDS."""


def analysed(*lines: str) -> KernelReport:
    (kernel,) = analyze_text(HEAD + "".join(f"\t{line}\n" for line in lines) + TAIL, Context("k.s"))
    return kernel


def operands(*lines: str) -> Mapping[str, Any]:
    (loop,) = analysed(*lines).loops
    value = loop.metrics["lds_operands"].value
    assert isinstance(value, Mapping)
    return value


def test_operands_that_come_from_lds_are_counted() -> None:
    """Each product takes one register of the first read and one of the others."""
    products = (
        "v_fmac_f32_e32 v4, v8, v16",
        "v_fmac_f32_e32 v5, v8, v17",
        "v_mul_f32_e32 v6, v9, v3",
    )
    value = operands(*READS, "s_waitcnt lgkmcnt(0)", *products)
    assert (value["dwords"], value["uses"]) == (4, 5)


def test_a_register_that_is_written_again_is_no_operand_from_lds() -> None:
    value = operands(*READS, "v_mov_b32_e32 v8, 0", "v_fmac_f32_e32 v4, v8, v16")
    assert (value["dwords"], value["uses"]) == (1, 1)


def test_copies_of_what_was_read_are_operands_from_lds() -> None:
    """Copied into pairs for packed products, each is a dword still, whose uses are counted."""
    copies = (
        "v_mov_b32_e32 v20, v8",
        "v_mov_b32_e32 v21, v16",
        "v_pk_mov_b32 v[22:23], v[8:9], v[16:17] op_sel:[1,0]",
    )
    products = ("v_pk_fma_f32 v[4:5], v[20:21], v[22:23], v[4:5]", "v_mul_f32_e32 v6, v8, v3")
    value = operands(*READS, *copies, *products)
    assert (value["dwords"], value["uses"]) == (3, 5)  # v8, v9 and v16


def test_packed_products_take_the_halves_that_they_name() -> None:
    first = "v_pk_fma_f32 v[4:5], v[8:9], v[2:3], v[4:5] op_sel_hi:[0,1,1]"
    second = "v_pk_mul_f32 v[6:7], v[10:11], v[2:3] op_sel:[1,0]"
    value = operands(*READS, first)
    assert (value["dwords"], value["uses"]) == (1, 2)
    value = operands(*READS, first, second)
    assert (value["dwords"], value["uses"]) == (2, 4)


def test_what_an_iteration_reads_for_the_next_counts() -> None:
    value = operands("v_fmac_f32_e32 v4, v8, v16", *READS)
    assert (value["dwords"], value["uses"]) == (2, 2)


def test_sums_are_no_products() -> None:
    value = operands(*READS, "v_add_f32_e32 v4, v8, v4")
    assert (value["dwords"], value["uses"]) == (0, 0)


def test_loops_of_few_reads_have_no_such_figure() -> None:
    (loop,) = analysed(*READS[:3], "v_fmac_f32_e32 v4, v8, v16").loops
    assert "lds_operands" not in loop.metrics


def test_roundings_to_bfloat16() -> None:
    rounding = ("v_bfe_u32 v4, v8, 16, 1", "v_add3_u32 v4, v8, v4, s3")
    other = (
        "v_and_b32_sdwa v4, v8, v5 dst_sel:DWORD src0_sel:WORD_1 src1_sel:DWORD",
        "v_add3_u32 v4, v8, v4, s3",
    )
    extraction = ("v_bfe_u32 v4, v8, 8, 8", "v_add3_u32 v4, v8, v4, s3")
    address = ("v_bfe_u32 v4, v8, 16, 1", "v_add3_u32 v4, v9, v4, 64")
    for lines, count in ((rounding, 1), (other, 1), (extraction, 0), (address, 0)):
        (loop,) = analysed(*lines).loops
        assert loop.metrics["bfloat16.conversions"].value == count
