"""Loads that a loop waits for in the iteration that issues them, by the values that they become.

Triton's pass for AMD issues those loads of a loop ahead that a dot's operands are made of
(`TritonAMDGPUTransforms/ScheduleLoops.cpp`; Triton's `getIndexedLoads`); in a loop that states
`num_stages` itself (`tl.range`) all of them. A scale that multiplies the product, or what is added
to it, stays in the iteration that uses it. So does, with two stages, an index that the address of a
load ahead is made of: it is loaded an iteration ahead with it, right before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from msgspec import Struct

from ..model import TtgirOp
from .flow import DataFlow, reached, users_of
from .movements import CONVERSIONS
from .queries import DOTS, LOADS, LOADS_TO_LDS, LOCAL_STORE, LOOPS, POINTER_LOADS, in_dialects

_UNCHANGED = (
    CONVERSIONS
    | in_dialects("in_thread_transpose")
    | {"tt.trans", "tt.reshape", "arith.extf", "arith.truncf", "tt.fp_to_fp"}
)
"""Operations that leave a value the same, for a use in the next iteration."""


class Use(Enum):
    """What an iteration uses a value for that it has loaded."""

    ADDRESS = "address"
    VALUE = "value"
    DOT = "dot"


class LoopLoad(Struct, frozen=True):
    """A load of global memory in a loop.

    Attributes:
        loop: the innermost loop around it, by its index.
        uses: of its value, in the same iteration; none where it is loaded for a later one.
        waits_for: loads of the same iteration that deliver the indices of its address or mask.
    """

    op: TtgirOp
    loop: int
    uses: frozenset[Use]
    waits_for: tuple[TtgirOp, ...]


def loop_loads(flow: DataFlow) -> tuple[LoopLoad, ...]:
    """The loads that stand directly in a loop's body, in file order."""
    in_loops = []
    for op in flow.module.ops:
        loop = flow.loop[op.index]
        if loop is not None and op.parent == loop and op.name in LOADS:
            uses = frozenset[Use]() if op.name in LOADS_TO_LDS else _uses(flow, op)
            in_loops.append(LoopLoad(op, loop, uses, tuple(_loads_behind(flow, op, loop))))
    return tuple(in_loops)


def _uses(flow: DataFlow, load: TtgirOp) -> frozenset[Use]:
    """What the iteration of a load uses its value for."""
    ahead = [(value, False) for value in flow.results[load.index]]  # value, computed from it
    visited, uses = set[tuple[int, bool]](), set[Use]()
    while ahead:
        value, computed = ahead.pop()
        if (value, computed) in visited:
            continue
        visited.add((value, computed))
        for user in users_of(flow).get(value, ()):
            results = flow.results[user.index]
            if user.name in LOADS:
                uses.add(Use.ADDRESS)
            elif user.name in DOTS and value not in flow.operands[user.index][2:3]:
                uses.add(Use.DOT)
            elif user.name == "scf.yield":
                if computed:
                    uses.add(Use.VALUE)
            elif user.name in LOCAL_STORE:
                continue
            elif user.name in LOOPS or not results:
                uses.add(Use.VALUE)
            else:
                ahead += [(result, computed or user.name not in _UNCHANGED) for result in results]
    return frozenset(uses)


def _loads_behind(flow: DataFlow, load: TtgirOp, loop: int) -> Iterator[TtgirOp]:
    """The loads of an iteration that deliver indices for a load; none of earlier iterations."""

    def maker_of(value: int) -> TtgirOp | None:
        maker = flow.op(value)
        if maker is None or flow.loop[maker.index] != loop or maker.name in LOOPS:
            return None
        return None if maker.result_types[0].element.startswith(("f", "bf")) else maker

    def sources(value: int) -> Sequence[int]:
        maker = maker_of(value)
        if maker is None or maker.name in POINTER_LOADS:
            return ()
        return (*flow.operands[maker.index], *flow.carried.get(value, ()))  # branches of an `if`

    makers = map(maker_of, reached(flow.operands[load.index], sources))
    return (maker for maker in makers if maker is not None and maker.name in POINTER_LOADS)


def issued_ahead(loads: Sequence[LoopLoad], loop: int) -> bool:
    """Whether Triton pipelines a loop: one of its loads at least is for a later iteration."""
    return any(load.loop == loop and not load.uses for load in loads)
