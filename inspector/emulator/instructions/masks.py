"""Vector comparisons and what reads lane masks: `v_cmp*`, `v_cndmask`, carries."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from .. import crosslane
from ..access import Assignment, NotCoveredError, Read, destination, flushing, source
from ..operands import EXEC, VCC, Decoded, Operand
from ..registry import Builder, Context, Step, builds, builds_matching
from ..waves import U32, Array, Waves

_COMPARE = re.compile(r"v_cmp(x?)_(\w+?)_(f16|f32|f64|bf16|[iu]16|[iu]32|[iu]64)")


def _ordered(a: Array, b: Array) -> Array:
    return ~(np.isnan(a) | np.isnan(b))


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


def in_class(value: Array, wanted: Array, kind: str) -> Array:
    """Whether a float is in one of the classes whose bits are set.

    From bit 0 on: signalling NaN, quiet NaN, -inf, -normal, -denormal, -0, +0, +denormal, +normal,
    +inf (CDNA3 ISA, V_CMP_CLASS_F32).
    """
    # f16 comes as float32, of which its denormals are normal numbers.
    small = {"f16": 2.0**-14, "f32": 2.0**-126, "f64": 2.0**-1022}[kind]
    negative, size = np.signbit(value), np.abs(value)
    nan = np.isnan(value)
    word = value.view(np.uint64 if kind == "f64" else np.uint32)
    quiet = (word >> word.dtype.type(51 if kind == "f64" else 22)) & word.dtype.type(1)
    index = np.where(
        nan,
        quiet.astype(np.int64),
        np.where(
            np.isinf(value),
            np.where(negative, 2, 9),
            np.where(
                value == 0,
                np.where(negative, 5, 6),
                np.where(size < small, np.where(negative, 4, 7), np.where(negative, 3, 8)),
            ),
        ),
    )
    return ((wanted >> index.astype(U32)) & U32(1)).astype(bool)


def _before(
    decoded: Decoded, context: Context, at: int, operand: Operand
) -> crosslane.Change | None:
    """What DPP or SDWA do to a source's bits."""
    if decoded.encoding == "sdwa":
        return crosslane.byte_select(decoded, operand, f"src{at}_sel")
    return crosslane.first_operand(decoded, context.target) if at == 0 else None


def _flushed(read: Read, flush: Callable[[Array], Array] | None) -> Read:
    return read if flush is None else lambda waves: flush(read(waves))


@builds_matching(r"v_cmpx?_\w+")
def compare(decoded: Decoded, context: Context) -> Step:
    """Sets a lane mask: VCC, the SGPRs named, or EXEC (`v_cmpx`). Idle lanes' bits become 0."""
    match = _COMPARE.fullmatch(decoded.name)
    if match is None:
        raise NotCoveredError(decoded.text)
    to_exec, name, kind = match.groups()
    if name != "class" and name not in COMPARE:
        raise NotCoveredError(decoded.text)
    operands = decoded.operands
    row = EXEC
    named: Operand | None = None
    if len(operands) == 3:
        named, *operands = operands  # type: ignore[assignment]
        row = named.first
    halves = decoded.numbers("op_sel", (0, 0, 0))
    kinds = (kind, "u32" if name == "class" else kind)
    # A class is that of the bits as they are.
    flush = None if name == "class" else flushing(kind, context.target)
    first, second = (
        _flushed(
            source(
                operands[at],
                kinds[at],
                half=halves[at],
                before=_before(decoded, context, at, operands[at]),
            ),
            flush,
        )
        for at in (0, 1)
    )
    test: Callable[[Array, Array], Array] = COMPARE.get(
        name, lambda a, b: in_class(np.asarray(a), b, kind)
    )
    also_exec = bool(to_exec) and row != EXEC
    written = crosslane.written(decoded, context.target)

    def step(waves: Waves) -> None:
        outcome = test(first(waves), second(waves))
        outcome = np.broadcast_to(outcome, (waves.count, waves.lanes))
        if written is not None:
            outcome = outcome & written(waves).astype(bool)
        elif not waves.full:
            outcome = outcome & waves.active
        waves.set_mask(row, outcome)
        if also_exec:
            waves.set_mask(EXEC, outcome)

    return step


