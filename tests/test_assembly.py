"""Assembly text against what LLVM's own tools make of it, and every form that users have."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from elftools.elf.elffile import ELFFile
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.isa.asm.directives import read_metadata
from kinspect.inspector.isa.asm.operands import SymbolTable, with_commas
from kinspect.inspector.isa.asm.target import AsmTarget
from kinspect.inspector.isa.assembly import parse_text, parse_texts
from kinspect.inspector.model import Function, Program, SourceLoc

DATA = Path(__file__).parent / "data" / "isa"
MC = shutil.which("llvm-mc-22")
OBJDUMP = shutil.which("llvm-objdump-22")
needs_mc = pytest.mark.skipif(MC is None, reason="llvm-mc-22 is not installed")
needs_objdump = pytest.mark.skipif(
    MC is None or OBJDUMP is None, reason="llvm-mc-22 or llvm-objdump-22 is not installed"
)
TARGET_LINE = '.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"\n'


def fixture(name: str) -> Program:
    return parse_text((DATA / name).read_text(), name)


def kernel(program: Program, name: str) -> Function:
    return next(f for f in program.functions if f.name == name)


def assemble(text: str, cpu: str, path: Path) -> Path:
    assert MC is not None
    command = [MC, "-triple=amdgcn-amd-amdhsa", f"-mcpu={cpu}", "-filetype=obj", "-o", str(path)]
    subprocess.run(command, input=text.encode(), check=True, capture_output=True)
    return path


def objdump(path: Path, *options: str) -> str:
    assert OBJDUMP is not None
    return subprocess.run(
        [OBJDUMP, "-d", *options, str(path)], check=True, capture_output=True, text=True
    ).stdout


# --------------------------------------------------------------------------- expressions


ATOMS = ("0", "1", "7", "64", "0x1f", "010", "0b101", "x", "y", "big")
OPERATORS = ["+", "-", "*", "&", "|", "^", "==", "!=", "<", ">", "<=", ">=", "&&", "||"]


def expression(random: Random, depth: int) -> str:
    kind = random.choice(["atom", "unary", "paren", "call", "binary", "binary", "binary"])
    if depth == 0 or kind == "atom":
        return random.choice(ATOMS)
    left = expression(random, depth - 1)
    if kind == "unary":
        # LLVM takes a call after an operator sign for a symbol.
        return random.choice("-~!+") + random.choice(ATOMS)
    if kind == "paren":
        return f"({left})"
    right = expression(random, depth - 1)
    if kind == "call":
        return f"{random.choice(['max', 'or'])}({left}, {right})"
    return f"{left} {random.choice(OPERATORS)} {right}"


@needs_mc
def test_expressions_have_the_assemblers_values(tmp_path: Path) -> None:
    random = Random(20)
    texts = [expression(random, 5) for _ in range(600)]
    symbols = SymbolTable()
    lines = []
    for name, value in (("x", "3"), ("y", "-5"), ("big", "0x7fffffff")):
        symbols.define(name, value)
        lines.append(f".set {name}, {value}")
    lines += [f".quad {text}" for text in texts]
    path = assemble("\n".join(lines) + "\n", "gfx90a", tmp_path / "e.o")
    with path.open("rb") as stream:
        data = ELFFile(stream).get_section_by_name(".text").data()
    expected = struct.unpack(f"<{len(texts)}q", data)
    assert {t: symbols.evaluate(t) for t in texts} == dict(zip(texts, expected, strict=True))


CALLS = (
    "alignto(13, 8)", "totalnumvgprs(4, 13)", "totalnumvgprs(0, 13)", "totalnumvgprs(20, 13)",
    *(f"extrasgprs({v}, {f}, {x})" for v in (0, 1) for f in (0, 1) for x in (0, 1)),
    *(f"occupancy(10, 4, 256, {g}, 10, {s}, {v})"
      for g in (5, 6, 7, 8, 9, 11) for s in (0, 40, 49, 72, 81, 89, 101) for v in (0, 3, 25, 200)),
    "occupancy(16, 24, 1536, 10, 16, 108, 97)", "occupancy(0, 0, 0, 0, 7, 0, 0)",
    "7/-2", "7%-2", "-8>>1", "1<<40", "!5", "1 || 0 && 0", "2+3|4", "1<<2+1", "3 > 2 + 1",
)  # fmt: skip


@needs_mc
@pytest.mark.parametrize("cpu", ["gfx600", "gfx803", "gfx906", "gfx90a", "gfx942", "gfx1250"])
def test_amdgpu_functions_have_the_assemblers_values(cpu: str, tmp_path: Path) -> None:
    symbols = SymbolTable()
    symbols.target = AsmTarget.parse(f"amdgcn-amd-amdhsa--{cpu}")
    path = assemble("".join(f".quad {c}\n" for c in CALLS), cpu, tmp_path / "c.o")
    with path.open("rb") as stream:
        data = ELFFile(stream).get_section_by_name(".text").data()
    values = dict(zip(CALLS, struct.unpack(f"<{len(CALLS)}q", data), strict=True))
    assert {c: symbols.evaluate(c) for c in CALLS} == values


def test_occupancy_as_tritons_llvm_writes_it() -> None:
    """Nine arguments: SGPR file, granule and trap reserve in place of the generation."""
    symbols = SymbolTable()
    # 101 SGPRs round up to 112, 16 more are reserved: 800 // 128 = 6 waves.
    assert symbols.evaluate("occupancy(8, 8, 512, 8, 800, 16, 16, 101, 64)") == 6
    assert symbols.evaluate("occupancy(8, 8, 512, 8, 800, 16, 16, 42, 130)") == 3
    assert symbols.evaluate("occupancy(16, 24, 1536, 16, 800, 106, 16, 0, 97)") == 12


def test_symbols_may_come_late_and_cycles_are_unknown() -> None:
    symbols = SymbolTable()
    symbols.define("a", "max(b, 3)+c")
    symbols.define("c", "d*2")
    assert symbols.value("a") is None
    symbols.define("d", "4")
    symbols.define("b", "1")
    assert symbols.value("a") == 11
    symbols.define("d", "e")
    symbols.define("e", "max(1, d)")
    assert symbols.value("a") is None
    assert symbols.value("e") is None
    assert symbols.value("b") == 1
    symbols.define("r", "1")
    symbols.define("s", "r+1")
    symbols.define("r", "5")
    assert symbols.value("s") == 2  # as the assembler: the value at the time of .set


def test_deep_symbol_chains_need_no_recursion() -> None:
    symbols = SymbolTable()
    for i in range(20_000):
        symbols.define(f"f{i}.num_vgpr", f"max({i % 90}, f{i + 1}.num_vgpr)")
    symbols.define("f20000.num_vgpr", "17")
    assert symbols.value("f0.num_vgpr") == 89


# --------------------------------------------------------------------------- resources


def descriptor(path: Path, name: str) -> dict[str, int]:
    """The kernel descriptor's fields (AMDGPUUsage, "Kernel Descriptor"), read with pyelftools."""
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        symbol = elf.get_section_by_name(".symtab").get_symbol_by_name(f"{name}.kd")[0]
        section = elf.get_section(symbol["st_shndx"])
        start = symbol["st_value"] - section["sh_addr"]
        raw = section.data()[start : start + 64]
    lds, private, kernarg = struct.unpack_from("<3I", raw)
    rsrc3, rsrc1, _, properties = struct.unpack_from("<3IH", raw, 44)
    return {
        "lds": lds,
        "private": private,
        "kernarg": kernarg,
        "vgpr_blocks": rsrc1 & 63,
        "sgpr_blocks": rsrc1 >> 6 & 15,
        "accum_blocks": rsrc3 & 63,
        "wave32": properties >> 10 & 1,
        "dynamic": properties >> 11 & 1,
        "wgp": rsrc1 >> 29 & 1,
    }


