"""The figures of `staging.py`, computed from a TTGIR module.

Facts about Triton's passes stand in `ttgir/trips.py`, `ttgir/conversions.py` and
`ttgir/plain_accesses.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..model import Layout, Scalar, TtgirModule, TtgirOp, TtgirType
from ..ttgir.conversions import (
    Conversion,
    before_stores,
    dots_behind,
    follows_dot,
    in_dot_loops,
    layout_name,
    tile_bytes,
)
from ..ttgir.flow import DataFlow, flow_of
from ..ttgir.lowered import MATRIX_LAYOUTS, element_bits
from ..ttgir.movements import Movements, movements
from ..ttgir.plain_accesses import PlainAccess, plain_accesses
from ..ttgir.queries import DOTS
from ..ttgir.trips import Staging, staging
from ..ttgir.unpipelined import Cause, cause
from .narrow_operands import narrow_operands
from .options import option
from .subject import Subject, op_line

_UNPIPELINED: Mapping[Cause, tuple[str, str]] = {
    Cause.WHILE: (
        "Triton pipelines `for` loops alone, and this is a `while`",
        "Write the loop as `for … in tl.range(…)`.",
    ),
    Cause.CONDITIONAL: (
        "the load or its dot stands under an `if` in the loop",
        "Take the load and the dot out of the `if`: mask the load, or split the loop in two.",
    ),
    Cause.NARROW: (
        "it moves fewer than 32 bits per lane, and such loads Triton leaves where they are",
        "Make the load at least 32 bits wide: a contiguous dimension that Triton can prove.",
    ),
}

# Triton 3.9's amd/compiler.py, is_async_copy_enabled: on by default for these. Other targets copy
# 32 bits per lane at most (gfx942's global_load_lds_dword, CDNA3 ISA), which Triton does not use.
DIRECT_TO_LDS: Mapping[str, tuple[int, ...]] = {
    # target -> bits per lane that one copy can move (CDNA4 ISA, global_load_lds_*; gfx1250: LLVM's
    # global_load_async_to_lds_*, where Triton takes 32 bits and more)
    "gfx950": (32, 96, 128),
    "gfx1250": (32, 64, 128),
}


Fact = tuple[Mapping[str, Scalar] | None, str]
"""A figure, and the reason where it is None."""


def facts(subject: Subject, module: TtgirModule) -> Iterator[Fact]:
    """Every figure of `staging.SPECS`, in its order, for a module made for an AMD target."""
    flow = flow_of(module)
    moves = movements(flow)
    staged = staging(flow, moves)
    yield _unpipelined(subject, flow, staged), ""
    yield _converts(flow, moves), ""
    yield _epilogue(flow, moves), ""
    yield _unbuffered(flow), ""
    yield narrow_operands(flow, staged), ""
    arch = subject.machine.arch if subject.machine is not None else "an unknown target"
    if arch in DIRECT_TO_LDS:
        yield _missed_copies(subject, staged, DIRECT_TO_LDS[arch]), ""
    else:
        yield None, f"Triton does not copy memory straight to LDS on {arch}"


def _unpipelined(subject: Subject, flow: DataFlow, staged: Staging) -> dict[str, Scalar]:
    """Loads that are multiplied in the iteration that loads them."""
    # A loop may ask for no pipelining itself: tl.range(..., num_stages=1).
    loads = [op for op in staged.unpipelined if (flow.loop_stages(op) or 2) > 1]
    stages = (flow.loop_stages(loads[0]) if loads else None) or option(subject, "num_stages")
    example, load_cause = loads[0] if loads else None, None
    arch = subject.machine.arch if subject.machine is not None else ""
    dots = {op.index: [way.dot for way in staged.ways if way.load is op] for op in loads}
    causes = ((op, cause(flow, op, dots[op.index], arch)) for op in loads)
    example, load_cause = next((pair for pair in causes if pair[1] is not None), (example, None))
    return {
        "loads": len(loads),
        "of": len(staged.in_loop),
        "at": op_line(example),
        "stages": stages,
        "cause": None if load_cause is None else load_cause.value,
        "reason": _UNPIPELINED[load_cause][0] if load_cause is not None else None,
        "fix": _UNPIPELINED[load_cause][1] if load_cause is not None else None,
    }


def _converts(flow: DataFlow, moves: Movements) -> dict[str, Scalar]:
    """Conversions in the loop whose conversions move most through LDS."""
    loops: dict[int | None, list[Conversion]] = {}
    for conversion in in_dot_loops(flow, moves):
        loops.setdefault(flow.loop[conversion.op.index], []).append(conversion)
    conversions, through = max(
        (
            (conversions, _largest_first([c for c in conversions if c.movement == "lds"]))
            for conversions in loops.values()
        ),
        key=lambda pair: (
            _bytes([conversion.source for conversion in pair[1]]) or 0,
            len(pair[1]),
            len(pair[0]),
        ),
        default=([], []),
    )
    worst = through[0] if through else None
    products = [conversion for conversion in through if _is_between_dots(flow, conversion)]
    product = products[0] if products else None
    return {
        "products": len(products),
        "product_at": op_line(product.op) if product else None,
        "product_before": layout_name(product.source.layout) if product else None,
        "product_after": layout_name(product.target.layout) if product else None,
        "product_bytes": _bytes([conversion.source for conversion in products]),
        "lds": len(through),
        "of": len(conversions),
        "at": op_line(worst.op) if worst else None,
        "before": layout_name(worst.source.layout) if worst else None,
        "after": layout_name(worst.target.layout) if worst else None,
        "bytes": _bytes([conversion.source for conversion in through]),
    }


def _is_between_dots(flow: DataFlow, conversion: Conversion) -> bool:
    """Whether a dot's result is converted for another dot, in a way that layouts can avoid."""
    # Code under an `if` is seldom executed: the epilogue of a persistent loop.
    return (
        conversion.op.parent == flow.loop[conversion.op.index]
        and _layout_kind(conversion.source) in MATRIX_LAYOUTS
        and _is_for_dot(conversion.target)
        and not _is_of_all_rows(conversion)
        and not _is_within_rows(conversion)
        and not _meets_another(flow, conversion)
    )


