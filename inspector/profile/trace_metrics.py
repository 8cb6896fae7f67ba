"""What a thread trace says without code: its span, and what its waves stall at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import mean

from ..isa.mnemonics import lookup
from ..isa.waitflow.counters import COUNTERS, MEMORY_COUNTERS, decode_wait
from ..model import Metric
from ..model.recording import ThreadTrace, Traced

SPAN = "measured.span_cycles"
STALL_CLASSES = {
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


def stall_class(text: str) -> str:
    """The name of `STALL_CLASSES` of an instruction as a profiler disassembled it."""
    mnemonic, operands = (*text.split(maxsplit=1), "", "")[:2]
    op = lookup(mnemonic)
    if op.cls == "wait":
        # s_wait_idle and a bare number name no counter: they wait for any.
        counters = decode_wait(op.name, operands) or COUNTERS
        return "lds_wait" if MEMORY_COUNTERS.isdisjoint(counters) else "memory_wait"
    return _CLASS_OF.get(op.cls, "other")


def trace_metrics(lines: Sequence[Traced], traces: Sequence[ThreadTrace]) -> dict[str, Metric]:
    """The metrics of a kernel's traced instructions, and of the traces that are of it alone."""
    figures = {}
    if spans := [span for trace in traces if (span := _span(trace)) is not None]:
        traces_text = "a trace" if len(spans) == 1 else f"{len(spans)} traces, the mean"
        figures[SPAN] = Metric(
            name=SPAN,
            value=round(mean(spans)),
            unit="cycles",
            origin="measured",
            note=f"from the first traced wave's begin to the last one's end; of {traces_text}",
        )
    stall_cycles: Counter[str] = Counter()
    for line in lines:
        stall_cycles[stall_class(line.place.text or "")] += line.stall
    total = stall_cycles.total()
    for cls, words in STALL_CLASSES.items():
        if cycles := stall_cycles[cls]:
            name, share = f"measured.stalls.{cls}", round(100 * cycles / total, 1)
            note = f"of the cycles that waves stalled: {words}"
            figures[name] = Metric(name=name, value=share, unit="%", origin="measured", note=note)
    return figures


def _span(trace: ThreadTrace) -> int | None:
    ends = [wave.end for wave in trace.waves if wave.end is not None]
    return max(ends) - min(wave.begin for wave in trace.waves) if ends else None
