"""Builds the report of one kernel from its stages."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from ..model import Access, Artifact, KernelReport, SourceLoc, Variant
from . import spills
from .catalogue import METRICS
from .stages import KernelStages
from .subject import KernelCode, NamedValues, source_line


class Asked(Struct, frozen=True):
    """The part of a kernel's report that is asked for, where it is not the whole.

    Args:
        metrics: names of the metrics, of the kernel and of its loops, sorted.
        lanes: whether accesses state what their lanes touch.
        values: whether it is said what registers and LDS hold.
    """

    metrics: tuple[str, ...]
    lanes: bool = True
    values: bool = True


def kernel_report(
    code: KernelCode,
    *,
    kernel_id: str,
    name: str,
    arch: str | None,
    source: SourceLoc | None,
    variant: Variant | None = None,
    artifacts: Mapping[str, Artifact] | None = None,
    notes: tuple[str, ...] = (),
    asked: Asked | None = None,
) -> KernelReport:
    """The report of one kernel without findings, which rules add; all of it if `asked` is None."""
    stages = KernelStages(code, METRICS)
    function = stages.subject.function
    wanted = asked.metrics if asked is not None else None
    named = asked is None or asked.values
    values, unnamed = stages.named if named else (NamedValues(), "")
    beyond = stages.beyond_allocation if named else None
    return KernelReport(
        id=kernel_id,
        name=name,
        arch=arch,
        source=source,
        variant=variant,
        artifacts=artifacts or {},
        metrics=stages.metrics.chosen(wanted),
        loops=tuple(
            replace(loop, metrics=stages.of_loops[loop.id].chosen(wanted)) for loop in stages.loops
        ),
        main_loop=stages.main.id if stages.main else None,
        memory_ops=stages.memory if asked is None or asked.lanes else stages.listed(lanes=False),
        waits=stages.waits,
        findings=(),
        notes=(
            *notes,
            *function.notes,
            *function.resources.disagreements,
            *_lane_notes(stages.accesses),
            *filter(None, (unnamed, beyond)),
        ),
        spills=spills.spill_slots(function, stages.hot, values.parked),
        lds_buffers=stages.buffers if named else (),
        live_peak=values.peak,
        spilled_values=values.spilled,
        untouched=values.untouched,
        dead_writes=values.dead_writes,
        accesses=stages.accesses,
        unread=function.unread,
        demand=stages.subject.demand,
    )


def _lane_notes(accesses: tuple[Access, ...]) -> tuple[str, ...]:
    """Notes on accesses whose two derivations of lane addresses disagree."""
    return tuple(
        f"{access.op} at {source_line(access.source) or f'line {access.line} of the TTGIR'}: the "
        "code's addresses put its lanes elsewhere than its layouts do; figures of lanes are those "
        "of the code"
        for access in accesses
        if access.lanes == "differ"
    )
