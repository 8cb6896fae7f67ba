"""Atomic operations on global memory and on LDS.

Lanes of one instruction that meet at one address take turns in lane order. Sources: CDNA3 ISA,
12.12, 12.13, 12.15 (DS, MUBUF, FLAT opcodes), and 9.2 (floats); RDNA3 and RDNA4 ISA, 16.15, 16.16
and 16.20.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from msgspec import Struct

from .. import numbers
from ..delivery import deliver, issue
from ..operands import M0, Decoded, Operand
from ..registry import Context, ExecutionTarget, NotCoveredError, Step, builds, builds_matching
from ..waves import U32, Array, Waves
from .addressing import Addresses, flat_addresses
from .buffers import buffer_addresses
from .lds import pair_offsets, single_offset
from .minmax import is_signalling, larger_number, quieted, smaller_number
from .spaces import flat_parts, lanes_of, lds_places, picked, usable_lanes

U64 = np.uint64

Compute = Callable[..., Array]
"""Memory's values and the operands (one or two arrays) -> what is written."""


class Operation(Struct, frozen=True):
    """An atomic operation: its type and its function.

    Args:
        dtype: type of memory, operands and result.
        compute: new values from old ones and operands.
        ufunc: `compute` as a numpy function that can accumulate, where there is one.
        operands: 2 for compare-and-swap and its like.
    """

    dtype: Any
    compute: Compute
    ufunc: Any = None
    operands: int = 1


# ---------------------------------------------------------------------- what they compute


def _increment(old: Array, limit: Array) -> Array:
    return np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))


def _decrement(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


def _packed(kind: str) -> Compute:
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
) -> Operation:
    """Returns the operation that the parts of a mnemonic name.

    Args:
        name: `add`, `smin`, `pk_add`, ….
        kind: type that the mnemonic names (`f32`, `u64`), empty for none.
        target: the GPU.
        wide: whether it works on 64 bits.
        in_lds: whether LDS carries it out, which goes by the mode of the wave.

    Raises:
        NotCoveredError: for an unknown name.
    """
    unsigned: Any = U64 if wide else U32
    real: Any = np.float64 if wide else np.float32
    is_real = kind in ("f32", "f64") or name in ("fmin", "fmax", "fcmpswap")
    if name in ("cmpswap", "fcmpswap", "mskor", "wrap"):
        compute = _TWO_OPERANDS[name.removeprefix("f")]
        return Operation(real if is_real else unsigned, compute, operands=2)
    if name == "pk_add":
        return Operation(U32, _packed(kind))
    if (order := _ORDER.fullmatch(name)) is not None:
        if is_real:
            return Operation(real, _float_order(order[2], target))
        signed = order[1] == "s" or kind.startswith("i")
        ufunc = np.minimum if order[2] == "min" else np.maximum
        dtype = f"i{np.dtype(unsigned).itemsize}" if signed else unsigned
        return Operation(np.dtype(dtype), ufunc, ufunc)
    if is_real and name == "add":
        # Memory of gfx90a flushes what LLVM's FeatureMemoryAtomicFAddF32DenormalSupport says that
        # the later ones keep; LDS goes by the wave's mode. Sums of 64 bits are never flushed.
        flushes = target.flush32 if in_lds else target.arch in ("gfx908", "gfx90a")
        if flushes and not wide:
            return Operation(real, _flushing_add)
        return Operation(real, np.add, np.add)
    if is_real or name not in _BITS:
        raise NotCoveredError(f"atomic {name} {kind}")
    compute, ufunc = _BITS[name]
    return Operation(unsigned, compute, ufunc)


# ---------------------------------------------------------------------- turns


