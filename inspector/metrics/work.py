"""The work that the source needs, by which figures of two configurations are divided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import prod

from ..isa.mnemonics import access_bits
from ..model import Instruction, Metric, TtgirModule, TtgirOp
from .entries import of_both, of_loops
from .loop_shape import position_of, unroll_factor
from .subject import MATRIX_CLASSES, Place, Subject

MACS, LOADED, ITERATIONS = "work.macs", "work.loaded", "work.iterations"

SPECS = (
    *of_both(
        {
            MACS: "multiply-accumulates | Multiply-accumulates (M·N·K) that the source's dots "
            "need in one ISA iteration of the loop, all waves of the workgroup together; of a "
            "kernel: in all, where it has no loop",
            LOADED: "elements | Elements that the source loads as tiles in one ISA iteration of "
            "the loop, all waves of the workgroup together; of a kernel: in all, where it has no "
            "loop",
        }
    ),
    *of_loops(
        {
            ITERATIONS: "iterations | Source iterations per ISA iteration: by the loop's dots "
            "(`unroll`), else by its loads",
        }
    ),
)

_LOADED_BY = ("global_load", "lds_direct")
_BRANCHES = frozenset(("scf.if", "scf.index_switch"))
_NO_JOIN = "the loop's code cannot be joined with TTGIR's operations for certain"


def loop_metrics(
    subject: Subject, own_code: Mapping[str, Sequence[Instruction]]
) -> dict[str, dict[str, Metric]]:
    """Loop id -> its metrics by name."""
    by_loop = {}
    for loop, region in own_code.items():
        macs, loaded, iterations, note = _of_loop(subject, region)
        by_loop[loop] = _work_metrics(macs, loaded, note)
        by_loop[loop][ITERATIONS] = Metric(
            ITERATIONS, iterations, "iterations", "derived", "" if iterations else note
        )
    return by_loop


def compute(subject: Subject) -> Iterator[Metric]:
    """The figures of the kernel: known where neither source nor code has a loop."""
    yield from _work_metrics(*_of_kernel(subject)).values()


def _work_metrics(macs: int | None, loaded: int | None, note: str = "") -> dict[str, Metric]:
    metrics = (
        Metric(MACS, macs, "multiply-accumulates", "derived", note if macs is None else ""),
        Metric(LOADED, loaded, "elements", "derived", note if loaded is None else ""),
    )
    return {metric.name: metric for metric in metrics}


_Work = tuple[int | None, int | None, str]


def _of_kernel(subject: Subject) -> _Work:
    """Multiply-accumulates and loaded elements of the kernel, and why one is unknown."""
    module = subject.ttgir
    if module is None:
        return None, None, "needs the kernel's TTGIR"
    # Only Triton kernels need them.
    from ..ttgir import queries
    from ..ttgir.axes.widths import tile_of

    if subject.function.loops:
        return None, None, "how often its loops run is not known"
    if len(module.functions) > 1:
        return None, None, "it calls functions that were not inlined"
    dots, loads = queries.dots(module), queries.loads(module)
    if any(_branch_above(op, module) for op in (*dots, *loads)):
        return None, None, "which of its branches is taken is not known"
    if any(map(_is_opaque, loads)):
        return None, None, "it loads through descriptors"
    # Loops of the source that the compiler unrolled to the end.
    constants = queries.integer_constants(module)
    macs = [_times(_macs((op,)), _runs(op, module, constants)) for op in dots]
    tiles = [tile for tile in map(tile_of, loads) if tile is not None]
    loaded = [
        _times(prod(tile.tensor_type.shape), _runs(tile.op, module, constants)) for tile in tiles
    ]
    note = "how often its loops run is not known"
    total_macs = _total(macs)
    if total_macs and subject.ttir is not None and not queries.named(module, queries.LOOPS):
        # One dot may be lowered to several of its size (bf16x3): the source needs but one.
        source_macs = _macs(queries.dots(subject.ttir))
        total_macs = min(total_macs, source_macs) if source_macs else None
    return total_macs, _total(loaded), note


def _times(count: int | None, runs: int | None) -> int | None:
    return None if count is None or runs is None else count * runs


def _total(counts: Sequence[int | None]) -> int | None:
    known_counts = [count for count in counts if count is not None]
    return sum(known_counts) if len(known_counts) == len(counts) else None


def _runs(op: TtgirOp, module: TtgirModule, constants: Mapping[str, int]) -> int | None:
    """The times that the loops around an operation run it; None where their bounds are not
    constant.
    """
    from ..ttgir import queries

    runs, loop = 1, queries.loop_above(op, module)
    while loop is not None:
        header = module.ops[loop]
        trips = queries.constant_trips(header, constants)
        if trips is None:
            return None
        runs *= trips
        loop = queries.loop_above(header, module)
    return runs


def _of_loop(
    subject: Subject, region: Sequence[Instruction]
) -> tuple[int | None, int | None, int | None, str]:
    """Multiply-accumulates, loaded elements, source iterations, and why one is not known."""
    module = subject.ttgir
    if module is None:
        return None, None, None, "needs the kernel's TTGIR"
    loaded, by_loads = _loop_loaded(module, region)
    by_dots = unroll_factor(region, module)
    return _loop_macs(subject, module, region), loaded, by_dots or by_loads, _NO_JOIN


def _loop_macs(subject: Subject, module: TtgirModule, region: Sequence[Instruction]) -> int | None:
    """The multiply-accumulates of a loop's dots; 0 where the kernel has no dot at all."""
    from ..ttgir import queries

    if not queries.dots(module):
        return 0
    instructions = Counter(
        position_of(inst.loc) if inst.loc is not None else None
        for inst in region
        if inst.cls in MATRIX_CLASSES
    )
    if not instructions:
        return None  # no dot's code, or on the vector unit: that cannot be told
    lowered: dict[Place | None, list[TtgirOp]] = {}
    for op in queries.dots(module):
        lowered.setdefault(position_of(op.loc) if op.loc is not None else None, []).append(op)
    source = queries.dots(subject.ttir) if subject.ttir is not None else None
    total_macs = Fraction(0)
    for position, count in instructions.items():
        source_macs = (
            _source_macs(position, source) if source is not None and position is not None else None
        )
        macs = _macs_of(count, lowered.get(position, []), source_macs, module)
        if position is None or macs is None or (source is not None and source_macs is None):
            return None
        total_macs += macs
    return int(total_macs) if total_macs.denominator == 1 else None


