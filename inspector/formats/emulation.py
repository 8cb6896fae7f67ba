"""What a script did on an emulated GPU as a document, the verdict first, and as JSON."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ..base.named_files import left_out, source_line
from ..base.printable import printable_line
from ..explain.quantities import amount
from ..explain.view import plural
from ..pipeline.emulated_code import BufferState, CodeResult
from ..pipeline.emulation import EmulationResult, ScriptFailure
from ..pipeline.emulation_profile import (
    AccessProfile,
    BranchProfile,
    EmulationFinding,
    EmulationProfile,
    LineCount,
)
from ..present.document import (
    Block,
    Code,
    Column,
    Columns,
    Document,
    Section,
    Span,
    paragraphs,
    table,
)

SCHEMA_VERSION = 1
MAX_LINES = 12
"""Source lines of a kernel that the text shows."""
MAX_UNJUDGED = 5
"""Checks without a meaning that the text shows."""
MOST_TEST_ID = 200
"""Characters of a test's id in a line: that of a parameter may be long."""
_MAX_CLASSES = 3
_SOURCE_WIDTH = 60


def fields(result: EmulationResult) -> dict[str, Any]:
    """Everything as JSON values, `schema_version` 1."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "origin": "emulated",
        "status": result.status,
        "exit_status": result.exit_status,
        "failures": result.failures,
        "complete": result.complete,
        "launches": result.launches,
        "notes": result.notes,
        "unjudged": result.unjudged,
        "kernels": result.kernels,
    }
    return _plain(document)


def _plain(document: dict[str, Any]) -> dict[str, Any]:
    """JSON values, null for numbers that JSON lacks."""
    values: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return values


def document(result: EmulationResult, *, profile: bool = False) -> Document:
    """Whether the script passed, what kernels did that they must not, and notes; then profiles."""
    findings = [
        f"{finding_line(each)} in {kernel.name}"
        for kernel in result.kernels
        for each in kernel.findings
    ]
    notes = paragraphs((*(f"note: {note}" for note in result.notes), *unjudged_lines(result)))
    title = (Span(verdict(result), "strong"), Span(f"; {executed_line(result)}"))
    profiles = (kernel_section(kernel, MAX_LINES) for kernel in result.kernels if profile)
    return (Section((Code(tuple(findings)), *notes), title, is_subject=True), *profiles)


def verdict(result: EmulationResult) -> str:
    """Whether the script's results can be trusted, as its exit status says it."""
    if result.status:
        return failure_line(result)
    if result.findings:
        return f"FAILED: {plural(len(result.findings), 'finding')}, though the script's status is 0"
    given_up = sum(kernel.given_up for kernel in result.kernels)
    if given_up:
        return f"FAILED: {plural(given_up, 'launch')} given up, though the script's status is 0"
    if not result.launches:
        return "nothing was checked: no kernel was launched; the script's status is 0"
    ending = "" if result.complete else ", which did not come to its own end"
    is_part = any(kernel.workgroups < kernel.grid_workgroups for kernel in result.kernels)
    part = " in the workgroups that were executed: results are not real" if is_part else ""
    return f"passed: status 0 of the script{ending}, no findings{part}"


def executed_line(result: EmulationResult) -> str:
    """What was executed; how many findings there are, where the verdict does not say it."""
    findings = plural(len(result.findings), "finding") if result.findings else "no findings"
    parts = [
        plural(len(result.kernels), "kernel"),
        plural(result.launches, "launch"),
        f"{_workgroups(result.kernels)} executed in {result.seconds:.1f} s",
        *([f"with {result.configs} configurations"] if result.configs > 1 else []),
        *([findings] if result.status and result.launches else []),
    ]
    ending = "" if result.complete else "; the script did not come to its end"
    return f"{', '.join(parts)}{ending}"


def _workgroups(kernels: Sequence[EmulationProfile]) -> str:
    executed = sum(kernel.workgroups for kernel in kernels)
    total = sum(kernel.grid_workgroups for kernel in kernels)
    of = f" of {total:,}" if executed < total else ""
    return f"{plural(executed, 'workgroup')}{of}"


def failure_line(result: EmulationResult) -> str:
    """`the script FAILED, status 1: AssertionError: …`; of a run whose status is not 0."""
    failures = result.failures
    # One that failed twice, in its fixtures too, is one test.
    tests = len({failure.test for failure in failures if failure.test is not None})
    subject = f"{plural(tests, 'test')}" if tests else "the script"
    status = f"status {result.status}"
    if not failures:
        return f"{subject} FAILED, {status}{_signal(result.status)}"
    more = f"; and {len(failures) - 1} more" if len(failures) > 1 else ""
    return f"{subject} FAILED, {status}: {failure_text(failures[0])}{more}"


