"""Disassembly of code objects, and the programs made from it."""

from __future__ import annotations

import re
import shutil
import stat
import struct
import subprocess
from pathlib import Path

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.objects import disasm
from kinspect.inspector.isa.objects.codelisting import (
    DecodedInstruction,
    format_listing,
    trim_listing,
)
from kinspect.inspector.isa.objects.codeobject import CodeObject, read_code_object
from kinspect.inspector.isa.objects.crosscheck import compare
from kinspect.inspector.isa.objects.disasm import (
    Disassembler,
    disassemble,
    disassemble_object,
    find_disassemblers,
)
from kinspect.inspector.isa.objects.disasm_worker import decode_section
from kinspect.inspector.isa.objects.load import load_code_object, load_images, resources_only
from kinspect.inspector.pipeline import analysis
from kinspect.inspector.pipeline.analysis_options import Context

DATA = Path(__file__).parent / "data" / "elf"
COMMITTED = sorted(DATA.glob("*.hsaco"))


def read(path: Path) -> CodeObject:
    return read_code_object(path.read_bytes(), path.name)


def objdump() -> Disassembler:
    path = shutil.which("llvm-objdump-22")
    if path is None:
        pytest.skip("llvm-objdump-22 is not installed")
    return Disassembler(path, Path(path))


def wheel() -> Disassembler:
    pytest.importorskip("rocm.llvm", reason="rocm-llvm-python is not installed")
    return Disassembler("rocm-llvm-python")


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(disasm, "_ROCM_GLOB", "nothing-here/*")
    monkeypatch.setattr(disasm, "_wheel_installed", lambda: False)


def script(path: Path, text: str) -> Disassembler:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return Disassembler(path.name, path)


# ------------------------------------------------------------------- the form of the text


def decoded_by(text: str) -> list[DecodedInstruction]:
    """What llvm-objdump decoded, without what it adds: labels, addresses, symbol names."""
    found = []
    addresses = []
    for line in text.splitlines():
        match = re.match(r"\t(.*?) *// ([0-9A-F]{12}): ((?:[0-9A-F]{8} ?)+)", line)
        if match:
            addresses.append(int(match[2], 16))
            found.append(DecodedInstruction(4 * len(match[3].split()), match[1]))
        elif line == "\t\t...":
            found.append(DecodedInstruction(0, ""))
            addresses.append(-1)
    for i, row in enumerate(found):
        if not row.size:
            end = addresses[i + 1] if i + 1 < len(found) else None
            assert end is not None
            found[i] = DecodedInstruction(end - addresses[i - 1] - found[i - 1].size, "")
    return found


@pytest.mark.parametrize("path", COMMITTED, ids=lambda p: p.name)
def test_written_as_llvm_objdump_writes(path: Path) -> None:
    code = read(path)
    theirs = disassemble_object(code, tools=[objdump()]).text
    sections = [s for s in code.elf.sections if s.executable]
    assert len(sections) == 1
    contents = [code.elf.bytes_of(s) for s in sections]
    assert format_listing(code, sections, contents, [decoded_by(theirs)]) == theirs


def test_data_zeros_and_labels_are_written_as_llvm_objdump_writes(tmp_path: Path) -> None:
    mc, ld = shutil.which("llvm-mc-22"), shutil.which("ld.lld-22")
    if mc is None or ld is None:
        pytest.skip("LLVM 22 is not installed")
    (tmp_path / "x.s").write_text(
        ".type foo,@function\nfoo:\ns_branch there\n.long 0xffffffff\n"
        "s_nop 0\n.fill 5, 4, 0\nthere:\ns_nop 1\ns_cbranch_scc0 foo\ns_branch there\n"
        ".size foo, .-foo\n"
    )
    made, linked = tmp_path / "x.o", tmp_path / "x.hsaco"
    arguments = ["-triple=amdgcn-amd-amdhsa", "-mcpu=gfx942", "-filetype=obj"]
    subprocess.run([mc, *arguments, tmp_path / "x.s", "-o", made], check=True, timeout=60)
    subprocess.run([ld, "-shared", made, "-o", linked], check=True, timeout=60)
    code = read(linked)
    found = disassemble_object(code, tools=[objdump()])
    assert found.undecoded == 1
    section = code.elf.section(".text")
    assert section is not None
    # Bare numbers, as decoders print branch distances.
    distances = {"s_branch there": None, "s_cbranch_scc0 foo": None}
    rows = []
    raw = code.elf.bytes_of(section)
    at = 0
    for row in decoded_by(found.text):
        text = row.text
        if text.split(" ")[0] in {t.split(" ")[0] for t in distances}:
            text = f"{text.split(' ')[0]} {struct.unpack_from('<H', raw, at)[0]}"
        if text.startswith(".long"):
            text = ""
        rows.append(DecodedInstruction(row.size, text))
        at += row.size
    assert format_listing(code, [section], [raw], [rows]) == found.text
    assert "s_branch there" in found.text
    assert "<foo>" in found.text


