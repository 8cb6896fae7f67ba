"""HIP sources as targets: the installed clang compiles them, device side only."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kinspect
import numpy as np
import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.base.named_files import allow, allow_target
from kinspect.inspector.compile.hip import compilers
from kinspect.inspector.compile.hip.compilers import find_compiler
from kinspect.inspector.compile.hip.diagnosis import failure
from kinspect.inspector.compile.hip.flags import checked, database_flags
from kinspect.inspector.compile.hip.launches import stated_launches
from kinspect.inspector.compile.hip.names import names_of
from kinspect.inspector.compile.hip.options import HipOptions
from kinspect.inspector.compile.hip.varying import compiled
from kinspect.inspector.model import KernelReport, Program
from kinspect.inspector.pipeline import analysis, collecting
from kinspect.inspector.pipeline.analysis_options import Context
from kinspect.inspector.pipeline.jobs import request_for, timing

CLANG = next((p for n in range(29, 16, -1) if (p := shutil.which(f"clang-{n}"))), None)
needs_clang = pytest.mark.skipif(CLANG is None, reason="no clang from 17 on")
Tool = Callable[..., Any]

SOURCE = """
#include <hip/hip_runtime.h>
#ifndef WIDTH
#define WIDTH 256
#endif
#define N (4 * 1024)
namespace blas {
// KINSPECT_LAUNCH blas::axpy grid=N/WIDTH workgroup=WIDTH args="f32 2,f32[N], f32[N]=zeros"
__global__ void axpy(float a, const float* x, float* y) {
  int i = blockIdx.x * WIDTH + threadIdx.x;
  y[i] += a * x[i];
}
}
template <int Factor>
__global__ void scale(float* x) { x[blockIdx.x * 64 + threadIdx.x] *= Factor; }
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "axpy.hip"
    path.write_text(SOURCE)
    return path


def reported(tool: Tool, *words: str | Path) -> list[dict[str, Any]]:
    done = tool("analyze", *words, "--format", "json", "--details")
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout)["kernels"])


@needs_clang
def test_a_stated_launch_names_the_instance_to_compile(
    tool_in_process: Tool, tmp_path: Path
) -> None:
    path = tmp_path / "scaled.hip"
    path.write_text("""
#define WIDTH (32 + 32)
// KINSPECT_LAUNCH nn::scaled<WIDTH * 2 - 64, float> grid=8 workgroup=WIDTH args="f32[512], f32 2"
// KINSPECT_LAUNCH nn::scaled<32,float> grid=16 workgroup=32 args="f32[512], f32 2"
namespace nn {
template <int W, typename T>
__global__ void scaled(T* x, T by) { x[blockIdx.x * W + threadIdx.x] *= by; }
}
""")
    kernels = {kernel["name"]: kernel for kernel in reported(tool_in_process, path)}
    assert sorted(kernels) == ["nn::scaled<32, float>", "nn::scaled<64, float>"]
    assert kernels["nn::scaled<32, float>"]["time"]["workgroups"] == 16
    assert kernels["nn::scaled<64, float>"]["time"]["workgroups"] == 8
    path.write_text(path.read_text().replace("scaled<32,", "scald<32,"))
    done = tool_in_process("analyze", path)
    assert done.returncode == 2
    assert "nn::scald<32, float> is no instance of its templates: no member named" in done.stderr


@needs_clang
def test_a_repeated_run_analyses_nothing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINSPECT_CACHE_DIR", str(tmp_path / "cache"))
    allow_target(source)
    request = request_for([str(source)], kernel="*axpy*", analysis=timing(explains=False))
    first = collecting.collect(request)
    assert first.kernels[0].time is not None
    assert first.kernels[0].artifacts["amdgcn"]

    calls: list[Program] = []
    unchanged = analysis.analyze_program

    def noted(program: Program, context: Context, text: str = "") -> list[KernelReport]:
        calls.append(program)
        return unchanged(program, context, text)

    monkeypatch.setattr(analysis, "analyze_program", noted)
    assert collecting.collect(request).kernels == first.kernels
    assert not calls
    # The launch is a comment: the assembly stays as it was.
    source.write_text(SOURCE.replace("grid=N/WIDTH", "grid=2*N/WIDTH"))
    other = collecting.collect(request).kernels[0]
    assert calls
    assert other.time is not None
    assert other.time != first.kernels[0].time


