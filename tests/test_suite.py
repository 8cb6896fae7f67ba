"""Every bundled kernel for five targets, each figure held against a source that is not kinspect.

Witnesses: the code object's note and kernel descriptor, LLVM's `; Occupancy:` comment, Triton's
metadata, networkx over llvm-objdump's branch targets, and llvm-mca on the loop's own lines.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from kept_compiles import collect_kept
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.objects.codeobject import read_code_object
from kinspect.inspector.isa.objects.crosscheck import compare
from kinspect.inspector.metrics.subject import MATRIX_CLASSES
from kinspect.inspector.model import KernelReport, LoopReport, Report, int_of, number_of
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.ttgir.layouts import type_to_linear
from kinspect.inspector.ttgir.parser import parse_ttgir
from objdump_reference import OBJDUMP, check_against_objdump

ROOT = Path(__file__).parent.parent
ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
LLVM_MCA = shutil.which("llvm-mca-22")

pytestmark = pytest.mark.xdist_group(name="suite")


EVERY_TIME = ("flash_attn", "gemm_all_types", "softmax", "vector_add")
"""Kernel files of every run; all files are a slow run of the same tests."""


@pytest.fixture(scope="session", params=["some", pytest.param("all", marks=pytest.mark.slow)])
def files(request: pytest.FixtureRequest) -> tuple[str, ...]:
    if request.param == "some":
        return EVERY_TIME
    return tuple(sorted({p.stem for p in (ROOT / "kernels").glob("*.py")} - {"__init__"}))


@pytest.fixture(scope="session")
def archs(files: tuple[str, ...]) -> tuple[str, ...]:
    """Without gfx1100 in every run: of the RDNA targets gfx1201 stands for it."""
    return tuple(arch for arch in ARCHS if files != EVERY_TIME or arch != "gfx1100")


@pytest.fixture(scope="session")
def suite(files: tuple[str, ...], archs: tuple[str, ...]) -> Report:
    pytest.importorskip("triton")
    targets = tuple(str(ROOT / "kernels" / f"{name}.py") for name in files)
    return collect_kept(Request(targets, archs=archs, jobs=2, passes=False))


@cache
def artifact(path: Path) -> bytes:
    return path.read_bytes()


def text_of(kernel: KernelReport) -> str:
    return artifact(kernel.artifacts["amdgcn"].path).decode()


def label(kernel: KernelReport) -> str:
    assert kernel.variant is not None
    return f"{kernel.name}[{kernel.variant.case}] {kernel.arch}"


def test_every_kernel_is_reported_for_every_target(
    suite: Report, files: tuple[str, ...], archs: tuple[str, ...]
) -> None:
    assert not suite.errors
    seen = {(Path(k.id.partition("::")[0]).stem, k.arch) for k in suite.kernels}
    assert seen == {(file, arch) for file in files for arch in archs}
    assert len(suite.kernels) >= 60
    assert len({k.id for k in suite.kernels}) == len(suite.kernels)


def test_text_equals_note_and_descriptor(suite: Report) -> None:
    for kernel in suite.kernels:
        binary = read_code_object(artifact(kernel.artifacts["hsaco"].path), "k.hsaco")
        (stated,) = binary.kernels.values()
        (function,) = parse_text(text_of(kernel), "k.s").kernels
        read = function.resources
        assert compare(read, stated) == (), label(kernel)
        metrics = {name: m.value for name, m in kernel.metrics.items()}
        for name in ("vgpr_count", "sgpr_count", "vgpr_spill_count", "sgpr_spill_count"):
            assert metrics[name] == getattr(stated, name) is not None, (label(kernel), name)
        assert metrics["scratch_bytes"] == stated.scratch_bytes, label(kernel)
        assert metrics["wave_size"] == stated.wave_size
        assert metrics["workgroup_size"] == stated.max_workgroup_size
        assert metrics["code_bytes"] == read.code_bytes
        if stated.agpr_count is not None:
            assert metrics["agpr_count"] == stated.agpr_count, label(kernel)
        # The descriptor holds granulated registers: an upper bound within one granule.
        assert read.next_free_vgpr is not None
        assert stated.vgprs_allocated is not None
        assert 0 <= stated.vgprs_allocated - read.next_free_vgpr < 24, label(kernel)
        assert metrics["vgpr_allocated"] >= stated.vgprs_allocated


def test_compiler_occupancy_is_llvms_comment(suite: Report) -> None:
    for kernel in suite.kernels:
        (printed,) = re.findall(r"^; Occupancy: (\d+)", text_of(kernel), re.M)
        metric = kernel.metrics["occupancy.compiler"]
        assert (metric.value, metric.origin) == (int(printed), "compiler"), label(kernel)


def test_our_model_of_llvm_gives_the_comment_too(suite: Report) -> None:
    """Worked out from the registers as if there were no comment."""
    from kinspect.inspector import machines
    from kinspect.inspector.metrics.demand import demand
    from kinspect.inspector.metrics.occupancy import occupancy
    from kinspect.inspector.metrics.subject import Facts, KernelCode
    from msgspec.structs import replace

    for kernel in suite.kernels:
        (function,) = parse_text(text_of(kernel), "k.s").kernels
        machine = machines.load(kernel.arch or "")
        asked = demand(KernelCode(function, machine, Facts(lds_bytes=0, llvm="triton")))
        assert occupancy(machine, replace(asked, compiler_lds=0)).compiler == int(
            str(kernel.metrics["occupancy.compiler"].value)
        ), label(kernel)


def test_lds_is_tritons(suite: Report) -> None:
    for kernel in suite.kernels:
        metadata = json.loads(artifact(kernel.artifacts["metadata"].path))
        assert kernel.metrics["lds_bytes"].value == metadata["shared"], label(kernel)
        assert kernel.metrics["waves_per_workgroup"].value == metadata["num_warps"]


def test_the_attention_pair(suite: Report) -> None:
    """The published tuning (D=256, causal): spills inside the hot loop before, none that matter
    after."""
    pair = {
        k.variant.case: k
        for k in suite.kernels
        if k.arch == "gfx942" and k.variant and str(k.variant.case).startswith("d256_causal")
    }
    before, after = pair["d256_causal_128x64"], pair["d256_causal_64x32_preload_v"]
    assert hot_scratch(before) > 50
    assert any(f.rule == "KI038" and "spill" in f.message for f in before.findings)
    assert hot_scratch(after) <= 2
    assert not any(f.severity == "error" for f in after.findings)
    assert before.metrics["lds_bytes"].value == 65536
    assert after.metrics["lds_bytes"].value == 32768


def hot_scratch(kernel: KernelReport) -> int:
    return sum(
        int(str(loop.metrics[f"count.{name}"].value))
        for loop in kernel.loops
        if loop.hot
        for name in ("scratch_load", "scratch_store")
    )


@pytest.mark.skipif(OBJDUMP is None, reason="llvm-objdump-22 is not installed")
def test_loops_equal_networkx_over_objdumps_branches(suite: Report, tmp_path: Path) -> None:
    """Every compiled kernel: mnemonics, blocks and loops, on at least 30 of them."""
    loops = 0
    for kernel in suite.kernels:
        code = artifact(kernel.artifacts["hsaco"].path)
        program = check_against_objdump(text_of(kernel), code, tmp_path)
        loops += len(program.kernels[0].loops)
        assert len(kernel.loops) == len(program.kernels[0].loops)
    assert len(suite.kernels) >= 30
    assert loops >= 60


# --------------------------------------------------------------------------- matrix instructions


@pytest.mark.skipif(LLVM_MCA is None, reason="llvm-mca-22 is not installed")
def test_matrix_instructions_per_loop_equal_llvm_mca(suite: Report, files: tuple[str, ...]) -> None:
    """llvm-mca reads the loop's own lines: the same count, and its throughput x 4 the cycles.

    The matrix unit's bound is that times the waves of a SIMD.
    """
    checked = bounded = 0
    for kernel in suite.kernels:
        for loop, lines in loops_with_matrix(kernel):
            ours = sum(int(str(loop.metrics[f"count.{c}"].value)) for c in MATRIX_CLASSES)
            count, cycles = mca(kernel.arch or "", lines)
            assert ours == count, (label(kernel), loop.id)
            # One pass of the scheduling model is four clocks on CDNA. It knows no operand formats:
            # f8f6f4 with 8-bit operands takes twice what it says (CDNA4 ISA).
            blind = any("f8f6f4" in line for line in lines)
            if str(kernel.arch).startswith("gfx9") and not blind:
                assert loop.metrics["cycles.mfma"].value == cycles * 4, (label(kernel), loop.id)
                waves = number_of(loop.metrics, "bound.waves")
                if waves is not None:  # a hot loop whose occupancy is known
                    assert number_of(loop.metrics, "bound.matrix") == cycles * 4 * waves
                    bounded += 1
            checked += 1
    assert checked >= 30
    assert bounded >= 60


def loops_with_matrix(kernel: KernelReport) -> Iterator[tuple[LoopReport, list[str]]]:
    """Innermost loops with matrix instructions, and the text of their lines."""
    text = text_of(kernel).splitlines()
    parents = {loop.parent for loop in kernel.loops}
    for loop in kernel.loops:
        if loop.id not in parents and any(loop.metrics[f"count.{c}"].value for c in MATRIX_CLASSES):
            yield loop, [text[n - 1] for first, last in loop.lines for n in range(first, last + 1)]


def mca(arch: str, lines: list[str]) -> tuple[int, int]:
    """Matrix instructions that llvm-mca sees in the lines, and the sum of their throughputs."""
    assert LLVM_MCA is not None
    # Debug directives refer to files named outside of the loop.
    code = "\n".join(x for x in lines if not re.match(r"\s*\.(loc|file|cfi)", x))
    done = subprocess.run(
        [LLVM_MCA, "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-instruction-info",
         # Tables alone: its pipeline hangs on some code (v_permlane32_swap before an MFMA, 22.1).
         "-instruction-tables=normal", "-resource-pressure=false", "-summary-view=false",
         "-skip-unsupported-instructions=any"],
        input=code, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    rows = re.findall(
        r"^\s*\d+\s+\d+\s+([\d.]+)\s.*\bv_(?:mfma|smfmac|wmma|swmmac)", done.stdout, re.M
    )
    return len(rows), round(sum(float(throughput) for throughput in rows))


def test_layouts_put_lanes_where_the_code_s_addresses_do(suite: Report) -> None:
    """Two derivations: of the TTGIR's layouts and pointers, and of the machine code alone."""
    counts: Counter[tuple[str, str | None]] = Counter()
    for kernel in suite.kernels:
        for access in kernel.accesses:
            assert access.lanes != "differ", (label(kernel), access)
            if access.lines:
                counts[access.cls, access.lanes] += 1
    agreed = sum(count for (_, lanes), count in counts.items() if lanes == "agree")
    assert agreed >= 0.8 * counts.total(), counts
    for cls in ("lds_read", "lds_write", "global_load", "global_store", "lds_direct"):
        assert counts[cls, "agree"] > 20, counts


