"""The table of all metrics: what each is made of. A new family of metrics is added here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache

from ..model import Instruction, Metric, MetricSpec, MetricValue, TtgirModule
from ..model.numbers import LARGEST
from . import (
    atomic_sums,
    bfloat_rounding,
    bounds,
    code_copies,
    demand,
    divisions,
    elementary_functions,
    exchange_loops,
    expansions,
    exposed_latency,
    given_metrics,
    idle_lanes,
    joint_accesses,
    lane_metrics,
    lane_walks,
    launch,
    lds_buffers,
    lds_races,
    lds_trees,
    live_registers,
    loads_in_passes,
    loop_shape,
    loop_steps,
    loop_structure,
    loops,
    matrix,
    memory_trips,
    mix,
    options,
    overlapping_loads,
    redundancy,
    registers,
    repeated_loads,
    scratch_use,
    source_products,
    spills,
    staging,
    tile_sharing,
    vector_work,
    waits,
    work,
)
from .entries import NO_TTGIR, Unknown, metric_of
from .stages import Families, Family, KernelStages, Region
from .subject import Subject, Tally

_OfLoops = Mapping[str, Mapping[str, Metric]]


def _kernel(
    make: Callable[[Subject], Iterable[Metric]],
) -> Callable[[KernelStages], Iterable[Metric]]:
    """Metrics of a kernel that need its inputs alone."""
    return lambda stages: make(stages.subject)


def _region(
    make: Callable[[Subject, Tally], Iterable[Metric]],
) -> Callable[[Region], Iterable[Metric]]:
    """Metrics of a region that need the kernel's inputs and one pass over its instructions."""
    return lambda region: make(region.subject, region.counted)


def _value(
    specs: tuple[MetricSpec, ...], find: Callable[[Subject], MetricValue | Unknown]
) -> Family:
    """The one metric of a kernel whose value needs its inputs alone."""
    return Family(specs, kernel=lambda stages: [metric_of(specs[0], find(stages.subject))])


def _of_source(
    specs: tuple[MetricSpec, ...], find: Callable[[Subject, TtgirModule], MetricValue | Unknown]
) -> Family:
    """The one metric of a kernel whose value needs its TTGIR."""

    def found(subject: Subject) -> MetricValue | Unknown:
        return NO_TTGIR if subject.ttgir is None else find(subject, subject.ttgir)

    return _value(specs, found)


def _region_value(
    specs: tuple[MetricSpec, ...], find: Callable[[Subject, Tally], MetricValue | Unknown]
) -> Family:
    """The one metric of a region whose value needs one pass over its instructions."""
    return Family(
        specs, region=lambda region: [metric_of(specs[0], find(region.subject, region.counted))]
    )


def _loop_values(
    specs: tuple[MetricSpec, ...],
    find: Callable[[KernelStages], Mapping[str, MetricValue | Unknown] | Unknown],
) -> Family:
    """The one metric of loops, by id; of all loops where it is not known of any."""
    (spec,) = specs

    def found(stages: KernelStages) -> _OfLoops:
        values = find(stages)
        if isinstance(values, Unknown):
            values = dict.fromkeys(stages.own_code, values)
        return {loop: {spec.name: metric_of(spec, value)} for loop, value in values.items()}

    return Family(specs, loops=found)


def _loops(
    make: Callable[[Subject, Mapping[str, Sequence[Instruction]]], _OfLoops],
) -> Callable[[KernelStages], _OfLoops]:
    """Metrics of loops that need the kernel's inputs and the loops' own instructions."""
    return lambda stages: make(stages.subject, stages.own_code)


def _lanes(region: Region) -> Iterable[Metric]:
    """What lanes touch, with the layouts of Triton's tiles."""
    subject, stages = region.subject, region.stages
    return lane_metrics.with_layouts(
        subject,
        lane_metrics.compute(subject, region.counted),
        region.metrics,
        stages.accesses,
        region.memory,
        stages.tiles,
    )


