"""Loops of kernels of which no launch is known: the longest way, without executing it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.machines.loader import load as machine
from kinspect.inspector.model import Function, LaneUse, MemoryOp
from kinspect.inspector.timing import trace as tracing
from kinspect.inspector.timing.static_flow import known_accesses, static_workgroups
from msgspec.structs import replace
from test_timing_launches import ARGUMENTS, GEMM, STRIDED, gemm

Tool = Callable[..., Any]
NESTED = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
.globl k
.type k,@function
k:
  s_mov_b32 s0, 9
.Louter:
  s_mov_b32 s1, 9
.Linner:
  s_sub_u32 s1, s1, 1
  v_cmp_lt_i32 vcc, v0, v1
  s_and_saveexec_b64 s[4:5], vcc
  s_cbranch_execz .Lskip
  v_add_f32 v2, v2, v2
.Lskip:
  s_mov_b64 exec, s[4:5]
  s_cmp_lg_u32 s1, 0
  s_cbranch_scc1 .Linner
  s_sub_u32 s0, s0, 1
  s_cmp_lg_u32 s0, 0
  s_cbranch_scc1 .Louter
  s_endpgm
.Lend:
.size k, .Lend-k
"""


def function_of(text: str) -> Function:
    (function,) = parse_text(text, "k.s").functions
    return function


def test_the_longest_way_is_the_one_that_is_executed() -> None:
    """Against the emulator: a GEMM has no branch that depends on data."""
    emulator, launch, buffers = gemm()
    launch = replace(launch, checks=False, workgroups=(0,))
    (executed,) = tracing.trace(emulator, launch, buffers, 128, "gfx942").workgroups.values()
    function = emulator.code.function
    ((static,),) = static_workgroups(function, {}, 1, 1, {"L0": executed[0].trips["L0"][1]})
    assert static.stream == executed[0].stream
    assert static.spans == executed[0].spans
    assert static.trips == executed[0].trips


@pytest.mark.parametrize("trips", [{}, {"L0": 2, "L1": 4}])
def test_nested_loops_keep_some_iterations_each(trips: dict[str, int]) -> None:
    function = function_of(NESTED)
    ((wave,),) = static_workgroups(function, {}, 1, 1, trips)
    runs = Counter(wave.stream)
    outer, inner = (2, 4) if trips else (3, 6)
    added = next(i.index for i in function.instructions if i.mnemonic == "v_add_f32")
    assert runs[added] == outer * inner  # lanes that pass a check are taken to be there
    assert runs[function.instructions[-1].index] == 1
    in_all = (2, 8) if trips else (1000, 1_000_000)
    assert wave.trips == {"L0": (outer, in_all[0]), "L1": (outer * inner, in_all[1])}


def test_an_access_of_no_lane_is_known_and_one_without_addresses_is_guessed() -> None:
    function, line = function_of(STRIDED), STRIDED[: STRIDED.index("global_load")].count("\n") + 1
    load = MemoryOp(line, "global_load_dword", "global_load", 32, "L0", 1, None)
    none = replace(load, use=LaneUse(lines=0.0, bytes=0.0))
    found = [known_accesses(function, [op], machine("gfx942"), 64) for op in (load, none)]
    accesses = [access for of_site, _ in found for access in of_site.values()]
    assert [(len(access.lines), access.bytes) for access in accesses] == [(2, 256), (0, 0)]
    assert [guessed for _, guessed in found] == [1, 0]


def test_a_loop_with_two_entries_has_no_longest_way() -> None:
    jump = NESTED.replace("s_mov_b32 s0, 9", "s_mov_b32 s0, 9\n  s_cbranch_scc0 .Linner")
    with pytest.raises(KinspectError, match="entered at several places"):
        static_workgroups(function_of(jump), {}, 1, 1, {})


def test_iterations_without_a_launch_lie_on_both_sides_of_the_executed_ones(tool: Tool) -> None:
    options = ("time", GEMM, "--lds", "8192", "--waves", "4", "--no-savings", "--format", "json")

    def loop(*more: str) -> dict[str, Any]:
        run = tool(*options, *more)
        assert run.returncode == 0, run.stderr
        (kernel,) = json.loads(run.stdout)["kernels"]
        (found,) = kernel["loop_times"]
        return {**found, "us": kernel["time"] and kernel["time"]["us"]}

    launch = ("--grid", "16,16")
    executed = loop(*launch, "--args", ARGUMENTS)
    stated = loop(*launch, "--trips", "30")
    unknown = loop()
    assert stated["l2_cycles"] < executed["cycles"] < stated["cycles"]
    assert executed["iterations"] == stated["iterations"] == 30
    assert 0.7 < executed["share"] < 1
    assert executed["us"] < stated["us"]
    assert (unknown["iterations"], unknown["share"], unknown["us"]) == (None, None, None)
    assert unknown["limiter"] == executed["limiter"] == "memory latency"


def test_an_iteration_takes_what_its_slowest_unit_takes(tool: Tool, tmp_path: Any) -> None:
    """Two exponentials, 16 cycles each, and ten instructions of 4 cycles, by one wave."""
    path = tmp_path / "k.s"
    body = STRIDED.replace("  global_load_dword v2, v1, s[4:5]\n", "  v_exp_f32 v5, v3\n")
    path.write_text(body)
    launch = ("--workgroup", "64", "--grid", "304", "--trips", "L0=50")
    run = tool("time", path, *launch, "--format", "json")
    (kernel,) = json.loads(run.stdout)["kernels"]
    (found,) = kernel["loop_times"]
    assert found["cycles"] == found["l2_cycles"]
    assert 40 < found["cycles"] < 80
    assert kernel["time"]["workgroups"] == 304
