"""What frees a dot's operands of LDS bank conflicts in Triton, by the way of each tile.

Users do not lay out Triton's buffers, but decide what they follow from: the order in memory, the
options, `tl.trans`. Each remedy was tried on compiled kernels (rules/judged); what none of them
reaches, such as a tile that was computed or is multiplied in both orders, has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from math import ceil
from typing import Final

from msgspec import Struct

from ..model import Access, MemoryOp, Metric, Scalar, TtgirModule, TtgirOp, TtgirType, number_of
from ..ttgir.conversions import Movements, movements
from ..ttgir.flow import (
    DataFlow,
    flow_of,
    reached,
    receivers_of,
    rests_on_loads,
    users_of,
    values_behind,
)
from ..ttgir.lowered import MATRIX_LAYOUTS, element_bits
from ..ttgir.queries import DOTS, LOCAL_ALLOCATIONS, LOCAL_LOAD, VIEWS
from .product_trips import staging
from .subject import Subject, op_line


class Remedy(Enum):
    """A change that frees the accesses of a tile of conflicts, or leaves fewer."""

    TRANSPOSED_LOAD = "transposed load"
    ORDER = "order"
    ACROSS = "across"
    KPACK = "kpack"
    DEEPER_TILE = "deeper tile"


class OperandTile(Struct, frozen=True):
    """A loaded tile on its way through LDS to a dot.

    Args:
        remedy: what frees its accesses of conflicts.
        bits: of an element.
        along_k: its extent along K, in elements.
        across: its other extent.
    """

    remedy: Remedy
    bits: int
    load: TtgirOp
    along_k: int
    across: int


def operand_tiles(module: TtgirModule, kpack: int | None) -> dict[int, OperandTile]:
    """Line of each read and write of LDS that a remedy reaches -> its tile.

    `kpack`: the `kpack` that can still be tried; None where there is none.
    """
    flow = flow_of(module)
    moves, staged = movements(flow), staging(flow)
    computed = {op.index for op in staged.computed}
    products: dict[
        int, set[object]
    ] = {}  # load -> dots, by position: peeled iterations have copies
    for way in staged.ways:
        products.setdefault(way.load.index, set()).add(way.dot.loc or way.dot.index)
    tiles: dict[int, OperandTile] = {}
    repeating: dict[int, tuple[int, TtgirType]] = {}  # line of such a tile -> dot, type when read
    leading: list[tuple[int, TtgirType, OperandTile]] = []  # the same of the others
    for way in staged.ways:
        shared = len(products[way.load.index]) > 1
        movable = not shared and not rests_on_loads(flow, way.load)
        repeats = _repeats(flow, way.load)
        for write, lds_read in way.trips:
            if lds_read.name not in LOCAL_LOAD:
                continue
            if lds_read.index in computed and not _keeps_order(way.load, lds_read):
                continue
            tile = _tile(flow, moves, way.load, lds_read, kpack, movable=movable)
            if tile is not None and lds_read.index in computed:
                tile = tile if tile.remedy is Remedy.ORDER else None
            if tile is None or (repeats and tile.remedy is Remedy.ACROSS):
                continue
            lines = [lds_read.line] + [write.line] * (write.index != way.load.index)
            tiles.update(dict.fromkeys(lines, tile))
            if tile.remedy is Remedy.ORDER:
                if repeats:
                    reached = way.dot.index, lds_read.result_types[0]
                    repeating.update(dict.fromkeys(lines, reached))
                else:
                    leading.append((way.dot.index, lds_read.result_types[0], tile))
    for line, (dot, as_read) in repeating.items():
        del tiles[line]
        for other_dot, other, tile in leading:
            if (dot, as_read.shape, as_read.layout) == (other_dot, other.shape, other.layout):
                tiles[line] = tile
    return tiles


def _repeats(flow: DataFlow, load: TtgirOp) -> bool:
    """Whether lanes load the same elements, by quotients of their positions, as scales of
    groups.
    """
    return any(
        maker is not None
        and maker.name in _QUOTIENTS
        and bool(maker.result_types)
        and len(maker.result_types[0].shape) > 0
        for _, maker in values_behind(flow, flow.operands[load.index])
    )


def _keeps_order(load: TtgirOp, lds_read: TtgirOp) -> bool:
    """Whether a tile that was computed lies as it was loaded: floats of the same shape.

    Integers may be unpacked: several elements have one address then. Elements of 32 bits, tried in
    one kernel, kept the conflicts of their writes.
    """
    tile_type, bits = lds_read.result_types[0], element_bits(lds_read.result_types[0].element)
    return (
        bool(load.result_types)
        and load.result_types[0].shape == tile_type.shape
        and load.result_types[0].element.startswith(("f", "bf"))
        and bits is not None
        and bits < _BANK_BITS
    )


def _tile(
    flow: DataFlow,
    moves: Movements,
    load: TtgirOp,
    lds_read: TtgirOp,
    kpack: int | None,
    *,
    movable: bool,
) -> OperandTile | None:
    """The tile that an operation reads from LDS; None where no remedy reaches it."""
    tile_type, layout = lds_read.result_types[0], lds_read.operand_types[0].layout
    bits = element_bits(lds_read.operand_types[0].element)
    uses = set(_uses_in_dots(flow, moves, lds_read))
    if layout is None or bits is None or len(tile_type.shape) != 2 or len(uses) != 1:
        return None
    ((k_dim, transposed, operand_bits, on_matrix_unit),) = uses
    order = layout.params.get("order")
    if not isinstance(order, tuple) or len(order) != 2:
        return None
    k_contiguous = order[0] == k_dim and layout.kind != _ROTATING
    fills_bank = bits >= _BANK_BITS
    remedy: Remedy | None = None
    if not on_matrix_unit:
        # Lanes side by side multiply neighbours along M or N, of one K.
        remedy = Remedy.ACROSS if k_contiguous and movable else None
    elif k_contiguous and transposed and layout.params.get("maxPhase") == 1:
        remedy = Remedy.TRANSPOSED_LOAD if _is_pipelined(flow, lds_read) else None
    elif fills_bank and kpack is None:
        # What is narrowed on its way to the dot lies by other pieces than an operand of 32 bits.
        remedy = Remedy.DEEPER_TILE if operand_bits == bits else None
    elif not k_contiguous:
        remedy = Remedy.ORDER if movable else None
    elif kpack is not None:
        remedy = Remedy.KPACK
    if remedy is None:
        return None
    return OperandTile(remedy, bits, load, tile_type.shape[k_dim], tile_type.shape[1 - k_dim])


_QUOTIENTS: Final = frozenset(("arith.divsi", "arith.divui", "arith.shrsi", "arith.shrui"))
_BANK_BITS: Final = 32
"""An element of as many is a piece by itself, whichever way the tile lies."""
_ROTATING: Final = "amd_rotating_shared"
"""Of tiles that are transposed in registers before they are stored."""
_ELEMENTWISE: Final = ("arith.", "math.", "tt.fp_to_fp", "tt.bitcast", "tt.clampf", "tt.extern_")
"""Prefixes of operations that leave each element where it is."""
_IN_WAVE: Final = ("registers", "lanes")
"""Movements of a `convert_layout` that need no LDS."""


def _uses_in_dots(
    flow: DataFlow,
    moves: Movements,
    lds_read: TtgirOp,
) -> Iterator[tuple[int, bool, int | None, bool]]:
    """Yields the tile's dimension that is K for each dot reached without LDS."""
    ahead = [(flow.results[lds_read.index][0], False)]
    visited: set[tuple[int, bool]] = set()
    users, receivers = users_of(flow), receivers_of(flow)
    while ahead:
        value, transposed = ahead.pop()
        if (value, transposed) in visited:
            continue
        visited.add((value, transposed))
        ahead += [(receiver, transposed) for receiver in receivers.get(value, ())]
        for user in users.get(value, ()):
            results = flow.results[user.index]
            if user.name in DOTS:
                for position, operand in enumerate(flow.operands[user.index][:2]):
                    if operand == value:
                        k_dim = 1 - position
                        bits = element_bits(user.operand_types[position].element)
                        layout = user.result_types[0].layout
                        on_matrix_unit = layout is None or layout.kind in MATRIX_LAYOUTS
                        dim = 1 - k_dim if transposed else k_dim
                        yield dim, transposed, bits, on_matrix_unit
            elif user.name == "tt.trans":
                ahead.append((results[0], not transposed))
            elif user.name.startswith(_ELEMENTWISE) or moves.get(user.index) in _IN_WAVE:
                ahead.append((results[0], transposed))


