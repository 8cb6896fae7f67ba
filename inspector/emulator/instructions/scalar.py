"""Scalar integer arithmetic, comparisons, moves and writes of EXEC: one value per wave.

Source: CDNA3 ISA, 12.1 to 12.5; RDNA3 ISA, 16.1 to 16.5.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...isa.dataflow.operands import EXEC, Decoded
from ..registry import BuildContext, Step, builds, builds_as
from ..waves import ALL, I32, U32, Array, Waves
from .scalar_operands import (
    define_scalar,
    low5,
    low6,
    scalar_destination,
    scalar_source,
    with_short_immediate,
)

Compute = Callable[[Array, Array], Array]
U64 = np.uint64
I64 = np.int64


@builds("s_getpc_b64", "s_get_pc_i64")
def program_counter(decoded: Decoded, context: BuildContext) -> Step:
    """The next instruction's index: there are no addresses here."""
    write = scalar_destination(decoded.operands[0], "u64")
    next_index = np.uint64(context.index + 1)
    return lambda waves: write(waves, np.full(waves.count, next_index))


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


define_scalar("s_mov_b32 s_movk_i32", "u32", "u32", lambda a: a)
define_scalar("s_mov_b64", "u64", "u64", lambda a: a)
define_scalar("s_add_u32 s_add_co_u32", "u32", "u32 u32", _add, "own")
define_scalar("s_sub_u32 s_sub_co_u32", "u32", "u32 u32", _sub, "own")
define_scalar(
    "s_add_i32 s_addk_i32 s_add_co_i32 s_addk_co_i32", "i32", "i32 i32", _add_signed, "own"
)
define_scalar("s_sub_i32 s_sub_co_i32", "i32", "i32 i32", _sub_signed, "own")
define_scalar("s_mul_i32 s_mulk_i32", "u32", "u32 u32", lambda a, b: np.multiply(a, b, dtype=U32))
define_scalar(
    "s_mul_hi_u32", "u32", "u32 u32",
    lambda a, b: (np.multiply(a, b, dtype=U64) >> U64(32)).astype(U32),
)  # fmt: skip
define_scalar(
    "s_mul_hi_i32", "i32", "i32 i32",
    lambda a, b: (np.multiply(a, b, dtype=I64) >> I64(32)).astype(I32),
)  # fmt: skip
define_scalar("s_mul_u64", "u64", "u64 u64", lambda a, b: np.multiply(a, b, dtype=U64))
define_scalar("s_add_u64 s_add_nc_u64", "u64", "u64 u64", lambda a, b: np.add(a, b, dtype=U64))
define_scalar("s_sub_u64 s_sub_nc_u64", "u64", "u64 u64", lambda a, b: np.subtract(a, b, dtype=U64))
define_scalar("s_lshl_b32", "u32", "u32 u32", lambda a, b: a << low5(b), "nonzero")
define_scalar("s_lshr_b32", "u32", "u32 u32", lambda a, b: a >> low5(b), "nonzero")
define_scalar("s_ashr_i32", "i32", "i32 u32", lambda a, b: a >> low5(b).astype(I32), "nonzero")
define_scalar("s_lshl_b64", "u64", "u64 u32", lambda a, b: a << low6(b), "nonzero")
define_scalar("s_lshr_b64", "u64", "u64 u32", lambda a, b: a >> low6(b), "nonzero")
define_scalar("s_ashr_i64", "i64", "i64 u32", lambda a, b: a >> low6(b).astype(I64), "nonzero")
for _by in (1, 2, 3, 4):
    define_scalar(
        f"s_lshl{_by}_add_u32", "u32", "u32 u32",
        lambda a, b, by=_by: (
            (wide := (a.astype(U64) << U64(by)) + b).astype(U32), wide > U64(ALL)
        ),
        "own",
    )  # fmt: skip
define_scalar("s_bfm_b64", "u64", "u32 u32", lambda a, b: ((U64(1) << low6(a)) - U64(1)) << low6(b))
define_scalar(
    "s_absdiff_i32", "i32", "i32 i32",
    lambda a, b: np.abs(np.subtract(a, b, dtype=I32)), "nonzero",
)  # fmt: skip
define_scalar("s_min_i32", "i32", "i32 i32", lambda a, b: (np.minimum(a, b), a < b), "own")
define_scalar("s_max_i32", "i32", "i32 i32", lambda a, b: (np.maximum(a, b), a >= b), "own")
define_scalar("s_min_u32", "u32", "u32 u32", lambda a, b: (np.minimum(a, b), a < b), "own")
define_scalar("s_max_u32", "u32", "u32 u32", lambda a, b: (np.maximum(a, b), a >= b), "own")
define_scalar("s_abs_i32", "i32", "i32", np.abs, "nonzero")


