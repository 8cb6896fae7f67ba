"""Merges the journals of a recorded command's processes into one trace.

Each process writes a journal of its own (`guest/record/journal.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..base.version import VERSION
from .trace import (
    SCHEMA_VERSION,
    ArgumentPath,
    LaunchTrace,
    Problem,
    Process,
    Strict,
    TracedSource,
    TracedSpecialization,
    TraceHead,
    converted,
    damaged,
    numbered_records,
)


class _Compiled(Strict, frozen=True):
    """A journal's record that a specialisation was compiled."""

    id: str


class _Launches(Strict, frozen=True):
    """A journal's running count of launches; a later one replaces those before it."""

    id: str
    count: int
    tuning: int
    grids: list[tuple[list[int], int]]
    other_grids: int
    small: list[list[ArgumentPath]]


def merge(folder: Path, command: Sequence[str], status: int | None) -> LaunchTrace:
    """Makes one trace of the journals of a command's processes.

    Raises:
        KinspectError: a file in the folder is not a journal.
    """
    journals = [_Journal(path) for path in sorted(folder.glob("*.jsonl"))]
    notes = [f"the last line of process {j.pid} was cut off" for j in journals if j.truncated]
    merged: dict[str, TracedSpecialization] = {}
    # A forked child may launch what its parent compiled, which only the parent's journal describes.
    specializations = {s.id: s for journal in journals for s in journal.specializations.values()}
    for journal in journals:
        for specialization in journal.with_counts(specializations):
            merged_before = merged.get(specialization.id)
            merged[specialization.id] = (
                _sum_of(merged_before, specialization)
                if merged_before is not None
                else specialization
            )
    head = TraceHead(
        schema_version=SCHEMA_VERSION,
        kinspect=VERSION,
        command=list(command),
        cwd=str(Path.cwd()),
        status=status,
    )
    return LaunchTrace(
        head=head,
        processes=tuple(p for journal in journals for p in journal.processes),
        specializations=tuple(merged.values()),
        problems=tuple(p for journal in journals for p in journal.problems),
        notes=tuple(notes),
        sources=tuple({s.id: s for journal in journals for s in journal.sources}.values()),
    )


class _Journal:
    """The journal of one process, which may be truncated."""

    def __init__(self, path: Path) -> None:
        self.pid = path.stem.partition("-")[0]
        records, self.truncated = numbered_records(path)
        self.processes: list[Process] = []
        self.problems: list[Problem] = []
        self.sources: list[TracedSource] = []
        self.specializations: dict[str, TracedSpecialization] = {}
        self._counts: dict[str, _Launches] = {}
        self._compiled: set[str] = set()
        self._complete = False
        for line, record in records:
            self._add_record(record, path, line)
        # A process that only compiled (Inductor kills its workers) had no launches to count.
        self._complete |= not self._counts and all(
            specialization.via == "compile" for specialization in self.specializations.values()
        )
        self.processes = [replace(p, complete=self._complete) for p in self.processes]

    def with_counts(
        self, specializations: Mapping[str, TracedSpecialization]
    ) -> Iterator[TracedSpecialization]:
        for name in dict.fromkeys((*self.specializations, *self._counts)):
            specialization = specializations.get(name)
            if specialization is not None:
                compiled = name in self._compiled or name not in self.specializations
                yield _with_count(specialization, self._counts.get(name), compiled, self._complete)

    def _add_record(self, record: Mapping[str, Any], path: Path, line: int) -> None:
        (name, content), *_ = record.items()
        if name == "process":
            self.processes.append(converted(content, Process, path, line))
        elif name == "source":
            self.sources.append(converted(content, TracedSource, path, line))
        elif name == "specialization":
            specialization = converted(content, TracedSpecialization, path, line)
            self.specializations[specialization.id] = specialization
        elif name == "compiled":
            self._compiled.add(converted(content, _Compiled, path, line).id)
        elif name == "launches":
            count = converted(content, _Launches, path, line)
            self._counts[count.id] = count
        elif name == "problem":
            pid = int(self.pid) if self.pid.isdecimal() else None
            self.problems.append(converted({**content, "pid": pid}, Problem, path, line))
        elif name == "end":
            self._complete = True
        else:
            raise damaged(path, line, f"unknown record {name!r}")


def _with_count(
    specialization: TracedSpecialization, count: _Launches | None, compiled: bool, complete: bool
) -> TracedSpecialization:
    if count is None:
        launches = None if specialization.via == "compile" else 0
        return replace(specialization, compiled=compiled, launches=launches, at_least=not complete)
    return replace(
        specialization,
        compiled=compiled,
        launches=count.count,
        tuning_launches=count.tuning,
        at_least=not complete,
        grids=count.grids,
        other_grids=count.other_grids,
        small=count.small,
    )


def _sum_of(x: TracedSpecialization, y: TracedSpecialization) -> TracedSpecialization:
    """A specialisation with its launches in two processes (or more) added up."""
    grids = {tuple(grid): launches for grid, launches in x.grids}
    for grid, count in y.grids:
        grids[tuple(grid)] = grids.get(tuple(grid), 0) + count
    launches = [s.launches for s in (x, y) if s.launches is not None]
    return replace(
        x,
        compiled=x.compiled or y.compiled,
        launches=sum(launches) if launches else None,
        tuning_launches=x.tuning_launches + y.tuning_launches,
        at_least=x.at_least or y.at_least,
        grids=[(list(grid), count) for grid, count in grids.items()],
        other_grids=x.other_grids + y.other_grids,
        small=x.small + [s for s in y.small if s not in x.small],
    )
