"""Matrix multiplication by stream-K: the tiles that do not fill the GPU are shared out along K.

Shapes and layouts
    a [M, K], b [K, N], c [M, N], each row-major or column-major: a layout is nothing but strides,
    so a transposed view will do. Any sizes; each matrix below 2³¹ elements.
Dtypes
    a and b: float16, bfloat16, float32 or a float8 kind that the chip knows, both the same.
    Accumulator and partial sums are float32. c: float16, bfloat16 or float32 in the spin-lock form,
    float32 in the atomic form.
Formula
    c = a @ b
Schedule
    NUM_SMS programs, one for each CU, walk the tiles of c. Tiles that fill the GPU evenly are
    computed whole, one tile a program and round. The rest, STREAMK_TILES = tiles % NUM_SMS, would
    leave CUs idle in a last round: their K blocks are laid end to end and cut into NUM_SMS equal
    pieces, so that a tile may be the work of several programs. Those add their parts up
      spin-lock   in the registers of one of them, the tile's finisher: the others leave theirs in
                  a workspace [2·NUM_SMS, BLOCK_M, BLOCK_N] float32 and open a lock that it spins
                  on. The order of the sum is fixed.
      atomic      in c itself, which starts as 0. The sum's order, and so its last bits, vary.
    A finisher waits only for programs with a smaller program id. GPUs dispatch workgroups in that
    order, so whatever it waits for is running or done: no deadlock even where not all NUM_SMS
    workgroups are resident at once, nor in Triton's interpreter, which runs one after the other.
    A program takes the tiles of its piece from the last to the first: the part that it leaves to
    the next program comes before the tile that it finishes. The other way round each program would
    leave its part only after it had waited for its neighbour's, and all would run in a chain.
XCDs
    An MI300X deals its workgroups round-robin to 8 dies (XCDs) with an L2 cache each. Neighbours
    in c share rows of a and columns of b, so a program's place among the workers is computed from
    its id such that the workers of one XCD are neighbours.

Work: 2·M·N·K operations.

Answers to: 03-matrix-multiplication-stream-k of ROCm/triton's perf-kernels, both of its forms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch


@triton.jit
def tile_position(
    tile, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr
):  # fmt: skip
    """Row and column, in tiles, of a tile's number: groups of GROUP_M rows, column by column."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    first_m = tile // (GROUP_M * tiles_n) * GROUP_M
    group_rows = tl.minimum(tiles_m - first_m, GROUP_M)
    within = tile % (GROUP_M * tiles_n)
    return first_m + within % group_rows, within // group_rows


@triton.jit
def multiply_blocks(
    a_ptr, b_ptr, pid_m, pid_n, first, last, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr,
):  # fmt: skip
    """The product of a tile's rows and columns over the K blocks first ≤ block < last."""
    # Rows and columns beyond the edge wrap around: they read something valid that is never stored.
    offs_m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = first * BLOCK_K + tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn

    # Only the last block of K can be short: it comes after the loop, whose loads need no mask.
    full = last if EVEN_K else tl.minimum(last, K // BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(first, full):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if not EVEN_K:  # noqa: SIM102 - known at compile time, the other condition is not
        if full < last:
            rest = K - full * BLOCK_K - tl.arange(0, BLOCK_K)
            a = tl.load(a_ptrs, mask=rest[None, :] > 0, other=0.0)
            b = tl.load(b_ptrs, mask=rest[:, None] > 0, other=0.0)
            acc = tl.dot(a, b, acc, input_precision="ieee")
    return acc


@triton.jit
def write_tile(
    c_ptr, acc, pid_m, pid_n, M, N, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, ADD: tl.constexpr,
):  # fmt: skip
    """Store a tile of c, or add it to what is there."""
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + rows[:, None] * stride_cm + cols[None, :] * stride_cn
    in_range = (rows[:, None] < M) & (cols[None, :] < N)
    if ADD:
        tl.atomic_add(c_ptrs, acc, mask=in_range, sem="relaxed")
    else:
        tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=in_range)


