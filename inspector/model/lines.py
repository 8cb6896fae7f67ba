"""What is known of single lines: accesses, waits and spills, and what they cost where measured.

Lines are those of the assembly, unless a field says that they are the TTGIR's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Literal

from msgspec import Struct, field

from .numbers import Count, Line, Real
from .source import SourceLoc

ValueKind = Literal[
    "accumulator", "operand", "loaded", "exchanged", "address", "value", "constant", "argument"
]
Verdict = Literal["needed", "over-strict", "ordering", "idle", "missing"]


class LdsRemedy(Struct, frozen=True, gc=False, omit_defaults=True):
    """What would free an array in LDS of bank conflicts, tried on all accesses of its bytes.

    Args:
        accesses: how many there are.
        cycles: that one execution of them takes a wave.
        cycles_ideal: without conflicts.
        row, pad: bytes from one row to the next, and bytes more that leave fewest cycles: whole
            pieces of the widest access. None where no padding helps.
        padded: cycles then.
        swizzle_row, swizzle: the same rows with their pieces of `swizzle` bytes in another order,
            the piece's number XORed with the row's. None where that does not help.
        swizzled: cycles then.
    """

    accesses: Count
    cycles: Real
    cycles_ideal: Real
    row: Count | None = None
    pad: Count | None = None
    padded: Real | None = None
    swizzle_row: Count | None = None
    swizzle: Count | None = None
    swizzled: Real | None = None


class LaneUse(Struct, frozen=True, gc=False, omit_defaults=True):
    """What one wave's access comes to, from its lanes' addresses: the mean of a workgroup's waves.

    Args:
        lanes: active ones.
        cycles: for which the LDS delivers or takes the data: in each phase, those of the bank that
            most distinct dwords lie in.
        cycles_ideal: the same with the dwords spread over all banks.
        conflicts: what bank conflicts add.
        lines: cache lines that are touched (global memory).
        lines_ideal: those that as many distinct bytes need at least.
        bytes: distinct ones.
        waste: % of the bytes of these lines that it does not touch.
        addresses: distinct ones of a wave's active lanes; 1 where a scalar load would do.
        apart: whether most lanes' bytes do not follow those of the lane before (global memory).
        remedy: of an access of LDS with conflicts; None where nothing was tried.
        origin: `estimated` where the LDS's phases were not measured on the target, or where lines
            depend on sizes that are not known (of some large ones those that suit best); else
            `derived`. None where the figures are.
        whole_waves: whether all lanes were taken to pass comparisons with sizes that are not known,
            as checks of bounds: then the figures are the most that it comes to, and `estimated`.
            Also where some waves have lanes that do not take part, and the launch may have others.
        at_edge: whether no lane takes part where sizes are large, as in what vectors leave over:
            then the figures are those of all lanes.
        wide_rows: whether the work-items of a wave were taken to differ in x alone, since the
            workgroup's shape is not known: then figures that other shapes change most are None, and
            the others `estimated`.
        across: whether work-items that differ by 1 in y, not in x, access bytes side by side
            (global memory).
        steps: bytes from each lane to the next one, in each draw of arguments that are not known;
            None where lanes lie at other distances than their neighbours do.
        unknown: why the figures are None; empty where they are known.
    """

    lanes: Real | None = None
    cycles: Real | None = None
    cycles_ideal: Real | None = None
    conflicts: Real | None = None
    lines: Real | None = None
    lines_ideal: Real | None = None
    bytes: Real | None = None
    waste: Real | None = None
    addresses: Real | None = None
    apart: bool = False
    remedy: LdsRemedy | None = None
    origin: Literal["derived", "estimated"] | None = None
    whole_waves: bool = False
    at_edge: bool = False
    wide_rows: bool = False
    across: bool = False
    steps: tuple[int | None, ...] | None = None
    unknown: str = ""

    def lies_side_by_side(self, bits: int) -> bool | None:
        """Whether each lane's bytes follow the last one's, in as few cache lines as possible.

        None where their addresses are not known, as where they come from memory.

        Args:
            bits: of the access, for each lane.
        """
        if (
            self.bytes is None
            or self.lanes is None
            or self.lines is None
            or self.lines_ideal is None
        ):
            return None
        # A start within a line costs one line more.
        if self.apart:
            return False
        return self.bytes * 8 >= self.lanes * bits and self.lines <= self.lines_ideal + 1


class MemoryOp(Struct, frozen=True, gc=False, omit_defaults=True):
    """One memory access of the kernel.

    Args:
        bits: per lane; None where it has no fixed width.
        use: what its lanes touch; None where it was not looked at.
        joint_bits: bits per lane that it and the lane's accesses of the bytes beside move together,
            each of 32 bits or less, at the same registers or known places, 128 at most; None where
            it has no such neighbours or those of lanes are side by side, and in Triton's code.
    """

    line: Line
    mnemonic: str
    cls: str = field(name="class")
    bits: Count | None
    loop: str | None
    depth: Count
    source: SourceLoc | None
    note: str = ""
    use: LaneUse | None = None
    joint_bits: Count | None = None


class Access(Struct, frozen=True):
    """One operation of the TTGIR that moves a tile to or from memory, and why it is that wide.

    Widths are bits per lane. Everything that the TTGIR does not tell is None.

    Args:
        op: its name, `tt.load` or `amdg.buffer_load`.
        line: in the TTGIR.
        cls: the class of the machine instructions it becomes: `global_load`, `lds_read`, ...
        source: the user's line.
        dtype: element type.
        shape: of the tile.
        layout: the layout in short, `blocked sizePerThread=[1,8] order=[1,0]`.
        lines: the instructions in the assembly that it became, as far as positions tell.
        loop: id of the loop that they stand in.
        bits: of the narrowest of them.
        widest: what the element type, the tile and its different addresses would allow at most.
        per_thread: neighbouring elements that a lane holds along the contiguous dimension.
        contiguity: neighbouring elements that are known to be neighbours in memory.
        divisibility: of the address, in bytes, as far as known; 0 where it is a constant 0.
        mask: neighbouring elements that share one mask bit; None without a mask.
        limited_by: what made it narrow: `layout`, `order`, `contiguity`, `broadcast` (neighbours
            share an address), `divisibility`, `mask`, `dtype`, `tile`; None where nothing did, or
            it cannot be told.
        reason: the same in a sentence for people, with the argument or expression at fault.
        fix: what to change.
        lanes: `agree` where its layouts put the lanes of every instruction that it became where the
            instructions' own addresses put them, `differ` where they put those of one elsewhere;
            None where that cannot be told of all of them.
    """

    op: str
    line: Line
    cls: str = field(name="class")
    source: SourceLoc | None
    dtype: str
    shape: tuple[Count, ...]
    layout: str
    lines: tuple[Line, ...] = ()
    loop: str | None = None
    bits: Count | None = None
    widest: Count | None = None
    per_thread: Count | None = None
    contiguity: Count | None = None
    divisibility: Count | None = None
    mask: Count | None = None
    limited_by: str | None = None
    reason: str = ""
    fix: str = ""
    lanes: Literal["agree", "differ"] | None = None


class LdsBuffer(Struct, frozen=True):
    """A buffer that the TTGIR puts into LDS.

    Args:
        name: of the variable that it holds; of the TTGIR's value where none is known.
        kind: `pipelined` for one that a loop's stages take turns in, `operand` for a tile that is
            put there as a whole, `exchange` for the passage of a conversion of layouts, `scratch`
            for what an operation needs to exchange (a reduction's partial results).
        dtype: element type.
        shape: of one copy, in elements.
        copies: tiles that it holds.
        size: bytes of all copies, without padding; None where the element type is odd.
        line: in the TTGIR.
        source: the user's line.
        in_loop: whether it is made anew in each iteration of a loop.
        at_peak: whether it is alive where most of the LDS is in use.
        last_line: line of the TTGIR up to which it is alive.
        last_source: the user's line of that.
        offset: its first byte in the workgroup's LDS; None where the compile does not tell.
        allocated: bytes from there, padding included, as Triton allocated them; else None.
    """

    name: str
    kind: Literal["pipelined", "operand", "exchange", "scratch"]
    dtype: str
    shape: tuple[Count, ...]
    copies: Count
    size: Count | None = field(name="bytes")
    line: Line
    source: SourceLoc | None
    in_loop: bool
    at_peak: bool
    last_line: Line | None = None
    last_source: SourceLoc | None = None
    offset: Count | None = None
    allocated: Count | None = None


class ParkedValue(Struct, frozen=True):
    """The value of the source that a spill slot holds, or most of it does.

    Args:
        name, kind, source: as for `LiveValue`.
    """

    name: str | None
    kind: ValueKind
    source: SourceLoc | None


class SpillSlot(Struct, frozen=True):
    """A place in scratch memory where the compiler parks a value.

    A place that holds one value after another is a slot for each, with its stores and reloads.

    Args:
        offset: bytes from the start of the lane's scratch memory; None where a register says it.
        size: bytes.
        stores: lines of the assembly that write it.
        reloads: lines that read it.
        loops: ids of the loops in which it is accessed, the deepest first.
        source: the user's lines of those accesses, in the order of `stores`, then `reloads`.
        value: what it holds; None where the values of registers were not named.
    """

    offset: int | None
    size: Count = field(name="bytes")
    stores: tuple[Line, ...]
    reloads: tuple[Line, ...]
    loops: tuple[str, ...]
    source: tuple[SourceLoc, ...]
    value: ParkedValue | None = None


class LiveValue(Struct, frozen=True):
    """Registers that hold one value of the source where most registers are live.

    Args:
        name: the variable's; for an address that of what it accesses; None where nothing says.
        kind: `accumulator` of dots, `operand` of one, `loaded` from global memory, `exchanged`
            through LDS, `address`, `constant`, `argument` (what the wave starts with), or else
            `value`.
        type: shape and element type of its tensor, `128x64xf32`; "" where nothing says.
        source: the user's line of what made it, for addresses of the access.
        vgprs: VGPRs that hold a part of it.
        agprs: AGPRs that do.
        scratch: dwords of each lane that are parked in scratch memory.
        registers: their names, `v[0:31] v40 a[0:3]`.
        slots: where in a lane's scratch memory those dwords are, ranges of bytes with the register
            that they are added to, `4:19 s32+0:3`.
    """

    name: str | None
    kind: ValueKind
    type: str
    source: SourceLoc | None
    vgprs: Count
    agprs: Count
    scratch: Count
    registers: str
    slots: str = ""


class LivePeak(Struct, frozen=True, omit_defaults=True):
    """The instruction at which most VGPRs and AGPRs are live, and what they hold there.

    Args:
        line: of the assembly.
        instruction: its mnemonic.
        source: its position in the user's source.
        loop: id of the innermost loop around it.
        vgprs: VGPRs that are live.
        agprs: AGPRs that are live.
        values: the most registers first.
        counts: line, live VGPRs and live AGPRs of each instruction of the kernel, in order; empty
            in saved reports.
    """

    line: Line
    instruction: str
    source: SourceLoc | None
    loop: str | None
    vgprs: Count
    agprs: Count
    values: tuple[LiveValue, ...]
    counts: tuple[tuple[Count, Count, Count], ...] = ()


class UntouchedValues(Struct, frozen=True):
    """Registers that live through a whole loop, nested loops included, which does not touch them.

    They could be computed or loaded again behind it, where the loop is short of registers.

    Args:
        loop: its id.
        vgprs, agprs: how many.
        values: what they hold, the most registers first.
    """

    loop: str
    vgprs: Count
    agprs: Count
    values: tuple[LiveValue, ...]


class RegisterPressure(Struct, frozen=True, dict=True):
    """What the values in a kernel's registers ask of the register file, against its occupancies.

    Args:
        counts: as `LivePeak.counts`.
        needs: for each of `counts` the registers of the file that a wave would need for no more
            than what is live there: VGPRs and AGPRs together where one file holds both.
        allocated: the registers of the file that the kernel takes; None where that is unknown.
        levels: occupancy in waves/SIMD and the most registers that admit it, the highest first;
            empty where the target or the launch is unknown.
        level: of these the one that the allocated registers admit; None where there is none.
        next_level: the one above it; None where there is none.
        excess: how many live registers fewer at the peak that one needs; None without one.
    """

    counts: tuple[tuple[int, int, int], ...]
    needs: tuple[int, ...]
    allocated: int | None
    levels: tuple[tuple[int | float, int], ...]
    level: tuple[int | float, int] | None = None
    next_level: tuple[int | float, int] | None = None
    excess: int | None = None

    @cached_property  # each line of a listing asks for it
    def most(self) -> int:
        """The registers at the end of a scale: what is allocated, or needed at most."""
        return max((self.allocated or 0, *self.needs), default=0)

    @cached_property
    def budgets(self) -> tuple[tuple[int | float, int], ...]:
        """The levels whose most registers lie on that scale, the highest occupancy first."""
        return tuple(level for level in self.levels if level[1] < self.most)


class LoopTraffic(Struct, frozen=True):
    """The spills and reloads of a value in one iteration of a loop, nested loops excluded.

    Args:
        loop: the loop's id.
        stores: instructions that park the value.
        reloads: instructions that fetch it.
    """

    loop: str
    stores: Count
    reloads: Count


class SpilledValue(Struct, frozen=True):
    """A value of the source that spills park in scratch memory.

    Args:
        name, kind, type, source: as for `LiveValue`.
        dwords: 32-bit words of each lane that hold parts of it at some time.
        stores: instructions that park them.
        reloads: instructions that fetch them.
        hot_stores: of the stores those in hot loops, summed over loops that may run one after the
            other.
        hot_reloads: of the reloads those in hot loops, likewise.
        loops: ids of the hot loops in which it is parked or fetched.
        slots: as for `LiveValue`.
        by_loop: hot stores and reloads of each of these loops; empty in reports without them.
    """

    name: str | None
    kind: ValueKind
    type: str
    source: SourceLoc | None
    dwords: Count
    stores: Count
    reloads: Count
    hot_stores: Count
    hot_reloads: Count
    loops: tuple[str, ...]
    slots: str = ""
    by_loop: tuple[LoopTraffic, ...] = ()


class WaitOp(Struct, frozen=True, gc=False, kw_only=True):
    """One counter of one wait instruction: it waits until `counter` <= `n`.

    The verdict and what follows it are None where the target is unknown. `missing` stands at an
    instruction that touches a register too early, or at a barrier behind which another wave loads
    in line `read_at` what was stored: a wait for `n` would have to come before it.

    `slack` counts the instructions between the youngest of what it waits for and the wait, on the
    shortest way; `slack_cycles` the cycles that the matrix instructions among them take.
    """

    line: Line
    counter: str
    n: int
    loop: str | None
    verdict: Verdict | None = None
    could_be: int | None = None
    waits_for: tuple[Line, ...] | None = None
    read_at: Line | None = None
    slack: Count | None = None
    slack_cycles: Count | None = None
    source: SourceLoc | None


class MeasuredLine(Struct, frozen=True, gc=False):
    """What a profiler measured of one instruction, on its line of the assembly (1-based).

    Cycles are shader clocks summed over the traced waves (thread trace); samples are counts of PC
    sampling. What the recording does not tell is None. `reasons` are why samples found the
    instruction not issued.
    """

    line: Line
    address: Count | None  # in the code object
    mnemonic: str
    loop: str | None
    source: SourceLoc | None
    hits: Count | None = None
    latency_cycles: int | None = None
    stall_cycles: int | None = None
    idle_cycles: int | None = None
    samples: Count | None = None
    issued: Count | None = None
    reasons: Mapping[str, int] = field(default_factory=dict)


class EmulatedLine(Struct, frozen=True, gc=False, omit_defaults=True):
    """What the emulator counted of one instruction, on its line of the assembly (1-based).

    Args:
        line: of the assembly.
        executed: how many waves executed it.
        active_lanes: mean share of the lanes that took part in an access of memory; None for
            other instructions.
        cache_lines: that an execution touched, in the mean; None for other than global memory.
        least_cache_lines: that would hold as many bytes.
        conflict_cycles: that LDS bank conflicts add to an execution, in the mean; None for other
            than LDS.
    """

    line: Line
    executed: Count
    active_lanes: Real | None = None
    cache_lines: Real | None = None
    least_cache_lines: Real | None = None
    conflict_cycles: Real | None = None


class EmulatedFault(Struct, frozen=True):
    """What the code did in the emulator and must not do: see `emulator.machine.Trouble`."""

    kind: str
    detail: str
    line: Line


def has_integers(types: Iterable[str]) -> bool:
    """Whether one of these types of tensors is of integers."""
    return any("float" not in type_ for type_ in types)


class Emulated(Struct, frozen=True):
    """A few workgroups of a kernel's captured launch, executed by the emulator.

    Args:
        workgroups: executed ones.
        grid_workgroups: those of the launch.
        waves: executed ones.
        made_up: types of the tensors whose contents were made up, in the order of the arguments.
        lines: of the assembly, those that were executed.
        faults: what went wrong.
    """

    workgroups: Count
    grid_workgroups: Count
    waves: Count
    made_up: tuple[str, ...]
    lines: tuple[EmulatedLine, ...]
    faults: tuple[EmulatedFault, ...] = ()