@needs_mc
@pytest.mark.parametrize(
    ("file", "cpu", "granule"),
    [
        ("calls.llvm14.gfx906.s", "gfx906", 4),
        ("calls.llvm16.gfx90a.s", "gfx90a", 8),
        ("calls.llvm22.gfx90a.s", "gfx90a", 8),
        ("calls.llvm22.gfx1100.s", "gfx1100", 8),
        ("far.llvm22.gfx1250.s", "gfx1250", 16),
    ],
)
def test_resources_equal_the_assembled_descriptor(
    file: str, cpu: str, granule: int, tmp_path: Path
) -> None:
    """Expressions over symbols at the end of the file included: `calls_unknown` has them all."""
    text = (DATA / file).read_text()
    path = assemble(text, cpu, tmp_path / "a.o")
    program = parse_text(text, file)
    assert program.arch == cpu
    assert len(program.kernels) == 4
    for function in program.kernels:
        r = function.resources
        d = descriptor(path, function.name)
        assert r.disagreements == ()
        assert (r.lds_bytes, r.scratch_bytes, r.kernarg_bytes) == (
            d["lds"],
            d["private"],
            d["kernarg"],
        )
        assert r.next_free_vgpr is not None
        assert max(r.next_free_vgpr - 1, 0) // granule == d["vgpr_blocks"]
        assert r.vgpr_count is not None
        assert r.vgpr_count <= r.next_free_vgpr
        assert r.wave_size == (32 if d["wave32"] else 64)
        if r.accum_offset is not None:
            assert r.accum_offset // 4 - 1 == d["accum_blocks"]
        # Older compilers had other defaults for what is reserved than this assembler has.
        if r.sgprs_for_waves is not None and "llvm22.gfx9" in file:
            assert (r.sgprs_for_waves - 1) // 8 == d["sgpr_blocks"]
        if r.uses_dynamic_stack is not None:
            assert r.uses_dynamic_stack == bool(d["dynamic"])
        if r.wgp_mode is not None:
            assert r.wgp_mode == bool(d["wgp"])
        assert r.occupancy is not None
        assert r.code_bytes is not None


