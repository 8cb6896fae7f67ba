"""Conversions with a scale, to and from 8, 6 and 4 bits: v_cvt_scalef32_*; look-ups of such fields.

The scale is the exponent of a float32: 2**(e - 127), a NaN for e = 255. Narrow values are
multiplied by it when they become wide, wide ones divided by it before they become narrow (CDNA4
ISA, 12.11; HIP's amd_hip_ocp_host.hpp). gfx1250 has the same with other numbers of elements.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from ...isa.dataflow.operands import Decoded, Operand, opsel
from ..numbers import SMALL, from_bf16, from_f16, to_bf16, to_f16, to_small
from ..registry import BuildContext, NotCoveredError, Step, builds_as, builds_matching
from ..vector_operands import Read, Write, check_count, raw, source
from ..waves import F32, U32, Array, Waves
from .convert import discarded_bits, part_of_register
from .integer import next_random

F64 = np.float64

_NAME: Final = re.compile(r"v_cvt_scalef32_(sr_)?(?:(2xpk16|pk\d*)_)?(\w+?)_(\w+)")
_WIDE: Final = ("f32", "f16", "bf16")
_BITS: Final = {"fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4, "f16": 16, "bf16": 16, "f32": 32}


def fields(words: Array, bits: int, count: int) -> Array:
    """Registers, uint32 [register, wave, lane] -> their fields, uint32 [field, wave, lane]."""
    offset = np.arange(count) * bits
    first, shift = offset // 32, (offset % 32).astype(U32)[:, None, None]
    padded = np.concatenate([words, words[-1:]])
    low = padded[first] >> shift
    # A shift by 32 is not defined: what comes from the next register is shifted in two steps.
    high = (padded[first + 1] << (U32(31) - shift)) << U32(1)
    return np.asarray((low | high) & U32((1 << bits) - 1))


def registers(codes: Array, bits: int) -> Array:
    """Packs fields into registers: uint32 [field, wave, lane] -> [register, wave, lane]."""
    count = -(-len(codes) * bits // 32)
    words = np.zeros((count, *codes.shape[1:]), U32)
    for index, code in enumerate(codes):
        word, shift = divmod(index * bits, 32)
        words[word] |= code << U32(shift)
        if shift + bits > 32:
            words[word + 1] |= code >> U32(32 - shift)
    return words


def _words(operand: Operand, count: int) -> Read:
    """The `count` registers of an operand, uint32 [register, wave, lane]."""
    check_count(operand, count)
    if operand.kind == "vgpr":
        rows = slice(operand.first, operand.first + operand.count)
        return lambda waves: waves.u32[rows]
    reads = [raw(operand, row) for row in range(count)]
    return lambda waves: np.stack(
        [np.broadcast_to(read(waves), (waves.count, waves.lanes)) for read in reads]
    )


def _registers_for(count: int, kind: str) -> int:
    """Registers that hold some elements."""
    return max(count * _BITS[kind] // 32, 1)


def _widened(words: Array, kind: str, count: int) -> Array:
    """Elements of f32, f16 or bf16 as float32 [element, wave, lane]."""
    if kind == "f32":
        return words.view(F32)
    halves = fields(words, 16, count).astype(np.uint16)
    return from_f16(halves) if kind == "f16" else from_bf16(halves)


def _powers(scale: Array) -> Array:
    """The scales as float64, exactly; NaN for the exponent 255."""
    exponent = ((scale >> U32(23)) & U32(255)).astype(np.int32)
    return np.where(exponent == 255, np.nan, np.ldexp(1.0, exponent - 127))


def _write_all(waves: Waves, row: int, words: Array) -> None:
    """Writes words [register, wave, lane] to registers from `row` on."""
    for index, word in enumerate(words):
        waves.write(row + index, word)


class _Conversion(Struct, frozen=True):
    """A conversion as its mnemonic states it.

    `stochastic`: whether a source is the noise for rounding. `interleaved`: whether two sources'
    elements take turns.
    """

    result: str
    kind: str
    count: int
    stochastic: bool
    interleaved: bool


@builds_matching(r"v_cvt_scalef32_\w+")
def convert(decoded: Decoded, context: BuildContext) -> Step:
    """A conversion in either direction, by the name."""
    match = _NAME.fullmatch(decoded.name)
    if match is None or not {match[3], match[4]} <= set(_BITS):
        raise NotCoveredError(decoded.text)
    stochastic, packing, result, kind = match.groups()
    count = 1 if packing is None else 32 if packing == "2xpk16" else int(packing[2:] or 2)
    form = _Conversion(result, kind, count, bool(stochastic), packing == "2xpk16")
    if result in _WIDE:
        return _widen(decoded, form)
    saturates = context.target.saturates16 or decoded.flag("clamp")
    return _narrow(decoded, form, saturates=saturates)


def _widen(decoded: Decoded, form: _Conversion) -> Step:
    """Returns the step of a conversion to f32, f16 or bf16, times the scale."""
    target, narrow, factor = decoded.operands
    check_count(target, _registers_for(form.count, form.result))
    words = _words(narrow, _registers_for(form.count, form.kind))
    scale = source(factor, "u32")
    result, count, table, bits = form.result, form.count, SMALL[form.kind], _BITS[form.kind]
    selected = opsel(decoded)
    # Fewer than 32 bits are a part of the register: bits 0 and 1 of OPSEL say which.
    shift = 0
    if count * bits == 8:
        shift = 8 * (selected[0] + 2 * selected[1])
    elif count * bits == 16:
        shift = 16 * selected[0]
    single = part_of_register(decoded, 16, selected[3]) if count == 1 else None

    def step(waves: Waves) -> None:
        codes = fields(words(waves) >> U32(shift), bits, count)
        values = table[codes].astype(F64) * _powers(np.asarray(scale(waves)))
        if result == "f32":
            _write_all(waves, target.first, values.astype(F32))
            return
        halves = (to_f16(values) if result == "f16" else to_bf16(values)).astype(U32)
        if single is not None:
            single(waves, halves[0])
        else:
            _write_all(waves, target.first, registers(halves, 16))

    return step


def _narrow(decoded: Decoded, form: _Conversion, *, saturates: bool) -> Step:
    """Returns the step of a conversion from f32, f16 or bf16, divided by the scale."""
    *sources, factor = decoded.operands[1:]
    scale = source(factor, "u32")
    noise = source(sources.pop(), "u32") if form.stochastic else None
    elements = _elements(sources, form, opsel(decoded)[0])
    write = _codes_destination(decoded, form)
    extra = discarded_bits(form.kind, form.result)

    def step(waves: Waves) -> None:
        scaled = elements(waves).astype(F64) / _powers(np.asarray(scale(waves)))
        random = None
        if noise is not None:
            seed = np.broadcast_to(noise(waves), (waves.count, waves.lanes))
            random = (_series(seed, form.count), extra)
        write(waves, to_small(scaled, form.result, saturates=saturates, noise=random))

    return step


def _elements(sources: Sequence[Operand], form: _Conversion, selected_half: int) -> Read:
    """Returns the reader of all elements to be narrowed, float32 [element, wave, lane]."""
    if len(sources) not in (1, 2) or form.count % len(sources):
        raise NotCoveredError(f"{len(sources)} sources of a conversion with a scale")
    each = form.count // len(sources)
    reads = [_words(operand, _registers_for(each, form.kind)) for operand in sources]
    shift = U32(16 * selected_half if form.count == 1 and form.kind != "f32" else 0)

    def elements(waves: Waves) -> Array:
        arrays = [_widened(read(waves) >> shift, form.kind, each) for read in reads]
        if form.interleaved:
            return np.stack(arrays, 1).reshape(form.count, waves.count, waves.lanes)
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    return elements


def _codes_destination(decoded: Decoded, form: _Conversion) -> Write:
    """Returns the write of codes, uint32 [element, wave, lane], to the result's registers."""
    row, bits, selected = decoded.operands[0].first, _BITS[form.result], opsel(decoded)
    width = form.count * bits
    check_count(decoded.operands[0], _registers_for(form.count, form.result))
    if width not in (8, 16):
        return lambda waves, codes: _write_all(waves, row, registers(codes, bits))
    part = selected[2] + 2 * selected[3] if width == 8 else selected[3]
    write = part_of_register(decoded, width, part)
    return lambda waves, codes: write(waves, registers(codes, bits)[0])


