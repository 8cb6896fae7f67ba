"""Loads of a Triton kernel that bring the same elements more than once.

Lanes along a dimension of a tile can have the same address, as where a scale holds for a group of K
that is as long as the tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, prod
from typing import Final

from ..model import Metric, MetricSpec, Scalar, TtgirModule, TtgirOp, TtgirType
from .subject import Subject, op_line, variable_name

_ALIKE: Final = "loads.alike"

SPECS = (
    MetricSpec(
        _ALIKE,
        "mapping",
        "derived",
        "kernel",
        "Loads in loops of tiles whose elements along a dimension have the same address: how many "
        "`loads`; of the one with most copies its `elements`, the `distinct` addresses, the tile's "
        "`shape`, `name` of the value, `at` which line, and `staged`: "
        "bytes that its tile takes in LDS, None where it does not pass through it",
    ),
)


def compute(subject: Subject) -> Iterator[Metric]:
    """The metric of `SPECS`."""
    from ..ttgir.queries import LOOPS  # only Triton kernels need it

    module = subject.ttgir
    if module is None:
        yield Metric(_ALIKE, None, "mapping", "derived", "needs the kernel's TTGIR")
    elif not any(op.name in LOOPS for op in module.ops):
        yield Metric(_ALIKE, None, "mapping", "derived", "no loop")
    else:
        yield Metric(_ALIKE, _alike(module), "mapping", "derived")


def _alike(module: TtgirModule) -> dict[str, Scalar]:
    """The value of `loads.alike`."""
    # Only Triton kernels need the facts of a module's values.
    from ..ttgir import queries
    from ..ttgir.axes.analysis import analyze
    from ..ttgir.axes.graph import functions
    from ..ttgir.axes.tiles import needed_values, tile_of
    from ..ttgir.conversions import tile_bytes

    repeating: list[tuple[TtgirOp, TtgirType, int]] = []
    """Loads in loops, their tiles and how many addresses these have."""
    for graph in functions(module):
        tiles = [
            tile
            for op in graph.ops
            if queries.loop_above(op, module) is not None
            and (tile := tile_of(op)) is not None
            and tile.cls in ("global_load", "lds_direct")
            and tile.addresses is not None
        ]
        facts_of = analyze(graph, needed_values(tiles)).facts if tiles else {}
        for tile in tiles:
            facts, shape = facts_of.get(tile.addresses or ""), tile.tensor_type.shape
            if facts is None or len(facts.constancy) != len(shape):
                continue
            runs = zip(shape, facts.constancy, strict=True)
            distinct = prod(size // gcd(size, run) for size, run in runs)
            if distinct < prod(shape):
                repeating.append((tile.op, tile.tensor_type, distinct))
    value: dict[str, Scalar] = {"loads": len({op.loc or op.line for op, _, _ in repeating})}
    if repeating:
        op, tile_type, distinct = max(repeating, key=lambda load: prod(load[1].shape) / load[2])
        value |= {
            "elements": prod(tile_type.shape),
            "distinct": distinct,
            "shape": "x".join(map(str, tile_type.shape)),
            "name": variable_name(op.results[0]) if op.results else None,
            "at": op_line(op),
            "staged": tile_bytes(tile_type) if _is_staged(module, op) else None,
        }
    return value


def _is_staged(module: TtgirModule, load: TtgirOp) -> bool:
    """Whether what a load brings is stored to LDS."""
    from ..ttgir.flow import flow_of
    from ..ttgir.queries import LOADS_TO_LDS, LOCAL_ALLOCATIONS, LOCAL_STORE

    if load.name in LOADS_TO_LDS:
        return True
    flow = flow_of(module)
    values = set(flow.results[load.index])
    for op in module.ops:
        if values.isdisjoint(flow.operands[op.index]):
            continue
        if op.name in LOCAL_STORE or op.name in LOCAL_ALLOCATIONS:
            return True
        if op.name in ("ttg.convert_layout", "amdg.in_thread_transpose"):
            values.update(flow.results[op.index])
    return False
