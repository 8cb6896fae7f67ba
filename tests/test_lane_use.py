"""Where lanes lie, worked out from the code alone, against what the emulator meets when it runs."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from emulated import KERNEL
from kinspect.inspector.emulator.grid import Launch
from kinspect.inspector.emulator.memory import buffer_of
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.objects.load import load_code_object
from kinspect.inspector.lanes.unknowns import Arguments
from kinspect.inspector.machines.loader import load
from kinspect.inspector.metrics.argument_words import arguments_of
from kinspect.inspector.metrics.lanes import FROM_MEMORY, WAVES, lane_uses
from kinspect.inspector.model import LaneUse
from msgspec.structs import replace
from test_emulator_whole_kernels import CASES, Compiled

TARGETS = (
    "gfx942",
    "gfx1100",
    *(pytest.param(arch, marks=pytest.mark.slow) for arch in ("gfx950", "gfx90a", "gfx1201")),
)


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("name", sorted(CASES))
def test_figures_are_those_of_an_execution(name: str, arch: str, tmp_path: Path) -> None:
    """The first workgroup of a launch, whose number of elements is known."""
    pytest.importorskip("triton")
    compiled = Compiled(name, arch, tmp_path)
    buffers = [
        buffer_of(values, 0x7F00_0000_0000 + (number << 32), str(number))
        for number, values in enumerate(compiled.case.buffers)
    ]
    pointers = struct.pack(f"<{len(buffers)}Q", *(buffer.address for buffer in buffers))
    emulator = compiled.emulator
    emulator.run(
        Launch(
            (compiled.grid, 1, 1), (compiled.threads, 1, 1), compiled.lds,
            pointers + compiled.scalars, workgroups=(0,),
        ),
        buffers,
    )  # fmt: skip
    assert emulator.counts is not None
    at = len(pointers)
    known = Arguments({at: compiled.case.number}, frozenset(range(0, at, 8)))
    (function,) = load_code_object(compiled.path.read_bytes(), "k", arch).kernels
    uses = lane_uses(function, load(arch), (compiled.threads, 1, 1), known)
    compared = 0
    for block in emulator.code.blocks:
        for site in range(block.first, block.stop):
            use = uses.get(site)
            if use is None or use.unknown or not block.runs:
                continue
            space = "lds" if use.cycles is not None else "global"
            count = emulator.counts.accesses[site, space]
            if use.conflicts is not None:
                assert count.conflicts == use.conflicts * block.runs, function.instructions[site]
            elif use.lanes is not None and count.lanes == use.lanes * block.runs:
                assert count.lines == use.lines * block.runs, function.instructions[site]
                assert count.least_lines == use.lines_ideal * block.runs
            compared += 1
    assert compared, name


def use_of(code: str, arch: str = "gfx942", waves: int = 2) -> LaneUse:
    """That of the only access behind which nothing else happens to memory."""
    function = parse_text(KERNEL.format(arch=arch, code=code), "k.s").kernels[0]
    return lane_uses(function, load(arch), (waves * 64, 1, 1))[
        max(i.index for i in function.instructions if i.op.name.startswith(("ds_", "global_")))
    ]


@pytest.mark.parametrize(("shift", "cycles"), [(2, 2), (3, 4), (4, 8), (7, 64)])
def test_a_stride_over_the_banks(shift: int, cycles: int) -> None:
    """Two phases of 32 lanes, 32 banks of 4 bytes: by hand."""
    code = f"v_lshlrev_b32_e32 v1, {shift}, v0\nds_read_b32 v2, v1\ns_waitcnt lgkmcnt(0)\n"
    use = use_of(code)
    assert (use.cycles, use.cycles_ideal, use.conflicts) == (cycles, 2, cycles - 2)


def test_a_padded_row_is_free_of_conflicts() -> None:
    """A column of rows of 33 dwords."""
    code = "v_mul_u32_u24_e32 v1, 0x84, v0\nds_read_b32 v2, v1\n"
    assert use_of(code).conflicts == 0


def test_an_unknown_uniform_offset_changes_nothing() -> None:
    """A kernel argument is added, and a loop moves the address on, in turns between two buffers."""
    code = """
