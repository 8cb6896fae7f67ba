"""Divisions of a loop, held against the same loop without them."""

from __future__ import annotations

from pathlib import Path

import pytest
from kinspect.inspector.model import LoopReport
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

FIXTURE = Path(__file__).parent.parent / "rules" / "fixtures" / "divisions.py"


@pytest.fixture(scope="module")
def loops() -> dict[tuple[str, str], LoopReport]:
    """The loop of each kernel, by its name and target."""
    report = collect(Request((str(FIXTURE),), archs=("gfx942", "gfx1100"), passes=False))
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