def test_what_a_triton_kernel_states() -> None:
    program = fixture("attend.triton39.gfx950.amdgcn")
    text = (DATA / "attend.triton39.gfx950.amdgcn").read_text()
    assert (program.arch, program.form, program.code_object_version) == ("gfx950", "asm", 5)
    (function,) = program.kernels
    r = function.resources

    def stated(pattern: str) -> int:
        (value,) = set(re.findall(pattern, text))
        return int(value)

    assert r.vgpr_count == stated(r"\.vgpr_count: +(\d+)")
    assert r.agpr_count == stated(r"\.agpr_count: +(\d+)")
    assert r.arch_vgpr_count == stated(r"; NumVgprs: (\d+)")
    assert r.next_free_vgpr == stated(r"next_free_vgpr (\d+)")
    assert r.accum_offset == stated(r"amdhsa_accum_offset (\d+)")
    assert r.sgpr_count == stated(r"; TotalNumSgprs: (\d+)")
    assert r.occupancy == stated(r"; Occupancy: (\d+)")
    assert r.code_bytes == stated(r"; codeLenInByte = (\d+)")
    assert r.max_workgroup_size == stated(r"\.max_flat_workgroup_size: (\d+)")
    assert (r.wave_size, r.scratch_bytes, r.lds_bytes) == (64, 0, 0)
    assert (r.vgpr_spill_count, r.sgpr_spill_count) == (0, 0)
    assert (r.uses_dynamic_stack, r.wgp_mode, r.vgprs_allocated) == (False, None, None)
    assert r.disagreements == ()
    assert function.notes == program.notes == ()


def test_device_functions_have_their_own_figures() -> None:
    program = fixture("calls.llvm22.gfx90a.s")
    assert [f.name for f in program.functions if not f.is_kernel] == [
        "leaf",
        "middle",
        "factorial",
    ]
    middle = kernel(program, "middle").resources
    assert (middle.scratch_bytes, middle.vgpr_count) == (48, None)
    assert middle.arch_vgpr_count == 3
    assert kernel(program, "calls_in_loop").calls == ("leaf", "middle")
    assert kernel(program, "factorial").calls == ("factorial",)
    assert kernel(program, "calls_unknown").calls == ()
    assert any("unknown function" in n for n in kernel(program, "calls_unknown").notes)


def test_waves_per_eu_inflates_what_is_asked_for() -> None:
    r = kernel(fixture("calls.llvm22.gfx90a.s"), "nested_loops").resources
    assert (r.vgpr_count, r.next_free_vgpr, r.vgprs_for_waves, r.occupancy) == (4, 169, 169, 2)
    assert r.disagreements == ()


def test_llvm_14_and_code_object_v2() -> None:
    text = (DATA / "calls.llvm14.gfx906.s").read_text()
    old = parse_text(text, "old")
    assert (old.arch, old.code_object_version) == ("gfx906", 4)
    r = kernel(old, "nested_loops").resources
    assert (r.vgpr_count, r.arch_vgpr_count, r.lds_bytes, r.agpr_count) == (5, 5, 1024, None)
    assert r.sgpr_count == int(re.findall(r"; NumSgprs: (\d+)", text)[-1])
    v2 = fixture("calls.llvm14v2.gfx906.s")
    assert (v2.arch, v2.features, v2.code_object_version) == ("gfx906", ("xnack+",), 2)
    for f in v2.kernels:
        same = kernel(old, f.name)
        assert f.is_kernel
        assert [i.mnemonic for i in f.instructions] == [i.mnemonic for i in same.instructions]
        assert f.resources.vgpr_count == same.resources.vgpr_count
        assert f.resources.scratch_bytes == same.resources.scratch_bytes
        assert f.resources.kernarg_bytes == same.resources.kernarg_bytes
        assert f.resources.wave_size == 64
        assert f.resources.wgp_mode is False


