"""Folders and Triton's own files as targets: each kernel once, for the right arch, or why not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kinspect.inspector import machines
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.capture.resolving import resolve
from kinspect.inspector.capture.targets import Target
from kinspect.inspector.capture.triton_entries import entries_of, stated_beside
from kinspect.inspector.capture.ttir import compilable_ttgir, variant_of
from kinspect.inspector.compile.pool import Compiler, CompileSettings

KERNEL = """
import sys
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def scale(p, q, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(p + at, at < n)
    tl.store(q + at, x * tl.sum(x, 0), at < n)

if __name__ == "__main__":
    source = ASTSource(
        scale,
        {"p": "*fp32", "q": "*fp32", "n": "i32", "B": "constexpr"},
        {"B": 1024},
        {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]},
    )
    for backend, arch, wave in (("hip", "gfx942", 64), ("cuda", 90, 32)):
        triton.knobs.compilation.dump_ir = backend == "hip"  # one folder per source
        try:
            options = {"num_warps": 8, "num_stages": 1}
            triton.compile(source, target=GPUTarget(backend, arch, wave), options=options)
        except Exception as error:
            print(backend, error, file=sys.stderr)
"""

pytestmark = pytest.mark.xdist_group("targets")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real Triton cache and a real dump folder, of one kernel for two backends."""
    pytest.importorskip("triton")
    root = tmp_path_factory.mktemp("triton")
    (root / "k.py").write_text(KERNEL)
    env = {
        **os.environ,
        "TRITON_CACHE_DIR": str(root / "cache"),
        "TRITON_DUMP_DIR": str(root / "dump"),
        "TRITON_KERNEL_DUMP": "1",
        "TRITON_DEFAULT_FP_FUSION": "1",
    }
    command = [sys.executable, str(root / "k.py")]
    subprocess.run(command, check=True, env=env, capture_output=True)
    return root


def entry(root: Path, stage: str) -> Path:
    """The folder of the entry that has this stage."""
    found = sorted(root.glob(f"*/scale.{stage}"))
    if not found:
        pytest.skip(f"this Triton makes no {stage}")
    return found[0].parent


def copied(source: Path, folder: Path) -> Path:
    shutil.copytree(source, folder)
    return folder


@pytest.mark.parametrize("text", ["", "::kernel"])
def test_no_name_is_not_the_current_folder(text: str) -> None:
    with pytest.raises(KinspectError, match="names no file"):
        resolve(text)


def test_an_entry_is_one_target_with_all_its_stages(made: Path) -> None:
    amd = entry(made / "cache", "hsaco")
    assert list(amd.glob("__grp__*.json"))
    (target,) = resolve(str(amd))
    assert target.kind == "asm"
    assert target.path.name == "scale.amdgcn"
    assert {"metadata", "ttir", "ttgir", "llir", "hsaco"} <= set(target.siblings)


def test_without_arch_each_entry_is_what_it_was_compiled_for(made: Path) -> None:
    found = {t.path.suffix: t for t in resolve(str(made / "cache"))}
    assert found[".amdgcn"].archs == ()
    cuda = entry(made / "cache", "ptx")
    assert found[".ttir"].path.parent == cuda
    assert len(found) == 2


def test_another_arch_is_compiled_again_from_ttir(made: Path) -> None:
    amd = entry(made / "cache", "hsaco")
    read, again = resolve(str(amd), ("gfx942", "gfx1201"))
    assert (read.kind, read.archs) == ("asm", ("gfx942",))
    assert (again.kind, again.archs, again.path.suffix) == ("ttir", ("gfx1201",), ".ttir")
    variant = variant_of(
        again.path.read_text(), "k.ttir", machines.load("gfx1201"), stated_beside(again.siblings)
    )
    assert variant.options["num_warps"] == 8
    assert variant.options["num_stages"] == 1
    assert variant.wave_size == 32
    assert any("made for gfx942" in note for note in variant.notes)
    # A single file of it, too.
    (alone,) = resolve(str(amd / "scale.amdgcn"), ("gfx90a",))
    assert (alone.kind, alone.path.suffix) == ("ttir", ".ttir")


