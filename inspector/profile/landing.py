"""Assigns samples and traced cycles of a recording to its kernels, and to their lines.

What a thread trace says by itself, without code: its span, and what its waves stall at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

from msgspec import Struct, field
from msgspec.structs import replace

from ..isa.mnemonics import lookup
from ..model import KernelReport, Metric
from ..model.recording import CodePlace, KernelProfile, Recording, Samples, ThreadTrace, Traced
from . import join
from .placing import line_measures, lines

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
        notes = [*kernel.notes, *(_SHARED.format(kind) for kind in sorted(own.shared))]
        measured = kernel.lines
        if own.samples or own.traced:
            report = _matched(kernel, by_id)
            if report is None:
                kind = "samples are" if own.samples else "thread trace is"
                notes.append((_UNMATCHED if reports else _WITHOUT_CODE).format(kind))
            else:
                code_objects = _saved(recording, own)
                landing = lines.measured_lines(report, own.samples, own.traced, code_objects)
                notes += landing.notes
                measured = landing.lines
                if not report.measured_lines:
                    by_id[report.id] = line_measures.with_lines(report, landing.lines)
        figures = {**kernel.metrics, **metrics(own.traced, own.traces)}
        joined.append(replace(kernel, lines=measured, notes=tuple(notes), metrics=figures))
    return tuple(joined), tuple(by_id.values())


def _matched(kernel: KernelProfile, reports: Mapping[str, KernelReport]) -> KernelReport | None:
    sure = kernel.match.is_decided
    return reports[kernel.match.kernels[0]] if sure else None


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
        found = []
        for line in trace.lines:
            owner = measured_at(line.place, trace.kernel, "thread traces")
            found.append(owner)
            if owner is not None:
                owner.traced.append(line)
        if found and found[0] is not None and all(owner is found[0] for owner in found):
            found[0].traces.append(trace)
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


SPAN = "measured.span_cycles"
CLASSES = {
    "barrier": "barriers",
    "memory_wait": "waits for memory",
    "lds_wait": "waits for the LDS or scalar loads",
    "matrix": "matrix instructions",
    "vector": "vector instructions",
    "lds": "instructions that access the LDS",
    "memory": "instructions that access memory",
    "other": "all other instructions",
}
"""What waves stall at -> the same in words."""
_CLASS_OF = {
    "barrier": "barrier",
    "mfma": "matrix",
    "wmma": "matrix",
    "valu": "vector",
    "acc_move": "vector",
    "cross_lane": "lds",
    "lds_read": "lds",
    "lds_write": "lds",
    "lds_atomic": "lds",
    "global_load": "memory",
    "global_store": "memory",
    "lds_direct": "memory",
    "lds_direct_store": "memory",
    "scratch_load": "memory",
    "scratch_store": "memory",
    "atomic": "memory",
    "smem_load": "memory",
    "image": "memory",
}
"""Class of the mnemonic table -> what waves stall at."""
_MEMORY_COUNTERS = re.compile(r"v[ms]cnt|loadcnt|storecnt|samplecnt|bvhcnt")


def stall_class(text: str) -> str:
    """The name of `CLASSES` of an instruction as a profiler disassembled it."""
    mnemonic = text.split(maxsplit=1)[0] if text.strip() else ""
    cls = lookup(mnemonic).cls
    if cls == "wait":
        return "memory_wait" if _MEMORY_COUNTERS.search(text) else "lds_wait"
    return _CLASS_OF.get(cls, "other")


def metrics(lines: Sequence[Traced], traces: Sequence[ThreadTrace]) -> dict[str, Metric]:
    """The metrics of a kernel's traced instructions, and of the traces that are of it alone."""
    figures = {}
    if spans := [span for trace in traces if (span := _span(trace)) is not None]:
        of = "a trace" if len(spans) == 1 else f"{len(spans)} traces, the mean"
        figures[SPAN] = Metric(
            name=SPAN,
            value=round(mean(spans)),
            unit="cycles",
            origin="measured",
            note=f"from the first traced wave's begin to the last one's end; of {of}",
        )
    stall_cycles: Counter[str] = Counter()
    for line in lines:
        stall_cycles[stall_class(line.place.text or "")] += line.stall
    total = stall_cycles.total()
    for cls, words in CLASSES.items():
        if cycles := stall_cycles[cls]:
            name, share = f"measured.stalls.{cls}", round(100 * cycles / total, 1)
            note = f"of the cycles that waves stalled: {words}"
            figures[name] = Metric(name=name, value=share, unit="%", origin="measured", note=note)
    return figures


def _span(trace: ThreadTrace) -> int | None:
    ends = [wave.end for wave in trace.waves if wave.end is not None]
    return max(ends) - min(wave.begin for wave in trace.waves) if ends else None
