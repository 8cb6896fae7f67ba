"""Operands of a kind that an instruction does not take are refused when it is made ready."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from emulated import run_lines, target_of
from kinspect.inspector.emulator.registry import BuildContext, NotCoveredError, Step
from kinspect.inspector.emulator.steps import step_of
from kinspect.inspector.isa.dataflow.operands import SUFFIXES, decode

FORMS = Path(__file__).parent / "data" / "emulator" / "forms.txt"
WRONG = """
gfx90a s_load_dword s2, v255, 0x8
gfx90a s_load_dword s2, v4, 0x8
gfx942 s_load_dword exec_lo, s[4:5], 0x8
gfx942 s_load_dword m0, s[4:5], 0x8
gfx942 s_load_dwordx4 s2, s[4:5], 0x8
gfx942 s_load_dwordx2 s[sgprBase:sgprBase+1], s[4:5], 0x8
gfx942 s_mov_b32 s200, 1
gfx942 s_mov_b32 s0, v1
gfx942 s_memtime exec
gfx942 ds_read_b32 exec, v3
gfx942 ds_read_b32 v1, s3
gfx942 ds_read_b128 v3, v2
gfx942 ds_write_b32 v1, 1
gfx1100 ds_load_b32 a1, v3
gfx942 ds_add_u32 v1, s2
gfx942 ds_bpermute_b32 v1, s2, v3
gfx942 global_load_dword s1, v[2:3], off
gfx942 global_load_dword v1, v[2:3], v[4:5]
gfx942 global_load_dword v1, v[2:3], s[4:5]
gfx942 global_load_dword v1, s[2:3], off
gfx942 global_store_dword v[2:3], exec_lo, off
gfx942 global_store_dwordx4 v[2:3], v1, off
gfx942 global_atomic_add v[2:3], s1, off
gfx942 global_load_lds_dword s[2:3], off
gfx942 flat_load_dword s1, v[2:3]
gfx942 scratch_load_dword s1, v2, off
gfx942 scratch_store_dword 1.0, v2, off
gfx942 buffer_load_dword s1, v2, s[4:7], 0 offen
gfx942 buffer_load_dword v1, v2, v[4:7], 0 offen
gfx942 buffer_load_dword v1, off, s[4:7], 0 offen
gfx942 buffer_load_dword v1, v2, s4, 0 offen
gfx942 buffer_atomic_add exec_lo, v2, s[4:7], 0 offen
gfx942 v_mov_b32_e32 s1, v2
gfx942 v_add_f32_e32 v1, a2, v3
gfx942 v_add_f64 v[0:1], v2, v[4:5]
gfx942 v_readlane_b32 v1, v2, s3
gfx942 v_writelane_b32 s1, s2, s3
gfx942 v_swap_b32 v1, s2
gfx950 v_permlane32_swap_b32_e32 v1, s2
gfx942 v_cmp_eq_u32_e64 v1, v2, v3
gfx942 v_cmp_eq_u32_e64 s1, v2, v3
gfx942 v_cndmask_b32_e64 v1, v2, v3, v4
gfx942 v_add_co_u32_e64 v1, v2, v3, v4
gfx942 v_mad_u64_u32 v[0:1], v[2:3], v4, v5, v[6:7]
gfx942 v_mfma_f32_32x32x8_f16 a[0:15], s[0:1], v[2:3], a[0:15]
gfx942 v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], s[0:15]
gfx942 v_mfma_f32_32x32x8_f16 a[0:3], v[0:1], v[2:3], a[0:3]
gfx942 v_accvgpr_read_b32 v0, v1
gfx942 v_accvgpr_write_b32 v0, v1
gfx1100 v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], s[16:23], v[0:7]
gfx1201 s_fmac_f16 s1, s2
gfx1201 s_ceil_f16 s1
gfx1201 v_pk_min_num_f16 v1, v2
"""


def step_for(line: str) -> Step:
    arch, mnemonic, text = line.split(" ", 2)
    target = target_of(arch, accum_offset=256)
    return step_of(decode(mnemonic, text, SUFFIXES, 256), BuildContext(target, 0))


def refusal_of(line: str) -> str | None:
    """Why an instruction is refused before it runs; None where it is not."""
    step = step_for(line)
    if not getattr(step, "__qualname__", "").startswith("refusal"):
        return None
    with pytest.raises(NotCoveredError) as raised:
        step(None)  # type: ignore[arg-type]
    return str(raised.value)


@pytest.mark.parametrize("line", WRONG.strip().splitlines())
def test_operands_that_llvm_would_not_assemble_are_refused(line: str) -> None:
    assert refusal_of(line) is not None


@pytest.mark.parametrize(
    "line",
    [
        "s_barrier_signal", "s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 25, 1)", "s_denorm_mode",
        "v_swap_b32 v1", "s_setpc_b64", "s_swappc_b64 s[0:1]",
    ],
)  # fmt: skip
def test_missing_operands_are_no_internal_error(line: str) -> None:
    with pytest.raises(NotCoveredError):
        run_lines("gfx1201", line)


def others(operand: str) -> Iterator[str]:
    """Operands of other kinds in as many registers."""
    match = re.search(r"\[(\d+):(\d+)\]", operand)
    count = int(match[2]) - int(match[1]) + 1 if match else 1
    for bank in "vsa":
        yield f"{bank}4" if count == 1 else f"{bank}[4:{3 + count}]"
    yield from ("exec", "vcc") if count == 2 else ("exec_lo", "vcc_lo", "m0")
    yield from ("null", "1", "1.0")


@pytest.mark.skipif(not shutil.which("llvm-mc-22"), reason="needs LLVM 22")
@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_what_llvm_assembles_is_not_refused_for_its_operands(arch: str) -> None:
    """Every operand of every form exchanged for those of other kinds."""
    forms: dict[str, str] = {}
    for line in FORMS.read_text().splitlines():
        name, _, text = line.partition(" ")
        if name == arch and "::" not in text and "(" not in text:
            forms.setdefault(text.split(" ")[0], text)
    lines = []
    for text in forms.values():
        mnemonic, _, operands = text.partition(" ")
        parts = re.split(r", (?![^\[]*\])", operands)
        for place, part in enumerate(parts):
            operand, *modifiers = part.split(" ")
            for other in others(operand):
                changed = [*parts[:place], " ".join([other, *modifiers]), *parts[place + 1 :]]
                lines.append(f"{mnemonic} {', '.join(changed)}")
    tool = ["llvm-mc-22", "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-filetype=null"]
    if arch == "gfx1201":
        tool.append("-mattr=+real-true16")
    answer = subprocess.run(
        tool, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False
    )
    bad = {int(number) for number in re.findall(r"<stdin>:(\d+):\d+: error", answer.stderr)}
    taken = [line for number, line in enumerate(lines, 1) if number not in bad]
    assert len(taken) > 1000
    refused = {line: refusal_of(f"{arch} {line}") for line in taken}
    said = ("operands of a kind", "registers belong", "too few registers")
    assert [line for line, why in refused.items() if why and any(s in why for s in said)] == []


def test_what_is_no_number_in_a_modifier_states_none() -> None:
    inst = decode("v_pk_fma_f16", "v0, v1, v2, v3 op_sel:[0,x,1] offset:y", SUFFIXES, 0)
    assert (inst.numbers("op_sel", (7,)), inst.number("offset", 7)) == ((7,), 7)
