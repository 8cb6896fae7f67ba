"""Sums in global memory by atomics: where their addresses come from, and who meets there.

Atomics that count in bins: where a loaded value's bits or magnitude say which counter it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from math import prod
from typing import TYPE_CHECKING, Final

from ..isa.dataflow.value_graph import Operation, operations, registers
from ..isa.graph.cfg import loop_of
from ..isa.mnemonics import access_bits, returns_value
from ..model import Function, Instruction, Scalar, TtgirModule, TtgirOp
from ..ttgir.queries import ATOMIC_RMW, LOADS, address_operands
from .entries import Unknown, of_kernels
from .subject import LineName, Subject, own_instructions

if TYPE_CHECKING:
    from ..ttgir.flow import DataFlow


SUMS: Final = "atomics.sums"

SPECS = of_kernels(
    {
        SUMS: "Atomics that add to global memory (or take the largest, or smallest) and whose "
        "result nothing uses (operations of the TTGIR, without one instructions): `placed`: those "
        "whose addresses follow from arguments and the numbers of workgroup and lane, the first "
        "`placed_at` which line; `workgroups` that add to the same places, along axes of the grid "
        "whose numbers the addresses of such a one leave out (None where the grid is unknown); "
        "those whose addresses rest on values from memory, the first `loaded_at`; `binned` of "
        "them add where a loaded value's bits or magnitude say, as in a histogram, the first "
        "`binned_at` (None in Triton's code); `instructions` that all are in the code; `beside`: "
        "instructions of the longest loop without an atomic, in an iteration (0 where there is "
        "none). Sums of whole numbers at one address of Triton's code, or at any of others', are "
        "not `placed`: they count something",
    }
)

_ADDING: Final = frozenset(("fadd", "add", "max", "min", "umax", "umin", "fmax", "fmin"))
_NO_SUMS: Final = ("swap", "cmp", "_and", "_or", "_xor", "_inc", "_dec", "_csub", "cond")
_ADDS_INTEGERS: Final = re.compile(r"_atomic_(add|sub)(_x2|_[iu](32|64))?$")


def sums(subject: Subject) -> dict[str, Scalar] | Unknown:
    """The value of the metric of `SPECS`."""
    if subject.ttgir is not None:
        return _by_source(subject, subject.ttgir)
    found = _by_code(subject, [i for i in subject.function.instructions if _is_sum(i)])
    return Unknown("the addresses were not followed") if found is None else found


def _is_sum(inst: Instruction) -> bool:
    name = inst.op.name
    return (
        inst.cls == "atomic"
        and not returns_value(inst.op, inst.operands)
        and not any(part in name for part in _NO_SUMS)
    )


def _by_source(subject: Subject, module: TtgirModule) -> dict[str, Scalar]:
    used = {operand for op in module.ops for operand in op.operands}
    sums = [
        op
        for op in module.ops
        if op.name in ATOMIC_RMW
        and op.attributes.get("atomic_rmw_op") in _ADDING
        and used.isdisjoint(op.results)
    ]
    loaded: list[TtgirOp] = []
    placed: list[TtgirOp] = []
    most = 0
    grid = dict(zip("xyz", subject.facts.grid or (), strict=False))
    if sums:
        # The flow of values is followed for kernels with atomics only.
        from ..ttgir.flow import flow_of

        flow = flow_of(module)
        for op in sums:
            axes = _axes(flow, op)
            if axes is None:
                loaded.append(op)
            elif not _may_count(op):
                placed.append(op)
                shared = [axis for axis in _axes_of_grid(flow, grid) if axis not in axes]
                if shared and grid:
                    most = max(most, prod(grid[axis] for axis in shared))
    return {
        "placed": len(placed),
        "placed_at": LineName.of(placed),
        "workgroups": most or None,
        "loaded_at": LineName.of(loaded),
        "binned": None,
        "binned_at": None,
        **_of_code(subject, None),
    }


def _may_count(op: TtgirOp) -> bool:
    """Whether an atomic adds a whole number at one address: a count of who has come by."""
    result = op.result_types[0] if op.result_types else None
    is_number = result is not None and not result.shape
    return is_number and op.attributes.get("atomic_rmw_op") == "add"


def _of_code(subject: Subject, sums: Set[int] | None) -> dict[str, Scalar]:
    """What the code says of all atomics, or of some by index: how many, and what is beside them."""
    atomics = {
        inst.index
        for inst in subject.function.instructions
        if inst.cls == "atomic" and (sums is None or inst.index in sums)
    }
    beside = 0
    for own in own_instructions(subject.function).values():
        if not any(inst.index in atomics for inst in own):
            beside = max(beside, len(own))
    return {"instructions": len(atomics), "beside": beside}


def _axes_of_grid(flow: DataFlow, grid: dict[str, int]) -> Sequence[str]:
    """The axes along which there are several workgroups, as far as known."""
    from ..ttgir.flow import program_axes

    if grid:
        return [axis for axis, size in grid.items() if size > 1]
    return sorted(program_axes(flow.module))


def _axes(flow: DataFlow, atomic: TtgirOp) -> frozenset[str] | None:
    """The axes of the grid that an atomic's address is made of; None where it is from memory."""
    from ..ttgir.flow import UNKNOWN, values_behind

    count = address_operands(atomic)
    axes = set[str]()
    for value, maker in values_behind(flow, flow.operands[atomic.index][:count]):
        if value == UNKNOWN or (
            maker is not None and (maker.name in LOADS or "atomic" in maker.name)
        ):
            return None
        if maker is not None and maker.name == "tt.get_program_id":
            axes.add(str(maker.attributes.get("axis")))
    return frozenset(axes)


