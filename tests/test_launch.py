"""LDS and scratch that the launch or other code adds: what the file states is not all of it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from kinspect.inspector import machines
from kinspect.inspector.isa.asm.directives import read_metadata
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.launch import adds_lds
from kinspect.inspector.isa.objects.codeobject import read_code_object
from kinspect.inspector.metrics import demand, registers
from kinspect.inspector.metrics.located import located
from kinspect.inspector.metrics.subject import Facts, KernelCode
from kinspect.inspector.model import Function, Metric
from msgspec.structs import replace

LLC, MC = shutil.which("llc-22"), shutil.which("llvm-mc-22")
ARCHES = ("gfx906", "gfx942", "gfx1100", "gfx1201")

# HIP's `extern __shared__` is an external array of size 0; @fixed is a plain `__shared__`.
KERNELS = """
target triple = "amdgcn-amd-amdhsa"
@open = external addrspace(3) global [0 x float], align 16
@fixed = internal addrspace(3) global [300 x float] undef, align 16
define amdgpu_kernel void @both(ptr addrspace(1) %o, i32 %i) {
  %q = getelementptr [300 x float], ptr addrspace(3) @fixed, i32 0, i32 %i
  store volatile float 1.0, ptr addrspace(3) %q
  %p = getelementptr [0 x float], ptr addrspace(3) @open, i32 0, i32 %i
  %v = load float, ptr addrspace(3) %p
  store float %v, ptr addrspace(1) %o
  ret void
}
define internal void @reads(ptr addrspace(1) %o, i32 %i) noinline {
  %p = getelementptr [0 x float], ptr addrspace(3) @open, i32 0, i32 %i
  %v = load volatile float, ptr addrspace(3) %p
  store volatile float %v, ptr addrspace(1) %o
  ret void
}
define amdgpu_kernel void @through_call(ptr addrspace(1) %o, i32 %i) {
  call void @reads(ptr addrspace(1) %o, i32 %i)
  ret void
}
define amdgpu_kernel void @static_only(ptr addrspace(1) %o, i32 %i) {
  %q = getelementptr [300 x float], ptr addrspace(3) @fixed, i32 0, i32 %i
  store volatile float 1.0, ptr addrspace(3) %q
  ret void
}
define amdgpu_kernel void @local_argument(ptr addrspace(3) %o, i32 %i) {
  store i32 %i, ptr addrspace(3) %o
  ret void
}
define amdgpu_kernel void @none(ptr addrspace(1) %o, i32 %i) {
  store i32 %i, ptr addrspace(1) %o
  ret void
}
declare void @ext()
define internal void @between() noinline {
  call void @ext()
  call void @ext()
  ret void
}
define amdgpu_kernel void @calls_out(i32 %n) {
entry:
  br label %again
again:
  %i = phi i32 [0, %entry], [%j, %again]
  call void @ext()
  %j = add i32 %i, 1
  %c = icmp ult i32 %j, %n
  br i1 %c, label %again, label %done
done:
  ret void
}
define amdgpu_kernel void @calls_through() {
  call void @between()
  ret void
}
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 VERSION}
"""
DYNAMIC = {"both", "through_call", "local_argument"}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int, str], Path]:
    """Compiles `KERNELS` for an architecture and code object version, to `asm` or `obj`."""
    if LLC is None:
        pytest.skip("llc-22 is not installed")
    folder = tmp_path_factory.mktemp("launch")

    def run(arch: str, version: int, kind: str) -> Path:
        out = folder / f"{arch}.{version}.{kind}"
        if not out.exists():
            subprocess.run(
                [LLC, f"-mcpu={arch}", f"-filetype={kind}", "-o", str(out)],
                input=KERNELS.replace("VERSION", str(version * 100)), text=True, check=True,
                capture_output=True, timeout=60,
            )  # fmt: skip
        return out

    return run


def functions(path: Path) -> dict[str, Function]:
    return {f.name: f for f in parse_text(path.read_text(), path.name).functions}


def subject(function: Function, lds: int | None = None) -> KernelCode:
    return KernelCode(
        function, machines.load("gfx942"), Facts(lds_bytes=lds, lds_from="typed", lds_note="--lds")
    )


def metric(name: str, function: Function) -> Metric:
    found: Mapping[str, Metric] = {m.name: m for m in registers.compute(located(subject(function)))}
    return found[name]


# --------------------------------------------------------------------------- dynamic LDS


@pytest.mark.parametrize("arch", ARCHES)
def test_dynamic_lds_is_told_where_the_compiler_says_so_and_nowhere_else(
    arch: str, compiled: Callable[[str, int, str], Path]
) -> None:
    by_text = functions(compiled(arch, 5, "asm"))
    path = compiled(arch, 5, "obj")
    by_note = read_code_object(path.read_bytes(), path.name).kernels
    kernels = {name for name, f in by_text.items() if f.is_kernel}
    assert {n for n in kernels if by_text[n].resources.dynamic_lds} == DYNAMIC
    assert {n for n, r in by_note.items() if r.dynamic_lds} == DYNAMIC
    assert by_text["none"].resources.dynamic_lds is by_note["none"].dynamic_lds is None


def test_lds_is_a_lower_bound_then(compiled: Callable[[str, int, str], Path]) -> None:
    found = functions(compiled("gfx942", 5, "asm"))
    both = demand.lds_bytes(subject(found["both"]))
    assert both.value is None
    assert both.note == "at least 1200 bytes, and the launch adds dynamic LDS; pass --lds BYTES"
    argument = demand.lds_bytes(subject(found["local_argument"]))
    assert (argument.value, argument.note) == (
        None,
        "the launch adds dynamic LDS; pass --lds BYTES",
    )
    assert demand.lds_bytes(subject(found["both"], lds=4096)).value == 4096
    assert demand.lds_bytes(subject(found["static_only"])).value == 1200
    assert demand.lds_bytes(subject(found["none"])).value == 0


def test_before_code_object_v5_only_pointers_are_told(
    compiled: Callable[[str, int, str], Path],
) -> None:
    found = functions(compiled("gfx942", 4, "asm"))
    assert {n for n, f in found.items() if f.resources.dynamic_lds} == {"local_argument"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([{".value_kind": "by_value"}, {".value_kind": "hidden_dynamic_lds_size"}], True),
        ([{"ValueKind": "DynamicSharedPointer"}], True),
        ([{".value_kind": "global_buffer"}], None),
        ([{".value_kind": ["dynamic_shared_pointer"]}, 7, None], None),
        ("hidden_dynamic_lds_size", None),
        (None, None),
    ],
)
def test_arguments_of_every_form(arguments: object, expected: bool | None) -> None:
    assert adds_lds(arguments) is expected


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("    .args:\n      - .size: 8\n        .value_kind: 'hidden_dynamic_lds_size'", True),
        ("    .args: [{.value_kind: dynamic_shared_pointer}]", True),
        ("    .args:\n    - .value_kind: dynamic_shared_pointer", True),
        ("    .args:\n    - .name: hidden_dynamic_lds_size", None),
        ("    .args: []", None),
    ],
)
def test_metadata_of_every_layout(arguments: str, expected: bool | None, end: str) -> None:
    text = (
        "---\namdhsa.kernels:\n  - .name: k\n    .symbol: k.kd\n"
        f"{arguments}\n    .vgpr_count: 24\n  - .name: other\n    .symbol: other.kd\n...\n"
    )
    kernels = read_metadata(text.replace("\n", end)).kernels
    assert adds_lds(kernels["k"].get(".args")) is expected
    assert kernels["k"][".vgpr_count"] == 24
    assert adds_lds(kernels["other"].get(".args")) is None


def test_metadata_of_code_object_v2() -> None:
    text = (
        "---\nKernels:\n  - Name: k\n    SymbolName: 'k@kd'\n    Args:\n"
        "      - Size: 4\n        ValueKind: DynamicSharedPointer\n"
        "    CodeProps:\n      GroupSegmentFixedSize: 8\n"
    )
    figures = read_metadata(text).kernels["k"]
    assert adds_lds(figures[".args"]) is True
    assert figures[".group_segment_fixed_size"] == 8


# --------------------------------------------------------------------------- code without figures


LISTING = """
x.o:	file format elf64-amdgpu

