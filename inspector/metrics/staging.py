"""How tiles get from memory to the dots and back: what TTGIR says before LLVM sees the code.

Each figure names the operation at fault and its place in the source. They are worked out in
`staged.py`.

`narrow_operands` counts over all loops with dots. Where all its reads are of one kind that says
enough of each loop; where they are not, the operations' positions tell which loop has which.

A tile that two dots read in both orders can be stored with K contiguous for one of the dots alone;
a transposed copy serves the other, and takes as much LDS as the tile itself in each buffer that the
pipeline takes turns in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from ..model import Access, LdsBuffer, LoopReport, Metric, MetricSpec, Scalar, TtgirModule
from .subject import Subject, variable_name

UNPIPELINED = "pipeline.unpipelined"
CONVERTS = "layout.converts"
TRIPS = "lds_trips"
EPILOGUE = "epilogue.converts"
PLAIN = "buffer.plain"
DIRECT = "lds_direct.missed"
NARROW_OPERANDS = "narrow_operands"
_ABOUT: Mapping[str, str] = {
    UNPIPELINED: "Global loads in the innermost loop of a dot whose value is multiplied in the "
    "same iteration, so that it waits for memory: `loads` of the `of` that feed the dots, `at` "
    "which line, num_`stages`; what keeps one of them there is its `cause` (while, conditional, "
    "narrow; None: not known), in words the `reason`, and the `fix`",
    CONVERTS: "convert_layout in the loop with dots that moves most with them, and tiles of one "
    "dot that reach another dot through a buffer: `lds` of `of` move data through LDS, the largest "
    "`at` which line, `before` and `after` in which layout, `bytes` of all their tiles, "
    "`narrow_reads` of less than 32 bits per lane from the buffers; `products`: those of them that "
    "begin in the layout of a dot's result, end in that of a dot's operand or result and stand "
    "under no `if`, with the same figures; loaded operands on their way to a dot and tiles that "
    "are only stored are left out",
    TRIPS: "Values that pass through LDS more than once between a global load and a dot: how many "
    "`values`, `most` trips, the worst one's load (`at`), `path` and where its `first_at` and "
    "`second_at` trips are",
    EPILOGUE: "Conversions of a dot's result through LDS before its store: `lds` of them, `at` "
    "which line, `bytes` of their tiles, `wide`: in a wider type than is stored",
    PLAIN: "Tiles read or written through 64-bit pointers that could be buffer operations: "
    "`accesses` of `of`, `hot` in the loops with dots (in any loop where no loop has one), `at` "
    "which line, the `reason`",
    NARROW_OPERANDS: "Reads of less than 32 bits per lane by which operands of dots come from "
    "LDS, in the loops with dots: `loaded` of tiles that hold loaded elements, in whatever type; "
    "`twice`: the same, of tiles that are read by two dots or in two orders; "
    "`indexed`: the same, loaded where other loads say (pages, starts of sequences), so that "
    "another order in memory is not known to be aligned; `masked`: in another order the mask would "
    "split the loads, too; `unshared`: each workgroup reads a part of its own, so that writing "
    "another order costs what it saves; `apart`: the dot takes less than 32 bits of neighbours "
    "from a lane; `computed` of tiles that were worked out from what was loaded",
    DIRECT: "Loads in the loops with dots that are stored to LDS as they are, through registers, "
    "on a target that copies memory straight to LDS: `loads` of the `of` that feed the dots, `at` "
    "which line, the `reason`",
}
SPECS = tuple(
    MetricSpec(name, "mapping", "derived", "kernel", about) for name, about in _ABOUT.items()
)


def compute(subject: Subject) -> Iterator[Metric]:
    """All figures; None with a note where there is no TTGIR for an AMD target."""
    module = subject.ttgir
    note = "needs the kernel's TTGIR"
    if module is not None and not _for_amd(module):
        note = "compiled for no AMD target"
    elif module is not None:
        # The layout algebra is loaded for Triton kernels alone.
        from .staged import facts

        try:
            values = tuple(facts(subject, module))
            for spec, (value, why) in zip(SPECS, values, strict=True):
                yield Metric(spec.name, value, spec.unit, spec.origin, why)
            return
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            note = "the TTGIR is not as Triton prints it"  # an edited file
    for spec in SPECS:
        yield Metric(spec.name, None, spec.unit, spec.origin, note)


def _for_amd(module: TtgirModule) -> bool:
    return str(module.attributes.get("target", "hip:")).startswith("hip:")


# --------------------------------------------------------------------------- narrow reads

NARROW_HERE = "narrow_here"

NARROW_SPECS = (
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


# --------------------------------------------------------------------------- room for a copy

COPIES = "narrow_copies"
_ONE_AHEAD = 2  # num_stages with which one tile is on its way

COPY_SPECS = (
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


def second_copies(
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
    names = sorted({variable_name(load.results[0]) for load in tiles if load.results})
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
