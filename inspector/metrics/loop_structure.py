"""What the structure of a hot loop makes its waves wait for.

By TTGIR
`loads.beside`: loads that Triton's pipelining leaves in the iteration that uses them,
`loads.chained`: loads whose address another load of the same iteration delivers,
`reductions.across`: reductions whose axis lies in several waves, which meet in LDS,
`reductions.merged`: reductions over lanes whose results the loop only sums up;
by the code
`staging.serial`: loads that go to LDS at once, with nothing to do meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ..isa.dataflow.value_graph import operations, registers, rows_of
from ..model import Function, Instruction, Loop, LoopReport, Metric, Scalar, TtgirOp
from .entries import NO_TTGIR, of_loops, unknown
from .exposed_latency import LATENCY, PLAYED, Played
from .launch import most_iterations
from .lds_buffers import NO_STAGES, fit_of_two_stages
from .load_paths import code_of
from .loop_shape import position_of
from .options import option
from .subject import (
    MATRIX_CLASSES,
    LineName,
    Place,
    Subject,
    op_line,
    own_instructions,
    source_line,
    variable_name,
)

if TYPE_CHECKING:
    from ..ttgir.flow import DataFlow
    from .triton_loads import LoopLoad


MERGED = of_loops(
    {
        "reductions.merged": "Reductions in a hot loop over elements of several lanes whose "
        "results the loop only adds to (or compares with) what it carries, by the reduction's own "
        "operation: the loop may carry the tile instead and reduce it once: how many "
        "`reductions`, the first `at` which line, 32-bit registers of a lane that the tiles would "
        "take (`registers`), and in the code of the loop at these lines the instructions that "
        "pass values between lanes or waves (`exchanges`, barriers included); `iterations` of the "
        "workgroup with most, by the launch or constant bounds",
    }
)

_REGISTER_BITS: Final = 32
_MERGES: Final = frozenset(
    ("arith.addf", "arith.addi", "arith.maxnumf", "arith.maximumf", "arith.minnumf",
     "arith.minimumf", "arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui", "arith.ori",
     "arith.andi", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans",
     "ttg.convert_layout")
)  # fmt: skip
_BETWEEN_LANES: Final = frozenset(("cross_lane", "lds_read", "lds_write", "barrier"))


def is_merged(flow: DataFlow, reduction: TtgirOp) -> bool:
    """Whether the loop uses a reduction's result for nothing but a sum (or extreme) it carries.

    Then it may carry the parts instead, and reduce them once, after its end.
    """
    values = set(flow.results[reduction.index])
    loop = flow.loop[reduction.index]
    for op in flow.module.ops[reduction.index + 1 :]:
        if values.isdisjoint(flow.operands[op.index]):
            continue
        if op.name == "scf.yield" and op.parent == loop:
            continue
        if flow.loop[op.index] != loop or op.name not in _MERGES:
            return False
        values.update(flow.results[op.index])
    return True


def merged(
    subject: Subject,
    flow: DataFlow,
    ops: Sequence[TtgirOp],
    at: Mapping[Place, Sequence[Instruction]],
) -> dict[str, Scalar]:
    """Reductions over lanes that the loop sums up.

    `ops`: the loop's reductions; `at`: position -> the loop's instructions there.
    """
    from ..ttgir.layouts import type_to_linear
    from ..ttgir.lowered import element_bits

    summed: list[TtgirOp] = []
    bits = 0
    for op in ops:
        axis = op.attributes.get("axis")
        if not isinstance(axis, int) or len(op.operand_types) != 1:
            continue
        source = op.operand_types[0]
        linear = type_to_linear(source)
        if linear is None or not _is_carried(flow, op):
            continue
        if any(basis[axis] for basis in (*linear.lane, *linear.warp)):
            summed.append(op)
            # Of elements of unknown size each counts as a register.
            bits += (element_bits(source.element) or _REGISTER_BITS) << len(linear.register)
    lines = {source_line(op.loc) for op in summed} - {None}
    # What combines two lanes' values stands in a function that the line calls.
    exchanges = sum(
        inst.cls in _BETWEEN_LANES
        or "_dpp" in inst.mnemonic
        or "row_" in inst.operands
        or inst.mnemonic.startswith("v_permlane")
        for instructions in at.values()
        for inst in instructions
        if lines and source_line(inst.loc) in lines
    )
    return {
        "reductions": len(summed),
        "at": LineName.of(summed),
        "registers": -(-bits // _REGISTER_BITS),
        "exchanges": exchanges,
        "iterations": _most_iterations(subject, flow, summed),
    }


def _most_iterations(subject: Subject, flow: DataFlow, ops: Sequence[TtgirOp]) -> int | None:
    """How often the workgroup with most work goes round the loops of some operations."""
    if not ops:
        return None
    runs = most_iterations(subject)
    known = [runs.get(loop) for op in ops if (loop := flow.loop[op.index]) is not None]
    return None if None in known else max((count for count in known if count), default=0)


def _is_carried(flow: DataFlow, reduction: TtgirOp) -> bool:
    """Whether the loop only merges the results by the reduction's own operation."""
    loop = flow.loop[reduction.index]
    combined = [
        op.name
        for op in flow.module.ops
        if op.parent == reduction.index and op.name != "tt.reduce.return"
    ]
    if loop is None or len(combined) != 1 or not is_merged(flow, reduction):
        return False
    values = set(flow.results[reduction.index])
    arguments = set(flow.arguments.get(loop, ()))
    sums = set[int]()  # what the loop carries and these operations merge with
    merges = set[int]()
    for op in flow.module.ops[reduction.index + 1 :]:
        operands = flow.operands[op.index]
        if values.isdisjoint(operands) or op.name == "scf.yield":
            continue
        if op.name.startswith("arith.") and op.name != combined[0]:
            return False
        merges.add(op.index)
        sums |= arguments.intersection(operands)
        values.update(flow.results[op.index])
    # A running sum that an iteration reads has to be reduced in each.
    return bool(sums) and all(
        op.index in merges or sums.isdisjoint(flow.operands[op.index]) for op in flow.module.ops
    )


