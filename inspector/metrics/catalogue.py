"""The table of all metrics; a new family of metrics is added here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache

from msgspec import Struct

from ..model import Instruction, Metric, MetricSpec
from ..model.numbers import LARGEST
from . import (
    atomic_sums,
    atomics,
    bfloat_rounding,
    bounds,
    code_copies,
    demand,
    divisions,
    double_precision,
    emulated,
    exchange_loops,
    expansions,
    exponentials,
    exposed_latency,
    float8,
    grid_strides,
    idle_lanes,
    inline_asm,
    lane_exchanges,
    lane_metrics,
    lane_reads,
    lane_walks,
    launch,
    launch_bounds,
    lds_accumulators,
    lds_buffers,
    lds_operands,
    lds_races,
    lds_trees,
    live_registers,
    loads_in_passes,
    loop_shape,
    loop_structure,
    matrix,
    matrix_rates,
    measured,
    memory_trips,
    mix,
    options,
    overlapping_loads,
    padded_products,
    position_masks,
    redundancy,
    registers,
    repeated_loads,
    scratch_use,
    single_elements,
    spills,
    staging,
    stored_results,
    summed_products,
    tile_sharing,
    unaligned_loops,
    unchanged_loads,
    unpacked_operands,
    vector_work,
    waits,
    wide_addresses,
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
    Family(live_registers.SPECS, region=live_registers.compute),
    Family(demand.LAUNCH_SPECS, kernel=demand.launch_metrics),
    Family(demand.OCCUPANCY_SPECS, kernel=demand.occupancy_metrics),
    Family(mix.CLASS_SPECS, region=mix.class_counts),
    Family(mix.OVERHEAD_SPECS, region=mix.vector_overhead),
    Family(exponentials.SPECS, region=exponentials.exponentials),
    Family(double_precision.SPECS, region=double_precision.doubles),
    Family(lane_reads.SPECS, region=lane_reads.lane_reads),
    Family(mix.WIDTH_SPECS, region=mix.access_widths),
    Family(waits.COUNT_SPECS, region=waits.wait_counts),
    Family(waits.USE_SPECS, region=waits.wait_uses),
    Family(waits.BARRIER_SPECS, region=waits.redundant_barriers),
    Family(matrix.UNIT_SPECS, kernel=matrix.kernel_cycles, region=matrix.unit_cycles),
    Family(matrix_rates.SPECS, region=matrix_rates.compute),
    Family(code_copies.SPECS, region=code_copies.compute),
    Family(options.SPECS, kernel=options.compute),
    Family(matrix.DOT_SPECS, kernel=matrix.dot_types),
    Family(padded_products.SPECS, kernel=padded_products.compute),
    Family(summed_products.SPECS, kernel=summed_products.compute),
    Family(repeated_loads.SPECS, kernel=repeated_loads.compute),
    Family(staging.SPECS, kernel=staging.compute),
    Family(staging.NARROW_SPECS),
    Family(staging.COPY_SPECS),
    Family(inline_asm.SPECS, kernel=inline_asm.compute),
    Family(loop_shape.UNROLL_SPECS),
    Family(work.SPECS, kernel=work.compute),
    Family(stored_results.SPECS, kernel=stored_results.compute),
    Family(lane_metrics.SPECS, region=lane_metrics.compute),
    Family(idle_lanes.SPECS, region=idle_lanes.compute),
    Family(lds_races.SPECS, kernel=lds_races.compute),
    Family(redundancy.SPECS, kernel=redundancy.compute),
    Family(atomics.SPECS, kernel=atomics.compute),
    Family(atomic_sums.SPECS, kernel=atomic_sums.compute),
    Family(lane_exchanges.SPECS, kernel=lane_exchanges.compute),
    Family(exchange_loops.SPECS, kernel=exchange_loops.compute),
    Family(lds_trees.SPECS, kernel=lds_trees.compute),
    Family(single_elements.SPECS, kernel=single_elements.compute),
    Family(memory_trips.SPECS, kernel=memory_trips.compute),
    Family(wide_addresses.SPECS, region=wide_addresses.compute),
    Family(launch_bounds.SPECS, kernel=launch_bounds.compute),
    Family(float8.SPECS, kernel=float8.compute),
    Family(unpacked_operands.SPECS, kernel=unpacked_operands.compute),
    Family(bfloat_rounding.CONVERSION_SPECS, region=bfloat_rounding.conversions),
    Family(divisions.SPECS),
    Family(unchanged_loads.SPECS),
    Family(grid_strides.SPECS),
    Family(unaligned_loops.SPECS),
    Family(lds_accumulators.SPECS),
    Family(overlapping_loads.SPECS),
    Family(loads_in_passes.SPECS),
    Family(position_masks.SPECS),
    Family(expansions.SPECS),
    Family(bfloat_rounding.SPECS),
    Family(loop_shape.SPECS),
    Family(bounds.SPECS),
    Family(vector_work.SPECS),
    Family(lds_operands.SPECS),
    Family(lane_walks.SPECS),
    Family(exposed_latency.SPECS),
    Family(loop_structure.SPECS),
    Family(launch.SPECS),
    Family(tile_sharing.SPECS),
    Family(spills.SLOT_SPECS),
    Family(scratch_use.SPECS),
    Family(spills.REMEDY_SPECS),
    Family(lds_buffers.SPECS),
    Family(measured.SPECS),
    Family(emulated.SPECS),
)


def specs() -> tuple[MetricSpec, ...]:
    """The catalogue: every metric's name, unit, origin, scope and meaning."""
    return tuple(spec for family in METRICS for spec in family.specs)


def fits(metric: Metric) -> bool:
    """Whether a figure from anywhere is one that the metric of its name can have.

    It is of the kind that the catalogue says, a mapping has the keys that views read, and what is
    counted or computed is not negative and below `LARGEST`.
    """
    value = metric.value
    if value is None:
        return True
    spec = _spec(metric.name)
    kind = spec.kind if spec is not None else None
    if isinstance(value, dict):  # sooner found out than that it is a mapping
        return spec is None or (kind in ("mapping", "any") and spec.keys <= value.keys())
    if isinstance(value, bool):
        return kind in (None, "boolean")
    if isinstance(value, str):
        return kind in (None, "text", "any")
    if not isinstance(value, int | float) or kind not in (None, "number"):
        return False
    is_stated = spec is None or spec.origin == "compiler"
    return -LARGEST < value < LARGEST and (value >= 0 or is_stated)


@lru_cache(1 << 12)
def _spec(name: str) -> MetricSpec | None:
    """The entry of the catalogue that a metric belongs to."""
    exact, families = _entries()
    return exact.get(name) or next((s for s in families if fnmatchcase(name, s.name)), None)


@cache
def _entries() -> tuple[Mapping[str, MetricSpec], Sequence[MetricSpec]]:
    """The catalogue's metrics by name, and its families."""
    entries = specs()
    return {s.name: s for s in entries if "*" not in s.name}, [s for s in entries if "*" in s.name]


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
