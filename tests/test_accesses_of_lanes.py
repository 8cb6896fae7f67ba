"""Accesses of work-items in two dimensions, of a lane's neighbours, and at the edge of sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
from emulated import KERNEL
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.lanes.unknowns import Arguments
from kinspect.inspector.machines.loader import load
from kinspect.inspector.metrics.lanes import FROM_MEMORY, lane_uses
from kinspect.inspector.model import KernelReport, LaneUse, MemoryOp
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.ttgir.axes.analysis import analyze
from kinspect.inspector.ttgir.axes.blame import not_contiguous
from kinspect.inspector.ttgir.axes.graph import functions
from kinspect.inspector.ttgir.parser import parse_ttgir

CODE = Path(__file__).parents[1] / "rules" / "fixtures" / "hip_neighbours_gfx942.s"


@pytest.fixture(scope="module")
def kernels() -> dict[str, KernelReport]:
    request = Request((str(CODE),), passes=False, jobs=1)
    return {kernel.name: kernel for kernel in collect(request).kernels}


def loads(kernel: KernelReport) -> list[MemoryOp]:
    return [op for op in kernel.memory_ops if op.cls == "global_load"]


def use(op: MemoryOp) -> LaneUse:
    assert op.use is not None
    return op.use


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("quads_checked_apart", [128] * 4),
        ("pairs_checked_apart", [64] * 2),
        ("quads_checked_at_once", [None] * 4),
    ],
)
def test_a_lane_s_neighbours_move_together(
    kernels: dict[str, KernelReport], name: str, bits: list[int | None]
) -> None:
    """Narrow accesses beside one as wide as all of them are the rest of a length."""
    assert [op.joint_bits for op in loads(kernels[name])] == bits


def test_what_large_sizes_leave_over(kernels: dict[str, KernelReport]) -> None:
    """The check of all four holds for every lane of a large array: the others are for its end."""
    found = [
        (op.bits, use(op).at_edge, use(op).lines) for op in loads(kernels["quads_checked_at_once"])
    ]
    assert found == [(32, True, 8), (32, True, 8), (32, True, 8), (128, False, 8)]
    waste = kernels["quads_checked_at_once"].metrics["cache.waste"].value
    assert isinstance(waste, dict)
    assert (waste["known"], waste["known_ideal"]) == (10, 10)
    assert (waste["accesses"], waste["instruction"]) == (0, None)


def test_rows_of_a_workgroup_of_unknown_shape(kernels: dict[str, KernelReport]) -> None:
    for name, lines, across in (("columns", 64, True), ("rows", 4, False), ("turned", 64, True)):
        (load_,) = loads(kernels[name])
        found = use(load_)
        assert (found.wide_rows, found.origin) == (True, "estimated"), name
        assert (found.lines, found.across, found.addresses) == (lines, across, None), name
    waste = kernels["turned"].metrics["cache.waste"].value
    assert isinstance(waste, dict)
    assert (waste["across"], waste["in_rows"]) == (1, 1)
    assert waste["across_lines"] == 64


SUM = """s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
s_waitcnt lgkmcnt(0)
global_load_dword v3, v1, s[4:5]
s_waitcnt vmcnt(0)
v_mov_b32_e32 v2, v0
v_mad_u64_u32 v[4:5], s[6:7], {factor}, 4, v[{addend}]
v_mov_b32_e32 v5, 0
v_lshl_add_u64 v[4:5], v[4:5], 0, s[4:5]
global_store_dword v[4:5], v3, off
"""


@pytest.mark.parametrize(
    ("factor", "addend", "lines"),
    [("v0", "2:3", 3.0), ("v3", "0:1", None), ("v0", "3:4", None)],
)
def test_the_low_word_of_a_sum_rests_on_low_words(
    factor: str, addend: str, lines: float | None
) -> None:
    """LLVM leaves what it likes in the high word of a 32-bit offset that it adds in 64 bits."""
    code = SUM.format(factor=factor, addend=addend)
    function = parse_text(KERNEL.format(arch="gfx942", code=code), "k.s").kernels[0]
    arguments = Arguments(pointers=frozenset({0}))
    *_, found = lane_uses(function, load("gfx942"), (64, 1, 1), arguments).values()
    assert found.lines == lines
    assert found.unknown == ("" if lines else FROM_MEMORY)


IF_ELSE = """s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
s_waitcnt lgkmcnt(0)
global_load_dword v3, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_lt_f32_e32 vcc, 0, v3
s_and_saveexec_b64 s[6:7], vcc
s_xor_b64 s[6:7], exec, s[6:7]
v_lshlrev_b32_e32 v0, 2, v0
global_store_dword v0, v3, s[4:5]
{enter}
v_lshlrev_b32_e32 {to}, 2, {of}
global_store_dword {to}, v1, s[4:5]
s_or_b64 exec, exec, s[6:7]
"""
IN_TWO = "s_or_saveexec_b64 s[6:7], s[6:7]\ns_xor_b64 exec, exec, s[6:7]"


@pytest.mark.parametrize("enter", ["s_andn2_saveexec_b64 s[6:7], s[6:7]", IN_TWO])
@pytest.mark.parametrize(("to", "of", "lines"), [("v0", "v0", None), ("v2", "v1", 8.0)])
def test_lanes_of_an_else_have_not_been_in_the_then(
    enter: str, to: str, of: str, lines: float | None
) -> None:
    """The then shifts v0 in place, so that in the else it was counted as shifted twice."""
    code = IF_ELSE.format(enter=enter, to=to, of=of)
    function = parse_text(KERNEL.format(arch="gfx942", code=code), "k.s").kernels[0]
    arguments = Arguments(pointers=frozenset({0}))
    _, then, other = lane_uses(function, load("gfx942"), (64, 1, 1), arguments).values()
    assert then.lines == 2.0
    assert other.lines == lines


STRIDED = """module attributes {"ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @k(%x: !tt.ptr<f16>, %stride: i64, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %wide = arith.extsi %range : tensor<64xi32> to tensor<64xi64>
    %strides = tt.splat %stride : i64 -> tensor<64xi64>
    %product = arith.muli %wide, %strides : tensor<64xi64>
    %first = arith.trunci %product : tensor<64xi64> to tensor<64xi32>
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%at = %first) -> (tensor<64xi32>) : i32 {
      %at_wide = arith.extsi %at : tensor<64xi32> to tensor<64xi64>
      %next_wide = arith.addi %at_wide, %strides : tensor<64xi64>
      %next = arith.trunci %next_wide : tensor<64xi64> to tensor<64xi32>
      scf.yield %next : tensor<64xi32>
    }
    tt.return
  }
}
"""


def test_an_offset_that_a_loop_moves_in_64_bits_keeps_its_stride() -> None:
    (graph,) = functions(parse_ttgir(STRIDED, "k.ttgir"))
    blame = not_contiguous(analyze(graph, ["%at"]), "%at", 0, 8)
    assert (blame.kind, blame.value) == ("factor", "%stride")


def test_the_worst_of_neighbours_in_y_is_one_of_them() -> None:
    """Here a store is the worst of all, of lanes that lie apart in x and in y."""
    text = CODE.read_text()
    number = "v_mad_u64_u32 v[0:1], s[0:1], v0, s4, v[2:3]"
    begin = text.index("turned:")
    assert number in text[begin:]
    apart = "v_mad_u64_u32 v[0:1], s[0:1], v2, s4, 0"
    kernel = text[begin:].replace(number, apart, 1)
    changed = text[:begin] + kernel.replace("global_store_dword", "global_store_short", 1)
    by_name = {kernel.name: kernel for kernel in analyze_text(changed, Context("k.s"))}
    waste = by_name["turned"].metrics["cache.waste"].value
    assert isinstance(waste, dict)
    assert waste["across"] == 1
    assert (waste["accesses"], waste["instruction"]) == (2, "global_store_short")
