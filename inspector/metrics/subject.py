"""The input of the metrics: a kernel, one pass over a region, names of the source.

A *region* is a kernel or the part of a loop that belongs to no nested loop: instructions of nested
loops are counted there, because they run an unknown number of times per outer iteration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct, field

from ..isa.graph.cfg import dominators, innermost_loops
from ..isa.mnemonics import access_bits
from ..isa.waitflow.counters import decode_wait
from ..model import (
    Demand,
    Function,
    Instruction,
    LaneUse,
    LaunchOrigin,
    LdsOrigin,
    LivePeak,
    Machine,
    ParkedValue,
    SourceLoc,
    SpilledValue,
    TtgirModule,
    TtgirOp,
    UntouchedValues,
    WaitOp,
)

if TYPE_CHECKING:
    from ..isa.dataflow.liveness import Liveness
    from ..lanes.addresses import Places
    from ..lanes.lds.races import RaceReport
    from ..ttgir.redundant_work import Copies, DotWork


class NamedValues(Struct, frozen=True):
    """The values in the registers and spill slots of a kernel.

    Args:
        peak: what they hold where most registers are live.
        spilled: all values that are parked in scratch memory.
        parked: line of the assembly that stores to or reloads from a spill slot -> the value.
        untouched: values that pass through hot loops, by loop.
        dead_writes: lines of vector instructions whose results nothing reads.
    """

    peak: LivePeak | None = None
    spilled: tuple[SpilledValue, ...] = ()
    parked: Mapping[int, ParkedValue] = {}
    untouched: tuple[UntouchedValues, ...] = ()
    dead_writes: tuple[int, ...] = ()


Place = tuple[tuple[str, int, int | None], ...]
"""A source position with the calls that lead there, innermost first: file, line, column."""
NOT_ALL_READ = "not all of the code was read"
"""Note of figures that depend on the absence of something in the code."""


class Facts(Struct, frozen=True):
    """Facts about a kernel from outside of its code.

    Args:
        lds_bytes: LDS per workgroup from an outside source; None when there is none.
        lds_from: the origin of `lds_bytes`: the user or Triton.
        lds_note: the same for people ("Triton's metadata", "--lds").
        workgroup_size: work-items per workgroup, where it is certain.
        workgroup_shape: the same in x, y and z.
        waves_from: the origin of `workgroup_size`.
        llvm: the LLVM occupancy model of the compiler: "22" or "triton".
        cu_mode: whether workgroups are confined to one CU (RDNA); None: as the code states.
        grid: workgroups of the launch along each dimension.
        options: Triton's options of the compile.
        constexprs: the values of the kernel's compile-time arguments.
        unspecialised, values, generator, signature: see `Variant`.
        attributes: the variant's `attrs`.
        dynamic_sizes: whether Inductor wrote it for sizes without known divisors.
        analyse_lanes: whether to compute the lanes' addresses, which takes time.
        time_us: the time of a launch as the user states it, microseconds.
        analyse_races: whether to search for LDS races, which takes time.
        name_values: whether to name the values that registers hold.
    """

    lds_bytes: int | None = None
    lds_from: LdsOrigin | None = None
    lds_note: str = ""
    workgroup_size: int | None = None
    workgroup_shape: tuple[int, int, int] | None = None
    waves_from: LaunchOrigin | None = None
    llvm: str = "22"
    cu_mode: bool | None = None
    grid: tuple[int, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    constexprs: Mapping[str, Any] = field(default_factory=dict)
    unspecialised: Mapping[str, str] | None = None
    values: Mapping[str, int] | None = None
    generator: str | None = None
    signature: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dynamic_sizes: bool = False
    analyse_lanes: bool = True
    time_us: float | None = None
    analyse_races: bool = True
    name_values: bool = True


class Synchronisation(Struct, frozen=True):
    """The purposes of a kernel's waits.

    Args:
        waits: instruction's index -> one entry for each counter that it waits for, or lacks a wait
            for.
        is_judged: whether the entries have verdicts.
    """

    waits: Mapping[int, Sequence[WaitOp]]
    is_judged: bool


class SourceWork(Struct, frozen=True):
    """The work of a kernel by TTGIR, by source position; None: at no position.

    Args:
        waves: waves of the workgroup; 0 where TTGIR does not state them.
        dots: the dots with their work on the matrix unit; None where a layout does not determine
            it.
        tensors: the tensors that are loaded, stored and computed with, one for each operation.
    """

    waves: int
    dots: Mapping[Place | None, Sequence[tuple[TtgirOp, DotWork | None]]]
    tensors: Mapping[Place | None, Sequence[tuple[TtgirOp, Copies]]]


class KernelCode(Struct, frozen=True):
    """A kernel as it was read.

    Args:
        machine: the target; None where it is not known.
        facts: what is known besides its code.
        ttgir: the compiler's result before LLVM.
        ttir: the source's TTIR, the dots alone.
        ttir_text: all of it, which few kernels need.
    """

    function: Function
    machine: Machine | None
    facts: Facts
    ttgir: TtgirModule | None = None
    ttir: TtgirModule | None = None
    ttir_text: str | None = None


class LaunchedCode(KernelCode, frozen=True, kw_only=True):
    """A kernel with what its launch asks for.

    Args:
        work: its work by TTGIR; None without one.
    """

    demand: Demand
    work: SourceWork | None


class Followed(Protocol):
    """What is found out about a kernel by following its registers and lanes, which takes time."""

    @property
    def races(self) -> tuple[RaceReport | None, str]:
        """Accesses of LDS in no order, or why they are not known."""

    @property
    def sync(self) -> Synchronisation:
        """The purposes of its waits."""

    @property
    def uses(self) -> Mapping[int, LaneUse]:
        """What the lanes of its accesses touch, by index of the instruction."""

    @property
    def places(self) -> Mapping[int, Sequence[Places]]:
        """Where they lie; nothing where the workgroup's shape is not known."""

    @property
    def likely_places(self) -> Mapping[int, Sequence[Places]]:
        """Where they lie if what is not known is as it mostly is."""

    @property
    def live(self) -> tuple[Liveness | None, str]:
        """The live registers, or why they are not known."""


