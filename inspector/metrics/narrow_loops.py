"""`narrow_here`: the narrow reads of dots' operands by loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..model import Access, LoopReport, Metric, Scalar
from .staging import NARROW_HERE, NARROW_OPERANDS
from .subject import Subject


def loop_metrics(
    subject: Subject,
    loops: Sequence[LoopReport],
    accesses: Sequence[Access],
    metrics: Mapping[str, Metric],
) -> dict[str, dict[str, Metric]]:
    """Loop id -> its metric `narrow_here`.

    `accesses`: accesses of the TTGIR's operations, with their instructions; `metrics`: the kernel's
    metrics; `narrow_operands` is read.
    """
    kernel_counts = metrics[NARROW_OPERANDS].value if NARROW_OPERANDS in metrics else None
    if not isinstance(kernel_counts, Mapping):
        unknown = Metric(NARROW_HERE, None, "mapping", "derived", "needs the kernel's TTGIR")
        return {loop.id: {NARROW_HERE: unknown} for loop in loops}
    counts_by_loop = _counts_by_loop(subject, loops, accesses, kernel_counts)
    return {
        loop.id: {
            NARROW_HERE: Metric(
                NARROW_HERE, counts_by_loop.get(loop.id, kernel_counts), "mapping", "derived"
            )
        }
        for loop in loops
    }


def _counts_by_loop(
    subject: Subject,
    loops: Sequence[LoopReport],
    accesses: Sequence[Access],
    kernel_counts: Mapping[str, Scalar],
) -> dict[str, dict[str, Scalar]]:
    """Loop -> kind -> reads; empty where the kernel's counts suffice, or positions are
    ambiguous.
    """
    kinds_in_kernel = {kind for kind, count in kernel_counts.items() if count}
    if subject.ttgir is None or len(kinds_in_kernel) <= 1:
        return {}
    # The algebra of layouts is loaded for kernels that have narrow reads of several kinds.
    from ..ttgir.flow import flow_of
    from ..ttgir.movements import movements
    from ..ttgir.trips import staging
    from .narrow_operands import KINDS, narrow_reads

    flow = flow_of(subject.ttgir)
    kinds = narrow_reads(flow, staging(flow, movements(flow)))
    kind_at_line = {flow.module.ops[index].line: kind for index, kind in kinds.items()}
    counts: dict[str, Counter[str]] = {}
    for access in accesses:
        if access.line in kind_at_line and access.loop is not None:
            counts.setdefault(access.loop, Counter())[kind_at_line[access.line]] += len(
                access.lines
            )
    kinds_in_loops = {kind for counter in counts.values() for kind in counter}
    if not kinds_in_kernel <= kinds_in_loops:
        return {}
    return {
        loop.id: {kind: counts.get(loop.id, Counter())[kind] for kind in KINDS} for loop in loops
    }