_BESIDE, _CHAINED, _ACROSS = "loads.beside", "loads.chained", "reductions.across"
_SERIAL = "staging.serial"

SPECS = (
    *of_loops(
        {
            _BESIDE: "Loads of global memory in a hot loop whose others are issued an iteration "
            "ahead, used in the iteration that issues them, since no dot multiplies them: `loads` "
            "of the `of` in the loop, the first `at` which line and its `name`, `second` another "
            "one's line, num_`stages`; `cycles` that a wave stands still in waits for them, if "
            "each takes the latency of latency.exposed, of the `iteration` in all",
            _CHAINED: "Loads of a hot loop whose address or mask another load of the same "
            "iteration delivers: how many `loads`, of how many `indices`, the first `at` which "
            "line, for the load `behind` it (line and `name`), `cycles` that a wave stands still "
            "for such indices, of the `iteration` in all; None where scalar loads deliver them",
        },
        "estimated",
    ),
    *of_loops(
        {
            _ACROSS: "Reductions in a hot loop along an axis that several waves share, so that "
            "their parts meet in LDS: how many `reductions`, the first `at` which line, over how "
            "many `waves`, `elements` along the axis; `sums` of them that are only added to or "
            "compared with what the loop carries; `lane_bytes` of the loop's largest tile in each "
            "lane if one wave had all of it",
        }
    ),
    *MERGED,
    *of_loops(
        {
            _SERIAL: "Loads of global memory in a hot loop (nested loops included) that are "
            "written to LDS before anything is read from LDS or multiplied by the matrix unit, so "
            "that all waves of the workgroup wait for memory and for each other: `loads` (by "
            "Triton those alone that a dot of the same iteration multiplies), `writes` of them, "
            "`barriers` of the loop, the first load `at` which line; `latency` assumed for them, "
            "and clocks of a wave's `iteration` without waits for loads; of a dot's tiles in "
            "Triton the `stages` that they fit the LDS with, up to 2, or, where two do not fit, "
            "the `lds` bytes that those take, of `lds_max`; registers of a lane that one stage "
            "takes `ahead`",
        }
    ),
)

_VECTOR_LOADS: Final = frozenset(("global_load", "lds_direct"))
_MOVES: Final = ("v_cvt_", "v_mov_", "v_perm_", "v_pack_", "v_lshl", "v_and_", "v_or_", "v_bfe_")
"""Instructions by which a loaded value is converted or packed on its way to LDS."""


class _HotLoop(Struct, frozen=True):
    """A hot loop's code.

    Args:
        at: position -> its instructions there.
        played: its iterations, as far as they were played.
    """

    at: Mapping[Place, Sequence[Instruction]]
    played: Played | None


