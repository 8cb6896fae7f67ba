"""Integer divisions, exp, log and pow in the code, held against kernels with their short forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from emulated import KERNEL
from kept_compiles import collect_kept
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.dataflow.value_graph import graph_of, operations
from kinspect.inspector.metrics.divisions import integer_divisions
from kinspect.inspector.metrics.elementary_functions import exponentials_and_logarithms
from kinspect.inspector.model import Function, KernelReport
from kinspect.inspector.pipeline.jobs import Request

pytestmark = pytest.mark.xdist_group("rule fixtures")

FIXTURE = Path(__file__).parent.parent / "rules" / "fixtures" / "expansions.py"
BOTH = ("gfx942", "gfx1100")


@pytest.fixture(scope="module")
def kernels() -> dict[tuple[str, str], KernelReport]:
    """By the names of cases and targets."""
    report = collect_kept(Request((str(FIXTURE),), archs=BOTH, passes=False))
    assert not report.errors
    return {
        (kernel.variant.case, kernel.arch): kernel
        for kernel in report.kernels
        if kernel.variant is not None and kernel.variant.case and kernel.arch
    }


def mapping(kernel: KernelReport, name: str) -> dict[str, Any]:
    value = kernel.metrics[name].value
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize(
    ("metric", "long", "short", "arch"),
    [
        ("integer_division", "gather_by_division", "gather_by_reciprocal", "gfx942"),
        ("integer_division", "gather_by_long_division", "gather_by_reciprocal", "gfx942"),
        ("exp_log", "exponentials", "short_exponentials", "gfx942"),
        ("exp_log", "logarithms", "logarithms_of_two", "gfx942"),
        ("power", "powers", "powers_by_logarithm", "gfx942"),
        ("power", "powers", "powers_by_logarithm", "gfx1100"),
    ],
)
def test_the_short_form_saves_what_is_said(
    kernels: dict[tuple[str, str], KernelReport], metric: str, long: str, short: str, arch: str
) -> None:
    """By the compiler's own count of both kernels."""
    before, after = (mapping(kernels[name, arch], metric) for name in (long, short))
    unrolled = _moved(kernels[long, arch]) / _moved(kernels[short, arch])
    saved = before["valu"] - after["valu"] * unrolled
    assert 0 < before["saved"] <= 1.1 * saved  # other arithmetic is packed otherwise
    assert before["saved"] < before["instructions"] < before["valu"]
    assert after["saved"] == after["instructions"] == 0


def _moved(kernel: KernelReport) -> int:
    """Bytes that a lane moves to and from global memory."""
    values = [kernel.metrics[f"bytes.global_{way}"].value for way in ("load", "store")]
    return sum(value for value in values if isinstance(value, int))


def test_each_element_is_counted(kernels: dict[tuple[str, str], KernelReport]) -> None:
    """4 waves of 64 lanes hold 4 elements of 1024 each."""
    assert mapping(kernels["gather_by_division", "gfx942"], "integer_division")["count"] == 4
    assert mapping(kernels["gather_by_long_division", "gfx942"], "integer_division")["count"] == 4
    assert mapping(kernels["exponentials", "gfx942"], "exp_log")["exponentials"] == 4
    assert mapping(kernels["logarithms", "gfx942"], "exp_log")["logarithms"] == 4
    assert mapping(kernels["powers", "gfx942"], "power")["count"] == 4
    assert mapping(kernels["powers", "gfx942"], "exp_log")["exponentials"] == 0


def test_scalar_divisions_are_not_counted(kernels: dict[tuple[str, str], KernelReport]) -> None:
    assert mapping(kernels["tile_of_row", "gfx942"], "integer_division")["instructions"] == 0


def test_the_error_function_has_no_short_form(
    kernels: dict[tuple[str, str], KernelReport],
) -> None:
    assert mapping(kernels["error_functions", "gfx942"], "exp_log")["instructions"] == 0


def test_where_it_is(kernels: dict[tuple[str, str], KernelReport]) -> None:
    in_loop = mapping(kernels["sum_of_gathers", "gfx942"], "integer_division")
    assert in_loop["at"].startswith("expansions.py:")


def function(code: str) -> Function:
    return parse_text(KERNEL.format(arch="gfx1100", code=code), "k.s").kernels[0]


REMAINDER = """
    v_mul_hi_u32 v3, v2, v1
    v_mul_lo_u32 v4, v3, s3
    v_sub_nc_u32_e32 v4, v2, v4
    v_subrev_nc_u32_e32 v5, s3, v4
    v_cmp_le_u32_e32 vcc_lo, s3, v4
    v_cndmask_b32_e32 v4, v4, v5, vcc_lo
    v_subrev_nc_u32_e32 v5, s3, v4
    v_cmp_le_u32_e32 vcc_lo, s3, v4
    v_cndmask_b32_e32 v4, v4, v5, vcc_lo
    global_store_b32 v0, v4, s[0:1]
"""


def test_a_division_whose_estimate_another_block_made() -> None:
    code = function(REMAINDER)
    (found,) = integer_divisions(graph_of(code), range(len(code.instructions)))
    assert (found.kind, len(found.steps), found.short) == ("count", 9, 4)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("v_cmp_le_u32_e32 vcc_lo, s3, v4", "v_cmp_le_u32_e32 vcc_lo, s4, v4"),
        ("v_mul_hi_u32 v3, v2, v1", "v_add_nc_u32_e32 v3, v2, v1"),
        ("v_sub_nc_u32_e32 v4, v2, v4", "v_add_nc_u32_e32 v4, v2, v4"),
        ("v_mul_lo_u32 v4, v3, s3", "v_mul_lo_u32 v4, v2, s3"),
    ],
)
def test_what_is_no_division(old: str, new: str) -> None:
    """Another divisor, no high half, no remainder, a product of something else."""
    code = function(REMAINDER.replace(old, new))
    assert not list(integer_divisions(graph_of(code), range(len(code.instructions))))


def test_only_what_a_region_has() -> None:
    code = function(REMAINDER)
    assert not list(integer_divisions(graph_of(code), ()))
    everything = range(len(code.instructions))
    assert not list(exponentials_and_logarithms(graph_of(code), everything))


def test_halves_read_what_was_before_them() -> None:
    """The second half of a VOPD instruction does not see the first one's result."""
    code = function(
        """
    v_mov_b32_e32 v1, s0
    v_dual_add_f32 v1, v1, v1 :: v_dual_mul_f32 v2, v1, v3
    v_cndmask_b32_e32 v4, v1, v2, vcc_lo
"""
    )
    move, addition, product, selection, _ = operations(code, code.instructions)
    assert (addition.name, product.name) == ("v_add_f32", "v_mul_f32")
    assert product.makers == (move, None)
    assert selection.makers == (addition, product, None)
    assert selection in addition.users


def test_a_paired_selection_reads_the_mask_that_it_does_not_name() -> None:
    code = function(
        """
    v_cmp_gt_f32_e32 vcc_lo, 0, v1
    v_dual_cndmask_b32 v2, v3, v4 :: v_dual_mov_b32 v5, v6
"""
    )
    comparison, selection, *_ = operations(code, code.instructions)
    assert selection.makers[-1] is comparison
