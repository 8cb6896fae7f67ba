"""Questions asked of modules: loops, memory operations, matrix instructions per dot.

The counts of matrix instructions are compared with the ISA of compiled kernels.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from kinspect.inspector.ttgir import queries, redundant_work
from kinspect.inspector.ttgir.layouts import type_to_linear
from kinspect.inspector.ttgir.parser import parse_ttgir

DATA = Path(__file__).parent / "data" / "ttgir"


def kernels() -> ModuleType:
    pytest.importorskip("triton", minversion="3.9")
    if "ttgir_kernels" not in sys.modules:
        spec = importlib.util.spec_from_file_location("ttgir_kernels", DATA / "kernels.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["ttgir_kernels"] = module
        spec.loader.exec_module(module)
    return sys.modules["ttgir_kernels"]


MATRIX_RE = re.compile(r"^\s+v_(?:mfma(?!_ld_scale)|wmma(?!_ld_scale))\w*", re.M)

DOTS = [
    ("gfx942", "fp16", 128, 64, 64, {"num_warps": 8}),
    ("gfx942", "fp16", 16, 128, 32, {"num_warps": 4, "matrix_instr_nonkdim": 16}),
    ("gfx942", "i8", 64, 64, 16, {"num_warps": 2, "matrix_instr_nonkdim": 32}),
    ("gfx942", "fp16", 64, 32, 128, {"num_warps": 1, "kpack": 2}),
    ("gfx90a", "fp32", 32, 64, 32, {"num_warps": 4}),
    ("gfx90a", "fp64", 32, 32, 16, {"num_warps": 2}),
    ("gfx950", "fp8e5", 128, 128, 128, {"num_warps": 4}),
    ("gfx950", "bf16", 32, 32, 16, {"num_warps": 8}),
    ("gfx1100", "fp16", 64, 64, 32, {"num_warps": 4}),
    ("gfx1201", "i8", 32, 128, 64, {"num_warps": 8}),
    ("gfx1250", "bf16", 64, 32, 64, {"num_warps": 2}),
]


@pytest.mark.parametrize(
    ("arch", "element", "m", "n", "k", "options"), DOTS, ids=lambda value: str(value)[:24]
)
def test_matrix_instructions_per_dot_equal_the_isa(
    arch: str, element: str, m: int, n: int, k: int, options: dict[str, int]
) -> None:
    texts = kernels().compile_stages(kernels().dot_job(element, m, n, k, **options), arch, "amdgcn")
    module = parse_ttgir(texts["ttgir"], "dot")
    (dot,) = queries.dots(module)
    assert redundant_work.dot_tile_shapes(dot) == redundant_work.DotTile(m, n, k)
    assert redundant_work.mfma_per_dot(dot) == len(MATRIX_RE.findall(texts["amdgcn"]))


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_matrix_instructions_of_a_batch(arch: str) -> None:
    job = kernels().batch_dot_job(4, 32, 16, 32, num_warps=2)
    texts = kernels().compile_stages(job, arch, "amdgcn")
    module = parse_ttgir(texts["ttgir"], "dot")
    (dot,) = queries.dots(module)
    assert redundant_work.dot_tile_shapes(dot) == redundant_work.DotTile(32, 16, 32, 4)
    assert redundant_work.mfma_per_dot(dot) == len(MATRIX_RE.findall(texts["amdgcn"]))


@pytest.mark.parametrize("arch", ["gfx950", "gfx1250"])
def test_packed_operands_of_a_scaled_dot(arch: str) -> None:
    texts = kernels().compile_stages(kernels().JOBS["gemm_mxfp4"], arch, "amdgcn")
    module = parse_ttgir(texts["ttgir"], "mxfp4")
    (loop,) = queries.loops(module)
    for dot in queries.dots(module):
        assert redundant_work.dot_tile_shapes(dot) == redundant_work.DotTile(64, 64, 256)
    # The pipeliner peels iterations off: each dot of the module stands once in the ISA.
    counts = [redundant_work.mfma_per_dot(dot) for dot in queries.dots(module)]
    assert len(loop.dots) == 1
    assert None not in counts
    assert sum(filter(None, counts)) == len(MATRIX_RE.findall(texts["amdgcn"]))


def test_no_matrix_instruction_without_a_matrix_unit_or_with_an_unknown_one() -> None:
    texts = kernels().compile_stages(kernels().dot_job("fp32", 32, 32, 32), "gfx1201", "ttgir")
    module = parse_ttgir(texts["ttgir"], "fma")
    (dot,) = queries.dots(module)
    assert redundant_work.mfma_per_dot(dot) is None
    old = parse_ttgir((DATA / "gemm_rowmax-3.2-gfx942.ttgir").read_text(), "3.2")
    assert [redundant_work.mfma_per_dot(dot) for dot in queries.dots(old)] == [None]


def test_loops_know_their_parents() -> None:
    body = "%0 = scf.for %i = %a to %b step %c -> (i32) : i32 {\n"
    module = parse_ttgir(
        "module {\n"
        + body
        + "scf.if %x {\n"
        + body
        + "tt.dot %p, %q, %r : f32 * f32 -> f32\n}\n}\n}\n"
        "scf.while (%w = %a) : (i32) -> i32 {\n} do {\n}\n}",
        "loops",
    )
    loops = queries.loops(module)
    assert [(loop.op.name, loop.parent, loop.depth, len(loop.dots)) for loop in loops] == [
        ("scf.for", None, 0, 0),
        ("scf.for", 0, 1, 1),
        ("scf.while", None, 0, 0),
    ]


def test_memory_operations_by_name() -> None:
    texts = kernels().compile_stages(kernels().JOBS["atomics"], "gfx942")
    for stage in texts.values():
        module = parse_ttgir(stage, "atomics")
        assert len(queries.loads(module)) == 1
        assert len(queries.named(module, queries.STORES)) == 1


def test_every_tensor_of_compiled_kernels_converts() -> None:
    seen = 0
    for job, arch in (("attention", "gfx950"), ("attention", "gfx1100"), ("zoo", "gfx950")):
        texts = kernels().compile_stages(kernels().JOBS[job], arch)
        for op in parse_ttgir(texts["ttgir"], job).ops:
            for of in op.result_types:
                if of.kind == "tensor":
                    assert type_to_linear(of) is not None, of.text
                    seen += 1
    assert seen > 300


def test_a_range_is_as_long_as_its_tensor() -> None:
    """What a file claims beyond is not counted: a list of it would not end."""
    ends = (8, 2**63, 7)
    lines = (
        f"%{n} = tt.make_range {{end = {end} : i32, start = 0 : i32}} : tensor<8xi32>"
        for n, end in enumerate(ends)
    )
    text = "module {\ntt.func @k() {\n" + "\n".join(lines) + "\ntt.return\n}\n}\n"
    ops = parse_ttgir(text, "k.ttgir").ops
    assert [queries.range_of(op) for op in ops if op.name == "tt.make_range"] == [
        range(8),
        None,
        None,
    ]
