"""What the hint names for a file that defines kernels and launches none."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest
from kinspect.inspector.guest.launches.launching_code import (
    calls_that_launch,
    device_functions,
    files_that_launch,
    stated_arguments,
)

KERNEL = """
@triton.jit
def kernel(x, y_ptr, n, eps, BLOCK: tl.constexpr):
    tl.store(y_ptr + tl.arange(0, BLOCK), tl.load(x + tl.arange(0, BLOCK)) + eps)
"""
NORM = """
class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, eps):
        kernel[(1,)](x, x, x.numel(), eps, 64)
"""


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("def f(x, n, m=3, *, y):\n    kernel[(n,)](x, y, m, 1, 64)", ["f(x, n, y=y)"]),
        ("def f(x):\n    torch.library.wrap_triton(kernel)[(1,)](x, x, 1, 1, 64)", ["f(x)"]),
        ("def other(x):\n    return x + 1", []),
        (
            "def _inner(a, b):\n    kernel[(1,)](a)\ndef g(q):\n    _inner(q, 2)\n"
            "def _h(z):\n    _inner(z, 1)",
            ["g(q)", "_h(z)"],
        ),
        ("def a(x):\n    b(x)\ndef b(x):\n    kernel[(1,)](x)\n    a(x)", ["a(x)", "b(x)"]),
        (NORM, ["Norm.apply(x, eps)"]),
        (NORM + "norm = Norm.apply", ["norm(x, eps)"]),
        ("class M(nn.Module):\n    def forward(self, x):\n        kernel[(1,)](x)", ["M()(x)"]),
    ],
)
def test_calls_that_launch(source: str, calls: list[str]) -> None:
    tree = ast.parse(KERNEL + textwrap.dedent(source))
    assert list(calls_that_launch(tree, {"kernel"}).values()) == calls


def test_arguments_to_state_are_those_of_the_outer_kernel() -> None:
    outer = KERNEL + "@triton.jit\ndef outer(p, N: tl.constexpr):\n    kernel(p, p, 1, 1, N)\n"
    stated = stated_arguments(ast.parse(outer), {"kernel", "outer"})
    assert stated == ("outer", "p, N", "i32, 64")


def test_pointers_are_what_accesses_begin_with() -> None:
    kernel = """
    @triton.jit
    def k(out, x, desc, n, stride, N: tl.constexpr):
        ptrs = x + n * stride
        ptrs += tl.arange(0, N)[:, None]
        tl.atomic_add(out + n, tl.load(ptrs))
    """
    stated = stated_arguments(ast.parse(textwrap.dedent(kernel)), {"k"})
    assert stated[2] == "*fp16:16, *fp16:16, i32, i32, i32, 64"


def test_what_kernels_call_and_what_returns_a_value_is_no_kernel() -> None:
    tree = ast.parse(
        "def softmax(p):\n    helper(p)\n    tl.outer(p)\n"
        "def helper(p):\n    tl.store(p, 1)\n"
        "def outer(p):\n    tl.store(p, 1)\n    return\n"
        "def twice(v):\n    return v + v\n"
    )
    names = {"softmax", "helper", "outer", "twice"}
    assert device_functions(tree, names) == {"helper", "twice"}


def test_files_that_launch_are_found_named_alike_first_and_tests_last(tmp_path: Path) -> None:
    use = "from pkg.ops.norm import rms_norm\nrms_norm(x)\n"
    main = use + "if __name__ == '__main__':\n    rms_norm(x)\n"
    files = {
        "pkg/__init__.py": "",
        "pkg/ops/__init__.py": "from .norm import *",
        "pkg/ops/norm.py": KERNEL,
        "pkg/ops/bench.py": main.replace("pkg.ops", ""),
        "bench/far.py": main.replace("pkg.ops.norm", "pkg.ops"),
        "tests/test_other.py": use,
        "bench/bench_norm.py": "from pkg.library import layer\nif '__main__': layer(x)\n",
        "pkg/library.py": f"{use}def layer(x):\n    return rms_norm(x)\n",  # does not run by itself
        "bench/unused.py": main.replace("rms_norm", "nothing"),
        "bench/other.py": main.replace("pkg.ops.norm", "elsewhere"),
        ".venv/lib/copy.py": main,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / ".git").mkdir()
    found = files_that_launch(str(tmp_path / "pkg/ops/norm.py"), {"rms_norm", "kernel"})
    names = [Path(runner.file).relative_to(tmp_path).as_posix() for runner in found]
    assert names == [
        *("bench/bench_norm.py", "pkg/ops/bench.py", "bench/far.py", "tests/test_other.py")
    ]
    assert [runner.by for runner in found] == [f"{tmp_path}/pkg/library.py:4", None, None, None]
