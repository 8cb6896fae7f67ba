"""Divisions of a loop, held against the same loop without them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from emulated import KERNEL
from kept_compiles import collect_kept
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.dataflow.value_graph import Operation, operations
from kinspect.inspector.metrics.divisions import expansion
from kinspect.inspector.model import KernelReport, LoopReport
from kinspect.inspector.pipeline.jobs import Request

pytestmark = pytest.mark.xdist_group("rule fixtures")

FIXTURE = Path(__file__).parent.parent / "rules" / "fixtures" / "divisions.py"


@pytest.fixture(scope="module")
def kernels() -> dict[tuple[str, str], KernelReport]:
    """By the names of cases and targets."""
    report = collect_kept(Request((str(FIXTURE),), archs=("gfx942", "gfx1100"), passes=False))
    assert not report.errors
    return {
        (kernel.variant.case, kernel.arch): kernel
        for kernel in report.kernels
        if kernel.variant is not None and kernel.variant.case and kernel.arch
    }


@pytest.fixture(scope="module")
def loops(kernels: dict[tuple[str, str], KernelReport]) -> dict[tuple[str, str], LoopReport]:
    """The first loop of each kernel that has one."""
    return {name: kernel.loops[0] for name, kernel in kernels.items() if kernel.loops}


def figure(loop: LoopReport, name: str) -> int:
    value = loop.metrics[name].value
    assert isinstance(value, int)
    return value


def test_a_division_by_an_argument_takes_what_its_reciprocal_saves(
    loops: dict[tuple[str, str], LoopReport],
) -> None:
    """The compiler's own count: the loop with multiplications in place of the divisions.

    The one is unrolled further than the other, so that figures are of one element.
    """
    divided, multiplied = (
        loops[name, "gfx942"] for name in ("normalise", "normalise_by_reciprocal")
    )
    divisions = figure(divided, "division.exact")
    assert divisions == figure(divided, "count.global_load")  # one element each
    assert figure(divided, "division.by_invariant") == divisions
    assert figure(divided, "division.instructions") == 11 * divisions  # LLVM's legalizeFDIV32
    of_element = [
        figure(loop, "count.valu") / figure(loop, "count.global_load")
        for loop in (divided, multiplied)
    ]
    saved = figure(divided, "division.by_invariant.instructions") / divisions
    assert of_element[0] - of_element[1] == saved
    assert figure(multiplied, "division.exact") == 0


def test_a_divisor_that_the_loop_loads_is_not_unchanged(
    loops: dict[tuple[str, str], LoopReport],
) -> None:
    for arch in ("gfx942", "gfx1100"):
        gate = loops["gate", arch]
        assert figure(gate, "division.exact") > 0
        assert figure(gate, "division.by_invariant") == 0
        assert gate.metrics["division.at"].value == "divisions.py:42"


def test_paired_instructions_are_counted_once(loops: dict[tuple[str, str], LoopReport]) -> None:
    """gfx1100 pairs the multiplications of two divisions in one instruction (VOPD)."""
    loop = loops["normalise", "gfx1100"]
    divisions, taken = figure(loop, "division.exact"), figure(loop, "division.instructions")
    assert divisions == 8
    assert taken <= 11 * divisions
    assert taken <= figure(loop, "count.valu")


def _division(code: str, arch: str) -> Operation:
    """The last step of the division in some code."""
    function = parse_text(KERNEL.format(arch=arch, code=code), "k.s").kernels[0]
    found = operations(function, function.instructions)
    (division,) = (one for one in found if one.name.startswith("v_div_fixup"))
    return division


def test_a_pair_belongs_to_a_division_by_the_half_that_does() -> None:
    """Of 22 divisions in a loop of gfx1100 the other halves' operands led to 332 instructions."""
    text = (
        "v_div_scale_f32 v3, null, s7, s7, v2\n"
        "v_mul_f32_e32 v20, v21, v22\n"
        "v_rcp_f32_e32 v4, v3\n"
        "v_dual_fmac_f32 v4, v6, v4 :: v_dual_mul_f32 v23, v20, v20\n"
        "v_div_fmas_f32 v3, v3, v4, v4\n"
        "v_div_fixup_f32 v2, v3, s7, v2\n"
    )
    division = _division(text, "gfx1100")
    first = division.inst.index - 5
    assert expansion(division) == {first, first + 2, first + 3, first + 4, first + 5}


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_divisions_by_one_value_take_one_estimate(
    loops: dict[tuple[str, str], LoopReport], arch: str
) -> None:
    assert loops["normalise", arch].metrics["division.estimates"].value == {"divisors": 1}