s_load_dword s4, s[0:1], 0x0
v_lshlrev_b32_e32 v1, 4, v0
s_movk_i32 s5, 8
s_waitcnt lgkmcnt(0)
s_lshl_b32 s4, s4, 4
v_add_u32_e32 v1, s4, v1
.LBB0_1:
ds_read_b32 v2, v1
v_xor_b32_e32 v1, 0x4000, v1
s_sub_i32 s5, s5, 1
s_cmp_lg_u32 s5, 0
s_cbranch_scc1 .LBB0_1
"""
    assert use_of(code).cycles == 8


def test_addresses_from_memory_are_unknown() -> None:
    code = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
s_waitcnt lgkmcnt(0)
global_load_dword v1, v1, s[4:5]
s_waitcnt vmcnt(0)
ds_read_b32 v2, v1
"""
    assert use_of(code).unknown == FROM_MEMORY


def test_halves_of_a_dual_instruction_are_apart() -> None:
    """A move beside a sum of what was loaded stays known, the sum does not."""
    code = """
        v_lshlrev_b32 v3, 4, v0
        v_mov_b32 v5, 0
        ds_load_b32 v1, v5
        s_waitcnt lgkmcnt(0)
        v_dual_mov_b32 v2, v3 :: v_dual_add_nc_u32 v7, s3, v1
        ds_store_b32 v{address}, v1"""
    assert use_of(code.format(address=2), "gfx1100").unknown == ""
    assert use_of(code.format(address=7), "gfx1100").unknown == FROM_MEMORY


def test_lanes_that_exchange_their_addresses() -> None:
    """`ds_bpermute` moves registers; nothing comes from memory."""
    code = """
v_lshlrev_b32_e32 v1, 2, v0
v_xor_b32_e32 v1, 4, v1
v_lshlrev_b32_e32 v2, 3, v0
ds_bpermute_b32 v2, v1, v2
s_waitcnt lgkmcnt(0)
ds_read_b32 v3, v2
"""
    assert use_of(code).cycles == 4  # a stride of 8 bytes, neighbours exchanged


def test_an_instruction_without_operands_takes_no_other_with_it() -> None:
    code = "v_lshlrev_b32_e32 v1, 3, v0\nds_write_b64\nv_add_u32_e32\nds_read_b32 v3, v1\n"
    assert use_of(code).cycles == 4


def test_a_load_into_lds_touches_both_memories() -> None:
    """64 lanes of 4 bytes: two lines of memory, 256 bytes of LDS from M0 on, in two phases."""
    code = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
s_mov_b32 m0, 0
s_waitcnt lgkmcnt(0)
global_load_lds_dword v1, s[4:5]
s_waitcnt vmcnt(0)
"""
    use = use_of(code, waves=1)
    assert (use.lines, use.lines_ideal, use.bytes) == (2, 2, 256)
    assert (use.cycles, use.conflicts) == (2, 0)


def test_lines_of_rows_whose_pitch_is_passed() -> None:
    """16 rows of 64 bytes each: where they lie depends on the pitch, unless it is known."""
    code = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
s_load_dword s6, s[0:1], 0x8
v_lshrrev_b32_e32 v1, 2, v0
v_and_b32_e32 v2, 3, v0
v_lshlrev_b32_e32 v2, 4, v2
s_waitcnt lgkmcnt(0)
v_mul_lo_u32 v1, s6, v1
v_add_u32_e32 v1, v1, v2
global_load_dwordx4 v[4:7], v1, s[4:5]
"""
    function = parse_text(KERNEL.format(arch="gfx942", code=code), "k.s").kernels[0]
    unknown = Arguments(pointers=frozenset({0}))
    (use,) = lane_uses(function, load("gfx942"), (64, 1, 1), unknown).values()
    assert (use.lines, use.origin) == (16, "estimated")
    for pitch, lines in ((64, 8), (128, 16), (4096, 16), (96, 12)):
        known = arguments_of({"x": "*fp16", "n": "i32"}, {"n": pitch}, {})
        (use,) = lane_uses(function, load("gfx942"), (64, 1, 1), known).values()
        assert (use.lines, use.lines_ideal, use.bytes) == (lines, 8, 1024), pitch
        assert use.origin == "derived"


