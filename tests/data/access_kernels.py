"""Kernels with narrow accesses, each for one planted reason."""

import triton
import triton.language as tl


@triton.jit
def unknown_stride(x, y, stride_row, stride_col, M: tl.constexpr, N: tl.constexpr):
    """Nobody knows that stride_col is 1."""
    rows, cols = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + rows[:, None] * stride_row + cols[None, :] * stride_col)
    tl.store(y + rows[:, None] * N + cols[None, :], tile)


@triton.jit
def indivisible_pitch(x, y, K, M: tl.constexpr, N: tl.constexpr):
    """K is the row's pitch: rows begin at any element."""
    rows, cols = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + rows[:, None] * K + cols[None, :])
    tl.store(y + rows[:, None] * N + cols[None, :], tile)


@triton.jit
def masked_by_element(x, y, n, BLOCK: tl.constexpr):
    """The mask may end at any element."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offsets, mask=offsets < n)
    tl.store(y + offsets, value, mask=offsets < n)


@triton.jit
def gathered(x, index, y, BLOCK: tl.constexpr):
    """Which elements are read, memory says."""
    at = tl.arange(0, BLOCK)
    chosen = tl.load(index + at)
    tl.store(y + at, tl.load(x + chosen))


@triton.jit
def wrapped(x, y, n, BLOCK: tl.constexpr):
    """The range may begin again anywhere in it."""
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at % n))


@triton.jit
def told_of_range(x, y, n, BLOCK: tl.constexpr):
    """As wrapped, and told that it does not."""
    at = tl.arange(0, BLOCK)
    offsets = tl.max_contiguous(tl.multiple_of(at % n, BLOCK), BLOCK)
    tl.store(y + at, tl.load(x + offsets))


@triton.jit
def every_second(x, y, BLOCK: tl.constexpr):
    """Neighbours lie two elements apart."""
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at * 2))


@triton.jit
def counted_down(x, y, pitch, n, BLOCK: tl.constexpr):
    """Neighbours lie side by side, the last one first; rows and mask are in the way as well."""
    at = tl.arange(0, BLOCK)
    back = BLOCK - 1 - at
    tl.store(y + at, tl.load(x + tl.program_id(0) * pitch + back, mask=back < n))


@triton.jit
def compared(x, y, n, distance, BLOCK: tl.constexpr):
    """A step of a bitonic sort: whether an element takes part differs from one to the next."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    partner = offsets ^ distance
    tl.store(y + offsets, tl.load(x + offsets, mask=(partner < n) & (partner > offsets)))


@triton.jit
def windows(x, y, width, BLOCK: tl.constexpr):
    """Each iteration reads from one element further on."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(width):
        acc += tl.load(x + offsets + k)
    tl.store(y + offsets, acc.to(tl.float16))


@triton.jit
def place_in_page(x, y, page, BLOCK: tl.constexpr):
    """A remainder takes every value below its divisor."""
    first = tl.program_id(0) % page
    tl.store(y + tl.arange(0, BLOCK), tl.load(x + first + tl.arange(0, BLOCK)))


@triton.jit
def counted_parts(x, y, size, parts, BLOCK: tl.constexpr):
    """Of the number of a part and its size only the size can be a multiple."""
    size_of_part = size // parts
    group = tl.program_id(0) * parts
    acc = tl.zeros((BLOCK,), tl.float32)
    for part in range(group, group + parts):
        acc += tl.load(x + (part - group) * size_of_part + tl.arange(0, BLOCK))
    tl.store(y + tl.arange(0, BLOCK), acc.to(tl.float16))


@triton.jit
def one_column(x, y, pitch, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A pitch that is a multiple of 16 is not 1."""
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    columns += tl.program_id(0) * COLUMNS
    tile = tl.load(x + rows[:, None] * pitch + columns[None, :])
    tl.store(y + columns, tl.sum(tile.to(tl.float32), 0).to(tl.float16))


@triton.jit
def one_column_turned(x, y, pitch, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """As one_column, of a tensor that is stored the other way round."""
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    columns += tl.program_id(0) * COLUMNS
    tile = tl.load(x + rows[:, None] + columns[None, :] * pitch)
    tl.store(y + columns, tl.sum(tile.to(tl.float32), 0).to(tl.float16))


@triton.jit
def one_column_written(x, y, pitch, ROWS: tl.constexpr):
    """As one_column, of a store."""
    rows = tl.arange(0, ROWS)
    tl.store(y + rows * pitch, tl.load(x + rows))


@triton.jit
def turned_pairs(x, y, BLOCK: tl.constexpr):
    """Complex numbers: real and imaginary parts beside each other are read and written apart."""
    at = tl.arange(0, BLOCK)
    real, imaginary = tl.load(x + at * 2), tl.load(x + at * 2 + 1)
    tl.store(y + at * 2, real - imaginary)
    tl.store(y + at * 2 + 1, imaginary + real)


@triton.jit
def joined_pairs(x, y, BLOCK: tl.constexpr):
    """As turned_pairs, read and written as one."""
    at = tl.arange(0, 2 * BLOCK)
    real, imaginary = tl.split(tl.reshape(tl.load(x + at), (BLOCK, 2)))
    tl.store(y + at, tl.reshape(tl.join(real - imaginary, imaginary + real), (2 * BLOCK,)))


@triton.jit
def unaligned(x, y, BLOCK: tl.constexpr):
    """x begins anywhere."""
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at))