def test_accumulators_take_the_registers_of_their_layout(suite: Report) -> None:
    """Named by the code at the fullest instruction, counted by the layout of the dot's result."""
    compared = exact = 0
    for kernel in suite.kernels:
        peak = kernel.live_peak
        assert peak is not None, label(kernel)
        held = sum(value.vgprs + value.agprs for value in peak.values)
        assert held == peak.vgprs + peak.agprs
        module = parse_ttgir(artifact(kernel.artifacts["ttgir"].path).decode(), "k.ttgir")
        registers: dict[str, set[int]] = {}
        for op in module.ops:
            if op.name == "tt.dot" and (linear := type_to_linear(op.result_types[0])) is not None:
                shaped = op.result_types[0]
                key = "x".join((*map(str, shaped.shape), shaped.element))
                registers.setdefault(key, set()).add(2 ** len(linear.register))
        for value in peak.values:
            if value.kind == "accumulator" and value.type in registers and peak.loop is not None:
                compared += 1
                total = value.vgprs + value.agprs + value.scratch
                exact += total in registers[value.type]
                # Of a result that is being used up, or made, a part is live.
                assert total <= max(registers[value.type]), (label(kernel), value)
    assert compared >= 60
    assert exact >= 0.9 * compared, (exact, compared)


def test_no_kernel_needs_more_registers_than_it_has(suite: Report) -> None:
    """An allocation of fewer than are live at some instruction would lose a value."""
    tightest = 0.0
    for kernel in suite.kernels:
        live, agprs = (int_of(kernel.metrics, f"live.{name}") for name in ("vgprs", "agprs"))
        has, has_agprs = (int_of(kernel.metrics, f"{n}_count") for n in ("arch_vgpr", "agpr"))
        assert live is not None, label(kernel)
        assert agprs is not None, label(kernel)
        assert has is not None, label(kernel)
        assert live <= has, (label(kernel), live, has)
        assert agprs <= (has_agprs or 0), (label(kernel), agprs, has_agprs)
        sgprs, has_sgprs = (int_of(kernel.metrics, n) for n in ("live.sgprs", "sgpr_count"))
        assert sgprs is not None, label(kernel)
        assert sgprs <= (has_sgprs or 0), (label(kernel), sgprs, has_sgprs)
        tightest = max(tightest, live / has)
    assert tightest > 0.98


