"""Errors as new users met them: each says what was meant, or what to type."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.api.budgets import limits_of
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.model import Metric

Tool = Callable[..., Any]
SMALL = Path(__file__).parent / "data" / "small_gfx942.s"


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("rules", "KI122"), "kinspect rules show KI122"),
        (("rules", "lst"), "kinspect rules list"),
        (("arch", "mi300x"), "kinspect arch show mi300x"),
        (("kernels", "gemm"), "kinspect kernels show gemm"),
        (("analyze", "kernel/k.s"), "kinspect analyze kernels/k.s"),
        (("diff", "my_befor.s", "my_before.s"), "kinspect diff before.s my_before.s"),
        (("analyze", "before.s", "--format", "html"), "kinspect report before.s -o page.html"),
    ],
)
def test_the_command_that_was_meant_is_printed(
    tool_in_process: Tool, tmp_path: Path, words: tuple[str, ...], command: str
) -> None:
    (tmp_path / "kernels").mkdir()
    for name in ("kernels/k.s", "before.s", "my_before.s", "my_after.s", "ra.s"):
        shutil.copy(SMALL, tmp_path / name)
    run = tool_in_process(*words)
    assert run.returncode == 2
    assert run.stderr.endswith(f"\n  {command}\n"), run.stderr


def test_a_short_name_of_a_metric_is_near_too() -> None:
    with pytest.raises(KinspectError, match="did you mean vgpr_count"):
        limits_of({"vgpr": 48})


def test_figures_compare_with_numbers() -> None:
    metric = Metric("vgpr_count", 60, "registers", "compiler")
    assert metric > 48
    assert metric <= 60
    assert not metric < metric
    with pytest.raises(TypeError, match=r"time\.us is unknown: no launch"):
        _ = Metric("time.us", None, "us", "estimated", "no launch") < 30
    with pytest.raises(TypeError, match="not supported between"):
        _ = metric < "x"


SCRIPT = """\
import torch
import missing_config
import triton
import triton.language as tl


@triton.jit
def kernel(p, N: tl.constexpr):
    tl.store(p + tl.arange(0, N), 1.0)


torch.zeros(8, missing_config.DIM, device="cuda")
"""


def test_no_frame_of_the_tool_stands_in_a_traceback(tool_in_process: Tool, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    run = tool_in_process("analyze", "script.py")
    assert "NotInstalledError: missing_config.DIM is not known" in run.stderr
    assert "torch.zeros(8, missing_config.DIM" in run.stderr
    assert "guest" not in run.stderr
    assert "UserWarning" not in run.stderr


def test_a_typed_signature_is_mended_on_the_command_line(
    tool_in_process: Tool, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(
        SCRIPT.partition("torch.zeros")[0].replace("import missing_config\n", "")
    )
    run = tool_in_process("analyze", "script.py", "--signature", "*fp32:16")
    assert "--signature of kernel does not name 'N'" in run.stderr
    assert "add -D N=VALUE" in run.stderr
    assert "constexprs" not in run.stderr
