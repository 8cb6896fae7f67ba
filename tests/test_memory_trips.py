"""Trips to memory that a path makes one after the other, in kernels without loops and in loops.

What is expected was counted in the fixture's assembly by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from emulated import KERNEL
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.machines.loader import load
from kinspect.inspector.metrics.located import located
from kinspect.inspector.metrics.memory_trips import region_metrics
from kinspect.inspector.metrics.subject import Facts, KernelCode, Subject
from kinspect.inspector.model import KernelReport, Metric
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

FIXTURE = Path(__file__).parent.parent / "rules" / "fixtures" / "hip_trips_gfx942.s"


@pytest.fixture(scope="module")
def kernels() -> Mapping[str, KernelReport]:
    return {kernel.name: kernel for kernel in collect(Request((str(FIXTURE),))).kernels}


def _trips(metrics: Mapping[str, Metric]) -> Mapping[str, object]:
    value = metrics["memory_trips"].value
    assert isinstance(value, Mapping)
    return value


@pytest.mark.parametrize(
    ("name", "trips", "avoidable"),
    [
        ("adds_in_turn", 4, 3),
        ("adds_at_once", 1, 0),
        ("sums_inside", 7, 6),  # each load under a condition of its own
        ("follows", 5, 0),  # each address is the load before
        ("adds_in_place", 4, 0),  # what is loaded may be what was stored
    ],
)
def test_kernels(
    kernels: Mapping[str, KernelReport], name: str, trips: int, avoidable: int
) -> None:
    value = _trips(kernels[name].metrics)
    assert (value["trips"], value["avoidable"]) == (trips, avoidable)


@pytest.mark.parametrize(
    ("name", "trips", "avoidable", "loads", "carried_by"),
    [
        ("planes_in_turn", 4, 3, 4, None),
        ("planes_at_once", 1, 0, 4, None),
        ("sums_columns", 1, 0, 1, None),
        ("sums_by_kind", 1, 0, 1, None),  # what the value is added to depends on it, no load does
        ("sums_picked", 2, 0, 2, None),
        ("follows_a_list", 1, 0, 1, "address"),
    ],
)
def test_loops(
    kernels: Mapping[str, KernelReport],
    name: str,
    trips: int,
    avoidable: int,
    loads: int,
    carried_by: str | None,
) -> None:
    (loop,) = kernels[name].loops
    value = _trips(loop.metrics)
    assert (value["trips"], value["avoidable"]) == (trips, avoidable)
    assert (value["loads"], value["carried_by"]) == (loads, carried_by)


def test_kernels_with_loops_have_the_metric_in_their_loops(
    kernels: Mapping[str, KernelReport],
) -> None:
    metric = kernels["sums_columns"].metrics["memory_trips"]
    assert metric.value is None
    assert metric.note


LOAD = "global_load_dword v4, v2, s[0:1]\ns_waitcnt vmcnt(0)\n"


def _subject(code: str, arch: str = "gfx942") -> Subject:
    function = parse_text(KERNEL.format(arch=arch, code=code), "k.s").kernels[0]
    return located(KernelCode(function, load(arch), Facts(lds_bytes=0, workgroup_size=64)))


def test_of_two_ways_that_exclude_each_other_the_one_with_more_loads_counts() -> None:
    """As often as 200 times in a row: as many paths as nobody could follow."""
    either = (
        "s_cbranch_scc1 .Le{0}\n" + LOAD + "s_branch .Lo{0}\n.Le{0}:\n" + LOAD * 2 + ".Lo{0}:\n"
    )
    subject = _subject("".join(either.format(i) for i in range(200)))
    metric, _ = region_metrics(subject, None)
    value = metric.value
    assert isinstance(value, Mapping)
    assert (value["loads"], value["trips"], value["path"]) == (400, 400, 200 * 5 + 1)


def test_cycles_that_are_not_listed_as_loops_are_passed_once() -> None:
    """Loops nested deeper than is listed are part of the innermost one."""
    depth = 70
    begins = "".join(f".Lloop{i}:\n{LOAD}" for i in range(depth))
    ends = "".join(f"s_cbranch_scc1 .Lloop{i}\n" for i in reversed(range(depth)))
    subject = _subject(begins + ends)
    innermost = max(subject.function.loops, key=lambda loop: loop.depth)
    metric, _ = region_metrics(subject, innermost)
    assert isinstance(metric.value, Mapping)
    assert metric.value["loads"] == depth - innermost.depth + 1


def test_loops_with_several_entries_have_no_order() -> None:
    subject = _subject(f"s_cbranch_scc1 .Lb\n.La:\n{LOAD}.Lb:\n{LOAD}s_cbranch_scc0 .La\n")
    (loop,) = subject.function.loops
    metric, _ = region_metrics(subject, loop)
    assert (loop.irreducible, metric.value) == (True, None)
    assert metric.note


FLAGGED = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_load_dword s8, s[0:1], 0x10
  v_lshlrev_b32_e32 v0, 2, v0
  s_waitcnt lgkmcnt(0)
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc0 .LBB0_3
  s_mov_b64 s[10:11], {flag}
  global_load_dword v1, v0, s[4:5]
  s_waitcnt vmcnt(0)
  s_and_b64 vcc, exec, s[10:11]
  s_cbranch_vccnz .LBB0_4
.LBB0_2:
  global_store_dword v0, v1, s[6:7]
  s_endpgm
.LBB0_3:
  s_cbranch_execz .LBB0_2
.LBB0_4:
  global_load_dword v1, v0, s[4:5] offset:256
  s_waitcnt vmcnt(0)
  global_load_dword v1, v0, s[4:5] offset:512
  s_waitcnt vmcnt(0)
  global_load_dword v1, v0, s[4:5] offset:1024
  s_waitcnt vmcnt(0)
  s_branch .LBB0_2
"""
"""An if whose arms are joined by a flag: one loads an element, the other three."""


