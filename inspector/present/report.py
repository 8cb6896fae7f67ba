"""The report of `analyze` as a document: a line a kernel where there are several, then screens."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, TextIO

from ..explain import occupancy_view, time_view, trials_view, view
from ..model import ErrorRecord, KernelReport, Report, int_of, value_of
from . import kernel as of_kernel
from . import markdown, text
from .document import Column, Document, Paragraph, Section, Table, table, words

MOST_SCREENS: Final = 3
"""Kernels that each have a screen; of more, only that one has which has most to gain."""


def document(report: Report, *, details: bool = False, every: bool = False) -> Document:
    """All that a report says, its kernels in their order.

    `details`: all that is known of each; `every`: what saves too little to be a finding as well.
    """
    return tuple(_sections(report, details=details, every=every))


def write_text(
    report: Report,
    stream: TextIO,
    *,
    details: bool = False,
    every: bool = False,
    color: bool | None = None,
) -> None:
    """Prints a report; `color` None: where the stream is a terminal that has colours."""
    text.show(document(report, details=details, every=every), stream, color)


def write_markdown(report: Report, stream: TextIO) -> None:
    """Writes a report as Markdown, all that is known of every kernel, and what failed."""
    failed = (_failed(report.errors),) if report.errors else ()
    stream.write("# kinspect report\n\n")
    markdown.show((*_sections(report, details=True, every=False), *failed), stream)


def _failed(errors: Sequence[ErrorRecord]) -> Section:
    columns = ("file", "kernel", "stage", "what", "next step")
    rows = ((e.file or "", e.kernel or "", e.stage, e.message, e.hint) for e in errors)
    return Section((Table(tuple(map(Column, columns)), tuple(rows)),), words("Failed", "strong"))


def _sections(report: Report, *, details: bool, every: bool) -> Iterator[Section]:
    kernels = report.kernels
    if len(kernels) > 1:
        yield Section((kernels_table(kernels),))
    few = details or len(kernels) <= MOST_SCREENS
    taken = [group[0] for group in view.of_autotuners(kernels)]
    shown = kernels if few else (max(taken, key=_to_gain),)
    for kernel in shown:
        yield from of_kernel.first_screen(kernel, every=every, whole=details)
        if details:
            yield from of_kernel.details(kernel)
    hints = []
    if len(taken) < len(kernels):
        hints.append("of an autotuner's configurations the fastest, by these times, comes first")
    if len(shown) < len(kernels):
        hints.append(f"{view.plural(len(kernels) - len(shown), 'more kernel')}: --kernel NAME")
    if shown and not details:
        hints.append("registers, loops, accesses: --details")
        if any(kernel.time and kernel.variant and not kernel.saved_in for kernel in shown):
            hints.append("other configurations: kinspect try TARGET")
    if hints:
        yield Section((Paragraph(words("; ".join(hints), "weak")),))


def kernels_table(kernels: Sequence[KernelReport]) -> Table:
    """A line a kernel."""
    files = {kernel.file for kernel in kernels}
    times = any((kernel.variant.launches or 1) > 1 for kernel in kernels if kernel.variant)
    return table(
        (
            (
                Column("file", rank=4, shrinks=True),
                lambda k: view.file_name(k.file) if len(files) > 1 else "",
            ),
            (Column("kernel", shrinks=True), lambda k: k.name),
            (
                Column("case", shrinks=True),
                lambda k: (k.variant.case or "") if k.variant is not None else "",
            ),
            (Column("arch", rank=3), lambda k: k.arch or view.UNKNOWN),
            (Column("time", right=True), lambda k: time_view.amount(k.time.us) if k.time else ""),
            (
                Column("launches", right=True, rank=5),
                lambda k: f"{k.variant.launches or 1:,}" if times and k.variant is not None else "",
            ),
            (Column("limited by", rank=2), lambda k: k.time.limiter if k.time else ""),
            (
                Column("VGPRs", right=True, rank=6),
                lambda k: view.show(value_of(k.metrics, "vgpr_count")),
            ),
            (
                Column("spills", right=True, rank=5),
                lambda k: view.show(value_of(k.metrics, "vgpr_spill_count")),
            ),
            (Column("LDS", right=True, rank=7), lambda k: view.kib(int_of(k.metrics, "lds_bytes"))),
            (Column("waves/SIMD", right=True, rank=6), occupancy_view.waves_text),
            (Column("first change"), _first_change),
            (Column("assumed", rank=8, shrinks=True), view.assumption_mark),
        ),
        kernels,
    )


def _to_gain(kernel: KernelReport) -> float:
    """Microseconds that the first change saves of all launches; wrong results come before all."""
    first = next(iter(kernel.findings), None)
    if first is not None and first.severity == "error":
        return math.inf
    percent = first.gain_percent if first is not None else None
    return view.time_of_launches(kernel) * max(percent or 0.0, kernel.fastest_percent)


def _first_change(kernel: KernelReport) -> str:
    """The finding to begin with: `-27 % KI054`, or what was tried and saves more."""
    first = next(iter(kernel.findings), None)
    percent = kernel.fastest_percent
    if kernel.fastest is not None and (first is None or not of_kernel.is_before(first, percent)):
        return f"-{percent:.0f} % {trials_view.changes_text(kernel.fastest.change)}"
    if first is None:
        return "none"
    return f"{view.saving(first) or first.severity} {first.rule}"