CHECKED = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
s_load_dword s6, s[0:1], 0x8
v_lshlrev_b32_e32 v1, 9, v0
v_lshlrev_b32_e32 v2, 2, v0
s_waitcnt lgkmcnt(0)
{check}
s_and_saveexec_b64 s[8:9], vcc
s_cbranch_execz .LBB0_2
ds_read_b32 v3, v1
s_waitcnt lgkmcnt(0)
global_store_dword v2, v3, s[4:5]
.LBB0_2:
s_or_b64 exec, exec, s[8:9]
"""


def test_a_check_of_bounds_is_taken_to_let_all_lanes_through() -> None:
    """The figures are those without the check, said to be estimated."""
    without = CHECKED.format(check="s_mov_b64 vcc, -1")
    checked = CHECKED.format(check="v_cmp_gt_i32_e32 vcc, s6, v1")

    def uses(code: str) -> list[LaneUse]:
        function = parse_text(KERNEL.format(arch="gfx942", code=code), "k.s").kernels[0]
        size = Arguments(pointers=frozenset({0}))  # the third dword is not of a pointer
        return list(lane_uses(function, load("gfx942"), (256, 1, 1), size).values())

    plain, guarded = uses(without), uses(checked)
    assert [use.conflicts for use in plain] == [62, None]
    assert [use.lines for use in plain] == [None, 2]
    assert [use.whole_waves for use in plain] == [False, False]
    for use, other in zip(plain, guarded, strict=True):
        assert other.whole_waves
        assert other.origin == "estimated"
        assert replace(other, origin=use.origin, whole_waves=False) == use


@pytest.mark.parametrize("check", ["v_cmp_eq_u32_e32 vcc, s6, v1", "v_cmp_lg_u32_e32 vcc, s6, v1"])
def test_one_lane_by_number_is_not_taken_to_be_all(check: str) -> None:
    function = parse_text(
        KERNEL.format(arch="gfx942", code=CHECKED.format(check=check)), "k.s"
    ).kernels[0]
    size = Arguments(pointers=frozenset({0}))
    for use in lane_uses(function, load("gfx942"), (256, 1, 1), size).values():
        assert not use.whole_waves


IN_BUFFER = """s_load_dwordx2 s[4:5], s[0:1], 0x0
s_load_dword s8, s[0:1], 0x8
s_load_dword s9, s[0:1], 0x8
s_waitcnt lgkmcnt(0)
{size}
s_mov_b32 s7, 0x27000
s_mul_i32 s8, s8, s8
v_lshlrev_b32_e32 v1, 4, v0
v_add_u32_e32 v1, s8, v1
{mask}
buffer_load_dwordx4 v[4:7], v1, s[4:7], 0 offen
"""


def buffer_use(size: str, mask: str = "s_nop 0") -> LaneUse:
    function = parse_text(
        KERNEL.format(arch="gfx942", code=IN_BUFFER.format(size=size, mask=mask)), "k.s"
    ).kernels[0]
    arguments = Arguments(pointers=frozenset({0}))
    (use,) = lane_uses(function, load("gfx942"), (256, 1, 1), arguments).values()
    return use


def test_drawn_offsets_do_not_leave_a_buffer() -> None:
    """The square of a drawn size is larger than a buffer for some, which no launch's is."""
    use = buffer_use(WHOLE_BUFFER)
    assert use.lines == 8
    assert not use.whole_waves
    checked = buffer_use("s_mov_b32 s6, 0x1000000")
    assert checked.unknown or checked.whole_waves
    masked = buffer_use(WHOLE_BUFFER, "v_bfrev_b32_e32 v1, 1")
    assert masked.unknown


WHOLE_BUFFER = "s_mov_b32 s6, 0x7ffffffe"
FAR = "v_add_u32_e32 v9, 0x1000000, v0\nv_cmp_gt_i32_e32 vcc, s9, v9\n"
"""A check that no lane passes with any size that is drawn."""
MASKED = "v_bfrev_b32_e32 v8, 1\nv_cndmask_b32_e32 v1, v8, v1, vcc\n"


def test_a_tile_behind_every_drawn_size_has_the_figures_of_whole_waves() -> None:
    use = buffer_use(WHOLE_BUFFER, FAR + MASKED)
    assert use.lines == 8
    assert use.whole_waves
    assert use.origin == "estimated"


def test_a_check_with_a_number_is_not_taken_to_hold() -> None:
    assert buffer_use(WHOLE_BUFFER, FAR.replace("s9", "64") + MASKED).unknown


def test_an_address_that_a_check_of_a_size_chooses_is_not_relied_on() -> None:
    """So quotients are set right: all lanes would be off by one."""
    chosen = "v_add_u32_e32 v10, 4, v1\nv_cndmask_b32_e32 v1, v1, v10, vcc\n"
    assert buffer_use(WHOLE_BUFFER, FAR + chosen + MASKED).unknown


