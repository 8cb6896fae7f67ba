"""Room in LDS for a second copy of tiles that two dots read in both orders.

Such a tile can be stored with K contiguous for one of the dots alone; a transposed copy serves the
other, and takes as much LDS as the tile itself in each buffer that the pipeline takes turns in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..model import LdsBuffer, Metric, MetricSpec, Scalar, TtgirModule
from .places import variable
from .staging import NARROW_OPERANDS
from .subject import Subject

COPIES = "narrow_copies"
_ONE_AHEAD = 2  # num_stages with which one tile is on its way

SPECS = (
    MetricSpec(
        COPIES,
        "mapping",
        "derived",
        "kernel",
        "Tiles that two dots read in both orders, so that one of them reads by less than 32 bits: "
        "how many `tiles`, `bytes` of one transposed copy of each, the largest num_`stages` up to "
        "the kernel's own with which they fit into a workgroup's LDS (None: none), and that in "
        "words (`said`)",
    ),
)


def kernel_metrics(
    subject: Subject,
    buffers: Sequence[LdsBuffer],
    metrics: Mapping[str, Metric],
    stages: int | None,
) -> Iterator[Metric]:
    """The figure; None where no tile is read in both orders.

    Args:
        subject: the kernel.
        buffers: what its TTGIR puts into LDS.
        metrics: its other metrics.
        stages: num_stages of the compile.
    """
    counts = metrics[NARROW_OPERANDS].value if NARROW_OPERANDS in metrics else None
    if subject.ttgir is None or not isinstance(counts, Mapping) or not counts.get("twice"):
        yield Metric(COPIES, None, "mapping", "derived", "no tile is read in both orders")
        return
    names, size = _twice(subject.ttgir)
    fits = _fits(subject, buffers, size, stages)
    value: dict[str, Scalar] = {
        "tiles": len(names),
        "bytes": size,
        "stages": fits,
        "said": _words(names, size, stages, fits) if fits is not None else None,
    }
    yield Metric(COPIES, value, "mapping", "derived")


def _twice(module: TtgirModule) -> tuple[list[str], int | None]:
    """Names of the tiles, and bytes of all of them; None where one's is unknown."""
    # The algebra of layouts is loaded for kernels that have such tiles.
    from ..ttgir.conversions import movements, tile_bytes
    from ..ttgir.flow import flow_of
    from ..ttgir.trips import staging
    from .narrow_operands import narrow_reads

    flow = flow_of(module)
    staged = staging(flow, movements(flow))
    twice = {op for op, kind in narrow_reads(flow, staged).items() if kind == "twice"}
    # Peeled iterations load the same tile again, at the same place.
    loads = {
        way.load.loc or way.load.index: way.load
        for way in staged.ways
        if any(read.index in twice for _, read in way.trips)
    }
    tiles = list(loads.values())
    sizes = [tile_bytes(load.result_types[0]) if load.result_types else None for load in tiles]
    names = sorted({variable(load.results[0]) for load in tiles if load.results})
    known_sizes = [size for size in sizes if size is not None]
    return names, sum(known_sizes) if len(known_sizes) == len(sizes) else None


def _fits(
    subject: Subject, buffers: Sequence[LdsBuffer], size: int | None, stages: int | None
) -> int | None:
    """The most stages with which the copies fit; None where none is known to.

    A stage less frees one copy of each tile that the pipeline takes turns in (tried: 57,344 bytes
    with four stages became 106,496 with two copies of 8,192 bytes, 73,728 with three stages and
    40,960 with two).
    """
    total, machine = subject.facts.lds_bytes, subject.machine
    if total is None or machine is None or size is None or stages is None:
        return None
    turning = [
        buffer
        for buffer in buffers
        if buffer.at_peak and buffer.kind == "pipelined" and buffer.copies > 1
    ]
    freed = sum((buffer.size or 0) // buffer.copies for buffer in turning)
    if not turning:  # nothing is loaded ahead, whatever the option says
        return stages if total + size <= machine.lds_max else None
    counts = range(stages, _ONE_AHEAD - 1, -1)
    demands = ((n, total - (stages - n) * freed + (n - 1) * size) for n in counts)
    return next((n for n, demand in demands if demand <= machine.lds_max), None)


def _words(names: Sequence[str], size: int | None, stages: int | None, fits: int) -> str:
    operands = f"{', '.join(names)} {'are operands' if len(names) > 1 else 'is an operand'}"
    with_less = "" if fits == stages else f", and fits with num_stages={fits} (now {stages})"
    each = f"{size} bytes of LDS in each buffer{with_less}"
    return f"{operands} of two dots in both orders: a transposed copy takes {each}"