class Subject(LaunchedCode, frozen=True, kw_only=True):
    """A kernel with all inputs of the metrics, made by `located.located`.

    Args:
        followed: what takes time to find out, each part of it found when it is first read.
    """

    followed: Followed

    @property
    def races(self) -> tuple[RaceReport | None, str]:
        """See `Followed`."""
        return self.followed.races

    @property
    def sync(self) -> Synchronisation:
        """See `Followed`."""
        return self.followed.sync

    @property
    def uses(self) -> Mapping[int, LaneUse]:
        """See `Followed`."""
        return self.followed.uses

    @property
    def places(self) -> Mapping[int, Sequence[Places]]:
        """See `Followed`."""
        return self.followed.places

    @property
    def likely_places(self) -> Mapping[int, Sequence[Places]]:
        """See `Followed`."""
        return self.followed.likely_places

    @property
    def live(self) -> tuple[Liveness | None, str]:
        """See `Followed`."""
        return self.followed.live


class Tally(Struct, frozen=True):
    """The counts of one pass over a region's instructions.

    Args:
        instructions: number of instructions.
        indices: their indices.
        classes: instructions per mnemonic class.
        accesses: memory class -> bits per lane of each access; None for one without fixed width.
        waits: (instruction, counter -> count) for each wait.
    """

    instructions: int
    indices: Sequence[int]
    classes: Mapping[str, int]
    accesses: Mapping[str, Sequence[int | None]]
    waits: Sequence[tuple[Instruction, Mapping[str, int]]]
    matrix: Sequence[Instruction]


MEMORY_CLASSES = (
    "global_load",
    "global_store",
    "lds_read",
    "lds_write",
    "lds_direct",
    "scratch_load",
    "scratch_store",
    "atomic",
)
MATRIX_CLASSES = ("mfma", "wmma")
LANE_EXCHANGES = ("ds_bpermute", "ds_permute", "ds_swizzle")
"""Beginnings of mnemonics of exchanges between the lanes of a wave, which touch no LDS."""
_COUNTED = frozenset((*MEMORY_CLASSES, *MATRIX_CLASSES, "wait"))


