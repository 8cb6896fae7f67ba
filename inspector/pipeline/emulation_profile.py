"""The profile of an emulated kernel as values: what was counted, over all its launches."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class EmulationFinding(Struct, frozen=True):
    """A fault of the executed code, at the instruction that committed it first.

    Args:
        file: of the source; None where the assembly has no locations.
    """

    kind: str
    detail: str
    line: int
    instruction: str
    file: str | None
    source_line: int | None


class LineCount(Struct, frozen=True):
    """Executions of one source line's instructions, each counted once per wave.

    Args:
        file: of the source; None for instructions without a location.
        classes: instruction class -> executions, the most first.
    """

    file: str | None
    line: int | None
    instructions: int
    classes: Mapping[str, int]


class AccessProfile(Struct, frozen=True):
    """One instruction's accesses of memory, over all waves that executed it.

    Args:
        file: of the source; None where the assembly has no locations.
        waves: executions by a wave; an instruction that accesses two places (ds_read2_b32) counts
            twice each time.
        active_lanes: mean share of the lanes that took part.
        cache_lines: touched cache lines, summed over executions; None for LDS.
        least_cache_lines: the same if the bytes lay as densely as they can; None for LDS.
        conflict_cycles: added by LDS bank conflicts, in all; None for global memory.
    """

    space: str
    op: str
    line: int
    instruction: str
    file: str | None
    source_line: int | None
    bytes_per_lane: int
    waves: int
    active_lanes: float
    bytes: int
    cache_lines: int | None
    least_cache_lines: int | None
    conflict_cycles: int | None


class BranchProfile(Struct, frozen=True):
    """A conditional branch.

    Args:
        file: of the source; None where the assembly has no locations.
        divided: executions in which a branch on EXEC or VCC met a mask with some bits set and not
            all; None for a branch on the scalar condition code, which all lanes share.
    """

    line: int
    instruction: str
    file: str | None
    source_line: int | None
    waves: int
    taken: int
    divided: int | None


class WorkgroupSpread(Struct, frozen=True):
    """Instructions executed per workgroup, over its waves: minimum, lower median and maximum."""

    least: int
    median: int
    most: int


class Traffic(Struct, frozen=True):
    """Bytes and operations of one launch, as a mean over all launches.

    Args:
        unique_read: distinct bytes of global memory that vector instructions read.
        unique_written: distinct bytes that they wrote.
    """

    unique_read: int
    unique_written: int
    matrix_flops: int
    vector_flops: int

    @property
    def intensity(self) -> float | None:
        """Operations per byte, if each distinct byte moved once; None where nothing moved."""
        moved_bytes = self.unique_read + self.unique_written
        flops = self.matrix_flops + self.vector_flops
        return flops / moved_bytes if moved_bytes else None


class EmulationProfile(Struct, frozen=True):
    """One kernel, over all launches of one specialisation.

    Args:
        grid_workgroups: workgroups of the grids, which are more where a sample was executed.
        executed: executed instructions, each counted once per wave: `instructions` is the total,
            the other keys are classes.
        trips: loop -> iterations each time that a wave entered it, in the mean.
        prepare_seconds: time that reading and decoding the code took on this machine.
        execute_seconds: time that executing all launches took on this machine; it says nothing of a
            GPU.
        per_workgroup: how much the workgroups' work differs; None where none was executed.
        traffic: bytes and operations; None where accesses were not counted.
        counters: hardware counters, as a profiler writes them, of all executed workgroups.
        given_up: launches that hung or took too long; their workgroups count in
            `grid_workgroups` alone.
    """

    name: str
    arch: str
    launches: int
    workgroups: int
    grid_workgroups: int
    waves: int
    executed: Mapping[str, int]
    lines: tuple[LineCount, ...]
    findings: tuple[EmulationFinding, ...]
    accesses: tuple[AccessProfile, ...] = ()
    trips: Mapping[str, float] = {}
    prepare_seconds: float = 0.0
    execute_seconds: float = 0.0
    branches: tuple[BranchProfile, ...] = ()
    per_workgroup: WorkgroupSpread | None = None
    traffic: Traffic | None = None
    flops_per_byte: float | None = None
    counters: Mapping[str, int] = {}
    given_up: int = 0
