"""Write the TTGIR fixtures of the Triton that this interpreter imports.

One Triton per interpreter, no GPU needed; the fixtures here are those of 3.0.0, 3.1.0, 3.2.0, 3.4.0
and 3.9.0:

    pip install --no-deps --target triton-3.2.0 triton==3.2.0
    PYTHONPATH=triton-3.2.0 python tests/data/ttgir/regenerate.py

`layouts-3.4.json` is written too where that Triton infers the layout of a transposed tensor (3.4):
it holds matrix layouts in the spelling of that time with the linear layout that Triton computes,
transposed. Paths are scrubbed: the kernel's file becomes kernel.py, Triton's own triton/....
"""

from __future__ import annotations

import inspect
import json
import os
import random
import re
import sys
import tempfile
from pathlib import Path

import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend

HERE = Path(__file__).resolve().parent
ARCHS = {"3.0": ("gfx942",), "3.1": ("gfx1100",), "3.2": ("gfx942",), "3.4": ("gfx950", "gfx1201")}
DEFAULT_ARCHS = ("gfx942", "gfx950", "gfx1100", "gfx1250")


@triton.jit
def gemm_rowmax(a_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The largest element of each row of one tile of a product."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.arange(0, BN)
    ks = tl.arange(0, BK)
    a = a_ptr + rows[:, None] * K + ks[None, :]
    b = b_ptr + ks[:, None] * BN + cols[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        acc += tl.dot(tl.load(a), tl.load(b))
        a += BK
        b += BK * BN
    tl.store(c_ptr + rows, tl.max(acc, 1), mask=rows < K)


TYPES = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp32", "K": "i32"}
BLOCKS = {"BM": 64, "BN": 64, "BK": 32}


def source(version: tuple[int, int]) -> ASTSource:
    """The kernel's AST source, in the form this Triton takes."""
    if version < (3, 2):  # arguments by position
        constants = {len(TYPES) + i: value for i, value in enumerate(BLOCKS.values())}
        return ASTSource(gemm_rowmax, dict(enumerate(TYPES.values())), constants)
    if version < (3, 3):
        return ASTSource(gemm_rowmax, dict(TYPES), dict(BLOCKS))
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(len(TYPES))}
    signature = {**TYPES, **dict.fromkeys(BLOCKS, "constexpr")}
    return ASTSource(gemm_rowmax, signature, dict(BLOCKS), attrs)


def compile_to_ttgir(arch: str, version: tuple[int, int]) -> str:
    """Run the stages up to TTGIR."""
    target = GPUTarget("hip", arch, 64 if arch.startswith("gfx9") else 32)
    backend = make_backend(target)
    options = backend.parse_options({"num_warps": 4, "num_stages": 2})
    ast = source(version)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    given = {
        "target": target,
        "options": options,
        "codegen_fns": backend.get_codegen_implementation(options)
        if version >= (3, 3)
        else backend.get_codegen_implementation(),
        "module_map": backend.get_module_map() if hasattr(backend, "get_module_map") else None,
        "context": context,
    }
    wanted = inspect.signature(ast.make_ir).parameters
    module = ast.make_ir(*(given[name] for name in wanted))
    stages: dict = {}
    language = (ast.language,) if version >= (3, 3) else ()
    backend.add_stages(stages, options, *language)
    metadata = {"target": target, **options.__dict__}
    for name in ("ttir", "ttgir"):
        module = stages[name](module, metadata)
    return str(module)


def scrub(text: str) -> str:
    """Drop the paths of this machine."""
    text = text.replace(str(Path(__file__)), "kernel.py").replace(__file__, "kernel.py")
    return re.sub(r'"[^"\n]*/(triton/[^"\n]*)"', r'"\1"', text)


def infer_transposed(text: str, shape: list, warps: int, context: object) -> str | None:
    """What the verifier says `tt.trans` should have returned, from its complaint on stderr."""
    of = "x".join(map(str, shape))
    to = "x".join(map(str, reversed(shape)))
    wrong = (
        "#ttg.slice<{dim = 2, parent = #ttg.blocked<{sizePerThread = [1, 1, 1], "
        f"threadsPerWarp = [64, 1, 1], warpsPerCTA = [{warps}, 1, 1], order = [2, 1, 0]}}>}}>"
    )
    module = (
        f'module attributes {{"ttg.num-warps" = {warps} : i32, "ttg.num-ctas" = 1 : i32, '
        f'"ttg.threads-per-warp" = 64 : i32}} {{ tt.func @f(%x: tensor<{of}xf16, {text}>) {{\n'
        f'%r = "tt.trans"(%x) <{{order = array<i32: 1, 0>}}> : (tensor<{of}xf16, {text}>) -> '
        f"tensor<{to}xf16, {wrong}>\ntt.return }}}}"
    )
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder, "m.mlir"), Path(folder, "log")
        path.write_text(module)
        saved = os.dup(2)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT)
        os.dup2(descriptor, 2)
        try:
            ir.parse_mlir_module(str(path), context)
        except RuntimeError:
            pass
        finally:
            os.dup2(saved, 2)
            os.close(descriptor)
            os.close(saved)
        match = re.search(r"inferred type\(s\) '(.*?)' are", log.read_text())
    return match[1] if match else None


def spread(total: int, pick: random.Random) -> list:
    """Two powers of two with a given product."""
    first = 1 << pick.randrange(total.bit_length())
    return [first, total // first]


def matrix_layouts() -> list:
    """Random MFMA accumulators and operands with the linear layouts that Triton infers."""
    pick = random.Random(34)
    context = ir.context()
    ir.load_dialects(context)
    make_backend(GPUTarget("hip", "gfx942", 64)).load_dialects(context)
    rows = []
    while len(rows) < 24:
        size, warps = pick.choice((16, 32)), 1 << pick.randrange(4)
        text = (
            f"#ttg.amd_mfma<{{versionMajor = {pick.randrange(1, 5)}, versionMinor = 0, "
            f"warpsPerCTA = {spread(warps, pick)}, instrShape = [{size}, {size}], "
            f"isTransposed = {pick.choice(('true', 'false'))}}}>"
        )
        if len(rows) % 2:
            width = 1 << pick.randrange(2, 5)
            text = (
                f"#ttg.dot_op<{{opIdx = {len(rows) // 2 % 2}, parent = {text}, kWidth = {width}}}>"
            )
        shape = [1 << pick.randrange(3, 9), 1 << pick.randrange(3, 9)]
        inferred = infer_transposed(text, shape, warps, context)
        if inferred is None:
            return []
        rows.append({"layout": text, "shape": shape, "transposed": inferred})
    return rows


def main() -> None:
    """Write the fixtures of this Triton next to this file."""
    major, minor = (int(part) for part in triton.__version__.split(".")[:2])
    for arch in ARCHS.get(f"{major}.{minor}", DEFAULT_ARCHS):
        text = scrub(compile_to_ttgir(arch, (major, minor)))
        (HERE / f"gemm_rowmax-{major}.{minor}-{arch}.ttgir").write_text(text)
    if (major, minor) == (3, 4):
        rows = matrix_layouts()
        lines = ",\n".join(json.dumps(row) for row in rows)
        (HERE / f"layouts-{major}.{minor}.json").write_text(f"[\n{lines}\n]\n")
    sys.stdout.flush()
    os._exit(0)  # nanobind reports leaks of MLIR objects at a normal exit


if __name__ == "__main__":
    main()