def _is_pipelined(flow: DataFlow, lds_read: TtgirOp) -> bool:
    """Whether a read's buffer is one that the stages of a loop share: allocated without a value."""

    def maker_of(value: int) -> TtgirOp | None:
        return flow.op(value) if value not in flow.carried else None

    def sources(value: int) -> Sequence[int]:
        maker = maker_of(value)
        is_view = maker is not None and maker.name in VIEWS
        behind = flow.operands[maker.index][:1] if maker is not None and is_view else ()
        return (*flow.carried.get(value, ()), *behind)

    return any(
        maker is not None and maker.name in LOCAL_ALLOCATIONS and not flow.operands[maker.index]
        for maker in map(maker_of, reached(flow.operands[lds_read.index][:1], sources))
    )


# --------------------------------------------------------------------------- of a region


def advice(
    subject: Subject,
    tiles: Mapping[int, OperandTile],
    accesses: Sequence[Access],
    memory: Sequence[MemoryOp],
    metrics: Mapping[str, Metric],
) -> dict[str, Scalar]:
    """What `lds.conflicts` says of the remedies for a region with dots.

    `tiles`: the result of `operand_tiles`; `accesses`: the kernel's accesses, with the lines of
    their instructions; `memory`: the region's accesses; `metrics`: its metrics; its bounds are read
    where it has any.
    """
    access_at = {(line, access.cls): access for access in accesses for line in access.lines}
    cycles: dict[tuple[Remedy, int], float] = {}  # remedy, line of the TTGIR -> cycles
    for op in memory:
        access = access_at.get((op.line, op.cls))
        tile = tiles.get(access.line) if access is not None else None
        conflicts = op.use.conflicts if op.use is not None else None
        if access is None or tile is None or not conflicts:
            continue
        if tile.remedy is Remedy.ORDER and not _is_worth_its_lines(subject, tile, metrics):
            continue
        if tile.remedy is Remedy.ACROSS and not _fills_half_a_line(subject, tile):
            continue
        key = tile.remedy, access.line
        cycles[key] = cycles.get(key, 0.0) + conflicts
    largest = {
        remedy: tiles[max((c, line) for (r, line), c in cycles.items() if r is remedy)[1]]
        for remedy, _ in cycles
    }
    order, deeper = largest.get(Remedy.ORDER), largest.get(Remedy.DEEPER_TILE)
    across = largest.get(Remedy.ACROSS)
    return {
        "curable": round(sum(cycles.values()), 2),
        "order_at": op_line(order.load) if order is not None else None,
        "across_at": op_line(across.load) if across is not None else None,
        "whole": deeper.bits if deeper is not None else None,
        "kpack": 2 if Remedy.KPACK in largest else None,
        "stages": 1 if Remedy.TRANSPOSED_LOAD in largest else None,
    }