def _layout_kind(tile_type: TtgirType) -> str | None:
    return None if tile_type.layout is None else tile_type.layout.kind


def _is_for_dot(tile_type: TtgirType) -> bool:
    """Whether a layout is that of a dot's operand or result."""
    return _layout_kind(tile_type) in MATRIX_LAYOUTS or _layout_kind(tile_type) == "dot_op"


def _is_of_all_rows(conversion: Conversion) -> bool:
    """Whether a result whose rows lie in several waves becomes a second operand.

    Its rows are that dot's K, all of which each wave needs: they are exchanged with any matrix
    instruction (tried: with 16x16 ones a loop of 982 instructions became 1,138).
    """
    target = conversion.target.layout
    second = target is not None and target.params.get("opIdx") == 1
    waves = _waves(conversion)
    return second and waves is not None and waves[-2] != 1


def _is_within_rows(conversion: Conversion) -> bool:
    """Whether both dots have one layout, in which several waves share a row.

    The row is the second dot's K. Other matrix instructions leave both layouts as they are (tried:
    128 rows, eight waves as [4, 2] with 32x32 and with 16x16).
    """
    source, target = conversion.source.layout, conversion.target.layout
    waves = _waves(conversion)
    if source is None or target is None or target.parent is None or waves is None:
        return False
    is_one_layout = (target.parent.kind, target.parent.params) == (
        source.kind,
        source.params,
    )
    return is_one_layout and waves[-1] != 1


def _meets_another(flow: DataFlow, conversion: Conversion) -> bool:
    """Whether one of the two layouts is of a dot in no chain, spread over columns.

    Triton spreads the waves of chained dots (one's result is the first operand of the other, with
    no `if` in between) over rows, as far as there are rows; those of other dots by their shape
    (3.9, AccelerateAMDMatmul, `warpsPerTile`), with any matrix instruction.
    """
    loop = flow.loop[conversion.op.index]
    dots = [op for op in flow.module.ops if op.name in DOTS and flow.loop[op.index] == loop]
    source_layout, target_layout = conversion.source.layout, conversion.target.layout
    target = target_layout.parent or target_layout if target_layout is not None else None
    makers = dots_behind(flow, flow.operands[conversion.op.index][:1])
    users = [op for op in dots if op.result_types[0].layout == target]
    return any(
        bool(linked_dots)
        and _is_over_columns(layout)
        and not any(follows_dot(flow, flow.operands[dot.index][:1]) for dot in linked_dots)
        for layout, linked_dots in ((source_layout, makers), (target, users))
    )


