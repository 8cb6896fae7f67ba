"""Assigns samples and traced cycles of a recording to its kernels, and to their lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from ..model import KernelReport, MeasuredLine
from ..model.recording import CodePlace, KernelProfile, Recording, Samples, ThreadTrace, Traced
from . import join
from .placing import line_measures, lines
from .trace_metrics import trace_metrics

_UNMATCHED = "its {} on no line of code: no analysed kernel is surely this one"
_WITHOUT_CODE = "its {} on no line of code: --with TARGET names what it was compiled from"
_SHARED = (
    "{} of this name stand on no line: they may be of any of several specialisations; a recording "
    "with the code objects saved tells them apart"
)


class _Measurements(Struct):
    """The samples and traces of a kernel.

    `traces` are those of it alone; `shared` holds the kinds of measurement, in words, that may be
    of another kernel too.
    """

    samples: list[Samples] = field(default_factory=list)
    traced: list[Traced] = field(default_factory=list)
    traces: list[ThreadTrace] = field(default_factory=list)
    shared: set[str] = field(default_factory=set)


def add_measured_lines(
    recording: Recording, kernels: Sequence[KernelProfile], reports: Sequence[KernelReport]
) -> tuple[tuple[KernelProfile, ...], tuple[KernelReport, ...]]:
    """Adds measured lines to the kernels, and to the reports that they are joined with.

    What may be of several kernels is given to none, and noted by each of them.
    """
    if not recording.samples and not recording.traces:
        return tuple(kernels), tuple(reports)
    by_id = {report.id: report for report in reports}
    measurements = _measurements_of_kernels(recording, kernels, by_id)
    joined = []
    for kernel, own in zip(kernels, measurements, strict=True):
        report = _matched(kernel, by_id)
        unmatched = _UNMATCHED if reports else _WITHOUT_CODE
        measured, notes = _measured_lines(recording, own, report, unmatched)
        if report is not None and not report.measured_lines:
            by_id[report.id] = line_measures.with_lines(report, measured)
        notes = (*kernel.notes, *(_SHARED.format(kind) for kind in sorted(own.shared)), *notes)
        figures = {**kernel.metrics, **trace_metrics(own.traced, own.traces)}
        joined.append(replace(kernel, lines=measured, notes=notes, metrics=figures))
    return tuple(joined), tuple(by_id.values())


def _measured_lines(
    recording: Recording, measured: _Measurements, report: KernelReport | None, unmatched: str
) -> tuple[tuple[MeasuredLine, ...], tuple[str, ...]]:
    """Returns a kernel's measured lines and notes on them; `unmatched` without a report."""
    if not measured.samples and not measured.traced:
        return (), ()
    if report is None:
        return (), (unmatched.format("samples are" if measured.samples else "thread trace is"),)
    code_objects = _saved(recording, measured)
    landing = lines.measured_lines(report, measured.samples, measured.traced, code_objects)
    return landing.lines, landing.notes


def _matched(kernel: KernelProfile, reports: Mapping[str, KernelReport]) -> KernelReport | None:
    return reports[kernel.match.kernels[0]] if kernel.match.is_decided else None


def _measurements_of_kernels(
    recording: Recording, kernels: Sequence[KernelProfile], reports: Mapping[str, KernelReport]
) -> list[_Measurements]:
    """Returns the samples and traced lines of each kernel."""
    owners = _Owners(recording, kernels, reports)
    of_kernels = [_Measurements() for _ in kernels]

    def measured_at(place: CodePlace, name: str | None, kind: str) -> _Measurements | None:
        numbers, is_sure = owners.candidates(place, name)
        if is_sure:
            return of_kernels[numbers[0]]
        for number in numbers:
            of_kernels[number].shared.add(kind)
        return None

    for sample in recording.samples:
        if (owner := measured_at(sample.place, None, "samples")) is not None:
            owner.samples.append(sample)
    for trace in recording.traces:
        line_owners = []
        for line in trace.lines:
            owner = measured_at(line.place, trace.kernel, "thread traces")
            line_owners.append(owner)
            if owner is not None:
                owner.traced.append(line)
        first = line_owners[0] if line_owners else None
        if first is not None and all(owner is first for owner in line_owners):
            first.traces.append(trace)
    return of_kernels


class _Owners:
    """Finds the kernels that a place may be of: by its shape, else by name and code object."""

    def __init__(
        self,
        recording: Recording,
        kernels: Sequence[KernelProfile],
        reports: Mapping[str, KernelReport],
    ) -> None:
        self._shapes = recording.shapes
        self._dispatched = frozenset(recording.dispatches.shape)
        self._code = join.hashes(recording.code_objects)
        self._digests: list[str | None] = []
        self._by_shape: dict[int, int] = {}
        self._by_name: dict[str, dict[int, None]] = {}
        for number, kernel in enumerate(kernels):
            report = _matched(kernel, reports)
            artifact = report.artifacts.get("hsaco") if report is not None else None
            self._digests.append(artifact.sha256 if artifact is not None else None)
            self._by_name.setdefault(kernel.name, {})[number] = None
            for shape in kernel.shapes:
                self._by_shape[shape] = number
                self._by_name.setdefault(self._shapes[shape].name, {})[number] = None
        # Kernels that --top or --kernel leave out may have been traced as well.
        self._left_out = {
            self._shapes[shape].name for shape in self._dispatched if shape not in self._by_shape
        }

    def candidates(self, place: CodePlace, name: str | None) -> tuple[Sequence[int], bool]:
        """Returns the indices of the kernels, and whether the only one is certain."""
        if place.shape is not None:
            if place.shape in self._by_shape:
                return (self._by_shape[place.shape],), True
            if place.shape in self._dispatched:
                return (), False  # of a kernel that was left out
            name = self._shapes[place.shape].name
        numbers = tuple(self._by_name.get(name or "", ()))
        if len(numbers) == 1 and name not in self._left_out:
            return numbers, True
        code = place.code_object
        digest = self._code.get((place.process, code)) if code is not None else None
        same_code = [n for n in numbers if digest is not None and self._digests[n] == digest]
        return (same_code, True) if len(same_code) == 1 else (numbers, False)


def _saved(recording: Recording, measured: _Measurements) -> tuple[Path, ...]:
    """Returns the code objects that the profiler saved of these places."""
    places = [recorded.place for recorded in measured.samples] + [
        recorded.place for recorded in measured.traced
    ]
    objects = {(p.process, p.code_object) for p in places if p.code_object is not None}
    return tuple(
        Path(code_object.path)
        for code_object in recording.code_objects
        if code_object.path is not None and (code_object.process, code_object.id) in objects
    )
