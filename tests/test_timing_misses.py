"""Where lines come from: what is stored over what was read, and what is read again from afar."""

from __future__ import annotations

import pytest
from kinspect.inspector.timing.changed_launch import with_halved_workgroups
from kinspect.inspector.timing.timed import LaunchTime, timed
from test_timing_launches import launched, timing_of

WAVES = 4
HEAD = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
.globl k
.type k,@function
k:
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_load_dwordx2 s[8:9], s[0:1], 0x10
  v_lshlrev_b32 v1, 2, v0
  v_mov_b32 v3, 0
  s_waitcnt lgkmcnt(0)
  s_mul_i32 s10, s2, s9
  v_add_u32 v1, s10, v1
  v_mov_b32 v4, v1
"""
LOOP = """
  s_mov_b32 s11, s8
  v_mov_b32 v1, v4
.L{0}:
  global_load_dword v2, v1, s[4:5]
  v_add_u32 v1, 0x400, v1
  s_sub_u32 s11, s11, 1
  s_cmp_lg_u32 s11, 0
  s_waitcnt vmcnt(0)
  v_add_f32 v3, v3, v2
  s_cbranch_scc1 .L{0}
"""
COPY = """
  global_load_dword v2, v1, s[4:5]
  s_waitcnt vmcnt(0)
  global_store_dword v1, v2, s[6:7]
"""
TAIL = """
  s_endpgm
.Lend:
.size k, .Lend-k
.rodata
.amdhsa_kernel k
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 8
  .amdhsa_kernarg_size 24
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_system_sgpr_workgroup_id_x 1
.end_amdhsa_kernel
"""


def time_of(body: str, arguments: str, workgroups: int) -> LaunchTime:
    launch = launched(HEAD + body + TAIL, arguments, (workgroups, 1, 1), 64 * WAVES)
    return timed(timing_of(*launch, resident=8))


@pytest.mark.parametrize("output", ["4:5", "6:7"])
def test_what_is_stored_over_what_was_read_goes_to_memory(output: str) -> None:
    workgroups, row = 1 << 18, 1024
    size = f"f32[{workgroups * row // 4}]=zeros"
    body = COPY.replace("6:7", output)
    found = time_of(body, f"{size}, {size}, i32 1, i32 {row}", workgroups)
    assert found.memory_bytes == pytest.approx(2 * workgroups * row, rel=0.02)


@pytest.mark.parametrize(
    ("row", "workgroups", "times"),
    [
        (8 << 10, 2432, 1),  # 304 rows fit into the 4 MB of an XCD's L2
        (64 << 10, 2432, 1),  # not into the L2, all 159 MB into the Infinity Cache
        (1 << 20, 1216, 2),  # all 1,216 rows run at a time: 1.3 GB
    ],
)
def test_a_row_that_is_read_twice_comes_from_memory_twice_where_no_cache_holds_it(
    row: int, workgroups: int, times: int
) -> None:
    arguments = f"f32[{workgroups * row // 4}]=zeros, f32[1], i32 {row // 1024}, i32 {row}"
    once = time_of(LOOP.format(0), arguments, workgroups)
    twice = time_of(LOOP.format(0) + LOOP.format(1), arguments, workgroups)
    assert once.memory_bytes == pytest.approx(workgroups * row, rel=0.03)
    assert twice.memory_bytes == pytest.approx(times * workgroups * row, rel=0.03)


def test_a_row_that_all_read_in_an_outer_loop_comes_from_the_l2() -> None:
    """Eight times 64 KB, which the L1 does not hold; 8 workgroups of a CU read them together."""
    outer = "\n  s_mov_b32 s12, 8\n.Louter:\n" + LOOP.format(0)
    outer += "\n  s_sub_u32 s12, s12, 1\n  s_cmp_lg_u32 s12, 0\n  s_cbranch_scc1 .Louter\n"
    row, workgroups = 64 << 10, 2432
    found = time_of(outer, f"f32[{row // 4}]=zeros, f32[1], i32 {row // 1024}, i32 0", workgroups)
    assert found.memory_bytes < 10 * row
    moved, bytes_per_s = 8 * row * workgroups / 8, 15.4e12  # of the L2: mt4g
    assert found.units["l2"] * found.us == pytest.approx(moved / bytes_per_s * 1e6, rel=0.15)


def test_atomics_on_one_line_follow_one_another() -> None:
    """A channel of the L2 takes a request a clock; on lines of their own they take no turns."""
    add = "  v_lshlrev_b32 v5, 2, v0\n  global_atomic_add_f32 v{}, v3, s[6:7]\n"
    workgroups, size = 1 << 16, 1024
    arguments = f"f32[{workgroups * size // 4}]=zeros, f32[{workgroups * size // 4}]=zeros, i32 1"
    arguments += f", i32 {size}"
    none = time_of("", arguments, workgroups)
    apart = time_of(add.format(1), arguments, workgroups)
    together = time_of(add.format(5), arguments, workgroups)
    assert apart.queue_added == none.queue_added == 0
    assert together.cycles == pytest.approx(workgroups, rel=0.01)  # each wave has lines of its own
    assert together.queue_added > 0.2


@pytest.mark.parametrize("left", [0.5, 0.25])
def test_fewer_workgroups_have_fewer_atomics_on_one_line(left: float) -> None:
    """A saving that launches a part of the workgroups saves as many turns at the line."""
    add = "  v_lshlrev_b32 v5, 2, v0\n  global_atomic_add_f32 v5, v3, s[6:7]\n"
    workgroups, size = 1 << 16, 1024
    arguments = f"f32[{workgroups * size // 4}]=zeros, f32[{workgroups * size // 4}]=zeros, i32 1"
    launch = launched(HEAD + add + TAIL, f"{arguments}, i32 {size}", (workgroups, 1, 1), 64 * WAVES)
    whole = timing_of(*launch, resident=8)
    part = whole.with_grid(int(left * workgroups), int(left * whole.placement.busiest))
    assert sum(part.queued.values()) == pytest.approx(left * sum(whole.queued.values()))
    assert timed(part).cycles == pytest.approx(left * timed(whole).cycles, rel=0.02)


@pytest.mark.parametrize(("in_loop", "times"), [(False, 2), (True, 1)])
def test_workgroups_that_share_a_loop_each_make_the_atomics_behind_it(
    in_loop: bool, times: int
) -> None:
    add = "  v_lshlrev_b32 v5, 2, v0\n  global_atomic_add_f32 v5, v3, s[6:7]\n"
    loop = LOOP.format(0)
    body = loop.replace("  v_add_f32", add + "  v_add_f32") if in_loop else loop + add
    workgroups, row = 304, 64 << 10
    arguments = f"f32[{workgroups * row // 4}]=zeros, f32[{row}]=zeros, i32 64, i32 {row}"
    launch = launched(HEAD + body + TAIL, arguments, (workgroups, 1, 1), 64 * WAVES)
    whole = timing_of(*launch, resident=8)
    more = with_halved_workgroups(whole)
    assert sum(whole.queued.values()) > 0
    assert more is not None
    assert more.workgroups_in_grid == 2 * workgroups
    assert sum(more.queued.values()) == pytest.approx(times * sum(whole.queued.values()))


def test_a_loop_with_two_ways_back_runs_as_often_as_with_one() -> None:
    """LLVM jumps around a guarded first block: two loops to the eye; neither runs alone."""
    two = LOOP.format(0).replace("  global_load", ".Lbody:\n  global_load")
    two = two.replace(
        "  s_cbranch_scc1 .L0\n",
        """\
  s_cbranch_scc0 .Lout
  s_cbranch_execnz .L0
  s_branch .Lbody
