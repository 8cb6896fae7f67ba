"""Vector integers of 16 to 64 bits: arithmetic, operations on bits, fields and bytes.

Source: CDNA3 ISA, 12.7 to 12.11; RDNA3 ISA, 16.
"""

from __future__ import annotations

import numpy as np

from ...isa.dataflow.operands import Decoded, Operand, constant_bits
from ..elementwise import ResultStep, assemble, define, define_each, elementwise
from ..registry import BuildContext, NotCoveredError, Step, builds, builds_as
from ..vector_operands import check_count, destination, mask_row, raw, source
from ..waves import I32, U32, Array, Waves

U64 = np.uint64
I64 = np.int64


def low5(value: Array) -> Array:
    """Bits 4:0, the part of a shift's distance that counts for 32 bits."""
    return value & U32(31)


def shift16(value: Array) -> Array:
    """The part of a shift's distance that counts for 16 bits."""
    return value & value.dtype.type(15)


def _low24(value: Array) -> Array:
    return value & value.dtype.type(0xFFFFFF)


def _signed24(value: Array) -> Array:
    up = value.dtype.type(8 * value.dtype.itemsize - 24)
    return (value << up) >> up


def _high(a: Array, b: Array) -> Array:
    return (np.multiply(a, b, dtype=U64) >> U64(32)).astype(U32)


def _high_signed(a: Array, b: Array) -> Array:
    return (np.multiply(a, b, dtype=I64) >> I64(32)).astype(I32)


def middle(a: Array, b: Array, c: Array) -> Array:
    """The middle one of three."""
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def _shift64(value: Array) -> Array:
    return (np.asarray(value) & U32(63)).astype(U64)


define("v_mov_b32 v_accvgpr_read_b32 v_accvgpr_write_b32 v_accvgpr_mov_b32", "u32", "u32",
        np.asarray)  # fmt: skip
