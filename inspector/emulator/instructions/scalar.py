"""Scalar ALU: one value per wave (CDNA3 ISA, 12.1 to 12.5; RDNA3 ISA, 16.1 to 16.5)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from ..memory import PRIVATE_APERTURE, SHARED_APERTURE
from ..operands import EXEC, M0, VCC, Decoded, Operand, constant_bits
from ..registry import Builder, Context, NotCoveredError, Step, builds
from ..vector_operands import DTYPES
from ..waves import ALL, I32, U32, Array, Waves

U64 = np.uint64
I64 = np.int64

Read = Callable[[Waves], Array]


_APERTURES: Final = {"src_shared_base": SHARED_APERTURE, "src_private_base": PRIVATE_APERTURE}


def scalar_source(operand: Operand, kind: str) -> Read:
    """A scalar operand as an array [wave] of its kind (or one number, for a constant)."""
    dtype = DTYPES[kind]
    wide = np.dtype(dtype).itemsize == 8
    if operand.kind == "sgpr" and not operand.is_null:
        row = operand.first
        if wide:
            return lambda waves: waves.pair(row).view(dtype)
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


@builds("s_getpc_b64", "s_get_pc_i64")
def program_counter(decoded: Decoded, context: Context) -> Step:
    """The next instruction's index: there are no addresses here."""
    write = scalar_destination(decoded.operands[0], "u64")
    next_index = np.uint64(context.index + 1)
    return lambda waves: write(waves, np.full(waves.count, next_index))


_SHORT_IMMEDIATE = re.compile(r"s_(mov|add|add_co|mul|cmov|cmp)k_(?!\w+_u32)\w+")


def with_short_immediate(decoded: Decoded) -> Decoded:
    """SOPK's 16-bit constant, sign-extended: LLVM prints `s_addk_i32 s0, 0xff00` for -256.

    Only the unsigned comparisons extend it with zeros (CDNA3 ISA, 12.2).
    """
    *others, last = decoded.operands
    if _SHORT_IMMEDIATE.fullmatch(decoded.name) is None or last.integer is None:
        return decoded
    extended = ((last.integer & 0xFFFF) ^ 0x8000) - 0x8000
    return replace(decoded, operands=(*others, replace(last, integer=extended)))


def scalar_destination(operand: Operand, kind: str) -> Callable[[Waves, Array], None]:
    """Writes an array [wave] of a kind to scalar registers."""
    row = operand.first
    if operand.kind != "sgpr":
        raise NotCoveredError(f"scalar destination {operand.text}")
    wide = np.dtype(DTYPES[kind]).itemsize == 8
    touches_exec = EXEC in operand.rows or EXEC + 1 in operand.rows

    def write(waves: Waves, value: Array) -> None:
        if wide:
            waves.set_pair(row, np.broadcast_to(value, waves.scc.shape).view(U64))
        else:
            waves.scalar[row] = np.asarray(value).view(U32)
        if touches_exec:
            waves.exec_changed()

    return write


def operation(
    names: str, result: str, kinds: str, compute: Callable[..., Any], scc: str = ""
) -> None:
    """Registers scalar operations of one form.

    Args:
        names: mnemonics.
        result: kind of the destination.
        kinds: kinds of the sources, separated by blanks.
        compute: from the sources to the result; with `scc` "own", to (result, scc).
        scc: "" leaves SCC, "nonzero" sets it to result != 0, "own" to what compute says.
    """
    sources = kinds.split()

    def build(decoded: Decoded, context: Context) -> Step:
        decoded = with_short_immediate(decoded)
        operands = decoded.operands[1:]
        if len(operands) != len(sources):
            operands = decoded.operands  # s_addk, s_mulk: the destination is a source
        reads = [
            scalar_source(operand, kind) for operand, kind in zip(operands, sources, strict=True)
        ]
        write = scalar_destination(decoded.operands[0], result)

        def step(waves: Waves) -> None:
            value = compute(*(read(waves) for read in reads))
            if scc == "own":
                value, carry = value
                waves.scc = np.broadcast_to(carry, waves.scc.shape).copy()
            elif scc:
                waves.scc = np.broadcast_to(value != 0, waves.scc.shape).copy()
            write(waves, value)

        return step

    builds(*names.split())(build)


