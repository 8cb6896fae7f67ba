"""The report for programs that read text by the token: coding agents.

A kernel has its time, its figures and its first findings, each with its id (`explain/items.py`) and
the command that tries cures; `kinspect show` of its id has all of them, its loops and accesses, in
`MOST_TOKENS` at most. What is left out is counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TextIO

from msgspec import Struct

from ..base.long_names import with_short_names
from ..base.printable import printable_line
from ..base.streams import no_commands
from ..compare.trials.planning import findings_to_try
from ..explain import items, loop_view, occupancy_view, time_view, view
from ..explain.trials_view import findings_summary, outcome_text, tried_lines
from ..lint.lint_results import CheckedKernel
from ..model import (
    Change,
    ErrorRecord,
    Finding,
    KernelReport,
    MemoryOp,
    Metric,
    Report,
    Scalar,
    value_of,
)
from ..model.metric import metric_of
from .agent_calls import SHELL, AgentCalls, AgentSubject

MOST_TOKENS = 2_000
BYTES_PER_TOKEN = 3
"""In UTF-8: the words, numbers and signs of these reports have 3.1 to 3.6 on average, and a
tokenizer cuts between them at least."""
MOST_FINDINGS = 3
"""Of a kernel, unless all of it is asked for."""
MOST_SUMMARISED = 20
"""Kernels that the summary of a run names."""
_MOST_OPTIONS = 600
"""Bytes of a kernel's options: a kernel may have dozens of constexprs."""
_MOST_FOR_PARTS = 1_800
"""Bytes of the lines on loops and accesses: the findings matter more."""
_MOST_ACCESSES = 3
_LEFT_OUT = 120
"""Bytes of the line on what is left out."""
_HEAD = tuple(
    (name, metric_of(name))
    for name in (
        *("vgprs", "agprs", "sgprs", "vgpr_spills", "scratch_bytes", "lds_bytes"),
        *("waves_per_simd", "limited_by"),
    )
)
"""Key in the line, and the metric."""
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


class Budget:
    """The bytes that are left of a kernel's share."""

    def __init__(self, size: int = MOST_TOKENS * BYTES_PER_TOKEN) -> None:
        self.left = size

    def takes(self, lines: Iterable[str]) -> bool:
        """Whether these lines fit; they are counted then."""
        size = sum(len(line.encode("utf-8", "backslashreplace")) + 1 for line in lines)
        if size > self.left:
            return False
        self.left -= size
        return True

    def fitting(self, lines: Sequence[str], reserve: int) -> tuple[Sequence[str], int]:
        """The first lines that fit and leave so many bytes, and how many others there are."""
        self.left -= reserve
        for number, line in enumerate(lines):
            if not self.takes([line]):
                return lines[:number], len(lines) - number
        return lines, 0


def write(
    report: Report, stream: TextIO, calls: AgentCalls = SHELL, *, whole: bool = False
) -> None:
    """Writes the kernels, worst first and of several a summary before, then what failed.

    Of the `whole` all findings, loops and accesses, as far as they fit.
    """
    short = shortened_ids(report.kernels)
    kernels = view.worst_first(report.kernels)
    to_try = findings_to_try(report.kernels)
    lines: list[str] = []
    if len(kernels) > 1:
        graded = [[finding.severity for finding in kernel.findings] for kernel in kernels]
        told = view.severities(severity for each in graded for severity in each)
        lines.append(f"summary {view.plural(len(kernels), 'kernel')}: {told}")
        subjects = (subject_of(kernel, short) for kernel in kernels)
        lines += [*summary_lines(zip(subjects, graded, strict=True)), ""]
    for kernel in kernels:
        lines += [*_kernel(kernel, short, to_try, calls, whole=whole), ""]
    write_lines([*lines, *remarks(report.errors, report.notes)], stream)


def write_lines(lines: Iterable[str], stream: TextIO) -> None:
    """Writes lines so that none steers a terminal or a CI runner; long names are cut."""
    text = "\n".join(printable_line(with_short_names(line)) for line in lines).rstrip()
    stream.write(no_commands(text) + "\n")


def remarks(errors: Iterable[ErrorRecord], notes: Iterable[str]) -> Iterator[str]:
    """Lines on what failed, and on the run as a whole."""
    for error in errors:
        subject = error.kernel or error.file or ""
        yield f"failed {subject}: {error.stage}: {error.message}; {error.hint}"
    yield from (f"note {note}" for note in notes)


def shortened_ids(kernels: Sequence[KernelReport | CheckedKernel]) -> dict[str, str]:
    """Keys of the kernels and fingerprints of their findings -> what the report calls them."""
    keys = [items.kernel_key(kernel.id) for kernel in kernels]
    return items.shortened([*keys, *(f.fingerprint for k in kernels for f in k.findings)])


