"""Kernels and scripts made in odd ways: what is captured of them, and what is said of the rest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kinspect.inspector.model import ErrorRecord, KernelReport
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

pytest.importorskip("triton")
pytest.importorskip("torch")
pytest.importorskip("numpy")
pytest.importorskip("triton.experimental.gluon")

pytestmark = pytest.mark.usefixtures("shared_guests")

HEAD = """
import torch, triton, triton.language as tl
x, y = (torch.ones(4096, device="cuda") for _ in range(2))
"""
TUPLES = """
import collections, typing
import numpy as np
from triton.language.extra import libdevice
Shape = collections.namedtuple("Shape", ["rows", "columns"])
class Strided(typing.NamedTuple):
    base: typing.Any
    stride: int
@triton.jit
def square(v):
    return libdevice.tanh(v) * v
@triton.constexpr_function
def twice(n):
    return 2 * n
@triton.jit
def takes(pointers, shape, strided, scale, F: tl.constexpr, B: tl.constexpr):
    at = tl.arange(0, twice(B))
    v = F(tl.load(pointers[0] + at * strided.stride, mask=at < shape.rows)) * scale
    tl.store(pointers[1] + at, v, mask=at < shape.columns)
takes[(1,)]((x, y), Shape(16, 1000), Strided(y, 1), np.float64(2), square, B=32)
takes[(1,)]((x, y), Shape(17, 16), Strided(y, 8), 2.0, F=square, B=32)
try:
    takes[(1,)]((x, y), Shape(17, 16), Strided(y, 8), np.float32(2), square, B=64)
except TypeError:  # Triton's own word: it takes no scalar of numpy's that is none of Python's
    takes[(1,)]((x, y), Shape(17, 16), Strided(y, 8), 2.0, square, B=128)
"""
WRITTEN = '''
import importlib.util, os, tempfile
TEXT = """
import triton, triton.language as tl
@triton.jit
def %s(x, y, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y + at, tl.load(x + at))
"""
def written(name):
    path = os.path.join(tempfile.mkdtemp(), name + ".py")
    with open(path, "w") as stream:
        stream.write(TEXT % name)
    return path
path = written("imported")
spec = importlib.util.spec_from_file_location("imported", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
os.unlink(path)
module.imported[(1,)](x, y, B=64)
names = {}
exec(compile(TEXT % "executed", written("executed"), "exec"), names)
names["executed"][(1,)](x, y, B=64)
def factory(function, kind):
    @triton.jit
    def inner(x, y, B: tl.constexpr):
        at = tl.arange(0, B)
        tl.store(y + at, function(tl.load(x + at)).to(kind))
    return inner
@triton.jit
def negative(v):
    return -v
factory(negative, tl.float16)[(1,)](x, y.half(), B=64)
'''
STARTED = """
import multiprocessing, os, subprocess, sys, threading
@triton.jit
def copy(x, y, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y + at, tl.load(x + at))
def launch(block):
    copy[(1,)](x, y, B=block)
if __name__ == "__main__":
    thread = threading.Thread(target=launch, args=(64,))
    thread.start()
    thread.join()
    fork = multiprocessing.get_context("fork").Process(target=launch, args=(128,))
    fork.start()
    fork.join()
    subprocess.run(["true"])
    subprocess.run([sys.executable, "-c", "pass"])  # SAID
    os.system("python3 -c pass || true")  # SAID
    spawn = multiprocessing.get_context("spawn").Process(target=os.getpid)
    spawn.start()  # SAID
    spawn.join()
"""
GLUON = """
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
"""
LAYOUTS = """
@gluon.jit
def copy(x, y, n, B: gl.constexpr, LAYOUT: gl.constexpr):
    at = gl.arange(0, B, layout=LAYOUT)  # LAYOUT
    gl.store(y + at, gl.load(x + at, mask=at < n), mask=at < n)
for threads, warps in ((64, 4), (32, 4), (64, 8)):
    copy[(1,)](x, y, 1000, 1024, gl.BlockedLayout([1], [threads], [warps], [0]))
"""
NVIDIA = """
from triton.experimental.gluon.language.nvidia import blackwell, hopper
@gluon.jit
def barrier(y):
    bar = gl.allocate_shared_memory(gl.int64, [1], hopper.mbarrier.MBarrierLayout())
    hopper.mbarrier.init(bar, count=1)  # BARRIER
@gluon.jit
def tensor_memory(y):
    memory: gl.constexpr = blackwell.TensorMemoryLayout([128, 64], col_stride=1)
    blackwell.allocate_tensor_memory(gl.float32, [128, 64], memory)  # MEMORY
