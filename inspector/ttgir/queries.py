"""Queries of a parsed module: dots, memory operations, loops, matrix work."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..model import Layout, TtgirModule, TtgirOp
from .matrix import (
    MFMA_WAVE,
    cluster_bases,
    instruction_shape,
    share_of_workgroup,
    sizes_of,
)

DOTS = frozenset(("tt.dot", "tt.dot_scaled"))
POINTER_LOADS = frozenset(("tt.load", "amdg.buffer_load", "amdgpu.buffer_load"))
POINTER_STORES = frozenset(("tt.store", "amdg.buffer_store", "amdgpu.buffer_store"))
"""Accesses of global memory between pointers, or offsets, and registers."""
LOADS = POINTER_LOADS | {
    "tt.descriptor_load",
    "ttg.async_copy_global_to_local",
    "triton_gpu.async_copy_global_to_local",
    "amdg.buffer_load_to_local",
    "amdg.async_tdm_copy_global_to_local",
    "amdgpu.buffer_load_to_local",
}
STORES = POINTER_STORES | {"tt.descriptor_store", "amdg.async_tdm_copy_local_to_global"}
LOOPS = frozenset(("scf.for", "scf.while"))
_DIALECTS = ("ttg", "triton_gpu", "amdg", "amdgpu")


def in_dialects(*names: str) -> frozenset[str]:
    """The operations of these names in each of the dialects for GPUs."""
    return frozenset(f"{dialect}.{name}" for dialect in _DIALECTS for name in names)


LOCAL_ALLOCATIONS = in_dialects("local_alloc")
LOCAL_LOAD = in_dialects("local_load", "local_load_packed_tranposed", "local_gather")
LOCAL_STORE = in_dialects("local_store", "local_scatter")
VIEWS = in_dialects(
    "memdesc_index",
    "memdesc_reinterpret",
    "memdesc_reshape",
    "memdesc_subslice",
    "memdesc_subview",
    "memdesc_trans",
)
INDEXED_VIEWS = in_dialects("memdesc_index", "memdesc_subview")
LOADS_TO_LDS = in_dialects(
    "async_copy_global_to_local", "async_tdm_copy_global_to_local", "buffer_load_to_local"
)
"""Loads that write LDS without passing registers."""
INLINE_ASSEMBLY = frozenset(("tt.elementwise_inline_asm",))
LONGEST_ASSEMBLY = 60
_FP4_PER_BYTE = 2


class TtgirLoop(Struct, frozen=True):
    """A structured loop of the source as TTGIR has it.

    Attributes:
        op: the `scf.for` or `scf.while`.
        parent: the loop that encloses it, as an index into `loops(module)`; None at the top.
        depth: loops around it.
        dots: the dots whose innermost loop it is, in file order.
    """

    op: TtgirOp
    parent: int | None
    depth: int
    dots: tuple[TtgirOp, ...]


class DotTile(Struct, frozen=True):
    """Extents of one dot over the whole workgroup, in elements (not packed bytes)."""

    m: int
    n: int
    k: int
    batch: int = 1


def named(module: TtgirModule, names: frozenset[str]) -> tuple[TtgirOp, ...]:
    """The operations with one of the names, in file order."""
    return tuple(op for op in module.ops if op.name in names)


def dots(module: TtgirModule) -> tuple[TtgirOp, ...]:
    """Matrix products: `tt.dot` and `tt.dot_scaled`."""
    return named(module, DOTS)


def loads(module: TtgirModule) -> tuple[TtgirOp, ...]:
    """Reads of global memory, to registers or directly to LDS, without atomics."""
    return named(module, LOADS)


def stores(module: TtgirModule) -> tuple[TtgirOp, ...]:
    """Writes of global memory, without atomics."""
    return named(module, STORES)


def inline_assembly(module: TtgirModule) -> tuple[TtgirOp, ...]:
    """Pieces of inline assembly; each has `asm_string`, `constraints` and `pure` as attributes."""
    return named(module, INLINE_ASSEMBLY)


def assembly_text(op: TtgirOp) -> str:
    """The text of a piece of inline assembly in one line of limited length."""
    line = " ".join(str(op.attributes.get("asm_string", "")).split())
    return line if len(line) <= LONGEST_ASSEMBLY else line[: LONGEST_ASSEMBLY - 3] + "..."


def is_tile(op: TtgirOp) -> bool:
    """Whether an operation's result is more than a row or a column."""
    return sum(size > 1 for size in op.result_types[0].shape) > 1


def loops(module: TtgirModule) -> tuple[TtgirLoop, ...]:
    """The structured loops in file order, outer before inner."""
    innermost: list[int | None] = []  # per operation: the loop that encloses it
    headers: list[TtgirOp] = []
    parents: list[int | None] = []
    loop_of: dict[int, int] = {}
    loop_dots: list[list[TtgirOp]] = []
    for op in module.ops:
        enclosing = None
        if op.parent is not None:
            enclosing = loop_of.get(op.parent, innermost[op.parent])
        innermost.append(enclosing)
        if op.name in LOOPS:
            loop_of[op.index] = len(headers)
            headers.append(op)
            parents.append(enclosing)
            loop_dots.append([])
        elif op.name in DOTS and enclosing is not None:
            loop_dots[enclosing].append(op)
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent is None else depths[parent] + 1)
    return tuple(
        TtgirLoop(op, parent, depth, tuple(inside))
        for op, parent, depth, inside in zip(headers, parents, depths, loop_dots, strict=True)
    )


def loop_above(op: TtgirOp, module: TtgirModule) -> int | None:
    """The index of the innermost loop that encloses an operation; None outside of loops."""
    parent = op.parent
    while parent is not None and module.ops[parent].name not in LOOPS:
        parent = module.ops[parent].parent
    return parent