def test_padding_is_cut() -> None:
    code = read(DATA / "two.gfx942.hsaco")
    text = disassemble_object(code, tools=[objdump()]).text
    cut = trim_listing(text, code)
    for symbol in code.functions:
        inside = [
            int(a, 16)
            for a in re.findall(r"// ([0-9A-F]{12}):", cut)
            if symbol.address <= int(a, 16) < symbol.address + symbol.size
        ]
        assert inside[0] == symbol.address
    addresses = [int(a, 16) for a in re.findall(r"// ([0-9A-F]{12}):", cut)]
    assert all(any(f.address <= a < f.address + f.size for f in code.functions) for a in addresses)
    assert len(addresses) < len(re.findall(r"// ([0-9A-F]{12}):", text))


def test_comments_of_long_instructions_are_set_apart(tmp_path: Path) -> None:
    # VGPRs above 255 are printed with a comment of their own, up against the address's.
    mc, ld = shutil.which("llvm-mc-22"), shutil.which("ld.lld-22")
    if mc is None or ld is None:
        pytest.skip("LLVM 22 is not installed")
    (tmp_path / "x.s").write_text(
        ".globl foo\n.type foo,@function\nfoo:\ns_set_vgpr_msb 0x41\n"
        "v_dual_mov_b32 v86, v83 :: v_dual_mov_b32 v35, v96\ns_endpgm\n.size foo, .-foo\n"
    )
    made, linked = tmp_path / "x.o", tmp_path / "x.hsaco"
    arguments = ["-triple=amdgcn-amd-amdhsa", "-mcpu=gfx1250", "-filetype=obj"]
    subprocess.run([mc, *arguments, tmp_path / "x.s", "-o", made], check=True, timeout=60)
    subprocess.run([ld, "-shared", made, "-o", linked], check=True, timeout=60)
    code = read(linked)
    text = disassemble_object(code, tools=[objdump()]).text
    assert re.search(r"/\*v\d+\*///", text)
    (function,) = parse_text(trim_listing(text, code), "x").functions
    assert None not in [i.address for i in function.instructions]
    assert len(function.instructions) == 3


def test_decoding_takes_every_byte_once() -> None:
    def decode(code: bytes, address: int) -> tuple[int, str]:
        if code[0] == 0xFF:
            return 0, ""
        size = 8 if code[0] == 8 else 4
        return (size, f"at {address}") if len(code) >= size else (0, "")

    code = bytes([1, 0, 0, 0, 8, *bytes(7), 0xFF, 0, 0, 0, *bytes(13), 2, 8, 0])
    rows = list(decode_section(code, 0x100, decode))
    assert sum(size for size, _ in rows) == len(code)
    assert rows[0] == (4, "at 256")
    assert rows[1] == (8, "at 260")
    assert rows[2] == (4, "")
    assert rows[3] == (12, "")


# ------------------------------------------------------------------- tools