def test_disagreements_are_told() -> None:
    text = (DATA / "attend.triton39.gfx90a.amdgcn").read_text()
    text = re.sub(r"(\.vgpr_count: +)\d+", r"\g<1>7", text)
    text = re.sub(r"(\.amdhsa_group_segment_fixed_size) 0", r"\g<1> 512", text)
    r = parse_text(text, "x").kernels[0].resources
    assert r.vgpr_count == 7
    assert any(
        "vgpr_count: metadata .vgpr_count says 7, comment Total" in d for d in r.disagreements
    )
    assert any(d.startswith("lds_bytes: metadata") and "512" in d for d in r.disagreements)


def test_a_file_with_directives_alone() -> None:
    """Older Triton: code object v4, no comments; what is not said stays unknown."""
    text = (DATA / "attend.triton39.gfx90a.amdgcn").read_text()
    bare = re.sub(r";[^\n]*", "", text)
    bare = re.sub(r"\n\t\.set [^\n]*", "", bare)
    bare = re.sub(r"\t\.amdgpu_metadata.*?\.end_amdgpu_metadata", "", bare, flags=re.DOTALL)
    r = parse_text(bare, "x").kernels[0].resources
    full = parse_text(text, "x").kernels[0].resources
    assert r.next_free_vgpr == full.next_free_vgpr
    assert r.kernarg_bytes == full.kernarg_bytes
    assert (r.vgpr_count, r.occupancy, r.arch_vgpr_count, r.vgpr_spill_count) == (None,) * 4
    assert r.wave_size is None


def test_metadata_first_and_readable_names() -> None:
    """Tensile writes the metadata before the code."""
    text = (
        TARGET_LINE + ".amdgpu_metadata\n---\namdhsa.version: [1, 1]\namdhsa.kernels:\n"
        "  - .name: Cijk\n    .symbol: 'Cijk_mangled.kd'\n    .args:\n      - .size: 8\n"
        "        .name: D\n    .vgpr_count: 24\n    .reqd_workgroup_size: [256, 1, 1]\n...\n"
        ".end_amdgpu_metadata\n.text\nCijk_mangled:\ns_endpgm\n"
    )
    program = parse_text(text, "x")
    (f,) = program.kernels
    assert (f.name, f.symbol, f.resources.vgpr_count) == ("Cijk", "Cijk_mangled", 24)
    assert f.resources.reqd_workgroup_size == (256, 1, 1)
    assert program.code_object_version == 4


def test_damaged_metadata_is_a_note_even_if_it_nests_without_end() -> None:
    """libyaml's recursion would take the process down."""
    for nest in ("[" * 100_000, "- " * 100_000, "{a: " * 50_000, "? " * 90_000):
        assert "nested too deeply" in read_metadata(nest).notes[0]
    assert "cannot be read" in read_metadata("a: [1\nb: }").notes[0]
    assert read_metadata("- 1\n").notes == ("the kernel metadata is not a mapping",)


# --------------------------------------------------------------------------- source locations


def locations(program: Program, mnemonic: str) -> list[SourceLoc | None]:
    return [i.loc for i in program.functions[0].instructions if i.mnemonic.startswith(mnemonic)]


def test_inlined_chain_and_full_paths() -> None:
    program = fixture("located.llvm22.gfx90a.s")
    header, source = "/src/app/include/math.h", "/src/app/kernel.hip"
    (add,) = locations(program, "s_add_i32")
    assert add == SourceLoc(header, 4, 3, SourceLoc(source, 13, 9))
    (xor,) = locations(program, "s_xor_b32")
    assert xor == SourceLoc(header, 8, 2, SourceLoc(header, 5, 11, SourceLoc(source, 13, 9)))
    assert xor is not None
    assert xor.outermost == SourceLoc(source, 13, 9)
    (store,) = locations(program, "global_store")
    assert store is None  # line 0: no place, and not the one before
    assert locations(program, "s_endpgm") == [SourceLoc(source, 15, 1)]


def test_old_comments_name_no_call_site() -> None:
    program = fixture("located.llvm14.gfx90a.s")
    (add,) = locations(program, "s_add_i32")
    assert add == SourceLoc("/src/app/include/math.h", 4, 3)


