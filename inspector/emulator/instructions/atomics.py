"""Atomic operations on global memory and on LDS.

Lanes of one instruction that meet at one address take turns in lane order. Source: CDNA3 ISA, 12.13
to 12.16 (DS, MUBUF, FLAT opcodes); RDNA3 ISA, 16.15 to 16.18.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np

from .. import numbers
from ..access import NotCoveredError
from ..delivery import deliver, issue
from ..operands import Decoded, Operand
from ..registry import Context, Step, builds_matching
from ..waves import F32, I32, U32, Array, Waves
from .global_memory import Addresses, buffer_addresses, flat_addresses
from .lds import places

U64 = np.uint64

Update = Callable[[Array, Array], Array]
"""Memory's value and the operand -> what is written; uint32 or uint64 arrays."""


def _as(dtype: type, compute: Callable[[Array, Array], Array]) -> Update:
    def update(old: Array, operand: Array) -> Array:
        result = compute(old.view(dtype), operand.view(dtype))
        return np.asarray(result).astype(dtype).view(old.dtype)

    return update


def _increment(old: Array, limit: Array) -> Array:
    return np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))


def _decrement(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


def _packed(kind: str) -> Update:
    take, give = (
        (numbers.from_f16, numbers.to_f16)
        if kind == "f16"
        else (numbers.from_bf16, numbers.to_bf16)
    )

    def update(old: Array, operand: Array) -> Array:
        one = np.ascontiguousarray(old).view(np.uint16)
        other = np.ascontiguousarray(operand).view(np.uint16)
        return give(take(one) + take(other)).view(U32)

    return update


_INTEGER: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "swap": lambda old, x: x, "add": np.add, "sub": np.subtract,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "inc": _increment, "dec": _decrement,
}  # fmt: skip
_ORDER: Final = {"min": np.minimum, "max": np.maximum}


def update_of(name: str, kind: str, wide: bool) -> Update | None:
    """What an operation does; None for compare-and-swap.

    Args:
        name: `add`, `smin`, `pk_add`, ….
        kind: type that the mnemonic names (`f32`, `u64`), empty for none.
        wide: whether it works on 64 bits.
    """
    signed, unsigned = (np.int64, U64) if wide else (I32, U32)
    if name in ("cmpswap", "cmpst", "cmpstore"):
        return None
    if name == "pk_add":
        return _packed("bf16" if kind == "bf16" else "f16")
    if name == "swap":
        return _as(unsigned, _INTEGER["swap"])
    bare = name.removeprefix("r")
    for word in ("min", "max"):
        if name in (word, f"{word}_num", f"f{word}") and kind.startswith("f"):
            compute = np.fmin if word == "min" else np.fmax
            return _as(np.float64 if wide else F32, compute)
        if name in (f"s{word}", f"u{word}", word):
            by_sign = signed if name[0] == "s" or kind.startswith("i") else unsigned
            return _as(by_sign, _ORDER[word])
    if name == "add" and kind.startswith("f"):
        return _as(np.float64 if wide else F32, np.add)
    if bare == "sub" and name != "sub":
        return _as(unsigned, lambda old, x: x - old)
    if name in _INTEGER:
        return _as(unsigned, _INTEGER[name])
    return None


def apply(
    read: Callable[[Array], Array],
    write: Callable[[Array, Array], None],
    where: Array,
    operands: Array,
    update: Callable[[Array, Array], Array],
) -> Array:
    """Carries an atomic operation out, turn by turn where places coincide.

    Args:
        read: values at places.
        write: sets them.
        where: each lane's place [lane].
        operands: each lane's operand [lane], or [2, lane] for compare-and-swap.
        update: from old values and operands to new ones.

    Returns:
        What each lane met.
    """
    order = np.argsort(where, kind="stable")
    sorted_places = where[order]
    starts = np.concatenate(([True], sorted_places[1:] != sorted_places[:-1]))
    group_start = np.maximum.accumulate(np.where(starts, np.arange(len(where)), 0))
    turn = np.empty(len(where), np.int64)
    turn[order] = np.arange(len(where)) - group_start
    met: Array | None = None
    for number in range(int(turn.max()) + 1 if len(where) else 0):
        lanes = np.flatnonzero(turn == number)
        old = read(where[lanes])
        if met is None:
            met = np.zeros(len(where), old.dtype)
        met[lanes] = old
        write(where[lanes], update(old, operands[..., lanes]))
    return met if met is not None else np.zeros(len(where), U32)


def exchanged_if_equal(old: Array, operands: Array) -> Array:
    """Compare-and-swap: operands[0] is written where memory equals operands[1]."""
    return np.where(old == operands[1], operands[0], old)


_GLOBAL: Final = re.compile(
    r"(global|flat|buffer)_atomic_(?P<name>pk_add|cmpswap|swap|add|sub|r?sub|[su]?min|[su]?max|fmin"
    r"|fmax|min_num|max_num|and|or|xor|inc|dec|csub|sub_clamp|cond_sub)"
    r"(?P<rtn>_rtn)?(?P<no>_noret)?(_(?P<kind>f16|bf16|f32|f64|u32|u64|i32|i64|b32|b64))?(?P<x2>_x2)?"
)