SPILLED = """v_lshlrev_b32_e32 v1, 4, v0
{store}
v_mov_b32_e32 v1, 0
{between}
{reload}
s_waitcnt vmcnt(0)
ds_read_b32 v2, v1
s_waitcnt lgkmcnt(0)
"""
STORE = "scratch_store_dword off, v1, off offset:8 ; 4-byte Folded Spill"
RELOAD = "scratch_load_dword v1, off, off offset:8 ; 4-byte Folded Reload"


def spilled_use(between: str = "s_nop 0", store: str = STORE, reload: str = RELOAD) -> LaneUse:
    return use_of(SPILLED.format(store=store, between=between, reload=reload))


def test_a_spilled_address_is_followed() -> None:
    direct = use_of("v_lshlrev_b32_e32 v1, 4, v0\nds_read_b32 v2, v1\ns_waitcnt lgkmcnt(0)\n")
    assert direct.cycles == 8
    assert spilled_use() == direct


def test_a_slot_that_is_stored_again_holds_the_later_value() -> None:
    again = "v_lshlrev_b32_e32 v3, 2, v0\n" + STORE.replace("v1", "v3")
    assert spilled_use(again).cycles == 2


LOWER_HALF = """s_mov_b32 s10, -1
s_mov_b32 s11, 0
s_and_saveexec_b64 s[8:9], s[10:11]
{code}
s_or_b64 exec, exec, s[8:9]"""


def test_a_store_of_some_lanes_keeps_the_others() -> None:
    """The lower half of the lanes goes to one address: their half of the conflicts is gone."""
    zero = "v_mov_b32_e32 v3, 0\n" + STORE.replace("v1", "v3")
    assert spilled_use(zero).conflicts == 0
    partial = spilled_use(LOWER_HALF.format(code=zero))
    assert partial.conflicts == (spilled_use().conflicts or 0) / 2


def test_a_write_of_some_lanes_keeps_the_others() -> None:
    code = "v_lshlrev_b32_e32 v1, 4, v0\n{}\nds_read_b32 v2, v1\ns_waitcnt lgkmcnt(0)\n"
    whole = use_of(code.format("s_nop 0"))
    partial = use_of(code.format(LOWER_HALF.format(code="v_mov_b32_e32 v1, 0")))
    assert whole.conflicts == 6
    assert partial.conflicts == 3


def test_lanes_that_keep_what_came_from_memory_are_unknown() -> None:
    code = """s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
s_waitcnt lgkmcnt(0)
global_load_dword v1, v1, s[4:5]
s_waitcnt vmcnt(0)
{}
ds_read_b32 v2, v1
"""
    assert use_of(code.format("v_mov_b32_e32 v1, 0")).unknown == ""
    masked = LOWER_HALF.format(code="v_mov_b32_e32 v1, 0")
    assert use_of(code.format(masked)).unknown == FROM_MEMORY


@pytest.mark.parametrize(
    ("store", "reload"),
    [
        (STORE.replace("dword", "short"), RELOAD),  # half of it is stored
        (STORE.replace("offset:8", "offset:12"), RELOAD),  # another slot
        (STORE, RELOAD.replace("off, off", "v9, off")),  # indexed by a lane
    ],
)
def test_what_is_no_whole_spill_stays_unknown(store: str, reload: str) -> None:
    assert spilled_use(store=store, reload=reload).unknown == FROM_MEMORY


def test_unmarked_accesses_are_followed_unless_an_array_is_indexed() -> None:
    """LLVM 20 does not mark spills; an index may reach any place of an array, theirs among them."""
    store, reload = STORE.partition(";")[0], RELOAD.partition(";")[0]
    indexed = "scratch_store_dword v0, v3, off"
    assert spilled_use(store=store, reload=reload).cycles == 8
    assert spilled_use(indexed, store=store, reload=reload).unknown == FROM_MEMORY
    assert spilled_use(indexed).cycles == 8


def test_all_accesses_of_a_kernel_that_spills_are_decided(shared_guests: None) -> None:
    """A published attention whose addresses of K and V are spilled: as its layouts have them."""
    pytest.importorskip("triton")
    import kinspect

    path = Path(__file__).parent.parent / "kernels" / "flash_attn.py"
    kernel = kinspect.analyze(path, kernel="d256_causal_128x64", arch="gfx942").kernel.report
    assert kernel.metrics["vgpr_spill_count"].value
    in_lds = [op for op in kernel.memory_ops if op.cls in ("lds_read", "lds_write")]
    assert len(in_lds) > 100
    assert not [op for op in in_lds if op.use is None or op.use.unknown]
    judged = [access.lanes for access in kernel.accesses if access.lanes is not None]
    assert judged
    assert set(judged) == {"agree"}


