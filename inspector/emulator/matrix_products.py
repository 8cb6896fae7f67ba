"""Matrix products as steps, and what those of one block of code can share.

A product reads two operands, multiplies, and adds C into D. Two things are worth keeping from one
step to the next while nothing else touches the registers in question: an operand's numbers, and an
accumulator in the product's own order, which saves a permutation per product. What each
instruction computes and how it rounds stays the same. `link` finds both before the code runs; at
run time they lie in `Waves.memo` until their last use.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final

import numpy as np
from msgspec import Struct

from ..isa.dataflow.operands import half_bits
from .registry import Step
from .waves import I32, Array, Waves

_MEMO_KEYS: Final = count()
"""Keys of `Waves.memo`, each used once in this process."""
BlockStep = tuple[int, Step, int]
"""The registers that an instruction reads or writes, its step, and its index."""


class MatrixOperand(Struct, frozen=True):
    """An operand: its registers, and how they become numbers.

    `take`: uint32 [register, wave, lane] to numbers. `meaning`: what, besides the registers,
    decides the numbers.
    """

    rows: slice
    take: Callable[[Array], Array]
    meaning: tuple[Any, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.rows.start, self.rows.stop, *self.meaning)

    @property
    def bits(self) -> int:
        return _bits(self.rows)


class Accumulator(Struct, frozen=True):
    """D and C where they may stay in the product's order: float32 or int32, without modifiers.

    Args:
        start: the registers of C; None where it is a constant.
        constant: C where it is one.
        flush: makes subnormals 0, in place.
    """

    rows: slice
    start: slice | None
    constant: Array
    integer: bool
    flush: Callable[[Array], None] | None = None

    def registers(self, waves: Waves, rows: slice) -> Array:
        """Returns registers of all lanes as the product's type, [register, wave, lane]: a view."""
        return (waves.i32 if self.integer else waves.f32)[rows]

    def add(self, product: Array, before: Array) -> Array:
        """The sum, in the product's memory where it can be."""
        if self.integer:
            return np.add(product.astype(I32), before)
        np.add(product, before, out=product)
        if self.flush is not None:
            self.flush(product)
        return product


class MatrixProduct(Struct, frozen=True):
    """A matrix instruction's step.

    Args:
        multiply: their numbers -> product, contiguous.
        arrange: product -> a view [register, ..., wave, ..., lane] of D.
        layout: names `arrange`.
        finish: adds C to the arranged product and writes D.
        written: the registers of D.
        accumulator: D and C where the next product may go on from the sum; None: it may not.
    """

    left: MatrixOperand
    right: MatrixOperand
    multiply: Callable[[Array, Array], Array]
    arrange: Callable[[Array], Array]
    layout: tuple[Any, ...]
    finish: Callable[[Waves, Array], None]
    written: slice
    accumulator: Accumulator | None = None

    def __call__(self, waves: Waves) -> None:
        left = self.left.take(waves.u32[self.left.rows])
        right = self.right.take(waves.u32[self.right.rows])
        self.finish(waves, self.arrange(self.multiply(left, right)))


def _bits(rows: slice) -> int:
    return half_bits(rows.start, rows.stop - rows.start)


class _Share(Struct):
    """An operand's numbers for several steps; `uses` counts them."""

    key: int
    bits: int
    uses: int = 0


class _Plan(Struct):
    """The operands and the accumulator that a product shares with others of its block.

    `left_use` and `right_use` number this product's uses of shared operands; products with the same
    `chain` keep their sum in `Waves.memo`, which the first begins and the last writes to D.
    """

    left: _Share
    right: _Share
    left_use: int = 0
    right_use: int = 0
    chain: int = -1
    follows: bool = False
    goes_on: bool = False


def link(steps: list[BlockStep]) -> list[BlockStep]:
    """The steps of a block, its products linked where they share something."""
    plans: dict[int, _Plan] = {}
    shares: dict[tuple[Any, ...], _Share] = {}
    chains: dict[int, int] = {}  # registers of D -> the last product that wrote them
    for index, (touched, step, _) in enumerate(steps):
        if not isinstance(step, MatrixProduct):
            _forget(shares, touched)
            _end_chains(chains, touched)
            continue
        plan = _Plan(_shared(shares, step.left), _shared(shares, step.right))
        plan.left_use, plan.right_use = plan.left.uses, plan.right.uses + (plan.right is plan.left)
        plan.left.uses += 1
        plan.right.uses += 1
        plans[index] = plan
        _continue_chain(steps, plans, chains, index, step)
        _forget(shares, _bits(step.written))
    linked = list(steps)
    for index, plan in plans.items():
        touched, product, site = steps[index]
        assert isinstance(product, MatrixProduct)
        if max(plan.left.uses, plan.right.uses) > 1 or plan.follows or plan.goes_on:
            linked[index] = (touched, _linked(product, plan), site)
    return linked


