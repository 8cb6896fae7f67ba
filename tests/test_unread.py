"""Code that is not read, or not followed: nothing is concluded from what was not seen in it."""

from __future__ import annotations

import io
import json
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from kinspect.inspector.base import named_files
from kinspect.inspector.cli.group import cli
from kinspect.inspector.isa.asm.units import includes_beside, is_binary
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.objects import disasm
from kinspect.inspector.isa.objects.codeobject import read_code_object
from kinspect.inspector.isa.objects.load import load_code_object
from kinspect.inspector.lint.nodes import ANYTHING, Interval, apply_to_bounds
from kinspect.inspector.model import Function, KernelReport, Report
from kinspect.inspector.pipeline.analysis import analyze_code_object, analyze_text
from kinspect.inspector.pipeline.analysis_options import Context, Overrides
from kinspect.inspector.present.report import write_markdown, write_text
from kinspect.inspector.report import json_write as json_v1
from kinspect.inspector.report.json_read import SavedReport

DATA = Path(__file__).parent / "data" / "isa"
MC, LD, OBJDUMP = (shutil.which(f"{tool}-22") for tool in ("llvm-mc", "ld.lld", "llvm-objdump"))
needs_llvm = pytest.mark.skipif(
    MC is None or LD is None or OBJDUMP is None, reason="LLVM 22 is not installed"
)

HEAD = """.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
.globl k
.p2align 8
.type k,@function
"""
TAIL = """
.section .rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 8
.end_amdhsa_kernel
"""


def source(body: str) -> str:
    return f"{HEAD}k:\n{body}\n s_endpgm\n.size k, .-k\n{TAIL}"


def report(body: str, path: str = "k.s") -> KernelReport:
    (found,) = analyze_text(source(body), Context(path))
    return found


def linked(assembly: str, folder: Path, *options: str) -> bytes:
    assert MC is not None
    assert LD is not None
    made, whole = folder / "k.o", folder / "k.hsaco"
    subprocess.run(
        [MC, "-triple=amdgcn-amd-amdhsa", "-mcpu=gfx942", "-filetype=obj", *options, "-o", made],
        input=assembly.encode(), check=True, timeout=60,
    )  # fmt: skip
    subprocess.run([LD, "-shared", made, "-o", whole], check=True, timeout=60)
    return whole.read_bytes()


