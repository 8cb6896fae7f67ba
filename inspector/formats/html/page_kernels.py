"""The kernels of an HTML page: reports with their occupancy levels, code and source lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct, field

from ... import machines
from ...base import named_files
from ...base.errors import KinspectError
from ...metrics.occupancy import Level, occupancy
from ...metrics.pressure import register_pressure
from ...model import KernelReport, RegisterPressure, SourceLoc
from ...pipeline.analysis import source_reader

MOST_IN_FULL = 60
"""Kernels beyond this are in the table alone: a page of thousands opens in no browser."""
_MOST_BYTES = 64 << 20
"""A larger file of assembly is not read."""
_AROUND = 2
"""Lines of the source that are shown before and after those that take time."""
_MOST_LINES = 200


class PageKernel(Struct, frozen=True):
    """A kernel as the page shows it: with its occupancy levels, highest first, and its code.

    `code` holds lines of the assembly by number (1-based); `source` those of the user's files by
    (file, line). `pressure` is None where the live registers are not known.
    """

    kernel: KernelReport
    levels: tuple[Level, ...] = ()
    code: Mapping[int, str] = field(default_factory=dict)
    source: Mapping[tuple[str, int], str] = field(default_factory=dict)
    pressure: RegisterPressure | None = None


def page_kernels(reports: Iterable[KernelReport]) -> list[PageKernel]:
    """Adds levels and code to kernels; files that are gone from the disk are left out.

    Only those that the page shows in full have code: a library's file may hold thousands of them.
    """
    read = source_reader()
    kernels = []
    files: dict[Path, Mapping[int, str]] = {}  # several kernels may be in one
    for number, report in enumerate(reports):
        if number >= MOST_IN_FULL:
            kernels.append(PageKernel(report))
            continue
        places = {
            (line.source.file, line.source.line): line.source
            for line in report.measured_lines
            if line.source is not None
        }
        places.update({(at.file, at.line): at for at in _timed_places(report)})
        texts = {key: read(location) for key, location in places.items()}
        kernels.append(
            PageKernel(
                report,
                _levels(report),
                _code(report, files),
                {key: text for key, text in texts.items() if text is not None},
                register_pressure(report),
            )
        )
    return kernels


def _timed_places(report: KernelReport) -> list[SourceLoc]:
    """The lines of the file that most of the time goes to, from its first such line to its last."""
    shares: dict[str, float] = {}
    lines: dict[str, list[int]] = {}
    for line in report.time.lines if report.time is not None else ():
        if line.source is not None:
            file = line.source.file
            shares[file] = shares.get(file, 0.0) + line.share
            lines.setdefault(file, []).append(line.source.line)
    if not shares:
        return []
    file = max(shares, key=shares.__getitem__)
    first, last = max(1, min(lines[file]) - _AROUND), max(lines[file]) + _AROUND
    return [SourceLoc(file, number) for number in range(first, min(last, first + _MOST_LINES) + 1)]


def _levels(report: KernelReport) -> tuple[Level, ...]:
    """The reachable occupancies of a kernel; none if its target or launch is unknown."""
    if report.demand is None or report.arch not in machines.names():
        return ()
    try:
        return occupancy(machines.load(report.arch), report.demand).levels
    except KinspectError:
        return ()


def _code(report: KernelReport, files: dict[Path, Mapping[int, str]]) -> Mapping[int, str]:
    artifact = report.artifacts.get("amdgcn")
    path = artifact.path if artifact is not None else Path(report.id.partition("::")[0])
    if artifact is None and path.suffix not in (".s", ".asm", ".amdgcn"):
        return {}
    if path not in files:
        text = _text(path) if artifact is not None else named_files.named_text(path, _MOST_BYTES)
        files[path] = dict(enumerate((text or "").splitlines(), 1))
    return files[path]


def _text(artifact: Path) -> str | None:
    try:
        return named_files.file_text(artifact, _MOST_BYTES)
    except OSError:
        return None