def _shift(value: Array) -> Array:
    return value & U32(31)


def _shift64(value: Array) -> Array:
    return (value & U32(63)).astype(U64)


def _add(a: Array, b: Array) -> tuple[Array, Array]:
    total = np.add(a, b, dtype=U32)
    return total, total < a


def _sub(a: Array, b: Array) -> tuple[Array, Array]:
    return np.subtract(a, b, dtype=U32), b > a


def _add_signed(a: Array, b: Array) -> tuple[Array, Array]:
    """Returns the sum of int32 and whether it overflows."""
    total = np.add(a, b, dtype=I32)
    return total, ((a ^ total) & (b ^ total)) < 0


def _sub_signed(a: Array, b: Array) -> tuple[Array, Array]:
    """Returns the difference of int32 and whether it overflows."""
    total = np.subtract(a, b, dtype=I32)
    return total, ((a ^ b) & (a ^ total)) < 0


def _field(value: Array, packed: Array) -> Array:
    """S_BFE: offset in bits 4:0, width in 22:16."""
    offset, width = packed & U32(31), packed >> U32(16) & U32(127)
    moved = value >> offset
    return np.where(width >= 32, moved, moved & ((U32(1) << (width & U32(31))) - U32(1)))


def _signed_field(value: Array, packed: Array) -> Array:
    """S_BFE_I32: offset in bits 4:0, width in 22:16; the field is sign-extended."""
    offset, width = packed & U32(31), packed >> U32(16) & U32(127)
    length = np.minimum(width, U32(32) - offset)
    up = (U32(32) - offset - length) & U32(31)
    down = (U32(32) - length) & U32(31)
    moved = (
        (value << up).view(I32) >> down.view(I32)
        if np.ndim(down)
        else (np.asarray(value << up).view(I32) >> I32(down))
    )
    return np.where(length == 0, I32(0), moved).view(U32)


def _field64(value: Array, packed: Array) -> Array:
    """S_BFE_U64: offset in bits 5:0, width in 22:16."""
    offset, width = packed & U32(63), packed >> U32(16) & U32(127)
    moved = value >> offset.astype(U64)
    ones = (U64(1) << (width & U32(63)).astype(U64)) - U64(1)
    return np.where(width >= 64, moved, moved & ones)


def _signed_field64(value: Array, packed: Array) -> Array:
    """S_BFE_I64: offset in bits 5:0, width in 22:16; the field is sign-extended."""
    offset, width = packed & U32(63), packed >> U32(16) & U32(127)
    length = np.minimum(width, U32(64) - offset)
    up = ((U32(64) - offset - length) & U32(63)).astype(U64)
    down = ((U32(64) - length) & U32(63)).astype(I64)
    moved = np.asarray(value << up).view(I64) >> down
    return np.where(length == 0, I64(0), moved).view(U64)


def _same_as_sign(value: Array, bits: int) -> Array:
    """Bits from the top on that equal the sign bit; -1 where all do (S_CLS_I32)."""
    folded = np.where(value < 0, ~value, value).astype(f"u{bits // 8}")
    leading = _leading(folded, bits)
    return np.where(leading == -1, I32(-1), leading)


def _quads(value: Array, bits: int) -> Array:
    """Bit 4 * i is set where any bit of quad i is."""
    kind = U32 if bits == 32 else U64
    pairs = value | (value >> kind(1))
    return (pairs | (pairs >> kind(2))) & kind(0x1111111111111111 & (2**bits - 1))


