"""Reasons of narrow accesses that lie in a `//` or `%` of the kernel, and that their cures help."""

from __future__ import annotations

from pathlib import Path

import pytest
from kept_compiles import collect_kept
from kinspect.inspector.model import Access, KernelReport
from kinspect.inspector.pipeline.jobs import Request

SCRIPT = Path(__file__).parent / "data" / "divided_strides.py"


@pytest.fixture(scope="module")
def kernels() -> dict[str, KernelReport]:
    pytest.importorskip("triton")
    found = collect_kept(Request((str(SCRIPT),), ("gfx942",), passes=False, jobs=2))
    assert not found.errors
    return {k.variant.case: k for k in found.kernels if k.variant is not None and k.variant.case}


def load_of(kernel: KernelReport) -> Access:
    (load,) = [access for access in kernel.accesses if access.cls == "global_load"]
    return load


def line_of(text: str) -> int:
    lines = SCRIPT.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip() == text)


def test_the_divisor_is_named_where_an_index_is_taken_apart(
    kernels: dict[str, KernelReport],
) -> None:
    load = load_of(kernels["any_width"])
    assert (load.bits, load.limited_by) == (16, "contiguity")
    assert "the offsets are taken % width, which is not known to be divisible by 8" in load.reason
    assert load_of(kernels["sixteens"]).bits == 128  # what the fix asks for


def test_a_pitch_is_named_with_its_division(kernels: dict[str, KernelReport]) -> None:
    load = load_of(kernels["parts"])
    assert (load.bits, load.limited_by) == (16, "divisibility")
    line = line_of("pitch = width // parts")
    told = f"pitch = width // parts is not known to be divisible by 8 (line {line})"
    assert load.reason.startswith(told)
    assert load.fix == "If it always is, compute with pitch // 8 * 8."
    assert load_of(kernels["eighths"]).bits == 128


def test_a_step_is_named_with_its_remainder(kernels: dict[str, KernelReport]) -> None:
    load = load_of(kernels["rest"])
    assert (load.bits, load.limited_by) == (16, "contiguity")
    line = line_of("step = width % parts")
    assert load.reason.startswith(f"step = width % parts (line {line}) is not known to be 1: ")