def no_tools(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(disasm, "_ROCM_GLOB", "nothing-here/*")
    monkeypatch.setattr(disasm, "_wheel_installed", lambda: False)


# --------------------------------------------------------------------------- absence


HIDDEN = {
    "macro defined elsewhere": (" s_mov_b32 s0, 0\n STORE_TILE v0, v1", {"lines"}),
    "include": ('.include "store.inc"', {"include"}),
    "condition": (
        ".if WITH_STORE == 1\n global_store_dword v[0:1], v2, off\n.endif",
        {"condition"},
    ),
    "count": (".rept N_STORES\n v_nop\n.endr", {"expansion"}),
    "preprocessor": ('#include "store.h"\n v_nop', {"preprocessor"}),
    "data": (" v_nop\n.byte 0, 1, 2, 3", {"words"}),
}


@pytest.mark.parametrize("kind", HIDDEN)
def test_what_was_not_read_may_access_memory(kind: str) -> None:
    body, kinds = HIDDEN[kind]
    found = report(body)
    assert {one.kind for one in found.unread} == kinds
    assert found.metrics["empty"].value is None
    assert found.metrics["lds_bytes"].value is None
    assert found.findings == ()
    for shown in (as_text(found), "\n".join(md_lines(found))):
        assert "no change is known" not in shown
        assert "compiled to nothing" not in shown
        assert "No loop;" not in shown
        assert "ot all of the code was read" in shown


def as_text(kernel: KernelReport) -> str:
    stream = io.StringIO()
    write_text(Report("t", {}, (kernel,), ()), stream, details=True)
    return stream.getvalue()


def md_lines(kernel: KernelReport) -> list[str]:
    stream = io.StringIO()
    write_markdown(Report("t", {}, (kernel,), ()), stream)
    return stream.getvalue().splitlines()


def test_what_was_read_in_whole_is_judged_as_before() -> None:
    found = report(" v_nop")
    assert found.unread == ()
    assert found.metrics["empty"].value is True
    assert "No loop;" in as_text(found)


def test_a_missing_wait_is_none_where_it_may_stand_in_a_macro() -> None:
    load, use = " global_load_dword v0, v[2:3], off", " v_add_u32 v1, v0, v0"
    assert "KI022" in [f.rule for f in report(f"{load}\n{use}").findings]
    hidden = report(f"{load}\n WAIT_FOR_LOADS\n{use}")
    assert hidden.findings == ()
    assert {wait.verdict for wait in hidden.waits} <= {None}


def test_a_jump_to_anywhere_leaves_counts_but_not_loops() -> None:
    found = report(" global_store_dword v[0:1], v2, off\n s_setpc_b64 s[2:3]\n v_nop")
    assert [one.kind for one in found.unread] == ["jump"]
    assert found.all_read
    assert found.metrics["empty"].value is False
    assert "No loop in what was read" in as_text(found)


def test_many_omissions_are_told_by_count() -> None:
    body = "\n".join(f".if FLAG{i} == 1\n v_nop\n.endif" for i in range(40))
    found = report(body)
    assert sum(one.count for one in found.unread) == 40
    assert "40 conditions that cannot be evaluated" in as_text(found)
    assert sum("cannot be evaluated" in note for note in found.notes) == 3


def test_lint_says_of_what_it_did_not_see_all(tmp_path: Path) -> None:
    body, _ = HIDDEN["condition"][:2]
    (tmp_path / "part.s").write_text(source(body))
    result = CliRunner().invoke(cli, ["lint", str(tmp_path / "part.s"), "--format", "json"])
    (note,) = json.loads(result.stdout)["notes"]
    assert note.startswith("not all of the code was read of k")


def test_unread_code_survives_a_saved_report() -> None:
    found = report(HIDDEN["include"][0])
    saved = json.dumps(json_v1.to_dict(Report("t", {}, (found,), ())))
    (again,) = SavedReport.open(saved, "saved").report().kernels
    assert again.unread == found.unread
    assert "unread" not in json.dumps(json_v1.to_dict(Report("t", {}, (report(" v_nop"),), ())))


@pytest.mark.parametrize(
    ("sign", "operands", "expected"),
    [
        ("<=", [Interval(40, float("inf")), 32], False),
        ("<=", [Interval(3, float("inf")), 32], None),
        ("==", [Interval(0, float("inf")), 0], None),
        ("==", [Interval(1, float("inf")), 0], False),
        (">", [Interval(1, float("inf")), 0], True),
        ("!=", [Interval(1, float("inf")), 0], True),
        ("<", [ANYTHING, 64], None),
        ("in", [Interval(1, 2), ("a",)], None),
        ("/", [Interval(1, 2), Interval(0, 4)], None),
    ],
)
def test_conditions_on_bounds(sign: str, operands: list[object], expected: bool | None) -> None:
    assert apply_to_bounds(sign, operands) is expected


def test_bounds_add_up() -> None:
    more = Interval(3, float("inf"))
    assert apply_to_bounds("min", [32, apply_to_bounds("*", [0.05, more])]) == Interval(
        3 * 0.05, 32
    )
    assert apply_to_bounds("*", [0, more]) == Interval(0, 0)
    assert apply_to_bounds("-", [10, more]) == Interval(-float("inf"), 7)
    assert apply_to_bounds("negative", [more]) == Interval(-float("inf"), -3)
    assert apply_to_bounds("/", [more, 2]) == Interval(1.5, float("inf"))


def test_a_finding_that_holds_all_the_same_is_made() -> None:
    spills = "\n".join(f" scratch_load_dword v{i % 8}, off, off offset:{4 * i}" for i in range(40))
    loop = f"loop:\n{spills}\n s_waitcnt vmcnt(0)\n UNKNOWN\n s_cbranch_scc0 loop"
    few = f"loop:\n{spills[:160]}\n s_waitcnt vmcnt(0)\n UNKNOWN\n s_cbranch_scc0 loop"
    assert "KI001" in [f.rule for f in report(loop).findings]  # 40, whatever else there is
    assert report(few).findings == ()  # "a few" may be many


# --------------------------------------------------------------------------- expansion


MACROS = """
.set twice, 2
.macro load dst:req, base=2, more:vararg
  global_load_dword v\\dst, v[\\base:\\base+1], off \\more
.endm
.macro each@count
.endm
.macro numbered
  s_cbranch_scc0 .Lskip\\@
  v_nop
.Lskip\\@:
.endm
.rept twice
  .rept 2
    load 0
  .endr
  load 1, 4, offset:16
.endr
.irp reg, 4, 5, 6
  v_mov_b32 v\\reg, 0
.endr
.irpc digit, 246
  ds_write_b32 v0, v\\digit
.endr
numbered
numbered
.ifc a,a
  ds_read_b32 v1, v0
.else
  v_nop
.endif
.ifdef twice
  .if twice == 3
    v_nop
  .elseif twice > 1
    buffer_store_dword v0, v1, s[0:3], 0 offen
  .else
    v_nop
  .endif
.endif
.altmacro
.macro raised reg, name
  v_add_u32 v&reg, v0, reg
  s_mov_b32 name, 1
.endm
.noaltmacro
.include "more.inc"
"""


@needs_llvm
def test_expansions_are_the_assemblers(tmp_path: Path) -> None:
    body = MACROS.replace(".macro each@count\n.endm\n", "").replace("v&reg", "v\\reg")
    body += "\n.altmacro\n raised %twice+1, <s9>\n.noaltmacro\n"
    (tmp_path / "more.inc").write_text(".rept 3\n global_store_dword v[0:1], v2, off\n.endr\n")
    (tmp_path / "k.s").write_text(source(body))
    made = linked(source(body), tmp_path, f"-I{tmp_path}")
    (theirs,) = load_code_object(made, "k").kernels
    named_files.allow_target(tmp_path / "k.s")
    program = parse_text(source(body), "k.s", includes_beside(tmp_path / "k.s"))
    (own,) = program.kernels
    assert own.unread == ()
    assert [i.op.name for i in own.instructions] == [i.op.name for i in theirs.instructions]
    assert [b.successors for b in own.blocks] == [b.successors for b in theirs.blocks]
    assert sum(i.cls == "global_store" for i in own.instructions) == 4


@pytest.fixture(autouse=True)
def nothing_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_files._Places, "folders", ())


