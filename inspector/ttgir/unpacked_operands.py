"""Operands of dots that are computed from loaded integers: weights of 4 or 8 bits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from ..model import TtgirModule, TtgirOp
from .flow import DataFlow, flow_of, values_behind
from .queries import DOTS, LOADS

_CONVERSIONS: Final = frozenset(("arith.sitofp", "arith.uitofp"))
_SHIFTS: Final = frozenset(("arith.shrsi", "arith.shrui", "arith.andi"))
_FROM_LDS: Final = "ttg.local_load"
"""Reads what a load brought there, an iteration earlier where the loop is pipelined."""
_MOST_VALUES: Final = 400
"""Values above a dot's operand that are looked at."""


class Unpacked(Struct, frozen=True):
    """A dot in a loop with such an operand.

    Attributes:
        conversion: the one that makes numbers of the integers.
        element: the type of these numbers.
        operand: the type that the dot multiplies.
        bits: of each integer as it lies in memory: 4 where it is shifted or masked out of a byte
            or word, else those of the loaded element.
        is_scaled: whether the numbers are multiplied before the dot.
    """

    dot: TtgirOp
    conversion: TtgirOp
    element: str
    operand: str
    bits: int
    is_scaled: bool


def unpacked_operands(module: TtgirModule) -> Iterator[Unpacked]:
    """Yields the dots in loops of which an operand is converted from loaded integers."""
    if not any(op.name in _CONVERSIONS for op in module.ops):
        return
    flow = flow_of(module)
    for op in module.ops:
        if op.name in DOTS and flow.loop[op.index] is not None:
            yield from (
                unpacked
                for value in flow.operands[op.index][:2]
                if (unpacked := _of_operand(flow, op, value)) is not None
            )


def _of_operand(flow: DataFlow, dot: TtgirOp, operand: int) -> Unpacked | None:
    above = _made_of(flow, operand)
    conversion = next(
        (op for op in above if op.name in _CONVERSIONS and op.result_types[0].kind == "tensor"),
        None,
    )
    if conversion is None:
        return None
    sources = [op for value in flow.operands[conversion.index] for op in _made_of(flow, value)]
    load = next((op for op in sources if op.name in LOADS or op.name == _FROM_LDS), None)
    element = conversion.result_types[0].element
    if load is None or not load.result_types or element is None:
        return None
    loaded = load.result_types[0].element or ""
    if not loaded.startswith("i") or not loaded[1:].isdecimal():
        return None
    is_shifted = any(op.name in _SHIFTS and op.result_types[0].kind == "tensor" for op in sources)
    is_scaled = any(op.name == "arith.mulf" for op in above)
    bits = 4 if is_shifted else int(loaded[1:])
    maker = flow.op(operand)
    multiplied = maker.result_types[0].element if maker is not None else element
    return Unpacked(dot, conversion, element, multiplied, bits, is_scaled)


def _made_of(flow: DataFlow, value: int) -> list[TtgirOp]:
    """The operations that a value is computed by, up to loads, the nearest first."""
    values = islice(values_behind(flow, (value,), LOADS | DOTS), _MOST_VALUES)
    return [maker for _, maker in values if maker is not None]
