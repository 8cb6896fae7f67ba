"""Why operands come from LDS in small pieces: a compiled kernel for each kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

pytestmark = pytest.mark.usefixtures("shared_guests")

SCRIPT = """\
import torch, triton, triton.language as tl

@triton.jit
def product(a, b, c, n, k, sbk, sbn, BOUND: tl.constexpr):
    rows = tl.program_id(0) * 64 + tl.arange(0, 64)
    cols = tl.program_id(1) * 64 + tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for first in range(0, k, 32):
        inner = first + tl.arange(0, 32)
        left = a + rows[:, None] * k + inner[None, :]
        right = b + inner[:, None] * sbk + cols[None, :] * sbn
        if BOUND:
            x = tl.load(left, mask=inner[None, :] < k, other=0.0)
            y = tl.load(right, mask=inner[:, None] < k, other=0.0)
        else:
            x = tl.load(left)
            y = tl.load(right)
        acc = tl.dot(x, y, acc)
    tl.store(c + rows[:, None] * n + cols[None, :], acc.to(tl.float16))

@triton.jit
def strips(a, b, c, n, k, FOLD: tl.constexpr):
    rows, strip = tl.arange(0, 64), tl.program_id(0)
    cols = (strip // FOLD) * 64 + tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for first in range(0, k, 32):
        inner = first + tl.arange(0, 32)
        x = tl.load(a + strip * k + rows[:, None] * k + inner[None, :])
        y = tl.load(b + inner[:, None] * n + cols[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + rows[:, None] * n + cols[None, :], acc.to(tl.float16))

@triton.jit
def scaled(a, b, s, c, n, k, group, sbk, sbn, ssg, ssn):
    rows = tl.program_id(0) * 16 + tl.arange(0, 16)
    cols = tl.program_id(1) * 64 + tl.arange(0, 64)
    acc = tl.zeros((16, 64), tl.float32)
    for first in range(0, k, 64):
        inner = first + tl.arange(0, 64)
        x = tl.load(a + rows[:, None] * k + inner[None, :])
        y = tl.load(b + inner[:, None] * sbk + cols[None, :] * sbn)
        scale = tl.load(s + (inner // group)[:, None] * ssg + cols[None, :] * ssn)
        y = (y.to(tl.float32) / scale.to(tl.float32)).to(tl.float16)
        acc = tl.dot(x, y, acc)
    tl.store(c + rows[:, None] * n + cols[None, :], acc.to(tl.float16))

def half(*shape):
    return torch.zeros(shape, dtype=torch.float16)

def multiply(k, sbk, sbn, bound):
    product[(16, 16)](half(1024, k), half(k, 1024), half(1024, 1024), 1024, k, sbk, sbn, bound)

multiply(4096, 1024, 1, True)
multiply(4100, 1024, 1, True)
multiply(4096, 1024, 1, False)
multiply(4100, 1, 4100, True)
for fold in (1, 4):
    strips[(16,)](half(64, 4096), half(4096, 1024), half(64, 1024), 1024, 4096, fold)
weights = torch.zeros((4096, 1024), dtype=torch.int8)
for strides in ((1024, 1, 1024, 1), (1, 4096, 1024, 1), (1, 4096, 1, 32)):
    scaled[(2, 16)](
        half(32, 4096), weights, half(32, 1024), half(32, 1024), 1024, 4096, 128, *strides
    )
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> list[KernelReport]:
    pytest.importorskip("triton")
    script = Path(tmp_path_factory.mktemp("narrow")) / "narrow.py"
    script.write_text(SCRIPT)
    report = collect(Request((str(script),), ("gfx942",), passes=False, jobs=2))
    assert not report.errors
    return list(report.kernels)


def kinds(kernel: KernelReport) -> dict[str, object]:
    value = kernel.metrics["narrow_operands"].value
    assert isinstance(value, Mapping)
    return {kind: reads for kind, reads in value.items() if reads}


def test_each_kind_has_its_kernel(kernels: list[KernelReport]) -> None:
    known, odd, unmasked, transposed, alone, folded = kernels[:6]
    assert kinds(known) == {"loaded": 16}  # the pipeline's peeled iteration is no second product
    assert kinds(odd) == {"masked": 16}
    assert kinds(unmasked) == {"loaded": 16}
    assert kinds(transposed) == {}
    assert kinds(alone) == {"unshared": 16}
    assert kinds(folded) == {"loaded": 16}  # four programs read the same strip


def test_the_other_order_of_a_masked_operand_is_loaded_by_16_bits(
    kernels: list[KernelReport],
) -> None:
    odd, transposed = kernels[1], kernels[3]
    widths = [
        {op.bits for op in kernel.memory_ops if op.cls == "global_load"}
        for kernel in (odd, transposed)
    ]
    assert max(widths[0]) > 16
    assert widths[1] == {16}


def test_the_rule_speaks_of_operands_whose_other_order_would_help(
    kernels: list[KernelReport],
) -> None:
    told = ["KI011" in rules(kernel) for kernel in kernels[:6]]
    assert told == [True, False, True, False, False, True]


def rules(kernel: KernelReport) -> set[str]:
    return {finding.rule for finding in kernel.findings}


def test_the_operand_is_named_and_not_the_scales_of_its_groups(
    kernels: list[KernelReport],
) -> None:
    """Scales repeat along K, so that no order in memory makes them contiguous there.

    Their tile has the layout of the weights as long as these lie along N: with the weights
    transposed alone the narrow reads and two thirds of the conflicts go. With the scales transposed
    as well, what is already so is not advised again.
    """
    along_n, along_k, both = kernels[6:]
    conflicts: list[Mapping[str, Any]] = []
    for kernel in kernels[6:]:
        value = kernel.loops[0].metrics["lds.conflicts"].value
        assert isinstance(value, Mapping)
        conflicts.append(value)
    curable, known = ([value[name] for value in conflicts] for name in ("curable", "known"))
    in_script = SCRIPT.partition("def scaled")[2]
    line = SCRIPT.count("\n") - in_script.partition("y = tl.load(b")[2].count("\n") + 1
    assert conflicts[0]["order_at"] == f"narrow.py:{line}"
    assert curable[0] == known[0]
    assert known[1] <= known[0] / 3
    assert [value["order_at"] for value in conflicts[1:]] == [None, None]
    assert kinds(along_n) == {"loaded": 32}
    assert kinds(along_k) == {}
    assert set(kinds(both)) == {"computed"}
    assert "KI011" in rules(along_n)
    assert "KI043" not in rules(along_n), "the same reads, and the same cure"
    assert rules(along_k).isdisjoint(("KI011", "KI043"))
    assert rules(both).isdisjoint(("KI011", "KI043"))
