"""The catalogue of kernels reads files and executes none; `kinspect kernels` shows it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.bench.suite import catalogue

ROOT = Path(__file__).parent.parent

SMALL = '''"""Doubles: the smallest thing.

Answers to: a question,
    long asked.
"""

raise SystemExit("this file must not be executed")

CASES = [{"name": "a"}, {"name": "b"}]
BENCH = [{"name": str(i)} for i in range(3)]
def launch(): ...
def reference(): ...
from somewhere import make_inputs
'''


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "double.py"
    path.write_text(SMALL)
    return path


def test_bundled_kernels_are_the_files() -> None:
    files = {p.stem for p in (ROOT / "kernels").glob("*.py")} - {"__init__"}
    found = catalogue.bundled()
    assert {k.name for k in found} == files
    for kernel in found:
        assert kernel.summary, kernel.name
        assert kernel.answers_to, kernel.name
        assert catalogue.checkable(kernel) is kernel


def test_a_file_is_read_not_executed(small: Path) -> None:
    kernel = catalogue.find(str(small))
    assert (kernel.name, kernel.bundled) == ("double", False)
    assert kernel.summary == "Doubles: the smallest thing"
    assert kernel.answers_to == "a question, long asked"
    assert kernel.entries("CASES") == 2
    assert kernel.entries("BENCH") is None, "a comprehension cannot be counted"
    assert kernel.entries("TUNING") == 0
    assert catalogue.checkable(kernel) is kernel


def test_a_path_of_a_bundled_kernel_is_that_kernel() -> None:
    assert catalogue.find(str(ROOT / "kernels" / "softmax.py")) == catalogue.find("softmax")


def test_errors_say_what_is_meant(tmp_path: Path) -> None:
    with pytest.raises(KinspectError, match=r"no kernel .sofmax. .did you mean softmax"):
        catalogue.find("sofmax")
    with pytest.raises(KinspectError, match="no such file"):
        catalogue.find(str(tmp_path / "none.py"))
    path = tmp_path / "broken.py"
    path.write_text("def launch(:\n")
    with pytest.raises(KinspectError, match=r"broken\.py:1: not Python"):
        catalogue.checkable(catalogue.find(str(path)))
    path.write_text("def launch(): ...\n")
    with pytest.raises(KinspectError, match="defines no CASES, reference, make_inputs"):
        catalogue.checkable(catalogue.find(str(path)))


Tool = Callable[..., Any]


def test_list(tool: Tool) -> None:
    pytest.importorskip("triton")
    done = tool("kernels", "list", "--format", "json")
    assert done.returncode == 0, done.stderr
    listed = {k["name"]: k for k in json.loads(done.stdout)["kernels"]}
    assert list(listed) == sorted(listed)
    assert listed["vector_add"]["answers_to"] == "Triton's tutorial 01-vector-add"
    for kernel in listed.values():
        assert kernel["summary"]
        assert kernel["cases"] > 0
        assert kernel["bench_shapes"] > 0
    lines = tool("kernels", "list").stdout.splitlines()
    assert lines[0].split()[:3] == ["kernel", "cases", "shapes"]
    assert len(lines) == len(listed) + 1


def test_list_without_triton_says_what_it_does_not_know(tool: Tool, tmp_path: Path) -> None:
    """An interpreter that has no Triton: figures that need it are unknown, not 0."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    python.chmod(0o755)
    done = tool("kernels", "list", "--format", "json", "--python", str(python))
    assert done.returncode == 0
    assert "some figures are not known: triton cannot be imported" in done.stderr
    listed = {k["name"]: k for k in json.loads(done.stdout)["kernels"]}
    assert listed["softmax"]["cases"] > 0, "counted in the text"
    assert listed["vector_add"]["bench_shapes"] is None, "a comprehension"


def test_show(tool: Tool) -> None:
    pytest.importorskip("triton")
    done = tool("kernels", "show", "softmax", "--format", "json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["docstring"].startswith("Softmax over the rows")
    assert Path(shown["file"]) == ROOT / "kernels" / "softmax.py"
    assert {"rows", "cols", "atol", "rtol"} <= set(shown["cases"][0])
    assert shown["tuning"]["num_warps"]
    assert shown["compile_cases"][0]["kernel"] == "softmax_kernel"
    text = tool("kernels", "show", "softmax").stdout
    for part in (str(ROOT / "kernels" / "softmax.py"), "Answers to:", "cases (", "tuning space ("):
        assert part in text


def test_show_of_a_file_that_does_not_load(tool: Tool, small: Path) -> None:
    pytest.importorskip("triton")
    done = tool("kernels", "show", str(small))
    assert done.returncode == 0
    assert "Doubles: the smallest thing" in done.stdout
    assert "must not be executed" in done.stderr


def test_the_lists_text_part_needs_no_heavy_import() -> None:
    code = (
        "import sys\n"
        "from kinspect.inspector.bench.suite import catalogue\n"
        "assert catalogue.bundled()[0].summary\n"
        "print([m for m in ('torch', 'triton', 'kinspect.kernels') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
