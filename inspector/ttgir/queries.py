"""Queries of a parsed module: its dots, memory operations, loops and inline assembly."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ..model import TtgirModule, TtgirOp

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


ATOMIC_RMW = frozenset(("tt.atomic_rmw", *in_dialects("buffer_atomic_rmw")))
ATOMIC_EXCHANGES = frozenset(("tt.atomic_cas", *in_dialects("buffer_atomic_cas")))


def address_operands(atomic: TtgirOp) -> int:
    """How many of an atomic's operands, the first ones, are its address: the value follows."""
    return 1 if atomic.name.startswith("tt.") else 2


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
REGISTER_LOADS = LOADS - LOADS_TO_LDS
INLINE_ASSEMBLY = frozenset(("tt.elementwise_inline_asm",))
LONGEST_ASSEMBLY = 60
"""Characters of a piece of inline assembly that `assembly_text` gives."""


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


def named(module: TtgirModule, names: frozenset[str]) -> tuple[TtgirOp, ...]:
    """The operations with one of the names, in file order."""
    return tuple(op for op in module.ops if op.name in names)


def dots(module: TtgirModule) -> tuple[TtgirOp, ...]:
    """Matrix products: `tt.dot` and `tt.dot_scaled`."""
    return named(module, DOTS)


def loads(module: TtgirModule) -> tuple[TtgirOp, ...]:
    """Reads of global memory, to registers or directly to LDS, without atomics."""
    return named(module, LOADS)


def inline_assembly(module: TtgirModule) -> tuple[TtgirOp, ...]:
    """Pieces of inline assembly; each has `asm_string`, `constraints` and `pure` as attributes."""
    return named(module, INLINE_ASSEMBLY)


def assembly_text(op: TtgirOp) -> str:
    """The text of a piece of inline assembly in one line of limited length."""
    line = " ".join(str(op.attributes.get("asm_string", "")).split())
    return line if len(line) <= LONGEST_ASSEMBLY else line[: LONGEST_ASSEMBLY - 3] + "..."


def range_of(op: TtgirOp) -> range | None:
    """The numbers of a `tt.make_range`; None where they are not as many as its result has."""
    start, end = op.attributes.get("start"), op.attributes.get("end")
    if not isinstance(start, int) or not isinstance(end, int):
        return None
    return range(start, end) if op.result_types[0].shape == (end - start,) else None


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


def integer_constants(module: TtgirModule) -> dict[str, int]:
    """The values that are integers known when the kernel is compiled, by their names."""
    return {
        op.results[0]: value
        for op in module.ops
        if op.name == "arith.constant" and isinstance(value := op.attributes.get("value"), int)
    }


def constant_trips(loop: TtgirOp, constants: Mapping[str, int]) -> int | None:
    """Iterations of a loop; None where its bounds are not constant.

    `constants`: as `integer_constants` has them.
    """
    bounds = [constants[name] for name in loop.operands[:3] if name in constants]
    if loop.name != "scf.for" or len(bounds) < 3 or bounds[2] <= 0:
        return None
    start, stop, step = bounds
    return max(0, -(-(stop - start) // step))


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