def _shared(shares: dict[tuple[Any, ...], _Share], source: MatrixOperand) -> _Share:
    """Returns the share of an operand, the one from an earlier product if there is one."""
    return shares.setdefault(source.key, _Share(next(_MEMO_KEYS), source.bits))


def _forget(shares: dict[tuple[Any, ...], _Share], touched: int) -> None:
    """Ends the sharing of operands some of whose registers are touched."""
    for key in [key for key, share in shares.items() if share.bits & touched]:
        del shares[key]


def _end_chains(chains: dict[int, int], touched: int) -> None:
    """Ends the chains of sums some of whose registers are touched."""
    for bits in [bits for bits in chains if bits & touched]:
        del chains[bits]


def _continue_chain(
    steps: list[BlockStep],
    plans: dict[int, _Plan],
    chains: dict[int, int],
    index: int,
    product: MatrixProduct,
) -> None:
    """Ties a product to the one that wrote its C, if nothing else has looked there since.

    A chain's sum is in its registers only behind its last product. So a product that reads them as
    an operand ends it; one that touches them otherwise does too, once it may have continued it.
    """
    accumulator = product.accumulator
    operands = product.left.bits | product.right.bits
    _end_chains(chains, operands)
    target = _bits(accumulator.rows) if accumulator is not None else 0
    before = chains.get(target)
    if before is not None and accumulator is not None and accumulator.start == accumulator.rows:
        earlier = steps[before][1]
        assert isinstance(earlier, MatrixProduct)
        if earlier.layout == product.layout:
            plans[before].goes_on = plans[index].follows = True
            plans[index].chain = plans[before].chain
    touched, _, _ = steps[index]
    _end_chains(chains, touched)
    if accumulator is not None and not target & operands:
        chains[target] = index
        if plans[index].chain < 0:
            plans[index].chain = next(_MEMO_KEYS)


def _linked(product: MatrixProduct, plan: _Plan) -> Step:
    """Returns the step of a product that shares operands or keeps its sum for the next product."""
    left = _reader(product.left, plan.left, plan.left_use)
    right = _reader(product.right, plan.right, plan.right_use)
    multiply, arrange, finish = product.multiply, product.arrange, product.finish
    accumulator, chain = product.accumulator, plan.chain
    if accumulator is None or not (plan.follows or plan.goes_on):
        return lambda waves: finish(waves, arrange(multiply(left(waves), right(waves))))
    target = _bits(accumulator.rows)

    def begin(waves: Waves) -> None:
        numbers = multiply(left(waves), right(waves))
        if waves.outstanding.registers & target:  # a load may yet arrive there: keep nothing
            waves.memo.pop(chain, None)
            finish(waves, arrange(numbers))
            return
        if accumulator.start is None:
            waves.memo[chain] = accumulator.add(numbers, accumulator.constant)
            return
        if accumulator.integer:
            numbers = numbers.astype(I32)
        view = arrange(numbers)
        np.add(view, accumulator.registers(waves, accumulator.start).reshape(view.shape), out=view)
        if accumulator.flush is not None:
            accumulator.flush(numbers)
        waves.memo[chain] = numbers

    def go_on(waves: Waves) -> None:
        numbers = multiply(left(waves), right(waves))
        before = waves.memo.get(chain)
        if before is None:
            finish(waves, arrange(numbers))
        else:
            waves.memo[chain] = accumulator.add(numbers, before)

    def end(waves: Waves) -> None:
        numbers = multiply(left(waves), right(waves))
        before = waves.memo.pop(chain, None)
        if before is None:
            finish(waves, arrange(numbers))
            return
        view = arrange(accumulator.add(numbers, before))
        np.copyto(accumulator.registers(waves, accumulator.rows).reshape(view.shape), view)

    if not plan.follows:
        return begin
    return go_on if plan.goes_on else end


def _reader(source: MatrixOperand, share: _Share, use: int) -> Callable[[Waves], Array]:
    """Returns the reader of an operand that several products may share."""
    rows, take, key, bits = source.rows, source.take, share.key, share.bits
    if share.uses == 1:
        return lambda waves: take(waves.u32[rows])
    last = use == share.uses - 1

    def first(waves: Waves) -> Array:
        numbers = take(waves.u32[rows])
        if not waves.outstanding.registers & bits:
            waves.memo[key] = numbers
        else:
            waves.memo.pop(key, None)
        return numbers

    def again(waves: Waves) -> Array:
        numbers = waves.memo.pop(key, None) if last else waves.memo.get(key)
        return take(waves.u32[rows]) if numbers is None else numbers

    return again if use else first