def mask_operand(operand: Operand | None) -> Callable[[Waves], Array]:
    """A lane mask as bool [wave, lane]: VCC where none is named, SGPRs, or a constant's bits."""
    if operand is None:
        return lambda waves: waves.mask(VCC)
    if operand.kind == "sgpr":
        row = operand.first
        return lambda waves: waves.mask(row)
    if operand.kind == "constant" and operand.integer in (0, -1):
        value = np.array(bool(operand.integer))
        return lambda waves: value
    raise NotCoveredError(f"mask {operand.text}")


def _select(kind: str) -> Builder:
    def build(decoded: Decoded, context: Context) -> Step:
        halves = decoded.numbers("op_sel", (0, 0, 0, 0))
        before = crosslane.first_operand(decoded, context.target)
        if decoded.encoding == "sdwa":
            before = crosslane.byte_select(decoded, decoded.operands[1], "src0_sel")
        low = source(decoded.operands[1], kind, half=halves[0], before=before)
        high = source(
            decoded.operands[2],
            kind,
            half=halves[1],
            before=crosslane.byte_select(decoded, decoded.operands[2], "src1_sel")
            if decoded.encoding == "sdwa"
            else None,
        )
        mask = mask_operand(decoded.operands[3] if len(decoded.operands) > 3 else None)
        if decoded.encoding == "sdwa":
            write = crosslane.byte_destination(decoded, kind)
        else:
            lanes = crosslane.written(decoded, context.target)
            write = destination(
                decoded.operands[0], kind, context.target, half=halves[-1], lanes=lanes
            )
        return Assignment(lambda waves: np.where(mask(waves), high(waves), low(waves)), write)

    return build


builds("v_cndmask_b32", "v_dual_cndmask_b32")(_select("f32"))
builds("v_cndmask_b16")(_select("u16"))


def _carry(form: str, *, reads_carry: bool) -> Builder:
    """32-bit add or subtract with carry out into a lane mask, and in from one."""

    def build(decoded: Decoded, context: Context) -> Step:
        target, carry_out, first, second, *carry_in = decoded.operands
        a, b = (
            source(operand, "u32", before=_before(decoded, context, at, operand))
            for at, operand in enumerate((first, second))
        )
        taken = mask_operand(carry_in[0] if carry_in else None) if reads_carry else None
        written = crosslane.written(decoded, context.target)
        if decoded.encoding == "sdwa":
            write = crosslane.byte_destination(decoded, "u32")
        else:
            write = destination(target, "u32", context.target, lanes=written)
        row = carry_out.first
        clamp = decoded.flag("clamp")

        def step(waves: Waves) -> None:
            left = np.asarray(a(waves)).astype(np.int64)
            right = np.asarray(b(waves)).astype(np.int64)
            if form == "subrev":
                left, right = right, left
            carry = np.int64(0) if taken is None else taken(waves).astype(np.int64)
            total = left + right + carry if form == "add" else left - right - carry
            outcome = (total < 0) | (total > 0xFFFFFFFF)
            outcome = np.broadcast_to(outcome, (waves.count, waves.lanes))
            active = waves.active if written is None else written(waves).astype(bool)
            waves.set_mask(row, outcome & active)
            if clamp:
                total = np.clip(total, 0, 0xFFFFFFFF)
            write(waves, np.asarray(total).astype(U32))

        return step

    return build


builds("v_add_co_u32")(_carry("add", reads_carry=False))
builds("v_sub_co_u32")(_carry("sub", reads_carry=False))
builds("v_subrev_co_u32")(_carry("subrev", reads_carry=False))
builds("v_addc_co_u32", "v_add_co_ci_u32")(_carry("add", reads_carry=True))
builds("v_subb_co_u32", "v_sub_co_ci_u32")(_carry("sub", reads_carry=True))
builds("v_subbrev_co_u32", "v_subrev_co_ci_u32")(_carry("subrev", reads_carry=True))