def _macs_of(
    count: int, dots: Sequence[TtgirOp], source_macs: int | None, module: TtgirModule
) -> Fraction | None:
    """The multiply-accumulates of the dots that became some matrix instructions of one position."""
    from ..ttgir import queries
    from ..ttgir import redundant_work as matrix_work

    inside = [op for op in dots if queries.loop_above(op, module) is not None]
    kinds = {(matrix_work.mfma_per_dot(op), _macs((op,))) for op in inside}
    if len(kinds) != 1 or any(_branch_above(op, module) for op in inside):
        return None
    per_dot, macs = kinds.pop()
    if not per_dot or macs is None or count % per_dot:
        return None
    # One dot may be lowered to several of its size (bf16x3): the source needs but one.
    groups = Counter(queries.loop_above(op, module) for op in dots)
    least_macs = macs * min(groups.values())
    share = (
        Fraction(min(source_macs, least_macs), least_macs)
        if source_macs is not None
        else Fraction(1)
    )
    return count // per_dot * macs * share


def _source_macs(position: Place, dots: Iterable[TtgirOp]) -> int | None:
    """Multiply-accumulates of the source's dots at a position; None where they are unknown."""
    placed = [(position_of(op.loc), op) for op in dots if op.loc is not None]
    exact = [op for dot_position, op in placed if dot_position == position]
    if exact:
        return _macs(exact)
    for key in (_line, _function):
        near = [op for dot_position, op in placed if key(dot_position) == key(position)]
        if near:
            return _macs(near) if len(near) == 1 else None
    return None


