"""Which proof failed where Triton makes no buffer operation, and that the one asked for helps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from kept_compiles import collect_kept
from kinspect.inspector.model import KernelReport, Scalar
from kinspect.inspector.pipeline.jobs import Request

SCRIPT = Path(__file__).parent / "data" / "unbounded_offsets.py"


@pytest.fixture(scope="module")
def kernels() -> dict[str, KernelReport]:
    pytest.importorskip("triton")
    found = collect_kept(Request((str(SCRIPT),), ("gfx942",), passes=False, jobs=2))
    assert not found.errors
    return {k.variant.case: k for k in found.kernels if k.variant is not None and k.variant.case}


def plain(kernel: KernelReport) -> Mapping[str, Scalar]:
    value = kernel.metrics["buffer.plain"].value
    assert isinstance(value, Mapping)
    return value


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("counted_no", "0 and 2 GiB: they rest on stride, n"),
        ("counted_once", "0 and 2 GiB: they rest on stride, n"),
        ("wide_no", "and the offsets are 64 bits wide"),
    ],
)
def test_the_reason_names_what_is_not_bounded(
    kernels: dict[str, KernelReport], case: str, says: str
) -> None:
    found = plain(kernels[case])
    assert found["hot"] == 1
    assert str(found["reason"]).startswith("x has no tt.pointer_range: its tensor may be larger")
    assert str(found["reason"]).endswith(says)


def test_a_loaded_row_is_named_by_its_line(kernels: dict[str, KernelReport]) -> None:
    lines = SCRIPT.read_text().splitlines()
    load = next(n for n, line in enumerate(lines, 1) if "place = tl.load" in line)
    reason = str(plain(kernels["loaded_no"])["reason"])
    assert f"they rest on values loaded in line {load}, stride" in reason


@pytest.mark.parametrize("case", ["counted_twice", "loaded_twice"])
def test_bounds_from_both_sides_are_a_proof(kernels: dict[str, KernelReport], case: str) -> None:
    assert plain(kernels[case])["accesses"] == 0
