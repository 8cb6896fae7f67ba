"""Loads of a Triton kernel that bring the same elements more than once.

Within a load, lanes along a dimension of its tile can have the same address, as where a scale holds
for a group of K that is as long as the tile. Over loops, an inner loop can load in each pass of the
outer one what it loaded in the pass before.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, prod
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ..model import Metric, MetricSpec, Scalar, TtgirModule, TtgirOp, TtgirType
from .subject import Subject, op_line, variable_name

if TYPE_CHECKING:
    from ..ttgir.flow import DataFlow

_ALIKE, _AGAIN = "loads.alike", "loads.again"

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
    MetricSpec(
        _AGAIN,
        "mapping",
        "derived",
        "kernel",
        "Loops in loops whose loads have the addresses that they had in the outer loop's pass "
        "before: how many such `loads` of the `of` in the inner loop, their `bytes` of an "
        "iteration, the first's `name` and `at` which line, the line `outer` of the outer loop, "
        "and its `passes` where they are a constant",
    ),
)

_LOOPS: Final = frozenset(("scf.for", "scf.while"))


def compute(subject: Subject) -> Iterator[Metric]:
    """The metrics of `SPECS`."""
    module = subject.ttgir
    if module is None:
        for spec in SPECS:
            yield Metric(spec.name, None, "mapping", "derived", "needs the kernel's TTGIR")
        return
    if not any(op.name in _LOOPS for op in module.ops):
        for spec in SPECS:
            yield Metric(spec.name, None, "mapping", "derived", "no loop")
        return
    yield Metric(_ALIKE, _alike(module), "mapping", "derived")
    yield Metric(_AGAIN, _again(module), "mapping", "derived")


# --------------------------------------------------------------------------- in a tile


class _Load(Struct, frozen=True):
    """A load in a loop, with the addresses that its tile has along each dimension."""

    op: TtgirOp
    kind: TtgirType
    distinct: tuple[int, ...]

    @property
    def copies(self) -> float:
        """Elements for each distinct address."""
        return prod(self.kind.shape) / prod(self.distinct)


def _alike(module: TtgirModule) -> dict[str, Scalar]:
    """The value of `loads.alike`."""
    # Only Triton kernels need the facts of a module's values.
    from ..ttgir import queries
    from ..ttgir.axes.analysis import analyze
    from ..ttgir.axes.graph import functions
    from ..ttgir.axes.tiles import needed_values, tile_of
    from ..ttgir.conversions import tile_bytes

    repeating: list[_Load] = []
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
            facts = facts_of.get(tile.addresses or "")
            shape = tile.tensor_type.shape
            if facts is None or len(facts.constancy) != len(shape):
                continue
            distinct = tuple(
                size // gcd(size, run) for size, run in zip(shape, facts.constancy, strict=True)
            )
            if prod(distinct) < prod(shape):
                repeating.append(_Load(tile.op, tile.tensor_type, distinct))
    worst = max(repeating, key=lambda load: load.copies, default=None)
    value: dict[str, Scalar] = {"loads": len({load.op.loc or load.op.line for load in repeating})}
    if worst is not None:
        shape = worst.kind.shape
        value |= {
            "elements": prod(shape),
            "distinct": prod(worst.distinct),
            "shape": "x".join(map(str, shape)),
            "name": variable_name(worst.op.results[0]) if worst.op.results else None,
            "at": op_line(worst.op),
            "staged": tile_bytes(worst.kind) if _is_staged(module, worst.op) else None,
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


# --------------------------------------------------------------------------- over loops


def _again(module: TtgirModule) -> dict[str, Scalar]:
    """The value of `loads.again`: of the inner loop that loads most bytes again."""
    # Only Triton kernels need the flow of a module's values.
    from ..ttgir import queries
    from ..ttgir.flow import flow_of
    from ..ttgir.loop_loads import loop_loads

    flow, constants = flow_of(module), queries.integer_constants(module)
    by_loop: dict[int, list[TtgirOp]] = {}
    for load in loop_loads(flow):
        by_loop.setdefault(load.loop, []).append(load.op)
    best: dict[str, Scalar] = {"loads": 0}
    for loop, loads in by_loop.items():
        outer = flow.loop[loop]
        if outer is None or flow.module.ops[loop].name != "scf.for":
            continue
        again = [op for op in loads if not _depends_on(flow, op, outer)]
        size = sum(_bytes(op) for op in again)
        if again and size >= int(best.get("bytes") or 0):
            best = {
                "loads": len(again),
                "of": len(loads),
                "bytes": size,
                "name": variable_name(again[0].results[0]),
                "at": op_line(again[0]),
                "outer": op_line(flow.module.ops[outer]),
                "passes": queries.constant_trips(flow.module.ops[outer], constants),
            }
    return best


def _bytes(load: TtgirOp) -> int:
    from ..ttgir.conversions import tile_bytes

    return (tile_bytes(load.result_types[0]) or 0) if load.result_types else 0


def _depends_on(flow: DataFlow, load: TtgirOp, loop: int) -> bool:
    """Whether a load's address or mask may change from one pass of a loop around it to the next.

    The inner loop's bounds count as part of its addresses.
    """
    from ..ttgir.flow import UNKNOWN, values_behind

    own = set(flow.arguments.get(loop, ()))
    begin = list(flow.operands[load.index])
    around = flow.loop[load.index]
    while around is not None and around != loop:
        begin += flow.operands[around][:3]
        around = flow.loop[around]
    return any(value == UNKNOWN or value in own for value, _ in values_behind(flow, begin))