.Lout:
""",
    ).replace(".L0:\n", ".L0:\n  s_nop 0\n")
    workgroups, row = 2432, 64 << 10
    arguments = f"f32[{workgroups * row // 4}]=zeros, f32[1], i32 {row // 1024}, i32 {row}"
    one = time_of(LOOP.format(0), arguments, workgroups)
    assert time_of(two, arguments, workgroups).us == pytest.approx(one.us, rel=0.05)


def test_an_atomic_reads_its_line_and_writes_it() -> None:
    workgroups, size = 1 << 14, 1024
    arguments = f"f32[1], f32[{workgroups * size // 4}]=zeros, i32 1, i32 {size}"
    store, add = "  global_store_dword v1, v3, s[6:7]\n", "  global_atomic_add_f32 v1, v3, s[6:7]\n"
    stored, added = (time_of(body, arguments, workgroups) for body in (store, add))
    assert stored.memory_bytes == pytest.approx(workgroups * size, rel=0.02)
    assert added.memory_bytes == pytest.approx(2 * workgroups * size, rel=0.02)


@pytest.mark.parametrize("who", ["last", "first"])
def test_a_loop_of_the_last_workgroup_alone_is_timed_by_itself(who: str) -> None:
    workgroups = 1 << 14
    number = workgroups - 1 if who == "last" else 0
    guard = f"  s_cmp_lg_u32 s2, {number}\n  s_cbranch_scc1 .Lout\n"
    arguments = f"f32[{1 << 22}]=zeros, f32[1], i32 4096, i32 0"
    body = guard + LOOP.format(0) + ".Lout:\n"
    timing = timing_of(
        *launched(HEAD + body + TAIL, arguments, (workgroups, 1, 1), 256), resident=8
    )
    if who == "first":  # nobody looks at it
        assert timing.last is None
        return
    one = time_of(LOOP.format(0), arguments, 1)
    assert timing.last is not None
    assert timed(timing.last).us == pytest.approx(one.us, rel=0.02)
    assert timed(timing).us < 0.1 * one.us
