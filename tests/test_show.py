"""`kinspect show`: a kernel's code with marks, and as it is."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.explain.registers_view import pressure_bar, steps_text
from kinspect.inspector.metrics.line_bounds import register_pressure
from kinspect.inspector.model import RegisterPressure
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context

pytestmark = pytest.mark.usefixtures("shared_guests")

DATA = Path(__file__).parent / "data"
SMALL = DATA / "small_gfx942.s"
ATTEND = DATA / "isa" / "attend.triton39.gfx950.amdgcn"
LLVM_MC = shutil.which("llvm-mc-22")
SCRIPT = """
import torch
import triton
import triton.language as tl

@triton.jit
def twice(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)

twice[(1,)](torch.ones(384, device="cuda"), 384, BLOCK=256)
"""


@pytest.fixture
def tool(tool_in_process: Callable[..., Any]) -> Callable[..., Any]:
    return tool_in_process


@pytest.fixture
def script(tmp_path: Path) -> Path:
    pytest.importorskip("triton")
    path = tmp_path / "twice.py"
    path.write_text(SCRIPT)
    return path


def shown(tool: Callable[..., Any], *arguments: str | Path) -> str:
    done = tool("show", *arguments)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def test_each_instruction_has_its_registers_loop_and_rules(tool: Callable[..., Any]) -> None:
    lines = shown(tool, SMALL).splitlines()
    assert lines[1].split() == ["line", "VGPR+AGPR", "loop", "rule"]
    by_number = {line.split()[0]: line for line in lines[2:] if line[:4].strip().isdigit()}
    assert by_number["16"].split()[1] == "6+16"  # counted by hand in test_live_registers.py
    assert " L0 " in by_number["16"]
    assert "✗ KI001" in by_number["22"]
    assert "scratch_store_dword off, v20" in by_number["22"]
    assert " L0 " not in by_number["32"]
    # Only the kernel, not what comes after it.
    assert ".amdhsa_" not in "".join(lines)
    assert any("KI001  2 lines: 1 load and 1 store of spilled" in line for line in lines)


def test_json_has_the_same(tool: Callable[..., Any]) -> None:
    document = json.loads(shown(tool, SMALL, "--format", "json", "--lines", "16:22"))
    assert document["kind"] == "amdgcn"
    assert [line["line"] for line in document["lines"]] == [*range(16, 23)]
    load, spill = document["lines"][0], document["lines"][-1]
    # On a file for both kinds AGPRs begin at a multiple of four.
    assert (load["vgprs"], load["agprs"], load["registers"]) == (6, 16, 24)
    assert (spill["loop"], spill["rules"]) == ("L0", ["KI001"])
    assert document["levels"][0] == {"waves_per_eu": 8, "registers": 64}


def test_plain_text_is_the_file(tool: Callable[..., Any]) -> None:
    assert shown(tool, SMALL, "--plain") == SMALL.read_text()
    part = "".join(SMALL.read_text().splitlines(keepends=True)[15:18])
    assert shown(tool, SMALL, "--plain", "--lines", "16:18") == part
    assert shown(tool, SMALL, "--plain", "--lines", "16") == part.splitlines(keepends=True)[0]


@pytest.mark.skipif(LLVM_MC is None, reason="no llvm-mc")
def test_an_assembler_takes_it(tool: Callable[..., Any], script: Path, tmp_path: Path) -> None:
    text, assembled = tmp_path / "twice.s", tmp_path / "twice.o"
    lines = shown(tool, script, "--plain").splitlines()
    # Triton's LLVM is newer than this one and names the target otherwise.
    text.write_text("\n".join(line for line in lines if ".amdgcn_target" not in line) + "\n")
    assemble = [str(LLVM_MC), "-triple=amdgcn-amd-amdhsa", "-mcpu=gfx942", "-filetype=obj"]
    subprocess.run([*assemble, text, "-o", assembled], check=True)
    # What an object holds is printed as its disassembly.
    assert "s_endpgm" in shown(tool, assembled)
    assert "s_endpgm" in shown(tool, assembled, "--plain")


def test_the_irs_have_lines_of_the_source(tool: Callable[..., Any], script: Path) -> None:
    for flag, operation in (("--ttir", "tt.load"), ("--ttgir", "load"), ("--llir", "load")):
        text = shown(tool, script, flag)
        assert any(operation in line and " 9 " in line[:16] for line in text.splitlines()), text
    assert "tt.func" in shown(tool, script, "--ttir", "--plain", "--lines", "5:6")


def test_debug_directives_are_left_out_unless_lines_are_named(tool: Callable[..., Any]) -> None:
    everything = ATTEND.read_text().splitlines()
    directive = next(number for number, text in enumerate(everything, 1) if "\t.loc" in text)
    assert ".loc" not in shown(tool, ATTEND)
    assert ".loc" in shown(tool, ATTEND, "--lines", f"{directive}:{directive}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ttgir"], "There is no TTGIR beside small_gfx942.s; there is --isa"),
        (["--ttir"], "There is no TTIR of small; there is --isa"),
        (["--plain", "--llir"], "There is no LLVM IR beside small_gfx942.s; there is --isa"),
        (["--lines", "9000:"], "--lines 9000: the text has"),
        (["--lines", "9:3"], "line 3 comes before line 9"),
        (["--lines", "x"], "'x' is not A:B"),
        (["--kernel", "absent"], "absent"),
    ],
)
def test_what_is_not_there_is_an_error(
    arguments: list[str], message: str, tool: Callable[..., Any]
) -> None:
    done = tool("show", SMALL, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert [line[:2] for line in done.stderr.strip().splitlines()] in (["ki"], ["ki", "  "])


def test_one_of_several_kernels_is_chosen(tool: Callable[..., Any], script: Path) -> None:
    script.write_text(SCRIPT + SCRIPT.splitlines()[-1].replace("256", "512") + "\n")
    done = tool("show", script)
    assert "it has 2 kernels; choose one" in done.stderr
    assert "BLOCK=512" in done.stderr
    assert shown(tool, script, "--case", "512").startswith("twice  gfx942  ISA")


PRESSURE = RegisterPressure(
    counts=((1, 8, 0), (2, 16, 0)), needs=(8, 16), allocated=16, levels=((8, 8), (4, 16)),
    level=(4, 16), next_level=(8, 8), excess=8,
)  # fmt: skip


def test_a_bar_ends_at_the_need_and_shows_budgets_behind_it() -> None:
    assert pressure_bar(2, PRESSURE, 8) == "█   ┊   "
    assert pressure_bar(3, PRESSURE, 8) == "█▌  ┊   "
    assert pressure_bar(16, PRESSURE, 8) == "█" * 8
    assert pressure_bar(0, PRESSURE, 4) == "  ┊ "


def test_steps_with_agprs_are_those_of_the_common_file() -> None:
    (kernel,) = analyze_text(SMALL.read_text(), Context(str(SMALL)))
    pressure = register_pressure(kernel)
    assert pressure is not None
    assert pressure.allocated == 24 + 16  # up to the AGPRs, and those
    assert "40 VGPRs with AGPRs admit 8 waves/SIMD" in steps_text(pressure, has_agprs=True)
    # 100 VGPRs and 40 AGPRs: too many for 4 waves/SIMD, of which each has 128 of the 512.
    text = SMALL.read_text().replace("agpr_count:     16", "agpr_count:     40")
    text = text.replace("vgpr_count:     40", "vgpr_count:     140")
    text = text.replace("next_free_vgpr 40", "next_free_vgpr 140")
    text = text.replace("accum_offset 24", "accum_offset 100")
    (larger,) = analyze_text(text, Context(str(SMALL)))
    pressure = register_pressure(larger)
    assert pressure is not None
    assert pressure.next_level == (4, 128)
    assert steps_text(pressure, has_agprs=True) == (
        "140 VGPRs with AGPRs admit 3 waves/SIMD (up to 168); 4 waves/SIMD need 128 at most: no "
        "more than are live, only the allocation is above"
    )