# ------------------------------------------------------------------ a source as a target


@needs_clang
def test_a_source_is_reported_as_the_assembly_that_clang_makes_of_it(
    tool_in_process: Tool, source: Path
) -> None:
    (kernel,) = reported(tool_in_process, source)
    assert (kernel["name"], kernel["arch"]) == ("blas::axpy", "gfx942")
    assert kernel["source"]["file"].endswith("axpy.hip")
    assert kernel["time"]["workgroups"] == 16
    by_hand = source.with_suffix(".s")
    command = [*f"{CLANG} -x hip --offload-arch=gfx942 --offload-device-only -O3 -S".split()]
    headers = Path(compilers.__file__).parent / "headers"
    ours = ["-nogpuinc", "-nogpulib", "-isystem", headers, "-include", "hip/hip_runtime.h"]
    subprocess.run([*command, *ours, source, "-o", by_hand], check=True, cwd=source.parent)
    (same,) = reported(tool_in_process, by_hand, "--grid", "16", "--workgroup", "256")
    for name in ("vgpr_count", "sgpr_count", "code_bytes", "occupancy.waves_per_eu"):
        assert kernel["metrics"][name]["value"] == same["metrics"][name]["value"], name


@needs_clang
def test_every_target_has_its_own_code(tool_in_process: Tool, source: Path) -> None:
    kernels = reported(tool_in_process, source, "--arch", "gfx942,gfx1100")
    assert [kernel["arch"] for kernel in kernels] == ["gfx942", "gfx1100"]


@needs_clang
def test_instances_of_templates_are_compiled_when_named(
    tool_in_process: Tool, source: Path
) -> None:
    words = ("--instantiate", "scale<3>", "--kernel", "scale*")
    (kernel,) = reported(tool_in_process, source, *words)
    assert kernel["name"] == "scale<3>"
    (same,) = reported(tool_in_process, source, *words[:2], "--kernel", "scale")
    assert same["name"] == "scale<3>"
    only = source.with_name("only.hip")
    only.write_text(SOURCE[SOURCE.index("template") :])
    done = tool_in_process("analyze", only)
    assert done.returncode == 2
    assert "its kernels are templates that it does not launch itself: scale<Factor>" in done.stderr
    assert "--instantiate 'scale<Factor>'" in done.stderr


@needs_clang
def test_what_it_computes_is_emulated_as_it_states(tool_in_process: Tool, source: Path) -> None:
    done = tool_in_process("emulate", source, "--format", "json")
    assert done.returncode == 0, done.stderr
    x, y = json.loads(done.stdout)["buffers"]
    assert (x["changed"], y["changed"]) == (0, 4096)
    assert y["smallest"] == pytest.approx(2 * x["smallest"])
    assert y["largest"] == pytest.approx(2 * x["largest"])
    other = tool_in_process("emulate", source, "--format", "json", "--", "-DWIDTH=64")
    assert json.loads(other.stdout)["buffers"] == [x, y]


@needs_clang
def test_macros_are_axes_of_a_sweep(tool_in_process: Tool, source: Path) -> None:
    words = ("sweep", source, "--kernel", "blas*", "--format", "json")
    done = tool_in_process(*words, "--set", "WIDTH=64,256")
    assert done.returncode == 0, done.stderr
    (table,) = json.loads(done.stdout)["tables"]
    rows = table["rows"]
    assert sorted(row["point"]["WIDTH"] for row in rows) == [64, 256]
    assert all(row["figures"]["time_us"] > 0 for row in rows)
    for axis, said in (("WIDHT=1,2", "does not use it"), ("N=1,2", "axpy.hip:6 defines it")):
        refused = tool_in_process(*words, "--set", axis)
        assert refused.returncode == 2
        assert said in refused.stderr + refused.stdout