def _series(seed: Array, count: int) -> Array:
    """The noise of each element: V_PRNG_B32 makes the next from the last."""
    series = [seed]
    while len(series) < count:
        series.append(next_random(series[-1]))
    return np.stack(series)


def _look_up(decoded: Decoded, context: BuildContext, bits: int) -> Step:
    """V_PERM_PK16: each of 16 selectors of four bits (S2) picks a field of S0:S1.

    S0 stands above S1, as in V_PERM_B32 (AMD's CDNA5 tests of rocm-systems).
    """
    # Registers of S0 and S1 that 16 fields of these bits take together.
    above, below = {4: (1, 1), 6: (1, 2), 8: (2, 2)}[bits]
    target, first, second, selectors = decoded.operands
    if decoded.modifiers:
        raise NotCoveredError(decoded.text)
    reads = (_words(second, below), _words(first, above))
    chosen = _words(selectors, 2)

    def step(waves: Waves) -> None:
        table = fields(np.concatenate([read(waves) for read in reads]), bits, 16)
        index = fields(chosen(waves), 4, 16).astype(np.int64)
        picked = np.take_along_axis(table, index, 0)
        for number, word in enumerate(registers(picked, bits)):
            waves.write(target.first + number, word)

    return step


for _bits in (4, 6, 8):
    builds_as(f"v_perm_pk16_b{_bits}_u4", _look_up, _bits)
