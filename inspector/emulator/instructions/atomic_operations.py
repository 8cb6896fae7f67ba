"""What atomic operations compute, and the order in which the lanes of one instruction take turns.

Lanes that meet at one place take turns in lane order. Sources: CDNA3 ISA, 12.12, 12.13, 12.15 (DS,
MUBUF, FLAT opcodes), and 9.2 (floats); RDNA3 and RDNA4 ISA, 16.15, 16.16 and 16.20.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from msgspec import Struct

from ...isa.dataflow.execution_target import ExecutionTarget
from .. import numbers
from ..registry import NotCoveredError
from ..waves import U32, Array
from .minmax import is_signalling, larger_number, quieted, smaller_number

U64 = np.uint64

Compute = Callable[..., Array]
"""Memory's values and the operands (one or two arrays) -> what is written."""


class AtomicOperation(Struct, frozen=True):
    """An atomic operation: its type and its function.

    `ufunc`: `compute` as a numpy function that can accumulate, where there is one. `operands`: 2
    for compare-and-swap and its like.
    """

    dtype: Any
    compute: Compute
    ufunc: Any = None
    operands: int = 1


def _increment(old: Array, limit: Array) -> Array:
    """The next number; 0 behind the limit."""
    return np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))


def _decrement(old: Array, limit: Array) -> Array:
    """The number before; the limit before 0 and for what is past it."""
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


def _packed_sum(kind: str) -> Compute:
    """Returns an operation on two 16-bit floats side by side in 32 bits."""
    decode, encode = (
        (numbers.from_f16, numbers.to_f16)
        if kind == "f16"
        else (numbers.from_bf16, numbers.to_bf16)
    )

    def compute(old: Array, operand: Array) -> Array:
        before = np.ascontiguousarray(old).view(np.uint16)
        added = np.ascontiguousarray(operand).view(np.uint16)
        return encode(decode(before) + decode(added)).view(U32)

    return compute


def _float_order(name: str, target: ExecutionTarget) -> Compute:
    """MIN and MAX of floats.

    Up to gfx11 a signalling NaN wins, quiet (CDNA4 ISA, 9.2.3); from gfx12 on, only of two NaNs
    does one (RDNA4 ISA, DS_MIN_NUM_F32).
    """
    choose = smaller_number if name == "min" else larger_number
    if target.generation >= 12:

        def by_number(old: Array, operand: Array) -> Array:
            both = np.isnan(old) & np.isnan(operand)
            return np.where(both, quieted(operand), choose(old, operand))

        return by_number

    def compute(old: Array, operand: Array) -> Array:
        chosen = choose(old, operand)
        chosen = np.where(is_signalling(operand), quieted(operand), chosen)
        return np.where(is_signalling(old), quieted(old), chosen)

    return compute


def _flushed(values: Array) -> Array:
    """Floats with zeros of their sign for denormals."""
    tiny = np.abs(values) < np.finfo(values.dtype).tiny
    return np.where(tiny, np.copysign(values.dtype.type(0), values), values)


def _flushing_add(old: Array, operand: Array) -> Array:
    return _flushed(_flushed(old) + _flushed(operand))


def _exchanged(old: Array, new: Array, compared: Array) -> Array:
    """Compare-and-swap; of floats, -0 equals +0 and NaN nothing."""
    return np.where(old == compared, new, old)


_BITS: Final[dict[str, tuple[Compute, Any]]] = {
    "swap": (lambda old, x: x, None),
    "add": (np.add, np.add),
    "sub": (np.subtract, None),
    "rsub": (lambda old, x: x - old, None),
    "and": (np.bitwise_and, np.bitwise_and),
    "or": (np.bitwise_or, np.bitwise_or),
    "xor": (np.bitwise_xor, np.bitwise_xor),
    "inc": (_increment, None),
    "dec": (_decrement, None),
    "csub": (lambda old, x: np.where(old < x, old.dtype.type(0), old - x), None),
    "sub_clamp": (lambda old, x: np.where(old < x, old.dtype.type(0), old - x), None),
    "cond_sub": (lambda old, x: np.where(old >= x, old - x, old), None),
}
_TWO_OPERANDS: Final[dict[str, Compute]] = {
    "cmpswap": _exchanged,
    "mskor": lambda old, mask, x: (old & ~mask) | x,
    "wrap": lambda old, x, y: np.where(old >= x, old - x, old + y),
}
_ORDER: Final = re.compile(r"([sfu]?)(min|max)(_num)?")


