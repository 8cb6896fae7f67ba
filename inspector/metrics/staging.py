"""Figures on the ways of tiles from memory to the dots and back, by TTGIR.

`compute` makes those of a kernel, worked out in `staged.py`; `narrow_here` one of them by loop;
`transposed_copies` whether LDS has room for copies of tiles that dots read both ways.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ..model import Access, LdsBuffer, LoopReport, Metric, Scalar, TtgirModule, value_of
from .entries import NO_TTGIR, Unknown, metric_of, of_kernels, of_loops
from .subject import Subject, variable_name

UNPIPELINED = "pipeline.unpipelined"
CONVERTS = "layout.converts"
PRODUCTS = "product.converts"
EPILOGUE = "epilogue.converts"
PLAIN = "buffer.plain"
DIRECT = "lds_direct.missed"
NARROW_OPERANDS = "narrow_operands"
NARROW_HERE = "narrow_here"
COPIES = "narrow_copies"

SPECS = of_kernels(
    {
        UNPIPELINED: "Global loads in the innermost loop of a dot whose value is multiplied in "
        "the same iteration, so that it waits for memory: `loads` of the `of` that feed the dots, "
        "`at` which line, num_`stages`; what keeps one of them there is its `cause` (while, "
        "conditional, narrow; None: not known), in words the `reason`, and the `fix`",
        CONVERTS: "convert_layout in the loop with dots that moves most with them, and tiles of "
        "one dot that reach another dot through a buffer: `lds` of `of` move data through LDS, "
        "the largest `at` which line, `before` and `after` in which layout, `bytes` of all their "
        "tiles; loaded operands on their way to a dot and tiles that are only stored are left out",
        PRODUCTS: "As layout.converts, of those that begin in the layout of a dot's result, end in "
        "that of a dot's operand or result and stand under no `if`",
        EPILOGUE: "Conversions of a dot's result through LDS before its store: `lds` of them, `at` "
        "which line, `bytes` of their tiles, `wide`: in a wider type than is stored",
        PLAIN: "Tiles read or written through 64-bit pointers that could be buffer operations: "
        "`accesses` of `of`, `hot` in the loops with dots (in any loop where no loop has one), "
        "`at` which line, the `reason`",
        NARROW_OPERANDS: "Reads of less than 32 bits per lane by which operands of dots come from "
        "LDS, in the loops with dots: `loaded` of tiles that hold loaded elements, in whatever "
        "type; `twice`: the same, of tiles that are read by two dots or in two orders; `indexed`: "
        "the same, loaded where other loads say (pages, starts of sequences), so that another "
        "order in memory is not known to be aligned; `masked`: in another order the mask would "
        "split the loads, too; `unshared`: each workgroup reads a part of its own, so that "
        "writing another order costs what it saves; `apart`: the dot takes less than 32 bits of "
        "neighbours from a lane; `computed` of tiles that were worked out from what was loaded, "
        "or that lie in LDS with K contiguous and are read in the layout of what they are "
        "combined with",
        DIRECT: "Loads in the loops with dots that are stored to LDS as they are, through "
        "registers, on a target that copies memory straight to LDS: `loads` of the `of` that feed "
        "the dots, `at` which line, the `reason`",
    }
)
NARROW_SPECS = of_loops(
    {
        NARROW_HERE: "As narrow_operands, of the reads that stand in this loop; of all loops with "
        "dots where positions do not tell them apart",
    }
)
COPY_SPECS = of_kernels(
    {
        COPIES: "Tiles that two dots read in both orders, so that one of them reads by less than "
        "32 bits: how many `tiles`, `bytes` of one transposed copy of each, the largest "
        "num_`stages` up to the kernel's own with which they fit into a workgroup's LDS (None: "
        "none), and that in words (`said`)",
    }
)


def compute(subject: Subject) -> Iterator[Metric]:
    """The figures of `SPECS`; None with a note where there is no TTGIR for an AMD target."""
    figures = _figures(subject)
    for spec in SPECS:
        yield metric_of(spec, figures if isinstance(figures, Unknown) else figures[spec.name])


def _figures(subject: Subject) -> Mapping[str, Mapping[str, Scalar] | Unknown] | Unknown:
    """Each figure of `SPECS` by its name, or why there are none."""
    module = subject.ttgir
    if module is None:
        return NO_TTGIR
    if not _for_amd(module):
        return Unknown("compiled for no AMD target")
    from .staged import facts

    try:
        figures = facts(subject, module)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):  # an edited file
        return Unknown("the TTGIR is not as Triton prints it")
    return {
        UNPIPELINED: figures.unpipelined,
        CONVERTS: figures.converts,
        PRODUCTS: figures.products,
        EPILOGUE: figures.epilogue,
        PLAIN: figures.plain,
        NARROW_OPERANDS: figures.narrow_operands,
        DIRECT: figures.direct,
    }


def _for_amd(module: TtgirModule) -> bool:
    return str(module.attributes.get("target", "hip:")).startswith("hip:")


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
    (spec,) = COPY_SPECS
    counts = value_of(metrics, NARROW_OPERANDS)
    if subject.ttgir is None or not isinstance(counts, Mapping) or not counts.get("twice"):
        yield metric_of(spec, Unknown("no tile is read in both orders"))
        return
    names, size = _tiles_read_both_ways(subject.ttgir)
    fitting_stages = _most_stages(subject, buffers, size, stages)
    value: dict[str, Scalar] = {
        "tiles": len(names),
        "bytes": size,
        "stages": fitting_stages,
        "said": None if fitting_stages is None else _in_words(names, size, stages, fitting_stages),
    }
    yield metric_of(spec, value)


def _tiles_read_both_ways(module: TtgirModule) -> tuple[list[str], int | None]:
    """Names of the tiles, and bytes of all of them; None where the size of one is unknown."""
    # The algebra of layouts is loaded for kernels that have such tiles.
    from ..ttgir.conversions import tile_bytes
    from ..ttgir.flow import flow_of
    from .product_trips import staging
    from .staged import narrow_reads

    flow = flow_of(module)
    staged = staging(flow)
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
    from .product_trips import staging
    from .staged import KINDS, narrow_reads

    flow = flow_of(subject.ttgir)
    kinds = narrow_reads(flow, staging(flow))
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
