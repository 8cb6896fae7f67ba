"""Hardware counters of emulated kernels, held against what an MI300X counted, and operations."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.operations import operations
from kinspect.inspector.pipeline.emulated_code import CodeLaunch, launch_code
from kinspect.inspector.profile.figures import counters
from kinspect.inspector.profile.figures.executed_counters import definitions, definitions_of

LLC = shutil.which("llc-22")

VCOPY = """
target triple = "amdgcn-amd-amdhsa"
define amdgpu_kernel void @vecCopy(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c,
                                   i32 %n, i32 %stop) #0 {
entry:
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %item = call i32 @llvm.amdgcn.workitem.id.x()
  %implicit = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %place = getelementptr i8, ptr addrspace(4) %implicit, i64 12
  %size = load i16, ptr addrspace(4) %place
  %threads = zext i16 %size to i32
  %base = mul i32 %group, %threads
  %id = add i32 %base, %item
  %inside = icmp slt i32 %id, %n
  br i1 %inside, label %copy, label %end
copy:
  %wide = sext i32 %id to i64
  %from = getelementptr double, ptr addrspace(1) %a, i64 %wide
  %value = load double, ptr addrspace(1) %from
  %to = getelementptr double, ptr addrspace(1) %c, i64 %wide
  store double %value, ptr addrspace(1) %to
  br label %end
end:
  ret void
}
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workitem.id.x()
declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
attributes #0 = { "amdgpu-flat-work-group-size"="256,256" "amdgpu-no-workitem-id-y"
                  "amdgpu-no-workitem-id-z" }
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}
"""
"""vcopy of ROCm Compute Profiler's samples, as hipcc lowers it."""

RECORDED = {
    "SQ_INSTS": 327680, "SQ_INSTS_VALU": 98304, "SQ_INSTS_SALU": 49152, "SQ_INSTS_SMEM": 65536,
    "SQ_INSTS_VMEM": 32768, "SQ_INSTS_VMEM_RD": 16384, "SQ_INSTS_VMEM_WR": 16384,
    "SQ_INSTS_FLAT": 32768, "SQ_INSTS_LDS": 0, "SQ_INSTS_GDS": 0, "SQ_INSTS_BRANCH": 16384,
    "SQ_INSTS_SENDMSG": 16384, "SQ_INSTS_MFMA": 0, "SQ_INSTS_VALU_CVT": 0,
    "SQ_INSTS_VALU_MFMA_F16": 0, "SQ_INSTS_VALU_MFMA_MOPS_F16": 0, "SQ_INSTS_VALU_ADD_F64": 0,
    "SQ_INSTS_VALU_FMA_F64": 0, "SQ_INSTS_VALU_TRANS_F32": 0, "SQ_LDS_BANK_CONFLICT": 0,
}  # fmt: skip
"""Of a launch of 16384 waves on an MI300X: the workload vcopy/MI300X_A1 in the repository of ROCm
Compute Profiler."""
WAVES = 16384


@pytest.mark.skipif(LLC is None, reason="needs llc-22")
def test_every_counter_is_what_an_mi300x_counted(tmp_path: Path) -> None:
    path = tmp_path / "vcopy.s"
    command = ["llc-22", "-mcpu=gfx942", "-O3", "-o", str(path)]
    subprocess.run(command, input=VCOPY, text=True, check=True)
    arguments = "f64[1048576], f64[16], f64[1048576], i32 1048576, i32 0"
    result = launch_code(
        CodeLaunch(path, None, None, (4096, 1, 1), (256, 1, 1), arguments, sample=8)
    )
    profile = result.profile
    assert profile.waves == profile.counters["SQ_WAVES"] == 32
    emulated = {name: profile.counters[name] * WAVES // 32 for name in RECORDED}
    assert emulated == RECORDED
    assert profile.traffic is not None
    assert profile.traffic.unique_read == profile.traffic.unique_written == 8 * 256 * 8
    (branch,) = profile.branches
    assert (branch.waves, branch.taken, branch.divided) == (32, 0, 0)


@pytest.mark.skipif(LLC is None, reason="needs llc-22")
def test_a_wave_whose_lanes_part_counts_as_divided(tmp_path: Path) -> None:
    """n = 100 ends inside of the second wave: one wave parts, two skip, one copies."""
    path = tmp_path / "vcopy.s"
    command = ["llc-22", "-mcpu=gfx942", "-O3", "-o", str(path)]
    subprocess.run(command, input=VCOPY, text=True, check=True)
    arguments = "f64[256], f64[16], f64[256], i32 100, i32 0"
    profile = launch_code(CodeLaunch(path, None, None, (2, 1, 1), (256, 1, 1), arguments)).profile
    (branch,) = profile.branches
    assert (branch.waves, branch.taken, branch.divided) == (8, 6, 1)
    assert profile.traffic is not None
    assert (profile.traffic.unique_read, profile.traffic.unique_written) == (800, 800)
    spread = profile.per_workgroup
    assert spread is not None
    assert (spread.least, spread.most) == (4 * 10, 2 * 10 + 2 * 20)
    assert spread.least + spread.most == profile.executed["instructions"]


MFMA = [  # AMD's matrix instruction calculator: FLOPs of each
    ("v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]", 16384),
    ("v_mfma_f32_32x32x8f16 a[0:15], v[0:1], v[2:3], a[0:15]", 16384),
    ("v_mfma_f32_32x32x4f16 a[0:31], v[0:1], v[2:3], a[0:31]", 16384),
    ("v_mfma_f32_4x4x4_16b_f16 a[0:3], v[0:1], v[2:3], a[0:3]", 2048),
    ("v_mfma_f32_16x16x4f32 a[0:3], v0, v1, a[0:3]", 2048),
    ("v_mfma_f32_32x32x1f32 a[0:31], v0, v1, a[0:31]", 4096),
    ("v_mfma_f64_16x16x4_f64 a[0:7], v[0:1], v[2:3], a[0:7]", 2048),
    ("v_mfma_f64_4x4x4f64 a[0:1], v[0:1], v[2:3], a[0:1]", 512),
    ("v_mfma_f32_32x32x16_fp8_bf8 a[0:15], v[0:1], v[2:3], a[0:15]", 32768),
    ("v_mfma_f32_16x16x128_f8f6f4 a[0:3], v[0:7], v[8:15], a[0:3]", 65536),
    ("v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7]", 256),
    ("v_fmac_f32_e32 v0, v1, v2", 128),
    ("v_exp_f32_e32 v0, v1", 64),
    ("v_max_f32_e32 v0, v1, v2", 0),
    ("v_add_u32_e32 v0, v1, v2", 0),
]


def test_operations_of_instructions() -> None:
    body = "\n".join(text for text, _ in MFMA)
    text = f"""
.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
.text
.globl lines
.type lines,@function
lines:
{body}
s_endpgm
.Lend:
.size lines, .Lend-lines
"""
    (function,) = parse_text(text, "lines.s").functions
    counted = [
        sum(part.count for part in operations(instruction, 64))
        for instruction in function.instructions[:-1]
    ]
    assert counted == [count for _, count in MFMA]


def test_counters_exist_on_their_targets() -> None:
    """A counter that a target lacks could never be laid beside a recording."""
    for arch in ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"):
        missing = {counter.name for counter in definitions_of(arch)} - counters.known(arch)
        assert not missing, arch
    assert set(RECORDED) < set(definitions())
