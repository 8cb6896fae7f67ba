"""What the code says: cycles of the vector unit, unrolled loops' remainders, spill slots."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kinspect.inspector.isa.mnemonics import lookup
from kinspect.inspector.isa.operations import idle_slots
from kinspect.inspector.model import Instruction, KernelReport, Variant
from kinspect.inspector.pipeline.analysis import analyze_code_object, analyze_text
from kinspect.inspector.pipeline.analysis_options import Context
from kinspect.inspector.present.kernel import spill_lines

# One worker: what the fixtures compile would else be compiled by each.
pytestmark = pytest.mark.xdist_group("facts_code")

DATA = Path(__file__).parent / "data"
MCA = shutil.which("llvm-mca-22")


def loaded(name: str, path: Path) -> ModuleType:
    pytest.importorskip("triton", minversion="3.9")
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


def compiled(kernel: str, arch: str, last: str = "amdgcn", **options: int) -> dict[str, Any]:
    """The stages of a kernel of `facts_kernels.py`; names in capitals are constexprs."""
    jobs = loaded("ttgir_kernels", DATA / "ttgir" / "kernels.py")
    kernels = loaded("facts_kernels", DATA / "facts_kernels.py")
    block = {name: options.pop(name) for name in list(options) if name.isupper()}
    pointer = "*fp32" if kernel == "running" else "*fp16"
    names = getattr(kernels, kernel).arg_names
    types = {n: pointer if n in ("a", "b", "c") else "i32" for n in names if n not in block}
    job = jobs.Job(getattr(kernels, kernel), types, block, {"num_warps": 4, **options})
    return dict(jobs.compile_stages(job, arch, last))


def report(texts: dict[str, Any], arch: str) -> KernelReport:
    context = Context("facts", arch, metadata={"num_warps": 4, "num_stages": 1})
    (found,) = analyze_text(texts["amdgcn"], context)
    return found


# ------------------------------------------------------------------ cycles and shares


def hot_loop(kernel: KernelReport, text: str) -> list[str]:
    """The instructions of the kernel's main loop, as they stand in the text."""
    lines = text.splitlines()
    loop = next(one for one in kernel.loops if one.id == kernel.main_loop)
    listed = [lines[n - 1] for first, last in loop.lines for n in range(first, last + 1)]
    code = [line.partition(";")[0].strip() for line in listed]
    return [line for line in code if line and line[0] != "." and not line.endswith(":")]


@pytest.mark.skipif(MCA is None, reason="llvm-mca-22 is not installed")
@pytest.mark.parametrize("kernel", ["gemm", "running"])
def test_vector_cycles_equal_llvm_mcas_passes(kernel: str, tmp_path: Path) -> None:
    """LLVM's schedule: a pass is 4 clocks; transcendentals and conversions take 4 passes."""
    block = {"B": 1024} if kernel == "running" else {"BM": 64, "BN": 64, "BK": 32}
    texts = compiled(kernel, "gfx942", **block, num_stages=1)
    found = report(texts, "gfx942")
    code = hot_loop(found, texts["amdgcn"])
    vector = [
        line for line in code if line.startswith("v_") and not line.startswith(("v_mfma", "v_nop"))
    ]
    assert vector
    path = tmp_path / "loop.s"
    path.write_text("\n".join(vector))
    command = [str(MCA), "-mtriple=amdgcn-amd-amdhsa", "-mcpu=gfx942", "--instruction-info"]
    out = subprocess.run([*command, str(path)], capture_output=True, text=True, check=True).stdout
    table = out.partition("Instructions:\n")[2].partition("\n\n")[0].splitlines()
    assert len(table) == len(vector)
    passes = 0
    for row in table:
        latency, name = int(row.split()[1]), row.split()[-1] and row.split("U")[-1]
        passes += 1 if "v_cvt" in name else max(latency, 1)
    loop = next(one for one in found.loops if one.id == found.main_loop)
    assert loop.metrics["cycles.valu"].value == 4 * passes


def test_transcendentals_take_four_times_as_long() -> None:
    text = (DATA / "small_gfx942.s").read_text()
    (before,) = analyze_text(text, Context("small", "gfx942"))
    added = "\tv_exp_f32_e32 v1, v2\n\tv_add_f32_e32 v1, v2, v3\n\ts_nop 3\n\tv_nop\n"
    added += "\tv_cvt_f16_f32_e32 v1, v2\n\tv_perm_b32 v1, v2, v3, v4\n"
    (after,) = analyze_text(
        text.replace("\ts_endpgm", added + "\ts_endpgm", 1), Context("small", "gfx942")
    )

    def grown(name: str) -> Any:
        old, new = before.metrics[name].value, after.metrics[name].value
        assert isinstance(old, int)
        assert isinstance(new, int)
        return new - old

    assert grown("cycles.valu") == 16 + 4 + 4 + 4
    assert grown("convert.instructions") == 1