def subject_of(kernel: KernelReport, short: Mapping[str, str]) -> AgentSubject:
    """What lines and commands say of a kernel."""
    variant = kernel.variant
    case = variant.case if variant is not None else None
    place = view.place(kernel.source) if kernel.source is not None else ""
    launch = ""
    if variant is not None and variant.tuning is not None:
        launch = place  # the autotuner's configurations stand above the kernel
    elif variant is not None and variant.call_site is not None:
        launch = view.place(variant.call_site)
    return AgentSubject(
        id=short[items.kernel_key(kernel.id)],
        label=f"{kernel.name}[{case}]" if case else kernel.name,
        arch=kernel.arch,
        path=view.target_of(kernel),
        place=place,
        launch=launch,
    )


def finding_blocks(
    findings: Sequence[tuple[Finding, str]],
    subject: AgentSubject,
    short: Mapping[str, str],
    budget: Budget,
    calls: AgentCalls = SHELL,
    to_try: frozenset[str] = frozenset(),
) -> Iterator[str]:
    """Lines on findings with their messages, as long as the budget lasts; how many are left out.

    A cure that was said is not said again. `to_try` are fingerprints of those for which `kinspect
    try` compiles something.
    """
    budget.left -= _LEFT_OUT
    printed = _Printed({}, {})
    for number, (finding, message) in enumerate(findings):
        block = list(_finding(finding, message, subject, short, printed, calls, to_try))
        if not budget.takes(block):
            more = view.plural(len(findings) - number, "more finding")
            yield f"{more}: {calls.analyze(subject)}"
            return
        yield from block


class _Printed(Struct, frozen=True):
    """What a kernel's lines hold already.

    Args:
        cures: advice -> id of the finding that has it.
        trials: lines on what was tried -> id of the finding that has them.
    """

    cures: dict[str, str]
    trials: dict[tuple[str, ...], str]


def _finding(
    finding: Finding,
    message: str,
    subject: AgentSubject,
    short: Mapping[str, str],
    printed: _Printed,
    calls: AgentCalls,
    to_try: frozenset[str],
) -> Iterator[str]:
    identity = short[finding.fingerprint]
    heading = f"finding {identity} {finding.rule} {finding.severity}{_place_and_saving(finding)}"
    yield f"{heading}: {message}"
    advice = " ".join(finding.advice.split())
    if advice in printed.cures:
        yield f"  fix as {printed.cures[advice]}"
    elif advice:
        printed.cures[advice] = identity
        yield f"  fix {advice}"
    trials = [*tried_lines(finding)]
    helped = next((trial for trial in finding.trials if trial.helped), None)
    if helped is not None:
        trials.append(f"apply {applied(helped.change, subject)}")
    if tuple(trials) in printed.trials:
        yield f"  tried as {printed.trials[tuple(trials)]}"
    elif trials:
        printed.trials[tuple(trials)] = identity
        yield from (f"  {line}" for line in trials)
    if not finding.trials and subject.is_compiled and finding.fingerprint in to_try:
        yield f"  try {calls.try_cures(subject, finding.rule)}"


def _place_and_saving(finding: Finding) -> str:
    """Where a finding is and what its cure saves, as far as they are known."""
    where = view.finding_place(finding)
    saves = f" saves={finding.gain_percent:g}%" if finding.gain_percent is not None else ""
    return (f" {where}" if where else "") + saves


def applied(changes: Iterable[Change], subject: AgentSubject) -> str:
    """What to change, and where, as data."""
    return "; ".join(_change(change, subject) for change in changes)


def _change(change: Change, subject: AgentSubject) -> str:
    """A change as data: its kind, name and value, the value before, and the place to make it."""
    value = "" if change.value is None else f"={_quoted(change.value)}"
    before = "" if change.before is None else f" was={_quoted(change.before)}"
    is_passed = change.kind in ("option", "constexpr")
    place = subject.launch if is_passed else subject.place
    if change.at:
        place = " ".join(map(view.place, change.at))
    where = f" at {place}" if place and change.kind != "environment" else ""
    return f"{change.kind} {_quoted(change.name)}{value}{before}{where}"


def _quoted(value: Scalar) -> str:
    return json.dumps(value) if isinstance(value, str) and " " in value else str(value)


def summary_lines(rows: Iterable[tuple[AgentSubject, Iterable[str]]]) -> Iterator[str]:
    """A line for each of the worst kernels, with the severities of its findings."""
    lines = [
        f"  {subject.id} {subject.label} {subject.arch or 'unknown target'}:"
        f" {view.severities(graded)}"
        for subject, graded in rows
    ]
    yield from lines[:MOST_SUMMARISED]
    if len(lines) > MOST_SUMMARISED:
        yield f"  and {len(lines) - MOST_SUMMARISED} more"


