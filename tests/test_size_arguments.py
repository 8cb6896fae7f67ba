"""Arguments that a kernel takes for sizes, and lanes that lie apart by them."""

from __future__ import annotations

from pathlib import Path

import pytest
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.metrics.argument_words import compared_arguments
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context

FIXTURES = Path(__file__).parent.parent / "rules" / "fixtures"
SIZES = FIXTURES / "hip_sizes_gfx942.s"
STRIDES = FIXTURES / "hip_strides_gfx942.s"
_N, _PITCH = 16, 20
"""Offsets of the third and the fourth argument, behind two pointers."""


def _waste(path: Path) -> dict[str, object]:
    """Kernel -> `by_size` of the access that wastes most lines."""
    reports = analyze_text(path.read_text("utf-8"), Context(str(path)))
    return {
        report.name: report.metrics["cache.waste"].value["by_size"]  # type: ignore[index,call-overload]
        for report in reports
    }


def test_a_length_is_compared_and_a_pitch_is_not() -> None:
    program = parse_text(STRIDES.read_text("utf-8"), str(STRIDES))
    row = next(f for f in program.functions if f.name == "row_of_each")
    assert compared_arguments(row) == [_N]


def test_lanes_lie_apart_by_a_size() -> None:
    pytest.importorskip("numpy")
    by_size = _waste(SIZES)
    assert by_size["sums_rows"] is True
    assert by_size["transposes"] is True
    assert by_size["transposes_pitch"] is False
    assert by_size["copies_positive"] is False
    assert _waste(STRIDES)["row_of_each"] is False


def test_draws_that_a_mask_leaves_out_do_not_count(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    index = "\tv_lshl_or_b32 v0, s2, 8, v0\n"
    text = SIZES.read_text("utf-8")
    assert index in text
    first_workgroup = "\tv_cmp_gt_u32_e32 vcc, 0x100, v0\n\ts_and_b64 exec, exec, vcc\n"
    (tmp_path / "first.s").write_text(text.replace(index, index + first_workgroup))
    assert _waste(tmp_path / "first.s")["sums_rows"] is True
