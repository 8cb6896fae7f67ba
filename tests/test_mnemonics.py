"""The mnemonic table: every mnemonic of LLVM's assembler, and widths against its registers."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from kinspect.inspector.isa import mnemonics
from kinspect.inspector.isa.mnemonics import CLASSES, access_bits, classify, lookup, returns_value
from kinspect.inspector.isa.waitflow.counters import decode_wait

RECORDED = Path(__file__).parent / "data" / "recorded/mnemonics.csv"
MC = shutil.which("llvm-mc-22")
LLC = shutil.which("llc-22")
needs_mc = pytest.mark.skipif(MC is None, reason="llvm-mc-22 is not installed")

# One of each kind, from the ISA documents: class, bits, a few traits that must be there.
KNOWN = """
v_add_f32_e32                       valu             -
v_fma_f32                           valu             -
v_exp_f32_e64                       valu             -     transcendental
v_s_rcp_f32                         valu             -     transcendental
v_rcp_iflag_f32_e32                 valu             -     transcendental
v_cvt_pk_bf16_f32                   valu             -     convert
v_cvt_f32_ubyte3_e32                valu             -     convert
v_pk_fma_f32                        valu             -     packed
v_dot2_f32_f16                      valu             -     dot
v_dual_dot2acc_f32_f16              valu             -     dot dual
v_fma_f64                           valu             -     f64
v_cmpx_lt_f32_e32                   valu             -     compare
v_mov_b32_dpp                       valu             -
v_add_f16_sdwa                      valu             -
v_add_f32_e64_dpp                   valu             -
v_permlane32_swap_b32_e32           valu             -     cross_lane
v_readfirstlane_b32                 valu             -     cross_lane to_sgpr
v_mfma_ld_scale_b32                 valu             -     matrix_scale
v_mfma_f32_32x32x8_f16              mfma             -
v_mfma_f32_32x32x8bf16_1k           mfma             -
v_mfma_scale_f32_16x16x128_f8f6f4   mfma             -     scaled
v_mfma_f64_16x16x4f64               mfma             -     f64
v_smfmac_f32_16x16x32_f16           mfma             -     sparse
v_wmma_f32_16x16x16_f16             wmma             -
v_swmmac_f32_16x16x32_f16           wmma             -     sparse
v_accvgpr_read_b32                  acc_move         -
v_accvgpr_write_b32                 acc_move         -
v_nop                               nop              -
s_nop                               nop              -
s_add_u32                           salu             -
s_cmp_lt_i32                        salu             -     compare
s_getpc_b64                         salu             -
s_load_dwordx4                      smem_load        128   smem
s_load_b512                         smem_load        512
s_buffer_load_u8                    smem_load        8
s_store_dwordx2                     smem_store       64
s_atomic_add_x2                     atomic           64    smem
global_load_dwordx4                 global_load      128   vmem
global_load_ubyte                   global_load      8
global_load_sshort                  global_load      16
global_load_short_d16_hi            global_load      16    d16
global_load_d16_hi_i8               global_load      8     d16
global_load_dwordx3                 global_load      96
global_load_dword_addtid            global_load      32
global_load_tr_b128                 global_load      128   transpose
global_load_tr6_b96                 global_load      96    transpose
global_load_monitor_b64             global_load      64
cluster_load_b128                   global_load      128
flat_load_dwordx2                   global_load      64    flat
buffer_load_dwordx4                 global_load      128   buffer
buffer_load_d16_b16                 global_load      16    buffer d16
buffer_load_format_xyz              global_load      -     typed
tbuffer_load_format_d16_xyzw        global_load      -     typed
global_load_block                   global_load      -     block
global_store_byte_d16_hi            global_store     8     d16
buffer_store_short                  global_store     16
flat_store_b96                      global_store     96    flat
tbuffer_store_format_x              global_store     -     typed
ds_read_b128                        lds_read         128   lds
ds_read_u16_d16_hi                  lds_read         16    d16
ds_read2_b64                        lds_read         128   pair
ds_read2st64_b32                    lds_read         64    pair
ds_load_2addr_stride64_b64          lds_read         128   pair
ds_read_b64_tr_b16                  lds_read         64    transpose
ds_read_b96_tr_b6                   lds_read         96    transpose
ds_load_tr16_b128                   lds_read         128   transpose
ds_load_tr6_b96                     lds_read         96    transpose
lds_direct_load                     lds_read         32    ldsdir
ds_write_b8_d16_hi                  lds_write        8     d16
ds_write2_b32                       lds_write        64    pair
ds_store_2addr_b64                  lds_write        128   pair
ds_bpermute_b32                     cross_lane       -     cross_lane returns
ds_swizzle_b32                      cross_lane       -
global_load_lds_dwordx4             lds_direct       128
global_load_lds_ubyte               lds_direct       8
global_load_async_to_lds_b32        lds_direct       32    async
cluster_load_async_to_lds_b8        lds_direct       8     async
tensor_load_to_lds                  lds_direct       -     tensor
global_store_async_from_lds_b64     lds_direct_store 64    async
tensor_store_from_lds               lds_direct_store -     tensor
scratch_load_dwordx3                scratch_load     96    scratch
scratch_load_lds_dword              lds_direct       32    scratch
scratch_store_d16_hi_b8             scratch_store    8
global_atomic_add                   atomic           32
global_atomic_cmpswap_x2            atomic           64
global_atomic_pk_add_bf16           atomic           32
flat_atomic_max_num_f64             atomic           64    flat
buffer_atomic_csub                  atomic           32
image_atomic_add                    atomic           -     image
ds_add_rtn_u64                      lds_atomic       64    returns
ds_wrxchg2_rtn_b32                  lds_atomic       64    pair returns
ds_max_src2_f64                     lds_atomic       64
ds_append                           lds_atomic       32    returns
image_sample_c_d_cl_o_g16           image            -     sample load
image_store_mip                     image            -     store
image_bvh64_intersect_ray           bvh              -
ds_bvh_stack_push8_pop2_rtn_b64     bvh              -     lds
ds_gws_barrier                      gds              -
exp                                 export           -
global_prefetch_b8                  prefetch         -
s_prefetch_inst_pc_rel              prefetch         -
buffer_wbinvl1_vol                  cache            -     invalidate writeback
global_inv                          cache            -     invalidate
s_dcache_wb                         cache            -     writeback
s_waitcnt                           wait             -
s_waitcnt_vscnt                     wait             -
s_wait_loadcnt_dscnt                wait             -
s_wait_tensorcnt                    wait             -
s_wait_idle                         wait             -
s_wait_alu                          alu_wait         -
s_waitcnt_depctr                    alu_wait         -
s_wait_event                        alu_wait         -
s_barrier                           barrier          -
s_barrier_wait                      barrier          -
s_barrier_signal_isfirst            barrier_signal   -
s_barrier_init                      control          -     barrier
s_cbranch_scc0                      branch           -     conditional
s_branch                            branch           -     unconditional
s_swappc_b64                        branch           -     call
s_set_pc_i64                        branch           -     indirect
s_endpgm                            control          -     end
s_set_vgpr_msb                      control          -     register_index
s_delay_alu                         hint             -
s_setprio                           hint             -
s_sendmsg_rtn_b64                   message          -     returns
s_memtime                           message          -     returns smem
"""


@pytest.mark.parametrize("row", KNOWN.strip().splitlines(), ids=lambda row: row.split()[0])
def test_known(row: str) -> None:
    name, cls, bits, *traits = row.split()
    op = lookup(name)
    assert (op.cls, op.bits) == (cls, None if bits == "-" else int(bits))
    assert op.traits >= set(traits)


def test_classes_are_documented_and_all_in_use() -> None:
    produced = {lookup(row.split()[0]).cls for row in KNOWN.strip().splitlines()}
    assert produced == set(CLASSES) - {"unknown"}
    assert all(CLASSES.values())
    assert list(CLASSES)[-1] == "unknown"


@pytest.mark.parametrize(
    ("mnemonic", "name"),
    [
        ("v_add_f32_e32", "v_add_f32"),
        ("v_add_f32_e64_dpp", "v_add_f32"),
        ("v_mov_b32_dpp8", "v_mov_b32"),
        ("v_cmp_class_f16_e64", "v_cmp_class_f16"),
        ("v_exp_f32", "v_exp_f32"),
        ("global_load_dword", "global_load_dword"),
    ],
)
def test_encoding_suffixes_are_dropped(mnemonic: str, name: str) -> None:
    assert lookup(mnemonic).name == name


@pytest.mark.parametrize(
    "name",
    ["", "v_", "v_bogus", "s_", "s_frobnicate", "ds_read_b127", "global_load_dwordx5", "_", "é",
     "global_load_", "tbuffer", "v_add_f32 ", ".loc", "s_load_b24", "ds_", "buffer_load_x2"],
)  # fmt: skip
def test_unknown_names_say_so(name: str) -> None:
    op = lookup(name)
    assert (op.name, op.cls, op.bits) == (name, "unknown", None)


def test_operands_and_comment_refine_the_class() -> None:
    load, store = lookup("buffer_load_dword"), lookup("buffer_store_dword")
    assert classify(load, "v1, off, s[0:3], 0 offset:4", "4-byte Folded Reload") == "scratch_load"
    assert classify(store, "v1, off, s[0:3], 0 offset:4", "4-byte Folded Spill") == "scratch_store"
    assert classify(load, "v1, v2, s[0:3], 0 offen", "") == "global_load"
    assert classify(load, "v1, s[8:11], s3 offen offset:16 lds", "") == "lds_direct"
    assert classify(load, "off, s[8:11], s3 lds sc0", "") == "lds_direct"
    assert classify(load, "v1, v2, s[0:3], lds_size offen", "k.lds") == "global_load"
    assert (
        classify(lookup("global_load_dword"), "v1, v[2:3], off", "Folded Reload") == "global_load"
    )
    acc = lookup("v_accvgpr_write_b32")
    assert classify(acc, "a1, v2", "Reload Reuse") == "acc_move"
    assert classify(acc, "a1, v2", "4-byte Folded Spill") == "acc_move"


@pytest.mark.parametrize(
    ("name", "operands", "returns"),
    [
        ("global_atomic_add", "v0, v[2:3], v4, off glc", True),
        ("global_atomic_add", "v0, v[2:3], v4, off sc0", True),
        ("global_atomic_add", "v[2:3], v4, off sc1", False),
        ("global_atomic_add_u32", "v0, v[2:3], v4, off th:TH_ATOMIC_RETURN", True),
        (
            "global_atomic_add_u32",
            "v0, v[2:3], v4, off th:TH_ATOMIC_NT_RETURN scope:SCOPE_DEV",
            True,
        ),
        ("global_atomic_add_u32", "v[2:3], v4, off th:TH_ATOMIC_NT", False),
        ("ds_add_rtn_u32", "v0, v1, v2", True),
        ("ds_add_u32", "v1, v2", False),
        ("global_load_dword", "v0, v[2:3], off sc0", False),
    ],
)
def test_returning_atomics(name: str, operands: str, returns: bool) -> None:
    assert returns_value(lookup(name), operands) is returns


def test_width_of_a_transposing_load_follows_the_wave_size() -> None:
    op = lookup("global_load_tr_b128")
    assert access_bits(op, "v[0:3], v[4:5], off") == 128
    assert access_bits(op, "v[0:1], v[4:5], off") == 64  # wave64
    assert access_bits(lookup("global_load_tr_b64"), "v0, v[4:5], off") == 32
    assert access_bits(lookup("ds_read2_b64"), "v[0:3], v1") == 128
    assert access_bits(lookup("global_load_ubyte"), "v0, v[2:3], off") == 8


# --------------------------------------------------------------------------- LLVM's whole list


def recorded() -> dict[str, list[str]]:
    """Mnemonic -> the targets whose assembler takes it."""
    with RECORDED.open() as file:
        return {
            row["mnemonic"]: [t for t, taken in row.items() if taken == "1"]
            for row in csv.DictReader(file)
        }


def test_every_mnemonic_has_a_class() -> None:
    names = recorded()
    assert len(names) == 2703
    assert [n for n in names if lookup(n).cls == "unknown"] == []
    # Nothing but an encoding suffix is ever stripped.
    stripped = {n: lookup(n).name for n in names if lookup(n).name != n}
    assert all(re.fullmatch(re.escape(short) + "_e(32|64)", n) for n, short in stripped.items())


def test_waits_are_those_that_name_a_counter() -> None:
    """`wait` is for memory; others, such as `s_wait_alu`, say nothing of what is outstanding."""
    maxima = {"vmcnt": 63, "lgkmcnt": 15}
    fields = {"vmcnt": ((0, 4),), "lgkmcnt": ((8, 4),)}
    waits = [n for n in recorded() if n.startswith("s_wait")]
    by_counter = {n for n in waits if decode_wait(n, "0", fields, maxima)}
    assert {n for n in waits if lookup(n).cls == "wait"} == by_counter
    assert {n for n in waits if lookup(n).cls == "alu_wait"} == set(waits) - by_counter
    assert decode_wait("s_wait_idle", "", fields, maxima) == {"vmcnt": 0, "lgkmcnt": 0}
    assert decode_wait("s_wait_idle", "") == {}


def test_no_pattern_is_dead() -> None:
    raw = yaml.safe_load(Path(mnemonics.__file__).with_name("mnemonics.yaml").read_text())
    names = recorded()
    for word in (w for family in raw["families"] for w in family["words"]):
        assert any(n == word or n.startswith(f"{word}_") for n in names), word
    for family in raw["families"]:
        mine = [n for n in names if n.split("_")[0] in family["words"]]
        for pattern in (*family["patterns"], *family.get("traits", ())):
            text = pattern["match"].replace("{w}", r"[a-z]+\d*(x\d+)?")
            assert any(re.fullmatch(text, n) for n in mine), pattern


# --------------------------------------------------------------------------- widths against llvm-mc

SIZES = (32, 64, 96, 128, 160, 192, 256, 512)


def _vgprs(bits: int) -> str:
    return "v10" if bits == 32 else f"v[10:{9 + bits // 32}]"


def _sgprs(bits: int) -> str:
    return "s16" if bits == 32 else f"s[16:{15 + bits // 32}]"


def _forms(name: str, cls: str, half: bool) -> tuple[str, ...]:
    """Ways to write the instruction; `{d}` is the data operand whose width is in question,
    `{both}` a result of twice that."""
    word = name.split("_")[0]
    lds, scalar = word == "ds", word == "s"
    if scalar:
        return ("{d}, s[2:3], 0x0", "{d}, s[4:7], 0x0")
    if lds and cls == "lds_read":
        return ("{d}, v1", "{d}")
    if lds:
        # Plain, returning, compare-and-swap, both, and without a data operand of its own.
        if half:
            return ("v1, {d}, {d}", "{both}, v1, {d}, {d}")
        return ("v1, {d}", "{d}, v1, {d}", "v1, {d}, {d}", "{d}, v1, {d}, {d}", "{d}")
    if word == "buffer":
        return ("{d}, v1, s[4:7], s3 offen",)
    if cls in ("global_load", "scratch_load"):
        return ("{d}, v[2:3], off", "{d}, v1, off", "{d}, v[2:3]", "{d}, off", "{d}, s[2:3]")
    return ("v[2:3], {d}, off", "v1, {d}, off", "v[2:3], {d}", "{d}, off", "{d}, s[2:3]")


def _accepted(target: str, lines: list[str]) -> Iterator[bool]:
    assert MC is not None
    done = subprocess.run(
        [MC, "-triple=amdgcn-amd-amdhsa", f"-mcpu={target}", "-filetype=null"],
        input="\n".join(lines) + "\n", capture_output=True, text=True, check=False,
    )  # fmt: skip
    wrong = {int(n) for n in re.findall(r"^<stdin>:(\d+):\d+: error:", done.stderr, re.M)}
    assert wrong, "a run in which nothing is refused proves nothing"
    return (i not in wrong for i in range(1, len(lines) + 1))


WIDTH_CLASSES = {
    "global_load", "global_store", "lds_read", "lds_write", "scratch_load", "scratch_store",
    "atomic", "lds_atomic", "smem_load", "smem_store",
}  # fmt: skip
# No data operand in a register to judge by.
NO_REGISTER = re.compile(
    r"ds_\w+_src2_\w+|ds_(append|consume|direct_load|param_load)|lds_\w+"
    r"|ds_atomic_async_barrier_arrive_b64"
)
# The operand holds the new value and the comparison, so twice what is moved.
TWO_VALUES = re.compile(r"(?!ds_)\w*cmpswap\w*")
# Two operands of half the width each.
TWO_OPERANDS = ("lds_write", "lds_atomic")


def _operand_bits(name: str) -> int:
    op = lookup(name)
    assert op.bits is not None
    bits = op.bits
    if TWO_VALUES.fullmatch(name):
        bits *= 2
    elif "pair" in op.traits and op.cls in TWO_OPERANDS:
        bits //= 2
    return max(bits, 32)


def _judged(name: str) -> bool:
    """Whether the instruction has a data operand that shows how wide it is."""
    op = lookup(name)
    return op.cls in WIDTH_CLASSES and op.bits is not None and not NO_REGISTER.fullmatch(name)


def _taken(by_target: Mapping[str, list[str]]) -> dict[str, set[int]]:
    """Mnemonic -> the operand widths, in bits, that the assembler takes."""
    taken: dict[str, set[int]] = defaultdict(set)
    for target, names in by_target.items():
        tries = [
            (name, size, f"{name} {form}")
            for name in names
            for size in SIZES
            for form in _forms(name, lookup(name).cls, "pair" in lookup(name).traits)
        ]
        lines = [
            line.format(
                d=_sgprs(size) if name.startswith("s_") else _vgprs(size),
                both=f"v[30:{29 + 2 * size // 32}]",
            )
            for name, size, line in tries
        ]
        for (name, size, _), good in zip(tries, _accepted(target, lines), strict=True):
            if good:
                taken[name].add(size)
    return dict(taken)


@needs_mc
def test_widths_of_one_of_each_kind_equal_the_assemblers() -> None:
    names = [row.split()[0] for row in KNOWN.strip().splitlines()]
    names = [name for name in names if _judged(name)]
    targets = ("gfx906", "gfx950", "gfx1030", "gfx1100", "gfx1201", "gfx1250")
    assert _taken(dict.fromkeys(targets, names)) == {n: {_operand_bits(n)} for n in names}


@needs_mc
def test_all_widths_equal_the_assemblers() -> None:
    by_target: dict[str, list[str]] = defaultdict(list)
    for name, targets in recorded().items():
        if _judged(name):
            by_target[targets[-1]].append(name)
    wanted = {name: {_operand_bits(name)} for names in by_target.values() for name in names}
    assert len(wanted) > 600
    assert _taken(by_target) == wanted


# --------------------------------------------------------------------------- spills by LLVM


def _spilling() -> str:
    """A kernel whose 60 values live across an instruction that takes every VGPR."""
    every = ",".join(f"~{{v{i}}}" for i in range(256))
    loads = "".join(
        f"%p{i} = getelementptr i32, ptr addrspace(1) %p, i32 {i}\n"
        f"%v{i} = load volatile i32, ptr addrspace(1) %p{i}\n"
        for i in range(60)
    )
    stores = "".join(f"store volatile i32 %v{i}, ptr addrspace(1) %p\n" for i in range(60))
    return (
        f"define amdgpu_kernel void @k(ptr addrspace(1) %p) {{\n{loads}"
        f'call void asm sideeffect "", "{every}"()\n{stores}ret void\n}}\n'
    )


@pytest.mark.skipif(LLC is None, reason="llc-22 is not installed")
@pytest.mark.parametrize(("arch", "through"), [("gfx906", "buffer"), ("gfx1100", "scratch")])
def test_spills_that_llvm_writes_are_scratch(arch: str, through: str) -> None:
    assert LLC is not None
    done = subprocess.run(
        [LLC, "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-o", "-"],
        input=_spilling(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, set[str]] = defaultdict(set)
    for line in done.stdout.splitlines():
        match = re.match(r"\t([a-z]\w+) ?([^;]*)(?:; ?(.*))?$", line)
        if match and "Folded" in (match[3] or ""):
            cls = classify(lookup(match[1]), match[2], match[3])
            found[cls].add(match[1].split("_")[0])
    assert found == {"scratch_load": {through}, "scratch_store": {through}}
    frame = re.search(r"^; ScratchSize: (\d+)$", done.stdout, re.M)
    assert frame is not None
    assert int(frame[1]) > 0