def _line(position: Place) -> tuple[tuple[str, int], ...]:
    return tuple((file, line) for file, line, _ in position)


def _function(position: Place) -> tuple[str, Place]:
    """The file, and the calls that lead there."""
    return position[0][0], position[1:]


def _macs(dots: Iterable[TtgirOp]) -> int | None:
    from ..ttgir.redundant_work import dot_tile_shapes

    total = 0
    for op in dots:
        tile = dot_tile_shapes(op)
        if tile is None:
            return None
        total += tile.batch * tile.m * tile.n * tile.k
    return total


def _loop_loaded(
    module: TtgirModule, region: Sequence[Instruction]
) -> tuple[int | None, int | None]:
    """Elements of the tiles that a loop loads, and the source iterations in which it does.

    The unroll factor follows from the bits that each lane loads at each position, compared with
    those of one iteration of the source's loop. Every tile of that loop must be there, each equally
    often: a load that was moved out of the loop leaves the figure unknown.
    """
    from ..ttgir import queries
    from ..ttgir.axes.widths import tile_of
    from ..ttgir.layouts import type_to_linear
    from ..ttgir.lowered import element_bits

    inside = [
        (op, loop)
        for op in queries.loads(module)
        if (loop := queries.loop_above(op, module)) is not None
    ]
    loaded_tiles = [(tile, loop) for op, loop in inside if (tile := tile_of(op)) is not None]
    opaque_loops = {loop for op, loop in inside if _is_opaque(op)}  # loads of unknown extent
    if not loaded_tiles and not opaque_loops:
        return 0, None
    loaded_bits: Counter[Place] = Counter()
    for inst in region:
        if inst.cls in _LOADED_BY and inst.loc is not None:
            bits = access_bits(inst.op, inst.operands)
            if bits is None:
                return None, None
            loaded_bits[position_of(inst.loc)] += bits
    loops = {
        loop
        for tile, loop in loaded_tiles
        if tile.op.loc is not None and position_of(tile.op.loc) in loaded_bits
    }
    if len(loops) != 1 or loops & opaque_loops:
        return None, None
    needed_bits: Counter[Place] = Counter()
    elements = 0
    for tile, loop in loaded_tiles:
        if loop not in loops:
            continue
        linear, size = type_to_linear(tile.tensor_type), element_bits(tile.element)
        if tile.op.loc is None or linear is None or size is None:
            return None, None
        # Copies of one element in a lane's registers may be loaded once or each.
        lane_elements = linear.distinct_elements_per_thread
        if lane_elements != linear.elements_per_thread or _branch_above(tile.op, module):
            return None, None
        needed_bits[position_of(tile.op.loc)] += lane_elements * size
        elements += prod(tile.tensor_type.shape)
    factors = {loaded_bits[position] / bits for position, bits in needed_bits.items()}
    unroll = factors.pop() if len(factors) == 1 else 0.0
    if unroll < 1 or not unroll.is_integer():
        return None, None
    return int(unroll) * elements, int(unroll)


def _is_opaque(op: TtgirOp) -> bool:
    """Whether a load is neither a tile nor a scalar: one through a descriptor."""
    from ..ttgir.axes.widths import tile_of

    scalar = op.name == "tt.load" and bool(op.result_types) and op.result_types[0].kind != "tensor"
    return tile_of(op) is None and not scalar


def _branch_above(op: TtgirOp, module: TtgirModule) -> bool:
    """Whether an operation is executed on a condition, within the innermost loop around it."""
    from ..ttgir.queries import LOOPS

    parent = op.parent
    while parent is not None and module.ops[parent].name not in LOOPS:
        if module.ops[parent].name in _BRANCHES:
            return True
        parent = module.ops[parent].parent
    return False