def _quad_mask(value: Array, bits: int) -> Array:
    """Bit i is set where any bit of quad i is."""
    kind = U32 if bits == 32 else U64
    result = _quads(value, bits)
    for step, mask in ((3, 0x0303030303030303), (6, 0x000F000F000F000F), (12, 0x000000FF000000FF),
                       (24, 0xFFFF)):  # fmt: skip
        if step < bits:
            result = (result | (result >> kind(step))) & kind(mask & (2**bits - 1))
    return result


def _doubled_bits(value: Array) -> Array:
    """Every bit twice: 32 bits become 64."""
    result = np.asarray(value).astype(U64)
    for step, mask in ((16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F),
                       (2, 0x3333333333333333), (1, 0x5555555555555555)):  # fmt: skip
        result = (result | (result << U64(step))) & U64(mask)
    return result | (result << U64(1))


def _ones_from(value: Array, bits: int) -> Array:
    """Index of the lowest set bit; -1 where there is none."""
    wide = np.atleast_1d(value).astype(U64)
    low = wide & (~wide + U64(1))
    index = np.where(low > 0, np.log2(np.maximum(low, U64(1)).astype(np.float64)), -1)
    return index.astype(I32)


def _leading(value: Array, bits: int) -> Array:
    """Number of zeros above the highest set bit; -1 for 0."""
    high_part = np.atleast_1d(value).astype(U64)
    count = np.zeros(high_part.shape, np.int64)
    width = 64
    highest = np.zeros(high_part.shape, np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        high = high_part >> U64(step)
        highest += np.where(high > 0, step, 0)
        high_part = np.where(high > 0, high, high_part)
    count = (width - 1 - highest) - (width - bits)
    return np.where(np.atleast_1d(value) == 0, -1, count).astype(I32)


def _reversed_bits(value: Array, bits: int) -> Array:
    kind = U32 if bits == 32 else U64
    result = np.atleast_1d(value).copy()
    for step, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        part = kind(mask & (2**bits - 1))
        result = ((result >> kind(step)) & part) | ((result & part) << kind(step))
    return np.ascontiguousarray(result).byteswap()


operation("s_mov_b32 s_movk_i32", "u32", "u32", lambda a: a)
operation("s_mov_b64", "u64", "u64", lambda a: a)
operation("s_not_b32", "u32", "u32", np.invert, "nonzero")
operation("s_not_b64", "u64", "u64", np.invert, "nonzero")
_LOGIC: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "andn2 and_not1": lambda a, b: a & ~b,
    "orn2 or_not1": lambda a, b: a | ~b,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
}
for _bits in ("32", "64"):
    _kind = "u" + _bits
    for _names, _compute in _LOGIC.items():
        _mnemonics = " ".join(f"s_{name}_b{_bits}" for name in _names.split())
        operation(_mnemonics, _kind, f"{_kind} {_kind}", _compute, "nonzero")