def tally(instructions: Iterable[Instruction], machine: Machine | None) -> Tally:
    """Counts a region in one pass; `machine` is needed only to decode bare-number waits."""
    classes: list[str] = []
    accesses: dict[str, list[int | None]] = {}
    waits: list[tuple[Instruction, Mapping[str, int]]] = []
    matrix: list[Instruction] = []
    indices: list[int] = []
    for inst in instructions:
        indices.append(inst.index)
        cls = inst.cls
        classes.append(cls)
        if cls not in _COUNTED:
            continue
        if cls in MEMORY_CLASSES:
            accesses.setdefault(cls, []).append(access_bits(inst.op, inst.operands))
        elif cls == "wait":
            waits.append((inst, wait_counts(inst, machine)))
        else:
            matrix.append(inst)
    return Tally(len(indices), indices, Counter(classes), accesses, waits, matrix)


def wait_counts(inst: Instruction, machine: Machine | None) -> dict[str, int]:
    """The counters that a wait instruction constrains on this machine."""
    fields = machine.waitcnt_fields if machine else None
    maxima = machine.counters if machine else None
    return decode_wait(inst.op.name, inst.operands, fields, maxima)


def always_executed(function: Function, hot: Set[str]) -> dict[str, list[int]]:
    """Loop id -> its own blocks that every iteration executes, in execution order.

    `hot`: ids of the loops that are asked about.
    """
    if not hot:
        return {}
    tree, owner = dominators(function), innermost_loops(function)
    executed = {}
    for loop in function.loops:
        if loop.id in hot:
            blocks = [
                block
                for block in loop.blocks
                if owner[block].id == loop.id
                and not loop.irreducible
                and all(tree.dominates(block, latch) for latch in loop.latches)
            ]
            executed[loop.id] = sorted(blocks, key=lambda block: tree.entered[block])
    return executed


def own_instructions(function: Function) -> dict[str, list[Instruction]]:
    """Loop id -> its instructions, those of nested loops excluded."""
    instructions_of: dict[str, list[Instruction]] = {loop.id: [] for loop in function.loops}
    owner = innermost_loops(function)
    for block in function.blocks:
        loop = owner.get(block.index)
        if loop is not None:
            instructions_of[loop.id].extend(function.instructions[block.start : block.stop])
    return instructions_of


class Positioned(Protocol):
    """An instruction or operation."""

    @property
    def loc(self) -> SourceLoc | None:
        """Its position."""


MOST_NAMED: Final = 200
"""Instructions or operations that a figure means by one name of a line."""


class LineName(str):
    """The user's own line as figures tell it, `gemm.py:12`, and the code that is meant by it.

    Empty where that has no position. `named_positions` makes a text of it, or None, and
    `Metric.positions`.
    """

    code: tuple[Positioned, ...]
    everywhere: tuple[Positioned, ...]

    @classmethod
    def of(
        cls, code: Sequence[Positioned], everywhere: Sequence[Positioned] = ()
    ) -> LineName | None:
        """The line of the first of some instructions or operations; None for nothing.

        Of many, `MOST_NAMED` are kept. `everywhere`: what of these, and of their like in other
        loops, shorter code does not have.
        """
        if not code:
            return None
        name = cls(source_line(code[0].loc) or "")
        name.code = tuple(code[:MOST_NAMED])
        name.everywhere = tuple(everywhere)
        return name


def source_line(loc: SourceLoc | None) -> str | None:
    """The user's own line of a position, file name without folder; None where it is unknown."""
    if loc is None:
        return None
    user = loc.in_user_code
    return f"{user.file.rpartition('/')[2]}:{user.line}"


def op_line(op: TtgirOp | None) -> LineName | None:
    """The user's own line of an operation."""
    return LineName.of((op,)) if op is not None else None


def line_of_most(code: Iterable[Instruction]) -> tuple[LineName | None, int | None]:
    """The user's own line that most of some instructions belong to, and how many do.

    The number is None where no line is known.
    """
    by_line: dict[str | None, list[Instruction]] = {}
    for inst in code:
        by_line.setdefault(source_line(inst.loc), []).append(inst)
    without_line = by_line.pop(None, [])
    if not by_line:
        return LineName.of(without_line), None
    most = max(by_line.values(), key=len)
    return LineName.of(most), len(most)


def variable_name(result: str) -> str:
    """The variable in a value's SSA name: `%keys_19` is `keys`."""
    name = result.lstrip("%").partition(":")[0]
    stem, _, number = name.rpartition("_")
    return stem if stem and number.isdecimal() else name