TEMPLATES = """
#define N 4096
#ifndef UNROLL
#define UNROLL 1
#endif
// KINSPECT_LAUNCH scaled grid=N/W workgroup=W args="f32[N], f32 2"
template <int W, int PER = UNROLL, typename T = float>
__global__ void scaled(T* x, T by) {
#pragma unroll W
  for (int i = 0; i < PER; ++i) x[(blockIdx.x * W + threadIdx.x + i) % N] *= by;
}
__global__ void other(int* x) { *x = 1; }
"""
LAUNCHED = "void run(float* x) { scaled<64><<<N / 64, 64>>>(x, 2.0f); }"


@needs_clang
def test_template_parameters_are_axes_of_a_sweep(tool_in_process: Tool, tmp_path: Path) -> None:
    path = tmp_path / "scaled.hip"
    path.write_text(TEMPLATES + LAUNCHED)
    words = ("sweep", path, "--format", "json", "--set", "W=64,128", "--set", "UNROLL=1,2")
    done = tool_in_process(*words)
    assert done.returncode == 0, done.stderr
    tables = {table["kernel"]: table["rows"] for table in json.loads(done.stdout)["tables"]}
    assert [row["point"] for row in tables["other"]] == [{"UNROLL": 1}, {"UNROLL": 2}]
    assert all("its launch is not known" in row["figures"]["no_time"] for row in tables["other"])
    rows = tables["scaled<W, 1, float>"]
    assert len(rows) == 4
    code = {
        (row["point"]["W"], row["point"]["UNROLL"]): row["figures"]["code_bytes"] for row in rows
    }
    assert code[64, 1] != code[64, 2] == code[128, 2]
    assert all(row["figures"]["time_us"] > 0 for row in rows)
    (kernel,) = reported(tool_in_process, path, "--set", "W=128", "--kernel", "scaled*")
    assert kernel["name"] == "scaled<128, 1, float>"
    assert kernel["time"]["workgroups"] == 32


@needs_clang
def test_values_of_a_source_are_compared(tool_in_process: Tool, tmp_path: Path) -> None:
    path = tmp_path / "scaled.hip"
    path.write_text(TEMPLATES + LAUNCHED)
    words = ("diff", path, "--kernel", "scaled*", "--format", "json", "--set")
    done = tool_in_process(*words, "UNROLL=2", "--set", "W=128,UNROLL=2")
    assert done.returncode == 0, done.stderr
    (pair,) = json.loads(done.stdout)["pairs"]
    assert pair["kernel"] == "scaled<64, 2, float>"
    assert pair["time"]["before_us"] != pair["time"]["us"]
    wrong = tool_in_process(*words, "UNROLL=2", "--set", "WIDE=2")
    assert wrong.returncode == 2
    assert "--set WIDE: " in wrong.stderr


@needs_clang
def test_an_instance_is_made_of_values_for_all_parameters(
    tool_in_process: Tool, tmp_path: Path
) -> None:
    path = tmp_path / "scaled.hip"
    path.write_text(TEMPLATES[: TEMPLATES.index("__global__ void other")])
    words = ("--set", "W=32", "--set", "PER=3", "--set", "T=_Float16")
    (kernel,) = reported(tool_in_process, path, *words)
    assert kernel["name"] == "scaled<32, 3, _Float16>"
    done = tool_in_process("analyze", path, *words[:4])
    assert done.returncode == 2
    assert "scaled<W, PER, T>" in done.stderr


@needs_clang
def test_template_arguments_are_tried(tool_in_process: Tool, tmp_path: Path) -> None:
    path = tmp_path / "scaled.hip"
    path.write_text(TEMPLATES + LAUNCHED)
    done = tool_in_process("try", path, "--kernel", "scaled*", "--format", "json")
    assert done.returncode == 0, done.stderr
    (kernel,) = json.loads(done.stdout)["kernels"]
    tried = {
        (row["change"][0]["name"], row["change"][0]["value"]): row
        for row in kernel["tried"]
        if row["change"]
    }
    assert {("W", 32), ("W", 128), ("UNROLL", 2)} <= tried.keys()
    assert tried["W", 128]["time"]["us"] > 0


