"""Tiles that pass through LDS more than once on their way to a dot."""

from __future__ import annotations

from ..model import TtgirOp
from .conversions import layout_name, tile_bytes
from .flow import Flow
from .queries import is_tile
from .trips import Staging, Way


def repeated(flow: Flow, staging: Staging) -> tuple[Way, ...]:
    """The ways with more than one trip, one for each load of the source, the worst first.

    Only trips of tiles count (rows and columns are small beside them), and only those inside of
    loops where the dot is in one. Copies of a load that pipelining makes have the same position.
    """
    worst: dict[object, Way] = {}
    for way in staging.ways:
        if flow.loop[way.dot.index] is None:
            if flow.dot_loops:  # a peeled copy of a dot in a loop
                continue
            trips = way.trips
        else:
            trips = tuple(pair for pair in way.trips if flow.loop[pair[1].index] is not None)
        trips = tuple(pair for pair in trips if is_tile(pair[1]))
        if len(trips) < 2:
            continue
        key = way.load.loc if way.load.loc is not None else way.load.index
        worst_way = worst.get(key)
        if worst_way is None or len(trips) > len(worst_way.trips):
            worst[key] = Way(way.load, way.dot, trips)
    return tuple(sorted(worst.values(), key=_cost, reverse=True))


def _cost(way: Way) -> tuple[int, int]:
    results = way.load.result_types
    return len(way.trips), (tile_bytes(results[0]) or 0) if results else 0


def described(way: Way) -> str:
    """A way in one line: `tt.load → convert_layout #blocked→#linear → local_alloc/local_load`."""
    parts = [way.load.name]
    for write, lds_read in way.trips:
        if write is lds_read:
            source = layout_name(write.operand_types[0].layout)
            target = layout_name(write.result_types[0].layout)
            parts.append(f"{_short(write)} {source}→{target}")
        elif write.index == way.load.index:  # a copy straight to LDS: the load is the write
            parts.append(_short(lds_read))
        else:
            parts.append(f"{_short(write)}/{_short(lds_read)}")
    return " → ".join((*parts, way.dot.name))


def _short(op: TtgirOp) -> str:
    return op.name.partition(".")[2]
