"""Ways in: scripts that need what is not installed, launches that all fail, shared options."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.cli.group import COMMANDS, cli
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.present.report import write_text
from msgspec.structs import replace

SMALL = Path(__file__).parent / "data" / "small_gfx942.s"
KERNEL = """
import torch, triton
import triton.language as tl

@triton.jit
def k(x, N: tl.constexpr, MODE: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, i + MODE)

x = torch.zeros(64, dtype=torch.int32, device="cuda")
"""
STOOD_IN = {
    "a pydantic field": """
import pydantic
from openai_of_nobody.types import Image

class Part(pydantic.BaseModel):
    image: Image

assert Part(image=3).image == 3
""",
    "the version of its distribution": """
import importlib.metadata
import some_helper_package
assert importlib.metadata.version("some-helper-package")
""",
}
FAILING = {
    "a launch": "k[(1,)](x, N=64)",
    "every configuration": (
        "triton.autotune([triton.Config({}), triton.Config({}, num_warps=8)], ['N'])(k)[(1,)]"
        "(x, N=64)"
    ),
}


@pytest.fixture
def tool(tool_in_process: Callable[..., Any]) -> Callable[..., Any]:
    return tool_in_process


@pytest.mark.parametrize("case", STOOD_IN)
def test_a_stand_in_serves_as(case: str, tmp_path: Path, tool: Callable[..., Any]) -> None:
    pytest.importorskip("triton")
    if "pydantic" in case:
        pytest.importorskip("pydantic")
    (tmp_path / "k.py").write_text(f"{STOOD_IN[case]}{KERNEL}\nk[(1,)](x, N=64, MODE=1)\n")
    done = tool("analyze", "k.py", "--no-passes", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [kernel["name"] for kernel in json.loads(done.stdout)["kernels"]] == ["k"]


@pytest.mark.parametrize("case", FAILING)
def test_the_headline_says_why_every_launch_failed(
    case: str, tmp_path: Path, tool: Callable[..., Any]
) -> None:
    pytest.importorskip("triton")
    (tmp_path / "kern.py").write_text(KERNEL)
    (tmp_path / "run.py").write_text(
        f"import triton\nfrom kern import k, x\ntry:\n    {FAILING[case]}\n"
        "except Exception as failure:\n    print(failure)\n"
    )
    done = tool("analyze", "run.py")
    assert done.returncode == 2
    headline = done.stderr.splitlines()[0]
    assert "every launch failed: k ended with TypeError: " in headline
    assert "'MODE'" in headline


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"tui"}))
def test_commands_that_take_targets_share_their_options(name: str) -> None:
    command = cli.get_command(None, name)  # type: ignore[arg-type]
    assert command is not None
    options = {word for option in command.params for word in option.opts}
    if name in ("blame", "passes", "try") or "--stub" in options:
        shared = ("--call", "--triton", "--signature", "--define", "--arch", "--kernel", "--python")
        assert options.issuperset(shared)


def test_all_facts_are_shown_where_asked_for() -> None:
    (kernel, *_) = collect(Request((str(SMALL),))).kernels
    finding = kernel.findings[0]
    leads = tuple(replace(finding, message=f"fact {n}", doubt="a doubt") for n in range(7))
    report = collect(Request((str(SMALL),)))
    report = replace(report, kernels=(replace(kernel, leads=leads),))
    brief, full = io.StringIO(), io.StringIO()
    write_text(report, brief)
    write_text(report, full, every=True)
    assert "fact 1" not in brief.getvalue()
    assert all(f"fact {n}" in full.getvalue() for n in range(7))
    assert "7 facts that would save less than 3 %" in full.getvalue()