@pytest.mark.parametrize(("arch", "units"), [("gfx942", 304), ("gfx1100", 48)])
def test_units_of_the_gpu(
    kernels: dict[tuple[str, str], KernelReport], arch: str, units: int
) -> None:
    """Triton's workgroups are on both CUs of a WGP on RDNA."""
    assert kernels["normalise", arch].metrics["gpu.units"].value == units


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_a_quotient_of_halves_takes_what_a_product_saves(
    loops: dict[tuple[str, str], LoopReport], arch: str
) -> None:
    """Against the compiler's own count, for each element, of the loop that multiplies.

    That loop multiplies two elements at once and takes no shift to get at the upper half of a
    register, of which the divisions' share is no part.
    """
    divided, multiplied = (loops[name, arch] for name in ("dequantise", "dequantise_by_product"))
    divisions, instructions = (
        figure(divided, f"division.{name}") for name in ("exact", "instructions")
    )
    # LLVM's LowerFDIV16; gfx1100 pairs some of them (VOPD), by how it assigns registers
    assert instructions in {"gfx942": (88,), "gfx1100": range(150, 177)}[arch]
    assert divisions == {"gfx942": 8, "gfx1100": 16}[arch]
    elements = {"gfx942": 32, "gfx1100": 64}[arch]  # half of a lane's bytes of both operands
    assert figure(multiplied, "bytes.global_load") == 2 * 2 * elements
    other = figure(divided, "count.valu") - instructions
    shifts_and_packs = divisions // 2 * 3
    of_element = other / divisions - figure(multiplied, "count.valu") / elements
    assert 0 <= of_element <= shifts_and_packs / divisions
    assert figure(divided, "division.by_invariant") == 0


def test_a_division_of_halves_ends_at_its_operands() -> None:
    """What makes the divisor or the dividend is no part of it, nor is the other half's division."""
    text = (
        "v_mul_f32_e32 v9, v9, v9\n"
        "v_cvt_f16_f32_e32 v5.l, v9\n"
        "v_pk_mul_f16 v3, v8, v8\n"
        "v_cvt_f32_f16_e32 v1, v3.l\n"  # 3: the first step
        "v_cvt_f32_f16_e32 v2, v3.h\n"
        "v_rcp_f32_e32 v1, v1\n"
        "v_rcp_f32_e32 v2, v2\n"
        "v_fma_mix_f32 v11, v5, v1, neg(0) op_sel_hi:[1,0,0]\n"
        "v_fma_mix_f32 v12, v5, v2, neg(0) op_sel_hi:[1,0,0]\n"
        "v_fma_mix_f32 v15, -v3, v11, v5 op_sel_hi:[1,0,1]\n"
        "v_fmac_f32_e32 v11, v15, v1\n"
        "v_fma_mix_f32 v15, -v3, v11, v5 op_sel_hi:[1,0,1]\n"
        "v_mul_f32_e32 v1, v15, v1\n"
        "v_and_b32_e32 v1, 0xff800000, v1\n"
        "v_add_f32_e32 v1, v1, v11\n"
        "v_cvt_f16_f32_e32 v1.l, v1\n"
        "v_cvt_f16_f32_e32 v1.h, v12\n"
        "v_div_fixup_f16 v3.l, v1.l, v3.l, v5.l\n"
    )
    division = _division(text, "gfx1201")
    start = division.inst.index - 17
    assert {index - start for index in expansion(division)} == {
        3,
        5,
        7,
        9,
        10,
        11,
        12,
        13,
        14,
        15,
        17,
    }


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_a_row_divided_by_its_sum_takes_what_the_reciprocal_saves(
    kernels: dict[tuple[str, str], KernelReport], arch: str
) -> None:
    """Against the compiler's own count of the kernel that multiplies."""
    divided, multiplied = (
        kernels[name, arch] for name in ("softmax_row", "softmax_row_by_reciprocal")
    )
    outside = divided.metrics["division.outside"].value
    assert isinstance(outside, Mapping)
    assert outside["divisors"] == 1
    assert outside["shared"] == outside["exact"] == {"gfx942": 8, "gfx1100": 16}[arch]
    valu = [kernel.metrics["count.valu"].value for kernel in (divided, multiplied)]
    assert isinstance(valu[0], int)
    assert isinstance(valu[1], int)
    assert isinstance(outside["saved"], int)
    # Masks and moves beside the divisions go as well.
    assert 0.85 * (valu[0] - valu[1]) <= outside["saved"] <= valu[0] - valu[1]
    alone = multiplied.metrics["division.outside"].value
    assert isinstance(alone, Mapping)
    assert (alone["exact"], alone["shared"], alone["saved"]) == (1, 0, 0)


def test_each_sigmoid_has_a_divisor_of_its_own(
    kernels: dict[tuple[str, str], KernelReport],
) -> None:
    outside = kernels["gate_row", "gfx942"].metrics["division.outside"].value
    assert isinstance(outside, Mapping)
    assert (outside["exact"], outside["shared"]) == (8, 0)
    assert outside["instructions"] == 11 * 8  # LLVM's legalizeFDIV32


def test_each_division_is_in_a_hot_loop_or_outside(
    kernels: dict[tuple[str, str], KernelReport],
) -> None:
    for kernel in kernels.values():
        outside = kernel.metrics["division.outside"].value
        assert isinstance(outside, Mapping)
        assert isinstance(outside["exact"], int)
        assert isinstance(outside["copies"], int)
        inside = sum(figure(loop, "division.exact") for loop in kernel.loops if loop.hot)
        text = kernel.artifacts["amdgcn"].path.read_text("utf-8")
        assert inside + outside["exact"] + outside["copies"] == text.count("v_div_fixup")