def failure_text(failure: ScriptFailure) -> str:
    """The test, if it was one, the exception and its place, on one line."""
    test = f"{_shortened(failure.test, MOST_TEST_ID)}: " if failure.test is not None else ""
    line = f":{failure.line}" if failure.line is not None else ""
    place = f" at {os.path.basename(failure.file)}{line}" if failure.file else ""
    config = f" with {failure.config}" if failure.config else ""
    return printable_line(f"{test}{failure.error}{place}{config}")


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _signal(status: int) -> str:
    """The signal that a status stands for, as shells have it; "" for none."""
    try:
        return f" ({signal.Signals(status - 128).name})" if status > 128 else ""
    except ValueError:
        return ""


def unjudged_lines(result: EmulationResult) -> Iterator[str]:
    """How many checks could mean nothing, and where the first of them are."""
    checks = result.unjudged
    if not checks:
        return
    total = sum(check.count for check in checks)
    yield f"{plural(total, 'check')} could not mean anything: values are not known here"
    for check in checks[:MAX_UNJUDGED]:
        times = f" ({check.count} times)" if check.count > 1 else ""
        yield f"{os.path.basename(check.file)}:{check.line}: {check.what}{times}"
    if len(checks) > MAX_UNJUDGED:
        yield f"{len(checks) - MAX_UNJUDGED} more"


def code_fields(result: CodeResult) -> dict[str, Any]:
    """The result of launching assembly or a code object as JSON values, `schema_version` 1."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "origin": "emulated",
        "kernels": [result.profile],
        "buffers": result.buffers,
    }
    return _plain(document)


def code_document(result: CodeResult, *, profile: bool = False) -> Document:
    """The same for people: the verdict, and what the kernel's buffers hold afterwards."""
    kernel = result.profile
    executed = f"{_workgroups((kernel,))} executed in {kernel.execute_seconds:.1f} s"
    title = (
        Span(code_verdict(kernel), "strong"),
        Span(f"; {kernel.name} on {kernel.arch}: {executed}"),
    )
    note = left_out(line.file for line in kernel.lines if line.file)
    lines = (*map(finding_line, kernel.findings), *map(buffer_line, result.buffers))
    blocks: tuple[Block, ...] = (Code(lines), *paragraphs((f"note: {note}" if note else "",)))
    profiles = (kernel_section(kernel, MAX_LINES),) if profile else ()
    return (Section(blocks, title, is_subject=True), *profiles)


def code_verdict(kernel: EmulationProfile) -> str:
    """Whether a launched kernel did what it must not, or was given up."""
    if kernel.findings:
        return f"FAILED: {plural(len(kernel.findings), 'finding')}"
    return "FAILED: 1 launch given up" if kernel.given_up else "passed: no findings"


def buffer_line(buffer: BufferState) -> str:
    """How much of a buffer changed, and between which values it lies."""
    values = "no numbers"
    if buffer.smallest is not None:
        values = f"{buffer.smallest:g} to {buffer.largest:g}"
    nan = f", {buffer.nan:,} NaN" if buffer.nan else ""
    return f"{buffer.name}   {buffer.changed:,} elements changed; {values}{nan}"


def kernel_section(kernel: EmulationProfile, most_lines: int) -> Section:
    """The instructions executed in a kernel, by source line, and what its accesses cost."""
    total = kernel.executed["instructions"]
    classes = ", ".join(
        f"{name} {count:,}" for name, count in kernel.executed.items() if name != "instructions"
    )
    columns: Columns = (
        ("line", lambda count: str(count.line) if count.line else "-"),
        (Column("executed", right=True), lambda count: f"{count.instructions:,}"),
        (Column("share", right=True), lambda count: f"{100 * count.instructions / total:.1f} %"),
        (Column("mostly", shrinks=True), _main_classes),
        (Column("source", shrinks=True), _source),
    )
    costs = (
        *_global_memory(kernel),
        *_bank_conflicts(kernel),
        *_traffic(kernel),
        *_loop_trips(kernel),
        *_divergence(kernel),
        *_imbalance(kernel),
    )
    blocks: tuple[Block, ...] = (
        *paragraphs((f"{total:,} instructions executed: {classes}",)),
        table(columns, kernel.lines[:most_lines]),
        *paragraphs(costs),
    )
    return Section(blocks, (Span(kernel.name, "strong"), Span(_heading(kernel))), is_subject=True)


