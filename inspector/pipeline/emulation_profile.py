"""What was counted while kernels were executed: one profile per kernel, over all its launches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ..emulator.launch import Outcome
from ..emulator.machine import Trouble
from ..emulator.program import Code
from ..model import Function

CLASSES: Final[Mapping[str, str]] = {
    "valu": "valu", "acc_move": "valu", "cross_lane": "cross_lane", "salu": "salu",
    "mfma": "mfma", "wmma": "wmma",
    "lds_read": "lds", "lds_write": "lds", "lds_atomic": "lds",
    "global_load": "global", "global_store": "global", "atomic": "global",
    "lds_direct": "lds_direct", "scratch_load": "scratch", "scratch_store": "scratch",
    "smem_load": "smem", "wait": "wait", "barrier": "barrier", "branch": "branch",
}  # fmt: skip
"""Instruction class -> the name under which executions are counted; others count as `other`."""


class Finding(Struct, frozen=True):
    """Something that the code did and must not do, where it did it first.

    Args:
        kind: `outside`, `outside_lds`, `unwaited`, `race`, ….
        detail: what exactly.
        line: of the assembly.
        instruction: its text.
        file: of the source; None where the assembly has no locations.
        source_line: in that file.
    """

    kind: str
    detail: str
    line: int
    instruction: str
    file: str | None
    source_line: int | None


class LineCount(Struct, frozen=True):
    """Executions of one source line's instructions, in waves, by class."""

    file: str | None
    line: int | None
    instructions: int
    classes: Mapping[str, int]


class KernelProfile(Struct, frozen=True):
    """One kernel, over all launches of one specialisation.

    Args:
        name: of the kernel.
        arch: gfx name.
        launches: so many.
        workgroups: executed ones.
        grid_workgroups: those of the grids, which are more where a sample was executed.
        waves: executed ones.
        executed: instructions executed, counted once for each wave: `instructions` and by class.
        lines: the same by source line, the most first.
        findings: what went wrong, one of a kind at each instruction.
    """

    name: str
    arch: str
    launches: int
    workgroups: int
    grid_workgroups: int
    waves: int
    executed: Mapping[str, int]
    lines: tuple[LineCount, ...]
    findings: tuple[Finding, ...]


class Tally:
    """What the launches of one kernel did so far."""

    def __init__(self, arch: str, code: Code) -> None:
        self._arch = arch
        self._code = code
        self._workgroups = 0
        self._grid_workgroups = 0
        self._waves = 0
        self._troubles: dict[tuple[str, int], Trouble] = {}
        self.launches = 0

    def add(self, outcome: Outcome, grid_workgroups: int) -> None:
        """One more launch, of a grid of so many workgroups."""
        self.launches += 1
        self._workgroups += outcome.workgroups
        self._grid_workgroups += grid_workgroups
        self._waves += outcome.waves
        for trouble in outcome.troubles:
            self._troubles.setdefault((trouble.kind, trouble.site), trouble)

    def profile(self) -> KernelProfile:
        """The figures, from the counts of the code's blocks."""
        function = self._code.function
        total: Counter[str] = Counter()
        by_line: dict[tuple[str | None, int | None], Counter[str]] = {}
        for block in self._code.blocks:
            if not block.runs:
                continue
            for instruction in function.instructions[block.first : block.stop]:
                name = CLASSES.get(instruction.cls, "other")
                loc = instruction.loc.outermost if instruction.loc is not None else None
                place = (loc.file, loc.line) if loc is not None else (None, None)
                total[name] += block.runs
                by_line.setdefault(place, Counter())[name] += block.runs
        lines = [
            LineCount(file, line, counts.total(), dict(counts.most_common()))
            for (file, line), counts in by_line.items()
        ]
        return KernelProfile(
            function.name,
            self._arch,
            self.launches,
            self._workgroups,
            self._grid_workgroups,
            self._waves,
            {"instructions": total.total(), **dict(total.most_common())},
            tuple(sorted(lines, key=lambda count: -count.instructions)),
            tuple(finding_of(trouble, function) for trouble in self._troubles.values()),
        )


def finding_of(trouble: Trouble, function: Function) -> Finding:
    """A trouble with its place in assembly and source."""
    instruction = function.instructions[trouble.site]
    loc = instruction.loc
    return Finding(
        trouble.kind,
        trouble.detail,
        instruction.line,
        f"{instruction.mnemonic} {instruction.operands}".strip(),
        loc.file if loc is not None else None,
        loc.line if loc is not None else None,
    )