operation("s_add_u32 s_add_co_u32", "u32", "u32 u32", _add, "own")
operation("s_sub_u32 s_sub_co_u32", "u32", "u32 u32", _sub, "own")
operation("s_add_i32 s_addk_i32 s_add_co_i32 s_addk_co_i32", "i32", "i32 i32", _add_signed, "own")
operation("s_sub_i32 s_sub_co_i32", "i32", "i32 i32", _sub_signed, "own")
operation("s_mul_i32 s_mulk_i32", "u32", "u32 u32", lambda a, b: np.multiply(a, b, dtype=U32))
operation(
    "s_mul_hi_u32", "u32", "u32 u32",
    lambda a, b: (np.multiply(a, b, dtype=U64) >> U64(32)).astype(U32),
)  # fmt: skip
operation(
    "s_mul_hi_i32", "i32", "i32 i32",
    lambda a, b: (np.multiply(a, b, dtype=I64) >> I64(32)).astype(I32),
)  # fmt: skip
operation("s_mul_u64", "u64", "u64 u64", lambda a, b: np.multiply(a, b, dtype=U64))
operation("s_add_u64 s_add_nc_u64", "u64", "u64 u64", lambda a, b: np.add(a, b, dtype=U64))
operation("s_sub_u64 s_sub_nc_u64", "u64", "u64 u64", lambda a, b: np.subtract(a, b, dtype=U64))
operation("s_lshl_b32", "u32", "u32 u32", lambda a, b: a << _shift(b), "nonzero")
operation("s_lshr_b32", "u32", "u32 u32", lambda a, b: a >> _shift(b), "nonzero")
operation("s_ashr_i32", "i32", "i32 u32", lambda a, b: a >> _shift(b).astype(I32), "nonzero")
operation("s_lshl_b64", "u64", "u64 u32", lambda a, b: a << _shift64(b), "nonzero")
operation("s_lshr_b64", "u64", "u64 u32", lambda a, b: a >> _shift64(b), "nonzero")
operation("s_ashr_i64", "i64", "i64 u32", lambda a, b: a >> _shift64(b).astype(I64), "nonzero")
for _by in (1, 2, 3, 4):
    operation(
        f"s_lshl{_by}_add_u32", "u32", "u32 u32",
        lambda a, b, by=_by: (
            (wide := (a.astype(U64) << U64(by)) + b).astype(U32), wide > U64(ALL)
        ),
        "own",
    )  # fmt: skip
operation("s_bfe_u32", "u32", "u32 u32", _field, "nonzero")
operation("s_bfe_i32", "u32", "u32 u32", _signed_field, "nonzero")
operation("s_bfm_b32", "u32", "u32 u32", lambda a, b: ((U32(1) << _shift(a)) - U32(1)) << _shift(b))
operation("s_bfe_u64", "u64", "u64 u32", _field64, "nonzero")
operation("s_bfe_i64", "u64", "u64 u32", _signed_field64, "nonzero")
operation(
    "s_bfm_b64", "u64", "u32 u32", lambda a, b: ((U64(1) << _shift64(a)) - U64(1)) << _shift64(b)
)
operation(
    "s_absdiff_i32", "i32", "i32 i32",
    lambda a, b: np.abs(np.subtract(a, b, dtype=I32)), "nonzero",
)  # fmt: skip
operation("s_bitreplicate_b64_b32", "u64", "u32", _doubled_bits)
operation("s_quadmask_b32", "u32", "u32", lambda a: _quad_mask(a, 32), "nonzero")
operation("s_quadmask_b64", "u64", "u64", lambda a: _quad_mask(a, 64), "nonzero")
operation("s_wqm_b32", "u32", "u32", lambda a: _quads(a, 32) * U32(15), "nonzero")
operation("s_wqm_b64", "u64", "u64", lambda a: _quads(a, 64) * U64(15), "nonzero")
operation("s_ff0_i32_b32", "i32", "u32", lambda a: _ones_from(~a, 32))
operation("s_ff0_i32_b64", "i32", "u64", lambda a: _ones_from(~a, 64))
operation("s_flbit_i32 s_cls_i32", "i32", "i32", lambda a: _same_as_sign(a, 32))
operation("s_flbit_i32_i64 s_cls_i32_i64", "i32", "i64", lambda a: _same_as_sign(a, 64))
operation("s_bcnt0_i32_b32", "u32", "u32", lambda a: np.bitwise_count(~a).astype(U32), "nonzero")
operation("s_bcnt0_i32_b64", "u32", "u64", lambda a: np.bitwise_count(~a).astype(U32), "nonzero")
operation("s_min_i32", "i32", "i32 i32", lambda a, b: (np.minimum(a, b), a < b), "own")
operation("s_max_i32", "i32", "i32 i32", lambda a, b: (np.maximum(a, b), a >= b), "own")
operation("s_min_u32", "u32", "u32 u32", lambda a, b: (np.minimum(a, b), a < b), "own")
operation("s_max_u32", "u32", "u32 u32", lambda a, b: (np.maximum(a, b), a >= b), "own")
operation("s_abs_i32", "i32", "i32", np.abs, "nonzero")
operation("s_sext_i32_i8", "i32", "u32", lambda a: a.astype(np.uint8).view(np.int8).astype(I32))
operation("s_sext_i32_i16", "i32", "u32", lambda a: a.astype(np.uint16).view(np.int16).astype(I32))
operation("s_ff1_i32_b32 s_ctz_i32_b32", "i32", "u32", lambda a: _ones_from(a, 32))
operation("s_ff1_i32_b64 s_ctz_i32_b64", "i32", "u64", lambda a: _ones_from(a, 64))
operation("s_flbit_i32_b32 s_clz_i32_u32", "i32", "u32", lambda a: _leading(a, 32))
operation("s_flbit_i32_b64 s_clz_i32_u64", "i32", "u64", lambda a: _leading(a, 64))
operation("s_brev_b32", "u32", "u32", lambda a: _reversed_bits(a, 32))
operation("s_brev_b64", "u64", "u64", lambda a: _reversed_bits(a, 64))
operation("s_bcnt1_i32_b32", "u32", "u32", lambda a: np.bitwise_count(a).astype(U32), "nonzero")
operation("s_bcnt1_i32_b64", "u32", "u64", lambda a: np.bitwise_count(a).astype(U32), "nonzero")
operation("s_pack_ll_b32_b16", "u32", "u32 u32", lambda a, b: (a & U32(0xFFFF)) | (b << U32(16)))
operation(
    "s_pack_lh_b32_b16", "u32", "u32 u32", lambda a, b: (a & U32(0xFFFF)) | (b & U32(0xFFFF0000))
)
operation(
    "s_pack_hh_b32_b16", "u32", "u32 u32", lambda a, b: (a >> U32(16)) | (b & U32(0xFFFF0000))
)
operation("s_pack_hl_b32_b16", "u32", "u32 u32", lambda a, b: (a >> U32(16)) | (b << U32(16)))


