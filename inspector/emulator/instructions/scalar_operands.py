"""Operands of scalar instructions as typed readers and writers; how scalar operations register."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Literal

import numpy as np
from msgspec.structs import replace

from ...isa.dataflow.operands import EXEC, Decoded, Operand, constant_bits
from ...isa.twos_complement import signed
from ..memory import PRIVATE_APERTURE, SHARED_APERTURE
from ..registry import BuildContext, NotCoveredError, Step, builds
from ..vector_operands import DTYPES, check_count
from ..waves import U32, Array, Waves

U64 = np.uint64


Read = Callable[[Waves], Array]
"""Values of all waves, [wave], or one number."""
Scc = Literal["", "nonzero", "own"]
"""What a scalar operation does to SCC (`define_scalar`)."""

_APERTURES: Final = {"src_shared_base": SHARED_APERTURE, "src_private_base": PRIVATE_APERTURE}


def scalar_source(operand: Operand, kind: str) -> Read:
    """A scalar operand as an array [wave] of its kind (or one number, for a constant)."""
    dtype = DTYPES[kind]
    wide = np.dtype(dtype).itemsize == 8
    check_count(operand, 2 if wide else 1)
    if operand.kind == "sgpr" and not operand.is_null:
        row = operand.first
        if wide:
            return lambda waves: waves.pair(row).view(dtype)
        if dtype is U32:
            return lambda waves: waves.scalar[row]
        return lambda waves: waves.scalar[row].view(dtype)
    if operand.kind == "constant" or operand.is_null:
        bits = 0 if operand.is_null else constant_bits(operand, kind)
        value = np.array([bits], U64).astype(U64 if wide else U32).view(dtype)[0]
        return lambda waves: value
    if wide and operand.name in _APERTURES:
        # The upper half alone is an address' (LLVM, SITargetLowering::getSegmentAperture).
        aperture = np.array([_APERTURES[operand.name]], U64).view(dtype)[0]
        return lambda waves: aperture
    special: dict[str, Read] = {
        "src_scc": lambda waves: waves.scc.astype(U32),
        "src_vccz": lambda waves: waves.vccz.astype(U32),
        "src_execz": lambda waves: waves.execz.astype(U32),
    }
    if operand.name in special:
        read = special[operand.name]
        return lambda waves: read(waves).astype(U64 if wide else U32).view(dtype)
    if _DISTANCE.fullmatch(operand.text):
        return lambda waves: np.zeros(1, dtype)
    raise NotCoveredError(f"scalar source {operand.text}")


_DISTANCE = re.compile(r"\(\.L\w+-\.Lpost_getpc\d+\)(&4294967295|>>32)")
"""How far a long jump goes, which LLVM adds to the program counter. Jumps follow the flow graph,
so that the address that is made of it is never looked at."""


_SHORT_IMMEDIATE = re.compile(r"s_(mov|add|add_co|mul|cmov|cmp)k_(?!\w+_u32)\w+")


def with_short_immediate(decoded: Decoded) -> Decoded:
    """SOPK's 16-bit constant, sign-extended: LLVM prints `s_addk_i32 s0, 0xff00` for -256.

    Only the unsigned comparisons extend it with zeros (CDNA3 ISA, 12.2).
    """
    *others, last = decoded.operands
    if _SHORT_IMMEDIATE.fullmatch(decoded.name) is None or last.integer is None:
        return decoded
    extended = replace(last, integer=signed(last.integer, 16))
    return replace(decoded, operands=(*others, extended))


def scalar_destination(operand: Operand, kind: str) -> Callable[[Waves, Array], None]:
    """Writes an array [wave] of a kind to scalar registers."""
    row = operand.first
    if operand.kind != "sgpr":
        raise NotCoveredError(f"scalar destination {operand.text}")
    wide = np.dtype(DTYPES[kind]).itemsize == 8
    check_count(operand, 2 if wide else 1)
    touches_exec = EXEC in operand.rows or EXEC + 1 in operand.rows

    def write(waves: Waves, value: Array) -> None:
        if wide:
            waves.set_pair(row, _spread(value, waves).view(U64))
        else:
            waves.scalar[row] = value.view(U32)
        if touches_exec:
            waves.exec_changed()

    return write


def define_scalar(
    names: str, result: str, kinds: str, compute: Callable[..., Any], scc: Scc = ""
) -> None:
    """Registers scalar operations of one form.

    `compute`: from the sources to the result; with `scc` "own", to (result, scc). `scc`: "" leaves
    SCC, "nonzero" sets it to result != 0, "own" to what compute says.
    """
    sources = kinds.split()

    def build(decoded: Decoded, context: BuildContext) -> Step:
        decoded = with_short_immediate(decoded)
        operands = decoded.operands[1:]
        if len(operands) != len(sources):
            operands = decoded.operands  # s_addk, s_mulk: the destination is a source
        reads = [
            scalar_source(operand, kind) for operand, kind in zip(operands, sources, strict=True)
        ]
        write = scalar_destination(decoded.operands[0], result)

        def step(waves: Waves) -> None:
            value = compute(*[read(waves) for read in reads])
            if scc == "own":
                value, carry = value
                waves.scc = _spread(carry, waves).copy()
            elif scc:
                waves.scc = _spread(value != 0, waves).copy()
            write(waves, value)

        return step

    builds(*names.split())(build)


def _spread(value: Array, waves: Waves) -> Array:
    """A number of each wave, or of all, as an array [wave]."""
    if value.shape == waves.scc.shape:
        return value
    return np.broadcast_to(value, waves.scc.shape)


def low5(value: Array) -> Array:
    """Bits 4:0, the part of a number that counts as a distance or place in 32 bits."""
    return value & U32(31)


def low6(value: Array) -> Array:
    """Bits 5:0, the part of a number that counts as a distance or place in 64 bits, uint64."""
    return (value & U32(63)).astype(U64)