@triton.jit
def streamk_kernel(
    a_ptr, b_ptr, c_ptr, partials_ptr, locks_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    NUM_SMS: tl.constexpr, NUM_XCDS: tl.constexpr, EVEN_K: tl.constexpr, ATOMIC: tl.constexpr,
):  # fmt: skip
    """Whole tiles first, then this worker's piece of the shared ones. Grid: (NUM_SMS,).

    partials_ptr [2·NUM_SMS, BLOCK_M, BLOCK_N] float32 and locks_ptr [2·NUM_SMS] int32, all 0 at
    the start, are both None in the atomic form. NUM_SMS is a multiple of NUM_XCDS.
    EVEN_K says that K is a multiple of BLOCK_K.
    """
    pid = tl.program_id(0)
    XCD_WORKERS: tl.constexpr = NUM_SMS // NUM_XCDS
    # A lock counts arrivals of threads, each of which releases its own stores: a barrier and one
    # thread's release do not wait, on AMD GPUs, for what other waves still have on its way to L2.
    # As many as a workgroup may have threads, so that each has at least one.
    ARRIVALS: tl.constexpr = 1024
    worker = pid % NUM_XCDS * XCD_WORKERS + pid // NUM_XCDS

    blocks = tl.cdiv(K, BLOCK_K)  # of K, in each tile
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    rounds = tiles // NUM_SMS  # of whole tiles
    # The K blocks of the other tiles, end to end: worker w takes those from w·shared//workers on.
    # No piece is empty, since a finisher would wait for it for ever.
    shared = tiles % NUM_SMS * blocks
    workers = tl.maximum(tl.minimum(NUM_SMS, shared), 1)
    begin = tl.minimum(worker, workers) * shared // workers
    end = tl.minimum(worker + 1, workers) * shared // workers
    touched = tl.cdiv(end, blocks) - begin // blocks  # shared tiles that the piece lies in

    for item in range(rounds + touched):
        shared_tile = begin // blocks + (touched - 1) - (item - rounds)
        tile_start = shared_tile * blocks
        is_shared = item >= rounds
        tile = tl.where(is_shared, rounds * NUM_SMS + shared_tile, item * NUM_SMS + worker)
        first = tl.where(is_shared, tl.maximum(begin - tile_start, 0), 0)
        last = tl.where(is_shared, tl.minimum(end - tile_start, blocks), blocks)
        pid_m, pid_n = tile_position(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        acc = multiply_blocks(
            a_ptr, b_ptr, pid_m, pid_n, first, last, M, N, K,
            stride_am, stride_ak, stride_bk, stride_bn, BLOCK_M, BLOCK_N, BLOCK_K, EVEN_K,
        )  # fmt: skip

        is_part = last - first < blocks
        stores = last - first == blocks
        if not ATOMIC:  # noqa: SIM102
            if is_part:
                # Those who have a part of this tile, and the one of them with the highest program
                # id: the last worker of an XCD, of the highest such XCD, else the last of all.
                first_worker = ((tile_start + 1) * workers - 1) // shared
                last_worker = ((tile_start + blocks) * workers - 1) // shared
                finisher = (last_worker + 1) // XCD_WORKERS * XCD_WORKERS - 1
                finisher = tl.where(finisher < first_worker, last_worker, finisher)
                stores = worker == finisher
                offs_m = tl.arange(0, BLOCK_M)[:, None]
                offsets = offs_m * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
                # A worker leaves two parts at most, one with a tile's beginning and one without.
                if stores:
                    for other in range(first_worker, last_worker + 1):
                        if other != worker:
                            slot = 2 * other + (other > first_worker).to(tl.int32)
                            lock = locks_ptr + slot
                            while tl.atomic_cas(lock, -1, -1, sem="acquire") != ARRIVALS:
                                pass
                            acc += tl.load(partials_ptr + slot * (BLOCK_M * BLOCK_N) + offsets)
                else:
                    slot = 2 * worker + (worker > first_worker).to(tl.int32)
                    tl.store(partials_ptr + slot * (BLOCK_M * BLOCK_N) + offsets, acc)
                    arrivals = locks_ptr + slot + tl.zeros((ARRIVALS,), dtype=tl.int32)
                    tl.atomic_add(arrivals, 1, sem="release")

        rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
        c_ptrs = c_ptr + rows[:, None] * stride_cm + cols[None, :] * stride_cn
        in_range = (rows[:, None] < M) & (cols[None, :] < N)
        if ATOMIC:  # noqa: SIM102
            if is_part:
                tl.atomic_add(c_ptrs, acc, mask=in_range, sem="relaxed")
        if stores:
            tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=in_range)


