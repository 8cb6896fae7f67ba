"""The report for programs that read text by the token: coding agents.

A kernel takes at most `MOST_TOKENS`: its figures, its loops, and its findings worst first, each
with the command that says more. What does not fit is counted. Ids of findings are their
fingerprints, cut to what tells them apart in the run: they stay when lines move.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from ..explain import loop_view, occupancy_view, view
from ..explain.trials_view import tried_lines
from ..model import Finding, KernelReport, Metric, Report, value_of
from ..printable import printable_line
from ..streams import no_commands

MOST_TOKENS = 2_000
CHARACTERS_PER_TOKEN = 4
"""Of English and code, as tokenizers of large models cut them."""
_SHORTEST_ID = 6
_HEAD = (
    # key in the line -> metric
    ("vgprs", "vgpr_count"),
    ("agprs", "agpr_count"),
    ("sgprs", "sgpr_count"),
    ("spilled_vgprs", "vgpr_spill_count"),
    ("scratch_bytes", "scratch_bytes"),
    ("lds_bytes", "lds_bytes"),
    ("waves_per_eu", "occupancy.waves_per_eu"),
    ("limited_by", "occupancy.limiter"),
)
_LOOP = (
    ("instructions", "count.instructions"),
    ("mfma", "count.mfma"),
    ("wmma", "count.wmma"),
    ("valu", "count.valu"),
    ("global_loads", "count.global_load"),
    ("lds_reads", "count.lds_read"),
    ("scratch_loads", "count.scratch_load"),
    ("full_waits", "count.full_wait"),
    ("barriers", "count.barrier"),
    ("bound_cycles", "bound.cycles"),
    ("bound_by", "bound.unit"),
)
_COMPILED = (".py", ".ttir", ".ttgir")
"""Endings of files of which `kinspect try` can compile other versions."""


def write(report: Report, stream: TextIO) -> None:
    """Writes the kernels, worst first, then what failed."""
    ids = finding_ids(report.kernels)
    lines: list[str] = []
    for kernel in view.worst_first(report.kernels):
        lines += [*_kernel(kernel, ids), ""]
    for error in report.errors:
        subject = error.kernel or error.file or ""
        lines.append(f"failed {subject}: {error.stage}: {error.message}; {error.hint}")
    lines += [f"note {note}" for note in report.notes]
    text = "\n".join(printable_line(line) for line in lines).rstrip()
    stream.write(no_commands(text) + "\n")


def finding_ids(kernels: Sequence[KernelReport]) -> dict[str, str]:
    """Fingerprint -> its shortest beginning that no other fingerprint of the run has."""
    fingerprints = sorted({f.fingerprint for kernel in kernels for f in kernel.findings})
    length = _SHORTEST_ID
    while len({text[:length] for text in fingerprints}) < len(fingerprints):
        length += 1
    return {text: text[:length] for text in fingerprints}


def _kernel(kernel: KernelReport, ids: Mapping[str, str]) -> Iterator[str]:
    """The lines of a kernel, within its share of tokens."""
    left = MOST_TOKENS * CHARACTERS_PER_TOKEN
    for line in _figures(kernel):
        left -= len(line) + 1
        yield line
    left -= 80  # for the line on what is left out
    for number, finding in enumerate(kernel.findings):
        block = list(_finding(finding, kernel, ids))
        size = sum(len(line) + 1 for line in block)
        if size > left:
            yield f"{len(kernel.findings) - number} more findings: {_command('analyze', kernel)}"
            return
        left -= size
        yield from block


def _figures(kernel: KernelReport) -> Iterator[str]:
    """Name and place, options, registers and occupancy, hot loops, commands for more."""
    place = f" {view.place(kernel.source)}" if kernel.source is not None else ""
    yield f"kernel {_label(kernel)} {kernel.arch or 'unknown target'}{place}"
    configuration = view.configuration(kernel)
    if configuration:
        yield f"options {' '.join(configuration.split())}"
    yield f"figures {_pairs(kernel.metrics, _HEAD)}"
    yield from (f"occupancy {line}" for line in occupancy_view.occupancy_lines(kernel)[:1])
    for loop in kernel.loops:
        if loop.hot:
            main = " main" if loop.id == kernel.main_loop else ""
            where = loop_view.source_span(loop.source)
            yield f"loop {loop.id}{main} {where}: {_pairs(loop.metrics, _LOOP)}"
    if not kernel.findings:
        yield "findings none"
    if kernel.variant is not None:
        yield f"code {_command('show', kernel)} --isa"
    yield f"registers {_command('registers', kernel)}"


def _finding(finding: Finding, kernel: KernelReport, ids: Mapping[str, str]) -> Iterator[str]:
    saves = f" saves<={finding.saves_percent:g}%" if finding.saves_percent is not None else ""
    where = view.finding_place(finding)
    place = f" {where}" if where else ""
    identity = f"{ids[finding.fingerprint]} {finding.rule} {finding.severity}"
    yield f"finding {identity}{place}{saves}: {finding.message}"
    if finding.advice:
        yield f"  cure {' '.join(finding.advice.split())}"
    for line in tried_lines(finding):
        yield f"  {line}"
    if not finding.trials and view.path_of(kernel).endswith(_COMPILED):
        yield f"  try {_command('try', kernel)} --for {finding.rule}"


def _label(kernel: KernelReport) -> str:
    case = kernel.variant.case if kernel.variant is not None else None
    return f"{kernel.name}[{case}]" if case else kernel.name


def _pairs(metrics: Mapping[str, Metric], names: Sequence[tuple[str, str]]) -> str:
    """`key=value` of each metric that is there; `?` for what is unknown, and zeros are left out."""
    pairs = []
    for key, name in names:
        value = value_of(metrics, name)
        if name in metrics and value != 0:
            pairs.append(f"{key}={'?' if value is None else view.show(value)}")
    return " ".join(pairs)


def _command(name: str, kernel: KernelReport) -> str:
    """A command line about this kernel alone."""
    words = ["kinspect", name, view.path_of(kernel), "--kernel", _label(kernel)]
    if kernel.arch is not None and view.path_of(kernel).endswith(_COMPILED):
        words += ["--arch", kernel.arch]
    return shlex.join(words)
