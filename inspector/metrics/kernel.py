"""Builds the report of one kernel: all metrics, loops, memory accesses and waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..isa.mnemonics import access_bits
from ..model import (
    Access,
    Artifact,
    KernelReport,
    Loop,
    LoopReport,
    MemoryOp,
    SourceLoc,
    Variant,
    WaitOp,
    int_of,
)
from . import (
    bfloat_rounding,
    bounds,
    divisions,
    expansions,
    exposed_latency,
    lane_metrics,
    lane_walks,
    launch,
    lds_buffers,
    live_registers,
    loads_in_passes,
    loop_shape,
    loop_structure,
    memory_trips,
    overlapping_loads,
    scratch_use,
    spills,
    tile_sharing,
    vector_work,
)
from .access_spans import GlobalAccesses
from .catalogue import kernel_metrics
from .joint_accesses import joint_accesses
from .located import located
from .longest_way import longest_ways
from .loops import main_loop, reports
from .narrow_loops import with_narrow_reads
from .options import option
from .subject import (
    MEMORY_CLASSES,
    KernelCode,
    Subject,
    always_executed,
    innermost_loops,
    source_line,
)
from .transposed_copies import transposed_copies

if TYPE_CHECKING:
    from .conflict_remedies import OperandTile

_MEMORY = frozenset(MEMORY_CLASSES)


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
) -> KernelReport:
    """The report of one kernel without findings, which rules add."""
    subject = located(code)
    memory, waits = _listed_ops(subject)
    resources = subject.function.resources
    loops = reports(subject)
    main = main_loop(loops)
    hot = {loop.id for loop in loops if loop.hot}
    values, unnamed = live_registers.named(subject, hot)
    slots = spills.spill_slots(subject.function, hot, values.parked)
    buffers = lds_buffers.lds_buffers(subject)
    metrics = kernel_metrics(subject)
    stages = option(subject, "num_stages")
    in_global = GlobalAccesses(subject)
    for family in (
        lds_buffers.kernel_metrics(subject, buffers, stages),
        transposed_copies(subject, buffers, metrics, stages),
        scratch_use.kernel_metrics(subject),
        loop_shape.kernel_metrics(loops, subject.function),
        spills.slot_metrics(subject, hot),
        divisions.kernel_metrics(subject, hot),
        expansions.kernel_metrics(subject, hot),
        bfloat_rounding.kernel_metrics(subject, hot),
        overlapping_loads.kernel_metrics(subject, in_global, hot),
        loads_in_passes.kernel_metrics(subject, in_global),
    ):
        metrics.update((metric.name, metric) for metric in family)
    beyond = live_registers.beyond_allocation(subject, int_of(metrics, "vgpr_allocated"))
    accesses = _accesses(subject, memory)
    remedies = spills.remedies(subject, loops, accesses, metrics)
    metrics.update((metric.name, metric) for metric in remedies)
    loops = with_narrow_reads(subject, loops, accesses, metrics)
    tiles = _operand_tiles(subject, accesses, memory)
    metrics = dict(lane_metrics.with_layouts(subject, metrics, accesses, memory, tiles))
    metrics.update((metric.name, metric) for metric in launch.compute(subject, metrics))
    metrics.update((metric.name, metric) for metric in bounds.kernel_metrics(subject, metrics))
    executed = always_executed(subject.function, hot)
    ways = longest_ways(subject.function, hot)
    loops = bounds.with_bounds(subject, loops, metrics, executed, ways)
    of_vectors = vector_work.kernel_metrics(subject, loops, metrics)
    metrics.update((metric.name, metric) for metric in of_vectors)
    sharing = tile_sharing.compute(subject, metrics, main_loop(loops))
    metrics.update((metric.name, metric) for metric in sharing)
    loops = _with_layouts(subject, loops, accesses, memory, tiles)
    played = exposed_latency.played_loops(subject, ways)
    loops = exposed_latency.with_latency(subject, loops, metrics, played)
    loops = memory_trips.with_trips(subject, loops)
    loops = lane_walks.with_walks(subject, loops, metrics)
    loops = loop_structure.with_structure(subject, loops, played)
    return KernelReport(
        id=kernel_id,
        name=name,
        arch=arch,
        source=source,
        variant=variant,
        artifacts=artifacts or {},
        metrics=metrics,
        loops=loops,
        main_loop=main.id if main else None,
        memory_ops=memory,
        waits=waits,
        findings=(),
        notes=(
            *notes,
            *subject.function.notes,
            *resources.disagreements,
            *_lane_notes(accesses),
            *filter(None, (unnamed, beyond)),
        ),
        spills=slots,
        lds_buffers=buffers,
        live_peak=values.peak,
        spilled_values=values.spilled,
        untouched=values.untouched,
        dead_writes=values.dead_writes,
        accesses=accesses,
        unread=subject.function.unread,
        demand=subject.demand,
    )


def _accesses(subject: Subject, memory: tuple[MemoryOp, ...]) -> tuple[Access, ...]:
    if subject.ttgir is None:
        return ()
    # Only kernels with a TTGIR need the algebra of layouts; importing it takes milliseconds.
    from .accesses import accesses
    from .lane_layouts import checked

    return checked(subject, accesses(subject, memory))


def _operand_tiles(
    subject: Subject, accesses: tuple[Access, ...], memory: tuple[MemoryOp, ...]
) -> Mapping[int, OperandTile]:
    """The operands of dots whose conflicts a remedy reaches, by the TTGIR's lines."""
    conflicting = any(op.use is not None and op.use.conflicts for op in memory)
    if subject.ttgir is None or not accesses or not conflicting:
        return {}
    from .conflict_remedies import operand_tiles

    try:
        return operand_tiles(subject.ttgir, lane_metrics.untried_kpack(subject))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return {}  # the TTGIR is not as Triton prints it: an edited file


def _with_layouts(
    subject: Subject,
    loops: tuple[LoopReport, ...],
    accesses: tuple[Access, ...],
    memory: tuple[MemoryOp, ...],
    tiles: Mapping[int, OperandTile],
) -> tuple[LoopReport, ...]:
    """The loops with the layouts of their tiles, and what frees these of conflicts."""
    own: dict[str | None, list[MemoryOp]] = {}
    for op in memory:
        own.setdefault(op.loop, []).append(op)
    return tuple(
        replace(
            loop,
            metrics=lane_metrics.with_layouts(
                subject, loop.metrics, accesses, own.get(loop.id, ()), tiles
            ),
        )
        for loop in loops
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


def _listed_ops(subject: Subject) -> tuple[tuple[MemoryOp, ...], tuple[WaitOp, ...]]:
    """The memory operations and waits of the report, in program order."""
    function = subject.function
    owner: Mapping[int, Loop] = innermost_loops(function)
    memory: list[MemoryOp] = []
    waits: list[WaitOp] = []
    waits_at = subject.sync.waits
    joint = joint_accesses(subject, owner)
    for block in function.blocks:
        loop = owner.get(block.index)
        loop_id, depth = (loop.id, loop.depth) if loop else (None, 0)
        for inst in function.instructions[block.start : block.stop]:
            if inst.cls in _MEMORY:
                memory.append(
                    MemoryOp(
                        inst.line,
                        inst.mnemonic,
                        inst.cls,
                        access_bits(inst.op, inst.operands),
                        loop_id,
                        depth,
                        inst.loc,
                        inst.comment if "Folded" in inst.comment else "",
                        subject.uses.get(inst.index),
                        joint.get(inst.index),
                    )
                )
            if inst.index in waits_at:
                waits.extend(waits_at[inst.index])
    return tuple(memory), tuple(waits)