@gluon.jit
def tensor_copy(a):
    bar = gl.allocate_shared_memory(gl.int64, [1], hopper.mbarrier.MBarrierLayout())
    to = gl.allocate_shared_memory(a.dtype, a.block_type.shape, a.layout)
    hopper.tma.async_load(a, [0, 0], bar, to)  # COPY
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
barrier[(1,)](y)
tensor_memory[(1,)](y)
layout = gl.NVMMASharedLayout.get_default_for([32, 32], gl.float32)
tensor_copy[(1,)](TensorDescriptor.from_tensor(x.view(64, 64), [32, 32], layout))
"""
SCRIPTS = {
    "tuples": HEAD + TUPLES,
    "written": HEAD + WRITTEN,
    "started": HEAD + STARTED,
    "layouts": HEAD + GLUON + LAYOUTS,
    "nvidia": HEAD + GLUON + NVIDIA,
}


class Found:
    """What one run over all of the scripts came to, by script."""

    def __init__(self, folder: Path) -> None:
        self.files = {name: folder / f"{name}.py" for name in SCRIPTS}
        for name, file in self.files.items():
            file.write_text(SCRIPTS[name])
        paths = tuple(map(str, self.files.values()))
        found = collect(Request(paths, ("gfx942",), passes=False, jobs=2))
        self._kernels, self._errors = found.kernels, found.errors
        self.notes = found.notes

    def kernels(self, script: str) -> list[KernelReport]:
        """Those that a script launches itself."""
        file = str(self.files[script])
        return [
            k
            for k in self._kernels
            if k.variant and k.variant.call_site and k.variant.call_site.file == file
        ]

    def errors(self, script: str) -> list[ErrorRecord]:
        """Those of a script."""
        return [e for e in self._errors if e.file == str(self.files[script])]

    def line(self, script: str, mark: str) -> str:
        """`file:line` of a marked line."""
        lines = SCRIPTS[script].splitlines()
        number = next(n for n, text in enumerate(lines, 1) if text.endswith(f"# {mark}"))
        return f"{self.files[script]}:{number}"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return Found(tmp_path_factory.mktemp("odd"))


def test_tuples_and_functions_are_arguments(found: Found) -> None:
    assert not found.errors("tuples")
    first, second, third = (kernel.variant for kernel in found.kernels("tuples"))
    assert first
    assert second
    assert third
    assert first.signature["pointers"] == "(*fp32, *fp32)"
    assert first.signature["strided"] == "(*fp32, constexpr)"
    assert first.constexprs["strided[1]"] == 1
    assert second.signature["strided"] == "(*fp32, i32)"
    assert second.signature["scale"] == "fp32"
    assert (second.constexprs["F"], second.constexprs["B"]) == ("square", 32)
    assert third.constexprs["B"] == 128


def test_kernels_of_written_files_and_of_factories(found: Found) -> None:
    assert not found.errors("written")
    kernels = found.kernels("written")
    assert [kernel.name for kernel in kernels] == ["imported", "executed", "inner"]
    assert kernels[0].source
    assert kernels[0].source.line == 4  # of a file that is gone
    assert kernels[2].variant
    assert kernels[2].variant.signature["y"] == "*fp16"


def test_another_process_is_said(found: Found) -> None:
    blocks = [k.variant.constexprs["B"] for k in found.kernels("started") if k.variant]
    assert sorted(blocks) == [64, 128]
    lines = SCRIPTS["started"].splitlines()
    expected = [n for n, text in enumerate(lines, 1) if text.endswith("# SAID")]
    said = [note for note in found.notes if "is another process" in note]
    assert [int(re.findall(r"started\.py:(\d+)", note)[0]) for note in said] == expected
    assert "-c pass`" in said[0]
    assert "by spawn" in said[2]


def test_a_layout_that_does_not_fit_gives_reason_and_line(found: Found) -> None:
    assert len(found.kernels("layouts")) == 1
    narrow, many = found.errors("layouts")
    assert found.line("layouts", "LAYOUT") in narrow.message
    assert "Layout has 32 threads per warp, but the module specifies 64" in narrow.message
    assert "64 on CDNA" in narrow.hint
    assert found.line("layouts", "LAYOUT") in many.message
    assert "Layout has 8 warps per CTA" in many.message
    assert "num_warps" in many.hint


def test_instructions_of_another_vendor_are_refused(found: Found) -> None:
    assert not found.kernels("nvidia")
    errors = {error.kernel.split()[0]: error for error in found.errors("nvidia") if error.kernel}
    for kernel, mark in (
        *(("barrier", "BARRIER"), ("tensor_memory", "MEMORY"), ("tensor_copy", "COPY")),
    ):
        assert found.line("nvidia", mark) in errors[kernel].message
        assert "NVIDIA" in errors[kernel].hint


DIAGNOSTICS = """\
warning: of no account
/lib/triton/experimental/gluon/x.py:3:5: error: inside
{library}/language/core.py:43:5: error: the library's
    return full(shape)
    ^
/home/me/a b.py:6:37: error: Result has an invalid layout: #blocked.
Layout has 32 threads per warp.
    at = gl.arange(0, B)
         ^
"""


def test_the_users_own_diagnostic_is_taken() -> None:
    import triton
    from kinspect.inspector.guest import mlir_errors

    text = DIAGNOSTICS.format(library=Path(triton.__file__).parent)
    first, second, third = mlir_errors._diagnostics(text.splitlines())
    assert (first.file, first.text) == ("/lib/triton/experimental/gluon/x.py", "inside")
    assert second.text == "the library's"
    own = mlir_errors._first_diagnostic(text.partition("\n")[2].partition("\n")[2])
    assert own == third
    assert third.text == "Result has an invalid layout: #blocked. Layout has 32 threads per warp."
    assert (third.file, third.line) == ("/home/me/a b.py", 6)
    assert mlir_errors._first_diagnostic("nothing of the kind") is None