define("v_mov_b16", "u16", "u16", np.asarray)
define("v_mov_b64", "u64", "u64", lambda a: a)
define_each("u32 i32 u16 i16", "v_add_{} v_add_nc_{}", 2, np.add, saturates=True)
define_each("u32 i32 u16 i16", "v_sub_{} v_sub_nc_{}", 2, np.subtract, saturates=True)
define_each("u32", "v_subrev_{} v_subrev_nc_{}", 2, lambda a, b: np.subtract(b, a), saturates=True)
define_each("u16", "v_subrev_{}", 2, lambda a, b: np.subtract(b, a), saturates=True)
define_each("u64", "v_add_nc_{} v_add_{}", 2, np.add)
define_each("u64", "v_sub_nc_{} v_sub_{}", 2, np.subtract)
define_each("u64", "v_mul_{}", 2, np.multiply)
define_each("u16", "v_mul_lo_{}", 2, np.multiply)
define("v_mul_lo_u32 v_mul_lo_i32", "u32", "u32 u32", np.multiply)
define_each("u32", "v_mul_hi_{}", 2, _high)
define_each("i32", "v_mul_hi_{}", 2, _high_signed)
define_each("u32", "v_mul_{}_u24", 2, lambda a, b: _low24(a) * _low24(b))
define_each("i32", "v_mul_{}_i24", 2, lambda a, b: _signed24(a) * _signed24(b))
define_each("u32", "v_mul_hi_{}_u24", 2, lambda a, b: _high(_low24(a), _low24(b)))
define_each("i32", "v_mul_hi_{}_i24", 2, lambda a, b: _high_signed(_signed24(a), _signed24(b)))
define_each("u32", "v_mad_{}_u24", 3, lambda a, b, c: _low24(a) * _low24(b) + c, saturates=True)
define_each(
    "i32", "v_mad_{}_i24", 3, lambda a, b, c: _signed24(a) * _signed24(b) + c, saturates=True
)
define_each("u32", "v_mad_{}", 3, lambda a, b, c: a * b + c)
define_each("u16 i16", "v_mad_{} v_mad_legacy_{}", 3, lambda a, b, c: a * b + c, saturates=True)
define("v_mad_u32_u16", "u32", "u16 u16 u32", lambda a, b, c: a.astype(U32) * b.astype(U32) + c)
define("v_mad_i32_i16", "i32", "i16 i16 i32", lambda a, b, c: a.astype(I32) * b.astype(I32) + c)
define("v_mad_nc_u64_u32", "u64", "u32 u32 u64", lambda a, b, c: np.multiply(a, b, dtype=U64) + c)
define("v_mad_nc_i64_i32", "i64", "i32 i32 i64", lambda a, b, c: np.multiply(a, b, dtype=I64) + c)
define_each("u16", "v_lshlrev_b16", 2, lambda a, b: b << shift16(a))
define_each("u16", "v_lshrrev_b16", 2, lambda a, b: b >> shift16(a))
define_each("i16", "v_ashrrev_{}", 2, lambda a, b: b >> shift16(a))
define_each("u32", "v_lshlrev_b32", 2, lambda a, b: np.left_shift(b, low5(a)))
define_each("u32", "v_lshrrev_b32", 2, lambda a, b: np.right_shift(b, low5(a)))
define_each("i32", "v_ashrrev_{}", 2, lambda a, b: np.right_shift(b, a & I32(31)))
define("v_lshlrev_b64", "u64", "u32 u64", lambda a, b: b << _shift64(a))
define("v_lshrrev_b64", "u64", "u32 u64", lambda a, b: b >> _shift64(a))
define("v_ashrrev_i64", "i64", "u32 i64", lambda a, b: b >> _shift64(a).astype(I64))
define_each("u32 i32 u16 i16 u64 i64", "v_min_{}", 2, np.minimum)
define_each("u32 i32 u16 i16 u64 i64", "v_max_{}", 2, np.maximum)
define_each("u32 i32 u16 i16", "v_min3_{}", 3, lambda a, b, c: np.minimum(np.minimum(a, b), c))
define_each("u32 i32 u16 i16", "v_max3_{}", 3, lambda a, b, c: np.maximum(np.maximum(a, b), c))
define_each("u32 i32 u16 i16", "v_med3_{}", 3, middle)
define_each("u32 i32", "v_maxmin_{}", 3, lambda a, b, c: np.minimum(np.maximum(a, b), c))
define_each("u32 i32", "v_minmax_{}", 3, lambda a, b, c: np.maximum(np.minimum(a, b), c))
define_each("u32 i32", "v_add_min_{}", 3, lambda a, b, c: np.minimum(a + b, c), saturates=True)
define_each("u32 i32", "v_add_max_{}", 3, lambda a, b, c: np.maximum(a + b, c), saturates=True)
define_each("u32", "v_add3_{}", 3, lambda a, b, c: np.add(np.add(a, b), c))
define_each("u32", "v_lshl_add_{}", 3, lambda a, b, c: np.add(a << low5(b), c))
define_each("u32", "v_lshl_or_b32", 3, lambda a, b, c: (a << low5(b)) | c)
define_each("u32", "v_add_lshl_{}", 3, lambda a, b, c: np.add(a, b) << low5(c))
define_each("u32", "v_xad_{}", 3, lambda a, b, c: np.add(a ^ b, c))


def _shifted_sum(value: Array, by: Array, addend: Array) -> Array:
    """V_LSHL_ADD_U64; shifts of more than 4 are undefined (CDNA3 ISA, 12.11)."""
    shift = (np.asarray(by) & U32(7)).astype(U64)
    return np.asarray((value << shift) + addend)


_shift_add_any = elementwise("u64", "u64 u32 u64", _shifted_sum)


@builds("v_lshl_add_u64")
def shift_add(decoded: Decoded, context: BuildContext) -> Step:
    """Shifts by halves where the shift is constant, as in addresses: half the time of 64 bits."""
    result, value, by, addend = decoded.operands
    vectors = [operand for operand in (value, addend) if operand.kind == "vgpr"]
    for operand in (result, value, addend):
        check_count(operand, 2)
    if by.kind != "constant" or decoded.encoding not in ("", "e64") or not vectors:
        return _shift_add_any(decoded, context)
    shift, row = constant_bits(by, "u32") & 7, result.first
    low_of, high_of = raw(value), raw(value, 1)
    low_addend_of, high_addend_of = raw(addend), raw(addend, 1)

    def step(waves: Waves) -> None:
        low, high = low_of(waves), high_of(waves)
        if shift:
            high = (high << U32(shift)) | (low >> U32(32 - shift))
            low = low << U32(shift)
        low_sum = low + low_addend_of(waves)
        # Before anything is written: the result's registers may be a source's.
        high_sum = high + high_addend_of(waves) + (low_sum < low)
        waves.write(row, low_sum)
        waves.write(row + 1, high_sum)

    return step


