"""Which counters an instruction raises, in which order they fall again, and what it will write.

Which counters there are says the machine file: where there is `loadcnt`, each kind of access has
one of its own (gfx12); where there is `vscnt`, stores have (gfx10, gfx11); otherwise `vmcnt` counts
all vector memory and `lgkmcnt` LDS, scalar memory and messages.

Events of one order fall in the order in which they were raised; a wait for n then means that all
but the n youngest of them are done. Order "" promises nothing: only a wait for 0 means anything.

Source: LLVM 22's SIInsertWaitcnts.cpp (updateEventWaitcntAfter, counterOutOfOrder) and its
AMDGPUUsage memory model; the ISA documents' chapters on data dependencies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from ...model import Instruction
from ..mnemonics import returns_value
from .registers import named, split

Effect = Literal["load", "store", "lds", "dma", "other"]
"""What a barrier or fence may have to order: `dma` moves between memory and LDS."""


class Event(Struct, frozen=True):
    """One counter raised by one instruction.

    Args:
        counter: its name.
        order: events of one counter and order are done in the order of issue; "" for any.
        effect: for fences.
        writes: numbers of the registers that are written when it is done.
    """

    counter: str
    order: str
    effect: Effect
    writes: tuple[int, ...] = ()


class Counters(Struct, frozen=True):
    """The counters of a generation by what they count."""

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
        """Those of a machine, by the names of its counters."""
        if "loadcnt" in maxima:
            sample = "samplecnt" if "samplecnt" in maxima else "loadcnt"
            bvh = "bvhcnt" if "bvhcnt" in maxima else "loadcnt"
            return cls(
                *("loadcnt", "storecnt", sample, bvh, "dscnt", "kmcnt", "expcnt"),
                *("asynccnt", "tensorcnt"),
                flat_in_order=True,
            )
        apart = "vscnt" in maxima
        return cls(
            *("vmcnt", "vscnt" if apart else "vmcnt", "vmcnt", "vmcnt", "lgkmcnt", "lgkmcnt"),
            *("expcnt", None, None),
            flat_in_order=apart,
        )


def events_of(inst: Instruction, counters: Counters) -> tuple[Event, ...]:
    """The counters that an instruction raises; empty for most."""
    make = _BY_CLASS.get(inst.cls)
    return make(inst, counters) if make is not None else ()


def _destination(inst: Instruction) -> tuple[int, ...]:
    return named(split(inst.operands)[0])


def _flat(c: Counters, counter: str, writes: tuple[int, ...]) -> tuple[Event, ...]:
    """An address that may lie in LDS: it counts in both, and is done when both say so."""
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
    # s_memtime, s_sendmsg_rtn_b32 s0, ...: the answer comes as a scalar load's does.
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
    # A write-back is done when what it writes is; LLVM waits for it as for a store, and gfx12 for
    # an invalidation as for a load.
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
