"""What operands hold, followed from loads and from positions; words of random numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from emulated import KERNEL
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.dataflow.liveness import liveness
from kinspect.inspector.machines.loader import load as load_machine
from kinspect.inspector.metrics.operand_origins import operand_origins
from kinspect.inspector.model import KernelReport, Scalar
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context, Overrides
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

FIXTURE = Path(__file__).parent.parent / "rules" / "fixtures" / "vector_work.py"
TEXT = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
.globl k
.type k,@function
k:
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    s_load_dword s6, s[0:1], 0x8
    v_mov_b32_e32 v4, 7
    v_add_u32_e32 v1, s6, v0
    s_load_dword s7, s[4:5], 0x0
    v_add_u32_e32 v2, s7, v0
    global_load_dword v3, v1, s[4:5]
    v_cmp_gt_u32_e32 vcc, 3, v0
    s_and_saveexec_b64 s[8:9], vcc
    s_cbranch_execz .Lover
    v_mov_b32_e32 v3, v1
.Lover:
    s_or_b64 exec, exec, s[8:9]
    v_add_u32_e32 v5, v3, v4
    v_mov_b32_e32 v3, 5
    v_add_u32_e32 v6, v3, v4
    s_endpgm
.Lend:
.size k, .Lend-k
.rodata
.amdhsa_kernel k
  .amdhsa_next_free_vgpr 64
  .amdhsa_next_free_sgpr 64
  .amdhsa_accum_offset 32
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
.end_amdhsa_kernel
"""


def test_loads_positions_and_constants_are_told_apart() -> None:
    (function,) = parse_text(TEXT, "k.s").kernels
    origins = operand_origins(function, liveness(function, load_machine("gfx942")))
    kinds = {}
    for inst in function.instructions:
        if inst.mnemonic.startswith("v_add"):
            data, positions = origins.data[inst.index], origins.positions[inst.index]
            kinds[inst.operands.partition(",")[0]] = (data != 0, positions != 0)
    # v3 is loaded on one path and copied from a position on the other one, then overwritten.
    assert kinds == {
        "v1": (False, True),
        "v2": (True, True),
        "v5": (True, True),
        "v6": (False, False),
    }


COUNTED = """
  global_load_dwordx2 v[4:5], v0, s[4:5]
  s_waitcnt vmcnt(0)
  v_cmp_gt_f64_e32 vcc, v[4:5], v[6:7]
  v_cmp_gt_f64_e64 s[8:9], v[4:5], 1.0
  v_cmp_gt_f32_e64 s[8:9], v4, v0
  v_cmp_u_f32_e64 s[8:9], v4, v4
  v_cndmask_b32_e32 v10, 0, v11, vcc
  v_mul_lo_u32 v1, v0, 3
  v_mul_hi_u32 v1, v0, v1
  v_cmp_gt_u32_e32 vcc, 3, v0
  v_cndmask_b32_e32 v5, 0, v1, vcc
  {more}
"""


def test_what_a_kernel_without_loops_computes() -> None:
    more = "v_add_u32_e32 v2, v2, v0\n" * 400
    (kernel,) = analyze_text(
        KERNEL.format(arch="gfx942", code=COUNTED.format(more=more)),
        Context("k.s", overrides=Overrides(waves_per_workgroup=4)),
    )
    positions = _value(kernel, "vector_work.positions")
    assert (positions["instructions"], positions["beyond"]) == (404, 401)
    assert positions["loads"] == 1
    # Without line numbers no line has most of them.
    assert (positions["at"], positions["at_instructions"]) == (None, None)
    tests = _value(kernel, "vector_work.tests")
    assert (tests["tests"], tests["instructions"], tests["loaded"]) == (2, 3, 8)
    assert kernel.metrics["vector_work.random"].value is None


@pytest.fixture(scope="module")
def kernels(shared_guests: None) -> Mapping[tuple[str, str], KernelReport]:
    pytest.importorskip("triton")
    report = collect(Request((str(FIXTURE),), archs=("gfx942",), passes=False))
    return {(kernel.name, _type_of_x(kernel)): kernel for kernel in report.kernels}


def _type_of_x(kernel: KernelReport) -> str:
    assert kernel.variant is not None
    return kernel.variant.signature["x"]


def _value(kernel: KernelReport, name: str) -> Mapping[str, Scalar]:
    value = kernel.metrics[name].value
    assert isinstance(value, Mapping)
    return value


def test_the_words_that_a_call_uses(
    kernels: Mapping[tuple[str, str], KernelReport],
) -> None:
    one = _value(kernels["dropped_out", "*fp16"], "vector_work.random")
    four = _value(kernels["dropped_out_by_four", "*fp16"], "vector_work.random")
    assert (one["calls"], four["calls"]) == (1, 0)
    # Ten rounds for each of a lane's four elements; the products alone are 18 for each.
    assert int(str(one["instructions"])) > 4 * 18


def test_random_numbers_are_no_other_work_on_positions(
    kernels: Mapping[tuple[str, str], KernelReport],
) -> None:
    positions = _value(kernels["dropped_out", "*fp16"], "vector_work.positions")
    random = _value(kernels["dropped_out", "*fp16"], "vector_work.random")
    assert int(str(positions["instructions"])) + int(str(random["instructions"])) <= int(
        str(positions["valu"])
    )


def test_comparisons_with_constants_are_counted(
    kernels: Mapping[tuple[str, str], KernelReport],
) -> None:
    tests = _value(kernels["halves_by_two_part_index", "*u8"], "vector_work.tests")
    assert tests["tests"] == 0