@needs_clang
def test_a_source_is_compiled_again_when_a_header_changes(
    tool_in_process: Tool, source: Path
) -> None:
    header = source.with_name("size.h")
    source.write_text('#include "size.h"\n' + SOURCE)
    codes = []
    for amount in (1, 2, 2, 1):
        header.write_text(f"#define WIDTH (64 * {amount})\n")
        (kernel,) = reported(tool_in_process, source)
        codes.append(kernel["artifacts"]["amdgcn"]["sha256"])
    assert codes[0] == codes[3] != codes[1] == codes[2]
    header.unlink()
    done = tool_in_process("analyze", source)
    assert done.returncode == 2
    assert "size.h is not there" in done.stderr


# ------------------------------------------------------------------ what is refused


@needs_clang
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('#include "/etc/passwd"\n__global__ void f(){}', "includes /etc/passwd, outside"),
        ('__device__ const char t[]={\n#embed "/etc/passwd"\n};__global__ void f(char*x){*x=t[1];}',
         "includes /etc/passwd, outside"),
        ("#include <rocwmma/rocwmma.hpp>", "rocwmma.hpp is not there; it comes with rocWMMA"),
        ("#include <vectro>", "vectro is not there"),
        ("__global__ void f() { wrong(); }", "use of undeclared identifier 'wrong'"),
        ("int x = 1;", "no kernel in it"),
        ("template<int N> struct s { static const int v = s<N + 1>::v; };\n"
         "__global__ void f(int* x) { *x = s<0>::v; }", "recursive template instantiation"),
        ("#define A(x) x x x x x x x x x x\n#define B(x) A(A(A(A(x))))\n"
         "__global__ void f() { B(B(B(;))) }", "longer than 2 s"),
    ],
)  # fmt: skip
def test_what_does_not_compile_is_one_line(
    tool_in_process: Tool, tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "odd.hip"
    path.write_text(text)
    seconds = "2" if "longer" in said else "120"  # after 4 s it has taken all memory that it may
    done = tool_in_process("analyze", path, "--time-limit", seconds)
    assert done.returncode == 2
    assert said in done.stderr
    assert "root:" not in done.stderr + done.stdout
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "flags",
    [
        ("@words",), ("-fplugin=x.so",), ("-Xclang", "-load"), ("-wrapper", "sh"), ("-o", "x"),
        ("-mllvm", "-load=x.so"), ("-mllvm", "-info-output-file=x"), ("-gsplit-dwarf",),
        ("--offload-arch-tool=x",), ("-include-pch", "x"), ("--target=x",), ("-Wp,-MD,x",),
        ("-fcrash-diagnostics=all",),
        ("--config=x",), ("-B/tmp",), ("-save-temps",), ("-fmodules-cache-path=x",), ("-E",),
        ("-Xclang", "-fembed-offload-object=file"), ("-ftime-trace=x",), ("-x", "c"), ("--help",),
    ],
)  # fmt: skip
def test_flags_that_run_load_or_write_are_refused(flags: tuple[str, ...]) -> None:
    with pytest.raises(KinspectError, match=re.escape(flags[0])):
        checked(flags)


def test_flags_of_the_code_are_taken() -> None:
    flags = ("-DTILE=64", "-std=c++20", "-ffast-math", "-O2", "-munsafe-fp-atomics", "-Wno-unused")
    more = ("-mllvm", "-amdgpu-early-inline-all=true", "-Xclang", "-fno-finite-math-only")
    assert checked((*flags, *more)) == (*flags, *more)
    here = os.getcwd()
    # No word of the compiler's is one that it would take for a file of flags, or a relative folder.
    assert checked(("-D", "@x", "-I", "@y", "-isystem", "z", "-include", "@w")) == (
        "-D@x", f"-I{here}/@y", f"-isystem{here}/z", "-Xclang", "-include", "-Xclang", "./@w"
    )  # fmt: skip
    for flag, said in (("--offload-arch=gfx90a", "--arch"), ("x.hip", "before the --")):
        with pytest.raises(KinspectError) as refused:
            checked((flag,))
        assert said in refused.value.hint
    with pytest.raises(KinspectError, match="its value is missing"):
        checked(("-D",))


