"""Kernels whose IR the TTGIR tests compare with MLIR's own view, and how to compile them.

Loaded by path from the tests (Triton reads a kernel's source from its file).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend


@triton.jit
def softmax(x, y, n, stride, B: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, B)
    v = tl.load(x + row * stride + cols, mask=cols < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * stride + cols, e / tl.sum(e, 0), mask=cols < n)


@triton.jit
def attention(q, k, v, o, n, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    qs = tl.load(q + m[:, None] * D + d[None, :])
    acc = tl.zeros((BM, D), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    top = tl.full((BM,), -float("inf"), tl.float32)
    for start in range(0, n, BN):
        c = start + tl.arange(0, BN)
        ks = tl.load(k + c[None, :] * D + d[:, None])
        p = tl.where(c[None, :] < n, tl.dot(qs, ks) * scale, -float("inf"))
        new = tl.maximum(top, tl.max(p, 1))
        p = tl.exp2(p - new[:, None])
        total = total * tl.exp2(top - new) + tl.sum(p, 1)
        acc = acc * tl.exp2(top - new)[:, None]
        vs = tl.load(v + c[:, None] * D + d[None, :])
        acc = tl.dot(p.to(vs.dtype), vs, acc)
        top = new
    tl.store(o + m[:, None] * D + d[None, :], (acc / total[:, None]).to(o.dtype.element_ty))


@triton.jit
def atomics(x, y, z, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + o, mask=o < n)
    tl.atomic_add(y + o % 7, v, mask=o < n)
    tl.atomic_max(y + 3, 5.0)
    c = tl.atomic_cas(z + 1, 0, 1)
    while c != 0:
        c = tl.atomic_cas(z + 1, 0, 1, sem="relaxed")
    tl.store(z + tl.arange(0, 16), tl.histogram(o, 16))


@triton.jit
def _product(a, b):
    return a * b


@triton.jit
def _argmax(v1, i1, v2, i2):
    first = v1 > v2
    return tl.where(first, v1, v2), tl.where(first, i1, i2)


@triton.jit(noinline=True)
def _callee(a, b):
    return a + b, a * 2


@triton.jit
def zoo(x, y, n, f, B: tl.constexpr):
    """One of everything that prints in a form of its own."""
    o = tl.arange(0, B)
    v = tl.load(x + o, cache_modifier=".cg", eviction_policy="evict_first", volatile=True)
    s = tl.cumsum(v, 0)
    t = tl.associative_scan(v, 0, _product)
    w, i = tl.reduce((v, o), 0, _argmax)
    a, b = _callee(f, f)
    if n > 3:
        v = v + 1
        if n > 10:
            s = s - 3
    else:
        v = v - 1
    left, right = tl.split(tl.reshape(v, (B // 2, 2)))
    back = tl.reshape(tl.trans(tl.join(left, right)), (B,))
    g = tl.gather(v, o ^ 1, 0) + tl.rand(n, o)
    z = tl.fma(v, s, t) + tl.math.rsqrt(tl.abs(v)) + tl.math.erf(v) + tl.clamp(v, -1.0, 1.0)
    u = tl.umulhi(o, o) + o // n + o % n + (o.to(tl.uint32) // 7).to(tl.int32) + (o >> 2)
    c = v.to(tl.bfloat16).to(tl.float32) + v.to(tl.float8e5).to(tl.float32)
    h = v.to(tl.int8).to(tl.int32) + v.to(tl.int32, bitcast=True)
    tl.device_assert(o < n, "o is too large")
    tl.device_print("v: ", v, o)
    tl.debug_barrier()
    q = tl.inline_asm_elementwise("v_mov_b32 $0, $1", "=v,v", [v], tl.float32, True, 1)
    d = (v.to(tl.float64) * 1.5e300).to(tl.float32) + (o.to(tl.int64) * 12345678901).to(tl.float32)
    tl.store(y + o, s + t + w + a + b + back + g + z + c + q + d, cache_modifier=".cs")
    tl.store(y + o, (u + h + i).to(tl.float32))


@triton.jit
def gemm_int4(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    om = tl.arange(0, BM)
    on = tl.arange(0, BN)
    ok = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + om[:, None] * K + ok[None, :] + k)
        w = tl.load(b + ((ok[:, None] + k) // 2) * BN + on[None, :])
        w = ((w >> ((ok[:, None] % 2) * 4)) & 0xF).to(tl.float16) - 8.0
        acc = tl.dot(x, w, acc)
    tl.store(c + om[:, None] * BN + on[None, :], acc)


@triton.jit
def gemm_mxfp4(a, b, c, sa, sb, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    om = tl.arange(0, BM)
    on = tl.arange(0, BN)
    ok = tl.arange(0, BK // 2)
    os = tl.arange(0, BK // 32)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + om[:, None] * K + ok[None, :] + k // 2)
        y = tl.load(b + (ok[:, None] + k // 2) * BN + on[None, :])
        xs = tl.load(sa + om[:, None] * (K // 32) + os[None, :] + k // 32)
        ys = tl.load(sb + on[:, None] * (K // 32) + os[None, :] + k // 32)
        acc = tl.dot_scaled(x, xs, "e2m1", y, ys, "e2m1", acc)
    tl.store(c + om[:, None] * BN + on[None, :], acc)


@triton.jit
def descriptors(a, c, M, N, B: tl.constexpr):
    source = tl.make_tensor_descriptor(a, [M, N], [N, 1], [B, B])
    target = tl.make_tensor_descriptor(c, [M, N], [N, 1], [B, B])
    target.store([B, 0], source.load([0, B]))


@triton.jit
def one_dot(a, b, c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, OUT: tl.constexpr):
    """One product without a loop: its instructions can be counted in the ISA."""
    om = tl.arange(0, BM)
    on = tl.arange(0, BN)
    ok = tl.arange(0, BK)
    x = tl.load(a + om[:, None] * BK + ok[None, :])
    y = tl.load(b + ok[:, None] * BN + on[None, :])
    tl.store(c + om[:, None] * BN + on[None, :], tl.dot(x, y, out_dtype=OUT))


@triton.jit
def one_batch_dot(a, b, c, B: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.arange(0, B)[:, None, None]
    om = tl.arange(0, BM)[None, :, None]
    on = tl.arange(0, BN)[None, None, :]
    x = tl.load(a + i * BM * BK + om * BK + tl.arange(0, BK)[None, None, :])
    y = tl.load(b + i * BN * BK + tl.arange(0, BK)[None, :, None] * BN + on)
    tl.store(c + i * BM * BN + om * BN + on, tl.dot(x, y))


@dataclass(frozen=True)
class Job:
    """A kernel with the types of its run-time arguments and the values of the others."""

    fn: Any
    types: dict[str, str]
    constants: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)


JOBS = {
    "softmax": Job(softmax, {"x": "*fp16", "y": "*fp16", "n": "i32", "stride": "i32"}, {"B": 1024}),
    "attention": Job(
        attention,
        {**dict.fromkeys("qkvo", "*fp16"), "n": "i32", "scale": "fp32"},
        {"BM": 128, "BN": 64, "D": 64},
    ),
    "atomics": Job(atomics, {"x": "*fp32", "y": "*fp32", "z": "*i32", "n": "i32"}, {"B": 256}),
    "zoo": Job(zoo, {"x": "*fp32", "y": "*fp32", "n": "i32", "f": "fp32"}, {"B": 256}),
    "gemm_int4": Job(
        gemm_int4,
        {"a": "*fp16", "b": "*u8", "c": "*fp32", "K": "i32"},
        {"BM": 64, "BN": 64, "BK": 64},
    ),
    "gemm_mxfp4": Job(
        gemm_mxfp4,
        {"a": "*u8", "b": "*u8", "c": "*fp32", "sa": "*u8", "sb": "*u8", "K": "i32"},
        {"BM": 64, "BN": 64, "BK": 256},
    ),
    "descriptors": Job(
        descriptors, {"a": "*fp16", "c": "*fp16", "M": "i32", "N": "i32"}, {"B": 64}
    ),
}

_OUT = {"i8": "i32", "fp64": "fp64"}


def dot_job(element: str, m: int, n: int, k: int, **options: Any) -> Job:
    """A single product of one element type."""
    out = _OUT.get(element, "fp32")
    dtype = {"i32": tl.int32, "fp64": tl.float64, "fp32": tl.float32}[out]
    types = {"a": f"*{element}", "b": f"*{element}", "c": f"*{out}"}
    return Job(one_dot, types, {"BM": m, "BN": n, "BK": k, "OUT": dtype}, options)


def batch_dot_job(batch: int, m: int, n: int, k: int, **options: Any) -> Job:
    """A single product of batches."""
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp32"}
    return Job(one_batch_dot, types, {"B": batch, "BM": m, "BN": n, "BK": k}, options)


def compile_stages(job: Job, arch: str, last: str = "ttgir") -> dict[str, str]:
    """The text of each compiler stage up to `last`, with pointers aligned and below 2 GiB."""
    target = GPUTarget("hip", arch, 64 if arch.startswith("gfx9") else 32)
    backend = make_backend(target)
    options = backend.parse_options(dict(job.options))
    attrs = {
        (i,): [["tt.divisibility", 16], *([["tt.pointer_range", 32]] if of[0] == "*" else [])]
        for i, of in enumerate(job.types.values())
        if of != "fp32"
    }
    signature = {**job.types, **dict.fromkeys(job.constants, "constexpr")}
    source = ASTSource(job.fn, signature, dict(job.constants), attrs)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = source.make_ir(
        target,
        options,
        backend.get_codegen_implementation(options),
        backend.get_module_map(),
        context,
    )
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    metadata = {"target": target, **options.__dict__}
    texts: dict[str, str] = {}
    for name, run in stages.items():
        module = run(module, metadata)
        texts[name] = str(module)
        if name == last:
            break
    return texts
