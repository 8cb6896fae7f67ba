"""Where a wave finds what it starts with: directives against the descriptor LLVM makes of them."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from emulated import OUT
from kinspect.inspector.emulator.grid import Launch
from kinspect.inspector.emulator.launch import Emulator
from kinspect.inspector.emulator.memory import buffer_of
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.dataflow.value_graph import graph_of
from kinspect.inspector.isa.launch import entry_block
from kinspect.inspector.isa.objects.load import load_code_object, load_or_resources
from kinspect.inspector.machines.loader import load
from kinspect.inspector.metrics.argument_words import KERNARG, loaded_word
from kinspect.inspector.model import Function
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context, Overrides

TEXT = """
.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
.text
.globl k
.p2align 8
.type k,@function
k:
  s_endpgm
.Lend:
  .size k, .Lend-k
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 32
  {directives}
.end_amdhsa_kernel
"""

CASES = {
    "triton": ("gfx942", {
        "user_sgpr_count": 14, "user_sgpr_kernarg_segment_ptr": 1,
        "user_sgpr_kernarg_preload_length": 12, "user_sgpr_kernarg_preload_offset": 0,
        "accum_offset": 8, "float_denorm_mode_32": 3, "float_denorm_mode_16_64": 3,
        "dx10_clamp": 1, "ieee_mode": 1,
    }),
    "every pointer": ("gfx90a", {
        "user_sgpr_private_segment_buffer": 1, "user_sgpr_dispatch_ptr": 1,
        "user_sgpr_queue_ptr": 1, "user_sgpr_kernarg_segment_ptr": 1,
        "user_sgpr_dispatch_id": 1, "user_sgpr_flat_scratch_init": 1,
        "system_sgpr_workgroup_id_y": 1, "system_sgpr_workgroup_id_z": 1,
        "system_vgpr_workitem_id": 2, "accum_offset": 8, "float_round_mode_16_64": 3,
        "float_denorm_mode_32": 0, "float_denorm_mode_16_64": 3, "dx10_clamp": 0, "ieee_mode": 0,
    }),
    "gfx11": ("gfx1100", {
        "user_sgpr_count": 15, "user_sgpr_dispatch_ptr": 1, "user_sgpr_kernarg_segment_ptr": 1,
        "float_denorm_mode_32": 3, "dx10_clamp": 1, "ieee_mode": 1, "wavefront_size32": 1,
    }),
}  # fmt: skip


@pytest.mark.skipif(not shutil.which("clang-22"), reason="clang-22 is not installed")
@pytest.mark.parametrize("case", CASES)
def test_directives_say_what_the_descriptor_says(case: str, tmp_path: Path) -> None:
    arch, directives = CASES[case]
    lines = "\n".join(f"  .amdhsa_{name} {value}" for name, value in directives.items())
    text = TEXT.format(arch=arch, directives=lines)
    source = tmp_path / "k.s"
    source.write_text(text)
    subprocess.run(
        ["clang-22", "-target", "amdgcn-amd-amdhsa", f"-mcpu={arch}", "-c", source, "-o",
         tmp_path / "k.o"],
        check=True,
    )  # fmt: skip
    stated = parse_text(text, "k.s").kernels[0].resources.wave_start
    encoded = (
        load_or_resources((tmp_path / "k.o").read_bytes(), "k.o").kernels[0].resources.wave_start
    )
    assert stated is not None
    assert stated == encoded
    assert stated.kernarg_ptr == {"triton": 0, "every pointer": 8, "gfx11": 2}[case]


HEADERS = {
    "ends the wave": " s_trap 2\n .fill 63, 4, 0xbf800000",
    "loads": " s_load_dwordx2 s[2:3], s[0:1], 0x0\n s_load_dword s4, s[0:1], 0x8\n"
    " s_waitcnt lgkmcnt(0)\n s_branch behind\n .p2align 8\nbehind:",
}
STORES = """
 v_lshlrev_b32_e32 v1, 2, v0
 v_mov_b32_e32 v2, s4
 global_store_dword v1, v2, s[2:3]
"""


def preloading(header: str) -> str:
    """A kernel that stores its second argument, from registers that are filled at its start."""
    directives = (
        "  .amdhsa_user_sgpr_kernarg_segment_ptr 1\n  .amdhsa_user_sgpr_kernarg_preload_length 3\n"
        "  .amdhsa_accum_offset 8"
    )
    text = TEXT.format(arch="gfx942", directives=directives)
    return text.replace("  s_endpgm", f"{header}\n{STORES} s_endpgm")


def stored(kernel: Function) -> tuple[list[int], int]:
    """What one wave leaves in the buffer, and the instructions that it executed."""
    out = buffer_of(np.zeros(64, np.uint32), OUT, "out")
    launch = Launch((1, 1, 1), (64, 1, 1), 0, struct.pack("<Qi", OUT, 7))
    outcome = Emulator(kernel, load("gfx942")).run(launch, [out])
    assert outcome.troubles == ()
    return out.data[:256].view(np.uint32).tolist(), int(outcome.executed[0])


@pytest.mark.parametrize("header", HEADERS)
def test_waves_begin_behind_the_header_for_firmware_that_preloads_nothing(
    header: str, tmp_path: Path
) -> None:
    text = preloading(HEADERS[header])
    (kernel,) = parse_text(text, "k.s").kernels
    assert stored(kernel) == ([7] * 64, 4)
    origins = [
        loaded_word(kernel, source, maker)
        for operation in graph_of(kernel).in_order
        for source, maker in zip(operation.sources, operation.makers, strict=True)
        if operation.name.startswith("v_mov_b32")
    ]
    assert origins == [(KERNARG, 8)]
    if shutil.which("clang-22"):
        (tmp_path / "k.s").write_text(text)
        command = ["clang-22", "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx942", "-c", "k.s"]
        subprocess.run(command, cwd=tmp_path, check=True)
        (linked,) = load_code_object((tmp_path / "k.o").read_bytes(), "k.o").kernels
        assert stored(linked) == ([7] * 64, 4)


def test_lanes_of_addresses_start_with_the_arguments_that_are_preloaded() -> None:
    strided = "v_mul_lo_u32 v1, v0, s4"
    rows = [
        preloading(header).replace("v_lshlrev_b32_e32 v1, 2, v0", strided)
        for header in HEADERS.values()
    ]
    context = Context("k.s", overrides=Overrides(workgroup=(64, 1, 1)))
    lines = [analyze_text(text, context)[0].metrics["cache.lines"].value for text in rows]
    assert lines == [64, 64]


@pytest.mark.parametrize(
    "header",
    [
        " s_trap 2",  # its own, with nothing behind it that would be skipped
        " s_load_dword s4, s[0:1], 0x8\n s_waitcnt lgkmcnt(0)\n s_branch behind\nbehind:",
    ],
)
def test_other_code_at_the_start_is_executed(header: str) -> None:
    (kernel,) = parse_text(preloading(header), "k.s").kernels
    assert entry_block(kernel) == 0