CONFIGS = {
    # The published best of 8192³ on an MI300X, but for kpack, there 2: Triton 3.9 then spills in
    # the hot loop.
    "hip": {
        "BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8, "NUM_SMS": 304, "NUM_XCDS": 8,
        "num_warps": 8, "num_stages": 2, "waves_per_eu": 0, "matrix_instr_nonkdim": 16, "kpack": 1,
    },
    "cuda": {
        "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8, "NUM_SMS": 132, "NUM_XCDS": 1,
        "num_warps": 8, "num_stages": 3,
    },
}  # fmt: skip

# BLOCK_M, BLOCK_N, BLOCK_K (of 2-byte elements) and num_warps, largest tile first. For hip those
# of the published best configs, which all but follow one rule: the largest tile that still makes
# about as many tiles as there are CUs.
_TILES = {
    "hip": [
        (256, 256, 64, 8), (256, 128, 64, 8), (128, 128, 128, 8), (128, 64, 128, 8),
        (64, 64, 256, 8), (32, 64, 256, 8), (32, 32, 256, 4), (32, 16, 256, 4), (16, 16, 256, 4),
    ],
    "cuda": [(128, 256, 64, 8), (128, 128, 64, 8), (64, 128, 64, 4), (64, 64, 64, 4)],
}  # fmt: skip