def test_a_dump_has_no_metadata_but_its_ttgir_says_enough(made: Path) -> None:
    amd = entry(made / "dump", "hsaco")
    (target,) = resolve(str(amd), ("gfx90a",))
    assert (target.kind, target.archs) == ("ttir", ("gfx90a",))
    stated = stated_beside({k: p for k, p in target.siblings.items() if k != "metadata"})
    assert stated == {"num_warps": 8, "target": {"backend": "hip", "arch": "gfx942"}}


def test_nvidia_ttir_compiles_and_says_what_it_lacks(made: Path) -> None:
    cuda = entry(made / "cache", "ptx")
    (target,) = resolve(str(cuda), ("gfx942",))
    assert target.kind == "ttir"
    text = target.path.read_text()
    variant = variant_of(text, "k.ttir", machines.load("gfx942"), stated_beside(target.siblings))
    assert variant.options["num_warps"] == 8
    (note,) = variant.notes
    assert "cuda:90" in note
    assert "8 warps of 32 are 8 waves of 64" in note
    with Compiler(CompileSettings(python=sys.executable)) as compiler:
        result = compiler.compile(variant)
    assert result.error is None, result.error


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            '%9 = tt.extern_elementwise %8 {libname = "", libpath = "", pure = true, '
            'symbol = "__nv_expf"} : (tensor<8xf32>) -> tensor<8xf32>',
            "NVIDIA's device library: __nv_expf",
        ),
        ('%9 = tt.elementwise_inline_asm "cvt.rn.f16 $0, $1;" {} %8', "inline PTX"),
        ("ttng.wait_barrier %3, %4", "operation of NVIDIA's: ttng.wait_barrier"),
    ],
)
def test_what_only_nvidia_can_compile_is_refused(line: str, says: str) -> None:
    text = f"module {{\n  tt.func public @k(%p: !tt.ptr<f32>) {{\n    {line}\n  }}\n}}\n"
    metadata = {"target": {"backend": "cuda", "arch": 90}, "num_warps": 4, "shared": 0}
    machine = machines.load("gfx942")
    with pytest.raises(KinspectError) as caught:
        variant_of(text, "k.ttir", machine, metadata)
    assert caught.value.message.startswith("k.ttir:3: ")
    assert says in caught.value.message
    assert caught.value.hint
    # The same made for AMD is AMD's own business.
    amd = {**metadata, "target": {"backend": "hip", "arch": "gfx942"}}
    assert variant_of(text, "k.ttir", machine, amd).kernel == "k"


def test_metadata_give_every_option_that_says_something() -> None:
    text = "module {\n  tt.func public @k() {\n  }\n}\n"
    metadata = {
        "target": {"backend": "hip", "arch": "gfx942", "warp_size": 64},
        "shared": 0,
        "name": "k",
        "num_warps": 8,
        "num_stages": 2,
        "waves_per_eu": 0,
        "matrix_instr_nonkdim": 16,
        "kpack": 2,
        "num_ctas": 1,
        "enable_fp_fusion": False,
        "schedule_hint": "attention",
        "instrumentation_mode": "",
        "allow_flush_denorm": False,
        "llvm_fn_attrs": [],
        "supported_fp8_dtypes": ["fp8e5"],
        "cluster_dims": [1, 1, 1],
    }
    variant = variant_of(text, "k.ttir", machines.load("gfx942"), metadata)
    assert variant.options == {
        "num_warps": 8,
        "num_stages": 2,
        "waves_per_eu": 0,
        "matrix_instr_nonkdim": 16,
        "kpack": 2,
        "num_ctas": 1,
        "enable_fp_fusion": False,
        "schedule_hint": "attention",
    }
    assert variant.notes == ()