@pytest.mark.parametrize(
    ("text", "slots"), [("s_nop 0", 1), ("s_nop 7", 8), ("s_nop 0xf", 16), ("v_nop", 1)]
)
def test_what_a_nop_lets_pass(text: str, slots: int) -> None:
    name, _, operands = text.partition(" ")
    assert idle_slots(Instruction(0, 1, name, operands, "", lookup(name), "nop")) == slots


@pytest.mark.parametrize("nonkdim", [16, 32])
def test_shape_of_the_matrix_instructions(nonkdim: int) -> None:
    texts = compiled(
        "gemm", "gfx942", BM=64, BN=64, BK=32, num_stages=1, matrix_instr_nonkdim=nonkdim
    )
    found = report(texts, "gfx942")
    assert found.metrics["matrix.nonkdim"].value == nonkdim
    loop = next(one for one in found.loops if one.id == found.main_loop)
    code = hot_loop(found, texts["amdgcn"])
    share = sum(line.startswith("v_mfma") for line in code) / len(code)
    assert loop.metrics["matrix.share"].value == round(share, 4)


# ------------------------------------------------------------------ loops


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_the_remainder_of_an_unrolled_loop(arch: str) -> None:
    texts = compiled("running", arch, B=1024)
    found = report(texts, arch)
    loads = {loop.id: loop.metrics["count.global_load"].value for loop in found.loops}
    rest = [loop for loop in found.loops if loop.metrics["loop.remainder"].value]
    assert len(loads) == 2
    assert [loop.id for loop in rest] == [min(loads, key=lambda i: int(str(loads[i])))]
    assert max(int(str(n)) for n in loads.values()) >= 2 * min(int(str(n)) for n in loads.values())


def test_a_loop_that_is_not_unrolled_has_no_remainder() -> None:
    found = report(compiled("gemm", "gfx942", BM=64, BN=64, BK=64, num_stages=2), "gfx942")
    assert [loop.metrics["loop.remainder"].value for loop in found.loops] == [False]


@pytest.mark.parametrize(("arch", "kernel"), [("gfx942", "gemm"), ("gfx1100", "running")])
def test_code_bytes_of_loops_against_the_code_object(arch: str, kernel: str) -> None:
    block = {"B": 1024} if kernel == "running" else {"BM": 64, "BN": 64, "BK": 64}
    texts = compiled(kernel, arch, **block)
    estimated = report(texts, arch)
    (exact,) = analyze_code_object(binary(texts["amdgcn"], arch), Context("facts", arch))
    assert len(estimated.loops) == len(exact.loops) > 0
    for one, other in zip(estimated.loops, exact.loops, strict=True):
        guess, truth = (loop.metrics["loop.code_bytes"] for loop in (one, other))
        assert (guess.origin, truth.origin) == ("estimated", "derived")
        assert isinstance(truth.value, int)
        assert isinstance(guess.value, int)
        assert abs(guess.value - truth.value) <= 0.005 * truth.value


def binary(assembly: str, arch: str) -> bytes:
    """The code object of an assembly, by Triton's own assembler."""
    from triton.backends.amd import compiler

    return bytes(compiler.assemble_amdgcn(assembly, arch, ""))


# ------------------------------------------------------------------ spills

SPILLING = [
    ("gfx942", 256),
    ("gfx1201", 256),
    pytest.param(("gfx908", 256), marks=pytest.mark.slow),
    pytest.param(("gfx1100", 256), marks=pytest.mark.slow),
]
BYTES = re.compile(r"(\d+)-byte Folded (Spill|Reload)")


@pytest.fixture(scope="module", params=SPILLING, ids=lambda pair: pair[0])
def spilled(request: pytest.FixtureRequest) -> tuple[KernelReport, str]:
    arch, size = request.param
    texts = compiled("gemm", arch, BM=size, BN=size, BK=32, num_stages=1)
    return report(texts, arch), texts["amdgcn"]


