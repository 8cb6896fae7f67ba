"""Makes `data/emulator/forms.txt`, the instruction forms that test_emulator_witness.py compares.

    python tests/emulator_forms.py [shapes.json] > tests/data/emulator/forms.txt

A line: gfx name, then the instruction. They come from three places: what `llvm-mc-22` disassembles
when the opcode fields of VOP1, VOP2, VOPC, VOP3, VOP3P, SOP1, SOP2, SOPC and SOPK count through
(layouts: CDNA3 ISA, 13; RDNA3 ISA, 15); modifiers on common operations, below; and, where a list
of them is given (JSON: [{"arch", "class", "example"}]), forms of compiled kernels.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ARCHS = ("gfx942", "gfx950", "gfx90a", "gfx1201", "gfx1100")
"""In this order: a mnemonic is taken from the first of its family that has it."""
_ATTRIBUTES = {"gfx1201": "+real-true16", "gfx1100": "+real-true16"}
_NOT_COMPARED = re.compile(
    r"v_mfma|v_smfmac|v_wmma|v_swmmac|v_interp|v_nop|v_clrexcp|v_pipeflush|v_cube|v_movrel"
    r"|v_swaprel|s_(set|get)|s_swappc|s_call|s_rfe|s_cbranch|s_mov(rel|_fed)|s_wait|s_version"
    r"|s_sleep|s_barrier|s_sub?vector|s_alloc|s_sendmsg|s_branch|v_s?creen|s_trap|v_readfirst"
    r"|s_subvector|s_atomic|v_illegal|ds_"
)
_CLASSES = ("valu int", "valu float", "16-bit/packed", "compare", "convert", "cross-lane", "salu")


def disassembled(arch: str, words: list[list[int]]) -> list[str]:
    """The instructions that some encodings are; those that LLVM does not know fall out."""
    mark = "0x01 0x00 0x80 0xbf\n"  # s_nop 1: between any two, so that no literal is shared
    blocks = [
        " ".join(f"0x{byte:02x}" for word in block for byte in word.to_bytes(4, "little"))
        for block in words
    ]
    text = "".join(f"{block}\n{mark * 4}" for block in blocks)
    tool = ["llvm-mc-22", "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-disassemble"]
    if arch in _ATTRIBUTES:
        tool.append(f"-mattr={_ATTRIBUTES[arch]}")
    answer = subprocess.run(tool, input=text, capture_output=True, text=True, check=False)
    lines = (line.split("//")[0].strip() for line in answer.stdout.splitlines())
    return list(
        dict.fromkeys(
            line
            for line in lines
            if line.startswith(("v_", "s_")) and "Invalid" not in line and "0xbf800001" not in line
        )
    )


def encodings(arch: str) -> list[list[int]]:
    """All opcodes with vector sources v2, v4, v6, scalar ones s2, s4, and s[22:23] as a mask."""
    words: list[list[int]] = []
    v2, v4, v6 = 0x102, 0x104, 0x106
    literal = 0x40490FDB
    for op in range(256):
        words += [[0x7E000000 | 10 << 17 | op << 9 | v2], [0x7C000000 | op << 17 | 4 << 9 | v2]]
        words.append([0xBE800000 | 20 << 16 | op << 8 | 2])
    for op in range(62):
        vop2 = op << 25 | 10 << 17 | 4 << 9
        words += [[vop2 | v2], [vop2 | 0xFF, literal], [vop2 | v2, literal]]
    long_form = 0xD0000000 if arch.startswith("gfx9") else 0xD4000000
    for op in range(1024):
        start = long_form | op << 16
        for destination in (10, 20, 22 << 8 | 10):
            for sources in (
                v2 | v4 << 9 | v6 << 18, v2 | v4 << 9, v2, v2 | v4 << 9 | 24 << 18, 2 | v4 << 9,
                2 | v4 << 9 | v6 << 18, v2 | 4 << 9, v2 | 4 << 9 | 193 << 18,
            ):  # fmt: skip
                words.append([start | destination, sources])
    packed = 0xD3800000 if arch.startswith("gfx9") else 0xCC000000
    for op in range(128):
        for low, high in ((0, 7), (0, 0), (5, 2)):
            first = packed | op << 16 | high >> 2 << 14 | low << 11 | 10
            words += [
                [first, v2 | v4 << 9 | v6 << 18 | (high & 3) << 27],
                [first, v2 | v4 << 9 | (high & 3) << 27],
                [first | 3 << 8, v2 | v4 << 9 | v6 << 18 | (high & 3) << 27 | 5 << 29],
            ]
    for op in range(112):
        words.append([0x80000000 | op << 23 | 20 << 16 | 4 << 8 | 2])
        words.append([0x80000000 | op << 23 | 20 << 16 | 4 << 8 | 0xC3])
    for op in range(28):
        words.append([0xB0000000 | op << 23 | 20 << 16 | 0x8123])
    for op in range(128):
        words.append([0xBF000000 | op << 16 | 4 << 8 | 2])
    return words


def _controls(arch: str) -> list[str]:
    controls = ["quad_perm:[1,0,3,2]", "row_shl:1", "row_shr:3", "row_ror:5", "row_mirror",
                "row_half_mirror"]  # fmt: skip
    if arch.startswith("gfx9"):
        controls += ["row_bcast:15", "row_bcast:31", "wave_shl:1", "wave_ror:1", "row_newbcast:3"]
    else:
        controls += ["row_share:3", "row_xmask:5"]
    return controls


def with_modifiers(arch: str) -> list[str]:
    """Modifiers on common operations."""
    add = "v_add_u32" if arch.startswith("gfx9") else "v_add_nc_u32"
    lines = []
    for control in _controls(arch):
        for ends in (
            "row_mask:0xf bank_mask:0xf", "row_mask:0xf bank_mask:0xf bound_ctrl:1",
            "row_mask:0xa bank_mask:0x5",
        ):  # fmt: skip
            lines += [
                f"v_mov_b32_dpp v10, v2 {control} {ends}",
                f"v_add_f32_dpp v10, v2, v4 {control} {ends}",
                f"{add}_dpp v10, v2, v4 {control} {ends}",
            ]
    for name in ("v_add_f32", "v_mul_f32", "v_sub_f32"):
        lines += [
            f"{name}_e64 v10, {operands}"
            for operands in (
                "-v2, v4", "|v2|, -v4", "-|v2|, |v4|", "v2, v4 clamp", "v2, v4 mul:2",
                "v2, v4 mul:4", "v2, v4 div:2", "-v2, |v4| clamp mul:4", "s2, 0.5",
                "v2, 0.15915494",
                "v2, -4.0", "v2, 64", "v2, -16",
            )
        ]  # fmt: skip
    for operands in ("v2, -|v4|, v6", "-v2, v4, -v6 clamp", "v2, v4, 1.0 mul:2", "v2, s4, s4"):
        lines.append(f"v_fma_f32 v10, {operands}")
        lines.append(f"v_med3_{'num_' if arch == 'gfx1201' else ''}f32 v10, {operands}")
    for name in ("v_add_f64", "v_mul_f64"):
        name += "_e64" if arch == "gfx1201" else ""
        for operands in ("-v[2:3], |v[4:5]|", "v[2:3], v[4:5] clamp", "v[2:3], 2.0", "v[2:3], 3"):
            lines.append(f"{name} v[10:11], {operands}")
    for operands in ("-v2", "|v2|", "v2 clamp", "v2 mul:2"):
        for name in ("v_rcp_f32", "v_sqrt_f32", "v_floor_f32", "v_cvt_f32_i32", "v_exp_f32"):
            if name != "v_cvt_f32_i32" or operands.endswith("p") or ":" in operands:
                lines.append(f"{name}_e64 v10, {operands}")
    for name in ("v_cmp_lt_f32_e64", "v_cmp_class_f32_e64"):
        mask = "s[20:21]" if arch.startswith("gfx9") else "s20"
        lines += [f"{name} {mask}, -v2, v4", f"{name} {mask}, |v2|, v4"]
    if arch.startswith("gfx9"):
        selects = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
        for select in selects:
            other = selects[(selects.index(select) + 3) % 7]
            pairs = f"src0_sel:{select} src1_sel:{other}"
            for result in (
                "dst_sel:DWORD dst_unused:UNUSED_PAD", "dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE",
                "dst_sel:WORD_1 dst_unused:UNUSED_PAD", "dst_sel:WORD_0 dst_unused:UNUSED_PRESERVE",
                "dst_sel:BYTE_2 dst_unused:UNUSED_PAD",
            ):  # fmt: skip
                lines += [
                    f"v_or_b32_sdwa v10, v2, v4 {result} {pairs}",
                    f"v_add_u32_sdwa v10, sext(v2), v4 {result} {pairs}",
                    f"v_cvt_f32_i32_sdwa v10, sext(v2) {result} src0_sel:{select}",
                    f"v_lshlrev_b16_sdwa v10, v2, v4 {result} {pairs}",
                ]
            lines.append(f"v_cmp_lt_u32_sdwa s[20:21], v2, v4 {pairs}")
            lines.append(f"v_cmp_gt_i32_sdwa vcc, sext(v2), sext(v4) {pairs}")
        for bits in ("0,0,1", "1,0,0", "0,1,1", "1,1,0"):
            lines.append("v_add_u16_e64 v10, v2, v4 clamp")
            lines.append(f"v_mad_u16 v10, v2, v4, v6 op_sel:[{bits},1]")
            lines.append(f"v_fma_f16 v10, v2, v4, v6 op_sel:[{bits},0]")
            lines.append(f"v_med3_i16 v10, v2, v4, v6 op_sel:[{bits},1]")
        for name in ("v_add_u32", "v_sub_u32", "v_add_i32", "v_sub_i32", "v_subrev_u32"):
            lines.append(f"{name}{'' if name.endswith('i32') else '_e64'} v10, v2, v4 clamp")
        for name in ("v_add_co_u32_e64", "v_sub_co_u32_e64"):
            lines.append(f"{name} v10, s[20:21], v2, v4 clamp")
        lines += ["v_add_i16 v10, v2, v4 clamp", "v_sub_i16 v10, v2, v4 clamp",
                  "v_sub_u16_e64 v10, v2, v4 clamp"]  # fmt: skip
    else:
        for name in ("v_add_nc_u32", "v_sub_nc_u32", "v_add_nc_i32", "v_sub_nc_i32"):
            lines.append(f"{name}{'' if name.endswith('i32') else '_e64'} v10, v2, v4 clamp")
        lines += [f"v_add_nc_{kind} v10.l, v2.h, v4.l clamp" for kind in ("i16", "u16")]
        lines += [f"v_sub_nc_{kind} v10.h, v2.h, v4.l clamp" for kind in ("i16", "u16")]
        for name in (
            "v_add_f16",
            "v_mul_f16",
            "v_max_num_f16" if arch == "gfx1201" else "v_max_f16",
        ):
            lines += [f"{name}_e64 v10.{a}, v2.{b}, -|v4.{c}|" for a, b, c in ("lhl", "hlh", "hhl")]
        lines += [
            "v_dual_add_f32 v10, v2, v5 :: v_dual_mul_f32 v7, v10, v4",
            "v_dual_mov_b32 v10, v7 :: v_dual_mov_b32 v7, v10",
            "v_dual_fmac_f32 v10, v2, v5 :: v_dual_fmac_f32 v7, v3, v4",
            "v_dual_cndmask_b32 v10, v2, v5 :: v_dual_sub_f32 v7, v3, v4",
            "v_dual_max_num_f32 v10, v2, v5 :: v_dual_min_num_f32 v7, v3, v4"
            if arch == "gfx1201"
            else "v_dual_max_f32 v10, v2, v5 :: v_dual_min_f32 v7, v3, v4",
            "v_dual_mul_f32 v10, v2, v5 :: v_dual_lshlrev_b32 v7, v3, v4",
            "v_dual_subrev_f32 v10, v2, v5 :: v_dual_add_nc_u32 v7, v3, v4",
            "v_dual_fmaak_f32 v10, v2, v5, 0x40490fdb :: v_dual_and_b32 v7, v3, v4",
            "v_dual_fmamk_f32 v10, v2, 0x40490fdb, v5 :: v_dual_mov_b32 v7, 1.0",
            "v_dual_dot2acc_f32_f16 v10, v2, v5 :: v_dual_mul_dx9_zero_f32 v7, v3, v4",
        ]
    for low, high in (("1,0", "0,1"), ("1,1", "0,0"), ("0,0", "1,0")):
        lines += [
            f"v_pk_{name} v10, v2, v4 op_sel:[{low}] op_sel_hi:[{high}]"
            for name in (
                "add_f16", "mul_f16", "add_u16", "sub_i16", "lshlrev_b16", "max_i16", "mul_lo_u16",
            )
        ]  # fmt: skip
        lines.append(
            f"v_pk_add_f16 v10, v2, v4 op_sel:[{low}] neg_lo:[{high}] neg_hi:[{low}] clamp"
        )
        lines.append(f"v_pk_add_u16 v10, v2, v4 op_sel:[{low}] clamp")
        lines.append("v_pk_sub_i16 v10, v2, v4 clamp")
        if arch in ("gfx90a", "gfx942", "gfx950"):
            lines += [
                f"v_pk_{name}_f32 v[10:11], v[2:3], v[4:5] op_sel:[{low}] op_sel_hi:[{high}] "
                f"neg_lo:[{high}]" for name in ("add", "mul")
            ]  # fmt: skip
    for bits in ("0,0,0", "1,0,1", "0,1,0"):
        for hi in ("1,1,1", "0,1,0", "1,0,1"):
            for form in ("_f32 v10", "lo_f16 v10", "hi_f16 v10"):
                lines.append(f"v_fma_mix{form}, v2, -v4, |v6| op_sel:[{bits}] op_sel_hi:[{hi}]")
    return lines


def _name(line: str) -> str:
    return re.sub(r"_(e32|e64|sdwa|dpp|e64_dpp)$", "", line.split()[0])


def forms(shapes: Path | None) -> list[tuple[str, str]]:
    """(gfx name, instruction); few of each mnemonic."""
    chosen: dict[tuple[str, str], None] = {}
    taken: dict[tuple[bool, str], str] = {}
    for arch in ARCHS:
        count: dict[str, int] = {}
        for line in disassembled(arch, encodings(arch)):
            if _NOT_COMPARED.match(line) or re.search(
                r"\bnull\b|ttmp|src_|shared|xnack|flat_", line
            ):
                continue
            owner = taken.setdefault((arch.startswith("gfx9"), _name(line)), arch)
            word = line.split()[0]
            count[word] = count.get(word, 0) + 1
            if owner == arch and count[word] <= (2 if "cmp" not in word else 1):
                chosen[arch, line] = None
        for line in with_modifiers(arch):
            if arch in ("gfx942", "gfx1201"):
                chosen[arch, line] = None
    of_kernels: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
    for entry in json.loads(shapes.read_text()) if shapes else []:
        arch, line = entry["arch"], entry["example"]
        if arch in ARCHS and entry["class"] in _CLASSES and not _NOT_COMPARED.match(line):
            key, bare = (arch[:4], line.split()[0]), re.sub(r"\d+", "", line)
            of_kernels.setdefault(key, {}).setdefault(bare, (arch, line))
    for shapes_of_word in of_kernels.values():
        chosen.update(dict.fromkeys(list(shapes_of_word.values())[:4]))
    return list(chosen)


if __name__ == "__main__":
    sys.stdout.write("# Made by tests/emulator_forms.py, which says from what.\n")
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    for arch, line in sorted(forms(given)):
        sys.stdout.write(f"{arch} {line}\n")