@pytest.mark.parametrize("path", COMMITTED, ids=lambda p: p.name)
def test_wheel_and_objdump_agree(path: Path) -> None:
    code = read(path)
    ours = disassemble_object(code, tools=[wheel()])
    theirs = disassemble_object(code, tools=[objdump()])
    assert ours.undecoded == theirs.undecoded == 0

    # LLVM versions differ in how they print a literal that is also an inline constant.
    def plain(text: str) -> list[str]:
        lines = []
        for line in text.splitlines():
            instruction, _, rest = line.partition("//")
            number = re.sub(r"lit(?:64)?\((\w+)\)", r"\1", instruction)
            number = re.sub(r"\b0xffffffff\b", "-1", number)
            lines.append(f"{number.rstrip()}//{rest}")
        return lines

    assert plain(ours.text) == plain(theirs.text)


def test_wheel_that_does_not_know_the_target_gives_way() -> None:
    code = read(DATA / "two.gfx942.hsaco")
    with pytest.raises(KinspectError, match="gfx9999"):
        disassemble_object(code, arch="gfx9999", tools=[wheel()])
    assert disassemble_object(code, tools=[wheel(), objdump()]).tool == "rocm-llvm-python"


def test_nothing_installed_names_both_ways(no_tools: None) -> None:
    assert find_disassemblers() == ()
    with pytest.raises(KinspectError) as caught:
        disassemble(DATA / "two.gfx942.hsaco")
    assert "two.gfx942.hsaco: no disassembler found" in caught.value.message
    assert "kinspect[disasm]" in caught.value.hint
    assert "llvm-objdump" in caught.value.hint
    assert resources_only((DATA / "two.gfx942.hsaco").read_bytes(), "x").kernels