def _assert_stores_reach_reloads(kernel: KernelReport) -> None:
    """A store reaches reloads behind it, and those before it only around a loop."""
    loops = {op.line: op.loop for op in kernel.memory_ops}
    for slot in kernel.spills:
        for reload in slot.reloads:
            assert any(
                store < reload or (loops[store] is not None and loops[store] == loops[reload])
                for store in slot.stores
            )
        assert len(slot.stores) == 1 or len(slot.reloads) > 0


def test_values_of_a_kernel_that_spills_are_named(suite: Report) -> None:
    """As named by hand, and by a program that was fitted to it (head size 256, causal)."""
    kernel = next(
        k
        for k in suite.kernels
        if k.variant and k.variant.case == "d256_causal_128x64" and k.arch == "gfx942"
    )
    assert kernel.live_peak is not None
    named = {
        (value.name, value.kind): (value.vgprs, value.scratch)
        for value in kernel.live_peak.values
        if value.kind != "address"
    }
    assert named["acc", "accumulator"] == (96, 32)
    assert named["qk", "accumulator"] == (32, 0)
    assert named["q", "operand"] == (40, 60)
    registers, parked = named["k", "operand"]
    assert 54 <= registers <= 56  # of 56
    assert parked == 0
    addresses = [value for value in kernel.live_peak.values if value.kind == "address"]
    assert {value.name for value in addresses} >= {"k", "v"}
    assert sum(value.vgprs for value in addresses) == 14  # of 15
    spilled = kernel.spilled_values
    assert sum(value.hot_reloads for value in spilled if value.kind == "address") > 90
    slots = {line for slot in kernel.spills for line in (*slot.stores, *slot.reloads)}
    # An instruction that moves parts of several values counts for each of them.
    assert len(slots) <= sum(value.stores + value.reloads for value in spilled)
    scratch = number_of(kernel.metrics, "scratch_bytes")
    assert scratch is not None
    placed = [(slot.offset, slot.size) for slot in kernel.spills]
    assert all(at is not None and at + size <= scratch for at, size in placed)
    _assert_stores_reach_reloads(kernel)
    # As in the assembly, read by hand: LLVM uses the places of L0 for other values in L1.
    of_lines = {line: slot for slot in kernel.spills for line in (*slot.stores, *slot.reloads)}
    for reload, store, name in ((757, 473, "k"), (796, 476, "k"), (786, 521, "k"), (833, 493, "v")):
        slot = of_lines[reload]
        assert (slot.stores, slot.reloads, slot.loops) == ((store,), (reload,), ("L0",))
        assert slot.value is not None
        assert (slot.value.name, slot.value.kind) == (name, "address")
        assert slot.value.source is not None
        assert slot.value.source.line == 64
    shared = [slot for slot in kernel.spills if slot.offset == of_lines[786].offset]
    assert {slot.loops for slot in shared} == {("L0",), ("L1",)}