def _by_code(subject: Subject, sums: Sequence[Instruction]) -> dict[str, Scalar] | None:
    """The same by the addresses of the code; None where they were not followed."""
    loaded, shared = frozenset[int](), frozenset[int]()
    indices = frozenset(inst.index for inst in sums)
    if indices:
        if not subject.facts.analyse_lanes or subject.machine is None:
            return None
        if subject.function.calls:
            return None
        from ..lanes.lane_dependence import memory_dependent, workgroup_independent

        try:
            loaded = memory_dependent(subject.function, subject.machine, indices)
            shared = workgroup_independent(subject.function, subject.machine, indices) - loaded
        except Exception:  # a bug in the emulator must not cost the report
            return None
    repeated = loop_of(subject.function)
    placed = [
        inst
        for inst in sums  # whole numbers outside of loops count who has come by
        if inst.index not in loaded
        and (inst.index in repeated or not _ADDS_INTEGERS.search(inst.op.name))
    ]
    scattered = [inst for inst in sums if inst.index in loaded]
    met = [inst for inst in placed if inst.index in shared]
    binned = counting(subject.function, scattered)
    return {
        "placed": len(placed),
        "placed_at": LineName.of(placed),
        "workgroups": prod(subject.facts.grid) if met and subject.facts.grid else None,
        "loaded_at": LineName.of(scattered),
        "binned": len(binned),
        "binned_at": LineName.of(binned),
        **_of_code(subject, indices),
    }


_ADDS: Final = re.compile(r"_atomic_(add|sub)(_x2|_[iu](32|64))?$")
_BINNING: Final = re.compile(
    r"v_cvt_(flr_|rpi_|nearest_|floor_)?[iu]32_f(16|32|64)|v_bfe_[iu]32|v_and_b32|v_lshrrev_b32"
)
_NARROW: Final = 32
_MOST_DEPTH: Final = 40


def counting(function: Function, atomics: Sequence[Instruction]) -> list[Instruction]:
    """Those of some atomics that add a constant in a bin."""
    wanted = {inst.index for inst in atomics if _ADDS.search(inst.op.name)}
    if not wanted:
        return []
    made: dict[int, Operation] = {}
    known: dict[Operation, tuple[bool, bool]] = {}
    found = []
    for inst in function.instructions:
        new = operations(function, (inst,), made)
        if inst.index not in wanted or len(new[0].sources) < 2:
            continue
        address, data = new[0].sources[:2]
        if inst.op.name.startswith("buffer_"):
            address, data = data, address
        moves = [made.get(row) for row in data.rows]
        adds_constant = moves and all(
            move is not None
            and move.name.startswith("v_mov_b")
            and move.sources[0].integer is not None
            for move in moves
        )
        rows = [made[row] for row in registers(address) if row in made]
        if adds_constant and any(all(_followed(maker, known, 0)) for maker in rows):
            found.append(inst)
    return found


def _followed(
    operation: Operation, known: dict[Operation, tuple[bool, bool]], depth: int
) -> tuple[bool, bool]:
    """Whether a value rests on a load, and whether a bin was made of that."""
    if depth > _MOST_DEPTH:
        return False, False
    if operation.inst.cls == "global_load":
        bits = access_bits(operation.inst.op, operation.inst.operands)
        return True, bits is not None and bits < _NARROW
    if operation not in known:
        sources = [_followed(maker, known, depth + 1) for maker in operation.all_makers]
        loaded = any(rests for rests, _ in sources)
        binned = any(rests and made for rests, made in sources)
        known[operation] = loaded, loaded and (binned or bool(_BINNING.match(operation.name)))
    return known[operation]
