"""Folders with files of functions that only kernels call."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.capture.folders import targets_in

Tool = Callable[..., Any]
GEMM = Path(__file__).parents[1] / "docs" / "examples" / "gemm.amdgcn"
HEAD = "import triton\nimport triton.language as tl\n"
JIT = "@triton.jit\n"
KERNEL = f"{HEAD}from helpers import put\n{JIT}def kernel(p, v):\n    put(p, tl.abs(v))\n"
PUT = f"{JIT}def put(p, v):\n    tl.store(p, v)\n"
TWICE = f"{JIT}def twice(v):\n    return v + v\n"


@pytest.mark.parametrize(
    ("helpers", "is_target"),
    [
        (TWICE, False),
        (PUT, False),
        (PUT + TWICE + '"""Text."""\nSIZE = 4\n', False),
        (f"{JIT}def abs(p):\n    tl.store(p, 1)\n", True),  # tl.abs is another
        (f"{TWICE}from kernel import kernel\nkernel[(1,)](1, 2)\n", True),
        (f"{TWICE}def launch(x):\n    kernel[(1,)](x, 2)\n", True),
        (f"{TWICE}main()\n", True),
        (f"{TWICE}KINSPECT_CASES = []\n", True),
        (f"{TWICE}def (\n", True),  # its error is told
    ],
)
def test_a_file_of_helpers_alone_is_no_target(
    tmp_path: Path, helpers: str, is_target: bool
) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)
    (tmp_path / "helpers.py").write_text(HEAD + helpers)
    names = [target.path.name for target in targets_in(tmp_path)]
    assert names == (["helpers.py"] if is_target else []) + ["kernel.py"]


def test_lint_says_nothing_of_helpers(tool_in_process: Tool, tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text(HEAD + PUT + TWICE)
    launch = "import torch\nkernel[(1,)](torch.empty(1, device='cuda'), 1.0)\n"
    (tmp_path / "kernel.py").write_text(KERNEL + launch)
    run = tool_in_process("lint", ".")
    assert "helpers" not in run.stdout + run.stderr


def test_a_helper_is_not_proposed_as_a_kernel(tool_in_process: Tool, tmp_path: Path) -> None:
    (tmp_path / "both.py").write_text(KERNEL.replace("from helpers import put\n", "") + PUT)
    (tmp_path / "helpers.py").write_text(HEAD + TWICE)
    both = tool_in_process("analyze", "both.py").stderr
    assert "launched nothing; it defines kernel;" in both
    assert "both.py::kernel --signature" in both
    alone = tool_in_process("analyze", "helpers.py")
    assert "has no kernel, only what kernels call: twice" in alone.stderr
    assert "--signature" not in alone.stderr
    assert alone.returncode == 2


@pytest.mark.parametrize("beside", [(), ("gemm.amdgcn",)])
def test_lint_says_an_error_once_where_all_goes_to_one_place(
    tmp_path: Path, beside: tuple[str, ...]
) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL.replace("from helpers import put\n", "") + PUT)
    (tmp_path / "gemm.amdgcn").write_bytes(GEMM.read_bytes())
    run = subprocess.run(
        [sys.executable, "-m", "kinspect.inspector.cli", "lint", "kernel.py", *beside],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert run.returncode == 2
    assert run.stdout.count("it defines kernel;") == 1
    assert ("in 1 kernel" in run.stdout) is bool(beside)


LIBRARY = f"{HEAD}{JIT}def fill(p):\n    tl.store(p + tl.arange(0, 64), 1.0)\n"
LAUNCH = (
    "import torch\nfrom library import fill\n"
    "if __name__ == '__main__':\n    fill[(1,)](torch.empty(64, device='cuda'))\n"
)


def test_kernels_that_another_file_of_the_folder_launches_are_no_error(
    tool_in_process: Tool, tmp_path: Path
) -> None:
    (tmp_path / "library.py").write_text(LIBRARY)
    (tmp_path / "bench_all.py").write_text(LAUNCH)
    (tmp_path / "test_library.py").write_text("raise RuntimeError('this is not run')\n" + LAUNCH)
    run = tool_in_process("lint", ".", "--rules", "strict")
    assert "library.py: its kernels are launched by bench_all.py" in run.stdout
    assert "in 1 kernel" in run.stdout
    assert (run.returncode, run.stderr) == (0, "")


def test_copies_of_a_package_are_launched_by_their_own_files(
    tool_in_process: Tool, tmp_path: Path
) -> None:
    for folder in (tmp_path, tmp_path / "copy", tmp_path / "other"):
        folder.mkdir(exist_ok=True)
        (folder / "library.py").write_text(LIBRARY)
        (folder / "bench_all.py").write_text(LAUNCH)
    run = tool_in_process("lint", ".", "--rules", "strict")
    for folder in ("", "copy/", "other/"):
        note = f"{folder}library.py: its kernels are launched by {folder}bench_all.py"
        assert note in run.stdout
    assert "in 3 kernels" in run.stdout
    assert (run.returncode, run.stderr) == (0, "")


def test_a_file_that_fails_hides_no_finding_of_others(
    tool_in_process: Tool, tmp_path: Path
) -> None:
    (tmp_path / "library.py").write_text(LIBRARY)
    (tmp_path / "bench_all.py").write_text("raise RuntimeError\n" + LAUNCH)
    (tmp_path / "gemm.amdgcn").write_bytes(GEMM.read_bytes())
    run = tool_in_process("lint", ".", "--rules", "strict")
    assert run.returncode == 2
    assert "in 1 kernel; 1 target could not be linted" in run.stdout
    assert "launched nothing; it defines fill;" in run.stderr
    assert "run a file that uses it:\n  kinspect analyze bench_all.py" in run.stderr
    assert "RuntimeError" not in run.stderr