def _is_over_columns(layout: Layout | None) -> bool:
    """Whether several waves share a row."""
    waves = _waves_of(layout)
    return waves is not None and waves[-1] != 1


def _waves(conversion: Conversion) -> tuple[int, ...] | None:
    """Waves along each dimension of the tile before the conversion."""
    return _waves_of(conversion.source.layout)


def _waves_of(layout: Layout | None) -> tuple[int, ...] | None:
    waves = layout.params.get("warpsPerCTA") if layout is not None else None
    return waves if isinstance(waves, tuple) and len(waves) > 1 else None


def _epilogue(flow: DataFlow, moves: Movements) -> dict[str, Scalar]:
    """Conversions of a dot's result before its store."""
    through = [outgoing for outgoing in before_stores(flow) if moves[outgoing.op.index] == "lds"]
    through.sort(
        key=lambda outgoing: (outgoing.wide, tile_bytes(outgoing.op.result_types[0]) or 0),
        reverse=True,
    )
    worst = through[0] if through else None
    return {
        "lds": len(through),
        "at": op_line(worst.op) if worst else None,
        "bytes": _bytes([outgoing.op.result_types[0] for outgoing in through]),
        "wide": worst.wide if worst else None,
    }


def _unbuffered(flow: DataFlow) -> dict[str, Scalar]:
    """Accesses through 64-bit pointers that could be buffer operations."""
    accesses, tiles = plain_accesses(flow)

    def is_hot(access: PlainAccess) -> bool:
        return (
            flow.in_dot_loop(access.op)
            if flow.dot_loops
            else flow.loop[access.op.index] is not None
        )

    hot = [access for access in accesses if is_hot(access)]
    example = next(iter((*hot, *accesses)), None)
    return {
        "accesses": len(accesses),
        "of": tiles,
        "hot": len(hot),
        "at": op_line(example.op) if example else None,
        "reason": example.reason if example else None,
    }


def _missed_copies(subject: Subject, staged: Staging, widths: Sequence[int]) -> dict[str, Scalar]:
    """Loads that could be copied to LDS directly."""
    loads = staged.through_registers
    reasons = ((op, _why_not_direct(subject, staged, op, widths)) for op in loads)
    explained = next((pair for pair in reasons if pair[1] is not None), None)
    example, reason = explained or (loads[0] if loads else None, None)
    return {
        "loads": len(loads),
        "of": len(staged.in_loop),
        "at": op_line(example),
        "reason": reason,
    }


def _why_not_direct(
    subject: Subject, staged: Staging, load: TtgirOp, widths: Sequence[int]
) -> str | None:
    """The reason that a load is no copy; None where it is unknown."""
    if load in staged.unpipelined:
        stages = option(subject, "num_stages")
        return "the loop is not pipelined" + (f" (num_stages={stages})" if stages else "")
    contiguity = load.attributes.get("contiguity")
    bits = element_bits(load.result_types[0].element) if load.result_types else None
    if isinstance(contiguity, int) and bits and contiguity * bits not in widths:
        return f"a lane reads {contiguity * bits} neighbouring bits, no width that can be copied"
    return None


def _largest_first(conversions: Sequence[Conversion]) -> list[Conversion]:
    return sorted(
        conversions, key=lambda conversion: tile_bytes(conversion.source) or 0, reverse=True
    )


def _bytes(tiles: Sequence[TtgirType]) -> int | None:
    """Bytes of some tiles; None where the size of one is unknown."""
    sizes = [tile_bytes(tile) for tile in tiles]
    return None if None in sizes else sum(size for size in sizes if size is not None)
