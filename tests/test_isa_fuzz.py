"""Damaged assembly: whatever happens to a file, the parser answers or refuses, and soon."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.isa.asm import macros
from kinspect.inspector.isa.asm.debugloc import LocationTable
from kinspect.inspector.isa.asm.directives import read_metadata
from kinspect.inspector.isa.asm.expr import compile_expression
from kinspect.inspector.isa.asm.operands import SymbolTable
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.model import Function, Program

DATA = Path(__file__).parent / "data" / "isa"
# A megabyte takes a third of a second; these texts have 2 to 35 KB.
LIMIT_S = 10.0


def _listing() -> str:
    """A listing as llvm-objdump writes it, made without it: the fuzzing needs no tools."""
    rows = [
        "\nx.hsaco:\tfile format elf64-amdgpu\n\nDisassembly of section .text:\n",
        "0000000000001700 <k>:",
    ]
    program = parse_text((DATA / "calls.triton39.gfx942.amdgcn").read_text(), "x")
    address = 0x1700
    for instruction in program.kernels[0].instructions:
        operands = instruction.operands
        if operands.startswith(".LBB"):
            operands = str((len(operands) * 37 - address // 64) % 0x10000)
        text = f"{instruction.mnemonic} {operands}"
        rows.append(f"\t{text:<58} // {address:012X}: BF800000 <k+0x{address - 0x1700:x}>")
        address += 4
    return "\n".join(rows) + "\n"


TEXTS = {
    **{
        name: (DATA / name).read_text()
        for name in (
            "calls.triton39.gfx942.amdgcn",
            "calls.llvm14v2.gfx906.s",
            "far.llvm22.gfx90a.s",
            "located.llvm22.gfx90a.s",
            "handwritten.gfx90a.s",
        )
    },
    "listing": _listing(),
}

# Pieces that mean something to the parser, in places where they do not belong.
SNIPPETS = (
    ".macro M a, b\nM \\a, \\b\n.endm\nM 1, 2", ".rept 9\n.rept 9\n",
    ".endr", ".endm", ".endif", ".else", ".if 1", ".irp x, 1, 2, 3\nv\\x:", ".exitm",
    ".set a, b+1\n.set b, a+1", ".set x, " + "(" * 500 + "1", ".set x, " + "-" * 5000 + "1",
    ".set x, 1" + "9" * 6000, "s_branch 1" + "0" * 6000, ".loc 1 " + "7" * 5000,
    ".loc 1 5 2 ; @[ @[",
    '.file 99999999999 "x"', ".file 1 \"" + "\\" * 999, ".amdgpu_metadata", ".end_amdgpu_metadata",
    ".amdgpu_metadata\n" + "[" * 9000 + "\n.end_amdgpu_metadata",
    ".amdgpu_metadata\namdhsa.kernels:\n  - .name: [1]\n    .vgpr_count: -7\n    .args: 3\n"
    ".end_amdgpu_metadata",
    ".amdgpu_metadata\namdhsa.kernels: {1: 2}\namdhsa.version: [x]\n.end_amdgpu_metadata",
    ".amdhsa_kernel k", ".amdhsa_next_free_vgpr max(", ".amdhsa_kernel", "/*", "*/", '"', "k:", ":",
    "1:", "s_branch 1b", "s_cbranch_scc0 .LBB9_9", "s_setpc_b64", "s_setpc_b64 s[4:5]",
    "s_getpc_b64",
    "s_swappc_b64 s[30:31], s[98:99]", "s_getpc_b64 s[4:5]\ns_add_u32 s4, s4, f@rel32@lo+4",
    "; Kernel info:\n; Occupancy: occupancy(0, 0, 0, 0, 0, 0, 0)\n; NumVgprs: 1/0",
    "; Kernel info:\n; codeLenInByte = x",
    "; Function info:\n; NumVgprs: totalnumvgprs(9223372036854775807, 9223372036854775807) << 63",
    "# __CLANG_OFFLOAD_BUNDLE____START__ hip-amdgcn--gfx90a", "\x00\x00", "\ufffd\ufffd",
    "\r", "\x85",
    "# __CLANG_OFFLOAD_BUNDLE____END__ x",
    '.amdgcn_target "amdgcn-amd-amdhsa--gfx' + "9" * 5000 + '"',
    "0000000000001700 <k>:", "\ts_branch 65535 // 000000001700: BF82FFFF <k>", "\ts_nop 0 // zz: 1",
    ".amd_kernel_code_t\nwavefront_size = 99999999999999999999\n.end_amd_kernel_code_t", "v[1+:2]",
    "v_mov_b32 v[1+1:99999999999999999999999], v[-1]", "<k>:", "Disassembly of section .rodata:",
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A real text after one to six accidents."""
    text = TEXTS[draw(st.sampled_from(sorted(TEXTS)))]
    lines = text.split("\n")
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, max(len(lines) - 1, 0)))
        to = draw(st.integers(0, max(len(lines) - 1, 0)))
        kind = draw(
            st.sampled_from(["drop", "swap", "repeat", "flip", "insert", "insert", "cut", "join"])
        )
        if not lines:
            break
        if kind == "drop":
            del lines[min(at, to) : min(max(at, to), min(at, to) + 40)]
        elif kind == "swap":
            lines[at], lines[to] = lines[to], lines[at]
        elif kind == "repeat":
            lines[at:at] = lines[to : to + 60] * draw(st.integers(1, 4))
        elif kind == "insert":
            lines.insert(at, draw(st.sampled_from(SNIPPETS)))
        elif kind == "cut":
            del lines[max(at, len(lines) // 3) :]
        elif kind == "join":
            lines[at : at + 3] = ["".join(lines[at : at + 3])]
        elif lines[at]:
            column = draw(st.integers(0, len(lines[at]) - 1))
            character = draw(
                st.characters(max_codepoint=0x2FF) | st.sampled_from("\x00\t\"'[](){}")
            )
            lines[at] = lines[at][:column] + character + lines[at][column + 1 :]
    return "\n".join(lines)


def check(text: str) -> Program | None:
    started = time.process_time()
    refusal: KinspectError | None = None
    program: Program | None = None
    try:
        program = parse_text(text, "damaged.s")
    except KinspectError as error:
        refusal = error
    assert time.process_time() - started < LIMIT_S
    if program is None:
        assert refusal is not None
        assert refusal.message
        assert refusal.hint
        assert "\n" not in str(refusal)
        return None
    for function in program.functions:
        check_function(function, text.count("\n") + 1)
    return program


def check_function(f: Function, lines: int) -> None:
    """What holds of any function, however it came about."""
    assert 1 <= f.line_first <= f.line_last <= lines
    assert [i.index for i in f.instructions] == list(range(len(f.instructions)))
    assert [b.start for b in f.blocks] == [0, *(b.stop for b in f.blocks)][: len(f.blocks)]
    assert (f.blocks[-1].stop if f.blocks else 0) == len(f.instructions)
    for b in f.blocks:
        assert all(b.index in f.blocks[s].predecessors for s in b.successors)
        assert len(set(b.successors)) == len(b.successors)
    assert [x.id for x in f.loops] == [f"L{k}" for k in range(len(f.loops))]
    by_id = {x.id: x for x in f.loops}
    for x in f.loops:
        assert x.header in x.blocks
        assert set(x.latches) <= set(x.blocks)
        aims = set(x.blocks) if x.irreducible else {x.header}
        assert all(aims & set(f.blocks[latch].successors) for latch in x.latches)
        assert x.depth == (1 if x.parent is None else by_id[x.parent].depth + 1)
        assert x.parent is None or set(x.blocks) < set(by_id[x.parent].blocks)
        ends = [n for pair in x.lines for n in pair]
        assert ends == sorted(ends)
        assert all(1 <= n <= lines for n in ends)
    for name in f.resources.__slots__:
        value = getattr(f.resources, name)
        assert not (isinstance(value, int) and value < 0), name
    for i in f.instructions:
        assert i.loc is None or (i.loc.line >= 1 and i.loc.file)


@settings(max_examples=120)
@given(damaged())
def test_damaged_texts_never_break_the_parser(text: str) -> None:
    check(text)


@pytest.mark.parametrize("name", TEXTS)
def test_every_snippet_at_the_begin_middle_and_end(name: str) -> None:
    lines = TEXTS[name].split("\n")
    for k, snippet in enumerate(SNIPPETS):
        at = (0, len(lines) // 2, len(lines))[k % 3]
        check("\n".join([*lines[:at], snippet, *lines[at:]]))


@pytest.mark.parametrize("name", TEXTS)
def test_texts_cut_anywhere(name: str) -> None:
    text = TEXTS[name]
    whole = check(text)
    assert whole is not None
    for k in range(1, 20):
        cut = check(text[: len(text) * k // 20])
        if cut is not None and whole.form == cut.form:
            known = {f.name for f in whole.functions}
            assert {f.symbol or f.name for f in cut.functions} <= known


@settings(max_examples=150)
@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda s: s.encode(errors="replace")))
def test_any_bytes(data: bytes) -> None:
    check(data.decode(errors="replace"))


@settings(max_examples=200)
@given(st.text(alphabet='()+-*/%<>=!&|~^,0123456789abxmaxor ."', max_size=60))
@example("max()")
@example("max(,)")
@example("1(2)")
@example("((((")
def test_any_expression(text: str) -> None:
    symbols = SymbolTable()
    symbols.define("a", text)
    symbols.define("b", "a+1")
    for asked in ("a", "b", text):
        value = symbols.evaluate(asked)
        assert value is None or -(2**63) <= value < 2**63
    items = compile_expression(text)
    assert items is None or len(items) <= len(text)


@settings(max_examples=100)
@given(st.text(alphabet="- []{}:?&*!|>'\"#,.abn1\n\t", max_size=120))
def test_any_metadata(text: str) -> None:
    assert isinstance(read_metadata("amdhsa.kernels:\n" + text).notes, tuple)


@settings(max_examples=100)
@given(st.text(alphabet='0123456789 ;@[]:.kpy/\\"', max_size=80))
def test_any_location(text: str) -> None:
    table = LocationTable()
    table.file('1 "/src" "k.py"')
    table.file(text)
    location = table.loc(text)
    assert location is None or location.line > 0


def test_many_macro_levels_and_lines_stay_bounded() -> None:
    bomb = "".join(f".macro M{i}\n" + f"M{i + 1}\n" * 20 + ".endm\n" for i in range(12))
    started = time.process_time()
    program = check(f"k:\ns_nop 0\n{bomb}.macro M12\ns_nop 0\n.endm\nM0\ns_endpgm\n")
    assert program is not None
    assert any("stopped at line" in note for note in program.notes)
    assert time.process_time() - started < 60


def test_endless_repetition_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(macros, "MAX_LINES", 20_000)
    program = check("k:\n.rept 1<<40\ns_nop 0\n.endr\ns_endpgm\n")
    assert program is not None
    assert any("stopped at line" in note for note in program.notes)
    assert program.functions[0].instructions[-1].mnemonic == "s_endpgm"


def test_a_macro_that_calls_itself_is_told() -> None:
    program = check("k:\n.macro M x\ns_nop 0\nM \\x\\x\n.endm\nM 1\ns_endpgm\n")
    assert program is not None
    assert any("nest deeper" in note for note in program.notes)
    assert [i.mnemonic for i in program.functions[0].instructions][-1] == "s_endpgm"


@pytest.mark.slow
@settings(max_examples=3000)
@given(damaged())
def test_damaged_texts_at_length(text: str) -> None:
    check(text)
