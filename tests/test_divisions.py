"""Divisions of a loop, held against the same loop without them."""

from __future__ import annotations

from pathlib import Path

import pytest
from emulated import KERNEL
from kept_compiles import collect_kept
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.metrics.divisions import expansion
from kinspect.inspector.model import LoopReport
from kinspect.inspector.pipeline.jobs import Request

pytestmark = pytest.mark.xdist_group("rule fixtures")

FIXTURE = Path(__file__).parent.parent / "rules" / "fixtures" / "divisions.py"


@pytest.fixture(scope="module")
def loops() -> dict[tuple[str, str], LoopReport]:
    """The loop of each kernel, by its name and target."""
    report = collect_kept(Request((str(FIXTURE),), archs=("gfx942", "gfx1100"), passes=False))
    assert not report.errors
    return {(kernel.name, kernel.arch): kernel.loops[0] for kernel in report.kernels}


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
        assert gate.metrics["division.at"].value == "divisions.py:30"


def test_paired_instructions_are_counted_once(loops: dict[tuple[str, str], LoopReport]) -> None:
    """gfx1100 pairs the multiplications of two divisions in one instruction (VOPD)."""
    loop = loops["normalise", "gfx1100"]
    divisions, taken = figure(loop, "division.exact"), figure(loop, "division.instructions")
    assert divisions == 8
    assert taken <= 11 * divisions
    assert taken <= figure(loop, "count.valu")


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
    instructions = parse_text(KERNEL.format(arch="gfx1100", code=text), "k.s").kernels[0]
    (end,) = (i for i in instructions.instructions if i.op.name.startswith("v_div_fixup"))
    first = end.index - 5
    assert expansion(instructions.instructions[: end.index + 1]) == {
        first, first + 2, first + 3, first + 4, first + 5,
    }  # fmt: skip
