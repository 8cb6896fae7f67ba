"""What the emulator notices: races in LDS, missing waits, accesses that miss, waves that hang."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from emulated import OUT, emulator, troubles
from kinspect.inspector.emulator.checks.lds_watch import LdsWatch
from kinspect.inspector.emulator.checks.watched import WatchedWorkgroups
from kinspect.inspector.emulator.grid import Launch
from kinspect.inspector.emulator.launch import Emulator
from kinspect.inspector.emulator.lockstep import EmulationLimitError
from kinspect.inspector.emulator.machine import LaneAccess
from kinspect.inspector.emulator.memory import Buffer, LocalMemory, buffer_of
from kinspect.inspector.emulator.waves import OutstandingOperation
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.machines.loader import load

DATA = Path(__file__).parent / "data" / "emulator"


# v1: a place of its own for each of 128 lanes; v2: that of the other wave's lane.
PLACES = "v_lshlrev_b32_e32 v1, 2, v0\nv_xor_b32_e32 v2, 0x100, v1\n"
WRITE = "ds_write_b32 v1, v0\n"
WAIT = "s_waitcnt lgkmcnt(0)\n"
BARRIER = "s_barrier\n"
READ = "ds_read_b32 v3, v2\n"


def test_a_collision_within_a_step_is_no_late_access() -> None:
    """Though the same write met one that its wave had not waited for at the barrier."""
    barriers = np.zeros(1, np.int64)
    notes: list[str] = []
    watch = LdsWatch(
        LocalMemory(64, 1), 4, barriers, WatchedWorkgroups(1), lambda *note: notes.append(note[2])
    )
    places = np.array([[0], [0], [4]])

    def waves(*numbers: int) -> Any:
        count = len(numbers)
        return SimpleNamespace(
            workgroup=np.zeros(count, int), wave=np.array(numbers), lanes=1, count=count
        )

    late = waves(0)
    arriving = OutstandingOperation(0, None, (places[:1], np.ones((1, 1), bool)), lds_bytes=4)
    late.outstanding = SimpleNamespace(queues={"lgkm": [arriving]})
    watch.come_to_barrier(late)
    barriers += 1
    values = np.array([1, 2, 3])
    access = LaneAccess(0, waves(1, 2, 3), places, None, 4)
    watch.before(access, values)
    watch.after(access, values)  # memory is as it was: each was overwritten
    assert ["had not waited" in note for note in notes] == [True, False]


def test_a_barrier_keeps_waves_apart() -> None:
    assert troubles(PLACES + WRITE + WAIT + BARRIER + READ + WAIT) == set()


def test_a_read_without_a_barrier_races() -> None:
    assert troubles(PLACES + WRITE + WAIT + READ + WAIT) == {"lds_race"}


def test_a_write_over_what_is_read_races() -> None:
    code = PLACES + WRITE + WAIT + BARRIER + READ + WAIT + "v_add_u32_e32 v0, 7, v0\n" + WRITE
    assert troubles(code + WAIT) == {"lds_race"}


def test_a_write_that_is_not_waited_for_crosses_the_barrier() -> None:
    assert troubles(PLACES + WRITE + BARRIER + READ + WAIT) == {"lds_race"}


def test_a_wave_may_read_its_own() -> None:
    assert troubles(PLACES + WRITE + WAIT + "ds_read_b32 v3, v1\n" + WAIT) == set()


def test_the_same_value_may_be_written_twice() -> None:
    same = "v_mov_b32_e32 v1, 0\nv_mov_b32_e32 v5, 9\nds_write_b32 v1, v5\n" + WAIT
    assert troubles(same) == set()
    different = "v_mov_b32_e32 v1, 0\nds_write_b32 v1, v0\n" + WAIT
    assert troubles(different) == {"lds_race"}


@pytest.mark.parametrize(("size", "step"), [("b8", 0), ("b16", 1)])
def test_neighbouring_bytes_do_not_race(size: str, step: int) -> None:
    code = f"v_lshlrev_b32_e32 v1, {step}, v0\nds_write_{size} v1, v0\n" + WAIT
    assert troubles(code) == set()


def test_a_result_is_used_before_its_wait() -> None:
    unwaited = PLACES + WRITE + WAIT + BARRIER + READ + "v_add_u32_e32 v4, v3, v3\n" + WAIT
    assert troubles(unwaited) == {"unwaited"}
    code = "s_load_dwordx2 s[2:3], s[0:1], 0x0\nv_mov_b32_e32 v5, s2\ns_waitcnt lgkmcnt(0)\n"
    assert troubles(code) == {"unwaited"}


def test_a_result_that_is_not_waited_for_is_stale() -> None:
    code = """
