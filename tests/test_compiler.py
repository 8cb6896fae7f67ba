"""Compiling variants in guest processes: real compiles, and every way they can fail."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.capture.script import capture_script
from kinspect.inspector.compile.diagnostics import scan
from kinspect.inspector.compile.environment import compile_relevant, guest_environment
from kinspect.inspector.compile.pool import (
    DAMAGED,
    Compiler,
    CompileResult,
    CompileSettings,
    compile_variant,
)
from kinspect.inspector.compile.worker import Worker
from kinspect.inspector.model import Variant
from msgspec.structs import replace

# One worker: what the fixtures compile would else be compiled by each.
pytestmark = pytest.mark.xdist_group("compiler")

pytest.importorskip("triton")
KERNELS = Path(__file__).parent / "data" / "guest_kernels.py"

FOREIGN = """
import triton, triton.language as tl

@triton.jit
def foreign(x_ptr, ASM: tl.constexpr, CONSTRAINTS: tl.constexpr, BLOCK: tl.constexpr = 128):
    at = x_ptr + tl.arange(0, BLOCK)
    x = tl.inline_asm_elementwise(ASM, CONSTRAINTS, [tl.load(at)], dtype=tl.int32,
                                  is_pure=True, pack=1)
    tl.store(at, x)

def case(name, asm, constraints):
    return {"name": name, "kernel": "foreign", "signature": {"x_ptr": "*i32:16"},
            "constexprs": {"ASM": asm, "CONSTRAINTS": constraints}}

KINSPECT_CASES = [
    case("instruction", "cvt.rna.tf32.f32 $0, $1;", "=r,r"),
    case("register", "mov.b16 $0, $1;", "=h,h"),
]
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def compiler(cache: Path) -> Iterator[Compiler]:
    with Compiler(CompileSettings(cache_dir=cache)) as one:
        yield one


@pytest.fixture(scope="module")
def variants(compiler: Compiler) -> dict[str, Variant]:
    with compiler.worker() as worker:
        found, errors = capture_script(worker, KERNELS, ["gfx942", "gfx1100"])
    assert not errors
    return {f"{v.case} {v.arch}": v for v in found}


@pytest.fixture(scope="module")
def gemm(variants: dict[str, Variant]) -> Variant:
    return variants["square gfx942"]


@pytest.fixture(scope="module")
def small(variants: dict[str, Variant]) -> Variant:
    return variants["ragged gfx942"]


def read(result: CompileResult, kind: str) -> str:
    return result.artifacts[kind].path.read_text()


def instructions(assembly: str) -> list[str]:
    """The instruction lines: no directives, labels or comments."""
    body = assembly[: assembly.index(".section\t.rodata")]
    lines = (re.sub(r"\s*[;/].*", "", line).strip() for line in body.splitlines())
    return [line for line in lines if line and line[0] != "." and not line.endswith(":")]


# ------------------------------------------------------------------ success


def test_every_stage_is_an_artifact(compiler: Compiler, gemm: Variant) -> None:
    result = compiler.compile(gemm)
    assert result.error is None
    kinds = {"ttir", "ttgir", "llir", "amdgcn", "hsaco", "metadata", "stderr"}
    assert set(result.artifacts) == kinds
    for artifact in result.artifacts.values():
        content = artifact.path.read_bytes()
        assert (artifact.size, artifact.sha256) == (len(content), sha256(content).hexdigest())
    assert read(result, "ttir") == gemm.ttir
    assert "#ttg.amd_mfma" in read(result, "ttgir")
    assert "v_mfma_f32" in read(result, "amdgcn")
    assert result.artifacts["hsaco"].path.read_bytes()[:4] == b"\x7fELF"
    assert [s.stage for s in result.stages] == ["ttgir", "llir", "amdgcn", "hsaco"]
    assert all(seconds > 0 for seconds in result.seconds.values())
    assert result.metadata["shared"] > 0
    assert result.metadata["name"] == "gemm"
    folder = result.artifacts["ttir"].path.parent
    stored = {a.path.name for a in result.artifacts.values()} | {"manifest.json"}
    assert {p.name for p in folder.iterdir()} == stored
    assert not list((compiler.store.root / "staging").iterdir())
    assert str(folder.parent) not in read(result, "amdgcn")


