"""Kernels whose neighbours share addresses, each beside the form that kinspect advises.

Run as a script with TRITON_INTERPRET=1, the file compares what both forms compute.
"""

import sys

import triton
import triton.language as tl


@triton.jit
def grouped(x, y, G: tl.constexpr, BLOCK: tl.constexpr):
    """Every element is used for G neighbours."""
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at // G))


@triton.jit
def grouped_advised(x, y, G: tl.constexpr, BLOCK: tl.constexpr):
    each = tl.load(x + tl.arange(0, BLOCK // G))
    spread = tl.reshape(tl.broadcast_to(each[:, None], (BLOCK // G, G)), (BLOCK,))
    tl.store(y + tl.arange(0, BLOCK), spread)


@triton.jit
def every_second(x, y, BLOCK: tl.constexpr):
    """Neighbours lie two elements apart."""
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at * 2))


@triton.jit
def every_second_advised(x, y, BLOCK: tl.constexpr):
    both = tl.load(x + tl.arange(0, 2 * BLOCK))
    even, _ = tl.split(tl.reshape(both, (BLOCK, 2)))
    tl.store(y + tl.arange(0, BLOCK), even)


@triton.jit
def scaled(x, s, y, K, G, BLOCK: tl.constexpr):
    """Groups of G elements have a scale; nobody says how many they are."""
    at = tl.arange(0, BLOCK)
    for k in range(0, K, BLOCK):
        tl.store(y + k + at, tl.load(x + k + at) * tl.load(s + (k + at) // G))


@triton.jit
def scaled_advised(x, s, y, K, G: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for k in range(0, K, BLOCK):
        tl.store(y + k + at, tl.load(x + k + at) * tl.load(s + (k + at) // G))


@triton.jit
def scaled_rows(x, s, y, K, G: tl.constexpr, M: tl.constexpr, BLOCK: tl.constexpr):
    """A scale for each group of each row."""
    rows, at = tl.arange(0, M), tl.arange(0, BLOCK)
    for k in range(0, K, BLOCK):
        whole = tl.load(x + rows[:, None] * K + (k + at)[None, :])
        scale = tl.load(s + rows[:, None] * (K // G) + ((k + at) // G)[None, :])
        tl.store(y + rows[:, None] * K + (k + at)[None, :], whole * scale)


@triton.jit
def rows_only(x, y, M: tl.constexpr, N: tl.constexpr):
    """One element a row."""
    rows, cols = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + rows[:, None] + cols[None, :] * 0)
    tl.store(y + rows[:, None] * N + cols[None, :], tile)


@triton.jit
def unpacked(p, y, stride_n, K: tl.constexpr, N: tl.constexpr):
    """Eight values of four bits in each word, words contiguous along K."""
    ks, ns = tl.arange(0, K), tl.arange(0, N)
    words = tl.load(p + (ks[:, None] // 8) + ns[None, :] * stride_n)
    values = (words >> ((ks % 8) * 4)[:, None]) & 0xF
    tl.store(y + ks[:, None] * N + ns[None, :], values)


@triton.jit
def unpacked_advised(p, y, stride_n, K: tl.constexpr, N: tl.constexpr):
    ks, ns = tl.arange(0, K), tl.arange(0, N)
    words = tl.load(p + tl.arange(0, K // 8)[None, :] + ns[:, None] * stride_n)
    values = (words[:, :, None] >> (tl.arange(0, 8) * 4)[None, None, :]) & 0xF
    values = tl.trans(tl.reshape(values, (N, K)))
    tl.store(y + ks[:, None] * N + ns[None, :], values)


@triton.jit
def in_runs(x, y, stride, RUN: tl.constexpr, BLOCK: tl.constexpr):
    """Runs of neighbours; no two elements have one address."""
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + (at // RUN * stride + at % RUN)))


@triton.jit
def in_steps(x, y, BLOCK: tl.constexpr):
    """Two steps forward, and one every other time."""
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + (at * 2 + at % 2)))


@triton.jit
def around(x, y, BLOCK: tl.constexpr):
    """Groups that come again."""
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at // 2 % 4))


@triton.jit
def chosen(x, y, n, BLOCK: tl.constexpr):
    """Groups, or neighbours."""
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + tl.where(at < n, at // 2, at)))


@triton.jit
def shifted(x, y, BLOCK: tl.constexpr):
    """A shift in place of a division."""
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + (at >> 3)))


@triton.jit
def cleared(x, y, BLOCK: tl.constexpr):
    """The last bits are cleared: every eighth element, eight times each."""
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + (at & -8)))


@triton.jit
def swizzled(x, y, BLOCK: tl.constexpr):
    """Neighbours change places."""
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + (at ^ 1)))


@triton.jit
def summed(x, y, K, BLOCK: tl.constexpr):
    """A mask in the statement that assigns the sum."""
    rk = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, K, BLOCK):
        acc += tl.load(x + k + rk, mask=k + rk < K, other=0.0)
    tl.store(y + rk, acc)


@triton.jit
def summed_advised(x, y, K, BLOCK: tl.constexpr):
    """The last iteration apart."""
    rk = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    whole = K // BLOCK * BLOCK
    for k in range(0, whole, BLOCK):
        acc += tl.load(x + k + rk)
    acc += tl.load(x + whole + rk, mask=whole + rk < K, other=0.0)
    tl.store(y + rk, acc)


@triton.jit
def summed_to_last(x, y, K, BLOCK: tl.constexpr):
    """<= in place of <."""
    rk = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, K, BLOCK):
        acc += tl.load(x + k + rk, mask=k + rk <= K - 1, other=0.0)
    tl.store(y + rk, acc)


@triton.jit
def all_but_seven(x, y, n, BLOCK: tl.constexpr):
    """A bound that no padding makes a multiple of anything."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n - 7, other=0.0))


@triton.jit
def counted_down(x, y, K, BLOCK: tl.constexpr):
    """A bound that a loop carries."""
    rk = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    k = 0
    left = K
    while left > 0:
        acc += tl.load(x + k + rk, mask=rk < left, other=0.0)
        left -= BLOCK
        k += BLOCK
    tl.store(y + rk, acc)


@triton.jit
def product(a, b, c, K, lda, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr):
    """Masks of a pipelined loop; rm and rk are equal ranges."""
    rm, rn, rk = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BLOCK)
    acc = tl.zeros((M, N), tl.float32)
    for i in range(tl.cdiv(K, BLOCK)):
        at = i * BLOCK + rk
        acc = tl.dot(
            tl.load(a + rm[:, None] * lda + at[None, :], mask=rk[None, :] < K - i * BLOCK),
            tl.load(b + at[:, None] * N + rn[None, :], mask=rk[:, None] < K - i * BLOCK),
            acc,
        )
    tl.store(c + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def chained(a, b, c, o, L, K: tl.constexpr, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    """The first product is an operand of the second."""
    rm, rk, rn, rd = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N), tl.arange(0, D)
    x = tl.load(a + rm[:, None] * K + rk[None, :])
    acc = tl.zeros((M, D), tl.float32)
    for n in range(0, L, N):
        y = tl.load(b + (n + rn)[None, :] * K + rk[:, None])
        p = tl.maximum(tl.dot(x, y), 0).to(tl.float16)
        z = tl.load(c + (n + rn)[None, :] + rd[:, None] * L)
        acc = tl.dot(p, tl.trans(z), acc)
    tl.store(o + rm[:, None] * D + rd[None, :], acc)


_F16, _F32, _I32 = "*fp16:16", "*fp32:16", "*i32:16"


def _case(name, kernel, signature, constexprs, **options):
    return {
        "name": name,
        "kernel": kernel,
        "signature": signature,
        "constexprs": constexprs,
        "options": {"num_warps": 4, **options},
    }


_COPY = {"x": _F16, "y": _F16}
_WORDS = {"x": _F32, "y": _F32}
_SUM = {"x": _F16, "y": _F32, "K": "i32"}
_SCALED = {"x": _F16, "s": _F16, "y": _F16, "K": "i32:16"}
_PACKED = {"p": _I32, "y": _I32, "stride_n": "i32:16"}
_CHAIN = {"a": _F16, "b": _F16, "c": _F16, "o": _F32, "L": "i32:16"}
_TILES = {"K": 64, "M": 64, "N": 128, "D": 128}

KINSPECT_CASES = [
    _case("by_two", "grouped", _COPY, {"G": 2, "BLOCK": 4096}),
    _case("by_two_advised", "grouped_advised", _COPY, {"G": 2, "BLOCK": 4096}),
    _case("by_eight", "grouped", _WORDS, {"G": 8, "BLOCK": 1024}),
    _case("by_twelve", "grouped", _WORDS, {"G": 12, "BLOCK": 2048}),
    _case("every_second", "every_second", _COPY, {"BLOCK": 2048}),
    _case("every_second_advised", "every_second_advised", _COPY, {"BLOCK": 2048}),
    _case("scaled", "scaled", {**_SCALED, "G": "i32"}, {"BLOCK": 4096}),
    _case("scaled_by_two", "scaled_advised", _SCALED, {"G": 2, "BLOCK": 4096}),
    _case("scaled_by_eight", "scaled_advised", _SCALED, {"G": 8, "BLOCK": 4096}),
    _case("scaled_rows", "scaled_rows", _SCALED, {"G": 8, "M": 16, "BLOCK": 64}),
    _case("scaled_rows_two", "scaled_rows", _SCALED, {"G": 2, "M": 64, "BLOCK": 64}),
    _case("rows_only", "rows_only", _COPY, {"M": 64, "N": 64}),
    _case("unpacked", "unpacked", _PACKED, {"K": 64, "N": 64}),
    _case("unpacked_advised", "unpacked_advised", _PACKED, {"K": 64, "N": 64}),
    _case("in_runs", "in_runs", {**_COPY, "stride": "i32:16"}, {"RUN": 4, "BLOCK": 2048}),
    _case("in_steps", "in_steps", _COPY, {"BLOCK": 4096}),
    _case("around", "around", _COPY, {"BLOCK": 4096}),
    _case("chosen", "chosen", {**_COPY, "n": "i32"}, {"BLOCK": 4096}),
    _case("shifted", "shifted", _COPY, {"BLOCK": 16384}),
    _case("cleared", "cleared", _COPY, {"BLOCK": 16384}),
    _case("swizzled", "swizzled", _COPY, {"BLOCK": 2048}),
    _case("summed", "summed", _SUM, {"BLOCK": 2048}),
    _case("summed_advised", "summed_advised", _SUM, {"BLOCK": 2048}),
    _case("summed_to_last", "summed_to_last", {**_SUM, "K": "i32:16"}, {"BLOCK": 2048}),
    _case("all_but_seven", "all_but_seven", {**_COPY, "n": "i32:16"}, {"BLOCK": 4096}),
    _case("counted_down", "counted_down", _SUM, {"BLOCK": 2048}),
    _case(
        "product", "product",
        {"a": _F16, "b": _F16, "c": _F32, "K": "i32", "lda": "i32:16"},
        {"M": 64, "N": 64, "BLOCK": 64},
    ),
    _case("chained", "chained", _CHAIN, _TILES),
    _case("chained_rows", "chained", _CHAIN, _TILES, matrix_instr_nonkdim=16),
]  # fmt: skip


def _same(name, original, advised, *arguments, out, **constexprs):
    """Run both forms on the same inputs; `constexprs` maps a name to one value or to a pair."""
    import torch

    results = []
    for k, kernel in enumerate((original, advised)):
        result = torch.zeros_like(out)
        values = {n: v[k] if isinstance(v, tuple) else v for n, v in constexprs.items()}
        kernel[(1,)](*(result if a is None else a for a in arguments), **values)
        results.append(result)
    assert results[0].abs().sum() > 0, name
    assert torch.equal(*results), name
    sys.stdout.write(f"{name}\n")


def _compare_all():
    import torch

    torch.manual_seed(0)
    x = torch.randn(4096)
    for group in (2, 8, 32):
        _same(
            f"grouped {group}",
            grouped,
            grouped_advised,
            x,
            None,
            out=torch.zeros(256),
            G=group,
            BLOCK=256,
        )
    _same(
        "every_second", every_second, every_second_advised, x, None, out=torch.zeros(256), BLOCK=256
    )
    for group in (1, 2, 8, 12, 128):
        scales = torch.randn(512)
        _same(
            f"scaled {group}",
            scaled,
            scaled_advised,
            x,
            scales,
            None,
            out=torch.zeros(512),
            K=512,
            G=group,
            BLOCK=256,
        )
    packed = torch.randint(-(2**31), 2**31 - 1, (32, 16), dtype=torch.int32)
    _same(
        "unpacked",
        unpacked,
        unpacked_advised,
        packed,
        None,
        out=torch.zeros(64, 32, dtype=torch.int32),
        stride_n=16,
        K=64,
        N=32,
    )
    for length in (512, 500, 77):
        _same(
            f"summed {length}",
            summed,
            summed_advised,
            x,
            None,
            out=torch.zeros(128),
            K=length,
            BLOCK=128,
        )
        _same(
            f"last {length}",
            summed_to_last,
            summed,
            x,
            None,
            out=torch.zeros(128),
            K=length,
            BLOCK=128,
        )


if __name__ == "__main__":
    _compare_all()
