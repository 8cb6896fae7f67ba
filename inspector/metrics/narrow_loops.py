"""Narrow reads of dots' operands by the loop that they stand in, where a kernel has several kinds.

`narrow_operands` counts over all loops with dots. Where all its reads are of one kind that says
enough of each loop; where they are not, the operations' positions tell which loop has which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from ..model import Access, LoopReport, Metric, MetricSpec, Scalar
from .staging import NARROW_OPERANDS
from .subject import Subject

NARROW_HERE = "narrow_here"

SPECS = (
    MetricSpec(
        NARROW_HERE,
        "mapping",
        "derived",
        "loop",
        "As narrow_operands, of the reads that stand in this loop; of all loops with dots where "
        "positions do not tell them apart",
    ),
)


def with_narrow_reads(
    subject: Subject,
    loops: Sequence[LoopReport],
    accesses: Sequence[Access],
    metrics: Mapping[str, Metric],
) -> tuple[LoopReport, ...]:
    """The loops with the reads of each.

    Args:
        subject: the kernel.
        loops: its loops.
        accesses: of the TTGIR's operations, with the instructions that they became.
        metrics: the kernel's.
    """
    whole = metrics[NARROW_OPERANDS].value if NARROW_OPERANDS in metrics else None
    if not isinstance(whole, Mapping):
        unknown = Metric(NARROW_HERE, None, "mapping", "derived", "needs the kernel's TTGIR")
        return tuple(
            replace(loop, metrics={**loop.metrics, NARROW_HERE: unknown}) for loop in loops
        )
    counts_by_loop = dict(_by_loop(subject, loops, accesses, whole))
    return tuple(
        replace(
            loop,
            metrics={
                **loop.metrics,
                NARROW_HERE: Metric(
                    NARROW_HERE, counts_by_loop.get(loop.id, whole), "mapping", "derived"
                ),
            },
        )
        for loop in loops
    )


def _by_loop(
    subject: Subject,
    loops: Sequence[LoopReport],
    accesses: Sequence[Access],
    whole: Mapping[str, Scalar],
) -> Iterator[tuple[str, dict[str, Scalar]]]:
    present = [kind for kind, count in whole.items() if count]
    if subject.ttgir is None or len(present) <= 1:  # what holds of the kernel holds of the loop
        return
    # The algebra of layouts is loaded for kernels that have narrow reads of several kinds.
    from ..ttgir.conversions import movements
    from ..ttgir.flow import flow_of
    from ..ttgir.trips import staging
    from .narrow_operands import KINDS, narrow_reads

    flow = flow_of(subject.ttgir)
    kinds = narrow_reads(flow, staging(flow, movements(flow)))
    at = {flow.module.ops[op].line: kind for op, kind in kinds.items()}
    counts: dict[str, Counter[str]] = {}
    for access in accesses:
        if access.line in at and access.loop is not None:
            counts.setdefault(access.loop, Counter())[at[access.line]] += len(access.lines)
    if set(present) <= {kind for counter in counts.values() for kind in counter}:
        for loop in loops:
            loop_counts = counts.get(loop.id, Counter())
            yield loop.id, {kind: loop_counts[kind] for kind in KINDS}
