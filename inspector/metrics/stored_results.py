"""What a workgroup of a Triton kernel stores behind its loops, and how long these run.

Each workgroup writes results of its own, so their bytes have to reach the device's memory, whatever
the caches do for its operands. A product over a short K is done before they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Final

from ..model import Metric, MetricSpec, TtgirModule
from .source_trips import most_iterations
from .subject import Subject

_RESULTS: Final = "stored.results"

SPECS = (
    MetricSpec(
        _RESULTS,
        "mapping",
        "derived",
        "kernel",
        "What a Triton kernel stores behind loops with dots: `bytes` of the tiles of a workgroup, "
        "masked elements included, and the source's `iterations` of the loop with dots that the "
        "workgroup with most of them makes, those that pipelining peels off included; None "
        "without such a loop or such stores, in nested "
        "loops, and where the launch does not tell how often they go round",
    ),
)


def compute(subject: Subject) -> Iterator[Metric]:
    """The metric of `SPECS`."""
    if subject.ttgir is None:
        yield Metric(_RESULTS, None, "mapping", "derived", "needs the kernel's TTGIR")
        return
    stored = _stored_bytes(subject.ttgir)
    iterations = _iterations(subject, subject.ttgir) if stored else None
    if not iterations:
        note = "no stores behind one loop of dots, or its iterations are not known"
        yield Metric(_RESULTS, None, "mapping", "derived", note)
        return
    value = {"bytes": stored, "iterations": iterations}
    yield Metric(_RESULTS, value, "mapping", "derived")


def _iterations(subject: Subject, module: TtgirModule) -> int | None:
    """How often the one loop around dots goes round, with the steps that pipelining peels off.

    None where another loop is around it, and where it is not known.
    """
    # Only Triton kernels need it.
    from ..ttgir import queries

    dots = queries.dots(module)
    inside = [op for op in dots if queries.loop_above(op, module) is not None]
    loops = {queries.loop_above(op, module) for op in inside}
    loop = loops.pop() if len(loops) == 1 else None
    if loop is None or queries.loop_above(module.ops[loop], module) is not None:
        return None
    runs = most_iterations(subject).get(loop)
    # A peeled step keeps the position of its dot; another product has a position of its own.
    positions = {op.loc for op in inside}
    outside = sum(op.loc in positions for op in dots) - len(inside)
    return None if runs is None else runs + ceil(outside / len(inside))


def _stored_bytes(module: TtgirModule) -> int | None:
    """The bytes of the tiles that are stored outside of loops; None where one is not known."""
    from ..ttgir import queries
    from ..ttgir.axes.tiles import tile_of
    from ..ttgir.conversions import tile_bytes

    total = 0
    for op in queries.stores(module):
        if queries.loop_above(op, module) is not None:
            continue
        tile = tile_of(op)
        size = None if tile is None else tile_bytes(tile.tensor_type)
        if size is None:
            return None
        total += size
    return total
