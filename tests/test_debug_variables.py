"""Names of variables in registers from debug information: LLVM's comments, and DWARF."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.objects.codeobject import read_code_object
from kinspect.inspector.isa.objects.linemap import LineMap, read_line_map
from kinspect.inspector.model import KernelReport, LiveValue, VariableMark
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

CLANG, DWARFDUMP = shutil.which("clang-22"), shutil.which("llvm-dwarfdump-22")
needs_clang = pytest.mark.skipif(CLANG is None, reason="clang-22 is not installed")
SOURCE = """\
#define X __builtin_amdgcn_workitem_id_x()
__attribute__((device, always_inline)) float squared(float side) {
    float area = side * side;
    return area * 0.5f + area * side;
}
__attribute__((global)) void axpy(float *out, const float *in, const float *w, int n) {
    float total = 0;
    float weight = w[X];
    for (int i = 0; i < n; i++) {
        float value = in[i * 64 + X];
        float scaled = squared(value * weight);
        total += scaled * scaled + value;
    }
    out[X] = total;
}
"""
TEXT = """\
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
\t.text
\t.globl\tk
\t.type\tk,@function
k:
\t;DEBUG_VALUE: k:start <- [DW_OP_constu 1, DW_OP_swap, DW_OP_xderef] $vgpr0
\tv_mov_b32_e32 v1, v0
\t;DEBUG_VALUE: k:pair <- [DW_OP_constu 1, DW_OP_swap, DW_OP_xderef] $vgpr2_vgpr3
\t;DEBUG_VALUE: a::b<c>:inner <- $agpr4
\t;DEBUG_VALUE: k:part <- [DW_OP_LLVM_fragment 0 32] $vgpr5
\t;DEBUG_VALUE: k:computed <- [DW_OP_constu 2, DW_OP_mul, DW_OP_stack_value] $vgpr6
\t;DEBUG_VALUE: k:gone <- undef
\t;DEBUG_VALUE: k:scalar <- $sgpr7
\t;DEBUG_VALUE: k:constant <- 3
\ts_endpgm
.Lfunc_end0:
\t.size\tk, .Lfunc_end0-k
\t;DEBUG_VALUE: k:behind <- $vgpr8
\t.amdhsa_kernel k
\t\t.amdhsa_next_free_vgpr 16
\t\t.amdhsa_next_free_sgpr 16
\t\t.amdhsa_accum_offset 8
\t.end_amdhsa_kernel
"""  # fmt: skip


def compiled(folder: Path, *options: str, arch: str = "gfx942") -> Path:
    """The object (-c) or text (-S) of the source above."""
    (folder / "k.hip").write_text(SOURCE)
    result = folder / ("k.s" if "-S" in options else "k.co")
    subprocess.run(
        [str(CLANG), "-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc", "-O2",
         f"--offload-arch={arch}", "--no-gpu-bundle-output", *options, "k.hip", "-o", result],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return result


def report(path: Path) -> KernelReport:
    (kernel,) = collect(Request((str(path),))).kernels
    return kernel


def held(kernel: KernelReport) -> dict[str, LiveValue]:
    assert kernel.live_peak is not None
    return {value.name: value for value in kernel.live_peak.values if value.name is not None}


def line_map(path: Path) -> LineMap:
    return read_line_map(read_code_object(path.read_bytes(), str(path)).elf)


def test_comments_that_name_registers() -> None:
    (function,) = parse_text(TEXT, "k.s").functions
    assert function.variables == (
        VariableMark(0, "v", 0, 1, "start"),
        VariableMark(1, "v", 2, 2, "pair"),
        VariableMark(1, "a", 4, 1, "inner"),
        VariableMark(1, "v", 5, 1, "part"),
    )


@needs_clang
@pytest.mark.parametrize("options", [["-S"], ["-c", "-gdwarf-4"], ["-c", "-gdwarf-5"]])
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_values_of_hip_have_names(tmp_path: Path, options: list[str], arch: str) -> None:
    kernel = report(compiled(tmp_path, "-g", *options, arch=arch))
    named = held(kernel)
    assert {"total", "value"} <= set(named)
    # Of `weight` the compiler knows no place: it has the line where it was made.
    assert kernel.live_peak is not None
    lines = {value.source.line for value in kernel.live_peak.values if value.source is not None}
    assert SOURCE.splitlines().index("    float weight = w[X];") + 1 in lines


@needs_clang
def test_without_variables_there_are_lines(tmp_path: Path) -> None:
    kernel = report(compiled(tmp_path, "-c", "-gline-tables-only"))
    assert held(kernel) == {}
    assert kernel.live_peak is not None
    assert any(value.source is not None for value in kernel.live_peak.values)


@needs_clang
@pytest.mark.skipif(DWARFDUMP is None, reason="llvm-dwarfdump-22 is not installed")
@pytest.mark.parametrize("version", ["4", "5"])
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_they_are_those_that_llvm_prints(tmp_path: Path, version: str, arch: str) -> None:
    path = compiled(tmp_path, "-c", "-g", f"-gdwarf-{version}", arch=arch)
    printed = subprocess.run(
        [str(DWARFDUMP), "--debug-info", path], check=True, capture_output=True, text=True
    ).stdout
    expected: set[tuple[str, int, int, int]] = set()
    for entry in re.split(r"\n\n", printed):
        if "DW_TAG_variable" not in entry and "DW_TAG_formal_parameter" not in entry:
            continue
        name = re.search(r'DW_AT_(?:name\s+\("|abstract_origin\s+\(\S+ ")([^"]+)"', entry)
        for low, high, expression in re.findall(r"\[(0x\w+),\s+(0x\w+)\): ([^\n]*)", entry):
            # It has no names for the registers of waves of 32 lanes: 0x600 is the first.
            register = re.match(r"DW_OP_b?regx (?:VGPR(\d+)\+0|0x6([0-9a-f]{2}) \+0),", expression)
            if name is not None and register is not None and "stack_value" not in expression:
                number = int(register[1]) if register[1] else int(register[2], 16)
                expected.add((name[1], int(low, 16), int(high, 16), number))
    ours = {(v.name, v.low, v.high, v.number) for v in line_map(path).variables if v.file == "v"}
    assert ours == expected
    assert {"total", "value", "area"} <= {name for name, *_ in ours}  # the last one is inlined


@needs_clang
def test_damaged_lists_cost_variables_not_lines(tmp_path: Path) -> None:
    path = compiled(tmp_path, "-c", "-g")
    whole = line_map(path)
    data = bytearray(path.read_bytes())
    elf = read_code_object(bytes(data), "k.co").elf
    section = elf.section(".debug_loclists")
    assert section is not None
    lists = elf.bytes_of(section)
    start = data.find(lists)
    data[start : start + len(lists)] = b"\xff" * len(lists)
    damaged = read_line_map(read_code_object(bytes(data), "k.co").elf)
    assert damaged.variables == ()
    assert damaged.problem is None
    address = whole.variables[0].low
    assert damaged.location_at(address) == whole.location_at(address)


@needs_clang
@pytest.mark.parametrize("seed", range(4))
def test_no_damage_is_an_accident(tmp_path: Path, seed: int) -> None:
    path = compiled(tmp_path, "-c", "-g")
    data = path.read_bytes()
    elf = read_code_object(data, "k.co").elf
    rng = random.Random(seed)
    spans = []
    for name in (".debug_info", ".debug_abbrev", ".debug_loclists", ".debug_str_offsets"):
        section = elf.section(name)
        assert section is not None
        contents = elf.bytes_of(section)
        spans.append((data.find(contents), len(contents)))
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            start, size = rng.choice(spans)
            changed[start + rng.randrange(size)] = rng.randrange(256)
        try:
            code = read_code_object(bytes(changed), "k.co")
        except KinspectError:
            continue
        read_line_map(code.elf)  # never fails
