"""The counters that each instruction raises.

The machine file states which counters exist: with `loadcnt`, each kind of access has a counter of
its own (gfx12); with `vscnt`, stores have (gfx10, gfx11); otherwise `vmcnt` counts all vector
memory and `lgkmcnt` LDS, scalar memory and messages.

Events of one order complete in the order in which they were raised; a wait for n then means that
all but the n youngest of them are complete. Events of order "" complete in any order: only a wait
for 0 says anything about them.

Sources: LLVM 22's SIInsertWaitcnts.cpp (updateEventWaitcntAfter, counterOutOfOrder) and its
AMDGPUUsage memory model; the ISA documents' chapters on data dependencies.

The counters that a wait instruction waits for.

`s_waitcnt vmcnt(3) lgkmcnt(0)` -> `{vmcnt: 3, lgkmcnt: 0}`. A counter is listed only where the
instruction constrains it. A bare number (`s_waitcnt 0xc07f`, as disassemblers and hand-written code
have it) is decoded with the bit fields of the target's generation, from the machine file.

Sources: LLVM's AMDGPUBaseInfo.cpp (field positions) and the ISA documents' S_WAITCNT pages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from ...model import Instruction
from ..mnemonics import returns_value
from .registers import named, split_destination

Effect = Literal["load", "store", "lds", "dma", "other"]
"""Kinds of effects that barriers and fences order: `dma` moves between memory and LDS."""


class CounterEvent(Struct, frozen=True):
    """One counter raised by one instruction.

    Args:
        order: events of one counter and order complete in the order of issue; "" for any order.
        effect: its effect on memory, for barriers and fences.
        writes: numbers of the registers that are written when it completes.
    """

    counter: str
    order: str
    effect: Effect
    writes: tuple[int, ...] = ()


class GenerationCounters(Struct, frozen=True):
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
    def of(cls, maxima: Mapping[str, int]) -> GenerationCounters:
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


def events_of(inst: Instruction, counters: GenerationCounters) -> tuple[CounterEvent, ...]:
    """The counters that an instruction raises; empty for most."""
    events = _BY_CLASS.get(inst.cls)
    return events(inst, counters) if events is not None else ()


def _destination(inst: Instruction) -> tuple[int, ...]:
    return named(split_destination(inst.operands)[0])


def _flat(c: GenerationCounters, counter: str, writes: tuple[int, ...]) -> tuple[CounterEvent, ...]:
    """An access that may go to LDS: it counts in both counters, and is complete when both are."""
    order = "memory" if c.flat_in_order else ""
    lds = "lds" if c.flat_in_order else ""
    effect: Effect = "load" if writes else "store"
    return (CounterEvent(counter, order, effect, writes), CounterEvent(c.lds, lds, "lds", writes))


def _is_flat(inst: Instruction) -> bool:
    return inst.op.name.startswith("flat_")


def _load(inst: Instruction, c: GenerationCounters) -> tuple[CounterEvent, ...]:
    writes = _destination(inst)
    if _is_flat(inst):
        return _flat(c, c.load, writes)
    return (CounterEvent(c.load, "memory", "load", writes),)


def _store(inst: Instruction, c: GenerationCounters) -> tuple[CounterEvent, ...]:
    if _is_flat(inst):
        return _flat(c, c.store, ())
    return (CounterEvent(c.store, "memory", "store"),)


def _atomic(inst: Instruction, c: GenerationCounters) -> tuple[CounterEvent, ...]:
    name = inst.op.name
    returns = returns_value(inst.op, inst.operands)
    writes = _destination(inst) if returns else ()
    if name.startswith("s_"):
        return (CounterEvent(c.scalar, "", "store", writes),)
    counter = c.load if returns else c.store
    if _is_flat(inst):
        return _flat(c, counter, writes)
    return (CounterEvent(counter, "memory", "store", writes),)


def _lds_read(inst: Instruction, c: GenerationCounters) -> tuple[CounterEvent, ...]:
    return (CounterEvent(c.lds, "lds", "lds", _destination(inst)),)


def _lds_write(inst: Instruction, c: GenerationCounters) -> tuple[CounterEvent, ...]:
    return (CounterEvent(c.lds, "lds", "lds"),)


def _lds_atomic(inst: Instruction, c: GenerationCounters) -> tuple[CounterEvent, ...]:
    writes = _destination(inst) if "returns" in inst.op.traits or "_rtn" in inst.op.name else ()
    return (CounterEvent(c.lds, "lds", "lds", writes),)


def _cross_lane(inst: Instruction, c: GenerationCounters) -> tuple[CounterEvent, ...]:
    return _lds_read(inst, c) if inst.op.name.startswith("ds_") else ()


def _dma(inst: Instruction, c: GenerationCounters) -> tuple[CounterEvent, ...]:
    name = inst.op.name
    if name.startswith("tensor_"):
        return (CounterEvent(c.tensor, "tensor", "dma"),) if c.tensor else ()
    if "_async_" in name:
        return (CounterEvent(c.async_copy, "async", "dma"),) if c.async_copy else ()
    return (CounterEvent(c.load, "memory", "dma"),)


def _scalar(inst: Instruction, c: GenerationCounters) -> tuple[CounterEvent, ...]:
    return (CounterEvent(c.scalar, "", "load", _destination(inst)),)


def _scalar_store(inst: Instruction, c: GenerationCounters) -> tuple[CounterEvent, ...]:
    return (CounterEvent(c.scalar, "", "store"),)


def _message(inst: Instruction, c: GenerationCounters) -> tuple[CounterEvent, ...]:
    # s_memtime, s_sendmsg_rtn_b32 s0, ...: the result arrives like that of a scalar load.
    return (CounterEvent(c.scalar, "", "other", _destination(inst)),)


def _image(inst: Instruction, c: GenerationCounters) -> tuple[CounterEvent, ...]:
    name = inst.op.name
    if "store" in name:
        return (CounterEvent(c.store, "memory", "store"),)
    sampled = "sample" in name or "gather" in name
    # Results of the sampler may pass those of plain loads.
    counter, order = (c.sample, "sampler") if sampled else (c.load, "memory")
    return (CounterEvent(counter, order, "load", _destination(inst)),)


def _bvh(inst: Instruction, c: GenerationCounters) -> tuple[CounterEvent, ...]:
    if inst.op.name.startswith("ds_"):
        return _lds_read(inst, c)
    return (CounterEvent(c.bvh, "bvh", "load", _destination(inst)),)


def _gds(inst: Instruction, c: GenerationCounters) -> tuple[CounterEvent, ...]:
    return (
        CounterEvent(c.lds, "", "other", _destination(inst)),
        CounterEvent(c.export, "", "other"),
    )


def _export(inst: Instruction, c: GenerationCounters) -> tuple[CounterEvent, ...]:
    return (CounterEvent(c.export, "", "other"),)


def _cache(inst: Instruction, c: GenerationCounters) -> tuple[CounterEvent, ...]:
    # LLVM waits for a write-back as for a store, and on gfx12 for an invalidation as for a load.
    name = inst.op.name
    if "wb" in name:
        return (CounterEvent(c.store, "memory", "store"),)
    if name == "global_inv":
        return (CounterEvent(c.load, "memory", "load"),)
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


BitFields = tuple[tuple[int, int], ...]
"""The bits of a counter in an immediate: (low bit, width), least significant part first."""

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
_GFX11_FIELDS: Mapping[str, BitFields] = {
    "vmcnt": ((10, 6),),
    "lgkmcnt": ((4, 6),),
    "expcnt": ((0, 3),),
}

COUNTERS = tuple(dict.fromkeys((*_SINGLE.values(), *_PAIRED.values())))
"""Every wait counter of every generation."""
MEMORY_COUNTERS = frozenset(COUNTERS) - {"lgkmcnt", "dscnt", "kmcnt", "expcnt"}
"""Those of accesses to memory, but of scalar loads, which the LDS shares its counter with."""


def decode_wait(
    name: str,
    operands: str,
    fields: Mapping[str, BitFields] | None = None,
    maxima: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """GenerationCounters that a wait constrains, each with the count it waits down to.

    `name`: the mnemonic without encoding suffix; `fields`: for bare numbers of `s_waitcnt`: counter
    -> its bits. None where the target is unknown; `maxima`: the target's counters -> largest value;
    a field at its maximum waits for nothing.

    Returns:
        An empty mapping for waits that name no memory counter (`s_waitcnt_depctr`, `s_wait_alu`),
        and on an unknown target for bare numbers and `s_wait_idle`, which drains every counter.
    """
    if name == "s_waitcnt":
        return _decode_waitcnt(operands, fields or {}, maxima)
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


def _decode_waitcnt(
    operands: str, fields: Mapping[str, BitFields], maxima: Mapping[str, int] | None
) -> dict[str, int]:
    """The counters that an `s_waitcnt` constrains; arguments as for `decode_wait`."""
    is_renamed = maxima is not None and "loadcnt" in maxima
    symbolic = _SYMBOLIC.findall(operands)
    if symbolic:
        read = {counter: _number(text) for counter, text in symbolic}
        counts = {counter: n for counter, n in read.items() if n is not None}
        if is_renamed:
            counts = _renamed(counts)
        # `vmcnt(63) expcnt(7) lgkmcnt(15)`: a counter at its maximum never delays the wave.
        return {c: n for c, n in counts.items() if maxima is None or n < maxima.get(c, n + 1)}
    value = _number(operands)
    if value is None:
        return {}
    if is_renamed and not fields:
        return _renamed(_unpack(value, _GFX11_FIELDS, {}))
    return _unpack(value, fields, maxima or {})


def _renamed(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by gfx11's counters as counts by gfx12's."""
    return {new: n for old, n in counts.items() for new in _RENAMED.get(old, (old,))}


def _unpack(
    value: int, fields: Mapping[str, BitFields], maxima: Mapping[str, int]
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