def _fills_half_a_line(subject: Subject, tile: OperandTile) -> bool:
    """Whether the side of a tile that is not K has half a cache line at least."""
    line = subject.machine.cache_line_bytes if subject.machine is not None else None
    return line is None or 2 * tile.across * tile.bits // 8 >= line


def _is_worth_its_lines(subject: Subject, tile: OperandTile, metrics: Mapping[str, Metric]) -> bool:
    """Whether a tile with K contiguous needs no more cache lines than are there to be had."""
    machine, demand = subject.machine, subject.demand
    line = machine.cache_line_bytes if machine is not None else None
    if machine is None or line is None:
        return True
    row, column = tile.along_k * tile.bits // 8, tile.across * tile.bits // 8
    if 2 * row >= line:
        return True
    waves = demand.waves_per_workgroup
    single = metrics["bound.wave"].value if "bound.wave" in metrics else None
    own = single.get("lds") if isinstance(single, Mapping) else None
    lds, l1, most = (number_of(metrics, f"bound.{name}") for name in ("lds", "l1", "cycles"))
    rate = machine.l1_bytes_per_clk
    if not waves or not isinstance(own, int | float) or not own or lds is None or not rate:
        return 4 * row >= line
    if l1 is None or most is None:
        return 4 * row >= line
    workgroups = lds / own / waves
    further_lines = tile.across * ceil(row / line) - tile.along_k * ceil(column / line)
    return l1 + further_lines * line / rate * workgroups <= most