def test_a_database_states_flags_of_the_code_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    folder.mkdir()
    source = folder / "k.hip"
    source.write_text("")
    words = (
        "/bin/evil -DTILE=8 -I../include -isystem third -std=c++20 -fplugin=x.so @more -B. -o k.o"
        " -c -wrapper sh -Xclang -load -Xclang x.so -include cfg.h -D @evil -include-pch -Dx k.hip"
    )
    entry = {"directory": str(folder), "file": "k.hip", "command": words}
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "compile_commands.json").write_text(json.dumps([{"file": 3}, entry]))
    (tmp_path / ".git").mkdir()
    allow_target(source)
    assert database_flags(source) == (
        "-DTILE=8", f"-I{tmp_path}/include", f"-isystem{folder}/third", "-std=c++20",
        "-Xclang", "-include", "-Xclang", "cfg.h", "-D@evil", "-Dx",
    )  # fmt: skip
    assert database_flags(tmp_path / "other.hip") == ()


def test_no_program_of_the_working_folder_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("clang", "clang-22", "hipcc", "amdclang++"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\ntouch ran\n")
        program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KinspectError, match="no compiler for HIP sources is installed"):
        find_compiler(None, {"PATH": os.pathsep.join((".", "", "bin"))})
    found = find_compiler(str(tmp_path / "hipcc"), {})
    assert found.path == tmp_path / "hipcc", "what the user names is taken"
    with pytest.raises(KinspectError, match="is not there"):
        find_compiler("clang-99", {"PATH": str(tmp_path)})


# ------------------------------------------------------------------ launches, names, errors


def test_launches_are_read_with_the_numbers_of_the_file() -> None:
    source = """
    #define N 64
    constexpr int TILE = 2 * N;
    // KINSPECT_LAUNCH gemm<1, 2> grid=N/2,TILE workgroup=64 args="f32[N*N]=zeros, i32 N-1, f32 0.5"
    /* KINSPECT_LAUNCH other grid=3 lds=1<<4 */
    """
    launches = stated_launches(source, ("-DN=8",), "k.hip")
    gemm, other = (launches.of(kernel) for kernel in launches.kernels)
    assert gemm is not None
    assert other is not None
    assert (gemm.kernel, gemm.grid, gemm.workgroup) == ("gemm<1, 2>", (4, 16, 1), (64, 1, 1))
    assert gemm.arguments == "f32[64]=zeros, i32 7, f32 0.5"
    assert (other.grid, other.lds_bytes, other.arguments) == ((3, 1, 1), 16, "")
    assert stated_launches("no", (), "k.hip").kernels == []


def test_template_parameters_are_numbers_of_each_instance() -> None:
    source = """
    // KINSPECT_LAUNCH gemm grid=N/BM,N/BN workgroup=BN
    #define N 64
    template <int BM, typename T = pair<int, float>, int BN = 8> __global__ void gemm(T* x) {}
    """
    launches = stated_launches(source, (), "k.hip")
    found = launches.of("ns::gemm<16, pair<int, float>, 8>"), launches.of("gemm<32, half, 4>")
    assert [launch and (launch.grid, launch.workgroup) for launch in found] == [
        None,
        ((2, 16, 1), (4, 1, 1)),
    ]
    with pytest.raises(KinspectError, match=r"k.hip:2: .* BM is no number of this file"):
        launches.of("gemm<32>")


@pytest.mark.parametrize(
    "text",
    ["k", "k grid=", "k grid=X", "k grid=0", "k grid=1,2,3,4", "grid=1", "k grid=1 size=2",
     "k grid=__import__('os')", "k grid=1/0", 'k grid=1 args="f32"', "k grid=9**9**9",
     f"k grid={'1+' * 400}1", "k grid=1 args='unclosed"],
)  # fmt: skip
def test_a_launch_that_is_not_understood_is_named(text: str) -> None:
    with pytest.raises(KinspectError, match=r"^k.hip:2: KINSPECT_LAUNCH is not understood"):
        stated_launches(f"\n// KINSPECT_LAUNCH {text}\n", (), "k.hip")


def test_a_constant_that_names_itself_ends() -> None:
    with pytest.raises(KinspectError, match="names itself"):
        stated_launches("#define A B\n#define B A\n// KINSPECT_LAUNCH k grid=A\n", (), "k.hip")


