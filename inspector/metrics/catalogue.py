"""Every metric, in one table. A subject adds a family here; nothing is discovered by import."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from ..model import Instruction, Metric, MetricSpec
from . import (
    barriers,
    dots,
    emulated,
    inline_asm,
    launch,
    lds_buffers,
    loop_shape,
    matrix,
    measured,
    memory,
    mix,
    narrow_copies,
    narrow_loops,
    occupancy_facts,
    options,
    redundancy,
    registers,
    scratch_use,
    spill_remedies,
    spill_slots,
    staging,
    unroll,
    vector_work,
    wait_use,
    waits,
    work,
)
from .subject import Subject, Tally, tally


class Family(Struct, frozen=True):
    """Metrics of one subject: `kernel` computes those of a whole kernel from its facts, `region`
    those that exist for a kernel and for each of its loops.
    """

    specs: tuple[MetricSpec, ...]
    kernel: Callable[[Subject], Iterable[Metric]] | None = None
    region: Callable[[Subject, Tally], Iterable[Metric]] | None = None


METRICS: tuple[Family, ...] = (
    Family(registers.SPECS, kernel=registers.compute),
    Family(launch.SPECS, kernel=launch.compute),
    Family(occupancy_facts.SPECS, kernel=occupancy_facts.compute),
    Family(mix.SPECS, region=mix.compute),
    Family(vector_work.SPECS, region=vector_work.compute),
    Family(memory.SPECS, region=memory.compute),
    Family(waits.SPECS, region=waits.compute),
    Family(wait_use.SPECS, region=wait_use.compute),
    Family(barriers.SPECS, region=barriers.compute),
    Family(matrix.SPECS, kernel=matrix.compute_kernel, region=matrix.compute),
    Family(options.SPECS, kernel=options.compute),
    Family(dots.SPECS, kernel=dots.compute),
    Family(staging.SPECS, kernel=staging.compute),
    Family(narrow_loops.SPECS),
    Family(narrow_copies.SPECS),
    Family(inline_asm.SPECS, kernel=inline_asm.compute),
    Family(unroll.SPECS),
    Family(work.SPECS, kernel=work.compute),
    Family(redundancy.SPECS, kernel=redundancy.compute),
    Family(loop_shape.SPECS),
    Family(spill_slots.SPECS),
    Family(scratch_use.SPECS),
    Family(spill_remedies.SPECS),
    Family(lds_buffers.SPECS),
    Family(measured.SPECS),
    Family(emulated.SPECS),
)


def specs() -> tuple[MetricSpec, ...]:
    """The catalogue: every metric's name, unit, origin, scope and meaning."""
    return tuple(spec for family in METRICS for spec in family.specs)


def kernel_metrics(subject: Subject) -> dict[str, Metric]:
    """All metrics of a kernel as a whole, by name."""
    metrics = [m for family in METRICS if family.kernel for m in family.kernel(subject)]
    if subject.function.instructions:
        metrics += region_metrics(subject, subject.function.instructions).values()
    return {metric.name: metric for metric in metrics}


def region_metrics(subject: Subject, region: Sequence[Instruction]) -> dict[str, Metric]:
    """All metrics of a run of instructions (a kernel, or a loop's own part), by name."""
    counted = tally(region, subject.machine)
    return {
        metric.name: metric
        for family in METRICS
        if family.region
        for metric in family.region(subject, counted)
    }
