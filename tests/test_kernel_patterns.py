"""What --kernel selects: names, cases, and `name[case]` as reports print them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.capture import options as host
from kinspect.inspector.guest import kernel_patterns as guest

Tool = Callable[..., Any]
GEMM = Path(__file__).parents[1] / "docs" / "examples" / "gemm.amdgcn"


@pytest.mark.parametrize(
    ("pattern", "kernels"),
    [
        ("gemm", ["gemm[fp16]", "gemm[BLOCK=64, fp16]", "gemm"]),
        ("g*", ["gemm[fp16]", "gemm[BLOCK=64, fp16]", "gemm"]),
        ("fp16", ["gemm[fp16]"]),
        ("gemm[fp16]", ["gemm[fp16]"]),
        ("*[fp16]", ["gemm[fp16]"]),
        ("[fp16]", []),
        ("BLOCK=64*", ["gemm[BLOCK=64, fp16]"]),
        ("gemm[B*", ["gemm[BLOCK=64, fp16]"]),
        ("gem[m]", []),
        ("gem", []),
    ],
)
def test_names_cases_and_both_are_matched_in_both_worlds(pattern: str, kernels: list[str]) -> None:
    for matches in (host.matches, guest.matches):
        selected = []
        for label in ("gemm[fp16]", "gemm[BLOCK=64, fp16]", "gemm"):
            name, _, case = label.partition("[")
            names = [name, label, *([case[:-1]] if case else [])]
            if matches([pattern], names):
                selected.append(label)
        assert selected == kernels, matches


@pytest.mark.parametrize(
    ("patterns", "names", "waits_for_cases"),
    [
        (["gemm"], ["gemm"], False),
        (["make.<locals>.c*"], ["make.<locals>.c*"], False),
        (["gemm[fp16]", "g*"], ["gemm", "g*"], True),
        (["BLOCK=64"], [], True),
        (["#2"], [], True),
    ],
)
def test_cases_of_launches_are_left_to_the_host(
    patterns: Sequence[str], names: list[str], waits_for_cases: bool
) -> None:
    assert guest.names_only(patterns) == names
    assert host.select_cases(patterns) is waits_for_cases


SCRIPT = """
import torch, triton, triton.language as tl

@triton.jit
def fill(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 0.0)

@triton.jit
def other(x):
    tl.store(x, 1.0)

x = torch.empty(128, device="cuda")
fill[(1,)](x, BLOCK=64)
fill[(1,)](x, BLOCK=128)
other[(1,)](x)
"""


@pytest.mark.parametrize(
    ("wanted", "kernels"),
    [
        ("fill", ["fill[BLOCK=64]", "fill[BLOCK=128]"]),
        ("BLOCK=64", ["fill[BLOCK=64]"]),
        ("fill[BLOCK=128]", ["fill[BLOCK=128]"]),
    ],
)
def test_a_command_selects_what_its_report_prints(
    tool_in_process: Tool, tmp_path: Path, wanted: str, kernels: list[str]
) -> None:
    (tmp_path / "x.py").write_text(SCRIPT)
    run = tool_in_process("analyze", "x.py", "--no-time", "--kernel", wanted, "--format", "json")
    assert run.returncode == 0, run.stderr
    reports = json.loads(run.stdout)["kernels"]
    assert [f"{k['name']}[{k['variant']['case']}]" for k in reports] == kernels


def test_a_case_that_there_is_not_is_answered_with_those_that_there_are(
    tool_in_process: Tool, tmp_path: Path
) -> None:
    (tmp_path / "x.py").write_text(SCRIPT)
    run = tool_in_process("analyze", "x.py", "--no-time", "--kernel", "BLOCK=32")
    assert run.returncode == 2
    assert "no kernel matches 'BLOCK=32'; there is fill[BLOCK=64], fill[BLOCK=128]" in run.stderr


def test_emulate_takes_patterns_too(tool_in_process: Tool) -> None:
    words = ("emulate", GEMM, "--block", "256", "--args", "i32 1", "--kernel")
    assert "no kernel zz; choose with --kernel: gemm" in tool_in_process(*words, "zz").stderr
    assert "bytes of arguments" in tool_in_process(*words, "g*m").stderr