Disassembly of section .text:

0000000000001000 <k>:
"""


def listed(*code: str) -> Metric:
    lines = [f"\t{text:<59}// {0x1000 + 4 * i:012X}: BF800000" for i, text in enumerate(code)]
    program = parse_text(LISTING + "\n".join(lines) + "\n", "x")
    return demand.lds_bytes(subject(program.functions[0]))


def test_code_that_never_touches_lds_needs_none() -> None:
    found = listed("v_mov_b32_e32 v0, 0", "global_store_dword v0, v0, s[0:1]", "s_endpgm")
    assert (found.value, found.origin) == (0, "derived")
    assert found.note == "the code never accesses LDS"


@pytest.mark.parametrize(
    "instruction",
    [
        "ds_read_b32 v0, v1",
        "buffer_load_dword v1, s[0:3], 0 offen lds",
        "tensor_store_from_lds s[0:3], s[4:11]",
        "flat_load_dword v0, v[0:1]",  # a generic address may be one of LDS
        "s_swappc_b64 s[30:31], s[4:5]",
        "s_setpc_b64 s[4:5]",
        "v_not_invented_yet v0",
    ],
)
def test_code_that_may_touch_lds_leaves_it_unknown(instruction: str) -> None:
    found = listed("v_mov_b32_e32 v0, 0", instruction, "s_endpgm")
    assert (found.value, found.note) == (None, "the file does not say; pass --lds")


# --------------------------------------------------------------------------- unknown code


LEFT_OUT = "its registers, scratch and LDS are not in the figures"


@pytest.mark.parametrize("arch", ARCHES)
def test_calls_to_other_files_are_told(
    arch: str, compiled: Callable[[str, int, str], Path]
) -> None:
    path = compiled(arch, 5, "asm")
    found = functions(path)
    calls = [
        n
        for n, line in enumerate(path.read_text().splitlines(), 1)
        if line.split()[:1] in (["s_swappc_b64"], ["s_swap_pc_i64"])
    ]
    first, last = found["calls_out"].line_first, found["calls_out"].line_last
    (at,) = [n for n in calls if first <= n <= last]
    assert f"the call on line {at} goes to an unknown function (ext): {LEFT_OUT}" in (
        found["calls_out"].notes
    )
    assert found["calls_through"].notes == (
        f"it calls between, which calls an unknown function (ext): {LEFT_OUT}",
    )
    assert found["through_call"].notes == ()


def test_aliases_and_labels_are_no_unknown_functions() -> None:
    text = (
        '.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"\n.type f,@function\nf:\ns_setpc_b64 s[30:31]\n'
        ".set alias, f\n.type k,@function\nk:\ns_call_b64 s[30:31], alias\n"
        "s_call_b64 s[30:31], f\ns_call_b64 s[30:31], gone\ns_endpgm\n"
    )
    notes = [n for f in parse_text(text, "x").functions for n in f.notes]
    assert notes == [f"the call on line 10 goes to an unknown function (gone): {LEFT_OUT}"]


def test_a_dynamic_stack_has_no_size(compiled: Callable[[str, int, str], Path]) -> None:
    function = functions(compiled("gfx942", 5, "asm"))["calls_out"]
    assert function.resources.uses_dynamic_stack is True
    found = metric("scratch_bytes", function)
    stated = function.resources.scratch_bytes
    assert found.value is None
    assert found.note == f"at least {stated} bytes; the kernel's stack is dynamic"
    fixed = replace(function.resources, uses_dynamic_stack=False)
    assert metric("scratch_bytes", replace(function, resources=fixed)).value == stated


# --------------------------------------------------------------------------- assembler defaults


HAND_WRITTEN = """.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"
.text
.globl k
.type k,@function
.p2align 8
k:
{code}
s_endpgm
.rodata
.p2align 6
.amdhsa_kernel k
.amdhsa_next_free_vgpr {vgprs}
.amdhsa_next_free_sgpr 8
.amdhsa_accum_offset {accum}
.end_amdhsa_kernel
"""


@pytest.mark.parametrize(("vgprs", "accum", "agprs"), [(32, 12, 20), (12, 12, 0), (10, 12, 0)])
def test_directives_left_out_are_the_assemblers(
    vgprs: int, accum: int, agprs: int, tmp_path: Path
) -> None:
    text = HAND_WRITTEN.format(code="v_nop", vgprs=vgprs, accum=accum)
    (function,) = parse_text(text, "x").kernels
    r = function.resources
    assert (r.lds_bytes, r.scratch_bytes, r.agpr_count) == (0, 0, agprs)
    assert demand.lds_bytes(subject(function)).value == 0
    assert metric("agpr_count", function).value == agprs
    if MC is None:
        return
    out = tmp_path / "k.o"
    command = [MC, "-triple=amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-filetype=obj", "-o", str(out)]
    subprocess.run(command, input=text, text=True, check=True, capture_output=True, timeout=60)
    d = read_code_object(out.read_bytes(), "k.o").kernels["k"]
    assert (d.lds_bytes, d.scratch_bytes, d.accum_offset) == (0, 0, accum)


def test_a_default_of_no_lds_is_not_believed_where_the_code_uses_it() -> None:
    text = HAND_WRITTEN.format(code="ds_read_b32 v0, v1", vgprs=32, accum=12)
    (function,) = parse_text(text, "x").kernels
    assert demand.lds_bytes(subject(function)).value is None


def test_without_a_descriptor_nothing_is_assumed() -> None:
    text = HAND_WRITTEN.split(".rodata")[0].format(code="v_nop")
    r = parse_text(text, "x").functions[0].resources
    assert (r.lds_bytes, r.scratch_bytes, r.agpr_count) == (None, None, None)


def test_stated_agprs_come_first() -> None:
    text = HAND_WRITTEN.format(code="v_nop", vgprs=104, accum=12) + (
        ".amdgpu_metadata\n---\namdhsa.version: [1, 2]\namdhsa.kernels:\n  - .name: k\n"
        "    .symbol: k.kd\n    .agpr_count: 0\n    .vgpr_count: 11\n...\n.end_amdgpu_metadata\n"
    )
    assert parse_text(text, "x").kernels[0].resources.agpr_count == 0