def test_triton_locations_reach_into_the_library() -> None:
    program = fixture("attend.triton39.gfx90a.amdgcn")
    files = {i.loc.file for i in program.functions[0].instructions if i.loc is not None}
    assert files == {
        "/src/kernels/triton_kernels.py",
        "/src/triton/language/standard.py",
    }
    inlined = [
        i.loc
        for i in program.functions[0].instructions
        if i.loc is not None and i.loc.file.endswith("standard.py")
    ]
    assert inlined
    assert all(loc.outermost.file == "/src/kernels/triton_kernels.py" for loc in inlined)


def test_two_files_of_one_name() -> None:
    program = parse_text(
        TARGET_LINE + '.file 1 "/a" "k.py"\n.file 2 "/b" "k.py"\n.text\nk:\n'
        ".loc 2 5 1 ; k.py:5:1 @[ k.py:9:2 ]\nv_nop\n.loc 9 5 1 ; odd.py:5:1\nv_nop\n"
        ".loc 7 3 0\ns_endpgm\n",
        "x",
    )
    a, b, c = (i.loc for i in program.functions[0].instructions)
    assert a == SourceLoc("/b/k.py", 5, 1, SourceLoc("/b/k.py", 9, 2))
    assert b == SourceLoc("odd.py", 5, 1)
    assert c is None


# --------------------------------------------------------------------------- forms of text


@needs_objdump
def test_macros_expand_as_the_assembler_expands_them(tmp_path: Path) -> None:
    """Mnemonics and operands of the listing, labels and all, equal those of the macro file."""
    text = (DATA / "handwritten.gfx90a.s").read_text()
    listing = objdump(assemble(text, "gfx90a", tmp_path / "a.o"))
    (own,) = parse_text(text, "macros").functions
    # Hand-written labels are symbols in the object, and still one function.
    (listed,) = parse_text(listing, "listing").functions
    assert own.notes == listed.notes == ()

    def rows(f: Function) -> list[tuple[str, str]]:
        return [
            (i.op.name, re.sub(r" offset:0$", "", i.operands))
            for i in f.instructions
            if i.cls not in ("wait", "branch")
        ]

    assert rows(own) == rows(listed)
    assert [b.successors for b in own.blocks] == [b.successors for b in listed.blocks]
    assert [(x.header, x.blocks, x.depth) for x in own.loops] == [
        (x.header, x.blocks, x.depth) for x in listed.loops
    ]
    assert len(own.loops) == 4
    waits = [i.operands for i in own.instructions if i.cls == "wait"]
    assert waits == ["0", "lgkmcnt(2)", "vmcnt(3)"]
    r = own.resources
    assert (r.next_free_vgpr, r.next_free_sgpr, r.accum_offset, r.lds_bytes) == (20, 28, 20, 4096)


def test_what_cannot_be_expanded_is_told() -> None:
    program = parse_text(
        '#include "common.inc"\n' + TARGET_LINE + ".if UNKNOWN_FLAG\nv_nop\n.endif\n"
        '.include "other.s"\n.text\n.amdhsa_kernel k\n.end_amdhsa_kernel\nk:\n'
        "SOME_MACRO v0, v1\ns_endpgm\n",
        "x",
    )
    notes = " / ".join(program.notes)
    assert "C preprocessor" in notes
    assert "condition on line 3" in notes
    assert 'includes "other.s"' in notes
    assert (
        "not recognised as instructions (unknown macros?): line 11" in program.kernels[0].notes[0]
    )


BUNDLE = """# __CLANG_OFFLOAD_BUNDLE____START__ hip-amdgcn-amd-amdhsa--gfx90a
{device}
# __CLANG_OFFLOAD_BUNDLE____END__ hip-amdgcn-amd-amdhsa--gfx90a
# __CLANG_OFFLOAD_BUNDLE____START__ hip-amdgcn-amd-amdhsa--gfx1100
{other}
# __CLANG_OFFLOAD_BUNDLE____END__ hip-amdgcn-amd-amdhsa--gfx1100
# __CLANG_OFFLOAD_BUNDLE____START__ host-x86_64-unknown-linux-gnu-
\t.text
main:
\tpushq\t%rbp
\tmovq\t%rsp, %rbp
\tretq
# __CLANG_OFFLOAD_BUNDLE____END__ host-x86_64-unknown-linux-gnu-
"""


