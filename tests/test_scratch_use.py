"""Scratch memory: spilled registers told from private arrays, and who says what of each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.mnemonics import access_bits
from kinspect.inspector.model import KernelReport, MetricValue, Program
from kinspect.inspector.pipeline.analysis import analyze_text, recommended_pack
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions, Context

ISA = Path(__file__).parent / "data" / "isa"
FIXTURES = Path(__file__).parent.parent / "rules" / "fixtures"
ARRAYS = (FIXTURES / "hip_arrays_gfx942.s").read_text("utf-8")
COUNTS = ("spills.reloads", "spills.stores", "private_arrays.loads", "private_arrays.stores")


def reports(text: str) -> dict[str, KernelReport]:
    context = Context("k.s", analysis=AnalysisOptions(rules=recommended_pack()))
    return {kernel.name: kernel for kernel in analyze_text(text, context)}


def in_hot_loop(kernel: KernelReport, *names: str) -> tuple[MetricValue, ...]:
    (loop,) = (loop for loop in kernel.loops if loop.hot)
    return tuple(loop.metrics[name].value for name in names)


def test_an_array_that_data_indexes_is_no_spill() -> None:
    """What clang 22 makes of `bins[in[i] & 63] += 1`: scratch, and no register spilled."""
    kernel = reports(ARRAYS)["counts_by_value"]
    assert kernel.metrics["vgpr_spill_count"].value == 0
    assert in_hot_loop(kernel, "count.scratch_load", "count.scratch_store") == (1, 1)
    assert in_hot_loop(kernel, *COUNTS) == (0, 0, 1, 1)
    assert in_hot_loop(kernel, "private_arrays.indexed") == (2,)
    (finding,) = (finding for finding in kernel.findings if finding.rule == "KI039")
    assert "KI001" not in {finding.rule for finding in kernel.findings}
    assert "private array" in finding.message
    assert "LDS" in finding.fix
    assert "tile" not in finding.fix
    # It points at the accesses themselves.
    assert [at.text for at in finding.locations][:2] == [
        "scratch_load_dword",
        "scratch_store_dword",
    ]
    told = reports(ARRAYS)["counts_in_lds"].findings
    assert {finding.rule for finding in told} <= {"KI130"}  # of LDS alone


def test_marked_accesses_are_spills_and_the_others_beside_them_are_not() -> None:
    assert "Folded" not in ARRAYS
    load = next(line for line in ARRAYS.splitlines() if "scratch_load" in line)
    spilling = "\tscratch_load_dword v9, off, off offset:4 ; 4-byte Folded Reload"
    text = ARRAYS.replace(load, f"{load}\n{spilling}", 1)
    kernel = reports(text)["counts_by_value"]
    assert in_hot_loop(kernel, *COUNTS) == (1, 0, 1, 1)
    assert len(kernel.spills) == 1


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        # Without marks, with spills somewhere: a fixed place may be either, and counts as one.
        ("scratch_load_dword v9, off, off offset:4", (1, 0, 1, 1)),
        ("scratch_load_dword v9, off, s33 offset:4", (1, 0, 1, 1)),
        # A lane's own address is an index.
        ("scratch_load_dword v9, v3, off", (0, 0, 2, 1)),
        ("scratch_load_dword v9, v3, s2 offset:4", (0, 0, 2, 1)),
    ],
)
def test_without_marks_the_address_decides(access: str, expected: tuple[int, ...]) -> None:
    load = next(line for line in ARRAYS.splitlines() if "scratch_load" in line)
    text = ARRAYS.replace(load, f"{load}\n\t{access}", 1)
    text = text.replace(".vgpr_spill_count: 0", ".vgpr_spill_count: 3")
    found = in_hot_loop(reports(text)["counts_by_value"], *COUNTS)
    assert found == expected


def test_where_nothing_is_known_no_array_is_claimed() -> None:
    """A text without metadata and marks: scratch at fixed places may be spills."""
    kernel = reports(
        "\n".join(
            (
                '\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"',
                "k:",
                ".L1:",
                "\tscratch_load_dword v1, off, off offset:16",
                "\ts_waitcnt vmcnt(0)",
                "\tv_add_u32_e32 v1, 1, v1",
                "\tscratch_store_dword off, v1, off offset:16",
                "\ts_cbranch_scc1 .L1",
                "\ts_endpgm",
            )
        )
    )["k"]
    assert in_hot_loop(kernel, *COUNTS) == (1, 1, 0, 0)


CLAUSE = """
	.amdgcn_target "amdgcn-amd-amdhsa--gfx1100"
	.globl	f
	.type	f,@function