def _wide_multiply_add(decoded: Decoded, context: BuildContext, kind: str) -> Step:
    """V_MAD_U64_U32: D.64 = S0 * S1 + S2.64; bit 64 of the sum goes to a mask."""
    target, carry, first, second, third = decoded.operands
    carry_row = mask_row(carry, context.target)
    if decoded.flag("clamp"):
        raise NotCoveredError(f"{decoded.text}: clamp")
    narrow, wide = ("u32", "u64") if kind == "u" else ("i32", "i64")
    a, b = source(first, narrow), source(second, narrow)
    c = source(third, wide)
    write = destination(target, wide, context.target)
    dtype = U64 if kind == "u" else I64

    def step(waves: Waves) -> None:
        product, addend = np.multiply(a(waves), b(waves), dtype=dtype), c(waves)
        total = product + addend
        if not carry.is_null:
            if kind == "u":
                beyond = total < product
            else:  # the sign that the exact sum has
                overflow = ((product ^ total) & (addend ^ total)) < 0
                beyond = (total < 0) ^ overflow
            beyond = np.broadcast_to(beyond, (waves.count, waves.lanes))
            waves.set_mask(carry_row, beyond & waves.active)
        write(waves, total)

    return step


builds_as("v_mad_u64_u32 v_mad_co_u64_u32", _wide_multiply_add, "u")
builds_as("v_mad_i64_i32 v_mad_co_i64_i32", _wide_multiply_add, "i")


def bit_field(value: Array, start: Array, length: Array) -> Array:
    """V_BFE_U32: `length` (5 bits) bits from `start` on."""
    return (value >> low5(start)) & ((U32(1) << low5(length)) - U32(1))


def signed_bit_field(value: Array, start: Array, length: Array) -> Array:
    """V_BFE_I32: a bit field, sign-extended; 0 for length 0."""
    up = (U32(32) - low5(length)) & U32(31)
    moved = value.view(I32) >> low5(start).astype(I32)
    return np.where(low5(length) == 0, I32(0), (moved << up.astype(I32)) >> up.astype(I32))


def leading_zeros(value: Array) -> Array:
    """V_FFBH_U32: zeros above the highest set bit; -1 for 0."""
    exact = np.frexp(np.asarray(value).astype(np.float64))[1]
    return np.where(value == 0, I32(-1), (32 - exact).astype(I32))


def _leading_sign_bits(value: Array) -> Array:
    folded = np.where(value < 0, ~value, value).view(U32)
    return leading_zeros(folded)


def _trailing_zeros(value: Array) -> Array:
    low = value & (~value + U32(1))
    exact = np.frexp(np.asarray(low).astype(np.float64))[1]
    return np.where(value == 0, I32(-1), (exact - 1).astype(I32))


def _reversed(value: Array) -> Array:
    result = np.asarray(value)
    for step, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F)):
        part, by = U32(mask), U32(step)
        result = ((result >> by) & part) | ((result & part) << by)
    return np.ascontiguousarray(result).byteswap()


def _aligned(high: Array, low: Array, distance: Array) -> Array:
    """32 bits of high:low from bit `distance` on."""
    wide = (np.asarray(high).astype(U64) << U64(32)) | low
    return np.asarray((wide >> distance.astype(U64)).astype(U32))


def next_random(value: Array) -> Array:
    """V_PRNG_B32: a step of a shift register of 32 bits (CDNA4 ISA)."""
    return (value << U32(1)) ^ ((value >> U32(31)) * U32(197))


for _kind, _type in (("u16", "b16"), ("u32", "b32")):
    define_each(_kind, f"v_not_{_type}", 1, np.invert)
    define_each(_kind, f"v_and_{_type}", 2, np.bitwise_and)
    define_each(_kind, f"v_or_{_type}", 2, np.bitwise_or)
    define_each(_kind, f"v_xor_{_type}", 2, np.bitwise_xor)