REFERENCE = """
import importlib.util, json, sys, torch, triton
from triton.backends.compiler import GPUTarget

class Driver:
    def get_current_target(self): return GPUTarget("hip", sys.argv[2], 64)
    def get_current_device(self): return 0
    def get_current_stream(self, device=None): return 0

triton.runtime.driver.set_active(Driver())
spec = importlib.util.spec_from_file_location("guest_kernels", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
half = torch.empty(4096, dtype=torch.float16)
square = module.gemm.fn.fn.warmup(half, half, half, 64, 128, 256, 1, 0.5, BLOCK=64, BLOCK_K=32,
                                  EVEN=True, num_warps=4, grid=(16, 16))
print(json.dumps({"ttir": square.asm["ttir"], "amdgcn": square.asm["amdgcn"]}))
"""


@pytest.fixture(scope="module")
def real_launch(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """TTIR and assembly of the GEMM as Triton's own launch path makes them."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("reference")
    script = folder / "reference.py"
    script.write_text(REFERENCE)
    env = {**os.environ, "TRITON_CACHE_DIR": str(folder), "TRITON_DEFAULT_FP_FUSION": "1"}
    command = [sys.executable, str(script), str(KERNELS), "gfx942"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_a_case_gives_the_ttir_of_a_real_launch(gemm: Variant, real_launch: dict[str, str]) -> None:
    assert gemm.ttir == real_launch["ttir"]


def test_ttir_compiles_to_the_instructions_of_a_real_launch(
    compiler: Compiler, gemm: Variant, real_launch: dict[str, str]
) -> None:
    result = compiler.compile(gemm)
    ours, theirs = instructions(read(result, "amdgcn")), instructions(real_launch["amdgcn"])
    assert len(ours) > 100
    assert ours == theirs


def test_a_known_variant_needs_no_guest(
    cache: Path, compiler: Compiler, gemm: Variant, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compiler.compile(gemm)

    def refuse(worker: Worker) -> None:
        raise AssertionError("a guest was started")

    monkeypatch.setattr(Worker, "start", refuse)
    with Compiler(CompileSettings(cache_dir=cache)) as other:
        again = other.compile(gemm)
        assert again.from_store
        assert replace(again, from_store=first.from_store) == first
        with pytest.raises(AssertionError, match="a guest was started"):
            other.compile(replace(gemm, options={"num_warps": 8}))


def test_recompiling_replaces_the_entry(cache: Path, compiler: Compiler, small: Variant) -> None:
    compiler.compile(small)
    settings = CompileSettings(cache_dir=cache, read_store=False)
    with Compiler(settings) as other:
        result = other.compile(small)
    assert not result.from_store
    assert compiler.store.get(compiler.key(small))


def test_an_edited_entry_is_compiled_again_and_that_is_said(small: Variant, tmp_path: Path) -> None:
    with Compiler(CompileSettings(cache_dir=tmp_path)) as compiler:
        first = compiler.compile(small)
        assembly = first.artifacts["amdgcn"].path
        before = assembly.read_text()
        stated = re.search(r"\.vgpr_count: +\d", before)
        assert stated is not None
        edited = before.replace(stated[0], f"{stated[0][:-1]}9")
        assert (edited != before, len(edited)) == (True, len(before))
        assembly.write_text(edited)
        again = compiler.compile(small)
        assert not again.from_store
        assert again.notes == (DAMAGED, *first.notes)
        assert read(again, "amdgcn") == before
        once_more = compiler.compile(small)
        assert once_more.from_store
        assert once_more.notes == first.notes


def test_an_edited_answer_of_the_toolchain_is_asked_for_again(
    compiler: Compiler, tmp_path: Path
) -> None:
    with Compiler(CompileSettings(cache_dir=tmp_path)) as fresh:
        key = fresh.toolchain().triton_key
    (answer,) = tmp_path.glob("toolchains-*/*.json")
    answer.write_text(answer.read_text().replace(key, "0" * len(key)))
    with Compiler(CompileSettings(cache_dir=tmp_path)) as other:
        assert other.toolchain().triton_key == key


def test_an_entry_with_a_dump_serves_without(cache: Path, small: Variant, tmp_path: Path) -> None:
    with Compiler(CompileSettings(cache_dir=tmp_path, passes=True)) as dumping:
        dumped = dumping.compile(small)
    assert not dumped.from_store
    assert "passes" in dumped.artifacts
    assert "MLIR_DUMP_PATH" not in dumped.metadata
    with Compiler(CompileSettings(cache_dir=tmp_path)) as plain:
        assert plain.compile(small).from_store


def test_options_reach_the_compiler(compiler: Compiler, gemm: Variant) -> None:
    result = compiler.compile(replace(gemm, options={"num_warps": 8, "waves_per_eu": 2}))
    assert result.metadata["num_warps"] == 8
    assert '"ttg.num-warps" = 8' in read(result, "ttgir")
    assert '"amdgpu-waves-per-eu"="2,2"' in read(result, "llir")


def test_warnings_become_notes(compiler: Compiler, small: Variant) -> None:
    result = compiler.compile(replace(small, arch="gfx950", options={"kpack": 2}))
    assert result.error is None
    assert any("kpack is deprecated" in note for note in result.notes)
    assert any("kpack is deprecated" in note for note in compiler.compile(result.variant).notes)


# ------------------------------------------------------------------ failure


def fails(compiler: Compiler, variant: Variant, *words: str) -> CompileResult:
    """Compiles; checks the error, that nothing is left of the job and that the guest lived on."""
    with compiler.worker() as worker:
        worker.request({"op": "hello"}, 60)
        pid = worker.pid
    result = compiler.compile(variant)
    assert result.error is not None
    assert not result.artifacts
    assert "\n" not in result.error.message
    assert result.error.hint
    for word in words:
        assert word in result.error.message
    assert compiler.store.get(compiler.key(variant)) is None
    assert not list((compiler.store.root / "staging").iterdir())
    with compiler.worker() as worker:
        assert worker.pid == pid
    return result


def test_a_crash_is_reported(compiler: Compiler, small: Variant) -> None:
    # Triton 3.9 dereferences the entry function of a module that has none.
    fails(compiler, replace(small, ttir=""), "row_sum", "gfx942", "crashed (SIGSEGV)")
    assert compiler.compile(small).error is None


def test_invalid_ir_is_reported_with_mlirs_words(compiler: Compiler, gemm: Variant) -> None:
    broken = replace(gemm, ttir=gemm.ttir.replace("tt.dot ", "tt.dott "))
    result = fails(compiler, broken, "error:", "'tt.dott' is unknown")
    assert "tt.dott" in result.stderr


def test_unknown_options_are_refused(compiler: Compiler, small: Variant) -> None:
    wrong = replace(small, options={"num_wraps": 4})
    result = fails(compiler, wrong, "'num_wraps'", "did you mean 'num_warps'")
    assert result.error is not None
    assert "waves_per_eu" in result.error.hint


def test_errors_on_stderr_fail_a_compile_that_returned_code(
    compiler: Compiler, small: Variant
) -> None:
    wrong = replace(small, options={"llvm_fn_attrs": "amdgpu-flat-work-group-size=1,x"})
    fails(compiler, wrong, "not to be trusted", "error: can't parse second integer attribute")


def test_inline_assembly_of_another_vendor_fails(compiler: Compiler, tmp_path: Path) -> None:
    path = tmp_path / "foreign.py"
    path.write_text(FOREIGN)
    with compiler.worker() as worker:
        found, errors = capture_script(worker, path, ["gfx942"])
    assert not errors
    for variant in found:
        result = fails(compiler, variant, "foreign", "error:")
        assert result.error is not None
        assert "inline assembly" in result.error.hint


def test_time_limit(cache: Path, gemm: Variant) -> None:
    with Compiler(CompileSettings(cache_dir=cache, time_limit=0.05)) as hasty:
        late = replace(gemm, options={"num_warps": 2})
        fails(hasty, late, "did not finish within 0.05 s")


def test_memory_limit(cache: Path, gemm: Variant) -> None:
    settings = CompileSettings(cache_dir=cache, memory_limit=100 << 20)
    with Compiler(settings) as poor:
        fails(poor, replace(gemm, options={"num_warps": 1}))


def test_a_killed_guest_costs_one_job(cache: Path, gemm: Variant, compiler: Compiler) -> None:
    with Compiler(CompileSettings(cache_dir=cache)) as fragile:
        assert fragile.compile(gemm).error is None
        with fragile.worker() as worker:
            worker.request({"op": "hello"}, 60)
            pid = worker.pid
        assert pid is not None
        slow = replace(gemm, options={"num_warps": 1, "num_stages": 4})

        def kill() -> None:
            for _ in range(2000):
                children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
                if children:
                    jobs.extend(map(int, children))
                    break
                time.sleep(0.005)
            os.kill(pid, signal.SIGKILL)

        jobs: list[int] = []
        killer = threading.Thread(target=kill)
        killer.start()
        result = fragile.compile(slow)
        killer.join()
        assert result.error is not None
        assert "killed by signal 9" in result.error.message
        assert len(jobs) == 1
        for _ in range(100):
            if not Path(f"/proc/{jobs[0]}").exists():
                break
            time.sleep(0.02)
        else:
            state = Path(f"/proc/{jobs[0]}/stat").read_text().rpartition(")")[2].split()[0]
            assert state == "Z"
        assert fragile.compile(replace(gemm, options={"num_warps": 4})).error is None


def test_abort_ends_what_is_at_work(cache: Path, gemm: Variant) -> None:
    with Compiler(CompileSettings(cache_dir=cache)) as compiler:
        compiler.toolchain()
        with compiler.worker() as worker:
            worker.request({"op": "hello"}, 60)
            pid = worker.pid
        with ThreadPoolExecutor(1) as executor:
            slow = replace(gemm, options={"num_warps": 1, "num_stages": 5})
            future = executor.submit(compiler.compile, slow)
            while not Path(f"/proc/{pid}/task/{pid}/children").read_text():
                assert not future.done()
                time.sleep(0.005)
            compiler.abort()
            result = future.result(timeout=10)
    assert result.error is not None
    assert "the process that runs Triton" in result.error.message
    assert not Path(f"/proc/{pid}").exists()
    assert compiler.store.get(compiler.key(slow)) is None


def test_an_interpreter_without_triton(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    settings = CompileSettings(python=str(venv / "bin" / "python"), cache_dir=tmp_path / "cache")
    with Compiler(settings) as compiler, pytest.raises(KinspectError) as caught:
        compiler.toolchain()
    assert "Triton cannot be imported" in caught.value.message
    assert str(venv) in caught.value.message
    assert "--python" in caught.value.hint


def test_no_such_interpreter(tmp_path: Path) -> None:
    missing = tmp_path / "python"
    for setting in (str(missing), str(tmp_path)):
        with (
            Compiler(CompileSettings(python=setting, cache_dir=tmp_path / "c")) as compiler,
            pytest.raises(KinspectError, match="cannot be started"),
        ):
            compiler.toolchain()


def test_an_interpreter_that_is_none(tmp_path: Path) -> None:
    with (
        Compiler(CompileSettings(python="/bin/false", cache_dir=tmp_path)) as compiler,
        pytest.raises(KinspectError, match="ended with status 1"),
    ):
        compiler.toolchain()


# ------------------------------------------------------------------ executors


def test_two_threads_use_two_guests(cache: Path, small: Variant) -> None:
    wanted = [replace(small, options={"num_warps": w, "num_stages": 3}) for w in (1, 2, 4, 8)]
    seen: set[int] = set()
    barrier = threading.Barrier(2, timeout=60)
    with Compiler(CompileSettings(cache_dir=cache)) as compiler:

        def job(variant: Variant) -> CompileResult:
            with compiler.worker() as worker:  # held by both at once
                worker.request({"op": "hello"}, 60)
                assert worker.pid is not None
                seen.add(worker.pid)
                barrier.wait()
            return compiler.compile(variant)

        with ThreadPoolExecutor(2) as executor:
            results = list(executor.map(job, wanted))
    assert len(seen) == 2
    assert [r.metadata["num_warps"] for r in results] == [1, 2, 4, 8]
    assert not any(Path(f"/proc/{pid}").exists() for pid in seen)


def test_other_processes_can_compile(cache: Path, small: Variant) -> None:
    settings = CompileSettings(cache_dir=cache)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        variant = replace(small, options={"num_warps": 2})
        result = executor.submit(compile_variant, variant, settings).result(timeout=120)
    assert result.error is None
    assert "s_endpgm" in read(result, "amdgcn")


# ------------------------------------------------------------------ environment, diagnostics


def test_the_users_environment_cannot_falsify_a_compile(
    cache: Path, small: Variant, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "TRITON_INTERPRET": "1",
        "TRITON_OVERRIDE_ARCH": "gfx1100",
        "TRITON_STORE_BINARY_ONLY": "1",
        "MLIR_ENABLE_DUMP": "1",
        "AMDGCN_ENABLE_DUMP": "1",
    }.items():
        monkeypatch.setenv(name, value)
    with Compiler(CompileSettings(cache_dir=cache)) as compiler:
        with compiler.worker() as worker:
            found, errors = capture_script(worker, KERNELS, ["gfx942"], ("row_sum",))
        assert not errors
        assert [v.ttir for v in found] == [small.ttir]
        result = compiler.compile(replace(small, options={"num_stages": 1}))
    assert result.error is None
    assert {"ttgir", "llir", "amdgcn"} <= set(result.artifacts)
    assert re.search(r'\.amdgcn_target ".*gfx942"', read(result, "amdgcn"))
    assert result.artifacts["stderr"].size == 0


def test_what_changes_code_changes_the_key() -> None:
    base = guest_environment({"HOME": "/h"})
    assert compile_relevant(base) == {"TRITON_DEFAULT_FP_FUSION": "1"}
    assert guest_environment({"TRITON_DEFAULT_FP_FUSION": "0"})["TRITON_DEFAULT_FP_FUSION"] == "0"
    relevant = compile_relevant(
        guest_environment({"AMDGCN_USE_BUFFER_OPS": "0", "TRITON_HOME": "x"})
    )
    assert "AMDGCN_USE_BUFFER_OPS" in relevant
    assert "TRITON_HOME" not in relevant


@pytest.mark.parametrize(
    ("line", "errors", "warnings"),
    [
        ("error: couldn't allocate output register for constraint 'h'", 1, 0),
        ("<inline asm>:1:2: error: invalid instruction", 1, 0),
        ('loc("k.ttir":1:10): error: custom op', 1, 0),
        ("k.py:3:1: warning: something", 0, 1),
        ("/x/compiler.py:240: UserWarning: kpack is deprecated", 0, 1),
        ("remark: no terror: here", 0, 0),
        ("", 0, 0),
    ],
)
def test_diagnostics(line: str, errors: int, warnings: int) -> None:
    said = scan(f"{line}\n{line}\n")
    assert (len(said.errors), len(said.warnings)) == (errors, warnings)


def test_the_summary_of_a_crash_is_not_its_stack() -> None:
    said = scan(
        "note: x\nLLVM ERROR: Cannot select: t1\nPLEASE submit a bug report\nStack dump:\n"
        "0.\tRunning pass\n #0 0x00007f (/lib/x.so+0x1)\n"
    )
    assert said.summary == "LLVM ERROR: Cannot select: t1"
