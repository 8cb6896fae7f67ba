"""Moves whose registers M0 chooses, vector and scalar.

Source: CDNA3 ISA, 12.1 to 12.5, and RDNA3 ISA, 16.1 to 16.5 (scalar); RDNA3 ISA, 16.8 (vector).
"""

from __future__ import annotations

import numpy as np

from ...isa.dataflow.operands import M0, VCC, Decoded, Operand
from ..registry import BuildContext, NotCoveredError, Step, builds, builds_as
from ..vector_operands import raw
from ..waves import U32, Array, Waves
from .scalar_operands import scalar_source

U64 = np.uint64
I64 = np.int64


def _shifts(waves: Waves, halves: bool) -> tuple[Array, Array]:
    """What M0 adds to the numbers of source and destination: each half ten bits, or all of it."""
    m0 = waves.scalar[M0]
    return (m0 & U32(0x3FF), m0 >> U32(16) & U32(0x3FF)) if halves else (m0, m0)


def _vector_rows(waves: Waves, operand: Operand, shift: Array) -> Array:
    """Each wave's register, int64 [wave]."""
    rows = operand.first + shift.astype(I64)
    if (rows >= len(waves.u32)).any():
        raise NotCoveredError(f"{operand.text} and M0: past the registers that the code names")
    return rows


def _read_rows(waves: Waves, rows: Array) -> Array:
    """Each wave's own register, uint32 [wave, lane]."""
    return waves.u32[rows, np.arange(waves.count)]


def _write_rows(waves: Waves, rows: Array, value: Array) -> None:
    """Writes each wave's own register, in its active lanes."""
    old = _read_rows(waves, rows)
    waves.u32[rows, np.arange(waves.count)] = old ^ ((old ^ value) & waves.bits)


def _vector_relative(
    decoded: Decoded,
    context: BuildContext,
    *,
    source: bool,
    destination: bool,
    halves: bool = False,
) -> Step:
    """V_MOVRELS, V_MOVRELD, V_MOVRELSD: M0 is added to the numbers of registers."""
    to, value = decoded.operands
    plain = raw(value)
    if source and value.kind != "vgpr":
        raise NotCoveredError(decoded.text)

    def step(waves: Waves) -> None:
        low, high = _shifts(waves, halves)
        moved = _read_rows(waves, _vector_rows(waves, value, low)) if source else plain(waves)
        if destination:
            _write_rows(waves, _vector_rows(waves, to, high), moved)
        else:
            waves.write(to.first, moved)

    return step


builds_as("v_movrels_b32", _vector_relative, source=True, destination=False)
builds_as("v_movreld_b32", _vector_relative, source=False, destination=True)
builds_as("v_movrelsd_b32", _vector_relative, source=True, destination=True)
builds_as("v_movrelsd_2_b32", _vector_relative, source=True, destination=True, halves=True)


@builds("v_swaprel_b32")
def swap_relative(decoded: Decoded, context: BuildContext) -> Step:
    """Two registers that M0 shifts change places."""
    first, second = decoded.operands

    def step(waves: Waves) -> None:
        low, high = _shifts(waves, halves=True)
        second_rows, first_rows = _vector_rows(waves, second, low), _vector_rows(waves, first, high)
        second_value, first_value = _read_rows(waves, second_rows), _read_rows(waves, first_rows)
        _write_rows(waves, first_rows, second_value)
        _write_rows(waves, second_rows, first_value)

    return step


def _scalar_rows(waves: Waves, first: int, steps: Array, count: int) -> Array:
    """Each wave's scalar register, int64 [wave]; `steps`: how far from `first`."""
    rows = np.int64(first) + steps.astype(I64)
    if ((rows < 0) | (rows + count > VCC + 2)).any():
        raise NotCoveredError(f"M0 leads from s{first} past the scalar registers")
    return rows


def _scalar_relative(
    decoded: Decoded,
    context: BuildContext,
    words: int,
    *,
    source: bool,
    destination: bool,
    halves: bool = False,
) -> Step:
    """S_MOVRELS, S_MOVRELD, S_MOVRELSD_2: M0 is added to a register's number."""
    to, value = decoded.operands
    plain = scalar_source(value, "u32") if words == 1 else scalar_source(value, "u64")

    def step(waves: Waves) -> None:
        low, high = _shifts(waves, halves)
        numbers = np.arange(waves.count)
        if source:
            rows = _scalar_rows(waves, value.first, low, words)
            parts = [waves.scalar[rows + word, numbers] for word in range(words)]
        else:
            moved = np.broadcast_to(plain(waves), (waves.count,)).astype(U64)
            parts = [(moved >> U64(32 * word)).astype(U32) for word in range(words)]
        rows = _scalar_rows(waves, to.first, high if destination else np.zeros_like(high), words)
        for word, part in enumerate(parts):
            waves.scalar[rows + word, numbers] = part

    return step


for _count, _suffix in ((1, "b32"), (2, "b64")):
    builds_as(f"s_movrels_{_suffix}", _scalar_relative, _count, source=True, destination=False)
    builds_as(f"s_movreld_{_suffix}", _scalar_relative, _count, source=False, destination=True)
builds_as("s_movrelsd_2_b32", _scalar_relative, 1, source=True, destination=True, halves=True)
