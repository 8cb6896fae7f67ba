"""Atomic instructions on global memory, buffers, flat addresses and LDS.

Sources: those of `atomic_operations`, which holds what they compute.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from ...isa.dataflow.effects import returns_value
from ...isa.dataflow.operands import M0, Decoded, Operand
from ..delivery import deliver, issue
from ..machine import LaneAccess, picked
from ..registry import BuildContext, NotCoveredError, Step, builds, builds_matching
from ..vector_operands import check_count
from ..waves import U32, Array, Waves
from .atomic_operations import AtomicOperation, apply, operation_of, values_of, words_of
from .buffers import buffer_addresses
from .lds import pair_offsets, single_offset
from .spaces import (
    Addresses,
    access_of,
    flat_addresses,
    flat_parts,
    in_lds,
    lds_places,
    usable_lanes,
)


def _operands(rows: list[int], access: LaneAccess, operation: AtomicOperation) -> list[Array]:
    """Returns the operands of the usable lanes, one value of the operation's type for each."""
    words, lanes = access.waves.u32, access.lanes
    return [
        values_of(
            np.stack([picked(words[row + word], lanes) for word in range(access.size // 4)])
        ).view(operation.dtype)
        for row in rows
    ]


def _in_memory(access: LaneAccess, operands: list[Array], operation: AtomicOperation) -> Array:
    """Works on addresses of global memory; returns the values before each lane's turn."""
    machine, size = access.waves.machine, access.size
    outside = machine.outside(access.site)

    def work() -> Array:
        check_alignment(access)
        return apply(
            lambda places: values_of(machine.memory.read(places, size, outside)),
            lambda places, new: machine.memory.write(places, words_of(new), size, outside),
            picked(access.where, access.lanes),
            operands,
            operation,
        )

    before: Array = machine.atomic_global(access, work)
    return before


def _in_lds(access: LaneAccess, operands: list[Array], operation: AtomicOperation) -> Array:
    """Works on offsets in all workgroups' LDS; returns what `_in_memory` does."""
    machine, size = access.waves.machine, access.size
    words = machine.local.words

    def work() -> Array:
        return apply(
            lambda places: values_of(words.gather(places, size)),
            lambda places, new: words.scatter(places, words_of(new), size),
            picked(access.where, access.lanes),
            operands,
            operation,
        )

    check_alignment(access)
    before: Array = machine.atomic_lds(access, work)
    return before


def check_alignment(access: LaneAccess) -> None:
    """Atomics want addresses that are multiples of their size, whatever the alignment mode.

    LLVM's AtomicExpand never makes others. A workgroup's LDS begins at a multiple of 16.
    """
    site, waves, where, usable, size, _ = access
    odd = where & (size - 1)
    if odd.any() and (usable is None or (odd[usable] != 0).any()):
        wrong = odd != 0 if usable is None else (odd != 0) & usable
        waves.machine.misaligned(
            site, int(where[wrong][0]), size, "an atomic needs a multiple of its size"
        )


def spread(waves: Waves, before: Array, chosen: Array | None) -> Array:
    """Results of some lanes as registers, uint32 [register, wave, lane]; the others 0."""
    words = words_of(before)
    shape = (len(words), waves.count, waves.lanes)
    if chosen is None:
        return words.reshape(shape)
    rows = np.zeros(shape, U32)
    rows.reshape(len(words), -1)[:, chosen] = words
    return rows


_GLOBAL: Final = re.compile(
    r"(global|flat|buffer)_atomic_(?P<name>pk_add|f?cmpswap|swap|add|sub|[suf]?min(?:_num)?"
    r"|[suf]?max(?:_num)?|and|or|xor|inc|dec|csub|sub_clamp|cond_sub)"
    r"(?:_(?P<kind>f16|bf16|f32|f64|u32|u64|i32|i64|b32|b64))?(?P<x2>_x2)?"
)


@builds_matching(r"(global|flat|buffer)_atomic_\w+")
def global_atomic(decoded: Decoded, context: BuildContext) -> Step:
    """`global_atomic_add v0, v[1:2], v3, off sc0`, `buffer_atomic_add v0, v1, s[0:3], 0 offen`."""
    match = _GLOBAL.fullmatch(decoded.name)
    if match is None:
        raise NotCoveredError(decoded.text)
    kind = match["kind"] or ""
    wide = bool(match["x2"]) or kind.endswith("64")
    size = 8 if wide else 4
    operation = operation_of(match["name"], kind, context.target, wide=wide, in_lds=False)
    returns = returns_value(decoded)
    target, data, addresses = _global_operands(decoded, context, size, returns=returns)
    check_count(data, operation.operands * size // 4)
    if target is not data:
        check_count(target, size // 4)
    rows = [data.first + number * size // 4 for number in range(operation.operands)]
    is_flat = decoded.name.startswith("flat")

    def in_space(waves: Waves, where: Array, usable: Array | None, space: str) -> Array:
        if space == "scratch":
            raise NotCoveredError(f"{decoded.text}: on private memory")
        work, access = _in_memory, access_of(waves, context, where, usable, size)
        if space == "lds":
            work, access = _in_lds, in_lds(access)
        before = work(access, _operands(rows, access, operation), operation)
        return spread(waves, before, access.lanes)

    def step(waves: Waves) -> None:
        where, inside = addresses(waves)
        usable = usable_lanes(waves, inside)
        parts = flat_parts(where, usable) if is_flat else None
        if parts is None:
            result = in_space(waves, where, usable, "global")
        else:
            result = np.bitwise_or.reduce(
                [in_space(waves, places, lanes, name) for name, places, lanes in parts]
            )
        if returns:
            deliver(waves, context, target, result, None)
        else:
            issue(waves, context)

    return step


def _global_operands(
    decoded: Decoded, context: BuildContext, size: int, *, returns: bool
) -> tuple[Operand, Operand, Addresses]:
    """Returns the register of the result, the first one of the data, and where lanes point."""
    if decoded.name.startswith("buffer"):
        if context.private:
            raise NotCoveredError(decoded.text)
        data, *address = decoded.operands
        return (
            data,
            data,
            buffer_addresses(decoded, context, tuple(address), size, indivisible=True),
        )
    if returns:
        target, lane, data, *base = decoded.operands
    else:
        lane, data, *base = decoded.operands
        target = data
    return target, data, flat_addresses(decoded, context, lane, tuple(base), size)


_LOCAL: Final = re.compile(
    r"ds_(?P<name>pk_add|cmpst|cmpstore|wrxchg|storexchg|add|sub|rsub|min|max|min_num|max_num|and|or"
    r"|xor|inc|dec|mskor|wrap|cond_sub|sub_clamp)(?P<two>2|_2addr)?(?P<stride>st64|_stride64)?"
    r"(?P<rtn>_rtn)?_(?P<kind>f16|bf16|f32|f64|u32|u64|i32|i64|b32|b64)"
)
_LOCAL_NAMES: Final = {
    "wrxchg": "swap",
    "storexchg": "swap",
    "cmpst": "cmpswap",
    "cmpstore": "cmpswap",
}
"""What the operations of LDS are called that have other names in global memory."""


@builds_matching(_LOCAL.pattern)
def local_atomic(decoded: Decoded, context: BuildContext) -> Step:
    """`ds_add_rtn_u32 v0, v1, v2 offset:4`, `ds_wrxchg2_rtn_b32 v[0:1], v2, v3, v4 offset1:1`."""
    match = _LOCAL.fullmatch(decoded.name)
    if match is None or decoded.flag("gds"):
        raise NotCoveredError(decoded.text)
    kind, name = match["kind"], _LOCAL_NAMES.get(match["name"], match["name"])
    wide = kind.endswith("64")
    size = 8 if wide else 4
    if match["two"] and name != "swap":
        raise NotCoveredError(decoded.text)
    operation = operation_of(name, kind, context.target, wide=wide, in_lds=True)
    operands = list(decoded.operands)
    target: Operand | None = operands.pop(0) if match["rtn"] else None
    address, *data = operands
    if match["name"] == "cmpst":  # up to gfx10 the compared value comes first (DS_CMPST_B32)
        data.reverse()
    offsets = (
        pair_offsets(decoded, size, stride=bool(match["stride"]))
        if match["two"]
        else single_offset(decoded)
    )
    check_count(address, 1)
    for operand in data:
        check_count(operand, size // 4)
    if target is not None:
        check_count(target, len(offsets) * size // 4)
    rows = [operand.first for operand in data]

    def step(waves: Waves) -> None:
        results = []
        for number, offset in enumerate(offsets):
            inner = waves.u32[address.first] + U32(offset)
            usable = usable_lanes(waves, None)
            access = in_lds(access_of(waves, context, inner, usable, size))
            used = rows[number : number + 1] if match["two"] else rows
            before = _in_lds(access, _operands(used, access, operation), operation)
            results.append(spread(waves, before, access.lanes))
        if target is None:
            issue(waves, context)
        else:
            deliver(waves, context, target, np.concatenate(results), None)

    return step


@builds("ds_append", "ds_consume")
def count_lanes(decoded: Decoded, context: BuildContext) -> Step:
    """One counter for the wave, at M0 + offset: the number of active lanes is added or taken off.

    All active lanes get the old value (RDNA3 ISA, DS_APPEND; that M0 holds the base: LLVM,
    SelectDSAppendConsume).
    """
    if decoded.flag("gds"):
        raise NotCoveredError(decoded.text)
    target = decoded.operands[0]
    check_count(target, 1)
    offset = U32(decoded.number("offset"))
    compute = np.add if decoded.name == "ds_append" else np.subtract
    operation = AtomicOperation(U32, compute, np.add if compute is np.add else None)

    def step(waves: Waves) -> None:
        inner = (waves.scalar[M0] + offset)[:, None]
        where, inside = lds_places(waves, context.index, inner, 4)
        counts = waves.active.sum(1).astype(U32)
        present = counts > 0 if inside is None else (counts > 0) & inside[:, 0]
        counted = np.flatnonzero(present)
        # The first lane of each wave stands for all of them.
        first_lane = np.zeros((waves.count, waves.lanes), bool)
        first_lane[:, 0] = present
        places = np.broadcast_to(where, first_lane.shape)
        access = access_of(waves, context, places, first_lane, 4)
        before = np.zeros(waves.count, U32)
        before[counted] = _in_lds(access, [counts[counted]], operation)
        rows = np.broadcast_to(before[:, None], first_lane.shape)[None]
        deliver(waves, context, target, rows.copy(), None)

    return step
