"""What a wave of a loop stands still for its loads, against times worked out by hand.

An instruction takes four clocks here, and a load comes back after `LATENCY`.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from kinspect.inspector.metrics.exposed_latency import LATENCY
from kinspect.inspector.model import Scalar
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context, Overrides

ISSUE = 4
LOOP = """
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.text
	.globl	k
	.type	k,@function
k:
{before}
.LBB0_1:
{loop}
	s_add_i32 s2, s2, -1
	s_cmp_lg_u32 s2, 0
	s_cbranch_scc1 .LBB0_1
	s_endpgm
.Lfunc_end0:
	.size	k, .Lfunc_end0-k
	.section	.rodata,"a",@progbits
	.amdhsa_kernel k
		.amdhsa_next_free_vgpr 32
		.amdhsa_next_free_sgpr 16
		.amdhsa_accum_offset 32
	.end_amdhsa_kernel
"""
LOAD = "\tglobal_load_dword v{0}, v4, s[0:1]\n"
ADD = "\tv_add_f32_e32 v1, v1, v{0}\n"


def exposed(loop: str, before: str = "") -> Mapping[str, Scalar]:
    text = LOOP.format(before=before, loop=loop)
    (kernel,) = analyze_text(text, Context("k.s", overrides=Overrides(waves_per_workgroup=4)))
    (only,) = kernel.loops
    value = only.metrics["latency.exposed"].value
    assert isinstance(value, Mapping)
    return value


def test_a_load_that_is_used_at_once_is_waited_for_from_its_issue_on() -> None:
    value = exposed(LOAD.format(2) + "\ts_waitcnt vmcnt(0)\n" + ADD.format(2))
    assert value["cycles"] == LATENCY - ISSUE


def test_loads_of_a_batch_come_back_together() -> None:
    loop = (
        LOAD.format(2) + LOAD.format(3)
        + "\ts_waitcnt vmcnt(1)\n" + ADD.format(2)
        + "\ts_waitcnt vmcnt(0)\n" + ADD.format(3)
    )  # fmt: skip
    # The second was issued a slot later than the first, in which its sum is done.
    assert exposed(loop)["cycles"] == LATENCY - 2 * ISSUE


@pytest.mark.parametrize("work", [10, 60, 200])
def test_a_load_an_iteration_ahead_is_hidden_by_the_work_between(work: int) -> None:
    loop = (
        "\tv_mov_b32_e32 v5, v2\n" + LOAD.format(2) + ADD.format(5) * work
        + "\ts_waitcnt vmcnt(0)\n"
    )  # fmt: skip
    value = exposed(loop)
    # The work stands between the load and its wait.
    assert value["cycles"] == max(0, LATENCY - ISSUE * (work + 1))


def test_loads_two_iterations_ahead_wait_half_as_long() -> None:
    loop = (
        "\ts_waitcnt vmcnt(1)\n\tv_mov_b32_e32 v5, v2\n\tv_mov_b32_e32 v2, v3\n"
        + LOAD.format(3) + ADD.format(5)
    )  # fmt: skip
    ahead = exposed(loop, before=LOAD.format(2) + LOAD.format(3))
    single = exposed(LOAD.format(2) + "\ts_waitcnt vmcnt(0)\n" + ADD.format(2))
    assert isinstance(single["cycles"], int)
    assert isinstance(ahead["cycles"], int)
    assert abs(ahead["cycles"] - single["cycles"] / 2) < 10 * ISSUE


def test_a_loop_without_loads_waits_for_none() -> None:
    assert exposed("\tv_add_f32_e32 v1, v1, v2\n")["cycles"] == 0


SWITCH = """
	s_cmp_eq_u32 s4, {case}
	s_cbranch_scc0 .LBB0_{next}
	global_load_dword v2, v4, s[0:1]
	s_waitcnt vmcnt(0)
	v_add_f32_e32 v1, v1, v2
.LBB0_{next}:
"""


def test_branches_that_the_wave_takes_one_of_do_not_add_up() -> None:
    """Three cases of a switch, of which an iteration executes one at most."""
    loop = "".join(SWITCH.format(case=case, next=case + 2) for case in range(3))
    assert exposed(loop)["cycles"] == 0


def test_what_is_skipped_without_active_lanes_counts() -> None:
    loop = (
        "\ts_and_saveexec_b64 s[6:7], vcc\n\ts_cbranch_execz .LBB0_2\n"
        + LOAD.format(2) + "\ts_waitcnt vmcnt(0)\n" + ADD.format(2)
        + ".LBB0_2:\n\ts_or_b64 exec, exec, s[6:7]\n"
    )  # fmt: skip
    assert exposed(loop)["cycles"] == LATENCY - ISSUE


MODULE = """
module attributes {"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @k() { tt.return }
}
"""


@pytest.mark.parametrize(
    ("loads", "stages", "narrow"),
    # The first load is waited for, and the second one comes meanwhile.
    [(("ushort",), None, 16), (("dword", "ushort"), 3, None), (("ubyte", "dword"), None, 8)],
)
def test_triton_leaves_narrow_loads_where_they_are(
    loads: tuple[str, ...], stages: int | None, narrow: int | None
) -> None:
    load = "".join(f"\tglobal_load_{name} v{2 + n}, v4, s[0:1]\n" for n, name in enumerate(loads))
    waited = load + "".join(
        f"\ts_waitcnt vmcnt({len(loads) - 1 - n})\n" + ADD.format(2 + n) for n in range(len(loads))
    )
    assert (exposed(waited)["stages"], exposed(waited)["narrow"]) == (None, None)
    context = Context("k.s", ttgir=MODULE, overrides=Overrides(waves_per_workgroup=4))
    (kernel,) = analyze_text(LOOP.format(before="", loop=waited), context)
    value = kernel.loops[0].metrics["latency.exposed"].value
    assert isinstance(value, Mapping)
    assert (value["stages"], value["narrow"]) == (stages, narrow)