define_each("u32", "v_xnor_b32", 2, lambda a, b: ~(a ^ b))
define_each("u32", "v_and_or_b32", 3, lambda a, b, c: (a & b) | c)
define_each("u32", "v_or3_b32", 3, lambda a, b, c: a | b | c)
define_each("u32", "v_xor3_b32", 3, lambda a, b, c: a ^ b ^ c)
define_each("u32", "v_bfrev_b32", 1, _reversed)
define("v_ffbh_u32 v_clz_i32_u32", "i32", "u32", leading_zeros)
define("v_ffbh_i32 v_cls_i32", "i32", "i32", _leading_sign_bits)
define("v_ffbl_b32 v_ctz_i32_b32", "i32", "u32", _trailing_zeros)
define_each("u32", "v_bcnt_u32_b32", 2, lambda a, b: np.bitwise_count(a).astype(U32) + b)
define_each("u32", "v_bfe_u32", 3, bit_field)
define("v_bfe_i32", "i32", "u32 u32 u32", signed_bit_field)
define_each("u32", "v_bfi_b32", 3, lambda a, b, c: (a & b) | (~a & c))
define_each("u32", "v_bfm_b32", 2, lambda a, b: ((U32(1) << low5(a)) - U32(1)) << low5(b))
define_each("u32", "v_alignbit_b32", 3, lambda a, b, c: _aligned(a, b, low5(c)))
define_each("u32", "v_alignbyte_b32", 3, lambda a, b, c: _aligned(a, b, (c & U32(3)) * U32(8)))
define_each("u32", "v_prng_b32", 1, next_random)


