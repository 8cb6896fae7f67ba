"""Lower bounds of one wave's iteration of a loop, for each unit of the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from ..machines import matrix_cycles
from ..model import Instruction, LaneUse, Machine
from .lane_metrics import NOT_LOOKED_AT
from .mix import VALU_CLASSES, rates
from .subject import MATRIX_CLASSES, Subject

_NOT_ISSUED: Final = frozenset(
    ("wait", "alu_wait", "nop", "hint", "barrier", "barrier_signal", "control")
)
"""Classes that the instruction buffer handles: they occupy no unit."""
_LDS: Final = frozenset(("lds_read", "lds_write", "lds_atomic", "lds_direct"))
_CACHED: Final = frozenset(("global_load", "global_store", "lds_direct"))
_VMEM: Final = frozenset(
    ("global_load", "global_store", "lds_direct", "lds_direct_store", "scratch_load",
     "scratch_store", "atomic")
)  # fmt: skip


class Bound(Struct, frozen=True):
    """Clocks that one unit takes for one wave's iteration; None where they are not known."""

    cycles: float | None
    origin: Literal["derived", "estimated"] = "derived"
    note: str = ""


def wave_bounds(
    subject: Subject, machine: Machine, executed: Sequence[Instruction], latency: Bound
) -> dict[str, Bound]:
    """The bound of each unit for one wave; `latency` is that of its chain of results."""
    of_units = unit_bounds(machine, rates(subject), subject.uses, executed)
    return {**of_units, "latency": latency}


def unit_bounds(
    machine: Machine,
    vector_rates: tuple[int | None, int | None],
    uses: Mapping[int, LaneUse],
    executed: Sequence[Instruction],
) -> dict[str, Bound]:
    """The clocks that each unit takes for some instructions of one wave.

    `vector_rates`: clocks of a full-rate and of a transcendental vector operation; `uses`: what the
    accesses among them touch, by their index.
    """
    slot, slow = vector_rates
    vector = [inst for inst in executed if inst.cls in VALU_CLASSES]
    transcendental = sum("transcendental" in inst.op.traits for inst in vector)
    issue_cycles = machine.issue_cycles
    unknown = _not_published(machine)
    return {
        "matrix": _matrix(machine, executed),
        "vector": _times(len(vector), slot, unknown),
        "transcendental": _times(transcendental, slow, unknown),
        "scalar": _times(sum(inst.cls == "salu" for inst in executed), issue_cycles, unknown),
        "vmem": _times(sum(inst.cls in _VMEM for inst in executed), issue_cycles, unknown),
        "lds": _lds_data(uses, executed),
        "lds_port": _lds_port(uses, machine, executed),
        "l1": _lines(uses, machine, executed),
        "issue": _times(
            sum(inst.cls not in _NOT_ISSUED for inst in executed), issue_cycles, unknown
        ),
    }


def _times(count: int, cycles: int | None, unknown: str) -> Bound:
    if not count:
        return Bound(0)
    return Bound(None, note=unknown) if cycles is None else Bound(count * cycles)


def _matrix(machine: Machine, executed: Sequence[Instruction]) -> Bound:
    total = 0
    unknown = ""
    for inst in executed:
        if inst.cls in MATRIX_CLASSES:
            cycles = matrix_cycles(machine, inst.op.name, inst.operands)
            if cycles is None:
                unknown = f"no cycle figure for {inst.op.name} on {machine.arch}"
            total += cycles or 0
    return Bound(total or None, note=unknown) if unknown else Bound(total)


def _lds_data(uses: Mapping[int, LaneUse], executed: Sequence[Instruction]) -> Bound:
    accesses = [inst for inst in executed if inst.cls in _LDS]
    cycles_of = {
        inst.index: use.cycles
        for inst in accesses
        if (use := uses.get(inst.index)) is not None and use.cycles is not None
    }
    return _sum(cycles_of, accesses, uses)


def _lds_port(
    uses: Mapping[int, LaneUse], machine: Machine, executed: Sequence[Instruction]
) -> Bound:
    """The busier direction of a port: addresses and written data inwards, read data outwards."""
    accesses = [inst for inst in executed if inst.cls in ("lds_read", "lds_write")]
    if not accesses:
        return Bound(0)
    port = machine.lds_port_bytes_per_clk
    if not port:
        return Bound(None, note=_not_published(machine))
    inwards: dict[int, float] = {}
    outwards: dict[int, float] = {}
    for inst in accesses:
        use = uses.get(inst.index)
        if use is None or use.lanes is None or inst.op.bits is None:
            continue
        words = ceil(inst.op.bits / 32)
        reads = inst.cls == "lds_read"
        inwards[inst.index] = use.lanes * 4 * (1 if reads else 1 + words) / port["write"]
        outwards[inst.index] = use.lanes * 4 * words / port["read"] if reads else 0.0
    inward, outward = (_sum(cycles_of, accesses, uses) for cycles_of in (inwards, outwards))
    return max((inward, outward), key=lambda bound: bound.cycles or 0)


def _lines(uses: Mapping[int, LaneUse], machine: Machine, executed: Sequence[Instruction]) -> Bound:
    """The bound of the vector cache's lookups."""
    rate = machine.l1_bytes_per_clk
    if rate is None and any(inst.cls in _CACHED for inst in executed):
        return Bound(None, note=_not_published(machine))
    touched = touched_bytes(uses, machine, executed)
    if touched.cycles is None or rate is None:
        return touched
    return replace(touched, cycles=touched.cycles / rate)


def touched_bytes(
    uses: Mapping[int, LaneUse], machine: Machine, executed: Sequence[Instruction]
) -> Bound:
    """The bytes of all cache lines that are looked up: the clocks of a byte per clock."""
    accesses = [inst for inst in executed if inst.cls in _CACHED]
    if not accesses:
        return Bound(0)
    line = machine.cache_line_bytes
    if line is None:
        return Bound(None, note=_not_published(machine))
    cycles_of = {
        inst.index: float(use.lines * line)
        for inst in accesses
        if (use := uses.get(inst.index)) is not None and use.lines is not None
    }
    return _sum(cycles_of, accesses, uses)


def _not_published(machine: Machine) -> str:
    return f"the rates of {machine.arch} are not published"


def _sum(
    cycles_of: Mapping[int, float], accesses: Sequence[Instruction], uses: Mapping[int, LaneUse]
) -> Bound:
    """The sum of known cycles of some accesses, a lower bound if others are unknown."""
    left_out = [inst.index for inst in accesses if inst.index not in cycles_of]
    note = ""
    if left_out:
        reasons = (uses[index].unknown for index in left_out if index in uses)
        reason = next(filter(None, reasons), NOT_LOOKED_AT)
        note = f"{len(left_out)} of {len(accesses)} accesses are left out: {reason}"
        if not cycles_of:
            return Bound(None, note=note)
    estimated = any(uses[index].origin == "estimated" for index in cycles_of)
    return Bound(sum(cycles_of.values()), "estimated" if estimated else "derived", note)


def rounded(cycles: float | None) -> float | int | None:
    """Cycles as they are reported: whole numbers as such."""
    if cycles is None:
        return None
    return int(cycles) if cycles == int(cycles) else round(cycles, 2)