s_load_dwordx2 s[2:3], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v2, 77
global_load_dword v2, v1, s[2:3]
global_store_dword v1, v2, s[2:3] offset:2048
"""
    out = buffer_of(np.arange(1024, dtype=np.uint32), OUT, "out")
    launch = Launch((1, 1, 1), (64, 1, 1), 0, struct.pack("<Q", OUT))
    outcome = emulator(code).run(launch, [out])
    assert [t.kind for t in outcome.troubles] == ["unwaited"]
    assert (out.data[2048 : 2048 + 256].view(np.uint32) == 77).all()


HALVES = {
    "gfx1100": """
s_load_b64 s[2:3], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
v_mov_b32_e32 v2, 0
s_waitcnt lgkmcnt(0)
global_load_d16_hi_b16 v2, v1, s[2:3]
""",
    "gfx942": """
s_load_dwordx2 s[2:3], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
v_mov_b32_e32 v2, 0
s_waitcnt lgkmcnt(0)
global_load_short_d16_hi v2, v1, s[2:3]
""",
}


@pytest.mark.parametrize(
    ("arch", "use", "waits"),
    [
        ("gfx1100", "global_store_b16 v1, v2, s[2:3] offset:1024", True),
        ("gfx1100", "v_mov_b16_e32 v3.h, v2.l", True),
        ("gfx1100", "v_mov_b16_e32 v2.l, 0", True),
        ("gfx1100", "global_store_d16_hi_b16 v1, v2, s[2:3] offset:1024", False),
        ("gfx1100", "v_mov_b16_e32 v3.l, v2.h", False),
        ("gfx1100", "v_mov_b32_e32 v3, v2", False),
        # Registers with ECC: the load writes all of it.
        ("gfx942", "global_store_short v1, v2, s[2:3] offset:1024", False),
    ],
)
def test_one_half_is_there_while_the_other_is_loaded(arch: str, use: str, waits: bool) -> None:
    kinds = troubles(f"{HALVES[arch]}{use}\ns_waitcnt vmcnt(0)\n", arch=arch)
    assert kinds == (set() if waits else {"unwaited"})


def test_accesses_that_miss() -> None:
    assert troubles(PLACES + "ds_write_b32 v1, v0 offset:4000\n" + WAIT) == {"outside_lds"}
    assert troubles(PLACES + "ds_read_b32 v3, v1\n" + WAIT) == {"lds_uninitialised"}
    far = "v_mov_b32_e32 v1, 0\nv_mov_b32_e32 v2, 64\nglobal_load_dword v3, v[1:2], off\n"
    assert troubles(far + "s_waitcnt vmcnt(0)\n") == {"outside"}


def test_a_barrier_that_not_all_waves_reach() -> None:
    """Of gfx12's four waves one signals and waits; the others wait for something else."""
    code = """
v_readfirstlane_b32 s4, v0
s_cmp_lt_u32 s4, 32
s_cbranch_scc0 .LBB0_2
s_barrier_signal -1
.LBB0_2:
s_barrier_wait -1
"""
    place = "of workgroup 0 wait at s_barrier_wait -1 .line 13."
    with pytest.raises(EmulationLimitError, match="not all waves of a workgroup.*" + place):
        troubles(code, arch="gfx1201")


def test_a_lock_between_workgroups_is_fair() -> None:
    """Workgroup 0 spins until workgroup 1, which comes later, sets the flag."""
    code = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_mov_b32_e32 v1, 0
