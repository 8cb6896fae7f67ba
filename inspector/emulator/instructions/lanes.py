"""Lane masks (`v_cmp*`, `v_cndmask`, adds with carry) and exchange between lanes: readlane, swap.

Permutations that pass through the LDS crossbar (bpermute) are in `lds.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from ...isa.dataflow.execution_target import ExecutionTarget
from ...isa.dataflow.operands import EXEC, VCC, Decoded, Operand
from .. import crosslane
from ..elementwise import ResultStep, flushing
from ..registry import BuildContext, NotCoveredError, Step, builds, builds_as, builds_matching
from ..vector_operands import Read, check_count, mask_row, raw, result_destination, source
from ..waves import U32, Array, Waves
from .scalar_operands import scalar_destination, scalar_source


def _values(read: Read, waves: Waves) -> Array:
    """An operand's values, [wave, lane], also where all lanes have the same one."""
    return np.broadcast_to(read(waves), (waves.count, waves.lanes))


def _scalars(read: Read, waves: Waves) -> Array:
    """A scalar operand's values, [wave], also where all waves have the same one."""
    return np.broadcast_to(read(waves), (waves.count,))


def _first_lanes(lanes: Array, *, other_row: bool) -> Array:
    """The first lane of each lane's row of 16, or of the neighbouring row."""
    return (lanes & ~15) ^ (16 if other_row else 0)


@builds("v_readfirstlane_b32")
def read_first_lane(decoded: Decoded, context: BuildContext) -> Step:
    """The value of the lowest active lane; of lane 0 where none is active."""
    read = raw(decoded.operands[1])
    write = scalar_destination(decoded.operands[0], "u32")

    def step(waves: Waves) -> None:
        values = _values(read, waves)
        if waves.full:
            write(waves, values[:, 0])
        else:
            write(waves, values[np.arange(waves.count), waves.active.argmax(1)])

    return step


@builds("v_readlane_b32")
def read_lane(decoded: Decoded, context: BuildContext) -> Step:
    """The value of one lane, active or not."""
    read = raw(decoded.operands[1])
    lane = scalar_source(decoded.operands[2], "u32")
    write = scalar_destination(decoded.operands[0], "u32")

    def step(waves: Waves) -> None:
        chosen = _scalars(lane, waves) & U32(waves.lanes - 1)
        values = _values(read, waves)
        write(waves, values[np.arange(waves.count), chosen])

    return step


@builds("v_writelane_b32")
def write_lane(decoded: Decoded, context: BuildContext) -> Step:
    """Writes a scalar to one lane, active or not."""
    check_count(decoded.operands[0], 1)
    row = decoded.operands[0].first
    value = scalar_source(decoded.operands[1], "u32")
    lane = scalar_source(decoded.operands[2], "u32")

    def step(waves: Waves) -> None:
        chosen = _scalars(lane, waves) & U32(waves.lanes - 1)
        waves.u32[row][np.arange(waves.count), chosen] = value(waves)

    return step


def _row_permutation(decoded: Decoded, context: BuildContext, *, other_row: bool) -> Step:
    """V_PERMLANE16, V_PERMLANEX16: lane i of a row reads the lane that nibble i of S2:S1 names."""
    target, data, low, high = decoded.operands
    read = raw(data)
    selectors = [scalar_source(operand, "u32") for operand in (low, high)]
    lanes = np.arange(context.target.lanes)
    lane_in_row = (lanes & 15).astype(U32)
    row = _first_lanes(lanes, other_row=other_row)

    def origin(waves: Waves) -> Array:
        words = [_scalars(selector, waves)[:, None] for selector in selectors]
        word = np.where(lane_in_row < 8, words[0], words[1])
        return row + ((word >> (U32(4) * (lane_in_row & U32(7)))) & U32(15)).astype(np.int64)

    return _exchange(decoded, target, read, origin)


