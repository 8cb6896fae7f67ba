"""More of what the emulator notices: workgroups that race, hazards, undefined registers, hangs."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from emulated import OUT, emulator, troubles
from kinspect.inspector.cli.emulate import emulate
from kinspect.inspector.emulator.grid import Launch
from kinspect.inspector.emulator.lockstep import EmulationLimitError
from kinspect.inspector.emulator.machine import KINDS
from kinspect.inspector.emulator.memory import buffer_of


def test_the_guide_says_what_each_finding_means() -> None:
    readme = (Path(__file__).parents[1] / "docs/guides/emulate.md").read_text()
    help_text = " ".join((emulate.help or "").split())
    for kind in KINDS:
        assert f"`{kind}`" in readme
        assert kind in help_text


# ---------------------------------------------------------------------- hangs and barriers

SPIN = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_mov_b32_e32 v1, 16
v_mov_b32_e32 v2, 0
s_waitcnt lgkmcnt(0)
.LBB0_1:
global_atomic_or v3, v1, v2, s[4:5] sc0
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v3
s_cbranch_vccnz .LBB0_1
"""


def test_a_hang_says_on_what_waves_spin() -> None:
    out = buffer_of(np.zeros(64, np.uint32), OUT, "locks")
    launch = Launch((1, 1, 1), (128, 1, 1), 0, struct.pack("<Q", OUT), blocks=500)
    with pytest.raises(EmulationLimitError) as caught:
        emulator(SPIN).run(launch, [out])
    (trouble,) = caught.value.troubles
    assert trouble.kind == "hang"
    assert "waves 0, 1 of workgroup 0 spin on locks + 16 bytes" in trouble.detail
    assert trouble.detail in caught.value.message


def test_a_barrier_in_divergent_flow() -> None:
    """Half of a wave's lanes go round the barrier; a wave that goes round it as a whole may."""
    parted = "v_cmp_gt_u32_e32 vcc, {0}, v0\ns_and_saveexec_b64 s[4:5], vcc\ns_barrier\n"
    assert troubles(parted.replace("{0}", "32")) == {"divergent_barrier"}
    assert troubles(parted.replace("{0}", "64")) == set()


# ---------------------------------------------------------------------- global memory