def test_names_are_those_of_the_source() -> None:
    names = {
        "_Z5saxpyfPKfPfi": "saxpy",
        "_ZN2ns4gemmILi128ELin4EfLb1EEEvPT1_S2_i": "ns::gemm<128, -4, float, true>",
        "_ZN12_GLOBAL__N_11kEPf": "k",
        "_Z1fIDF16_Lb0EEvPT_": "f<_Float16, false>",
        "_Z5applyI3AddEvT_": "apply<Add>",
        "_Z5applyIN2ns3AddIiEELi2EEvT_": "apply<...>",
        "_Z5applyIN2ns3AddEvEvT_": "apply<ns::Add, void>",
        "_Z1tI6__halfS0_Li5EEvPT_PT0_": "t<__half, __half, 5>",
        "_ZN2ns1uINS_3AddES1_EEvPf": "ns::u<ns::Add, ns::Add>",
        "_ZL9scale_f32PKfPfffl": "scale_f32",
        "_Z1wI15HIP_vector_typeIfLj4EEbEvPf": "w<HIP_vector_type<float, 4>, bool>",
        "plain": "plain",
        "_Zwrong": "_Zwrong",
        "_Z1gi": "_Z1gi",
        "_Z1gf": "_Z1gf",  # overloads
        "_Z" + "N1a" * 3000: "_Z" + "N1a" * 3000,
    }
    assert names_of(names) == names


@pytest.mark.parametrize(
    ("stderr", "message", "hint"),
    [
        ("k.hip:3:10: fatal error: 'ck/ck.hpp' file not found", "k.hip:3:10: ck/ck.hpp is not",
         "Composable Kernel"),
        ("k.hip:1:10: fatal error: 'cmath' file not found", "cmath is not there", "g++"),
        ("clang: error: unsupported CUDA gpu architecture: gfx9999", "unsupported", "--arch"),
        ("k.hip:1:1: error: a\nk.hip:2:1: error: b\n2 errors generated.", ":1:1: a (and 1 more)",
         "by hand"),
        ("Killed", "the compiler failed: Killed", "by hand"),
        ("k.hip:1:1: error: use of undeclared identifier 'hipFoo'", "'hipFoo'", "ROCm's may"),
        ("k.hip:1:1: error: use of undeclared identifier 'TILE'", "'TILE'", "-DNAME=VALUE"),
        ("k.hip:1:1: error: unknown type name 'concept'", "'concept'", "-std=c++20"),
    ],
)  # fmt: skip
def test_an_error_of_the_compiler_says_what_to_do(stderr: str, message: str, hint: str) -> None:
    error = failure(Path("k.hip"), stderr, "clang k.hip")
    assert message in error.message
    assert hint in error.hint


@pytest.mark.parametrize(
    "stderr",
    [
        "k.hip:1:1: error: static assertion failed: x\nclang: error: root:x",
        "k.hip:1:1: error: static assertion failed: x\na: fatal error: root:x\n"
        "k.hip:2:1: fatal error: 'gone.h' file not found",
        "k.hip:1:1: error: use of root:x",
    ],
)
def test_where_not_all_is_known_a_source_chooses_no_text(stderr: str) -> None:
    told = failure(Path("k.hip"), stderr, "clang k.hip", all_known=False)
    assert "root:" not in told.message + told.hint
    ended = "k.hip:1:1: error: of root:x\nk.hip:2:1: fatal error: 'gone.h' file not found"
    told = failure(Path("k.hip"), ended, "clang k.hip", all_known=False)
    assert told.message == "k.hip:2:1: gone.h is not there"
    driver = failure(Path("k.hip"), "clang: error: no such target", "clang", all_known=False)
    assert "no such target" in driver.message


def test_the_folder_of_a_header_is_found_in_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "include/deep").mkdir(parents=True)
    (tmp_path / "include/deep/tile.h").write_text("")
    monkeypatch.chdir(tmp_path / "src")
    allow(tmp_path)
    source = Path("k.hip")
    source.write_text("k<< <1, 64>> >();")
    told = failure(source, "k.hip:1:10: fatal error: 'deep/tile.h' file not found", "clang")
    assert told.hint == "name its folder: `-- -I ../include`"
    gone = failure(source, "k.hip:1:10: fatal error: 'other/tile.h' file not found", "clang")
    assert gone.hint == "name its folder: `-- -I FOLDER`"
    spaced = failure(source, "k.hip:1:5: error: expected expression", "clang k.hip")
    assert "spaces" in spaced.hint