def _exchange(decoded: Decoded, target: Operand, read: Read, origin: Read) -> Step:
    """Lanes take the values of those that `origin` names, int64 [wave, lane].

    op_sel: bit 0 reads idle lanes too (FI), bit 1 gives 0 for them (BOUND_CTRL); with neither, a
    lane that would read an idle one keeps its value, as with DPP (RDNA3 ISA, 16.12).
    """
    check_count(target, 1)
    fetch_idle, zero_idle = decoded.bits("op_sel", 2)[:2]

    def step(waves: Waves) -> None:
        places = origin(waves)
        values = _values(read, waves)
        moved = np.take_along_axis(values, places, 1)
        if waves.full or fetch_idle:
            waves.write(target.first, moved)
            return
        usable = np.take_along_axis(waves.active, places, 1)
        if zero_idle:
            waves.write(target.first, np.where(usable, moved, U32(0)))
        else:
            # As a mask of bits: minus 1 is all ones.
            written = waves.bits & np.negative(usable.astype(U32))
            waves.write_where(target.first, moved, written)

    return step


builds_as("v_permlane16_b32", _row_permutation, other_row=False)
builds_as("v_permlanex16_b32", _row_permutation, other_row=True)


def _chosen_in_row(decoded: Decoded, context: BuildContext, *, other_row: bool) -> Step:
    """V_PERMLANE16_VAR, V_PERMLANEX16_VAR: each lane names its source in bits 3:0 of S1."""
    target, data, choice = decoded.operands
    read, choose = raw(data), raw(choice)
    lanes = np.arange(context.target.lanes)
    row = _first_lanes(lanes, other_row=other_row)

    def origin(waves: Waves) -> Array:
        chosen = _values(choose, waves) & U32(15)
        return row + chosen.astype(np.int64)

    return _exchange(decoded, target, read, origin)


builds_as("v_permlane16_var_b32", _chosen_in_row, other_row=False)
builds_as("v_permlanex16_var_b32", _chosen_in_row, other_row=True)


@builds("v_permlane64_b32")
def other_half(decoded: Decoded, context: BuildContext) -> Step:
    """V_PERMLANE64: the two halves of the wave change places."""
    read = raw(decoded.operands[1])
    origin = np.arange(context.target.lanes) ^ 32
    check_count(decoded.operands[0], 1)
    row = decoded.operands[0].first

    def step(waves: Waves) -> None:
        if waves.lanes == 64:
            values = _values(read, waves)
            waves.write(row, values[:, origin])

    return step


def _two_rows(decoded: Decoded) -> tuple[int, int]:
    """The rows of two operands of one register each."""
    first, second = decoded.operands
    for operand in (first, second):
        check_count(operand, 1)
    return first.first, second.first