@pytest.mark.parametrize(("flag", "loads"), [("0", 3), ("-1", 4), ("s[2:3]", 4)])
def test_arms_joined_by_a_flag_exclude_each_other(flag: str, loads: int) -> None:
    text = KERNEL.format(arch="gfx942", code=FLAGGED.format(flag=flag))
    (kernel,) = analyze_text(text, Context("k.s"))
    assert _trips(kernel.metrics)["loads"] == loads


_LOOP = """
  v_lshlrev_b32_e32 v1, 2, v0
.Lloop:
{code}
  s_add_i32 s2, s2, -1
  s_cmp_eq_u32 s2, 0
  s_cbranch_scc0 .Lloop
"""


@pytest.mark.parametrize(
    ("code", "carried_by"),
    [
        # The sum takes what was loaded, the address beside it does not.
        ("global_load_b32 v2, v1, s[4:5]\n s_waitcnt vmcnt(0)\n"
         "v_dual_add_f32 v3, v2, v3 :: v_dual_add_nc_u32 v1, s3, v1\n", None),
        ("global_load_b32 v2, v1, s[4:5]\n s_waitcnt vmcnt(0)\n"
         "v_dual_mov_b32 v3, 0 :: v_dual_add_nc_u32 v1, v2, v1\n", "address"),
        # Lanes are left out for a part of the iteration only.
        ("global_load_b32 v2, v1, s[4:5]\n s_waitcnt vmcnt(0)\n s_mov_b32 s8, exec_lo\n"
         "v_cmpx_lt_f32_e32 0, v2\n v_add_f32_e32 v3, v2, v3\n s_or_b32 exec_lo, exec_lo, s8\n"
         "v_add_nc_u32_e32 v1, s3, v1\n", None),
        # Lanes whose value is found go on no more.
        ("global_load_b32 v2, v1, s[4:5]\n s_waitcnt vmcnt(0)\n v_cmp_lt_f32_e32 vcc_lo, 0, v2\n"
         "s_and_not1_b32 exec_lo, exec_lo, vcc_lo\n v_add_nc_u32_e32 v1, s3, v1\n", "condition"),
        ("global_load_b32 v2, v1, s[4:5]\n s_waitcnt vmcnt(0)\n v_add_f32_e32 v2, 1.0, v2\n"
         "global_store_b32 v1, v2, s[4:5]\n v_add_nc_u32_e32 v1, s3, v1\n", "memory"),
    ],
)  # fmt: skip
def test_what_carries_a_loop(code: str, carried_by: str | None) -> None:
    subject = _subject(_LOOP.format(code=code), "gfx1100")
    (loop,) = subject.function.loops
    metric, _ = region_metrics(subject, loop)
    assert isinstance(metric.value, Mapping)
    assert metric.value["carried_by"] == carried_by


@pytest.mark.parametrize(("name", "narrow"), [("picked_halves", 4), ("sums_row", 0)])
def test_narrow_loads_that_loaded_values_choose(name: str, narrow: int) -> None:
    report = collect(Request((str(FIXTURE.parent / "hip_once_gfx942.s"),), passes=False))
    (kernel,) = (kernel for kernel in report.kernels if kernel.name == name)
    metrics = kernel.loops[0].metrics if kernel.loops else kernel.metrics
    chosen = metrics["chosen_accesses"].value
    assert isinstance(chosen, Mapping)
    assert chosen["narrow"] == narrow