def loop_metrics(
    subject: Subject, loops: Sequence[LoopReport], played: Mapping[str, Played | None]
) -> dict[str, dict[str, Metric]]:
    """Hot loop -> the metrics of `SPECS`."""
    if not any(loop.hot for loop in loops):
        return {}
    loads = _loads(subject)
    by_source = _by_source(subject, loads, played)
    # Of Triton's loads those that stay in the iteration of their dot.
    for_dots = None if loads is None else _positions_for_dots(loads)
    two_stages = NO_STAGES if loads is None else fit_of_two_stages(subject, *loads)
    shapes = {shape.id: shape for shape in subject.function.loops}
    return {
        loop.id: {
            **{metric.name: metric for metric in by_source(loop)},
            _SERIAL: Metric(
                _SERIAL,
                {
                    **_serial(subject.function, shapes[loop.id], played.get(loop.id), for_dots),
                    **two_stages,
                },
                "mapping",
                "derived",
            ),
        }
        for loop in loops
        if loop.hot
    }


def _loads(subject: Subject) -> tuple[DataFlow, Sequence[LoopLoad]] | None:
    """The values of the kernel's TTGIR and the loads in its loops; None without TTGIR."""
    if subject.ttgir is None:
        return None
    # Only Triton kernels need the flow of a module's values.
    from ..ttgir.flow import flow_of
    from .triton_loads import loop_loads

    flow = flow_of(subject.ttgir)
    return flow, loop_loads(flow)


def _positions_for_dots(loads: tuple[DataFlow, Sequence[LoopLoad]]) -> frozenset[Place]:
    """Positions of the loads that a dot of the same iteration multiplies."""
    from .triton_loads import Use

    return frozenset(
        position_of(load.op.loc)
        for load in loads[1]
        if Use.DOT in load.uses and load.op.loc is not None
    )


def _by_source(
    subject: Subject,
    source: tuple[DataFlow, Sequence[LoopLoad]] | None,
    played: Mapping[str, Played | None],
) -> Callable[[LoopReport], Sequence[Metric]]:
    """The metrics that a hot loop has by TTGIR, as a function of the loop."""
    specs = SPECS[:4]
    if source is None:
        return lambda _: list(unknown(specs, NO_TTGIR))
    flow, loads = source
    reductions = [op for op in flow.module.ops if op.name == "tt.reduce"]
    own = own_instructions(subject.function)

    def metrics(report: LoopReport) -> Sequence[Metric]:
        at: dict[Place, list[Instruction]] = {}
        for inst in own[report.id]:
            if inst.loc is not None:
                at.setdefault(position_of(inst.loc), []).append(inst)
        loop = _HotLoop(at, played.get(report.id))
        here = [load for load in loads if _stands_in(load.op, loop)]
        values = (
            _beside(subject, flow, here, loop),
            _chained(here, loop),
            _across(flow, [op for op in reductions if _stands_in(op, loop)]),
            merged(subject, flow, [op for op in reductions if _stands_in(op, loop)], loop.at),
        )
        return [
            Metric(spec.name, value, spec.unit, spec.origin)
            for spec, value in zip(specs, values, strict=True)
        ]

    return metrics


def _stands_in(op: TtgirOp, loop: _HotLoop) -> bool:
    return op.loc is not None and position_of(op.loc) in loop.at


def _instructions(ops: Sequence[TtgirOp], loop: _HotLoop) -> set[int]:
    """The vector loads that some loads became."""
    return {
        inst.index
        for op in ops
        if op.loc is not None
        for inst in loop.at.get(position_of(op.loc), ())
        if inst.cls in _VECTOR_LOADS
    }


def _waited(ops: Sequence[TtgirOp], loop: _HotLoop) -> tuple[int | None, int | None]:
    """Clocks of an iteration in waits for some loads, and of all of it."""
    if loop.played is None:
        return None, None
    instructions = _instructions(ops, loop)
    waited = round(loop.played.waited_for(instructions)) if instructions else None
    return waited, round(loop.played.cycles)


def _beside(
    subject: Subject, flow: DataFlow, loads: Sequence[LoopLoad], loop: _HotLoop
) -> dict[str, Scalar]:
    """Loads that pipelining left behind."""
    from .triton_loads import Use, cause, issued_ahead

    arch = subject.machine.arch if subject.machine is not None else ""
    left = [
        load
        for load in loads
        if load.uses == {Use.VALUE}
        and load.loop in flow.dot_loops
        and issued_ahead(loads, load.loop)
        and cause(flow, load.op, (), arch) is None  # else stages of the loop change nothing
    ]
    cycles, iteration = _waited([load.op for load in left], loop)
    lines = list(dict.fromkeys(op_line(load.op) for load in left))
    first = left[0].op if left else None
    stages = (flow.loop_stages(first) if first is not None else None) or option(
        subject, "num_stages"
    )
    return {
        "loads": len(left),
        "of": len(loads),
        "at": LineName.of([load.op for load in left]),
        "name": variable_name(first.results[0]) if first is not None else None,
        "second": lines[1] if len(lines) > 1 else None,
        "stages": stages,
        "cycles": cycles,
        "iteration": iteration,
    }