def _truth_table(decoded: Decoded, context: BuildContext, kind: str) -> Step:
    """V_BITOP3: bit a*4 + b*2 + c of the table is the result for bits a, b, c (CDNA4 ISA)."""
    table = decoded.number("bitop3")
    operands = decoded.operands[1:]
    if len(operands) == 2:  # the dual form has no third source
        operands = (*operands, Operand("constant", "0", integer=0))

    def compute(a: Array, b: Array, c: Array) -> Array:
        result = np.zeros_like(a & b & c)
        for row in range(8):
            if table >> row & 1:
                result = result | (
                    (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
                )
        return result

    return assemble(decoded, context, kind, (kind,) * 3, operands, compute)


builds_as("v_bitop3_b32 v_bitop2_b32", _truth_table, "u32")
builds_as("v_bitop3_b16", _truth_table, "u16")


def _lanes_below(decoded: Decoded, context: BuildContext, high: bool) -> Step:
    """V_MBCNT: S1 plus the set bits of S0 that belong to lanes below this one."""
    mask, base = (source(operand, "u32") for operand in decoded.operands[1:])
    write = destination(decoded.operands[0], "u32", context.target)
    lane = np.arange(context.target.lanes, dtype=np.int64) - (32 if high else 0)
    below = ((1 << np.clip(lane, 0, 32)) - 1).astype(U32)

    def value(waves: Waves) -> Array:
        return np.bitwise_count(mask(waves) & below).astype(U32) + base(waves)

    return ResultStep(value, write)


builds_as("v_mbcnt_lo_u32_b32", _lanes_below, high=False)
builds_as("v_mbcnt_hi_u32_b32", _lanes_below, high=True)


def permuted_bytes(high: Array, low: Array, selector: Array) -> Array:
    """V_PERM_B32: each byte of the selector picks one of the eight bytes of high:low.

    8 to 11 give the sign of byte 1, 3, 5, 7; 12 gives 0x00; 13 and more 0xff.
    """
    choices = _same_choices(selector)
    if choices is not None:
        return _moved_bytes(high, low, choices)
    both = (np.asarray(high).astype(U64) << U64(32)) | np.asarray(low)
    result = U32(0)
    for byte_index in range(4):
        choice = (selector >> U32(8 * byte_index)) & U32(0xFF)
        shift = (choice & U32(7)).astype(U64) * U64(8)
        byte = ((both >> shift) & U64(0xFF)).astype(U32)
        if np.max(choice) > 7:
            sign_at = (U64(16) * (choice & U32(3)).astype(U64)) + U64(15)
            sign = ((both >> sign_at) & U64(1)).astype(U32) * U32(0xFF)
            byte = np.where(choice < 8, byte, np.where(choice < 12, sign, U32(0xFF)))
            byte = np.where(choice == 12, U32(0), byte)
        result = result | (byte << U32(8 * byte_index))
    return np.asarray(result)


def _same_choices(selector: Array) -> tuple[int, ...] | None:
    """The bytes of a selector that is the same for all waves and picks no sign, lowest first."""
    values = np.asarray(selector)
    if values.ndim and values.shape[-1] != 1:
        return None
    first = int(values.flat[0])
    choices = tuple(first >> 8 * byte_index & 0xFF for byte_index in range(4))
    if any(8 <= choice < 12 for choice in choices) or (values != first).any():
        return None
    return choices


def _moved_bytes(high: Array, low: Array, choices: tuple[int, ...]) -> Array:
    """`permuted_bytes` by one shift and one mask for each run of neighbouring bytes."""
    result = U32(
        sum(0xFF << 8 * byte_index for byte_index, choice in enumerate(choices) if choice > 12)
    )
    begin = 0
    while begin < 4:
        choice, end = choices[begin], begin + 1
        if choice < 8:
            while end < 4 and choices[end] == choices[end - 1] + 1 != 4:
                end += 1
            source, by = (high if choice > 3 else low), 8 * (begin - choice % 4)
            moved = source << U32(by) if by >= 0 else source >> U32(-by)
            # Bits that the shift itself has dropped need no mask.
            if (begin > max(by // 8, 0)) or (end < 4 + min(by // 8, 0)):
                moved = moved & U32((1 << 8 * end) - (1 << 8 * begin))
            result = result | moved
        begin = end
    return np.asarray(result)


def _bytes_of(word: Array) -> list[Array]:
    return [(word >> U32(shift)) & U32(0xFF) for shift in (0, 8, 16, 24)]


def _distance(a: Array, b: Array) -> Array:
    return np.maximum(a, b) - np.minimum(a, b)


def byte_distances(a: Array, b: Array, *, masked: bool = False) -> Array:
    """V_SAD_U8 without its addend: the sum of bytes' distances; V_MSAD: where S1's is not 0."""
    total = np.asarray(U32(0))
    for left, right in zip(_bytes_of(a), _bytes_of(b), strict=True):
        part = _distance(left, right)
        total = total + (np.where(right == 0, U32(0), part) if masked else part)
    return np.asarray(total)


def byte_means(a: Array, b: Array, rounding: Array) -> Array:
    """V_LERP_U8: each byte's mean, rounded up where the lowest bit of S2's byte is set."""
    total = np.asarray(U32(0))
    parts = zip(_bytes_of(a), _bytes_of(b), _bytes_of(rounding), strict=True)
    for byte_index, (left, right, up) in enumerate(parts):
        total = total | ((left + right + (up & U32(1))) >> U32(1)) << U32(8 * byte_index)
    return np.asarray(total)


define_each("u32", "v_perm_b32", 3, permuted_bytes)
define_each("u32", "v_sad_u8", 3, lambda a, b, c: byte_distances(a, b) + c, saturates=True)
define_each("u32", "v_sad_hi_u8", 3, lambda a, b, c: (byte_distances(a, b) << U32(16)) + c,
            saturates=True)  # fmt: skip
define_each("u32", "v_msad_u8", 3, lambda a, b, c: byte_distances(a, b, masked=True) + c,
            saturates=True)  # fmt: skip
define_each("u32", "v_sad_u16", 3, lambda a, b, c: _distance(a & U32(0xFFFF), b & U32(0xFFFF))
            + _distance(a >> U32(16), b >> U32(16)) + c, saturates=True)  # fmt: skip
define_each("u32", "v_sad_u32", 3, lambda a, b, c: _distance(a, b) + c, saturates=True)
define_each("u32", "v_lerp_u8", 3, byte_means)


def _sliding_distances(
    decoded: Decoded, context: BuildContext, *, masked: bool, wide: bool
) -> Step:
    """V_QSAD_PK_U16_U8, V_MQSAD: four distances of S1 to the bytes of S0.64 from 0, 1, 2, 3 on."""
    target, window, pattern, addend = decoded.operands
    if decoded.flag("clamp"):
        raise NotCoveredError(decoded.text)
    wide_window, narrow_pattern = source(window, "u64"), source(pattern, "u32")
    addends = [raw(addend, row) for row in range(4 if wide else 2)]
    check_count(target, 4 if wide else 2)
    row = target.first

    def step(waves: Waves) -> None:
        bytes_, other = np.asarray(wide_window(waves)), narrow_pattern(waves)
        before = [np.array(read(waves)) for read in addends]
        sums = [
            byte_distances((bytes_ >> U64(8 * shift)).astype(U32), other, masked=masked)
            for shift in range(4)
        ]
        if wide:
            for number, total in enumerate(sums):
                waves.write(row + number, total + before[number])
            return
        for number in range(2):
            low = (sums[2 * number] + before[number]) & U32(0xFFFF)
            high = sums[2 * number + 1] + (before[number] >> U32(16))
            waves.write(row + number, low | (high << U32(16)))

    return step


builds_as("v_qsad_pk_u16_u8", _sliding_distances, masked=False, wide=False)
builds_as("v_mqsad_pk_u16_u8", _sliding_distances, masked=True, wide=False)
builds_as("v_mqsad_u32_u8", _sliding_distances, masked=True, wide=True)