def test_spill_slots_hold_what_llvm_says_it_spilled(spilled: tuple[KernelReport, str]) -> None:
    kernel, text = spilled
    said = {"Spill": 0, "Reload": 0}
    for size, what in BYTES.findall(text):
        said[what] += int(size)
    bits = {op.line: op.bits for op in kernel.memory_ops}
    assert said["Spill"] > 0

    def moved(lines: list[int]) -> int:
        assert len(lines) == len(set(lines))
        return sum((bits[line] or 0) // 8 for line in lines)

    assert moved([line for slot in kernel.spills for line in slot.stores]) == said["Spill"]
    assert moved([line for slot in kernel.spills for line in slot.reloads]) == said["Reload"]
    # They lie in the scratch memory that LLVM asks for; a place may hold one value after another.
    scratch = kernel.metrics["scratch_bytes"].value
    assert isinstance(scratch, int)
    placed = [(s.offset, s.size) for s in kernel.spills if s.offset is not None]
    assert len({byte for at, size in placed for byte in range(at, at + size)}) <= scratch
    assert max(at + size for at, size in placed) <= scratch


def test_loops_of_spill_slots(spilled: tuple[KernelReport, str]) -> None:
    kernel, _ = spilled
    loops = {op.line: op.loop for op in kernel.memory_ops}
    hot = {loop.id for loop in kernel.loops if loop.hot}
    for slot in kernel.spills:
        touched = {loops[line] for line in (*slot.stores, *slot.reloads)} - {None}
        assert set(slot.loops) == touched
    busy = [slot for slot in kernel.spills if not hot.isdisjoint(slot.loops)]
    # A place that holds one value after another is a slot for each of them.
    hot_places, places = (
        kernel.metrics["spills.hot_slots"].value,
        kernel.metrics["spills.slots"].value,
    )
    assert isinstance(hot_places, int)
    assert isinstance(places, int)
    assert bool(hot_places) == bool(busy)
    assert hot_places <= len(busy)
    assert hot_places <= places <= len(kernel.spills)
    assert list(kernel.spills[: len(busy)]) == busy
    lines = spill_lines(kernel)
    assert bool(lines) == bool(busy)
    if busy:
        first = busy[0]
        title = f"Spills in hot loops: {hot_places} slot{'s' * (hot_places > 1)}"
        in_turn = f" for {len(busy)} values in turn" if len(busy) > hot_places else ""
        assert lines[0] == title + in_turn
        assert re.search(r"facts_kernels\.py:\d+ .*\d+ (reload|store)s? in L\d", lines[1])
        assert f"slot {first.offset} ({first.size} B): " in lines[2]
        assert re.search(r"(stored|reloaded) ISA \d+.* \(facts_kernels\.py:\d+\)", lines[2])


def test_a_kernel_without_spills_has_no_slots() -> None:
    found = report(compiled("gemm", "gfx942", BM=64, BN=64, BK=32), "gfx942")
    assert found.spills == ()
    assert found.metrics["spills.hot_slots"].value == 0
    assert spill_lines(found) == []


def test_a_register_may_say_where_a_slot_is() -> None:
    text = (DATA / "small_gfx942.s").read_text()
    added = (
        "\tscratch_store_dwordx4 off, v[0:3], off offset:16 ; 16-byte Folded Spill\n"
        "\tscratch_load_dwordx2 v[4:5], off, off offset:24 ; 8-byte Folded Reload\n"
        "\tscratch_load_dword v4, off, off offset:32 ; 4-byte Folded Reload\n"
        "\tscratch_store_dword off, v1, s33 offset:16 ; 4-byte Folded Spill\n"
    )
    (found,) = analyze_text(
        text.replace("\ts_endpgm", added + "\ts_endpgm", 1), Context("small", "gfx942")
    )
    slots = {(slot.offset, slot.size, len(slot.stores), len(slot.reloads)) for slot in found.spills}
    assert slots == {(16, 16, 1, 1), (32, 4, 0, 1), (None, 4, 1, 0), (4, 4, 1, 1)}  # the file's own


# ------------------------------------------------------------------ launch and options


def test_options_grid_and_knobs() -> None:
    texts = compiled("gemm", "gfx942", BM=64, BN=64, BK=32)
    variant = Variant(
        kernel="gemm",
        arch="gfx942",
        wave_size=64,
        ttir=texts["ttir"],
        options={"num_warps": 4, "num_stages": 2},
        constexprs={"BLOCK_M": 64, "BLOCK_N": 64, "CAUSAL": True, "DTYPE": "fp16", "EVEN": 1},
        grid=(19, 16, 2),
    )
    metadata = {"num_warps": 4, "num_stages": 2, "waves_per_eu": 0, "kpack": 1}
    context = Context("facts", "gfx942", metadata=metadata, variant=variant)
    (found,) = analyze_text(texts["amdgcn"], context)
    value = {name: metric.value for name, metric in found.metrics.items()}
    assert (value["grid.workgroups"], value["gpu.cus"], value["grid.per_cu"]) == (608, 304, 2)
    assert value["icache_bytes"] == 64 * 1024
    assert (value["option.num_stages"], value["option.kpack"]) == (2, 1)
    assert value["option.matrix_instr_nonkdim"] is None
    assert value["knobs"] == (
        "BLOCK_M=64 BLOCK_N=64 EVEN=1 num_warps=4 num_stages=2 waves_per_eu=0"
    )
    (bare,) = analyze_text(texts["amdgcn"], Context("facts", "gfx942"))
    for name in ("grid.workgroups", "grid.per_cu", "option.num_warps", "knobs"):
        assert bare.metrics[name].value is None