def test_bundles() -> None:
    device = (DATA / "calls.llvm22.gfx90a.s").read_text()
    other = (DATA / "calls.llvm22.gfx1100.s").read_text()
    text = BUNDLE.format(device=device, other=other)
    first, second = parse_texts(text, "x")
    assert (first.arch, second.arch) == ("gfx90a", "gfx1100")
    alone = fixture("calls.llvm22.gfx90a.s")
    assert [f.name for f in first.functions] == [f.name for f in alone.functions]
    # Lines count in the whole file.
    assert first.functions[0].line_first == alone.functions[0].line_first + 1
    shift = (
        second.functions[0].line_first - fixture("calls.llvm22.gfx1100.s").functions[0].line_first
    )
    assert text.splitlines()[shift - 1].endswith("START__ hip-amdgcn-amd-amdhsa--gfx1100")
    assert any("host-x86_64" in n for n in first.notes)
    assert any("gfx1100" in n for n in parse_text(text, "x").notes)
    with pytest.raises(KinspectError, match="holds no AMDGCN, only host-x86_64"):
        parse_text(text[text.index("# __CLANG_OFFLOAD_BUNDLE____START__ host") :], "x")


def test_concatenated_files_keep_their_own_figures() -> None:
    """Two files with a kernel of the same name, one after the other."""
    a = (DATA / "calls.triton39.gfx942.amdgcn").read_text()
    b = a.replace(".vgpr_count:     32", ".vgpr_count:     33")
    program = parse_text(a + b, "x")
    assert [k.resources.vgpr_count for k in program.kernels] == [32, 33]
    assert program.kernels[1].line_first == program.kernels[0].line_first + a.count("\n")


def equal_code(a: Program, b: Program) -> bool:
    def code(p: Program) -> object:
        return [
            (f.name, f.is_kernel, f.blocks, f.loops, f.resources, f.calls,
             [(i.mnemonic, i.operands, i.comment, i.loc, i.line) for i in f.instructions])
            for f in p.functions
        ]  # fmt: skip

    return code(a) == code(b)


def test_line_ends_and_blanks_do_not_matter() -> None:
    text = (DATA / "calls.llvm22.gfx90a.s").read_text()
    plain = parse_text(text, "x")
    assert equal_code(plain, parse_text(text.replace("\n", "\r\n"), "x"))
    assert equal_code(plain, parse_text(text.rstrip("\n"), "x"))
    assert equal_code(plain, parse_text(text.replace("\t", "    "), "x"))


@pytest.mark.parametrize(
    "name",
    [
        "calls.llvm22.gfx90a.s",
        "calls.triton39.gfx942.amdgcn",
        "attend.triton39.gfx1201.amdgcn",
        "attend.triton39.gfx950.amdgcn",
    ],
)
def test_operands_need_no_commas(name: str) -> None:
    """As for the assembler, which eats a comma "if there is one"; generated macros have none."""
    text = (DATA / name).read_text()
    bare = re.sub(r"(?m)^(\s+[a-z]\w+ [^;\n]*)", lambda line: line[1].replace(", ", " "), text)
    assert bare.count(", ") < text.count(", ")
    assert equal_code(parse_text(text, "x"), parse_text(bare, "x"))


@pytest.mark.parametrize(
    "written",
    [lambda n: hex(n), lambda n: f"{n}+0", lambda n: f"2*{n}-{n}", lambda n: f"({n})"],
    ids=["hexadecimal", "sum", "difference", "parentheses"],
)
@pytest.mark.parametrize("name", ["calls.llvm22.gfx90a.s", "attend.triton39.gfx950.amdgcn"])
def test_registers_have_the_numbers_that_the_assembler_reads(
    name: str, written: Callable[[int], str]
) -> None:
    """`v[0x46:0x49]` is `v[70:73]` for LLVM; inline assembly of public kernels is written so."""
    text = (DATA / name).read_text()
    odd = re.sub(
        r"(?m)^(\s+[a-z]\w+ [^;\n]*)",
        lambda line: re.sub(
            r"\b([vsa])\[(\d+):(\d+)\]",
            lambda r: f"{r[1]}[{written(int(r[2]))}:{written(int(r[3]))}]",
            line[1],
        ),
        text,
    )
    assert odd != text
    assert equal_code(parse_text(text, "x"), parse_text(odd, "x"))


def test_commas_are_those_that_llvm_prints() -> None:
    """The right-hand side is what llvm-mc 22 makes of the left-hand one, for gfx1100."""
    for bare, printed in (
        ("s[24:39] s[0:1] 0x8 glc", "s[24:39], s[0:1], 0x8 glc"),
        ("v0 -v1 |v2|", "v0, -v1, |v2|"),
        ("v0 v1 row_shr:1 row_mask:0xf", "v0, v1 row_shr:1 row_mask:0xf"),
        ("v4 off s[0:3] 0 offset:16", "v4, off, s[0:3], 0 offset:16"),
        ("v1 v2 v3 vcc_lo", "v1, v2, v3, vcc_lo"),
        ("v0 v1 0x40400000 v3", "v0, v1, 0x40400000, v3"),
        ("s0 -1", "s0, -1"),
        ("vmcnt(0) lgkmcnt(0)", "vmcnt(0) lgkmcnt(0)"),
    ):
        assert with_commas(bare) == printed
        assert with_commas(printed) == printed


