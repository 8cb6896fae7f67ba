"""Operands of vector instructions as typed readers and writers, with all modifiers.

A kind names the type of a compute function's arguments and results. Floats of 16 bits (`f16`,
`bf16`) are computed in float32 and rounded once when they are written; a kind of 64 bits takes two
registers.

| kind | array that a compute function sees |
|---|---|
| u8, i8 | (sources by byte select only) |
| u16, i16 | uint16, int16 |
| f16, bf16 | float32 |
| u32, i32, f32 | uint32, int32, float32 |
| u64, i64, f64 | uint64, int64, float64 |

All have a shape that broadcasts to [wave, lane].
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..isa.dataflow.execution_target import ExecutionTarget
from ..isa.dataflow.operands import Decoded, Operand, constant_bits
from . import crosslane, numbers
from .registry import NotCoveredError
from .waves import ALL, F32, I32, U32, Array, Waves, paired

Read = Callable[[Waves], Array]
"""Values of all lanes, [wave, lane] or what broadcasts to it."""
Write = Callable[[Waves, Array], None]
"""Puts values of that shape into the active lanes of a register."""

DTYPES: Final[dict[str, Any]] = {
    "u8": np.uint8, "i8": np.int8, "u16": np.uint16, "i16": np.int16,
    "u32": U32, "i32": I32, "f32": F32,
    "u64": np.uint64, "i64": np.int64, "f64": np.float64,
}  # fmt: skip
FLOATS: Final = frozenset({"f16", "bf16", "f32", "f64"})
WIDE: Final = frozenset({"u64", "i64", "f64"})


def check_count(operand: Operand, count: int) -> None:
    """Raises NotCoveredError for an operand in another number of registers than `count`."""
    if operand.count != count and operand.kind in ("vgpr", "sgpr") and not operand.is_null:
        raise NotCoveredError(f"{operand.text} where {count} registers belong")


def mask_row(operand: Operand, target: ExecutionTarget) -> int:
    """The first row of a lane mask."""
    check_count(operand, target.lanes // 32)
    return operand.first


def raw(operand: Operand, row: int = 0) -> Read:
    """32 bits of an operand's register `row`, uint32 [wave, lane] or [wave, 1]."""
    if row >= operand.count and operand.kind in ("vgpr", "sgpr"):
        raise NotCoveredError(f"{operand.text}: too few registers")
    if operand.kind == "vgpr":
        register = operand.first + row
        return lambda waves: waves.u32[register]
    if operand.kind == "sgpr":
        if operand.is_null:
            return lambda waves: U32(0)
        register = operand.first + row
        return lambda waves: waves.scalar[register, :, None]
    if operand.kind == "constant":
        bits = U32(constant_bits(operand, "u64" if row else "u32") >> (32 * row) & ALL)
        return lambda waves: bits
    if operand.name == "src_scc":
        return lambda waves: waves.scc[:, None].astype(U32)
    if operand.name == "src_vccz":
        return lambda waves: waves.vccz[:, None].astype(U32)
    if operand.name == "src_execz":
        return lambda waves: waves.execz[:, None].astype(U32)
    raise NotCoveredError(f"source {operand.text}")


def source(
    operand: Operand,
    kind: str,
    *,
    half: int = 0,
    negate: bool = False,
    absolute: bool = False,
    before: Callable[[Waves, Array], Array] | None = None,
) -> Read:
    """Returns a reader of one source, as values of a kind.

    `operand`: register, constant or special source; its own `neg` and `abs` are applied too.
    `half`: which half of the register, for 16-bit kinds. `negate`: a sign that stands elsewhere
    (neg_lo). `absolute`: whether to take the absolute value, whatever the operand says. `before`:
    changes the register's 32 bits before they are read as `kind` (DPP, SDWA).
    """
    check_count(operand, 2 if kind in WIDE else 1)
    if operand.half is not None:
        half = operand.half
    read = _typed(operand, kind, half, before)
    # A kind that stands for plain bits (v_cndmask_b16) has its sign in the highest one.
    sign = _SIGNS.get(kind)
    if operand.absolute or absolute:
        read = then_apply(read, np.abs if sign is None else lambda value: value & ~sign)
    if operand.negate != negate:
        read = then_apply(read, np.negative if sign is None else lambda value: value ^ sign)
    return read


_SIGNS: Final[dict[str, Any]] = {"u16": np.uint16(1 << 15), "u32": U32(1 << 31)}


def then_apply(read: Read, change: Callable[[Array], Array]) -> Read:
    """Returns a reader of `read`'s values with `change` applied to them."""
    return lambda waves: change(read(waves))


def _typed(
    operand: Operand, kind: str, half: int, before: Callable[[Waves, Array], Array] | None
) -> Read:
    """Returns a typed source without signs: its bits, changed by `before`, as values of `kind`."""
    if operand.kind == "constant" and before is None:
        return _constant(operand, kind)
    if kind in WIDE:
        dtype = DTYPES[kind]
        if operand.is_null:
            zero = dtype(0)
            return lambda waves: zero
        low, high = (_changed(raw(operand, row), before) for row in (0, 1))
        return lambda waves: paired(low(waves), high(waves)).view(dtype)
    register = operand.first
    if before is None and operand.kind == "vgpr":
        if kind == "f32":
            return lambda waves: waves.f32[register]
        if kind == "i32":
            return lambda waves: waves.i32[register]
        if kind == "u32":
            return lambda waves: waves.u32[register]
    return _reinterpreted(_changed(raw(operand), before), kind, half)