METRICS = Families(
    (
        Family(registers.SPECS, kernel=_kernel(registers.compute)),
        Family(demand.LAUNCH_SPECS, kernel=_kernel(demand.launch_metrics)),
        Family(demand.OCCUPANCY_SPECS, kernel=_kernel(demand.occupancy_metrics)),
        Family(matrix.UNIT_SPECS, kernel=_kernel(matrix.kernel_cycles)),
        Family(options.SPECS, kernel=_kernel(options.compute)),
        Family(matrix.DOT_SPECS, kernel=_kernel(matrix.dot_types)),
        _of_source(source_products.PADDING_SPECS, source_products.padding),
        _of_source(source_products.SUMMED_SPECS, source_products.summed),
        _of_source(repeated_loads.SPECS, repeated_loads.alike),
        Family((*staging.SPECS, *staging.NARROW_SPECS), kernel=_kernel(staging.compute)),
        _of_source(code_copies.ASSEMBLY_SPECS, code_copies.dropped),
        Family(loop_shape.UNROLL_SPECS),
        Family(work.SPECS, kernel=_kernel(work.compute)),
        _value(lds_trees.SPECS, lds_trees.trees),
        Family(lds_races.SPECS, kernel=_kernel(lds_races.compute)),
        _value(matrix.HAZARD_SPECS, matrix.hazards),
        Family(redundancy.SPECS, kernel=_kernel(redundancy.compute)),
        _of_source(exchange_loops.ORDER_SPECS, exchange_loops.order),
        _value(atomic_sums.SPECS, atomic_sums.sums),
        _value(exchange_loops.SPECS, exchange_loops.exchange_loops),
        _value(idle_lanes.ELEMENT_SPECS, idle_lanes.single_elements),
        Family(memory_trips.SPECS, kernel=_kernel(memory_trips.compute)),
        _value(options.BOUND_SPECS, options.default_bounds),
        _of_source(bfloat_rounding.FLOAT8_SPECS, bfloat_rounding.written_out),
        _of_source(source_products.UNPACKED_SPECS, source_products.unpacked),
        Family(live_registers.SPECS, region=_region(live_registers.compute)),
        Family(mix.CLASS_SPECS, region=_region(mix.class_counts)),
        Family(mix.OVERHEAD_SPECS, region=_region(mix.vector_overhead)),
        _region_value(elementary_functions.SPECS, elementary_functions.exponentials),
        _region_value(bfloat_rounding.DOUBLE_SPECS, bfloat_rounding.doubles),
        Family(mix.WIDTH_SPECS, region=_region(mix.access_widths)),
        Family(waits.COUNT_SPECS, region=_region(waits.wait_counts)),
        Family(waits.USE_SPECS, region=_region(waits.wait_uses)),
        Family(matrix.UNIT_SPECS, region=_region(matrix.unit_cycles)),
        _region_value(matrix.SPECS, matrix.rate),
        _region_value(code_copies.SPECS, code_copies.copies),
        Family(lane_metrics.SPECS, region=_lanes),
        _region_value(idle_lanes.SPECS, idle_lanes.idle_lanes),
        _region_value(joint_accesses.SPECS, joint_accesses.wide_addresses),
        Family(bfloat_rounding.CONVERSION_SPECS, region=_region(bfloat_rounding.conversions)),
        Family(
            lds_buffers.SPECS,
            kernel=lambda k: lds_buffers.kernel_metrics(k.subject, k.buffers, k.num_stages),
        ),
        Family(
            staging.COPY_SPECS,
            kernel=lambda k: staging.transposed_copies(
                k.subject, k.buffers, k.metrics, k.num_stages
            ),
        ),
        Family(scratch_use.SPECS, kernel=_kernel(scratch_use.kernel_metrics)),
        Family(spills.SLOT_SPECS, kernel=lambda k: spills.slot_metrics(k.subject, k.hot)),
        Family(divisions.SPECS, kernel=lambda k: divisions.kernel_metrics(k.subject, k.hot)),
        Family(expansions.SPECS, kernel=lambda k: expansions.kernel_metrics(k.subject, k.hot)),
        Family(
            bfloat_rounding.SPECS, kernel=lambda k: bfloat_rounding.kernel_metrics(k.subject, k.hot)
        ),
        Family(
            overlapping_loads.SPECS,
            kernel=lambda k: overlapping_loads.kernel_metrics(k.subject, k.in_global, k.hot),
        ),
        Family(
            loads_in_passes.SPECS,
            kernel=lambda k: loads_in_passes.kernel_metrics(k.subject, k.in_global),
        ),
        Family(
            spills.REMEDY_SPECS,
            kernel=lambda k: spills.remedies(k.subject, k.loops, k.accesses, k.metrics),
        ),
        Family(launch.SPECS, kernel=lambda k: launch.compute(k.subject, k.metrics)),
        Family(bounds.SPECS, kernel=lambda k: bounds.kernel_metrics(k.subject, k.metrics)),
        Family(
            vector_work.SPECS,
            kernel=lambda k: vector_work.kernel_metrics(k.subject, k.loops, k.metrics),
        ),
        Family(
            tile_sharing.SPECS, kernel=lambda k: tile_sharing.compute(k.subject, k.metrics, k.main)
        ),
        Family(loop_shape.SPECS, loops=_loops(loop_shape.loop_metrics)),
        Family(
            scratch_use.SPECS,
            loops=lambda k: scratch_use.loop_metrics(k.subject.function, k.own_code),
        ),
        Family(work.SPECS, loops=_loops(work.loop_metrics)),
        Family(redundancy.SPECS, loops=_loops(redundancy.loop_metrics)),
        Family(divisions.SPECS, loops=_loops(divisions.loop_metrics)),
        _loop_values(
            repeated_loads.UNCHANGED_SPECS,
            lambda k: {
                loop.id: repeated_loads.unchanged(k.subject, loop, k.own_code[loop.id])
                for loop in k.subject.function.loops
            },
        ),
        _loop_values(
            source_products.MASK_SPECS,
            lambda k: (
                source_products.masked(k.subject, k.subject.ttgir, k.own_code)
                if k.subject.ttgir is not None
                else NO_TTGIR
            ),
        ),
        _loop_values(loop_steps.SPECS, lambda k: loop_steps.strides(k.subject)),
        Family(loop_shape.SPECS, loops=lambda k: loops.main_metrics(k.loops)),
        _loop_values(
            staging.NARROW_SPECS,
            lambda k: staging.narrow_here(k.subject, k.loops, k.accesses, k.metrics),
        ),
        Family(
            (*bounds.SPECS, *lds_trees.OPERAND_SPECS),
            loops=lambda k: bounds.loop_metrics(k.subject, k.metrics, k.executed, k.ways),
        ),
        _loop_values(
            exposed_latency.SPECS,
            lambda k: exposed_latency.exposed(k.subject, k.loops, k.metrics, k.played),
        ),
        Family(memory_trips.SPECS, loops=lambda k: memory_trips.loop_metrics(k.subject, k.loops)),
        _loop_values(
            lane_walks.WALK_SPECS, lambda k: lane_walks.walks(k.subject, k.hot, k.metrics)
        ),
        Family(
            loop_structure.SPECS,
            loops=lambda k: loop_structure.loop_metrics(k.subject, k.loops, k.played),
        ),
        Family(given_metrics.SPECS),
        Family(given_metrics.EMULATED_SPECS),
        Family(given_metrics.TIME_SPECS),
    )
)
"""Every metric; the values that a family is made of stand where it is listed."""


def specs() -> tuple[MetricSpec, ...]:
    """The catalogue: every metric's name, unit, origin, scope and meaning."""
    listed = (spec for family in METRICS.listed for spec in family.specs)
    return tuple({spec.name: spec for spec in listed}.values())


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