v_mov_b32_e32 v2, 1
s_cmp_eq_u32 s2, 0
s_waitcnt lgkmcnt(0)
s_cbranch_scc0 .LBB0_3
.LBB0_1:
global_load_dword v3, v1, s[4:5] sc1
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v3
s_cbranch_vccnz .LBB0_1
s_branch .LBB0_4
.LBB0_3:
global_atomic_or v1, v2, s[4:5]
.LBB0_4:
"""
    assert troubles(code, groups=2) == set()


def test_waves_that_wait_for_a_lock_leave_the_time_to_its_holder() -> None:
    code = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
s_mov_b64 exec, 1
v_mov_b32_e32 v1, 0
v_mov_b32_e32 v2, 1
v_mov_b32_e32 v3, 0
s_waitcnt lgkmcnt(0)
.LBB0_1:
global_atomic_cmpswap v4, v1, v[2:3], s[4:5] sc0 sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s6, v4
s_cmp_eq_u32 s6, 0
s_cbranch_scc0 .LBB0_1
s_mov_b32 s7, 20
.LBB0_2:
s_sub_u32 s7, s7, 1
s_cmp_eq_u32 s7, 0
s_cbranch_scc0 .LBB0_2
global_load_dword v5, v1, s[4:5] offset:64 sc1
s_waitcnt vmcnt(0)
v_add_u32_e32 v5, 1, v5
global_store_dword v1, v5, s[4:5] offset:64 sc1
s_waitcnt vmcnt(0)
global_atomic_swap v1, v3, s[4:5] sc1
"""
    groups = 16
    emulated, out = emulator(code), buffer_of(np.zeros(64, np.uint32), OUT, "out")
    emulated.run(Launch((groups, 1, 1), (64, 1, 1), 0, struct.pack("<Q", OUT)), [out])
    assert out.data[:68].view(np.uint32)[[0, 16]].tolist() == [0, groups]
    attempts = next(
        block.runs
        for block in emulated.code.blocks
        if any("cmpswap" in parts.name for parts in emulated.code.decoded[block.first : block.stop])
    )
    # One for each that waits whenever the lock changes hands, and few more.
    assert groups * (groups + 1) // 2 <= attempts < 2 * groups * groups


def ieee_dot(version: str) -> tuple[set[str], float]:
    """Findings and largest error of the kernel of triton-lang #11696."""
    text = (DATA / f"ieee_dot.triton-{version}.gfx942.s").read_text()
    machine = load("gfx942")
    kernel = parse_text(text, "k.s").kernels[0]
    size = (128, 128, 256)
    rng = np.random.default_rng(0)
    a = rng.standard_normal((size[0], size[2]), np.float32)
    b = rng.standard_normal((size[2], size[1]), np.float32)
    starts = (OUT, OUT + (1 << 30), OUT + (2 << 30))
    buffers: list[Buffer] = [
        buffer_of(values, start)
        for values, start in zip((a, b, np.zeros(size[:2], np.float32)), starts, strict=True)
    ]
    arguments = struct.pack("<QQQiii", *starts, *size)
    launch = Launch((1, 1, 1), (512, 1, 1), 65536, arguments)
    emulated = Emulator(kernel, machine)
    outcome = emulated.run(launch, buffers)
    result = buffers[2].data[: a.shape[0] * b.shape[1] * 4].view(np.float32)
    error = float(np.abs(result.reshape(size[:2]) - a @ b).max())
    return {trouble.kind for trouble in outcome.troubles}, error


def test_the_race_of_triton_3_8() -> None:
    """Wrong in 200 of 200 runs on an MI300X (triton-lang #11696); mended in 3.9.0."""
    assert ieee_dot("3.8")[0] == {"lds_race"}
    findings, error = ieee_dot("3.9")
    assert findings == set()
    assert error < 1e-4


def test_the_wait_that_llvm_took_away() -> None:
    """llvm-project #220357: the stores at a loop's end are not waited for at its first barrier."""
    text = (DATA / "gemm.triton-3.9.gfx1100.s").read_text()
    assert "\ts_waitcnt vmcnt(0)\n\ts_barrier\n\ts_waitcnt lgkmcnt(0)\n" in text
    mended = text.replace("\ts_waitcnt vmcnt(0)\n\ts_barrier", "\ts_waitcnt 0\n\ts_barrier")
    machine = load("gfx1100")
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(np.float16) for shape in ((128, 256), (256, 64))]
    arguments = struct.pack("<QQQiQQ", OUT, OUT + (1 << 30), OUT + (2 << 30), 256, 0, 0)
    for code, kinds in ((text, ["lds_race"]), (mended, [])):
        arrays = [*inputs, np.zeros((128, 64), np.float32)]
        buffers = [buffer_of(array, OUT + (at << 30)) for at, array in enumerate(arrays)]
        kernel = parse_text(code, "gemm.s").kernels[0]
        emulated = Emulator(kernel, machine)
        outcome = emulated.run(Launch((1, 1, 1), (256, 1, 1), 65536, arguments), buffers)
        assert sorted({trouble.kind for trouble in outcome.troubles}) == kinds
        assert all("had not waited" in trouble.detail for trouble in outcome.troubles)