def _changed(bits: Read, before: Callable[[Waves, Array], Array] | None) -> Read:
    """Returns a reader of 32-bit words with DPP's or SDWA's change applied, where there is one."""
    return bits if before is None else lambda waves: before(waves, bits(waves))


def _reinterpreted(bits: Read, kind: str, half: int) -> Read:
    """Returns a reader of 32-bit words as values of `kind`; a 16-bit kind takes one half."""
    if kind in numbers.HALVES:
        shift = U32(16 * half)
        if kind == "f16":
            return lambda waves: numbers.from_f16((bits(waves) >> shift).astype(np.uint16))
        if kind == "bf16":
            if half:
                return lambda waves: (bits(waves) & U32(0xFFFF0000)).view(F32)
            return lambda waves: (bits(waves) << U32(16)).view(F32)
        dtype = DTYPES[kind]
        return lambda waves: (bits(waves) >> shift).astype(np.uint16).view(dtype)
    dtype = DTYPES[kind]
    return lambda waves: bits(waves).view(dtype)


def _constant(operand: Operand, kind: str) -> Read:
    """Returns a reader of a constant: a scalar of the kind's type, the same for all lanes."""
    value = _value(operand, kind)
    return lambda waves: value


@functools.lru_cache(maxsize=1 << 12)
def _value(operand: Operand, kind: str) -> Any:
    """A constant as a scalar of a kind's type."""
    value: Any
    if kind == "f16":
        value = numbers.from_f16(np.uint16(constant_bits(operand, kind)))
    elif kind == "bf16":
        value = np.uint32(constant_bits(operand, kind) << 16).view(F32)
    else:
        dtype = DTYPES[kind]
        bits = constant_bits(operand, kind)
        value = np.dtype(dtype).type(0)
        value = np.array([bits], np.uint64).astype(f"u{np.dtype(dtype).itemsize}").view(dtype)[0]
    return value


def destination(
    operand: Operand,
    kind: str,
    target: ExecutionTarget,
    *,
    half: int = 0,
    keep_half: bool = False,
    lanes: Read | None = None,
) -> Write:
    """Returns the write of a kind's values to a register, in the active lanes.

    `target`: decides whether a 16-bit result clears the register's other half. `keep_half`: the
    other half stays whatever the target does. `lanes`: gives uint32 [wave, lane], all ones where
    the result is written (DPP); None: to all active lanes.
    """
    if operand.kind != "vgpr":
        raise NotCoveredError(f"destination {operand.text}")
    check_count(operand, 2 if kind in WIDE else 1)
    row = operand.first
    if operand.half is not None:
        half, keep_half = operand.half, True
    if kind in WIDE:
        if lanes is not None:
            chosen = lanes
            return lambda waves, value: _write_pair_where(waves, row, value, chosen(waves))
        return lambda waves, value: waves.write_pair(row, value)
    if kind in numbers.HALVES:
        # Up to gfx9 a 16-bit operation clears bits 16 to 31, from gfx10 on it keeps them
        # (LLVM, GCNSubtarget::zeroesHigh16BitsOfDest).
        keep = keep_half or half or target.generation >= 10
        return _half_destination(row, kind, half, target, keep=bool(keep), lanes=lanes)
    if lanes is not None:
        picked = lanes
        return lambda waves, value: waves.write_where(
            row, np.broadcast_to(value, (waves.count, waves.lanes)), picked(waves)
        )
    return lambda waves, value: waves.write(row, value)


def _write_pair_where(waves: Waves, row: int, value: Array, bits: Array) -> None:
    """Writes float64 or 64-bit integers, [wave, lane], in the lanes whose `bits` are all ones."""
    wide = np.broadcast_to(value, (waves.count, waves.lanes)).view(np.uint64)
    halves = np.ascontiguousarray(wide).view(U32)
    waves.write_where(row, halves[:, ::2], bits)
    waves.write_where(row + 1, halves[:, 1::2], bits)


def _half_destination(
    row: int, kind: str, half: int, target: ExecutionTarget, *, keep: bool, lanes: Read | None
) -> Write:
    """Returns a 16-bit destination: half `half` of register `row`."""
    shift, mask = U32(16 * half), U32(0xFFFF << (16 * half))
    saturates = target.saturates16

    def write(waves: Waves, value: Array) -> None:
        bits = numbers.half_bits(value, kind, saturates=saturates) << shift
        if keep:
            bits = bits | (waves.u32[row] & ~mask)
        if lanes is None:
            waves.write(row, bits)
        else:
            waves.write_where(row, bits, lanes(waves))

    return write


def result_destination(
    decoded: Decoded, kind: str, target: ExecutionTarget, *, half: int = 0, keep_half: bool = False
) -> Write:
    """Returns the write to an instruction's first operand, with SDWA's selection or DPP's lanes."""
    if decoded.encoding == "sdwa":
        check_count(decoded.operands[0], 1)
        return crosslane.byte_destination(decoded, kind)
    lanes = crosslane.written(decoded, target)
    return destination(
        decoded.operands[0], kind, target, half=half, keep_half=keep_half, lanes=lanes
    )
