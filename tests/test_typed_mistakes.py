"""What a new user mistypes: three lines at most, one of which is a command that works."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Tool = Callable[..., Any]
GEMM = Path(__file__).parents[1] / "docs" / "examples" / "gemm.amdgcn"
KERNEL = """
import triton
import triton.language as tl

@triton.jit
def doubled(v):
    return v + v

@triton.jit
def scaled(out_ptr, x_ptr, stride, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    ptrs = x_ptr + tl.program_id(0) * stride + at
    row = out_ptr + tl.program_id(0) * stride
    tl.store(row + at, doubled(tl.load(ptrs, mask=at < n)), mask=at < n)
"""
SCRIPT = (
    KERNEL
    + """
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--only")
parser.add_argument("size", type=int, nargs="?", default=64)
size = parser.parse_args().size
x = torch.empty(size, device="cuda")
print("timing")
scaled[(1,)](x, x, size, size, BLOCK=64)
"""
)
CASES = (
    KERNEL
    + """
KINSPECT_CASES = [
    {"name": name, "kernel": "scaled", "constexprs": {"BLOCK": 64},
     "signature": {"out_ptr": "*fp16:16", "x_ptr": "*fp16:16", "stride": "i32", "n": "i32"}}
    for name in ("small", "large")
]
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "bench.py": SCRIPT, "library.py": KERNEL, "cases.py": CASES, "nothing.py": "print(1)\n" * 3,
        "empty/a.txt": "no kernel", "k.amdgcn": GEMM.read_text(),
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


MISTAKES = {
    "bnech.py": "kinspect bench.py",
    "analyze zzz.py": "kinspect analyze --help",
    "library.py": "kinspect analyze library.py::scaled --signature"
    " '*fp16:16, *fp16:16, i32, i32, 64'",
    "nothing.py": "kinspect analyze --help",
    "bench.py --only softmax": "kinspect analyze bench.py -- --only softmax",
    "analyze --no-time bench.py --arch mi300x --only=softmax 128 -n --no-try":
        "kinspect analyze --no-time bench.py --arch mi300x --no-try -- --only=softmax 128 -n",
    "time bench.py 128": "kinspect time bench.py -- 128",
    "bench.py --archs=mi300x": "kinspect bench.py --arch=mi300x",
    "bench.py --arch gfx950,gfx94": "kinspect bench.py --arch gfx950,gfx942",
    "bench.py --arch mi300xx": "kinspect bench.py --arch mi300x",
    "bench.py --arch h200x4": "kinspect arch list",
    "bench.py --kernel scale": "kinspect analyze bench.py --kernel scaled",
    "cases.py --kernel tiny": "kinspect analyze cases.py --kernel 'scaled[small]'",
    "cases.py --kernel smal": "kinspect analyze cases.py --kernel 'scaled[small]'",
    "k.amdgcn --kernel gem": "kinspect analyze k.amdgcn --kernel gemm",
    "empty": "kinspect kernels list",
    "analzye bench.py": "kinspect analyze bench.py",
    "zzz": "kinspect --help",
}  # fmt: skip


@pytest.mark.parametrize(("typed", "command"), MISTAKES.items())
def test_a_mistake_is_answered_with_a_command(
    tool_in_process: Tool, folder: Path, typed: str, command: str
) -> None:
    run = tool_in_process(*shlex.split(typed), cwd=folder)
    lines = run.stderr.splitlines()
    assert (run.returncode, run.stdout if run.stdout.strip() else "") == (2, ""), run
    assert lines[0].startswith("kinspect: error: ")
    assert len(lines) <= 3
    assert f"  {command}" in lines


@pytest.mark.parametrize("command", sorted({c for c in MISTAKES.values() if "hipcc" not in c}))
def test_the_command_works(tool_in_process: Tool, folder: Path, command: str) -> None:
    words = shlex.split(command)[1:]
    if "-n" in words:  # which the script has not
        words.remove("-n")
    run = tool_in_process(*words, cwd=folder)
    assert run.returncode == 0, run.stderr
    assert not run.stderr


def test_without_triton_the_command_installs_it(tool_in_process: Tool, folder: Path) -> None:
    bare = folder / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    run = tool_in_process("bench.py", "--python", bare / "bin" / "python", cwd=folder)
    assert run.returncode == 2
    assert len(run.stderr.splitlines()) == 2
    assert run.stderr.endswith(f"\n  {bare / 'bin' / 'python'} -m pip install triton\n")
