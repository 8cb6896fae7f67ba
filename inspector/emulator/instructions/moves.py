"""Moves whose registers M0 or selectors choose (RDNA3 ISA, 16.8)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..operands import M0, Decoded, Operand
from ..registry import Builder, Context, NotCoveredError, Step, builds
from ..vector_operands import Read, raw
from ..waves import U32, Array, Waves
from .control import nothing
from .scaled import fields, registers


def _rows(waves: Waves, operand: Operand, shift: Array) -> Array:
    """Each wave's register, int64 [wave]."""
    rows = operand.first + shift.astype(np.int64)
    if (rows >= len(waves.u32)).any():
        raise NotCoveredError(f"{operand.text} and M0: past the registers that the code names")
    return rows


def _read(waves: Waves, rows: Array) -> Array:
    return waves.u32[rows, np.arange(waves.count)]


def _write(waves: Waves, rows: Array, value: Array) -> None:
    """Writes each wave's own register, in its active lanes."""
    old = _read(waves, rows)
    waves.u32[rows, np.arange(waves.count)] = old ^ ((old ^ value) & waves.bits)


def _relative(*, source: bool, destination: bool, halves: bool = False) -> Builder:
    """V_MOVRELS, V_MOVRELD, V_MOVRELSD: M0 is added to the numbers of registers.

    With `halves` bits 9:0 of M0 belong to the source, bits 25:16 to the destination.
    """

    def build(decoded: Decoded, context: Context) -> Step:
        to, value = decoded.operands
        plain = raw(value)
        if source and value.kind != "vgpr":
            raise NotCoveredError(decoded.text)

        def step(waves: Waves) -> None:
            shift = waves.scalar[M0]
            low, high = (
                (shift & U32(1023), shift >> U32(16) & U32(1023)) if halves else (shift,) * 2
            )
            moved = _read(waves, _rows(waves, value, low)) if source else plain(waves)
            if destination:
                _write(waves, _rows(waves, to, high), moved)
            else:
                waves.write(to.first, moved)

        return step

    return build


builds("v_movrels_b32")(_relative(source=True, destination=False))
builds("v_movreld_b32")(_relative(source=False, destination=True))
builds("v_movrelsd_b32")(_relative(source=True, destination=True))
builds("v_movrelsd_2_b32")(_relative(source=True, destination=True, halves=True))


@builds("v_swaprel_b32")
def swap_relative(decoded: Decoded, context: Context) -> Step:
    """Two registers that M0 shifts change places."""
    first, second = decoded.operands

    def step(waves: Waves) -> None:
        shift = waves.scalar[M0]
        second_rows = _rows(waves, second, shift & U32(1023))
        first_rows = _rows(waves, first, shift >> U32(16) & U32(1023))
        second_value, first_value = _read(waves, second_rows), _read(waves, first_rows)
        _write(waves, first_rows, second_value)
        _write(waves, second_rows, first_value)

    return step


builds("v_clrexcp", "v_pipeflush")(lambda decoded, context: nothing)


def _all_words(operand: Operand, count: int) -> Callable[[Waves], Array]:
    """An operand's registers as uint32 [register, wave, lane]."""
    reads: list[Read] = [raw(operand, row) for row in range(count)]
    return lambda waves: np.stack(
        [np.broadcast_to(read(waves), (waves.count, waves.lanes)) for read in reads]
    )


def _look_up(bits: int) -> Builder:
    """V_PERM_PK16: each of 16 selectors of four bits (S2) picks a field of S0:S1.

    S0 stands above S1, as in V_PERM_B32 (AMD's CDNA5 tests of rocm-systems).
    """
    above = {4: 1, 6: 1, 8: 2}[bits]
    below = {4: 1, 6: 2, 8: 2}[bits]

    def build(decoded: Decoded, context: Context) -> Step:
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

    return build


for _bits in (4, 6, 8):
    builds(f"v_perm_pk16_b{_bits}_u4")(_look_up(_bits))
