"""Wait counters: those that a wait instruction waits for, and those that each instruction raises.

`s_waitcnt vmcnt(3) lgkmcnt(0)` -> `{vmcnt: 3, lgkmcnt: 0}`. A counter is listed only where the
instruction constrains it. A bare number (`s_waitcnt 0xc07f`, as disassemblers and hand-written code
have it) is decoded with the bit fields of the target's generation, from the machine file.

The machine file states which counters exist: with `loadcnt`, each kind of access has a counter of
its own (gfx12); with `vscnt`, stores have (gfx10, gfx11); otherwise `vmcnt` counts all vector
memory and `lgkmcnt` LDS, scalar memory and messages.

Events of one order complete in the order in which they were raised; a wait for n then means that
all but the n youngest of them are complete. Events of order "" complete in any order: only a wait
for 0 says anything about them.

Sources: LLVM's AMDGPUBaseInfo.cpp (field positions) and the ISA documents' S_WAITCNT pages; LLVM
22's SIInsertWaitcnts.cpp (updateEventWaitcntAfter, counterOutOfOrder) and its AMDGPUUsage memory
model; the ISA documents' chapters on data dependencies.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from ...model import Instruction
from ..mnemonics import returns_value
from .registers import named, split_destination

_SYMBOLIC = re.compile(r"(\w+cnt)(?:_sat)?\s*\(\s*(0[xX][0-9a-fA-F]+|\d{1,18})\s*\)")

# One counter per instruction: the immediate is the count itself.
_SINGLE = {
    "s_waitcnt_vscnt": "vscnt",
    "s_waitcnt_vmcnt": "vmcnt",
    "s_waitcnt_expcnt": "expcnt",
    "s_waitcnt_lgkmcnt": "lgkmcnt",
    "s_wait_loadcnt": "loadcnt",
    "s_wait_storecnt": "storecnt",
    "s_wait_samplecnt": "samplecnt",
    "s_wait_bvhcnt": "bvhcnt",
    "s_wait_expcnt": "expcnt",
    "s_wait_dscnt": "dscnt",
    "s_wait_kmcnt": "kmcnt",
    "s_wait_asynccnt": "asynccnt",
    "s_wait_tensorcnt": "tensorcnt",
    "s_wait_xcnt": "xcnt",
}

# gfx12's combined forms: dscnt in bits 5:0, the other counter in bits 13:8.
_PAIRED = {
    "s_wait_loadcnt_dscnt": "loadcnt",
    "s_wait_storecnt_dscnt": "storecnt",
}
# "Wait for all activity in the wave to be complete (all dependency and memory counters at zero)":
# the RDNA ISA documents' S_WAIT_IDLE.
_ALL = "s_wait_idle"
_PAIR_MASK = 0x3F

# gfx12 still accepts gfx11's instruction, with its bit fields: clang 22 assembles `s_waitcnt
# vmcnt(0)` to 0xbf8903f7 for gfx1201. There several counters replace each of gfx11's.
_RENAMED = {
    "vmcnt": ("loadcnt", "samplecnt", "bvhcnt"),
    "lgkmcnt": ("dscnt", "kmcnt"),
}
_GFX11_FIELDS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "vmcnt": ((10, 6),),
    "lgkmcnt": ((4, 6),),
    "expcnt": ((0, 3),),
}

COUNTERS = tuple(dict.fromkeys((*_SINGLE.values(), *_PAIRED.values())))
"""Every wait counter of every generation."""


def decode_wait(
    name: str,
    operands: str,
    fields: Mapping[str, tuple[tuple[int, int], ...]] | None = None,
    maxima: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Counters that a wait constrains, each with the count it waits down to.

    Args:
        name: the mnemonic without encoding suffix.
        operands: the operand text.
        fields: for bare numbers of `s_waitcnt`: counter -> its bit fields `(low bit, width)`, least
            significant part first. None where the target is unknown.
        maxima: the target's counters -> largest value; a field at its maximum waits for nothing.

    Returns:
        An empty mapping for waits that name no memory counter (`s_waitcnt_depctr`, `s_wait_alu`),
        and on an unknown target for bare numbers and `s_wait_idle`, which drains every counter.
    """
    if name == "s_waitcnt":
        renamed = maxima is not None and "loadcnt" in maxima
        symbolic = _SYMBOLIC.findall(operands)
        if symbolic:
            counts = {counter: int(n, 0) for counter, n in symbolic}
            if renamed:
                counts = _renamed(counts)
            # `vmcnt(63) expcnt(7) lgkmcnt(15)`: a counter at its maximum never delays the wave.
            return {c: n for c, n in counts.items() if maxima is None or n < maxima.get(c, n + 1)}
        value = _number(operands)
        if value is not None and renamed and not fields:
            return _renamed(_unpack(value, _GFX11_FIELDS, {}))
        if value is None or not fields:
            return {}
        return _unpack(value, fields, maxima or {})
    if name == _ALL:
        return dict.fromkeys(maxima or (), 0)
    value = _number(operands.rpartition(",")[2])
    if value is None:
        return {}
    if name in _SINGLE:
        return {_SINGLE[name]: value}
    if name in _PAIRED:
        return {_PAIRED[name]: value >> 8 & _PAIR_MASK, "dscnt": value & _PAIR_MASK}
    return {}


