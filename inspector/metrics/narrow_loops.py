"""`narrow_here`: the narrow reads of dots' operands by loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..model import Access, LoopReport, Metric, Scalar, value_of
from .entries import NO_TTGIR, Unknown
from .staging import NARROW_OPERANDS
from .subject import Subject


def narrow_here(
    subject: Subject,
    loops: Sequence[LoopReport],
    accesses: Sequence[Access],
    metrics: Mapping[str, Metric],
) -> dict[str, Mapping[str, Scalar]] | Unknown:
    """Loop id -> its `narrow_here`, of the kernel's `narrow_operands` and its accesses."""
    kernel_counts = value_of(metrics, NARROW_OPERANDS)
    if not isinstance(kernel_counts, Mapping):
        return NO_TTGIR
    counts_by_loop = _counts_by_loop(subject, loops, accesses, kernel_counts)
    return {loop.id: counts_by_loop.get(loop.id, kernel_counts) for loop in loops}


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
