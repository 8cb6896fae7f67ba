"""What a thread trace says by itself, without code: its span, and what its waves stall at."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from statistics import mean

from ..isa.mnemonics import lookup
from ..model import Metric
from ..model.recording import ThreadTrace, Traced

SPAN = "measured.span_cycles"
CLASSES = {
    "barrier": "barriers",
    "memory_wait": "waits for memory",
    "lds_wait": "waits for the LDS or scalar loads",
    "matrix": "matrix instructions",
    "vector": "vector instructions",
    "lds": "instructions that access the LDS",
    "memory": "instructions that access memory",
    "other": "all other instructions",
}
"""What waves stall at -> the same in words."""
_CLASS_OF = {
    "barrier": "barrier",
    "mfma": "matrix",
    "wmma": "matrix",
    "valu": "vector",
    "acc_move": "vector",
    "cross_lane": "lds",
    "lds_read": "lds",
    "lds_write": "lds",
    "lds_atomic": "lds",
    "global_load": "memory",
    "global_store": "memory",
    "lds_direct": "memory",
    "lds_direct_store": "memory",
    "scratch_load": "memory",
    "scratch_store": "memory",
    "atomic": "memory",
    "smem_load": "memory",
    "image": "memory",
}
"""Class of the mnemonic table -> what waves stall at."""
_MEMORY_COUNTERS = re.compile(r"v[ms]cnt|loadcnt|storecnt|samplecnt|bvhcnt")


def stall_class(text: str) -> str:
    """The name of `CLASSES` of an instruction as a profiler disassembled it."""
    mnemonic = text.split(maxsplit=1)[0] if text.strip() else ""
    cls = lookup(mnemonic).cls
    if cls == "wait":
        return "memory_wait" if _MEMORY_COUNTERS.search(text) else "lds_wait"
    return _CLASS_OF.get(cls, "other")


def metrics(lines: Sequence[Traced], traces: Sequence[ThreadTrace]) -> dict[str, Metric]:
    """The metrics of a kernel's traced instructions, and of the traces that are of it alone."""
    found = {}
    if spans := [span for trace in traces if (span := _span(trace)) is not None]:
        of = "a trace" if len(spans) == 1 else f"{len(spans)} traces, the mean"
        found[SPAN] = Metric(
            name=SPAN,
            value=round(mean(spans)),
            unit="cycles",
            origin="measured",
            note=f"from the first traced wave's begin to the last one's end; of {of}",
        )
    stalls: Counter[str] = Counter()
    for line in lines:
        stalls[stall_class(line.place.text or "")] += line.stall
    total = stalls.total()
    for cls, words in CLASSES.items():
        if stalls[cls]:
            name, share = f"measured.stalls.{cls}", round(100 * stalls[cls] / total, 1)
            note = f"of the cycles that waves stalled: {words}"
            found[name] = Metric(name=name, value=share, unit="%", origin="measured", note=note)
    return found


def _span(trace: ThreadTrace) -> int | None:
    ends = [wave.end for wave in trace.waves if wave.end is not None]
    return max(ends) - min(wave.begin for wave in trace.waves) if ends else None
