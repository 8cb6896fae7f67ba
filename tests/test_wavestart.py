"""Where a wave finds what it starts with: directives against the descriptor LLVM makes of them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.objects.load import load_or_resources

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
