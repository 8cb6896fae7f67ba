"""Facts about each line of an assembly: loop, class, outstanding operations, waits, findings.

Lines count from 0 here, while those of the report count from 1.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from ...isa.waitflow.counters import COUNTERS, decode_wait
from ...isa.waitflow.pending import outstanding
from ...isa.waitflow.slack import outstanding_counts
from ...isa.waitflow.steps import steps_of
from ...model import Finding, Function, Instruction, KernelReport, Machine, SpillSlot, WaitOp

_NO_COUNTS: Mapping[str, int | None] = MappingProxyType({})


class LineMarks:
    """Facts by line, computed when constructed, so that queries are look-ups.

    They are of lines (instruction, loop, outstanding operations), of waits, spills and findings.

    Args:
        report: the kernel; None before it has been analysed.
        other_functions: the file's other functions, whose lines have classes and loops, too.
        source: the path of the source text, which findings on source lines are matched with.
    """

    def __init__(
        self,
        report: KernelReport | None = None,
        function: Function | None = None,
        machine: Machine | None = None,
        other_functions: Iterable[Function] = (),
        source: str | None = None,
    ) -> None:
        self._instructions: dict[int, Instruction] = {}
        self._loops = _LoopsByLine()
        for code in (*other_functions, *((function,) if function is not None else ())):
            for inst in code.instructions:
                self._instructions.setdefault(inst.line - 1, inst)
            self._loops.add(code)
        self._starts = tuple(
            sorted(self._header(function, loop.header) for loop in function.loops)
            if function is not None
            else ()
        )
        self._counts: dict[int, Mapping[str, int | None]] = {}
        self._lines_counted: list[int] = []
        self._producers: dict[int, tuple[int, ...]] = {}
        self._waiters: dict[int, tuple[int, ...]] = {}
        if function is not None:
            self._count_outstanding(function, machine)
        self._waits: dict[int, tuple[WaitOp, ...]] = {}
        self._findings: dict[str, dict[int, tuple[Finding, ...]]] = {}
        self._spills: dict[int, SpillSlot] = {}
        if report is not None:
            self._spills = {
                line - 1: slot for slot in report.spills for line in (*slot.stores, *slot.reloads)
            }
            for wait in report.waits:
                self._waits[wait.line - 1] = (*self._waits.get(wait.line - 1, ()), wait)
            self._apply_verdicts(report.waits)
            self._add_findings(report.findings, source)

    def instruction(self, line: int) -> Instruction | None:
        """The instruction on a line; the first of several that a macro stands for."""
        return self._instructions.get(line)

    def cls(self, line: int) -> str | None:
        """The class of the instruction on a line."""
        inst = self._instructions.get(line)
        return inst.cls if inst is not None else None

    def depth(self, line: int) -> int:
        """The number of loops that contain a line."""
        return self._loops.at(line)[0]

    def loop(self, line: int) -> str | None:
        """The id of the innermost loop that contains a line; None outside of loops."""
        return self._loops.at(line)[1]

    @property
    def loop_starts(self) -> tuple[int, ...]:
        """The first lines of the kernel's loops."""
        return self._starts

    def outstanding(self, line: int) -> Mapping[str, int | None]:
        """Wait counter -> the most memory operations that may be outstanding after a line.

        The number is None if the target is unknown or the line is unreachable. Counters that the
        kernel never raises are left out. A line without an instruction has the counts of the last
        instruction before it, a line outside of the kernel none.
        """
        counts = self._counts.get(line)
        if counts is not None:
            return counts
        index = bisect_right(self._lines_counted, line) - 1
        if index < 0 or line > self._lines_counted[-1]:
            return _NO_COUNTS
        return self._counts[self._lines_counted[index]]

    def wait(self, line: int) -> tuple[WaitOp, ...]:
        """The report's waits on a line, one for each counter, missing ones included."""
        return self._waits.get(line, ())

    def producers(self, line: int) -> tuple[int, ...]:
        """The lines of the operations that a wait on a line waits for.

        These are the operations that it has to wait for or, if it only keeps an order or is
        unnecessary, those that may be outstanding when it runs.
        """
        return self._producers.get(line, ())

    def waiters(self, line: int) -> tuple[int, ...]:
        """The lines of the waits that wait for the operation on a line."""
        return self._waiters.get(line, ())

    def spill(self, line: int) -> SpillSlot | None:
        """The slot of scratch memory that a line spills to or reloads from; None for others."""
        return self._spills.get(line)

    def partners(self, line: int) -> Iterator[tuple[int, str]]:
        """Yields the lines that a line belongs to, and in words what each is to it.

        Reloads of a spill and the other way round, the operations of a wait and the other way
        round.
        """
        slot = self._spills.get(line)
        if slot is not None:
            stores = line + 1 in slot.stores
            for number in slot.reloads if stores else slot.stores:
                yield number - 1, "reload of it" if stores else "store that it reloads"
        for producer in self.producers(line):
            yield producer, "of what the wait waits for"
        for waiter in self.waiters(line):
            yield waiter, "wait that covers it"

    def findings(self, line: int, kind: str = "amdgcn") -> tuple[Finding, ...]:
        """The findings that point at a line of one of the texts."""
        return self._findings.get(kind, {}).get(line, ())

    def places(self, finding: Finding) -> tuple[int, int]:
        """The number of lines of the assembly that a finding is about, and of the source."""
        sources = {
            (loc.in_user_code.file, loc.in_user_code.line)
            for line in finding.isa_lines
            if (inst := self._instructions.get(line - 1)) is not None
            and (loc := inst.loc) is not None
        }
        return len(finding.isa_lines), len(sources)

    def finding_lines(self, kind: str = "amdgcn") -> tuple[int, ...]:
        """The lines of one of the texts that findings point at, ascending."""
        return tuple(sorted(self._findings.get(kind, {})))

    @staticmethod
    def _header(function: Function, block: int) -> int:
        return function.instructions[function.blocks[block].start].line - 1

    def _count_outstanding(self, function: Function, machine: Machine | None) -> None:
        """Counts outstanding operations after each instruction; unknown ones without a target."""
        if machine is None:
            counters = {c for inst in function.instructions for c in _waits_of(inst, None)}
            unknown = MappingProxyType({c: None for c in COUNTERS if c in counters})
            self._counts = {inst.line - 1: unknown for inst in function.instructions}
        else:
            waits_of = partial(_waits_of, machine=machine)
            counted = outstanding_counts(function, machine.counters, waits_of)
            names = next((counts for counts in counted if counts is not None), {})
            never = MappingProxyType(dict.fromkeys(names))
            for inst, counts in zip(function.instructions, counted, strict=True):
                self._counts[inst.line - 1] = counts if counts is not None else never
            self._link_waits(function, machine)
        self._lines_counted = sorted(self._counts)

    def _link_waits(self, function: Function, machine: Machine) -> None:
        """Links each wait with the operations that it may complete."""
        steps = steps_of(function, machine.counters, partial(_waits_of, machine=machine))
        lines = [inst.line - 1 for inst in function.instructions]
        ended = outstanding(steps, function.blocks, machine.counters).at_wait
        pairs: dict[int, set[int]] = {}
        for wait, by_counter in ended.items():
            numbers = {number for numbers in by_counter.values() for number in numbers}
            if numbers:
                pairs.setdefault(lines[wait], set()).update(
                    lines[steps.producers[number]] for number in numbers
                )
        self._link(pairs)

    def _apply_verdicts(self, waits: Sequence[WaitOp]) -> None:
        """Replaces a wait's producers by those that the report says it has to wait for."""
        pairs = {line: set(producers) for line, producers in self._producers.items()}
        by_verdict: dict[int, set[int]] = {}
        for wait in waits:
            if wait.waits_for and wait.verdict != "missing":
                by_verdict.setdefault(wait.line - 1, set()).update(
                    line - 1 for line in wait.waits_for
                )
        self._link(pairs | by_verdict)

    def _link(self, pairs: Mapping[int, set[int]]) -> None:
        waiters: dict[int, set[int]] = {}
        for wait, producers in pairs.items():
            for producer in producers:
                waiters.setdefault(producer, set()).add(wait)
        self._producers = {wait: tuple(sorted(producers)) for wait, producers in pairs.items()}
        self._waiters = {line: tuple(sorted(waits)) for line, waits in waiters.items()}

    def _add_findings(self, findings: Iterable[Finding], source: str | None) -> None:
        for finding in findings:
            for line in finding.isa_lines:
                self._add_finding("amdgcn", line, finding)
                inst = self._instructions.get(line - 1)
                place = inst.loc.in_user_code if inst is not None and inst.loc is not None else None
                if place is not None and source is not None and _same_file(place.file, source):
                    self._add_finding("source", place.line, finding)
            for location in finding.locations:
                if location.line is None or location.kind == "amdgcn":
                    continue
                if location.kind == "source" and (
                    source is None or not _same_file(location.file, source)
                ):
                    continue
                self._add_finding(location.kind, location.line, finding)

    def _add_finding(self, kind: str, line: int, finding: Finding) -> None:
        by_line = self._findings.setdefault(kind, {})
        former = by_line.get(line - 1, ())
        if finding not in former:
            by_line[line - 1] = (*former, finding)


