"""Names of some thousand characters, of a template library's kernels, in what people read."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from emulated import KERNEL
from kinspect.inspector.base.errors import in_lines
from kinspect.inspector.base.long_names import MOST_NAME, shortened, with_short_names
from profile_bases import write_rocpd
from profile_files import Kernel, Launch, Program

Tool = Callable[..., subprocess.CompletedProcess[str]]

SIZES = ", ".join(f"ck::Sequence<{n}, 64, 8>" for n in range(120))
LONG = f"ck::kernel_gemm<ck::Gridwise<{SIZES}>, (ck::Operation)0, 2>(ck::Argument<float>*)"
MANGLED = "_ZN2ck11kernel_gemmI" + "N2ck8SequenceIJLi64ELi32EEEE" * 120 + "EEvT_"
WIDEST = 2 * MOST_NAME
"""Of a line with a name and figures."""


@pytest.mark.parametrize("name", [LONG, MANGLED])
def test_a_name_is_cut_in_its_sentence(name: str) -> None:
    cut = shortened(name, MOST_NAME)
    assert len(cut) == MOST_NAME
    assert (
        with_short_names(f"void {name}: no time; see {name}.") == f"void {cut}: no time; see {cut}."
    )


@pytest.mark.parametrize(
    "text",
    [
        f"a sentence of many words, {'which holds no name ' * 20}",
        f"x < y, {'a comparison, ' * 20} and f<int>(a > b)",
        f"{'gemm<128, float>(float*), ' * 20}",
        f"{'/a/long/path' * 20}/k.hip:{'9' * 12}",
        f"unbalanced<{'ck::Sequence<1, ' * 20}",
        "",
    ],
)
def test_what_is_no_long_name_stays(text: str) -> None:
    assert with_short_names(text) == text


def test_an_error_that_quotes_a_file_is_cut() -> None:
    line = in_lines(f"{'a/*/' * 20_000}: no pack", "name one")
    assert len(line) == 4_000
    assert line.endswith(": no pack; name one")


def test_a_command_keeps_its_name() -> None:
    line, command = in_lines(f"{LONG} was not found", f"try `kinspect show '{LONG}'`").split("\n")
    assert len(line) < WIDEST
    assert LONG in command


@pytest.mark.parametrize("command", ["analyze", "lint", "registers", "time"])
@pytest.mark.parametrize("form", ["text", "md", "agent"])
def test_lines_about_a_kernel(
    tool_in_process: Tool, tmp_path: Path, command: str, form: str
) -> None:
    text = KERNEL.format(arch="gfx942", code="  v_mov_b32 v1, 0")
    (tmp_path / "k.s").write_text(re.sub(r"\bk\b", MANGLED, text))
    if form != "text" and command in ("registers", "time"):
        pytest.skip("no such format")
    run = tool_in_process(command, "k.s", *(("--format", form) if form != "text" else ()))
    lines = (run.stdout + run.stderr).splitlines()
    assert command == "lint" or any("_ZN2ck11kernel_gemm" in line for line in lines)
    assert max(map(len, lines)) < WIDEST


def test_lines_about_a_recording(tool_in_process: Tool, tmp_path: Path) -> None:
    launches = [Launch(7, n + 1, 100 * n, 100 * n + 50) for n in range(3)]
    write_rocpd(tmp_path / "1_results.db", Program(kernels=[Kernel(LONG, 7)], launches=launches))
    for options in ((), ("--details",), ("--kernel", "nothing")):
        run = tool_in_process("profile", "import", "1_results.db", *options)
        assert max(map(len, (run.stdout + run.stderr).splitlines())) < WIDEST
    run = tool_in_process("profile", "import", "1_results.db", "--format", "json")
    assert LONG in json.dumps(json.loads(run.stdout))