@triton.jit
def told(x, y, K, M: tl.constexpr, N: tl.constexpr):
    """As indivisible_pitch, with a K that is a multiple of 16 by its arithmetic."""
    K = K // 16 * 16
    rows, cols = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + rows[:, None] * K + cols[None, :])
    tl.store(y + rows[:, None] * N + cols[None, :], tile)


@triton.jit
def told_of_argument(x, y, K, M: tl.constexpr, N: tl.constexpr):
    """As indivisible_pitch: what is said of the argument is lost."""
    K = tl.multiple_of(K, 16)
    rows, cols = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + rows[:, None] * K + cols[None, :])
    tl.store(y + rows[:, None] * N + cols[None, :], tile)


@triton.jit
def copied(x, y, M: tl.constexpr, N: tl.constexpr):
    """Nothing is wrong but the size."""
    rows, cols = tl.arange(0, M), tl.arange(0, N)
    at = rows[:, None] * N + cols[None, :]
    tl.store(y + at, tl.load(x + at))


@triton.jit
def transposed(x, y, M: tl.constexpr, N: tl.constexpr):
    """What is read along rows is written along columns."""
    rows, cols = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + rows[:, None] * N + cols[None, :])
    tl.store(y + rows[:, None] + cols[None, :] * M, tile)


@triton.jit
def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BLOCK_K: tl.constexpr):
    """b is contiguous along N: the matrix instruction wants neighbours along K."""
    rows, cols = tl.arange(0, M), tl.arange(0, N)
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K)
        x = tl.load(a + rows[:, None] * K + ks[None, :])
        y = tl.load(b + ks[:, None] * N + cols[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + rows[:, None] * N + cols[None, :], acc)


@triton.jit
def scores(a, b, c, stride_column, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """A product is stored as the matrix instruction leaves it."""
    rows, cols, ks = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + rows[:, None] * K + ks[None, :])
    y = tl.load(b + ks[:, None] + cols[None, :] * K)
    tl.store(c + rows[:, None] + cols[None, :] * stride_column, tl.dot(x, y))


def _tile(kernel, more, kind="fp16", m=64, n=64, warps=4, **constexprs):
    return {
        "name": kernel,
        "kernel": kernel,
        "signature": {"x": f"*{kind}:16", "y": f"*{kind}:16", **more},
        "constexprs": constexprs or {"M": m, "N": n},
        "options": {"num_warps": warps},
    }


KINSPECT_CASES = [
    _tile("unknown_stride", {"stride_row": "i32:16", "stride_col": "i32"}),
    _tile("indivisible_pitch", {"K": "i32"}),
    _tile("masked_by_element", {"n": "i32"}, BLOCK=2048),
    _tile("gathered", {"index": "*i32:16"}, BLOCK=2048),
    _tile("wrapped", {"n": "i32"}, BLOCK=2048),
    _tile("told_of_range", {"n": "i32"}, BLOCK=2048),
    _tile("every_second", {}, BLOCK=2048),
    _tile("counted_down", {"pitch": "i32", "n": "i32"}, BLOCK=2048),
    _tile("compared", {"n": "i32:16", "distance": "i32"}, BLOCK=2048),
    _tile("windows", {"width": "i32"}, BLOCK=2048),
    _tile("place_in_page", {"page": "i32"}, BLOCK=2048),
    _tile("counted_parts", {"size": "i32:16", "parts": "i32"}, BLOCK=2048),
    _tile("one_column", {"pitch": "i32:16"}, warps=1, ROWS=512, COLUMNS=1),
    {
        **_tile("one_column", {"pitch": "i32:16"}, warps=1, ROWS=512, COLUMNS=8),
        "name": "eight_columns",
    },
    _tile("one_column_turned", {"pitch": "i32:16"}, warps=1, ROWS=512, COLUMNS=1),
    _tile("one_column_written", {"pitch": "i32:16"}, ROWS=2048),
    _tile("turned_pairs", {}, BLOCK=1024),
    _tile("joined_pairs", {}, BLOCK=1024),
    _tile("unaligned", {"x": "*fp16"}, BLOCK=2048),
    _tile("told", {"K": "i32"}),
    _tile("told_of_argument", {"K": "i32"}),
    _tile("transposed", {}),
    {**_tile("copied", {}, kind="fp32", m=16, n=16, warps=8), "name": "few_elements"},
    {**_tile("copied", {}, kind="fp8e4b8", m=32, n=32), "name": "small_type"},
    {**_tile("copied", {}), "name": "wide"},
    {
        "name": "product",
        "kernel": "product",
        "signature": {"a": "*fp16:16", "b": "*fp16:16", "c": "*fp32:16", "K": "i32:16"},
        "constexprs": {"M": 64, "N": 64, "BLOCK_K": 64},
        "options": {"num_warps": 4},
    },
    {
        "name": "product_of_words",
        "kernel": "product",
        "signature": {"a": "*fp32:16", "b": "*fp32:16", "c": "*fp32:16", "K": "i32:16"},
        "constexprs": {"M": 64, "N": 64, "BLOCK_K": 64},
        "options": {"num_warps": 4},
        "archs": ["gfx942", "gfx950", "gfx1100"],
    },
    {
        "name": "scores",
        "kernel": "scores",
        "signature": {
            "a": "*fp16:16",
            "b": "*fp16:16",
            "c": "*fp32:16",
            "stride_column": "i32",
        },
        "constexprs": {"M": 64, "N": 64, "K": 64},
        "options": {"num_warps": 4},
        "archs": ["gfx1100"],
    },
]