@needs_clang
def test_what_clang_s_wrapper_brings_is_there(tool_in_process: Tool, tmp_path: Path) -> None:
    path = tmp_path / "named.hip"
    path.write_text(
        "struct Named { virtual std::string name() const { return std::string(); } };\n"
        "__global__ void one(int* x) { *x = 1; }\n"
    )
    reported(tool_in_process, path)


@needs_clang
def test_a_rocm_without_the_target_s_libraries_is_not_used(
    tool_in_process: Tool, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rocm = tmp_path / "rocm"
    (rocm / "include/hip").mkdir(parents=True)
    (rocm / "include/hip/hip_runtime.h").write_text("#error it is used")
    (rocm / "amdgcn/bitcode").mkdir(parents=True)
    (rocm / "amdgcn/bitcode/ocml.bc").write_text("")
    (rocm / "share/hip").mkdir(parents=True)  # by which clang takes wrappers of <new> and others
    (rocm / "share/hip/version").write_text("HIP_VERSION_MAJOR=5\nHIP_VERSION_MINOR=2\n")
    monkeypatch.setenv("ROCM_PATH", str(rocm))
    assert find_compiler(None, os.environ).rocm == rocm
    (kernel,) = reported(tool_in_process, source, "--arch", "gfx950")
    assert kernel["name"] == "blas::axpy"


@needs_clang
def test_registers_are_held_down_for_more_waves(tool_in_process: Tool, tmp_path: Path) -> None:
    path = tmp_path / "mul.hip"
    path.write_text("""\
// KINSPECT_LAUNCH mul grid=64 workgroup=256 args="f32[1064960], f32[1064960]"
__global__ void mul(const float* a, float* b) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  float x[64];
  for (int i = 0; i < 64; ++i) x[i] = a[t + i * 16384];
  for (int k = 0; k < 4; ++k)
    for (int i = 0; i < 64; ++i) x[i] = x[i] * x[(i + 7) % 64] + x[(i * 5 + 1) % 64];
  for (int i = 0; i < 64; ++i) b[t + i * 16384] = x[i];
}
""")
    done = tool_in_process("try", path, "--arch", "gfx90a", "--format", "json")
    assert done.returncode == 0, done.stderr
    (kernel,) = json.loads(done.stdout)["kernels"]
    before = kernel["metrics"]["occupancy.waves_per_eu"]
    (row,) = [
        row
        for row in kernel["tried"]
        if [(c["name"], c["value"]) for c in row["change"]] == [("amdgpu_waves_per_eu", before + 1)]
    ]
    assert row["metrics"]["occupancy.waves_per_eu"] == before + 1


@needs_clang
def test_macros_and_bounds_are_tried(tool_in_process: Tool, source: Path) -> None:
    done = tool_in_process("try", source, "--kernel", "blas*", "--format", "json")
    assert done.returncode == 0, done.stderr
    (kernel,) = json.loads(done.stdout)["kernels"]
    tried = {
        (change["name"], change["value"]): row
        for row in kernel["tried"]
        for change in row["change"]
    }
    assert set(tried) == {("__launch_bounds__", 256), ("WIDTH", 128), ("WIDTH", 512)}
    for row in tried.values():
        assert row["time"]["us"] > 0, "the stated grid follows the macro"
    words = ("--grid", "16", "--workgroup", "256", "--args", "f32 2, f32[4096], f32[4096]")
    stated = tool_in_process("try", source, "--kernel", "blas*", *words)
    assert "the stated --grid may be for another WIDTH" in " ".join(stated.stdout.split())


@needs_clang
def test_results_are_those_of_numpy(source: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 512), np.float32)
    expected = y + np.float32(3) * x
    launch: dict[str, Any] = {"grid": (2, 1, 1), "block": (256, 1, 1), "kernel": "blas::axpy"}
    result = kinspect.emulate_code(source, [np.float32(3), x, y], **launch)
    assert result.passed
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    words = {"kernel": "scale<7>", "instantiate": ("scale<7>",), "block": (64, 1, 1)}
    kinspect.emulate_code(source, [x[:64].copy()], **words)  # type: ignore[arg-type]
    with pytest.raises(KinspectError, match="argument 1 is list"):
        kinspect.emulate_code(source, [np.float32(3), [1.0], y], **launch)