def _heading(kernel: EmulationProfile) -> str:
    part = ""
    if kernel.workgroups < kernel.grid_workgroups:
        why = f"{plural(kernel.given_up, 'launch')} given up" if kernel.given_up else "a sample"
        part = f" of {kernel.grid_workgroups:,} ({why}: results are not real)"
    return (
        f" on {kernel.arch}   {plural(kernel.launches, 'launch')}, "
        f"{plural(kernel.workgroups, 'workgroup')}{part}, {plural(kernel.waves, 'wave')}"
    )


def _main_classes(count: LineCount) -> str:
    classes = list(count.classes.items())[:_MAX_CLASSES]
    return " ".join(f"{name} {number:,}" for name, number in classes)


def _source(count: LineCount) -> str:
    if count.file is None or not count.line:
        return ""
    return source_line(count.file, count.line)[:_SOURCE_WIDTH]


def _global_memory(kernel: EmulationProfile) -> Iterator[str]:
    """Bytes moved, cache lines against the fewest possible, and where most lines are wasted."""
    accesses = [access for access in kernel.accesses if access.cache_lines]
    if not accesses:
        return
    bytes_of = {
        op: sum(access.bytes for access in accesses if access.op == op)
        for op in ("load", "store", "atomic")
    }
    lines = sum(access.cache_lines or 0 for access in accesses)
    least = sum(access.least_cache_lines or 0 for access in accesses)
    parts = [f"{op}s {amount(number, 'B')}" for op, number in bytes_of.items() if number]
    yield f"global memory: {', '.join(parts)}; {lines / least:.2f} x the least cache lines"
    worst = max(accesses, key=_wasted_lines)
    if _wasted_lines(worst) > 0:
        yield (
            f"most wasted at {_place(worst)}: "
            f"{(worst.cache_lines or 0) / worst.waves:.1f} lines for each access of a wave, "
            f"{(worst.least_cache_lines or 0) / worst.waves:.1f} would do"
        )


def _wasted_lines(access: AccessProfile) -> int:
    return (access.cache_lines or 0) - (access.least_cache_lines or 0)


def _bank_conflicts(kernel: EmulationProfile) -> Iterator[str]:
    accesses = [access for access in kernel.accesses if access.conflict_cycles]
    if not accesses:
        return
    total = sum(access.conflict_cycles or 0 for access in accesses)
    worst = max(accesses, key=lambda access: access.conflict_cycles or 0)
    yield f"LDS bank conflicts: {total:,} cycles"
    yield (
        f"most at {_place(worst)}: {(worst.conflict_cycles or 0) / worst.waves:.1f} cycles "
        "more for each access of a wave"
    )


def _traffic(kernel: EmulationProfile) -> Iterator[str]:
    traffic = kernel.traffic
    if traffic is None:
        return
    per_launch = "" if kernel.launches == 1 else " of each launch, in the mean"
    yield (
        f"distinct bytes{per_launch}: {amount(traffic.unique_read, 'B')} read, "
        f"{amount(traffic.unique_written, 'B')} written"
    )
    flops = traffic.matrix_flops + traffic.vector_flops
    if flops and kernel.flops_per_byte is not None:
        yield (
            f"{amount(flops, 'flop')}, {kernel.flops_per_byte:.3g} for each distinct byte (all "
            "lanes taken as active)"
        )


def _loop_trips(kernel: EmulationProfile) -> Iterator[str]:
    if kernel.trips:
        loops = ", ".join(f"{name} {count:g}" for name, count in kernel.trips.items())
        yield f"iterations of each loop, for each time it is entered: {loops}"


def _divergence(kernel: EmulationProfile) -> Iterator[str]:
    divided = [branch for branch in kernel.branches if branch.divided]
    if not divided:
        return
    worst = max(divided, key=lambda branch: branch.divided or 0)
    times = sum(branch.divided or 0 for branch in divided)
    total = sum(branch.waves for branch in kernel.branches)
    yield (
        f"branches with the lanes of a wave divided: {times:,} of {total:,}, most at "
        f"{_place(worst)} ({worst.divided:,} of {worst.waves:,})"
    )


def _imbalance(kernel: EmulationProfile) -> Iterator[str]:
    spread = kernel.per_workgroup
    if spread is not None and spread.least != spread.most:
        yield (
            f"instructions of a workgroup: {spread.least:,} to {spread.most:,}, median "
            f"{spread.median:,}"
        )


def finding_line(finding: EmulationFinding) -> str:
    """Place, kind and detail of a finding, and its instruction."""
    place = f"{finding.file}:{finding.source_line}: " if finding.file else ""
    return (
        f"{place}{finding.kind}: {finding.detail} ({finding.instruction}, line {finding.line} of "
        "the assembly)"
    )


def _place(profile: AccessProfile | BranchProfile) -> str:
    line = f"line {profile.source_line}: " if profile.source_line else ""
    return f"{line}{profile.instruction}"