BEHIND_LANES = """v_mov_b32_e32 v1, v0
s_mov_b64 s[8:9], 0
s_branch .Lhead
.Llatch:
s_andn2_b64 exec, exec, s[8:9]
s_cbranch_execz .Ldone
.Lhead:
v_add_u32_e32 v1, 0x100, v1
v_cmp_lt_i32_e32 vcc, s6, v1
s_or_b64 s[8:9], vcc, s[8:9]
s_branch .Llatch
.Ldone:
s_mov_b64 exec, -1
v_lshlrev_b32_e32 v2, 3, v0
ds_read_b32 v3, v2
"""


def test_what_follows_a_loop_that_lanes_leave_one_by_one_is_reached() -> None:
    """The only edge out of the loop is the branch for an empty EXEC."""
    use = use_of(BEHIND_LANES)
    assert not use.unknown
    assert (use.cycles, use.cycles_ideal) == (4, 2)


@pytest.mark.parametrize(("lanes", "known"), [(96, True), (32, False)])
def test_of_an_unknown_number_of_waves_a_whole_one_counts(lanes: int, known: bool) -> None:
    """Of 4 waves at most, the second has 32 lanes below 96, and none of them all below 32."""
    check = (
        f"v_cmp_gt_u32_e32 vcc, {lanes}, v0\ns_and_saveexec_b64 s[8:9], vcc\n"
        "v_lshlrev_b32_e32 v2, 3, v0\nds_read_b32 v3, v2\n"
    )
    function = parse_text(KERNEL.format(arch="gfx942", code=check), "k.s").kernels[0]
    (use,) = lane_uses(function, load("gfx942"), (256, 1, 1), largest=True).values()
    assert use.unknown == ("" if known else WAVES)
    if known:
        assert (use.lanes, use.cycles, use.origin, use.whole_waves) == (64, 4, "estimated", True)


FIRST_LANE = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_mbcnt_lo_u32_b32 v1, {active}, 0
v_mbcnt_hi_u32_b32 v1, {active_high}, v1
v_lshlrev_b32_e32 v2, 7, v1
v_readfirstlane_b32 s2, {compared}
s_nop 1
v_cmp_eq_u32_e64 s[2:3], s2, {compared}
s_and_saveexec_b64 s[6:7], s[2:3]
s_cbranch_execz .LBB0_4
s_waitcnt lgkmcnt(0)
global_atomic_cmpswap v4, v2, v[6:7], s[4:5] sc0
s_waitcnt vmcnt(0)
v_cmp_ne_u32_e32 vcc, 0, v4
s_and_saveexec_b64 s[8:9], vcc
s_cbranch_execz .LBB0_3
s_mov_b64 s[10:11], 0
.LBB0_2:
global_atomic_cmpswap v5, v2, v[6:7], s[4:5] sc0
s_waitcnt vmcnt(0)
v_cmp_eq_u32_e32 vcc, v5, v4
s_or_b64 s[10:11], vcc, s[10:11]
s_andn2_b64 exec, exec, s[10:11]
s_cbranch_execnz .LBB0_2
s_or_b64 exec, exec, s[10:11]
.LBB0_3:
s_or_b64 exec, exec, s[8:9]
{inside}
.LBB0_4:
s_or_b64 exec, exec, s[6:7]
{behind}
"""
"""The first active lane exchanges values until it succeeds, as in the code that printf leaves."""
_LOAD = "global_load_dword v3, v2, s[4:5]"


@pytest.mark.parametrize(
    ("compared", "active", "inside", "lines"),
    [
        ("v1", ("-1", "-1"), True, 1),
        ("v1", ("-1", "-1"), False, 64),
        ("v1", ("exec_lo", "exec_hi"), True, 1),
        ("v8", ("-1", "-1"), True, 64),  # a value that several lanes may have
    ],
)
def test_one_lane_s_code(compared: str, active: tuple[str, str], inside: bool, lines: int) -> None:
    """Comparisons with values that are not known narrow EXEC further."""
    low, high = active
    code = FIRST_LANE.format(
        compared=compared,
        active=low,
        active_high=high,
        inside=_LOAD if inside else "",
        behind="" if inside else _LOAD,
    )
    if compared == "v8":
        code = code.replace(
            "v_readfirst", "global_load_dword v8, v2, s[4:5]\ns_waitcnt vmcnt(0)\nv_readfirst", 1
        )
    assert use_of(code, waves=1).lines == lines