def test_ttgir_compiles_on_to_the_same_code(made: Path, tmp_path: Path) -> None:
    amd = entry(made / "cache", "hsaco")
    path = tmp_path / "k.ttgir"
    shutil.copy(amd / "scale.ttgir", path)
    (target,) = resolve(str(path))
    assert (target.kind, target.archs) == ("ttgir", ("gfx942",))
    text = path.read_text()
    assert compilable_ttgir(text)
    variant = variant_of(text, str(path), machines.load("gfx942"), None)
    assert (variant.stage, variant.options) == ("ttgir", {"num_warps": 8})
    with Compiler(CompileSettings(python=sys.executable)) as compiler:
        result = compiler.compile(variant)
        other = compiler.key(variant)
    assert result.error is None, result.error
    assert set(result.artifacts) >= {"ttgir", "llir", "amdgcn", "hsaco", "metadata"}
    assert "ttir" not in result.artifacts
    assert [s.stage for s in result.stages] == ["llir", "amdgcn", "hsaco"]
    assert instructions(result.artifacts["amdgcn"].path) == instructions(amd / "scale.amdgcn")
    metadata = json.loads((amd / "scale.json").read_text())
    assert result.metadata["shared"] == metadata["shared"]
    assert other != ""


def instructions(path: Path) -> list[str]:
    lines = [line.partition(";")[0].strip() for line in path.read_text().splitlines()]
    return [line for line in lines if line and not line.startswith((".", "//"))]


def test_ttgir_for_another_target_is_refused(made: Path) -> None:
    text = (entry(made / "cache", "hsaco") / "scale.ttgir").read_text()
    with pytest.raises(KinspectError, match="TTGIR for hip:gfx942, not gfx90a"):
        variant_of(text, "k.ttgir", machines.load("gfx90a"), None)
    assert not compilable_ttgir(text.replace("hip:gfx942", "cuda:90"))


@pytest.mark.parametrize(
    ("keep", "empty"),
    [
        ((".json",), ()),
        ((".json", ".ttir"), (".ttir",)),
        ((".json", ".llir"), ()),
        ((".hsaco",), (".hsaco",)),
        ((".ptx", ".json"), ()),
    ],
)
def test_half_written_entries_are_one_error_each(
    made: Path, tmp_path: Path, keep: tuple[str, ...], empty: tuple[str, ...]
) -> None:
    good = copied(entry(made / "cache", "hsaco"), tmp_path / "cache" / "GOOD")
    bad = tmp_path / "cache" / "BAD"
    bad.mkdir()
    for suffix in keep:
        source = good / f"scale{suffix}"
        data = source.read_bytes() if source.exists() and suffix not in empty else b""
        (bad / f"scale{suffix}").write_bytes(data or (b"" if suffix in empty else b"//"))
    (bad / "__grp__scale.json").write_text('{"child_paths": {}}')
    found = resolve(str(tmp_path / "cache"))
    faults = [t.fault for t in found if t.fault is not None]
    assert len(found) == 2
    (fault,) = faults
    assert "damaged or half-written" in fault.message
    assert str(bad) in fault.message
    assert "\n" not in fault.message


def test_cut_assembly_gives_way_to_the_code_object(made: Path, tmp_path: Path) -> None:
    folder = copied(entry(made / "cache", "hsaco"), tmp_path / "E")
    path = folder / "scale.amdgcn"
    path.write_bytes(path.read_bytes()[:3000])
    (target,) = resolve(str(folder))
    assert (target.kind, target.fault) == ("code_object", None)
    (folder / "scale.hsaco").write_bytes(b"")
    (target,) = resolve(str(folder))
    assert target.kind == "ttir"


def test_cut_metadata_do_not_hide_the_code(made: Path, tmp_path: Path) -> None:
    folder = copied(entry(made / "cache", "hsaco"), tmp_path / "E")
    path = folder / "scale.json"
    path.write_text(path.read_text()[:40])
    (target,) = resolve(str(folder))
    assert (target.kind, target.fault) == ("asm", None)


def test_metadata_that_are_gone_before_they_are_read_are_no_kernel(tmp_path: Path) -> None:
    assert list(entries_of([tmp_path / "gone.json"], ())) == []


# --------------------------------------------------------------------------- Inductor's folders

MODULE = """
import triton
from torch._inductor.runtime import triton_heuristics

@triton_heuristics.foreach(num_warps=4, triton_meta={{'signature': {{}}, 'configs': [{{}}]}})
@triton.jit
def {name}():
    pass
"""
TOP = "from torch._inductor.async_compile import AsyncCompile\nasync_compile = AsyncCompile()\n"