@pytest.mark.parametrize(
    "name",
    ["../out.inc", "{folder}/out.inc", "link.inc", "sub/../../out.inc", "circle.inc", "a\0b"],
)
def test_nothing_outside_of_the_folder_is_read(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "out.inc").write_text(" global_store_dword v[0:1], v2, off\n")
    (folder / "sub" / "in.inc").write_text(" ds_write_b32 v0, v1\n")
    (folder / "link.inc").symlink_to(tmp_path / "out.inc")
    (folder / "circle.inc").symlink_to("circle.inc")
    path = folder / "k.s"
    include = name.format(folder=tmp_path)
    path.write_text(source(f'.include "{include}"\n.include "sub/in.inc"'))
    (unnamed,) = analyze_text(path.read_text(), Context(str(path)))
    assert [(one.kind, one.count) for one in unnamed.unread] == [("include", 1)] * 2
    assert not unnamed.memory_ops
    named_files.allow_target(path)
    (found,) = analyze_text(path.read_text(), Context(str(path)))
    assert [(one.kind, one.count) for one in found.unread] == [("include", 1)]
    assert [op.cls for op in found.memory_ops] == ["lds_write"]


def test_a_file_that_includes_itself_ends(tmp_path: Path) -> None:
    path = tmp_path / "k.s"
    path.write_text(source(' v_nop\n.include "k.s"'))
    named_files.allow_target(path)
    kernels = parse_text(path.read_text(), "k.s", includes_beside(path)).kernels
    assert "expansion" in {one.kind for found in kernels for one in found.unread}


# --------------------------------------------------------------------------- machine words


def as_words(code: bytes) -> tuple[str, str]:
    """A code object's kernel as words in a text, and its name."""
    found = read_code_object(code, "k")
    (symbol,) = [f for f in found.functions if f.name in found.kernels]
    section = found.elf.sections[symbol.section]
    start = symbol.address - section.address
    raw = found.elf.bytes_of(section)[start : start + symbol.size]
    words = struct.unpack(f"<{len(raw) // 4}I", raw)
    lines = [f".long 0x{a:08X}" for a in words]
    lines[1:3] = [f".long 0x{words[1]:08X}, 0x{words[2]:08X}"]
    body = "\n".join(lines)
    arch = f'.amdgcn_target "amdgcn-amd-amdhsa--{found.arch}"'
    return f"{arch}\n.text\n.globl k\n.type k,@function\nk:\n{body}\n{TAIL}", symbol.name


def shape(function: Function) -> object:
    return (
        [(i.op.name, i.cls) for i in function.instructions],
        [(b.start, b.successors) for b in function.blocks],
        [(x.header, x.blocks, x.depth) for x in function.loops],
    )


@needs_llvm
@pytest.mark.parametrize("path", sorted(DATA.glob("*gfx9*.hsaco")), ids=lambda p: p.name)
def test_words_are_the_instructions_that_they_encode(path: Path) -> None:
    code = path.read_bytes()
    written, name = as_words(code)
    (own,) = parse_text(written, "words").kernels
    theirs = next(f for f in load_code_object(code, "k").kernels if name in (f.name, f.symbol))
    assert own.instructions
    assert own.unread == ()
    assert shape(own) == shape(theirs)
    assert [i.line for i in own.instructions] == sorted(i.line for i in own.instructions)