def _with_carry(*, subtract: bool) -> Builder:
    """32-bit sum or difference with SCC as carry, in and out."""

    def build(decoded: Decoded, context: Context) -> Step:
        first, second = (scalar_source(operand, "u32") for operand in decoded.operands[1:])
        write = scalar_destination(decoded.operands[0], "u32")

        def step(waves: Waves) -> None:
            a = np.asarray(first(waves)).astype(I64)
            b = np.asarray(second(waves)).astype(I64)
            carry = waves.scc.astype(I64)
            total = a - b - carry if subtract else a + b + carry
            waves.scc = (total < 0) | (total > ALL)
            write(waves, (total & I64(ALL)).astype(U32))

        return step

    return build


builds("s_addc_u32", "s_add_co_ci_u32")(_with_carry(subtract=False))
builds("s_subb_u32", "s_sub_co_ci_u32")(_with_carry(subtract=True))


def _select(kind: str) -> Builder:
    """S_CSELECT: the first source where SCC is set, else the second."""

    def build(decoded: Decoded, context: Context) -> Step:
        first, second = (scalar_source(operand, kind) for operand in decoded.operands[1:])
        write = scalar_destination(decoded.operands[0], kind)
        return lambda waves: write(waves, np.where(waves.scc, first(waves), second(waves)))

    return build


builds("s_cselect_b32")(_select("u32"))
builds("s_cselect_b64")(_select("u64"))


def _conditional_move(kind: str) -> Builder:
    """S_CMOV: the destination changes where SCC is set."""

    def build(decoded: Decoded, context: Context) -> Step:
        decoded = with_short_immediate(decoded)
        target = decoded.operands[0]
        read = scalar_source(decoded.operands[1], kind)
        before = scalar_source(target, kind)
        write = scalar_destination(target, kind)
        return lambda waves: write(waves, np.where(waves.scc, read(waves), before(waves)))

    return build


