"""Moves whose registers M0 or selectors choose, vector and scalar.

Source: CDNA3 ISA, 12.1 to 12.5, and RDNA3 ISA, 16.1 to 16.5 (scalar); RDNA3 ISA, 16.8 (vector).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...isa.dataflow.operands import M0, VCC, Decoded, Operand
from ..registry import BuildContext, NotCoveredError, Step, builds, builds_as
from ..vector_operands import Read, raw
from ..waves import U32, Array, Waves
from .control import nothing
from .convert_scaled import fields, registers
from .scalar_operands import scalar_source

U64 = np.uint64
I64 = np.int64


def _vector_rows(waves: Waves, operand: Operand, shift: Array) -> Array:
    """Each wave's register, int64 [wave]."""
    rows = operand.first + shift.astype(np.int64)
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
        shift = waves.scalar[M0]
        low, high = (shift & U32(1023), shift >> U32(16) & U32(1023)) if halves else (shift,) * 2
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
        shift = waves.scalar[M0]
        second_rows = _vector_rows(waves, second, shift & U32(1023))
        first_rows = _vector_rows(waves, first, shift >> U32(16) & U32(1023))
        second_value, first_value = _read_rows(waves, second_rows), _read_rows(waves, first_rows)
        _write_rows(waves, first_rows, second_value)
        _write_rows(waves, second_rows, first_value)

    return step


builds("v_clrexcp", "v_pipeflush")(lambda decoded, context: nothing)


def _scalar_rows(waves: Waves, first: int, steps: Array, count: int) -> Array:
    """Scalar rows that M0 counts from a register on, int64 [wave]."""
    rows = np.int64(first) + steps.astype(I64)
    if ((rows < 0) | (rows + count > VCC + 2)).any():
        raise NotCoveredError(f"M0 leads from s{first} past the scalar registers")
    return rows


def _scalar_relative(
    decoded: Decoded, context: BuildContext, words: int, *, reads: bool, writes: bool, split: bool
) -> Step:
    """S_MOVRELS, S_MOVRELD, S_MOVRELSD_2: M0 is added to a register's number."""
    target, origin = decoded.operands
    read = scalar_source(origin, "u32") if words == 1 else scalar_source(origin, "u64")

    def step(waves: Waves) -> None:
        m0 = waves.scalar[M0]
        numbers = np.arange(waves.count)
        if reads:
            steps = m0 & U32(0x3FF) if split else m0
            rows = _scalar_rows(waves, origin.first, steps, words)
            parts = [waves.scalar[rows + word, numbers] for word in range(words)]
        else:
            value = np.broadcast_to(read(waves), (waves.count,)).astype(U64)
            parts = [(value >> U64(32 * word)).astype(U32) for word in range(words)]
        steps = np.zeros(waves.count, U32)
        if writes:
            steps = m0 >> U32(16) & U32(0x3FF) if split else m0
        rows = _scalar_rows(waves, target.first, steps, words)
        for word, part in enumerate(parts):
            waves.scalar[rows + word, numbers] = part

    return step


for _count, _suffix in ((1, "b32"), (2, "b64")):
    builds_as(
        f"s_movrels_{_suffix}", _scalar_relative, _count, reads=True, writes=False, split=False
    )
    builds_as(
        f"s_movreld_{_suffix}", _scalar_relative, _count, reads=False, writes=True, split=False
    )
builds_as("s_movrelsd_2_b32", _scalar_relative, 1, reads=True, writes=True, split=True)


def _all_words(operand: Operand, count: int) -> Callable[[Waves], Array]:
    """An operand's registers as uint32 [register, wave, lane]."""
    reads: list[Read] = [raw(operand, row) for row in range(count)]
    return lambda waves: np.stack(
        [np.broadcast_to(read(waves), (waves.count, waves.lanes)) for read in reads]
    )


def _look_up(decoded: Decoded, context: BuildContext, bits: int) -> Step:
    """V_PERM_PK16: each of 16 selectors of four bits (S2) picks a field of S0:S1.

    S0 stands above S1, as in V_PERM_B32 (AMD's CDNA5 tests of rocm-systems).
    """
    above = {4: 1, 6: 1, 8: 2}[bits]
    below = {4: 1, 6: 2, 8: 2}[bits]

    target, first, second, selectors = decoded.operands
    if decoded.modifiers:
        raise NotCoveredError(decoded.text)
    reads = (_all_words(second, below), _all_words(first, above))
    chosen = _all_words(selectors, 2)

    def step(waves: Waves) -> None:
        table = fields(np.concatenate([read(waves) for read in reads]), bits, 16)
        index = fields(chosen(waves), 4, 16).astype(np.int64)
        picked = np.take_along_axis(table, index, 0)
        for number, word in enumerate(registers(picked, bits)):
            waves.write(target.first + number, word)

    return step


for _bits in (4, 6, 8):
    builds_as(f"v_perm_pk16_b{_bits}_u4", _look_up, _bits)