def apply(
    read: Callable[[Array], Array],
    write: Callable[[Array, Array], None],
    where: Array,
    operands: list[Array],
    operation: Operation,
) -> Array:
    """Carries out an atomic operation, in lane order where places coincide.

    Args:
        read: values at places that differ.
        write: sets them.
        where: each lane's place [lane].
        operands: each lane's, of the operation's type.
        operation: what is done.

    Returns:
        The value before each lane's turn.
    """
    if not len(where):
        return np.zeros(0, operation.dtype)
    order = np.argsort(where, kind="stable")
    places = where[order]
    starts = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
    counts = np.diff(np.append(starts, len(places)))
    old = read(places[starts]).view(operation.dtype)
    values = [operand[order] for operand in operands]
    met = np.empty(len(where), operation.dtype)
    turns = int(counts.max())
    if operation.ufunc is not None and turns > 2 * len(starts):
        for group, (start, count) in enumerate(zip(starts, counts, strict=True)):
            line = np.concatenate((old[group : group + 1], values[0][start : start + count]))
            line = operation.ufunc.accumulate(line)
            met[start : start + count] = line[:-1]
            old[group] = line[-1]
    else:
        for turn in range(turns):
            groups = np.flatnonzero(counts > turn) if turn else np.arange(len(starts))
            positions = starts[groups] + turn
            met[positions] = old[groups]
            new = operation.compute(old[groups], *(value[positions] for value in values))
            old[groups] = np.asarray(new).astype(operation.dtype, copy=False)
    write(places[starts], old)
    result = np.empty_like(met)
    result[order] = met
    return result


def words_of(values: Array) -> Array:
    """32- or 64-bit values [lane] -> uint32 [dword, lane]."""
    count = values.itemsize // 4
    return np.ascontiguousarray(values.view(U32).reshape(-1, count).T)


def values_of(words: Array) -> Array:
    """Returns the values of words [dword, lane]: uint32 or uint64 [lane]."""
    if len(words) == 1:
        return np.asarray(words[0])
    return words[0].astype(U64) | (words[1].astype(U64) << U64(32))