def dot_tile_shapes(op: TtgirOp) -> DotTile | None:
    """M, N, K and batch of a dot, from its operand types; None where they are odd.

    Operands of `tt.dot_scaled` in e2m1 hold two elements per byte along K, or along M or N where
    `lhs_k_pack` or `rhs_k_pack` is false; M and N are taken from the result.
    """
    if op.name not in DOTS or len(op.operand_types) < 3 or len(op.result_types) != 1:
        return None
    a, result = op.operand_types[0].shape, op.result_types[0].shape
    if len(a) != len(result) or len(result) not in (2, 3):
        return None
    k = a[-1]
    packed = op.name == "tt.dot_scaled" and _is_fp4(op, "lhs", "a_elem_type")
    if packed and op.attributes.get("lhs_k_pack", True):
        k *= _FP4_PER_BYTE
    return DotTile(result[-2], result[-1], k, result[0] if len(result) == 3 else 1)


_E2M1 = 4  # ScaleDotElemType's number of e2m1, which the generic form prints


def _is_fp4(op: TtgirOp, custom: str, generic: str) -> bool:
    return op.attributes.get(custom, op.attributes.get(generic)) in ("e2m1", _E2M1)


def mfma_per_dot(op: TtgirOp, module: TtgirModule) -> int | None:
    """Matrix instructions (MFMA or WMMA) that one wave executes for one dot.

    The tile is spread over instructions, each wave's share of them rounded up: a wave whose share
    lies outside the tensor repeats another's work.

    Returns:
        The count; None where the dot does not run on the matrix unit (a blocked layout) or the
        module does not state the instruction's K (Triton before 3.5).
    """
    tile = dot_tile_shapes(op)
    layout = op.result_types[0].layout if tile is not None else None
    if tile is None or layout is None or layout.kind not in ("amd_mfma", "amd_wmma"):
        return None
    extents = instruction_extents(layout)
    if extents is None:
        return None
    m, n, k = extents
    dims = len(op.result_types[0].shape)
    try:
        repeats = _repeats(layout, shares(tile, layout, dims), (1, m, n)[3 - dims :])
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return repeats * max(1, covered_k(op, layout, tile.k) // k)


def shares(tile: DotTile, layout: Layout, dims: int) -> tuple[int, ...]:
    """The extents of a dot for one workgroup (of a cluster) along batch (if it has one), M and N.

    Raises:
        ValueError: the layout does not state them.
    """
    shape = (tile.batch, tile.m, tile.n)[3 - dims :]
    return share_of_workgroup(shape, cluster_bases(layout, dims))


def instruction_extents(layout: Layout) -> tuple[int, int, int] | None:
    """The extents M, N and K of one matrix instruction, in elements; None if they are
    not stated.
    """
    instruction = instruction_shape(layout)
    if instruction is None or instruction[2] is None:
        return None
    m, n, k = instruction[0], instruction[1], instruction[2]
    if min(m, n) == _THIN and k == MFMA_WAVE:
        k = _THIN  # 16 blocks of 4x4x4; the layout states K over all of them
    if layout.kind == "amd_wmma" and layout.params.get("isTranspose") is True:
        m, n = n, m  # `instrShape` names the instruction's rows, here N
    return m, n, k


_THIN = 4
"""Rows or columns of the thinnest matrix instructions, v_mfma_*_4x4x4_16b_*."""


def covered_k(op: TtgirOp, layout: Layout, k: int) -> int:
    """The K extent that the operand registers cover: more than K where K is very small."""
    operand = op.operand_types[0].layout
    width = operand.params.get("kWidth") if operand is not None else None
    instruction = instruction_shape(layout)
    if not isinstance(width, int) or instruction is None:
        return k
    if layout.kind == "amd_mfma":
        return max(k, width * MFMA_WAVE // min(instruction[:2]))
    return k


def _repeats(layout: Layout, shape: tuple[int, ...], tile: tuple[int, ...]) -> int:
    """Instruction tiles per wave over the result's dimensions."""
    waves, tiles = waves_along(layout, len(shape))
    repeats = 1
    for size, tile_size, count, per_wave in zip(shape, tile, waves, tiles, strict=True):
        repeats *= max(1, -(-size // (tile_size * count * per_wave))) * per_wave
    return repeats


def waves_along(layout: Layout, dims: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Waves side by side along each dimension, and the adjacent instructions of each wave.

    Raises:
        KeyError, ValueError: the layout does not state them.
    """
    spread = layout.params.get("ctaLayout")
    if spread is not None:
        return _steps(spread.get("warp", ()), dims), _steps(spread.get("register", ()), dims)
    tiles = (1,) * dims
    if "tilesPerWarp" in layout.params:
        tiles = sizes_of(layout, "tilesPerWarp", dims)
    return sizes_of(layout, "warpsPerCTA", dims), tiles


def _steps(bases: Sequence[Sequence[int]], dims: int) -> tuple[int, ...]:
    """The number of tiles that basis vectors step over along each dimension."""
    tiles = [1] * dims
    for basis in bases:
        for dim, step in enumerate(basis):
            if step:
                tiles[dim] *= 2
    return tuple(tiles)


def loops_without_dots(module: TtgirModule) -> int:
    """The number of innermost loops without a dot, which may do most of a kernel's work."""
    loop_ops = {op.index for op in module.ops if op.name in LOOPS}
    parents = {op.index: op.parent for op in module.ops}
    outer: set[int] = set()
    with_dots: set[int] = set()
    for op in module.ops:
        if op.index not in loop_ops and op.name != "tt.dot":
            continue
        above = op.parent
        while above is not None and above not in loop_ops:
            above = parents[above]
        if above is not None:
            (outer if op.index in loop_ops else with_dots).add(above)
    return len(loop_ops - outer - with_dots)
