"""Layouts against addresses: a kernel's own TTGIR agrees with its code, a changed one does not.

`test_suite.py` compares all bundled kernels. Here each kind of layout is changed in the text of the
TTGIR, the code staying as it is, and the access that rests on it is to be found.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from kept_compiles import collect_kept
from kinspect.inspector import machines
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.metrics.kernel import kernel_report
from kinspect.inspector.metrics.subject import Facts, KernelCode
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.ttgir.axes.graph import functions
from kinspect.inspector.ttgir.evaluation import Evaluation
from kinspect.inspector.ttgir.parser import parse_ttgir

KERNELS = Path(__file__).parent / "data" / "guest_kernels.py"


@cache
def compiled(arch: str) -> KernelReport:
    pytest.importorskip("triton")
    report = collect_kept(Request((str(KERNELS),), (arch,), kernel="gemm", passes=False))
    (kernel,) = report.kernels
    return kernel


def read_again(arch: str, change: tuple[str, str] | None = None) -> KernelReport:
    """The report of the same code with a TTGIR in which something was replaced."""
    kernel = compiled(arch)
    assert kernel.variant is not None
    ttgir = kernel.artifacts["ttgir"].path.read_text()
    if change is not None:
        changed = re.sub(*change, ttgir)
        assert changed != ttgir
        ttgir = changed
    (function,) = parse_text(kernel.artifacts["amdgcn"].path.read_text(), "k.s").kernels
    facts = Facts(signature=kernel.variant.signature, attributes=kernel.variant.attrs)
    subject = KernelCode(function, machines.load(arch), facts, parse_ttgir(ttgir, "k.ttgir"))
    return kernel_report(subject, kernel_id="k", name="k", arch=arch, source=None)


def verdicts(kernel: KernelReport) -> dict[str, set[str | None]]:
    found: dict[str, set[str | None]] = {}
    for access in kernel.accesses:
        if access.lines:
            found.setdefault(access.cls, set()).add(access.lanes)
    return found


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1100"])
def test_a_kernel_s_own_layouts_agree(arch: str) -> None:
    kernel = read_again(arch)
    seen = verdicts(kernel)
    assert {"global_load", "lds_read", "global_store"} & set(seen)
    assert all("differ" not in each for each in seen.values()), seen
    assert "agree" in seen["lds_read"] | seen.get("global_load", set())
    assert not [note for note in kernel.notes if "lanes elsewhere" in note]


@pytest.mark.parametrize(
    ("arch", "change", "classes"),
    [
        # the swizzle's phases, by half
        ("gfx942", (r"(#shared = .*maxPhase = )\d+", r"\g<1>2"), {"lds_write", "lds_read"}),
        # waves across columns in place of rows
        (
            "gfx942",
            (r"(#mma = .*warpsPerCTA = )\[(\d+), (\d+)\]", r"\1[4, 1]"),
            {"lds_read", "global_store"},
        ),
        ("gfx942", (r"(#mma = .*isTransposed = )true", r"\1false"), {"global_store"}),
        ("gfx942", (r"kWidth = \d+", "kWidth = 8"), {"lds_read"}),
        # reads that transpose among them
        ("gfx950", (r"\[(\d+):\+\d+", r"[\1:+64"), {"lds_read"}),
        ("gfx950", (r"kWidth = \d+", "kWidth = 4"), {"lds_read"}),
        # rows of the waves that load into LDS
        (
            "gfx950",
            (r"\[32, 0\]\], warp = \[\[1, 0\], \[2, 0\]\]", "[1, 0]], warp = [[32, 0], [2, 0]]"),
            {"lds_direct"},
        ),
        ("gfx1100", (r"(#mma = .*isTranspose = )true", r"\1false"), {"global_store"}),
    ],
)  # fmt: skip
def test_a_changed_layout_differs(arch: str, change: tuple[str, str], classes: set[str]) -> None:
    kernel = read_again(arch, change)
    seen = verdicts(kernel)
    assert {cls for cls, each in seen.items() if "differ" in each} == classes, seen
    differing = [access for access in kernel.accesses if access.lanes == "differ"]
    notes = [note for note in kernel.notes if "lanes elsewhere" in note]
    assert len(notes) == len(differing)
    assert all(access.op in note for access, note in zip(differing, notes, strict=True))


def evaluated(body: str, names: list[str]) -> list[np.ndarray | None]:
    text = "module {\ntt.func @f(%n: i32, %p: !tt.ptr<f16>) {\n" + body + "\ntt.return\n}\n}"
    (graph,) = functions(parse_ttgir(text, "k"))
    values = Evaluation(graph, {"%n": np.array([7, 7]), "%p": np.zeros(2, int)}, np.array([0, 1]))
    return [values.value(name) for name in names]


LAYOUT = (
    "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [64], warpsPerCTA = [1], order = [0]}>"
)


def test_arithmetic_is_that_of_machines() -> None:
    """Division to zero, 32 bits that wrap around, an element's bytes in a pointer."""
    tensor = f"tensor<4xi32, {LAYOUT}>"
    body = f"""
%r = tt.make_range {{end = 4 : i32, start = 0 : i32}} : {tensor}
%c = arith.constant dense<-3> : {tensor}
%two = arith.constant dense<2> : {tensor}
%sum = arith.addi %r, %c : {tensor}
%quotient = arith.divsi %sum, %two : {tensor}
%rest = arith.remsi %sum, %two : {tensor}
%big = arith.constant dense<2147483647> : {tensor}
%wrapped = arith.addi %big, %r : {tensor}
%pp = tt.splat %p : !tt.ptr<f16> -> tensor<4x!tt.ptr<f16>, {LAYOUT}>
%at = tt.addptr %pp, %r : tensor<4x!tt.ptr<f16>, {LAYOUT}>, {tensor}
%pid = tt.get_program_id x : i32
"""
    names = ["%quotient", "%rest", "%wrapped", "%at", "%pid"]
    first = [None if value is None else value.tolist()[0] for value in evaluated(body, names)[:4]]
    assert first == [
        [-1, -1, 0, 0],
        [-1, 0, -1, 0],
        [2**31 - 1, -(2**31), 1 - 2**31, 2 - 2**31],
        [0, 2, 4, 6],
    ]
    (pid,) = evaluated(body, names[4:])
    assert pid is not None
    assert pid.tolist() == [0, 1]