def _chained(loads: Sequence[LoopLoad], loop: _HotLoop) -> dict[str, Scalar]:
    """Loads that wait for an index."""
    waiting = [load for load in loads if load.waits_for]
    indices = list({op.index: op for load in waiting for op in load.waits_for}.values())
    cycles, iteration = _waited(indices, loop)
    first = waiting[0] if waiting else None
    index = first.waits_for[0] if first is not None else None
    return {
        "loads": len(waiting),
        "indices": len(indices),
        "at": LineName.of([load.op for load in waiting]),
        "behind": LineName.of([index], indices) if index is not None else None,
        "name": variable_name(index.results[0]) if index is not None else None,
        "cycles": cycles,
        "iteration": iteration,
    }


def _across(flow: DataFlow, ops: Sequence[TtgirOp]) -> dict[str, Scalar]:
    """Reductions over several waves."""
    from ..ttgir.layouts import type_to_linear

    shared: list[tuple[TtgirOp, int]] = []
    for op in ops:
        axis = op.attributes.get("axis")
        source = op.operand_types[0] if op.operand_types else None
        linear = type_to_linear(source) if source is not None else None
        if not isinstance(axis, int) or linear is None:
            continue
        waves = 1 << sum(basis[axis] != 0 for basis in linear.warp)
        if waves > 1:
            shared.append((op, waves))
    worst = max(shared, key=lambda pair: pair[1], default=None)
    first = worst[0] if worst is not None else None
    return {
        "reductions": len(shared),
        "at": op_line(first),
        "waves": worst[1] if worst is not None else None,
        "elements": first.operand_types[0].shape[int(first.attributes["axis"])] if first else None,
        "sums": sum(is_merged(flow, op) for op, _ in shared),
        "lane_bytes": _lane_bytes(flow, {flow.loop[op.index] for op in ops}),
    }


def _lane_bytes(flow: DataFlow, loops: Set[int | None]) -> int | None:
    """Bytes that one lane of a single wave would hold of the largest tile of some loops."""
    from ..ttgir.conversions import tile_bytes

    lanes = flow.module.attributes.get("threads-per-warp")
    sizes = [
        size
        for op in flow.module.ops
        if flow.loop[op.index] in loops and loops
        for result in op.result_types
        if result.kind == "tensor" and (size := tile_bytes(result)) is not None
    ]
    return max(sizes) // lanes if sizes and isinstance(lanes, int) else None


def _serial(
    function: Function, loop: Loop, played: Played | None, places: Set[Place] | None
) -> dict[str, Scalar]:
    """Loads that are written to LDS before anything else happens."""
    code = code_of(function, *sorted(loop.blocks))
    loaded: dict[int, Instruction] = {}  # register -> the load under way to it
    staged: dict[int, Instruction] = {}
    writes = 0
    for operation in operations(function, code):
        inst, results = operation.inst, rows_of(operation.results)
        if inst.cls == "lds_read" or inst.cls in MATRIX_CLASSES:
            loaded.clear()
            continue
        rows = (row for source in operation.sources for row in registers(source))
        sources = [loaded[row] for row in rows if row in loaded]
        if inst.cls == "global_load":
            if places is None or (inst.loc is not None and position_of(inst.loc) in places):
                loaded.update(dict.fromkeys(results, inst))
        elif inst.cls == "lds_write":
            staged.update({load.index: load for load in sources})
            writes += bool(sources)
        elif inst.mnemonic.startswith(_MOVES) and "dpp" not in inst.mnemonic:
            for row in results:
                loaded.pop(row, None)
            loaded.update(dict.fromkeys(results, sources[0]) if sources else {})
    return {
        "loads": len(staged),
        "writes": writes,
        "barriers": sum(inst.cls == "barrier" for inst in code),
        "at": LineName.of([staged[index] for index in sorted(staged)]),
        "latency": LATENCY,
        "iteration": round(played.cycles - sum(played.waits.values()) / PLAYED) if played else None,
    }
