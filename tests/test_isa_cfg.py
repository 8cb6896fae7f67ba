"""Control flow against independent sources: llvm-objdump's branch targets and networkx."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.graph.cfg import dominators
from kinspect.inspector.isa.graph.loops import MAX_DEPTH, dominator_tree, natural_loops
from kinspect.inspector.model import Function
from objdump_reference import (
    MC,
    OBJDUMP,
    assemble,
    check_against_objdump,
    disassemble,
)

DATA = Path(__file__).parent / "data" / "isa"
TRITON = sorted(p.name.removesuffix(".amdgcn") for p in DATA.glob("*.amdgcn"))
MCA = shutil.which("llvm-mca-22")
needs_objdump = pytest.mark.skipif(OBJDUMP is None, reason="llvm-objdump-22 is not installed")
needs_mc = pytest.mark.skipif(
    MC is None or OBJDUMP is None, reason="llvm-mc-22 or llvm-objdump-22 is not installed"
)


# --------------------------------------------------------------------------- real compiles


@needs_objdump
@pytest.mark.parametrize("stem", TRITON)
def test_triton_kernels_equal_their_disassembly(stem: str, tmp_path: Path) -> None:
    text = (DATA / f"{stem}.amdgcn").read_text()
    program = check_against_objdump(text, (DATA / f"{stem}.hsaco").read_bytes(), tmp_path)
    assert program.kernels[0].loops
    # A linked object holds distances in place of symbols, and LLVM 22 alone does not know all of
    # gfx1201's 16-bit instructions: neither may change what is called.
    listing = disassemble((DATA / f"{stem}.hsaco").read_bytes(), tmp_path / "again.o")
    relisted = parse_text(listing, "listing").kernels[0]
    assert relisted.calls == program.kernels[0].calls
    assert any("not decoded" in note for note in relisted.notes) == ("\t.long 0x" in listing)


@needs_mc
@pytest.mark.parametrize(
    ("file", "cpu"),
    [
        ("calls.llvm14.gfx906.s", "gfx906"),
        ("calls.llvm16.gfx90a.s", "gfx90a"),
        ("calls.llvm22.gfx90a.s", "gfx90a"),
        ("calls.llvm22.gfx1100.s", "gfx1100"),
        ("far.llvm22.gfx90a.s", "gfx90a"),
        ("far.llvm22.gfx1250.s", "gfx1250"),
        ("located.llvm14.gfx90a.s", "gfx90a"),
    ],
)
def test_llvm_output_equals_its_disassembly(file: str, cpu: str, tmp_path: Path) -> None:
    text = (DATA / file).read_text()
    check_against_objdump(text, assemble(text, cpu, tmp_path / "a.o"), tmp_path)


def test_long_branches_change_no_loop() -> None:
    """Branches too far for 16 bits go through registers; the loops are those of short branches."""
    near = parse_text((DATA / "calls.llvm22.gfx90a.s").read_text(), "near")
    far = parse_text((DATA / "far.llvm22.gfx90a.s").read_text(), "far")
    assert sum("setpc" in i.mnemonic for k in far.kernels for i in k.instructions) == 3
    for a, b in zip(near.functions, far.functions, strict=True):
        assert [(x.id, x.depth, x.parent) for x in a.loops] == [
            (x.id, x.depth, x.parent) for x in b.loops
        ]
        assert len(b.notes) == len(a.notes)


@pytest.mark.skipif(MCA is None, reason="llvm-mca-22 is not installed")
def test_mfma_of_the_loop_lines_as_llvm_mca_counts_them() -> None:
    """llvm-mca reads the very lines that `Loop.lines` names, and counts what a loop's blocks do."""
    assert MCA is not None
    text = (DATA / "attend.triton39.gfx90a.amdgcn").read_text()
    function = parse_text(text, "attend").kernels[0]
    inner = max(function.loops, key=lambda x: x.depth)
    lines = text.splitlines()
    region = "\n".join(
        line
        for first, last in inner.lines
        for line in lines[first - 1 : last]
        if not re.match(r"\s*\.(?:loc|file|cfi)", line)
    )
    out = subprocess.run(
        [MCA, "-mtriple=amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-iterations=1"],
        input=region,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    members = [
        i
        for b in inner.blocks
        for i in function.instructions[function.blocks[b].start : function.blocks[b].stop]
    ]
    assert re.search(rf"^Instructions:\s+{len(members)}$", out, re.MULTILINE)
    view = out.split("Instruction Info:")[1].split("Resources:")[0]
    assert view.count("v_mfma") == sum(i.cls == "mfma" for i in members) > 0


# --------------------------------------------------------------------------- made-up control flow

BRANCHES = ("s_cbranch_scc0", "s_cbranch_scc1", "s_cbranch_vccz", "s_cbranch_execnz")


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Assembly of a kernel with arbitrary branches, debug labels and dead code between."""
    count = draw(st.integers(2, 14))
    lines = ["k:"]
    for n in range(count):
        lines.append(f".LBB0_{n}:")
        lines += ["  v_mov_b32 v0, v1"] * draw(st.integers(0, 2))
        if draw(st.booleans()):
            lines += [f".Ltmp{n}:", "  .p2align 2", "  s_add_u32 s0, s1, s2 ; .LBB0_0:"]
        kind = draw(st.sampled_from(["next", "jump", "if", "if", "if", "end"]))
        target = draw(st.integers(0, count - 1))
        if kind == "jump":
            lines.append(f"  s_branch .LBB0_{target}")
        elif kind == "if":
            lines.append(f"  {draw(st.sampled_from(BRANCHES))} .LBB0_{target} // .LBB0_1")
        elif kind == "end":
            lines.append("  s_endpgm")
    return "\n".join([*lines, "  s_endpgm", ".Lfunc_end0:", ""])


@needs_mc
@settings(max_examples=25)
@given(programs())
def test_any_control_flow_equals_networkx(text: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        text = (
            '.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"\n.text\n.globl k\n.type k,@function\n'
            f"{text}.section .rodata\n.amdhsa_kernel k\n.amdhsa_next_free_vgpr 2\n"
            ".amdhsa_next_free_sgpr 8\n.amdhsa_accum_offset 4\n.end_amdhsa_kernel\n"
        )
        code = assemble(text, "gfx90a", Path(folder) / "a.o")
        program = check_against_objdump(text, code, Path(folder))
    function = program.functions[0]
    for loop in function.loops:
        assert loop.depth == 1 + sum(
            other is not loop and set(loop.blocks) < set(other.blocks) for other in function.loops
        )
    reachable = dominators(function)
    for block in function.blocks:
        for following in block.successors:
            assert block.index in function.blocks[following].predecessors
        if block.index and reachable.entered[block.index] >= 0:
            parent = reachable.parent[block.index]
            assert parent is not None
            assert reachable.dominates(parent, block.index)


@settings(max_examples=200)
@given(
    st.integers(1, 12).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(0, n - 1), max_size=3, unique=True), min_size=n, max_size=n
        )
    )
)
def test_dominators_equal_networkx(graph: list[list[int]]) -> None:
    tree = dominator_tree(graph)
    reference = nx.DiGraph()
    reference.add_node(0)
    reference.add_edges_from((i, t) for i, ts in enumerate(graph) for t in ts)
    expected = {**nx.immediate_dominators(reference, 0), 0: 0}
    for node in range(len(graph)):
        if node == 0 or node not in expected:
            assert tree.parent[node] is None
        else:
            assert tree.parent[node] == expected[node]


LARGE: dict[str, Callable[[int], list[list[int]]]] = {
    "a chain": lambda n: [[min(i + 1, n - 1)] for i in range(n)],
    "a loop per block": lambda n: [[i, min(i + 1, n - 1)] for i in range(n)],
    "every block back to the first": lambda n: [[min(i + 1, n - 1), 0] for i in range(n)],
    "loops in loops": lambda n: [
        [min(i + 1, n - 1), n - 1 - i] if i >= n // 2 else [i + 1] for i in range(n)
    ],
    "steps both ways": lambda n: [[min(i + 1, n - 1), max(i - 1, 0)] for i in range(n)],
    "a tangle": lambda n: [[min(i + 1, n - 1), (i * 7919) % n] for i in range(n)],
}


@pytest.mark.parametrize("name", LARGE)
def test_tens_of_thousands_of_blocks_are_no_problem(name: str) -> None:
    """Neither recursion nor quadratic growth: each of these takes about a second."""
    graph = LARGE[name](20_000)
    loops, left_out = natural_loops(graph, dominator_tree(graph))
    assert all(loop.depth <= MAX_DEPTH for loop in loops)
    assert (left_out > 0) == (name in ("loops in loops", "steps both ways"))


# --------------------------------------------------------------------------- single cases


def parse(body: str) -> Function:
    header = '.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"\n.amdhsa_kernel k\n.end_amdhsa_kernel\n'
    return parse_text(header + ".text\nk:\n" + body, "case").functions[0]


def loops_of(function: Function) -> list[tuple[str, str | None, int]]:
    return [(x.id, x.parent, x.depth) for x in function.loops]


def test_rotated_loop_entered_in_the_middle() -> None:
    f = parse(
        "s_branch .LBB0_2\n.LBB0_1:\nv_nop\n.LBB0_2:\ns_cmp_lt_u32 s0, s1\n"
        "s_cbranch_scc1 .LBB0_1\ns_endpgm\n"
    )
    (loop,) = f.loops
    assert f.blocks[loop.header].labels == (".LBB0_2",)
    assert set(loop.blocks) == {1, 2}
    assert loop.lines == ((8, 11),)


def test_a_called_function_does_not_end_a_block() -> None:
    f = parse(
        "s_swappc_b64 s[30:31], s[4:5]\nv_nop\ns_call_b64 s[30:31], callee\nv_nop\ns_endpgm\n"
    )
    assert len(f.blocks) == 1
    assert f.calls == ("callee",)
    assert any("line 6 goes to an unknown function" in note for note in f.notes)


def test_debug_labels_end_no_block_unless_branched_to() -> None:
    f = parse(
        ".Ltmp0:\nv_nop\n.Lfunc_begin0:\nv_nop\n.Ltmp1:\nv_nop\ns_cbranch_scc0 .Ltmp1\ns_endpgm\n"
    )
    assert [b.start for b in f.blocks] == [0, 2, 4]
    assert f.blocks[0].labels == ("k",)
    assert f.blocks[1].labels == (".Ltmp1",)


def test_subvector_loops_and_forks_branch() -> None:
    f = parse(
        "s_subvector_loop_begin s0, .LBB0_2\n.LBB0_1:\nv_nop\ns_subvector_loop_end s0, .LBB0_1\n"
        ".LBB0_2:\ns_cbranch_i_fork s[0:1], .LBB0_1\ns_endpgm\n"
    )
    assert f.blocks[0].successors == (1, 2)
    assert f.blocks[1].successors == (2, 1)
    assert f.blocks[2].successors == (3, 1)


def test_fatal_trap_ends_and_debug_trap_goes_on() -> None:
    f = parse("s_cbranch_scc0 .LBB0_1\ns_trap 2\n.LBB0_1:\ns_trap 3\ns_endpgm\n")
    assert [b.successors for b in f.blocks] == [(1, 2), (), ()]


def test_irreducible_flow_is_noted() -> None:
    f = parse(
        "s_cbranch_scc0 .LBB0_2\n.LBB0_1:\nv_nop\n.LBB0_2:\nv_nop\n"
        "s_cbranch_scc1 .LBB0_1\ns_endpgm\n"
    )
    (loop,) = f.loops
    assert loop.irreducible
    assert loop.blocks == (1, 2)  # entered at either
    assert loop.header == 1
    assert any("irreducible" in note for note in f.notes)


def test_unknown_jump_leaves_loops_in_sight() -> None:
    """Behind a jump through a register no loop is lost for want of an edge to it."""
    f = parse("s_setpc_b64 s[2:3]\n.LBB0_1:\nv_nop\ns_cbranch_scc1 .LBB0_1\ns_endpgm\n")
    assert loops_of(f) == [("L0", None, 1)]
    assert any("jump on line 6 is not known" in note for note in f.notes)


def test_tensile_long_branch() -> None:
    """Tensile adds a label's distance in a third register before it jumps."""
    f = parse(
        "label_loop:\nv_nop\ns_cbranch_scc0 label_out\ns_getpc_b64 s[4:5]\n"
        "s_add_i32 s6, label_loop, 4\ns_add_u32 s4, s4, s6\ns_addc_u32 s5, s5, 0\n"
        "s_setpc_b64 s[4:5]\nlabel_out:\ns_endpgm\n"
    )
    assert loops_of(f) == [("L0", None, 1)]
    assert not f.notes


def test_local_labels() -> None:
    f = parse(
        "1:\nv_nop\ns_cbranch_scc1 1b\ns_cbranch_scc0 1f\nv_nop\n1:\ns_cbranch_vccz 1b\ns_endpgm\n"
    )
    assert [f.blocks[x.header].start for x in f.loops] == [0, 4]


def test_padding_is_not_code() -> None:
    f = parse(
        "s_branch .LBB0_1\n"
        + "s_nop 0\n" * 9
        + ".LBB0_1:\ns_nop 0\ns_endpgm\n"
        + "s_code_end\n" * 9
    )
    assert [i.mnemonic for i in f.instructions] == ["s_branch", "s_nop", "s_endpgm"]
    assert [i.index for i in f.instructions] == [0, 1, 2]


def test_branch_out_of_the_function_is_a_tail_call() -> None:
    f = parse("s_cbranch_scc0 elsewhere\ns_endpgm\n")
    assert f.calls == ("elsewhere",)
    assert f.blocks[0].successors == (1,)


def test_end_of_text_without_end_of_program_is_noted() -> None:
    assert any("past the last instruction" in n for n in parse("v_nop\n").notes)


def test_bare_offset_is_noted() -> None:
    f = parse("s_branch 56\ns_endpgm\n")
    assert any("bare offset" in n for n in f.notes)