def operation_of(
    name: str, kind: str, target: ExecutionTarget, *, wide: bool, in_lds: bool
) -> AtomicOperation:
    """Returns the operation that the parts of a mnemonic name.

    `name`: `add`, `smin`, `pk_add`, …. `kind`: type that the mnemonic names (`f32`, `u64`), empty
    for none. `in_lds`: whether LDS carries it out, which goes by the mode of the wave.

    Raises:
        NotCoveredError: for an unknown name.
    """
    if name == "pk_add":
        return AtomicOperation(U32, _packed_sum(kind))
    is_real = kind in ("f32", "f64") or name in ("fmin", "fmax", "fcmpswap")
    unsigned: Any = U64 if wide else U32
    real: Any = np.float64 if wide else np.float32
    if (two := _TWO_OPERANDS.get(name.removeprefix("f"))) is not None:
        return AtomicOperation(real if is_real else unsigned, two, operands=2)
    order = _ORDER.fullmatch(name)
    if is_real:
        if order is not None:
            return AtomicOperation(real, _float_order(order[2], target))
        if name != "add":
            raise NotCoveredError(f"atomic {name} {kind}")
        if not wide and _flushes_sums(target, in_lds=in_lds):
            return AtomicOperation(real, _flushing_add)
        return AtomicOperation(real, np.add, np.add)
    if order is not None:
        signed = order[1] == "s" or kind.startswith("i")
        ufunc = np.minimum if order[2] == "min" else np.maximum
        dtype = f"i{np.dtype(unsigned).itemsize}" if signed else unsigned
        return AtomicOperation(np.dtype(dtype), ufunc, ufunc)
    if name not in _BITS:
        raise NotCoveredError(f"atomic {name} {kind}")
    compute, ufunc = _BITS[name]
    return AtomicOperation(unsigned, compute, ufunc)


def _flushes_sums(target: ExecutionTarget, *, in_lds: bool) -> bool:
    """Whether denormals of f32 are flushed in sums; those of f64 never are.

    Memory of gfx90a flushes what LLVM's FeatureMemoryAtomicFAddF32DenormalSupport says that the
    later ones keep; LDS goes by the wave's mode.
    """
    return target.flush32 if in_lds else target.arch in ("gfx908", "gfx90a")


def apply(
    read: Callable[[Array], Array],
    write: Callable[[Array, Array], None],
    where: Array,
    operands: list[Array],
    operation: AtomicOperation,
) -> Array:
    """Carries out an atomic operation, in lane order where places coincide.

    `where`: each lane's place [lane]. `operands`: each lane's, of the operation's type. Returns the
    value before each lane's turn.
    """
    if not len(where):
        return np.zeros(0, operation.dtype)
    order = np.argsort(where, kind="stable")
    places = where[order]
    starts = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
    counts = np.diff(np.append(starts, len(places)))
    values = read(places[starts]).view(operation.dtype)
    ordered = [operand[order] for operand in operands]
    # Few places with long queues are accumulated one by one, many with short ones turn by turn.
    if operation.ufunc is not None and counts.max() > 2 * len(starts):
        before = _accumulate(values, starts, counts, ordered[0], operation.ufunc)
    else:
        before = _take_turns(values, starts, counts, ordered, operation)
    write(places[starts], values)
    result = np.empty_like(before)
    result[order] = before
    return result


def _accumulate(values: Array, starts: Array, counts: Array, operands: Array, ufunc: Any) -> Array:
    """Carries out all turns at one place after the other; see `_take_turns`."""
    before = np.empty(len(operands), values.dtype)
    for place, (start, count) in enumerate(zip(starts, counts, strict=True)):
        line = np.concatenate((values[place : place + 1], operands[start : start + count]))
        line = ufunc.accumulate(line)
        before[start : start + count] = line[:-1]
        values[place] = line[-1]
    return before


def _take_turns(
    values: Array, starts: Array, counts: Array, operands: list[Array], operation: AtomicOperation
) -> Array:
    """Carries out every place's first turn, then every second one, and so on."""
    before = np.empty(len(operands[0]), operation.dtype)
    for turn in range(int(counts.max())):
        waiting = np.flatnonzero(counts > turn) if turn else np.arange(len(starts))
        lanes = starts[waiting] + turn
        before[lanes] = values[waiting]
        new = operation.compute(values[waiting], *(operand[lanes] for operand in operands))
        values[waiting] = np.asarray(new).astype(operation.dtype, copy=False)
    return before


def words_of(values: Array) -> Array:
    """32- or 64-bit values [lane] -> uint32 [dword, lane]."""
    count = values.itemsize // 4
    return np.ascontiguousarray(values.view(U32).reshape(-1, count).T)


def values_of(words: Array) -> Array:
    """Returns the values of words [dword, lane]: uint32 or uint64 [lane]."""
    if len(words) == 1:
        return np.asarray(words[0])
    return words[0].astype(U64) | (words[1].astype(U64) << U64(32))