def test_comments_of_every_kind() -> None:
    program = parse_text(
        TARGET_LINE + ".text ; .text\n.type k,@function // function\nk: /* here */ s_nop 0 ; one\n"
        "/* s_endpgm\n s_endpgm */ v_mov_b32 v0, /* twice */ v1 // two\n"
        "# s_endpgm\n; a /* that opens nothing\ns_endpgm ; */ end\n",
        "x",
    )
    (f,) = program.functions
    assert [(i.line, i.mnemonic, i.operands.split(), i.comment) for i in f.instructions] == [
        (4, "s_nop", ["0"], "one"),
        (6, "v_mov_b32", ["v0,", "v1"], "two"),
        (9, "s_endpgm", [], "*/ end"),
    ]


def test_spills_are_told_by_their_comments() -> None:
    factorial = kernel(fixture("calls.llvm22.gfx90a.s"), "factorial")
    classes = [i.cls for i in factorial.instructions if i.mnemonic.startswith("buffer_")]
    assert classes == ["scratch_store", "scratch_store", "scratch_load", "scratch_load"]


def test_an_empty_kernel_is_reported() -> None:
    program = parse_text(
        TARGET_LINE + ".text\nk:\n.Lfunc_end0:\n.amdhsa_kernel k\n.amdhsa_next_free_vgpr 0\n"
        ".end_amdhsa_kernel\n.amdhsa_kernel gone\n.end_amdhsa_kernel\n",
        "x",
    )
    (f,) = program.kernels
    assert f.instructions == ()
    assert f.notes == ("no instructions: the kernel is empty",)
    assert f.resources.next_free_vgpr == 0
    assert program.notes == ("kernel gone is described but its code is not in the text",)


def test_code_without_any_directive() -> None:
    """A snippet cut out of a kernel: no symbol, no target."""
    program = parse_text("  v_add_f32 v0, v1, v2\n  s_cbranch_scc0 .LBB0_3\n  s_endpgm\n", "x")
    assert (program.arch, program.code_object_version) == (None, None)
    (f,) = program.functions
    assert f.name == "<line 1>"
    assert not f.is_kernel
    assert len(f.instructions) == 3


def test_hand_written_kernels_without_types_are_told_apart() -> None:
    program = parse_text(
        TARGET_LINE
        + ".text\nfirst:\nv_nop\nhere:\ns_cbranch_scc0 here\ns_endpgm\nsecond:\ns_endpgm\n"
        ".rodata\n.amdhsa_kernel first\n.end_amdhsa_kernel\n"
        ".amdhsa_kernel second\n.end_amdhsa_kernel\n",
        "x",
    )
    assert [(f.name, len(f.instructions), f.line_first) for f in program.kernels] == [
        ("first", 3, 3),
        ("second", 1, 8),
    ]


LISTING_OPTIONS = (
    (), ("-l",), ("--no-show-raw-insn",), ("--symbolize-operands",), ("-r",), ("-D",),
    ("--no-leading-addr",), ("--no-show-raw-insn", "--symbolize-operands"), ("-S",),
)  # fmt: skip


@needs_objdump
@pytest.mark.parametrize("options", LISTING_OPTIONS, ids=" ".join)
def test_every_form_of_listing(options: tuple[str, ...], tmp_path: Path) -> None:
    text = (DATA / "calls.llvm22.gfx90a.s").read_text()
    own = {f.name: f for f in parse_text(text, "x").functions}
    listing = objdump(assemble(text, "gfx90a", tmp_path / "a.o"), *options)
    program = parse_text(listing, "listing")
    assert program.form == "objdump"
    assert [f.name for f in program.functions] == list(own)
    for f in program.functions:
        assert f.is_kernel == own[f.name].is_kernel
        assert [b.successors for b in f.blocks] == [b.successors for b in own[f.name].blocks]
        assert [i.op.name for i in f.instructions] == [i.op.name for i in own[f.name].instructions]
        assert all(i.address is not None for i in f.instructions)
        assert f.resources.code_bytes == own[f.name].resources.code_bytes
    bare = parse_text(re.sub(r"(// [0-9A-F]+:).*", r"\1", listing), "without encodings")
    assert [f.blocks for f in bare.functions] == [f.blocks for f in program.functions]
    assert {f.resources.code_bytes for f in bare.functions} == {None}


