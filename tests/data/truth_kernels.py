"""Kernels that compile cleanly and are not what they seem, beside some that are."""

import triton
import triton.language as tl


@triton.jit
def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BLOCK_K: tl.constexpr, OUT: tl.constexpr):
    rows, cols = tl.arange(0, M), tl.arange(0, N)
    acc = tl.zeros((M, N), OUT)
    for k in range(0, K, BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K)
        x = tl.load(a + rows[:, None] * K + ks[None, :])
        y = tl.load(b + ks[:, None] + cols[None, :] * K)
        acc = tl.dot(x, y, acc, out_dtype=OUT)
    tl.store(c + rows[:, None] * N + cols[None, :], acc)


@triton.jit
def converted(a, b, c, BLOCK: tl.constexpr):
    """The conversion is the author's own, on the line of the dot."""
    at = tl.arange(0, BLOCK)
    x = tl.load(a + at[:, None] * BLOCK + at[None, :])
    y = tl.load(b + at[:, None] * BLOCK + at[None, :])
    acc = tl.dot(x.to(tl.float16), y.to(tl.float16))
    tl.store(c + at[:, None] * BLOCK + at[None, :], acc)


@triton.jit
def scaled(a, b, c, a_scale, b_scale, BLOCK: tl.constexpr):
    rows, packed, groups = tl.arange(0, BLOCK), tl.arange(0, 64), tl.arange(0, 4)
    x = tl.load(a + rows[:, None] * 64 + packed[None, :])
    y = tl.load(b + packed[:, None] + rows[None, :] * 64)
    p = tl.load(a_scale + rows[:, None] * 4 + groups[None, :])
    q = tl.load(b_scale + rows[:, None] * 4 + groups[None, :])
    acc = tl.dot_scaled(x, p, "e2m1", y, q, "e2m1")
    tl.store(c + rows[:, None] * BLOCK + rows[None, :], acc)


@triton.jit
def assembly(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    value = tl.inline_asm_elementwise(
        """
        v_mul_f32 $0, $1, $1 ; squared
        s_nop 1
        // both comment forms
        """,
        "=v,v",
        [value],
        dtype=tl.float32,
        is_pure=False,
        pack=1,
    )
    # A barrier for the compiler: no instruction at all.
    value = tl.inline_asm_elementwise("", "=v,0", [value], dtype=tl.float32, is_pure=False, pack=1)
    tl.store(y + at, value)


@triton.jit
def unneeded(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    sine = tl.inline_asm_elementwise(
        "v_sin_f32 $0, $1", "=v,v", [value], dtype=tl.float32, is_pure=True, pack=1
    )
    lane = tl.abs(at).to(tl.float32) + 1.0  # LLVM sees that this is above 0, Triton does not
    tl.store(y + at, tl.where(lane < 0.5, sine, value))


@triton.jit
def constraint(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.inline_asm_elementwise(
        "ex2.approx.f32 $0, $1;",
        "=f,f",
        [tl.load(x + at)],
        dtype=tl.float32,
        is_pure=True,
        pack=1,
    )
    tl.store(y + at, value)


@triton.jit
def instruction(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.inline_asm_elementwise(
        "v_mov_b32 $0, $1", "=v,v", [tl.load(x + at)], dtype=tl.float32, is_pure=True, pack=1
    )
    value = tl.inline_asm_elementwise(
        "mov.b32 $0, $1;", "=v,v", [value], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(y + at, value)


@triton.jit
def timer(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) + tl.extra.cuda.globaltimer())


@triton.jit
def processor(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) + tl.extra.cuda.smid())


@triton.jit
def nothing(x, y, n, BLOCK: tl.constexpr):
    """Its only store never happens."""
    at = tl.arange(0, BLOCK)
    tl.store(y + at * n, tl.load(x + at), mask=at < 0)


def _product(name, kind, out, spelled, m=16, n=16, k=32, **more):
    return {
        "name": name,
        "kernel": "product",
        "signature": {
            "a": f"*{kind}:16",
            "b": f"*{kind}:16",
            "c": f"*{spelled}:16",
            "K": "i32:16",
        },
        "constexprs": {"M": m, "N": n, "BLOCK_K": k, "OUT": out},
        "options": {"num_warps": 1},
        **more,
    }


def _elementwise(kernel, kind="fp32", **more):
    return {
        "name": kernel,
        "kernel": kernel,
        "signature": {"x": f"*{kind}:16", "y": f"*{kind}:16"},
        "constexprs": {"BLOCK": 256},
        **more,
    }


CDNA = {"archs": ["gfx942"]}
TWO = {"archs": ["gfx942", "gfx1201"]}
KINSPECT_CASES = [
    _product("e4m3", "fp8e4nv", tl.float32, "fp32"),
    _product("e5m2", "fp8e5", tl.float32, "fp32"),
    _product("e4m3fnuz", "fp8e4b8", tl.float32, "fp32"),
    _product("e5m2fnuz", "fp8e5b16", tl.float32, "fp32"),
    _product("int8", "i8", tl.int32, "i32"),
    _product("float32", "fp32", tl.float32, "fp32", k=16),
    _product("short", "fp16", tl.float32, "fp32", m=8, n=8, k=16, archs=["gfx942", "gfx1100"]),
    _product("lds", "fp16", tl.float32, "fp32", m=128, n=128, k=256, **CDNA)
    | {"options": {"num_warps": 8, "num_stages": 3}},
    {
        "name": "converted",
        "kernel": "converted",
        "signature": {"a": "*fp8e4nv:16", "b": "*fp8e4nv:16", "c": "*fp32:16"},
        "constexprs": {"BLOCK": 32},
    },
    {
        "name": "scaled",
        "kernel": "scaled",
        "signature": {
            "a": "*u8:16",
            "b": "*u8:16",
            "c": "*fp32:16",
            "a_scale": "*u8:16",
            "b_scale": "*u8:16",
        },
        "constexprs": {"BLOCK": 32},
        "archs": ["gfx942", "gfx950"],
    },
    _elementwise("assembly"),
    _elementwise("unneeded", **CDNA),
    _elementwise("constraint", **TWO),
    _elementwise("instruction", **TWO),
    _elementwise("timer", "i64", **CDNA),
    _elementwise("processor", "i32", **CDNA),
    {
        "name": "nothing",
        "kernel": "nothing",
        "signature": {"x": "*fp32:16", "y": "*fp32:16", "n": "i32"},
        "constexprs": {"BLOCK": 256},
        # Without buffer operations, which store out of bounds instead of not at all.
        "small_tensors": False,
        "archs": ["gfx942"],
    },
]
