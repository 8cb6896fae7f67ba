"""Statements that somebody unrolled: how many copies of them a loop holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from kept_compiles import collect_kept
from kinspect.inspector.model import KernelReport, MetricValue
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context
from kinspect.inspector.pipeline.jobs import Request

SCRIPT = Path(__file__).parent / "data" / "copied_statements.py"
HEAD = """
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
\t.text
\t.file\t1 "/src" "{file}"
\t.globl\tk
\t.type\tk,@function
k:
.LBB0_1:
"""
TAIL = """
\ts_cmp_lg_u32 s2, 0
\ts_cbranch_scc1 .LBB0_1
\ts_endpgm
\t.section\t.rodata,"a",@progbits
\t.amdhsa_kernel k
\t\t.amdhsa_next_free_vgpr 16
\t\t.amdhsa_next_free_sgpr 16
\t\t.amdhsa_accum_offset 16
\t.end_amdhsa_kernel
"""


def copies(kernel: KernelReport) -> MetricValue:
    (loop,) = (loop for loop in kernel.loops if loop.hot)
    return loop.metrics["code.copies"].value


def analysed(file: str, *loads: str) -> KernelReport:
    text = HEAD.format(file=file) + "\n".join(loads) + TAIL
    (kernel,) = analyze_text(text, Context("k.s"))
    return kernel


def load(line: int, column: int) -> str:
    return (
        f"\t.loc\t1 {line} {column} 0 ; /src/file:{line}:{column}\n"
        "\tglobal_load_dword v1, v0, s[0:1]"
    )


def test_the_most_copied_statement_of_a_loop_is_named() -> None:
    kernel = analysed("k.hip", *[load(7, 5)] * 3, *[load(7, 20)] * 4, load(9, 5))
    assert copies(kernel) == {"copies": 4, "at": "k.hip:7", "by": "#pragma unroll"}


def test_nothing_is_a_copy_where_each_statement_stands_once() -> None:
    assert copies(analysed("k.hip", load(7, 5), load(7, 20), load(9, 5))) is None


def test_instructions_of_a_triton_operation_are_no_copies() -> None:
    """Without its TTGIR nobody knows how many instructions a load became."""
    assert copies(analysed("k.py", *[load(7, 5)] * 3)) is None


@pytest.fixture(scope="module")
def kernels() -> dict[str, KernelReport]:
    pytest.importorskip("triton")
    found = collect_kept(Request((str(SCRIPT),), ("gfx942",), passes=False, jobs=2))
    assert not found.errors
    return {k.variant.case: k for k in found.kernels if k.variant is not None and k.variant.case}


def test_a_static_range_writes_its_loads_out(kernels: dict[str, KernelReport]) -> None:
    value = copies(kernels["written_out"])
    assert isinstance(value, Mapping)
    assert (value["copies"], value["by"]) == (6, "tl.static_range")
    assert value["at"] == f"{SCRIPT.name}:{_line_of('piece = ')}"


def test_a_pipelined_loop_has_no_copies(kernels: dict[str, KernelReport]) -> None:
    """Its loads stand before it as well, twice with three stages."""
    assert copies(kernels["pipelined"]) is None


def test_iterations_are_those_of_the_launch(kernels: dict[str, KernelReport]) -> None:
    for case in ("written_out", "full"):
        assert kernels[case].metrics["launch.iterations"].value == 40


def _line_of(text: str) -> int:
    lines = SCRIPT.read_text("utf-8").splitlines()
    return 1 + next(number for number, line in enumerate(lines) if text in line)
