"""Arguments of a kernel that are sizes, and the lanes' distances that are products of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Final

from ..isa.dataflow.value_graph import Operation, graph_of
from ..model import Function
from .argument_words import KERNARG, WORD_BYTES, loaded_word
from .arguments import known_arguments
from .subject import Subject

_BOUNDS: Final = re.compile(r"[sv]_cmpx?_|v_cvt_f(?:32|64)_[iu]32")
"""Comparisons, and the first step of an integer division."""
_COPIES: Final = re.compile(
    r"s_mov_b|v_mov_b32|v_readfirstlane_b32|s_ashr_i|v_ashrrev_i32|s_abs_i32"
    r"|s_addk?_i32|s_add_u32|s_sub_[iu]32|s_mul_|s_xor_b|s_addc_u32|v_mul_lo_u32"
)
"""Copies, extensions by the sign, absolute values, products, and steps of a loop's counter."""
_MOST_ELEMENT_BYTES: Final = 64
_BITS: Final = {4: 32, 8: 64}
"""Bytes of an integer argument -> its bits."""
_MOST_ARGUMENTS: Final = 24


class SizeArguments:
    """The arguments of a kernel that are sizes, looked for when they are first asked for."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._factors: dict[int, list[Sequence[int]]] | None = None
        """Bits of a number -> sizes and products of two, each in all draws."""

    def divide(self, steps: Sequence[int | None]) -> bool:
        """Whether a distance of lanes is a small multiple of a size, or of a product of two.

        `steps`: bytes from one lane to the next in each draw of the arguments; None in draws that
        do not count.
        """
        if self._factors is None:
            self._factors = self._drawn()
        return any(
            _is_multiple(steps, factor, bits)
            for bits, factors in self._factors.items()
            for factor in factors
        )

    def _drawn(self) -> dict[int, list[Sequence[int]]]:
        subject = self._subject
        offsets = compared_arguments(subject.function)[:_MOST_ARGUMENTS]
        if not offsets:
            return {}
        from ..lanes.unknowns import Arguments, DrawnMemory

        drawn = DrawnMemory(known_arguments(subject) or Arguments())
        factors: dict[int, list[Sequence[int]]] = {}
        for width, bits in _BITS.items():
            sizes = [drawn.argument(offset, width).tolist() for offset in offsets]
            pairs = combinations_with_replacement(sizes, 2)
            products = [[a * b for a, b in zip(*pair, strict=True)] for pair in pairs]
            factors[bits] = [*sizes, *products]
        return factors


def _is_multiple(steps: Sequence[int | None], factor: Sequence[int], bits: int) -> bool:
    """Whether steps are the same small multiple of numbers, as far as `bits` hold them."""
    return any(
        all(
            step is None or (step - times * number) % (1 << bits) == 0
            for step, number in zip(steps, factor, strict=True)
        )
        for times in range(1, _MOST_ELEMENT_BYTES + 1)
    )


def compared_arguments(function: Function) -> list[int]:
    """Offsets of the arguments that a kernel compares with something or divides by, ascending.

    Values are followed in the order of the code: a register that was written on another way only
    may be taken for an argument.
    """
    arguments: dict[Operation | None, frozenset[int]] = {}
    """Operation -> offsets of the arguments that its result is a copy or a product of."""
    compared: set[int] = set()
    for operation in graph_of(function).in_order:
        held: set[int] = set()
        for source, maker in zip(operation.sources, operation.makers, strict=True):
            place, offset = loaded_word(function, source, maker) or (None, 0)
            if place == KERNARG:
                held.update(range(offset, offset + WORD_BYTES * source.count, WORD_BYTES))
            held |= arguments.get(maker, frozenset())
        if _BOUNDS.match(operation.name):
            compared |= held
        if held and _COPIES.match(operation.name):
            arguments[operation] = frozenset(held)
    return sorted(compared)
