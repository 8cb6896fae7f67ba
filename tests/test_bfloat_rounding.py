"""Roundings to bfloat16 between operations, against the instructions that float32 saves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from kept_compiles import collect_kept
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.jobs import Request

FIXTURE = Path(__file__).parent.parent / "rules" / "fixtures" / "bfloats.py"
LANES, BLOCK = 256, 2048


@pytest.fixture(scope="module")
def kernels() -> Mapping[tuple[str, str], KernelReport]:
    report = collect_kept(Request((str(FIXTURE),), ("gfx942", "gfx950"), passes=False, jobs=2))
    return {(kernel.name, kernel.arch): kernel for kernel in report.kernels}


def _rounded(kernel: KernelReport) -> Mapping[str, object]:
    value = kernel.metrics["bfloat16.rounded"].value
    assert isinstance(value, Mapping)
    return value


def test_each_result_that_the_next_operation_widens_counts(
    kernels: Mapping[tuple[str, str], KernelReport],
) -> None:
    """Five of the polynomial's six results, each of all elements of a lane."""
    value = _rounded(kernels["polynomial", "gfx942"])
    assert value["elements"] == 5 * BLOCK // LANES
    assert value["at"] == "bfloats.py:11"
    assert _rounded(kernels["polynomial_in_float32", "gfx942"])["elements"] == 0
    assert _rounded(kernels["product_and_sum", "gfx942"])["elements"] == 0


def test_a_clamp_rounds_between_its_maximum_and_its_minimum(
    kernels: Mapping[tuple[str, str], KernelReport],
) -> None:
    value = _rounded(kernels["clamped", "gfx942"])
    assert value["elements"] == 2 * BLOCK // LANES


def test_the_instructions_of_a_loop_are_told_of_that_loop(
    kernels: Mapping[tuple[str, str], KernelReport],
) -> None:
    kernel = kernels["polynomial_of_rows", "gfx942"]
    value = _rounded(kernel)
    assert value["valu"] in [loop.metrics["count.valu"].value for loop in kernel.loops if loop.hot]


def test_steps_that_are_peeled_off_a_loop_are_not_told_of_it(
    kernels: Mapping[tuple[str, str], KernelReport],
) -> None:
    """Loads ahead leave the last step behind the loop, whose operations have the same lines."""
    value = _rounded(kernels["polynomial_loaded_ahead", "gfx942"])
    assert value["elements"] == 6 * BLOCK // LANES


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_float32_throughout_saves_at_least_what_is_told(
    arch: str, kernels: Mapping[tuple[str, str], KernelReport]
) -> None:
    rounded, once = (
        kernels[name, arch].metrics["count.valu"].value
        for name in ("polynomial", "polynomial_in_float32")
    )
    assert isinstance(rounded, int)
    assert isinstance(once, int)
    told = _rounded(kernels["polynomial", arch])["instructions"]
    assert isinstance(told, int)
    assert 0 < told <= rounded - once <= 2 * told