f:
	scratch_store_b32 off, v1, off offset:16 ; 4-byte Folded Spill
	scratch_store_b32 off, v8, off offset:64
	s_clause 0x3
	scratch_load_b64 v[2:3], off, off offset:12
	scratch_load_b32 v4, off, off offset:24
	scratch_load_b32 v5, off, off offset:64
	scratch_load_b32 v6, v7, off offset:16
	s_endpgm
.Lend:
	.size	f, .Lend-f
"""


def test_what_lost_its_mark_in_a_clause_is_told_by_its_place() -> None:
    """LLVM 20 marks no access of a clause: in a kernel of Triton 3.5.1 121 of 151 were seen."""
    (kernel,) = reports(CLAUSE).values()
    found = tuple(kernel.metrics[name].value for name in COUNTS)
    # Beside a marked place, and at a place that nothing else tells of; the store at 64 would
    # have been marked, so the load from there is no reload.
    assert found == (2, 1, 2, 1)
    marked = CLAUSE.replace("s_clause 0x3", "s_clause 0x3 ; 4-byte Folded Reload")
    (kernel,) = reports(marked).values()
    assert kernel.metrics["spills.reloads"].value == 4


def classes(program: Program, function: str) -> dict[str, int]:
    """Bytes per lane of each class of access to memory."""
    (found,) = (f for f in program.functions if f.name == function)
    counts: Counter[str] = Counter()
    for inst in found.instructions:
        if inst.cls.startswith(("scratch_", "global_")):
            counts[inst.cls] += (access_bits(inst.op, inst.operands) or 0) // 8
    return dict(counts)


@pytest.mark.parametrize("function", ["pick", "indexed", "passed"])
@pytest.mark.parametrize("llvm", ["llvm14", "llvm22"])
def test_a_stack_behind_a_buffer_resource_is_scratch(llvm: str, function: str) -> None:
    """The same code, made for scratch instructions, says what is which."""
    flat = classes(parse_text((ISA / "stackflat.llvm22.gfx90a.s").read_text(), "k.s"), function)
    assert any(cls.startswith("scratch_") for cls in flat)
    text = (ISA / f"stack.{llvm}.gfx90a.s").read_text()
    assert "scratch_load" not in text
    assert classes(parse_text(text, "k.s"), function) == flat


STACK = (ISA / "stack.llvm22.gfx90a.s").read_text()
LOW, HIGH = "\ts_add_u32 s0, s0, s17\n", "\ts_addc_u32 s1, s1, 0\n"
OFFSET = LOW + HIGH
COPIED = """\ts_mov_b64 s[22:23], s[2:3]
\ts_mov_b64 s[20:21], s[0:1]
\ts_add_u32 s20, s20, s17
\ts_addc_u32 s21, s21, 0
"""


@pytest.mark.parametrize(
    ("head", "resource", "scratch"),
    [
        (OFFSET, "s[0:3]", 8),
        (COPIED, "s[20:23]", 8),  # as LLVM 9 moved it
        (COPIED, "s[0:3]", 8),
        (COPIED, "s[24:27]", 0),
        # Another resource: the kernel has no use for the one that it was given.
        (OFFSET + "\ts_load_dwordx4 s[0:3], s[4:5], 0x0\n", "s[0:3]", 0),
        (OFFSET + "\ts_mov_b64 s[0:1], s[18:19]\n", "s[0:3]", 0),
        (COPIED + "\ts_mov_b32 s22, -1\n", "s[20:23]", 0),
        (COPIED + "\ts_mov_b64 s[20:21], s[18:19]\n", "s[20:23]", 0),
    ],
)
def test_the_resource_is_followed_to_where_it_is_used(
    head: str, resource: str, scratch: int
) -> None:
    before, after = STACK.split(LOW, 1)
    assert HIGH in after
    body, end, rest = after.replace(HIGH, "", 1).partition("s_endpgm")
    text = before + head + body.replace("s[0:3]", resource) + end + rest
    program = parse_text(text, "k.s")
    found = classes(program, "indexed")
    assert found.get("scratch_load", 0) + found.get("scratch_store", 0) == scratch
    assert sum(found.values()) == 16


def test_without_that_resource_the_registers_hold_something_else() -> None:
    text = STACK.replace("_private_segment_buffer 1", "_private_segment_buffer 0")
    assert "scratch_load" not in classes(parse_text(text, "k.s"), "indexed")