def _swap(decoded: Decoded, context: BuildContext, width: int) -> Step:
    """V_PERMLANE16_SWAP, V_PERMLANE32_SWAP: odd rows of D change places with even rows of S0.

    Rows have `width` lanes (CDNA4 ISA, V_PERMLANE32_SWAP_B32). The document is silent on EXEC: a
    pair of lanes of which one is idle is refused.
    """
    first, second = _two_rows(decoded)
    lanes = np.arange(context.target.lanes)
    odd = (lanes // width) % 2 == 1
    other = lanes ^ width

    def step(waves: Waves) -> None:
        if not waves.full and (waves.active != waves.active[:, other]).any():
            raise NotCoveredError(f"{decoded.text} with one lane of a pair idle")
        first_values, second_values = waves.u32[first].copy(), waves.u32[second].copy()
        waves.write(first, np.where(odd, second_values[:, other], first_values))
        waves.write(second, np.where(odd, second_values, first_values[:, other]))

    return step


builds_as("v_permlane16_swap_b32", _swap, 16)
builds_as("v_permlane32_swap_b32", _swap, 32)


@builds("v_swap_b32")
def swap(decoded: Decoded, context: BuildContext) -> Step:
    """Two registers change places."""
    first, second = _two_rows(decoded)

    def step(waves: Waves) -> None:
        first_values, second_values = waves.u32[first].copy(), waves.u32[second].copy()
        waves.write(first, second_values)
        waves.write(second, first_values)

    return step


@builds("v_swap_b16")
def swap_halves(decoded: Decoded, context: BuildContext) -> Step:
    """`v_swap_b16 v1.l, v2.h`: two halves of registers change places."""
    if any(operand.half is None for operand in decoded.operands):
        raise NotCoveredError(decoded.text)
    rows = [operand.first for operand in decoded.operands]
    shifts = [U32(16 * (operand.half or 0)) for operand in decoded.operands]

    def step(waves: Waves) -> None:
        first_half, second_half = (
            (waves.u32[r] >> s) & U32(0xFFFF) for r, s in zip(rows, shifts, strict=True)
        )
        for row, shift, value in zip(rows, shifts, (second_half, first_half), strict=True):
            kept_half = waves.u32[row] & ~(U32(0xFFFF) << shift)
            waves.write(row, kept_half | (value << shift))

    return step


_COMPARE = re.compile(r"v_cmp(x?)_(\w+?)_(f16|f32|f64|bf16|[iu]16|[iu]32|[iu]64)")


def _ordered(a: Array, b: Array) -> Array:
    return ~(np.isnan(a) | np.isnan(b))


# Comparison, as mnemonics name it -> test; `n` in front negates, and is true for unordered (NaN).
COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "f": lambda a, b: np.zeros(np.broadcast_shapes(np.shape(a), np.shape(b)), bool),
    "t": lambda a, b: np.ones(np.broadcast_shapes(np.shape(a), np.shape(b)), bool),
    "tru": lambda a, b: np.ones(np.broadcast_shapes(np.shape(a), np.shape(b)), bool),
    "lt": np.less, "eq": np.equal, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "ne": np.not_equal, "neq": np.not_equal,
    "lg": lambda a, b: (a < b) | (a > b),
    "o": _ordered,
    "u": lambda a, b: ~_ordered(a, b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "nlt": lambda a, b: ~(a < b),
}  # fmt: skip


def in_class(value: Array, classes: Array, kind: str) -> Array:
    """Returns whether a float is in one of some classes, given as a bit mask.

    From bit 0 on: signalling NaN, quiet NaN, -inf, -normal, -denormal, -0, +0, +denormal, +normal,
    +inf (CDNA3 ISA, V_CMP_CLASS_F32).

    `value`: floats; float32 for `f16` too.
    """
    # f16 comes as float32, of which its denormals are normal numbers.
    smallest_normal = {"f16": 2.0**-14, "f32": 2.0**-126, "f64": 2.0**-1022}[kind]
    word = value.view(np.uint64 if kind == "f64" else np.uint32)
    quiet_bit = (word >> word.dtype.type(51 if kind == "f64" else 22)) & word.dtype.type(1)
    negative, size = np.signbit(value), np.abs(value)
    index = np.select(
        [np.isnan(value), np.isinf(value), value == 0, size < smallest_normal],
        [
            quiet_bit.astype(np.int64),
            np.where(negative, 2, 9),
            np.where(negative, 5, 6),
            np.where(negative, 4, 7),
        ],
        np.where(negative, 3, 8),
    )
    return ((classes >> index.astype(U32)) & U32(1)).astype(bool)


@builds_matching(r"v_cmpx?_\w+")
def compare(decoded: Decoded, context: BuildContext) -> Step:
    """Sets a lane mask: VCC, the SGPRs named, or EXEC (`v_cmpx`). Idle lanes' bits become 0."""
    match = _COMPARE.fullmatch(decoded.name)
    if match is None:
        raise NotCoveredError(decoded.text)
    is_cmpx, name, kind = match.groups()
    if name != "class" and name not in COMPARE:
        raise NotCoveredError(decoded.text)
    row = EXEC
    sources = decoded.operands
    if len(sources) == 3:
        row, sources = mask_row(sources[0], context.target), sources[1:]
    first, second = _compared(decoded, context, sources, name, kind)
    test: Callable[[Array, Array], Array] = COMPARE.get(
        name, lambda value, classes: in_class(np.asarray(value), classes, kind)
    )
    also_exec = bool(is_cmpx) and row != EXEC
    dpp_lanes = crosslane.written(decoded, context.target)

    def step(waves: Waves) -> None:
        mask = test(first(waves), second(waves))
        if mask.shape != (waves.count, waves.lanes):
            mask = np.broadcast_to(mask, (waves.count, waves.lanes))
        if dpp_lanes is not None:
            mask = mask & dpp_lanes(waves).astype(bool)
        elif not waves.full:
            mask = mask & waves.active
        waves.set_mask(row, mask)
        if also_exec:
            waves.set_mask(EXEC, mask)

    return step


def _compared(
    decoded: Decoded, context: BuildContext, sources: Sequence[Operand], name: str, kind: str
) -> tuple[Read, Read]:
    """The two sources of a comparison, with denormals flushed as the mode has it."""
    is_class = name == "class"
    kinds = (kind, "u32" if is_class else kind)
    halves = decoded.numbers("op_sel", (0, 0, 0))
    # A class is that of the bits as they are.
    flush = None if is_class else flushing(kind, context.target)

    def read_of(index: int) -> Read:
        before = crosslane.source_change(decoded, sources[index], index, context.target)
        read = source(sources[index], kinds[index], half=halves[index], before=before)
        return read if flush is None else lambda waves: flush(read(waves))

    return read_of(0), read_of(1)


def mask_operand(operand: Operand | None, target: ExecutionTarget) -> Callable[[Waves], Array]:
    """A lane mask as bool [wave, lane]: VCC where none is named, SGPRs, or a constant's bits."""
    if operand is None:
        return lambda waves: waves.mask(VCC)
    if operand.kind == "sgpr":
        row = mask_row(operand, target)
        return lambda waves: waves.mask(row)
    if operand.kind == "constant" and operand.integer in (0, -1):
        value = np.array(bool(operand.integer))
        return lambda waves: value
    raise NotCoveredError(f"mask {operand.text}")


def _select(decoded: Decoded, context: BuildContext, kind: str) -> Step:
    """`v_cndmask`: the second source where the mask is set, else the first."""
    _, first, second, *masks = decoded.operands
    halves = decoded.numbers("op_sel", (0, 0, 0, 0))
    where_clear, where_set = (
        source(
            operand,
            kind,
            half=halves[index],
            before=crosslane.source_change(decoded, operand, index, context.target),
        )
        for index, operand in enumerate((first, second))
    )
    mask = mask_operand(masks[0] if masks else None, context.target)
    write = result_destination(decoded, kind, context.target, half=halves[-1])
    return ResultStep(
        lambda waves: np.where(mask(waves), where_set(waves), where_clear(waves)), write
    )


builds_as("v_cndmask_b32 v_dual_cndmask_b32", _select, "f32")
builds_as("v_cndmask_b16", _select, "u16")


def _carry(decoded: Decoded, context: BuildContext, operation: str, *, reads_carry: bool) -> Step:
    """32-bit `add`, `sub` or `subrev` with carry out into a lane mask, and in from one."""
    _, carry_out, first, second, *carry_in = decoded.operands
    read_first, read_second = (
        source(
            operand, "u32", before=crosslane.source_change(decoded, operand, index, context.target)
        )
        for index, operand in enumerate((first, second))
    )
    carried = carry_in[0] if carry_in else None
    read_carry = mask_operand(carried, context.target) if reads_carry else None
    write = result_destination(decoded, "u32", context.target)
    dpp_lanes = crosslane.written(decoded, context.target)
    carry_row = mask_row(carry_out, context.target)
    clamp = decoded.flag("clamp")

    def step(waves: Waves) -> None:
        left = np.asarray(read_first(waves)).astype(np.int64)
        right = np.asarray(read_second(waves)).astype(np.int64)
        if operation == "subrev":
            left, right = right, left
        carry = np.int64(0) if read_carry is None else read_carry(waves).astype(np.int64)
        total = left + right + carry if operation == "add" else left - right - carry
        overflows = np.broadcast_to((total < 0) | (total > 0xFFFFFFFF), (waves.count, waves.lanes))
        lanes = waves.active if dpp_lanes is None else dpp_lanes(waves).astype(bool)
        waves.set_mask(carry_row, overflows & lanes)
        if clamp:
            total = np.clip(total, 0, 0xFFFFFFFF)
        write(waves, np.asarray(total).astype(U32))

    return step


builds_as("v_add_co_u32", _carry, "add", reads_carry=False)
builds_as("v_sub_co_u32", _carry, "sub", reads_carry=False)
builds_as("v_subrev_co_u32", _carry, "subrev", reads_carry=False)
builds_as("v_addc_co_u32 v_add_co_ci_u32", _carry, "add", reads_carry=True)
builds_as("v_subb_co_u32 v_sub_co_ci_u32", _carry, "sub", reads_carry=True)
builds_as("v_subbrev_co_u32 v_subrev_co_ci_u32", _carry, "subrev", reads_carry=True)
