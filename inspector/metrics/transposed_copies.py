"""`narrow_copies`: whether LDS has room for transposed copies of tiles that dots read both ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..model import LdsBuffer, Metric, Scalar, TtgirModule
from .staging import COPIES, NARROW_OPERANDS
from .subject import Subject, variable_name

_LEAST_STAGES = 2
"""num_stages with which the pipeline loads one tile ahead."""


def transposed_copies(
    subject: Subject,
    buffers: Sequence[LdsBuffer],
    metrics: Mapping[str, Metric],
    stages: int | None,
) -> Iterator[Metric]:
    """The metric; None where no tile is read in both orders.

    `metrics`: its other metrics; `narrow_operands` is read; `stages`: num_stages of the compile.
    """
    counts = metrics[NARROW_OPERANDS].value if NARROW_OPERANDS in metrics else None
    if subject.ttgir is None or not isinstance(counts, Mapping) or not counts.get("twice"):
        yield Metric(COPIES, None, "mapping", "derived", "no tile is read in both orders")
        return
    names, size = _tiles_read_both_ways(subject.ttgir)
    fitting_stages = _most_stages(subject, buffers, size, stages)
    value: dict[str, Scalar] = {
        "tiles": len(names),
        "bytes": size,
        "stages": fitting_stages,
        "said": None if fitting_stages is None else _in_words(names, size, stages, fitting_stages),
    }
    yield Metric(COPIES, value, "mapping", "derived")


def _tiles_read_both_ways(module: TtgirModule) -> tuple[list[str], int | None]:
    """Names of the tiles, and bytes of all of them; None where the size of one is unknown."""
    # The algebra of layouts is loaded for kernels that have such tiles.
    from ..ttgir.conversions import tile_bytes
    from ..ttgir.flow import flow_of
    from ..ttgir.movements import movements
    from ..ttgir.trips import staging
    from .narrow_operands import narrow_reads

    flow = flow_of(module)
    staged = staging(flow, movements(flow))
    reads = {index for index, kind in narrow_reads(flow, staged).items() if kind == "twice"}
    # Peeled iterations load the same tile again, at the same position in the source.
    loads = {
        way.load.loc or way.load.index: way.load
        for way in staged.ways
        if any(lds_read.index in reads for _, lds_read in way.trips)
    }.values()
    names = sorted({variable_name(load.results[0]) for load in loads if load.results})
    total = 0
    for load in loads:
        size = tile_bytes(load.result_types[0]) if load.result_types else None
        if size is None:
            return names, None
        total += size
    return names, total


def _most_stages(
    subject: Subject, buffers: Sequence[LdsBuffer], size: int | None, stages: int | None
) -> int | None:
    """The most stages, up to those of the compile, with which the copies fit; None for none.

    Every stage less frees one buffer of each pipelined tile (tried: 57,344 bytes with four stages
    became 106,496 with two copies of 8,192 bytes, 73,728 with three stages and 40,960 with two).
    """
    total, machine = subject.facts.lds_bytes, subject.machine
    if total is None or machine is None or size is None or stages is None:
        return None
    pipelined = [
        buffer
        for buffer in buffers
        if buffer.at_peak and buffer.kind == "pipelined" and buffer.copies > 1
    ]
    if not pipelined:  # nothing is loaded ahead, whatever the option says
        return stages if total + size <= machine.lds_max else None
    freed = sum((buffer.size or 0) // buffer.copies for buffer in pipelined)
    for count in range(stages, _LEAST_STAGES - 1, -1):
        if total - (stages - count) * freed + (count - 1) * size <= machine.lds_max:
            return count
    return None


def _in_words(
    names: Sequence[str], size: int | None, stages: int | None, fitting_stages: int
) -> str:
    """The remedy in words."""
    with_fewer = "" if fitting_stages == stages else f", with num_stages={fitting_stages}"
    copied = ", ".join(names)
    return f"Or keep a transposed copy of {copied} ({size} bytes of LDS per buffer){with_fewer}"
