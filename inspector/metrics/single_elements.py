"""Kernels without loops in which each lane moves one small element of each array.

Such a wave lives for one return trip to memory: its start, the addresses, a load, a wait for it,
little arithmetic, a store. A lane that takes several neighbours asks for them at once, in wider
accesses, and pays for the rest once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..isa.mnemonics import access_bits
from ..model import Metric, MetricSpec, Scalar
from .subject import Subject, source_line

_ELEMENTS: Final = "single_elements"

SPECS = (
    MetricSpec(
        _ELEMENTS,
        "mapping",
        "derived",
        "kernel",
        "Accesses of global memory in HIP code without loops, LDS and atomics whose lanes lie side "
        "by side, all of them of 32 bits at most: `loads`, `stores`, the `bytes` that a lane loads, "
        "`at` the line of the first load; none where an access is wider, lies elsewhere or where "
        "its lanes' addresses are not known",
    ),
)

_LDS: Final = frozenset(("lds_write", "lds_atomic", "lds_direct", "atomic", "flat", "unknown"))
_EXCHANGE: Final = ("ds_bpermute", "ds_permute", "ds_swizzle")
_MOST_BITS: Final = 32


def compute(subject: Subject) -> Iterator[Metric]:
    """The metric of `SPECS`."""
    function = subject.function
    if subject.ttgir is not None or function.loops or function.calls or function.unread:
        note = "the kernel has loops or calls" if function.loops or function.calls else ""
        yield Metric(_ELEMENTS, None, "mapping", "derived", note)
        return
    loads = [inst for inst in function.instructions if inst.cls == "global_load"]
    stores = [inst for inst in function.instructions if inst.cls == "global_store"]
    uses_lds = any(
        inst.cls in _LDS or (inst.cls == "lds_read" and not inst.op.name.startswith(_EXCHANGE))
        for inst in function.instructions
    )
    total = 0
    alone = not uses_lds and bool(loads)
    for inst in (*loads, *stores):
        bits, use = access_bits(inst.op, inst.operands), subject.uses.get(inst.index)
        if bits is None or bits > _MOST_BITS or use is None:
            alone = False
            break
        if not use.lies_side_by_side(bits):
            alone = False
            break
        total += bits // 8 if inst.cls == "global_load" else 0
    if not alone:
        yield Metric(_ELEMENTS, None, "mapping", "derived", "not all accesses are such")
        return
    value: dict[str, Scalar] = {
        "loads": len(loads),
        "stores": len(stores),
        "bytes": total,
        "at": source_line(loads[0].loc),
    }
    yield Metric(_ELEMENTS, value, "mapping", "derived")