def wrapper(*names: str) -> str:
    kernels = [
        f"{name} = async_compile.triton('{name}', '''{MODULE.format(name=name)}''')\n"
        for name in names
    ]
    return TOP + "".join(kernels)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Two graphs; `b` is in both. `lib` calls only library kernels."""
    root = tmp_path / "torchinductor_me"
    files = {
        "g1/cgraph1.py": wrapper("a", "b"),
        "g2/cgraph2.py": wrapper("b", "c"),
        "g3/clib.py": TOP,
        **{f"k/c{name}.py": MODULE.format(name=name) for name in "abcd"},
        "fxgraph/aa/notes.py": "print('no kernel')\n",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def compiled(root: Path, name: str, key: str, backend: str, *, located: bool = True) -> Path:
    folder = root / "triton" / "0" / key
    folder.mkdir(parents=True)
    arch = "gfx942" if backend == "hip" else 90
    target = {"target": {"backend": backend, "arch": arch}, "num_warps": 4, "shared": 0}
    loc = f'#loc = loc("/tmp/torchinductor_me/k/c{name}.py":6:0)\n' if located else ""
    (folder / "t.json").write_text(json.dumps(target))
    (folder / "t.ttir").write_text(loc + "module {\n  tt.func public @t() {}\n}\n")
    if backend == "hip":
        (folder / "t.amdgcn").write_text("t:\n  s_endpgm\n.end_amdgpu_metadata\n")
    else:
        (folder / "t.ptx").write_text(".version 8.0\n")
    return folder


def names(found: list[Target]) -> list[str]:
    return sorted(t.path.name if t.kind == "inductor" else t.path.parent.name for t in found)


def test_wrappers_stand_for_their_single_kernel_modules(cache: Path) -> None:
    assert names(resolve(str(cache))) == ["cd.py", "cgraph1.py", "cgraph2.py"]
    shutil.copy(cache / "g1" / "cgraph1.py", cache / "g1" / "ccopy.py")
    found = names(resolve(str(cache)))
    assert len(found) == 3
    assert "cd.py" in found


def test_sources_count_more_than_what_was_compiled_for_nvidia(cache: Path) -> None:
    compiled(cache, "a", "NV", "cuda")
    compiled(cache, "a", "OLDNV", "cuda", located=False)
    compiled(cache, "elsewhere", "STRANGER", "cuda")
    assert names(resolve(str(cache))) == ["STRANGER", "cd.py", "cgraph1.py", "cgraph2.py"]


def test_real_amd_code_counts_most(cache: Path) -> None:
    for name in "ab":
        compiled(cache, name, f"AMD{name}", "hip")
    compiled(cache, "a", "LOSER", "hip")
    (cache / "k" / "x.best_config").write_text('{"XBLOCK": 1, "triton_cache_hash": "AMDa"}')
    # `a` and `b` are read from the entries that were chosen, `c` comes as a module of its own.
    assert names(resolve(str(cache))) == ["AMDa", "AMDb", "cc.py", "cd.py"]


def test_debug_folders_give_output_code_alone(tmp_path: Path) -> None:
    folder = tmp_path / "torch_compile_debug" / "run_1" / "torchinductor" / "model__0_inference.0"
    folder.mkdir(parents=True)
    (folder / "output_code.py").write_text(wrapper("a"))
    for name in ("fx_graph_runnable.py", "fx_graph_readable.py", "fx_graph_transformed.py"):
        (folder / name).write_text("import triton\n@triton.jit\ndef k(): pass\n")
    (folder / "ir_pre_fusion.txt").write_text("op0: SchedulerNode\n")
    (folder.parent / "debug.log").write_text("")
    (target,) = resolve(str(tmp_path / "torch_compile_debug"))
    assert (target.kind, target.path.name) == ("inductor", "output_code.py")


def test_a_selected_kernel_stays_selected(cache: Path) -> None:
    assert {t.kernel for t in resolve(f"{cache}::a*")} == {"a*"}