def test_words_without_a_disassembler_are_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    no_tools(monkeypatch, tmp_path)
    body = ".long 0xDC708000, 0x007F0200\n.long 0x7E000280"  # a store, and a move
    found = report(body)
    assert [(one.kind, one.count) for one in found.unread] == [("words", 3)]
    assert found.metrics["empty"].value is None
    assert found.findings == ()
    assert any("no disassembler found" in note for note in found.notes)


def test_data_behind_the_code_is_none() -> None:
    (found,) = parse_text(
        source(" v_nop\n s_endpgm\ntable:\n.long 0x3F800000, 0x40000000\n.byte 1"), "k.s"
    ).kernels
    assert [i.mnemonic for i in found.instructions][:2] == ["v_nop", "s_endpgm"]
    assert ".long" not in [i.mnemonic for i in found.instructions]


def test_debug_sections_are_no_code() -> None:
    text_ = HEAD + "k:\n v_nop\n s_endpgm\n.section .debug_info\n.long 5\n.byte 1\n" + TAIL
    (found,) = parse_text(text_, "k.s").kernels
    assert found.unread == ()


@needs_llvm
def test_a_distance_added_up_in_a_third_register_is_followed(tmp_path: Path) -> None:
    """Tensile's long branch, as a disassembly shows it."""
    body = (
        "loop:\n v_nop\n s_cbranch_scc0 out\n s_getpc_b64 s[4:5]\n s_add_i32 s6, loop-after, 4\n"
        " s_add_u32 s4, s4, s6\n s_addc_u32 s5, s5, -1\n s_setpc_b64 s[4:5]\nout:\n"
    ).replace("loop-after", "0xfffffff0")
    (found,) = load_code_object(linked(source(body), tmp_path), "k").kernels
    assert found.unread == ()
    assert len(found.loops) == 1


# --------------------------------------------------------------------------- the entry


PRELOAD = (
    " s_trap 2 ; Kernarg preload header\n.fill 63, 4, 0xbf800000 ; s_nop 0\n"
    "loop:\n global_load_dword v0, v[2:3], off\n s_waitcnt vmcnt(0)\n"
    " global_store_dword v[2:3], v0, off\n s_cbranch_scc0 loop"
)


def test_the_kernel_begins_behind_the_preload_header() -> None:
    found = report(PRELOAD)
    assert [(x.id, x.depth) for x in found.loops] == [("L0", 1)]
    assert found.main_loop == "L0"
    assert found.unread == ()


@needs_llvm
def test_the_kernel_of_an_object_begins_behind_its_preload_header(tmp_path: Path) -> None:
    (found,) = load_code_object(linked(source(PRELOAD), tmp_path), "k").kernels
    (own,) = parse_text(source(PRELOAD), "k.s").kernels
    assert len(found.loops) == 1
    assert shape(found) == shape(own)


def test_a_trap_of_its_own_ends_the_wave() -> None:
    assert report(" s_trap 2\nloop:\n v_nop\n s_cbranch_scc0 loop").loops == ()


# --------------------------------------------------------------------------- hot loops


def test_a_cycle_with_two_entries_is_the_hot_loop() -> None:
    """A scalar loop stands before the real one, which is entered at its middle."""
    found = report(
        "count:\n s_add_u32 s0, s0, 1\n s_cmp_lt_u32 s0, 4\n s_cbranch_scc1 count\n"
        " s_cbranch_scc0 middle\n"
        "first:\n v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]\n"
        "middle:\n ds_read_b64 v[16:17], v20\n s_waitcnt lgkmcnt(0)\n s_cbranch_scc1 first"
    )
    main = next(loop for loop in found.loops if loop.id == found.main_loop)
    assert main.irreducible
    assert main.metrics["count.mfma"].value == 1
    assert main.metrics["count.lds_read"].value == 1
    assert [loop.hot for loop in found.loops] == [False, True]
    assert "irreducible" in json.dumps(json_v1.to_dict(Report("t", {}, (found,), ())))


def test_a_loop_that_multiplies_is_hot_whatever_small_loop_stands_in_it() -> None:
    found = report(
        "outer:\n v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]\n"
        "inner:\n s_add_u32 s0, s0, 1\n s_cbranch_scc0 inner\n s_cbranch_scc1 outer"
    )
    assert [(loop.depth, loop.hot) for loop in found.loops] == [(1, True), (2, False)]