def _operand(
    waves: Waves, first: int, size: int, lanes: Array | None, operation: Operation
) -> Array:
    """Returns an operand of the chosen lanes, one value of the operation's type for each."""
    rows = [picked(waves.u32[first + word], lanes) for word in range(size // 4)]
    return values_of(np.stack(rows)).view(operation.dtype)


def in_memory(
    waves: Waves, context: Context, where: Array, usable: Array | None, operands: list[Array],
    operation: Operation, lanes: Array | None,
) -> Array:  # fmt: skip
    """Works on addresses; returns the values before each lane's turn."""
    machine = waves.machine
    size = np.dtype(operation.dtype).itemsize
    machine.before_global(context, waves, where, usable, size, atomic=True)
    check_alignment(waves, context, where, usable, size)
    outside = machine.outside(context.index)
    return apply(
        lambda places: values_of(machine.memory.read(places, size, outside)),
        lambda places, new: machine.memory.write(places, words_of(new), size, outside),
        picked(where, lanes),
        operands,
        operation,
    )


def in_lds(
    waves: Waves, context: Context, where: Array, usable: Array | None, operands: list[Array],
    operation: Operation, lanes: Array | None,
) -> Array:  # fmt: skip
    """Works on offsets in all workgroups' LDS; returns what `in_memory` does."""
    machine = waves.machine
    size = np.dtype(operation.dtype).itemsize
    words = machine.local.words
    check_alignment(waves, context, where, usable, size)
    machine.before_lds_atomic(context.index, waves, where, usable, size)
    return apply(
        lambda places: values_of(words.gather(places, size)),
        lambda places, new: words.scatter(places, words_of(new), size),
        picked(where, lanes),
        operands,
        operation,
    )


def check_alignment(
    waves: Waves, context: Context, where: Array, usable: Array | None, size: int
) -> None:
    """Atomics want addresses that are multiples of their size, whatever the alignment mode.

    LLVM's AtomicExpand never makes others. A workgroup's LDS begins at a multiple of 16.
    """
    odd = where & (size - 1)
    if odd.any() and (usable is None or (odd[usable] != 0).any()):
        wrong = odd != 0 if usable is None else (odd != 0) & usable
        waves.machine.misaligned(
            context.index, int(where[wrong][0]), size, "an atomic needs a multiple of its size"
        )


def spread(waves: Waves, met: Array, lanes: Array | None) -> Array:
    """Results of some lanes as registers, uint32 [register, wave, lane]; the others 0."""
    words = words_of(met)
    shape = (len(words), waves.count, waves.lanes)
    if lanes is None:
        return words.reshape(shape)
    rows = np.zeros(shape, U32)
    rows.reshape(len(words), -1)[:, lanes] = words
    return rows


# ---------------------------------------------------------------------- global, flat, buffer

_GLOBAL: Final = re.compile(
    r"(global|flat|buffer)_atomic_(?P<name>pk_add|f?cmpswap|swap|add|sub|[suf]?min(?:_num)?"
    r"|[suf]?max(?:_num)?|and|or|xor|inc|dec|csub|sub_clamp|cond_sub)"
    r"(?:_(?P<kind>f16|bf16|f32|f64|u32|u64|i32|i64|b32|b64))?(?P<x2>_x2)?"
)


def returns_old(decoded: Decoded) -> bool:
    """Whether the old value comes back: `glc`, `sc0` from gfx940, `th` from gfx12 on."""
    flags = decoded.modifiers
    return "glc" in flags or "sc0" in flags or "ATOMIC_RETURN" in flags.get("th", "")


@builds_matching(r"(global|flat|buffer)_atomic_\w+")
def global_atomic(decoded: Decoded, context: Context) -> Step:
    """`global_atomic_add v0, v[1:2], v3, off sc0`, `buffer_atomic_add v0, v1, s[0:3], 0 offen`."""
    match = _GLOBAL.fullmatch(decoded.name)
    if match is None:
        raise NotCoveredError(decoded.text)
    kind = match["kind"] or ""
    wide = bool(match["x2"]) or kind.endswith("64")
    operation = operation_of(match["name"], kind, context.target, wide=wide, in_lds=False)
    returns = returns_old(decoded)
    operands = decoded.operands
    size = 8 if wide else 4
    addresses: Addresses
    if decoded.name.startswith("buffer"):
        if context.private:
            raise NotCoveredError(decoded.text)
        data = target = operands[0]
        addresses = buffer_addresses(decoded, context, operands[1:], size, indivisible=True)
    elif returns:
        target, lane, data, *base = operands
        addresses = flat_addresses(decoded, context, lane, tuple(base), size)
    else:
        lane, data, *base = operands
        target = data
        addresses = flat_addresses(decoded, context, lane, tuple(base), size)
    flat = decoded.name.startswith("flat")

    def run(waves: Waves, where: Array, usable: Array | None, space: str) -> Array:
        if space == "scratch":
            raise NotCoveredError(f"{decoded.text}: on private memory")
        inside = None
        if space == "lds":
            where, inside = lds_places(waves, context, where, size)
            usable = usable if inside is None else inside if usable is None else usable & inside
        lanes = lanes_of(usable)
        values = [
            _operand(waves, data.first + number * size // 4, size, lanes, operation)
            for number in range(operation.operands)
        ]
        work = in_lds if space == "lds" else in_memory
        met = work(waves, context, where, usable, values, operation, lanes)
        return spread(waves, met, lanes)

    def step(waves: Waves) -> None:
        where, inside = addresses(waves)
        usable = usable_lanes(waves, inside)
        parts = flat_parts(where, usable) if flat else None
        if parts is None:
            rows = run(waves, where, usable, "global")
        else:
            rows = np.bitwise_or.reduce(
                [run(waves, places, lanes, name) for name, places, lanes in parts]
            )
        if returns:
            deliver(waves, context, target, rows, None)
        else:
            issue(waves, context)

    return step


# ---------------------------------------------------------------------- LDS

_LOCAL: Final = re.compile(
    r"ds_(?P<name>pk_add|cmpst|cmpstore|wrxchg|storexchg|add|sub|rsub|min|max|min_num|max_num|and|or"
    r"|xor|inc|dec|mskor|wrap|cond_sub|sub_clamp)(?P<two>2|_2addr)?(?P<stride>st64|_stride64)?"
    r"(?P<rtn>_rtn)?_(?P<kind>f16|bf16|f32|f64|u32|u64|i32|i64|b32|b64)"
)


@builds_matching(_LOCAL.pattern)
def local_atomic(decoded: Decoded, context: Context) -> Step:
    """`ds_add_rtn_u32 v0, v1, v2 offset:4`, `ds_wrxchg2_rtn_b32 v[0:1], v2, v3, v4 offset1:1`."""
    match = _LOCAL.fullmatch(decoded.name)
    if match is None or decoded.flag("gds"):
        raise NotCoveredError(decoded.text)
    kind, name = match["kind"], match["name"]
    wide = kind.endswith("64")
    size = 8 if wide else 4
    known = {"wrxchg": "swap", "storexchg": "swap", "cmpst": "cmpswap", "cmpstore": "cmpswap"}
    if match["two"] and known.get(name) != "swap":
        raise NotCoveredError(decoded.text)
    operation = operation_of(known.get(name, name), kind, context.target, wide=wide, in_lds=True)
    operands = list(decoded.operands)
    target: Operand | None = operands.pop(0) if match["rtn"] else None
    address, *data = operands
    if name == "cmpst":  # up to gfx10 the compared value comes first (CDNA3 ISA, DS_CMPST_B32)
        data.reverse()
    offsets = (
        pair_offsets(decoded, size, stride=bool(match["stride"]))
        if match["two"]
        else single_offset(decoded)
    )

    def step(waves: Waves) -> None:
        results = []
        for number, offset in enumerate(offsets):
            sources = data[number : number + 1] if match["two"] else data
            inner = waves.u32[address.first] + U32(offset)
            where, inside = lds_places(waves, context, inner, size)
            usable = usable_lanes(waves, inside)
            lanes = lanes_of(usable)
            values = [_operand(waves, x.first, size, lanes, operation) for x in sources]
            met = in_lds(waves, context, where, usable, values, operation, lanes)
            results.append(spread(waves, met, lanes))
        if target is None:
            issue(waves, context)
        else:
            deliver(waves, context, target, np.concatenate(results), None)

    return step


@builds("ds_append", "ds_consume")
def count_lanes(decoded: Decoded, context: Context) -> Step:
    """One counter for the wave, at M0 + offset: the number of active lanes is added or taken off.

    All active lanes get the old value (RDNA3 ISA, DS_APPEND; that M0 holds the base: LLVM,
    SelectDSAppendConsume).
    """
    if decoded.flag("gds"):
        raise NotCoveredError(decoded.text)
    target = decoded.operands[0]
    offset = U32(decoded.number("offset"))
    compute = np.add if decoded.name == "ds_append" else np.subtract
    operation = Operation(U32, compute, np.add if compute is np.add else None)

    def step(waves: Waves) -> None:
        inner = (waves.scalar[M0] + offset)[:, None]
        where, inside = lds_places(waves, context, inner, 4)
        counts = waves.active.sum(1).astype(U32)
        present = counts > 0 if inside is None else (counts > 0) & inside[:, 0]
        lanes = np.flatnonzero(present)
        met = np.zeros(waves.count, U32)
        first_lane = np.zeros((waves.count, waves.lanes), bool)
        first_lane[:, 0] = present
        met[lanes] = in_lds(
            waves, context, np.broadcast_to(where, first_lane.shape), first_lane, [counts[lanes]],
            operation, np.flatnonzero(first_lane),
        )  # fmt: skip
        rows = np.broadcast_to(met[:, None], first_lane.shape)[None]
        deliver(waves, context, target, rows.copy(), None)

    return step


__all__ = ["apply", "global_atomic", "local_atomic"]