def _renamed(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by gfx11's counters as counts by gfx12's."""
    return {new: n for old, n in counts.items() for new in _RENAMED.get(old, (old,))}


def _unpack(
    value: int, fields: Mapping[str, tuple[tuple[int, int], ...]], maxima: Mapping[str, int]
) -> dict[str, int]:
    """The counts in the bit fields of a bare number, without those at their maximum."""
    counts: dict[str, int] = {}
    for counter, bit_fields in fields.items():
        n = shift = 0
        for low, width in bit_fields:
            n |= (value >> low & (1 << width) - 1) << shift
            shift += width
        if n < maxima.get(counter, (1 << shift) - 1):
            counts[counter] = n
    return counts


def _number(text: str) -> int | None:
    try:
        return int(text.strip(), 0)
    except ValueError:
        return None


# --------------------------------------------------------------------------- events

Effect = Literal["load", "store", "lds", "dma", "other"]
"""Kinds of effects that barriers and fences order: `dma` moves between memory and LDS."""


class Event(Struct, frozen=True):
    """One counter raised by one instruction.

    Args:
        counter: its name.
        order: events of one counter and order complete in the order of issue; "" for any order.
        effect: its effect on memory, for barriers and fences.
        writes: numbers of the registers that are written when it completes.
    """

    counter: str
    order: str
    effect: Effect
    writes: tuple[int, ...] = ()


class Counters(Struct, frozen=True):
    """The counters of a generation, by the operations they count."""

    load: str
    store: str
    sample: str
    bvh: str
    lds: str
    scalar: str
    export: str
    async_copy: str | None
    tensor: str | None
    flat_in_order: bool  # gfx10 on: FeatureFlatLgkmVMemCountInOrder

    @classmethod
    def of(cls, maxima: Mapping[str, int]) -> Counters:
        """The counters of a machine; `maxima` are its counters and their largest values."""
        if "loadcnt" in maxima:
            sample = "samplecnt" if "samplecnt" in maxima else "loadcnt"
            bvh = "bvhcnt" if "bvhcnt" in maxima else "loadcnt"
            return cls(
                *("loadcnt", "storecnt", sample, bvh, "dscnt", "kmcnt", "expcnt"),
                *("asynccnt", "tensorcnt"),
                flat_in_order=True,
            )
        has_vscnt = "vscnt" in maxima
        return cls(
            *("vmcnt", "vscnt" if has_vscnt else "vmcnt", "vmcnt", "vmcnt", "lgkmcnt", "lgkmcnt"),
            *("expcnt", None, None),
            flat_in_order=has_vscnt,
        )


def events_of(inst: Instruction, counters: Counters) -> tuple[Event, ...]:
    """The counters that an instruction raises; empty for most."""
    events = _BY_CLASS.get(inst.cls)
    return events(inst, counters) if events is not None else ()


def _destination(inst: Instruction) -> tuple[int, ...]:
    return named(split_destination(inst.operands)[0])


def _flat(c: Counters, counter: str, writes: tuple[int, ...]) -> tuple[Event, ...]:
    """An access that may go to LDS: it counts in both counters, and is complete when both are."""
    order = "memory" if c.flat_in_order else ""
    lds = "lds" if c.flat_in_order else ""
    effect: Effect = "load" if writes else "store"
    return (Event(counter, order, effect, writes), Event(c.lds, lds, "lds", writes))


def _is_flat(inst: Instruction) -> bool:
    return inst.op.name.startswith("flat_")


def _load(inst: Instruction, c: Counters) -> tuple[Event, ...]:
    writes = _destination(inst)
    if _is_flat(inst):
        return _flat(c, c.load, writes)
    return (Event(c.load, "memory", "load", writes),)


def _store(inst: Instruction, c: Counters) -> tuple[Event, ...]:
    if _is_flat(inst):
        return _flat(c, c.store, ())
    return (Event(c.store, "memory", "store"),)


def _atomic(inst: Instruction, c: Counters) -> tuple[Event, ...]:
    name = inst.op.name
    returns = returns_value(inst.op, inst.operands)
    writes = _destination(inst) if returns else ()
    if name.startswith("s_"):
        return (Event(c.scalar, "", "store", writes),)
    counter = c.load if returns else c.store
    if _is_flat(inst):
        return _flat(c, counter, writes)
    return (Event(counter, "memory", "store", writes),)


def _lds_read(inst: Instruction, c: Counters) -> tuple[Event, ...]:
    return (Event(c.lds, "lds", "lds", _destination(inst)),)


def _lds_write(inst: Instruction, c: Counters) -> tuple[Event, ...]:
    return (Event(c.lds, "lds", "lds"),)


def _lds_atomic(inst: Instruction, c: Counters) -> tuple[Event, ...]:
    writes = _destination(inst) if "returns" in inst.op.traits or "_rtn" in inst.op.name else ()
    return (Event(c.lds, "lds", "lds", writes),)


def _cross_lane(inst: Instruction, c: Counters) -> tuple[Event, ...]:
    return _lds_read(inst, c) if inst.op.name.startswith("ds_") else ()


def _dma(inst: Instruction, c: Counters) -> tuple[Event, ...]:
    name = inst.op.name
    if name.startswith("tensor_"):
        return (Event(c.tensor, "tensor", "dma"),) if c.tensor else ()
    if "_async_" in name:
        return (Event(c.async_copy, "async", "dma"),) if c.async_copy else ()
    return (Event(c.load, "memory", "dma"),)


def _scalar(inst: Instruction, c: Counters) -> tuple[Event, ...]:
    return (Event(c.scalar, "", "load", _destination(inst)),)


def _scalar_store(inst: Instruction, c: Counters) -> tuple[Event, ...]:
    return (Event(c.scalar, "", "store"),)


def _message(inst: Instruction, c: Counters) -> tuple[Event, ...]:
    # s_memtime, s_sendmsg_rtn_b32 s0, ...: the result arrives like that of a scalar load.
    return (Event(c.scalar, "", "other", _destination(inst)),)


def _image(inst: Instruction, c: Counters) -> tuple[Event, ...]:
    name = inst.op.name
    if "store" in name:
        return (Event(c.store, "memory", "store"),)
    sampled = "sample" in name or "gather" in name
    # Results of the sampler may pass those of plain loads.
    counter, order = (c.sample, "sampler") if sampled else (c.load, "memory")
    return (Event(counter, order, "load", _destination(inst)),)


def _bvh(inst: Instruction, c: Counters) -> tuple[Event, ...]:
    if inst.op.name.startswith("ds_"):
        return _lds_read(inst, c)
    return (Event(c.bvh, "bvh", "load", _destination(inst)),)


def _gds(inst: Instruction, c: Counters) -> tuple[Event, ...]:
    return (Event(c.lds, "", "other", _destination(inst)), Event(c.export, "", "other"))


def _export(inst: Instruction, c: Counters) -> tuple[Event, ...]:
    return (Event(c.export, "", "other"),)


def _cache(inst: Instruction, c: Counters) -> tuple[Event, ...]:
    # LLVM waits for a write-back as for a store, and on gfx12 for an invalidation as for a load.
    name = inst.op.name
    if "wb" in name:
        return (Event(c.store, "memory", "store"),)
    if name == "global_inv":
        return (Event(c.load, "memory", "load"),)
    return ()


_BY_CLASS = {
    "global_load": _load,
    "scratch_load": _load,
    "global_store": _store,
    "scratch_store": _store,
    "atomic": _atomic,
    "lds_read": _lds_read,
    "lds_write": _lds_write,
    "lds_atomic": _lds_atomic,
    "cross_lane": _cross_lane,
    "lds_direct": _dma,
    "lds_direct_store": _dma,
    "smem_load": _scalar,
    "smem_store": _scalar_store,
    "message": _message,
    "image": _image,
    "bvh": _bvh,
    "gds": _gds,
    "export": _export,
    "cache": _cache,
}
RAISING = frozenset(_BY_CLASS)
"""Classes of the instructions that may raise a counter."""
