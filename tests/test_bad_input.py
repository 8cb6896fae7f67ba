"""What users get wrong: one clear line on stderr, exit status 2, everything else still reported."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from emulated import KERNEL
from kinspect.inspector.cli.main import main
from kinspect.inspector.isa.dataflow.operands import parse_operand
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context

Tool = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).parent.parent
GOOD_CASE = """
import triton
import triton.language as tl

@triton.jit
def copy_kernel(src, dst, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst + at, tl.load(src + at, mask=at < n), mask=at < n)

SIGNATURE = {"src": "*fp32:16", "dst": "*fp32:16", "n": "i32:16"}
KINSPECT_CASES = [
    {"name": "good", "kernel": "copy_kernel", "signature": SIGNATURE, "constexprs": {"BLOCK": 256}},
]
"""


@pytest.fixture
def tool(tool_in_process: Tool) -> Tool:
    return tool_in_process


def one_line(done: subprocess.CompletedProcess[str], *needles: str) -> None:
    """Exactly one diagnostic, with at most one command below, naming what it should; status 2."""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert done.returncode == 2, done.stderr
    assert len([line for line in lines if not line.startswith("  ")]) == 1, done.stderr
    assert len(lines) <= 2, done.stderr
    assert lines[0].startswith("kinspect: error: ")
    for needle in needles:
        assert needle in done.stderr, (needle, done.stderr)
    assert "Traceback" not in done.stderr


def test_missing_file_names_the_nearest(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "gemm.s").write_text("")
    one_line(tool("analyze", "gem.s"), "gem.s: no such file", "gemm.s?")


def test_folder_without_kernels(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "helper.py").write_text("print('not a kernel')\n")
    one_line(tool("analyze", "empty"), "empty: no kernels in this folder")


def test_unknown_arch_names_the_nearest(tool: Tool, small_asm: Path) -> None:
    one_line(tool("analyze", small_asm, "--arch", "gfx924"), "gfx924", "gfx942")


def test_unknown_suffix(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    one_line(tool("analyze", "notes.txt"), "notes.txt: not a kind of file")


def test_unknown_option_and_command(tool: Tool) -> None:
    one_line(tool("analyze", "--frobnicate"), "--frobnicate")
    one_line(tool("analyse-it"), "analyse-it")


@pytest.mark.parametrize("cut", [4, 16, 52, 64, 200])
def test_truncated_elf(tool: Tool, tmp_path: Path, cut: int) -> None:
    header = b"\x7fELF\x02\x01\x01\x40\x03" + b"\0" * 7 + b"\x03\0\xe0\0\x01\0\0\0" + b"\xff" * 400
    (tmp_path / "bad.hsaco").write_bytes(header[:cut])
    one_line(tool("analyze", "bad.hsaco"), "bad.hsaco")


def test_elf_of_another_machine(tool: Tool) -> None:
    done = tool("analyze", Path(sys.executable).resolve())
    # A Python without a suffix is still recognised as ELF by its first bytes.
    one_line(done, "python")


def test_a_link_to_nothing_is_no_misspelt_name(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "k.s").symlink_to("gone.s")
    done = tool("analyze", "k.s")
    one_line(done, "k.s: a link to gone.s, which is not there")
    assert "did you mean" not in done.stderr


def test_binary_assembly(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "bin.s").write_bytes(bytes(range(256)) * 100)
    one_line(tool("analyze", "bin.s"), "bin.s", "binary")


def test_huge_assembly(tool: Tool, tmp_path: Path) -> None:
    with (tmp_path / "huge.s").open("wb") as stream:
        stream.truncate(100 << 20)
    one_line(tool("analyze", "huge.s"), "huge.s", "100 MiB")


def test_assembly_for_another_target(tool: Tool, tmp_path: Path, small_asm: Path) -> None:
    one_line(tool("analyze", small_asm, "--arch", "gfx90a"), "small.s", "gfx942", "gfx90a")
    (tmp_path / "host.s").write_text("\t.text\nmain:\n\tpushq %rbp\n\tmovq %rsp, %rbp\n\tretq\n")
    one_line(tool("analyze", "host.s"), "host.s")
    (tmp_path / "k.s").write_text(
        ".version 8.0\n.target sm_90\n.visible .entry k()\n{\n  ret;\n}\n"
    )
    one_line(tool("analyze", "k.s"), "k.s")


def test_damaged_report_and_archive(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"schema_version": 1, "kernels": 3}')
    one_line(tool("analyze", "r.json"), "r.json", "damaged")
    (tmp_path / "x.json").write_text("[1, 2]")
    one_line(tool("analyze", "x.json"), "x.json", "not a kinspect report")
    (tmp_path / "a.kinspect").write_bytes(b"PK\x03\x04 nonsense")
    one_line(tool("analyze", "a.kinspect"), "a.kinspect")


def test_syntax_error_names_the_line(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text("import triton\n@triton.jit\ndef k(x:\n    pass\n")
    one_line(tool("analyze", "k.py"), "k.py:3", "never closed")


def test_file_that_states_no_cases(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(GOOD_CASE.split("SIGNATURE")[0])
    one_line(tool("analyze", "k.py"), "k.py", "copy_kernel", "KINSPECT_CASES")


def test_triton_not_installed(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(GOOD_CASE)
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    done = tool("analyze", "k.py", "--python", bare / "bin" / "python")
    one_line(done, "triton", "python -m pip install triton")


def test_one_kernel_fails_the_other_is_reported(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(
        GOOD_CASE
        + """
