"""Global stores that no wait covers before a barrier (RDNA), in code as LLVM 22 writes it."""

from __future__ import annotations

import pytest
from kinspect.inspector.model import WaitOp
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context

# clang-22 -O2 of `p[t] = 3 * t; __syncthreads(); q[t] = p[t ^ 64];`.
GFX11 = """
s_load_b128 s[0:3], s[0:1], 0x0
v_xor_b32_e32 v2, 64, v0
v_mul_u32_u24_e32 v1, 3, v0
v_lshlrev_b32_e32 v0, 2, v0
v_lshlrev_b32_e32 v2, 2, v2
s_waitcnt lgkmcnt(0)
global_store_b32 v0, v1, s[0:1]
s_waitcnt_vscnt null, 0x0
s_barrier
buffer_gl0_inv
global_load_b32 v1, v2, s[0:1]
s_waitcnt vmcnt(0)
global_store_b32 v0, v1, s[2:3]
"""
GFX12 = """
s_load_b128 s[0:3], s[0:1], 0x0
v_mul_u32_u24_e32 v1, 3, v0
v_lshlrev_b32_e32 v2, 2, v0
v_xor_b32_e32 v0, 64, v0
v_lshlrev_b32_e32 v0, 2, v0
s_wait_kmcnt 0x0
global_store_b32 v2, v1, s[0:1]
s_wait_storecnt 0x0
s_barrier_signal -1
s_barrier_wait -1
global_inv scope:SCOPE_SE
global_load_b32 v0, v0, s[0:1]
s_wait_loadcnt 0x0
global_store_b32 v2, v0, s[2:3]
"""
GFX9 = """
s_load_dwordx4 s[0:3], s[0:1], 0x0
v_mul_u32_u24_e32 v1, 3, v0
v_lshlrev_b32_e32 v2, 2, v0
v_xor_b32_e32 v0, 64, v0
v_lshlrev_b32_e32 v0, 2, v0
s_waitcnt lgkmcnt(0)
global_store_dword v2, v1, s[0:1]
s_barrier
global_load_dword v0, v0, s[0:1]
s_waitcnt vmcnt(0)
global_store_dword v2, v0, s[2:3]
"""
KERNEL = """.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
.text
.globl k
.type k,@function
k:
{code}s_endpgm
.Lend:
.size k, .Lend-k
.rodata
.amdhsa_kernel k
.amdhsa_user_sgpr_count 2
.amdhsa_user_sgpr_kernarg_segment_ptr 1
.amdhsa_system_sgpr_workgroup_id_x 1
.amdhsa_system_vgpr_workitem_id 0
.amdhsa_kernarg_size 16
.amdhsa_next_free_vgpr 8
.amdhsa_next_free_sgpr 16
{mode}.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 16
    .max_flat_workgroup_size: {size}
{required}    .wavefront_size: {wave}
amdhsa.version: [1, 2]
...
.end_amdgpu_metadata
"""
STORE_WAITS = {"gfx1100": "s_waitcnt_vscnt null, 0x0\n", "gfx1201": "s_wait_storecnt 0x0\n"}
CODE = {"gfx1100": GFX11, "gfx1201": GFX12}
BARRIERS = {"gfx1100": "s_barrier\n", "gfx1201": "s_barrier_signal -1\ns_barrier_wait -1\n"}


def text_of(arch: str, code: str, *, size: int = 256, stated: bool = True, mode: str = "") -> str:
    required = f"    .reqd_workgroup_size: [{size}, 1, 1]\n" if stated else ""
    wave = 64 if arch == "gfx942" else 32
    mode += ".amdhsa_accum_offset 4\n" if arch == "gfx942" else ""
    return KERNEL.format(
        arch=arch, code=code.lstrip(), size=size, required=required, wave=wave, mode=mode
    )


def missing(text: str) -> list[WaitOp]:
    (report,) = analyze_text(text, Context(path="k.s"))
    return [wait for wait in report.waits if wait.verdict == "missing"]