def test_a_carried_value_moves_as_a_whole_or_is_unknown() -> None:
    """Pointers that advance keep their distances; those that are multiplied do not."""
    tensor = f"tensor<4xi32, {LAYOUT}>"
    body = f"""
%r = tt.make_range {{end = 4 : i32, start = 0 : i32}} : {tensor}
%c0 = arith.constant 0 : i32
%c1 = arith.constant 1 : i32
%step = arith.constant dense<16> : {tensor}
%out:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %r, %b = %r) -> \
({tensor}, {tensor}) : i32 {{
  %a2 = arith.addi %a, %step : {tensor}
  %b2 = arith.muli %b, %step : {tensor}
  scf.yield %a2, %b2 : {tensor}, {tensor}
}}
"""
    moved, behind, scaled = evaluated(body, ["%a2", "%out#0", "%b"])
    for value in (moved, behind):
        assert value is not None
        assert (np.diff(value[0]) == 1).all()
    assert scaled is None


def test_long_chains_end_in_what_is_unknown() -> None:
    steps = "\n".join(f"%s{n + 1} = arith.muli %s{n}, %n : i32" for n in range(2000))
    tensors = "\n".join(f"%t{n + 1} = arith.xori %t{n}, %t0 : {TENSOR}" for n in range(2000))
    body = (
        f"%s0 = arith.addi %n, %n : i32\n{steps}\n"
        f"%t0 = tt.make_range {{end = 4 : i32, start = 0 : i32}} : {TENSOR}\n{tensors}"
    )
    near, far, near_tensor, far_tensor = evaluated(body, ["%s5", "%s2000", "%t3", "%t2000"])
    assert near is not None
    assert near.tolist() == [14 * 7**5] * 2
    assert far is not None, "a scalar is the same in all lanes, wherever it comes from"
    assert near_tensor is not None
    assert near_tensor.tolist() == [[0, 0, 0, 0]]
    assert far_tensor is None


TENSOR = f"tensor<4xi32, {LAYOUT}>"