GLOBAL = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
v_mov_b32_e32 v2, s2
v_mov_b32_e32 v5, 0
s_waitcnt lgkmcnt(0)
"""
STORE = "global_store_dword v1, v2, s[4:5]\ns_waitcnt vmcnt(0)\n"
LOAD = "global_load_dword v4, v1, s[4:5]\ns_waitcnt vmcnt(0)\n"
ATOMIC = "global_atomic_add v5, v2, s[4:5] offset:4096 sc1\ns_waitcnt vmcnt(0)\n"
ONLY_FIRST = "s_cmp_eq_u32 s2, 0\ns_cbranch_scc0 .LBB0_{0}\n"


def test_workgroups_that_write_different_values_race() -> None:
    assert troubles(GLOBAL + STORE, groups=2) == {"global_race"}
    assert troubles(GLOBAL + STORE, groups=1) == set()
    same = GLOBAL.replace("v2, s2", "v2, 7")
    assert troubles(same + STORE, groups=2) == set()


@pytest.mark.parametrize(
    ("lanes", "found"), [("-1", {"global_race"}), ("3", {"global_race"}), ("1", set())]
)
def test_lanes_that_store_different_values_to_one_place(lanes: str, found: set[str]) -> None:
    """Of one wave, in one instruction; the same value from all, or one lane alone, is right."""
    of_lane = "v_and_b32_e32 v2, 63, v0\n"
    code = GLOBAL + of_lane + f"v_mov_b32_e32 v1, 0\ns_mov_b64 exec, {lanes}\n"
    assert troubles(code + STORE) == found
    assert troubles(code.replace(of_lane, "v_mov_b32_e32 v2, 7\n") + STORE) == set()


def test_a_workgroup_that_reads_what_another_writes_races() -> None:
    first_writes = GLOBAL + ONLY_FIRST.format(1) + "v_mov_b32_e32 v2, 9\n" + STORE + ".LBB0_1:\n"
    assert troubles(first_writes + LOAD, groups=2) == {"global_race"}
    first_writes = GLOBAL + LOAD + ONLY_FIRST.format(1) + "v_mov_b32_e32 v2, 9\n" + STORE
    assert troubles(first_writes + ".LBB0_1:\n", groups=2) == {"global_race"}


def races_of(code: str, buffers: list[tuple[int, str]]) -> set[tuple[str, str]]:
    """Kinds of what two workgroups do wrong, and in which buffer they race."""
    launch = Launch((2, 1, 1), (128, 1, 1), 0, struct.pack("<Q", OUT))
    memory = [buffer_of(np.zeros(64, np.uint32), OUT + at, name) for at, name in buffers]
    outcome = emulator(code).run(launch, memory)
    return {
        (trouble.kind, trouble.detail.partition(" writes in ")[2].partition(",")[0])
        for trouble in outcome.troubles
    }


def test_a_race_within_a_buffer_shows_beside_lanes_past_its_end() -> None:
    """128 lanes of dwords, 64 of them before or behind a buffer of 256 bytes."""
    outside, race = ("outside", ""), ("global_race", "o")
    for at in (0, 256):
        assert races_of(GLOBAL + STORE, [(at, "o")]) == {outside, race}
        same = GLOBAL.replace("v2, s2", "v2, 7")
        assert races_of(same + STORE, [(at, "o")]) == {outside}
    assert races_of(GLOBAL + STORE, [(4096, "o")]) == {outside}
    first_writes = GLOBAL + ONLY_FIRST.format(1) + "v_mov_b32_e32 v2, 9\n" + STORE + ".LBB0_1:\n"
    of_wave = {trouble for trouble, _ in races_of(first_writes + LOAD, [(128, "o")])}
    assert of_wave == {"outside", "global_race"}


def test_an_access_of_two_buffers_races_in_the_second() -> None:
    """In the first both workgroups write the same."""
    code = GLOBAL + "v_lshlrev_b32_e32 v1, 2, v0\nv_mov_b32_e32 v3, 7\n"
    code += "v_cmp_gt_u32_e32 vcc, 32, v0\nv_cndmask_b32_e32 v2, v2, v3, vcc\n"
    second = [(128, "o"), (384, "p")]
    store = STORE.replace("s[4:5]", "s[4:5] offset:256")
    assert races_of(code + store, second) == {("outside", ""), ("global_race", "p")}


def test_atomics_of_both_may_order_them() -> None:
    """As a lock does: written and released, then acquired and read."""
    code = GLOBAL + ONLY_FIRST.format(1) + "v_mov_b32_e32 v2, 9\n" + STORE + ".LBB0_1:\n"
    assert troubles(code + ATOMIC + LOAD, groups=2) == set()
    assert troubles(code + LOAD + ATOMIC, groups=2) == {"global_race"}


def test_atomics_do_not_race_with_each_other() -> None:
    assert troubles(GLOBAL + ATOMIC, groups=2) == set()
    zeroed = STORE.replace("s[4:5]", "s[4:5] offset:4096")
    first = ONLY_FIRST.format(1) + zeroed.replace("v2,", "v0,") + ".LBB0_1:\n"
    others = "s_cmp_eq_u32 s2, 1\ns_cbranch_scc0 .LBB0_2\n" + ATOMIC + ".LBB0_2:\n"
    assert troubles(GLOBAL + first + others, groups=2) == {"global_race"}


# What lane 127 - i of the other wave stored; each lane's place is v1, its mirror's v6.
MIRROR = GLOBAL + "v_mov_b32_e32 v2, v0\nv_xor_b32_e32 v6, 0x1fc, v1\n"
LOAD_MIRRORED = LOAD.replace("v1,", "v6,")
NARROW = "v_and_b32_e32 v1, 0xfc, v1\n"
"""Lanes of both waves have the same places."""
ONLY_FIRST_WAVE = """
v_readfirstlane_b32 s6, v0
s_cmp_eq_u32 s6, 0
s_cbranch_scc0 .LBB0_{0}
"""


def details(code: str, arch: str = "gfx942", groups: int = 1) -> set[str]:
    """What two waves of each workgroup do wrong, in words."""
    out = buffer_of(np.zeros(4096, np.uint32), OUT, "out")
    launch = Launch((groups, 1, 1), (128, 1, 1), 4096, struct.pack("<Q", OUT))
    return {trouble.detail for trouble in emulator(code, arch).run(launch, [out]).troubles}


def test_a_wave_that_reads_what_another_of_its_workgroup_wrote_races() -> None:
    assert details(MIRROR + STORE + LOAD_MIRRORED) == {
        "reads what another wave of its workgroup writes in out, and no barrier stands between"
    }
    assert troubles(MIRROR + STORE + LOAD_MIRRORED) == {"global_race"}
    assert troubles(MIRROR + STORE + LOAD) == set()


def test_a_barrier_orders_the_waves_of_a_workgroup() -> None:
    assert troubles(MIRROR + STORE + "s_barrier\n" + LOAD_MIRRORED) == set()
    # It orders what comes before it, and only that.
    assert troubles(MIRROR + "s_barrier\n" + STORE + LOAD_MIRRORED) == {"global_race"}
    in_turn = STORE + "s_barrier\n" + LOAD_MIRRORED + "s_barrier\n"
    assert troubles(MIRROR + in_turn + in_turn) == set()


def test_an_atomic_orders_the_waves_of_a_workgroup() -> None:
    assert troubles(MIRROR + STORE + ATOMIC + LOAD_MIRRORED) == set()
    of_lds = "v_mov_b32_e32 v7, 0\nds_write_b32 v7, v7\ns_waitcnt lgkmcnt(0)\ns_barrier\n"
    of_lds = MIRROR + of_lds + STORE + "ds_add_u32 v7, v7\ns_waitcnt lgkmcnt(0)\n"
    assert troubles(of_lds + LOAD_MIRRORED) == set()


def test_a_split_barrier_orders_the_waves_of_a_workgroup() -> None:
    """128 work-items are four waves here."""
    head = """
        s_load_b64 s[4:5], s[0:1], 0x0
        v_and_b32_e32 v0, 0x3ff, v0
        v_lshlrev_b32_e32 v1, 2, v0
        v_xor_b32_e32 v6, 0x1fc, v1
        s_wait_kmcnt 0x0
        global_store_b32 v1, v0, s[4:5]
        s_wait_storecnt 0x0
    """
    load = "global_load_b32 v4, v6, s[4:5]\ns_wait_loadcnt 0x0\n"
    barrier = "s_barrier_signal -1\ns_barrier_wait -1\n"
    assert troubles(head + barrier + load, arch="gfx1201") == set()
    assert troubles(head + load + barrier, arch="gfx1201") == {"global_race"}


def test_waves_of_a_workgroup_that_write_to_one_place() -> None:
    """In one step, or one behind the other."""
    overwrites = {
        "writes what another wave of its workgroup writes in out, and no barrier stands between"
    }
    in_one_step = MIRROR + NARROW + STORE
    assert details(in_one_step) == overwrites
    assert details(MIRROR.replace("v2, v0", "v2, 7") + NARROW + STORE) == set()
    later = MIRROR + NARROW + "v_mov_b32_e32 v2, 7\n" + ONLY_FIRST_WAVE.format(1) + STORE
    for value, barrier, found in ((8, "", overwrites), (7, "", set()), (8, "s_barrier\n", set())):
        second = f"s_cbranch_scc1 .LBB0_2\nv_mov_b32_e32 v2, {value}\n{STORE}.LBB0_2:\n"
        assert details(f"{later}.LBB0_1:\n{barrier}{second}") == found


def test_equal_values_of_waves_leave_what_workgroups_do() -> None:
    """Each wave may read what all have written; a workgroup that writes something else races."""
    of_group = MIRROR.replace("v2, v0", "v2, 7") + NARROW + STORE + LOAD
    assert details(of_group) == set()
    assert details(of_group + "v_mov_b32_e32 v2, 8\n" + ONLY_FIRST_WAVE.format(1) + STORE
                   + ".LBB0_1:\n") == {
        "writes what another wave of its workgroup writes in out, and no barrier stands between"
    }  # fmt: skip
    first = GLOBAL + NARROW + ONLY_FIRST.format(1) + "v_mov_b32_e32 v2, 7\n" + STORE
    then = "s_cbranch_scc1 .LBB0_2\nv_mov_b32_e32 v2, 8\n" + STORE + ".LBB0_2:\n"
    assert details(first + ".LBB0_1:\n" + then, groups=2) == {
        "writes what another workgroup reads or writes in out, and no atomic of both stands between"
    }


def test_a_wave_may_store_over_what_all_have_loaded() -> None:
    code = MIRROR + NARROW + LOAD + ONLY_FIRST_WAVE.format(1) + STORE + ".LBB0_1:\n"
    assert troubles(code) == set()
    assert troubles(code + LOAD) == {"global_race"}


def test_accesses_that_begin_inside_of_a_granule() -> None:
    """Stores of 16 bytes at multiples of 4: neighbours do not meet."""
    code = GLOBAL.replace("v_lshlrev_b32_e32 v1, 2, v0", "v_mul_u32_u24_e32 v1, 16, v0")
    code += "s_mulk_i32 s2, 0x800\nv_add_u32_e32 v1, s2, v1\nv_add_u32_e32 v1, 4, v1\n"
    wide = "global_store_dwordx4 v1, v[4:7], s[4:5]\n"
    defined = "".join(f"v_mov_b32_e32 v{row}, s2\n" for row in range(4, 8))
    assert troubles(code + defined + wide, groups=2) == set()


def test_misaligned_atomics_and_scalar_loads() -> None:
    assert troubles(GLOBAL + ATOMIC.replace("4096", "4094")) == {"misaligned"}
    wide = "global_atomic_add_x2 v5, v[2:3], s[4:5] offset:"
    defined = "v_mov_b32_e32 v3, 0\n"
    assert troubles(GLOBAL + defined + wide + "4\n") == {"misaligned"}
    assert troubles(GLOBAL + defined + wide + "8\n") == set()
    assert troubles("s_load_dword s4, s[0:1], 0x2\n") == {"misaligned"}
    unaligned = "global_load_dword v4, v5, s[4:5] offset:2\ns_waitcnt vmcnt(0)\n"
    assert troubles(GLOBAL + unaligned) == set()  # LLVM: unaligned access mode on AMDHSA


# ---------------------------------------------------------------------- undefined registers


def test_a_register_that_nothing_has_written() -> None:
    """It matters where it is stored, where it addresses and where it decides about an access."""
    assert troubles(GLOBAL + STORE.replace("v2", "v9")) == {"uninitialised"}
    assert "uninitialised" in troubles(GLOBAL + STORE.replace("v1,", "v9,"))
    skipped = "s_cmp_eq_u32 s20, 0\ns_cbranch_scc0 .LBB0_1\n" + STORE + ".LBB0_1:\n"
    assert troubles(GLOBAL + skipped) == {"uninitialised"}


def test_reading_undefined_registers_is_no_finding_by_itself() -> None:
    """What LLVM does on purpose: a half that is masked off, a result that nobody uses."""
    half = "v_and_b32_e32 v3, 0xffff, v9\nv_mul_u32_u24_e32 v3, 0, v3\nv_add_u32_e32 v2, v2, v3\n"
    assert troubles(GLOBAL + half + "v_pk_add_f16 v10, v11, v12\n" + STORE) == set()


def test_the_undefined_register_is_named() -> None:
    code = GLOBAL + "v_add_u32_e32 v3, v9, v8\n" + "v_add_u32_e32 v2, v2, v9\n" + STORE
    out = buffer_of(np.zeros(64, np.uint32), OUT, "out")
    launch = Launch((1, 1, 1), (64, 1, 1), 0, struct.pack("<Q", OUT))
    outcome = emulator(code).run(launch, [out])
    (trouble,) = outcome.troubles
    assert trouble.detail.startswith("v9 is read and nothing has written it; the access of line")
    assert out.data[:4].view(np.uint32)[0] == 0  # the buffers themselves are left alone


# ---------------------------------------------------------------------- matrix instructions

PRODUCT = "v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]\n"
"""8 passes on gfx942: its result can be read 11 wait states later."""


def product_after(*lines: str, arch: str = "gfx942") -> set[str]:
    return {kind for kind in troubles("\n".join(lines) + "\n", arch=arch) if "mfma" in kind}


@pytest.mark.parametrize(
    ("arch", "needed"), [("gfx90a", 19), ("gfx942", 11), ("gfx950", 12)], ids=lambda v: str(v)
)
def test_a_matrix_result_is_read_too_early(arch: str, needed: int) -> None:
    """LLVM's GCNHazardRecognizer; passes of v_mfma_f32_32x32x8 f16: 16 on gfx90a, 8 later."""
    product = PRODUCT.replace("8_f16", "8f16")
    read = "v_mov_b32_e32 v20, v3"
    first = f"s_nop {min(needed, 16) - 1}"
    enough = [first, f"s_nop {needed - 17}"] if needed > 16 else [first]
    short = [first, f"s_nop {needed - 18}"] if needed > 17 else [f"s_nop {needed - 2}"]
    assert product_after(product, *enough, read, arch=arch) == set()
    assert product_after(product, *short, read, arch=arch) == {"mfma_hazard"}


