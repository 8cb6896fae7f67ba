"""Which registers an instruction writes and reads, held against LLVM's own machine IR."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import counter_machine
import pytest
from kinspect.inspector.explain.code.uses import (
    effects,
    numbers_of,
    registers_of,
    uses,
)
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.dataflow.operands import name_of as row_name
from kinspect.inspector.isa.mnemonics import classify, lookup
from kinspect.inspector.model import Function, Instruction

DATA = Path(__file__).parent / "data" / "isa"
TEXTS = sorted(p for p in DATA.glob("*.[as]*") if "handwritten" not in p.name)
LLC = shutil.which("llc-22")
HEAD = '.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"\n.text\n.globl k\n.type k,@function\nk:\n'


def function_of(body: str) -> Function:
    return parse_text(HEAD + body + "s_endpgm\n", "k.s").functions[0]


def instruction(text: str) -> Instruction:
    mnemonic, _, operands = text.partition(" ")
    op = lookup(mnemonic)
    return Instruction(0, 1, mnemonic, operands, "", op, classify(op, operands, ""))


def name_of(row: int) -> str:
    special = ("scc", "exec_lo", "exec_hi")
    name = next((name for name in special if numbers_of(name) == (row,)), None)
    return name or row_name(row, numbers_of("a0")[0])


# ------------------------------------------------------------------------------ against LLVM

IR = Path(__file__).parent / "data" / "browse"
SILENT = re.compile(
    r"(?:DBG_|CFI_|KILL|IMPLICIT_DEF|ATOMIC_FENCE|SCHED_|WAVE_BARRIER|SI_MASKED_UNREACHABLE|BUNDLE)"
)
MIR = re.compile(
    r"^\s+(?:(?P<defs>[^=(]*?) = )?(?P<flags>(?:[a-z]\w* )*)(?P<op>[A-Z]\w*)(?P<rest>.*)$"
)


def registers_of_mir(text: str) -> set[str]:
    """`$vgpr0_vgpr1_lo16` and the like, one by one."""
    found: set[str] = set()
    for name in re.findall(r"\$(\w+)", text):
        if name in ("vcc", "exec"):
            found |= {f"{name}_lo", f"{name}_hi"}
        elif name in ("vcc_lo", "vcc_hi", "exec_lo", "exec_hi", "scc", "m0"):
            found.add(name)
        else:
            parts = re.findall(r"([vsa])gpr(\d+)", name)
            found |= {f"{kind}{number}" for kind, number in parts}
    return found


def of_mir(text: str) -> list[tuple[str, set[str], set[str]]]:
    """Opcode, what is written and what is read, of each instruction that leaves a trace."""
    found = []
    for line in text.split("\n"):
        match = MIR.match(line.split(" :: ")[0])
        if match is None or SILENT.match(match["op"]) or line.rstrip().endswith(":"):
            continue
        rest = match["rest"]
        implicit = re.findall(r"implicit-def (?:dead |killed |renamable )*(\$\w+)", rest)
        read = re.sub(r"implicit-def (?:dead |killed |renamable )*\$\w+", "", rest)
        # Registers that are named for their neighbours' sake, and that lanes are masked, is said
        # of all instructions.
        masked = r"mode|[vsa]gpr\w+" if "EXEC" in match["op"] else r"mode|[vsa]gpr\w+|exec\w*"
        read = re.sub(rf"implicit (?:killed |undef |renamable )*\$(?:{masked})", "", read)
        if match["op"].endswith("_dpp"):  # old values that nobody sees
            read = re.sub(r"^\s*undef (?:renamable )?\$\w+", "", read)
        written = registers_of_mir(match["defs"] or "")
        special = [name for name in implicit if re.match(r"\$(?:vcc|exec|scc)", name)]
        written |= {one for name in special for one in registers_of_mir(name)}
        found.append((match["op"], written, registers_of_mir(read)))
    return found


@pytest.mark.skipif(LLC is None, reason="needs llc-22")
@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx1100", "gfx1201", "gfx1250"])
def test_writes_and_reads_are_those_of_llvms_machine_ir(target: str) -> None:
    checked = 0
    # In wave32 the upper half of a mask of lanes is not looked at; M0 is set up and never named.
    unseen = {"m0"} if target.startswith("gfx9") else {"m0", "vcc_hi"}
    for name in ["registers", "matrix"] if target.startswith("gfx9") else ["registers"]:
        source = str(IR / f"{name}.ll")
        command = [str(LLC), "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={target}", source, "-o", "-"]
        mir = _output([*command, "-stop-after=branch-relaxation"])
        bodies = dict(re.findall(r"^name: +(\S+)\n(?:.*\n)*?body: +\|\n((?: .*\n|\n)*)", mir, re.M))
        for function in parse_text(_output(command), "k.s").functions:
            expected = of_mir(bodies[function.name])
            for inst, (opcode, writes, reads) in zip(function.instructions, expected, strict=True):
                written, read = ({name_of(n) for n in numbers} for numbers in effects(inst))
                told = f"{target} {inst.mnemonic} {inst.operands} ({opcode})"
                assert written - unseen == writes - unseen, told
                if "D16" in opcode:  # it keeps the other half, as LLVM sees on old targets alone
                    read -= written
                    reads -= writes
                assert read - unseen == reads - unseen, told
                checked += bool(writes or reads)
    assert checked > 120


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


# ------------------------------------------------------------------------------ by hand

TABLE = {
    # text: (writes, reads)
    "v_swap_b32 v1, v2": ("v1 v2", "v1 v2"),
    "v_permlane32_swap_b32_e32 v1, v2": ("v1 v2", "v1 v2"),
    "v_fmac_f32_e32 v1, v2, v3": ("v1", "v1 v2 v3"),
    "v_mac_f32_e32 v1, v2, v3": ("v1", "v1 v2 v3"),
    "v_dot2c_f32_f16_e32 v1, v2, v3": ("v1", "v1 v2 v3"),
    "v_accvgpr_write_b32 a7, v3": ("a7", "v3"),
    "v_accvgpr_read_b32 v3, a7": ("v3", "a7"),
    "v_mfma_f32_4x4x4_16b_f16 a[0:3], v[0:1], v[2:3], a[0:3]": (
        "a0 a1 a2 a3",
        "v0 v1 v2 v3 a0 a1 a2 a3",
    ),
    "v_mov_b32_dpp v1, v2 row_shr:1 row_mask:0xf bank_mask:0xf": ("v1", "v1 v2"),
    "v_mov_b32_dpp v1, v2 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0": ("v1", "v2"),
    "v_mov_b32_dpp v1, v2 row_shr:1 row_mask:0x3 bank_mask:0xf bound_ctrl:0": ("v1", "v1 v2"),
    "s_cbranch_execz .L1": ("", "exec_lo exec_hi"),
    "v_cmp_lt_f32_e64 s[4:5], v1, |v2|": ("s4 s5", "v1 v2"),
    "v_cmpx_lt_f32_e32 vcc, v1, v2": ("vcc_lo vcc_hi exec_lo exec_hi", "v1 v2"),
    "v_cmpx_lt_f32_e32 v1, v2": ("exec_lo exec_hi", "v1 v2"),
    "v_dual_mul_f32 v0, v1, v2 :: v_dual_fmac_f32 v3, v4, v5": ("v0 v3", "v1 v2 v3 v4 v5"),
    "v_dual_mov_b32 v0, v1 :: v_dual_add_f32 v3, s4, v5": ("v0 v3", "v1 s4 v5"),
    "s_cmp_eq_u32 s1, 0": ("scc", "s1"),
    "s_addk_i32 s1, 0x7": ("s1 scc", "s1"),
    "s_cselect_b32 s1, s2, s3": ("s1", "s2 s3 scc"),
    "s_cbranch_scc1 .L1": ("", "scc"),
    "s_cbranch_vccnz .L1": ("", "vcc_lo vcc_hi"),
    "s_setpc_b64 s[30:31]": ("", "s30 s31"),
    "s_swappc_b64 s[30:31], s[4:5]": ("s30 s31", "s4 s5"),
    "s_mov_b32 m0, s4": ("m0", "s4"),
    "s_store_dword s1, s[2:3], 0x0": ("", "s1 s2 s3"),
    "s_load_dwordx4 s[4:7], s[0:1], 0x10": ("s4 s5 s6 s7", "s0 s1"),
    "s_sendmsg_rtn_b32 s1, sendmsg(MSG_RTN_GET_DOORBELL)": ("s1", ""),
    "buffer_load_dword v1, s[0:3], 0 offen lds": ("", "v1 s0 s1 s2 s3"),
    "buffer_load_dword v1, v2, s[0:3], 0 offen": ("v1", "v2 s0 s1 s2 s3"),
    "buffer_atomic_add v1, v2, s[0:3], 0 offen glc": ("v1", "v1 v2 s0 s1 s2 s3"),
    "buffer_atomic_add v1, v2, s[0:3], 0 offen": ("", "v1 v2 s0 s1 s2 s3"),
    "global_atomic_add v1, v[2:3], v4, off sc0": ("v1", "v2 v3 v4"),
    "global_atomic_add_u32 v1, v[2:3], v4, off th:TH_ATOMIC_RETURN": ("v1", "v2 v3 v4"),
    "global_atomic_add v[2:3], v4, off": ("", "v2 v3 v4"),
    "global_load_short_d16_hi v1, v[2:3], off": ("v1", "v1 v2 v3"),
    "ds_read2_b32 v[1:2], v3 offset1:1": ("v1 v2", "v3"),
    "ds_write2_b32 v3, v1, v2 offset1:1": ("", "v1 v2 v3"),
    "ds_add_rtn_u32 v1, v2, v3": ("v1", "v2 v3"),
    "ds_add_u32 v2, v3": ("", "v2 v3"),
    "ds_bpermute_b32 v1, v2, v3": ("v1", "v2 v3"),
    "global_load_lds_dwordx4 v[2:3], off": ("", "v2 v3"),
    "global_load_async_to_lds_b128 v1, v[2:3], off": ("", "v1 v2 v3"),
    "v_readlane_b32 s1, v2, s3": ("s1", "v2 s3"),
    "v_writelane_b32 v1, s2, 3": ("v1", "v1 s2"),
    "v_mad_u64_u32 v[0:1], s[2:3], v4, v5, v[6:7]": ("v0 v1 s2 s3", "v4 v5 v6 v7"),
    "s_waitcnt vmcnt(0)": ("", ""),
    "s_barrier": ("", ""),
    "s_nop 0": ("", ""),
    "s_endpgm": ("", ""),
}


@pytest.mark.parametrize("text", TABLE)
def test_what_isa_documents_say_of_single_instructions(text: str) -> None:
    written, read = effects(instruction(text))
    assert {name_of(n) for n in written} == set(TABLE[text][0].split())
    assert {name_of(n) for n in read} == set(TABLE[text][1].split())


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: p.name)
def test_every_register_that_is_named_is_written_or_read(path: Path) -> None:
    """Held against another reading of operands; what nobody names may come on top."""
    implicit = {"vcc_lo", "vcc_hi", "exec_lo", "exec_hi", "scc", "m0"}
    named = 0
    for function in parse_text(path.read_text("utf-8"), path.name).functions:
        for inst in function.instructions:
            written, read = effects(inst)
            found = {name_of(n) for n in written | read}
            # The other reading has no trap temporaries, flat_scratch and xnack_mask.
            found = {name for name in found if not re.match(r"s1[012]\d$", name)}
            wanted = set(counter_machine.registers(inst.operands))
            unread = wanted - found - implicit  # of a pair op_sel may pick one
            assert not unread or "op_sel" in inst.operands, inst
            assert found - implicit <= wanted, inst
            named += len(wanted)
    assert named > 10


# ------------------------------------------------------------------------------ uses

BODY = """\
v_mov_b32_e32 v1, 0
v_mov_b32_e32 v2, 1
.Lloop:
v_add_u32_e32 v3, v1, v2
v_mov_b32_e32 v1, v3
s_cbranch_scc1 .Lloop
v_mov_b32_e32 v4, v1
v_mov_b32_e32 v1, 7
v_add_u32_e32 v5, v1, v4
"""
FIRST = HEAD.count("\n")


def test_uses_are_every_write_and_read_in_order() -> None:
    found = uses(function_of(BODY), FIRST, "v1")
    assert found.register == "v1"
    assert found.writes == (FIRST, FIRST + 4, FIRST + 7)
    assert found.reads == (FIRST + 3, FIRST + 6, FIRST + 8)


def test_a_value_is_followed_round_the_loop_and_to_the_next_write() -> None:
    function = function_of(BODY)
    first = {at - FIRST for at in uses(function, FIRST, "v1").of_value}
    assert first == {0, 3}  # it is overwritten before the loop ends
    carried = {at - FIRST for at in uses(function, FIRST + 4, "v1").of_value}
    assert carried == {4, 3, 6}
    read = {at - FIRST for at in uses(function, FIRST + 3, "v1").of_value}
    assert read == {0, 4, 3, 6}  # either of two writes
    late = {at - FIRST for at in uses(function, FIRST + 8, "v1").of_value}
    assert late == {7, 8}
    passing = {at - FIRST for at in uses(function, FIRST + 5, "v1").of_value}
    assert passing == {4, 3, 6}


def test_any_register_of_a_range_counts() -> None:
    function = function_of("v_mov_b32_e32 v5, 0\nglobal_store_dwordx4 v[0:1], v[4:7], off\n")
    assert uses(function, FIRST, "v[4:7]").writes == (FIRST,)
    assert uses(function, FIRST, "v5").reads == (FIRST + 1,)
    assert uses(function, FIRST, "v8").reads == ()
    # A part that is written does not end what the rest holds.
    body = "v_mov_b32_e32 v4, 0\nv_mov_b32_e32 v5, 0\nglobal_store_dwordx2 v[0:1], v[4:5], off\n"
    found = uses(function_of(body), FIRST + 2, "v[4:5]")
    assert found.of_value == {FIRST, FIRST + 1, FIRST + 2}


def test_without_a_register_it_is_what_the_line_writes() -> None:
    function = function_of(
        "v_add_u32_e32 v3, v1, v2\nglobal_store_dword v[0:1], v3, off\ns_nop 1\n"
    )
    assert uses(function, FIRST).register == "v3"
    assert uses(function, FIRST + 1).register == "v[0:1]"
    assert uses(function, FIRST + 2).register == ""
    assert uses(function, 10_000).writes == ()
    assert uses(function, FIRST, "nonsense").writes == ()


def test_registers_are_found_by_column() -> None:
    line = "        v_mfma_f32_16x16x16_f16 a[0:3], v12, v[14:15], a[0:3] ; v99"
    names = [line[start:stop] for start, stop, _ in registers_of(line)]
    assert names == [name for _, _, name in registers_of(line)]
    assert names == ["a[0:3]", "v12", "v[14:15]", "a[0:3]"]
    assert [name for _, _, name in registers_of("s_and_saveexec_b64 s[0:1], vcc")] == [
        "s[0:1]",
        "vcc",
    ]