builds("s_cmovk_i32", "s_cmov_b32")(_conditional_move("u32"))
builds("s_cmov_b64")(_conditional_move("u64"))


COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "lg": np.not_equal, "ne": np.not_equal, "gt": np.greater,
    "ge": np.greater_equal, "lt": np.less, "le": np.less_equal,
}  # fmt: skip


def _comparison(name: str, kind: str) -> Builder:
    """S_CMP: SCC becomes the outcome."""
    compare = COMPARISONS[name]

    def build(decoded: Decoded, context: Context) -> Step:
        decoded = with_short_immediate(decoded)
        first, second = (scalar_source(operand, kind) for operand in decoded.operands)

        def step(waves: Waves) -> None:
            outcome = compare(first(waves), second(waves))
            waves.scc = np.broadcast_to(outcome, waves.scc.shape).copy()

        return step

    return build


for _name in COMPARISONS:
    for _kind in ("i32", "u32", "u64", "i64"):
        _words = [f"s_cmp_{_name}_{_kind}"]
        if _kind.endswith("32"):
            _words.append(f"s_cmpk_{_name}_{_kind}")
        builds(*_words)(_comparison(_name, _kind))


def _bit_test(expected: int, kind: str) -> Builder:
    """S_BITCMP: SCC becomes whether a bit of S0 is `expected`; S1 is its number."""

    def build(decoded: Decoded, context: Context) -> Step:
        value = scalar_source(decoded.operands[0], kind)
        bit_number = scalar_source(decoded.operands[1], "u32")
        shift = _shift if kind == "u32" else _shift64

        def step(waves: Waves) -> None:
            word = np.asarray(value(waves))
            bit = (word >> shift(bit_number(waves))) & word.dtype.type(1)
            waves.scc = np.broadcast_to(bit == expected, waves.scc.shape).copy()

        return step

    return build


for _expected in (0, 1):
    builds(f"s_bitcmp{_expected}_b32")(_bit_test(_expected, "u32"))
    builds(f"s_bitcmp{_expected}_b64")(_bit_test(_expected, "u64"))


def _set_bit(value: int, kind: str) -> Builder:
    """S_BITSET: sets or clears the bit of the destination whose number S0 is."""

    def build(decoded: Decoded, context: Context) -> Step:
        bit_number = scalar_source(decoded.operands[1], "u32")
        before = scalar_source(decoded.operands[0], kind)
        write = scalar_destination(decoded.operands[0], kind)
        shift = _shift if kind == "u32" else _shift64
        unit = DTYPES[kind](1)

        def step(waves: Waves) -> None:
            bit = unit << shift(bit_number(waves))
            write(waves, before(waves) | bit if value else before(waves) & ~bit)

        return step

    return build


for _value in (0, 1):
    builds(f"s_bitset{_value}_b32")(_set_bit(_value, "u32"))
    builds(f"s_bitset{_value}_b64")(_set_bit(_value, "u64"))


def _save_exec(compute: Callable[[Array, Array], Array], kind: str) -> Builder:
    """D = EXEC; EXEC = compute(S0, EXEC); SCC = EXEC != 0."""

    def build(decoded: Decoded, context: Context) -> Step:
        read = scalar_source(decoded.operands[1], kind)
        write = scalar_destination(decoded.operands[0], kind)

        def step(waves: Waves) -> None:
            before = waves.pair(EXEC) if kind == "u64" else waves.scalar[EXEC].copy()
            after = np.broadcast_to(compute(read(waves), before), before.shape)
            write(waves, before)
            if kind == "u64":
                waves.set_pair(EXEC, after)
            else:
                waves.scalar[EXEC] = after
            waves.scc = after != 0
            waves.exec_changed()

        return step

    return build