def test_an_accumulator_that_goes_on_needs_no_wait() -> None:
    assert product_after(PRODUCT, PRODUCT) == set()
    part = PRODUCT.replace("v[0:15], v[16", "v[4:19], v[16").replace("v[0:15]\n", "v[4:19]\n")
    assert product_after(PRODUCT, part) == {"mfma_hazard"}


def test_a_matrix_instruction_behind_the_valu() -> None:
    assert product_after("v_mov_b32_e32 v16, 0", PRODUCT) == {"mfma_hazard"}
    assert product_after("v_mov_b32_e32 v16, 0", "s_nop 0", PRODUCT) == {"mfma_hazard"}
    assert product_after("v_mov_b32_e32 v16, 0", "s_nop 1", PRODUCT) == set()


def test_behind_a_dot_product() -> None:
    """As LLVM 22 compiles llvm.amdgcn.fdot2 and sdot4 for gfx90a and gfx942; CDNA4 ISA, 7.6."""
    dot, use = "v_dot2c_f32_f16_e32 v2, s3, v0", "v_mul_f32_e32 v0, 2.0, v2"
    assert product_after(dot, "s_nop 1", use) == {"mfma_hazard"}
    assert product_after(dot, "s_nop 2", use) == set()
    assert product_after(dot, dot) == set()
    assert product_after(dot, dot.replace("v0", "v2")) == {"mfma_hazard"}
    assert product_after(dot, "v_mov_b32_e32 v2, 0") == {"mfma_hazard"}
    assert product_after(dot, dot, PRODUCT.replace("v[16:17]", "v[2:3]")) == set()


def test_a_hazard_across_a_loop() -> None:
    """The value is read where the next iteration begins."""
    loop = [".LBB0_1:", "v_mov_b32_e32 v20, v3", "s_sub_u32 s3, s3, 1", "s_cmp_gt_u32 s3, 0"]
    code = ["s_mov_b32 s3, 3", *loop, PRODUCT + "s_nop 5", "s_cbranch_scc1 .LBB0_1"]
    assert product_after(*code) == {"mfma_hazard"}
    assert product_after(*code[:-2], PRODUCT + "s_nop 9", code[-1]) == set()