def test_order_of_tools(no_tools: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("llvm-objdump", "llvm-objdump-14", "llvm-objdump-22"):
        script(tmp_path / name, "exit 1")
    labels = [Path(t.label).name for t in find_disassemblers()]
    assert labels == ["llvm-objdump", "llvm-objdump-22", "llvm-objdump-14"]
    monkeypatch.setattr(disasm, "_wheel_installed", lambda: True)
    assert find_disassemblers()[0].path is None


def test_links_to_one_tool_count_once(no_tools: None, tmp_path: Path) -> None:
    script(tmp_path / "llvm-objdump-22", "exit 1")
    (tmp_path / "llvm-objdump").symlink_to(tmp_path / "llvm-objdump-22")
    assert len(find_disassemblers()) == 1


def test_failing_tools_give_way_and_are_named(tmp_path: Path) -> None:
    code = read(DATA / "two.gfx942.hsaco")
    tools = [
        script(tmp_path / "crashes", "echo 'error: unable to get target' >&2; exit 1"),
        script(tmp_path / "silent", "exit 0"),
        script(tmp_path / "default", "echo \"'gfx942' is not a recognized processor\" >&2"),
        Disassembler("gone", tmp_path / "gone"),
    ]
    with pytest.raises(KinspectError) as caught:
        disassemble_object(code, tools=tools)
    for part in (
        "crashes: error: unable to get target",
        "silent: printed no disassembly",
        "default: 'gfx942' is not a recognized processor",
        "gone: No such file",
    ):
        assert part in caught.value.message
    assert "\n" not in str(caught.value)
    assert disassemble_object(code, tools=[*tools, objdump()]).tool == objdump().label


def test_slow_tools_are_stopped(tmp_path: Path) -> None:
    tools = [script(tmp_path / "slow", "exec sleep 30")]
    with pytest.raises(KinspectError, match=r"slow: no result after 1 s"):
        disassemble_object(read(DATA / "two.gfx942.hsaco"), tools=tools, timeout=1)


def test_the_tool_that_decodes_most_is_taken(tmp_path: Path) -> None:
    real = objdump()
    old = script(
        tmp_path / "old",
        f'{real.path} "$@" | sed "s/^\\ts_waitcnt .*\\/\\//\\t.long 0xdeadbeef \\/\\//"',
    )
    code = read(DATA / "two.gfx942.hsaco")
    alone = disassemble_object(code, tools=[old])
    assert alone.undecoded > 0
    assert disassemble_object(code, tools=[old, real]).tool == real.label
    assert disassemble_object(code, tools=[real, old]).tool == real.label


def test_16_bit_halves_decode_on_gfx12(tmp_path: Path) -> None:
    # LLVM 22 decodes v_mov_b16 v38.h on gfx12 only when told that the target has true 16-bit
    # instructions; Triton's LLVM emits them.
    mc, ld = shutil.which("llvm-mc-22"), shutil.which("ld.lld-22")
    if mc is None or ld is None:
        pytest.skip("LLVM 22 is not installed")
    (tmp_path / "x.s").write_text("v_mov_b16_e32 v38.h, v41.l\n")
    arguments = ["-triple=amdgcn-amd-amdhsa", "-mcpu=gfx1201", "-mattr=+real-true16"]
    made, linked = tmp_path / "x.o", tmp_path / "x.hsaco"
    command = [mc, *arguments, "-filetype=obj", tmp_path / "x.s", "-o", made]
    subprocess.run(command, check=True, timeout=60)
    subprocess.run([ld, "-shared", made, "-o", linked], check=True, timeout=60)
    assert "v_mov_b16_e32 v38.h, v41.l" in disassemble_object(read(linked), tools=[objdump()]).text


def test_missing_file() -> None:
    with pytest.raises(KinspectError, match=r"nowhere\.hsaco: No such file"):
        disassemble(Path("nowhere.hsaco"))


# ------------------------------------------------------------------- programs


@pytest.fixture
def only_objdump(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = objdump()
    monkeypatch.setattr(disasm, "find_disassemblers", lambda: (tool,))


@pytest.mark.usefixtures("only_objdump")
def test_program_of_a_code_object() -> None:
    path = DATA / "two.gfx942.hsaco"
    program = load_code_object(path.read_bytes(), path.name)
    code = read(path)
    assert (program.arch, program.features, program.form) == ("gfx942", (), "objdump")
    assert program.code_object_version == 6
    assert program.notes == ()
    assert {f.name for f in program.kernels} == {"first", "second"}
    assert {f.name for f in program.functions} == {"first", "second", "callee"}
    for function in program.kernels:
        assert function.resources == code.kernels[function.name]
    for function in program.functions:
        (symbol,) = (f for f in code.functions if f.name == function.name)
        assert function.instructions[0].address == symbol.address
        assert function.resources.code_bytes == symbol.size
        last = function.instructions[-1]
        assert last.address is not None
        size = 4 * len(last.comment.split())
        assert last.address + size == symbol.address + symbol.size
    (second,) = (f for f in program.kernels if f.name == "second")
    assert len(second.loops) == 1


@pytest.mark.usefixtures("only_objdump")
def test_listing_lines_are_those_of_the_program() -> None:
    path = DATA / "inlined.dwarf5.hsaco"
    (image,) = load_images(path.read_bytes(), path.name)
    lines = image.text.split("\n")
    checked = 0
    for function in image.program.functions:
        for instruction in function.instructions:
            assert instruction.mnemonic in lines[instruction.line - 1]
            assert f"// {instruction.address:012X}:" in lines[instruction.line - 1]
            checked += 1
    assert checked == 49


@pytest.mark.usefixtures("only_objdump")
@pytest.mark.parametrize("version", [4, 5])
def test_source_lines_of_instructions(version: int) -> None:
    path = DATA / f"inlined.dwarf{version}.hsaco"
    program = load_code_object(path.read_bytes(), path.name)
    source = (DATA / "inlined.c").read_text().splitlines()
    one = next(f for f in program.kernels if f.name == "one")
    fma = [i for i in one.instructions if i.mnemonic.startswith(("v_fma", "v_pk_fma"))]
    assert fma
    for instruction in fma:
        loc = instruction.loc
        assert loc is not None
        assert loc.file == "/src/inlined.c"
        assert "x * x" in source[loc.line - 1]
        assert loc.inlined_at is not None
        assert "outer(p[t], n) + inner" in source[loc.outermost.line - 1]


@pytest.mark.usefixtures("only_objdump")
def test_text_and_code_object_of_one_compile_agree(tmp_path: Path) -> None:
    llc, ld = shutil.which("llc-22"), shutil.which("ld.lld-22")
    if llc is None or ld is None:
        pytest.skip("LLVM 22 is not installed")
    for arch in ("gfx906", "gfx90a", "gfx950", "gfx1030", "gfx1201", "gfx1250"):
        made, linked, text = (tmp_path / f"{arch}.{e}" for e in ("o", "hsaco", "s"))
        for kind, target in (("obj", made), ("asm", text)):
            command = [llc, f"-mcpu={arch}", f"-filetype={kind}", DATA / "two.ll", "-o", target]
            subprocess.run(command, check=True, timeout=60)
        subprocess.run([ld, "-shared", made, "-o", linked], check=True, timeout=60)
        stated = parse_text(text.read_text(), text.name)
        binary = load_code_object(linked.read_bytes(), linked.name)
        assert binary.arch == stated.arch == arch
        there = {f.name: f for f in binary.functions}
        for function in stated.functions:
            other = there[function.name]
            assert [i.mnemonic for i in function.instructions] == [
                i.mnemonic for i in other.instructions
            ]
            assert len(function.loops) == len(other.loops)
            if function.is_kernel:
                assert compare(function.resources, other.resources) == ()


@pytest.mark.usefixtures("only_objdump")
def test_unknown_words_are_a_note() -> None:
    code = read(DATA / "two.gfx942.hsaco")
    start = next(f for f in code.functions if f.name == "second")
    section = code.elf.section(".text")
    assert section is not None
    at = section.offset + start.address - section.address
    data = code.elf.data[:at] + b"\xff" * 4 + code.elf.data[at + 4 :]
    program = load_code_object(data, "x.hsaco")
    (note,) = program.notes
    assert note.startswith("1 words of code are unknown to ")


def test_resources_without_disassembly() -> None:
    path = DATA / "two.gfx942.hsaco"
    program = resources_only(path.read_bytes(), path.name)
    assert {f.name for f in program.kernels} == {"first", "second"}
    assert all(not f.instructions for f in program.functions)
    assert any("not disassembled" in n for n in program.notes)
    assert {f.name: f.resources for f in program.kernels} == dict(read(path).kernels)


@pytest.mark.usefixtures("only_objdump")
def test_several_code_objects_need_a_choice() -> None:
    images = [
        (b"hipv4-amdgcn-amd-amdhsa--gfx942", (DATA / "two.gfx942.hsaco").read_bytes()),
        (b"hipv4-amdgcn-amd-amdhsa--gfx1201", (DATA / "two.gfx1201.hsaco").read_bytes()),
    ]
    header = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", 2)
    size = len(header) + sum(24 + len(t) for t, _ in images)
    table = body = b""
    for triple, image in images:
        table += struct.pack("<QQQ", size + len(body), len(image), len(triple)) + triple
        body += image
    data = header + table + body
    with pytest.raises(KinspectError, match=r"2 code objects \(gfx942, gfx1201\)"):
        load_code_object(data, "fat")
    assert load_code_object(data, "fat", "gfx1201").arch == "gfx1201"
    loaded = load_images(data, "fat")
    assert [i.program.arch for i in loaded] == ["gfx942", "gfx1201"]
    assert loaded[0].program.name != loaded[1].program.name
    with pytest.raises(KinspectError, match=r"no code for gfx90a") as caught:
        load_code_object(data, "fat", "gfx90a")
    assert "gfx942" in caught.value.hint


def test_without_a_disassembler_an_object_still_has_its_metadata(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Older LLVMs know no gfx950: registers and LDS do not need one, counts are unknown."""
    whole = analysis.analyze_code_object(
        (DATA / "two.gfx942.hsaco").read_bytes(), Context("two.hsaco")
    )
    monkeypatch.setattr("kinspect.inspector.isa.objects.disasm.find_disassemblers", lambda: ())
    bare = analysis.analyze_code_object(
        (DATA / "two.gfx942.hsaco").read_bytes(), Context("two.hsaco")
    )
    assert [one.name for one in bare] == [one.name for one in whole]
    for one, other in zip(bare, whole, strict=True):
        for name in ("vgpr_count", "sgpr_count", "scratch_bytes", "code_bytes"):
            assert one.metrics[name] == other.metrics[name]
        assert one.metrics["instruction_count"].value is None
        assert {finding.rule for finding in one.findings} <= {"KI128"}  # of registers alone
        assert any("no disassembler found" in note for note in one.notes)