@pytest.mark.parametrize(("fillers", "hot"), [(4, [False, True]), (5, [True, False])])
def test_a_loop_in_it_that_moves_data_and_is_half_as_long_is_the_hot_one(
    fillers: int, hot: list[bool]
) -> None:
    own = " v_nop\n" * fillers  # a product, these and a branch: 6 or 7 against 3
    found = report(
        f"outer:\n v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]\n{own}"
        "inner:\n global_atomic_add_f32 v[20:21], v0, off\n s_add_u32 s0, s0, 1\n"
        " s_cbranch_scc0 inner\n s_cbranch_scc1 outer"
    )
    assert [loop.hot for loop in found.loops] == hot


# --------------------------------------------------------------------------- registers


TENSILE = (
    source(" v_mov_b32 v249, 0\n v_accvgpr_write_b32 a223, v249")
    .replace("next_free_vgpr 8", "next_free_vgpr 480")
    .replace("accum_offset 8", "accum_offset 256")
    + """.amdgpu_metadata
---
amdhsa.version: [1, 1]
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .args: []
    .group_segment_fixed_size: 1024
    .kernarg_segment_align: 8
    .kernarg_segment_size: 0
    .max_flat_workgroup_size: 256
    .private_segment_fixed_size: 0
    .sgpr_count: 16
    .vgpr_count: 250
    .wavefront_size: 64
...
.end_amdgpu_metadata
"""
)


def check_tensile(found: KernelReport, agprs: int | None) -> None:
    value = {name: metric.value for name, metric in found.metrics.items()}
    assert value["vgpr_count"] == value["vgpr_allocated"] == 480
    assert value["arch_vgpr_count"] == 250
    assert value["agpr_count"] == agprs
    assert value["occupancy.limiter"] == "vgpr"
    assert "waves_per_eu" not in as_text(found)


def test_a_count_without_agprs_is_told_from_one_with_them() -> None:
    (found,) = analyze_text(TENSILE, Context("k.s"))
    check_tensile(found, 224)


@needs_llvm
def test_the_descriptor_says_what_the_note_leaves_out(tmp_path: Path) -> None:
    (found,) = analyze_code_object(linked(TENSILE, tmp_path), Context("k.hsaco"))
    check_tensile(found, None)  # the descriptor is rounded up


def test_a_request_beyond_the_use_names_no_option_that_was_not_given() -> None:
    inflated = TENSILE.replace(".vgpr_count: 250", ".vgpr_count: 100\n    .agpr_count: 0")
    (found,) = analyze_text(inflated, Context("k.s", overrides=Overrides(waves_per_workgroup=4)))
    assert found.metrics["occupancy.limiter"].value == "vgpr_request"
    assert "waves_per_eu" not in as_text(found)
    step = found.metrics["occupancy.next_step"].value
    assert isinstance(step, dict)
    assert step["resource"] == "vgpr_request"
    given = Context("k.s", metadata={"waves_per_eu": 1, "shared": 1024, "num_warps": 4})
    (found,) = analyze_text(inflated, given)
    assert found.metrics["occupancy.limiter"].value == "waves_per_eu"


def test_a_target_without_a_machine_file_is_read_without_limits() -> None:
    text_ = source(" global_store_dword v[0:1], v2, off").replace("gfx942", "gfx1310")
    (found,) = analyze_text(text_, Context("k.s"))
    value = {name: metric.value for name, metric in found.metrics.items()}
    assert value["count.global_store"] == 1
    for name in ("vgpr_limit", "vgpr_allocated", "lds_limit", "occupancy.waves_per_eu"):
        assert value[name] is None


# --------------------------------------------------------------------------- what is AMDGCN


def test_macros_of_other_files_do_not_hide_whose_assembly_it_is() -> None:
    """MIOpen's kernels: directives in conditions without a value, macros in other files."""
    body = "\n".join(f" static_assert (x{i} == {i})" for i in range(20))
    text_ = (
        ".if VERSION == 4\n.hsa_code_object_version 2,1\n.endif\n.text\n.globl k\n"
        f".type k,@function\nk:\n{body}\n s_mov_b32 s0, 0\n buffer_store_dword v0, v1, s[0:3], 0\n"
    )
    (found,) = analyze_text(text_, Context("k.s"))
    assert found.metrics["count.global_store"].value == 1
    assert {one.kind for one in found.unread} == {"condition", "lines"}


def test_a_few_nuls_do_not_make_a_file_binary() -> None:
    comment = b"\t.byte 5 ; Abbrev [\0] 0x1:0x2 DW_TAG\n"
    assert not is_binary(source(" v_nop").encode() * 5 + comment)
    assert is_binary(b"\x7fELF" + bytes(60) + b"code")
    assert not is_binary(b"")
    assert re.search(r"\S", source(""))