def default_config(
    backend: str,
    *,
    M: int,
    N: int,
    K: int | None = None,
    itemsize: int = 2,
    atomic: bool = False,
    aligned: bool = True,
    num_sms: int | None = None,
    arch: str = "gfx942",
) -> dict[str, Any]:
    """Block sizes and launch options for a result [M, N].

    Args:
        backend: "hip" or "cuda".
        M: rows of c.
        N: columns of c.
        K: what is summed over; None: a multiple of every K block.
        itemsize: bytes of an element of a and b.
        atomic: the atomic form.
        aligned: the strides of a and b are multiples of 16, or 1.
        num_sms: CUs to fill; by default those of an MI300X or an H200.
        arch: the AMD target; XCDs are those of CDNA3 and CDNA4 alone.
    """
    config = dict(CONFIGS[backend])
    config["NUM_SMS"] = num_sms or config["NUM_SMS"]
    if not arch.startswith(("gfx94", "gfx95")) or config["NUM_SMS"] % config["NUM_XCDS"]:
        config["NUM_XCDS"] = 1
    if backend == "hip" and arch.startswith("gfx1"):  # waves of 32: half the threads and registers
        return {**config, "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64 // itemsize, "num_warps": 4}

    # What else the registers hold, or what passes through LDS, sets a limit to the tile.
    if backend == "cuda":
        # A short last block of K has a product of its own, for which 128x256 has no registers left:
        # 212 spills on an H200, a third of the speed.
        whole_blocks = K is None or K % (128 // itemsize) == 0
        large = aligned and whole_blocks
        limit = 64 * 64 if itemsize > 2 else 128 * 256 if large else 128 * 128
    elif atomic or itemsize > 2:
        limit = 128 * 128
    else:
        limit = 256 * 256 if aligned and itemsize == 2 and arch != "gfx90a" else 256 * 128
    tiles = [tile for tile in _TILES[backend] if tile[0] * tile[1] <= limit]
    enough = config["NUM_SMS"] * 4 // 5
    fits = (t for t in tiles if triton.cdiv(M, t[0]) * triton.cdiv(N, t[1]) >= enough)
    block_m, block_n, block_k, num_warps = next(fits, tiles[-1])
    if backend == "hip" and M < N:  # an oblong tile lies as the matrix does
        block_m, block_n = min(block_m, block_n), max(block_m, block_n)
    return {
        **config,
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "BLOCK_K": block_k * 2 // itemsize // (1 if aligned else 2),
        "num_warps": num_warps,
    }


def device_config(a: torch.Tensor, b: torch.Tensor, atomic: bool) -> dict[str, Any]:
    """default_config for two matrices where they lie."""
    import torch

    strides = [x for x in (*a.stride(), *b.stride()) if x != 1]
    known: dict[str, Any] = {
        "itemsize": a.itemsize,
        "atomic": atomic,
        # Triton learns of a stride only whether it is a multiple of 16.
        "aligned": all(x % 16 == 0 for x in strides),
    }
    if a.device.type == "cuda":
        device = torch.cuda.get_device_properties(a.device)
        known["num_sms"] = device.multi_processor_count
        known["arch"] = getattr(device, "gcnArchName", "").partition(":")[0]
    backend = "hip" if torch.version.hip else "cuda"
    return default_config(backend, M=a.shape[0], N=b.shape[1], K=a.shape[1], **known)


def launch(
    a: torch.Tensor,
    b: torch.Tensor,
    out_dtype: torch.dtype | None = None,
    atomic: bool = False,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """Multiply two matrices.

    Args:
        a: [M, K], any strides.
        b: [K, N], any strides, dtype of a.
        out_dtype: float16, bfloat16 or float32; by default a's (float16 for float8), and float32
            in the atomic form, which takes no other.
        atomic: add up shared tiles in c, not in the finisher's registers.
        config: block sizes and launch options that replace the defaults.

    Returns:
        The product [M, N], row-major.

    Raises:
        ValueError: shapes, dtypes or options that do not go together.
    """
    import torch

    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(
            f"a {tuple(a.shape)} {a.dtype} and b {tuple(b.shape)} {b.dtype} have no product"
        )
    if not a.is_floating_point() or a.itemsize > 4:
        raise ValueError(f"{a.dtype} is none of the 8-, 16- and 32-bit float types")
    out_dtype = out_dtype or default_out_dtype(a, atomic)
    if atomic and out_dtype != torch.float32:
        raise ValueError("the atomic form adds float32 parts in c and needs a float32 result")
    (m, k), n = a.shape, b.shape[1]
    if max(m * k, k * n, m * n) >= 2**31:
        raise ValueError("a matrix of 2³¹ elements or more is beyond 32-bit offsets")
    options = {**device_config(a, b, atomic), **(config or {})}
    block_m, block_n, num_sms = options["BLOCK_M"], options["BLOCK_N"], options["NUM_SMS"]
    if num_sms % options["NUM_XCDS"]:
        raise ValueError(f"NUM_SMS {num_sms} is no multiple of NUM_XCDS {options['NUM_XCDS']}")
    if triton.cdiv(k, options["BLOCK_K"]) * num_sms * num_sms >= 2**31:
        raise ValueError(f"K {k} in blocks of {options['BLOCK_K']} is beyond 32-bit arithmetic")

    shared = triton.cdiv(m, block_m) * triton.cdiv(n, block_n) % num_sms
    allocate = torch.zeros if atomic else torch.empty
    c = allocate((m, n), dtype=out_dtype, device=a.device)
    partials = locks = None
    if not atomic:
        slots = 2 * num_sms if shared else 1
        partials = torch.empty((slots, block_m, block_n), dtype=torch.float32, device=a.device)
        locks = torch.zeros(slots, dtype=torch.int32, device=a.device)
    streamk_kernel[(num_sms,)](
        a, b, c, partials, locks, m, n, k, *a.stride(), *b.stride(), *c.stride(),
        EVEN_K=k % options["BLOCK_K"] == 0, ATOMIC=atomic, **options,
    )  # fmt: skip
    return c


def default_out_dtype(a: torch.Tensor, atomic: bool) -> torch.dtype:
    """The result's dtype where the caller names none."""
    import torch

    if atomic:
        return torch.float32
    return torch.float16 if a.itemsize == 1 else a.dtype


def reference(
    a: torch.Tensor,
    b: torch.Tensor,
    out_dtype: torch.dtype | None = None,
    atomic: bool = False,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """The same product in plain PyTorch, in float64; `config` is accepted and ignored."""
    return (a.double() @ b.double()).to(out_dtype or default_out_dtype(a, atomic))


def torch_operator(
    a: torch.Tensor,
    b: torch.Tensor,
    out_dtype: torch.dtype | None = None,
    atomic: bool = False,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """torch.matmul, which also keeps its result in a's dtype where the atomic form has float32."""
    import torch

    return torch.matmul(a, b)


def make_inputs(case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Tensors of a CASES or BENCH entry, as the keyword arguments of launch and reference.

    `layout` names a's and b's in BLAS letters: T row-major, N column-major. Sums of more than 1000
    products are scaled to the size of one, lest the rounding of the accumulator count as error.
    """
    import torch

    generator = torch.Generator(device=device).manual_seed(5)
    dtype = getattr(torch, case.get("dtype", "float16"))

    def matrix(rows: int, cols: int, letter: str, scale: float = 1.0) -> torch.Tensor:
        shape = (rows, cols) if letter == "T" else (cols, rows)
        x = torch.randn(shape, generator=generator, device=device).mul_(scale).to(dtype)
        return x if letter == "T" else x.T

    layout_a, layout_b = case.get("layout", "TN")
    inputs: dict[str, Any] = {
        "a": matrix(case["M"], case["K"], layout_a),
        "b": matrix(case["K"], case["N"], layout_b, case["K"] ** -0.5 if case["K"] > 1000 else 1.0),
        "atomic": case.get("atomic", False),
        "config": case.get("config"),
    }
    if "out_dtype" in case:
        inputs["out_dtype"] = getattr(torch, case["out_dtype"])
    return inputs


_ITEMSIZE = {"float32": 4, "float16": 2, "bfloat16": 2}


def work(case: dict[str, Any]) -> dict[str, int | None]:
    """Operations, and bytes when a, b and c each move once, of a CASES or BENCH entry."""
    M, N, K = case["M"], case["N"], case["K"]
    size = _ITEMSIZE.get(case.get("dtype", "float16"), 1)
    out = "float32" if case.get("atomic") else case.get("out_dtype")
    out_size = max(size, 2) if out is None else _ITEMSIZE[out]
    return {"flop": 2 * M * N * K, "bytes": (M * K + K * N) * size + M * N * out_size}


def _shape(M: int, N: int, K: int, **more: Any) -> dict[str, Any]:
    return {"M": M, "N": N, "K": K, **more}


def _grid(num_sms: int, num_xcds: int, block: int = 16, block_k: int = 16) -> dict[str, Any]:
    """Tiles and grids small enough that a few workgroups share a few tiles."""
    tile = {"BLOCK_M": block, "BLOCK_N": block, "BLOCK_K": block_k, "GROUP_M": 2}
    return {"config": {**tile, "NUM_SMS": num_sms, "NUM_XCDS": num_xcds, "num_warps": 4}}


_FP16 = {"atol": 5e-3, "rtol": 2e-3}
_BF16 = {"dtype": "bfloat16", "atol": 5e-3, "rtol": 1e-2}
_FP32 = {"atol": 1e-4, "rtol": 1e-5}
_E4M3FNUZ = {"dtype": "float8_e4m3fnuz", "needs": "fnuz", **_FP16}
_E4M3FN = {"dtype": "float8_e4m3fn", **_FP16}

CASES = [
    # 6 tiles for 4 programs: a whole one each, and the last two shared by two programs each.
    {"name": "shared_tiles", **_shape(32, 48, 64), **_grid(4, 1), **_FP16},
    # 3 tiles of 5 blocks for 4 programs: pieces of 3 and 4 blocks that straddle the tiles.
    {"name": "straddling_pieces", **_shape(16, 48, 80), **_grid(4, 1), **_FP16},
    # The same for 8 programs on 2 or 4 XCDs, where a tile's finisher need not be its last worker.
    {"name": "two_xcds", **_shape(16, 48, 80), **_grid(8, 2), **_FP16},
    {"name": "four_xcds", **_shape(32, 48, 112), **_grid(8, 4), **_FP16},
    {"name": "one_worker_an_xcd", **_shape(16, 48, 112), **_grid(4, 4), **_FP16},
    # One tile for all: every worker but the finisher leaves a part, most with neither end of K.
    {"name": "one_tile", **_shape(16, 16, 256), **_grid(8, 2), **_FP16},
    {"name": "fewer_blocks_than_programs", **_shape(16, 16, 48), **_grid(8, 2), **_FP16},
    {"name": "no_shared_tiles", **_shape(32, 64, 48), **_grid(8, 2), **_FP16},
    {"name": "three_rounds", **_shape(80, 48, 32), **_grid(4, 2), **_FP16},
    {"name": "ragged", **_shape(37, 45, 71), **_grid(4, 2), **_FP16},
    {"name": "short_k", **_shape(20, 20, 5), **_grid(3, 1), **_FP16},
    {"name": "one_element", **_shape(1, 1, 1), **_grid(2, 1), **_FP16},
    {"name": "tt", **_shape(32, 48, 64, layout="TT"), **_grid(4, 1), **_FP16},
    {"name": "nt", **_shape(40, 30, 50, layout="NT"), **_grid(4, 1), **_FP16},
    {"name": "nn", **_shape(40, 30, 50, layout="NN"), **_grid(4, 1), **_FP16},
    {"name": "bf16", **_shape(32, 48, 64), **_grid(4, 1), **_BF16},
    {"name": "fp32", **_shape(32, 50, 70, dtype="float32"), **_grid(4, 2), **_FP32},
    {"name": "fp16_to_fp32", **_shape(32, 48, 72, out_dtype="float32"), **_grid(4, 1), **_FP32},
    {"name": "fp8_e4m3fnuz", **_shape(32, 48, 96), **_grid(4, 2, block_k=32), **_E4M3FNUZ},
    {"name": "fp8_e4m3fn", **_shape(32, 48, 96), **_grid(4, 2, block_k=32), **_E4M3FN},
    {"name": "atomic", **_shape(16, 48, 80, atomic=True), **_grid(4, 1), **_FP32},
    {"name": "atomic_xcds", **_shape(37, 45, 71, atomic=True), **_grid(4, 2), **_FP32},
    {"name": "large_tiles", **_shape(150, 200, 200), **_grid(3, 1, 64, 64), **_FP16},
    {"name": "defaults", **_shape(200, 136, 100, config={"NUM_SMS": 9}), **_FP16},
]

_SHAPES = [
    (8192, 8192, 8192),
    (4864, 4096, 8256),
    (4864, 8192, 4160),
    (8192, 4864, 6878),
    (4096, 4096, 8192),
    (8133, 8132, 8172),
]

BENCH = [
    *({"name": f"{m}x{n}x{k}", **_shape(m, n, k)} for m, n, k in _SHAPES),
    *({"name": f"{m}x{n}x{k}_atomic", **_shape(m, n, k, atomic=True)} for m, n, k in _SHAPES),
]

TUNING = {
    "BLOCK_M": [16, 32, 64, 128, 256],
    "BLOCK_N": [16, 32, 64, 128, 256],
    "BLOCK_K": [16, 32, 64, 128, 256],
    "GROUP_M": [1, 4, 8, 16, 32],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [2],
    "waves_per_eu": [0],
    "matrix_instr_nonkdim": [16, 32],
    "kpack": [1, 2],
}


def _compile_case(
    name: str,
    tile: tuple[int, int, int],
    dtype: str,
    archs: tuple[str, ...],
    *,
    out: str | None = None,
    atomic: bool = False,
    num_sms: int = 304,
    num_xcds: int = 8,
    num_warps: int = 8,
    even_k: bool = True,
    aligned: bool = True,
    **options: int,
) -> dict[str, Any]:
    """Matrices in the TN layout: a row-major, b column-major, both contiguous along K."""
    workspace = ("partials_ptr", "locks_ptr")
    return {
        "name": name,
        "kernel": "streamk_kernel",
        "signature": {
            "a_ptr": f"*{dtype}:16",
            "b_ptr": f"*{dtype}:16",
            "c_ptr": f"*{'fp32' if atomic else out or dtype}:16",
            **({} if atomic else {"partials_ptr": "*fp32:16", "locks_ptr": "*i32:16"}),
            "M": "i32:16",
            "N": "i32:16",
            "K": "i32:16" if aligned else "i32",
            "stride_am": "i32:16" if aligned else "i32",
            "stride_ak": "i32:1",
            "stride_bk": "i32:1",
            "stride_bn": "i32:16" if aligned else "i32",
            "stride_cm": "i32:16",
            "stride_cn": "i32:1",
        },
        "constexprs": {
            **(dict.fromkeys(workspace) if atomic else {}),
            **dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True)),
            "GROUP_M": 8,
            "NUM_SMS": num_sms,
            "NUM_XCDS": num_xcds,
            "EVEN_K": even_k,
            "ATOMIC": atomic,
        },
        "options": {
            "num_warps": num_warps,
            "num_stages": 2,
            "waves_per_eu": 0,
            "matrix_instr_nonkdim": 16,
            **options,
        },
        "archs": list(archs),
    }


_CDNA2 = ("gfx90a",)
_CDNA3 = ("gfx94*",)
_CDNA4 = ("gfx95*",)
_CDNA2_GRID = {"num_sms": 104, "num_xcds": 1}
_LARGE = (256, 256, 64)

KINSPECT_CASES = [
    # Spin-lock unless the name says otherwise.
    _compile_case("fp16_256x256x64", _LARGE, "fp16", _CDNA3 + _CDNA4),
    # As published: Triton 3.9 spills a few registers in the hot loop.
    _compile_case("fp16_256x256x64_kpack2", _LARGE, "fp16", _CDNA3, kpack=2),
    _compile_case("fp16_256x128x64", (256, 128, 64), "fp16", _CDNA3),
    _compile_case("bf16_128x128x128", (128, 128, 128), "bf16", _CDNA3 + _CDNA4),
    _compile_case("fp16_64x64x256", (64, 64, 256), "fp16", _CDNA3),
    _compile_case("fp16_16x16x256", (16, 16, 256), "fp16", _CDNA3, num_warps=4),
    # K no multiple of BLOCK_K; and no stride a multiple of anything, so that loads are narrow.
    _compile_case("fp16_short_k_256x256x64", _LARGE, "fp16", _CDNA3, even_k=False),
    _compile_case(
        "fp16_unaligned_256x128x32", (256, 128, 32), "fp16", _CDNA3, even_k=False, aligned=False
    ),
    _compile_case("fp16_atomic_128x128x128", (128, 128, 128), "fp16", _CDNA3 + _CDNA4, atomic=True),
    _compile_case("fp32_128x128x32", (128, 128, 32), "fp32", _CDNA3),
    _compile_case("e4m3fnuz_256x128x128", (256, 128, 128), "fp8e4b8", _CDNA3, out="fp16"),
    _compile_case("e4m3_256x128x128", (256, 128, 128), "fp8e4nv", _CDNA4, out="fp16"),
    _compile_case("fp16_cdna2_256x128x64", (256, 128, 64), "fp16", _CDNA2, **_CDNA2_GRID),
    _compile_case(
        "fp16_atomic_cdna2_128x128x64", (128, 128, 64), "fp16", _CDNA2, atomic=True, **_CDNA2_GRID
    ),
    _compile_case(
        "fp16_wave32_64x64x32",
        (64, 64, 32),
        "fp16",
        ("gfx11*", "gfx12*"),
        num_sms=96,
        num_xcds=1,
        num_warps=4,
        matrix_instr_nonkdim=0,
    ),
]