@needs_objdump
def test_listing_with_source_lines(tmp_path: Path) -> None:
    text = (DATA / "located.llvm22.gfx90a.s").read_text()
    program = parse_text(objdump(assemble(text, "gfx90a", tmp_path / "a.o"), "-l"), "x")
    (add,) = locations(program, "s_add_i32")
    assert add is not None
    assert (add.file.rpartition("/")[2], add.line) == ("math.h", 4)


# --------------------------------------------------------------------------- what is no AMDGCN

FOREIGN = {
    "x86 assembly": "\t.text\nmain:\n\tpushq\t%rbp\n\tmovq\t%rsp, %rbp\n\tretq\n",
    "PTX": ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n",
    "LLVM IR": 'target triple = "amdgcn-amd-amdhsa"\ndefine void @k() {\n  ret void\n}\n',
    "MLIR": "module {\n  tt.func public @k(%arg0: !tt.ptr<f32>) {\n    tt.return\n  }\n}\n",
    "Python source": "import triton\n\n@triton.jit\ndef k(p):\n    pass\n",
    "an ELF object": "\x7fELF\x02\x01\x01\x00\x00",
    "JSON": '{"kernels": []}\n',
    "some other text": "It was the best of times, it was the worst of times.\n",
    "binary data": "\x00\x01\x02\ufffd\ufffd\x03" * 20,
    "AArch64 assembly": "main:\n\tstp x29, x30, [sp, -16]!\n\tbl foo\n\tret\n",
    "C++": "#include <hip/hip_runtime.h>\n__global__ void k(float *p) { p[0] = 1; }\n",
}


@pytest.mark.parametrize("what", FOREIGN)
def test_other_texts_are_refused_by_name(what: str) -> None:
    said = rf"odd.txt: no AMDGCN in it, it looks like .*{re.escape(what)}"
    with pytest.raises(KinspectError, match=said) as e:
        parse_text(FOREIGN[what], "odd.txt")
    assert e.value.hint


@pytest.mark.parametrize("text", ["", "\n \n\t\n", "\r\n"])
def test_empty_files(text: str) -> None:
    with pytest.raises(KinspectError, match="the file is empty"):
        parse_text(text, "x")


def test_triton_stages_are_refused() -> None:
    with pytest.raises(KinspectError, match="LLVM IR"):
        parse_text((DATA / "calls.ll").read_text(), "calls.ll")


# --------------------------------------------------------------------------- size


def test_a_megabyte_is_read_in_well_under_a_second() -> None:
    """0.25 to 0.35 s on the slow machine this was written on; five times that fails."""
    text = (DATA / "attend.triton39.gfx90a.amdgcn").read_text()
    text *= -(-1_000_000 // len(text))
    started = time.perf_counter()
    program = parse_text(text, "x")
    assert time.perf_counter() - started < 2.0
    assert len(program.kernels) > 15


def test_data_is_never_held_line_by_line() -> None:
    data = ".section .debug_str\n" + '\t.ascii "0123456789012345678901234567"\n' * 200_000
    text = (DATA / "calls.triton39.gfx942.amdgcn").read_text() + data
    tracemalloc.start()
    parse_text(text, "x")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(text) > 7_000_000
    assert peak < 12_000_000


def test_capital_letters_in_mnemonics_change_nothing() -> None:
    """Tensile writes `s_getpc_B64`; LLVM's assembler takes it."""
    header = '.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"\n.amdhsa_kernel k\n.end_amdhsa_kernel\n'
    body = ".text\nk:\n  s_getpc_B64 s[2:3]\n  V_ADD_F32 v0, v1, v2\n  s_endpgm\n"
    function = parse_text(header + body, "k.s").functions[0]
    assert [i.mnemonic for i in function.instructions] == ["s_getpc_b64", "v_add_f32", "s_endpgm"]
    assert not function.notes


def test_a_vararg_begins_where_it_stands_however_often_a_value_occurs() -> None:
    """As llvm-mc 22 expands it."""
    text = (
        ".text\n.globl k\n.type k,@function\n.macro m a, more:vararg\n v_add3_u32 \\a, \\more\n"
        ".endm\nk:\n m v1, v1, v2, v1\n s_endpgm\n"
    )
    (function,) = parse_text(text, "vararg").functions
    assert function.instructions[0].operands == "v1, v1, v2, v1"