@pytest.mark.parametrize("arch", CODE)
def test_without_its_wait_another_wave_reads_too_early(arch: str) -> None:
    code = CODE[arch]
    assert not missing(text_of(arch, code))
    text = text_of(arch, code.replace(STORE_WAITS[arch], ""))
    (wait,) = missing(text)
    lines = text.splitlines()
    assert "s_barrier" in lines[wait.line - 1]
    assert wait.waits_for is not None
    assert wait.read_at is not None
    assert "global_store_b32" in lines[wait.waits_for[0] - 1]
    assert "global_load_b32" in lines[wait.read_at - 1]
    assert (wait.counter, wait.n) == (STORE_WAITS[arch].split()[0].split("_")[-1], 0)


@pytest.mark.parametrize("arch", CODE)
@pytest.mark.parametrize(
    "other",
    [
        "16",  # each wave reads what it has stored itself
        "0x4000",  # what nobody has stored
    ],
)
def test_loads_of_other_bytes_need_no_wait(arch: str, other: str) -> None:
    code = CODE[arch].replace(STORE_WAITS[arch], "")
    assert not missing(text_of(arch, code.replace(", 64, v0", f", {other}, v0")))


@pytest.mark.parametrize("arch", CODE)
def test_loads_of_another_tensor_need_no_wait(arch: str) -> None:
    head, _, tail = CODE[arch].replace(STORE_WAITS[arch], "").rpartition("s[0:1]")
    assert not missing(text_of(arch, f"{head}s[2:3]{tail}"))


@pytest.mark.parametrize("arch", CODE)
def test_a_wait_has_to_come_before_a_barrier(arch: str) -> None:
    wait, barrier = STORE_WAITS[arch], BARRIERS[arch]
    late = CODE[arch].replace(wait, "").replace(barrier, barrier + wait)
    assert len(missing(text_of(arch, late))) == 1
    assert not missing(text_of(arch, late.replace(wait, wait + barrier)))


@pytest.mark.parametrize("arch", CODE)
def test_a_count_says_which_stores_are_waited_for(arch: str) -> None:
    store = next(line for line in CODE[arch].splitlines() if "_store" in line)
    elsewhere = f"{store} offset:2048"
    first, last = f"{store}\n{elsewhere}\n", f"{elsewhere}\n{store}\n"
    for_one = STORE_WAITS[arch].replace("0x0", "0x1")
    code = CODE[arch].replace(STORE_WAITS[arch], for_one)
    assert not missing(text_of(arch, code.replace(f"{store}\n", first)))
    (wait,) = missing(text_of(arch, code.replace(f"{store}\n", last)))
    assert wait.n == 0
    none = CODE[arch].replace(STORE_WAITS[arch], "")
    (wait,) = missing(text_of(arch, none.replace(f"{store}\n", first)))
    assert wait.n == 1


@pytest.mark.parametrize("arch", CODE)
def test_waves_that_share_a_cache_or_are_alone_need_none(arch: str) -> None:
    code = CODE[arch].replace(STORE_WAITS[arch], "")
    assert missing(text_of(arch, code, mode=".amdhsa_workgroup_processor_mode 1\n"))
    assert not missing(text_of(arch, code, mode=".amdhsa_workgroup_processor_mode 0\n"))
    assert not missing(text_of(arch, code, size=32))
    assert not missing(text_of(arch, code, stated=False))


def test_cdna_has_no_counter_of_stores() -> None:
    assert not missing(text_of("gfx942", GFX9))


@pytest.mark.parametrize("arch", CODE)
def test_the_finding_names_store_and_load(arch: str) -> None:
    text = text_of(arch, CODE[arch].replace(STORE_WAITS[arch], ""))
    (report,) = analyze_text(text, Context(path="k.s"))
    (wait,) = missing(text)
    (finding,) = [each for each in report.findings if each.rule == "KI022"]
    assert f"the store in line {wait.waits_for[0]} may be outstanding" in finding.message  # type: ignore[index]
    assert f"in line {wait.read_at}" in finding.message
    assert finding.severity == "error"