def _with_carry(decoded: Decoded, context: BuildContext, *, subtract: bool) -> Step:
    """32-bit sum or difference with SCC as carry, in and out."""
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


builds_as("s_addc_u32 s_add_co_ci_u32", _with_carry, subtract=False)
builds_as("s_subb_u32 s_sub_co_ci_u32", _with_carry, subtract=True)


def _select(decoded: Decoded, context: BuildContext, kind: str) -> Step:
    """S_CSELECT: the first source where SCC is set, else the second."""
    first, second = (scalar_source(operand, kind) for operand in decoded.operands[1:])
    write = scalar_destination(decoded.operands[0], kind)
    return lambda waves: write(waves, np.where(waves.scc, first(waves), second(waves)))


builds_as("s_cselect_b32", _select, "u32")
builds_as("s_cselect_b64", _select, "u64")


def _conditional_move(decoded: Decoded, context: BuildContext, kind: str) -> Step:
    """S_CMOV: the destination changes where SCC is set."""
    decoded = with_short_immediate(decoded)
    target = decoded.operands[0]
    read = scalar_source(decoded.operands[1], kind)
    before = scalar_source(target, kind)
    write = scalar_destination(target, kind)
    return lambda waves: write(waves, np.where(waves.scc, read(waves), before(waves)))


builds_as("s_cmovk_i32 s_cmov_b32", _conditional_move, "u32")
builds_as("s_cmov_b64", _conditional_move, "u64")


COMPARISONS: dict[str, Compute] = {
    "eq": np.equal, "lg": np.not_equal, "ne": np.not_equal, "gt": np.greater,
    "ge": np.greater_equal, "lt": np.less, "le": np.less_equal,
}  # fmt: skip


def _comparison(decoded: Decoded, context: BuildContext, name: str, kind: str) -> Step:
    """S_CMP: SCC becomes the outcome."""
    compare = COMPARISONS[name]

    decoded = with_short_immediate(decoded)
    first, second = (scalar_source(operand, kind) for operand in decoded.operands)

    def step(waves: Waves) -> None:
        outcome = compare(first(waves), second(waves))
        waves.scc = np.broadcast_to(outcome, waves.scc.shape).copy()

    return step


for _name in COMPARISONS:
    for _kind in ("i32", "u32", "u64", "i64"):
        _words = [f"s_cmp_{_name}_{_kind}"]
        if _kind.endswith("32"):
            _words.append(f"s_cmpk_{_name}_{_kind}")
        builds_as(" ".join(_words), _comparison, _name, _kind)


def _exec_operation(
    decoded: Decoded, context: BuildContext, compute: Compute, kind: str, *, saves: bool
) -> Step:
    """EXEC = compute(S0, EXEC); SCC = EXEC != 0; D = EXEC, with `saves` that from before."""
    read = scalar_source(decoded.operands[1], kind)
    write = scalar_destination(decoded.operands[0], kind)

    def step(waves: Waves) -> None:
        before = waves.pair(EXEC) if kind == "u64" else waves.scalar[EXEC].copy()
        after = np.broadcast_to(compute(read(waves), before), before.shape).copy()
        if saves:
            write(waves, before)
        if kind == "u64":
            waves.set_pair(EXEC, after)
        else:
            waves.scalar[EXEC] = after
        if not saves:
            write(waves, after)
        waves.scc = after != 0
        waves.exec_changed()

    return step


_EXEC_OPERATIONS: dict[str, Compute] = {
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
for _names, _compute in _EXEC_OPERATIONS.items():
    for _bits in ("32", "64"):
        for _what in ("saveexec", "wrexec") if _names.startswith("andn") else ("saveexec",):
            _forms = " ".join(f"s_{name}_{_what}_b{_bits}" for name in _names.split())
            _saves = _what == "saveexec"
            builds_as(_forms, _exec_operation, _compute, "u" + _bits, saves=_saves)