@triton.jit
def broken_kernel(src, dst, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(dst + at, tl.load(src + at) + tl.undefined_thing(at))

KINSPECT_CASES.append(
    {"name": "bad", "kernel": "broken_kernel", "signature": SIGNATURE, "constexprs": {"BLOCK": 256}}
)
KINSPECT_CASES.append(
    {"name": "misspelt", "kernel": "copy_kernel", "signature": {**SIGNATURE, "m": "i32"},
     "constexprs": {"BLOCK": 256}}
)
"""
    )
    done = tool("analyze", "k.py", "--format", "json", "--details")
    assert done.returncode == 2
    report = json.loads(done.stdout)
    assert [k["variant"]["case"] for k in report["kernels"]] == ["good"]
    assert len(report["errors"]) == 2
    assert any("undefined_thing" in e["message"] for e in report["errors"])
    assert any("m" in e["message"] and "misspelt" in e["message"] for e in report["errors"])
    assert len(done.stderr.strip().splitlines()) == 2


def test_script_that_exits_or_prints(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "exits.py").write_text(
        "import os, triton\n@triton.jit\ndef k(): pass\nos._exit(3)\n"
    )
    one_line(tool("analyze", "exits.py"), "exits.py", "status 3")
    (tmp_path / "noisy.py").write_text("print('{\"noise\": 1}')\n" + GOOD_CASE)
    done = tool("analyze", "noisy.py", "--format", "json", "--details")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kernels"]


def test_nothing_half_written_stays(tool: Tool, tmp_path: Path) -> None:
    """A failing compile leaves no entry, and --output no partial file."""
    (tmp_path / "k.py").write_text(
        GOOD_CASE.replace('"BLOCK": 256}', '"BLOCK": 256}, "options": {"num_warps": 3}')
    )
    cache = tmp_path / "cache"
    done = tool("analyze", "k.py", env={"KINSPECT_CACHE_DIR": str(cache)})
    assert done.returncode == 2
    assert not [p for p in cache.glob("artifacts-*/**/*") if p.is_file()]
    assert not list((cache / "staging").glob("*")) if (cache / "staging").exists() else True
    done = tool("analyze", "missing.s", "-o", "out.json", "--format", "json", "--details")
    assert done.returncode == 2
    assert not (tmp_path / "out.json").exists()
    assert not list(tmp_path.glob(".out*"))


@pytest.mark.parametrize("group", ["rules", "env", "profile"])
def test_a_group_without_a_command_shows_its_help(tool: Tool, group: str) -> None:
    done = tool(group)
    assert done.returncode == 2
    assert done.stderr.startswith(f"Usage: kinspect {group}")
    assert len(done.stderr.splitlines()) > 5
    assert "error" not in done.stderr


def test_instructions_with_too_few_operands() -> None:
    code = """
    global_load_dword v1
    scratch_store_dword
    v_div_fixup_f32 v1, v2, v3
    v_div_fixup_f32
    v_cvt_f64_f32_e32
    v_exp_f32
    v_sqrt_f32
    v_mul_f64 v[4:5]
.Lloop:
    ds_read_b32 v1
    ds_write_b32
    s_load_dword s2
    global_atomic_cmpswap v1
    v_cndmask_b32_e32
    s_cbranch_scc1 .Lloop
    """
    for arch in ("gfx942", "gfx1100"):
        (kernel,) = analyze_text(KERNEL.format(arch=arch, code=code), Context("k.s"))
        assert kernel.metrics["division.outside"].value is not None


@pytest.mark.parametrize("lanes", ["0", "16", "4294967296"])
def test_a_wave_has_32_or_64_lanes(small_asm: Path, lanes: str) -> None:
    """What else the metadata says is no size of a wave: the directives and the target tell."""
    text = small_asm.read_text().replace(".wavefront_size: 64", f".wavefront_size: {lanes}")
    (kernel,) = analyze_text(text, Context("k.s"))
    assert kernel.metrics["wave_size"].value in (None, 64)


def test_numbers_with_zeros_in_front() -> None:
    """LLVM reads them as octal, and no number that is none."""
    assert parse_operand("042", 0).integer == 0o42
    assert parse_operand("-0x10", 0).integer == -16
    assert parse_operand("0", 0).integer == 0
    assert parse_operand("08", 0).kind == "none"
    code = """
    v_mov_b32_e32 v1, 08
    s_waitcnt vmcnt(08)
    """
    analyze_text(KERNEL.format(arch="gfx942", code=code), Context("k.s"))


def test_registers_that_no_target_has() -> None:
    """Sets of registers have a bit for each: such a number would take gigabytes."""
    for text in ("v[0:2147483648]", "v4000000000", "s[8:5]", "a[0:999999]"):
        assert parse_operand(text, 256).kind == "none"
    assert parse_operand("a[0:31]", 256).rows == range(256, 288)
    code = """
    v_mov_b32_e32 v[0:2147483648], 0
    global_load_dword v[5:3], v[0:2147483648], s[0:900000000]
    global_atomic_add v[0:999999999], v1, s[2:3]
    """
    analyze_text(KERNEL.format(arch="gfx942", code=code), Context("k.s"))


@pytest.mark.parametrize("name", ["x" * 300, "a/" * 3_000 + "k.s"], ids=["long", "deep"])
@pytest.mark.parametrize(
    "words",
    [
        *("analyze", "lint", "show", "layout", "tui", "passes", "sweep --set num_warps=4"),
        *("report -o out", "profile import", "fault import", "kernels show", "check", "emulate"),
    ],
)
def test_a_name_too_long_for_a_file_is_no_bug(
    capfd: pytest.CaptureFixture[str], words: str, name: str
) -> None:
    assert main([*words.split(), name]) == 2
    error = capfd.readouterr().err
    assert error.count("\n") == 1
    assert f"a name of {len(name):,} characters; no file's is so long" in error or (
        words == "tui" and "terminal" in error
    )


@pytest.mark.parametrize("name", ["--python=./evil.s", "--output=x.s", "evil.py::x.s"])
def test_a_files_name_is_no_option_and_names_no_other_file(
    name: str, tmp_path: Path, tool: Tool
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("s_endpgm\n")
    (tmp_path / "evil.py").write_text("open('canary', 'w')")
    (tmp_path / "t.ttir").touch()
    done = tool("lint", "t.ttir", name, cwd=tmp_path)
    assert done.returncode == 2
    assert name.partition("=")[0].rpartition("/")[2] in done.stderr
    assert not list(tmp_path.rglob("canary"))


@pytest.mark.parametrize(
    ("words", "folder", "refused"),
    [
        ("record sh u.s", False, True),
        ("record sh u.s", True, True),
        ("record sh ./u.s", False, True),
        ("-- record sh u.s", False, True),
        ("record -- sh u.s", False, False),
        ("profile sh u.s", True, True),
        ("fault sh u.s", False, True),
        ("lint k.s", False, True),
        ("lint --select KI001 sub/k.s", False, True),
        ("lint k.s -- sh", False, True),
        ("lint k.s", True, False),
        # They run files that `analyze *` does not: Inductor's output_code.py, say.
        ("emulate k.s", True, True),
        ("check k.s", True, True),
        ("bench k.s", True, True),
        ("lint ./k.s", False, False),
        ("lint .", False, False),
        ("metrics list", False, False),
        ("-- lint", False, False),
    ],
)
def test_a_files_name_before_others_is_no_command(
    words: str, folder: bool, refused: bool, tmp_path: Path, tool: Tool
) -> None:
    """As a shell's * names them."""
    args = words.split()
    name = args[args[0] == "--"]
    if folder:
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sh").touch()
    (tmp_path / "u.s").write_text("touch canary")
    for place in (tmp_path, tmp_path / "sub"):
        shutil.copy(ROOT / "tests" / "data" / "small_gfx942.s", place / "k.s")
    done = tool(*args, cwd=tmp_path)
    assert ("a command, and the name of a file here" in done.stderr) is refused, done.stderr
    assert (tmp_path / "canary").exists() is (words == "record -- sh u.s")
    if refused:
        one_line(done, f"./{name}")


def test_two_dashes_that_are_a_file_end_no_options(tmp_path: Path, tool: Tool) -> None:
    for name in ("--", "record", "sh"):
        (tmp_path / name).touch()
    one_line(tool("--", "record", "sh", cwd=tmp_path), "write ./--")


def test_a_file_with_colons_in_its_name_is_said_to_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    small = (Path(__file__).parent / "data" / "small_gfx942.s").read_text()
    (tmp_path / "folder" / "two::colons").mkdir(parents=True)
    for name in ("k.s", "x::y.s", "two::colons/z.s"):
        (tmp_path / "folder" / name).write_text(small)
    monkeypatch.chdir(tmp_path)
    assert main(["analyze", "folder/x::y.s"]) == 2
    assert "folder/x::y.s: a name with ::" in capfd.readouterr().err
    assert main(["analyze", "folder"]) == 2
    out, err = capfd.readouterr()
    assert "small" in out, "the other file is reported"
    assert re.findall(r"^kinspect: error: (folder/\S*::\S*): read: a name with ::", err, re.M) == [
        "folder/x::y.s",
        "folder/two::colons/z.s",
    ]


@pytest.mark.parametrize("number", ["inf", "1e30"])
@pytest.mark.parametrize(
    "words",
    [
        *("try k.py --budget N", "analyze k.py --time-limit N"),
        "analyze t.py --capture-limit N --memory-limit N --emulate-budget N",
    ],
)
def test_no_number_of_seconds_is_too_large(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    shared_guests: None,
    words: str,
    number: str,
) -> None:
    (tmp_path / "k.py").write_text(GOOD_CASE)
    (tmp_path / "t.py").write_text("print('ran')\n")
    monkeypatch.chdir(tmp_path)
    main(words.replace("N", number).split())
    out, err = capfd.readouterr()
    assert "internal error" not in err
    assert "OverflowError" not in out + err
    assert "is not a number" not in err
    assert "ran" in err or "copy_kernel" in out or " tried in " in out


@pytest.mark.parametrize(
    "words",
    [
        *("try k.py --budget", "analyze k.py --time-limit", "analyze k.py --capture-limit"),
        *("analyze k.py --memory-limit", "analyze k.py --emulate-budget"),
    ],
)
def test_what_is_no_number_is_no_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: str
) -> None:
    (tmp_path / "k.py").write_text(GOOD_CASE)
    monkeypatch.chdir(tmp_path)
    main([*words.split(), "nan"])
    out, err = capfd.readouterr()
    assert "internal error" not in err
    assert "OverflowError" not in out + err
    assert "is not a number" in err