_SAVE_EXEC: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "andn2 and_not1": lambda s, e: s & ~e,
    "andn1 and_not0": lambda s, e: ~s & e,
    "orn2 or_not1": lambda s, e: s | ~e,
    "orn1 or_not0": lambda s, e: ~s | e,
    "nand": lambda s, e: ~(s & e),
    "nor": lambda s, e: ~(s | e),
    "xnor": lambda s, e: ~(s ^ e),
}
for _names, _compute in _SAVE_EXEC.items():
    for _bits in ("32", "64"):
        _words = [f"s_{name}_saveexec_b{_bits}" for name in _names.split()]
        builds(*_words)(_save_exec(_compute, "u" + _bits))


def _write_exec(compute: Callable[[Array, Array], Array], kind: str) -> Builder:
    """EXEC = compute(S0, EXEC); D = EXEC; SCC = EXEC != 0."""

    def build(decoded: Decoded, context: Context) -> Step:
        read = scalar_source(decoded.operands[1], kind)
        write = scalar_destination(decoded.operands[0], kind)

        def step(waves: Waves) -> None:
            before = waves.pair(EXEC) if kind == "u64" else waves.scalar[EXEC]
            after = np.broadcast_to(compute(read(waves), before), before.shape).copy()
            if kind == "u64":
                waves.set_pair(EXEC, after)
            else:
                waves.scalar[EXEC] = after
            waves.exec_changed()
            write(waves, after)
            waves.scc = after != 0

        return step

    return build


for _bits in ("32", "64"):
    builds(f"s_andn1_wrexec_b{_bits}", f"s_and_not0_wrexec_b{_bits}")(
        _write_exec(lambda s, e: ~s & e, "u" + _bits)
    )
    builds(f"s_andn2_wrexec_b{_bits}", f"s_and_not1_wrexec_b{_bits}")(
        _write_exec(lambda s, e: s & ~e, "u" + _bits)
    )


def _indexed_rows(waves: Waves, first: int, steps: Array, count: int) -> Array:
    """Scalar rows that M0 counts from a register on, int64 [wave]."""
    rows = np.int64(first) + steps.astype(I64)
    if ((rows < 0) | (rows + count > VCC + 2)).any():
        raise NotCoveredError(f"M0 leads from s{first} past the scalar registers")
    return rows


def _relative(words: int, *, reads: bool, writes: bool, split: bool) -> Builder:
    """S_MOVRELS, S_MOVRELD, S_MOVRELSD_2: M0 is added to a register's number.

    With `split`, bits 9:0 of M0 count for the source and 25:16 for the destination.
    """

    def build(decoded: Decoded, context: Context) -> Step:
        target, origin = decoded.operands
        read = scalar_source(origin, "u32") if words == 1 else scalar_source(origin, "u64")

        def step(waves: Waves) -> None:
            m0 = waves.scalar[M0]
            numbers = np.arange(waves.count)
            if reads:
                steps = m0 & U32(0x3FF) if split else m0
                rows = _indexed_rows(waves, origin.first, steps, words)
                parts = [waves.scalar[rows + word, numbers] for word in range(words)]
            else:
                value = np.broadcast_to(read(waves), (waves.count,)).astype(U64)
                parts = [(value >> U64(32 * word)).astype(U32) for word in range(words)]
            steps = np.zeros(waves.count, U32)
            if writes:
                steps = m0 >> U32(16) & U32(0x3FF) if split else m0
            rows = _indexed_rows(waves, target.first, steps, words)
            for word, part in enumerate(parts):
                waves.scalar[rows + word, numbers] = part

        return step

    return build


for _count, _suffix in ((1, "b32"), (2, "b64")):
    builds(f"s_movrels_{_suffix}")(_relative(_count, reads=True, writes=False, split=False))
    builds(f"s_movreld_{_suffix}")(_relative(_count, reads=False, writes=True, split=False))
builds("s_movrelsd_2_b32")(_relative(1, reads=True, writes=True, split=True))

__all__ = ["M0", "operation", "scalar_destination", "scalar_source"]