@builds_matching(r"(global|flat|buffer)_atomic_\w+")
def global_atomic(decoded: Decoded, context: Context) -> Step:
    """`global_atomic_add v0, v[1:2], v3, off sc0`; sc0, glc and TH_ATOMIC_RETURN make it return."""
    match = _GLOBAL.fullmatch(decoded.name)
    if match is None:
        raise NotCoveredError(decoded.text)
    kind = match["kind"] or ""
    wide = bool(match["x2"]) or kind.endswith("64")
    update = update_of(match["name"], kind, wide)
    compares = match["name"] == "cmpswap"
    if update is None and not compares:
        raise NotCoveredError(decoded.text)
    through_buffer = decoded.name.startswith("buffer")
    cdna = context.target.is_cdna3
    returns = (
        ("sc0" in decoded.modifiers if cdna else "glc" in decoded.modifiers)
        or "ATOMIC_RETURN" in decoded.modifiers.get("th", "")
        or "sc0" in decoded.modifiers
    )
    operands = decoded.operands
    size = 8 if wide else 4
    addresses: Addresses
    if through_buffer:
        data = operands[0]
        target = data
        addresses = buffer_addresses(decoded, context, operands[1:], size)
    elif returns:
        target, lane, data, *base = operands
        addresses = flat_addresses(decoded, lane, tuple(base))
    else:
        lane, data, *base = operands
        target = data
        addresses = flat_addresses(decoded, lane, tuple(base))
    change = exchanged_if_equal if compares else update
    assert change is not None

    def step(waves: Waves) -> None:
        where, inside = addresses(waves)
        usable = waves.active if inside is None else waves.active & inside
        machine = waves.machine
        machine.touched(context.index, waves, where, usable, size)
        outside = machine.outside(context.index)
        values = _operands(waves, data, usable, size, compares=compares)

        def read(places: Array) -> Array:
            return _joined(machine.memory.read(places, size, outside))

        def write(places: Array, new: Array) -> None:
            machine.memory.write(places, _apart(new), size, outside)

        met = apply(read, write, where[usable], values, change)
        _finish(waves, context, target if returns else None, met, usable, size)

    return step


_LOCAL: Final = re.compile(
    r"ds_(?P<name>pk_add|cmpst|cmpstore|wrxchg|storexchg|add|sub|rsub|min|max|min_num|max_num|and|or"
    r"|xor|inc|dec)(?P<rtn>_rtn)?_(?P<kind>f16|bf16|f32|f64|u32|u64|i32|i64|b32|b64)"
)


@builds_matching(
    r"ds_(pk_add|cmpst|cmpstore|wrxchg|storexchg|add|sub|rsub|min|max|min_num|max_num|and|or|xor|inc"
    r"|dec)(_rtn)?_(bf16|[fiub]\d+)"
)
def local_atomic(decoded: Decoded, context: Context) -> Step:
    """`ds_add_rtn_u32 v0, v1, v2 offset:4`."""
    match = _LOCAL.fullmatch(decoded.name)
    if match is None:
        raise NotCoveredError(decoded.text)
    kind, name = match["kind"], match["name"]
    wide = kind.endswith("64")
    size = 8 if wide else 4
    compares = name in ("cmpst", "cmpstore")
    exchanges = name in ("wrxchg", "storexchg")
    update = update_of("swap" if exchanges else name, kind, wide)
    if update is None and not compares:
        raise NotCoveredError(decoded.text)
    operands = list(decoded.operands)
    target: Operand | None = operands.pop(0) if match["rtn"] else None
    address, *data = operands
    if name == "cmpst":  # up to gfx10 the compared value comes first (CDNA3 ISA, DS_CMPST_B32)
        data.reverse()
    offset = decoded.number("offset")
    change = exchanged_if_equal if compares else update
    assert change is not None

    def step(waves: Waves) -> None:
        where, inside = places(waves, context, waves.u32[address.first], offset, size)
        usable = waves.active if inside is None else waves.active & inside
        machine = waves.machine
        parts = [_operands(waves, source, usable, size, compares=False) for source in data]
        values = np.stack(parts) if compares else parts[0]
        words = machine.local.words
        met = apply(
            lambda at: _joined(words.gather(at, size)),
            lambda at, new: words.scatter(at, _apart(new), size),
            where[usable],
            values,
            change,
        )
        _finish(waves, context, target, met, usable, size)

    return step


def _operands(waves: Waves, data: Operand, usable: Array, size: int, *, compares: bool) -> Array:
    """The lanes' operands, [lane]; for compare-and-swap [2, lane]: new value, compared value."""
    count = size // 4
    first = _joined(waves.u32[data.first : data.first + count][:, usable])
    if not compares:
        return first
    second = _joined(waves.u32[data.first + count : data.first + 2 * count][:, usable])
    return np.stack([first, second])


def _joined(words: Array) -> Array:
    """[dword, lane] -> uint32 or uint64 [lane]."""
    if len(words) == 1:
        return np.asarray(words[0])
    return words[0].astype(U64) | (words[1].astype(U64) << U64(32))


def _apart(values: Array) -> Array:
    """The reverse of `_joined`."""
    if values.dtype.itemsize == 4:
        return values.view(U32)[None]
    wide = values.view(U64)
    return np.stack([wide.astype(U32), (wide >> U64(32)).astype(U32)])


def _finish(
    waves: Waves, context: Context, target: Operand | None, met: Array, usable: Array, size: int
) -> None:
    if target is None:
        issue(waves, context)
        return
    words = _apart(met)
    rows = np.zeros((size // 4, waves.count, waves.lanes), U32)
    rows[:, usable] = words
    deliver(waves, context, target, rows, None)