def _kernel(
    kernel: KernelReport,
    short: Mapping[str, str],
    to_try: frozenset[str],
    calls: AgentCalls,
    *,
    whole: bool,
) -> Iterator[str]:
    """The lines of a kernel, within its share of tokens."""
    budget = Budget()
    subject = subject_of(kernel, short)
    head = list(_head(kernel, subject, whole=whole))
    commands = list(_commands(kernel, subject, calls)) if whole else []
    budget.takes([*head, *commands])
    yield from head
    if whole:
        parts = list(_parts(kernel, subject.id, calls))
        budget.takes(parts)
        yield from parts
    if not kernel.findings:
        yield f"findings none: {findings_summary(kernel)}"
    yield from commands
    findings = [(finding, finding.message) for finding in kernel.findings]
    shown = findings if whole else findings[:MOST_FINDINGS]
    yield from finding_blocks(shown, subject, short, budget, calls, to_try)
    if (fastest := kernel.fastest) is not None and kernel.findings:
        yield f"faster {applied(fastest.change, subject)}: {outcome_text(fastest)}"
    if kernel.time is not None and subject.is_compiled:
        yield f"try {calls.try_cures(subject)}"
    if not whole:
        more = len(findings) - len(shown)
        left_out = f"{view.plural(more, 'more finding')}, " if more else ""
        yield f"{left_out}loops, accesses, code; a finding by its id: {calls.show(subject.id)}"


def _head(kernel: KernelReport, subject: AgentSubject, *, whole: bool) -> Iterator[str]:
    yield subject.heading
    configuration = " ".join(view.configuration(kernel).split())
    if len(configuration) > _MOST_OPTIONS:
        configuration = f"{configuration[:_MOST_OPTIONS]}…"
    if configuration and whole:
        yield f"options {configuration}"
    if kernel.time is not None:
        where = time_view.where(kernel.time)
        spent = f"; {where}" if where else ""
        estimate = time_view.estimate(kernel.time)
        yield f"time {estimate}, limited by {kernel.time.limiter}{spent}"
        if whole:
            yield f"busy {time_view.busy_units(kernel.time)}"
    elif kernel.no_time:
        yield f"time unknown: {kernel.no_time}"
    yield f"figures {_pairs(kernel.metrics, _HEAD)}"
    yield from filter(None, (view.assumed(kernel), view.emulated(kernel)))
    if kernel.unread:
        yield f"unread {view.unread(kernel)}"
    if whole:
        yield from (f"occupancy {line}" for line in occupancy_view.occupancy_lines(kernel)[:1])


def _commands(kernel: KernelReport, subject: AgentSubject, calls: AgentCalls) -> Iterator[str]:
    if kernel.variant is not None:
        yield f"code {calls.code(subject)}"
    registers = calls.registers(subject)
    if registers is not None:
        yield f"registers {registers}"


def _parts(kernel: KernelReport, identity: str, calls: AgentCalls) -> Iterator[str]:
    """The hot loops, the main one first, and the accesses in them that waste most."""
    budget = Budget(_MOST_FOR_PARTS)
    hot = [loop for loop in kernel.loops if loop.hot]
    hot.sort(key=lambda loop: loop.id != kernel.main_loop)
    for number, loop in enumerate(hot):
        main = " main" if loop.id == kernel.main_loop else ""
        where = loop_view.source_span(loop.source)
        name = items.loop_id(identity, loop.id)
        line = f"loop {name}{main} {where}: {_pairs(loop.metrics, _LOOP)}"
        if not budget.takes([line]):
            yield f"{len(hot) - number} more hot loops: {calls.show(identity)}"
            return
        yield line
    for access in _wasteful(kernel):
        line = _access(access, identity)
        if budget.takes([line]):
            yield line


def _wasteful(kernel: KernelReport) -> list[MemoryOp]:
    """The accesses in hot loops that waste most; of equal ones the first."""
    hot = {loop.id for loop in kernel.loops if loop.hot}
    distinct: dict[tuple[object, ...], MemoryOp] = {}
    for op in kernel.memory_ops:
        if op.loop in hot and _wasted(op) > 0:
            distinct.setdefault((op.mnemonic, op.loop, op.source, op.use), op)
    return sorted(distinct.values(), key=_wasted, reverse=True)[:_MOST_ACCESSES]


def _wasted(op: MemoryOp) -> float:
    """Cache lines, or cycles of the LDS, beyond what the bytes need; 0 where not known."""
    use = op.use
    if use is None:
        return 0
    if use.lines is not None and use.lines_ideal is not None:
        return use.lines - use.lines_ideal
    return use.conflicts or 0


def _access(op: MemoryOp, identity: str) -> str:
    use = op.use
    names = ("lines", "lines_ideal", "conflicts", "cycles", "cycles_ideal")
    figures = ((name, getattr(use, name)) for name in names)
    pairs = " ".join(f"{name}={view.show(value)}" for name, value in figures if value is not None)
    where = view.place(op.source) or f"ISA {op.line}"
    return f"access {items.access_id(identity, op.line)} {op.mnemonic} {where}: {pairs}"


def _pairs(metrics: Mapping[str, Metric], names: Sequence[tuple[str, str]]) -> str:
    """`key=value` of each metric that is there; `?` for what is unknown, and zeros are left out."""
    pairs = []
    for key, name in names:
        value = value_of(metrics, name)
        if name in metrics and value != 0:
            pairs.append(f"{key}={'?' if value is None else view.show(value)}")
    return " ".join(pairs)
