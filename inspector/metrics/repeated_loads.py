"""Loads of a Triton kernel that bring the same elements more than once.

Loads of a loop that bring the same address in every iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, prod
from typing import Final

from msgspec import Struct

from ..isa.dataflow.value_graph import graph_of, rows_of
from ..model import Instruction, Loop, Scalar, TtgirModule, TtgirOp, TtgirType
from .access_spans import WRITES, is_coherent, unwritten
from .entries import Unknown, of_kernels, of_loops
from .load_paths import code_of
from .subject import LineName, Subject, op_line, variable_name

SPECS = of_kernels(
    {
        "loads.alike": "Loads of tiles whose elements along a dimension have the same address, in "
        "loops or of packed numbers: how many `loads`; of the one with most copies its "
        "`elements`, the `distinct` addresses, the tile's `shape`, `name` of the value, `at` "
        "which line, `staged`: bytes that its tile takes in LDS, None where it does not pass "
        "through it; `packed`: how many neighbours take their bits from one address by shifts, "
        "None where none do",
    }
)

_RIGHT_SHIFTS: Final = frozenset(("arith.shrsi", "arith.shrui"))
_MOST_PACKED: Final = 32


class _Load(Struct, frozen=True):
    """A load in a loop, with the addresses that its tile has along each dimension."""

    op: TtgirOp
    kind: TtgirType
    distinct: tuple[int, ...]
    packed: int | None

    @property
    def copies(self) -> float:
        """Elements for each distinct address."""
        return prod(self.kind.shape) / prod(self.distinct)


def alike(_: Subject, module: TtgirModule) -> dict[str, Scalar]:
    """The value of the metric of `SPECS`."""
    # Only Triton kernels need the facts of a module's values.
    from ..ttgir import queries
    from ..ttgir.axes.analysis import analyze
    from ..ttgir.axes.graph import functions
    from ..ttgir.axes.widths import needed_values, tile_of
    from ..ttgir.conversions import tile_bytes

    repeating: list[_Load] = []
    shifted: frozenset[int] | None = None
    for graph in functions(module):
        tiles = [
            tile
            for op in graph.ops
            if (tile := tile_of(op)) is not None
            and tile.cls in ("global_load", "lds_direct")
            and tile.addresses is not None
        ]
        facts_of = analyze(graph, needed_values(tiles)).facts if tiles else {}
        for tile in tiles:
            facts = facts_of.get(tile.addresses or "")
            shape = tile.tensor_type.shape
            if facts is None or len(facts.constancy) != len(shape):
                continue
            distinct = tuple(
                size // gcd(size, run) for size, run in zip(shape, facts.constancy, strict=True)
            )
            if prod(distinct) == prod(shape):
                continue
            if shifted is None:
                shifted = _shifted_loads(module)
            packed = None
            if tile.op.index in shifted and tile.tensor_type.element.startswith("i"):
                packed = _packed(shape, distinct)
            if packed or queries.loop_above(tile.op, module) is not None:
                repeating.append(_Load(tile.op, tile.tensor_type, distinct, packed))
    worst = max(repeating, key=lambda load: load.copies, default=None)
    value: dict[str, Scalar] = {"loads": len({load.op.loc or load.op.line for load in repeating})}
    if worst is not None:
        shape = worst.kind.shape
        value |= {
            "elements": prod(shape),
            "distinct": prod(worst.distinct),
            "shape": "x".join(map(str, shape)),
            "name": variable_name(worst.op.results[0]) if worst.op.results else None,
            "at": op_line(worst.op),
            "staged": tile_bytes(worst.kind) if _is_staged(module, worst.op) else None,
            "packed": worst.packed,
        }
    return value


def _packed(shape: Sequence[int], distinct: Sequence[int]) -> int | None:
    """How many neighbours along a dimension have one address, where they can be parts of a word."""
    runs = [size // different for size, different in zip(shape, distinct, strict=True)]
    return next((run for run in runs if 1 < run <= _MOST_PACKED), None)


def _shifted_loads(module: TtgirModule) -> frozenset[int]:
    """Indices of the loads from whose values bits are taken by shifts to the right."""
    from ..ttgir.flow import flow_of, values_behind
    from ..ttgir.queries import LOADS, LOADS_TO_LDS, LOCAL_ALLOCATIONS, LOCAL_STORE

    flow, ends = flow_of(module), LOADS | LOADS_TO_LDS

    def behind(values: Iterable[int]) -> set[int]:
        return {op.index for _, op in values_behind(flow, values, ends) if op is not None}

    makers = behind(flow.operands[op.index][0] for op in module.ops if op.name in _RIGHT_SHIFTS)
    buffers = {index for index in makers if module.ops[index].name in LOCAL_ALLOCATIONS}
    for op in module.ops if buffers else ():
        if op.name in LOCAL_STORE or op.name in LOADS_TO_LDS:
            stored = behind(flow.operands[op.index])
            if not stored.isdisjoint(buffers):
                makers |= stored | {op.index}
    return frozenset(index for index in makers if module.ops[index].name in ends)


def _is_staged(module: TtgirModule, load: TtgirOp) -> bool:
    """Whether what a load brings is stored to LDS."""
    from ..ttgir.flow import flow_of
    from ..ttgir.queries import LOADS_TO_LDS, LOCAL_ALLOCATIONS, LOCAL_STORE

    if load.name in LOADS_TO_LDS:
        return True
    flow = flow_of(module)
    values = set(flow.results[load.index])
    for op in module.ops:
        if values.isdisjoint(flow.operands[op.index]):
            continue
        if op.name in LOCAL_STORE or op.name in LOCAL_ALLOCATIONS:
            return True
        if op.name in ("ttg.convert_layout", "amdg.in_thread_transpose"):
            values.update(flow.results[op.index])
    return False


UNCHANGED_SPECS: Final = of_loops(
    {
        "loads.unchanged": "Vector loads of global memory in the loop's own code whose address no "
        "instruction of the loop changes, from tensors that the loop does not store to (nor the "
        "kernel, where the loop has barriers or atomics): how many `loads`, the first `at` which "
        "line; volatile loads are left out; None where a store's address is not known",
    }
)

_EXCHANGES: Final = frozenset(("atomic", "barrier"))


def unchanged(
    subject: Subject, loop: Loop, own: Sequence[Instruction]
) -> dict[str, Scalar] | Unknown:
    """The value of the metric of `UNCHANGED_SPECS`."""
    loads = {inst.index for inst in own if inst.cls == "global_load" and not is_coherent(inst)}
    function = subject.function
    code = code_of(function, *loop.blocks) if loads else ()
    done = list(graph_of(function).operations([inst.index for inst in code]))
    changed = rows_of(result for operation in done for result in operation.results)
    same = [
        operation.inst
        for operation in done
        if operation.inst.index in loads
        and (rows := rows_of(operation.sources))
        and rows.isdisjoint(changed)
    ]
    # Behind a barrier or an atomic stands what other waves have stored, anywhere in the kernel.
    is_exchange = any(inst.cls in _EXCHANGES for inst in code)
    writers = function.instructions if is_exchange else code
    stores = [inst for inst in writers if inst.cls in WRITES] if same else []
    if stores:
        safe = unwritten(subject, same, stores)
        if safe is None:
            return Unknown("where the loop stores is not known")
        same = [inst for inst in safe if inst.index in subject.places]
    return {"loads": len(same), "at": LineName.of(same)}