# ------------------------------------------------------------------ what strangers tried


@needs_clang
def test_a_header_that_comes_to_be_found_first_is_seen(tool_in_process: Tool, source: Path) -> None:
    for name, text in (("a", None), ("b", "#define WIDTH 128\n")):
        source.with_name(name).mkdir()
        if text is not None:
            (source.with_name(name) / "size.h").write_text(text)
    source.write_text("#include <size.h>\n" + SOURCE)
    words = ("--", "-I", str(source.with_name("a")), "-I", str(source.with_name("b")))

    def code() -> str:
        done = tool_in_process("analyze", source, "--format", "json", "--details", *words)
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout)["kernels"][0]["artifacts"]["amdgcn"]["sha256"])

    before = code()
    (source.with_name("a") / "size.h").write_text("#define WIDTH 64\n")
    assert code() != before


@needs_clang
def test_nothing_beside_a_source_is_loaded_by_the_compiler(
    tool_in_process: Tool, source: Path
) -> None:
    (source.parent / "hip").mkdir()
    for name in ("hip/hip_runtime.h.pch", "hip_runtime.h.gch", "clang.cfg", ".clang"):
        (source.parent / name).write_text("no precompiled header, no settings")
    evil = source.parent / "evil.rsp"
    evil.write_text("X -fplugin=evil.so")
    (source.parent / ".git").mkdir()
    words = ["c", "-D", "@evil.rsp"]
    entry = {"directory": str(source.parent), "file": source.name, "arguments": words}
    (source.parent / "compile_commands.json").write_text(json.dumps([entry]))
    done = tool_in_process("analyze", source)
    assert done.returncode == 2
    assert "macro name must be an identifier" in done.stderr, "it is a macro, and no file of flags"
    (source.parent / "compile_commands.json").unlink()
    assert tool_in_process("analyze", source).returncode == 0


@needs_clang
def test_a_crash_of_the_compiler_leaves_nothing(
    tool_in_process: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    path = tmp_path / "crash.hip"
    path.write_text("#pragma clang __debug crash\n__global__ void f() {}")
    done = tool_in_process("analyze", path)
    assert done.returncode == 2
    assert "the compiler" in done.stderr or "command failed" in done.stderr
    assert list(scratch.iterdir()) == []
    assert list(tmp_path.glob("*.sh")) == []


@needs_clang
def test_of_a_server_s_root_a_source_does_not_lead_out(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "o.h").write_text("#define SECRET 4711\n")
    path = root / "k.hip"
    path.write_text('#include "../o.h"\n__global__ void f(int* x) { *x = SECRET; }')
    allow_target(path)
    allow(tmp_path)  # as where the source's checkout is wider than the root
    assert compiled(path, "gfx942", HipOptions()).names == {"_Z1fPi": "f"}
    for flags in ((), ("-I", str(tmp_path)), ("-include", str(tmp_path / "o.h"))):
        with pytest.raises(KinspectError, match=r"it includes .*o\.h, outside"):
            compiled(path, "gfx942", HipOptions(flags=flags, root=root))


@needs_clang
def test_a_kernel_that_is_empty_on_a_target_says_so(tool_in_process: Tool, tmp_path: Path) -> None:
    path = tmp_path / "matrix.hip"
    path.write_text("__global__ void one(int* x) {\n#if __gfx90a__\n*x = 1;\n#endif\n}\n")
    on_both = reported(tool_in_process, path, "--arch", "gfx90a,gfx942")
    noted = {kernel["arch"]: any("empty" in n for n in kernel["notes"]) for kernel in on_both}
    assert noted == {"gfx90a": False, "gfx942": True}