class _LoopsByLine:
    """The innermost loop of each stretch of lines, for look-ups by line."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._loop_of_stretch: list[tuple[int, str | None]] = []

    def add(self, function: Function) -> None:
        """Adds a function's loops."""
        innermost: dict[int, tuple[int, str]] = {}
        for loop in sorted(function.loops, key=lambda loop: loop.depth):
            innermost.update(dict.fromkeys(loop.blocks, (loop.depth, loop.id)))
        stretches: list[tuple[int, int, tuple[int, str | None]]] = []
        for block in function.blocks:
            if block.stop > block.start:
                first = function.instructions[block.start].line - 1
                last = function.instructions[block.stop - 1].line - 1
                stretches.append((first, last, innermost.get(block.index, (0, None))))
        stretches.sort(key=lambda stretch: stretch[0])
        merged: list[tuple[int, int, tuple[int, str | None]]] = []
        for first, last, depth_and_id in stretches:
            # Directives between two blocks of a loop belong to the loop, too.
            if merged and merged[-1][2] == depth_and_id:
                merged[-1] = (merged[-1][0], max(last, merged[-1][1]), depth_and_id)
            else:
                merged.append((first, last, depth_and_id))
        starts = list(zip(self._starts, self._loop_of_stretch, strict=True))
        following = merged[0][0] if merged else 0
        for _, last, depth_and_id in merged:
            # Labels and directives belong to the stretch that follows them.
            starts.append((following, depth_and_id))
            following = last + 1
        starts.append((following, (0, None)))
        # Where one stretch ends and another starts, the one that starts takes precedence.
        ordered = dict(sorted(starts, key=lambda start: (start[0], start[1][0])))
        self._starts, self._loop_of_stretch = list(ordered), list(ordered.values())

    def at(self, line: int) -> tuple[int, str | None]:
        """Depth and id of the loop at a line."""
        index = bisect_right(self._starts, line) - 1
        return self._loop_of_stretch[index] if index >= 0 else (0, None)


def _waits_of(inst: Instruction, machine: Machine | None) -> dict[str, int]:
    fields = machine.waitcnt_fields if machine is not None else None
    maxima = machine.counters if machine is not None else None
    return decode_wait(inst.op.name, inst.operands, fields, maxima) if inst.cls == "wait" else {}


def _same_file(path: str | None, source: str) -> bool:
    if path is None:
        return False
    short, long = sorted((path, source), key=len)
    return long == short or long.endswith("/" + short.removeprefix("./"))
