"""Kernels that spill, and one that what they are advised has mended: see test_spill_remedies.py."""

import triton
import triton.language as tl


@triton.jit
def product(a, b, c, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows, cols = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K)
        x = tl.load(a + rows[:, None] * K + ks[None, :])
        y = tl.load(b + ks[:, None] + cols[None, :] * K)
        acc = tl.dot(x, y, acc)
    tl.store(c + rows[:, None] * BLOCK_N + cols[None, :], acc)


@triton.jit
def chained(a, b, c, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """As many waves as the first product has matrix instructions."""
    rows, cols, ks = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    x = tl.load(a + rows[:, None] * BLOCK_K + ks[None, :])
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        y = tl.load(b + (k + ks)[None, :] * BLOCK_K + ks[:, None])
        z = tl.load(b + (k + ks)[:, None] + cols[None, :] * K)
        acc = tl.dot(tl.dot(x, y).to(tl.float16), z, acc)
    tl.store(c + rows[:, None] * BLOCK_N + cols[None, :], acc)


@triton.jit
def latent(a, b, c, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """A tile that both products read: rows of one are the columns of the other."""
    rows, cols, ks = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    x = tl.load(a + rows[:, None] * BLOCK_N + cols[None, :])
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    for k in range(0, K, BLOCK_K):
        y = tl.load(b + (k + ks)[:, None] * BLOCK_N + cols[None, :], mask=(k + ks)[:, None] < K)
        weights = tl.exp2(tl.dot(x, tl.trans(y)))
        total += tl.sum(weights, 1)
        acc = tl.dot(weights.to(tl.float16), y, acc)
    tl.store(c + rows[:, None] * BLOCK_N + cols[None, :], acc / total[:, None])


def _case(name, kernel, tile, arch, **options):
    m, n, k = tile
    return {
        "name": name,
        "kernel": kernel,
        "signature": {"a": "*fp16:16", "b": "*fp16:16", "c": "*fp32:16", "K": "i32:16"},
        "constexprs": {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k},
        "options": {"num_warps": 4, "num_stages": 2, **options},
        "archs": [arch],
    }


KINSPECT_CASES = [
    _case("tile_of_256", "product", (256, 128, 32), "gfx1100"),
    _case("tile_of_256_more_waves", "product", (256, 128, 32), "gfx1100", num_warps=8),
    _case("held_down", "product", (128, 128, 32), "gfx942", waves_per_eu=6),
    _case("rows_for_four", "chained", (64, 512, 32), "gfx1100"),
    _case("rows_for_four_more_waves", "chained", (64, 512, 32), "gfx1100", num_warps=8),
    _case("rows_for_four_half", "chained", (64, 256, 32), "gfx1100"),
    _case("thin", "chained", (32, 512, 32), "gfx1100", num_stages=1),
    _case("thin_pipelined", "chained", (32, 512, 32), "gfx1100"),
    _case("latent", "latent", (16, 1024, 64), "gfx942", num_stages=1),
    _case("latent_half", "latent", (16, 1024, 32), "gfx942", num_stages=1),
]
